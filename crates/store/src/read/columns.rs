//! Rows as encoded columns: of a page of an open day, or of a row group of a sealed one.
//!
//! A [`ColumnBatch`] decodes a column on its first use, and a row when it is shown. A [`BatchColumn`] is queried in its
//! encoded form: a test runs once per distinct value, and a text is searched in patterns and in bytes.

use crate::StoreError;
use crate::format::page::{ColumnRef, Page, PageError, ValueReader};
use crate::format::page_rows::PageLocation;
use crate::format::sealed::block::BlockColumn;
use crate::format::sealed::columns::{ColumnSet, RestKeys, rows_of};
use crate::format::sealed::host_fields::HostColumns;
use crate::format::sealed::{RowBlock, SealedFile};
use crate::read::Row;
use daytable_model::column_name::{HOST, LOG_HOST};
use daytable_model::entity::MULTI_ROW_PROPERTIES;
use daytable_model::key::RowKey;
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// The column of the texts of `host`.
const HOST_COLUMN: (&str, PropertyKind) = (HOST, PropertyKind::String);

/// Rows of a row group are few if they are at most one of this many.
const NARROW_SHARE: usize = 8;

/// Chooses the rows of a scan by their columns.
pub trait RowChooser: Send + Sync {
    /// The rows of records that may match. Other rows cannot match.
    fn choose(&self, batch: &ColumnBatch) -> Result<RowSet, StoreError>;
}

/// Rows of a page, or adjacent rows of a sealed file.
pub struct ColumnBatch {
    source: Source,
    partitions: Partitions,
    records: RowSet,
}

/// The partition of each row of a batch.
enum Partitions {
    /// The partition of each stretch of rows.
    Stretches(Vec<(Arc<str>, Range<usize>)>),
    /// The partitions of a shared page, by their numbers in it.
    Owners(Vec<Arc<str>>),
}

/// Where a page was read.
pub(crate) struct PagePlace {
    pub(crate) path: PathBuf,
    pub(crate) place: PageLocation,
}

enum Source {
    /// A page, and its place where its keys were not read yet.
    Page(Arc<Page>, Option<PagePlace>),
    Group(Box<GroupRows>),
}

/// Some rows of a row group. Each column is read on its first use.
struct GroupRows {
    file: SealedFile,
    group: usize,
    ranges: Vec<Range<usize>>,
    rows: usize,
    times: OnceCell<Vec<Ticks>>,
    keys: OnceCell<Vec<RowKey>>,
    levels: OnceCell<Vec<u8>>,
    columns: Vec<OnceCell<Option<BlockColumn>>>,
    rest: OnceCell<RestRows>,
    /// The rows that are records, of a file that names its host.
    records: RowSet,
    host: OnceCell<Option<HostColumns>>,
}

/// The properties of some rows that have no column in the file.
struct RestRows {
    keys: RestKeys,
    columns: Vec<OnceCell<BlockColumn>>,
}

/// The columns of a batch of a sealed day in which needles were found, by their numbers.
#[derive(Debug, Default)]
pub struct ColumnsFound(BTreeSet<usize>);

/// A column of a batch: the values of one property and kind.
#[derive(Clone, Copy)]
pub enum BatchColumn<'b> {
    /// Of an open day.
    Page(ColumnRef<'b>),
    /// Of a sealed day.
    Block(SealedColumn<'b>),
}

/// A column of a batch of a sealed day.
#[derive(Clone, Copy)]
pub struct SealedColumn<'b>(&'b BlockColumn, usize);

impl ColumnBatch {
    /// The rows of a page. `names` has the name of its partition, or of each partition of a shared page by its number.
    /// `records` are those that count: the latest of their key, and no items.
    pub(crate) fn of_page(
        names: &[Arc<str>],
        page: Arc<Page>,
        records: RowSet,
        place: Option<PagePlace>,
    ) -> ColumnBatch {
        let partitions = match page.has_owners() {
            true => Partitions::Owners(names.to_vec()),
            false => Partitions::Stretches(vec![(names.first().cloned().unwrap_or_default(), 0..page.len())]),
        };
        ColumnBatch { partitions, source: Source::Page(page, place), records }
    }

