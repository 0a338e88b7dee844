//! Sources that begin where another collector stopped ([`crate::adopt`]).
//!
//! A position is believed where the file bears it out: it is the file that the other one knew (by inode, fingerprint or
//! path, as far as each says), it has as many bytes, and the position is behind a newline. Where it is in a line, the source
//! begins with that line: the other one had not taken it as a record. What is not borne out is refused with its reason, and
//! that file is read from its beginning when the daemon runs, as any that is new.
//!
//! A source of ours that something was read of is left alone. One that only began somewhere begins where the position says.

use super::discovery::{DiscoveredFile, Discovery};
use super::file_content::{FileContent, FileStamp};
use super::file_reader::{FileReader, last_newline_end};
use super::identity::{Likeness, head_of};
use super::options::{TailOptions, TailTimings};
use super::path_patterns::PathPatterns;
use super::search::{compare, renamed};
use super::source_index::SourceIndex;
use super::wakeup::FolderChanges;
use crate::adopt::{self, SavedPosition};
use daytable_model::path_text::PathText;
use daytable_store::{Ledger, SourceKind, SourceState, SourceStatus};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Bytes of a first line that Vector's fingerprint takes at most (its `max_line_bytes`).
const FIRST_LINE_BYTES_MAX: usize = 102_400;
/// Bytes that Filebeat's fingerprint takes.
const FINGERPRINT_BYTES: usize = 1024;

/// What is made of a position.
#[derive(Debug)]
pub enum StartPosition {
    /// A source that is to begin there: a new one, or one of ours that nothing was read of.
    At(Arc<SourceState>),
    /// The file is a source of ours already, as far as this.
    Known {
        /// Our position.
        position: u64,
        /// Whether it began there, and nothing was read since.
        is_same: bool,
    },
    /// It is not begun there.
    Refused(String),
}

/// A file that another collector knows, and what is made of it.
#[derive(Debug)]
pub struct AdoptedFile {
    /// Where it is; where it was, if it is not found.
    pub path: Option<PathBuf>,
    /// How far the other one was.
    pub offset: u64,
    /// Bytes it has now.
    pub size: u64,
    /// What is made of it.
    pub begun: StartPosition,
}

/// Makes sources of positions, for the files that `blocks` follow. `sources` are those that are known. Of several
/// positions of one file the least counts. An error where a pattern is none.
pub fn start_positions(
    blocks: &[TailOptions],
    positions: &[SavedPosition],
    sources: Vec<Arc<SourceState>>,
) -> io::Result<Vec<AdoptedFile>> {
    let patterns = blocks.iter().map(PathPatterns::new).collect::<Result<Vec<_>, _>>();
    let patterns = patterns.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut discovery = Discovery::new(patterns, None);
    let found = discovery.list_changed(&FolderChanges::default(), Instant::now(), &TailTimings::default()).included;
    let mut known = SourceIndex::new(sources);
    let (mut files, mut adoptees) = (BTreeMap::<(u64, u64), (PathBuf, Option<PathBuf>, u64)>::new(), Vec::new());
    for SavedPosition { file, offset } in positions {
        match find(file, &found) {
            Ok((path, home, stamp)) => {
                let least = files.entry((stamp.device, stamp.inode)).or_insert((path, home, *offset));
                least.2 = least.2.min(*offset);
            }
            Err(why) => {
                let (path, begun) = (path_of(file).map(Path::to_path_buf), StartPosition::Refused(why));
                adoptees.push(AdoptedFile { path, offset: *offset, size: 0, begun });
            }
        }
    }
    for (path, home, offset) in files.into_values() {
        let home = home.unwrap_or_else(|| path.clone());
        let block = discovery.block_of(&home).or_else(|| discovery.block_of(&path));
        let (size, begun) = match block.map(|block| source(&mut known, &blocks[block].name, &path, home, offset)) {
            None => (0, Ok(StartPosition::Refused("no [[tail]] block follows it".into()))),
            Some(Ok((size, begun))) => (size, Ok(begun)),
            Some(Err(error)) => (0, Err(error)),
        };
        let begun = begun.unwrap_or_else(|error: io::Error| StartPosition::Refused(error.to_string()));
        adoptees.push(AdoptedFile { path: Some(path), offset, size, begun });
    }
    adoptees.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(adoptees)
}

/// The files that a block follows now.
///
/// # Errors
///
/// Where a pattern is none.
pub fn matching_files(block: &TailOptions) -> io::Result<Vec<PathBuf>> {
    let patterns = PathPatterns::new(block).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut discovery = Discovery::new(vec![patterns], None);
    Ok(discovery
        .list_changed(&FolderChanges::default(), Instant::now(), &TailTimings::default())
        .included
        .into_iter()
        .map(|found| found.path)
        .collect())
}

fn path_of(file: &adopt::FileReference) -> Option<&Path> {
    match file {
        adopt::FileReference::Path(path) => Some(path),
        adopt::FileReference::Inode { path, .. } | adopt::FileReference::Sha256 { path, .. } => path.as_deref(),
        adopt::FileReference::FirstLine(_) => None,
    }
}

