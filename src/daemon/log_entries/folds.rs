//! What becomes of the records of all stores, for a function over ranges and for numbers of entries.
//!
//! Columns tell which labels and which parts of a line records have ([`EntryFold`]); [`EntryMaker`] makes entries of them, and
//! the pipeline works on those. So columns and whole records have one meaning.

use super::{
    EntryMaker, FoundEntry, KnownStream, LOG_HOST, LevelSearch, NO_FIELDS, OWN_LABELS, SERVICE_FIELDS, may_be_numbered,
    table_name,
};
use crate::http::QuestionClock;
use daytable_logql::ast::{Conversion, LabelMatcher, MatchOp};
use daytable_logql::eval::{EachCount, EntryOutcome, RangeQuestion, RangeSamples};
use daytable_logql::labels::{Labels, label_name};
use daytable_logql::level::{DETECTED_LEVEL, is_level_field, is_level_label, level_of_stream, may_tell_level};
use daytable_logql::line_use::{LineUse, MemberUse, ParserForm};
use daytable_logql::source::{CountedApart, EntrySelection, TimeSpan};
use daytable_logsql::FieldName;
use daytable_model::field_properties::shown_name;
use daytable_model::property::Property;
use daytable_platform::budget::{OverBudget, QuestionBudget};
use daytable_query::StoredRecord;
use daytable_query::answer;
use daytable_query::answer::{
    AlikeLine, AlikeOutcome, EntryCell, EntryFold, EntryNeeds, EntryQuestion, EntryValue, InstanceTest, LineNeed,
    MemberReader, MemberScan, StreamNeeds, ValueNeed,
};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The labels of entries that matter.
pub(super) struct NeededLabels {
    /// `None` if all do.
    names: Option<Vec<String>>,
    has_service: bool,
    has_detected_level: bool,
}

impl NeededLabels {
    /// Those of a selection, and `labels` of its entries; all if there is no list of them.
    fn of(wanted: &EntrySelection<'_>, labels: Option<&[String]>) -> NeededLabels {
        // Every entry has a service, whatever its name.
        let asks = |matcher: &&LabelMatcher| {
            let is_any =
                matches!((matcher.op, &*matcher.value), (MatchOp::NotEqual, "") | (MatchOp::Regex, ".+" | ".*"));
            matcher.name != "service_name" || !is_any
        };
        let selected = wanted.selector.0.iter().filter(asks).map(|matcher| matcher.name.clone());
        let names: Option<Vec<String>> = labels.map(|labels| selected.chain(labels.iter().cloned()).collect());
        let has = |name: &str| names.as_ref().is_none_or(|names| names.iter().any(|known| known == name));
        let (has_service, has_detected_level) = (has("service_name"), has(DETECTED_LEVEL));
        NeededLabels { names, has_service, has_detected_level }
    }

