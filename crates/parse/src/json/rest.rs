//! Finds the members of an object that come after the place where the limit cuts its line.
//!
//! Programs that write their members by the alphabet write the time last. So the rest of the line, which is not kept, is
//! scanned for short members: they become fields as if they had stood within the limit. The scan needs no memory but for
//! those members, however long the line is. A text that is not an object is not scanned.

use memchr::memchr2;
use serde_json::value::RawValue;

/// Bytes of all members that are taken from the rest of a line.
const REST_BYTES_MAX: usize = 64 << 10;
/// The mark that may stand before the first line of a file.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// What a line over the limit has behind its cut, if the line is an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRest {
    /// The whole members behind the cut, as an object.
    pub(crate) object: Box<str>,
    /// The offset of the member in which the cut is.
    pub(crate) cut_member: usize,
}

/// The scan of one line, which is given piece by piece.
#[derive(Clone, Debug, Default)]
pub struct RestScanner {
    place: Place,
    depth: usize,
    is_escaped: bool,
    /// Bytes that were scanned.
    scanned: usize,
    /// The offset of the current member, and whether anything of it was scanned.
    member: (usize, bool),
    /// The offset of the member in which the line was cut.
    cut_member: Option<usize>,
    /// Whether the current member is left out: it began before the cut, or the members are too long.
    is_left_out: bool,
    /// The members behind the cut, and behind the last comma the current one.
    taken: Vec<u8>,
    /// The bytes of the members that are whole.
    whole: usize,
}

/// Where a scan is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Before,
    Outside,
    InString,
    Behind,
    NoObject,
}

impl RestScanner {
    /// Scans the next bytes of the line.
    pub fn scan(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if self.scanned == 0 {
            rest = rest.strip_prefix(BYTE_ORDER_MARK).unwrap_or(rest);
            self.scanned = bytes.len() - rest.len();
        }
        while !rest.is_empty() && self.place != Place::NoObject {
            let length = self.step(rest);
            self.scanned += length;
            rest = &rest[length..];
        }
    }

    /// The line is cut here: what is scanned from now on is not kept.
    pub fn cut(&mut self) {
        self.is_left_out = self.member.1;
        self.cut_member = Some(self.member.0);
    }

    /// What is behind the cut, once the line was scanned to its end.
    pub fn finish(mut self) -> Option<ObjectRest> {
        let cut_member =
            self.cut_member.filter(|_| matches!(self.place, Place::Outside | Place::InString | Place::Behind))?;
        self.taken.truncate(self.whole);
        let object = format!("{{{}}}", String::from_utf8_lossy(&self.taken));
        let is_read = serde_json::from_str::<&RawValue>(&object).is_ok();
        let object = if is_read { object } else { "{}".into() };
        Some(ObjectRest { object: object.into(), cut_member })
    }

    /// Scans at least one byte, and returns how many.
    fn step(&mut self, bytes: &[u8]) -> usize {
        let first = bytes[0];
        match self.place {
            Place::Before if first.is_ascii_whitespace() => 1,
            Place::Before if first == b'{' => {
                (self.place, self.depth, self.member) = (Place::Outside, 1, (self.scanned + 1, false));
                1
            }
            Place::InString if std::mem::take(&mut self.is_escaped) => self.take(&bytes[..1]),
            Place::InString => {
                let end = memchr2(b'"', b'\\', bytes);
                match end.map(|end| bytes[end]) {
                    Some(b'"') => self.place = Place::Outside,
                    Some(_) => self.is_escaped = true,
                    None => {}
                }
                self.take(&bytes[..end.map_or(bytes.len(), |end| end + 1)])
            }
            Place::Outside => self.step_outside(bytes),
            Place::Behind if first.is_ascii_whitespace() => 1,
            Place::Before | Place::Behind | Place::NoObject => {
                self.place = Place::NoObject;
                1
            }
        }
    }

