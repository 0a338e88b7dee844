//! Records as entries of the language of Loki, by columns and in threads.
//!
//! What a pipeline makes of an entry follows from few values: some labels, and some members of the line. So one record is made
//! of each combination of these values, and the pipeline works on it once; the rows of a batch have the outcome of their
//! combination, and the time of each and the value that is added up are read from their columns:
//!
//! ```text
//! status   500 200 500 500          (500, error) ─► record ─► EntryFold::outcome ─► series 0
//! level      e   i   e   e    ───►  (200, info)  ─► record ─► EntryFold::outcome ─► dropped
//! took      12   7   9   4          series 0: 12, 9, 4 at their times ─► EntryFold::add
//! ```
//!
//! Where level, instance and time are all that matters, numbers come from headers. A line is [put together with stand-ins
//! ](super::line_parts) where only some of its values matter. A record that columns do not describe, and one of which the
//! whole line or the time matters, is made, and [`EntryFold::add_record`] decides: in the same thread.

use super::entry_columns::{EntryColumns, FoldedRows, ThreadMemory, twice};
use super::entry_question::{AlikeLine, AlikeOutcome, EntryFold, EntrySink, LineNeed};
use super::entry_shapes::STAND_IN;
use super::filter::ColumnFilter;
use super::matching::{self, Made};
use super::place::TableVisitor;
use crate::entity::OwnedRow;
use crate::record::StoredRecord;
use daytable_model::entity::MULTI_ROW_PROPERTIES;
use daytable_model::key::{RowKey, instance_of};
use daytable_model::needle::Needle;
use daytable_model::property::PropertyKind;
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::stream::{NANOS, STREAM};
use daytable_model::time::Ticks;
use daytable_platform::budget::OverBudget;
use daytable_platform::lock;
use daytable_store::page::{PageHeader, PageSections};
use daytable_store::sealed::SealedFile;
use daytable_store::{ColumnBatch, NeedsKeys, Part, PartFilter, PartVisitor, RecordNumbers, RowsOf, StoreError};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Memory of the combinations that a thread remembers.
const REMEMBERED_BYTES: usize = 4 << 20;
/// Layouts and notes of streams that a thread remembers.
const TEXTS_MAX: usize = 1000;

struct StateSink<'s, F: EntryFold> {
    fold: &'s F,
    state: &'s mut F::State,
}

impl<F: EntryFold> EntrySink for StateSink<'_, F> {
    fn outcome(&mut self, record: &StoredRecord, line: AlikeLine) -> AlikeOutcome {
        self.fold.outcome(self.state, record, line)
    }

    fn add(&mut self, at: (u32, u32), time: i64, value: f64) -> ControlFlow<()> {
        self.fold.add(self.state, at, time, value, 1)
    }
}

/// Folds the records of a table.
pub(super) struct EntryFolding<'q, F> {
    fold: &'q F,
    columns: EntryColumns<'q>,
    falls_back_to_rows: AtomicBool,
    is_over: AtomicBool,
    refused: &'q Mutex<Option<OverBudget>>,
}

/// What a thread has.
pub(super) struct ThreadEntries<S> {
    pub(super) state: S,
    memory: ThreadMemory,
    /// Bytes that are charged.
    pub(super) charged: usize,
}

impl<'q, F: EntryFold> EntryFolding<'q, F> {
    pub(super) fn new(
        fold: &'q F,
        filter: ColumnFilter,
        refused: &'q Mutex<Option<OverBudget>>,
    ) -> EntryFolding<'q, F> {
        let (falls_back_to_rows, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        EntryFolding { fold, columns: EntryColumns { question: fold, filter }, falls_back_to_rows, is_over, refused }
    }
}

impl<F: EntryFold> TableVisitor for EntryFolding<'_, F> {
    fn columns(&self) -> &ColumnFilter {
        &self.columns.filter
    }

    fn falls_back_to_rows(&self) -> bool {
        self.falls_back_to_rows.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// A part is also unwanted if whoever asks may not see its instances.
impl<F: EntryFold> PartFilter for EntryFolding<'_, F> {
    fn wants(&self, rows: RowsOf<'_>, header: Option<&PageHeader>) -> bool {
        rows.partition.is_none_or(|partition| self.wants_partition(partition))
            && self.columns.filter.wants(rows, header)
    }

    fn wants_partition(&self, partition: &str) -> bool {
        self.fold.needs().sees.is_none_or(|sees| sees(self.columns.filter.table(), &instance_of(partition).0))
    }

    fn needles(&self) -> Vec<&Needle> {
        self.columns.filter.needles()
    }

    fn may_match_without(&self, lacks: &dyn Fn(usize) -> bool) -> bool {
        self.columns.filter.may_match_without(lacks)
    }

    fn wants_page(&self, page: &PageSections<'_>) -> bool {
        self.columns.filter.wants_page(page)
    }

    fn wants_group(&self, file: &SealedFile, group: usize) -> Result<bool, StoreError> {
        self.columns.filter.wants_group(file, group)
    }
}

