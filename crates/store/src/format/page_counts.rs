//! Counts of records by value and level, for pages of one transaction: a row of the table `page_counts`.
//!
//! A question for the number of records with `status=500` reads these rows instead of 5,000 pages. The pages of a row
//! have consecutive ids and mostly the same names and values, which the row therefore holds once.
//!
//! ```text
//! counts  := checksum u64 of the rest | mask u64 | low 32 bits of the stored checksum of each page in the mask
//!            | columns varint | column*
//! column  := name length varint, name | kind u8 | length of the rest varint | values varint | value* | of_page*
//! of_page := 0                                               the page has no such column      for each page in the mask
//!            1 | filled varint                               too many values; records with one that is not an empty text
//!            1 + groups varint | [value << 4 | level varint, records varint]*
//! value   := length varint, bytes | signed varint | f64      by kind
//! ```
//!
//! These numbers are a copy. A row that is damaged or missing, or a page with another checksum than the row has for it,
//! only means that pages are read. A merged or removed page is in no other row, and a row without pages is removed.

use super::page::{ByteReader, LEVELS, PageError, VALUES_MAX, ValueCounts, is_filled, put_signed, put_varint};
use super::page_groups::{self, GroupTable, PageGroups, low};
use super::page_rows::PageRow;
use daytable_model::property::{OwnedValue, Property, PropertyKind};
use daytable_model::time::Ticks;
use rusqlite::{Connection, params};
use std::collections::HashMap;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// The schema of the table.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE page_counts(
        first INTEGER PRIMARY KEY,           -- the id of its first page; the others follow
        pages INTEGER NOT NULL,
        counts BLOB NOT NULL                 -- see the top of page_counts.rs
    );
";

/// The table, for its groups.
pub(crate) const TABLE: GroupTable = ("page_counts", "counts");

/// Values of a column in one row: more are too many for each page with a new one.
const ROW_VALUES_MAX: usize = 256;
/// Most columns of a row.
const ROW_COLUMNS_MAX: usize = 1 << 14;

/// The counts of pages in the order of their ids, each with its stored checksum.
#[derive(Default)]
pub(crate) struct PageCountsBuilder<'p> {
    pages: Vec<(u64, Option<&'p ValueCounts>)>,
}

impl<'p> PageCountsBuilder<'p> {
    /// Adds the next page.
    pub(crate) fn push(&mut self, checksum: u64, counts: Option<&'p ValueCounts>) {
        self.pages.push((checksum, counts));
    }

    /// Writes the rows of pages that were inserted with these ids, from `first` on.
    pub(crate) fn insert(self, connection: &Connection, first: i64) -> rusqlite::Result<()> {
        for (first, pages) in page_groups::groups(&self.pages, first) {
            if pages.iter().any(|(_, counts)| counts.is_some()) {
                connection.prepare_cached("INSERT INTO page_counts VALUES (?1, ?2, ?3)")?.execute(params![
                    first,
                    pages.len() as i64,
                    encode(pages)
                ])?;
            }
        }
        Ok(())
    }
}

/// A column of a row that is being written.
#[derive(Default)]
struct ColumnWriter {
    values: Vec<u8>,
    numbers: HashMap<Vec<u8>, usize, foldhash::quality::RandomState>,
    /// The counts of the pages so far.
    counts: Vec<u8>,
    pages: usize,
}

/// Counts of at most 64 pages, each with its stored checksum.
pub(crate) fn encode(pages: &[(u64, Option<&ValueCounts>)]) -> Vec<u8> {
    let mut columns: Vec<((&str, PropertyKind), ColumnWriter)> = Vec::new();
    let mut numbers: HashMap<(&str, PropertyKind), usize, foldhash::quality::RandomState> = HashMap::default();
    let (mut mask, mut checksums, mut counted) = (0u64, Vec::new(), 0);
    for (at, (checksum, counts)) in pages.iter().enumerate() {
        let Some(counts) = counts else { continue };
        mask |= 1 << at;
        checksums.extend_from_slice(&low(*checksum).to_le_bytes());
        for column in &counts.columns {
            let number = *numbers.entry((&column.name, column.kind)).or_insert_with(|| {
                columns.push(((&column.name, column.kind), ColumnWriter::default()));
                columns.len() - 1
            });
            let writer = &mut columns[number].1;
            // Pages before without the column.
            writer.counts.resize(writer.counts.len() + counted - writer.pages, 0);
            writer.pages = counted + 1;
            let groups: Option<Vec<_>> = column.values.as_ref().and_then(|values| writer.groups(values));
            match groups {
                Some(groups) => {
                    put_varint(&mut writer.counts, 1 + groups.len() as u64);
                    for (group, records) in groups {
                        put_varint(&mut writer.counts, group);
                        put_varint(&mut writer.counts, records.into());
                    }
                }
                None => {
                    writer.counts.push(1);
                    put_varint(&mut writer.counts, column.filled.into());
                }
            }
        }
        counted += 1;
    }
    let mut out = vec![0; 8];
    out.extend_from_slice(&mask.to_le_bytes());
    out.append(&mut checksums);
    put_varint(&mut out, columns.len() as u64);
    for ((name, kind), mut writer) in columns {
        put_varint(&mut out, name.len() as u64);
        out.extend_from_slice(name.as_bytes());
        out.push(kind as u8);
        writer.counts.resize(writer.counts.len() + counted - writer.pages, 0);
        let mut head = Vec::new();
        put_varint(&mut head, writer.numbers.len() as u64);
        put_varint(&mut out, (head.len() + writer.values.len() + writer.counts.len()) as u64);
        out.append(&mut head);
        out.append(&mut writer.values);
        out.append(&mut writer.counts);
    }
    let checksum = xxh3_64(&out[8..]);
    out[..8].copy_from_slice(&checksum.to_le_bytes());
    out
}

