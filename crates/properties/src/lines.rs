//! Properties of file lines: their records and times, and the patterns of a configuration.

use super::seen;
use daytable_model::record::Record;
use daytable_model::time::Ticks;
use daytable_parse::redact::{Redaction, Redactor};
use daytable_parse::{Assembler, Ending, Explicit, ParseOptions, SourceProfile, TimestampDefaults, explain};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Maximum bytes of a record: so few that a random file reaches the limit.
const BYTES_MAX: usize = 4096;

/// Parse options, selected by the first byte: the default, every preset of redaction, each format by name.
pub(super) static READINGS: LazyLock<Vec<ParseOptions>> = LazyLock::new(|| {
    let redactor = Redactor::new(Redaction::presets().filter_map(Redaction::preset));
    let mut readings = vec![ParseOptions::default(), ParseOptions { redactor, ..ParseOptions::default() }];
    for format in daytable_parse::FormatChoice::all() {
        readings.push(ParseOptions { format, ..ParseOptions::default() });
    }
    let mut by_pattern = ParseOptions::default();
    // A refused pattern leaves the default, which does no harm here.
    let _ = by_pattern.set_format("grok:%{TIMESTAMP_ISO8601:time} %{LOGLEVEL:level} %{GREEDYDATA:message}");
    readings.push(by_pattern);
    readings
});

/// A secret that no input has, and options that replace it.
const SECRET: &str = "zq7hidden4711";
static WITH_SECRET: LazyLock<ParseOptions> = LazyLock::new(|| {
    let own = Redaction::regex("own", "zq7hidden[0-9]{4}", None).ok();
    ParseOptions { redactor: Redactor::new(own), ..ParseOptions::default() }
});

/// Any bytes give records, read as the tailer reads them. The first byte selects the options and the place of a cut.
/// The cut changes no record, and some record has the start of each non-empty line.
pub(super) fn any_bytes(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let choice = usize::from(*choice);
    let reading = &READINGS[choice % READINGS.len()];
    let whole = records(bytes, reading, bytes.len());
    let cut = if bytes.is_empty() { 0 } else { choice * 31 % bytes.len() };
    let parts = records(bytes, reading, cut);
    assert_eq!(whole, parts, "cut at {cut}, the records are others");
    any_secret(choice, bytes);
}

/// A secret in any bytes, with any escapes, is in nothing that can be read of their records.
fn any_secret(choice: usize, bytes: &[u8]) {
    let mut at = if bytes.is_empty() { 0 } else { choice * 47 % bytes.len() };
    // Not within a character.
    while at < bytes.len() && bytes[at] & 0xc0 == 0x80 {
        at += 1;
    }
    let spelled = |c: char| match (choice + c as usize) % 5 {
        0 => format!("\\u{:04x}", u32::from(c)),
        1 => format!("\\\\u{:04x}", u32::from(c)),
        2 => format!("\\\\\\\\x{:02X}", u32::from(c)),
        _ => c.to_string(),
    };
    let secret: String =
        if choice.is_multiple_of(2) { SECRET.to_owned() } else { SECRET.chars().map(spelled).collect() };
    let bytes = [&bytes[..at], secret.as_bytes(), &bytes[at..]].concat();
    let reading = &*WITH_SECRET;
    let mut profile = SourceProfile::default();
    let mut assembler = Assembler::new(&bytes, 0, BYTES_MAX, reading, Ending::Closed);
    while let Some(raw) = assembler.next(&profile, reading) {
        let record = profile.raw_record(&raw, reading, seen()).record;
        let line = record.line.as_deref().into_iter();
        let mut texts: Vec<String> = line.flat_map(|line| [line.layout.to_string(), line.verbatim.clone()]).collect();
        texts.extend(record.line.iter().map(|line| line.text.to_string()));
        texts.push(record.message.to_string());
        texts.extend(
            record.fields.iter().filter_map(|field| Some(format!("{} {}", field.name, record.text(&field.name)?))),
        );
        texts.push(profile.save());
        for text in texts {
            assert!(!is_read_as_secret(&text), "{text:?} has the secret, of {:?}", raw.text);
        }
    }
}

