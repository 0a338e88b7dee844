//! `daytable export --raw`: writes the file again that a source read, byte for byte.
//!
//! Records come newest first, in the order of their times; a file has them in the order of their positions. So the bytes
//! of each record go to a temporary file as they come, with a small entry each in memory, and are copied from there in
//! their order. A file that was rotated is several sources of one path, of which the older comes first.
//!
//! The positions show whether bytes are missing: of days that were dropped, of lines over the limit, of a beginning that
//! was skipped. Then the output has what there is, the missing places are reported, and the command fails.

use super::args::{DataArgs, ReadSources, report_archives};
use super::exit::CliError;
use daytable_model::safe_text::SafeLine;
use daytable_model::time::Ticks;
use daytable_parse::SourceProfile;
use daytable_query::{Filter, select};
use daytable_store::{SourceKind, SourceState};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Places with missing bytes that are reported one by one.
const PLACES_SHOWN: usize = 5;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    sources: ReadSources,
    /// Write the bytes as they were read
    #[arg(long, required = true)]
    raw: bool,
    /// The path of the file, as `daytable sources` shows it
    #[arg(long, value_name = "PATH")]
    source: String,
    /// The file to write, instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The bytes of a record in the temporary file.
struct RecordBytes {
    identity: u64,
    position: u64,
    time: Ticks,
    /// How many bytes lie before the position.
    before: u32,
    length: u32,
    offset: u64,
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let sources = args.sources.open(&args.data)?;
    let spool_path = spool_path(args.output.as_deref());
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| CliError::Write { path, source }
    };
    let spool = spool(&spool_path).map_err(failed(&spool_path))?;
    let (mut records, mut offset, mut written) = (Vec::new(), 0, Ok(()));
    let mut writer = BufWriter::with_capacity(256 << 10, &spool);
    let mut bytes = Vec::new();
    let report = select(&sources.stores(), &Filter::default(), |record| {
        if record.source != args.source {
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
    written.and_then(|()| writer.flush()).map_err(failed(&spool_path))?;
    drop(writer);
    if records.is_empty() {
        report_archives(&report)?;
        return Err(CliError::NotFound(format!("a record of the source {}", SafeLine(&args.source))));
    }
    let states: HashMap<u64, SourceState> =
        sources.reader.sources()?.into_iter().map(|state| (state.identity, state)).collect();
    sort(&mut records, &states);
    let missing = match &args.output {
        Some(path) => {
            let out = File::create(path).map_err(failed(path))?;
            copy(&records, &states, &spool, BufWriter::new(out)).map_err(failed(path))?
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

/// A path for the temporary file, beside the output.
fn spool_path(output: Option<&Path>) -> PathBuf {
    let folder = output.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    let folder =
        folder.map_or_else(|| if output.is_some() { ".".into() } else { std::env::temp_dir() }, Path::to_owned);
    folder.join(format!(".daytable-export-{}", std::process::id()))
}

/// A temporary file without a name: it goes with the process.
fn spool(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// Brings the records in the order of the file: the older source of a path first, and of a source the lower position.
fn sort(records: &mut [RecordBytes], states: &HashMap<u64, SourceState>) {
    let mut firsts: HashMap<u64, (u64, Ticks)> = HashMap::new();
    for record in records.iter() {
        let first = firsts.entry(record.identity).or_insert((record.position, record.time));
        *first = (*first).min((record.position, record.time));
    }
    let begun = |identity: u64| firsts.get(&identity).map(|(_, time)| *time);
    let seen = |identity: u64| states.get(&identity).map(|state| (state.generation, state.seen));
    records.sort_by_key(|record| (begun(record.identity), seen(record.identity), record.identity, record.position));
}

/// Copies the bytes of the records. Returns the places of missing bytes, if the source is a file.
fn copy(
    records: &[RecordBytes],
    states: &HashMap<u64, SourceState>,
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
