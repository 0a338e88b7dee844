//! The samples of a function over ranges, while entries come: in any order, and by several threads.
//!
//! ```text
//! entry ─► stages ─► labels of a series, value ─┐
//!                    time ─► cell ──────────────┴─► (series, cell) ─► piece
//! ```
//!
//! What is kept depends on the number of steps and series, not of entries; only quantiles and counters keep values. What the
//! stages make of an entry does not depend on its time, so a source that knows entries to be alike asks once for all of them
//! ([`RangeQuestion::outcome`]).

use super::cells::{CellSpan, StepCells};
use super::piece::SamplePiece;
use super::{Limits, Series, Spent, TimeSteps, too_many_points};
use crate::ast::{Conversion, LabelGrouping, PipelineStage, RangeAggregation, RangeOp, Unwrap};
use crate::error::EvalError;
use crate::labels::Labels;
use crate::source::LogEntry;
use crate::stages::EntryView;
use crate::stages::hints::Hints;
use crate::stages::line_use::LineUse;
use crate::stages::view::ERROR;
use crate::text::{self, SECOND};
use daytable_platform::budget::QuestionBudget;
use hashbrown::HashTable;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::ControlFlow;

/// What a series takes beside its labels and points, and how often its labels are kept while entries come.
const SERIES_BYTES: usize = 256;
const SERIES_LABEL_COPIES: usize = 3;
/// What a piece takes until its series is made, with the points that come of it: itself twice while its list grows, its place in
/// the table of numbers, and a point.
const PIECE_BYTES: usize = 2 * size_of::<SeriesPiece>() + 24;
/// Bytes of values that are charged at once.
const VALUES_BYTES: usize = 16 << 10;
/// Bytes of the labels that an error names.
const SHOWN_LABELS_MAX: usize = 4096;
/// Pieces that were asked for lately are found at once; a power of two.
const RECENT_PIECES: usize = 1024;

/// Which samples a function over ranges needs, and what becomes of them. Several threads may ask.
pub struct RangeQuestion<'q> {
    pub(super) range: &'q RangeAggregation,
    grouping: Option<&'q LabelGrouping>,
    hints: Hints,
    cells: StepCells,
    limits: Limits,
    budget: &'q QuestionBudget,
    spent: &'q Spent,
    now: i64,
}

/// What was gathered: of one thread, or of all.
#[derive(Debug, Default)]
pub struct RangeSamples {
    series: HashMap<Vec<u8>, u32, foldhash::quality::RandomState>,
    labels: Vec<Labels>,
    label_bytes: usize,
    /// The numbers of the pieces by their keys, which the pieces have.
    numbers: HashTable<u32>,
    hasher: foldhash::fast::RandomState,
    recent: Vec<(u64, u32)>,
    pieces: Vec<SeriesPiece>,
    /// The first and the last step of each cell.
    steps: HashMap<u32, (u32, u32), foldhash::fast::RandomState>,
    key: Vec<u8>,
    /// Bytes for values that were charged and are not used.
    value_room: usize,
    /// All bytes that were charged.
    charged: usize,
    refused: Option<EvalError>,
    has_failed: bool,
}

/// What is known of a series in a cell.
#[derive(Debug)]
struct SeriesPiece {
    series: u32,
    cell: u32,
    piece: SamplePiece,
}

impl SeriesPiece {
    fn key(&self) -> u64 {
        key_of(self.series, self.cell)
    }
}

fn key_of(series: u32, cell: u32) -> u64 {
    u64::from(series) << 32 | u64::from(cell)
}

/// What becomes of entries that are alike but for their times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EntryOutcome {
    /// They are not samples.
    Dropped,
    /// Each is a sample of a series.
    Sample {
        /// The number of the series.
        series: u32,
        /// Its value; that of a count is 1.
        value: f64,
    },
    /// The question ends: [`RangeSamples`] has the reason.
    Ended,
}

