//! What is wrong with a configuration, and where.

use daytable_model::path_text::PathText;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why there is no configuration to run with.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("read {}: {source}", .path.escaped())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file says something that does not hold: everything that was found, in the order of the file, at least one.
    #[error("{}", Lines(.0))]
    Invalid(Vec<Problem>),
}

/// One thing that is wrong, with the key, the place and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's name as the caller gave it; the variable, where it is one's.
    pub file: String,
    /// From 1; 0 in a variable.
    pub line: usize,
    /// In characters, from 1; 0 in a variable.
    pub column: usize,
    /// The key, what is wrong, and what would be right.
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

struct Lines<'a>(&'a [Problem]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let newline = if index > 0 { "\n" } else { "" };
            write!(f, "{newline}{problem}")?;
        }
        Ok(())
    }
}

/// The line and the column, both from 1, of the byte `offset` of `text`.
pub(super) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}
