//! The test of one value.
//!
//! A [`Matcher`] is a [`Test`] that is prepared for many values. It knows nothing but the value, so the engine can
//! decide once for each distinct value of a column.

use crate::field_name::{Column, FieldName};
use crate::line_pattern;
use crate::number::{Number, ipv4};
use crate::parser::regexp;
use crate::query::{Operator, Test};
use daytable_model::property::Property;
use daytable_model::record::Level;
use daytable_model::required_text::required_text;
use daytable_model::words::{in_lower_case, is_word_character};
use memchr::memmem::Finder;
use regex::Regex;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;

/// A prepared test.
#[derive(Debug)]
pub struct Matcher(Kind);

#[derive(Debug)]
enum Kind {
    Present,
    Empty,
    Phrase(Box<Phrase>),
    Part(Box<Finder<'static>>),
    Exact(Exact),
    ExactPrefix(String),
    In(Vec<Exact>),
    All(Vec<Phrase>),
    AnyOf(Vec<Phrase>),
    Sequence(Vec<Phrase>),
    /// An expression, and a text that each match contains.
    Regexp(Regex, Option<String>),
    Numbers {
        low: Option<(Number, bool)>,
        high: Option<(Number, bool)>,
    },
    Order(Operator, String),
    StringRange(String, String),
    Length(u64, u64),
    Pattern(String),
    Addresses(u32, u32),
    /// The bit of each level that matches; bit 0 stands for no level.
    Levels(u16),
    Function(ValueTest),
    Never,
}

/// A test that is not a test of the language.
struct ValueTest(Box<AcceptsValue>);

type AcceptsValue = dyn Fn(Option<Property<'_>>) -> bool + Send + Sync;

impl fmt::Debug for ValueTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ValueTest")
    }
}

/// A value to be equal to.
#[derive(Debug)]
struct Exact {
    text: String,
    /// The number, if the text is nothing but a number.
    number: Option<Number>,
}

impl Exact {
    fn new(text: &str) -> Exact {
        Exact { text: text.to_owned(), number: crate::number::plain(text) }
    }

    /// A typed number equals a number of any notation; a text only equals itself.
    fn is(&self, value: Property<'_>) -> bool {
        match value {
            Property::String(text) => text == self.text,
            Property::Int64(_) | Property::Int32(_) | Property::Double(_) => match (self.number, Number::of(value)) {
                (Some(wanted), Some(number)) => wanted == number,
                _ => value.text() == self.text,
            },
            other => other.text() == self.text,
        }
    }
}

/// A phrase with its borders.
#[derive(Debug)]
struct Phrase {
    text: String,
    finder: Finder<'static>,
    any_case: bool,
    /// Whether a word border is needed before and after it.
    borders: (bool, bool),
}

impl Phrase {
    fn new(text: &str, any_case: bool, is_prefix: bool) -> Phrase {
        let text = if any_case { in_lower_case(text) } else { text.to_owned() };
        let starts = text.chars().next().is_some_and(is_word_character);
        let ends = !is_prefix && text.chars().next_back().is_some_and(is_word_character);
        let finder = Finder::new(text.as_bytes()).into_owned();
        Phrase { text, finder, any_case, borders: (starts, ends) }
    }

    fn is_in(&self, text: &str) -> bool {
        match self.any_case {
            true => self.end_in(&in_lower_case(text), 0).is_some(),
            false => self.end_in(text, 0).is_some(),
        }
    }

    /// Adds the places of the phrase in `text`.
    fn add_spans(&self, text: &str, spans: &mut Vec<Range<usize>>) {
        let lower = if self.any_case { in_lower_case(text) } else { text.to_owned() };
        // Letters whose cases differ in length would move the places.
        if lower.len() != text.len() || self.text.is_empty() {
            return;
        }
        let mut from = 0;
        while let Some(end) = self.end_in(&lower, from) {
            spans.extend(Some(end - self.text.len()..end).filter(|span| text.get(span.clone()).is_some()));
            from = end;
        }
    }

    /// The end of the first occurrence at or after `from`.
    fn end_in(&self, text: &str, mut from: usize) -> Option<usize> {
        loop {
            let start = from + self.finder.find(text.as_bytes().get(from..)?)?;
            let end = start + self.text.len();
            let is_before = !self.borders.0 || !text[..start].chars().next_back().is_some_and(is_word_character);
            let is_after = !self.borders.1 || !text[end..].chars().next().is_some_and(is_word_character);
            if is_before && is_after {
                return Some(end);
            }
            from = start + text[start..].chars().next().map_or(1, char::len_utf8);
        }
    }
}

