//! Identifies a discovered file: a known source under another name or after a pause, a copy of one, or a new source.

use super::discovery::DiscoveredFile;
use super::file_content::{FileContent, FileStat, is_utf16, may_become_compressed};
use super::file_reader::FileReader;
use super::followed_file::FollowedFile;
use super::follower::{TailFollower, is_gone};
use super::holes::{ZerosEnd, end_of_zeros};
use super::identity::{Likeness, Relation, head_of};
use super::ignored_files::{IgnoreReason, IgnoredAction, IgnoredFile};
use super::related_files::{FileMatch, is_being_compressed};
use super::search::{compare, renamed};
use crate::counters::SourceEvent;
use crate::own_output;
use daytable_model::path_text::PathText;
use daytable_model::source_id::SourceId;
use daytable_model::time;
use daytable_store::{SourceKind, SourceState, SourceStatus};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The knowledge about a file before it is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expectation<'a> {
    Anything,
    /// The file is its own source, whatever its content.
    Own,
    /// The file gets no more bytes: its content is its whole first line.
    Complete,
    /// The file has one line without an end, which may still come. It waited long enough.
    Unended,
    /// The zeros in its first line are final.
    ZerosFinal,
    /// It was rotated away from `home` before it was discovered.
    RotatedFrom {
        home: &'a Path,
    },
}

impl TailFollower {
    /// A file was discovered that no block includes, under a name that a rotation makes. The file is read if it comes from
    /// the path of a known source and was written to since: it was there between two discoveries. So is the first file of
    /// a path, if it came while its folder was watched.
    pub(super) fn consider_rotated(&mut self, path: PathBuf) {
        let Ok(Some(stat)) = FileStat::at(&path) else { return };
        if self.files.of_file(&stat).is_some() {
            return;
        }
        let related = self.related_files();
        let Some(home) = related.rotated_from(&path, &stat) else { return };
        let known = self.sources.of_path(&home).into_iter().next().and_then(|identity| related.state_of(identity));
        let block = known.and_then(|state| self.blocks.of_source(state, &self.discovery));
        let Some(block) = block.or_else(|| self.discovery.block_of(&home)) else { return };
        self.consider(DiscoveredFile { path, block });
    }

    /// A path was discovered that a block includes.
    pub(super) fn consider(&mut self, discovered: DiscoveredFile) {
        let DiscoveredFile { path, block } = discovered;
        let stat = match FileStat::at(&path) {
            Ok(Some(stat)) => stat,
            Err(error) if !is_gone(&error) => return self.ignore_failed(path, block, error),
            // `check_ignored` finds the new path of the file.
            _ => return,
        };
        // Another name of the same file: both are one source.
        if self.files.of_file(&stat).is_some() {
            return self.ignored.remove(&path);
        }
        let action = match self.ignored.get(&path) {
            Some(ignored) if ignored.has_no_whole_line() && !stat.is_same_file(&ignored.stat) => {
                let ignored = ignored.clone();
                return self.ignored_file_moved(path, ignored);
            }
            Some(ignored) => self.next_action(ignored, &stat, Instant::now()),
            None => IgnoredAction::Examine,
        };
        self.act(DiscoveredFile { path, block }, &stat, action);
    }

    fn next_action(&self, ignored: &IgnoredFile, stat: &FileStat, now: Instant) -> IgnoredAction {
        let options = self.blocks.options(ignored.block);
        // A file that is too old is left out, up to its next write.
        let unended_after = options.unended_after.filter(|_| !options.is_older(stat, time::now()));
        ignored.next(stat, now, &self.timings, unended_after)
    }

    fn act(&mut self, discovered: DiscoveredFile, stat: &FileStat, action: IgnoredAction) {
        let home = self.related_files().rotated_from(&discovered.path, stat);
        let expectation = match (action, &home) {
            (IgnoredAction::Leave, _) => return,
            (IgnoredAction::Examine, Some(home)) => Expectation::RotatedFrom { home },
            (IgnoredAction::Examine, None) => Expectation::Anything,
            (IgnoredAction::Own, _) => Expectation::Own,
            (IgnoredAction::Complete, _) => Expectation::Complete,
            (IgnoredAction::Unended, _) => Expectation::Unended,
            (IgnoredAction::ZerosFinal, _) => Expectation::ZerosFinal,
        };
        let DiscoveredFile { path, block } = discovered.clone();
        if let Err(error) = self.examine(discovered, expectation) {
            match error.kind() {
                io::ErrorKind::NotFound => {}
                // A compressed file that is incomplete, or in a format that cannot be decoded.
                io::ErrorKind::UnexpectedEof | io::ErrorKind::Unsupported => {
                    if error.kind() == io::ErrorKind::Unsupported && self.ignored.get(&path).is_none() {
                        tracing::info!(path = %path.escaped(), %error, "file is not read");
                    }
                    let stat = FileStat::at(&path).ok().flatten().unwrap_or_default();
                    self.ignore(path.clone(), block, stat, IgnoreReason::Compressed);
                }
                _ => self.ignore_failed(path.clone(), block, error),
            }
        }
        if let Expectation::RotatedFrom { home } = expectation {
            self.ignored.set_home(&path, home);
        }
    }

