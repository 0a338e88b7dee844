//! An entry on its way through a pipeline.

use super::hints::{self, Hints};
use crate::labels::Labels;
use crate::source::LogEntry;
use daytable_platform::budget::{RECORD_BYTES_MAX, TextRefusal};
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

/// Bytes of work after which is asked whether anybody still waits.
const PATIENCE_BYTES: usize = 64 << 10;
/// The work of a look for a label, as bytes that are read.
const LOOK_BYTES: usize = 64;

/// An entry and its labels. No name occurs twice. What stages make of the entry is bounded: beyond that the view refuses, and
/// the question ends.
pub(crate) struct EntryView<'e> {
    pub(crate) time: i64,
    pub(crate) line: Cow<'e, str>,
    labels: Vec<(Cow<'e, str>, Cow<'e, str>, Category)>,
    /// Extracted labels that a stage removed: no parser extracts them again.
    removed: Vec<Cow<'e, str>>,
    entry: &'e LogEntry,
    hints: &'e Hints,
    /// Bytes of the line and the labels that stages made.
    made: usize,
    /// Bytes of work since `go_on` was asked.
    since: usize,
    go_on: &'e dyn Fn() -> bool,
    refusal: Option<TextRefusal>,
}

impl<'e> EntryView<'e> {
    pub(crate) fn new(entry: &'e LogEntry, go_on: &'e dyn Fn() -> bool) -> EntryView<'e> {
        EntryView::with_hints(entry, &hints::ALL, go_on)
    }

    pub(crate) fn with_hints(entry: &'e LogEntry, hints: &'e Hints, go_on: &'e dyn Fn() -> bool) -> EntryView<'e> {
        let mut labels: Vec<(Cow<'e, str>, Cow<'e, str>, Category)> = Vec::with_capacity(entry.stream.iter().len() + 8);
        labels.extend(entry.stream.iter().map(|(name, value)| (name.into(), value.into(), Category::Stream)));
        for (name, value) in entry.metadata.iter() {
            let name: Cow<'e, str> =
                if entry.stream.get(name).is_some() { format!("{name}_extracted").into() } else { name.into() };
            labels.push((name, value.into(), Category::Metadata));
        }
        let line = Cow::Borrowed(entry.line.as_str());
        EntryView {
            time: entry.time,
            line,
            labels,
            removed: Vec::new(),
            entry,
            hints,
            made: 0,
            since: 0,
            go_on,
            refusal: None,
        }
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
        let known = self.position(name);
        let before = known.map_or(0, |at| made_bytes(&self.labels[at].1));
        let name_bytes = if known.is_none() { name.len() } else { 0 };
        self.worked(LOOK_BYTES + self.labels.len());
        if !self.replaces(before, name_bytes + value.len()) {
            return;
        }
        match known {
            Some(at) => (self.labels[at].1, self.labels[at].2) = (value.into(), category),
            None => self.labels.push((name.to_owned().into(), value.into(), category)),
        }
    }

    /// Replaces the line.
    pub(crate) fn set_line(&mut self, line: String) {
        if self.replaces(made_bytes(&self.line), line.len()) {
            self.line = line.into();
        }
    }

    /// Charges a text that stands in the place of another one. False if there is no room for it: then the view refuses.
    fn replaces(&mut self, before: usize, bytes: usize) -> bool {
        let made = self.made.saturating_sub(before).saturating_add(bytes);
        if made > RECORD_BYTES_MAX {
            self.refuse(TextRefusal::TooLong(RECORD_BYTES_MAX));
            return false;
        }
        self.made = made;
        true
    }

    /// Counts work of a stage. False if the question is over: then the view refuses.
    pub(crate) fn worked(&mut self, bytes: usize) -> bool {
        self.since = self.since.saturating_add(bytes);
        if self.since >= PATIENCE_BYTES {
            self.since = 0;
            if !(self.go_on)() {
                self.refuse(TextRefusal::Stopped);
            }
        }
        self.refusal.is_none()
    }

    /// Ends the question.
    pub(crate) fn refuse(&mut self, refusal: TextRefusal) {
        self.refusal.get_or_insert(refusal);
    }

    /// Why the question ends, if it does.
    pub(crate) fn refusal(&self) -> Option<TextRefusal> {
        self.refusal
    }

    /// Whether anybody still waits.
    pub(crate) fn patience(&self) -> &'e dyn Fn() -> bool {
        self.go_on
    }

    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(at) = self.position(name) {
            let (name, value, category) = self.labels.remove(at);
            self.made = self.made.saturating_sub(made_bytes(&value));
            if category == Category::Parsed {
                self.removed.push(name);
            }
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

    pub(super) fn is_extracted(&self, name: &str) -> bool {
        self.with_category(name).is_some_and(|(_, category)| category == Category::Parsed)
    }

    /// Sets a label that a parser extracted, if the query needs the label. Of two with one name, the first stays.
    pub(crate) fn extracted(&mut self, name: &str, value: Cow<'_, str>) {
        if name.is_empty() {
            return;
        }
        let name = self.name_of_extracted(name);
        if self.hints.wants(&name) && !self.is_extracted(&name) && !self.removed.contains(&name) {
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
        let (made, removed) = (&mut self.made, &mut self.removed);
        self.labels.retain(|(name, value, category)| {
            let stays = keep(name, value);
            if !stays {
                *made = made.saturating_sub(made_bytes(value));
                if *category == Category::Parsed {
                    removed.push(name.clone());
                }
            }
            stays
        });
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

    /// Writes the labels of a series ([`Labels::of_series`]) to `key`, sorted, so that equal ones give equal bytes.
    pub(crate) fn write_key(&self, keep: impl Fn(&str) -> bool, key: &mut Vec<u8>) {
        let has = |name: &str, value: &str| !value.is_empty() && keep(name);
        let labels = self.labels.iter().map(|(name, value, _)| (&**name, &**value));
        let mut kept: Vec<(&str, &str)> = labels.filter(|(name, value)| has(name, value)).collect();
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

/// The bytes of a text that a stage made: an owned one.
#[allow(clippy::ptr_arg)]
fn made_bytes(text: &Cow<'_, str>) -> usize {
    match text {
        Cow::Borrowed(_) => 0,
        Cow::Owned(text) => text.len(),
    }
}
