//! The [journal export format](https://systemd.io/JOURNAL_EXPORT_FORMATS/): bytes of a pipe or of a request become entries.
//!
//! ```text
//! __CURSOR=s=3f…;i=4f2;b=…\n                 NAME=VALUE LF
//! __REALTIME_TIMESTAMP=1763712345678901\n
//! MESSAGE\n                                  NAME LF LENGTH DATA LF, for a value that has newlines or is not a text:
//! \x09\0\0\0\0\0\0\0two\nlines\n             its length in 8 bytes before it, little-endian
//! \n                                         an empty line ends an entry
//! ```
//!
//! Bytes may come in any pieces. The memory is bounded by one entry of the limit, whatever lengths are announced. Bytes beyond
//! the limit are skipped and counted in [`JournalEntry::cut`]. Malformed bytes end the stream ([`Malformed`]), because the beginning
//! of the next entry is unknown. Earlier entries were passed on already.

use memchr::{memchr, memchr2};
use std::ops::Range;

/// The fields by which an entry is known: the journal alone writes them.
const ADDRESSES: [&[u8]; 3] = [b"__CURSOR", b"__REALTIME_TIMESTAMP", b"__MONOTONIC_TIMESTAMP"];
/// The bytes of a field's name. The journal itself allows 64.
const NAME_BYTES_MAX: usize = 256;
/// The number of fields of an entry.
const FIELDS_MAX: usize = 1024;
/// The bytes of memory that are kept between two entries.
const HELD_BYTES: usize = 64 << 10;

/// The bytes are not entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A line is neither a field nor the name of a field.
    #[error("a line is neither NAME=VALUE nor a field's name")]
    Name,
    /// A value is longer than its length says.
    #[error("no newline follows a value of the announced length")]
    Length,
    /// The stream ends within a field.
    #[error("it ends within a field")]
    CutShort,
}

/// An entry.
#[derive(Clone, Copy, Debug)]
pub struct JournalEntry<'a> {
    bytes: &'a [u8],
    fields: &'a [Span],
    /// The number of skipped bytes: beyond the limit, or of fields with an invalid name.
    pub cut: usize,
    /// The number of the field whose value the limit cut in two.
    pub halved: Option<usize>,
}

impl<'a> JournalEntry<'a> {
    /// The fields in their order, with the fields of the journal itself (`__CURSOR`). A name can occur twice.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        let bytes = self.bytes;
        // Only ASCII names were kept.
        self.fields
            .iter()
            .map(|span| (str::from_utf8(&bytes[span.name.clone()]).unwrap_or_default(), &bytes[span.value.clone()]))
    }

    /// Whether the limit cut the value of this field in two.
    pub fn is_halved(&self, value: &[u8]) -> bool {
        let span = self.halved.and_then(|number| self.fields.get(number));
        span.is_some_and(|span| std::ptr::eq(&self.bytes[span.value.clone()], value))
    }

    /// The first field of this name.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        self.fields().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// The bytes of the names and values, with skipped bytes.
    pub fn bytes(&self) -> u64 {
        (self.bytes.len() + self.cut) as u64
    }

    /// The first field of this name, if its value is text.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        str::from_utf8(self.field(name)?).ok()
    }
}

/// The place of a field in the bytes of its entry.
#[derive(Clone, Debug)]
struct Span {
    name: Range<usize>,
    value: Range<usize>,
}

/// Cuts a stream into entries.
#[derive(Debug)]
pub struct JournalParser {
    /// The bytes of the incomplete entry.
    bytes: Vec<u8>,
    fields: Vec<Span>,
    cut: usize,
    /// The number of the field whose value the limit cut in two.
    halved: Option<usize>,
    state: EntriesState,
    entry_bytes_max: usize,
    /// The number of entries of which no field has a valid name. They are skipped.
    without_fields: u64,
}

#[derive(Clone, Debug)]
enum EntriesState {
    /// A line that begins at this place of the bytes, and the place of its `=`.
    Line { start: usize, equals: Option<usize> },
    /// The length of a value, of which `came` bytes arrived.
    Length { name: Range<usize>, bytes: [u8; 8], came: usize },
    /// A value of which `left` bytes are missing.
    Value { name: Range<usize>, start: usize, left: u64 },
    /// Every further byte is refused.
    Broken(Malformed),
}

impl JournalParser {
    /// A parser at the start of a stream. An entry is cut after `entry_bytes_max` bytes, names excluded.
    pub fn new(entry_bytes_max: usize) -> JournalParser {
        let state = EntriesState::Line { start: 0, equals: None };
        let fields = Vec::new();
        JournalParser { bytes: Vec::new(), fields, cut: 0, halved: None, state, entry_bytes_max, without_fields: 0 }
    }

