//! Rows of one table, mostly of one partition: the unit of a commit.
//!
//! A source of many partitions has a row or two of most of them in what it submits at once. Those are in batches of many
//! partitions ([`Batch::of_many`]): a batch of its own would cost a row more than all else.
//!
//! A batch holds at most [`ROWS_MAX`] entities and [`BYTES_MAX`] bytes, the limits of an entity group transaction, so
//! that a remote store accepts it as it is. Its rows lie in one buffer:
//!
//! ```text
//! row      := property*                        key, level and extents are in `rows`
//! property := name u16 | tag u8 | value        name: index into the batch's own list of names
//! value    := String: length u32, the text itself in `text` | Binary: length u32, bytes
//!           | Int64, Double, DateTime: 8 | Int32: 4 | Guid: 16 | Boolean: in the tag
//!           | a text of several rows: its number in `shared`, 1
//! ```
//!
//! Numbers are little-endian. Only this module reads or writes that layout, and it never reaches a disk.

use crate::field_properties::{field_properties, numbered_name};
use crate::key::{DayTable, RowKey};
use crate::line::SharedLayout;
use crate::property::{Property, PropertyKind, is_same_text, property_name};
use crate::record::Level;
use crate::time::Ticks;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of entities in a batch.
pub const ROWS_MAX: usize = 100;
/// Maximum bytes of a batch.
pub const BYTES_MAX: usize = 4 << 20;

/// Rows of one table in the order of their arrival. The module's head states the limits.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The day-table they go to.
    pub table: DayTable,
    /// Their PartitionKey; empty in a batch of many partitions, where [`Batch::partition_of`] tells it.
    pub partition: Arc<str>,
    many: Option<Box<ManyPartitions>>,
    names: Names,
    rows: Vec<RowEnds>,
    /// Rows that are records, not items.
    records: u32,
    bytes: Vec<u8>,
    text: String,
    /// Layouts that several rows have.
    shared: Vec<KnownLayout>,
}

/// The partitions of a batch of many.
#[derive(Clone, Debug, Default)]
struct ManyPartitions {
    partitions: Vec<Arc<str>>,
    /// The number of each row's partition. A batch has at most 100 records.
    of_rows: Vec<u8>,
    /// The number of the partition of the next rows.
    next: u8,
}

/// A layout that rows have, and the properties of the fields of such rows.
#[derive(Clone, Debug)]
struct KnownLayout {
    layout: Arc<SharedLayout>,
    /// Once a second row has the layout, and if the fields have the properties that the layout names.
    fields: Option<Box<[u16]>>,
}

#[derive(Clone, Copy, Debug)]
struct RowEnds {
    key: RowKey,
    level: Option<Level>,
    bytes_end: u32,
    text_end: u32,
}

/// One row of a batch.
#[derive(Clone, Copy)]
pub struct RowRef<'a> {
    /// Its key.
    pub key: RowKey,
    /// Its level; an item has none.
    pub level: Option<Level>,
    bytes: &'a [u8],
    text: &'a str,
    shared: &'a [KnownLayout],
}

impl Batch {
    /// An empty batch.
    pub fn new(table: DayTable, partition: Arc<str>) -> Batch {
        Batch::with_vocabulary(&Vocabulary::default(), table, partition)
    }

    /// An empty batch that starts with the names of `vocabulary`.
    pub fn with_vocabulary(vocabulary: &Vocabulary, table: DayTable, partition: Arc<str>) -> Batch {
        let names = Names::with_vocabulary(vocabulary);
        Batch {
            table,
            partition,
            many: None,
            names,
            rows: Vec::new(),
            records: 0,
            bytes: Vec::new(),
            text: String::new(),
            shared: Vec::new(),
        }
    }

    /// An empty batch of many partitions. [`Batch::begin_partition`] comes before its first row.
    pub fn of_many(vocabulary: &Vocabulary, table: DayTable) -> Batch {
        Batch { many: Some(Box::default()), ..Batch::with_vocabulary(vocabulary, table, Arc::from("")) }
    }

    /// Whether it is a batch of many partitions.
    pub fn is_of_many(&self) -> bool {
        self.many.is_some()
    }