impl<F: EntryFold> PartVisitor for EntryFolding<'_, F> {
    type State = ThreadEntries<F::State>;

    fn start(&self) -> Self::State {
        ThreadEntries { state: self.fold.start(), memory: ThreadMemory::default(), charged: 0 }
    }

    fn filter(&self) -> &dyn PartFilter {
        self
    }

    fn counts_partitions(&self) -> bool {
        let needs = self.fold.needs();
        self.is_headed() && !needs.level
    }

    fn count(&self, thread: &mut Self::State, rows: RowsOf<'_>, numbers: RecordNumbers<'_>) -> bool {
        let needs = self.fold.needs();
        if !self.is_headed() || rows.have_streams {
            return false;
        }
        if let RecordNumbers::Partitions(records) = numbers {
            return self.count_partitions(thread, rows, records);
        }
        if rows.partition.is_none() && (needs.instance || needs.sees.is_some()) {
            return false;
        }
        let is_named = !needs.instance || rows.partition.is_none_or(|partition| !instance_of(partition).0.is_empty());
        let counts = || self.columns.of_minutes(rows, &numbers.minutes()?);
        let Some(counts) = counts().filter(|_| is_named) else { return false };
        let counted = counts.into_iter().map(|(at, level, records)| CountedEntries { rows, at, level, records });
        self.add_counted(thread, &counted.collect::<Vec<_>>())
    }

    fn read(&self, thread: &mut Self::State, part: &mut Part<'_>) -> Result<ControlFlow<()>, StoreError> {
        let Some(mut batch) = self.batch(part)? else { return Ok(ControlFlow::Continue(())) };
        let open = loop {
            let Some((rows, _)) = matching::decide(&self.columns.filter, &batch, batch.records())? else {
                return Ok(self.fall_back_to_rows());
            };
            if rows.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            if let LineNeed::Record = self.fold.needs().line {
                break rows;
            }
            let ThreadEntries { state, memory, .. } = &mut *thread;
            match self.columns.fold(memory, &mut StateSink { fold: self.fold, state }, &batch, &rows)? {
                FoldedRows::Added { is_over: true, .. } => return Ok(self.end()),
                FoldedRows::Added { open, .. } => break open,
                FoldedRows::NeedsWhole => {
                    let Some(whole) = part.batch()? else { return Ok(ControlFlow::Continue(())) };
                    batch = whole;
                }
            }
        };
        self.add_made(thread, &batch, open)
    }
}

/// Records that are made at once.
const MADE_AT_ONCE: usize = 500;

