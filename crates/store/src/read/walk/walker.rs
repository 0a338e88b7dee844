//! A thread of a walk: reads the pages and row groups of its tasks, without rows that others replace.

use super::filter::{NeedsKeys, RowsOf};
use super::plan::{Connections, FileSource, LateKeys, Task, WalkFile, WalkPlan};
use crate::StoreError;
use crate::format::page::{Page, PageSections, WantedColumns};
use crate::format::page_rows::{self, PageLocation, PageRow};
use crate::format::sealed::SealedFile;
use crate::format::sealed::index::PartitionRun;
use crate::format::shared_pages::SHARED;
use crate::read::columns::{ColumnBatch, PagePlace};
use crate::read::sealed_scan::stretches;
use crate::read::superseded_keys::PageKeys;
use daytable_model::key::RowKey;
use daytable_model::property::PropertyKind;
use daytable_model::row_set::RowSet;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

/// Pages whose keys a thread caches for the pages that may have them, too.
const KEYS_KEPT: usize = 32;
/// Pages of which columns alone are read before those that are not enough are counted.
const COLUMNS_TRIED: u32 = 8;
/// Pages that are read whole before columns alone are tried again; four times as many after each further trial in vain.
const LEFT_ALONE: u32 = 32;
/// After so many pages earlier ones count half.
const COUNTED_PAGES: u32 = 64;

/// A page of an open file, as a walk plans it.
#[derive(Clone, Copy)]
pub(super) struct PageTask<'w> {
    pub(super) file: usize,
    pub(super) page: &'w PageRow,
    /// The name of its partition; none of a shared page.
    pub(super) partition: Option<&'w Arc<str>>,
    /// Later pages that may have its keys.
    pub(super) later: &'w [PageRow],
    /// Whether each of its rows is in the range, and no other replaces one.
    pub(super) is_exact: bool,
}

/// What became of a page.
pub(super) enum ReadPage<T> {
    Rows(T),
    /// The filter does not want it.
    Unwanted,
    /// This thread's snapshot does not have it.
    Missing,
}

/// A thread of a walk: its own connections to the open files.
pub(super) struct Walker<'w> {
    pub(super) plan: &'w WalkPlan<'w>,
    pub(super) connections: Connections,
    keys: RefCell<VecDeque<(usize, PageLocation, Arc<PageKeys>)>>,
    /// Whether the walk was planned in this thread's snapshot.
    is_first: bool,
    alone: Cell<ColumnsAlone>,
}

/// How often columns of a page were enough of late. A bound that other pages give may be far at first, and near later.
#[derive(Clone, Copy, Default)]
struct ColumnsAlone {
    /// Pages of which columns alone were read.
    read: u32,
    /// Those of them of which these were not enough.
    short: u32,
    /// Pages that are read whole before columns are tried again.
    left_alone: u32,
    /// Trials in vain, one after the other.
    in_vain: u32,
}

impl ColumnsAlone {
    /// Whether columns of the next page are read alone: not if mostly they were not enough, since each is then read in vain.
    fn are_tried(&mut self) -> bool {
        let is_left_alone = self.left_alone > 0;
        self.left_alone = self.left_alone.saturating_sub(1);
        !is_left_alone
    }

    fn note(&mut self, are_enough: bool) {
        self.read += 1;
        self.short += u32::from(!are_enough);
        if self.short >= COLUMNS_TRIED && self.short > self.read / 2 {
            let left_alone = LEFT_ALONE.saturating_mul(4u32.saturating_pow(self.in_vain));
            *self = ColumnsAlone { left_alone, in_vain: self.in_vain + 1, ..ColumnsAlone::default() };
        } else if self.read >= COUNTED_PAGES {
            *self = ColumnsAlone { read: self.read / 2, short: self.short / 2, ..ColumnsAlone::default() };
        }
    }
}