/// Whether a text has the secret after some of its escapes were decoded.
fn is_read_as_secret(text: &str) -> bool {
    let mut text = text.to_owned();
    for _ in 0..8 {
        if text.contains(SECRET) {
            return true;
        }
        let (mut decoded, mut rest) = (String::new(), text.as_str());
        while let Some((before, escape)) = rest.split_once('\\') {
            decoded.push_str(before);
            let number = |digits: Option<&str>| char::from_u32(u32::from_str_radix(digits?, 16).ok()?);
            let character = match escape.as_bytes().first() {
                Some(b'u') => number(escape.get(1..5)).map(|character| (character, 5)),
                Some(b'x') => number(escape.get(1..3)).map(|character| (character, 3)),
                Some(b'\\') => Some(('\\', 1)),
                _ => None,
            };
            let (character, length) = character.unwrap_or(('\\', 0));
            decoded.push(character);
            rest = &escape[length..];
        }
        decoded.push_str(rest);
        text = decoded;
    }
    text.contains(SECRET)
}

/// The records of bytes in two pieces, as `format time level message fields`.
fn records(bytes: &[u8], reading: &ParseOptions, cut: usize) -> Vec<(usize, String)> {
    let seen = seen();
    let mut profile = SourceProfile::default();
    let (mut all, mut at) = (Vec::new(), 0);
    for (end, ending) in [(cut, Ending::Open), (bytes.len(), Ending::Closed)] {
        let whole = match ending {
            Ending::Open => bytes[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1),
            Ending::Closed => end,
        };
        if whole < at {
            continue;
        }
        let mut assembler = Assembler::new(&bytes[at..whole], end - whole, BYTES_MAX, reading, ending);
        while let Some(raw) = assembler.next(&profile, reading) {
            let start = at + raw.start;
            let parsed = profile.raw_record(&raw, reading, seen);
            let parts = explain(
                &raw.text,
                &parsed,
                &TimestampDefaults { zone: reading.zone, seen, ..TimestampDefaults::default() },
            );
            for part in parts.iter().filter_map(|part| part.bytes.clone()) {
                assert!(raw.text.get(part.clone()).is_some(), "{part:?} is no part of {:?}", raw.text);
            }
            if let Cow::Borrowed(message) = &parsed.record.message {
                assert!(raw.text.contains(message) || message.is_empty(), "{message:?} is not of {:?}", raw.text);
            }
            // Where a cut lies decides which layouts are known. The bytes that a layout gives are the same.
            let line = parsed.record.line.as_ref().map(|line| line.text.to_string());
            let record = Record { line: None, ..parsed.record };
            all.push((start, format!("{:?} {record:?} {line:?}", parsed.format)));
        }
        at += assembler.consumed();
        // The profile profile is stored as text.
        profile = SourceProfile::restore(&profile.save());
    }
    all
}

/// Any text is a time or no time, in any zone.
pub(super) fn any_time(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (zone, text) = text.split_once('\n').unwrap_or(("UTC", &text));
    let reading = ParseOptions { zone: zone.parse().unwrap_or_default(), ..ParseOptions::default() };
    let seen = seen();
    let parsed = SourceProfile::default();
    for text in
        [text, &format!("{text} INFO up"), &format!("{{\"time\":\"{text}\"}}"), &format!("<13>{text} host app: up")]
    {
        let parsed = parsed.clone().record(text, Default::default(), &reading, seen).record;
        if let Some(time) = parsed.time {
            assert!((1969..=9999).contains(&time.date().year), "{text:?} is {time}");
        }
    }
}

/// Any pattern compiles, or is refused with a position inside the pattern. Matching takes time linear in the text. The
/// lines are a pattern, a pattern to reference as `OWN`, and the text to match.
pub(super) fn any_pattern(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.splitn(3, '\n');
    let (pattern, own, line) =
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let patterns = BTreeMap::from([("OWN".to_owned(), own.to_owned())]);
    for made in [Explicit::grok(pattern, patterns), Explicit::regex(pattern)] {
        match made {
            Ok(explicit) => {
                let reading = ParseOptions { explicit: Some(explicit), ..ParseOptions::default() };
                SourceProfile::default().record(line, Default::default(), &reading, Ticks::UNIX_EPOCH);
            }
            Err(error) => {
                let of = if error.of.is_some() { own } else { pattern };
                assert!(of.is_char_boundary(error.at), "{} is no place of {of:?}", error.at);
                assert!(!error.to_string().is_empty());
            }
        }
    }
    if let Ok(redaction) = Redaction::regex("own", pattern, None) {
        let reading = ParseOptions { redactor: Redactor::new([redaction]), ..ParseOptions::default() };
        SourceProfile::default().record(line, Default::default(), &reading, Ticks::UNIX_EPOCH);
    }
}
