//! `[[journal]]`: the journal of systemd.

use super::section::{Report, Section};
use super::tail::block_name;
use super::{absolute, reading};
use daytable_intake::journal::JournalOptions;
use daytable_intake::source::ReadFrom;
use daytable_model::record::Level;
use daytable_model::units::ByteSize;
use daytable_parse::redact::Redaction;
use std::ops::RangeInclusive;

const ENTRY_BYTES: RangeInclusive<ByteSize> = ByteSize::new(1 << 10)..=ByteSize::new(2 << 20);
/// Bytes of a unit's name at most; systemd has 255.
const UNIT_BYTES_MAX: usize = 255;

/// All of them. One without a name is called `journal`, the next such one `journal-2`; `names` are taken already, and
/// `redact` are the patterns of the whole configuration.
pub(super) fn read_all(
    sections: Vec<Section<'_>>,
    report: &Report<'_>,
    redact: &[Redaction],
    names: &[&str],
) -> Vec<JournalOptions> {
    let mut blocks: Vec<JournalOptions> = Vec::new();
    let mut unnamed = 0;
    for section in sections {
        let at = section.at();
        let mut next_name = || {
            unnamed += 1;
            if unnamed == 1 { "journal".into() } else { format!("journal-{unnamed}") }
        };
        let block = read(section, &mut next_name, redact);
        let mut taken = blocks.iter().map(|other| other.name.as_str()).chain(names.iter().copied());
        if taken.any(|name| name == block.name) {
            report.add(at, format!("[[journal]]: two blocks are called {:?}; give this one a name", block.name));
        }
        blocks.push(block);
    }
    blocks
}

fn read(mut section: Section<'_>, next_name: &mut dyn FnMut() -> String, redact: &[Redaction]) -> JournalOptions {
    let default = JournalOptions::default();
    let config = JournalOptions {
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
