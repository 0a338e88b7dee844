//! Queries on a column in its encoded form: a test runs once per distinct value if there are few, and a text is
//! searched in patterns and in bytes instead of printed values.

use super::ColumnRef;
use super::bits::{BLOCK_ROWS, Bits, TextSpan};
use super::column::{EncodedValues, scale_of, whole};
use super::hex;
use super::ints::{Ints, linear};
use super::pattern::{NUMBERS_MAX, PatternTexts, split};
use super::strings::{HexTexts, Strings};
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::row_set::RowSet;
use memchr::memmem::Finder;

/// Numbers of at most this many bits are read once per distinct value.
const NARROW_BITS: u32 = 8;
/// Fewer rows are looked up one by one.
const FEW_ROWS: usize = 8;

/// Reads values of a column: as they are, or as a pattern and its numbers, which need not be printed.
pub trait ValueReader<T: Copy> {
    /// Reads a value. Only values of rows that are asked for are read, so what is read may be kept as one that occurs.
    fn read(&mut self, value: Property<'_>) -> T;

    /// Reads texts, one after the other.
    fn read_texts<'t>(&mut self, texts: impl Iterator<Item = &'t str>) -> Vec<T> {
        texts.map(|text| self.read(Property::String(text))).collect()
    }

    /// The number by which a pattern is known to [`ValueReader::read_block`]; `None` if its texts have to be printed.
    fn pattern(&mut self, pattern: &str) -> Option<u32>;

    /// Reads texts by the numbers of their patterns and their numbers; `None` for a text that has to be printed.
    fn read_block(&mut self, block: &PatternBlock, found: &mut [Option<T>]);
}

/// Some texts of a column of patterns, one after the other.
#[derive(Debug)]
pub struct PatternBlock {
    /// Those that are wanted, a bit a text.
    pub wanted: u64,
    /// The number of the pattern of each, if the pattern is known.
    pub patterns: [Option<u32>; BLOCK_ROWS],
    /// How many numbers each text has.
    pub slots: [u8; BLOCK_ROWS],
    /// How many all of them have, if that is the same.
    pub common_slots: Option<u8>,
    /// The first number of each text, the second of each, and so on. Numbers that a text does not have are any.
    pub numbers: [[i64; BLOCK_ROWS]; NUMBERS_MAX],
}

impl Default for PatternBlock {
    fn default() -> PatternBlock {
        PatternBlock {
            wanted: 0,
            patterns: [None; BLOCK_ROWS],
            slots: [0; BLOCK_ROWS],
            common_slots: None,
            numbers: [[0; BLOCK_ROWS]; NUMBERS_MAX],
        }
    }
}

