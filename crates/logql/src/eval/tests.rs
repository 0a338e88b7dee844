//! Answers over a list of entries, compared with what adding up that list gives.

use super::*;
use crate::ast::LogqlQuery;
use crate::source::{Direction, EntrySelection, LogEntry};
use daytable_platform::budget::MemoryBudget;
use proptest::prelude::*;
use std::sync::Arc;

struct Entries(Vec<LogEntry>);

impl EntrySource for Entries {
    fn scan(
        &self,
        wanted: &EntrySelection<'_>,
        direction: Direction,
        each: &mut EachEntry<'_>,
    ) -> Result<(), EvalError> {
        let mut found: Vec<&LogEntry> = self
            .0
            .iter()
            .filter(|entry| {
                let is_in = (wanted.span.from..=wanted.span.to).contains(&entry.time);
                is_in && wanted.selector.matches(|name| entry.stream.get(name))
            })
            .collect();
        found.sort_by_key(|entry| entry.time);
        if direction != Direction::Forward {
            found.reverse();
        }
        let _ = found.into_iter().try_for_each(|entry| each(entry.clone()));
        Ok(())
    }
}

const SECOND: i64 = 1_000_000_000;

fn unshared() -> QuestionBudget {
    MemoryBudget::unshared(64 << 20).question()
}

fn entry(pod: &str, seconds: i64, line: &str) -> LogEntry {
    let pairs = vec![("app".to_owned(), "shop".to_owned()), ("pod".to_owned(), pod.to_owned())];
    LogEntry {
        stream: Arc::new(Labels::new(pairs)),
        time: seconds * SECOND,
        line: line.into(),
        metadata: Labels::default(),
    }
}

/// Entries of two pods, at 10, 20, … 60 seconds, with the values 1 to 6.
fn six() -> Entries {
    let pod = |n: i64| if n % 2 == 0 { "a" } else { "b" };
    Entries((1..=6).map(|n| entry(pod(n), n * 10, &format!("v={n}"))).collect())
}

fn ask(source: &Entries, query: &str, steps: TimeSteps) -> Result<String, EvalError> {
    let LogqlQuery::Metric(metric) = crate::parse(query)? else { panic!("{query} asks for entries") };
    let evaluator = Evaluator { source, limits: Limits::default(), budget: unshared(), now: 0 };
    Ok(match evaluator.metric(&metric, steps)? {
        Numbers::Scalar(number) => crate::text::number(number),
        Numbers::Series { series, left_out } => {
            assert_eq!(left_out, 0);
            let point =
                |(step, value): &(u32, f64)| format!("{}:{}", steps.time(*step) / SECOND, crate::text::number(*value));
            let one = |series: &Series| {
                format!("{} {}", series.labels, series.points.iter().map(point).collect::<Vec<_>>().join(" "))
            };
            series.iter().map(one).collect::<Vec<_>>().join("\n")
        }
    })
}

fn at(query: &str) -> String {
    ask(&six(), query, TimeSteps::at(60 * SECOND)).unwrap_or_else(|error| panic!("{query}: {error}"))
}

