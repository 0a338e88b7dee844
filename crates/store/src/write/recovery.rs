//! Opens a data folder to write: finds the remains of a crash, and checks that the files belong together.
//!
//! Pages above `committed` never happened. Only commit `committed + 1` can have such pages, in the files that it wrote
//! to. A file with a later commit, or without a commit that the catalog names, does not belong to this catalog. All
//! checks come before any change. Then recovery copies the pages to `trash/` and removes them. It raises `committed`
//! past their number before anything else is written, so no number is used twice.
//!
//! This needs room, as moving journals does. On a full disk nothing is written: the pages stay, readers leave them out,
//! and no commit is made until they are removed ([`Opened::NoRoom`]). Days can be dropped meanwhile, for which the
//! catalog's journal keeps its room.

use crate::StoreError;
use crate::format::catalog::{Catalog, InterruptedStep, LiveFile};
use crate::format::day_file::{self, DayFile, Insert, PageOwner, Total};
use crate::format::page::{EncodedPage, PageHeader, TableAddress};
use crate::format::page_rows::{self, BodyReader, PageRow};
use crate::format::sealed;
use crate::format::shared_pages;
use crate::layout::{FolderLayout, SET_ASIDE, parse_file_name, parts_of};
use crate::maintain::orphans::{self, Opening};
use crate::maintain::unnamed_files::{self, UnnamedFile};
use crate::sqlite;
use daytable_model::key::DayTable;
use daytable_platform::in_parallel::in_parallel;
use std::path::Path;

/// A file with pages of an unfinished commit.
struct Torn {
    file: DayFile,
    pages: Vec<PageRow>,
    seq: i64,
}

/// What the opening of a folder led to.
pub(crate) enum Opened {
    Whole(RecoveredFolder),
    NoRoom(FullFolder),
}

/// A folder that was checked, and waits for room on its disk. Files may have pages of commit `committed + 1`.
pub(crate) struct FullFolder {
    pub(crate) catalog: Catalog,
    /// The opened files.
    pub(crate) days: Vec<(DayTable, DayFile)>,
    /// The number of that commit, if there are such pages.
    pub(crate) unfinished: Option<i64>,
    pub(crate) error: StoreError,
}

/// What the checks found, before any change.
struct Checked {
    unnamed: Vec<UnnamedFile>,
    days: Vec<(LiveFile, DayFile)>,
    torn: Vec<(LiveFile, Torn)>,
    committed: i64,
}

/// Free bytes of the disk, besides those of the pages that are written or removed, below which commits and openings write
/// no page. Otherwise one that fails would use up what a drop needs.
const ROOM: u64 = 512 << 10;
/// Free bytes of the disk, besides four times those of torn pages, below which no copy of them is made.
const COPY_ROOM: u64 = 4 << 20;

/// A consistent data folder: no file has a commit above the catalog's.
pub(crate) struct RecoveredFolder {
    pub(crate) catalog: Catalog,
    /// The opened files that may have a journal.
    pub(crate) days: Vec<(LiveFile, DayFile)>,
}

/// Files without a journal that are checked when a folder is opened, the last written first: a catalog from a backup
/// disagrees with these. The others are checked before the next write to them, so that many days do not slow down a
/// start.
const CLOSED_CHECKED: usize = 8;

/// Opens the catalog and the writable files, and removes the remains of a crash or a failed commit if the disk has room.
pub(crate) fn open(layout: &FolderLayout, opening: Opening) -> Result<Opened, StoreError> {
    layout.create()?;
    refuse_without_catalog(layout)?;
    let mut catalog = Catalog::open_to_write(&layout.data)?;
    // The journal's file keeps its length until it is certain that there is room.
    match checkpoint(catalog.connection(), &Catalog::path_in(&layout.data), false) {
        // Nothing is committed before the journal was moved.
        Err(StoreError::Full(_)) => {}
        moved => moved?,
    }
    let mut checked = check_files(layout, &catalog)?;
    let unfinished = (!checked.torn.is_empty()).then_some(checked.committed + 1);
    let room = check_room(layout, checked.torn_bytes());
    match room.and_then(|()| recover(layout, &mut catalog, &mut checked, opening)) {
        Ok(days) => Ok(Opened::Whole(RecoveredFolder { catalog, days })),
        Err(error @ StoreError::Full(_)) => {
            // The files of a dropped day may be there still. If the sweep fails, a later opening does it.
            let _ = orphans::sweep(layout, &mut catalog, &checked.unnamed, opening);
            let torn = checked.torn.into_iter().map(|(live, torn)| (live.day, torn.file));
            let days = checked.days.into_iter().map(|(live, file)| (live.day, file)).chain(torn).collect();
            Ok(Opened::NoRoom(FullFolder { catalog, days, unfinished, error }))
        }
        Err(error) => Err(error),
    }
}

/// Fails if the disk has no room for a commit of this many bytes, or for its removal.
pub(crate) fn check_room(layout: &FolderLayout, bytes: u64) -> Result<(), StoreError> {
    if has_less_than(layout, bytes.saturating_add(ROOM)) { Err(StoreError::Full(layout.data.clone())) } else { Ok(()) }
}

