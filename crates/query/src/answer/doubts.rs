//! What a query names and no record has: fields, instances, tables.
//!
//! A field that no record has is not an error, because tomorrow's records may have it; its answer is empty, unsorted or
//! `NaN` all the same. So the names that a query uses are looked for in all tables that are asked, by the headers of
//! their pages and files. A remote store has no such headers, and is not asked.

use super::columns::{FieldNames, gather_names};
use super::plan::pushed_down;
use super::{AnswerOptions, ParsedQuery, answer};
use crate::archived::{ArchiveSession, Archives};
use crate::filter::Filter;
use crate::select::Selection;
use crate::stores::Stores;
use crate::tables::TableError;
use daytable_logsql::query::Test;
use daytable_logsql::{Column, Expression, FieldName, FieldUse, Matcher, Predicate, Remarks, SyntaxError, other_name};
use daytable_model::arrival::ARRIVED_FIELD;
use daytable_model::column_name::LOG_HOST;
use daytable_model::did_you_mean::did_you_mean;
use daytable_model::key::instance_of;
use daytable_model::property::Property;
use daytable_store::StoreError;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Days of a lake in which fields are looked for.
const LAKE_DAYS_MAX: usize = 16;
/// Fields of one query that are looked for.
const FIELDS_MAX: usize = 64;

/// What is to be said about the texts of a query, each with its place: first what the texts themselves tell, then what the
/// records tell. Ends early, with what is known, after `time_max`.
///
/// # Errors
///
/// The data folder cannot be read.
pub fn doubts(
    stores: &Stores<'_>,
    query: &ParsedQuery,
    remarks: &[Remarks],
    options: &AnswerOptions,
    time_max: Duration,
) -> Result<Vec<SyntaxError>, TableError> {
    let mut doubts: Vec<SyntaxError> = remarks.iter().flat_map(Remarks::warnings).cloned().collect();
    if stores.remote.is_some() {
        return Ok(doubts);
    }
    let predicate = Predicate::new(&query.filter, options.now);
    let Filter { since, until, days, .. } = pushed_down(&predicate, &options.filter);
    let filter = Filter { since, until, days, ..Filter::default() };
    for remarks in remarks {
        doubts.extend(unknown_instances(stores, remarks, &filter)?);
        doubts.extend(unknown_tables(stores, remarks)?);
        doubts.extend(unknown_hosts(stores, remarks));
    }
    // The files of a lake may be too many to be opened for a warning.
    if ArchiveSession::new(stores.archives).lake_days(&filter).len() > LAKE_DAYS_MAX {
        return Ok(doubts);
    }
    let started = Instant::now();
    let go_on = || started.elapsed() < time_max;
    match missing_fields(stores, remarks, &AnswerOptions { filter, ..options.clone() }, &go_on) {
        Ok(missing) => doubts.extend(missing),
        Err(TableError::Interrupted) => {}
        Err(error) => return Err(error),
    }
    Ok(doubts)
}

