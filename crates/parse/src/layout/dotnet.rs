//! .NET's console: a level of four letters, a category and an event number; the message is in the lines below.
//!
//! ```text
//! info: Microsoft.Hosting.Lifetime[14]
//!       Now listening on: http://localhost:5000
//! ```

use super::sketch::Sketch;
use crate::pairs::typed;
use daytable_model::record::Level;
use std::borrow::Cow;

/// Spaces before the lines of a message.
const INDENT: usize = 6;

/// The header of such a record, and its message.
pub(super) fn read(text: &str) -> Option<(Sketch<'_>, Cow<'_, str>)> {
    let mut sketch = Sketch::default();
    let message = read_at(text, 0, &mut sketch)?;
    Some((sketch, message))
}

/// Reads the header at `at`, perhaps after a time, and returns the message.
pub(super) fn read_at<'a>(text: &'a str, at: usize, sketch: &mut Sketch<'a>) -> Option<Cow<'a, str>> {
    let level = match text.as_bytes().get(at..)?.first_chunk::<6>()? {
        b"trce: " => Level::Trace,
        b"dbug: " => Level::Debug,
        b"info: " => Level::Info,
        b"warn: " => Level::Warn,
        b"fail: " => Level::Error,
        b"crit: " => Level::Critical,
        _ => return None,
    };
    let rest = text.get(at + 6..)?;
    let end = rest.find(['\n', ' ']).unwrap_or(rest.len());
    let (category, event) = rest.get(..end)?.strip_suffix(']')?.rsplit_once('[')?;
    if category.is_empty() || !event.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    sketch.level(level, at, at + 4);
    sketch.component(category);
    sketch.add("event_id", typed(event));
    let message = rest.get(end + 1..).unwrap_or_default();
    let message = if message.contains('\n') {
        let lines: Vec<_> = message.split('\n').map(dedent).collect();
        Cow::Owned(lines.join("\n"))
    } else {
        Cow::Borrowed(dedent(message))
    };
    Some(message)
}

fn dedent(line: &str) -> &str {
    let spaces = line.bytes().take(INDENT).take_while(|byte| *byte == b' ').count();
    line.get(spaces..).unwrap_or(line)
}
