//! Decides a filter for the rows of a batch.

use super::arrivals::Arrivals;
use super::networks::NetworkReader;
use crate::answer::item::FullRecord;
use crate::filter::{Filter, has_text};
use crate::select::Selection;
use daytable_logsql::{ARRIVED_COLUMN, Column, FieldName, Matcher, Predicate, PredicateNode, passes_as_value};
use daytable_model::key::instance_of;
pub(super) use daytable_model::line::MESSAGE_START;
use daytable_model::line::{escape_json, may_cross_in_any_case};
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::stream::{NANOS, STREAM};
use daytable_model::time::Ticks;
use daytable_model::words::in_lower_case;
use daytable_store::page::{LevelMinute, PageHeader, PageSections, TextPrefilter, level_minutes};
use daytable_store::sealed::SealedFile;
use daytable_store::{BatchColumn, ColumnBatch, ColumnsFound, PartFilter, RowsOf, StoreError};
use memchr::memmem::Finder;
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::sync::Arc;

/// Properties that are not fields of the record.
pub(super) const NO_FIELDS: [(&str, PropertyKind); 7] = [
    ("Message", PropertyKind::String),
    ("Source", PropertyKind::String),
    ("Items", PropertyKind::Int32),
    ("Fields", PropertyKind::String),
    (STREAM, PropertyKind::String),
    (NANOS, PropertyKind::Int32),
    ARRIVED_COLUMN,
];
/// Properties that make a line of the fields.
pub(super) const LAYOUT: [&str; 2] = ["Layout", "Verbatim"];
/// Parts of a text that are searched before its page is looked at.
const PARTS_MAX: usize = 4;

/// A filter of records that is decided on columns.
pub(in crate::answer) struct ColumnFilter {
    predicate: Arc<Predicate>,
    table: Arc<str>,
    level: Option<Level>,
    contains: Option<SearchTerm>,
    /// Whether every record that matches the predicate has that text: then the text only excludes pages.
    is_text_implied: bool,
    /// The texts that matchers look for, by the text.
    needles: HashMap<String, SearchTerm>,
    /// The fields that decide, if these alone do.
    fields: Option<Vec<FieldName>>,
}

/// A text that is looked for in columns.
struct SearchTerm {
    needle: Needle,
    borders: (bool, bool),
    /// Excludes pages before their columns are read.
    pages: TextPrefilter,
    /// Its parts between digits; a page that lacks one has no such text. Empty if that is not known.
    parts: Vec<Finder<'static>>,
}

/// To decode this many rows by columns takes about as long as to make one record.
const ROWS_OF_A_RECORD: usize = 256;

/// Which rows of a batch match.
#[derive(Debug)]
pub(in crate::answer) struct TernaryRows {
    /// Rows that match.
    pub(in crate::answer) yes: RowSet,
    /// Rows that may match; those that do are among them.
    pub(in crate::answer) maybe: RowSet,
}

/// Levels of which rows match, a bit each; bit 0 stands for no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::answer) struct MatchingLevels {
    /// Rows of other levels surely do not match.
    pub(in crate::answer) may: u16,
    /// Rows of these levels surely match.
    pub(in crate::answer) surely: u16,
}

impl MatchingLevels {
    const UNKNOWN: MatchingLevels = MatchingLevels { may: u16::MAX, surely: 0 };

    fn exactly(levels: u16) -> MatchingLevels {
        MatchingLevels { may: levels, surely: levels }
    }

    fn and(self, other: MatchingLevels) -> MatchingLevels {
        MatchingLevels { may: self.may & other.may, surely: self.surely & other.surely }
    }
}

impl std::ops::Not for MatchingLevels {
    type Output = MatchingLevels;

    fn not(self) -> MatchingLevels {
        MatchingLevels { may: !self.surely, surely: !self.may }
    }
}

impl TernaryRows {
    fn exactly(rows: RowSet) -> TernaryRows {
        TernaryRows { yes: rows.clone(), maybe: rows }
    }

    fn of(yes: RowSet, open: &RowSet) -> TernaryRows {
        let mut maybe = yes.clone();
        maybe.add(open);
        TernaryRows { yes, maybe }
    }
}

/// A batch, and which of its rows columns do not describe.
struct BatchView<'b> {
    batch: &'b ColumnBatch,
    /// Records of several rows, or with fields in one text.
    spread: RowSet,
    laid_out: OnceCell<RowSet>,
}

