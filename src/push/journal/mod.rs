//! `POST /upload`: what systemd-journal-upload sends, the journal's export format, for as long as it has something.
//!
//! Such a body has no length that anybody knows, so it is read as it comes and committed in pieces; the answer comes after
//! the last commit. Where it breaks off, what was committed stays, and the client sends all of it again: each entry's key
//! is made of its `__CURSOR`, so what is there already is written over by itself.
//!
//! Fields mean what they mean in `journalctl -o json`: `MESSAGE`, `PRIORITY`, `__REALTIME_TIMESTAMP`, `_PID`,
//! `SYSLOG_IDENTIFIER` and `_HOSTNAME` are the message, the level, the time, `pid`, `component` and `host`; the instance is
//! `_HOSTNAME`, else the sender's address. A value that is no UTF-8 stays bytes. The cursor itself is not stored.

pub mod export;

use super::taking::{Gathered, Instance, Taking};
use super::{Refusal, Request, Setting};
use crate::key::POSITION_MAX;
use crate::parse::{Said, compose};
use crate::property::BINARY_BYTES_MAX;
use crate::record::{Field, Record, Value};
use crate::rows::{count, random_identity};
use crate::time;
use export::{Entries, Entry, ExportError, Read};
use std::borrow::Cow;
use std::io::BufRead;

/// Bytes of rows that are committed at once.
const PIECE_BYTES: usize = 1 << 20;
/// The field that an entry's key is made of.
const CURSOR: &str = "__CURSOR";

/// Takes entries from a decoded body until it ends, and hands pieces over as they get large enough.
///
/// # Errors
///
/// What is wrong with the body, at which entry; or what `hand_over` says.
pub(super) fn take(
    setting: &Setting,
    request: &Request,
    body: impl BufRead,
    mut hand_over: impl FnMut(Gathered) -> Result<(), Refusal>,
) -> Result<u64, Refusal> {
    let identity = random_identity();
    let mut taking = Taking::new(setting, request, identity, time::now());
    let mut entries = Entries::new(body);
    let (mut total, mut in_piece) = (0u64, 0);
    let ended = loop {
        match entries.next() {
            Ok(Read::Entry(entry)) => {
                // In a piece indexes begin anew, so this never comes to the limit of a request.
                taking.now = time::now();
                write(entry, total, &mut taking)?;
                total += 1;
                in_piece += 1;
            }
            Ok(Read::End) => break Ok(()),
            Err(error) => break Err(error),
        }
        if taking.bytes() >= PIECE_BYTES || in_piece >= setting.limits.records_max {
            hand_over(taking.gather())?;
            in_piece = 0;
        }
    };
    if in_piece > 0 {
        // Whatever came after them, these are whole.
        hand_over(taking.gather())?;
    }
    match ended {
        Ok(()) => Ok(total),
        Err(ExportError::Read(error)) if error.kind() == std::io::ErrorKind::TimedOut => {
            Err(Refusal::Slow(setting.limits.body_timeout.as_secs()))
        }
        Err(error) => Err(Refusal::Bad { reason: error.to_string().into(), index: usize::try_from(total).ok() }),
    }
}

fn write(entry: Entry<'_>, number: u64, taking: &mut Taking<'_>) -> Result<(), Refusal> {
    let index = taking.begin()?;
    let mut key = None;
    let mut members = Vec::with_capacity(entry.fields.len());
    let mut is_invalid = false;
    for (name, bytes) in &entry.fields {
        let name = String::from_utf8_lossy(name);
        if name == CURSOR {
            key = Some(taking.key_of_name(&[bytes]));
            continue;
        }
        let value = match std::str::from_utf8(bytes) {
            Ok(text) => Value::String(text.into()),
            Err(_) if name == "MESSAGE" || bytes.len() > BINARY_BYTES_MAX => {
                is_invalid = true;
                Value::String(String::from_utf8_lossy(bytes))
            }
            Err(_) => Value::Binary(Cow::Borrowed(*bytes)),
        };
        members.push((name, value));
    }
    let (reading, _) = taking.readings();
    let mut record: Record<'_> = compose(Said::default(), members, reading, taking.now);
    if entry.cut > 0 {
        count(&taking.tally.truncated, 1);
        record.fields.push(Field { name: "truncated".into(), value: Value::Boolean(true) });
    }
    if is_invalid {
        count(&taking.tally.invalid_utf8, 1);
    }
    // Without a cursor it is the number of the entry in this upload.
    let key = key.unwrap_or((taking.key_of(index).0, number & POSITION_MAX));
    taking.write(index, Instance::Named(&["host"]), record, Some(key));
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
        let ended = with_setting(|setting| {
            take(setting, &request, body, |gathered| {
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
    fn a_long_upload_comes_in_pieces() {
        let many = TWO.repeat(10_000);
        let (pieces, ended) = upload(&many);
        assert_eq!(ended, Ok(20_000));
        assert!(pieces.len() > 3, "{}", pieces.len());
        assert_eq!(pieces.iter().map(|piece| piece.messages().len()).sum::<usize>(), 20_000);
    }

    #[test]
    fn what_came_whole_before_a_cut_is_kept() {
        let first = TWO.windows(2).position(|pair| pair == b"\n\n").expect("an entry ends") + 2;
        for cut in 1..TWO.len() - 1 {
            let (pieces, ended) = upload(&TWO[..cut]);
            let kept: usize = pieces.iter().map(|piece| piece.messages().len()).sum();
            // What ends between two fields of an entry cannot be told from one that ends there.
            assert!(kept <= 2 && (cut < first || kept >= 1), "{kept} at {cut}");
            assert!(ended.is_ok() || kept < 2, "at {cut}");
        }
    }

    proptest! {
        /// Any bytes are entries or none, and what is kept of one is within its limit.
        #[test]
        fn any_bytes(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'='), Just(0)], 0..200)) {
            let (pieces, _) = upload(&bytes);
            prop_assert!(pieces.len() <= 1);
        }
    }
}
