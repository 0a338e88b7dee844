//! Lines that continue the record before them: stack traces and other multi-line text.
//!
//! If the lines of a source begin with a header, a line without one continues the record. That needs no knowledge of
//! traces. Lines without headers, mostly on standard error, need it: this module knows the words that runtimes write at
//! the left margin. The other lines of a trace are indented.

/// Words that runtimes write at the margin within a trace; other programs hardly do.
const WITHIN: [&str; 29] = [
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
    "PHP Stack trace:",
    "Require stack:",
    "Stacktrace:",
    "in expression starting at ",
    "stack traceback:",
    "CallStack (from HasCallStack):",
    "Current stack trace:",
    "Raised at ",
    "Raised by ",
    "Re-raised at ",
    "Called from ",
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
const WITHIN_GO: [&str; 6] = ["goroutine ", "[signal ", "created by ", "exit status ", "panic: ", "PC="];

/// Lines after which Python writes a trace.
const BEFORE_PYTHON: [&str; 6] = [
    "During handling",
    "The above exception",
    "Exception in thread ",
    "Exception ignored in",
    "future: <",
    LOGGING_ERROR,
];

/// Python's report about a record that could not be written, and its lines at the margin.
const LOGGING_ERROR: &str = "--- Logging error ---";
const WITHIN_LOGGING_ERROR: [&str; 3] = ["Call stack:", "Message: ", "Arguments: "];

/// The lines around a report of Go's race detector, and its first line.
const RACE_FRAME: &str = "==================";
const RACE: &str = "WARNING: DATA RACE";

/// Words with which a program announces a failure.
const ANNOUNCEMENTS: [&str; 8] =
    ["fail", "error", "exception", "cannot", "could not", "unable", "unhandled", "uncaught"];

/// Frames of Ruby in which an error is being handled.
const RUBY_HANDLERS: [&str; 2] = ["rescue in ", "ensure in "];

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
        || line.starts_with("thread '") && (line.contains(" panicked at ") || line.ends_with(OVERFLOW))
}

/// Rust's words after the name of a thread without room.
const OVERFLOW: &str = " has overflowed its stack";

/// Whether a line without an indent begins the trace of a logged error: a logger writes it below the record.
fn is_logged(line: &str) -> bool {
    line.starts_with(PYTHON) || line.starts_with("** (") || line.starts_with("future: <") || is_exception(line)
}

/// Whether the line above a trace says that something failed. A line that says nothing of it may have been there
/// before the program failed.
fn announces(line: &str) -> bool {
    let words = line.to_ascii_lowercase();
    !is_error_name(name_of(line)) && ANNOUNCEMENTS.iter().any(|word| words.contains(word))
}