    /// The rows that follow are of this partition. Returns its number, for [`Batch::continue_partition`]. Only in a batch of
    /// many partitions that has room for a row.
    pub fn begin_partition(&mut self, partition: Arc<str>) -> u8 {
        let Some(many) = &mut self.many else { return 0 };
        many.partitions.push(partition);
        // Each has a record, and a batch at most 100 of those.
        many.next = (many.partitions.len() - 1) as u8;
        many.next
    }

    /// The rows that follow are of the partition with this number.
    pub fn continue_partition(&mut self, number: u8) {
        if let Some(many) = &mut self.many {
            many.next = number;
        }
    }

    /// The partition of the row with this number.
    pub fn partition_of(&self, row: usize) -> &Arc<str> {
        match &self.many {
            Some(many) => &many.partitions[usize::from(many.of_rows[row])],
            None => &self.partition,
        }
    }

    /// The names of this batch. `None` if there are so many that most of them probably occur in one record only.
    pub fn vocabulary(&self) -> Option<Vocabulary> {
        let known = &self.names.known;
        (known.raw.len() <= NAMES_INHERITED).then(|| Vocabulary(known.clone()))
    }

    /// An empty batch that continues this one: it has the same names and as much room.
    pub fn successor(&self) -> Batch {
        let mut next =
            Batch::with_vocabulary(&self.vocabulary().unwrap_or_default(), self.table.clone(), self.partition.clone());
        next.many = self.many.as_ref().map(|_| Box::default());
        next.names.shared = self.names.shared;
        next.rows.reserve(self.rows.len());
        next.bytes.reserve(self.bytes.len() + self.bytes.len() / 8);
        next.text.reserve(self.text.len() + self.text.len() / 8);
        next
    }

    /// Whether `rows` more rows of `bytes` in total stay within the limits. An empty batch accepts any single record.
    pub fn has_room(&self, rows: usize, bytes: usize) -> bool {
        self.rows.is_empty() || self.rows.len() + rows <= ROWS_MAX && self.buffered() + bytes <= BYTES_MAX
    }

    /// Reserves room for the first row, which is often the only one.
    pub fn reserve_first(&mut self, properties: usize, text_bytes: usize) {
        self.rows.reserve_exact(1);
        self.bytes.reserve_exact(properties * PROPERTY_BYTES);
        self.text.reserve_exact(text_bytes);
    }

    /// Number of entities.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Number of records: entities that are not items.
    pub fn records(&self) -> u64 {
        self.records.into()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes of its rows.
    pub fn bytes(&self) -> usize {
        self.buffered() + self.rows.len() * size_of::<RowEnds>()
    }

    fn buffered(&self) -> usize {
        self.bytes.len() + self.text.len()
    }

    /// Bytes of the row with this number, as in [`Batch::bytes`].
    pub fn bytes_of(&self, row: usize) -> usize {
        self.row(row).bytes() + size_of::<RowEnds>()
    }

    /// A copy of this batch without the rows of these keys.
    pub fn without(&self, is_left_out: impl Fn(&RowKey) -> bool) -> Batch {
        let mut kept = Batch::new(self.table.clone(), self.partition.clone());
        let without_rows = |many: &ManyPartitions| ManyPartitions { of_rows: Vec::new(), ..many.clone() };
        kept.many = self.many.as_ref().map(|many| Box::new(without_rows(many)));
        for (number, row) in self.rows().enumerate().filter(|(_, row)| !is_left_out(&row.key)) {
            if let Some(many) = &self.many {
                kept.continue_partition(many.of_rows[number]);
            }
            let mut writer = kept.begin(row.key, row.level);
            for (name, value) in row.properties() {
                if let Some(name) = self.names().get(usize::from(name)) {
                    writer.add(name, value);
                }
            }
            writer.finish();
        }
        kept
    }

    /// The property names that [`RowRef::properties`] refers to.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names.known.properties
    }

    /// The rows in the order of their arrival.
    pub fn rows(&self) -> impl Iterator<Item = RowRef<'_>> {
        (0..self.rows.len()).map(|number| self.row(number))
    }

    /// The row with this number.
    pub fn row(&self, number: usize) -> RowRef<'_> {
        let (row, before) = (&self.rows[number], number.checked_sub(1).map(|before| &self.rows[before]));
        let (bytes, text) = before.map_or((0, 0), |before| (before.bytes_end, before.text_end));
        RowRef {
            key: row.key,
            level: row.level,
            bytes: &self.bytes[bytes as usize..row.bytes_end as usize],
            text: &self.text[text as usize..row.text_end as usize],
            shared: &self.shared,
        }
    }

    /// Begins a row. The properties added until [`RowWriter::finish`] belong to it.
    pub fn begin(&mut self, key: RowKey, level: Option<Level>) -> RowWriter<'_> {
        let row = self.rows.len() as u32 + 1;
        self.names.cursor = 0;
        RowWriter { batch: self, key, level, row }
    }
}

