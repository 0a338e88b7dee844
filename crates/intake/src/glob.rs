//! Patterns of paths and of names.

use globset::{GlobBuilder, GlobMatcher};
use std::fmt;
use std::path::Path;

/// A compiled pattern. Equality is that of the text.
///
/// `*` and `?` match characters, `[ab]` matches one of them, `{a,b}` either text. In a pattern of paths, `**` as a
/// whole component matches any number of folders; other wildcards do not match a `/`.
#[derive(Clone)]
pub struct Pattern {
    text: String,
    matcher: GlobMatcher,
}

/// A pattern is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum GlobError {
    /// The syntax is invalid.
    #[error("is not a valid pattern: {0}")]
    Syntax(String),
    /// The pattern is relative.
    #[error("must be an absolute path, like \"/var/log/**/*.log\"")]
    Relative,
    /// The pattern begins neither with `/` nor with `**/`.
    #[error("must begin with \"/\" or \"**/\"")]
    Unrooted,
    /// The pattern has `.` or `..`, which the paths of files do not have.
    #[error("matches no file: paths have no empty parts, no \".\" and no \"..\"")]
    Component,
}

impl Pattern {
    /// A pattern of files to read: an absolute path.
    pub fn include(text: &str) -> Result<Pattern, GlobError> {
        if !text.starts_with('/') {
            return Err(GlobError::Relative);
        }
        Pattern::path(text)
    }

    /// A pattern of files to leave out: an absolute path, or `**/` and the end of a path.
    pub fn exclude(text: &str) -> Result<Pattern, GlobError> {
        if !text.starts_with('/') && !text.starts_with("**/") {
            return Err(GlobError::Unrooted);
        }
        Pattern::path(text)
    }

    /// A pattern for the name of a source: the path of a file, or a listener.
    pub fn source(text: &str) -> Result<Pattern, GlobError> {
        Pattern::new(text, true)
    }

    /// A pattern for the name of an instance, in which `/` is a character like any other.
    pub fn instance(text: &str) -> Result<Pattern, GlobError> {
        Pattern::new(text, false)
    }

    fn path(text: &str) -> Result<Pattern, GlobError> {
        let components = text.strip_prefix('/').unwrap_or(text).split('/');
        if components.into_iter().any(|part| matches!(part, "" | "." | "..")) {
            return Err(GlobError::Component);
        }
        Pattern::new(text, true)
    }

    fn new(text: &str, paths: bool) -> Result<Pattern, GlobError> {
        let built = GlobBuilder::new(text).literal_separator(paths).build();
        let glob = built.map_err(|error| GlobError::Syntax(error.kind().to_string()))?;
        Ok(Pattern { text: text.into(), matcher: glob.compile_matcher() })
    }

    /// Shows the pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches the whole path or name.
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
    fn patterns_and_their_matches() {
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
            ("*.log", GlobError::Relative),
            ("", GlobError::Relative),
            ("/var//log", GlobError::Component),
            ("/var/log/", GlobError::Component),
            ("/var/../log", GlobError::Component),
        ] {
            assert_eq!(Pattern::include(pattern), Err(error), "{pattern}");
        }
        assert_eq!(Pattern::exclude("*.gz"), Err(GlobError::Unrooted));
        assert!(matches!(Pattern::include("/var/[a"), Err(GlobError::Syntax(_))));
    }
}
