//! Sources that begin where another collector stopped ([`crate::adopt`]).
//!
//! A position counts if the file confirms it: the inode, fingerprint or path is the one of the other collector, the
//! file has as many bytes, and the position is after a newline. A position within a line becomes the start of that
//! line, because the other collector had not sent the line. A position that is not confirmed is refused with its
//! reason. The daemon reads that file from its beginning, like any new file.
//!
//! A source that daytable has already read is not changed. A source without records begins at the position.

use super::discovery::{DiscoveredFile, Discovery};
use super::file_content::{FileContent, FileStat};
use super::file_reader::{FileReader, last_newline_end};
use super::identity::{Likeness, head_of};
use super::options::{TailOptions, TailTimings};
use super::path_patterns::PathPatterns;
use super::search::{compare, renamed};
use super::source_index::SourceIndex;
use super::wakeup::FolderChanges;
use crate::adopt::{self, SavedPosition};
use daytable_model::path_text::PathText;
use daytable_model::property::to_hex;
use daytable_model::source_id::HostId;
use daytable_store::{Ledger, SourceKind, SourceState, SourceStatus};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The largest first line in Vector's fingerprint (its `max_line_bytes`).
const FIRST_LINE_BYTES_MAX: usize = 102_400;
/// Bytes in Filebeat's fingerprint.
const FINGERPRINT_BYTES: usize = 1024;

/// The result for a position of another collector.
#[derive(Debug)]
pub enum StartPosition {
    /// A source that begins at the position: new, or known and unread.
    At(Arc<SourceState>),
    /// daytable already has a source of the file.
    Known {
        /// The position of that source.
        position: u64,
        /// Whether the source began at the same position and is unread.
        is_same: bool,
    },
    /// The position is refused, for this reason.
    Refused(String),
}

/// A file of another collector, and its start position.
#[derive(Debug)]
pub struct AdoptedFile {
    /// The current path of the file, or its former path if it is gone.
    pub path: Option<PathBuf>,
    /// The position of the other collector.
    pub offset: u64,
    /// Bytes of the file now.
    pub size: u64,
    /// The start position.
    pub begun: StartPosition,
}

