//! Replaces secrets before a record is stored: the matches of patterns in the message, in the fields and in their
//! names, and in the line itself.
//!
//! Redaction applies to a complete record, joined and parsed, before the record is routed and gets its keys. No instance
//! (a source as its table is named) gets a secret as its name. Each match counts under the pattern's name, and leaves no
//! other trace.
//!
//! A text is searched as it is written, and as it is read after its escapes were decoded once, twice and so on
//! (`views`). A match in a decoded text is replaced in the bytes that were decoded, so no spelling of it stays. What is
//! found in the values of a record and what is found in its line are one list; `line_templates::redacted` makes the line of it.
//!
//! A line that cannot match costs one search for the letters that a match must contain. A value that was copied during
//! parsing, because it had escapes, is always searched by itself.
//!
//! * `presets`: the patterns with a name.
//! * `cards`: payment card numbers, by issuer, length and check digit.
//! * `views`: texts after their escapes were decoded.
//!
//! Not done on purpose: random letters alone do not count as a secret, a number is searched as written, never split over
//! two fields, and encodings that patterns may describe themselves (percent signs, base64) are not decoded.

mod cards;
mod presets;
mod views;

use crate::{LinePatternError, compile_part};
use daytable_model::record::{Field, Record, Value};
use regex::Regex;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use views::TextView;
pub(crate) use views::{Views, is_word};

/// Matches in one text; the text after them is replaced as a whole. The limit bounds the time of patterns that look far
/// ahead for each match.
const MATCHES_MAX: usize = 1000;
/// Patterns of the whole configuration and of a block together.
pub const PATTERNS_MAX: usize = 64;
/// Bytes before a cut that may be a secret which the cut has halved.
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
    lines: Arc<AtomicU64>,
}

impl FoundSecret {
    /// The secret in a text in which its own text begins at `start`.
    pub(crate) fn moved(mut self, start: usize) -> FoundSecret {
        self.bytes = self.bytes.start + start..self.bytes.end + start;
        self
    }
}

/// Secrets in the order of the text. Those that overlap become one.
pub(crate) fn merged(secrets: &[FoundSecret]) -> Vec<FoundSecret> {
    let mut sorted: Vec<&FoundSecret> = secrets.iter().filter(|secret| !secret.bytes.is_empty()).collect();
    sorted.sort_by_key(|secret| (secret.bytes.start, std::cmp::Reverse(secret.bytes.end)));
    let mut merged: Vec<FoundSecret> = Vec::with_capacity(sorted.len());
    for secret in sorted {
        match merged.last_mut().filter(|last| secret.bytes.start < last.bytes.end) {
            Some(last) => last.bytes.end = last.bytes.end.max(secret.bytes.end),
            None => merged.push(secret.clone()),
        }
    }
    merged
}

impl Inner {
    /// Whether the pattern is one of the configuration.
    fn is_own(&self) -> bool {
        !self.written.is_empty()
    }
}

/// A text with replacements, and where they are: before and after.
pub(crate) struct ReplacedText {
    pub(crate) text: String,
    pieces: Vec<(Range<usize>, Range<usize>)>,
}

impl ReplacedText {
    /// Where a place of the text is after the replacements. A place within a secret is the end of its replacement.
    pub(crate) fn place_after(&self, at: usize) -> usize {
        let passed = self.pieces.partition_point(|(before, _)| before.start < at);
        match passed.checked_sub(1).and_then(|last| self.pieces.get(last)) {
            Some((before, after)) => after.end + at.saturating_sub(before.end),
            None => at,
        }
    }
}

/// A replacement in a text without escapes.
pub(crate) fn as_it_is(replacement: &str, _: &Range<usize>) -> String {
    replacement.to_owned()
}

