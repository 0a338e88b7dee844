//! The facilities of syslog, and severities that are written beside their names.

use daytable_model::record::Level;

const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp",
    "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];

/// The bytes in names of facilities with bars between them: a table, because words behind each time are asked.
const IN_FACILITIES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'|';
        byte += 1;
    }
    table
};

/// The name of a facility, 0 to 23.
pub fn facility_name(number: u8) -> Option<&'static str> {
    FACILITIES.get(usize::from(number)).copied()
}

/// Whether a word is the name of a facility, in any case.
pub(super) fn is_facility(word: &str) -> bool {
    FACILITIES.iter().any(|facility| facility.eq_ignore_ascii_case(word))
}

/// The severity of `local0.err`, `auth|security:info` and `daemon:err|error`, which daemons write into files in place of the priority.
#[inline]
pub(super) fn named_severity(word: &str) -> Option<Level> {
    if may_be_named(word.as_bytes()) { after_facilities(word) } else { None }
}

/// Whether a word begins like a facility, and its letters, digits and bars end at a dot or a colon with the first letters of a
/// level behind it: most words do not.
#[inline]
pub(super) fn may_be_named(word: &[u8]) -> bool {
    let begins =
        |first: &u8| matches!(first | 0x20, b'k' | b'u' | b'm' | b'd' | b'a' | b's' | b'l' | b'n' | b'f' | b'c');
    if !word.first().is_some_and(begins) {
        return false;
    }
    let sign = word.iter().position(|byte| !IN_FACILITIES[usize::from(*byte)]).unwrap_or(word.len());
    matches!(word.get(sign), Some(b'.' | b':')) && Level::may_begin(&word[sign + 1..])
}

fn after_facilities(word: &str) -> Option<Level> {
    let sign = word.bytes().position(|byte| matches!(byte, b'.' | b':'))?;
    let level = Level::from_word(word.get(sign + 1..)?.split('|').next()?)?;
    word.get(..sign)?.split('|').any(is_facility).then_some(level)
}

/// The facility beside a named severity.
pub(super) fn named_facility(word: &str) -> Option<&str> {
    named_severity(word)?;
    word.split(['.', ':']).next()
}