/// Writes one row. Always call [`RowWriter::finish`]: otherwise the properties become part of the next row.
pub struct RowWriter<'b> {
    batch: &'b mut Batch,
    key: RowKey,
    level: Option<Level>,
    row: u32,
}

impl RowWriter<'_> {
    /// Adds a field with any name: [`property_name`] derives the property name. A second field with the same property
    /// name in this row gets the suffix `_2`, `_3`, …; returns false then. [`RowWriter::add_fields`] keeps their names.
    #[inline]
    pub fn add_field(&mut self, name: &str, value: Property<'_>) -> bool {
        let (index, is_plain) = self.batch.names.index(name, self.row);
        self.put(index, value);
        is_plain
    }

    /// Adds fields as [`field_properties`] names them; false if one of them got another property than that of its name
    /// alone.
    #[inline]
    pub fn add_fields<'v>(&mut self, fields: impl Iterator<Item = (&'v str, Property<'v>)> + Clone) -> bool {
        let start = (self.batch.bytes.len(), self.batch.text.len());
        for (name, value) in fields.clone() {
            let (index, is_plain) = self.batch.names.index(name, self.row);
            if !is_plain {
                self.add_fields_apart(start, fields);
                return false;
            }
            self.put(index, value);
        }
        true
    }

    /// Replaces the fields from `start` on by fields whose names collide.
    #[cold]
    fn add_fields_apart<'n, 'v>(
        &mut self,
        start: (usize, usize),
        fields: impl Iterator<Item = (&'n str, Property<'v>)> + Clone,
    ) -> Vec<u16> {
        self.batch.bytes.truncate(start.0);
        self.batch.text.truncate(start.1);
        let properties = field_properties(fields.clone().map(|(name, _)| name));
        let put = |(property, (_, value)): (&str, (&str, Property<'v>))| {
            let index = self.batch.names.property(property);
            self.batch.names.used[usize::from(index)] = self.row;
            self.put(index, value);
            index
        };
        properties.iter().map(|property| &**property).zip(fields).map(put).collect()
    }

    /// Adds the fields of a record whose layout names them; false if one of them got another property than the layout
    /// says. `apart` names properties of rows that are not fields.
    ///
    /// Rows with the same layout have the same fields, so the names are looked up for the first rows only.
    #[inline]
    pub fn add_named_fields<'v>(
        &mut self,
        layout: &Arc<SharedLayout>,
        names: &[Box<str>],
        values: impl ExactSizeIterator<Item = Property<'v>> + Clone,
        apart: &[&str],
    ) -> bool {
        debug_assert_eq!(names.len(), values.len());
        let known = self.batch.shared.iter().rposition(|known| Arc::ptr_eq(&known.layout, layout));
        if let Some(number) = known
            && let Some(fields) = self.batch.shared[number].fields.take()
        {
            fields.iter().zip(values).for_each(|(index, value)| self.put(*index, value));
            self.batch.shared[number].fields = Some(fields);
            return true;
        }
        let start = (self.batch.bytes.len(), self.batch.text.len());
        let mut fields = Vec::with_capacity(if known.is_some() { names.len() } else { 0 });
        let mut keeps_names = layout.numbered().is_empty();
        for (name, value) in names.iter().zip(values.clone()) {
            let (index, is_plain) = self.batch.names.index(name, self.row);
            if !is_plain {
                fields = self.add_fields_apart(start, names.iter().map(|name| &**name).zip(values));
                let given = fields.iter().map(|index| &*self.batch.names()[usize::from(*index)]);
                keeps_names = given.eq(layout.numbered().iter().map(|name| &**name));
                break;
            }
            self.put(index, value);
            if known.is_some() {
                fields.push(index);
            }
        }
        if let Some(number) = known.filter(|_| keeps_names) {
            // Whether those have a name before a field may differ from row to row.
            if !names.iter().any(|name| apart.contains(&&*property_name(name))) {
                self.batch.shared[number].fields = Some(fields.into());
            }
        }
        keeps_names
    }

    /// Adds a layout that many rows share, by its exact name. The batch holds the layout once.
    #[inline]
    pub fn add_shared(&mut self, name: &str, layout: &Arc<SharedLayout>) {
        let index = self.batch.names.shared(name);
        self.batch.names.used[usize::from(index)] = self.row;
        let shared = &mut self.batch.shared;
        let is_same = |known: &KnownLayout| Arc::ptr_eq(&known.layout, layout);
        let number = shared.iter().rposition(is_same).unwrap_or_else(|| {
            shared.push(KnownLayout { layout: layout.clone(), fields: None });
            shared.len() - 1
        });
        // A batch has at most 100 rows.
        let piece = u128::from(index) | u128::from(SHARED) << 16 | (number as u128) << 24;
        put_piece::<4>(&mut self.batch.bytes, piece);
    }

    /// Adds a property by its exact name, which must be valid and new in this row.
    #[inline]
    pub fn add(&mut self, name: &str, value: Property<'_>) {
        let index = self.batch.names.property(name);
        self.batch.names.used[usize::from(index)] = self.row;
        self.put(index, value);
    }

    // Inlined: a property that is passed on is written to memory and read back at another width.
    #[inline(always)]
    fn put(&mut self, index: u16, value: Property<'_>) {
        let bytes = &mut self.batch.bytes;
        let tag = value.kind() as u8 | if matches!(value, Property::Boolean(true)) { TRUE } else { 0 };
        let head = u128::from(index) | u128::from(tag) << 16;
        let with = |value: u64| head | u128::from(value) << 24;
        // A line is at most 2 MiB, so no value comes near 4 GiB.
        let with_length = |value: &[u8]| with(u64::from(value.len() as u32));
        match value {
            Property::String(text) => {
                put_piece::<7>(bytes, with_length(text.as_bytes()));
                self.batch.text.push_str(text);
            }
            Property::Int64(n) => put_piece::<11>(bytes, with(n.cast_unsigned())),
            Property::Double(n) => put_piece::<11>(bytes, with(n.to_bits())),
            Property::DateTime(time) => put_piece::<11>(bytes, with(time.get().cast_unsigned())),
            Property::Int32(n) => put_piece::<7>(bytes, with(n.cast_unsigned().into())),
            Property::Boolean(_) => put_piece::<3>(bytes, head),
            Property::Guid(guid) => {
                put_piece::<3>(bytes, head);
                bytes.extend_from_slice(&guid);
            }
            Property::Binary(binary) => {
                put_piece::<7>(bytes, with_length(binary));
                bytes.extend_from_slice(binary);
            }
        }
    }

    /// Ends the row.
    pub fn finish(self) {
        // Both buffers stay near `BYTES_MAX`: a record has at most 2 MiB, and a record without room begins another
        // batch.
        let (bytes_end, text_end) = (self.batch.bytes.len() as u32, self.batch.text.len() as u32);
        self.batch.records += u32::from(self.key.item() == 0);
        self.batch.rows.push(RowEnds { key: self.key, level: self.level, bytes_end, text_end });
        if let Some(many) = &mut self.batch.many {
            many.of_rows.push(many.next);
        }
    }
}

