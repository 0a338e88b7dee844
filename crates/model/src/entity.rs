//! Writes a record as one row, or as a master row and its items if one entity is too small for the record.
//!
//! A row stores neither `Time` nor `Severity`: the key contains the time, and the level implies the severity. The
//! other fixed properties are `Level` (beside the key), `Message`, `Source`, and `Layout` and `Verbatim`, from which the
//! original text is made again ([`crate::line`]), and `Stream`, `Nanos` and `Arrived` of some records that were pushed
//! ([`crate::stream`], [`crate::arrival`]). All further properties are the record's fields.
//!
//! An entity of Azure Table has at most 252 properties, 1 MiB in all and 32 Ki UTF-16 units in a string. A record
//! within these limits becomes one row in one pass. A larger record uses the *transactional master-item* pattern:
//!
//! ```text
//! …-fffffffe0a12         the master: the first pieces of its properties, `Items` = number of rows that follow
//! …-fffffffe0a12_0001    an item continues properties of the record, or adds further ones
//! …-fffffffe0a12_0002
//! ```
//!
//! All these rows are in one batch. Fields beyond [`FIELDS_MAX`] are stored as one JSON object in the property
//! `Fields`. `Message` is the whole message of such a record, because no reader of a single row could complete it.

use crate::arrival::ARRIVED;
use crate::batch::{Batch, ROWS_MAX};
use crate::field_properties::field_properties;
use crate::key::RowKey;
use crate::line::{LAYOUT, VERBATIM};
use crate::property::{Property, PropertyKind, property_name, to_hex};
use crate::record::{Field, Record, Value};
use crate::stream::{NANOS, STREAM};
use std::borrow::Cow;

/// Maximum UTF-16 units of a string property.
pub const STRING_UNITS_MAX: usize = 32 << 10;
/// Maximum number of fields that become properties of their own. With the twelve others of an entity of the service they
/// are its 252 at most.
pub const FIELDS_MAX: usize = 240;
/// Azure's maximum size of an entity (1 MiB), minus the room for the keys and the fixed properties.
const ENTITY_BYTES_MAX: usize = (1 << 20) - (8 << 10);
/// Properties whose values are spread over several rows or encoded as JSON. A row with one of them may contain any
/// text, so a search cannot exclude it.
pub const MULTI_ROW_PROPERTIES: [(&str, PropertyKind); 2] =
    [("Items", PropertyKind::Int32), ("Fields", PropertyKind::String)];

/// Properties of a row that are not fields, of records that one row holds.
const FIXED_PROPERTIES: [&str; 7] = ["Source", "Message", LAYOUT, VERBATIM, STREAM, NANOS, ARRIVED];

/// A record of a source, together with the size of its texts.
pub struct SizedRecord<'r> {
    record: &'r Record<'r>,
    source: &'r str,
    /// Bytes of the message, and of the names and texts of the fields.
    text_bytes: usize,
}

impl<'r> SizedRecord<'r> {
    /// Measures a record of `source`.
    #[inline]
    pub fn new(record: &'r Record<'r>, source: &'r str) -> SizedRecord<'r> {
        let of_field = |field: &Field<'_>| match &field.value {
            Value::String(text) => field.name.len() + text.len(),
            Value::Binary(bytes) => field.name.len() + bytes.len(),
            _ => field.name.len(),
        };
        let mut text_bytes = record.message.len() + record.fields.iter().map(of_field).sum::<usize>();
        text_bytes += record.stream.as_ref().map_or(0, |stream| stream.text.len());
        if let Some(line) = &record.line {
            // A line that turns out to be kept whole has as many bytes as the parts of the record, and some more.
            text_bytes += line.verbatim.len() + line.layout.len();
        }
        SizedRecord { record, source, text_bytes }
    }

    /// The maximum number of rows and bytes that [`append`](SizedRecord::append) adds to a batch.
    #[inline]
    pub fn room(&self) -> (usize, usize) {
        let per_field = 16;
        let bytes = self.text_bytes + self.source.len() + 64 + self.record.fields.len() * per_field;
        if self.is_small() { (1, bytes) } else { (ROWS_MAX, 2 * bytes) }
    }