impl BatchView<'_> {
    /// Records whose line and message are made of their layout. Conditions of fields do not need them.
    fn laid_out(&self) -> Result<&RowSet, StoreError> {
        if let Some(laid_out) = self.laid_out.get() {
            return Ok(laid_out);
        }
        let mut laid_out = RowSet::none(self.batch.len());
        for column in self.batch.columns(|name, _| LAYOUT.contains(&name))? {
            laid_out.add(&column.present());
        }
        Ok(self.laid_out.get_or_init(|| laid_out))
    }

    fn with_layout(&self, is_wanted: impl Fn(&str) -> bool) -> Result<RowSet, StoreError> {
        rows_with_layout(self.batch, self.laid_out()?, is_wanted)
    }
}

/// The rows among these whose layout is wanted.
pub(super) fn rows_with_layout(
    batch: &ColumnBatch,
    among: &RowSet,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<RowSet, StoreError> {
    let mut rows = RowSet::none(batch.len());
    let holds = |value: Property<'_>| matches!(value, Property::String(layout) if is_wanted(layout));
    for column in batch.columns(|name, kind| (name, kind) == (LAYOUT[0], PropertyKind::String))? {
        column.add_where(among, holds, &mut rows);
    }
    Ok(rows)
}

/// Whether a column has values of a field, of the source, or arrivals.
pub(super) fn is_column_of(field: &FieldName, name: &str, kind: PropertyKind) -> bool {
    match field.column() {
        Column::Source => return (name, kind) == ("Source", PropertyKind::String),
        Column::Arrived => return (name, kind) == ARRIVED_COLUMN,
        _ => {}
    }
    // A field that has the name of a column is asked for with a `_`.
    let is_beside = || {
        let column = field.written().trim_end_matches('_');
        name == column && FieldName::new(column).column() != Column::Field
    };
    (field.is_property(name) || is_beside()) && !NO_FIELDS.contains(&(name, kind)) && !LAYOUT.contains(&name)
}

impl SearchTerm {
    /// `borders`: whether its first and its last word are whole words of every text with it.
    fn new(text: &str, borders: (bool, bool)) -> SearchTerm {
        let needle = Needle::with_borders(text, borders);
        // Such a text may be stored as bytes or numbers.
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let mut parts: Vec<&[u8]> = text.as_bytes().split(u8::is_ascii_digit).filter(|part| !part.is_empty()).collect();
        parts.sort_unstable_by_key(|part| std::cmp::Reverse(part.len()));
        parts.truncate(if is_hex || needle.may_be_beside_strings() { 0 } else { PARTS_MAX });
        let pages = TextPrefilter::new(text);
        SearchTerm {
            needle,
            borders,
            pages,
            parts: parts.into_iter().map(|part| Finder::new(part).into_owned()).collect(),
        }
    }

    fn may_be_in(&self, batch: &ColumnBatch) -> bool {
        self.parts.iter().all(|part| batch.may_have_text(part))
    }
}

/// Whether times lie between two others, both included: `true` for all of them, `false` for none, `None` if some of them may.
/// `oldest` and `newest` bound the times.
fn are_between((oldest, newest): (Ticks, Ticks), from: i64, to: i64) -> Option<bool> {
    let is_any = oldest.get() <= to && from <= newest.get();
    let is_all = from <= oldest.get() && newest.get() <= to;
    (is_all || !is_any).then_some(is_all)
}

/// Judges rows by what they have in common and by the levels in the header of their page, and pages and row groups by the
/// texts that matching records have.
impl PartFilter for ColumnFilter {
    fn wants(&self, rows: RowsOf<'_>, header: Option<&PageHeader>) -> bool {
        let may = self.levels_of(rows).may;
        let has_it = |header: &PageHeader| {
            // An unreadable count is left to the reader of the page.
            let is_in =
                |of: Result<LevelMinute, _>| of.map_or(true, |of| may >> of.level.map_or(0, Level::code) & 1 == 1);
            level_minutes(&header.levels).any(is_in)
        };
        may == u16::MAX || may != 0 && header.is_none_or(has_it)
    }

    fn may_match_without(&self, lacks: &dyn Fn(usize) -> bool) -> bool {
        let number = |of: &SearchTerm| self.search_terms().position(|term| std::ptr::eq(term, of));
        self.may_match(&|term| !number(term).is_some_and(lacks))
    }

    fn wants_page(&self, page: &PageSections<'_>) -> bool {
        self.may_match(&|term| term.pages.may_be_in(page))
    }

    fn wants_group(&self, file: &SealedFile, group: usize) -> Result<bool, StoreError> {
        let failed = Cell::new(None);
        let may_match = self.may_match(&|term| match file.may_have(group, &term.needle) {
            Ok(may_have) => may_have,
            Err(error) => {
                failed.set(Some(error));
                true
            }
        });
        failed.into_inner().map_or(Ok(may_match), Err)
    }

    fn needles(&self) -> Vec<&Needle> {
        self.search_terms().map(|term| &term.needle).collect()
    }
}

impl ColumnFilter {
    /// The records of a table that match a predicate, and the level and text of a filter.
    pub(in crate::answer) fn new(predicate: Arc<Predicate>, filter: &Filter, table: Arc<str>) -> ColumnFilter {
        let mut needles = HashMap::new();
        gather_needles(predicate.root(), &mut needles);
        let contains = filter
            .contains
            .as_deref()
            .filter(|text| !text.is_empty())
            .map(|text| SearchTerm::new(text, (false, false)));
        let mut fields = Vec::new();
        let is_of_fields = contains.is_none() && add_fields(predicate.root(), &mut fields);
        let fields = is_of_fields.then_some(fields);
        ColumnFilter { predicate, table, level: filter.level, contains, is_text_implied: false, needles, fields }
    }

    /// The records of a table that match a predicate, and the level and text of a selection.
    pub(in crate::answer) fn of(selection: &Selection<'_>, predicate: Arc<Predicate>, table: Arc<str>) -> ColumnFilter {
        let filter = ColumnFilter::new(predicate, selection.asked, table);
        ColumnFilter { is_text_implied: selection.is_text_implied, ..filter }
    }

    /// The name of the table.
    pub(in crate::answer) fn table(&self) -> &Arc<str> {
        &self.table
    }

    /// The levels of which some rows match.
    pub(in crate::answer) fn levels_of(&self, rows: RowsOf<'_>) -> MatchingLevels {
        self.levels_with(rows, &|_| None)
    }

    /// The levels of which some rows match that have these values, where a value is known.
    pub(in crate::answer) fn levels_with<'v>(
        &self,
        rows: RowsOf<'_>,
        value: &dyn Fn(&FieldName) -> Option<Option<Property<'v>>>,
    ) -> MatchingLevels {
        let instance = OnceCell::new();
        let instance = || {
            let name = instance.get_or_init(|| rows.partition.map(|partition| instance_of(partition).0));
            name.as_deref()
        };
        let mut levels = self.levels_of_node(self.predicate.root(), rows, &instance, value);
        if let Some(least) = self.level {
            levels = levels.and(MatchingLevels::exactly(u16::MAX << least.code()));
        }
        if self.contains.is_some() && !self.is_text_implied {
            levels.surely = 0;
        }
        levels
    }

    /// The levels of which all rows match, where no row of another level does; `None` if more than the level decides.
    pub(in crate::answer) fn decided_levels(&self, rows: RowsOf<'_>) -> Option<u16> {
        let levels = self.levels_of(rows);
        (levels.may == levels.surely).then_some(levels.may)
    }

    fn levels_of_node<'i, 'v>(
        &self,
        node: &PredicateNode,
        rows: RowsOf<'_>,
        instance: &dyn Fn() -> Option<&'i str>,
        value: &dyn Fn(&FieldName) -> Option<Option<Property<'v>>>,
    ) -> MatchingLevels {
        let of_all = |matches| MatchingLevels::exactly(if matches { u16::MAX } else { 0 });
        let of_node = |node: &PredicateNode| self.levels_of_node(node, rows, instance, value);
        match node {
            PredicateNode::Always(always) => of_all(*always),
            PredicateNode::And(nodes) => nodes.iter().map(of_node).fold(of_all(true), MatchingLevels::and),
            PredicateNode::Or(nodes) => {
                !nodes.iter().map(of_node).map(|levels| !levels).fold(of_all(true), MatchingLevels::and)
            }
            PredicateNode::Not(node) => !of_node(node),
            PredicateNode::Time(from, to) => {
                are_between(rows.times, *from, *to).map_or(MatchingLevels::UNKNOWN, of_all)
            }
            PredicateNode::Field(name, matcher) => match (name.column(), matcher.levels()) {
                (Column::Level, Some(levels)) => MatchingLevels::exactly(levels),
                (Column::Table, _) => of_all(matcher.matches(Some(Property::String(&self.table)))),
                (Column::Instance, _) => match instance() {
                    Some(name) => of_all(matcher.matches(Some(Property::String(name)))),
                    None => MatchingLevels::UNKNOWN,
                },
                (Column::Stream, _) if !rows.have_streams => of_all(matcher.matches_absent()),
                (column @ (Column::Field | Column::Source), _) => match value(name) {
                    Some(Some(value)) => of_all(matcher.matches(Some(value))),
                    Some(None) => match (matcher.matches_absent(), matcher.matches_text("")) {
                        // An absent source is an empty one where other records have one.
                        (absent, empty) if absent == empty || column == Column::Field => of_all(absent),
                        _ => MatchingLevels::UNKNOWN,
                    },
                    None => MatchingLevels::UNKNOWN,
                },
                _ => MatchingLevels::UNKNOWN,
            },
            _ => MatchingLevels::UNKNOWN,
        }
    }

    fn search_terms(&self) -> impl Iterator<Item = &SearchTerm> {
        self.contains.iter().chain(self.needles.values())
    }

    /// Whether rows may match that have only the texts which `has` accepts.
    fn may_match(&self, has: &dyn Fn(&SearchTerm) -> bool) -> bool {
        self.contains.as_ref().is_none_or(has) && self.may_match_node(self.predicate.root(), has)
    }

    fn may_match_node(&self, node: &PredicateNode, has: &dyn Fn(&SearchTerm) -> bool) -> bool {
        let may_have = |matcher: &Matcher| {
            let needles = matcher.needles();
            needles.is_empty() || needles.iter().any(|(text, _)| self.needles.get(*text).is_none_or(has))
        };
        let may_have_written = |matcher: &Matcher| {
            let needles = written_needles(matcher);
            needles.is_empty() || needles.iter().any(|(text, _)| self.needles.get(&**text).is_none_or(has))
        };
        match node {
            PredicateNode::And(nodes) => nodes.iter().all(|node| self.may_match_node(node, has)),
            PredicateNode::Or(nodes) => nodes.iter().any(|node| self.may_match_node(node, has)),
            PredicateNode::Anywhere(matcher) => may_have_written(matcher),
            PredicateNode::Field(name, matcher) => match name.column() {
                Column::Field | Column::Message | Column::Line | Column::Anywhere => may_have(matcher),
                _ => true,
            },
            _ => true,
        }
    }

    /// The fields whose columns, with levels and times, tell which records match; `None` if that takes more than these.
    pub(in crate::answer) fn fields(&self) -> Option<&[FieldName]> {
        self.fields.as_deref()
    }

    /// The rows of some records that match, if these columns decide about each of them.
    pub(in crate::answer) fn decide_all(
        &self,
        batch: &ColumnBatch,
        among: &RowSet,
    ) -> Result<Option<RowSet>, StoreError> {
        let TernaryRows { yes, maybe } = self.decide(batch, among)?;
        Ok((yes == maybe).then_some(yes))
    }

    /// Whether columns have a part in deciding which records match. The level of a record is not a column.
    pub(in crate::answer) fn needs_columns(&self) -> bool {
        !matches!((self.predicate.root(), &self.contains), (PredicateNode::Always(true), None))
    }

    /// The predicate, if it alone decides about records.
    pub(in crate::answer) fn row_predicate(&self) -> Option<&Predicate> {
        (self.contains.is_none() || self.is_text_implied).then_some(&*self.predicate)
    }

    /// Whether a record matches, whatever columns say.
    pub(in crate::answer) fn matches(&self, record: &FullRecord) -> bool {
        let has_text = |term: &SearchTerm| self.is_text_implied || has_text(&term.needle, record.record());
        self.contains.as_ref().is_none_or(has_text) && self.predicate.matches(record)
    }

    /// Which of some records of a batch match.
    pub(in crate::answer) fn decide(&self, batch: &ColumnBatch, among: &RowSet) -> Result<TernaryRows, StoreError> {
        let mut among = among.clone();
        if let Some(level) = self.level {
            let mut of_level = RowSet::none(batch.len());
            batch.each_level(&among, |row, code| {
                if code >= level.code() {
                    of_level.insert(row);
                }
            })?;
            among = of_level;
        }
        let contains = self.contains.as_ref().filter(|_| !self.is_text_implied);
        if among.is_empty() || matches!((self.predicate.root(), contains), (PredicateNode::Always(true), None)) {
            return Ok(TernaryRows::exactly(among));
        }
        let view = BatchView { batch, spread: batch.spread()?, laid_out: OnceCell::new() };
        if let Some(term) = contains {
            // A column says that a record may have the text; the record says whether it has.
            let mut with_text = RowSet::none(batch.len());
            if term.may_be_in(batch) {
                batch.add_containing(&term.needle, &among, &mut with_text)?;
            }
            with_text.add(&view.spread);
            with_text.add(&view.with_layout(|layout| term.needle.may_cross(layout))?);
            with_text.keep(&among);
            let mut decided = self.node(self.predicate.root(), &view, &with_text)?;
            decided.yes = RowSet::none(batch.len());
            return Ok(decided);
        }
        self.node(self.predicate.root(), &view, &among)
    }

    fn node(&self, node: &PredicateNode, view: &BatchView<'_>, among: &RowSet) -> Result<TernaryRows, StoreError> {
        let batch = view.batch;
        let none = || RowSet::none(batch.len());
        if among.is_empty() {
            return Ok(TernaryRows::exactly(none()));
        }
        match node {
            PredicateNode::Always(true) => Ok(TernaryRows::exactly(among.clone())),
            PredicateNode::Always(false) => Ok(TernaryRows::exactly(none())),
            PredicateNode::And(nodes) => {
                let mut all = TernaryRows::exactly(among.clone());
                let mut nodes: Vec<&PredicateNode> = nodes.iter().collect();
                nodes.sort_by_key(|node| cost(node));
                for node in nodes {
                    let of_node = self.node(node, view, &all.maybe)?;
                    all.yes.keep(&of_node.yes);
                    all.maybe = of_node.maybe;
                }
                Ok(all)
            }
            PredicateNode::Or(nodes) => {
                let (mut yes, mut open, mut left) = (none(), none(), among.clone());
                let mut nodes: Vec<&PredicateNode> = nodes.iter().collect();
                nodes.sort_by_key(|node| cost(node));
                for node in nodes {
                    let of_node = self.node(node, view, &left)?;
                    left.subtract(&of_node.yes);
                    yes.add(&of_node.yes);
                    open.add(&of_node.maybe);
                }
                Ok(TernaryRows::of(yes, &open))
            }
            PredicateNode::Not(node) => {
                let inner = self.node(node, view, among)?;
                let (mut yes, mut maybe) = (among.clone(), among.clone());
                yes.subtract(&inner.maybe);
                maybe.subtract(&inner.yes);
                Ok(TernaryRows { yes, maybe })
            }
            PredicateNode::Time(..) | PredicateNode::Daily(..) | PredicateNode::Weekly(..) => {
                // Most pages lie wholly within the times of a question. Their keys need not be decoded.
                if let (PredicateNode::Time(from, to), Some(times)) = (node, batch.times())
                    && let Some(are_all) = are_between(times, *from, *to)
                {
                    return Ok(TernaryRows::exactly(if are_all { among.clone() } else { none() }));
                }
                let mut yes = none();
                batch.each_time(among, |row, time| {
                    if node.matches_time(time.get()) {
                        yes.insert(row);
                    }
                })?;
                Ok(TernaryRows::exactly(yes))
            }
            PredicateNode::Field(name, matcher) => self.field(name, matcher, view, among),
            PredicateNode::Anywhere(matcher) => self.anywhere(matcher, view, among),
            PredicateNode::Fields(..) => Ok(TernaryRows::of(none(), among)),
        }
    }

    fn field(
        &self,
        name: &FieldName,
        matcher: &Matcher,
        view: &BatchView<'_>,
        among: &RowSet,
    ) -> Result<TernaryRows, StoreError> {
        let batch = view.batch;
        let mut yes = RowSet::none(batch.len());
        match name.column() {
            Column::Time => {
                batch.each_time(among, |row, time| {
                    if matcher.matches(Some(Property::DateTime(time))) {
                        yes.insert(row);
                    }
                })?;
                Ok(TernaryRows::exactly(yes))
            }
            Column::Arrived => {
                let matches = |time: Property<'_>| matcher.matches(Some(time));
                Arrivals::of(batch)?.each(batch, among, matches, |row, is_match| {
                    if is_match {
                        yes.insert(row);
                    }
                })?;
                // Of a record of several rows, the record knows its arrival.
                let mut open = view.spread.clone();
                open.keep(among);
                yes.subtract(&open);
                Ok(TernaryRows::of(yes, &open))
            }
            Column::Level => match matcher.levels() {
                Some(levels) => {
                    batch.each_level(among, |row, code| {
                        if levels >> code & 1 == 1 {
                            yes.insert(row);
                        }
                    })?;
                    Ok(TernaryRows::exactly(yes))
                }
                None => Ok(TernaryRows::of(yes, among)),
            },
            Column::Instance => {
                let matches = |partition: &str| matcher.matches(Some(Property::String(&instance_of(partition).0)));
                batch.each_partition(among, matches, |row, is_match| {
                    if is_match {
                        yes.insert(row);
                    }
                });
                Ok(TernaryRows::exactly(yes))
            }
            Column::Table => match matcher.matches(Some(Property::String(&self.table))) {
                true => Ok(TernaryRows::exactly(among.clone())),
                false => Ok(TernaryRows::exactly(yes)),
            },
            Column::Line | Column::Anywhere => self.whole_line(matcher, view, among),
            Column::Stream => self.property(|named| named == (STREAM, PropertyKind::String), matcher, view, among),
            Column::Message => {
                let mut decided =
                    self.property(|named| named == ("Message", PropertyKind::String), matcher, view, among)?;
                // The others have their whole message in its column.
                let mut open = view.with_layout(|layout| layout.contains(MESSAGE_START))?;
                open.keep(among);
                decided.yes.subtract(&open);
                decided.maybe.add(&open);
                Ok(decided)
            }
            Column::Field | Column::Source => {
                self.property(|(column, kind)| is_column_of(name, column, kind), matcher, view, among)
            }
        }
    }

    /// Decides about the one value that a record has in some columns.
    fn property(
        &self,
        is_it: impl Fn((&str, PropertyKind)) -> bool,
        matcher: &Matcher,
        view: &BatchView<'_>,
        among: &RowSet,
    ) -> Result<TernaryRows, StoreError> {
        let batch = view.batch;
        let (mut yes, mut present, mut open) =
            (RowSet::none(batch.len()), RowSet::none(batch.len()), view.spread.clone());
        for column in batch.columns(|name, kind| is_it((name, kind)))? {
            let of_column = column.present();
            // Of two values of a record, the record says which one is meant.
            let mut twice = of_column.clone();
            twice.keep(&present);
            open.add(&twice);
            present.add(&of_column);
            self.add_matching(&column, matcher, among, &mut yes);
        }
        let mut absent = among.clone();
        absent.subtract(&present);
        match (matcher.matches_absent(), matcher.matches_text("")) {
            (true, true) => yes.add(&absent),
            (false, false) => {}
            // An absent message is an empty one.
            _ if !absent.is_empty() => {
                match batch.columns(|name, kind| is_it((name, kind)) && NO_FIELDS.contains(&(name, kind)))?.is_empty() {
                    true if matcher.matches_absent() => yes.add(&absent),
                    true => {}
                    false => open.add(&absent),
                }
            }
            _ => {}
        }
        open.keep(among);
        yes.subtract(&open);
        Ok(TernaryRows::of(yes, &open))
    }

    /// Adds the rows among these whose value in a column matches.
    fn add_matching(&self, column: &BatchColumn<'_>, matcher: &Matcher, among: &RowSet, yes: &mut RowSet) {
        if let Some(mut reader) = NetworkReader::new(matcher) {
            return column.read(among, &mut reader, |row, is_in| {
                if is_in {
                    yes.insert(row);
                }
            });
        }
        let mut candidates = None;
        if column.kind() == PropertyKind::String
            && let Some(term) = matcher.needle().and_then(|text| self.needles.get(text))
        {
            let mut with_text = RowSet::none(among.length());
            column.add_containing(&term.needle, among, &mut with_text);
            if with_text.is_empty() {
                return;
            }
            candidates = Some(with_text);
        }
        let matches = |value: Property<'_>| matcher.matches(Some(value));
        column.add_where(candidates.as_ref().unwrap_or(among), matches, yes);
    }

    /// Decides about the line alone: the records decide where the line is more than a message.
    fn whole_line(&self, matcher: &Matcher, view: &BatchView<'_>, among: &RowSet) -> Result<TernaryRows, StoreError> {
        let mut decided = self.property(|named| named == ("Message", PropertyKind::String), matcher, view, among)?;
        let mut open = view.laid_out()?.clone();
        if let Some(term) = matcher.needle().and_then(|text| self.needles.get(text)) {
            let mut candidates = RowSet::none(view.batch.len());
            if term.may_be_in(view.batch) {
                view.batch.add_containing(&term.needle, among, &mut candidates)?;
            }
            candidates.add(&view.with_layout(|layout| term.needle.may_cross(layout))?);
            decided.yes.subtract(&open);
            decided.maybe.subtract(&open);
            open.keep(&candidates);
        }
        open.keep(among);
        decided.yes.subtract(&open);
        decided.maybe.add(&open);
        Ok(decided)
    }

    /// Decides about the message, all fields and the line.
    fn anywhere(&self, matcher: &Matcher, view: &BatchView<'_>, among: &RowSet) -> Result<TernaryRows, StoreError> {
        let batch = view.batch;
        let mut yes = RowSet::none(batch.len());
        if matcher.matches_text("") {
            return Ok(TernaryRows::of(yes, among));
        }
        if let Some(word) = matcher.folded_word() {
            return anywhere_in_any_case(word, matcher, view, among);
        }
        let mut left = among.clone();
        // Where no value decides, the line does: it has names, a time and a level beside the values.
        let mut laid_out = view.laid_out()?.clone();
        let written: Vec<_> = match matcher.needle() {
            Some(_) => written_needles(matcher).iter().filter_map(|(text, _)| self.needles.get(&**text)).collect(),
            None => Vec::new(),
        };
        let mut found = ColumnsFound::default();
        if !written.is_empty() {
            let mut candidates = RowSet::none(batch.len());
            for term in written.iter().filter(|term| term.may_be_in(batch)) {
                batch.add_containing_in(&term.needle, &left, &mut candidates, &mut found)?;
            }
            left = candidates.clone();
            for term in &written {
                candidates.add(&view.with_layout(|layout| term.needle.may_cross(layout))?);
            }
            laid_out.keep(&candidates);
        }
        let mut open = view.spread.clone();
        // Whoever looks at columns decodes each of them for all rows, and a record only what is its own.
        if !written.is_empty() && left.count() <= batch.len() / ROWS_OF_A_RECORD {
            open.add(&left);
        }
        left.subtract(&open);
        if !left.is_empty() {
            // Of these, the message is more than its column.
            let cut = view.with_layout(|layout| layout.contains(MESSAGE_START))?;
            let matches = |value: Property<'_>| passes_as_value(value, &mut |value| matcher.matches(Some(value)));
            let is_part = |name: &str, kind| is_part((name, kind));
            let columns = match written.is_empty() {
                true => batch.columns(is_part)?,
                // A value that matches has one of the texts.
                false => batch.columns_found(&found, is_part)?,
            };
            for column in columns {
                let mut of_column = left.clone();
                if column.name() == "Message" {
                    of_column.subtract(&cut);
                }
                if column.kind() == PropertyKind::String && !written.is_empty() {
                    let mut with_text = RowSet::none(batch.len());
                    written.iter().for_each(|term| column.add_containing(&term.needle, &of_column, &mut with_text));
                    of_column = with_text;
                }
                column.add_where(&of_column, &matches, &mut yes);
                left.subtract(&yes);
                if left.is_empty() {
                    break;
                }
            }
        }
        open.add(&laid_out);
        open.keep(among);
        open.subtract(&yes);
        Ok(TernaryRows::of(yes, &open))
    }
}

