//! What is asked of the parts of a walk before they are read: which of them may have wanted records, and which columns'
//! value counts are looked at.

use crate::StoreError;
use crate::format::page::{LevelMinute, PageHeader, PageSections, has_streams, level_minutes};
use crate::format::sealed::SealedFile;
use crate::format::sealed::index::PartitionRun;
use daytable_model::needle::Needle;
use daytable_model::property::PropertyKind;
use daytable_model::time::Ticks;
use std::borrow::Cow;
use std::sync::Arc;

/// Which parts of a table may have wanted records. Every part does, if nothing else is said.
pub trait PartFilter: Sync {
    /// Whether some rows may be wanted; of a page, by its header.
    fn wants(&self, _rows: RowsOf<'_>, _header: Option<&PageHeader>) -> bool {
        true
    }

    /// Whether rows of a partition are wanted that are in a page with those of others.
    fn wants_partition(&self, _partition: &str) -> bool {
        true
    }

    /// The texts without which a page may not be wanted.
    fn needles(&self) -> Vec<&Needle> {
        Vec::new()
    }

    /// Whether rows of a page may be wanted that lacks the texts which `lacks` accepts by their numbers.
    fn may_match_without(&self, _lacks: &dyn Fn(usize) -> bool) -> bool {
        true
    }

    /// Whether rows of a page may be wanted, judged before its columns are read.
    fn wants_page(&self, _page: &PageSections<'_>) -> bool {
        true
    }

    /// Whether rows of a row group may be wanted, judged before its columns are read.
    ///
    /// # Errors
    ///
    /// A damaged file, which ends the walk.
    fn wants_group(&self, _file: &SealedFile, _group: usize) -> Result<bool, StoreError> {
        Ok(true)
    }
}

/// Wants every part.
#[derive(Clone, Copy, Debug)]
pub struct EveryPart;

impl PartFilter for EveryPart {}

/// Accepts columns by the name of their property and their kind.
pub type ColumnTest<'t> = Box<dyn Fn(&str, PropertyKind) -> bool + Sync + 't>;

/// What some rows have in common.
#[derive(Clone, Copy, Debug)]
pub struct RowsOf<'r> {
    /// Their partition, if they are of one.
    pub partition: Option<&'r str>,
    /// Their oldest and newest time, or earlier and later ones.
    pub times: (Ticks, Ticks),
    /// Whether some may have the note of a stream.
    pub have_streams: bool,
}

impl<'r> RowsOf<'r> {
    pub(super) fn page(partition: Option<&'r str>, header: &PageHeader) -> RowsOf<'r> {
        RowsOf {
            partition,
            times: (header.last.time(), header.first.time()),
            have_streams: has_streams(&header.levels),
        }
    }

    pub(super) fn run(run: &'r PartitionRun, have_streams: bool) -> RowsOf<'r> {
        RowsOf { partition: Some(&run.partition), times: (run.oldest, run.newest), have_streams }
    }
}

/// Numbers of records, which may replace reading them.
#[derive(Clone, Copy, Debug)]
pub enum RecordNumbers<'n> {
    /// By level and minute, as in the header of a page, and of all.
    Encoded(&'n [u8], u32),
    /// By level and minute, as in the index of a sealed file.
    Minutes(&'n [LevelMinute]),
    /// By partition, of all levels and times.
    Partitions(&'n [(Arc<str>, u64)]),
}

impl<'n> RecordNumbers<'n> {
    /// Those by level and minute; `None` if there are none, or they cannot be read.
    pub fn minutes(self) -> Option<Cow<'n, [LevelMinute]>> {
        match self {
            RecordNumbers::Encoded(levels, _) => level_minutes(levels).collect::<Result<_, _>>().ok().map(Cow::Owned),
            RecordNumbers::Minutes(minutes) => Some(minutes.into()),
            RecordNumbers::Partitions(_) => None,
        }
    }
}

/// Whether columns alone are enough, or the keys of the rows as well. Their times are always there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeedsKeys {
    /// Keys are needed.
    Yes,
    /// Times are enough.
    No,
}
