//! A table of the file, read key by key.
//!
//! Whoever reads a section asks for every key by its name and gives the default beside it; so what was never asked for
//! is unknown, and the nearest name that was asked for is what was meant. Problems are collected, not returned: a value
//! that is wrong counts as its default until the file was read to its end, then all problems are shown at once.

use super::environment;
use super::error::{Problem, line_and_column};
use daytable_model::did_you_mean::did_you_mean;
use daytable_model::units::{ByteSize, UnitError, parse_duration, show_duration};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Characters of a value that a problem quotes at most.
const QUOTED_MAX: usize = 60;

/// What is wrong so far, by the byte of the file.
pub(super) struct Report<'a> {
    text: &'a str,
    found: RefCell<Vec<(usize, String)>>,
    /// Every key that was asked for, by its section, and whether any such section of the file gives it.
    asked: RefCell<BTreeMap<(&'static str, &'static str), bool>>,
    /// What each of them takes, in words.
    kinds: RefCell<BTreeMap<(&'static str, &'static str), String>>,
    /// Where the variables of the environment begin, behind the file's text.
    variables_at: usize,
}

impl<'a> Report<'a> {
    pub(super) fn new(text: &'a str) -> Report<'a> {
        Report::with_variables(text, text.len())
    }

    /// Of a text behind which, from a byte on, variables of the environment stand.
    pub(super) fn with_variables(text: &'a str, variables_at: usize) -> Report<'a> {
        let (found, asked, kinds) = (RefCell::default(), RefCell::default(), RefCell::default());
        Report { text, found, asked, kinds, variables_at }
    }

    /// What every key takes that was asked for, by its section.
    pub(super) fn kinds(&self) -> BTreeMap<(&'static str, &'static str), String> {
        self.kinds.borrow().clone()
    }

    /// What a variable of the environment says, where it is one's value.
    fn variable(&self, value: &Spanned<DeValue<'_>>) -> Option<&'a str> {
        let span = value.span();
        if span.start > self.variables_at { self.text.get(span) } else { None }
    }

    pub(super) fn add(&self, at: usize, text: impl Into<String>) {
        self.found.borrow_mut().push((at, text.into()));
    }

    /// All problems in the order of the file, each with its byte.
    pub(super) fn into_problems(self, file: &str) -> Vec<(usize, Problem)> {
        let mut found = self.found.into_inner();
        found.sort_by_key(|(at, _)| *at);
        let place = |(at, text)| {
            let (line, column) = line_and_column(self.text, at);
            (at, Problem { file: file.into(), line, column, text })
        };
        found.into_iter().map(place).collect()
    }

    /// The keys that can be given and are not, by their sections.
    #[cfg(test)]
    pub(super) fn never_given(&self) -> std::collections::BTreeSet<(&'static str, &'static str)> {
        self.asked.borrow().iter().filter(|(_, given)| !**given).map(|(key, _)| *key).collect()
    }

    fn quote(&self, value: &Spanned<DeValue<'_>>) -> String {
        let source = self.text.get(value.span()).unwrap_or_default();
        let cut: String = source.chars().take(QUOTED_MAX).take_while(|c| *c != '\n').collect();
        if cut.len() < source.len() { format!("{cut}…") } else { cut }
    }
}

/// A text of the file, and where it is written.
pub(super) struct Written<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Written<'a> {
    fn of(name: &'a str, value: &'a Spanned<DeValue<'a>>) -> Option<Written<'a>> {
        let DeValue::String(text) = value.get_ref() else { return None };
        Some(Written { name, text, value })
    }
}

/// One table of the file; an absent one has no keys.
pub(super) struct Section<'a> {
    /// As the file writes it, for the messages: `[http]`, `[[tail]]`.
    name: &'static str,
    /// Where it begins.
    at: usize,
    keys: Option<&'a DeTable<'a>>,
    report: &'a Report<'a>,
}

impl<'a> Section<'a> {
    pub(super) fn root(table: &'a DeTable<'a>, report: &'a Report<'a>) -> Section<'a> {
        Section { name: "the file", at: 0, keys: Some(table), report }
    }

    /// Reports something that is wrong with the section as a whole.
    pub(super) fn problem(&self, text: impl Display) {
        self.report.add(self.at, format!("{}: {text}", self.name));
    }

    /// Where the section begins, to report something later.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The table `key` of this one.
    pub(super) fn section(&mut self, key: &'static str, name: &'static str) -> Section<'a> {
        self.note(key, || "a table".into());
        let empty = Section { name, at: self.at, keys: None, report: self.report };
        match self.take(key) {
            None => empty,
            Some(value) => match value.get_ref() {
                DeValue::Table(table) => Section { at: value.span().start, keys: Some(table), ..empty },
                _ => {
                    self.fault(key, value, format!("must be a table, written {name}"));
                    empty
                }
            },
        }
    }

