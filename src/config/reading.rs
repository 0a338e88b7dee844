//! The keys for parsing lines: `format`, `zone`, `join`, `redact`.

use super::key::{self, ConfigKey, KeyDoc, KeyDraft, SectionDoc, SectionPlace, count, duration};
use super::section::{Section, SourceText, quoted_words};
use super::values::name;
use daytable_parse::redact::{PATTERNS_MAX, Redaction, Redactor};
use daytable_parse::{Explicit, FormatChoice, Join, LinePatternError, ParseOptions};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The minimum is one round of the reading loop. The maximum delays a stack trace by as much.
const JOIN_WAIT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// All of them.
pub(super) fn keys<T: 'static>(reading: impl Fn(&mut T) -> &mut ParseOptions + Copy + 'static) -> Vec<ConfigKey<T>> {
    let join = key::table("join", move |options: &mut T| &mut reading(options).join, join_keys, |_, _| ()).live(
        "How daytable joins lines to one record, as in a stack trace: how many lines, and how long a record waits for the next line. A line \
         without a time or level of its own, and any line after 32 records of one line each, waits an eighth of that. Formats with one record per line, like \"json\", do not wait.",
    );
    vec![format(reading), zone(reading), join, redact(reading)]
}

pub(super) fn format<T: 'static>(reading: impl Fn(&mut T) -> &mut ParseOptions + Copy + 'static) -> ConfigKey<T> {
    let read = move |section: &mut Section<'_>, options: &mut T| {
        let reading = reading(options);
        (reading.format, reading.explicit) = read_format(section);
    };
    let differs = move |before: &mut T, now: &mut T| {
        let (before, now) = (reading(before), reading(now));
        (before.format, &before.explicit) != (now.format, &now.explicit)
    };
    let keep = move |before: &mut T, now: &mut T| {
        let (before, now) = (reading(before), reading(now));
        (now.format, now.explicit) = (before.format, before.explicit.clone());
    };
    KeyDraft::of("format", format!("{}, or a table", quoted_words(&formats())), read, differs, keep)
        .default("\"auto\"")
        .live(
            "The format of a line. \"auto\" recognizes it. \"text\" is TIMESTAMP LEVEL text. With \"plain\" the whole line is the message, and the time is that of arrival. \
             A table gives a pattern instead:\n\
             - { regex = '(?P<time>\\S+ \\S+) (?P<level>\\w+) (?P<message>.*)' }\n\
             - { grok = '%{SYSLOGBASE} %{JOB:job}: %{GREEDYDATA:message}', patterns = { JOB = '[a-z]+-%{INT}' } }\n\
             The pattern has to match the whole first line of a record; a line without a match continues the record before. \
             The groups time, level, message, component, pid and host have these meanings; every other group is a field.",
        )
}

pub(super) fn zone<T: 'static>(reading: impl Fn(&mut T) -> &mut ParseOptions + Copy + 'static) -> ConfigKey<T> {
    key::text("zone", "a time zone", move |options: &mut T| &mut reading(options).zone, str::parse)
        .default("\"local\"")
        .live(
            "The zone of times without one: \"local\", \"UTC\", an offset like \"+02:00\", or a name like \"Europe/Paris\". \"local\" is the zone of this host: \
             that of the variable TZ, or of /etc/localtime, or UTC. A container without both has UTC. The daemon logs its local zone at its start.",
        )
}

/// The patterns of a block. They add to those of the whole file, with which the block begins.
pub(super) fn redact<T: 'static>(reading: impl Fn(&mut T) -> &mut ParseOptions + Copy + 'static) -> ConfigKey<T> {
    let read = move |section: &mut Section<'_>, options: &mut T| {
        let redactor = &mut reading(options).redactor;
        let mut patterns = redactor.as_ref().map(|redactor| redactor.patterns().to_vec()).unwrap_or_default();
        patterns.extend(read_redact(section, patterns.len()));
        *redactor = Redactor::new(patterns);
    };
    KeyDraft::by_hand(
        "redact",
        "a list of texts and tables",
        move |options: &mut T| &mut reading(options).redactor,
        read,
    )
    .default("[]")
    .live("Secrets to replace in these records, in addition to the `redact` at the top of the file.")
}

fn join_keys() -> Vec<ConfigKey<Join>> {
    vec![
        count("lines_max", |join: &mut Join| &mut join.lines_max, u16::MAX)
            .live("Lines of one record. With 1, daytable joins no lines. In bytes, `line_bytes_max` is the limit."),
        duration("wait", |join: &mut Join| &mut join.wait, JOIN_WAIT)
            .live("How long a record waits for its next line. An eighth of it after 32 records of one line each."),
    ]
}

