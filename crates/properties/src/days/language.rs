//! The query language by a second, slow and obvious evaluator: a list of plain records, and each pipe as a loop.
//!
//! Nothing here is shared with the program but the text of a query and the form of a time: values are compared, printed and
//! added up anew. `composed` makes the queries and the records, and takes a day from state to state.

use daytable_model::key::RowKey;
use daytable_model::record::Level;
use daytable_model::time::{Ticks, UNIX_EPOCH_TICKS};
use std::cmp::Ordering;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plain {
    Text(String),
    Whole(i64),
    Float(f64),
    Time(Ticks),
}

use Plain::{Float, Text, Time, Whole};

impl Plain {
    pub(super) fn text(&self) -> String {
        match self {
            Text(text) => text.clone(),
            Whole(n) => n.to_string(),
            Float(n) if n.is_nan() => "NaN".into(),
            Float(n) => n.to_string(),
            Time(time) => time.to_string(),
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Whole(n) => Some(*n as f64),
            Float(n) => Some(*n).filter(|n| !n.is_nan()),
            Text(text) => text.parse::<i64>().ok().map(|n| n as f64).or_else(|| fraction(text)),
            Time(_) => None,
        }
    }

    fn json(&self) -> String {
        match self {
            Whole(n) => n.to_string(),
            Float(n) if n.is_finite() => serde_json::to_string(n).expect("a number"),
            other => serde_json::to_string(&other.text()).expect("a text"),
        }
    }
}

/// A text that is a number with a fraction: `-0.5`.
fn fraction(text: &str) -> Option<f64> {
    let (whole, part) = text.strip_prefix('-').unwrap_or(text).split_once('.')?;
    let are_digits = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (are_digits(whole) && are_digits(part)).then(|| text.parse().ok())?
}

/// A number as a value: whole where it is.
fn value_of(n: f64) -> Plain {
    if n.fract() == 0.0 && n.abs() < 9e15 { Whole(n as i64) } else { Float(n) }
}

/// The sum of the numbers among some values.
fn sum_of(values: &[&Plain]) -> Option<Plain> {
    let numbers: Vec<f64> = values.iter().filter_map(|value| value.number()).collect();
    (!numbers.is_empty()).then(|| value_of(exact_sum(&numbers)))
}

/// A sum that does not depend on the order: the parts that no addition can hold are kept apart ([Shewchuk
/// 1997](https://doi.org/10.1007/PL00009321)).
fn exact_sum(numbers: &[f64]) -> f64 {
    let plain: f64 = numbers.iter().sum();
    if !plain.is_finite() {
        return plain;
    }
    let mut parts: Vec<f64> = Vec::new();
    for number in numbers {
        let mut left = *number;
        for part in std::mem::take(&mut parts) {
            let (large, small) = if left.abs() >= part.abs() { (left, part) } else { (part, left) };
            let sum = large + small;
            let lost = small - (sum - large);
            if lost != 0.0 {
                parts.push(lost);
            }
            left = sum;
        }
        parts.push(left);
    }
    parts.iter().sum()
}

/// A row, or a record: columns in their order, and the place of its record among all.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub(super) columns: Vec<(String, Option<Plain>)>,
    pub(super) place: Option<(RowKey, String)>,
}

impl Row {
    pub(super) fn value(&self, name: &str) -> Option<&Plain> {
        let find = |name: &str| self.columns.iter().find(|(known, _)| known == name);
        // A time has two names.
        let other = match name {
            "_time" => find("time"),
            "time" => find("_time"),
            _ => None,
        };
        let value = find(name).or(other)?.1.as_ref();
        value.filter(|value| **value != Text(String::new()))
    }

    fn text(&self, name: &str) -> String {
        self.value(name).map(Plain::text).unwrap_or_default()
    }

    fn set(&mut self, name: &str, value: Option<Plain>) {
        match self.columns.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.columns.push((name.to_owned(), value)),
        }
    }

    pub(super) fn json(&self) -> String {
        let value = |value: &Option<Plain>| value.as_ref().map_or("null".into(), Plain::json);
        let columns = self
            .columns
            .iter()
            .map(|(name, of)| format!("{}:{}", serde_json::to_string(name).expect("text"), value(of)));
        format!("{{{}}}", columns.collect::<Vec<_>>().join(","))
    }
}

