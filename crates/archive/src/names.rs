//! The names of an archive's objects.
//!
//! ```text
//! Log/log_day=2026-11-20/log_host=web-1/Log20261120.1.ORIGIN.parquet         the sealed day
//! Log/log_day=2026-11-20/log_host=web-1/Log20261120.1.ORIGIN.manifest.json   its description; written last: only a
//!                                                                            manifest makes an archive
//! Log/log_day=2026-11-20/log_host=web-1/Log20261120.open-RANDOM.ORIGIN.parquet   a part of an open day, which a table's log
//!                                                                            names; it is not an archive
//! ```
//!
//! The number behind the day-table is the generation. ORIGIN is the folder of the daytable that archived it
//! ([`FolderOrigin`](daytable_store::forward::position::FolderOrigin), 32 hexadecimal digits), so that hosts of one name do not meet. `log_day`, the day on
//! which the table's period begins, and `log_host` stand in the path as engines expect columns by which files are
//! divided. Objects with other names are never touched.

use daytable_model::column_name::{LOG_DAY, LOG_HOST};
use daytable_model::key::DayTable;
use daytable_store::sealed::ArchiveHome;

/// What stands before a day in a path.
pub(super) const DAY_FOLDER: &str = "log_day=";

const DATA: &str = "parquet";
const MANIFEST: &str = "manifest.json";

/// One of an archive's two objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum ArchiveObject {
    Data,
    Manifest,
}

/// One archive of one day, or a part of an open one. A day with late records has several archives, of which the latest is valid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ArchiveName {
    pub(super) table: DayTable,
    pub(super) home: ArchiveHome,
    /// 0 of a part of an open day.
    pub(super) generation: i64,
    /// A random number, of a part of an open day: no name is used twice.
    pub(super) part: Option<u64>,
}

/// What stands before the number of a part of an open day, in place of a generation.
const OPEN: &str = "open-";

/// An object of an archive, as a store lists it.
pub(super) struct FoundObject {
    pub(super) name: ArchiveName,
    pub(super) part: ArchiveObject,
    pub(super) bytes: u64,
    /// When it was written, in milliseconds since 1970.
    pub(super) modified: i64,
    /// What the store calls this version of it.
    pub(super) e_tag: Option<String>,
}

impl ArchiveName {
    /// The object's name below the archive's address.
    pub(super) fn object(&self, part: ArchiveObject) -> String {
        let end = match part {
            ArchiveObject::Data => DATA,
            ArchiveObject::Manifest => MANIFEST,
        };
        let (table, home) = (&self.table, &self.home);
        let generation = match self.part {
            Some(part) => format!("{OPEN}{part:016x}"),
            None => self.generation.to_string(),
        };
        let (day, host, origin) = (self.day(), home.host(), home.origin());
        format!("{}/{LOG_DAY}={day}/{LOG_HOST}={host}/{table}.{generation}.{origin}.{end}", table.table())
    }

    /// The day on which the table's period begins.
    pub(super) fn day(&self) -> String {
        let date = self.table.start().date();
        format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
    }

