//! Numbers in the shapes of Prometheus: `vector`, `matrix`, `scalar`; and labels as an object.

use super::{Document, LokiResult};
use daytable_logql::eval::{Numbers, Series, TimeSteps};
use daytable_logql::labels::Labels;
use daytable_logql::text;
use daytable_platform::budget::QuestionBudget;
use serde_json::{Map, Value, json};

/// Whether the answer is about one point in time.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shape {
    Instant,
    Range,
}

/// The answer of a query for numbers.
pub(super) fn numbers(numbers: Numbers, steps: TimeSteps, shape: Shape, room: QuestionBudget) -> LokiResult {
    numbers_at(numbers, steps, &|step| steps.time(step), shape, room)
}

/// The same, whose points are shown at other times than those of their steps.
pub(super) fn numbers_at(
    numbers: Numbers,
    steps: TimeSteps,
    time_of: &dyn Fn(u32) -> i64,
    shape: Shape,
    room: QuestionBudget,
) -> LokiResult {
    let (series, left_out) = match numbers {
        // Loki counts milliseconds here, and seconds elsewhere.
        Numbers::Scalar(number) if shape == Shape::Instant => {
            let result = json!([steps.time(0) / 1_000_000, text::number(number)]);
            let data = json!({ "resultType": "scalar", "result": result, "stats": {} });
            return Ok(super::success(data).into());
        }
        Numbers::Scalar(number) => {
            let points = (0..steps.count()).map(|step| (step, number)).collect();
            (vec![Series { labels: Labels::default(), points }], 0)
        }
        Numbers::Series { series, left_out } => (series, left_out),
    };
    let mut answer = Document::within(room);
    answer.push(r#"{"status":"success","#);
    if left_out > 0 {
        let warning = format!("{left_out} more series are left out: only those with the largest values are shown");
        answer.push(&format!(r#""warnings":["{warning}"],"#));
    }
    let kind = if shape == Shape::Range { "matrix" } else { "vector" };
    answer.push(&format!(r#""data":{{"resultType":"{kind}","stats":{{}},"result":"#));
    let point = |(step, value): (u32, f64)| format!(r#"[{},"{}"]"#, seconds(time_of(step)), text::number(value));
    answer.push_array(series, |answer, Series { labels, points }| {
        answer.push(&format!(r#"{{"metric":{},"#, object(&labels)));
        if shape == Shape::Instant {
            answer.push(r#""value":"#);
            answer.push(&points.first().map_or("null".into(), |first| point(*first)));
        } else {
            answer.push(r#""values":"#);
            answer.push_array(points, |answer, of_step| answer.push(&point(of_step)));
        }
        answer.push("}");
    });
    answer.push("}}");
    answer.whole()
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
