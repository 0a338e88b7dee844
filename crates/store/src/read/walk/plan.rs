//! Which pages and row groups a walk reads, in one snapshot, and which later pages may have the same rows.

use super::filter::{ColumnTest, PartFilter, RecordNumbers, RowsOf};
use crate::StoreError;
use crate::format::catalog::LiveFile;
use crate::format::page_bloom::PageBloom;
use crate::format::page_counts::PageCounts;
use crate::format::page_groups::PageGroups;
use crate::format::page_rows::{self, PageRow};
use crate::format::sealed::SealedFile;
use crate::format::sealed::index::PartitionRun;
use crate::format::shared_pages::SHARED;
use crate::read::counts::headers_in;
use crate::read::open_scan::{OpenScan, Resume};
use crate::read::overlaps::Overlaps;
use crate::read::sealed_scan::runs_in;
use crate::read::{OpenDayFile, Range, Reader, begin, check_snapshot, partition_names};
use ::bytes::Bytes;
use daytable_model::key::RowKey;
use daytable_model::time::Ticks;
use daytable_platform::budget::MemoryBudget;
use daytable_platform::lock;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// Keys of later files that are compared with those of earlier ones: 24 bytes each.
const LATE_KEYS_MAX: usize = 1 << 20;

/// Keys of later files of the day, in order, by partition.
pub(super) type LateKeys = HashMap<Arc<str>, Vec<RowKey>, foldhash::quality::RandomState>;

/// A page, or rows of a row group.
pub(super) enum Task {
    Page {
        file: usize,
        page: PageRow,
        /// The name of its partition; none of a shared page.
        partition: Option<Arc<str>>,
        /// Later pages that may have its keys.
        later: Vec<PageRow>,
    },
    Group {
        file: usize,
        group: usize,
        runs: Vec<PartitionRun>,
    },
}

/// A file of a walk.
pub(super) struct WalkFile {
    pub(super) source: FileSource,
    pub(super) late: Option<Arc<LateKeys>>,
    /// Numbers by value of the pages of an open file.
    pub(super) counts: PageGroups<PageCounts>,
    /// The wanted partitions of an open file.
    pub(super) names: BTreeMap<i64, Arc<str>>,
    /// Numbers by value of parts of the row groups of a sealed file, encoded, once a row group needs them.
    counted_groups: Mutex<Option<Arc<BTreeMap<usize, Bytes>>>>,
}

impl WalkFile {
    fn sealed(sealed: SealedFile, late: Option<Arc<LateKeys>>) -> WalkFile {
        let (source, counts, names) = (FileSource::Sealed(sealed), PageGroups::default(), BTreeMap::new());
        WalkFile { source, late, counts, names, counted_groups: Mutex::default() }
    }

    /// The keys of later files, if a page of `partition`, or a shared one, may have rows of them.
    pub(super) fn late_keys(&self, partition: Option<&Arc<str>>) -> Option<&LateKeys> {
        let has_some = |late: &&LateKeys| partition.is_none_or(|partition| late.contains_key(partition));
        self.late.as_deref().filter(has_some)
    }
}

#[derive(Clone)]
pub(super) enum FileSource {
    Sealed(SealedFile),
    Open,
}

/// What a walk is asked.
pub(super) struct WalkQuestion<'w> {
    pub(super) range: &'w Range,
    pub(super) filter: &'w dyn PartFilter,
    /// The columns whose value counts are looked at.
    pub(super) counted: Option<ColumnTest<'w>>,
    /// Whether numbers by partition may be taken.
    pub(super) counts_partitions: bool,
    /// Whether pages with newer records come first.
    pub(super) is_newest_first: bool,
}

/// Takes numbers of records in place of the records. False if these have to be read.
pub(super) type TakeNumbers<'t> = &'t mut dyn FnMut(RowsOf<'_>, RecordNumbers<'_>) -> bool;

/// The connections of a thread to the open files; `None` for each sealed one.
pub(super) type Connections = Vec<Option<OpenDayFile>>;

/// What a walk reads.
pub(super) struct WalkPlan<'w> {
    pub(super) question: WalkQuestion<'w>,
    pub(super) files: Vec<WalkFile>,
    pub(super) tasks: Vec<Task>,
    pub(super) first: RowKey,
    pub(super) last: RowKey,
    /// The memory of questions, if the walk is one's.
    pub(super) memory: Option<MemoryBudget>,
}

