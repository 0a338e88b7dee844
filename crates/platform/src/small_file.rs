//! Small text files: secrets, connection strings, certificates.

use daytable_model::path_text::PathText;
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

/// [`read`], with an error that names the file.
///
/// # Errors
///
/// As [`read`].
pub fn read_named(path: &Path, bytes_max: u64) -> Result<String, String> {
    read(path, bytes_max).map_err(|error| format!("{} cannot be read: {error}", path.escaped()))
}
