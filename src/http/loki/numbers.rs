//! Numbers in the shapes of Prometheus: `vector`, `matrix`, `scalar`; and labels as an object.

use daytable_logql::eval::{Numbers, Series, Steps};
use daytable_logql::labels::Labels;
use daytable_logql::text;
use serde_json::{Map, Value, json};

/// Whether the answer is about one point in time.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shape {
    Instant,
    Range,
}

/// The answer of a query for numbers.
pub(super) fn numbers(numbers: Numbers, steps: Steps, shape: Shape) -> Value {
    let (series, left_out) = match numbers {
        // Loki counts milliseconds here, and seconds elsewhere.
        Numbers::Scalar(number) if shape == Shape::Instant => {
            let result = json!([steps.time(0) / 1_000_000, text::number(number)]);
            return answer("scalar", result, 0);
        }
        Numbers::Scalar(number) => {
            let points = (0..steps.count()).map(|step| (step, number)).collect();
            (vec![Series { labels: Labels::default(), points }], 0)
        }
        Numbers::Series { series, left_out } => (series, left_out),
    };
    let point = |(step, value): &(u32, f64)| json!([seconds(steps.time(*step)), text::number(*value)]);
    let of_series = |series: &Series| {
        let metric = object(&series.labels);
        match shape {
            Shape::Range => json!({ "metric": metric, "values": series.points.iter().map(point).collect::<Vec<_>>() }),
            Shape::Instant => json!({ "metric": metric, "value": series.points.first().map(point) }),
        }
    };
    let kind = if shape == Shape::Range { "matrix" } else { "vector" };
    answer(kind, series.iter().map(of_series).collect(), left_out)
}

fn answer(kind: &str, result: Value, left_out: usize) -> Value {
    let data = json!({ "resultType": kind, "result": result, "stats": {} });
    let mut answer = Map::from_iter([("status".to_owned(), json!("success"))]);
    if left_out > 0 {
        let warning = format!("{left_out} more series are left out: only those with the largest values are shown");
        answer.insert("warnings".into(), json!([warning]));
    }
    answer.insert("data".into(), data);
    answer.into()
}

/// A time in seconds, with milliseconds if the time has some.
pub(super) fn seconds(nanos: i64) -> Value {
    let millis = nanos.div_euclid(1_000_000);
    if millis % 1000 == 0 { json!(millis / 1000) } else { json!(millis as f64 / 1000.0) }
}

/// Labels as an object.
pub(super) fn object(labels: &Labels) -> Value {
    labels.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect::<Map<_, _>>().into()
}
