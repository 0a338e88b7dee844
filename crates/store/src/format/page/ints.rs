//! A column of whole numbers.
//!
//! ```text
//! ints := width u8      min signed, step varint (width > 0)     value = min + step × bits      [width bits]*   packed
//!       | 0x80 | width  count varint, value signed *count       value = values[bits]           [width bits]*   packed
//! ```
//!
//! `step` is the greatest common divisor of the distances to `min`: a clock that counts microseconds makes ticks that
//! are multiples of 10. A constant column has width 0. No numbers take no bytes at all.

use super::PageError;
use super::bits::{BLOCK_ROWS, Bits, pack, put_signed, put_varint, width_of};
use super::section_cursor::SectionCursor;
use super::sections::Sections;
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};

/// Maximum number of entries of a dictionary.
const DICTIONARY_MAX: usize = 64;
const DICTIONARY: u8 = 0x80;
/// Slots of the hash table of the dictionary; a power of two.
const SLOTS: usize = 256;

/// The chosen encoding of a column, and its size.
pub(super) struct IntsPlan {
    min: i64,
    step: u64,
    width: u32,
    dictionary: Option<Dictionary>,
}

struct Dictionary {
    values: Vec<i64>,
    indices: Vec<u8>,
}

impl IntsPlan {
    pub(super) fn new(values: &[i64]) -> IntsPlan {
        let (mut min, mut max) = (i64::MAX, i64::MIN);
        for &value in values {
            min = min.min(value);
            max = max.max(value);
        }
        if min >= max {
            return IntsPlan { min: values.first().copied().unwrap_or(0), step: 1, width: 0, dictionary: None };
        }
        let step = common_step(values, min);
        let width = width_of(distance(min, max) / step);
        // A dictionary gains nothing on so few bits.
        let dictionary = if width > 2 { Dictionary::new(values, width) } else { None };
        IntsPlan { min, step, width, dictionary }
    }

    /// Approximate bits of `count` numbers.
    pub(super) fn bits(&self, count: usize) -> usize {
        match &self.dictionary {
            Some(dictionary) => dictionary.bits(),
            None => 24 + count * self.width as usize,
        }
    }

    pub(super) fn write(&self, values: &[i64], out: &mut Sections) {
        if values.is_empty() {
            return;
        }
        if let Some(dictionary) = &self.dictionary {
            return dictionary.write(out);
        }
        // At most 64.
        out.meta.push(self.width as u8);
        put_signed(&mut out.meta, self.min);
        if self.width == 0 {
            return;
        }
        put_varint(&mut out.meta, self.step);
        let distances = values.iter().map(|&value| distance(self.min, value));
        match self.step {
            1 => pack(&mut out.packed, self.width, distances),
            // Division by a constant is a multiplication; clocks produce a step of 10.
            10 => pack(&mut out.packed, self.width, distances.map(|d| d / 10)),
            step => pack(&mut out.packed, self.width, distances.map(|d| d / step)),
        }
    }
}

/// Writes a column in its shortest form.
pub(super) fn encode(values: &[i64], out: &mut Sections) {
    IntsPlan::new(values).write(values, out);
}

fn distance(min: i64, value: i64) -> u64 {
    value.wrapping_sub(min).cast_unsigned()
}

fn common_step(values: &[i64], min: i64) -> u64 {
    let mut step = 0;
    for &value in values {
        let (mut a, mut b) = (distance(min, value), step);
        if step == 10 && a % 10 == 0 {
            continue;
        }
        while b != 0 {
            (a, b) = (b, a % b);
        }
        step = a;
        if step == 1 {
            break;
        }
    }
    step.max(1)
}