    fn has(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.iter().any(|known| known == name))
    }

    /// Whether a field matters that becomes this label, or the same with a number.
    pub(super) fn needs(&self, label: &str) -> bool {
        let Some(names) = &self.names else { return true };
        let is_it = |name: &String| {
            let is_numbered = || may_be_numbered(name) && name.rsplit_once('_').is_some_and(|(base, _)| base == label);
            name == label || is_numbered()
        };
        names.iter().any(is_it) || self.has_detected_level && is_level_label(label)
    }

    /// Whether the value of a label decides which entries are selected, or is part of another label that matters.
    fn depend_on(&self, label: &str, wanted: &EntrySelection<'_>) -> bool {
        wanted.selector.0.iter().any(|matcher| *matcher.name == *label)
            || self.has_service && SERVICE_FIELDS.contains(&label)
            || self.has_detected_level && is_level_label(label)
    }

    fn needs_field(&self, property: &str) -> bool {
        self.has_service && SERVICE_FIELDS.contains(&property) || self.needs(&label_name(&shown_name(property)))
    }

    /// Whether only whole records tell the labels: some are made of what is not a field.
    fn is_of_record(&self) -> bool {
        self.names.as_ref().is_some_and(|names| names.iter().any(|name| NO_FIELDS.contains(&name.as_str())))
    }

    /// Whether a field may be one of the labels: each but the table may be absent, and then a field of that name is the label.
    fn has_fields(&self) -> bool {
        self.names.as_ref().is_none_or(|names| names.iter().any(|name| name != "table"))
    }

    /// Whether headers of pages have all labels of a record that has a level and an instance.
    fn are_of_headers(&self) -> bool {
        let is_in_headers = |name: &String| matches!(name.as_str(), "level" | "instance" | "table" | DETECTED_LEVEL);
        self.names.as_ref().is_some_and(|names| names.iter().all(is_in_headers))
    }

    /// What matters of a stream's records.
    fn of_stream(&self, note: &str, depends_on_end: bool) -> Option<StreamNeeds> {
        let known = KnownStream::parse(note)?;
        let needed: Vec<_> = known.metadata.iter().filter(|(name, _)| self.needs(&label_name(name))).collect();
        let is_alike = |(at, (name, _)): (usize, &&(String, daytable_logsql::FieldName))| {
            needed[..at].iter().any(|(other, _)| label_name(other) == label_name(name))
        };
        let host = (known.takes_host && self.needs(LOG_HOST)).then(|| FieldName::new(LOG_HOST));
        Some(StreamNeeds {
            // Which of two has the label and which a number, the record says.
            record: needed.iter().enumerate().any(is_alike) || depends_on_end && !known.end.is_empty(),
            fields: needed.into_iter().map(|(_, field)| field.clone()).chain(host).collect(),
            level_in_line: self.has_detected_level && level_of_stream(&known.labels).is_none(),
        })
    }

    /// What of records matters.
    fn needs_of<'q>(
        &self,
        line: LineNeed<'q>,
        value: Option<ValueNeed<'q>>,
        level_members: Option<MemberScan<'q>>,
        sees: Option<&'q InstanceTest<'q>>,
        memory: &'q QuestionBudget,
    ) -> EntryNeeds<'q> {
        EntryNeeds {
            level: self.has("level") || self.has_detected_level,
            detected_level: self.has_detected_level,
            instance: self.has("instance") || self.has_service,
            source: self.has("source"),
            fields: self.has_fields(),
            headers: self.are_of_headers(),
            line: if self.is_of_record() { LineNeed::Record } else { line },
            level_members: level_members.filter(|_| self.has_detected_level),
            value,
            sees,
            memory,
        }
    }
}

/// The samples of a function over ranges.
pub(super) struct SampleFold<'f> {
    question: &'f RangeQuestion<'f>,
    wanted: &'f EntrySelection<'f>,
    clock: &'f QuestionClock,
    labels: NeededLabels,
    needs: EntryNeeds<'f>,
    conversion: Conversion,
    depends_on_end: bool,
}

/// What reads the parts of lines that matter to a question.
pub(super) struct SampleReaders<'q> {
    line: LineUse<'q>,
    each: Box<MemberReader<'q>>,
    level: Box<MemberReader<'q>>,
}

impl<'q> SampleReaders<'q> {
    pub(super) fn new(question: &'q RangeQuestion<'q>) -> SampleReaders<'q> {
        let line = question.line_use();
        let has_level = question.labels().is_none_or(|labels| labels.iter().any(|label| label == DETECTED_LEVEL));
        let of_level = MemberUse::of_level(ParserForm::Json, is_level_field);
        let members = match &line {
            LineUse::Members(members) if has_level => members.clone().with_level(is_level_field),
            LineUse::Members(members) => members.clone(),
            _ => of_level.clone(),
        };
        let each: Box<MemberReader<'q>> = Box::new(move |line, each| members.each(line, each));
        let level: Box<MemberReader<'q>> = Box::new(move |line, each| of_level.each(line, each));
        SampleReaders { line, each, level }
    }
}

