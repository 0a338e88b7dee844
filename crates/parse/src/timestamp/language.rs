//! Names of months and weekdays in the languages that have many logs, and days of the year.
//!
//! A name counts in any short form of at least three letters, with or without a dot, and only beside a number: `mai 21`,
//! `21. Nov`, `ven. 21 nov.`.

use super::clock::DigitCursor;
use daytable_model::time::days_in_month;

/// Months in German, French, Spanish, Italian, Portuguese and Dutch, in small letters without accents that begin them.
const MONTHS: [(&str, u32); 69] = [
    ("januar", 1),
    ("jänner", 1),
    ("januari", 1),
    ("janvier", 1),
    ("enero", 1),
    ("gennaio", 1),
    ("janeiro", 1),
    ("februar", 2),
    ("februari", 2),
    ("février", 2),
    ("febrero", 2),
    ("febbraio", 2),
    ("fevereiro", 2),
    ("märz", 3),
    ("mrz", 3),
    ("maart", 3),
    ("mrt", 3),
    ("mars", 3),
    ("marzo", 3),
    ("março", 3),
    ("april", 4),
    ("avril", 4),
    ("abril", 4),
    ("aprile", 4),
    ("mai", 5),
    ("mei", 5),
    ("mayo", 5),
    ("maggio", 5),
    ("maio", 5),
    ("juni", 6),
    ("juin", 6),
    ("junio", 6),
    ("giugno", 6),
    ("junho", 6),
    ("juli", 7),
    ("juillet", 7),
    ("julio", 7),
    ("luglio", 7),
    ("julho", 7),
    ("august", 8),
    ("augustus", 8),
    ("août", 8),
    ("agosto", 8),
    ("septembre", 9),
    ("septiembre", 9),
    ("settembre", 9),
    ("setembro", 9),
    ("oktober", 10),
    ("octobre", 10),
    ("octubre", 10),
    ("ottobre", 10),
    ("outubro", 10),
    ("november", 11),
    ("novembre", 11),
    ("noviembre", 11),
    ("novembro", 11),
    ("dezember", 12),
    ("december", 12),
    ("décembre", 12),
    ("diciembre", 12),
    ("dicembre", 12),
    ("dezembro", 12),
    ("sept", 9),
    ("janv", 1),
    ("févr", 2),
    ("avr", 4),
    ("juil", 7),
    ("déc", 12),
    ("set", 9),
];

/// Weekdays in the same languages, short and full. `mar` is a month.
const WEEKDAYS: [&str; 55] = [
    "mo",
    "di",
    "mi",
    "do",
    "fr",
    "sa",
    "so",
    "montag",
    "dienstag",
    "mittwoch",
    "donnerstag",
    "freitag",
    "samstag",
    "sonnabend",
    "sonntag",
    "lun",
    "mer",
    "jeu",
    "ven",
    "sam",
    "dim",
    "lundi",
    "mardi",
    "mercredi",
    "jeudi",
    "vendredi",
    "samedi",
    "dimanche",
    "mié",
    "jue",
    "vie",
    "sáb",
    "dom",
    "lunes",
    "martes",
    "miércoles",
    "jueves",
    "viernes",
    "sábado",
    "domingo",
    "gio",
    "sab",
    "lunedì",
    "martedì",
    "mercoledì",
    "giovedì",
    "venerdì",
    "domenica",
    "seg",
    "ter",
    "qua",
    "qui",
    "sex",
    "wo",
    "vr",
];

/// The letters that come next, small, if they may be one of these names, and their length.
fn letters(cursor: &DigitCursor<'_>) -> Option<(String, usize)> {
    let rest = cursor.rest();
    may_begin(rest).then_some(())?;
    let length = run(rest);
    let word = std::str::from_utf8(rest.get(..length)?).ok().filter(|word| word.len() > 1)?;
    Some((word.to_lowercase(), length))
}

/// Whether a number follows `at` bytes ahead, after a dot and marks.
fn is_beside_number(text: &[u8], at: usize) -> bool {
    let mut rest = text.get(at..).unwrap_or_default().iter().skip_while(|byte| matches!(byte, b'.' | b','));
    matches!(rest.next(), Some(b' ' | b'-' | b'/')) && rest.find(|byte| **byte != b' ').is_some_and(u8::is_ascii_digit)
}

/// The second and the third letters of the names by their first letter, a bit each; [`OTHER`] for none and for those of other
/// alphabets.
const NEXT_LETTERS: [[u32; 2]; 26] = {
    let (mut letters, mut at) = ([[0; 2]; 26], 0);
    while at < MONTHS.len() + WEEKDAYS.len() {
        let name = if at < MONTHS.len() { MONTHS[at].0 } else { WEEKDAYS[at - MONTHS.len()] }.as_bytes();
        let known = &mut letters[(name[0] - b'a') as usize];
        known[0] |= letter_bit(name[1]);
        known[1] |= if name.len() > 2 { letter_bit(name[2]) } else { OTHER };
        at += 1;
    }
    letters
};
const OTHER: u32 = 1 << 31;

const fn letter_bit(byte: u8) -> u32 {
    if byte.is_ascii_alphabetic() { 1 << ((byte | 0x20) - b'a') } else { OTHER }
}

/// Whether a text may begin with one of these names beside a number: a cheap test, which most words fail.
#[inline]
pub(super) fn may_begin(text: &[u8]) -> bool {
    let [first @ (b'A'..=b'Z' | b'a'..=b'z'), second, third, ..] = text else { return false };
    let [seconds, thirds] = NEXT_LETTERS[usize::from((first | 0x20) - b'a')];
    seconds & letter_bit(*second) != 0 && thirds & letter_bit(*third) != 0 && {
        let length = run(text);
        (2..=13).contains(&length) && is_beside_number(text, length)
    }
}

/// The number of letters at the start of a text, counted to 16.
fn run(text: &[u8]) -> usize {
    text.iter().take(16).take_while(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii()).count()
}

/// The month whose name comes next.
#[cold]
pub(super) fn month(cursor: &mut DigitCursor<'_>) -> Option<u32> {
    let (word, length) = letters(cursor).filter(|(word, _)| word.chars().count() > 2)?;
    let is_short = word.chars().count() < 5;
    let is_name = |name: &str| if is_short { name.starts_with(word.as_str()) } else { name == word };
    let (_, number) = MONTHS.iter().find(|(name, _)| is_name(name))?;
    cursor.at += length;
    let _dot = cursor.eat(b'.');
    Some(*number)
}

/// Whether the name of a weekday comes next, before a number.
#[cold]
pub(super) fn weekday(cursor: &mut DigitCursor<'_>) -> bool {
    let Some((word, length)) = letters(cursor).filter(|(word, _)| WEEKDAYS.contains(&word.as_str())) else {
        return false;
    };
    cursor.at += length;
    let _dot = cursor.eat(b'.');
    word.len() == length
}

/// Month and day of a day of the year, from 1.
pub(super) fn day_of_year(year: i32, day: u32) -> Option<(u32, u32)> {
    let mut left = day;
    (1..=12).find_map(|month| {
        let days = days_in_month(year, month);
        if (1..=days).contains(&left) {
            return Some((month, left));
        }
        left = left.saturating_sub(days);
        None
    })
}
