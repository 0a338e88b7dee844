//! The shown form of day-tables, sources and listeners, in the JSON that the command line and the reading API share.

use daytable_archive::Lake;
use daytable_model::key::DayTable;
use daytable_model::path_text;
use daytable_model::time::Ticks;
use daytable_model::units::show_rounded;
use daytable_parse::SourceProfile;
use daytable_store::{Ledger, Reader, SourceKind, SourceState, SourceStatus, StoreError, TableSummary};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A day-table. Times are RFC 3339.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownTable {
    /// Its name.
    pub table: String,
    /// Its state.
    pub state: Cow<'static, str>,
    /// Rows, including items. Rows in a remote store are not counted for a list.
    pub rows: Option<u64>,
    /// Bytes of its files.
    pub bytes: Option<u64>,
    /// Rows in this daytable's outbox that wait to be sent, or were just sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// The time of its oldest record.
    pub first_time: Option<String>,
    /// The time of its newest record.
    pub last_time: Option<String>,
    /// Of the rows, those that came after the day was sealed, and wait to be merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
    /// Of the records, those of earlier days: their own day had expired or was dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier: Option<u64>,
    /// When it expires.
    pub expires: Option<String>,
    /// The next step: `seal`, `archive`, `drop` or `remove_archive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Cow<'static, str>>,
    /// When the step is due. The first run after that time executes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<String>,
    /// The address of the latest archive that was read back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// Bytes of all of its archives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_bytes: Option<u64>,
    /// Why it stays although it has expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stays: Option<String>,
    /// Why the last step failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the step is retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<String>,
}

/// Bytes of a day-table of a lake, and the times of its oldest and newest record.
type LakeTable = (u64, Option<(Ticks, Ticks)>);

/// The day-tables of a lake, the oldest first: of all hosts together.
///
/// # Errors
///
/// Why not all of them are known.
pub fn tables_of_lake(lake: &Lake) -> Result<Vec<ShownTable>, String> {
    let listing = lake.listing().map_err(|error| error.to_string())?;
    if let Some((name, reason)) = listing.unread.first_key_value() {
        return Err(format!("missing from the lake: {name}: {reason}"));
    }
    let mut tables: BTreeMap<&DayTable, LakeTable> = BTreeMap::new();
    for (file, times) in listing.files.iter().zip(lake.times(listing.files.iter().collect())) {
        let times = times.map_err(|error| format!("missing from the lake: {}: {error}", file.shown()))?;
        let (bytes, known) = tables.entry(file.table()).or_default();
        *bytes += file.bytes();
        let joined = |(first, last): (Ticks, Ticks), (of, to): (Ticks, Ticks)| (first.min(of), last.max(to));
        *known = match (*known, times) {
            (Some(known), Some(times)) => Some(joined(known, times)),
            (known, times) => known.or(times),
        };
    }
    let shown = |(table, (bytes, times)): (&DayTable, LakeTable)| ShownTable {
        table: table.to_string(),
        state: "archived".into(),
        bytes: Some(bytes),
        first_time: times.map(|(first, _)| first.to_string()),
        last_time: times.map(|(_, last)| last.to_string()),
        archive: Some(lake.url().to_string()),
        ..ShownTable::default()
    };
    let mut tables: Vec<_> = tables.into_iter().collect();
    tables.sort_by_key(|(table, _)| table.start());
    Ok(tables.into_iter().map(shown).collect())
}

impl ShownTable {
    /// A table as it lies in the folder of `reader`.
    pub fn of(summary: &TableSummary, reader: &Reader) -> Result<ShownTable, StoreError> {
        let earlier = Some(reader.earlier(summary)?).filter(|records| *records > 0);
        Ok(ShownTable { earlier, ..ShownTable::from(summary) })
    }
}

impl From<&TableSummary> for ShownTable {
    fn from(summary: &TableSummary) -> ShownTable {
        let shown = |time: Option<Ticks>| time.map(|time| time.to_string());
        ShownTable {
            table: summary.table.to_string(),
            state: summary.state.into(),
            rows: Some(summary.rows),
            bytes: Some(summary.bytes),
            first_time: shown(summary.first_time),
            last_time: shown(summary.last_time),
            expires: shown(summary.expires),
            ..ShownTable::default()
        }
    }
}

