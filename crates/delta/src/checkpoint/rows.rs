//! Actions from the rows of a checkpoint, this crate's or another writer's.
//!
//! Only the members that matter are read: others, such as columns of statistics, may have any type. The Parquet reader
//! panics on some damaged bytes, which is an error here.

use crate::action::{AddedFile, AppTransaction, PartitionValues, RemovedFile};
use crate::line;
use crate::metadata::{Fault, LogAction, ProtocolVersions, TableMetadata};
use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The members that are read, of each action.
const MEMBERS: [(&str, &[&str]); 7] = [
    ("txn", &["appId", "version", "lastUpdated"]),
    ("add", &["path", "partitionValues", "size", "modificationTime", "stats", "tags", "deletionVector"]),
    ("remove", &["path", "deletionTimestamp", "partitionValues", "size", "deletionVector"]),
    (
        "metaData",
        &["id", "name", "description", "format", "schemaString", "partitionColumns", "configuration", "createdTime"],
    ),
    ("protocol", &["minReaderVersion", "minWriterVersion", "readerFeatures"]),
    ("sidecar", &["path"]),
    ("checkpointMetadata", &["version"]),
];

/// How much of a checkpoint is read.
#[derive(Clone, Copy)]
pub(super) struct RowLimits {
    pub(super) rows_max: u64,
    /// Bytes of its columns, decompressed.
    pub(super) bytes_max: u64,
    /// Bytes of its files in memory.
    pub(super) state_bytes_max: u64,
}

/// Reads a checkpoint.
pub(super) fn read(bytes: Bytes, limits: RowLimits) -> Result<Vec<LogAction>, Fault> {
    match catch_unwind(AssertUnwindSafe(|| read_rows(bytes, limits))) {
        Ok(read) => read,
        Err(_) => Err(Fault::Damaged("the Parquet reader cannot read its bytes".into())),
    }
}

impl From<ParquetError> for Fault {
    fn from(error: ParquetError) -> Fault {
        Fault::Damaged(error.to_string())
    }
}

fn read_rows(bytes: Bytes, limits: RowLimits) -> Result<Vec<LogAction>, Fault> {
    let reader = SerializedFileReader::new(bytes)?;
    let groups = reader.metadata().row_groups();
    let (mut rows, mut decompressed) = (0_u64, 0_u64);
    for group in groups {
        let count = u64::try_from(group.num_rows()).map_err(|_| Fault::Damaged("a negative number of rows".into()))?;
        rows = rows.saturating_add(count);
        for column in group.columns() {
            decompressed = decompressed.saturating_add(u64::try_from(column.uncompressed_size()).unwrap_or(u64::MAX));
        }
    }
    let RowLimits { rows_max, bytes_max, .. } = limits;
    if rows > rows_max || decompressed > bytes_max {
        return Err(Fault::Damaged(format!(
            "{rows} rows of {decompressed} bytes, more than the limits of {rows_max} and {bytes_max}"
        )));
    }
    let projection = projection(reader.metadata().file_metadata().schema())?;
    let (mut actions, mut weight) = (Vec::new(), 0_u64);
    for row in reader.get_row_iter(Some(projection))? {
        let first = actions.len();
        action(&row?, &mut actions)?;
        for action in &actions[first..] {
            weight = weight.saturating_add(match action {
                LogAction::Add(file) => file.weight() as u64,
                LogAction::Remove(file) => file.weight() as u64,
                LogAction::Txn(app_id, _) => app_id.len() as u64,
                LogAction::Metadata(_) | LogAction::Protocol(_) => 0,
            });
        }
        // Few bytes of a dictionary can be many rows.
        if actions.len() as u64 > rows || weight > limits.state_bytes_max {
            let (rows, bytes) = (actions.len(), limits.state_bytes_max);
            return Err(Fault::Damaged(format!("its first {rows} rows take more than {bytes} bytes of memory")));
        }
    }
    Ok(actions)
}

/// The part of the file's schema that is read.
fn projection(schema: &Type) -> Result<Type, Fault> {
    let mut actions = Vec::new();
    for action in schema.get_fields() {
        let Some((_, members)) = MEMBERS.iter().find(|(name, _)| *name == action.name()) else { continue };
        if action.is_primitive() {
            return Err(Fault::Damaged(format!("{} is not a struct", action.name())));
        }
        let members = action.get_fields().iter().filter(|member| members.contains(&member.name()));
        let basic = action.get_basic_info();
        let part = Type::group_type_builder(action.name())
            .with_repetition(basic.repetition())
            .with_fields(members.cloned().collect())
            .build()?;
        if part.get_fields().is_empty() {
            return Err(Fault::Damaged(format!("{} has no member that is known", action.name())));
        }
        actions.push(Arc::new(part));
    }
    if !actions.iter().any(|action| action.name() == "add") {
        return Err(Fault::Damaged("it has no column add".into()));
    }
    Ok(Type::group_type_builder(schema.name()).with_fields(actions).build()?)
}

