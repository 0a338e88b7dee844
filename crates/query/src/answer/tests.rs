//! Answers, compared with those of an evaluator that knows nothing but a list of plain records.

use super::context::{ContextScope, context, groups_around};
use super::{AnswerItem, AnswerOptions, answer};
use crate::archived::Archives;
use crate::filter::Filter;
use crate::stores::Stores;
use crate::tests::Folder;
use daytable_archive::Access;
use daytable_lifecycle::Executor;
use daytable_logsql::ParsedQuery;
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, Period, RowKey, TableName};
use daytable_model::record::{Field, Level, Record, Value};
use daytable_model::time::Ticks;
use daytable_store::{Reader, Thresholds};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Seconds from the first to the last record: two days.
const SECONDS: u64 = 2 * 86_400;
const RECORDS: u64 = 700;

fn midnight() -> Ticks {
    Ticks::from_date(2026, 11, 21).expect("a date")
}

/// A record without any encoding.
#[derive(Clone, Debug)]
struct Plain {
    n: u64,
    /// Seconds after midnight.
    second: u64,
    level: Option<Level>,
    instance: &'static str,
    message: String,
    status: i64,
    user: Option<&'static str>,
    method: &'static str,
    took_ms: i64,
    score: f64,
}

/// The n-th record. Every ninth is late by half a day.
fn plain(n: u64) -> Plain {
    let mixed = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let pick = |shift: u32, of: u64| (mixed >> shift) % of;
    let at = |shift, of: usize| usize::try_from(pick(shift, of as u64)).expect("small");
    let arrived = n * SECONDS / RECORDS;
    Plain {
        n,
        second: if n % 9 == 4 && arrived > 43_200 { arrived - 43_200 } else { arrived },
        level: [None, Some(Level::Info), Some(Level::Info), Some(Level::Warn), Some(Level::Error)][at(7, 5)],
        instance: ["web-1", "web-2", "db"][at(11, 3)],
        message: match pick(17, 4) {
            0 => format!("timeout of db-{}", pick(20, 3)),
            1 => "payment refused: card expired".into(),
            2 => format!("größe {}", "x".repeat(at(40, 50))),
            _ => String::new(),
        },
        status: [200, 200, 301, 404, 500, 503][at(22, 6)],
        user: [None, Some("ann"), Some("bob"), Some("ann b.")][at(26, 4)],
        method: ["GET", "POST"][at(30, 2)],
        took_ms: i64::try_from(pick(33, 3000)).expect("small"),
        score: pick(36, 9) as f64 / 4.0,
    }
}

impl Plain {
    fn time(&self) -> Ticks {
        midnight().plus(Duration::from_secs(self.second))
    }

    fn key(&self) -> RowKey {
        RowKey::new(self.time(), 7, self.n)
    }

    fn table(&self) -> DayTable {
        let arrived = midnight().plus(Duration::from_secs(self.n * SECONDS / RECORDS));
        DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, arrived)
    }

    fn batch(&self) -> Batch {
        let mut batch = Batch::new(self.table(), self.instance.into());
        let field = |name: &'static str, value| Field { name: name.into(), value };
        let mut fields = vec![
            field("n", Value::Int64(i64::try_from(self.n).expect("small"))),
            field("status", Value::Int64(self.status)),
            field("http.method", Value::String(self.method.into())),
            field("took", Value::String(format!("{}ms", self.took_ms).into())),
            field("score", Value::Double(self.score)),
        ];
        fields.extend(self.user.map(|user| field("user", Value::String(user.into()))));
        let message = self.message.as_str().into();
        let record = Record { time: Some(self.time()), level: self.level, message, fields, ..Record::default() };
        daytable_model::entity::append(&mut batch, self.key(), "/var/log/app.log", &record);
        batch
    }

    /// The value of a group.
    fn group(&self, field: &str) -> Json {
        match field {
            "status" => json!(self.status),
            "user" => json!(self.user),
            "instance" => json!(self.instance),
            "level" => json!(self.level.map(Level::name)),
            "http.method" => json!(self.method),
            "_time:6h" => json!(midnight().plus(Duration::from_secs(self.second / 21_600 * 21_600)).to_string()),
            _ => panic!("{field}"),
        }
    }
}

/// Each filter with its meaning.
type Meaning = Arc<dyn Fn(&Plain) -> bool>;

#[derive(Clone)]
struct Question {
    text: String,
    meaning: Meaning,
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

fn question(text: impl Into<String>, meaning: impl Fn(&Plain) -> bool + 'static) -> Question {
    Question { text: text.into(), meaning: Arc::new(meaning) }
}

/// The words of a text.
fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').collect()
}

