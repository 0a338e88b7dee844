//! [MessagePack](https://github.com/msgpack/msgpack/blob/master/spec.md) at `POST /ingest`: an array of records, or records
//! one after another, as Fluent Bit and Fluentd send them.
//!
//! ```text
//! {…}                         a record
//! [time, {…}]                 a record with its time
//! [[time, {…}], {…}]          the same with metadata, which become fields `metadata.NAME`
//! "text"                      a line
//! [ any of these, … ]
//! ```
//!
//! and messages of the [forward protocol](https://github.com/fluent/fluentd/wiki/Forward-Protocol-Specification-v1) in each of
//! its modes, whose records get the field `tag`:
//!
//! ```text
//! ["tag", time, {…}, options]                    one record
//! ["tag", [[time, {…}], …], options]             several
//! ["tag", bytes, options]                        the same, one after another in bytes; compressed, if the options say so
//! ```
//!
//! A time is Fluent's `EventTime` (extension 0: seconds and nanoseconds), or a number of seconds. A time inside the record has
//! priority. A record is written as JSON and read like a JSON line: bytes and extensions become base64.
//!
//! Each record is measured before it is read, without recursion. So memory follows the size of one record, and a record that
//! is too long or too deep is refused alone. This reader is our own because it needs a table of first bytes and no more; no
//! tree of values is built.

use super::encoding::decode_part;
use super::request_writer::{INSTANCE, RECORD_BYTES_MAX, RequestWriter, TOO_LONG};
use super::{Encoding, Refusal};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use daytable_model::record::{Field, Value};
use daytable_model::time::{TICKS_PER_SECOND, Ticks};
use daytable_parse::{Envelope, Format, RawRecord};
use std::borrow::Cow;

/// The depth of nested values. A record with deeper values is refused.
const DEPTH_MAX: usize = 32;
/// The type of the extension that is Fluent's time.
const EVENT_TIME: i8 = 0;
/// From this second on, Fluent Bit's time marks the beginning or the end of a group (-1 and -2).
const GROUP_SECONDS: u32 = u32::MAX - 1;

/// The beginning of a value: all of it, or the number of its elements.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Head<'a> {
    Nil,
    Boolean(bool),
    Integer(i64),
    Unsigned(u64),
    Float(f32),
    Double(f64),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    Extension(i8, &'a [u8]),
    Array(u32),
    Map(u32),
}

/// Bytes with values one after another.
#[derive(Clone, Copy)]
struct Values<'a>(&'a [u8]);

