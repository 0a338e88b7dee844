//! `[[table]]`: where records go and how long they stay.

use super::condition;
use super::section::{Report, Section};
use daytable_archive::ArchiveUrl;
use daytable_intake::route::Condition;
use daytable_lifecycle::{ArchiveRequirement, TableRule};
use daytable_model::key::{Period, TableName};
use daytable_model::units::parse_duration;
use daytable_model::window::Window;
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
    /// Where a day has to be archived before it is dropped; none where it needs no archive.
    pub archive: Option<ArchiveUrl>,
    /// How long archives are kept after their day has ended; none is for ever.
    pub keep_archives: Option<Duration>,
    /// Partitions that one instance is spread over, 1 to 256.
    pub buckets: NonZeroU16,
    /// Which records it takes. None is every one; the last table, and only it, has none.
    pub when: Option<Condition>,
}

/// From long enough for late records to find their day, to a century.
const KEEP: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(36_500 * 86_400);
const KEEP_DEFAULT: Duration = Duration::from_secs(30 * 86_400);

impl TableConfig {
    /// A table that takes every record and keeps it for 30 days.
    pub fn new(name: TableName) -> TableConfig {
        TableConfig {
            name,
            window: Window { keep: KEEP_DEFAULT, period: Period::Day },
            archive: None,
            keep_archives: None,
            buckets: NonZeroU16::MIN,
            when: None,
        }
    }

    /// What the lifecycle goes by, without what the catalogue remembers of an earlier configuration.
    pub fn rule(&self) -> TableRule {
        let place = self.archive.as_ref().map(|url| url.to_string().into());
        TableRule {
            name: self.name.clone(),
            window: self.window,
            archive: place.map_or(ArchiveRequirement::None, ArchiveRequirement::At),
            keep_archives: self.keep_archives,
            shortened: None,
            archive_before: None,
            archives_until: None,
        }
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
        let archive = read_archive(&mut section);
        let keep_archives = section.text("keep_archives", |text| keep_archives(text, keep)).flatten();
        if section.has("keep_archives") && archive.is_none() && !section.has("archive") {
            section.problem("`keep_archives` belongs to tables with an `archive`");
        }
        let buckets = section.count("buckets", NonZeroU16::MIN, 256);
        let when = section.section("when", "when");
        let conditional = section.has("when");
        let when = condition::read(when);
        section.finish();
        let window = Window { keep, period };
        let table = name.map(|name| TableConfig { name, window, archive, keep_archives, buckets, when });
        (table, conditional)
    }
}

/// `archive`: an address, or "none". What is wrong is not quoted: it may hold a secret.
fn read_archive(section: &mut Section<'_>) -> Option<ArchiveUrl> {
    let written = section.written("archive")?;
    if written.text == "none" {
        return None;
    }
    match written.text.parse() {
        Ok(url) => Some(url),
        Err(error) => {
            section.fault_within(&written, 0, format_args!("{error}, or \"none\" to drop days without one"));
            None
        }
    }
}

/// `keep_archives`: a duration, or "forever", which is none. Less than `keep` would take an archive away while its day
/// still stands, and have it made anew.
fn keep_archives(text: &str, keep: Duration) -> Result<Option<Duration>, String> {
    if text == "forever" {
        return Ok(None);
    }
    match parse_duration(text) {
        Ok(duration) if duration > keep && duration <= *KEEP.end() => Ok(Some(duration)),
        Ok(_) => Err("must be longer than `keep`, and 36500d at most; or \"forever\"".into()),
        Err(error) => Err(format!("{error}, or \"forever\"")),
    }
}