/// The tables within these keys.
pub(super) const DOCS: [fn() -> SectionDoc; 3] = [format_doc, join_doc, redact_doc];

fn by_hand(name: &'static str, within: &'static str, keys: Vec<KeyDoc>) -> SectionDoc {
    SectionDoc { name, within, about: "", place: SectionPlace::Inline, before: "", after: "", keys }
}

fn format_doc() -> SectionDoc {
    let patterns = "Patterns for use in `grok`, by their names.";
    let keys = vec![
        KeyDoc::new("regex", "a regular expression", "A regular expression with named groups."),
        KeyDoc::new("grok", "a grok pattern", "A grok pattern. A `format` has either `regex` or `grok`."),
        KeyDoc::new("patterns", "texts by their names, { NAME = \"…\" }", patterns),
    ];
    by_hand("format", "`[[tail]]` and `[[journal]]`, as a table", keys)
}

fn join_doc() -> SectionDoc {
    SectionDoc {
        within: "`[[tail]]`",
        ..SectionDoc::new("join", SectionPlace::Inline, join_keys(), &mut Join::default())
    }
}

fn redact_doc() -> SectionDoc {
    let name = "The name of the pattern, which the metric daytable_redactions_total has as a label.";
    let regex = "The secret. With a group, daytable replaces only the match of the first group.";
    let keys = vec![
        KeyDoc::new("name", "letters, digits, \"-\", \"_\" and \".\"", name),
        KeyDoc::new("regex", "a regular expression", regex),
        KeyDoc::new("replace", "a text", "The replacement. The default is \"[redacted NAME]\"."),
    ];
    by_hand("redact", "all sections that have it, as a table of the list", keys)
}

fn formats() -> Vec<(&'static str, FormatChoice)> {
    FormatChoice::all().map(|choice| (choice.name(), choice)).collect()
}

fn read_format(section: &mut Section<'_>) -> (FormatChoice, Option<Explicit>) {
    if section.is_table("format") {
        return (FormatChoice::Auto, read_explicit(section.section("format", "format")));
    }
    (section.choice("format", &formats()).unwrap_or_default(), None)
}

fn read_explicit(mut section: Section<'_>) -> Option<Explicit> {
    let regex = section.source_text("regex");
    let grok = section.source_text("grok");
    let patterns = section.source_texts("patterns");
    let explicit = match (regex, grok) {
        (Some(regex), None) => {
            if section.has("patterns") {
                section.problem("`patterns` belong to `grok`");
            }
            Explicit::regex(regex.text).map_err(|error| section.report_within(&regex, error.at, &error)).ok()
        }
        (None, Some(grok)) => {
            let texts: BTreeMap<String, String> =
                patterns.iter().map(|pattern| (pattern.name.to_owned(), pattern.text.to_owned())).collect();
            Explicit::grok(grok.text, texts).map_err(|error| report_grok(&section, &grok, &patterns, &error)).ok()
        }
        // A value of another type was reported already.
        _ if section.has("regex") != section.has("grok") => None,
        _ => {
            section.problem("must have one of `regex` and `grok`, for example { grok = \"%{SYSLOGLINE}\" }");
            None
        }
    };
    section.finish();
    explicit
}

/// Reports an error at its place in the pattern that has it.
fn report_grok(section: &Section<'_>, grok: &SourceText<'_>, patterns: &[SourceText<'_>], error: &LinePatternError) {
    let pattern = error.of.as_ref().and_then(|name| patterns.iter().find(|pattern| pattern.name == name));
    section.report_within(pattern.unwrap_or(grok), error.at, error);
}

/// The patterns of `redact`. There are `before` patterns already.
pub(super) fn read_redact(section: &mut Section<'_>, before: usize) -> Vec<Redaction> {
    let preset = |name: &str| {
        Redaction::preset(name).ok_or_else(|| {
            let presets: Vec<_> = Redaction::presets().map(|name| format!("{name:?}")).collect();
            format!("must be one of {}, or a pattern of your own, like {{ regex = '…' }}", presets.join(", "))
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
    let pattern = section.source_text("regex");
    section.require("regex", "regex = 'password=(\\S+)'");
    let redaction = pattern.and_then(|pattern| {
        let redaction = Redaction::regex(&name, pattern.text, replace.as_deref());
        redaction.map_err(|error| section.report_within(&pattern, error.at, &error)).ok()
    });
    section.finish();
    redaction
}

fn pattern_name(text: &str) -> Result<String, String> {
    if Redaction::presets().any(|preset| preset == text) { Err("is the name of a preset".into()) } else { name(text) }
}