impl<'w> Walker<'w> {
    pub(super) fn new(plan: &'w WalkPlan<'w>, connections: Connections, is_first: bool) -> Walker<'w> {
        Walker { plan, connections, keys: RefCell::default(), is_first, alone: Cell::default() }
    }

    /// Whether columns of the next page are read alone.
    pub(super) fn reads_columns(&self) -> bool {
        let mut alone = self.alone.get();
        let are_tried = alone.are_tried();
        self.alone.set(alone);
        are_tried
    }

    /// Notes whether the columns of a page were enough.
    pub(super) fn note_columns(&self, are_enough: bool) {
        let mut alone = self.alone.get();
        alone.note(are_enough);
        self.alone.set(alone);
    }

    /// The records of each wanted partition of a shared page, if its rows are records.
    pub(super) fn partition_numbers(&self, task: &PageTask<'_>) -> Result<Vec<(Arc<str>, u64)>, StoreError> {
        let (filter, header) = (self.plan.question.filter, &task.page.header);
        let Some(shared) = &task.page.shared else { return Ok(Vec::new()) };
        let names = self.names_of(task.file, task.page)?;
        let rows = RowsOf::page(None, header);
        let is_wanted = |name: &str| {
            !name.is_empty()
                && filter.wants_partition(name)
                && filter.wants(RowsOf { partition: Some(name), ..rows }, None)
        };
        let numbers = names.into_iter().zip(shared.iter()).filter(|(name, _)| is_wanted(name));
        Ok(numbers.map(|(name, (_, records))| (name, u64::from(records))).collect())
    }

    /// The columns of a page that `needs` accepts. `None` if the page has to be read as others are.
    pub(super) fn columns(
        &self,
        task: &PageTask<'_>,
        keys: NeedsKeys,
        needs: &dyn Fn(&str, PropertyKind) -> bool,
    ) -> Result<Option<ColumnBatch>, StoreError> {
        if !task.is_exact || task.page.header.records != task.page.header.entities {
            return Ok(None);
        }
        let Some(Some(opened)) = self.connections.get(task.file) else { return Ok(None) };
        let name = self.plan.files[task.file].names.get(&task.page.partition);
        // The reader of the whole page says what is wrong, and knows that another snapshot may have other rows.
        let read = opened.read_columns(
            name.map_or("", |name| name),
            task.page,
            WantedColumns { keys: keys == NeedsKeys::Yes, columns: needs },
        );
        let Ok(Some(page)) = read else { return Ok(None) };
        let records = RowSet::all(page.len());
        self.batch(task, (page.into(), records)).map(Some)
    }

    /// The records of a page.
    pub(super) fn records(&self, task: &PageTask<'_>) -> Result<ReadPage<ColumnBatch>, StoreError> {
        let PageTask { file, page, later, is_exact, .. } = *task;
        let decoded = match self.page(file, page, true)? {
            ReadPage::Rows(decoded) => decoded,
            ReadPage::Unwanted => return Ok(ReadPage::Unwanted),
            ReadPage::Missing => return Ok(ReadPage::Missing),
        };
        let mut records = RowSet::all(decoded.len());
        if page.header.records != page.header.entities || !is_exact {
            let keys = decoded
                .read_keys()
                .map_err(|error| page_rows::damaged(&self.place(file, page).path, page, error.to_string()))?;
            let range = self.plan.first..=self.plan.last;
            records = RowSet::of(keys.len(), |row| keys[row].item() == 0 && range.contains(&keys[row]));
            for later in later {
                if !self.remove_keys(file, later, (page, &decoded), keys, &mut records)? {
                    return Ok(ReadPage::Missing);
                }
            }
        }
        Ok(ReadPage::Rows(self.batch(task, (decoded, records))?))
    }

    /// The records of runs of a row group; `None` if no row of them is in the range.
    pub(super) fn group(
        &self,
        sealed: &SealedFile,
        late: Option<&LateKeys>,
        group: usize,
        runs: &[PartitionRun],
    ) -> Result<Option<ColumnBatch>, StoreError> {
        let range = self.plan.question.range;
        let stretches = stretches(sealed, runs, range.from, range.to)?;
        let stretches: Vec<_> = stretches.into_iter().map(|(run, rows)| (runs[run].partition.clone(), rows)).collect();
        if stretches.is_empty() {
            return Ok(None);
        }
        let mut batch = ColumnBatch::of_group(sealed, group, stretches)?;
        if let Some(late) = late {
            let of_batch = batch.stretches().to_vec();
            for (partition, rows) in of_batch {
                let Some(late) = late.get(&partition) else { continue };
                let mut stale: Vec<usize> = Vec::new();
                let keys = &batch.keys()?[rows.clone()];
                each_common(keys, late, |row, _| stale.push(rows.start + row));
                stale.into_iter().for_each(|row| batch.records_mut().remove(row));
            }
        }
        Ok(Some(batch))
    }

    /// The error of a page that no snapshot has.
    pub(super) fn missing(&self, task: &Task) -> Option<StoreError> {
        let Task::Page { file, page, .. } = task else { return None };
        let opened = self.connections.get(*file)?.as_ref()?;
        Some(page_rows::damaged(&opened.path, page, "its body is missing".into()))
    }

    /// The names of the partitions of a shared page by their numbers in it; an empty one where no row is wanted.
    fn names_of(&self, file: usize, page: &PageRow) -> Result<Vec<Arc<str>>, StoreError> {
        let (Some(shared), Some(Some(opened))) = (&page.shared, self.connections.get(file)) else {
            return Ok(Vec::new());
        };
        let known = &self.plan.files[file].names;
        let name = |(number, (partition, _))| match known.get(&partition) {
            Some(name) => opened.check_number(page, number, name).map(|()| name.clone()),
            None if self.plan.question.range.partitions.is_some() => Ok(Arc::from("")),
            None => Err(page_rows::unnamed_partition(&opened.path, page)),
        };
        shared.iter().enumerate().map(name).collect()
    }

    fn place(&self, file: usize, page: &PageRow) -> PagePlace {
        let path = self.connections[file].as_ref().map(|opened| opened.path.clone()).unwrap_or_default();
        PagePlace { path, place: page.place }
    }

    /// The rows `records` of a page, without late ones and those of unwanted partitions. Late rows need its keys, decoded.
    fn batch(
        &self,
        task: &PageTask<'_>,
        (decoded, mut records): (Arc<Page>, RowSet),
    ) -> Result<ColumnBatch, StoreError> {
        let PageTask { file, page, partition, .. } = *task;
        let names = match partition {
            Some(partition) => vec![partition.clone()],
            None => self.names_of(file, page)?,
        };
        if let Some(late) = self.plan.files[file].late_keys(partition) {
            remove_late(&decoded, &names, late, &mut records);
        }
        if partition.is_none() {
            let is_wanted = |name: &Arc<str>| !name.is_empty() && self.plan.question.filter.wants_partition(name);
            let wanted: Vec<bool> = names.iter().map(is_wanted).collect();
            if wanted.contains(&false) {
                let is_wanted = |row| decoded.owner(row).is_some_and(|of| wanted.get(of) == Some(&true));
                records.keep(&RowSet::of(decoded.len(), is_wanted));
            }
        }
        Ok(ColumnBatch::of_page(&names, decoded, records, Some(self.place(file, page))))
    }

    /// Reads and checks a page, of which rows are asked for only if it `is_filtered` and the filter wants it.
    fn page(&self, file: usize, page: &PageRow, is_filtered: bool) -> Result<ReadPage<Arc<Page>>, StoreError> {
        let Some(Some(opened)) = self.connections.get(file) else { return Ok(ReadPage::Missing) };
        let WalkFile { names, .. } = &self.plan.files[file];
        let name = names.get(&page.partition);
        let mut bodies = opened.bodies.borrow_mut();
        match bodies.read(&opened.connection, page.place.page()) {
            Ok(Some(body)) => {
                let filter = self.plan.question.filter;
                let wants = |page: &PageSections<'_>| !is_filtered || filter.wants_page(page);
                match opened.decode_wanted(name.map_or("", |name| name), page, body, wants) {
                    Ok(decoded) => Ok(decoded.map_or(ReadPage::Unwanted, |page| ReadPage::Rows(page.into()))),
                    // In another snapshot, rows of the page may be gone.
                    Err(_) if !self.is_first => Ok(ReadPage::Missing),
                    Err(error) => Err(error),
                }
            }
            Ok(None) => Ok(ReadPage::Missing),
            Err(_) if !self.is_first => Ok(ReadPage::Missing),
            Err(error) => Err(StoreError::sqlite(&opened.path)(error)),
        }
    }

    /// The keys of a page that may replace rows of others. `None` if this thread's snapshot does not have it.
    fn keys_of(&self, file: usize, later: &PageRow) -> Result<Option<Arc<PageKeys>>, StoreError> {
        let mut kept = self.keys.borrow_mut();
        if let Some((_, _, keys)) = kept.iter().find(|(of, place, _)| (*of, *place) == (file, later.place)) {
            return Ok(Some(keys.clone()));
        }
        let ReadPage::Rows(read) = self.page(file, later, false)? else { return Ok(None) };
        read.read_keys().map_err(|error| {
            let path = self.connections[file].as_ref().map(|opened| opened.path.clone()).unwrap_or_default();
            page_rows::damaged(&path, later, error.to_string())
        })?;
        if kept.len() == KEYS_KEPT {
            kept.pop_front();
        }
        let keys = Arc::new(PageKeys::of(later, &read));
        kept.push_back((file, later.place, keys.clone()));
        Ok(Some(keys))
    }

    /// Removes rows that a later page has too. False if this thread's snapshot does not have that page.
    fn remove_keys(
        &self,
        file: usize,
        later: &PageRow,
        (page, decoded): (&PageRow, &Page),
        keys: &[RowKey],
        records: &mut RowSet,
    ) -> Result<bool, StoreError> {
        let from = keys.partition_point(|key| *key < later.header.first);
        let to = keys.partition_point(|key| *key <= later.header.last);
        if from == to {
            return Ok(true);
        }
        let Some(others) = self.keys_of(file, later)? else { return Ok(false) };
        each_common(&keys[from..to], &others.keys, |row, other| {
            let is_same = match page.partition_at(decoded, from + row) {
                Some(partition) if later.partition == SHARED => others.is_of(other, partition),
                partition => partition == Some(later.partition),
            };
            if is_same {
                records.remove(from + row);
            }
        });
        Ok(true)
    }
}

