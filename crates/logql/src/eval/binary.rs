//! Operators between series, and between series and numbers.
//!
//! Two points belong together if their steps are equal, and the labels that `on` and `ignoring` leave.

use super::{LabelBytes, Series, Worth, merged};
use crate::ast::{Binary, BinaryOp, GroupSide};
use crate::error::EvalError;
use crate::labels::Labels;
use std::collections::{HashMap, HashSet};

/// Applies the operator.
pub(super) fn apply(
    binary: &Binary,
    left: Worth,
    right: Worth,
    labels: &mut LabelBytes,
) -> Result<Vec<Series>, EvalError> {
    match (left, right) {
        (Worth::Series(left), Worth::Series(right)) if binary.op.is_set() => sets(binary, left, right),
        (Worth::Series(left), Worth::Series(right)) => pairs(binary, left, right, labels),
        (Worth::Series(series), Worth::Number(number)) => Ok(with_number(binary, series, number, false)),
        (Worth::Number(number), Worth::Series(series)) => Ok(with_number(binary, series, number, true)),
        (Worth::Number(left), Worth::Number(right)) => {
            // The parser folds numbers.
            Err(EvalError::Refused(format!("{} needs a vector", binary.op.number(left, right))))
        }
    }
}

/// The value of two; `None` if a comparison leaves the point out. `kept` is the value that a comparison keeps.
fn value(binary: &Binary, left: f64, right: f64, kept: f64) -> Option<f64> {
    let result = binary.op.number(left, right);
    match binary.op {
        BinaryOp::Compare(_) if !binary.is_bool => (result != 0.0).then_some(kept),
        _ => Some(result),
    }
}

fn with_number(binary: &Binary, series: Vec<Series>, number: f64, is_left: bool) -> Vec<Series> {
    let point = |(step, of_series): (u32, f64)| {
        let (left, right) = if is_left { (number, of_series) } else { (of_series, number) };
        value(binary, left, right, of_series).map(|value| (step, value))
    };
    let one = |series: Series| Series { points: series.points.into_iter().filter_map(point).collect(), ..series };
    series.into_iter().map(one).filter(|series| !series.points.is_empty()).collect()
}

/// The labels by which series of both sides belong together.
fn signature(binary: &Binary, labels: &Labels) -> Labels {
    match &binary.matching {
        Some(matching) => labels.filtered(|name| matching.keeps(name)),
        None => labels.clone(),
    }
}

fn sets(binary: &Binary, left: Vec<Series>, right: Vec<Series>) -> Result<Vec<Series>, EvalError> {
    let steps_of = |series: &[Series]| {
        let mut steps: HashMap<Labels, HashSet<u32>> = HashMap::new();
        for one in series {
            steps.entry(signature(binary, &one.labels)).or_default().extend(one.points.iter().map(|(step, _)| *step));
        }
        steps
    };
    let filter = |series: &mut Vec<Series>, other: HashMap<Labels, HashSet<u32>>, wanted: bool| {
        for one in series {
            let steps = other.get(&signature(binary, &one.labels));
            one.points.retain(|(step, _)| steps.is_some_and(|steps| steps.contains(step)) == wanted);
        }
    };
    let (mut result, mut right) = (left, right);
    match binary.op {
        BinaryOp::And => filter(&mut result, steps_of(&right), true),
        BinaryOp::Unless => filter(&mut result, steps_of(&right), false),
        _ => {
            filter(&mut right, steps_of(&result), false);
            result.append(&mut right);
        }
    }
    merged(result.into_iter().filter(|series| !series.points.is_empty()).collect())
}

fn pairs(
    binary: &Binary,
    left: Vec<Series>,
    right: Vec<Series>,
    label_bytes: &mut LabelBytes,
) -> Result<Vec<Series>, EvalError> {
    let right_is_many = binary.group.as_ref().is_some_and(|group| group.right);
    let (many, one) = if right_is_many { (right, left) } else { (left, right) };
    let mut ones: HashMap<Labels, HashMap<u32, (f64, usize)>> = HashMap::new();
    for (at, series) in one.iter().enumerate() {
        let signature = signature(binary, &series.labels);
        let points = ones.entry(signature).or_default();
        for (step, value) in &series.points {
            if points.insert(*step, (*value, at)).is_some() {
                return Err(EvalError::Refused(format!(
                    "found duplicate series on the {} side of the operator {}: many-to-many matching not allowed: \
                     matching labels must be unique on one side",
                    if right_is_many { "left" } else { "right" },
                    binary.op.sign(),
                )));
            }
        }
    }
    let (mut result, mut used): (Vec<Series>, HashSet<(Labels, u32)>) = (Vec::new(), HashSet::new());
    for series in many {
        let signature = signature(binary, &series.labels);
        let Some(partners) = ones.get(&signature) else { continue };
        // Labels of the other side may change from one of its series to the next.
        let mut by_partner: HashMap<usize, Vec<(u32, f64)>> = HashMap::new();
        for (step, of_many) in series.points {
            let Some((of_one, partner)) = partners.get(&step).copied() else { continue };
            if binary.group.is_none() && !used.insert((signature.clone(), step)) {
                return Err(EvalError::Refused(
                    "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
                        .into(),
                ));
            }
            let (left, right) = if right_is_many { (of_one, of_many) } else { (of_many, of_one) };
            if let Some(value) = value(binary, left, right, left) {
                by_partner.entry(partner).or_default().push((step, value));
            }
        }
        for (partner, points) in by_partner {
            label_bytes.take(copied_bytes(binary, &series.labels, &one[partner].labels))?;
            let labels = result_labels(binary, &series.labels, &one[partner].labels);
            result.push(Series { labels, points });
        }
    }
    merged(result)
}

/// Bytes of the values that a series of a result copies from the many and from the one.
fn copied_bytes(binary: &Binary, many: &Labels, one: &Labels) -> usize {
    let included = binary.group.iter().flat_map(|group| &group.include);
    let of_one = included.map(|name| one.get(name).unwrap_or_default().len()).sum::<usize>();
    of_one + many.iter().map(|(_, value)| value.len()).sum::<usize>()
}

fn result_labels(binary: &Binary, many: &Labels, one: &Labels) -> Labels {
    match &binary.group {
        None => signature(binary, many),
        Some(GroupSide { include, .. }) => {
            let mut labels = many.clone();
            for name in include {
                labels.set(name, one.get(name).unwrap_or_default());
            }
            labels
        }
    }
}