impl<F: EntryFold> EntryFolding<'_, F> {
    /// Makes the records of some rows, and adds them.
    fn add_made(
        &self,
        thread: &mut ThreadEntries<F::State>,
        batch: &ColumnBatch,
        mut open: RowSet,
    ) -> Result<ControlFlow<()>, StoreError> {
        // The records of a batch of a sealed day are some MiB, if all are made at once.
        while let Some(first) = open.next(0) {
            let (mut part, mut next) = (RowSet::none(batch.len()), Some(first));
            for _ in 0..MADE_AT_ONCE {
                let Some(row) = next else { break };
                part.insert(row);
                next = open.next(row + 1);
            }
            let Made::Records(made) = matching::make(&self.columns.filter, batch, &part)? else {
                return Ok(self.fall_back_to_rows());
            };
            for (_, record) in made {
                if self.fold.add_record(&mut thread.state, record.record()).is_break() {
                    return Ok(self.end());
                }
            }
            open.subtract(&part);
        }
        Ok(if self.charge(thread) { ControlFlow::Continue(()) } else { self.end() })
    }

    fn fall_back_to_rows(&self) -> ControlFlow<()> {
        self.falls_back_to_rows.store(true, Ordering::Relaxed);
        ControlFlow::Break(())
    }

    fn end(&self) -> ControlFlow<()> {
        self.is_over.store(true, Ordering::Relaxed);
        ControlFlow::Break(())
    }

    /// Charges what a thread remembers. False if there is no memory for it.
    fn charge(&self, thread: &mut ThreadEntries<F::State>) -> bool {
        if thread.memory.bytes > REMEMBERED_BYTES || thread.memory.texts() > TEXTS_MAX {
            thread.memory = ThreadMemory::default();
        }
        let bytes = thread.memory.bytes;
        if bytes > thread.charged {
            if let Err(over) = self.fold.needs().memory.charge(bytes - thread.charged, "entries") {
                lock(self.refused).get_or_insert(over);
                return false;
            }
            thread.charged = bytes;
        }
        true
    }

    /// Whether numbers of records may tell all that matters of entries.
    fn is_headed(&self) -> bool {
        let needs = self.fold.needs();
        needs.headers && needs.value.is_none() && matches!(needs.line, LineNeed::Unused)
    }

    /// The columns that matter where these are enough, and else all.
    fn batch(&self, part: &mut Part<'_>) -> Result<Option<ColumnBatch>, StoreError> {
        let needs = self.fold.needs();
        let is_short = matches!(needs.line, LineNeed::Unused) && !needs.detected_level;
        if self.columns.filter.needs_columns() || !is_short {
            return part.batch();
        }
        let is_needed = |name: &str, kind| {
            MULTI_ROW_PROPERTIES.contains(&(name, kind))
                || [STREAM, NANOS].contains(&name)
                || name == "Source" && needs.source
                || self.columns.is_field(name)
        };
        part.batch_of(is_needed, NeedsKeys::No, |front| {
            // A stream may need other columns.
            Ok(front.columns(|name, kind| (name, kind) == (STREAM, PropertyKind::String))?.is_empty()
                && front.spread()?.is_empty()
                && twice(&self.columns.fields_of(front)?, front.len()).is_empty())
        })
    }

    /// Counts records by partition, if neither their levels nor their times matter. False if one of these does.
    fn count_partitions(
        &self,
        thread: &mut ThreadEntries<F::State>,
        rows: RowsOf<'_>,
        records: &[(Arc<str>, u64)],
    ) -> bool {
        let needs = self.fold.needs();
        let Some(cell) = self.columns.common(rows.times.0, rows.times.1).filter(|_| !needs.level) else { return false };
        let mut counted = Vec::with_capacity(records.len());
        for (name, records) in records {
            let rows = RowsOf { partition: Some(name), ..rows };
            if needs.instance && instance_of(name).0.is_empty() {
                return false;
            }
            match self.columns.filter.decided_levels(rows) {
                Some(0) => {}
                Some(u16::MAX) => {
                    counted.push(CountedEntries { rows, at: (cell, rows.times.0), level: None, records: *records });
                }
                _ => return false,
            }
        }
        self.add_counted(thread, &counted)
    }

    /// Adds records that were counted. False, without any of them, if their outcome is not known: then they are read.
    fn add_counted(&self, thread: &mut ThreadEntries<F::State>, counted: &[CountedEntries<'_>]) -> bool {
        let mut outcomes = Vec::with_capacity(counted.len());
        for CountedEntries { rows, at: (cell, time), level, records } in counted {
            let Some(cell) = *cell else { continue };
            let partition: Arc<str> = rows.partition.unwrap_or(STAND_IN).into();
            let (key, properties) = (RowKey::new(Ticks::UNIX_EPOCH, 0, 0), Vec::new());
            let row = OwnedRow { partition, key, level: *level, properties };
            let record = StoredRecord::new(self.columns.filter.table().clone(), row);
            match self.fold.outcome(&mut thread.state, &record, AlikeLine::None) {
                AlikeOutcome::Group(group, value) => outcomes.push(((group, cell), *time, value, *records)),
                AlikeOutcome::Dropped => {}
                AlikeOutcome::Open => return false,
                AlikeOutcome::Ended => {
                    let _ = self.end();
                    return true;
                }
            }
        }
        for (at, time, value, records) in outcomes {
            if self.fold.add(&mut thread.state, at, time.unix_nanos(), value, records).is_break() {
                let _ = self.end();
                break;
            }
        }
        true
    }
}

/// Records that were counted, and what they have in common.
struct CountedEntries<'r> {
    rows: RowsOf<'r>,
    /// Their cell, if a range has them, and their time.
    at: (Option<u32>, Ticks),
    level: Option<Level>,
    records: u64,
}
