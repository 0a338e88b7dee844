//! The files that a block reads, and why others are left alone: what `daytable doctor` asks the daemon for.
//!
//! A survey lists the folders of the patterns once, with the rights of its process, and opens each file. It neither
//! follows files nor changes positions.

use super::file_content::{FileContent, open_file};
use super::names::homes_of;
use super::options::TailOptions;
use super::path_patterns::PathPatterns;
use daytable_model::path_text::PathText;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Entries of folders that a survey of one block looks at.
const ENTRIES_MAX: usize = 50_000;
/// Files that the reason "nothing matches" names.
const NEIGHBOURS_MAX: usize = 3;
/// Files of a block that lie beside its files without a pattern that matches them.
const BESIDE_MAX: usize = 1000;

/// Why a path or pattern of a block gives no records.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnreadReason {
    /// This process may not read the file, or list the folder.
    Denied,
    /// The folder above all files of the pattern is absent.
    NoFolder,
    /// No file matches the pattern. The names are of files beside.
    NoMatch(Vec<String>),
    /// The path is a folder.
    Folder,
    /// The path is a link that leads nowhere.
    DanglingLink,
    /// The path is a pipe, a socket or a device.
    NotRegular,
    /// The file is compressed.
    Compressed,
    /// The file is empty.
    Empty,
    /// `exclude` leaves the file out.
    Excluded,
    /// The file lies beside files of the block, and no pattern matches it.
    Beside,
    /// The file system failed.
    Failed(String),
}

/// A file that a block reads, or a path or pattern that gives no records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurveyedPath {
    /// The block.
    pub block: String,
    /// The path or the pattern, as text.
    pub path: String,
    /// When the file was last written, in Unix seconds.
    pub modified: Option<i64>,
    /// Why the path gives no records; none for a file that the block reads.
    pub reason: Option<UnreadReason>,
}

/// Surveys the files of a block.
///
/// # Errors
///
/// A pattern is invalid.
pub fn survey(block: &TailOptions) -> io::Result<Vec<SurveyedPath>> {
    let included = PathPatterns::new(block)?;
    let mut survey = Survey { included, found: BTreeMap::new(), beside: Vec::new(), entries: 0 };
    for pattern in &block.include {
        let single = TailOptions { include: vec![pattern.clone()], exclude: Vec::new(), ..block.clone() };
        survey.pattern(pattern, &PathPatterns::new(&single)?);
    }
    survey.add_beside();
    let path_of = |(path, (modified, reason)): (PathBuf, (Option<i64>, Option<UnreadReason>))| SurveyedPath {
        block: block.name.clone(),
        path: path.text().into_owned(),
        modified,
        reason,
    };
    Ok(survey.found.into_iter().map(path_of).collect())
}

struct Survey {
    /// The patterns of the block, with its exclusions.
    included: PathPatterns,
    /// By path: when it was written, and why it is not read.
    found: BTreeMap<PathBuf, (Option<i64>, Option<UnreadReason>)>,
    /// Files in the folders of a pattern that it does not match, where it matches others.
    beside: Vec<PathBuf>,
    entries: usize,
}

impl Survey {
    /// Finds the paths of one pattern, which excludes no files.
    fn pattern(&mut self, text: &str, pattern: &PathPatterns) {
        let (mut folders, mut neighbours, mut matches) = (pattern.roots.clone(), Vec::new(), 0);
        while let Some(folder) = folders.pop() {
            let entries = match std::fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) => {
                    let is_root = pattern.roots.contains(&folder);
                    let reason = match error.kind() {
                        ErrorKind::NotFound if !is_root => continue,
                        ErrorKind::NotFound => UnreadReason::NoFolder,
                        _ => of_error(&error),
                    };
                    matches += usize::from(is_root);
                    self.found.insert(folder, (None, Some(reason)));
                    continue;
                }
            };
            for entry in entries.flatten() {
                self.entries += 1;
                if self.entries > ENTRIES_MAX {
                    return;
                }
                let path = entry.path();
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder && pattern.may_be_below(&path) {
                    folders.push(path);
                } else if pattern.includes(&path) {
                    matches += 1;
                    let examined = self.examine(&path);
                    self.found.insert(path, examined);
                } else if !is_folder && neighbours.len() < BESIDE_MAX {
                    neighbours.push(path);
                }
            }
        }
        if matches == 0 {
            let mut names: Vec<String> = neighbours.iter().map(|path| name_of(path)).collect();
            names.sort();
            names.truncate(NEIGHBOURS_MAX);
            self.found.insert(text.into(), (None, Some(UnreadReason::NoMatch(names))));
        } else {
            self.beside.append(&mut neighbours);
        }
    }

    /// Files beside those that were found. What a rotation made belongs to the file that it was.
    fn add_beside(&mut self) {
        let is_rotated = |path: &Path| path.file_name().is_some_and(|name| !homes_of(name).is_empty());
        for path in std::mem::take(&mut self.beside) {
            if self.found.len() < ENTRIES_MAX && !is_rotated(&path) {
                self.found.entry(path).or_insert((None, Some(UnreadReason::Beside)));
            }
        }
    }

    /// When a path was written, and why it is not read.
    fn examine(&self, path: &Path) -> (Option<i64>, Option<UnreadReason>) {
        if !self.included.includes(path) {
            return (None, Some(UnreadReason::Excluded));
        }
        match std::fs::metadata(path) {
            Ok(file) => (Some(file.mtime()), reason_of(path, &file)),
            // The file may be gone since its folder was listed; a link stays.
            Err(error) if error.kind() == ErrorKind::NotFound => (None, Some(UnreadReason::DanglingLink)),
            Err(error) => (None, Some(of_error(&error))),
        }
    }
}

