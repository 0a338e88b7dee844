//! What was learnt of one source: the format of its lines first. It travels with the source's position, so that reading
//! goes on after a restart as it would have gone on without one.
//!
//! Four questions are asked in turn. What did the program itself write of this line ([`Learned::unwrap`]: a container
//! runtime puts a time and a stream before it)? Does that begin a record, or go on with the one before
//! ([`Learned::begins`])? If it begins one, may others go on with it ([`Learned::may_continue`])? And, when a record is
//! whole, what does it say ([`Learned::record`])? Only the last one learns.

use super::{Explicit, Format, FormatChoice, Parsed, PatternError, UnknownFormat, Unsaid, Zone, envelope, parse};
use crate::redact::Redactor;
use crate::time::Ticks;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::Duration;

/// How the lines of a source are read: the part that the configuration says. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Which format they have.
    pub format: FormatChoice,
    /// The pattern that the configuration gives in place of a format.
    pub explicit: Option<Explicit>,
    /// The zone of times that name none.
    pub zone: Zone,
    /// How far lines are joined to one record.
    pub join: Join,
    /// The secrets that are replaced in every record.
    pub redactor: Option<Redactor>,
}

/// A `format` of the command line that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// No format is called so.
    #[error("{0}, regex:PATTERN and grok:PATTERN")]
    Name(#[from] UnknownFormat),
    /// The pattern is none.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

impl Reading {
    /// Sets the format to the one of that name, or to `regex:PATTERN` or `grok:PATTERN`.
    pub fn set_format(&mut self, text: &str) -> Result<(), FormatError> {
        self.explicit = match text.split_once(':') {
            Some(("regex", pattern)) => Some(Explicit::regex(pattern)?),
            Some(("grok", pattern)) => Some(Explicit::grok(pattern, BTreeMap::new())?),
            _ => {
                self.format = text.parse()?;
                None
            }
        };
        Ok(())
    }
}

/// How far lines are joined to one record. In bytes a record is bounded as a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// Lines of a record at most; what goes on after them is a record of its own. With 1 nothing is joined.
    pub lines_max: NonZeroU16,
    /// How long a record waits for another line.
    pub wait: Duration,
}

impl Default for Join {
    fn default() -> Join {
        Join { lines_max: NonZeroU16::new(1000).unwrap_or(NonZeroU16::MIN), wait: Duration::from_secs(1) }
    }
}

/// Which of a program's outputs wrote a line, where that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stream {
    /// There is only one, or it is not said.
    #[default]
    Only,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What a container runtime says of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// When the runtime read it; the record's time where its text gives none.
    pub time: Option<Ticks>,
    /// Which output wrote it.
    pub stream: Stream,
    /// Whether the program's own line goes on in the next line of this stream, without a newline between them.
    pub is_partial: bool,
}

/// A line without its envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwrapped<'a> {
    /// What the program wrote.
    pub text: Cow<'a, str>,
    /// What was around it; the default where nothing was.
    pub envelope: Envelope,
}

/// What was learnt of a source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learned {}

impl Learned {
    /// As [`Learned::save`] wrote it; nothing learnt where that is empty, or written by another version.
    pub fn restore(_saved: &str) -> Learned {
        Learned {}
    }

    /// For [`Learned::restore`]; empty where nothing was learnt.
    pub fn save(&self) -> String {
        String::new()
    }

    /// Takes a line out of its envelope, if it has one.
    pub fn unwrap<'a>(&self, line: &'a str, _reading: &Reading) -> Unwrapped<'a> {
        let inner = match line.as_bytes() {
            [b'0'..=b'9', ..] => envelope::cri(line).map(|(text, envelope)| (Cow::Borrowed(text), envelope)),
            [b'{', b'"', b'l' | b's' | b't' | b'a', ..] => envelope::docker(line),
            _ => None,
        };
        let (text, envelope) = inner.unwrap_or((Cow::Borrowed(line), Envelope::default()));
        Unwrapped { text, envelope }
    }

    /// Whether a line (without its envelope) begins a record; else it goes on with the record before it in its stream.
    pub fn begins(&self, text: &str, reading: &Reading) -> bool {
        if let Some(explicit) = &reading.explicit {
            return explicit.begins(text);
        }
        !(text.starts_with([' ', '\t']) || text.starts_with("Caused by") || text.starts_with("java."))
    }

    /// Whether later lines may go on with the record that `text` (without its envelope, and perhaps only its first part)
    /// begins. Where not, nothing is joined to it and nobody waits for more: so for formats of one line a record, such as
    /// JSON, and for lines that look like nothing that is known. A line that is first only because the record before it
    /// was closed, and would have gone on with that, may itself be gone on with.
    pub fn may_continue(&self, text: &str, reading: &Reading) -> bool {
        reading.explicit.is_some() || text.starts_with("20") || !self.begins(text, reading)
    }

    /// Reads a whole record: its lines with `\n` between them, without envelopes. `envelope` is that of its first line,
    /// `seen` the time of reading, for times that do not give their year. Cannot fail: what is not understood is plain.
    pub fn record<'a>(&mut self, text: &'a str, envelope: Envelope, reading: &'a Reading, seen: Ticks) -> Parsed<'a> {
        let mut parsed = match &reading.explicit {
            Some(explicit) => {
                let record = explicit.record(text, &Unsaid { zone: reading.zone, seen });
                record.map_or_else(|| Parsed::plain(text), |record| Parsed { record, format: Format::Explicit })
            }
            None => parse(text, reading.format),
        };
        parsed.record.time = parsed.record.time.or(envelope.time);
        if let Some(redactor) = &reading.redactor {
            redactor.redact(&mut parsed.record, text);
        }
        parsed
    }

    /// What most lines were recognised as lately; none before the first.
    pub fn format(&self) -> Option<Format> {
        None
    }
}
