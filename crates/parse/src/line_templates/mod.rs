//! The original text of a record, as a layout that the record's own parts fill ([`daytable_model::line`]).
//!
//! The layouts of a source are few, so the last ones are remembered and tried first. A layout is taken only if it gives
//! the very bytes of the line: `template` compares them part by part, and a new layout, which `make` finds, is written
//! and compared as a whole. A line for which neither succeeds is kept whole.

mod decimals;
mod make;
mod reader;
mod reader_plan;
mod redacted;
mod template;

pub(crate) use reader::LineReader;
pub(crate) use redacted::{CleanLine, redact};

use super::raw_record::RawRecord;
use super::{Format, Parsed};
use crate::redact::Redactor;
use crate::timestamp::{FullTime, TimestampDefaults};
use daytable_model::line::{
    FrameForm, LAYOUT_BYTES_MAX, LineLayout, LineSource, PIECE_END, SharedLayout, TimePattern, WrittenLine,
    escape_json, invalid_piece, push_literal, push_piece, whole_line,
};
use daytable_model::property::{Property, TypedValue};
use daytable_model::record::{Level, Record, Value};
use daytable_model::time::Ticks;
use make::{GapRule, make, place_of, properties_of};
use memchr::memmem;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use template::{FittedLine, LinePart, LineTemplate};

/// Layouts of a source that are remembered.
const TEMPLATES_MAX: usize = 32;
/// What a new layout adds to the churn of a source; a known layout takes 1 away.
const CHURN_OF_NEW: u32 = 16;
/// From this churn on, words with digits are kept out of layouts.
const CHURN_OF_DIGITS: u32 = 24 * CHURN_OF_NEW;
/// From this churn on, lines without a known layout are kept whole.
const CHURN_MAX: u32 = 64 * CHURN_OF_NEW;

/// Layouts that are kept for another source.
const KEPT_LAYOUTS_MAX: usize = 8;
/// Bytes of such a layout. The names of its fields take up to some seventy times as much.
const KEPT_LAYOUT_BYTES_MAX: usize = 1 << 10;

/// Layouts by which a line is read at most.
const READERS_MAX: usize = 4;
/// From this many misses on, few lines are read by layouts. A line that was read takes one miss away.
const MISSES_MAX: u8 = 24;
/// One line of this many is read by layouts then.
const MISSED_TRIED: u8 = 16;

/// The layouts of a source's recent lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayoutCache {
    templates: Vec<LineTemplate>,
    /// Layouts with what follows them, for sources with envelopes or CRLF: the layout, the rest, both.
    framed: Vec<(Arc<SharedLayout>, String, Arc<SharedLayout>)>,
    churn: u32,
    minutes_east: i64,
    scratch: Vec<u8>,
    whole: Option<(Arc<SharedLayout>, Arc<SharedLayout>)>,
    /// Lines that no reader could read, less those that one could.
    misses: u8,
    untried: u8,
    /// Whether the readers were tried for the next line already.
    is_left: bool,
}

/// The layout by which a line was read, and the range of the whole message.
pub(crate) struct ReadLayout {
    number: usize,
    message: Option<Range<usize>>,
    /// Whether a colon ended the component.
    pub(crate) has_colon: bool,
}

/// The cache is not a part of what a source taught: it changes time and space only.
impl PartialEq for LayoutCache {
    fn eq(&self, _: &LayoutCache) -> bool {
        true
    }
}

/// The layout of a line, what the line has besides, and the time and the level that the layout was made with.
type LaidOut = (Arc<SharedLayout>, FittedLine, (Option<Ticks>, Option<Level>));

/// A record as the source of its line's holes.
struct RecordParts<'r, 'a> {
    record: &'r Record<'a>,
    /// The properties of its fields.
    properties: Vec<Box<str>>,
}

impl<'r, 'a> RecordParts<'r, 'a> {
    fn of(record: &'r Record<'a>) -> RecordParts<'r, 'a> {
        RecordParts { record, properties: properties_of(record) }
    }
}

