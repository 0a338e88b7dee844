//! Columns answer what records answer one by one, in every state of a day.

use super::super::answer_budget::AnswerBudget;
use super::super::pipes::Pipeline;
use super::super::plan::pushed_down;
use super::super::stage::PipelineContext;
use super::super::{ANSWER_BYTES_MAX, AnswerItem, AnswerOptions, FullRecord, answer, count_answer, range_seconds};
use super::{GroupQuestion, SortQuestion};
use crate::{Archives, Filter, Grouping, Stores, select};
use daytable_archive::Access;
use daytable_lifecycle::Executor;
use daytable_logsql::effect::RowFlow;
use daytable_logsql::query::Function;
use daytable_logsql::{ParsedQuery, Pipe, Predicate};
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, Period, RowKey, TableName};
use daytable_model::record::{Field, Level, Record, Value};
use daytable_model::time::Ticks;
use daytable_platform::budget::MemoryBudget;
use daytable_platform::scratch::ScratchSpace;
use daytable_store::sealed::SealedSizes;
use daytable_store::{Ack, Reader, Store, StoreOptions, Submission};
use proptest::prelude::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

const INSTANCES: [&str; 3] = ["web-1", "web-2", "db~00"];

fn day() -> Ticks {
    Ticks::from_date(2026, 11, 21).expect("a date")
}

fn table() -> DayTable {
    DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, day())
}

/// A record of the day: its number, and what chance made of it.
#[derive(Clone, Copy, Debug)]
struct Made {
    number: u64,
    chance: u64,
    /// Whether fields have few values, each of one type, and no record has several rows: pages count such values.
    is_even: bool,
}

impl Made {
    fn pick<T: Copy>(&self, at: u32, of: &[T]) -> T {
        of[(self.chance >> at) as usize % of.len()]
    }

