//! Replaces secrets before a record is stored: the matches of patterns in the message, in the fields and in their
//! names.
//!
//! Redaction applies to a complete record, joined and parsed, before the record is routed and gets its keys. So a value
//! is clean whether it came from JSON with escapes, from logfmt or from plain text. No instance (a source as its table
//! is named) gets a secret as its name. Each match counts under the pattern's name, and leaves no other trace.
//!
//! A line that cannot match costs one search for the letters that a match must contain. A value that was copied during
//! parsing, because it had escapes, is always searched by itself.
//!
//! * `presets`: the patterns with a name.
//! * `cards`: payment card numbers, by issuer, length and check digit.
//!
//! Not done on purpose: random letters alone do not count as a secret, and a number is searched as written, never split
//! over two fields.

mod cards;
mod presets;

use crate::{LinePatternError, compile_part};
use daytable_model::record::{Record, Value};
use regex::Regex;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Matches in one text; the text after them is replaced as a whole. The limit bounds the time of patterns that look far
/// ahead for each match.
const MATCHES_MAX: usize = 1000;
/// Patterns of the whole configuration and of a block together.
pub const PATTERNS_MAX: usize = 64;
/// Bytes before a cut that are searched for a secret that the cut may have halved.
const CUT_BYTES: usize = 4096;

/// A pattern, its replacement, and the count of its matches. Cheap to clone; clones share the count.
#[derive(Clone)]
pub struct Redaction(Arc<Inner>);

struct Inner {
    name: String,
    written: String,
    target: Target,
    replace: String,
    matches: Arc<AtomicU64>,
}

/// How a secret is found.
#[derive(Clone)]
enum Target {
    Card,
    Regex(Search),
}

/// A regular expression. If it has a group, only the text of the first group is replaced.
#[derive(Clone)]
struct Search {
    regex: Regex,
    has_group: bool,
    /// A part that every match contains, independent of the text around it. A text without this part cannot match, nor
    /// can any piece of the text.
    hint: Option<Regex>,
    /// Decides whether a match counts, from the text that would be replaced.
    counts: fn(&str) -> bool,
    /// Whether the value of a field with this name is replaced as a whole.
    names: fn(&str) -> bool,
}

impl Redaction {
    /// The preset of this name; see [`Redaction::presets`].
    pub fn preset(name: &str) -> Option<Redaction> {
        let (name, target) = presets::all().find(|(known, _)| *known == name)?;
        Some(Redaction::new(name, String::new(), target, format!("[redacted {name}]")))
    }

    /// The names of the presets.
    pub fn presets() -> impl Iterator<Item = &'static str> {
        presets::all().map(|(name, _)| name)
    }

    /// A custom pattern. If it has a group, only the text of the first group is replaced.
    ///
    /// # Errors
    ///
    /// If the pattern is invalid, or matches the empty text.
    pub fn regex(name: &str, pattern: &str, replace: Option<&str>) -> Result<Redaction, LinePatternError> {
        let regex = compile_part(pattern)?;
        if regex.is_match("") {
            return Err(LinePatternError::new(pattern, 0, "matches the empty text, and so every text"));
        }
        let replace = replace.map_or_else(|| format!("[redacted {name}]"), str::to_owned);
        let target = Target::Regex(Search {
            has_group: regex.captures_len() > 1,
            regex,
            hint: None,
            counts: |_| true,
            names: |_| false,
        });
        Ok(Redaction::new(name, pattern.to_owned(), target, replace))
    }

    fn new(name: &str, written: String, target: Target, replace: String) -> Redaction {
        Redaction(Arc::new(Inner { name: name.into(), written, target, replace, matches: Arc::default() }))
    }

    /// The name, which metrics use too.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Number of replaced matches.
    pub fn matches(&self) -> u64 {
        self.0.matches.load(Ordering::Relaxed)
    }

    /// The counter that all clones share.
    pub fn counter(&self) -> Arc<AtomicU64> {
        self.0.matches.clone()
    }

    fn count(&self, matches: usize) {
        self.0.matches.fetch_add(matches as u64, Ordering::Relaxed);
    }

    fn may_be_in(&self, text: &str) -> bool {
        match &self.0.target {
            Target::Card => cards::may_be_in(text),
            Target::Regex(search) => search.hint.as_ref().is_none_or(|hint| hint.is_match(text)),
        }
    }

    /// The text with its matches replaced; `None` without a match.
    fn replaced(&self, text: &str) -> Option<String> {
        let Inner { target, replace, .. } = &*self.0;
        let (mut made, mut copied, mut at, mut matches) = (String::new(), 0, 0, 0);
        while let Some((secret, next)) = target.next(text, at) {
            made.push_str(&text[copied..secret.start]);
            made.push_str(replace);
            (copied, at) = (secret.end, next);
            matches += 1;
            if matches == MATCHES_MAX && at < text.len() {
                made.push_str(replace);
                copied = text.len();
                break;
            }
        }
        if matches == 0 {
            return None;
        }
        made.push_str(&text[copied..]);
        self.count(matches);
        Some(made)
    }

    fn is_name_of_secret(&self, name: &str) -> bool {
        match &self.0.target {
            Target::Card => false,
            Target::Regex(search) => (search.names)(name),
        }
    }
}