impl LineSource for RecordParts<'_, '_> {
    fn time(&self) -> Ticks {
        self.record.time.unwrap_or(Ticks::MIN)
    }

    fn level(&self) -> Option<Level> {
        self.record.level
    }

    fn property(&self, name: &str) -> Option<Property<'_>> {
        if name == "Message" {
            return Some(Property::String(&self.record.message));
        }
        let number = self.properties.iter().position(|property| **property == *name)?;
        Some(match &self.record.fields.get(number)?.value {
            Value::String(text) => TypedValue::String(text),
            Value::Int64(number) => TypedValue::Int64(*number),
            Value::Double(number) => TypedValue::Double(*number),
            Value::Boolean(is) => TypedValue::Boolean(*is),
            Value::Binary(bytes) => TypedValue::Binary(bytes),
        })
    }
}

impl LayoutCache {
    /// Reads a line by the layout of an earlier line, if its format may be read: the same record that the parser makes.
    #[inline]
    pub(crate) fn read<'a>(
        &mut self,
        text: &'a str,
        defaults: &TimestampDefaults,
        full_time: FullTime,
        may_be: impl Fn(&LineReader) -> bool,
    ) -> Option<(Parsed<'a>, ReadLayout)> {
        if std::mem::take(&mut self.is_left) {
            return None;
        }
        if self.misses >= MISSES_MAX {
            self.untried = (self.untried + 1) % MISSED_TRIED;
            if self.untried > 0 {
                return None;
            }
        }
        let mut is_missed = false;
        for (number, template) in self.templates.iter_mut().enumerate().take(READERS_MAX) {
            let Some(reader) = template.reader.as_mut() else { continue };
            if !may_be(reader) {
                continue;
            }
            let has_colon = reader.has_colon;
            if let Some((parsed, message)) = reader.read(text, defaults, full_time) {
                self.misses = self.misses.saturating_sub(1);
                return Some((parsed, ReadLayout { number, message, has_colon }));
            }
            is_missed = true;
        }
        self.misses = (self.misses + u8::from(is_missed)).min(MISSES_MAX);
        None
    }

    /// A few short layouts, for lines of another source: what they take may be kept for long. Nothing is known of how well
    /// its lines fit.
    pub(crate) fn for_another_source(self) -> LayoutCache {
        let mut templates = self.templates;
        templates.retain(|template| template.layout.len() <= KEPT_LAYOUT_BYTES_MAX);
        templates.truncate(KEPT_LAYOUTS_MAX);
        templates.shrink_to_fit();
        LayoutCache { templates, minutes_east: self.minutes_east, ..LayoutCache::default() }
    }

    /// Leaves the next line to the parser: no reader could read that line.
    pub(crate) fn leave_next(&mut self) {
        self.is_left = true;
    }

    /// The original text of a record that was read from a line with a newline and nothing else around it.
    #[inline]
    pub(crate) fn read_line<'a>(&mut self, line: &'a str, record: &Record<'_>, read: ReadLayout) -> WrittenLine<'a> {
        let (layout, FittedLine { verbatim, message, .. }, made_with) = self.read_layout(record, read);
        let frame = (layout.len(), 0);
        WrittenLine { layout, verbatim, frame, text: Cow::Borrowed(line), message, made_with }
    }

    /// The original text of a record that was parsed from `text`. `raw` is the record as it lay in its source, if it
    /// was read from a file, and `gap` is empty lines before it.
    pub(crate) fn written<'a>(
        &mut self,
        text: &'a str,
        parsed: &Parsed<'a>,
        raw: Option<&RawRecord<'_>>,
        gap: &str,
        defaults: &TimestampDefaults,
        read: Option<ReadLayout>,
    ) -> WrittenLine<'a> {
        let (layout, fitted, made_with) = match read {
            Some(read) => self.read_layout(&parsed.record, read),
            None => {
                self.layout(text, parsed, whole_message(text, parsed), defaults, raw.is_some_and(RawRecord::is_cut))
            }
        };
        let FittedLine { mut verbatim, has_piece, message } = fitted;
        let frame = (layout.len(), verbatim.len() + usize::from(has_piece));
        let layout = match raw.and_then(|raw| self.frame(raw, text, gap, has_piece, &mut verbatim)) {
            Some(rest) => self.with_frame(layout, rest),
            None => layout,
        };
        WrittenLine { layout, verbatim, frame, text: Cow::Borrowed(text), message, made_with }
    }

    /// The original text of a record whose secrets were replaced. The bytes around the line are kept if they are ends of
    /// lines. `text` is the line before.
    pub(crate) fn clean<'a>(
        &mut self,
        line: CleanLine,
        text: &str,
        raw: Option<&RawRecord<'_>>,
        gap: &str,
    ) -> WrittenLine<'a> {
        let CleanLine { text: clean, message } = line;
        let (mut layout, verbatim) = whole_line(&clean, message.clone());
        let frame = (layout.len(), verbatim.len() + 1);
        let is_kept = |raw: &&RawRecord<'_>| !raw.is_mixed && raw.before.iter().all(u8::is_ascii_whitespace);
        let around = raw.filter(is_kept).and_then(|raw| self.frame(raw, text, gap, true, &mut String::new()));
        layout.push_str(&around.filter(|around| !around.starts_with("%/")).unwrap_or_default());
        let layout = Arc::new(layout.as_str().into());
        WrittenLine { layout, verbatim, frame, text: Cow::Owned(clean), message, made_with: (None, None) }
    }

    /// The layout by which a line was read.
    fn read_layout(&mut self, record: &Record<'_>, ReadLayout { number, message, .. }: ReadLayout) -> LaidOut {
        let template = &self.templates[number];
        let fitted = FittedLine { message, ..FittedLine::default() };
        let found = (template.layout.clone(), fitted, template.made_with(record));
        self.found(number);
        found
    }

    /// Notes that a line has a known layout, and tries that one earlier the next time.
    fn found(&mut self, number: usize) {
        self.churn = self.churn.saturating_sub(1);
        if number > 0 && self.templates[number - 1].pieces() == self.templates[number].pieces() {
            self.templates.swap(number, number - 1);
        }
    }

    fn layout(
        &mut self,
        text: &str,
        parsed: &Parsed<'_>,
        message: Option<Range<usize>>,
        defaults: &TimestampDefaults,
        is_cut: bool,
    ) -> LaidOut {
        let record = &parsed.record;
        // The layout of a cut line fits no other line, and a line that it did fit could not be read by it.
        let known = if is_cut { 0 } else { self.templates.len() };
        for number in 0..known {
            let template = &mut self.templates[number];
            let Some(fitted) = template.fit(text, record, &mut self.scratch).filter(|fit| fit.message == message)
            else {
                continue;
            };
            let found = (template.layout.clone(), fitted, template.made_with(record));
            let (is_doubtful, pieces) = (template.is_doubtful(), template.pieces());
            if is_doubtful && let Some(better) = self.new_layout(text, parsed, message.as_ref(), pieces, defaults) {
                return better;
            }
            self.found(number);
            return found;
        }
        if is_cut {
            // It is kept whole.
        } else if self.churn < CHURN_MAX {
            self.churn += CHURN_OF_NEW;
            if let Some(new) = self.new_layout(text, parsed, message.as_ref(), usize::MAX, defaults) {
                return new;
            }
        } else {
            self.churn -= 1;
        }
        let (layout, verbatim) = whole_line(text, message.clone());
        let (plain, marked) = self.whole.get_or_insert_with(|| (Arc::new("%v".into()), Arc::new("%v%<%v%>%v".into())));
        let layout = if *layout == ***plain { plain.clone() } else { marked.clone() };
        (layout, FittedLine { verbatim, has_piece: true, message }, (None, None))
    }

    /// A new layout with fewer verbatim pieces than `pieces`, if it gives the very line.
    fn new_layout(
        &mut self,
        text: &str,
        parsed: &Parsed<'_>,
        message: Option<&Range<usize>>,
        pieces: usize,
        defaults: &TimestampDefaults,
    ) -> Option<LaidOut> {
        let record = &parsed.record;
        let rule = if self.churn < CHURN_OF_DIGITS { GapRule::Literal } else { GapRule::Digits };
        let made = make(text, parsed, message, self.minutes_east, rule);
        let is_hole = |part: &&LinePart| !matches!(part, LinePart::Literal(_));
        let holes: Vec<_> = made.places.into_iter().zip(made.parts.iter().filter(is_hole).cloned()).collect();
        let mut template = LineTemplate::new(&made.layout, made.parts, record, properties_of(record));
        if template.pieces() >= pieces || made.layout.len() > LAYOUT_BYTES_MAX {
            return None;
        }
        let layout = LineLayout::parse(&made.layout);
        let mut written = Vec::with_capacity(text.len());
        let place = layout.write_line(&RecordParts::of(record), &made.verbatim, &mut written);
        if written != text.as_bytes() || place.as_ref() != message {
            return None;
        }
        self.minutes_east = template.minutes_east().unwrap_or(self.minutes_east);
        let fitted = FittedLine { verbatim: made.verbatim, has_piece: template.pieces() > 0, message: place };
        let found = (template.layout.clone(), fitted, template.made_with(record));
        if template.pieces() == 0 {
            template.reader = reader_plan::reader(text, parsed, &holes, defaults).map(Box::new);
        }
        self.remember(template);
        Some(found)
    }

    /// Remembers a layout. Layouts with fewer verbatim pieces come first: one odd number leaves a layout that would keep
    /// the numbers of all later lines as text. Within as many pieces, the new layout is the second, or the first if it
    /// writes numbers with the zeros that its line showed.
    fn remember(&mut self, template: LineTemplate) {
        let with = |pieces: usize| move |known: &LineTemplate| known.pieces() < pieces;
        if self.templates.len() == TEMPLATES_MAX {
            // The last of those without a piece, or of those with one, whichever are more.
            let exact = self.templates.partition_point(with(1));
            let removed = if exact > TEMPLATES_MAX / 2 { exact } else { TEMPLATES_MAX };
            self.templates.remove(removed - 1);
        }
        let first = self.templates.partition_point(with(template.pieces()));
        let end = self.templates.partition_point(with(template.pieces() + 1));
        let after = usize::from(!template.has_decimals());
        self.templates.insert(end.min(first + after), template);
    }

    /// What follows the layout of the line: the frame, and the bytes around the record. `None` if the source has just
    /// the line and a newline.
    fn frame(
        &mut self,
        raw: &RawRecord<'_>,
        text: &str,
        gap: &str,
        has_piece: bool,
        verbatim: &mut String,
    ) -> Option<String> {
        let RawRecord { before, written, .. } = *raw;
        let is_borrowed = std::ptr::eq(text.as_ptr(), written.as_ptr());
        if is_borrowed && before.is_empty() && gap.is_empty() && written.get(text.len()..) == Some(b"\n") {
            return None;
        }
        let mut rest = String::new();
        if raw.is_mixed {
            rest.push_str("%@");
            if !written.is_empty() {
                rest.push_str("%v");
                push_pieces(has_piece, verbatim, [written.to_vec()]);
            }
        }
        // Of a line over the limit only the first bytes are kept.
        let after = if raw.is_mixed || raw.cut.is_some() || written.is_empty() {
            Cow::Borrowed(b"\n".as_slice())
        } else {
            self.frame_of(raw, text, has_piece, verbatim, &mut rest)
        };
        // Bytes between records are empty lines, perhaps with an envelope.
        if let Ok(before) = str::from_utf8(before)
            && !(gap.is_empty() && before.is_empty())
        {
            rest.push_str("%^");
            rest.push_str(gap);
            push_literal(&mut rest, before);
        }
        if after != b"\n".as_slice()
            && let Ok(after) = str::from_utf8(&after)
        {
            rest.push_str("%$");
            push_literal(&mut rest, after);
        }
        (!rest.is_empty()).then_some(rest)
    }

    /// Appends the frame, and returns the bytes after it.
    fn frame_of<'w>(
        &mut self,
        raw: &RawRecord<'w>,
        text: &str,
        has_piece: bool,
        verbatim: &mut String,
        rest: &mut String,
    ) -> Cow<'w, [u8]> {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        let mut written = raw.written;
        if let Some(unmarked) = written.strip_prefix(MARK).filter(|_| !text.as_bytes().starts_with(MARK)) {
            rest.push_str("%^\u{feff}");
            written = unmarked;
        }
        if let Some(after) = written.strip_prefix(text.as_bytes()).filter(|after| is_line_end(after)) {
            return Cow::Borrowed(after);
        }
        // The mark comes after the frame.
        let before = std::mem::take(rest);
        let ends = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let end = written.len() - written.iter().rev().take_while(|byte| ends(byte)).count();
        let (body, mut after) = written.split_at(end);
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        if let Some(length) = crlf_length(written, text) {
            rest.push_str("%/%2");
            after = &written[length..];
        } else if let Some(length) = lossy_length(written, text) {
            rest.push_str("%/%3");
            after = &written[length..];
            pieces.push(invalid_piece(&written[..length]));
        } else if !self.envelope_of(raw, body, text, rest, &mut pieces) {
            rest.push_str("%/%v");
            pieces.push(body.to_vec());
        }
        push_pieces(has_piece, verbatim, pieces);
        rest.push_str(&before);
        Cow::Borrowed(after)
    }

    /// The frame of a line that a container runtime wrote.
    fn envelope_of(
        &mut self,
        raw: &RawRecord<'_>,
        body: &[u8],
        text: &str,
        rest: &mut String,
        pieces: &mut Vec<Vec<u8>>,
    ) -> bool {
        let (Some(time), Ok(body)) = (raw.envelope.time, str::from_utf8(body)) else { return false };
        let place = place_of(body, text).filter(|at| !at.is_empty()).map(|at| (FrameForm::Plain, at));
        let escaped = || {
            [(FrameForm::Json, false), (FrameForm::GoJson, true)].into_iter().find_map(|(form, is_go)| {
                let mut written = Vec::with_capacity(text.len() + 16);
                escape_json(text.as_bytes(), is_go, &mut written);
                let at = memmem::find(body.as_bytes(), &written)?;
                Some((form, at..at + written.len()))
            })
        };
        let Some((form, at)) = place.or_else(escaped) else { return false };
        let mut has_time = false;
        let (head, tail) = (&body[..at.start], &body[at.end..]);
        rest.push_str("%/");
        for (number, part) in [head, tail].into_iter().enumerate() {
            if number > 0 {
                rest.push('%');
                rest.push(char::from(b'0' + form as u8));
            }
            let bytes = part.as_bytes();
            let begins =
                |at: &usize| bytes[*at].is_ascii_digit() && (*at == 0 || !bytes[*at - 1].is_ascii_alphanumeric());
            let learn = |at: usize| TimePattern::learn(&bytes[at..], time, 0).map(|(_, length)| (at, length));
            let found = (0..bytes.len()).filter(begins).find_map(learn).filter(|_| !has_time);
            let Some((at, length)) = found else {
                push_literal(rest, part);
                continue;
            };
            has_time = true;
            let end = at + length;
            let digits = bytes[end..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            push_literal(rest, &part[..at]);
            rest.push_str("%v");
            pieces.push(bytes[at..end + digits].to_vec());
            push_literal(rest, &part[end + digits..]);
        }
        true
    }

    fn with_frame(&mut self, layout: Arc<SharedLayout>, rest: String) -> Arc<SharedLayout> {
        let known = self.framed.iter().find(|(line, known, _)| Arc::ptr_eq(line, &layout) && *known == rest);
        if let Some((_, _, both)) = known {
            return both.clone();
        }
        if self.framed.len() == TEMPLATES_MAX {
            self.framed.clear();
        }
        let both = Arc::new(layout.followed_by(&rest));
        self.framed.push((layout, rest, both.clone()));
        both
    }
}

