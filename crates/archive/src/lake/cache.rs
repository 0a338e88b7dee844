//! What a lake keeps on disk of files in object storage: the blocks behind their rows, and their manifests.
//!
//! ```text
//! DIR/lake/SHA256-0.block           a block, by what tells its file and by its number
//! DIR/lake/SHA256-0.manifest        a manifest
//!          "daytable lake 1\n" | SHA-256 of the identity and the content | content
//! ```
//!
//! An entry is named by what tells the file from all others: its address, its length, and its version in the log or its tag in the
//! store. A damaged entry counts as missing, and its bytes are read from the store again. The folder is readable by its
//! owner alone, and so is each entry, because they have parts of logs. Beyond its bound the oldest entries go. Any
//! number of processes may share a folder: entries are named once they are whole.

use bytes::Bytes;
use daytable_model::property::to_hex;
use daytable_platform::lock;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Bytes of entries at most, if nothing else is asked for.
pub const CACHE_BYTES_MAX: u64 = 1 << 30;
/// The folder of a lake below that of a cache.
const FOLDER: &str = "lake";
const MAGIC: &[u8] = b"daytable lake 1\n";
const SUM_BYTES: usize = 32;
/// Bytes of an entry beside its content.
const HEAD_BYTES: u64 = (MAGIC.len() + SUM_BYTES) as u64;
/// Maximum bytes of a manifest.
const MANIFEST_BYTES_MAX: u64 = super::super::MANIFEST_BYTES_MAX;

/// A folder of entries.
#[derive(Debug)]
pub struct LakeCache {
    folder: PathBuf,
    bytes_max: u64,
    /// `None` before the first entry is written.
    entries: Mutex<Option<Entries>>,
    /// Whether an entry could not be written, which is said once.
    has_failed: Mutex<bool>,
    written: AtomicU64,
}

/// The entries of the folder, the oldest first.
#[derive(Debug, Default)]
struct Entries {
    by_age: BTreeMap<(SystemTime, String), u64>,
    bytes: u64,
    /// Bytes that were written since the folder was looked at: other processes write, too.
    added: u64,
}

impl LakeCache {
    /// A cache below `dir`, with at most this many bytes.
    ///
    /// # Errors
    ///
    /// The folder cannot be made, or not be made the owner's alone.
    pub fn open(dir: &Path, bytes_max: u64) -> io::Result<LakeCache> {
        let folder = dir.join(FOLDER);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        let (entries, has_failed, written) = (Mutex::default(), Mutex::new(false), AtomicU64::new(0));
        Ok(LakeCache { folder, bytes_max, entries, has_failed, written })
    }

    pub(super) fn block(&self, identity: &str, number: u64, length: u64) -> Option<Bytes> {
        let content = self.read(identity, &block_name(identity, number), length)?;
        (content.len() as u64 == length).then_some(content)
    }

    pub(super) fn put_block(&self, identity: &str, number: u64, content: &[u8]) {
        self.put(identity, &block_name(identity, number), content);
    }

    pub(super) fn manifest(&self, identity: &str) -> Option<Bytes> {
        self.read(identity, &manifest_name(identity), MANIFEST_BYTES_MAX)
    }

    pub(super) fn put_manifest(&self, identity: &str, content: &[u8]) {
        self.put(identity, &manifest_name(identity), content);
    }

    /// Removes the blocks of a file. False if there were none.
    pub(super) fn forget(&self, identity: &str) -> bool {
        let mut number = 0;
        // Blocks are counted from the end of a file, and those at its end are always among them.
        while fs::remove_file(self.folder.join(block_name(identity, number))).is_ok() {
            number += 1;
        }
        number > 0
    }

    fn read(&self, identity: &str, name: &str, length_max: u64) -> Option<Bytes> {
        let mut entry = Vec::new();
        File::open(self.folder.join(name)).ok()?.take(HEAD_BYTES + length_max + 1).read_to_end(&mut entry).ok()?;
        let content = entry.strip_prefix(MAGIC)?.get(SUM_BYTES..)?;
        let is_whole =
            content.len() as u64 <= length_max && entry[MAGIC.len()..][..SUM_BYTES] == sum(identity, content);
        is_whole.then(|| Bytes::from(entry).slice(MAGIC.len() + SUM_BYTES..))
    }

    fn put(&self, identity: &str, name: &str, content: &[u8]) {
        if let Err(error) = self.write(identity, name, content) {
            let mut has_failed = lock(&self.has_failed);
            if !std::mem::replace(&mut *has_failed, true) {
                tracing::warn!(folder = %self.folder.display(), %error, "the cache of the lake cannot be written: what it lacks is fetched again");
            }
        }
    }

