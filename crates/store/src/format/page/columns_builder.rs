//! Sorts the values of a page's rows into columns, with one table look-up per value and no hash.

use super::bits::put_varint;
use super::column::ColumnBuilder;
use super::sections::Sections;
use super::source_row::{RowSource, SourceRow};
use super::value_counts::ValueCounts;
use daytable_model::entity::MULTI_ROW_PROPERTIES;
use daytable_model::property::PropertyKind;
use std::collections::HashMap;

/// Number of columns up to which a linear search is faster than a hash.
const SEARCHED: usize = 16;
/// Columns with room for a value of each row. Those that come later are rare mostly, and grow as values come.
const ROOMY_COLUMNS: usize = 64;
/// Columns of a page whose values are counted at most: so many that a row of `page_counts` has room for those of all its
/// pages.
pub(super) const COUNTED_COLUMNS_MAX: usize = 256;
/// Marks a name that has no column yet.
const NO_COLUMN: u32 = u32::MAX;

/// The columns of the page that is being built, indexed by the source of a row and its number for the name.
pub(super) struct ColumnsBuilder<'p, 'a> {
    parts: &'p [RowSource<'a>],
    /// Where the columns of a source begin in `known`; set with the page's first row of that source.
    bases: Vec<Option<usize>>,
    /// For each name and kind of a batch, or each column of a page, the column here.
    known: Vec<u32>,
    touched: Vec<usize>,
    columns: Vec<ColumnBuilder<'a>>,
    by_name: HashMap<(&'a str, PropertyKind), usize, foldhash::quality::RandomState>,
    /// Similar records have the same fields in the same order: the column after the last one is tried first.
    next: usize,
    rows: usize,
}

impl<'p, 'a> ColumnsBuilder<'p, 'a> {
    pub(super) fn new(parts: &'p [RowSource<'a>]) -> ColumnsBuilder<'p, 'a> {
        let bases = vec![None; parts.len()];
        let by_name = HashMap::default();
        ColumnsBuilder {
            parts,
            bases,
            known: Vec::new(),
            touched: Vec::new(),
            columns: Vec::new(),
            by_name,
            next: 0,
            rows: 0,
        }
    }

    /// Sorts the values of `rows` into columns.
    pub(super) fn gather(&mut self, rows: &[SourceRow<'a>]) {
        self.rows = rows.len();
        for (at, row) in rows.iter().enumerate() {
            let base = match self.bases[row.part()] {
                Some(base) => base,
                None => self.touch(row.part()),
            };
            match (*row, &self.parts[row.part()]) {
                (SourceRow::OfBatch(row, _), RowSource::Batch(batch)) => {
                    for (name, value) in row.properties() {
                        let name = usize::from(name);
                        let slot = base + name * PropertyKind::COUNT + value.kind() as usize;
                        let column = match self.known[slot] {
                            NO_COLUMN => self.find(slot, &batch.names()[name], value.kind()),
                            column => column as usize,
                        };
                        self.columns[column].push(at, value);
                    }
                }
                (SourceRow::OfPage(page, row, _), _) => {
                    for (number, value) in page.values(row as usize) {
                        let column = match self.known[base + number] {
                            NO_COLUMN => self.find(base + number, page.name(number), value.kind()),
                            column => column as usize,
                        };
                        self.columns[column].push(at, value);
                    }
                }
                // A row and its source are of the same kind.
                (SourceRow::OfBatch(..), RowSource::Page(_)) => {}
            }
        }
    }

    fn touch(&mut self, part: usize) -> usize {
        let base = self.known.len();
        let names = match self.parts[part] {
            RowSource::Batch(batch) => batch.names().len() * PropertyKind::COUNT,
            RowSource::Page(page) => page.width(),
        };
        self.known.resize(base + names, NO_COLUMN);
        self.bases[part] = Some(base);
        self.touched.push(part);
        base
    }

    fn find(&mut self, slot: usize, name: &'a str, kind: PropertyKind) -> usize {
        let is = |column: &ColumnBuilder<'_>| column.kind == kind && column.name == name;
        let found = if self.columns.get(self.next).is_some_and(is) {
            Some(self.next)
        } else if self.columns.len() <= SEARCHED {
            self.columns.iter().position(is)
        } else {
            self.by_name.get(&(name, kind)).copied()
        };
        let column = found.unwrap_or_else(|| self.add(name, kind));
        self.next = column + 1;
        // A page has fewer columns than 32 bits count.
        self.known[slot] = u32::try_from(column).unwrap_or(NO_COLUMN);
        column
    }

    fn add(&mut self, name: &'a str, kind: PropertyKind) -> usize {
        let column = self.columns.len();
        let room = if column < ROOMY_COLUMNS { self.rows } else { 0 };
        self.columns.push(ColumnBuilder::new(name, kind, self.rows, room));
        if column == SEARCHED {
            self.by_name = self.columns.iter().zip(0..).map(|(column, at)| ((column.name, column.kind), at)).collect();
        } else if column > SEARCHED {
            self.by_name.insert((name, kind), column);
        }
        column
    }

    /// Whether a gathered row has a property of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name == name)
    }

    /// Whether a record is not described by its row.
    pub(super) fn has_spread(&self) -> bool {
        self.columns.iter().any(|column| MULTI_ROW_PROPERTIES.contains(&(column.name, column.kind)))
    }

    /// Counts the values of the gathered rows by level. `None` where there are too many columns.
    pub(super) fn count_values(&self, levels: &[u8]) -> Option<Box<ValueCounts>> {
        let columns = || self.columns.iter().map(|column| column.counts(levels)).collect();
        (self.columns.len() <= COUNTED_COLUMNS_MAX).then(|| Box::new(ValueCounts { columns: columns() }))
    }

    /// Writes the columns and resets the builder.
    pub(super) fn encode(&mut self, out: &mut Sections) {
        put_varint(&mut out.meta, self.columns.len() as u64);
        for column in self.columns.drain(..) {
            column.encode(self.rows, out);
        }
        self.touched.drain(..).for_each(|part| self.bases[part] = None);
        self.known.clear();
        self.by_name.clear();
        self.next = 0;
    }
}
