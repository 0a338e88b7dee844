//! Following a data folder: the rows of each commit, in any process.

use super::open_day_file::{OpenDayFile, begin};
use super::{Reader, Row};
use crate::StoreError;
use crate::format::catalog::LiveFile;
use crate::format::page_rows::{HEADER_COLUMNS, PageRow, read_header};
use crate::format::sealed;
use crate::format::shared_pages::{self, SHARED};
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;
use std::collections::HashMap;
use std::sync::Arc;

/// A follower's position: how far it has read each day.
#[derive(Clone, Debug, Default)]
pub struct FollowPosition {
    seq: i64,
    /// The files read so far, by name.
    files: HashMap<String, Seen>,
}

impl FollowPosition {
    /// The number of the last commit that was seen. [`Reader::follow_after`] goes on from there in another process.
    pub fn commit(&self) -> i64 {
        self.seq
    }

    /// Whether a live file has no row beyond this position. A file that the committer closed is not opened to find that
    /// out: a folder may have hundreds of them.
    fn has_all_of(&self, file: &LiveFile) -> bool {
        file.last_seq <= self.seq && (!file.writable || self.files.contains_key(&file.name))
    }
}

/// A file that a follower has read.
#[derive(Clone, Debug)]
struct Seen {
    file: LiveFile,
    /// The last page that need not be read again.
    page: i64,
}

impl Reader {
    /// The position of a follower that wants only later commits.
    pub fn follow_from_now(&self) -> Result<FollowPosition, StoreError> {
        let mut followed = FollowPosition { seq: self.catalog.committed()?.seq, files: HashMap::new() };
        self.each_new_page(&mut followed, &mut |_, _, _| Ok(()))?;
        Ok(followed)
    }

    /// The position after a commit, for a follower that another process began. Rows of days that were sealed meanwhile are
    /// not seen, so a daemon asks for the position before it seals anything. Rows that were merged with later ones may be
    /// seen again.
    pub fn follow_after(&self, commit: i64) -> Result<FollowPosition, StoreError> {
        let committed = self.catalog.committed()?.seq;
        let mut followed = FollowPosition { seq: commit.min(committed), files: HashMap::new() };
        let is_followed = |file: &LiveFile| !sealed::is_sealed(&file.name) && !followed.has_all_of(file);
        for file in self.catalog.files()?.into_iter().filter(is_followed).collect::<Vec<_>>() {
            // The connection is kept: the file can be read after its day was sealed.
            match self.acquire(&file) {
                Ok(opened) => self.release(opened),
                Err(StoreError::TableGone(_)) => continue,
                Err(error) => return Err(error),
            }
            followed.files.insert(file.name.clone(), Seen { file, page: 0 });
        }
        Ok(followed)
    }

    /// Passes the rows committed since `followed` and advances it: the oldest table first, then page by page. The day
    /// of a file may be sealed or dropped after the last call, and rows may have been added just before. So such a file
    /// is read once more, through its cached connection. A file that was created or opened again, written and sealed
    /// between two calls is missed.
    pub fn follow(
        &self,
        followed: &mut FollowPosition,
        each: &mut dyn FnMut(&DayTable, Row),
    ) -> Result<(), StoreError> {
        self.follow_until(followed, Ticks::MAX, each)
    }

    /// As [`Reader::follow`], the oldest record of each page first, without pages whose rows are all newer than `newest`. Other rows that are newer may be among
    /// those that are given.
    pub fn follow_until(
        &self,
        followed: &mut FollowPosition,
        newest: Ticks,
        each: &mut dyn FnMut(&DayTable, Row),
    ) -> Result<(), StoreError> {
        self.each_new_page(followed, &mut |day, opened, page| {
            if page.header.last.time() > newest {
                return Ok(());
            }
            let names = match page.partition {
                SHARED => shared_pages::names_of(&opened.connection, &opened.path, opened.table_address, page)?,
                _ => vec![opened.name_of(page)?],
            };
            let page = Arc::new(opened.read_page(&names[0], page)?);
            // A page has its newest record first. A record comes before its items all the same.
            let mut end = page.len();
            for start in (0..page.len()).rev().filter(|index| *index == 0 || page.key(*index).item() == 0) {
                for index in start..std::mem::replace(&mut end, start) {
                    // The names of a shared page are as many as the owners of its rows.
                    let Some(name) = names.get(page.owner(index).unwrap_or(0)) else { continue };
                    each(day, Row::of_page(name.clone(), page.clone(), index));
                }
            }
            Ok(())
        })
    }

    fn each_new_page(
        &self,
        followed: &mut FollowPosition,
        each: &mut dyn FnMut(&DayTable, &OpenDayFile, &PageRow) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        // Read before the snapshots, so that the snapshots have every page up to it.
        let committed = self.catalog.committed()?;
        let files = self.catalog.files()?;
        let is_live = |name: &String| files.iter().any(|file| file.name == *name);
        // Sealed or dropped since the last call, perhaps after more rows were added.
        let gone = followed.files.values().map(|seen| &seen.file).filter(|file| !is_live(&file.name));
        let gone: Vec<LiveFile> = gone.cloned().collect();
        for file in gone.iter().chain(files.iter().filter(|file| !sealed::is_sealed(&file.name))) {
            let is_gone = !is_live(&file.name);
            if !is_gone && followed.has_all_of(file) {
                continue;
            }
            let opened = match self.acquire(file) {
                Ok(opened) => opened,
                Err(StoreError::TableGone(_)) => continue,
                Err(error) => return Err(error),
            };
            let read = (|| {
                begin(&opened)?;
                let after = followed.files.get(&file.name).map(|seen| seen.page);
                let pages = (|| {
                    let select = match after {
                        Some(_) => format!("SELECT {HEADER_COLUMNS} FROM page WHERE id > ?1 ORDER BY id"),
                        // The file is new to the follower, and its pages beyond `followed.seq` are at its end.
                        None => format!("SELECT {HEADER_COLUMNS} FROM page WHERE seq > ?1 ORDER BY id"),
                    };
                    let mut statement = opened.connection.prepare_cached(&select)?;
                    let rows = statement.query_map([after.unwrap_or(followed.seq)], read_header)?;
                    let mut pages = rows.collect::<rusqlite::Result<Vec<PageRow>>>()?;
                    shared_pages::fill(&opened.connection, &mut pages)?;
                    Ok(pages)
                })();
                let (mut seen, mut is_next) = (after.unwrap_or(0), true);
                for page in pages.map_err(StoreError::sqlite(&opened.path))? {
                    let is_later = page.seq > committed.seq;
                    // Rows after one that is not committed yet may be older: merges since `committed` was read.
                    is_next &= !is_later;
                    seen = if is_next { page.place.page() } else { seen };
                    if is_later {
                        continue;
                    }
                    if page.seq > followed.seq && committed.includes(page.seq) {
                        each(&file.day, &opened, &page)?;
                    }
                }
                followed.files.insert(file.name.clone(), Seen { file: file.clone(), page: seen });
                Ok(())
            })();
            self.release(opened);
            if let Err(error) = read
                && !is_gone
            {
                return Err(error);
            }
        }
        // Close removed files so that the file system frees their space.
        followed.files.retain(|name, _| is_live(name));
        self.connections.borrow_mut().retain(|name, _| is_live(name));
        self.sealed.borrow_mut().retain(|name, _| is_live(name));
        followed.seq = committed.seq;
        Ok(())
    }
}
