//! `[[table]]`: where records go and how long they stay.

use super::glob::Pattern;
use super::section::{Report, Section};
use crate::key::{Period, TableName};
use crate::lifecycle::{Archive, Shortened, TableRule, Window};
use crate::record::Level;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::time::Duration;

/// One configured table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableConfig {
    /// Its name; the day-tables' is this and the day. No two differ by case only.
    pub name: TableName,
    /// How long a day stands, and how long it takes records.
    pub window: Window,
    /// What a day needs before it is dropped.
    pub archive: Archive,
    /// Partitions that one instance is spread over, 1 to 256.
    pub buckets: NonZeroU16,
    /// Which records it takes. None is every one; the last table, and only it, has none.
    pub when: Option<When>,
}

/// The condition under which a table takes a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// This level or a less severe one. A record without a level has neither.
    LevelAtMost(Level),
    /// This level or a more severe one. A record without a level has neither.
    LevelAtLeast(Level),
    /// An instance whose name matches. It costs a match for each record: keep the answer of an instance.
    Instance(Pattern),
    /// A source, the file's path or the listener, that matches. Keep its answer, too.
    Source(Pattern),
}

/// From long enough for late records to find their day, to a century.
const KEEP: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(36_500 * 86_400);
const KEEP_DEFAULT: Duration = Duration::from_secs(30 * 86_400);

impl When {
    /// Whether a record meets it.
    pub fn holds(&self, level: Option<Level>, instance: &str, source: &str) -> bool {
        match self {
            When::LevelAtMost(most) => level.is_some_and(|level| level <= *most),
            When::LevelAtLeast(least) => level.is_some_and(|level| level >= *least),
            When::Instance(pattern) => pattern.matches(instance),
            When::Source(pattern) => pattern.matches(source),
        }
    }

    fn read(mut section: Section<'_>) -> Option<When> {
        let conditions = [
            section.text("level_at_most", level).map(When::LevelAtMost),
            section.text("level_at_least", level).map(When::LevelAtLeast),
            section.text("instance", Pattern::instance).map(When::Instance),
            section.text("source", Pattern::source).map(When::Source),
        ];
        if section.len().is_some_and(|keys| keys != 1) {
            section.problem("must have one condition, for example { level_at_most = \"debug\" }");
        }
        section.finish();
        conditions.into_iter().flatten().next()
    }
}

impl TableConfig {
    /// A table that takes every record and keeps it for 30 days.
    pub fn new(name: TableName) -> TableConfig {
        TableConfig {
            name,
            window: Window { keep: KEEP_DEFAULT, period: Period::Day },
            archive: Archive::None,
            buckets: NonZeroU16::MIN,
            when: None,
        }
    }

    /// What the lifecycle goes by, with what the catalogue remembers of an earlier configuration.
    pub fn rule(&self, shortened: Option<Shortened>) -> TableRule {
        TableRule { name: self.name.clone(), window: self.window, archive: self.archive, shortened }
    }

    /// All of them; one called `Log` where the file has none.
    pub(super) fn read_all(sections: Vec<Section<'_>>, report: &Report<'_>) -> Vec<TableConfig> {
        let mut tables: Vec<TableConfig> = Vec::new();
        let count = sections.len();
        for (index, section) in sections.into_iter().enumerate() {
            let at = section.at();
            let (table, conditional) = TableConfig::read(section);
            let last = index + 1 == count;
            if last && conditional {
                report
                    .add(at, "[[table]]: the last one takes all that is left, so it has no `when`; add one behind it");
            }
            if !last && !conditional {
                report.add(at, "[[table]]: without `when` it takes every record; only the last one may");
            }
            let Some(table) = table else { continue };
            if let Some(other) = tables.iter().find(|other| other.name.same(&table.name)) {
                let (name, other) = (&table.name, &other.name);
                report.add(at, format!("[[table]]: {name} and {other} are one name; names differ by more than case"));
            }
            tables.push(table);
        }
        if tables.is_empty() { TableConfig::all_by_default() } else { tables }
    }

    /// The tables of a file without any.
    pub(super) fn all_by_default() -> Vec<TableConfig> {
        vec![TableConfig::new(TableName::new("Log").expect("it has three letters"))]
    }

    /// The table, if it has a name, and whether it has a condition (right or wrong).
    fn read(mut section: Section<'_>) -> (Option<TableConfig>, bool) {
        let name = section.text("name", TableName::new);
        section.require("name", "name = \"Log\"");
        let keep = section.duration("keep", KEEP_DEFAULT, KEEP);
        let periods = [("hour", Period::Hour), ("day", Period::Day), ("month", Period::Month)];
        let period = section.choice("period", Period::Day, &periods);
        let archive = section.text("archive", archive).unwrap_or_default();
        let buckets = section.count("buckets", NonZeroU16::MIN, 256);
        let when = section.section("when", "when");
        let conditional = section.has("when");
        let when = When::read(when);
        section.finish();
        let table = name.map(|name| TableConfig { name, window: Window { keep, period }, archive, buckets, when });
        (table, conditional)
    }
}

fn level(text: &str) -> Result<Level, String> {
    Level::ALL.into_iter().find(|level| level.name() == text).ok_or_else(|| {
        let names: Vec<&str> = Level::ALL.iter().map(|level| level.name()).collect();
        format!("must be one of {}", names.join(", "))
    })
}

fn archive(text: &str) -> Result<Archive, &'static str> {
    match text {
        "none" => Ok(Archive::None),
        _ => Err("archives come with a later version; until then only \"none\", which drops a day without one"),
    }
}