impl<'f> SampleFold<'f> {
    pub(super) fn new(
        question: &'f RangeQuestion<'f>,
        wanted: &'f EntrySelection<'f>,
        readers: &'f SampleReaders<'f>,
        clock: &'f QuestionClock,
        sees: Option<&'f InstanceTest<'f>>,
    ) -> SampleFold<'f> {
        let labels = NeededLabels::of(wanted, question.labels());
        let line = match &readers.line {
            LineUse::Unused => LineNeed::Unused,
            LineUse::Members(members) => {
                LineNeed::Members(MemberScan { form: form_of(members.form()), each: &*readers.each })
            }
            LineUse::Whole => LineNeed::Whole,
            LineUse::Entry => LineNeed::Record,
        };
        let is_free = |label: &str| !labels.depend_on(label, wanted);
        let (value, conversion) = match question.value_label().filter(|(label, _)| is_free(label)) {
            Some((label, conversion)) => {
                let suffix = match conversion {
                    Conversion::Number => "",
                    Conversion::Duration | Conversion::DurationSeconds => "s",
                    Conversion::Bytes => "B",
                };
                (Some(ValueNeed { label, suffix }), conversion)
            }
            None => (None, Conversion::Number),
        };
        let level_members = Some(MemberScan { form: answer::LineSyntax::Json, each: &*readers.level });
        let needs = labels.needs_of(line, value, level_members, sees, question.budget());
        // A value counts once for each entry, and headers know how many entries there are.
        let needs = EntryNeeds { headers: needs.headers && question.counts(), ..needs };
        let depends_on_end = wanted.lines.iter().any(|filter| filter.depends_on_end());
        SampleFold { question, wanted, clock, labels, needs, conversion, depends_on_end }
    }

    fn level_search(&self, line: AlikeLine) -> LevelSearch {
        if self.labels.has_detected_level { LevelSearch::Alike(line) } else { LevelSearch::Skip }
    }
}

impl EntryQuestion for SampleFold<'_> {
    fn needs(&self) -> &EntryNeeds<'_> {
        &self.needs
    }

    fn needs_field(&self, name: &str) -> bool {
        self.labels.needs_field(name)
    }

    fn stream(&self, note: &str) -> Option<StreamNeeds> {
        self.labels.of_stream(note, self.depends_on_end)
    }

    fn cell(&self, time: i64) -> EntryCell {
        let TimeSpan { from, to } = self.wanted.span;
        let span = self.question.cell(time);
        match (from..=to).contains(&time) {
            true => EntryCell { cell: span.cell, from: span.from.max(from), to: span.to.min(to) },
            false => EntryCell { cell: None, from: time, to: time },
        }
    }

    fn may_tell_level(&self, text: &str) -> bool {
        may_tell_level(text)
    }

    fn names_level(&self, text: &str) -> bool {
        names_level(text)
    }

    fn value(&self, value: Property<'_>) -> EntryValue {
        match (value, self.conversion) {
            (Property::Int64(n), Conversion::Number) => EntryValue::Number(n as f64),
            (Property::Int32(n), Conversion::Number) => EntryValue::Number(n.into()),
            (Property::Double(n), Conversion::Number) if n.is_finite() => EntryValue::Number(n),
            (Property::String(""), _) => EntryValue::Nothing,
            (value, conversion) => conversion.number(&value.text()).map_or(EntryValue::Open, EntryValue::Number),
        }
    }
}