impl Target {
    /// The next secret at or after `at`, and the place where the search continues.
    fn next(&self, text: &str, mut at: usize) -> Option<(Range<usize>, usize)> {
        let search = match self {
            Target::Card => return cards::next(text, at).map(|card| (card.clone(), card.end)),
            Target::Regex(search) => search,
        };
        while at <= text.len() {
            let (whole, secret) = if search.has_group {
                let mut groups = search.regex.capture_locations();
                let whole = search.regex.captures_read_at(&mut groups, text, at)?;
                let secret = (1..groups.len())
                    .find_map(|group| groups.get(group))
                    .map_or(whole.range(), |(start, end)| start..end);
                (whole.range(), secret)
            } else {
                let whole = search.regex.find_at(text, at)?.range();
                (whole.clone(), whole)
            };
            // Continue after the match, or one character later if the match is empty.
            at = if whole.is_empty() {
                whole.end + text[whole.end..].chars().next().map_or(1, char::len_utf8)
            } else {
                whole.end
            };
            if !secret.is_empty() && (search.counts)(&text[secret.clone()]) {
                return Some((secret, at));
            }
        }
        None
    }
}

impl PartialEq for Redaction {
    fn eq(&self, other: &Redaction) -> bool {
        let of = |one: &Redaction| (one.0.name.clone(), one.0.written.clone(), one.0.replace.clone());
        of(self) == of(other)
    }
}

impl Eq for Redaction {}

impl std::fmt::Debug for Redaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redaction({:?}, {:?} as {:?})", self.0.name, self.0.written, self.0.replace)
    }
}

/// All patterns of a source. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redactor(Arc<[Redaction]>);

impl Redactor {
    /// The first [`PATTERNS_MAX`] of these patterns, in order; `None` without any, so that redaction costs no time.
    pub fn new(patterns: impl IntoIterator<Item = Redaction>) -> Option<Redactor> {
        let mut all: Vec<Redaction> = Vec::new();
        for pattern in patterns {
            if all.len() < PATTERNS_MAX && !all.contains(&pattern) {
                all.push(pattern);
            }
        }
        if all.is_empty() { None } else { Some(Redactor(all.into())) }
    }

    /// The patterns.
    pub fn patterns(&self) -> &[Redaction] {
        &self.0
    }

    /// Replaces the matches in a record parsed from `text`; true if there were any.
    pub fn redact(&self, record: &mut Record<'_>, text: &str) -> bool {
        // Borrowed values are parts of the text, so they cannot contain a match that the text lacks.
        let mut possible = 0u64;
        for (number, pattern) in self.0.iter().enumerate() {
            possible |= u64::from(pattern.may_be_in(text)) << number;
        }
        self.redact_possible(record, possible)
    }

