//! The tail of a sealed file: everything after the row groups, and the checksum that covers it.
//!
//! A line of the footer describes the tail: `daytable-tail:SUM:WHERE:INDEX`. SUM is the xxh3-64 of the tail, with
//! zeros in the place of SUM. WHERE is the position at which the row groups end. INDEX is the length of the index
//! that begins there. The line is found before the footer is trusted.

use super::bytes::{BLOCK_BYTES, RangeReader, VerifiedBytes};
use super::damage::damaged;
use super::index::FileIndex;
use crate::StoreError;
use ::bytes::Bytes;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The footer's key for the line that begins with [`TAIL`].
pub(super) const TAIL_KEY: &str = "daytable.tail";
/// The beginning of the line that describes the tail.
const TAIL: &str = "daytable-tail:";
/// Digits of the checksum.
const SUM_DIGITS: usize = 16;
const MAGIC: &[u8; 4] = b"PAR1";
/// Maximum bytes of a tail, which is held in memory.
const TAIL_BYTES_MAX: u64 = 1 << 30;

/// The line that describes the tail. The checksum is filled in last.
pub(super) fn tail_line(sum: u64, data_end: u64, index_bytes: u64) -> String {
    format!("{TAIL}{sum:0SUM_DIGITS$x}:{data_end:020}:{index_bytes:020}")
}

/// The position of the checksum's digits within a tail.
pub(super) fn sum_place(tail: &[u8]) -> Option<Range<usize>> {
    let start = memchr::memmem::rfind(tail, TAIL.as_bytes())? + TAIL.len();
    tail.get(start..start + SUM_DIGITS).map(|_| start..start + SUM_DIGITS)
}

/// The checksum of a tail, with zeros in its own place.
pub(super) fn sum_of(tail: &[u8], place: Range<usize>) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(&tail[..place.start]);
    sum.update(&[b'0'; SUM_DIGITS]);
    sum.update(&tail[place.end..]);
    sum.digest()
}

/// The same file with corrected checksums, if the file states their positions. Property tests use it to reach the
/// decoders.
pub fn with_sums(file: &[u8]) -> Option<Vec<u8>> {
    let place = sum_place(file)?;
    let line = std::str::from_utf8(file.get(place.end..place.end + 42)?).ok()?;
    let mut numbers = line.split(':').skip(1).map(str::parse::<usize>);
    let (data_end, index_bytes) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let (data, index) = (file.get(..data_end)?, data_end..data_end.checked_add(index_bytes)?);
    let mut mended = file.to_vec();
    if let Ok(decoded) = FileIndex::decode(file.get(index.clone())?, data.len() as u64) {
        let sums = data.chunks(BLOCK_BYTES).map(xxh3_64).collect();
        // With another length, everything after it would move.
        let encoded = FileIndex { sums, ..decoded }.encode().ok().filter(|encoded| encoded.len() == index_bytes);
        if let (Some(encoded), Some(place)) = (encoded, mended.get_mut(index)) {
            place.copy_from_slice(&encoded);
        }
    }
    let tail = mended.get_mut(data_end..)?;
    let place = sum_place(tail)?;
    let sum = sum_of(tail, place.clone());
    tail.get_mut(place)?.copy_from_slice(format!("{sum:0SUM_DIGITS$x}").as_bytes());
    Some(mended)
}

/// The verified tail of a file, and the length of the index in it.
pub(super) fn open_tail(source: Arc<dyn RangeReader>, path: &Path) -> Result<(VerifiedBytes, usize), StoreError> {
    let io = |error: io::Error| StoreError::io(path)(error);
    let foreign = |what: &str| StoreError::Foreign(path.into(), what.into());
    let length = source.length().map_err(io)?;
    let footer = length.checked_sub(8).ok_or_else(|| foreign("it is too short to be Parquet"))?;
    let last = source.read(footer, 8).map_err(io)?;
    let (footer_length, magic) = last.split_at(4);
    let footer_length = footer_length.iter().rev().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
    let footer_start = footer.checked_sub(footer_length).filter(|_| magic == MAGIC);
    let footer_start = footer_start.ok_or_else(|| foreign("it does not end as Parquet does"))?;
    let read = |start: u64| {
        if length - start > TAIL_BYTES_MAX {
            return Err(foreign("its footer is larger than any of daytable's"));
        }
        let length = usize::try_from(length - start).map_err(|_| io::ErrorKind::OutOfMemory.into());
        length.and_then(|length| source.read(start, length)).map_err(io)
    };
    let line = {
        let footer = read(footer_start)?;
        let place = sum_place(&footer).ok_or_else(|| foreign("it is Parquet, but not of daytable"))?;
        let line = footer.get(place.end..place.end + 42).unwrap_or_default();
        std::str::from_utf8(line).unwrap_or_default().to_owned()
    };
    let damaged = || damaged(path, "footer", "its checksum does not match".into());
    let mut numbers = line.split(':').skip(1).map(str::parse::<u64>);
    let (Some(Ok(data_end)), Some(Ok(index_bytes))) = (numbers.next(), numbers.next()) else { return Err(damaged()) };
    if data_end > footer_start || index_bytes > footer_start - data_end {
        return Err(damaged());
    }
    let tail: Bytes = read(data_end)?;
    let place = sum_place(&tail).ok_or_else(damaged)?;
    if tail[place.clone()] != *format!("{:0SUM_DIGITS$x}", sum_of(&tail, place)).as_bytes() {
        return Err(damaged());
    }
    let index_bytes = usize::try_from(index_bytes).map_err(|_| damaged())?;
    Ok((VerifiedBytes { source, data_end, tail, sums: Arc::new([]) }, index_bytes))
}
