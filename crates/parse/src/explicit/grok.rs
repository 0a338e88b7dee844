//! Grok: `%{NAME}`, `%{NAME:field}` and `%{NAME:field:int}` within a regular expression.
//!
//! Each reference expands to a group with the text of its pattern, in which references expand too. A field
//! `[http][status]` gets the name `http.status`.

use super::CaptureKind;
use super::library;
use super::pattern::{LinePatternError, syntax};
use daytable_model::did_you_mean::did_you_mean;
use std::collections::BTreeMap;

/// Depth of references within references.
const DEPTH_MAX: usize = 32;
/// Bytes of the expanded regular expression.
const EXPANDED_BYTES_MAX: usize = 64 << 10;
/// The prefix of the group names for fields: a number follows. Users do not write this name.
const GROUP: &str = "__field_";

/// A regular expression, and the fields of its groups.
#[derive(Default)]
pub(super) struct Expanded {
    pub(super) regex: String,
    fields: Vec<(String, CaptureKind)>,
}

impl Expanded {
    /// The field of a group, if a reference made the group.
    pub(super) fn field(&self, group: &str) -> Option<(&str, CaptureKind)> {
        let (name, kind) = self.fields.get(group.strip_prefix(GROUP)?.parse::<usize>().ok()?)?;
        Some((name, *kind))
    }
}

/// Expands a pattern. Checks every pattern of `patterns`, even those without a reference to them.
pub(super) fn expand(pattern: &str, patterns: &BTreeMap<String, String>) -> Result<Expanded, LinePatternError> {
    for (name, text) in patterns {
        check(text).map_err(|error| error.of(Some(name)))?;
        Expansion { patterns, trail: vec![name], made: Expanded::default() }.add(text, Some(name))?;
    }
    check(pattern)?;
    let mut expansion = Expansion { patterns, trail: Vec::new(), made: Expanded::default() };
    expansion.add(pattern, None)?;
    Ok(expansion.made)
}

/// Checks that the text between the references is a regular expression.
fn check(text: &str) -> Result<(), LinePatternError> {
    // Each reference counts as an empty group. An error shows the place in the text with the reference.
    let (mut regex, mut starts) = (String::new(), Vec::new());
    for piece in pieces(text) {
        let (at, piece) = piece?;
        starts.push((regex.len(), at));
        regex.push_str(match piece {
            Piece::Text(text) => text,
            Piece::Reference(_) => "(?:)",
        });
    }
    syntax(&regex).map_err(|(at, message)| {
        let before = starts.iter().rev().find(|(start, _)| *start <= at);
        let at = before.map_or(0, |(start, of_text)| of_text + (at - start));
        LinePatternError::new(text, at, message)
    })
}

struct Expansion<'p> {
    patterns: &'p BTreeMap<String, String>,
    /// The names of the patterns from the outermost to this one.
    trail: Vec<&'p str>,
    made: Expanded,
}

impl<'p> Expansion<'p> {
    /// Adds the expansion of `text`, the text of the pattern `of`.
    fn add(&mut self, text: &'p str, of: Option<&'p str>) -> Result<(), LinePatternError> {
        for piece in pieces(text) {
            let (at, piece) = piece.map_err(|error| error.of(of))?;
            match piece {
                Piece::Text(text) => self.made.regex.push_str(text),
                Piece::Reference(reference) => {
                    self.refer(reference).map_err(|fault| match fault {
                        Fault::Here(message) => LinePatternError::new(text, at, message).of(of),
                        Fault::Below(error) => error,
                    })?;
                }
            }
            if self.made.regex.len() > EXPANDED_BYTES_MAX {
                return Err(LinePatternError::new(text, at, "expands to more than 64 KiB").of(of));
            }
        }
        Ok(())
    }

    fn refer(&mut self, reference: Reference<'p>) -> Result<(), Fault> {
        let Reference { name, field, kind } = reference;
        let own = self.patterns.get_key_value(name).map(|(name, text)| (name.as_str(), text.as_str()));
        let Some((name, text)) = own.or_else(|| library::pattern(name)) else {
            let mut known: Vec<&str> = library::names().collect();
            known.extend(self.patterns.keys().map(String::as_str));
            let meant = did_you_mean(name, &known).map(|meant| format!(", did you mean {meant}?"));
            return Err(Fault::Here(format!("unknown pattern {name}{}", meant.unwrap_or_default())));
        };
        if self.trail.contains(&name) {
            let trail: Vec<_> = self.trail.iter().skip_while(|on| **on != name).chain([&name]).copied().collect();
            return Err(Fault::Here(format!("{name} refers to itself: {}", trail.join(" > "))));
        }
        if self.trail.len() >= DEPTH_MAX {
            return Err(Fault::Here(format!("refers through more than {DEPTH_MAX} patterns")));
        }
        match field {
            Some(field) => {
                self.made.regex.push_str(&format!("(?P<{GROUP}{}>", self.made.fields.len()));
                self.made.fields.push((dotted(field), kind));
            }
            None => self.made.regex.push_str("(?:"),
        }
        self.trail.push(name);
        let of_configuration = self.patterns.contains_key(name).then_some(name);
        let added = self.add(text, of_configuration);
        self.trail.pop();
        self.made.regex.push(')');
        added.map_err(Fault::Below)
    }
}

/// The place of an error: at the reference itself, or inside the pattern that it names.
enum Fault {
    Here(String),
    Below(LinePatternError),
}

/// `[http][status]` as `http.status`; other names unchanged.
fn dotted(field: &str) -> String {
    match field.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
        Some(inner) => inner.replace("][", "."),
        None => field.to_owned(),
    }
}

