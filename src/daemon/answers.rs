//! The answers of the language over HTTP, and the records around one.

use super::queries::{FOLLOW_INTERVAL, continue_if, filter};
use crate::http::{AnswerParams, ApiError, ApiResult, AroundParams, FilterParams, ResponseWriter};
use daytable_logsql::ParsedQuery;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::time::{self, Ticks};
use daytable_query::answer::{AnswerFollower, AnswerItem, AnswerOptions, FollowError, answer};
use daytable_query::patterns::PatternCounter;
use daytable_query::{Filter, StoredRecord, Stores, find_record, select};
use daytable_store::Reader;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

/// The longest that an answer may take.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// Records whose patterns are counted in one answer: the newest.
const PATTERN_RECORDS_MAX: u64 = 200_000;
/// Patterns of an answer.
const PATTERNS_MAX: usize = 200;
/// How far records after one are looked for: first near it, then further.
const AFTER: [Duration; 4] =
    [Duration::from_secs(2), Duration::from_secs(60), Duration::from_secs(3600), Duration::from_secs(24 * 3600)];

fn parse(q: Option<&str>) -> Result<ParsedQuery, ApiError> {
    ParsedQuery::parse(q.unwrap_or("*")).map_err(|error| ApiError::Query {
        message: error.message().to_owned(),
        from: error.at().start,
        to: error.at().end,
    })
}

fn options(params: &AnswerParams, limit: Option<u64>) -> Result<AnswerOptions, ApiError> {
    let times = FilterParams { since: params.since.clone(), until: params.until.clone(), ..FilterParams::default() };
    let now = time::now();
    let filter = filter(&times, limit)?;
    Ok(AnswerOptions { filter, time_limit: Some(ANSWER_TIME_MAX), ..AnswerOptions::at(now) })
}

/// Gives the items of an answer. An answer that is not whole ends with an error.
fn run(
    stores: &Stores<'_>,
    params: &AnswerParams,
    limit: Option<u64>,
    out: &mut ResponseWriter,
    mut each: impl FnMut(AnswerItem, &mut ResponseWriter) -> bool,
) -> ApiResult {
    let (query, options) = (parse(params.q.as_deref())?, options(params, limit)?);
    let mut is_any = false;
    let out = RefCell::new(out);
    let is_wanted = || out.borrow_mut().is_wanted();
    let report = answer(stores, &query, &options, &is_wanted, &mut |item| {
        is_any = true;
        continue_if(each(item, &mut out.borrow_mut()))
    })?;
    let Some(missing) = report.incomplete() else { return Ok(()) };
    if is_any {
        // The client gets what was found, then the error.
        out.borrow_mut().begin();
    }
    Err(ApiError::Failed(missing))
}

pub(super) fn answer_query(stores: &Stores<'_>, params: &AnswerParams, out: &mut ResponseWriter) -> ApiResult {
    run(stores, params, params.limit.map(|limit| limit as u64), out, |item, out| out.line(&item))
}

pub(super) fn follow(reader: &Reader, q: Option<&str>, out: &mut ResponseWriter) -> ApiResult {
    let follower = AnswerFollower::from_now(reader, &parse(q)?, &AnswerOptions::at(time::now()));
    let mut follower = follower.map_err(|error| match error {
        FollowError::Endless(_) => ApiError::parameter("q", error.to_string()),
        FollowError::Store(error) => error.into(),
    })?;
    if !out.begin() {
        return Ok(());
    }
    while out.is_wanted() {
        if follower.step(reader, &mut |item| continue_if(out.line(&item)))?.is_break() {
            break;
        }
        std::thread::sleep(FOLLOW_INTERVAL);
    }
    Ok(())
}

/// The records of the same source and instance before and after one, oldest first.
pub(super) fn around(stores: &Stores<'_>, params: &AroundParams, out: &mut ResponseWriter) -> ApiResult {
    let wrong = || ApiError::parameter("key", "must be three keys with / between them: TABLE/PARTITIONKEY/ROWKEY");
    let [table, partition, row] = params.key.split('/').collect::<Vec<_>>()[..] else { return Err(wrong()) };
    let (Ok(table), Ok(row)) = (DayTable::parse(table), RowKey::parse(row)) else { return Err(wrong()) };
    let (record, _) = find_record(stores, &table, partition, row)?;
    let record = record.ok_or_else(|| ApiError::NotFound(format!("there is no record {}", params.key)))?;
    let (instance, time, count) = (Some(record.instance()), record.time(), params.count);
    let of_source = |other: &StoredRecord| other.source == record.source;
    let tick_after = |ticks: Ticks, more: i64| Ticks::new(ticks.get().saturating_add(more)).unwrap_or(Ticks::MAX);
    let mut newer = VecDeque::new();
    for after in AFTER {
        newer.clear();
        let until = tick_after(time, i64::try_from(after.as_nanos() / 100).unwrap_or(i64::MAX));
        let filter = Filter { instance: instance.clone(), since: Some(time), until: Some(until), ..Filter::default() };
        select(stores, &filter, |other| {
            if other.row_key < row && of_source(&other) {
                newer.push_back(other);
                if newer.len() > count {
                    newer.pop_front();
                }
            }
            continue_if(count > 0 && out.is_wanted())
        })?;
        if newer.len() >= count {
            break;
        }
    }
    let mut older = Vec::new();
    let until = tick_after(time, 1);
    select(stores, &Filter { instance, until: Some(until), ..Filter::default() }, |other| {
        if other.row_key > row && of_source(&other) && older.len() < count {
            older.push(other);
        }
        if older.len() < count { continue_if(out.is_wanted()) } else { ControlFlow::Break(()) }
    })?;
    out.lines(older.iter().rev().chain([&record]).chain(newer.iter().rev()));
    Ok(())
}

pub(super) fn patterns(stores: &Stores<'_>, params: &AnswerParams, out: &mut ResponseWriter) -> ApiResult {
    let mut counter = PatternCounter::default();
    run(stores, params, Some(PATTERN_RECORDS_MAX), out, |item, out| {
        if let AnswerItem::Record(record) = item {
            counter.add(record.record());
        }
        out.is_wanted()
    })?;
    let (records, others) = (counter.records(), counter.others());
    out.line(&serde_json::json!({
        "records": records,
        "others": others,
        "is_whole": records < PATTERN_RECORDS_MAX,
        "patterns": counter.top(PATTERNS_MAX),
    }));
    Ok(())
}
