//! Secrets are replaced before anything is stored: the matches of patterns in the message of a record, in its fields and
//! in their names.
//!
//! It is done to a record that is whole, its lines joined and its format taken apart, before it is routed and gets its
//! keys; so a value is clean whether it came from JSON with escapes, from logfmt or from plain text, and no instance is
//! named by a secret. Target matched is counted by the pattern's name; nothing else remains of it.
//!
//! A line without anything that could match costs one look for the letters that a match must have. Target was
//! copied while it was parsed, because it had escapes, is always looked at by itself.
//!
//! * `presets`: what is known by name.
//! * `cards`: numbers of payment cards, by issuer, length and check digit.
//!
//! Not done on purpose: nothing is recognised as a secret by its looks alone (random letters), and a number is looked at
//! as it would be written, never split over two fields.

mod cards;
mod presets;

use crate::{LinePatternError, compile_part};
use daytable_model::record::{Record, Value};
use regex::Regex;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Matches in one text at most: what comes after them is replaced as a whole. It bounds the time that patterns take
/// whose matches are looked for far ahead each time.
const MATCHES_MAX: usize = 1000;
/// Patterns at most, those of the whole configuration and of a block together.
pub const PATTERNS_MAX: usize = 64;
/// How far before a cut something is looked for that the cut might have left half of.
const CUT_BYTES: usize = 4096;

/// A pattern, what its matches become, and how many there were. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct Redaction(Arc<Inner>);

struct Inner {
    name: String,
    written: String,
    what: Target,
    replace: String,
    matches: Arc<AtomicU64>,
}

/// Target is looked for.
#[derive(Clone)]
enum Target {
    Card,
    Regex(Search),
}

/// A regular expression; where it has a group, only what the first one matched is replaced.
#[derive(Clone)]
struct Search {
    regex: Regex,
    has_group: bool,
    /// Target a text must have in it to match, without a look at what stands beside it: then a part of a text without it does
    /// not match either.
    hint: Option<Regex>,
    /// Whether a match is one, judged by what would be replaced.
    counts: fn(&str) -> bool,
    /// Whether a field of this name is replaced as a whole.
    names: fn(&str) -> bool,
}

impl Redaction {
    /// A pattern that is known by name: [`Redaction::presets`].
    pub fn preset(name: &str) -> Option<Redaction> {
        let (name, what) = presets::all().find(|(known, _)| *known == name)?;
        Some(Redaction::new(name, String::new(), what, format!("[redacted {name}]")))
    }

    /// The names of the presets.
    pub fn presets() -> impl Iterator<Item = &'static str> {
        presets::all().map(|(name, _)| name)
    }

    /// A pattern of one's own. Where it has a group, only what its first one matched is replaced.
    ///
    /// # Errors
    ///
    /// Where the pattern is none, or matches where there is nothing.
    pub fn regex(name: &str, pattern: &str, replace: Option<&str>) -> Result<Redaction, LinePatternError> {
        let regex = compile_part(pattern)?;
        if regex.is_match("") {
            return Err(LinePatternError::new(pattern, 0, "matches where there is nothing, thus everywhere"));
        }
        let replace = replace.map_or_else(|| format!("[redacted {name}]"), str::to_owned);
        let what = Target::Regex(Search {
            has_group: regex.captures_len() > 1,
            regex,
            hint: None,
            counts: |_| true,
            names: |_| false,
        });
        Ok(Redaction::new(name, pattern.to_owned(), what, replace))
    }

    fn new(name: &str, written: String, what: Target, replace: String) -> Redaction {
        Redaction(Arc::new(Inner { name: name.into(), written, what, replace, matches: Arc::default() }))
    }

    /// Its name, among the metrics as well.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// How many matches were replaced.
    pub fn matches(&self) -> u64 {
        self.0.matches.load(Ordering::Relaxed)
    }

    /// Where they are counted: the same for all of its clones.
    pub fn counter(&self) -> Arc<AtomicU64> {
        self.0.matches.clone()
    }

    fn count(&self, matches: usize) {
        self.0.matches.fetch_add(matches as u64, Ordering::Relaxed);
    }

    fn may_be_in(&self, text: &str) -> bool {
        match &self.0.what {
            Target::Card => cards::may_be_in(text),
            Target::Regex(search) => search.hint.as_ref().is_none_or(|hint| hint.is_match(text)),
        }
    }

    /// The text with its matches replaced; none where there are none.
    fn replaced(&self, text: &str) -> Option<String> {
        let Inner { what, replace, .. } = &*self.0;
        let (mut made, mut copied, mut at, mut matches) = (String::new(), 0, 0, 0);
        while let Some((secret, next)) = what.next(text, at) {
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
        match &self.0.what {
            Target::Card => false,
            Target::Regex(search) => (search.names)(name),
        }
    }
}

