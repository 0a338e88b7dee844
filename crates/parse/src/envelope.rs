//! The envelope: what a container runtime writes around each line of a program.
//!
//! ```text
//! 2016-10-06T00:17:09.669794202Z stdout F text                                CRI: containerd, CRI-O
//! {"log":"text\n","stream":"stderr","time":"2016-10-06T00:17:09.669794202Z"}  Docker's json-file, attrs if configured
//! ```
//!
//! A runtime splits a line that is too long for it; all parts but the last are partial. CRI marks parts with a tag, `P`
//! for partial and `F` for full, which others may follow after a `:`. Docker omits the `\n`.
//!
//! The stream becomes the field `stream`, and each of Docker's `attrs` a field `attrs.NAME`. CRI's other tags are ignored:
//! no runtime writes any.

use super::json::rest::ObjectRest;
use super::json::{cut, fast};
use super::pairs::unquote;
use super::{scan, timestamp};
use daytable_model::record::{Field, Value};
use daytable_model::time::Ticks;
use memchr::memchr;
use std::borrow::Cow;

/// The output of the program that wrote a line, if known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// There is only one output, or the line does not name it.
    #[default]
    Only,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The parts of an envelope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// When the runtime read the line; the time of the record if its text has none.
    pub time: Option<Ticks>,
    /// The output that wrote the line.
    pub stream: OutputStream,
    /// Whether the program's line continues in the next line of this stream, without a newline between them.
    pub is_partial: bool,
    /// The object of Docker's `attrs`, as written. In a box, because most lines have none, and envelopes are moved with
    /// each line.
    pub attributes: Option<Box<Cow<'a, str>>>,
}

impl<'a> Envelope<'a> {
    /// The fields of a record in this envelope: `stream` and the attributes.
    pub(super) fn into_fields(self) -> impl Iterator<Item = Field<'a>> {
        let stream = match self.stream {
            OutputStream::Only => None,
            OutputStream::Stdout => Some("stdout"),
            OutputStream::Stderr => Some("stderr"),
        };
        let stream = stream.map(|stream| (Cow::Borrowed("stream"), Cow::Borrowed(stream)));
        let attributes: Vec<_> = match self.attributes.map(|attributes| *attributes) {
            None => Vec::new(),
            Some(Cow::Borrowed(object)) => attributes(object).collect(),
            Some(Cow::Owned(object)) => {
                attributes(&object).map(|(name, value)| (name, Cow::Owned(value.into_owned()))).collect()
            }
        };
        stream.into_iter().chain(attributes).map(|(name, value)| Field { name, value: Value::String(value) })
    }

    pub(super) fn into_owned<'o>(self) -> Envelope<'o> {
        let Envelope { time, stream, is_partial, attributes } = self;
        let attributes = attributes.map(|object| Box::new(Cow::Owned(object.into_owned())));
        Envelope { time, stream, is_partial, attributes }
    }
}

/// The names and values of an object of strings.
fn attributes<'a, 'n>(object: &'a str) -> impl Iterator<Item = (Cow<'n, str>, Cow<'a, str>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (name, value, end) = attribute_at(object, at)?;
        at = end;
        Some((Cow::Owned(format!("attrs.{}", unquote(name))), unquote(value)))
    })
}

/// A line without its envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwrapped<'a> {
    /// The text that the program wrote.
    pub text: Cow<'a, str>,
    /// The envelope; the default if there was none.
    pub envelope: Envelope<'a>,
}

/// Bytes of a runtime's time with the space after it.
const TIME_BYTES_MAX: usize = 40;

