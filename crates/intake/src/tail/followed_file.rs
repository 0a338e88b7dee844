//! A file that is followed: its cursor, where it is now, and when it is looked at next.

use super::file_content::FileStamp;
use super::file_reader::FileReader;
use super::lag::Lag;
use super::options::TailTimings;
use daytable_model::time::Ticks;
use daytable_store::{SourceState, SourceStatus};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A source with a file.
pub(super) struct FollowedFile {
    pub(super) reader: FileReader,
    /// The block it belongs to, by its number.
    pub(super) block: usize,
    /// Where its file is now; `cursor.state.path` is where it was when it got its first records.
    pub(super) path: PathBuf,
    pub(super) access: FileAccess,
    /// What the file system said last.
    pub(super) stamp: FileStamp,
    pub(super) schedule: PollSchedule,
    /// For how long something of it is not read.
    pub(super) lag: Lag,
    /// Whether the last turn left something that can be read at once.
    pub(super) has_more: bool,
    /// Whether its unfinished last line was taken since it changed last.
    pub(super) is_final: bool,
    /// Whether `cursor.state` has what no submission has yet.
    pub(super) is_changed: bool,
    /// The last submission that has something of it.
    pub(super) submitted: u64,
    /// The number it has with the kernel, where that tells when it is written to.
    pub(super) idle_watch: Option<i32>,
    /// Whether it was read since descriptors ran short last.
    pub(super) is_in_use: bool,
    /// The trouble that was reported already.
    pub(super) failed: Option<io::ErrorKind>,
    /// As it was when it was begun or found again: where it goes back to as long as nothing of it is committed.
    initial: Option<Arc<SourceState>>,
    /// The time in it then: what is committed with a later one is committed since.
    initial_seen: Ticks,
    /// The first submission that has something of it since; 0 before there is one.
    first_submission: u64,
}

/// What leads to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileAccess {
    /// Its path.
    Path,
    /// Nothing but the open descriptor: it was removed, or moved away for good.
    Descriptor,
}

/// When a file is looked at.
pub(super) struct PollSchedule {
    next: Instant,
    every: Duration,
    /// When it was seen to change last.
    changed: Instant,
}

impl PollSchedule {
    fn new(now: Instant, timings: &TailTimings) -> PollSchedule {
        PollSchedule { next: now, every: timings.poll_min, changed: now }
    }

    /// It changed: look again the sooner, the more often it does. One that changes once in a while is looked at twice
    /// for each change, about: of a thousand such files, looking is most of the work.
    pub(super) fn after_change(&mut self, now: Instant, timings: &TailTimings) {
        let is_slow = self.quiet_for(now) > timings.poll_max / 4 * 3;
        self.changed = now;
        self.every = if is_slow { timings.poll_max / 2 } else { self.every / 2 }.max(timings.poll_min);
        self.next = now + self.every;
    }

    /// The file is checked at this time.
    pub(super) fn check_at(&mut self, at: Instant) {
        self.next = at;
    }

    /// The file is checked at this time at the latest.
    pub(super) fn check_by(&mut self, at: Instant) {
        self.next = self.next.min(at);
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// Until when a look may wait for others, so that one round serves them all.
    pub(super) fn latest(&self) -> Instant {
        self.next + self.every / 8
    }

    /// It did not: look again later and later, up to once a second, or once a `poll` where that is longer.
    pub(super) fn after_quiet(&mut self, now: Instant, poll: Duration, timings: &TailTimings) {
        self.every = (self.every * 2).clamp(timings.poll_min, poll.max(timings.poll_max));
        self.next = now + self.every;
    }

    /// It cannot be read: look again in a while.
    pub(super) fn after_trouble(&mut self, now: Instant, timings: &TailTimings) {
        self.every = (self.every * 2).clamp(timings.poll_max, 30 * timings.poll_max);
        self.next = now + self.every;
    }

    /// How long it has not changed.
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
        stamp: FileStamp,
        initial: Arc<SourceState>,
        now: Instant,
        timings: &TailTimings,
    ) -> FollowedFile {
        FollowedFile {
            reader,
            block,
            path,
            access: FileAccess::Path,
            stamp,
            schedule: PollSchedule::new(now, timings),
            lag: Lag::default(),
            has_more: true,
            is_final: false,
            is_changed: true,
            submitted: 0,
            idle_watch: None,
            is_in_use: true,
            failed: None,
            initial_seen: initial.seen,
            initial: Some(initial),
            first_submission: 0,
        }
    }

    /// Its source.
    pub(super) fn state(&self) -> &SourceState {
        &self.reader.state
    }

