//! The columns of a sealed file and their encodings.
//!
//! There are seven fixed columns, one for each property and type, and a map of further properties; the module's head
//! has the table. The footer describes the columns as JSON, so nothing is derived from a name.
//!
//! The encodings follow from the values seen ([`super::survey`]): a dictionary if values repeat often enough within a
//! row group, else differences for numbers, split bytes for doubles, lengths and bytes apart for texts. All are
//! compressed with zstd.

use super::survey::{PropertyStats, Survey};
use super::{COLUMNS_MAX, SealedSizes};
use daytable_model::column_name::{ColumnNames, KnownNames, PARTITION_COLUMNS};
use daytable_model::property::PropertyKind;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

pub(super) const PARTITION: usize = 0;
pub(super) const TIME: usize = 1;
pub(super) const TICKS: usize = 2;
pub(super) const SOURCE: usize = 3;
pub(super) const POSITION: usize = 4;
pub(super) const ITEM: usize = 5;
pub(super) const LEVEL: usize = 6;
/// The first column of a property.
pub(super) const PROPERTIES: usize = 7;

/// The definition level of an entry of the map.
pub(super) const REST_DEFINED: i16 = 2;

const FIXED: [&str; PROPERTIES] =
    ["PartitionKey", "Time", "log_ticks", "log_source", "log_position", "log_item", "Level"];
/// The map of all properties without a column.
pub const REST: &str = "log_rest";
/// The columns that each file has, with the types of their values.
pub const FIXED_COLUMNS: [(&str, PropertyKind); PROPERTIES] = [
    (FIXED[PARTITION], PropertyKind::String),
    (FIXED[TIME], PropertyKind::DateTime),
    (FIXED[TICKS], PropertyKind::Int32),
    (FIXED[SOURCE], PropertyKind::String),
    (FIXED[POSITION], PropertyKind::Int64),
    (FIXED[ITEM], PropertyKind::Int32),
    (FIXED[LEVEL], PropertyKind::String),
];

/// After the encodings, the data is mostly random: level 3 saves nothing (34.4 bytes a record of `benches/seal.rs`,
/// 34.2 at level 1).
pub(super) const ZSTD_LEVEL: i32 = 1;
/// Maximum bytes of a column's page before compression.
const PAGE_BYTES: usize = 32 << 10;
/// Maximum bytes of a dictionary; further values are written without it.
const DICTIONARY_BYTES: usize = 2 << 20;

/// This many of the most frequent properties have a column, even with few values: other tools look for them.
const COLUMNS_SURE: usize = 64;
/// Number of values from which a further property has a column. A column takes about 600 bytes of footer and manifest,
/// a value in the map about two more than in a column.
const COLUMN_VALUES_MIN: u64 = 256;
/// A further property has a column only if one entity of this many has it: each row group of the file takes such bytes
/// again.
const COLUMN_SHARE: u64 = 256;

/// A column of a property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PropertyColumn {
    /// The column's name in the file.
    pub name: String,
    /// The property that it holds.
    pub property: String,
    /// The type of its values.
    #[serde(rename = "type", with = "kind_as_text")]
    pub kind: PropertyKind,
}