/// The texts of a record in which a bare word is looked for.
fn texts(plain: &Plain) -> Vec<String> {
    let score = serde_json::to_string(&plain.score).expect("a number");
    let numbers = [plain.n.to_string(), plain.status.to_string(), format!("{}ms", plain.took_ms), score];
    let user = plain.user.map(str::to_owned);
    numbers.into_iter().chain(user).chain([plain.method.to_owned(), plain.message.clone()]).collect()
}

fn filter() -> impl Strategy<Value = Question> {
    let leaf = prop_oneof![
        Just(question("*", |_| true)),
        (0usize..4, -1i64..600).prop_map(|(operator, n)| {
            let text = format!("status:{}{n}", [">", ">=", "<", "<="][operator]);
            question(text, move |r| [r.status > n, r.status >= n, r.status < n, r.status <= n][operator])
        }),
        prop::sample::select(&[200i64, 404, 7][..])
            .prop_map(|n| question(format!("status:={n}"), move |r| r.status == n)),
        Just(question("status:in(500, 503)", |r| [500, 503].contains(&r.status))),
        Just(question("status:range[301, 500)", |r| (301..500).contains(&r.status))),
        (0i64..3000).prop_map(|ms| question(format!("took:>={ms}ms"), move |r| r.took_ms >= ms)),
        Just(question("took:<1s", |r| r.took_ms < 1000)),
        Just(question("score:<1.25", |r| r.score < 1.25)),
        Just(question("score:=0.5", |r| r.score == 0.5)),
        prop::sample::select(&["ann", "bob", "eve"][..])
            .prop_map(|name| question(format!("user:={name}"), move |r| r.user == Some(name))),
        Just(question("user:in(bob, eve)", |r| r.user == Some("bob"))),
        Just(question("_msg:contains_any(refused, absent)", |r| words(&r.message).contains(&"refused"))),
        Just(question("user:ann", |r| r.user.is_some_and(|user| words(user).contains(&"ann")))),
        Just(question("user:*", |r| r.user.is_some())),
        Just(question("user:\"\"", |r| r.user.is_none())),
        Just(question("user:<b", |r| r.user.is_some_and(|user| user < "b"))),
        Just(question("http.method:POST", |r| r.method == "POST")),
        Just(question("http.method:i(post)", |r| r.method == "POST")),
        Just(question("level:>=warn", |r| r.level >= Some(Level::Warn))),
        Just(question("level:<error", |r| r.level.is_some_and(|level| level < Level::Error))),
        Just(question("level:info", |r| r.level == Some(Level::Info))),
        Just(question("level:\"\"", |r| r.level.is_none())),
        Just(question("instance:=web-1", |r| r.instance == "web-1")),
        Just(question("instance:web-*", |r| r.instance.starts_with("web-"))),
        Just(question("_msg:refused", |r| words(&r.message).contains(&"refused"))),
        Just(question("_msg:\"card expired\"", |r| r.message.contains("card expired"))),
        Just(question("message:~\"db-[01]$\"", |r| r.message.ends_with("db-0") || r.message.ends_with("db-1"))),
        Just(question("message:\"\"", |r| r.message.is_empty())),
        Just(question("*imeou*", |r| texts(r).iter().any(|text| text.contains("imeou")))),
        prop::sample::select(&["timeout", "größe", "200", "404", "ann", "GET", "imeout", "nothing"][..])
            .prop_map(|word| question(word, move |r| texts(r).iter().any(|text| words(text).contains(&word)))),
        (0..=SECONDS, 0..=SECONDS).prop_map(|(from, to)| {
            let at = |second| midnight().plus(Duration::from_secs(second));
            question(format!("_time:[{},{})", at(from), at(to)), move |r| (from..to).contains(&r.second))
        }),
        Just(question("_time:2026-11-21T08", |r| r.second / 3600 == 8)),
        Just(question("_time:1d", |r| r.second >= SECONDS - 86_400)),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        let joined = |word: &'static str, all: bool, parts: Vec<Question>| {
            let text = parts.iter().map(|part| format!("({})", part.text)).collect::<Vec<_>>().join(word);
            question(text, move |r| match all {
                true => parts.iter().all(|part| (part.meaning)(r)),
                false => parts.iter().any(|part| (part.meaning)(r)),
            })
        };
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(move |parts| joined(" ", true, parts)),
            prop::collection::vec(inner.clone(), 2..4).prop_map(move |parts| joined(" or ", false, parts)),
            inner.prop_map(|part| question(format!("!({})", part.text), move |r| !(part.meaning)(r))),
        ]
    })
}