/// The sealed file of a number in a plan, and the keys of later files that may replace rows of it.
pub(super) fn sealed_of<'w>(plan: &'w WalkPlan<'w>, file: usize) -> Option<(&'w SealedFile, Option<&'w LateKeys>)> {
    match &plan.files[file] {
        WalkFile { source: FileSource::Sealed(sealed), late, .. } => Some((sealed, late.as_deref())),
        WalkFile { source: FileSource::Open, .. } => None,
    }
}

/// Removes rows that later files have, too. `names` has the names of the partitions of the page by their numbers in it.
fn remove_late(page: &Page, names: &[Arc<str>], late: &LateKeys, records: &mut RowSet) {
    let keys = page.keys();
    match names {
        [name] if !page.has_owners() => {
            let late = late.get(name).map(Vec::as_slice).unwrap_or_default();
            each_common(keys, late, |row, _| records.remove(row));
        }
        _ => {
            let late: Vec<Option<&Vec<RowKey>>> = names.iter().map(|name| late.get(name)).collect();
            for (row, key) in keys.iter().enumerate() {
                let late = page.owner(row).and_then(|owner| *late.get(owner)?);
                if late.is_some_and(|late| late.binary_search(key).is_ok()) {
                    records.remove(row);
                }
            }
        }
    }
}

