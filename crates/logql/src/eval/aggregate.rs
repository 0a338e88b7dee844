//! Functions over series: `sum by (pod) (…)`, `topk(3, …)`.

use super::{Series, TimeSteps};
use crate::ast::{AggregateOp, LabelGrouping};
use crate::labels::Labels;
use std::collections::BTreeMap;

/// The grouping of a function that keeps none of the series it is given, for functions of which ranges know a shortcut.
pub(super) fn merged_grouping(op: AggregateOp, grouping: &Option<LabelGrouping>) -> Option<LabelGrouping> {
    (op == AggregateOp::Sum).then(|| grouping.clone().unwrap_or(LabelGrouping { without: false, labels: Vec::new() }))
}

/// Combines series.
pub(super) fn aggregate(
    op: AggregateOp,
    parameter: f64,
    grouping: Option<&LabelGrouping>,
    series: Vec<Series>,
    steps: TimeSteps,
) -> Vec<Series> {
    if matches!(op, AggregateOp::Sort | AggregateOp::SortDesc) {
        return sorted(op == AggregateOp::SortDesc, series, steps);
    }
    let mut groups: BTreeMap<Labels, Vec<Series>> = BTreeMap::new();
    for one in series {
        let labels = match grouping {
            Some(grouping) => one.labels.filtered(|name| grouping.keeps(name)),
            None => Labels::default(),
        };
        groups.entry(labels).or_default().push(one);
    }
    if op.has_parameter() {
        let keep = parameter.min(1e9) as usize;
        return best(op != AggregateOp::Bottomk, keep, groups, steps);
    }
    groups
        .into_iter()
        .map(|(labels, group)| {
            let mut values: Vec<(u32, f64)> = group.into_iter().flat_map(|series| series.points).collect();
            values.sort_by_key(|(step, _)| *step);
            let of_step = values.chunk_by(|a, b| a.0 == b.0);
            let points = of_step.map(|values| (values[0].0, combined(op, values))).collect();
            Series { labels, points }
        })
        .collect()
}

fn combined(op: AggregateOp, values: &[(u32, f64)]) -> f64 {
    let values = values.iter().map(|(_, value)| *value);
    let count = values.len() as f64;
    let variance = || {
        // Value by value, so that equal values have none.
        let (mut mean, mut squares) = (0.0, 0.0);
        for (number, value) in values.clone().enumerate() {
            let distance = value - mean;
            mean += distance / (number + 1) as f64;
            squares += distance * (value - mean);
        }
        squares / count
    };
    match op {
        AggregateOp::Sum => values.sum(),
        AggregateOp::Avg => values.sum::<f64>() / count,
        // A number counts more than none.
        AggregateOp::Min => values.fold(f64::NAN, f64::min),
        AggregateOp::Max => values.fold(f64::NAN, f64::max),
        AggregateOp::Count => count,
        AggregateOp::Stdvar => variance(),
        AggregateOp::Stddev => variance().sqrt(),
        _ => f64::NAN,
    }
}

/// The greatest or the least values of each group at each step.
fn best(greatest: bool, keep: usize, groups: BTreeMap<Labels, Vec<Series>>, steps: TimeSteps) -> Vec<Series> {
    let mut kept = Vec::new();
    for mut group in groups.into_values() {
        group.sort_by(|a, b| a.labels.cmp(&b.labels));
        let all = group.iter().enumerate();
        let mut values: Vec<(u32, f64, usize)> =
            all.flat_map(|(at, series)| series.points.iter().map(move |(step, value)| (*step, *value, at))).collect();
        values.sort_by(|a, b| {
            let (better, worse) = if greatest { (b, a) } else { (a, b) };
            // What is not a number is never among the best.
            let by_value = a.1.is_nan().cmp(&b.1.is_nan()).then(better.1.total_cmp(&worse.1));
            a.0.cmp(&b.0).then(by_value).then(a.2.cmp(&b.2))
        });
        let mut chosen: Vec<Series> =
            group.into_iter().map(|series| Series { labels: series.labels, points: Vec::new() }).collect();
        for of_step in values.chunk_by(|a, b| a.0 == b.0) {
            for (step, value, at) in of_step.iter().take(keep) {
                chosen[*at].points.push((*step, *value));
            }
        }
        kept.extend(chosen.into_iter().filter(|series| !series.points.is_empty()));
    }
    // An answer about one point in time is sorted by value, as people expect of a list of the best.
    if steps.count() == 1 { sorted(greatest, kept, steps) } else { kept }
}

fn sorted(descending: bool, mut series: Vec<Series>, steps: TimeSteps) -> Vec<Series> {
    let value = |series: &Series| series.points.first().map_or(f64::NAN, |(_, value)| *value);
    if steps.count() == 1 {
        series.sort_by(|a, b| {
            let (first, second) = if descending { (b, a) } else { (a, b) };
            value(first).total_cmp(&value(second)).then_with(|| a.labels.cmp(&b.labels))
        });
    }
    series
}