impl<'q> RangeQuestion<'q> {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn new(
        range: &'q RangeAggregation,
        grouping: Option<&'q LabelGrouping>,
        steps: TimeSteps,
        limits: Limits,
        budget: &'q QuestionBudget,
        spent: &'q Spent,
        now: i64,
    ) -> RangeQuestion<'q> {
        let nothing = LabelGrouping { without: false, labels: Vec::new() };
        let is_absent = range.op == RangeOp::AbsentOverTime;
        let hints = Hints::new(range, if is_absent { Some(&nothing) } else { grouping });
        let cells = StepCells::new(steps, range.range, range.offset);
        RangeQuestion { range, grouping, hints, cells, limits, budget, spent, now }
    }

    /// Begins to gather.
    pub fn start(&self) -> RangeSamples {
        RangeSamples { recent: vec![(u64::MAX, 0); RECENT_PIECES], ..RangeSamples::default() }
    }

    /// The labels of the entries that matter; `None` if all do.
    pub fn labels(&self) -> Option<&[String]> {
        self.hints.labels()
    }

    /// What of its line matters. Filters of lines that the selection has are decided by the source.
    pub fn line_use(&self) -> LineUse<'_> {
        LineUse::of(self.range, &self.hints)
    }

    /// Whether entries are counted, and no value of theirs is added up.
    pub fn counts(&self) -> bool {
        self.range.unwrap.is_none()
    }

    /// The label whose value is aggregated, if the value of no other label and no stage depends on it.
    pub fn value_label(&self) -> Option<(&str, Conversion)> {
        let unwrap = self.range.unwrap.as_ref()?;
        let names_all = self.hints.labels().is_none();
        let is_plain = |stage: &PipelineStage| match stage {
            PipelineStage::Json(keys) | PipelineStage::Logfmt { keys, .. } => keys.is_empty() && !names_all,
            PipelineStage::Line(_) | PipelineStage::UnreadFormat(_) => true,
            PipelineStage::Labels(filter) => !filter.depends_on_value(&unwrap.label),
            PipelineStage::Drop(picks) | PipelineStage::Keep(picks) => {
                picks.iter().all(|pick| matches!(pick, crate::ast::LabelPick::Name(_)))
            }
            _ => false,
        };
        let is_named = self.grouping.is_some_and(|grouping| !grouping.without && grouping.keeps(&unwrap.label));
        let is_alone = !is_named
            && self.range.query.stages.iter().all(is_plain)
            && !unwrap.filters.iter().any(|filter| filter.depends_on_value(&unwrap.label));
        is_alone.then_some((unwrap.label.as_str(), unwrap.conversion))
    }

    /// The cell of a time. Samples of one cell belong to the same steps.
    pub fn cell(&self, time: i64) -> CellSpan {
        self.cells.of(time)
    }

    /// The memory that the answer may use.
    pub fn budget(&self) -> &QuestionBudget {
        self.budget
    }

    /// Adds an entry.
    pub fn add_entry(&self, to: &mut RangeSamples, entry: &LogEntry, go_on: &dyn Fn() -> bool) -> ControlFlow<()> {
        match self.outcome_of(to, entry, false, go_on) {
            EntryOutcome::Dropped => ControlFlow::Continue(()),
            EntryOutcome::Ended => ControlFlow::Break(()),
            EntryOutcome::Sample { series, value } => match self.cells.of(entry.time).cell {
                Some(cell) => self.add(to, (series, cell), entry.time, value),
                None => ControlFlow::Continue(()),
            },
        }
    }

    /// What becomes of entries with these labels and this line, which passes the filters of the selection. Their times do not
    /// matter.
    pub fn outcome(&self, to: &mut RangeSamples, entry: &LogEntry, go_on: &dyn Fn() -> bool) -> EntryOutcome {
        self.outcome_of(to, entry, true, go_on)
    }

    fn outcome_of(
        &self,
        to: &mut RangeSamples,
        entry: &LogEntry,
        is_chosen: bool,
        go_on: &dyn Fn() -> bool,
    ) -> EntryOutcome {
        let range = self.range;
        let mut view = EntryView::with_hints(entry, &self.hints, go_on);
        let (stages, mut is_line_kept) = (&range.query.stages, true);
        let is_left = |stage: &&PipelineStage| {
            let is_decided = is_chosen && is_line_kept && matches!(stage, PipelineStage::Line(_));
            is_line_kept &= !stage.changes_line();
            !is_decided
        };
        match PipelineStage::apply_all(stages.iter().filter(is_left), &mut view, self.now) {
            Ok(true) => {}
            Ok(false) => return EntryOutcome::Dropped,
            Err(error) => return to.end(error),
        }
        let value = match &range.unwrap {
            Some(unwrap) => match unwrap.value(&mut view) {
                Some(value) => value,
                None => return EntryOutcome::Dropped,
            },
            None if matches!(range.op, RangeOp::BytesOverTime | RangeOp::BytesRate) => view.line.len() as f64,
            None => 1.0,
        };
        if view.is_failure() {
            to.has_failed = true;
            return to.end(pipeline_error(&view));
        }
        match self.series_of(to, &view) {
            Ok(series) => EntryOutcome::Sample { series, value },
            Err(error) => to.end(error),
        }
    }

    /// The series of an entry.
    fn series_of(&self, to: &mut RangeSamples, view: &EntryView<'_>) -> Result<u32, EvalError> {
        let (range, grouping) = (self.range, self.grouping);
        let is_absent = range.op == RangeOp::AbsentOverTime;
        // An unwrapped label is a label of the series only if the grouping names it.
        let is_unnamed = grouping.is_none_or(|grouping| grouping.without);
        let unwrapped = range.unwrap.as_ref().filter(|_| is_unnamed).map(|unwrap| unwrap.label.as_str());
        let keeps =
            |name: &str| !is_absent && Some(name) != unwrapped && grouping.is_none_or(|grouping| grouping.keeps(name));
        view.write_key(keeps, &mut to.key);
        if let Some(series) = to.series.get(&to.key) {
            return Ok(*series);
        }
        self.add_series(to, || view.all().of_series(keeps))
    }

    /// Adds the series whose key was written.
    fn add_series(&self, to: &mut RangeSamples, labels: impl FnOnce() -> Labels) -> Result<u32, EvalError> {
        if to.labels.len() >= self.limits.inner_series_max {
            return Err(EvalError::TooLarge(format!(
                "the query has more than {} series: aggregate by fewer labels, or drop labels that differ in each entry",
                self.limits.inner_series_max
            )));
        }
        let bytes = SERIES_BYTES + SERIES_LABEL_COPIES * to.key.len();
        to.charge(self.budget, bytes, "series")?;
        to.label_bytes += to.key.len();
        if to.label_bytes > self.limits.inner_label_bytes_max {
            return Err(EvalError::TooLarge(format!(
                "the labels of the query's {} series take more than {} MiB: aggregate by fewer labels, or drop labels that differ in each entry",
                to.labels.len(),
                self.limits.inner_label_bytes_max >> 20
            )));
        }
        let series = u32::try_from(to.labels.len()).unwrap_or(u32::MAX);
        to.labels.push(labels());
        to.series.insert(to.key.clone(), series);
        Ok(series)
    }

    /// Adds a sample of a series and a cell. `value` stands for this many entries if they are counted.
    pub fn add(&self, to: &mut RangeSamples, (series, cell): (u32, u32), time: i64, value: f64) -> ControlFlow<()> {
        match self.add_value(to, (series, cell), time, value) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                to.end(error);
                ControlFlow::Break(())
            }
        }
    }

    fn add_value(
        &self,
        to: &mut RangeSamples,
        (series, cell): (u32, u32),
        time: i64,
        value: f64,
    ) -> Result<(), EvalError> {
        let bytes = SamplePiece::value_bytes(self.range.op);
        if bytes > 0 {
            self.spent.values(bytes, &self.limits)?;
            if bytes > to.value_room {
                to.charge(self.budget, 2 * VALUES_BYTES, "values")?;
                to.value_room += VALUES_BYTES;
            }
            to.value_room -= bytes;
        }
        let key = key_of(series, cell);
        let at = (series.wrapping_mul(0x9e37_79b1) >> 16 ^ cell) as usize % RECENT_PIECES;
        let number = match to.recent.get(at) {
            Some((recent, number)) if *recent == key => Some(*number),
            _ => to.number_of(key),
        };
        if let Some(number) = number {
            to.pieces[number as usize].piece.add(time, value);
            if let Some(recent) = to.recent.get_mut(at) {
                *recent = (key, number);
            }
            return Ok(());
        }
        let piece = SamplePiece::new(self.range.op, time, value);
        to.steps.entry(cell).or_insert_with(|| self.cells.steps_of(time));
        self.add_piece(to, SeriesPiece { series, cell, piece })
    }

    fn add_piece(&self, to: &mut RangeSamples, piece: SeriesPiece) -> Result<(), EvalError> {
        to.charge(self.budget, PIECE_BYTES, "points")?;
        if to.pieces.len() >= self.limits.points_max {
            return Err(too_many_points(&self.limits));
        }
        let number = u32::try_from(to.pieces.len()).unwrap_or(u32::MAX);
        let RangeSamples { numbers, pieces, hasher, .. } = to;
        let hash = hasher.hash_one(piece.key());
        pieces.push(piece);
        numbers.insert_unique(hash, number, |number| hasher.hash_one(pieces[*number as usize].key()));
        Ok(())
    }

    /// Adds what another thread gathered.
    pub fn merge(&self, to: &mut RangeSamples, other: RangeSamples) {
        if to.refused.is_none() && other.refused.is_some() {
            (to.refused, to.has_failed) = (other.refused, other.has_failed);
            return;
        }
        if to.labels.is_empty() && to.refused.is_none() {
            *to = other;
            return;
        }
        // What `to` takes over is charged to it anew, but for the values, which stay where they are.
        let (charged, kept) = (other.charged, other.kept_bytes(self.range.op));
        let freed = charged.saturating_sub(kept);
        self.budget.release(freed);
        if let Err(error) = self.merge_pieces(to, other) {
            to.end(error);
        }
        to.charged += charged - freed;
    }

    fn merge_pieces(&self, to: &mut RangeSamples, other: RangeSamples) -> Result<(), EvalError> {
        let mut labels: Vec<Option<Labels>> = other.labels.into_iter().map(Some).collect();
        let mut series = vec![0; labels.len()];
        for (key, number) in other.series {
            to.key = key;
            series[number as usize] = match to.series.get(&to.key) {
                Some(known) => *known,
                None => self.add_series(to, || labels[number as usize].take().unwrap_or_default())?,
            };
        }
        to.steps.extend(other.steps);
        for SeriesPiece { series: of, cell, piece } in other.pieces {
            let series = series[of as usize];
            match to.number_of(key_of(series, cell)) {
                Some(known) => to.pieces[known as usize].piece.add_all(piece),
                None => self.add_piece(to, SeriesPiece { series, cell, piece })?,
            }
        }
        Ok(())
    }

    /// The series of all samples.
    pub(super) fn finish(&self, samples: RangeSamples, steps: TimeSteps) -> Result<Vec<Series>, EvalError> {
        if let Some(refused) = samples.refused {
            return Err(refused);
        }
        if self.range.op == RangeOp::AbsentOverTime {
            return Ok(self.absent(samples.steps.values(), steps));
        }
        drop((samples.series, samples.numbers));
        let mut pieces = samples.pieces;
        // Cells ascend with their steps.
        pieces.sort_unstable_by_key(SeriesPiece::key);
        let mut series: Vec<Series> = Vec::with_capacity(samples.labels.len());
        let mut rest = pieces.as_slice();
        for (number, labels) in (0..).zip(samples.labels) {
            let (own, others) = rest.split_at(rest.partition_point(|of| of.series <= number));
            rest = others;
            series.push(Series {
                labels,
                points: self.points(own, &|cell| samples.steps.get(&cell).copied().unwrap_or((1, 0)))?,
            });
        }
        series.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(series)
    }

    /// The points of a series, by the steps of the cells.
    fn points(
        &self,
        pieces: &[SeriesPiece],
        steps_of: &dyn Fn(u32) -> (u32, u32),
    ) -> Result<Vec<(u32, f64)>, EvalError> {
        let mut points = Vec::new();
        // Both the first and the last steps of the pieces ascend, so the pieces of a step are neighbors.
        let (mut from, mut to) = (0, 0);
        while from < pieces.len() {
            let mut step = steps_of(pieces[from].cell).0;
            to = to.max(from);
            while from < pieces.len() {
                while to < pieces.len() && steps_of(pieces[to].cell).0 <= step {
                    to += 1;
                }
                while from < to && steps_of(pieces[from].cell).1 < step {
                    from += 1;
                }
                if from == to {
                    break;
                }
                self.spent.points(1, &self.limits)?;
                points.push((step, SamplePiece::combined(pieces[from..to].iter().map(|of| &of.piece), self.range)));
                step += 1;
            }
        }
        Ok(points)
    }

    fn absent<'s>(&self, there: impl Iterator<Item = &'s (u32, u32)>, steps: TimeSteps) -> Vec<Series> {
        let mut is_there = vec![false; steps.count as usize];
        for (first, last) in there {
            is_there[*first as usize..=*last as usize].fill(true);
        }
        let points = (0..steps.count).zip(is_there).filter(|(_, there)| !there).map(|(step, _)| (step, 1.0)).collect();
        vec![Series { labels: self.range.absent_labels(), points }]
    }
}

