//! Which host was heard of when, and whether two folders have one origin.
//!
//! A daemon that starts has another number than the one before it, and the one before it is silent from then on. If that one
//! speaks again, two folders of one origin are alive: a copy, and the one that it was made of. The earlier one stays, and the
//! other one is refused while the earlier one is heard of.
//!
//! A message of the one before may have been delayed on its way, and say nothing of being alive. So the first one is answered
//! only; the next one that says that this answer was heard is of a process that is there.

use crate::protocol::HostReport;
use daytable_store::forward::position::FolderOrigin;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a folder that is refused waits after the other one was heard of last.
const SILENCE: Duration = Duration::from_secs(60);

/// How long after its last message a daemon is taken to be alive: it says hello every ten seconds.
const ALIVE: Duration = Duration::from_secs(15);

/// Requests that a credential did not permit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forbidden {
    /// How many.
    pub requests: u64,
    /// The table of the last one, and when it came.
    pub last: Option<(String, Instant)>,
}

/// What is known of a host since this process started.
#[derive(Clone, Debug)]
pub struct HostActivity {
    /// The process that was heard of last, and its last turn.
    owner: (u64, u64),
    /// The process before it, and its last turn.
    before: Option<(u64, u64)>,
    /// A message of the process before that was answered, and shows by itself not that this process is alive.
    claim: Option<u64>,
    /// A process that is refused.
    copy: Option<u64>,
    /// When the host was heard of last.
    pub seen: Instant,
    /// The last report.
    pub report: HostReport,
    /// When the last report was written to the catalog.
    pub noted: Option<Instant>,
    /// What its credential did not permit.
    pub forbidden: Forbidden,
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
#[derive(Debug, Default)]
pub struct Activity(HashMap<FolderOrigin, HostActivity>);

impl Activity {
    /// A process says hello, and which of its messages had an answer.
    pub fn hello(
        &mut self,
        origin: FolderOrigin,
        (instance, turn): (u64, u64),
        answered: u64,
        report: HostReport,
        now: Instant,
    ) -> Result<&mut HostActivity, Unheard> {
        let host = self.0.entry(origin).or_insert_with(|| HostActivity {
            owner: (instance, 0),
            before: None,
            claim: None,
            copy: None,
            seen: now,
            report: HostReport::default(),
            noted: None,
            forbidden: Forbidden::default(),
        });
        if host.copy == Some(instance) && now.saturating_duration_since(host.seen) < SILENCE {
            return Err(Unheard::Copied);
        }
        if host.owner.0 != instance {
            match host.before {
                Some((before, last)) if before == instance => {
                    if turn <= last {
                        return Err(Unheard::Repeated);
                    }
                    if host.claim.is_none_or(|claim| answered < claim) {
                        host.claim = Some(host.claim.unwrap_or(0).max(turn));
                        return Err(Unheard::Unknown);
                    }
                    // The earlier one is alive, so the later one is a copy.
                    host.copy = Some(host.owner.0);
                    host.before = None;
                }
                _ => {
                    host.before = Some(host.owner);
                    host.copy = host.copy.filter(|copy| *copy != instance);
                }
            }
            host.owner = (instance, 0);
            host.claim = None;
        }
        if turn <= host.owner.1 {
            return Err(Unheard::Repeated);
        }
        host.owner.1 = turn;
        (host.seen, host.report) = (now, report);
        Ok(host)
    }

    /// A process sends rows.
    pub fn rows(&mut self, origin: &FolderOrigin, instance: u64, now: Instant) -> Result<(), Unheard> {
        match self.0.get_mut(origin) {
            Some(host) if host.owner.0 == instance => {
                host.seen = now;
                Ok(())
            }
            Some(host) if host.copy == Some(instance) => Err(Unheard::Copied),
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
        self.0
            .get(origin)
            .is_some_and(|host| host.owner.0 != instance && now.saturating_duration_since(host.seen) < ALIVE)
    }

    /// Whether it was this process of the origin that was heard of last.
    pub fn is_owned_by(&self, origin: &FolderOrigin, instance: u64) -> bool {
        self.0.get(origin).is_some_and(|host| host.owner.0 == instance)
    }

    /// What is known of a host.
    pub fn of(&self, origin: &FolderOrigin) -> Option<&HostActivity> {
        self.0.get(origin)
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
