//! The level after the time, and the tokens between them.

use super::LineHeader;
use crate::layout::facility::{is_facility, named_facility, named_severity};
use crate::layout::shape::{
    NameShape, Token, WordKind, is_capital, is_dotted, is_plain, kinds, kinds_of, letter, level_word, name, token,
};
use crate::pairs::{skip_spaces, typed};
use daytable_model::record::{Field, Level};

/// Tokens between the time and the level.
const BEFORE_LEVEL_MAX: usize = 6;

impl<'a> LineHeader<'a> {
    /// Searches a level after the time, from the token `first` on. If there is one, the tokens before it belong to the header.
    pub(super) fn find_level(&mut self, first: Option<Token<'a>>) {
        let mut before: [Option<Token<'a>>; BEFORE_LEVEL_MAX] = [None; BEFORE_LEVEL_MAX];
        let (mut at, mut plain, mut dash) = (self.at, 0, self.mark == b',' || self.mark == b':');
        for place in 0..=BEFORE_LEVEL_MAX {
            let next = if place == 0 { first } else { token(self.line, at) };
            let Some(token) = next else { return };
            // `PHP Warning: text`: capitals before the level name the source of the warning.
            let is_named = place == 1 && token.mark == b':' && before[0].is_some_and(|first| is_capital(first.kinds));
            let may_be_small = plain == 0 && (place == 0 || dash || is_named);
            let has_pairs = || before.iter().flatten().any(is_pair);
            if let Some((level, start, end)) = self.level_of(&token, may_be_small)
                && (!has_pairs() || matches!(token.kind, WordKind::Group(_)))
                // `SERVICE ALERT: text`
                && (level != Level::Alert || !before.iter().flatten().any(|token| is_capital(token.kinds)))
            {
                self.sketch.level(level, start, end);
                self.is_padded = self.mark == b',' && token.gap > 1;
                self.take_before_level(&before);
                if let WordKind::Word(word) = token.kind
                    && let Some(facility) = named_facility(word)
                {
                    self.sketch.text("facility", facility);
                }
                if let WordKind::Group(inner) = token.kind {
                    self.beside_level(inner);
                }
                self.at = skip_spaces(self.bytes(), token.end);
                return;
            }
            if place == 0 && self.joined_level(&token) {
                return;
            }
            dash = token.kind == WordKind::Dash;
            let may_come = match token.kind {
                WordKind::Word(word) => {
                    // A token that begins like a sentence counts twice.
                    let is_capital = token.gap < 2 && word.starts_with(|first: char| first.is_ascii_uppercase());
                    plain += if is_plain(token.kinds) {
                        // `ServletWrappe E text`: a capital within a word shows a name.
                        let is_sentence = || name(word) != NameShape::Surely && !self.is_before_dash(token.end);
                        1 + usize::from(is_capital && is_sentence())
                    } else {
                        0
                    };
                    // Elixir: `08:00:02.123 request_id=F3k [error] text`
                    plain < 2 && token.mark != b',' && (token.kinds & kinds::PROSE == 0 || is_pair(&token))
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
        self.bytes()
            .get(skip_spaces(self.bytes(), at)..)
            .is_some_and(|rest| matches!(rest, [b'-', b' ', ..] | [b'-', b'>', b' ', ..]))
    }

    /// Reads `INFO:name:`, which is one word with the beginning of the text, and `name.INFO:` or `name.INFO`.
    fn joined_level(&mut self, token: &Token<'a>) -> bool {
        let WordKind::Word(joined) = token.kind else { return false };
        if token.kinds & kinds::UPPER == 0 {
            return false;
        }
        if token.mark != b','
            && token.kinds & kinds::DOT != 0
            && let Some((channel, word)) = joined.rsplit_once('.')
            && let Some(level) = Level::from_word(word).filter(|_| is_capital(kinds_of(word)))
        {
            let end = token.start + joined.len();
            self.sketch.level(level, end - word.len(), end);
            self.sketch.component(channel);
            self.at = token.end;
            return true;
        }
        if token.kinds & kinds::COLON == 0 {
            return false;
        }
        let Some((word, _)) = joined.split_once(':') else { return false };
        let Some(level) = Level::from_word(word).filter(|_| word.bytes().all(|byte| byte.is_ascii_uppercase())) else {
            return false;
        };
        let rest = self.line.get(token.start + word.len() + 1..).unwrap_or_default();
        // `WARNING:shop.Cart - text`
        let before_space = || rest.split_once(' ').filter(|(component, _)| name(component) == NameShape::Surely);
        let before_colon = rest.split_once(':').filter(|(component, _)| name(component) != NameShape::Never);
        let Some((component, _)) = before_colon.or_else(before_space) else {
            return false;
        };
        self.sketch.level(level, token.start, token.start + word.len());
        self.sketch.component(component);
        self.at = token.start + word.len() + component.len() + 2;
        true
    }

    /// The level of a token, and its place. `may_be_small`: the token is at a usual place for levels, so small letters
    /// are enough.
    fn level_of(&self, token: &Token<'a>, may_be_small: bool) -> Option<(Level, usize, usize)> {
        let is_marked = token.mark != 0 || token.gap > 1;
        match token.kind {
            // `261121 08:00:01.123:WT 15 [org.example.Main] text`: letters that touch the colon after the time.
            WordKind::Word(word) if self.mark == b':' && token.start == self.after_time + 1 && word.len() < 3 => {
                is_capital(token.kinds).then_some(())?;
                Some((letter(word.as_bytes()[0])?, token.start, token.start + 1))
            }
            // `E/launcher - text`
            WordKind::Word(word)
                if may_be_small && token.kinds & kinds::SLASH != 0 && word.as_bytes().get(1) == Some(&b'/') =>
            {
                let tag = word.get(2..).filter(|tag| tag.len() > 2 && name(tag) != NameShape::Never)?;
                let is_header = self.is_before_dash(token.end) && !tag.contains('/');
                let level = letter(word.as_bytes()[0]).filter(|level| is_header && *level != Level::Alert)?;
                Some((level, token.start, token.start + 1))
            }
            // `e Client        client.cpp(00800) : text`
            WordKind::Word(word) if word.len() == 1 && may_be_small && token.kinds == kinds::LOWER && word != "a" => {
                let next = self::token(self.line, skip_spaces(self.bytes(), token.end))?;
                let place = self::token(self.line, skip_spaces(self.bytes(), next.end))?;
                let level = letter(word.as_bytes()[0].to_ascii_uppercase())?;
                // A name as wide as its column has one space behind it.
                let is_column = next.gap > 1
                    || matches!(next.kind, WordKind::Word(name) if self::name(name) == NameShape::Surely)
                        && self.line.get(place.end..).is_some_and(|rest| rest.starts_with(" : "));
                (is_column && matches!(place.kind, WordKind::Source(..))).then_some((level, token.start, token.end))
            }
            WordKind::Word(word) if word.len() == 1 => {
                // A single `A` is an ordinary word.
                let level = letter(word.as_bytes()[0]).filter(|level| *level != Level::Alert)?;
                (may_be_small || self.sketch.has_pid || token.start > self.at).then_some(())?;
                self.goes_on_as_header(token.end).then_some((level, token.start, token.end))
            }
            WordKind::Word(word) => {
                let (word, start) = match word.strip_prefix("level=").filter(|_| token.kinds & kinds::PROSE != 0) {
                    Some(word) => (word, token.start + 6),
                    None => (word, token.start),
                };
                if let Some(level) = named_severity(word) {
                    return Some((level, start, start + word.len()));
                }
                let Some(level) = Level::from_word(word) else { return self.rare_level(token, word) };
                let is_level = is_capital(token.kinds)
                    || may_be_small && (is_marked || is_small_level(word))
                    || self.by_clock && may_be_small && self.mark == b':'
                    || token.mark == b':' && may_be_small
                    || start > token.start
                    || may_be_small && self.is_before_process_or_dash(token.end);
                is_level.then_some((level, start, start + word.len()))
            }
            WordKind::Group(inner) => {
                let start = token.start + 1;
                let at = |part: &str| {
                    let offset = self.line.get(start..token.end).and_then(|text| text.find(part)).unwrap_or(0);
                    (start + offset, start + offset + part.len())
                };
                let part = match level_word(inner) {
                    Some(_) => inner,
                    None => parts_of_group(inner)
                        .map(str::trim)
                        .find(|part| Level::from_word(part).is_some())
                        // `failed (warning: text)`
                        .filter(|part| !self.line.get(at(part).1..).is_some_and(|rest| rest.starts_with(": ")))
                        .or_else(|| level_beside_words(inner))
                        // `[W|app|1a2b] text`
                        .or_else(|| inner.split_once('|').map(|(first, _)| first).filter(|first| first.len() == 1))?,
                };
                let (start, end) = at(part);
                Some((level_word(part)?, start, end))
            }
            _ => None,
        }
    }

    /// The level of a word that is none in most places: `DDEBUG` and `SUBDEBUG`, finer than `DEBUG`; `Default` and `Fault` in
    /// a column behind a number with `0x`, as Apple's systems show them.
    #[inline]
    fn rare_level(&self, token: &Token<'a>, word: &str) -> Option<(Level, usize, usize)> {
        let level = match word {
            "Default" | "Fault" if token.gap > 1 => {
                let before = self.line.get(self.after_time..token.start)?;
                (before.ends_with("  ") && before.trim_ascii().starts_with("0x")).then_some(())?;
                if word == "Fault" { Level::Critical } else { Level::Notice }
            }
            _ if is_capital(token.kinds) && word.len() > 5 && word.ends_with("DEBUG") => Level::Debug,
            _ => return None,
        };
        Some((level, token.start, token.start + word.len()))
    }

    /// Whether the text after a letter shows that the letter is a level: a group, a name with a colon, capitals.
    fn goes_on_as_header(&self, at: usize) -> bool {
        let Some(next) = token(self.line, skip_spaces(self.bytes(), at)) else { return false };
        match next.kind {
            WordKind::Group(_) | WordKind::Source(..) | WordKind::Tagged(..) | WordKind::Dash => true,
            WordKind::Word(word) => {
                next.mark == b':'
                    || next.gap > 1
                    || word.len() > 2 && is_capital(next.kinds & !kinds::UNDERSCORE)
                    || word.len() > 4
                        && (is_dotted(word)
                            || next.kinds & kinds::SLASH != 0 && name(word.trim_end_matches(']')) == NameShape::Surely
                            || word.starts_with('/') && word.ends_with('/'))
            }
            WordKind::Number(_) => false,
        }
    }

    /// Whether a name with the number of a process follows, or a dash: `verbose hostd[1234] text`, `-- verbose -- text`.
    fn is_before_process_or_dash(&self, at: usize) -> bool {
        let next = token(self.line, skip_spaces(self.bytes(), at));
        next.is_some_and(|next| matches!(next.kind, WordKind::Tagged(..) | WordKind::Dash))
    }

    fn take_before_level(&mut self, before: &[Option<Token<'a>>]) {
        let is_word =
            |token: &&Token<'a>| matches!(token.kind, WordKind::Word(_) | WordKind::Tagged(..)) && !is_pair(token);
        let words = before.iter().flatten().filter(is_word).count();
        let mut word_number = 0;
        for token in before.iter().flatten() {
            match token.kind {
                WordKind::Dash => {}
                WordKind::Number(number) => self.sketch.pid(number),
                WordKind::Group(inner) => self.group(token, inner),
                WordKind::Source(file, line) => self.sketch.source(file, line),
                WordKind::Tagged(name, pid) => {
                    word_number += 1;
                    self.sketch.component(name);
                    self.sketch.pid(pid);
                }
                WordKind::Word(word) if is_pair(token) => {
                    if let Some((name, value)) = word.split_once('=') {
                        self.sketch.fields().push(Field { name: name.into(), value: typed(value) });
                    }
                }
                WordKind::Word(word) => {
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

    /// Adds the other parts in the brackets of a level, as in `[main/INFO]` and `[core:error]`.
    fn beside_level(&mut self, inner: &'a str) {
        if let Some(word) =
            level_beside_words(inner).filter(|_| parts_of_group(inner).all(|part| level_word(part.trim()).is_none()))
        {
            let rest = inner.strip_prefix(word).or_else(|| inner.strip_suffix(word)).unwrap_or(inner);
            return self.sketch.text("context", rest.trim());
        }
        for part in inner.split(['/', ':', '|', '#']).map(str::trim) {
            if level_word(part).is_none() && !part.is_empty() {
                if inner.contains('/') { self.sketch.thread(part) } else { self.sketch.component(part) }
            }
        }
    }
}

/// Whether a word is a pair without quotes, as loggers write what belongs to a record before its level.
fn is_pair(token: &Token<'_>) -> bool {
    let WordKind::Word(word) = token.kind else { return false };
    if token.kinds & kinds::PROSE == 0 {
        return false;
    }
    let Some((name, value)) = word.split_once('=') else { return false };
    let is_name = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_name(name) && !value.is_empty() && kinds_of(value) & kinds::PROSE == 0
}

/// The parts of a group of which one may be a level: `main/INFO`, `core:error`, `Debug#SQL`, `Warning-Main.Operation`,
/// `local3.warning`.
fn parts_of_group(inner: &str) -> impl Iterator<Item = &str> {
    let dashed = inner.split_once('-').filter(|(_, rest)| is_dotted(rest)).map(|(level, _)| level);
    let dotted = inner.split_once('.').filter(|(facility, _)| is_facility(facility)).map(|(_, level)| level);
    inner.split(['/', ':', '|', '#']).chain(dashed).chain(dotted)
}

/// The level among the words of a group: `Server Warning`, `INFO Client 1234`, `warning sync.network /src/job.cpp:123`.
fn level_beside_words(inner: &str) -> Option<&str> {
    let (first, rest) = inner.split_once(' ')?;
    let is_level = |word: &str| word.len() > 2 && Level::from_word(word).is_some();
    let next = rest.trim_ascii_start().split(' ').next().unwrap_or_default();
    let is_small = || is_small_level(first) || first == "verbose";
    if is_level(first) && (is_capital(kinds_of(first)) || next.len() > 4 && is_dotted(next) && is_small()) {
        return Some(first);
    }
    let is_name = |word: &str| word.starts_with(|first: char| first.is_ascii_uppercase());
    (is_level(rest) && is_name(rest) && is_name(first)).then_some(rest)
}

/// Whether a level's word in small letters is a level even where a sentence may begin: `fine so far` has none.
fn is_small_level(word: &str) -> bool {
    ["trace", "debug", "info", "warn", "warning", "error", "fatal", "notice", "crit", "critical"].contains(&word)
}
