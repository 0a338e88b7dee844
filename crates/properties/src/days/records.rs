//! Records of every size and shape.

use super::Dice;
use daytable_model::batch::{Batch, Vocabulary};
use daytable_model::entity::{FIELDS_MAX, STRING_UNITS_MAX, SizedRecord};
use daytable_model::key::{DayTable, Period, RowKey, TableName, partition_key};
use daytable_model::line::{LevelCase, LineLayout, LineSource, TIGHT, WrittenLine, push_literal, push_piece};
use daytable_model::property::{Property, property_name};
use daytable_model::record::{Field, Level, Record, Value};
use daytable_model::time::Ticks;
use daytable_query::OwnedValue;
use std::sync::Arc;

/// Instances and their buckets. The byte order of these names differs from the order of the bucket numbers.
const INSTANCES: [(&str, Option<u8>); 5] =
    [("web", None), ("db", Some(0)), ("db", Some(1)), ("web-17", None), ("größe/1", None)];
/// Names of properties, and other names.
const NAMES: [&str; 16] = [
    "status", "took", "trace", "user.id", "2xx", "größe", "Time", "level", "a", "A", "Message", "message", "Fields",
    "Items", "Arrived", "_arrived",
];
/// Maximum bytes of a record: the maximum of a line.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// A record as written, and its expected form when read.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) instance: &'static str,
    pub(super) partition: Arc<str>,
    pub(super) key: RowKey,
    pub(super) arrived: Option<Ticks>,
    pub(super) level: Option<Level>,
    pub(super) message: String,
    pub(super) fields: Vec<(String, OwnedValue)>,
    /// The field values as `query --json` prints them, without the quotes and escapes of strings.
    pub(super) printed: Vec<String>,
    /// The original text, if the record has one.
    pub(super) line: Option<WrittenLine<'static>>,
}

/// The record as the source of its line's holes.
struct LineParts<'w> {
    key: RowKey,
    level: Option<Level>,
    message: &'w str,
    fields: &'w [(String, OwnedValue)],
}

impl LineSource for LineParts<'_> {
    fn time(&self) -> Ticks {
        self.key.time()
    }

    fn level(&self) -> Option<Level> {
        self.level
    }

    fn property(&self, name: &str) -> Option<Property<'_>> {
        if name == "Message" {
            return Some(Property::String(self.message));
        }
        let field = self.fields.iter().find(|(field, _)| property_name(field) == name);
        field.map(|(_, value)| value.as_property())
    }
}

