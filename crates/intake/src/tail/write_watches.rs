//! Quiet files: the kernel reports the next write, so the write is read at once.
//!
//! An event for each write would cost the writing program more than its write. One event after a pause costs nothing.
//! So a watch ends with its first event. A file that is written to often is polled, and gets a watch again when it was
//! quiet for [`TailTimings::watch_after`].
//!
//! A watched file is still polled, because a write through mapped memory makes no event: once a second at first, and
//! rarely after [`TailTimings::idle_after`]. It is also checked at once when its folder changes. Only files on local file
//! systems are watched: on others the writer may be another host.

use super::file_content::FileStat;
use super::followed_file::{FileAccess, FollowedFile};
use super::followed_files::FollowedFiles;
use super::options::TailTimings;
use crate::tail::WatchMode;
use daytable_model::source_id::SourceId;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes of events that are read from the kernel at once: about 250 events.
const EVENTS_BYTES: usize = 4096;

/// One write, after which the kernel ends the watch. To end it by hand makes an event, too.
const ONE_WRITE: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::ONESHOT);

/// The files that the kernel watches. There may be tens of thousands, so each needs only two numbers here. `notify`,
/// which watches the folders, would keep each path several times.
#[derive(Default)]
pub(super) struct WriteWatches {
    events: Option<OwnedFd>,
    /// The kernel has no events, or no watches left.
    is_over: bool,
    /// The identities of the sources, by the number of the watch.
    files: HashMap<i32, SourceId>,
    /// By device: whether its file system is local.
    devices: HashMap<u64, bool>,
}

/// The events since the last read.
#[derive(Default)]
pub(super) struct WriteEvents {
    /// The files that were written to.
    files: Vec<SourceId>,
    /// Events were lost: any file may have been written to.
    is_all: bool,
}

impl WriteWatches {
    /// Watches the file at `path` for one write, and returns the number of the watch. None if no watch is possible. A
    /// second call for the same file changes nothing.
    fn watch(&mut self, path: &Path, device: u64, identity: SourceId) -> Option<i32> {
        if self.is_over || !*self.devices.entry(device).or_insert_with(|| is_of_this_machine(path)) {
            return None;
        }
        if self.events.is_none() {
            self.events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        }
        let watched = self.events.as_ref().map(|events| inotify::add_watch(events, path, ONE_WRITE));
        match watched {
            Some(Ok(number)) => {
                self.files.insert(number, identity);
                Some(number)
            }
            // The limit of watches is reached: polling works as before.
            Some(Err(Errno::NOSPC)) | None => {
                self.is_over = true;
                None
            }
            Some(Err(_)) => None,
        }
    }

    fn unwatch(&mut self, number: i32) {
        if let (Some(_), Some(events)) = (self.files.remove(&number), &self.events) {
            // If the file is gone, the kernel has already ended the watch.
            let _ = inotify::remove_watch(events, number);
        }
    }

    /// A descriptor that is readable when there are events.
    pub(super) fn events(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().map(AsFd::as_fd)
    }

    /// The events since the last time. The files in them are watched no longer.
    fn take_events(&mut self) -> WriteEvents {
        let mut events_read = WriteEvents::default();
        let Some(events) = &self.events else { return events_read };
        let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
        let mut reader = inotify::Reader::new(events, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => events_read.is_all = true,
                Ok(event) => events_read.files.extend(self.files.remove(&event.wd())),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return events_read,
                Err(error) => {
                    tracing::debug!(%error, "failed to read the events of quiet files");
                    events_read.is_all = true;
                    return events_read;
                }
            }
        }
    }

    /// Watches a file that was quiet for long enough. A watched file that is quiet for longer is polled rarely.
    pub(super) fn watch_if_quiet(
        &mut self,
        file: &mut FollowedFile,
        mode: WatchMode,
        now: Instant,
        timings: &TailTimings,
    ) {
        let quiet = file.schedule.quiet_for(now);
        let is_waiting = file.reader.open().is_some() || file.reader.waits_at_zeros();
        let is_idle = quiet >= timings.idle_after && !is_waiting;
        if file.watch.is_some() && (self.is_over || !is_idle) {
            if is_idle {
                file.schedule.check_at(now + timings.idle_poll);
            }
            return;
        }
        let is_fit = file.access == FileAccess::Path
            && (file.schedule.is_slow(timings) || quiet >= timings.watch_after)
            && mode == WatchMode::Auto;
        if !is_fit {
            return;
        }
        // Also for a file that is already watched: another file may have had this path for a moment, and got the watch.
        let number = self.watch(&file.path, file.stat.device, file.state().identity);
        let before = std::mem::replace(&mut file.watch, number);
        if let Some(before) = before.filter(|before| number != Some(*before)) {
            self.unwatch(before);
        }
        if number.is_none() {
            return;
        }
        // A write between the last check and the watch made no event.
        match FileStat::at(&file.path) {
            Ok(Some(stat)) if stat.is_same_content(&file.stat) => {
                if is_idle {
                    file.schedule.check_at(now + timings.idle_poll);
                }
            }
            _ => self.wake(file),
        }
    }

    /// Ends the watch of a file, which is checked at once and polled as others are.
    pub(super) fn wake(&mut self, file: &mut FollowedFile) {
        let Some(number) = file.watch.take() else { return };
        file.schedule.check_at(Instant::now());
        self.unwatch(number);
    }

    /// Wakes files after a write. Watched files in changed folders, or all of them if events were lost, are checked
    /// at once and stay watched: one folder may have tens of thousands.
    pub(super) fn wake_written(&mut self, files: &mut FollowedFiles, is_all: bool, folders: &[PathBuf]) {
        let WriteEvents { files: written, is_all: is_lost } = self.take_events();
        let is_all = is_all || is_lost;
        if is_all || !folders.is_empty() {
            let now = Instant::now();
            let is_meant = |file: &&mut FollowedFile| file.watch.is_some() && (is_all || is_in(&file.path, folders));
            files.iter_mut().filter(is_meant).for_each(|file| file.schedule.check_at(now));
        }
        for identity in written {
            if let Some(file) = files.file_mut(identity) {
                self.wake(file);
            }
        }
    }
}