/// A value as it is written, as far as it can be a secret.
pub(crate) fn written_value<'v>(value: &'v Value<'_>) -> Option<Cow<'v, str>> {
    Some(match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Int64(number) => Cow::Owned(number.to_string()),
        Value::Double(number) => Cow::Owned(number.to_string()),
        Value::Binary(bytes) => String::from_utf8_lossy(bytes),
        Value::Boolean(_) => return None,
    })
}

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundSecret {
    /// Its bytes in the text, as they are written.
    pub(crate) bytes: Range<usize>,
    /// The number of its pattern.
    pub(crate) pattern: usize,
    /// The secret, after its escapes were decoded.
    pub(crate) decoded: String,
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
        let (matches, lines) = Default::default();
        Redaction(Arc::new(Inner { name: name.into(), written, target, replace, matches, lines }))
    }

    /// The name, which metrics use too.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Number of replaced matches.
    pub fn matches(&self) -> u64 {
        self.0.matches.load(Ordering::Relaxed)
    }

    /// The counter of matches that all clones share.
    pub fn counter(&self) -> Arc<AtomicU64> {
        self.0.matches.clone()
    }

    /// The counter, which all clones share, of lines that were not kept because it was not known where in them the
    /// secret is.
    pub fn line_counter(&self) -> Arc<AtomicU64> {
        self.0.lines.clone()
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

    /// The matches in a text. What a redaction wrote is not a match.
    fn matches_in(&self, text: &str) -> Vec<Range<usize>> {
        let Inner { target, replace, .. } = &*self.0;
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some((secret, next)) = target.next(text, at) {
            at = next;
            let is_replacement = secret.len() <= replace.len() && text[secret.start..].starts_with(&**replace);
            if is_replacement {
                continue;
            }
            if found.len() == MATCHES_MAX {
                found.push(secret.start..text.len());
                break;
            }
            found.push(secret);
        }
        found
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

    /// A bit a pattern: whether the text may have a match, however it is written.
    pub(crate) fn possible_in(&self, text: &str) -> u64 {
        let mut possible = self.hinted_in(text);
        if views::may_have_escapes(text) && (possible.count_ones() as usize) < self.0.len() {
            possible |= Views::of(text).0[1..].iter().fold(0, |hinted, view| hinted | self.hinted_in(&view.text));
        }
        possible
    }

    fn hinted_in(&self, text: &str) -> u64 {
        self.0
            .iter()
            .enumerate()
            .fold(0, |hinted, (number, pattern)| hinted | u64::from(pattern.may_be_in(text)) << number)
    }

    /// The secrets in a text, however they are written. `possible`: a bit a pattern, whether it may match.
    /// `has_escapes`: whether a backslash surely begins an escape.
    pub(crate) fn find(&self, text: &str, possible: u64, has_escapes: bool) -> Vec<FoundSecret> {
        let mut found = Vec::new();
        if possible == 0 {
            return found;
        }
        let views = if views::may_have_escapes(text) { Views::of(text) } else { Views(vec![TextView::written(text)]) };
        // Matches with half an escape at an end: their bytes without the halves and with the whole escapes.
        let mut halved: Vec<(Range<usize>, FoundSecret)> = Vec::new();
        for (number, view) in views.0.iter().enumerate() {
            let of_before = std::mem::take(&mut halved);
            let begin = found.len();
            for (pattern, redaction) in self.0.iter().enumerate().filter(|(bit, _)| possible >> bit & 1 == 1) {
                if !redaction.may_be_in(&view.text) {
                    continue;
                }
                for range in redaction.matches_in(&view.text) {
                    let around = |at: usize| views.0.get(number + 1)?.escape_around(at);
                    let (first, last) = (around(range.start), around(range.end));
                    let decoded = view.text[range.clone()].to_owned();
                    let secret =
                        |range: &Range<usize>| FoundSecret { bytes: views.bytes_of(number, range), pattern, decoded };
                    if first.is_none() && last.is_none() {
                        found.push(secret(&range));
                        continue;
                    }
                    let start = |whole: bool| match &first {
                        Some(escape) => {
                            if whole {
                                escape.start
                            } else {
                                escape.end
                            }
                        }
                        None => range.start,
                    };
                    let end = |whole: bool| match &last {
                        Some(escape) => {
                            if whole {
                                escape.end
                            } else {
                                escape.start
                            }
                        }
                        None => range.end,
                    };
                    let inner = views.bytes_of(number, &(start(false)..end(false).max(start(false))));
                    halved.push((inner, secret(&(start(true)..end(true)))));
                }
            }
            // The letter of an escape may be no part of the secret: if the decoded text has a match without the letter,
            // that is the secret.
            let is_there = |inner: &Range<usize>, pattern: usize| {
                let covers = |secret: &FoundSecret| {
                    secret.pattern == pattern && secret.bytes.start <= inner.start && inner.end <= secret.bytes.end
                };
                found[begin..].iter().any(covers)
            };
            let is_alone = |(inner, secret): &(Range<usize>, FoundSecret)| {
                !(is_there(inner, secret.pattern) || has_escapes && number == 1)
            };
            let alone: Vec<_> = of_before.into_iter().filter(is_alone).collect();
            found.extend(alone.into_iter().map(|(_, secret)| secret));
        }
        found
    }

    /// Replaces the matches in a record that was not parsed from one text; true if there were any.
    pub fn redact_parts(&self, record: &mut Record<'_>) -> bool {
        let mut had_any = self.clean(&mut record.message);
        for field in &mut record.fields {
            had_any |= self.redact_field(field);
        }
        had_any
    }

    /// Replaces the matches in the name and in the value of a field; true if there were any.
    pub fn redact_field(&self, field: &mut Field<'_>) -> bool {
        let found = self.find_in_value(&field.name, &field.value, u64::MAX);
        let had_any = !found.is_empty();
        if had_any {
            self.count_all(&found);
            self.replace_in_value(&mut field.value, &found);
        }
        self.clean(&mut field.name) | had_any
    }

    /// A text with its matches replaced.
    pub fn redact_text<'t>(&self, mut text: Cow<'t, str>) -> Cow<'t, str> {
        self.clean(&mut text);
        text
    }

    fn clean(&self, text: &mut Cow<'_, str>) -> bool {
        let found = self.find(text, self.possible_in(text), false);
        if !found.is_empty() {
            self.count_all(&found);
            *text = Cow::Owned(self.replaced(text, &found, as_it_is).text);
        }
        !found.is_empty()
    }

    /// The secrets in a value: in a text, or in a number as it is written. A name may declare the whole value a secret.
    pub(crate) fn find_in_value(&self, name: &str, value: &Value<'_>, possible: u64) -> Vec<FoundSecret> {
        let Some(text) = written_value(value) else { return Vec::new() };
        let declares = |pattern: &Redaction| pattern.is_name_of_secret(name) && !text.is_empty();
        if let Some(pattern) = self.0.iter().position(declares) {
            let is_replaced = text == self.0[pattern].0.replace;
            let whole = FoundSecret { bytes: 0..text.len(), pattern, decoded: text.into_owned() };
            return if is_replaced { Vec::new() } else { vec![whole] };
        }
        let possible = if matches!(value, Value::String(Cow::Borrowed(_))) { possible } else { u64::MAX };
        self.find(&text, possible, false)
    }

    /// Replaces secrets in a value, of which a number becomes a text.
    pub(crate) fn replace_in_value(&self, value: &mut Value<'_>, secrets: &[FoundSecret]) {
        if let Some(text) = written_value(value).filter(|_| !secrets.is_empty()) {
            *value = Value::String(Cow::Owned(self.replaced(&text, secrets, as_it_is).text));
        }
    }

    /// A text with its secrets replaced. `spelled` is how a replacement of these bytes is written. Secrets that overlap are
    /// replaced as one.
    pub(crate) fn replaced(
        &self,
        text: &str,
        secrets: &[FoundSecret],
        spelled: impl Fn(&str, &Range<usize>) -> String,
    ) -> ReplacedText {
        let mut made = ReplacedText { text: String::with_capacity(text.len()), pieces: Vec::new() };
        let mut copied = 0;
        for FoundSecret { bytes, pattern, .. } in merged(secrets) {
            made.text.push_str(&text[copied..bytes.start]);
            let start = made.text.len();
            made.text.push_str(&spelled(&self.0[pattern].0.replace, &bytes));
            copied = bytes.end;
            made.pieces.push((bytes, start..made.text.len()));
        }
        made.text.push_str(&text[copied..]);
        made
    }

    /// Counts secrets. Those of one pattern that overlap are one.
    pub(crate) fn count_all(&self, secrets: &[FoundSecret]) {
        for (number, pattern) in self.0.iter().enumerate() {
            let mut places: Vec<_> = secrets.iter().filter(|secret| secret.pattern == number).collect();
            places.sort_by_key(|secret| secret.bytes.start);
            let (mut counted, mut end) = (0, 0);
            for FoundSecret { bytes, .. } in places {
                counted += usize::from(counted == 0 || bytes.start >= end);
                end = end.max(bytes.end);
            }
            pattern.count(counted);
        }
    }

    /// Counts a line that was not kept, because a secret of these was not found in it.
    pub(crate) fn count_line(&self, secrets: &[FoundSecret]) {
        let patterns = secrets.iter().fold(0u64, |patterns, secret| patterns | 1 << secret.pattern);
        for (_, pattern) in self.0.iter().enumerate().filter(|(number, _)| patterns >> number & 1 == 1) {
            pattern.0.lines.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a secret may have several values of a line: a private key may, if it has an end.
    pub(crate) fn spans_values(&self, pattern: usize, secret: &str) -> bool {
        self.0.get(pattern).is_some_and(|pattern| pattern.name() == presets::PRIVATE_KEY && !pattern.0.is_own())
            && !presets::leaves_key_open(false, secret)
    }

    /// How much to keep of a text that was cut at its end. Patterns do not find half a secret, so the cut word is
    /// removed, and with digits also the groups before it. Of a longer word the last 4,096 bytes are removed.
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
        text.floor_char_boundary(end)
    }

    /// Whether a line leaves a private key open for the next line to continue. `is_open`: the line itself continues a
    /// key.
    pub fn leaves_key_open(&self, is_open: bool, line: &str) -> bool {
        self.0.iter().any(|pattern| pattern.name() == presets::PRIVATE_KEY) && presets::leaves_key_open(is_open, line)
    }

    /// Whether a line looks like a line inside a private key. After a line that opens a key, such a line belongs to the
    /// same record, even if it would begin a new one elsewhere. So the whole key is replaced.
    pub fn goes_on_with_key(line: &str) -> bool {
        presets::is_of_key(line.trim())
    }
}

#[cfg(test)]
mod tests;
