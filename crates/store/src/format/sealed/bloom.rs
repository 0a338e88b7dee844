//! The Bloom index of a sealed file: which row groups surely lack a word.
//!
//! A search for a word would read every column of texts. The Bloom index has a Bloom filter of the words
//! ([`daytable_model::words`]) of each row group, so most searches read few row groups, or none.
//!
//! ```text
//! section  := layouts | bits of words | bits of trigrams by column, after each SECTION_GROUPS row groups; the index has
//!             its place
//! layouts  := length varint | zstd frame of [length varint | text]*   (empty: there are too many)
//! bits     := positions times one bit a row group: the bits of one position are adjacent
//! position := (hash + probe * (hash rotated by 32 | 1)) mod positions; hash = xxh3-64 of the word
//! ```
//!
//! So a word reads a few bytes a section, not a filter a row group. The number of positions is 3 * 2^n. A section halves
//! its filters while they have room, which keeps every position's remainder.
//!
//! **Parts of words.** A part that no column may have ([`super::trigrams`]) reads no column. Parts of long identifiers
//! have trigrams of any identifier. Therefore a word of [`LONG_BYTES`] or more with a digit is not one key: its keys are its
//! *minimizers*, the pieces of [`PIECE_BYTES`] whose hash is the least of [`PIECES`] adjacent ones. A long part of the
//! word has some of them ([winnowing](https://dl.acm.org/doi/10.1145/872757.872770)).
//!
//! A line may contain a word that no value has: across the values of its layout. So a section lists the layouts of its
//! row groups. A value that is escaped in its line has the words of its escaped form, too, and one that is JSON those of
//! its text without escapes. A row group with a record of
//! several rows has all bits.

use super::trigrams::{self, TrigramFilter};
use crate::format::page::{ByteReader, put_varint};
use daytable_model::entity::MULTI_ROW_PROPERTIES;
use daytable_model::line::{LAYOUT, escape_json, json_without_escapes, without_short};
use daytable_model::property::Property;
use daytable_model::words::each_word;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex};
use xxhash_rust::xxh3::xxh3_64;

/// Row groups of a section: the bits of one position are a word of the machine.
pub(super) const SECTION_GROUPS: usize = 64;
/// Most bits of the Bloom index, per row.
const ROW_BITS: usize = 12;
/// The fewest positions of a filter.
const POSITIONS_MIN: usize = 3 << 6;
/// A filter that would be filled less than this after halving is halved.
const FILL_MAX: f64 = 0.3;
/// Bits of a word with digits: often an identifier, of which each row may have another.
const IDENTIFIER_PROBES: u64 = 3;
/// Bits of a word without digits: these repeat, so a row group has few.
const LETTER_PROBES: u64 = 8;
/// Least bytes of a word with a digit whose keys are pieces.
const LONG_BYTES: usize = 24;
/// Bytes of a piece.
const PIECE_BYTES: usize = 8;
/// Adjacent pieces of which the one with the least hash is a key.
const PIECES: usize = 12;
/// Values that were seen last, which are not cut into words again.
const SEEN: usize = 1 << 12;
/// Maximum layouts of a section, and their bytes.
const LAYOUTS_MAX: usize = 1 << 10;
const LAYOUT_BYTES_MAX: usize = 128 << 10;

/// The place of a section in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BloomSection {
    pub(crate) at: u64,
    /// Bytes of its layouts.
    pub(crate) layouts: usize,
    /// Positions of a filter of words.
    pub(crate) positions: usize,
    /// Positions of a filter of trigrams, by column of a property, and at last of the properties without a column: 0 where
    /// there are no texts. Empty if there are no such filters.
    pub(crate) columns: Vec<usize>,
}

impl BloomSection {
    /// Its bytes, for this many row groups.
    pub(super) fn bytes(&self, groups: usize) -> Option<usize> {
        let filters = [&self.positions].into_iter().chain(&self.columns);
        filters.map(|positions| bits_bytes(*positions, groups)).try_fold(self.layouts, |sum, of| sum.checked_add(of?))
    }
}

/// Bytes of the bits of a section.
pub(super) fn bits_bytes(positions: usize, groups: usize) -> Option<usize> {
    positions.checked_mul(groups).map(|bits| bits.div_ceil(8))
}

