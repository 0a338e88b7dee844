//! The keys that say how lines are read: `format`, `zone`, `join`, `redact`.

use super::section::{Section, Written};
use daytable_parse::redact::{PATTERNS_MAX, Redaction, Redactor};
use daytable_parse::{Explicit, FormatChoice, Join, PatternError, Reading};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The least waits for one round of the loop that reads, the most keeps a stack trace back for as long.
const JOIN_WAIT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);
/// Characters of the name of a pattern at most: it is a label of a metric.
const NAME_MAX: usize = 64;

/// Reads them all; `redact` are the patterns of the whole configuration.
pub(super) fn read(section: &mut Section<'_>, redact: &[Redaction]) -> Reading {
    let join = read_join(section.section("join", "join"));
    Reading { join, ..read_alone(section, redact) }
}

/// Reads those that concern a record whose lines are known: all but `join`.
pub(super) fn read_alone(section: &mut Section<'_>, redact: &[Redaction]) -> Reading {
    let (format, explicit) = read_format(section);
    Reading {
        format,
        explicit,
        zone: section.text("zone", str::parse).unwrap_or_default(),
        join: Join::default(),
        redactor: {
            let own = read_redact(section, redact.len());
            Redactor::new(redact.iter().cloned().chain(own))
        },
    }
}

fn read_format(section: &mut Section<'_>) -> (FormatChoice, Option<Explicit>) {
    if section.is_table("format") {
        return (FormatChoice::Auto, read_explicit(section.section("format", "format")));
    }
    let formats: Vec<_> = FormatChoice::all().map(|choice| (choice.name(), choice)).collect();
    (section.choice("format", FormatChoice::Auto, &formats), None)
}

fn read_explicit(mut section: Section<'_>) -> Option<Explicit> {
    let regex = section.written("regex");
    let grok = section.written("grok");
    let patterns = section.written_by_name("patterns");
    let explicit = match (regex, grok) {
        (Some(regex), None) => {
            if section.has("patterns") {
                section.problem("`patterns` belong to `grok`");
            }
            Explicit::regex(regex.text).map_err(|error| section.fault_within(&regex, error.at, &error)).ok()
        }
        (None, Some(grok)) => {
            let texts: BTreeMap<String, String> =
                patterns.iter().map(|pattern| (pattern.name.to_owned(), pattern.text.to_owned())).collect();
            Explicit::grok(grok.text, texts).map_err(|error| place_grok(&section, &grok, &patterns, &error)).ok()
        }
        // A value that is no text was reported already.
        _ if section.has("regex") != section.has("grok") => None,
        _ => {
            section.problem("must have one of `regex` and `grok`, for example { grok = \"%{SYSLOGLINE}\" }");
            None
        }
    };
    section.finish();
    explicit
}

/// Reports a fault in the pattern that it is in.
fn place_grok(section: &Section<'_>, grok: &Written<'_>, patterns: &[Written<'_>], error: &PatternError) {
    let of = error.of.as_ref().and_then(|name| patterns.iter().find(|pattern| pattern.name == name));
    section.fault_within(of.unwrap_or(grok), error.at, error);
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

/// The patterns that `redact` names; `before` is how many there are already.
pub(super) fn read_redact(section: &mut Section<'_>, before: usize) -> Vec<Redaction> {
    let preset = |name: &str| {
        let known: Vec<_> = Redaction::presets().map(|name| format!("{name:?}")).collect();
        Redaction::preset(name).ok_or_else(|| {
            let known = known.join(", ");
            format!("must be one of {known}, or a pattern of your own, like {{ regex = '…' }}")
        })
    };
    let mut number = before;
    let patterns = section.texts_or_tables("redact", "redact", preset, |table| {
        number += 1;
        read_pattern(table, number)
    });
    if before + patterns.len() > PATTERNS_MAX {
        section.problem(format_args!("`redact` has more than {PATTERNS_MAX} patterns"));
    }
    patterns
}

fn read_pattern(mut section: Section<'_>, number: usize) -> Option<Redaction> {
    let name = section.text("name", pattern_name).unwrap_or_else(|| format!("pattern-{number}"));
    let replace = section.text("replace", |text| Ok::<_, String>(text.to_owned()));
    let pattern = section.written("regex");
    section.require("regex", "regex = 'password=(\\S+)'");
    let made = pattern.and_then(|pattern| {
        let made = Redaction::regex(&name, pattern.text, replace.as_deref());
        made.map_err(|error| section.fault_within(&pattern, error.at, &error)).ok()
    });
    section.finish();
    made
}

fn pattern_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !(1..=NAME_MAX).contains(&text.len()) || !text.chars().all(plain) {
        return Err(format!("a name has 1 to {NAME_MAX} letters, digits, \"-\", \"_\" and \".\""));
    }
    if Redaction::presets().any(|preset| preset == text) {
        return Err("is the name of a preset".into());
    }
    Ok(text.into())
}