/// The text of a CRI line, and its envelope.
pub(super) fn cri(line: &str) -> Option<(&str, Envelope<'_>)> {
    // Cheap test first: every line that begins with a digit comes here.
    let bytes = line.as_bytes();
    let space = memchr(b' ', bytes.get(..TIME_BYTES_MAX).unwrap_or(bytes))?;
    if !bytes[space..].starts_with(b" std") {
        return None;
    }
    let (time, length) = timestamp::leading(line)?;
    // In RFC 3339 the 11th byte is `T`; with a space this is a text line whose first word is `stdout`.
    if line.as_bytes().get(10) != Some(&b'T') {
        return None;
    }
    let rest = line.get(length..)?.strip_prefix(" std")?;
    let (stream, rest) = match rest.split_at_checked(4)? {
        ("out ", rest) => (OutputStream::Stdout, rest),
        ("err ", rest) => (OutputStream::Stderr, rest),
        _ => return None,
    };
    let (tag, text) = match rest.split_at_checked(1)? {
        (tag @ ("P" | "F"), rest) => (tag, rest),
        _ => return None,
    };
    let text = match text.as_bytes() {
        // The line was empty: no text follows the tag.
        [] => text,
        [b' ', ..] => text.get(1..)?,
        [b':', ..] => text.get(scan::space(text.as_bytes(), 0)..)?.strip_prefix(' ').unwrap_or_default(),
        _ => return None,
    };
    Some((text, Envelope { time: Some(time), stream, is_partial: tag == "P", ..Envelope::default() }))
}

/// The text of an entry of Docker's json-file, and its envelope. An entry is an object of `log`, `stream`, `time` and
/// perhaps `attrs`, in any order, without spaces between them.
pub(super) fn docker(line: &str) -> Option<(Cow<'_, str>, Envelope<'_>)> {
    let bytes = line.as_bytes();
    let (mut log, mut stream, mut time, mut attributes) = (None, None, None, None);
    let mut at = 0;
    while bytes.get(at) == Some(if at == 0 { &b'{' } else { &b',' }) {
        // Compare the whole name: many other objects begin with the same letters.
        let member = bytes.get(at + 1..)?;
        let (place, value) = match member {
            _ if member.starts_with(b"\"log\":") => (&mut log, at + 7),
            _ if member.starts_with(b"\"stream\":") => (&mut stream, at + 10),
            _ if member.starts_with(b"\"time\":") => (&mut time, at + 8),
            _ if member.starts_with(b"\"attrs\":") => {
                let end = attributes_end(line, at + 9)?;
                attributes = Some(Box::new(Cow::Borrowed(line.get(at + 9..end)?)));
                at = end;
                continue;
            }
            _ => return None,
        };
        let (written, end) = string_at(line, value)?;
        if place.replace(written).is_some() {
            return None;
        }
        at = end;
    }
    if bytes.get(at..)? != b"}" {
        return None;
    }
    let stream = match stream? {
        "\"stdout\"" => OutputStream::Stdout,
        "\"stderr\"" => OutputStream::Stderr,
        _ => return None,
    };
    let time = time.and_then(|time| time.get(1..time.len() - 1))?;
    let (ticks, length) = timestamp::leading(time)?;
    let (text, is_partial) = unquote_line(log?);
    let envelope = Envelope { time: Some(ticks), stream, is_partial, attributes };
    (length == time.len()).then_some((text, envelope))
}

/// The text of an entry of Docker's json-file that a limit cut within its text, and its envelope. The rest of the line has
/// the other members.
pub(super) fn cut_docker<'a>(line: &'a str, rest: &ObjectRest) -> Option<(Cow<'a, str>, Envelope<'a>)> {
    const LOG: &str = "\"log\":\"";
    let (before, log) = line.split_at_checked(rest.cut_member)?;
    let log = log.strip_prefix(LOG)?;
    let others = rest.object.strip_prefix('{').filter(|others| *others != "}");
    let entry = match others {
        Some(others) => format!("{before}{LOG}\",{others}"),
        None => format!("{before}{LOG}\"}}"),
    };
    let (_, envelope) = docker(&entry)?;
    Some((cut::cut_string(log)?, Envelope { is_partial: false, ..envelope.into_owned() }))
}

/// Whether an entry of Docker's json-file may have a member with this name; `attrs` is a part of the names in it.
pub(super) fn may_have(name: &str) -> bool {
    matches!(name, "log" | "stream" | "time") || name.starts_with("attrs")
}

/// The quoted string that begins at `at`, and the place after it.
fn string_at(line: &str, at: usize) -> Option<(&str, usize)> {
    let bytes = line.as_bytes();
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    let end = fast::string_end(bytes, at + 1)?;
    Some((line.get(at..end)?, end))
}

/// The place after the object of strings that begins at `at`.
fn attributes_end(line: &str, mut at: usize) -> Option<usize> {
    let bytes = line.as_bytes();
    if bytes.get(at..)?.starts_with(b"{}") {
        return Some(at + 2);
    }
    while bytes.get(at).is_some_and(|byte| matches!(byte, b'{' | b',')) {
        (_, _, at) = attribute_at(line, at)?;
    }
    (bytes.get(at) == Some(&b'}')).then_some(at + 1)
}