fn action(row: &Row, actions: &mut Vec<LogAction>) -> Result<(), Fault> {
    for (name, field) in row.get_column_iter() {
        let Field::Group(members) = field else { continue };
        let members = Members { action: name, row: members };
        match name.as_str() {
            "sidecar" | "checkpointMetadata" => {
                return Err(Fault::Unsupported("checkpoints of version 2".into()));
            }
            "protocol" => {
                if let Some(Field::ListInternal(features)) = members.find("readerFeatures")
                    && features.len() > 0
                {
                    return Err(Fault::Unsupported("features of readers".into()));
                }
                let versions = ProtocolVersions {
                    reader: members.version("minReaderVersion")?,
                    writer: members.version("minWriterVersion")?,
                };
                versions.check_reader()?;
                actions.push(LogAction::Protocol(versions));
            }
            "metaData" => actions.push(LogAction::Metadata(table_metadata(&members)?)),
            "txn" => {
                let transaction = AppTransaction {
                    version: members.required("version")?,
                    last_updated: members.number("lastUpdated")?,
                };
                actions.push(LogAction::Txn(members.text("appId")?, transaction));
            }
            "add" => {
                line::refuse_deletion_vector(members.find("deletionVector").is_some())?;
                let tags = members.map("tags")?.unwrap_or_default();
                actions.push(LogAction::Add(AddedFile {
                    path: line::decoded(&members.text("path")?)?,
                    partition_values: line::with_nulls(members.map("partitionValues")?.unwrap_or_default()),
                    size: members.size()?.ok_or_else(|| members.lacks("size"))?,
                    modification_time: members.required("modificationTime")?,
                    stats: members.optional_text("stats")?,
                    tags: tags.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
                }));
            }
            "remove" => {
                line::refuse_deletion_vector(members.find("deletionVector").is_some())?;
                actions.push(LogAction::Remove(RemovedFile {
                    path: line::decoded(&members.text("path")?)?,
                    deletion_time: members.number("deletionTimestamp")?.unwrap_or_default(),
                    partition_values: members.map("partitionValues")?.map(line::with_nulls),
                    size: members.size()?,
                }));
            }
            _ => {}
        }
    }
    Ok(())
}

fn table_metadata(members: &Members<'_>) -> Result<TableMetadata, Fault> {
    let configuration = members.map("configuration")?.unwrap_or_default();
    let configuration: BTreeMap<String, String> =
        configuration.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let Some(Field::Group(format)) = members.find("format") else { return Err(members.lacks("format")) };
    let provider = Members { action: "metaData.format", row: format }.text("provider")?;
    let mut partition_columns = Vec::new();
    match members.find("partitionColumns") {
        Some(Field::ListInternal(list)) => {
            for element in list.elements() {
                let Field::Str(name) = element else { return Err(members.lacks("partitionColumns")) };
                partition_columns.push(name.clone());
            }
        }
        _ => return Err(members.lacks("partitionColumns")),
    }
    Ok(TableMetadata {
        id: members.text("id")?,
        name: members.optional_text("name")?,
        description: members.optional_text("description")?,
        columns: TableMetadata::columns_of(&members.text("schemaString")?, &provider, &configuration)?,
        partition_columns,
        configuration,
        created_time: members.number("createdTime")?,
    })
}

/// The members of an action in a row.
struct Members<'a> {
    action: &'a str,
    row: &'a Row,
}

impl<'a> Members<'a> {
    /// A member that is not null.
    fn find(&self, name: &str) -> Option<&'a Field> {
        let found = self.row.get_column_iter().find(|(member, _)| *member == name);
        found.map(|(_, field)| field).filter(|field| !matches!(field, Field::Null))
    }

    fn lacks(&self, name: &str) -> Fault {
        Fault::Damaged(format!("{}.{name} is missing or of another type", self.action))
    }

    fn text(&self, name: &str) -> Result<String, Fault> {
        self.optional_text(name)?.ok_or_else(|| self.lacks(name))
    }

    fn optional_text(&self, name: &str) -> Result<Option<String>, Fault> {
        match self.find(name) {
            None => Ok(None),
            Some(field) => text_of(field).map(Some).ok_or_else(|| self.lacks(name)),
        }
    }

    fn required(&self, name: &str) -> Result<i64, Fault> {
        self.number(name)?.ok_or_else(|| self.lacks(name))
    }

    fn number(&self, name: &str) -> Result<Option<i64>, Fault> {
        match self.find(name) {
            None => Ok(None),
            Some(Field::Long(number)) => Ok(Some(*number)),
            Some(_) => Err(self.lacks(name)),
        }
    }

    fn size(&self) -> Result<Option<u64>, Fault> {
        let size = self.number("size")?.map(u64::try_from).transpose();
        size.map_err(|_| self.lacks("size"))
    }

    fn version(&self, name: &str) -> Result<i32, Fault> {
        match self.find(name) {
            Some(Field::Int(version)) => Ok(*version),
            _ => Err(self.lacks(name)),
        }
    }

    fn map(&self, name: &str) -> Result<Option<PartitionValues>, Fault> {
        let map = match self.find(name) {
            None => return Ok(None),
            Some(Field::MapInternal(map)) => map,
            Some(_) => return Err(self.lacks(name)),
        };
        let mut values = PartitionValues::new();
        for (key, value) in map.entries() {
            let value = match value {
                Field::Null => None,
                value => Some(text_of(value).ok_or_else(|| self.lacks(name))?),
            };
            values.insert(text_of(key).ok_or_else(|| self.lacks(name))?, value);
        }
        Ok(Some(values))
    }
}

/// A text; some writers do not mark their texts as UTF-8.
fn text_of(field: &Field) -> Option<String> {
    match field {
        Field::Str(text) => Some(text.clone()),
        Field::Bytes(bytes) => String::from_utf8(bytes.data().to_vec()).ok(),
        _ => None,
    }
}
