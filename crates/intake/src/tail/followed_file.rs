//! A file that is followed: its reader, where the file is now, and when it is checked next.

use super::file_content::FileStat;
use super::file_reader::FileReader;
use super::lag::Lag;
use super::options::TailTimings;
use daytable_model::time::Ticks;
use daytable_store::{SourceClaim, SourceState, SourceStatus};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The slack of a check at the end of a wait.
const EXACT_SLACK: Duration = Duration::from_millis(5);

/// A source with a file.
pub(super) struct FollowedFile {
    pub(super) reader: FileReader,
    /// The number of its block.
    pub(super) block: usize,
    /// The current path of the file. `reader.state.path` is the first path of the source.
    pub(super) path: PathBuf,
    pub(super) access: FileAccess,
    /// The last stat.
    pub(super) stat: FileStat,
    pub(super) schedule: PollSchedule,
    /// Since when the file has unread bytes.
    pub(super) lag: Lag,
    /// Whether the last chunk left bytes that can be read at once.
    pub(super) has_more: bool,
    /// Whether the unfinished last line was read since the last change of the file.
    pub(super) is_final: bool,
    /// Whether `reader.state` has changes that are not submitted yet.
    pub(super) is_changed: bool,
    /// The number of the last submission with rows or a position of this file.
    pub(super) submitted: u64,
    /// The number of the kernel's watch for the next write, if the file has one.
    pub(super) watch: Option<i32>,
    /// Whether the file was read since descriptors were scarce last.
    pub(super) is_in_use: bool,
    /// The size of the file when it was read to its end, and the offset where its bytes ended: zeros may follow, or nothing
    /// at all in a file that tells another size.
    pub(super) read_end: Option<(u64, u64)>,
    /// Since when reading waits at zeros, and the size of the file then.
    waits_at_zeros: Option<(Instant, u64)>,
    /// Zeros before this offset are final: they were there for long enough.
    pub(super) zeros_final_before: u64,
    /// The right to read the source.
    pub(super) claim: Option<SourceClaim>,
    /// The last error that was logged.
    pub(super) failed: Option<io::ErrorKind>,
    /// The state with which following began. Reading returns to this state as long as no later state is committed.
    initial: Option<Arc<SourceState>>,
    /// The time in that state. A committed state with a later time was committed since.
    initial_seen: Ticks,
    /// The first submission since then; 0 before there is one.
    first_submission: u64,
}

/// How the file is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileAccess {
    /// Its path.
    Path,
    /// Only the open descriptor: the file was removed, or moved to an unknown place.
    Descriptor,
}

/// When a file is checked.
pub(super) struct PollSchedule {
    next: Instant,
    every: Duration,
    /// How long a check may wait for others, so that one round serves them all.
    slack: Duration,
    /// When the file was last seen to change.
    changed: Instant,
}

impl PollSchedule {
    fn new(now: Instant, timings: &TailTimings) -> PollSchedule {
        PollSchedule { next: now, every: timings.poll_min, slack: Duration::ZERO, changed: now }
    }

    /// The file changed: check it sooner, the more often it changes. A file that changes rarely is checked about twice
    /// for each change: with a thousand such files, checks are most of the work.
    pub(super) fn after_change(&mut self, now: Instant, timings: &TailTimings) {
        let is_slow = self.quiet_for(now) > timings.poll_max / 4 * 3;
        self.changed = now;
        self.every = if is_slow { timings.poll_max / 2 } else { self.every / 2 }.max(timings.poll_min);
        self.set_next(now + self.every);
    }

    fn set_next(&mut self, next: Instant) {
        self.next = next;
        self.slack = self.every / 8;
    }

    /// The file is checked at this time.
    pub(super) fn check_at(&mut self, at: Instant) {
        self.set_next(at);
    }

    /// Whether the file changes rarely.
    pub(super) fn is_slow(&self, timings: &TailTimings) -> bool {
        self.every >= timings.poll_max / 2
    }

