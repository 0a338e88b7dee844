//! Which host was heard of when, and whether two folders have one origin.
//!
//! A daemon that starts has another number than the one before it, and the one before it is silent from then on. If that one
//! speaks again, two folders of one origin are alive: a copy, and the one that it was made of. The earlier one stays, and the
//! other one is refused while the earlier one is heard of.
//!
//! A message of the one before may have been delayed on its way, and say nothing of being alive. So the first one is answered
//! only; the next one that says that this answer was heard is of a process that is there.
//!
//! Which process it was is noted in the catalog whenever that changes. A receiver that was started again knows it, so a copy that it
//! hears of first is none the less the copy.

use crate::protocol::HostReport;
use daytable_store::forward::position::FolderOrigin;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a folder that is refused waits after the other one was heard of last.
const SILENCE: Duration = Duration::from_secs(60);

/// How long after its last message a daemon is taken to be alive: it says hello every eight seconds.
const ALIVE: Duration = Duration::from_secs(15);

/// Requests that a credential did not permit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forbidden {
    /// How many.
    pub requests: u64,
    /// The table of the last one, and when it came.
    pub last: Option<(String, Instant)>,
}

/// The processes that spoke for a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct FolderProcesses {
    /// The one that was heard of last, and its last turn.
    owner: (u64, u64),
    /// The one before it, and its last turn.
    before: Option<(u64, u64)>,
    /// One that is refused.
    copy: Option<u64>,
}

impl FolderProcesses {
    fn of(instance: u64) -> FolderProcesses {
        FolderProcesses { owner: (instance, 0), ..FolderProcesses::default() }
    }

    /// Their numbers, which change seldom.
    fn numbers(&self) -> (u64, Option<u64>, Option<u64>) {
        (self.owner.0, self.before.map(|(before, _)| before), self.copy)
    }
}

/// What is known of a host.
#[derive(Clone, Debug)]
pub struct HostActivity {
    processes: FolderProcesses,
    /// A message of the process before that was answered, and shows by itself not that this process is alive.
    claim: Option<u64>,
    /// Since when this process of the receiver knows the host.
    since: Instant,
    /// When the host was heard of last, if it was since then.
    pub seen: Option<Instant>,
    /// The last report.
    pub report: HostReport,
    /// When the last report was written to the catalog.
    pub noted: Option<Instant>,
    /// The processes that are in the catalog.
    noted_processes: Option<FolderProcesses>,
    /// What its credential did not permit.
    pub forbidden: Forbidden,
}

impl HostActivity {
    fn new(processes: FolderProcesses, now: Instant) -> HostActivity {
        HostActivity {
            processes,
            claim: None,
            since: now,
            seen: None,
            report: HostReport::default(),
            noted: None,
            noted_processes: None,
            forbidden: Forbidden::default(),
        }
    }

    /// For how long the host was not heard of. A receiver that was started a moment ago may have missed it.
    fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.seen.unwrap_or(self.since))
    }

    /// Whether the catalog lacks which processes speak for the host.
    pub fn has_other_processes(&self) -> bool {
        self.noted_processes.is_none_or(|noted| noted.numbers() != self.processes.numbers())
    }

    /// The processes, as the catalog is to have them from now on.
    pub fn note_processes(&mut self) -> String {
        self.noted_processes = Some(self.processes);
        serde_json::to_string(&self.processes).unwrap_or_default()
    }
}

/// Why a host is not listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unheard {
    /// Another folder has the same origin, and was heard of.
    Copied,
    /// The message is an old one.
    Repeated,
    /// The process has to say hello first.
    Unknown,
}

/// The hosts that were heard of.
#[derive(Clone, Debug, Default)]
pub struct Activity(HashMap<FolderOrigin, HostActivity>);

impl Activity {
    /// Whether anything is known of a host.
    pub fn knows(&self, origin: &FolderOrigin) -> bool {
        self.0.contains_key(origin)
    }

    /// What the catalog has of the processes of a host that was not heard of yet.
    pub fn load(&mut self, origin: FolderOrigin, noted: &str, now: Instant) {
        if let Ok(processes) = serde_json::from_str::<FolderProcesses>(noted) {
            let known = || HostActivity { noted_processes: Some(processes), ..HostActivity::new(processes, now) };
            self.0.entry(origin).or_insert_with(known);
        }
    }

    /// The catalog could not be written.
    pub fn forget_note(&mut self, origin: &FolderOrigin) {
        if let Some(host) = self.0.get_mut(origin) {
            (host.noted, host.noted_processes) = (None, None);
        }
    }