impl<'w> WalkPlan<'w> {
    fn new(question: WalkQuestion<'w>, memory: Option<MemoryBudget>) -> WalkPlan<'w> {
        let (first, last) = RowKey::range(question.range.from, question.range.to);
        WalkPlan { question, files: Vec::new(), tasks: Vec::new(), first, last, memory }
    }

    /// Plans a walk of one sealed file.
    pub(super) fn of_sealed(sealed: &SealedFile, question: WalkQuestion<'w>, take: TakeNumbers<'_>) -> WalkPlan<'w> {
        let mut plan = WalkPlan::new(question, None);
        plan.add_sealed(0, sealed, true, take);
        plan.files.push(WalkFile::sealed(sealed.clone(), None));
        plan
    }

    /// Opens the files of a table and lists the tasks. Returns the connections of the first thread, too. `None` if too many
    /// rows overlap.
    pub(super) fn of_files(
        reader: &Reader,
        live: &[LiveFile],
        question: WalkQuestion<'w>,
        take: TakeNumbers<'_>,
    ) -> Result<Option<(WalkPlan<'w>, Connections)>, StoreError> {
        let range = question.range;
        let mut plan = WalkPlan::new(question, reader.memory.clone());
        let mut connections = Vec::new();
        for (number, file) in live.iter().enumerate() {
            let Some(late) = reader.late_keys(&live[number + 1..], range)? else { return Ok(None) };
            let late = (!late.is_empty()).then(|| Arc::new(late));
            if let Some(sealed) = reader.sealed(file)? {
                plan.add_sealed(number, &sealed, late.is_none(), take);
                plan.files.push(WalkFile::sealed(sealed, late));
                connections.push(None);
                continue;
            }
            let opened = reader.acquire(file)?;
            let is_planned = plan.add_open(reader, &opened, late)?;
            connections.push(Some(opened));
            if !is_planned {
                return Ok(None);
            }
        }
        if plan.question.is_newest_first {
            plan.order_by_time();
        }
        Ok(Some((plan, connections)))
    }

    /// Puts the pages with the newest records first.
    fn order_by_time(&mut self) {
        self.tasks.sort_by_key(|task| match task {
            Task::Page { page, .. } => Some(page.header.first),
            Task::Group { .. } => None,
        });
    }

    /// The row groups that are read.
    pub(super) fn groups(&self) -> usize {
        self.tasks.iter().filter(|task| matches!(task, Task::Group { .. })).count()
    }

    /// Adds a sealed file. What its index counts is not read, unless rows of later files replace some of its own.
    fn add_sealed(&mut self, file: usize, sealed: &SealedFile, is_alone: bool, take: TakeNumbers<'_>) {
        let WalkQuestion { range, filter, counts_partitions, .. } = &self.question;
        let is_whole = |(oldest, newest): &(Ticks, Ticks)| range.from <= *oldest && *newest <= range.to;
        let have_streams = sealed.index().has_streams;
        if is_alone
            && let Some(times) = sealed.times().filter(is_whole)
            && range.partitions.is_none()
            && let Some(minutes) = &sealed.index().minutes
            && take(RowsOf { partition: None, times, have_streams }, RecordNumbers::Minutes(minutes))
        {
            return;
        }
        let mut runs = runs_in(sealed, range);
        runs.retain(|run| {
            let rows = RowsOf::run(run, have_streams);
            if !filter.wants(rows, None) {
                return false;
            }
            let is_counted = *counts_partitions
                && is_alone
                && is_whole(&(run.oldest, run.newest))
                && sealed.has_no_items(run.group)
                && take(rows, RecordNumbers::Partitions(&[(run.partition.clone(), run.rows.len() as u64)]));
            !is_counted
        });
        for runs in runs.chunk_by(|a, b| a.group == b.group) {
            self.tasks.push(Task::Group { file, group: runs[0].group, runs: runs.to_vec() });
        }
    }

