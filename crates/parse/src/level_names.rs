//! The values that mean a level: words, letters, and numbers, whose scale differs between families of libraries.

use super::names::{
    ERROR_SEVERITY, GUESSED, LOG_LEVEL, MONGO, PRIORITY, SEVERITY, SEVERITY_LEVEL, SEVERITY_NUMBER, TAGS,
};
use daytable_model::record::{Level, Value};

/// Levels in other languages, in small letters.
const FOREIGN: [(&str, Level); 33] = [
    ("warnung", Level::Warn),
    ("fehler", Level::Error),
    ("schwerwiegend", Level::Error),
    ("hinweis", Level::Notice),
    ("avertissement", Level::Warn),
    ("attention", Level::Warn),
    ("erreur", Level::Error),
    ("grave", Level::Error),
    ("advertencia", Level::Warn),
    ("aviso", Level::Warn),
    ("avviso", Level::Warn),
    ("errore", Level::Error),
    ("erro", Level::Error),
    ("fout", Level::Error),
    ("ошибка", Level::Error),
    ("предупреждение", Level::Warn),
    ("информация", Level::Info),
    ("エラー", Level::Error),
    ("警告", Level::Warn),
    ("情報", Level::Info),
    ("错误", Level::Error),
    ("信息", Level::Info),
    // What Java's own logging writes besides.
    ("infos", Level::Info),
    ("información", Level::Info),
    ("informazioni", Level::Info),
    ("avvertenza", Level::Warn),
    ("informações", Level::Info),
    ("advertência", Level::Warn),
    ("重大", Level::Error),
    ("严重", Level::Error),
    ("심각", Level::Error),
    ("경고", Level::Warn),
    ("정보", Level::Info),
];

/// Words that are a level only at the front of a text, in small letters.
const FIRST: [(&str, Level); 2] = [("success", Level::Info), ("log", Level::Info)];

/// The level of a word of another language, in any case.
fn of_language(word: &str) -> Option<Level> {
    if word.is_ascii() && !may_be_foreign(word.as_bytes()) {
        return None;
    }
    // Most words are none, and small letters of other alphabets cost an allocation.
    let lower = ((4..=40).contains(&word.len()) && !word.is_ascii()).then(|| word.to_lowercase());
    let word = lower.as_deref().unwrap_or(word);
    FOREIGN.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, level)| *level)
}

/// Whether a word of ASCII may be one for which [`foreign`] knows a level: the first three letters of most others show that they are none.
#[inline]
pub(super) fn may_be_foreign(word: &[u8]) -> bool {
    let [first, second, third, ..] = word else { return false };
    #[rustfmt::skip]
    let is_begun = matches!(
        &[first | 0x20, second | 0x20, third | 0x20],
        b"war" | b"feh" | b"sch" | b"hin" | b"ave" | b"att" | b"err" | b"gra" | b"adv" | b"avi" | b"avv" | b"fou" | b"inf" | b"suc" | b"log"
    );
    is_begun
}

/// The level of a word of another language, or of one that is a level only where nothing else stands before it.
pub(super) fn foreign(word: &str, is_first: bool) -> Option<Level> {
    let is_small = || word.as_bytes()[0].is_ascii_lowercase() && word.is_ascii();
    (is_first && (word.len() > 3 && !is_small() || word == "LOG")).then_some(())?;
    let first = || FIRST.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, level)| *level);
    of_language(word).or_else(first)
}

