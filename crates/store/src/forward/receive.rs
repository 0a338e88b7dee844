//! Pages that arrived become rows of this folder.
//!
//! Values, layouts and their types stay as they are. Keys get the name of the sender into them ([`SenderKeys`]), so no host has the
//! key of a record of another one, whatever it sends. Each record gets the field `log_host`, the name of its sender,
//! and `host` as well where it has none. A record that has a field `log_host` of its own keeps it as `log_host#2`, and its
//! layout then names that field.
//!
//! A large page whose rows all go to one table becomes a page here without its rows, where nothing is looked for
//! ([`received_page`]). All other pages become rows in batches.
//!
//! A sender may be anything that has a credential. So each page is checked and bounded as bytes from outside are: a name that is
//! no property's, or that a row has twice, is an error and never a row.
//!
//! Which table a row goes to is a matter of the configuration, which changes. So a row is looked for in the other tables of its time
//! that have rows of the host as well ([`Existing`]), and stays where it is.

use super::received_page::{self, PROPERTIES_MAX, ReceivedPage};
use super::wire::{BodyError, WireOwner, WirePage};
use crate::StoreError;
use crate::format::catalog::{DayState, LiveFile};
use crate::format::page::{self, FULL_BYTES, Page, WholePage};
use crate::read::{Range, Reader, Row};
use daytable_model::batch::Batch;
use daytable_model::field_properties::property_again;
use daytable_model::key::{DayTable, Period, RowKey, TableName};
use daytable_model::line::{LAYOUT, renamed_layout};
use daytable_model::property::{PROPERTY_NAME_UNITS_MAX, Property};
use daytable_model::record::Level;
use daytable_model::sender_keys::SenderKeys;
use daytable_model::time::Ticks;
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The field with the name of the sender.
use daytable_model::column_name::HOST;
pub use daytable_model::column_name::LOG_HOST;

/// Why pages do not become rows.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The body is damaged, or its sender does not keep to the rules.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// This folder cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Rows of a request.
#[derive(Debug, Default)]
pub struct ReceivedRows {
    /// All rows but those of `pages`.
    pub batches: Vec<Batch>,
    /// Pages that were made without their rows.
    pub pages: Vec<ReceivedPage>,
    /// Records in them.
    pub records: u64,
    /// Records whose day is gone here.
    pub expired: u64,
    /// Records that were here already, by key and content.
    pub known: u64,
}

impl ReceivedRows {
    /// The time of the newest row.
    pub fn newest(&self) -> Option<Ticks> {
        let of_batches = self.batches.iter().flat_map(|batch| batch.rows().map(|row| row.key.time())).max();
        of_batches.max(self.pages.iter().map(ReceivedPage::newest).max())
    }
}

/// Where the rows of a sender's day-table go, by their key; `None` if that day is gone.
pub type PlaceOf<'a> = &'a dyn Fn(&DayTable, RowKey) -> Option<DayTable>;

/// Where all rows of a sender's day-table go, if they go to one table.
pub type DayOf<'a> = &'a dyn Fn(&DayTable) -> Option<DayTable>;

/// Which rows that are here are looked for before a row is stored.
#[derive(Clone, Copy)]
pub enum Existing<'a> {
    /// None: an equal key replaces in the table that the row goes to.
    Unread,
    /// Those of other tables than the one that the row goes to, which are these, if they have rows of the host.
    Elsewhere(&'a Reader, &'a [StoredTable], HasRows<'a>),
    /// All: rows are compared.
    All(&'a Reader),
}

/// Whether a table has records of the host.
pub type HasRows<'a> = &'a dyn Fn(&DayTable) -> Result<bool, StoreError>;

/// What a host is called.
#[derive(Clone, Copy, Debug)]
pub struct SenderName<'a> {
    /// The name of now, which its records get.
    pub log_host: &'a str,
    /// The one in its keys: that of before stays, so that records which come again are those that are here.
    pub in_keys: &'a str,
}

