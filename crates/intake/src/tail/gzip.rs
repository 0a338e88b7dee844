//! Decodes gzip as gzip(1) does: any number of members, and garbage after the last.
//!
//! Zeros after a member are padding, as tapes and block devices leave. Other bytes that begin no member are garbage:
//! the decoded bytes are kept, and the garbage is counted.

use super::from_start::FromStart;
use flate2::bufread::GzDecoder;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The first bytes of a member: the magic, and deflate, the only method.
const MEMBER: [u8; 3] = [0x1f, 0x8b, 8];
const BUFFER_BYTES: usize = 64 << 10;

/// A gzip file, decoded from its start.
pub(super) struct Gzip {
    file: File,
    /// None after the last member.
    member: Option<GzDecoder<BufReader<FromStart>>>,
    encoded: Arc<AtomicU64>,
    garbage: Arc<AtomicU64>,
}

/// The bytes after a member.
enum Next {
    /// Another member, at this offset of the file.
    Member(u64),
    End,
    /// Bytes that begin no member.
    Garbage(u64),
    /// The beginning of a member that is cut off.
    Cut,
}

impl Gzip {
    /// Decodes from the first byte. `encoded` counts the bytes read from the file, `garbage` those that cannot be
    /// decoded.
    pub(super) fn new(file: File, encoded: Arc<AtomicU64>, garbage: Arc<AtomicU64>) -> io::Result<Gzip> {
        let from_start = FromStart { file: file.try_clone()?, at: encoded.clone() };
        let member = Some(GzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, from_start)));
        Ok(Gzip { file, member, encoded, garbage })
    }

    /// Examines the bytes after a member that ended at `offset`.
    fn next(&self, mut offset: u64) -> io::Result<Next> {
        let mut bytes = vec![0; BUFFER_BYTES];
        loop {
            let n = self.file.read_at(&mut bytes, offset)?;
            if n == 0 {
                return Ok(Next::End);
            }
            let Some(zeros) = bytes[..n].iter().position(|byte| *byte != 0) else {
                offset += n as u64;
                continue;
            };
            offset += zeros as u64;
            let mut begin = [0; MEMBER.len()];
            let length = self.file.read_at(&mut begin, offset)?;
            return Ok(match &begin[..length] {
                begin if *begin == MEMBER => Next::Member(offset),
                begin if MEMBER.starts_with(begin) => Next::Cut,
                _ => Next::Garbage(self.file.metadata()?.len().saturating_sub(offset)),
            });
        }
    }
}

impl Read for Gzip {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(member) = &mut self.member else { return Ok(0) };
            let n = member.read(buffer)?;
            if n > 0 || buffer.is_empty() {
                return Ok(n);
            }
            let Some(member) = self.member.take() else { return Ok(0) };
            let mut reader = member.into_inner();
            let offset = self.encoded.load(Ordering::Relaxed) - reader.buffer().len() as u64;
            match self.next(offset)? {
                Next::Member(at) => {
                    io::copy(&mut reader.by_ref().take(at - offset), &mut io::sink())?;
                    self.member = Some(GzDecoder::new(reader));
                }
                Next::End => {}
                Next::Garbage(bytes) => self.garbage.store(bytes, Ordering::Relaxed),
                Next::Cut => return Err(ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}