    /// The file is checked at this time at the latest.
    pub(super) fn check_by(&mut self, at: Instant) {
        if at < self.next {
            self.next = at;
            self.slack = self.slack.min(EXACT_SLACK);
        }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// When the file is checked at the latest.
    pub(super) fn latest(&self) -> Instant {
        self.next + self.slack
    }

    /// Delays the next check of an unchanged file: up to a second, or up to `poll` if that is longer.
    pub(super) fn after_quiet(&mut self, now: Instant, poll: Duration, timings: &TailTimings) {
        self.every = (self.every * 2).clamp(timings.poll_min, poll.max(timings.poll_max));
        self.set_next(now + self.every);
    }

    /// The file cannot be read: check it after a while.
    pub(super) fn after_trouble(&mut self, now: Instant, timings: &TailTimings) {
        self.every = (self.every * 2).clamp(timings.poll_max, 30 * timings.poll_max);
        self.set_next(now + self.every);
    }

    /// The file was quiet for so long before it was followed.
    pub(super) fn was_quiet_for(&mut self, quiet: Duration) {
        self.changed = self.changed.checked_sub(quiet).unwrap_or(self.changed);
    }

    /// How long the file has not changed.
    pub(super) fn quiet_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.changed)
    }
}

impl FollowedFile {
    /// A file that is followed from now on.
    pub(super) fn new(
        reader: FileReader,
        block: usize,
        path: PathBuf,
        stat: FileStat,
        initial: Arc<SourceState>,
        now: Instant,
        timings: &TailTimings,
    ) -> FollowedFile {
        FollowedFile {
            reader,
            block,
            path,
            access: FileAccess::Path,
            stat,
            schedule: PollSchedule::new(now, timings),
            lag: Lag::default(),
            has_more: true,
            is_final: false,
            is_changed: true,
            submitted: 0,
            watch: None,
            is_in_use: true,
            read_end: None,
            waits_at_zeros: None,
            zeros_final_before: 0,
            claim: None,
            failed: None,
            initial_seen: initial.seen,
            initial: Some(initial),
            first_submission: 0,
        }
    }

    /// The state of its source.
    pub(super) fn state(&self) -> &SourceState {
        &self.reader.state
    }

    /// Whether the source is live, rotated or ended.
    pub(super) fn status(&self) -> SourceStatus {
        self.reader.state.status
    }

    /// Whether the source was read to its end.
    pub(super) fn has_ended(&self) -> bool {
        self.status() == SourceStatus::Ended
    }

    /// Sets the status of the source.
    pub(super) fn set_status(&mut self, status: SourceStatus) {
        if self.reader.state.status != status {
            self.reader.state_mut().status = status;
            self.is_changed = true;
        }
    }

    /// Whether the descriptor can be closed now and opened again later without loss.
    pub(super) fn can_close(&self) -> bool {
        self.access == FileAccess::Path && self.reader.content.is_some()
    }

    /// The number of unread bytes, if it is known.
    pub(super) fn unread(&self) -> u64 {
        match &self.reader.content {
            Some(content) if content.is_compressed() => 0,
            _ => match self.read_end {
                Some((size, end)) => self.reader.unread(end) + self.stat.size.saturating_sub(size),
                None => self.reader.unread(self.stat.size),
            },
        }
    }

    /// Whether the file ends in a line without an end that was not read.
    pub(super) fn has_unended_line(&self) -> bool {
        let is_waiting = !self.is_final && !self.has_more && !self.reader.waits_at_zeros();
        is_waiting && self.reader.open().is_none() && self.unread() > 0
    }

    /// Schedules the end of the wait at zeros, if the last chunk ended at zeros that may still be written.
    pub(super) fn note_zeros(&mut self, now: Instant, zeros_final: Duration) {
        if !self.reader.waits_at_zeros() {
            self.waits_at_zeros = None;
            return;
        }
        let (since, _) = *self.waits_at_zeros.get_or_insert((now, self.stat.size));
        self.schedule.check_by(since + zeros_final);
    }

    /// Whether the zeros at which reading waits became final.
    pub(super) fn have_zeros_become_final(&mut self, now: Instant, zeros_final: Duration) -> bool {
        let is_over = |(since, _): &mut (Instant, u64)| now.saturating_duration_since(*since) >= zeros_final;
        match self.waits_at_zeros.take_if(is_over) {
            Some((_, size)) => {
                self.zeros_final_before = self.zeros_final_before.max(size);
                true
            }
            None => false,
        }
    }

    /// Records since when the file has unread bytes.
    pub(super) fn note_lag(&mut self, now: Ticks) {
        match self.unread() {
            0 => self.lag.clear(),
            _ => self.lag.note(self.reader.state.position, &self.stat, now),
        }
    }

