//! What was learnt of one source: the format of its lines first. It travels with the source's position, so that reading
//! goes on after a restart as it would have gone on without one.
//!
//! Four questions are asked in turn. What did the program itself write of this line ([`SourceProfile::unwrap`]: a container
//! runtime puts a time and a stream before it)? Does that begin a record, or go on with the one before
//! ([`SourceProfile::begins`])? If it begins one, may others go on with it ([`SourceProfile::may_continue`])? And, when a record is
//! whole, what does it say ([`SourceProfile::record`])? Only the last one learns.

use super::envelope::{Envelope, Unwrapped};
use super::layout::{self, Given, Habits, trace};
use super::structured::{self, Headers};
use super::timestamp::TimestampDefaults;
use super::timestamp::zone::Zone;
use super::{Explicit, Format, FormatChoice, LinePatternError, Parsed, UnknownFormat, envelope, json, logfmt};
use crate::redact::Redactor;
use daytable_model::record::Record;
use daytable_model::time::Ticks;
use memchr::memchr;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::Duration;

/// How the lines of a source are read: the part that the configuration says. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParseOptions {
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
    Pattern(#[from] LinePatternError),
}

impl ParseOptions {
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

/// What was learnt of a source.
///
/// It is a small thing on purpose: which format most records had lately, what the general rules cannot tell from one line
/// (`habits`), and the names that a table has above it. A record is recognised by its first bytes, by what was usual,
/// and then by its layout; what was usual is revisited every 64th record and whenever it does not fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceProfile {
    /// What most records were lately.
    format: Option<Format>,
    /// How much it would take to make it another.
    weight: u8,
    /// A bit a record, the newest lowest: whether it was of that format.
    fitted: u32,
    /// How many records these bits tell of, and then no more.
    counted: u8,
    /// Records since all formats were last asked.
    since: u8,
    habits: Habits,
    headers: Headers,
}

/// Records of one format that it takes to make it the usual one whatever was before.
const WEIGHT_MAX: u8 = 16;
/// From so many records of a format on, formats that begin as it does are not asked first any more.
const WEIGHT_SURE: u8 = 4;
/// But every so many records they are.
const REVISIT: u8 = 64;
/// What a record with a format takes from the weight of plain ones: a banner says little of the lines below it.
const PLAIN_LOSS: u8 = 4;
/// Which part of the wait is waited for a line without a header to go on.
const PLAIN_WAIT: u32 = 10;
/// The first word of what is saved: its version.
const VERSION: &str = "1";

impl SourceProfile {
    /// As [`SourceProfile::save`] wrote it; nothing learnt where that is empty, or written by another version.
    pub fn restore(saved: &str) -> SourceProfile {
        SourceProfile::read(saved).unwrap_or_default()
    }

    fn read(saved: &str) -> Option<SourceProfile> {
        let (first, headers) = saved.split_once('\n').unwrap_or((saved, ""));
        let mut words = first.split(' ');
        if words.next() != Some(VERSION) {
            return None;
        }
        let label = words.next()?;
        let format = Format::ALL.into_iter().find(|format| format.label() == label);
        let mut number = || words.next()?.parse::<u32>().ok();
        Some(SourceProfile {
            format,
            weight: u8::try_from(number()?).ok()?.min(WEIGHT_MAX),
            fitted: number()?,
            counted: u8::try_from(number()?).ok()?.min(32),
            since: u8::try_from(number()?).ok()?.min(REVISIT),
            habits: Habits::from_number(u16::try_from(number()?).ok()?),
            headers: Headers::restore(headers),
        })
    }

    /// For [`SourceProfile::restore`]; empty where nothing was learnt.
    pub fn save(&self) -> String {
        if *self == SourceProfile::default() {
            return String::new();
        }
        let label = self.format.map_or("none", Format::label);
        let SourceProfile { weight, fitted, counted, since, .. } = self;
        let mut saved =
            format!("{VERSION} {label} {weight} {fitted} {counted} {since} {habits}", habits = self.habits.number());
        let headers = self.headers.save();
        if !headers.is_empty() {
            saved.push('\n');
            saved.push_str(&headers);
        }
        saved
    }