/// Where a file is, where it was, and what the file system says of it.
fn find(
    file: &adopt::FileReference,
    found: &[DiscoveredFile],
) -> Result<(PathBuf, Option<PathBuf>, FileStamp), String> {
    let at = |path: &Path| FileStamp::at(path).ok().flatten();
    let all = || found.iter().map(|found| found.path.as_path());
    match file {
        adopt::FileReference::Path(path) => {
            let stamp = at(path).ok_or("it is not there")?;
            Ok((path.clone(), None, stamp))
        }
        adopt::FileReference::Inode { device, inode, path } => {
            let is_it = |stamp: &FileStamp| stamp.inode == *inode && device.is_none_or(|device| stamp.device == device);
            if let Some(path) = path {
                if let Some(stamp) = at(path).filter(is_it) {
                    return Ok((path.clone(), None, stamp));
                }
                // Without a device it is the one of the folder: a rename stays within it.
                let of_folder = || at_folder(path);
                let renamed = device.or_else(of_folder).and_then(|device| renamed(path, device, *inode));
                let (now, stamp) = renamed.ok_or("the file of that inode is neither there nor beside it")?;
                return Ok((now, Some(path.clone()), stamp));
            }
            let mut same = all().filter_map(|path| Some((path, at(path).filter(is_it)?)));
            let (path, stamp) = same.next().ok_or("no file that is followed has this inode")?;
            Ok((path.to_owned(), None, stamp))
        }
        adopt::FileReference::Sha256 { digest, path } => {
            let is_it = |path: &&Path| {
                beginning(path, FINGERPRINT_BYTES)
                    .is_ok_and(|bytes| bytes.len() == FINGERPRINT_BYTES && hex(&Sha256::digest(&bytes)) == *digest)
            };
            let paths: Vec<&Path> = path.as_deref().into_iter().chain(all()).collect();
            only(paths.into_iter().filter(is_it), at)
        }
        adopt::FileReference::FirstLine(checksum) => {
            let is_it = |path: &&Path| {
                let bytes = beginning(path, FIRST_LINE_BYTES_MAX).unwrap_or_default();
                let line = bytes.iter().position(|byte| *byte == b'\n').map(|newline| &bytes[..=newline]);
                line.is_some_and(|line| adopt::crc64(line) == *checksum)
            };
            only(all().filter(is_it), at)
        }
    }
}

/// The one file that these paths lead to.
fn only<'p>(
    paths: impl Iterator<Item = &'p Path>,
    at: impl Fn(&Path) -> Option<FileStamp>,
) -> Result<(PathBuf, Option<PathBuf>, FileStamp), String> {
    let mut one: Option<(PathBuf, FileStamp)> = None;
    for path in paths {
        let Some(stamp) = at(path) else { continue };
        match &one {
            Some((first, known)) if !known.is_same_file(&stamp) => {
                return Err(format!("{} and {} have the same fingerprint", first.escaped(), path.escaped()));
            }
            _ => one = Some((path.to_owned(), stamp)),
        }
    }
    one.map(|(path, stamp)| (path, None, stamp)).ok_or_else(|| "no file that is followed has this fingerprint".into())
}

fn at_folder(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path.parent()?).ok().map(|folder| folder.dev())
}

fn beginning(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let (mut content, _) = FileContent::open(path)?;
    let mut bytes = vec![0; most];
    let n = content.read_at(0, &mut bytes)?;
    bytes.truncate(n);
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The source of the file at `path`, which was at `home` first, from `offset` on; and the file's size.
fn source(
    known: &mut SourceIndex,
    block: &str,
    path: &Path,
    home: PathBuf,
    offset: u64,
) -> io::Result<(u64, StartPosition)> {
    let (mut content, stamp) = FileContent::open(path)?;
    let size = stamp.size;
    let refused = |why: &str| Ok((size, StartPosition::Refused(why.into())));
    let ours = ours(known, &mut content, &stamp)?;
    if let Some(state) = ours.as_ref().filter(|state| !is_unread(state)) {
        return Ok((size, StartPosition::Known { position: state.position, is_same: false }));
    }
    if content.is_compressed() {
        return refused("it is compressed: what was read of it is not known");
    }
    if offset > size {
        return refused("it is shorter than that: it was truncated or replaced since");
    }
    let is_ours = ours.is_some();
    let state = match ours {
        Some(state) => SourceState::clone(&state),
        None => {
            let bytes = content.beginning()?;
            let Some(head) = head_of(&bytes, false) else {
                return refused("it has no whole line yet: it is read from its beginning");
            };
            let status = if home == path { SourceStatus::Live } else { SourceStatus::Rotated };
            SourceState { status, ..known.begin(SourceKind::Tail, block, home, &stamp, head) }
        }
    };
    let Some(position) = last_newline_end(&mut content, offset)?.or_else(|| (offset <= 2 << 20).then_some(0)) else {
        return refused("that is in the middle of a line of more than 2 MiB");
    };
    if is_ours && state.position == position {
        return Ok((size, StartPosition::Known { position, is_same: true }));
    }
    let mut reader = FileReader::new(state, Some(content));
    reader.go_to(position)?;
    // Nothing was read of it: this is all that there is to say.
    reader.state_mut().ledger = Ledger { skipped_bytes: position, adopted_bytes: position, ..Ledger::default() };
    known.put(reader.state.clone());
    Ok((size, StartPosition::At(reader.state)))
}

/// The source of ours whose file this is: it has all that was read of it. An inode is used again when its file is gone,
/// so it alone says nothing.
fn ours(known: &SourceIndex, content: &mut FileContent, stamp: &FileStamp) -> io::Result<Option<Arc<SourceState>>> {
    for identity in known.of_file(stamp.device, stamp.inode) {
        if let Some(state) = known.source(identity).filter(|state| state.kind == SourceKind::Tail)
            && compare(content, state)? == Likeness::Same
        {
            return Ok(Some(state.clone()));
        }
    }
    Ok(None)
}

/// Whether nothing was read of a source: it only began somewhere, and may as well begin elsewhere.
fn is_unread(state: &SourceState) -> bool {
    state.ledger.records == 0 && state.ledger.skipped_bytes == state.position
}
