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
            let parts = explain(&raw.text, &parsed, &TimestampDefaults { zone: reading.zone, seen });
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