/// Passes the positions of a word.
pub(super) fn each_position_of(word: &[u8], positions: usize, mut each: impl FnMut(usize)) {
    let modulus = positions as u64;
    let has_digit = word.iter().any(u8::is_ascii_digit);
    if has_digit && word.len() >= LONG_BYTES {
        return each_minimizer(word, |hash| each((hash % modulus) as usize));
    }
    let hash = xxh3_64(word);
    let step = hash.rotate_left(32) | 1;
    let probes = if has_digit { IDENTIFIER_PROBES } else { LETTER_PROBES };
    // Below `positions`.
    (0..probes).for_each(|probe| each((hash.wrapping_add(probe.wrapping_mul(step)) % modulus) as usize));
}

/// Whether every word that contains these adjacent characters of a word has their minimizers as keys.
pub(super) fn is_long(part: &str) -> bool {
    part.len() >= LONG_BYTES && part.bytes().any(|byte| byte.is_ascii_digit())
}

/// Passes the hash of each minimizer of a word or of a part of a word. Those of a part are some of the word's.
fn each_minimizer(word: &[u8], mut each: impl FnMut(u64)) {
    let hash = |piece: &[u8]| {
        let piece = piece.first_chunk().map_or(0, |piece| u64::from_le_bytes(*piece));
        let mixed = (piece ^ piece >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 8
    };
    // The least of adjacent pieces is the lesser of the least at the end of one block and at the start of the next.
    let (mut block, mut ends, mut last) = ([u64::MAX; PIECES], [u64::MAX; PIECES], None);
    for start in (0..(word.len() + 1).saturating_sub(PIECE_BYTES)).step_by(PIECES) {
        let mut least_so_far = u64::MAX;
        for (at, piece) in word[start..].windows(PIECE_BYTES).take(PIECES).enumerate() {
            block[at] = hash(piece);
            least_so_far = least_so_far.min(block[at]);
            let least = ends.get(at + 1).map_or(least_so_far, |end| least_so_far.min(*end));
            if (start > 0 || at + 1 == PIECES) && last != Some(least) {
                last = Some(least);
                each(least);
            }
        }
        let mut least = u64::MAX;
        for (end, piece) in ends.iter_mut().zip(&block).rev() {
            least = least.min(*piece);
            *end = least;
        }
    }
}

/// Builds the sections of a file, row group by row group.
pub(super) struct BloomBuilder {
    /// Positions of a filter before it is halved.
    positions: usize,
    groups: Vec<GroupFilter>,
    rows: usize,
    layouts: Layouts,
}

/// Collects the words and layouts of one row group.
pub(super) struct RowGroupWords {
    positions: usize,
    filter: GroupFilter,
    seen: Vec<u64>,
    layouts: Layouts,
    escaped: Vec<u8>,
}

/// Different layouts. Incomplete once their bytes exceed [`LAYOUT_BYTES_MAX`].
#[derive(Default)]
struct Layouts {
    texts: BTreeSet<Box<str>>,
    bytes: usize,
}

impl Layouts {
    fn add(&mut self, text: &str) {
        if self.bytes <= LAYOUT_BYTES_MAX && !self.texts.contains(text) {
            self.bytes += text.len();
            self.texts.insert(text.into());
        }
    }
}

#[derive(Default)]
struct GroupFilter {
    bits: Vec<u64>,
    /// The trigrams of each column of a property, and of the properties without a column.
    columns: Vec<Option<TrigramFilter>>,
    /// Whether a row may contain any text.
    has_any: bool,
}

impl GroupFilter {
    fn empty(positions: usize, columns: usize) -> GroupFilter {
        GroupFilter { bits: vec![0; positions / 64], columns: vec![None; columns + 1], has_any: false }
    }

    fn fill(&self) -> f64 {
        let ones: u32 = self.bits.iter().map(|word| word.count_ones()).sum();
        f64::from(ones) / (64.0 * self.bits.len() as f64)
    }

    fn halve(&mut self) {
        let half = self.bits.len() / 2;
        let (low, high) = self.bits.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(low, high)| *low |= *high);
        self.bits.truncate(half);
    }
}