impl ColumnWriter {
    /// Values and levels as numbers, with their records. `None` if the row has too many values, or there are none.
    fn groups(&mut self, values: &[(OwnedValue, [u32; LEVELS])]) -> Option<Vec<(u64, u32)>> {
        let mut groups = Vec::new();
        for (value, counts) in values {
            let mut encoded = Vec::new();
            put_value(&mut encoded, value.as_property())?;
            let next = self.numbers.len();
            let number = match self.numbers.get(&encoded) {
                Some(number) => *number,
                None if next == ROW_VALUES_MAX => return None,
                None => {
                    self.values.extend_from_slice(&encoded);
                    self.numbers.insert(encoded, next);
                    next
                }
            };
            let levels = counts.iter().zip(0u64..).filter(|(records, _)| **records > 0);
            groups.extend(levels.map(|(records, level)| ((number as u64) << 4 | level, *records)));
        }
        Some(groups).filter(|groups| !groups.is_empty())
    }
}

fn put_value(out: &mut Vec<u8>, value: Property<'_>) -> Option<()> {
    match value {
        Property::String(text) => {
            put_varint(out, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        }
        Property::Int64(n) => put_signed(out, n),
        Property::Int32(n) => put_signed(out, n.into()),
        Property::Boolean(is_true) => put_signed(out, is_true.into()),
        Property::DateTime(time) => put_signed(out, time.get()),
        Property::Double(n) => out.extend_from_slice(&n.to_le_bytes()),
        Property::Guid(_) | Property::Binary(_) => return None,
    }
    Some(())
}

fn value(kind: PropertyKind, reader: &mut ByteReader<'_>) -> Result<OwnedValue, PageError> {
    const UNKNOWN: PageError = PageError::Damaged("a counted value cannot be read");
    Ok(match kind {
        PropertyKind::String => {
            let length = reader.count(reader.rest().len())?;
            OwnedValue::String(str::from_utf8(reader.take(length)?).map_err(|_| UNKNOWN)?.to_owned())
        }
        PropertyKind::Int64 => OwnedValue::Int64(reader.signed()?),
        PropertyKind::Int32 => OwnedValue::Int32(i32::try_from(reader.signed()?).map_err(|_| UNKNOWN)?),
        PropertyKind::Boolean => OwnedValue::Boolean(reader.signed()? != 0),
        PropertyKind::DateTime => OwnedValue::DateTime(Ticks::new(reader.signed()?).ok_or(UNKNOWN)?),
        PropertyKind::Double => OwnedValue::Double(f64::from_le_bytes(reader.array()?)),
        PropertyKind::Guid | PropertyKind::Binary => return Err(UNKNOWN),
    })
}

/// The counts of some columns of the pages of one row.
#[derive(Debug)]
pub(crate) struct PageCounts {
    mask: u64,
    /// The low half of the stored checksum of each page in the mask.
    checksums: Vec<u32>,
    columns: Vec<CountedColumn>,
}

/// The counts of a column.
#[derive(Debug)]
struct CountedColumn {
    name: String,
    kind: PropertyKind,
    values: Vec<OwnedValue>,
    groups: Vec<(u16, u32)>,
    /// Of the pages that have the column, by their places in the mask: most names of a day with many are in few pages.
    pages: Vec<(u8, CountedInPage)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum CountedInPage {
    /// This many records have a value that is not an empty text.
    Filled(u32),
    /// The groups of the page.
    Groups(Range<u32>),
}

impl PageCounts {
    /// Reads the rows of some of these pages: of columns that `wants` accepts. A damaged row is passed over.
    pub(crate) fn read(
        connection: &Connection,
        pages: &[PageRow],
        wants: impl Fn(&str, PropertyKind) -> bool,
    ) -> rusqlite::Result<PageGroups<PageCounts>> {
        PageGroups::read(connection, TABLE, pages, |_, bytes| Ok(PageCounts::decode(bytes, &wants)))
    }

    /// The counts of a page; `None` if it has none.
    pub(crate) fn of<'c>(groups: &'c PageGroups<PageCounts>, page: &PageRow) -> Option<CountedPage<'c>> {
        let (row, bit) = groups.of(page)?;
        let of_page = row.page(bit)?;
        (row.checksums.get(of_page.at) == Some(&low(page.header.checksum))).then_some(of_page)
    }

    /// The counts of a page by its number, whatever its checksum; `None` if it has none.
    pub(crate) fn page(&self, bit: usize) -> Option<CountedPage<'_>> {
        let at = (self.mask & ((1 << bit) - 1)).count_ones() as usize;
        (self.mask >> bit & 1 == 1).then_some(CountedPage { row: self, at })
    }

    /// The counts in a row, of some columns; `None` if it is damaged.
    pub(crate) fn decode(bytes: &[u8], wants: &dyn Fn(&str, PropertyKind) -> bool) -> Option<PageCounts> {
        let (checksum, rest) = bytes.split_first_chunk::<8>()?;
        if u64::from_le_bytes(*checksum) != xxh3_64(rest) {
            return None;
        }
        PageCounts::decode_checked(rest, wants).ok()
    }

    fn decode_checked(bytes: &[u8], wants: &dyn Fn(&str, PropertyKind) -> bool) -> Result<PageCounts, PageError> {
        let mut reader = ByteReader::new(bytes);
        let mask = u64::from_le_bytes(reader.array()?);
        let pages = mask.count_ones() as usize;
        let checksums = (0..pages).map(|_| reader.array().map(u32::from_le_bytes)).collect::<Result<_, _>>()?;
        let mut columns = Vec::new();
        for _ in 0..reader.count(ROW_COLUMNS_MAX)? {
            let length = reader.count(reader.rest().len())?;
            let name = str::from_utf8(reader.take(length)?).map_err(|_| PageError::Damaged("a name is not UTF-8"))?;
            let kind = reader.byte().map(PropertyKind::from_code)?.ok_or(PageError::Damaged("a column has no kind"))?;
            let length = reader.count(reader.rest().len())?;
            let of_column = reader.take(length)?;
            if wants(name, kind) {
                columns.push(CountedColumn::decode(name, kind, pages, of_column)?);
            }
        }
        Ok(PageCounts { mask, checksums, columns })
    }
}

