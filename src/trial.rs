//! What must hold of any bytes at all, as functions that panic where it does not: `fuzz/` calls them with what a fuzzer
//! makes up, `cargo test` with golden files that were changed at random.

use crate::journal::export::{Entries, Entry};
use crate::journal::record::EntryReading;
use crate::key::{Period, TableName};
use crate::lifecycle::Window;
use crate::parse::{Assembler, Ending, Explicit, Learned, Reading, Unsaid, explain};
use crate::push::{self, Encoding, Endpoint, Limits, Setting};
use crate::redact::{Redaction, Redactor};
use crate::route::{Condition, Route, Router};
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

/// Any bytes are the same entries of a journal, or end at the same place, in whatever pieces they come; each is a record,
/// and what is held stays within bounds. The first byte chooses the pieces.
pub fn any_export(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let pieces = usize::from(*choice % 64) + 1;
    assert_eq!(entries(bytes, bytes.len().max(1)), entries(bytes, pieces), "in pieces of {pieces}");
}

/// Bytes of an entry at most.
const ENTRY_BYTES_MAX: usize = 256;
/// What may be held of one: up to 1,024 fields, whose names are kept besides and are of 256 bytes at most.
const HELD_ENTRY_BYTES_MAX: usize = 1 << 20;

fn entries(bytes: &[u8], pieces: usize) -> (Vec<String>, bool) {
    let (reading, mut all) = (EntryReading::default(), Vec::new());
    let mut entries = Entries::new(ENTRY_BYTES_MAX);
    let mut note = |entry: Entry<'_>| {
        let read = reading.record(&entry, Ticks::UNIX_EPOCH);
        all.push(format!("{} {:?} {:?}", entry.cut, read.origin, read.record));
    };
    let fed = bytes.chunks(pieces).try_for_each(|piece| {
        let fed = entries.feed(piece, &mut note);
        assert!(entries.held() <= HELD_ENTRY_BYTES_MAX, "{} bytes are held", entries.held());
        fed
    });
    let ended = fed.and_then(|()| entries.finish(&mut note));
    (all, ended.is_ok())
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

/// Records of a pushed body at most.
const PUSHED_MAX: usize = 64;

/// How bodies are read; none where it cannot be set up, which it can.
static PUSHED: LazyLock<Option<Setting>> = LazyLock::new(|| {
    let table = TableName::new("Log").ok()?;
    let window = Window { keep: std::time::Duration::from_secs(86_400), period: Period::Day };
    let route = Route { table, window, buckets: std::num::NonZeroU16::MIN, when: Condition::Always };
    let limits = Limits {
        body_bytes_max: 64 << 10,
        decoded_bytes_max: 64 << 10,
        bodies_bytes_max: 256 << 10,
        records_max: PUSHED_MAX,
        ..Limits::default()
    };
    Some(Setting::new(Router::new(vec![route]), Reading::default(), limits))
});

/// Any bytes pushed to any endpoint, in any form and encoding, give records within the limits or are refused. The first
/// byte chooses the endpoint and the form, the second the encoding.
pub fn any_push(bytes: &[u8]) {
    let ([choice, encoding, body @ ..], Some(setting)) = (bytes, &*PUSHED) else { return };
    let forms = [
        (Endpoint::Ingest, "application/json"),
        (Endpoint::Ingest, "application/x-ndjson"),
        (Endpoint::Ingest, "text/plain"),
        (Endpoint::Ingest, ""),
        (Endpoint::Otlp, "application/x-protobuf"),
        (Endpoint::Otlp, "application/json"),
        (Endpoint::Loki, "application/x-protobuf"),
        (Endpoint::Loki, "application/json"),
        (Endpoint::Bulk, ""),
        (Endpoint::Journal, ""),
    ];
    let encodings = [Encoding::Identity, Encoding::Gzip, Encoding::Deflate, Encoding::Zstd, Encoding::Snappy];
    let (endpoint, media) = forms[usize::from(*choice) % forms.len()];
    let encoding = encodings[usize::from(*encoding) % encodings.len()];
    let taken = push::trial(endpoint, media, encoding, body, setting);
    if endpoint != Endpoint::Journal {
        assert!(taken.is_err() || taken.is_ok_and(|records| records <= PUSHED_MAX), "more records than their limit");
    }
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

/// Any bytes are an answer of Azure Table storage or of nobody, never a success of more entities than are answered for.
/// The first byte says how many were sent.
pub fn any_answer(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    crate::azure::trial(usize::from(choice % 4) + 1, bytes);
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

        /// What holds of any bytes of a journal's export holds of what is nearly one.
        #[test]
        fn exports(choice in any::<u8>(), text in "(__CURSOR=s=a;i=[0-9a-f]{1,3}\n|MESSAGE=[a-z{}\"]{0,9}\n|MESSAGE\n[\x00-\x0a]\x00{7}|PRIORITY=[0-9]\n|[A-Z_=]{0,5}|\n){0,30}") {
            any_export(&[&[choice], text.as_bytes()].concat());
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

        /// What is nearly a body of one of the protocols gives records or is refused.
        #[test]
        fn pushes(choice in any::<u8>(), text in "(\\[?\\{\"(resourceLogs|scopeLogs|logRecords|streams|values|create|index|message|body)\":(\\[|\\{|\"[a-z]{0,3}\"|7)?|\"(stringValue|kvlistValue|timeUnixNano)\":|[\\]}]{1,4},?|__CURSOR=[a-z]\n|M\n\x01\x00\x00\x00\x00\x00\x00\x00|[\n,a]){0,20}") {
            any_push(&[&[choice, 0], text.as_bytes()].concat());
        }

        /// What is nearly an answer of Azure Table storage is one or is none.
        #[test]
        fn answers(choice in any::<u8>(), text in "(--batchresponse_1(--)?\r?\n|Content-Type: (multipart/mixed; boundary=batchresponse_1|application/http)\r?\n|\r?\n|HTTP/1.1 (204|404|x)\r?\n|\\{\"(value|odata.error)\":|\\[|\\{\"(code|message|TableName|A|A@odata.type)\":(\"[0-9]:?\"|1e9|null|\"Edm.Guid\")|[\\]}]{1,3},?|<code>|</a>|[<&>a-z]){0,30}") {
            any_answer(&[&[choice], text.as_bytes()].concat());
        }

        /// What holds of any bytes holds of noise.
        #[test]
        fn noise(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b' '), Just(b'"')], 0..300)) {
            any_bytes(&bytes);
            any_time(&bytes);
            any_pattern(&bytes);
            any_answer(&bytes);
            any_stream(&bytes);
            any_export(&bytes);
            any_push(&bytes);
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