/// Whether the disk has less than this many bytes free. A disk that does not say has enough: some file systems have no
/// size.
fn has_less_than(layout: &FolderLayout, bytes: u64) -> bool {
    let is_short = |disk: rustix::fs::StatVfs| disk.f_blocks > 0 && disk.f_bavail.saturating_mul(disk.f_frsize) < bytes;
    rustix::fs::statvfs(&layout.data).is_ok_and(is_short)
}

/// Opens and checks the writable files, and changes nothing.
fn check_files(layout: &FolderLayout, catalog: &Catalog) -> Result<Checked, StoreError> {
    let committed = catalog.committed()?.seq;

    let mut files = catalog.files()?;
    files.sort_by_key(|live| std::cmp::Reverse(live.last_seq));
    let (mut writable, mut days, mut torn, mut closed) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for live in files {
        let path = layout.table_file(&live.name);
        if !path.exists() {
            return Err(layout.mismatch(&path, "it is missing".into()));
        }
        if let Some(seal) = &live.seal {
            seal.check_length(layout, &path)?;
            continue;
        }
        if !live.writable {
            closed += 1;
            if closed <= CLOSED_CHECKED {
                check_closed(layout, &path, &live, committed)?;
            }
            continue;
        }
        writable.push(live);
    }
    let opened = in_parallel(writable, |live| -> Result<_, StoreError> {
        let file = DayFile::open(&layout.table_file(&live.name), &live.day)?;
        let pages = check(layout, &file, &live, committed)?;
        Ok((live, file, pages))
    });
    for opened in opened {
        let (live, file, pages) = opened?;
        match pages {
            None => days.push((live, file)),
            Some(pages) => torn.push((live, Torn { file, pages, seq: committed + 1 })),
        }
    }

    let unnamed = unnamed_files::find(&layout.tables(), catalog)?;
    if let Some((name, rows)) = unnamed.iter().find_map(|file| Some((&file.name, file.rows()?))) {
        let what = format!("it has {rows} rows and the catalog does not name it, which may have lost its journal");
        return Err(layout.mismatch(&layout.table_file(name), what));
    }

    Ok(Checked { unnamed, days, torn, committed })
}

impl Checked {
    /// Bytes of the torn pages.
    fn torn_bytes(&self) -> u64 {
        let pages = self.torn.iter().flat_map(|(_, torn)| &torn.pages);
        pages.map(|page| u64::from(page.header.raw_bytes)).sum()
    }
}

/// Removes the remains of a crash or a failed commit, and returns the open days.
fn recover(
    layout: &FolderLayout,
    catalog: &mut Catalog,
    checked: &mut Checked,
    opening: Opening,
) -> Result<Vec<(LiveFile, DayFile)>, StoreError> {
    // A checkpoint also rewrites pages that a failed fsync did not bring to disk: the journal still has them.
    checkpoint(catalog.connection(), &Catalog::path_in(&layout.data), true)?;
    let lost = !checked.torn.is_empty();
    // The copy is in its journal first, then in its file; the removal needs room as well.
    let has_room = lost && !has_less_than(layout, checked.torn_bytes().saturating_mul(4).saturating_add(COPY_ROOM));
    while let Some((live, Torn { mut file, pages, seq })) = checked.torn.pop() {
        if has_room {
            set_aside(layout, &live.day, &file, &pages, seq);
        } else {
            tracing::warn!(table = %live.day, "the disk has no room for a copy of an unfinished commit in trash/");
        }
        if let Err(error) = file.remove_commit(seq, &pages) {
            file.abandon();
            return Err(error);
        }
        let entities: u32 = pages.iter().map(|p| p.header.entities).sum();
        tracing::warn!(table = %live.day, commit = seq, entities, "removed the pages of an unfinished commit");
        checked.days.push((live, file));
    }
    if lost {
        catalog.void(checked.committed + 1)?;
    }
    let days = std::mem::take(&mut checked.days);
    let moved =
        in_parallel(days, |(live, file)| checkpoint(file.connection(), file.path(), true).map(|()| (live, file)));
    let days = moved.into_iter().collect::<Result<_, StoreError>>()?;
    orphans::sweep(layout, catalog, &checked.unnamed, opening)?;
    if opening == Opening::First {
        for InterruptedStep { table, step, times, .. } in catalog.count_interrupted()? {
            tracing::warn!(%table, step, times, "a step of the lifecycle was interrupted, as by a kill");
        }
    }
    Ok(days)
}

