//! Sealing: writes a day's closed files as one Parquet file. The file gets its name only after it was read back and
//! compared.
//!
//! ```text
//! survey ─► write Log20261120.1.parquet.partial ─► sync ─► read back, compare ─► manifest ─► rename ─► sync folder
//! ```
//!
//! Threads of a lower priority survey parts of the day, encode row groups and compare them, a few at once; what they make is
//! used in its order, so the bytes of the file do not depend on them.
//!
//! A kill at any point leaves a `.partial` file that the next sealing removes, or a finished file that the catalog
//! does not name yet. Neither is data. The inputs are only read.

use super::bloom::BloomBuilder;
use super::compare;
use super::file::{FileHeader, HEADER_KEY, SealedFile};
use super::gather::Gatherer;
use super::group::{EncodedGroup, GroupFormat, RowGroup};
use super::index::{FileIndex, MinuteCounts, PartitionRun};
use super::layout::ColumnLayout;
use super::mapped::RowSlice;
use super::merge::{ClaimedEntities, Inputs};
use super::open_day::{OpenInput, SegmentRows, ShuffleWriter, Surveyed};
use super::slice::TimeSlice;
use super::sum::{ContentChecksum, ContentCounts};
use super::survey::Survey;
use super::tail::{TAIL_KEY, sum_of, sum_place, tail_line};
use super::writer::ChecksumWriter;
use super::{FORMAT, Manifest, SealedSizes, program};
use crate::StoreError;
use crate::format::catalog::Committed;
use crate::format::commit_range::SealedCommits;
use crate::private_file;
use crate::progress::{OnProgress, Phase, Progress, go_on};
use crate::sqlite::sync_folder;
use crate::worker_pool::WorkerPool;
use daytable_model::column_name::KnownNames;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::record::Level;
use daytable_model::stream::STREAM;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Slices of fewer rows are gathered in blocks.
const GATHERED_ROWS: usize = 64;

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
    /// Names of columns that other files of the table have.
    pub names: Arc<KnownNames>,
}

/// What a sealing wrote.
#[derive(Clone, Debug)]
pub struct SealedDay {
    /// The manifest of the file.
    pub manifest: Manifest,
    /// Entities that the pages had more than once, beyond those that commits wrote more than once: an earlier daytable merged
    /// pages twice. The sealed file has each once.
    pub copies: u64,
}

/// Seals a day: see the module's head.
///
/// # Errors
///
/// [`StoreError::Closed`] if `progress` breaks, and every error of the inputs or the output. After an error, no file
/// has the requested name.
pub fn seal(sealing: &SealJob, progress: &mut OnProgress<'_>) -> Result<SealedDay, StoreError> {
    seal_with(sealing, progress, |partial, progress| {
        let inputs = Inputs::open(&sealing.table, &sealing.inputs, &sealing.committed, sealing.sizes)?;
        let claimed = inputs.entities()?;
        write(sealing, inputs, Some(claimed), partial, progress)
    })
}

/// Seals some times of a day whose files may go on: `pages` hold snapshots of them, and `sealing.committed` was read after
/// these began. The inputs of `sealing` are not read.
///
/// # Errors
///
/// As for [`seal`].
pub(crate) fn seal_slice(
    sealing: &SealJob,
    pages: Vec<OpenInput>,
    slice: TimeSlice,
    progress: &mut OnProgress<'_>,
) -> Result<Manifest, StoreError> {
    let sealed = seal_with(sealing, progress, |partial, progress| {
        write(sealing, Inputs::sliced(pages, slice, &sealing.committed), None, partial, progress)
    });
    Ok(sealed?.manifest)
}

