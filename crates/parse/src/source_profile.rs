//! The profile of a source: what the parser learned from its records, above all their format. The profile is saved with
//! the position of the source, so parsing continues after a restart as if there had been no restart.
//!
//! Four questions come in turn:
//!
//! 1. Which part of a line did the program write? A container runtime puts a time and a stream before it
//!    ([`SourceProfile::unwrap`]).
//! 2. Does the line begin a record or continue one ([`SourceProfile::begins`])?
//! 3. May later lines continue this record ([`SourceProfile::may_continue`])?
//! 4. What does the complete record say ([`SourceProfile::record`])? Only this step learns.

use super::calendar::Calendar;
use super::envelope::{Envelope, OutputStream, Unwrapped};
use super::layout::{self, Habits, LayoutContext, trace};
use super::line_templates::{self, LayoutCache, LineReader, ReadLayout};
use super::lines::LineCut;
use super::raw_record::RawRecord;
use super::structured::{self, Headers};
use super::time_fields::{self, LevelField, TimeFields};
use super::timestamp::zone::Zone;
use super::timestamp::{DateOrder, FullTime, TimestampDefaults};
use super::{Explicit, Format, FormatChoice, LinePatternError, Parsed, UnknownFormat, envelope, json, logfmt};
use crate::redact::Redactor;
use daytable_model::record::Record;
use daytable_model::time::Ticks;
use memchr::memchr;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU16;
use std::time::Duration;

/// How the configuration wants the lines of a source read. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParseOptions {
    /// The format of the lines.
    pub format: FormatChoice,
    /// A pattern that replaces the format.
    pub explicit: Option<Explicit>,
    /// The time zone of times that name none.
    pub zone: Zone,
    /// Limits for joining lines to records.
    pub join: Join,
    /// The secrets to replace in every record.
    pub redactor: Option<Redactor>,
}

/// An invalid format on the command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Unknown name.
    #[error("{0}, regex:PATTERN and grok:PATTERN")]
    Name(#[from] UnknownFormat),
    /// Invalid pattern.
    #[error(transparent)]
    Pattern(#[from] LinePatternError),
}

impl ParseOptions {
    /// Sets the format by its name, or by `regex:PATTERN` or `grok:PATTERN`.
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

/// Limits for joining lines to one record. The limit in bytes is the limit of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// Lines of a record; further lines become a record of their own. With 1, lines are not joined.
    pub lines_max: NonZeroU16,
    /// How long a record waits for another line.
    pub wait: Duration,
}

impl Default for Join {
    fn default() -> Join {
        // The first lines of a source are to be seen within a second, also at a receiver of their host.
        Join { lines_max: NonZeroU16::new(1000).unwrap_or(NonZeroU16::MIN), wait: Duration::from_millis(800) }
    }
}

/// What the parser learned from a source.
///
/// The profile is small on purpose: the format of most recent records, the habits that the general rules cannot see in
/// one line (`habits`), and the column names of a table. The first bytes of a record, then the usual format, then the
/// layout decide. The other formats are tried again every 64th record, and whenever the usual format does not fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceProfile {
    /// The format of most recent records.
    format: Option<Format>,
    /// How many records of another format it takes to change `format`.
    weight: u8,
    /// A bit a record, the newest lowest: whether the record had that format.
    fitted: u32,
    /// How many records these bits describe, up to their number.
    counted: u8,
    /// Records since all formats were last tried.
    since: u8,
    /// Records of one line in a row, up to [`SINGLE_LINES_SURE`].
    single_lines: u8,
    habits: Habits,
    headers: Headers,
    /// Ends of empty lines after the last record, which the next record keeps.
    gap: String,
    /// Bytes of the last line, if it was read without its end.
    unended: u64,
    /// The layouts of recent lines; not saved.
    layouts: LayoutCache,
}

