//! Numbers of records by the values that make the labels of entries in the language of Loki.
//!
//! Where level, instance and time are all that is asked, numbers come from headers. Otherwise they come from columns, and a
//! record is made only where columns do not tell its labels.

use super::filter::ColumnFilter;
use super::group_step::GroupStep;
use super::kept::KeptRecords;
use super::matching::{self, Made};
use super::place::TableVisitor;
use super::values::{ABSENT, NO_NUMBER, ValueNumbers};
use crate::answer::item::FullRecord;
use crate::entity::OwnedValue;
use daytable_model::key::instance_of;
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::stream::{NANOS, STREAM};
use daytable_model::time::{TICKS_PER_MINUTE, Ticks, UNIX_EPOCH_TICKS};
use daytable_store::page::{LevelMinute, PageHeader, PageSections, level_minutes};
use daytable_store::sealed::SealedFile;
use daytable_store::{BatchColumn, BatchVisitor, ColumnBatch, CountSource, CountedBy, RowsOf, StoreError};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Groups and bytes of values of a thread, before the caller reads rows instead.
const GROUPS_MAX: usize = 100_000;
const VALUE_BYTES_MAX: usize = 16 << 20;
const NANOS_PER_TICK: i64 = 100;

/// Which records are counted, and what tells them apart.
pub struct EntryQuestion<'q> {
    /// The steps of time.
    pub steps: EntrySteps,
    /// Whether the level tells records apart.
    pub by_level: bool,
    /// Whether the instance tells records apart.
    pub by_instance: bool,
    /// The values that tell records apart.
    pub values: Vec<EntryValue<'q>>,
    /// Whether the note of a stream, and these values, tell the labels of a record with that note.
    pub is_stream_enough: &'q (dyn Fn(&str) -> bool + Sync),
    /// Whether the records of an instance in a day-table count, if not all do.
    pub sees: Option<&'q InstanceTest<'q>>,
}

/// Tests a day-table and an instance.
pub type InstanceTest<'q> = dyn Fn(&str, &str) -> bool + Sync + 'q;

/// A value that tells records apart.
pub struct EntryValue<'q> {
    /// Whether a property of this name and type has the value.
    pub is_property: &'q (dyn Fn(&str, PropertyKind) -> bool + Sync),
    /// Whether only the record itself says what it means that the value is absent.
    pub is_required: bool,
}

/// Steps of time, in nanoseconds since the epoch: each is open at its start and closed at its end. Steps lie within a span
/// whose two ends belong to it.
#[derive(Clone, Copy, Debug)]
pub struct EntrySteps {
    /// The first nanosecond.
    pub from: i64,
    /// The last nanosecond.
    pub to: i64,
    /// The end of any step.
    pub edge: i64,
    /// The length of the steps; the span is one step without a length.
    pub length: Option<i64>,
}

/// What was found.
pub enum FoundEntries {
    /// Records that have the same values.
    Counted(Box<EntryCount>),
    /// A record whose labels only the record tells.
    Record(Box<FullRecord>),
}

/// A number of records that have the same values.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryCount {
    /// The day-table.
    pub table: Arc<str>,
    /// A time of the step.
    pub time: i64,
    /// The level, if it is asked.
    pub level: Option<Level>,
    /// The instance, if it is asked.
    pub instance: Option<String>,
    /// The note of the stream that the records were pushed to.
    pub stream: Option<String>,
    /// The asked values, in their order.
    pub values: Vec<Option<OwnedValue>>,
    /// Records.
    pub records: u64,
}

impl EntrySteps {
    /// The step of a time; `None` outside the span.
    fn step(&self, nanos: i64) -> Option<i64> {
        let is_in = (self.from..=self.to).contains(&nanos);
        is_in.then(|| match self.length {
            Some(length) => {
                let since = i128::from(nanos) - i128::from(self.edge);
                // Rounded up, since the end of a step belongs to it.
                i64::try_from(-(-since).div_euclid(length.max(1).into())).unwrap_or(i64::MAX)
            }
            None => 0,
        })
    }

    /// A time in a step.
    fn time(&self, step: i64) -> i64 {
        let end = self.length.and_then(|length| step.checked_mul(length)?.checked_add(self.edge));
        end.unwrap_or(self.to).clamp(self.from, self.to)
    }

    /// The step that all these times are in.
    fn common(&self, oldest: Ticks, newest: Ticks) -> Option<i64> {
        let (first, last) = (oldest.unix_nanos(), newest.unix_nanos().saturating_add(NANOS_PER_TICK - 1));
        self.step(first).filter(|step| self.step(last) == Some(*step))
    }

    /// The number of steps.
    pub fn count(&self) -> i64 {
        let last = self.step(self.to).unwrap_or(0);
        last.saturating_sub(self.step(self.from).unwrap_or(0)).saturating_add(1)
    }
}

