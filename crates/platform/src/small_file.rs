//! Small text files: the configuration, secrets, connection strings, certificates.
//!
//! A pipe with a name waits for whoever writes to it, for good if nobody does, and so would a daemon that reads one. What is no
//! regular file is refused, but for that of a path below `/dev`: its user gave the command a descriptor, as in `/dev/stdin`.

use daytable_model::path_text::PathText;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file to read it, without waiting.
///
/// # Errors
///
/// The file cannot be opened, or is a pipe, a socket or a device that is not below `/dev`.
pub fn open(path: &Path) -> io::Result<File> {
    if path.starts_with("/dev") {
        return File::open(path);
    }
    let no_wait = OFlags::NONBLOCK.bits() as i32;
    let not_regular = || io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file");
    let file = OpenOptions::new().read(true).custom_flags(no_wait).open(path).map_err(|error| {
        // A socket cannot be opened at all.
        let is_special = path.metadata().is_ok_and(|file| !file.is_file() && !file.is_dir());
        if is_special { not_regular() } else { error }
    })?;
    let kind = file.metadata()?.file_type();
    // A folder has an error of its own when it is read.
    if kind.is_file() || kind.is_dir() { Ok(file) } else { Err(not_regular()) }
}

/// Reads a text of at most `bytes_max` bytes; the rest of a longer file is left out. An error never has the text.
///
/// # Errors
///
/// The file cannot be read, or is not UTF-8.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.take(bytes_max).read_to_string(&mut text)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::net::UnixListener;

    #[test]
    fn what_would_wait_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "text").expect("written");
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        let _socket = UnixListener::bind(path("socket")).expect("a socket");
        std::os::unix::fs::symlink(path("pipe"), path("link")).expect("linked");
        assert_eq!(read(&path("file"), 100).expect("read"), "text");
        for name in ["pipe", "link", "socket"] {
            assert_eq!(read(&path(name), 100).expect_err(name).to_string(), "is not a regular file");
        }
        assert!(read(folder.path(), 100).is_err());
        assert_eq!(read(Path::new("/dev/null"), 100).expect("read"), "");
    }
}
