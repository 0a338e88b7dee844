//! Properties of bytes from a socket: messages and frames of syslog, a journal's entries, pushed bodies, and answers of
//! Azure Table storage.

use daytable_intake::journal::export::{JournalEntry, JournalParser};
use daytable_intake::journal::record::JournalReading;
use daytable_intake::push::{self, Encoding, Endpoint, PushLimits, PushSettings};
use daytable_intake::route::{Condition, Route, Router};
use daytable_intake::syslog::framing::{Framer, SyslogMessage};
use daytable_intake::syslog::relp::RelpFramer;
use daytable_model::key::{Period, TableName};
use daytable_model::time::Ticks;
use daytable_model::window::Window;
use daytable_parse::ParseOptions;
use std::io::Write;
use std::sync::LazyLock;

/// Any bytes of a connection give the same messages or RELP frames, in any pieces. No message exceeds the limit, and
/// the buffer for an incomplete message stays bounded. The first byte selects the pieces.
pub(super) fn any_stream(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let pieces = usize::from(*choice % 64) + 1;
    assert_eq!(messages(bytes, bytes.len().max(1)), messages(bytes, pieces), "in pieces of {pieces}");
    assert_eq!(frames(bytes, bytes.len().max(1)), frames(bytes, pieces), "in pieces of {pieces}");
}

/// Any bytes are the same journal entries, or end at the same place, in any pieces. Each entry is a record, and the
/// buffer stays bounded. The first byte selects the pieces.
pub(super) fn any_export(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let pieces = usize::from(*choice % 64) + 1;
    assert_eq!(entries(bytes, bytes.len().max(1)), entries(bytes, pieces), "in pieces of {pieces}");
}

/// Maximum bytes of an entry.
const ENTRY_BYTES_MAX: usize = 256;
/// Maximum buffer for an entry: up to 1,024 fields, plus their names of at most 256 bytes.
const HELD_ENTRY_BYTES_MAX: usize = 1 << 20;

fn entries(bytes: &[u8], pieces: usize) -> (Vec<String>, bool) {
    let (reading, mut all) = (JournalReading::default(), Vec::new());
    let mut entries = JournalParser::new(ENTRY_BYTES_MAX);
    let mut note = |entry: JournalEntry<'_>| {
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

/// Maximum bytes of a message.
const MESSAGE_BYTES_MAX: usize = 256;
/// Maximum buffer for a message.
const HELD_BYTES_MAX: usize = 16 << 10;

fn messages(bytes: &[u8], pieces: usize) -> Vec<(Vec<u8>, usize)> {
    let (mut framer, mut all) = (Framer::default(), Vec::new());
    let mut note = |message: SyslogMessage<'_>| all.push((message.bytes.to_vec(), message.cut));
    for piece in bytes.chunks(pieces) {
        framer.feed(piece, MESSAGE_BYTES_MAX, &mut note);
        assert!(framer.held() <= HELD_BYTES_MAX, "{} bytes are held", framer.held());
    }
    framer.finish(MESSAGE_BYTES_MAX, &mut note);
    assert!(all.iter().all(|(kept, _)| kept.len() <= MESSAGE_BYTES_MAX));
    all
}

fn frames(bytes: &[u8], pieces: usize) -> (Vec<(u32, Vec<u8>, usize)>, bool) {
    let (mut frames, mut all) = (RelpFramer::default(), Vec::new());
    let is_relp = bytes.chunks(pieces).all(|piece| {
        let fed = frames.feed(piece, MESSAGE_BYTES_MAX, |frame| {
            all.push((frame.transaction, frame.data.to_vec(), frame.cut));
        });
        assert!(frames.held() <= HELD_BYTES_MAX, "{} bytes are held", frames.held());
        fed.is_ok()
    });
    (all, is_relp)
}

/// Maximum records of a pushed body.
const PUSHED_MAX: usize = 64;

/// The settings for reading bodies. `None` if the setup fails.
static PUSHED: LazyLock<Option<PushSettings>> = LazyLock::new(|| {
    let table = TableName::new("Log").ok()?;
    let window = Window { keep: std::time::Duration::from_secs(86_400), period: Period::Day };
    let route = Route { table, window, buckets: std::num::NonZeroU16::MIN, when: Condition::ALWAYS };
    let limits = PushLimits {
        body_bytes_max: 64 << 10,
        decoded_bytes_max: 64 << 10,
        bodies_bytes_max: 256 << 10,
        records_max: PUSHED_MAX,
        ..PushLimits::default()
    };
    Some(PushSettings::new(Router::new(vec![route]), ParseOptions::default(), limits))
});

/// The endpoints, each with the content types that choose between its decoders. A new row stands at the end: the first byte of an
/// input chooses one.
const FORMS: [(Endpoint, &str); 11] = [
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
    (Endpoint::Ingest, "application/msgpack"),
];

/// Any bytes pushed to any endpoint, in any form and encoding, give records within the limits or are refused. The first
/// byte selects the endpoint and the form, the second the encoding. The bytes are decoded as they are, or encoded
/// first, so that random bytes get past the decoders.
pub(super) fn any_push(bytes: &[u8]) {
    let ([choice, encoding, body @ ..], Some(setting)) = (bytes, &*PUSHED) else { return };
    let encodings = [Encoding::Identity, Encoding::Gzip, Encoding::Deflate, Encoding::Zstd, Encoding::Snappy];
    let (endpoint, media) = FORMS[usize::from(*choice) % FORMS.len()];
    let is_small = *encoding >= 128;
    let encoding = encodings[usize::from(*encoding % 128) % encodings.len()];
    let packed = if is_small { packed(encoding, body) } else { None };
    let taken = push::count_records(endpoint, media, encoding, packed.as_deref().unwrap_or(body), setting);
    if endpoint != Endpoint::Journal {
        assert!(taken.is_err() || taken.is_ok_and(|records| records <= PUSHED_MAX), "more records than their limit");
    }
}

/// Any bytes are an answer of Azure Table storage or are refused. An answer never acknowledges more entities than were
/// sent. The first byte gives the number of sent entities.
pub(super) fn any_answer(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    daytable_azure::testing::assert_answers(usize::from(choice % 4) + 1, bytes);
}

/// `body` in an encoding, as a client sends it. `None` if the encoding fails.
fn packed(encoding: Encoding, body: &[u8]) -> Option<Vec<u8>> {
    let fast = flate2::Compression::fast();
    match encoding {
        Encoding::Identity => None,
        Encoding::Gzip => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), fast);
            out.write_all(body).ok()?;
            out.finish().ok()
        }
        Encoding::Deflate => {
            let mut out = flate2::write::ZlibEncoder::new(Vec::new(), fast);
            out.write_all(body).ok()?;
            out.finish().ok()
        }
        Encoding::Zstd => zstd::bulk::compress(body, 1).ok(),
        Encoding::Snappy => snap::raw::Encoder::new().compress_vec(body).ok(),
    }
}

/// Any bytes are a body with rows of another daytable, or an error; also with checksums that are right.
pub(super) fn any_forward(bytes: &[u8]) {
    daytable_store::forward::samples::assert_body(bytes);
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, FORMS};

    #[test]
    fn every_endpoint_has_a_form() {
        for endpoint in Endpoint::ALL {
            assert!(FORMS.iter().any(|(of, _)| *of == endpoint), "{endpoint:?} has no row in the forms");
        }
    }
}
