//! Zeros in a file: bytes that were not written.
//!
//! A file has zeros where a program will write: it allocated the file before, or wrote its parts out of order, or another host
//! sees the length of a file before its bytes. And where nothing will ever be: a program writes on at its old offset of a
//! file that was truncated, or a power cut took blocks away. Nothing tells the two apart but time, so
//!
//! * zeros up to the end of the file are not there: neither a line nor unread bytes;
//! * at zeros before other bytes reading waits, until they are final: until they were there for `zeros_final`, or the file
//!   gets no more bytes;
//! * [`HOLE_BYTES_MIN`] final zeros are a hole: the line before them ends there, and a line begins behind them. Fewer are
//!   bytes of their line.

use super::file_content::FileContent;
use memchr::memchr;
use std::io;
use std::ops::Range;

/// This many zeros in a row, or more, are a hole.
const HOLE_BYTES_MIN: u64 = 64;
/// Bytes that are looked through for the end of zeros at once. Bytes that the file system knows to be absent do not count.
const SEARCH_BYTES_MAX: u64 = 64 << 20;

/// The end of a run of zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZerosEnd {
    /// Other bytes begin at this offset.
    At(u64),
    /// The file ends with zeros.
    EndOfFile,
    /// It is farther on. Looking again goes on from there.
    Farther,
}

/// A place that reading does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stop {
    /// The offset of its first zero in the bytes that were searched.
    pub(super) at: usize,
    pub(super) kind: StopKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopKind {
    /// Zeros up to the end of the file.
    EndOfFile,
    /// Zeros that may still be written.
    Waiting,
    /// A hole, behind which the file goes on at this offset.
    Hole(u64),
    /// Zeros whose end is not found yet.
    Searching,
}

/// A search for the end of zeros, which may take several chunks.
#[derive(Debug, Default)]
pub(super) struct ZeroSearch {
    /// The zeros that the last chunk looked through without finding their end. A finished search is forgotten: zeros may be
    /// written in any order.
    passed: Range<u64>,
}

impl ZeroSearch {
    /// The first stop in `data`, which begins at the offset `start` of the file. Zeros before `final_before` are final.
    pub(super) fn stop(
        &mut self,
        content: &mut FileContent,
        data: &[u8],
        start: u64,
        final_before: u64,
    ) -> io::Result<Option<Stop>> {
        let mut from = 0;
        while let Some(found) = memchr(0, &data[from..]) {
            let at = from + found;
            from = at + data[at..].iter().take_while(|byte| **byte == 0).count();
            let first = start + at as u64;
            let end = match from < data.len() {
                true => ZerosEnd::At(start + from as u64),
                false => self.end_of(content, first)?,
            };
            let kind = match end {
                ZerosEnd::EndOfFile => StopKind::EndOfFile,
                ZerosEnd::Farther => StopKind::Searching,
                ZerosEnd::At(next) if next > final_before => StopKind::Waiting,
                ZerosEnd::At(next) if next - first >= HOLE_BYTES_MIN => StopKind::Hole(next),
                ZerosEnd::At(_) => continue,
            };
            return Ok(Some(Stop { at, kind }));
        }
        Ok(None)
    }

    /// The end of the zeros that begin at `first`.
    fn end_of(&mut self, content: &mut FileContent, first: u64) -> io::Result<ZerosEnd> {
        let from = if self.passed.start == first { self.passed.end.max(first) } else { first };
        let (end, passed) = end_of_zeros(content, from)?;
        self.passed = if end == ZerosEnd::Farther { first..passed } else { 0..0 };
        Ok(end)
    }
}

/// The end of zeros from `offset` on, and the offset up to which there are zeros.
pub(super) fn end_of_zeros(content: &mut FileContent, mut offset: u64) -> io::Result<(ZerosEnd, u64)> {
    let mut left = SEARCH_BYTES_MAX;
    let mut bytes = vec![0; 64 << 10];
    loop {
        offset = content.next_data(offset);
        let n = content.read_at(offset, &mut bytes)?;
        if let Some(data) = bytes[..n].iter().position(|byte| *byte != 0) {
            let data = offset + data as u64;
            return Ok((ZerosEnd::At(data), data));
        }
        offset += n as u64;
        if n < bytes.len() {
            return Ok((ZerosEnd::EndOfFile, offset));
        }
        left = left.saturating_sub(n as u64);
        if left == 0 {
            return Ok((ZerosEnd::Farther, offset));
        }
    }
}
