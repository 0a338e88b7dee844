//! Random programs give the same numbers by columns and entry by entry, over records of every kind: of files and of streams,
//! JSON, logfmt, access lines and plain texts, in open and sealed days and with late records.
//!
//! `PROPTEST_CASES=2000 cargo test --lib programs_give` looks longer.

use super::tests::{DAY, OneByOne, SECOND, commit_batches, table};
use super::*;
use daytable_archive::Access;
use daytable_lifecycle::Executor;
use daytable_logql::ast::LogqlQuery;
use daytable_logql::eval::{Evaluator, Limits, Numbers, Series, TimeSteps};
use daytable_model::batch::Batch;
use daytable_model::key::RowKey;
use daytable_model::level::Level;
use daytable_model::record::{Field, Record, Value};
use daytable_model::stream::StreamNote;
use daytable_parse::FormatChoice;
use daytable_platform::budget::MemoryBudget;
use daytable_query::Archives;
use daytable_store::{Reader, Store, StoreOptions};
use proptest::prelude::*;
use std::collections::BTreeMap;

const INSTANCES: [&str; 3] = ["web-1", "web-2", "db~00"];

/// Takes one after the other of what chance holds.
struct Chance(u64);

impl Chance {
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        // The constants of a well-known generator (Knuth).
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        of[(self.0 >> 33) as usize % of.len()]
    }

    fn text(&mut self, of: &[&str]) -> String {
        self.pick(of).to_owned()
    }

    fn is(&mut self, one_in: u64) -> bool {
        self.pick(&[0u64, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]).is_multiple_of(one_in)
    }
}

/// A line as programs write them.
fn line(chance: &mut Chance) -> String {
    let level = chance.text(&["info", "WARN", "error", "Fatal", "odd", ""]);
    let user = chance.text(&["ann", "bob", "c=d e", "x\\\"y", "", "größe"]);
    let status = chance.text(&["200", "404", "500", "0500", "1e2", "\"n/a\"", "null", "5.50"]);
    let took = chance.text(&["0.5", "12", "7.25", "-3", "0.1", "900"]);
    let message = chance.text(&["request handled", "an error came", "trace level=debug", "done", "k=\\\"v", "warn"]);
    let path = chance.text(&["/a", "/b/1", "/b/2", "/error", "/a b"]);
    match chance.pick(&[0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7]) {
        0 => {
            let mut members = vec![format!("\"msg\":\"{message}\""), format!("\"status\":{status}")];
            if !chance.is(3) {
                members.insert(chance.pick(&[0, 1]), format!("\"level\":\"{level}\""));
            }
            let more = [
                format!("\"took\":{took}"),
                format!("\"dur\":\"{took}ms\""),
                format!("\"size\":\"{}kB\"", took.trim_start_matches('-')),
                format!("\"user\":\"{user}\""),
                format!("\"req\":{{\"id\":{took},\"path\":\"{path}\"}}"),
                "\"tags\":[\"a\",{\"b\":1}]".to_owned(),
                "\"http.status\":\"2xx\"".to_owned(),
                format!("\"status\":{took}"),
                "\"esc\":\"a\\/b\\u00e9\"".to_owned(),
                "\"time\":\"2026-11-20T01:02:03Z\"".to_owned(),
                format!("\"severity\":\"{level}\""),
                format!("\"component\":{took}"),
                format!("\"log_level\":{took}"),
                "\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\"".to_owned(),
                "\"\":1".to_owned(),
                "\"2nd\":true".to_owned(),
                format!("\"ré_q\":{status}"),
                format!("\"r__q\":{took}"),
                format!("\"user.id\":{took}"),
                format!("\"user_id\":{status}"),
            ];
            for member in more {
                if chance.is(3) {
                    members.push(member);
                }
            }
            let space = chance.pick(&["", "", " "]);
            let end = if chance.is(12) { "" } else { "}" };
            format!("{{{}{end}", members.join(&format!(",{space}")))
        }
        1 => {
            let user = if user.contains(['=', ' ', '\\']) { format!("\"{user}\"") } else { user };
            let status = status.trim_matches('"');
            let mut line = format!("level={level} msg=\"{message}\" status={status} took={took} user={user}");
            if chance.is(3) {
                line.push_str(&format!(" dur={took}ms path=\"{path}\" flag"));
            }
            if chance.is(6) {
                line.push_str(" bad=\"open");
            }
            line
        }
        2 => format!("2026-11-21T00:00:00.5Z {} db {message} status={status} took={took}", level.to_uppercase()),
        3 => format!(
            "10.0.0.7 - {user} [21/Nov/2026:00:00:00 +0000] \"GET {path} HTTP/1.1\" 404 {took} \"-\" \"curl/8\""
        ),
        4 => message,
        5 => format!("{level}: worker {took} {message}"),
        6 => format!("{{\"_entry\":\"packed {message}\",\"user\":\"{user}\",\"status\":\"{path}\"}}"),
        _ => format!("\u{1b}[31m{level}\u{1b}[0m took={took} {path}"),
    }
}

