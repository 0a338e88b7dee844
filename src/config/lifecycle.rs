//! `[lifecycle]`: when day-tables are created, sealed, archived, dropped and verified.

use super::key::{ConfigKey, count, duration, optional_text, size, text, truth, whole};
use super::options::SectionOptions;
use super::values::{field_name, or_word, size_at_least};
use daytable_lifecycle::{LifecycleLimits, Schedule};
use daytable_model::units::ByteSize;
use rustix::fs::statvfs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

/// 03:30:00 every day: sealing has ended, and few records arrive.
const VERIFY_DEFAULT: &str = "0 30 3 * * *";
const VERIFY_BYTES: RangeInclusive<ByteSize> = ByteSize::new(1 << 20)..=ByteSize::new(64 << 30);
const WAIT: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(365 * 86_400);

/// The share of its disk that the data folder takes by default.
const DISK_SHARE: u64 = 5;
/// The least default bound in bytes.
const DEFAULT_BOUND_LEAST: u64 = 1 << 30;

/// The bound of the data folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FolderBound {
    /// A fifth of the disk, but at least 1 GiB.
    #[default]
    Auto,
    /// No bound.
    Off,
    /// Bytes.
    Bytes(u64),
}

impl FolderBound {
    /// The bound of a folder in bytes.
    pub fn bytes(self, data_dir: &Path) -> Option<u64> {
        match self {
            FolderBound::Auto => disk_bytes(data_dir).map(|disk| (disk / DISK_SHARE).max(DEFAULT_BOUND_LEAST)),
            FolderBound::Off => None,
            FolderBound::Bytes(bytes) => Some(bytes),
        }
    }
}

/// The size of the disk of a folder. The nearest existing folder stands for a folder that does not exist yet.
fn disk_bytes(folder: &Path) -> Option<u64> {
    let disk = folder.ancestors().find_map(|folder| statvfs(folder).ok())?;
    Some(disk.f_blocks.saturating_mul(disk.f_frsize)).filter(|bytes| *bytes > 0)
}

/// When days are created, verified and dropped, and the limits of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifecycleConfig {
    /// When the lifecycle runs.
    pub schedule: Schedule,
    /// When the data folder is verified, or `None` for never.
    pub verify: Option<Schedule>,
    /// Bytes per second that a verification reads.
    pub verify_bytes_per_s: ByteSize,
    /// The field with a number that goes up by one with each record of an instance and source.
    pub verify_sequence: Option<String>,
    /// The bound of the data folder, which completes `limits`.
    pub max_bytes: FolderBound,
    /// The limits of one run. Their `max_bytes` depends on the disk: [`Config::limits`](super::Config::limits).
    pub limits: LifecycleLimits,
}

impl Default for LifecycleConfig {
    fn default() -> LifecycleConfig {
        LifecycleConfig {
            schedule: Schedule::default(),
            verify: Schedule::parse(VERIFY_DEFAULT).ok(),
            verify_bytes_per_s: ByteSize::new(32 << 20),
            verify_sequence: None,
            max_bytes: FolderBound::default(),
            limits: LifecycleLimits::default(),
        }
    }
}

impl SectionOptions for LifecycleConfig {
    const HEADER: &'static str = "[lifecycle]";
    const ABOUT: &'static str =
        "The life of a day-table: daytable creates it, fills it, seals it, archives it, and drops it as a whole.";
    const IS_SHARED: bool = true;

