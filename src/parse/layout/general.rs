//! The general case: a timestamp near the start, perhaps a level, a component, a process, and then the message.
//!
//! No logging library is known by name here. A header is a row of tokens; what a token is, its shape says (`shape`), and
//! what its neighbours are. Three steps, from left to right, none of which goes back further than its own tokens:
//!
//! 1. **The time.** At the start, within the first brackets, or behind at most [`LEAD_MAX`] tokens that are no prose: a
//!    file's name, a host, a number, a level.
//! 2. **The level.** Behind the time, with at most [`BEFORE_LEVEL_MAX`] tokens between that can belong to a header. A level
//!    proves that they do: a number is the process, what is in brackets a thread, the last word the component.
//! 3. **The rest of the header**: threads, source lines, the component, which ends with `:`, or stands before ` - `, or is
//!    padded to a column, or is a dotted name behind the level. Then comes the message.
//!
//! A word before a colon may as well belong to the text (`failed: timeout`). Where its letters do not tell, the lines
//! before do: [`Habits`].

use super::habits::Habits;
use super::shape::{self, Kind, Name, Token, closing, is_dotted, is_number, is_plain, letter, name, token};
use super::sketch::Sketch;
use crate::parse::pairs::{is_space, skip_spaces};
use crate::parse::timestamp::{self, Form, Stamp, Unsaid};
use crate::record::Level;
use crate::time::{TICKS_PER_SECOND, Ticks};
use memchr::memmem;

/// Tokens before the time.
const LEAD_MAX: usize = 6;
/// Tokens between the time and the level.
const BEFORE_LEVEL_MAX: usize = 6;
/// Tokens behind the level, or behind the time where there is none.
const BEHIND_MAX: usize = 8;

/// The header of a line, and how far it is read.
pub(super) struct Header<'a> {
    pub(super) line: &'a str,
    pub(super) at: usize,
    pub(super) sketch: Sketch<'a>,
    pub(super) form: Form,
    /// The mark behind the time: `,`, `:`, `|` or 0.
    mark: u8,
    /// Whether other tokens came before the time.
    has_lead: bool,
    /// Whether a name with a colon stood where a component stands; none where it was not asked.
    pub(super) colon: Option<bool>,
    /// Whether level and component were padded to columns, as in a table.
    pub(super) is_padded: bool,
}