fn missing_fields(
    stores: &Stores<'_>,
    remarks: &[Remarks],
    options: &AnswerOptions,
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<SyntaxError>, TableError> {
    let wanted: Vec<FieldUse> = remarks.iter().flat_map(Remarks::fields).take(FIELDS_MAX).cloned().collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let filter = &options.filter;
    let (reading, row_filter) = (ArchiveSession::new(stores.archives), filter.row_filter().asking(go_on));
    let selection = Selection::of(stores, &reading, filter, &row_filter, go_on);
    let FieldNames { known, missing, has_records, is_open } = gather_names(&selection, &wanted)?;
    if !has_records {
        // That there are no records is said elsewhere.
        return Ok(Vec::new());
    }
    let names: Vec<&str> = known.iter().map(String::as_str).chain(COLUMNS).collect();
    let mut doubts = Vec::new();
    for remarks in remarks {
        for field in remarks.fields().iter().filter(|field| missing.contains(field)) {
            if is_open && (field.is_prefix || is_in_a_record(stores, field, options, go_on)?) {
                continue;
            }
            let written = field.name.written();
            let near = other_name(written).or_else(|| did_you_mean(written.trim_start_matches(['@', '.']), &names));
            let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            let star = if field.is_prefix { "*" } else { "" };
            let when = if filter.since.is_some() || filter.until.is_some() { " in this time" } else { "" };
            doubts.push(remarks.at(field.at.clone(), format!("no record{when} has a field {written}{star}{hint}")));
        }
    }
    Ok(doubts)
}

/// The names that every record has.
const COLUMNS: [&str; 8] = ["time", "level", "instance", "source", "table", "message", "line", ARRIVED_FIELD];

/// Whether a record has the field, which only the records tell.
fn is_in_a_record(
    stores: &Stores<'_>,
    field: &FieldUse,
    options: &AnswerOptions,
    go_on: &dyn Fn() -> bool,
) -> Result<bool, TableError> {
    let filter = Expression::Field(field.name.clone(), Test::Present);
    let query = ParsedQuery { filter, pipes: Vec::new() };
    let options = AnswerOptions { filter: Filter { limit: Some(1), ..options.filter.clone() }, ..options.clone() };
    let report = answer(stores, &query, &options, go_on, &mut |_| ControlFlow::Break(()))?;
    if report.matched == 0 && !go_on() { Err(TableError::Interrupted) } else { Ok(report.matched > 0) }
}

/// The tests of some fields anywhere in a filter, one for each value.
fn tests_of(filter: &Expression, is_asked: &dyn Fn(&FieldName) -> bool, tests: &mut Vec<Test>) {
    match filter {
        Expression::All | Expression::Time(_) => {}
        Expression::And(parts) | Expression::Or(parts) => {
            parts.iter().for_each(|part| tests_of(part, is_asked, tests));
        }
        Expression::Not(inner) => tests_of(inner, is_asked, tests),
        Expression::Field(field, test) if is_asked(field) => match test {
            Test::Present | Test::Empty | Test::Times(_) | Test::Other(..) => {}
            Test::In(values) => tests.extend(values.iter().cloned().map(Test::Exact)),
            test => tests.push(test.clone()),
        },
        Expression::Field(..) => {}
    }
}

/// The text of a test as the query has it, or its notation.
fn text_of(test: &Test) -> String {
    match test {
        Test::Phrase { text, .. } | Test::Prefix { text, .. } | Test::Exact(text) | Test::ExactPrefix(text) => {
            text.clone()
        }
        test => test.to_string(),
    }
}

/// The tests of a field that match none of the known values.
fn unmatched(remarks: &Remarks, field: &str, known: &mut dyn Iterator<Item = String>) -> Vec<(Test, Vec<String>)> {
    let field = FieldName::new(field);
    let mut tests = Vec::new();
    tests_of(remarks.filter(), &|name| is_same(name, &field), &mut tests);
    if tests.is_empty() {
        return Vec::new();
    }
    let known: Vec<String> = known.collect();
    tests.retain(|test| {
        let matcher = Matcher::new(&field, test);
        !known.iter().any(|name| matcher.matches(Some(Property::String(name))))
    });
    if known.is_empty() { Vec::new() } else { tests.into_iter().map(|test| (test, known.clone())).collect() }
}

/// Whether two names are of one column, and of one field.
fn is_same(name: &FieldName, field: &FieldName) -> bool {
    name.column() == field.column() && (field.column() != Column::Field || name.written() == field.written())
}

fn of_column(column: Column) -> impl Fn(&FieldName) -> bool {
    move |name| name.column() == column
}

/// The hosts that a filter names, and that no day of a lake is of.
fn unknown_hosts(stores: &Stores<'_>, remarks: &Remarks) -> Vec<SyntaxError> {
    let (field, mut tests) = (FieldName::new(LOG_HOST), Vec::new());
    tests_of(remarks.filter(), &|name| is_same(name, &field), &mut tests);
    let Archives::Lake(lake) = stores.archives else { return Vec::new() };
    // A list that cannot be read is told by the answer.
    let Some(listing) = lake.listing().ok().filter(|_| !tests.is_empty()) else { return Vec::new() };
    let hosts: BTreeSet<String> = listing.files.iter().map(|file| file.host().to_owned()).collect();
    unmatched(remarks, LOG_HOST, &mut hosts.into_iter())
        .into_iter()
        .map(|(test, known)| {
            let text = text_of(&test);
            let names: Vec<&str> = known.iter().map(String::as_str).collect();
            let hint = did_you_mean(&text, &names).map_or_else(String::new, |near| format!("; did you mean {near}?"));
            remarks.at(remarks.place_of(&text), format!("no day in the lake is of the host {text}{hint}"))
        })
        .collect()
}

fn unknown_instances(stores: &Stores<'_>, remarks: &Remarks, filter: &Filter) -> Result<Vec<SyntaxError>, TableError> {
    let mut tests = Vec::new();
    tests_of(remarks.filter(), &of_column(Column::Instance), &mut tests);
    let range = filter.times();
    if tests.is_empty() {
        return Ok(Vec::new());
    }
    let mut instances = BTreeSet::new();
    for (table, times) in stores.reader.table_times()? {
        let is_asked = range.zip(times).is_some_and(|((from, to), (first, last))| first <= to && from <= last);
        match stores.reader.partitions(&table) {
            Ok(partitions) if is_asked => {
                instances.extend(partitions.iter().map(|partition| instance_of(partition).0));
            }
            Ok(_) | Err(StoreError::TableGone(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The instances of archived days are not known here.
    let when = if filter.since.is_some() || filter.until.is_some() { " in this time" } else { "" };
    Ok(unmatched(remarks, "instance", &mut instances.into_iter())
        .into_iter()
        .map(|(test, known)| {
            let text = text_of(&test);
            let names: Vec<&str> = known.iter().map(String::as_str).collect();
            let hint = did_you_mean(&text, &names).map_or_else(String::new, |near| format!("; did you mean {near}?"));
            remarks.at(remarks.place_of(&text), format!("there is no instance {text}{when}{hint}"))
        })
        .collect())
}

fn unknown_tables(stores: &Stores<'_>, remarks: &Remarks) -> Result<Vec<SyntaxError>, TableError> {
    let mut tests = Vec::new();
    tests_of(remarks.filter(), &of_column(Column::Table), &mut tests);
    if tests.is_empty() {
        return Ok(Vec::new());
    }
    let archives = ArchiveSession::new(stores.archives);
    let archived = archives.latest(stores.reader)?.into_keys().map(|table| table.to_string());
    let of_lake: BTreeSet<String> = match stores.archives {
        Archives::Lake(lake) => {
            let listing = lake.listing().unwrap_or_default();
            listing.files.iter().map(|file| file.table().to_string()).collect()
        }
        _ => BTreeSet::new(),
    };
    let archived = archived.chain(of_lake);
    let local = stores.reader.table_times()?.into_iter().map(|(table, _)| table.to_string());
    Ok(unmatched(remarks, "table", &mut local.chain(archived))
        .into_iter()
        .map(|(test, known)| {
            let text = text_of(&test);
            let is_table = known.iter().any(|table| table.trim_end_matches(|c: char| c.is_ascii_digit()) == text);
            let hint = match is_table {
                true => format!("; the name of a day-table ends in its day: write table:={text}*"),
                false => {
                    let mut names: Vec<&str> =
                        known.iter().map(|table| table.trim_end_matches(|c: char| c.is_ascii_digit())).collect();
                    names.dedup();
                    did_you_mean(&text, &names)
                        .map_or_else(String::new, |near| format!("; did you mean table:={near}*?"))
                }
            };
            remarks.at(remarks.place_of(&text), format!("there is no day-table {text}{hint}"))
        })
        .collect())
}