/// Counts the records of a table.
pub(super) struct EntryCounting<'q> {
    pub(super) question: &'q EntryQuestion<'q>,
    pub(super) columns: ColumnFilter,
    pub(super) is_elsewhere: AtomicBool,
}

/// What one thread counted.
#[derive(Default)]
pub(super) struct ThreadEntries {
    pub(super) records: KeptRecords,
    instances: ValueNumbers,
    streams: ValueNumbers,
    values: Vec<ValueNumbers>,
    /// For each of step, level, instance, stream and values the group that a group of the parts before and a number make.
    parts: Vec<GroupStep>,
    counts: Vec<u64>,
}

/// Step, level, instance and stream come before the values.
const FIRST_VALUE: usize = 4;

impl TableVisitor for EntryCounting<'_> {
    fn columns(&self) -> &ColumnFilter {
        &self.columns
    }

    fn is_elsewhere(&self) -> bool {
        self.is_elsewhere.load(Ordering::Relaxed)
    }
}

impl BatchVisitor for EntryCounting<'_> {
    type State = ThreadEntries;

    fn start(&self) -> ThreadEntries {
        let values = self.question.values.len();
        ThreadEntries {
            values: (0..values).map(|_| ValueNumbers::default()).collect(),
            parts: (0..FIRST_VALUE + values).map(|_| GroupStep::default()).collect(),
            ..ThreadEntries::default()
        }
    }

    fn wants(&self, rows: RowsOf<'_>, header: Option<&PageHeader>) -> bool {
        rows.partition.is_none_or(|partition| self.wants_partition(partition)) && self.columns.wants(rows, header)
    }

    fn wants_partition(&self, partition: &str) -> bool {
        self.question.sees.is_none_or(|sees| sees(self.columns.table(), &instance_of(partition).0))
    }

    fn wants_group(&self, file: &SealedFile, group: usize) -> Result<bool, StoreError> {
        self.columns.wants_group(file, group)
    }

    fn counted_by(&self, rows: RowsOf<'_>) -> Option<CountedBy> {
        let EntryQuestion { steps, by_level, by_instance, values, sees, .. } = self.question;
        let is_any_level = self.columns.decided_levels(rows)? == u16::MAX;
        let minutes = *by_level || !is_any_level || steps.common(rows.times.0, rows.times.1).is_none();
        let partitions = *by_instance || sees.is_some();
        (values.is_empty() && !rows.have_streams).then_some(CountedBy { minutes, partitions })
    }

    fn takes_minutes(&self, rows: RowsOf<'_>, minutes: &[LevelMinute]) -> bool {
        self.of_minutes(rows, minutes).is_some()
    }

    fn take_counts(&self, state: &mut ThreadEntries, rows: RowsOf<'_>, counts: CountSource<'_>) -> bool {
        if self.counted_by(rows).is_none() {
            return false;
        }
        let of_header: Vec<LevelMinute>;
        let minutes = match counts {
            CountSource::Minutes(minutes) => minutes,
            CountSource::Total(records) => {
                if self.wants(rows, None)
                    && let Some(step) = self.question.steps.common(rows.times.0, rows.times.1)
                {
                    self.add_counted(state, rows, step, None, records);
                }
                return true;
            }
            CountSource::Encoded(levels, _) => {
                let Ok(minutes) = level_minutes(levels).collect() else { return false };
                of_header = minutes;
                &of_header
            }
        };
        let Some(counts) = self.of_minutes(rows, minutes) else { return false };
        counts.into_iter().for_each(|(step, level, records)| self.add_counted(state, rows, step, level, records));
        true
    }

    fn needles(&self) -> Vec<&Needle> {
        self.columns.sought()
    }

    fn wants_without(&self, lacks: &dyn Fn(usize) -> bool) -> bool {
        self.columns.wants_without(lacks)
    }

    fn wants_page(&self, page: &PageSections<'_>) -> bool {
        self.columns.wants_page(page)
    }

    fn visit(&self, state: &mut ThreadEntries, batch: &ColumnBatch) -> Result<ControlFlow<()>, StoreError> {
        let decided = matching::decide(&self.columns, batch, batch.records())?;
        let Some((mut rows, _)) = decided else { return Ok(self.elsewhere()) };
        let streams = batch.columns(|name, kind| (name, kind) == (STREAM, PropertyKind::String))?;
        let values = self.question.values.iter().map(|value| batch.columns(value.is_property));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let open = self.open(batch, &rows, &streams, &values)?;
        if !open.is_empty() {
            let Made::Records(made) = matching::make(&self.columns, batch, &open)? else {
                return Ok(self.elsewhere());
            };
            rows.subtract(&open);
            if !state.records.add(made.into_iter().map(|(_, record)| record)) {
                return Ok(self.elsewhere());
            }
        }
        let mut groups = vec![0; batch.len()];
        let mut numbers = vec![ABSENT; batch.len()];
        for part in 0..state.parts.len() {
            numbers.fill(ABSENT);
            self.numbers(state, part, batch, &rows, (&streams, &values), &mut numbers)?;
            let mut last = (NO_NUMBER, NO_NUMBER, NO_NUMBER);
            for row in rows.iter() {
                let (parent, number) = (groups[row], numbers[row]);
                if (parent, number) != (last.0, last.1) {
                    let is_none = parent == NO_NUMBER || number == NO_NUMBER;
                    let group = if is_none { NO_NUMBER } else { state.parts[part].group(parent, number, true) };
                    last = (parent, number, group);
                }
                groups[row] = last.2;
            }
        }
        rows.iter().for_each(|row| state.add(groups[row], 1));
        let bytes = [&state.instances, &state.streams].into_iter().chain(&state.values).map(ValueNumbers::bytes);
        let is_full = state.counts.len() > GROUPS_MAX || bytes.sum::<usize>() > VALUE_BYTES_MAX;
        Ok(if is_full { self.elsewhere() } else { ControlFlow::Continue(()) })
    }
}

