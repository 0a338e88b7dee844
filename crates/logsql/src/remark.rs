//! Remarks on a query that is right: text that looks like something else, and the fields that it names.
//!
//! Nearly every text is a query, because a text that is nothing else is a word. So `status>=500`, a line of SQL or the
//! options of grep are words, too, and their answer is empty or wrong. Such a text gets a *warning*: its place, its
//! meaning, and what to write. A query is answered all the same, because `status=502` may stand in a line. A rule that
//! is asked without a reader, as that of an alert or a table, is refused ([`ParsedQuery::parse_strictly`]).
//!
//! A text in quotes means itself, so quotes end every warning.

use crate::error::SyntaxError;
use crate::field_name::{FieldName, other_name};
use crate::keyword::quoted;
use crate::query::{Expression, ParsedQuery, Test};
use daytable_model::arrival::ARRIVED_FIELD;
use daytable_model::record::Level;
use std::ops::Range;

/// Warnings of one query.
const WARNINGS_MAX: usize = 8;

/// What is to be said about a query that is right.
#[derive(Clone, Debug, PartialEq)]
pub struct Remarks {
    query: String,
    filter: Expression,
    warnings: Vec<SyntaxError>,
    fields: Vec<FieldUse>,
}

/// A field of records that a query names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldUse {
    /// The name, or its beginning.
    pub name: FieldName,
    /// Whether any field is meant whose name begins so.
    pub is_prefix: bool,
    /// The bytes of the query that name it.
    pub at: Range<usize>,
}

impl Remarks {
    pub(crate) fn new(
        query: &str,
        filter: &Expression,
        mut warnings: Vec<SyntaxError>,
        fields: Vec<FieldUse>,
    ) -> Remarks {
        warnings.sort_by_key(|warning| warning.at().start);
        warnings.dedup();
        warnings.truncate(WARNINGS_MAX);
        Remarks { query: query.to_owned(), filter: filter.clone(), warnings, fields }
    }

    /// Text that looks like something else, in the order of the query.
    pub fn warnings(&self) -> &[SyntaxError] {
        &self.warnings
    }

    /// The filter of the query.
    pub fn filter(&self) -> &Expression {
        &self.filter
    }

    /// The fields of records that the query names, each once.
    pub fn fields(&self) -> &[FieldUse] {
        &self.fields
    }

    /// A warning at a place of the query.
    pub fn at(&self, at: Range<usize>, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(&self.query, at, message)
    }

    /// Where the query writes `text`, or all of it.
    pub fn place_of(&self, text: &str) -> Range<usize> {
        self.query.find(text).map_or(0..self.query.len(), |start| start..start + text.len())
    }

    fn refuse(&self) -> Result<(), SyntaxError> {
        let other_level = || {
            let is_named = |field: &&FieldUse| {
                // A name in quotes means itself.
                let written = self.query.get(field.at.clone()).unwrap_or_default();
                other_name(field.name.written()) == Some("level") && !written.starts_with(['"', '\'', '`'])
            };
            let field = self.fields.iter().filter(is_named).find(|field| compares_levels(&self.filter, &field.name))?;
            let name = field.name.written();
            let reason = format!(
                "the level of a record is called level, so {name} is seldom a field; for such a field, write \"{name}\""
            );
            Some(self.at(field.at.clone(), reason))
        };
        self.warnings.first().cloned().or_else(other_level).map_or(Ok(()), Err)
    }
}

impl ParsedQuery {
    /// Parses a query that nobody reads the answer of. A text that looks like something else is refused.
    ///
    /// # Errors
    ///
    /// The place in the query that is wrong, and what to write.
    pub fn parse_strictly(query: &str) -> Result<ParsedQuery, SyntaxError> {
        let (parsed, remarks) = ParsedQuery::parse_remarked(query)?;
        remarks.refuse().map(|()| parsed)
    }
}

