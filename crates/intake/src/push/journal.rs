//! `POST /upload`:
//! [systemd-journal-upload](https://www.freedesktop.org/software/systemd/man/latest/systemd-journal-upload.service.html), which
//! sends the journal export format for as long as entries come.
//!
//! The length of such a body is unknown. It is read as it arrives and committed in pieces. The answer follows the last
//! commit. If an upload breaks off, committed entries stay, and the client repeats the whole upload. The key of an entry
//! derives from its `__CURSOR`, so a repeated entry overwrites itself.
//!
//! Entries are parsed like those of a `[[journal]]` block ([`crate::journal`]), so an entry becomes the same record either way.
//! Its key is bound to the sender. The instance is `_HOSTNAME`, else the sender's address.

use super::request_writer::{InstanceRule, RequestRows, RequestWriter};
use super::unread_parts::BodyPlace;
use super::{PushRequest, PushSettings, Refusal};
use crate::counters::count;
use crate::journal::export::{JournalEntry, JournalParser};
use crate::journal::record::{JournalReading, JournalRecord};
use crate::record_writer::begin_source;
use daytable_model::key::POSITION_MAX;
use daytable_model::time;
use std::io::{BufRead, ErrorKind};

/// The bytes of an entry.
const ENTRY_BYTES_MAX: usize = 1 << 20;
/// The bytes of rows of one commit.
const PIECE_BYTES: usize = 1 << 20;

/// Reads entries from a decoded body until its end, and passes each piece to `hand_over`.
///
/// # Errors
///
/// The body is malformed, or `hand_over` fails.
pub(super) fn read(
    settings: &PushSettings,
    request: &PushRequest,
    mut body: impl BufRead,
    mut hand_over: impl FnMut(RequestRows) -> Result<(), Refusal>,
) -> Result<u64, Refusal> {
    let reading = JournalReading::new(settings.lines.clone());
    let mut writer = RequestWriter::new(settings, request, begin_source(settings.router.host()), time::now());
    let mut entries = JournalParser::new(ENTRY_BYTES_MAX);
    let (mut total, mut in_piece) = (0u64, 0);
    let ended = loop {
        let mut refused = Ok(());
        let mut each = |entry: JournalEntry<'_>| {
            if refused.is_err() {
                return;
            }
            // Each piece begins with index 0, so an upload never reaches the limit of a request.
            writer.now = time::now();
            refused = write(&entry, &reading, total, &mut writer);
            total += 1;
            in_piece += 1;
            if refused.is_ok() && (writer.bytes() >= PIECE_BYTES || in_piece >= settings.limits.records_max) {
                refused = hand_over(writer.take_rows());
                in_piece = 0;
            }
        };
        let (fed, read) = match body.fill_buf() {
            Ok([]) => (entries.finish(&mut each), 0),
            Ok(bytes) => (entries.feed(bytes, &mut each), bytes.len()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                break Err(Refusal::Slow(settings.limits.body_timeout.as_secs()));
            }
            Err(error) => break Err(Refusal::bad(format!("the body cannot be read: {error}"))),
        };
        refused?;
        for _ in 0..entries.take_without_fields() {
            writer.note_unread("an entry without a field of a valid name");
        }
        if let Err(error) = fed {
            break Err(Refusal::Bad { reason: error.to_string().into(), index: usize::try_from(total).ok() });
        }
        if read == 0 {
            break Ok(());
        }
        body.consume(read);
    };
    let begun = BodyPlace { index: 0, unread: 0 };
    if total == 0
        && let Some(reason) = writer.unread_since(begun)
    {
        return Err(Refusal::bad(format!("the body {reason}")));
    }
    if in_piece > 0 || writer.place().unread > 0 {
        // These entries are whole, even if later bytes are malformed.
        hand_over(writer.take_rows())?;
    }
    ended.map(|()| total)
}

