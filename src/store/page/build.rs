//! Rows that wait for one partition become pages.

use super::bits::{Sections, put_varint};
use super::column::Gathered;
use super::read::Page;
use super::{
    CODEC_STORED, CODEC_ZSTD, Encoded, Header, PAGE_BYTES, PAGE_SPAN, RAW_BYTES_MAX, ROW_BYTES, VALUE_BYTES, ints,
    keys, levels,
};
use crate::batch::{Batch, RowRef};
use crate::key::RowKey;
use crate::property::{Kind, Property};
use crate::record::Level;
use std::cell::RefCell;
use std::collections::HashMap;

/// Names and dictionaries of fewer bytes are stored as they are: zstd would gain little, and cost more than all else.
const FRAME_COMPRESSED_MIN: usize = 512;
/// Columns that a linear search still finds faster than a hash.
const SEARCHED: usize = 16;
/// A column that a part's name has not come to yet.
const NO_COLUMN: u32 = u32::MAX;

/// Pages made of all that was pushed.
#[derive(Debug)]
pub struct Built {
    /// In the order of their keys, newest first.
    pub pages: Vec<Encoded>,
    /// Rows that a later one with the same key took the place of.
    pub duplicates: u64,
}

/// Collects rows of one partition. It borrows them: nothing is copied until a page is written.
#[derive(Default)]
pub struct Builder<'a> {
    parts: Vec<Part<'a>>,
    rows: Vec<Row<'a>>,
}

/// What rows were pushed with: where their names are.
enum Part<'a> {
    Batch(&'a Batch),
    Page(&'a Page),
}

struct Row<'a> {
    key: RowKey,
    part: usize,
    values: RowValues<'a>,
}

