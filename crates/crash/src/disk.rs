//! The contents of the disk, and their durable part: every change that a program makes below a folder, and every sync.
//!
//! A sync makes earlier writes durable. After a power cut, each other write may be there or not, independently, and
//! the last write may be torn. A name becomes durable with a sync of its folder. POSIX promises no more. File systems
//! promise more, but programs should not rely on that.

use crate::random::Random;
use crate::tracer::{Call, Player, Verdict};
use nix::libc;
use nix::unistd::Pid;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A file, independent of its names.
type Inode = usize;

/// One change.
#[derive(Debug)]
enum Change {
    /// A new name of a file.
    Name {
        path: PathBuf,
        inode: Inode,
    },
    /// A new folder.
    Folder {
        path: PathBuf,
    },
    /// A removed name.
    Gone {
        path: PathBuf,
    },
    /// A rename.
    Renamed {
        from: PathBuf,
        to: PathBuf,
        inode: Option<Inode>,
    },
    Write {
        inode: Inode,
        offset: u64,
        bytes: Vec<u8>,
    },
    Size {
        inode: Inode,
        size: u64,
    },
    /// The changes to a file before `before` are durable.
    Synced {
        inode: Inode,
        before: usize,
    },
    /// The name changes in a folder before `before` are durable.
    FolderSynced {
        path: PathBuf,
        before: usize,
    },
}

/// Every change below a folder.
pub struct Disk {
    root: PathBuf,
    changes: Vec<Change>,
    inodes: HashMap<(u64, u64), Inode>,
    count: usize,
    /// The call that each thread is about to make.
    begun: HashMap<Pid, Begun>,
    /// The number of changes before the removal of the files already read.
    forgotten: Option<usize>,
    /// Whether the disk reports syncs that it did not do: a fault that a test of the test must find.
    pub is_lying: bool,
}

/// The unit that a disk writes as a whole.
const SECTOR_BYTES: usize = 512;

/// The fate of a write without a sync.
#[derive(Clone, Copy)]
enum Fate {
    Whole,
    Lost,
    /// The sectors before this number are there.
    TornAt(usize),
    /// Each sector is there or not, at random.
    Sectors,
}

impl Fate {
    fn of(random: &mut Random) -> Fate {
        match random.below(6) {
            0 => Fate::Lost,
            1 => Fate::TornAt(random.below(9) as usize),
            2 => Fate::Sectors,
            _ => Fate::Whole,
        }
    }
}

struct Begun {
    call: Call,
    /// The paths in the arguments of the call.
    paths: Vec<PathBuf>,
    /// Whether the first path exists before the call.
    is_there: bool,
    /// The number of earlier changes.
    before: usize,
}

impl Disk {
    /// An empty record of `root`, which is empty or missing.
    pub fn new(root: &Path) -> Disk {
        let (changes, inodes, begun) = (Vec::new(), HashMap::new(), HashMap::new());
        Disk { root: root.into(), changes, inodes, count: 0, begun, forgotten: None, is_lying: false }
    }

    /// Whether change `at` comes after the removal of the files already read.
    pub fn is_forgotten(&self, at: usize) -> bool {
        self.forgotten.is_some_and(|forgotten| forgotten <= at)
    }