    fn step_outside(&mut self, bytes: &[u8]) -> usize {
        let is_plain = |byte: &&u8| !matches!(byte, b'"' | b'{' | b'[' | b'}' | b']' | b',');
        let plain = bytes.iter().take_while(is_plain).count();
        if plain > 0 {
            return self.take(&bytes[..plain]);
        }
        match bytes[0] {
            b',' | b'}' if self.depth == 1 => {
                self.end_member();
                if bytes[0] == b'}' {
                    self.place = Place::Behind;
                }
                return 1;
            }
            b'"' => self.place = Place::InString,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.take(&bytes[..1])
    }

    /// Takes bytes of the current member, and returns how many they are.
    fn take(&mut self, bytes: &[u8]) -> usize {
        self.member.1 |= !bytes.trim_ascii().is_empty();
        if self.cut_member.is_some() && !self.is_left_out {
            if self.taken.len() + bytes.len() > REST_BYTES_MAX {
                self.taken.truncate(self.whole);
                self.is_left_out = true;
            } else {
                self.taken.extend_from_slice(bytes);
            }
        }
        bytes.len()
    }

    fn end_member(&mut self) {
        if self.cut_member.is_some() && !std::mem::take(&mut self.is_left_out) && self.member.1 {
            self.whole = self.taken.len();
            self.taken.push(b',');
        }
        self.member = (self.scanned + 1, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rest(line: &str, cut: usize, piece: usize) -> Option<ObjectRest> {
        let mut scanner = RestScanner::default();
        let (kept, cut_off) = line.as_bytes().split_at(cut);
        kept.chunks(piece).for_each(|piece| scanner.scan(piece));
        scanner.cut();
        cut_off.chunks(piece).for_each(|piece| scanner.scan(piece));
        scanner.finish()
    }

    #[test]
    fn members_behind_the_cut() {
        let long = "x".repeat(REST_BYTES_MAX);
        for (line, cut, expected) in [
            (r#"{"a":"xxxx","b":1,"c":{"d":[1,"}"]}}"#.to_owned(), 7, Some((1, r#"{"b":1,"c":{"d":[1,"}"]}}"#))),
            (r#"{"a":"x\",\"z\":\"1","b":1} "#.to_owned(), 7, Some((1, r#"{"b":1}"#))),
            (r#"{"a":1,"b":{"x":1,"y":2},"c":3}"#.to_owned(), 14, Some((7, r#"{"c":3}"#))),
            (r#"{"a":1,"b":2}"#.to_owned(), 7, Some((7, r#"{"b":2}"#))),
            (r#"{"a":"xxxxx"#.to_owned(), 7, Some((1, "{}"))),
            (r#"{"a":"xxxx","b":1}{"c":1}"#.to_owned(), 7, None),
            (r#"{"a":"xxxx",b,"c":1}"#.to_owned(), 7, Some((1, "{}"))),
            (format!(r#"{{"a":"xxxx","b":"{long}","c":3}}"#), 7, Some((1, r#"{"c":3}"#))),
            ("words, \"a\":1}".to_owned(), 3, None),
        ] {
            for piece in [1, 3, 1 << 20] {
                let found = rest(&line, cut, piece);
                let found = found.as_ref().map(|rest| (rest.cut_member, &*rest.object));
                assert_eq!(found, expected, "{} in pieces of {piece}", &line[..line.len().min(60)]);
            }
        }
    }

    proptest! {
        /// However the bytes come in pieces, the members are the same, and they are an object.
        #[test]
        fn pieces_do_not_matter(line in r#"\{("[a,}\\"]{0,3}":|[1,{}\[\]"\\ ]|"b":"x",){0,12}"#, cut in 0usize..20, piece in 1usize..9) {
            let found = rest(&line, cut.min(line.len()), piece);
            prop_assert_eq!(&found, &rest(&line, cut.min(line.len()), 100));
            if let Some(rest) = found {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&rest.object).is_ok_and(|object| object.is_object()) || rest.object.contains("\\u"));
            }
        }
    }
}
