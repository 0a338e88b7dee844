//! The time of a line, and the tokens before the time.

use super::LineHeader;
use crate::layout::shape::{
    self, NameShape, Token, WordKind, closing, is_capital, is_dotted, is_number, kinds, kinds_of, level_word, name,
    token,
};
use crate::pairs::{skip_spaces, typed};
use crate::timestamp::zone::Zone;
use crate::timestamp::{self, Form, Stamp, TimestampDefaults};
use daytable_model::record::Level;
use daytable_model::time::{TICKS_PER_DAY, TICKS_PER_SECOND, Ticks};

/// Tokens before the time.
const LEAD_MAX: usize = 8;
/// Tokens before a time of day without a date.
const CLOCK_LEAD_MAX: usize = 2;
/// Days that the same point in time may be apart in two zones.
const ZONES_APART: i64 = 2;

impl<'a> LineHeader<'a> {
    /// Whether a line has a time near its start. Cheaper than reading the header.
    pub(in crate::layout) fn is_timed(line: &'a str, defaults: &TimestampDefaults) -> bool {
        let mut header = LineHeader::at(line, beginning(line.as_bytes()));
        let (mut is_numbered, mut is_cell) = (false, false);
        for place in 0..=LEAD_MAX {
            if header.stamp_at(header.at, defaults).is_some()
                || header.bracketed(defaults).is_some()
                || place == 0 && header.level_at_bracket(defaults)
            {
                return true;
            }
            let Some(token) =
                token(line, header.at).filter(|token| may_lead(line, token, place, is_numbered || is_cell))
            else {
                return false;
            };
            is_numbered |= place == 0 && matches!(token.kind, WordKind::Number(_));
            is_cell = is_bar(line, &token);
            header.at = token.end;
            header.skip();
        }
        false
    }

