//! Actions as lines of JSON.

use crate::action::{AddedFile, AppTransaction, PartitionValues, RemovedFile};
use crate::metadata::{Fault, LogAction, ProtocolVersions, TableMetadata};
use crate::{schema, uri};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A line. Unknown actions are left out, as the protocol says.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(default, skip_serializing_if = "Option::is_none", skip_deserializing)]
    commit_info: Option<CommitInfo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    protocol: Option<Protocol>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    meta_data: Option<MetaData>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    txn: Option<Txn>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    add: Option<Add>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remove: Option<Remove>,
    // Actions of checkpoints of version 2, which only need what this crate does not know.
    #[serde(default, skip_serializing)]
    sidecar: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    checkpoint_metadata: Option<IgnoredAny>,
}

/// Who made a commit, and which of his attempts it is.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct CommitInfo {
    timestamp: i64,
    operation: &'static str,
    operation_parameters: BTreeMap<String, String>,
    engine_info: &'static str,
    txn_id: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Protocol {
    min_reader_version: i32,
    min_writer_version: i32,
    #[serde(default, skip_serializing)]
    reader_features: Option<Vec<String>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetaData {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    format: Format,
    schema_string: String,
    partition_columns: Vec<String>,
    #[serde(default)]
    configuration: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_time: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct Format {
    provider: String,
    #[serde(default)]
    options: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Txn {
    app_id: String,
    version: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_updated: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Add {
    path: String,
    partition_values: PartitionValues,
    size: u64,
    modification_time: i64,
    data_change: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stats: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tags: Option<BTreeMap<String, Option<String>>>,
    #[serde(default, skip_serializing)]
    deletion_vector: Option<IgnoredAny>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Remove {
    path: String,
    #[serde(default)]
    deletion_timestamp: Option<i64>,
    data_change: bool,
    #[serde(default)]
    extended_file_metadata: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partition_values: Option<PartitionValues>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(default, skip_serializing)]
    deletion_vector: Option<IgnoredAny>,
}

/// The actions of a commit. The error says which line.
pub(crate) fn parse(commit: &[u8]) -> Result<Vec<LogAction>, Fault> {
    let mut actions = Vec::new();
    for (at, line) in commit.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let parsed: Line =
            serde_json::from_slice(line).map_err(|error| Fault::Damaged(format!("line {}: {error}", at + 1)))?;
        parsed.actions(&mut actions).map_err(|fault| match fault {
            Fault::Damaged(what) => Fault::Damaged(format!("line {}: {what}", at + 1)),
            unsupported => unsupported,
        })?;
    }
    Ok(actions)
}

impl Line {
    fn actions(self, actions: &mut Vec<LogAction>) -> Result<(), Fault> {
        if self.sidecar.is_some() || self.checkpoint_metadata.is_some() {
            return Err(Fault::Unsupported("checkpoints of version 2".into()));
        }
        if let Some(protocol) = self.protocol {
            let versions =
                ProtocolVersions { reader: protocol.min_reader_version, writer: protocol.min_writer_version };
            if let Some(features) = protocol.reader_features.filter(|features| !features.is_empty()) {
                return Err(Fault::Unsupported(format!("the features {} of readers", features.join(", "))));
            }
            versions.check_reader()?;
            actions.push(LogAction::Protocol(versions));
        }
        if let Some(metadata) = self.meta_data {
            let provider = &metadata.format.provider;
            let columns = TableMetadata::columns_of(&metadata.schema_string, provider, &metadata.configuration)?;
            actions.push(LogAction::Metadata(TableMetadata {
                id: metadata.id,
                name: metadata.name,
                description: metadata.description,
                columns,
                partition_columns: metadata.partition_columns,
                configuration: metadata.configuration,
                created_time: metadata.created_time,
            }));
        }
        if let Some(txn) = self.txn {
            let transaction = AppTransaction { version: txn.version, last_updated: txn.last_updated };
            actions.push(LogAction::Txn(txn.app_id, transaction));
        }
        if let Some(add) = self.add {
            refuse_deletion_vector(add.deletion_vector.is_some())?;
            let tags = add.tags.unwrap_or_default();
            actions.push(LogAction::Add(AddedFile {
                path: decoded(&add.path)?,
                partition_values: with_nulls(add.partition_values),
                size: sized(add.size)?,
                modification_time: add.modification_time,
                stats: add.stats,
                tags: tags.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
            }));
        }
        if let Some(remove) = self.remove {
            refuse_deletion_vector(remove.deletion_vector.is_some())?;
            actions.push(LogAction::Remove(RemovedFile {
                path: decoded(&remove.path)?,
                deletion_time: remove.deletion_timestamp.unwrap_or_default(),
                partition_values: remove.partition_values.map(with_nulls),
                size: remove.size.map(sized).transpose()?,
            }));
        }
        Ok(())
    }
}

pub(crate) fn refuse_deletion_vector(has_one: bool) -> Result<(), Fault> {
    match has_one {
        true => Err(Fault::Unsupported("deletion vectors".into())),
        false => Ok(()),
    }
}

/// The path of a file, decoded.
pub(crate) fn decoded(path: &str) -> Result<std::sync::Arc<str>, Fault> {
    let decoded = uri::decode(path).filter(|decoded| uri::is_absolute(decoded) || uri::is_below_table(decoded));
    decoded.map(Into::into).ok_or_else(|| Fault::Damaged(format!("{path:?} is not the path of a file")))
}

/// The size of a file, of which Delta has 63 bits.
fn sized(size: u64) -> Result<u64, Fault> {
    match i64::try_from(size) {
        Ok(_) => Ok(size),
        Err(_) => Err(Fault::Damaged(format!("{size} is not the size of a file"))),
    }
}

/// An empty text is null, as the protocol says.
pub(crate) fn with_nulls(values: PartitionValues) -> PartitionValues {
    values.into_iter().map(|(name, value)| (name, value.filter(|text| !text.is_empty()))).collect()
}

/// A commit as lines. `id` tells this attempt from all others.
pub(crate) fn text(actions: &[LogAction], id: &str, now: i64) -> Result<Vec<u8>, serde_json::Error> {
    let info = CommitInfo {
        timestamp: now,
        operation: "WRITE",
        operation_parameters: BTreeMap::new(),
        engine_info: concat!("daytable/", env!("CARGO_PKG_VERSION")),
        txn_id: id.to_owned(),
    };
    let mut lines = Vec::new();
    let first = Line { commit_info: Some(info), ..Line::default() };
    for line in std::iter::once(first).chain(actions.iter().map(Line::of)) {
        serde_json::to_writer(&mut lines, &line)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

impl Line {
    fn of(action: &LogAction) -> Line {
        let none = Line::default();
        match action {
            LogAction::Protocol(versions) => {
                let protocol = Protocol {
                    min_reader_version: versions.reader,
                    min_writer_version: versions.writer,
                    reader_features: None,
                };
                Line { protocol: Some(protocol), ..none }
            }
            LogAction::Metadata(metadata) => {
                let meta_data = MetaData {
                    id: metadata.id.clone(),
                    name: metadata.name.clone(),
                    description: metadata.description.clone(),
                    format: Format { provider: "parquet".into(), options: BTreeMap::new() },
                    schema_string: schema::text(&metadata.columns),
                    partition_columns: metadata.partition_columns.clone(),
                    configuration: metadata.configuration.clone(),
                    created_time: metadata.created_time,
                };
                Line { meta_data: Some(meta_data), ..none }
            }
            LogAction::Txn(app_id, transaction) => {
                let AppTransaction { version, last_updated } = *transaction;
                Line { txn: Some(Txn { app_id: app_id.clone(), version, last_updated }), ..none }
            }
            LogAction::Add(file) => {
                let tags = file.tags.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
                let add = Add {
                    path: uri::encode(&file.path),
                    partition_values: file.partition_values.clone(),
                    size: file.size,
                    modification_time: file.modification_time,
                    data_change: true,
                    stats: file.stats.clone(),
                    tags: (!file.tags.is_empty()).then(|| tags.collect()),
                    deletion_vector: None,
                };
                Line { add: Some(add), ..none }
            }
            LogAction::Remove(file) => {
                let remove = Remove {
                    path: uri::encode(&file.path),
                    deletion_timestamp: Some(file.deletion_time),
                    data_change: true,
                    extended_file_metadata: Some(file.partition_values.is_some() && file.size.is_some()),
                    partition_values: file.partition_values.clone(),
                    size: file.size,
                    deletion_vector: None,
                };
                Line { remove: Some(remove), ..none }
            }
        }
    }
}
