//! Sealing: writes a day's closed files as one Parquet file. The file gets its name only after it was read back and
//! compared.
//!
//! ```text
//! survey ─► write Log20261120.1.parquet.partial ─► sync ─► read back, compare ─► manifest ─► rename ─► sync folder
//! ```
//!
//! A kill at any point leaves a `.partial` file that the next sealing removes, or a finished file that the catalog
//! does not name yet. Neither is data. The inputs are only read.

use super::columns::ColumnSet;
use super::file::{FileHeader, HEADER_KEY, SealedFile};
use super::group::RowGroup;
use super::index::{FileIndex, MinuteCounts, PartitionRun};
use super::layout::ColumnLayout;
use super::merge::{Inputs, RowSlice};
use super::sieve::SieveBuilder;
use super::sum::{self, ContentChecksum};
use super::survey::Survey;
use super::tail::{TAIL_KEY, sum_of, sum_place, tail_line};
use super::writer::ChecksumWriter;
use super::{FORMAT, Manifest, SealedSizes, program};
use crate::StoreError;
use crate::format::catalog::Committed;
use crate::private_file;
use crate::progress::{OnProgress, Phase, Progress};
use crate::sqlite::sync_folder;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::property::Property;
use daytable_model::record::Level;
use daytable_model::stream::STREAM;
use daytable_model::time::Ticks;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The day to seal.
#[derive(Clone, Debug)]
pub struct SealJob {
    /// The day-table.
    pub table: DayTable,
    /// The number of this sealing of the day.
    pub generation: i64,
    /// Its closed files, the oldest generation first. Of equal keys, the row of the later file wins.
    pub inputs: Vec<PathBuf>,
    /// The commits that happened.
    pub committed: Committed,
    /// The path of the new file, ending in `.parquet`.
    pub out: PathBuf,
    /// Sizes of the file's parts.
    pub sizes: SealedSizes,
}

/// Seals a day: see the module's head.
///
/// # Errors
///
/// [`StoreError::Closed`] if `progress` breaks, and every error of the inputs or the output. After an error, no file
/// has the requested name.
pub fn seal(sealing: &SealJob, progress: &mut OnProgress<'_>) -> Result<Manifest, StoreError> {
    let mut partial = sealing.out.clone().into_os_string();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let sealed = write(sealing, &partial, progress).and_then(|manifest| {
        daytable_platform::failpoint!("seal-written");
        manifest.write_beside(&sealing.out)?;
        daytable_platform::failpoint!("seal-manifest");
        std::fs::rename(&partial, &sealing.out).map_err(StoreError::io(&sealing.out))?;
        sync_folder(&sealing.out)?;
        daytable_platform::failpoint!("seal-renamed");
        Ok(manifest)
    });
    if sealed.is_err() {
        // The partial file is not data. If it cannot be removed, the next sealing overwrites it.
        let _ = std::fs::remove_file(&partial);
    }
    sealed
}

/// Counts and checksums, computed while entities are written, and again while they are read back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ContentCounts {
    rows: u64,
    records: u64,
    levels: BTreeMap<Option<Level>, u64>,
    first: Option<(Arc<str>, RowKey)>,
    last: Option<(Arc<str>, RowKey)>,
    times: Option<(Ticks, Ticks)>,
    content: ContentChecksum,
}

impl ContentCounts {
    /// Counts the next row.
    fn add(&mut self, partition: &Arc<str>, key: RowKey, level: Option<Level>) {
        self.rows += 1;
        if key.item() == 0 {
            self.records += 1;
            *self.levels.entry(level).or_default() += 1;
        }
        let time = key.time();
        self.times = Some(self.times.map_or((time, time), |(oldest, newest)| (oldest.min(time), newest.max(time))));
        if self.first.is_none() {
            self.first = Some((partition.clone(), key));
        }
    }

    fn ends_with(&mut self, partition: &Arc<str>, key: RowKey) {
        self.last = Some((partition.clone(), key));
    }
}

fn write(sealing: &SealJob, partial: &Path, progress: &mut OnProgress<'_>) -> Result<Manifest, StoreError> {
    let inputs = Inputs::open(&sealing.table, &sealing.inputs, &sealing.committed, sealing.sizes)?;
    let entities = inputs.entities()?;
    let survey = survey(&inputs, entities, sealing.sizes.group_rows as u64, progress)?;
    let layout = ColumnLayout::choose(&survey, &sealing.sizes);
    let file = private_file::create_anew(partial).map_err(StoreError::io(partial))?;
    let tally = write_file(sealing, &inputs, (entities, survey.values), &layout, file, partial, progress)?;

    let sealed = SealedFile::open_local(partial)?;
    verify(&sealed, &tally, progress)?;
    let (bytes, sha256) = digest(partial)?;
    let key = |key: &Option<(Arc<str>, RowKey)>| key.as_ref().map(|(p, key)| (p.to_string(), key.to_string()));
    let level = |level: Option<Level>| level.map_or("", Level::name).to_owned();
    Ok(Manifest {
        format: FORMAT,
        table: sealing.table.to_string(),
        generation: sealing.generation,
        rows: tally.rows,
        records: tally.records,
        bytes,
        sha256,
        content: tally.content.hex(),
        first_key: key(&tally.first),
        last_key: key(&tally.last),
        first_time: tally.times.map(|(oldest, _)| oldest.to_string()),
        last_time: tally.times.map(|(_, newest)| newest.to_string()),
        levels: tally.levels.iter().map(|(of, records)| (level(*of), *records)).collect(),
        columns: layout.columns,
        program: program(),
    })
}

