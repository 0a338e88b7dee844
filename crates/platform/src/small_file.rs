//! Small text files: secrets, connection strings, certificates.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a text of at most `bytes_max` bytes; the rest of a longer file is left out. An error never has the text.
///
/// # Errors
///
/// The file cannot be read, or is not UTF-8.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(bytes_max).read_to_string(&mut text)?;
    Ok(text)
}
