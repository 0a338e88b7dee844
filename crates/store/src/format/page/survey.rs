//! What a column of a page that was read has, without its rows: the numbers of its values, their bytes and their words, from
//! dictionaries, patterns and numbers as they are stored.
//!
//! A column that a builder would not write so has no survey. Readers look for a text in the dictionary or by its pattern, so an entry
//! that is there twice, or a pattern that is not that of its texts, would hide values from them.

use super::VALUE_BYTES;
use super::bits::{BLOCK_ROWS, Bits, TextSpan};
use super::column::{EncodedValues, count_doubles, count_texts, count_whole, unscale};
use super::ints::Ints;
use super::pattern::{self, PatternTexts};
use super::read::ColumnRef;
use super::strings::{HEX_LENGTH_MIN, Strings};
use super::value_counts::{ColumnCounts, CountedValue, LEVELS, VALUES_MAX, counted_bytes_max, is_filled, is_repeated};
use super::words::WordGatherer;
use daytable_model::line::LAYOUT;
use daytable_model::property::{OwnedValue, PropertyKind};
use std::borrow::Cow;
use std::collections::HashSet;

/// Values of a column of few different ones that a builder may write in another form than a dictionary: fewer than these.
const OTHER_FORM_MAX: usize = 8 * VALUES_MAX;

/// What a column has.
pub(super) struct ColumnSurvey {
    pub(super) counts: ColumnCounts,
    /// Bytes of its values before they were encoded, as `SourceRow` counts them.
    pub(super) bytes: usize,
}

/// Bytes of a text of this length before it is encoded.
pub(super) fn text_bytes(length: usize) -> usize {
    VALUE_BYTES + 4 + length
}

/// The counts of a column of which every row has the same text.
pub(super) fn counts_of_same(name: &str, text: &str, levels: &[u8]) -> ColumnCounts {
    let mut of_level = [0; LEVELS];
    levels.iter().for_each(|level| of_level[usize::from(*level) % LEVELS] += 1);
    let bytes_max = counted_bytes_max(name).filter(|bytes_max| text.len() <= *bytes_max);
    let values = bytes_max.map(|_| vec![(OwnedValue::String(text.into()), of_level)]);
    let filled = if text.is_empty() { 0 } else { count32(levels.len()) };
    ColumnCounts { name: name.to_owned(), kind: PropertyKind::String, filled, values }
}

/// Surveys a column of a page whose rows have these levels, and adds its words. `None` if a builder would not write it so.
pub(super) fn survey(column: ColumnRef<'_>, levels: &[u8], words: &mut WordGatherer) -> Option<ColumnSurvey> {
    let (name, kind, rows) = (column.name(), column.kind(), levels.len());
    let stored = column.column();
    let levels: Cow<'_, [u8]> = match stored.has_all() {
        true => Cow::Borrowed(levels),
        false => stored.rows(rows).map(|row| levels[row]).collect(),
    };
    let (levels, packed) = (&*levels, column.page().packed());
    let bytes_max = counted_bytes_max(name);
    let with_levels = || levels.iter().copied();
    let all_bytes = |of_value: usize| levels.len() * (VALUE_BYTES + of_value);
    let (values, bytes) = match &stored.values {
        EncodedValues::Strings(strings) => {
            return TextSurvey { column, strings, levels, bytes_max }.survey(words);
        }
        EncodedValues::Ints(ints) => {
            let values =
                bytes_max.and_then(|_| count_whole(kind, &unpacked(ints, packed, levels.len()), with_levels()));
            let of_value = match kind {
                PropertyKind::Boolean => 0,
                PropertyKind::Int32 => 4,
                _ => 8,
            };
            (values, all_bytes(of_value))
        }
        EncodedValues::Decimals(ints, exponent) => {
            let numbers = unpacked(ints, packed, levels.len());
            let doubles: Vec<f64> = numbers.into_iter().map(|number| unscale(number, *exponent)).collect();
            (bytes_max.and_then(|_| count_doubles(&doubles, with_levels())), all_bytes(8))
        }
        EncodedValues::Doubles(doubles) => {
            (bytes_max.and_then(|_| count_doubles(doubles, with_levels())), all_bytes(8))
        }
        EncodedValues::Guids(_) => {
            words.add_bytes();
            (None, all_bytes(16))
        }
        EncodedValues::Binaries(values) => {
            words.add_bytes();
            (None, all_bytes(4) + values.iter().map(Vec::len).sum::<usize>())
        }
        EncodedValues::Skipped => return None,
    };
    Some(ColumnSurvey {
        counts: ColumnCounts { name: name.to_owned(), kind, filled: count32(levels.len()), values },
        bytes,
    })
}