    fn keys() -> Vec<ConfigKey<LifecycleConfig>> {
        vec![
            text("schedule", "a cron expression in UTC", |lifecycle: &mut LifecycleConfig| &mut lifecycle.schedule, Schedule::parse)
                .default("\"0 15 0 * * *\"")
                .live(
                    "When the lifecycle runs. A run creates the next tables, seals and archives days that have ended, and drops expired days. The fields, in UTC, \
                     are second, minute, hour, day of month, month, and weekday by name (MON-FRI). Five fields are those of a crontab. \
                     daytable makes up for a missed run at the start. Tables with a period of an hour have a run at the end of each hour as well.",
                ),
            text(
                "verify",
                "a cron expression in UTC, or \"none\"",
                |lifecycle: &mut LifecycleConfig| &mut lifecycle.verify,
                |text| or_word("none", text, Schedule::parse),
            )
            .default("\"0 30 3 * * *\"")
            .live(
                "When daytable verifies its data (see `daytable verify`). The form is that of `schedule`. daytable does not make up for a missed verification. \
                 Each one reads every 28th sealed day and archive to the last byte. The log names the findings, and `daytable_verify_findings` counts them.",
            ),
            size("verify_bytes_per_s", |lifecycle: &mut LifecycleConfig| &mut lifecycle.verify_bytes_per_s, VERIFY_BYTES)
                .live("Bytes per second that a verification reads."),
            optional_text(
                "verify_sequence",
                "the name of a field",
                |lifecycle: &mut LifecycleConfig| &mut lifecycle.verify_sequence,
                field_name,
            )
            .example("\"seq\"")
            .live(
                "A field with a number that goes up by one from record to record of an instance and source. A verification then reports missing and \
                 repeated numbers. The number may begin anew at 0 or 1. Syslog (RFC 5424) has the field \"meta.sequenceId\". \
                 The check reads all rows once more. With several [[table]] blocks there is no check, because no table has all numbers.",
            ),
            duration("grace", |lifecycle: &mut LifecycleConfig| &mut lifecycle.limits.grace, WAIT).live(
                "How long a change that drops data earlier has to wait: a shorter `keep` or `keep_archives`, `archive = \"none\"`, a smaller `max_bytes`.",
            ),
            duration("seal_after", |lifecycle: &mut LifecycleConfig| &mut lifecycle.limits.seal_after, WAIT).live(
                "How long a day waits for late records after its end, before a run seals it. A sealed day is a read-only file of about half the size. \
                 Records that arrive still later are accepted, and merged into the sealed day a day after.",
            ),
            count("drops_per_run_max", |lifecycle: &mut LifecycleConfig| &mut lifecycle.limits.drops_per_run_max, u16::MAX)
                .live("Tables that one run drops. Later runs drop the others."),
            whole("min_tables", |lifecycle: &mut LifecycleConfig| &mut lifecycle.limits.min_tables, 0..=u16::MAX)
                .live("Days with records that each table retains, however old the days are."),
            text(
                "max_bytes",
                "a size of at least \"1MiB\", \"auto\", or \"off\"",
                |lifecycle: &mut LifecycleConfig| &mut lifecycle.max_bytes,
                folder_bound,
            )
            .default("\"auto\"")
            .live(
                "The size of the days in `data_dir` above which daytable drops days before they expire: the oldest day of the table that is furthest over its share. Shares are \
                 equal, or in proportion to `max_bytes` of [[table]]. No day goes where the days that are not over exceed the limit alone. \"auto\" is a fifth of the disk, but at least 1 GiB. \
                 Days of tables with an `archive` are archived first. `daytable status`, `daytable_store_bytes` and `daytable_store_bytes_max` show how close the \
                 folder is to this limit. An outbox has a limit of its own.",
            ),
            truth("drop_unarchived", |lifecycle: &mut LifecycleConfig| &mut lifecycle.limits.drop_unarchived).live(
                "Whether `max_bytes` may drop days that are not archived yet, although their table has an `archive`.",
            ),
        ]
    }
}

fn folder_bound(text: &str) -> Result<FolderBound, String> {
    match text {
        "auto" => Ok(FolderBound::Auto),
        "off" => Ok(FolderBound::Off),
        size => size_at_least(ByteSize::new(1 << 20), size).map(|size| FolderBound::Bytes(size.get())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_bound_by_its_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = disk_bytes(folder.path()).expect("a disk");
        assert_eq!(FolderBound::Auto.bytes(folder.path()), Some((disk / 5).max(1 << 30)));
        assert_eq!(FolderBound::Auto.bytes(&folder.path().join("not/there")), Some((disk / 5).max(1 << 30)));
        assert_eq!(FolderBound::Off.bytes(folder.path()), None);
        assert_eq!(FolderBound::Bytes(7).bytes(folder.path()), Some(7));
    }
}
