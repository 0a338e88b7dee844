//! The queries of [`daytable_query`], from the parameters of a request to the lines of its response.

use super::log_entries::EntryMaker;
use crate::http::{ApiError, ApiResult, CountParams, FilterParams, QueryParams, ResponseWriter};
use daytable_logql::ast::Selector;
use daytable_logql::source::LogEntry;
use daytable_model::record::Level;
use daytable_model::time::{self, Ticks};
use daytable_model::units::parse_duration;
use daytable_query::tables::TableError;
use daytable_query::{ArchiveReport, Filter, Grouping, RecordFollower, Stores, select, when};
use daytable_store::{Reader, StoreError};
use std::ops::ControlFlow;
use std::time::Duration;

/// How often a follower reads new commits.
pub(super) const FOLLOW_INTERVAL: Duration = Duration::from_millis(100);

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        match error {
            StoreError::TableGone(_) => ApiError::NotFound(error.to_string()),
            StoreError::Refused(_) => ApiError::Refused(error.to_string()),
            StoreError::Closed => ApiError::Busy(error.to_string()),
            _ => ApiError::Failed(error.to_string()),
        }
    }
}

impl From<TableError> for ApiError {
    fn from(error: TableError) -> ApiError {
        match error {
            TableError::Store(error) => error.into(),
            TableError::NotThere(_) => ApiError::NotFound(error.to_string()),
            _ => ApiError::Failed(error.to_string()),
        }
    }
}

/// The filter of a request, for at most `limit` records.
pub(crate) fn filter(filters: &FilterParams, limit: Option<u64>) -> Result<Filter, ApiError> {
    let now = time::now();
    let time = |name: &str, text: &Option<String>| -> Result<Option<Ticks>, ApiError> {
        let parsed = text.as_deref().map(str::parse::<when::When>).transpose();
        Ok(parsed.map_err(|e| ApiError::parameter(name, e.to_string()))?.map(|when| when.at(now)))
    };
    let level = |word: &String| Level::from_word(word).ok_or_else(|| ApiError::parameter("level", "no such level"));
    Ok(Filter {
        instance: filters.instance.clone(),
        since: time("since", &filters.since)?,
        until: time("until", &filters.until)?,
        level: filters.level.as_ref().map(level).transpose()?,
        contains: filters.contains.clone(),
        limit,
    })
}

pub(super) fn continue_if(is_wanted: bool) -> ControlFlow<()> {
    if is_wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

pub(super) fn query(stores: &Stores<'_>, params: &QueryParams, out: &mut ResponseWriter) -> ApiResult {
    let filter = filter(&params.filters, Some(params.n as u64))?;
    let mut has_records = false;
    let report = select(stores, &filter, |record| {
        has_records = true;
        continue_if(out.line(&record))
    })?;
    if has_records && report.missing().is_some() {
        // The client gets the records that were found, then the error.
        out.begin();
    }
    check_complete(&report)
}

/// A response that lacks archived days is an error, which names the days.
fn check_complete(report: &ArchiveReport) -> ApiResult {
    report.missing().map_or(Ok(()), |missing| Err(ApiError::Failed(missing)))
}

pub(super) fn count(stores: &Stores<'_>, params: &CountParams, out: &mut ResponseWriter) -> ApiResult {
    let mut grouping = Grouping::default();
    for by in &params.by {
        match by.as_str() {
            "level" => grouping.level = true,
            "instance" => grouping.instance = true,
            _ => return Err(ApiError::parameter("by", "must be level, instance, or both with a comma between")),
        }
    }
    if let Some(every) = &params.every {
        let every = parse_duration(every).map_err(|e| ApiError::parameter("every", e.to_string()))?;
        if every.is_zero() {
            return Err(ApiError::parameter("every", "must be longer than zero"));
        }
        grouping.every = Some(every);
    }
    let (counts, report) = daytable_query::count(stores, &filter(&params.filters, None)?, grouping)?;
    // A count that lacks a day is wrong.
    check_complete(&report)?;
    out.line(&counts);
    Ok(())
}

/// Gives the selected entries as they are committed, and `None` after each look.
pub(super) fn follow_log_entries(
    reader: &Reader,
    selector: &Selector,
    each: &mut dyn FnMut(Option<LogEntry>) -> ControlFlow<()>,
) -> ApiResult {
    let mut follower = RecordFollower::from_now(reader, Filter::default())?;
    let mut maker = EntryMaker::default();
    loop {
        let flow = follower.step(reader, |record| match maker.entry(&record, selector) {
            Some(entry) => each(Some(entry)),
            None => ControlFlow::Continue(()),
        })?;
        if flow.is_break() || each(None).is_break() {
            return Ok(());
        }
        std::thread::sleep(FOLLOW_INTERVAL);
    }
}

pub(super) fn follow(reader: &Reader, filters: &FilterParams, out: &mut ResponseWriter) -> ApiResult {
    let mut follower = RecordFollower::from_now(reader, filter(filters, None)?)?;
    if !out.begin() {
        return Ok(());
    }
    while out.is_wanted() {
        if follower.step(reader, |record| continue_if(out.line(&record)))?.is_break() {
            break;
        }
        std::thread::sleep(FOLLOW_INTERVAL);
    }
    Ok(())
}
