//! Actions as columns of Parquet, written with the levels of [Dremel](https://research.google/pubs/pub36632/).
//!
//! A definition level says how much of a value's path is there: 0 is another action's row. A repetition level of 1 goes
//! on in the same map or list.

use crate::action::{AddedFile, PartitionValues, RemovedFile};
use crate::metadata::{LogAction, TableMetadata};
use crate::{schema, uri};
use bytes::Bytes;
use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::collections::BTreeMap;
use std::sync::Arc;

const SCHEMA: &str = "
message checkpoint {
  optional group txn {
    optional binary appId (STRING);
    required int64 version;
    optional int64 lastUpdated;
  }
  optional group add {
    optional binary path (STRING);
    optional group partitionValues (MAP) {
      repeated group key_value { required binary key (STRING); optional binary value (STRING); }
    }
    required int64 size;
    required int64 modificationTime;
    required boolean dataChange;
    optional binary stats (STRING);
    optional group tags (MAP) {
      repeated group key_value { required binary key (STRING); optional binary value (STRING); }
    }
  }
  optional group remove {
    optional binary path (STRING);
    optional int64 deletionTimestamp;
    required boolean dataChange;
    optional boolean extendedFileMetadata;
    optional group partitionValues (MAP) {
      repeated group key_value { required binary key (STRING); optional binary value (STRING); }
    }
    optional int64 size;
  }
  optional group metaData {
    optional binary id (STRING);
    optional binary name (STRING);
    optional binary description (STRING);
    optional group format {
      optional binary provider (STRING);
      optional group options (MAP) {
        repeated group key_value { required binary key (STRING); optional binary value (STRING); }
      }
    }
    optional binary schemaString (STRING);
    optional group partitionColumns (LIST) {
      repeated group list { optional binary element (STRING); }
    }
    optional group configuration (MAP) {
      repeated group key_value { required binary key (STRING); optional binary value (STRING); }
    }
    optional int64 createdTime;
  }
  optional group protocol {
    required int32 minReaderVersion;
    required int32 minWriterVersion;
  }
}";

/// Levels of a member of an action.
const MEMBER: i16 = 1;
/// Levels of a member of `metaData.format`.
const FORMAT_MEMBER: i16 = 2;

/// A checkpoint file with these actions.
pub(super) fn write(actions: &[LogAction]) -> Result<Bytes, String> {
    let written = write_file(actions).map_err(|error| error.to_string())?;
    Ok(written.into())
}

fn write_file(actions: &[LogAction]) -> Result<Vec<u8>, ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    write_columns(Columns { actions, group: file.next_row_group()? })?;
    file.into_inner()
}

/// Writes all columns, in the order of the schema.
fn write_columns(mut columns: Columns<'_>) -> Result<(), ParquetError> {
    let txn = |action: &LogAction| match action {
        LogAction::Txn(app_id, transaction) => Some((app_id.clone(), *transaction)),
        _ => None,
    };
    columns.text(MEMBER, |action| txn(action).map(|(app_id, _)| Some(app_id)))?;
    columns.required::<Int64Type>(|action| txn(action).map(|(_, transaction)| transaction.version))?;
    columns.optional::<Int64Type>(|action| txn(action).map(|(_, transaction)| transaction.last_updated))?;

    columns.text(MEMBER, |action| Some(Some(uri::encode(&add(action)?.path))))?;
    columns.map(MEMBER, |action| Some(Some(values(&add(action)?.partition_values))))?;
    columns.required::<Int64Type>(|action| Some(number(add(action)?.size)))?;
    columns.required::<Int64Type>(|action| Some(add(action)?.modification_time))?;
    // The rows are in the table already: a checkpoint changes none.
    columns.required::<BoolType>(|action| add(action).map(|_| false))?;
    columns.text(MEMBER, |action| Some(add(action)?.stats.clone()))?;
    columns.map(MEMBER, |action| Some(Some(texts(&add(action)?.tags))))?;

    columns.text(MEMBER, |action| Some(Some(uri::encode(&remove(action)?.path))))?;
    columns.optional::<Int64Type>(|action| Some(Some(remove(action)?.deletion_time)))?;
    columns.required::<BoolType>(|action| remove(action).map(|_| false))?;
    columns.optional::<BoolType>(|action| {
        remove(action).map(|file| Some(file.partition_values.is_some() && file.size.is_some()))
    })?;
    columns.map(MEMBER, |action| Some(remove(action)?.partition_values.as_ref().map(values)))?;
    columns.optional::<Int64Type>(|action| Some(remove(action)?.size.map(number)))?;

    columns.text(MEMBER, |action| Some(Some(metadata(action)?.id.clone())))?;
    columns.text(MEMBER, |action| Some(metadata(action)?.name.clone()))?;
    columns.text(MEMBER, |action| Some(metadata(action)?.description.clone()))?;
    columns.text(FORMAT_MEMBER, |action| metadata(action).map(|_| Some("parquet".into())))?;
    columns.map(FORMAT_MEMBER, |action| metadata(action).map(|_| Some(Vec::new())))?;
    columns.text(MEMBER, |action| Some(Some(schema::text(&metadata(action)?.columns))))?;
    columns.list(|action| Some(metadata(action)?.partition_columns.clone()))?;
    columns.map(MEMBER, |action| Some(Some(texts(&metadata(action)?.configuration))))?;
    columns.optional::<Int64Type>(|action| Some(metadata(action)?.created_time))?;

    let protocol = |action: &LogAction| match action {
        LogAction::Protocol(versions) => Some(*versions),
        _ => None,
    };
    columns.required::<Int32Type>(|action| protocol(action).map(|versions| versions.reader))?;
    columns.required::<Int32Type>(|action| protocol(action).map(|versions| versions.writer))?;

    columns.group.close().map(drop)
}

