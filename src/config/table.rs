//! `[[table]]`: tables for the records, and how long their days stay.

use super::changes::Changes;
use super::key::{self, ConfigKey, KeyDraft, SectionDoc, SectionPlace, choice, count, duration, text, texts};
use super::section::Section;
use super::values::{duration_within, host_pattern, or_word, size_at_least};
use daytable_archive::ArchiveUrl;
use daytable_intake::route::Condition;
use daytable_lifecycle::{ArchiveRequirement, TableRule};
use daytable_model::key::{Period, TableName};
use daytable_model::units::ByteSize;
use daytable_model::window::Window;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::time::Duration;

/// From a duration that lets late records find their day, to a century.
pub(super) const KEEP: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(36_500 * 86_400);
const KEEP_DEFAULT: Duration = Duration::from_secs(30 * 86_400);
const BUCKETS_MAX: u16 = 256;
const BYTES_LEAST: ByteSize = ByteSize::new(1 << 20);
const PERIODS: [(&str, Period); 3] = [("hour", Period::Hour), ("day", Period::Day), ("month", Period::Month)];

/// One configured table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableConfig {
    /// The name; a day-table has this name and the day. Names differ by more than case.
    pub name: TableName,
    /// How long a day stays, and how long it accepts records.
    pub window: Window,
    /// Where a day is archived before it is dropped, or `None` for no archive.
    pub archive: Option<ArchiveUrl>,
    /// How long archives are kept after the end of their day, or `None` for ever.
    pub keep_archives: Option<Duration>,
    /// Partitions of one instance, 1 to 256.
    pub buckets: NonZeroU16,
    /// The most bytes of its days, or `None` for no limit of its own.
    pub max_bytes: Option<ByteSize>,
    /// The records of this table. Only the last table has neither a condition nor hosts: it accepts all records.
    pub when: Option<Condition>,
    /// Patterns of the hosts whose records it has. It takes no record of this daytable's own then.
    pub hosts: Vec<String>,
}

impl TableConfig {
    /// A table for all records that keeps them for 30 days.
    pub fn new(name: TableName) -> TableConfig {
        TableConfig {
            name,
            window: Window { keep: KEEP_DEFAULT, period: Period::Day },
            archive: None,
            keep_archives: None,
            buckets: NonZeroU16::MIN,
            max_bytes: None,
            when: None,
            hosts: Vec::new(),
        }
    }

    /// The rule of the lifecycle, without what the catalog remembers of an earlier configuration.
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
            max_bytes: self.max_bytes.map(ByteSize::get),
            max_bytes_since: None,
        }
    }

    /// The tables of a file without `[[table]]`: one table called `Log`.
    pub(super) fn defaults() -> Vec<TableConfig> {
        vec![TableConfig::log()]
    }

    fn log() -> TableConfig {
        TableConfig::new(TableName::new("Log").expect("it has three letters"))
    }
}

/// What the documents say about `[[table]]`.
pub(super) fn doc() -> SectionDoc {
    SectionDoc {
        about: "Tables. A record goes to the first table whose condition it meets. The last table has no condition, and accepts all remaining records. A table with `hosts` has what these hosts forward here.",
        before: "#\n{when}\n#[[table]]\n#name = \"Debug\"\n#when = 'level:<=debug'\n#keep = \"2d\"\n\n#[[table]]\n#name = \"Slow\"\n\
             #when = 'instance:=web-* took_ms:>=1000 -source:~\"/health[.]log$\"'\n\
             #keep = \"90d\"\n\n\
             {hosts}\n#[[table]]\n#name = \"Pay\"\n#hosts = [\"pay-*\"]\n#keep = \"400d\"\n\n",
        ..SectionDoc::new("[[table]]", SectionPlace::Blocks { in_sample: false }, keys(), &mut TableConfig::log())
    }
}

/// The blocks `[[table]]` of a file; without any, the tables of a file without them.
pub(super) fn read(file: &mut Section<'_>) -> Vec<TableConfig> {
    let mut tables: Vec<TableConfig> = Vec::new();
    let (keys, sections) = (keys(), file.sections("table", "[[table]]"));
    let count = sections.len();
    for (index, mut section) in sections.into_iter().enumerate() {
        let name = section.text("name", TableName::new);
        section.require("name", "name = \"Log\"");
        let table = key::read(&keys, &mut section, TableConfig::log());
        if section.has("keep_archives") && !section.has("archive") {
            section.problem("`keep_archives` belongs to tables with an `archive`");
        }
        let (has_when, has_hosts) = (section.has("when"), section.has("hosts"));
        match (index + 1 == count, has_when, has_hosts) {
            (_, true, true) => {
                section.problem("`when` is for records of this daytable's own, and `hosts` for those of others: use a table for each");
            }
            (true, true, false) => {
                section.problem("the last one takes all that is left, so it has no `when`; add one behind it");
            }
            (true, false, true) => {
                section.problem("the last one takes all that is left, so it has no `hosts`; add one behind it");
            }
            (false, false, false) => {
                section.problem("without `when` or `hosts` it takes every record; only the last one may");
            }
            _ => {}
        }
        if has_hosts && table.hosts.is_empty() {
            section.problem("`hosts` names none: [\"*\"] are all of them");
        }
        if let Some(name) = name {
            if let Some(TableConfig { name: other, .. }) = tables.iter().find(|other| other.name.same(&name)) {
                section.problem(format_args!("{name} and {other} are one name; names differ by more than case"));
            }
            tables.push(TableConfig { name, ..table });
        }
        section.finish();
    }
    if tables.is_empty() { TableConfig::defaults() } else { tables }
}

