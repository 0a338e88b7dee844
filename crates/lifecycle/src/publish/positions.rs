//! Which change of a table this folder made last, in `published.json`.
//!
//! A change is noted before it is made, with the positions before and after it. So the position in the table is one of
//! these two. Any other position means that another folder made a change, or that this folder is an older copy of
//! itself. Then the parts in the table are not those of this folder.

use daytable_store::{StateFile, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The positions of all tables, by their names and the addresses of their archives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NotedPositions {
    #[serde(default)]
    tables: BTreeMap<String, BTreeMap<String, NotedPosition>>,
}

/// The positions before and after the last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NotedPosition {
    pub(super) before: Option<i64>,
    pub(super) after: i64,
}

impl NotedPositions {
    /// The positions of a folder. A damaged file counts as missing: then everything is published anew.
    pub(super) fn read(data_dir: &Path) -> Result<NotedPositions, StoreError> {
        let Some(bytes) = StateFile::Published.read(data_dir)? else { return Ok(NotedPositions::default()) };
        Ok(serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            tracing::warn!(%error, "published.json is damaged: open days are published anew");
            NotedPositions::default()
        }))
    }

    /// Whether the last change of a table was made by this folder in its present state.
    pub(super) fn is_own(&self, table: &str, place: &str, position: Option<i64>) -> bool {
        match self.get(table, place) {
            Some(noted) => position == noted.before || position == Some(noted.after),
            None => position.is_none(),
        }
    }

    fn get(&self, table: &str, place: &str) -> Option<NotedPosition> {
        self.tables.get(table)?.get(place).copied()
    }

    /// Notes a change that is about to be made.
    pub(super) fn note(
        &mut self,
        data_dir: &Path,
        (table, place): (&str, &str),
        position: NotedPosition,
    ) -> Result<(), StoreError> {
        self.tables.entry(table.to_owned()).or_default().insert(place.to_owned(), position);
        self.write(data_dir)
    }

    /// Forgets a table of which nothing is published any more.
    pub(super) fn forget(&mut self, data_dir: &Path, table: &str, place: &str) -> Result<(), StoreError> {
        if let Some(places) = self.tables.get_mut(table) {
            places.remove(place);
        }
        self.tables.retain(|_, places| !places.is_empty());
        self.write(data_dir)
    }

    fn write(&self, data_dir: &Path) -> Result<(), StoreError> {
        let bytes = serde_json::to_vec(self).map_err(|error| StoreError::Refused(error.to_string()))?;
        StateFile::Published.write(data_dir, &bytes)
    }

    /// Each table with the address of its archives.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tables.iter().flat_map(|(table, places)| places.keys().map(move |place| (&**table, &**place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_own_before_and_after_the_noted_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut noted = NotedPositions::read(folder.path()).expect("none");
        assert!(noted.is_own("Log", "s3://a", None) && !noted.is_own("Log", "s3://a", Some(1)));
        for (before, after) in [(None, 7), (Some(7), 9)] {
            noted.note(folder.path(), ("Log", "s3://a"), NotedPosition { before, after }).expect("written");
        }
        let read = NotedPositions::read(folder.path()).expect("read");
        assert_eq!(read, noted);
        assert!(read.is_own("Log", "s3://a", Some(7)) && read.is_own("Log", "s3://a", Some(9)));
        assert!(!read.is_own("Log", "s3://a", Some(8)) && !read.is_own("Log", "s3://a", None));
        assert!(read.is_own("Log", "s3://b", None) && !read.is_own("Other", "s3://a", Some(9)));
        assert_eq!(read.iter().collect::<Vec<_>>(), [("Log", "s3://a")]);
        noted.forget(folder.path(), "Log", "s3://a").expect("written");
        assert_eq!(NotedPositions::read(folder.path()).expect("read"), NotedPositions::default());
        std::fs::write(folder.path().join("published.json"), "{").expect("written");
        assert_eq!(NotedPositions::read(folder.path()).expect("as good as none"), NotedPositions::default());
    }
}