    /// Rows of a row group of a sealed file, with the partition of each stretch.
    pub(crate) fn of_group(
        file: &SealedFile,
        group: usize,
        stretches: Vec<(Arc<str>, Range<usize>)>,
    ) -> Result<ColumnBatch, StoreError> {
        let (mut partitions, mut ranges, mut rows) = (Vec::new(), Vec::<Range<usize>>::new(), 0);
        for (partition, range) in stretches {
            partitions.push((partition, rows..rows + range.len()));
            rows += range.len();
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        let records = if file.has_no_items(group) {
            RowSet::all(rows)
        } else {
            let items = file.items_of(group, &ranges)?;
            RowSet::of(rows, |row| items[row] == 0)
        };
        let group = GroupRows::new(file, group, ranges, records.clone());
        let partitions = Partitions::Stretches(partitions);
        Ok(ColumnBatch { source: Source::Group(group.into()), partitions, records })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.records.length()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows that are records: in the range, the latest of their key, and no items.
    pub fn records(&self) -> &RowSet {
        &self.records
    }

    pub(crate) fn records_mut(&mut self) -> &mut RowSet {
        &mut self.records
    }

    /// The partition of each stretch of rows of a sealed file.
    pub(crate) fn stretches(&self) -> &[(Arc<str>, Range<usize>)] {
        match &self.partitions {
            Partitions::Stretches(stretches) => stretches,
            Partitions::Owners(_) => &[],
        }
    }

    /// Applies `read` to the partitions of the rows `among`, and passes the results on in the order of the rows. A partition
    /// is read again where its rows are not neighbours in a sealed file.
    pub fn each_partition<T: Copy>(
        &self,
        among: &RowSet,
        mut read: impl FnMut(&str) -> T,
        mut each: impl FnMut(usize, T),
    ) {
        match (&self.partitions, &self.source) {
            (Partitions::Owners(names), Source::Page(page, _)) => {
                let mut known: Vec<Option<T>> = vec![None; names.len()];
                page.each_owner(|row, owner| {
                    if among.contains(row)
                        && let Some(place) = known.get_mut(owner)
                    {
                        each(row, *place.get_or_insert_with(|| read(&names[owner])));
                    }
                });
            }
            (Partitions::Owners(_), Source::Group(_)) => {}
            (Partitions::Stretches(stretches), _) => {
                for (partition, rows) in stretches {
                    let mut next = among.next(rows.start).filter(|row| *row < rows.end);
                    if next.is_none() {
                        continue;
                    }
                    let value = read(partition);
                    while let Some(row) = next {
                        each(row, value);
                        next = among.next(row + 1).filter(|row| *row < rows.end);
                    }
                }
            }
        }
    }

    /// The key of each row.
    ///
    /// # Errors
    ///
    /// A damaged file, like all errors of a batch.
    pub fn keys(&self) -> Result<&[RowKey], StoreError> {
        match &self.source {
            Source::Page(page, place) => page.read_keys().map_err(|error| damaged(place.as_ref(), &error)),
            Source::Group(group) => {
                read_once(&group.keys, || group.file.keys_of(group.group, &group.ranges)).map(Vec::as_slice)
            }
        }
    }

    /// The oldest and the newest time of its rows, where that is known without decoding.
    pub fn times(&self) -> Option<(Ticks, Ticks)> {
        match &self.source {
            Source::Page(page, _) => Some(page.times()),
            Source::Group(_) => None,
        }
    }

    /// Passes the time of each row of `among`, in the order of the rows.
    pub fn each_time(&self, among: &RowSet, mut each: impl FnMut(usize, Ticks)) -> Result<(), StoreError> {
        match &self.source {
            Source::Page(page, place) => {
                let times = page.each_time(|row, time| {
                    if among.contains(row) {
                        each(row, time);
                    }
                });
                times.map_err(|error| damaged(place.as_ref(), &error))?;
            }
            Source::Group(group) => {
                let times = read_once(&group.times, || group.file.times_of(group.group, &group.ranges))?;
                among.iter().for_each(|row| each(row, times[row]));
            }
        }
        Ok(())
    }

    /// Passes the level of each row of `among` as a code, 0 for none, in the order of the rows.
    pub fn each_level(&self, among: &RowSet, mut each: impl FnMut(usize, u8)) -> Result<(), StoreError> {
        match &self.source {
            Source::Page(page, _) => page.each_level(among, each),
            Source::Group(group) => {
                let levels = read_once(&group.levels, || group.file.levels_of(group.group, &group.ranges))?;
                among.iter().for_each(|row| each(row, levels[row]));
            }
        }
        Ok(())
    }

    /// The property and kind of each column that may have values.
    pub fn names(&self) -> Result<Vec<(&str, PropertyKind)>, StoreError> {
        Ok(match &self.source {
            Source::Page(page, _) => page.columns().map(|column| (column.name(), column.kind())).collect(),
            Source::Group(group) => {
                let mut names = group.stored_names()?;
                if group.file.has_host() {
                    names.push((LOG_HOST, PropertyKind::String));
                    if !names.contains(&HOST_COLUMN) {
                        names.push(HOST_COLUMN);
                    }
                }
                names
            }
        })
    }

    /// Whether it has no rows, and only the columns that the visitor needs.
    pub fn is_front(&self) -> bool {
        matches!(&self.source, Source::Page(page, _) if page.is_front())
    }

    /// A column by its number among the names; `None` if it has no value.
    pub fn column(&self, number: usize) -> Result<Option<BatchColumn<'_>>, StoreError> {
        match &self.source {
            Source::Page(page, place) => match page.column_at(number) {
                Some(column) if column.is_missing() => Err(not_read(place.as_ref())),
                column => Ok(column.map(BatchColumn::Page)),
            },
            Source::Group(group) => {
                Ok(group.column(number)?.map(|column| BatchColumn::Block(SealedColumn(column, group.rows))))
            }
        }
    }

    /// The columns whose property `wants` accepts.
    pub fn columns(
        &self,
        mut wants: impl FnMut(&str, PropertyKind) -> bool,
    ) -> Result<Vec<BatchColumn<'_>>, StoreError> {
        let names = self.names()?;
        let wanted = names.iter().enumerate().filter(|(_, (name, kind))| wants(name, *kind));
        let wanted: Vec<usize> = wanted.map(|(number, _)| number).collect();
        if let Source::Group(group) = &self.source {
            group.read_rest(&wanted)?;
        }
        wanted.into_iter().filter_map(|number| self.column(number).transpose()).collect()
    }

