//! The sieve of a sealed file: which row groups surely lack a word.
//!
//! A search for a word would read every column of texts. The sieve has a Bloom filter of the words
//! ([`daytable_model::words`]) of each row group, so most searches read few row groups, or none.
//!
//! ```text
//! section  := layouts | bits, after each SECTION_GROUPS row groups; the index has its place
//! layouts  := length varint | zstd frame of [length varint | text]*   (empty: there are too many)
//! bits     := positions times one bit a row group: the bits of one position are adjacent
//! position := (hash + probe * (hash rotated by 32 | 1)) mod positions; hash = xxh3-64 of the word
//! ```
//!
//! So a word reads a few bytes a section, not a filter a row group. The number of positions is 3 * 2^n. A section halves
//! its filters while they have room, which keeps every position's remainder.
//!
//! A line may contain a word that no value has: across the values of its layout. So a section lists the layouts of its
//! row groups. A value that is escaped in its line has the words of its escaped form, too. A row group with a record of
//! several rows has all bits.

use crate::format::page::{ByteReader, put_varint};
use daytable_model::entity::MULTI_ROW_PROPERTIES;
use daytable_model::line::{LAYOUT, escape_json};
use daytable_model::property::Property;
use daytable_model::words::each_word;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex};
use xxhash_rust::xxh3::xxh3_64;

/// Row groups of a section: the bits of one position are a word of the machine.
pub(super) const SECTION_GROUPS: usize = 64;
/// Most bits of the sieve, per row.
const ROW_BITS: usize = 12;
/// The fewest positions of a filter.
const POSITIONS_MIN: usize = 3 << 6;
/// A filter that would be filled less than this after halving is halved.
const FILL_MAX: f64 = 0.3;
/// Bits of a word with digits: often an identifier, of which each row may have another.
const IDENTIFIER_PROBES: u64 = 3;
/// Bits of a word without digits: these repeat, so a row group has few.
const LETTER_PROBES: u64 = 8;
/// Values that were seen last, which are not cut into words again.
const SEEN: usize = 1 << 12;
/// Maximum layouts of a section, and their bytes.
const LAYOUTS_MAX: usize = 1 << 10;
const LAYOUT_BYTES_MAX: usize = 128 << 10;

/// The place of a section in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SieveSection {
    pub(crate) at: u64,
    /// Bytes of its layouts.
    pub(crate) layouts: usize,
    /// Positions of a filter.
    pub(crate) positions: usize,
}

/// Bytes of the bits of a section.
pub(super) fn bits_bytes(positions: usize, groups: usize) -> Option<usize> {
    positions.checked_mul(groups).map(|bits| bits.div_ceil(8))
}

/// The positions of a word.
pub(super) fn positions_of(word: &[u8], positions: usize) -> impl Iterator<Item = usize> {
    let (hash, modulus) = (xxh3_64(word), positions as u64);
    let step = hash.rotate_left(32) | 1;
    let probes = if word.iter().any(u8::is_ascii_digit) { IDENTIFIER_PROBES } else { LETTER_PROBES };
    // Below `positions`.
    (0..probes).map(move |probe| (hash.wrapping_add(probe.wrapping_mul(step)) % modulus) as usize)
}

/// Builds the sections of a file, row group by row group.
pub(super) struct SieveBuilder {
    /// Positions of a filter before it is halved.
    positions: usize,
    groups: Vec<GroupFilter>,
    rows: usize,
    layouts: Layouts,
}

/// Collects the words and layouts of one row group.
pub(super) struct GroupWords {
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
    /// Whether a row may contain any text.
    has_any: bool,
}

impl GroupFilter {
    fn empty(positions: usize) -> GroupFilter {
        GroupFilter { bits: vec![0; positions / 64], has_any: false }
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

impl GroupWords {
    /// For row groups of at most so many rows.
    pub(super) fn new(group_rows: usize) -> GroupWords {
        let positions = positions_for(group_rows);
        GroupWords {
            positions,
            filter: GroupFilter::empty(positions),
            seen: vec![0; SEEN],
            layouts: Layouts::default(),
            escaped: Vec::new(),
        }
    }

    /// Adds a value of the row group. Values with the same `hash` are equal.
    #[inline]
    pub(super) fn add(&mut self, name: &str, value: Property<'_>, hash: u64) {
        let seen = &mut self.seen[hash as usize % SEEN];
        if std::mem::replace(seen, hash.max(1)) != hash.max(1) {
            self.add_unseen(name, value);
        }
    }

    fn add_unseen(&mut self, name: &str, value: Property<'_>) {
        self.filter.has_any |= MULTI_ROW_PROPERTIES.contains(&(name, value.kind()));
        let Property::String(text) = value else { return };
        if name == LAYOUT {
            self.layouts.add(text);
        }
        let (bits, positions) = (&mut self.filter.bits, self.positions);
        let mut add = |text: &str| {
            each_word(text, |word| {
                for position in positions_of(&text.as_bytes()[word], positions) {
                    bits[position / 64] |= 1 << (position % 64);
                }
            });
        };
        add(text);
        let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        if text.bytes().fold(false, |any, byte| any | is_escaped(byte)) {
            self.escaped.clear();
            escape_json(text.as_bytes(), false, &mut self.escaped);
            add(str::from_utf8(&self.escaped).unwrap_or_default());
            // In verbatim text, this character and two digits stand for a byte.
            text.split('\u{1e}').skip(1).filter_map(|rest| rest.get(2..)).for_each(add);
        }
    }
}

/// Positions of a filter for row groups of at most so many rows.
fn positions_for(group_rows: usize) -> usize {
    let mut positions = POSITIONS_MIN;
    while 2 * positions <= ROW_BITS * group_rows {
        positions *= 2;
    }
    positions
}

impl SieveBuilder {
    /// For row groups of at most so many rows.
    pub(super) fn new(group_rows: usize) -> SieveBuilder {
        let positions = positions_for(group_rows);
        SieveBuilder { positions, groups: Vec::new(), rows: 0, layouts: Layouts::default() }
    }

    /// Adds a row group of so many rows. True if the section is full.
    pub(super) fn end_group(&mut self, words: GroupWords, rows: usize) -> bool {
        self.groups.push(words.filter);
        self.rows += rows;
        words.layouts.texts.iter().for_each(|text| self.layouts.add(text));
        self.groups.len() == SECTION_GROUPS
    }

    /// The bytes of the section, and its place if it begins at `at`; `None` without a row group.
    pub(super) fn take_section(&mut self, at: u64) -> io::Result<Option<(Vec<u8>, SieveSection)>> {
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
        section.resize(layouts + bits_bytes(positions, count).unwrap_or_default(), 0);
        let bits = &mut section[layouts..];
        for (number, group) in groups.iter().enumerate() {
            for (at, word) in group.bits.iter().enumerate() {
                let mut word = if group.has_any { u64::MAX } else { *word };
                while word != 0 {
                    let bit = (64 * at + word.trailing_zeros() as usize) * count + number;
                    bits[bit / 8] |= 1 << (bit % 8);
                    word &= word - 1;
                }
            }
        }
        Ok(Some((section, SieveSection { at, layouts, positions })))
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

/// The layouts of a section; `None` if their bytes are no layouts.
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

/// What was sought: a text and its words.
pub(super) type Sought = (Box<[u8]>, Arc<[Box<str>]>);

/// The last answers of a file's sieve: for each text, a bit a row group whose texts or lines may contain it.
#[derive(Default)]
pub(super) struct SieveAnswers(pub(super) Mutex<VecDeque<(Sought, Arc<[u64]>)>>);