    /// The number of changes to cut between.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    fn is_below(&self, path: &Path) -> bool {
        path.starts_with(&self.root) && !path.to_string_lossy().ends_with("-shm")
    }

    /// The file behind a descriptor, if the file lies below the root.
    fn inode_of(&mut self, process: Pid, descriptor: u64) -> Option<(Inode, PathBuf)> {
        let link = PathBuf::from(format!("/proc/{process}/fd/{descriptor}"));
        let path = fs::read_link(&link).ok()?;
        if !self.is_below(&path) {
            return None;
        }
        let metadata = fs::metadata(&link).ok()?;
        let inode = *self.inodes.get(&(metadata.dev(), metadata.ino()))?;
        metadata.is_file().then_some((inode, link))
    }

    fn make(&mut self, path: PathBuf) {
        let Ok(metadata) = fs::symlink_metadata(&path) else { return };
        if metadata.is_file() {
            let inode = self.count;
            self.count += 1;
            self.inodes.insert((metadata.dev(), metadata.ino()), inode);
            self.changes.push(Change::Name { path, inode });
        }
    }

    fn write(&mut self, call: &Call, offset: Option<u64>, descriptor: u64, length: u64) {
        let Some((inode, link)) = self.inode_of(call.process, descriptor) else { return };
        let offset = offset.or_else(|| position(call.process, descriptor)?.checked_sub(length));
        let (Some(offset), Ok(length)) = (offset, usize::try_from(length)) else { return };
        let mut bytes = vec![0; length];
        let read = File::open(link).and_then(|file| file.read_exact_at(&mut bytes, offset));
        if read.is_ok() {
            self.changes.push(Change::Write { inode, offset, bytes });
        }
    }

    /// Writes below the empty folder `root` a possible state after a power cut before change `at`.
    pub fn after_cut(&self, at: usize, random: &mut Random) -> io::Result<()> {
        let happened = &self.changes[..at.min(self.changes.len())];
        let (mut synced, mut folders) = (HashMap::new(), HashMap::new());
        for change in happened {
            match change {
                _ if self.is_lying => {}
                Change::Synced { inode, before } => drop(synced.insert(*inode, *before)),
                Change::FolderSynced { path, before } => drop(folders.insert(path.clone(), *before)),
                _ => {}
            }
        }
        let is_sure = |number: usize, path: &Path| {
            path.parent().and_then(|parent| folders.get(parent)).is_some_and(|before| number < *before)
        };
        // Names that are not durable survive up to some moment, or each at random.
        let until = at.saturating_sub(random.below(40) as usize * random.below(2) as usize);
        let is_by_chance = random.one_in(3);
        let chances: Vec<bool> = happened.iter().map(|_| random.one_in(2)).collect();
        let is_named = |number: usize, path: &Path| {
            let is_kept = if is_by_chance { chances[number] } else { number < until };
            is_kept || is_sure(number, path)
        };
        let mut names: BTreeMap<PathBuf, Inode> = BTreeMap::new();
        let mut made: Vec<PathBuf> = Vec::new();
        let mut contents: HashMap<Inode, Vec<u8>> = HashMap::new();
        for (number, change) in happened.iter().enumerate() {
            match change {
                Change::Name { path, inode } if is_named(number, path) => {
                    names.insert(path.clone(), *inode);
                }
                Change::Folder { path } if is_named(number, path) => made.push(path.clone()),
                Change::Gone { path } if is_named(number, path) => {
                    names.remove(path);
                    made.retain(|folder| folder != path);
                }
                Change::Renamed { from, to, inode } if is_named(number, to) => {
                    names.remove(from);
                    if let Some(inode) = inode {
                        names.insert(to.clone(), *inode);
                    }
                }
                Change::Write { inode, offset, bytes } => {
                    let is_sure = synced.get(inode).is_some_and(|before| number < *before);
                    let content = contents.entry(*inode).or_default();
                    let fate = if is_sure { Fate::Whole } else { Fate::of(random) };
                    for (number, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                        let is_kept = match fate {
                            Fate::Whole => true,
                            Fate::Lost => false,
                            Fate::TornAt(end) => number < end,
                            Fate::Sectors => random.one_in(2),
                        };
                        let start = *offset as usize + number * SECTOR_BYTES;
                        let end = start + sector.len();
                        if is_kept {
                            content.resize(content.len().max(end), 0);
                            content[start..end].copy_from_slice(sector);
                        }
                    }
                }
                Change::Size { inode, size } => {
                    let is_sure = synced.get(inode).is_some_and(|before| number < *before);
                    if is_sure || !random.one_in(3) {
                        contents.entry(*inode).or_default().resize(*size as usize, 0);
                    }
                }
                _ => {}
            }
        }
        made.iter().try_for_each(fs::create_dir_all)?;
        for (path, inode) in names {
            // The cut may have lost the folder of the file.
            if path.parent().is_some_and(Path::is_dir) {
                fs::write(path, contents.get(&inode).map_or(&[][..], Vec::as_slice))?;
            }
        }
        Ok(())
    }
}