/// A listener, known only to the daemon that listens. Counts are since its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownListener {
    /// The name of its config block.
    pub block: String,
    /// Its protocol: `syslog`.
    pub kind: String,
    /// Its address, as configured.
    pub listen: String,
    /// Records received.
    pub received: u64,
    /// Of these, the committed ones.
    pub committed: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Open connections.
    pub connections: u64,
    /// Losses by reason: records lost, cut, replaced or refused. `kernel` counts datagrams that the kernel dropped,
    /// `stopped` records that could no longer be committed. Names of settings, `tls` and `no_frame` count closed
    /// connections.
    pub losses: BTreeMap<String, u64>,
}

impl ShownListener {
    /// Its losses as text; empty without any.
    pub fn losses(&self) -> String {
        let shown: Vec<_> = self.losses.iter().map(|(reason, count)| format!("{reason}={count}")).collect();
        shown.join(" ")
    }
}

/// A sender whose clock is off, as the daemon that listens knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownClock {
    /// The name of its config block.
    pub block: String,
    /// The instance of its records.
    pub instance: String,
    /// How many seconds the clock is ahead; negative where it is behind.
    pub clock_ahead_seconds: i64,
    /// The records that say so.
    pub records: u64,
    /// The arrival of the first of them.
    pub since: String,
    /// The arrival of the last one.
    pub until: String,
}

impl ShownClock {
    /// How far the clock is off, and in which direction: `2h 0m behind`.
    pub fn off(&self) -> String {
        let size = show_rounded(Duration::from_secs(self.clock_ahead_seconds.unsigned_abs()));
        format!("{size} {}", if self.clock_ahead_seconds < 0 { "behind" } else { "ahead" })
    }
}

/// A file whose last line has no end, as the daemon that follows the file knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownUnended {
    /// The name of its config block.
    pub block: String,
    /// Its path. Bytes that are not UTF-8 are written `\xFF`.
    pub path: String,
    /// Bytes of the line that waits for its end.
    pub unended_bytes: u64,
}

/// The state of a source and of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownStatus {
    /// The file is followed under its path.
    Live,
    /// The file was followed, and is not at its path.
    Gone,
    /// The file was renamed and is read to its end.
    Rotated,
    /// Read to the end, and the file was replaced or removed.
    Ended,
}

impl ShownStatus {
    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ShownStatus::Live => "live",
            ShownStatus::Gone => "gone",
            ShownStatus::Rotated => "rotated",
            ShownStatus::Ended => "ended",
        }
    }
}

/// A source: its ledger, and its lag behind its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownSource {
    /// The name of its config block.
    pub block: String,
    /// The last known path of its file; the folder of a journal, or `journal` for this host's. Bytes that are not
    /// UTF-8 are written `\xFF`.
    #[serde(with = "path_text")]
    pub path: PathBuf,
    /// The 32 hex digits of its row keys.
    pub identity: String,
    /// Whether it is followed, imported, or a journal.
    pub kind: SourceKind,
    /// Its state.
    pub status: ShownStatus,
    /// Offset of the first uncommitted byte; for a journal, the number of entries read.
    pub position: u64,
    /// For a journal, the cursor of the last committed entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Present size of its file; `None` if the path has another file, or none.
    pub size: Option<u64>,
    /// Uncommitted bytes; `None` if the file is missing or compressed.
    pub lag_bytes: Option<u64>,
    /// When it last advanced, RFC 3339.
    pub seen: String,
    /// The field that is the time of its records, where no name is known for it; of a date and a clock both names, with
    /// `and` between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_field: Option<String>,
    /// What looks like a time, where no record had one: the name of a field, or a part of a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub likely_time: Option<String>,
    /// The ledger.
    #[serde(flatten)]
    pub ledger: Ledger,
}

impl ShownSource {
    /// The present state of a source, including its file.
    pub fn of(state: &SourceState) -> ShownSource {
        let file = std::fs::metadata(&state.path);
        // Who may not look into the folder does not know.
        let is_hidden = file.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
        let file = file.ok().filter(|file| (file.dev(), file.ino()) == (state.device, state.inode));
        let mut shown = ShownSource::with_size(state, file.map(|file| file.len()));
        if let (Some(size), Some(1..)) = (shown.size, shown.lag_bytes) {
            let written = written_end(&state.path, state.position, size);
            shown.lag_bytes = Some(written.saturating_sub(state.position));
        }
        let is_gone = state.kind == SourceKind::Tail && shown.size.is_none() && !is_hidden;
        match shown.status {
            ShownStatus::Live if is_gone => ShownSource { status: ShownStatus::Gone, ..shown },
            _ => shown,
        }
    }

