//! Pipes on rows: odd values, missing columns, and rows in any order.

use super::accumulator::Accumulator;
use super::answer_budget::AnswerBudget;
use super::join_stage::JoinRows;
use super::pipes::{PipeGrowth, Pipeline, growth};
use super::stage::PipelineContext;
use super::{ANSWER_BYTES_MAX, AnswerItem, AnswerRow};
use crate::entity::OwnedValue;
use daytable_logsql::query::{Aggregate, Function};
use daytable_logsql::{FieldName, ParsedQuery, Pipe};
use daytable_model::key::RowKey;
use daytable_model::time::Ticks;
use daytable_platform::budget::{MemoryBudget, OverBudget, RECORD_BYTES_MAX};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::rc::Rc;
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

/// Passes rows through pipes.
fn pass(pipes: &[Pipe], rows: Vec<AnswerRow>, each: &mut dyn FnMut(AnswerRow)) {
    let budget = AnswerBudget::new(MemoryBudget::unshared(ANSWER_BYTES_MAX).question());
    let context = PipelineContext { now: Ticks::MAX, seconds: None, budget, go_on: &|| true };
    let mut pipeline = Pipeline::new(pipes, &context);
    let mut sink = |item: AnswerItem| {
        each(item.into_row());
        ControlFlow::Continue(())
    };
    for row in rows {
        if pipeline.push(AnswerItem::Row(row), &mut sink).is_break() {
            break;
        }
    }
    let _ = pipeline.finish(&mut sink);
}

/// The rows that pipes give, in one line each, without columns that have no value.
fn piped(pipes: &str, input: &str) -> String {
    let query = ParsedQuery::parse(&format!("* | {pipes}")).expect("a query");
    let mut lines = Vec::new();
    pass(&query.pipes, rows(input), &mut |row| {
        let shown = row.columns().iter().filter_map(|(name, value)| {
            let text = value.as_ref()?.as_property().text().into_owned();
            (!text.is_empty()).then(|| format!("{name}={text}"))
        });
        lines.push(shown.collect::<Vec<_>>().join(" "));
    });
    lines.join("; ")
}

/// Whatever the names of the fields are, no row has two columns of one name, of which a pipe behind could name only the first:
/// the query is refused, or a column that it does not name gets another name.
#[test]
fn no_row_has_two_columns_of_one_name() {
    const NAMES: [&str; 14] = [
        "hits",
        "rank",
        "n",
        "begin",
        "end",
        "records",
        "from",
        "to",
        "duration",
        "total",
        "name",
        "field_name",
        "length",
        "a",
    ];
    const PIPES: [&str; 34] = [
        "stats by (X, Y) count() n",
        "stats by (X, X:2) count() Y",
        "stats count() X, sum(a) Y",
        "top 3 by (X)",
        "top 3 by (X, Y) rank",
        "top 3 by (X) hits as Y rank as hits",
        "uniq by (X, Y) with hits",
        "sort by (X) rank as Y",
        "sort by (X) rank",
        "limit 2",
        "offset 1",
        "fields X, Y, X",
        "delete X",
        "copy X as Y, Y as X",
        "rename X as Y, Y as X",
        "filter X:*",
        "extract '<X>' from Y",
        "extract '<X>,<X>' from Y",
        "extract_regexp '(?P<X>.*)' from Y",
        "format '<X>' as Y",
        "replace ('1', '2') at X",
        "math X + 1 as Y, Y + 1 as X, X as X",
        "len(X) as Y",
        "len(X)",
        "facets keep_const_fields",
        "field_names as X",
        "field_values X",
        "sample 1",
        "sessions by (X, Y) pause 1m",
        "gaps over 1m by (X, Y)",
        "stats by (X, Y) count() n | pivot X",
        "stats by (X, Y) count() n, sum(a) s | copy Y as X | pivot Y",
        "pattern(X) as Y",
        "stats by (pattern(X), Y) count() n",
    ];
    let text = |at: usize| {
        let columns: Vec<String> = NAMES.iter().map(|name| format!("{name}={at}")).collect();
        format!("time=2026-11-21T0{at}:00:00Z pattern(a)=x 1=1 {}", columns.join(" "))
    };
    let rows = rows(&[text(1), text(2), text(1), text(3)].join(";"));
    let (mut kinds, mut refused, mut shown) = (BTreeSet::new(), 0, 0);
    for (pipes, x, y) in PIPES.iter().flat_map(|pipes| NAMES.iter().flat_map(move |x| NAMES.map(|y| (*pipes, *x, y)))) {
        let query = format!("* | {}", pipes.replace('X', x).replace('Y', y));
        let query = match ParsedQuery::parse(&query) {
            Ok(query) => query,
            Err(error) => {
                assert!(error.message().starts_with("two columns are named "), "{query}: {error}");
                refused += 1;
                continue;
            }
        };
        kinds.extend(query.pipes.iter().map(number));
        pass(&query.pipes, rows.clone(), &mut |row| {
            let names: Vec<&str> = row.columns().iter().map(|(name, _)| &**name).collect();
            let once: BTreeSet<&str> = names.iter().copied().collect();
            assert_eq!(once.len(), names.len(), "{query}: {names:?}");
            shown += 1;
        });
    }
    // `join` needs the rows of another query: it sets columns by their names.
    assert_eq!(kinds.len(), 25, "{kinds:?}");
    assert!(refused > 500 && shown > 10_000, "{refused} {shown}");
}