impl Expression {
    /// Parses a filter that nobody reads the answer of. A text that looks like something else is refused.
    ///
    /// # Errors
    ///
    /// The place in the filter that is wrong, and what to write.
    pub fn parse_strictly(filter: &str) -> Result<Expression, SyntaxError> {
        let (parsed, remarks) = Expression::parse_remarked(filter)?;
        remarks.refuse().map(|()| parsed)
    }
}

/// Whether a filter compares a field with a level.
fn compares_levels(filter: &Expression, name: &FieldName) -> bool {
    let is_level = |text: &String| Level::from_word(text).is_some();
    match filter {
        Expression::And(parts) | Expression::Or(parts) => parts.iter().any(|part| compares_levels(part, name)),
        Expression::Not(inner) => compares_levels(inner, name),
        Expression::Field(field, test) if field == name => match test {
            Test::Phrase { text, .. } | Test::Exact(text) | Test::Order(_, text) => is_level(text),
            Test::In(values) | Test::ContainsAny(values) => values.iter().any(is_level),
            _ => false,
        },
        _ => false,
    }
}

/// The signs of comparisons as people write them, the longer ones first, and the same here.
const COMPARISONS: [(&str, &str); 16] = [
    ("===", ":="),
    ("!==", ":!="),
    ("==", ":="),
    ("=~", ":~"),
    ("!=", ":!="),
    ("!~", ":!~"),
    ("<>", ":!="),
    (">=", ":>="),
    ("=>", ":>="),
    ("<=", ":<="),
    ("=<", ":<="),
    ("^=", ":="),
    ("=", ":="),
    (">", ":>"),
    ("<", ":<"),
    ("~", ":~"),
];

/// A comparison that begins with the name of a field.
struct Comparison<'t> {
    name: &'t str,
    sign: &'static str,
    value: &'t str,
}

/// The name of a field without the `.`, `@` or `$.` that other languages write before it.
pub(crate) fn bare_name(text: &str) -> &str {
    text.strip_prefix("$.").or_else(|| text.strip_prefix(['.', '@', '$'])).unwrap_or(text)
}

/// Whether a text may be the name of a field.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '@' | '/'))
        && !text.ends_with('-')
}

/// The comparison that a word is.
fn comparison(text: &str) -> Option<Comparison<'_>> {
    let start = text.find(['=', '<', '>', '!', '~', '^'])?;
    let name = bare_name(text[..start].trim_matches(['"', '\'', '`']));
    let (sign, here) = COMPARISONS.into_iter().find(|(sign, _)| text[start..].starts_with(sign))?;
    let value = &text[start + sign.len()..];
    // `dGV4dA==` is not a comparison.
    (is_name(name) && !value.is_empty()).then_some(Comparison { name, sign: here, value })
}

/// The name that is written for a comparison: a value of a level makes `severity` the level.
fn written_name<'n>(name: &'n str, value: &str) -> &'n str {
    let is_level = Level::from_word(value.trim_matches(['"', '\''])).is_some();
    match other_name(name) {
        Some("level") if is_level => "level",
        _ => name,
    }
}

/// A text that is probably meant in another way.
pub(crate) struct Doubt {
    /// What it is taken for, and what to write.
    pub(crate) message: String,
    /// What stands at its place then, if that is known.
    pub(crate) written: Option<String>,
}

impl Doubt {
    pub(crate) fn new(message: String) -> Doubt {
        Doubt { message, written: None }
    }

    /// A message that ends in what is written.
    fn written(message: &str, written: String) -> Doubt {
        Doubt { message: format!("{message} {written}"), written: Some(written) }
    }
}