/// A layout of the parts of a record, in any order, and the line that it gives. Parts that touch, or letters beside
/// them, are marked.
fn line(dice: &mut Dice, parts: &LineParts<'_>) -> Option<WrittenLine<'static>> {
    let is_of_sources =
        parts.fields.iter().all(|(_, value)| value_of(value).is_some_and(|value| !matches!(value, Value::Binary(_))));
    let bytes = parts.message.len() + parts.fields.iter().map(|(_, value)| value.to_string().len()).sum::<usize>();
    if !is_of_sources || bytes > 4000 || dice.is_one_in(3) {
        return None;
    }
    let is_tight = dice.is_one_in(2);
    let (mut layout, mut verbatim) = (String::from(if is_tight { TIGHT } else { "" }), String::new());
    let (mut pieces, mut has_time, mut has_level) = (0, false, false);
    for _ in 0..dice.below(8) {
        let between: &[&str] = if is_tight {
            &["", "took ", " took", "x", "502", "\"b\"", "%"]
        } else {
            &[" ", "=", " took 7=", "; ", "%."]
        };
        push_literal(&mut layout, between[dice.below(between.len())]);
        match dice.below(8) {
            0 => layout.push_str("%m"),
            1 if is_tight => layout.push_str("%j"),
            2 => {
                layout.push_str("%T(0;Y-m-d'TH:M:S.7)");
                has_time = true;
            }
            3 if parts.level.is_some() => {
                layout.extend(['%', dice.pick(&LevelCase::ALL).code()]);
                has_level = true;
            }
            4 => {
                layout.push_str("%v");
                verbatim.push_str(if pieces > 0 { "\u{1f}" } else { "" });
                push_piece(&mut verbatim, dice.pick(&["1.50", "", "took", "\u{1f}", "a\u{1e}b"]).as_bytes());
                pieces += 1;
            }
            _ if parts.fields.is_empty() => {}
            n => {
                let (name, value) = dice.pick(parts.fields);
                let name = property_name(name);
                // A parser leaves a number as text that JSON writes with an exponent (`line_templates/decimals`).
                if matches!(value, OwnedValue::Double(n) if n.is_normal() && !(1e-5..1e16).contains(&n.abs())) {
                    continue;
                }
                layout.push_str(&match n {
                    7 if is_tight => format!("%[{name}]"),
                    6 => format!("%.{}({name})", dice.below(5)),
                    _ => format!("%({name})"),
                });
            }
        }
    }
    let mut text = Vec::new();
    LineLayout::parse(&layout).write_line(parts, &verbatim, &mut text);
    // A record with an empty line gives its message.
    if text.is_empty() {
        return None;
    }
    Some(WrittenLine {
        frame: (layout.len(), verbatim.len()),
        layout: Arc::new(layout.as_str().into()),
        verbatim,
        text: String::from_utf8(text).expect("text").into(),
        message: None,
        made_with: (has_time.then(|| parts.key.time()), parts.level.filter(|_| has_level)),
    })
}

/// See [`Written::printed`].
pub(super) fn printed(value: &OwnedValue) -> String {
    match value {
        OwnedValue::String(text) => text.clone(),
        value => serde_json::to_string(value).expect("plain data").trim_matches('"').to_owned(),
    }
}

/// The day under test.
pub(super) fn day() -> Ticks {
    Ticks::from_date(2026, 11, 20).expect("a date")
}

pub(super) fn table() -> DayTable {
    DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, day())
}

/// The records of one commit, each key once. Some reuse a key of `before`. The records of a wide day have more field
/// names than an entity or the columns of a sealed file hold. Each column makes every query slower.
pub(super) fn commit(dice: &mut Dice, before: &[Written], is_wide: bool) -> Vec<Written> {
    let count = if dice.is_one_in(2) { 1 + dice.below(3) } else { 5 + dice.below(25) };
    let mut written: Vec<Written> = Vec::with_capacity(count);
    for _ in 0..count {
        let (mut next, is_again) = (record(dice, is_wide), dice.is_one_in(6) && !before.is_empty());
        if is_again {
            let old = dice.pick(before);
            (next.instance, next.partition, next.key) = (old.instance, old.partition.clone(), old.key);
        }
        if written.iter().all(|other| other.key != next.key) {
            written.push(next);
        }
    }
    written
}

fn record(dice: &mut Dice, is_wide: bool) -> Written {
    let number = dice.below(INSTANCES.len());
    let (instance, bucket) = INSTANCES[number];
    // Many records share a few times, to the tick.
    let ticks = match dice.below(4) {
        0 => dice.below(3),
        1 => 600_000_000 * dice.below(20),
        _ => dice.below(864_000_000_000),
    };
    let time = Ticks::new(day().get() + i64::try_from(ticks).expect("a day")).expect("in range");
    let level = Level::from_code(u8::try_from(dice.below(10)).expect("small"));
    // A source belongs to one partition.
    let key = RowKey::new(time, 1 + number as u64, dice.below(1 << 40) as u64);
    let partition = partition_key(instance, bucket).into();
    let (message, fields) = content(dice, is_wide);
    let printed = fields.iter().map(|(_, value)| printed(value)).collect();
    let line = line(dice, &LineParts { key, level, message: &message, fields: &fields });
    // Only records as sources make them have an arrival.
    let is_of_sources = fields.iter().all(|(_, value)| value_of(value).is_some());
    let late = std::time::Duration::from_secs(60 + dice.below(200_000) as u64);
    let arrived = (is_of_sources && dice.is_one_in(4)).then(|| time.plus(late));
    Written { instance, partition, key, arrived, level, message, fields, printed, line }
}