    /// The tables `key` of this one, in the order of the file.
    pub(super) fn sections(&mut self, key: &'static str, name: &'static str) -> Vec<Section<'a>> {
        self.note(key, || format!("tables, each written {name}"));
        let Some(value) = self.take(key) else { return Vec::new() };
        let mut sections = Vec::new();
        match value.get_ref() {
            DeValue::Array(tables) => {
                for item in tables.iter() {
                    match item.get_ref() {
                        DeValue::Table(table) => sections.push(Section {
                            name,
                            at: item.span().start,
                            keys: Some(table),
                            report: self.report,
                        }),
                        _ => self.fault(key, item, format!("must be a table, written {name}")),
                    }
                }
            }
            DeValue::Table(_) => {
                self.report.add(value.span().start, format!("[{key}] is written {name}: there can be several"));
            }
            _ => self.fault(key, value, format!("must be tables, each written {name}")),
        }
        sections
    }

    /// A list of at least one table, each of which is a section `name`.
    pub(super) fn list_of_tables(&mut self, key: &'static str, name: &'static str) -> Option<Vec<Section<'a>>> {
        self.note(key, || "a list of conditions".into());
        let value = self.take(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            self.fault(key, value, format!("must be a list of conditions, like {key} = [{{ … }}, {{ … }}]"));
            return None;
        };
        if items.is_empty() {
            self.fault(key, value, "must have at least one condition".into());
        }
        let mut sections = Vec::with_capacity(items.len());
        for item in items.iter() {
            match item.get_ref() {
                DeValue::Table(keys) => {
                    sections.push(Section { name, at: item.span().start, keys: Some(keys), report: self.report })
                }
                _ => self.fault(key, item, "must be a condition, like { level_at_most = \"debug\" }".into()),
            }
        }
        Some(sections)
    }

    /// A text, a whole number, or a truth, as it is written without quotes.
    pub(super) fn literal(&mut self, key: &'static str) -> Option<String> {
        self.note(key, || "a text, a whole number, true or false".into());
        let value = self.take(key)?;
        let result = match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => {
                let number = i64::from_str_radix(number.as_str(), number.radix());
                number.map(|number| number.to_string()).map_err(|_| "is too large a number: write it in quotes".into())
            }
            DeValue::Boolean(truth) => Ok(truth.to_string()),
            _ => Err("must be a text in quotes, a whole number, true or false".into()),
        };
        self.settle(key, value, result)
    }

    /// A whole number within `range`; none where the key is absent or wrong.
    pub(super) fn whole<N: TryFrom<i64> + PartialOrd + Display>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<N>,
    ) -> Option<N> {
        self.note(key, || format!("a whole number from {} to {}", range.start(), range.end()));
        let value = self.take(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let number = number.and_then(|number| N::try_from(number).ok());
        let number = number.filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        self.settle(key, value, number.ok_or_else(|| format!("must be a whole number from {least} to {most}")))
    }

    /// True or false.
    pub(super) fn truth(&mut self, key: &'static str) -> Option<bool> {
        self.note(key, || "true or false".into());
        let value = self.take(key)?;
        let truth = if let DeValue::Boolean(truth) = value.get_ref() { Some(*truth) } else { None };
        self.settle(key, value, truth.ok_or_else(|| "must be true or false".into()))
    }

    /// A text that `read` understands; none where the key is absent or wrong.
    pub(super) fn text<T, E: Display>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        self.note(key, || "a text".into());
        let value = self.take(key)?;
        let result = match (value.get_ref(), self.report.variable(value)) {
            // A variable has no quotes to tell a text from a number.
            (DeValue::Integer(_) | DeValue::Boolean(_), Some(text)) => read(text).map_err(|error| error.to_string()),
            (value, _) => read_text(value, read),
        };
        self.settle(key, value, result)
    }

    /// A text that is secret: what is wrong with it is said without it.
    pub(super) fn secret<T, E: Display>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        self.note(key, || "a text".into());
        let value = self.take(key)?;
        let result = read_text(value.get_ref(), read);
        result.map_err(|text| self.report.add(value.span().start, format!("{key}: {text}"))).ok()
    }

    /// A list of at least `least` texts, each of which `read` understands; those that it does not are left out.
    pub(super) fn texts<T, E: Display>(
        &mut self,
        key: &'static str,
        least: usize,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Vec<T>> {
        self.note(key, || "a list of texts".into());
        let value = self.take(key)?;
        if let (DeValue::String(list), Some(_)) = (value.get_ref(), self.report.variable(value)) {
            let texts = environment::texts(list).map(|text| read(text).map_err(|error| error.to_string()));
            let texts: Vec<T> = texts.filter_map(|text| self.settle(key, value, text)).collect();
            if environment::texts(list).count() < least {
                self.fault(key, value, format!("must have at least {least}"));
            }
            return Some(texts);
        }
        let DeValue::Array(items) = value.get_ref() else {
            self.fault(key, value, "must be a list of texts, like [\"…\"]".into());
            return None;
        };
        if items.len() < least {
            self.fault(key, value, format!("must have at least {least}"));
        }
        let mut texts = Vec::with_capacity(items.len());
        for item in items.iter() {
            let result = match item.get_ref() {
                DeValue::String(text) => read(text).map_err(|error| error.to_string()),
                _ => Err("must be a text in quotes".into()),
            };
            texts.extend(self.settle(key, item, result));
        }
        Some(texts)
    }

    /// A text that is given to others to read, and where it is written.
    pub(super) fn written(&mut self, key: &'static str) -> Option<Written<'a>> {
        self.note(key, || "a text".into());
        let value = self.take(key)?;
        let written = Written::of(key, value);
        self.settle(key, value, written.ok_or_else(|| "must be a text in quotes".into()))
    }

    /// Texts by names that the file gives, `{ NAME = "…" }`.
    pub(super) fn written_by_name(&mut self, key: &'static str) -> Vec<Written<'a>> {
        self.note(key, || "texts by their names, { NAME = \"…\" }".into());
        let Some(value) = self.take(key) else { return Vec::new() };
        let DeValue::Table(table) = value.get_ref() else {
            self.fault(key, value, "must be texts by their names, like { NAME = \"…\" }".into());
            return Vec::new();
        };
        let mut texts = Vec::new();
        for (name, value) in table.iter() {
            let name = name.get_ref().as_ref();
            let written = Written::of(name, value);
            texts.extend(self.settle(name, value, written.ok_or_else(|| "must be a text in quotes".into())));
        }
        texts
    }

    /// Reports what is wrong at a byte of a text. It is placed there where the file has the text as it is, without
    /// escapes; else where the text begins.
    pub(super) fn fault_within(&self, written: &Written<'_>, at: usize, text: impl Display) {
        let source = self.report.text.get(written.value.span()).unwrap_or_default();
        let inside = source.find(written.text).filter(|_| source.len() <= written.text.len() + 7);
        let start = written.value.span().start + inside.map_or(0, |inside| inside + at);
        self.report.add(start, format!("{}: {text}", written.name));
    }

    /// A list of texts that `text` understands and of tables that `table` does; what they do not is left out.
    pub(super) fn texts_or_tables<T, E: Display>(
        &mut self,
        key: &'static str,
        name: &'static str,
        text: impl Fn(&str) -> Result<T, E>,
        mut table: impl FnMut(Section<'a>) -> Option<T>,
    ) -> Vec<T> {
        self.note(key, || "a list of texts and tables".into());
        let Some(value) = self.take(key) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            self.fault(key, value, "must be a list, like [\"…\"]".into());
            return Vec::new();
        };
        let mut read = Vec::with_capacity(items.len());
        for item in items.iter() {
            read.extend(match item.get_ref() {
                DeValue::Table(keys) => {
                    table(Section { name, at: item.span().start, keys: Some(keys), report: self.report })
                }
                DeValue::String(word) => self.settle(key, item, text(word).map_err(|error| error.to_string())),
                _ => self.settle(key, item, Err("must be a text in quotes or a table".into())),
            });
        }
        read
    }

    /// Whether `key` is given as a table.
    pub(super) fn is_table(&self, key: &str) -> bool {
        self.keys.and_then(|keys| keys.get(key)).is_some_and(|value| matches!(value.get_ref(), DeValue::Table(_)))
    }

    /// One of a closed set of words.
    pub(super) fn choice<T: Copy>(&mut self, key: &'static str, default: T, choices: &[(&str, T)]) -> T {
        self.note(key, || {
            let words: Vec<String> = choices.iter().map(|(word, _)| format!("{word:?}")).collect();
            words.join(", ")
        });
        let read = |text: &str| match choices.iter().find(|(word, _)| *word == text) {
            Some((_, choice)) => Ok(*choice),
            None => {
                let words: Vec<String> = choices.iter().map(|(word, _)| format!("{word:?}")).collect();
                let one_of = if words.len() > 1 { "one of " } else { "" };
                Err(format!("must be {one_of}{}", words.join(", ")))
            }
        };
        self.text(key, read).unwrap_or(default)
    }

    /// A count from 1 to `max`.
    pub(super) fn count(&mut self, key: &'static str, default: NonZeroU16, max: u16) -> NonZeroU16 {
        self.note(key, || format!("a whole number from 1 to {max}"));
        let Some(value) = self.take(key) else { return default };
        let count = match value.get_ref() {
            DeValue::Integer(number) => u16::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let count = count.filter(|count| *count <= max).and_then(NonZeroU16::new);
        let result = count.ok_or_else(|| format!("must be a whole number from 1 to {max}"));
        self.settle(key, value, result).unwrap_or(default)
    }

    /// A duration within `range`.
    pub(super) fn duration(
        &mut self,
        key: &'static str,
        default: Duration,
        range: RangeInclusive<Duration>,
    ) -> Duration {
        self.measure(key, default, range, parse_duration, |duration| show_duration(*duration))
    }

    /// A size within `range`.
    pub(super) fn size(&mut self, key: &'static str, default: ByteSize, range: RangeInclusive<ByteSize>) -> ByteSize {
        self.measure(key, default, range, str::parse, ByteSize::to_string)
    }

    fn measure<T: PartialOrd>(
        &mut self,
        key: &'static str,
        default: T,
        range: RangeInclusive<T>,
        read: impl Fn(&str) -> Result<T, UnitError>,
        show: impl Fn(&T) -> String,
    ) -> T {
        self.note(key, || format!("from \"{}\" to \"{}\"", show(range.start()), show(range.end())));
        let Some(value) = self.take(key) else { return default };
        // A bare number is read all the same, to be told that it has no unit.
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
        self.settle(key, value, result).unwrap_or(default)
    }

    /// A duration, or "off".
    pub(super) fn duration_or_off(&mut self, key: &'static str) -> Option<Duration> {
        let read = |text: &str| match text {
            "off" => Ok(None),
            _ => parse_duration(text).map(Some).map_err(|error| format!("{error}, or \"off\"")),
        };
        self.note(key, || "a duration, or \"off\"".into());
        self.text(key, read).flatten()
    }

    /// Reports that `key` is missing, unless it was given (and is wrong).
    pub(super) fn require(&self, key: &str, example: &str) {
        if !self.has(key) {
            self.problem(format_args!("`{key}` is missing, for example {example}"));
        }
    }

    /// Whether the file gives `key`, right or wrong.
    pub(super) fn has(&self, key: &str) -> bool {
        self.keys.is_some_and(|keys| keys.contains_key(key))
    }

    /// How many keys the file gives; none where it does not have the section at all.
    pub(super) fn len(&self) -> Option<usize> {
        self.keys.map(|keys| keys.len())
    }

    /// Reports every key that was never asked for. To be called last.
    pub(super) fn finish(self) {
        let asked = self.report.asked.borrow();
        let known: Vec<&str> = asked.keys().filter(|(section, _)| *section == self.name).map(|(_, key)| *key).collect();
        for key in self.keys.into_iter().flat_map(|keys| keys.keys()) {
            let name = key.get_ref();
            if !known.iter().any(|known| known == name) {
                let meant = did_you_mean(name, &known).map(|known| format!(", did you mean {known:?}?"));
                let text = format!("unknown key {name:?} in {}{}", self.name, meant.unwrap_or_default());
                self.report.add(key.span().start, text);
            }
        }
    }

    /// The value of a key, which is known from now on.
    fn take(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        let value = self.keys.and_then(|keys| keys.get(key));
        *self.report.asked.borrow_mut().entry((self.name, key)).or_default() |= value.is_some();
        value
    }

    fn note(&self, key: &'static str, kind: impl FnOnce() -> String) {
        self.report.kinds.borrow_mut().entry((self.name, key)).or_insert_with(kind);
    }

    fn settle<T>(&self, key: &str, value: &Spanned<DeValue<'_>>, result: Result<T, String>) -> Option<T> {
        result.map_err(|text| self.fault(key, value, text)).ok()
    }

    fn fault(&self, key: &str, value: &Spanned<DeValue<'_>>, text: String) {
        self.report.add(value.span().start, format!("{key} = {}: {text}", self.report.quote(value)));
    }
}

/// What `read` makes of a value that has to be a text.
fn read_text<T, E: Display>(value: &DeValue<'_>, read: impl FnOnce(&str) -> Result<T, E>) -> Result<T, String> {
    match value {
        DeValue::String(text) => read(text).map_err(|error| error.to_string()),
        _ => Err("must be a text in quotes".into()),
    }
}
