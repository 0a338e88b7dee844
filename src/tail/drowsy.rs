//! Files that were quiet for long: the kernel says when one of them is written to, so nobody has to look.
//!
//! An event for every write would cost the program that writes more than its write. One event after a long quiet costs
//! nothing: the first write wakes the file, it is looked at again as any other, and no event is asked for until it was
//! quiet for as long again. It is looked at now and then all the same, since what is written through memory that is
//! mapped makes no event, and at once when something happens in its folder. Only on file systems of this machine: on
//! others the writer may be elsewhere, where no event tells of it.

use super::content::Facts;
use super::followed::Hold;
use super::follower::Follower;
use super::hints::{Heard, Hints};
use crate::config::Watch;
use notify::{EventKindMask, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The files that the kernel watches.
#[derive(Default)]
pub(super) struct Drowsy {
    watcher: Option<RecommendedWatcher>,
    /// There are no events here, or no more of them.
    is_over: bool,
    /// Their paths, by the identity of their source.
    files: HashMap<u64, PathBuf>,
    /// Of each device, whether whoever writes to it does so through this kernel.
    devices: HashMap<u64, bool>,
}

impl Drowsy {
    /// Asks for an event of the file at `path`; false where there is none to be had.
    fn watch(&mut self, hints: &Hints, path: &Path, device: u64, identity: u64) -> bool {
        if self.is_over || !*self.devices.entry(device).or_insert_with(|| is_of_this_machine(path)) {
            return false;
        }
        if self.watcher.is_none() {
            let config = notify::Config::default().with_event_kinds(EventKindMask::MODIFY_DATA);
            let hints = hints.clone();
            self.watcher = RecommendedWatcher::new(move |event| hints.heard_of_file(event), config).ok();
        }
        let watched = self.watcher.as_mut().map(|watcher| watcher.watch(path, RecursiveMode::NonRecursive));
        match watched {
            Some(Ok(())) => {
                self.files.insert(identity, path.to_path_buf());
                true
            }
            // The limit of watches is reached, or it is gone: looking works as before.
            Some(Err(error)) if !matches!(error.kind, notify::ErrorKind::MaxFilesWatch) => false,
            _ => {
                self.is_over = true;
                false
            }
        }
    }

    fn unwatch(&mut self, identity: u64) {
        if let (Some(path), Some(watcher)) = (self.files.remove(&identity), &mut self.watcher) {
            // The kernel has forgotten it already where the file is gone.
            let _ = watcher.unwatch(&path);
        }
    }

    /// The files that what was heard is about; folders count with all files in them.
    fn meant(&self, heard: &Heard, folders: &[PathBuf]) -> Vec<u64> {
        let in_folder = |path: &Path| path.parent().is_some_and(|parent| folders.iter().any(|folder| folder == parent));
        let is_meant = |path: &PathBuf| heard.is_all || heard.files.contains(path) || in_folder(path);
        self.files.iter().filter(|(_, path)| is_meant(path)).map(|(identity, _)| *identity).collect()
    }
}

/// Whether a file system is one whose files are written to through this kernel alone, and by their own inodes.
fn is_of_this_machine(path: &Path) -> bool {
    // statfs(2): ext2 to ext4, xfs, btrfs, f2fs, zfs, tmpfs.
    const MAGIC: [i64; 6] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1, 0x0102_1994];
    rustix::fs::statfs(path).is_ok_and(|found| MAGIC.contains(&found.f_type))
}

impl Follower {
    /// A file that is followed under its path was found quiet: from some time on, the kernel tells when it is not.
    pub(super) fn doze(&mut self, identity: u64, now: Instant) {
        let Some(file) = self.files.file_mut(identity) else { return };
        if file.look.quiet_for(now) >= self.pace.drowsy_after {
            file.cursor.forget_reader();
        }
        if file.is_drowsy {
            file.look.next = now + self.pace.drowsy_look;
            return;
        }
        let is_fit = file.hold == Hold::Path
            && file.cursor.open().is_none()
            && file.look.quiet_for(now) >= self.pace.drowsy_after
            && self.blocks[file.block].watch == Watch::Auto;
        if !is_fit || !self.drowsy.watch(&self.hints, &file.path, file.facts.device, identity) {
            return;
        }
        file.is_drowsy = true;
        // What was written between the last look and now made no event.
        match Facts::at(&file.path) {
            Ok(Some(facts)) if facts == (Facts { links: facts.links, ..file.facts }) => {
                file.look.next = now + self.pace.drowsy_look;
            }
            _ => self.stir(identity),
        }
    }

    /// A file is looked at again as others are, and at once.
    pub(super) fn stir(&mut self, identity: u64) {
        let Some(file) = self.files.file_mut(identity).filter(|file| file.is_drowsy) else { return };
        file.is_drowsy = false;
        file.look.next = Instant::now();
        self.drowsy.unwatch(identity);
    }

    /// Looks at the drowsy files that something was heard of, and at those in folders that changed.
    pub(super) fn stir_all(&mut self, heard: &Heard, folders: &[PathBuf]) {
        if heard.is_all || !heard.files.is_empty() || !folders.is_empty() {
            for identity in self.drowsy.meant(heard, folders) {
                self.stir(identity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Duration;

    #[test]
    fn the_kernel_tells_of_a_write_where_it_can() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.log");
        std::fs::write(&path, "one\n").expect("written");
        let device = Facts::at(&path).expect("facts").expect("a file").device;
        let (mut drowsy, hints) = (Drowsy::default(), Hints::default());
        assert_eq!(drowsy.watch(&hints, &path, device, 7), is_of_this_machine(&path));
        assert!(!drowsy.watch(&hints, &folder.path().join("none"), device, 8), "there is no such file");
        if !is_of_this_machine(&path) {
            return;
        }
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).expect("opened");
        file.write_all(b"two\n").expect("written");
        hints.wait(Duration::from_secs(20));
        assert_eq!(drowsy.meant(&hints.take(), &[]), [7]);
        assert_eq!(drowsy.meant(&Heard::default(), &[folder.path().to_path_buf()]), [7], "its folder changed");
        assert_eq!(drowsy.meant(&Heard { is_all: true, ..Heard::default() }, &[]), [7], "events were lost");
        assert!(drowsy.meant(&Heard::default(), &[]).is_empty());
        drowsy.unwatch(7);
        assert!(drowsy.meant(&Heard { is_all: true, ..Heard::default() }, &[]).is_empty());
    }

    #[test]
    fn files_that_others_may_write_to_are_looked_at() {
        assert!(!is_of_this_machine(Path::new("/proc/self/status")));
        assert!(!is_of_this_machine(Path::new("/no/such/file")));
    }
}
