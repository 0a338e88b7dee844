//! `query` and `query_range`.

use super::numbers::{Shape, numbers, object};
use super::params::LokiParams;
use super::{Document, LokiResult};
use crate::http::question::LokiError;
use daytable_logql::ast::{LogqlQuery, MetricQuery};
use daytable_logql::eval::{EntrySource, Evaluator, Limits, LogRequest, ShownEntry, TimeSteps};
use daytable_logql::labels::Labels;
use daytable_logql::source::TimeSpan;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Entries of an answer, if the question does not say.
const LIMIT: usize = 100;
/// Entries of an answer at most.
pub(super) const LIMIT_MAX: usize = 50_000;

pub(super) fn evaluator<'s>(source: &'s dyn EntrySource, params: &LokiParams) -> Evaluator<'s> {
    Evaluator { source, limits: Limits::default(), budget: params.budget(), now: params.now }
}

/// `query`: the numbers of one point in time.
pub(super) fn instant(params: &LokiParams, source: &dyn EntrySource) -> LokiResult {
    let LogqlQuery::Metric(metric) = daytable_logql::parse(params.required("query")?)? else {
        return Err(LokiError::wrong(
            "log queries are not supported as an instant query type, please change your query to a range query type",
        ));
    };
    let steps = TimeSteps::at(params.time("time")?.unwrap_or(params.now));
    written_numbers(params, source, &metric, steps, Shape::Instant)
}

/// `query_range`: entries, or the numbers of several points in time.
pub(super) fn range(params: &LokiParams, source: &dyn EntrySource) -> LokiResult {
    let query = daytable_logql::parse(params.required("query")?)?;
    let span = params.span()?;
    let query = match query {
        LogqlQuery::Metric(metric) => {
            let steps = params.steps(span)?;
            return written_numbers(params, source, &metric, steps, Shape::Range);
        }
        LogqlQuery::Log(query) => query,
    };
    let request = LogRequest {
        // The end is not part of the span.
        span: TimeSpan { to: span.to - 1, ..span },
        direction: params.direction()?,
        limit: params.count("limit", LIMIT, LIMIT_MAX)?,
        interval: params.duration("interval")?.unwrap_or(0),
    };
    let evaluator = evaluator(source, params);
    let entries = evaluator.logs(&query, request)?;
    let mut answer = Document::within(params.budget());
    let flags = if params.categorizes { r#""encodingFlags":["categorize-labels"],"# } else { "" };
    answer.push(&format!(r#"{{"status":"success","data":{{"resultType":"streams",{flags}"stats":{{}},"result":"#));
    write_streams(entries, params.categorizes, &mut answer, &|bytes| evaluator.budget.release(bytes));
    answer.push("}}");
    answer.whole()
}

fn written_numbers(
    params: &LokiParams,
    source: &dyn EntrySource,
    metric: &MetricQuery,
    steps: TimeSteps,
    shape: Shape,
) -> LokiResult {
    // It has the memory of the numbers until they are written.
    let evaluator = evaluator(source, params);
    numbers(evaluator.metric(metric, steps)?, steps, shape, params.budget())
}

/// Writes entries by their streams, both in the order of the entries. `freed` learns the bytes of each that is written.
pub(super) fn write_streams(entries: Vec<ShownEntry>, categorizes: bool, to: &mut Document, freed: &dyn Fn(usize)) {
    let mut numbers: HashMap<Labels, usize> = HashMap::new();
    let mut streams: Vec<Vec<ShownEntry>> = Vec::new();
    for mut entry in entries {
        let labels = if categorizes { std::mem::take(&mut entry.stream) } else { entry.take_labels() };
        let at = *numbers.entry(labels).or_insert_with(|| {
            streams.push(Vec::new());
            streams.len() - 1
        });
        streams[at].push(entry);
    }
    let mut labels: Vec<(Labels, usize)> = numbers.into_iter().collect();
    labels.sort_unstable_by_key(|(_, at)| *at);
    to.push_array(labels.into_iter().zip(streams), |to, ((labels, _), entries)| {
        let stream = object(&labels);
        to.push(&format!(r#"{{"stream":{stream},"values":"#));
        to.push_array(entries, |to, entry| {
            let bytes = entry.bytes();
            to.push(&format!(r#"["{}",{}"#, entry.time, Value::String(entry.line)));
            if categorizes {
                let sets = [("structuredMetadata", &entry.metadata), ("parsed", &entry.parsed)];
                let sets = sets.into_iter().filter(|(_, set)| !set.is_empty());
                let labels: Map<String, Value> = sets.map(|(name, set)| (name.to_owned(), object(set))).collect();
                to.push(&format!(",{}", Value::Object(labels)));
            }
            to.push("]");
            freed(bytes);
        });
        to.push("}");
    });
}
