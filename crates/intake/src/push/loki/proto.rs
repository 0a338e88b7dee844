//! Loki's protocol buffers: `logproto.PushRequest`.
//!
//! ```text
//! PushRequest    streams = 1
//! Stream         labels = 1 (text), entries = 2
//! Entry          timestamp = 1 (seconds = 1, nanos = 2), line = 2, structuredMetadata = 3 (name = 1, value = 2)
//! ```

use super::super::taking::Taking;
use super::super::wire::{Wire, WireError, fields};
use super::{Entry, Refusal, Stream, labels};
use daytable_model::time::Ticks;
use std::borrow::Cow;

/// Takes a message apart.
pub(super) fn take(message: &[u8], taking: &mut Taking<'_>) -> Result<(), Refusal> {
    for field in fields(message) {
        let (number, value) = field.map_err(|error| bad(taking, error))?;
        if number == 1 {
            let bytes = value.bytes().map_err(|error| bad(taking, error))?;
            stream(bytes, taking)?;
        }
    }
    Ok(())
}

fn bad(taking: &Taking<'_>, error: WireError) -> Refusal {
    Refusal::bad_at(taking.index(), format!("the body is no push request: {error}"))
}

fn stream(message: &[u8], taking: &mut Taking<'_>) -> Result<(), Refusal> {
    // Labels first: nothing says that they come first on the wire.
    let mut written: Cow<'_, str> = Cow::Borrowed("");
    for field in fields(message) {
        if let (1, value) = field.map_err(|error| bad(taking, error))? {
            written = value.text().map_err(|error| bad(taking, error))?;
        }
    }
    let labels = match labels::parse(&written) {
        Some(labels) => labels.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        None if written.is_empty() => Vec::new(),
        None => vec![("labels".into(), written)],
    };
    let stream = Stream::new(labels, taking);
    for field in fields(message) {
        if let (2, value) = field.map_err(|error| bad(taking, error))? {
            let entry = entry(value).map_err(|error| bad(taking, error))?;
            stream.write(entry, taking)?;
        }
    }
    Ok(())
}

fn entry(value: Wire<'_>) -> Result<Entry<'_>, WireError> {
    let mut entry = Entry { time: None, line: Cow::Borrowed(""), metadata: Vec::new() };
    for field in fields(value.bytes()?) {
        match field? {
            (1, value) => entry.time = time(value)?,
            (2, value) => entry.line = value.text()?,
            (3, value) => {
                let (mut name, mut text) = (Cow::Borrowed(""), Cow::Borrowed(""));
                for field in fields(value.bytes()?) {
                    match field? {
                        (1, value) => name = value.text()?,
                        (2, value) => text = value.text()?,
                        _ => {}
                    }
                }
                entry.metadata.push((name, text));
            }
            _ => {}
        }
    }
    Ok(entry)
}

/// A `google.protobuf.Timestamp`; none where it is zero, which nobody means, or out of range.
fn time(value: Wire<'_>) -> Result<Option<Ticks>, WireError> {
    let (mut seconds, mut nanos) = (0i64, 0u64);
    for field in fields(value.bytes()?) {
        match field? {
            (1, value) => seconds = value.varint()?.cast_signed(),
            (2, value) => nanos = value.varint()?,
            _ => {}
        }
    }
    let nanos = u32::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    Ok(nanos.and_then(|nanos| Ticks::from_unix(seconds, nanos)).filter(|time| *time != Ticks::UNIX_EPOCH))
}
