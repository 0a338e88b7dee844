//! An open sealed file: footer and index are in memory, columns are read on demand.
//!
//! Opening reads and verifies the end of the file. A column of a row group is read page by page, without the pages
//! that have no wanted rows. An unexpected structure is an error, even if the Parquet reader panics: bytes are
//! verified first, so this concerns forged files, not damaged ones.

use super::bloom::{BloomAnswers, BloomSection};
use super::bytes::{RangeReader, VerifiedBytes};
use super::damage::{damaged, guard};
use super::index::{FileIndex, PartitionRun};
use super::layout::{ColumnLayout, HostFields, PropertyColumn};
use super::tail::open_tail;
use super::{FORMAT, SealedSizes};
use crate::StoreError;
use crate::format::commit_range::FooterCommits;
use daytable_model::key::{DayTable, partition_key};
use daytable_model::time::Ticks;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The footer's key for [`FileHeader`].
pub(crate) const HEADER_KEY: &str = "daytable";
/// The description of the day in the footer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FileHeader {
    pub(crate) format: u32,
    pub(crate) table: String,
    pub(crate) generation: i64,
    pub(crate) rows: u64,
    pub(crate) records: u64,
    pub(crate) content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) commits: Option<FooterCommits>,
    pub(crate) columns: Vec<PropertyColumn>,
}

/// An open sealed file. Cheap to clone.
#[derive(Clone)]
pub struct SealedFile {
    pub(crate) opened: Arc<FileContents>,
    /// Whether the footer's statistics may replace values. Not while the file is compared with its inputs.
    pub(crate) trusts_statistics: bool,
    pub(crate) sizes: SealedSizes,
    /// The host that the file is of, if its records do not name it.
    pub(super) host: Option<Arc<HostFields>>,
}

pub(crate) struct FileContents {
    pub(crate) path: PathBuf,
    pub(super) bytes: Arc<VerifiedBytes>,
    pub(crate) metadata: ParquetMetaData,
    header: FileHeader,
    table: DayTable,
    pub(super) layout: ColumnLayout,
    pub(crate) index: FileIndex,
    pub(super) bloom_answers: BloomAnswers,
}

impl std::fmt::Debug for SealedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SealedFile").field(&self.opened.path).finish()
    }
}

impl SealedFile {
    /// Opens the bytes of `source`. Errors name the file `path`.
    pub fn open(source: Arc<dyn RangeReader>, path: &Path) -> Result<SealedFile, StoreError> {
        let (checked, index_bytes) = open_tail(source, path)?;
        let foreign = |what: &str| StoreError::Foreign(path.into(), what.into());
        let metadata = guard(path, "footer", || {
            let reader = ParquetMetaDataReader::new().with_offset_index_policy(PageIndexPolicy::Required);
            reader.with_column_index_policy(PageIndexPolicy::Optional).parse_and_finish(&checked)
        })?;
        let pairs = metadata.file_metadata().key_value_metadata();
        let header = pairs.into_iter().flatten().find(|pair| pair.key == HEADER_KEY);
        let header =
            header.and_then(|pair| pair.value.as_deref()).ok_or_else(|| foreign("daytable did not write it"))?;
        #[derive(Deserialize)]
        struct FormatField {
            format: u32,
        }
        let unreadable = |error: serde_json::Error| foreign(&error.to_string());
        let FormatField { format } = serde_json::from_str(header).map_err(unreadable)?;
        let (found, known) = (format.into(), FORMAT.into());
        match format.cmp(&FORMAT) {
            Ordering::Greater => return Err(StoreError::NewerFormat { path: path.into(), found, known }),
            Ordering::Less => return Err(StoreError::OlderFormat { path: path.into(), found, known }),
            Ordering::Equal => {}
        }
        let header: FileHeader = serde_json::from_str(header).map_err(unreadable)?;
        let table = DayTable::parse(&header.table).map_err(|error| foreign(&error.to_string()))?;
        let layout = ColumnLayout::of(header.columns.clone());
        let schema = guard(path, "schema", || layout.schema())?;
        if metadata.file_metadata().schema_descr().root_schema() != &*schema {
            return Err(damaged(path, "schema", "its columns differ from their description".into()));
        }
        let index = FileIndex::decode(checked.tail.get(..index_bytes).unwrap_or_default(), checked.data_end);
        let index = index.map_err(|error| damaged(path, "index", error.to_string()))?;
        let of_columns =
            |section: &BloomSection| section.columns.is_empty() || section.columns.len() == header.columns.len() + 1;
        if !index.bloom.iter().all(of_columns) {
            return Err(damaged(path, "index", "its Bloom index has other columns than the footer".into()));
        }
        let rows = |group: usize| usize::try_from(metadata.row_group(group).num_rows()).ok();
        let same = metadata.num_row_groups() == index.groups.len()
            && index.groups.iter().enumerate().all(|(group, count)| rows(group) == Some(*count))
            && index.groups.iter().fold(0, |sum: u64, rows| sum.saturating_add(*rows as u64)) == header.rows;
        if !same {
            return Err(damaged(path, "index", "its row counts differ from the footer".into()));
        }
        let bytes = Arc::new(VerifiedBytes { sums: index.sums.clone(), ..checked });
        let bloom_answers = BloomAnswers::default();
        let opened = FileContents { path: path.into(), bytes, metadata, header, table, layout, index, bloom_answers };
        Ok(SealedFile { opened: Arc::new(opened), trusts_statistics: true, sizes: SealedSizes::default(), host: None })
    }

