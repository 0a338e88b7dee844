//! Names of columns in Parquet files, of which no two differ by case only: many tools do not distinguish them.
//!
//! Where a name is taken, in whatever case, the type of the values is added (`userid_string`), and a number where that is
//! taken, too (`userid_string_2`). Names of daytable's own begin with `log_`, because records have fields
//! `day`, `host` and `source` of their own. Engines take all of these names without quotes.

use crate::property::PropertyKind;
use std::collections::{BTreeMap, HashSet};

/// The columns by which archives of many hosts are divided: no file has a column of one of these names.
pub const PARTITION_COLUMNS: [&str; 2] = [LOG_DAY, LOG_HOST];
/// The day on which the period of a table begins.
pub const LOG_DAY: &str = "log_day";
/// The host whose day it is.
pub const LOG_HOST: &str = "log_host";
/// The field of a record that reads as [`LOG_HOST`] where the record has none of its own.
pub const HOST: &str = "host";

/// Names that columns have elsewhere, by field and type: the files of one table agree on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownNames {
    names: BTreeMap<(String, PropertyKind), String>,
    /// Whether no other field may have a column.
    pub is_closed: bool,
}

impl KnownNames {
    /// Notes the name of the column of a field and type.
    pub fn insert(&mut self, field: &str, kind: PropertyKind, name: &str) {
        self.names.insert((field.to_owned(), kind), name.to_owned());
    }

    /// The name of the column of a field and type.
    pub fn get(&self, field: &str, kind: PropertyKind) -> Option<&str> {
        self.names.get(&(field.to_owned(), kind)).map(String::as_str)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.values().map(String::as_str)
    }
}

/// The names of the columns of one file.
#[derive(Clone, Debug, Default)]
pub struct ColumnNames {
    /// In lower case.
    taken: HashSet<String>,
}

impl ColumnNames {
    /// No names yet. Of these, no column gets one by itself.
    pub fn reserving<'n>(reserved: impl IntoIterator<Item = &'n str>) -> ColumnNames {
        ColumnNames { taken: reserved.into_iter().map(str::to_lowercase).collect() }
    }

    /// The name of a column of values of the type `kind`, which may be called `wanted`.
    pub fn add(&mut self, wanted: &str, kind: PropertyKind) -> String {
        let typed = format!("{wanted}_{}", kind.name().to_lowercase());
        let numbered = (2..).map(|n: u64| format!("{typed}_{n}"));
        let mut names = [wanted.to_owned(), typed.clone()].into_iter().chain(numbered);
        // One more than there are taken ones is free.
        names.find(|name| self.taken.insert(name.to_lowercase())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_name_gets_its_type() {
        let mut names = ColumnNames::reserving(["Time"]);
        for (wanted, kind, name) in [
            ("status", PropertyKind::Int64, "status"),
            ("status", PropertyKind::String, "status_string"),
            ("Status", PropertyKind::String, "Status_string_2"),
            ("status_String", PropertyKind::Int64, "status_String_int64"),
            ("TIME", PropertyKind::DateTime, "TIME_datetime"),
            ("größe", PropertyKind::Int64, "größe"),
            ("GRÖßE", PropertyKind::Int64, "GRÖßE_int64"),
        ] {
            assert_eq!(names.add(wanted, kind), name);
        }
    }
}