/// How a line begins that may be an object, where any format is expected.
const OBJECT_BEGINNINGS: [char; 3] = ['{', ' ', '\t'];
/// The highest weight: this many records of another format change any profile.
const WEIGHT_MAX: u8 = 16;
/// From this weight on, formats with the same first bytes are not tried first any more.
const WEIGHT_SURE: u8 = 4;
/// The exception: after this many records they are tried again.
const REVISIT: u8 = 64;
/// Weight that plain loses to a record with a format: a banner says little about the lines below it.
const PLAIN_LOSS: u8 = 4;
/// After this many records of one line in a row, a record waits shortly for more lines.
const SINGLE_LINES_SURE: u8 = 32;
/// The divisor of `join.wait` for a short wait. A program writes the lines of one record within a few milliseconds.
const SHORT_WAIT: u32 = 8;
/// Bytes of empty lines between two records that are kept.
const GAP_BYTES_MAX: usize = 4096;
/// How the ends of empty lines are saved.
const GAP_CODES: [(char, char); 2] = [('n', '\n'), ('r', '\r')];
/// What stands before the length of a line without an end, behind the ends of empty lines.
const UNENDED_CODE: char = 'u';
/// The first word of a saved profile: its version.
const VERSION: &str = "1";

impl SourceProfile {
    /// Reads what [`SourceProfile::save`] wrote. An empty text or another version gives an empty profile.
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
        let (weight, fitted, counted, since) = (number()?, number()?, number()?, number()?);
        let (single_lines, habits) = (number()?, number()?);
        let (gap, unended) = words.next().map_or(("", ""), |word| word.split_once(UNENDED_CODE).unwrap_or((word, "")));
        Some(SourceProfile {
            format,
            weight: u8::try_from(weight).ok()?.min(WEIGHT_MAX),
            fitted,
            counted: u8::try_from(counted).ok()?.min(32),
            since: u8::try_from(since).ok()?.min(REVISIT),
            single_lines: u8::try_from(single_lines).ok()?.min(SINGLE_LINES_SURE),
            habits: Habits::from_number(u16::try_from(habits).ok()?),
            headers: Headers::restore(headers),
            gap: gap.chars().filter_map(|c| GAP_CODES.iter().find(|(code, _)| *code == c)).map(|(_, c)| c).collect(),
            unended: unended.parse().unwrap_or_default(),
            layouts: LayoutCache::default(),
        })
    }

    /// The profile as text for [`SourceProfile::restore`]; empty if the source had no records yet.
    pub fn save(&self) -> String {
        if *self == SourceProfile::default() {
            return String::new();
        }
        let label = self.format.map_or("none", Format::label);
        let SourceProfile { weight, fitted, counted, since, single_lines, .. } = self;
        let habits = self.habits.number();
        let mut saved = format!("{VERSION} {label} {weight} {fitted} {counted} {since} {single_lines} {habits}");
        if !self.gap.is_empty() || self.unended > 0 {
            saved.push(' ');
            saved.extend(self.gap.chars().map(|c| if c == '\r' { 'r' } else { 'n' }));
        }
        if self.unended > 0 {
            saved.push(UNENDED_CODE);
            saved.push_str(&self.unended.to_string());
        }
        let headers = self.headers.save();
        if !headers.is_empty() {
            saved.push('\n');
            saved.push_str(&headers);
        }
        saved
    }

    /// Removes the envelope of a line, if the line has one.
    pub fn unwrap<'a>(&self, line: &'a str, _reading: &ParseOptions) -> Unwrapped<'a> {
        let inner = match line.as_bytes() {
            [b'0'..=b'9', ..] => envelope::cri(line).map(|(text, envelope)| (Cow::Borrowed(text), envelope)),
            [b'{', b'"', b'l' | b's' | b't' | b'a', ..] => envelope::docker(line),
            _ => None,
        };
        let (text, envelope) = inner.unwrap_or((Cow::Borrowed(line), Envelope::default()));
        Unwrapped { text, envelope }
    }

    /// Removes the envelope of a line, also where the line is cut within it. What an object has behind the cut is
    /// taken if the object is the envelope.
    pub(crate) fn unwrap_line<'a>(
        &self,
        line: &'a str,
        cut: Option<&mut LineCut>,
        options: &ParseOptions,
    ) -> Unwrapped<'a> {
        if let Some(cut) = cut
            && let Some((text, envelope)) = cut.rest.as_ref().and_then(|rest| envelope::cut_docker(line, rest))
        {
            cut.rest = None;
            return Unwrapped { text, envelope };
        }
        self.unwrap(line, options)
    }

    /// Whether a line (without its envelope) begins a record. Otherwise it continues the record before it in its
    /// stream.
    pub fn begins(&self, text: &str, options: &ParseOptions) -> bool {
        match &options.explicit {
            Some(explicit) => explicit.begins(text),
            None => self.begins_as(self.format, self.habits, text, options),
        }
    }

    /// Whether a line continues the open record `open`.
    pub fn goes_on(&self, open: &str, text: &str, options: &ParseOptions) -> bool {
        let defaults = SourceProfile::any_time(options);
        if let Some(explicit) = &options.explicit {
            return !explicit.begins(text);
        }
        if self.full_time(text, options).is_some() && self.full_time(open, options).is_some() {
            return false;
        }
        if let Some(goes_on) = structured::goes_on(open, text, &self.headers) {
            return goes_on && options.format != FormatChoice::Only(Format::Plain);
        }
        if let Some(goes_on) = trace::goes_on_with_document(open, text).filter(|_| options.format == FormatChoice::Auto)
        {
            return goes_on;
        }
        if trace::is_inner(text) && layout::begins_with_indent(layout::first_line(open), text, &defaults) {
            return false;
        }
        if trace::names_the_end(open, text) {
            return true;
        }
        // Without a profile, the first line of the open record shows how records begin.
        let mut habits = self.habits;
        let usual = match self.format {
            None if layout::is_wide(layout::first_line(open), &defaults) => {
                habits.note_wide();
                Some(Format::Text)
            }
            None => layout::timed_format(layout::first_line(open), &defaults),
            // What a program writes beside its access log.
            Some(format) if is_beside(format, open) => {
                layout::timed_format(layout::first_line(open), &defaults).or(self.format)
            }
            known => known,
        };
        if !self.begins_as(usual, habits, text, options) {
            // A record that has its level already does not go on with another one, nor with the end of a request.
            return !(layout::has_level_alone(text) && layout::has_other_level(open, text, &defaults)
                || trace::is_of_request(open, text));
        }
        if options.format == FormatChoice::Only(Format::Plain) || !layout::may_be_trace(open, &defaults) {
            return false;
        }
        if trace::goes_on(open, text) {
            return layout::timed_format(layout::first_line(open), &defaults).is_none();
        }
        trace::goes_on_with_level(open, text, self.format == Some(Format::Text))
            && layout::is_untimed(layout::first_line(open))
            && !layout::is_untimed(text)
            && !trace::is_failure(text)
    }

    /// The full time at the start of a line, in a source of lines with such times. A line with a full time does not
    /// continue a record with one, and the other rules need not run. Most lines end here.
    pub(crate) fn full_time(&self, text: &str, options: &ParseOptions) -> FullTime {
        if self.format != Some(Format::Text) || options.explicit.is_some() || self.headers.has_table() {
            return FullTime::default();
        }
        layout::full_time(text, &SourceProfile::any_time(options))
    }

    fn begins_as(&self, usual: Option<Format>, habits: Habits, text: &str, options: &ParseOptions) -> bool {
        if options.format == FormatChoice::Only(Format::Plain) {
            return true;
        }
        let defaults = SourceProfile::any_time(options);
        let is_beside = self.format.is_some_and(structured::has_one_line) && usual == Some(Format::Text);
        if is_beside && structured::stands_alone(text, &defaults) {
            return true;
        }
        if let Some(begins) = structured::begins(self.format.filter(|_| !is_beside), text, &defaults) {
            return begins;
        }
        !trace::is_inner(text) && (layout::begins(usual, habits, text, &defaults) || trace::is_failure(text))
    }

    /// Whether later lines may continue the record that `text` begins (without its envelope, and perhaps only its first
    /// part). Formats with one line a record, such as JSON, return false, and the record closes without a wait. A
    /// continuation line can also begin a record, if the record before it was closed; more lines may follow it.
    pub fn may_continue(&self, text: &str, options: &ParseOptions) -> bool {
        match text.as_bytes() {
            _ if options.explicit.is_some() => true,
            [b'{', .., b'}'] => false,
            _ if options.format == FormatChoice::Only(Format::Plain) => false,
            _ if let Some(may_continue) = structured::may_continue(text, &self.headers) => may_continue,
            _ => match self.format {
                Some(format) if structured::has_one_line(format) => is_beside(format, text),
                Some(Format::Logfmt) => !layout::is_pair(text),
                None => !layout::is_pair(text) && !structured::stands_alone(text, &SourceProfile::any_time(options)),
                _ => true,
            },
        }
    }

    /// How long an open record waits for another line; `open` is its text so far. The wait is short if no record of the
    /// source had several lines lately, or if lines have no header: most of them are records of their own.
    pub fn wait(&self, open: &str, options: &ParseOptions) -> Duration {
        let is_plain = match self.format {
            None | Some(Format::Plain) if options.explicit.is_none() => {
                layout::timed_format(open, &SourceProfile::any_time(options)).is_none()
            }
            _ => false,
        };
        let is_joined = memchr(b'\n', open.as_bytes()).is_some();
        let is_short = !is_joined && (is_plain || self.single_lines >= SINGLE_LINES_SURE);
        if is_short { options.join.wait / SHORT_WAIT } else { options.join.wait }
    }

    /// Parses a complete record: its lines without envelopes, joined with `\n`. `envelope` is the envelope of its first
    /// line; `seen` is the time of reading, for times without a year. Parsing cannot fail: a text of no known format is
    /// plain.
    pub fn record<'a>(
        &mut self,
        text: &'a str,
        envelope: Envelope<'a>,
        options: &'a ParseOptions,
        seen: Ticks,
    ) -> Parsed<'a> {
        self.parse(text, envelope, None, options, seen)
    }

    /// Parses a record as [`SourceProfile::record`] does, and keeps the bytes that it had in its source.
    pub fn raw_record<'a>(&mut self, raw: &'a RawRecord<'_>, options: &'a ParseOptions, seen: Ticks) -> Parsed<'a> {
        let parsed = self.parse(&raw.text, raw.envelope.clone(), Some(raw), options, seen);
        self.gap.clear();
        parsed
    }

    /// Notes the bytes after the last record that were consumed without a record: the next record keeps them.
    pub fn note_gap(&mut self, bytes: &[u8]) {
        let fits = self.gap.len() + bytes.len() <= GAP_BYTES_MAX;
        if let Some(text) = str::from_utf8(bytes).ok().filter(|_| fits && bytes.iter().all(u8::is_ascii_whitespace)) {
            self.gap.push_str(text);
        }
    }

    /// The bytes after the last record that were noted and that no record has yet.
    pub fn gap(&self) -> &str {
        &self.gap
    }

    /// Notes the length of the last line, if it was read without its end; else 0.
    pub fn note_unended(&mut self, bytes: u64) {
        self.unended = bytes;
    }

    /// The length of the last line, if it was read without its end; else 0.
    pub fn unended(&self) -> u64 {
        self.unended
    }

    fn parse<'a>(
        &mut self,
        text: &'a str,
        envelope: Envelope<'a>,
        raw: Option<&'a RawRecord<'_>>,
        options: &'a ParseOptions,
        seen: Ticks,
    ) -> Parsed<'a> {
        let Headers { calendar, .. } = &self.headers;
        let defaults = TimestampDefaults { zone: options.zone, seen: calendar.seen(seen), order: calendar.order() };
        let full_time = raw.map(|raw| raw.full_time).unwrap_or_default();
        let cut = raw.filter(|raw| raw.is_cut());
        let rest = cut.and_then(|raw| raw.cut.as_ref()?.rest.as_ref()).map(|rest| &*rest.object);
        let (knew_time, knew_level) = (self.headers.time.name().is_some(), self.headers.level.is_known());
        let (mut parsed, read) = if let Some(record) = cut.and_then(|_| cut_object(text, rest, options, &defaults)) {
            let parsed = Parsed::of(record, Format::Json);
            self.learn(&parsed);
            (parsed, None)
        } else if let Some((parsed, read)) = self.read_by_layout(text, &envelope, options, &defaults, full_time) {
            (parsed, Some(read))
        } else {
            (self.parse_text(text, options, defaults, full_time), None)
        };
        self.headers.calendar.note(parsed.record.time);
        parsed.record.time = parsed.record.time.or(envelope.time);
        let mut added = 0;
        if envelope.stream != OutputStream::Only {
            let fields = parsed.record.fields.len();
            // First, because a query by name gets the first field: the text must not forge its stream.
            parsed.record.fields.splice(0..0, envelope.into_fields());
            added = parsed.record.fields.len() - fields;
        }
        let line = match &options.redactor {
            None => self.layouts.written(text, &parsed, raw, &self.gap, &defaults, read),
            Some(redactor) => match line_templates::redact(redactor, &mut parsed, text, rest, added) {
                None => {
                    let raw = raw.filter(|raw| !line_templates::has_secret_around(redactor, raw, text));
                    self.layouts.written(text, &parsed, raw, &self.gap, &defaults, read)
                }
                Some(clean) => {
                    if parsed.format == Format::Plain {
                        // The plain record may have become a header, and headers are saved: drop the secret.
                        let Headers { doubt, calendar, .. } = std::mem::take(&mut self.headers);
                        (self.headers.doubt, self.headers.calendar) = (doubt, calendar);
                    }
                    if !knew_time {
                        // A name that was learned from this record may be, or contain, the secret, and is saved as well.
                        self.headers.time = TimeFields::default();
                    }
                    if !knew_level {
                        self.headers.level = LevelField::default();
                    }
                    self.layouts.clean(clean, text, raw, &self.gap)
                }
            },
        };
        parsed.record.line = Some(Box::new(line));
        self.headers.doubt.note(&parsed.record);
        parsed
    }

    /// A profile that knows nothing of its source, except layouts of the lines of another one. They change how much time and
    /// space a line takes, and nothing else.
    pub fn with_layouts_of(other: SourceProfile) -> SourceProfile {
        SourceProfile { layouts: other.layouts.for_another_source(), ..SourceProfile::default() }
    }

    #[cfg(test)]
    pub(crate) fn layouts_mut(&mut self) -> &mut LayoutCache {
        &mut self.layouts
    }

    /// Reads a line by the layout of an earlier line, and learns what the parser would learn.
    #[inline]
    pub(crate) fn read_by_layout<'a>(
        &mut self,
        text: &'a str,
        envelope: &Envelope<'_>,
        options: &ParseOptions,
        defaults: &TimestampDefaults,
        full_time: FullTime,
    ) -> Option<(Parsed<'a>, ReadLayout)> {
        let is_auto = options.format == FormatChoice::Auto;
        let is_possible = is_auto || options.format == FormatChoice::Only(Format::Json);
        if !is_possible || options.explicit.is_some() || envelope.stream != OutputStream::Only {
            return None;
        }
        let is_usual_text =
            is_auto && self.format == Some(Format::Text) && self.weight >= WEIGHT_SURE && self.since < REVISIT;
        let habits = self.habits;
        // Where objects alone are expected, more may stand before one.
        let is_object = !is_auto || text.starts_with(OBJECT_BEGINNINGS);
        let (mut parsed, read) = self.layouts.read(text, defaults, full_time, |reader| match reader.format {
            Format::Json => is_object,
            Format::Text => is_usual_text && (!reader.has_colon || habits.has_colons()),
            _ => is_auto,
        })?;
        self.single_lines = (self.single_lines + 1).min(SINGLE_LINES_SURE);
        if parsed.format == Format::Text {
            self.since += 1;
            self.habits.note_colon(read.has_colon);
        }
        self.settle_time(&mut parsed, defaults);
        self.learn(&parsed);
        Some((parsed, read))
    }

    /// Reads a line that begins and ends as an object, if its layout says that no container runtime wrote it. The record
    /// is that of [`SourceProfile::raw_record`] for a line with a newline and nothing else around it.
    #[inline]
    pub(crate) fn object_by_layout<'a>(
        &mut self,
        line: &'a str,
        options: &ParseOptions,
        seen: Ticks,
    ) -> Option<Parsed<'a>> {
        let is_possible = matches!(options.format, FormatChoice::Auto | FormatChoice::Only(Format::Json));
        if !is_possible || options.explicit.is_some() || options.redactor.is_some() || !self.gap.is_empty() {
            return None;
        }
        let defaults = TimestampDefaults { zone: options.zone, seen, order: self.headers.calendar.order() };
        let is_left = Cell::new(false);
        let is_object = |reader: &LineReader| {
            let is_json = reader.format == Format::Json;
            is_left.set(is_left.get() || is_json && reader.may_be_envelope);
            is_json && !reader.may_be_envelope
        };
        let Some((mut parsed, read)) = self.layouts.read(line, &defaults, FullTime::default(), is_object) else {
            // A reader that was left out may read it after all.
            if !is_left.get() {
                self.layouts.leave_next();
            }
            return None;
        };
        self.single_lines = (self.single_lines + 1).min(SINGLE_LINES_SURE);
        self.settle_time(&mut parsed, &defaults);
        self.learn(&parsed);
        parsed.record.line = Some(Box::new(self.layouts.read_line(line, &parsed.record, read)));
        self.headers.doubt.note(&parsed.record);
        Some(parsed)
    }

    fn parse_text<'a>(
        &mut self,
        text: &'a str,
        options: &'a ParseOptions,
        defaults: TimestampDefaults,
        full_time: FullTime,
    ) -> Parsed<'a> {
        let is_joined = memchr(b'\n', text.as_bytes()).is_some();
        self.single_lines = if is_joined { 0 } else { (self.single_lines + 1).min(SINGLE_LINES_SURE) };
        match &options.explicit {
            Some(explicit) => {
                let record = explicit.record(text, &defaults);
                record.map_or_else(|| Parsed::plain(text), |record| Parsed::of(record, Format::Explicit))
            }
            None => self.chosen(options.format, text, defaults, full_time),
        }
    }

    /// Parses a record as the choice of format says, and learns from it. `full_time` is its time, if that is known.
    pub(super) fn chosen<'a>(
        &mut self,
        format: FormatChoice,
        text: &'a str,
        defaults: TimestampDefaults,
        full_time: FullTime,
    ) -> Parsed<'a> {
        let found = match format {
            FormatChoice::Auto => self.auto(text, defaults, full_time),
            FormatChoice::Only(format) => self.only(format, text, defaults),
        };
        let mut parsed = found.unwrap_or_else(|| {
            self.headers.learn(text, self.format.is_none());
            Parsed::plain(text)
        });
        self.settle_time(&mut parsed, &defaults);
        self.learn(&parsed);
        parsed
    }

    /// Gives a record without a time that of the field that is the time in this source.
    #[inline(always)]
    fn settle_time(&mut self, parsed: &mut Parsed<'_>, defaults: &TimestampDefaults) {
        if parsed.record.time.is_none() {
            self.find_time(parsed, defaults);
        }
        if parsed.record.level.is_none() && self.headers.level.is_open() {
            self.find_level(parsed);
        }
    }

    #[cold]
    #[inline(never)]
    fn find_time(&mut self, parsed: &mut Parsed<'_>, defaults: &TimestampDefaults) {
        if parsed.record.fields.is_empty() || !has_named_fields(parsed.format) {
            return;
        }
        parsed.record.time = time_fields::of_audit(&parsed.record.message);
        if parsed.record.time.is_none() {
            self.headers.time.settle(&mut parsed.record, defaults);
        }
    }

    #[cold]
    #[inline(never)]
    fn find_level(&mut self, parsed: &mut Parsed<'_>) {
        if has_named_fields(parsed.format) && parsed.format != Format::Syslog {
            self.headers.level.settle(&mut parsed.record);
        }
    }

    fn learn(&mut self, parsed: &Parsed<'_>) {
        self.note(parsed.format);
        if parsed.format != Format::Plain {
            self.habits.note_time(parsed.record.time.is_some());
        }
    }

    /// The format of most recent records; `None` before the first.
    pub fn format(&self) -> Option<Format> {
        self.format
    }

    /// Learns from a file, before its first record is read, which years and days its times leave out, and what comes
    /// first in its dates. `length` are its
    /// bytes, `written` is when it was written last. `read_at` reads at an offset; its errors are returned.
    pub fn begin_file(
        &mut self,
        length: u64,
        written: Ticks,
        options: &ParseOptions,
        read_at: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        self.headers.calendar = Calendar::of_file(length, written, options.zone, read_at)?;
        Ok(())
    }

    /// What comes first in dates such as `05/11/2026`, as far as [`SourceProfile::begin_file`] could tell.
    pub fn date_order(&self) -> DateOrder {
        self.headers.calendar.order()
    }

    /// Notes when the file was written last: a time without a date is no later.
    pub fn note_written(&mut self, written: Ticks) {
        self.headers.calendar.note_written(written);
    }

    /// Whether times of the source leave out the year or the day.
    pub fn needs_calendar(&self) -> bool {
        self.headers.calendar.is_needed()
    }

    /// The field that gives the time, if its name is not among those that are known for times; for a date and a clock
    /// both names, with `and` between.
    pub fn time_field(&self) -> Option<&str> {
        self.headers.time.name()
    }

    /// What looks like a time, where no record had one: the name of a field, or a part of a text.
    pub fn likely_time(&self) -> Option<&str> {
        self.headers.doubt.likely()
    }

    /// The share of the last records (at most 32) with that format, 0 to 1; 0 before the first.
    pub fn confidence(&self) -> f64 {
        if self.counted == 0 { 0.0 } else { f64::from(self.fitted.count_ones()) / f64::from(self.counted) }
    }

    /// Finds the format by the first bytes and by the usual format.
    fn auto<'a>(&mut self, text: &'a str, defaults: TimestampDefaults, full_time: FullTime) -> Option<Parsed<'a>> {
        let first = *text.as_bytes().first()?;
        if text.starts_with(OBJECT_BEGINNINGS)
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
        let tries_structured = !is_layout || self.since >= REVISIT;
        if !tries_structured {
            self.since += 1;
        } else if let Some((format, record)) = structured::recognise(text, &defaults, &mut self.headers) {
            // They are tried first again next time, until they become the usual format or fail.
            return Some(Parsed::of(record, format));
        } else {
            self.since = 0;
        }
        let found = self.layout(text, defaults, full_time);
        if found.is_none() && !tries_structured {
            let (format, record) = structured::recognise(text, &defaults, &mut self.headers)?;
            return Some(Parsed::of(record, format));
        }
        found
    }

    /// Parses a record as `format` only.
    fn only<'a>(&mut self, format: Format, text: &'a str, defaults: TimestampDefaults) -> Option<Parsed<'a>> {
        match format {
            Format::Json => object(text, &defaults).map(|record| Parsed::of(record, format)),
            Format::Logfmt => logfmt::parse_with_flags(text, &defaults).map(|record| Parsed::of(record, format)),
            Format::Cri | Format::Docker => self.auto(text, defaults, FullTime::default()),
            Format::Text => {
                let mut context = LayoutContext {
                    defaults,
                    usual: self.format,
                    is_unknown: self.is_unknown(),
                    habits: &mut self.habits,
                    full_time: FullTime::default(),
                };
                // Columns of a table are text where text was asked for.
                layout::read_general(text, &mut context).map(|parsed| Parsed { format, ..parsed })
            }
            Format::Plain | Format::Explicit => None,
            _ if layout::is_layout(format) => {
                self.layout(text, defaults, FullTime::default()).filter(|parsed| parsed.format == format)
            }
            _ => {
                let record = structured::read(format, text, &defaults, &mut self.headers)?;
                Some(Parsed::of(record, format))
            }
        }
    }

    fn layout<'a>(&mut self, text: &'a str, defaults: TimestampDefaults, full_time: FullTime) -> Option<Parsed<'a>> {
        let is_unknown = self.is_unknown();
        let habits = &mut self.habits;
        layout::read(text, &mut LayoutContext { defaults, usual: self.format, is_unknown, habits, full_time })
    }

    /// Whether the source is new, or its few lines so far had no format, or a format of which this line is not.
    fn is_unknown(&self) -> bool {
        match self.format {
            None => true,
            Some(Format::Plain) => self.weight < WEIGHT_MAX,
            Some(format) => !layout::is_layout(format) && self.weight < WEIGHT_SURE,
        }
    }

    fn note(&mut self, format: Format) {
        let fits = self.format == Some(format);
        match (fits, self.weight) {
            (true, _) => self.weight = (self.weight + 1).min(WEIGHT_MAX),
            // A format with a single record may be a mistake.
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

    /// Defaults for questions that do not depend on the time of reading.
    fn any_time(options: &ParseOptions) -> TimestampDefaults {
        TimestampDefaults { zone: options.zone, seen: Ticks::MAX, ..TimestampDefaults::default() }
    }
}

/// Whether a line begins with a bracket or like a date, as no line of an access log does: a program writes it beside that.
#[inline]
fn is_beside(format: Format, line: &str) -> bool {
    let is_dated = matches!(
        line.as_bytes(),
        [b'[', ..] | [b'1'..=b'2', _, _, b'0'..=b'9', b'-' | b'/', b'0'..=b'1', b'0'..=b'9', b'-' | b'/', ..]
    );
    is_dated && matches!(format, Format::Access | Format::Haproxy)
}

/// Whether the fields of a record have the names that its writer gave them.
fn has_named_fields(format: Format) -> bool {
    matches!(format, Format::Json | Format::Logfmt | Format::Csv | Format::Ltsv | Format::Syslog)
}

/// The first bytes of an object, if objects are expected.
fn cut_object<'a>(
    text: &'a str,
    rest: Option<&'a str>,
    options: &ParseOptions,
    defaults: &TimestampDefaults,
) -> Option<Record<'a>> {
    let is_expected = options.explicit.is_none()
        && match options.format {
            FormatChoice::Auto => text.starts_with(OBJECT_BEGINNINGS),
            FormatChoice::Only(format) => matches!(format, Format::Json | Format::Cri | Format::Docker),
        };
    if is_expected { json::cut::parse(text, rest, defaults) } else { None }
}

/// An object, over one line or several, perhaps with the comma behind it that an array has; or an object in the first line,
/// with the lines below as more of its message.
fn object<'a>(text: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    let of_array = || json::parse(text.trim_ascii_end().strip_suffix(',')?, defaults);
    let whole = json::parse(text, defaults).or_else(of_array);
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