    /// Some of its records alone, if they are few: then their columns are read without the values of other rows. `None` if that
    /// would be no less work.
    pub fn narrowed(&self, wanted: &RowSet) -> Option<ColumnBatch> {
        let (Source::Group(group), Partitions::Stretches(stretches)) = (&self.source, &self.partitions) else {
            return None;
        };
        let count = wanted.count();
        if count == 0 || count > self.len() / NARROW_SHARE {
            return None;
        }
        let (mut partitions, mut rows) = (Vec::new(), 0);
        for (partition, of) in stretches {
            let mut next = wanted.next(of.start).filter(|row| *row < of.end);
            let first = rows;
            while let Some(row) = next {
                rows += 1;
                next = wanted.next(row + 1).filter(|row| *row < of.end);
            }
            if first < rows {
                partitions.push((partition.clone(), first..rows));
            }
        }
        let records = RowSet::all(count);
        let ranges = rows_of(&group.ranges, wanted.iter());
        let group = GroupRows::new(&group.file, group.group, ranges, records.clone());
        Some(ColumnBatch {
            source: Source::Group(group.into()),
            partitions: Partitions::Stretches(partitions),
            records,
        })
    }

    /// The records with further rows, or with fields in one text: their columns are incomplete.
    pub fn spread(&self) -> Result<RowSet, StoreError> {
        let mut spread = RowSet::none(self.len());
        for column in self.columns(|name, kind| MULTI_ROW_PROPERTIES.contains(&(name, kind)))? {
            spread.add(&column.present());
        }
        Ok(spread)
    }