#[test]
fn functions_over_a_range() {
    for (query, expected) in [
        ("sum(count_over_time({app=\"shop\"}[1m]))", "{} 60:6"),
        ("sum by (pod) (count_over_time({app=\"shop\"}[1m]))", "{pod=\"a\"} 60:3\n{pod=\"b\"} 60:3"),
        // The start of a range is not part of the range.
        ("sum(count_over_time({app=\"shop\"}[50s]))", "{} 60:5"),
        ("sum(count_over_time({app=\"shop\"}[1m] offset 30s))", "{} 60:3"),
        ("sum(rate({app=\"shop\"}[1m]))", "{} 60:0.1"),
        ("sum(bytes_over_time({app=\"shop\"}[1m]))", "{} 60:18"),
        ("avg_over_time({app=\"shop\"} | logfmt | unwrap v [1m]) by (pod)", "{pod=\"a\"} 60:4\n{pod=\"b\"} 60:3"),
        ("max_over_time({app=\"shop\"} | logfmt | unwrap v [1m]) by ()", "{} 60:6"),
        ("first_over_time({app=\"shop\"} | logfmt | unwrap v [1m]) by ()", "{} 60:1"),
        ("last_over_time({app=\"shop\"} | logfmt | unwrap v [1m]) by ()", "{} 60:6"),
        ("quantile_over_time(0.5, {app=\"shop\"} | logfmt | unwrap v [1m]) by ()", "{} 60:3.5"),
        ("stdvar_over_time({app=\"shop\",pod=\"a\"} | logfmt | unwrap v [1m]) by ()", "{} 60:2.6666666666666665"),
        ("sum_over_time({pod=\"a\"} | logfmt | unwrap v [1m])", "{app=\"shop\", pod=\"a\"} 60:12"),
        ("rate_counter({pod=\"a\"} | logfmt | unwrap v [1m])", "{app=\"shop\", pod=\"a\"} 60:0.06666676666666667"),
        ("absent_over_time({app=\"none\", pod=~\".+\"}[1m])", "{app=\"none\"} 60:1"),
        ("absent_over_time({app=\"shop\"}[1m])", ""),
    ] {
        assert_eq!(at(query), expected, "{query}");
    }
}

#[test]
fn what_is_not_a_number_counts_less_than_any_number() {
    let source = Entries(vec![entry("a", 10, "v=NaN"), entry("b", 20, "v=NaN"), entry("b", 30, "v=2")]);
    for (query, expected) in [
        ("min_over_time({app=\"shop\"} | logfmt | unwrap v [1m]) by (pod)", "{pod=\"a\"} 60:NaN\n{pod=\"b\"} 60:2"),
        ("max_over_time({app=\"shop\"} | logfmt | unwrap v [1m]) by (pod)", "{pod=\"a\"} 60:NaN\n{pod=\"b\"} 60:2"),
        ("quantile_over_time(1, {app=\"shop\"} | logfmt | unwrap v [1m]) by ()", "{} 60:2"),
        ("quantile_over_time(0, {app=\"shop\"} | logfmt | unwrap v [1m]) by ()", "{} 60:NaN"),
    ] {
        let answer = ask(&source, query, TimeSteps::at(60 * SECOND)).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(answer, expected, "{query}");
    }
}

/// As in Loki, the error of a template that makes such a line is none.
#[test]
fn a_line_that_nothing_reads_is_not_made() {
    let wrong = "line_format `{{ div 1 0 }}`";
    for (query, is_made) in [
        (format!("sum(count_over_time({{app=\"shop\"}} | {wrong} [1m]))"), false),
        (format!("sum(rate({{app=\"shop\"}} | logfmt | {wrong} | v > 1 | decolorize [1m]))"), false),
        (format!("sum(sum_over_time({{app=\"shop\"}} | logfmt | {wrong} | unwrap v [1m]))"), false),
        (format!("sum(bytes_over_time({{app=\"shop\"}} | {wrong} [1m]))"), true),
        (format!("sum(count_over_time({{app=\"shop\"}} | {wrong} |= `v` [1m]))"), true),
        (format!("sum by (v) (count_over_time({{app=\"shop\"}} | {wrong} | logfmt [1m]))"), true),
        (format!("count_over_time({{app=\"shop\"}} | {wrong} | label_format l=`{{{{ __line__ }}}}` [1m])"), true),
    ] {
        assert_eq!(ask(&six(), &query, TimeSteps::at(60 * SECOND)).is_err(), is_made, "{query}");
        let written = crate::parse(&query).expect("good").to_string();
        assert!(written.contains("div 1 0"), "{written}");
    }
}

