//! Lines that continue the record before them: stack traces and other multi-line text.
//!
//! If the lines of a source begin with a header, a line without one continues the record. That needs no knowledge of
//! traces. Lines without headers, mostly on standard error, need it: this module knows the words that runtimes write at
//! the left margin. The other lines of a trace are indented.

/// Words that runtimes write at the margin within a trace; other programs hardly do.
const WITHIN: [&str; 17] = [
    "Caused by: ",
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
];

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
    if line.starts_with("Traceback (most recent call last)") {
        return last.starts_with("During handling") || last.starts_with("The above exception");
    }
    if head.contains("Traceback (most recent call last)") {
        return last.starts_with([' ', '\t']);
    }
    // Go: functions at the margin, with their places indented.
    if GO.iter().any(|words| first.starts_with(words)) || head.contains("\ngoroutine ") {
        return WITHIN_GO.iter().any(|words| line.starts_with(words)) || line.ends_with(')') || line.ends_with("...");
    }
    // Rust since 1.73 writes the message on the second line.
    if first.starts_with("thread '") && first.contains(" panicked at ") {
        return open.len() == first.len() && first.ends_with(':');
    }
    // Node: the source line, a caret below the place, then the error.
    last.trim_ascii() == "^" || last.trim_ascii().starts_with("^^")
}
