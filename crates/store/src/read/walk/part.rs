//! What a walk passes: a page, or rows of a row group. A part tells numbers of its records before they are read, and gives
//! their columns.

use super::filter::{ColumnTest, NeedsKeys, PartFilter, RecordNumbers, RowsOf};
use super::plan::{LateKeys, Task};
use super::walker::{PageTask, ReadPage, Walker, sealed_of};
use crate::StoreError;
use crate::format::page::{LevelNumbers, level_numbers};
use crate::format::page_counts::{CountedPage, PageCounts};
use crate::format::sealed::SealedFile;
use crate::format::sealed::index::PartitionRun;
use crate::read::columns::ColumnBatch;
use daytable_model::property::PropertyKind;
use daytable_model::time::Ticks;
use std::borrow::Cow;
use std::ops::ControlFlow;

/// Reads the parts of a walk.
pub trait PartVisitor: Sync {
    /// The result of a thread.
    type State: Send;

    /// Begins the state of a thread.
    fn start(&self) -> Self::State;

    /// Which parts are passed.
    fn filter(&self) -> &dyn PartFilter;

    /// Whether pages with newer records come first.
    fn is_newest_first(&self) -> bool {
        false
    }

    /// The columns whose value counts [`Part::take_values`] tells.
    fn counted_columns(&self) -> Option<ColumnTest<'_>> {
        None
    }

    /// Whether [`PartVisitor::count`] may take numbers by partition.
    fn counts_partitions(&self) -> bool {
        false
    }

    /// Takes numbers of all these records in place of the records. False if they have to be read: then nothing was taken.
    fn count(&self, _state: &mut Self::State, _rows: RowsOf<'_>, _numbers: RecordNumbers<'_>) -> bool {
        false
    }

    /// Reads a part. A break ends the walk of all threads.
    ///
    /// # Errors
    ///
    /// A damaged part, which ends the walk.
    fn read(&self, state: &mut Self::State, part: &mut Part<'_>) -> Result<ControlFlow<()>, StoreError>;
}

/// A page, or rows of a row group.
pub struct Part<'w> {
    walker: &'w Walker<'w>,
    source: PartSource<'w>,
    /// Whether numbers of all its records were taken.
    is_taken: bool,
    /// Whether this thread's snapshot lacks it.
    is_missing: bool,
}

enum PartSource<'w> {
    Page(PageTask<'w>),
    Group(GroupPart<'w>),
}

/// Rows of a row group.
struct GroupPart<'w> {
    file: usize,
    sealed: &'w SealedFile,
    late: Option<&'w LateKeys>,
    group: usize,
    runs: Cow<'w, [PartitionRun]>,
}

/// Numbers of records by level and by value: of a page, or of a part of a row group.
#[derive(Clone, Copy)]
pub struct CountedRecords<'n> {
    /// What the records have in common.
    pub rows: RowsOf<'n>,
    /// The records by level.
    pub levels: &'n LevelNumbers,
    /// The records by the values of columns.
    pub counted: CountedPage<'n>,
    /// Whether all of these records are wanted, if the filter says so, and no others: else the numbers tell only what no
    /// record has.
    pub is_exact: bool,
}

