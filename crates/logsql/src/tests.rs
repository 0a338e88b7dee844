//! The language as a whole: what is parsed, printed, refused and matched.

use crate::query::{
    Aggregate, Arithmetic, ArithmeticOperator, Expression, FieldOperator, Function, GroupField, JoinPipe, Operator,
    SortKey, Span, ValueStep, ValueStepSize,
};
use crate::{FieldName, Fields, ParsedQuery, Pipe, Predicate, Test};
use daytable_model::property::{OwnedValue, Property};
use daytable_model::time::Ticks;
use proptest::prelude::*;
use std::time::Duration;

fn span(text: &str) -> Span {
    Span { text: text.into(), nanos: crate::unit::duration_nanos(text).expect("a duration") }
}

fn now() -> Ticks {
    Ticks::from_date(2026, 11, 21).expect("a date").plus(Duration::from_secs(12 * 3600))
}

/// A record of names and values.
struct Plain(Vec<(&'static str, OwnedValue)>);

impl Fields for Plain {
    fn field(&self, name: &FieldName) -> Option<Property<'_>> {
        let found = self.0.iter().find(|(known, _)| {
            name.is_property(known)
                || FieldName::new(known).column() == name.column() && name.column() != crate::Column::Field
        });
        found.map(|(_, value)| value.as_property())
    }

    fn any_part(&self, test: &mut dyn FnMut(Property<'_>) -> bool) -> bool {
        self.0
            .iter()
            .filter(|(name, _)| !matches!(*name, "time" | "level" | "instance"))
            .any(|(_, value)| test(value.as_property()))
    }
}

fn text(text: &str) -> OwnedValue {
    OwnedValue::String(text.into())
}

fn sample() -> Plain {
    Plain(vec![
        ("time", OwnedValue::DateTime(now().minus(Duration::from_secs(600)))),
        ("level", text("warn")),
        ("instance", text("web-17")),
        ("message", text("Connection reset by peer: cache_miss größe 日本")),
        ("status", OwnedValue::Int64(503)),
        ("code", text("404")),
        ("http_method", text("POST")),
        ("score", OwnedValue::Double(0.5)),
        ("ok", OwnedValue::Boolean(true)),
        ("took", text("1.5s")),
        ("size", text("10KiB")),
        ("ip", text("10.1.2.3")),
        ("limit", OwnedValue::Int64(600)),
        ("empty", text("")),
        ("city", text("İSTANBUL ΣΑΣ")),
        ("zeros", text("0404")),
    ])
}

fn matches(filter: &str) -> bool {
    let filter = Expression::parse(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
    Predicate::new(&filter, now()).matches(&sample())
}

#[test]
fn filters_match_as_documented() {
    for filter in [
        "*",
        "reset",
        "\"reset by\"",
        "\"reset by\"*",
        "Conn*",
        "*nnect*",
        "i(CONNECTION)",
        "i(\"RESET by\")",
        "i(conn*)",
        "city:i(istanbul)",
        "city:i(σας)",
        "city:i(σασ)",
        "city:i(σα*)",
        "größe",
        "日本",
        "reset peer",
        "nothing or peer",
        "-nothing",
        "!nothing",
        "not nothing",
        "(nothing or reset) and peer",
        "message:reset",
        "_msg:seq(reset, peer)",
        "_msg:contains_all(peer, reset)",
        "_msg:contains_any(peer, nothing)",
        "_msg:~\"res.t\"",
        "_msg:~\"(?i)RESET\"",
        "message:!~\"^reset\"",
        "status:503",
        "status:=503",
        "status:=503.0",
        "status:!=500",
        "status:>=500",
        "status:>502.5",
        "status:<504",
        "status:range[500,503]",
        "status:range(502,504)",
        "status:in(502, 503)",
        "code:>403",
        "code:=404",
        "score:>0.4",
        "score:=0.5",
        "ok:true",
        "ok:=true",
        "took:>1s",
        "took:range[1s,1500ms]",
        "size:>=10240",
        "size:<11KiB",
        "ip:ipv4_range(10.0.0.0/8)",
        "ip:ipv4_range(10.1.2.0, 10.1.2.255)",
        "ip:>10.1.2.2",
        "http.method:POST",
        "http.method:in(PUT,POST)",
        "\"http.method\":=POST",
        "http_method:=\"PO\"*",
        "http.method:len_range(4,4)",
        "http.method:string_range(P, Q)",
        "nobody:string_range(\"\", a)",
        "empty:string_range(\"\", a)",
        "message:len_range(1_0, 1K)",
        "user:\"\"",
        "-user:*",
        "empty:\"\"",
        "-empty:*",
        "status:*",
        "level:warn",
        "level:warning",
        "level:>=info",
        "level:<error",
        "level:range[info, error]",
        "level:in(warn, fatal)",
        "instance:web-*",
        "instance:=web-17",
        "_stream:web-17",
        "{instance=\"web-17\"}",
        "{instance=~\"web-.*\",ok!=\"false\"}",
        "{instance=\"db-1\" or instance=\"web-17\",ok=\"true\"}",
        "status:(>500 <504)",
        "status:(=500 or =503)",
        "code:lt_field(status)",
        "status:le_field(limit)",
        "code:eq_field(code)",
        "status:eq_field(status)",
        "code:le_field(zeros) zeros:le_field(code)",
        "_time:15m",
        "_time:2026-11-21",
        "_time:2026-11-21T11",
        "_time:2026-11-21T12:50+01:00",
        "_time:[2026-11-21T11:50:00Z, 2026-11-21T11:50:01Z)",
        "_time:(2026-11-20, now]",
        "_time:>2026-11-20",
        "_time:>2026-11-21",
        "_time:<=2026-11-21T11:50:00Z",
        "_time:5m offset 6m",
        "_time:>5m",
        "_time:<15m",
        "_time:day_range[11:00, 12:00)",
        "_time:week_range[Sat, Sat]",
        "_time:day_range[12:00, 13:00) offset 1h",
        "_time:day_range[11:00, 01:00)",
        "_time:day_range(23:00, 12:00]",
        "_time:week_range[Sat, Mon]",
        "_time:week_range(Fri, Mon)",
        "_time:week_range[Mon, Sun]",
        "reset # a comment",
    ] {
        assert!(matches(filter), "{filter}");
        assert!(!matches(&format!("!({})", filter.split('#').next().unwrap_or_default())), "not {filter}");
    }
}

#[test]
fn filters_that_do_not_match() {
    for filter in [
        "eset",
        "connection",
        "cache",
        "Conn",
        "*NNECT*",
        "seq(peer, reset)",
        "status:>=504",
        "status:range(503,504)",
        "user:<5",
        "user:<z",
        "user:>0",
        "user:!=\"\" user:*",
        "empty:<5",
        "level:error",
        "level:>warn",
        "level:\"\"",
        "took:>1500ms",
        "code:=404.0",
        "user:eq_field(nobody)",
        "empty:eq_field(empty)",
        "empty:le_field(status)",
        "code:eq_field(zeros)",
        "nobody:string_range(\"\", \"\")",
        "nobody:string_range(a, b)",
        "_time:5m",
        "_time:2026-11-20",
        "_time:day_range(11:50, 12:00)",
        "_time:day_range[23:00, 01:00)",
        "_time:day_range(12:00, 12:00)",
        "_time:week_range[Mon, Fri]",
        "_time:week_range[Sun, Fri]",
        "_time:week_range(Sat, Mon)",
        "_time:week_range(Sat, Sat)",
        "ip:ipv4_range(10.2.0.0/16)",
        "message:ipv4_range(10.2.0.0/16)",
    ] {
        assert!(!matches(filter), "{filter}");
    }
}

#[test]
fn a_query_that_begins_with_a_pipe_is_about_all_records() {
    for pipes in ["| stats by (level) count() n", "|fields a | limit 2", " | join by (a) (| stats by (a) count() b)"] {
        let parsed = ParsedQuery::parse(pipes).expect(pipes);
        assert_eq!(parsed, ParsedQuery::parse(&format!("* {pipes}")).expect(pipes), "{pipes}");
    }
    let error = ParsedQuery::parse("|").expect_err("no pipe");
    assert!(error.to_string().contains("expected the name of a pipe"), "{error}");
}

#[test]
fn an_error_names_the_place_and_the_expected_text() {
    for (query, place, message) in [
        ("status:(", "", "expected a filter, for example error or status:>=500, the query ends"),
        ("status:>=500 | stats by (", "", "expected the name of a field, the query ends"),
        ("status:>=500 | stat by (a) count()", "stat", "unknown pipe stat; did you mean stats?"),
        ("* | stats cuont()", "cuont", "unknown function cuont; did you mean count?"),
        ("a:rnge[1,2]", "[", "expected a filter"),
        ("a:inn(1,2)", "inn", "unknown function inn; did you mean in?"),
        ("a:~\"(\"", "\"(\"", "the regular expression is wrong"),
        ("a:\"b", "\"b", "the quote is not closed"),
        ("stats count()", "stats", "stats is the name of a pipe"),
        ("_time:yesterday", "yesterday", "expected a time such as"),
        ("a b)", ")", "expected | and a pipe"),
        ("a:range[x,5]", "x", "expected a number"),
        ("*ache", "", "expected * after the part of a word"),
        ("a:ipv4_range(10.0.0.300)", "ipv4_range(10.0.0.300", "expected an IPv4 network"),
        ("* | stats count() n, sum(b) n", "sum", "two columns are named n"),
        ("* | stats by (n) count() n", "count", "two columns are named n"),
        (
            "* | stats by (a, a) count() n",
            "stats",
            "two columns are named a: name it once, or give one of them another name",
        ),
        ("* | stats by (_time:1h, _time:1d) count() n", "stats", "two columns are named _time: "),
        ("* | field_values hits", "field_values", "two columns are named hits: "),
        ("* | field_names as hits", "field_names", "two columns are named hits: "),
        ("* | top 3 by (hits) hits as hits", "top", "two columns are named hits: "),
        ("* | top 3 by (a) hits as n rank as n", "top", "two columns are named n: "),
        ("* | uniq by (a, b, a)", "uniq", "two columns are named a: "),
        ("* | sessions by (records) pause 1m", "sessions", "two columns are named records: "),
        ("* | gaps over 1m by (from)", "gaps", "two columns are named from: "),
        ("* | join by (a) (* | field_values hits)", "field_values", "two columns are named hits: "),
        ("* | quantile(2, a)", "2", "expected a number from 0 to 1"),
        ("* | limit x", "x", "expected a whole number"),
        ("* | math a +", "", "expected a number, the name of a field, or a function"),
        ("* | extract \"abc\"", "\"abc\"", "expected a place"),
        ("* | sample 0", "0", "expected a number of at least 1"),
        ("* | sort desc", "desc", "desc needs the fields to sort by"),
        ("* | stats by (a:1.5 offset 0.5) count()", "0.5", "expected a whole number"),
        (
            "* | stats by (_time:1h offset 99999999999h) count()",
            "99999999999h",
            "expected an offset of less than 292 years",
        ),
        ("* | join by (a)", "", "expected (, the query ends"),
        ("* | join by (a) (b | stat c)", "stat", "unknown pipe stat; did you mean stats?"),
        ("* | join by (a) (b | limit 5", "", "expected | and a pipe, or ), the query ends"),
        ("* | sessions by (a)", "", "expected pause and a duration"),
        ("* | sessions by (a) pause 0s", "0s", "expected a duration longer than zero"),
        ("* | gaps by (a)", "by", "expected over and a duration"),
        ("* | stats by (a) count() n | pivot b", "pivot", "pivot makes columns of a group of the pipes before it"),
        ("* | pattern \"<a> <_>\"", "\"<a> <_>\"", "expected a field in parentheses, as in pattern(message)"),
        ("* | lookup x", "lookup", "unknown pipe lookup; here it is written join by (FIELD) (a query)"),
    ] {
        let error = ParsedQuery::parse(query).expect_err(query);
        assert_eq!(&query[error.at()], place, "{query}: {error}");
        assert!(error.message().starts_with(message), "{query}: {error}");
    }
    let error = ParsedQuery::parse("größe:>5 | stat by (a)").expect_err("no pipe");
    assert_eq!(
        error.to_string(),
        "unknown pipe stat; did you mean stats?\n  größe:>5 | stat by (a)\n             ^^^^"
    );
}

#[test]
fn the_day_ends_at_midnight() {
    let midnight = now().minus(Duration::from_secs(12 * 3600));
    let record = Plain(vec![("time", OwnedValue::DateTime(midnight))]);
    for (range, is_in) in [
        ("[22:30, 24:00]", false),
        ("[22:30, 24:00)", false),
        ("[22:30, 00:00]", true),
        ("[22:30, 00:00)", false),
        ("[00:00, 24:00]", true),
        ("[00:00, 00:00]", true),
    ] {
        let filter = Expression::parse(&format!("_time:day_range{range}")).expect("a filter");
        assert_eq!(Predicate::new(&filter, now()).matches(&record), is_in, "{range}");
    }
}

/// A column without a name has the name of the function as the query wrote it, so that a pipe behind can name it.
#[test]
fn a_column_has_the_name_of_its_function() {
    for (function, name) in [
        ("count()", "count(*)"),
        ("median(a)", "median(a)"),
        ("quantile(0.5, a)", "quantile(0.5, a)"),
        ("quantile(0.5, a, b) if (c:1)", "quantile(0.5, a, b) if (c:1)"),
        ("quantile(0.9, a)", "quantile(0.9, a)"),
    ] {
        let parsed = ParsedQuery::parse(&format!("* | stats {function}")).expect(function);
        let [Pipe::Stats { aggregates, .. }] = &parsed.pipes[..] else { panic!("{function}") };
        assert_eq!(aggregates[0].name, name);
        assert_eq!(ParsedQuery::parse(&parsed.to_string()), Ok(parsed), "{function}");
    }
}

#[test]
fn durations_are_written_as_in_logsql() {
    for (nanos, text) in [
        (0, "0"),
        (7, "7ns"),
        (-36_493, "-36µs493ns"),
        (1_500_000, "1ms500µs"),
        (1_500_000_000, "1.5s"),
        (60_500_000_000, "1m500ms"),
        (61_500_000_000, "1m1.5s"),
        (5_400_000_000_000, "1h30m"),
        (9 * 86_400_000_000_000, "1w2d"),
        (9_007_199_254_740_995, "14w6d5h59m59.254740995s"),
        (i64::MIN, "-15250w1d23h47m16.854775808s"),
    ] {
        assert_eq!(crate::unit::show_duration(nanos), text);
    }
}

/// A name that nothing parses, and a pipe without a row in the query language, are found here.
#[test]
fn each_name_of_a_pipe_is_parsed_and_documented() {
    let page = include_str!("../../../docs/reference/query-language.md");
    let (_, table) = page.split_once("\n| pipe | also named | gives |\n").expect("the table of pipes");
    let (table, _) = table.split_once("\n\n").expect("an end of the table");
    let documented: Vec<&str> = table.split('`').skip(1).step_by(2).collect();
    for name in crate::keyword::PIPES {
        if let Err(error) = ParsedQuery::parse(&format!("* | {name}")) {
            assert!(!error.message().starts_with(crate::pipe_parser::NO_PIPE), "{error}");
        }
        let is_it = |text: &str| text.split([' ', '(']).next() == Some(name);
        assert!(documented.iter().any(|text| is_it(text)), "{name} is not in the table of pipes");
    }
}

#[test]
fn limits_are_errors() {
    for query in [
        "a".repeat(crate::QUERY_BYTES_MAX + 1),
        "(".repeat(crate::QUERY_DEPTH_MAX + 1) + "a",
        "!".repeat(10_000) + "a",
        "a ".repeat(crate::QUERY_TERMS_MAX + 1),
        "*".to_owned() + &" | limit 1".repeat(crate::QUERY_PIPES_MAX + 1),
        "* | math ".to_owned() + &"-".repeat(10_000) + "1",
        "* | math ".to_owned() + &"1^".repeat(10_000) + "1",
        "a:~\"".to_owned() + &"(a{100}){100}".repeat(20) + "\"",
        "*".to_owned() + &" | join by (a) (b)".repeat(9),
        "a | join by (a) (".repeat(10_000),
    ] {
        assert!(ParsedQuery::parse(&query).is_err(), "{}", &query[..20]);
    }
}

/// Each query, and its text as it is printed.
#[test]
fn pipes_are_parsed() {
    for query in [
        "* | stats by (path, _time:1h offset 30m, status:100, ip:/24, t:month) count() as n, sum(a, b) as s",
        "* | stats count() if (status:>=500) as bad, quantile(0.95, d) as p, uniq_values(m) limit 5 as u",
        "* | top 5 by (status) hits as n rank as r",
        "* | uniq by (a, b) with hits limit 7",
        "* | sort by (n desc, path) offset 1 limit 2 rank as r",
        "* | limit 5 | offset 2",
        "* | fields a, http.*, * | delete b*",
        "* | copy a as b, c as d | rename a as b",
        "* | filter n:>10",
        "* | extract if (a:b) \"x <y> \" from z keep_original_fields skip_empty_results",
        "* | extract_regexp \"(?P<v>[0-9])\" from path",
        "* | format \"total <s>\" as t",
        "* | replace (\"a\", \"b\") at c limit 3 | replace_regexp (\"a+\", \"b\") at c",
        "* | math (round((a / 20000)) * (100 - b)) as share, -(1.5s) as x, (c default 0) as y",
        "* | len(a) as n",
        "* | facets 3 max_values_per_field 10 max_value_len 20 keep_const_fields",
        "* | field_names as name | field_values path limit 3 | sample 10",
        "* | join by (a, \"b c\") (level:error | stats by (a) count() as n | join by (n) (x) inner) inner prefix \"o.\"",
        "* | sessions by (a, b) pause 30m | sessions pause 1h",
        "* | gaps over 10m by (a) | gaps over 1h30m",
        "* | stats by (a, b) count() as n | rename b as c | pivot c",
        "* | stats by (pattern(message), a) count() as n | top 3 by (pattern(\"b c\")) | sort by (pattern(a) desc)",
        "* | pattern(a) as p | pattern(p)",
        "_arrived:5m offset 1h !_arrived:[2026-11-21,2026-11-22T08) | sort by (_arrived desc)",
        "_arrived:<now-1h _arrived:>=2026-11-21 _arrived:day_range[08:00, 18:00) | stats by (_arrived:1h) count() as n",
    ] {
        let parsed = ParsedQuery::parse(query).unwrap_or_else(|error| panic!("{error}"));
        let printed = parsed.to_string();
        assert_eq!(ParsedQuery::parse(&printed).as_ref(), Ok(&parsed), "{printed}");
        let again = ParsedQuery::parse(&printed).map(|again| again.to_string());
        assert_eq!(again.as_deref(), Ok(printed.as_str()));
    }
    for (short, long) in [
        ("* | count()", "* | stats count() as \"count(*)\""),
        ("* | stats sum(a)", "* | stats sum(a) as \"sum(a)\""),
        ("* | by (a) count() n", "* | stats by (a) count() as n"),
        ("* | first 3 by (a)", "* | sort by (a) limit 3"),
        ("* | last by (a)", "* | sort by (a desc) limit 1"),
        ("* | last(a)", "* | stats last(a) as \"last(a)\""),
        ("* | head | where a:b", "* | limit 10 | filter a:b"),
        ("", "*"),
    ] {
        let parsed = |query: &str| ParsedQuery::parse(query).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(parsed(short), parsed(long), "{short}");
    }
}

fn name() -> impl Strategy<Value = FieldName> {
    prop_oneof![
        prop::sample::select(
            &["status", "http.method", "level", "path", "line", "if", "not", "a b", "-x", "ü", "", "now"][..]
        )
        .prop_map(FieldName::new),
        "\\PC{0,5}".prop_map(|name| FieldName::new(&name)),
    ]
    // `_time` and `_arrived` have filters of their own, and an empty name is `*` in lists.
    .prop_filter("a name", |name| !matches!(name.column(), crate::Column::Time | crate::Column::Arrived))
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(&["error", "500", "web-17", "or", "1.5s", "a\"b", "x\\y", "*", "|", "in", "\n\u{1}"][..])
            .prop_map(str::to_owned),
        "\\PC{1,8}",
    ]
}

fn test() -> impl Strategy<Value = Test> {
    use prop::collection::vec;
    prop_oneof![
        Just(Test::Present),
        Just(Test::Empty),
        (value(), any::<bool>()).prop_map(|(text, any_case)| Test::Phrase { text, any_case }),
        (value(), any::<bool>()).prop_map(|(text, any_case)| Test::Prefix { text, any_case }),
        value().prop_map(Test::Part),
        value().prop_map(Test::Exact),
        value().prop_map(Test::ExactPrefix),
        vec(value(), 0..4).prop_filter("not all", |values| values != &["*"]).prop_map(Test::In),
        vec(value(), 1..4).prop_map(Test::Sequence),
        vec(value(), 1..4).prop_map(Test::ContainsAll),
        vec(value(), 1..4).prop_map(Test::ContainsAny),
        value().prop_map(|text| Test::Regexp(regex::escape(&text))),
        value().prop_map(|text| Test::Order(Operator::GreaterOrEqual, text)),
        value().prop_map(|text| Test::Order(Operator::Less, text)),
        (any::<i32>(), any::<bool>(), 0..9u8, any::<bool>()).prop_map(|(low, low_included, high, high_included)| {
            Test::Range { low: low.to_string(), low_included, high: format!("{high}.5s"), high_included }
        }),
        (value(), value()).prop_map(|(low, high)| Test::StringRange(low, high)),
        value().prop_map(Test::Pattern),
        any::<(u64, u64)>().prop_map(|(low, high)| Test::LengthRange(low, high)),
        any::<(u32, u32)>().prop_map(|(low, high)| Test::AddressRange(low, high)),
        name().prop_map(|name| Test::Other(FieldOperator::LessOrEqual, name)),
    ]
}

fn expression() -> impl Strategy<Value = Expression> {
    let time = prop::sample::select(
        &[
            "5m",
            "<5m",
            ">=1h",
            "2026-11-21",
            "2026",
            "[2026-11-20,now-5m]",
            "(2026-11-20,2026-11-21T08:00Z)",
            "offset 5m",
            "day_range(08:00, 18:00]",
            "week_range[Mon, Fri) offset 1h",
            ">=2026-11-21",
            "1763712000",
        ][..],
    )
    .prop_map(|text| Expression::parse(&format!("_time:{text}")).expect("a filter"));
    let leaf = prop_oneof![
        1 => Just(Expression::All),
        1 => time,
        8 => (name(), test()).prop_filter_map("a test of a level names levels", |(name, test)| {
            let is_level = name.column() == crate::Column::Level;
            let tested = Expression::Field(name, test);
            let is_none = || Expression::parse(&tested.to_string()).is_err_and(|error| error.message().contains("is not a level"));
            (!is_level || !is_none()).then_some(tested)
        }),
        4 => test().prop_filter_map("a bare star is every record, and a bare pattern a pipe", |test| {
            let is_bare = !matches!(test, Test::Present | Test::Pattern(_));
            is_bare.then(|| Expression::Field(FieldName::anywhere(), test))
        }),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expression::And),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expression::Or),
            inner.prop_map(|inner| Expression::Not(inner.into())),
        ]
    })
}

