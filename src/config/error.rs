//! The problems of a configuration, each with its place.

use daytable_model::path_text::PathText;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why there is no usable configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("failed to read {}: {source}", .path.escaped())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file has problems: all of them, in the order of the file, at least one.
    #[error("{}", lines(.0))]
    Invalid(Vec<Problem>),
}

/// One problem, with the key, the place and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The name of the file as the caller gave it, or the name of the variable.
    pub file: String,
    /// From 1; 0 for a variable.
    pub line: usize,
    /// In characters, from 1; 0 for a variable.
    pub column: usize,
    /// The key, what is wrong, and what would be accepted.
    pub text: String,
}

/// `daytable.toml:12:1: unknown key "includes" in [[tail]], did you mean "include"?`
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.text),
            line => write!(f, "{}:{line}:{}: {}", self.file, self.column, self.text),
        }
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The line and the column, both from 1, of the byte at `offset`.
pub(super) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}