    /// Adds an open file. False if too many of its pages overlap.
    fn add_open(
        &mut self,
        reader: &Reader,
        opened: &OpenDayFile,
        late: Option<Arc<LateKeys>>,
    ) -> Result<bool, StoreError> {
        let WalkQuestion { range, filter, counted, .. } = &self.question;
        let total = begin(opened)?;
        let committed = reader.catalog().committed()?;
        check_snapshot(reader.catalog(), opened, &total, &committed)?;
        let names = partition_names(opened, range.partitions.as_deref())?;
        let wanted = range.partitions.is_some().then_some(&names);
        let mut pages = headers_in(opened, wanted, self.first, self.last)?;
        pages.retain(|page| committed.includes(page.seq));
        let failed = |error| StoreError::sqlite(&opened.path)(error);
        let counts = match counted {
            Some(wants) => PageCounts::read(&opened.connection, &pages, wants).map_err(failed)?,
            None => PageGroups::default(),
        };
        let bloom = PageBloom::ask(&opened.connection, &pages, &filter.needles()).map_err(failed)?;
        let Some(pairs) = Overlaps::new(&pages).pairs() else { return Ok(false) };
        let name = |page: &PageRow| match names.get(&page.partition) {
            _ if page.partition == SHARED => Ok(None),
            Some(name) => Ok(Some(name.clone())),
            None => Err(page_rows::unnamed_partition(&opened.path, page)),
        };
        let mut tasks = Vec::with_capacity(pages.len());
        for page in pages {
            let partition = match tasks.last() {
                Some(Task::Page { page: before, partition, .. }) if before.partition == page.partition => {
                    partition.clone()
                }
                _ => name(&page)?,
            };
            tasks.push(Task::Page { file: self.files.len(), page, partition, later: Vec::new() });
        }
        for (one, other) in pairs {
            let (before, from) = tasks.split_at_mut(other);
            let (Some(Task::Page { page, later, .. }), Some(Task::Page { page: other, later: later_of_other, .. })) =
                (before.get_mut(one), from.first_mut())
            else {
                continue;
            };
            if (page.seq, page.place) > (other.seq, other.place) {
                later_of_other.push(page.clone());
            } else {
                later.push(other.clone());
            }
        }
        // Pages that surely have no wanted row. Rows that they replace in others stay replaced.
        if !bloom.is_empty() {
            tasks.retain(|task| match task {
                Task::Page { page, .. } => filter.may_match_without(&|text| bloom.is_lacking(page, text)),
                Task::Group { .. } => true,
            });
        }
        self.tasks.append(&mut tasks);
        self.files.push(WalkFile { source: FileSource::Open, late, counts, names, counted_groups: Mutex::default() });
        Ok(true)
    }

    /// The value counts of the row groups of a sealed file, of all tasks at once.
    pub(super) fn counted_groups(
        &self,
        number: usize,
        sealed: &SealedFile,
    ) -> Result<Arc<BTreeMap<usize, Bytes>>, StoreError> {
        let mut read = lock(&self.files[number].counted_groups);
        if let Some(read) = &*read {
            return Ok(read.clone());
        }
        let groups = self.tasks.iter().filter_map(|task| match task {
            Task::Group { file, group, .. } if *file == number => Some(*group),
            _ => None,
        });
        Ok(read.insert(Arc::new(sealed.read_counts(groups)?)).clone())
    }
}

impl Reader {
    /// The keys of the rows of later files; `None` if there are too many.
    fn late_keys(&self, later: &[LiveFile], range: &Range) -> Result<Option<LateKeys>, StoreError> {
        let (mut keys, mut count) = (LateKeys::default(), 0);
        let range = Range { contains: None, level: None, chooser: None, ..range.clone() };
        for file in later {
            if let Some(sealed) = self.sealed(file)? {
                sealed.each_key(&range, &mut |partition, key, _| {
                    count += 1;
                    if count <= LATE_KEYS_MAX {
                        keys.entry(partition.clone()).or_default().push(key);
                    }
                })?;
            } else {
                let resume = Resume::From(RowKey::range(range.from, range.to).0);
                for row in OpenScan::begin(self, self.acquire(file)?, &range, resume)? {
                    let row = row?;
                    keys.entry(row.partition.clone()).or_default().push(row.key());
                    count += 1;
                    if count > LATE_KEYS_MAX {
                        break;
                    }
                }
            }
            if count > LATE_KEYS_MAX {
                return Ok(None);
            }
        }
        keys.values_mut().for_each(|keys| keys.sort_unstable());
        Ok(Some(keys))
    }
}
