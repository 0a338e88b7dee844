//! An entry on its way through a pipeline.

use super::hints::{self, Hints};
use crate::labels::Labels;
use crate::source::LogEntry;
use std::borrow::Cow;

/// The label with the kind of an error.
pub(crate) const ERROR: &str = "__error__";
/// The label with the text of an error.
pub(crate) const DETAILS: &str = "__error_details__";
/// The label that says that the query asks for errors.
pub(crate) const PRESERVED: &str = "__preserve_error__";

/// Where a label comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Category {
    Stream,
    Metadata,
    Parsed,
}

/// An entry and its labels. No name occurs twice.
pub(crate) struct EntryView<'e> {
    pub(crate) time: i64,
    pub(crate) line: Cow<'e, str>,
    labels: Vec<(Cow<'e, str>, Cow<'e, str>, Category)>,
    entry: &'e LogEntry,
    hints: &'e Hints,
}

impl<'e> EntryView<'e> {
    pub(crate) fn new(entry: &'e LogEntry) -> EntryView<'e> {
        EntryView::with_hints(entry, &hints::ALL)
    }

    pub(crate) fn with_hints(entry: &'e LogEntry, hints: &'e Hints) -> EntryView<'e> {
        let mut labels: Vec<(Cow<'e, str>, Cow<'e, str>, Category)> = Vec::with_capacity(entry.stream.iter().len() + 8);
        labels.extend(entry.stream.iter().map(|(name, value)| (name.into(), value.into(), Category::Stream)));
        for (name, value) in entry.metadata.iter() {
            let name: Cow<'e, str> =
                if entry.stream.get(name).is_some() { format!("{name}_extracted").into() } else { name.into() };
            labels.push((name, value.into(), Category::Metadata));
        }
        EntryView { time: entry.time, line: Cow::Borrowed(&entry.line), labels, entry, hints }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.labels.iter().position(|(known, ..)| known == name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.position(name).map(|at| &*self.labels[at].1)
    }

    pub(crate) fn with_category(&self, name: &str) -> Option<(&str, Category)> {
        self.position(name).map(|at| (&*self.labels[at].1, self.labels[at].2))
    }

    pub(crate) fn set(&mut self, name: &str, value: String, category: Category) {
        match self.position(name) {
            Some(at) => (self.labels[at].1, self.labels[at].2) = (value.into(), category),
            None => self.labels.push((name.to_owned().into(), value.into(), category)),
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(at) = self.position(name) {
            self.labels.remove(at);
        }
    }

    /// The name of an extracted label: one that the entry came with stays, and the extracted one gets a suffix.
    fn name_of_extracted<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let is_metadata = || self.with_category(name).is_some_and(|(_, category)| category == Category::Metadata);
        if self.entry.stream.get(name).is_some() || is_metadata() {
            format!("{name}_extracted").into()
        } else {
            name.into()
        }
    }

    fn is_extracted(&self, name: &str) -> bool {
        self.with_category(name).is_some_and(|(_, category)| category == Category::Parsed)
    }

    /// Sets a label that a parser extracted, if the query needs the label. Of two with one name, the first stays.
    pub(crate) fn extracted(&mut self, name: &str, value: Cow<'_, str>) {
        if name.is_empty() {
            return;
        }
        let name = self.name_of_extracted(name);
        if self.hints.wants(&name) && !self.is_extracted(&name) {
            self.set(&name, value.into_owned(), Category::Parsed);
        }
    }

    /// Sets a label that an expression names. Of two values, the last stays.
    pub(crate) fn extracted_by_name(&mut self, name: &str, value: Cow<'_, str>) {
        let name = self.name_of_extracted(name);
        self.set(&name, value.into_owned(), Category::Parsed);
    }

    /// Sets a label that an expression names and that is nowhere.
    pub(crate) fn not_extracted(&mut self, name: &str) {
        if self.position(name).is_none() {
            self.set(name, String::new(), Category::Parsed);
        }
    }

    /// Whether parsers have nothing left to extract.
    pub(crate) fn is_complete(&self) -> bool {
        self.hints.are_met(|name| name != ERROR && self.is_extracted(name))
    }

    /// Whether a label that begins with `prefix` is needed.
    pub(crate) fn wants_prefix(&self, prefix: &str) -> bool {
        self.hints.wants_prefix(prefix)
    }

    pub(crate) fn fail(&mut self, kind: &str, details: &str) {
        self.set(ERROR, kind.to_owned(), Category::Parsed);
        self.set(DETAILS, details.to_owned(), Category::Parsed);
    }

    /// Notes that a parser cannot read the line.
    pub(crate) fn fail_parsing(&mut self, kind: &str, details: Option<&str>) {
        self.set(ERROR, kind.to_owned(), Category::Parsed);
        if let Some(details) = details {
            self.set(DETAILS, details.to_owned(), Category::Parsed);
        }
        // A query that asks for errors does not fail because of them.
        if self.hints.names(ERROR) {
            self.set(PRESERVED, "true".to_owned(), Category::Parsed);
        }
    }

    pub(crate) fn has_error(&self) -> bool {
        self.get(ERROR).is_some_and(|error| !error.is_empty())
    }

    /// Whether the query fails because of this entry.
    pub(crate) fn is_failure(&self) -> bool {
        self.has_error() && self.get(PRESERVED).is_none()
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&str, &str) -> bool) {
        self.labels.retain(|(name, value, _)| keep(name, value));
    }

    /// All labels.
    pub(crate) fn all(&self) -> Labels {
        self.of(|_| true)
    }

    /// The labels of these categories.
    pub(crate) fn of(&self, wanted: impl Fn(Category) -> bool) -> Labels {
        let wanted = self.labels.iter().filter(|(.., category)| wanted(*category));
        Labels::new(wanted.map(|(name, value, _)| (name.clone().into_owned(), value.clone().into_owned())).collect())
    }

    /// Writes the labels whose names satisfy `keep` to `key`, sorted, so that equal labels give equal bytes.
    pub(crate) fn write_key(&self, keep: impl Fn(&str) -> bool, key: &mut Vec<u8>) {
        let mut kept: Vec<(&str, &str)> =
            self.labels.iter().filter(|(name, ..)| keep(name)).map(|(n, v, _)| (&**n, &**v)).collect();
        kept.sort_unstable();
        key.clear();
        for (name, value) in kept {
            for text in [name, value] {
                key.extend_from_slice(text.as_bytes());
                key.push(0xff);
            }
        }
    }
}