/// Start positions in the files that `blocks` include. `sources` are the known sources, `host` is the host of new ones. Of several positions in one
/// file, the smallest counts. Fails if a pattern is invalid.
pub fn start_positions(
    blocks: &[TailOptions],
    positions: &[SavedPosition],
    sources: Vec<Arc<SourceState>>,
    host: HostId,
) -> io::Result<Vec<AdoptedFile>> {
    let patterns = blocks.iter().map(PathPatterns::new).collect::<io::Result<_>>()?;
    let (discovery, found) = discovered(patterns);
    let mut known = SourceIndex::new(sources, host);
    let (mut files, mut adoptees) = (BTreeMap::<(u64, u64), (PathBuf, Option<PathBuf>, u64)>::new(), Vec::new());
    for SavedPosition { file, offset } in positions {
        match find(file, &found) {
            Ok((path, home, stat)) => {
                let least = files.entry((stat.device, stat.inode)).or_insert((path, home, *offset));
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
        let (size, begun) = match block.map(|block| source(&mut known, &blocks[block], &path, home, offset)) {
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

/// The files that exist now.
fn discovered(patterns: Vec<PathPatterns>) -> (Discovery, Vec<DiscoveredFile>) {
    let mut discovery = Discovery::new(patterns, None);
    let listing = discovery.list_changed(&FolderChanges::default(), Instant::now(), &TailTimings::default());
    (discovery, listing.included)
}

fn path_of(file: &adopt::FileReference) -> Option<&Path> {
    match file {
        adopt::FileReference::Path(path) => Some(path),
        adopt::FileReference::Inode { path, .. } | adopt::FileReference::Sha256 { path, .. } => path.as_deref(),
        adopt::FileReference::FirstLine(_) => None,
    }
}

/// The path of a file, its former path if it is another one, and its stat.
fn find(file: &adopt::FileReference, found: &[DiscoveredFile]) -> Result<(PathBuf, Option<PathBuf>, FileStat), String> {
    let at = |path: &Path| FileStat::at(path).ok().flatten();
    let all = || found.iter().map(|found| found.path.as_path());
    match file {
        adopt::FileReference::Path(path) => {
            let stat = at(path).ok_or("it is not there")?;
            Ok((path.clone(), None, stat))
        }
        adopt::FileReference::Inode { device, inode, path } => {
            let is_it = |stat: &FileStat| stat.inode == *inode && device.is_none_or(|device| stat.device == device);
            if let Some(path) = path {
                if let Some(stat) = at(path).filter(is_it) {
                    return Ok((path.clone(), None, stat));
                }
                // Without a device, that of the folder counts: a rename stays on it.
                let of_folder = || at_folder(path);
                let renamed = device.or_else(of_folder).map(|device| renamed(path, device, *inode));
                let renamed = renamed.transpose().map_err(|_| "too many files are open to look for it")?.flatten();
                let (now, stat) = renamed.ok_or("the file of that inode is neither there nor beside it")?;
                return Ok((now, Some(path.clone()), stat));
            }
            let mut same = all().filter_map(|path| Some((path, at(path).filter(is_it)?)));
            let (path, stat) = same.next().ok_or("no file that is followed has this inode")?;
            Ok((path.to_owned(), None, stat))
        }
        adopt::FileReference::Sha256 { digest, path } => {
            let is_it = |path: &&Path| {
                beginning(path, FINGERPRINT_BYTES)
                    .is_ok_and(|bytes| bytes.len() == FINGERPRINT_BYTES && to_hex(&Sha256::digest(&bytes)) == *digest)
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

/// The one file of these paths.
fn only<'p>(
    paths: impl Iterator<Item = &'p Path>,
    at: impl Fn(&Path) -> Option<FileStat>,
) -> Result<(PathBuf, Option<PathBuf>, FileStat), String> {
    let mut one: Option<(PathBuf, FileStat)> = None;
    for path in paths {
        let Some(stat) = at(path) else { continue };
        match &one {
            Some((first, known)) if !known.is_same_file(&stat) => {
                return Err(format!("{} and {} have the same fingerprint", first.escaped(), path.escaped()));
            }
            _ => one = Some((path.to_owned(), stat)),
        }
    }
    one.map(|(path, stat)| (path, None, stat)).ok_or_else(|| "no file that is followed has this fingerprint".into())
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

/// The source of the file at `path`, with the first path `home`, from `offset` on; and the size of the file.
fn source(
    known: &mut SourceIndex,
    block: &TailOptions,
    path: &Path,
    home: PathBuf,
    offset: u64,
) -> io::Result<(u64, StartPosition)> {
    let (mut content, stat) = FileContent::open(path)?;
    let size = stat.size;
    let refused = |why: &str| Ok((size, StartPosition::Refused(why.into())));
    let ours = ours(known, &mut content, &stat)?;
    if let Some(state) = ours.as_ref().filter(|state| !is_unread(state)) {
        return Ok((size, StartPosition::Known { position: state.position, is_same: false }));
    }
    if content.is_compressed() {
        return refused("it is compressed: how much of it was read is unknown");
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
            SourceState { status, ..known.begin(SourceKind::Tail, block, home, &stat, head) }
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
    // The source was only begun, and has no other history.
    reader.state_mut().ledger = Ledger { skipped_bytes: position, adopted_bytes: position, ..Ledger::default() };
    known.put(reader.state.clone());
    Ok((size, StartPosition::At(reader.state)))
}

/// The source of this file, by its bytes: an inode alone may belong to a later file.
fn ours(known: &SourceIndex, content: &mut FileContent, stat: &FileStat) -> io::Result<Option<Arc<SourceState>>> {
    for identity in known.of_file(stat.device, stat.inode) {
        if let Some(state) = known.source(identity).filter(|state| state.kind == SourceKind::Tail)
            && compare(content, state)? == Likeness::Same
        {
            return Ok(Some(state.clone()));
        }
    }
    Ok(None)
}

/// Whether a source has a start position but no records yet, so that its start may change.
fn is_unread(state: &SourceState) -> bool {
    state.ledger.records == 0 && state.ledger.skipped_bytes == state.position
}
