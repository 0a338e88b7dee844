//! Bytes of a connection become messages, by octet counting or lines
//! ([RFC 6587, 3.4](https://www.rfc-editor.org/rfc/rfc6587#section-3.4)). Each message can use either method.
//!
//! ```text
//! 43 <6>Sep 10 00:00:00 localhost logger: hello!     MSG-LEN SP MSG
//! <6>Sep 10 00:00:00 localhost logger: hello!\n      a line, which a NUL ends as well
//! ```
//!
//! A count must be followed by a whole priority, because a line can begin with a number. The bytes of a message beyond the limit
//! are skipped up to its announced end, so the next message begins at the right place. If a count is too small, the rest of
//! its message becomes a record of its own, up to the next count. The memory is bounded by one message of the limit.

use memchr::memchr3;

/// The digits of a count. More digits begin a line.
const COUNT_DIGITS_MAX: usize = 8;
/// The bytes of memory that are kept between two messages.
const HELD_BYTES: usize = 4 << 10;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyslogMessage<'a> {
    /// The bytes, up to the limit.
    pub bytes: &'a [u8],
    /// The number of further bytes that came or were announced.
    pub cut: usize,
}

/// The messages of a connection.
#[derive(Debug, Default)]
pub struct Framer {
    /// The bytes of the incomplete message.
    partial: Vec<u8>,
    state: FramerState,
    /// Whether the previous message had a count.
    was_counted: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FramerState {
    /// The method of the next message is unknown.
    #[default]
    Between,
    /// A message with a count, of which this many bytes are missing.
    Counted { left: usize, cut: usize },
    /// A line up to the next newline or NUL. `is_rest` if it may be the rest of a message whose count was too small.
    Line { cut: usize, is_rest: bool },
}

/// The beginning of a message.
#[derive(Debug, PartialEq, Eq)]
enum Head {
    /// More bytes are needed.
    Open,
    /// A header of this many bytes, with the length of the message.
    Counted {
        header: usize,
        length: usize,
    },
    Line,
}

/// Reads `MSG-LEN SP <PRI>`.
fn head(bytes: &[u8]) -> Head {
    let digits = bytes.iter().take(COUNT_DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_digit()).count();
    if digits > COUNT_DIGITS_MAX || digits == 0 && !bytes.is_empty() || bytes.first() == Some(&b'0') {
        return Head::Line;
    }
    let length = bytes[..digits].iter().fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    let header = digits + 1;
    for (at, expected) in [b' ', b'<'].into_iter().enumerate() {
        match bytes.get(digits + at) {
            None => return Head::Open,
            Some(byte) if *byte == expected => {}
            Some(_) => return Head::Line,
        }
    }
    let priority = bytes[header + 1..].iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    match bytes.get(header + 1 + priority) {
        None if priority <= 3 => Head::Open,
        Some(b'>') if (1..=3).contains(&priority) && length >= priority + 2 => Head::Counted { header, length },
        _ => Head::Line,
    }
}

/// A datagram without the count that some senders put before it as in a stream. The count must be that of its bytes.
pub(super) fn without_count(datagram: &[u8]) -> &[u8] {
    match head(datagram) {
        Head::Counted { header, length } if [datagram.len(), trimmed(datagram).len()].contains(&(header + length)) => {
            &datagram[header..]
        }
        _ => datagram,
    }
}

fn is_end(byte: u8) -> bool {
    matches!(byte, b'\n' | 0)
}

/// A line without its end.
pub(super) fn trimmed(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r' | 0)).map_or(0, |last| last + 1);
    &bytes[..end]
}

impl Framer {
    /// Calls `each` for every message that these bytes complete. A message is cut after `limit` bytes.
    pub fn feed(&mut self, input: &[u8], limit: usize, mut each: impl FnMut(SyslogMessage<'_>)) {
        let mut rest = input;
        while !rest.is_empty() {
            rest = match self.state {
                FramerState::Between => self.begin(rest),
                FramerState::Counted { left, cut } => self.counted(rest, left, cut, limit, &mut each),
                FramerState::Line { cut, is_rest: false } => self.line(rest, cut, limit, &mut each),
                FramerState::Line { cut, is_rest: true } => self.rest(rest, cut, limit, &mut each),
            };
        }
    }

    /// Calls `each` for an incomplete message at the end of the connection. Missing bytes count as cut.
    pub fn finish(&mut self, limit: usize, mut each: impl FnMut(SyslogMessage<'_>)) {
        let missing = match self.state {
            FramerState::Counted { left, cut } => left + cut,
            FramerState::Between => 0,
            FramerState::Line { cut, .. } => cut,
        };
        self.give(missing, limit, &mut each);
    }

    /// The memory of an incomplete message, in bytes.
    pub fn held(&self) -> usize {
        self.partial.capacity()
    }

    /// Finds the method of the next message. A head that came in pieces is in `partial`.
    fn begin<'a>(&mut self, input: &'a [u8]) -> &'a [u8] {
        if self.partial.is_empty() {
            match input.iter().position(|byte| !matches!(byte, b'\n' | b'\r' | 0)) {
                None => return &[],
                Some(0) => {}
                Some(at) => return &input[at..],
            }
            return match head(input) {
                Head::Open => {
                    self.partial.extend_from_slice(input);
                    &[]
                }
                Head::Counted { header, length } => {
                    self.state = FramerState::Counted { left: length, cut: 0 };
                    &input[header..]
                }
                Head::Line => {
                    self.state = FramerState::Line { cut: 0, is_rest: self.was_counted && input[0] != b'<' };
                    input
                }
            };
        }
        let (byte, rest) = (input[0], &input[1..]);
        self.partial.push(byte);
        match head(&self.partial) {
            Head::Open => rest,
            Head::Counted { header, length } => {
                self.partial.drain(..header);
                self.state = FramerState::Counted { left: length - self.partial.len(), cut: 0 };
                rest
            }
            Head::Line => {
                self.partial.pop();
                self.state = FramerState::Line { cut: 0, is_rest: self.was_counted };
                input
            }
        }
    }