    /// Follows the file or ignores it.
    fn examine(&mut self, discovered: DiscoveredFile, expectation: Expectation<'_>) -> io::Result<()> {
        let DiscoveredFile { path, block } = discovered;
        let (mut content, stat) = self.files.open_at(&path)?;
        if self.files.of_file(&stat).is_some() {
            return Ok(());
        }
        if own_output::is_output(stat.device, stat.inode) {
            self.ignore(path, block, stat, IgnoreReason::OwnOutput);
            return Ok(());
        }
        for identity in self.sources.of_file(stat.device, stat.inode) {
            let Some(state) = self.sources.source(identity).filter(|_| self.files.file(identity).is_none()) else {
                continue;
            };
            let state = SourceState::clone(state);
            if compare(&mut content, &state)? == Likeness::Same {
                self.follow(state, block, path, content, stat);
                return Ok(());
            }
            if state.kind == SourceKind::Tail && state.status != SourceStatus::Ended {
                // The file could not be read when the source was resumed.
                self.resume(state);
                if self.files.of_file(&stat).is_some() {
                    self.ignored.remove(&path);
                    return Ok(());
                }
            }
        }
        let is_rotated = matches!(expectation, Expectation::RotatedFrom { .. });
        let mut beginning = if stat.size == 0 { Vec::new() } else { content.beginning()? };
        // Of a rotated file, the zeros are final as well.
        let are_zeros_final = matches!(expectation, Expectation::ZerosFinal | Expectation::Complete);
        let first_line = beginning.iter().position(|byte| *byte == b'\n').unwrap_or(beginning.len());
        let zero = beginning[..first_line].iter().position(|byte| *byte == 0).filter(|_| !content.is_compressed());
        let has_zeros = match zero {
            None => false,
            // A line may still come where there are zeros up to the end.
            Some(zero) if end_of_zeros(&mut content, zero as u64)?.0 == ZerosEnd::EndOfFile => {
                beginning.truncate(zero);
                false
            }
            Some(_) => !are_zeros_final,
        };
        let is_complete = match content.is_compressed() {
            true => !content.is_cut(),
            false => {
                matches!(expectation, Expectation::Complete | Expectation::Unended)
                    && !may_become_compressed(&path, &beginning)
            }
        };
        let Some(head) = head_of(&beginning, is_complete).filter(|_| !has_zeros) else {
            // The incomplete first line may be the beginning of a line that was read elsewhere.
            let was_rotated = |reason| {
                matches!(
                    reason,
                    IgnoreReason::NoWholeLine { is_rotated: true } | IgnoreReason::Zeros { is_rotated: true }
                )
            };
            let is_rotated = is_rotated || self.ignored.get(&path).is_some_and(|file| was_rotated(file.reason));
            let reason = match content.is_compressed() {
                true => IgnoreReason::Compressed,
                false if has_zeros => IgnoreReason::Zeros { is_rotated },
                false => IgnoreReason::NoWholeLine { is_rotated },
            };
            self.ignore(path, block, stat, reason);
            return Ok(());
        };
        let finding = match expectation {
            Expectation::Anything
            | Expectation::Unended
            | Expectation::ZerosFinal
            | Expectation::RotatedFrom { .. } => self.related_files().find(&path, &mut content, &stat, head)?,
            Expectation::Own | Expectation::Complete => FileMatch::Unrelated,
        };
        if let FileMatch::Related(identity, relation) = finding {
            self.apply_relation(identity, relation, block, path, content, stat);
            return Ok(());
        }
        if let FileMatch::GoesBack(identity, position) = finding
            && !content.is_compressed()
        {
            // An import may have read it since, further or once more.
            let imported = self.submissions.imported(identity);
            if let Some(imported) = imported.filter(|imported| self.is_later(imported)) {
                self.sources.put(imported);
                return self.examine(DiscoveredFile { path, block }, expectation);
            }
            return self.go_back(identity, position, block, path, content, stat);
        }
        if content.is_compressed() && !is_rotated {
            let is_new = is_being_compressed(&path);
            let reason = if is_new { IgnoreReason::Compressing } else { IgnoreReason::Compressed };
            self.ignore(path, block, stat, reason);
            return Ok(());
        }
        if finding == FileMatch::Rewritten {
            self.blocks.counters(block).count(SourceEvent::Rewrite, 1);
            tracing::info!(path = %path.escaped(), "file was rewritten at its path, it is read from its beginning");
        }
        self.begin(block, path, content, stat, head, expectation)
    }