/// Refuses a folder with days but without a catalog. The catalog is created before any day. A new catalog would name
/// none of the days, and their rows would disappear silently.
fn refuse_without_catalog(layout: &FolderLayout) -> Result<(), StoreError> {
    let path = Catalog::path_in(&layout.data);
    if std::fs::metadata(&path).is_ok_and(|catalog| catalog.len() > 0) {
        return Ok(());
    }
    let folder = layout.tables();
    for entry in std::fs::read_dir(&folder).map_err(StoreError::io(&folder))? {
        let entry = entry.map_err(StoreError::io(&folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_day = parse_file_name(&name).is_some() || sealed::is_sealed(&name);
        if is_day && entry.metadata().is_ok_and(|file| file.len() > 0) {
            return Err(layout.mismatch(&path, format!("it is missing or empty, and tables/ has {name}")));
        }
    }
    Ok(())
}

/// Checks a file without a journal. It has no unfinished commit, so it must agree with the catalog.
fn check_closed(layout: &FolderLayout, path: &Path, live: &LiveFile, committed: i64) -> Result<(), StoreError> {
    let connection = crate::sqlite::open_to_read(path)?;
    let total = day_file::read_total(&connection).map_err(StoreError::sqlite(path))?;
    let is_whole = (total.last_seq, total.entities) == (live.last_seq, live.entities);
    if is_whole { Ok(()) } else { Err(layout.mismatch(path, disagreement(&total, live, committed))) }
}

fn disagreement(total: &Total, live: &LiveFile, committed: i64) -> String {
    format!(
        "its last commit is {} with {} entities, the catalog says {} with {} and {committed} in all",
        total.last_seq, total.entities, live.last_seq, live.entities
    )
}

/// Opens one more file of the catalog to write.
pub(crate) fn open_day(layout: &FolderLayout, live: &LiveFile, committed: i64) -> Result<DayFile, StoreError> {
    let path = layout.table_file(&live.name);
    if !path.exists() {
        return Err(layout.mismatch(&path, "it is missing".into()));
    }
    let file = DayFile::open(&path, &live.day)?;
    match check(layout, &file, live, committed)? {
        None => Ok(file),
        Some(_) => Err(layout.mismatch(&path, "it was closed, but has a commit that the catalog does not have".into())),
    }
}

fn checkpoint(connection: &rusqlite::Connection, path: &Path, truncate: bool) -> Result<(), StoreError> {
    sqlite::checkpoint(connection, truncate).map(drop).map_err(StoreError::sqlite(path))
}

/// None if the file agrees with the catalog; the pages of an unfinished commit; or an error that describes the
/// mismatch.
fn check(
    layout: &FolderLayout,
    file: &DayFile,
    live: &LiveFile,
    committed: i64,
) -> Result<Option<Vec<PageRow>>, StoreError> {
    let total = file.total()?;
    let Total { last_seq, entities, seq_before, entities_before, .. } = total;
    if (last_seq, entities) == (live.last_seq, live.entities) {
        return Ok(None);
    }
    if last_seq == committed + 1 && (seq_before, entities_before) == (live.last_seq, live.entities) {
        let pages = file.uncommitted(committed)?;
        let found: i64 = pages.iter().map(|p| i64::from(p.header.entities)).sum();
        if found == entities - entities_before && pages.iter().all(|p| p.seq == last_seq) {
            return Ok(Some(pages));
        }
    }
    Err(layout.mismatch(file.path(), disagreement(&total, live, committed)))
}

/// Copies pages of an unfinished commit to `trash/`, which keeps them for a week. If the copy fails, what there is of it
/// is removed, and only a warning is logged: the sources are read again.
fn set_aside(layout: &FolderLayout, day: &DayTable, file: &DayFile, pages: &[PageRow], seq: i64) {
    let name = file.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let aside = format!("{SET_ASIDE}{seq}-{name}");
    let target = layout.trash().join(&aside);
    // A part of a copy may be there: of an opening that failed, or of a kill.
    let clear = || {
        parts_of(&aside).iter().for_each(|part| drop(std::fs::remove_file(layout.trash().join(part))));
    };
    clear();
    let copy = || -> Result<(), StoreError> {
        let sql = |e| StoreError::sqlite(file.path())(e);
        let table_address = TableAddress::new(day);
        let (mut inserts, mut bodies) = (Vec::with_capacity(pages.len()), BodyReader::default());
        let mut pages = pages.to_vec();
        shared_pages::fill(file.connection(), &mut pages).map_err(sql)?;
        for page in &pages {
            let body = bodies.read(file.connection(), page.place.page()).map_err(sql)?.unwrap_or_default().to_vec();
            let (owner, address) = match &page.shared {
                None => {
                    let partition = page_rows::named_partition(file.connection(), file.path(), page)?;
                    (PageOwner::One(partition.clone()), table_address.at(&partition))
                }
                Some(shared) => {
                    let names = shared_pages::names_of(file.connection(), file.path(), table_address, page)?;
                    let parts = names.into_iter().zip(shared.iter()).map(|(name, (_, rows))| (name, rows));
                    (PageOwner::Many(parts.collect()), shared.address(table_address))
                }
            };
            let own = address.stored_checksum(&page.header, page.seq);
            let page = EncodedPage {
                header: PageHeader { checksum: own, ..page.header.clone() },
                body,
                counts: None,
                words: None,
            };
            inserts.push(Insert { owner, page });
        }
        let mut aside = DayFile::open(&target, day)?;
        aside.insert(seq, &inserts)?;
        aside.close()
    };
    if let Err(error) = copy() {
        clear();
        tracing::warn!(%error, "failed to copy the pages that were set aside to trash/");
    }
}
