//! Which commits of a sender a receiver has: all up to one, and perhaps the newest ones, sent before the backlog of an outage.
//!
//! ```text
//! commits of the sender   1 ............ B          S ............ H
//! the receiver has        ├── position ──┤   gap    ├──── head ────┤
//!                                        └──────►   └──────►            each end moves in the commit that stores the rows
//! ```
//!
//! Each end is a [`ForwardPosition`]. The checksum of the head's end is the running one of the whole folder, begun at the
//! sender's own checksum of commit `S`. So when the position reaches `S`, it has the same checksum, or the two are of different
//! folders.
//!
//! Claims, each a property test: whatever is repeated, delayed, lost or put back, the rows that were stored are those of the
//! two intervals, each once; the two become one.

use super::forward_position::{FolderOrigin, ForwardPosition};
use serde::{Deserialize, Serialize};

/// What a request of a sender does with what the receiver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdvanceKind {
    /// The pages of the commits after one of the two ends.
    Commits,
    /// Newer commits are sent first, from a commit on that the request says. It has no pages.
    OpenHead,
    /// Pages that may have rows which are here already.
    Compare,
    /// The end of a comparison: the receiver has all commits up to a position.
    Adopt,
}

/// The newest commits that a receiver has, while it lacks earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadInterval {
    /// The commit after which it begins.
    pub begin: ForwardPosition,
    /// How far it was received.
    pub end: ForwardPosition,
}

/// The commits of a sender that a receiver has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedCommits {
    /// Raised whenever both sides went back to a common commit.
    pub epoch: i64,
    /// All commits up to here.
    pub position: ForwardPosition,
    /// Later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<HeadInterval>,
}

/// A request, by what it says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvanceStep {
    /// What it does.
    pub kind: AdvanceKind,
    /// The epoch after it.
    pub epoch: i64,
    /// The end that it begins at.
    pub from: ForwardPosition,
    /// Where that end is afterwards.
    pub to: ForwardPosition,
}

/// The rows of a host in a [`Submission`](crate::Submission) or a commit, and how far the host is received with them. In a
/// submission, `step` is the step that the request takes. In a commit, it is what is received after that step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAdvance<S = AdvanceStep> {
    /// The host.
    pub origin: FolderOrigin,
    /// The step, or what is received after it.
    pub step: S,
    /// Records in it that are stored.
    pub records: u64,
    /// Records in it whose day is gone here.
    pub expired: u64,
}

/// How a request relates to what a receiver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvanceResult {
    /// It begins at an end. The receiver has this once its rows are stored.
    Moves(ReceivedCommits),
    /// It was stored.
    Stored,
    /// It begins elsewhere, so both sides have to look where they are.
    Elsewhere,
}

impl ReceivedCommits {
    /// How a request relates to what was received. The rows of a request that [moves](AdvanceResult::Moves) an end are not
    /// here yet, except perhaps those of a comparison.
    pub fn after(&self, step: AdvanceStep) -> AdvanceResult {
        let AdvanceStep { kind, epoch, from, to } = step;
        let is_next_epoch = kind == AdvanceKind::Adopt && epoch == self.epoch.saturating_add(1);
        if epoch != self.epoch && !is_next_epoch {
            return AdvanceResult::Elsewhere;
        }
        match kind {
            AdvanceKind::Commits => self.after_commits(from, to),
            AdvanceKind::OpenHead => self.after_opening(from, to),
            AdvanceKind::Compare | AdvanceKind::Adopt if epoch == self.epoch && to == self.position => {
                AdvanceResult::Stored
            }
            // What is compared has the rows of the head, too. So there is one interval from now on.
            AdvanceKind::Compare if from == self.position => self.moved(to),
            AdvanceKind::Adopt if from == self.position && is_next_epoch => {
                AdvanceResult::Moves(ReceivedCommits { epoch, position: to, head: None })
            }
            AdvanceKind::Compare | AdvanceKind::Adopt => AdvanceResult::Elsewhere,
        }
    }

    /// Whether pages between these ends are the last ones before the head.
    pub fn joins(&self, from: ForwardPosition, to: ForwardPosition) -> bool {
        self.head.is_some_and(|head| from == self.position && to == head.begin)
    }

    fn moved(&self, position: ForwardPosition) -> AdvanceResult {
        AdvanceResult::Moves(ReceivedCommits { position, head: None, ..*self })
    }

    fn after_commits(&self, from: ForwardPosition, to: ForwardPosition) -> AdvanceResult {
        match self.head {
            // The end of an empty head is where the backlog leads to. So the beginning says which of the two is meant.
            Some(head) if from.commit >= head.begin.commit => self.after_commits_of_head(head, from, to),
            _ if to == self.position => AdvanceResult::Stored,
            _ if from != self.position => AdvanceResult::Elsewhere,
            Some(head) if to == head.begin => self.moved(head.end),
            // It has commits of the head, or another checksum where that begins.
            Some(head) if to.commit >= head.begin.commit => AdvanceResult::Elsewhere,
            head => AdvanceResult::Moves(ReceivedCommits { position: to, head, ..*self }),
        }
    }

    fn after_commits_of_head(&self, head: HeadInterval, from: ForwardPosition, to: ForwardPosition) -> AdvanceResult {
        if to == head.end {
            AdvanceResult::Stored
        } else if from == head.end {
            AdvanceResult::Moves(ReceivedCommits { head: Some(HeadInterval { end: to, ..head }), ..*self })
        } else {
            AdvanceResult::Elsewhere
        }
    }

    fn after_opening(&self, from: ForwardPosition, to: ForwardPosition) -> AdvanceResult {
        let opened = HeadInterval { begin: to, end: to };
        let may_begin = to.is_between_commits() && to.commit > from.commit;
        match self.head {
            Some(head) if head == opened && from == self.position => AdvanceResult::Stored,
            None if from == self.position && from.copies == 0 && may_begin => {
                AdvanceResult::Moves(ReceivedCommits { head: Some(opened), ..*self })
            }
            _ => AdvanceResult::Elsewhere,
        }
    }
}

#[cfg(test)]
mod tests;