/// The pipes of a question, and the lines of its answer from the matching records, newest first.
type Answerer = fn(&[Plain], &[&'static str]) -> Vec<String>;

fn groups<'p>(records: &'p [Plain], by: &[&'static str]) -> BTreeMap<String, Vec<&'p Plain>> {
    let mut groups: BTreeMap<String, Vec<&Plain>> = BTreeMap::new();
    for record in records {
        let key: Vec<String> = by.iter().map(|field| format!("{:?}:{}", column(field), record.group(field))).collect();
        groups.entry(key.join(",")).or_default().push(record);
    }
    groups
}

fn column<'f>(field: &&'f str) -> &'f str {
    field.strip_suffix(":6h").unwrap_or(field)
}

/// A row of the group's columns and more.
fn row(key: &str, more: &str) -> String {
    let comma = if key.is_empty() || more.is_empty() { "" } else { "," };
    format!("{{{key}{comma}{more}}}")
}

const PIPES: [(&str, bool, Answerer); 9] = [
    ("", true, |records, _| records.iter().map(|r| r.n.to_string()).collect()),
    ("limit 7", true, |records, _| records.iter().take(7).map(|r| r.n.to_string()).collect()),
    ("offset 3 | limit 5", true, |records, _| records.iter().skip(3).take(5).map(|r| r.n.to_string()).collect()),
    ("sort by (status desc, n) limit 9", true, |records, _| {
        let mut sorted: Vec<&Plain> = records.iter().collect();
        sorted.sort_by_key(|r| (-r.status, r.n));
        sorted.iter().take(9).map(|r| r.n.to_string()).collect()
    }),
    ("filter user:* status:>300", true, |records, _| {
        records.iter().filter(|r| r.user.is_some() && r.status > 300).map(|r| r.n.to_string()).collect()
    }),
    (
        "stats by (BY) count() records, sum(status) s, min(took) lo, count_uniq(user) u, count() if (status:>=500) bad",
        false,
        |records, by| {
            let mut groups = groups(records, by);
            if by.is_empty() {
                groups.entry(String::new()).or_default();
            }
            let row = |(key, of): (&String, &Vec<&Plain>)| {
                let sum = if of.is_empty() { json!(null) } else { json!(of.iter().map(|r| r.status).sum::<i64>()) };
                let least = of.iter().map(|r| r.took_ms).min().map(|ms| format!("{ms}ms"));
                let users: BTreeSet<_> = of.iter().filter_map(|r| r.user).collect();
                let bad = of.iter().filter(|r| r.status >= 500).count();
                let more = format!(
                    "\"records\":{},\"s\":{sum},\"lo\":{},\"u\":{},\"bad\":{bad}",
                    of.len(),
                    json!(least),
                    users.len()
                );
                row(key, &more)
            };
            groups.iter().map(row).collect()
        },
    ),
    ("stats by (BY) count() records | filter records:>20", false, |records, by| {
        let mut groups = groups(records, by);
        groups.retain(|_, of| of.len() > 20);
        groups.iter().map(|(key, of)| row(key, &format!("\"records\":{}", of.len()))).collect()
    }),
    ("uniq by (BY) with hits", false, |records, by| {
        groups(records, by).iter().map(|(key, of)| row(key, &format!("\"hits\":{}", of.len()))).collect()
    }),
    ("stats quantile(0.9, took) p, max(n) last", false, |records, _| {
        let mut all: Vec<i64> = records.iter().map(|r| r.took_ms).collect();
        all.sort();
        let at = (0.9 * all.len() as f64) as usize;
        let shown = |ms: &i64| daytable_logsql::unit::show_duration(ms * 1_000_000);
        let quantile = all.get(at.min(all.len().saturating_sub(1))).map(shown);
        vec![format!("{{\"p\":{},\"last\":{}}}", json!(quantile), json!(records.iter().map(|r| r.n).max()))]
    }),
];

/// Fields to group by. Those with a step come last, because only `stats` takes steps.
const GROUPS: [&[&str]; 5] =
    [&["status"], &["user"], &["instance", "level"], &["_time:6h"], &["http.method", "_time:6h", "user"]];

/// The answer as lines: the numbers of records, or rows as JSON.
fn answered(stores: &Stores<'_>, text: &str) -> Vec<String> {
    let query = ParsedQuery::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let now = midnight().plus(Duration::from_secs(SECONDS));
    let mut lines = Vec::new();
    let report = answer(stores, &query, &AnswerOptions::at(now), &|| true, &mut |item| {
        lines.push(match &item {
            AnswerItem::Record(record) => record.record().row_key.position().to_string(),
            AnswerItem::Row(row) => serde_json::to_string(row).expect("plain data"),
        });
        ControlFlow::Continue(())
    })
    .unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(report.incomplete(), None, "{text}");
    lines
}

/// Any question gives the answer of plain records: of open days, sealed ones, and days that are only archives.
#[test]
fn answers_are_those_of_plain_records_in_every_state_of_a_day() {
    let folder = Folder::new();
    let mut all: Vec<Plain> = (0..RECORDS).map(plain).collect();
    for records in all.chunks(100) {
        folder.commit(records.iter().map(Plain::batch).collect());
    }
    all.sort_by_key(Plain::key);
    let (first, second) = (plain(0).table(), plain(RECORDS - 1).table());
    let place = tempfile::tempdir().expect("a folder");
    let url = format!("file://{}", place.path().display());
    let archive = |table: &DayTable| {
        let executor = Executor::new(folder.store.steps(), folder.dir.path().into(), Access::default(), Arc::default());
        executor.archive_now(table, Some(&url), &mut |_| {}).expect("archived");
    };
    let steps: [(&str, &dyn Fn()); 4] = [
        ("open", &|| {}),
        ("sealed and open", &|| archive(&first)),
        ("archived and sealed", &|| {
            archive(&second);
            folder.store.steps().drop_table(&first).expect("dropped");
        }),
        ("archived", &|| folder.store.steps().drop_table(&second).expect("dropped")),
    ];
    let mut runner = TestRunner::default();
    for (state, step) in steps {
        step();
        let (reader, archives) = (folder.reader(), Archives::Read(Access::default()));
        let stores = Stores::local(&reader, &archives);
        for case in 0..120 {
            let filter = filter().new_tree(&mut runner).expect("a question").current();
            let (pipes, is_ordered, answerer) = PIPES[case % PIPES.len()];
            let groups = if pipes.starts_with("uniq") { &GROUPS[..3] } else { &GROUPS[..] };
            let by = groups[case / PIPES.len() % groups.len()];
            let pipes = pipes.replace("BY", &by.join(", "));
            let text = if pipes.is_empty() { filter.text.clone() } else { format!("{} | {pipes}", filter.text) };
            let matching: Vec<Plain> = all.iter().filter(|record| (filter.meaning)(record)).cloned().collect();
            let (mut wanted, mut found) = (answerer(&matching, by), answered(&stores, &text));
            if !is_ordered {
                wanted.sort();
                found.sort();
            }
            assert_eq!(found, wanted, "{state}: {text}");
        }
    }
}

/// What is asked of records of which some are committed meanwhile.
struct AskedWhile<'a> {
    reader: Reader,
    /// All records in the order of their commits.
    order: &'a [Plain],
    /// How many of them are submitted, and how many are committed.
    submitted: &'a AtomicUsize,
    committed: &'a AtomicUsize,
}