fn unpacked(ints: &Ints, packed: &[u8], count: usize) -> Vec<i64> {
    let mut numbers = vec![0; count];
    for (block, from) in numbers.chunks_mut(BLOCK_ROWS).zip((0..).step_by(BLOCK_ROWS)) {
        ints.unpack(packed, from, block);
    }
    numbers
}

/// A page has fewer rows than 32 bits count.
fn count32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// A column of texts.
struct TextSurvey<'p> {
    column: ColumnRef<'p>,
    strings: &'p Strings,
    /// The levels of the rows with a value.
    levels: &'p [u8],
    /// Bytes of the longest text that is counted, if any is.
    bytes_max: Option<usize>,
}

impl<'p> TextSurvey<'p> {
    fn survey(&self, words: &mut WordGatherer) -> Option<ColumnSurvey> {
        match self.strings {
            Strings::Constant(span) => self.of_entries(&[*span], &[self.by_level()], words),
            Strings::Dictionary { entries, indices } => self.of_entries(entries, &self.uses(entries, indices), words),
            // Layouts are not written in a form whose texts need more memory than their row accounts for.
            Strings::Hex(_) | Strings::Patterns(_) if self.column.name() == LAYOUT => None,
            Strings::Hex(hex) => {
                if 2 * hex.width < HEX_LENGTH_MIN {
                    return None;
                }
                words.add_hex(hex.bytes(self.column.page().packed()), hex.width);
                Some(self.of_others(self.levels.len() * text_bytes(2 * hex.width), count32(self.levels.len())))
            }
            Strings::Patterns(patterns) => self.of_patterns(patterns, words),
            Strings::Plain { .. } => {
                let (mut bytes, mut filled) = (0, 0);
                for number in 0..self.levels.len() {
                    let text = self.value(number);
                    bytes += self.bytes_of(text);
                    filled += u32::from(!text.is_empty());
                    if self.column.name() == LAYOUT {
                        words.add_layouts(&[text]);
                    }
                    words.add_text(text);
                }
                Some(self.of_others(bytes, filled))
            }
        }
    }