/// The level of a value under a name of this rank, and the rank of that reading.
///
/// A number of 10 to 60 in tens is bunyan's and pino's scale. For other numbers the name decides, or the scale is
/// guessed: 0 to 7 is syslog's scale if the line turns out to be GELF, and 100 to 600 is monolog's.
pub(super) fn level(value: &Value<'_>, rank: u8) -> Option<(Level, u8)> {
    let level = match value {
        Value::String(digit) if rank == PRIORITY && digit.len() == 1 => syslog(digit.parse().ok()?)?,
        Value::String(word) if rank == MONGO => mongo(word)?,
        Value::String(word) if rank == ERROR_SEVERITY => postgres(word)?,
        Value::String(number) if rank == SEVERITY && number.bytes().all(|byte| byte.is_ascii_digit()) => {
            foundation(number.parse().ok()?)?
        }
        Value::String(list) if rank == TAGS => of_tags(list)?,
        Value::String(word) => {
            Level::from_word(word).or_else(|| of_library(word)).or_else(|| slog(word)).or_else(|| of_language(word))?
        }
        Value::Int64(number) => match rank {
            PRIORITY => syslog(*number)?,
            SEVERITY_NUMBER => opentelemetry(*number)?,
            SEVERITY_LEVEL => insights(*number)?,
            SEVERITY => return None,
            LOG_LEVEL if *number < 4 => lager(*number)?,
            0 => match number {
                0..=7 => return syslog(*number).map(|level| (level, GUESSED)),
                100 | 200 | 250 | 300 | 400 | 500 | 550 | 600 => return Some((monolog(*number), GUESSED)),
                _ => bunyan(*number)?,
            },
            _ => bunyan(*number)?,
        },
        _ => return None,
    };
    Some((level, rank))
}

/// The level of a syslog severity, 0 to 7.
pub fn syslog(number: i64) -> Option<Level> {
    u8::try_from(number).ok().filter(|severity| *severity < 8).map(of_priority)
}

/// The level of a syslog priority: the lowest three bits are the severity (RFC 5424, table 2).
pub(super) fn of_priority(priority: u8) -> Level {
    match priority % 8 {
        0 => Level::Fatal,
        1 => Level::Alert,
        2 => Level::Critical,
        3 => Level::Error,
        4 => Level::Warn,
        5 => Level::Notice,
        6 => Level::Info,
        _ => Level::Debug,
    }
}

fn bunyan(number: i64) -> Option<Level> {
    Some(match number {
        10 => Level::Trace,
        20 => Level::Debug,
        30 => Level::Info,
        40 => Level::Warn,
        50 => Level::Error,
        60 => Level::Fatal,
        _ => return None,
    })
}

/// Lager, the library of Cloud Foundry.
fn lager(number: i64) -> Option<Level> {
    let scale = [Level::Debug, Level::Info, Level::Error, Level::Fatal];
    scale.get(usize::try_from(number).ok()?).copied()
}

/// The scale of ownCloud and Nextcloud.
pub(super) fn owncloud(number: i64) -> Option<Level> {
    let scale = [Level::Debug, Level::Info, Level::Warn, Level::Error, Level::Fatal];
    scale.get(usize::try_from(number).ok()?).copied()
}

/// The scale of Application Insights.
fn insights(number: i64) -> Option<Level> {
    let scale = [Level::Debug, Level::Info, Level::Warn, Level::Error, Level::Critical];
    scale.get(usize::try_from(number).ok()?).copied()
}

/// The scale of FoundationDB's traces.
fn foundation(number: i64) -> Option<Level> {
    Some(match number {
        5 => Level::Debug,
        10 => Level::Info,
        20 | 30 => Level::Warn,
        40 => Level::Error,
        _ => return None,
    })
}

fn monolog(number: i64) -> Level {
    match number {
        ..=100 => Level::Debug,
        101..=200 => Level::Info,
        201..=250 => Level::Notice,
        251..=300 => Level::Warn,
        301..=400 => Level::Error,
        401..=500 => Level::Critical,
        501..=550 => Level::Alert,
        _ => Level::Fatal,
    }
}

pub(super) fn opentelemetry(number: i64) -> Option<Level> {
    Some(match number {
        1..=4 => Level::Trace,
        5..=8 => Level::Debug,
        9 => Level::Info,
        10..=12 => Level::Notice,
        13..=16 => Level::Warn,
        17 => Level::Error,
        18 => Level::Critical,
        19 | 20 => Level::Alert,
        21..=24 => Level::Fatal,
        _ => return None,
    })
}

/// The level in a list of texts, written as JSON: `["error","opensearch","data"]`.
fn of_tags(list: &str) -> Option<Level> {
    const LEVELS: [&str; 6] = ["debug", "info", "warning", "warn", "error", "fatal"];
    let mut texts = list.strip_prefix('[')?.split('"').skip(1).step_by(2).take(4);
    texts.find(|text| (4..8).contains(&text.len()) && LEVELS.contains(text)).and_then(Level::from_word)
}