fn survey(
    inputs: &Inputs,
    entities: u64,
    group_rows: u64,
    progress: &mut OnProgress<'_>,
) -> Result<Survey, StoreError> {
    let (mut survey, mut seen, mut told) = (Survey::default(), 0, 0);
    let share = 8192.0 / (entities as f64).max(1.0);
    inputs.each_part(&mut |part| {
        survey.add(part, share);
        seen += part.len() as u64;
        if seen - told >= group_rows {
            told = seen;
            go_on(progress(Progress { phase: Phase::Survey, done: seen, total: entities }))?;
        }
        Ok(())
    })?;
    if seen != entities {
        return Err(StoreError::Refused(format!("the day's files claim {entities} entities, but contain {seen}")));
    }
    Ok(survey)
}

fn go_on(flow: ControlFlow<()>) -> Result<(), StoreError> {
    if flow.is_break() { Err(StoreError::Closed) } else { Ok(()) }
}

fn write_file(
    sealing: &SealJob,
    inputs: &Inputs,
    (entities, values): (u64, u64),
    layout: &ColumnLayout,
    file: File,
    partial: &Path,
    progress: &mut OnProgress<'_>,
) -> Result<ContentCounts, StoreError> {
    let failed = |error: ParquetError| failed(partial, error);
    let io = |error: io::Error| failed(ParquetError::from(error));
    let properties = layout.properties(sealing.sizes.page_rows).map_err(failed)?;
    let schema = layout.schema().map_err(failed)?;
    let mut out = SerializedFileWriter::new(ChecksumWriter::new(file), schema, Arc::new(properties)).map_err(failed)?;
    let (mut tally, mut index, mut minutes) = (ContentCounts::default(), FileIndex::default(), MinuteCounts::default());
    let mut group = RowGroup::new(sealing.sizes);
    let mut sieve = SieveBuilder::new(sealing.sizes.group_rows);
    let (mut duplicates, mut duplicate_values, mut written_values) = (0, 0, 0);
    let mut flush = |group: &mut RowGroup, tally: &mut ContentCounts| -> Result<(), StoreError> {
        let group = std::mem::replace(group, RowGroup::new(sealing.sizes));
        note(&group, tally, &mut index, &mut minutes);
        index.has_streams |= group.slices.iter().any(|slice| slice.mapped.part.has(STREAM));
        written_values += group.write(&mut out, layout, &mut tally.content, &mut sieve).map_err(failed)?;
        if sieve.end_group(group.rows) {
            write_section(&mut sieve, &mut out, &mut index).map_err(io)?;
        }
        go_on(progress(Progress { phase: Phase::Write, done: tally.rows, total: entities }))
    };
    for partition in inputs.partitions() {
        let mut merge = inputs.merge(&partition, layout);
        while let Some(slice) = merge.next()? {
            let mut left = group.fill(slice);
            while let Some(slice) = left {
                flush(&mut group, &mut tally)?;
                left = group.fill(slice);
            }
        }
        duplicates += merge.duplicates;
        duplicate_values += merge.duplicate_values;
    }
    if group.rows > 0 {
        flush(&mut group, &mut tally)?;
    }
    let came_out = (tally.rows + duplicates, written_values + duplicate_values);
    if came_out != (entities, values) {
        let (rows, of_them) = came_out;
        let what = format!(
            "the day's files contain {entities} entities with {values} values, but {rows} with {of_them} were merged"
        );
        return Err(StoreError::Refused(what));
    }

    write_section(&mut sieve, &mut out, &mut index).map_err(io)?;
    out.flush().map_err(io)?;
    let data_end = out.bytes_written() as u64;
    index.sums = out.inner().sums().into();
    index.minutes = minutes.finish();
    let index = index.encode().map_err(io)?;
    out.write_all(&index).map_err(io)?;
    let header = FileHeader {
        format: FORMAT,
        table: sealing.table.to_string(),
        generation: sealing.generation,
        rows: tally.rows,
        records: tally.records,
        content: tally.content.hex(),
        columns: layout.columns.clone(),
    };
    let header = serde_json::to_string(&header).map_err(|error| io(error.into()))?;
    out.append_key_value_metadata(KeyValue::new(HEADER_KEY.into(), header));
    let line = tail_line(0, data_end, index.len() as u64);
    out.append_key_value_metadata(KeyValue::new(TAIL_KEY.into(), line));
    let file = out.into_inner().map_err(failed)?.finish().map_err(io)?;

    // The tail contains its own checksum, so that is written last.
    let length = file.metadata().map_err(io)?.len();
    let mut tail = vec![0; usize::try_from(length - data_end).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut tail, data_end).map_err(io)?;
    let place = sum_place(&tail).ok_or_else(|| failed(ParquetError::General("its footer has no checksum".into())))?;
    let at = data_end + place.start as u64;
    let sum = sum_of(&tail, place);
    file.write_all_at(format!("{sum:016x}").as_bytes(), at).map_err(io)?;
    file.sync_all().map_err(io)?;
    Ok(tally)
}

