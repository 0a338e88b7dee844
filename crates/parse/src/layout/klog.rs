//! The layout of glog and of Kubernetes' klog.
//!
//! ```text
//! I1121 08:00:00.123456    1234 file.go:123] text
//! I20261121 08:00:00.123456 1234 file.cc:123] text
//! I1121 08:00:00.123456    1234 file.go:123] "text" key="value"
//! I1121 08:00:00.123456 file.go:123] text
//! I1121 08:00:00.123456 Thread file.cpp:123] text
//! I261121 08:00:00.123456 1234 dir/file.go:123 text
//! I0000 00:00:1795248000.123456 1234 file.cc:123] text
//! I20261121-08:00:00.123(0)? text                       Meteor: a date with its year needs no source line
//! I[2026-11-21|08:00:00.123] text                       Tendermint
//! ```

use super::shape::{is_number, letter, source};
use super::sketch::Sketch;
use crate::pairs::skip_spaces;
use crate::scan;
use crate::timestamp::{self, TimestampDefaults};

/// The header of such a line, and the place of the message.
pub(super) fn read<'a>(line: &'a str, defaults: &TimestampDefaults) -> Option<(Sketch<'a>, usize)> {
    let bytes = line.as_bytes();
    let level = letter(*bytes.first()?)?;
    // Before it knows the zone of its host, Abseil writes the seconds since 1970.
    let start = match bytes.get(1..)? {
        [b'[', ..] => 2,
        rest if rest.starts_with(b"0000 00:00:1") => 12,
        _ => 1,
    };
    let stamp = timestamp::at_start(bytes.get(start..)?, defaults)?;
    let mut sketch = Sketch::default();
    sketch.level(level, 0, 1);
    sketch.stamp(start, stamp);
    let end = start + stamp.length;
    if start == 2 {
        return (bytes.get(end) == Some(&b']')).then(|| (sketch, skip_spaces(bytes, end + 1)));
    }
    if bytes.get(9) == Some(&b'-') {
        return Some((sketch, skip_spaces(bytes, end)));
    }
    let at = skip_spaces(bytes, end);
    let end = scan::space(bytes, at);
    let pid = line.get(at..end).filter(|pid| is_number(pid));
    let at = if pid.is_some() { skip_spaces(bytes, end) } else { at };
    let close = bytes.get(at..)?.iter().take(200).position(|byte| *byte == b']').map(|close| at + close);
    // `E1121 08:00:01.123456 MainThread file.cpp:57] text`, `E1121 08:00:01.123456 HTTP-1 file.cpp:57] text`
    let thread = close.and_then(|close| line.get(at..close)?.rsplit_once(' ')).map(|(thread, _)| thread);
    let thread = thread
        .filter(|thread| !thread.is_empty() && thread.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
    let place = at + thread.map_or(0, |thread| thread.len() + 1);
    let bracketed = close.and_then(|close| Some((source(line.get(place..close)?)?, close + 1)));
    if let Some(thread) = thread.filter(|_| bracketed.is_some()) {
        sketch.thread(thread);
    }
    let ((file, number), end) = match bracketed {
        Some(bracketed) => bracketed,
        // CockroachDB writes a space after the line, and groups before the text.
        None => {
            pid?;
            let word = scan::space(bytes, at);
            (source(line.get(at..word)?)?, word)
        }
    };
    if let Some(pid) = pid {
        sketch.pid(pid);
    }
    sketch.source(file, number);
    Some((sketch, skip_spaces(bytes, end)))
}