impl CountedColumn {
    fn decode(name: &str, kind: PropertyKind, pages: usize, bytes: &[u8]) -> Result<CountedColumn, PageError> {
        let mut reader = ByteReader::new(bytes);
        let count = reader.count(ROW_VALUES_MAX)?;
        let values = (0..count).map(|_| value(kind, &mut reader)).collect::<Result<Vec<_>, _>>()?;
        let mut column = CountedColumn { name: name.to_owned(), kind, values, groups: Vec::new(), pages: Vec::new() };
        let records = |reader: &mut ByteReader<'_>| {
            u32::try_from(reader.varint()?).map_err(|_| PageError::Damaged("a count is too large"))
        };
        let place = |groups: &Vec<(u16, u32)>| {
            u32::try_from(groups.len()).map_err(|_| PageError::Damaged("it has too many counts"))
        };
        // At most 64.
        for at in 0..pages as u8 {
            let of_page = match reader.count(1 + VALUES_MAX * LEVELS)? {
                0 => continue,
                1 => CountedInPage::Filled(records(&mut reader)?),
                more => {
                    let start = place(&column.groups)?;
                    for _ in 1..more {
                        let group = reader.varint()?;
                        let is_known = (group >> 4) < count as u64 && ((group & 15) as usize) < LEVELS;
                        let group = u16::try_from(group).ok().filter(|_| is_known);
                        let group = group.ok_or(PageError::Damaged("a counted value is unknown"))?;
                        column.groups.push((group, records(&mut reader)?));
                    }
                    CountedInPage::Groups(start..place(&column.groups)?)
                }
            };
            column.pages.push((at, of_page));
        }
        Ok(column)
    }
}

