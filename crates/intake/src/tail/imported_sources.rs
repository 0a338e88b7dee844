//! Which source an imported file is: the same file again, a file that lacks lines that were read, a copy, or a new source.
//!
//! The bytes decide, among sources with the same device and inode, or with a related name in the same folder
//! ([`is_related`]). Another name proves nothing: files of two hosts may have the same bytes from the first to the last.

use super::file_content::{FileContent, FileStat};
use super::identity::{Likeness, mark_at};
use super::names::{is_made_from, is_next_of};
use super::search::{before_missing_lines, compare, is_beginning_of_original};
use super::source_index::SourceIndex;
use daytable_model::source_id::SourceId;
use daytable_parse::ParseOptions;
use daytable_store::SourceState;
use std::io;
use std::path::Path;

/// The source of an imported file.
#[derive(Debug)]
pub(super) enum ImportedSource {
    /// The file has everything that was read of this source.
    Continued(SourceState),
    /// The file lacks lines that were read of this source. Those that it still has begin to be uncertain at the offset.
    Shortened(SourceState, u64),
    /// The file is a copy of the beginning of this source's file, which is still there.
    Copied(SourceId),
    /// No source is known.
    Unknown,
}

/// The source of the file at `path`, which begins with `head`.
pub(super) fn find(
    known: &SourceIndex,
    path: &Path,
    content: &mut FileContent,
    stat: &FileStat,
    head: &[u8],
    reading: &ParseOptions,
) -> io::Result<ImportedSource> {
    let of_file = known.of_file(stat.device, stat.inode);
    let related = known.of_head(mark_at(head.len() as u64, head).hash).into_iter();
    let related = related.filter(|identity| !of_file.contains(identity));
    let states = |identity: SourceId| known.source(identity).cloned();
    let related = related.filter_map(states).filter(|state| is_related(&state.path, path));
    let mut found = ImportedSource::Unknown;
    for state in of_file.iter().copied().filter_map(states).chain(related) {
        match compare(content, &state)? {
            Likeness::Same => return Ok(ImportedSource::Continued(SourceState::clone(&state))),
            Likeness::Different => continue,
            Likeness::Shorter | Likeness::Parted { .. } => {}
        }
        let Some(position) = before_missing_lines(content, &state, reading)? else { continue };
        let original = match stat.is_file_of(&state) {
            true => None,
            false => is_beginning_of_original(content, &state)?,
        };
        match (original, &found) {
            (Some(true), _) => found = ImportedSource::Copied(state.identity),
            // It is another file beside one that is whole.
            (Some(false), _) | (None, ImportedSource::Copied(_)) => {}
            (None, ImportedSource::Shortened(_, other)) if *other >= position => {}
            (None, _) => found = ImportedSource::Shortened(SourceState::clone(&state), position),
        }
    }
    Ok(found)
}

/// Whether both paths are of one folder, and their names are equal or of one rotation.
fn is_related(old: &Path, path: &Path) -> bool {
    let (one, other) = (old.file_name().unwrap_or_default(), path.file_name().unwrap_or_default());
    let is_of_name = one == other || is_made_from(one, other) || is_made_from(other, one) || is_next_of(one, other);
    old.parent() == path.parent() && is_of_name
}