impl Matcher {
    /// Prepares a test of `field`. Tests of times and those that compare two fields are not matchers, and never match
    /// here.
    pub fn new(field: &FieldName, test: &Test) -> Matcher {
        if field.column() == Column::Level {
            return Matcher::of_levels(|level| level_matches(test, level));
        }
        Matcher(kind_of(test))
    }

    /// Matches the values that `test` accepts; `None` is an absent field. The test must give the same answer each time.
    pub fn accepting(test: impl Fn(Option<Property<'_>>) -> bool + Send + Sync + 'static) -> Matcher {
        Matcher(Kind::Function(ValueTest(Box::new(test))))
    }

    /// Matches the levels that `test` accepts; `None` stands for no level.
    pub fn of_levels(test: impl Fn(Option<Level>) -> bool) -> Matcher {
        let bit = |level: Option<Level>| u16::from(test(level)) << level.map_or(0, Level::code);
        Matcher(Kind::Levels(Level::ALL.into_iter().map(Some).chain([None]).map(bit).sum()))
    }

    /// Whether a value matches; `None` is an absent field.
    pub fn matches(&self, value: Option<Property<'_>>) -> bool {
        match value {
            None => self.matches_absent(),
            Some(Property::String(text)) => self.matches_text(text),
            Some(value) => self.matches_value(value),
        }
    }

    /// The levels that match, a bit each: bit 0 stands for no level, the others are [`Level::code`]. `None` if the test
    /// is not one of levels.
    pub fn levels(&self) -> Option<u16> {
        match self.0 {
            Kind::Levels(levels) => Some(levels),
            _ => None,
        }
    }

    /// The first and the last address that match, if the test is of the addresses of a network.
    pub fn addresses(&self) -> Option<(u32, u32)> {
        match self.0 {
            Kind::Addresses(low, high) => Some((low, high)),
            _ => None,
        }
    }

    /// Whether an absent field matches. An absent field is like an empty one, except that no comparison holds.
    pub fn matches_absent(&self) -> bool {
        match &self.0 {
            Kind::Empty => true,
            Kind::Levels(levels) => levels & 1 != 0,
            Kind::Exact(exact) => exact.text.is_empty(),
            Kind::ExactPrefix(text) => text.is_empty(),
            Kind::In(values) => values.iter().any(|value| value.text.is_empty()),
            Kind::Regexp(regex, _) => regex.is_match(""),
            Kind::Length(low, _) => *low == 0,
            Kind::StringRange(low, high) => low.is_empty() && !high.is_empty(),
            Kind::Pattern(pattern) => pattern.is_empty(),
            Kind::All(phrases) => phrases.iter().all(|phrase| phrase.text.is_empty()),
            Kind::Sequence(phrases) => phrases.iter().all(|phrase| phrase.text.is_empty()),
            Kind::AnyOf(phrases) => phrases.iter().any(|phrase| phrase.text.is_empty()),
            Kind::Function(test) => test.0(None),
            _ => false,
        }
    }

    /// Whether a text matches.
    pub fn matches_text(&self, text: &str) -> bool {
        match &self.0 {
            Kind::Present => !text.is_empty(),
            Kind::Empty => text.is_empty(),
            Kind::Phrase(phrase) => phrase.is_in(text),
            Kind::Part(finder) => finder.find(text.as_bytes()).is_some(),
            Kind::Exact(exact) => exact.text == text,
            Kind::ExactPrefix(prefix) => text.starts_with(prefix.as_str()),
            Kind::In(values) => values.iter().any(|value| value.text == text),
            Kind::All(phrases) => phrases.iter().all(|phrase| phrase.is_in(text)),
            Kind::AnyOf(phrases) => phrases.iter().any(|phrase| phrase.is_in(text)),
            Kind::Sequence(phrases) => {
                let mut from = 0;
                phrases.iter().all(|phrase| phrase.end_in(text, from).map(|end| from = end).is_some())
            }
            Kind::Regexp(regex, _) => regex.is_match(text),
            Kind::Numbers { low, high } => Number::parse(text).is_some_and(|number| is_between(number, low, high)),
            Kind::Order(operator, value) => !text.is_empty() && operator.holds(text.cmp(value.as_str())),
            Kind::StringRange(low, high) => low.as_str() <= text && text < high.as_str(),
            Kind::Length(low, high) => (*low..=*high).contains(&(text.chars().count() as u64)),
            Kind::Pattern(pattern) => line_pattern::pattern_of(text) == *pattern,
            Kind::Addresses(low, high) => ipv4(text).is_some_and(|address| (*low..=*high).contains(&address)),
            Kind::Levels(levels) => levels & (1 << Level::from_word(text).map_or(0, Level::code)) != 0,
            Kind::Function(test) => test.0(Some(Property::String(text))),
            Kind::Never => false,
        }
    }

    fn matches_value(&self, value: Property<'_>) -> bool {
        match &self.0 {
            Kind::Present => true,
            Kind::Empty => false,
            Kind::Exact(exact) => exact.is(value),
            Kind::In(values) => values.iter().any(|exact| exact.is(value)),
            Kind::Numbers { low, high } => Number::of(value).is_some_and(|number| is_between(number, low, high)),
            Kind::Function(test) => test.0(Some(value)),
            _ => self.matches_text(&value.text()),
        }
    }

    /// The only text that matches, if there is only one.
    pub fn exact_text(&self) -> Option<&str> {
        match &self.0 {
            Kind::Exact(exact) => Some(&exact.text),
            _ => None,
        }
    }

    /// A text that every matching text contains, if there is such a text. A store may search it instead of testing
    /// every value.
    pub fn needle(&self) -> Option<&str> {
        self.bordered_needle().map(|(text, _)| text)
    }

    /// A word of ASCII letters in lower case that every matching text contains, in any case, if the test is of one.
    pub fn folded_word(&self) -> Option<&str> {
        match &self.0 {
            Kind::Phrase(phrase) if phrase.any_case => Some(&*phrase.text),
            _ => None,
        }
        .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase()))
    }

    /// Texts of which every matching text contains one, each with whether its first and its last word are whole words
    /// there. Empty if there are no such texts.
    pub fn needles(&self) -> Vec<(&str, (bool, bool))> {
        const NEEDLES_MAX: usize = 16;
        let mut needles = match &self.0 {
            Kind::In(values) => {
                // A number may be written in several ways.
                if values.iter().any(|value| value.number.is_some()) {
                    return Vec::new();
                }
                values.iter().map(|value| (value.text.as_str(), (true, true))).collect()
            }
            Kind::AnyOf(phrases) => phrases.iter().map(|phrase| (phrase.text.as_str(), phrase.borders)).collect(),
            _ => Vec::from_iter(self.bordered_needle()),
        };
        if needles.len() > NEEDLES_MAX || needles.iter().any(|(text, _)| text.is_empty()) {
            needles.clear();
        }
        needles
    }

    fn bordered_needle(&self) -> Option<(&str, (bool, bool))> {
        let (text, borders) = match &self.0 {
            Kind::Phrase(phrase) if !phrase.any_case => (phrase.text.as_str(), phrase.borders),
            Kind::Part(finder) => (std::str::from_utf8(finder.needle()).ok()?, (false, false)),
            Kind::Exact(exact) if exact.number.is_none() => (exact.text.as_str(), (true, true)),
            Kind::ExactPrefix(text) => (text.as_str(), (true, false)),
            Kind::Regexp(_, required) => (required.as_deref()?, (false, false)),
            Kind::Pattern(pattern) => (line_pattern::required(pattern)?, (false, false)),
            Kind::All(phrases) | Kind::Sequence(phrases) => {
                let longest = phrases.iter().max_by_key(|phrase| phrase.text.len())?;
                (longest.text.as_str(), longest.borders)
            }
            _ => return None,
        };
        (!text.is_empty()).then_some((text, borders))
    }
}

