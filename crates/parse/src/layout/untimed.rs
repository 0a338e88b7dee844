//! Lines with a level and no time, as programs print them on a terminal.
//!
//! ```text
//! WARNING:root:text                            Python
//! [main] INFO org.example.Main - text          Java, SLF4J's simple logger
//! 08:00:00.000 [main] INFO  org.example.Main - text
//! [INFO] text
//! INFO[0012] text key=value
//! ```

use super::general::LineHeader;
use super::sketch::Sketch;
use super::{LayoutContext, dotnet, shape, text_after, trailing};
use crate::pairs::skip_spaces;
use crate::{Format, Parsed, timestamp};

/// A line that begins with a level: `[INFO] text`, `WARNING:root:text`, `INFO[0012] text key=value`.
pub(super) fn untimed<'a>(text: &'a str, line: &'a str, context: &mut LayoutContext<'_>) -> Option<Parsed<'a>> {
    if let Some(parsed) = time_of_day(text, line, context) {
        return Some(parsed);
    }
    let token = shape::token(line, 0)?;
    let level_at = |word: &str, start: usize| Some((shape::level_word(word)?, start, start + word.len()));
    let mut group = None;
    let (level, at) = match token.kind {
        shape::WordKind::Group(word) if word.len() > 1 && shape::level_word(word).is_some() => {
            let start = 1 + line.get(1..)?.len() - line.get(1..)?.trim_start().len();
            (level_at(word, start)?, token.end)
        }
        // `[W][00012.345678] pw.core: text`
        shape::WordKind::Group(word) if word.len() == 1 && line.as_bytes().get(token.end) == Some(&b'[') => {
            (level_at(word, 1)?, token.end)
        }
        // `[W] text`
        shape::WordKind::Group("D" | "I" | "W" | "E" | "F") if token.gap == 1 && line.starts_with('[') => {
            (level_at(line.get(1..2)?, 1)?, token.end)
        }
        // `[Warn#SQL] text`, `[WARN:0@0.123] text`
        shape::WordKind::Group(inner)
            if let Some((word, scope)) = inner.split_once(['#', ':'])
                && word.len() > 1
                && !scope.is_empty()
                && !scope.contains(' ')
                && let Some(level) = level_at(word, 1) =>
        {
            (level, token.end)
        }
        shape::WordKind::Group(inner) => {
            let second = shape::token(line, skip_spaces(line.as_bytes(), token.end))?;
            // `[libx264 @ 0x55] [error] text`
            let (shape::WordKind::Word(word) | shape::WordKind::Group(word)) = second.kind else { return None };
            if let shape::WordKind::Group(word) = second.kind {
                // `[ 12345][E][client.cpp:123] text`
                let is_between = || token.end == second.start && line.as_bytes().get(second.end) == Some(&b'[');
                let level = shape::level_word(word).filter(|_| word.len() > 1 || is_between())?;
                let mut header =
                    LineHeader::untimed(line, second.end, (level, second.start, second.end), context.habits);
                header.sketch.thread(inner);
                let at = header.at;
                return Some(header.sketch.finish(text_after(text, at), Format::Text));
            }
            group = Some(inner).filter(|_| word.len() > 1 && is_name_of_level(word));
            group?;
            (level_at(word, second.start)?, second.end)
        }
        // `W (1234) wifi: text`, `E [o.e.Pool] [08:00:01]: text`
        shape::WordKind::Word(word) if word.len() == 1 && word != "A" => {
            let second = shape::token(line, skip_spaces(line.as_bytes(), token.end))?;
            // `E 0:00:01:0123   text`: the time since the start.
            if let shape::WordKind::Word(uptime) = second.kind
                && second.gap > 1
                && uptime.contains(':')
                && uptime.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.'))
            {
                let (level, start, end) = level_at(word, 0)?;
                let mut sketch = Sketch::default();
                sketch.level(level, start, end);
                return Some(sketch.finish(text_after(text, second.start), Format::Text));
            }
            let shape::WordKind::Group(inner) = second.kind else { return None };
            let is_tagged = || line.get(second.end..).is_some_and(|rest| rest.contains(": "));
            let is_header = line.as_bytes().get(second.start) == Some(&b'[') || shape::is_number(inner);
            (is_header && is_tagged()).then_some(())?;
            let level = level_at(word, 0)?;
            // `E [o.e.Pool] [08:00:01]: text`
            if let Some(third) = shape::token(line, skip_spaces(line.as_bytes(), second.end))
                && let shape::WordKind::Group(clock) = third.kind
                && let Some(stamp) = timestamp::clock_at_start(clock.as_bytes(), &context.defaults)
                && stamp.length == clock.len()
            {
                context.habits.note_clock(true);
                let mut sketch = Sketch::default();
                sketch.level(level.0, level.1, level.2);
                sketch.component(inner);
                sketch.stamp(third.start + 1, stamp);
                return Some(sketch.finish(text_after(text, third.end).trim_start(), Format::Text));
            }
            (level, token.end)
        }
        // `warning(net): text`
        shape::WordKind::Word(word) if token.mark == b':' && word.ends_with(')') => {
            let (level, scope) = word.strip_suffix(')')?.split_once('(')?;
            let mut sketch = Sketch::default();
            let (level, start, end) = level_at(level, 0)?;
            sketch.level(level, start, end);
            sketch.component(scope);
            return Some(sketch.finish(text_after(text, token.end).trim_start(), Format::Text));
        }
        shape::WordKind::Tagged(word, _) if word.len() > 1 => {
            let level = level_at(word, 0)?;
            let mut sketch = Sketch::default();
            sketch.level(level.0, level.1, level.2);
            let message = trailing::pairs(text_after(line, token.end).trim_start(), sketch.fields());
            return (text.len() == line.len()).then(|| sketch.finish(message, Format::Text));
        }
        shape::WordKind::Word(word) if word.len() > 1 => {
            let is_capital = word.bytes().all(|byte| byte.is_ascii_uppercase());
            if token.mark == b':' && word == "panic" {
                // Go prints a value of any type.
                let mut sketch = Sketch::default();
                let (level, start, end) = level_at(word, 0)?;
                sketch.level(level, start, end);
                return Some(sketch.finish(text_after(text, token.end).trim_start(), Format::Text));
            } else if token.mark == b':'
                && let Some((word, code)) = word.strip_suffix(']').and_then(|word| word.split_once('['))
                && !code.is_empty()
            {
                // `error[E0425]: text`
                (level_at(word, 0)?, token.end)
            } else if token.mark == b':'
                && let Some((channel, level)) = word.rsplit_once('.')
            {
                // `console.warn: text`
                (level_at(level, channel.len() + 1)?, token.end)
            } else if token.mark == b':' && word != "Note" {
                (level_at(word, 0)?, token.end)
            } else if let Some((word, rest)) = word.split_once(':').filter(|(word, _)| is_name_of_level(word)) {
                // Python: `WARNING:root:text`
                let component = rest.split(':').next().filter(|_| rest.contains(':') || line.contains(' '))?;
                let end = word.len() + 1 + component.len();
                if line.as_bytes().get(end) != Some(&b':') || shape::name(component) == shape::NameShape::Never {
                    return None;
                }
                let mut sketch = Sketch::default();
                let (level, start, level_end) = level_at(word, 0)?;
                sketch.level(level, start, level_end);
                sketch.component(component);
                return Some(sketch.finish(text_after(text, end + 1), Format::Text));
            } else if matches!(word, "debug" | "info" | "notice" | "warn" | "warning" | "error")
                && let next = shape::token(line, skip_spaces(line.as_bytes(), token.end))?
                && let shape::WordKind::Word(text) = next.kind
                && (token.gap > 1 && next.gap > 1
                    || matches!(text.as_bytes(), [b'A'..=b'Z'] | [b'A'..=b'Z', b'a'..=b'z', ..])
                    || next.mark == b':' && shape::name(text) == shape::NameShape::Surely)
            {
                // `info     inventory        text`, `error An error occurred`, `warning package.json: text`
                (level_at(word, 0)?, token.end)
            } else if is_capital
                && matches!(
                    shape::token(line, skip_spaces(line.as_bytes(), token.end))?.kind,
                    shape::WordKind::Group(_) | shape::WordKind::Dash
                )
            {
                (level_at(word, 0)?, token.end)
            } else {
                return None;
            }
        }
        _ => return None,
    };
    let mut header = LineHeader::untimed(line, at, level, context.habits);
    match group {
        Some(number) if shape::is_number(number) => header.sketch.pid(number),
        Some(name) => header.sketch.thread(name),
        None => {}
    }
    let at = header.at;
    Some(header.sketch.finish(text_after(text, at), Format::Text))
}

/// A line with a time of day and a level. The day is that of reading, or the day before.
pub(super) fn time_of_day<'a>(text: &'a str, line: &'a str, context: &mut LayoutContext<'_>) -> Option<Parsed<'a>> {
    let header = LineHeader::clocked(line, &context.defaults, context.habits)?;
    let at = header.at;
    context.habits.note_clock(true);
    // .NET's console writes the message below the line with the time.
    let start = skip_spaces(text.as_bytes(), header.after_time);
    if text.len() > line.len()
        && let Some(message) = dotnet::read_at(text, start, &mut Sketch::default())
    {
        return Some(header.sketch.finish(message, Format::Text));
    }
    Some(header.sketch.finish(text_after(text, at), Format::Text))
}

fn is_name_of_level(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_uppercase()) && shape::level_word(word).is_some()
}