/// Passes the indices of keys that are among `others`, in both. Both are sorted.
fn each_common(keys: &[RowKey], others: &[RowKey], mut each: impl FnMut(usize, usize)) {
    let mut at = others.partition_point(|other| keys.first().is_some_and(|first| other < first));
    for (row, key) in keys.iter().enumerate() {
        while others.get(at).is_some_and(|other| other < key) {
            at += 1;
        }
        if others.get(at) == Some(key) {
            each(row, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes so many pages in a row. Returns of how many columns alone were read.
    fn pass(alone: &mut ColumnsAlone, pages: u32, are_enough: impl Fn(u32) -> bool) -> u32 {
        let mut read = 0;
        for page in 0..pages {
            if alone.are_tried() {
                alone.note(are_enough(page));
                read += 1;
            }
        }
        read
    }

    #[test]
    fn columns_that_are_not_enough_at_first_are_tried_again() {
        let mut alone = ColumnsAlone::default();
        assert_eq!(pass(&mut alone, 10, |_| false), COLUMNS_TRIED);
        assert_eq!(pass(&mut alone, 1000, |_| true), 1000 - (LEFT_ALONE - 2));
        // What was enough for long does not keep columns from being left alone.
        assert!(pass(&mut alone, 200, |_| false) < 100);
    }

    #[test]
    fn columns_that_are_never_enough_are_tried_less_and_less() {
        let mut alone = ColumnsAlone::default();
        let tried: Vec<u32> = (0..4).map(|_| pass(&mut alone, 2000, |_| false)).collect();
        assert!(tried[0] <= 5 * COLUMNS_TRIED && tried[3] <= COLUMNS_TRIED, "{tried:?}");
    }
}