/// Absent values first, then numbers, then texts, in which digits compare as numbers; levels by severity.
fn order(name: &str, one: Option<&Plain>, other: Option<&Plain>) -> Ordering {
    let (Some(one), Some(other)) = (one, other) else { return one.is_some().cmp(&other.is_some()) };
    if name == "level" {
        let code = |value: &Plain| Level::from_word(&value.text()).map(Level::code);
        return code(one).cmp(&code(other));
    }
    match (one, other, one.number(), other.number()) {
        (Time(one), Time(other), ..) => one.cmp(other),
        (.., Some(one), Some(other)) => one.partial_cmp(&other).unwrap_or(Ordering::Equal),
        (.., Some(_), None) => Ordering::Less,
        (.., None, Some(_)) => Ordering::Greater,
        _ => natural(&one.text()).cmp(&natural(&other.text())).then_with(|| one.text().cmp(&other.text())),
    }
}

/// A text as pieces: digits as a number and by how many they are, and each other character.
fn natural(text: &str) -> Vec<(u8, u64, usize)> {
    let mut pieces = Vec::new();
    let mut rest = text.as_bytes();
    while let Some(first) = rest.first() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 {
            let number = rest[..digits].iter().fold(0u64, |n, byte| n * 10 + u64::from(byte - b'0'));
            // Digits stand among other characters where their first one stands.
            pieces.push((b'0', number, digits));
        } else {
            pieces.push((*first, 0, 0));
        }
        rest = &rest[digits.max(1)..];
    }
    pieces
}

/// A condition.
#[derive(Clone, Debug)]
pub(super) enum Test {
    All,
    Is(String, String),
    In(String, Vec<String>),
    Absent(String),
    Present(String),
    Greater(String, i64),
    LevelFrom(Level),
    Word(String),
    Before(Ticks),
    ArrivedBefore(Ticks),
    Not(Box<Test>),
    And(Box<Test>, Box<Test>),
    Or(Box<Test>, Box<Test>),
}

impl Test {
    pub(super) fn holds(&self, row: &Row) -> bool {
        match self {
            Test::All => true,
            Test::Is(name, text) => row.value(name).is_some_and(|value| value.text() == *text),
            Test::In(name, texts) => row.value(name).is_some_and(|value| texts.contains(&value.text())),
            Test::Absent(name) => row.value(name).is_none(),
            Test::Present(name) => row.value(name).is_some(),
            Test::Greater(name, least) => {
                row.value(name).and_then(Plain::number).is_some_and(|number| number > *least as f64)
            }
            Test::LevelFrom(level) => Level::from_word(&row.text("level")).is_some_and(|of| of.code() >= level.code()),
            Test::Word(word) => row.text("message").split(' ').any(|part| part == word),
            Test::Before(time) => matches!(row.value("time"), Some(Time(of)) if of < time),
            Test::ArrivedBefore(time) => matches!(row.value("_arrived"), Some(Time(of)) if of < time),
            Test::Not(inner) => !inner.holds(row),
            Test::And(one, other) => one.holds(row) && other.holds(row),
            Test::Or(one, other) => one.holds(row) || other.holds(row),
        }
    }

    pub(super) fn written(&self) -> String {
        match self {
            Test::All => "*".into(),
            Test::Is(name, text) => format!("{name}:=\"{text}\""),
            Test::In(name, texts) => format!("{name}:in({})", texts.join(", ")),
            Test::Absent(name) => format!("{name}:\"\""),
            Test::Present(name) => format!("{name}:*"),
            Test::Greater(name, least) => format!("{name}:>{least}"),
            Test::LevelFrom(level) => format!("level:>={}", level.name()),
            Test::Word(word) => format!("message:{word}"),
            Test::Before(time) => format!("_time:<{time}"),
            Test::ArrivedBefore(time) => format!("_arrived:<{time}"),
            Test::Not(inner) => format!("!({})", inner.written()),
            Test::And(one, other) => format!("({}) ({})", one.written(), other.written()),
            Test::Or(one, other) => format!("(({}) or ({}))", one.written(), other.written()),
        }
    }
}

/// A field of a group, maybe a step of it.
#[derive(Clone, Debug)]
pub(super) enum By {
    Field(String),
    Hour,
    ArrivedHour,
    Step(String, i64),
    Pattern(String),
}

