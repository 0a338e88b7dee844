//! Times in templates, in the layouts of Go: `2006-01-02T15:04:05.999Z07:00`.

use crate::template::go_time::{MONTHS, WEEKDAYS, format_time, next_part};
use crate::template::value::TemplateValue;
use crate::text::SECOND;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};

/// The time that a text which is not a time is: the first second of the year 1, as in Go.
const ZERO: TemplateValue = TemplateValue::Time(-62_135_596_800 * SECOND as i128, 0);

/// `date`: a time, or a number of seconds, in a layout and in UTC.
pub(super) fn format_value(layout: &str, time: &TemplateValue) -> Result<String, String> {
    match time {
        TemplateValue::Time(nanos, _) => Ok(format_time(*nanos, 0, layout)),
        TemplateValue::Int(seconds) => Ok(format_time(i128::from(*seconds) * i128::from(SECOND), 0, layout)),
        _ => Err(format!("wrong type for value; expected time.Time; got {}", time.kind())),
    }
}

/// Reads a time that is written in a layout, in a zone unless the text has an offset. An unknown zone is UTC.
pub(super) fn parse_time(layout: &str, text: &str, zone: &str) -> TemplateValue {
    let Ok((local, offset)) = read_time(layout, text) else { return ZERO };
    let in_zone = || {
        let zone = TimeZone::get(zone).ok()?;
        let offset_at = |seconds: i64| Some(zone.to_offset(Timestamp::from_second(seconds).ok()?).seconds());
        let seconds = i64::try_from(local.div_euclid(SECOND.into())).ok()?;
        // The offset at that time, if the time were UTC, may belong to the other side of a change of clocks.
        let guess = offset_at(seconds)?;
        offset_at(seconds - i64::from(guess))
    };
    let offset = offset.or_else(in_zone).unwrap_or(0);
    TemplateValue::Time(local - i128::from(offset) * i128::from(SECOND), offset)
}

/// `unixToTime`: the number of digits says whether days, seconds, or parts of seconds are counted.
pub(super) fn from_epoch(text: &str) -> Result<TemplateValue, String> {
    let number: i64 = text.parse().map_err(|_| format!("unable to parse time '{text}'"))?;
    let unit = match text.len() {
        5 => 86_400 * SECOND,
        10 => SECOND,
        13 => 1_000_000,
        16 => 1000,
        19 => 1,
        _ => return Err(format!("unable to parse time '{text}'")),
    };
    number
        .checked_mul(unit)
        .map(|nanos| TemplateValue::Time(nanos.into(), 0))
        .ok_or_else(|| format!("unable to parse time '{text}'"))
}