impl Target {
    /// The next secret from `at` on, and where to look for the one after it.
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
            // Behind it, or a character on where it is empty.
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
    /// Of these, in their order, at most [`PATTERNS_MAX`] of them; none where there are none, so that it costs nothing.
    pub fn new(patterns: impl IntoIterator<Item = Redaction>) -> Option<Redactor> {
        let mut all: Vec<Redaction> = Vec::new();
        for pattern in patterns {
            if all.len() < PATTERNS_MAX && !all.contains(&pattern) {
                all.push(pattern);
            }
        }
        if all.is_empty() { None } else { Some(Redactor(all.into())) }
    }

    /// Its patterns.
    pub fn patterns(&self) -> &[Redaction] {
        &self.0
    }

    /// Replaces what matches in a record that was read from `text`; true where anything did.
    pub fn redact(&self, record: &mut Record<'_>, text: &str) -> bool {
        // Target is borrowed is a part of the text, and cannot have what the text does not.
        let mut possible = 0u64;
        for (number, pattern) in self.0.iter().enumerate() {
            possible |= u64::from(pattern.may_be_in(text)) << number;
        }
        self.redact_possible(record, possible)
    }

    /// Replaces what matches in a record that was not read from one text; true where anything did.
    pub fn redact_parts(&self, record: &mut Record<'_>) -> bool {
        self.redact_possible(record, u64::MAX)
    }

    /// `possible`: a bit a pattern, whether it may match in what is borrowed.
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

    /// Replaces the value of a field whose name says that it is a secret.
    fn clean_named(&self, name: &str, value: &mut Cow<'_, str>) -> bool {
        let pattern = self.0.iter().find(|pattern| pattern.is_name_of_secret(name) && !value.is_empty());
        if let Some(pattern) = pattern {
            pattern.count(1);
            *value = Cow::Owned(pattern.0.replace.clone());
        }
        pattern.is_some()
    }

    /// Makes a number, or bytes, text where something in it matches.
    fn clean_number(&self, value: &mut Value<'_>, written: String) -> bool {
        let mut text = Cow::Owned(written);
        let had_any = self.clean(&mut text, u64::MAX);
        if had_any {
            *value = Value::String(Cow::Owned(text.into_owned()));
        }
        had_any
    }

    /// How much of a text to keep that was cut at its end: half a secret is none that a pattern knows, so the word that
    /// was cut is left out, and with digits the groups before it.
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
        // No end of a word that far back: it is none that anybody would know by its half.
        let end = if end <= least && least > 0 { bytes.len() } else { end };
        (0..=end).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
    }

    /// Whether a line leaves a private key open that the next one may go on with. `is_open`: whether the line itself goes
    /// on with one.
    pub fn leaves_key_open(&self, is_open: bool, line: &str) -> bool {
        self.0.iter().any(|pattern| pattern.name() == presets::PRIVATE_KEY) && presets::leaves_key_open(is_open, line)
    }

    /// Whether a line looks like one within a private key. After a line that left one open it belongs to its record,
    /// however records begin else, so that the key is replaced as a whole.
    pub fn goes_on_with_key(line: &str) -> bool {
        presets::is_of_key(line.trim())
    }
}

#[cfg(test)]
mod tests;