mod kind_as_text {
    use super::PropertyKind;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(kind: &PropertyKind, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(kind.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PropertyKind, D::Error> {
        let name = String::deserialize(from)?;
        PropertyKind::named(&name).ok_or_else(|| serde::de::Error::custom(format!("no type is called {name:?}")))
    }
}

/// The host of a file.
#[derive(Debug)]
pub(crate) struct HostFields {
    pub(super) host: Arc<str>,
    /// The columns of the file, as they are called beside the host's.
    pub(super) columns: Vec<PropertyColumn>,
}

/// The columns of properties, in the order of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct ColumnLayout {
    pub(super) columns: Vec<PropertyColumn>,
    numbers: [HashMap<String, usize, foldhash::quality::RandomState>; PropertyKind::COUNT],
    has_dictionary: Vec<bool>,
}

impl ColumnLayout {
    /// Chooses the most frequent columns; of equally frequent ones the first by name. Those that are known elsewhere have
    /// their names.
    pub(super) fn choose(survey: &Survey, entities: u64, sizes: &SealedSizes, known: &KnownNames) -> ColumnLayout {
        let may_have = |seen: &&PropertyStats| !known.is_closed || known.get(&seen.name, seen.kind).is_some();
        let mut seen: Vec<&PropertyStats> = survey.seen().filter(may_have).collect();
        seen.sort_by(|a, b| b.values.cmp(&a.values).then_with(|| (&a.name, a.kind).cmp(&(&b.name, b.kind))));
        let own = FIXED.into_iter().chain([REST]).chain(PARTITION_COLUMNS);
        let mut names = ColumnNames::reserving(own.chain(known.names()));
        let mut has_dictionary = Vec::new();
        // Rare values cost less in the map than a column of their own does.
        let least = COLUMN_VALUES_MIN.max(entities / COLUMN_SHARE);
        let has_column = |(number, stats): &(usize, &PropertyStats)| *number < COLUMNS_SURE || stats.values >= least;
        let length = seen.iter().copied().enumerate().take_while(has_column).take(COLUMNS_MAX).count();
        seen.truncate(length);
        let column = |PropertyStats { name, kind, .. }: &PropertyStats| PropertyColumn {
            name: known.get(name, *kind).map_or_else(|| names.add(name, *kind), str::to_owned),
            property: name.clone(),
            kind: *kind,
        };
        let columns = seen.iter().copied().map(column).collect();
        for seen in &seen {
            has_dictionary.push(wants_dictionary(seen, sizes.group_rows));
        }
        ColumnLayout { has_dictionary, ..ColumnLayout::of(columns) }
    }

    /// The columns that a file describes.
    pub(super) fn of(columns: Vec<PropertyColumn>) -> ColumnLayout {
        let mut numbers: [HashMap<String, usize, foldhash::quality::RandomState>; PropertyKind::COUNT] =
            Default::default();
        for (number, column) in columns.iter().enumerate() {
            numbers[column.kind as usize].insert(column.property.clone(), number);
        }
        ColumnLayout { columns, numbers, has_dictionary: Vec::new() }
    }

    /// The number of the column for a property and type.
    pub(super) fn number(&self, name: &str, kind: PropertyKind) -> Option<usize> {
        self.numbers[kind as usize].get(name).copied()
    }

    /// The leaf of the map's keys; the next leaf contains its values.
    pub(super) fn rest(&self) -> usize {
        PROPERTIES + self.columns.len()
    }

    /// The schema of the file.
    pub(super) fn schema(&self) -> Result<TypePtr, ParquetError> {
        let text = Some(LogicalType::String);
        let micros = Some(LogicalType::timestamp(true, TimeUnit::MICROS));
        let mut fields: Vec<TypePtr> = Vec::with_capacity(self.rest() + 1);
        for (name, physical, logical, repetition) in [
            (FIXED[PARTITION], Physical::BYTE_ARRAY, text.clone(), Repetition::REQUIRED),
            (FIXED[TIME], Physical::INT64, micros.clone(), Repetition::REQUIRED),
            (FIXED[TICKS], Physical::INT32, None, Repetition::REQUIRED),
            (FIXED[SOURCE], Physical::BYTE_ARRAY, text.clone(), Repetition::REQUIRED),
            (FIXED[POSITION], Physical::INT64, None, Repetition::REQUIRED),
            (FIXED[ITEM], Physical::INT32, None, Repetition::REQUIRED),
            (FIXED[LEVEL], Physical::BYTE_ARRAY, text.clone(), Repetition::OPTIONAL),
        ] {
            fields.push(leaf(name, physical, logical, repetition, None)?);
        }
        for PropertyColumn { name, kind, .. } in &self.columns {
            let (physical, logical, length) = match kind {
                PropertyKind::String => (Physical::BYTE_ARRAY, text.clone(), None),
                PropertyKind::Binary => (Physical::BYTE_ARRAY, None, None),
                PropertyKind::Int64 => (Physical::INT64, None, None),
                PropertyKind::Int32 => (Physical::INT32, None, None),
                PropertyKind::Double => (Physical::DOUBLE, None, None),
                PropertyKind::Boolean => (Physical::BOOLEAN, None, None),
                PropertyKind::DateTime => (Physical::INT64, micros.clone(), None),
                PropertyKind::Guid => (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid), Some(16)),
            };
            fields.push(leaf(name, physical, logical, Repetition::OPTIONAL, length)?);
        }
        let entry = vec![
            leaf("key", Physical::BYTE_ARRAY, text.clone(), Repetition::REQUIRED, None)?,
            leaf("value", Physical::BYTE_ARRAY, text, Repetition::REQUIRED, None)?,
        ];
        let entry = Type::group_type_builder("key_value")
            .with_repetition(Repetition::REPEATED)
            .with_fields(entry.into_iter().collect())
            .build()?;
        let map = Type::group_type_builder(REST)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(Some(LogicalType::Map))
            .with_fields(vec![Arc::new(entry)])
            .build()?;
        fields.push(Arc::new(map));
        Ok(Arc::new(Type::group_type_builder("day").with_fields(fields).build()?))
    }