/// `java.lang.RuntimeException: text`, `System.InvalidOperationException: text`
pub(super) fn is_exception(line: &str) -> bool {
    let name = name_of(line);
    is_error_name(name)
        && name.contains('.')
        && name.split('.').all(|part| part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_'))
}

fn name_of(line: &str) -> &str {
    line.split(':').next().unwrap_or(line)
}

/// Whether a text is the name of a kind of error, as languages name them.
fn is_error_name(name: &str) -> bool {
    ["Exception", "Error", "Throwable"].iter().any(|end| name.ends_with(end))
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

/// Whether a line goes on with the open document of YAML, which `---` begins; `None` where no document is open, or where the
/// line is of none.
pub(crate) fn goes_on_with_document(open: &str, line: &str) -> Option<bool> {
    matches!(open.as_bytes(), b"---" | [b'-', b'-', b'-', b'\n', ..]).then_some(())?;
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    let is_inner =
        is_inner(line) || line.starts_with("- ") || line.split_once(':').is_some_and(|(name, _)| is_name(name));
    (is_inner || line == "---").then_some(is_inner)
}

/// Whether a line names the end of what the open record names the start of, each as the name before a value:
/// `Start-Date: 2025-11-21  08:00:01` and `End-Date: 2025-11-21  08:00:09`.
#[inline]
pub(crate) fn names_the_end(open: &str, line: &str) -> bool {
    line.starts_with("End") && open.starts_with("Start") && is_same_name(&open["Start".len()..], &line["End".len()..])
}

#[cold]
fn is_same_name(open: &str, line: &str) -> bool {
    let (Some((opened, _)), Some((ended, _))) = (open.split_once(": "), line.split_once(": ")) else { return false };
    opened == ended && opened.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
}

/// Whether a line begins with a word in capitals and a name before an identifier that the open record has as well: what a
/// platform writes around the lines of a function (`END RequestId: 8f507cfc-…`).
#[inline]
pub(crate) fn is_of_request(open: &str, line: &str) -> bool {
    matches!(line.as_bytes(), [b'A'..=b'Z', b'A'..=b'Z', b'A'..=b'Z', ..]) && shares_identifier(open, line)
}

#[cold]
fn shares_identifier(open: &str, line: &str) -> bool {
    let mut words = line.split(' ');
    let (word, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let identifier = words.next().and_then(|word| word.split(['\t', ' ']).next()).unwrap_or_default();
    word.bytes().all(|byte| byte.is_ascii_uppercase())
        && name.ends_with(':')
        && identifier.len() == 36
        && identifier.bytes().filter(|byte| *byte == b'-').count() == 4
        && super::first_line(open).contains(identifier)
}

/// Whether a line without an indent continues an open record without a header.
pub(crate) fn goes_on(open: &str, line: &str) -> bool {
    // Most lines of programs that write no date begin with a clock, and no line of a trace does.
    if matches!(line.as_bytes(), [b'0'..=b'2', b'0'..=b'9', b':', b'0'..=b'5', b'0'..=b'9', b':', ..]) {
        return false;
    }
    if line.is_empty() || WITHIN.iter().any(|words| line.starts_with(words)) {
        return true;
    }
    let last = open.trim_end().rsplit('\n').next().unwrap_or_default();
    let first = super::first_line(open);
    // The beginning shows the kind of trace.
    let head = open.get(..open.floor_char_boundary(HEAD_BYTES)).unwrap_or(open);
    // PHP: `#1 /app/a.php(3): f()`, `PHP   1. f() /app/a.php:3`, and the next of a chain of exceptions
    if line.starts_with('#') && line.as_bytes().get(1).is_some_and(u8::is_ascii_digit) {
        // The first frame belongs to what stands above it. Steps of a build have numbers as well: `#5 [2/4] RUN make`.
        let is_frame = line.contains(['(', '{']) || line.contains(" 0x");
        let is_begun = last.starts_with('#') && (head.starts_with("#0 ") || head.contains("\n#0 "));
        return is_frame && (line.starts_with("#0 ") || is_begun || last.starts_with("Stack trace"));
    }
    if line.starts_with("PHP   ") {
        return last.starts_with("PHP   ") || last.starts_with("PHP Stack trace:");
    }
    if line.starts_with("Next ") && last.starts_with('#') && head.contains("\nStack trace:") {
        return true;
    }
    // A message in a frame: `┌ Warning: text`, `└ place`.
    if line.starts_with(['│', '└', '├', '╰', '╵']) {
        return last.starts_with(['┌', '│', '├', '╭']);
    }
    // The end of an element that begins the record.
    if let Some(name) = line.strip_prefix("</") {
        return first.strip_prefix('<').is_some_and(|element| element.starts_with(name));
    }
    // Ruby: a thread that ended, then its error.
    if last.starts_with("#<Thread:") && last.contains(" terminated with exception") {
        return true;
    }
    // Ruby: the error that was handled when another one was raised. Only then a frame above is in a `rescue` or `ensure`.
    if last.starts_with("\tfrom ") && is_ruby_error(line) {
        let is_frame = |above: &&str| above.starts_with('\t');
        let above: Vec<&str> = open.lines().rev().skip_while(is_frame).take(1).collect();
        let frames = open.lines().rev().take_while(is_frame);
        return frames.chain(above).any(|frame| RUBY_HANDLERS.iter().any(|words| frame.contains(words)));
    }
    // Python: the line that announces the trace, indented frames, then the exception at the margin.
    if line.starts_with(PYTHON) && BEFORE_PYTHON.iter().any(|words| last.starts_with(words)) {
        return true;
    }
    if first.starts_with(LOGGING_ERROR) && WITHIN_LOGGING_ERROR.iter().any(|words| line.starts_with(words)) {
        return true;
    }
    // Nim has its frames at the margin. The frame around the exceptions of a group closes the trace.
    let is_frame = last.starts_with([' ', '\t']);
    let may_follow_python = match is_frame {
        true => !last.ends_with("----"),
        false => is_call(line) || line.starts_with("Error: ") && is_call(last),
    };
    if may_follow_python && !line.starts_with(PYTHON) && head.contains(PYTHON) {
        return true;
    }
    let is_single = open.len() == first.len();
    // A trace below a line that says that something failed.
    if is_logged(line) && is_single && announces(first) {
        return true;
    }
    // Go: functions at the margin, with their places indented.
    if GO.iter().any(|words| first.starts_with(words)) || !is_single && head.contains("\ngoroutine ") {
        return WITHIN_GO.iter().any(|words| line.starts_with(words))
            || line.ends_with(')')
            || line.ends_with("...")
            || is_register(line);
    }
    if first == RACE_FRAME {
        let is_report = open[first.len()..].trim_start().starts_with(RACE);
        return line == RACE && is_single || is_report && last != RACE_FRAME;
    }
    // Frames by their number: `0    libswiftCore.so    0x00007f0000001000 main + 112`
    if is_numbered(line) {
        return is_numbered(last) || last.ends_with("tack trace:");
    }
    // A sanitizer's report, up to its end.
    if first.len() > 30 && first.bytes().all(|byte| byte == b'=') {
        let of_process = |line: &str| {
            let inner = line.strip_prefix("==").and_then(|rest| rest.split_once("==")).map(|(process, _)| process);
            inner.is_some_and(super::shape::is_number)
        };
        let is_report = open.lines().nth(1).is_some_and(of_process) && !last.ends_with("==ABORTING");
        return is_report || is_single && of_process(line);
    }
    if is_single {
        // Dart and Clojure write the message on the second line.
        if first == "Unhandled exception:" || first.starts_with("Execution error (") {
            return true;
        }
    }
    // Zig: `/srv/main.zig:4:10: 0x1037a2e in main (shop)`
    if first.starts_with("thread ") && first.contains(" panic: ") {
        return line.contains(": 0x") && line.contains(" in ");
    }
    if first == "Warning message:" {
        return is_single;
    }
    if first.starts_with("Error in ") {
        return line.starts_with("Calls: ") || line == "Execution halted";
    }
    // Rust since 1.73 writes the message on the second line.
    if first.starts_with("thread '") && first.contains(" panicked at ") {
        return is_single && first.ends_with(':');
    }
    if first.ends_with(OVERFLOW) {
        return line.starts_with("fatal runtime error: ");
    }
    // Node: the modules that asked for one that is not there.
    if line.starts_with("- ") && (last.starts_with("- ") || last == "Require stack:") {
        return open.contains("\nRequire stack:");
    }
    // Node: the place, its source line, a caret below it, then the error.
    is_caret(last) || is_place(first) && (is_single || is_caret(line))
}

/// ``a.rb:3:in `foo': text (ArgumentError)``
fn is_ruby_error(line: &str) -> bool {
    let Some((place, rest)) = line.split_once(":in `").or_else(|| line.split_once(":in '")) else { return false };
    let is_place =
        place.rsplit_once(':').is_some_and(|(file, number)| !file.is_empty() && super::shape::is_number(number));
    let name = rest.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (")).map_or("", |(_, name)| name);
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'));
    is_place && rest.contains("': ") && is_name && name.starts_with(|first: char| first.is_ascii_uppercase())
}

/// `rax    0x1f`, below the traces of Go's goroutines.
fn is_register(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let (name, value) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_hex = value.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_hex && words.next().is_none() && name.len() <= 6
}

/// `/srv/shop.nim(6) shop`
fn is_call(line: &str) -> bool {
    let Some((place, name)) = line.split_once(") ") else { return false };
    let number = place.rsplit_once('(').filter(|(file, _)| file.contains('.') && !file.contains(' '));
    number.is_some_and(|(_, number)| super::shape::is_number(number)) && !name.contains(' ')
}

/// A frame that begins with its number and has an address.
fn is_numbered(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    (1..=4).contains(&digits) && line.get(digits..).is_some_and(|rest| rest.starts_with("  ") && rest.contains(" 0x"))
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