impl By {
    fn name(&self) -> String {
        match self {
            By::Field(name) | By::Step(name, _) => name.clone(),
            By::Hour => "_time".into(),
            By::ArrivedHour => "_arrived".into(),
            By::Pattern(name) => format!("pattern({name})"),
        }
    }

    fn written(&self) -> String {
        match self {
            By::Field(name) => name.clone(),
            By::Step(name, step) => format!("{name}:{step}"),
            By::Hour => "_time:1h".into(),
            By::ArrivedHour => "_arrived:1h".into(),
            By::Pattern(name) => format!("pattern({name})"),
        }
    }

    fn of(&self, row: &Row) -> Option<Plain> {
        match self {
            By::Field(name) => row.value(name).cloned(),
            By::Hour | By::ArrivedHour => {
                match row.value(if matches!(self, By::Hour) { "time" } else { "_arrived" })? {
                    Time(time) => {
                        let hour = 36_000_000_000;
                        let ticks = (time.get() - UNIX_EPOCH_TICKS).div_euclid(hour) * hour;
                        Some(Time(Ticks::new(UNIX_EPOCH_TICKS + ticks).expect("a time")))
                    }
                    other => Some(other.clone()),
                }
            }
            By::Step(name, step) => match row.value(name)? {
                Whole(n) => Some(Whole(n.div_euclid(*step) * step)),
                other => Some(other.clone()),
            },
            By::Pattern(name) => Some(Text(pattern(&row.text(name)))).filter(|pattern| *pattern != Text(String::new())),
        }
    }
}

/// Words with a digit are the changing parts, but for short names with a version, such as `x9`.
fn pattern(text: &str) -> String {
    let part = |word: &str| {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let is_version = digits == 1 && word.len() <= 3 && !word.as_bytes()[0].is_ascii_digit();
        if digits > 0 && !is_version { "<_>".to_owned() } else { word.to_owned() }
    };
    text.split(' ').map(part).collect::<Vec<_>>().join(" ")
}

/// A function of `stats` over a field.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) field: String,
    pub(super) condition: Option<Test>,
    pub(super) column: String,
}

impl Function {
    fn written(&self) -> String {
        let Function { name, field, condition, column } = self;
        let arguments = if *name == "quantile" { format!("0.3, {field}") } else { field.clone() };
        let condition = condition.as_ref().map_or(String::new(), |test| format!(" if ({})", test.written()));
        format!("{name}({arguments}){condition} {column}")
    }

    fn of(&self, rows: &[&Row]) -> Option<Plain> {
        let rows: Vec<&&Row> =
            rows.iter().filter(|row| self.condition.as_ref().is_none_or(|test| test.holds(row))).collect();
        let values: Vec<&Plain> = rows.iter().filter_map(|row| row.value(&self.field)).collect();
        let numbers = || values.iter().filter_map(|value| value.number()).collect::<Vec<f64>>();
        let sum = || exact_sum(&numbers());
        let quantile = |phi: f64| {
            let mut numbers = numbers();
            numbers.sort_by(f64::total_cmp);
            let at = ((phi * numbers.len() as f64) as usize).min(numbers.len().checked_sub(1)?);
            Some(value_of(numbers[at]))
        };
        let end = |wanted: Ordering| {
            // Of values that are equal, a text is less than a number.
            let is_number = |value: &Plain| !matches!(value, Text(_));
            let better = |one: &Plain, other: &Plain| {
                let order = order("", Some(one), Some(other)).then_with(|| one.text().cmp(&other.text()));
                order.then_with(|| is_number(one).cmp(&is_number(other))) == wanted
            };
            let is_value = |value: &&Plain| !matches!(value, Float(number) if number.is_nan());
            let values = values.iter().copied().filter(is_value);
            values.reduce(|one, other| if better(other, one) { other } else { one }).cloned()
        };
        Some(match self.name {
            "count" if self.field.is_empty() => Whole(rows.len() as i64),
            "count" => Whole(values.len() as i64),
            "count_empty" => Whole((rows.len() - values.len()) as i64),
            "count_uniq" => {
                let mut texts: Vec<String> = values.iter().map(|value| value.text()).collect();
                texts.sort();
                texts.dedup();
                Whole(texts.len() as i64)
            }
            "sum" if numbers().is_empty() => return None,
            "sum" => sum_of(&values)?,
            "avg" if numbers().is_empty() => return None,
            "avg" => value_of(sum() / numbers().len() as f64),
            "min" => end(Ordering::Less)?,
            "max" => end(Ordering::Greater)?,
            "median" => quantile(0.5)?,
            "quantile" => quantile(0.3)?,
            "sum_len" => Whole(values.iter().map(|value| value.text().len() as i64).sum()),
            name => panic!("{name} is not evaluated"),
        })
    }
}