    /// Whether the texts of the batch may contain this one. Only a whole page of an open day can exclude it.
    pub fn may_have_text(&self, text: &memchr::memmem::Finder<'_>) -> bool {
        match &self.source {
            Source::Page(page, _) => page.is_front() || page.has_text(text),
            Source::Group(_) => true,
        }
    }

    /// Adds the rows with a property whose printed value contains the needle. Sealed days skip pages of columns without
    /// it.
    pub fn add_containing(&self, needle: &Needle, among: &RowSet, found: &mut RowSet) -> Result<(), StoreError> {
        self.add_containing_in(needle, among, found, &mut ColumnsFound::default())
    }

    /// The same. Notes the columns in which the needle was found.
    pub fn add_containing_in(
        &self,
        needle: &Needle,
        among: &RowSet,
        found: &mut RowSet,
        columns: &mut ColumnsFound,
    ) -> Result<(), StoreError> {
        match &self.source {
            Source::Page(page, place) if page.is_front() => return Err(not_read(place.as_ref())),
            Source::Page(page, _) => page.columns().for_each(|column| column.add_containing(needle, among, found)),
            Source::Group(group) => {
                let mut found_in = |number| {
                    columns.0.insert(number);
                };
                let with = group.file.rows_with(group.group, &group.ranges, needle, &mut found_in)?;
                among.iter().filter(|row| with[*row]).for_each(|row| found.insert(row));
            }
        }
        Ok(())
    }

    /// The columns whose property `wants` accepts, and in which needles were found. A page has the others, too: its columns
    /// are at hand.
    pub fn columns_found(
        &self,
        found: &ColumnsFound,
        mut wants: impl FnMut(&str, PropertyKind) -> bool,
    ) -> Result<Vec<BatchColumn<'_>>, StoreError> {
        let mut number = 0;
        let has_it = |number: usize| match &self.source {
            Source::Page(..) => true,
            // The columns that name a host come last. Needles that are in its name are found in each column.
            Source::Group(group) => found.0.contains(&number.min(group.columns.len())),
        };
        self.columns(|name, kind| {
            number += 1;
            has_it(number - 1) && wants(name, kind)
        })
    }

    /// The rows of `wanted`, in their order.
    pub fn rows(&self, wanted: &RowSet) -> Result<Vec<Row>, StoreError> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let partition = |row: usize| match (&self.partitions, &self.source) {
            (Partitions::Stretches(stretches), _) => {
                let of = stretches.partition_point(|(_, rows)| rows.end <= row);
                stretches[of].0.clone()
            }
            (Partitions::Owners(names), Source::Page(page, _)) => {
                page.owner(row).and_then(|owner| names.get(owner)).cloned().unwrap_or_default()
            }
            (Partitions::Owners(_), Source::Group(_)) => Arc::default(),
        };
        match &self.source {
            Source::Page(page, place) if page.is_front() => Err(not_read(place.as_ref())),
            Source::Page(page, _) => {
                // Rows have their keys at hand.
                self.keys()?;
                Ok(wanted.iter().map(|row| Row::of_page(partition(row), page.clone(), row)).collect())
            }
            Source::Group(group) => {
                let block = Arc::new(group.block(wanted)?);
                let rows = wanted.iter().enumerate();
                Ok(rows.map(|(at, row)| Row::of_block(partition(row), block.clone(), at)).collect())
            }
        }
    }
}

impl GroupRows {
    fn new(file: &SealedFile, group: usize, ranges: Vec<Range<usize>>, records: RowSet) -> GroupRows {
        GroupRows {
            file: file.clone(),
            group,
            ranges,
            rows: records.length(),
            times: OnceCell::new(),
            keys: OnceCell::new(),
            levels: OnceCell::new(),
            columns: (0..file.columns().len()).map(|_| OnceCell::new()).collect(),
            rest: OnceCell::new(),
            records,
            host: OnceCell::new(),
        }
    }

    /// The property and kind of each column that the file has values of.
    fn stored_names(&self) -> Result<Vec<(&str, PropertyKind)>, StoreError> {
        let own = self.file.columns().iter().map(|column| (column.property.as_str(), column.kind));
        Ok(own.chain(self.rest()?.keys.names.iter().map(|(name, kind)| (&**name, *kind))).collect())
    }