impl Dictionary {
    /// A dictionary, if it is shorter than `width` bits a number.
    fn new(values: &[i64], width: u32) -> Option<Dictionary> {
        let mut slots = [0u8; SLOTS];
        let mut distinct: Vec<i64> = Vec::new();
        let mut indices = Vec::with_capacity(values.len());
        for &value in values {
            // Fibonacci hashing: the top byte of the product is the slot.
            let mut slot = (value.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize;
            let index = loop {
                match slots[slot] {
                    0 if distinct.len() == DICTIONARY_MAX => return None,
                    0 => {
                        distinct.push(value);
                        slots[slot] = distinct.len() as u8;
                        break slots[slot] - 1;
                    }
                    taken if distinct[usize::from(taken) - 1] == value => break taken - 1,
                    _ => slot = (slot + 1) % SLOTS,
                }
            };
            indices.push(index);
        }
        let dictionary = Dictionary { values: distinct, indices };
        (dictionary.bits() < 24 + values.len() * width as usize).then_some(dictionary)
    }

    fn width(&self) -> u32 {
        width_of(self.values.len() as u64 - 1)
    }

    fn bits(&self) -> usize {
        let bytes_of = |value: &i64| width_of(value.unsigned_abs() << 1).div_ceil(7).max(1) as usize;
        16 + 8 * self.values.iter().map(bytes_of).sum::<usize>() + self.indices.len() * self.width() as usize
    }

    fn write(&self, out: &mut Sections) {
        out.meta.push(DICTIONARY | self.width() as u8);
        put_varint(&mut out.meta, self.values.len() as u64);
        for &value in &self.values {
            put_signed(&mut out.meta, value);
        }
        pack(&mut out.packed, self.width(), self.indices.iter().map(|&index| u64::from(index)));
    }
}

/// A decoded column; numbers stay packed.
#[derive(Debug)]
pub(super) enum Ints {
    Linear { min: i64, step: u64, bits: Bits },
    Dictionary { values: Vec<i64>, bits: Bits },
}

impl Ints {
    pub(super) fn decode(count: usize, cursor: &mut SectionCursor<'_>) -> Result<Ints, PageError> {
        let ints = Ints::locate(count, cursor)?;
        if let Ints::Dictionary { .. } = ints {
            ints.check(count, cursor.packed, |_| true)?;
        }
        Ok(ints)
    }

    /// As `decode`, without checking the packed numbers: some may point behind the end of the dictionary.
    pub(super) fn locate(count: usize, cursor: &mut SectionCursor<'_>) -> Result<Ints, PageError> {
        if count == 0 {
            return Ok(Ints::Linear { min: 0, step: 0, bits: cursor.bits(0, 0)? });
        }
        let head = cursor.meta.byte()?;
        let width = u32::from(head & !DICTIONARY);
        if width > 64 {
            return Err(PageError::Damaged("a number is wider than 64 bits"));
        }
        if head & DICTIONARY == 0 {
            let min = cursor.meta.signed()?;
            let step = if width == 0 { 0 } else { cursor.meta.varint()? };
            return Ok(Ints::Linear { min, step, bits: cursor.bits(count, width)? });
        }
        let entries = cursor.meta.count(DICTIONARY_MAX)?;
        let values = (0..entries).map(|_| cursor.meta.signed()).collect::<Result<Vec<_>, _>>()?;
        Ok(Ints::Dictionary { values, bits: cursor.bits(count, width)? })
    }

    /// The number at `index`, which must be below the decoded count.
    #[inline]
    pub(super) fn get(&self, packed: &[u8], index: usize) -> i64 {
        match self {
            Ints::Linear { min, step, bits } => linear(*min, *step, bits.get(packed, index)),
            Ints::Dictionary { values, bits } => entry(values, bits.get(packed, index)).unwrap_or_default(),
        }
    }

    /// The numbers from `index` on, as many as `out` has places, all below the decoded count.
    #[inline]
    pub(super) fn unpack(&self, packed: &[u8], index: usize, out: &mut [i64]) {
        let mut room = [0; BLOCK_ROWS];
        for (out, index) in out.chunks_mut(BLOCK_ROWS).zip((index..).step_by(BLOCK_ROWS)) {
            let block = &mut room[..out.len()];
            match self {
                Ints::Linear { min, step, bits } => {
                    bits.unpack(packed, index, block);
                    for (out, number) in out.iter_mut().zip(block) {
                        *out = linear(*min, *step, *number);
                    }
                }
                Ints::Dictionary { values, bits } => {
                    bits.unpack(packed, index, block);
                    for (out, number) in out.iter_mut().zip(block) {
                        *out = entry(values, *number).unwrap_or_default();
                    }
                }
            }
        }
    }