    /// Replaces the matches in a record that was not parsed from one text; true if there were any.
    pub fn redact_parts(&self, record: &mut Record<'_>) -> bool {
        self.redact_possible(record, u64::MAX)
    }

    /// `possible`: a bit a pattern, whether it may match in borrowed values.
    fn redact_possible(&self, record: &mut Record<'_>, possible: u64) -> bool {
        let mut had_any = self.clean(&mut record.message, possible);
        for field in &mut record.fields {
            had_any |= match &mut field.value {
                Value::String(value) => self.clean_named(&field.name, value) | self.clean(value, possible),
                Value::Int64(number) => {
                    let written = number.to_string();
                    self.clean_number(&mut field.value, written)
                }
                Value::Double(number) => {
                    let written = number.to_string();
                    self.clean_number(&mut field.value, written)
                }
                Value::Boolean(_) => false,
                Value::Binary(bytes) => {
                    let written = String::from_utf8_lossy(bytes).into_owned();
                    self.clean_number(&mut field.value, written)
                }
            };
            had_any |= self.clean(&mut field.name, possible);
        }
        had_any
    }

    fn clean(&self, text: &mut Cow<'_, str>, possible: u64) -> bool {
        let possible = if matches!(text, Cow::Owned(_)) { u64::MAX } else { possible };
        let mut had_any = false;
        for (number, pattern) in self.0.iter().enumerate() {
            if possible >> number & 1 == 1
                && pattern.may_be_in(text)
                && let Some(clean) = pattern.replaced(text)
            {
                *text = Cow::Owned(clean);
                had_any = true;
            }
        }
        had_any
    }

    /// Replaces the value of a field whose name declares a secret.
    fn clean_named(&self, name: &str, value: &mut Cow<'_, str>) -> bool {
        let pattern = self.0.iter().find(|pattern| pattern.is_name_of_secret(name) && !value.is_empty());
        if let Some(pattern) = pattern {
            pattern.count(1);
            *value = Cow::Owned(pattern.0.replace.clone());
        }
        pattern.is_some()
    }

    /// Turns a number or bytes into text if the written form has a match.
    fn clean_number(&self, value: &mut Value<'_>, written: String) -> bool {
        let mut text = Cow::Owned(written);
        let had_any = self.clean(&mut text, u64::MAX);
        if had_any {
            *value = Value::String(Cow::Owned(text.into_owned()));
        }
        had_any
    }

    /// How much to keep of a text that was cut at its end. Patterns do not find half a secret, so the cut word is
    /// removed, and with digits also the groups before it.
    pub fn keep_of_cut(&self, text: &str) -> usize {
        let bytes = text.as_bytes();
        let least = bytes.len().saturating_sub(CUT_BYTES);
        let is_of_word = |byte: &u8| !byte.is_ascii_whitespace();
        let mut end = bytes.len() - bytes[least..].iter().rev().take_while(|byte| is_of_word(byte)).count();
        // `4111 1111 11` is a number in groups.
        let is_of_number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b' ' | b'-');
        if bytes[end..].iter().all(is_of_number) {
            end -= bytes[least.min(end)..end].iter().rev().take_while(|byte| is_of_number(byte)).count();
        }
        // No word ends in that range. Half of so long a word is not a recognisable secret.
        let end = if end <= least && least > 0 { bytes.len() } else { end };
        (0..=end).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
    }

    /// Whether a line leaves a private key open for the next line to continue. `is_open`: the line itself continues a
    /// key.
    pub fn leaves_key_open(&self, is_open: bool, line: &str) -> bool {
        self.0.iter().any(|pattern| pattern.name() == presets::PRIVATE_KEY) && presets::leaves_key_open(is_open, line)
    }

    /// Whether a line looks like a line inside a private key. After a line with an open key, such a line belongs to the
    /// same record, whatever begins a record otherwise, so that the whole key is replaced.
    pub fn goes_on_with_key(line: &str) -> bool {
        presets::is_of_key(line.trim())
    }
}

#[cfg(test)]
mod tests;
