//! Files that are read once, from start to end, plain or compressed.
//!
//! They are identified as followed files are. The same file again, or a copy of it under a derived name, adds no
//! record. A file that has grown adds its new lines, also one that was followed before. A file that lacks the newest
//! lines is read on at the last line that it still has, if that has a time. A file that is followed now is left to its
//! follower. An unfinished last line is a record, because an import does not wait for the rest, unless a follower did.
//! A file that begins as an export of the journal has entries instead of lines. A file of binary data is refused.
//! The caller opens the files ([`ImportFile`]), so an import reads what its caller may read.

use super::binary_data::binary_reason;
use super::file_content::{FileContent, is_utf16, open_file};
use super::file_reader::{FileReader, ReadContext, ReadOutcome, Rereading, TailEnd};
use super::identity::{MARK_BYTES_MAX, head_of};
use super::imported_sources::{self, ImportedSource};
use super::options::TailOptions;
use super::search::{before_missing_lines, time_of_line};
use super::source_index::SourceIndex;
use crate::batcher::Batcher;
use crate::counters::SourceCounters;
use crate::journal::export;
use crate::journal::record::JournalReading;
use crate::route::Router;
use daytable_model::path_text::PathText;
use daytable_model::time::Ticks;
use daytable_parse::{FormatChoice, ParseOptions, SourceProfile};
use daytable_store::{
    Ack, CommitQueue, Ledger, SourceKind, SourceReader, SourceState, SourceStatus, Submission, SubmitError,
};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Files without times that an import names.
pub const UNTIMED_FILES_MAX: usize = 5;
/// Bytes of rows that are submitted at once.
const SUBMISSION_BYTES: usize = 4 << 20;

/// An open file, and the path under which it is known. Whoever opened the file may read it.
#[derive(Debug)]
pub struct ImportFile {
    /// The absolute path.
    pub path: PathBuf,
    /// The file.
    pub file: File,
}

impl ImportFile {
    /// Opens a file.
    pub fn open(path: &Path) -> io::Result<ImportFile> {
        let file = open_file(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
        }
        Ok(ImportFile { path: std::fs::canonicalize(path)?, file })
    }
}

/// The progress of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportProgress {
    /// Files that are complete, and the number of all files.
    pub files: usize,
    /// See `files`.
    pub files_total: usize,
    /// Bytes on disk that were read or are known already, and the bytes of all files.
    pub bytes: u64,
    /// See `bytes`.
    pub bytes_total: u64,
    /// New records.
    pub records: u64,
    /// New records that went to today's table, because the day of their time had expired.
    pub late_records: u64,
    /// Files that are followed, and were left to their follower.
    pub followed: usize,
    /// The first files with new records of which none has a time although something looks like one; at most
    /// [`UNTIMED_FILES_MAX`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untimed: Vec<UntimedFile>,
}

/// A file of which no record has a time, although something looks like one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UntimedFile {
    /// Its path. Bytes that are not UTF-8 are written `\xFF`.
    pub path: String,
    /// The name of a field, or a part of a text.
    pub likely_time: String,
}

/// The result of an import.
#[derive(Debug, Default)]
pub struct ImportSummary {
    /// The progress; all of it is on disk.
    pub progress: ImportProgress,
    /// Files that could not be read to their end. Their records so far are kept, and another import reads on from
    /// there.
    pub failed: Vec<(PathBuf, io::Error)>,
}

impl ImportSummary {
    /// The error of each file that could not be read to its end.
    pub fn errors(self) -> impl Iterator<Item = ImportError> {
        self.failed.into_iter().map(|(path, source)| ImportError::Read { path, source })
    }
}

/// An import ended early. Its records so far are kept, and the same import reads on from there.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A commit failed, as on a full disk, or the store was closed.
    #[error("the store refused the records: {0}")]
    Refused(#[from] SubmitError),
    /// A file could not be read to its end.
    #[error("failed to read {}: {source}", .path.escaped())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// Reads files to their end and waits until everything is on disk. `options` has the settings for lines; its patterns
/// are not used. `progress` is called after each chunk.
pub fn import(
    files: Vec<ImportFile>,
    options: &TailOptions,
    router: &Router,
    host: &str,
    queue: &CommitQueue,
    mut progress: impl FnMut(ImportProgress),
) -> Result<ImportSummary, ImportError> {
    let (epoch, sources) = queue.sources();
    let (outcomes, results) = channel();
    let size = |file: &ImportFile| file.file.metadata().map_or(0, |metadata| metadata.len());
    let mut import = Importer {
        options,
        router,
        host,
        queue,
        epoch,
        known: SourceIndex::new(sources.into_iter().filter(|state| state.kind != SourceKind::Journal), router.host()),
        sources: queue.source_reader(),
        batcher: Batcher::default(),
        newest: None,
        buffer: Vec::new(),
        counters: SourceCounters::default(),
        outcomes,
        waiting: 0,
        results,
        progress: ImportProgress {
            files_total: files.len(),
            bytes_total: files.iter().map(size).sum(),
            ..ImportProgress::default()
        },
    };
    let mut failed = Vec::new();
    for ImportFile { path, file } in files {
        match import.file(&path, file, &mut progress) {
            Ok(()) => import.progress.files += 1,
            Err(Interrupted::Read(error)) => failed.push((path, error)),
            Err(Interrupted::Store(refused)) => return Err(refused.into()),
        }
        progress(import.progress.clone());
    }
    import.wait()?;
    Ok(ImportSummary { progress: import.progress, failed })
}

struct Importer<'a> {
    options: &'a TailOptions,
    router: &'a Router,
    host: &'a str,
    queue: &'a CommitQueue,
    epoch: u64,
    known: SourceIndex,
    sources: SourceReader,
    batcher: Batcher,
    newest: Option<Ticks>,
    buffer: Vec<u8>,
    counters: SourceCounters,
    outcomes: Sender<bool>,
    results: Receiver<bool>,
    /// Submissions without a known outcome.
    waiting: usize,
    progress: ImportProgress,
}

