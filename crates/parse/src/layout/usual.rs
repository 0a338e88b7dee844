//! The fast path for most lines of most sources:
//!
//! ```text
//! 2026-11-20T00:05:45.607815Z INFO http.server request handled status=200 duration_ms=74
//! time                        level component  message         fields
//! 2026-11-20T00:05:45.607815Z INFO http: request handled status=200 duration_ms=74
//! ```
//!
//! It reads a subset of the general rules: one space between the parts, a level in capitals, then a dotted name, a name
//! with a colon, or a plain word. Other lines go to the general rules. A property checks that both paths give the same
//! record and learn the same habits.

use super::shape::{self, NameShape};
use super::sketch::Sketch;
use super::{Habits, LayoutContext, full_time, trailing};
use crate::pairs::is_space;
use crate::{Format, Parsed};
use daytable_model::record::Level;

/// Letters of a level.
const LEVEL_MAX: usize = 11;

/// Reads a line without escapes, of a source that is mostly text.
pub(super) fn read<'a>(text: &'a str, context: &mut LayoutContext<'_>) -> Option<Parsed<'a>> {
    let bytes = text.as_bytes();
    if context.usual != Some(Format::Text) {
        return None;
    }
    let known = context.full_time.stamp();
    let stamp = known.or_else(|| full_time(text, &context.defaults).stamp())?;
    let level_at = stamp.length + 1;
    let level_end = level_at + run(bytes, level_at, |byte| byte.is_ascii_uppercase());
    let is_spaced = bytes.get(stamp.length) == Some(&b' ') && bytes.get(level_end) == Some(&b' ');
    if !is_spaced {
        return None;
    }
    let level = usual_level(text.get(level_at..level_end)?)?;

    let word_at = level_end + 1;
    let mut sketch = Sketch::default();
    sketch.stamp(0, stamp);
    sketch.level(level, level_at, level_end);
    if let Some(word) = colon_name(text, word_at) {
        let is_component = is_colon_component(word, context.habits)?;
        let mut message_at = word_at;
        if is_component {
            sketch.component(word);
            message_at += word.len() + 2;
        }
        if matches!(bytes.last(), Some(b')' | b'}')) {
            return None;
        }
        context.habits.note_colon(true);
        let message = trailing::pairs(text.get(message_at..)?, sketch.fields());
        return Some(sketch.finish(message, Format::Text));
    }
    let word_end = word_at + run(bytes, word_at, in_name);
    // The next word shows that this one is neither padded nor set apart.
    let [b' ', b'a'..=b'z' | b'A'..=b'Z', ..] = bytes.get(word_end..)? else { return None };
    let word = text.get(word_at..word_end)?;
    let is_component = word.contains('.');
    let is_known = match is_component {
        true => is_usual_component(word),
        false => word.bytes().all(|byte| byte.is_ascii_lowercase()) && !word.is_empty(),
    };
    // The line may end in a component in parentheses, or in an object.
    if !is_known || matches!(bytes.last(), Some(b')' | b'}')) {
        return None;
    }

    let mut message = text.get(word_at..)?;
    if is_component {
        sketch.component(word);
        message = text.get(word_end + 1..)?;
    }
    context.habits.note_colon(false);
    let message = trailing::pairs(message, sketch.fields());
    Some(sketch.finish(message, Format::Text))
}

/// The level that a word of capitals means.
pub(crate) fn usual_level(word: &str) -> Option<Level> {
    (2..=LEVEL_MAX).contains(&word.len()).then(|| shape::level_word(word))?
}

/// Whether a word with a dot is a component.
pub(crate) fn is_usual_component(word: &str) -> bool {
    word.bytes().all(|byte| in_name(&byte))
        && word.contains('.')
        && shape::is_dotted(word)
        && shape::name(word) != NameShape::Never
}

/// The word at `at` before a colon, one space and the text.
pub(crate) fn colon_name(text: &str, at: usize) -> Option<&str> {
    let end = at + run(text.as_bytes(), at, |byte| byte.is_ascii_alphanumeric() || b"._-/:".contains(byte));
    let word = text.get(at..end)?.strip_suffix(':')?;
    let follows = text.as_bytes().get(end..);
    matches!(follows, Some([b' ', next, ..]) if !is_space(*next)).then_some(word)
}

/// Whether a word before a colon is a component; `None` leaves the word to the general rules.
fn is_colon_component(word: &str, habits: &Habits) -> Option<bool> {
    let is_place = word.ends_with(|last: char| last.is_ascii_digit()) && word.contains('.') && word.contains(':');
    let is_name = match shape::name(word) {
        NameShape::Never => return None,
        NameShape::Surely => true,
        NameShape::Perhaps => habits.has_colons(),
    };
    (!is_place).then(|| is_name && Level::from_word(word).is_none())
}