/// A pipe.
#[derive(Clone, Debug)]
pub(super) enum Pipe {
    Filter(Test),
    Stats(Vec<By>, Vec<Function>),
    Top(usize, Vec<By>),
    Uniq(Vec<By>, bool, Option<usize>),
    Values(String),
    Sort(Vec<(By, bool)>, usize, Option<usize>, bool),
    Limit(usize),
    Offset(usize),
    Sample(usize),
    Fields(Vec<String>),
    Copy(String, String),
    Rename(String, String),
    Delete(String),
    Format(String, String, String),
    Double(String, String),
    Add(String, String, String),
    Length(String, String),
    Replace(String, String, String),
    Extract(String),
    Sessions(Vec<String>, i64),
    Gaps(Vec<String>, i64),
    Pivot(String, Vec<String>),
    Join(Vec<String>, Box<Question>, bool, &'static str),
}

/// A filter and pipes.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) filter: Test,
    pub(super) pipes: Vec<Pipe>,
}

impl Question {
    pub(super) fn written(&self) -> String {
        self.pipes.iter().fold(self.filter.written(), |text, pipe| format!("{text} | {}", pipe.written()))
    }

    /// The answer, of records newest first.
    pub(super) fn answer(&self, records: &[Row]) -> Vec<Row> {
        let chosen = records.iter().filter(|row| self.filter.holds(row)).cloned().collect();
        self.pipes.iter().fold(chosen, |rows, pipe| pipe.apply(rows, records))
    }
}

fn list(by: &[By]) -> String {
    by.iter().map(By::written).collect::<Vec<_>>().join(", ")
}

/// A value that comes as a number and as a text is shown as a number.
fn shown(known: &mut [Option<Plain>], values: Vec<Option<Plain>>) {
    for (known, value) in known.iter_mut().zip(values) {
        if matches!(known, Some(Text(_))) && !matches!(value, Some(Text(_))) {
            *known = value;
        }
    }
}

type Group<'r> = (Vec<Option<Plain>>, Vec<&'r Row>);

/// Rows by the texts of their values, in the order of the values.
fn grouped<'r>(rows: &'r [Row], by: &[By]) -> Vec<Group<'r>> {
    let texts =
        |values: &[Option<Plain>]| values.iter().map(|value| value.as_ref().map(Plain::text)).collect::<Vec<_>>();
    let mut groups: Vec<Group<'r>> = Vec::new();
    for row in rows {
        let values: Vec<Option<Plain>> = by.iter().map(|by| by.of(row)).collect();
        match groups.iter_mut().find(|(known, _)| texts(known) == texts(&values)) {
            Some((known, of)) => {
                shown(known, values);
                of.push(row);
            }
            None => groups.push((values, vec![row])),
        }
    }
    if by.is_empty() && groups.is_empty() {
        groups.push((Vec::new(), Vec::new()));
    }
    groups.sort_by(|(one, _), (other, _)| {
        let by_value =
            || by.iter().zip(one.iter().zip(other)).map(|(by, (a, b))| order(&by.name(), a.as_ref(), b.as_ref()));
        by_value().fold(Ordering::Equal, Ordering::then).then_with(|| texts(one).cmp(&texts(other)))
    });
    groups
}

fn made(columns: Vec<(String, Option<Plain>)>) -> Row {
    Row { columns, place: None }
}

fn duration(ticks: i64) -> String {
    let (hours, minutes, seconds) = (ticks / 36_000_000_000, ticks / 600_000_000 % 60, ticks / 10_000_000 % 60);
    let part = |n: i64, unit: &str| if n > 0 { format!("{n}{unit}") } else { String::new() };
    format!("{}{}{}", part(hours, "h"), part(minutes, "m"), part(seconds, "s"))
}