#[test]
fn an_empty_label_and_an_absent_one_are_one_series() {
    let with = |metadata: &[(&str, &str)], seconds, line: &str| LogEntry {
        metadata: Labels::new(metadata.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()),
        ..entry("a", seconds, line)
    };
    let source = Entries(vec![
        with(&[("kind", "")], 10, "k= v=1"),
        with(&[], 20, "v=2"),
        with(&[("kind", "x")], 30, "k=y v=4"),
        with(&[("kind", "")], 40, "k=y v=8"),
    ]);
    let labels = |more: &str| format!("{{app=\"shop\"{more}, pod=\"a\"}}");
    for (query, expected) in [
        ("sum by (kind) (count_over_time({app=\"shop\"}[1m]))", "{} 60:3\n{kind=\"x\"} 60:1".to_owned()),
        ("count_over_time({app=\"shop\"}[1m])", format!("{} 60:1\n{} 60:3", labels(", kind=\"x\""), labels(""))),
        ("sum without (app, pod) (count_over_time({app=\"shop\"}[1m]))", "{} 60:3\n{kind=\"x\"} 60:1".into()),
        ("sum by (k) (count_over_time({app=\"shop\"} | logfmt --keep-empty [1m]))", "{} 60:2\n{k=\"y\"} 60:2".into()),
        ("sum by (k) (count_over_time({app=\"shop\"} | label_format k=\"\" [1m]))", "{} 60:4".into()),
        (
            "max_over_time({app=\"shop\"} | logfmt --keep-empty | unwrap v [1m]) by (k)",
            "{} 60:2\n{k=\"y\"} 60:8".into(),
        ),
        ("count by (kind) (count_over_time({app=\"shop\"}[1m]))", "{} 60:1\n{kind=\"x\"} 60:1".into()),
    ] {
        let answer = ask(&source, query, TimeSteps::at(60 * SECOND)).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(answer, expected, "{query}");
    }
}

#[test]
fn functions_and_operators_between_series() {
    let count = "count_over_time({app=\"shop\"}[1m])";
    for (query, expected) in [
        ("topk(1, sum by (v) (count_over_time({app=\"shop\"} | logfmt [1m])))".to_owned(), "{v=\"1\"} 60:1"),
        (
            "sort_desc(max_over_time({app=\"shop\"} | logfmt | unwrap v [1m]) by (pod))".into(),
            "{pod=\"a\"} 60:6\n{pod=\"b\"} 60:5",
        ),
        ("bottomk(1, max_over_time({app=\"shop\"} | logfmt | unwrap v [1m]) by (pod))".into(), "{pod=\"b\"} 60:5"),
        (format!("avg({count})"), "{} 60:3"),
        (format!("count({count})"), "{} 60:2"),
        ("stddev(0.1 * count_over_time({app=\"shop\"} | logfmt [1m]) / 18)".into(), "{} 60:0"),
        (format!("sum without (pod) ({count})"), "{app=\"shop\"} 60:6"),
        (format!("{count} > 5"), ""),
        (format!("{count} > bool 5"), "{app=\"shop\", pod=\"a\"} 60:0\n{app=\"shop\", pod=\"b\"} 60:0"),
        (format!("100 * sum({count}) / 4"), "{} 60:150"),
        (
            format!("{count} / on(app) group_left() sum by (app) ({count})"),
            "{app=\"shop\", pod=\"a\"} 60:0.5\n{app=\"shop\", pod=\"b\"} 60:0.5",
        ),
        (format!("sum({count}) or vector(0)"), "{} 60:6"),
        ("sum(count_over_time({app=\"none\"}[1m])) or vector(0)".into(), "{} 60:0"),
        (format!("{count} and on(pod) count_over_time({{pod=\"a\"}}[1m])"), "{app=\"shop\", pod=\"a\"} 60:3"),
        (format!("{count} unless on(pod) count_over_time({{pod=\"a\"}}[1m])"), "{app=\"shop\", pod=\"b\"} 60:3"),
        (
            format!("label_replace({count}, \"n\", \"x$1\", \"pod\", \"(a)\")"),
            "{app=\"shop\", n=\"xa\", pod=\"a\"} 60:3\n{app=\"shop\", pod=\"b\"} 60:3",
        ),
        ("vector(1) + vector(1)".into(), "{} 60:2"),
        // A count of all lines parses none, and who asks for errors gets them.
        ("sum(count_over_time({app=\"shop\"} | json [1m]))".into(), "{} 60:6"),
        ("sum(count_over_time({app=\"shop\"} | json | __error__ != \"\" [1m]))".into(), "{} 60:6"),
        (
            "sum by (__error__) (count_over_time({app=\"shop\"} | json [1m]))".into(),
            "{__error__=\"JSONParserErr\"} 60:6",
        ),
        (
            "sum by (v) (sum_over_time({pod=\"a\"} | logfmt | unwrap v [1m]))".into(),
            "{v=\"2\"} 60:2\n{v=\"4\"} 60:4\n{v=\"6\"} 60:6",
        ),
        (
            "max_over_time({app=\"shop\"} | logfmt | unwrap v [1m]) without (app)".into(),
            "{pod=\"a\"} 60:6\n{pod=\"b\"} 60:5",
        ),
        ("1 / 0".into(), "NaN"),
    ] {
        assert_eq!(at(&query), expected, "{query}");
    }
    for (query, reason) in [
        (format!("{count} / on(app) {count}"), "many-to-many"),
        (format!("{count} / on(app) sum by (app) ({count})"), "many-to-one"),
        ("sum by (v) (count_over_time({app=\"shop\"} | json [1m]))".into(), "pipeline error: 'JSONParserErr'"),
        ("count_over_time({app=\"shop\"} | json | __error__ != \"\" [1m])".into(), "pipeline error: 'JSONParserErr'"),
        (format!("label_replace({count}, \"pod\", \"x\", \"pod\", \".*\")"), "two values at the same time"),
    ] {
        let error = ask(&six(), &query, TimeSteps::at(60 * SECOND)).expect_err("refused").to_string();
        assert!(error.contains(reason), "{query}: {error}");
    }
}