    fn trace(&self) -> String {
        format!("{:016x}", self.chance.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn add_to(&self, batch: &mut Batch) {
        let Made { number, chance, is_even } = *self;
        let level = Level::from_code(self.pick(0, &[0, 3, 3, 3, 5, 6]));
        let message = match chance >> 3 & 15 {
            0 if !is_even => "x timeout ".repeat(5000),
            1 => String::new(),
            2..6 => format!("request {} took {}ms", chance >> 7 & 15, chance >> 9 & 1023),
            6..9 => format!("timeout of db-{} after retry {} of 5", chance >> 7 & 3, chance >> 9 & 3),
            9 => "überschritten: Timeout".to_owned(),
            _ => self.pick(8, &["request handled", "card expired", "cache miss", "error=5"]).to_owned(),
        };
        let text = |text: String| Value::String(text.into());
        let status = match chance >> 11 & 15 {
            0..3 if is_even => Value::Int64(404),
            0 => text("500".into()),
            1 => text("none".into()),
            2 => Value::Double(500.0),
            _ => Value::Int64(self.pick(12, &[200, 200, 404, 500, 503])),
        };
        let mut fields = vec![
            ("status", status),
            ("path", text(format!("/api/v{}/items/{}", chance >> 15 & 1, chance >> 16 & 31))),
            ("trace", text(self.trace())),
            ("ip", text(format!("10.{}.{}.7", chance >> 20 & 1, chance >> 21 & 127))),
            ("user", text(self.pick(23, &["ann", "bob", "", "eve"]).into())),
            ("took", text(format!("{}ms", chance >> 26 & 255))),
            ("score", Value::Double((chance >> 28 & 63) as f64 / 8.0)),
            ("ok", Value::Boolean(chance >> 30 & 1 == 1)),
            ("http.method", text(self.pick(32, &["GET", "PUT"]).into())),
            ("level", text("beside".into())),
        ];
        fields.retain(|(name, _)| name.len() as u64 % 3 != chance >> 40 & 7);
        if chance >> 45 & 31 == 0 && !is_even {
            fields.extend((0..250).map(|_| ("more", Value::Int64(7))));
        }
        let fields = fields.into_iter().map(|(name, value)| Field { name: name.into(), value }).collect();
        let millis = if is_even { 100_000 } else { 400_000 };
        let time = day().plus(Duration::from_millis(number / 2 * millis));
        let arrived = match chance >> 50 & 7 {
            0 => Some(time.plus(Duration::from_secs(60 * (chance >> 53 & 255)))),
            1 => Some(day().plus(Duration::from_secs(7200 * (chance >> 53 & 15)))),
            _ => None,
        };
        let record = Record { arrived, level, message: message.into(), fields, ..Record::default() };
        daytable_model::entity::append(batch, RowKey::new(time, 7 + number % 2, number), "/var/log/app.log", &record);
    }
}

fn commit(store: &Store, records: &[Made]) {
    let mut batches: Vec<Batch> = INSTANCES.iter().map(|instance| Batch::new(table(), (*instance).into())).collect();
    let mut full = Vec::new();
    for record in records {
        let batch = &mut batches[record.number as usize % INSTANCES.len()];
        if batch.len() >= 5 {
            full.push(std::mem::replace(batch, Batch::new(table(), batch.partition.clone())));
        }
        record.add_to(batch);
    }
    full.extend(batches.into_iter().filter(|batch| !batch.is_empty()));
    let (done, is_done) = std::sync::mpsc::channel();
    let ack = Ack::new(move |committed| done.send(committed).expect("heard"));
    let queue = store.commit_queue();
    let submission = Submission { batches: full, epoch: queue.epoch(), ack, ..Submission::default() };
    queue.submit(submission).expect("taken");
    assert!(is_done.recv().expect("an answer"));
}

/// The answer, record by record.
fn by_rows(reader: &Reader, query: &ParsedQuery, options: &AnswerOptions) -> Vec<String> {
    let predicate = Predicate::new(&query.filter, options.now);
    let budget = AnswerBudget::new(MemoryBudget::unshared(ANSWER_BYTES_MAX).question());
    // A rate is of the seconds that the query itself names.
    let seconds = range_seconds(&pushed_down(&predicate, &options.filter), options.now);
    let mut pipeline =
        Pipeline::new(&query.pipes, &PipelineContext { now: options.now, seconds, budget, go_on: &|| true });
    let mut lines = Vec::new();
    let limit = options.filter.limit.unwrap_or(u64::MAX);
    let mut sink = |item: AnswerItem| {
        lines.push(serde_json::to_string(&item).expect("plain data"));
        if lines.len() as u64 == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let filter = Filter { limit: None, ..options.filter.clone() };
    select(&Stores::local(reader, &Archives::Skip), &filter, |record| {
        let record = FullRecord::new(record);
        match predicate.matches(&record) {
            true => pipeline.push(AnswerItem::Record(record.into()), &mut sink),
            false => ControlFlow::Continue(()),
        }
    })
    .expect("read");
    let _ = pipeline.finish(&mut sink);
    lines
}

/// The same answer with little memory: from a temporary file, or refused before its first line.
fn assert_bounded_alike(reader: &Reader, query: &ParsedQuery, options: &AnswerOptions, expected: &[String], bits: u32) {
    let options = AnswerOptions { bytes_max: 1 << bits, ..options.clone() };
    let mut lines = Vec::new();
    let report = answer(&Stores::local(reader, &Archives::Skip), query, &options, &|| true, &mut |item| {
        lines.push(serde_json::to_string(&item).expect("plain data"));
        ControlFlow::Continue(())
    });
    let report = report.expect("read");
    if report.incomplete().is_none() {
        assert!(lines == expected, "{query} in {} bytes: {lines:?}\ninstead of\n{expected:?}", options.bytes_max);
        return;
    }
    // A record alone, or the text of a group, may be larger; lists of fields and values are kept in memory.
    const RECORD_BITS: u32 = 18;
    let keeps = |pipe: &Pipe| match pipe {
        Pipe::Facets { .. } | Pipe::FieldNames { .. } => true,
        Pipe::Sort { .. } => bits < RECORD_BITS,
        Pipe::Stats { aggregates, by, .. } => {
            let keeps = |function: &Function| {
                matches!(
                    function,
                    Function::Values | Function::UniqValues | Function::RowAny | Function::RowMin | Function::RowMax
                )
            };
            !by.is_empty() && bits < RECORD_BITS || aggregates.iter().any(|of| keeps(&of.function))
        }
        _ => false,
    };
    assert!(
        report.over.is_some() && query.pipes.iter().any(keeps),
        "{query} in {} bytes: {report:?}",
        options.bytes_max
    );
    if query.pipes.iter().any(Pipe::needs_all) {
        assert_eq!(lines, Vec::<String>::new(), "{query} was refused, and has rows");
    }
}

fn by_columns(reader: &Reader, query: &ParsedQuery, options: &AnswerOptions) -> Vec<String> {
    let mut lines = Vec::new();
    let report = answer(&Stores::local(reader, &Archives::Skip), query, options, &|| true, &mut |item| {
        lines.push(serde_json::to_string(&item).expect("plain data"));
        ControlFlow::Continue(())
    });
    assert_eq!(report.expect("read").incomplete(), None);
    lines
}

const FILTERS: [&str; 50] = [
    "i(handled)",
    "i(ERROR)",
    "i(put)",
    "*",
    "status:=500",
    "status:>=500",
    "status:>404",
    "status:in(200,503)",
    "-status:*",
    "status:\"\"",
    "status:range[404,500]",
    "timeout",
    "Timeout",
    "i(timeout)",
    "*imeou*",
    "\"retry 2\"",
    "retr*",
    "qwertz",
    "5",
    "*7*",
    "error=5",
    "level:error",
    "level:>=warn",
    "-level:*",
    "instance:=web-1",
    "instance:web-*",
    "instance:db",
    "path:=\"/api/v1/items/7\"",
    "path:~\"items/1.$\"",
    "path:\"/api/v1\"*",
    "trace:~\"^0\"",
    "*0a*",
    "ip:ipv4_range(10.1.0.0/16)",
    "ip:=10.0.5.7",
    "user:=bob",
    "-user:bob",
    "user:\"\"",
    "took:>100ms",
    "score:>=4",
    "ok:=true",
    "http.method:=PUT",
    "_msg:=\"card expired\"",
    "_msg:\"\"",
    "_time:[2026-11-21T01:00:00Z, 2026-11-21T03:06:40Z)",
    "_arrived:[2026-11-21T02:00:00Z, 2026-11-21T09:00:00Z)",
    "_arrived:>=2026-11-22 timeout",
    "!_arrived:day_range[00:00, 12:00) level:error",
    "level:in(warn, error) instance:in(web-2, db)",
    "table:Log2026*",
    "-level:error -instance:=web-1",
];

const PIPES: [&str; 45] = [
    "",
    "",
    "",
    "| count()",
    "| stats by (status) count() n",
    "| stats by (user, level) count() n",
    "| stats by (instance) count() n, avg(score) a",
    "| stats by (_time:1h, status) count() n",
    "| stats sum(score) s, min(took) lo, max(took) hi",
    "| stats by (level) quantile(0.9, took) q",
    "| stats median(score) m, count_uniq(path) p",
    "| stats by (ok) count(user) u, count_empty(user) e, sum_len(path) l",
    "| stats count() if (status:>=500 timeout) bad, count() all",
    "| stats by (http.method, _time:1h) count() n, count() if (status:>=500) bad",
    "| stats by (status, level, instance) count() n, rate() r",
    "| stats by (user) count() if (ok:=true level:error) n",
    "| top 3 by (path)",
    "| top 5 by (ip, user)",
    "| uniq by (http.method)",
    "| uniq by (user) with hits",
    "| stats by (status:100) count() n",
    "| stats by (_msg) count() n | sort by (n desc, _msg) | limit 4",
    "| stats by (level_) count() n, max(status) m",
    "| stats by (source, table) max(_time) t",
    "| stats by (trace) count() n | limit 3",
    "| stats by (_arrived:1h, level) count() n, rate() r",
    "| stats by (instance) count() n, min(_arrived) a, max(_arrived) z, count_uniq(_arrived) u",
    "| uniq by (_arrived) limit 5",
    "| stats count() if (_arrived:<2026-11-21T05) early, last(_arrived) l",
    "| stats by (instance) count() n",
    "| stats by (_time:10m, level) count() n",
    "| stats by (level, instance, _time:1d) count() n",
    "| stats by (table, instance) count() n",
    "| field_names",
    "| facets",
    "| facets 2 max_values_per_field 6 max_value_len 20",
    "| facets keep_const_fields",
    "| stats first(user) f, last(user) l, any(path) a, row_any(ip) r",
    "| stats by (level) row_min(score, trace) lo, row_max(score, trace) hi",
    "| stats by (status) values(user) v, uniq_values(user) limit 3 u",
    "| stats by (status) uniq_values(user, path) v, uniq_values(message) limit 4 m",
    "| stats by (level) count(user, score) c, sum(took, score) s, avg(took, status) a, min(took, score) m, max(user, ip) x",
    "| stats by (user) count_uniq(status, level) u, count_uniq(trace) limit 5 w, count_empty(user, score) e, sum_len(path, ip) l, rate(user, score) r",
    "| stats by (_time:1h) first(source) f, last(score) l, any(user) a, row_any(message, level) r, row_min(score, _time, table) t",
    "| stats by (instance) quantile(0.3, took, score) q, first(user) if (status:>=500) f",
];

/// Pipes that others may follow.
const STEPS: [&str; 55] = [
    "pattern(message) as k",
    "delete message, source",
    "rename time as t",
    "fields user, message, status, path",
    "filter status:>=404",
    "filter level:error",
    "filter timeout",
    "filter user:=bob or score:>3",
    "filter -user:* path:\"api/v1\"",
    "filter instance:=web-1",
    "filter _arrived:>=2026-11-21T03",
    "math round(_arrived - _time, 1m) as s",
    "rename _arrived as who",
    "copy _arrived as k, status as _arrived",
    "filter s:>3",
    "filter k:PUT",
    "filter line:timeout",
    "math score * 2 as s",
    "math status / 4 as c, c + score as s",
    "math took / 2 as status",
    "math max(score, 3) default 1 as score",
    "format \"<http.method> <path>\" as k",
    "format if (status:>=500) \"bad <status>\" as user keep_original_fields",
    "extract \"timeout of db-<db> after\" from message",
    "extract_regexp \"items/(?P<item>[0-9]+)\" from path",
    "extract if (level:error) \"<k> <user>\" from message skip_empty_results",
    "replace (\"api\", \"x\") at path",
    "replace_regexp (\"[0-9]+\", \"N\") at message limit 1",
    "copy user as who, instance as k",
    "rename user as who, instance as item",
    "delete user, st*",
    "fields instance, level, path, status, score, user, time",
    "len(path) as l",
    "copy level as instance",
    "rename nothing as instance, score as _arrived",
    "rename message as level, level as message",
    "delete instance, _arrived",
    "copy user as k, k as user, _time as who",
    "format \"<_time> <instance>: <message>\" as message",
    "replace_regexp (\"e(.)\", \"$1e\") at level",
    "extract \"<a>:<b>:<c>\" from _time",
    "filter instance:web* -_arrived:>=2026-11-21T05",
    "filter _time:<2026-11-21T02",
    "filter -(s:>3 or k:PUT) user:*",
    "fields u*, instance, message, s*",
    "pattern(path) as path",
    "len(user) as status",
    "math score - score as s, s / s as c",
    "extract_regexp if (path:items) \"(?P<k>[a-z]+)$\" from user keep_original_fields",
    "stats by (instance, user) count() hits, min(_time) time, max(score) s",
    "uniq by (user, status)",
    "top 4 by (user, level)",
    "sort by (score)",
    "sort by (status desc, path) limit 9 offset 1",
    "limit 30 | offset 2 | sample 2",
];

/// Pipes that may be last.
const ENDS: [&str; 54] = [
    "stats by (pattern(message), level) count() n",
    "stats by (user, level) count() n, sum(s) t | pivot level",
    "stats by (_time:1h, status:100) count() n | pivot status",
    "sessions by (user) pause 40m",
    "gaps over 1h by (instance)",
    "sort by (pattern(message), trace desc) | fields trace, k",
    "uniq by (path) limit 3",
    "sort by (_time desc) limit 4 offset 1",
    "sort by (_arrived desc, trace) limit 5",
    "sort by (_arrived) limit 7 offset 2 | fields _arrived, time, trace",
    "stats by (_arrived:1h) count() n, min(s) m",
    "top 3 by (_arrived)",
    "stats by (k) count() n",
    "stats by (user) avg(s) a, sum(score) b",
    "stats by (instance) count() n, max(s) m, min(path) p",
    "stats by (db, item) count() n",
    "stats by (level) count() if (s:>5) n, count_uniq(k) u, count(who) w",
    "stats by (status:100, _time:1h) count() n, sum(l) l",
    "stats first(path) f, last(user) l, any(trace) a",
    "stats by (k) row_max(score, path) r",
    "stats by (k) first(s) f, last(l) t, uniq_values(user, s) u, count_uniq(s, user) d",
    "stats any(message, user) a, row_any(source, user) r, first(user) f",
    "stats by (path) count() n | filter n:>1 | stats count() c, sum(n) s",
    "stats by (trace) count() n | sort by (n desc, trace) | limit 4",
    "stats by (message) median(s) m",
    "top 3 by (path)",
    "top 4 by (k, user)",
    "uniq by (who)",
    "uniq by (s) with hits | filter hits:>2 | stats count() c",
    "field_values path",
    "sort by (s desc, score) limit 4",
    "sort by (score desc) | limit 5",
    "sort by (trace) | fields trace, user | limit 6",
    "sort by (_time) | offset 2 | limit 3",
    "sort by (k) rank as r | limit 5",
    "fields path, s, instance",
    "stats by (instance, who) count() n",
    "stats min(_time) a, max(level) b, min(instance) c, max(_arrived) d",
    "stats by (level) max(_msg) m, min(ip) i, quantile(0.7, s) q",
    "stats by (_time:30m) sum(s) s, avg(score) a, count_uniq(instance) u",
    "stats by (score:0.5, ok) count() n",
    "stats by (ip) count() n | sort by (n desc, ip desc) | limit 3 | math n * 2 as m",
    "stats by (user, k) values(status) v",
    "stats count() n, count_uniq(user, k) if (status:>300) u",
    "sort by (level desc, user, _time) limit 6",
    "sort by (instance, s desc) limit 5",
    "sort by (took) limit 5 | fields took, user",
    "sessions by (instance, level) pause 20m",
    "gaps over 30m by (user)",
    "uniq by (took, ok) limit 7",
    "field_values instance",
    "facets 3",
    "field_names",
    "count()",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Whatever was committed, committed again and in what pages; open, sealed, and with late records.
    #[test]
    fn columns_answer_what_records_answer(
        chances in proptest::collection::vec(any::<u64>(), 1..140),
        commits in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>()), 1..5),
        questions in proptest::collection::vec((0..FILTERS.len(), 0..FILTERS.len(), 0..PIPES.len(), 0u8..8, prop::option::of(1u64..20)), 30),
        composed in proptest::collection::vec((0..FILTERS.len(), proptest::collection::vec(0..STEPS.len(), 0..4), prop::option::weighted(0.8, 0..ENDS.len()), prop::option::of(1u64..20)), 50),
        is_sealed in any::<bool>(),
        is_even in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let options = StoreOptions { commit_interval: Duration::from_millis(1), ..StoreOptions::default() };
        let store = Store::open(dir.path(), options).expect("opened");
        let records: Vec<Made> = (0..).zip(&chances).map(|(number, chance)| Made { number, chance: *chance, is_even }).collect();
        commit(&store, &records);
        for (state, (from, to, changes)) in commits.iter().enumerate() {
            if is_sealed && state == 1 {
                let executor = Executor::new(store.steps(), dir.path().into(), Access::default(), Arc::default());
                executor.archive_now(&table(), None, &mut |_| {}).expect("sealed");
            }
            let (from, to) = (from.index(records.len()), to.index(records.len()));
            let again: Vec<Made> = records[from.min(to)..=from.max(to)]
                .iter()
                .map(|made| Made { chance: if *changes { made.chance.rotate_left(9) } else { made.chance }, ..*made })
                .collect();
            commit(&store, &again);
        }
        let reader = Reader::open(dir.path()).expect("opened").with_sealed_sizes(SealedSizes::SMALL);
        for (one, other, pipe, how, limit) in &questions {
            let trace = records[(one * 7 + other) % records.len()].trace();
            let part = &trace[one % 3..16 - other % 2];
            let (one, other, pipe) = (FILTERS[*one], FILTERS[*other], PIPES[*pipe]);
            let text = match how {
                0 => format!("{one} or {other} {pipe}"),
                1 => format!("{one} {other} {pipe}"),
                2 => format!("not ({one} {other}) {pipe}"),
                3 => format!("({one} or not {other}) _time:2026-11-21T02 {pipe}"),
                6 => format!("{trace} or {one} {other} {pipe}"),
                7 => format!("*{part}* {pipe}"),
                _ => format!("{one} {pipe}"),
            };
            let query = ParsedQuery::parse(&text).expect("a query");
            let mut options = AnswerOptions::at(Ticks::MAX);
            options.filter.limit = *limit;
            if *how == 5 {
                options.filter.level = Some(Level::Warn);
                options.filter.contains = Some("im".into());
            }
            let expected = by_rows(&reader, &query, &options);
            prop_assert_eq!(&by_columns(&reader, &query, &options), &expected, "{}", text);
            // Each question with little memory as well would take four times as long.
            if one.len().is_multiple_of(4) {
                assert_bounded_alike(&reader, &query, &options, &expected, [12, 16, 20][one.len() % 3]);
            }
        }
        for (filter, steps, end, limit) in &composed {
            let pipes = steps.iter().map(|step| STEPS[*step]).chain(end.map(|end| ENDS[end]));
            let text = pipes.fold(FILTERS[*filter].to_owned(), |text, pipe| format!("{text} | {pipe}"));
            let query = ParsedQuery::parse(&text).expect("a query");
            let mut options = AnswerOptions::at(Ticks::MAX);
            options.filter.limit = *limit;
            let expected = by_rows(&reader, &query, &options);
            prop_assert_eq!(&by_columns(&reader, &query, &options), &expected, "{} planned as {}", text, query.planned());
            if steps.len().is_multiple_of(2) {
                assert_bounded_alike(&reader, &query, &options, &expected, [12, 16, 20][filter % 3]);
            }
            if !query.pipes.is_empty() {
                let stores = Stores::local(&reader, &Archives::Skip);
                let (counts, _) = count_answer(&stores, &query, &options, Grouping::default(), &|| true).expect("counted");
                let counted: u64 = counts.iter().map(|count| count.records).sum();
                prop_assert_eq!(counted, expected.len() as u64, "{}", text);
            }
        }
    }
}

/// Commits batches at once.
fn submit(store: &Store, batches: Vec<Batch>) {
    let (done, is_done) = std::sync::mpsc::channel();
    let ack = Ack::awaited(move |committed| done.send(committed).expect("heard"));
    let queue = store.commit_queue();
    let submission = Submission { batches, epoch: queue.epoch(), ack, ..Submission::default() };
    queue.submit(submission).expect("taken");
    assert!(is_done.recv().expect("an answer"));
}

/// A store with the same 500 users in each of six days, two records of each user a day.
fn days_of_users(folder: &std::path::Path) -> Reader {
    let store = Store::open(folder, StoreOptions::default()).expect("opened");
    let batches = (0..6u32).map(|number| {
        let start = day().plus(Duration::from_secs(86_400) * number);
        let mut batch =
            Batch::new(DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, start), "web-1".into());
        for n in 0..1000u64 {
            let value = |text: String| Value::String(text.into());
            let fields = vec![
                Field { name: "user".into(), value: value(format!("user-{}", n % 500)) },
                Field {
                    name: "trace".into(),
                    value: value(format!("{:x}", (u64::from(number) * 1000 + n) * 0x9e37_79b9)),
                },
            ];
            let record = Record { message: "seen".into(), fields, ..Record::default() };
            let key = RowKey::new(start.plus(Duration::from_secs(n)), 7, n);
            daytable_model::entity::append(&mut batch, key, "/var/log/app.log", &record);
        }
        batch
    });
    submit(&store, batches.collect());
    Reader::open(folder).expect("opened")
}