impl RangeSamples {
    /// The number of the piece with this key.
    fn number_of(&self, key: u64) -> Option<u32> {
        let is_it = |number: &u32| self.pieces[*number as usize].key() == key;
        self.numbers.find(self.hasher.hash_one(key), is_it).copied()
    }

    fn charge(&mut self, budget: &QuestionBudget, bytes: usize, kept: &str) -> Result<(), EvalError> {
        budget.charge(bytes, kept)?;
        self.charged += bytes;
        Ok(())
    }

    /// Bytes of the values that pieces keep, with those that a quantile copies.
    fn kept_bytes(&self, op: RangeOp) -> usize {
        2 * SamplePiece::value_bytes(op) * self.pieces.iter().map(|of| of.piece.values()).sum::<usize>()
    }

    fn end(&mut self, error: EvalError) -> EntryOutcome {
        self.refused.get_or_insert(error);
        EntryOutcome::Ended
    }

    /// Whether the question ends without an answer.
    pub fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Whether an entry has an error that ends the question. The reason names labels which only a whole entry has.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }
}

impl RangeAggregation {
    /// The labels of an answer about nothing: those that the selector demands.
    fn absent_labels(&self) -> Labels {
        let matchers = &self.query.selector.0;
        let equal = |name: &str| {
            let mut of_name = matchers.iter().filter(|matcher| matcher.name == name);
            let first = of_name.next();
            first.filter(|first| first.op == crate::ast::MatchOp::Equal && of_name.next().is_none())
        };
        let pairs = matchers.iter().filter_map(|matcher| equal(&matcher.name));
        Labels::new(pairs.map(|matcher| (matcher.name.clone(), matcher.value.clone())).collect())
    }
}

