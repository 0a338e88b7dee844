//! Forms that begin with the name of a month or a weekday: `Nov 20 00:05:45`, `Sun Dec 04 04:47:44 2005`.

use super::clock::{DigitCursor, Seconds};
use super::date::{
    WrittenDate, begins_with_english, clock_after, finish, is_short_month, month, signed, trailing_year, weekday,
};
use super::written_zone::zone;
use super::{Form, Stamp, TimestampDefaults, iso, language};

/// The timestamp at the start of a text that begins with the name of a month or a weekday.
pub(super) fn from_name(bytes: &[u8], defaults: &TimestampDefaults) -> Option<Stamp> {
    // Most words begin no date, and each word of a line without a time is asked.
    if !begins_with_english(bytes) && !language::may_begin(bytes) {
        return None;
    }
    let mut cursor = DigitCursor { bytes, at: 0 };
    if !is_short_month(bytes) && weekday(&mut cursor) {
        let _comma = cursor.eat(b',');
        if !cursor.eat(b' ') {
            return None;
        }
        let _padding = cursor.eat(b' ');
        if cursor.peek()?.is_ascii_digit() {
            let stamp = iso::at_digit(cursor.rest(), defaults)?;
            let form = if stamp.form == Form::Epoch { return None } else { Form::Other };
            return Some(Stamp { length: stamp.length + cursor.at, form, ..stamp });
        }
    }
    let begins_with_month = cursor.at == 0;
    let month = month(&mut cursor)?;
    let _dot = cursor.eat(b'.');
    // `Nov21`
    if cursor.run() != 2 {
        cursor.eat_any(b" -/")?;
    }
    let _padding = cursor.eat(b' ');
    let day = cursor.number(1, 2)?;
    let comma = cursor.eat(b',');
    cursor.eat_any(b" -/")?;
    if cursor.run() == 4 {
        let year = signed(cursor.digits(4)?)?;
        let _comma = cursor.eat(b',');
        cursor.eat_any(b" :-")?;
        return clock_after(WrittenDate::Full(year, month, day), &mut cursor, Seconds::Optional, defaults);
    }
    let _padding = cursor.eat(b' ');
    let before = cursor;
    let since_midnight = cursor.clock(b':', Seconds::Required).or_else(|| {
        // `Nov 21 08:00 : text`
        cursor = before;
        cursor.clock(b':', Seconds::Optional).filter(|_| cursor.rest().starts_with(b" : "))
    })?;
    if comma && !begins_with_month {
        return None;
    }
    let (offset, length) = zone(cursor.rest())?;
    cursor.at += length;
    let (date, form) = match trailing_year(&mut cursor) {
        Some(year) => (WrittenDate::Full(year, month, day), Form::Other),
        None if begins_with_month => (WrittenDate::Short(month, day), Form::Bsd),
        None => (WrittenDate::Short(month, day), Form::Other),
    };
    finish(date, since_midnight, offset, &cursor, form, defaults)
}