fn pipe() -> impl Strategy<Value = Pipe> {
    use prop::collection::vec;
    let steps = [
        ("1h", ValueStepSize::Number(3600e9)),
        ("100", ValueStepSize::Number(100.0)),
        ("month", ValueStepSize::Month),
        ("/24", ValueStepSize::AddressBits(24)),
    ];
    let by = (name(), prop::option::of(prop::sample::select(steps.to_vec()))).prop_map(|(field, step)| GroupField {
        field,
        step: step.map(|(text, size)| ValueStep { text: text.into(), size, offset: None, clock: None }),
    });
    let function = prop::sample::select(
        &[
            Function::Count,
            Function::Sum,
            Function::Quantile(0.95),
            Function::Quantile(0.5),
            Function::UniqValues,
            Function::Last,
        ][..],
    );
    let aggregate =
        (function, vec(name(), 1..3), prop::option::of(any::<u64>()), prop::option::of(expression()), value())
            .prop_map(|(function, fields, limit, condition, name)| Aggregate {
                function,
                fields,
                limit,
                condition,
                name,
            });
    let arithmetic = prop_oneof![
        name().prop_map(Arithmetic::Field),
        (0..1000u32).prop_map(|n| Arithmetic::Number(n.to_string(), n.into())),
    ]
    .prop_recursive(3, 10, 2, |inner| {
        let operator = prop::sample::select(&ArithmeticOperator::ALL[..]);
        prop_oneof![
            inner.clone().prop_map(|inner| Arithmetic::Negate(inner.into())),
            (operator, inner.clone(), inner.clone())
                .prop_map(|((operator, ..), left, right)| { Arithmetic::Binary(operator, left.into(), right.into()) }),
            inner.prop_map(|inner| Arithmetic::Call(crate::query::MathFunction::Round, vec![inner])),
        ]
    });
    prop_oneof![
        (vec(by, 0..3), aggregate).prop_filter_map("names apart", |(by, aggregate)| {
            let apart = by.iter().all(|field| field.field.written() != aggregate.name);
            apart.then(|| Pipe::Stats { by, aggregates: vec![aggregate] })
        }),
        (any::<u64>(), vec(name(), 1..3), value()).prop_map(|(limit, by, hits)| Pipe::Top {
            limit,
            by,
            hits,
            rank: None
        }),
        (vec((name(), any::<bool>()), 0..3), 0..9u64, prop::option::of(any::<u64>()), prop::option::of(value()))
            .prop_map(|(by, offset, limit, rank)| {
                let by = by.into_iter().map(|(field, is_descending)| SortKey { field, is_descending }).collect();
                Pipe::Sort { by, offset, limit, rank }
            }),
        any::<u64>().prop_map(Pipe::Limit),
        vec((name(), name()), 1..3).prop_map(Pipe::Rename),
        expression().prop_map(Pipe::Filter),
        vec((arithmetic, name()), 1..3).prop_map(Pipe::Math),
        (name(), prop::option::of(any::<u64>())).prop_map(|(field, limit)| Pipe::FieldValues { field, limit }),
        vec(name(), 0..3).prop_map(|by| Pipe::Sessions { by, pause: span("30m") }),
        vec(name(), 0..3).prop_map(|by| Pipe::Gaps { by, over: span("1h") }),
        (name(), name()).prop_map(|(of, name)| Pipe::Pattern { of, name }),
        (vec(name(), 1..3), expression(), any::<bool>(), prop::option::of(value())).prop_map(
            |(by, filter, is_inner, prefix)| {
                let query = ParsedQuery { filter, pipes: vec![Pipe::Limit(3)] };
                let prefix = prefix.unwrap_or_default();
                Pipe::Join(Box::new(JoinPipe { by, query, is_inner, prefix, columns: None }))
            }
        ),
    ]
}

