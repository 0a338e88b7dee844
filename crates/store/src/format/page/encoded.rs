//! Queries on a column in its encoded form: a test runs once per distinct value if there are few, and a text is
//! searched in patterns and in bytes instead of printed values.

use super::ColumnRef;
use super::bits::TextSpan;
use super::column::EncodedValues;
use super::hex;
use super::ints::Ints;
use super::pattern::{NUMBERS_MAX, PatternTexts, split};
use super::strings::{HexTexts, Strings};
use daytable_model::needle::Needle;
use daytable_model::property::Property;
use daytable_model::row_set::RowSet;
use memchr::memmem::Finder;

/// Numbers of at most this many bits are read once per distinct value.
const NARROW_BITS: u32 = 8;
/// Fewer rows are looked up one by one.
const FEW_ROWS: usize = 8;

/// Reads values of a column: as they are, or as a pattern and its numbers, which need not be printed.
pub trait ValueReader<T: Copy> {
    /// Reads a value.
    fn read(&mut self, value: Property<'_>) -> T;

    /// The number by which a pattern is known to [`ValueReader::read_numbers`]; `None` if its texts have to be printed.
    fn pattern(&mut self, pattern: &str) -> Option<u32>;

    /// Reads a text by the number of its pattern and its numbers; `None` if the text has to be printed.
    fn read_numbers(&mut self, pattern: u32, numbers: &[i64]) -> Option<T>;
}

/// Whether the values of a pattern contain a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PatternVerdict {
    All,
    None,
    /// Each value must be tested.
    Some,
}