impl AskedWhile<'_> {
    /// Asks, and gives the answer with the matching records that were committed before and those submitted until after.
    fn ask<'o>(&'o self, filter: &Question, pipes: &str) -> (Vec<String>, Vec<&'o Plain>, Vec<&'o Plain>) {
        let matching = |count: usize| self.order[..count].iter().filter(|record| (filter.meaning)(record)).collect();
        let archives = Archives::Read(Access::default());
        let before = matching(self.committed.load(Ordering::SeqCst));
        let found = answered(&Stores::local(&self.reader, &archives), &format!("{}{pipes}", filter.text));
        (found, before, matching(self.submitted.load(Ordering::SeqCst)))
    }

    /// The newest records, at most `limit`: no record of before is missing, and each is there once and in order.
    fn ask_for_records(&self, filter: &Question, limit: usize) {
        let (found, before, after) = self.ask(filter, &format!(" | limit {limit}"));
        let numbers: Vec<u64> = found.iter().map(|n| n.parse().expect("a number")).collect();
        let keys: Vec<RowKey> = numbers
            .iter()
            .map(|n| after.iter().find(|record| record.n == *n).expect("a matching record").key())
            .collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{}: {numbers:?}", filter.text);
        let is_whole = numbers.len() < limit;
        let missing = before.iter().find(|record| {
            !numbers.contains(&record.n) && (is_whole || keys.last().is_some_and(|last| record.key() < *last))
        });
        assert!(missing.is_none(), "{}: {missing:?} is not in {numbers:?}", filter.text);
    }

    /// Each group has as many records as were committed before or more, and no more than were submitted.
    fn ask_for_counts(&self, filter: &Question, by: &str) {
        let (found, before, after) = self.ask(filter, &format!(" | stats by ({by}) count() records"));
        let counts = |records: Vec<&Plain>| {
            let mut counts = BTreeMap::<String, u64>::new();
            records.iter().for_each(|record| *counts.entry(record.group(by).to_string()).or_default() += 1);
            counts
        };
        let (before, after) = (counts(before), counts(after));
        let mut groups = BTreeSet::new();
        for row in &found {
            let row: Json = serde_json::from_str(row).expect("a row");
            let (group, records) = (row[by].to_string(), row["records"].as_u64().expect("a number"));
            let bounds = before.get(&group).copied().unwrap_or(0)..=after.get(&group).copied().unwrap_or(0);
            assert!(bounds.contains(&records), "{} by {by}: {records} of {group}, not {bounds:?}", filter.text);
            assert!(groups.insert(group), "{}: {found:?}", filter.text);
        }
        assert!(
            before.keys().all(|group| groups.contains(group)),
            "{} by {by}: {found:?} lacks {before:?}",
            filter.text
        );
    }
}

