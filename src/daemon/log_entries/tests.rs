//! Counts by headers and columns are those of the entries, and entries that are looked for by a text, or from the oldest on,
//! are those of all entries, in every state of a day.

use super::*;
use crate::config::TenantConfig;
use daytable_archive::Access;
use daytable_lifecycle::Executor;
use daytable_logql::ast::LogqlQuery;
use daytable_logql::eval::{Evaluator, Limits, LogRequest, Numbers, TimeSteps};
use daytable_model::batch::Batch;
use daytable_model::key::{Period, RowKey, TableName};
use daytable_model::record::{Field, Record, Value};
use daytable_model::stream::StreamNote;
use daytable_query::Archives;
use daytable_store::{Ack, Reader, Store, StoreOptions, Submission};
use proptest::prelude::*;
use std::collections::BTreeMap;

const INSTANCES: [&str; 3] = ["web-1", "web-2", "db~00"];
/// 2026-11-21T00:00:00Z.
pub(super) const DAY: i64 = 1_795_219_200;
pub(super) const SECOND: i64 = 1_000_000_000;

pub(super) fn table() -> DayTable {
    let midnight = Ticks::from_unix(DAY, 0).expect("a time");
    DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, midnight)
}

/// The note of a stream, as chance made it.
fn note(chance: u64) -> Option<StreamNote<'static>> {
    let labels: &[(&str, &str)] = match chance >> 50 & 15 {
        0 => &[("app", "shop")],
        1 => &[("app", "shop"), ("level", "Warn")],
        2 => &[("job", "web"), ("instance", "web-1"), ("lvl", "info")],
        3 => &[("app", "shop"), ("log_host", "web-1")],
        _ => return None,
    };
    let labels: BTreeMap<String, String> = labels.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
    let names = match chance >> 54 & 7 {
        0 => vec!["user".to_owned()],
        1 => vec!["detected_level".to_owned()],
        2 => vec!["level".to_owned()],
        _ => Vec::new(),
    };
    let nanos = if chance >> 57 & 1 == 0 { 0 } else { (chance >> 58 & 31) as u8 };
    let end = ["", "", "\n", "\r\n"][(chance >> 41 & 3) as usize].to_owned();
    Some(StreamNote { text: PushedStream(labels, names, end).text().into(), nanos })
}

const MESSAGES: [&str; 8] = [
    "request handled",
    "error: card expired",
    "warn=1",
    r#"{"level":"debug"}"#,
    r#"{"user":"ann","status":500,"a":{"b":"c d"}}"#,
    r#"{"us\u0065r":"b\u006fb","status":404}"#,
    "user=bob status=404 a_b=\"c d\"",
    "user=\"b\\u006fb\" http.status=2xx",
];

fn add_to(batch: &mut Batch, number: u64, chance: u64) {
    fn pick<T: Copy>(chance: u64, at: u32, of: &[T]) -> T {
        of[(chance >> at) as usize % of.len()]
    }
    let text = |text: &str| Value::String(text.to_owned().into());
    let message = match chance >> 3 & 31 {
        0 => "x error ".repeat(9000),
        1 => String::new(),
        _ => pick(chance, 8, &MESSAGES).to_owned(),
    };
    let mut fields = vec![
        ("component", text(pick(chance, 10, &["auth", "cart", ""]))),
        ("unit", text("u.service")),
        ("service_name", text(pick(chance, 13, &["api", ""]))),
        ("status", Value::Int64(pick(chance, 15, &[200, 404, 500]))),
        ("http.status", text(pick(chance, 17, &["2xx", "5xx"]))),
        ("http_status", text("twice")),
        ("user", text(pick(chance, 19, &["ann", "bob"]))),
        ("level", text("beside")),
        ("detected_level", text("field")),
        ("source", text("beside")),
        ("naïve", text(pick(chance, 43, &["1", "2"]))),
        ("na_ve", text(pick(chance, 45, &["1", "3"]))),
        ("log_host", text(pick(chance, 47, &["web-1", "web-2", ""]))),
    ];
    fields.retain(|(name, _)| (name.len() as u64 ^ chance >> 21).is_multiple_of(3));
    if chance >> 25 & 31 == 0 {
        fields.extend((0..250).map(|_| ("more", Value::Int64(7))));
    }
    let mut fields: Vec<Field<'_>> =
        fields.into_iter().map(|(name, value)| Field { name: name.into(), value }).collect();
    let stream = note(chance);
    if stream.is_some() {
        fields.insert(0, Field { name: "user".into(), value: text("pushed") });
        fields.insert(0, Field { name: "level".into(), value: text("error") });
        let PushedStream(labels, ..) =
            stream.as_ref().and_then(|note| PushedStream::parse(&note.text)).expect("a note");
        let labels = labels.into_iter().map(|(name, value)| (name, Value::String(value.into())));
        fields.extend(labels.map(|(name, value)| Field { name: name.into(), value }));
    }
    let level = Level::from_code(pick(chance, 0, &[0, 2, 3, 3, 4, 6, 8]));
    let record = Record { level, message: message.into(), fields, stream: stream.map(Box::new), ..Record::default() };
    let source = pick(chance, 30, &["/var/log/a.log", "/var/log/b.log", ""]);
    // At the first tick of a minute, a tick beside it, and anywhere.
    let ticks = [0, 1, -1, 37_0000000, 15_0000000][(chance >> 33) as usize % 5];
    let time = Ticks::from_unix(DAY + 600 + i64::try_from(number).unwrap_or(0) / 2 * 60, 0).expect("a time");
    let time = Ticks::new(time.get() + ticks).expect("a time");
    daytable_model::entity::append(batch, RowKey::new(time, 7, number), source, &record);
}