fn write(
    entry: &JournalEntry<'_>,
    reading: &JournalReading,
    number: u64,
    writer: &mut RequestWriter<'_>,
) -> Result<(), Refusal> {
    let index = writer.begin()?;
    let JournalRecord { record, format, origin, is_invalid_utf8 } = reading.record(entry, writer.now);
    count(&writer.counters.by_format[format.number()], 1);
    if is_invalid_utf8 {
        count(&writer.counters.invalid_utf8, 1);
    }
    if entry.cut > 0 {
        count(&writer.counters.truncated, 1);
    }
    // The key is bound to the sender, so no sender overwrites the entries of another. Without a cursor the key is the number of
    // the entry in this upload.
    let key = match origin {
        Some((name, position)) => (writer.key_of_name(&[&name.to_be_bytes()])?.0, position),
        None => (writer.key(index).0, number & POSITION_MAX),
    };
    writer.write(index, InstanceRule::Fields(&["host"]), record, Some(key));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Taken, request, with_setting};
    use super::*;
    use crate::push::Endpoint;
    use proptest::prelude::*;

    const TWO: &[u8] = b"__CURSOR=s=1;i=1\n__REALTIME_TIMESTAMP=1342540861416409\n_HOSTNAME=epsilon\nPRIORITY=4\n\
        SYSLOG_IDENTIFIER=gdm\n_PID=587\nMESSAGE=ignored: a=b\n\n__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=1342540861421465\n\
        _HOSTNAME=epsilon\nMESSAGE\n\x07\0\0\0\0\0\0\0foo\nbar\nBLOB\n\x02\0\0\0\0\0\0\0\xff\0\n\n";

    fn upload(body: &[u8]) -> (Vec<Taken>, Result<u64, Refusal>) {
        let request = request(Endpoint::Journal);
        let mut pieces = Vec::new();
        let ended = with_setting(|settings| {
            read(settings, &request, body, |gathered| {
                pieces.push(Taken::from(gathered));
                Ok(())
            })
        });
        (pieces, ended)
    }

    #[test]
    fn entries_mean_what_they_mean_in_json() {
        let (pieces, ended) = upload(TWO);
        assert_eq!((ended, pieces.len()), (Ok(2), 1));
        assert_eq!(
            pieces[0].shown(),
            [
                "epsilon 2012-07-17T16:01:01.416409Z warn \"ignored: a=b\" host=\"epsilon\" component=\"gdm\" pid=587",
                "epsilon 2012-07-17T16:01:01.421465Z - \"foo\\nbar\" host=\"epsilon\" BLOB=[ff 00]",
            ]
        );
        assert_eq!(pieces[0].keys(), upload(TWO).0[0].keys(), "a repeat has the same keys");
    }

    #[test]
    fn a_body_without_any_field_is_refused() {
        for body in [&b"{\"MESSAGE\":\"a=b\"}\n"[..], b"message: a=b\n\n", b"a b=c\n\nd e=f\n\n"] {
            let (pieces, ended) = upload(body);
            assert!(pieces.is_empty() && matches!(ended, Err(Refusal::Bad { .. })), "{body:?}");
        }
        let (pieces, ended) = upload(&[TWO, b"a b=c\n\n"].concat());
        assert_eq!((pieces[0].messages().len(), pieces[0].unread(), ended), (2, 1, Ok(2)));
        assert_eq!(upload(b"").1, Ok(0));
    }

    #[test]
    fn a_long_upload_comes_in_pieces() {
        let many = TWO.repeat(10_000);
        let (pieces, ended) = upload(&many);
        assert_eq!(ended, Ok(20_000));
        assert!(pieces.len() > 3, "{}", pieces.len());
        assert_eq!(pieces.iter().map(|piece| piece.messages().len()).sum::<usize>(), 20_000);
    }

    #[test]
    fn complete_entries_before_a_cut_are_kept() {
        let first = TWO.windows(2).position(|pair| pair == b"\n\n").expect("an entry ends") + 2;
        for cut in 1..TWO.len() - 1 {
            let (pieces, ended) = upload(&TWO[..cut]);
            let kept: usize = pieces.iter().map(|piece| piece.messages().len()).sum();
            // A body that ends between two fields of an entry looks like a complete entry.
            assert!(kept <= 2 && (cut < first || kept >= 1), "{kept} at {cut}");
            assert!(ended.is_ok() || kept < 2, "at {cut}");
        }
    }

    proptest! {
        /// Any bytes are parsed or refused, and no kept entry exceeds its limit.
        #[test]
        fn any_bytes(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'='), Just(0)], 0..200)) {
            let (pieces, _) = upload(&bytes);
            prop_assert!(pieces.len() <= 1);
        }
    }
}