    /// The columns that name the host, if the file is read as that of one.
    fn host(&self) -> Result<Option<&HostColumns>, StoreError> {
        read_once(&self.host, || {
            let (mut hosts, mut spread) = (Vec::new(), RowSet::none(self.rows));
            for (number, (name, kind)) in self.stored_names()?.into_iter().enumerate() {
                if name == HOST {
                    hosts.extend(self.stored_column(number)?);
                } else if MULTI_ROW_PROPERTIES.contains(&(name, kind))
                    && let Some(column) = self.stored_column(number)?
                {
                    spread.add(&column.present(self.rows));
                }
            }
            Ok(self.file.host_columns(self.rows, &self.records, &hosts, &spread))
        })
        .map(Option::as_ref)
    }

    /// A column by its number among the names of the batch.
    fn column(&self, number: usize) -> Result<Option<&BlockColumn>, StoreError> {
        if !self.file.has_host() {
            return self.stored_column(number);
        }
        let names = self.stored_names()?;
        match number.checked_sub(names.len()) {
            Some(0) => Ok(self.host()?.map(|host| &host.log_host)),
            None if names[number] != HOST_COLUMN => self.stored_column(number),
            _ => Ok(self.host()?.map(|host| &host.host)),
        }
    }

    fn rest(&self) -> Result<&RestRows, StoreError> {
        read_once(&self.rest, || {
            let keys = self.file.rest_keys(self.group, &self.ranges)?;
            let columns = keys.names.iter().map(|_| OnceCell::new()).collect();
            Ok(RestRows { keys, columns })
        })
    }

    /// Reads those of these columns, which ascend, that have no column in the file, at once.
    fn read_rest(&self, numbers: &[usize]) -> Result<(), StoreError> {
        let of_rest = &numbers[numbers.partition_point(|number| *number < self.columns.len())..];
        if of_rest.is_empty() {
            return Ok(());
        }
        let rest = self.rest()?;
        let of_rest = of_rest.iter().map(|number| number - self.columns.len());
        let unread: Vec<usize> =
            of_rest.filter(|number| rest.columns.get(*number).is_some_and(|cell| cell.get().is_none())).collect();
        if unread.is_empty() {
            return Ok(());
        }
        let read = self.file.rest_columns(self.group, &self.ranges, &rest.keys, &unread)?;
        for (number, column) in unread.into_iter().zip(read) {
            // It was empty.
            let _ = rest.columns[number].set(column);
        }
        Ok(())
    }

    /// A column of the file by its number.
    fn stored_column(&self, number: usize) -> Result<Option<&BlockColumn>, StoreError> {
        let Some(cell) = self.columns.get(number) else {
            let cell = self.rest()?.columns.get(number - self.columns.len());
            if cell.is_some_and(|cell| cell.get().is_none()) {
                // Whoever asks by number mostly asks for all of them.
                let end = self.columns.len() + self.rest()?.columns.len();
                self.read_rest(&(self.columns.len()..end).collect::<Vec<_>>())?;
            }
            return Ok(cell.and_then(OnceCell::get));
        };
        read_once(cell, || self.file.column_of(self.group, number, &self.ranges)).map(Option::as_ref)
    }

    /// Whole rows.
    fn block(&self, wanted: &RowSet) -> Result<RowBlock, StoreError> {
        self.file.block(self.group, &rows_of(&self.ranges, wanted.iter()), ColumnSet::All)
    }
}

/// The error of a page whose keys cannot be read.
fn damaged(place: Option<&PagePlace>, error: &PageError) -> StoreError {
    unreadable(place, error.to_string())
}

/// The error of a visitor that asks for a column that it said not to need. No answer is better than one without it.
fn not_read(place: Option<&PagePlace>) -> StoreError {
    unreadable(place, "a column is asked for that was not read".into())
}

fn unreadable(place: Option<&PagePlace>, what: String) -> StoreError {
    StoreError::Damaged {
        path: place.map(|place| place.path.clone()).unwrap_or_default(),
        page: place.map(|place| place.place.to_string()).unwrap_or_default(),
        what,
    }
}