const TRUE: u8 = 0x80;
/// The tag of a shared text; its number follows.
const SHARED: u8 = 0x40;
/// Maximum bytes of a property without its text, except those of a Guid or Binary.
const PROPERTY_BYTES: usize = 11;

/// Appends the lowest `N` bytes of a number in one piece, because this runs for every field of every record.
#[inline(always)]
fn put_piece<const N: usize>(bytes: &mut Vec<u8>, piece: u128) {
    bytes.extend_from_slice(&piece.to_le_bytes()[..N]);
}

impl<'a> RowRef<'a> {
    /// The properties with the index of their name, in the order in which they were added.
    pub fn properties(&self) -> Properties<'a> {
        Properties { bytes: self.bytes, text: self.text, shared: self.shared }
    }

    /// Bytes of its properties.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.text.len()
    }
}

/// Iterates over the properties of a row.
pub struct Properties<'a> {
    bytes: &'a [u8],
    text: &'a str,
    shared: &'a [KnownLayout],
}

impl<'a> Properties<'a> {
    #[inline]
    fn read<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*head)
    }

    #[inline]
    fn text(&mut self) -> Option<&'a str> {
        let length = u32::from_le_bytes(self.read()?) as usize;
        let (head, rest) = self.text.split_at_checked(length)?;
        self.text = rest;
        Some(head)
    }

    fn binary(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.read()?) as usize;
        let (head, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(head)
    }
}