/// Whether a word before a colon is a component in a source with such components.
pub(crate) fn is_usual_colon_component(word: &str) -> bool {
    is_colon_component(word, &Habits::of_colons()) == Some(true)
}

fn in_name(byte: &u8) -> bool {
    byte.is_ascii_lowercase() || matches!(byte, b'.' | b'_' | b'0'..=b'9')
}

fn run(bytes: &[u8], at: usize, is_in: impl Fn(&u8) -> bool) -> usize {
    bytes.get(at..).map_or(0, |rest| rest.iter().take_while(|byte| is_in(byte)).count())
}

#[cfg(test)]
mod tests {
    use super::super::{Habits, read_plain};
    use super::*;
    use crate::timestamp::TimestampDefaults;
    use proptest::prelude::*;

    fn both(line: &str) -> Option<()> {
        with_habits(line, Habits::of_colons())?;
        with_habits(line, Habits::default())
    }

    fn with_habits(line: &str, habits: Habits) -> Option<()> {
        let (mut short, mut general) = (habits, habits);
        let context = |habits| LayoutContext {
            defaults: TimestampDefaults::default(),
            usual: Some(Format::Text),
            is_unknown: false,
            habits,
            full_time: Default::default(),
        };
        let parsed = read(line, &mut context(&mut short))?;
        assert_eq!(Some(parsed), read_plain(line, &mut context(&mut general)), "{line}");
        assert_eq!(short, general, "{line}");
        Some(())
    }

    #[test]
    fn a_line_of_the_corpus_takes_the_fast_path() {
        for line in [
            "2026-11-20T00:00:01.504951Z INFO http.server request handled method=GET path=/api/v1 status=200",
            "2026-11-20T00:00:01Z WARN retrying now a=1, b=2",
            "2026-11-20T00:00:01.5+01:00 ERROR db.pool Request failed",
            "2026-11-20T00:00:01Z INFO main: up",
            "2026-11-20T00:00:01Z INFO my_crate::api: 2 up a=1",
        ] {
            assert!(both(line).is_some(), "{line}");
        }
        for line in [
            "2026-11-20T00:00:01Z INFO main:  up",
            "2026-11-20T00:00:01Z INFO a/b.c:12: up",
            "2026-11-20T00:00:01Z INFO  main up",
            "2026-11-20T00:00:01Z INFO main - up",
            "2026-11-20 00:00:01 INFO main up",
            "2026-11-20T00:00:01Z info main up",
            "2026-11-20T00:00:01Z HOST main up",
            "2026-11-20T00:00:01Z INFO app.log was read",
            "2026-11-20T00:00:01Z INFO started the server (kafka.server.KafkaServer)",
        ] {
            assert!(both(line).is_none(), "{line}");
        }
    }

    proptest! {
        /// A line on the fast path gives the same record and the same habits as the general rules.
        #[test]
        fn agrees_with_the_general_rules(
            stamp in "20[0-9]{2}-[0-1][0-9]-[0-2][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9](\\.[0-9]{1,9})?(Z|\\+01:00)?",
            level in "INFO|WARN|ERROR|DEBUG|NOTICE|FINE|PANIC|HOST|I|Info",
            word in "[a-z]{1,6}|[a-zA-Z_]{1,5}:|[a-z]{1,3}(::|/|-|\\.)[a-z0-9]{1,3}:|[a-z]\\.[a-z]:[0-9]:|info:|[a-z]{1,4}\\.[a-z0-9_]{1,4}|[a-z]{1,3}\\.[a-z]{1,3}\\.[a-z]{1,4}|info|error|pid|com\\.x|[a-z]\\.log",
            rest in prop::collection::vec("[a-z]{1,6}|[A-Z][a-z]{0,3}|-|[a-z]{1,3}:|\\[[a-z]{1,3}\\]|[0-9]{1,3}|[a-z]=[0-9]|[a-z]=\"[a-z ]{0,3}\"|[a-z]=1,|\\([a-z.]{3,8}\\)|\\{\"a\":1\\}|a\\{b=1\\}:", 0..6),
            space in " |  |\t",
        ) {
            both(&format!("{stamp} {level} {word}{space}{}", rest.join(" ")));
            both(&format!("{stamp} {level}{space}{word} {}", rest.join(" ")));
        }
    }
}