/// Decides about the message, all fields and the line, where every text that matches has a word in any case. The values
/// of columns are looked at once. A line can only match where a value has the word, or where its layout may.
fn anywhere_in_any_case(
    word: &str,
    matcher: &Matcher,
    view: &BatchView<'_>,
    among: &RowSet,
) -> Result<TernaryRows, StoreError> {
    let batch = view.batch;
    let (mut yes, mut open) = (RowSet::none(batch.len()), view.spread.clone());
    let mut laid_out = view.with_layout(|layout| layout.contains('\\') || may_cross_in_any_case(layout, word))?;
    let cut = view.with_layout(|layout| layout.contains(MESSAGE_START))?;
    let mut left = among.clone();
    left.subtract(&open);
    for column in batch.columns(|name, _| name != LAYOUT[0])? {
        let named = (column.name(), column.kind());
        let tests = is_part(named);
        let read = |value: Property<'_>| {
            let has_word = has_word_in_any_case(value, word);
            (has_word, has_word && tests && passes_as_value(value, &mut |value| matcher.matches(Some(value))))
        };
        let is_message = named.0 == "Message";
        column.map(&left, read, |row, (has_word, matches)| {
            if has_word {
                laid_out.insert(row);
            }
            if matches && !(is_message && cut.contains(row)) {
                yes.insert(row);
            }
        });
    }
    laid_out.keep(view.laid_out()?);
    open.add(&laid_out);
    open.keep(among);
    open.subtract(&yes);
    Ok(TernaryRows::of(yes, &open))
}

