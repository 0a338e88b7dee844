//! Turns the text of a log into records: a JSON object, pairs, a line with a header, or plain text.
//!
//! # Contract
//!
//! * Parsing cannot fail and does not panic. Time is linear in the text, and the stack is bounded.
//! * A text that no format fits is [`Format::Plain`]: the whole text is the message.
//! * Every part of the text becomes the time, the level or a field, or stays in the message as it was written. A time
//!   is kept to 100 ns and in UTC, a level without its spelling; a JSON null is dropped.
//!
//! # How the format is found
//!
//! The first bytes of a text leave one or two formats; the parser never tries all of them. `{` begins an object, `<` a
//! syslog priority, `key=` logfmt. A digit, a bracket or a name begins a format with a grammar of its own
//! (`structured`) or a header. `layout` reads headers by the shapes of their words.
//!
//! The parser remembers for each source what its recent records were ([`SourceProfile`]). Among formats with the same
//! first bytes, the usual format is tried first. The profile also answers three questions that one line cannot. Does a
//! line without a header continue the record before it? Is a word before a colon a component? Which names do the
//! columns of a table have?
//!
//! # Modules, in the order the data takes
//!
//! * `lines`, `join`: bytes become lines, and lines become records (`raw_record`), as `source_profile` decides.
//!   `records` does this for a reader.
//! * `envelope`: removes what a container runtime writes around a line.
//! * `source_profile`: finds the format of a record. `format`: the names of the formats.
//! * `json`, `logfmt`: objects and pairs. `json::fast` reads most JSON in one pass, with the names in `key_cache`.
//!   `pairs`: the syntax of `key=value`.
//! * `structured`: formats with a grammar of their own, a file each, written with `line_scanner` (or `csv_fields` for CSV).
//! * `layout`: lines written for people: general rules for time, level and component; syslog, klog and others.
//! * `explicit`: patterns from the configuration.
//! * `names`: the names that mean time, level, message, component, process or host. `level_names`: the values that mean a
//!   level.
//! * `calendar`: the year and the day that times leave out, and what comes first in their dates, from the time and the
//!   order of a file.
//! * `time_fields`: which field is the time, where no name is known.
//! * `time_doubt`: what looks like a time, where no record has one.
//! * `builder`: builds a record from names and values. `clef`: renders the message of a Serilog event.
//! * `timestamp`: the forms of timestamps. `zone` in it: the time zone of a source.
//! * `scan`: finds the end of a short piece of a line. `field_pool`: memory of the record before.
//! * `compose`: builds a record from the fields of a protocol.
//! * [`redact`]: replaces secrets before a record leaves this crate.
//! * `line_templates`: the original text of a record, as a layout that the record's parts fill.
//! * `explain`: shows which bytes became which part of a record.
//!
//! # To add a log format
//!
//! `redis.rs` is the smallest example. A new format touches these files:
//!
//! 1. `src/NAME.rs`: the line drawn in the module head, a function `record` that returns `None` for any other line, and
//!    its tests. Add `mod NAME;` to this file.
//! 2. `src/format.rs`: the variant of [`Format`], its entry in `Format::ALL` (with the array's length) and its label.
//!    Metrics and the configuration take the name from there.
//! 3. `src/structured.rs`: an arm of `read`, and the first bytes of a line in `recognise`. Once the
//!    format is usual, a line joins the record before it unless `layout::timed_format` finds a time in its header. Add
//!    an arm to `begins` if the format has its time elsewhere. `goes_on` and `may_continue` decide before `layout`, too;
//!    `SourceProfile::may_continue` lists formats that always have one line. Add a row to the table test.
//! 4. `tests/golden/LABEL/`: a case is a log, `CASE.log`, and the output of `daytable parse` for it,
//!    `CASE.expected.ndjson`. A case has at least three records, one of them after a record of several lines.
//!    `near_miss*.log` has lines of another format that look similar.
//! 5. `docs/reference/log-formats.md`: a row of the table. `just docs` writes the label into `config/daytable.toml` and
//!    `docs/reference/configuration.md`.
//! 6. `benches/parse.rs`: a row with the golden log.
//!
//! A layout for people (a header with a time, then text) goes to `src/layout` instead of step 3: `layout/mod.rs`
//! chooses it, and `is_layout` lists it.

