//! The sources of earlier runs: where their files are now.
//!
//! A renamed file is found by its inode. A copied or compressed file is found by its bytes. A file that lost its end in
//! a power cut is read on from the last position that still matches.

use super::file_content::FileStat;
use super::file_reader::{FileReader, last_newline_end};
use super::follower::{TailFollower, is_gone};
use super::identity::{Likeness, resume_after_loss};
use super::ignored_files::IgnoreReason;
use super::search::{CopyCandidate, compare, last_timed_line, renamed};
use super::source_index::NO_INODE;
use crate::own_output;
use daytable_model::path_text::PathText;
use daytable_parse::ParseOptions;
use daytable_store::{SourceKind, SourceState, SourceStatus};
use std::io;
use std::path::PathBuf;

/// How often a file is searched again that is renamed between its discovery and its opening.
const LOOKS_MAX: usize = 4;

impl TailFollower {
    /// Finds the files of all sources that have not ended.
    pub(super) fn resume_all(&mut self) {
        let mut open: Vec<SourceState> = self
            .sources
            .sources()
            // The file of an import is followed only where it is discovered.
            .filter(|state| state.kind == SourceKind::Tail && state.status != SourceStatus::Ended)
            .filter(|state| self.files.file(state.identity).is_none())
            .map(|state| SourceState::clone(state))
            .collect();
        // A source with an unchanged file gets it before other sources search for a copy of theirs.
        open.sort_by_cached_key(|state| (!self.is_in_place(state), state.identity));
        for state in open {
            self.resume(state);
        }
    }

    fn is_in_place(&self, state: &SourceState) -> bool {
        let stat = FileStat::at(&state.path).ok().flatten();
        stat.is_some_and(|stat| stat.is_file_of(state))
    }

    pub(super) fn resume(&mut self, mut state: SourceState) {
        let Some(block) = self.blocks.of_source(&state, &self.discovery) else { return };
        let own = FileStat::at(&state.path).ok().flatten();
        let own = own.filter(|stat| stat.is_file_of(&state));
        if let Some(stat) = own.filter(|stat| own_output::is_output(stat.device, stat.inode)) {
            return self.ignore(state.path.clone(), block, stat, IgnoreReason::OwnOutput);
        }
        let mut left = None;
        for _ in 0..LOOKS_MAX {
            let Some(path) = place_of(&state) else { break };
            let opened = self.files.open_at(&path).and_then(|(mut content, stat)| {
                let likeness = compare(&mut content, &state)?;
                Ok((content, stat, likeness))
            });
            match opened {
                // The file was renamed meanwhile, and another file has its name.
                Ok((_, stat, _)) if !stat.is_file_of(&state) => {}
                Ok((content, stat, Likeness::Same)) if self.files.of_file(&stat).is_none() => {
                    return self.follow(state, block, path, content, stat);
                }
                Ok((content, stat, likeness)) => {
                    left = Some((path, content, stat, likeness));
                    break;
                }
                Err(error) if is_gone(&error) => {}
                // It is tried again when the path is discovered again.
                Err(error) => return self.ignore_failed(path, block, error),
            }
        }
        // Where nothing can be opened, the file is compared with this source once it is discovered.
        let copy = self.related_files().copy_of(&state, &state.path).unwrap_or_default();
        if let Some(CopyCandidate { path, content, stat }) = copy {
            return self.follow(state, block, path, content, stat);
        }
        let was_rewritten = left.is_some();
        if let Some((path, content, stat, likeness)) = left.filter(|(_, content, ..)| !content.is_compressed()) {
            let mut reader = FileReader::new(state.clone(), Some(content));
            match go_on_after_loss(&mut reader, likeness, &stat, &self.blocks.options(block).reading) {
                Ok(true) => {
                    tracing::warn!(path = %path.escaped(), position = reader.state.position, "file became shorter than what was read of it: it is read on from this position");
                    return self.follow_reader(reader, block, path, stat);
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(path = %path.escaped(), %error, "failed to read a file that became shorter: it counts as gone")
                }
            }
        }
        tracing::debug!(path = %state.path.escaped(), "file of an earlier run is gone");
        state.status = SourceStatus::Ended;
        if was_rewritten {
            state.inode = NO_INODE;
        }
        self.sources.put(state.clone());
        self.submissions.detach(state);
    }
}

/// The path of a source's own file, by device and inode.
fn place_of(state: &SourceState) -> Option<PathBuf> {
    let own = FileStat::at(&state.path).ok().flatten();
    match own.filter(|stat| stat.is_file_of(state)) {
        Some(_) => Some(state.path.clone()),
        None => renamed(&state.path, state.device, state.inode).ok()?.map(|(path, _)| path),
    }
}

/// Moves to the position at which a file without its end is resumed. False if it is another file.
fn go_on_after_loss(
    reader: &mut FileReader,
    likeness: Likeness,
    stat: &FileStat,
    reading: &ParseOptions,
) -> io::Result<bool> {
    if reader.go_before_unended()? {
        return Ok(true);
    }
    let Some(content) = &mut reader.content else { return Ok(false) };
    // The lost end may have others behind it, in a file that is shorter all the same. Lines with a time that are read
    // again get the keys that they had.
    if likeness == Likeness::Shorter
        && let Some(position) = last_timed_line(content, &reader.state, reading)?
    {
        reader.go_to(position)?;
        return Ok(true);
    }
    let end = last_newline_end(content, stat.size)?.unwrap_or(0);
    let Some(position) = resume_after_loss(&reader.state, likeness, end) else { return Ok(false) };
    reader.go_to(position)?;
    Ok(true)
}