enum Interrupted {
    Read(io::Error),
    Store(SubmitError),
}

impl From<io::Error> for Interrupted {
    fn from(error: io::Error) -> Interrupted {
        Interrupted::Read(error)
    }
}

impl From<SubmitError> for Interrupted {
    fn from(refused: SubmitError) -> Interrupted {
        Interrupted::Store(refused)
    }
}

impl Importer<'_> {
    fn file(&mut self, path: &Path, file: File, progress: &mut impl FnMut(ImportProgress)) -> Result<(), Interrupted> {
        let (mut content, stat) = FileContent::of(file)?;
        let beginning = content.beginning()?;
        let Some(head) = readable_head(&beginning)? else { return Ok(()) };
        let reading = &self.options.reading;
        let is_automatic = reading.format == FormatChoice::Auto && reading.explicit.is_none();
        let has_entries = is_automatic && export::is_export(&beginning);
        let (state, shortened) = match imported_sources::find(&self.known, path, &mut content, &stat, head, reading)? {
            ImportedSource::Continued(state) => (state, None),
            // Entries of the journal have keys of their own, so that to read them all again adds nothing.
            ImportedSource::Shortened(state, position) if !has_entries => (state, Some(position)),
            ImportedSource::Copied(identity) => {
                self.progress.followed += usize::from(self.sources.claim(identity).is_none());
                self.progress.bytes += stat.size;
                return Ok(());
            }
            ImportedSource::Shortened(..) | ImportedSource::Unknown => {
                let path = path.to_path_buf();
                (self.known.begin(SourceKind::Import, self.options, path, &stat, head), None)
            }
        };
        let Some(_claim) = self.sources.claim(state.identity) else {
            self.progress.followed += 1;
            self.progress.bytes += stat.size;
            return Ok(());
        };
        // It may have been followed until now. Of a file that is named twice, what was submitted is further than what is committed.
        let is_later = |committed: &Arc<SourceState>| committed.ledger.moved_bytes() > state.ledger.moved_bytes();
        let (state, shortened) = match self.queue.source(state.identity).filter(is_later) {
            Some(followed) => {
                let shortened = before_missing_lines(&mut content, &followed, reading)?.filter(|_| !has_entries);
                (SourceState::clone(&followed), shortened)
            }
            None => (state, shortened),
        };
        let was_followed = state.kind == SourceKind::Tail && state.status != SourceStatus::Ended;
        // Of a file that lost its end, the last line without an end may be a part of what was read.
        let mut end = match was_followed || shortened.is_some() {
            true => TailEnd::FinalRecord { size: stat.size },
            false => TailEnd::Final,
        };
        let (kind, block) = (SourceKind::Import, self.options.name.clone());
        let before = SourceState { kind, block, ..state };
        let (device, inode) = (stat.device, stat.inode);
        let (read_before, records) = (self.progress.bytes, self.progress.records);
        let mut reader = FileReader::new(SourceState { device, inode, ..before.clone() }, Some(content));
        if has_entries {
            reader = reader.of_entries(JournalReading::new(reading.clone()));
        }
        let mut rereading = None;
        if let (Some(position), Some(newest)) = (shortened, before.last_time) {
            tracing::info!(path = %path.escaped(), position, "file is shorter than what was read of it: it is read on from this position");
            // Before it went back last, the position may have been farther by what was returned.
            let end = before.position.saturating_add(before.ledger.returned_bytes);
            rereading = Some(Rereading { end, newest, records: 0 });
            reader.go_to(position)?;
        }
        let result = loop {
            let mut context = ReadContext {
                buffer: &mut self.buffer,
                router: self.router,
                batcher: &mut self.batcher,
                options: self.options,
                counters: &self.counters,
                host: self.host,
                now: daytable_model::time::now(),
                zeros_final_before: u64::MAX,
                newest: &mut self.newest,
                rereading: rereading.as_mut(),
            };
            let outcome = reader.read_chunk(end, &mut context);
            let position = reader.state.position;
            let known = before.ledger.records + rereading.map_or(0, |again| again.records);
            self.progress.records = records + reader.state.ledger.records - known;
            self.progress.late_records = self.counters.late_records();
            self.progress.bytes =
                read_before + reader.content.as_ref().map_or(0, |content| content.bytes_before(position));
            progress(self.progress.clone());
            match outcome {
                Ok(ReadOutcome::More) if self.batcher.bytes() >= SUBMISSION_BYTES => self.submit(&reader.state)?,
                Ok(ReadOutcome::More) => {}
                Ok(ReadOutcome::AtEnd) if reader.content.as_ref().is_some_and(FileContent::is_cut) => {
                    break Err(io::Error::new(io::ErrorKind::UnexpectedEof, "its compressed content is incomplete"));
                }
                Ok(ReadOutcome::AtEnd)
                    if end != TailEnd::Final && !was_followed && rest_is_newer(&mut reader, rereading, reading) =>
                {
                    end = TailEnd::Final;
                }
                Ok(ReadOutcome::AtEnd) => {
                    reader.state_mut().status = SourceStatus::Ended;
                    break Ok(());
                }
                Ok(ReadOutcome::Rewritten) => break Err(io::Error::other("it was rewritten while it was read")),
                Err(error) => break Err(error),
            }
        };
        self.progress.bytes = read_before + stat.size;
        if self.progress.records > records {
            self.note_untimed(path, &reader.state.profile);
        } else if rereading.is_some() {
            reader = FileReader::new(as_before(&before, &reader.state), None);
        }
        self.submit(&reader.state)?;
        self.known.put(reader.state);
        Ok(result?)
    }

    /// Notes a file if no record of it has a time although something looks like one.
    fn note_untimed(&mut self, path: &Path, profile: &str) {
        let profile = SourceProfile::restore(profile);
        if let Some(likely) = profile.likely_time()
            && self.progress.untimed.len() < UNTIMED_FILES_MAX
        {
            self.progress.untimed.push(UntimedFile { path: path.text().into_owned(), likely_time: likely.to_owned() });
        }
    }

    fn submit(&mut self, state: &SourceState) -> Result<(), SubmitError> {
        let state = SourceState { seen: daytable_model::time::now(), ..state.clone() };
        let (outcomes, claim) = (self.outcomes.clone(), self.sources.claim(state.identity));
        let done = Ack::new(move |is_committed| {
            drop(claim);
            // The receiver may be dropped when the import was cancelled.
            let _ = outcomes.send(is_committed);
        });
        let (batches, epoch) = (self.batcher.take(), self.epoch);
        let kept = self.router.kept_days(&batches, daytable_model::time::now());
        let (advances, newest) = (vec![state.into()], self.newest.take());
        self.queue.submit(Submission { batches, advances, newest, kept, epoch, ack: done, ..Submission::default() })?;
        self.waiting += 1;
        Ok(())
    }

    /// Waits until everything that was submitted is on disk.
    fn wait(&mut self) -> Result<(), SubmitError> {
        while self.waiting > 0 {
            match self.results.recv() {
                Ok(true) => self.waiting -= 1,
                Ok(false) => return Err(SubmitError::Stale),
                Err(_) => return Err(SubmitError::Closed),
            }
        }
        Ok(())
    }
}