    /// Whether one entity surely holds the record. A text has at most as many UTF-16 units as bytes, so the sum
    /// bounds every limit.
    fn is_small(&self) -> bool {
        self.record.fields.len() <= FIELDS_MAX && self.text_bytes <= STRING_UNITS_MAX
    }

    /// Appends the record to `batch`, which must have [room](SizedRecord::room) for it.
    pub fn append(&self, batch: &mut Batch, key: RowKey) {
        let SizedRecord { record, source, .. } = *self;
        if !self.is_small() {
            return append_large(batch, key, source, record);
        }
        if batch.is_empty() {
            batch.reserve_first(record.fields.len() + 2, self.text_bytes + source.len());
        }
        let mut row = batch.begin(key, record.level);
        row.add("Source", Property::String(source));
        if !record.message.is_empty() {
            row.add("Message", Property::String(&record.message));
        }
        let mut keeps_names = true;
        match record.line.as_deref().and_then(|line| Some((line, line.layout.names()?))) {
            // A field that was added after parsing makes the layout unfit.
            Some((line, names)) if names.len() == record.fields.len() => {
                debug_assert!(names.iter().zip(&record.fields).all(|(name, field)| **name == *field.name));
                let values = record.fields.iter().map(|field| property_of(&field.value));
                keeps_names = row.add_named_fields(&line.layout, names, values, &FIXED_PROPERTIES);
            }
            _ => {
                let fields = record.fields.iter().map(|field| (&*field.name, property_of(&field.value)));
                keeps_names &= row.add_fields(fields);
            }
        }
        if let Some(line) = &record.line {
            if keeps_names && line.is_of(key.time(), record.level) {
                row.add_shared(LAYOUT, &line.layout);
                if !line.verbatim.is_empty() {
                    row.add(VERBATIM, Property::String(&line.verbatim));
                }
            } else {
                let (layout, verbatim) =
                    if keeps_names { line.changed(key.time(), record.level) } else { line.whole() };
                row.add(LAYOUT, Property::String(&layout));
                row.add(VERBATIM, Property::String(&verbatim));
            }
        }
        if let Some(stream) = &record.stream {
            row.add(STREAM, Property::String(&stream.text));
            if stream.nanos > 0 {
                row.add(NANOS, Property::Int32(stream.nanos.into()));
            }
        }
        if let Some(arrived) = record.arrived {
            row.add(ARRIVED, Property::DateTime(arrived));
        }
        row.finish();
    }
}

/// Appends a record to `batch`, which must have [room](SizedRecord::room) for it.
pub fn append(batch: &mut Batch, key: RowKey, source: &str, record: &Record<'_>) {
    SizedRecord::new(record, source).append(batch, key);
}

#[inline(always)]
fn property_of<'a>(value: &'a Value<'_>) -> Property<'a> {
    match value {
        Value::String(text) => Property::String(text),
        Value::Int64(n) => Property::Int64(*n),
        Value::Double(n) => Property::Double(*n),
        Value::Boolean(b) => Property::Boolean(*b),
        Value::Binary(bytes) => Property::Binary(bytes),
    }
}

/// A property that is not written yet, or the remainder of one.
struct Piece<'a> {
    name: Cow<'a, str>,
    value: Property<'a>,
}