    /// A process says hello, and which of its messages had an answer.
    pub fn hello(
        &mut self,
        origin: FolderOrigin,
        (instance, turn): (u64, u64),
        answered: u64,
        report: HostReport,
        now: Instant,
    ) -> Result<&mut HostActivity, Unheard> {
        let host = self.0.entry(origin).or_insert_with(|| HostActivity::new(FolderProcesses::of(instance), now));
        let is_silent = host.silence(now) >= SILENCE;
        let processes = &mut host.processes;
        if processes.copy == Some(instance) && !is_silent {
            return Err(Unheard::Copied);
        }
        if processes.owner.0 != instance {
            match processes.before {
                Some((before, last)) if before == instance => {
                    if turn <= last {
                        return Err(Unheard::Repeated);
                    }
                    if host.claim.is_none_or(|claim| answered < claim) {
                        host.claim = Some(host.claim.unwrap_or(0).max(turn));
                        return Err(Unheard::Unknown);
                    }
                    // The earlier one is alive, so the later one is a copy.
                    processes.copy = Some(processes.owner.0);
                    processes.before = None;
                }
                _ => {
                    processes.before = Some(processes.owner);
                    processes.copy = processes.copy.filter(|copy| *copy != instance);
                }
            }
            processes.owner = (instance, 0);
            host.claim = None;
        }
        if turn <= processes.owner.1 {
            return Err(Unheard::Repeated);
        }
        processes.owner.1 = turn;
        (host.seen, host.report) = (Some(now), report);
        Ok(host)
    }

    /// A process sends rows.
    pub fn rows(&mut self, origin: &FolderOrigin, instance: u64, now: Instant) -> Result<(), Unheard> {
        match self.0.get_mut(origin) {
            Some(host) if host.processes.owner.0 == instance => {
                host.seen = Some(now);
                Ok(())
            }
            Some(host) if host.processes.copy == Some(instance) => Err(Unheard::Copied),
            _ => Err(Unheard::Unknown),
        }
    }

    /// A request had records for a table that the credential does not permit.
    pub fn forbid(&mut self, origin: &FolderOrigin, table: &str, now: Instant) {
        if let Some(host) = self.0.get_mut(origin) {
            host.forbidden.requests = host.forbidden.requests.saturating_add(1);
            host.forbidden.last = Some((table.to_owned(), now));
        }
    }

    /// Whether another process of this origin was heard of a moment ago. A daemon that was started again has to wait as long, so
    /// this is for credentials that nobody used yet.
    pub fn is_owned_by_other(&self, origin: &FolderOrigin, instance: u64, now: Instant) -> bool {
        self.0.get(origin).is_some_and(|host| host.processes.owner.0 != instance && host.silence(now) < ALIVE)
    }

    /// Whether it was this process of the origin that was heard of last.
    pub fn is_owned_by(&self, origin: &FolderOrigin, instance: u64) -> bool {
        self.0.get(origin).is_some_and(|host| host.processes.owner.0 == instance)
    }

    /// What is known of a host that was heard of.
    pub fn of(&self, origin: &FolderOrigin) -> Option<&HostActivity> {
        self.0.get(origin).filter(|host| host.seen.is_some())
    }

    /// The hosts that were heard of since their last report was written to the catalog.
    pub fn unnoted(&mut self) -> impl Iterator<Item = (FolderOrigin, &mut HostActivity)> {
        let is_unnoted =
            |host: &HostActivity| host.seen.is_some_and(|seen| host.noted.is_none_or(|noted| noted < seen));
        self.0.iter_mut().filter(move |(_, host)| is_unnoted(host)).map(|(origin, host)| (*origin, host))
    }