    /// The least and the greatest number, or bounds of them; `None` if a bound does not fit 64 bits.
    pub(super) fn bounds(&self) -> Option<(i64, i64)> {
        match self {
            Ints::Linear { min, step, bits } => {
                let above = u64::MAX.checked_shr(u64::BITS - bits.width()).unwrap_or(0).checked_mul(*step)?;
                Some((*min, min.checked_add_unsigned(above)?))
            }
            Ints::Dictionary { values, .. } => Some((*values.iter().min()?, *values.iter().max()?)),
        }
    }

    /// Whether any of the numbers may contain the needle, judged by their range or dictionary.
    pub(super) fn may_contain(&self, needle: &Needle) -> bool {
        match self {
            Ints::Linear { .. } => self
                .bounds()
                .map_or(needle.may_be_in(PropertyKind::Int64), |(least, most)| needle.may_be_between(least, most)),
            Ints::Dictionary { values, .. } => values.iter().any(|value| needle.is_in(Property::Int64(*value))),
        }
    }

    /// Checks that every number is in the dictionary and satisfies `holds`, which accepts all numbers between two that it
    /// accepts.
    pub(super) fn check(&self, count: usize, packed: &[u8], holds: impl Fn(i64) -> bool) -> Result<(), PageError> {
        let fits = match self {
            Ints::Linear { min, bits: _, step: 0 } => holds(*min),
            Ints::Linear { .. } if self.bounds().is_some_and(|(least, most)| holds(least) && holds(most)) => true,
            Ints::Linear { .. } => (0..count).all(|index| holds(self.get(packed, index))),
            Ints::Dictionary { values, bits } => {
                bits.are_below(packed, count, values.len()) && values.iter().all(|&v| holds(v))
            }
        };
        if fits { Ok(()) } else { Err(PageError::Damaged("a number is out of range")) }
    }
}

/// The number of `min + step * bits`.
#[inline]
pub(super) fn linear(min: i64, step: u64, bits: u64) -> i64 {
    min.wrapping_add(bits.wrapping_mul(step).cast_signed())
}

#[inline]
fn entry(values: &[i64], index: u64) -> Option<i64> {
    values.get(usize::try_from(index).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::page::bits::PADDING;
    use proptest::prelude::*;

    fn round_trip(values: &[i64]) -> (Vec<i64>, usize) {
        let mut out = Sections::default();
        encode(values, &mut out);
        let bytes = out.meta.len() + out.packed.len();
        let packed = out.packed.len();
        out.packed.extend([0; PADDING]);
        let mut cursor = SectionCursor::of_only((&out.packed, packed, 0), Vec::new(), &out.meta, 0);
        let ints = Ints::decode(values.len(), &mut cursor).expect("what was encoded");
        assert!(cursor.at_end());
        let single: Vec<i64> = (0..values.len()).map(|at| ints.get(&out.packed, at)).collect();
        for from in [0, values.len() / 3] {
            let mut unpacked = vec![7; values.len() - from];
            ints.unpack(&out.packed, from, &mut unpacked);
            assert_eq!(unpacked, single[from..]);
        }
        (single, bytes)
    }

    #[test]
    fn sizes_of_typical_numbers() {
        let statuses = [200, 200, 404, 503].map(i64::from).repeat(100);
        let clock: Vec<i64> = (0..400).map(|n| 1_000 + 10 * (n * n % 256)).collect();
        for (values, bytes) in
            [(vec![7; 400], 2), (statuses, 111), (clock, 406), (Vec::new(), 0), (vec![i64::MIN, i64::MAX], 28)]
        {
            let (back, taken) = round_trip(&values);
            assert_eq!(back, values);
            assert!(taken <= bytes, "{taken} > {bytes}");
        }
    }

    proptest! {
        /// Any numbers are read back.
        #[test]
        fn numbers_round_trip(
            values in prop_oneof![
                proptest::collection::vec(any::<i64>(), 0..100),
                proptest::collection::vec(-3i64..80, 0..300),
                proptest::collection::vec((-500i64..500).prop_map(|n| n * 70 - 3), 0..300),
                proptest::collection::vec(prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(0)], 0..50),
            ]
        ) {
            prop_assert_eq!(round_trip(&values).0, values);
        }
    }
}
