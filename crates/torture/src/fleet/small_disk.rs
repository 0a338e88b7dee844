//! A disk that can be full: a file system in memory of its own.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bytes of a disk.
const BYTES: &str = "1g";
/// Bytes that are left on a full one: a commit begins, and does not end.
const LEFT_BYTES: u64 = 96 << 10;
const ATTEMPTS: u32 = 20;

/// A mounted disk. Dropping the value unmounts it.
pub(super) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` if this process may not mount: root may.
    pub(super) fn mount(at: &Path) -> Option<SmallDisk> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={BYTES},mode=0700"), "tmpfs"]).arg(at);
        let mounted = mount.stdout(Stdio::null()).stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then(|| SmallDisk(at.into()))
    }

    /// Leaves almost no room.
    pub(super) fn fill(&self) -> io::Result<()> {
        for _ in 0..ATTEMPTS {
            let room = rustix::fs::statvfs(&self.0)?;
            let used = (room.f_blocks - room.f_bfree) * room.f_frsize;
            // A daemon writes meanwhile, and no disk is smaller than what it has.
            if self.resize(&(used + LEFT_BYTES).to_string())? {
                return Ok(());
            }
        }
        Err(io::Error::other("the disk cannot be made small"))
    }

    pub(super) fn free(&self) -> io::Result<()> {
        match self.resize(BYTES)? {
            true => Ok(()),
            false => Err(io::Error::other("the disk cannot be made large")),
        }
    }

    fn resize(&self, bytes: &str) -> io::Result<bool> {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,size={bytes}")]).arg(&self.0);
        Ok(mount.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