impl PatternBlock {
    /// Reads the numbers of some values, where `slots` has the number of slots of each pattern. `ranks` says how many
    /// numbers of each slot were before.
    fn fill(
        &mut self,
        patterns: &PatternTexts,
        packed: &[u8],
        indices: &[u8],
        slots: &[u8],
        ranks: &mut [usize; NUMBERS_MAX],
    ) {
        let count = indices.len();
        for (of_value, index) in self.slots.iter_mut().zip(indices) {
            *of_value = slots[usize::from(*index)];
        }
        let of_values = &self.slots[..count];
        let (least, most) = (of_values.iter().min().copied(), of_values.iter().max().copied());
        self.common_slots = least.filter(|_| least == most);
        let most = most.unwrap_or(0);
        let mut room = [0; BLOCK_ROWS];
        for (slot, ((numbers, ints), rank)) in (0..most).zip(self.numbers.iter_mut().zip(&patterns.numbers).zip(ranks))
        {
            if self.common_slots.is_some() {
                ints.unpack(packed, *rank, &mut numbers[..count]);
                *rank += count;
                continue;
            }
            let having = of_values.iter().filter(|slots| **slots > slot).count();
            let unpacked = &mut room[..having];
            ints.unpack(packed, *rank, unpacked);
            *rank += having;
            let mut unpacked = unpacked.iter();
            for (number, _) in numbers.iter_mut().zip(of_values).filter(|(_, slots)| **slots > slot) {
                *number = unpacked.next().copied().unwrap_or_default();
            }
        }
    }
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
        let (column, rows) = (self.column(), self.page().len());
        if let Some(listed) = column.listed() {
            let mut present = RowSet::none(rows);
            listed.iter().for_each(|row| present.insert(*row as usize));
            return present;
        }
        RowSet::of_words(rows, (0..rows.div_ceil(64)).map(|word| column.presence(word).0))
    }

    /// The rows among these with a value that is not an empty text.
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
                self.each_packed(indices, among, |row, entry| {
                    let entry = entry as usize;
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
            EncodedValues::Ints(ints) => self.map_ints(ints, among, |n| whole(kind, n).map(&mut read), each),
            EncodedValues::Decimals(ints, exponent) => {
                let scale = scale_of(*exponent);
                self.map_ints(ints, among, |n| Some(read(Property::Double(n as f64 / scale))), each);
            }
            _ => self.each_index(among, |row, index| {
                let value = column.value(index, packed, text).map(&mut read);
                value.into_iter().for_each(|value| each(row, value));
            }),
        }
    }

    /// Passes the whole numbers of the rows `among` on, in the order of the rows. False, without any, if the values are of
    /// another type.
    pub fn each_whole(&self, among: &RowSet, mut each: impl FnMut(usize, i64)) -> bool {
        let EncodedValues::Ints(ints) = &self.column().values else { return false };
        if self.column().kind != PropertyKind::Int64 {
            return false;
        }
        match ints {
            Ints::Dictionary { values, bits } => self.each_packed(bits, among, |row, entry| {
                each(row, values.get(entry as usize).copied().unwrap_or_default());
            }),
            Ints::Linear { min, step, bits } => {
                self.each_packed(bits, among, |row, bits| each(row, linear(*min, *step, bits)));
            }
        }
        true
    }

    /// Adds the rows of `among` whose value satisfies `holds`, which decides about few different values at once.
    pub fn add_where(&self, among: &RowSet, mut holds: impl FnMut(Property<'_>) -> bool, found: &mut RowSet) {
        let (column, text) = (self.column(), self.page().text());
        let string = |span: &TextSpan| Property::String(text.get(span.range()).unwrap_or_default());
        match &column.values {
            EncodedValues::Strings(Strings::Constant(span)) => {
                if holds(string(span)) {
                    self.add_present(among, found);
                }
            }
            EncodedValues::Strings(Strings::Dictionary { entries, indices }) if entries.len() <= among.count() => {
                let verdicts: Vec<bool> = entries.iter().map(|entry| holds(string(entry))).collect();
                if !verdicts.contains(&false) {
                    self.add_present(among, found);
                } else if verdicts.contains(&true) {
                    self.each_packed(indices, among, |row, entry| {
                        insert_if(found, row, verdicts.get(entry as usize) == Some(&true));
                    });
                }
            }
            EncodedValues::Ints(Ints::Dictionary { values, .. })
                if values.len() <= among.count()
                    && !values.iter().any(|n| whole(column.kind, *n).is_some_and(&mut holds)) => {}
            _ => self.map(among, holds, |row, holds| insert_if(found, row, holds)),
        }
    }

    /// Adds the rows of `among` with a value.
    fn add_present(&self, among: &RowSet, found: &mut RowSet) {
        let mut rows = self.present();
        rows.keep(among);
        found.add(&rows);
    }

    /// Applies `read` to the numbers of some rows, once per distinct number if there are few.
    #[inline]
    fn map_ints<T: Copy>(
        &self,
        ints: &Ints,
        among: &RowSet,
        mut read: impl FnMut(i64) -> Option<T>,
        mut each: impl FnMut(usize, T),
    ) {
        match ints {
            Ints::Dictionary { values, bits } => {
                let mut known: Vec<Option<Option<T>>> = vec![None; values.len()];
                self.each_packed(bits, among, |row, entry| {
                    let entry = entry as usize;
                    let Some(place) = known.get_mut(entry) else { return };
                    if let Some(value) = place.get_or_insert_with(|| read(values[entry])) {
                        each(row, *value);
                    }
                });
            }
            Ints::Linear { min, step, bits } if bits.width() <= NARROW_BITS => {
                let mut known: Vec<Option<Option<T>>> = vec![None; 1 << bits.width()];
                self.each_packed(bits, among, |row, bits| {
                    let value = known[bits as usize].get_or_insert_with(|| read(linear(*min, *step, bits)));
                    if let Some(value) = value {
                        each(row, *value);
                    }
                });
            }
            Ints::Linear { min, step, bits } => self.each_packed(bits, among, |row, bits| {
                if let Some(value) = read(linear(*min, *step, bits)) {
                    each(row, value);
                }
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
        let slots: Vec<u8> = patterns.patterns.iter().map(|pattern| pattern.slots() as u8).collect();
        let mut block = PatternBlock::default();
        let mut found: [Option<T>; BLOCK_ROWS] = [None; BLOCK_ROWS];
        let mut room = String::new();
        // How many numbers of each slot the values before the block have.
        let mut ranks = [0usize; NUMBERS_MAX];
        for word in self.column().words_with_values(self.page().len()) {
            let wanted = among.words().get(word).copied().unwrap_or(0);
            let (present, before) = self.column().presence(word);
            let values = match self.column().has_all() {
                true => BLOCK_ROWS.min(self.page().len() - BLOCK_ROWS * word),
                false => present.count_ones() as usize,
            };
            let indices = &patterns.indices[before..before + values];
            let mut printed = (0, ranks);
            block.fill(patterns, packed, indices, &slots, &mut ranks);
            let wanted = wanted & present;
            if wanted == 0 {
                continue;
            }
            for (of, index) in block.patterns.iter_mut().zip(indices) {
                *of = known[usize::from(*index)];
            }
            block.wanted = if present == u64::MAX { wanted } else { compressed(wanted, present) };
            let found = &mut found[..values];
            reader.read_block(&block, found);
            let mut at = 0;
            each_bit(present, |bit| {
                if wanted >> bit & 1 == 1 {
                    let value = found[at].unwrap_or_else(|| {
                        patterns.add_ranks(&indices[printed.0..at], &mut printed.1);
                        printed.0 = at;
                        let pattern = &patterns.patterns[usize::from(indices[at])];
                        room.clear();
                        patterns.print_ranked(packed, text, pattern, &printed.1, &mut room);
                        reader.read(Property::String(&room))
                    });
                    each(BLOCK_ROWS * word + bit, value);
                }
                at += 1;
            });
        }
    }

    /// Passes the packed numbers of the values of some rows.
    #[inline]
    fn each_packed(&self, bits: &Bits, among: &RowSet, mut each: impl FnMut(usize, u64)) {
        let (column, packed) = (self.column(), self.page().packed());
        let mut room = [0; BLOCK_ROWS];
        for word in column.words_with_values(self.page().len()) {
            let wanted = among.words().get(word).copied().unwrap_or(0);
            if wanted == 0 {
                continue;
            }
            let (present, before) = column.presence(word);
            let (wanted, start) = (wanted & present, BLOCK_ROWS * word);
            if wanted == 0 {
                continue;
            }
            if (wanted.count_ones() as usize) < FEW_ROWS {
                each_bit(wanted, |bit| {
                    let below = (present & ((1 << bit) - 1)).count_ones() as usize;
                    each(start + bit, bits.get(packed, before + below));
                });
                continue;
            }
            // A set has no rows beyond those of the page.
            let values = if present == u64::MAX { u64::BITS - wanted.leading_zeros() } else { present.count_ones() };
            let block = &mut room[..values as usize];
            bits.unpack(packed, before, block);
            if present == u64::MAX && wanted.wrapping_add(1) & wanted == 0 {
                block.iter().enumerate().for_each(|(row, number)| each(start + row, *number));
            } else if present == u64::MAX {
                each_bit(wanted, |bit| each(start + bit, block[bit]));
            } else {
                let mut numbers = block.iter();
                each_bit(present, |bit| {
                    if let Some(number) = numbers.next().filter(|_| wanted >> bit & 1 == 1) {
                        each(start + bit, *number);
                    }
                });
            }
        }
    }

    /// Passes the rows among these that have a value, with the number of the value.
    #[inline]
    fn each_index(&self, among: &RowSet, mut each: impl FnMut(usize, usize)) {
        let column = self.column();
        if column.has_all() {
            return among.for_each(|row| each(row, row));
        }
        if let Some(listed) = column.listed() {
            let rows = listed.iter().map(|row| *row as usize).enumerate();
            return rows.filter(|(_, row)| among.contains(*row)).for_each(|(index, row)| each(row, index));
        }
        among.for_each(|row| {
            if let Some(index) = column.index(row) {
                each(row, index);
            }
        });
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
                self.add_where(among, |value| needle.is_in(value), found);
            }
            return;
        };
        match strings {
            Strings::Hex(hex) => self.add_hex(hex, needle, among, found),
            Strings::Patterns(patterns) => self.add_patterns(patterns, needle, among, found),
            Strings::Plain { .. } => {
                // Texts of a column follow each other. Those behind are of other columns, of which there may be many.
                let last = column.count(page.len()).saturating_sub(1);
                let text = &page.text().as_bytes()[..strings.span(page.packed(), last).end];
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
            _ => self.add_where(among, |value| needle.is_in(value), found),
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
                self.add_where(among, |value| value == Property::String(wanted), found);
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

/// Passes the numbers of the bits that are set, the lowest first.
#[inline]
fn each_bit(word: u64, mut each: impl FnMut(usize)) {
    let mut left = word;
    while left != 0 {
        each(left.trailing_zeros() as usize);
        left &= left - 1;
    }
}

/// The bits at the places of `present`, one after the other.
fn compressed(bits: u64, present: u64) -> u64 {
    let (mut out, mut at) = (0, 0);
    each_bit(present, |bit| {
        out |= (bits >> bit & 1) << at;
        at += 1;
    });
    out
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