impl<'a> From<&'a str> for SenderName<'a> {
    fn from(name: &'a str) -> SenderName<'a> {
        SenderName { log_host: name, in_keys: name }
    }
}

/// Turns pages into rows.
pub struct Receiver<'a> {
    log_host: &'a str,
    sender_keys: SenderKeys,
    place_of: PlaceOf<'a>,
    day_of: DayOf<'a>,
    /// Rows that are here already are left out.
    existing: Existing<'a>,
    /// The tables here, with the times of their rows, once they are needed.
    tables: Option<Vec<StoredTable>>,
    /// The record whose rows were looked for last, the table that it is in, and whether it was left out.
    record: Option<(RowKey, DayTable, bool)>,
    /// Keys that have another content here, and in an earlier page: the row that is here counts no more.
    replaced: HashSet<(DayTable, Arc<str>, RowKey)>,
    open: OpenBatches,
    /// Raw bytes from which a page is made of one that arrived, without its rows.
    whole_from: usize,
    rows: ReceivedRows,
}

/// A row of a page, as it is received.
#[derive(Clone, Copy)]
struct IncomingRow<'r> {
    /// The table that it goes to, by the configuration.
    table: &'r DayTable,
    partition: &'r Arc<str>,
    key: RowKey,
    /// The oldest and the newest time of the rows of its page and partition.
    times: (Ticks, Ticks),
    level: Option<Level>,
    properties: &'r [(&'r str, Property<'r>)],
}

impl IncomingRow<'_> {
    /// Whether it is the first row of a record.
    fn is_record(&self) -> bool {
        self.key.item() == 0
    }
}

/// A batch for each table and partition.
#[derive(Default)]
struct OpenBatches {
    batches: Vec<Batch>,
    numbers: HashMap<(DayTable, Arc<str>), usize>,
    /// The number of the last one: the rows of a page mostly go to one.
    last: usize,
}

impl OpenBatches {
    fn of(&mut self, table: &DayTable, partition: &Arc<str>) -> &mut Batch {
        let is_it = |batch: &Batch| batch.partition == *partition && batch.table == *table;
        if !self.batches.get(self.last).is_some_and(is_it) {
            let batches = &mut self.batches;
            self.last = *self.numbers.entry((table.clone(), partition.clone())).or_insert_with(|| {
                batches.push(Batch::new(table.clone(), partition.clone()));
                batches.len() - 1
            });
        }
        &mut self.batches[self.last]
    }

    /// The rows so far of a table and partition, if one of them has a key of this range.
    fn close(&mut self, (table, partition): (&DayTable, &Arc<str>), keys: RangeInclusive<RowKey>) -> Option<Batch> {
        let number = *self.numbers.get(&(table.clone(), partition.clone()))?;
        let batch = &mut self.batches[number];
        let has_key = batch.rows().any(|row| keys.contains(&row.key));
        has_key.then(|| {
            let next = batch.successor();
            std::mem::replace(batch, next)
        })
    }
}

