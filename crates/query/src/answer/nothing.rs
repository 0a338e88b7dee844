//! Why an answer is empty.
//!
//! An empty answer says what was searched, and the likely reason: no such instance, with the nearest name that there is, a
//! range without records, or records without a level. Names within the query are told by [`doubts`](super::doubts).

use super::plan::pushed_down;
use super::{AnswerOptions, ParsedQuery, count_answer};
use crate::archived::{ArchiveSession, Archives};
use crate::count::Grouping;
use crate::filter::Filter;
use crate::select::select;
use crate::stores::Stores;
use crate::tables::TableError;
use daytable_logsql::unit::duration_nanos;
use daytable_logsql::{Column, Expression, FieldName, Predicate, PredicateNode, Test};
use daytable_model::did_you_mean::did_you_mean;
use daytable_model::field_properties::shown_name;
use daytable_model::key::instance_of;
use daytable_model::path_text::PathText;
use daytable_model::record::Level;
use daytable_store::StoreError;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Records whose fields are looked at for the reason.
const SAMPLE: u64 = 1000;
/// How long records are asked whether they have a word in another form.
const HINT_TIME_MAX: Duration = Duration::from_millis(500);

/// What was searched without finding a record, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NothingFound {
    /// Day-tables with records in the range of times.
    pub days: usize,
    /// Rows of these day-tables.
    pub records: u64,
    /// Whether a remote store was searched, too, whose days and records are not counted.
    pub is_remote: bool,
    /// Whether days of a lake were searched, whose records are not counted.
    pub is_lake: bool,
    /// The likely reason, if one is known.
    pub reason: Option<String>,
    /// The query that was probably meant, if one is known.
    pub instead: Option<String>,
}

impl fmt::Display for NothingFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: u64| if n == 1 { "" } else { "s" };
        let (days, records) = (self.days as u64, self.records);
        if self.is_remote {
            write!(f, "nothing found in the remote store")?;
            return self.reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"));
        }
        if self.is_lake {
            write!(f, "nothing found in {days} day{} of the lake", plural(days))?;
            return self.reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"));
        }
        write!(f, "nothing found in {days} day{} with {records} record{}", plural(days), plural(records))?;
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

