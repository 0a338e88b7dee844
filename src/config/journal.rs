//! `[[journal]]`: the journal of systemd.

use super::section::{Report, Section};
use super::tail::block_name;
use super::template::InstanceTemplate;
use super::units::ByteSize;
use super::{ReadFrom, absolute, reading};
use crate::parse::Reading;
use crate::record::Level;
use crate::redact::Redaction;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// A journal, which of its entries are read, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// Its name among the metrics; no other block has it.
    pub name: String,
    /// The folder of its files; none is this host's journal.
    pub directory: Option<PathBuf>,
    /// The units whose entries are read, as `journalctl --unit=` takes them; none reads all.
    pub units: Vec<String>,
    /// The least severe level that is read; none reads all, entries without a priority as well.
    pub level_at_least: Option<Level>,
    /// Where to begin at the first start.
    pub read_from: ReadFrom,
    /// How the instance of a record is named.
    pub instance: InstanceTemplate,
    /// How messages are read. Entries are never joined.
    pub reading: Reading,
    /// A longer entry is kept up to here and marked.
    pub entry_bytes_max: ByteSize,
}

const ENTRY_BYTES: RangeInclusive<ByteSize> = ByteSize::new(1 << 10)..=ByteSize::new(2 << 20);
/// Bytes of a unit's name at most; systemd has 255.
const UNIT_BYTES_MAX: usize = 255;

impl Default for JournalConfig {
    fn default() -> JournalConfig {
        JournalConfig {
            name: "journal".into(),
            directory: None,
            units: Vec::new(),
            level_at_least: None,
            read_from: ReadFrom::Beginning,
            instance: InstanceTemplate::of_field("host"),
            reading: Reading::default(),
            entry_bytes_max: ByteSize::new(1 << 20),
        }
    }
}

impl JournalConfig {
    /// All of them. One without a name is called `journal`, the next such one `journal-2`; `names` are taken already, and
    /// `redact` are the patterns of the whole configuration.
    pub(super) fn read_all(
        sections: Vec<Section<'_>>,
        report: &Report<'_>,
        redact: &[Redaction],
        names: &[&str],
    ) -> Vec<JournalConfig> {
        let mut blocks: Vec<JournalConfig> = Vec::new();
        let mut unnamed = 0;
        for section in sections {
            let at = section.at();
            let mut next_name = || {
                unnamed += 1;
                if unnamed == 1 { "journal".into() } else { format!("journal-{unnamed}") }
            };
            let block = JournalConfig::read(section, &mut next_name, redact);
            let mut taken = blocks.iter().map(|other| other.name.as_str()).chain(names.iter().copied());
            if taken.any(|name| name == block.name) {
                report.add(at, format!("[[journal]]: two blocks are called {:?}; give this one a name", block.name));
            }
            blocks.push(block);
        }
        blocks
    }

    fn read(mut section: Section<'_>, next_name: &mut dyn FnMut() -> String, redact: &[Redaction]) -> JournalConfig {
        let default = JournalConfig::default();
        let config = JournalConfig {
            name: section.text("name", block_name).unwrap_or_else(next_name),
            directory: section.text("directory", absolute),
            units: section.texts("units", 0, unit).unwrap_or_default(),
            level_at_least: section.text("level_at_least", level).flatten(),
            read_from: section.choice(
                "read_from",
                default.read_from,
                &[("beginning", ReadFrom::Beginning), ("end", ReadFrom::End)],
            ),
            instance: section.text("instance", str::parse).unwrap_or(default.instance),
            reading: reading::read_alone(&mut section, redact),
            entry_bytes_max: section.size("entry_bytes_max", default.entry_bytes_max, ENTRY_BYTES),
        };
        section.finish();
        config
    }
}

/// A unit, or a pattern of units. It becomes an argument of a program, so it may be none of its options.
fn unit(text: &str) -> Result<String, &'static str> {
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace();
    let fits = (1..=UNIT_BYTES_MAX).contains(&text.len()) && text.chars().all(is_plain);
    if fits {
        Ok(text.into())
    } else {
        Err("must be a unit, like \"nginx.service\", or a pattern of units, like \"app@*\"")
    }
}

fn level(text: &str) -> Result<Option<Level>, &'static str> {
    match text {
        "off" => Ok(None),
        _ => Level::ALL
            .into_iter()
            .find(|level| level.name() == text && *level != Level::Trace)
            .map(Some)
            .ok_or("must be one of \"debug\", \"info\", \"notice\", \"warn\", \"error\", \"critical\", \"alert\", \"fatal\", or \"off\""),
    }
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