/// The times of rows that have one, by group, each with the values of its row.
fn times(rows: &[Row], by: &[String]) -> Vec<Vec<(Ticks, Vec<Option<Plain>>)>> {
    let has_time: Vec<Row> = rows.iter().filter(|row| matches!(row.value("time"), Some(Time(_)))).cloned().collect();
    let by: Vec<By> = by.iter().map(|name| By::Field(name.clone())).collect();
    let groups = grouped(&has_time, &by).into_iter().map(|(_, rows)| {
        let time = |row: &&Row| match row.value("time") {
            Some(Time(time)) => Some((*time, by.iter().map(|by| by.of(row)).collect())),
            _ => None,
        };
        let mut times: Vec<(Ticks, Vec<Option<Plain>>)> = rows.iter().filter_map(time).collect();
        times.sort_by_key(|(time, _)| *time);
        times
    });
    groups.filter(|times| !times.is_empty()).collect()
}

fn named(by: &[String], values: &[Option<Plain>]) -> Vec<(String, Option<Plain>)> {
    by.iter().cloned().zip(values.iter().cloned()).collect()
}

impl Pipe {
    pub(super) fn written(&self) -> String {
        match self {
            Pipe::Filter(test) => format!("filter {}", test.written()),
            Pipe::Stats(by, functions) => {
                let functions = functions.iter().map(Function::written).collect::<Vec<_>>().join(", ");
                if by.is_empty() {
                    format!("stats {functions}")
                } else {
                    format!("stats by ({}) {functions}", list(by))
                }
            }
            Pipe::Top(limit, by) => format!("top {limit} by ({})", list(by)),
            Pipe::Uniq(by, hits, limit) => {
                let limit = limit.map_or(String::new(), |limit| format!(" limit {limit}"));
                format!("uniq by ({}){}{limit}", list(by), if *hits { " with hits" } else { "" })
            }
            Pipe::Values(name) => format!("field_values {name}"),
            Pipe::Sort(keys, offset, limit, rank) => {
                let keys =
                    keys.iter().map(|(by, desc)| format!("{}{}", by.written(), if *desc { " desc" } else { "" }));
                let limit = limit.map_or(String::new(), |limit| format!(" limit {limit}"));
                let rank = if *rank { " rank as r" } else { "" };
                format!("sort by ({}) offset {offset}{limit}{rank}", keys.collect::<Vec<_>>().join(", "))
            }
            Pipe::Limit(n) => format!("limit {n}"),
            Pipe::Offset(n) => format!("offset {n}"),
            Pipe::Sample(n) => format!("sample {n}"),
            Pipe::Fields(names) => format!("fields {}", names.join(", ")),
            Pipe::Copy(from, to) => format!("copy {from} as {to}"),
            Pipe::Rename(from, to) => format!("rename {from} as {to}"),
            Pipe::Delete(name) => format!("delete {name}"),
            Pipe::Format(one, other, to) => format!("format \"<{one}>-<{other}>\" as {to}"),
            Pipe::Double(of, to) => format!("math {of} * 2 as {to}"),
            Pipe::Add(one, other, to) => format!("math {one} + {other} as {to}"),
            Pipe::Length(of, to) => format!("len({of}) as {to}"),
            Pipe::Replace(from, to, at) => format!("replace (\"{from}\", \"{to}\") at {at}"),
            Pipe::Extract(name) => format!("extract \"req <{name}> of\" from message"),
            Pipe::Sessions(by, minutes) => format!("sessions by ({}) pause {minutes}m", by.join(", ")),
            Pipe::Gaps(by, minutes) => format!("gaps over {minutes}m by ({})", by.join(", ")),
            Pipe::Pivot(field, _) => format!("pivot {field}"),
            Pipe::Join(by, question, is_inner, prefix) => {
                let inner = if *is_inner { " inner" } else { "" };
                let prefix = if prefix.is_empty() { String::new() } else { format!(" prefix {prefix}") };
                format!("join by ({}) ({}){inner}{prefix}", by.join(", "), question.written())
            }
        }
    }