    pub(super) fn time(&mut self, defaults: &TimestampDefaults) -> Option<()> {
        if let Some(stamp) = self.stamp_at(self.at, defaults) {
            self.take_stamp(stamp);
            return if self.form == Form::Epoch { self.civil(defaults) } else { Some(()) };
        }
        if self.bracketed(defaults).is_some() || self.level_at_bracket(defaults) {
            return Some(());
        }
        self.has_lead = true;
        let mut lead: [Option<Token<'a>>; LEAD_MAX] = [None; LEAD_MAX];
        for place in 0..if self.by_clock { CLOCK_LEAD_MAX } else { LEAD_MAX } {
            let is_numbered = matches!(lead[0], Some(Token { kind: WordKind::Number(_), .. }));
            let is_cell = place > 0 && lead[place - 1].is_some_and(|last| is_bar(self.line, &last));
            let token =
                token(self.line, self.at).filter(|token| may_lead(self.line, token, place, is_numbered || is_cell))?;
            // `0000-00-00 00:00:00 INFO text` has a date, but none that exists.
            let is_digits = || {
                matches!(token.kind, WordKind::Word(word) if word.as_bytes()[0].is_ascii_digit()
                    || word.bytes().filter(u8::is_ascii_digit).count() > 5)
            };
            if self.by_clock && is_digits() {
                return None;
            }
            lead[place] = Some(token);
            self.at = token.end;
            self.skip();
            // `+0100 2025-11-21 09:00:01`: a zone stands before the date.
            let zone = lead[0].filter(|_| place == 0).and_then(|first| {
                let minutes = timestamp::whole_offset(self.line.get(first.start..first.end)?)?;
                Some(TimestampDefaults { zone: Zone::Offset(i16::try_from(minutes).ok()?), ..*defaults })
            });
            let found = match self.stamp_at(self.at, zone.as_ref().unwrap_or(defaults)) {
                Some(stamp) => {
                    self.take_stamp(stamp);
                    if self.form == Form::Epoch { self.civil(defaults) } else { Some(()) }
                }
                None => self.bracketed(defaults),
            };
            if found.is_some() {
                self.add_lead(lead.iter().flatten());
                return Some(());
            }
        }
        None
    }

    /// `ERROR[11-21|08:00:00.123] text`: a level that touches the bracket of the time.
    fn level_at_bracket(&mut self, defaults: &TimestampDefaults) -> bool {
        let start = self.at;
        let length =
            self.bytes().get(start..).map_or(0, |rest| rest.iter().take_while(|b| b.is_ascii_uppercase()).count());
        if length < 3 || self.bytes().get(start + length) != Some(&b'[') {
            return false;
        }
        let Some(level) = self.line.get(start..start + length).and_then(Level::from_word) else { return false };
        self.at = start + length;
        if self.bracketed(defaults).is_none() {
            self.at = start;
            return false;
        }
        self.sketch.level(level, start, start + length);
        true
    }

    /// A timestamp that ends at a word border.
    #[inline]
    pub(in crate::layout) fn stamp_at(&self, at: usize, defaults: &TimestampDefaults) -> Option<Stamp> {
        let stamp = self.read_stamp(self.bytes().get(at..)?, defaults)?;
        self.is_border(at, &stamp).then_some(stamp)
    }

    /// Whether a word ends where the timestamp at `at` does.
    #[inline]
    pub(super) fn is_border(&self, at: usize, stamp: &Stamp) -> bool {
        match self.bytes().get(at + stamp.length) {
            _ if self.by_clock && self.bytes().get(at + stamp.length..).is_some_and(is_in_thousands) => false,
            None | Some(b' ' | b'\t' | b'|' | b',' | b';') => true,
            Some(b':') if stamp.form != Form::Epoch => true,
            // `1763712001: text`, at the very start.
            Some(b':') => at == 0 && self.bytes().get(stamp.length + 1) == Some(&b' '),
            _ => false,
        }
    }

    fn read_stamp(&self, text: &[u8], defaults: &TimestampDefaults) -> Option<Stamp> {
        if self.by_clock { timestamp::clock_at_start(text, defaults) } else { timestamp::at_start(text, defaults) }
    }

    pub(in crate::layout) fn take_stamp(&mut self, stamp: Stamp) {
        self.sketch.stamp(self.at, stamp);
        self.form = stamp.form;
        self.at += stamp.length;
        self.skip_mark();
    }

    /// Skips the mark after a time.
    fn skip_mark(&mut self) {
        self.after_time = self.at;
        match self.bytes().get(self.at) {
            Some(mark @ (b',' | b':' | b'|' | b';')) => {
                self.mark = *mark;
                self.at += 1;
            }
            _ => {
                let rest = skip_spaces(self.bytes(), self.at);
                if self.bytes().get(rest) == Some(&b'|') {
                    self.mark = b'|';
                    self.at = rest + 1;
                }
            }
        }
    }

    /// After seconds since the epoch, a time in the form for people may follow. That time gives its fraction. Its
    /// other digits are used only if they differ; the seconds of the epoch have no time zone to guess.
    fn civil(&mut self, defaults: &TimestampDefaults) -> Option<()> {
        let Some(epoch) = self.sketch.time else { return Some(()) };
        let defaults = TimestampDefaults { seen: epoch, ..*defaults };
        let mut at = skip_spaces(self.bytes(), self.at);
        let mut between: [Option<Token<'a>>; 3] = [None; 3];
        for place in 0..=between.len() {
            if let Some(stamp) = self.stamp_at(at, &defaults).filter(|stamp| stamp.form != Form::Epoch) {
                // Digits that are another point in time are an identifier.
                let is_other =
                    stamp.form != Form::Bsd && (stamp.time.get() - epoch.get()).abs() > ZONES_APART * TICKS_PER_DAY;
                if is_other {
                    let digits =
                        self.bytes()[..self.after_time].iter().rev().take_while(|b| b.is_ascii_digit()).count();
                    if let Some(number) = self.line.get(self.after_time - digits..self.after_time) {
                        self.sketch.text("context", number);
                    }
                    self.at = at;
                    self.has_lead = true;
                    self.take_stamp(stamp);
                    self.add_lead(between.iter().flatten());
                    return Some(());
                }
                let fraction = stamp.time.get() % TICKS_PER_SECOND;
                let is_whole = epoch.get() % TICKS_PER_SECOND == 0;
                let time = Ticks::new(epoch.get() + if is_whole { fraction } else { 0 }).unwrap_or(epoch);
                self.sketch.stamp(at, Stamp { time, ..stamp });
                self.form = if stamp.form == Form::Bsd { Form::Bsd } else { Form::Other };
                self.at = at + stamp.length;
                self.skip_mark();
                self.add_lead(between.iter().flatten().filter(|token| !is_date(token)));
                return Some(());
            }
            let Some(token) =
                token(self.line, at).filter(|token| place < between.len() && may_lead(self.line, token, place, false))
            else {
                break;
            };
            between[place] = Some(token);
            at = skip_spaces(self.bytes(), token.end);
        }
        Some(())
    }

    /// A time in brackets, with the other parts inside the brackets.
    pub(super) fn bracketed(&mut self, defaults: &TimestampDefaults) -> Option<()> {
        let open = self.at;
        if !matches!(self.bytes().get(open), Some(b'[' | b'(' | b'<' | b'{')) {
            return None;
        }
        let close = closing(self.bytes(), open)?;
        let mut at = skip_spaces(self.bytes(), open + 1);
        let mut early = None;
        let inner = |at: usize| self.line.get(at..close);
        let mut stamp = self.read_stamp(inner(at)?.as_bytes(), defaults);
        if stamp.is_none() {
            // `[I 161121 08:00:00 web:1946]`, and `[1234:5678:1121/080000.123:INFO:file.cc(12)]`.
            let word = inner(at)?.split([' ', '\t']).next()?;
            if let Some(level) = level_word(word).or_else(|| crate::level_names::foreign(word, true)) {
                early = Some((level, at, at + word.len()));
                at = skip_spaces(self.bytes(), at + word.len());
            } else if let [letter @ b'D'..=b'W', b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b'0'..=b'9'] = word.as_bytes() {
                // `[W1121 08:00:01.123 file.cpp:12] text`
                early = Some((shape::letter(*letter)?, at, at + 1));
                at += 1;
            } else if word.contains(',') {
                // `[ 1234, 1,08:00:01.123,INF] text`
                for _ in 0..2 {
                    let number = inner(at)?.split(',').next().filter(|piece| is_number(piece));
                    at = number.map_or(at, |number| skip_spaces(self.bytes(), at + number.len() + 1));
                }
            } else {
                let numbers = word.split(':').take(2).take_while(|piece| is_number(piece));
                at += numbers.map(|piece| piece.len() + 1).sum::<usize>();
            }
            stamp = self.read_stamp(inner(at)?.as_bytes(), defaults);
        }
        let stamp = stamp?;
        let after = inner(at + stamp.length)?;
        let is_uptime = self.by_clock && is_in_thousands(after.as_bytes());
        if is_uptime
            || after.bytes().next().is_some_and(|byte| !matches!(byte, b' ' | b'\t' | b',' | b':' | b'|' | b'#'))
        {
            return None;
        }
        for piece in self.line.get(open + 1..at)?.split([':', ',']).map(str::trim).filter(|piece| is_number(piece)) {
            self.sketch.pid(piece);
        }
        if let Some((level, start, end)) = early {
            self.sketch.level(level, start, end);
        }
        self.sketch.stamp(at, stamp);
        self.form = stamp.form;
        let mut from = at + stamp.length;
        while let Some(piece) = self.line.get(from..close).filter(|piece| !piece.is_empty()) {
            let length = piece.find([' ', '\t', ',', '|']).unwrap_or(piece.len());
            self.within_brackets(from, piece.get(..length)?);
            from += length + 1;
        }
        self.at = close + 1;
        self.skip_mark();
        Some(())
    }

    /// A part after the time inside its brackets.
    fn within_brackets(&mut self, start: usize, piece: &'a str) {
        let mut place = start + piece.len() - piece.trim_start_matches(':').len();
        let mut piece = piece.trim_matches(':');
        // `[2025-11-21 08:00:01 [ERROR]] text`
        if let Some(inner) = piece.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
            (piece, place) = (inner, place + 1);
        }
        if let Some((word, rest)) = piece.split_once(':')
            && let Some(level) = Level::from_word(word).filter(|_| self.sketch.level.is_none())
        {
            self.sketch.level(level, place, place + word.len());
            place += word.len() + 1;
            piece = rest;
        }
        if let Some((file, line)) = shape::source(piece).filter(|_| !piece.contains("::")) {
            return self.sketch.source(file, line);
        }
        for (number, part) in piece.split('/').enumerate() {
            match level_word(part) {
                _ if part.is_empty() || part == "-" => {}
                Some(level) if self.sketch.level.is_none() => self.sketch.level(level, place, place + part.len()),
                _ if is_number(part.trim_start_matches('#')) && part.len() > 1 => {
                    self.sketch.pid(part.trim_start_matches('#'));
                }
                _ if number > 0 => self.sketch.thread(part),
                _ if name(part) != NameShape::Never => self.numbered_component(part),
                _ => self.sketch.text("context", part),
            }
            place += part.len() + 1;
        }
    }

    /// A component with an optional source line after it, as in `web:1946`.
    pub(super) fn numbered_component(&mut self, word: &'a str) {
        match word.rsplit_once(':').filter(|(name, line)| is_number(line) && !name.is_empty()) {
            Some((name, line)) => {
                self.sketch.component(name);
                self.sketch.add("line", typed(line));
            }
            None => self.sketch.component(word),
        }
    }

    /// Adds the tokens before the time.
    fn add_lead<'t>(&mut self, lead: impl Iterator<Item = &'t Token<'a>>)
    where
        'a: 't,
    {
        let mut is_numbered = false;
        for token in lead {
            match token.kind {
                WordKind::Dash => {}
                WordKind::Number(number) => {
                    is_numbered = true;
                    self.sketch.text("context", number);
                }
                WordKind::Tagged(name, pid) => {
                    self.sketch.component(name);
                    self.sketch.pid(pid);
                }
                WordKind::Source(file, line) => self.sketch.source(file, line),
                WordKind::Group(inner) => {
                    // `[node-1:cardano.node.Chain:Error:35]`, `[INFO|trainer.py:1969]`
                    let parts = inner.split([':', '|']).enumerate();
                    let level = parts
                        .filter(|(place, part)| *place > 0 || is_capital(kinds_of(part)))
                        .find_map(|(_, part)| Some((Level::from_word(part)?, part)));
                    if let Some((level, part)) = level.filter(|_| self.sketch.level.is_none()) {
                        let start = token.start + 1 + (part.as_ptr() as usize - inner.as_ptr() as usize);
                        self.sketch.level(level, start, start + part.len());
                    }
                    self.group(token, inner);
                }
                WordKind::Word(word) => match level_word(word) {
                    Some(level) if self.sketch.level.is_none() && !(word.len() == 1 && self.has_day_of_year()) => {
                        self.sketch.level(level, token.start, token.start + word.len());
                    }
                    _ if is_dotted(word) || is_numbered && self.sketch.has_host => self.sketch.component(word),
                    _ if is_host(token.kinds) && !word.contains(".log") => self.sketch.host(word),
                    _ => self.sketch.text("context", word),
                },
            }
        }
    }

    /// Whether the date is the day of a year of two digits, as in the log of a mainframe, which begins with the kind of a record:
    /// `N 4000000 SYS1     25325 08:00:01.12 text`.
    fn has_day_of_year(&self) -> bool {
        let stamp = self.line.get(..self.after_time).unwrap_or_default();
        stamp.rsplit(' ').nth(1).is_some_and(|date| date.len() == 5 && is_number(date))
    }
}

/// Whether a token may stand before a time: an ordinary word may not, unless a name and `|` follow, or the word is the first
/// and a whole date follows: `cluster 2025-11-21T08:00:02.123456+0000 text`.
///
/// After a number at the start of the line (a line number) and after a bar, ordinary words may stand too:
/// `INFO   | jvm 1    | main    | 2025/11/21 08:00:01 | text`.
fn may_lead(line: &str, token: &Token<'_>, place: usize, is_numbered: bool) -> bool {
    match token.kind {
        WordKind::Word(word) => {
            let is_level = || place == 0 && Level::from_word(word).is_some();
            let is_label = is_capital(token.kinds) && (word.len() > 1 || place == 0 && level_word(word).is_some());
            let is_name =
                token.kinds & (kinds::DIGIT | kinds::DOT | kinds::UNDERSCORE | kinds::DASH | kinds::SLASH) != 0;
            let is_before_date = || {
                let next = line.as_bytes().get(token.end..).unwrap_or_default();
                matches!(
                    next,
                    [b' ', b'1'..=b'2', b'0'..=b'9', _, _, b'-', _, _, b'-', b'0'..=b'9', b'0'..=b'9', b'T', ..]
                )
            };
            let is_column = token.kinds == kinds::LOWER && (is_numbered || place == 0 && is_before_date())
                // `PoolThread #3 08:00:01`
                || place == 0 && token.kinds == kinds::LOWER | kinds::UPPER && name(word) == NameShape::Surely;
            let is_prose = token.kinds & kinds::PROSE != 0
                || token.mark == b':'
                // Cells.
                || token.kinds & kinds::OTHER != 0 && word.bytes().filter(|byte| *byte == b',').count() > 1
                || token.kinds & kinds::SLASH != 0 && word.contains("://");
            let is_sign = place == 0 && word.len() == 1 && !word.as_bytes()[0].is_ascii_alphanumeric();
            (is_label || is_name || is_column) && !is_prose || is_level() || is_sign
        }
        WordKind::Group(inner) => inner.len() < 64,
        _ => true,
    }
}

/// Whether a token is the bar between two columns.
fn is_bar(line: &str, token: &Token<'_>) -> bool {
    line.get(token.start..token.end) == Some("|")
}

/// Whether thousandths go on behind a comma: `00:00:01.234,567` counts from the start of a device.
fn is_in_thousands(after: &[u8]) -> bool {
    matches!(after, [b',', b'0'..=b'9', ..])
}

/// The place at which the header of a line begins: behind spaces, and behind the sign of a device whose clock is in doubt
/// (`*Nov 21 08:00:01.123: %LINK-3-UPDOWN: text`).
pub(super) fn beginning(bytes: &[u8]) -> usize {
    let at = skip_spaces(bytes, 0);
    at + usize::from(matches!(bytes.get(at..), Some([b'*' | b'.', b'A'..=b'Z', b'a'..=b'z', ..])))
}

/// A date without a time, next to a time with the same date.
fn is_date(token: &Token<'_>) -> bool {
    let WordKind::Word(word) = token.kind else { return false };
    matches!(word.as_bytes(), [_, _, _, _, b'.' | b'-' | b'/', _, _, b'.' | b'-' | b'/', _, _])
        && word.bytes().filter(u8::is_ascii_digit).count() == 8
}

/// Whether a word looks like a host name: letters and digits with marks between them.
fn is_host(kinds: u16) -> bool {
    const OTHERS: u16 =
        kinds::LOWER | kinds::UPPER | kinds::DASH | kinds::DOT | kinds::COLON | kinds::SLASH | kinds::UNDERSCORE;
    kinds & kinds::DIGIT != 0 && kinds & !(OTHERS | kinds::DIGIT) == 0
}