impl<'a> Iterator for Properties<'a> {
    type Item = (u16, Property<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let name = u16::from_le_bytes(self.read()?);
        let [tag] = self.read()?;
        if tag == SHARED {
            let [number] = self.read()?;
            return Some((name, Property::String(&self.shared.get(usize::from(number))?.layout)));
        }
        let value = match PropertyKind::from_code(tag & !TRUE)? {
            PropertyKind::String => Property::String(self.text()?),
            PropertyKind::Binary => Property::Binary(self.binary()?),
            PropertyKind::Int64 => Property::Int64(i64::from_le_bytes(self.read()?)),
            PropertyKind::Double => Property::Double(f64::from_le_bytes(self.read()?)),
            PropertyKind::DateTime => Property::DateTime(Ticks::new(i64::from_le_bytes(self.read()?))?),
            PropertyKind::Int32 => Property::Int32(i32::from_le_bytes(self.read()?)),
            PropertyKind::Guid => Property::Guid(self.read()?),
            PropertyKind::Boolean => Property::Boolean(tag & TRUE != 0),
        };
        Some((name, value))
    }
}

/// Names that a batch starts with, because most records resemble those before them. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary(Arc<NameTable>);

impl Vocabulary {
    /// Whether it has no names.
    pub fn is_empty(&self) -> bool {
        self.0.properties.is_empty()
    }

    /// Whether both are the same allocation.
    pub fn is_same(&self, other: &Vocabulary) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The names of a batch. Records of one source have the same fields in the same order, so the name that followed last
/// time is tried first: one comparison a field.
#[derive(Clone, Debug)]
struct Names {
    /// Shared with other batches until a name is new.
    known: Arc<NameTable>,
    /// The last row that used the property, counted from 1.
    used: Vec<u32>,
    cursor: usize,
    /// The property of the last shared text, which is the same in most rows.
    shared: u16,
}

#[derive(Clone, Debug, Default)]
struct NameTable {
    properties: Vec<Arc<str>>,
    /// Every field name with its property, in the order of first occurrence.
    raw: Vec<(Arc<str>, u16)>,
    /// Index of `raw` by name, used once a linear search is slower.
    by_raw: HashMap<Arc<str>, u32, foldhash::quality::RandomState>,
}

/// Number of names up to which a linear search is faster than a hash.
const SEARCHED: usize = 16;
/// Maximum number of names that a batch passes to its successor. With more, most of them probably occur in one record
/// only.
const NAMES_INHERITED: usize = 64;

impl Names {
    fn with_vocabulary(Vocabulary(known): &Vocabulary) -> Names {
        Names { known: known.clone(), used: vec![0; known.properties.len()], cursor: 0, shared: 0 }
    }

    #[inline(always)]
    fn index(&mut self, raw: &str, row: u32) -> (u16, bool) {
        let property = match self.known.raw.get(self.cursor) {
            Some((name, property)) if is_same_text(name.as_bytes(), raw.as_bytes()) => {
                self.cursor += 1;
                *property
            }
            _ => self.look_up(raw),
        };
        match self.used.get_mut(usize::from(property)) {
            Some(used) if *used != row => {
                *used = row;
                (property, true)
            }
            _ => (self.numbered(property, row), false),
        }
    }

    /// Finds the property of a name that does not follow in the usual order.
    #[inline(never)]
    fn look_up(&mut self, raw: &str) -> u16 {
        let at = self.known.find(raw).unwrap_or_else(|| self.add(raw));
        self.cursor = at + 1;
        self.known.raw[at].1
    }

    fn add(&mut self, raw: &str) -> usize {
        let property = self.property(&property_name(raw));
        Arc::make_mut(&mut self.known).add(raw, property)
    }

