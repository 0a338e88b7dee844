//! What a file that was found is: a known source under another name or after a pause, a copy of one, or a new one.

use super::content::{Content, Facts};
use super::counters::count;
use super::cursor::{Cursor, last_newline_end};
use super::discover::Found;
use super::followed::{Followed, Hold};
use super::follower::{Follower, is_gone};
use super::identity::{Kinship, Likeness, head_of, kinship, mark_at, resume_after_loss};
use super::known::NO_INODE;
use super::names::{is_made_from, is_next_of};
use super::parked::{Next, Parked, Why};
use super::search::{Candidate, compare, copied, renamed};
use crate::config::ReadFrom;
use crate::store::{Ledger, SourceKind, SourceState, SourceStatus};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What is expected of a file that is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    Anything,
    /// It is no copy, whatever it looks like.
    Own,
    /// It gets nothing more: what it has is its whole first line.
    Complete,
}

impl Follower {
    /// Finds the files of the sources that were followed before, whatever became of them meanwhile.
    pub(super) fn resume_all(&mut self) {
        let mut open: Vec<SourceState> = self
            .known
            .sources()
            .filter(|state| state.status != SourceStatus::Ended && self.files.file(state.identity).is_none())
            .cloned()
            .collect();
        // Those whose own file is as it was take it before others look for a copy of theirs.
        open.sort_by_key(|state| (!self.is_in_place(state), state.identity));
        for state in open {
            self.resume(state);
        }
    }

    fn is_in_place(&self, state: &SourceState) -> bool {
        let facts = Facts::at(&state.path).ok().flatten();
        facts.is_some_and(|facts| (facts.device, facts.inode) == (state.device, state.inode))
    }