#[test]
fn steps_are_multiples_of_the_step() {
    let steps = TimeSteps::over(TimeSpan { from: 5 * SECOND, to: 47 * SECOND }, 20 * SECOND).expect("a step");
    let answer = ask(&six(), "sum(count_over_time({app=\"shop\"}[20s]))", steps).expect("good");
    assert_eq!((steps.time(0), answer.as_str()), (0, "{} 20:2 40:2 60:2"));
    assert!(
        ask(&six(), "vector(1)", TimeSteps::over(TimeSpan { from: 0, to: i64::MAX - 1 }, 1).expect("a step")).is_err()
    );
}

#[test]
fn entries_in_both_orders_with_a_limit_and_an_interval() {
    let (source, Ok(LogqlQuery::Log(query))) = (six(), crate::parse("{app=\"shop\"} | logfmt | v != \"4\"")) else {
        panic!()
    };
    let evaluator = Evaluator { source: &source, limits: Limits::default(), budget: unshared(), now: 0 };
    let ask = |direction, limit, interval| {
        let span = TimeSpan { from: 0, to: 100 * SECOND };
        let shown = evaluator.logs(&query, LogRequest { span, direction, limit, interval }).expect("good");
        shown.iter().map(|entry| entry.line.trim_start_matches("v=").to_owned()).collect::<Vec<_>>().join("")
    };
    assert_eq!(ask(Direction::Backward, 3, 0), "653");
    assert_eq!(ask(Direction::Forward, 10, 0), "12356");
    assert_eq!(ask(Direction::Forward, 10, 15 * SECOND), "135");
}