impl RowGroupWords {
    /// For row groups of at most this many rows, with this many columns of properties.
    pub(super) fn new(group_rows: usize, columns: usize) -> RowGroupWords {
        let positions = positions_for(group_rows);
        RowGroupWords {
            positions,
            filter: GroupFilter::empty(positions, columns),
            seen: vec![0; SEEN],
            layouts: Layouts::default(),
            escaped: Vec::new(),
        }
    }

    /// Adds a value of a column of the row group. Values with the same `hash` are equal.
    #[inline]
    pub(super) fn add(&mut self, column: usize, name: &str, value: Property<'_>, hash: u64) {
        let seen = &mut self.seen[hash as usize % SEEN];
        if std::mem::replace(seen, hash.max(1)) != hash.max(1) {
            self.add_unseen(column, name, value);
        }
    }

    fn add_unseen(&mut self, column: usize, name: &str, value: Property<'_>) {
        self.filter.has_any |= MULTI_ROW_PROPERTIES.contains(&(name, value.kind()));
        let Property::String(text) = value else { return };
        if name == LAYOUT {
            self.layouts.add(without_short(text));
        }
        let (bits, positions) = (&mut self.filter.bits, self.positions);
        let trigrams = self.filter.columns.get_mut(column).filter(|_| name != LAYOUT);
        let mut trigrams = trigrams.map(|of| of.get_or_insert_default());
        let mut add = |text: &str| {
            each_word(text, |word| {
                each_position_of(&text.as_bytes()[word], positions, |position| {
                    bits[position / 64] |= 1 << (position % 64);
                });
            });
            trigrams.iter_mut().for_each(|trigrams| trigrams.add(text));
        };
        add(text);
        let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        if text.bytes().fold(false, |any, byte| any | is_escaped(byte)) {
            self.escaped.clear();
            escape_json(text.as_bytes(), false, &mut self.escaped);
            add(str::from_utf8(&self.escaped).unwrap_or_default());
            // A value that is JSON is read without its escapes.
            json_without_escapes(text).into_iter().for_each(|read| add(&read));
            // In verbatim text, this character and two digits stand for a byte.
            text.split('\u{1e}').skip(1).filter_map(|rest| rest.get(2..)).for_each(add);
        }
    }
}

/// Positions of a filter for row groups of at most this many rows.
fn positions_for(group_rows: usize) -> usize {
    let mut positions = POSITIONS_MIN;
    while 2 * positions <= ROW_BITS * group_rows {
        positions *= 2;
    }
    positions
}

impl BloomBuilder {
    /// For row groups of at most this many rows.
    pub(super) fn new(group_rows: usize) -> BloomBuilder {
        let positions = positions_for(group_rows);
        BloomBuilder { positions, groups: Vec::new(), rows: 0, layouts: Layouts::default() }
    }

    /// Adds a row group of this many rows. True if the section is full.
    pub(super) fn end_group(&mut self, mut words: RowGroupWords, rows: usize) -> bool {
        trigrams::bound(&mut words.filter.columns);
        self.groups.push(words.filter);
        self.rows += rows;
        words.layouts.texts.iter().for_each(|text| self.layouts.add(text));
        self.groups.len() == SECTION_GROUPS
    }