/// The labels of a stream, and the names of its metadata.
fn stream(chance: &mut Chance) -> Option<(BTreeMap<String, String>, Vec<String>)> {
    let labels: &[(&str, &str)] = match chance.pick(&[0, 1, 2, 3, 4, 5, 6]) {
        0 => &[("app", "shop")],
        1 => &[("app", "shop"), ("level", "Warn")],
        2 => &[("job", "web"), ("status", "of the stream")],
        3 => &[("job", "web"), ("user", "stream")],
        _ => return None,
    };
    let names: &[&str] = match chance.pick(&[0, 1, 2, 3, 4, 5]) {
        0 => &["user"],
        1 => &["took", "user"],
        2 => &["detected_level"],
        3 => &["na.ve", "na-ve"],
        _ => &[],
    };
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Some((labels, names.iter().map(|name| (*name).to_owned()).collect()))
}

fn add(batch: &mut Batch, number: u64, chance: u64) {
    let chance = &mut Chance(chance);
    let line = line(chance);
    let mut record: Record<'_> = daytable_parse::parse(&line, FormatChoice::Auto).record;
    if let Some((labels, names)) = stream(chance) {
        let text = |text: String| Value::String(text.into());
        let metadata: Vec<Field<'_>> = names
            .iter()
            .map(|name| Field { name: name.clone().into(), value: text(chance.text(&["5", "bob", "warn", "0.25"])) })
            .collect();
        record.fields.splice(0..0, metadata);
        record.fields.extend(labels.iter().map(|(n, v)| Field { name: n.clone().into(), value: text(v.clone()) }));
        let end = chance.text(&["", "", "", "\n"]);
        let nanos = chance.pick(&[0, 0, 7, 99]);
        record.stream = Some(Box::new(StreamNote { text: PushedStream(labels, names, end).text().into(), nanos }));
    }
    if chance.is(3) {
        let host = chance.text(&["web-1", "web-2", ""]);
        record.fields.push(Field { name: "log_host".into(), value: Value::String(host.into()) });
    }
    let source = chance.text(&["/var/log/a.log", "/var/log/b.log", ""]);
    // At the first tick of a minute, a tick beside it, and anywhere.
    let ticks = chance.pick(&[0, 1, -1, 370_000_000, 150_000_000]);
    let time = Ticks::from_unix(DAY + 600 + i64::try_from(number).unwrap_or(0) / 3 * 20, 0).expect("a time");
    let time = Ticks::new(time.get() + ticks).expect("a time");
    daytable_model::entity::append(batch, RowKey::new(time, 7, number), &source, &record);
}

fn commit(store: &Store, records: &[(u64, u64)]) {
    let mut batches: Vec<Batch> = INSTANCES.iter().map(|instance| Batch::new(table(), (*instance).into())).collect();
    for (number, chance) in records {
        add(&mut batches[*number as usize / 7 % INSTANCES.len()], *number, *chance);
    }
    commit_batches(store, batches);
}

