//! `query` and `query_range`.

use super::numbers::{Shape, numbers, object};
use super::params::LokiParams;
use super::{LokiResult, success};
use crate::http::question::LokiError;
use daytable_logql::ast::LogqlQuery;
use daytable_logql::eval::{Evaluator, Limits, LogRequest, ShownEntry, Steps};
use daytable_logql::labels::Labels;
use daytable_logql::source::{EntrySource, TimeSpan};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Entries of an answer, if the question does not say.
const LIMIT: usize = 100;
/// Entries of an answer at most.
pub(super) const LIMIT_MAX: usize = 50_000;

pub(super) fn evaluator<'s>(source: &'s dyn EntrySource, params: &LokiParams) -> Evaluator<'s> {
    Evaluator { source, limits: Limits::default(), now: params.now }
}

/// `query`: the numbers of one point in time.
pub(super) fn instant(params: &LokiParams, source: &dyn EntrySource) -> LokiResult {
    let LogqlQuery::Metric(metric) = daytable_logql::parse(params.required("query")?)? else {
        return Err(LokiError::wrong(
            "log queries are not supported as an instant query type, please change your query to a range query type",
        ));
    };
    let steps = Steps::at(params.time("time")?.unwrap_or(params.now));
    Ok(numbers(evaluator(source, params).metric(&metric, steps)?, steps, Shape::Instant))
}

/// `query_range`: entries, or the numbers of several points in time.
pub(super) fn range(params: &LokiParams, source: &dyn EntrySource) -> LokiResult {
    let query = daytable_logql::parse(params.required("query")?)?;
    let span = params.span()?;
    let query = match query {
        LogqlQuery::Metric(metric) => {
            let steps = params.steps(span)?;
            return Ok(numbers(evaluator(source, params).metric(&metric, steps)?, steps, Shape::Range));
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
    let entries = evaluator(source, params).logs(&query, request)?;
    let mut data = Map::from_iter([("resultType".to_owned(), json!("streams"))]);
    if params.categorizes {
        data.insert("encodingFlags".into(), json!(["categorize-labels"]));
    }
    data.insert("result".into(), streams(entries, params.categorizes));
    data.insert("stats".into(), json!({}));
    Ok(success(Value::Object(data)))
}

/// Entries by their streams, both in the order of the entries.
pub(super) fn streams(entries: Vec<ShownEntry>, categorizes: bool) -> Value {
    let mut numbers: HashMap<Labels, usize> = HashMap::new();
    let mut streams: Vec<(Value, Vec<Value>)> = Vec::new();
    for entry in entries {
        let labels = if categorizes { entry.stream.clone() } else { entry.labels() };
        let at = *numbers.entry(labels).or_insert_with_key(|labels| {
            streams.push((object(labels), Vec::new()));
            streams.len() - 1
        });
        let time = entry.time.to_string();
        streams[at].1.push(if categorizes {
            let mut labels = Map::new();
            for (name, set) in [("structuredMetadata", &entry.metadata), ("parsed", &entry.parsed)] {
                if !set.is_empty() {
                    labels.insert(name.into(), object(set));
                }
            }
            json!([time, entry.line, labels])
        } else {
            json!([time, entry.line])
        });
    }
    streams.into_iter().map(|(stream, values)| json!({ "stream": stream, "values": values })).collect()
}