/// Whether a column has texts that a bare word is looked for in.
fn is_part(named: (&str, PropertyKind)) -> bool {
    named == ("Message", PropertyKind::String) || !NO_FIELDS.contains(&named) && !LAYOUT.contains(&named.0)
}

/// Whether the text of a value contains a word of ASCII letters in lower case, in any case.
fn has_word_in_any_case(value: Property<'_>, word: &str) -> bool {
    let text = value.text();
    // An escape may stand for any letter.
    if text.contains('\\') {
        return true;
    }
    // Some letters that are not ASCII are in lower case.
    if !text.is_ascii() {
        return in_lower_case(&text).contains(word);
    }
    let (text, word) = (text.as_bytes(), word.as_bytes());
    let (lower, upper) = (word[0], word[0].to_ascii_uppercase());
    let starts = memchr::memchr2_iter(lower, upper, text);
    { starts }.any(|at| text.get(at..at + word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word)))
}

/// Adds the fields that a condition looks at. False if it looks at whole records, or at messages, which may be made of several
/// columns.
fn add_fields(node: &PredicateNode, fields: &mut Vec<FieldName>) -> bool {
    match node {
        PredicateNode::Always(_) => true,
        PredicateNode::Time(..) | PredicateNode::Daily(..) | PredicateNode::Weekly(..) => true,
        PredicateNode::And(nodes) | PredicateNode::Or(nodes) => nodes.iter().all(|node| add_fields(node, fields)),
        PredicateNode::Not(node) => add_fields(node, fields),
        PredicateNode::Field(name, _) => {
            fields.push(name.clone());
            !matches!(name.column(), Column::Message | Column::Line | Column::Anywhere)
        }
        PredicateNode::Anywhere(_) | PredicateNode::Fields(..) => false,
    }
}