/// The warning of a bare word.
pub(crate) fn of_word(text: &str) -> Option<Doubt> {
    if matches!(text, "&&" | "&") {
        let message = format!("{text} is taken for a word: filters side by side must all match, so leave it out");
        return Some(Doubt { message, written: Some(String::new()) });
    }
    if let Some(rest) = text.strip_prefix('+')
        && is_name(rest)
    {
        let message = format!("{text} is taken for a word with a +: a filter is required without a sign: write");
        return Some(Doubt::written(&message, rest.to_owned()));
    }
    let Some(Comparison { name, sign, value: shown }) = comparison(text) else { return of_pattern(text) };
    let written = written_name(name, shown);
    let quotes = if sign.ends_with('~') && !shown.starts_with(['"', '\'', '`']) { "\"" } else { "" };
    let message = format!("{text} is taken for a word: a comparison is written");
    let mut doubt = Doubt::written(&message, format!("{written}{sign}{quotes}{shown}{quotes}"));
    if let Some(other) = other_name(name).filter(|other| *other != written && *other != ARRIVED_FIELD) {
        doubt.message.push_str(&format!("; the {other} is called {other}: {other}{sign}{quotes}{shown}{quotes}"));
    }
    Some(doubt)
}

/// The warning of a word with signs of patterns: `err?r`, `%error%`, `^error`.
fn of_pattern(text: &str) -> Option<Doubt> {
    let is_plain = |text: &str| !text.is_empty() && text.split('?').all(|part| part.is_empty() || is_name(part));
    if let Some(inner) = text.strip_prefix('%').and_then(|text| text.strip_suffix('%')).filter(|inner| is_name(inner)) {
        return Some(Doubt::written("% stands for itself: a part of a word is written", format!("*{inner}*")));
    }
    if let Some(rest) = text.strip_prefix('^').or_else(|| text.strip_suffix('$'))
        && is_name(rest.trim_end_matches('$'))
    {
        return Some(Doubt::written("^ and $ stand for themselves: a pattern is written", format!("~\"{text}\"")));
    }
    let has_inner = text.trim_end_matches('?').contains('?');
    (has_inner && is_plain(text)).then(|| {
        let pattern = text.replace('.', "\\.").replace('?', ".");
        Doubt::written("? stands for itself: any character is a pattern,", format!("~\"{pattern}\""))
    })
}

/// The warning of a value without quotes: `5xx`, `500-599`, `=>500`, `10gigs`.
pub(crate) fn of_value(field: &FieldName, text: &str, is_ordered: bool) -> Option<Doubt> {
    if let Some(rest) = text.strip_prefix(['=', '>', '<', '!', '~'])
        && !rest.is_empty()
    {
        return Some(Doubt::new(format!(
            "{text} is taken for the value: the signs of a comparison are =, !=, >, >=, <, <= and ~, as in {field}:>=500"
        )));
    }
    if is_ordered {
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '_'));
        let is_with_unit = unit.len() < text.len() && unit.chars().all(|c| c.is_alphabetic() || c == '%');
        if is_with_unit && !unit.is_empty() && crate::number::Number::parse(text).is_none() {
            return Some(Doubt::new(format!(
                "{text} is not a number, so it is compared as a text: units are ns, µs, ms, s, m, h, d, w, KB, MB, KiB, MiB …"
            )));
        }
        return None;
    }
    let bare = text.strip_prefix('=').unwrap_or(text);
    number_wildcard(field, bare).or_else(|| number_range(field, bare))
}

/// `5xx`, `50?`, `4..`: a number with places for any digit.
fn number_wildcard(field: &FieldName, text: &str) -> Option<Doubt> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (known, open) = text.split_at(digits);
    let is_open = ["xX", "?", ".", "#", "_"].iter().any(|signs| open.chars().all(|c| signs.contains(c)));
    if known.is_empty() || known == "0" || matches!(open, "" | "." | "_") || open.len() > 9 || !is_open {
        return None;
    }
    let low: u64 = known.parse().ok().filter(|known| *known < 1_000_000_000)?;
    let step = 10u64.pow(u32::try_from(open.len()).ok()?);
    let (low, high) = (low * step, (low + 1) * step);
    let range = format!("range[{low}, {high})");
    let last = high - 1;
    let message = format!("{text} is taken for a word: numbers from {low} to {last} are written {field}:{range}");
    Some(Doubt { message, written: Some(range) })
}