/// A store with a page of 1000 records, each with an identifier that is stored apart from the other columns. Some have a
/// status of another type, and one has two values of it.
fn page_of_traces(folder: &std::path::Path) -> Reader {
    let store = Store::open(folder, StoreOptions::default()).expect("opened");
    let mut batch = Batch::new(table(), "web-1".into());
    for n in 0..1000u64 {
        let text = |text: String| Value::String(text.into());
        let trace = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let status =
            if n % 97 == 0 { text("500".into()) } else { Value::Int64(200 + 100 * (trace >> 60).cast_signed()) };
        let mut fields = vec![
            ("component", text(["db", "http", "cache"][trace as usize % 3].into())),
            ("path", text(format!("/items/{}", trace >> 55))),
            ("trace", text(format!("{trace:016x}{trace:016x}"))),
            ("took", Value::Int64((trace >> 50).cast_signed())),
            ("score", Value::Double((trace >> 52) as f64 / 8.0)),
            ("status", status),
        ];
        fields.retain(|(name, _)| *name != "path" || n % 5 > 0);
        if n == 500 {
            fields.push(("status", Value::Double(7.5)));
        }
        let fields = fields.into_iter().map(|(name, value)| Field { name: name.into(), value }).collect();
        let level = Level::from_code((n % 4) as u8);
        let record = Record { level, message: "seen".into(), fields, ..Record::default() };
        let key = RowKey::new(day().plus(Duration::from_secs(n)), 7, n);
        daytable_model::entity::append(&mut batch, key, "/var/log/app.log", &record);
    }
    submit(&store, vec![batch]);
    Reader::open(folder).expect("opened")
}

