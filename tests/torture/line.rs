//! The records that are written, and what tells each from every other: its stream, its number, its length, a checksum.
//!
//! ```text
//! {"time":"2026-11-20T10:00:00.000123Z","level":"INFO","message":"@app-0/17/40/5b1d…@payload of 40 bytes"}
//! ```
//!
//! A collector may do with the line what it likes as long as the message comes out as it went in.

use crate::random::Random;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    /// The file it was written to, by number.
    pub(crate) stream: u32,
    /// Which record of that file it is.
    pub(crate) seq: u64,
}

/// The line of a record at a time, with a payload of `length` bytes and a newline.
pub(crate) fn line(id: Id, time: &str, length: usize) -> String {
    let payload = payload(id, length);
    let sum = checksum(payload.as_bytes());
    let Id { stream, seq } = id;
    format!(
        "{{\"time\":\"{time}\",\"level\":\"INFO\",\"message\":\"@{stream}/{seq}/{length}/{sum:016x}@{payload}\"}}\n"
    )
}

/// The record of a message, once every byte of it is as it was written. None where it is none of ours.
pub(crate) fn read(message: &str) -> Option<Result<Id, String>> {
    let (head, payload) = message.strip_prefix('@')?.split_once('@')?;
    let mut parts = head.split('/');
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (stream, seq, length) = (u32::try_from(number()?).ok()?, number()?, number()?);
    let sum = u64::from_str_radix(parts.next()?, 16).ok()?;
    let id = Id { stream, seq };
    let is_whole = payload.len() as u64 == length && checksum(payload.as_bytes()) == sum;
    Some(if is_whole { Ok(id) } else { Err(format!("{id:?} is damaged: {} of {length} bytes", payload.len())) })
}

/// Letters and digits that depend on the record alone.
fn payload(id: Id, length: usize) -> String {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789-._";
    let mut random = Random::new(u64::from(id.stream) << 40 ^ id.seq);
    (0..length).map(|_| char::from(LETTERS[random.below(LETTERS.len() as u64) as usize])).collect()
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
