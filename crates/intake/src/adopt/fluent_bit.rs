//! The database of Fluent Bit's `tail` input (`DB`).
//!
//! ```sql
//! CREATE TABLE in_tail_files (id INTEGER PRIMARY KEY, name TEXT NOT NULL, offset INTEGER, inode INTEGER,
//!                             created INTEGER, rotated INTEGER DEFAULT 0);   -- newer ones have more columns
//! ```
//!
//! The newest row of an inode counts, as in Fluent Bit. The offset in a compressed file counts compressed bytes; such
//! files are skipped later. The database is read from a copy, so the journal of a killed Fluent Bit is applied and the
//! original stays unchanged.

use super::{AdoptError, FileReference, SavedPosition, format};
use daytable_model::path_text::PathText;
use rusqlite::{Connection, OpenFlags};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(super) fn read(path: &Path) -> Result<Vec<SavedPosition>, AdoptError> {
    let failed = |source| AdoptError::Io { path: path.into(), source };
    std::fs::metadata(path).map_err(failed)?;
    let copy = DatabaseCopy::of(path).map_err(failed)?;
    rows(&copy.database()).map_err(|error| format(path.escaped(), error.to_string()))
}

fn rows(path: &Path) -> rusqlite::Result<Vec<SavedPosition>> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let mut select = connection.prepare("SELECT inode, name, offset FROM in_tail_files ORDER BY id")?;
    let mut rows = select.query([])?;
    let mut newest = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (inode, name, offset): (i64, String, Option<i64>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if let (Ok(inode), Ok(offset)) = (u64::try_from(inode), u64::try_from(offset.unwrap_or(0))) {
            newest.insert(inode, (PathBuf::from(name), offset));
        }
    }
    let position = |(inode, (path, offset))| SavedPosition {
        file: FileReference::Inode { device: None, inode, path: Some(path) },
        offset,
    };
    Ok(newest.into_iter().map(position).collect())
}

/// A temporary copy of the database and its journal, removed on drop.
struct DatabaseCopy(PathBuf);

impl DatabaseCopy {
    fn of(path: &Path) -> std::io::Result<DatabaseCopy> {
        let name = format!("daytable-adopt-{}-{:016x}", std::process::id(), crate::record_writer::random_identity());
        let folder = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().create(&folder)?;
        let copy = DatabaseCopy(folder);
        for (from, to) in ["", "-wal"].map(|end| (with_end(path, end), with_end(&copy.database(), end))) {
            if end_is_there(&from) {
                std::fs::copy(&from, &to)?;
            }
        }
        Ok(copy)
    }

    fn database(&self) -> PathBuf {
        self.0.join("tail.db")
    }
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(end);
    path.into()
}

fn end_is_there(path: &Path) -> bool {
    path.is_file()
}

impl Drop for DatabaseCopy {
    fn drop(&mut self) {
        // A leftover temporary folder is harmless.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_row_of_an_inode_counts_and_the_journal_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("flb.db");
        let connection = Connection::open(&path).expect("opened");
        connection.pragma_update(None, "journal_mode", "WAL").expect("set");
        connection
            .execute_batch(
                "CREATE TABLE in_tail_files (id INTEGER PRIMARY KEY, name TEXT NOT NULL, offset INTEGER, inode INTEGER, \
                 created INTEGER, rotated INTEGER DEFAULT 0);
                 INSERT INTO in_tail_files (name, offset, inode, created) VALUES ('/a.log', 5, 7, 1), ('/b.log', 6, 8, 1), \
                 ('/a.log.1', 9, 7, 2);",
            )
            .expect("filled");
        let of = |inode, path: &str, offset| SavedPosition {
            file: FileReference::Inode { device: None, inode, path: Some(path.into()) },
            offset,
        };
        // While the connection is open, the rows are only in the journal.
        assert_eq!(read(&path).expect("read"), [of(7, "/a.log.1", 9), of(8, "/b.log", 6)]);
        std::fs::write(folder.path().join("other"), "text that is no database at all").expect("written");
        assert!(matches!(read(&folder.path().join("other")), Err(AdoptError::Format { .. })));
        assert!(matches!(read(Path::new("/nowhere")), Err(AdoptError::Io { .. })));
    }
}
