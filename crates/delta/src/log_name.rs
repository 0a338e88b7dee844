//! Names of objects in `_delta_log`.

use serde::Deserialize;

/// The hint for readers.
pub(crate) const LAST_CHECKPOINT: &str = "_last_checkpoint";
/// Bytes of the hint, of which the schema of a checkpoint may be a part.
pub(crate) const LAST_CHECKPOINT_BYTES_MAX: u64 = 1 << 20;

/// What matters in `_last_checkpoint`.
#[derive(Deserialize)]
pub(crate) struct LastCheckpoint {
    pub(crate) version: u64,
}

/// What an object in `_delta_log` is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogName {
    /// The actions of a version.
    Commit(u64),
    /// A whole checkpoint of a version.
    Checkpoint(u64),
    /// One of several parts of a checkpoint, counted from 1.
    CheckpointPart { version: u64, part: u32, parts: u32 },
}

/// The greatest version: engines count with signed 64 bits.
pub(crate) const VERSION_MAX: u64 = i64::MAX as u64;

impl LogName {
    /// Reads a name. `None` for what readers are to ignore.
    pub(crate) fn parse(name: &str) -> Option<LogName> {
        let (version, kind) = name.split_once('.')?;
        let version: u64 = number(version, 20)?;
        if version > VERSION_MAX {
            return None;
        }
        match kind.split('.').collect::<Vec<_>>()[..] {
            ["json"] => Some(LogName::Commit(version)),
            ["checkpoint", "parquet"] => Some(LogName::Checkpoint(version)),
            ["checkpoint", part, parts, "parquet"] => {
                let (part, parts) = (number(part, 10)?, number(parts, 10)?);
                (1..=parts).contains(&part).then_some(LogName::CheckpointPart { version, part, parts })
            }
            _ => None,
        }
    }

    /// The name itself.
    pub(crate) fn text(self) -> String {
        match self {
            LogName::Commit(version) => format!("{version:020}.json"),
            LogName::Checkpoint(version) => format!("{version:020}.checkpoint.parquet"),
            LogName::CheckpointPart { version, part, parts } => {
                format!("{version:020}.checkpoint.{part:010}.{parts:010}.parquet")
            }
        }
    }
}

/// A number of exactly `width` digits.
fn number<T: std::str::FromStr>(text: &str, width: usize) -> Option<T> {
    (text.len() == width && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for name in [
            LogName::Commit(7),
            LogName::Checkpoint(VERSION_MAX),
            LogName::CheckpointPart { version: 100, part: 2, parts: 3 },
        ] {
            assert_eq!(LogName::parse(&name.text()), Some(name));
        }
        for ignored in [
            "_last_checkpoint",
            "7.json",
            "00000000000000000007.json#1",
            "00000000000000000007.json.tmp",
            "00000000000000000007.crc",
            "00000000000000000004.00000000000000000006.compacted.json",
            "00000000000000000010.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json",
            "00000000000000000010.checkpoint.0000000004.0000000003.parquet",
            "99999999999999999999.json",
        ] {
            assert_eq!(LogName::parse(ignored), None, "{ignored}");
        }
    }
}