    /// The inverse of [`ArchiveName::object`]; `None` for any other text.
    pub(super) fn parse(object: &str) -> Option<(ArchiveName, ArchiveObject)> {
        let (folder, file) = object.rsplit_once('/')?;
        let host = folder.rsplit('/').next()?.strip_prefix(LOG_HOST)?.strip_prefix('=')?;
        let (stem, part) = match file.strip_suffix(MANIFEST) {
            Some(stem) => (stem, ArchiveObject::Manifest),
            None => (file.strip_suffix(DATA)?, ArchiveObject::Data),
        };
        let (table, rest) = stem.strip_suffix('.')?.split_once('.')?;
        let (generation, origin) = rest.split_once('.')?;
        let (generation, number) = match generation.strip_prefix(OPEN) {
            Some(number) if part == ArchiveObject::Data => (0, Some(u64::from_str_radix(number, 16).ok()?)),
            Some(_) => return None,
            None => (generation.parse().ok().filter(|generation| *generation > 0)?, None),
        };
        let home = ArchiveHome::new(host, origin.parse().ok()?);
        let name = ArchiveName { table: DayTable::parse(table).ok()?, home, generation, part: number };
        (name.object(part) == object).then_some((name, part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ORIGIN: &str = "0123456789abcdef0123456789abcdef";

    fn home(host: &str) -> ArchiveHome {
        ArchiveHome::new(host, ORIGIN.parse().expect("an origin"))
    }

    #[test]
    fn objects_and_what_they_are_called() {
        for (table, host, generation, name) in [
            ("Log20261120", "web-1", 1, "Log/log_day=2026-11-20/log_host=web-1/Log20261120.1"),
            ("Audit202611", "a.b", 12, "Audit/log_day=2026-11-01/log_host=a.b/Audit202611.12"),
            ("Busy2026112023", "x=/../y", 1, "Busy/log_day=2026-11-20/log_host=x--..-y/Busy2026112023.1"),
            ("Log20261120", "..", 1, "Log/log_day=2026-11-20/log_host=localhost/Log20261120.1"),
        ] {
            let table = DayTable::parse(table).expect("a table");
            let archive = ArchiveName { table, home: home(host), generation, part: None };
            assert_eq!(archive.object(ArchiveObject::Data), format!("{name}.{ORIGIN}.parquet"));
            assert_eq!(archive.object(ArchiveObject::Manifest), format!("{name}.{ORIGIN}.manifest.json"));
        }
    }

    #[test]
    fn what_is_called_otherwise_is_not_ours() {
        let folder = "Log/log_day=2026-11-20/log_host=web-1";
        let whole = format!("{folder}/Log20261120.1.{ORIGIN}.parquet");
        assert!(ArchiveName::parse(&whole).is_some(), "{whole}");
        let part = format!("{folder}/Log20261120.open-00000000000000ff.{ORIGIN}.parquet");
        let (name, object) = ArchiveName::parse(&part).expect("a part");
        assert_eq!((name.generation, name.part, object), (0, Some(255), ArchiveObject::Data));
        assert_eq!(name.object(object), part);
        for object in [
            String::new(),
            format!("{folder}/Log20261120.1.parquet"),
            format!("{folder}/Log20261120.{ORIGIN}.parquet"),
            format!("{folder}/Log20261120.0.{ORIGIN}.parquet"),
            format!("{folder}/Log20261120.-1.{ORIGIN}.parquet"),
            format!("{folder}/Log20261120.open-ff.{ORIGIN}.parquet"),
            format!("{folder}/Log20261120.open-00000000000000ff.{ORIGIN}.manifest.json"),
            format!("{folder}/Log20261120.open-00000000000000FF.{ORIGIN}.parquet"),
            format!("{folder}/Log20261120.01.{ORIGIN}.parquet"),
            format!("{folder}/Log20261120.+1.{ORIGIN}.parquet"),
            format!("{folder}/Log20261120.99999999999999999999.{ORIGIN}.parquet"),
            format!("{whole}#1"),
            format!("{folder}/Log20261120.1.{ORIGIN}.csv"),
            format!("{folder}/Log20261120.1.{ORIGIN}parquet"),
            format!("{folder}/Log20261120.1.{}.parquet", ORIGIN.to_uppercase()),
            format!("{folder}/Log20261121.1.{ORIGIN}.parquet"),
            format!("a/{whole}"),
            whole.replacen("Log/", "Other/", 1),
            whole.replace("log_day=", ""),
            whole.replace("log_host=", ""),
            whole.replace("web-1", "web 1"),
            whole.replace("web-1", ""),
            whole.replace("2026-11-20", "2026-11-2"),
            format!("Log20261120.1.{ORIGIN}.parquet"),
        ] {
            assert_eq!(ArchiveName::parse(&object), None, "{object}");
        }
    }

    proptest! {
        /// A name parses back to itself, and every parsed text is the canonical one.
        #[test]
        fn written_and_read_back(
            day in "[A-Za-z]{3,5}20[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|1[0-9])?", generation in 1i64..1000, manifest in any::<bool>(),
            host in ".{0,70}", number in proptest::option::of(any::<u64>()),
            text in "Log/log_day=20[0-9]{2}-[01][0-9]-[0-3][0-9]/log_host=[a-z.]{0,2}/Log[0-9]{6,10}[.][0-9]{1,3}[.][0-9a-f]{31,32}[.](parquet|manifest.json)",
        ) {
            let part = if manifest && number.is_none() { ArchiveObject::Manifest } else { ArchiveObject::Data };
            let generation = if number.is_some() { 0 } else { generation };
            let table = DayTable::parse(&day).expect("a table");
            let name = ArchiveName { table, home: home(&host), generation, part: number };
            let object = name.object(part);
            prop_assert_eq!(ArchiveName::parse(&object), Some((name, part)));
            if let Some((name, part)) = ArchiveName::parse(&text) {
                prop_assert_eq!(name.object(part), text);
            }
        }
    }
}