impl Matcher {
    /// The places in `text` that a test of texts looks for, in any order; none for other tests.
    pub fn spans(&self, text: &str) -> Vec<Range<usize>> {
        let mut spans = Vec::new();
        match &self.0 {
            Kind::Phrase(phrase) => phrase.add_spans(text, &mut spans),
            Kind::Part(finder) => {
                let places = finder.find_iter(text.as_bytes());
                spans.extend(places.map(|start| start..start + finder.needle().len()));
            }
            Kind::Exact(exact) if exact.text == text => spans.push(0..text.len()),
            Kind::ExactPrefix(prefix) if text.starts_with(prefix.as_str()) => spans.push(0..prefix.len()),
            Kind::All(phrases) | Kind::AnyOf(phrases) | Kind::Sequence(phrases) => {
                phrases.iter().for_each(|phrase| phrase.add_spans(text, &mut spans));
            }
            Kind::Regexp(regex, _) => spans.extend(regex.find_iter(text).map(|found| found.range())),
            _ => {}
        }
        spans.retain(|span| !span.is_empty());
        spans
    }
}

fn kind_of(test: &Test) -> Kind {
    let phrases = |values: &[String]| values.iter().map(|value| Phrase::new(value, false, false)).collect();
    match test {
        Test::Present => Kind::Present,
        Test::Empty => Kind::Empty,
        Test::Phrase { text, .. } if text.is_empty() => Kind::Empty,
        Test::Phrase { text, any_case } => Kind::Phrase(Phrase::new(text, *any_case, false).into()),
        Test::Prefix { text, .. } if text.is_empty() => Kind::Present,
        Test::Prefix { text, any_case } => Kind::Phrase(Phrase::new(text, *any_case, true).into()),
        Test::Part(text) => Kind::Part(Finder::new(text.as_bytes()).into_owned().into()),
        Test::Exact(text) => Kind::Exact(Exact::new(text)),
        Test::ExactPrefix(text) => Kind::ExactPrefix(text.clone()),
        Test::In(values) => Kind::In(values.iter().map(|value| Exact::new(value)).collect()),
        Test::ContainsAll(values) => Kind::All(phrases(values)),
        Test::ContainsAny(values) => Kind::AnyOf(phrases(values)),
        Test::Sequence(values) => Kind::Sequence(phrases(values)),
        // The parser checked the pattern.
        Test::Regexp(pattern) => {
            regexp(pattern).map_or(Kind::Never, |regex| Kind::Regexp(regex, required_text(pattern)))
        }
        Test::Order(operator, value) => match Number::parse(value) {
            Some(number) => match operator {
                Operator::Greater => Kind::Numbers { low: Some((number, false)), high: None },
                Operator::GreaterOrEqual => Kind::Numbers { low: Some((number, true)), high: None },
                Operator::Less => Kind::Numbers { low: None, high: Some((number, false)) },
                Operator::LessOrEqual => Kind::Numbers { low: None, high: Some((number, true)) },
            },
            None => Kind::Order(*operator, value.clone()),
        },
        Test::Range { low, low_included, high, high_included } => match (Number::parse(low), Number::parse(high)) {
            (Some(low), Some(high)) => {
                Kind::Numbers { low: Some((low, *low_included)), high: Some((high, *high_included)) }
            }
            _ => Kind::Never,
        },
        Test::StringRange(low, high) => Kind::StringRange(low.clone(), high.clone()),
        Test::Pattern(pattern) => Kind::Pattern(pattern.clone()),
        Test::LengthRange(low, high) => Kind::Length(*low, *high),
        Test::AddressRange(low, high) => Kind::Addresses(*low, *high),
        // Times relative to now are a predicate's matter.
        Test::Times(_) | Test::Other(..) => Kind::Never,
    }
}