/// Why no record matches a query.
///
/// # Errors
///
/// The data folder or the remote store cannot be read.
pub fn explain(stores: &Stores<'_>, query: &ParsedQuery, options: &AnswerOptions) -> Result<NothingFound, TableError> {
    // A filter behind a pipe may be why.
    let predicate = Predicate::new(&query.planned().filter, options.now);
    let filter = pushed_down(&predicate, &options.filter);
    if let Archives::Lake(_) = stores.archives {
        return Ok(explain_lake(&ArchiveSession::new(stores.archives), &filter));
    }
    let tables = stores.reader.tables()?;
    let times = || tables.iter().filter_map(|table| Some((table.first_time?, table.last_time?)));
    let range = filter.times();
    let overlaps = |first, last| range.is_some_and(|(from, to)| first <= to && from <= last);
    let searched: Vec<_> = tables
        .iter()
        .filter(|table| table.first_time.zip(table.last_time).is_some_and(|(first, last)| overlaps(first, last)))
        .collect();
    let mut nothing = NothingFound {
        days: searched.len(),
        records: searched.iter().map(|table| table.rows).sum(),
        is_remote: stores.remote.is_some(),
        ..NothingFound::default()
    };
    let (oldest, newest) = (times().map(|(first, _)| first).min(), times().map(|(_, last)| last).max());
    nothing.reason = match (range, oldest, newest) {
        (None, ..) => Some("the range of times is empty".into()),
        _ if nothing.is_remote => None,
        (_, None, _) | (_, _, None) => Some("the data folder has no records".into()),
        (Some((_, to)), Some(oldest), _) if to < oldest => {
            Some(format!("the range ends before the first record, which is of {oldest}"))
        }
        (Some((from, _)), _, Some(newest)) if from > newest => {
            Some(format!("the range begins after the last record, which is of {newest}"))
        }
        _ if searched.is_empty() => Some("the range has no records".into()),
        _ => None,
    };
    if nothing.reason.is_some() {
        return Ok(nothing);
    }
    let mut instances = BTreeSet::new();
    for table in &searched {
        match stores.reader.partitions(&table.table) {
            Ok(partitions) => instances.extend(partitions.iter().map(|partition| instance_of(partition).0)),
            Err(StoreError::TableGone(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // An instance that the query names is one of the `doubts`.
    if let Some(wanted) = &options.filter.instance
        && !nothing.is_remote
        && !instances.contains(wanted)
    {
        let known: Vec<&str> = instances.iter().map(String::as_str).collect();
        nothing.reason = Some(format!("there is no instance {wanted}{}", hint(wanted, &known)));
        return Ok(nothing);
    }
    let planned = query.planned().filter;
    let asked = Asked { stores, options, filter: &planned, started: Instant::now() };
    for (name, word) in words_of(&planned) {
        if let Some(Meaning { hint, filter }) = other_meaning(name, word, &instances, &asked)? {
            nothing.reason = Some(hint);
            let pipes = query.pipes.clone();
            nothing.instead = with_other(&query.filter, &is_word(word), &filter)
                .map(|filter| ParsedQuery { filter, pipes }.to_string());
            return Ok(nothing);
        }
    }
    for test in parts_of(&planned) {
        let other = match source_without_folder(test, stores)? {
            None => without_unit(test, &asked)?,
            other => other,
        };
        if let Some(Meaning { hint, filter }) = other {
            nothing.reason = Some(hint);
            let pipes = query.pipes.clone();
            nothing.instead = with_other(&query.filter, &|part| part == test, &filter)
                .map(|filter| ParsedQuery { filter, pipes }.to_string());
            return Ok(nothing);
        }
    }
    // Of the data folder, `doubts` tells which fields no record has.
    let required = if stores.remote.is_some() { required_fields(predicate.root()) } else { Vec::new() };
    let tells_fields = filter.level.is_some() || !required.is_empty();
    if !tells_fields && filter.instance.is_none() && filter.since.is_none() && filter.until.is_none() {
        // Records tell no more, and the newest ones of all instances cost more than to look for a word.
        return Ok(nothing);
    }
    let limit = Some(if tells_fields { SAMPLE } else { 1 });
    let sample =
        Filter { since: filter.since, until: filter.until, instance: filter.instance.clone(), ..Filter::default() };
    let (mut names, mut has_level, mut count) = (BTreeSet::new(), false, 0u64);
    select(stores, &Filter { limit, ..sample }, |record| {
        count += 1;
        has_level |= record.level.is_some();
        names.extend(record.fields.into_iter().map(|(name, _)| shown_name(&name).into_owned()));
        ControlFlow::Continue(())
    })?;
    let none_has = match count {
        1 => "the only record has no".to_owned(),
        _ => format!("none of the newest {count} records has a"),
    };
    nothing.reason = if count == 0 {
        let of = if filter.instance.is_some() { " of this instance" } else { "" };
        Some(format!("the range has no records{of}"))
    } else if (filter.level.is_some()) && !has_level {
        Some(format!("{none_has} level"))
    } else {
        let missing = required.into_iter().find(|name| !names.iter().any(|n| name.is_property(n)));
        missing.map(|name| {
            let known: Vec<&str> = names.iter().map(String::as_str).collect();
            format!("{none_has} field {}{}", name.written(), hint(name.written(), &known))
        })
    };
    Ok(nothing)
}

/// Why no record of a lake matches, as far as its days tell without being opened.
fn explain_lake(reading: &ArchiveSession, filter: &Filter) -> NothingFound {
    let all = reading.lake_days(&Filter { since: None, until: None, ..filter.clone() });
    let (oldest, newest) =
        (all.iter().map(|(_, (oldest, _))| oldest).min(), all.iter().map(|(_, (_, newest))| newest).max());
    let Some((from, to)) = filter.times() else {
        return NothingFound {
            is_lake: true,
            reason: Some("the range of times is empty".into()),
            ..Default::default()
        };
    };
    let days = all.iter().filter(|(_, (oldest, newest))| *oldest <= to && from <= *newest).count();
    let reason = match (oldest, newest) {
        (Some(oldest), Some(_)) if to < *oldest => {
            Some(format!("the range ends before the first record, which is of {oldest}"))
        }
        (Some(_), Some(newest)) if from > *newest => {
            Some(format!("the range begins after the last record, which is of {newest}"))
        }
        (Some(_), Some(_)) if days == 0 => Some("the range has no records".into()),
        (Some(_), Some(_)) => None,
        _ => Some("no host has archived such a day".into()),
    };
    NothingFound { days, is_lake: true, reason, ..NothingFound::default() }
}

/// The bare words that every matching record has, and where.
fn words_of(filter: &Expression) -> Vec<(&FieldName, &str)> {
    match filter {
        Expression::And(parts) => parts.iter().flat_map(words_of).collect(),
        Expression::Field(name, Test::Phrase { text, any_case: false })
            if matches!(name.column(), Column::Line | Column::Anywhere) =>
        {
            vec![(name, text)]
        }
        _ => Vec::new(),
    }
}

/// The filters that every matching record satisfies.
fn parts_of(filter: &Expression) -> Vec<&Expression> {
    match filter {
        Expression::And(parts) => parts.iter().flat_map(parts_of).collect(),
        part => vec![part],
    }
}

/// A source by the end of its path: `live/app.log`, and there is `/srv/live/app.log`.
fn source_without_folder(test: &Expression, stores: &Stores<'_>) -> Result<Option<Meaning>, StoreError> {
    let Expression::Field(name, Test::Exact(text) | Test::Phrase { text, .. }) = test else { return Ok(None) };
    if name.column() != Column::Source || text.is_empty() || text.starts_with('/') {
        return Ok(None);
    }
    let end = format!("/{}", text.trim_start_matches("./"));
    let sources = stores.reader.sources()?;
    let mut paths: Vec<_> =
        sources.iter().map(|source| source.path.text()).filter(|path| path.ends_with(&end)).collect();
    paths.sort();
    paths.dedup();
    let meant = match &paths[..] {
        [] => return Ok(None),
        [path] => path.to_string(),
        _ => format!("*{end}"),
    };
    let hint = format!("there is no source {text}: a source has the whole path; did you mean {meant}?");
    Ok(Some(Meaning { hint, filter: Expression::Field(name.clone(), Test::glob(&meant)) }))
}

/// A comparison with a duration, where the field has numbers without a unit: `rt:>1s`, and a record has `rt` 1.5. The end of a name
/// may tell the unit.
fn without_unit(test: &Expression, asked: &Asked<'_>) -> Result<Option<Meaning>, TableError> {
    const UNITS: [(&str, &str, i64); 5] = [
        ("ms", "milliseconds", 1_000_000),
        ("millis", "milliseconds", 1_000_000),
        ("us", "microseconds", 1_000),
        ("micros", "microseconds", 1_000),
        ("ns", "nanoseconds", 1),
    ];
    let Expression::Field(name, Test::Order(operator, value)) = test else { return Ok(None) };
    let nanos = duration_nanos(value).filter(|_| value.ends_with(|c: char| c.is_alphabetic()));
    let Some(nanos) = nanos.filter(|_| name.column() == Column::Field) else { return Ok(None) };
    let of_name = |(end, ..): &&(&str, &str, i64)| {
        let before = name.written().strip_suffix(end);
        before.is_some_and(|before| before.is_empty() || before.ends_with(['_', '.', '-']))
    };
    let (_, unit, size) = *UNITS.iter().find(of_name).unwrap_or(&("", "seconds", 1_000_000_000));
    let plain = Expression::Field(name.clone(), Test::Order(*operator, (nanos as f64 / size as f64).to_string()));
    let number = Expression::Field(name.clone(), Test::Regexp(r"^-?\d+(\.\d+)?$".into()));
    let both = Expression::And(vec![plain.clone(), number]);
    let Some(records) = asked.records_with(&|part| part == test, &both)?.filter(|records| *records > 0) else {
        return Ok(None);
    };
    let have = if records == 1 { "1 record has".to_owned() } else { format!("{records} records have") };
    let name = name.written();
    let hint = format!("the numbers of {name} have no unit: {have} {} (if {name} is in {unit})", notation(&plain));
    Ok(Some(Meaning { hint, filter: plain }))
}

/// What a filter may have meant.
struct Meaning {
    hint: String,
    /// What is asked instead of it.
    filter: Expression,
}

/// What else a word may have meant: an instance, a level, a part of a word, or the word in another case. What is said of records is
/// asked of them before.
fn other_meaning(
    place: &FieldName,
    word: &str,
    instances: &BTreeSet<String>,
    asked: &Asked<'_>,
) -> Result<Option<Meaning>, TableError> {
    if !word.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        return Ok(None);
    }
    let exactly = |name: &str, value: &str| Expression::Field(FieldName::new(name), Test::Exact(value.to_owned()));
    if let Some(instance) = instances.iter().find(|instance| instance.contains(word)) {
        let filter = exactly("instance", instance);
        let hint = format!("{word} is taken for a word; an instance is called {instance}: write {}", notation(&filter));
        return Ok(Some(Meaning { hint, filter }));
    }
    let level = Level::from_word(word).map(|level| {
        let filter = exactly("level", level.name());
        Meaning { hint: format!("{word} is taken for a word; records of a level are {}", notation(&filter)), filter }
    });
    let text = word.to_owned();
    let tests = [
        Test::Part(text.clone()),
        Test::Phrase { text, any_case: true },
        Test::Regexp(format!("(?i){}", word.replace('.', "\\."))),
    ];
    // A level is known to be one, and is written in lines in many ways.
    let tried = if level.is_some() { 1 } else { tests.len() };
    for test in tests.into_iter().take(tried) {
        let filter = Expression::Field(place.clone(), test.clone());
        let Some(records) = asked.records_with(&is_word(word), &filter)? else { break };
        if records > 0 {
            let found = found_by(&test, word, records, &notation(&filter));
            return Ok(Some(match level {
                Some(level) => Meaning { hint: format!("{}; {found}", level.hint), ..level },
                None => Meaning { hint: found, filter },
            }));
        }
    }
    Ok(level)
}

/// How a filter is written.
fn notation(filter: &Expression) -> String {
    ParsedQuery { filter: filter.clone(), pipes: Vec::new() }.to_string()
}

/// What is said of the records that another test of a word finds.
fn found_by(test: &Test, word: &str, records: u64, notation: &str) -> String {
    let have = if records == 1 { "1 record has".to_owned() } else { format!("{records} records have") };
    match test {
        Test::Part(_) => format!("{have} {word} as a part of a word: {notation}"),
        Test::Phrase { .. } => format!("words are compared with their case: {have} {notation}, the word in any case"),
        _ => format!("{have} it as a part of a word in another case: {notation}"),
    }
}

/// The question that found nothing, to be asked again in other words.
struct Asked<'a> {
    stores: &'a Stores<'a>,
    options: &'a AnswerOptions,
    filter: &'a Expression,
    started: Instant,
}

impl Asked<'_> {
    /// How many records match where another filter stands for one. `None` if that is not known in time.
    fn records_with(&self, is: &IsPart<'_>, other: &Expression) -> Result<Option<u64>, TableError> {
        if self.stores.remote.is_some() {
            return Ok(None);
        }
        let Some(filter) = with_other(self.filter, is, other) else { return Ok(None) };
        let go_on = || self.started.elapsed() < HINT_TIME_MAX;
        let query = ParsedQuery { filter, pipes: Vec::new() };
        let filter = Filter { limit: None, ..self.options.filter.clone() };
        let options = AnswerOptions { filter, ..self.options.clone() };
        match count_answer(self.stores, &query, &options, Grouping::default(), &go_on) {
            Ok((counts, report)) if go_on() && report.incomplete().is_none() => {
                Ok(Some(counts.iter().map(|count| count.records).sum()))
            }
            Ok(_) | Err(TableError::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Tells a part of a filter.
type IsPart<'p> = dyn Fn(&Expression) -> bool + 'p;

/// Tells the filter of a bare word.
fn is_word(word: &str) -> impl Fn(&Expression) -> bool + '_ {
    move |part| match part {
        Expression::Field(name, Test::Phrase { text, any_case: false }) => {
            text == word && matches!(name.column(), Column::Line | Column::Anywhere)
        }
        _ => false,
    }
}

/// The filter with another one for one of its parts. `None` where it has no such part.
fn with_other(filter: &Expression, is: &IsPart<'_>, other: &Expression) -> Option<Expression> {
    match filter {
        Expression::And(parts) => {
            let changed: Vec<_> = parts.iter().map(|part| with_other(part, is, other)).collect();
            changed.iter().any(Option::is_some).then(|| {
                let parts = parts.iter().zip(changed).map(|(part, changed)| changed.unwrap_or_else(|| part.clone()));
                Expression::And(parts.collect())
            })
        }
        part => is(part).then(|| other.clone()),
    }
}

fn hint(name: &str, known: &[&str]) -> String {
    did_you_mean(name, known).map_or(String::new(), |known| format!("; did you mean {known}?"))
}

/// The fields that every matching record has.
fn required_fields(node: &PredicateNode) -> Vec<daytable_logsql::FieldName> {
    match node {
        PredicateNode::And(nodes) => nodes.iter().flat_map(required_fields).collect(),
        PredicateNode::Field(name, matcher) if name.column() == Column::Field && !matcher.matches_absent() => {
            vec![name.clone()]
        }
        _ => Vec::new(),
    }
}