    fn apply(&self, rows: Vec<Row>, records: &[Row]) -> Vec<Row> {
        let each = |change: &dyn Fn(&mut Row)| {
            let mut rows = rows.clone();
            rows.iter_mut().for_each(change);
            rows
        };
        match self {
            Pipe::Filter(test) => rows.into_iter().filter(|row| test.holds(row)).collect(),
            Pipe::Stats(by, functions) => {
                let row = |(values, of): Group<'_>| {
                    let groups = by.iter().map(By::name).zip(values);
                    let columns = functions.iter().map(|function| (function.column.clone(), function.of(&of)));
                    made(groups.chain(columns).collect())
                };
                grouped(&rows, by).into_iter().map(row).collect()
            }
            Pipe::Top(limit, by) => {
                let mut groups = grouped(&rows, by);
                groups.sort_by_key(|(_, of)| std::cmp::Reverse(of.len()));
                groups.truncate(*limit);
                let hits = |of: &[&Row]| [("hits".to_owned(), Some(Whole(of.len() as i64)))];
                groups
                    .into_iter()
                    .map(|(values, of)| made(by.iter().map(By::name).zip(values).chain(hits(&of)).collect()))
                    .collect()
            }
            Pipe::Uniq(by, with_hits, limit) => {
                let hits = |of: &[&Row]| with_hits.then(|| ("hits".to_owned(), Some(Whole(of.len() as i64))));
                let row =
                    |(values, of): Group<'_>| made(by.iter().map(By::name).zip(values).chain(hits(&of)).collect());
                grouped(&rows, by).into_iter().map(row).take(limit.unwrap_or(usize::MAX)).collect()
            }
            Pipe::Values(name) => Pipe::Uniq(vec![By::Field(name.clone())], true, None).apply(rows, records),
            Pipe::Sort(keys, offset, limit, rank) => {
                let mut sorted = rows;
                // A pattern is a column.
                for (by, _) in keys.iter().filter(|(by, _)| matches!(by, By::Pattern(_))) {
                    sorted.iter_mut().for_each(|row| row.set(&by.name(), by.of(row)));
                }
                sorted.sort_by(|one, other| {
                    let parts = keys.iter().map(|(by, desc)| {
                        let order = order(&by.name(), by.of(one).as_ref(), by.of(other).as_ref());
                        if *desc { order.reverse() } else { order }
                    });
                    parts.fold(Ordering::Equal, Ordering::then)
                });
                sorted.truncate(limit.map_or(usize::MAX, |limit| limit + offset));
                for (number, row) in (1..).zip(&mut sorted).filter(|_| *rank) {
                    row.set("r", Some(Whole(number)));
                }
                sorted.into_iter().skip(*offset).collect()
            }
            Pipe::Limit(n) => rows.into_iter().take(*n).collect(),
            Pipe::Offset(n) => rows.into_iter().skip(*n).collect(),
            Pipe::Sample(n) => rows.into_iter().step_by(*n).collect(),
            Pipe::Fields(names) => {
                let value = |row: &Row, name: &String| {
                    let value = row.columns.iter().find(|(known, _)| known == name);
                    (name.clone(), value.and_then(|(_, value)| value.clone()))
                };
                let row = |row: &Row| Row {
                    columns: names.iter().map(|name| value(row, name)).collect(),
                    place: row.place.clone(),
                };
                rows.iter().map(row).collect()
            }
            Pipe::Copy(from, to) => each(&|row| {
                let value = row.columns.iter().find(|(name, _)| name == from).and_then(|(_, value)| value.clone());
                row.set(to, value);
            }),
            Pipe::Rename(from, to) => each(&|row| {
                let Some(at) = row.columns.iter().position(|(name, _)| name == from) else {
                    if row.columns.iter().any(|(name, _)| name == to) {
                        row.set(to, None);
                    }
                    return;
                };
                let value = row.columns.remove(at).1;
                row.columns.retain(|(name, _)| name != to);
                row.columns.insert(at.min(row.columns.len()), (to.clone(), value));
            }),
            Pipe::Delete(name) => each(&|row| row.columns.retain(|(known, _)| known != name)),
            Pipe::Format(one, other, to) => each(&|row| {
                let text = format!("{}-{}", row.text(one), row.text(other));
                row.set(to, Some(Text(text)));
            }),
            Pipe::Double(of, to) => each(&|row| {
                let number = row.value(of).and_then(Plain::number).unwrap_or(f64::NAN);
                row.set(to, Some(value_of(number * 2.0)));
            }),
            Pipe::Add(one, other, to) => each(&|row| {
                let number = |name| row.value(name).and_then(Plain::number).unwrap_or(f64::NAN);
                let sum = number(one) + number(other);
                row.set(to, Some(value_of(sum)));
            }),
            Pipe::Length(of, to) => each(&|row| {
                let length = row.text(of).len();
                row.set(to, Some(Whole(length as i64)));
            }),
            Pipe::Replace(from, to, at) => each(&|row| {
                if row.columns.iter().any(|(name, value)| name == at && value.is_some()) {
                    let text = row.text(at).replace(from.as_str(), to);
                    row.set(at, Some(Text(text)));
                }
            }),
            Pipe::Extract(name) => each(&|row| {
                let message = row.text("message");
                let found =
                    message.split_once("req ").and_then(|(_, rest)| rest.split_once(" of")).map(|(found, _)| found);
                row.set(name, found.filter(|found| !found.is_empty()).map(|found| Text(found.to_owned())));
            }),
            Pipe::Sessions(by, minutes) => {
                let mut sessions = Vec::new();
                for times in times(&rows, by) {
                    let is_near =
                        |(one, _): &(Ticks, _), (next, _): &(Ticks, _)| next.get() - one.get() <= minutes * 600_000_000;
                    for session in times.chunk_by(is_near) {
                        let mut columns = named(by, &session[0].1);
                        columns.push(("begin".into(), session.first().map(|(time, _)| Time(*time))));
                        columns.push(("end".into(), session.last().map(|(time, _)| Time(*time))));
                        columns.push(("records".into(), Some(Whole(session.len() as i64))));
                        sessions.push(made(columns));
                    }
                }
                sessions
            }
            Pipe::Gaps(by, minutes) => {
                let mut gaps = Vec::new();
                for times in times(&rows, by) {
                    for pair in times.windows(2) {
                        let ticks = pair[1].0.get() - pair[0].0.get();
                        if ticks > minutes * 600_000_000 {
                            let mut columns = named(by, &pair[1].1);
                            columns.push(("from".into(), Some(Time(pair[0].0))));
                            columns.push(("to".into(), Some(Time(pair[1].0))));
                            columns.push(("duration".into(), Some(Text(duration(ticks)))));
                            gaps.push(made(columns));
                        }
                    }
                }
                gaps
            }
            Pipe::Pivot(field, groups) => pivot(&rows, field, groups),
            Pipe::Join(by, question, is_inner, prefix) => {
                let others = question.answer(records);
                let mut joined = Vec::new();
                for row in rows {
                    let is_same = |other: &&Row| by.iter().all(|name| row.text(name) == other.text(name));
                    let same: Vec<&Row> = others.iter().filter(is_same).collect();
                    for other in &same {
                        let mut both = row.clone();
                        for (name, value) in other.columns.iter().filter(|(name, _)| !by.contains(name)) {
                            both.set(&format!("{prefix}{name}"), value.clone());
                        }
                        joined.push(both);
                    }
                    if same.is_empty() && !is_inner {
                        joined.push(row);
                    }
                }
                joined
            }
        }
    }
}