    fn write(&self, identity: &str, name: &str, content: &[u8]) -> io::Result<()> {
        let bytes = HEAD_BYTES + content.len() as u64;
        if bytes > self.bytes_max {
            return Ok(());
        }
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let partial = self.folder.join(format!("{}-{number}.partial", std::process::id()));
        let _ = fs::remove_file(&partial);
        let write_partial = || -> io::Result<SystemTime> {
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&partial)?;
            file.write_all(MAGIC)?;
            file.write_all(&sum(identity, content))?;
            file.write_all(content)?;
            let modified = file.metadata()?.modified()?;
            fs::rename(&partial, self.folder.join(name))?;
            Ok(modified)
        };
        let modified = write_partial().inspect_err(|_| drop(fs::remove_file(&partial)))?;
        let mut entries = lock(&self.entries);
        let known = entries.take().filter(|known| known.added <= self.bytes_max / 4);
        let mut known = match known {
            Some(mut known) => {
                known.add((modified, name.to_owned()), bytes);
                known
            }
            None => Entries::of(&self.folder)?,
        };
        known.added += bytes;
        while known.bytes > self.bytes_max
            && let Some(((_, oldest), bytes)) = known.by_age.pop_first()
        {
            known.bytes -= bytes;
            // Another process may have removed it.
            let _ = fs::remove_file(self.folder.join(oldest));
        }
        *entries = Some(known);
        Ok(())
    }
}

impl Entries {
    fn of(folder: &Path) -> io::Result<Entries> {
        let mut entries = Entries::default();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (Ok(name), Ok(metadata)) = (entry.file_name().into_string(), entry.metadata()) else { continue };
            if metadata.is_file() {
                entries.add((metadata.modified()?, name), metadata.len());
            }
        }
        Ok(entries)
    }

    fn add(&mut self, entry: (SystemTime, String), bytes: u64) {
        self.bytes += bytes;
        self.bytes -= self.by_age.insert(entry, bytes).unwrap_or_default();
    }
}

fn block_name(identity: &str, number: u64) -> String {
    format!("{}-{number}.block", to_hex(&Sha256::digest(identity)))
}

fn manifest_name(identity: &str) -> String {
    format!("{}.manifest", to_hex(&Sha256::digest(identity)))
}

fn sum(identity: &str, content: &[u8]) -> [u8; SUM_BYTES] {
    let mut sum = Sha256::new();
    sum.update(identity);
    sum.update(content);
    sum.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<PathBuf> {
        let mut names: Vec<_> =
            fs::read_dir(dir.join(FOLDER)).expect("listed").map(|entry| entry.expect("an entry").path()).collect();
        names.sort();
        names
    }

    #[test]
    fn entries_are_their_owners_alone_and_a_damaged_one_is_none() {
        let dir = tempfile::tempdir().expect("a folder");
        let cache = LakeCache::open(dir.path(), 1 << 20).expect("opened");
        cache.put_block("file\n9\n1", 0, b"content");
        assert_eq!(cache.block("file\n9\n1", 0, 7).as_deref(), Some(&b"content"[..]));
        assert_eq!(cache.block("file\n9\n2", 0, 7), None, "another version");
        assert_eq!(cache.block("file\n9\n1", 1, 7), None, "another block");
        assert_eq!(cache.block("file\n9\n1", 0, 8), None, "another length");
        let entry = names(dir.path()).pop().expect("an entry");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&entry), mode(entry.parent().expect("a folder"))), (0o600, 0o700));
        let whole = fs::read(&entry).expect("read");
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&entry, &damaged).expect("written");
            assert_eq!(cache.block("file\n9\n1", 0, 7), None, "byte {at}");
            fs::write(&entry, &whole[..at]).expect("written");
            assert_eq!(cache.block("file\n9\n1", 0, 7), None, "cut at {at}");
        }
        cache.put_block("file\n9\n1", 0, b"content");
        assert!(cache.block("file\n9\n1", 0, 7).is_some(), "written anew");
        assert!(cache.forget("file\n9\n1") && !cache.forget("file\n9\n1"));
        assert_eq!(names(dir.path()), Vec::<PathBuf>::new());
    }

    #[test]
    fn the_oldest_entries_go_also_those_of_another_process() {
        let dir = tempfile::tempdir().expect("a folder");
        let content = [7; 1000];
        let entry = HEAD_BYTES + 1000;
        let before = LakeCache::open(dir.path(), 100 * entry).expect("opened");
        for number in 0..5 {
            before.put_block("old", number, &content);
            let path = dir.path().join(FOLDER).join(block_name("old", number));
            let age = std::time::Duration::from_secs(100 - number);
            let file = File::options().append(true).open(&path).expect("opened");
            file.set_modified(SystemTime::now() - age).expect("set");
        }
        let cache = LakeCache::open(dir.path(), 4 * entry + 10).expect("opened");
        for number in 0..2 {
            cache.put_block("new", number, &content);
        }
        let there = |of: &str| (0..5).filter(|n| cache.block(of, *n, 1000).is_some()).collect::<Vec<_>>();
        assert_eq!((there("old"), there("new")), (vec![3, 4], vec![0, 1]));
        cache.put_block("too large", 0, &[0; 9000]);
        assert_eq!(names(dir.path()).len(), 4);
    }
}
