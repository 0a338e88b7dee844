//! What a file that was found is: a known source under another name or after a pause, a copy of one, or a new one.

use super::content::{Content, Facts, is_utf16, may_become_compressed};
use super::cursor::Cursor;
use super::discover::Found;
use super::followed::Followed;
use super::follower::{Follower, is_gone};
use super::identity::{Likeness, head_of};
use super::kin::is_being_compressed;
use super::parked::{Next, Why};
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
enum Expect<'a> {
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
    pub(super) fn meet_rotated(&mut self, path: PathBuf) {
        let Ok(Some(facts)) = Facts::at(&path) else { return };
        if self.files.of_file(&facts).is_some() {
            return;
        }
        let Some(home) = self.rotated_from(&path, &facts) else { return };
        let known = self.known.of_path(&home).into_iter().next().and_then(|identity| self.state_of(identity));
        let block = known.and_then(|state| self.block_of_source(state)).or_else(|| self.discovery.block_of(&home));
        let Some(block) = block else { return };
        self.meet(Found { path, block });
    }

    /// A path that a block follows was found.
    pub(super) fn meet(&mut self, found: Found) {
        let facts = match Facts::at(&found.path) {
            Ok(Some(facts)) => facts,
            Err(error) if !is_gone(&error) => {
                return self.park(found.path, found.block, Facts::default(), Why::Failed(error.kind()), Some(error));
            }
            // `look_at_parked` sees where it went.
            _ => return,
        };
        // A second name of it, or its next one: it is one source.
        if self.files.of_file(&facts).is_some() {
            self.parked.remove(&found.path);
            return;
        }
        let next = match self.parked.get(&found.path).cloned() {
            Some(parked) if parked.is_headless() && !facts.is_same_file(&parked.facts) => {
                return self.missed_parked(found.path, parked);
            }
            Some(parked) => parked.next(&facts, Instant::now(), &self.pace),
            None => Next::Examine,
        };
        self.examine_next(found, &facts, next);
    }

    pub(super) fn examine_next(&mut self, found: Found, facts: &Facts, next: Next) {
        let home = self.rotated_from(&found.path, facts);
        let expect = match (next, &home) {
            (Next::Leave, _) => return,
            (Next::Examine, Some(home)) => Expect::Between { home },
            (Next::Examine, None) => Expect::Anything,
            (Next::Own, _) => Expect::Own,
            (Next::Complete, _) => Expect::Complete,
        };
        self.examine_as(found, expect);
    }

    fn examine_as(&mut self, found: Found, expect: Expect<'_>) {
        let path = found.path.clone();
        let block = found.block;
        if let Err(error) = self.examine(found, expect) {
            match error.kind() {
                io::ErrorKind::NotFound => {}
                // A compressed file that is not complete, or is compressed by what nothing here decodes.
                io::ErrorKind::UnexpectedEof | io::ErrorKind::Unsupported => {
                    if error.kind() == io::ErrorKind::Unsupported && !self.parked.contains_key(&path) {
                        tracing::info!(path = %path.escaped(), %error, "file is not read");
                    }
                    let facts = Facts::at(&path).ok().flatten().unwrap_or_default();
                    self.park(path.clone(), block, facts, Why::Compressed, None);
                }
                kind => self.park(path.clone(), block, Facts::default(), Why::Failed(kind), Some(error)),
            }
        }
        if let (Expect::Between { home }, Some(parked)) = (expect, self.parked.get_mut(&path)) {
            parked.home = Some(home.to_path_buf());
        }
    }

    fn examine(&mut self, found: Found, expect: Expect<'_>) -> io::Result<()> {
        let Found { path, block } = found;
        let (mut content, facts) = self.files.open_at(&path)?;
        if self.files.of_file(&facts).is_some() {
            return Ok(());
        }
        if own_output::is_output(facts.device, facts.inode) {
            self.park(path, block, facts, Why::Own, None);
            return Ok(());
        }
        for identity in self.known.of_file(facts.device, facts.inode) {
            let Some(state) = self.known.source(identity).filter(|_| self.files.file(identity).is_none()) else {
                continue;
            };
            let state = SourceState::clone(state);
            if compare(&mut content, &state)? == Likeness::Same {
                self.follow(state, block, path, content, facts);
                return Ok(());
            }
            if state.status != SourceStatus::Ended {
                // It could not be read when it was looked for.
                self.resume(state);
                if self.files.of_file(&facts).is_some() {
                    self.parked.remove(&path);
                    return Ok(());
                }
            }
        }
        let beginning = content.beginning()?;
        let is_complete = match content.is_compressed() {
            true => !content.is_cut(),
            false => expect == Expect::Complete && !may_become_compressed(&path, &beginning),
        };
        let Some(head) = head_of(&beginning, is_complete) else {
            // What it has of its first line is no line, and may be the beginning of one that was read.
            if content.is_compressed() {
                self.park(path, block, facts, Why::Compressed, None);
                return Ok(());
            }
            let was_rotated = Why::Headless { is_rotated: true };
            let is_rotated = matches!(expect, Expect::Between { .. })
                || self.parked.get(&path).is_some_and(|parked| parked.why == was_rotated);
            self.park(path, block, facts, Why::Headless { is_rotated }, None);
            return Ok(());
        };
        let mut is_rewritten = false;
        if matches!(expect, Expect::Anything | Expect::Between { .. })
            && let Some((identity, kinship)) = self.kin_of(&path, &mut content, &facts, head, &mut is_rewritten)?
        {
            self.join(identity, kinship, block, path, content, facts);
            return Ok(());
        }
        if content.is_compressed() && !matches!(expect, Expect::Between { .. }) {
            let why = if is_being_compressed(&path) { Why::Compressing } else { Why::Compressed };
            self.park(path, block, facts, why, None);
            return Ok(());
        }
        if is_rewritten {
            self.counters_of(block).count(SourceEvent::Rewrite, 1);
            tracing::info!(path = %path.escaped(), "a file was written anew over its path: it is read from its beginning");
        }
        self.begin(block, path, content, facts, head, expect)
    }

    /// Begins a new source.
    fn begin(
        &mut self,
        block: usize,
        path: PathBuf,
        content: Content,
        facts: Facts,
        head: &[u8],
        expect: Expect<'_>,
    ) -> io::Result<()> {
        let options = &self.blocks[block];
        let is_rotated = matches!(expect, Expect::Complete | Expect::Between { .. });
        let parked_home = || self.parked.get(&path).and_then(|parked| parked.home.clone());
        let home = match expect {
            Expect::Between { home } => home.to_path_buf(),
            _ => parked_home().unwrap_or_else(|| path.clone()),
        };
        let status = if is_rotated { SourceStatus::Rotated } else { SourceStatus::Live };
        let state = SourceState { status, ..self.known.begin(SourceKind::Tail, &options.name, home, &facts, head) };
        let (identity, now) = (state.identity, state.seen);
        let age = now.unix_seconds() - facts.modified.0;
        let is_old = options.ignore_older.is_some_and(|older| age > i64::try_from(older.as_secs()).unwrap_or(i64::MAX));
        let is_at_end = options.read_from == ReadFrom::End && self.is_first_look && self.is_first_run[block];
        let mut cursor = Cursor::new(state, Some(content));
        if is_old || is_at_end {
            let skipped = cursor.skip_to_end(facts.size)?;
            let ledger = &mut cursor.state_mut().ledger;
            *(if is_old { &mut ledger.older_bytes } else { &mut ledger.begun_bytes }) += skipped;
            self.counters_of(block).count(SourceEvent::BytesSkipped, skipped);
        }
        if is_utf16(head) {
            tracing::warn!(path = %path.escaped(), "file is UTF-16: its lines are kept with U+FFFD and NUL in them; have it written as UTF-8");
        }
        tracing::debug!(path = %path.escaped(), identity = format!("{identity:016x}"), "file is followed");
        self.follow_cursor(cursor, block, path, facts);
        Ok(())
    }

    /// Goes on with a known source in the file at `path`.
    pub(super) fn follow(
        &mut self,
        mut state: SourceState,
        block: usize,
        path: PathBuf,
        content: Content,
        facts: Facts,
    ) {
        state.status = match state.status {
            SourceStatus::Rotated => SourceStatus::Rotated,
            // Also where it is another file by now, which was saved in its place.
            _ if path == state.path => SourceStatus::Live,
            _ => SourceStatus::Rotated,
        };
        (state.device, state.inode) = (facts.device, facts.inode);
        tracing::debug!(path = %path.escaped(), position = state.position, "file goes on");
        self.follow_cursor(Cursor::new(state, Some(content)), block, path, facts);
    }

    pub(super) fn follow_cursor(&mut self, cursor: Cursor, block: usize, path: PathBuf, facts: Facts) {
        self.parked.remove(&path);
        let begun = cursor.state.clone();
        self.known.put(begun.clone());
        self.files.insert(Followed::new(cursor, block, path, facts, begun, Instant::now(), &self.pace));
    }

    pub(super) fn state_of(&self, identity: u64) -> Option<&SourceState> {
        self.files.file(identity).map(Followed::state).or_else(|| self.known.source(identity).map(Arc::as_ref))
    }
}