/// Reads a time that is written in a layout: nanoseconds as if its zone were UTC, and the offset in seconds, if it has one.
fn read_time(layout: &str, text: &str) -> Result<(i128, Option<i32>), String> {
    let wrong = || format!("parsing time {text:?} as {layout:?}: cannot parse");
    let (mut year, mut month, mut day, mut hour, mut minute, mut second, mut nanos) =
        (0i64, 1i64, 1i64, 0i64, 0i64, 0i64, 0i64);
    let (mut offset, mut is_pm, mut rest, mut layout_rest) = (None, None, text, layout);
    while !layout_rest.is_empty() {
        let (before, part, behind) = next_part(layout_rest);
        rest = rest.strip_prefix(before).ok_or_else(wrong)?;
        layout_rest = behind;
        let mut digits = |min: usize, max: usize| -> Result<i64, String> {
            let trimmed = rest.trim_start_matches(' ');
            let length = trimmed.bytes().take(max).take_while(u8::is_ascii_digit).count();
            if length < min {
                return Err(wrong());
            }
            rest = &trimmed[length..];
            trimmed[..length].parse().map_err(|_| wrong())
        };
        match part {
            "2006" => year = digits(4, 4)?,
            "06" => year = digits(2, 2).map(|n| if n >= 69 { 1900 + n } else { 2000 + n })?,
            "01" => month = digits(2, 2)?,
            "1" => month = digits(1, 2)?,
            "02" => day = digits(2, 2)?,
            "2" | "_2" => day = digits(1, 2)?,
            "15" | "03" => hour = digits(2, 2)?,
            "3" => hour = digits(1, 2)?,
            "04" => minute = digits(2, 2)?,
            "4" => minute = digits(1, 2)?,
            "05" | "5" => {
                second = digits(if part == "5" { 1 } else { 2 }, 2)?;
                // Go accepts a fraction that the layout does not have.
                if rest.starts_with(['.', ',']) && !behind.starts_with(['.', ',']) {
                    nanos = fraction(&mut rest).unwrap_or(0);
                }
            }
            "PM" | "pm" => {
                let half = rest.get(..2).ok_or_else(wrong)?;
                is_pm = Some(half.eq_ignore_ascii_case("pm"));
                rest = &rest[2..];
            }
            "January" | "Jan" | "Monday" | "Mon" => {
                let names: &[&str] = if part.starts_with('J') { &MONTHS } else { &WEEKDAYS };
                let is_short = part.len() == 3;
                let found = names.iter().position(|name| {
                    let name = if is_short { &name[..3] } else { name };
                    rest.get(..name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name))
                });
                let at = found.ok_or_else(wrong)?;
                rest = &rest[if is_short { 3 } else { names[at].len() }..];
                if part.starts_with('J') {
                    month = i64::try_from(at).unwrap_or_default() + 1;
                }
            }
            "MST" => {
                let length = rest.bytes().take_while(u8::is_ascii_uppercase).count();
                if length < 3 {
                    return Err(wrong());
                }
                rest = &rest[length..];
            }
            "Z07:00" | "Z0700" | "Z07" if rest.starts_with('Z') => (rest, offset) = (&rest[1..], Some(0)),
            "Z07:00" | "-07:00" | "Z0700" | "-0700" | "Z07" | "-07" => {
                let sign = match rest.as_bytes().first() {
                    Some(b'+') => 1,
                    Some(b'-') => -1,
                    _ => return Err(wrong()),
                };
                rest = &rest[1..];
                let mut two = || {
                    let number: i64 = rest.get(..2).and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
                    rest = &rest[2..];
                    Ok::<i64, String>(number)
                };
                let hours = two()?;
                let minutes = if part.ends_with(":00") {
                    rest = rest.strip_prefix(':').ok_or_else(wrong)?;
                    rest.get(..2).and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?
                } else if part.ends_with("0700") {
                    rest.get(..2).and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?
                } else {
                    0i64
                };
                if part.len() > 3 {
                    rest = &rest[2..];
                }
                offset = Some(sign * (hours * 3600 + minutes * 60) as i32);
            }
            "" => {}
            part if part.starts_with(['.', ',']) => {
                nanos = match fraction(&mut rest) {
                    Some(nanos) => nanos,
                    None if part.ends_with('9') => 0,
                    None => return Err(wrong()),
                }
            }
            _ => return Err(wrong()),
        }
    }
    let date = || Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok();
    let date = date().filter(|_| rest.is_empty()).ok_or_else(wrong)?;
    if let Some(is_pm) = is_pm {
        hour = hour % 12 + if is_pm { 12 } else { 0 };
    }
    if hour > 23 || minute > 59 || second > 59 {
        return Err(wrong());
    }
    let midnight = Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).map_err(|_| wrong())?;
    let seconds = midnight.as_second() + hour * 3600 + minute * 60 + second;
    Ok((i128::from(seconds) * i128::from(SECOND) + i128::from(nanos), offset))
}

/// The nanoseconds of a fraction, which begins with a point.
fn fraction(rest: &mut &str) -> Option<i64> {
    let digits = rest.strip_prefix(['.', ','])?;
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    if length == 0 {
        return None;
    }
    *rest = &digits[length..];
    format!("{:0<9}", &digits[..length.min(9)]).parse().ok()
}
