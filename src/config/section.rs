//! One table of the file, read key by key.
//!
//! The reader of a section asks for every key by its name. A key of the file that was never asked for is therefore unknown,
//! and the nearest name that was asked for is the suggestion. Problems are collected, not returned: a wrong value counts as
//! its default until the whole file was read, so that one run shows all problems.

use super::error::{Problem, line_and_column};
use daytable_model::did_you_mean::did_you_mean;
use daytable_model::units::{ByteSize, UnitError, parse_duration, show_duration};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Characters of a value that a problem quotes.
const QUOTED_MAX: usize = 60;

/// The problems of a file so far, each with its byte offset.
pub(super) struct ProblemList<'a> {
    text: &'a str,
    problems: RefCell<Vec<(usize, String)>>,
    /// Keys of sections that were never asked for there.
    unknown: RefCell<Vec<(usize, &'static str, String)>>,
    /// Every key that was asked for, by its section, and whether a section of the file gives it.
    asked: RefCell<BTreeMap<(&'static str, &'static str), bool>>,
    /// Where the variables of the environment begin, after the text of the file.
    variables_at: usize,
}

impl<'a> ProblemList<'a> {
    pub(super) fn new(text: &'a str) -> ProblemList<'a> {
        ProblemList::with_variables(text, text.len())
    }

    /// `text` has variables of the environment after the byte `variables_at`.
    pub(super) fn with_variables(text: &'a str, variables_at: usize) -> ProblemList<'a> {
        let (problems, unknown, asked) = Default::default();
        ProblemList { text, problems, unknown, asked, variables_at }
    }

    /// The text of a value that a variable of the environment gives.
    fn variable(&self, value: &Spanned<DeValue<'_>>) -> Option<&'a str> {
        let span = value.span();
        if span.start > self.variables_at { self.text.get(span) } else { None }
    }

    pub(super) fn add(&self, at: usize, text: impl Into<String>) {
        self.problems.borrow_mut().push((at, text.into()));
    }

    /// All problems in the order of the file, each with its byte offset.
    pub(super) fn into_problems(self, file: &str) -> Vec<(usize, Problem)> {
        let asked = self.asked.into_inner();
        // Only now every section was read.
        let unknown = self.unknown.into_inner().into_iter().map(|(at, section, name)| {
            let known: Vec<&str> = asked.keys().filter(|(of, _)| *of == section).map(|(_, key)| *key).collect();
            let meant = did_you_mean(&name, &known).map(|known| format!(", did you mean {known:?}?"));
            let is_there = |(of, key): &&(&str, &str)| *key == name && of.starts_with('[');
            let others: Vec<&str> = asked.keys().filter(is_there).map(|(of, _)| *of).collect();
            let belongs = (!others.is_empty()).then(|| format!(", it belongs in {}", others.join(" or ")));
            (at, format!("unknown key {name:?} in {section}{}", meant.or(belongs).unwrap_or_default()))
        });
        let mut problems = self.problems.into_inner();
        problems.extend(unknown);
        problems.sort_by_key(|(at, _)| *at);
        let place = |(at, text)| {
            let (line, column) = line_and_column(self.text, at);
            (at, Problem { file: file.into(), line, column, text })
        };
        problems.into_iter().map(place).collect()
    }

    /// Every key that was asked for, by its section, and whether the file gives it.
    #[cfg(test)]
    pub(super) fn asked(&self) -> BTreeMap<(&'static str, &'static str), bool> {
        self.asked.borrow().clone()
    }

    fn quote(&self, value: &Spanned<DeValue<'_>>) -> String {
        let source = without_user(self.text.get(value.span()).unwrap_or_default());
        let cut: String = source.chars().take(QUOTED_MAX).take_while(|c| *c != '\n').collect();
        if cut.len() < source.len() { format!("{cut}…") } else { cut }
    }
}

/// A text of the file, with its place in the file.
pub(super) struct SourceText<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> SourceText<'a> {
    fn new(name: &'a str, value: &'a Spanned<DeValue<'a>>) -> Option<SourceText<'a>> {
        let DeValue::String(text) = value.get_ref() else { return None };
        Some(SourceText { name, text, value })
    }
}

/// One table of the file. An absent table has no keys.
pub(super) struct Section<'a> {
    /// As the file writes it: `[http]`, `[[tail]]`.
    name: &'static str,
    /// The byte offset of its beginning.
    at: usize,
    keys: Option<&'a DeTable<'a>>,
    problems: &'a ProblemList<'a>,
}

impl<'a> Section<'a> {
    pub(super) fn root(table: &'a DeTable<'a>, problems: &'a ProblemList<'a>) -> Section<'a> {
        Section { name: "the file", at: 0, keys: Some(table), problems }
    }

    /// Reports a problem of the section as a whole.
    pub(super) fn problem(&self, text: impl Display) {
        self.problems.add(self.at, format!("{}: {text}", self.name));
    }

    /// The byte offset of the section, for a later report.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The table `key` of this one.
    pub(super) fn section(&mut self, key: &'static str, name: &'static str) -> Section<'a> {
        let empty = Section { name, at: self.at, keys: None, problems: self.problems };
        match self.value(key) {
            None => empty,
            Some(value) => match value.get_ref() {
                DeValue::Table(table) => Section { at: value.span().start, keys: Some(table), ..empty },
                _ => {
                    self.report(key, value, format!("must be a table, written {name}"));
                    empty
                }
            },
        }
    }