/// Whether rows of a pipe's own would have two columns of one name.
fn repeats_a_name(pipe: &Pipe) -> bool {
    let effect = pipe.effect();
    let names: std::collections::BTreeSet<&str> = effect.written.iter().map(|(name, _)| name.written()).collect();
    matches!(effect.flow, crate::effect::RowFlow::Replaced { .. }) && names.len() < effect.written.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// A tree is what its text is parsed to; one whose rows would have two columns of one name is refused.
    #[test]
    fn a_printed_query_is_parsed_to_itself(filter in expression(), pipes in prop::collection::vec(pipe(), 0..3)) {
        let query = ParsedQuery { filter, pipes };
        let printed = query.to_string();
        let parsed = ParsedQuery::parse(&printed);
        if query.pipes.iter().any(repeats_a_name) {
            prop_assert!(parsed.is_err_and(|error| error.message().starts_with("two columns are named ")), "{}", printed);
            return Ok(());
        }
        prop_assert_eq!(parsed.as_ref(), Ok(&query), "{}", printed);
        Predicate::new(&query.filter, now()).matches(&sample());
    }

    /// No text makes the parser panic, and what it accepts is printed and parsed again.
    #[test]
    fn any_text_is_parsed_or_refused(query in prop_oneof![
        ".{0,60}",
        prop::collection::vec(prop::sample::select(&["a", ":", "(", ")", "|", " ", "*", "\"", "'", "`", "\\", "=", "!", "~", ">", "<",
            "_time:", "[", "]", ",", "5m", "2026-11-21", "stats ", "by ", "count()", "or ", "not ", "i(", "in(", "range[", "sort ",
            "math ", "-", "extract ", "<x>", "if ", "ü", "{", "}", "0x", ".", "\\u00", "limit 5", "offset "][..]), 0..25)
            .prop_map(|parts| parts.concat()),
    ]) {
        match ParsedQuery::parse(&query) {
            Ok(parsed) => {
                let printed = parsed.to_string();
                let again = ParsedQuery::parse(&printed);
                prop_assert_eq!(again.as_ref(), Ok(&parsed), "{} as {}", query, printed);
                Predicate::new(&parsed.filter, now()).matches(&sample());
            }
            Err(error) => {
                prop_assert!(query.get(error.at()).is_some());
                prop_assert!(error.to_string().len() < 2000);
            }
        }
    }
}