const SELECTORS: [&str; 14] = [
    r#"{service_name=~"[0-9].*|web-.*"}"#,
    r#"{took=~"1.*|7"}"#,
    r#"{r__q="500"}"#,
    r#"{req_id="12"}"#,
    r#"{user_id="12"}"#,
    r#"{r__q!="12", instance=~"web-.*"}"#,
    r#"{log_host="web-1"}"#,
    r#"{service_name=~".+"}"#,
    r#"{table="Log"}"#,
    r#"{instance=~"web-.*"}"#,
    r#"{app="shop"}"#,
    r#"{job="web"}"#,
    r#"{level=~"warn|error"}"#,
    r#"{user="ann"}"#,
];
const STAGES: [&str; 43] = [
    r#" | r__q="500""#,
    r#" | user_id=~"0?500""#,
    " | json | logfmt | drop __error__, __error_details__",
    " | json | logfmt | drop __error__, __error_details__",
    r#" | json | logfmt | drop __error__, __error_details__ | took!="""#,
    " | json",
    " | json",
    " | json",
    " | logfmt",
    " | logfmt",
    " | logfmt --strict",
    r#" | json s="status", p="req.path""#,
    r#" | json s="tags[0]", user="msg""#,
    r#" | logfmt s="status", took"#,
    r#" | pattern "<w> <_> status=<s> <_>""#,
    r#" | regexp "(?P<w>[a-z]+) (?P<n>\\d+)""#,
    " | unpack",
    " | decolorize",
    r#" | line_format "{{.user}} {{.status}}""#,
    r#" | line_format "{{__line__}}!""#,
    " | label_format who=user",
    r#" | label_format z="{{.status}}-{{.user}}""#,
    r#" | label_format z="{{__timestamp__ | unixEpoch}}""#,
    r#" | label_format z="{{.}}""#,
    " | drop status",
    r#" | drop user="ann""#,
    " | keep user, status, took, level, __error__",
    r#" | __error__="""#,
    r#" | __error__="""#,
    r#" | __error__!="""#,
    " | drop __error__, __error_details__",
    " | status >= 404",
    r#" | status="500""#,
    r#" | status_extracted!="200""#,
    r#" | detected_level="error""#,
    r#" | level!="""#,
    " | dur > 5ms",
    r#" | req_id=7 or user="bob""#,
    r#" |= "e""#,
    r#" != "status""#,
    r#" |~ "(?i)error|d$""#,
    r#" |= "GET" or "level""#,
    r#" | user=~"a.*|größe""#,
];
const UNWRAPS: [&str; 10] = [
    " | unwrap component",
    " | unwrap log_level",
    " | unwrap took",
    " | unwrap took",
    " | unwrap status",
    " | unwrap duration(dur)",
    " | unwrap bytes(size)",
    " | unwrap req_id",
    " | unwrap s",
    r#" | unwrap took | user!="bob""#,
];
const GROUPS: [&str; 13] = [
    "",
    " by (status)",
    " by (user, status)",
    " by (level, detected_level)",
    " by (detected_level)",
    " by (s, who, z)",
    " by (status_extracted, req_path)",
    " by (instance, service_name)",
    " by (w, took)",
    " by (na_ve, na_ve_2, source)",
    " by (app, __error__)",
    " by (log_host, app)",
    " without (user, took)",
];