#[test]
fn pages_answer_with_and_without_the_columns_that_are_apart() {
    let dir = tempfile::tempdir().expect("a folder");
    let reader = page_of_traces(dir.path());
    for question in [
        "* | stats by (component) avg(took) a, sum(score) s, count() n",
        "* | stats by (component) quantile(0.9, took) q, max(took) hi, min(path) lo",
        "* | stats by (_time:5m, component) quantile(0.5, score) q",
        "* | stats by (level, path) count() n",
        "* | top 7 by (path)",
        "* | stats by (status) count() n",
        "* | stats by (component) sum(status) s",
        "* | stats by (trace) count() n",
        "* | stats by (component) count_uniq(trace) u, min(trace) lo",
        "* | stats by (component) count() if (trace:~\"^0\") n",
        "trace:~\"^0\" | stats by (component) avg(took) a",
        "level:warn | stats by (component) avg(took) a",
    ] {
        let query = ParsedQuery::parse(question).expect("a query");
        for level in [None, Some(Level::Info)] {
            let mut options = AnswerOptions::at(Ticks::MAX);
            options.filter.level = level;
            let (mut rows, mut columns) = (by_rows(&reader, &query, &options), by_columns(&reader, &query, &options));
            rows.sort();
            columns.sort();
            assert_eq!(columns, rows, "{question}");
        }
    }
}

