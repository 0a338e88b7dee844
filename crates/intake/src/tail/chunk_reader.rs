//! Reads files in chunks, with one buffer for all of them.

use super::blocks::TailBlocks;
use super::file_reader::{ReadContext, ReadOutcome, TailEnd};
use super::followed_file::FollowedFile;
use super::submissions::Submissions;
use crate::route::Router;
use daytable_model::time;
use daytable_platform::memory;
use std::io;
use std::time::{Duration, Instant};

/// How long the buffer is kept while no file is read.
const BUFFER_KEPT: Duration = Duration::from_secs(10);

/// The buffers and settings for reading any file.
pub(super) struct ChunkReader {
    router: Router,
    host: String,
    buffer: Vec<u8>,
    last_read: Instant,
}

impl ChunkReader {
    /// `host` is this host's name.
    pub(super) fn new(router: Router, host: String) -> ChunkReader {
        ChunkReader { router, host, buffer: Vec::new(), last_read: Instant::now() }
    }

    /// Loads the current tables of the configuration. Whether they are others than before: then the routes that files keep
    /// are old.
    pub(super) fn refresh_router(&mut self) -> bool {
        let version = self.router.version();
        self.router.refresh();
        self.router.version() != version
    }

    /// Reads a chunk of an open file, and records the outcome in the file.
    pub(super) fn read(
        &mut self,
        file: &mut FollowedFile,
        tail_end: TailEnd,
        blocks: &TailBlocks,
        submissions: &mut Submissions,
    ) -> io::Result<ReadOutcome> {
        let mut context = self.context(file, blocks, submissions);
        let is_compressed = file.reader.content.as_ref().is_some_and(|content| content.is_compressed());
        let before = (file.state().position, file.state().ledger.lost_bytes);
        let outcome = file.reader.read_chunk(if is_compressed { TailEnd::Final } else { tail_end }, &mut context);
        file.is_in_use = true;
        self.last_read = Instant::now();
        if (file.state().position, file.state().ledger.lost_bytes) != before {
            file.is_changed = true;
            submissions.note_progress();
        }
        let outcome = outcome?;
        if outcome == ReadOutcome::Rewritten {
            return Ok(outcome);
        }
        let is_at_end = outcome == ReadOutcome::AtEnd;
        file.read_end = file.reader.data_end().filter(|_| is_at_end).map(|end| (file.stat.size.max(end), end));
        file.has_more = !is_at_end;
        if matches!(tail_end, TailEnd::Final | TailEnd::FinalLine { .. }) {
            file.is_final = is_at_end;
        }
        file.failed = None;
        if is_at_end && (tail_end != TailEnd::Open || file.state().position == before.0) {
            // The last line was final, or waits from now on.
            file.reader.forget_parser();
        }
        if is_at_end && is_compressed {
            // The file is complete, and its decoder needs more memory than it is worth.
            file.reader.content = None;
        }
        Ok(outcome)
    }

    /// Writes what waited at the end of a file that has lost it. Returns its bytes.
    pub(super) fn write_held(
        &mut self,
        file: &mut FollowedFile,
        blocks: &TailBlocks,
        submissions: &mut Submissions,
    ) -> u64 {
        file.reader.write_held(&mut self.context(file, blocks, submissions))
    }

    /// What reading a file needs.
    fn context<'a>(
        &'a mut self,
        file: &FollowedFile,
        blocks: &'a TailBlocks,
        submissions: &'a mut Submissions,
    ) -> ReadContext<'a> {
        let (batcher, newest) = submissions.rows();
        ReadContext {
            buffer: &mut self.buffer,
            router: &self.router,
            batcher,
            options: blocks.options(file.block),
            counters: blocks.counters(file.block),
            host: &self.host,
            now: time::now(),
            zeros_final_before: file.zeros_final_before,
            newest,
            rereading: None,
        }
    }

    /// Returns the buffer to the system after a while without reading.
    pub(super) fn release_unused_buffer(&mut self) {
        if self.last_read.elapsed() >= BUFFER_KEPT && self.buffer.capacity() > 0 {
            self.buffer = Vec::new();
            memory::release_free();
        }
    }
}
