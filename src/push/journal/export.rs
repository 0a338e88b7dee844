//! The journal's export format, entry by entry.
//!
//! ```text
//! NAME=value\n                              a text
//! NAME\n  8 bytes, little-endian  value \n   any value, so many bytes
//! \n                                        the end of an entry
//! ```
//!
//! (<https://systemd.io/JOURNAL_EXPORT_FORMATS/>.) An entry has at most [`ENTRY_BYTES_MAX`] bytes and [`FIELDS_MAX`]
//! fields: of a value that is longer the rest is passed over, fields behind the last are, too. So a length that lies costs
//! the bytes that come, not those that it claims.

use std::io::{self, BufRead, ErrorKind};
use std::ops::Range;

/// Bytes of an entry that are kept at most.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;
/// Fields of an entry at most; as many as journald itself takes.
pub const FIELDS_MAX: usize = 1024;
/// Bytes of the name of a field at most: journald takes 64.
const NAME_BYTES_MAX: usize = 256;

/// What is wrong with a stream of entries; nothing can be read behind it.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// It ends within a field.
    #[error("the body ends within an entry")]
    Short,
    /// What should be a field is none.
    #[error("a field has no name that the journal knows")]
    Name,
    /// A value does not end where its length says.
    #[error("a value does not end where its length says")]
    Length,
    /// The reader failed.
    #[error("the body cannot be read: {0}")]
    Read(#[from] io::Error),
}

/// The fields of an entry, as they are written.
#[derive(Debug, PartialEq)]
pub struct Entry<'a> {
    /// Names and values in their order; a name may come more than once.
    pub fields: Vec<(&'a [u8], &'a [u8])>,
    /// Bytes that a limit cut off.
    pub cut: usize,
}

/// What came.
#[derive(Debug)]
pub enum Read<'a> {
    /// An entry.
    Entry(Entry<'a>),
    /// The end.
    End,
}

/// The entries of a reader.
pub struct Entries<R> {
    reader: R,
    /// The entry that is read: names and values, one behind the other.
    bytes: Vec<u8>,
    fields: Vec<(Range<usize>, Range<usize>)>,
    cut: usize,
}

/// How a line ended.
#[derive(Debug, PartialEq)]
enum Line {
    /// With its newline.
    Whole,
    /// Nothing came any more.
    End,
}

impl<R: BufRead> Entries<R> {
    /// Of a decoded stream.
    pub fn new(reader: R) -> Entries<R> {
        Entries { reader, bytes: Vec::new(), fields: Vec::new(), cut: 0 }
    }

    /// The next entry. One at the end of the stream needs no empty line behind it.
    #[allow(clippy::should_implement_trait)] // an entry borrows from what reads it
    pub fn next(&mut self) -> Result<Read<'_>, ExportError> {
        self.bytes.clear();
        self.fields.clear();
        self.cut = 0;
        loop {
            let start = self.bytes.len();
            let ended = self.line()?;
            let line = &self.bytes[start..];
            if line.is_empty() && (ended == Line::End || !self.fields.is_empty()) {
                break;
            }
            if line.is_empty() {
                continue;
            }
            match memchr::memchr(b'=', line) {
                // A text whose newline is missing may be a part of one.
                _ if ended == Line::End => return Err(ExportError::Short),
                Some(equals) if is_name(&line[..equals]) => {
                    self.keep(start..start + equals, start + equals + 1..self.bytes.len());
                }
                None if is_name(line) => {
                    let name = start..self.bytes.len();
                    let value = self.value()?;
                    self.keep(name, value);
                }
                _ => return Err(ExportError::Name),
            }
        }
        if self.fields.is_empty() {
            return Ok(Read::End);
        }
        let bytes = &self.bytes;
        let fields = self.fields.iter().map(|(name, value)| (&bytes[name.clone()], &bytes[value.clone()])).collect();
        Ok(Read::Entry(Entry { fields, cut: self.cut }))
    }

    fn keep(&mut self, name: Range<usize>, value: Range<usize>) {
        if self.fields.len() < FIELDS_MAX {
            self.fields.push((name, value));
        } else {
            self.cut += value.len();
            self.bytes.truncate(name.start);
        }
    }

    /// Reads a line behind what there is, without its newline, as far as there is room for it.
    fn line(&mut self) -> Result<Line, ExportError> {
        loop {
            let came = match self.reader.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                came => came?,
            };
            if came.is_empty() {
                return Ok(Line::End);
            }
            let newline = memchr::memchr(b'\n', came);
            let length = newline.unwrap_or(came.len());
            let kept = length.min((ENTRY_BYTES_MAX + NAME_BYTES_MAX).saturating_sub(self.bytes.len()));
            self.bytes.extend_from_slice(&came[..kept]);
            self.cut += length - kept;
            self.reader.consume(length + usize::from(newline.is_some()));
            if newline.is_some() {
                return Ok(Line::Whole);
            }
        }
    }

    /// Reads a value behind its name: its length, itself, a newline.
    fn value(&mut self) -> Result<Range<usize>, ExportError> {
        let mut length = [0; 8];
        self.exact(&mut length)?;
        let mut left = u64::from_le_bytes(length);
        let start = self.bytes.len();
        while left > 0 {
            let came = match self.reader.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                came => came?,
            };
            if came.is_empty() {
                return Err(ExportError::Short);
            }
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(came.len());
            let kept = length.min(ENTRY_BYTES_MAX.saturating_sub(self.bytes.len()));
            self.bytes.extend_from_slice(&came[..kept]);
            self.cut += length - kept;
            self.reader.consume(length);
            left -= length as u64;
        }
        let mut newline = [0];
        self.exact(&mut newline)?;
        if newline == *b"\n" { Ok(start..self.bytes.len()) } else { Err(ExportError::Length) }
    }

    fn exact(&mut self, bytes: &mut [u8]) -> Result<(), ExportError> {
        self.reader.read_exact(bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => ExportError::Short,
            _ => ExportError::Read(error),
        })
    }
}

