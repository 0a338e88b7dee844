//! The names of an archive's objects.
//!
//! ```text
//! Log/2026/11/Log20261120.1.parquet          the sealed day           NAME/yyyy/MM/TABLE.GENERATION.parquet
//! Log/2026/11/Log20261120.1.manifest.json    its description; written last: only a manifest makes an archive
//! ```
//!
//! Listed by name, the days of a table are in order, and the generations of a day are adjacent. Objects with other
//! names are never touched.

use daytable_model::key::DayTable;

const DATA: &str = "parquet";
const MANIFEST: &str = "manifest.json";

/// One of an archive's two objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum ArchiveObject {
    Data,
    Manifest,
}

/// One archive of one day. A day with late records has several, of which the latest is valid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ArchiveName {
    pub(super) table: DayTable,
    pub(super) generation: i64,
}

impl ArchiveName {
    /// The object's name below the archive's address.
    pub(super) fn object(&self, part: ArchiveObject) -> String {
        let date = self.table.start().date();
        let end = match part {
            ArchiveObject::Data => DATA,
            ArchiveObject::Manifest => MANIFEST,
        };
        let (table, generation) = (&self.table, self.generation);
        format!("{}/{:04}/{:02}/{table}.{generation}.{end}", table.table(), date.year, date.month)
    }

    /// The inverse of [`ArchiveName::object`]; `None` for any other text.
    pub(super) fn parse(object: &str) -> Option<(ArchiveName, ArchiveObject)> {
        let file = object.rsplit('/').next()?;
        let (stem, part) = match file.strip_suffix(MANIFEST) {
            Some(stem) => (stem, ArchiveObject::Manifest),
            None => (file.strip_suffix(DATA)?, ArchiveObject::Data),
        };
        let (table, generation) = stem.strip_suffix('.')?.split_once('.')?;
        let generation = generation.parse().ok().filter(|generation| *generation > 0)?;
        let name = ArchiveName { table: DayTable::parse(table).ok()?, generation };
        (name.object(part) == object).then_some((name, part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn objects_and_what_they_are_called() {
        for (table, generation, name) in [
            ("Log20261120", 1, "Log/2026/11/Log20261120.1"),
            ("Audit202611", 12, "Audit/2026/11/Audit202611.12"),
            ("Busy2026112023", 1, "Busy/2026/11/Busy2026112023.1"),
        ] {
            let archive = ArchiveName { table: DayTable::parse(table).expect("a table"), generation };
            assert_eq!(archive.object(ArchiveObject::Data), format!("{name}.parquet"));
            assert_eq!(archive.object(ArchiveObject::Manifest), format!("{name}.manifest.json"));
        }
    }

    #[test]
    fn what_is_called_otherwise_is_not_ours() {
        for object in [
            "",
            "Log/2026/11/Log20261120.parquet",
            "Log/2026/11/Log20261120.0.parquet",
            "Log/2026/11/Log20261120.-1.parquet",
            "Log/2026/11/Log20261120.01.parquet",
            "Log/2026/11/Log20261120.+1.parquet",
            "Log/2026/11/Log20261120.1.parquet#1",
            "Log/2026/11/Log20261120.1.csv",
            "Log/2026/11/Log20261120.1parquet",
            "Log/2026/12/Log20261120.1.parquet",
            "Other/2026/11/Log20261120.1.parquet",
            "Log20261120.1.parquet",
            "a/Log/2026/11/Log20261120.1.parquet",
            "Log/2026/13/Log20261320.1.parquet",
            "Log/2026/11/Log20261120.99999999999999999999.parquet",
        ] {
            assert_eq!(ArchiveName::parse(object), None, "{object}");
        }
    }

    proptest! {
        /// A name parses back to itself, and every parsed text is the canonical one.
        #[test]
        fn written_and_read_back(
            day in "[A-Za-z]{3,5}20[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|1[0-9])?", generation in 1i64..1000, manifest in any::<bool>(),
            text in "[A-Za-z]{3}/20[0-9]{2}/[01][0-9]/[A-Za-z]{3}[0-9]{6,10}[.][0-9]{1,3}[.](parquet|manifest.json)",
        ) {
            let part = if manifest { ArchiveObject::Manifest } else { ArchiveObject::Data };
            let name = ArchiveName { table: DayTable::parse(&day).expect("a table"), generation };
            let object = name.object(part);
            prop_assert_eq!(ArchiveName::parse(&object), Some((name, part)));
            if let Some((name, part)) = ArchiveName::parse(&text) {
                prop_assert_eq!(name.object(part), text);
            }
        }
    }
}