/// While records are committed, and their pages merged, sealed, archived and dropped, answers have all that was
/// committed before the question, and nothing twice.
#[test]
fn answers_are_right_while_days_change() {
    let at_once = Thresholds {
        settled_after: Duration::ZERO,
        run_pages_min: 4,
        run_bytes_min: 4 << 10,
        split_after: Duration::ZERO,
        split_at_last: Duration::from_millis(20),
        replace_after: Duration::from_millis(20),
        ..Thresholds::default()
    };
    let folder = Folder::with(at_once);
    let (first, second) = (plain(0).table(), plain(RECORDS - 1).table());
    // Some records of the first day come after it was sealed.
    let (mut order, rest): (Vec<Plain>, Vec<Plain>) =
        (0..RECORDS).map(plain).partition(|record| record.table() == first && record.n % 11 != 3);
    let of_first = order.len();
    order.extend(rest);
    let place = tempfile::tempdir().expect("a folder");
    let url = format!("file://{}", place.path().display());
    let archive = |table: &DayTable| {
        let executor = Executor::new(folder.store.steps(), folder.dir.path().into(), Access::default(), Arc::default());
        executor.archive_now(table, Some(&url), &mut |_| {}).expect("archived");
    };
    let (submitted, committed, asked) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let is_over = AtomicBool::new(false);
    // Until this many more questions were answered: then days change while questions are asked.
    let wait = |questions: usize| {
        let until = asked.load(Ordering::SeqCst) + questions;
        while asked.load(Ordering::SeqCst) < until && !is_over.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    };
    let commit = |records: std::ops::Range<usize>| {
        for at in records.clone().step_by(8) {
            let some = at..records.end.min(at + 8);
            submitted.store(some.end, Ordering::SeqCst);
            folder.commit(order[some.clone()].iter().map(Plain::batch).collect());
            committed.store(some.end, Ordering::SeqCst);
            wait(1);
        }
    };
    // Ends the askers when the changes end, or fail.
    struct EndsWith<'b>(&'b AtomicBool);
    impl Drop for EndsWith<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (order, submitted, committed) = (&order, &submitted, &committed);
            let (is_over, asked) = (&is_over, &asked);
            let reader = folder.reader();
            scope.spawn(move || {
                let _ends = EndsWith(is_over);
                let questions = AskedWhile { reader, order, submitted, committed };
                let mut runner = TestRunner::default();
                for case in thread.. {
                    let is_last = is_over.load(Ordering::SeqCst);
                    let filter = filter().new_tree(&mut runner).expect("a question").current();
                    match case % 5 {
                        0 => questions.ask_for_records(&filter, usize::MAX >> 16),
                        1 => questions.ask_for_records(&filter, 7),
                        2 => questions.ask_for_counts(&filter, "status"),
                        3 => questions.ask_for_counts(&filter, "instance"),
                        _ => questions.ask_for_counts(&question("*", |_| true), "level"),
                    }
                    asked.fetch_add(1, Ordering::SeqCst);
                    if is_last {
                        break;
                    }
                }
            });
        }
        let _ends = EndsWith(&is_over);
        commit(0..of_first);
        archive(&first);
        wait(10);
        commit(of_first..order.len() - 40);
        archive(&first);
        wait(10);
        folder.store.steps().drop_table(&first).expect("dropped");
        commit(order.len() - 40..order.len());
        archive(&second);
        wait(10);
        folder.store.steps().drop_table(&second).expect("dropped");
        wait(10);
    });
}

#[test]
fn an_answer_that_is_cut_says_so() {
    let folder = Folder::new();
    folder.commit((0..RECORDS).map(|n| plain(n).batch()).collect());
    let reader = folder.reader();
    let stores = Stores::local(&reader, &Archives::Skip);
    let small = AnswerOptions { bytes_max: 10_000, ..AnswerOptions::at(midnight()) };
    for pipes in ["facets", "stats values(n)", "stats uniq_values(n)"] {
        let query = ParsedQuery::parse(&format!("* | {pipes}")).expect("a query");
        let report = answer(&stores, &query, &small, &|| true, &mut |_| ControlFlow::Continue(())).expect("read");
        assert!(report.cut.is_some_and(|cut| cut.contains("not whole")), "{pipes}");
        assert_eq!(report.given, 0, "{pipes} was refused, and has rows");
    }
    let late = AnswerOptions { time_limit: Some(Duration::ZERO), ..AnswerOptions::at(midnight()) };
    let query = ParsedQuery::parse("nothing | stats count()").expect("a query");
    let report = answer(&stores, &query, &late, &|| true, &mut |_| ControlFlow::Continue(())).expect("read");
    assert!(report.cut.is_some_and(|cut| cut.contains("time limit")));
    let limited =
        AnswerOptions { filter: Filter { limit: Some(2), ..Filter::default() }, ..AnswerOptions::at(midnight()) };
    let query = ParsedQuery::parse("* | uniq by (status)").expect("a query");
    let report = answer(&stores, &query, &limited, &|| true, &mut |_| ControlFlow::Continue(())).expect("read");
    assert_eq!((report.given, report.cut), (2, None));
}