    /// Opens a file of this machine.
    pub fn open_local(path: &Path) -> Result<SealedFile, StoreError> {
        let file = super::LocalFile::open(path).map_err(StoreError::io(path))?;
        SealedFile::open(Arc::new(file), path)
    }

    /// The same file, read in steps of these sizes.
    pub fn with_sizes(self, sizes: SealedSizes) -> SealedFile {
        SealedFile { sizes, ..self }
    }

    /// The same file, read without trusting the footer's statistics.
    pub(crate) fn doubting(&self) -> SealedFile {
        SealedFile { trusts_statistics: false, ..self.clone() }
    }

    /// The name of the file in errors.
    pub fn path(&self) -> &Path {
        &self.opened.path
    }

    /// The day-table.
    pub fn table(&self) -> &DayTable {
        &self.opened.table
    }

    /// The number of the sealing of that day.
    pub fn generation(&self) -> i64 {
        self.opened.header.generation
    }

    /// Its commits; `None` if their times are not known.
    pub(super) fn commits(&self) -> Option<FooterCommits> {
        self.opened.header.commits
    }

    /// Number of entities, including items.
    pub fn rows(&self) -> u64 {
        self.opened.header.rows
    }

    /// Number of records.
    pub fn records(&self) -> u64 {
        self.opened.header.records
    }

    /// The content checksum, as in the manifest.
    pub fn content(&self) -> &str {
        &self.opened.header.content
    }

    /// Length of the file in bytes.
    pub fn bytes(&self) -> u64 {
        parquet::file::reader::Length::len(&*self.opened.bytes)
    }

    /// Bytes of the footer and the index, which are in memory.
    pub fn tail_bytes(&self) -> usize {
        self.opened.bytes.tail.len()
    }

    /// Where the rows end. Behind them is what tells which rows to read.
    pub fn rows_end(&self) -> u64 {
        let groups = self.opened.metadata.row_groups().iter();
        let ends = groups.flat_map(|group| group.columns()).map(|column| {
            let (start, length) = column.byte_range();
            start.saturating_add(length)
        });
        ends.max().unwrap_or_default()
    }

    /// The oldest and the newest time; `None` in an empty file.
    pub fn times(&self) -> Option<(Ticks, Ticks)> {
        let runs = self.runs();
        Some((runs.iter().map(|run| run.oldest).min()?, runs.iter().map(|run| run.newest).max()?))
    }

    pub(crate) fn index(&self) -> &FileIndex {
        &self.opened.index
    }

    pub(crate) fn runs(&self) -> &[PartitionRun] {
        &self.opened.index.runs
    }

    /// The runs of one partition, newest first.
    pub(crate) fn runs_of(&self, partition: &str) -> &[PartitionRun] {
        let runs = self.runs();
        let start = runs.partition_point(|run| &*run.partition < partition);
        let length = runs[start..].iter().take_while(|run| &*run.partition == partition).count();
        &runs[start..start + length]
    }

    /// The partitions of an instance: its own, and those of its buckets.
    pub fn partitions_of(&self, instance: &str) -> Vec<String> {
        let key = partition_key(instance, None);
        // Only a bucket begins with a key and `~`.
        let is_its = |name: &str| match name.strip_prefix(&*key) {
            Some("") => true,
            Some(bucket) => bucket.len() == 3 && bucket.starts_with('~'),
            None => false,
        };
        let mut names: Vec<String> = Vec::new();
        for run in self.runs() {
            if is_its(&run.partition) && names.last().is_none_or(|last| **last != *run.partition) {
                names.push(run.partition.to_string());
            }
        }
        names
    }

    /// Every partition, in order.
    pub fn partitions(&self) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = self.runs().iter().map(|run| run.partition.clone()).collect();
        names.dedup();
        names
    }

    /// The runs of one row group.
    pub(crate) fn runs_in(&self, group: usize) -> &[PartitionRun] {
        let runs = self.runs();
        let start = runs.partition_point(|run| run.group < group);
        &runs[start..start + runs[start..].partition_point(|run| run.group == group)]
    }

    /// Average bytes of a row of a group: encoded, but not compressed.
    pub(crate) fn row_bytes(&self, group: usize) -> usize {
        let bytes = usize::try_from(self.opened.metadata.row_group(group).total_byte_size()).unwrap_or(0);
        bytes / self.opened.index.groups[group].max(1) + 1
    }
}