impl EntryFold for SampleFold<'_> {
    type State = (EntryMaker, RangeSamples);

    fn start(&self) -> Self::State {
        (EntryMaker::default(), self.question.start())
    }

    fn outcome(&self, (maker, samples): &mut Self::State, record: &StoredRecord, line: AlikeLine) -> AlikeOutcome {
        let entry = match maker.entry_of(record, self.wanted.selector, self.level_search(line), None) {
            FoundEntry::Entry(entry) => entry,
            FoundEntry::Unselected => return AlikeOutcome::Dropped,
            FoundEntry::Open => return AlikeOutcome::Open,
        };
        match self.question.outcome(samples, &entry, &|| self.clock.stop_reason().is_none()) {
            EntryOutcome::Dropped => AlikeOutcome::Dropped,
            EntryOutcome::Sample { series, value } => AlikeOutcome::Group(series, value),
            EntryOutcome::Ended => AlikeOutcome::Ended,
        }
    }

    fn add(
        &self,
        (_, samples): &mut Self::State,
        at: (u32, u32),
        time: i64,
        value: f64,
        records: u64,
    ) -> ControlFlow<()> {
        self.question.add(samples, at, time, value * records as f64)
    }

    fn add_record(&self, (maker, samples): &mut Self::State, record: &StoredRecord) -> ControlFlow<()> {
        let search = if self.labels.has_detected_level { LevelSearch::Full } else { LevelSearch::Skip };
        // A template may read labels that no stage names.
        let needed = (!matches!(self.needs.line, LineNeed::Record)).then_some(&self.labels);
        match maker.entry_of(record, self.wanted.selector, search, needed) {
            FoundEntry::Entry(entry) if (self.wanted.span.from..=self.wanted.span.to).contains(&entry.time) => {
                self.question.add_entry(samples, &entry, &|| self.clock.stop_reason().is_none())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Numbers of entries by the labels of their streams and by steps.
pub(super) struct CountFold<'f> {
    wanted: &'f EntrySelection<'f>,
    apart: CountedApart<'f>,
    labels: NeededLabels,
    needs: EntryNeeds<'f>,
    depends_on_end: bool,
}

/// What a thread counted.
#[derive(Default)]
pub(super) struct EntryCounts {
    maker: EntryMaker,
    numbers: HashMap<Arc<Labels>, u32>,
    streams: Vec<Arc<Labels>>,
    /// By stream and step.
    counts: HashMap<u64, u64>,
    refused: Option<OverBudget>,
}

impl EntryCounts {
    /// Why there was no memory for the counts.
    pub(super) fn refused(&self) -> Option<OverBudget> {
        self.refused.clone()
    }

    fn charge(&mut self, memory: &QuestionBudget, bytes: usize, kept: &str) -> Option<()> {
        memory.charge(bytes, kept).map_err(|over| self.refused = Some(over)).ok()
    }
}

/// What a number takes.
const COUNT_BYTES: usize = 32;

impl<'f> CountFold<'f> {
    pub(super) fn new(
        wanted: &'f EntrySelection<'f>,
        apart: CountedApart<'f>,
        sees: Option<&'f InstanceTest<'f>>,
        memory: &'f QuestionBudget,
    ) -> CountFold<'f> {
        // All labels of the stream of a record that was pushed to none.
        let own: Vec<String> = OWN_LABELS.iter().map(|name| (*name).to_owned()).collect();
        let labels = NeededLabels::of(wanted, Some(apart.labels.unwrap_or(&own)));
        let needs = labels.needs_of(LineNeed::Unused, None, None, sees, memory);
        let depends_on_end = wanted.lines.iter().any(|filter| filter.depends_on_end());
        CountFold { wanted, apart, labels, needs, depends_on_end }
    }

    /// Passes the numbers on.
    pub(super) fn each(&self, counts: EntryCounts, each: &mut EachCount<'_>) -> ControlFlow<()> {
        counts.counts.into_iter().try_for_each(|(key, count)| {
            let stream = &counts.streams[(key >> 32) as usize];
            each(stream, self.time(key as u32), count)
        })
    }

    /// The number of a step, from the first one on; each is open at its start and closed at its end.
    fn step(&self, time: i64) -> (i64, i64, i64) {
        let TimeSpan { from, to } = self.wanted.span;
        let Some((edge, length)) = self.apart.steps else { return (0, from, to) };
        let number = |time: i64| -(-(i128::from(time) - i128::from(edge))).div_euclid(length.max(1).into());
        let of_time = number(time);
        let end = i128::from(edge) + of_time * i128::from(length.max(1));
        let nanos = |nanos: i128| i64::try_from(nanos.clamp(from.into(), to.into())).unwrap_or(time);
        let step = i64::try_from(of_time - number(from)).unwrap_or(0);
        (step, nanos(end - i128::from(length.max(1)) + 1), nanos(end))
    }

    /// A time in a step.
    fn time(&self, step: u32) -> i64 {
        let TimeSpan { from, to } = self.wanted.span;
        let Some((edge, length)) = self.apart.steps else { return to };
        let first = -(edge.saturating_sub(from)).div_euclid(length.max(1));
        let end = first.saturating_add(step.into()).saturating_mul(length.max(1)).saturating_add(edge);
        end.clamp(from, to)
    }

    fn group(&self, counts: &mut EntryCounts, stream: &Arc<Labels>) -> Option<u32> {
        if let Some(known) = counts.numbers.get(stream) {
            return Some(*known);
        }
        counts.charge(self.needs.memory, COUNT_BYTES + 2 * stream.bytes(), "streams")?;
        let number = u32::try_from(counts.streams.len()).ok()?;
        counts.streams.push(stream.clone());
        counts.numbers.insert(stream.clone(), number);
        Some(number)
    }
}

impl EntryQuestion for CountFold<'_> {
    fn needs(&self) -> &EntryNeeds<'_> {
        &self.needs
    }

    fn needs_field(&self, name: &str) -> bool {
        self.labels.needs_field(name)
    }

    fn stream(&self, note: &str) -> Option<StreamNeeds> {
        self.labels.of_stream(note, self.depends_on_end)
    }

    fn cell(&self, time: i64) -> EntryCell {
        let TimeSpan { from, to } = self.wanted.span;
        if !(from..=to).contains(&time) {
            return EntryCell { cell: None, from: time, to: time };
        }
        let (step, from, to) = self.step(time);
        EntryCell { cell: u32::try_from(step).ok(), from, to }
    }

    fn may_tell_level(&self, text: &str) -> bool {
        may_tell_level(text)
    }

    fn names_level(&self, text: &str) -> bool {
        names_level(text)
    }

    fn value(&self, _value: Property<'_>) -> EntryValue {
        EntryValue::Open
    }
}