#[test]
fn too_many_series_are_left_out_or_refused() {
    let source = Entries((0..100).map(|n| entry(&format!("p{n}"), 10, "x")).collect());
    let Ok(LogqlQuery::Metric(metric)) = crate::parse("count_over_time({app=\"shop\"}[1m])") else { panic!() };
    let limits = Limits { series_max: 10, ..Limits::default() };
    let answer =
        Evaluator { source: &source, limits, budget: unshared(), now: 0 }.metric(&metric, TimeSteps::at(60 * SECOND));
    assert!(matches!(answer, Ok(Numbers::Series { series, left_out: 90 }) if series.len() == 10));
    for limits in [
        Limits { inner_series_max: 10, ..Limits::default() },
        Limits { inner_label_bytes_max: 500, ..Limits::default() },
        Limits { points_max: 99, ..Limits::default() },
    ] {
        let answer = Evaluator { source: &source, limits, budget: unshared(), now: 0 }
            .metric(&metric, TimeSteps::at(60 * SECOND));
        assert!(matches!(answer, Err(EvalError::TooLarge(_))));
    }
    // Points are counted over all parts of a query, and before they are made; values that are kept, too.
    let span = TimeSpan { from: 0, to: 100 * SECOND };
    let steps = TimeSteps::over(span, SECOND).expect("a step");
    for (query, limits, fits) in [
        ("sum(count_over_time({app=\"shop\"}[10s]))", Limits { points_max: 10, ..Limits::default() }, true),
        ("sum(count_over_time({app=\"shop\"}[11s]))", Limits { points_max: 10, ..Limits::default() }, false),
        ("count_over_time({app=\"shop\"}[10s])", Limits { points_max: 900, ..Limits::default() }, false),
        ("vector(1) + vector(2)", Limits { points_max: 202, ..Limits::default() }, true),
        ("vector(1) + vector(2)", Limits { points_max: 201, ..Limits::default() }, false),
        (
            "quantile_over_time(0.5, {app=\"shop\"} | logfmt n=\"pod\" | label_format n=`1` | unwrap n [10s])",
            Limits { value_bytes_max: 799, ..Limits::default() },
            false,
        ),
        (
            "quantile_over_time(0.5, {app=\"shop\"} | logfmt n=\"pod\" | label_format n=`1` | unwrap n [10s])",
            Limits { value_bytes_max: 800, ..Limits::default() },
            true,
        ),
    ] {
        let Ok(LogqlQuery::Metric(metric)) = crate::parse(query) else { panic!("{query}") };
        let answer = Evaluator { source: &source, limits, budget: unshared(), now: 0 }.metric(&metric, steps);
        assert_eq!(answer.is_ok(), fits, "{query} {limits:?}: {:?}", answer.err());
    }
}

proptest! {
    /// Ranges and steps of any length give what adding up the entries of each range gives.
    #[test]
    fn ranges_add_up(
        entries in proptest::collection::vec((0i64..200, 0i64..9), 0..40),
        range in 1i64..60,
        offset in 0i64..30,
        step in 1i64..40,
    ) {
        let source = Entries(entries.iter().map(|(time, value)| entry("a", *time, &format!("v={value}"))).collect());
        let steps = TimeSteps::over(TimeSpan { from: 40 * SECOND, to: 160 * SECOND }, step * SECOND).expect("a step");
        for (op, of_values) in [
            ("sum", (|values: &[f64]| values.iter().sum()) as fn(&[f64]) -> f64),
            ("max", |values| values.iter().copied().fold(f64::MIN, f64::max)),
            ("avg", |values| values.iter().sum::<f64>() / values.len() as f64),
            ("stdvar", |values| {
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
            }),
        ] {
            let query = format!("{op}_over_time({{app=\"shop\"}} | logfmt | unwrap v [{range}s] offset {offset}s)");
            let Ok(LogqlQuery::Metric(metric)) = crate::parse(&query) else { panic!("{query}") };
            let answer = Evaluator { source: &source, limits: Limits::default(), budget: unshared(), now: 0 }.metric(&metric, steps);
            let Ok(Numbers::Series { series, .. }) = answer else { panic!("{answer:?}") };
            let found: Vec<(u32, f64)> = series.into_iter().flat_map(|series| series.points).collect();
            let mut expected = Vec::new();
            for number in 0..steps.count() {
                let end = steps.time(number) / SECOND - offset;
                let in_range: Vec<f64> =
                    entries.iter().filter(|(time, _)| *time > end - range && *time <= end).map(|(_, v)| *v as f64).collect();
                if !in_range.is_empty() {
                    expected.push((number, of_values(&in_range)));
                }
            }
            let steps_of = |points: &[(u32, f64)]| points.iter().map(|(step, _)| *step).collect::<Vec<_>>();
            prop_assert_eq!(steps_of(&found), steps_of(&expected), "{}", query);
            prop_assert!(found.iter().zip(&expected).all(|(a, b)| (a.1 - b.1).abs() < 1e-9), "{} {:?} {:?}", query, found, expected);
        }
    }
}
