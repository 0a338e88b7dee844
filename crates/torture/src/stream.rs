//! A log file and its rotated files.

use crate::line::Id;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

/// The number of the stream whose name is a link.
const LINKED: u32 = 2;

/// A log file, by name.
pub(crate) struct Stream {
    pub(crate) path: PathBuf,
    pub(crate) number: u32,
    /// The number of the next record.
    pub(crate) next: u64,
    /// The unwritten rest of a line, and its record.
    pub(crate) rest: Option<(String, Id)>,
    /// Earlier files, oldest first, without compressed files.
    old: Vec<PathBuf>,
    /// The inodes of files that the collector has begun to read. A file compressed before that continues no file that
    /// the collector knows, so the collector need not read it.
    known: BTreeSet<u64>,
    /// The number of rotations.
    rotated: u32,
    packed: Vec<PathBuf>,
    /// A file under compression, and the bytes still to write.
    packing: Option<(PathBuf, Vec<u8>)>,
}

impl Stream {
    pub(crate) fn new(path: PathBuf, number: u32) -> Stream {
        let (old, packed, known) = Default::default();
        Stream { path, number, next: 0, rest: None, old, known, rotated: 0, packed, packing: None }
    }

    /// Notes that the collector has read every line.
    pub(crate) fn was_read(&mut self) {
        let there = self.old.iter().chain([&self.path]);
        self.known = there.filter_map(|path| fs::metadata(path).ok()).map(|file| file.ino()).collect();
    }

    /// Whether some file can be compressed.
    pub(crate) fn has_packable(&self) -> bool {
        let inode = self.old.first().and_then(|path| fs::metadata(path).ok()).map(|file| file.ino());
        self.packing.is_some() || inode.is_some_and(|inode| self.known.contains(&inode))
    }

    pub(crate) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        if self.number == LINKED && !self.path.exists() {
            self.link(&self.numbered())?;
        }
        File::options().append(true).create(true).open(&self.path)?.write_all(bytes)
    }

    fn numbered(&self) -> PathBuf {
        self.path.with_extension(format!("log.{}", self.rotated))
    }

    /// Points the link to another file, in one step.
    fn link(&self, target: &PathBuf) -> io::Result<()> {
        let link = self.path.with_extension("next");
        symlink(target, &link)?;
        fs::rename(link, &self.path)
    }

    /// Rotates as logrotate does by default. Returns the new name of the old file.
    pub(crate) fn rename(&mut self) -> io::Result<PathBuf> {
        let before = self.numbered();
        self.rotated += 1;
        let after = self.numbered();
        let old = if self.number == LINKED {
            self.link(&after)?;
            before
        } else {
            fs::rename(&self.path, &after)?;
            after
        };
        self.old.push(old.clone());
        Ok(old)
    }

    /// Rotates as logrotate does with `copytruncate`.
    pub(crate) fn copy_and_truncate(&mut self) -> io::Result<()> {
        self.rotated += 1;
        let (temporary, old) = (self.path.with_extension("tmp"), self.numbered());
        fs::copy(&self.path, &temporary)?;
        fs::rename(&temporary, &old)?;
        self.old.push(old);
        File::options().write(true).open(&self.path)?.set_len(0)
    }

    /// Compresses an old file as logrotate does with `delaycompress`. The compressed file exists before it is whole:
    /// this call writes one half, the next call the other half.
    pub(crate) fn compress(&mut self) -> io::Result<()> {
        if self.packing.is_some() {
            return self.compress_on();
        }
        if self.old.is_empty() {
            return Ok(());
        }
        let path = self.old.remove(0);
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(&fs::read(&path)?)?;
        let mut packed = packer.finish()?;
        let rest = packed.split_off(packed.len() / 2);
        fs::write(gzipped(&path), packed)?;
        self.packing = Some((path, rest));
        Ok(())
    }

    /// Writes the rest of a file under compression.
    pub(crate) fn compress_on(&mut self) -> io::Result<()> {
        let Some((path, rest)) = self.packing.take() else { return Ok(()) };
        File::options().append(true).open(gzipped(&path))?.write_all(&rest)?;
        self.packed.push(gzipped(&path));
        fs::remove_file(path)
    }

    /// Removes every file that has or had this name. Returns their paths.
    pub(crate) fn forget(&mut self) -> io::Result<Vec<PathBuf>> {
        let mut files: Vec<PathBuf> = self.old.drain(..).chain(self.packed.drain(..)).collect();
        if self.path.exists() {
            if self.number == LINKED {
                files.push(self.numbered());
                fs::remove_file(&self.path)?;
            } else {
                files.push(self.path.clone());
            }
            self.rotated += 1;
        }
        Ok(files)
    }
}

/// The name that `gzip` makes.
fn gzipped(path: &std::path::Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    name.into()
}