/// Whether the files of a file system are written to through this kernel alone, and by their own inodes.
pub(super) fn is_of_this_machine(path: &Path) -> bool {
    // statfs(2): ext2 to ext4, xfs, btrfs, f2fs, zfs, tmpfs.
    const MAGIC: [i64; 6] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1, 0x0102_1994];
    rustix::fs::statfs(path).is_ok_and(|found| MAGIC.contains(&found.f_type))
}

/// Whether a file is in one of these folders.
fn is_in(path: &Path, folders: &[PathBuf]) -> bool {
    path.parent().is_some_and(|parent| folders.iter().any(|folder| folder == parent))
}

/// Fills the kernel's queue of events, so that later events are lost. Each watch of the file gets another number, and
/// events of two numbers are not merged. None if there are no events.
#[cfg(test)]
pub(super) fn fill(mut watches: WriteWatches, path: &Path) -> Option<WriteWatches> {
    use std::io::Write;
    let mut file = std::fs::File::create(path).expect("created");
    let device = FileStat::at(path).expect("stat").expect("a file").device;
    let events_max = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("a limit");
    for _ in 0..=events_max.trim().parse::<usize>().expect("a number") {
        watches.watch(path, device, SourceId::FIRST)?;
        file.write_all(b"a").expect("written");
    }
    Some(watches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::io::Write;

    #[test]
    fn the_kernel_tells_of_a_write_where_it_can() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.log");
        std::fs::write(&path, "one\n").expect("written");
        let device = FileStat::at(&path).expect("stat").expect("a file").device;
        let mut watches = WriteWatches::default();
        let number = watches.watch(&path, device, 7.into());
        assert_eq!(watches.watch(&path, device, 7.into()), number, "to ask again changes nothing");
        assert_eq!(number.is_some(), is_of_this_machine(&path));
        assert_eq!(watches.watch(&folder.path().join("none"), device, 8.into()), None, "there is no such file");
        if number.is_none() {
            return;
        }
        assert!(watches.take_events().files.is_empty(), "nothing was written since");
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).expect("opened");
        file.write_all(b"two\n").expect("written");
        let events = watches.events().expect("events");
        let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(events, PollFlags::IN)], Some(&patience)).expect("polled");
        assert_eq!(watches.take_events().files, [SourceId::from(7)]);
        file.write_all(b"three\n").expect("written");
        assert!(watches.take_events().files.is_empty(), "one event was asked for");
        let number = watches.watch(&path, device, 7.into()).expect("watched again");
        watches.unwatch(number);
        file.write_all(b"four\n").expect("written");
        let events_read = watches.take_events();
        assert!(events_read.files.is_empty() && !events_read.is_all, "no event is asked for any more");
        watches.watch(&path, device, 8.into()).expect("watched again");
        std::fs::remove_file(&path).expect("removed");
        drop(file);
        assert_eq!(watches.take_events().files, [SourceId::from(8)], "what is gone is looked at, too");
    }

    #[test]
    fn of_events_that_the_kernel_had_no_room_for_any_may_be_lost() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.log");
        if let Some(mut watches) = fill(WriteWatches::default(), &path) {
            let events_read = watches.take_events();
            assert!(events_read.is_all && !events_read.files.is_empty(), "those before it are folder_changes of");
            assert!(!watches.take_events().is_all, "it is said once");
        }
    }

    #[test]
    fn a_file_is_in_its_own_folder_alone() {
        let folders = [PathBuf::from("/var/log"), PathBuf::from("/srv")];
        assert!(is_in(Path::new("/var/log/a.log"), &folders));
        assert!(!is_in(Path::new("/var/log/b/a.log"), &folders));
    }

    #[test]
    fn files_that_other_hosts_may_write_to_are_polled() {
        assert!(!is_of_this_machine(Path::new("/proc/self/status")));
        assert!(!is_of_this_machine(Path::new("/no/such/file")));
    }
}