    /// The properties of the Parquet writer.
    pub(super) fn properties(&self, page_rows: usize) -> Result<WriterProperties, ParquetError> {
        let sorted = |leaf: usize, descending| SortingColumn {
            column_idx: i32::try_from(leaf).unwrap_or(i32::MAX),
            descending,
            nulls_first: false,
        };
        let mut builder = WriterProperties::builder()
            .set_created_by(super::program())
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_data_page_row_count_limit(page_rows)
            .set_write_batch_size(page_rows.min(1024))
            .set_data_page_size_limit(PAGE_BYTES)
            .set_dictionary_page_size_limit(DICTIONARY_BYTES)
            .set_max_row_group_row_count(None)
            .set_sorting_columns(Some(vec![
                sorted(PARTITION, false),
                sorted(TIME, true),
                sorted(TICKS, true),
                sorted(SOURCE, false),
                sorted(POSITION, true),
                sorted(ITEM, false),
            ]));
        for name in [FIXED[TIME], FIXED[POSITION]] {
            let path = path(name);
            builder = builder
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        // The least and greatest time of each page tell which pages of a run overlap a range.
        builder = builder.set_column_statistics_enabled(path(FIXED[TIME]), EnabledStatistics::Page);
        for (PropertyColumn { name, kind, .. }, has_dictionary) in self.columns.iter().zip(&self.has_dictionary) {
            let otherwise = match kind {
                PropertyKind::String | PropertyKind::Binary => Encoding::DELTA_LENGTH_BYTE_ARRAY,
                PropertyKind::Int64 | PropertyKind::Int32 | PropertyKind::DateTime => Encoding::DELTA_BINARY_PACKED,
                PropertyKind::Double => Encoding::BYTE_STREAM_SPLIT,
                PropertyKind::Boolean | PropertyKind::Guid => Encoding::PLAIN,
            };
            builder = builder
                .set_column_dictionary_enabled(path(name), *has_dictionary)
                .set_column_encoding(path(name), otherwise);
        }
        Ok(builder.build())
    }
}

fn path(name: &str) -> ColumnPath {
    ColumnPath::new(vec![name.to_owned()])
}

fn leaf(
    name: &str,
    physical: Physical,
    logical: Option<LogicalType>,
    repetition: Repetition,
    length: Option<i32>,
) -> Result<TypePtr, ParquetError> {
    let mut builder =
        Type::primitive_type_builder(name, physical).with_repetition(repetition).with_logical_type(logical);
    if let Some(length) = length {
        builder = builder.with_length(length);
    }
    Ok(Arc::new(builder.build()?))
}

/// Whether values repeat often enough within a row group for a dictionary to be shorter.
fn wants_dictionary(seen: &PropertyStats, group_rows: usize) -> bool {
    let rows = usize::try_from(seen.values).unwrap_or(usize::MAX).min(group_rows);
    let share = seen.distinct_among(rows) / (rows as f64).max(1.0);
    match seen.kind {
        PropertyKind::Boolean => false,
        PropertyKind::String | PropertyKind::Binary | PropertyKind::Guid => share < 0.6,
        // An index of many entries is as wide as the number itself, and the entries add to that.
        PropertyKind::Int64 | PropertyKind::Int32 | PropertyKind::DateTime | PropertyKind::Double => share < 0.1,
    }
}
