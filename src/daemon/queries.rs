//! The queries of [`daytable_query`], from the parameters of a request to the lines of its response.

use super::log_entries::EntryMaker;
use crate::http::{
    ApiError, ApiResult, ContextParams, CountParams, ExportFormat, ExportParams, FilterParams, QueryParams,
    ResponseWriter, Summary, SummaryParams, Visibility,
};
use daytable_logql::ast::Selector;
use daytable_logql::source::LogEntry;
use daytable_logsql::{Expression, FieldName, GroupFilter, GroupTest, ParsedQuery, Pipe, Predicate, Remarks, Test};
use daytable_model::clock::ZoneClock;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::level::{Level, unknown_level};
use daytable_model::time::{self, Ticks};
use daytable_model::units::parse_duration;
use daytable_parse::Zone;
use daytable_platform::budget::{MemoryBudget, OverBudget};
use daytable_platform::scratch::create_unnamed;
use daytable_query::answer::doubts::doubts;
use daytable_query::answer::nothing::explain;
use daytable_query::answer::{
    AnswerFollower, AnswerItem, AnswerOptions, AnswerReport, AnswerRow, FollowError, answer, context, count_answer,
    lost_by_pipes, pushed_down,
};
use daytable_query::export::{RowSpool, SpoolError, write_csv, write_parquet};
use daytable_query::patterns::PatternCounter;
use daytable_query::tables::TableError;
use daytable_query::{ArchiveReport, Count, Filter, Grouping, OwnedValue, RecordFollower, Stores, times_of, when};
use daytable_store::{Reader, StoreError};
use serde::Serialize;
use serde_json::json;
use std::cell::RefCell;
use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

