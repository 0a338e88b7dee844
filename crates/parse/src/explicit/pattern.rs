//! Compiles regular expressions, and locates errors in them.

use regex::{Regex, RegexBuilder};
use std::fmt;

/// Bytes of a compiled pattern, and of the caches for matching.
const COMPILED_BYTES_MAX: usize = 4 << 20;
/// Depth of nested groups.
const NESTED_MAX: u32 = 100;
/// Characters of a long pattern shown on either side of an error.
const EXCERPT: usize = 50;

/// An error in a pattern, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinePatternError {
    /// The name of the faulty pattern of the configuration's `patterns`; `None` for the pattern itself.
    pub of: Option<String>,
    /// The byte in that pattern.
    pub at: usize,
    /// The error, and the remedy.
    text: String,
    /// The line of the pattern, and a caret below the place.
    excerpt: String,
}

impl LinePatternError {
    pub(crate) fn new(pattern: &str, at: usize, text: impl Into<String>) -> LinePatternError {
        LinePatternError { of: None, at, text: text.into(), excerpt: excerpt(pattern, at) }
    }

    pub(super) fn of(self, name: Option<&str>) -> LinePatternError {
        LinePatternError { of: name.map(str::to_owned), ..self }
    }
}

/// Prints the error, then the line of the pattern, then a caret below the place.
impl fmt::Display for LinePatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.text, self.excerpt)
    }
}

impl std::error::Error for LinePatternError {}

/// The part of the line around the byte `at`, and a caret below it.
fn excerpt(pattern: &str, at: usize) -> String {
    let at = (0..=at.min(pattern.len())).rev().find(|at| pattern.is_char_boundary(*at)).unwrap_or(0);
    let (before, after) = pattern.split_at(at);
    let before: Vec<char> = before.rsplit('\n').next().unwrap_or_default().chars().collect();
    let after = after.split('\n').next().unwrap_or_default();
    let is_short = before.len() + after.chars().count() <= 2 * EXCERPT;
    let (most_before, most_after) = if is_short { (usize::MAX, usize::MAX) } else { (EXCERPT, EXCERPT) };
    let cut = before.len().saturating_sub(most_before);
    let start = if cut > 0 { "…" } else { "" };
    let end = if after.chars().nth(most_after).is_some() { "…" } else { "" };
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    let line: String = before[cut..].iter().copied().chain(after.chars().take(most_after)).map(shown).collect();
    let spaces = " ".repeat(before.len() - cut + start.chars().count());
    format!("    {start}{line}{end}\n    {spaces}^")
}

/// Checks that a text is a regular expression.
pub(super) fn check(pattern: &str) -> Result<(), LinePatternError> {
    let (at, text) = match syntax(pattern) {
        Ok(()) => return Ok(()),
        Err(fault) => fault,
    };
    Err(LinePatternError::new(pattern, at, text))
}

/// Checks the syntax of a regular expression; the error has the place and the reason.
pub(super) fn syntax(pattern: &str) -> Result<(), (usize, String)> {
    let parsed = regex_syntax::ParserBuilder::new().nest_limit(NESTED_MAX).build().parse(pattern);
    let (at, kind) = match parsed {
        Ok(_) => return Ok(()),
        Err(regex_syntax::Error::Parse(error)) => (error.span().start.offset, error.kind().to_string()),
        Err(regex_syntax::Error::Translate(error)) => (error.span().start.offset, error.kind().to_string()),
        Err(error) => (0, error.to_string()),
    };
    let rest = pattern.get(at..).unwrap_or_default();
    let before = pattern.get(..at).unwrap_or_default();
    let hint = if before.ends_with("(?") && rest.starts_with('>') {
        ": an atomic group is written (?:…) here, matching takes linear time without it"
    } else if kind.contains("look-around") {
        ": make the surrounding text a part of the pattern instead"
    } else if kind.contains("backreference") {
        ": name a second group instead"
    } else {
        ""
    };
    Err((at, format!("{kind}{hint}")))
}

/// Compiles a pattern that must match a whole line. Errors show `shown`.
pub(super) fn compile_whole(pattern: &str, shown: &str) -> Result<Regex, LinePatternError> {
    compile(&format!(r"\A(?:{pattern})\z"), shown)
}

/// Compiles a pattern that may match any part of a text.
///
/// # Errors
///
/// If the pattern is invalid, or too large when compiled.
pub(crate) fn compile_part(pattern: &str) -> Result<Regex, LinePatternError> {
    check(pattern)?;
    compile(pattern, pattern)
}

fn compile(pattern: &str, shown: &str) -> Result<Regex, LinePatternError> {
    let built = RegexBuilder::new(pattern)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(COMPILED_BYTES_MAX)
        .nest_limit(2 * NESTED_MAX)
        .build();
    built.map_err(|error| {
        let text = match error {
            regex::Error::CompiledTooBig(_) => "is too large: it compiles to more than 4 MiB".to_owned(),
            // Every part is valid, so the whole is at fault.
            _ => {
                let message = error.to_string();
                message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
            }
        };
        LinePatternError::new(shown, 0, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_its_place() {
        for (pattern, at, shown) in [
            (r"(?P<a>\d+", 0, "unclosed group\n    (?P<a>\\d+\n    ^"),
            ("a{2,1}", 1, "invalid repetition count range, the start must be <= the end\n    a{2,1}\n     ^"),
            (
                "ä(?>b)",
                4,
                "an atomic group is written (?:…) here, matching takes linear time without it\n    ä(?>b)\n       ^",
            ),
            ("a(?=b)", 1, "make the surrounding text a part of the pattern instead\n    a(?=b)\n     ^"),
        ] {
            let error = check(pattern).expect_err(pattern);
            assert!(error.to_string().ends_with(shown), "{pattern}: {error}");
            assert_eq!(error.at, at, "{pattern}");
        }
        let long = format!("{}({}", "a".repeat(100), "b".repeat(100));
        let error = check(&long).expect_err("unclosed").to_string();
        let (a, b) = ("a".repeat(50), "b".repeat(49));
        assert_eq!(error, format!("unclosed group\n    …{a}({b}…\n    {}^", " ".repeat(51)));
    }

    #[test]
    fn a_pattern_that_compiles_too_large_is_refused() {
        let error = compile_part(r"(?:\w{1000}){100}").expect_err("too large");
        assert!(error.to_string().starts_with("is too large"), "{error}");
    }
}