fn seal_with(
    sealing: &SealJob,
    progress: &mut OnProgress<'_>,
    write: impl FnOnce(&Path, &mut OnProgress<'_>) -> Result<SealedDay, StoreError>,
) -> Result<SealedDay, StoreError> {
    let mut partial = sealing.out.clone().into_os_string();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let sealed = write(&partial, progress).and_then(|sealed| {
        daytable_platform::failpoint!("seal-written");
        sealed.manifest.write_beside(&sealing.out)?;
        daytable_platform::failpoint!("seal-manifest");
        std::fs::rename(&partial, &sealing.out).map_err(StoreError::io(&sealing.out))?;
        sync_folder(&sealing.out)?;
        daytable_platform::failpoint!("seal-renamed");
        Ok(sealed)
    });
    if sealed.is_err() {
        // The partial file is not data. If it cannot be removed, the next sealing overwrites it.
        let _ = std::fs::remove_file(&partial);
    }
    sealed
}

/// Writes the rows of `inputs`, which say how many entities they have if they are whole files.
fn write(
    sealing: &SealJob,
    mut inputs: Inputs,
    claimed: Option<ClaimedEntities>,
    partial: &Path,
    progress: &mut OnProgress<'_>,
) -> Result<SealedDay, StoreError> {
    // How many values are sampled of a part of a day is as for a small day.
    let (survey, entities) = survey(&mut inputs, claimed.map_or(0, |claimed| claimed.left), sealing, progress)?;
    let claimed = claimed.unwrap_or(ClaimedEntities { left: entities, written: entities });
    if entities < claimed.left {
        let what = format!("the day's files claim {} entities, but contain {entities}", claimed.left);
        return Err(StoreError::Refused(what));
    }
    let copies = entities - claimed.left;
    let layout = ColumnLayout::choose(&survey, entities, &sealing.sizes, &sealing.names);
    let file = private_file::create_anew(partial).map_err(StoreError::io(partial))?;
    let tally = write_file(sealing, &inputs, (entities, survey.values), &layout, file, partial, progress)?;
    if copies > 0 {
        // Equal keys are one entity: there cannot be more of them than commits wrote.
        if tally.rows > claimed.written {
            let (rows, written) = (tally.rows, claimed.written);
            let what = format!("the day's files contain {rows} different entities, but {written} were written");
            return Err(StoreError::Refused(what));
        }
        let (table, rows) = (&sealing.table, tally.rows);
        tracing::warn!(%table, rows, copies, "the day had pages that were merged more than once: the copies were left out");
    }

    let sealed = SealedFile::open_local(partial)?;
    let (bytes, sha256) = compare::compare(&sealed, &tally, progress)?;
    let key = |key: &Option<(Arc<str>, RowKey)>| key.as_ref().map(|(p, key)| (p.to_string(), key.to_string()));
    let level = |level: Option<Level>| level.map_or("", Level::name).to_owned();
    let manifest = Manifest {
        format: FORMAT,
        table: sealing.table.to_string(),
        generation: sealing.generation,
        rows: tally.rows,
        records: tally.records,
        bytes,
        sha256,
        content: tally.content.hex(),
        commits: inputs.commits()?.and_then(SealedCommits::of),
        first_key: key(&tally.first),
        last_key: key(&tally.last),
        first_time: tally.times.map(|(oldest, _)| oldest.to_string()),
        last_time: tally.times.map(|(_, newest)| newest.to_string()),
        levels: tally.levels.iter().map(|(of, records)| (level(*of), *records)).collect(),
        columns: layout.columns,
        program: program(),
        home: None,
    };
    Ok(SealedDay { manifest, copies })
}

/// Surveys the day, and takes shared pages apart: see [`super::open_day`]. Also returns the number of its entities; it should
/// be `claimed`.
fn survey(
    inputs: &mut Inputs,
    claimed: u64,
    sealing: &SealJob,
    progress: &mut OnProgress<'_>,
) -> Result<(Survey, u64), StoreError> {
    let (mut survey, mut seen, mut reported) = (Survey::default(), 0, 0);
    let share = 8192.0 / (claimed as f64).max(1.0);
    let folder = sealing.out.parent().unwrap_or(&sealing.out);
    let targets = inputs.targets()?;
    let mut found: Vec<_> = targets.iter().map(|targets| (ShuffleWriter::new(targets.clone()), Vec::new())).collect();
    let mut add = |(number, surveyed): (usize, Result<Surveyed, StoreError>)| {
        let mut surveyed = surveyed?;
        let (writer, small) = &mut found[number];
        writer.take(&mut surveyed, small, folder)?;
        seen += surveyed.entities;
        survey.append(surveyed.survey);
        if seen - reported >= sealing.sizes.group_rows as u64 {
            reported = seen;
            go_on(progress(Progress { phase: Phase::Survey, done: seen, total: claimed.max(seen) }))?;
        }
        Ok(())
    };
    let surveyed = WorkerPool::with(|pool| {
        let mut jobs = pool.in_order();
        inputs.each_chunk(&mut |number, chunk| {
            let targets = &targets[number];
            jobs.run(move || (number, targets.survey(chunk, share))).map_or(Ok(()), &mut add)
        })?;
        std::iter::from_fn(|| jobs.next()).try_for_each(&mut add)
    });
    surveyed.map_err(StoreError::io(&sealing.out))??;
    inputs.keep(found);
    Ok((survey, seen))
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
    let (properties, schema) = (Arc::new(properties), schema);
    let format =
        GroupFormat { schema: Arc::new(SchemaDescriptor::new(schema.clone())), properties: properties.clone() };
    let mut out = SerializedFileWriter::new(ChecksumWriter::new(file), schema, properties).map_err(failed)?;
    let (mut tally, mut index, mut minutes) = (ContentCounts::default(), FileIndex::default(), MinuteCounts::default());
    let (mut counts, mut bloom) = (Vec::new(), BloomBuilder::new(sealing.sizes.group_rows));
    let (mut written, mut written_values) = (0, 0);
    let mut append =
        |encoded: parquet::errors::Result<EncodedGroup>, content: &mut ContentChecksum, index: &mut FileIndex| {
            let mut group = encoded.map_err(failed)?;
            group.append(&mut out).map_err(failed)?;
            written_values += group.values;
            written += group.rows as u64;
            group.entities.iter().for_each(|entity| content.add(*entity));
            counts.push(std::mem::take(&mut group.counts));
            if bloom.end_group(group.words, group.rows) {
                write_section(&mut counts, &mut bloom, &mut out, index).map_err(io)?;
            }
            go_on(progress(Progress { phase: Phase::Write, done: written, total: entities }))
        };
    let merged = WorkerPool::with(|pool| {
        let mut jobs = pool.in_order();
        let merged = merge(inputs, layout, sealing.sizes, pool, &mut |group| {
            note(&group, &mut tally, &mut index, &mut minutes);
            let format = &format;
            let oldest = jobs.run(move || group.encode(format, layout));
            oldest.map_or(Ok(()), |oldest| append(oldest, &mut tally.content, &mut index))
        })?;
        while let Some(group) = jobs.next() {
            append(group, &mut tally.content, &mut index)?;
        }
        Ok::<_, StoreError>(merged)
    });
    let (duplicates, duplicate_values) = merged.map_err(StoreError::io(partial))??;
    let came_out = (tally.rows + duplicates, written_values + duplicate_values);
    if came_out != (entities, values) {
        let (rows, of_them) = came_out;
        let what = format!(
            "the day's files contain {entities} entities with {values} values, but {rows} with {of_them} were merged"
        );
        return Err(StoreError::Refused(what));
    }

    write_section(&mut counts, &mut bloom, &mut out, &mut index).map_err(io)?;
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
        commits: inputs.commits()?,
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

/// Passes the row groups of the day to `each`, in their order. Returns the number of rows that a later one with the same key
/// replaced, and of their values.
fn merge<'j>(
    inputs: &Inputs,
    layout: &'j ColumnLayout,
    sizes: SealedSizes,
    pool: &WorkerPool<'j>,
    each: &mut dyn FnMut(RowGroup) -> Result<(), StoreError>,
) -> Result<(u64, u64), StoreError> {
    let (mut duplicates, mut duplicate_values) = (0, 0);
    let mut group = RowGroup::new(sizes);
    let mut add = |slice: RowSlice| {
        let mut left = group.fill(slice);
        while let Some(slice) = left {
            each(std::mem::replace(&mut group, RowGroup::new(sizes)))?;
            left = group.fill(slice);
        }
        Ok::<_, StoreError>(())
    };
    let (mut segments, mut next) = (pool.in_order(), 0);
    let mut slices = VecDeque::new();
    let mut gatherer = Gatherer::new(layout);
    for partition in inputs.partitions() {
        if let Some(pages) = inputs.shuffled(&partition) {
            gatherer.take().into_iter().try_for_each(&mut add)?;
            while slices.is_empty() {
                while next < pages.segments() && !segments.is_full() {
                    let (pages, segment) = (pages.clone(), next);
                    segments.run(move || pages.rows(segment, layout));
                    next += 1;
                }
                let Some(rows) = segments.next() else { break };
                let SegmentRows { slices: found, duplicates: rows, duplicate_values: values } = rows?;
                slices.extend(found);
                duplicates += rows;
                duplicate_values += values;
            }
            while let Some(slice) = slices.pop_front_if(|slice: &mut RowSlice| slice.partition == partition) {
                add(slice)?;
            }
            continue;
        }
        let mut merge = inputs.merge(&partition, layout);
        while let Some(slice) = merge.next()? {
            if slice.rows.len() < GATHERED_ROWS {
                slice.rows.for_each(|row| gatherer.push(&slice.partition, &slice.mapped, row));
                if !gatherer.is_full() {
                    continue;
                }
                gatherer.take().into_iter().try_for_each(&mut add)?;
            } else {
                gatherer.take().into_iter().try_for_each(&mut add)?;
                add(slice)?;
            }
        }
        duplicates += merge.duplicates;
        duplicate_values += merge.duplicate_values;
    }
    gatherer.take().into_iter().try_for_each(&mut add)?;
    if group.rows > 0 {
        each(group)?;
    }
    Ok((duplicates, duplicate_values))
}

/// Writes the next section of the Bloom index, and before it the value counts of its row groups.
fn write_section(
    counts: &mut Vec<Vec<u8>>,
    bloom: &mut BloomBuilder,
    out: &mut SerializedFileWriter<ChecksumWriter>,
    index: &mut FileIndex,
) -> io::Result<()> {
    for of_group in counts.drain(..) {
        let start = out.bytes_written() as u64;
        out.write_all(&of_group)?;
        index.counts.push(start..start + of_group.len() as u64);
    }
    if let Some((bytes, section)) = bloom.take_section(out.bytes_written() as u64)? {
        out.write_all(&bytes)?;
        index.bloom.push(section);
    }
    Ok(())
}

/// Counts the rows of a group before it is written.
fn note(group: &RowGroup, tally: &mut ContentCounts, index: &mut FileIndex, minutes: &mut MinuteCounts) {
    let number = index.groups.len();
    index.has_streams |= group.may_have(STREAM);
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