    fn counted<'a>(
        &mut self,
        input: &'a [u8],
        left: usize,
        cut: usize,
        limit: usize,
        each: &mut impl FnMut(SyslogMessage<'_>),
    ) -> &'a [u8] {
        let (piece, rest) = input.split_at(left.min(input.len()));
        self.was_counted = true;
        let left = left - piece.len();
        self.piece(piece, left == 0, cut, limit, |cut| FramerState::Counted { left, cut }, each);
        rest
    }

    fn line<'a>(
        &mut self,
        input: &'a [u8],
        cut: usize,
        limit: usize,
        each: &mut impl FnMut(SyslogMessage<'_>),
    ) -> &'a [u8] {
        let end = memchr3(b'\n', 0, 0, input);
        let (piece, rest) = end.map_or((input, &[][..]), |end| (&input[..end], &input[end + 1..]));
        self.was_counted = false;
        self.piece(piece, end.is_some(), cut, limit, |cut| FramerState::Line { cut, is_rest: false }, each);
        rest
    }

    /// Emits a message that ends with `piece`, or keeps the piece. A message that lies whole in the input is not copied.
    fn piece(
        &mut self,
        piece: &[u8],
        is_end: bool,
        cut: usize,
        limit: usize,
        unfinished: impl FnOnce(usize) -> FramerState,
        each: &mut impl FnMut(SyslogMessage<'_>),
    ) {
        if self.partial.is_empty() && cut == 0 && is_end {
            self.state = FramerState::Between;
            let kept = piece.len().min(limit);
            return emit(&piece[..kept], piece.len() - kept, each);
        }
        let cut = cut + self.keep(piece, limit);
        match is_end {
            true => self.give(cut, limit, each),
            false => self.state = unfinished(cut),
        }
    }

    /// A line that may be the rest of a message whose count was too small. A count ends it, too. Rare, so byte by byte.
    fn rest<'a>(
        &mut self,
        input: &'a [u8],
        cut: usize,
        limit: usize,
        each: &mut impl FnMut(SyslogMessage<'_>),
    ) -> &'a [u8] {
        let (byte, rest) = (input[0], &input[1..]);
        if is_end(byte) || self.partial.len() >= limit {
            self.state = FramerState::Line { cut, is_rest: false };
            return input;
        }
        self.partial.push(byte);
        if byte == b'>'
            && let Some((start, header, length)) = announced(&self.partial)
        {
            let behind = self.partial.split_off(start + header);
            self.partial.truncate(start);
            self.give(cut, limit, each);
            self.was_counted = true;
            self.state = FramerState::Counted { left: length - behind.len(), cut: 0 };
            self.partial = behind;
        }
        rest
    }

    /// Keeps the bytes up to the limit, and returns the number of further bytes.
    fn keep(&mut self, bytes: &[u8], limit: usize) -> usize {
        let kept = bytes.len().min(limit.saturating_sub(self.partial.len()));
        self.partial.extend_from_slice(&bytes[..kept]);
        bytes.len() - kept
    }

    /// Passes the message on, and begins the next message.
    fn give(&mut self, cut: usize, limit: usize, each: &mut impl FnMut(SyslogMessage<'_>)) {
        let kept = self.partial.len().min(limit);
        emit(&self.partial[..kept], cut + self.partial.len() - kept, each);
        self.state = FramerState::Between;
        if self.partial.capacity() > HELD_BYTES {
            self.partial = Vec::new();
        } else {
            self.partial.clear();
        }
    }
}

