//! Entries and bytes: `index/stats`, `index/volume`, `index/volume_range`.
//!
//! Entries are counted by headers and columns. The bytes of many entries are those of the newest ones, in proportion.

use super::LokiResult;
use super::numbers::{Shape, numbers_at};
use super::params::LokiParams;
use crate::http::question::LokiError;
use daytable_logql::ast::Selector;
use daytable_logql::eval::{EntrySource, Numbers, Series, TimeSteps};
use daytable_logql::labels::Labels;
use daytable_logql::source::{CountedApart, Direction, LogEntry, TimeSpan};
use serde_json::json;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

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

/// Counts all entries of a stream together.
pub(super) const OF_STREAM: CountedApart<'static> = CountedApart { labels: None, steps: None };
/// Entries whose bytes are added up. The bytes of more entries are estimated by this many of the newest.
const LINES_READ: u64 = 10_000;

/// `index/stats`.
pub(super) fn stats(params: &LokiParams, source: &dyn EntrySource) -> LokiResult {
    let (selector, span) = (selector(params)?, params.span()?);
    let (mut streams, mut lines, mut bytes) = (HashSet::new(), 0u64, 0u64);
    each_newest(source, &selector, span, |entry| {
        (lines, bytes) = (lines + 1, bytes + entry.line.len() as u64);
        streams.insert(entry.stream);
    })?;
    let mut entries = lines;
    if lines == LINES_READ {
        entries = 0;
        let mut each = |stream: &Arc<Labels>, _, count| {
            entries += count;
            streams.insert(stream.clone());
            ControlFlow::Continue(())
        };
        source.count(&selector.within(span), OF_STREAM, &params.budget(), &mut each)?;
        bytes = (bytes as f64 / lines as f64 * entries as f64).round() as u64;
    }
    // There are no chunks here; a stream without a chunk would look empty.
    Ok(json!({ "streams": streams.len(), "chunks": streams.len(), "bytes": bytes, "entries": entries }).into())
}

/// Passes the newest entries on, as many as are read.
fn each_newest(
    source: &dyn EntrySource,
    selector: &Selector,
    span: TimeSpan,
    mut each: impl FnMut(LogEntry),
) -> Result<(), LokiError> {
    let mut left = LINES_READ;
    let mut one = |entry| {
        each(entry);
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    source.scan(&selector.within(span), Direction::Backward, &mut one).map_err(LokiError::from)
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
    let steps = if shape == Shape::Range { params.steps(span)? } else { TimeSteps::at(span.to) };
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
    let width = (steps.time(1) - steps.time(0)).max(1);
    let mut volumes = Volumes { names: HashMap::new(), volumes: BTreeMap::new() };
    let names_of = |stream: &Labels| -> Arc<[Labels]> {
        // As in Loki, a stream counts if it has all labels that are asked for.
        if has_targets && targets.iter().any(|target| stream.get(target).is_none()) {
            return Arc::from([]);
        }
        if !by_name {
            return Arc::from([stream.filtered(|name| targets.is_empty() || targets.contains(&name))]);
        }
        let name = |name: &str| Labels::new(vec![(name.to_owned(), String::new())]);
        let wanted = |name: &str| !has_targets || targets.contains(&name);
        stream.iter().filter(|(label, _)| wanted(label)).map(|(label, _)| name(label)).collect()
    };
    let step_of = |time: i64| match shape {
        Shape::Instant => 0,
        Shape::Range => {
            let step = (time - steps.time(0)).max(0).div_euclid(width);
            u32::try_from(step).unwrap_or(0).min(steps.count() - 1)
        }
    };
    let mut lines = 0;
    each_newest(source, &selector, span, |entry| {
        lines += 1;
        let bytes = entry.line.len() as f64;
        volumes.of(&entry.stream, names_of, |_, volume| volume.add(step_of(entry.time), 1.0, bytes));
    })?;
    if lines == LINES_READ {
        let read = std::mem::take(&mut volumes.volumes);
        let mean = |volumes: &mut dyn Iterator<Item = &Volume>| {
            let (lines, bytes) = volumes.fold((0.0, 0.0), |sum, of| (sum.0 + of.lines, sum.1 + of.bytes()));
            bytes / f64::max(lines, 1.0)
        };
        let mean_of_all = mean(&mut read.values());
        let labels: Vec<String> = targets.iter().map(|name| (*name).to_owned()).collect();
        let apart = CountedApart {
            labels: (!by_name && !targets.is_empty()).then_some(&*labels),
            // A step begins with its first nanosecond here.
            steps: (shape == Shape::Range).then(|| (steps.time(0) - 1, width)),
        };
        let mut each = |stream: &Arc<Labels>, time: i64, count: u64| {
            let count = count as f64;
            volumes.of(stream, names_of, |name, volume| {
                let mean = read.get(name).map_or(mean_of_all, |volume| mean(&mut std::iter::once(volume)));
                volume.add(step_of(time), count, (count * mean).round());
            });
            ControlFlow::Continue(())
        };
        source.count(&selector.within(span), apart, &params.budget(), &mut each)?;
    }
    let series = volumes.volumes.into_iter();
    let mut series: Vec<Series> =
        series.map(|(labels, volume)| Series { labels, points: volume.steps.into_iter().collect() }).collect();
    let total = |series: &Series| series.points.iter().map(|(_, bytes)| bytes).sum::<f64>();
    series.sort_by(|a, b| total(b).total_cmp(&total(a)).then_with(|| a.labels.cmp(&b.labels)));
    series.truncate(limit);
    // A volume stands at the end of its step: at its last millisecond, or at that of the span.
    let shown_at = |step: u32| match shape {
        Shape::Instant => steps.time(step),
        Shape::Range => (steps.time(step) + width - 1_000_000).min(span.to),
    };
    numbers_at(Numbers::Series { series, left_out: 0 }, steps, &shown_at, shape, params.budget())
}

/// Bytes by the labels and steps of an answer.
struct Volumes {
    /// The labels that streams have in the answer.
    names: HashMap<Labels, Arc<[Labels]>>,
    volumes: BTreeMap<Labels, Volume>,
}

#[derive(Default)]
struct Volume {
    lines: f64,
    steps: BTreeMap<u32, f64>,
}

impl Volumes {
    /// Passes each volume of a stream on.
    fn of(
        &mut self,
        stream: &Labels,
        names_of: impl Fn(&Labels) -> Arc<[Labels]>,
        mut each: impl FnMut(&Labels, &mut Volume),
    ) {
        let names = match self.names.get(stream) {
            Some(names) => names.clone(),
            None => self.names.entry(stream.clone()).or_insert_with_key(names_of).clone(),
        };
        for name in &*names {
            match self.volumes.get_mut(name) {
                Some(volume) => each(name, volume),
                None => each(name, self.volumes.entry(name.clone()).or_default()),
            }
        }
    }
}

impl Volume {
    fn add(&mut self, step: u32, lines: f64, bytes: f64) {
        self.lines += lines;
        *self.steps.entry(step).or_default() += bytes;
    }

    fn bytes(&self) -> f64 {
        self.steps.values().sum()
    }
}