    /// The state for a submission.
    pub(super) fn submit(&mut self, number: u64, seen: Ticks) -> Arc<SourceState> {
        self.submitted = number;
        if self.first_submission == 0 {
            self.first_submission = number;
        }
        let is_as_initial = self.initial.as_ref().is_some_and(|initial| Arc::ptr_eq(initial, &self.reader.state));
        self.reader.state_mut().seen = seen;
        if is_as_initial {
            // Only the time differs. All files begin at once, and sharing the state saves one state per file.
            self.initial = Some(self.reader.state.clone());
        }
        self.reader.state.clone()
    }

    /// Submissions up to this number are committed. If one of them has a state of this file, a rewind returns to that.
    pub(super) fn was_committed(&mut self, number: u64) {
        if self.first_submission > 0 && self.first_submission <= number {
            self.initial = None;
        }
    }

    /// After a failed commit, reads again from the committed state, if it was committed since following began, else from
    /// the initial state. An older state may be after the end of the file: then following began elsewhere for that
    /// reason.
    pub(super) fn rewind(&mut self, committed: Option<&Arc<SourceState>>, now: Instant) {
        // The store refuses these submissions.
        self.first_submission = 0;
        let initial = self.initial.clone();
        // A commit that failed in its last step may still be on disk.
        let since = committed.filter(|state| initial.is_none() || state.seen > self.initial_seen);
        self.read_from(since.cloned().or(initial), now);
    }

    /// Reads again from `state`, or from the current state.
    pub(super) fn read_from(&mut self, state: Option<Arc<SourceState>>, now: Instant) {
        let has_left = self.status() != SourceStatus::Live;
        if let Some(state) = state {
            self.reader.rewind(state);
        }
        if has_left && self.status() == SourceStatus::Live {
            // The loss of the path is not noticed a second time, and only a rotated file is read to its very end.
            self.reader.state_mut().status = SourceStatus::Rotated;
        }
        // The file itself is still the same.
        let (device, inode) = (self.stat.device, self.stat.inode);
        let state = self.reader.state_mut();
        (state.device, state.inode) = (device, inode);
        self.has_more = true;
        self.is_final = false;
        self.is_changed = true;
        self.schedule.check_at(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_store::source::tests_state;

    #[test]
    fn a_busy_file_is_checked_often_and_a_quiet_one_once_a_second() {
        let timings = TailTimings::default();
        let start = Instant::now();
        let poll = Duration::from_millis(250);
        let mut look = PollSchedule::new(start, &timings);
        let mut now = start;
        let mut looks = 0;
        while now < start + Duration::from_secs(60) {
            look.after_quiet(now, poll, &timings);
            now = look.next;
            looks += 1;
        }
        assert!(looks < 60 + 30, "{looks}");
        assert_eq!(look.every, timings.poll_max);
        for _ in 0..10 {
            look.after_change(now, &timings);
            now = look.next;
        }
        assert_eq!(look.every, timings.poll_min);
    }

    /// The process sees a failed commit, but the commit is on disk.
    #[test]
    fn committed_bytes_are_not_read_again_after_the_clock_went_back() {
        let at = |seconds| Ticks::UNIX_EPOCH.plus(Duration::from_secs(seconds));
        let (now, before) = (Instant::now(), SourceState { seen: at(1), ..tests_state(7) });
        let initial = || {
            let state = Arc::new(before.clone());
            let reader = FileReader::new(state.clone(), None);
            let mut file =
                FollowedFile::new(reader, 0, "a.log".into(), FileStat::default(), state, now, &TailTimings::default());
            file.submit(1, at(9));
            file.reader.state_mut().position += 100;
            let read = file.submit(2, at(5));
            (file, read)
        };
        let (mut file, read) = initial();
        file.rewind(Some(&read), now);
        assert_eq!(file.state().position, before.position + 100);
        // Neither submission is on disk; the committed state is from before following began.
        for committed in [None, Some(Arc::new(SourceState { position: 900, ..before.clone() }))] {
            let (mut file, _) = initial();
            file.rewind(committed.as_ref(), now);
            assert_eq!(file.state().position, before.position, "{committed:?}");
        }
    }
}
