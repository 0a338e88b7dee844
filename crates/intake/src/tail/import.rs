//! Files that are read once, from start to end, plain or compressed.
//!
//! They are identified as followed files are. The same file again, or a copy of it under a derived name, adds no
//! record. A file that has grown adds its new lines, also one that was followed before. A file that is followed now is left
//! to its follower. An unfinished last line is a record, because an import does not wait for the rest, unless a follower
//! did. A file that begins as an export of the journal has entries instead of lines. A file of binary data
//! is refused.
//! The caller opens the files ([`ImportFile`]), so an import reads what its caller may read.

use super::binary_data::binary_reason;
use super::file_content::{FileContent, FileStat, is_utf16, open_file};
use super::file_reader::{FileReader, ReadContext, ReadOutcome, TailEnd};
use super::identity::{Likeness, head_of, mark_at};
use super::names::{is_made_from, is_next_of};
use super::options::TailOptions;
use super::search::compare;
use super::source_index::SourceIndex;
use crate::batcher::Batcher;
use crate::counters::SourceCounters;
use crate::journal::export;
use crate::journal::record::JournalReading;
use crate::route::Router;
use daytable_model::path_text::PathText;
use daytable_model::source_id::SourceId;
use daytable_model::time::Ticks;
use daytable_parse::{FormatChoice, SourceProfile};
use daytable_store::{Ack, CommitQueue, SourceKind, SourceReader, SourceState, SourceStatus, Submission, SubmitError};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
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
    /// The progress, or the first file that could not be read.
    pub fn complete(mut self) -> Result<ImportProgress, ImportError> {
        if self.failed.is_empty() {
            return Ok(self.progress);
        }
        let (path, source) = self.failed.swap_remove(0);
        Err(ImportError::Read { path, source })
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
            Ok(()) => {}
            Err(Interrupted::Read(error)) => failed.push((path, error)),
            Err(Interrupted::Store(refused)) => return Err(refused.into()),
        }
        import.progress.files += 1;
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
        let Some(state) = self.source(path, &mut content, &stat)? else { return Ok(()) };
        let Some(_claim) = self.sources.claim(state.identity) else {
            self.progress.followed += 1;
            self.progress.bytes += stat.size;
            return Ok(());
        };
        // It may have been followed until now. Of a file that is named twice, what was submitted is further than what is committed.
        let followed = self.queue.source(state.identity).filter(|committed| committed.position > state.position);
        let state = followed.map_or(state, |followed| SourceState::clone(&followed));
        let was_followed = state.kind == SourceKind::Tail && state.status != SourceStatus::Ended;
        let end = if was_followed { TailEnd::FinalRecord { size: stat.size } } else { TailEnd::Final };
        let (kind, block) = (SourceKind::Import, self.options.name.clone());
        let (device, inode) = (stat.device, stat.inode);
        let state = SourceState { kind, block, device, inode, ..state };
        let (before, records) = (self.progress.bytes, self.progress.records);
        let known_records = state.ledger.records;
        let reading = &self.options.reading;
        let is_automatic = reading.format == FormatChoice::Auto && reading.explicit.is_none();
        let has_entries = is_automatic && export::is_export(&content.beginning()?);
        let mut reader = FileReader::new(state, Some(content));
        if has_entries {
            reader = reader.of_entries(JournalReading::new(reading.clone()));
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
            };
            let outcome = reader.read_chunk(end, &mut context);
            let position = reader.state.position;
            self.progress.records = records + reader.state.ledger.records - known_records;
            self.progress.late_records = self.counters.late_records();
            self.progress.bytes = before + reader.content.as_ref().map_or(0, |content| content.bytes_before(position));
            progress(self.progress.clone());
            match outcome {
                Ok(ReadOutcome::More) if self.batcher.bytes() >= SUBMISSION_BYTES => self.submit(&reader.state)?,
                Ok(ReadOutcome::More) => {}
                Ok(ReadOutcome::AtEnd) if reader.content.as_ref().is_some_and(FileContent::is_cut) => {
                    break Err(io::Error::new(io::ErrorKind::UnexpectedEof, "its compressed content is incomplete"));
                }
                Ok(ReadOutcome::AtEnd) => {
                    reader.state_mut().status = SourceStatus::Ended;
                    break Ok(());
                }
                Ok(ReadOutcome::Rewritten) => break Err(io::Error::other("it was rewritten while it was read")),
                Err(error) => break Err(error),
            }
        };
        self.progress.bytes = before + stat.size;
        if self.progress.records > records {
            self.note_untimed(path, &reader.state.profile);
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

    /// The source that a file continues, or a new source; none for an empty file.
    fn source(&self, path: &Path, content: &mut FileContent, stat: &FileStat) -> io::Result<Option<SourceState>> {
        let beginning = content.beginning()?;
        let Some(head) = head_of(&beginning, true) else { return Ok(None) };
        if is_utf16(head) {
            let reason = "it is UTF-16, which is not read: convert it with `iconv -f UTF-16 -t UTF-8`";
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        if !export::is_export(&beginning)
            && let Some(reason) = binary_reason(&beginning)
        {
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let head_mark = mark_at(head.len() as u64, head);
        let same_file = self.known.of_file(stat.device, stat.inode);
        let beside = self.known.of_head(head_mark.hash).into_iter().filter(|identity| self.is_beside(*identity, path));
        for identity in same_file.into_iter().chain(beside) {
            let Some(state) = self.known.source(identity) else { continue };
            if compare(content, state)? == Likeness::Same {
                return Ok(Some(SourceState::clone(state)));
            }
        }
        let path = path.to_path_buf();
        Ok(Some(self.known.begin(SourceKind::Import, self.options, path, stat, head)))
    }

    fn is_beside(&self, identity: SourceId, path: &Path) -> bool {
        let Some(state) = self.known.source(identity) else { return false };
        let (old, name) = (state.path.file_name().unwrap_or_default(), path.file_name().unwrap_or_default());
        let is_of_name = old == name || is_made_from(old, name) || is_made_from(name, old) || is_next_of(old, name);
        state.path.parent() == path.parent() && is_of_name
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