    /// Begins a new source.
    fn begin(
        &mut self,
        block: usize,
        path: PathBuf,
        mut content: FileContent,
        stat: FileStat,
        head: &[u8],
        expectation: Expectation<'_>,
    ) -> io::Result<()> {
        let options = self.blocks.options(block);
        let is_rotated = matches!(expectation, Expectation::Complete | Expectation::RotatedFrom { .. });
        let home = match expectation {
            Expectation::RotatedFrom { home } => home.to_path_buf(),
            _ => self.ignored.get(&path).and_then(|ignored| ignored.home.clone()).unwrap_or_else(|| path.clone()),
        };
        let status = if is_rotated { SourceStatus::Rotated } else { SourceStatus::Live };
        let mut state = self.sources.begin(SourceKind::Tail, options, home.clone(), &stat, head);
        // It may have been imported since the sources were read.
        if let Some(imported) = self.submissions.imported(state.identity) {
            self.sources.put(imported.clone());
            if compare(&mut content, &imported)? == Likeness::Same {
                self.follow(SourceState::clone(&imported), block, path, content, stat);
                return Ok(());
            }
            state = self.sources.begin(SourceKind::Tail, options, home, &stat, head);
        }
        state.status = status;
        let identity = state.identity;
        let is_old = options.is_older(&stat, state.seen);
        let is_at_end = self.is_first_discovery && self.blocks.begins_at_end(block);
        let mut reader = FileReader::new(state, Some(content));
        if is_old || is_at_end {
            let skipped = reader.skip_to_end(stat.size)?;
            let ledger = &mut reader.state_mut().ledger;
            *(if is_old { &mut ledger.older_bytes } else { &mut ledger.begun_bytes }) += skipped;
            self.blocks.counters(block).count(SourceEvent::BytesSkipped, skipped);
        }
        if is_utf16(head) {
            tracing::warn!(path = %path.escaped(), "file is UTF-16: its lines are kept with U+FFFD and NUL in them; have it written as UTF-8");
        }
        tracing::debug!(path = %path.escaped(), %identity, "file is followed");
        let unended_after = options.unended_after.filter(|_| expectation == Expectation::Unended);
        self.follow_reader(reader, block, path, stat);
        if let Some(file) = self.files.file_mut(identity) {
            // What is skipped is skipped with the line that has no end yet.
            file.is_final = is_old || is_at_end;
            file.schedule.was_quiet_for(unended_after.unwrap_or_default());
        }
        Ok(())
    }

    /// Goes on with a source in a file that lacks lines after `position`, once nobody writes to its old file any more.
    fn go_back(
        &mut self,
        identity: SourceId,
        position: u64,
        block: usize,
        path: PathBuf,
        content: FileContent,
        stat: FileStat,
    ) -> io::Result<()> {
        if self.files.file(identity).is_some_and(|file| !file.has_ended()) {
            self.ignore(path, block, stat, IgnoreReason::Unfinished);
            self.check_file(identity);
            return Ok(());
        }
        let Some(state) = self.sources.source(identity) else { return Ok(()) };
        let mut state = self.of_block(SourceState::clone(state), block, &path);
        state.status = if path == state.path { SourceStatus::Live } else { SourceStatus::Rotated };
        (state.device, state.inode) = (stat.device, stat.inode);
        let mut reader = FileReader::new(state, Some(content));
        reader.go_to(position)?;
        tracing::warn!(path = %path.escaped(), position, "file became shorter than what was read of it: it is read on from this position");
        self.blocks.counters(block).count(SourceEvent::Rewrite, 1);
        self.files.remove(identity);
        self.follow_reader(reader, block, path, stat);
        Ok(())
    }

    fn apply_relation(
        &mut self,
        identity: SourceId,
        relation: Relation,
        block: usize,
        path: PathBuf,
        content: FileContent,
        stat: FileStat,
    ) {
        match relation {
            Relation::Continues => {
                if let Some(file) = self.files.file_mut(identity) {
                    // The file of the source is gone, but that is not noticed yet.
                    file.has_more = false;
                    self.ignore(path, block, stat, IgnoreReason::Unfinished);
                    self.check_file(identity);
                } else if let Some(state) = self.sources.source(identity) {
                    self.follow(SourceState::clone(state), block, path, content, stat);
                }
            }
            Relation::Copy => self.ignore(path, block, stat, IgnoreReason::Copy),
            Relation::Unfinished | Relation::Stranger => self.ignore(path, block, stat, IgnoreReason::Unfinished),
        }
    }