impl Player for Disk {
    fn forgotten(&mut self) {
        self.forgotten = Some(self.changes.len());
    }

    fn before(&mut self, call: &Call) -> io::Result<Verdict> {
        let kind = i64::try_from(call.kind).unwrap_or(-1);
        let [a, b, c, d, ..] = call.arguments;
        let at = |folder: u64, path: u64| path_of(call.process, folder, path);
        const HERE: u64 = libc::AT_FDCWD as u64;
        let paths: Vec<PathBuf> = match kind {
            libc::SYS_open | libc::SYS_creat | libc::SYS_unlink | libc::SYS_rmdir | libc::SYS_mkdir => {
                at(HERE, a).into_iter().collect()
            }
            libc::SYS_openat | libc::SYS_unlinkat | libc::SYS_mkdirat => at(a, b).into_iter().collect(),
            libc::SYS_rename | libc::SYS_link => at(HERE, a).into_iter().chain(at(HERE, b)).collect(),
            libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => {
                at(a, b).into_iter().chain(at(c, d)).collect()
            }
            libc::SYS_write
            | libc::SYS_pwrite64
            | libc::SYS_writev
            | libc::SYS_pwritev
            | libc::SYS_ftruncate
            | libc::SYS_fallocate
            | libc::SYS_copy_file_range
            | libc::SYS_fsync
            | libc::SYS_fdatasync => Vec::new(),
            _ => return Ok(Verdict::Go),
        };
        let is_there = paths.first().is_some_and(|path| path.symlink_metadata().is_ok());
        self.begun.insert(call.thread, Begun { call: *call, paths, is_there, before: self.changes.len() });
        Ok(Verdict::Go)
    }

    fn after(&mut self, thread: Pid, result: i64) {
        let (Some(Begun { call, paths, is_there, before }), Ok(result)) =
            (self.begun.remove(&thread), u64::try_from(result))
        else {
            return;
        };
        let mut paths = paths.into_iter().filter(|path| self.is_below(path)).collect::<Vec<_>>().into_iter();
        let [a, b, c, d, ..] = call.arguments;
        match i64::try_from(call.kind).unwrap_or(-1) {
            libc::SYS_open | libc::SYS_openat | libc::SYS_creat => {
                let Some(path) = paths.next() else { return };
                let flags = if i64::try_from(call.kind) == Ok(libc::SYS_openat) { c } else { b };
                if !is_there {
                    self.make(path);
                } else if flags & libc::O_TRUNC as u64 != 0
                    && let Some((inode, _)) = self.inode_of(call.process, result)
                {
                    self.changes.push(Change::Size { inode, size: 0 });
                }
            }
            libc::SYS_unlink | libc::SYS_unlinkat | libc::SYS_rmdir => {
                self.changes.extend(paths.next().map(|path| Change::Gone { path }));
            }
            libc::SYS_mkdir | libc::SYS_mkdirat => {
                self.changes.extend(paths.next().map(|path| Change::Folder { path }))
            }
            libc::SYS_rename | libc::SYS_renameat | libc::SYS_renameat2 => {
                let (Some(from), Some(to)) = (paths.next(), paths.next()) else { return };
                let metadata = fs::symlink_metadata(&to).ok();
                let inode = metadata.and_then(|found| self.inodes.get(&(found.dev(), found.ino())).copied());
                self.changes.push(Change::Renamed { from, to, inode });
            }
            libc::SYS_link | libc::SYS_linkat => {
                let Some(path) = paths.nth(1) else { return };
                let metadata = fs::symlink_metadata(&path).ok();
                let inode = metadata.and_then(|found| self.inodes.get(&(found.dev(), found.ino())).copied());
                self.changes.extend(inode.map(|inode| Change::Name { path, inode }));
            }
            libc::SYS_write | libc::SYS_writev => self.write(&call, None, a, result),
            libc::SYS_pwrite64 | libc::SYS_pwritev => self.write(&call, Some(d), a, result),
            libc::SYS_copy_file_range => self.write(&call, None, c, result),
            libc::SYS_ftruncate => {
                let inode = self.inode_of(call.process, a);
                self.changes.extend(inode.map(|(inode, _)| Change::Size { inode, size: b }));
            }
            libc::SYS_fallocate => {
                let Some((inode, link)) = self.inode_of(call.process, a) else { return };
                if let Ok(metadata) = fs::metadata(link) {
                    self.changes.push(Change::Size { inode, size: metadata.len() });
                }
            }
            _ => {
                let link = fs::read_link(format!("/proc/{}/fd/{a}", call.process));
                if let Some((inode, _)) = self.inode_of(call.process, a) {
                    self.changes.push(Change::Synced { inode, before });
                } else if let Ok(path) = link
                    && path.is_dir()
                {
                    self.changes.push(Change::FolderSynced { path, before });
                }
            }
        }
    }
}

