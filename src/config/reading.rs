//! The keys of a `[[tail]]` block that say how its lines are read: `format`, `join`.

use super::section::Section;
use crate::parse::{FormatChoice, Join, Reading};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The least waits for one round of the loop that reads, the most keeps a stack trace back for as long.
const JOIN_WAIT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// Reads them all.
pub(super) fn read(section: &mut Section<'_>) -> Reading {
    let formats: Vec<_> = FormatChoice::all().map(|choice| (choice.name(), choice)).collect();
    Reading {
        format: section.choice("format", FormatChoice::Auto, &formats),
        join: read_join(section.section("join", "join")),
        ..Reading::default()
    }
}

fn read_join(mut section: Section<'_>) -> Join {
    let default = Join::default();
    let join = Join {
        lines_max: section.count("lines_max", default.lines_max, u16::MAX),
        wait: section.duration("wait", default.wait, JOIN_WAIT),
    };
    section.finish();
    join
}