fn content(dice: &mut Dice, is_wide: bool) -> (String, Vec<(String, OwnedValue)>) {
    let units = units(dice);
    if is_wide && units <= 4000 && dice.is_one_in(20) {
        // More fields than an entity has properties: the others are kept as JSON.
        let field = |n: usize| (format!("n{n}"), OwnedValue::Int64(1000 + n as i64));
        let mut fields: Vec<_> = (0..FIELDS_MAX + 1 + dice.below(20)).map(field).collect();
        fields.push(("quoted".into(), OwnedValue::String("a \"b\" ü\n".into())));
        return (text(dice, units), fields);
    }
    let parts = if dice.is_one_in(4) { 1 + dice.below(3) } else { 1 };
    let message = if dice.is_one_in(8) { String::new() } else { text(dice, units / parts) };
    let mut fields: Vec<(String, OwnedValue)> = Vec::new();
    for _ in 1..parts {
        fields.push((name(dice, is_wide), OwnedValue::String(text(dice, units / parts))));
    }
    for _ in 0..dice.below(6) {
        // Only rows of a single entity have the types that sources do not produce.
        fields.push((name(dice, is_wide), value(dice, units < 4000)));
    }
    (message, fields)
}

/// UTF-16 units of a record's text: few, so many that a page has them apart, about as many as one, two or three entities hold, or many.
fn units(dice: &mut Dice) -> usize {
    match dice.below(100) {
        0..79 => dice.below(60),
        79..88 => 100 + dice.below(1000),
        88..92 => 9_000 + dice.below(9_000),
        92..96 => (1 + dice.below(2)) * STRING_UNITS_MAX + dice.below(7) - 3,
        96..99 => 30_000 + dice.below(70_000),
        _ => 100_000 + dice.below(150_000),
    }
}

fn name(dice: &mut Dice, is_wide: bool) -> String {
    if is_wide && dice.is_one_in(3) { format!("f{}", dice.below(400)) } else { (*dice.pick(&NAMES)).to_owned() }
}

/// A text of `units` UTF-16 units with unique marks: anywhere, and near the borders of its pieces.
fn text(dice: &mut Dice, units: usize) -> String {
    let fill = *dice.pick(&["x", "é", "𝄞", "a𝄞é ", "took 7 ms of 502; ", "0", "deadbeef", "{\"a\":1.5}"]);
    let mut marks: Vec<usize> = (0..dice.below(4)).map(|_| dice.below(units)).collect();
    for border in (STRING_UNITS_MAX..units).step_by(STRING_UNITS_MAX) {
        marks.push(border - dice.below(12));
    }
    marks.sort_unstable();
    let (mut text, mut length, mut marks) = (String::with_capacity(units), 0, marks.into_iter().peekable());
    // Some texts do not compress.
    let letters: Vec<char> = match dice.is_one_in(3) {
        true => (0..units).map(|_| char::from(b'?' + u8::try_from(dice.below(64)).expect("a letter"))).collect(),
        false => fill.chars().collect(),
    };
    let mut filling = letters.iter().copied().cycle();
    while length < units && text.len() < RECORD_BYTES_MAX {
        if marks.next_if(|at| *at <= length).is_some() {
            let mark = format!("<é{}>", dice.below(100_000));
            length += mark.encode_utf16().count();
            text.push_str(&mark);
        }
        let c = filling.next().expect("without end");
        length += c.len_utf16();
        text.push(c);
    }
    text
}

