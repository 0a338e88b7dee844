//! The kernel's ring buffer, as `dmesg` prints it: `[   12.345678] text`, with a priority before it or not.
//!
//! The number counts seconds since boot, and the line does not tell when that was. So the record has no time, and the
//! number is the field `uptime_s`.

use super::sketch::Sketch;
use crate::pairs::skip_spaces;
use daytable_model::record::Value;

/// Digits of the seconds since 1970; no kernel runs for so long.
const EPOCH_DIGITS: usize = 10;

/// Reads the header from `at`, and returns the place of the message.
pub(super) fn read<'a>(line: &'a str, at: usize, sketch: &mut Sketch<'a>) -> Option<usize> {
    let bytes = line.as_bytes();
    if bytes.get(at) != Some(&b'[') {
        return None;
    }
    let start = skip_spaces(bytes, at + 1);
    let close = start + bytes.get(start..)?.iter().take(24).position(|byte| *byte == b']')?;
    let written = line.get(start..close)?;
    let (seconds, fraction) = written.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) || fraction.len() != 6 || seconds.len() >= EPOCH_DIGITS {
        return None;
    }
    sketch.add("uptime_s", Value::Double(written.parse().ok()?));
    // `[    0.000000][    T0] text`: the second group is the thread.
    let after = close + 1;
    if bytes.get(after) == Some(&b'[')
        && let Some(length) = bytes.get(after..)?.iter().take(24).position(|byte| *byte == b']')
    {
        if let Some(caller) = line.get(after + 1..after + length).map(str::trim).filter(|text| !text.is_empty()) {
            sketch.text("thread", caller);
        }
        return Some(skip_spaces(bytes, after + length + 1));
    }
    Some(skip_spaces(bytes, after))
}
