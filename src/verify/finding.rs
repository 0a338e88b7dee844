//! What a verification finds, and what it comes to.

use serde::Serialize;
use std::fmt::{self, Display};

/// What kind of thing does not hold. Its name is the label of the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The catalog cannot be read, or names a file that is not there.
    Catalog,
    /// What came in is not what stands and what went.
    Books,
    /// A table's file has other rows than it says, or than the catalog says of it.
    Table,
    /// A page of an open day is not what was written.
    Page,
    /// A sealed day, or its manifest, is not what was written.
    Sealed,
    /// An archive is not there, or not what was written.
    Archive,
    /// A source's file is not what was read, or its ledger does not add up.
    Source,
    /// Of numbers that go up by one a record some are missing, or come twice.
    Sequence,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 8] = [
        Kind::Catalog,
        Kind::Books,
        Kind::Table,
        Kind::Page,
        Kind::Sealed,
        Kind::Archive,
        Kind::Source,
        Kind::Sequence,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Catalog => "catalog",
            Kind::Books => "books",
            Kind::Table => "table",
            Kind::Page => "page",
            Kind::Sealed => "sealed",
            Kind::Archive => "archive",
            Kind::Source => "source",
            Kind::Sequence => "sequence",
        }
    }
}

/// One thing that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind of thing.
    pub finding: Kind,
    /// Where: a day-table, or a source's path.
    #[serde(rename = "where")]
    pub place: String,
    /// The file or object that it was found in, where it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What is so.
    pub found: String,
    /// What to do.
    pub advice: &'static str,
    /// Whether it could not be told: then the folder may be whole all the same.
    #[serde(rename = "doubt", skip_serializing_if = "is_false")]
    pub is_doubt: bool,
}

// By reference, as serde calls it.
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

/// What a verification came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether nothing was found.
    pub whole: bool,
    /// Records that stand in day-tables. One that is in two pages, or in two files of its day, counts twice until they are
    /// merged.
    pub records: u64,
    /// Rows that stand, items included.
    pub rows: u64,
    /// Day-tables.
    pub tables: u64,
    /// Sources in the ledger, listeners included.
    pub sources: u64,
    /// Archives.
    pub archives: u64,
    /// Bytes that were read and held against their checksums.
    pub bytes: u64,
    /// Numbers of sequences that are missing.
    pub missing: u64,
    /// Numbers of sequences that come twice.
    pub twice: u64,
    /// How many things do not hold.
    pub findings: u64,
    /// Of how many things it could not be told whether they hold.
    pub doubts: u64,
}

impl Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { records, tables, sources, archives, missing, twice, findings, doubts, .. } = self;
        match self.whole {
            true => write!(f, "whole: ")?,
            false => write!(f, "not whole: {findings} findings; ")?,
        }
        write!(f, "{records} records in {tables} tables, {sources} sources, {archives} archives")?;
        if (*missing, *twice) != (0, 0) {
            write!(f, "; {missing} numbers of sequences are missing, {twice} come twice")?;
        }
        if *doubts > 0 { write!(f, "; {doubts} could not be told") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_one_that_is_promised() {
        let verdict = Verdict { whole: true, records: 12, tables: 2, sources: 1, ..Verdict::default() };
        assert_eq!(verdict.to_string(), "whole: 12 records in 2 tables, 1 sources, 0 archives");
        let verdict = Verdict { whole: false, findings: 3, ..verdict };
        assert_eq!(verdict.to_string(), "not whole: 3 findings; 12 records in 2 tables, 1 sources, 0 archives");
        let gaps = Verdict { missing: 4, twice: 1, ..verdict.clone() };
        assert!(gaps.to_string().ends_with("0 archives; 4 numbers of sequences are missing, 1 come twice"), "{gaps}");
        let verdict = Verdict { whole: true, doubts: 2, ..verdict };
        assert_eq!(verdict.to_string(), "whole: 12 records in 2 tables, 1 sources, 0 archives; 2 could not be told");
    }

    #[test]
    fn a_finding_says_where_in_what() {
        let finding = Finding {
            finding: Kind::Page,
            place: "Log20261121".into(),
            file: Some("Log20261121.1.db".into()),
            found: "page 7: its checksum is another".into(),
            advice: "look",
            is_doubt: false,
        };
        assert_eq!(finding.to_string(), "page  Log20261121: Log20261121.1.db: page 7: its checksum is another");
        let names = Kind::ALL.map(|kind| serde_json::to_value(kind).expect("a name"));
        assert_eq!(names.to_vec(), Kind::ALL.map(Kind::name));
    }
}
