//! Lines on standard error: hints, warnings and errors of commands.

use std::fmt::Display;
use std::io::{self, Write};

/// Writes a line to standard error. Its reader may be gone, which is not a fault: the line then is for nobody.
pub(super) fn hint(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