    /// The bytes of the section, and its place if it begins at `at`; `None` without a row group.
    pub(super) fn take_section(&mut self, at: u64) -> io::Result<Option<(Vec<u8>, BloomSection)>> {
        let mut groups = std::mem::take(&mut self.groups);
        let rows = std::mem::take(&mut self.rows);
        if groups.is_empty() {
            return Ok(None);
        }
        let mut positions = self.positions;
        let count = groups.len();
        // The last row group of a section may have fewer rows.
        let is_too_large = |positions: usize| positions * count > (ROW_BITS + ROW_BITS / 3) * rows;
        let is_roomy = |groups: &[GroupFilter]| {
            let fill = groups.iter().filter(|group| !group.has_any).map(GroupFilter::fill).fold(0.0, f64::max);
            1.0 - (1.0 - fill) * (1.0 - fill) <= FILL_MAX
        };
        while positions > POSITIONS_MIN && (is_too_large(positions) || is_roomy(&groups)) {
            groups.iter_mut().for_each(GroupFilter::halve);
            positions /= 2;
        }
        let mut section = self.take_layouts()?;
        let layouts = section.len();
        let has_any: Vec<bool> = groups.iter().map(|group| group.has_any).collect();
        let words = groups.iter().map(|group| Some(&*group.bits));
        append_slices(words, &has_any, positions, &mut section);
        let mut trigrams: Vec<Vec<Option<TrigramFilter>>> =
            groups.iter_mut().map(|group| std::mem::take(&mut group.columns)).collect();
        let columns = trigrams::fit(&mut trigrams, rows);
        for (column, positions) in columns.iter().enumerate().filter(|(_, positions)| **positions > 0) {
            let of_column = trigrams.iter().map(|group| group.get(column)?.as_ref().map(TrigramFilter::bits));
            append_slices(of_column, &has_any, *positions, &mut section);
        }
        Ok(Some((section, BloomSection { at, layouts, positions, columns })))
    }

    fn take_layouts(&mut self) -> io::Result<Vec<u8>> {
        let Layouts { texts: layouts, bytes } = std::mem::take(&mut self.layouts);
        if bytes > LAYOUT_BYTES_MAX || layouts.len() > LAYOUTS_MAX {
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        for layout in &layouts {
            put_varint(&mut all, layout.len() as u64);
            all.extend_from_slice(layout.as_bytes());
        }
        let mut framed = Vec::new();
        put_varint(&mut framed, all.len() as u64);
        framed.extend_from_slice(&zstd::bulk::compress(&all, 3)?);
        Ok(framed)
    }
}

/// Appends filters of this many positions, a filter a row group, so that the bits of one position are adjacent. A row
/// group that `has_any` text has all bits.
fn append_slices<'f>(
    filters: impl Iterator<Item = Option<&'f [u64]>>,
    has_any: &[bool],
    positions: usize,
    section: &mut Vec<u8>,
) {
    let start = section.len();
    section.resize(start + bits_bytes(positions, has_any.len()).unwrap_or_default(), 0);
    let (bits, count) = (&mut section[start..], has_any.len());
    for (number, (filter, has_any)) in filters.zip(has_any).enumerate() {
        for at in 0..positions / 64 {
            let stored = filter.and_then(|filter| filter.get(at)).copied().unwrap_or(0);
            let mut word = if *has_any { u64::MAX } else { stored };
            while word != 0 {
                let bit = (64 * at + word.trailing_zeros() as usize) * count + number;
                bits[bit / 8] |= 1 << (bit % 8);
                word &= word - 1;
            }
        }
    }
}

/// The layouts of a section; `None` if their bytes are not layouts.
pub(super) fn layouts_of(bytes: &[u8]) -> Option<Vec<String>> {
    let mut framed = ByteReader::new(bytes);
    let length = usize::try_from(framed.varint().ok()?).ok()?;
    // Each has its length before it.
    let raw = (length <= LAYOUT_BYTES_MAX + 10 * LAYOUTS_MAX).then(|| zstd::bulk::decompress(framed.rest(), length))?;
    let raw = raw.ok()?;
    let mut raw = ByteReader::new(&raw);
    let mut layouts = Vec::new();
    while !raw.rest().is_empty() {
        let length = usize::try_from(raw.varint().ok()?).ok()?;
        layouts.push(str::from_utf8(raw.take(length).ok()?).ok()?.to_owned());
    }
    Some(layouts)
}

/// A search term: a text and its words.
pub(super) type SearchTerm = (Box<[u8]>, Arc<[Box<str>]>);

/// What a section tells about a text: a bit a row group.
#[derive(Clone, Debug)]
pub(super) struct SectionAnswer {
    /// Whether its texts or lines may contain the text.
    pub(super) may: u64,
    /// By column of a property, and at last of the properties without a column: whether its texts may contain the text.
    pub(super) columns: Vec<u64>,
}

/// The last answers of a file's Bloom index, a section after the other, by text.
#[derive(Default)]
pub(super) struct BloomAnswers(pub(super) Mutex<VecDeque<(SearchTerm, Arc<[SectionAnswer]>)>>);