    /// Calls `each` for every entry that these bytes complete.
    ///
    /// # Errors
    ///
    /// The bytes are malformed. Every further call returns the same error.
    pub fn feed(&mut self, input: &[u8], mut each: impl FnMut(JournalEntry<'_>)) -> Result<(), Malformed> {
        let mut rest = input;
        while !rest.is_empty() {
            let fed = match &self.state {
                EntriesState::Line { start, equals } => {
                    let (start, equals) = (*start, *equals);
                    self.line(rest, start, equals, &mut each)
                }
                EntriesState::Length { .. } => Ok(self.length(rest)),
                EntriesState::Value { .. } => self.value(rest),
                EntriesState::Broken(error) => Err(*error),
            };
            rest = fed.inspect_err(|error| self.state = EntriesState::Broken(*error))?;
        }
        Ok(())
    }

    /// Calls `each` for the last entry at the end of the stream. The empty line after the entry may be missing.
    ///
    /// # Errors
    ///
    /// The stream ends within a field.
    pub fn finish(&mut self, each: impl FnMut(JournalEntry<'_>)) -> Result<(), Malformed> {
        match &self.state {
            EntriesState::Line { start, .. } if *start == self.bytes.len() => {
                self.give(each);
                Ok(())
            }
            EntriesState::Broken(error) => Err(*error),
            _ => Err(Malformed::CutShort),
        }
    }

    /// The number of entries that were skipped since this was asked last, because no field of theirs has a valid name.
    pub fn take_without_fields(&mut self) -> u64 {
        std::mem::take(&mut self.without_fields)
    }

    /// Whether no entry is incomplete.
    pub fn is_between(&self) -> bool {
        matches!(self.state, EntriesState::Line { start: 0, .. }) && self.bytes.is_empty() && self.fields.is_empty()
    }

    /// The memory of an incomplete entry, in bytes.
    pub fn held(&self) -> usize {
        self.bytes.capacity() + self.fields.capacity() * size_of::<Span>()
    }

    fn line<'i>(
        &mut self,
        input: &'i [u8],
        start: usize,
        equals: Option<usize>,
        each: &mut impl FnMut(JournalEntry<'_>),
    ) -> Result<&'i [u8], Malformed> {
        let end = memchr(b'\n', input);
        let (piece, rest) = end.map_or((input, &[][..]), |end| (&input[..end], &input[end + 1..]));
        let equals = equals.or_else(|| memchr(b'=', piece).map(|at| self.bytes.len() + at));
        // A name is kept even beyond the limit, because a value needs its name.
        let of_name = equals.map_or(piece.len(), |equals| (equals + 1).saturating_sub(self.bytes.len()));
        let (name, value) = piece.split_at(of_name.min(piece.len()));
        self.bytes.extend_from_slice(name);
        if equals.unwrap_or(self.bytes.len()) - start > NAME_BYTES_MAX {
            return Err(Malformed::Name);
        }
        self.keep(value);
        if end.is_none() {
            self.state = EntriesState::Line { start, equals };
            return Ok(rest);
        }
        match equals {
            Some(equals) => self.add(Span { name: start..equals, value: equals + 1..self.bytes.len() }),
            None if self.bytes.len() == start => self.give(each),
            None if is_name(&self.bytes[start..]) => {
                let name = start..self.bytes.len();
                self.state = EntriesState::Length { name, bytes: [0; 8], came: 0 };
                return Ok(rest);
            }
            None => return Err(Malformed::Name),
        }
        self.state = EntriesState::Line { start: self.bytes.len(), equals: None };
        Ok(rest)
    }

    fn length<'i>(&mut self, input: &'i [u8]) -> &'i [u8] {
        let EntriesState::Length { name, bytes, came } = &mut self.state else { return input };
        let (piece, rest) = input.split_at(input.len().min(bytes.len() - *came));
        bytes[*came..*came + piece.len()].copy_from_slice(piece);
        *came += piece.len();
        if *came == bytes.len() {
            let (name, left) = (name.clone(), u64::from_le_bytes(*bytes));
            self.state = EntriesState::Value { name, start: self.bytes.len(), left };
        }
        rest
    }

    fn value<'i>(&mut self, input: &'i [u8]) -> Result<&'i [u8], Malformed> {
        let EntriesState::Value { name, start, left } = &mut self.state else { return Ok(input) };
        if *left > 0 {
            let length = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
            *left -= length as u64;
            let (piece, rest) = input.split_at(length);
            self.keep(piece);
            return Ok(rest);
        }
        let (name, start) = (name.clone(), *start);
        let rest = input.strip_prefix(b"\n").ok_or(Malformed::Length)?;
        self.add(Span { name, value: start..self.bytes.len() });
        self.state = EntriesState::Line { start: self.bytes.len(), equals: None };
        Ok(rest)
    }

    /// Keeps the bytes up to the limit, and counts further bytes.
    fn keep(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(self.entry_bytes_max.saturating_sub(self.bytes.len()));
        self.bytes.extend_from_slice(&bytes[..kept]);
        self.cut += bytes.len() - kept;
        if kept < bytes.len() {
            // Of the fields after this one nothing is kept.
            self.halved.get_or_insert(self.fields.len());
        }
    }

    /// Adds a complete field. Skips a field beyond the limit, or with an invalid name.
    fn add(&mut self, span: Span) {
        if self.fields.len() < FIELDS_MAX && is_name(&self.bytes[span.name.clone()]) {
            self.fields.push(span);
        } else {
            self.cut += span.value.end - span.name.start;
            self.bytes.truncate(span.name.start);
        }
    }

    /// Passes the entry on unless it is empty, and begins the next entry.
    fn give(&mut self, mut each: impl FnMut(JournalEntry<'_>)) {
        if !self.fields.is_empty() {
            each(JournalEntry { bytes: &self.bytes, fields: &self.fields, cut: self.cut, halved: self.halved });
        } else if self.cut > 0 {
            self.without_fields += 1;
        }
        (self.cut, self.halved) = (0, None);
        self.fields.clear();
        self.bytes.clear();
        self.bytes.shrink_to(HELD_BYTES);
        self.state = EntriesState::Line { start: 0, equals: None };
    }
}

