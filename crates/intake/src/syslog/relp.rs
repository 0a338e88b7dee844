//! RELP, the [Reliable Event Logging Protocol](https://github.com/rsyslog/librelp/blob/master/doc/relp.html): bytes of a
//! connection become frames, and answers become bytes.
//!
//! ```text
//! 1 open 85 relp_version=0\nrelp_software=…\ncommands=syslog\n        TXNR SP COMMAND SP LENGTH [SP DATA] LF
//! 2 syslog 43 <6>Sep 10 00:00:00 localhost logger: hello!\n
//! 3 close 0\n
//! ```
//!
//! A malformed frame ends the connection, because the beginning of the next frame is unknown. The client sends every message
//! without an acknowledgement again. The bytes of a message beyond the limit are skipped up to the announced length.

/// The digits of a transaction's number, and of a length.
const DIGITS_MAX: usize = 9;
/// The bytes of a command's name.
const COMMAND_BYTES_MAX: usize = 32;
/// The bytes of memory that are kept between two frames.
const HELD_BYTES: usize = 4 << 10;

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelpFrame<'a> {
    /// The number of the transaction.
    pub transaction: u32,
    /// The command.
    pub command: RelpCommand,
    /// The data, up to the limit.
    pub data: &'a [u8],
    /// The number of further bytes of data.
    pub cut: usize,
}

/// The command of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelpCommand {
    /// Begins a session.
    Open,
    /// A message.
    Syslog,
    /// Ends the session.
    Close,
    /// Any other command.
    Unknown,
}

/// The bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are not a RELP frame")]
pub struct InvalidFrame;

/// The frames of a connection.
#[derive(Debug, Default)]
pub struct RelpFramer {
    /// The head of a frame, then its data.
    partial: Vec<u8>,
    /// `None` while the head is read.
    body: Option<Body>,
}

#[derive(Clone, Copy, Debug)]
struct Body {
    transaction: u32,
    command: RelpCommand,
    left: usize,
    cut: usize,
}

