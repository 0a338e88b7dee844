//! Handles a file that left its path or changed its content.
//!
//! A renamed file is found by its inode beside its old path. A removed file is read to its end through the descriptor.
//! A truncated file may have a copy beside it with the rest. If there is none, a last record or line that waited becomes
//! a record, and the unread bytes behind it are lost and counted.

use super::discovery::DiscoveredFile;
use super::file_content::FileContent;
use super::file_reader::FileReader;
use super::followed_file::FileAccess;
use super::follower::TailFollower;
use super::search::{CopyCandidate, last_timed_line, renamed};
use super::source_index::NO_INODE;
use crate::counters::SourceEvent;
use daytable_model::path_text::PathText;
use daytable_model::source_id::SourceId;
use daytable_store::SourceStatus;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

impl TailFollower {
    /// Handles a path that leads to another file, or to none.
    pub(super) fn file_moved(&mut self, identity: SourceId, unread: u64) {
        let Some(file) = self.files.file_mut(identity) else { return };
        let (path, stat) = (file.path.clone(), file.stat);
        match renamed(&path, stat.device, stat.inode) {
            Ok(Some((path, _))) => {
                tracing::debug!(from = %file.path.escaped(), to = %path.escaped(), "file was renamed");
                file.path = path;
                file.schedule.check_at(Instant::now());
                self.rotated(identity);
            }
            _ if file.reader.content.is_some() && file.access == FileAccess::Path => {
                tracing::debug!(path = %path.escaped(), "file was removed, it is read to its end");
                file.access = FileAccess::Descriptor;
                file.schedule.check_at(Instant::now());
                self.rotated(identity);
            }
            // It may be there under a name that cannot be looked for now.
            Err(error) => return self.read_failed(identity, error),
            Ok(None) => match self.go_on_in_copy(identity) {
                Ok(true) => {}
                Ok(false) => self.abandon(identity, unread),
                Err(error) => return self.read_failed(identity, error),
            },
        }
        self.consider_path(path);
    }

    /// A file has no longer the bytes that were read from it: it was truncated, and perhaps written again.
    pub(super) fn file_rewritten(&mut self, identity: SourceId, unread: u64) {
        let Some(file) = self.files.file_mut(identity) else { return };
        let path = file.path.clone();
        let mut content = file.reader.content.take();
        match self.go_on_in_copy(identity) {
            Ok(true) => tracing::debug!(path = %path.escaped(), "file was truncated"),
            Ok(false) if self.go_on_before_change(identity, &mut content) => return,
            Ok(false) => self.abandon(identity, unread),
            Err(error) => {
                if let Some(file) = self.files.file_mut(identity) {
                    file.reader.content = content;
                }
                return self.read_failed(identity, error);
            }
        }
        self.consider_path(path);
    }

    /// Another file may be at the path now.
    pub(super) fn consider_path(&mut self, path: PathBuf) {
        match self.discovery.block_of(&path) {
            Some(block) => self.consider(DiscoveredFile { path, block }),
            None => self.consider_rotated(path),
        }
    }

    fn rotated(&mut self, identity: SourceId) {
        let Some(file) = self.files.file_mut(identity) else { return };
        self.watches.wake(file);
        if file.status() == SourceStatus::Live {
            file.set_status(SourceStatus::Rotated);
            self.blocks.counters(file.block).count(SourceEvent::Rotation, 1);
        }
    }

    /// Continues in a copy beside the file. False if there is no copy; an error if it cannot be looked for now.
    fn go_on_in_copy(&mut self, identity: SourceId) -> io::Result<bool> {
        let Some(file) = self.files.file(identity) else { return Ok(false) };
        let found = self.related_files().copy_of(file.state(), &file.path)?;
        let Some(CopyCandidate { path, content, stat }) = found else { return Ok(false) };
        tracing::debug!(from = %file.path.escaped(), to = %path.escaped(), "file is resumed in its copy");
        let old = file.stat;
        self.files.moved(identity, &old, &stat);
        self.ignored.remove(&path);
        let Some(file) = self.files.file_mut(identity) else { return Ok(false) };
        let mut state = file.state().clone();
        (state.device, state.inode) = (stat.device, stat.inode);
        self.sources.put(state.clone());
        file.reader = FileReader::new(state, Some(content));
        file.path = path;
        file.stat = stat;
        file.access = FileAccess::Path;
        file.read_end = None;
        file.zeros_final_before = 0;
        file.has_more = true;
        file.is_final = false;
        file.is_changed = true;
        self.rotated(identity);
        Ok(true)
    }

    /// Goes back in the file to the last line that it still has: its writer took lines back. False if that cannot be told
    /// from a file that was truncated and begins with the same lines again, which nothing but a time in them tells.
    fn go_on_before_change(&mut self, identity: SourceId, content: &mut Option<FileContent>) -> bool {
        let Some(file) = self.files.file_mut(identity) else { return false };
        let Some(mut content) = content.take().filter(|content| !content.is_compressed()) else { return false };
        let reading = &self.blocks.options(file.block).reading;
        let Ok(stat) = content.stat() else { return false };
        let timed = last_timed_line(&mut content, file.state(), reading);
        file.reader.content = Some(content);
        let gone = match (file.reader.go_before_unended(), timed) {
            (Ok(false), Ok(Some(position))) => file.reader.go_to(position).map(|()| true),
            (Ok(false), Err(error)) => Err(error),
            (gone, _) => gone,
        };
        match gone {
            Ok(true) => {}
            Ok(false) => {
                file.reader.content = None;
                return false;
            }
            Err(error) => {
                tracing::warn!(path = %file.path.escaped(), %error, "failed to read a file, retrying");
                file.reader.content = None;
                return false;
            }
        }
        let position = file.state().position;
        tracing::warn!(path = %file.path.escaped(), position, "file became shorter than what was read of it: it is read on from this position");
        self.blocks.counters(file.block).count(SourceEvent::Rewrite, 1);
        file.reader.forget_parser();
        file.stat = stat;
        file.read_end = None;
        file.zeros_final_before = 0;
        file.has_more = true;
        file.is_final = false;
        file.is_changed = true;
        true
    }

    /// Counts the unread bytes of a source as lost, because its file is gone.
    fn abandon(&mut self, identity: SourceId, unread: u64) {
        let Some(file) = self.files.file_mut(identity) else { return };
        let (block, stat) = (file.block, file.stat);
        // What waited was read, and is final now.
        let held = self.chunk_reader.write_held(file, &self.blocks, &mut self.submissions);
        let unread = unread.saturating_sub(held);
        if unread > 0 {
            tracing::warn!(path = %file.path.escaped(), unread, "file was truncated or removed before all of it was read: the unread bytes are lost");
        }
        file.reader.state_mut().ledger.lost_bytes += unread;
        // A loss is committed as soon as a record, also while other files have more to read.
        file.is_changed = true;
        self.submissions.note_progress();
        // Another file may get the inode.
        file.reader.state_mut().inode = NO_INODE;
        file.reader.content = None;
        file.has_more = false;
        self.files.release(identity, &stat);
        self.rotated(identity);
        self.blocks.counters(block).count(SourceEvent::BytesDestroyed, unread);
        self.end(identity);
    }

    /// Ends a source that was read to its end and gets no more bytes.
    pub(super) fn end(&mut self, identity: SourceId) {
        let Some(file) = self.files.file_mut(identity) else { return };
        file.set_status(SourceStatus::Ended);
        tracing::debug!(path = %file.path.escaped(), "file has ended");
        let state = file.state().clone();
        self.sources.put(state);
    }
}
