//! The Bloom index of an open day: which pages surely lack a word.
//!
//! A search for a word would open every page. The Bloom index has a Bloom filter of the words (`page/words.rs`) of each full
//! page, in groups of up to 64 pages that one transaction writes. The filters of a group are cut into slices: a slice has
//! the part of each filter in which the keys of one range have all their bits. A slice is a row of less than a page of
//! SQLite, so a word costs one short row a group.
//!
//! ```text
//! head     := checksum u64 of the rest | slices varint | page *pages | layouts varint | [length varint, text]*
//! page     := 0                                                                  it has no filter
//!             bytes of its part of a slice varint | has bytes or UUIDs u8
//!             | low 32 bits of its stored checksum | layouts varint | number of a layout varint*
//! slice    := checksum u64 of the rest, seeded with that of the head and the number | the part of each page
//! slice of a key    := key × slices / 2^32
//! bits of a key     := (low + probe × high) mod 2^32 × bits of the part / 2^32; low, high: of key × a constant
//! ```
//!
//! The filters are a copy of what pages have. A head or a slice that is damaged or missing, or a page with another
//! checksum, only means that the page is opened. A row of which no page is left is removed.

use super::page::{ByteReader, PageError, PageWords, is_of_letters, put_varint, word_key};
use super::page_groups::{self, GroupTable, PageGroups, low};
use super::page_rows::PageRow;
use daytable_model::line::may_cross_escaped;
use daytable_model::needle::Needle;
use daytable_model::property::PropertyKind;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use std::ops::Range;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The schema of the tables.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE page_sieve(
        first INTEGER PRIMARY KEY,           -- the id of its first page; the others follow
        pages INTEGER NOT NULL,
        head BLOB NOT NULL                   -- see the top of page_bloom.rs
    );
    CREATE TABLE sieve_slice(id INTEGER PRIMARY KEY, bits BLOB NOT NULL);   -- id = 256 × first + number of the slice
";

/// The table, for its groups.
const TABLE: GroupTable = ("page_sieve", "head");

/// Slices of a group.
const SLICES_MAX: usize = 256;
/// Bytes that a slice should have: a row of them fits a page of SQLite.
const SLICE_BYTES: usize = 3900;
/// Most bits of a filter: for each row, and for the words that rows share.
const ROW_BITS: usize = 10;
const PAGE_BITS: usize = 512;
/// Bits of a word with digits: often an identifier, of which each row may have another.
const IDENTIFIER_PROBES: u32 = 3;
/// Bits of a word without digits: these repeat, so a page has few.
const LETTER_PROBES: u32 = 8;
/// Bytes of the checksum of a slice.
const CHECKSUM: usize = 8;
/// Most layouts of a group, and their bytes.
const LAYOUTS_MAX: usize = 1 << 10;
const LAYOUT_BYTES_MAX: usize = 128 << 10;

/// The filters of pages in the order of their ids.
#[derive(Default)]
pub(crate) struct PageBloomBuilder<'p> {
    pages: Vec<(u64, u32, Option<&'p PageWords>)>,
}

impl<'p> PageBloomBuilder<'p> {
    /// Adds the next page: its stored checksum and rows, and its words.
    pub(crate) fn push(&mut self, checksum: u64, rows: u32, words: Option<&'p PageWords>) {
        self.pages.push((checksum, rows, words));
    }

    /// Writes the groups of pages that were inserted with these ids, from `first` on.
    pub(crate) fn insert(self, connection: &Connection, first: i64) -> rusqlite::Result<()> {
        for (first, pages) in page_groups::groups(&self.pages, first) {
            if pages.iter().any(|(.., words)| words.is_some()) {
                let (head, slices) = encode(pages);
                let put = "INSERT INTO page_sieve VALUES (?1, ?2, ?3)";
                connection.prepare_cached(put)?.execute(params![first, pages.len() as i64, head])?;
                let mut put = connection.prepare_cached("INSERT OR REPLACE INTO sieve_slice VALUES (?1, ?2)")?;
                for (number, slice) in (0..).zip(slices) {
                    put.execute(params![slice_id(first, number), slice])?;
                }
            }
        }
        Ok(())
    }
}

/// Removes the rows of groups of which no page is left.
pub(crate) fn remove_empty(connection: &Connection) -> rusqlite::Result<()> {
    let removed = page_groups::remove_empty(connection, TABLE)?;
    let mut delete = connection.prepare_cached("DELETE FROM sieve_slice WHERE id BETWEEN ?1 AND ?2")?;
    for first in removed {
        delete.execute(params![slice_id(first, 0), slice_id(first, SLICES_MAX as i64 - 1)])?;
    }
    Ok(())
}