/// The value of a cell, read at most once.
fn read_once<T>(cell: &OnceCell<T>, read: impl FnOnce() -> Result<T, StoreError>) -> Result<&T, StoreError> {
    if let Some(known) = cell.get() {
        return Ok(known);
    }
    let value = read()?;
    Ok(cell.get_or_init(|| value))
}

impl<'b> BatchColumn<'b> {
    /// The property's name.
    pub fn name(&self) -> &'b str {
        match self {
            BatchColumn::Page(column) => column.name(),
            BatchColumn::Block(SealedColumn(column, _)) => column.name_and_kind().0,
        }
    }

    /// The type of its values.
    pub fn kind(&self) -> PropertyKind {
        match self {
            BatchColumn::Page(column) => column.kind(),
            BatchColumn::Block(SealedColumn(column, _)) => column.name_and_kind().1,
        }
    }

    /// The rows with a value.
    pub fn present(&self) -> RowSet {
        match self {
            BatchColumn::Page(column) => column.present(),
            BatchColumn::Block(SealedColumn(column, rows)) => column.present(*rows),
        }
    }

    /// The rows among these with a value that is not an empty text.
    pub fn filled(&self, among: &RowSet) -> RowSet {
        let mut filled = match self {
            BatchColumn::Page(column) => return column.filled(among),
            BatchColumn::Block(SealedColumn(column, rows)) => column.filled(*rows),
        };
        filled.keep(among);
        filled
    }

    /// Bounds of its whole numbers, if they are known without decoding.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        match self {
            BatchColumn::Page(column) => column.bounds(),
            BatchColumn::Block(_) => None,
        }
    }

    /// Applies `read` to the values of the rows `among`, once per distinct value if there are few, and passes the
    /// results in the order of the rows.
    pub fn map<T: Copy>(&self, among: &RowSet, read: impl FnMut(Property<'_>) -> T, each: impl FnMut(usize, T)) {
        match self {
            BatchColumn::Page(column) => column.map(among, read, each),
            BatchColumn::Block(SealedColumn(column, _)) => column.map(among, read, each),
        }
    }

    /// Passes the whole numbers of the rows `among` on, in the order of the rows. False, without any, if the values are of
    /// another type.
    pub fn each_whole(&self, among: &RowSet, each: impl FnMut(usize, i64)) -> bool {
        match self {
            BatchColumn::Page(column) => column.each_whole(among, each),
            BatchColumn::Block(SealedColumn(column, _)) => column.each_whole(among, each),
        }
    }

    /// Adds the rows of `among` whose value satisfies `holds`, which decides about few different values at once.
    pub fn add_where(&self, among: &RowSet, holds: impl FnMut(Property<'_>) -> bool, found: &mut RowSet) {
        match self {
            BatchColumn::Page(column) => column.add_where(among, holds, found),
            BatchColumn::Block(SealedColumn(column, _)) => column.add_where(among, holds, found),
        }
    }

    /// Reads the values of the rows `among`, once a value where the column has few different ones, and passes the results
    /// on in the order of the rows.
    pub fn read<T: Copy>(&self, among: &RowSet, reader: &mut impl ValueReader<T>, each: impl FnMut(usize, T)) {
        match self {
            BatchColumn::Page(column) => column.read(among, reader, each),
            BatchColumn::Block(SealedColumn(column, _)) => column.read(among, reader, each),
        }
    }

    /// Adds the rows of `among` whose value is this text.
    pub fn add_equal(&self, text: &str, among: &RowSet, found: &mut RowSet) {
        match self {
            BatchColumn::Page(column) => column.add_equal(text, among, found),
            BatchColumn::Block(_) => self.add_where(among, |value| value == Property::String(text), found),
        }
    }

    /// Adds the rows of `among` whose printed value contains the needle.
    pub fn add_containing(&self, needle: &Needle, among: &RowSet, found: &mut RowSet) {
        match self {
            BatchColumn::Page(column) => column.add_containing(needle, among, found),
            BatchColumn::Block(_) => {
                if needle.may_be_in(self.kind()) {
                    self.add_where(among, |value| needle.is_in(value), found);
                }
            }
        }
    }
}