/// Writes the next section of the sieve.
fn write_section(
    sieve: &mut SieveBuilder,
    out: &mut SerializedFileWriter<ChecksumWriter>,
    index: &mut FileIndex,
) -> io::Result<()> {
    if let Some((bytes, section)) = sieve.take_section(out.bytes_written() as u64)? {
        out.write_all(&bytes)?;
        index.sieve.push(section);
    }
    Ok(())
}

/// Counts the rows of a group before it is written.
fn note(group: &RowGroup, tally: &mut ContentCounts, index: &mut FileIndex, minutes: &mut MinuteCounts) {
    let number = index.groups.len();
    index.groups.push(group.rows);
    let mut at = 0;
    for RowSlice { partition, mapped, rows } in &group.slices {
        let keys = &mapped.part.keys()[rows.clone()];
        for (key, row) in keys.iter().zip(rows.clone()) {
            let level = mapped.part.level(row);
            tally.add(partition, *key, level);
            if key.item() == 0 {
                minutes.add(key.time(), level);
            }
        }
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { continue };
        tally.ends_with(partition, *last);
        let (start, end) = (at, at + rows.len());
        at = end;
        match index.runs.last_mut() {
            Some(run) if run.group == number && run.partition == *partition => {
                run.rows.end = end;
                run.oldest = last.time();
            }
            _ => {
                let (newest, oldest) = (first.time(), last.time());
                index.runs.push(PartitionRun {
                    partition: partition.clone(),
                    group: number,
                    rows: start..end,
                    newest,
                    oldest,
                });
            }
        }
    }
}

/// Reads the file back and compares the counts, the order, and the checksum of every value.
fn verify(sealed: &SealedFile, written: &ContentCounts, progress: &mut OnProgress<'_>) -> Result<(), StoreError> {
    let doubting = sealed.doubting();
    let mut read = ContentCounts::default();
    let differs =
        |what: String| StoreError::Refused(format!("{} does not match its inputs: {what}", sealed.path().display()));
    for (group, rows) in sealed.index().groups.iter().enumerate() {
        doubting.check_partitions(group)?;
        let all = 0..*rows;
        let block = doubting.block(group, &[all], ColumnSet::All)?;
        let mut sums = vec![0u64; block.len()];
        for column in 0..block.width() {
            let (name, kind) = block.name(column);
            let property = sum::of_property(name, kind);
            let of_value = |value: Property<'_>| sum::of_value(property, value);
            block.each_value(column, of_value, |row, value| sums[row] = sums[row].wrapping_add(value));
        }
        for run in sealed.runs_in(group) {
            let partition = sum::of_partition(&run.partition);
            for row in run.rows.clone() {
                let (key, level) = (block.key(row), block.level(row));
                let is_behind = match &read.last {
                    Some((last, last_key)) => (&**last, *last_key) < (&*run.partition, key),
                    None => true,
                };
                if !is_behind {
                    return Err(differs(format!("row {row} of row group {group} is out of order")));
                }
                read.add(&run.partition, key, level);
                read.ends_with(&run.partition, key);
                read.content.add(sum::entity(partition, &key, level, sums[row]));
            }
        }
        go_on(progress(Progress { phase: Phase::Compare, done: read.rows, total: written.rows }))?;
    }
    if read != *written {
        return Err(differs(format!(
            "it has {} entities, checksum {}, where {} were written, checksum {}",
            read.rows,
            read.content.hex(),
            written.rows,
            written.content.hex()
        )));
    }
    Ok(())
}

/// The length and SHA-256 of a file.
fn digest(path: &Path) -> Result<(u64, String), StoreError> {
    let io = |error| StoreError::io(path)(error);
    let mut file = File::open(path).map_err(io)?;
    let (mut digest, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 18]);
    loop {
        let read = file.read(&mut buffer).map_err(io)?;
        if read == 0 {
            break;
        }
        digest.update(&buffer[..read]);
        bytes += read as u64;
    }
    let hex = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((bytes, hex))
}

/// Classifies an error of the Parquet writer.
fn failed(path: &Path, error: ParquetError) -> StoreError {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) if error.kind() == io::ErrorKind::StorageFull => StoreError::Full(path.into()),
            Ok(error) => StoreError::io(path)(*error),
            Err(error) => StoreError::Refused(format!("{}: {error}", path.display())),
        },
        error => StoreError::Refused(format!("{}: {error}", path.display())),
    }
}
