//! The file of a unix socket.

use rustix::fs::{Mode, chmod};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file of a unix socket, which goes with the last listener that has it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode, so that the file of a successor stays.
    file: (u64, u64),
}

impl SocketFile {
    /// The umask has had its say in the file's mode, so it is set; until then fewer may connect, never more.
    pub fn new(path: &Path, mode: u32) -> io::Result<SocketFile> {
        chmod(path, Mode::from_raw_mode(mode))?;
        let file = identity(&path.symlink_metadata()?);
        Ok(SocketFile { path: path.into(), file })
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.path.symlink_metadata().is_ok_and(|file| identity(&file) == self.file) {
            // Left behind it does no harm: the next daemon clears it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