#[test]
fn pipes_take_odd_values() {
    for (pipes, input, wanted) in [
        // A whole number is shown as one.
        ("stats avg(a) m, rate_sum(a) r", "a=1;a=3", "m=2 r=4"),
        // All digits of whole numbers count.
        (
            "stats sum(a) s, avg(a) m, min(a) lo, max(a) hi",
            "a=9007199254740993;a=9007199254740993",
            "s=18014398509481986 m=9007199254740993 lo=9007199254740993 hi=9007199254740993",
        ),
        ("stats avg(a) m", "a=9223372036854775807;a=9223372036854775807", "m=9223372036854775807"),
        // A sum is rounded once.
        (
            "stats sum(a) s",
            "a=491;a=374.6;a=619.75;a=443.2857142857143;a=616.2;a=618.7;a=464.375;a=25;a=119.5;a=306;a=130",
            "s=4208.410714285715",
        ),
        (
            "stats by (a) count() n",
            "a=9007199254740993;a=9007199254740992.0",
            "a=9007199254740992.0 n=1; a=9007199254740993 n=1",
        ),
        (
            "sort by (a)",
            "a=9007199254740993;a=9007199254740992.0;a=1e300;a=-9007199254740993",
            "a=-9007199254740993; a=9007199254740992.0; a=9007199254740993; a=1e300",
        ),
        ("filter a:>9007199254740992", "a=9007199254740993;a=9007199254740992", "a=9007199254740993"),
        ("filter a:>9007199254740992.0", "a=9007199254740993;a=9007199254740992", "a=9007199254740993"),
        // Of nothing there is no sum and no mean.
        ("stats sum(a) s, avg(a) m, rate_sum(a) r, count() n", "a=x;b=1", "n=2"),
        // What is not there does not count.
        ("stats min(a) lo, median(a) m, count(a) n", "a=5;b=1;a=7", "lo=5 m=7 n=2"),
        ("stats by (a) row_max(b) x", "a=1", "a=1 x={}"),
        ("stats by (t:1d) count() n", "t=2026-11-21T08:30:00Z;t=2026-11-21T09:00:00Z", "t=2026-11-21T00:00:00Z n=2"),
        ("stats by (t:week) count() n", "t=2026-11-21;t=none", "t=2026-11-16T00:00:00Z n=1; t=none n=1"),
        ("stats count() if () n", "a=1;a=2", "n=2"),
        ("rename a b", "a=1 b=2;b=3 c=4", "b=1; c=4"),
        // What is infinite has a sum, and what is not a number has none.
        ("stats sum(a) s, avg(a) m", "a=1;a=inf;a=2.5", "s=Infinity m=Infinity"),
        ("math a / 2 x | stats min(x) lo, max(x) hi, sum(x) s", "a=3;a=text;a=1", "lo=0.5 hi=1.5 s=2"),
        ("math a / 2 x | stats row_max(x, a) r", "a=3;a=text;a=1", "r={\"a\":\"3\"}"),
        ("stats values(a) v", "a=;a=1;b=2", "v=[\"1\"]"),
        // Times and addresses are not measured.
        (
            "stats median(t) t, median(ip) i, median(d) d, median(s) s, quantile(0.5, n)",
            "t=2026-11-21T08:00:00Z ip=10.0.0.1 d=1h s=2KiB n=7",
            "d=1h s=2048 quantile(0.5, n)=7",
        ),
        ("stats count_uniq(a, b) n", "a= b=1;b=1;a=1 b=1;a=1", "n=3"),
        ("math round(a, 0.01) x", "a=0.691;a=x", "a=0.691 x=0.69; a=x x=NaN"),
        ("math round(a, 0) x, ceil(a, b) y | fields x, y", "a=0.691", "x=NaN y=NaN"),
        // A beginning of the written names is one of the stored names, too.
        ("delete a.b* | fields *", "a_b_c=1 a_c=2", "a_c=2"),
        // `.` in a pipe ends at the end of a line; an empty value has no parts.
        ("replace_regexp ('^.', 'x') at a", "a=yes b=1;a= b=2", "a=xes b=1; b=2"),
        ("replace_regexp ('^$', 'x') at a", "a= b=2", "b=2"),
        ("math (a - b) * 2 - (b - 1)", "a=5 b=2", "a=5 b=2 (a - b) * 2 - (b - 1)=5"),
        ("math a / b default 7", "a=1 b=0;a=0 b=0", "a=1 b=0 a / b default 7=Infinity; a=0 b=0 a / b default 7=7"),
        ("format '<duration_seconds:d>s <urlencode:u>' as x | fields x", "d=1m5s u=a/b", "x=65s a%2Fb"),
        // A duration is whole, as an address is, and only a duration has seconds.
        (
            "format '<duration:a>|<duration:b>|<duration:c>|<duration:d>' as x | fields x",
            "a=9007199254740995 b=0.5 c=3600s d=1e25",
            "x=14w6d5h59m59.254740995s|0.5|3600s|1e25",
        ),
        (
            "format '<duration_seconds:a>|<duration_seconds:b>|<duration_seconds:c>' as x | fields x",
            "a=7ns b=100 c=-90s",
            "x=0.000000007|100|-90",
        ),
        (
            "format '<ipv4:a>|<ipv4:b>|<ipv4:c>|<ipv4:d>' as x | fields x",
            "a=167772161 b=1.50 c=10KB d=-1",
            "x=10.0.0.1|1.50|10KB|-1",
        ),
        (
            "format '<time:a>|<time:b>|<time:c>' as x | fields x",
            "a=5s b=0 c=10.0.0.1",
            "x=5s|1970-01-01T00:00:00Z|10.0.0.1",
        ),
        // JSON needs a value.
        ("format '{\"a\":<q:a>,\"b\":<q:b>}' as x | fields x", "a=1", "x={\"a\":\"1\",\"b\":\"\"}"),
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
            "math 9007199254740993 + 1 as x, a * 3 as y, -a % 10 as z, a / 3 as w | fields x, y, z, w",
            "a=9007199254740993",
            "x=9007199254740994 y=27021597764222979 z=-3 w=3002399751580331",
        ),
        (
            "math max(a, 1) as x, abs(-a) as y, b default a as z, a + 0.5 as f, a * a as o | fields x, y, z, f, o",
            "a=9007199254740993 b=none",
            "x=9007199254740993 y=9007199254740993 z=9007199254740993 f=9007199254740992 o=8.112963841460668e+31",
        ),
        (
            "math a / 2 as x, a % 0 as y, a + 9223372036854775807 as z | fields x, y, z",
            "a=7",
            "x=3.5 y=NaN z=9.223372036854776e+18",
        ),
        (
            "format '<time:t>' as x | fields x",
            "t=1700000000;t=1700000000123",
            "x=2023-11-14T22:13:20Z; x=2023-11-14T22:13:20.123Z",
        ),
        ("extract '[< plain : x >]' from a | fields x", "a=[\"q\"]", "x=\"q\""),
        ("field_names y", "a=1;a=2 b=3", "y=a hits=2; y=b hits=1"),
        ("field_values (a) limit 1K", "a=1;a=2", "a=1 hits=1; a=2 hits=1"),
        ("sort by (a) | limit 0_2", "a=x10;a=9;a=x9", "a=9; a=x9"),
        (
            "sessions by (u) pause 10m",
            "u=a time=2026-11-21T09:00:00Z;u=b time=2026-11-21T08:05:00Z;u=a time=2026-11-21T08:10:00Z;u=a time=2026-11-21T08:00:00Z;u=b",
            "u=a begin=2026-11-21T08:00:00Z end=2026-11-21T08:10:00Z records=2; \
             u=a begin=2026-11-21T09:00:00Z end=2026-11-21T09:00:00Z records=1; \
             u=b begin=2026-11-21T08:05:00Z end=2026-11-21T08:05:00Z records=1",
        ),
        ("sessions pause 1s", "a=1", ""),
        (
            "gaps over 10m by (u)",
            "u=a time=2026-11-21T09:00:00Z;u=b time=2026-11-21T10:00:00Z;u=a time=2026-11-21T08:10:00Z;u=a time=2026-11-21T08:00:00Z",
            "u=a from=2026-11-21T08:10:00Z to=2026-11-21T09:00:00Z duration=50m",
        ),
        (
            "stats by (p, s) count() n | pivot s",
            "p=x s=200;p=x s=500;p=y s=200;p=x s=200;p=y;p=y s=30",
            "p=x 200=2 500=1 total=3; p=y null=1 30=1 200=1 total=3",
        ),
        (
            "stats by (p, s) count() n, sum(v) v | pivot s",
            "p=x s=a v=1;p=x s=b v=2;p=x s=b v=x",
            "p=x a n=1 a v=1 b n=2 b v=2 total n=3 total v=3",
        ),
        ("stats by (s) count() n | pivot s", "s=total;s=b", "b=1 total=1 total_=2"),
        ("stats by (pattern(m)) count() n", "m=took_7ms;m=took_9ms;m=x", "pattern(m)=took_<_> n=2; pattern(m)=x n=1"),
        ("top 1 by (pattern(m), a)", "m=a1b7c a=1;m=a2b8c a=1", "pattern(m)=<_> a=1 hits=2"),
        ("join by (a) (b) | fields a", "a=1;a=2", "a=1; a=2"),
        ("join by (a) (b) inner", "a=1;a=2", ""),
        ("facets", "a=1 b=x;a=1 b=y", "field_name=b field_value=x hits=1; field_name=b field_value=y hits=1"),
    ] {
        assert_eq!(piped(pipes, input), wanted, "{pipes}");
    }
}

