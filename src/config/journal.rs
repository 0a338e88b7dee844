//! `[[journal]]`: the journal of systemd.

use super::key::{ConfigKey, choice, optional_text, size, text, texts};
use super::reading;
use super::sources::{BlockSummary, READ_FROM, SourceBlock};
use super::values::{absolute, or_word};
use daytable_intake::journal::JournalOptions;
use daytable_model::record::Level;
use daytable_model::units::ByteSize;
use daytable_parse::ParseOptions;
use std::ops::RangeInclusive;

const ENTRY_BYTES: RangeInclusive<ByteSize> = ByteSize::new(1 << 10)..=ByteSize::new(2 << 20);
/// Bytes of the name of a unit; the limit of systemd.
const UNIT_BYTES_MAX: usize = 255;

impl SourceBlock for JournalOptions {
    const HEADER: &'static str = "[[journal]]";
    const ABOUT: &'static str = "Journals of systemd, read through `journalctl`. Entries keep their fields. There can be any number of these blocks. With `format = \"auto\"`, \
                daytable parses the output of services and containers, and JSON objects; a message that a program passed to the journal is a record already. On a host without a journal, remove the block.";
    const IS_IN_SAMPLE: bool = true;

    fn new(name: &str, reading: ParseOptions) -> JournalOptions {
        JournalOptions { name: name.into(), reading, ..JournalOptions::default() }
    }

    fn keys() -> Vec<ConfigKey<JournalOptions>> {
        let levels =
            "\"debug\", \"info\", \"notice\", \"warn\", \"error\", \"critical\", \"alert\", \"fatal\", or \"off\"";
        vec![
            optional_text("directory", "an absolute path", |journal: &mut JournalOptions| &mut journal.directory, absolute)
                .example("\"/var/log/journal/remote\"")
                .live("The folder with the files of the journal. The default is the journal of this host."),
            texts("units", "a list of units", 0, |journal: &mut JournalOptions| &mut journal.units, unit).live(
                "The units to read, as names or patterns for `journalctl --unit=`. An empty list reads all entries, including those of the kernel and those without a unit.",
            ),
            text("level_at_least", levels, |journal: &mut JournalOptions| &mut journal.level_at_least, level)
                .default("\"off\"")
                .live("The least severe level to read. \"off\" reads all entries, including those without a priority."),
            choice("read_from", |journal: &mut JournalOptions| &mut journal.read_from, &READ_FROM)
                .live("Where daytable begins at its first start. Later it continues at its last position."),
            text("instance", "a template", |journal: &mut JournalOptions| &mut journal.instance, str::parse)
                .default("\"{field:host}\"")
                .live(
                    "The *instance* of the records, which decides their partition. {field:NAME} is a field of the record (or this host, where the record has no such \
                     field), {host} this host. Text may stand between them.",
                ),
            reading::format(|journal: &mut JournalOptions| &mut journal.reading),
            reading::zone(|journal: &mut JournalOptions| &mut journal.reading),
            reading::redact(|journal: &mut JournalOptions| &mut journal.reading),
            size("entry_bytes_max", |journal: &mut JournalOptions| &mut journal.entry_bytes_max, ENTRY_BYTES)
                .live("Bytes of an entry. daytable cuts a longer entry here, marks the record, and counts it."),
        ]
    }

    fn summary(&self) -> BlockSummary<'_> {
        BlockSummary { header: Self::HEADER, name: &self.name, reading: &self.reading, tls: None }
    }
}

/// A unit or a pattern of units. It becomes an argument of `journalctl`, so it must not look like an option.
fn unit(text: &str) -> Result<String, &'static str> {
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace();
    let fits = (1..=UNIT_BYTES_MAX).contains(&text.len()) && text.chars().all(is_plain);
    if fits {
        Ok(text.into())
    } else {
        Err("must be a unit, like \"nginx.service\", or a pattern of units, like \"app@*\"")
    }
}

fn level(text: &str) -> Result<Option<Level>, String> {
    or_word("off", text, |text| {
        let level = Level::ALL.into_iter().find(|level| level.name() == text && *level != Level::Trace);
        level.ok_or(
            "must be one of \"debug\", \"info\", \"notice\", \"warn\", \"error\", \"critical\", \"alert\", \"fatal\"",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_levels() {
        assert_eq!(unit("nginx.service").as_deref(), Ok("nginx.service"));
        for text in ["", "a b", "a\n", &"a".repeat(256)] {
            assert!(unit(text).is_err(), "{text:?}");
        }
        assert_eq!((level("warn"), level("off")), (Ok(Some(Level::Warn)), Ok(None)));
        for text in ["trace", "WARN", "warning", ""] {
            assert!(level(text).is_err(), "{text:?}");
        }
    }
}