pub mod redact;
mod access;
mod apache_error;
mod builder;
mod calendar;
mod csv_fields;
mod clef;
mod compose;
mod csv;
mod line_scanner;
mod envelope;
mod explain;
mod explicit;
mod format;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod golden_traces;
mod haproxy;
mod join;
mod json;
mod key_cache;
mod layout;
mod lines;
mod logfmt;
mod ltsv;
mod mysql;
mod names;
mod nginx_error;
mod pairs;
mod postgresql;
mod postgresql_csv;
mod raw_record;
mod records;
mod redis;
mod level_names;
mod scan;
mod source_profile;
mod field_pool;
mod structured;
mod time_doubt;
mod time_fields;
mod timestamp;
mod w3c;
mod line_templates;

pub use compose::{ProtocolFields, compose, level_of_severity};
pub use envelope::{Envelope, OutputStream, Unwrapped};
pub use explain::{ExplainedPart, explain};
pub(crate) use explicit::compile_part;
pub use explicit::{Explicit, LinePatternError};
pub use field_pool::reuse;
pub use format::{Format, FormatChoice, UnknownFormat};
pub use join::{Assembler, Ending, cut_record};
pub use json::rest::{ObjectRest, RestScanner};
pub use layout::facility_name;
pub use level_names::syslog as syslog_level;
pub use lines::LineCut;
pub use names::kept_name;
pub use raw_record::RawRecord;
pub use records::Records;
pub use source_profile::{FormatError, Join, ParseOptions, SourceProfile};
pub use timestamp::zone::{UnknownZone, Zone, host_zone, host_zone_doubt};
pub use timestamp::{DateOrder, TimestampDefaults};

use daytable_model::record::Record;
use daytable_model::time::{self, Ticks};
use std::borrow::Cow;
use std::num::NonZeroU32;
use std::ops::Range;

/// The time of a text that is nothing but a complete timestamp, as RFC 3339 has it.
pub fn rfc3339(text: &str) -> Option<Ticks> {
    timestamp::leading(text).and_then(|(time, length)| (length == text.len()).then_some(time))
}

/// A record, and the format that was recognised.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed<'a> {
    /// The record.
    pub record: Record<'a>,
    /// The recognised format: one that the choice allows, or plain.
    pub format: Format,
    /// The bytes of the time in the text. Only the layouts for people report them.
    pub time_at: Option<PartPlace>,
    /// The bytes of the level, likewise.
    pub level_at: Option<PartPlace>,
}

/// The bytes of a part in its text, in little memory: records are moved often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartPlace {
    start: u32,
    length: NonZeroU32,
}

impl PartPlace {
    /// `None` for no bytes, and for bytes beyond 4 GiB.
    #[inline]
    pub(crate) fn of(bytes: Range<usize>) -> Option<PartPlace> {
        let start = u32::try_from(bytes.start).ok()?;
        let end = u32::try_from(bytes.end).ok()?;
        Some(PartPlace { start, length: NonZeroU32::new(end.checked_sub(start)?)? })
    }

    /// The bytes.
    #[inline]
    pub fn bytes(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.length.get() as usize
    }
}