    fn text(&self, span: TextSpan) -> &'p str {
        self.column.page().text().get(span.range()).unwrap_or_default()
    }

    fn value(&self, number: usize) -> &'p str {
        let page = self.column.page();
        self.strings.value(page.packed(), page.text(), number).unwrap_or_default()
    }

    /// A batch holds a layout once.
    fn bytes_of(&self, text: &str) -> usize {
        if self.column.name() == LAYOUT { VALUE_BYTES } else { text_bytes(text.len()) }
    }

    fn counts(&self, filled: u32, values: Option<Vec<CountedValue>>) -> ColumnCounts {
        let of_values = |values: &Vec<CountedValue>| -> u32 {
            let filled = values.iter().filter(|(value, _)| is_filled(value.as_property()));
            filled.flat_map(|(_, counts)| counts).sum()
        };
        let filled = values.as_ref().map_or(filled, of_values);
        ColumnCounts { name: self.column.name().to_owned(), kind: PropertyKind::String, filled, values }
    }

    fn by_level(&self) -> [u32; LEVELS] {
        let mut counts = [0; LEVELS];
        self.levels.iter().for_each(|level| counts[usize::from(*level) % LEVELS] += 1);
        counts
    }

    /// The number of values of each entry of a dictionary by their level.
    fn uses(&self, entries: &[TextSpan], indices: &Bits) -> Vec<[u32; LEVELS]> {
        let mut uses = vec![[0; LEVELS]; entries.len()];
        indices.each(self.column.page().packed(), self.levels.len(), |number, entry| {
            // The page was read, so every number is that of an entry.
            if let Some(uses) = uses.get_mut(entry as usize) {
                uses[usize::from(self.levels[number]) % LEVELS] += 1;
            }
        });
        uses
    }

    fn of_entries(
        &self,
        entries: &[TextSpan],
        uses: &[[u32; LEVELS]],
        words: &mut WordGatherer,
    ) -> Option<ColumnSurvey> {
        let texts: Vec<&str> = entries.iter().map(|span| self.text(*span)).collect();
        if !are_different(&texts) {
            return None;
        }
        let used = texts.iter().zip(uses).map(|(text, uses)| (*text, uses, uses.iter().sum::<u32>()));
        let used: Vec<_> = used.filter(|(.., count)| *count > 0).collect();
        for (text, ..) in &used {
            if self.column.name() == LAYOUT {
                words.add_layouts(&[*text]);
            }
            words.add_text(text);
        }
        let is_counted = used.len() <= VALUES_MAX && is_repeated(used.len(), self.levels.len());
        let value = |(text, uses, _): &(&str, &[u32; LEVELS], u32)| {
            let is_short = self.bytes_max.is_some_and(|bytes_max| text.len() <= bytes_max);
            is_short.then(|| (OwnedValue::String((*text).into()), **uses))
        };
        let values = if is_counted { used.iter().map(value).collect() } else { None };
        let filled = used.iter().filter(|(text, ..)| !text.is_empty()).map(|(.., count)| count).sum();
        let bytes = used.iter().map(|(text, _, count)| *count as usize * self.bytes_of(text)).sum();
        Some(ColumnSurvey { counts: self.counts(filled, values), bytes })
    }

    /// A column in another form than a dictionary. Few values may be of few texts nevertheless.
    fn of_others(&self, bytes: usize, filled: u32) -> ColumnSurvey {
        let bytes_max = self.bytes_max.filter(|_| self.levels.len() <= OTHER_FORM_MAX);
        let values = bytes_max.and_then(|bytes_max| {
            let texts: Vec<&str> = (0..self.levels.len()).map(|number| self.value(number)).collect();
            count_texts(&texts, self.levels.iter().copied(), bytes_max)
        });
        ColumnSurvey { counts: self.counts(filled, values), bytes }
    }

    fn of_patterns(&self, of: &PatternTexts, words: &mut WordGatherer) -> Option<ColumnSurvey> {
        let texts: Vec<&str> = of.patterns.iter().map(|pattern| self.text(pattern.span())).collect();
        if !are_different(&texts) || !texts.iter().all(|text| pattern::is_own(text)) {
            return None;
        }
        let mut uses = vec![0usize; texts.len()];
        of.indices.iter().for_each(|pattern| uses[usize::from(*pattern)] += 1);
        let slots_of = |pattern: usize| of.patterns[pattern].slots();
        let of_pattern = |(at, (text, uses)): (usize, (&&str, &usize))| uses * text_bytes(text.len() - slots_of(at));
        let mut bytes: usize = texts.iter().zip(&uses).enumerate().map(of_pattern).sum();
        let mut slots = Vec::with_capacity(of.numbers.len());
        for (slot, ints) in of.numbers.iter().enumerate() {
            let having = uses.iter().enumerate().filter(|(pattern, _)| slots_of(*pattern) > slot);
            let numbers = unpacked(ints, self.column.page().packed(), having.map(|(_, uses)| uses).sum());
            if !numbers.iter().all(|number| pattern::is_taken_out(*number)) {
                return None;
            }
            bytes += numbers.iter().map(|number| 1 + number.checked_ilog10().unwrap_or(0) as usize).sum::<usize>();
            slots.push(numbers);
        }
        pattern::add_words(texts.iter().copied(), &of.indices, &slots, |number| self.value(number), words);
        let empty = texts.iter().zip(&uses).filter(|(text, _)| text.is_empty()).map(|(_, uses)| uses).sum::<usize>();
        Some(self.of_others(bytes, count32(self.levels.len() - empty)))
    }
}

fn are_different(texts: &[&str]) -> bool {
    let mut seen = HashSet::<&str, foldhash::quality::RandomState>::default();
    texts.iter().all(|text| seen.insert(text))
}
