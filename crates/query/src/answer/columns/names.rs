//! The names of fields that records have, by the headers of pages and the columns of files.
//!
//! Values are not read. The walk ends once it has found what is looked for, which is in the first page of most questions.

use super::filter::{LAYOUT, NO_FIELDS, is_column_of};
use super::place::TablePlace;
use crate::bounds::tables_of;
use crate::select::Selection;
use crate::tables::TableError;
use daytable_logsql::FieldUse;
use daytable_model::property::PropertyKind;
use daytable_platform::lock;
use daytable_store::{EveryPart, NeedsKeys, Part, PartFilter, PartVisitor, StoreError};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Mutex;

/// Names that are remembered.
const NAMES_MAX: usize = 100_000;

/// The names of fields, and which of those that were looked for are missing.
pub(in crate::answer) struct FieldNames {
    /// The names as they are stored.
    pub(in crate::answer) known: BTreeSet<String>,
    /// The fields that have no column.
    pub(in crate::answer) missing: Vec<FieldUse>,
    /// Whether there are records at all.
    pub(in crate::answer) has_records: bool,
    /// Whether a missing field may be in a record all the same, which only the record tells.
    pub(in crate::answer) is_open: bool,
}

/// Looks for fields in the tables of a selection, without a remote store.
pub(in crate::answer) fn gather_names(
    selection: &Selection<'_>,
    wanted: &[FieldUse],
) -> Result<FieldNames, TableError> {
    let found = FieldNames { known: BTreeSet::new(), missing: wanted.to_vec(), has_records: false, is_open: false };
    let visitor = NameVisitor(Mutex::new(found));
    for bounds in tables_of(selection.stores, selection.reading, selection.filter)? {
        if lock(&visitor.0).missing.is_empty() {
            break;
        }
        if !(selection.go_on)() {
            return Err(TableError::Interrupted);
        }
        let Some(mut place) = TablePlace::of(selection, &bounds)? else { continue };
        let range = place.range.clone();
        if place.walk(selection, &bounds, &range, &visitor, &|| ())?.is_none() {
            let found = &mut *lock(&visitor.0);
            (found.is_open, found.has_records) = (true, true);
        }
    }
    if !(selection.go_on)() {
        return Err(TableError::Interrupted);
    }
    Ok(visitor.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

struct NameVisitor(Mutex<FieldNames>);

impl PartVisitor for NameVisitor {
    type State = ();

    fn start(&self) {}

    fn filter(&self) -> &dyn PartFilter {
        &EveryPart
    }

    fn is_newest_first(&self) -> bool {
        true
    }

    fn read(&self, (): &mut (), part: &mut Part<'_>) -> Result<ControlFlow<()>, StoreError> {
        // The front of a page has the names of all columns.
        let Some(batch) = part.batch_of(|_, _| false, NeedsKeys::No, |_| Ok(true))? else {
            return Ok(ControlFlow::Continue(()));
        };
        let names = batch.names()?;
        let found = &mut *lock(&self.0);
        found.has_records = true;
        for (name, kind) in names {
            // A record of very many fields has some of them in one text.
            found.is_open |= (name, kind) == ("Fields", PropertyKind::String);
            if NO_FIELDS.contains(&(name, kind)) || LAYOUT.contains(&name) {
                continue;
            }
            found.missing.retain(|field| !is_used(field, name, kind));
            if found.known.len() < NAMES_MAX && !found.known.contains(name) {
                found.known.insert(name.to_owned());
            }
        }
        Ok(if found.missing.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// Whether a column has values of a field that a query names.
fn is_used(field: &FieldUse, name: &str, kind: PropertyKind) -> bool {
    match field.is_prefix {
        true => name.starts_with(field.name.written()) || name.starts_with(field.name.property()),
        false => is_column_of(&field.name, name, kind),
    }
}