/// Whether the bytes around a line, which are kept with it, may have a secret. Lines of several records that come by
/// turns have those of the others, too.
pub(crate) fn has_secret_around(redactor: &Redactor, raw: &RawRecord<'_>, text: &str) -> bool {
    let RawRecord { before, written, .. } = *raw;
    if raw.is_mixed {
        return true;
    }
    let is_line = std::ptr::eq(text.as_ptr(), written.as_ptr()) && written.get(text.len()..).is_some_and(is_line_end);
    let around = match str::from_utf8(written).ok().and_then(|written| Some((written, place_of(written, text)?))) {
        _ if is_line || written.is_empty() => [&[][..], &[]],
        Some((written, at)) => [&written.as_bytes()[..at.start], &written.as_bytes()[at.end..]],
        None => [written, &[]],
    };
    let has_more = |bytes: &&&[u8]| !bytes.iter().all(u8::is_ascii_whitespace);
    [before, around[0], around[1]].iter().filter(has_more).any(|bytes| redacted::has_secret(redactor, bytes))
}

/// Appends pieces to a verbatim text, which may have pieces.
fn push_pieces(mut has_piece: bool, verbatim: &mut String, pieces: impl IntoIterator<Item = Vec<u8>>) {
    for piece in pieces {
        if has_piece {
            verbatim.push(PIECE_END);
        }
        has_piece = true;
        push_piece(verbatim, &piece);
    }
}