/// The newest records whose patterns one answer counts.
const PATTERN_RECORDS_MAX: u64 = 200_000;
/// The most patterns of an answer.
const PATTERNS_MAX: usize = 200;
/// How often a follower reads new commits.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(50);

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        match error {
            StoreError::TableGone(_) => ApiError::NotFound(error.to_string()),
            StoreError::Refused(_) => ApiError::Refused(error.to_string()),
            StoreError::Closed | StoreError::NoMemory => ApiError::Busy(error.to_string()),
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
        Ok(parsed.map_err(|e| ApiError::parameter(name, e.to_string()))?.map(|when| when.at(now, &when::utc)))
    };
    let level = |word: &String| Level::from_word(word).ok_or_else(|| ApiError::parameter("level", unknown_level(word)));
    Ok(Filter {
        instance: filters.instance.clone(),
        partitions: None,
        days: None,
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

/// The longest time that an answer may take, so that no client occupies the daemon for long. Exports have no limit.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// How long the names of a query are looked for in the records, before the answer begins.
const DOUBTS_TIME_MAX: Duration = Duration::from_millis(500);

/// The query of a request, and the options of its answer. The response says what in the query looks wrong.
fn parsed(
    filters: &FilterParams,
    limit: Option<u64>,
    memory: &MemoryBudget,
    out: &mut ResponseWriter,
) -> Result<(ParsedQuery, AnswerOptions), ApiError> {
    let (query, options, remarks) = parsed_remarked(filters, limit, memory)?;
    remarks.warnings().iter().for_each(|warning| out.warn(warning));
    Ok((query, options))
}

/// As [`parsed`]. The response also names the fields, instances and tables that no record has.
fn parsed_with_names(
    stores: &Stores<'_>,
    filters: &FilterParams,
    limit: Option<u64>,
    memory: &MemoryBudget,
    out: &mut ResponseWriter,
) -> Result<(ParsedQuery, AnswerOptions), ApiError> {
    let (query, options, remarks) = parsed_remarked(filters, limit, memory)?;
    let doubts = doubts(stores, &query, &[remarks], &options, DOUBTS_TIME_MAX)?;
    doubts.iter().for_each(|warning| out.warn(warning));
    Ok((query, options))
}

fn parsed_remarked(
    filters: &FilterParams,
    limit: Option<u64>,
    memory: &MemoryBudget,
) -> Result<(ParsedQuery, AnswerOptions, Remarks), ApiError> {
    let parsed = ParsedQuery::parse_remarked(filters.q.as_deref().unwrap_or_default());
    let (query, remarks) = parsed.map_err(|error| ApiError::Query {
        message: error.message().to_owned(),
        from: error.at().start,
        to: error.at().end,
    })?;
    let filter = filter(filters, limit)?;
    let (time_limit, memory) = (Some(ANSWER_TIME_MAX), memory.clone());
    Ok((query, AnswerOptions { filter, time_limit, memory, ..AnswerOptions::at(time::now()) }, remarks))
}

/// Says why an answer without a record is empty.
fn explain_nothing(
    stores: &Stores<'_>,
    query: &ParsedQuery,
    options: &AnswerOptions,
    report: &AnswerReport,
    out: &mut ResponseWriter,
) -> ApiResult {
    if report.matched == 0 && report.incomplete().is_none() && !out.is_gone() {
        let nothing = explain(stores, query, options)?;
        out.warn_of_all(&nothing.to_string(), nothing.instead.as_deref());
    }
    Ok(())
}

/// Writes the answer, one line per item. Ends when the client disconnects.
fn write_answer(
    stores: &Stores<'_>,
    query: &ParsedQuery,
    options: &AnswerOptions,
    out: &mut ResponseWriter,
) -> Result<AnswerReport, ApiError> {
    let out = RefCell::new(out);
    let is_wanted = || out.borrow_mut().is_wanted();
    Ok(answer(stores, query, options, &is_wanted, &mut |item| continue_if(out.borrow_mut().line(&item)))?)
}

/// How often the rows of a document are there until it is written.
const ROW_COPIES: usize = 3;

/// What a client learns of memory that was refused.
fn over_budget(over: &OverBudget) -> ApiError {
    let reason = format!("the answer is refused: {over}");
    match over {
        OverBudget::TooLarge(_) => ApiError::TooLarge(reason),
        OverBudget::Busy(_) => ApiError::Busy(reason),
    }
}

/// An answer that is not whole is an error.
fn complete(report: &AnswerReport) -> ApiResult {
    if let Some(over) = &report.over {
        return Err(over_budget(over));
    }
    match report.incomplete() {
        None => Ok(()),
        Some(reason) if report.is_out_of_time() => Err(ApiError::OutOfTime(reason)),
        Some(missing) => Err(ApiError::Failed(missing)),
    }
}

/// The rows of an answer, which are few.
fn rows(
    stores: &Stores<'_>,
    query: &ParsedQuery,
    options: &AnswerOptions,
    out: &mut ResponseWriter,
) -> Result<(Vec<AnswerRow>, AnswerReport), ApiError> {
    let (out, mut rows) = (RefCell::new(out), Vec::new());
    // Until they are written, which is before another question has this thread.
    let (kept, mut over) = (options.memory.question_within(options.bytes_max), None);
    let report = answer(stores, query, options, &|| out.borrow_mut().is_wanted(), &mut |item| {
        let row = item.into_row();
        if over.is_none() {
            over = kept.charge(ROW_COPIES * row.bytes(), "rows").err();
        }
        rows.push(row);
        continue_if(over.is_none())
    })?;
    over.map_or(Ok(()), |over| Err(over_budget(&over)))?;
    // A JSON document cannot report a missing day, so the request fails.
    complete(&report)?;
    Ok((rows, report))
}

pub(super) fn query(
    stores: &Stores<'_>,
    params: &QueryParams,
    memory: &MemoryBudget,
    out: &mut ResponseWriter,
) -> ApiResult {
    let (query, options) = parsed_with_names(stores, &params.filters, Some(params.n), memory, out)?;
    write_lines(stores, &query, &options, out)
}

/// The answer as lines, of which an answer that is not whole has an error at its end.
fn write_lines(
    stores: &Stores<'_>,
    query: &ParsedQuery,
    options: &AnswerOptions,
    out: &mut ResponseWriter,
) -> ApiResult {
    let report = write_answer(stores, query, options, out)?;
    explain_nothing(stores, query, options, &report, out)?;
    if report.given > 0 && report.incomplete().is_some() {
        // The client gets the records that were found, then the error.
        out.begin();
    }
    complete(&report)
}

/// Bytes of the temporary file of a table.
const EXPORT_BYTES_MAX: u64 = 4 << 30;

pub(super) fn export(
    stores: &Stores<'_>,
    params: &ExportParams,
    memory: &MemoryBudget,
    out: &mut ResponseWriter,
) -> ApiResult {
    let (query, options) = parsed_with_names(stores, &params.filters, Some(params.n), memory, out)?;
    let options = AnswerOptions { time_limit: None, ..options };
    if params.form == ExportFormat::Ndjson {
        return write_lines(stores, &query, &options, out);
    }
    let failed = |error: SpoolError| match error {
        SpoolError::TooLarge(_) | SpoolError::TooManyColumns => ApiError::Refused(error.to_string()),
        SpoolError::NoMemory(over) => over_budget(&over),
        error => ApiError::Failed(format!("failed to export: {error}")),
    };
    let folder = std::env::temp_dir();
    let mut rows = match params.form {
        ExportFormat::Csv(_) | ExportFormat::Parquet => {
            let file = create_unnamed(&folder).map_err(|error| failed(error.into()))?;
            Some(RowSpool::new(file, EXPORT_BYTES_MAX))
        }
        _ => None,
    };
    let (out, mut pushed) = (RefCell::new(out), Ok(()));
    let report = answer(stores, &query, &options, &|| out.borrow_mut().is_wanted(), &mut |item| {
        let mut out = out.borrow_mut();
        match (&mut rows, item) {
            (Some(rows), item) => {
                pushed = rows.push(&item.into_row());
                continue_if(pushed.is_ok())
            }
            (None, AnswerItem::Record(record)) => continue_if(out.bytes(&record.record().raw()) && out.bytes(b"\n")),
            (None, row) => continue_if(out.line(&row)),
        }
    })?;
    pushed.map_err(failed)?;
    complete(&report)?;
    let Some(mut rows) = rows else { return Ok(()) };
    let body = ResponseBytes(out.into_inner());
    let written = match params.form {
        ExportFormat::Csv(reader) => write_csv(&mut rows, reader, body),
        _ => write_parquet(&mut rows, body, &options.memory.question_within(options.bytes_max)),
    };
    match written {
        // Nobody waits for the rest.
        Err(SpoolError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(failed),
    }
}

/// The bytes of a response.
struct ResponseBytes<'o>(&'o mut ResponseWriter);

impl io::Write for ResponseBytes<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.bytes(bytes) { Ok(bytes.len()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How a group is found again: a value of `column` in `field`, or what the value stands for.
fn group_filter(filter: &GroupFilter) -> serde_json::Value {
    let (test, size) = match filter.test {
        GroupTest::Value => ("value", serde_json::Value::Null),
        GroupTest::Step(size) => ("step", size.into()),
        GroupTest::Network(bits) => ("network", bits.into()),
        GroupTest::Pattern => ("pattern", serde_json::Value::Null),
        GroupTest::Name => ("name", serde_json::Value::Null),
    };
    json!({"column": filter.column, "field": filter.field, "test": test, "size": size})
}

pub(super) fn summary(
    stores: &Stores<'_>,
    params: &SummaryParams,
    memory: &MemoryBudget,
    out: &mut ResponseWriter,
) -> ApiResult {
    let limit = if let Summary::Stats { limit } = params.summary { Some(limit) } else { None };
    let (mut query, options) = match &params.summary {
        Summary::Stats { .. } => parsed_with_names(stores, &params.filters, limit, memory, out)?,
        _ => parsed(&params.filters, limit, memory, out)?,
    };
    let document = match &params.summary {
        Summary::Stats { .. } => {
            if query.pipes.is_empty() {
                return Err(ApiError::parameter("q", "needs a pipe, for example | stats by (level) count() n"));
            }
            let (rows, report) = rows(stores, &query, &options, out)?;
            explain_nothing(stores, &query, &options, &report, out)?;
            let columns: Vec<&str> =
                rows.first().map(|row| row.columns().iter().map(|(name, _)| &**name).collect()).unwrap_or_default();
            let (source, filters) = query.group_filters().unzip();
            let filters: Vec<_> = filters.iter().flatten().map(group_filter).collect();
            json!({
                "columns": columns,
                "groups": query.group_columns(),
                "source": source.as_ref().map(ToString::to_string),
                "filters": filters,
                "step_seconds": query.time_step().map(|step| step.as_secs_f64()),
                "rows": rows,
                "matched": report.matched,
            })
        }
        Summary::Hits { step, by, zone } => {
            let grouping = Grouping { clock: clock(zone.as_deref())?, ..grouping(by)? };
            return hits(stores, &query, &options, step.as_deref(), grouping, out);
        }
        Summary::Facets { limit } => {
            query.pipes.push(Pipe::Facets {
                limit: FACET_VALUES_MAX,
                values_max: FACET_VALUES_MAX,
                length_max: 256,
                keep_constant: true,
            });
            let (rows, _) = rows(stores, &query, &options, out)?;
            facets(&rows, usize::try_from(*limit).unwrap_or(usize::MAX))
        }
        Summary::Fields => {
            query.pipes.push(Pipe::FieldNames { name: "name".into() });
            let (rows, _) = rows(stores, &query, &options, out)?;
            let field = |row: &AnswerRow| json!({ "name": row.get("name"), "records": row.get("hits") });
            rows.iter().map(field).collect()
        }
        Summary::Values { field, limit } => {
            let field = FieldName::new(field);
            let present = Expression::Field(field.clone(), Test::Present);
            query.pipes.push(Pipe::Filter(present));
            query.pipes.push(Pipe::Top { limit: *limit, by: vec![field], hits: "records".into(), rank: None });
            let (rows, _) = rows(stores, &query, &options, out)?;
            // By their places: the field may have the name of the other column.
            let cell = |row: &AnswerRow, at: usize| row.columns().get(at).map(|(_, value)| json!(value));
            let value = |row: &AnswerRow| json!({ "value": cell(row, 0), "records": cell(row, 1) });
            rows.iter().map(value).collect()
        }
    };
    out.line(&document);
    Ok(())
}

/// Fields with more values than this are in no summary.
const FACET_VALUES_MAX: u64 = 1000;

/// The rows of `facets` by field, each with at most `limit` values.
fn facets(rows: &[AnswerRow], limit: usize) -> serde_json::Value {
    let text = |row: &AnswerRow| row.get("field_name").map(ToString::to_string).unwrap_or_default();
    let hits = |row: &AnswerRow| match row.get("hits") {
        Some(OwnedValue::Int64(hits)) => *hits,
        _ => 0,
    };
    let facet = |rows: &[AnswerRow]| {
        let value = |row: &AnswerRow| json!({ "value": row.get("field_value"), "n": hits(row) });
        let values: Vec<_> = rows.iter().take(limit).map(value).collect();
        json!({
            "field": rows.first().map(text),
            "records": rows.iter().map(hits).sum::<i64>(),
            "distinct": rows.len(),
            "values": values,
        })
    };
    rows.chunk_by(|one, other| text(one) == text(other)).map(facet).collect()
}

/// The most steps of a histogram if the client specifies no step.
const HITS_STEPS: u64 = 100;

/// The answer of `/api/hits`.
#[derive(Serialize)]
struct Hits<'c> {
    step_seconds: f64,
    from: Option<String>,
    to: Option<String>,
    records: u64,
    hits: &'c [Count],
}

fn hits(
    stores: &Stores<'_>,
    query: &ParsedQuery,
    options: &AnswerOptions,
    step: Option<&str>,
    grouping: Grouping,
    out: &mut ResponseWriter,
) -> ApiResult {
    let times = times_of(stores)?;
    let pushed = pushed_down(&Predicate::new(&query.filter, options.now), &options.filter);
    let from = pushed.since.or_else(|| times.map(|(oldest, _)| oldest));
    let to = pushed.until.or_else(|| times.map(|(_, newest)| newest));
    let every = match step {
        Some(step) => parse_duration(step).map_err(|error| ApiError::parameter("step", error.to_string()))?,
        None => {
            let range = to.unwrap_or(options.now).since(from.unwrap_or(options.now)).as_secs();
            const STEPS: [u64; 13] = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 86_400, 7 * 86_400];
            let step = STEPS.into_iter().find(|step| range / step < HITS_STEPS).unwrap_or(31 * 86_400);
            Duration::from_secs(step)
        }
    };
    if every.is_zero() {
        return Err(ApiError::parameter("step", "must be longer than zero"));
    }
    let grouping = Grouping { every: Some(every), ..grouping };
    check_grouping(query, grouping)?;
    let (counts, report) = count_answer(stores, query, options, grouping, &|| !out.is_gone())?;
    complete(&report)?;
    // Written as it is: as a value of JSON each group would take ten times as much memory.
    out.line(&Hits {
        step_seconds: every.as_secs_f64(),
        from: from.map(|time| time.to_string()),
        to: to.map(|time| time.to_string()),
        records: report.matched,
        hits: &counts,
    });
    Ok(())
}

/// Refuses a query whose pipes leave nothing to count by.
fn check_grouping(query: &ParsedQuery, grouping: Grouping) -> ApiResult {
    match lost_by_pipes(query, grouping) {
        Some(lost) => Err(ApiError::parameter("q", format!("{lost}: leave the pipe out, or ask /api/stats"))),
        None => Ok(()),
    }
}

pub(super) fn context(stores: &Stores<'_>, params: &ContextParams, out: &mut ResponseWriter) -> ApiResult {
    let wrong = |reason: String| ApiError::parameter("key", reason);
    let [table, partition, row] = params.key.split('/').collect::<Vec<_>>()[..] else {
        return Err(wrong("must be three keys with / between them: TABLE/PARTITIONKEY/ROWKEY".into()));
    };
    let table = DayTable::parse(table).map_err(|error| wrong(error.to_string()))?;
    let row = RowKey::parse(row).map_err(|error| wrong(error.to_string()))?;
    let (found, report) = context::context(stores, &table, partition, row, params.before, params.after, params.of)?;
    let Some(found) = found else {
        check_complete(&report)?;
        return Err(ApiError::NotFound(format!("{} does not exist", params.key)));
    };
    let mut records = found.before.iter().chain([&found.record]).chain(&found.after);
    if params.is_raw {
        let _ = records.all(|record| out.bytes(&record.raw()) && out.bytes(b"\n"));
    } else {
        out.lines(records);
    }
    check_complete(&report)
}

/// A response that lacks archived days is an error, which names the days.
pub(super) fn check_complete(report: &ArchiveReport) -> ApiResult {
    report.missing().map_or(Ok(()), |missing| Err(ApiError::Failed(missing)))
}

/// The clocks of a zone; without one those of UTC.
pub(super) fn clock(zone: Option<&str>) -> Result<ZoneClock, ApiError> {
    let zone = zone.map(str::parse::<Zone>).transpose();
    Ok(zone.map_err(|error| ApiError::parameter("zone", error.to_string()))?.unwrap_or(Zone::Utc).clock())
}

pub(super) fn grouping(by: &[String]) -> Result<Grouping, ApiError> {
    let mut grouping = Grouping::default();
    for by in by {
        match by.as_str() {
            "level" => grouping.level = true,
            "instance" => grouping.instance = true,
            _ => return Err(ApiError::parameter("by", "must be level, instance, or both with a comma between")),
        }
    }
    Ok(grouping)
}

pub(super) fn count(
    stores: &Stores<'_>,
    params: &CountParams,
    memory: &MemoryBudget,
    out: &mut ResponseWriter,
) -> ApiResult {
    let mut grouping = Grouping { clock: clock(params.zone.as_deref())?, ..grouping(&params.by)? };
    if let Some(every) = &params.every {
        let every = parse_duration(every).map_err(|e| ApiError::parameter("every", e.to_string()))?;
        if every.is_zero() {
            return Err(ApiError::parameter("every", "must be longer than zero"));
        }
        grouping.every = Some(every);
    }
    let (query, options) = parsed_with_names(stores, &params.filters, None, memory, out)?;
    check_grouping(&query, grouping)?;
    let (counts, report) = count_answer(stores, &query, &options, grouping, &|| !out.is_gone())?;
    // A count that lacks a day is wrong.
    complete(&report)?;
    explain_nothing(stores, &query, &options, &report, out)?;
    out.line(&counts);
    Ok(())
}

/// Passes the selected entries as they are committed, and `None` after each read.
pub(super) fn follow_log_entries(
    reader: &Reader,
    selector: &Selector,
    seen: Visibility,
    each: &mut dyn FnMut(Option<LogEntry>) -> ControlFlow<()>,
) -> ApiResult {
    let mut follower = RecordFollower::from_now(reader, Filter::default())?;
    let mut maker = EntryMaker::new(seen);
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

pub(super) fn follow(
    reader: &Reader,
    filters: &FilterParams,
    memory: &MemoryBudget,
    out: &mut ResponseWriter,
) -> ApiResult {
    let (query, options) = parsed(filters, None, memory, out)?;
    let mut follower = AnswerFollower::from_now(reader, &query, &options).map_err(|error| match error {
        FollowError::Store(error) => error.into(),
        error => ApiError::parameter("q", error.to_string()),
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

pub(super) fn patterns(
    stores: &Stores<'_>,
    params: &FilterParams,
    memory: &MemoryBudget,
    out: &mut ResponseWriter,
) -> ApiResult {
    let (query, options) = parsed(params, Some(PATTERN_RECORDS_MAX), memory, out)?;
    if let Some(pipe) = query.pipes.iter().find(|pipe| pipe.effect().makes_rows()) {
        let what = format!("behind `| {pipe}` there are rows, and patterns are those of records: leave the pipe out");
        return Err(ApiError::parameter("q", what));
    }
    let mut counter = PatternCounter::default();
    let report = answer(stores, &query, &options, &|| true, &mut |item| {
        if let AnswerItem::Record(record) = item {
            counter.add(record.record());
        }
        continue_if(out.is_wanted())
    })?;
    complete(&report)?;
    let records = counter.records();
    let (patterns, others) = counter.top(PATTERNS_MAX);
    out.line(&json!({
        "records": records,
        "others": others,
        "is_whole": records < PATTERN_RECORDS_MAX,
        "patterns": patterns,
    }));
    Ok(())
}