    /// Forgets a host.
    pub fn forget(&mut self, origin: &FolderOrigin) {
        self.0.remove(origin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: FolderOrigin = FolderOrigin([7; 16]);

    fn hello(activity: &mut Activity, process: (u64, u64), answered: u64, at: Instant) -> Result<(), Unheard> {
        activity.hello(ORIGIN, process, answered, HostReport::default(), at).map(|_| ())
    }

    #[test]
    fn a_restarted_daemon_is_heard_and_a_copy_is_not() {
        let (mut activity, now) = (Activity::default(), Instant::now());
        let mut said = |instance, turn, answered, after| {
            hello(&mut activity, (instance, turn), answered, now + Duration::from_secs(after))
        };
        assert_eq!(said(1, 1, 0, 0), Ok(()));
        assert_eq!(said(1, 1, 0, 0), Err(Unheard::Repeated));
        assert_eq!(said(1, 2, 1, 1), Ok(()));
        assert_eq!(said(2, 1, 0, 2), Ok(()), "started again");
        assert_eq!(said(1, 2, 1, 3), Err(Unheard::Repeated), "an old message of the one before");
        assert_eq!(said(2, 2, 1, 4), Ok(()));
        assert_eq!(said(1, 3, 2, 5), Err(Unheard::Unknown), "which may have been delayed");
        assert_eq!(said(1, 4, 3, 5), Ok(()), "the one before is alive");
        assert_eq!(said(2, 3, 2, 6), Err(Unheard::Copied));
        assert_eq!(said(1, 5, 4, 60), Ok(()));
        assert_eq!(said(2, 4, 2, 119), Err(Unheard::Copied));
        assert_eq!(said(2, 5, 2, 121), Ok(()), "the other one is silent");
        assert_eq!(activity.rows(&ORIGIN, 2, now), Ok(()));
        assert_eq!(activity.rows(&ORIGIN, 1, now), Err(Unheard::Unknown));
        assert_eq!(activity.rows(&FolderOrigin([8; 16]), 2, now), Err(Unheard::Unknown));
    }

    #[test]
    fn a_host_is_unnoted_from_a_word_until_it_is_noted() {
        let (mut activity, now) = (Activity::default(), Instant::now());
        let later = now + Duration::from_secs(8);
        assert_eq!(hello(&mut activity, (1, 1), 0, now), Ok(()));
        activity.unnoted().for_each(|(_, host)| host.noted = Some(now));
        assert_eq!(activity.unnoted().count(), 0);
        assert_eq!(hello(&mut activity, (1, 2), 1, later), Ok(()));
        let unnoted: Vec<_> = activity.unnoted().map(|(origin, host)| (origin, host.seen)).collect();
        assert_eq!(unnoted, [(ORIGIN, Some(later))]);
    }

    /// A receiver that is started again knows which process was refused, whichever of them it hears of first.
    #[test]
    fn a_copy_is_known_after_a_restart() {
        let (mut before, now) = (Activity::default(), Instant::now());
        assert_eq!(hello(&mut before, (1, 1), 0, now), Ok(()));
        assert_eq!(hello(&mut before, (2, 1), 0, now), Ok(()));
        let notes = |activity: &mut Activity| {
            let host = activity.0.get_mut(&ORIGIN).expect("known");
            host.has_other_processes().then(|| host.note_processes())
        };
        let two_alive = notes(&mut before).expect("a note");
        assert_eq!(hello(&mut before, (1, 2), 1, now), Err(Unheard::Unknown));
        assert_eq!(hello(&mut before, (1, 3), 2, now), Ok(()), "the one before is alive");
        let refused = notes(&mut before).expect("they changed");
        assert_eq!(hello(&mut before, (1, 4), 3, now), Ok(()));
        assert_eq!(notes(&mut before), None, "a turn is no change");
        // The receiver was killed before it noted the last change: both have to speak again.
        let mut early = Activity::default();
        early.load(ORIGIN, &two_alive, now);
        assert_eq!(hello(&mut early, (2, 4), 3, now), Ok(()));
        assert_eq!(hello(&mut early, (1, 5), 4, now), Err(Unheard::Unknown));
        assert_eq!(hello(&mut early, (1, 6), 5, now), Ok(()));
        assert_eq!(hello(&mut early, (2, 5), 4, now), Err(Unheard::Copied));

        let after = |seconds| now + Duration::from_secs(seconds);
        let mut activity = Activity::default();
        activity.load(ORIGIN, "", now);
        assert!(!activity.knows(&ORIGIN), "a catalog without a note");
        activity.load(ORIGIN, &refused, now);
        assert_eq!(hello(&mut activity, (2, 4), 3, after(5)), Err(Unheard::Copied));
        assert_eq!(activity.rows(&ORIGIN, 2, after(5)), Err(Unheard::Copied));
        assert!(activity.of(&ORIGIN).is_none(), "the host itself was not heard of");
        assert!(activity.is_owned_by_other(&ORIGIN, 3, after(5)) && !activity.is_owned_by_other(&ORIGIN, 3, after(16)));
        assert!(activity.is_owned_by(&ORIGIN, 1));
        // The copy is started again, and has another number.
        let mut restarted = activity.clone();
        assert_eq!(hello(&mut restarted, (3, 1), 0, after(6)), Ok(()));
        assert_eq!(hello(&mut restarted, (1, 5), 4, after(7)), Err(Unheard::Unknown));
        assert_eq!(hello(&mut restarted, (1, 6), 5, after(7)), Ok(()));
        assert_eq!(hello(&mut restarted, (3, 2), 1, after(8)), Err(Unheard::Copied));
        assert_eq!(hello(&mut activity, (1, 5), 4, after(50)), Ok(()), "the original goes on");
        assert_eq!(hello(&mut activity, (2, 5), 3, after(100)), Err(Unheard::Copied));
        assert_eq!(hello(&mut activity, (2, 6), 3, after(111)), Ok(()), "the original is silent");
    }

    #[test]
    fn delayed_messages_of_a_daemon_that_was_killed_are_no_copy() {
        let (mut activity, now) = (Activity::default(), Instant::now());
        assert_eq!(hello(&mut activity, (1, 1), 0, now), Ok(()));
        assert_eq!(hello(&mut activity, (2, 1), 0, now), Ok(()), "started again");
        // Two that were cut off from their answers arrive now, in any order.
        for turn in [3, 2, 4] {
            assert_eq!(hello(&mut activity, (1, turn), 1, now), Err(Unheard::Unknown));
        }
        assert_eq!(hello(&mut activity, (2, 2), 1, now), Ok(()));
        assert_eq!(activity.rows(&ORIGIN, 2, now), Ok(()));
    }
}