#[derive(Clone, Copy)]
enum RowValues<'a> {
    Batch(RowRef<'a>),
    Page(&'a Page, usize),
}

impl<'a> Builder<'a> {
    /// With no rows.
    pub fn new() -> Builder<'a> {
        Builder::default()
    }

    /// Adds the rows of a batch. Of equal keys the one pushed last wins.
    pub fn push_batch(&mut self, batch: &'a Batch) {
        let part = self.parts.len();
        self.parts.push(Part::Batch(batch));
        self.rows.extend(batch.rows().map(|row| Row { key: row.key, part, values: RowValues::Batch(row) }));
    }

    /// Adds the rows of a page. Of equal keys the one pushed last wins, so push the page with the older `seq` first.
    pub fn push_page(&mut self, page: &'a Page) {
        let part = self.parts.len();
        self.parts.push(Part::Page(page));
        let rows = page.keys().iter().enumerate();
        self.rows.extend(rows.map(|(row, &key)| Row { key, part, values: RowValues::Page(page, row) }));
    }

    /// Sorts what was pushed and makes pages of it.
    pub fn build(mut self) -> Built {
        // Files are read oldest first: one descending run, which this finds and turns around.
        self.rows.sort_by(|a, b| a.key.cmp(&b.key));
        let pushed = self.rows.len();
        self.rows.dedup_by(|later, kept| {
            let same = later.key == kept.key;
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        let duplicates = (pushed - self.rows.len()) as u64;
        let mut columns = Columns::new(&self.parts);
        let mut pages = Vec::new();
        let mut rest = self.rows.as_slice();
        while !rest.is_empty() {
            let (count, raw_bytes) = cut(rest);
            let (rows, next) = rest.split_at(count);
            rest = next;
            pages.push(SCRATCH.with_borrow_mut(|scratch| encode(rows, raw_bytes, &mut columns, scratch)));
        }
        Built { pages, duplicates }
    }
}

/// Rows that the next page takes, and their bytes. A master and its items are never taken apart.
fn cut(rows: &[Row<'_>]) -> (usize, usize) {
    let mut bytes = 0;
    for (at, row) in rows.iter().enumerate() {
        let more = bytes + row.bytes();
        let begins_record = at > 0 && row.key.with_item(0) != rows[at - 1].key.with_item(0);
        let too_long = || rows[0].key.time().since(row.key.time()) > PAGE_SPAN;
        if begins_record && (more > PAGE_BYTES || too_long()) || at > 0 && more > RAW_BYTES_MAX {
            return (at, bytes);
        }
        bytes = more;
    }
    (rows.len(), bytes)
}

impl Row<'_> {
    fn bytes(&self) -> usize {
        let bytes = match self.values {
            RowValues::Batch(row) => row.bytes(),
            RowValues::Page(page, row) => page.values(row).map(|(_, value)| value_bytes(value)).sum(),
        };
        ROW_BYTES + bytes
    }

    fn level(&self) -> Option<Level> {
        match self.values {
            RowValues::Batch(row) => row.level,
            RowValues::Page(page, row) => page.level(row),
        }
    }
}

/// What a value takes in a batch, so that pages made of pages are cut like those made of batches.
fn value_bytes(value: Property<'_>) -> usize {
    VALUE_BYTES
        + match value {
            Property::String(text) => 4 + text.len(),
            Property::Binary(bytes) => 4 + bytes.len(),
            Property::Int64(_) | Property::Double(_) | Property::DateTime(_) => 8,
            Property::Int32(_) => 4,
            Property::Guid(_) => 16,
            Property::Boolean(_) => 0,
        }
}

/// The columns of the page that is being built, found by the part and its number for the name.
struct Columns<'p, 'a> {
    parts: &'p [Part<'a>],
    /// Where a part's columns begin in `known`; set when a page takes its first row of that part.
    bases: Vec<Option<usize>>,
    /// For each name and kind of a batch, for each column of a page: the column it comes to here.
    known: Vec<u32>,
    touched: Vec<usize>,
    columns: Vec<Gathered<'a>>,
    by_name: HashMap<(&'a str, Kind), usize, foldhash::quality::RandomState>,
    /// Records of one kind name the same fields in the same order: the column after the one found last is tried first.
    next: usize,
    rows: usize,
}

impl<'p, 'a> Columns<'p, 'a> {
    fn new(parts: &'p [Part<'a>]) -> Columns<'p, 'a> {
        let bases = vec![None; parts.len()];
        let by_name = HashMap::default();
        Columns { parts, bases, known: Vec::new(), touched: Vec::new(), columns: Vec::new(), by_name, next: 0, rows: 0 }
    }

    /// Sorts the values of `rows` into columns.
    fn gather(&mut self, rows: &[Row<'a>]) {
        self.rows = rows.len();
        for (at, row) in rows.iter().enumerate() {
            let base = match self.bases[row.part] {
                Some(base) => base,
                None => self.touch(row.part),
            };
            match (row.values, &self.parts[row.part]) {
                (RowValues::Batch(values), Part::Batch(batch)) => {
                    for (name, value) in values.properties() {
                        let name = usize::from(name);
                        let slot = base + name * Kind::COUNT + value.kind() as usize;
                        let column = match self.known[slot] {
                            NO_COLUMN => self.find(slot, &batch.names()[name], value.kind()),
                            column => column as usize,
                        };
                        self.columns[column].push(at, value);
                    }
                }
                (RowValues::Page(page, row), _) => {
                    for (number, value) in page.values(row) {
                        let column = match self.known[base + number] {
                            NO_COLUMN => self.find(base + number, page.name(number), value.kind()),
                            column => column as usize,
                        };
                        self.columns[column].push(at, value);
                    }
                }
                // A row is of the kind of its part.
                (RowValues::Batch(_), Part::Page(_)) => {}
            }
        }
    }

    fn touch(&mut self, part: usize) -> usize {
        let base = self.known.len();
        let names = match self.parts[part] {
            Part::Batch(batch) => batch.names().len() * Kind::COUNT,
            Part::Page(page) => page.width(),
        };
        self.known.resize(base + names, NO_COLUMN);
        self.bases[part] = Some(base);
        self.touched.push(part);
        base
    }

    fn find(&mut self, slot: usize, name: &'a str, kind: Kind) -> usize {
        let is = |column: &Gathered<'_>| column.kind == kind && column.name == name;
        let found = if self.columns.get(self.next).is_some_and(is) {
            Some(self.next)
        } else if self.columns.len() <= SEARCHED {
            self.columns.iter().position(is)
        } else {
            self.by_name.get(&(name, kind)).copied()
        };
        let column = found.unwrap_or_else(|| self.add(name, kind));
        self.next = column + 1;
        // A page has fewer bytes than there are numbers.
        self.known[slot] = u32::try_from(column).unwrap_or(NO_COLUMN);
        column
    }

    fn add(&mut self, name: &'a str, kind: Kind) -> usize {
        let column = self.columns.len();
        self.columns.push(Gathered::new(name, kind, self.rows));
        if column == SEARCHED {
            self.by_name = self.columns.iter().zip(0..).map(|(column, at)| ((column.name, column.kind), at)).collect();
        } else if column > SEARCHED {
            self.by_name.insert((name, kind), column);
        }
        column
    }

    /// Forgets the page that was built.
    fn clear(&mut self) {
        self.touched.drain(..).for_each(|part| self.bases[part] = None);
        self.known.clear();
        self.columns.clear();
        self.by_name.clear();
        self.next = 0;
    }
}

/// What every page of a thread is built with: making a compression context costs more than using it.
#[derive(Default)]
struct Scratch {
    sections: Sections,
    compressor: Option<zstd::bulk::Compressor<'static>>,
    frame: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

fn encode<'a>(rows: &[Row<'a>], raw_bytes: usize, columns: &mut Columns<'_, 'a>, scratch: &mut Scratch) -> Encoded {
    let out = &mut scratch.sections;
    out.clear();
    let keys: Vec<RowKey> = rows.iter().map(|row| row.key).collect();
    keys::encode(&keys, out);
    let codes: Vec<i64> = rows.iter().map(|row| row.level().map_or(0, |level| i64::from(level.code()))).collect();
    ints::encode(&codes, out);
    columns.gather(rows);
    put_varint(&mut out.meta, columns.columns.len() as u64);
    for column in columns.columns.drain(..) {
        column.encode(rows.len(), out);
    }
    columns.clear();

    let (packed, strings, meta) = (out.packed.len(), out.strings.len(), out.meta.len());
    out.strings.append(&mut out.meta);
    let codec = scratch.compress();
    let frame = if codec == CODEC_ZSTD { &scratch.frame } else { &scratch.sections.strings };
    let mut body = Vec::with_capacity(packed + frame.len() + 12);
    for length in [packed, strings, meta] {
        put_varint(&mut body, length as u64);
    }
    body.extend_from_slice(&scratch.sections.packed);
    body.extend_from_slice(frame);

    // `cut` keeps a page's bytes, and with them its rows, far below what 32 bits hold.
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut header = Header {
        first: keys[0],
        last: keys[keys.len() - 1],
        entities: number(keys.len()),
        records: number(keys.iter().filter(|key| key.item() == 0).count()),
        levels: levels::encode(rows.iter().map(|row| (row.key, row.level()))),
        codec,
        raw_bytes: number(raw_bytes.max(strings + meta)),
        checksum: 0,
    };
    header.checksum = header.checksum_of(&body);
    Encoded { header, body }
}

impl Scratch {
    /// Compresses the strings and what is behind them into `frame`, where that gains anything.
    fn compress(&mut self) -> u8 {
        let text = &self.sections.strings;
        if text.len() < FRAME_COMPRESSED_MIN {
            return CODEC_STORED;
        }
        if self.compressor.is_none() {
            self.compressor = zstd::bulk::Compressor::new(1).ok();
        }
        // Without memory for a context, or for what it writes, the text is stored as it is.
        let Some(compressor) = &mut self.compressor else { return CODEC_STORED };
        self.frame.clear();
        self.frame.reserve(zstd::zstd_safe::compress_bound(text.len()));
        match compressor.compress_to_buffer(text.as_slice(), &mut self.frame) {
            Ok(length) if length < text.len() => CODEC_ZSTD,
            _ => CODEC_STORED,
        }
    }
}