impl EntryCounting<'_> {
    fn elsewhere(&self) -> ControlFlow<()> {
        self.is_elsewhere.store(true, Ordering::Relaxed);
        ControlFlow::Break(())
    }

    /// The steps and levels of matching records that are counted by minute. `None` if a step begins within a minute that has records,
    /// or a level is absent.
    fn of_minutes(&self, rows: RowsOf<'_>, minutes: &[LevelMinute]) -> Option<Vec<(i64, Option<Level>, u64)>> {
        let EntryQuestion { steps, by_level, .. } = self.question;
        let (oldest, newest) = rows.times;
        let levels = self.columns.decided_levels(rows)?;
        let mut counts = Vec::with_capacity(minutes.len());
        for LevelMinute { minute, level, records, at_start } in minutes {
            if levels >> level.map_or(0, Level::code) & 1 == 0 {
                continue;
            }
            if *by_level && level.is_none() {
                return None;
            }
            let level = level.filter(|_| *by_level);
            let start = minute.checked_mul(TICKS_PER_MINUTE)?.checked_add(UNIX_EPOCH_TICKS)?;
            let tick = |tick: i64| Ticks::new(tick.clamp(oldest.get(), newest.get()));
            let end = tick(start.checked_add(TICKS_PER_MINUTE - 1)?)?;
            match steps.common(tick(start)?, end) {
                Some(step) => counts.push((step, level, u64::from(*records))),
                // Records at the first tick are in the step before.
                None => {
                    let first = tick(start)?;
                    if *at_start > 0 {
                        counts.push((steps.common(first, first)?, level, u64::from(*at_start)));
                    }
                    if at_start < records {
                        let step = steps.common(tick(start + 1)?, end)?;
                        counts.push((step, level, u64::from(records - at_start)));
                    }
                }
            }
        }
        Some(counts)
    }

    fn add_counted(&self, state: &mut ThreadEntries, rows: RowsOf<'_>, step: i64, level: Option<Level>, records: u64) {
        let mut group = 0;
        for part in 0..state.parts.len() {
            let number = match (part, rows.partition) {
                (0, _) => self.step_number(step),
                (1, _) => level.map_or(ABSENT, |level| level.code().into()),
                (2, Some(partition)) if self.question.by_instance => {
                    state.instances.number(Property::String(&instance_of(partition).0))
                }
                _ => ABSENT,
            };
            group = state.parts[part].group(group, number, true);
        }
        state.add(group, records);
    }

    /// The number of a step.
    fn step_number(&self, step: i64) -> u32 {
        let steps = &self.question.steps;
        let first = steps.step(steps.from).unwrap_or(0);
        u32::try_from(step.saturating_sub(first)).unwrap_or(NO_NUMBER)
    }

    /// The numbers of a part of some rows.
    fn numbers(
        &self,
        state: &mut ThreadEntries,
        part: usize,
        batch: &ColumnBatch,
        rows: &RowSet,
        (streams, values): (&[BatchColumn<'_>], &[Vec<BatchColumn<'_>>]),
        numbers: &mut [u32],
    ) -> Result<(), StoreError> {
        let EntryQuestion { steps, by_level, by_instance, .. } = self.question;
        match part {
            // Rows outside the span are not counted.
            0 => batch.each_time(rows, |row, time| {
                numbers[row] = steps.step(time.unix_nanos()).map_or(NO_NUMBER, |step| self.step_number(step));
            })?,
            1 if *by_level => batch.each_level(rows, |row, code| numbers[row] = code.into())?,
            2 if *by_instance => {
                let number = |partition: &str| state.instances.number(Property::String(&instance_of(partition).0));
                batch.each_partition(rows, number, |row, number| numbers[row] = number);
            }
            1 | 2 => {}
            3 => streams.iter().for_each(|column| {
                column.read(rows, &mut state.streams, |row, number| numbers[row] = number);
            }),
            part => {
                let known = &mut state.values[part - FIRST_VALUE];
                for column in &values[part - FIRST_VALUE] {
                    column.read(rows, known, |row, number| numbers[row] = number);
                }
            }
        }
        Ok(())
    }

    /// The rows whose labels only the record tells.
    fn open(
        &self,
        batch: &ColumnBatch,
        rows: &RowSet,
        streams: &[BatchColumn<'_>],
        values: &[Vec<BatchColumn<'_>>],
    ) -> Result<RowSet, StoreError> {
        let EntryQuestion { steps, by_level, by_instance, is_stream_enough, .. } = self.question;
        let mut open = RowSet::none(batch.len());
        let mut own = rows.clone();
        for column in streams {
            column.map(
                rows,
                |note| matches!(note, Property::String(note) if is_stream_enough(note)),
                |row, is_enough| {
                    own.remove(row);
                    if !is_enough {
                        open.insert(row);
                    }
                },
            );
        }
        if *by_level {
            batch.each_level(&own, |row, code| {
                if code == 0 {
                    open.insert(row);
                }
            })?;
        }
        if *by_instance {
            let is_empty = |partition: &str| instance_of(partition).0.is_empty();
            batch.each_partition(&RowSet::all(batch.len()), is_empty, |row, is_empty| {
                if is_empty {
                    open.insert(row);
                }
            });
        }
        for (value, columns) in self.question.values.iter().zip(values) {
            let mut present = RowSet::none(batch.len());
            for column in columns {
                let filled = column.filled(rows);
                let (mut twice, mut empty) = (filled.clone(), column.present());
                twice.keep(&present);
                empty.subtract(&filled);
                open.add(&twice);
                open.add(&empty);
                present.add(&filled);
            }
            if value.is_required {
                let mut absent = own.clone();
                absent.subtract(&present);
                open.add(&absent);
            }
        }
        // Digits below a tick decide where a step or the span ends within the tick.
        for column in batch.columns(|name, kind| (name, kind) == (NANOS, PropertyKind::Int32))? {
            batch.each_time(&column.present(), |row, time| {
                if steps.common(time, time).is_none() {
                    open.insert(row);
                }
            })?;
        }
        open.add(&batch.spread()?);
        open.keep(rows);
        Ok(open)
    }
}

impl ThreadEntries {
    fn add(&mut self, group: u32, records: u64) {
        let group = group as usize;
        // Rows outside the span have no group.
        if group == NO_NUMBER as usize {
            return;
        }
        if self.counts.len() <= group {
            self.counts.resize(group + 1, 0);
        }
        self.counts[group] += records;
    }

    /// Passes the groups on.
    pub(super) fn finish(self, question: &EntryQuestion<'_>, table: &Arc<str>, mut each: impl FnMut(EntryCount)) {
        let first = question.steps.step(question.steps.from).unwrap_or(0);
        let text = |value: Option<OwnedValue>| value.map(|value| value.as_property().text().into_owned());
        for (group, records) in self.counts.into_iter().enumerate().filter(|(_, records)| *records > 0) {
            let (mut at, mut numbers) = (group, vec![ABSENT; self.parts.len()]);
            for (part, number) in self.parts.iter().zip(&mut numbers).rev() {
                let (parent, value) = part.parents[at];
                (at, *number) = (parent as usize, value);
            }
            each(EntryCount {
                table: table.clone(),
                time: question.steps.time(first.saturating_add(numbers[0].into())),
                level: u8::try_from(numbers[1]).ok().and_then(Level::from_code),
                instance: text(self.instances.value(numbers[2])),
                stream: text(self.streams.value(numbers[3])),
                values: self.values.iter().zip(&numbers[FIRST_VALUE..]).map(|(known, n)| known.value(*n)).collect(),
                records,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_its_end_and_not_its_start() {
        let steps = EntrySteps { from: -50, to: 250, edge: 7, length: Some(100) };
        for (nanos, step) in
            [(-51, None), (-50, Some(0)), (7, Some(0)), (8, Some(1)), (107, Some(1)), (108, Some(2)), (251, None)]
        {
            assert_eq!(steps.step(nanos), step, "{nanos}");
        }
        assert_eq!((steps.time(0), steps.time(1), steps.time(9)), (7, 107, 250));
        assert_eq!(steps.count(), 4);
        assert_eq!(EntrySteps { length: None, ..steps }.count(), 1);
    }
}
