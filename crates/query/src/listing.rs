//! What is shown of day-tables, of sources and of listeners, in the one JSON form that the command line and the reading API share.

use daytable_model::path_text;
use daytable_model::time::Ticks;
use daytable_store::{Ledger, SourceKind, SourceState, SourceStatus, TableSummary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A day-table as it is shown. Times are RFC 3339.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShownTable {
    /// Its name.
    pub table: String,
    /// Where it is in its life.
    pub state: &'static str,
    /// Rows in it, items included. What a remote store holds is not counted for a list.
    pub rows: Option<u64>,
    /// Bytes of its files.
    pub bytes: Option<u64>,
    /// Rows in the outbox of this daytable that wait to be sent to it, or were sent a moment ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// The time of its oldest record.
    pub first_time: Option<String>,
    /// The time of its newest record.
    pub last_time: Option<String>,
    /// When it expires.
    pub expires: Option<String>,
    /// What is done with it next: `seal`, `archive`, `drop` or `remove_archive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<&'static str>,
    /// When that is due; the run after it does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<String>,
    /// Where the latest archive of it is that was read back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// Why it stays, although it has expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stays: Option<String>,
    /// Why the step that was tried last failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<String>,
}

impl From<&TableSummary> for ShownTable {
    fn from(summary: &TableSummary) -> ShownTable {
        let shown = |time: Option<Ticks>| time.map(|time| time.to_string());
        ShownTable {
            table: summary.table.to_string(),
            state: summary.state,
            rows: Some(summary.rows),
            bytes: Some(summary.bytes),
            first_time: shown(summary.first_time),
            last_time: shown(summary.last_time),
            expires: shown(summary.expires),
            ..ShownTable::default()
        }
    }
}

/// A listener as it is shown, which only the daemon that listens can tell of: its counts are those since its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownListener {
    /// The name of its config block.
    pub block: String,
    /// What it speaks: `syslog`.
    pub kind: String,
    /// Where it listens, as the configuration has it.
    pub listen: String,
    /// Records that were taken.
    pub received: u64,
    /// Of these, those that are committed.
    pub committed: u64,
    /// Bytes that came.
    pub bytes: u64,
    /// Connections that are open.
    pub connections: u64,
    /// What was lost, cut, replaced or refused, by reason, where there was any. `kernel` are datagrams that the kernel
    /// dropped, `stopped` records that could not be committed any more, names of settings and `tls` and `no_frame`
    /// connections that were closed.
    pub losses: BTreeMap<String, u64>,
}

impl ShownListener {
    /// Its losses, each with its number; empty where nothing was lost.
    pub fn losses(&self) -> String {
        let shown: Vec<_> = self.losses.iter().map(|(reason, count)| format!("{reason}={count}")).collect();
        shown.join(" ")
    }
}

/// A source as it is shown: its ledger, and how far it is behind its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownSource {
    /// The name of its config block.
    pub block: String,
    /// Where its file was seen last; the folder of a journal, or `journal` for this host's. Bytes of a name that are no UTF-8
    /// are written `\xFF`.
    #[serde(serialize_with = "path_text::serialize")]
    pub path: PathBuf,
    /// The 16 hex digits of its row keys.
    pub identity: String,
    /// Followed, imported, or a journal.
    pub kind: SourceKind,
    /// Where it is in its life.
    pub status: SourceStatus,
    /// Offset of the first byte that is not committed; of a journal, how many entries were read.
    pub position: u64,
    /// Of a journal, the cursor of the last entry that is committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Bytes of its file now; none where another file, or none, is at its path.
    pub size: Option<u64>,
    /// Bytes that are not committed yet; none where the file is not there or its size does not tell, being compressed.
    pub lag_bytes: Option<u64>,
    /// When it was advanced last, RFC 3339.
    pub seen: String,
    /// What became of its bytes.
    #[serde(flatten)]
    pub ledger: Ledger,
}