/// Adds the changes of the tables. If several daytables share the store, a change needs a restart.
pub(super) fn compare(before: &[TableConfig], now: &mut Vec<TableConfig>, is_shared: bool, changes: &mut Changes) {
    let mut own = Changes::default();
    own.add_blocks("table", &keys(), before, now, |table| table.name.as_str());
    // A record goes to the first table whose condition it meets, so the order of the tables matters.
    let names = |tables: &[TableConfig], others: &[TableConfig]| -> Vec<_> {
        let is_kept = |table: &&TableConfig| others.iter().any(|other| other.name == table.name);
        tables.iter().filter(is_kept).map(|table| table.name.clone()).collect()
    };
    if names(before, now) != names(now, before) {
        own.add("the order of the tables".into(), false);
    }
    own.live.into_iter().for_each(|change| changes.add(change, is_shared));
    if is_shared {
        *now = before.to_vec();
    }
}

fn keys() -> Vec<ConfigKey<TableConfig>> {
    vec![
        // Read apart from the others: a table without a name is left out.
        KeyDraft::by_hand("name", "3 to 53 letters and digits", |table: &mut TableConfig| &mut table.name, |_, _| ())
            .required("\"Log\"")
            .live(
                "The name: a letter first, and no digit last. Two names differ by more than case. A *day-table*, the table of one day, has this name \
                 and the day: Debug20261121.",
            ),
        KeyDraft::by_hand("when", "a filter", |table: &mut TableConfig| &mut table.when, |section, table| {
            table.when = read_when(section);
        })
        .live(
            "The records of the table: a filter of the query language, as `daytable query` has it, in quotes.\n\
             - 'level:<=debug', 'level:>=error'\n\
             - 'instance:=web-*', 'source:=/var/log/nginx/*': the beginning of a text\n\
             - 'tenant:=acme': the tenant of the sender's credential\n\
             - 'user:=root', 'http.status:>=500', 'user:*' (with the field), '-user:*' (without it)\n\
             - '\"connection reset\"': a text in the line\n\
             - 'instance:=web-* (status:>=500 or took:>1s) -path:=/health'\n\
             Times (`_time`) and tables cannot be conditions.",
        ),
        texts("hosts", "a list of names", 0, |table: &mut TableConfig| &mut table.hosts, host_pattern)
            .shown(|_| None)
            .example("[\"pay-*\"]")
            .live(
                "Names of hosts that forward here, with `*` for any characters: this table has what they send from now on, in place of `when`. Of several such tables, a record \
                 goes to the one that is called as its table on the host, or else to the first one. Records of other hosts go to the table without `hosts` that is called \
                 as theirs, or else to the last one. What is stored already stays where it is.",
            ),
        duration("keep", |table: &mut TableConfig| &mut table.window.keep, KEEP)
            .live("How long a day stays after its end. Then daytable drops it as a whole."),
        choice("period", |table: &mut TableConfig| &mut table.window.period, &PERIODS)
            .live("How long one day-table accepts records, in UTC."),
        KeyDraft::new("archive", "an address, or \"none\"", |table: &mut TableConfig| &mut table.archive, read_archive)
            .default("\"none\"")
            .live(
                "Where a day is archived before it is dropped; \"none\" drops it without an archive:\n\
                 - file:///var/lib/daytable/archive is a folder, preferably on another disk.\n\
                 - az://container/prefix, s3://bucket/prefix and gs://bucket/prefix are object stores, see [archives].\n\
                 daytable drops a day only after it has read the archive back and compared it. Many daytables may have one address (docs/guide/lake.md).",
            ),
        KeyDraft::by_hand(
            "keep_archives",
            "a duration longer than `keep`, or \"forever\"",
            |table: &mut TableConfig| &mut table.keep_archives,
            |section, table| {
                // A shorter duration would remove an archive while its day still stands, and the day would be archived again.
                let later = table.window.keep + Duration::from_nanos(1)..=*KEEP.end();
                let read = |text: &str| or_word("forever", text, |text| duration_within(&later, "must be longer than `keep`, and 36500d at most", text));
                table.keep_archives = section.text("keep_archives", read).flatten();
            },
        )
        .default("\"forever\"")
        .live("How long an archive is kept after the end of its day."),
        text(
            "max_bytes",
            "a size of at least \"1MiB\", or \"off\"",
            |table: &mut TableConfig| &mut table.max_bytes,
            |text| or_word("off", text, |text| size_at_least(BYTES_LEAST, text)),
        )
        .default("\"off\"")
        .live(
            "The size of the table's days in `data_dir` above which daytable drops the oldest of them before they expire. Days of a table with an `archive` \
             are archived first. A day that is not over stays. Above `max_bytes` of [lifecycle], the share of a table is in proportion to this limit; a table \
             without one counts with an equal part.",
        ),
        count("buckets", |table: &mut TableConfig| &mut table.buckets, BUCKETS_MAX)
            .live("Partitions of one instance, for an instance that writes more than one partition accepts."),
    ]
}

/// `when`: a filter of the query language. A problem has its place in the filter.
fn read_when(section: &mut Section<'_>) -> Option<Condition> {
    let source = section.source_text_or("when", "must be a filter in quotes, such as \"level:<=debug\"")?;
    match Condition::parse(source.text) {
        Ok(condition) => Some(condition),
        Err(error) => {
            section.report_within(&source, error.at().start, error);
            None
        }
    }
}

/// `archive`: an address, or "none". A problem does not quote the address, because it may hold a secret.
fn read_archive(section: &mut Section<'_>) -> Option<Option<ArchiveUrl>> {
    let source = section.source_text("archive")?;
    if source.text == "none" {
        return None;
    }
    match source.text.parse() {
        Ok(url) => Some(Some(url)),
        Err(error) => {
            section.report_within(&source, 0, format_args!("{error}, or \"none\" to drop days without one"));
            None
        }
    }
}
