//! The file of a unix socket.

use rustix::fs::{Mode, chmod};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file of a unix socket. The last listener that owns this value removes the file.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode. They keep the file of a successor from being removed.
    identity: (u64, u64),
}

impl SocketFile {
    /// Owns the file at `path` and sets its mode. Before that the umask applies, so fewer users may connect, never more.
    ///
    /// # Errors
    ///
    /// The file is not there, or its mode cannot be set.
    pub fn new(path: &Path, mode: u32) -> io::Result<SocketFile> {
        chmod(path, Mode::from_raw_mode(mode))?;
        let identity = identity(&path.symlink_metadata()?);
        Ok(SocketFile { path: path.into(), identity })
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.path.symlink_metadata().is_ok_and(|file| identity(&file) == self.identity) {
            // A file that stays does no harm: the next daemon removes it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
