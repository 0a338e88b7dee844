//! Composed questions about a day in each of its states, with much and with little memory, while records are committed:
//! each has the answer of the [second evaluator](super::language).

use super::Dice;
use super::language::{By, Function, Pipe, Plain, Question, Row, Test};
use super::records::{day, table};
use super::states::submit;
use daytable_archive::Access;
use daytable_lifecycle::Executor;
use daytable_logsql::ParsedQuery;
use daytable_model::batch::Batch;
use daytable_model::key::{RowKey, partition_key};
use daytable_model::record::{Field, Level, Record, Value};
use daytable_model::time::Ticks;
use daytable_query::answer::{AnswerOptions, answer};
use daytable_query::{Archives, Stores};
use daytable_store::{Reader, Store, StoreOptions, compact_file};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Questions per state.
const ASKED: usize = 12;
/// The columns that are shown of records.
const SHOWN: [&str; 11] = ["time", "_arrived", "level", "instance", "message", "a", "b", "c", "id", "k", "w"];
/// Records from here on are not asked for: they come meanwhile.
const LATER: Duration = Duration::from_secs(20 * 3600);

/// A record, and its row.
#[derive(Clone)]
struct Written {
    instance: String,
    key: RowKey,
    arrived: Option<Ticks>,
    level: Option<Level>,
    message: String,
    fields: Vec<(&'static str, Plain)>,
}

impl Written {
    fn row(&self) -> Row {
        let mut columns = vec![
            ("time".to_owned(), Some(Plain::Time(self.key.time()))),
            ("_arrived".to_owned(), Some(Plain::Time(self.arrived.unwrap_or_else(|| self.key.time())))),
            ("level".to_owned(), self.level.map(|level| Plain::Text(level.name().into()))),
            ("instance".to_owned(), Some(Plain::Text(self.instance.clone()))),
            ("message".to_owned(), Some(Plain::Text(self.message.clone()))),
        ];
        columns.extend(self.fields.iter().map(|(name, value)| ((*name).to_owned(), Some(value.clone()))));
        Row { columns, place: Some((self.key, partition_key(&self.instance, None))) }
    }