/// As in Loki, where what is pushed with an empty value is not stored.
#[test]
fn an_empty_value_makes_no_label() {
    let labels = [("app", "shop"), ("pod", ""), ("service_name", "")].map(|(n, v)| (n.to_owned(), v.to_owned()));
    let note = PushedStream(labels.into(), Vec::new(), String::new()).text();
    let known = KnownStream::parse(&note).expect("a note");
    assert_eq!(known.labels.to_string(), r#"{app="shop", service_name="shop"}"#);
    let metadata = labels_apart([("a.b", "x".to_owned()), ("level", String::new())].into_iter());
    assert_eq!(metadata.to_string(), r#"{a_b="x"}"#);
    assert_eq!(detected_level("ERROR x", &known.labels, &metadata), "error");
}

fn commit(store: &Store, records: &[(u64, u64)]) {
    let mut batches: Vec<Batch> = INSTANCES.iter().map(|instance| Batch::new(table(), (*instance).into())).collect();
    for (number, chance) in records {
        add_to(&mut batches[*number as usize / 7 % INSTANCES.len()], *number, *chance);
    }
    commit_batches(store, batches);
}

pub(super) fn commit_batches(store: &Store, mut batches: Vec<Batch>) {
    batches.retain(|batch| !batch.is_empty());
    let (done, is_done) = std::sync::mpsc::channel();
    let ack = Ack::new(move |committed| done.send(committed).expect("heard"));
    let queue = store.commit_queue();
    queue.submit(Submission { batches, epoch: queue.epoch(), ack, ..Submission::default() }).expect("taken");
    assert!(is_done.recv().expect("an answer"));
}

/// Entries that are counted one by one, and of which none is left out.
pub(super) struct OneByOne<'s>(pub(super) StoredEntries<'s>);

impl EntrySource for OneByOne<'_> {
    fn scan(
        &self,
        wanted: &EntrySelection<'_>,
        direction: Direction,
        each: &mut EachEntry<'_>,
    ) -> Result<(), EvalError> {
        let direction = if direction == Direction::Forward { direction } else { Direction::Backward };
        self.0.scan(&wanted.selector.within(wanted.span), direction, each)
    }
}

/// A text that is nowhere gives the clock no record to look at.
#[test]
fn a_question_ends_at_its_time_where_nothing_matches() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = Store::open(dir.path(), StoreOptions::default()).expect("opened");
    commit(&store, &[(0, 1 << 4), (1, 2 << 4)]);
    let reader = Reader::open(dir.path()).expect("opened");
    let (stores, clock) = (Stores::local(&reader, &Archives::Skip), QuestionClock::ended());
    let entries = StoredEntries::new(&stores, &clock, Visibility::default());
    let span = TimeSpan { from: DAY * SECOND, to: (DAY + 86_400) * SECOND };
    let Ok(LogqlQuery::Log(query)) = daytable_logql::parse(r#"{service_name=~".+"} |= "nowhere""#) else { panic!() };
    let wanted = query.wanted(span);
    for direction in [Direction::Backward, Direction::Forward, Direction::Any] {
        let mut each = |_| ControlFlow::Continue(());
        let ended = entries.scan(&wanted, direction, &mut each).expect_err("the time is over");
        assert!(matches!(&ended, EvalError::Stopped(why) if why.contains("takes too long")), "{ended}");
    }
}

