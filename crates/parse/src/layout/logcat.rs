//! Android's log.
//!
//! ```text
//! 03-17 16:13:38.811  1702  2395 D WindowManager: text     threadtime
//! 03-17 16:13:38.811 D/WindowManager( 1702): text          time
//! D/WindowManager( 1702): text                             brief
//! ```

use super::general::LineHeader;
use super::shape::{WordKind, is_number, letter, token};
use super::sketch::Sketch;
use crate::pairs::skip_spaces;
use memchr::memmem;

/// Bytes of a tag; tags may contain spaces.
const TAG_BYTES_MAX: usize = 64;

/// Reads the header after the time of `threadtime` and `time`; false for any other text.
pub(super) fn after_the_time(header: &mut LineHeader<'_>) -> bool {
    header.skip();
    match header.line.as_bytes().get(header.at..) {
        Some([b'0'..=b'9', ..]) => thread_time(header).is_some(),
        Some([_, b'/', ..]) => brief(header).is_some(),
        _ => false,
    }
}

fn thread_time(header: &mut LineHeader<'_>) -> Option<()> {
    let line = header.line;
    let number = |at: usize| {
        let token = token(line, skip_spaces(line.as_bytes(), at))?;
        let WordKind::Number(number) = token.kind else { return None };
        (token.mark == 0).then_some((number, token.end))
    };
    let (pid, at) = number(header.at)?;
    let (tid, at) = number(at)?;
    let letter_at = skip_spaces(line.as_bytes(), at);
    let &[byte, b' ', ..] = line.as_bytes().get(letter_at..)? else { return None };
    let level = letter(byte)?;
    let (tag, end) = tag(line, skip_spaces(line.as_bytes(), letter_at + 1))?;
    header.sketch.pid(pid);
    header.sketch.pid(tid);
    header.sketch.level(level, letter_at, letter_at + 1);
    header.sketch.component(tag);
    header.at = end;
    Some(())
}

/// `D/Tag( 1702): `
pub(super) fn brief(header: &mut LineHeader<'_>) -> Option<()> {
    header.skip();
    let line = header.line;
    let at = header.at;
    let &[byte, b'/', ..] = line.as_bytes().get(at..)? else { return None };
    let level = letter(byte)?;
    let rest = line.get(at + 2..)?;
    let close = memmem::find(rest.as_bytes(), b"): ")?;
    let open = rest.get(..close)?.rfind('(').filter(|open| (1..=TAG_BYTES_MAX).contains(open))?;
    let pid = rest.get(open + 1..close)?.trim_start();
    is_number(pid).then_some(())?;
    header.sketch.level(level, at, at + 1);
    header.sketch.component(rest.get(..open)?.trim_end());
    header.sketch.pid(pid);
    header.at = at + 2 + close + 3;
    Some(())
}

/// A tag, and the place after its colon. A space follows the colon unless the message is empty.
fn tag(line: &str, at: usize) -> Option<(&str, usize)> {
    let rest = line.get(at..)?;
    let length = match memmem::find(rest.as_bytes(), b": ") {
        Some(length) => length,
        None => rest.len().checked_sub(1).filter(|_| rest.ends_with(':'))?,
    };
    let tag = rest.get(..length).map(str::trim_end).filter(|tag| tag.len() <= TAG_BYTES_MAX)?;
    Some((tag, (at + length + 2).min(line.len())))
}

/// A line of `brief`, which has no time.
pub(super) fn untimed(line: &str) -> Option<(Sketch<'_>, usize)> {
    let mut header = LineHeader::at(line, 0);
    brief(&mut header)?;
    Some((header.sketch, header.at))
}