    fn resume(&mut self, mut state: SourceState) {
        let Some(block) = self.block_of_source(&state) else { return };
        let own = Facts::at(&state.path).ok().flatten();
        let own = own.filter(|facts| (facts.device, facts.inode) == (state.device, state.inode));
        let place = match own {
            Some(_) => Some(state.path.clone()),
            None => renamed(&state.path, state.device, state.inode).map(|(path, _)| path),
        };
        let mut left = None;
        if let Some(path) = place {
            let opened = self.files.open_at(&path).and_then(|(mut content, facts)| {
                let likeness = compare(&mut content, &state)?;
                Ok((content, facts, likeness))
            });
            match opened {
                Ok((content, facts, Likeness::Same)) if self.files.of_file(&facts).is_none() => {
                    return self.follow(state, block, path, content, facts);
                }
                Ok((content, facts, likeness)) => left = Some((path, content, facts, likeness)),
                Err(error) if is_gone(&error) => {}
                // It is tried again when the path is found again.
                Err(error) => return self.park(path, block, Facts::default(), Why::Failed(error.kind()), Some(error)),
            }
        }
        if let Some(Candidate { path, content, facts }) =
            copied(&state, &state.path, |facts| self.files.of_file(facts).is_some())
        {
            return self.follow(state, block, path, content, facts);
        }
        let was_rewritten = left.is_some();
        if let Some((path, content, facts, likeness)) = left.filter(|(_, content, ..)| !content.is_compressed()) {
            let mut cursor = Cursor::new(state.clone(), Some(content));
            match go_on_after_loss(&mut cursor, likeness, &facts) {
                Ok(true) => {
                    tracing::warn!(path = %path.display(), position = cursor.state.position, "file lost its tail");
                    return self.follow_cursor(cursor, block, path, facts);
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(path = %path.display(), %error, "cannot read file"),
            }
        }
        tracing::debug!(path = %state.path.display(), "file of an earlier run is gone");
        state.status = SourceStatus::Ended;
        if was_rewritten {
            state.inode = NO_INODE;
        }
        self.known.put(state.clone());
        self.loose.push(state);
    }

    /// The block that a source belongs to: the one it had, else the one that follows its path now.
    fn block_of_source(&self, state: &SourceState) -> Option<usize> {
        let named = self.blocks.iter().position(|block| block.name == state.block);
        named.or_else(|| self.discovery.block_of(&state.path))
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
        let next = match self.parked.get(&found.path).copied() {
            Some(parked) if is_headless(&parked) && !facts.is_same_file(&parked.facts) => {
                return self.missed_parked(found.path, parked);
            }
            Some(parked) => parked.next(&facts, Instant::now(), &self.pace),
            None => Next::Examine,
        };
        self.examine_as(found, next);
    }

    /// Looks whether files that are parked have changed.
    pub(super) fn look_at_parked(&mut self) {
        let now = Instant::now();
        // There may be many compressed ones, and nobody waits for them.
        let is_due = |parked: &Parked| {
            parked.why != Why::Compressed || now.saturating_duration_since(parked.checked) >= self.pace.rescan
        };
        let due = self.parked.iter_mut().filter(|(_, parked)| is_due(parked));
        let due: Vec<(PathBuf, Parked)> = due
            .map(|(path, parked)| {
                if parked.why == Why::Compressed {
                    parked.checked = now;
                }
                (path.clone(), *parked)
            })
            .collect();
        for (path, parked) in due {
            match Facts::at(&path) {
                Ok(Some(facts)) if facts.is_same_file(&parked.facts) || !is_headless(&parked) => {
                    let next = parked.next(&facts, now, &self.pace);
                    self.examine_as(Found { path, block: parked.block }, next);
                }
                Err(error) if !is_gone(&error) => {}
                _ => self.missed_parked(path, parked),
            }
        }
    }

    /// A parked file is no longer where it was. One without a whole line may have been rotated away like that.
    fn missed_parked(&mut self, path: PathBuf, parked: Parked) {
        self.parked.remove(&path);
        if is_headless(&parked) && parked.facts.size > 0 {
            match renamed(&path, parked.facts.device, parked.facts.inode) {
                Some((path, facts)) => {
                    let why = Why::Headless { is_rotated: true };
                    self.parked.insert(path, Parked { why, facts, changed: Instant::now(), ..parked });
                }
                None => count(&self.counters_of(parked.block).lost_bytes, parked.facts.size),
            }
        }
        if let Some(block) = self.discovery.block_of(&path) {
            self.meet(Found { path, block });
        }
    }

    fn examine_as(&mut self, found: Found, next: Next) {
        let expect = match next {
            Next::Leave => return,
            Next::Examine => Expect::Anything,
            Next::Own => Expect::Own,
            Next::Complete => Expect::Complete,
        };
        let path = found.path.clone();
        let block = found.block;
        if let Err(error) = self.examine(found, expect) {
            match error.kind() {
                io::ErrorKind::NotFound => {}
                // A compressed file that is not complete.
                io::ErrorKind::UnexpectedEof => {
                    let facts = Facts::at(&path).ok().flatten().unwrap_or_default();
                    self.park(path, block, facts, Why::Compressed, None);
                }
                kind => self.park(path, block, Facts::default(), Why::Failed(kind), Some(error)),
            }
        }
    }

    fn examine(&mut self, found: Found, expect: Expect) -> io::Result<()> {
        let Found { path, block } = found;
        let (mut content, facts) = self.files.open_at(&path)?;
        if self.files.of_file(&facts).is_some() {
            return Ok(());
        }
        for identity in self.known.of_file(facts.device, facts.inode) {
            let Some(state) = self.known.source(identity).filter(|_| self.files.file(identity).is_none()).cloned()
            else {
                continue;
            };
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
        let is_complete = expect == Expect::Complete || content.is_compressed();
        let Some(head) = head_of(&beginning, is_complete) else {
            let is_rotated =
                matches!(self.parked.get(&path), Some(Parked { why: Why::Headless { is_rotated: true }, .. }));
            self.park(path, block, facts, Why::Headless { is_rotated }, None);
            return Ok(());
        };
        if expect == Expect::Anything
            && let Some((identity, kinship)) = self.kin_of(&path, &mut content, &facts, head)?
        {
            self.join(identity, kinship, block, path, content, facts);
            return Ok(());
        }
        if content.is_compressed() {
            self.park(path, block, facts, Why::Compressed, None);
            return Ok(());
        }
        self.begin(block, path, content, facts, head, expect)
    }

    /// The source beside a file that it may be a copy of.
    fn kin_of(
        &mut self,
        path: &Path,
        content: &mut Content,
        facts: &Facts,
        head: &[u8],
    ) -> io::Result<Option<(u64, Kinship)>> {
        let head = mark_at(head.len() as u64, head);
        let name = path.file_name().unwrap_or_default();
        for identity in self.known.of_head(head.hash) {
            let Some(state) = self.state_of(identity) else { continue };
            let old = state.path.file_name().unwrap_or_default();
            let (is_made, is_next) = (is_made_from(old, name), is_next_of(old, name));
            if state.path.parent() != path.parent() || !is_made && !is_next {
                continue;
            }
            let state = state.clone();
            let likeness = compare(content, &state)?;
            if !matches!(likeness, Likeness::Same | Likeness::Shorter) {
                continue;
            }
            let stands = self.stands(&state);
            if stands && !is_made {
                continue;
            }
            let size = (!content.is_compressed()).then_some(facts.size);
            if likeness == Likeness::Shorter && !self.is_beginning_of(content, size, &state)? {
                continue;
            }
            match kinship(likeness, stands, size) {
                Kinship::Stranger => {}
                kinship => return Ok(Some((identity, kinship))),
            }
        }
        Ok(None)
    }

    /// Whether a source's own file is where it was, with all that was read from it.
    fn stands(&mut self, state: &SourceState) -> bool {
        let path = match self.files.place(state.identity) {
            // It is read through the descriptor, which has everything.
            Some((_, Hold::Descriptor)) => return true,
            Some((path, Hold::Path)) => path.to_path_buf(),
            None => state.path.clone(),
        };
        let Ok((mut content, facts)) = Content::open(&path) else { return false };
        (facts.device, facts.inode) == (state.device, state.inode)
            && matches!(compare(&mut content, state), Ok(Likeness::Same))
    }

    /// Whether a shorter file is the beginning of a source's file, by the last bytes that it has. Where that is gone or
    /// either is compressed, marks are all there is to go by.
    fn is_beginning_of(&self, content: &mut Content, size: Option<u64>, state: &SourceState) -> io::Result<bool> {
        const COMPARED: usize = 64 << 10;
        let path = self.files.place(state.identity).map_or(state.path.as_path(), |(path, _)| path);
        let (Some(size), Ok((mut original, facts))) = (size, Content::open(path)) else { return Ok(true) };
        if (facts.device, facts.inode) != (state.device, state.inode) || original.is_compressed() {
            return Ok(true);
        }
        let (mut one, mut two) = (vec![0; COMPARED], vec![0; COMPARED]);
        for offset in [0, size.saturating_sub(COMPARED as u64)] {
            let n = content.read_at(offset, &mut one)?;
            let m = original.read_at(offset, &mut two)?;
            if m < n || one[..n] != two[..n] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn join(&mut self, identity: u64, kinship: Kinship, block: usize, path: PathBuf, content: Content, facts: Facts) {
        match kinship {
            Kinship::Continues if self.files.file(identity).is_some() => {
                // It does not know yet that its file has gone.
                if let Some(file) = self.files.file_mut(identity) {
                    file.has_more = false;
                }
                self.park(path, block, facts, Why::Unfinished, None);
                self.look(identity);
            }
            Kinship::Continues => {
                if let Some(state) = self.known.source(identity).cloned() {
                    self.follow(state, block, path, content, facts);
                }
            }
            Kinship::Copy => self.park(path, block, facts, Why::Copy, None),
            Kinship::Unfinished | Kinship::Stranger => self.park(path, block, facts, Why::Unfinished, None),
        }
    }

    /// Begins a new source.
    fn begin(
        &mut self,
        block: usize,
        path: PathBuf,
        content: Content,
        facts: Facts,
        head: &[u8],
        expect: Expect,
    ) -> io::Result<()> {
        let (generation, identity) = self.known.next_identity(facts.device, facts.inode, head);
        let options = &self.blocks[block];
        let now = crate::time::now();
        let status = if expect == Expect::Complete { SourceStatus::Rotated } else { SourceStatus::Live };
        let state = SourceState {
            identity,
            block: options.name.clone(),
            kind: SourceKind::Tail,
            path: path.clone(),
            device: facts.device,
            inode: facts.inode,
            generation,
            head: mark_at(head.len() as u64, head),
            position: 0,
            marks: Vec::new(),
            last_time: None,
            status,
            ledger: Ledger::default(),
            seen: now,
        };
        let age = now.unix_seconds() - facts.modified.0;
        let is_old = options.ignore_older.is_some_and(|older| age > i64::try_from(older.as_secs()).unwrap_or(i64::MAX));
        let is_at_end = options.read_from == ReadFrom::End && self.is_first_look;
        let mut cursor = Cursor::new(state, Some(content));
        if is_old || is_at_end {
            let skipped = cursor.skip_to_end(facts.size)?;
            count(&self.counters_of(block).skipped_bytes, skipped);
        }
        tracing::debug!(path = %path.display(), identity = format!("{identity:016x}"), "file is followed");
        self.follow_cursor(cursor, block, path, facts);
        Ok(())
    }

    /// Goes on with a known source in the file at `path`.
    fn follow(&mut self, mut state: SourceState, block: usize, path: PathBuf, content: Content, facts: Facts) {
        let is_its_own = path == state.path && (facts.device, facts.inode) == (state.device, state.inode);
        state.status = match state.status {
            SourceStatus::Rotated => SourceStatus::Rotated,
            _ if is_its_own => SourceStatus::Live,
            _ => SourceStatus::Rotated,
        };
        (state.device, state.inode) = (facts.device, facts.inode);
        tracing::debug!(path = %path.display(), position = state.position, "file goes on");
        self.follow_cursor(Cursor::new(state, Some(content)), block, path, facts);
    }

    fn follow_cursor(&mut self, cursor: Cursor, block: usize, path: PathBuf, facts: Facts) {
        self.parked.remove(&path);
        self.known.put(cursor.state.clone());
        self.files.insert(Followed::new(cursor, block, path, facts, Instant::now(), &self.pace));
    }

    fn state_of(&self, identity: u64) -> Option<&SourceState> {
        self.files.file(identity).map(Followed::state).or_else(|| self.known.source(identity))
    }

    /// Leaves a file for later, or for good.
    fn park(&mut self, path: PathBuf, block: usize, facts: Facts, why: Why, error: Option<io::Error>) {
        let now = Instant::now();
        let before = self.parked.get(&path);
        if let Some(error) = error {
            count(&self.counters_of(block).read_errors, 1);
            if before.is_none_or(|before| before.why != why) {
                tracing::warn!(path = %path.display(), %error, "cannot read file");
            }
        } else if before.is_none() {
            tracing::debug!(path = %path.display(), ?why, "file is not read");
        }
        let is_same = |before: &&Parked| before.facts == Facts { links: before.facts.links, ..facts };
        let changed = before.filter(is_same).map_or(now, |before| before.changed);
        self.parked.insert(path, Parked { why, block, facts, changed, checked: now });
    }
}

fn is_headless(parked: &Parked) -> bool {
    matches!(parked.why, Why::Headless { .. })
}

/// Finds where a file goes on that lost its tail; false where it is another file.
fn go_on_after_loss(cursor: &mut Cursor, likeness: Likeness, facts: &Facts) -> io::Result<bool> {
    let Some(content) = &mut cursor.content else { return Ok(false) };
    let end = last_newline_end(content, facts.size)?.unwrap_or(0);
    let Some(position) = resume_after_loss(&cursor.state, likeness, end) else { return Ok(false) };
    cursor.go_to(position)?;
    Ok(true)
}