    #[inline]
    fn property(&mut self, name: &str) -> u16 {
        let properties = &self.known.properties;
        let at =
            properties.iter().position(|known| is_same_text(known.as_bytes(), name.as_bytes())).unwrap_or_else(|| {
                self.used.push(0);
                Arc::make_mut(&mut self.known).properties.push(name.into());
                self.used.len() - 1
            });
        // 100 rows of 252 properties have at most 25,200 names.
        at as u16
    }

    #[inline]
    fn shared(&mut self, name: &str) -> u16 {
        let last = self.known.properties.get(usize::from(self.shared));
        if last.is_none_or(|last| !is_same_text(last.as_bytes(), name.as_bytes())) {
            self.shared = self.property(name);
        }
        self.shared
    }

    /// Finds a numbered property name, because this row already uses the plain one.
    #[cold]
    fn numbered(&mut self, taken: u16, row: u32) -> u16 {
        let name = self.known.properties[usize::from(taken)].clone();
        for n in 2.. {
            let property = self.property(&numbered_name(&name, n));
            if self.used[usize::from(property)] != row {
                self.used[usize::from(property)] = row;
                return property;
            }
        }
        taken
    }
}

impl NameTable {
    fn find(&self, raw: &str) -> Option<usize> {
        if self.raw.len() <= SEARCHED {
            self.raw.iter().position(|(name, _)| **name == *raw)
        } else {
            self.by_raw.get(raw).map(|&at| at as usize)
        }
    }

    fn add(&mut self, raw: &str, property: u16) -> usize {
        self.raw.push((raw.into(), property));
        if self.raw.len() == SEARCHED + 1 {
            self.by_raw = self.raw.iter().zip(0..).map(|((name, _), at)| (name.clone(), at)).collect();
        } else if self.raw.len() > SEARCHED {
            self.by_raw.insert(raw.into(), self.raw.len() as u32 - 1);
        }
        self.raw.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Period, TableName};
    use crate::property::OwnedValue;
    use proptest::prelude::*;

    fn batch() -> Batch {
        let table = DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, Ticks::UNIX_EPOCH);
        Batch::new(table, "web".into())
    }

    #[test]
    fn fields_that_collide_are_both_kept() {
        let mut batch = batch();
        for n in 0..2 {
            let mut row = batch.begin(RowKey::new(Ticks::UNIX_EPOCH, 1, n), None);
            for (name, value) in [("a.b", 1), ("a_b", 2), ("a_b", 3), ("a_b_2", 4)] {
                row.add_field(name, Property::Int64(value));
            }
            row.finish();
        }
        for row in batch.rows() {
            let got: Vec<_> = row.properties().map(|(name, value)| (&*batch.names()[name as usize], value)).collect();
            let names: std::collections::HashSet<_> = got.iter().map(|(name, _)| *name).collect();
            assert_eq!(names.len(), 4, "{got:?}");
            assert_eq!(got[0], ("a_b", Property::Int64(1)));
            assert_eq!(got.iter().map(|g| g.1).collect::<Vec<_>>(), [1, 2, 3, 4].map(Property::Int64));
        }
    }

    fn property() -> impl Strategy<Value = (String, OwnedValue)> {
        let value = prop_oneof![
            ".{0,20}".prop_map(OwnedValue::String),
            any::<i64>().prop_map(OwnedValue::Int64),
            any::<bool>().prop_map(OwnedValue::Boolean),
            any::<i32>().prop_map(OwnedValue::Int32),
            proptest::collection::vec(any::<u8>(), 0..20).prop_map(OwnedValue::Binary),
        ];
        ("[a-z]{1,3}", value)
    }