/// What a condition costs to decide, roughly: keys and levels first, the whole line last.
fn cost(node: &PredicateNode) -> u8 {
    match node {
        PredicateNode::Always(_) => 0,
        PredicateNode::Time(..) | PredicateNode::Daily(..) | PredicateNode::Weekly(..) => 1,
        PredicateNode::Field(name, matcher) => match name.column() {
            Column::Arrived => 2,
            Column::Field | Column::Source if matcher.needle().is_none() => 2,
            Column::Field | Column::Source => 3,
            Column::Message => 4,
            Column::Line | Column::Anywhere => 5,
            _ => 1,
        },
        PredicateNode::Not(node) => cost(node),
        PredicateNode::And(nodes) | PredicateNode::Or(nodes) => nodes.iter().map(cost).max().unwrap_or(0),
        PredicateNode::Anywhere(_) => 5,
        PredicateNode::Fields(..) => 6,
    }
}

fn gather_needles(node: &PredicateNode, needles: &mut HashMap<String, SearchTerm>) {
    match node {
        PredicateNode::And(nodes) | PredicateNode::Or(nodes) => {
            nodes.iter().for_each(|node| gather_needles(node, needles));
        }
        PredicateNode::Not(node) => gather_needles(node, needles),
        PredicateNode::Field(_, matcher) => {
            matcher.needles().into_iter().for_each(|(text, borders)| add_needle(text, borders, needles));
        }
        PredicateNode::Anywhere(matcher) => {
            written_needles(matcher).iter().for_each(|(text, borders)| add_needle(text, *borders, needles));
        }
        _ => {}
    }
}

fn add_needle(text: &str, mut borders: (bool, bool), needles: &mut HashMap<String, SearchTerm>) {
    // Of two matchers with one text, the borders of both hold.
    if let Some(known) = needles.get(text).map(|known| known.borders) {
        borders = (borders.0 && known.0, borders.1 && known.1);
    }
    needles.insert(text.to_owned(), SearchTerm::new(text, borders));
}

/// Texts of which every matching record has one, with their borders: those of the matcher, and the same as a value that is
/// JSON has them.
fn written_needles(matcher: &Matcher) -> Vec<(Cow<'_, str>, (bool, bool))> {
    let mut needles: Vec<(Cow<'_, str>, _)> =
        matcher.needles().into_iter().map(|(text, borders)| (text.into(), borders)).collect();
    for at in 0..needles.len() {
        let (text, borders) = &needles[at];
        let mut escaped = Vec::new();
        escape_json(text.as_bytes(), false, &mut escaped);
        if escaped != text.as_bytes() {
            needles.push((String::from_utf8_lossy(&escaped).into_owned().into(), *borders));
        }
    }
    needles
}
