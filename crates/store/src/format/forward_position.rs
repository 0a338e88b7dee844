//! How far a receiver has the commits of a sender.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Which folder a sender is: 128 random bits, made with its catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FolderOrigin(pub [u8; 16]);

impl fmt::Display for FolderOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text that is not an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an origin has 32 hexadecimal digits")]
pub struct OriginError;

impl FromStr for FolderOrigin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<FolderOrigin, OriginError> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(OriginError);
        }
        u128::from_str_radix(text, 16).map(|number| FolderOrigin(number.to_be_bytes())).map_err(|_| OriginError)
    }
}

impl Serialize for FolderOrigin {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FolderOrigin {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<FolderOrigin, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// How far a receiver has the commits of a sender: all commits up to one, and this many pages of those that follow. Two
/// positions are equal only if what was sent up to there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForwardPosition {
    /// The last commit that the receiver has as a whole.
    pub commit: i64,
    /// Pages of the next commit with pages that it has as well.
    #[serde(default)]
    pub pages: u32,
    /// The checksum of all of these pages, from the first commit on.
    pub checksum: u64,
    /// Requests to compare since the position moved.
    #[serde(default)]
    pub copies: u64,
    /// The checksum of these requests.
    #[serde(default)]
    pub copied: u64,
}

impl ForwardPosition {
    /// Whether it is the end of a commit, and nothing was compared since.
    pub fn is_between_commits(&self) -> bool {
        self.pages == 0 && self.copies == 0
    }

    /// The position after a request to compare with this checksum.
    pub fn after_copy(self, body: u64) -> ForwardPosition {
        let copied = xxh3_64_with_seed(&body.to_le_bytes(), self.copied);
        ForwardPosition { copies: self.copies.saturating_add(1), copied, ..self }
    }
}

/// The checksum of commits after one more page. `stored` is the checksum that the page has in its file: it covers its bytes, its
/// day-table, its partition and its commit.
pub fn checksum_with(checksum: u64, stored: u64) -> u64 {
    xxh3_64_with_seed(&stored.to_le_bytes(), checksum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn origins_are_read_as_they_are_written(bytes: [u8; 16], text in ".{0,40}") {
            let origin = FolderOrigin(bytes);
            prop_assert_eq!(origin.to_string().parse(), Ok(origin));
            let json = serde_json::to_string(&origin).expect("plain data");
            prop_assert_eq!(serde_json::from_str::<FolderOrigin>(&json).expect("the same"), origin);
            if let Ok(origin) = text.parse::<FolderOrigin>() {
                prop_assert_eq!(origin.to_string(), text.to_ascii_lowercase());
            }
        }
    }
}
