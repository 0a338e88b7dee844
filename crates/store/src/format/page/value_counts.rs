//! Counts of records by value and level, of the columns of a page that have few different values.
//!
//! They are counted while a page is built, and stored beside its header (`page_counts`). So a question
//! for the number of such values opens no page.

use crate::format::IS_SMALL;
use daytable_model::line::LAYOUT;
use daytable_model::property::{OwnedValue, Property, PropertyKind};
use daytable_model::record::Level;

/// Bytes of a page before encoding from which its values are counted. Smaller pages are soon merged, or are few records.
pub(super) const COUNTED_MIN: usize = if IS_SMALL { 512 } else { 32 << 10 };
/// Different values that a counted column has at most.
pub(crate) const VALUES_MAX: usize = 16;
/// Bytes of the longest value of a counted column: longer texts rarely repeat.
const VALUE_BYTES_MAX: usize = 64;
/// The same of layouts, which records share.
const LAYOUT_BYTES_MAX: usize = 4096;
/// More values than these are counted if each has this many records on average.
const UNREPEATED_MAX: usize = 4;
const REPEATS_MIN: usize = 4;
/// Levels, and none.
pub(crate) const LEVELS: usize = 1 + Level::ALL.len();
/// Slots of the table of different values; a power of two.
const SLOTS: usize = 4 * VALUES_MAX;

/// The numbers of the records of a page, which has no items.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueCounts {
    pub(crate) columns: Vec<ColumnCounts>,
}

impl ValueCounts {
    /// About the bytes that they have in memory.
    pub(super) fn memory(&self) -> usize {
        let values = self.columns.iter().map(|column| column.values.as_ref().map_or(0, Vec::len)).sum::<usize>();
        self.columns.len() * size_of::<ColumnCounts>() + values * (size_of::<CountedValue>() + VALUE_BYTES_MAX)
    }
}

/// The numbers of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnCounts {
    pub(crate) name: String,
    pub(crate) kind: PropertyKind,
    /// Records with a value that is not an empty text.
    pub(crate) filled: u32,
    /// The values, if they are few.
    pub(crate) values: Option<Vec<CountedValue>>,
}

/// A value and its number of records by the code of their level.
pub(crate) type CountedValue = (OwnedValue, [u32; LEVELS]);

/// Bytes of the longest text of a column whose values are counted; `None` if none of its values are.
pub(crate) fn counted_bytes_max(name: &str) -> Option<usize> {
    match name {
        // A question for messages compares whole messages, which are more than their column.
        "Message" => None,
        LAYOUT => Some(LAYOUT_BYTES_MAX),
        _ => Some(VALUE_BYTES_MAX),
    }
}

/// Whether a value is not an empty text.
pub(crate) fn is_filled(value: Property<'_>) -> bool {
    value != Property::String("")
}

/// Whether this many different values of this many records are counted. Others would rarely be those of another page.
pub(crate) fn is_repeated(values: usize, records: usize) -> bool {
    values <= UNREPEATED_MAX || records >= REPEATS_MIN * values
}

/// Counts values by the level of their rows. `None` if there are too many.
pub(super) fn count_few<V: Copy + PartialEq>(
    values: &[V],
    levels: impl Iterator<Item = u8>,
    hash: impl Fn(V) -> u64,
    owned: impl Fn(V) -> Option<OwnedValue>,
) -> Option<Vec<CountedValue>> {
    let mut slots = [0u8; SLOTS];
    let (mut distinct, mut counts): (Vec<V>, Vec<[u32; LEVELS]>) = (Vec::new(), Vec::new());
    for (value, level) in values.iter().zip(levels) {
        // Fibonacci hashing: the highest bits of the product are the slot.
        let mut slot = (hash(*value).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS.ilog2())) as usize;
        let at = loop {
            match usize::from(slots[slot]) {
                0 if distinct.len() == VALUES_MAX => return None,
                0 => {
                    distinct.push(*value);
                    counts.push([0; LEVELS]);
                    // At most 16.
                    slots[slot] = distinct.len() as u8;
                    break distinct.len() - 1;
                }
                taken if distinct[taken - 1] == *value => break taken - 1,
                _ => slot = (slot + 1) % SLOTS,
            }
        };
        counts[at][usize::from(level) % LEVELS] += 1;
    }
    if !is_repeated(distinct.len(), values.len()) {
        return None;
    }
    distinct.into_iter().zip(counts).map(|(value, counts)| Some((owned(value)?, counts))).collect()
}