impl Part<'_> {
    /// The oldest and the newest time of its rows, or an earlier and a later one.
    pub fn times(&self) -> (Ticks, Ticks) {
        match &self.source {
            PartSource::Page(task) => (task.page.header.last.time(), task.page.header.first.time()),
            PartSource::Group(group) => {
                let oldest = group.runs.iter().map(|run| run.oldest).min();
                let newest = group.runs.iter().map(|run| run.newest).max();
                (oldest.unwrap_or(Ticks::MAX), newest.unwrap_or(Ticks::MIN))
            }
        }
    }

    /// Passes the numbers of its records by value, or those of each stretch of its rows. Records whose numbers `take` accepts
    /// are taken: they are in no batch.
    ///
    /// # Errors
    ///
    /// A damaged file.
    pub fn take_values(&mut self, mut take: impl FnMut(CountedRecords<'_>) -> bool) -> Result<(), StoreError> {
        let plan = self.walker.plan;
        let Some(counted) = &plan.question.counted else { return Ok(()) };
        match &mut self.source {
            PartSource::Page(PageTask { file, page, partition, is_exact, .. }) => {
                let numbers = PageCounts::of(&plan.files[*file].counts, page);
                let (Some(counted), Ok(levels)) = (numbers, level_numbers(&page.header.levels)) else {
                    return Ok(());
                };
                let rows = RowsOf::page(partition.map(|name| &**name), &page.header);
                // Numbers of many partitions tell only what no row has.
                let is_exact = *is_exact && partition.is_some();
                self.is_taken = take(CountedRecords { rows, levels: &levels, counted, is_exact });
            }
            PartSource::Group(part) => {
                if let Some(left) = part.left_by(self.walker, counted, &mut take)? {
                    part.runs = Cow::Owned(left);
                }
                self.is_taken = part.runs.is_empty();
            }
        }
        Ok(())
    }

    /// Its records that were not taken. `None` if there are none, none of them can be wanted, or another snapshot has them:
    /// then nothing is to be done.
    ///
    /// # Errors
    ///
    /// A damaged page or file.
    pub fn batch(&mut self) -> Result<Option<ColumnBatch>, StoreError> {
        match &self.source {
            _ if self.is_taken => Ok(None),
            PartSource::Page(task) => Ok(match self.walker.records(task)? {
                ReadPage::Rows(batch) => Some(batch),
                ReadPage::Unwanted => None,
                ReadPage::Missing => {
                    self.is_missing = true;
                    None
                }
            }),
            PartSource::Group(of) => self.walker.group(of.sealed, of.late, of.group, &of.runs),
        }
    }

    /// The same, where these columns may be enough, with or without the keys. If they can be read alone, and `is_enough` finds
    /// that they are, the batch has no others, and no rows.
    ///
    /// # Errors
    ///
    /// A damaged page or file, or those of `is_enough`.
    pub fn batch_of(
        &mut self,
        needs: impl Fn(&str, PropertyKind) -> bool,
        keys: NeedsKeys,
        is_enough: impl FnOnce(&ColumnBatch) -> Result<bool, StoreError>,
    ) -> Result<Option<ColumnBatch>, StoreError> {
        if let PartSource::Page(task) = &self.source
            && !self.is_taken
            && self.walker.reads_columns()
            && let Some(batch) = self.walker.columns(task, keys, &needs)?
        {
            let is_enough = !batch.is_front() || is_enough(&batch)?;
            self.walker.note_columns(is_enough);
            if is_enough {
                return Ok(Some(batch));
            }
        }
        self.batch()
    }
}