#[test]
fn a_point_in_a_pipe_ends_at_the_end_of_a_line() {
    let trace = "first line\nsecond";
    for (pipe, wanted) in [
        ("extract_regexp '(?P<a>.+)' from message | fields a", "first line"),
        ("extract_regexp '(?s)(?P<a>.+)' from message | fields a", trace),
        ("replace_regexp ('.+', 'x') at message | fields message", "x\nx"),
        ("filter message:~'first.*second' | fields message", trace),
    ] {
        let (rows, _, _) = made(&pipes_of(pipe), trace, &|| true);
        let values: Vec<_> = rows.iter().flat_map(AnswerRow::columns).filter_map(|(_, value)| value.clone()).collect();
        assert_eq!(values, [OwnedValue::String(wanted.into())], "{pipe}");
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

/// The pipe's number. A new pipe gets the next one, and an example below.
fn number(pipe: &Pipe) -> usize {
    match pipe {
        Pipe::Stats { .. } => 0,
        Pipe::Top { .. } => 1,
        Pipe::Uniq { .. } => 2,
        Pipe::Sort { .. } => 3,
        Pipe::Limit(_) => 4,
        Pipe::Offset(_) => 5,
        Pipe::Fields(_) => 6,
        Pipe::Delete(_) => 7,
        Pipe::Copy(_) => 8,
        Pipe::Rename(_) => 9,
        Pipe::Filter(_) => 10,
        Pipe::Extract(_) => 11,
        Pipe::ExtractRegexp(_) => 12,
        Pipe::Format { .. } => 13,
        Pipe::Replace { .. } => 14,
        Pipe::Math(_) => 15,
        Pipe::Length { .. } => 16,
        Pipe::Facets { .. } => 17,
        Pipe::FieldNames { .. } => 18,
        Pipe::FieldValues { .. } => 19,
        Pipe::Sample(_) => 20,
        Pipe::Join(_) => 21,
        Pipe::Sessions { .. } => 22,
        Pipe::Gaps { .. } => 23,
        Pipe::Pivot(_) => 24,
        Pipe::Pattern { .. } => 25,
    }
}

/// The rows that pipes give of one row, why the answer was cut, and the most bytes that were charged.
fn made(pipes: &[Pipe], message: &str, go_on: &dyn Fn() -> bool) -> (Vec<AnswerRow>, Option<OverBudget>, usize) {
    let budget = AnswerBudget::new(MemoryBudget::unshared(32 << 20).question());
    let context = PipelineContext { now: Ticks::MAX, seconds: None, budget: budget.clone(), go_on };
    let mut pipeline = Pipeline::new(pipes, &context);
    let (mut found, mut charged) = (Vec::new(), 0);
    let mut sink = |item: AnswerItem| {
        charged = charged.max(budget.question().charged());
        found.push(item.into_row());
        ControlFlow::Continue(())
    };
    let mut row = AnswerRow::default();
    row.set(&FieldName::new("message"), Some(OwnedValue::String(message.into())));
    let _ = pipeline.push(AnswerItem::Row(row), &mut sink);
    let _ = pipeline.finish(&mut sink);
    let charged = charged.max(budget.question().charged());
    (found, budget.over(), charged)
}

fn pipes_of(text: &str) -> Vec<Pipe> {
    ParsedQuery::parse(&format!("* | {text}")).unwrap_or_else(|error| panic!("{text:.80}: {error}")).pipes
}

#[test]
fn each_pipe_makes_no_more_than_it_declares() {
    let message = "l".repeat(500_000);
    let groups = (0..10).map(|n| format!("(?P<g{n}>")).collect::<String>() + ".*" + &")".repeat(10);
    let copies = (0..10).map(|n| format!("message as c{n}")).collect::<Vec<_>>().join(", ");
    let examples = [
        "stats by (message) count() n".to_owned(),
        "stats values(message) v, uniq_values(message) u, row_any(message) r, max(message) m".to_owned(),
        "top 3 by (message)".to_owned(),
        "uniq by (message)".to_owned(),
        "sort by (message)".to_owned(),
        "sort by (message) limit 3".to_owned(),
        "limit 3".to_owned(),
        "offset 0".to_owned(),
        "fields message, message".to_owned(),
        "delete other".to_owned(),
        format!("copy {copies}"),
        "rename message as other".to_owned(),
        "filter message:*".to_owned(),
        "extract \"<a>l<b>\" from message".to_owned(),
        format!("extract_regexp \"{groups}\" from message"),
        format!("format \"{}\" as message", "<message>".repeat(32)),
        "format \"<q:message><hexencode:message><base64encode:message><urlencode:message><uc:message>\" as x"
            .to_owned(),
        format!("replace (\"l\", \"{}\") at message", "l".repeat(300)),
        format!("replace_regexp (\".\", \"{}\") at message", "$0".repeat(300)),
        "math 1 + 1 as n".to_owned(),
        "len(message) as n".to_owned(),
        "facets 3".to_owned(),
        "field_names".to_owned(),
        "field_values message".to_owned(),
        "sample 1".to_owned(),
        "join by (message) (*)".to_owned(),
        "sessions by (message) pause 5m".to_owned(),
        "gaps over 5m by (message)".to_owned(),
        "pattern(message) as p".to_owned(),
    ];
    let mut seen = BTreeSet::new();
    for example in examples {
        let pipes = pipes_of(&example);
        seen.insert(number(&pipes[0]));
        let (rows, over, charged) = made(&pipes, &message, &|| true);
        let bytes: usize = rows.iter().map(AnswerRow::text_bytes).sum();
        match growth(&pipes[0]) {
            PipeGrowth::Nothing => {
                assert_eq!(over, None, "{example:.60}");
                assert!(bytes <= 2 * message.len() || charged >= bytes, "{example:.60} makes {bytes}");
            }
            PipeGrowth::Texts => match over {
                None => assert!(bytes <= RECORD_BYTES_MAX, "{example:.60} makes {bytes}"),
                Some(over) => assert!(matches!(over, OverBudget::TooLarge(reason) if reason.contains("longer than"))),
            },
        }
    }
    // A `pivot` stands behind groups, and has tests of its own.
    seen.insert(24);
    assert_eq!(seen, (0..=25).collect(), "each pipe has an example");
}

#[test]
fn pipes_one_after_the_other_are_refused_before_their_text_is_made() {
    for (pipe, times) in [
        (format!("format \"{}\" as message", "<message>".repeat(32)), 8),
        (format!("replace (\"l\", \"{}\") at message", "l".repeat(300)), 6),
        (format!("replace_regexp (\".\", \"{}\") at message", "l".repeat(300)), 6),
        ("copy message as a, message as b | format \"<a><b>\" as message".to_owned(), 30),
    ] {
        let pipes = pipes_of(&vec![pipe.as_str(); times].join(" | "));
        let (rows, over, _) = made(&pipes, "hello", &|| true);
        assert_eq!(rows, []);
        assert!(matches!(over, Some(OverBudget::TooLarge(reason)) if reason.contains("longer than")), "{pipe:.60}");
    }
}

#[test]
fn a_pipe_that_nobody_waits_for_ends_within_a_record() {
    let pipes = pipes_of("replace_regexp (\".*[^A-Z]|[A-Z]\", \"x\") at message");
    let asked = std::cell::Cell::new(0);
    let go_on = || {
        asked.set(asked.get() + 1);
        false
    };
    let (rows, over, _) = made(&pipes, &"A".repeat(1 << 20), &go_on);
    // Within the record, and before its stages pass on what they kept.
    assert_eq!((rows, over, asked.get()), (Vec::new(), None, 2));
}

/// Each record has fewer rows than the stage makes between two looks, and all of them together have many more.
#[test]
fn pipes_that_nobody_waits_for_end_between_records() {
    let pipes = pipes_of("join by (a) (*) | join by (a) (*)");
    let budget = AnswerBudget::new(MemoryBudget::unshared(32 << 20).question());
    let tables: Vec<_> = pipes
        .iter()
        .map(|pipe| {
            let Pipe::Join(join) = pipe else { panic!("{pipe:?}") };
            let mut other = JoinRows::new(join, &budget);
            for row in rows(&vec!["a=1 b=2"; 50].join(";")) {
                other.add(AnswerItem::Row(row)).expect("room");
            }
            other.finish(&|| true).map_or_else(|_| panic!("no room"), Rc::new)
        })
        .collect();
    for pipes_before in [&pipes[..], &[]] {
        let passed = std::cell::Cell::new(0);
        let go_on = || passed.get() < 1000;
        let context = PipelineContext { now: Ticks::MAX, seconds: None, budget: budget.clone(), go_on: &go_on };
        let mut pipeline = Pipeline::joining(pipes_before, &tables, &context);
        let mut sink = |_| {
            passed.set(passed.get() + 1);
            ControlFlow::Continue(())
        };
        let is_over = (0..10_000).any(|_| {
            let row = rows("a=1").remove(0);
            pipeline.push(AnswerItem::Row(row), &mut sink).is_break()
        });
        assert!(is_over && passed.get() < 2000, "{} pipes: {} rows", pipes_before.len(), passed.get());
    }
}

fn random_pipe() -> impl Strategy<Value = String> {
    let field = || proptest::sample::select(vec!["message", "a", "b", "g0"]);
    let text = || proptest::sample::select(vec!["", "l", "lll", "<message>", "<q:a><a>", "$0$0", "${g0}x"]);
    prop_oneof![
        (text(), text(), field()).prop_map(|(a, b, at)| format!("format \"x{a}{b}<message><{at}>\" as {at}")),
        (text(), field()).prop_map(|(to, at)| format!("replace (\"l\", \"{to}{to}\") at {at}")),
        (text(), field()).prop_map(|(to, at)| format!("replace_regexp (\"(?P<g0>.)\", \"{to}{to}\") at {at}")),
        (field(), field()).prop_map(|(from, to)| format!("copy {from} as {to}")),
        (field(), field()).prop_map(|(from, to)| format!("rename {from} as {to}")),
        field().prop_map(|from| format!("extract \"<a>l<b>\" from {from}")),
        field().prop_map(|from| format!("extract_regexp \"(?P<a>(?P<g0>.*))\" from {from}")),
        field().prop_map(|field| format!("sort by ({field})")),
        field().prop_map(|field| format!("stats by ({field}) values(message) v, row_any() r")),
        field().prop_map(|field| format!("fields {field}, message")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Random pipes one after the other end, and no row has more text than the bound unless it was charged.
    #[test]
    fn random_pipes_are_bounded(pipes in proptest::collection::vec(random_pipe(), 1..20)) {
        let text = pipes.join(" | ");
        let (rows, over, charged) = made(&pipes_of(&text), &"lo ".repeat(100), &|| true);
        let bytes: usize = rows.iter().map(AnswerRow::text_bytes).sum();
        prop_assert!(bytes <= RECORD_BYTES_MAX + charged, "{}: {} bytes, {:?}", text, bytes, over);
    }
}