    fn add_to(&self, batch: &mut Batch) {
        let value = |value: &Plain| match value {
            Plain::Text(text) => Value::String(text.clone().into()),
            Plain::Whole(n) => Value::Int64(*n),
            Plain::Float(n) => Value::Double(*n),
            Plain::Time(time) => Value::String(time.to_string().into()),
        };
        let field = |(name, of): &(&'static str, Plain)| Field { name: (*name).into(), value: value(of) };
        let fields = self.fields.iter().map(field).collect();
        let (arrived, message) = (self.arrived, self.message.as_str().into());
        let record = Record { arrived, level: self.level, message, fields, ..Record::default() };
        daytable_model::entity::append(batch, self.key, "/var/log/app.log", &record);
    }
}

/// A record of one of this many instances. Many have equal times, and some fields values of several types.
fn record(dice: &mut Dice, instances: usize, from: Duration, number: u64) -> Written {
    let instance = dice.below(instances);
    let seconds = match dice.below(3) {
        0 => dice.below(4),
        1 => 600 * dice.below(100),
        _ => dice.below(60_000),
    };
    let time = day().plus(from + Duration::from_secs(seconds as u64));
    let mut fields = Vec::new();
    let a = match dice.below(10) {
        0 => Plain::Text(dice.below(5).to_string()),
        1 => Plain::Text(format!("x{}", dice.below(3))),
        2 => Plain::Float(dice.below(8) as f64 + 0.5),
        _ => Plain::Whole(dice.below(6) as i64 - 1),
    };
    let few = ["ann", "bob", "eve", "x10", "x9"];
    let all = [
        ("a", a),
        ("b", Plain::Text((*dice.pick(&few)).into())),
        ("c", Plain::Whole(dice.below(1000) as i64)),
        ("id", Plain::Text(format!("t{:016x}", (dice.below(1 << 40) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)))),
    ];
    for field in all {
        if !dice.is_one_in(5) {
            fields.push(field);
        }
    }
    let message = match dice.below(4) {
        0 => format!("req {} of {}", dice.below(20), dice.pick(&few)),
        1 => format!("took {} ms", dice.below(50)),
        _ => (*dice.pick(&["ready", "card expired", "cache miss", "req failed"])).to_owned(),
    };
    let level = Level::from_code(*dice.pick(&[0, 3, 3, 5, 6]));
    // A source belongs to one instance.
    let key = RowKey::new(time, 1 + instance as u64, number);
    // Some came hours before their time or after it, several at once.
    let arrived = match dice.below(8) {
        0 => Some(day().plus(Duration::from_secs(dice.below(90_000) as u64))),
        1..3 => Some(day().plus(Duration::from_millis(7_200_500 * dice.below(15) as u64))),
        _ => None,
    };
    Written { instance: format!("i-{instance}"), key, arrived, level, message, fields }
}

fn batches(written: &[Written]) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for one in written {
        let partition: Arc<str> = partition_key(&one.instance, None).into();
        let at = batches.iter().position(|batch| batch.partition == partition && batch.len() < 50);
        let at = at.unwrap_or_else(|| {
            batches.push(Batch::new(table(), partition));
            batches.len() - 1
        });
        one.add_to(&mut batches[at]);
    }
    batches
}

fn field(dice: &mut Dice) -> String {
    (*dice.pick(&["a", "b", "c", "id", "level", "instance", "k", "m", "w"])).to_owned()
}

/// A field, or the arrival.
fn field_or_arrival(dice: &mut Dice) -> String {
    if dice.is_one_in(6) { "_arrived".to_owned() } else { field(dice) }
}

/// A column that pipes may make.
fn made(dice: &mut Dice) -> String {
    (*dice.pick(&["k", "m", "n", "b"])).to_owned()
}

fn test(dice: &mut Dice, depth: usize) -> Test {
    if depth > 0 && dice.is_one_in(3) {
        let inner = |dice: &mut Dice| Box::new(test(dice, depth - 1));
        return match dice.below(3) {
            0 => Test::Not(inner(dice)),
            1 => Test::And(inner(dice), inner(dice)),
            _ => Test::Or(inner(dice), inner(dice)),
        };
    }
    match dice.below(10) {
        0 => Test::All,
        1 => Test::Is("b".into(), (*dice.pick(&["ann", "x9", "nobody"])).into()),
        2 => Test::Is("a".into(), (*dice.pick(&["3", "x1", "2.5"])).into()),
        3 => Test::In("instance".into(), (0..3).map(|_| format!("i-{}", dice.below(6))).collect()),
        4 => Test::Absent(field(dice)),
        5 => Test::Present(field(dice)),
        6 => Test::Greater("c".into(), dice.below(1000) as i64),
        7 => Test::ArrivedBefore(day().plus(Duration::from_secs(600 * dice.below(140) as u64))),
        8 => Test::LevelFrom(*dice.pick(&[Level::Info, Level::Warn, Level::Error])),
        _ => Test::Word((*dice.pick(&["req", "card", "expired", "7"])).into()),
    }
}

fn by(dice: &mut Dice, count: usize) -> Vec<By> {
    let mut by: Vec<By> = Vec::new();
    for _ in 0..count {
        let next = match dice.below(14) {
            0 => By::Hour,
            3 => By::ArrivedHour,
            1 => By::Step("c".into(), 100),
            2 => By::Pattern("message".into()),
            _ => By::Field(field_or_arrival(dice)),
        };
        let is_new = |known: &By| {
            std::mem::discriminant(known) != std::mem::discriminant(&next)
                || matches!((known, &next), (By::Field(one), By::Field(other)) if one != other)
        };
        // A step of a field and the field have one name.
        let names = format!("{by:?}");
        let is_taken = names.contains("Step(\"c\"") && matches!(&next, By::Field(name) if name == "c")
            || names.contains("Field(\"c\")") && matches!(next, By::Step(..))
            || names.contains("ArrivedHour") && matches!(&next, By::Field(name) if name == "_arrived")
            || names.contains("Field(\"_arrived\")") && matches!(next, By::ArrivedHour);
        if by.iter().all(is_new) && !is_taken {
            by.push(next);
        }
    }
    by
}

/// Groups without steps, which only `stats` has.
fn plain_by(dice: &mut Dice, count: usize) -> Vec<By> {
    let by: Vec<By> =
        by(dice, count).into_iter().filter(|by| !matches!(by, By::Hour | By::ArrivedHour | By::Step(..))).collect();
    if by.is_empty() { vec![By::Field("b".into())] } else { by }
}

fn functions(dice: &mut Dice) -> Vec<Function> {
    const NAMES: [&str; 11] =
        ["count", "count", "count_empty", "count_uniq", "sum", "avg", "min", "max", "median", "quantile", "sum_len"];
    (0..1 + dice.below(3))
        .map(|number| {
            let name = *dice.pick(&NAMES);
            let field = match name {
                "count" if dice.is_one_in(2) => String::new(),
                "sum" | "avg" | "median" | "quantile" => (*dice.pick(&["c", "a", "m"])).to_owned(),
                _ => field_or_arrival(dice),
            };
            let condition = dice.is_one_in(4).then(|| test(dice, 1));
            Function { name, field, condition, column: format!("f{number}") }
        })
        .collect()
}

fn names(dice: &mut Dice) -> Vec<String> {
    let mut names: Vec<String> =
        (0..1 + dice.below(2)).map(|_| (*dice.pick(&["b", "instance", "level"])).to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

/// A pipe, and whether the names of its columns are not those of records.
fn pipe(dice: &mut Dice, is_nested: bool) -> Vec<Pipe> {
    let one = match dice.below(26) {
        0..3 => Pipe::Filter(test(dice, 1)),
        3..6 => {
            let count = dice.below(3);
            Pipe::Stats(by(dice, count), functions(dice))
        }
        6 => {
            let by = plain_by(dice, 2);
            Pipe::Top(1 + dice.below(9), by)
        }
        7 => Pipe::Uniq(plain_by(dice, 1), dice.is_one_in(2), dice.is_one_in(3).then(|| 1 + dice.below(5))),
        8 => Pipe::Values(field_or_arrival(dice)),
        9..12 => {
            let keys: Vec<(By, bool)> = plain_by(dice, 2).into_iter().map(|by| (by, dice.is_one_in(2))).collect();
            let limit = dice.is_one_in(2).then(|| 1 + dice.below(20));
            Pipe::Sort(keys, dice.below(3), limit, dice.is_one_in(5))
        }
        12 => Pipe::Limit(1 + dice.below(60)),
        13 => Pipe::Offset(dice.below(6)),
        14 => Pipe::Sample(1 + dice.below(3)),
        15 if dice.is_one_in(4) => Pipe::Copy("_arrived".into(), "w".into()),
        15 => Pipe::Copy(field(dice), made(dice)),
        16 if dice.is_one_in(4) => Pipe::Rename("_arrived".into(), "w".into()),
        16 => {
            let (from, to) = (field(dice), made(dice));
            if from == to || matches!(from.as_str(), "level" | "instance") {
                Pipe::Delete("c".into())
            } else {
                Pipe::Rename(from, to)
            }
        }
        17 => Pipe::Format(field_or_arrival(dice), field(dice), made(dice)),
        18 => Pipe::Double((*dice.pick(&["c", "a", "m"])).into(), "m".into()),
        19 => Pipe::Add("c".into(), (*dice.pick(&["a", "m"])).into(), "m".into()),
        20 => Pipe::Length(field_or_arrival(dice), made(dice)),
        21 => Pipe::Replace(
            (*dice.pick(&["a", "x", "req"])).into(),
            (*dice.pick(&["", "yy"])).into(),
            (*dice.pick(&["b", "message"])).into(),
        ),
        22 => Pipe::Extract("k".into()),
        23 => Pipe::Sessions(names(dice), 1 + dice.below(60) as i64),
        24 => Pipe::Gaps(names(dice), 1 + dice.below(120) as i64),
        _ if is_nested => Pipe::Limit(40),
        _ => {
            let on = vec![(*dice.pick(&["b", "level", "a"])).to_owned()];
            let other = Question {
                filter: Test::And(Test::Before(day().plus(LATER)).into(), test(dice, 1).into()),
                pipes: vec![Pipe::Stats(on.iter().cloned().map(By::Field).collect(), functions(dice))],
            };
            let prefix: &&str = dice.pick(&["", "o_"]);
            Pipe::Join(on, other.into(), dice.is_one_in(2), prefix)
        }
    };
    let mut pipes = vec![one];
    if let Pipe::Stats(by, functions) = &mut pipes[0]
        && by.len() == 2
        && dice.is_one_in(3)
        && by.iter().any(|by| matches!(by, By::Field(name) if matches!(name.as_str(), "a" | "b" | "level")))
    {
        functions.truncate(1);
        let names: Vec<String> = by
            .iter()
            .map(|by| match by {
                By::Field(name) | By::Step(name, _) => name.clone(),
                By::Hour => "_time".into(),
                By::ArrivedHour => "_arrived".into(),
                By::Pattern(name) => format!("pattern({name})"),
            })
            .collect();
        let is_few = |name: &&String| matches!(name.as_str(), "a" | "b" | "level");
        let field = names.iter().find(is_few).expect("one").clone();
        let groups = names.into_iter().filter(|name| *name != field).collect();
        pipes.push(Pipe::Pivot(field, groups));
    }
    pipes
}

fn question(dice: &mut Dice) -> Question {
    let count = 1 + dice.below(5);
    let mut pipes: Vec<Pipe> = (0..count).flat_map(|_| pipe(dice, false)).collect();
    let replaces = |pipe: &Pipe| {
        matches!(
            pipe,
            Pipe::Stats(..)
                | Pipe::Top(..)
                | Pipe::Uniq(..)
                | Pipe::Values(_)
                | Pipe::Sessions(..)
                | Pipe::Gaps(..)
                | Pipe::Pivot(..)
        )
    };
    if !pipes.iter().any(replaces) {
        pipes.push(Pipe::Fields(SHOWN.map(str::to_owned).to_vec()));
    }
    let filter = if dice.is_one_in(3) { Test::All } else { test(dice, 2) };
    Question { filter: Test::And(Test::Before(day().plus(LATER)).into(), filter.into()), pipes }
}

/// Lines of an answer with so much memory; `None` if it was refused.
fn answered(stores: &Stores<'_>, text: &str, bytes_max: Option<usize>) -> Option<Vec<String>> {
    let query = ParsedQuery::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut options = AnswerOptions::at(day().plus(Duration::from_secs(86_400)));
    options.bytes_max = bytes_max.unwrap_or(options.bytes_max);
    let mut lines = Vec::new();
    let report = answer(stores, &query, &options, &|| true, &mut |item| {
        lines.push(serde_json::to_string(&item).expect("plain data"));
        ControlFlow::Continue(())
    });
    let report = report.unwrap_or_else(|error| panic!("{text}: {error}"));
    if report.over.is_some() {
        assert!(bytes_max.is_some(), "{text}: {:?}", report.cut);
        assert!(
            lines.is_empty() || !query.pipes.iter().any(daytable_logsql::Pipe::needs_all),
            "{text} was refused, and has rows"
        );
        return None;
    }
    assert_eq!(report.incomplete(), None, "{text}");
    Some(lines)
}

fn ask(dice: &mut Dice, state: &str, data: &Path, written: &[Written]) {
    let (reader, archives) = (Reader::open(data).expect("opened"), Archives::Read(Access::default()));
    let stores = Stores::local(&reader, &archives);
    let mut rows: Vec<Row> = written.iter().map(Written::row).collect();
    rows.sort_by(|one, other| one.place.cmp(&other.place));
    for _ in 0..ASKED {
        let question = question(dice);
        let text = question.written();
        let wanted: Vec<String> = question.answer(&rows).iter().map(Row::json).collect();
        let compare = |found: Vec<String>, memory: &str| {
            let at = (0..found.len().max(wanted.len())).find(|at| found.get(*at) != wanted.get(*at));
            let Some(at) = at else { return };
            panic!(
                "{state}, {memory}: {text}\n{} rows instead of {}; row {at} is\n{:?}\ninstead of\n{:?}",
                found.len(),
                wanted.len(),
                found.get(at),
                wanted.get(at),
            );
        };
        compare(answered(&stores, &text, None).expect("much memory"), "much memory");
        let bytes_max = 1 << (12 + dice.below(8));
        if let Some(found) = answered(&stores, &text, Some(bytes_max)) {
            compare(found, "little memory");
        }
    }
}

/// Ends what goes on meanwhile, also where a question fails.
struct EndsWith<'o>(&'o AtomicBool);

impl Drop for EndsWith<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A day from its first record to its archive.
pub(super) fn answer_alike(dice: &mut Dice) {
    let shared = Path::new("/dev/shm");
    let dir = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() }.expect("a folder");
    let data = dir.path().join("data");
    let open = || {
        let options = StoreOptions { commit_interval: Duration::from_millis(1), ..StoreOptions::default() };
        Store::open(&data, options).expect("opened")
    };
    let instances = *dice.pick(&[1, 3, 6, 3000]);
    let (mut written, mut number) = (Vec::new(), 0);
    let mut write = |dice: &mut Dice, store: &Store, written: &mut Vec<Written>| {
        for _ in 0..1 + dice.below(3) {
            let next: Vec<Written> = (0..1 + dice.below(80))
                .map(|_| {
                    number += 1;
                    record(dice, instances, Duration::ZERO, number)
                })
                .collect();
            submit(store, batches(&next));
            written.extend(next);
        }
    };
    let store = open();
    write(dice, &store, &mut written);
    // Records come meanwhile, of which none is asked for.
    let (is_over, seed) = (AtomicBool::new(false), dice.below(1 << 30) as u64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut dice, mut number) = (Dice(seed), 1 << 40);
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                let later: Vec<Written> = (0..5).map(|n| record(&mut dice, instances, LATER, 8 * number + n)).collect();
                let later: Vec<Written> =
                    later.into_iter().filter(|one| one.key.time() < day().plus(Duration::from_secs(86_400))).collect();
                submit(&store, batches(&later));
            }
        });
        let _ends = EndsWith(&is_over);
        ask(dice, "open, while records are committed", &data, &written);
    });
    store.close().expect("closed");
    compact_file(&data.join("tables").join(format!("{}.1.db", table())), &table());
    let store = open();
    ask(dice, "compacted", &data, &written);
    write(dice, &store, &mut written);
    let archive = format!("file://{}", dir.path().join("archive").display());
    let executor = Executor::new(store.steps(), data.clone(), Access::default(), Arc::default());
    executor.archive_now(&table(), None, &mut |_| {}).expect("sealed");
    ask(dice, "sealed", &data, &written);
    write(dice, &store, &mut written);
    ask(dice, "sealed, with late records", &data, &written);
    executor.archive_now(&table(), Some(&archive), &mut |_| {}).expect("sealed again, and archived");
    executor.steps().drop_table(&table()).expect("dropped");
    ask(dice, "archived", &data, &written);
    store.close().expect("closed");
}
