//! The paths that a block includes, and the folders that must be listed for them.

use super::options::TailOptions;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::io;
use std::path::{Path, PathBuf};

/// The compiled patterns of one block. Compiling costs more than matching: compile once for many paths.
pub struct PathPatterns {
    include: GlobSet,
    exclude: GlobSet,
    /// Folders that may contain files that `include` matches.
    folders: GlobSet,
    /// The folders where listing begins.
    pub(super) roots: Vec<PathBuf>,
}

impl PathPatterns {
    /// Compiles the patterns of a block.
    ///
    /// # Errors
    ///
    /// If a pattern is invalid; the error has the text of the pattern.
    pub fn new(options: &TailOptions) -> io::Result<PathPatterns> {
        let absolute = |text: &String| match std::path::absolute(text) {
            Ok(path) if !text.starts_with("**/") => path.to_string_lossy().into_owned(),
            _ => text.clone(),
        };
        let include: Vec<String> = options.include.iter().map(absolute).collect();
        let exclude: Vec<String> = options.exclude.iter().map(absolute).collect();
        let folders: Vec<String> = include.iter().flat_map(|pattern| folders_of(pattern)).collect();
        Ok(PathPatterns {
            include: set(&include)?,
            exclude: set(&exclude)?,
            folders: set(&folders)?,
            roots: include.iter().map(|pattern| root_of(pattern)).collect(),
        })
    }

    /// Whether the block includes the file at `path`.
    pub fn includes(&self, path: &Path) -> bool {
        self.include.is_match(path) && !self.exclude.is_match(path)
    }

    /// Whether a folder must be listed.
    pub(super) fn may_be_below(&self, folder: &Path) -> bool {
        self.folders.is_match(folder)
    }
}

fn set(patterns: &[String]) -> io::Result<GlobSet> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(GlobBuilder::new(pattern).literal_separator(true).build().map_err(invalid)?);
    }
    set.build().map_err(invalid)
}

fn is_literal(component: &str) -> bool {
    !component.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

/// The longest path without wildcards above everything that `pattern` matches.
fn root_of(pattern: &str) -> PathBuf {
    let components: Vec<&str> = pattern.split('/').collect();
    let folders = &components[..components.len() - 1];
    let literal = folders.iter().take_while(|component| is_literal(component)).count();
    let root = folders[..literal].join("/");
    if root.is_empty() { "/".into() } else { root.into() }
}

/// Patterns of the folders above everything that `pattern` matches.
fn folders_of(pattern: &str) -> Vec<String> {
    let components: Vec<&str> = pattern.split('/').collect();
    let mut folders = Vec::new();
    for end in 1..components.len() {
        let component = components[end - 1];
        // A brace or bracket around a slash may match any number of folders.
        let is_split = component.matches('{').count() != component.matches('}').count();
        if component == "**" || is_split {
            folders.push(format!("{}/**", components[..end - 1].join("/")));
            break;
        }
        folders.push(components[..end].join("/"));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(include: &str, exclude: &[&str]) -> PathPatterns {
        let exclude = exclude.iter().map(|text| text.to_string()).collect();
        PathPatterns::new(&TailOptions { exclude, ..TailOptions::new("t", vec![include.into()]) }).expect("patterns")
    }

    #[test]
    fn what_is_taken() {
        for (include, exclude, path, taken) in [
            ("/var/log/*.log", &[][..], "/var/log/a.log", true),
            ("/var/log/*.log", &[], "/var/log/b/a.log", false),
            ("/var/log/**/*.log", &[], "/var/log/a.log", true),
            ("/var/log/**/*.log", &[], "/var/log/b/c/a.log", true),
            ("/var/log/**/*.log", &["/var/log/b/**"], "/var/log/b/c/a.log", false),
            ("/var/log/**/*.log", &["**/a.log"], "/var/log/b/c/a.log", false),
            ("/var/log/{a,b}.log", &[], "/var/log/b.log", true),
        ] {
            assert_eq!(patterns(include, exclude).includes(Path::new(path)), taken, "{include} {exclude:?} {path}");
        }
    }

    #[test]
    fn which_folders_are_listed() {
        for (include, root, folder, listed) in [
            ("/var/log/*.log", "/var/log", "/var/log/b", false),
            ("/var/log/**/*.log", "/var/log", "/var/log/b/c", true),
            ("/var/log/*/x/*.log", "/var/log", "/var/log/b", true),
            ("/var/log/*/x/*.log", "/var/log", "/var/log/b/x", true),
            ("/var/log/*/x/*.log", "/var/log", "/var/log/b/y", false),
            ("/var/log/*/**/y.log", "/var/log", "/var/log/b/y/z", true),
            ("/var/log/{a,b/c}/y.log", "/var/log", "/var/log/b/c", true),
            ("/**/y.log", "/", "/var", true),
            ("/y.log", "/", "/var", false),
        ] {
            let patterns = patterns(include, &[]);
            assert_eq!(patterns.roots, [PathBuf::from(root)], "{include}");
            assert_eq!(patterns.may_be_below(Path::new(folder)), listed, "{include} {folder}");
        }
    }
}