fn emit(bytes: &[u8], cut: usize, each: &mut impl FnMut(SyslogMessage<'_>)) {
    let bytes = trimmed(bytes);
    if !bytes.is_empty() {
        each(SyslogMessage { bytes, cut });
    }
}

/// The count in the last bytes: where it begins, the length of its header, and the length of its message.
fn announced(bytes: &[u8]) -> Option<(usize, usize, usize)> {
    let open = bytes.iter().rev().take(5).position(|byte| *byte == b'<').map(|back| bytes.len() - 1 - back)?;
    let space = open.checked_sub(1).filter(|space| bytes[*space] == b' ')?;
    let digits = bytes[..space].iter().rev().take(COUNT_DIGITS_MAX).take_while(|byte| byte.is_ascii_digit()).count();
    let start = space - digits;
    match head(&bytes[start..]) {
        Head::Counted { header, length } => Some((start, header, length)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Got = Vec<(String, usize)>;

    fn framed(pieces: &[&[u8]], limit: usize) -> Got {
        let (mut framer, mut got) = (Framer::default(), Vec::new());
        let mut note = |message: SyslogMessage<'_>| {
            assert!(message.bytes.len() <= limit);
            got.push((String::from_utf8_lossy(message.bytes).into_owned(), message.cut));
        };
        for piece in pieces {
            framer.feed(piece, limit, &mut note);
            assert!(framer.held() <= 2 * limit.max(HELD_BYTES), "{} held", framer.held());
        }
        framer.finish(limit, &mut note);
        got
    }

    fn counted(message: &str) -> String {
        format!("{} {message}", message.len())
    }

    #[test]
    fn each_message_can_use_either_method() {
        let long = "<1>0123456789";
        for (bytes, expected) in [
            ("<1>a\n<2>b\n", vec![("<1>a", 0), ("<2>b", 0)]),
            ("<1>a\0<2>b\0\n", vec![("<1>a", 0), ("<2>b", 0)]),
            ("<1>a\r\n\r\n<2>b", vec![("<1>a", 0), ("<2>b", 0)]),
            ("4 <1>a5 <2>bc", vec![("<1>a", 0), ("<2>bc", 0)]),
            ("4 <1>a\n5 <2>bc\n<3>line\n4 <4>d", vec![("<1>a", 0), ("<2>bc", 0), ("<3>line", 0), ("<4>d", 0)]),
            ("6 <1>a\nb5 <2>b\n", vec![("<1>a\nb", 0), ("<2>b", 0)]),
            // Numbers that are not counts.
            ("12 apples\n", vec![("12 apples", 0)]),
            ("2026 <b>\n", vec![("2026 <b>", 0)]),
            ("012 <1>a\n", vec![("012 <1>a", 0)]),
            ("2 <34>a\n", vec![("2 <34>a", 0)]),
            ("1", vec![("1", 0)]),
            ("999999999 <1>a", vec![("999999999 <1>a", 0)]),
        ] {
            let expected: Got = expected.into_iter().map(|(text, cut)| (text.to_owned(), cut)).collect();
            assert_eq!(framed(&[bytes.as_bytes()], 100), expected, "{bytes:?}");
        }
        // A message beyond the limit is cut, and the next message is whole.
        let both = format!("{}{}{long}\n<2>b\n", counted(long), counted("<3>c"));
        let cut = |text: &str, cut| (text.to_owned(), cut);
        assert_eq!(
            framed(&[both.as_bytes()], 8),
            [cut("<1>01234", 5), cut("<3>c", 0), cut("<1>01234", 5), cut("<2>b", 0)]
        );
    }

    #[test]
    fn wrong_counts() {
        // A count of characters instead of bytes is too small: the rest is a record, and the next message is whole.
        let got = framed(&[b"5 <1>abcd4 <2>e6 <3>f\ng"], 100);
        assert_eq!(got, [("<1>ab".into(), 0), ("cd".into(), 0), ("<2>e".into(), 0), ("<3>f\ng".into(), 0)]);
        // A count that is too large: the bytes that came, with a cut.
        assert_eq!(framed(&[b"50 <1>abcd"], 100), [("<1>abcd".into(), 43)]);
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            "<[0-9]{1,3}>[a-z 0-9]{0,12}[\n\0]".prop_map(String::into_bytes),
            "<[0-9]{1,3}>[a-z\n]{0,40}".prop_map(|text| counted(&text).into_bytes()),
            "[0-9]{1,10} ?<?[0-9]{0,4}>?[a-z]{0,4}".prop_map(String::into_bytes),
            proptest::collection::vec(any::<u8>(), 0..20),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    #[test]
    fn a_datagram_may_begin_with_its_count() {
        for (datagram, expected) in [
            ("9 <13>1 - x", "<13>1 - x"),
            ("9 <13>1 - x\n", "<13>1 - x\n"),
            ("10 <13>1 - x\n", "<13>1 - x\n"),
            ("8 <13>1 - x", "8 <13>1 - x"),
            ("9 bottles x", "9 bottles x"),
            ("<13>1 - x", "<13>1 - x"),
            ("", ""),
        ] {
            assert_eq!(without_count(datagram.as_bytes()), expected.as_bytes(), "{datagram}");
        }
    }

    proptest! {
        /// The messages do not depend on how the bytes are split.
        #[test]
        fn pieces_do_not_matter(bytes in stream(), size in 1usize..20, limit in 8usize..40) {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(framed(&pieces, limit), framed(&[&bytes], limit));
        }

        /// Messages come out as they were sent, in any order of methods.
        #[test]
        fn messages_come_out_as_they_were_sent(sent in proptest::collection::vec(("<[0-9]{1,3}>[a-z 0-9]{0,30}[a-z]", any::<bool>()), 0..20)) {
            let bytes: String = sent.iter().map(|(text, is_counted)| if *is_counted { counted(text) } else { format!("{text}\n") }).collect();
            let expected: Got = sent.into_iter().map(|(text, _)| (text, 0)).collect();
            prop_assert_eq!(framed(&[bytes.as_bytes()], 100), expected);
        }

        /// Any bytes give messages within the limit, in bounded memory (see `framed`).
        #[test]
        fn any_bytes_give_messages(bytes in proptest::collection::vec(any::<u8>(), 0..2000), size in 1usize..200) {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            framed(&pieces, 64);
        }
    }
}