/// Numbers of the records of a page, of the columns that were read.
#[derive(Clone, Copy, Debug)]
pub struct CountedPage<'c> {
    row: &'c PageCounts,
    /// Its place among the pages of the mask.
    at: usize,
}

/// Numbers of the records of a page with a value of one column.
#[derive(Clone, Copy, Debug)]
pub struct CountedValues<'c> {
    column: &'c CountedColumn,
    of_page: &'c CountedInPage,
}

impl<'c> CountedPage<'c> {
    /// The columns of which the page has numbers.
    pub fn columns(&self) -> impl Iterator<Item = CountedValues<'c>> {
        let at = self.at;
        self.row.columns.iter().filter_map(move |column| {
            let found = column.pages.binary_search_by_key(&at, |(page, _)| usize::from(*page)).ok()?;
            Some(CountedValues { column, of_page: &column.pages[found].1 })
        })
    }
}

impl<'c> CountedValues<'c> {
    /// The property's name.
    pub fn name(&self) -> &'c str {
        &self.column.name
    }

    /// The type of its values.
    pub fn kind(&self) -> PropertyKind {
        self.column.kind
    }

    /// Records with a value that is not an empty text.
    pub fn filled(&self) -> u64 {
        match self.of_page {
            CountedInPage::Filled(filled) => u64::from(*filled),
            _ => self
                .groups()
                .into_iter()
                .flatten()
                .filter(|of| is_filled(of.0.as_property()))
                .map(|of| u64::from(of.2))
                .sum(),
        }
    }

    /// Values, codes of levels, and the number of their records; `None` if there are too many values. The groups of a
    /// value stand together.
    pub fn groups(&self) -> Option<impl Iterator<Item = (&'c OwnedValue, u8, u32)>> {
        let CountedInPage::Groups(groups) = self.of_page else { return None };
        let values = &self.column.values;
        let group =
            move |(group, records): &(u16, u32)| (&values[usize::from(group >> 4)], (group & 15) as u8, *records);
        Some(self.column.groups[groups.start as usize..groups.end as usize].iter().map(group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::page::{ColumnCounts, PageHeader};
    use proptest::prelude::*;

    fn value_of(kind: PropertyKind) -> BoxedStrategy<OwnedValue> {
        match kind {
            PropertyKind::String => "[a-c]{0,2}".prop_map(OwnedValue::String).boxed(),
            PropertyKind::Boolean => any::<bool>().prop_map(OwnedValue::Boolean).boxed(),
            PropertyKind::Double => (-3i8..3).prop_map(|n| OwnedValue::Double(f64::from(n) / 2.0)).boxed(),
            PropertyKind::Int32 => any::<i32>().prop_map(OwnedValue::Int32).boxed(),
            _ => any::<i64>().prop_map(OwnedValue::Int64).boxed(),
        }
    }

    fn column() -> impl Strategy<Value = ColumnCounts> {
        let kinds = [
            PropertyKind::String,
            PropertyKind::Boolean,
            PropertyKind::Double,
            PropertyKind::Int32,
            PropertyKind::Int64,
        ];
        ("[a-c]", prop::sample::select(kinds.to_vec())).prop_flat_map(|(name, kind)| {
            let counts = prop::collection::vec(prop_oneof![Just(0u32), 1..2000u32], LEVELS);
            let values = prop::collection::vec((value_of(kind), counts), 1..5);
            (prop::option::of(values), 0..2000u32).prop_map(move |(values, filled)| {
                let values = values.map(|values| {
                    let array = |counts: Vec<u32>| <[u32; LEVELS]>::try_from(counts).expect("as many as levels");
                    let mut values: Vec<_> = values.into_iter().map(|(value, counts)| (value, array(counts))).collect();
                    values.iter_mut().for_each(|(_, counts)| counts[0] += 1);
                    let mut seen = Vec::new();
                    values.retain(|(value, _)| {
                        !seen.contains(value) && {
                            seen.push(value.clone());
                            true
                        }
                    });
                    values
                });
                ColumnCounts { name: name.clone(), kind, filled, values }
            })
        })
    }

    fn page() -> impl Strategy<Value = Option<ValueCounts>> {
        prop::option::weighted(0.8, prop::collection::vec(column(), 0..4)).prop_map(|columns| {
            let mut columns = columns?;
            let mut seen = Vec::new();
            columns.retain(|of| {
                !seen.contains(&(of.name.clone(), of.kind)) && {
                    seen.push((of.name.clone(), of.kind));
                    true
                }
            });
            Some(ValueCounts { columns })
        })
    }

    type Plain = Vec<(String, PropertyKind, Result<Vec<(OwnedValue, u8, u32)>, u64>)>;

    fn plain(counts: &ValueCounts) -> Plain {
        let mut plain: Plain = Vec::new();
        for of in &counts.columns {
            let groups = of.values.as_ref().map(|values| {
                let of_value = |(value, counts): &(OwnedValue, [u32; LEVELS])| {
                    let value = value.clone();
                    let levels = counts.iter().zip(0u8..).filter(|(records, _)| **records > 0);
                    levels.map(|(records, level)| (value.clone(), level, *records)).collect::<Vec<_>>()
                };
                values.iter().flat_map(of_value).collect()
            });
            plain.push((of.name.clone(), of.kind, groups.ok_or(u64::from(of.filled))));
        }
        plain.sort_by_key(|of| (of.0.clone(), of.1));
        plain
    }

    fn read(page: CountedPage<'_>) -> Plain {
        let of_column = |of: CountedValues<'_>| {
            let groups = of.groups().map(|groups| groups.map(|(value, level, n)| (value.clone(), level, n)).collect());
            (of.name().to_owned(), of.kind(), groups.ok_or(of.filled()))
        };
        let mut read: Plain = page.columns().map(of_column).collect();
        read.sort_by_key(|of| (of.0.clone(), of.1));
        read
    }

    proptest! {
        /// Counts are read as they were written, of the page that they were written for, and of no other.
        #[test]
        fn counts_belong_to_their_page(pages in prop::collection::vec(page(), 1..150), first in 1i64..1000, gone in any::<prop::sample::Index>()) {
            let connection = Connection::open_in_memory().expect("a database");
            connection.execute_batch(SCHEMA).expect("a table");
            connection.execute_batch("CREATE TABLE page(id INTEGER PRIMARY KEY, first BLOB)").expect("a table");
            let mut builder = PageCountsBuilder::default();
            for (at, page) in pages.iter().enumerate() {
                builder.push(at as u64 + 7, page.as_ref());
            }
            builder.insert(&connection, first).expect("written");
            let rows: Vec<PageRow> = (first..).zip(0..pages.len() as u64).map(|(id, at)| PageRow::alone(id, at + 7)).collect();
            let counts = PageCounts::read(&connection, &rows, |_, _| true).expect("read");
            for (page, row) in pages.iter().zip(&rows) {
                let found = PageCounts::of(&counts, row).map(read);
                prop_assert_eq!(&found, &page.as_ref().map(plain));
                let other = PageRow { header: PageHeader { checksum: 3, ..row.header.clone() }, ..row.clone() };
                prop_assert!(PageCounts::of(&counts, &other).is_none());
            }
            let only = PageCounts::read(&connection, &rows, |name, _| name == "a").expect("read");
            for (page, row) in pages.iter().zip(&rows) {
                let mut wanted = page.as_ref().map(plain);
                wanted.iter_mut().for_each(|columns| columns.retain(|of| of.0 == "a"));
                prop_assert_eq!(PageCounts::of(&only, row).map(read), wanted);
            }
            // A row stays as long as one of its pages.
            let left = first + gone.index(pages.len()) as i64;
            connection.execute("INSERT INTO page(id) VALUES (?1)", [left]).expect("a page");
            let before = PageCounts::of(&counts, &rows[(left - first) as usize]).map(read);
            page_groups::remove_empty(&connection, TABLE).expect("removed");
            let counts = PageCounts::read(&connection, &rows, |_, _| true).expect("read");
            prop_assert!(counts.len() <= 1);
            prop_assert_eq!(PageCounts::of(&counts, &rows[(left - first) as usize]).map(read), before);
        }

        /// A changed byte leaves no counts. Any bytes under a right checksum are read to an end.
        #[test]
        fn damage_leaves_no_counts(pages in prop::collection::vec(page(), 1..9), at in any::<prop::sample::Index>(), by in 1u8.., mut any in prop::collection::vec(any::<u8>(), 0..200)) {
            let pages: Vec<_> = pages.iter().map(|page| (7, page.as_ref())).collect();
            let mut bytes = encode(&pages);
            let all = |_: &str, _: PropertyKind| true;
            prop_assert!(PageCounts::decode(&bytes, &all).is_some());
            let place = at.index(bytes.len());
            bytes[place] ^= by;
            prop_assert!(PageCounts::decode(&bytes, &all).is_none());
            let _ = PageCounts::decode_checked(&any, &all);
            any.splice(0..0, [1, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 1, 1, b'a', 1]);
            let _ = PageCounts::decode_checked(&any, &all);
        }
    }
}
