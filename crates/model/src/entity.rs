//! A record becomes one row, or a master row and its items where one entity is too small for it.
//!
//! `Time` is the key's time and `Severity` follows from `Level`, so a row stores neither: readers derive both. The other
//! fixed properties are `Level` (beside the key), `Message` and `Source`; all others are the record's fields, by value.
//!
//! An entity of Azure Table has at most 252 properties, 1 MiB in all and 32 Ki UTF-16 units a string. A record that
//! fits goes the short way: one pass, one row. One that does not is written by the *transactional master-item* pattern:
//!
//! ```text
//! …-fffffffe0a12         the master: first pieces of its properties, `Items` = how many rows follow
//! …-fffffffe0a12_0001    an item: a property that the record has already is continued, another one is added
//! …-fffffffe0a12_0002
//! ```
//!
//! all in one batch. More fields than [`FIELDS_MAX`] are kept as one JSON object in the property `Fields`.

use crate::batch::{Batch, ROWS_MAX};
use crate::key::RowKey;
use crate::property::{PROPERTY_NAME_UNITS_MAX, Property, PropertyKind, property_name, to_hex};
use crate::record::{Field, Record, Value};
use std::borrow::Cow;
use std::collections::HashSet;

/// UTF-16 units of a string property at most.
pub const STRING_UNITS_MAX: usize = 32 << 10;
/// Fields of a record that become properties of their own; with the fixed ones they stay under the 252 of an entity.
pub const FIELDS_MAX: usize = 240;
/// Azure's size of an entity at most (1 MiB), less what the keys and fixed properties take.
const ENTITY_BYTES_MAX: usize = (1 << 20) - (8 << 10);
/// Properties of which the values are not, or not alone, the texts of a record: one may lie over two rows, or be written
/// otherwise in JSON. A row that has one of them may have any text.
pub const MULTI_ROW_PROPERTIES: [(&str, PropertyKind); 2] =
    [("Items", PropertyKind::Int32), ("Fields", PropertyKind::String)];

/// A record as it is going to be written: what it takes is known, and counted once.
pub struct SizedRecord<'r> {
    record: &'r Record<'r>,
    source: &'r str,
    /// Bytes of its message, and of the names and texts of its fields.
    text_bytes: usize,
}

impl<'r> SizedRecord<'r> {
    /// Of a record of `source`.
    #[inline]
    pub fn new(record: &'r Record<'r>, source: &'r str) -> SizedRecord<'r> {
        let of_field = |field: &Field<'_>| match &field.value {
            Value::String(text) => field.name.len() + text.len(),
            Value::Binary(bytes) => field.name.len() + bytes.len(),
            _ => field.name.len(),
        };
        let text_bytes = record.message.len() + record.fields.iter().map(of_field).sum::<usize>();
        SizedRecord { record, source, text_bytes }
    }

    /// Rows and bytes that [`append`](SizedRecord::append) will put into a batch, at most.
    #[inline]
    pub fn room(&self) -> (usize, usize) {
        let per_field = 16;
        let bytes = self.text_bytes + self.source.len() + 64 + self.record.fields.len() * per_field;
        if self.is_small() { (1, bytes) } else { (ROWS_MAX, 2 * bytes) }
    }

    /// Whether one entity surely holds it: no text is as long as its bytes are, so the sum bounds every limit.
    fn is_small(&self) -> bool {
        self.record.fields.len() <= FIELDS_MAX && self.text_bytes <= STRING_UNITS_MAX
    }

    /// Writes it to `batch`, which must have the [room](SizedRecord::room) for it.
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
        for field in &record.fields {
            row.add_field(&field.name, property_of(&field.value));
        }
        row.finish();
    }
}

/// Writes a record to `batch`, which must have the [room](SizedRecord::room) for it.
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

/// A property that still has to be written, or the rest of one.
struct Piece<'a> {
    name: Cow<'a, str>,
    value: Property<'a>,
}

fn append_large(batch: &mut Batch, key: RowKey, source: &str, record: &Record<'_>) {
    let (fields, rest) = record.fields.split_at(record.fields.len().min(FIELDS_MAX));
    let rest = json_object(rest);
    let mut left: Vec<Piece<'_>> = Vec::with_capacity(fields.len() + 2);
    if !record.message.is_empty() {
        left.push(Piece { name: "Message".into(), value: Property::String(&record.message) });
    }
    for (name, field) in names_apart(fields).into_iter().zip(fields) {
        left.push(Piece { name: name.into(), value: property_of(&field.value) });
    }
    if let Some(json) = &rest {
        left.push(Piece { name: "Fields".into(), value: Property::String(json) });
    }

    // The master says how many items follow, so the rows are laid out before the first is written.
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

/// The property names of `fields`, no two alike: a piece that continues a property must find it by name.
fn names_apart(fields: &[Field<'_>]) -> Vec<String> {
    let mut taken = HashSet::new();
    let apart = |field: &Field<'_>| {
        let name = property_name(&field.name);
        let kept = &name[..name.floor_char_boundary(PROPERTY_NAME_UNITS_MAX - 4)];
        let numbered = (2..=FIELDS_MAX).map(|n| format!("{kept}_{n}"));
        // Fewer fields than numbers: one of them is free.
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or(name);
        taken.insert(free.clone());
        free
    };
    fields.iter().map(apart).collect()
}

/// As much of `left` as one entity holds, and what stays: whole properties, or the first piece of a long string.
fn fill(left: Vec<Piece<'_>>) -> (Vec<Piece<'_>>, Vec<Piece<'_>>) {
    let (mut row, mut next) = (Vec::new(), Vec::new());
    let mut room = ENTITY_BYTES_MAX;
    for mut piece in left {
        let overhead = 12 + 2 * piece.name.len();
        let Property::String(text) = piece.value else {
            // Values of a fixed size: 240 of them never fill an entity. Bytes may.
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

/// The byte at which `text` has `units` UTF-16 units at most.
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
    // Pairs, not a map: a name that comes twice stays twice.
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
            // As a query shows bytes.
            Value::Binary(bytes) => to_hex(bytes).into(),
        };
        json.push_str(&value.to_string());
    }
    json.push('}');
    Some(json)
}