/// A sealed day: instances with many records, of which some parts have many values of a field, and some with few records.
/// Some records came late, of one instance, if they `are_late`.
fn sealed_parts(folder: &std::path::Path, are_late: bool) -> Reader {
    let store =
        Store::open(folder, StoreOptions { commit_interval: Duration::from_millis(1), ..StoreOptions::default() });
    let store = store.expect("opened");
    let commit = |rows: &[(&str, std::ops::Range<u64>)]| {
        let batches = rows.iter().map(|(instance, numbers)| {
            let mut batch = Batch::new(table(), (*instance).into());
            for n in numbers.clone() {
                // In each second hundred, any number of codes; in the others two.
                let code = if n / 100 % 2 == 0 { n % 2 } else { n };
                let fields = vec![
                    Field { name: "code".into(), value: Value::Int64(code.cast_signed()) },
                    Field {
                        name: "component".into(),
                        value: Value::String(["db", "http"][n as usize / 50 % 2].into()),
                    },
                ];
                let level = Level::from_code((n % 3) as u8);
                let record = Record { level, message: "seen".into(), fields, ..Record::default() };
                // A source belongs to one instance.
                let source = u64::from(instance.as_bytes()[4]);
                let key = RowKey::new(day().plus(Duration::from_secs(60 * n)), source, n);
                daytable_model::entity::append(&mut batch, key, "/var/log/app.log", &record);
            }
            batch
        });
        submit(&store, batches.collect());
    };
    commit(&[("web-1", 0..400), ("web-2", 0..3), ("web-3", 1..3), ("web-4", 100..103), ("web-5", 50..450)]);
    let executor = Executor::new(store.steps(), folder.into(), Access::default(), Arc::default());
    executor.archive_now(&table(), None, &mut |_| {}).expect("sealed");
    if are_late {
        commit(&[("web-5", 120..130)]);
    }
    Reader::open(folder).expect("opened").with_sealed_sizes(SealedSizes::SMALL)
}

