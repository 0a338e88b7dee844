//! What a file that was found is: a known source under another name or after a pause, a copy of one, or a new one.

use super::discover::DiscoveredFile;
use super::file_content::{FileContent, FileStamp, is_utf16, may_become_compressed};
use super::file_reader::FileReader;
use super::followed_file::FollowedFile;
use super::follower::{Follower, is_gone};
use super::identity::{Likeness, head_of};
use super::ignored_files::{IgnoreReason, IgnoredAction};
use super::related_files::is_being_compressed;
use super::search::compare;
use crate::counters::SourceEvent;
use crate::own_output;
use crate::source::ReadFrom;
use daytable_model::path_text::PathText;
use daytable_store::{SourceKind, SourceState, SourceStatus};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// What is expected of a file that is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expectation<'a> {
    Anything,
    /// It is no copy, whatever it looks like.
    Own,
    /// It gets nothing more: what it has is its whole first line.
    Complete,
    /// It was rotated away from `home` before it was found.
    Between {
        home: &'a Path,
    },
}

impl Follower {
    /// A file was found that no block follows, under a name that rotation makes. If it comes from a path of a known
    /// source, and was written to since, it was there between two files that were found: it is read, too. So is the first
    /// file of a path, if it came while its folder was watched.
    pub(super) fn consider_rotated(&mut self, path: PathBuf) {
        let Ok(Some(stamp)) = FileStamp::at(&path) else { return };
        if self.files.of_file(&stamp).is_some() {
            return;
        }
        let Some(home) = self.rotated_from(&path, &stamp) else { return };
        let known = self.sources.of_path(&home).into_iter().next().and_then(|identity| self.state_of(identity));
        let block = known.and_then(|state| self.block_of_source(state)).or_else(|| self.discovery.block_of(&home));
        let Some(block) = block else { return };
        self.consider(DiscoveredFile { path, block });
    }

    /// A path that a block follows was found.
    pub(super) fn consider(&mut self, found: DiscoveredFile) {
        let stamp = match FileStamp::at(&found.path) {
            Ok(Some(stamp)) => stamp,
            Err(error) if !is_gone(&error) => {
                return self.ignore(
                    found.path,
                    found.block,
                    FileStamp::default(),
                    IgnoreReason::Failed(error.kind()),
                    Some(error),
                );
            }
            // `look_at_parked` sees where it went.
            _ => return,
        };
        // A second name of it, or its next one: it is one source.
        if self.files.of_file(&stamp).is_some() {
            self.ignored.remove(&found.path);
            return;
        }
        let next = match self.ignored.get(&found.path).cloned() {
            Some(ignored) if ignored.is_headless() && !stamp.is_same_file(&ignored.stamp) => {
                return self.ignored_file_moved(found.path, ignored);
            }
            Some(ignored) => ignored.next(&stamp, Instant::now(), &self.timings),
            None => IgnoredAction::Examine,
        };
        self.examine_ignored(found, &stamp, next);
    }

    pub(super) fn examine_ignored(&mut self, found: DiscoveredFile, stamp: &FileStamp, next: IgnoredAction) {
        let home = self.rotated_from(&found.path, stamp);
        let expectation = match (next, &home) {
            (IgnoredAction::Leave, _) => return,
            (IgnoredAction::Examine, Some(home)) => Expectation::Between { home },
            (IgnoredAction::Examine, None) => Expectation::Anything,
            (IgnoredAction::Own, _) => Expectation::Own,
            (IgnoredAction::Complete, _) => Expectation::Complete,
        };
        self.examine_as(found, expectation);
    }

    fn examine_as(&mut self, found: DiscoveredFile, expectation: Expectation<'_>) {
        let path = found.path.clone();
        let block = found.block;
        if let Err(error) = self.examine(found, expectation) {
            match error.kind() {
                io::ErrorKind::NotFound => {}
                // A compressed file that is not complete, or is compressed by what nothing here decodes.
                io::ErrorKind::UnexpectedEof | io::ErrorKind::Unsupported => {
                    if error.kind() == io::ErrorKind::Unsupported && !self.ignored.contains_key(&path) {
                        tracing::info!(path = %path.escaped(), %error, "file is not read");
                    }
                    let stamp = FileStamp::at(&path).ok().flatten().unwrap_or_default();
                    self.ignore(path.clone(), block, stamp, IgnoreReason::Compressed, None);
                }
                kind => self.ignore(path.clone(), block, FileStamp::default(), IgnoreReason::Failed(kind), Some(error)),
            }
        }
        if let (Expectation::Between { home }, Some(ignored)) = (expectation, self.ignored.get_mut(&path)) {
            ignored.home = Some(home.to_path_buf());
        }
    }

