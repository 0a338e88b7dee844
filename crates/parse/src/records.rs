//! The records of a stream that is read once from start to end: a file, or standard input.
//!
//! A tailer makes the same records of the same bytes, except where only time decides: here a record closes at the next
//! record or at the end, without a wait.

use super::join::{Assembler, Ending, cut_record};
use super::json::rest::RestScanner;
use super::raw_record::RawRecord;
use super::{ParseOptions, Parsed, SourceProfile};
use daytable_model::time::Ticks;
use memchr::{memchr, memrchr};
use std::io::{self, ErrorKind, Read};

/// Bytes of one read.
const CHUNK_BYTES: usize = 256 << 10;

/// The records of a reader, a chunk at a time.
pub struct Records<R> {
    reader: R,
    options: ParseOptions,
    bytes_max: usize,
    profile: SourceProfile,
    /// The first `filled` bytes were read and belong to no returned record.
    buffer: Vec<u8>,
    filled: usize,
    /// Offset of the first of these bytes in the stream.
    offset: u64,
}

impl<R: Read> Records<R> {
    /// Reads the records of `reader`. A line is cut at `bytes_max` bytes.
    pub fn new(reader: R, options: ParseOptions, bytes_max: usize) -> Records<R> {
        Records {
            reader,
            options,
            bytes_max,
            profile: SourceProfile::default(),
            buffer: Vec::new(),
            filled: 0,
            offset: 0,
        }
    }

    /// Reads once, and passes each complete record to `each` with the offset of its chunk. `seen` is the time of
    /// reading. Returns false at the end of the stream.
    pub fn turn(&mut self, seen: Ticks, mut each: impl FnMut(u64, &RawRecord<'_>, Parsed<'_>)) -> io::Result<bool> {
        let is_end = self.fill()? == 0;
        let whole = match memrchr(b'\n', &self.buffer[..self.filled]) {
            _ if is_end => self.filled,
            Some(newline) => newline + 1,
            None => 0,
        };
        let unfinished = self.filled - whole;
        let ending = if is_end { Ending::Closed } else { Ending::Open };
        let (options, profile) = (&self.options, &mut self.profile);
        let mut records = Assembler::new(&self.buffer[..whole], unfinished, self.bytes_max, options, ending)
            .at_beginning(self.offset == 0);
        while let Some(mut raw) = records.next(profile, options) {
            raw.note_end();
            each(self.offset, &raw, profile.raw_record(&raw, options, seen));
        }
        let consumed = records.consumed();
        profile.note_gap(records.gap());
        self.remove(consumed);
        self.offset += consumed as u64;
        if !is_end && self.filled > self.bytes_max {
            // With a newline the line would be closed, so the buffer is a single line.
            self.long_line(seen, each)?;
        }
        Ok(!is_end)
    }

    /// The profile, to be told about the file before the first record is read.
    pub fn profile_mut(&mut self) -> &mut SourceProfile {
        &mut self.profile
    }

    /// The profile so far.
    pub fn profile(&self) -> &SourceProfile {
        &self.profile
    }

    /// Skips the rest of a line over the limit, and passes the kept part to `each`.
    fn long_line(&mut self, seen: Ticks, mut each: impl FnMut(u64, &RawRecord<'_>, Parsed<'_>)) -> io::Result<()> {
        let kept = self.filled;
        let mut cut = 0;
        let mut scanner = RestScanner::default();
        let within = self.bytes_max.min(kept);
        scanner.scan(&self.buffer[..within]);
        scanner.cut();
        scanner.scan(&self.buffer[within..]);
        let end = loop {
            let read = self.fill()?;
            let newline = memchr(b'\n', &self.buffer[kept..self.filled]);
            cut += newline.unwrap_or(read);
            scanner.scan(&self.buffer[kept..kept + newline.unwrap_or(read)]);
            if let Some(newline) = newline {
                break kept + newline + 1;
            }
            self.filled = kept;
            if read == 0 {
                break kept;
            }
        };
        let (options, profile) = (&self.options, &mut self.profile);
        let raw = cut_record(&self.buffer[..kept], self.bytes_max, cut, scanner.finish(), profile, options);
        each(self.offset, &raw, profile.raw_record(&raw, options, seen));
        self.remove(end);
        self.offset += (kept + cut) as u64 + u64::from(end > kept);
        Ok(())
    }

    /// Appends one read to the bytes that were read.
    fn fill(&mut self) -> io::Result<usize> {
        let end = self.filled + CHUNK_BYTES;
        if self.buffer.len() < end {
            // New memory is zero already.
            let mut buffer = vec![0; end];
            buffer[..self.filled].copy_from_slice(&self.buffer[..self.filled]);
            self.buffer = buffer;
        }
        loop {
            match self.reader.read(&mut self.buffer[self.filled..end]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => {
                    self.filled += other.as_ref().map_or(0, |read| *read);
                    return other;
                }
            }
        }
    }

    /// Removes the first bytes.
    fn remove(&mut self, bytes: usize) {
        self.buffer.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a few bytes a read.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(buffer.len());
            self.0.read(&mut buffer[..length])
        }
    }

    fn all(reader: impl Read) -> Vec<(u64, String, usize)> {
        let mut records = Records::new(reader, ParseOptions::default(), 40);
        let mut shown = Vec::new();
        let mut each = |offset: u64, raw: &RawRecord<'_>, parsed: Parsed<'_>| {
            assert!(raw.text.contains(&*parsed.record.message));
            shown.push((offset + raw.start as u64, raw.text.to_string(), raw.cut_bytes()));
        };
        while records.turn(Ticks::UNIX_EPOCH, &mut each).expect("memory") {}
        shown
    }

    #[test]
    fn a_line_over_the_limit_is_cut_and_the_next_is_read() {
        let long = "\u{e4}".repeat(30);
        for bytes in [1, 7, 1000] {
            let text = format!("2026-11-20 10:00:00 a\n\tb\n1{long}\nc\n1{long}");
            let cut = format!("1{}", &long[..38]);
            let expected = [
                (0, "2026-11-20 10:00:00 a\n\tb".into(), 0),
                (25, cut.clone(), 22),
                (87, "c".into(), 0),
                (89, cut, 22),
            ];
            assert_eq!(all(Slow(text.as_bytes(), bytes)), expected, "{bytes} at a time");
        }
    }

    proptest! {
        /// The records do not depend on the size of the reads.
        #[test]
        fn reads_do_not_matter(input in "(2026-11-20 10:00:00 [ab]{0,3}\n|\t[ab\u{e4}]{0,9}\n|\n|[1{]{35,60}){0,20}", bytes in 1usize..30) {
            prop_assert_eq!(all(Slow(input.as_bytes(), bytes)), all(input.as_bytes()));
        }
    }
}