impl<'a> Parsed<'a> {
    /// A record without the places of its parts.
    pub fn of(record: Record<'a>, format: Format) -> Parsed<'a> {
        Parsed { record, format, time_at: None, level_at: None }
    }

    /// A text of no known format: the whole text is the message.
    pub(crate) fn plain(text: &'a str) -> Parsed<'a> {
        Parsed::of(Record { message: Cow::Borrowed(text), ..Record::default() }, Format::Plain)
    }
}

/// Parses one line by itself, as [`SourceProfile::record`] parses the first line of a source. The line comes without
/// its newline and without a carriage return before it. A time without a zone is read in UTC.
pub fn parse(line: &str, choice: FormatChoice) -> Parsed<'_> {
    SourceProfile::default().chosen(
        choice,
        line,
        TimestampDefaults { seen: time::now(), ..TimestampDefaults::default() },
        Default::default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_bytes_decide_the_format() {
        for (line, format) in [
            ("", Format::Plain),
            ("just words", Format::Plain),
            ("   ", Format::Plain),
            ("=", Format::Plain),
            ("{}", Format::Json),
            ("  {\"a\":1} ", Format::Json),
            ("{\"a\":1", Format::Plain),
            ("a=1 b=2", Format::Logfmt),
            ("a=1", Format::Plain),
            (" a=1 b=2", Format::Plain),
            ("@t=1 _b=2", Format::Logfmt),
            ("2026-11-20T00:05:45Z INFO up", Format::Text),
            ("[2026-11-20 00:05:45] up", Format::Text),
            ("2026-13-20T00:05:45Z INFO up", Format::Plain),
            ("0000-01-01T00:00:00Z INFO up", Format::Plain),
            ("<34>Oct 11 22:14:15 host su[7]: failed", Format::Syslog),
            ("<999>words", Format::Plain),
        ] {
            assert_eq!(parse(line, FormatChoice::Auto).format, format, "{line:?}");
        }
    }

    #[test]
    fn a_fixed_format_accepts_no_other_format() {
        let lines = ["{\"a\":1}", "a=1 b=2", "2026-11-20T00:05:45Z INFO up", "words"];
        for choice in [Format::Json, Format::Logfmt, Format::Text, Format::Plain].map(FormatChoice::Only) {
            for line in lines {
                let parsed = parse(line, choice);
                let auto = parse(line, FormatChoice::Auto);
                let expected = if auto.format.label() == choice.name() { auto.format } else { Format::Plain };
                assert_eq!(parsed.format, expected, "{line:?} as {choice:?}");
            }
        }
    }

    /// Text that resembles each format, so that the properties reach past the first byte.
    fn near_misses() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("2026-11-20T00:05:45.607815Z".to_owned()),
            "[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{0,12})?)?(Z|[+-][0-9:]{0,5}| UTC)?",
            "(\\[)?(INFO|warn|Error|D)(\\])?:?",
            "[a-z.@_]{1,6}=[^ ]{0,6}",
            "[a-z]{1,4}=\"[a-z \\\\\"]{0,8}\"?",
            "\\{\"[a-z.@]{0,5}\":(\"[^\"]{0,8}\"|-?[0-9]{1,25}(\\.[0-9]{1,5})?|null|true|\\[[0-9]?\\]|\\{)",
            "[\\]}{\\[,:\" =\\\\]{1,3}",
            Just(" ".to_owned()),
            "\\PC{0,4}",
        ];
        proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    fn check(line: &str) -> Result<(), TestCaseError> {
        for choice in FormatChoice::all() {
            let parsed = parse(line, choice);
            if parsed.format == Format::Plain {
                let plain = Record { message: line.into(), ..Record::default() };
                prop_assert_eq!(&parsed.record, &plain);
            }
            // The line inside an envelope may have any format.
            let is_open = [FormatChoice::Auto, FormatChoice::Only(Format::Cri), FormatChoice::Only(Format::Docker)];
            if !is_open.contains(&choice) && parsed.format != Format::Plain {
                prop_assert_eq!(parsed.format.label(), choice.name());
            }
        }
        Ok(())
    }

    proptest! {
        /// Every line gives a record, and a plain record is the line itself.
        #[test]
        fn any_text_gives_a_record(line in ".*") {
            check(&line)?;
        }

        /// Any sequence of characters gives a record, with newlines and NULs.
        #[test]
        fn any_characters_give_a_record(characters in proptest::collection::vec(any::<char>(), 0..64)) {
            check(&characters.into_iter().collect::<String>())?;
        }

        /// A near miss of a format gives a record.
        #[test]
        fn near_misses_give_a_record(line in near_misses()) {
            check(&line)?;
        }
    }
}