/// The position of a descriptor.
fn position(process: Pid, descriptor: u64) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("pos:")?.trim().parse().ok())
}

/// The absolute path of a path argument.
fn path_of(process: Pid, folder: u64, address: u64) -> Option<PathBuf> {
    let memory = File::open(format!("/proc/{process}/mem")).ok()?;
    let mut bytes = [0; 4096];
    // A page may end after the path.
    let in_page = 4096 - (address % 4096) as usize;
    let mut length = memory.read_at(&mut bytes[..in_page], address).ok()?;
    if !bytes[..length].contains(&0) {
        length += memory.read_at(&mut bytes[in_page..], address + in_page as u64).unwrap_or(0);
    }
    let end = bytes[..length].iter().position(|byte| *byte == 0)?;
    let path = Path::new(OsStr::from_bytes(&bytes[..end]));
    // The kernel reads a descriptor as 32 bits.
    let base = match folder as i32 {
        libc::AT_FDCWD => fs::read_link(format!("/proc/{process}/cwd")).ok()?,
        folder => fs::read_link(format!("/proc/{process}/fd/{folder}")).ok()?,
    };
    Some(base.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracer::{End, run};
    use std::process::Command;

    /// Writes two files, and syncs the first one and its name.
    const PROGRAM: &str = "import os, sys
root = sys.argv[1]
def write(name, text):
    file = os.open(root + '/' + name, os.O_CREAT | os.O_WRONLY)
    os.write(file, text)
    return file
os.fsync(write('synced', b'kept'))
os.fsync(os.open(root, os.O_RDONLY))
write('not', b'perhaps')";

    #[test]
    fn what_was_synced_survives_every_cut_and_other_files_survive_some() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        fs::create_dir(&root).expect("made");
        let mut disk = Disk::new(&root);
        let mut python = Command::new("python3");
        python.args(["-c", PROGRAM]).arg(&root);
        let said = fs::OpenOptions::new().write(true).open("/dev/null").expect("opened");
        let (end, _) = run(&python, said, &mut disk).expect("run");
        assert_eq!(end, End::Exited(0));
        let mut survived = 0;
        for seed in 0..60 {
            fs::remove_dir_all(&root).and_then(|()| fs::create_dir(&root)).expect("emptied");
            disk.after_cut(disk.len(), &mut Random::new(seed)).expect("cut");
            assert_eq!(fs::read(root.join("synced")).expect("there"), b"kept", "seed {seed}");
            survived += u64::from(fs::read(root.join("not")).is_ok_and(|bytes| bytes == b"perhaps"));
        }
        assert!((1..60).contains(&survived), "{survived} of 60");
        // Before the first change there is nothing.
        fs::remove_dir_all(&root).and_then(|()| fs::create_dir(&root)).expect("emptied");
        disk.after_cut(0, &mut Random::new(1)).expect("cut");
        assert_eq!(fs::read_dir(&root).expect("a folder").count(), 0);
    }
}
