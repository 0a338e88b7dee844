//! The values of groups as they are in the file.
//!
//! ```text
//! cell = 0                           no value
//!      | 1, value                    any other value
//!      | 2, key (8 bytes)            a text as a pattern and its numbers
//! ```
//!
//! Groups are told apart by their texts, whatever types these come from. The form of a text in the file follows
//! from the text, so the hash of a group is that of the forms of its texts. A text is printed once its group is shown or compared.

use super::run::damaged;
use super::source::{GroupCell, GroupCells, GroupSource};
use crate::answer::packed_text::{packed_key, pattern_of, print, split, with_pattern};
use crate::answer::spill_patterns::SpillPatterns;
use crate::entity::OwnedValue;
use crate::spilled::{Spilled, SpilledBytes, read_property, write_property};
use daytable_model::property::{Property, PropertyKind};
use daytable_platform::budget::OverBudget;
use foldhash::quality::FixedState;
use std::hash::BuildHasher;
use std::sync::Arc;

const NONE: u8 = 0;
const VALUE: u8 = 1;
const PACKED: u8 = 2;

/// The hash by which groups are told apart.
pub(super) type GroupHash = [u64; 2];

/// The values of a group as they are in the file.
#[derive(Clone, Copy)]
pub(in crate::answer) struct SpilledCells<'c> {
    pub(super) bytes: &'c [u8],
    pub(super) patterns: &'c [Arc<str>],
}

/// A cell as it is in the file.
#[derive(Clone, Copy)]
enum RawCell<'c> {
    Value(Option<Property<'c>>),
    Packed(u64),
}

impl<'c> RawCell<'c> {
    fn read(from: &mut SpilledBytes<'c>) -> Option<RawCell<'c>> {
        Some(match u8::read(from)? {
            NONE => RawCell::Value(None),
            VALUE => RawCell::Value(Some(read_property(from)?)),
            PACKED => RawCell::Packed(u64::from_le_bytes(from.array()?)),
            _ => return None,
        })
    }

    fn is_text(&self) -> bool {
        !matches!(self, RawCell::Value(value) if value.is_none_or(|value| value.kind() != PropertyKind::String))
    }
}

impl<'c> SpilledCells<'c> {
    /// Reads the values, into the memory of others.
    pub(super) fn read(self, room: &mut GroupCells) -> Result<(), OverBudget> {
        let (mut from, mut place) = (SpilledBytes::new(self.bytes), 0);
        while !from.is_empty() {
            let cell = RawCell::read(&mut from).ok_or_else(damaged)?;
            if place == room.len() {
                room.push(None);
            }
            let mut text = match room[place].take() {
                Some(OwnedValue::String(text)) => text,
                _ => String::new(),
            };
            text.clear();
            room[place] = match cell {
                RawCell::Value(Some(Property::String(value))) => {
                    text.push_str(value);
                    Some(OwnedValue::String(text))
                }
                RawCell::Value(value) => value.map(OwnedValue::from),
                RawCell::Packed(key) => {
                    print(self.patterns.get(pattern_of(key) as usize).ok_or_else(damaged)?, key, &mut text);
                    Some(OwnedValue::String(text))
                }
            };
            place += 1;
        }
        room.truncate(place);
        Ok(())
    }

    /// The values, on their own.
    pub(super) fn owned(self) -> Result<GroupCells, OverBudget> {
        let mut values = GroupCells::new();
        self.read(&mut values)?;
        Ok(values)
    }
}

/// Appends, of each value of two groups with the same texts, the one that is shown: one of another type rather
/// than a text.
pub(super) fn put_better(cells: &[u8], others: &[u8], to: &mut Vec<u8>) {
    let (mut own, mut others) = (SpilledBytes::new(cells), SpilledBytes::new(others));
    loop {
        let (before, other_before) = (own.rest(), others.rest());
        let (Some(cell), Some(other)) = (RawCell::read(&mut own), RawCell::read(&mut others)) else { return };
        let is_other_better = cell.is_text() && !other.is_text() && !matches!(other, RawCell::Value(None));
        to.extend_from_slice(match is_other_better {
            true => &other_before[..other_before.len() - others.rest().len()],
            false => &before[..before.len() - own.rest().len()],
        });
    }
}

/// Writes values of groups in the form of the file, one group at a time.
pub(super) struct CellWriter<'p> {
    patterns: &'p SpillPatterns,
    /// For each place of a group the patterns of its source, with their numbers in the file.
    of_source: Vec<Vec<(String, Option<u32>)>>,
    /// The number of the pattern of whole numbers.
    whole: Option<u32>,
    cells: Vec<u8>,
    /// The forms of the texts of the values.
    key: Vec<u8>,
    text: String,
}

impl<'p> CellWriter<'p> {
    /// Writes the groups of a source.
    pub(super) fn new(source: &impl GroupSource, patterns: &'p SpillPatterns) -> CellWriter<'p> {
        let numbered = |pattern: String| {
            let number = patterns.number(&pattern);
            (pattern, number)
        };
        let of_source = source.patterns().into_iter().map(|of| of.into_iter().map(numbered).collect()).collect();
        let whole = split("0").and_then(|short| patterns.number(short.pattern()));
        CellWriter { patterns, of_source, whole, cells: Vec::new(), key: Vec::new(), text: String::new() }
    }

    /// Writes the values of a group. Returns them with the hash by which groups are told apart.
    pub(super) fn write(&mut self, source: &impl GroupSource, group: usize) -> (&[u8], GroupHash) {
        let CellWriter { patterns, of_source, whole, cells, key, text } = self;
        cells.clear();
        key.clear();
        let mut place = 0;
        source.each_cell(group, &mut |cell| {
            let start = cells.len();
            match cell {
                GroupCell::Value(None) => cells.push(NONE),
                GroupCell::Unpacked(value) => put_unpacked(value, cells),
                GroupCell::Value(Some(Property::String(value))) => put_text(patterns, value, cells),
                GroupCell::Packed(pattern, packed) => match &of_source[place][pattern as usize] {
                    (_, Some(number)) => put_packed(with_pattern(*number, packed), cells),
                    (pattern, None) => {
                        text.clear();
                        print(pattern, packed, text);
                        put_unpacked(text, cells);
                    }
                },
                GroupCell::Value(Some(value)) => {
                    let packed = match (value, *whole) {
                        (Property::Int64(n), Some(whole)) => packed_key(whole, [n].into_iter()),
                        _ => None,
                    };
                    match packed {
                        Some(packed) => put_packed(packed, key),
                        None => put_text(patterns, &value.text(), key),
                    }
                    cells.push(VALUE);
                    write_property(value, cells);
                    place += 1;
                    return;
                }
            }
            key.extend_from_slice(&cells[start..]);
            place += 1;
        });
        (cells, [1, 2].map(|seed| FixedState::with_seed(seed).hash_one(key.as_slice())))
    }
}

fn put_text(patterns: &SpillPatterns, text: &str, to: &mut Vec<u8>) {
    match patterns.key(text) {
        Some(packed) => put_packed(packed, to),
        None => put_unpacked(text, to),
    }
}

fn put_packed(key: u64, to: &mut Vec<u8>) {
    to.push(PACKED);
    to.extend_from_slice(&key.to_le_bytes());
}

/// Appends a text that is not packed.
fn put_unpacked(text: &str, to: &mut Vec<u8>) {
    to.push(VALUE);
    write_property(Property::String(text), to);
}
