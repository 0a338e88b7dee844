//! Entries and bytes: `index/stats`, `index/volume`, `index/volume_range`.

use super::LokiResult;
use super::numbers::{Shape, numbers};
use super::params::LokiParams;
use crate::http::question::LokiError;
use daytable_logql::ast::Selector;
use daytable_logql::eval::{Numbers, Series, Steps};
use daytable_logql::labels::Labels;
use daytable_logql::source::{Direction, EntrySource};
use serde_json::json;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;

/// Volumes of an answer, if the question does not say.
const VOLUMES: usize = 100;
const VOLUMES_MAX: usize = 50_000;

/// The selector of the parameter `query`, if it has one: the pipeline of a whole query is ignored.
pub(super) fn selector(params: &LokiParams) -> Result<Selector, LokiError> {
    let Some(text) = params.get("query") else { return Ok(Selector(Vec::new())) };
    match daytable_logql::parse(text) {
        Ok(daytable_logql::ast::LogqlQuery::Log(query)) => Ok(query.selector),
        _ => Ok(daytable_logql::parse_selector(text)?),
    }
}

/// `index/stats`.
pub(super) fn stats(params: &LokiParams, source: &dyn EntrySource) -> LokiResult {
    let (mut streams, mut entries, mut bytes) = (HashSet::new(), 0u64, 0u64);
    source
        .scan(&selector(params)?, params.span()?, Direction::Backward, &mut |entry| {
            entries += 1;
            bytes += entry.line.len() as u64;
            if !streams.contains(&entry.stream) {
                streams.insert(entry.stream);
            }
            ControlFlow::Continue(())
        })
        .map_err(LokiError::failed)?;
    // There are no chunks here; a stream without a chunk would look empty.
    Ok(json!({ "streams": streams.len(), "chunks": streams.len(), "bytes": bytes, "entries": entries }))
}

/// `index/volume`: bytes by labels over the span.
pub(super) fn instant(params: &LokiParams, source: &dyn EntrySource) -> LokiResult {
    volume(params, source, Shape::Instant)
}

/// `index/volume_range`: bytes by labels and step.
pub(super) fn range(params: &LokiParams, source: &dyn EntrySource) -> LokiResult {
    volume(params, source, Shape::Range)
}

fn volume(params: &LokiParams, source: &dyn EntrySource, shape: Shape) -> LokiResult {
    let (selector, span) = (selector(params)?, params.span()?);
    let limit = params.count("limit", VOLUMES, VOLUMES_MAX)?;
    let steps = if shape == Shape::Range { params.steps(span)? } else { Steps::at(span.to) };
    if steps.count() > 11_000 {
        return Err(LokiError::wrong(
            "exceeded maximum resolution of 11,000 points per time series: increase the step",
        ));
    }
    let targets: Vec<&str> = match params.get("targetLabels") {
        Some(labels) => labels.split(',').map(str::trim).collect(),
        None => selector.0.iter().map(|matcher| matcher.name.as_str()).collect(),
    };
    let by_name = params.get("aggregateBy") == Some("labels");
    let has_targets = params.get("targetLabels").is_some();
    // Whatever a stream is called in the answer is found once a stream.
    let mut names: HashMap<Labels, Vec<Labels>> = HashMap::new();
    let mut volumes: BTreeMap<Labels, BTreeMap<u32, f64>> = BTreeMap::new();
    source
        .scan(&selector, span, Direction::Backward, &mut |entry| {
            let names = match names.get(&*entry.stream) {
                Some(names) => names,
                None => {
                    let of_stream = if by_name {
                        let name = |name: &str| Labels::new(vec![(name.to_owned(), String::new())]);
                        let wanted = |name: &str| !has_targets || targets.contains(&name);
                        entry.stream.iter().filter(|(label, _)| wanted(label)).map(|(label, _)| name(label)).collect()
                    } else {
                        vec![entry.stream.filtered(|name| targets.is_empty() || targets.contains(&name))]
                    };
                    names.entry((*entry.stream).clone()).or_insert(of_stream)
                }
            };
            let since = entry.time - steps.time(0);
            let step = match shape {
                Shape::Instant => 0,
                Shape::Range => {
                    let width = (steps.time(1) - steps.time(0)).max(1);
                    u32::try_from(since.max(0).div_euclid(width)).unwrap_or(0).min(steps.count() - 1)
                }
            };
            for name in names {
                let bytes = entry.line.len() as f64;
                match volumes.get_mut(name) {
                    Some(steps) => *steps.entry(step).or_default() += bytes,
                    None => drop(volumes.insert(name.clone(), BTreeMap::from([(step, bytes)]))),
                }
            }
            ControlFlow::Continue(())
        })
        .map_err(LokiError::failed)?;
    let mut series: Vec<Series> =
        volumes.into_iter().map(|(labels, points)| Series { labels, points: points.into_iter().collect() }).collect();
    let total = |series: &Series| series.points.iter().map(|(_, bytes)| bytes).sum::<f64>();
    series.sort_by(|a, b| total(b).total_cmp(&total(a)).then_with(|| a.labels.cmp(&b.labels)));
    series.truncate(limit);
    Ok(numbers(Numbers::Series { series, left_out: 0 }, steps, shape))
}