    /// Goes on with a known source in the file at `path`.
    pub(super) fn follow(
        &mut self,
        mut state: SourceState,
        block: usize,
        path: PathBuf,
        content: FileContent,
        stat: FileStat,
    ) {
        // An import may have read further since. What this thread read itself is never behind what is committed.
        if let Some(imported) = self.submissions.imported(state.identity)
            && imported.ledger.moved_bytes() > state.ledger.moved_bytes()
        {
            state = SourceState::clone(&imported);
        }
        state = self.of_block(state, block, &path);
        state.status = match state.status {
            SourceStatus::Rotated => SourceStatus::Rotated,
            // Also where another file was saved at the path.
            _ if path == state.path => SourceStatus::Live,
            _ => SourceStatus::Rotated,
        };
        (state.device, state.inode) = (stat.device, stat.inode);
        tracing::debug!(path = %path.escaped(), position = state.position, "file is resumed");
        self.follow_reader(FileReader::new(state, Some(content)), block, path, stat);
    }

    /// Whether a state is later than what is known of its source.
    fn is_later(&self, state: &SourceState) -> bool {
        let known = self.sources.source(state.identity);
        known.is_none_or(|known| state.ledger.moved_bytes() > known.ledger.moved_bytes())
    }

    /// The state of a source that was imported, as a source of the block that follows its file from now on.
    fn of_block(&self, state: SourceState, block: usize, path: &Path) -> SourceState {
        if state.kind != SourceKind::Import {
            return state;
        }
        let (block, path) = (self.blocks.options(block).name.clone(), path.to_path_buf());
        SourceState { kind: SourceKind::Tail, status: SourceStatus::Live, block, path, ..state }
    }

    pub(super) fn follow_reader(&mut self, reader: FileReader, block: usize, path: PathBuf, stat: FileStat) {
        let waited = self.ignored.get(&path).filter(|file| matches!(file.reason, IgnoreReason::Zeros { .. }));
        let zeros_final_before = waited.map_or(0, |file| file.size_since);
        self.ignored.remove(&path);
        let Some(claim) = self.submissions.claim(reader.state.identity) else {
            // An import reads it.
            return self.ignore(path, block, stat, IgnoreReason::Unfinished);
        };
        let initial = reader.state.clone();
        self.sources.put(initial.clone());
        let mut file = FollowedFile::new(reader, block, path, stat, initial, Instant::now(), &self.timings);
        file.zeros_final_before = zeros_final_before;
        file.claim = Some(claim);
        self.files.insert(file);
    }

    /// Examines ignored files that have changed or are due.
    pub(super) fn check_ignored(&mut self) {
        let now = Instant::now();
        for (path, ignored) in self.ignored.due(now, &self.timings) {
            match FileStat::at(&path) {
                Ok(Some(stat)) if stat.is_same_file(&ignored.stat) || !ignored.has_no_whole_line() => {
                    let action = self.next_action(&ignored, &stat, now);
                    if action == IgnoredAction::Own && self.discovery.block_of(&path).is_none() {
                        self.ignored.remove(&path);
                        continue;
                    }
                    self.act(DiscoveredFile { path, block: ignored.block }, &stat, action);
                }
                Err(error) if !is_gone(&error) => {}
                _ => self.ignored_file_moved(path, ignored),
            }
        }
    }

    /// Handles an ignored file that is no longer at its path. A file without a complete line may have been rotated.
    fn ignored_file_moved(&mut self, path: PathBuf, ignored: IgnoredFile) {
        let is_unfinished = ignored.has_no_whole_line() && ignored.stat.size > 0;
        let renamed = is_unfinished.then(|| renamed(&path, ignored.stat.device, ignored.stat.inode));
        // Where that cannot be told, it is looked for again later.
        let Ok(renamed) = renamed.transpose() else { return };
        self.ignored.remove(&path);
        if let Some(renamed) = renamed {
            match renamed {
                Some((path, stat)) => self.ignored.insert_renamed(path, stat, ignored),
                None => {
                    let counters = self.blocks.counters(ignored.block);
                    counters.count(SourceEvent::BytesDestroyed, ignored.stat.size);
                }
            }
        }
        if let Some(block) = self.discovery.block_of(&path) {
            self.consider(DiscoveredFile { path, block });
        }
    }
}