    fn with_size(state: &SourceState, size: Option<u64>) -> ShownSource {
        let extension = state.path.extension().and_then(|extension| extension.to_str());
        let compressed = matches!(extension, Some("gz" | "zst"));
        let profile = SourceProfile::restore(&state.profile);
        ShownSource {
            block: state.block.clone(),
            path: state.path.clone(),
            identity: state.identity.to_string(),
            kind: state.kind,
            status: match state.status {
                SourceStatus::Live => ShownStatus::Live,
                SourceStatus::Rotated => ShownStatus::Rotated,
                SourceStatus::Ended => ShownStatus::Ended,
            },
            position: state.position,
            cursor: (state.kind == SourceKind::Journal).then(|| state.cursor.clone()),
            size,
            lag_bytes: size.filter(|_| !compressed).map(|size| size.saturating_sub(state.position)),
            seen: state.seen.to_string(),
            time_field: profile.time_field().map(str::to_owned),
            likely_time: profile.likely_time().map(str::to_owned),
            ledger: state.ledger,
        }
    }

    /// Losses as text, each with its number; empty without any. Records in another day than their own are not a loss, and
    /// are named as well.
    pub fn losses(&self) -> String {
        let late = ("late_records", self.ledger.late_records);
        let counts = ShownSource::loss_counts(&self.ledger).into_iter().chain([late]);
        let shown: Vec<_> =
            counts.filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name}={count}")).collect();
        shown.join(" ")
    }

    /// The losses of a ledger by their names, zeros included.
    pub fn loss_counts(ledger: &Ledger) -> [(&'static str, u64); 8] {
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
            late_records: _,
        } = *ledger;
        [
            ("lost_records", lost_records),
            ("lost_bytes", lost_bytes),
            ("truncated_records", truncated_records),
            ("truncated_bytes", truncated_bytes),
            ("invalid_utf8_records", invalid_utf8_records),
            ("skipped_bytes", skipped_bytes),
            ("returned_bytes", returned_bytes),
            ("own_records", own_records),
        ]
    }
}

/// Where the bytes of a file of `size` bytes end from `position` on, without zeros at its end, where nothing was written
/// yet. Zeros are looked through for 64 MiB at most.
fn written_end(path: &Path, position: u64, size: u64) -> u64 {
    const SEARCH_BYTES_MAX: u64 = 64 << 20;
    let Ok(file) = File::open(path) else { return size };
    let (mut end, mut bytes) = (size, vec![0; 64 << 10]);
    while end > position && size - end < SEARCH_BYTES_MAX {
        let start = end.saturating_sub(bytes.len() as u64).max(position);
        let piece = &mut bytes[..usize::try_from(end - start).unwrap_or(0)];
        if file.read_exact_at(piece, start).is_err() {
            return size;
        }
        if let Some(last) = piece.iter().rposition(|byte| *byte != 0) {
            return start + last as u64 + 1;
        }
        end = start;
    }
    if end > position { size } else { position }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::key::DayTable;
    use daytable_store::source::tests_state;

    #[test]
    fn zeros_at_the_end_of_a_file_are_no_lag() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.log");
        for (bytes, position, lag) in [(&b"one\ntw\0o\0\0"[..], 4, 4), (b"one\n\0\0", 4, 0), (b"one\ntwo\n", 4, 4)] {
            std::fs::write(&path, bytes).expect("written");
            File::options().write(true).open(&path).and_then(|file| file.set_len(1 << 20)).expect("allocated");
            assert_eq!(written_end(&path, position, 1 << 20) - position, lag, "{bytes:?}");
        }
    }

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
    fn lag_is_the_length_of_the_file_beyond_the_position() {
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
    fn losses_list_nonzero_counts() {
        let mut state = tests_state(7);
        assert_eq!(ShownSource::with_size(&state, None).losses(), "");
        state.ledger = Ledger { lost_bytes: 5, truncated_records: 1, truncated_bytes: 9, ..Ledger::default() };
        assert_eq!(ShownSource::with_size(&state, None).losses(), "lost_bytes=5 truncated_records=1 truncated_bytes=9");
    }
}
