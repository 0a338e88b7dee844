//! The messages between a host and its receiver: JSON, but for the bodies with rows ([`daytable_store::forward::wire`]).

use daytable_store::forward::intervals::{AdvanceKind, AdvanceStep, ReceivedCommits};
use daytable_store::forward::inventory::DayCount;
use daytable_store::forward::position::{FolderOrigin, ForwardPosition};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Trades a code for a credential.
pub const JOIN: &str = "/forward/v1/join";
/// Says which folder a host has, and asks how far it was received.
pub const HELLO: &str = "/forward/v1/hello";
/// Sends rows.
pub const ROWS: &str = "/forward/v1/rows";
/// Makes a credential known that is to take the place of the one that is shown.
pub const RENEW: &str = "/forward/v1/renew";
/// Says which records a host has, when it was asked.
pub const COUNTS: &str = "/forward/v1/counts";

/// Bytes of a message of JSON at most.
pub const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// Losses that a report names at most.
pub const LOSSES_MAX: usize = 64;

/// A host asks for a credential. It has a secret, and so no form for a log.
#[derive(Clone, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The code of the invitation.
    pub code: String,
    /// The name of the host, if its configuration has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// SHA-256 of a credential that the host made, as 64 hexadecimal digits, so that a repeat is known. Without it, the receiver makes
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
}

/// The credential of a host. It has a secret, and so no form for a log.
#[derive(Clone, Serialize, Deserialize)]
pub struct JoinAnswer {
    /// The name under which its records are stored.
    pub name: String,
    /// The credential; empty if the host made it.
    #[serde(default)]
    pub credential: String,
}

/// What a host says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostReport {
    /// Its version.
    pub version: String,
    /// Its last commit.
    pub committed: i64,
    /// Records that it ever committed.
    pub records: u64,
    /// Records that wait to be forwarded here.
    pub behind_records: u64,
    /// Those of them that are older than records which are there: the newest are sent first.
    pub backlog_records: u64,
    /// Bytes of all their rows before they are encoded.
    pub behind_bytes: u64,
    /// Milliseconds since the first of them was committed.
    pub behind_ms: u64,
    /// Records that are lost on the host, or were cut there, by reason.
    pub lost: BTreeMap<String, u64>,
    /// Bytes that are lost there, or were cut off records, by reason.
    pub lost_bytes: BTreeMap<String, u64>,
    /// Records of the host that the receiver had when the report came, by its own count: it writes this number, not the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<u64>,
}

/// What stands for the reasons that a report has no room for.
const OTHER_REASONS: &str = "other reasons";

/// Keeps as many reasons as a report may name. The others are counted together.
pub(crate) fn bound_reasons(losses: &mut BTreeMap<String, u64>) {
    let mut others = 0u64;
    while losses.len() > LOSSES_MAX || others > 0 && losses.len() == LOSSES_MAX {
        others = others.saturating_add(losses.pop_last().map_or(0, |(_, count)| count));
    }
    if others > 0 {
        let count = losses.entry(OTHER_REASONS.to_owned()).or_default();
        *count = count.saturating_add(others);
    }
}

impl HostReport {
    /// The report without what came after it: `received` records are there now.
    pub fn at(mut self, received: u64) -> HostReport {
        let Some(before) = self.received else { return self };
        let reported = self.behind_records;
        self.behind_records = reported.saturating_sub(received.saturating_sub(before));
        self.backlog_records = self.backlog_records.min(self.behind_records);
        let share = u128::from(self.behind_bytes) * u128::from(self.behind_records) / u128::from(reported.max(1));
        self.behind_bytes = u64::try_from(share).unwrap_or(self.behind_bytes);
        if self.behind_records == 0 {
            self.behind_ms = 0;
        }
        self
    }
}

/// A host is there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HelloRequest {
    /// Its folder.
    pub origin: FolderOrigin,
    /// Its process.
    pub instance: u64,
    /// Ascends within a process, so that a repeated message is known.
    pub turn: u64,
    /// The last of these messages that the process heard an answer to; 0 if there is none. A message that was delayed on its way
    /// cannot name one that arrives beside it.
    #[serde(default)]
    pub answered: u64,
    /// What it says of itself.
    pub report: HostReport,
}