/// Whether bytes are ends of lines only.
fn is_line_end(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
}

/// The length of a text in bytes that have CRLF for its newlines.
fn crlf_length(written: &[u8], text: &str) -> Option<usize> {
    if !text.contains('\n') {
        return None;
    }
    let mut at = 0;
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            at += written.get(at..)?.starts_with(b"\r\n").then_some(2)?;
        }
        at += written.get(at..)?.starts_with(line.as_bytes()).then_some(line.len())?;
    }
    is_line_end(&written[at..]).then_some(at)
}

/// The length of a text in bytes that are not UTF-8.
fn lossy_length(written: &[u8], text: &str) -> Option<usize> {
    let (mut at, mut rest) = (0, text);
    for chunk in written.utf8_chunks() {
        let valid = chunk.valid();
        if rest.len() <= valid.len() {
            let is_end = valid.starts_with(rest);
            return (is_end && is_line_end(&written[at + rest.len()..])).then_some(at + rest.len());
        }
        rest = rest.strip_prefix(valid)?;
        at += valid.len();
        if !chunk.invalid().is_empty() {
            rest = rest.strip_prefix('\u{fffd}')?;
            at += chunk.invalid().len();
        }
    }
    (rest.is_empty() && is_line_end(&written[at..])).then_some(at)
}