impl Conversion {
    /// The number of a text.
    ///
    /// # Errors
    ///
    /// What is wrong with the text.
    pub fn number(self, text: &str) -> Result<f64, String> {
        match self {
            Conversion::Number => text::go_float(text),
            Conversion::Duration | Conversion::DurationSeconds => {
                text::go_duration(text).map(|nanos| nanos as f64 / SECOND as f64)
            }
            Conversion::Bytes => text::go_size(text),
        }
    }
}

impl Unwrap {
    /// The value of an entry; `None` without one. A text that is not a value is an error of the entry.
    fn value(&self, view: &mut EntryView<'_>) -> Option<f64> {
        let text = view.get(&self.label).filter(|text| !text.is_empty())?.to_owned();
        let value = self.conversion.number(&text);
        if let Err(reason) = &value {
            view.fail("SampleExtractionErr", reason);
        }
        let keeps = self.filters.iter().all(|filter| filter.holds(view));
        keeps.then_some(value.unwrap_or(0.0))
    }
}

fn pipeline_error(view: &EntryView<'_>) -> EvalError {
    let error = view.get(ERROR).unwrap_or_default();
    EvalError::Refused(format!(
        "pipeline error: '{error}' for series: '{}'.\nUse a label filter to intentionally skip this error. \
         (e.g | __error__!=\"{error}\").\nTo skip all potential errors you can match empty errors.(e.g __error__=\"\")\n\
         The error can also be skipped by dropping its labels. (e.g | drop __error__, __error_details__)",
        shown_labels(view)
    ))
}

/// The labels of an entry, as far as a reader wants them.
fn shown_labels(view: &EntryView<'_>) -> String {
    let mut left = SHOWN_LABELS_MAX;
    let mut is_shown = |value: &str| {
        let is_room = left >= value.len();
        left -= if is_room { value.len() } else { 0 };
        is_room
    };
    let pairs = view.all().iter().filter(|(_, value)| is_shown(value)).map(|(n, v)| (n.into(), v.into())).collect();
    Labels::new(pairs).to_string()
}
