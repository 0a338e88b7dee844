//! What must hold of any bytes at all, as functions that panic where it does not: `fuzz/` calls them with what a fuzzer
//! makes up, `cargo test` with golden files that were changed at random.

use crate::parse::{Assembler, Ending, Explicit, Learned, Reading, Unsaid, explain};
use crate::redact::{Redaction, Redactor};
use crate::store::sealed::SealedFile;
use crate::store::{CountBy, Range};
use crate::syslog::framing::{Framer, Message};
use crate::syslog::relp::Frames;
use crate::time::Ticks;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// Bytes of a record at most, so few that a made-up file comes to that limit.
const BYTES_MAX: usize = 4096;

/// How bytes are read, by the first of them: as by default, with every preset of redaction, by each format by its name.
static READINGS: LazyLock<Vec<Reading>> = LazyLock::new(|| {
    let redactor = Redactor::new(Redaction::presets().filter_map(Redaction::preset));
    let mut readings = vec![Reading::default(), Reading { redactor, ..Reading::default() }];
    for format in crate::parse::FormatChoice::all() {
        readings.push(Reading { format, ..Reading::default() });
    }
    let mut by_pattern = Reading::default();
    // A pattern that is none leaves the default, which does no harm here.
    let _ = by_pattern.set_format("grok:%{TIMESTAMP_ISO8601:time} %{LOGLEVEL:level} %{GREEDYDATA:message}");
    readings.push(by_pattern);
    readings
});

/// Any bytes give records, the way the tailer reads them. The first byte chooses how they are read and where they are
/// cut in two; cut or not, they give the same records, and of each line that is not empty some record has the start.
pub fn any_bytes(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let choice = usize::from(*choice);
    let reading = &READINGS[choice % READINGS.len()];
    let whole = records(bytes, reading, bytes.len());
    let cut = if bytes.is_empty() { 0 } else { choice * 31 % bytes.len() };
    let parts = records(bytes, reading, cut);
    assert_eq!(whole, parts, "cut at {cut}, the records are others");
}

/// Any bytes of a connection give the same messages, or the same frames of RELP, however they come, none over its limit,
/// and what is held of one that is not whole stays within bounds. The first byte chooses the pieces.
pub fn any_stream(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let pieces = usize::from(*choice % 64) + 1;
    assert_eq!(messages(bytes, bytes.len().max(1)), messages(bytes, pieces), "in pieces of {pieces}");
    assert_eq!(frames(bytes, bytes.len().max(1)), frames(bytes, pieces), "in pieces of {pieces}");
}

/// Bytes of a message at most.
const MESSAGE_BYTES_MAX: usize = 256;
/// What may be held of one.
const HELD_BYTES_MAX: usize = 16 << 10;

fn messages(bytes: &[u8], pieces: usize) -> Vec<(Vec<u8>, usize)> {
    let (mut framer, mut all) = (Framer::default(), Vec::new());
    let mut note = |message: Message<'_>| all.push((message.bytes.to_vec(), message.cut));
    for piece in bytes.chunks(pieces) {
        framer.feed(piece, MESSAGE_BYTES_MAX, &mut note);
        assert!(framer.held() <= HELD_BYTES_MAX, "{} bytes are held", framer.held());
    }
    framer.finish(MESSAGE_BYTES_MAX, &mut note);
    assert!(all.iter().all(|(kept, _)| kept.len() <= MESSAGE_BYTES_MAX));
    all
}

fn frames(bytes: &[u8], pieces: usize) -> (Vec<(u32, Vec<u8>, usize)>, bool) {
    let (mut frames, mut all) = (Frames::default(), Vec::new());
    let is_relp = bytes.chunks(pieces).all(|piece| {
        let fed = frames.feed(piece, MESSAGE_BYTES_MAX, |frame| {
            all.push((frame.transaction, frame.data.to_vec(), frame.cut));
        });
        assert!(frames.held() <= HELD_BYTES_MAX, "{} bytes are held", frames.held());
        fed.is_ok()
    });
    (all, is_relp)
}

/// The records of bytes that come in two pieces, as `format time level message fields`.
fn records(bytes: &[u8], reading: &Reading, cut: usize) -> Vec<(usize, String)> {
    let seen = Ticks::from_date(2026, 11, 21).unwrap_or_default();
    let mut learned = Learned::default();
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
        while let Some(raw) = assembler.next(&learned, reading) {
            let start = at + raw.start;
            let parsed = learned.record(&raw.text, raw.envelope, reading, seen);
            let parts = explain(&raw.text, &parsed, &Unsaid { zone: reading.zone, seen });
            for part in parts.iter().filter_map(|part| part.bytes.clone()) {
                assert!(raw.text.get(part.clone()).is_some(), "{part:?} is no part of {:?}", raw.text);
            }
            if let Cow::Borrowed(message) = &parsed.record.message {
                assert!(raw.text.contains(message) || message.is_empty(), "{message:?} is not of {:?}", raw.text);
            }
            all.push((start, format!("{:?} {:?}", parsed.format, parsed.record)));
        }
        at += assembler.consumed();
        // What was learnt travels as text.
        learned = Learned::restore(&learned.save());
    }
    all
}