/// `500-599`, `500..599`.
fn number_range(field: &FieldName, text: &str) -> Option<Doubt> {
    let (low, high) = text.split_once("..").or_else(|| text.split_once('-'))?;
    let number = |text: &str| text.parse::<u64>().ok().filter(|_| !text.starts_with('0') || text == "0");
    let (low, high) = (number(low)?, number(high)?);
    (low < high).then(|| {
        let range = format!("range[{low}, {high}]");
        let message = format!("{text} is taken for a word: numbers from {low} to {high} are written {field}:{range}");
        Doubt { message, written: Some(range) }
    })
}

/// The warning of a `*` that is neither at the end nor at both ends.
pub(crate) fn of_inner_star(field: Option<&FieldName>, text: &str) -> Doubt {
    // Where a dot stands before it, a regular expression was meant.
    let is_regexp = text.contains(".*");
    let part = |part: &str| match is_regexp {
        true => part.strip_suffix('.').unwrap_or(part).to_owned(),
        false => regex::escape(part),
    };
    let pattern: Vec<String> = text.trim_end_matches('*').split('*').map(part).collect();
    let ends = if text.ends_with('*') { "" } else { "$" };
    let mut value = String::new();
    let whole = match field {
        Some(_) if !is_regexp => format!("^{}{ends}", pattern.join(".*")),
        _ => pattern.join(".*"),
    };
    // Writing to a text cannot fail.
    let _ = quoted(&mut value, &whole);
    let name = field.map_or_else(String::new, |field| format!("{field}:"));
    Doubt::new(format!(
        "the text after * is taken for another filter: * stands at the end, or at both ends; write {name}~{value}"
    ))
}

/// The warning of `like`, `contains` and other words that compare in SQL or Kusto: the name, the word, and the value.
pub(crate) fn of_word_operator(name: &str, word: &str, value: &str) -> Option<Doubt> {
    let name = bare_name(name);
    let text = value.trim_matches(['"', '\'', '`', '%']);
    let mut shown = String::new();
    let _ = quoted(&mut shown, text);
    let right = match word.to_ascii_lowercase().as_str() {
        "like" | "ilike" | "rlike" | "matches" | "regexp" if value.starts_with(['"', '\'', '`']) => {
            let (starts, ends) = (value.get(1..2) == Some("%"), value.trim_end_matches(['"', '\'']).ends_with('%'));
            match (word.to_ascii_lowercase().as_str(), starts, ends) {
                ("rlike" | "matches" | "regexp", ..) => format!("{name}:~{value}"),
                (_, true, _) => format!("{name}:*{shown}*"),
                (_, false, true) => format!("{name}:={shown}*"),
                (_, false, false) => format!("{name}:={shown}"),
            }
        }
        "contains" | "has" | "includes" if value.starts_with(['"', '\'', '`']) => format!("{name}:*{shown}*"),
        "startswith" | "hasprefix" | "starts_with" if value.starts_with(['"', '\'', '`']) => {
            format!("{name}:={shown}*")
        }
        "endswith" | "hassuffix" | "ends_with" if value.starts_with(['"', '\'', '`']) => {
            format!("{name}:~\"{}$\"", regex::escape(text))
        }
        "between" if value.starts_with(|c: char| c.is_ascii_digit()) => format!("{name}:range[{value}, …]"),
        "is" | "isnull" if value.eq_ignore_ascii_case("null") => format!("-{name}:*"),
        "is" if value.eq_ignore_ascii_case("not") => format!("{name}:*"),
        _ => return None,
    };
    // Of `between`, the second bound is not read here.
    let is_whole = !right.ends_with("…]") && !value.eq_ignore_ascii_case("not");
    let message = format!("{name} {word} … is taken for words: here it is written {right}");
    Some(Doubt { message, written: is_whole.then_some(right) })
}