impl<'a> Header<'a> {
    /// The header of a line that has a time near its start.
    pub(super) fn timed(line: &'a str, unsaid: &Unsaid) -> Option<Header<'a>> {
        let mut header = Header::at(line, skip_spaces(line.as_bytes(), 0));
        header.time(unsaid)?;
        Some(header)
    }

    /// A header of which nothing is read yet.
    pub(super) fn at(line: &'a str, at: usize) -> Header<'a> {
        let (sketch, form) = (Sketch::default(), Form::Other);
        Header { line, at, sketch, form, mark: 0, has_lead: false, colon: None, is_padded: false }
    }

    /// Takes the time that comes next, if one does.
    pub(super) fn stamp(&mut self, unsaid: &Unsaid) -> bool {
        match self.stamp_at(self.at, unsaid) {
            Some(stamp) => {
                self.take_stamp(stamp);
                true
            }
            None => false,
        }
    }

    /// Whether a time, at the very start and with a space behind it, is all that was read.
    pub(super) fn has_nothing_else(&self) -> bool {
        self.mark == 0 && !self.has_lead && self.sketch.is_bare() && self.sketch.level.is_none()
    }

    /// The header of a line that begins with a level and has no time.
    pub(super) fn untimed(line: &'a str, at: usize, level: (Level, usize, usize), habits: &Habits) -> Header<'a> {
        let mut header = Header::at(line, at);
        header.sketch.level(level.0, level.1, level.2);
        header.behind(habits);
        header
    }

    fn bytes(&self) -> &'a [u8] {
        self.line.as_bytes()
    }

    fn rest(&self) -> &'a str {
        self.line.get(self.at..).unwrap_or_default()
    }

    pub(super) fn skip(&mut self) {
        self.at = skip_spaces(self.bytes(), self.at);
    }

    // The time.

    fn time(&mut self, unsaid: &Unsaid) -> Option<()> {
        if let Some(stamp) = self.stamp_at(self.at, unsaid) {
            self.take_stamp(stamp);
            return if self.form == Form::Epoch { self.civil(unsaid) } else { Some(()) };
        }
        if self.bracketed(unsaid).is_some() {
            return Some(());
        }
        self.has_lead = true;
        let mut lead: [Option<Token<'a>>; LEAD_MAX] = [None; LEAD_MAX];
        for place in 0..LEAD_MAX {
            let is_numbered = matches!(lead[0], Some(Token { kind: Kind::Number(_), .. }));
            let token = token(self.line, self.at).filter(|token| may_lead(token, place, is_numbered))?;
            lead[place] = Some(token);
            self.at = token.end;
            self.skip();
            let found = match self.stamp_at(self.at, unsaid) {
                Some(stamp) => {
                    self.take_stamp(stamp);
                    if self.form == Form::Epoch { self.civil(unsaid) } else { Some(()) }
                }
                None => self.bracketed(unsaid),
            };
            if found.is_some() {
                self.take_lead(lead.iter().flatten());
                return Some(());
            }
        }
        None
    }

    /// A timestamp that ends as a word does.
    #[inline]
    fn stamp_at(&self, at: usize, unsaid: &Unsaid) -> Option<Stamp> {
        let stamp = timestamp::at_start(self.bytes().get(at..)?, unsaid)?;
        match self.bytes().get(at + stamp.length) {
            None | Some(b' ' | b'\t' | b'|' | b',' | b';') => Some(stamp),
            Some(b':') if stamp.form != Form::Epoch => Some(stamp),
            _ => None,
        }
    }

    fn take_stamp(&mut self, stamp: Stamp) {
        self.sketch.stamp(self.at, stamp);
        self.form = stamp.form;
        self.at += stamp.length;
        self.skip_mark();
    }

    /// The mark that stands behind a time.
    fn skip_mark(&mut self) {
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

    /// Behind seconds since the epoch, a time as people read it may follow. It gives its fraction, and the rest where it
    /// says more than the same: the seconds of the epoch have no zone to be wrong about.
    fn civil(&mut self, unsaid: &Unsaid) -> Option<()> {
        let Some(epoch) = self.sketch.time else { return Some(()) };
        let unsaid = Unsaid { seen: epoch, ..*unsaid };
        let mut at = skip_spaces(self.bytes(), self.at);
        let mut between: [Option<Token<'a>>; 3] = [None; 3];
        for place in 0..=between.len() {
            if let Some(stamp) = self.stamp_at(at, &unsaid).filter(|stamp| stamp.form != Form::Epoch) {
                let fraction = stamp.time.get() % TICKS_PER_SECOND;
                let is_whole = epoch.get() % TICKS_PER_SECOND == 0;
                let time = Ticks::new(epoch.get() + if is_whole { fraction } else { 0 }).unwrap_or(epoch);
                self.sketch.stamp(at, Stamp { time, ..stamp });
                self.form = if stamp.form == Form::Bsd { Form::Bsd } else { Form::Other };
                self.at = at + stamp.length;
                self.skip_mark();
                self.take_lead(between.iter().flatten().filter(|token| !is_date(token)));
                return Some(());
            }
            let Some(token) =
                token(self.line, at).filter(|token| place < between.len() && may_lead(token, place, false))
            else {
                break;
            };
            between[place] = Some(token);
            at = skip_spaces(self.bytes(), token.end);
        }
        Some(())
    }

    /// A time within brackets, and what else is in them.
    fn bracketed(&mut self, unsaid: &Unsaid) -> Option<()> {
        let open = self.at;
        if !matches!(self.bytes().get(open), Some(b'[' | b'(' | b'<')) {
            return None;
        }
        let close = closing(self.bytes(), open)?;
        let mut at = skip_spaces(self.bytes(), open + 1);
        let mut early = None;
        let inner = |at: usize| self.line.get(at..close);
        let mut stamp = timestamp::at_start(inner(at)?.as_bytes(), unsaid);
        if stamp.is_none() {
            // `[I 161121 08:00:00 web:1946]`, and `[1234:5678:1121/080000.123:INFO:file.cc(12)]`.
            let word = inner(at)?.split([' ', '\t']).next()?;
            if let Some(level) = level_word(word) {
                early = Some((level, at, at + word.len()));
                at = skip_spaces(self.bytes(), at + word.len());
            } else {
                let numbers = word.split(':').take(2).take_while(|piece| is_number(piece));
                at += numbers.map(|piece| piece.len() + 1).sum::<usize>();
            }
            stamp = timestamp::at_start(inner(at)?.as_bytes(), unsaid);
        }
        let stamp = stamp?;
        let behind = inner(at + stamp.length)?;
        if behind.bytes().next().is_some_and(|byte| !matches!(byte, b' ' | b'\t' | b',' | b':' | b'|')) {
            return None;
        }
        for piece in self.line.get(open + 1..at)?.split(':').filter(|piece| is_number(piece)) {
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

    /// A piece of what stands behind the time within its brackets.
    fn within_brackets(&mut self, start: usize, piece: &'a str) {
        let mut place = start + piece.len() - piece.trim_start_matches(':').len();
        let mut piece = piece.trim_matches(':');
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
                _ if name(part) != Name::Never => self.numbered_component(part),
                _ => self.sketch.text("context", part),
            }
            place += part.len() + 1;
        }
    }

    /// A component that may have a line of its source behind it, as in `web:1946`.
    fn numbered_component(&mut self, word: &'a str) {
        match word.rsplit_once(':').filter(|(name, line)| is_number(line) && !name.is_empty()) {
            Some((name, line)) => {
                self.sketch.component(name);
                self.sketch.add("line", crate::parse::pairs::typed(line));
            }
            None => self.sketch.component(word),
        }
    }

    /// What stood before the time.
    fn take_lead<'t>(&mut self, lead: impl Iterator<Item = &'t Token<'a>>)
    where
        'a: 't,
    {
        let mut is_numbered = false;
        for token in lead {
            match token.kind {
                Kind::Dash => {}
                Kind::Number(number) => {
                    is_numbered = true;
                    self.sketch.text("context", number);
                }
                Kind::Tagged(name, pid) => {
                    self.sketch.component(name);
                    self.sketch.pid(pid);
                }
                Kind::Source(file, line) => self.sketch.source(file, line),
                Kind::Group(inner) => self.group(token, inner),
                Kind::Word(word) => match level_word(word) {
                    Some(level) if self.sketch.level.is_none() => {
                        self.sketch.level(level, token.start, token.start + word.len());
                    }
                    _ if is_dotted(word) || is_numbered && self.sketch.has_host => self.sketch.component(word),
                    _ if is_host(word) && !word.contains(".log") => self.sketch.host(word),
                    _ => self.sketch.text("context", word),
                },
            }
        }
    }

    // The level.

    pub(super) fn behind_the_time(&mut self, habits: &Habits) {
        if self.mark == b'|' {
            return self.columns();
        }
        self.skip();
        if self.sketch.level.is_none() {
            self.find_level();
        }
        self.behind(habits);
    }

    /// Looks for a level behind the time. Where there is one, what stands before it is a part of the header.
    fn find_level(&mut self) {
        let mut before: [Option<Token<'a>>; BEFORE_LEVEL_MAX] = [None; BEFORE_LEVEL_MAX];
        let (mut at, mut plain, mut dash) = (self.at, 0, self.mark == b',' || self.mark == b':');
        for place in 0..=BEFORE_LEVEL_MAX {
            let Some(token) = token(self.line, at) else { return };
            if let Some((level, start, end)) = self.level_of(&token, plain == 0 && (place == 0 || dash)) {
                self.sketch.level(level, start, end);
                self.is_padded = self.mark == b',' && token.gap > 1;
                self.take_before_level(&before);
                if let Kind::Group(inner) = token.kind {
                    self.beside_level(inner);
                }
                self.at = skip_spaces(self.bytes(), token.end);
                return;
            }
            if place == 0 && self.joined_level(&token) {
                return;
            }
            dash = token.kind == Kind::Dash;
            let may_come = match token.kind {
                Kind::Word(word) => {
                    // One that begins like a sentence counts for two.
                    let is_capital = token.gap < 2 && word.starts_with(|first: char| first.is_ascii_uppercase());
                    plain +=
                        if is_plain(word) { 1 + usize::from(is_capital && !self.is_before_dash(token.end)) } else { 0 };
                    plain < 2 && token.mark != b',' && !word.contains(['=', '"', '{', '?', '!'])
                }
                _ => true,
            };
            if !may_come || place == BEFORE_LEVEL_MAX {
                return;
            }
            before[place] = Some(token);
            at = skip_spaces(self.bytes(), token.end);
        }
    }

    fn is_before_dash(&self, at: usize) -> bool {
        self.bytes().get(skip_spaces(self.bytes(), at)..).is_some_and(|rest| rest.starts_with(b"- "))
    }

    /// Takes `INFO:name:`, which is one word with the beginning of the text.
    fn joined_level(&mut self, token: &Token<'a>) -> bool {
        let Kind::Word(joined) = token.kind else { return false };
        let Some((word, _)) = joined.split_once(':') else { return false };
        let Some(level) = Level::from_word(word).filter(|_| word.bytes().all(|byte| byte.is_ascii_uppercase())) else {
            return false;
        };
        let rest = self.line.get(token.start + word.len() + 1..).unwrap_or_default();
        let Some((component, _)) = rest.split_once(':').filter(|(component, _)| name(component) != Name::Never) else {
            return false;
        };
        self.sketch.level(level, token.start, token.start + word.len());
        self.sketch.component(component);
        self.at = token.start + word.len() + component.len() + 2;
        true
    }

    /// The level that a token is, and where it stands. `may_be_small` where the place is one that levels have, so that it
    /// needs no capitals.
    fn level_of(&self, token: &Token<'a>, may_be_small: bool) -> Option<(Level, usize, usize)> {
        let is_marked = token.mark != 0 || token.gap > 1;
        match token.kind {
            Kind::Word(word) if word.len() == 1 => {
                let level = letter(word.as_bytes()[0])?;
                (may_be_small || self.sketch.has_pid || token.start > self.at).then_some(())?;
                self.goes_on_as_header(token.end).then_some((level, token.start, token.end))
            }
            Kind::Word(word) => {
                let (word, start) = match word.strip_prefix("level=") {
                    Some(word) => (word, token.start + 6),
                    None => (word, token.start),
                };
                let level = Level::from_word(word)?;
                let is_capital = word.bytes().all(|byte| byte.is_ascii_uppercase());
                let is_level = is_capital
                    || may_be_small && (is_marked || is_small_level(word))
                    || token.mark == b':' && may_be_small
                    || start > token.start;
                is_level.then_some((level, start, start + word.len()))
            }
            Kind::Group(inner) => {
                let start = token.start + 1;
                let at = |part: &str| {
                    let offset = self.line.get(start..token.end).and_then(|text| text.find(part)).unwrap_or(0);
                    (start + offset, start + offset + part.len())
                };
                let part = match level_word(inner) {
                    Some(_) => inner,
                    None => inner.split(['/', ':', '|']).find(|part| Level::from_word(part.trim()).is_some())?.trim(),
                };
                let (start, end) = at(part);
                Some((level_word(part)?, start, end))
            }
            _ => None,
        }
    }

    /// Whether what comes behind a letter shows that it is a level: a group, a name with a colon, capitals.
    fn goes_on_as_header(&self, at: usize) -> bool {
        let Some(next) = token(self.line, skip_spaces(self.bytes(), at)) else { return false };
        match next.kind {
            Kind::Group(_) | Kind::Source(..) | Kind::Tagged(..) | Kind::Dash => true,
            Kind::Word(word) => {
                next.mark == b':'
                    || next.gap > 1
                    || word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
            }
            Kind::Number(_) => false,
        }
    }

    fn take_before_level(&mut self, before: &[Option<Token<'a>>]) {
        let is_word = |token: &&Token<'a>| matches!(token.kind, Kind::Word(_) | Kind::Tagged(..));
        let words = before.iter().flatten().filter(is_word).count();
        let mut word_number = 0;
        for token in before.iter().flatten() {
            match token.kind {
                Kind::Dash => {}
                Kind::Number(number) => self.sketch.pid(number),
                Kind::Group(inner) => self.group(token, inner),
                Kind::Source(file, line) => self.sketch.source(file, line),
                Kind::Tagged(name, pid) => {
                    word_number += 1;
                    self.sketch.component(name);
                    self.sketch.pid(pid);
                }
                Kind::Word(word) => {
                    word_number += 1;
                    match () {
                        () if word_number == words => self.sketch.component(word),
                        () if word_number == 1 && !word.starts_with(['#', '+']) => self.sketch.host(word),
                        () => self.sketch.text("context", word),
                    }
                }
            }
        }
    }

    /// What stood in the brackets of a level with it, as in `[main/INFO]` and `[core:error]`.
    fn beside_level(&mut self, inner: &'a str) {
        for part in inner.split(['/', ':', '|']).map(str::trim) {
            if level_word(part).is_none() && !part.is_empty() {
                if inner.contains('/') { self.sketch.thread(part) } else { self.sketch.component(part) }
            }
        }
    }

    // The rest of the header.

    fn behind(&mut self, habits: &Habits) {
        let has_level = self.sketch.level.is_some();
        let mut groups: [Option<Token<'a>>; 4] = [None; 4];
        let mut held = 0;
        let mut message = self.at;
        let (mut dashes, mut is_column) = (0, false);
        for _ in 0..BEHIND_MAX {
            self.skip();
            let Some(token) = token(self.line, self.at) else { break };
            match token.kind {
                Kind::Dash => {
                    self.at = token.end;
                    dashes = token.end - token.start;
                    if held == 0 {
                        message = self.at;
                    }
                }
                Kind::Number(number) => {
                    let next = || self::token(self.line, skip_spaces(self.bytes(), token.end));
                    let counts = has_level && next().is_some_and(|next| next.kind == Kind::Dash)
                        || self.has_lead && !has_level && !self.sketch.has_pid
                        || has_level
                            && !self.sketch.has_pid
                            && next().is_some_and(|next| matches!(next.kind, Kind::Group(_)));
                    if !counts || token.mark != 0 {
                        break;
                    }
                    if has_level {
                        self.sketch.pid(number)
                    } else {
                        self.sketch.text("context", number)
                    }
                    self.at = token.end;
                    message = self.at;
                }
                Kind::Group(inner) => {
                    let first = *self.bytes().get(token.start).unwrap_or(&0);
                    let is_known =
                        is_process(inner) || has_level && (inner.contains('@') || shape::source(inner).is_some());
                    let is_name = has_level && !inner.contains([' ', '=', '"', ',']) && first != b'<';
                    if self.sketch.has_component && !is_column || held == groups.len() || !(has_level || is_known) {
                        break;
                    }
                    groups[held] = Some(token);
                    held += 1;
                    self.at = token.end;
                    // What has spaces in it is a part of the header only where more of a header follows.
                    if is_known || is_name || inner.is_empty() {
                        message = self.at;
                        self.take_groups(&mut groups, &mut held);
                    }
                }
                Kind::Source(file, line) => {
                    if !(token.mark == b':' || has_level) {
                        break;
                    }
                    self.take_groups(&mut groups, &mut held);
                    self.sketch.source(file, line);
                    self.at = token.end;
                    message = self.at;
                }
                Kind::Tagged(name, pid) => {
                    if self.sketch.has_component || !(token.mark == b':' || has_level && token.gap > 1) {
                        break;
                    }
                    self.take_groups(&mut groups, &mut held);
                    self.sketch.component(name);
                    self.sketch.pid(pid);
                    self.at = token.end;
                    message = self.at;
                    break;
                }
                // A letter before the time, and the word for it here.
                Kind::Word(word) if self.has_lead && has_level && Level::from_word(word) == self.sketch.level => {
                    self.at = token.end;
                    message = self.at;
                }
                Kind::Word(word) if dashes == 2 && token.mark == b':' && name(word) != Name::Never => {
                    self.sketch.component(word);
                    message = token.end;
                    break;
                }
                Kind::Word(word) => {
                    let Some(end) = self.component(&token, word, has_level, habits) else { break };
                    self.take_groups(&mut groups, &mut held);
                    self.at = end;
                    message = end;
                    is_column = self.is_between_columns(&token);
                    if !is_column {
                        break;
                    }
                }
            }
        }
        self.at = message;
        self.skip();
    }

    fn take_groups(&mut self, groups: &mut [Option<Token<'a>>; 4], held: &mut usize) {
        for token in groups.iter_mut().filter_map(Option::take) {
            if let Kind::Group(inner) = token.kind {
                self.group(&token, inner);
            }
        }
        *held = 0;
    }

    /// Whether the header may go on behind a component: where that is one of several columns.
    fn is_between_columns(&self, token: &Token<'a>) -> bool {
        token.mark == 0 && self.bytes().get(skip_spaces(self.bytes(), token.end)) == Some(&b'[') && token.gap > 1
    }

    /// Where the header goes on behind a word that is the component; none where it belongs to the message.
    fn component(&mut self, token: &Token<'a>, word: &'a str, has_level: bool, habits: &Habits) -> Option<usize> {
        if self.sketch.has_component {
            return None;
        }
        let next = skip_spaces(self.bytes(), token.end);
        // `request{method=GET path="/a b"}: target: text`: the spans of a trace before the component.
        if let Some(open) = word.find('{').filter(|open| *open > 0)
            && let Some(length) =
                memmem::find(self.rest().as_bytes(), b"}: ").filter(|length| *length < 1024 && *length > open)
        {
            self.sketch.text("span", self.rest().get(..=length)?);
            let after = skip_spaces(self.bytes(), self.at + length + 2);
            let target = self::token(self.line, after);
            if let Some(target) = target.filter(|target| target.mark == b':')
                && let Kind::Word(word) = target.kind
                && name(word) != Name::Never
            {
                self.sketch.component(word);
                return Some(target.end);
            }
            return Some(after);
        }
        let kind = name(word);
        if token.mark == b':' {
            let is_component = kind == Name::Surely || kind == Name::Perhaps && habits.has_colons();
            if kind != Name::Never && has_level {
                self.colon = Some(true);
            }
            if is_component && Level::from_word(word).is_none() {
                self.sketch.component(word);
                return Some(token.end);
            }
            return None;
        }
        if has_level {
            self.colon = Some(false);
        }
        let behind = self.bytes().get(next..)?;
        let before_dash = behind.starts_with(b"- ") || behind.starts_with(b"-- ") || behind.starts_with(b": ");
        if before_dash && (kind != Name::Never || word == "-") {
            self.sketch.component(word);
            return Some(next + behind.iter().take_while(|byte| !is_space(**byte)).count());
        }
        if !has_level {
            // `chrome.exe *64 - text`
            let rest = self.line.get(next..)?;
            let short = self::token(rest, 0)
                .filter(|second| second.end <= 4 && rest.get(second.end..).is_some_and(|rest| rest.starts_with(" - ")));
            if let Some(second) = short.filter(|_| kind == Name::Surely) {
                self.sketch.component(self.line.get(token.start..next + second.end)?);
                return Some(next + second.end + 3);
            }
            return None;
        }
        if kind == Name::Never {
            return None;
        }
        if token.gap > 1 && next < self.line.len() {
            self.sketch.component(word);
            return Some(token.end);
        }
        let is_capital = word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        let first = behind.first();
        if is_dotted(word) || is_capital && first == Some(&b'[') || kind == Name::Surely && word.contains("::") {
            self.sketch.component(word);
            // What a request is known by stands in one group behind the component.
            if first == Some(&b'[')
                && let Some(group) = self::token(self.line, next)
                && let Kind::Group(inner) = group.kind
                && !inner.contains(": ")
            {
                if inner != "-" {
                    self.sketch.text("context", inner);
                }
                return Some(group.end);
            }
            return Some(token.end);
        }
        None
    }

    /// What is in brackets, by its looks.
    fn group(&mut self, token: &Token<'a>, inner: &'a str) {
        let pid = |text: &'a str| -> Option<&'a str> {
            let text = text.trim().trim_start_matches(['#', '<']);
            let text =
                ["pid", "PID", "tid", "TID", "thread"].iter().find_map(|word| text.strip_prefix(word)).unwrap_or(text);
            Some(text.trim_start_matches([' ', ':', '='])).filter(|text| is_number(text))
        };
        if inner.is_empty() || inner == "-" {
            return;
        }
        if let Some(number) = pid(inner) {
            return self.sketch.pid(number);
        }
        if let Some((first, second)) = inner.split_once([':', '#'])
            && let (Some(first), Some(second)) = (pid(first), pid(second))
        {
            self.sketch.pid(first);
            return self.sketch.pid(second);
        }
        if let Some(level) = level_word(inner).filter(|_| self.sketch.level.is_none()) {
            return self.sketch.level(level, token.start, token.end);
        }
        if let Some((file, line)) = shape::source(inner) {
            return self.sketch.source(file, line);
        }
        // `[thread:Class@774]`
        if let Some((before, line)) = inner.rsplit_once('@').filter(|(_, line)| is_number(line)) {
            let (thread, class) = before.rsplit_once(':').unwrap_or(("", before));
            if !thread.is_empty() {
                self.sketch.thread(thread);
            }
            self.sketch.component(class);
            return self.sketch.add("line", crate::parse::pairs::typed(line));
        }
        if inner.contains(": ") {
            return self.sketch.text("context", inner);
        }
        let is_name = is_dotted(inner) && !self.has_component_behind(token.end);
        if is_name && !self.sketch.has_component { self.sketch.component(inner) } else { self.sketch.thread(inner) }
    }

    fn has_component_behind(&self, at: usize) -> bool {
        let next = token(self.line, skip_spaces(self.bytes(), at));
        next.is_some_and(|next| matches!(next.kind, Kind::Word(word) if next.mark == b':' && name(word) != Name::Never))
    }

    // Columns.

    /// What stands between `|`: a level, a number, a name, each at most once; then the message.
    fn columns(&mut self) {
        let mut has_number = false;
        for _ in 0..BEHIND_MAX {
            let Some(length) = self.rest().bytes().position(|byte| byte == b'|') else { break };
            let Some(cell) = self.line.get(self.at..self.at + length).map(str::trim_ascii) else { break };
            let start = skip_spaces(self.bytes(), self.at);
            match level_word(cell) {
                Some(level) if self.sketch.level.is_none() => self.sketch.level(level, start, start + cell.len()),
                _ if is_number(cell) && !has_number => {
                    has_number = true;
                    self.sketch.pid(cell);
                }
                _ if cell.is_empty() => {}
                _ if name(cell) != Name::Never && !self.sketch.has_component => self.sketch.component(cell),
                _ => break,
            }
            self.at += length + 1;
        }
        // `logger:function:12 - text`
        let rest = self.rest().trim_ascii_start();
        let start = self.line.len() - rest.len();
        if !self.sketch.has_component
            && let Some((cell, _)) = rest.split_once(" - ").filter(|(cell, _)| name(cell) == Name::Surely)
        {
            self.numbered_component(cell);
            self.at = start + cell.len() + 3;
        }
    }
}

/// Whether a token may stand before a time: no word of a language, unless a name and `|` follow.
///
/// Behind a number at the start of the line, which numbers the lines, come words too.
fn may_lead(token: &Token<'_>, place: usize, is_numbered: bool) -> bool {
    match token.kind {
        Kind::Word(word) => {
            let is_label = word.bytes().all(|byte| byte.is_ascii_uppercase()) && word.len() > 1;
            let is_letter = word.len() == 1 && letter(word.as_bytes()[0]).is_some() && place == 0;
            let is_name = word.bytes().any(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-' | b'/'));
            let is_level = place == 0 && Level::from_word(word).is_some();
            let is_column = is_numbered && word.bytes().all(|byte| byte.is_ascii_lowercase());
            (is_label || is_letter || is_name || is_level || is_column)
                && !word.contains(['=', '"', '?', '{', '}', ';'])
                && token.mark != b':'
                && !word.contains("://")
                || is_level
        }
        Kind::Group(inner) => inner.len() < 64,
        _ => true,
    }
}

/// A date without a time, which stands beside a time that says the same.
fn is_date(token: &Token<'_>) -> bool {
    let Kind::Word(word) = token.kind else { return false };
    matches!(word.as_bytes(), [_, _, _, _, b'.' | b'-' | b'/', _, _, b'.' | b'-' | b'/', _, _])
        && word.bytes().filter(u8::is_ascii_digit).count() == 8
}

/// Whether a word looks like the name of a machine: letters and digits with marks between them.
fn is_host(word: &str) -> bool {
    word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':' | b'/' | b'_'))
}

fn is_process(inner: &str) -> bool {
    let number = |text: &str| {
        let text = text.trim_start_matches('#');
        is_number(text)
            || ["pid ", "PID:", "pid:", "pid=", "tid "]
                .iter()
                .any(|word| text.strip_prefix(word).is_some_and(is_number))
    };
    number(inner) || inner.split_once(':').is_some_and(|(first, second)| number(first) && number(second))
}

/// The level that a word or a letter in a place for levels is.
pub(super) fn level_word(word: &str) -> Option<Level> {
    match word.as_bytes() {
        [byte] => letter(*byte),
        _ => Level::from_word(word),
    }
}

/// Whether a level's word in small letters is one even where it could begin a sentence: `fine so far` has none.
fn is_small_level(word: &str) -> bool {
    ["trace", "debug", "info", "warn", "warning", "error", "fatal", "notice", "crit", "critical"].contains(&word)
}
