//! The findings of a verification, and its verdict.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::{self, Display};

/// The kind of a finding. Its name is the label of the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingKind {
    /// The catalog cannot be read, or names a missing file.
    Catalog,
    /// The accounts of records or rows do not balance.
    Accounting,
    /// The rows in the file of a table differ from its own count, or from the count in the catalog.
    Table,
    /// A page of an open day has a wrong checksum.
    Page,
    /// A sealed day or its manifest has a wrong checksum.
    Sealed,
    /// An archive is missing or damaged.
    Archive,
    /// The file of a source was replaced or truncated, or its ledger does not add up.
    Source,
    /// Sequence numbers of records are missing, or repeated.
    Sequence,
}

impl FindingKind {
    /// All of them.
    pub const ALL: [FindingKind; 8] = [
        FindingKind::Catalog,
        FindingKind::Accounting,
        FindingKind::Table,
        FindingKind::Page,
        FindingKind::Sealed,
        FindingKind::Archive,
        FindingKind::Source,
        FindingKind::Sequence,
    ];

    /// The name, as in JSON and in the metric.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Catalog => "catalog",
            FindingKind::Accounting => "accounting",
            FindingKind::Table => "table",
            FindingKind::Page => "page",
            FindingKind::Sealed => "sealed",
            FindingKind::Archive => "archive",
            FindingKind::Source => "source",
            FindingKind::Sequence => "sequence",
        }
    }
}

/// One finding, or one doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The kind.
    pub finding: FindingKind,
    /// The day-table, or the path of the source.
    #[serde(rename = "where")]
    pub place: String,
    /// The file or object, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The facts.
    pub found: String,
    /// The advice.
    pub advice: Cow<'static, str>,
    /// Whether this is a doubt: a check without a result. The folder may still be whole.
    #[serde(rename = "doubt", default, skip_serializing_if = "is_false")]
    pub is_doubt: bool,
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(is: &bool) -> bool {
    !is
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}: ", self.finding.name(), self.place)?;
        if let Some(file) = self.file.as_ref().filter(|file| **file != self.place) {
            write!(f, "{file}: ")?;
        }
        write!(f, "{}{}", self.found, if self.is_doubt { " (not counted)" } else { "" })
    }
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyVerdict {
    /// Whether there are no findings.
    pub whole: bool,
    /// Records in day-tables. A record in two pages or files of its day counts twice until they are merged.
    pub records: u64,
    /// Rows in day-tables, items included.
    pub rows: u64,
    /// Day-tables.
    pub tables: u64,
    /// Sources and listeners with a ledger.
    pub sources: u64,
    /// Archives.
    pub archives: u64,
    /// Bytes that were read and compared with their checksums.
    pub bytes: u64,
    /// Missing sequence numbers.
    pub missing: u64,
    /// Repeated sequence numbers.
    pub twice: u64,
    /// Bytes of files that were destroyed before they were read, by the ledgers. The folder is whole without them.
    pub lost_bytes: u64,
    /// Records that were destroyed before they were read, by the ledgers.
    pub lost_records: u64,
    /// Findings.
    pub findings: u64,
    /// Doubts.
    pub doubts: u64,
}

/// A number of things, each of which is called `one`.
fn counted(number: u64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

impl Display for VerifyVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let VerifyVerdict { records, tables, sources, archives, missing, twice, findings, doubts, .. } = self;
        let VerifyVerdict { lost_bytes, lost_records, .. } = self;
        match self.whole {
            true => write!(f, "whole: ")?,
            false => write!(f, "not whole: {}; ", counted(*findings, "finding"))?,
        }
        let (records, tables) = (counted(*records, "record"), counted(*tables, "table"));
        let (sources, archives) = (counted(*sources, "source"), counted(*archives, "archive"));
        write!(f, "{records} in {tables}, {sources}, {archives}")?;
        if (*missing, *twice) != (0, 0) {
            write!(f, "; {missing} numbers of sequences are missing, {twice} come twice")?;
        }
        if *lost_bytes > 0 {
            write!(f, "; {lost_bytes} bytes of files were lost before they were read (daytable sources)")?;
        }
        if *lost_records > 0 {
            write!(f, "; {lost_records} records were lost before they were read (daytable sources)")?;
        }
        if *doubts > 0 { write!(f, "; {doubts} could not be checked") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_has_its_documented_form() {
        let verdict = VerifyVerdict { whole: true, records: 12, tables: 2, sources: 1, ..VerifyVerdict::default() };
        assert_eq!(verdict.to_string(), "whole: 12 records in 2 tables, 1 source, 0 archives");
        let verdict = VerifyVerdict { whole: false, findings: 3, ..verdict };
        assert_eq!(verdict.to_string(), "not whole: 3 findings; 12 records in 2 tables, 1 source, 0 archives");
        let lost = VerifyVerdict { whole: true, lost_bytes: 10, ..verdict.clone() };
        let end = "; 10 bytes of files were lost before they were read (daytable sources)";
        assert_eq!(lost.to_string(), format!("whole: 12 records in 2 tables, 1 source, 0 archives{end}"));
        let gaps = VerifyVerdict { missing: 4, twice: 1, ..verdict.clone() };
        assert!(gaps.to_string().ends_with("0 archives; 4 numbers of sequences are missing, 1 come twice"), "{gaps}");
        let verdict = VerifyVerdict { whole: true, doubts: 2, ..verdict };
        assert_eq!(verdict.to_string(), "whole: 12 records in 2 tables, 1 source, 0 archives; 2 could not be checked");
    }

    #[test]
    fn a_finding_has_its_place_and_file() {
        let finding = Finding {
            finding: FindingKind::Page,
            place: "Log20261121".into(),
            file: Some("Log20261121.1.db".into()),
            found: "page 7: its checksum is another".into(),
            advice: "look".into(),
            is_doubt: false,
        };
        assert_eq!(finding.to_string(), "page  Log20261121: Log20261121.1.db: page 7: its checksum is another");
        let names = FindingKind::ALL.map(|kind| serde_json::to_value(kind).expect("a name"));
        assert_eq!(names.to_vec(), FindingKind::ALL.map(FindingKind::name));
    }
}
