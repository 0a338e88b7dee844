//! The questions of the command line ([`crate::http::RecordQuestion`]), from the stores of the daemon.

use super::queries::{check_complete, clock, continue_if, grouping};
use crate::http::{ApiError, ApiResult, AskedCount, AskedLine, QuestionForm, RecordQuestion, ResponseWriter};
use daytable_model::key::{DayTable, RowKey};
use daytable_model::time;
use daytable_platform::budget::MemoryBudget;
use daytable_query::answer::context::{CONTEXT_MAX, ContextScope, groups_around};
use daytable_query::answer::doubts::doubts;
use daytable_query::answer::{
    AnswerEnd, AnswerFollower, AnswerItem, AnswerOptions, FollowError, FullRecord, answer, count_answer,
};
use daytable_query::{Archives, StoredRecord, Stores, find_record};
use std::cell::RefCell;
use std::time::Duration;

/// How long the names of a query are looked for in the records.
const DOUBTS_TIME_MAX: Duration = Duration::from_secs(10);
/// How often a follower reads new commits.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(50);
/// Records whose neighbours are looked for.
const MATCHES_MAX: u64 = 10_000;

/// Answers a question.
pub(super) fn ask(
    stores: &Stores<'_>,
    question: &RecordQuestion,
    memory: &MemoryBudget,
    out: &mut ResponseWriter,
) -> ApiResult {
    let (query, remarks, options) = question
        .conditions
        .clone()
        .parse(time::now(), question.limit)
        .map_err(|error| ApiError::Refused(format!("the query is wrong: {error}")))?;
    let options = AnswerOptions { memory: memory.clone(), ..options };
    let stores = &Stores {
        reader: stores.reader,
        archives: if question.has_archives { stores.archives } else { &Archives::Skip },
        remote: stores.remote.filter(|_| question.has_remote),
    };
    let doubts_max = (!question.is_quiet).then_some(DOUBTS_TIME_MAX);
    match &question.form {
        QuestionForm::Answer => {
            let out = RefCell::new(out);
            let is_wanted = || out.borrow_mut().is_wanted();
            let report = answer(stores, &query, &options, &is_wanted, &mut |item| {
                continue_if(out.borrow_mut().line(&AskedLine::of_item(&item)))
            })?;
            if out.borrow().is_gone() {
                return Ok(());
            }
            let end = AnswerEnd::of(stores, &query, &remarks, &options, &report, doubts_max)?;
            out.borrow_mut().line(&AskedLine::End(end));
        }
        QuestionForm::Groups { before, after, of, key } => {
            let of = ContextScope::ALL.into_iter().find(|scope| scope.name() == of);
            let of = of.ok_or_else(|| ApiError::parameter("of", "must be source or instance"))?;
            let sides = (*before.min(&CONTEXT_MAX), *after.min(&CONTEXT_MAX), of);
            if let Some(key) = key {
                let (record, end) = record_of(stores, key)?;
                if end.incomplete.is_none() && record.is_none() {
                    return Err(ApiError::NotFound(format!("{key} does not exist")));
                }
                write_groups(stores, record.into_iter().collect(), sides, out)?;
                out.line(&AskedLine::End(end));
                return Ok(());
            }
            let mut options = options;
            options.filter.limit = Some(options.filter.limit.unwrap_or(MATCHES_MAX));
            let mut matches = Vec::new();
            let report = answer(stores, &query, &options, &|| !out.is_gone(), &mut |item| {
                if let AnswerItem::Record(record) = item {
                    matches.push(record.into_record());
                }
                continue_if(true)
            })?;
            write_groups(stores, matches, sides, out)?;
            let end = AnswerEnd::of(stores, &query, &remarks, &options, &report, doubts_max)?;
            out.line(&AskedLine::End(end));
        }
        QuestionForm::Count { by, every, zone } => {
            let mut grouping = grouping(by)?;
            grouping.clock = clock(Some(zone))?;
            grouping.every = every.map(|(seconds, nanos)| Duration::new(seconds, nanos.min(999_999_999)));
            let (counts, report) = count_answer(stores, &query, &options, grouping, &|| !out.is_gone())?;
            for count in &counts {
                if !out.line(&AskedLine::Count(AskedCount::of(count))) {
                    return Ok(());
                }
            }
            let end = AnswerEnd::of(stores, &query, &remarks, &options, &report, doubts_max)?;
            out.line(&AskedLine::End(end));
        }
        QuestionForm::Follow { first } => {
            let mut follower =
                AnswerFollower::from_now(stores.reader, &query, &options).map_err(|error| match error {
                    FollowError::Store(error) => error.into(),
                    error => ApiError::Refused(format!("{error}: leave the pipe out, or ask once by `daytable query`")),
                })?;
            if let Some(doubts_max) = doubts_max {
                let doubts = doubts(stores, &query, &remarks, &options, doubts_max)?;
                if !doubts.is_empty() {
                    out.line(&AskedLine::Warnings(doubts.iter().map(ToString::to_string).collect()));
                }
            }
            let give = |item: AnswerItem, out: &mut ResponseWriter| continue_if(out.line(&AskedLine::of_item(&item)));
            let mut flow = follower.newest(stores, &query, &options, *first, &mut |item| give(item, out))?;
            if !out.begin() {
                return Ok(());
            }
            while flow.is_continue() && out.is_wanted() {
                std::thread::sleep(FOLLOW_INTERVAL);
                flow = follower.step(stores.reader, &mut |item| give(item, out))?;
            }
            if flow.is_break() {
                out.line(&AskedLine::End(AnswerEnd::default()));
            }
        }
    }
    Ok(())
}

/// The record with these keys, and the end of its answer.
fn record_of(stores: &Stores<'_>, key: &str) -> Result<(Option<StoredRecord>, AnswerEnd), ApiError> {
    let wrong = |reason: String| ApiError::parameter("key", reason);
    let [table, partition, row] = key.split('/').collect::<Vec<_>>()[..] else {
        return Err(wrong("must be three keys with / between them: TABLE/PARTITIONKEY/ROWKEY".into()));
    };
    let table = DayTable::parse(table).map_err(|error| wrong(error.to_string()))?;
    let row = RowKey::parse(row).map_err(|error| wrong(error.to_string()))?;
    let (record, report) = find_record(stores, &table, partition, row)?;
    // A record that was found is the whole answer.
    let end = if record.is_some() { AnswerEnd::default() } else { AnswerEnd::of_archives(&report) };
    let given = record.is_some().into();
    Ok((record, AnswerEnd { given, ..end }))
}

/// Writes records with their neighbours, and a line after each group.
fn write_groups(
    stores: &Stores<'_>,
    matches: Vec<StoredRecord>,
    (before, after, scope): (usize, usize, ContextScope),
    out: &mut ResponseWriter,
) -> ApiResult {
    let (groups, report) = groups_around(stores, matches, before, after, scope)?;
    check_complete(&report)?;
    for group in groups {
        for record in group {
            out.line(&AskedLine::of_item(&AnswerItem::Record(FullRecord::new(record).into())));
        }
        out.line(&AskedLine::GroupEnd);
    }
    Ok(())
}