impl ColumnRef<'_> {
    /// The rows with a value.
    pub fn present(&self) -> RowSet {
        let column = self.column();
        RowSet::of(self.page().len(), |row| column.index(row).is_some())
    }

    /// The rows among these with a value that is no empty text.
    pub fn filled(&self, among: &RowSet) -> RowSet {
        let EncodedValues::Strings(strings) = &self.column().values else {
            let mut present = self.present();
            present.keep(among);
            return present;
        };
        let mut filled = RowSet::none(self.page().len());
        match strings {
            Strings::Hex(_) => self.each_index(among, |row, _| filled.insert(row)),
            Strings::Patterns(patterns) => {
                let is_empty: Vec<bool> = patterns
                    .patterns
                    .iter()
                    .map(|pattern| pattern.slots() == 0 && pattern.pieces.iter().all(|piece| piece.range().is_empty()))
                    .collect();
                self.each_index(among, |row, index| {
                    insert_if(&mut filled, row, !is_empty[usize::from(patterns.indices[index])]);
                });
            }
            Strings::Plain { .. } => self.each_index(among, |row, index| {
                insert_if(&mut filled, row, !strings.span(self.page().packed(), index).is_empty());
            }),
            Strings::Constant(_) | Strings::Dictionary { .. } => {
                let is_filled = |value: Property<'_>| value != Property::String("");
                self.map(among, is_filled, |row, is_filled| insert_if(&mut filled, row, is_filled));
            }
        }
        filled
    }

    /// The bounds of a column of whole numbers, booleans or times; not always the narrowest.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        match &self.column().values {
            EncodedValues::Ints(ints) => ints.bounds(),
            _ => None,
        }
    }

    /// Applies `read` to the values of the rows `among`, once per distinct value if there are few, and passes the
    /// results in the order of the rows.
    pub fn map<T: Copy>(
        &self,
        among: &RowSet,
        mut read: impl FnMut(Property<'_>) -> T,
        mut each: impl FnMut(usize, T),
    ) {
        let (column, page) = (self.column(), self.page());
        let (packed, text) = (page.packed(), page.text());
        let kind = column.kind;
        match &column.values {
            EncodedValues::Strings(Strings::Constant(span)) => {
                let mut known = None;
                let value = text.get(span.range()).unwrap_or_default();
                self.each_index(among, |row, _| each(row, *known.get_or_insert_with(|| read(Property::String(value)))));
            }
            EncodedValues::Strings(Strings::Dictionary { entries, indices }) => {
                let mut known: Vec<Option<T>> = vec![None; entries.len()];
                self.each_index(among, |row, index| {
                    let entry = indices.get(packed, index) as usize;
                    let Some(place) = known.get_mut(entry) else { return };
                    let value = || text.get(entries[entry].range()).unwrap_or_default();
                    each(row, *place.get_or_insert_with(|| read(Property::String(value()))));
                });
            }
            EncodedValues::Strings(Strings::Patterns(patterns)) if !patterns.is_printed() => {
                self.map_patterns(patterns, among, &mut read, &mut each);
            }
            EncodedValues::Strings(strings) => {
                let mut room = String::new();
                self.each_index(among, |row, index| {
                    let value = strings.value_in(packed, text, index, &mut room).unwrap_or_default();
                    each(row, read(Property::String(value)));
                });
            }
            EncodedValues::Ints(ints) => {
                let of = |n| crate::format::page::column::whole(kind, n);
                let mut read_number = |n| of(n).map(&mut read);
                match ints {
                    Ints::Dictionary { values, bits } => {
                        let known: Vec<Option<T>> = values.iter().map(|n| read_number(*n)).collect();
                        self.each_index(among, |row, index| {
                            let value = known.get(bits.get(packed, index) as usize).copied().flatten();
                            value.into_iter().for_each(|value| each(row, value));
                        });
                    }
                    Ints::Linear { min, step, bits } if bits.width() <= NARROW_BITS => {
                        let mut known: Vec<Option<Option<T>>> = vec![None; 1 << bits.width()];
                        self.each_index(among, |row, index| {
                            let bits = bits.get(packed, index);
                            let number = min.wrapping_add(bits.wrapping_mul(*step).cast_signed());
                            let value = known[bits as usize].get_or_insert_with(|| read_number(number));
                            value.iter().for_each(|value| each(row, *value));
                        });
                    }
                    Ints::Linear { .. } => self.each_index(among, |row, index| {
                        read_number(ints.get(packed, index)).into_iter().for_each(|value| each(row, value));
                    }),
                }
            }
            _ => self.each_index(among, |row, index| {
                let value = column.value(index, packed, text).map(&mut read);
                value.into_iter().for_each(|value| each(row, value));
            }),
        }
    }

    /// Reads the values of the rows `among`, as [`ColumnRef::map`] does, texts of patterns without printing them.
    pub fn read<T: Copy>(&self, among: &RowSet, reader: &mut impl ValueReader<T>, mut each: impl FnMut(usize, T)) {
        let patterns = match &self.column().values {
            EncodedValues::Strings(Strings::Patterns(patterns)) if among.count() >= FEW_ROWS => patterns,
            _ => return self.map(among, |value| reader.read(value), each),
        };
        let (packed, text) = (self.page().packed(), self.page().text());
        let number = |span: TextSpan| reader.pattern(text.get(span.range()).unwrap_or_default());
        let known: Vec<Option<u32>> = patterns.entries().map(number).collect();
        let mut room = String::new();
        let mut rows = self.column().rows(self.page().len());
        patterns.each_rank(|index, pattern, ranks| {
            let Some(row) = rows.next().filter(|row| among.contains(*row)) else { return };
            let mut numbers = [0; NUMBERS_MAX];
            let slots = pattern.slots();
            for ((number, ints), rank) in numbers[..slots].iter_mut().zip(&patterns.numbers).zip(ranks) {
                *number = ints.get(packed, *rank);
            }
            let of = known.get(usize::from(patterns.indices[index])).copied().flatten();
            let value = of.and_then(|of| reader.read_numbers(of, &numbers[..slots])).unwrap_or_else(|| {
                room.clear();
                patterns.print_ranked(packed, text, pattern, ranks, &mut room);
                reader.read(Property::String(&room))
            });
            each(row, value);
        });
    }

    /// Passes the rows among these that have a value, with the number of the value.
    #[inline]
    fn each_index(&self, among: &RowSet, mut each: impl FnMut(usize, usize)) {
        let column = self.column();
        if column.has_all() {
            return among.iter().for_each(|row| each(row, row));
        }
        for row in among.iter() {
            if let Some(index) = column.index(row) {
                each(row, index);
            }
        }
    }

    fn map_patterns<T: Copy>(
        &self,
        patterns: &PatternTexts,
        among: &RowSet,
        read: &mut impl FnMut(Property<'_>) -> T,
        each: &mut impl FnMut(usize, T),
    ) {
        let (packed, text) = (self.page().packed(), self.page().text());
        let mut room = String::new();
        if patterns.is_even() || among.count() < FEW_ROWS {
            return self.each_index(among, |row, index| {
                room.clear();
                patterns.print(packed, text, index, &mut room);
                each(row, read(Property::String(&room)));
            });
        }
        // The ranks of numbers are counted in the same pass.
        let mut rows = self.column().rows(self.page().len());
        patterns.each_rank(|_, pattern, ranks| {
            let Some(row) = rows.next().filter(|row| among.contains(*row)) else { return };
            room.clear();
            patterns.print_ranked(packed, text, pattern, ranks, &mut room);
            each(row, read(Property::String(&room)));
        });
    }

    /// Adds the rows of `among` whose printed value contains the needle.
    pub fn add_containing(&self, needle: &Needle, among: &RowSet, found: &mut RowSet) {
        let (column, page) = (self.column(), self.page());
        let EncodedValues::Strings(strings) = &column.values else {
            if column.may_contain(needle) {
                self.map(among, |value| needle.is_in(value), |row, is_in| insert_if(found, row, is_in));
            }
            return;
        };
        match strings {
            Strings::Hex(hex) => self.add_hex(hex, needle, among, found),
            Strings::Patterns(patterns) => self.add_patterns(patterns, needle, among, found),
            Strings::Plain { .. } => {
                let text = page.text().as_bytes();
                // The next match at or after the row's beginning; earlier rows contain no match.
                let mut next = None;
                for (row, index) in column.rows(page.len()).zip(0..) {
                    let span = strings.span(page.packed(), index);
                    if next.is_none_or(|next| next < span.start) {
                        match needle.finder().find(&text[span.start..]) {
                            Some(at) => next = Some(span.start + at),
                            None => return,
                        }
                    }
                    let is_in = next.is_some_and(|next| next + needle.finder().needle().len() <= span.end);
                    insert_if(found, row, is_in && among.contains(row));
                }
            }
            _ => self.map(among, |value| needle.is_in(value), |row, is_in| insert_if(found, row, is_in)),
        }
    }

    /// Adds the rows of `among` whose value is this text.
    pub fn add_equal(&self, wanted: &str, among: &RowSet, found: &mut RowSet) {
        match &self.column().values {
            EncodedValues::Strings(Strings::Hex(hex)) => {
                if wanted.len() != 2 * hex.width {
                    return;
                }
                self.add_hex(hex, &Needle::new(wanted), among, found);
            }
            EncodedValues::Strings(Strings::Patterns(patterns)) => {
                let (packed, text) = (self.page().packed(), self.page().text().as_bytes());
                let (mut pattern, mut slots) = (Vec::new(), <[Vec<i64>; NUMBERS_MAX]>::default());
                if split(wanted.as_bytes(), &mut pattern, &mut slots).is_none() {
                    return;
                }
                let Some(of) = patterns.entries().position(|span| text[span.range()] == pattern) else { return };
                let numbers: Vec<i64> = slots.iter().flatten().copied().collect();
                self.each_index(among, |row, index| {
                    let is_equal = usize::from(patterns.indices[index]) == of
                        && numbers.iter().enumerate().all(|(slot, number)| {
                            patterns.numbers[slot].get(packed, patterns.rank(slot, index)) == *number
                        });
                    insert_if(found, row, is_equal);
                });
            }
            EncodedValues::Strings(_) => {
                let is_equal = |value: Property<'_>| value == Property::String(wanted);
                self.map(among, is_equal, |row, is_equal| insert_if(found, row, is_equal));
            }
            _ => {}
        }
    }

    /// Searches digits in bytes, at both alignments.
    fn add_hex(&self, hex: &HexTexts, needle: &Needle, among: &RowSet, found: &mut RowSet) {
        let (digits, width) = (needle.finder().needle(), hex.width);
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() > 2 * width || !digits.iter().all(is_digit) {
            return;
        }
        if digits.len() < 3 {
            return self.map(among, |value| needle.is_in(value), |row, is_in| insert_if(found, row, is_in));
        }
        let bytes = hex.bytes(self.page().packed());
        let mut indices = Vec::new();
        for odd in 0..2 {
            let mut core = Vec::with_capacity(digits.len() / 2);
            let pairs = &digits[odd..odd + (digits.len() - odd) / 2 * 2];
            let (first, last) = (&digits[..odd], &digits[odd + pairs.len()..]);
            if !hex::decode(pairs, &mut core) {
                return;
            }
            let finder = Finder::new(&core);
            let mut from = 0;
            while let Some(at) = bytes.get(from..).and_then(|rest| finder.find(rest)).map(|at| from + at) {
                from = at + 1;
                let index = at / width;
                let (start, end) = (index * width, (index + 1) * width);
                let before = first.iter().all(|digit| at > start && value_of(*digit) == bytes[at - 1] & 0x0f);
                let end_of_core = at + core.len();
                let after = last.iter().all(|digit| end_of_core < end && value_of(*digit) == bytes[end_of_core] >> 4);
                if end_of_core <= end && before && after {
                    indices.push(index);
                }
            }
        }
        if indices.is_empty() {
            return;
        }
        // Digits may occur twice in one value.
        indices.sort_unstable();
        indices.dedup();
        let mut rows = self.column().rows(self.page().len()).enumerate();
        for index in indices {
            if let Some((_, row)) = rows.find(|(at, _)| *at >= index) {
                insert_if(found, row, among.contains(row));
            }
        }
    }

    /// Searches a text in patterns, and in the values of patterns that numbers may complete.
    fn add_patterns(&self, patterns: &PatternTexts, needle: &Needle, among: &RowSet, found: &mut RowSet) {
        let (packed, text) = (self.page().packed(), self.page().text().as_bytes());
        let wanted = needle.finder().needle();
        let has_digit = wanted.iter().any(u8::is_ascii_digit);
        let parts: Vec<&[u8]> = wanted.split(u8::is_ascii_digit).filter(|part| !part.is_empty()).collect();
        let may_be_number = parts.is_empty() && patterns.numbers.iter().any(|ints| ints.may_contain(needle));
        let verdicts: Vec<PatternVerdict> = patterns
            .patterns
            .iter()
            .map(|pattern| {
                let has = |part: &[u8]| {
                    pattern.pieces.iter().any(|piece| memchr::memmem::find(&text[piece.range()], part).is_some())
                };
                if pattern.pieces.iter().any(|piece| needle.finder().find(&text[piece.range()]).is_some()) {
                    PatternVerdict::All
                } else if has_digit
                    && pattern.slots() > 0
                    && (may_be_number || !parts.is_empty() && parts.iter().all(|part| has(part)))
                {
                    PatternVerdict::Some
                } else {
                    PatternVerdict::None
                }
            })
            .collect();
        if verdicts.iter().all(|verdict| *verdict == PatternVerdict::None) {
            return;
        }
        let mut look_at = RowSet::none(among.length());
        self.each_index(among, |row, index| match verdicts[usize::from(patterns.indices[index])] {
            PatternVerdict::All => found.insert(row),
            PatternVerdict::Some => look_at.insert(row),
            PatternVerdict::None => {}
        });
        let mut room = String::new();
        let page_text = self.page().text();
        self.each_index(&look_at, |row, index| {
            room.clear();
            patterns.print(packed, page_text, index, &mut room);
            insert_if(found, row, needle.is_in_text(&room));
        });
    }
}

fn insert_if(found: &mut RowSet, row: usize, is_in: bool) {
    if is_in {
        found.insert(row);
    }
}

/// The value of a hexadecimal digit.
fn value_of(digit: u8) -> u8 {
    if digit.is_ascii_digit() { digit - b'0' } else { digit - b'a' + 10 }
}