impl EntryFold for CountFold<'_> {
    type State = EntryCounts;

    fn start(&self) -> EntryCounts {
        EntryCounts::default()
    }

    fn outcome(&self, counts: &mut EntryCounts, record: &StoredRecord, _line: AlikeLine) -> AlikeOutcome {
        match counts.maker.entry_of(record, self.wanted.selector, LevelSearch::Skip, None) {
            FoundEntry::Entry(entry) => match self.group(counts, &entry.stream) {
                Some(group) => AlikeOutcome::Group(group, 1.0),
                None => AlikeOutcome::Ended,
            },
            FoundEntry::Unselected => AlikeOutcome::Dropped,
            FoundEntry::Open => AlikeOutcome::Open,
        }
    }

    fn add(
        &self,
        counts: &mut EntryCounts,
        (group, cell): (u32, u32),
        _time: i64,
        _value: f64,
        records: u64,
    ) -> ControlFlow<()> {
        let key = u64::from(group) << 32 | u64::from(cell);
        if let Some(count) = counts.counts.get_mut(&key) {
            *count += records;
            return ControlFlow::Continue(());
        }
        if counts.charge(self.needs.memory, COUNT_BYTES, "numbers").is_none() {
            return ControlFlow::Break(());
        }
        counts.counts.insert(key, records);
        ControlFlow::Continue(())
    }

    fn add_record(&self, counts: &mut EntryCounts, record: &StoredRecord) -> ControlFlow<()> {
        let FoundEntry::Entry(entry) =
            counts.maker.entry_of(record, self.wanted.selector, LevelSearch::Skip, Some(&self.labels))
        else {
            return ControlFlow::Continue(());
        };
        if !self.wanted.passes_lines(&entry.line) {
            return ControlFlow::Continue(());
        }
        let Some(cell) = self.cell(entry.time).cell else { return ControlFlow::Continue(()) };
        match self.group(counts, &entry.stream) {
            Some(group) => self.add(counts, (group, cell), entry.time, 1.0, 1),
            None => ControlFlow::Break(()),
        }
    }
}

/// Whether a text of a layout has the name of a field that may have the level.
fn names_level(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["level", "lvl", "sever"].iter().any(|name| text.contains(name))
}

/// Which instances a client sees.
pub(super) fn sees<'s>(seen: &'s crate::http::Visibility) -> Option<Box<InstanceTest<'s>>> {
    (!seen.is_all()).then(|| {
        let sees: Box<InstanceTest<'s>> = Box::new(move |table, instance| seen.sees(&table_name(table), instance));
        sees
    })
}

fn form_of(form: ParserForm) -> answer::LineSyntax {
    match form {
        ParserForm::Json => answer::LineSyntax::Json,
        ParserForm::Logfmt => answer::LineSyntax::Logfmt,
        ParserForm::Both => answer::LineSyntax::Both,
    }
}