fn append_large(batch: &mut Batch, key: RowKey, source: &str, record: &Record<'_>) {
    let (fields, rest) = record.fields.split_at(record.fields.len().min(FIELDS_MAX));
    let rest = json_object(rest);
    let mut left: Vec<Piece<'_>> = Vec::with_capacity(fields.len() + 2);
    let line = record.line.as_deref();
    let (message, around) = match line.and_then(|line| line.around_message(&record.message)) {
        Some((whole, around)) => (whole, Some(around)),
        None => (&*record.message, None),
    };
    // First, so that the master has it.
    left.extend(record.arrived.map(|arrived| Piece { name: ARRIVED.into(), value: Property::DateTime(arrived) }));
    if !message.is_empty() {
        left.push(Piece { name: "Message".into(), value: Property::String(message) });
    }
    // All are different: an item finds the property that it continues by its name.
    let names = field_properties(fields.iter().map(|field| &*field.name));
    let keeps_names =
        rest.is_none() && names.iter().zip(fields).all(|(name, field)| **name == *property_name(&field.name));
    for (name, field) in names.into_iter().zip(fields) {
        left.push(Piece { name: String::from(name).into(), value: property_of(&field.value) });
    }
    if let Some(json) = &rest {
        left.push(Piece { name: "Fields".into(), value: Property::String(json) });
    }
    if let Some(stream) = &record.stream {
        left.push(Piece { name: STREAM.into(), value: Property::String(&stream.text) });
        if stream.nanos > 0 {
            left.push(Piece { name: NANOS.into(), value: Property::Int32(stream.nanos.into()) });
        }
    }
    let written = line.map(|line| match around {
        None if keeps_names && line.is_of(key.time(), record.level) => {
            (Cow::Borrowed(&**line.layout), Cow::Borrowed(&*line.verbatim))
        }
        around => {
            let (layout, verbatim) = around.unwrap_or_else(|| line.whole());
            (Cow::Owned(layout), Cow::Owned(verbatim))
        }
    });
    if let Some((layout, verbatim)) = &written {
        left.push(Piece { name: LAYOUT.into(), value: Property::String(layout) });
        left.push(Piece { name: VERBATIM.into(), value: Property::String(verbatim) });
    }

    // The master contains the number of items, so all rows are planned before the first is written.
    let mut rows: Vec<Vec<Piece<'_>>> = Vec::new();
    while !left.is_empty() {
        let (row, next) = fill(left);
        rows.push(row);
        left = next;
    }
    let items = i32::try_from(rows.len()).unwrap_or(i32::MAX) - 1;
    for (number, pieces) in (0u16..).zip(rows) {
        let level = if number == 0 { record.level } else { None };
        let mut row = batch.begin(key.with_item(number), level);
        if number == 0 {
            row.add("Source", Property::String(source));
            if items > 0 {
                row.add("Items", Property::Int32(items));
            }
        }
        for piece in pieces {
            row.add(&piece.name, piece.value);
        }
        row.finish();
    }
}

/// Splits `left` into the part that fits one entity and the remainder: whole properties, or the first piece of a long
/// string.
fn fill(left: Vec<Piece<'_>>) -> (Vec<Piece<'_>>, Vec<Piece<'_>>) {
    let (mut row, mut next) = (Vec::new(), Vec::new());
    let mut room = ENTITY_BYTES_MAX;
    for mut piece in left {
        let overhead = 12 + 2 * piece.name.len();
        let Property::String(text) = piece.value else {
            // 240 values of a fixed size never fill an entity. Binary values may.
            let size = match piece.value {
                Property::Binary(bytes) => overhead + bytes.len(),
                _ => overhead + 16,
            };
            if room < size && !row.is_empty() {
                next.push(piece);
            } else {
                room = room.saturating_sub(size);
                row.push(piece);
            }
            continue;
        };
        let cut = cut_at_units(text, STRING_UNITS_MAX);
        if room < overhead + 2 * cut {
            next.push(piece);
            continue;
        }
        room -= overhead + 2 * cut;
        if cut < text.len() {
            next.push(Piece { value: Property::String(&text[cut..]), ..Piece { name: piece.name.clone(), ..piece } });
        }
        piece.value = Property::String(&text[..cut]);
        row.push(piece);
    }
    (row, next)
}

/// The byte position up to which `text` has at most `units` UTF-16 units.
fn cut_at_units(text: &str, units: usize) -> usize {
    if text.len() <= units {
        return text.len();
    }
    let mut counted = 0;
    for (at, c) in text.char_indices() {
        counted += c.len_utf16();
        if counted > units {
            return at;
        }
    }
    text.len()
}

fn json_object(fields: &[Field<'_>]) -> Option<String> {
    if fields.is_empty() {
        return None;
    }
    // Written as pairs instead of a map, so that a repeated name stays repeated.
    let mut json = String::from("{");
    for field in fields {
        if json.len() > 1 {
            json.push(',');
        }
        json.push_str(&serde_json::Value::from(field.name.as_ref()).to_string());
        json.push(':');
        let value = match &field.value {
            Value::String(text) => serde_json::Value::from(text.as_ref()),
            Value::Int64(n) => (*n).into(),
            Value::Double(n) => (*n).into(),
            Value::Boolean(b) => (*b).into(),
            // The form in which a query shows bytes.
            Value::Binary(bytes) => to_hex(bytes).into(),
        };
        json.push_str(&value.to_string());
    }
    json.push('}');
    Some(json)
}