impl<'a> Values<'a> {
    fn bytes(&mut self, length: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// A length in 1, 2 or 4 bytes.
    fn length(&mut self, log_bytes: u8) -> Option<u32> {
        Some(match log_bytes {
            0 => u32::from(u8::from_be_bytes(self.number()?)),
            1 => u32::from(u16::from_be_bytes(self.number()?)),
            _ => u32::from_be_bytes(self.number()?),
        })
    }

    /// Reads the beginning of a value; `None` if the bytes end in it, or for the byte that begins no value.
    fn head(&mut self) -> Option<Head<'a>> {
        let [first] = self.number()?;
        Some(match first {
            0x00..=0x7f => Head::Integer(i64::from(first)),
            0x80..=0x8f => Head::Map(u32::from(first & 0x0f)),
            0x90..=0x9f => Head::Array(u32::from(first & 0x0f)),
            0xa0..=0xbf => Head::Text(self.bytes(u32::from(first & 0x1f))?),
            0xc0 => Head::Nil,
            0xc1 => return None,
            0xc2 | 0xc3 => Head::Boolean(first == 0xc3),
            0xc4..=0xc6 => {
                let length = self.length(first - 0xc4)?;
                Head::Bytes(self.bytes(length)?)
            }
            0xc7..=0xc9 => {
                let length = self.length(first - 0xc7)?;
                self.extension(length)?
            }
            0xca => Head::Float(f32::from_be_bytes(self.number()?)),
            0xcb => Head::Double(f64::from_be_bytes(self.number()?)),
            0xcc => Head::Integer(i64::from(u8::from_be_bytes(self.number()?))),
            0xcd => Head::Integer(i64::from(u16::from_be_bytes(self.number()?))),
            0xce => Head::Integer(i64::from(u32::from_be_bytes(self.number()?))),
            0xcf => Head::Unsigned(u64::from_be_bytes(self.number()?)),
            0xd0 => Head::Integer(i64::from(i8::from_be_bytes(self.number()?))),
            0xd1 => Head::Integer(i64::from(i16::from_be_bytes(self.number()?))),
            0xd2 => Head::Integer(i64::from(i32::from_be_bytes(self.number()?))),
            0xd3 => Head::Integer(i64::from_be_bytes(self.number()?)),
            0xd4..=0xd8 => self.extension(1 << (first - 0xd4))?,
            0xd9..=0xdb => {
                let length = self.length(first - 0xd9)?;
                Head::Text(self.bytes(length)?)
            }
            0xdc | 0xdd => Head::Array(self.length(first - 0xdc + 1)?),
            0xde | 0xdf => Head::Map(self.length(first - 0xde + 1)?),
            0xe0..=0xff => Head::Integer(i64::from(i8::from_be_bytes([first]))),
        })
    }

    fn extension(&mut self, length: u32) -> Option<Head<'a>> {
        let kind = i8::from_be_bytes(self.number()?);
        Some(Head::Extension(kind, self.bytes(length)?))
    }

    /// The bytes of the next value. Without recursion, so no depth is too much.
    fn value(&mut self) -> Option<Values<'a>> {
        let start = self.0;
        let mut missing = 1u64;
        while missing > 0 {
            missing = missing - 1
                + match self.head()? {
                    Head::Array(elements) => u64::from(elements),
                    Head::Map(members) => 2 * u64::from(members),
                    _ => 0,
                };
        }
        start.get(..start.len() - self.0.len()).map(Values)
    }
}

/// A record of the body.
#[derive(Clone, Copy)]
struct Event<'a> {
    time: Option<Ticks>,
    /// Whether the time marks a group of records.
    is_mark: bool,
    /// A map; empty if there are no metadata.
    metadata: Values<'a>,
    /// A map, or a text.
    body: Values<'a>,
}

