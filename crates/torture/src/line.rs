//! Records that can be told apart: each has its stream, its number, its length and a checksum.
//!
//! ```text
//! {"time":"2026-11-20T10:00:00.000123Z","level":"INFO","worker":"w17","message":"@0/17/40/5b1d…@payload of 40 bytes"}
//! 2026-11-20T10:00:00.000123Z stdout P {"time":"…         as a container's runtime writes it, in pieces
//! k                                                       a line of one byte, told by how often it is there
//! 2026-11-20T10:00:00.000123Z INFO @6/2/90020/c7d0…@payload up n=2 trace=payload      a message of several rows
//! ```
//!
//! A collector may store the line in any form, as long as the message stays the same.

use daytable_crash::random::Random;

/// The identity of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    /// The number of the file.
    pub(crate) stream: u32,
    /// The number of the record within the file.
    pub(crate) seq: u64,
}

/// The stream of one-byte lines. A record's number is its byte.
pub(crate) const BARE: u32 = 4;
/// The name of its file, without the extension.
pub(crate) const BARE_FILE: &str = "bare-4";

/// The stream of lines for people whose pairs take more than one row.
pub(crate) const PAIRS: u32 = 6;

/// Workers of a stream. Each is an instance of its own, so that rows of many instances share batches.
const WORKERS: u64 = 23;

/// A line for people that ends in pairs, one of which is long: its message is whole and takes several rows.
pub(crate) fn with_pairs(id: Id, time: &str, length: usize) -> String {
    let payload = format!("{} up n={} trace={}", payload(id, length / 2), id.seq, payload(id, length));
    format!("{time} INFO {}\n", message_of(id, &payload))
}

/// The line of a record, with a time, a payload of `length` bytes and a newline.
pub(crate) fn line(id: Id, time: &str, length: usize) -> String {
    let (worker, message) = (id.seq % WORKERS, message(id, length));
    format!("{{\"time\":\"{time}\",\"level\":\"INFO\",\"worker\":\"w{worker}\",\"message\":\"{message}\"}}\n")
}

/// The part of a record that must stay the same.
pub(crate) fn message(id: Id, length: usize) -> String {
    message_of(id, &payload(id, length))
}

fn message_of(Id { stream, seq }: Id, payload: &str) -> String {
    format!("@{stream}/{seq}/{}/{:016x}@{payload}", payload.len(), checksum(payload.as_bytes()))
}

/// The same line as a container runtime writes it: cut before the byte offsets `cuts`, in ascending order.
pub(crate) fn in_pieces(line: &str, time: &str, cuts: &[usize]) -> String {
    let mut pieces = String::with_capacity(line.len() + 64 * (cuts.len() + 1));
    let mut from = 0;
    for &cut in cuts {
        pieces += &format!("{time} stdout P {}\n", &line[from..cut]);
        from = cut;
    }
    pieces + &format!("{time} stdout F {}\n", line[from..].trim_end())
}

/// The record of a message. `None` if the message is foreign, an error if a byte differs.
pub(crate) fn read(message: &str) -> Option<Result<Id, String>> {
    if let [letter @ b'a'..=b'z'] = message.as_bytes() {
        return Some(Ok(Id { stream: BARE, seq: u64::from(*letter) }));
    }
    let (head, payload) = message.strip_prefix('@')?.split_once('@')?;
    let mut parts = head.split('/');
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (stream, seq, length) = (u32::try_from(number()?).ok()?, number()?, number()?);
    let sum = u64::from_str_radix(parts.next()?, 16).ok()?;
    let id = Id { stream, seq };
    let is_whole = payload.len() as u64 == length && checksum(payload.as_bytes()) == sum;
    Some(if is_whole { Ok(id) } else { Err(format!("{id:?} is damaged: {} of {length} bytes", payload.len())) })
}

/// Letters and digits that depend only on the record.
fn payload(id: Id, length: usize) -> String {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
    let mut random = Random::new(u64::from(id.stream) << 40 ^ id.seq);
    let mut letters = Vec::with_capacity(length + 10);
    while letters.len() < length {
        let bits = random.next();
        letters.extend((0..10).map(|n| LETTERS[(bits >> (6 * n)) as usize % 64]));
    }
    letters.truncate(length);
    String::from_utf8(letters).unwrap_or_default()
}

/// XXH3, which test builds also compile for speed.
fn checksum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}