impl ShownSource {
    /// A source as it is now: looks at its file.
    pub fn of(state: &SourceState) -> ShownSource {
        let file = std::fs::metadata(&state.path).ok();
        let file = file.filter(|file| (file.dev(), file.ino()) == (state.device, state.inode));
        ShownSource::with_size(state, file.map(|file| file.len()))
    }

    fn with_size(state: &SourceState, size: Option<u64>) -> ShownSource {
        let extension = state.path.extension().and_then(|extension| extension.to_str());
        let compressed = matches!(extension, Some("gz" | "zst"));
        ShownSource {
            block: state.block.clone(),
            path: state.path.clone(),
            identity: format!("{:016x}", state.identity),
            kind: state.kind,
            status: state.status,
            position: state.position,
            cursor: (state.kind == SourceKind::Journal).then(|| state.cursor.clone()),
            size,
            lag_bytes: size.filter(|_| !compressed).map(|size| size.saturating_sub(state.position)),
            seen: state.seen.to_string(),
            ledger: state.ledger,
        }
    }

    /// What was lost, cut, replaced or passed over, each with its number; empty where nothing was.
    pub fn losses(&self) -> String {
        let Ledger {
            records: _,
            bytes: _,
            lost_records,
            truncated_records,
            truncated_bytes,
            invalid_utf8_records,
            skipped_bytes,
            lost_bytes,
            returned_bytes,
            own_records,
            older_bytes: _,
            begun_bytes: _,
            adopted_bytes: _,
        } = self.ledger;
        let counts = [
            ("lost_records", lost_records),
            ("lost_bytes", lost_bytes),
            ("truncated_records", truncated_records),
            ("truncated_bytes", truncated_bytes),
            ("invalid_utf8_records", invalid_utf8_records),
            ("skipped_bytes", skipped_bytes),
            ("returned_bytes", returned_bytes),
            ("own_records", own_records),
        ];
        let shown: Vec<_> =
            counts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name}={count}")).collect();
        shown.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::key::DayTable;
    use daytable_store::source::tests_state;

    #[test]
    fn a_table_has_the_keys_that_are_promised() {
        let summary = TableSummary {
            table: DayTable::parse("Log20261121").expect("a name"),
            rows: 3,
            bytes: 4096,
            first_time: Ticks::from_date(2026, 11, 21),
            last_time: None,
            state: "open",
            expires: Ticks::from_date(2026, 12, 22),
        };
        assert_eq!(
            serde_json::to_string(&ShownTable::from(&summary)).expect("plain data"),
            concat!(
                r#"{"table":"Log20261121","state":"open","rows":3,"bytes":4096,"first_time":"2026-11-21T00:00:00Z","#,
                r#""last_time":null,"expires":"2026-12-22T00:00:00Z"}"#
            )
        );
    }

    #[test]
    fn lag_is_what_the_file_has_beyond_the_position() {
        let mut state = tests_state(7);
        for (path, size, lag) in [
            ("/var/log/app.log", Some(100), Some(36)),
            ("/var/log/app.log", Some(10), Some(0)),
            ("/var/log/app.log", None, None),
            ("/var/log/app.log.1.gz", Some(100), None),
        ] {
            state.path = path.into();
            assert_eq!(ShownSource::with_size(&state, size).lag_bytes, lag, "{path} {size:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_the_source_s_has_no_size() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "12345678\n".repeat(10)).expect("written");
        let metadata = file.as_file().metadata().expect("there");
        let mut state = tests_state(7);
        state.path = file.path().into();
        (state.device, state.inode) = (metadata.dev(), metadata.ino());
        assert_eq!(ShownSource::of(&state).lag_bytes, Some(26));
        state.inode += 1;
        assert_eq!(ShownSource::of(&state).size, None);
    }

    #[test]
    fn losses_name_what_is_not_zero() {
        let mut state = tests_state(7);
        assert_eq!(ShownSource::with_size(&state, None).losses(), "");
        state.ledger = Ledger { lost_bytes: 5, truncated_records: 1, truncated_bytes: 9, ..Ledger::default() };
        assert_eq!(ShownSource::with_size(&state, None).losses(), "lost_bytes=5 truncated_records=1 truncated_bytes=9");
    }
}