fn reason_of(path: &Path, file: &Metadata) -> Option<UnreadReason> {
    if file.is_dir() {
        return Some(UnreadReason::Folder);
    }
    if !file.is_file() {
        return Some(UnreadReason::NotRegular);
    }
    match open_file(path).and_then(FileContent::of) {
        Ok((content, _)) if content.is_compressed() => Some(UnreadReason::Compressed),
        Ok((_, stat)) => (stat.size == 0).then_some(UnreadReason::Empty),
        // A compression that daytable does not decode.
        Err(error) if error.kind() == ErrorKind::Unsupported => Some(UnreadReason::Compressed),
        Err(error) => Some(of_error(&error)),
    }
}

fn of_error(error: &io::Error) -> UnreadReason {
    match error.kind() {
        ErrorKind::PermissionDenied => UnreadReason::Denied,
        _ => UnreadReason::Failed(error.to_string()),
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.text().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn each_path_has_its_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a.log"), "line\n").expect("written");
        fs::write(at("b.log"), "").expect("written");
        fs::write(at("c.log"), b"\x1f\x8b\x08\0").expect("written");
        fs::write(at("d.log"), b"\xfd7zXZ\0").expect("written");
        fs::write(at("debug.log"), "line\n").expect("written");
        fs::write(at("notes.txt"), "text\n").expect("written");
        fs::write(at("e.log.xz"), b"\xfd7zXZ\0").expect("written");
        fs::write(at("a.log.1"), "line\n").expect("written");
        fs::create_dir(at("folder.log")).expect("made");
        symlink(at("nowhere"), at("link.log")).expect("linked");
        symlink("/dev/null", at("null.log")).expect("linked");
        let pattern = |name: &str| at(name).display().to_string();
        let mut block = TailOptions::new("app", vec![pattern("*.log"), pattern("*.out"), pattern("none/*.log")]);
        block.exclude = vec!["**/debug.log".into()];
        let found = survey(&block).expect("patterns");
        let reason = |path: String| {
            let found = found.iter().find(|found| found.path == path);
            found.unwrap_or_else(|| panic!("{path} is not in {found:?}")).reason.clone()
        };
        assert_eq!(found.len(), 12, "{found:?}");
        for (name, expected) in [
            ("a.log", None),
            ("b.log", Some(UnreadReason::Empty)),
            ("c.log", Some(UnreadReason::Compressed)),
            ("d.log", Some(UnreadReason::Compressed)),
            ("debug.log", Some(UnreadReason::Excluded)),
            ("notes.txt", Some(UnreadReason::Beside)),
            ("e.log.xz", Some(UnreadReason::Beside)),
            ("folder.log", Some(UnreadReason::Folder)),
            ("link.log", Some(UnreadReason::DanglingLink)),
            ("null.log", Some(UnreadReason::NotRegular)),
            ("none", Some(UnreadReason::NoFolder)),
        ] {
            assert_eq!(reason(pattern(name)), expected, "{name}");
        }
        let Some(UnreadReason::NoMatch(beside)) = reason(pattern("*.out")) else { panic!("{found:?}") };
        assert_eq!(beside.len(), NEIGHBOURS_MAX);
    }
}