/// Where the whole message lies, if it is more than the message of the record: pairs and objects at the end of a line
/// for people are a part of its message, although they became fields.
fn whole_message(text: &str, parsed: &Parsed<'_>) -> Option<Range<usize>> {
    // In these formats a message is one value of several, and the details of PostgreSQL have lines of their own.
    let is_value = matches!(
        parsed.format,
        Format::Plain
            | Format::Json
            | Format::Logfmt
            | Format::Csv
            | Format::W3c
            | Format::Access
            | Format::Haproxy
            | Format::Ltsv
            | Format::Postgresql
            | Format::Explicit
    );
    if is_value {
        return None;
    }
    let Cow::Borrowed(message) = &parsed.record.message else { return None };
    let mut at = place_of(text, message)?;
    let end = text.trim_end().len();
    if text[at.end..].starts_with('"') {
        // klog quotes a message before pairs; elsewhere a quoted message is the value of a pair.
        let is_quoted = parsed.format == Format::Klog && text[..at.start].ends_with('"');
        at = is_quoted.then_some(at.start - 1..at.end + 1)?;
    }
    (at.end < end && !text[at.end..end].trim_start().is_empty()).then_some(at.start..end)
}

#[cfg(test)]
mod reader_tests;
#[cfg(test)]
mod redacted_tests;
#[cfg(test)]
mod tests;