/// One other column: named by the values of the field.
fn pivot(rows: &[Row], field: &str, groups: &[String]) -> Vec<Row> {
    let other =
        rows.first().and_then(|row| row.columns.iter().find(|(name, _)| name != field && !groups.contains(name)));
    let Some((other, _)) = other else { return Vec::new() };
    let by: Vec<By> = groups.iter().map(|name| By::Field(name.clone())).collect();
    let has_cell: Vec<Row> = rows.iter().filter(|row| row.value(other).is_some()).cloned().collect();
    let columns = grouped(&has_cell, &[By::Field(field.to_owned())]);
    let mut pivoted: Vec<Row> = Vec::new();
    for row in rows {
        let is_same = |known: &Row| groups.iter().all(|name| known.text(name) == row.text(name));
        if pivoted.iter().any(is_same) {
            continue;
        }
        let of: Vec<&Row> = rows.iter().filter(|other| is_same(other)).collect();
        let mut made = made(by.iter().map(|by| (by.name(), by.of(row))).collect());
        let mut cells = Vec::new();
        for (value, _) in &columns {
            let text = value[0].as_ref().map(Plain::text);
            let cell = of.iter().find(|row| row.value(field).map(Plain::text) == text).and_then(|row| row.value(other));
            cells.extend(cell);
            made.columns.push((text.unwrap_or("null".into()), cell.cloned()));
        }
        made.columns.push(("total".into(), sum_of(&cells)));
        pivoted.push(made);
    }
    pivoted
}