/// How far a host was received.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HelloAnswer {
    /// The name under which its records are stored.
    pub name: String,
    /// The one in their keys there.
    #[serde(default)]
    pub name_in_keys: String,
    /// The commits that were received, with the epoch.
    #[serde(flatten)]
    pub received: ReceivedCommits,
    /// Earlier positions: commits and their checksums.
    pub history: Vec<(i64, u64)>,
    /// The number of the last question for the records of the host; 0 if there was none.
    #[serde(default)]
    pub asked: u64,
    /// Whether the credential is old, so that the host should replace it.
    #[serde(default)]
    pub renew: bool,
}

/// A credential is to take the place of the one that is shown. The host made it, and shows it itself later.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RenewRequest {
    /// The folder.
    pub origin: FolderOrigin,
    /// The process.
    pub instance: u64,
    /// SHA-256 of the new credential, as 64 hexadecimal digits.
    pub credential: String,
}

/// The new credential is good. The one before it ends when the new one was used.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RenewAnswer {
    /// The name of the host.
    pub name: String,
}

/// The records of a host, when everything of them was received.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CountsMessage {
    /// The folder.
    pub origin: FolderOrigin,
    /// The number of the question that this answers: [`HelloAnswer::asked`].
    pub asked: u64,
    /// The last commit that was counted. The receiver has every commit up to this one, and no later one.
    pub commit: i64,
    /// The records of each day-table of the host.
    pub days: Vec<DayCount>,
    /// About how many records later commits have.
    #[serde(default)]
    pub later: u64,
}

/// The answer to [`CountsMessage`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CountsAnswer {
    /// Day-tables that lack records here.
    pub lacking: u64,
}

/// The head of a body with rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RowsHead {
    /// The folder.
    pub origin: FolderOrigin,
    /// The process.
    pub instance: u64,
    /// What it is for.
    pub mode: AdvanceKind,
    /// The epoch after it.
    pub epoch: i64,
    /// Where it begins.
    pub from: ForwardPosition,
    /// Where it ends.
    pub to: ForwardPosition,
}

impl RowsHead {
    /// The step that the request takes.
    pub fn step(&self) -> AdvanceStep {
        AdvanceStep { kind: self.mode, epoch: self.epoch, from: self.from, to: self.to }
    }
}

/// The answer after rows were stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RowsAnswer {
    /// Where the request ended, which is stored.
    pub position: ForwardPosition,
    /// Records of the request whose day is gone at the receiver.
    pub expired: u64,
    /// Records of the request that were there already.
    pub known: u64,
}

/// A refusal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrorAnswer {
    /// The reason.
    pub error: String,
    /// The table that the credential may not write, if that is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_without_room_are_counted_together() {
        let losses = |count: u64| (0..count).map(|n| (format!("day {n:03}"), n)).collect::<BTreeMap<_, _>>();
        for count in [0, 1, 63, 64, 65, 200] {
            let mut bounded = losses(count);
            bound_reasons(&mut bounded);
            assert!(bounded.len() <= LOSSES_MAX, "{count}");
            assert_eq!(bounded.values().sum::<u64>(), losses(count).values().sum::<u64>(), "{count}");
            assert_eq!(bounded.contains_key(OTHER_REASONS), count > 64, "{count}");
        }
    }

    #[test]
    fn a_host_lacks_what_did_not_come_since_its_report() {
        let report = HostReport {
            behind_records: 5000,
            backlog_records: 4500,
            behind_bytes: 1_000_000,
            behind_ms: 7000,
            received: Some(100),
            ..HostReport::default()
        };
        let at = |received: u64| {
            let report = report.clone().at(received);
            (report.behind_records, report.backlog_records, report.behind_bytes, report.behind_ms)
        };
        assert_eq!(at(100), (5000, 4500, 1_000_000, 7000));
        assert_eq!(at(4100), (1000, 1000, 200_000, 7000));
        assert_eq!(at(5100), (0, 0, 0, 0));
        assert_eq!(at(9000), (0, 0, 0, 0));
        // A folder that was put back has fewer than before.
        assert_eq!(at(50), (5000, 4500, 1_000_000, 7000));
        let without = HostReport { received: None, ..report.clone() };
        assert_eq!(without.clone().at(9000), without);
    }
}