/// The quoted name and value after the `{` or `,` at `at`, and the place after them.
fn attribute_at(line: &str, at: usize) -> Option<(&str, &str, usize)> {
    let (name, colon) = string_at(line, at + 1)?;
    if line.as_bytes().get(colon) != Some(&b':') {
        return None;
    }
    let (value, end) = string_at(line, colon + 1)?;
    Some((name, value, end))
}

/// A quoted line without its newline, and whether the newline is missing, so that the line continues.
///
/// Nearly all lines have no other escape, and are borrowed.
fn unquote_line(quoted: &str) -> (Cow<'_, str>, bool) {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    let ended = inner.strip_suffix("\\r\\n").or_else(|| inner.strip_suffix("\\n"));
    if let Some(text) = ended.filter(|text| memchr(b'\\', text.as_bytes()).is_none()) {
        return (Cow::Borrowed(text), false);
    }
    let mut text = unquote(quoted);
    if !text.ends_with('\n') {
        return (text, true);
    }
    let owned = text.to_mut();
    owned.pop();
    if owned.ends_with('\r') {
        owned.pop();
    }
    (text, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_cri() {
        let time = "2016-10-06T00:17:09.669794202Z";
        for (rest, stream, is_partial, text) in [
            (" stdout F The content", OutputStream::Stdout, false, "The content"),
            (" stderr P first half, ", OutputStream::Stderr, true, "first half, "),
            (" stdout F:tag:other  x ", OutputStream::Stdout, false, " x "),
            (" stdout F ", OutputStream::Stdout, false, ""),
            (" stdout F", OutputStream::Stdout, false, ""),
            (" stdout F \tat x", OutputStream::Stdout, false, "\tat x"),
        ] {
            let line = format!("{time}{rest}");
            let (found, envelope) = cri(&line).unwrap_or_else(|| panic!("{rest}"));
            assert_eq!((found, envelope.stream, envelope.is_partial), (text, stream, is_partial), "{rest}");
            assert_eq!(envelope.time.map(|time| time.to_string()).as_deref(), Some("2016-10-06T00:17:09.6697942Z"));
        }
        for rest in
            ["", " stdout", " stdout ", " stdin F x", " stdout X x", " stdout Full text", "  stdout F x", " stdoutF x"]
        {
            assert_eq!(cri(&format!("{time}{rest}")), None, "{rest}");
        }
        assert_eq!(cri("2016-10-06 00:17:09Z stdout F text"), None);
        assert_eq!(cri("0000-10-06T00:17:09Z stdout F text"), None);
    }

    #[test]
    fn entries_of_docker() {
        let time = r#""time":"2016-10-06T00:17:09.669794202Z""#;
        for (line, stream, is_partial, text) in [
            (format!(r#"{{"log":"up\n","stream":"stdout",{time}}}"#), OutputStream::Stdout, false, "up"),
            (format!(r#"{{"log":"up\r\n","stream":"stderr",{time}}}"#), OutputStream::Stderr, false, "up"),
            (format!(r#"{{"log":"\n","stream":"stderr",{time}}}"#), OutputStream::Stderr, false, ""),
            (format!(r#"{{"log":"half","stream":"stdout",{time}}}"#), OutputStream::Stdout, true, "half"),
            (format!(r#"{{"log":"C:\\new","stream":"stdout",{time}}}"#), OutputStream::Stdout, true, "C:\\new"),
            (format!(r#"{{"log":"C:\\n","stream":"stdout",{time}}}"#), OutputStream::Stdout, true, "C:\\n"),
            (
                format!(r#"{{"log":"a \"b\" \u003c\n","stream":"stdout",{time}}}"#),
                OutputStream::Stdout,
                false,
                "a \"b\" <",
            ),
            (
                format!(r#"{{"log":"up\n","stream":"stdout","attrs":{{"tag":"x","é":"}}"}},{time}}}"#),
                OutputStream::Stdout,
                false,
                "up",
            ),
            (format!(r#"{{{time},"stream":"stdout","log":"up\n","attrs":{{}}}}"#), OutputStream::Stdout, false, "up"),
        ] {
            let (found, envelope) = docker(&line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((&*found, envelope.stream, envelope.is_partial), (text, stream, is_partial), "{line}");
            assert_eq!(envelope.time.map(|time| time.to_string()).as_deref(), Some("2016-10-06T00:17:09.6697942Z"));
        }
        for line in [
            "{}".to_owned(),
            format!(r#"{{"log":"up\n",{time}}}"#),
            format!(r#"{{"log":"up\n","stream":"stdin",{time}}}"#),
            r#"{"log":"up\n","stream":"stdout","time":"noon"}"#.to_owned(),
            r#"{"log":"up\n","stream":"stdout","time":"2016-10-06T00:17:09Z!"}"#.to_owned(),
            format!(r#"{{"log":"up\n","stream":"stdout",{time},"level":"info"}}"#),
            format!(r#"{{"log":"up\n","log":"up\n","stream":"stdout",{time}}}"#),
            format!(r#"{{"log":7,"stream":"stdout",{time}}}"#),
            format!(r#"{{"log":"up\n","stream":"stdout",{time}}} "#),
            format!(r#"{{"log":"up\n","stream":"stdout",{time}"#),
        ] {
            assert_eq!(docker(&line), None, "{line}");
        }
    }

    #[test]
    fn an_envelope_gives_its_stream_and_its_attributes_as_fields() {
        let time = "2016-10-06T00:17:09Z";
        let entry = format!(
            r#"{{"log":"up\n","stream":"stderr","attrs":{{"tag":"a \"b\"","é":"","com.x/y":"}}"}},"time":"{time}"}}"#
        );
        for (line, expected) in [
            (format!("{time} stdout F up"), vec![("stream", "stdout")]),
            (entry, vec![("stream", "stderr"), ("attrs.tag", "a \"b\""), ("attrs.é", ""), ("attrs.com.x/y", "}")]),
            (format!(r#"{{"log":"up\n","stream":"stdout","attrs":{{}},"time":"{time}"}}"#), vec![("stream", "stdout")]),
        ] {
            let envelope = cri(&line).map(|(_, envelope)| envelope).or_else(|| Some(docker(&line)?.1));
            let envelope = envelope.expect("an envelope");
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(name, value)| Field { name: name.into(), value: Value::String(value.into()) })
                .collect();
            assert_eq!(envelope.clone().into_fields().collect::<Vec<_>>(), expected, "{line}");
            assert_eq!(envelope.into_owned().into_fields().collect::<Vec<_>>(), expected, "{line}");
        }
        assert_eq!(Envelope::default().into_fields().count(), 0);
    }

    #[test]
    fn a_line_with_no_other_escape_is_borrowed() {
        let line = r#"{"log":"up é\n","stream":"stdout","time":"2016-10-06T00:17:09Z"}"#;
        assert!(matches!(docker(line), Some((Cow::Borrowed("up é"), _))));
    }

    proptest! {
        /// Docker's lines come back unchanged, and no other text makes the parser panic.
        #[test]
        fn docker_lines_come_back(text in any::<String>(), is_partial in any::<bool>(), cut in any::<prop::sample::Index>()) {
            prop_assume!(!is_partial || !text.ends_with('\n'));
            prop_assume!(!text.ends_with('\r'));
            let end = if is_partial { "" } else { "\n" };
            let log = serde_json::to_string(&format!("{text}{end}")).expect("a string");
            let line = format!(r#"{{"log":{log},"stream":"stdout","time":"2016-10-06T00:17:09Z"}}"#);
            let (found, envelope) = docker(&line).expect("an entry");
            prop_assert_eq!((&*found, envelope.is_partial), (&*text, is_partial));
            let cut = line.floor_char_boundary(cut.index(line.len()));
            prop_assert_eq!(docker(&line[..cut]), None);
        }

        /// CRI lines come back unchanged, whatever their text.
        #[test]
        fn cri_lines_come_back(text in any::<String>(), near in "2016-10-06T00:17:09Z[ :FPstdoure]{0,12}") {
            let line = format!("2016-10-06T00:17:09Z stderr F {text}");
            prop_assert_eq!(cri(&line).map(|(text, _)| text), Some(&*text));
            let _ = cri(&near);
        }
    }
}
