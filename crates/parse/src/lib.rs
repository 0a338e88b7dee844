//! What is written in a log becomes records: an object, pairs, a line with a header in any of many layouts, or plain text.
//!
//! The contract: reading cannot fail and does not panic; it takes time linear in the text and a bounded stack. What is
//! not understood is [`Format::Plain`]: all of it is the message. Nothing is lost: what is not taken out as time, level or
//! field stays in the message as it was written. What *is* taken out is kept by its meaning: a time to 100 ns and in UTC,
//! a level without its spelling, a JSON null not at all.
//!
//! No text is tried with all parsers. Its first bytes leave one or two of them, and what most records of the source were
//! lately ([`SourceProfile`]) comes before what else begins so: `{` can only be an object, `<` a priority, `key=` logfmt; behind
//! a digit, a bracket or a name comes one of the formats with a grammar of their own (`structured`), or else a header that is
//! read by the shapes of its words (`layout`), whoever wrote it. What was learnt decides nothing that a line says by
//! itself, but for what one line cannot say: whether a line without a header goes on with the one before, whether a word
//! before a colon is a component, what the columns of a table are called.
//!
//! * `names`: which names mean time, level, message, component, process and host; `scales`: what values mean as levels;
//!   `builder`: a record in the making, and what becomes of a second candidate.
//! * `timestamp`: times in the forms that logs have; `zone`: that of a source whose times name none.
//! * `pairs`: `key=value` as logfmt and the end of a text line write it.
//! * `scan`: where a short piece of a line ends.
//! * `json`, `logfmt`: objects and pairs; `json::fast`: the fast way through most JSON, by names that are `key_cache`.
//! * `layout`: what was written for people; times, levels and components by general rules, syslog, klog and others.
//! * `structured`: the formats with a grammar of their own, a file each, written with `cut`; `envelope`: what a container
//!   runtime puts around a line.
//! * `compose`: names and values that a protocol tells apart by itself.
//! * [`redact`]: secrets are replaced before a record goes on.
//! * `lines`, `join`: bytes become lines, and lines records; `source_profile` is asked which. `records`: those of a reader.

pub mod redact;
mod access;
mod apache_error;
mod cells;
mod clef;
mod compose;
mod csv;
mod cut;
mod builder;
mod envelope;
mod explain;
mod explicit;
mod key_cache;
mod format;
mod join;
mod json;
mod layout;
mod source_profile;
mod lines;
mod logfmt;
mod mysql;
mod names;
mod nginx_error;
mod pairs;
mod postgresql;
mod postgresql_csv;
mod records;
mod redis;
mod scales;
mod scan;
mod structured;
mod timestamp;
mod w3c;

pub use compose::{ProtocolFields, compose, level_of_severity};
pub use envelope::{Envelope, OutputStream, Unwrapped};
pub use explain::{ExplainedPart, explain};
pub(crate) use explicit::compile_part;
pub use explicit::{Explicit, LinePatternError};
pub use format::{Format, FormatChoice, UnknownFormat};
pub use join::{Assembler, Ending, RawRecord, cut_record};
pub use layout::facility_name;
pub use records::Records;
pub use scales::syslog as syslog_level;
pub use source_profile::{FormatError, Join, ParseOptions, SourceProfile};
pub use timestamp::TimestampDefaults;
pub use timestamp::zone::{UnknownZone, Zone};

use daytable_model::record::Record;
use daytable_model::time;
use std::borrow::Cow;
use std::ops::Range;

/// A record, and the format it was recognised as.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed<'a> {
    /// What the text says.
    pub record: Record<'a>,
    /// What it was recognised as; never more than the choice allows, and plain where that does not fit.
    pub format: Format,
    /// Where the time stood in the text, in bytes, where that is known: in layouts that people read.
    pub time_at: Option<Range<u32>>,
    /// Where the level stood.
    pub level_at: Option<Range<u32>>,
}

impl<'a> Parsed<'a> {
    /// A record whose parts are not told the places of.
    pub fn of(record: Record<'a>, format: Format) -> Parsed<'a> {
        Parsed { record, format, time_at: None, level_at: None }
    }

    /// A text that was not understood: all of it is the message.
    pub(crate) fn plain(text: &'a str) -> Parsed<'a> {
        Parsed::of(Record { message: Cow::Borrowed(text), ..Record::default() }, Format::Plain)
    }
}

/// Reads a line by itself, given without its newline and without a carriage return before that: as [`SourceProfile::record`]
/// reads the first one of a source.
pub fn parse(line: &str, choice: FormatChoice) -> Parsed<'_> {
    SourceProfile::default().chosen(choice, line, TimestampDefaults { zone: Zone::default(), seen: time::now() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_known_by_its_looks() {
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
    fn a_fixed_format_takes_no_other() {
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

    /// Text that comes close to each format, so that properties reach past the first byte.
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
            // What a container runtime's line has in it may be anything.
            let is_open = [FormatChoice::Auto, FormatChoice::Only(Format::Cri), FormatChoice::Only(Format::Docker)];
            if !is_open.contains(&choice) && parsed.format != Format::Plain {
                prop_assert_eq!(parsed.format.label(), choice.name());
            }
        }
        Ok(())
    }

    proptest! {
        /// Any line of text gives a record, and a plain one is the line itself and nothing else.
        #[test]
        fn any_text_gives_a_record(line in ".*") {
            check(&line)?;
        }

        /// So does any sequence of characters, newlines and NULs among them.
        #[test]
        fn any_characters_give_a_record(characters in proptest::collection::vec(any::<char>(), 0..64)) {
            check(&characters.into_iter().collect::<String>())?;
        }

        /// So does what almost is one of the formats.
        #[test]
        fn near_misses_give_a_record(line in near_misses()) {
            check(&line)?;
        }
    }
}
