//! The table's own description, and the versions of the protocol that it needs.

use crate::action::{AddedFile, AppTransaction, RemovedFile};
use crate::schema::{self, TableColumn};
use std::collections::BTreeMap;

/// What the table says of itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableMetadata {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) columns: Vec<TableColumn>,
    pub(crate) partition_columns: Vec<String>,
    pub(crate) configuration: BTreeMap<String, String>,
    pub(crate) created_time: Option<i64>,
}

/// Versions of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProtocolVersions {
    pub(crate) reader: i32,
    pub(crate) writer: i32,
}

/// The greatest versions that this crate knows. They have no deletion vectors, no column mapping and no features.
pub(crate) const KNOWN_VERSIONS: ProtocolVersions = ProtocolVersions { reader: 1, writer: 2 };

/// An action in a log that matters for a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LogAction {
    Add(AddedFile),
    Remove(RemovedFile),
    Txn(String, AppTransaction),
    Metadata(TableMetadata),
    Protocol(ProtocolVersions),
}

/// An object in a log that is not what it should be.
#[derive(Debug, PartialEq)]
pub(crate) enum Fault {
    /// The object is damaged.
    Damaged(String),
    /// The object needs something unknown.
    Unsupported(String),
}

impl From<String> for Fault {
    fn from(what: String) -> Fault {
        Fault::Damaged(what)
    }
}

impl TableMetadata {
    /// Checks what a reader of the table must know, and reads the schema.
    pub(crate) fn columns_of(
        schema: &str,
        provider: &str,
        configuration: &BTreeMap<String, String>,
    ) -> Result<Vec<TableColumn>, Fault> {
        if provider != "parquet" {
            return Err(Fault::Unsupported(format!("files of the format {provider:?}")));
        }
        let mapping = configuration.get("delta.columnMapping.mode").filter(|mode| *mode != "none");
        if let Some(mode) = mapping {
            return Err(Fault::Unsupported(format!("column mapping by {mode:?}")));
        }
        Ok(schema::parse(schema)?)
    }

    /// Why this crate may not write to the table.
    pub(crate) fn refusal_to_write(&self, removes: bool) -> Option<String> {
        let is_set = |name: &str| self.configuration.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if removes && is_set("delta.appendOnly") {
            return Some("that files are only added (delta.appendOnly)".into());
        }
        let has_invariant = |column: &&TableColumn| column.metadata.contains_key("delta.invariants");
        let column = self.columns.iter().find(has_invariant)?;
        Some(format!("that the invariant of the column {:?} is checked", column.name))
    }
}

impl ProtocolVersions {
    /// Refuses what a reader of the table would have to know.
    pub(crate) fn check_reader(self) -> Result<(), Fault> {
        match self.reader <= KNOWN_VERSIONS.reader {
            true => Ok(()),
            false => Err(Fault::Unsupported(format!("version {} of the protocol for readers", self.reader))),
        }
    }
}