const SELECTORS: [&str; 20] = [
    r#"{log_host="web-1"}"#,
    r#"{log_host!="web-1", level=~".+"}"#,
    r#"{service_name=~".+"}"#,
    r#"{instance="web-1"}"#,
    r#"{instance=~"web-.*", level="error"}"#,
    r#"{level!="", table=~".+"}"#,
    r#"{table="Log"}"#,
    r#"{service_name="auth"}"#,
    r#"{service_name!="api", table="Log"}"#,
    r#"{source="/var/log/a.log"}"#,
    r#"{source="", table="Log"}"#,
    r#"{status="500"}"#,
    r#"{http_status=~"2.*|twice"}"#,
    r#"{app="shop"}"#,
    r#"{job="web", level=""}"#,
    r#"{user="ann", component!=""}"#,
    r#"{level="beside"}"#,
    r#"{nothing="", instance=~".+"}"#,
    r#"{service_name="shop"}"#,
    r#"{level=~"warn|error", source!="/var/log/b.log"}"#,
];
const STAGES: [&str; 40] = [
    "",
    r#" | log_host="web-2" or user="ann""#,
    " | drop __error__",
    r#" | detected_level="error""#,
    r#" | user!="", component="auth""#,
    " | status >= 404",
    r#" | level="error" or detected_level="warn""#,
    r#" | keep level, user"#,
    " | json",
    r#" |= "e""#,
    r#" |= "card" |= "r: card ex" != "x""#,
    r#" |~ "(request|nothing) handled|warn=\\d""#,
    r#" | json |~ "^w[a]rn=1+$""#,
    r#" | line_format "{{.user}}!" |= "n!""#,
    r#" |= "nowhere""#,
    r#" | user="ann" |= "card""#,
    r#" | http_status="twice" and (status="500" or status="404")"#,
    r#" | status="500" | json | user="pushed""#,
    " | status=404",
    " | json | status != 500",
    r#" | status < 500 or user="ann" | user > 5"#,
    r#" |~ "(?i)ERROR""#,
    r#" |~ "handled.+$""#,
    r#" !~ "handled\\s" != "w""#,
    r#" |= "card" or "warn""#,
    r#" |> "error<_>""#,
    r#" | app="shop" or user=~"a.*""#,
    r#" | na_ve="1" | unpack |= "e""#,
    r#" | level="warn" | drop user | user="" | json |= "e""#,
    r#" | http_status!="2xx" |= "" != "nowhere""#,
    r#" | table="Log", source=~".*a.*" | service_name!="api""#,
    r#" | lvl="info" or status=ip("10.0.0.1")"#,
    r#" | json | logfmt | drop __error__, __error_details__ | user="bob""#,
    r#" | json | user="ann" | drop status | status="" "#,
    r#" | logfmt | user=~"b.*" or a_b="c d""#,
    r#" | json | drop user="ann", app | user!="ann" | status >= 404"#,
    r#" | json | a_b="c d", status="500" | keep user | user="ann""#,
    r#" | pattern "user=<who> <_>" | who="bob" or component="auth""#,
    r#" | json who="user", b="a.b" | who="ann" | label_format user=who | user="ann""#,
    r#" | unpack | logfmt | user="bob" or user="pushed""#,
];
const GROUPS: [&str; 10] = [
    "",
    "by (log_host, app)",
    "by (level, detected_level)",
    "by (service_name)",
    "by (instance, table)",
    "by (source)",
    "by (status, user)",
    "by (http_status, detected_level)",
    "by (app, lvl, user_extracted)",
    "without (user)",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn counts_are_those_of_the_entries(
        chances in proptest::collection::vec(any::<u64>(), 1..90),
        again in proptest::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 0..6),
        questions in proptest::collection::vec(
            (0..SELECTORS.len(), 0..STAGES.len(), 0..GROUPS.len(), 0usize..6, any::<u64>()), 60),
        plain in any::<bool>(),
        is_sealed in any::<bool>(),
        tenants in 0usize..4,
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let options = StoreOptions { commit_interval: Duration::from_millis(1), ..StoreOptions::default() };
        let store = Store::open(dir.path(), options).expect("opened");
        // In half of the cases every record has a level, and none was pushed to a stream: then headers count.
        let chance = |chance: u64| if plain { chance | 15 << 50 } else { chance };
        let records: Vec<(u64, u64)> = (0..).zip(chances.iter().map(|c| chance(*c))).collect();
        commit(&store, &records);
        if is_sealed {
            let executor = Executor::new(store.steps(), dir.path().into(), Access::default(), Arc::default());
            executor.archive_now(&table(), None, &mut |_| {}).expect("sealed");
        }
        let again: Vec<_> = again.iter().map(|(at, c)| (at.index(records.len()) as u64, chance(*c))).collect();
        if !again.is_empty() {
            commit(&store, &again);
        }
        let reader = Reader::open(dir.path()).expect("opened");
        let (stores, clock) = (Stores::local(&reader, &Archives::Skip), QuestionClock::start());
        let web = TenantConfig { name: "web".into(), instances: vec!["web-*".into()], ..TenantConfig::default() };
        let of_hosts = TenantConfig { name: "hosts".into(), hosts: vec!["*a*".into()], ..TenantConfig::default() };
        let seen = match tenants {
            0 => Visibility::default(),
            1 => Visibility::of(&[web]).expect("no token"),
            2 => Visibility::of(&[of_hosts]).expect("no token"),
            _ => Visibility::of(&[web, of_hosts]).expect("no token"),
        };
        let few = StoredEntries::new(&stores, &clock, seen.clone());
        let by_columns = StoredEntries { oldest_max: 3, partitions_at_once: 2, ..few };
        let by_entries = OneByOne(StoredEntries::new(&stores, &clock, seen));
        for (selector, stages, group, steps, at) in questions {
            let (selector, stages, group) = (SELECTORS[selector], STAGES[stages], GROUPS[group]);
            let (range, step) = [("1m", 60), ("5m", 60), ("90s", 60), ("2m", 300), ("17s", 7), ("1h", 0)][steps];
            let query = match at % 5 {
                0 => format!("absent_over_time({selector}{stages}[{range}])"),
                1 => format!("sum {group}(rate({selector}{stages}[{range}] offset 30s))"),
                _ => format!("sum {group}(count_over_time({selector}{stages}[{range}]))"),
            };
            let LogqlQuery::Metric(metric) = daytable_logql::parse(&query).expect(&query) else { unreachable!() };
            let from = (DAY + 540 + (at >> 8 & 63) as i64 * 15) * SECOND + (at >> 16 & 3) as i64 * 50;
            let span = TimeSpan { from, to: from + (at >> 20 & 63) as i64 * 45 * SECOND };
            let steps = if step == 0 { Some(TimeSteps::at(span.to)) } else { TimeSteps::over(span, step * SECOND) };
            let answer = |source: &dyn EntrySource| {
                let evaluator = Evaluator { source, limits: Limits::default(), budget: daytable_platform::budget::MemoryBudget::unshared(64 << 20).question(), now: 0 };
                match evaluator.metric(&metric, steps.expect("steps")) {
                    Ok(Numbers::Series { series, .. }) => Ok(series),
                    Ok(Numbers::Scalar(_)) => Ok(Vec::new()),
                    Err(error) => Err(error.to_string()),
                }
            };
            prop_assert_eq!(answer(&by_columns), answer(&by_entries), "{} {:?} {:?}", query, span, steps);

            let query = format!("{selector}{stages}");
            let LogqlQuery::Log(log) = daytable_logql::parse(&query).expect(&query) else { unreachable!() };
            let direction = if at >> 26 & 1 == 0 { Direction::Backward } else { Direction::Forward };
            let request = LogRequest { span, direction, limit: (at >> 27 & 31) as usize, interval: 0 };
            let answer = |source: &dyn EntrySource| {
                let entries = Evaluator { source, limits: Limits::default(), budget: daytable_platform::budget::MemoryBudget::unshared(64 << 20).question(), now: 0 }.logs(&log, request);
                entries.map_err(|error| error.to_string())
            };
            prop_assert_eq!(answer(&by_columns), answer(&by_entries), "{} {:?}", query, request);
        }
    }
}