/// The letters of MongoDB: I, W, E, F, D, and D1 to D5.
fn mongo(letter: &str) -> Option<Level> {
    Some(match letter.as_bytes() {
        b"I" => Level::Info,
        b"W" => Level::Warn,
        b"E" => Level::Error,
        b"F" => Level::Fatal,
        b"D" | [b'D', b'1'..=b'5'] => Level::Debug,
        _ => return None,
    })
}

/// The words of PostgreSQL. LOG is meant for administrators in every configuration.
pub(super) fn postgres(word: &str) -> Option<Level> {
    Some(match word {
        "LOG" | "INFO" => Level::Info,
        "NOTICE" => Level::Notice,
        "WARNING" => Level::Warn,
        "ERROR" => Level::Error,
        "FATAL" | "PANIC" => Level::Fatal,
        "DEBUG" | "DEBUG1" | "DEBUG2" | "DEBUG3" | "DEBUG4" | "DEBUG5" => Level::Debug,
        _ => return None,
    })
}

/// Words of single libraries: winston, zap.
fn of_library(word: &str) -> Option<Level> {
    Some(match word {
        "silly" => Level::Trace,
        "dpanic" | "DPANIC" => Level::Critical,
        _ => return None,
    })
}

/// A level between two, as Go's slog writes it: `INFO+2`, `DEBUG-4`.
fn slog(word: &str) -> Option<Level> {
    let (name, by) = word.split_at_checked(word.find(['+', '-'])?)?;
    by.get(1..)?.parse::<u8>().ok()?;
    let level = Level::from_word(name)?;
    Some(if by == "-4" && level == Level::Debug { Level::Trace } else { level })
}

#[cfg(test)]
mod tests {
    use super::super::names::{Role, role_of};
    use super::*;

    #[test]
    fn words_of_other_languages_begin_as_the_short_test_knows() {
        for (word, _) in FOREIGN.iter().chain(&FIRST).filter(|(word, _)| word.is_ascii()) {
            assert!(may_be_foreign(word.as_bytes()), "{word}");
        }
        assert!(!may_be_foreign(b"The") && !may_be_foreign(b"fo"));
    }

    #[test]
    fn each_scale_has_its_names() {
        let number = Value::Int64;
        let text = |text: &'static str| Value::String(text.into());
        for (name, value, expected) in [
            ("level", number(10), Some(Level::Trace)),
            ("level", number(30), Some(Level::Info)),
            ("level", number(60), Some(Level::Fatal)),
            ("level", number(35), None),
            ("level", number(250), Some(Level::Notice)),
            ("level", number(550), Some(Level::Alert)),
            ("level", number(3), Some(Level::Error)),
            ("severity", number(3), None),
            ("PRIORITY", text("6"), Some(Level::Info)),
            ("PRIORITY", number(4), Some(Level::Warn)),
            ("PRIORITY", text("8"), None),
            ("severity_number", number(9), Some(Level::Info)),
            ("severityNumber", number(24), Some(Level::Fatal)),
            ("severity_number", number(0), None),
            ("severityLevel", number(3), Some(Level::Error)),
            ("log_level", number(2), Some(Level::Error)),
            ("log_level", number(30), Some(Level::Info)),
            ("Severity", text("40"), Some(Level::Error)),
            ("Severity", text("ERROR"), Some(Level::Error)),
            ("Severity", number(40), None),
            ("error_severity", text("LOG"), Some(Level::Info)),
            ("error_severity", text("log"), None),
            ("s", text("D2"), Some(Level::Debug)),
            ("s", text("INFO"), None),
            ("level", text("INFO+2"), Some(Level::Info)),
            ("level", text("DEBUG-4"), Some(Level::Trace)),
            ("level", text("INFO-x"), None),
            ("level", text("silly"), Some(Level::Trace)),
            ("level", text("DPANIC"), Some(Level::Critical)),
            ("LogLevel", text("Information"), Some(Level::Info)),
            ("level", Value::Boolean(true), None),
        ] {
            let (role, rank) = role_of(name).expect("a role");
            assert_eq!(role, Role::Level);
            assert_eq!(level(&value, rank).map(|(level, _)| level), expected, "{name} {value:?}");
        }
    }
}