impl GroupPart<'_> {
    /// What is left of its runs where value counts replace reading them; `None` if all is.
    fn left_by(
        &self,
        walker: &Walker<'_>,
        wants: &dyn Fn(&str, PropertyKind) -> bool,
        take: &mut dyn FnMut(CountedRecords<'_>) -> bool,
    ) -> Result<Option<Vec<PartitionRun>>, StoreError> {
        let GroupPart { sealed, runs, .. } = self;
        if sealed.is_about_host(&|name, kind| wants(name, kind)) {
            return Ok(None);
        }
        let counted_groups = walker.plan.counted_groups(self.file, sealed)?;
        let Some(bytes) = counted_groups.get(&self.group) else { return Ok(None) };
        let range = walker.plan.question.range;
        let counted = sealed.counted_parts(self.group, bytes, wants)?;
        let mut taken = Vec::new();
        for (part, numbers) in counted.parts() {
            let first = runs.partition_point(|run| run.rows.end <= part.rows.start);
            let Some(run) = runs.get(first).filter(|run| run.rows.start < part.rows.end) else { continue };
            let is_of_run = run.rows.start <= part.rows.start && part.rows.end <= run.rows.end;
            let partition = is_of_run.then_some(&run.partition);
            let is_exact = partition.is_some_and(|name| self.late.is_none_or(|late| !late.contains_key(name)))
                && range.from <= part.oldest
                && part.newest <= range.to;
            let (times, have_streams) = ((part.oldest, part.newest), sealed.index().has_streams);
            let rows = RowsOf { partition: partition.map(|name| &**name), times, have_streams };
            if take(CountedRecords { rows, levels: &part.levels, counted: numbers, is_exact }) {
                taken.push(part.rows.clone());
            }
        }
        let mut left = Vec::with_capacity(runs.len());
        for run in runs.iter() {
            let mut start = run.rows.start;
            let first = taken.partition_point(|rows| rows.end <= start);
            for rows in taken[first..].iter().take_while(|rows| rows.start < run.rows.end) {
                left.push(PartitionRun { rows: start..rows.start.max(start), ..run.clone() });
                start = rows.end;
            }
            left.push(PartitionRun { rows: start..run.rows.end.max(start), ..run.clone() });
        }
        left.retain(|run| !run.rows.is_empty());
        Ok(Some(left))
    }
}

impl Walker<'_> {
    /// Does a task; `None` if its page is not in this thread's snapshot.
    pub(super) fn task<V: PartVisitor>(
        &self,
        task: &Task,
        state: &mut V::State,
        visitor: &V,
    ) -> Result<Option<ControlFlow<()>>, StoreError> {
        const DONE: Result<Option<ControlFlow<()>>, StoreError> = Ok(Some(ControlFlow::Continue(())));
        let plan = self.plan;
        // Groups and records that a walk gathers are charged by their question; what it decodes is not.
        if plan.memory.as_ref().is_some_and(|memory| memory.is_short_for(0)) {
            return Err(StoreError::NoMemory);
        }
        let source = match task {
            Task::Page { file, page, partition, later } => {
                let (header, partition) = (&page.header, partition.as_ref());
                if !plan.question.filter.wants(RowsOf::page(partition.map(|name| &**name), header), Some(header)) {
                    return DONE;
                }
                let is_in = plan.first <= header.first && header.last <= plan.last;
                let is_exact = is_in && later.is_empty() && plan.files[*file].late_keys(partition).is_none();
                let task = PageTask { file: *file, page, partition, later, is_exact };
                if is_exact && self.count(&task, state, visitor)? {
                    return DONE;
                }
                PartSource::Page(task)
            }
            Task::Group { file, group, runs } => {
                let Some((sealed, late)) = sealed_of(plan, *file) else { return Ok(None) };
                if !plan.question.filter.wants_group(sealed, *group)? {
                    return DONE;
                }
                PartSource::Group(GroupPart { file: *file, sealed, late, group: *group, runs: runs.into() })
            }
        };
        let mut part = Part { walker: self, source, is_taken: false, is_missing: false };
        let flow = visitor.read(state, &mut part)?;
        Ok((!part.is_missing).then_some(flow))
    }

    /// Whether numbers of all records of a page replace reading them.
    fn count<V: PartVisitor>(
        &self,
        task: &PageTask<'_>,
        state: &mut V::State,
        visitor: &V,
    ) -> Result<bool, StoreError> {
        let (page, header) = (task.page, &task.page.header);
        let rows = RowsOf::page(task.partition.map(|name| &**name), header);
        let is_whole = page.shared.is_none() || self.plan.question.range.partitions.is_none();
        if is_whole && visitor.count(state, rows, RecordNumbers::Encoded(&header.levels, header.records)) {
            return Ok(true);
        }
        if page.shared.is_none() || header.records != header.entities || !self.plan.question.counts_partitions {
            return Ok(false);
        }
        let numbers = self.partition_numbers(task)?;
        Ok(visitor.count(state, rows, RecordNumbers::Partitions(&numbers)))
    }
}