fn value(dice: &mut Dice, has_all_types: bool) -> OwnedValue {
    let number = [0, 7, 200, 404, 502, -5, 1_000_000, i64::MAX, i64::MIN];
    let double = [0.0, -0.0, 0.5, 1.0, -2.25, 502.0, 1e16, 1e-7, 0.1, f64::NAN];
    match dice.below(if has_all_types { 11 } else { 7 }) {
        0 => OwnedValue::String(text(dice, 12)),
        1 => OwnedValue::String(
            (*dice.pick(&["", "GET", "10.0.0.1", "502", "true", "ü-502-ü", "0f3a9c2e77b0d4a6"])).into(),
        ),
        2 => OwnedValue::Int64(*dice.pick(&number)),
        3 => OwnedValue::Int64(i64::try_from(dice.below(5000)).expect("small") - 100),
        4 => OwnedValue::Double(*dice.pick(&double)),
        5 => OwnedValue::Double(dice.below(1_000_000) as f64 / 8.0),
        6 => OwnedValue::Boolean(dice.is_one_in(2)),
        7 => OwnedValue::Int32(i32::try_from(dice.below(2000)).expect("small") - 1000),
        8 => OwnedValue::DateTime(day().plus(std::time::Duration::from_micros(dice.below(1 << 40) as u64))),
        9 => OwnedValue::Guid(std::array::from_fn(|_| u8::try_from(dice.below(256)).expect("a byte"))),
        _ => OwnedValue::Binary((0..dice.below(9)).map(|_| u8::try_from(dice.below(256)).expect("a byte")).collect()),
    }
}

/// The batches for a commit of these records. Those of an even number of records are of many partitions.
pub(super) fn batches(written: &[Written]) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let is_of_many = written.len().is_multiple_of(2);
    for one in written {
        let fields =
            one.fields.iter().map(|(name, value)| Some(Field { name: name.as_str().into(), value: value_of(value)? }));
        let fields: Option<Vec<Field<'_>>> = fields.collect();
        let message = one.message.as_str().into();
        let record = Record {
            arrived: one.arrived,
            level: one.level,
            message,
            fields: fields.clone().unwrap_or_default(),
            line: one.line.clone().map(Box::new),
            ..Record::default()
        };
        let (rows, bytes) = SizedRecord::new(&record, "source").room();
        let has_room =
            |batch: &Batch| (is_of_many || batch.partition == one.partition) && batch.has_room(rows, bytes + 4096);
        // Rows of a partition stay in their order.
        let at = batches.iter().rposition(has_room).filter(|at| !is_of_many || at + 1 == batches.len());
        let at = at.unwrap_or_else(|| {
            batches.push(match is_of_many {
                true => Batch::of_many(&Vocabulary::default(), table()),
                false => Batch::new(table(), one.partition.clone()),
            });
            batches.len() - 1
        });
        let batch = &mut batches[at];
        batch.begin_partition(one.partition.clone());
        if fields.is_some() {
            daytable_model::entity::append(batch, one.key, "source", &record);
            continue;
        }
        let mut row = batch.begin(one.key, one.level);
        row.add("Source", Property::String("source"));
        if !one.message.is_empty() {
            row.add("Message", Property::String(&one.message));
        }
        for (name, value) in &one.fields {
            row.add_field(name, value.as_property());
        }
        row.finish();
    }
    batches
}

/// The value of a field, if sources produce its type.
fn value_of(value: &OwnedValue) -> Option<Value<'_>> {
    Some(match value {
        OwnedValue::String(text) => Value::String(text.as_str().into()),
        OwnedValue::Int64(n) => Value::Int64(*n),
        OwnedValue::Double(n) => Value::Double(*n),
        OwnedValue::Boolean(b) => Value::Boolean(*b),
        OwnedValue::Binary(bytes) => Value::Binary(bytes.as_slice().into()),
        OwnedValue::Int32(_) | OwnedValue::DateTime(_) | OwnedValue::Guid(_) => return None,
    })
}