    /// The tables `key` of this one, in the order of the file.
    pub(super) fn sections(&mut self, key: &'static str, name: &'static str) -> Vec<Section<'a>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let mut sections = Vec::new();
        match value.get_ref() {
            DeValue::Array(tables) => {
                for item in tables.iter() {
                    match item.get_ref() {
                        DeValue::Table(table) => sections.push(Section {
                            name,
                            at: item.span().start,
                            keys: Some(table),
                            problems: self.problems,
                        }),
                        _ => self.report(key, item, format!("must be a table, written {name}")),
                    }
                }
            }
            DeValue::Table(_) => {
                self.problems.add(value.span().start, format!("[{key}] is written {name}: there can be several"));
            }
            _ => self.report(key, value, format!("must be tables, each written {name}")),
        }
        sections
    }

    /// A whole number within `range`, or `None` where the key is absent or wrong.
    pub(super) fn whole<N: TryFrom<i64> + PartialOrd + Display>(
        &mut self,
        key: &'static str,
        range: &RangeInclusive<N>,
    ) -> Option<N> {
        let value = self.value(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let number = number.and_then(|number| N::try_from(number).ok());
        let number = number.filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        self.accept(key, value, number.ok_or_else(|| format!("must be a whole number from {least} to {most}")))
    }

    /// `true` or `false`.
    pub(super) fn truth(&mut self, key: &'static str) -> Option<bool> {
        let value = self.value(key)?;
        let truth = if let DeValue::Boolean(truth) = value.get_ref() { Some(*truth) } else { None };
        self.accept(key, value, truth.ok_or_else(|| "must be true or false".into()))
    }

    /// A text that `read` accepts, or `None` where the key is absent or wrong.
    pub(super) fn text<T, E: Display>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let value = self.value(key)?;
        let result = match (value.get_ref(), self.problems.variable(value)) {
            // A variable has no quotes to tell a text from a number.
            (DeValue::Integer(_) | DeValue::Boolean(_), Some(text)) => read(text).map_err(|error| error.to_string()),
            (value, _) => read_text(value, read),
        };
        self.accept(key, value, result)
    }

    /// A secret text: a problem does not quote it.
    pub(super) fn secret<T, E: Display>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let value = self.value(key)?;
        let result = read_text(value.get_ref(), read);
        result.map_err(|text| self.problems.add(value.span().start, format!("{key}: {text}"))).ok()
    }

    /// A number, or a text in quotes, that `read` accepts.
    pub(super) fn number_or_text<T, E: Display>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let value = self.value(key)?;
        let result = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => {
                read(number.as_str()).map_err(|error| error.to_string())
            }
            DeValue::Float(number) => read(number.as_str()).map_err(|error| error.to_string()),
            DeValue::String(text) => read(text).map_err(|error| error.to_string()),
            _ => Err("must be a number, or a text in quotes".into()),
        };
        self.accept(key, value, result)
    }

    /// A list of at least `least` texts. A text that `read` refuses is reported and left out.
    pub(super) fn texts<T, E: Display>(
        &mut self,
        key: &'static str,
        least: usize,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Vec<T>> {
        let value = self.value(key)?;
        if let (DeValue::String(list), Some(_)) = (value.get_ref(), self.problems.variable(value)) {
            let texts = comma_separated(list).map(|text| read(text).map_err(|error| error.to_string()));
            let texts: Vec<T> = texts.filter_map(|text| self.accept(key, value, text)).collect();
            if comma_separated(list).count() < least {
                self.report(key, value, format!("must have at least {least}"));
            }
            return Some(texts);
        }
        let DeValue::Array(items) = value.get_ref() else {
            self.report(key, value, "must be a list of texts, like [\"…\"]".into());
            return None;
        };
        if items.len() < least {
            self.report(key, value, format!("must have at least {least}"));
        }
        let mut texts = Vec::with_capacity(items.len());
        for item in items.iter() {
            let result = match item.get_ref() {
                DeValue::String(text) => read(text).map_err(|error| error.to_string()),
                _ => Err("must be a text in quotes".into()),
            };
            texts.extend(self.accept(key, item, result));
        }
        Some(texts)
    }

    /// A text with its place, for a reader that reports its own problems.
    pub(super) fn source_text(&mut self, key: &'static str) -> Option<SourceText<'a>> {
        self.source_text_or(key, "must be a text in quotes")
    }

    /// A text with its place, or the problem `otherwise`.
    pub(super) fn source_text_or(&mut self, key: &'static str, otherwise: &str) -> Option<SourceText<'a>> {
        let value = self.value(key)?;
        let written = SourceText::new(key, value);
        self.accept(key, value, written.ok_or_else(|| otherwise.into()))
    }

    /// Texts under names of the user's choice: `{ NAME = "…" }`.
    pub(super) fn source_texts(&mut self, key: &'static str) -> Vec<SourceText<'a>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let DeValue::Table(table) = value.get_ref() else {
            self.report(key, value, "must be texts by their names, like { NAME = \"…\" }".into());
            return Vec::new();
        };
        let mut texts = Vec::new();
        for (name, value) in table.iter() {
            let name = name.get_ref().as_ref();
            let written = SourceText::new(name, value);
            texts.extend(self.accept(name, value, written.ok_or_else(|| "must be a text in quotes".into())));
        }
        texts
    }

    /// Reports a problem at a byte of a text. The place is exact where the file has the text without escapes, else it is the
    /// beginning of the text.
    pub(super) fn report_within(&self, written: &SourceText<'_>, at: usize, text: impl Display) {
        let source = self.problems.text.get(written.value.span()).unwrap_or_default();
        let inside = source.find(written.text).filter(|_| source.len() <= written.text.len() + 7);
        let start = written.value.span().start + inside.map_or(0, |inside| inside + at);
        self.problems.add(start, format!("{}: {text}", written.name));
    }

    /// A list of texts, read by `text`, and of tables, read by `table`. What they refuse is left out.
    pub(super) fn texts_or_tables<T, E: Display>(
        &mut self,
        key: &'static str,
        name: &'static str,
        text: impl Fn(&str) -> Result<T, E>,
        mut table: impl FnMut(Section<'a>) -> Option<T>,
    ) -> Vec<T> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            self.report(key, value, "must be a list, like [\"…\"]".into());
            return Vec::new();
        };
        let mut read = Vec::with_capacity(items.len());
        for item in items.iter() {
            read.extend(match item.get_ref() {
                DeValue::Table(keys) => {
                    table(Section { name, at: item.span().start, keys: Some(keys), problems: self.problems })
                }
                DeValue::String(word) => self.accept(key, item, text(word).map_err(|error| error.to_string())),
                _ => self.accept(key, item, Err("must be a text in quotes or a table".into())),
            });
        }
        read
    }

    /// Whether `key` is given as a table.
    pub(super) fn is_table(&self, key: &str) -> bool {
        self.keys.and_then(|keys| keys.get(key)).is_some_and(|value| matches!(value.get_ref(), DeValue::Table(_)))
    }

    /// One of a closed set of words.
    pub(super) fn choice<T: Copy>(&mut self, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let read = |text: &str| match choices.iter().find(|(word, _)| *word == text) {
            Some((_, choice)) => Ok(*choice),
            None => {
                let one_of = if choices.len() > 1 { "one of " } else { "" };
                Err(format!("must be {one_of}{}", quoted_words(choices)))
            }
        };
        self.text(key, read)
    }

    /// A duration within `range`.
    pub(super) fn duration(&mut self, key: &'static str, range: &RangeInclusive<Duration>) -> Option<Duration> {
        self.measure(key, range, parse_duration, |duration| show_duration(*duration))
    }

    /// A size within `range`.
    pub(super) fn size(&mut self, key: &'static str, range: &RangeInclusive<ByteSize>) -> Option<ByteSize> {
        self.measure(key, range, str::parse, ByteSize::to_string)
    }

    fn measure<T: PartialOrd>(
        &mut self,
        key: &'static str,
        range: &RangeInclusive<T>,
        read: impl Fn(&str) -> Result<T, UnitError>,
        show: impl Fn(&T) -> String,
    ) -> Option<T> {
        let value = self.value(key)?;
        // A bare number is read too: its error says that the unit is missing.
        let text = match value.get_ref() {
            DeValue::String(text) => text,
            DeValue::Integer(number) => number.as_str(),
            _ => "",
        };
        let result = match read(text) {
            Ok(measure) if range.contains(&measure) => Ok(measure),
            Ok(_) => Err(format!("must be from \"{}\" to \"{}\"", show(range.start()), show(range.end()))),
            Err(error) => Err(error.to_string()),
        };
        self.accept(key, value, result)
    }

    /// Reports that `key` is missing, unless the file gives it, right or wrong.
    pub(super) fn require(&self, key: &str, example: &str) {
        if !self.has(key) {
            self.problem(format_args!("`{key}` is missing, for example {example}"));
        }
    }

    /// Whether the file gives `key`, right or wrong.
    pub(super) fn has(&self, key: &str) -> bool {
        self.keys.is_some_and(|keys| keys.contains_key(key))
    }

    /// How many keys the file gives, or `None` where the section is absent.
    pub(super) fn len(&self) -> Option<usize> {
        self.keys.map(|keys| keys.len())
    }

    /// Reports every key that was never asked for. Call it last.
    pub(super) fn finish(self) {
        let asked = self.problems.asked.borrow();
        let known: Vec<&str> = asked.keys().filter(|(section, _)| *section == self.name).map(|(_, key)| *key).collect();
        let keys = self.keys.into_iter().flat_map(|keys| keys.keys());
        let unknown = keys.filter(|key| !known.iter().any(|known| known == key.get_ref()));
        let unknown = unknown.map(|key| (key.span().start, self.name, key.get_ref().to_string()));
        self.problems.unknown.borrow_mut().extend(unknown);
    }

    /// The value of a key, and notes that the key is known.
    fn value(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        let value = self.keys.and_then(|keys| keys.get(key));
        *self.problems.asked.borrow_mut().entry((self.name, key)).or_default() |= value.is_some();
        value
    }

    fn accept<T>(&self, key: &str, value: &Spanned<DeValue<'_>>, result: Result<T, String>) -> Option<T> {
        result.map_err(|text| self.report(key, value, text)).ok()
    }

    fn report(&self, key: &str, value: &Spanned<DeValue<'_>>, text: String) {
        self.problems.add(value.span().start, format!("{key} = {}: {text}", self.problems.quote(value)));
    }
}

/// A text without the user and the password of an address in it.
fn without_user(text: &str) -> Cow<'_, str> {
    let address = text.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1)));
    address.map_or(text.into(), |(scheme, host)| format!("{scheme}://…@{host}").into())
}

/// The words of a choice, as a problem and the reference list them.
pub(super) fn quoted_words<T>(choices: &[(&str, T)]) -> String {
    choices.iter().map(|(word, _)| format!("{word:?}")).collect::<Vec<_>>().join(", ")
}

/// The texts of a list that a variable writes with commas. Commas within braces and brackets do not separate.
fn comma_separated(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let parts = list.split(move |c| {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

/// Reads a value that has to be a text.
fn read_text<T, E: Display>(value: &DeValue<'_>, read: impl FnOnce(&str) -> Result<T, E>) -> Result<T, String> {
    match value {
        DeValue::String(text) => read(text).map_err(|error| error.to_string()),
        _ => Err("must be a text in quotes".into()),
    }
}