/// Any text reads as a time or as none, in any zone.
pub fn any_time(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (zone, text) = text.split_once('\n').unwrap_or(("UTC", &text));
    let reading = Reading { zone: zone.parse().unwrap_or_default(), ..Reading::default() };
    let seen = Ticks::from_date(2026, 11, 21).unwrap_or_default();
    let parsed = Learned::default();
    for text in
        [text, &format!("{text} INFO up"), &format!("{{\"time\":\"{text}\"}}"), &format!("<13>{text} host app: up")]
    {
        let parsed = parsed.clone().record(text, Default::default(), &reading, seen).record;
        if let Some(time) = parsed.time {
            assert!((1969..=9999).contains(&time.date().year), "{text:?} is {time}");
        }
    }
}

/// Any pattern compiles or is refused at a place that it has, and matches any text in the time of its length. The lines
/// are a pattern, one that it may refer to as `OWN`, and what it is to match.
pub fn any_pattern(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.splitn(3, '\n');
    let (pattern, own, line) =
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let patterns = BTreeMap::from([("OWN".to_owned(), own.to_owned())]);
    for made in [Explicit::grok(pattern, patterns), Explicit::regex(pattern)] {
        match made {
            Ok(explicit) => {
                let reading = Reading { explicit: Some(explicit), ..Reading::default() };
                Learned::default().record(line, Default::default(), &reading, Ticks::UNIX_EPOCH);
            }
            Err(error) => {
                let of = if error.of.is_some() { own } else { pattern };
                assert!(of.is_char_boundary(error.at), "{} is no place of {of:?}", error.at);
                assert!(!error.to_string().is_empty());
            }
        }
    }
    if let Ok(redaction) = Redaction::regex("own", pattern, None) {
        let reading = Reading { redactor: Redactor::new([redaction]), ..Reading::default() };
        Learned::default().record(line, Default::default(), &reading, Ticks::UNIX_EPOCH);
    }
}

/// Any bytes are a sealed day that reads to its end, or an error that says what is wrong with them: never a panic that
/// leaves the reader.
pub fn any_sealed(bytes: &[u8]) {
    let source = Arc::new(bytes::Bytes::copy_from_slice(bytes));
    let file = match SealedFile::open(source, Path::new("any.parquet")) {
        Ok(file) => file,
        Err(error) => return assert!(error.to_string().contains("any.parquet"), "{error}"),
    };
    let all = Range { partitions: None, from: Ticks::MIN, to: Ticks::MAX, contains: None };
    let rows = file.scan(&all).take_while(Result::is_ok).count() as u64;
    assert!(rows <= file.rows(), "{rows} rows of {}", file.rows());
    let _ = file.counts(&all, CountBy::Partition, &mut |_| {});
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every golden input.
    fn corpus() -> Vec<Vec<u8>> {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let files = walkdir::WalkDir::new(golden).sort_by_file_name().into_iter().filter_map(Result::ok);
        let inputs = files.filter(|file| file.file_type().is_file());
        inputs
            .filter_map(|file| std::fs::read(file.path()).ok())
            .map(|bytes| bytes[..bytes.len().min(8192)].to_vec())
            .collect()
    }

    /// A change of some bytes: others in their place, a piece taken out, a piece given twice.
    fn change(bytes: &mut Vec<u8>, (at, length, with): (usize, usize, Vec<u8>)) {
        let at = at % (bytes.len() + 1);
        let end = (at + length).min(bytes.len());
        if with.is_empty() {
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        } else {
            bytes.splice(at..end, with);
        }
    }

    #[test]
    fn golden_files_as_they_are() {
        let corpus = corpus();
        assert!(!corpus.is_empty());
        for bytes in corpus {
            for choice in 0..READINGS.len() {
                any_bytes(&[&[u8::try_from(choice).unwrap_or(0)], &bytes[..]].concat());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// What holds of any bytes of a connection holds of messages and frames, whole ones and others.
        #[test]
        fn streams(choice in any::<u8>(), text in "([0-9]{1,3} (<[0-9]{1,3}>|open |syslog |close )|[a-z0-9 ]{0,9}|<[0-9]{1,3}>|\n|\x00){0,30}") {
            any_stream(&[&[choice], text.as_bytes()].concat());
        }

        /// What holds of any bytes holds of golden files that were changed.
        #[test]
        fn golden_files_changed(file in any::<prop::sample::Index>(), choice in any::<u8>(),
                                changes in prop::collection::vec((any::<usize>(), 0usize..40, prop::collection::vec(any::<u8>(), 0..6)), 0..6)) {
            static CORPUS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(corpus);
            let mut bytes = file.get(&CORPUS).clone();
            for one in changes {
                change(&mut bytes, one);
            }
            bytes.insert(0, choice);
            any_bytes(&bytes);
        }

        /// What holds of any bytes holds of noise.
        #[test]
        fn noise(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b' '), Just(b'"')], 0..300)) {
            any_bytes(&bytes);
            any_time(&bytes);
            any_pattern(&bytes);
            any_stream(&bytes);
        }

        /// Patterns that come close to being one.
        #[test]
        fn near_patterns(text in "([a-z(){}?*+|^$.\\[\\]\\\\%:]|%\\{[A-Z0-9_]{1,9}(:[a-z]{1,4})?\\}|\\(\\?P<[a-z]{1,3}>|\n){0,30}") {
            any_pattern(text.as_bytes());
        }

        /// Times that come close to being one.
        #[test]
        fn near_times(text in "(Europe/Paris\n|\\+05:30\n)?([0-9]{1,4}|[-/:., T]|Nov|Fri|Z|PM|\\+01:00|CET){0,14}") {
            any_time(text.as_bytes());
        }
    }
}
