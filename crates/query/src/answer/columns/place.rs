//! Where a table is walked: in the data folder, or in its archive.

use super::filter::ColumnFilter;
use crate::answer::threads::threads;
use crate::bounds::{Bounds, archived_range, range_of, unless_gone};
use crate::select::Selection;
use crate::tables::TableError;
use daytable_store::sealed::SealedFile;
use daytable_store::{PartVisitor, Range, StoreError};

/// A visitor of the matching records of one table.
pub(super) trait TableVisitor: PartVisitor {
    /// The filter of the records.
    fn columns(&self) -> &ColumnFilter;

    /// Whether rows have to be read, because columns are not enough.
    fn falls_back_to_rows(&self) -> bool;

    /// Whether the question cannot be answered, so that nothing more is read.
    fn is_over(&self) -> bool {
        false
    }

    /// Forgets what the threads of a walk passed on or charged beside their states: the table is read again.
    fn restart(&self) {}
}

/// A table that is walked by columns.
pub(super) struct TablePlace {
    /// The wanted range.
    pub(super) range: Range,
    /// The archive, if the table is not local or was dropped.
    archive: Option<SealedFile>,
}

impl TablePlace {
    /// The place of a table that is not in a remote store; `None` if it has no rows of the instance, or is gone.
    pub(super) fn of(selection: &Selection<'_>, bounds: &Bounds) -> Result<Option<TablePlace>, TableError> {
        let Selection { stores, filter, .. } = selection;
        if bounds.stands {
            match unless_gone(range_of(stores.reader, filter, bounds))? {
                Some(Some(range)) => return Ok(Some(TablePlace { range, archive: None })),
                Some(None) => return Ok(None),
                None => {}
            }
        }
        TablePlace::archived(selection, bounds)
    }

    fn archived(selection: &Selection<'_>, bounds: &Bounds) -> Result<Option<TablePlace>, TableError> {
        let Selection { stores, reading, filter, .. } = selection;
        let found = archived_range(stores.reader, reading, filter, bounds)?;
        Ok(found.map(|(file, range)| TablePlace { range, archive: Some(file) }))
    }

    /// Passes the records of `range` to a visitor. `None` if columns are not enough. `restart` is called where the
    /// walk begins anew, because the table was dropped, or gives nothing, because no more of it can be read.
    pub(super) fn walk<V: PartVisitor>(
        &mut self,
        selection: &Selection<'_>,
        bounds: &Bounds,
        range: &Range,
        visitor: &V,
        restart: &dyn Fn(),
    ) -> Result<Option<Vec<V::State>>, TableError> {
        let threads = threads();
        if self.archive.is_none() {
            match selection.stores.reader.walk(&bounds.table, range, threads, selection.go_on, visitor) {
                // The rest is in its archive.
                Err(StoreError::TableGone(_)) => match TablePlace::archived(selection, bounds)? {
                    Some(place) => {
                        restart();
                        *self = place;
                    }
                    None => {
                        restart();
                        return Ok(Some(Vec::new()));
                    }
                },
                walked => return Ok(walked?),
            }
        }
        let Some(file) = &self.archive else { return Ok(Some(Vec::new())) };
        match file.walk(range, threads, selection.go_on, visitor) {
            Ok(states) => Ok(Some(states)),
            Err(error) => {
                // An unreadable part of an archive is reported, and is missing in the answer.
                selection.reading.unread(&bounds.shown(), error);
                restart();
                Ok(Some(Vec::new()))
            }
        }
    }
}