fn program(chance: &mut Chance) -> String {
    let selector = chance.pick(&SELECTORS);
    let stages: String = (0..chance.pick(&[0, 1, 1, 2, 2, 3])).map(|_| chance.pick(&STAGES)).collect();
    let range = chance.pick(&["1m", "5m", "90s", "2m", "17s", "1h"]);
    let offset = chance.pick(&["", "", " offset 30s", " offset -7s"]);
    let group = chance.pick(&GROUPS);
    let aggregate = chance.pick(&["sum", "sum", "max", "avg", "count", "topk"]);
    let outer = |inner: String| match aggregate {
        "topk" => format!("topk(2, sum{group}({inner}))"),
        aggregate => format!("{aggregate}{group}({inner})"),
    };
    if chance.is(2) {
        let function = chance.pick(&[
            "count_over_time",
            "count_over_time",
            "rate",
            "bytes_over_time",
            "bytes_rate",
            "absent_over_time",
        ]);
        let counted = format!("{function}({selector}{stages}[{range}]{offset})");
        return if chance.is(4) { counted } else { outer(counted) };
    }
    let unwrap = chance.pick(&UNWRAPS);
    let errors = chance.pick(&[r#" | __error__="""#, r#" | __error__="""#, ""]);
    let function = chance.pick(&[
        "sum_over_time",
        "avg_over_time",
        "min_over_time",
        "max_over_time",
        "first_over_time",
        "last_over_time",
        "stddev_over_time",
        "stdvar_over_time",
        "quantile_over_time",
        "rate",
        "rate_counter",
        "absent_over_time",
    ]);
    let parameter = if function == "quantile_over_time" { "0.9, " } else { "" };
    let inner = format!("{function}({parameter}{selector}{stages}{unwrap}{errors}[{range}]{offset})");
    let may_group = !matches!(function, "sum_over_time" | "rate" | "rate_counter" | "absent_over_time");
    match chance.is(2) {
        true if may_group => format!("{inner}{group}"),
        true => inner,
        false => outer(inner),
    }
}

/// What an answer is: series, or the beginning of an error. Which of several entries an error names does not matter.
fn answer(source: &dyn EntrySource, query: &str, steps: TimeSteps) -> Result<Vec<Series>, String> {
    let LogqlQuery::Metric(metric) = daytable_logql::parse(query).map_err(|error| error.to_string())? else {
        return Err("entries".into());
    };
    let budget = MemoryBudget::unshared(64 << 20).question();
    let evaluator = Evaluator { source, limits: Limits::default(), budget, now: 0 };
    match evaluator.metric(&metric, steps) {
        Ok(Numbers::Series { series, .. }) => Ok(series),
        Ok(Numbers::Scalar(_)) => Ok(Vec::new()),
        Err(error) => Err(error.to_string().split(": '").next().unwrap_or_default().to_owned()),
    }
}

/// Whether answers are the same; no number equals itself where it is none.
fn is_same(one: &Result<Vec<Series>, String>, other: &Result<Vec<Series>, String>) -> bool {
    let bits = |series: &Vec<Series>| -> Vec<(Labels, Vec<(u32, u64)>)> {
        let points = |series: &Series| series.points.iter().map(|(step, value)| (*step, value.to_bits())).collect();
        series.iter().map(|series| (series.labels.clone(), points(series))).collect()
    };
    match (one, other) {
        (Ok(one), Ok(other)) => bits(one) == bits(other),
        (one, other) => one == other,
    }
}

/// Between two steps lie records that no range has. A page or a minute from one such gap to another has those of a range, too.
#[test]
fn ranges_shorter_than_their_step_count_what_lies_between_two_gaps() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = Store::open(dir.path(), StoreOptions::default()).expect("opened");
    let mut batches: Vec<Batch> = INSTANCES.iter().map(|instance| Batch::new(table(), (*instance).into())).collect();
    for number in 0..82 {
        let record = Record { level: Some(Level::Info), message: "done".into(), ..Record::default() };
        let time = Ticks::from_unix(DAY + 650 + i64::try_from(number).unwrap_or(0) * 10, 0).expect("a time");
        for batch in &mut batches {
            daytable_model::entity::append(batch, RowKey::new(time, 7, number), "/var/log/a.log", &record);
        }
    }
    commit_batches(&store, batches);
    for is_sealed in [false, true] {
        if is_sealed {
            let executor = Executor::new(store.steps(), dir.path().into(), Access::default(), Arc::default());
            executor.archive_now(&table(), None, &mut |_| {}).expect("sealed");
        }
        let reader = Reader::open(dir.path()).expect("opened");
        let (stores, clock) = (Stores::local(&reader, &Archives::Skip), QuestionClock::start());
        let by_columns = StoredEntries::new(&stores, &clock, Visibility::default());
        let by_entries = OneByOne(StoredEntries::new(&stores, &clock, Visibility::default()));
        for (range, step, from) in [("17s", 60, 645), ("1m", 300, 600), ("30s", 90, 600), ("5s", 30, 600)] {
            for group in ["", " by (level)", " by (instance)"] {
                let query = format!("sum{group}(count_over_time({{table=\"Log\"}}[{range}]))");
                let span = TimeSpan { from: (DAY + from) * SECOND, to: (DAY + 1500) * SECOND };
                let steps = TimeSteps::over(span, step * SECOND).expect("steps");
                let (columns, entries) = (answer(&by_columns, &query, steps), answer(&by_entries, &query, steps));
                assert!(entries.as_ref().is_ok_and(|series| !series.is_empty()), "{query}: {entries:?}");
                assert_eq!(columns, entries, "{query} {step} {is_sealed}");
            }
        }
    }
}

/// A page of which only the label's column was read has to be read whole where a value is not a number.
#[test]
fn a_value_that_is_no_number_is_one_entry_less() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = Store::open(dir.path(), StoreOptions::default()).expect("opened");
    let mut batch = Batch::new(table(), INSTANCES[0].into());
    for number in 0..3000u64 {
        let field = |name: &'static str, value: Value<'static>| Field { name: name.into(), value };
        let took = match number {
            1500 => Value::String("n/a".into()),
            _ => Value::Int64(7),
        };
        // Identifiers lie apart from the other columns.
        let id = u128::from(number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
        let fields = vec![field("took", took), field("trace_id", Value::String(format!("{id:032x}").into()))];
        let record = Record { level: Some(Level::Info), message: "done".into(), fields, ..Record::default() };
        let time = Ticks::from_unix(DAY + 600 + i64::try_from(number).unwrap_or(0) / 10, 0).expect("a time");
        daytable_model::entity::append(&mut batch, RowKey::new(time, 7, number), "/var/log/a.log", &record);
    }
    commit_batches(&store, vec![batch]);
    let reader = Reader::open(dir.path()).expect("opened");
    let (stores, clock) = (Stores::local(&reader, &Archives::Skip), QuestionClock::start());
    let by_columns = StoredEntries::new(&stores, &clock, Visibility::default());
    let steps = TimeSteps::at((DAY + 1200) * SECOND);
    // Also where the selector names the label that is unwrapped.
    for selector in [r#"{service_name=~".+"}"#, r#"{took="7"}"#] {
        let query = format!(r#"sum by (instance) (sum_over_time({selector} | unwrap took | __error__="" [1h]))"#);
        let series = answer(&by_columns, &query, steps).expect("an answer");
        let points: Vec<_> = series.iter().flat_map(|series| series.points.clone()).collect();
        assert_eq!(points, [(0, 2999.0 * 7.0)], "{selector}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(8),
        ..ProptestConfig::default()
    })]

    #[test]
    fn programs_give_the_same_numbers_by_columns_and_entry_by_entry(
        chances in proptest::collection::vec(any::<u64>(), 1..120),
        again in proptest::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 0..6),
        questions in proptest::collection::vec(any::<u64>(), 60),
        is_sealed in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let options = StoreOptions { commit_interval: Duration::from_millis(1), ..StoreOptions::default() };
        let store = Store::open(dir.path(), options).expect("opened");
        let records: Vec<(u64, u64)> = (0..).zip(chances).collect();
        commit(&store, &records);
        if is_sealed {
            let executor = Executor::new(store.steps(), dir.path().into(), Access::default(), Arc::default());
            executor.archive_now(&table(), None, &mut |_| {}).expect("sealed");
        }
        let again: Vec<_> = again.iter().map(|(at, chance)| (at.index(records.len()) as u64, *chance)).collect();
        if !again.is_empty() {
            commit(&store, &again);
        }
        let reader = Reader::open(dir.path()).expect("opened");
        let (stores, clock) = (Stores::local(&reader, &Archives::Skip), QuestionClock::start());
        let by_columns = StoredEntries::new(&stores, &clock, Visibility::default());
        let by_entries = OneByOne(StoredEntries::new(&stores, &clock, Visibility::default()));
        for question in questions {
            let chance = &mut Chance(question);
            let query = program(chance);
            let step = chance.pick(&[60, 60, 300, 7, 0]);
            let from = (DAY + 540 + chance.pick(&[0, 15, 45, 300])) * SECOND + chance.pick(&[0, 50]);
            let span = TimeSpan { from, to: from + chance.pick(&[0, 45, 600, 1200]) * SECOND };
            let steps = if step == 0 { Some(TimeSteps::at(span.to)) } else { TimeSteps::over(span, step * SECOND) };
            let steps = steps.expect("steps");
            let (columns, entries) = (answer(&by_columns, &query, steps), answer(&by_entries, &query, steps));
            prop_assert!(is_same(&columns, &entries), "{} {:?} {:?}\n{:?}\n{:?}", query, span, steps, columns, entries);
        }
    }
}