/// The row of a slice. Ids of pages are far below the limit.
fn slice_id(first: i64, number: i64) -> i64 {
    first.saturating_mul(SLICES_MAX as i64).saturating_add(number)
}

/// Bytes of the filter of a page.
fn filter_bytes(rows: u32, words: &PageWords) -> usize {
    let probes: u32 = words.keys.iter().map(|key| probes_of(*key)).sum();
    // Where a bit of two is set by a word, two fifths are set.
    (2 * probes as usize).min(ROW_BITS * rows as usize + PAGE_BITS).div_ceil(8)
}

fn probes_of(key: u32) -> u32 {
    if is_of_letters(key) { LETTER_PROBES } else { IDENTIFIER_PROBES }
}

/// The number of the slice of a key. Below `slices`.
fn slice_of(key: u32, slices: usize) -> usize {
    ((u64::from(key) * slices as u64) >> 32) as usize
}

/// The bits of a key in a part of this many bits, which fit 32 bits.
#[inline]
fn bits_of(key: u32, bits: usize) -> impl Iterator<Item = usize> {
    let mixed = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (low, high) = (mixed as u32, (mixed >> 32) as u32 | 1);
    let bit = move |probe: u32| low.wrapping_add(probe.wrapping_mul(high));
    (0..probes_of(key)).map(move |probe| ((u64::from(bit(probe)) * bits as u64) >> 32) as usize)
}

/// The head and the slices of a group.
fn encode(pages: &[(u64, u32, Option<&PageWords>)]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let all: usize = pages.iter().filter_map(|(_, rows, words)| Some(filter_bytes(*rows, (*words)?))).sum();
    let slices = all.div_ceil(SLICE_BYTES).clamp(1, SLICES_MAX);
    let (mut layouts, mut numbers): (Vec<&str>, HashMap<&str, u64, foldhash::quality::RandomState>) =
        Default::default();
    let (mut head, mut parts, mut layout_bytes) = (vec![0; CHECKSUM], Vec::new(), 0);
    put_varint(&mut head, slices as u64);
    for (checksum, rows, words) in pages {
        let of_layouts = |words: &PageWords| -> usize { words.layouts.iter().map(|layout| layout.len()).sum() };
        let words = words.filter(|words| {
            let is_too_much = layout_bytes + of_layouts(words) > LAYOUT_BYTES_MAX;
            !is_too_much && layouts.len() + words.layouts.len() <= LAYOUTS_MAX
        });
        let Some(words) = words else {
            put_varint(&mut head, 0);
            parts.push((0, None));
            continue;
        };
        let part = filter_bytes(*rows, words).div_ceil(slices).max(1);
        parts.push((part, Some(words)));
        put_varint(&mut head, part as u64);
        head.push(words.has_bytes.into());
        head.extend_from_slice(&low(*checksum).to_le_bytes());
        put_varint(&mut head, words.layouts.len() as u64);
        for layout in &words.layouts {
            let number = *numbers.entry(layout).or_insert_with(|| {
                layouts.push(layout);
                layout_bytes += layout.len();
                layouts.len() as u64 - 1
            });
            put_varint(&mut head, number);
        }
    }
    put_varint(&mut head, layouts.len() as u64);
    for layout in layouts {
        put_varint(&mut head, layout.len() as u64);
        head.extend_from_slice(layout.as_bytes());
    }
    let seed = xxh3_64(&head[CHECKSUM..]);
    head[..CHECKSUM].copy_from_slice(&seed.to_le_bytes());
    let bytes = CHECKSUM + parts.iter().map(|(part, _)| part).sum::<usize>();
    let mut bits = vec![0u8; slices * bytes];
    let mut start = CHECKSUM;
    for (part, words) in parts {
        for key in words.iter().flat_map(|words| &words.keys) {
            let part_of_slice = &mut bits[slice_of(*key, slices) * bytes + start..][..part];
            bits_of(*key, 8 * part).for_each(|bit| part_of_slice[bit / 8] |= 1 << (bit % 8));
        }
        start += part;
    }
    let mut slices: Vec<Vec<u8>> = bits.chunks(bytes).map(Vec::from).collect();
    for (slice, number) in slices.iter_mut().zip(0..) {
        let checksum = slice_checksum(&slice[CHECKSUM..], seed, number);
        slice[..CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    }
    (head, slices)
}

fn slice_checksum(bits: &[u8], seed: u64, number: u64) -> u64 {
    xxh3_64_with_seed(bits, seed ^ number.rotate_left(32))
}

/// Which of some pages lack which of some texts.
#[derive(Debug, Default)]
pub(crate) struct PageBloom {
    groups: PageGroups<GroupAnswer>,
}

/// The answers of a group.
#[derive(Debug)]
struct GroupAnswer {
    /// The low half of the stored checksum of each page with a filter.
    checksums: Vec<Option<u32>>,
    /// For each text a bit a page that lacks it.
    lacking: Vec<u64>,
}

/// A text that the Bloom index is asked for.
struct TermWords<'n> {
    needle: &'n Needle,
    keys: Vec<u32>,
    /// Whether bytes or UUIDs may have it.
    may_be_bytes: bool,
    /// By layout: whether a line may contain the text although no value does.
    crossings: HashMap<Box<str>, bool, foldhash::quality::RandomState>,
}