/// Records are read in pieces of the size of what is wanted. Where pipes leave records out, that is not the limit.
#[test]
fn a_limit_behind_pipes_that_leave_records_out_does_not_say_how_many_records_are_wanted() {
    use super::{WantedRecords, wanted_records};
    for (query, limit, wanted) in [
        ("*", None, WantedRecords::All),
        ("*", Some(100), WantedRecords::Newest(100)),
        ("a | limit 5 | filter b:1", Some(100), WantedRecords::Newest(5)),
        ("a | offset 20 | limit 5", Some(100), WantedRecords::Newest(25)),
        ("a | offset 20", Some(100), WantedRecords::Newest(120)),
        ("a | copy b as c | limit 7 | stats count() n", Some(100), WantedRecords::Newest(7)),
        ("a | extract \"<n> \" from message | filter n:=1", Some(100), WantedRecords::UntilEnough),
        ("a | sample 1000", Some(100), WantedRecords::UntilEnough),
        ("a | sample 1000 | limit 5", None, WantedRecords::UntilEnough),
        ("a | limit 500 | sample 1000 | limit 5", None, WantedRecords::Newest(500)),
        ("a | join by (n) (b)", Some(100), WantedRecords::Newest(100)),
        ("a | join by (n) (b) inner", Some(100), WantedRecords::UntilEnough),
        ("a | sample 1000 | stats count() n", Some(100), WantedRecords::All),
        ("a | sort by (n)", Some(100), WantedRecords::All),
    ] {
        let parsed = ParsedQuery::parse(query).expect("a query");
        assert_eq!(wanted_records(&parsed, limit), wanted, "{query} {limit:?}");
    }
}

#[test]
fn the_context_of_a_record_is_in_the_order_of_its_source_across_tables() {
    // Every fifth record has a time that is some minutes too early.
    let disordered = |n: u64| {
        let second = (n * SECONDS / RECORDS).saturating_sub(if n % 5 == 2 { 500 } else { 0 });
        Plain { second, ..plain(n) }
    };
    let folder = Folder::new();
    folder.commit((0..RECORDS).map(|n| disordered(n).batch()).collect());
    let reader = folder.reader();
    let stores = Stores::local(&reader, &Archives::Skip);
    let numbers = |records: &[crate::StoredRecord]| -> Vec<u64> {
        records.iter().map(|record| record.row_key.position()).collect()
    };
    for n in [0, 2, 5, 7, RECORDS / 2 - 1, RECORDS / 2, RECORDS - 2] {
        let asked = disordered(n);
        let (found, _) =
            context(&stores, &asked.table(), asked.instance, asked.key(), 4, 3, ContextScope::Source).expect("read");
        let found = found.expect("the record");
        let same = |m: &u64| plain(*m).instance == asked.instance;
        let mut before: Vec<u64> = (0..n).rev().filter(same).take(4).collect();
        before.reverse();
        assert_eq!(numbers(&found.before), before, "before {n}");
        assert_eq!(numbers(&found.after), (n + 1..RECORDS).filter(same).take(3).collect::<Vec<_>>(), "after {n}");
        assert_eq!(found.record.row_key, asked.key());
    }
    let (none, _) =
        context(&stores, &plain(0).table(), "nowhere", plain(0).key(), 1, 1, ContextScope::Source).expect("read");
    assert!(none.is_none());
}

/// A record of the n-th line that three files and a connection of two instances wrote, by turns. Several have one time.
fn interleaved(n: u64) -> (DayTable, &'static str, u64, RowKey) {
    let (instance, source) = [("web-1", 3), ("web-1", 1), ("web-1", 2), ("web-1", 1), ("db", 4)][n as usize % 5];
    // Over midnight, some four records a second.
    let time = midnight().plus(Duration::from_secs(86_400 - 15 + n / 4));
    (
        DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, time),
        instance,
        source,
        RowKey::new(time, source, n),
    )
}