impl<'a> Event<'a> {
    fn of(body: Values<'a>) -> Event<'a> {
        Event { time: None, is_mark: false, metadata: Values(&[]), body }
    }

    /// A value that is a record with a time, a map or a text.
    fn read(value: Values<'a>) -> Option<Event<'a>> {
        let mut values = value;
        match values.head()? {
            Head::Map(_) | Head::Text(_) => Some(Event::of(value)),
            Head::Array(2) => {
                let (time, body) = (values.value()?, values.value()?);
                let mut inner = time;
                let mut event = match inner.head()? {
                    Head::Array(2) => {
                        let (time, metadata) = (inner.value()?, inner.value()?);
                        Event { metadata, ..Event::of(body).at(time)? }
                    }
                    _ => Event::of(body).at(time)?,
                };
                if !matches!({ event.metadata }.head(), None | Some(Head::Map(1..))) {
                    event.metadata = Values(&[]);
                }
                matches!({ body }.head()?, Head::Map(_)).then_some(event)
            }
            _ => None,
        }
    }

    /// The event at a time; `None` if the value is not a time.
    fn at(mut self, mut time: Values<'_>) -> Option<Event<'a>> {
        let of = |nanos: i128| Ticks::from_unix_nanos(nanos);
        self.time = match time.head()? {
            Head::Extension(EVENT_TIME, [s0, s1, s2, s3, n0, n1, n2, n3]) => {
                let seconds = u32::from_be_bytes([*s0, *s1, *s2, *s3]);
                let nanos = u32::from_be_bytes([*n0, *n1, *n2, *n3]);
                self.is_mark = seconds >= GROUP_SECONDS;
                of(i128::from(seconds) * 1_000_000_000 + i128::from(nanos))
            }
            Head::Integer(seconds) => of(i128::from(seconds) * 1_000_000_000),
            Head::Unsigned(seconds) => of(i128::from(seconds) * 1_000_000_000),
            // The digits of a number of this size end at the tick.
            #[expect(clippy::cast_possible_truncation, reason = "the conversion saturates, and the year is checked")]
            Head::Double(seconds) => of(((seconds * TICKS_PER_SECOND as f64).round() as i128).saturating_mul(100)),
            _ => return None,
        };
        Some(self)
    }
}

/// A message of the forward protocol.
struct ForwardMessage<'a> {
    tag: &'a [u8],
    events: ForwardEvents<'a>,
}

enum ForwardEvents<'a> {
    /// The time and the record.
    One(Event<'a>),
    /// The elements of an array.
    Array(Values<'a>),
    /// Events one after another, and how they are compressed.
    Packed(&'a [u8], Encoding),
}

impl<'a> ForwardMessage<'a> {
    /// A value that is a message; an error if its events are compressed in a way that is not known here.
    fn read(value: Values<'a>) -> Result<Option<ForwardMessage<'a>>, Refusal> {
        let Some((tag, events, options)) = ForwardMessage::parts(value) else { return Ok(None) };
        let events = match events {
            ForwardEvents::Packed(bytes, _) => ForwardEvents::Packed(bytes, encoding_of(options)?),
            other => other,
        };
        Ok(Some(ForwardMessage { tag, events }))
    }

    /// The tag, the events and the options of a message.
    fn parts(value: Values<'a>) -> Option<(&'a [u8], ForwardEvents<'a>, Values<'a>)> {
        let mut values = value;
        let Head::Array(elements @ 2..=4) = values.head()? else { return None };
        let Head::Text(tag) = values.head()? else { return None };
        let second = values.value()?;
        let mut inner = second;
        let (events, used) = match inner.head()? {
            Head::Array(_) => {
                let mut entries = inner;
                while !entries.0.is_empty() {
                    Event::read(entries.value()?).filter(|event| event.time.is_some())?;
                }
                (ForwardEvents::Array(inner), 2)
            }
            // Older senders write bytes as a text. A text may also be a line of its own.
            Head::Bytes(bytes) => (ForwardEvents::Packed(bytes, Encoding::Identity), 2),
            Head::Text(bytes) if are_events(bytes) => (ForwardEvents::Packed(bytes, Encoding::Identity), 2),
            _ => {
                let body = values.value()?;
                matches!({ body }.head()?, Head::Map(_)).then_some(())?;
                (ForwardEvents::One(Event::of(body).at(second)?), 3)
            }
        };
        let options = if elements > used { values.value()? } else { Values(&[]) };
        let is_whole = elements <= used + 1 && matches!({ options }.head(), None | Some(Head::Map(_) | Head::Nil));
        is_whole.then_some((tag, events, options))
    }
}

/// Whether bytes are events one after another.
fn are_events(bytes: &[u8]) -> bool {
    let mut values = Values(bytes);
    let mut has_event = false;
    while !values.0.is_empty() {
        has_event = values.value().and_then(Event::read).is_some_and(|event| event.time.is_some());
        if !has_event {
            return false;
        }
    }
    has_event
}

/// The compression of packed events, by the options of their message.
fn encoding_of(mut options: Values<'_>) -> Result<Encoding, Refusal> {
    let Some(Head::Map(members)) = options.head() else { return Ok(Encoding::Identity) };
    for _ in 0..members {
        let (name, value) = (options.head(), options.value());
        if name == Some(Head::Text(b"compressed")) {
            return match value.and_then(|mut value| value.head()) {
                Some(Head::Text(b"text")) => Ok(Encoding::Identity),
                Some(Head::Text(name)) => Encoding::read(str::from_utf8(name).ok()),
                _ => Err(Refusal::bad("the option `compressed` of a message is not text")),
            };
        }
    }
    Ok(Encoding::Identity)
}

/// Writes the records of a body, of which packed events may have this many bytes once they are decoded.
pub(super) fn write(body: &[u8], decoded_bytes_max: usize, writer: &mut RequestWriter<'_>) -> Result<(), Refusal> {
    let (mut values, mut decoded_bytes_left) = (Values(body), decoded_bytes_max);
    while !values.0.is_empty() {
        let whole = next(&mut values, writer)?;
        if let Some(message) = ForwardMessage::read(whole)? {
            forward(message, &mut decoded_bytes_left, writer)?;
            continue;
        }
        let mut elements = whole;
        match (Event::read(whole), elements.head()) {
            (None, Some(Head::Array(_))) => {
                while !elements.0.is_empty() {
                    let element = next(&mut elements, writer)?;
                    event(element, Event::read(element), b"", writer)?;
                }
            }
            (read, _) => event(whole, read, b"", writer)?,
        }
    }
    Ok(())
}

/// Writes the records of a message.
fn forward(
    message: ForwardMessage<'_>,
    decoded_bytes_left: &mut usize,
    writer: &mut RequestWriter<'_>,
) -> Result<(), Refusal> {
    let decoded;
    let mut events = match message.events {
        ForwardEvents::One(one) => return event(one.body, Some(one), message.tag, writer),
        ForwardEvents::Array(events) => events,
        ForwardEvents::Packed(bytes, Encoding::Identity) => Values(bytes),
        ForwardEvents::Packed(bytes, encoding) => {
            decoded = decode_part(bytes, encoding, *decoded_bytes_left, |more| writer.reserve(more))?;
            *decoded_bytes_left -= decoded.len();
            Values(&decoded)
        }
    };
    while !events.0.is_empty() {
        let element = next(&mut events, writer)?;
        event(element, Event::read(element), message.tag, writer)?;
    }
    Ok(())
}

fn next<'a>(values: &mut Values<'a>, writer: &RequestWriter<'_>) -> Result<Values<'a>, Refusal> {
    values.value().ok_or_else(|| Refusal::bad_at(writer.index(), "the body is not MessagePack, or ends within a value"))
}

/// Writes a record, of a message with this tag.
fn event(
    value: Values<'_>,
    event: Option<Event<'_>>,
    tag: &[u8],
    writer: &mut RequestWriter<'_>,
) -> Result<(), Refusal> {
    let index = writer.begin()?;
    let (any, objects) = writer.readings();
    let Some(event) = event else {
        writer.refuse(index, "is neither a map, nor a text, nor a time with a map");
        return Ok(());
    };
    if event.is_mark {
        writer.refuse(index, "is the mark of a group, which is not read");
        return Ok(());
    }
    // JSON of a record within the limit may be longer, and is not cut.
    let is_long = value.0.len() > RECORD_BYTES_MAX;
    if is_long {
        writer.reserve(value.0.len().saturating_mul(2))?;
    }
    let mut is_invalid = false;
    let is_line = matches!({ event.body }.head(), Some(Head::Text(_)));
    let text = match { event.body }.head() {
        Some(Head::Text(bytes)) => text_of(bytes, &mut is_invalid),
        _ => {
            let mut json = String::with_capacity(value.0.len() + value.0.len() / 2);
            if !record(event, &mut json, &mut is_invalid) {
                writer.refuse(index, "is nested too deeply");
                return Ok(());
            }
            json.into()
        }
    };
    let envelope = Envelope { time: event.time, ..Envelope::default() };
    let reading = if is_line { any } else { objects };
    let kept_max = if is_long { RECORD_BYTES_MAX } else { usize::MAX };
    let mut raw = RawRecord::of_long_message(&text, kept_max, reading.redactor.as_ref());
    raw.envelope = envelope;
    let parsed = writer.parse_raw(&raw, reading);
    if !is_line && parsed.format != Format::Json {
        // A name alone is longer than a record.
        writer.refuse(index, TOO_LONG);
        return Ok(());
    }
    let mut record = parsed.record;
    if !tag.is_empty() {
        let tag = writer.redact(text_of(tag, &mut is_invalid));
        record.fields.push(Field { name: "tag".into(), value: Value::String(tag) });
    }
    writer.count_record(parsed.format, is_invalid, raw.cut_bytes(), &mut record);
    writer.write(index, INSTANCE, record, None);
    Ok(())
}

/// Writes a record as JSON; false if it is too deep.
fn record(event: Event<'_>, json: &mut String, is_invalid: &mut bool) -> bool {
    let (mut body, mut metadata) = (event.body, event.metadata);
    if put(&mut body, json, is_invalid, 0).is_none() {
        return false;
    }
    if metadata.0.is_empty() {
        return true;
    }
    json.pop();
    json.push_str(if json.len() > 1 { ",\"metadata\":" } else { "\"metadata\":" });
    let is_written = put(&mut metadata, json, is_invalid, 1).is_some();
    json.push('}');
    is_written
}

/// Writes the next value as JSON; `None` if it is too deep. The bytes are known to be whole.
fn put(values: &mut Values<'_>, json: &mut String, is_invalid: &mut bool, depth: usize) -> Option<()> {
    let mut quoted = |text: &str| {
        // A string cannot fail to be written.
        json.push_str(&serde_json::to_string(text).unwrap_or_default());
    };
    match values.head()? {
        Head::Nil => json.push_str("null"),
        Head::Boolean(truth) => json.push_str(if truth { "true" } else { "false" }),
        Head::Integer(number) => json.push_str(&number.to_string()),
        Head::Unsigned(number) => json.push_str(&number.to_string()),
        Head::Float(number) if number.is_finite() => json.push_str(&format!("{number:?}")),
        Head::Float(number) => quoted(&number.to_string()),
        Head::Double(number) if number.is_finite() => json.push_str(&format!("{number:?}")),
        Head::Double(number) => quoted(&number.to_string()),
        Head::Text(bytes) => quoted(&text_of(bytes, is_invalid)),
        // Older senders write texts as bytes.
        Head::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => quoted(text),
            Err(_) => quoted(&STANDARD.encode(bytes)),
        },
        Head::Extension(_, bytes) => quoted(&STANDARD.encode(bytes)),
        Head::Array(_) | Head::Map(_) if depth == DEPTH_MAX => return None,
        Head::Array(elements) => {
            json.push('[');
            for element in 0..elements {
                if element > 0 {
                    json.push(',');
                }
                put(values, json, is_invalid, depth + 1)?;
            }
            json.push(']');
        }
        Head::Map(members) => {
            json.push('{');
            for member in 0..members {
                if member > 0 {
                    json.push(',');
                }
                name(values, json, is_invalid, depth)?;
                json.push(':');
                put(values, json, is_invalid, depth + 1)?;
            }
            json.push('}');
        }
    }
    Some(())
}

/// Writes the name of a member. A name that is not a text is written as JSON within quotes.
fn name(values: &mut Values<'_>, json: &mut String, is_invalid: &mut bool, depth: usize) -> Option<()> {
    let start = json.len();
    put(values, json, is_invalid, depth + 1)?;
    if json.as_bytes().get(start) != Some(&b'"') {
        let written = json.split_off(start);
        json.push_str(&serde_json::to_string(&written).unwrap_or_default());
    }
    Some(())
}

fn text_of<'a>(bytes: &'a [u8], is_invalid: &mut bool) -> Cow<'a, str> {
    let text = String::from_utf8_lossy(bytes);
    *is_invalid |= matches!(text, Cow::Owned(_));
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Taken, taken};
    use super::*;
    use crate::push::Endpoint;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// A value as MessagePack, in the forms that Fluent Bit writes.
    fn packed(value: &Value) -> Vec<u8> {
        let sized = |short: u8, short_max: usize, long: u8, length: usize| {
            if length < short_max {
                vec![short | u8::try_from(length).expect("short")]
            } else {
                [&[long][..], &u32::try_from(length).expect("of a test").to_be_bytes()].concat()
            }
        };
        match value {
            Value::Null => vec![0xc0],
            Value::Bool(truth) => vec![0xc2 + u8::from(*truth)],
            Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(number @ 0..128), ..) => vec![u8::try_from(number).expect("small")],
                (Some(number), ..) => [&[0xd3][..], &number.to_be_bytes()].concat(),
                (_, Some(number), _) => [&[0xcf][..], &number.to_be_bytes()].concat(),
                (.., number) => [&[0xcb][..], &number.expect("a number").to_be_bytes()].concat(),
            },
            Value::String(text) => [&sized(0xa0, 32, 0xdb, text.len())[..], text.as_bytes()].concat(),
            Value::Array(values) => {
                let mut bytes = sized(0x90, 16, 0xdd, values.len());
                values.iter().for_each(|value| bytes.extend(packed(value)));
                bytes
            }
            Value::Object(members) => {
                let mut bytes = sized(0x80, 16, 0xdf, members.len());
                for (name, value) in members {
                    bytes.extend([packed(&json!(name)), packed(value)].concat());
                }
                bytes
            }
        }
    }

    fn event_time(seconds: u32, nanos: u32) -> Vec<u8> {
        [&[0xd7, 0][..], &seconds.to_be_bytes(), &nanos.to_be_bytes()].concat()
    }

    fn pushed(body: &[u8]) -> Result<Taken, Refusal> {
        taken(Endpoint::Ingest, |writer| write(body, 1 << 20, writer))
    }

    #[test]
    fn fluent_bits_records_have_their_time() {
        let record = |message: &str| packed(&json!({ "log": message }));
        let time = event_time(1_763_596_845, 607_815_000);
        let old = [&[0x92][..], &time, &record("old")].concat();
        let new = [&[0x92, 0x92][..], &time, &[0x80], &record("new")].concat();
        let metadata = packed(&json!({ "a": 1 }));
        let rich = [&[0x92, 0x92][..], &time, &metadata, &record("rich")].concat();
        let own = packed(&json!([1_763_596_845, { "time": "2025-11-20T00:00:00Z", "msg": "own" }]));
        let taken = pushed(&[old, new, rich, own].concat()).expect("taken");
        assert_eq!(taken.messages(), ["old", "new", "rich", "own"]);
        assert_eq!(
            taken.shown(),
            [
                r#"192.0.2.7 2025-11-20T00:00:00Z - "own" Layout="{\"time\":\"%T(0;Y-m-d'TH:M:S)Z\",\"msg\":\"%m\"}""#,
                r#"192.0.2.7 2025-11-20T00:00:45.607815Z - "old" Layout="{\"log\":\"%m\"}""#,
                r#"192.0.2.7 2025-11-20T00:00:45.607815Z - "new" Layout="{\"log\":\"%m\"}""#,
                r#"192.0.2.7 2025-11-20T00:00:45.607815Z - "rich" metadata_a=1 Layout="{\"log\":\"%m\",\"metadata\":{\"a\":%(metadata_a)}}""#,
            ]
        );
    }

    #[test]
    fn an_array_of_records_and_records_one_after_another() {
        let records = json!([{ "message": "a" }, [1_763_596_845.5, { "message": "b" }], "c"]);
        for body in [
            packed(&records),
            records.as_array().expect("an array").iter().flat_map(packed).collect(),
            // Two pairs are an array of two records.
            packed(&json!([[1, { "message": "a" }], [2, { "message": "b" }]])),
            Vec::new(),
        ] {
            let expected: &[&str] = match body.len() {
                0 => &[],
                _ if body.starts_with(&[0x92, 0x92]) => &["a", "b"],
                _ => &["a", "b", "c"],
            };
            assert_eq!(pushed(&body).expect("taken").messages(), expected);
        }
    }

    #[test]
    fn messages_of_the_forward_protocol_in_each_mode() {
        let time = event_time(1_763_596_845, 607_815_000);
        let one = |message: &str| [&[0x92][..], &time, &packed(&json!({ "log": message }))].concat();
        let binary =
            |bytes: &[u8]| [&[0xc6][..], &u32::try_from(bytes.len()).expect("short").to_be_bytes(), bytes].concat();
        let tag = packed(&json!("app.web"));
        let options = packed(&json!({ "chunk": "p8n9gmxTQVC8", "size": 2 }));
        let record = packed(&json!({ "log": "a" }));
        let both = [one("a"), one("b")].concat();
        let gzip = {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut encoder, &both).expect("memory");
            encoder.finish().expect("memory")
        };
        let compressed = packed(&json!({ "compressed": "gzip" }));
        let text = [&[0xdb][..], &u32::try_from(both.len()).expect("short").to_be_bytes(), &both].concat();
        for (body, messages) in [
            ([&[0x93][..], &tag, &time, &record].concat(), 1),
            ([&[0x94][..], &tag, &time, &record, &options].concat(), 1),
            ([&[0x93][..], &tag, &packed(&json!(1_763_596_845)), &record].concat(), 1),
            ([&[0x92][..], &tag, &[0x92], &both].concat(), 2),
            ([&[0x93][..], &tag, &[0x92], &both, &options].concat(), 2),
            ([&[0x92][..], &tag, &binary(&both)].concat(), 2),
            ([&[0x93][..], &tag, &binary(&both), &options].concat(), 2),
            ([&[0x92][..], &tag, &text].concat(), 2),
            ([&[0x93][..], &tag, &binary(&gzip), &compressed].concat(), 2),
        ] {
            // Two messages one behind the other.
            let taken = pushed(&body.repeat(2)).unwrap_or_else(|refusal| panic!("{body:02x?}: {refusal}"));
            assert!(taken.refused().is_empty(), "{body:02x?}: {:?}", taken.refused());
            let shown = taken.shown();
            assert_eq!(shown.len(), 2 * messages, "{body:02x?}");
            let is_whole = |row: &String| row.contains("2025-11-20T00:00:45") && row.contains(" tag=\"app.web\"");
            assert!(shown.iter().all(is_whole), "{shown:?}");
        }
        for (options, status) in [(json!({ "compressed": "brotli" }), 415), (json!({ "compressed": "zstd" }), 400)] {
            let body = [&[0x93][..], &tag, &binary(&both), &packed(&options)].concat();
            assert_eq!(pushed(&body).err().map(|refusal| refusal.status()), Some(status), "{options}");
        }
        // No more than a body may have when it is decoded.
        let bomb = {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut encoder, &vec![0; 2 << 20]).expect("memory");
            encoder.finish().expect("memory")
        };
        let body = [&[0x93][..], &tag, &binary(&bomb), &compressed].concat();
        assert_eq!(pushed(&body).err().map(|refusal| refusal.status()), Some(413));
        // A line beside an event is an array of records.
        let taken = pushed(&[&[0x92][..], &tag, &one("a")].concat()).expect("taken");
        assert_eq!(taken.messages(), ["app.web", "a"]);
    }

    #[test]
    fn a_record_that_cannot_be_read_is_refused_alone() {
        let mut deep = [0x81, 0xa1, b'a'].repeat(40);
        deep.push(1);
        let mark = [&[0x92, 0x92][..], &event_time(u32::MAX, 0), &[0x80], &packed(&json!({ "message": "x" }))].concat();
        let body = [packed(&json!({ "message": "a" })), deep, vec![0xc0], mark, packed(&json!("b"))].concat();
        let taken = pushed(&body).expect("taken");
        assert_eq!(taken.messages(), ["a", "b"]);
        assert_eq!(taken.refused().iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn a_record_over_the_limit_is_cut() {
        let long = packed(&json!({ "dump": "x".repeat(RECORD_BYTES_MAX), "message": "a" }));
        let taken = pushed(&long).expect("taken");
        assert_eq!((taken.messages(), taken.refused().len()), (vec!["a".into()], 0));
        assert!(taken.shown()[0].contains("truncated=true"));
    }

    #[test]
    fn a_body_that_ends_within_a_value_is_refused_whole() {
        let body = packed(&json!([{ "message": "a" }, { "message": "b" }]));
        for length in 1..body.len() {
            assert_eq!(pushed(&body[..length]).err().map(|refusal| refusal.status()), Some(400), "{length}");
        }
        // A claim of 4 thousand million elements.
        assert!(pushed(b"\xdd\xff\xff\xff\xff").is_err());
        assert!(pushed(b"\xc1").is_err());
    }

    #[test]
    fn every_kind_of_value_is_written_as_json() {
        for (bytes, written) in [
            (&b"\xcc\xff"[..], "255"),
            (b"\xcd\xff\xff", "65535"),
            (b"\xce\xff\xff\xff\xff", "4294967295"),
            (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"),
            (b"\xff", "-1"),
            (b"\xd0\x80", "-128"),
            (b"\xd1\x80\x00", "-32768"),
            (b"\xd2\x80\x00\x00\x00", "-2147483648"),
            (b"\xca\x3d\xcc\xcc\xcd", "0.1"),
            (b"\xca\x7f\xc0\x00\x00", "\"NaN\""),
            (b"\xd9\x02\"\n", r#""\"\n""#),
            (b"\xda\x00\x01\xff", "\"\u{fffd}\""),
            (b"\xc4\x02up", "\"up\""),
            (b"\xc5\x00\x01\xff", "\"/w==\""),
            (b"\xd4\x05\xff", "\"/w==\""),
            (b"\xc7\x01\x05\xff", "\"/w==\""),
            (b"\xdc\x00\x02\xc0\xc2", "[null,false]"),
            (b"\xde\x00\x02\x07\x01\xa1a\xc3", r#"{"7":1,"a":true}"#),
        ] {
            let mut json = String::new();
            assert_eq!(Values(bytes).value().map(|value| value.0), Some(bytes), "{written}");
            assert_eq!(put(&mut Values(bytes), &mut json, &mut false, 0), Some(()), "{written}");
            assert_eq!(json, written);
        }
    }

    proptest! {
        /// Any bytes are parsed or refused.
        #[test]
        fn any_bytes(body in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(vec![0x81u8, 0x92, 0xa1, 0xd7, 0x00])], 0..64)) {
            let _ = pushed(&body);
        }

        /// Records keep their texts, with anything between them.
        #[test]
        fn records_come_back(texts in prop::collection::vec("\\PC{0,40}", 1..20), time in 100_000_000u32..4_000_000_000) {
            let record = |text: &String| packed(&json!({ "n": 1, "message": text }));
            let timed = |text: &String| [&[0x92][..], &event_time(time, 0), &record(text)].concat();
            let array = packed(&json!(texts.iter().map(|text| json!({ "message": text })).collect::<Vec<_>>()));
            for body in [texts.iter().flat_map(record).collect(), texts.iter().flat_map(timed).collect(), array] {
                prop_assert_eq!(&pushed(&body).expect("taken").messages(), &texts);
            }
        }
    }
}