    fn examine(&mut self, found: DiscoveredFile, expectation: Expectation<'_>) -> io::Result<()> {
        let DiscoveredFile { path, block } = found;
        let (mut content, stamp) = self.files.open_at(&path)?;
        if self.files.of_file(&stamp).is_some() {
            return Ok(());
        }
        if own_output::is_output(stamp.device, stamp.inode) {
            self.ignore(path, block, stamp, IgnoreReason::Own, None);
            return Ok(());
        }
        for identity in self.sources.of_file(stamp.device, stamp.inode) {
            let Some(state) = self.sources.source(identity).filter(|_| self.files.file(identity).is_none()) else {
                continue;
            };
            let state = SourceState::clone(state);
            if compare(&mut content, &state)? == Likeness::Same {
                self.follow(state, block, path, content, stamp);
                return Ok(());
            }
            if state.status != SourceStatus::Ended {
                // It could not be read when it was looked for.
                self.resume(state);
                if self.files.of_file(&stamp).is_some() {
                    self.ignored.remove(&path);
                    return Ok(());
                }
            }
        }
        let beginning = content.beginning()?;
        let is_complete = match content.is_compressed() {
            true => !content.is_cut(),
            false => expectation == Expectation::Complete && !may_become_compressed(&path, &beginning),
        };
        let Some(head) = head_of(&beginning, is_complete) else {
            // What it has of its first line is no line, and may be the beginning of one that was read.
            if content.is_compressed() {
                self.ignore(path, block, stamp, IgnoreReason::Compressed, None);
                return Ok(());
            }
            let was_rotated = IgnoreReason::Headless { is_rotated: true };
            let is_rotated = matches!(expectation, Expectation::Between { .. })
                || self.ignored.get(&path).is_some_and(|ignored| ignored.reason == was_rotated);
            self.ignore(path, block, stamp, IgnoreReason::Headless { is_rotated }, None);
            return Ok(());
        };
        let mut is_rewritten = false;
        if matches!(expectation, Expectation::Anything | Expectation::Between { .. })
            && let Some((identity, relation)) =
                self.relation_of(&path, &mut content, &stamp, head, &mut is_rewritten)?
        {
            self.join(identity, relation, block, path, content, stamp);
            return Ok(());
        }
        if content.is_compressed() && !matches!(expectation, Expectation::Between { .. }) {
            let reason = if is_being_compressed(&path) { IgnoreReason::Compressing } else { IgnoreReason::Compressed };
            self.ignore(path, block, stamp, reason, None);
            return Ok(());
        }
        if is_rewritten {
            self.counters_of(block).count(SourceEvent::Rewrite, 1);
            tracing::info!(path = %path.escaped(), "a file was written anew over its path: it is read from its beginning");
        }
        self.begin(block, path, content, stamp, head, expectation)
    }

    /// Begins a new source.
    fn begin(
        &mut self,
        block: usize,
        path: PathBuf,
        content: FileContent,
        stamp: FileStamp,
        head: &[u8],
        expectation: Expectation<'_>,
    ) -> io::Result<()> {
        let options = &self.blocks[block];
        let is_rotated = matches!(expectation, Expectation::Complete | Expectation::Between { .. });
        let parked_home = || self.ignored.get(&path).and_then(|ignored| ignored.home.clone());
        let home = match expectation {
            Expectation::Between { home } => home.to_path_buf(),
            _ => parked_home().unwrap_or_else(|| path.clone()),
        };
        let status = if is_rotated { SourceStatus::Rotated } else { SourceStatus::Live };
        let state = SourceState { status, ..self.sources.begin(SourceKind::Tail, &options.name, home, &stamp, head) };
        let (identity, now) = (state.identity, state.seen);
        let age = now.unix_seconds() - stamp.modified.0;
        let is_old = options.ignore_older.is_some_and(|older| age > i64::try_from(older.as_secs()).unwrap_or(i64::MAX));
        let is_at_end = options.read_from == ReadFrom::End && self.is_first_look && self.is_first_run[block];
        let mut reader = FileReader::new(state, Some(content));
        if is_old || is_at_end {
            let skipped = reader.skip_to_end(stamp.size)?;
            let ledger = &mut reader.state_mut().ledger;
            *(if is_old { &mut ledger.older_bytes } else { &mut ledger.begun_bytes }) += skipped;
            self.counters_of(block).count(SourceEvent::BytesSkipped, skipped);
        }
        if is_utf16(head) {
            tracing::warn!(path = %path.escaped(), "file is UTF-16: its lines are kept with U+FFFD and NUL in them; have it written as UTF-8");
        }
        tracing::debug!(path = %path.escaped(), identity = format!("{identity:016x}"), "file is followed");
        self.follow_reader(reader, block, path, stamp);
        Ok(())
    }

    /// Goes on with a known source in the file at `path`.
    pub(super) fn follow(
        &mut self,
        mut state: SourceState,
        block: usize,
        path: PathBuf,
        content: FileContent,
        stamp: FileStamp,
    ) {
        state.status = match state.status {
            SourceStatus::Rotated => SourceStatus::Rotated,
            // Also where it is another file by now, which was saved in its place.
            _ if path == state.path => SourceStatus::Live,
            _ => SourceStatus::Rotated,
        };
        (state.device, state.inode) = (stamp.device, stamp.inode);
        tracing::debug!(path = %path.escaped(), position = state.position, "file goes on");
        self.follow_reader(FileReader::new(state, Some(content)), block, path, stamp);
    }

    pub(super) fn follow_reader(&mut self, reader: FileReader, block: usize, path: PathBuf, stamp: FileStamp) {
        self.ignored.remove(&path);
        let begun = reader.state.clone();
        self.sources.put(begun.clone());
        self.files.insert(FollowedFile::new(reader, block, path, stamp, begun, Instant::now(), &self.timings));
    }

    pub(super) fn state_of(&self, identity: u64) -> Option<&SourceState> {
        self.files.file(identity).map(FollowedFile::state).or_else(|| self.sources.source(identity).map(Arc::as_ref))
    }
}
