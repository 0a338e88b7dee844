//! One file that is written to, and what became of the files that had its name before.

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

/// A file, by its name.
pub(crate) struct Stream {
    pub(crate) path: PathBuf,
    pub(crate) number: u32,
    /// The number of its next record.
    pub(crate) next: u64,
    /// The rest of a line that is not written yet, and its record.
    pub(crate) rest: Option<(String, Id)>,
    /// What it was called before, the oldest first; compressed files are not among them.
    old: Vec<PathBuf>,
    /// The inodes of files that the collector has read something of: one that is compressed before that continues nothing
    /// that it knows, and is not its to read.
    known: BTreeSet<u64>,
    /// How often it was rotated.
    rotated: u32,
    packed: Vec<PathBuf>,
    /// A file that is being compressed, and what is still to be written of that.
    packing: Option<(PathBuf, Vec<u8>)>,
}

impl Stream {
    pub(crate) fn new(path: PathBuf, number: u32) -> Stream {
        let (old, packed, known) = Default::default();
        Stream { path, number, next: 0, rest: None, old, known, rotated: 0, packed, packing: None }
    }

    /// The collector has read all that is there.
    pub(crate) fn was_read(&mut self) {
        let there = self.old.iter().chain([&self.path]);
        self.known = there.filter_map(|path| fs::metadata(path).ok()).map(|file| file.ino()).collect();
    }

    /// Whether there is something to compress.
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

    /// Lets its name lead to another file, in one step.
    fn link(&self, target: &PathBuf) -> io::Result<()> {
        let link = self.path.with_extension("next");
        symlink(target, &link)?;
        fs::rename(link, &self.path)
    }

    /// As logrotate does by default. Gives the new name of the old file.
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

    /// As logrotate does with `copytruncate`.
    pub(crate) fn copy_and_truncate(&mut self) -> io::Result<()> {
        self.rotated += 1;
        let (temporary, old) = (self.path.with_extension("tmp"), self.numbered());
        fs::copy(&self.path, &temporary)?;
        fs::rename(&temporary, &old)?;
        self.old.push(old);
        File::options().write(true).open(&self.path)?.set_len(0)
    }

    /// As logrotate does with `delaycompress`: an old file that nobody writes to becomes a compressed one, which is there
    /// before it is whole. Half of it is written now, the rest with the next call.
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

    /// Writes the rest of a file that is being compressed, if there is one.
    pub(crate) fn compress_on(&mut self) -> io::Result<()> {
        let Some((path, rest)) = self.packing.take() else { return Ok(()) };
        File::options().append(true).open(gzipped(&path))?.write_all(&rest)?;
        self.packed.push(gzipped(&path));
        fs::remove_file(path)
    }

    /// Takes away every file that has or had its name, and gives them.
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

/// The name that `gzip` gives.
fn gzipped(path: &std::path::Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    name.into()
}
