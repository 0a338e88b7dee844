//! `checkpoints.json` of Vector's `file` source, in the folder of the source below its `data_dir`.
//!
//! ```json
//! {"version":"1","checkpoints":[{"fingerprint":{"first_lines_checksum":78910},"position":1234,"modified":"…"}]}
//! ```
//!
//! A fingerprint is `first_lines_checksum` (the CRC-64 of the first line, unless `fingerprint.lines` or
//! `ignored_header_bytes` change that) or `dev_inode`. Forms before version 0.15 are rejected; Vector itself converts
//! them.

use super::{AdoptError, FileReference, SavedPosition, format, text};
use daytable_model::path_text::PathText;
use serde_json::Value;
use std::path::Path;

pub(super) fn read(path: &Path) -> Result<Vec<SavedPosition>, AdoptError> {
    let file = if path.is_dir() { path.join("checkpoints.json") } else { path.to_owned() };
    parse(&text(&file)?).map_err(|reason| format(file.escaped(), reason))
}

pub(super) fn parse(text: &str) -> Result<Vec<SavedPosition>, String> {
    let all: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if all.get("version").and_then(Value::as_str) != Some("1") {
        return Err("its version is not \"1\"".into());
    }
    let checkpoints = all.get("checkpoints").and_then(Value::as_array).ok_or("has no `checkpoints`")?;
    let position = |checkpoint: &Value| {
        let offset = checkpoint.get("position").and_then(Value::as_u64).ok_or("a checkpoint has no position")?;
        let fingerprint = checkpoint.get("fingerprint").ok_or("a checkpoint has no fingerprint")?;
        let first_line = fingerprint.get("first_lines_checksum").or_else(|| fingerprint.get("first_line_checksum"));
        if let Some(checksum) = first_line.and_then(Value::as_u64) {
            return Ok(SavedPosition { file: FileReference::FirstLine(checksum), offset });
        }
        let numbers = fingerprint.get("dev_inode").and_then(Value::as_array).ok_or(
            "a fingerprint is neither `first_lines_checksum` nor `dev_inode`: run Vector 0.15 or later once, which rewrites it",
        )?;
        match numbers.iter().map(Value::as_u64).collect::<Vec<_>>()[..] {
            [Some(device), Some(inode)] => {
                Ok(SavedPosition { file: FileReference::Inode { device: Some(device), inode, path: None }, offset })
            }
            _ => Err("`dev_inode` is not two numbers".to_owned()),
        }
    };
    checkpoints.iter().map(position).collect()
}

/// CRC-64/ECMA-182 (polynomial 0x42f0e1eba9ea3693, not reflected, from zero), as Vector computes it.
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0x42f0_e1eb_a9ea_3693;
    bytes.iter().fold(0, |crc: u64, byte| {
        (0..8).fold(crc ^ u64::from(*byte) << 56, |crc, _| match crc >> 63 {
            0 => crc << 1,
            _ => crc << 1 ^ POLYNOMIAL,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_and_positions() {
        let text = r#"{"version":"1","checkpoints":[{"fingerprint":{"first_lines_checksum":78910},"position":1234,
            "modified":"2026-11-21T08:00:00.5Z"},{"fingerprint":{"dev_inode":[1,2]},"position":5}]}"#;
        let of = |file, offset| SavedPosition { file, offset };
        let inode = FileReference::Inode { device: Some(1), inode: 2, path: None };
        assert_eq!(parse(text), Ok(vec![of(FileReference::FirstLine(78910), 1234), of(inode, 5)]));
        for wrong in [
            "{}",
            "rubbish",
            r#"{"version":"2","checkpoints":[]}"#,
            r#"{"version":"1","checkpoints":[{"fingerprint":{"checksum":1},"position":5}]}"#,
            r#"{"version":"1","checkpoints":[{"fingerprint":{"dev_inode":[1]},"position":5}]}"#,
            r#"{"version":"1","checkpoints":[{"fingerprint":{"dev_inode":[1,2]},"position":-5}]}"#,
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    /// The check value from the catalog of parametrised CRC algorithms.
    #[test]
    fn the_checksum_is_the_one_of_its_name() {
        assert_eq!(crc64(b"123456789"), 0x6c40_df5f_0b49_7347);
    }
}