/// Whether a file with this beginning is an export: fields in any order, up to one that the journal alone writes.
pub fn is_export(beginning: &[u8]) -> bool {
    let mut rest = beginning;
    loop {
        let Some(end) = memchr2(b'=', b'\n', rest) else { return false };
        let (name, value) = (&rest[..end], &rest[end + 1..]);
        if !is_name(name) {
            return false;
        }
        let after = if rest[end] == b'=' {
            if ADDRESSES.contains(&name) {
                return true;
            }
            memchr(b'\n', value).map(|end| &value[end..])
        } else {
            let binary = value.split_first_chunk::<8>();
            binary.and_then(|(length, value)| value.get(usize::try_from(u64::from_le_bytes(*length)).ok()?..))
        };
        match after {
            Some([b'\n', next @ ..]) => rest = next,
            _ => return false,
        }
    }
}

/// Whether these bytes are a valid name of a field.
fn is_name(bytes: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    !bytes.is_empty() && bytes.len() <= NAME_BYTES_MAX && bytes.iter().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Fields = Vec<(String, Vec<u8>)>;

    /// Entries, what was cut of each, and how it ended.
    fn read(bytes: &[u8], pieces: usize, limit: usize) -> (Vec<(Fields, usize)>, Result<(), Malformed>) {
        let (mut entries, mut all) = (JournalParser::new(limit), Vec::new());
        let mut note = |entry: JournalEntry<'_>| {
            let fields = entry.fields().map(|(name, value)| (name.to_owned(), value.to_vec()));
            all.push((fields.collect(), entry.cut));
        };
        let fed = bytes.chunks(pieces.max(1)).try_for_each(|piece| entries.feed(piece, &mut note));
        let ended = fed.and_then(|()| entries.finish(&mut note));
        (all, ended)
    }

    fn binary(name: &str, value: &[u8]) -> Vec<u8> {
        [name.as_bytes(), b"\n", &(value.len() as u64).to_le_bytes(), value, b"\n"].concat()
    }

    #[test]
    fn an_export_is_known_by_a_field_of_the_journal_itself() {
        for (bytes, expected) in [
            (b"__CURSOR=s=1;i=2\n".to_vec(), true),
            (b"_HOSTNAME=a\nMESSAGE=b\n__REALTIME_TIMESTAMP=1\n".to_vec(), true),
            ([binary("MESSAGE", b"a\nb"), b"__CURSOR=".to_vec()].concat(), true),
            (b"PATH=/bin\nHOME=/\n".to_vec(), false),
            (b"MESSAGE=a\n\n__CURSOR=s=1\n".to_vec(), false),
            (b"A\n\xff\xff\xff\xff\xff\xff\xff\xff\n__CURSOR=".to_vec(), false),
            (b"words\n__CURSOR=s=1\n".to_vec(), false),
            (b"__CURSOR".to_vec(), false),
            (Vec::new(), false),
        ] {
            assert_eq!(is_export(&bytes), expected, "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn both_forms_of_a_field() {
        let bytes = [
            b"\n\n__CURSOR=s=1;i=2\nMESSAGE=\n_PID=7\n".to_vec(),
            binary("MESSAGE", b"two\nlines=\0\xff"),
            binary("EMPTY", b""),
            b"\n\nA=1\nB==2".to_vec(),
            b"\n".to_vec(),
        ]
        .concat();
        for pieces in [1, 2, 7, bytes.len()] {
            let (all, ended) = read(&bytes, pieces, 1000);
            assert_eq!(ended, Ok(()));
            let field = |name: &str, value: &[u8]| (name.to_owned(), value.to_vec());
            let first = vec![
                field("__CURSOR", b"s=1;i=2"),
                field("MESSAGE", b""),
                field("_PID", b"7"),
                field("MESSAGE", b"two\nlines=\0\xff"),
                field("EMPTY", b""),
            ];
            assert_eq!(all, [(first, 0), (vec![field("A", b"1"), field("B", b"=2")], 0)], "{pieces}");
        }
    }

    #[test]
    fn malformed_bytes_end_the_stream_after_the_entries_before() {
        let long = "A".repeat(NAME_BYTES_MAX + 1);
        for (behind, error) in [
            (b"hello world\n".to_vec(), Malformed::Name),
            (b"{\"MESSAGE\":1}\n".to_vec(), Malformed::Name),
            (long.clone().into_bytes(), Malformed::Name),
            (format!("{long}=1\n").into_bytes(), Malformed::Name),
            (b"A\n\x01\0\0\0\0\0\0\0ab\n".to_vec(), Malformed::Length),
            (b"A\n\x05\0\0\0\0\0\0\0ab\n".to_vec(), Malformed::CutShort),
            (b"A\n\xff\xff\xff\xff\xff\xff\xff\xffab\n".to_vec(), Malformed::CutShort),
            (b"A\n\x01".to_vec(), Malformed::CutShort),
            (b"A=1\nB".to_vec(), Malformed::CutShort),
        ] {
            for pieces in [1, 1000] {
                let (all, ended) = read(&[b"WHOLE=1\n\n", &behind[..]].concat(), pieces, 1000);
                assert_eq!((all.len(), ended), (1, Err(error)), "{}", String::from_utf8_lossy(&behind));
            }
        }
        let mut entries = JournalParser::new(100);
        assert_eq!(entries.feed(b"x\nA=1\n\n", |_| panic!("no entry")), Err(Malformed::Name));
        assert_eq!(entries.feed(b"A=1\n\n", |_| panic!("no entry")), Err(Malformed::Name));
    }

    #[test]
    fn bytes_beyond_a_limit_are_counted_and_the_next_entry_is_complete() {
        let long = vec![b'x'; 5000];
        let bytes = [&b"A="[..], &long, b"\n", &binary("B", &long), b"C=1\n\nA=1\n\n"].concat();
        for pieces in [1, 100, bytes.len()] {
            let (all, ended) = read(&bytes, pieces, 1000);
            assert_eq!((all.len(), ended), (2, Ok(())));
            let (fields, cut) = &all[0];
            let lengths: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.len())).collect();
            assert_eq!(lengths, [("A", 998), ("B", 0), ("C", 0)]);
            assert_eq!((*cut, all[1].1), (5000 - 998 + 5000 + 1, 0));
        }
        let many: String = (0..FIELDS_MAX + 2).map(|n| format!("F{n}=1\n")).collect();
        let (all, _) = read(format!("{many}lower=1\n\n").as_bytes(), 64, 1 << 20);
        assert_eq!((all[0].0.len(), all[0].1), (FIELDS_MAX, 2 * "F1024=1".len() + "lower=1".len()));
    }

    proptest! {
        /// Entries are read back unchanged, in pieces of any size.
        #[test]
        fn entries_come_back(
            written in prop::collection::vec(
                prop::collection::vec(("[A-Z_][A-Z0-9_]{0,5}", prop::collection::vec(any::<u8>(), 0..20)), 1..6), 0..5),
            pieces in 1usize..40,
        ) {
            let mut bytes = Vec::new();
            for fields in &written {
                for (name, value) in fields {
                    if value.contains(&b'\n') {
                        bytes.extend(binary(name, value));
                    } else {
                        bytes.extend([name.as_bytes(), b"=", value, b"\n"].concat());
                    }
                }
                bytes.push(b'\n');
            }
            let (all, ended) = read(&bytes, pieces, 1 << 20);
            prop_assert_eq!(ended, Ok(()));
            let all: Vec<Fields> = all.into_iter().map(|(fields, _)| fields).collect();
            prop_assert_eq!(all, written);
        }
    }
}
