//! The part of a header between the level and the message.

use super::LineHeader;
use crate::layout::habits::Habits;
use crate::layout::shape::{self, NameShape, Token, WordKind, is_dotted, is_number, level_word, name, token};
use crate::pairs::{is_space, skip_spaces, typed};
use daytable_model::record::Level;
use memchr::memmem;

/// Tokens after the level, or after the time if there is no level.
const TOKENS_MAX: usize = 8;

impl<'a> LineHeader<'a> {
    /// Reads it. `known` is the token after the time, as far as it was read before.
    pub(super) fn read_rest(&mut self, known: Option<Token<'a>>, habits: &Habits) {
        let has_level = self.sketch.level.is_some();
        let mut groups: [Option<Token<'a>>; 4] = [None; 4];
        let mut held = 0;
        let mut message = self.at;
        let (mut dashes, mut is_column) = (0, false);
        for _ in 0..TOKENS_MAX {
            self.skip();
            let is_known = known.is_some_and(|known| known.start == self.at);
            let Some(token) = (if is_known { known } else { token(self.line, self.at) }) else { break };
            match token.kind {
                WordKind::Dash => {
                    self.at = token.end;
                    dashes = token.end - token.start;
                    if held == 0 {
                        message = self.at;
                    }
                }
                WordKind::Number(number) => {
                    let next = || self::token(self.line, skip_spaces(self.bytes(), token.end));
                    let counts = has_level && next().is_some_and(|next| next.kind == WordKind::Dash)
                        || self.has_lead && !has_level && !self.sketch.has_pid
                        || has_level
                            && !self.sketch.has_pid
                            && next().is_some_and(|next| matches!(next.kind, WordKind::Group(_)));
                    if !counts || token.mark != 0 {
                        break;
                    }
                    self.take_groups(&mut groups, &mut held);
                    if has_level {
                        self.sketch.pid(number)
                    } else {
                        self.sketch.text("context", number)
                    }
                    self.at = token.end;
                    message = self.at;
                }
                WordKind::Group(inner) => {
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
                    // A group with spaces belongs to the header only if more header follows.
                    if is_known || is_name || inner.is_empty() {
                        message = self.at;
                        self.take_groups(&mut groups, &mut held);
                    }
                }
                WordKind::Source(file, line) => {
                    if !(token.mark == b':' || has_level) {
                        break;
                    }
                    self.take_groups(&mut groups, &mut held);
                    self.sketch.source(file, line);
                    self.at = token.end;
                    message = self.at;
                }
                WordKind::Tagged(name, pid) => {
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
                // The letter before the time and this word mean the same level.
                WordKind::Word(word) if self.has_lead && has_level && Level::from_word(word) == self.sketch.level => {
                    self.take_groups(&mut groups, &mut held);
                    self.at = token.end;
                    message = self.at;
                }
                WordKind::Word(word) if dashes == 2 && token.mark == b':' && name(word) != NameShape::Never => {
                    self.take_groups(&mut groups, &mut held);
                    self.sketch.component(word);
                    message = token.end;
                    break;
                }
                WordKind::Word(word) => {
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
            if let WordKind::Group(inner) = token.kind {
                self.group(&token, inner);
            }
        }
        *held = 0;
    }

    /// Whether the header may continue after a component that is one of several columns.
    fn is_between_columns(&self, token: &Token<'a>) -> bool {
        token.mark == 0 && self.bytes().get(skip_spaces(self.bytes(), token.end)) == Some(&b'[') && token.gap > 1
    }

    /// The place where the header continues after a component; `None` if the word belongs to the message.
    fn component(&mut self, token: &Token<'a>, word: &'a str, has_level: bool, habits: &Habits) -> Option<usize> {
        if self.sketch.has_component {
            return None;
        }
        let next = skip_spaces(self.bytes(), token.end);
        // `request{method=GET path="/a b"}: target: text`: the spans of a trace before the component.
        if token.kinds & shape::kinds::PROSE != 0
            && let Some(open) = word.find('{').filter(|open| *open > 0)
            && let Some(length) =
                memmem::find(self.rest().as_bytes(), b"}: ").filter(|length| *length < 1024 && *length > open)
        {
            self.sketch.text("span", self.rest().get(..=length)?);
            let after = skip_spaces(self.bytes(), self.at + length + 2);
            let target = self::token(self.line, after);
            if let Some(target) = target.filter(|target| target.mark == b':')
                && let WordKind::Word(word) = target.kind
                && name(word) != NameShape::Never
            {
                self.sketch.component(word);
                return Some(target.end);
            }
            return Some(after);
        }
        let kind = name(word);
        if token.mark == b':' {
            let is_component = kind == NameShape::Surely || kind == NameShape::Perhaps && habits.has_colons();
            if kind != NameShape::Never && has_level {
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
        let after = self.bytes().get(next..)?;
        let before_dash = after.starts_with(b"- ") || after.starts_with(b"-- ") || after.starts_with(b": ");
        if before_dash && (kind != NameShape::Never || word == "-") {
            self.sketch.component(word);
            return Some(next + after.iter().take_while(|byte| !is_space(**byte)).count());
        }
        if !has_level {
            // `chrome.exe *64 - text`
            let rest = self.line.get(next..)?;
            let short = self::token(rest, 0)
                .filter(|second| second.end <= 4 && rest.get(second.end..).is_some_and(|rest| rest.starts_with(" - ")));
            if let Some(second) = short.filter(|_| kind == NameShape::Surely) {
                self.sketch.component(self.line.get(token.start..next + second.end)?);
                return Some(next + second.end + 3);
            }
            return None;
        }
        if kind == NameShape::Never {
            return None;
        }
        // zap writes an object after the message, and tabs between all parts.
        if token.gap > 1 && next < self.line.len() && after.first() != Some(&b'{') {
            self.sketch.component(word);
            return Some(token.end);
        }
        let is_capital = word.len() > 1 && shape::is_capital(token.kinds & !shape::kinds::UNDERSCORE);
        let first = after.first();
        if is_dotted(word) || is_capital && first == Some(&b'[') || kind == NameShape::Surely && word.contains("::") {
            self.sketch.component(word);
            // One group after the component identifies the request.
            if first == Some(&b'[')
                && let Some(group) = self::token(self.line, next)
                && let WordKind::Group(inner) = group.kind
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

    /// Interprets a group in brackets by its shape.
    pub(super) fn group(&mut self, token: &Token<'a>, inner: &'a str) {
        if inner.is_empty() || inner == "-" {
            return;
        }
        if let Some(number) = process(inner) {
            return self.sketch.pid(number);
        }
        if let Some((first, second)) = inner.split_once([':', '#'])
            && let (Some(first), Some(second)) = (process(first), process(second))
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
            return self.sketch.add("line", typed(line));
        }
        if inner.contains(": ") {
            return self.sketch.text("context", inner);
        }
        let is_name = is_dotted(inner) && !self.has_component_after(token.end);
        if is_name && !self.sketch.has_component { self.sketch.component(inner) } else { self.sketch.thread(inner) }
    }

    fn has_component_after(&self, at: usize) -> bool {
        let next = token(self.line, skip_spaces(self.bytes(), at));
        next.is_some_and(
            |next| matches!(next.kind, WordKind::Word(word) if next.mark == b':' && name(word) != NameShape::Never),
        )
    }
}

fn is_process(inner: &str) -> bool {
    process(inner).is_some()
        || inner
            .split_once([':', '#'])
            .is_some_and(|(first, second)| process(first).is_some() && process(second).is_some())
}

/// The process or thread number in brackets, if the text can only be one.
fn process(text: &str) -> Option<&str> {
    // Most groups in brackets end in a letter.
    if !text.as_bytes().last().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let text = text.trim_start_matches(['#', '<', ' ']);
    let text = ["pid", "PID", "tid", "TID", "thread"].iter().find_map(|word| text.strip_prefix(word)).unwrap_or(text);
    Some(text.trim_start_matches([' ', ':', '='])).filter(|text| is_number(text))
}