    proptest! {
        /// The properties of fields are foretold, whatever their names are.
        #[test]
        fn the_properties_of_fields_are_foretold(
            names in proptest::collection::vec("(a|a[._]b|Message|Source|Layout)(_2|_3|#2)?|[ab]{250,260}", 0..12),
            has_message in any::<bool>(),
        ) {
            let mut batch = batch();
            for _ in 0..2 {
                let mut row = batch.begin(RowKey::new(Ticks::UNIX_EPOCH, 1, 1), None);
                row.add("Source", Property::String("s"));
                if has_message {
                    row.add("Message", Property::String("m"));
                }
                row.add_fields(names.iter().map(|name| (name.as_str(), Property::String(name))));
                row.add("Verbatim", Property::String("v"));
                row.finish();
            }
            let foretold = field_properties(names.iter().map(String::as_str));
            for fields in batch.rows() {
                let given: Vec<(&str, Property<'_>)> = fields
                    .properties()
                    .skip(1 + usize::from(has_message))
                    .map(|(name, value)| (&*batch.names()[usize::from(name)], value))
                    .collect();
                let expected = foretold.iter().zip(&names).map(|(property, name)| (&**property, Property::String(name)));
                let expected: Vec<_> = expected.chain([("Verbatim", Property::String("v"))]).collect();
                prop_assert_eq!(given, expected);
            }
        }

        /// Rows of many partitions come out with theirs, also of a copy without some of them.
        #[test]
        fn rows_of_many_partitions_round_trip(of in proptest::collection::vec(0_u8..9, 0..100)) {
            let mut batch = Batch::of_many(&Vocabulary::default(), batch().table);
            let mut numbers = HashMap::new();
            for (at, partition) in of.iter().enumerate() {
                match numbers.get(partition) {
                    Some(number) => batch.continue_partition(*number),
                    None => drop(numbers.insert(*partition, batch.begin_partition(partition.to_string().into()))),
                }
                let mut row = batch.begin(RowKey::new(Ticks::UNIX_EPOCH, 7, at as u64), None);
                row.add_field("n", Property::Int64(at as i64));
                row.add_field("text", Property::String(&"x".repeat(at)));
                row.finish();
            }
            let is_left_out = |key: &RowKey| key.position().is_multiple_of(3);
            for (batch, without) in [(&batch, false), (&batch.without(is_left_out), true)] {
                let kept = of.iter().enumerate().filter(|(at, _)| !without || at % 3 != 0);
                let mut rows = batch.rows().enumerate();
                for (at, partition) in kept {
                    let (number, row) = rows.next().expect("a row");
                    prop_assert_eq!(&**batch.partition_of(number), partition.to_string());
                    prop_assert_eq!(row.key.position(), at as u64);
                    let values: Vec<_> = batch.row(number).properties().map(|(_, value)| value).collect();
                    let text = "x".repeat(at);
                    prop_assert_eq!(values, [Property::Int64(at as i64), Property::String(&text)]);
                }
                prop_assert!(rows.next().is_none());
                let bytes: usize = (0..batch.len()).map(|row| batch.bytes_of(row)).sum();
                prop_assert_eq!(bytes, batch.bytes());
            }
            prop_assert!(batch.successor().is_of_many() && batch.successor().is_empty());
        }

        /// Names compare equal exactly if their bytes are equal, at every length.
        #[test]
        fn names_are_compared_whole(a in "[ab]{0,20}", b in "[ab]{0,20}", at in 0usize..20) {
            prop_assert_eq!(is_same_text(a.as_bytes(), b.as_bytes()), a == b);
            prop_assert!(is_same_text(a.as_bytes(), a.clone().as_bytes()));
            let mut other = a.clone().into_bytes();
            if let Some(byte) = other.get_mut(at) {
                *byte ^= 1;
                prop_assert!(!is_same_text(a.as_bytes(), &other));
            }
        }

        /// Rows come out of a batch as they were put in, in order, and no name occurs twice in a row.
        #[test]
        fn rows_round_trip(rows in proptest::collection::vec(proptest::collection::vec(property(), 0..40), 0..8)) {
            let mut batch = batch();
            for (at, row) in rows.iter().enumerate() {
                let mut writer = batch.begin(RowKey::new(Ticks::UNIX_EPOCH, 7, at as u64), Some(Level::Info));
                for (name, value) in row { writer.add_field(name, value.as_property()); }
                writer.finish();
            }
            prop_assert_eq!(batch.len(), rows.len());
            for (at, (got, row)) in batch.rows().zip(&rows).enumerate() {
                prop_assert_eq!(got.key.position(), at as u64);
                let got: Vec<_> = got.properties().collect();
                prop_assert_eq!(got.len(), row.len());
                let mut seen = std::collections::HashSet::new();
                for ((name, value), (want_name, want)) in got.iter().zip(row) {
                    prop_assert_eq!(value, &want.as_property());
                    let name = &batch.names()[usize::from(*name)];
                    prop_assert!(name.starts_with(want_name.as_str()));
                    prop_assert!(seen.insert(name.clone()));
                }
            }
        }
    }
}