/// The groups of a list, as grep makes them: each wanted line with those around it; lines that touch are one group.
fn grouped(list: &[RowKey], is_wanted: impl Fn(&RowKey) -> bool, before: usize, after: usize) -> Vec<Vec<RowKey>> {
    let mut groups: Vec<Vec<RowKey>> = Vec::new();
    let mut end = None;
    for (at, key) in list.iter().enumerate() {
        let from = at.saturating_sub(after);
        let until = (at + before + 1).min(list.len());
        if !list[from..until].iter().any(&is_wanted) {
            continue;
        }
        if end == Some(at) {
            groups.last_mut().expect("a group").push(*key);
        } else {
            groups.push(vec![*key]);
        }
        end = Some(at + 1);
    }
    groups
}

#[test]
fn neighbours_of_a_source_and_of_an_instance_are_those_that_grep_would_print() {
    const LINES: u64 = 120;
    let folder = Folder::new();
    let batches = |lines: std::ops::Range<u64>| {
        lines
            .map(|n| {
                let (table, instance, source, key) = interleaved(n);
                let mut batch = Batch::new(table, instance.into());
                let record =
                    Record { time: Some(key.time()), message: format!("line {n}").into(), ..Record::default() };
                daytable_model::entity::append(&mut batch, key, &format!("/var/log/{source}.log"), &record);
                batch
            })
            .collect()
    };
    (0..LINES).step_by(40).for_each(|from| folder.commit(batches(from..from + 40)));
    let first = interleaved(0).0;
    let archived = tempfile::tempdir().expect("a folder");
    let url = format!("file://{}", archived.path().display());
    let archive = || {
        let executor = Executor::new(folder.store.steps(), folder.dir.path().into(), Access::default(), Arc::default());
        executor.archive_now(&first, Some(&url), &mut |_| {}).expect("archived");
    };
    let steps: [(&str, &dyn Fn()); 3] = [
        ("open", &|| ()),
        ("sealed", &archive),
        ("archived", &|| folder.store.steps().drop_table(&first).expect("dropped")),
    ];
    for (state, step) in steps {
        step();
        let (reader, archives) = (folder.reader(), Archives::Read(Access::default()));
        let stores = Stores::local(&reader, &archives);
        let mut all = Vec::new();
        crate::select(&stores, &Filter::default(), |record| {
            all.push(record);
            ControlFlow::Continue(())
        })
        .expect("read");
        assert_eq!(all.len(), 120, "{state}");
        for scope in ContextScope::ALL {
            for (before, after, every) in
                [(0, 0, 7), (2, 1, 7), (0, 3, 11), (3, 0, 5), (4, 4, 13), (1, 1, 1), (200, 0, 100)]
            {
                let is_wanted = |key: &RowKey| key.position().is_multiple_of(every);
                let matches = all.iter().filter(|record| is_wanted(&record.row_key)).cloned().collect();
                let (found, _) = groups_around(&stores, matches, before, after, scope).expect("read");
                let mut found: Vec<Vec<RowKey>> =
                    found.iter().map(|group| group.iter().map(|record| record.row_key).collect()).collect();
                let mut lists: BTreeMap<(&str, u64), Vec<RowKey>> = BTreeMap::new();
                for n in 0..LINES {
                    let (_, instance, source, key) = interleaved(n);
                    let source = if scope == ContextScope::Source { source } else { 0 };
                    lists.entry((instance, source)).or_default().push(key);
                }
                let mut expected = Vec::new();
                for mut list in lists.into_values() {
                    // The order of the answers, the oldest first.
                    list.sort_by(|one, other| other.cmp(one));
                    expected.extend(grouped(&list, is_wanted, before, after));
                }
                found.sort();
                expected.sort();
                assert_eq!(found, expected, "{state} {scope:?} -B {before} -A {after}, every {every}");
            }
        }
    }
}

/// Records with fields of these names and values, one after the other.
fn with_fields(records: &[&[(&'static str, &'static str)]]) -> Vec<Batch> {
    let numbered = (0u64..).zip(records);
    let batch = |(n, fields): (u64, &&[(&'static str, &'static str)])| {
        let mut batch = Batch::new(plain(0).table(), "web".into());
        let fields =
            fields.iter().map(|(name, value)| Field { name: (*name).into(), value: Value::String((*value).into()) });
        let record = Record { fields: fields.collect(), message: format!("m{n}").into(), ..Record::default() };
        let key = RowKey::new(midnight().plus(Duration::from_secs(n)), 7, n);
        daytable_model::entity::append(&mut batch, key, "/var/log/app.log", &record);
        batch
    };
    numbered.map(batch).collect()
}