impl<'n> TermWords<'n> {
    /// `None` if no filter excludes the text.
    fn of(needle: &'n Needle) -> Option<TermWords<'n>> {
        use PropertyKind::{Binary, Boolean, DateTime, Double, Guid, Int32, Int64};
        let is_number = [Int64, Int32, Double, Boolean, DateTime].into_iter().any(|kind| needle.may_be_in(kind));
        let mut room = Vec::new();
        let keys: Vec<u32> = needle.words().iter().map(|word| word_key(word, &mut room)).collect();
        (!is_number && !keys.is_empty()).then(|| TermWords {
            needle,
            keys,
            may_be_bytes: needle.may_be_in(Binary) || needle.may_be_in(Guid),
            crossings: HashMap::default(),
        })
    }

    fn may_cross(&mut self, layout: &str) -> bool {
        if let Some(known) = self.crossings.get(layout) {
            return *known;
        }
        // A search text is text.
        let crosses = str::from_utf8(self.needle.text()).map_or(true, |text| may_cross_escaped(layout, text));
        self.crossings.insert(layout.into(), crosses);
        crosses
    }
}

impl PageBloom {
    /// Asks the filters of some pages for texts. What is damaged excludes nothing.
    pub(crate) fn ask(connection: &Connection, pages: &[PageRow], needles: &[&Needle]) -> rusqlite::Result<PageBloom> {
        let mut terms: Vec<Option<TermWords<'_>>> = needles.iter().map(|needle| TermWords::of(needle)).collect();
        if terms.iter().all(Option::is_none) {
            return Ok(PageBloom::default());
        }
        let mut slices = connection.prepare_cached("SELECT bits FROM sieve_slice WHERE id = ?1")?;
        let groups = PageGroups::read(connection, TABLE, pages, |ids, head| {
            let count = usize::try_from(ids.end - ids.start).unwrap_or(0);
            let Some(group) = GroupHead::decode(count, head) else { return Ok(None) };
            let slice = |number: usize| {
                slices.query_row([slice_id(ids.start, number as i64)], |row| row.get::<_, Vec<u8>>(0)).optional()
            };
            let lacking = group.lacking(&mut terms, slice)?;
            let checksums = group.pages.iter().map(|page| Some(page.as_ref()?.checksum)).collect();
            Ok(Some(GroupAnswer { checksums, lacking }))
        })?;
        Ok(PageBloom { groups })
    }

    /// Whether a page surely lacks the text of this number.
    pub(crate) fn is_lacking(&self, page: &PageRow, text: usize) -> bool {
        let Some((group, bit)) = self.groups.of(page) else { return false };
        group.checksums.get(bit) == Some(&Some(low(page.header.checksum)))
            && group.lacking.get(text).is_some_and(|lacking| lacking >> bit & 1 == 1)
    }

