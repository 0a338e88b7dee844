//! Pipes on rows: odd values, missing columns, and rows in any order.

use super::accumulator::Accumulator;
use super::pipes::{AnswerBudget, Pipeline, PipelineContext};
use super::{ANSWER_BYTES_MAX, AnswerItem, AnswerRow};
use crate::entity::OwnedValue;
use daytable_logsql::query::{Aggregate, Function};
use daytable_logsql::{FieldName, ParsedQuery};
use daytable_model::key::RowKey;
use daytable_model::time::Ticks;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Rows as `name=value` with white space between.
fn rows(text: &str) -> Vec<AnswerRow> {
    let row = |line: &str| {
        let mut row = AnswerRow::default();
        for pair in line.split_whitespace() {
            let (name, value) = pair.split_once('=').expect("a pair");
            row.set(&FieldName::new(name), Some(OwnedValue::String(value.into())));
        }
        row
    };
    text.split(';').map(row).collect()
}

/// The rows that pipes give, in one line each, without columns that have no value.
fn piped(pipes: &str, input: &str) -> String {
    let query = ParsedQuery::parse(&format!("* | {pipes}")).expect("a query");
    let budget = AnswerBudget::new(ANSWER_BYTES_MAX);
    let mut pipeline = Pipeline::new(&query.pipes, &PipelineContext { now: Ticks::MAX, seconds: None, budget });
    let mut lines = Vec::new();
    let mut sink = |item: AnswerItem| {
        let row = item.into_row();
        let shown = row.columns().iter().filter_map(|(name, value)| {
            let text = value.as_ref()?.as_property().text().into_owned();
            (!text.is_empty()).then(|| format!("{name}={text}"))
        });
        lines.push(shown.collect::<Vec<_>>().join(" "));
        ControlFlow::Continue(())
    };
    for row in rows(input) {
        if pipeline.push(AnswerItem::Row(row), &mut sink).is_break() {
            break;
        }
    }
    let _ = pipeline.finish(&mut sink);
    lines.join("; ")
}

#[test]
fn pipes_take_odd_values() {
    for (pipes, input, wanted) in [
        // A whole number is shown as one.
        ("stats avg(a) m, rate_sum(a) r", "a=1;a=3", "m=2 r=4"),
        // What is not there does not count.
        ("stats min(a) lo, median(a) m, count(a) n", "a=5;b=1;a=7", "lo=5 m=7 n=2"),
        ("stats by (a) row_max(b) x", "a=1", "a=1 x={}"),
        ("stats by (t:1d) count() n", "t=2026-11-21T08:30:00Z;t=2026-11-21T09:00:00Z", "t=2026-11-21T00:00:00Z n=2"),
        ("stats by (t:week) count() n", "t=2026-11-21;t=none", "t=2026-11-16T00:00:00Z n=1; t=none n=1"),
        ("stats count() if () n", "a=1;a=2", "n=2"),
        ("rename a b", "a=1 b=2;b=3 c=4", "b=1; c=4"),
        ("math round(a, 0.01) x", "a=0.691;a=x", "a=0.691 x=0.69; a=x x=NaN"),
        ("math (a - b) * 2 - (b - 1)", "a=5 b=2", "a=5 b=2 (a - b) * 2 - (b - 1)=5"),
        ("math a / b default 7", "a=1 b=0;a=0 b=0", "a=1 b=0 a / b default 7=Infinity; a=0 b=0 a / b default 7=7"),
        ("format '<duration_seconds:d>s <urlencode:u>' as x | fields x", "d=1m5s u=a/b", "x=65s a%2Fb"),
        ("format '<urldecode:u> <urldecode:v>' as x | fields x", "u=a%2Fb+c%e4 v=%4", "x=a/b c\u{fffd} %4"),
        ("format '<hexencode:u> <hexdecode:v>' as x | fields x", "u=db-1 v=64622d31zz6", "x=64622D31 db-1zz6"),
        ("format '<hexnumencode:u> <hexnumdecode:v>' as x | fields x", "u=4095 v=fff", "x=0000000000000FFF 4095"),
        (
            "format '<hexnumencode:u> <hexnumdecode:v>' as x | fields x",
            "u=a v=12345678901234567",
            "x=a 12345678901234567",
        ),
        (
            "format '<base64encode:u> <base64decode:v> <base64decode:u>' as x | fields x",
            "u=db-1 v=ZGItMQ==",
            "x=ZGItMQ== db-1 db-1",
        ),
        ("math a & 6 as x, a or 8 as y, a xor 1 + 1 as z | fields x, y, z", "a=7", "x=6 y=15 z=5"),
        ("math b & 1 as x | fields x", "b=text", "x=NaN"),
        (
            "format '<time:t>' as x | fields x",
            "t=1700000000;t=1700000000123",
            "x=2023-11-14T22:13:20Z; x=2023-11-14T22:13:20.123Z",
        ),
        ("extract '[< plain : x >]' from a | fields x", "a=[\"q\"]", "x=\"q\""),
        ("field_names y", "a=1;a=2 b=3", "y=a hits=2; y=b hits=1"),
        ("field_values (a) limit 1K", "a=1;a=2", "a=1 hits=1; a=2 hits=1"),
        ("sort by (a) | limit 0_2", "a=x10;a=9;a=x9", "a=9; a=x9"),
        ("facets", "a=1 b=x;a=1 b=y", "field_name=b field_value=x hits=1; field_name=b field_value=y hits=1"),
    ] {
        assert_eq!(piped(pipes, input), wanted, "{pipes}");
    }
}

/// Of equal values the record decides that is newest, or for `first` oldest, however records come.
#[test]
fn equal_values_are_chosen_by_key() {
    let key = |position| RowKey::new(Ticks::from_unix(1_700_000_000, 0).expect("a time"), 7, position);
    let partition: Arc<str> = "web".into();
    // At the same time, a later position is newer.
    let records: Vec<(RowKey, AnswerRow)> = (0..4u64)
        .map(|n| {
            let mut row = rows(&format!("by=3 value={n}")).remove(0);
            row.push("time".into(), Some(OwnedValue::DateTime(key(n).time())));
            (key(n), row)
        })
        .collect();
    for (function, fields, wanted) in [
        (Function::First, &["value"][..], "0"),
        (Function::Last, &["value"], "3"),
        (Function::Any, &["value"], "3"),
        (Function::RowMin, &["by", "value"], r#"{"value":"3"}"#),
        (Function::RowMax, &["by", "value"], r#"{"value":"3"}"#),
    ] {
        let fields = fields.iter().map(|name| FieldName::new(name)).collect();
        let aggregate = Aggregate { function, fields, limit: None, condition: None, name: "x".into() };
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let mut states = [Accumulator::new(function), Accumulator::new(function)];
            for (at, n) in order.into_iter().enumerate() {
                let (key, row) = &records[n];
                states[at % 2].add(&aggregate, row, Some((*key, &partition)), &|_| {});
            }
            let [mut all, others] = states;
            all.merge(others, function);
            let chosen = all.finish(&aggregate, None).expect("a value");
            assert_eq!(chosen.as_property().text(), wanted, "{function:?} {order:?}");
        }
    }
}
