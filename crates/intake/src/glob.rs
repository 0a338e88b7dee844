//! Patterns of paths and of names.

use globset::{GlobBuilder, GlobMatcher};
use std::fmt;
use std::path::Path;

/// A pattern as it was written, ready to match. Equality is that of the text.
///
/// `*` and `?` stand for characters, `[ab]` for one of them, `{a,b}` for either text; in a pattern of paths `**` as a
/// whole component stands for any number of folders, and nothing else stands for a `/`.
#[derive(Clone)]
pub struct Pattern {
    text: String,
    matcher: GlobMatcher,
}

/// Why a pattern was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PatternError {
    /// The syntax is not that of a glob.
    #[error("is no pattern: {0}")]
    Syntax(String),
    /// Relative to a folder that nobody names.
    #[error("must be an absolute path, like \"/var/log/**/*.log\"")]
    Relative,
    /// Begins neither at the root nor anywhere.
    #[error("must begin with \"/\" or \"**/\"")]
    Unrooted,
    /// Files are listed by their plain paths, which have no such parts.
    #[error("can match no file: a path has no empty part, no \".\" and no \"..\"")]
    Component,
}

impl Pattern {
    /// Of the files to read: an absolute path.
    pub fn include(text: &str) -> Result<Pattern, PatternError> {
        if !text.starts_with('/') {
            return Err(PatternError::Relative);
        }
        Pattern::path(text)
    }

    /// Of the files to leave out: an absolute path, or `**/` and what the path ends in.
    pub fn exclude(text: &str) -> Result<Pattern, PatternError> {
        if !text.starts_with('/') && !text.starts_with("**/") {
            return Err(PatternError::Unrooted);
        }
        Pattern::path(text)
    }

    /// Of a source's name: the path of a file, or the listener.
    pub fn source(text: &str) -> Result<Pattern, PatternError> {
        Pattern::new(text, true)
    }

    /// Of an instance's name, in which a `/` is a character like any other.
    pub fn instance(text: &str) -> Result<Pattern, PatternError> {
        Pattern::new(text, false)
    }

    fn path(text: &str) -> Result<Pattern, PatternError> {
        let components = text.strip_prefix('/').unwrap_or(text).split('/');
        if components.into_iter().any(|part| matches!(part, "" | "." | "..")) {
            return Err(PatternError::Component);
        }
        Pattern::new(text, true)
    }

    fn new(text: &str, paths: bool) -> Result<Pattern, PatternError> {
        let built = GlobBuilder::new(text).literal_separator(paths).build();
        let glob = built.map_err(|error| PatternError::Syntax(error.kind().to_string()))?;
        Ok(Pattern { text: text.into(), matcher: glob.compile_matcher() })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches the whole path or name.
    pub fn matches(&self, path: impl AsRef<Path>) -> bool {
        self.matcher.is_match(path)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_patterns_match() {
        for (pattern, path, matches) in [
            ("/var/log/*.log", "/var/log/a.log", true),
            ("/var/log/*.log", "/var/log/b/a.log", false),
            ("/var/log/**/*.log", "/var/log/a.log", true),
            ("/var/log/**/*.log", "/var/log/b/c/a.log", true),
            ("/var/log/{syslog,messages}", "/var/log/messages", true),
            ("/var/log/a[12].log", "/var/log/a3.log", false),
        ] {
            assert_eq!(Pattern::include(pattern).expect(pattern).matches(path), matches, "{pattern} {path}");
        }
        assert!(Pattern::exclude("**/*.gz").expect("a pattern").matches("/var/log/a.gz"));
        assert!(Pattern::instance("web-*").expect("a pattern").matches("web-1/blue"));
        assert!(!Pattern::source("/srv/*").expect("a pattern").matches("/srv/a/b"));
    }

    #[test]
    fn patterns_that_are_refused() {
        for (pattern, error) in [
            ("*.log", PatternError::Relative),
            ("", PatternError::Relative),
            ("/var//log", PatternError::Component),
            ("/var/log/", PatternError::Component),
            ("/var/../log", PatternError::Component),
        ] {
            assert_eq!(Pattern::include(pattern), Err(error), "{pattern}");
        }
        assert_eq!(Pattern::exclude("*.gz"), Err(PatternError::Unrooted));
        assert!(matches!(Pattern::include("/var/[a"), Err(PatternError::Syntax(_))));
    }
}