    /// Whether no page lacks a text.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// The head of a group.
struct GroupHead<'h> {
    seed: u64,
    slices: usize,
    pages: Vec<Option<FilteredPage>>,
    layouts: Vec<&'h str>,
}

/// A page with a filter.
struct FilteredPage {
    /// The place of its part in each slice.
    part: Range<usize>,
    has_bytes: bool,
    checksum: u32,
    layouts: Vec<usize>,
}

impl<'h> GroupHead<'h> {
    /// `None` if the bytes are not a head.
    fn decode(pages: usize, bytes: &'h [u8]) -> Option<GroupHead<'h>> {
        let (checksum, rest) = bytes.split_first_chunk::<CHECKSUM>()?;
        let seed = u64::from_le_bytes(*checksum);
        if seed != xxh3_64(rest) {
            return None;
        }
        GroupHead::decode_checked(seed, pages, rest).ok()
    }

    fn decode_checked(seed: u64, count: usize, bytes: &'h [u8]) -> Result<GroupHead<'h>, PageError> {
        let mut reader = ByteReader::new(bytes);
        let slices = reader.count(SLICES_MAX)?;
        let (mut pages, mut start) = (Vec::new(), CHECKSUM);
        for _ in 0..count {
            let part = reader.count(u32::MAX as usize / 8)?;
            if part == 0 {
                pages.push(None);
                continue;
            }
            let (has_bytes, checksum) = (reader.byte()? != 0, u32::from_le_bytes(reader.array()?));
            let layouts = (0..reader.count(LAYOUTS_MAX)?).map(|_| reader.count(LAYOUTS_MAX));
            let layouts = layouts.collect::<Result<_, _>>()?;
            pages.push(Some(FilteredPage { part: start..start + part, has_bytes, checksum, layouts }));
            start += part;
        }
        let mut layouts = Vec::new();
        for _ in 0..reader.count(LAYOUTS_MAX)? {
            let length = reader.count(reader.rest().len())?;
            let layout = str::from_utf8(reader.take(length)?);
            layouts.push(layout.map_err(|_| PageError::Damaged("a layout is not UTF-8"))?);
        }
        Ok(GroupHead { seed, slices, pages, layouts })
    }

    /// For each text a bit a page that surely lacks it.
    fn lacking(
        &self,
        terms: &mut [Option<TermWords<'_>>],
        mut slice: impl FnMut(usize) -> rusqlite::Result<Option<Vec<u8>>>,
    ) -> rusqlite::Result<Vec<u64>> {
        let mut all = Vec::new();
        for term in terms {
            let mut lacking = 0u64;
            for key in term.iter().flat_map(|term| &term.keys) {
                let number = slice_of(*key, self.slices);
                let Some(bits) = slice(number)?.filter(|bits| self.is_slice(bits, number)) else { continue };
                for (at, page) in self.pages.iter().enumerate() {
                    let Some(part) = page.as_ref().and_then(|page| bits.get(page.part.clone())) else { continue };
                    let is_in = bits_of(*key, 8 * part.len()).all(|bit| part[bit / 8] >> (bit % 8) & 1 == 1);
                    lacking |= u64::from(!is_in) << at;
                }
            }
            if let Some(term) = term.as_mut().filter(|_| lacking != 0) {
                let crossing: Vec<bool> = self.layouts.iter().map(|layout| term.may_cross(layout)).collect();
                for (at, page) in self.pages.iter().enumerate() {
                    let is_open = page.as_ref().is_none_or(|page| {
                        page.has_bytes && term.may_be_bytes
                            || page.layouts.iter().any(|layout| crossing.get(*layout) != Some(&false))
                    });
                    lacking &= !(u64::from(is_open) << at);
                }
            }
            all.push(lacking);
        }
        Ok(all)
    }

    fn is_slice(&self, bytes: &[u8], number: usize) -> bool {
        bytes.split_first_chunk::<CHECKSUM>().is_some_and(|(checksum, bits)| {
            u64::from_le_bytes(*checksum) == slice_checksum(bits, self.seed, number as u64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LAYOUT: &str = "{\"a\":\"%[Message]\"}";

    fn words(words: &[String]) -> PageWords {
        let keys = words.iter().map(|word| word_key(word, &mut Vec::new())).collect();
        PageWords { keys, layouts: vec![LAYOUT.into()], has_bytes: false }
    }

    /// Pages of some words each, from `first` on.
    fn stored(pages: &[Option<Vec<String>>], first: i64) -> (Connection, Vec<PageRow>) {
        let connection = Connection::open_in_memory().expect("a database");
        connection.execute_batch(SCHEMA).expect("a table");
        connection.execute_batch("CREATE TABLE page(id INTEGER PRIMARY KEY, first BLOB)").expect("a table");
        let of_pages: Vec<Option<PageWords>> = pages.iter().map(|of| of.as_deref().map(words)).collect();
        let mut builder = PageBloomBuilder::default();
        for (at, words) in of_pages.iter().enumerate() {
            builder.push(at as u64 + 7, 2000, words.as_ref());
        }
        builder.insert(&connection, first).expect("written");
        let rows = (first..).zip(0..pages.len() as u64).map(|(id, at)| PageRow::alone(id, at + 7)).collect();
        (connection, rows)
    }

    fn lacking(connection: &Connection, pages: &[PageRow], word: &str) -> Vec<bool> {
        lacking_each(connection, pages, &[word.to_owned()]).remove(0)
    }

    /// For each word the pages that lack it.
    fn lacking_each(connection: &Connection, pages: &[PageRow], words: &[String]) -> Vec<Vec<bool>> {
        let needles: Vec<Needle> = words.iter().map(|word| Needle::with_borders(word, (true, true))).collect();
        let bloom = PageBloom::ask(connection, pages, &needles.iter().collect::<Vec<_>>()).expect("read");
        (0..words.len()).map(|at| pages.iter().map(|page| bloom.is_lacking(page, at)).collect()).collect()
    }

    fn word() -> impl Strategy<Value = String> {
        prop_oneof!["[a-f]{3,4}", "[0-9a-f]{7}[a-f]", "1\\.2\\.[0-9]\\.[0-9]", "user_[0-9]{1,3}"]
    }

    fn pages() -> impl Strategy<Value = Vec<Option<Vec<String>>>> {
        let of_page = prop_oneof![prop::collection::vec(word(), 0..20), prop::collection::vec(word(), 200..500)];
        prop::collection::vec(prop::option::weighted(0.9, of_page), 1..80)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// A page with a word never lacks it; a page without a filter, with another checksum or of another group lacks
        /// nothing. Rows go with the last of their pages.
        #[test]
        fn pages_have_their_words(pages in pages(), first in 1i64..1000, gone in any::<prop::sample::Index>()) {
            let (connection, rows) = stored(&pages, first);
            let some: Vec<(usize, String)> = (0..).zip(&pages).flat_map(|(at, of)| of.iter().flatten().step_by(70).map(move |word| (at, word.clone()))).collect();
            let words: Vec<String> = some.iter().map(|(_, word)| word.clone()).collect();
            for ((at, word), found) in some.iter().zip(lacking_each(&connection, &rows, &words)) {
                prop_assert!(!found[*at], "{}", word);
            }
            let absent = lacking(&connection, &rows, "absent");
            let with_filter = pages.iter().filter(|page| page.is_some()).count();
            prop_assert!(absent.iter().zip(&pages).all(|(lacks, page)| page.is_some() || !lacks));
            prop_assert!(with_filter <= 2 + 3 * absent.iter().filter(|lacks| **lacks).count() / 2);
            let others: Vec<PageRow> = rows.iter().map(|row| PageRow::alone(row.id().expect("a row"), 3)).collect();
            prop_assert!(lacking(&connection, &others, "absent").iter().all(|lacks| !lacks));
            let left = gone.index(rows.len());
            connection.execute("INSERT INTO page(id) VALUES (?1)", [&rows[left].id().expect("a row")]).expect("a page");
            remove_empty(&connection).expect("removed");
            let found = lacking(&connection, &rows, "absent");
            prop_assert_eq!(found[left], absent[left]);
            connection.execute("DELETE FROM page", []).expect("no page");
            remove_empty(&connection).expect("removed");
            let count = "SELECT (SELECT count(*) FROM page_sieve) + (SELECT count(*) FROM sieve_slice)";
            prop_assert_eq!(connection.query_row(count, [], |row| row.get::<_, i64>(0)).expect("counted"), 0);
        }

        /// A changed byte excludes no page. Any head under a right checksum is read to an end.
        #[test]
        fn damage_excludes_nothing(pages in pages(), at in any::<prop::sample::Index>(), by in 1u8.., any in prop::collection::vec(any::<u8>(), 0..200)) {
            let (connection, rows) = stored(&pages, 5);
            for (table, column, key) in [("page_sieve", "head", "first"), ("sieve_slice", "bits", "id")] {
                let select = format!("SELECT {key}, {column} FROM {table}");
                let mut statement = connection.prepare(&select).expect("a query");
                let stored = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)));
                let stored: Vec<_> = stored.expect("rows").map(|row| row.expect("a row")).collect();
                for (id, bytes) in stored {
                    let mut damaged = bytes.clone();
                    damaged[at.index(bytes.len())] ^= by;
                    let update = format!("UPDATE {table} SET {column} = ?2 WHERE {key} = ?1");
                    connection.execute(&update, params![id, damaged]).expect("damaged");
                }
                prop_assert!(lacking(&connection, &rows, "absent").iter().all(|lacks| !lacks));
            }
            for count in [0, 1, 64] {
                let _ = GroupHead::decode_checked(0, count, &any);
            }
        }
    }
}