impl RelpFramer {
    /// Calls `each` for every frame that these bytes complete. Data is cut after `limit` bytes.
    ///
    /// # Errors
    ///
    /// The bytes are not a frame.
    pub fn feed(
        &mut self,
        input: &[u8],
        limit: usize,
        mut each: impl FnMut(RelpFrame<'_>),
    ) -> Result<(), InvalidFrame> {
        let mut rest = input;
        while let [byte, behind @ ..] = rest {
            match &mut self.body {
                None => {
                    rest = behind;
                    self.partial.push(*byte);
                    if matches!(byte, b' ' | b'\n') {
                        self.body = head(&self.partial)?;
                        if self.body.is_some() {
                            self.partial.clear();
                        }
                        if *byte == b'\n' {
                            // Without data the newline follows the length.
                            self.body.filter(|body| body.left == 0).ok_or(InvalidFrame)?;
                            self.give(&mut each);
                        }
                    } else if self.partial.len() > 2 * DIGITS_MAX + COMMAND_BYTES_MAX + 3 {
                        return Err(InvalidFrame);
                    }
                }
                Some(body) if body.left > 0 => {
                    let (data, behind) = rest.split_at(body.left.min(rest.len()));
                    let kept = data.len().min(limit.saturating_sub(self.partial.len()));
                    self.partial.extend_from_slice(&data[..kept]);
                    body.cut += data.len() - kept;
                    body.left -= data.len();
                    rest = behind;
                }
                Some(_) if *byte == b'\n' => {
                    rest = behind;
                    self.give(&mut each);
                }
                Some(_) => return Err(InvalidFrame),
            }
        }
        Ok(())
    }

    /// The memory of an incomplete frame, in bytes.
    pub fn held(&self) -> usize {
        self.partial.capacity()
    }

    fn give(&mut self, each: &mut impl FnMut(RelpFrame<'_>)) {
        if let Some(Body { transaction, command, cut, .. }) = self.body.take() {
            each(RelpFrame { transaction, command, data: &self.partial, cut });
        }
        if self.partial.capacity() > HELD_BYTES {
            self.partial = Vec::new();
        } else {
            self.partial.clear();
        }
    }
}

/// Parses `TXNR SP COMMAND SP LENGTH` and its end. `None` if the head is incomplete.
fn head(bytes: &[u8]) -> Result<Option<Body>, InvalidFrame> {
    let (end, head) = bytes.split_last().ok_or(InvalidFrame)?;
    let mut words = head.split(|byte| *byte == b' ');
    let transaction = number(words.next().unwrap_or_default())?;
    let (command, length) = (words.next(), words.next());
    if command.is_some_and(|command| command.is_empty() || command.len() > COMMAND_BYTES_MAX) || words.next().is_some()
    {
        return Err(InvalidFrame);
    }
    let (Some(command), Some(length)) = (command, length) else {
        return if *end == b' ' { Ok(None) } else { Err(InvalidFrame) };
    };
    let command = match command {
        b"open" => RelpCommand::Open,
        b"syslog" => RelpCommand::Syslog,
        b"close" => RelpCommand::Close,
        _ => RelpCommand::Unknown,
    };
    let left = usize::try_from(number(length)?).map_err(|_| InvalidFrame)?;
    Ok(Some(Body { transaction, command, left, cut: 0 }))
}

fn number(digits: &[u8]) -> Result<u32, InvalidFrame> {
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return Err(InvalidFrame);
    }
    Ok(digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
}

/// Writes the answer to a transaction.
pub fn answer(transaction: u32, text: &str, to: &mut Vec<u8>) {
    let length = text.len();
    let frame = match text {
        "" => format!("{transaction} rsp 0\n"),
        _ => format!("{transaction} rsp {length} {text}\n"),
    };
    to.extend_from_slice(frame.as_bytes());
}

/// The answer to `open`.
pub const OPENED: &str =
    concat!("200 OK\nrelp_version=0\nrelp_software=daytable,", env!("CARGO_PKG_VERSION"), "\ncommands=syslog");
/// The answer to a committed message.
pub const ACCEPTED: &str = "200 OK";
/// The answer to an unknown command, or a command in the wrong state.
pub const REFUSED: &str = "500 unsupported command";
/// The frame with which the server ends the session.
pub const SERVER_CLOSE: &[u8] = b"0 serverclose 0\n";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Got = Vec<(u32, RelpCommand, String, usize)>;

    fn frames(pieces: &[&[u8]], limit: usize) -> (Got, bool) {
        let (mut frames, mut got) = (RelpFramer::default(), Vec::new());
        for piece in pieces {
            let fed = frames.feed(piece, limit, |frame| {
                let data = String::from_utf8_lossy(frame.data).into_owned();
                got.push((frame.transaction, frame.command, data, frame.cut));
            });
            assert!(frames.held() <= 2 * limit.max(HELD_BYTES));
            if fed.is_err() {
                return (got, true);
            }
        }
        (got, false)
    }

    #[test]
    fn frames_and_malformed_bytes() {
        let session = b"1 open 3 a\nb\n2 syslog 4 <1>a\n3 syslog 12 <1>012345678\n4 close 0\n5 close 0 \n6 other 0\n";
        let expected = [
            (1, RelpCommand::Open, "a\nb".into(), 0),
            (2, RelpCommand::Syslog, "<1>a".into(), 0),
            (3, RelpCommand::Syslog, "<1>01234".into(), 4),
            (4, RelpCommand::Close, String::new(), 0),
            (5, RelpCommand::Close, String::new(), 0),
            (6, RelpCommand::Unknown, String::new(), 0),
        ];
        assert_eq!(frames(&[session], 8), (expected.into(), false));
        for bytes in [
            "<34>text\n",
            "a open 0\n",
            "1 open\n",
            "1  0\n",
            "1 open -1\n",
            "1 open 3\n",
            "1 open 1 ab",
            "9999999999 open 0\n",
            "1 open 0 x",
        ] {
            assert!(frames(&[bytes.as_bytes()], 8).1, "{bytes:?}");
        }
        let long = format!("1 {} 0", "a".repeat(100));
        assert!(frames(&[long.as_bytes()], 8).1);
    }

    #[test]
    fn answers() {
        let mut bytes = Vec::new();
        answer(7, ACCEPTED, &mut bytes);
        answer(8, "", &mut bytes);
        assert_eq!(bytes, b"7 rsp 6 200 OK\n8 rsp 0\n");
    }

    proptest! {
        /// The frames, and the place of an error, do not depend on how the bytes are split.
        #[test]
        fn pieces_do_not_matter(
            bytes in "([0-9]{1,3} (open|syslog|close) (0|4 [a-z\n]{4})\n|[0-9a-z \n]{0,9}){0,9}", size in 1usize..9, limit in 2usize..9,
        ) {
            let pieces: Vec<&[u8]> = bytes.as_bytes().chunks(size).collect();
            prop_assert_eq!(frames(&pieces, limit), frames(&[bytes.as_bytes()], limit));
        }

        /// Any bytes give frames or an error, in bounded memory (see `frames`).
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..500), size in 1usize..50) {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            frames(&pieces, 64);
        }
    }
}
