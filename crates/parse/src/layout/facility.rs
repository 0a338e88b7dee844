//! The facilities of syslog, and severities that are written beside their names.

use daytable_model::record::Level;

const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp",
    "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];

/// The name of a facility, 0 to 23.
pub fn facility_name(number: u8) -> Option<&'static str> {
    FACILITIES.get(usize::from(number)).copied()
}

/// Whether a word is the name of a facility, in any case.
pub(super) fn is_facility(word: &str) -> bool {
    FACILITIES.iter().any(|facility| facility.eq_ignore_ascii_case(word))
}

/// The severity of `local0.err` and `auth|security:info`, which daemons write into files in place of the priority.
#[inline]
pub(super) fn named_severity(word: &str) -> Option<Level> {
    word.as_bytes().first().filter(|first| first.is_ascii_alphabetic())?;
    let sign = word.bytes().position(|byte| matches!(byte, b'.' | b':'))?;
    // Many words have such a sign, and few end in a level.
    let level = Level::from_word(word.get(sign + 1..)?)?;
    word.get(..sign)?.split('|').any(is_facility).then_some(level)
}

/// The facility beside a named severity.
pub(super) fn named_facility(word: &str) -> Option<&str> {
    named_severity(word)?;
    word.split(['.', ':']).next()
}