/// Of fields whose names collide, each is found by its own name, and a name that comes again by all of its values.
#[test]
fn names_that_collide_are_asked_for_by_their_own_names() {
    let folder = Folder::new();
    folder.commit(with_fields(&[
        &[("user_id", "under"), ("user.id", "dot")],
        &[("user.id", "dot"), ("user_id", "under")],
        &[("user.id", "alone")],
        &[("ip", "one"), ("ip", "two"), ("ip", "three"), ("ip_2", "other")],
        &[("a.b", "1"), ("a-b", "2"), ("a b", "3")],
    ]));
    let ask = |state: &str| {
        let (reader, archives) = (folder.reader(), Archives::Read(Access::default()));
        let stores = Stores::local(&reader, &archives);
        for (filter, wanted) in [
            ("user_id:=under", &["1", "0"][..]),
            ("\"user.id\":=dot", &["1", "0"]),
            ("user_id:=dot", &[]),
            ("\"user.id\":=under", &[]),
            ("user_id:=alone", &["2"]),
            ("\"user.id\":* -\"user.id\":=dot", &["2"]),
            ("ip:=one", &["3"]),
            ("ip:=two", &["3"]),
            ("ip:thr*", &["3"]),
            ("ip:* -ip:=three", &[]),
            ("\"ip#2\":=two", &["3"]),
            ("\"ip#2\":=three", &[]),
            ("ip_2:=other", &["3"]),
            ("ip_2:=two", &[]),
            ("\"a.b\":=1 \"a-b\":=2 \"a b\":=3", &["4"]),
            ("\"a-b\":=1", &[]),
            ("dot", &["1", "0"]),
        ] {
            assert_eq!(answered(&stores, filter), wanted, "{state}: {filter}");
            let count = answered(&stores, &format!("{filter} | stats count() n"));
            assert_eq!(count, [format!("{{\"n\":{}}}", wanted.len())], "{state}: {filter}");
        }
        for (query, wanted) in [
            ("m1 | fields user_id, user.id", &[r#"{"user_id":"under","user.id":"dot"}"#][..]),
            ("m1 | delete user_id | fields user*", &[r#"{"user.id":"dot"}"#]),
            ("m0 or m1 | stats by (user.id, user_id) count() n", &[r#"{"user.id":"dot","user_id":"under","n":2}"#]),
            ("\"user.id\":* | top 1 by (user.id)", &[r#"{"user.id":"dot","hits":2}"#]),
            (
                "m3 | fields ip, \"ip#2\", \"ip#3\", ip_2",
                &[r##"{"ip":"one","ip#2":"two","ip#3":"three","ip_2":"other"}"##],
            ),
            ("m3 | sort by (ip) | filter ip:=two | fields ip", &[r#"{"ip":"one"}"#]),
            (
                "* | facets 3 keep_const_fields | filter field_name:=user.id",
                &[r#"{"field_name":"user.id","field_value":"dot","hits":2}"#],
            ),
            (
                "m0 | field_names | filter name:user*",
                &[r#"{"name":"user.id","hits":1}"#, r#"{"name":"user_id","hits":1}"#],
            ),
        ] {
            assert_eq!(answered(&stores, query), wanted, "{state}: {query}");
        }
        let query = ParsedQuery::parse("m1").expect("a query");
        let mut shown = String::new();
        answer(&stores, &query, &AnswerOptions::at(midnight()), &|| true, &mut |item| {
            shown = serde_json::to_string(&item).expect("plain data");
            ControlFlow::Continue(())
        })
        .expect("answered");
        for field in [r#""user.id":"dot""#, r#""user_id":"under""#] {
            assert!(shown.contains(field), "{state}: {shown}");
        }
    };
    ask("open");
    let executor = Executor::new(folder.store.steps(), folder.dir.path().into(), Access::default(), Arc::default());
    executor.archive_now(&plain(0).table(), None, &mut |_| {}).expect("sealed");
    ask("sealed");
}

/// A column that pipes made in place of the instance or the arrival, which records have beside their columns, does not give the first
/// one back when it goes.
#[test]
fn a_column_that_was_made_hides_what_the_record_had() {
    let folder = Folder::new();
    folder.commit(with_fields(&[&[("a", "x")]]));
    let (reader, archives) = (folder.reader(), Archives::Skip);
    let stores = Stores::local(&reader, &archives);
    for name in ["instance", "_arrived"] {
        for changed in [
            format!("copy a as {name} | rename {name} as k"),
            format!("rename a as {name} | delete {name}"),
            format!("rename nothing as {name}"),
            format!("rename {name} as k"),
            format!("format \"y\" as {name} | rename {name} as k"),
            format!("delete {name}"),
        ] {
            let shown = answered(&stores, &format!("* | {changed} | fields {name}"));
            assert_eq!(shown, [format!("{{\"{name}\":null}}")], "{changed}");
            let first = answered(&stores, &format!("* | {changed} | stats count() n, count({name}) m"));
            assert_eq!(first, [r#"{"n":1,"m":0}"#], "{changed}");
        }
        let kept = answered(&stores, &format!("* | rename {name} as k | stats count(k) m"));
        assert_eq!(kept, [r#"{"m":1}"#]);
    }
}
