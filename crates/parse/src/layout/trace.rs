//! Lines that continue the record before them: stack traces and other multi-line text.
//!
//! If the lines of a source begin with a header, a line without one continues the record. That needs no knowledge of
//! traces. Lines without headers, mostly on standard error, need it: this module knows the words that runtimes write at
//! the left margin. The other lines of a trace are indented.

/// Words that runtimes write at the margin within a trace; other programs hardly do.
const WITHIN: [&str; 18] = [
    "Caused by:",
    "Suppressed: ",
    "During handling of the above exception",
    "The above exception was the direct cause",
    "--- End of ",
    "   --- End of ",
    "stack backtrace:",
    "note: run with `RUST_BACKTRACE",
    "note: Some details are omitted",
    "Stack trace:",
    "Stack backtrace:",
    "Backtrace:",
    "[previously freed",
    "[CIRCULAR REFERENCE:",
    "Node.js v",
    "wrapped by: ",
    "Nested exception",
    "NoneType: None",
];

/// The beginnings of what a runtime writes when a program fails: a record of its own, whatever was written before.
const FAILURES: [&str; 6] = [
    "panic: ",
    "fatal error: ",
    "Exception in thread ",
    "Exception ignored in",
    "Unhandled exception. ",
    "Unhandled Exception: ",
];

const PYTHON: &str = "Traceback (most recent call last)";

/// The beginnings of a Go trace, and Go's words at the margin besides function names.
const GO: [&str; 5] = ["panic: ", "fatal error: ", "goroutine ", "runtime: ", "SIG"];
const WITHIN_GO: [&str; 5] = ["goroutine ", "[signal ", "created by ", "exit status ", "panic: "];

/// Bytes at the beginning of an open record that are searched.
const HEAD_BYTES: usize = 4096;

/// Whether a line is indented, or closes a bracket of an earlier line.
#[inline]
pub(crate) fn is_inner(line: &str) -> bool {
    matches!(line.as_bytes(), [b' ' | b'\t', ..] | [b'}' | b']' | b')', ..])
}

/// Whether a line begins the record of a program that failed.
pub(crate) fn is_failure(line: &str) -> bool {
    FAILURES.iter().any(|words| line.starts_with(words))
        || line.starts_with("thread '") && line.contains(" panicked at ")
}

/// Whether a line without an indent begins the trace of a logged error: a logger writes it below the record.
fn is_logged(line: &str) -> bool {
    line.starts_with(PYTHON) || line.starts_with("** (") || is_exception(line)
}

/// `java.lang.RuntimeException: text`, `System.InvalidOperationException: text`
fn is_exception(line: &str) -> bool {
    let name = line.split(':').next().unwrap_or(line);
    ["Exception", "Error", "Throwable"].iter().any(|end| name.ends_with(end))
        && name.contains('.')
        && name.split('.').all(|part| part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_'))
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'$'))
}

/// Whether a line without an indent continues the trace below an open record that begins with a level and no time.
///
/// A trace follows its record at once. `is_usual`: most records of the source begin so; then all lines after a trace
/// belong to it, up to the next record.
pub(crate) fn goes_on_with_level(open: &str, line: &str, is_usual: bool) -> bool {
    let head = open.get(..open.floor_char_boundary(HEAD_BYTES)).unwrap_or(open);
    match head.lines().skip(1).any(is_logged) {
        true => is_usual && !is_logged(line),
        false => is_logged(line),
    }
}

/// Whether a line without an indent continues an open record without a header.
pub(crate) fn goes_on(open: &str, line: &str) -> bool {
    if line.is_empty() || WITHIN.iter().any(|words| line.starts_with(words)) {
        return true;
    }
    let last = open.trim_end().rsplit('\n').next().unwrap_or_default();
    let first = super::first_line(open);
    // The beginning shows the kind of trace.
    let head = open.get(..open.floor_char_boundary(HEAD_BYTES)).unwrap_or(open);
    // PHP: `#1 /app/a.php(3): f()`
    if line.starts_with('#') && line.as_bytes().get(1).is_some_and(u8::is_ascii_digit) {
        return last.starts_with('#') || last.starts_with("Stack trace");
    }
    // Python: the line that announces the trace, indented frames, then the exception at the margin.
    if line.starts_with(PYTHON) {
        let before = ["During handling", "The above exception", "Exception in thread ", "Exception ignored in"];
        return before.iter().any(|words| last.starts_with(words));
    }
    if head.contains(PYTHON) {
        // The frame around the exceptions of a group closes the trace.
        return last.starts_with([' ', '\t']) && !last.ends_with("----");
    }
    // Go: functions at the margin, with their places indented.
    if GO.iter().any(|words| first.starts_with(words)) || head.contains("\ngoroutine ") {
        return WITHIN_GO.iter().any(|words| line.starts_with(words)) || line.ends_with(')') || line.ends_with("...");
    }
    // Rust since 1.73 writes the message on the second line.
    if first.starts_with("thread '") && first.contains(" panicked at ") {
        return open.len() == first.len() && first.ends_with(':');
    }
    // Node: the place, its source line, a caret below it, then the error.
    is_caret(last) || is_place(first) && (open.len() == first.len() || is_caret(line))
}

fn is_caret(line: &str) -> bool {
    let marks = line.trim_ascii();
    !marks.is_empty() && marks.bytes().all(|byte| byte == b'^')
}

/// Node's `/app/a.js:3`, alone in its line.
fn is_place(line: &str) -> bool {
    let Some((file, number)) = line.rsplit_once(':') else { return false };
    let is_file = [".js", ".mjs", ".cjs", ".ts"].iter().any(|end| file.ends_with(end)) || file.starts_with("node:");
    is_file && !file.contains(' ') && super::shape::is_number(number)
}