    /// Takes a line out of its envelope, if it has one.
    pub fn unwrap<'a>(&self, line: &'a str, _reading: &ParseOptions) -> Unwrapped<'a> {
        let inner = match line.as_bytes() {
            [b'0'..=b'9', ..] => envelope::cri(line).map(|(text, envelope)| (Cow::Borrowed(text), envelope)),
            [b'{', b'"', b'l' | b's' | b't' | b'a', ..] => envelope::docker(line),
            _ => None,
        };
        let (text, envelope) = inner.unwrap_or((Cow::Borrowed(line), Envelope::default()));
        Unwrapped { text, envelope }
    }

    /// Whether a line (without its envelope) begins a record; else it goes on with the record before it in its stream.
    pub fn begins(&self, text: &str, reading: &ParseOptions) -> bool {
        match &reading.explicit {
            Some(explicit) => explicit.begins(text),
            None => self.begins_as(self.format, text, reading),
        }
    }

    /// Whether a line goes on with the record that `open` is so far.
    pub fn goes_on(&self, open: &str, text: &str, reading: &ParseOptions) -> bool {
        let defaults = SourceProfile::any_time(reading);
        if let Some(explicit) = &reading.explicit {
            return !explicit.begins(text);
        }
        if self.format == Some(Format::Text)
            && !self.headers.has_table()
            && layout::are_both_timed(open, text, &defaults)
        {
            return false;
        }
        if let Some(goes_on) = structured::goes_on(open, text, &self.headers) {
            return goes_on && reading.format != FormatChoice::Only(Format::Plain);
        }
        // Before anything was learnt the open record's first line says how lines begin.
        let usual = match self.format {
            None => layout::timed_format(layout::first_line(open), &defaults),
            known => known,
        };
        if !self.begins_as(usual, text, reading) {
            return true;
        }
        if reading.format == FormatChoice::Only(Format::Plain) || !layout::may_be_trace(open, &defaults) {
            return false;
        }
        trace::goes_on(open, text) && layout::timed_format(layout::first_line(open), &defaults).is_none()
    }

    fn begins_as(&self, usual: Option<Format>, text: &str, reading: &ParseOptions) -> bool {
        if reading.format == FormatChoice::Only(Format::Plain) {
            return true;
        }
        let defaults = SourceProfile::any_time(reading);
        if let Some(begins) = structured::begins(self.format, text, &defaults) {
            return begins;
        }
        !trace::is_inner(text) && layout::begins(usual, self.habits, text, &defaults)
    }

    /// Whether later lines may go on with the record that `text` (without its envelope, and perhaps only its first part)
    /// begins. Where not, nothing is joined to it and nobody waits for more: so for formats of one line a record, such as
    /// JSON. A line that is first only because the record before it was closed, and would have gone on with that, may
    /// itself be gone on with.
    pub fn may_continue(&self, text: &str, reading: &ParseOptions) -> bool {
        match text.as_bytes() {
            _ if reading.explicit.is_some() => true,
            [b'{', .., b'}'] => false,
            _ if reading.format == FormatChoice::Only(Format::Plain) => false,
            _ if let Some(may_continue) = structured::may_continue(text, &self.headers) => may_continue,
            _ => match self.format {
                Some(Format::Access | Format::W3c) => false,
                Some(Format::Logfmt) => !layout::is_pair(text),
                None => !layout::is_pair(text) && !structured::stands_alone(text, &SourceProfile::any_time(reading)),
                _ => true,
            },
        }
    }

    /// How long a record that may go on waits for another line, `open` being all of it so far. Where lines have no header
    /// each of them is a record most of the time, and what goes on with one is written in the same moment.
    pub fn wait(&self, open: &str, reading: &ParseOptions) -> Duration {
        let is_plain = match self.format {
            None | Some(Format::Plain) if reading.explicit.is_none() => {
                layout::timed_format(open, &SourceProfile::any_time(reading)).is_none()
            }
            _ => false,
        };
        let has_gone_on = memchr(b'\n', open.as_bytes()).is_some();
        if is_plain && !has_gone_on { reading.join.wait / PLAIN_WAIT } else { reading.join.wait }
    }

    /// Reads a whole record: its lines with `\n` between them, without envelopes. `envelope` is that of its first line,
    /// `seen` the time of reading, for times that do not give their year. Cannot fail: what is not understood is plain.
    pub fn record<'a>(
        &mut self,
        text: &'a str,
        envelope: Envelope,
        reading: &'a ParseOptions,
        seen: Ticks,
    ) -> Parsed<'a> {
        let defaults = TimestampDefaults { zone: reading.zone, seen };
        let mut parsed = match &reading.explicit {
            Some(explicit) => {
                let record = explicit.record(text, &defaults);
                record.map_or_else(|| Parsed::plain(text), |record| Parsed::of(record, Format::Explicit))
            }
            None => self.chosen(reading.format, text, defaults),
        };
        parsed.record.time = parsed.record.time.or(envelope.time);
        if let Some(redactor) = &reading.redactor {
            let had_secret = redactor.redact(&mut parsed.record, text);
            if had_secret && parsed.format == Format::Plain {
                // It may have been taken for a header, and that is saved.
                self.headers = Headers::default();
            }
        }
        parsed
    }

    /// Reads a record as this choice of format says, and learns from it.
    pub(super) fn chosen<'a>(
        &mut self,
        format: FormatChoice,
        text: &'a str,
        defaults: TimestampDefaults,
    ) -> Parsed<'a> {
        let found = match format {
            FormatChoice::Auto => self.auto(text, defaults),
            FormatChoice::Only(format) => self.only(format, text, defaults),
        };
        let parsed = found.unwrap_or_else(|| {
            self.headers.learn(text, self.format.is_none());
            Parsed::plain(text)
        });
        self.note(parsed.format);
        if parsed.format != Format::Plain {
            self.habits.note_time(parsed.record.time.is_some());
        }
        parsed
    }

    /// What most records were recognised as lately; none before the first.
    pub fn format(&self) -> Option<Format> {
        self.format
    }

    /// Which part of the last records (32 at most) was of that format, 0 to 1; 0 before the first.
    pub fn confidence(&self) -> f64 {
        if self.counted == 0 { 0.0 } else { f64::from(self.fitted.count_ones()) / f64::from(self.counted) }
    }

    /// The format by the looks of a record and by what was usual.
    fn auto<'a>(&mut self, text: &'a str, defaults: TimestampDefaults) -> Option<Parsed<'a>> {
        let first = *text.as_bytes().first()?;
        if matches!(first, b'{' | b' ' | b'\t')
            && let Some(record) = object(text, &defaults)
        {
            return Some(Parsed::of(record, Format::Json));
        }
        if matches!(first, b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'@')
            && layout::is_pair(text)
            && let Some(record) = logfmt::parse(text, &defaults)
        {
            return Some(Parsed::of(record, Format::Logfmt));
        }
        let is_layout = self.format.is_some_and(layout::is_layout) && self.weight >= WEIGHT_SURE;
        let asks_shaped = !is_layout || self.since >= REVISIT;
        if !asks_shaped {
            self.since += 1;
        } else if let Some((format, record)) = structured::recognise(text, &defaults, &mut self.headers) {
            // They are asked again next time, until they are the usual ones or do not answer.
            return Some(Parsed::of(record, format));
        } else {
            self.since = 0;
        }
        let found = self.layout(text, defaults);
        if found.is_none() && !asks_shaped {
            let (format, record) = structured::recognise(text, &defaults, &mut self.headers)?;
            return Some(Parsed::of(record, format));
        }
        found
    }

    /// A record of this format or none.
    fn only<'a>(&mut self, format: Format, text: &'a str, defaults: TimestampDefaults) -> Option<Parsed<'a>> {
        match format {
            Format::Json => object(text, &defaults).map(|record| Parsed::of(record, format)),
            Format::Logfmt => logfmt::parse_with_flags(text, &defaults).map(|record| Parsed::of(record, format)),
            Format::Cri | Format::Docker => self.auto(text, defaults),
            Format::Text => {
                let mut given = Given { defaults, usual: self.format, habits: &mut self.habits };
                layout::read_general(text, &mut given)
            }
            Format::Plain | Format::Explicit => None,
            _ if layout::is_layout(format) => self.layout(text, defaults).filter(|parsed| parsed.format == format),
            _ => {
                let record = structured::read(format, text, &defaults, &mut self.headers)?;
                Some(Parsed::of(record, format))
            }
        }
    }

    fn layout<'a>(&mut self, text: &'a str, defaults: TimestampDefaults) -> Option<Parsed<'a>> {
        layout::read(text, &mut Given { defaults, usual: self.format, habits: &mut self.habits })
    }

    fn note(&mut self, format: Format) {
        let fits = self.format == Some(format);
        match (fits, self.weight) {
            (true, _) => self.weight = (self.weight + 1).min(WEIGHT_MAX),
            // One that just began may be wrong.
            (false, 0 | 1) => (self.format, self.weight) = (Some(format), 1),
            (false, _) if self.format == Some(Format::Plain) => {
                self.weight = self.weight.saturating_sub(PLAIN_LOSS);
                if self.weight == 0 {
                    (self.format, self.weight) = (Some(format), 1);
                }
            }
            (false, _) => self.weight -= 1,
        }
        self.fitted = self.fitted << 1 | u32::from(self.format == Some(format));
        self.counted = (self.counted + 1).min(32);
    }

    /// For questions in which it does not matter when a line was read.
    fn any_time(reading: &ParseOptions) -> TimestampDefaults {
        TimestampDefaults { zone: reading.zone, seen: Ticks::MAX }
    }
}

/// An object, over one line or several; or an object in the first line, and what is below it as more of its message.
fn object<'a>(text: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    let whole = json::parse(text, defaults);
    if whole.is_some() || !text.contains('\n') {
        return whole;
    }
    let (first, rest) = text.split_once('\n')?;
    let mut record = json::parse(first, defaults)?;
    let message = record.message.to_mut();
    message.push('\n');
    message.push_str(rest);
    Some(record)
}

#[cfg(test)]
mod tests;