#[test]
fn parts_of_sealed_days_answer_with_and_without_their_numbers() {
    for are_late in [false, true] {
        let dir = tempfile::tempdir().expect("a folder");
        let reader = sealed_parts(dir.path(), are_late);
        for filter in [
            "*",
            "code:=1",
            "code:>1",
            "code:=77",
            "component:db",
            "_time:2026-11-21T02",
            "instance:=web-3",
            "level:warn",
        ] {
            for pipe in [
                "| uniq by (code, instance)",
                "| stats count() n",
                "| stats by (code) count() n",
                "| stats by (instance, component) count() n",
                "| stats by (component, level) count() n",
                "| stats by (_time:1h, component) count() n",
                "| stats by (instance) count() if (component:db) n",
                "| stats by (component) max(code) m",
                "| field_names",
                "| facets",
            ] {
                let text = format!("{filter} {pipe}");
                let query = ParsedQuery::parse(&text).expect("a query");
                let options = AnswerOptions::at(Ticks::MAX);
                let (mut rows, mut columns) =
                    (by_rows(&reader, &query, &options), by_columns(&reader, &query, &options));
                rows.sort();
                columns.sort();
                assert_eq!(columns, rows, "{text}, late: {are_late}");
            }
        }
    }
}

/// A sealed day in which the words of a phrase are in the message, in columns of several kinds, in properties without a column, in
/// values that are JSON, in records of several rows, and nowhere.
fn sealed_phrases(folder: &std::path::Path) -> Reader {
    let options = StoreOptions { commit_interval: Duration::from_millis(1), ..StoreOptions::default() };
    let store = Store::open(folder, options).expect("opened");
    let mut batches: Vec<Batch> = INSTANCES.iter().map(|instance| Batch::new(table(), (*instance).into())).collect();
    for n in 0..900u64 {
        let text = |text: &str| Value::String(text.to_owned().into());
        let message = match n % 11 {
            0 | 5 => "the request failed again".to_owned(),
            1 => format!("request {n} failed"),
            2 if n % 7 == 0 => format!("{} request failed {}", "x ".repeat(20_000), "y ".repeat(20_000)),
            _ => "handled".to_owned(),
        };
        let mut fields = vec![
            ("component".to_owned(), text(["db", "http"][n as usize / 50 % 2])),
            ("code".to_owned(), if n % 13 == 0 { text("request failed") } else { Value::Int64(n as i64 % 40) }),
            ("share".to_owned(), Value::Double(n as f64 / 8.0)),
            ("trace".to_owned(), text(&format!("{:032x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))),
        ];
        match n % 17 {
            3 => fields.push((format!("only.{n}"), text("a request failed"))),
            4 => fields.push(("body".to_owned(), text(r#"{"why":"request failed","n":[7]}"#))),
            5 => fields.push(("body".to_owned(), text("request\nfailed"))),
            _ => {}
        }
        let fields = fields.into_iter().map(|(name, value)| Field { name: name.into(), value }).collect();
        let level = Level::from_code((n % 5) as u8);
        let record = Record { level, message: message.into(), fields, ..Record::default() };
        // A source belongs to one instance.
        let instance = n as usize % INSTANCES.len();
        let key = RowKey::new(day().plus(Duration::from_secs(60 * n)), 7 + instance as u64, n);
        daytable_model::entity::append(&mut batches[instance], key, "/var/log/app.log", &record);
    }
    submit(&store, batches);
    let executor = Executor::new(store.steps(), folder.into(), Access::default(), Arc::default());
    executor.archive_now(&table(), None, &mut |_| {}).expect("sealed");
    Reader::open(folder).expect("opened")
}

#[test]
fn words_of_any_field_are_found_in_sealed_columns_of_any_kind() {
    let dir = tempfile::tempdir().expect("a folder");
    let whole = sealed_phrases(dir.path());
    let small = Reader::open(dir.path()).expect("opened").with_sealed_sizes(SealedSizes::SMALL);
    for filter in [
        "\"request failed\"",
        "\"request failed\" -code:*",
        "-\"request failed\"",
        "request or handled",
        "\"failed request\"",
        "\"request\\nfailed\"",
        "*equest*",
        "7",
        "\"12.5\"",
        "*312*",
        "why",
        "\"http\" \"request failed\"",
        "\"/var/log/app.log\"",
        "trace:~\"9e37\"",
        "trace:\"0000000000000000\"*",
        "code:\"request failed\"",
        "code:~\"1\"",
        "body:failed",
    ] {
        for pipe in ["| stats by (component) count() n", "| fields _time, code, component", "| limit 300", ""] {
            let text = format!("{filter} {pipe}");
            let query = ParsedQuery::parse(&text).expect("a query");
            let options = AnswerOptions::at(Ticks::MAX);
            let (mut rows, mut columns) = (by_rows(&whole, &query, &options), by_columns(&whole, &query, &options));
            let mut of_small = by_columns(&small, &query, &options);
            for found in [&mut rows, &mut columns, &mut of_small] {
                found.sort();
            }
            assert_eq!(columns, rows, "{text}");
            assert_eq!(of_small, rows, "{text}");
        }
    }
}

/// The answer with so much memory, and why it was cut.
fn bounded(reader: &Reader, question: &str, bytes_max: usize) -> (Vec<String>, Option<String>) {
    let query = ParsedQuery::parse(question).expect("a query");
    let options = AnswerOptions { bytes_max, ..AnswerOptions::at(Ticks::MAX) };
    let mut lines = Vec::new();
    let report = answer(&Stores::local(reader, &Archives::Skip), &query, &options, &|| true, &mut |item| {
        lines.push(serde_json::to_string(&item).expect("plain data"));
        ControlFlow::Continue(())
    });
    (lines, report.expect("read").incomplete())
}

/// The least power of two of bytes with which the answer is whole.
fn needed(reader: &Reader, question: &str) -> usize {
    let mut sizes = (10..28).map(|bits| 1usize << bits);
    sizes.find(|size| bounded(reader, question, *size).1.is_none()).expect("enough memory")
}

#[test]
fn the_same_groups_of_many_days_take_the_memory_of_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let reader = days_of_users(dir.path());
    for pipes in
        ["| stats by (user) count() n", "| stats by (user) sum(user) s", "| stats count_uniq(user) n", "| facets"]
    {
        let (day, days) = (format!("_time:2026-11-21 {pipes}"), format!("* {pipes}"));
        let bytes = needed(&reader, &day);
        assert_eq!(bounded(&reader, &days, 2 * bytes).1, None, "{days} with twice the {bytes} bytes of a day");
    }
}

/// Questions that keep more than they have memory for, each in its own way.
const LARGE_QUESTIONS: [&str; 20] = [
    "* | stats by (user, _time:1d) count_uniq(trace) n",
    "* | stats count_uniq(trace) n",
    "* | stats count_uniq(trace, user) n",
    "* | stats by (user) count_uniq(trace) n, count() c",
    "* | stats by (_time:1h) count_uniq(trace) n",
    "* | stats by (trace) count() n",
    "* | stats by (trace, user) count() n, max(trace) hi, median(trace) m | sort by (n, trace desc)",
    "* | stats by (trace) count() n | filter n:>0 | stats count() c",
    "* | stats by (trace) values(user) v, first(user) f, row_any(user) r",
    "* | stats by (user) uniq_values(trace) limit 3 u",
    "* | top 10 by (trace)",
    "* | top 10 by (trace) rank",
    "* | uniq by (trace)",
    "* | uniq by (trace) with hits limit 7",
    "* | field_values trace",
    "* | sort by (trace)",
    "* | join by (trace) (* | fields trace, user, message) prefix \"other_\"",
    "* | stats by (user) count() n | join by (user) (* | stats by (user, trace) count() m) | stats count() rows, sum(m) s",
    "* | stats by (trace, instance) count() n | pivot instance",
    "* | sort by (user desc, trace) offset 17 rank as r",
];

#[test]
fn what_outgrows_the_memory_is_answered_exactly_from_a_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let reader = days_of_users(dir.path());
    for question in LARGE_QUESTIONS {
        let query = ParsedQuery::parse(question).expect("a query");
        // Rows alone have nothing to join: that answer is the one of more memory.
        let expected = match query.pipes.iter().any(|pipe| matches!(pipe, Pipe::Join(_))) {
            true => bounded(&reader, question, 64 << 20).0,
            false => by_rows(&reader, &query, &AnswerOptions::at(Ticks::MAX)),
        };
        for bytes_max in [16 << 10, 100 << 10, 900 << 10] {
            let scratch = ScratchSpace::within(&dir.path().join("scratch"));
            let memory = MemoryBudget::unshared(bytes_max).with_scratch(scratch.clone());
            let options = AnswerOptions { memory, ..AnswerOptions::at(Ticks::MAX) };
            let (mut lines, mut written) = (Vec::new(), 0);
            let report = answer(&Stores::local(&reader, &Archives::Skip), &query, &options, &|| true, &mut |item| {
                written = written.max(scratch.used());
                lines.push(serde_json::to_string(&item).expect("plain data"));
                ControlFlow::Continue(())
            });
            assert_eq!(report.expect("read").incomplete(), None, "{question} in {bytes_max}");
            assert!(lines == expected, "{question} in {bytes_max}: {} lines for {}", lines.len(), expected.len());
            assert!(written > 0 || bytes_max > 100 << 10, "{question} in {bytes_max} was not written to a file");
            assert_eq!((scratch.used(), options.memory.used()), (0, 0), "{question}");
            let left = std::fs::read_dir(dir.path().join("scratch")).map_or(0, Iterator::count);
            assert_eq!(left, 0, "{question}");
        }
    }
}

/// A store with 24,000 records of one day, of which most have a client that no other one has.
fn day_of_clients(folder: &std::path::Path) -> Reader {
    let store = Store::open(folder, StoreOptions::default()).expect("opened");
    let batches = (0..24u64).map(|number| {
        let mut batch = Batch::new(table(), format!("web-{}", number % 4).into());
        for n in number * 1000..(number + 1) * 1000 {
            let client = if n % 4 == 0 { n % 4000 } else { n };
            let fields = vec![
                Field { name: "client".into(), value: Value::String(format!("10.{client}.7.9").into()) },
                Field { name: "took".into(), value: Value::Int64((n % 97).cast_signed()) },
            ];
            let record = Record { message: "seen".into(), fields, ..Record::default() };
            let key = RowKey::new(day().plus(Duration::from_secs(n)), 7, n);
            daytable_model::entity::append(&mut batch, key, "/var/log/app.log", &record);
        }
        batch
    });
    submit(&store, batches.collect());
    Reader::open(folder).expect("opened")
}

/// Threads pass their groups on again and again: to groups in memory, and once these are too many to the file.
#[test]
fn groups_that_are_mostly_new_are_each_counted_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let reader = day_of_clients(dir.path());
    for question in [
        "* | stats by (client) count() n, sum(took) s, max(took) m | sort by (n desc, client)",
        "* | stats by (client, took) count() n | stats count() groups, sum(n) records, max(n) most",
        "* | stats by (client) count() n, median(took) m | stats count() groups, sum(n) records, sum(m) s",
        "* | top 7 by (client)",
    ] {
        let query = ParsedQuery::parse(question).expect("a query");
        let expected = by_rows(&reader, &query, &AnswerOptions::at(Ticks::MAX));
        for bytes_max in [2 << 20, 5 << 20, 64 << 20] {
            let (lines, incomplete) = bounded(&reader, question, bytes_max);
            assert_eq!(incomplete, None, "{question} in {bytes_max}");
            assert!(lines == expected, "{question} in {bytes_max}: {} lines for {}", lines.len(), expected.len());
        }
    }
}

/// What pipes make of texts that do not come again is listed batch by batch, and has the types that it had.
#[test]
fn what_pipes_make_of_texts_that_are_mostly_new_is_what_they_make_of_records() {
    let dir = tempfile::tempdir().expect("a folder");
    let reader = day_of_clients(dir.path());
    for question in [
        r#"* | extract "10.<a>.<b>" from client | stats by (b) count() n, count_uniq(a) u, min(a) lo, max(a) hi, sum(a) s"#,
        r#"* | extract_regexp "10[.](?P<a>[0-9]+)[.]" from client | filter a:>23990 | stats by (a) count() n | sort by (a)"#,
        r#"* | extract "10.<a>.7" from client | format "<a>-<took>" as k | top 9 by (k)"#,
        r#"* | copy took as t | extract "10.<a>.7" from client | stats by (t, a) count() n | stats by (t) sum(n) s, min(a) m | sort by (t)"#,
        r#"* | extract "10.1<a>.7" from client | stats count(a) n, count_empty(a) e, count_uniq(a) u"#,
        r#"* | copy client as c | replace (".7.", "") at c | sort by (c desc) | limit 5 | fields c, took"#,
        r#"* | math took * 2 as d | format if (took:>50) "<d> <client>" as k | stats by (_time:1h) max(k) m, count(k) n"#,
        r#"* | extract "10.<a>.7" from client | stats by (instance) count() if (a:<1000) few, median(a) half"#,
    ] {
        let query = ParsedQuery::parse(question).expect("a query");
        let expected = by_rows(&reader, &query, &AnswerOptions::at(Ticks::MAX));
        assert!(!expected.is_empty(), "{question}");
        for bytes_max in [32 << 10, 64 << 20] {
            let (lines, incomplete) = bounded(&reader, question, bytes_max);
            assert_eq!(incomplete, None, "{question} in {bytes_max}");
            assert!(lines == expected, "{question} in {bytes_max}: {lines:?}\ninstead of\n{expected:?}");
        }
    }
}

#[test]
fn a_full_disk_refuses_an_answer_before_its_first_line() {
    let dir = tempfile::tempdir().expect("a folder");
    let reader = days_of_users(dir.path());
    for question in LARGE_QUESTIONS {
        let scratch = ScratchSpace::new(dir.path(), 20 << 10, 20 << 10);
        let memory = MemoryBudget::unshared(16 << 10).with_scratch(scratch.clone());
        let options = AnswerOptions { memory, ..AnswerOptions::at(Ticks::MAX) };
        let query = ParsedQuery::parse(question).expect("a query");
        let mut lines = 0;
        let report = answer(&Stores::local(&reader, &Archives::Skip), &query, &options, &|| true, &mut |_| {
            lines += 1;
            ControlFlow::Continue(())
        });
        let report = report.expect("read");
        assert!(
            report.over.is_some() && report.incomplete().is_some_and(|reason| reason.contains("narrow")),
            "{question}"
        );
        assert_eq!((lines, report.given), (0, 0), "{question}");
        assert_eq!((scratch.used(), options.memory.used()), (0, 0), "{question}");
    }
}

/// What follows groups needs no second copy of them, and the first rows of an order no others.
#[test]
fn composed_questions_take_the_memory_of_what_they_keep() {
    let dir = tempfile::tempdir().expect("a folder");
    let reader = days_of_users(dir.path());
    let greatest = bounded(&reader, "* | sort by (trace desc) | fields trace", 64 << 20).0.swap_remove(0);
    for (question, bytes_max, wanted) in [
        ("* | stats by (trace) count() n | filter n:>0 | stats count() c", 1 << 20, r#"{"c":6000}"#),
        ("* | stats by (trace, user) count() n | math n * 2 as m | stats sum(m) c", 2 << 20, r#"{"c":12000}"#),
        ("* | sort by (trace desc) | fields trace | limit 1", 64 << 10, &greatest),
    ] {
        assert_eq!(bounded(&reader, question, bytes_max), (vec![wanted.to_owned()], None), "{question}");
    }
}

#[test]
fn pipes_in_front_of_a_question_are_computed_on_columns() {
    for (text, is_columnar) in [
        ("* | math a / 1000 as s | stats by (b) avg(s) m", true),
        ("* | format \"<a> <b>\" as k | top 5 by (k)", true),
        ("* | extract \"x<n>\" from message | filter n:>3 | stats by (n, level) count() c", true),
        ("* | math a as x | filter x:>1 | stats count() if (x:>5) n, count() if (b:=1) m", true),
        ("* | rename a as b | replace (\"x\", \"y\") at b | uniq by (b)", true),
        ("* | fields a, instance | math a + 1 as b | stats by (instance) max(b) m", true),
        ("* | copy instance as i | field_values i", true),
        ("* | sort by (a desc, b) | fields a | limit 10", true),
        ("* | len(message) as l | sort by (l) | limit 10", true),
        // A row has no line, and a bare word is looked for in all of its columns.
        ("* | math a as x | stats by (line) count() n", false),
        ("* | math a as x | filter word | stats by (x) count() n", false),
        ("* | math a as x | stats count() if (word) n", false),
        // One column by two names, or by the beginning of its name.
        ("* | math a.b as x | math 1 as a_b | stats sum(x) s, sum(a.b) t", false),
        ("* | delete a* | stats by (ab) count() n", false),
        ("* | math a as x | stats values(x) v", false),
        ("* | limit 5 | stats by (a) count() n", false),
        ("* | sort by (a)", false),
        ("* | sort by (line) | limit 3", false),
    ] {
        let query = ParsedQuery::parse(text).expect(text).planned();
        let is_of_many = |pipe: &Pipe| !matches!(pipe.effect().flow, RowFlow::Each | RowFlow::Chosen);
        let at = query.pipes.iter().position(is_of_many).expect("a pipe of many rows");
        let budget = AnswerBudget::new(MemoryBudget::unshared(ANSWER_BYTES_MAX).question());
        let context = PipelineContext { now: Ticks::MAX, seconds: None, budget, go_on: &|| true };
        let mut pipeline = Pipeline::new(&query.pipes, &context);
        let (before, pipe) = (&query.pipes[..at], &query.pipes[at]);
        let groups = pipeline.grouping(at).and_then(|grouping| GroupQuestion::new(before, grouping, Ticks::MAX));
        let found = groups.is_some() || SortQuestion::new(before, pipe, Ticks::MAX).is_some();
        assert_eq!(found, is_columnar, "{text} planned as {query}");
    }
}