#[derive(Clone, Copy)]
struct Reference<'t> {
    name: &'t str,
    field: Option<&'t str>,
    kind: CaptureKind,
}

enum Piece<'t> {
    Text(&'t str),
    Reference(Reference<'t>),
}

/// The parts of a text, each with its place. Ends at the first error.
fn pieces(text: &str) -> impl Iterator<Item = Result<(usize, Piece<'_>), LinePatternError>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (start, rest) = (at, &text[at..]);
        if rest.is_empty() {
            return None;
        }
        let Some(inside) = rest.strip_prefix("%{") else {
            let length = rest.find("%{").unwrap_or(rest.len());
            at += length;
            return Some(Ok((start, Piece::Text(&rest[..length]))));
        };
        let Some(length) = inside.find('}') else {
            at = text.len();
            return Some(Err(LinePatternError::new(
                text,
                start,
                "a reference has no end, it is written %{NAME:field}",
            )));
        };
        at += length + 3;
        let reference = reference(&inside[..length]);
        let piece = reference.map(|reference| (start, Piece::Reference(reference)));
        if piece.is_err() {
            at = text.len();
        }
        Some(piece.map_err(|message| LinePatternError::new(text, start, message)))
    })
}

fn reference(inside: &str) -> Result<Reference<'_>, String> {
    let mut parts = inside.splitn(3, ':');
    let (name, field, kind) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(format!("{name:?} is not a pattern name: use letters, digits and _"));
    }
    let plain = |c: char| c.is_alphanumeric() || "_.-@[]".contains(c);
    if let Some(field) = field.filter(|field| field.is_empty() || !field.chars().all(plain)) {
        return Err(format!("{field:?} is not a field name: use letters, digits and _ . - @"));
    }
    let kind = match kind {
        None | Some("string") => CaptureKind::Text,
        Some("int" | "long") => CaptureKind::Int,
        Some("float" | "double") => CaptureKind::Float,
        Some(kind) => return Err(format!("unknown type {kind:?}: use int or float")),
    };
    Ok(Reference { name, field, kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn own(patterns: &[(&str, &str)]) -> BTreeMap<String, String> {
        patterns.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn fault(pattern: &str, patterns: &[(&str, &str)]) -> (Option<String>, usize, String) {
        let error = expand(pattern, &own(patterns)).err().expect(pattern);
        let message = error.to_string();
        (error.of, error.at, message.lines().next().unwrap_or_default().to_owned())
    }

    #[test]
    fn errors_show_their_place() {
        for (pattern, patterns, of, at, message) in [
            (
                "a %{TIMESTAMP_ISO8610:t}",
                &[][..],
                None,
                2,
                "unknown pattern TIMESTAMP_ISO8610, did you mean TIMESTAMP_ISO8601?",
            ),
            ("%{WORD:w", &[], None, 0, "a reference has no end, it is written %{NAME:field}"),
            ("x%{WORD:w:bool}", &[], None, 1, "unknown type \"bool\": use int or float"),
            ("%{WORD:}", &[], None, 0, "\"\" is not a field name: use letters, digits and _ . - @"),
            ("%{}", &[], None, 0, "\"\" is not a pattern name: use letters, digits and _"),
            ("%{WORD:w} (%{INT:n}", &[], None, 10, "unclosed group"),
            ("%{A:a}", &[("A", "%{B}"), ("B", "x%{A}")], Some("B"), 1, "A refers to itself: A > B > A"),
            ("%{WORD:a}", &[("A", "%{INT}[")], Some("A"), 6, "unclosed character class"),
            ("%{WORD:a}", &[("A", "%{WORDS}")], Some("A"), 0, "unknown pattern WORDS, did you mean WORD?"),
        ] {
            assert_eq!(fault(pattern, patterns), (of.map(str::to_owned), at, message.to_owned()), "{pattern}");
        }
    }

    #[test]
    fn endless_expansion_is_refused() {
        let chain: Vec<_> = (0..40).map(|n| (format!("P{n}"), format!("%{{P{}}}", n + 1))).collect();
        let mut patterns: BTreeMap<_, _> = chain.into_iter().collect();
        patterns.insert("P40".into(), "x".into());
        let error = expand("%{P0:a}", &patterns).err().expect("too deep").to_string();
        assert!(error.starts_with("refers through more than 32 patterns"), "{error}");
        let doubled = |n: usize| (format!("P{n:02}"), format!("%{{P{:02}}}%{{P{:02}}}", n + 1, n + 1));
        let mut patterns: BTreeMap<_, _> = (0..30).map(doubled).collect();
        patterns.insert("P30".into(), String::new());
        let error = expand("%{P00:a}", &patterns).err().expect("too large").to_string();
        assert!(error.starts_with("expands to more than 64 KiB"), "{error}");
    }

    proptest! {
        /// Any pattern either expands, or is refused with a place inside its text.
        #[test]
        fn any_pattern_is_expanded_or_refused(pattern in "(%\\{(A|B|WORD|INT)?(:[a-z\\[\\]]{0,3})?(:int)?\\}?|[a-z(){}%:]|\\PC){0,8}",
                                              a in "(%\\{(A|B|WORD)\\}|[a-z(?]){0,4}", b in "(%\\{(A|B|WORD)\\}|[a-z]){0,4}") {
            let patterns = own(&[("A", &a), ("B", &b)]);
            if let Err(error) = expand(&pattern, &patterns) {
                let text = error.of.as_ref().map_or(&pattern, |name| &patterns[name]);
                prop_assert!(error.at <= text.len() && text.is_char_boundary(error.at), "{}", error);
            }
        }
    }
}
