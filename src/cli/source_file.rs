//! A file as its source read it: what `daytable export --raw --source PATH` writes.
//!
//! Records come newest first, in the order of their times; a file has them in the order of their positions. So the bytes
//! of each record go to a temporary file as they come, with a small entry each in memory, and are copied from there in
//! their order. A file that was rotated is several sources of one path, of which the older comes first.
//!
//! The positions show whether bytes are missing: of days that were dropped, of lines over the limit, of a beginning that
//! was skipped. Then the output has what there is, the missing places are reported, and the command fails.

use super::args::{OpenSources, report_archives};
use super::atomic_file::AtomicFile;
use super::exit::CliError;
use daytable_model::safe_text::SafeLine;
use daytable_model::source_id::SourceId;
use daytable_model::time::Ticks;
use daytable_parse::SourceProfile;
use daytable_platform::scratch::create_unnamed;
use daytable_query::{Filter, select};
use daytable_store::{SourceKind, SourceState, SourceStatus};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Places with missing bytes that are reported one by one.
const PLACES_SHOWN: usize = 5;

/// The bytes of a record in the temporary file.
struct RecordBytes {
    identity: SourceId,
    position: u64,
    time: Ticks,
    /// How many bytes lie before the position.
    before: u32,
    length: u32,
    offset: u64,
}

/// Writes the file with this path to `output`, or to standard output.
pub(super) fn write(sources: &OpenSources, source: &str, output: Option<&Path>) -> Result<(), CliError> {
    let spool_folder = spool_folder(output);
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| CliError::Write { path, source }
    };
    let spool = create_unnamed(&spool_folder).map_err(failed(&spool_folder))?;
    let (mut records, mut offset, mut written) = (Vec::new(), 0, Ok(()));
    let mut writer = BufWriter::with_capacity(256 << 10, &spool);
    let mut bytes = Vec::new();
    let report = select(&sources.stores(), &Filter::default(), |record| {
        if record.source != source {
            return ControlFlow::Continue(());
        }
        bytes.clear();
        let before = record.write_source_bytes(&mut bytes);
        let key = record.row_key;
        records.push(RecordBytes {
            identity: key.source(),
            position: key.position(),
            time: key.time(),
            // A record has at most 2 MiB, and six times that where every byte is escaped.
            before: before as u32,
            length: bytes.len() as u32,
            offset,
        });
        offset += bytes.len() as u64;
        written = writer.write_all(&bytes);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written.and_then(|()| writer.flush()).map_err(failed(&spool_folder))?;
    drop(writer);
    if records.is_empty() {
        report_archives(&report)?;
        return Err(CliError::NotFound(format!("a record of the source {}", SafeLine(source))));
    }
    let states: HashMap<SourceId, SourceState> =
        sources.reader.sources()?.into_iter().map(|state| (state.identity, state)).collect();
    sort(&mut records, &states);
    let missing = match output {
        Some(path) => {
            let out = AtomicFile::create(path)?;
            let missing = copy(&records, &states, &spool, BufWriter::new(out.file())).map_err(failed(path))?;
            out.finish()?;
            missing
        }
        None => copy(&records, &states, &spool, BufWriter::new(io::stdout().lock())).map_err(CliError::output)?,
    };
    report_archives(&report)?;
    if missing.is_empty() {
        return Ok(());
    }
    let more = missing.len().saturating_sub(PLACES_SHOWN);
    let shown: Vec<&str> = missing.iter().take(PLACES_SHOWN).map(String::as_str).collect();
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    Err(CliError::Incomplete(format!("bytes of the file are not stored: {}{more}", shown.join(", "))))
}

/// The folder of the temporary file: that of the output.
fn spool_folder(output: Option<&Path>) -> PathBuf {
    match output.map(Path::parent) {
        Some(Some(folder)) if !folder.as_os_str().is_empty() => folder.into(),
        Some(_) => ".".into(),
        None => std::env::temp_dir(),
    }
}

/// Brings the records in the order of the file: the source of a path that began first comes first, and of a source the
/// lower position. Times of records decide between sources of one start alone: of a file that was emptied and written anew.
/// The source that has the path now is the last one.
fn sort(records: &mut [RecordBytes], states: &HashMap<SourceId, SourceState>) {
    let mut firsts: HashMap<SourceId, (u64, Ticks)> = HashMap::new();
    for record in records.iter() {
        let first = firsts.entry(record.identity).or_insert((record.position, record.time));
        *first = (*first).min((record.position, record.time));
    }
    let first_time = |identity: SourceId| firsts.get(&identity).map(|(_, time)| *time);
    let seen = |identity: SourceId| states.get(&identity).map(|state| (state.generation, state.seen));
    let is_live = |identity: SourceId| states.get(&identity).is_some_and(|state| state.status == SourceStatus::Live);
    records.sort_by_key(|record| {
        let identity = record.identity;
        (is_live(identity), identity.start(), first_time(identity), seen(identity), identity, record.position)
    });
}

/// Copies the bytes of the records. Returns the places of missing bytes, if the source is a file.
fn copy(
    records: &[RecordBytes],
    states: &HashMap<SourceId, SourceState>,
    spool: &File,
    mut out: impl Write,
) -> io::Result<Vec<String>> {
    let mut missing = Vec::new();
    let mut bytes = Vec::new();
    for of_source in records.chunk_by(|a, b| a.identity == b.identity) {
        let state = of_source.first().and_then(|record| states.get(&record.identity));
        let is_file = state.is_some_and(|state| state.kind != SourceKind::Journal);
        let mut end = 0;
        let mut note = |from: u64, to: u64| {
            if is_file && from < to {
                missing.push(format!("{from} to {to}"));
            }
        };
        for record in of_source {
            bytes.resize(record.length as usize, 0);
            spool.read_exact_at(&mut bytes, record.offset)?;
            out.write_all(&bytes)?;
            let start = record.position.saturating_sub(record.before.into());
            note(end, start);
            // Where lines of records come by turns, the first of them has the bytes of all.
            end = end.max(start + u64::from(record.length));
        }
        if let Some(state) = state.filter(|_| is_file) {
            let profile = SourceProfile::restore(&state.profile);
            out.write_all(profile.gap().as_bytes())?;
            note(end + profile.gap().len() as u64, state.position);
        }
    }
    out.flush()?;
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_that_has_the_path_now_is_the_last() {
        let record = |identity: u64, seconds| RecordBytes {
            identity: identity.into(),
            position: 0,
            time: Ticks::UNIX_EPOCH.plus(std::time::Duration::from_secs(seconds)),
            before: 0,
            length: 1,
            offset: 0,
        };
        // After a kill, the new file was read before the rotated one.
        let mut records = [record(1, 5), record(2, 7), record(3, 4)];
        let state = |identity: u64, status| {
            let identity = SourceId::from(identity);
            let state = SourceState::new(identity, SourceKind::Tail, "tail".into(), "/a.log".into());
            (identity, SourceState { status, ..state })
        };
        let states = [(1, SourceStatus::Live), (2, SourceStatus::Rotated), (3, SourceStatus::Ended)];
        sort(&mut records, &states.map(|(identity, status)| state(identity, status)).into());
        assert_eq!(records.map(|record| record.identity), [3, 2, 1].map(SourceId::from));
    }
}