fn is_between(number: Number, low: &Option<(Number, bool)>, high: &Option<(Number, bool)>) -> bool {
    let above = |(low, included): &(Number, bool)| match number.partial_cmp(low) {
        Some(Ordering::Greater) => true,
        Some(Ordering::Equal) => *included,
        _ => false,
    };
    let below = |(high, included): &(Number, bool)| match number.partial_cmp(high) {
        Some(Ordering::Less) => true,
        Some(Ordering::Equal) => *included,
        _ => false,
    };
    low.as_ref().is_none_or(above) && high.as_ref().is_none_or(below)
}

/// Whether a level matches. Words and values name levels, and comparisons are by severity.
fn level_matches(test: &Test, level: Option<Level>) -> bool {
    let named = |word: &str| Level::from_word(word);
    let is = |word: &String| if word.is_empty() { level.is_none() } else { level.is_some() && named(word) == level };
    let compared = |operator: Operator, word: &str| match (level, named(word)) {
        (Some(level), Some(bound)) => operator.holds(level.cmp(&bound)),
        _ => false,
    };
    match test {
        Test::Present => level.is_some(),
        Test::Empty => level.is_none(),
        Test::Phrase { text, .. } | Test::Exact(text) => is(text),
        Test::In(values) | Test::ContainsAny(values) => values.iter().any(is),
        Test::Order(operator, word) => compared(*operator, word),
        Test::Range { low, low_included, high, high_included } => {
            let above = if *low_included { Operator::GreaterOrEqual } else { Operator::Greater };
            let below = if *high_included { Operator::LessOrEqual } else { Operator::Less };
            compared(above, low) && compared(below, high)
        }
        other => {
            let matcher = Matcher(kind_of(other));
            matcher.matches(level.map(|level| Property::String(level.name())))
        }
    }
}