/// Letters, digits and underscores, as journald has it; others are let pass as long as nothing in them is a control
/// character, since some field may be called so one day.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.iter().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Fields = Vec<(String, Vec<u8>)>;

    fn all(bytes: &[u8]) -> (Vec<(Fields, usize)>, Option<ExportError>) {
        let (mut entries, mut all) = (Entries::new(bytes), Vec::new());
        loop {
            match entries.next() {
                Ok(Read::Entry(Entry { fields, cut })) => {
                    let own =
                        |(name, value): &(&[u8], &[u8])| (String::from_utf8_lossy(name).into_owned(), value.to_vec());
                    all.push((fields.iter().map(own).collect(), cut));
                }
                Ok(Read::End) => return (all, None),
                Err(error) => return (all, Some(error)),
            }
        }
    }

    fn write(entries: &[Fields]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for fields in entries {
            for (name, value) in fields {
                bytes.extend_from_slice(name.as_bytes());
                if value.iter().all(|byte| *byte >= b' ') && std::str::from_utf8(value).is_ok() {
                    bytes.push(b'=');
                } else {
                    bytes.push(b'\n');
                    bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
                }
                bytes.extend_from_slice(value);
                bytes.push(b'\n');
            }
            bytes.push(b'\n');
        }
        bytes
    }

    #[test]
    fn lengths_that_lie_and_names_that_are_none() {
        let huge = [b"A=1\n\nM\n".as_slice(), &u64::MAX.to_le_bytes(), b"abc"].concat();
        for (bytes, entries, said) in [
            (&huge[..], 1, "the body ends within an entry"),
            (b"M\n\x01\0\0\0\0\0\0\0abc\n\n", 0, "a value does not end where its length says"),
            (b"M\n\x01\0\0", 0, "the body ends within an entry"),
            (b"A=1\nwith space\n", 0, "a field has no name that the journal knows"),
            (b"=x\n", 0, "a field has no name that the journal knows"),
            (b"A=1", 0, "the body ends within an entry"),
        ] {
            let (all, error) = all(bytes);
            assert_eq!(
                (all.len(), error.map(|error| error.to_string()).as_deref()),
                (entries, Some(said)),
                "{bytes:?}"
            );
        }
        assert_eq!(all(b"\n\n\nA=1\n\n\n\nB=\n").0.len(), 2);
    }

    #[test]
    fn what_is_over_a_limit_is_passed_over_and_the_rest_goes_on() {
        let long = vec![0xffu8; 3 * ENTRY_BYTES_MAX];
        let text = vec![b'x'; 2 * ENTRY_BYTES_MAX];
        let entries = [
            vec![("M".to_owned(), long), ("B".to_owned(), b"kept".to_vec())],
            vec![("T".to_owned(), text)],
            vec![("C".to_owned(), b"after".to_vec())],
        ];
        let (read, error) = all(&write(&entries));
        assert!(error.is_none() && read.len() == 3, "{error:?}");
        assert!(read[0].1 > ENTRY_BYTES_MAX && read[0].0[0].1.len() <= ENTRY_BYTES_MAX);
        assert!(read[1].1 > 0 && read[2] == (vec![("C".into(), b"after".to_vec())], 0));
        let many = vec![(0..2000).map(|n| (format!("F{n}"), b"v".to_vec())).collect::<Fields>()];
        let (read, _) = all(&write(&many));
        assert_eq!((read[0].0.len(), read[0].1), (FIELDS_MAX, 2000 - FIELDS_MAX));
    }

    proptest! {
        /// What is written is read again, however few bytes come at a time.
        #[test]
        fn entries_come_back(entries in prop::collection::vec(prop::collection::vec(("[A-Z_]{1,9}", any::<Vec<u8>>()), 1..5), 0..4), at_once in 1usize..9) {
            let written = write(&entries);
            let expected: Vec<_> = entries.iter().cloned().map(|fields| (fields, 0)).collect();
            prop_assert_eq!(&all(&written).0, &expected);
            let mut slow = Entries::new(io::BufReader::with_capacity(at_once, &*written));
            let mut count = 0;
            while let Ok(Read::Entry(_)) = slow.next() {
                count += 1;
            }
            prop_assert_eq!(count, expected.len());
        }
    }
}
