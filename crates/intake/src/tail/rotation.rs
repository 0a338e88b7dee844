//! What became of a file that is no longer where it was, or no longer what it was.
//!
//! A renamed file is found by its inode beside its old path. A removed one is read to its end through the descriptor.
//! Of a truncated one there may be a copy beside it, which has the rest. Only when there is none are bytes lost, and
//! then they are counted.

use super::discovery::DiscoveredFile;
use super::file_reader::FileReader;
use super::followed_file::FileAccess;
use super::follower::Follower;
use super::search::{CopyCandidate, renamed};
use super::source_index::NO_INODE;
use crate::counters::SourceEvent;
use daytable_model::path_text::PathText;
use daytable_store::SourceStatus;
use std::path::PathBuf;
use std::time::Instant;

impl Follower {
    /// The path of a file leads to another one, or nowhere.
    pub(super) fn file_moved(&mut self, identity: u64, unread: u64) {
        let Some(file) = self.files.file_mut(identity) else { return };
        let (path, stamp) = (file.path.clone(), file.stamp);
        if let Some((path, _)) = renamed(&path, stamp.device, stamp.inode) {
            tracing::debug!(from = %file.path.escaped(), to = %path.escaped(), "file was renamed");
            file.path = path;
            file.schedule.check_at(Instant::now());
            self.rotated(identity);
        } else if file.reader.content.is_some() && file.access == FileAccess::Path {
            tracing::debug!(path = %path.escaped(), "file was removed, it is read to its end");
            file.access = FileAccess::Descriptor;
            file.schedule.check_at(Instant::now());
            self.rotated(identity);
        } else if !self.go_on_in_copy(identity) {
            self.abandon(identity, unread);
        }
        self.consider_path(path);
    }

    /// A file does not have the bytes any more that were read from it: it was truncated, and perhaps written anew.
    pub(super) fn file_rewritten(&mut self, identity: u64, unread: u64) {
        let Some(file) = self.files.file_mut(identity) else { return };
        let path = file.path.clone();
        tracing::debug!(path = %path.escaped(), "file was truncated");
        file.reader.content = None;
        if !self.go_on_in_copy(identity) {
            self.abandon(identity, unread);
        }
        self.consider_path(path);
    }

    /// What the path of a file that moved away leads to now is a file of its own.
    fn consider_path(&mut self, path: PathBuf) {
        match self.discovery.block_of(&path) {
            Some(block) => self.consider(DiscoveredFile { path, block }),
            None => self.consider_rotated(path),
        }
    }

    fn rotated(&mut self, identity: u64) {
        let Some(file) = self.files.file_mut(identity) else { return };
        self.idle_files.wake(file);
        if file.status() == SourceStatus::Live {
            file.set_status(SourceStatus::Rotated);
            self.blocks.counters(file.block).count(SourceEvent::Rotation, 1);
        }
    }

    /// Goes on in a copy of the file, if there is one beside it.
    fn go_on_in_copy(&mut self, identity: u64) -> bool {
        let Some(file) = self.files.file(identity) else { return false };
        let found = self.related_files().copy_of(file.state(), &file.path);
        let Some(CopyCandidate { path, content, stamp }) = found else { return false };
        tracing::debug!(from = %file.path.escaped(), to = %path.escaped(), "file goes on in its copy");
        let old = file.stamp;
        self.files.moved(identity, &old, &stamp);
        self.ignored.remove(&path);
        let Some(file) = self.files.file_mut(identity) else { return false };
        let mut state = file.state().clone();
        (state.device, state.inode) = (stamp.device, stamp.inode);
        self.sources.put(state.clone());
        file.reader = FileReader::new(state, Some(content));
        file.path = path;
        file.stamp = stamp;
        file.access = FileAccess::Path;
        file.has_more = true;
        file.is_final = false;
        file.is_changed = true;
        self.rotated(identity);
        true
    }

    /// What a source had is gone; what of it was seen and not read is counted.
    fn abandon(&mut self, identity: u64, unread: u64) {
        let Some(file) = self.files.file_mut(identity) else { return };
        let (block, stamp) = (file.block, file.stamp);
        if unread > 0 {
            tracing::warn!(path = %file.path.escaped(), unread, "file was truncated or removed before it was read");
        }
        file.reader.state_mut().ledger.lost_bytes += unread;
        // Whatever has this inode from now on is another file.
        file.reader.state_mut().inode = NO_INODE;
        file.reader.content = None;
        file.has_more = false;
        self.files.release(identity, &stamp);
        self.rotated(identity);
        self.blocks.counters(block).count(SourceEvent::BytesDestroyed, unread);
        self.end(identity);
    }

    /// A source was read to its end and gets nothing more.
    pub(super) fn end(&mut self, identity: u64) {
        let Some(file) = self.files.file_mut(identity) else { return };
        file.set_status(SourceStatus::Ended);
        tracing::debug!(path = %file.path.escaped(), "file has ended");
        let state = file.state().clone();
        self.sources.put(state);
    }
}