/// The head of a file that begins with `beginning`; none for an empty file.
///
/// # Errors
///
/// The file has no lines that can be read.
fn readable_head(beginning: &[u8]) -> io::Result<Option<&[u8]>> {
    let Some(head) = head_of(beginning, true) else { return Ok(None) };
    if is_utf16(head) {
        let reason = "it is UTF-16, which is not read: convert it with `iconv -f UTF-16 -t UTF-8`";
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    if !export::is_export(beginning)
        && let Some(reason) = binary_reason(beginning)
    {
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    Ok(Some(head))
}

/// Whether the unread line at the end of a file that lost its end is newer than what was read: then it is not a part of
/// that. A line that cannot be read now is left to the next import.
fn rest_is_newer(reader: &mut FileReader, rereading: Option<Rereading>, reading: &ParseOptions) -> bool {
    let (Some(Rereading { newest, .. }), Some(content)) = (rereading, &mut reader.content) else { return false };
    let mut line = [0; MARK_BYTES_MAX];
    let Ok(n) = content.read_at(reader.state.position, &mut line) else { return false };
    time_of_line(&line[..n], &reader.state, reading).is_some_and(|time| time > newest)
}

/// The state of a source whose lines were read once more, with nothing new among them: where it was before, so that nothing
/// is new either when the whole file comes back.
fn as_before(before: &SourceState, reread: &SourceState) -> SourceState {
    let bytes = reread.ledger.bytes - before.ledger.bytes;
    let ledger = Ledger { returned_bytes: before.ledger.returned_bytes + bytes, ..reread.ledger };
    SourceState { ledger, status: reread.status, ..before.clone() }
}