impl<'a> Receiver<'a> {
    /// A receiver of pages of the host with this name.
    pub fn new(sender: impl Into<SenderName<'a>>, place_of: PlaceOf<'a>, existing: Existing<'a>) -> Receiver<'a> {
        let SenderName { log_host, in_keys } = sender.into();
        let sender_keys = SenderKeys::of(in_keys);
        let (replaced, open, rows) = (HashSet::new(), OpenBatches::default(), ReceivedRows::default());
        let (day_of, whole_from): (DayOf<'_>, _) = (&|_| None, FULL_BYTES as usize);
        let (tables, record) = (None, None);
        Receiver { log_host, sender_keys, place_of, day_of, existing, tables, record, replaced, open, whole_from, rows }
    }

    /// The same with what spares a look at each row.
    pub fn with_days(self, day_of: DayOf<'a>) -> Receiver<'a> {
        Receiver { day_of, ..self }
    }

    /// The same, where pages of other sizes are made without their rows than those that compaction leaves alone.
    pub fn with_whole_from(self, whole_from: usize) -> Receiver<'a> {
        Receiver { whole_from, ..self }
    }

    /// Adds the rows of a page.
    ///
    /// # Errors
    ///
    /// The page is damaged, or has rows that no daytable writes.
    pub fn add(&mut self, wire: &WirePage) -> Result<(), ReceiveError> {
        let whole = wire.decode()?;
        let page = whole.page();
        let ambiguous = check_names(page)?;
        // A decoded page has keys.
        let keys: Vec<RowKey> = page.keys().iter().map(|key| self.sender_keys.key(*key)).collect();
        if ambiguous.is_empty() && self.add_whole(wire, &whole, &keys) {
            return Ok(());
        }
        let key_of = |row: usize| keys.get(row).map(|key| (*key, row));
        match &wire.owner {
            WireOwner::One(partition) => {
                self.add_rows(wire, page, (0..page.len()).map(key_of).collect(), partition, &ambiguous)
            }
            WireOwner::Many(_, names) => {
                let mut rows = vec![Vec::new(); names.len()];
                page.each_owner(|row, owner| rows[owner].push(key_of(row)));
                names.iter().zip(rows).try_for_each(|(partition, rows)| {
                    self.add_rows(wire, page, rows.into_iter().collect(), partition, &ambiguous)
                })
            }
        }
    }

    /// Adds a page without its rows. False if they have to be looked at one by one.
    fn add_whole(&mut self, wire: &WirePage, whole: &WholePage<'_>, keys: &[RowKey]) -> bool {
        let (WireOwner::One(partition), Existing::Unread) = (&wire.owner, self.existing) else { return false };
        if (wire.raw_bytes() as usize) < self.whole_from {
            return false;
        }
        let Some(table) = (self.day_of)(&wire.table) else { return false };
        let Some(page) = received_page::of_host(whole, keys, self.log_host, self.whole_from) else { return false };
        // Of equal keys the later row counts.
        let keys = page.header.first..=page.header.last;
        self.rows.batches.extend(self.open.close((&table, partition), keys));
        let (partition, after) = (partition.clone(), self.rows.batches.len());
        let received = ReceivedPage { table, partition, after, page };
        self.rows.records += received.records();
        self.rows.pages.push(received);
        true
    }

    fn add_rows(
        &mut self,
        wire: &WirePage,
        page: &Page,
        rows: Option<Vec<(RowKey, usize)>>,
        partition: &Arc<str>,
        ambiguous: &HashSet<String>,
    ) -> Result<(), ReceiveError> {
        let mut rows = rows.ok_or_else(|| BodyError::Damaged("a row has no key".into()))?;
        // They are in this order, but where sources of one time have other hashes here.
        rows.sort_by_key(|(key, _)| *key);
        let (Some((newest, _)), Some((oldest, _))) = (rows.first(), rows.last()) else { return Ok(()) };
        let times = (oldest.time(), newest.time());
        let mut known: Option<KnownRows<'a>> = None;
        let day_of_all = (self.day_of)(&wire.table);
        // The record of the last row, and where it goes: the rows of a record stay together.
        let mut place: Option<(RowKey, Option<DayTable>)> = None;
        let mut properties: Vec<(&str, Property<'_>)> = Vec::new();
        for (key, row) in rows {
            let (is_record, record) = (key.item() == 0, key.with_item(0));
            if day_of_all.is_none() && place.as_ref().is_none_or(|(of, _)| *of != record) {
                place = Some((record, (self.place_of)(&wire.table, key)));
            }
            let Some(table) = day_of_all.as_ref().or(place.as_ref().and_then(|(_, table)| table.as_ref())) else {
                self.rows.expired += u64::from(is_record);
                continue;
            };
            properties.clear();
            properties.extend(page.properties(row));
            if properties.len() > PROPERTIES_MAX {
                return Err(BodyError::Damaged("a row has too many properties".into()).into());
            }
            if !ambiguous.is_empty() {
                let mut seen = HashSet::new();
                if !properties.iter().all(|(name, _)| !ambiguous.contains(*name) || seen.insert(*name)) {
                    return Err(BodyError::Damaged("a row has a property twice".into()).into());
                }
            }
            let log_host = self.log_host;
            as_received(&mut properties, log_host, is_record, |properties| {
                let row = IncomingRow { table, partition, key, times, level: page.level(row), properties };
                self.add_row(&row, &mut known)
            })?;
        }
        Ok(())
    }

    fn add_row(&mut self, row: &IncomingRow<'_>, known: &mut Option<KnownRows<'a>>) -> Result<(), StoreError> {
        match self.existing {
            Existing::Unread => self.write(row, row.table),
            Existing::Elsewhere(..) | Existing::All(_) => match self.look_up(row, known)? {
                Some(table) => self.write(row, &table),
                None => return Ok(()),
            },
        }
        self.rows.records += u64::from(row.is_record());
        Ok(())
    }

    /// The table that a row goes to, by what is here of it; `None` if it is here already.
    fn look_up(
        &mut self,
        row: &IncomingRow<'_>,
        known: &mut Option<KnownRows<'a>>,
    ) -> Result<Option<DayTable>, StoreError> {
        let IncomingRow { partition, key, times, level, properties, .. } = *row;
        let is_record = row.is_record();
        let mut place = row.table.clone();
        // The rows of a record are in one table.
        let of_record = self.record.as_ref().filter(|(record, ..)| !is_record && *record == key.with_item(0));
        let of_record = of_record.map(|(_, table, is_known)| (table.clone(), *is_known));
        // Rows of other tables are found by their first one.
        if let (Existing::Elsewhere(..), Some((table, is_known))) = (self.existing, &of_record) {
            return Ok((!is_known).then(|| table.clone()));
        }
        if known.as_ref().is_none_or(|known| known.table != place) {
            *known = Some(self.known_rows(&place, partition, (times.0, key.time()))?);
        }
        let only = of_record.as_ref().map(|(table, _)| table);
        let found = match known.as_mut() {
            Some(known) => known.find(key, level, properties, (self.log_host, only))?,
            None => KnownRow::Absent,
        };
        match (&found, only) {
            (KnownRow::Same(table) | KnownRow::Other(table), _) | (KnownRow::Absent, Some(table)) => {
                place = table.clone();
            }
            (KnownRow::Absent, None) => {}
        }
        let of_key = (place.clone(), partition.clone(), key);
        let is_known = matches!(found, KnownRow::Same(_)) && !self.replaced.contains(&of_key);
        if is_record {
            self.record = Some((key, place.clone(), is_known));
        }
        if is_known {
            self.rows.known += u64::from(is_record);
            return Ok(None);
        }
        if matches!(found, KnownRow::Other(_)) {
            self.replaced.insert(of_key);
        }
        Ok(Some(place))
    }

    /// The rows that are here of the times of a page, in the table that they go to now and in others.
    fn known_rows(
        &mut self,
        table: &DayTable,
        partition: &Arc<str>,
        (oldest, newest): (Ticks, Ticks),
    ) -> Result<KnownRows<'a>, StoreError> {
        let range = Range { partitions: Some(vec![partition.to_string()]), from: oldest, to: newest, ..Range::all() };
        match self.existing {
            Existing::Unread => Ok(KnownRows { table: table.clone(), scans: Vec::new() }),
            Existing::Elsewhere(reader, tables, has_rows) => {
                let (mut others, times) = (Vec::new(), (oldest, newest));
                for other in tables.iter().filter(|o| o.may_have_moved(table.table(), table.period(), times)) {
                    if has_rows(&other.table)? {
                        others.push(&other.table);
                    }
                }
                // A search skips what surely has none of its records.
                KnownRows::of(reader, table, others, &Range { contains: Some(self.log_host.to_owned()), ..range })
            }
            Existing::All(reader) => {
                let tables = match &mut self.tables {
                    Some(tables) => tables,
                    unread => unread.insert(stored_tables(reader, Ticks::MIN)?),
                };
                let others = tables.iter().filter(|other| other.may_have(table, (oldest, newest)));
                let all = std::iter::once(table).chain(others.map(|other| &other.table)).collect();
                KnownRows::of(reader, table, all, &range)
            }
        }
    }

    /// Adds a row to those of a table.
    fn write(&mut self, row: &IncomingRow<'_>, table: &DayTable) {
        let IncomingRow { partition, key, level, properties, .. } = *row;
        let bytes: usize = properties.iter().map(|(_, value)| 16 + length(value)).sum();
        let items = properties.iter().find_map(|(name, value)| match (*name, value) {
            ("Items", Property::Int32(items)) => usize::try_from(*items).ok(),
            _ => None,
        });
        let batch = self.open.of(table, partition);
        // All rows of a record are in one batch, as their source wrote them.
        let rows = 1 + items.unwrap_or(0).min(usize::from(daytable_model::key::ITEMS_MAX));
        if key.item() == 0 && !batch.has_room(rows, bytes) {
            let next = batch.successor();
            self.rows.batches.push(std::mem::replace(batch, next));
        }
        let mut writer = batch.begin(key, level);
        for (name, value) in properties {
            writer.add(name, *value);
        }
        writer.finish();
    }

    /// All rows.
    pub fn finish(self) -> ReceivedRows {
        // The thread waits for the commit now, as those of other hosts do.
        page::release_memory();
        let Receiver { open, mut rows, .. } = self;
        rows.batches.extend(open.batches.into_iter().filter(|batch| !batch.is_empty()));
        rows
    }
}

fn length(value: &Property<'_>) -> usize {
    match value {
        Property::String(text) => text.len(),
        Property::Binary(bytes) => bytes.len(),
        _ => 16,
    }
}

/// Checks the names of all columns. Returns those that two columns have: a row may have only one of them.
fn check_names(page: &Page) -> Result<HashSet<String>, BodyError> {
    let (mut seen, mut ambiguous) = (HashSet::new(), HashSet::new());
    for column in page.columns() {
        let name = column.name();
        if !is_property_name(name) {
            return Err(BodyError::Damaged("a property has an invalid name".into()));
        }
        if !seen.insert(name) {
            ambiguous.insert(name.to_owned());
        }
    }
    Ok(ambiguous)
}

fn is_property_name(name: &str) -> bool {
    name.starts_with(|c: char| c == '_' || c.is_alphabetic())
        && name.chars().all(|c| c == '_' || c.is_alphabetic() || c.is_ascii_digit())
        && name.encode_utf16().count() <= PROPERTY_NAME_UNITS_MAX
}

/// Passes the properties of a row as they are received of a host: those of a record with its name, and a field `log_host` of
/// its own under another one.
pub(super) fn as_received<'p, T>(
    properties: &mut Vec<(&'p str, Property<'p>)>,
    log_host: &'p str,
    is_record: bool,
    pass: impl FnOnce(&[(&str, Property<'_>)]) -> T,
) -> T {
    let Some(own) = rename_own(properties) else {
        add_names(properties, log_host, is_record);
        return pass(properties);
    };
    let layout = layout_of_own(properties, &own);
    let mut renamed: Vec<(&str, Property<'_>)> =
        properties.iter().filter(|(name, _)| *name != LOG_HOST).copied().collect();
    renamed.push((&own.name, own.value()));
    if let Some(layout) = &layout {
        let layouts = renamed.iter_mut().filter(|(name, _)| *name == LAYOUT);
        layouts.for_each(|(_, value)| *value = Property::String(layout));
    }
    add_names(&mut renamed, log_host, is_record);
    pass(&renamed)
}

fn add_names<'p>(properties: &mut Vec<(&'p str, Property<'p>)>, log_host: &'p str, is_record: bool) {
    if is_record {
        if !properties.iter().any(|(name, _)| *name == HOST) {
            properties.push((HOST, Property::String(log_host)));
        }
        properties.push((LOG_HOST, Property::String(log_host)));
    }
}

/// A field `log_host` of the record itself, under its other name.
struct OwnField {
    name: String,
    value: daytable_model::property::OwnedValue,
}

impl OwnField {
    fn value(&self) -> Property<'_> {
        self.value.as_property()
    }
}

fn rename_own(properties: &[(&str, Property<'_>)]) -> Option<OwnField> {
    let value = properties.iter().find(|(name, _)| *name == LOG_HOST).map(|(_, value)| *value)?;
    let is_free = |name: &String| !properties.iter().any(|(known, _)| known == name);
    let name = (2..).map(|n| property_again(LOG_HOST, n)).find(is_free)?;
    Some(OwnField { name, value: value.into() })
}

/// The layout of a record that names the field by its other name.
fn layout_of_own(properties: &[(&str, Property<'_>)], own: &OwnField) -> Option<String> {
    let layout = properties.iter().find_map(|(name, value)| match (*name, value) {
        (LAYOUT, Property::String(layout)) => Some(*layout),
        _ => None,
    })?;
    renamed_layout(layout, |name| (name == LOG_HOST).then(|| own.name.clone()))
}

/// A row, and the one with its key that is here, with its table.
#[derive(Clone, PartialEq, Eq)]
enum KnownRow {
    Absent,
    Same(DayTable),
    /// It has another content.
    Other(DayTable),
}

/// A day-table here.
pub struct StoredTable {
    table: DayTable,
    /// The times of the oldest and the newest record in it.
    times: (Ticks, Ticks),
}

impl StoredTable {
    /// Whether it may have a row of these times that goes to `table` now: by the name that was configured before, or because the
    /// day was too far ahead when the row came.
    fn may_have(&self, table: &DayTable, times: (Ticks, Ticks)) -> bool {
        let is_ahead = || {
            self.table.table().same(table.table()) && self.times.1 >= self.table.end() && self.table.end() <= times.1
        };
        self.table != *table && (is_ahead() || self.may_have_moved(table.table(), table.period(), times))
    }

    /// Whether it may have a row of these times that goes to a table of this name and period now: by the configuration before, it
    /// has another name or period.
    pub fn may_have_moved(&self, name: &TableName, period: Period, (oldest, newest): (Ticks, Ticks)) -> bool {
        let is_other = !self.table.table().same(name) || self.table.period() != period;
        is_other && self.times.0 <= newest && oldest <= self.times.1
    }
}

/// The rows that a partition of this folder has in the range of a page, in the order of their keys.
struct KnownRows<'r> {
    table: DayTable,
    scans: Vec<(DayTable, std::iter::Peekable<crate::read::scan::Scan<'r>>)>,
}

impl<'r> KnownRows<'r> {
    /// Those of these tables, for rows that go to `table`.
    fn of(
        reader: &'r Reader,
        table: &DayTable,
        scanned: Vec<&DayTable>,
        range: &Range,
    ) -> Result<KnownRows<'r>, StoreError> {
        let mut known = KnownRows { table: table.clone(), scans: Vec::new() };
        for table in scanned {
            match reader.scan(table, range) {
                Ok(scan) => known.scans.push((table.clone(), scan.peekable())),
                Err(StoreError::TableGone(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(known)
    }

    /// The row that the partition has of this key, in any table or `only` in one. Keys have to be asked for in their order. A row
    /// with other content in another table than the one that the row goes to now counts only if it is of the same host.
    fn find(
        &mut self,
        key: RowKey,
        level: Option<Level>,
        properties: &[(&str, Property<'_>)],
        (log_host, only): (&str, Option<&DayTable>),
    ) -> Result<KnownRow, StoreError> {
        let mut found = KnownRow::Absent;
        for (table, scan) in &mut self.scans {
            if only.is_some_and(|only| only != table) {
                continue;
            }
            match find_row(scan, key, level, properties)? {
                FoundRow::Same => return Ok(KnownRow::Same(table.clone())),
                FoundRow::Other if *table == self.table || only.is_some() || is_next_of_host(scan, log_host) => {
                    found = KnownRow::Other(table.clone());
                }
                FoundRow::Other | FoundRow::Absent => {}
            }
        }
        Ok(found)
    }
}

/// A row of one table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FoundRow {
    Absent,
    Same,
    Other,
}

/// Whether a row is a record of this host.
pub(super) fn is_of_host(row: &Row, log_host: &str) -> bool {
    let mut is_own = false;
    row.each_property(|name, value| is_own |= name == LOG_HOST && value == Property::String(log_host));
    is_own
}

fn is_next_of_host(scan: &mut std::iter::Peekable<crate::read::scan::Scan<'_>>, log_host: &str) -> bool {
    matches!(scan.peek(), Some(Ok(row)) if is_of_host(row, log_host))
}

fn find_row(
    scan: &mut std::iter::Peekable<crate::read::scan::Scan<'_>>,
    key: RowKey,
    level: Option<Level>,
    properties: &[(&str, Property<'_>)],
) -> Result<FoundRow, StoreError> {
    loop {
        match scan.peek() {
            None => return Ok(FoundRow::Absent),
            Some(Ok(row)) if row.key() < key => drop(scan.next()),
            Some(Ok(row)) if row.key() > key => return Ok(FoundRow::Absent),
            Some(Ok(row)) => {
                let is_same = row.level() == level && is_same(row, properties);
                return Ok(if is_same { FoundRow::Same } else { FoundRow::Other });
            }
            Some(Err(_)) => match scan.next() {
                // The day was dropped since: its rows are gone, and the commit will say so.
                Some(Err(StoreError::TableGone(_))) | None => return Ok(FoundRow::Absent),
                Some(Err(error)) => return Err(error),
                Some(Ok(_)) => {}
            },
        }
    }
}

/// All open day-tables with records. Restored days are copies. Those of days that are not over may have records of times up to
/// `stored` that are being stored.
///
/// # Errors
///
/// The folder cannot be read.
pub fn stored_tables(reader: &Reader, stored: Ticks) -> Result<Vec<StoredTable>, StoreError> {
    let days = reader.catalog().days()?.into_iter().filter(|day| day.state == DayState::Open);
    let stored = days.filter_map(|day| {
        let times = day.files.iter().filter_map(|file| file.times);
        let (oldest, newest) = times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        let newest = if day.table.end() > stored { newest.max(stored) } else { newest };
        Some(StoredTable { table: day.table, times: (oldest, newest) })
    });
    Ok(stored.collect())
}

/// The day-tables here that have rows of later times than their own. A row whose day is too far ahead is stored in the table of
/// the day on which it came. If the row comes again on another day, it is stored in another table.
pub(super) fn tables_with_later_rows(reader: &Reader) -> Result<Vec<DayTable>, StoreError> {
    let files = reader.catalog().files()?.into_iter();
    let is_later = |file: &LiveFile| file.times.is_some_and(|(_, newest)| newest >= file.day.end());
    let mut tables: Vec<DayTable> = files.filter(is_later).map(|file| file.day).collect();
    tables.sort_unstable();
    tables.dedup();
    Ok(tables)
}

/// Whether a row has exactly these properties.
fn is_same(row: &Row, properties: &[(&str, Property<'_>)]) -> bool {
    let (mut count, mut is_same) = (0, true);
    row.each_property(|name, value| {
        count += 1;
        is_same &= properties.iter().any(|(known, of)| *known == name && is_same_value(of, &value));
    });
    is_same && count == properties.len()
}

fn is_same_value(a: &Property<'_>, b: &Property<'_>) -> bool {
    match (a, b) {
        // A number that is none is equal to itself here.
        (Property::Double(a), Property::Double(b)) => a.to_bits() == b.to_bits(),
        (a, b) => a == b,
    }
}