    /// Where it is in its life.
    pub(super) fn status(&self) -> SourceStatus {
        self.reader.state.status
    }

    /// Whether the source was read to its end.
    pub(super) fn has_ended(&self) -> bool {
        self.status() == SourceStatus::Ended
    }

    /// Moves it on in its life.
    pub(super) fn set_status(&mut self, status: SourceStatus) {
        if self.reader.state.status != status {
            self.reader.state_mut().status = status;
            self.is_changed = true;
        }
    }

    /// Whether its descriptor can be closed and opened again later without loss.
    pub(super) fn can_close(&self) -> bool {
        self.access == FileAccess::Path && self.reader.content.is_some()
    }

    /// Bytes that are not read yet, as far as that is known.
    pub(super) fn unread(&self) -> u64 {
        match &self.reader.content {
            Some(content) if content.is_compressed() => 0,
            _ => self.reader.unread(self.stamp.size),
        }
    }

    /// Notes for how long something of it is not read.
    pub(super) fn note_lag(&mut self, now: Ticks) {
        match self.unread() {
            0 => self.lag.clear(),
            _ => self.lag.note(self.reader.state.position, &self.stamp, now),
        }
    }

    /// What a submission has of it.
    pub(super) fn submit(&mut self, number: u64, seen: Ticks) -> Arc<SourceState> {
        self.submitted = number;
        if self.first_submission == 0 {
            self.first_submission = number;
        }
        let is_as_initial = self.initial.as_ref().is_some_and(|initial| Arc::ptr_eq(initial, &self.reader.state));
        self.reader.state_mut().seen = seen;
        if is_as_initial {
            // The same, but for the time. All files begin at once, and of each there is one less in memory then.
            self.initial = Some(self.reader.state.clone());
        }
        self.reader.state.clone()
    }

    /// Submissions are committed up to this one. If one of them has something of it, it goes back to what is committed.
    pub(super) fn was_committed(&mut self, number: u64) {
        if self.first_submission > 0 && self.first_submission <= number {
            self.initial = None;
        }
    }

    /// A commit failed: reads again from what is committed of it since it was begun, or from where that was. What is
    /// committed from before may be behind the end of its file: that is why it was begun elsewhere.
    pub(super) fn rewind(&mut self, committed: Option<&Arc<SourceState>>, now: Instant) {
        // What was submitted is refused.
        self.first_submission = 0;
        let initial = self.initial.clone();
        // A commit that failed at its very end is on disk all the same.
        let since = committed.filter(|state| initial.is_none() || state.seen > self.initial_seen);
        self.read_from(since.cloned().or(initial), now);
    }

    /// Reads again from there; by none given, from where it is.
    pub(super) fn read_from(&mut self, state: Option<Arc<SourceState>>, now: Instant) {
        let has_left = self.status() != SourceStatus::Live;
        if let Some(state) = state {
            self.reader.rewind(state);
        }
        if has_left && self.status() == SourceStatus::Live {
            // That it is no longer where it was is not found out a second time, and only so is it read to its very end.
            self.reader.state_mut().status = SourceStatus::Rotated;
        }
        // What was found out about its file is still so.
        let (device, inode) = (self.stamp.device, self.stamp.inode);
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
    fn a_busy_file_is_looked_at_often_and_a_quiet_one_once_a_second() {
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

    /// Its commit failed for all that is known, and is on disk all the same.
    #[test]
    fn what_is_committed_is_not_read_again_where_the_clock_went_back_meanwhile() {
        let at = |seconds| Ticks::UNIX_EPOCH.plus(Duration::from_secs(seconds));
        let (now, before) = (Instant::now(), SourceState { seen: at(1), ..tests_state(7) });
        let initial = || {
            let state = Arc::new(before.clone());
            let reader = FileReader::new(state.clone(), None);
            let mut file =
                FollowedFile::new(reader, 0, "a.log".into(), FileStamp::default(), state, now, &TailTimings::default());
            file.submit(1, at(9));
            file.reader.state_mut().position += 100;
            let read = file.submit(2, at(5));
            (file, read)
        };
        let (mut file, read) = initial();
        file.rewind(Some(&read), now);
        assert_eq!(file.state().position, before.position + 100);
        // Neither is on disk, and what is was committed before the file was begun.
        for committed in [None, Some(Arc::new(SourceState { position: 900, ..before.clone() }))] {
            let (mut file, _) = initial();
            file.rewind(committed.as_ref(), now);
            assert_eq!(file.state().position, before.position, "{committed:?}");
        }
    }
}