fn add(action: &LogAction) -> Option<&AddedFile> {
    match action {
        LogAction::Add(file) => Some(file),
        _ => None,
    }
}

fn remove(action: &LogAction) -> Option<&RemovedFile> {
    match action {
        LogAction::Remove(file) => Some(file),
        _ => None,
    }
}

fn metadata(action: &LogAction) -> Option<&TableMetadata> {
    match action {
        LogAction::Metadata(metadata) => Some(metadata),
        _ => None,
    }
}

/// The entries of a map.
type Entries = Vec<(String, Option<String>)>;

fn values(values: &PartitionValues) -> Entries {
    values.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn texts(texts: &BTreeMap<String, String>) -> Entries {
    texts.iter().map(|(name, text)| (name.clone(), Some(text.clone()))).collect()
}

/// A size, of which Delta has 63 bits.
fn number(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// The columns of a row group, one after the other in the order of the schema. Each function takes what a row has there:
/// the outer `None` if the row is another action's, the inner one for null.
struct Columns<'a> {
    actions: &'a [LogAction],
    group: SerializedRowGroupWriter<'a, Vec<u8>>,
}

impl Columns<'_> {
    /// A text whose parents have `parents` levels.
    fn text(
        &mut self,
        parents: i16,
        member: impl Fn(&LogAction) -> Option<Option<String>>,
    ) -> Result<(), ParquetError> {
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        for found in self.actions.iter().map(member) {
            levels.push(found.as_ref().map_or(0, |text| parents + i16::from(text.is_some())));
            values.extend(found.flatten().map(|text| ByteArray::from(text.into_bytes())));
        }
        self.column::<ByteArrayType>(&values, &levels, None)
    }

    fn required<T: DataType>(&mut self, member: impl Fn(&LogAction) -> Option<T::T>) -> Result<(), ParquetError> {
        let found: Vec<Option<T::T>> = self.actions.iter().map(member).collect();
        let levels: Vec<i16> = found.iter().map(|value| i16::from(value.is_some())).collect();
        let values: Vec<T::T> = found.into_iter().flatten().collect();
        self.column::<T>(&values, &levels, None)
    }

    fn optional<T: DataType>(
        &mut self,
        member: impl Fn(&LogAction) -> Option<Option<T::T>>,
    ) -> Result<(), ParquetError> {
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        for found in self.actions.iter().map(member) {
            levels.push(found.as_ref().map_or(0, |value| MEMBER + i16::from(value.is_some())));
            values.extend(found.flatten());
        }
        self.column::<T>(&values, &levels, None)
    }

    /// The two columns of a map: its keys, which are required, and its values.
    fn map(
        &mut self,
        parents: i16,
        member: impl Fn(&LogAction) -> Option<Option<Entries>>,
    ) -> Result<(), ParquetError> {
        let (mut keys, mut key_levels) = (Vec::new(), Vec::new());
        let (mut values, mut value_levels, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
        for found in self.actions.iter().map(member) {
            let entries = match found {
                Some(Some(entries)) if !entries.is_empty() => entries,
                lacking => {
                    let level = lacking.map_or(0, |map| parents + i16::from(map.is_some()));
                    key_levels.push(level);
                    value_levels.push(level);
                    repetitions.push(0);
                    continue;
                }
            };
            for (at, (key, value)) in entries.into_iter().enumerate() {
                keys.push(ByteArray::from(key.into_bytes()));
                key_levels.push(parents + 2);
                value_levels.push(parents + 2 + i16::from(value.is_some()));
                values.extend(value.map(|value| ByteArray::from(value.into_bytes())));
                repetitions.push(i16::from(at > 0));
            }
        }
        self.column::<ByteArrayType>(&keys, &key_levels, Some(&repetitions))?;
        self.column::<ByteArrayType>(&values, &value_levels, Some(&repetitions))
    }

    /// A list of texts.
    fn list(&mut self, member: impl Fn(&LogAction) -> Option<Vec<String>>) -> Result<(), ParquetError> {
        let (mut values, mut levels, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
        for found in self.actions.iter().map(member) {
            let elements = found.as_ref().map_or(0, Vec::len);
            if elements == 0 {
                levels.push(found.map_or(0, |_| MEMBER + 1));
                repetitions.push(0);
                continue;
            }
            for (at, text) in found.into_iter().flatten().enumerate() {
                values.push(ByteArray::from(text.into_bytes()));
                levels.push(MEMBER + 3);
                repetitions.push(i16::from(at > 0));
            }
        }
        self.column::<ByteArrayType>(&values, &levels, Some(&repetitions))
    }

    fn column<T: DataType>(
        &mut self,
        values: &[T::T],
        levels: &[i16],
        repetitions: Option<&[i16]>,
    ) -> Result<(), ParquetError> {
        let missing = || ParquetError::General("the schema of the checkpoint has fewer columns".into());
        let mut column = self.group.next_column()?.ok_or_else(missing)?;
        column.typed::<T>().write_batch(values, Some(levels), repetitions)?;
        column.close()
    }
}
