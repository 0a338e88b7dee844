//! Names of columns in Parquet files, of which no two differ by case only: many tools do not distinguish them.
//!
//! Where a name is taken, in whatever case, the type of the values is added (`userid:String`), and a number where that is
//! taken, too (`userid:String:2`).

use crate::property::PropertyKind;
use std::collections::HashSet;

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
        let typed = format!("{wanted}:{}", kind.name());
        let numbered = (2..).map(|n: u64| format!("{typed}:{n}"));
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
            ("status", PropertyKind::String, "status:String"),
            ("Status", PropertyKind::String, "Status:String:2"),
            ("status:string", PropertyKind::Int64, "status:string:Int64"),
            ("TIME", PropertyKind::DateTime, "TIME:DateTime"),
            ("größe", PropertyKind::Int64, "größe"),
            ("GRÖßE", PropertyKind::Int64, "GRÖßE:Int64"),
        ] {
            assert_eq!(names.add(wanted, kind), name);
        }
    }
}
