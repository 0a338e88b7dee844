//! Times in templates, in the layouts of Go: `2006-01-02T15:04:05.999Z07:00`.

use crate::template::value::TemplateValue;
use crate::text::SECOND;
use daytable_model::time::{Ticks, days_from_civil, days_in_month};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The parts of layouts; of two that begin alike, the longer is first.
const PARTS: [&str; 33] = [
    "January",
    "Jan",
    "Monday",
    "Mon",
    "MST",
    "2006",
    "-07:00:00",
    "-07:00",
    "-0700",
    "-07",
    "Z07:00",
    "Z0700",
    "Z07",
    "002",
    "01",
    "02",
    "03",
    "04",
    "05",
    "06",
    "15",
    "PM",
    "pm",
    "_2006",
    "__2",
    "_2",
    "1",
    "2",
    "3",
    "4",
    "5",
    "",
    "",
];

/// The text before the next part of a layout, the part, and the rest.
fn next_part(layout: &str) -> (&str, &str, &str) {
    for at in layout.char_indices().map(|(at, _)| at) {
        let rest = &layout[at..];
        // A fraction of seconds: `.000` or `.999`, or the same behind a comma.
        if rest.starts_with(['.', ',']) {
            let digits = rest[1..]
                .find(|c| c != '0')
                .filter(|n| *n > 0)
                .or_else(|| rest[1..].find(|c| c != '9').filter(|n| *n > 0));
            let all = |digit: char| rest.len() > 1 && rest[1..].chars().all(|c| c == digit);
            let digits = if all('0') || all('9') { Some(rest.len() - 1) } else { digits };
            if let Some(digits) = digits.filter(|n| !rest[1 + n..].starts_with(|c: char| c.is_ascii_digit())) {
                return (&layout[..at], &rest[..=digits], &rest[digits + 1..]);
            }
        }
        if let Some(part) = PARTS.into_iter().find(|part| !part.is_empty() && rest.starts_with(part)) {
            return (&layout[..at], &rest[..part.len()], &rest[part.len()..]);
        }
    }
    (layout, "", "")
}

/// A time in a layout. `zone` is the offset in seconds.
pub(in crate::template) fn format_time(nanos: i64, zone: i32, layout: &str) -> String {
    let local = nanos.saturating_add(i64::from(zone) * SECOND);
    let (seconds, fraction) = (local.div_euclid(SECOND), local.rem_euclid(SECOND));
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let date = Ticks::from_unix(seconds, 0).unwrap_or_default().date();
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let month = MONTHS[(date.month as usize - 1).min(11)];
    let weekday = DAYS[usize::try_from((day + 4).rem_euclid(7)).unwrap_or(0)];
    let offset = |colon: &str, with_minutes: bool| {
        let minutes = if with_minutes { format!("{colon}{:02}", zone.abs() / 60 % 60) } else { String::new() };
        format!("{}{:02}{minutes}", if zone < 0 { '-' } else { '+' }, zone.abs() / 3600)
    };
    let mut out = String::new();
    let mut layout = layout;
    while !layout.is_empty() {
        let (before, part, rest) = next_part(layout);
        out.push_str(before);
        out.push_str(&match part {
            "January" => month.into(),
            "Jan" => month[..3].into(),
            "Monday" => weekday.into(),
            "Mon" => weekday[..3].into(),
            "MST" if zone == 0 => "UTC".into(),
            "MST" => offset("", zone % 3600 != 0),
            "2006" => format!("{:04}", date.year),
            "_2006" => format!("_{:04}", date.year),
            "06" => format!("{:02}", date.year % 100),
            "01" => format!("{:02}", date.month),
            "1" => date.month.to_string(),
            "02" => format!("{:02}", date.day),
            "_2" => format!("{:2}", date.day),
            "2" => date.day.to_string(),
            "002" | "__2" => {
                let of_year = day - days_from_civil(date.year, 1, 1) + 1;
                if part == "002" { format!("{of_year:03}") } else { format!("{of_year:3}") }
            }
            "15" => format!("{hour:02}"),
            "03" => format!("{:02}", (hour + 11) % 12 + 1),
            "3" => ((hour + 11) % 12 + 1).to_string(),
            "04" => format!("{minute:02}"),
            "4" => minute.to_string(),
            "05" => format!("{second:02}"),
            "5" => second.to_string(),
            "PM" => if hour < 12 { "AM" } else { "PM" }.into(),
            "pm" => if hour < 12 { "am" } else { "pm" }.into(),
            "Z07:00" | "Z0700" | "Z07" if zone == 0 => "Z".into(),
            "Z07:00" | "-07:00" => offset(":", true),
            "Z0700" | "-0700" => offset("", true),
            "Z07" | "-07" => offset("", false),
            "-07:00:00" => format!("{}:{:02}", offset(":", true), zone.abs() % 60),
            part if part.len() > 1 => {
                let digits = format!("{fraction:09}");
                let kept = &digits[..(part.len() - 1).min(9)];
                let kept = if part.ends_with('9') { kept.trim_end_matches('0') } else { kept };
                if kept.is_empty() { String::new() } else { format!("{}{kept}", &part[..1]) }
            }
            _ => String::new(),
        });
        layout = rest;
    }
    out
}

/// `date`: a time, or a number of seconds, in a layout.
pub(super) fn format_value(layout: &str, time: &TemplateValue) -> Result<String, String> {
    match time {
        TemplateValue::Time(nanos, zone) => Ok(format_time(*nanos, *zone, layout)),
        TemplateValue::Int(seconds) => Ok(format_time(seconds.saturating_mul(SECOND), 0, layout)),
        _ => Err(format!("wrong type for value; expected time.Time; got {}", time.kind())),
    }
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
        .map(|nanos| TemplateValue::Time(nanos, 0))
        .ok_or_else(|| format!("unable to parse time '{text}'"))
}

/// Reads a time that is written in a layout.
pub(super) fn parse_time(layout: &str, text: &str, zone: &str) -> Result<TemplateValue, String> {
    if !matches!(zone, "UTC" | "Local" | "") {
        return Err(format!("unknown time zone {zone}: only UTC is known"));
    }
    let wrong = || format!("parsing time {text:?} as {layout:?}: cannot parse");
    let (mut year, mut month, mut day, mut hour, mut minute, mut second, mut nanos) =
        (0i32, 1u32, 1u32, 0i64, 0i64, 0i64, 0i64);
    let (mut offset, mut is_pm, mut rest, mut layout_rest) = (0i64, None, text, layout);
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
            "2006" => year = digits(4, 4)? as i32,
            "06" => year = digits(2, 2).map(|n| if n >= 69 { 1900 + n } else { 2000 + n })? as i32,
            "01" => month = digits(2, 2)? as u32,
            "1" => month = digits(1, 2)? as u32,
            "02" => day = digits(2, 2)? as u32,
            "2" | "_2" => day = digits(1, 2)? as u32,
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
                let names: &[&str] = if part.starts_with('J') { &MONTHS } else { &DAYS };
                let is_short = part.len() == 3;
                let found = names.iter().position(|name| {
                    let name = if is_short { &name[..3] } else { name };
                    rest.get(..name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name))
                });
                let at = found.ok_or_else(wrong)?;
                rest = &rest[if is_short { 3 } else { names[at].len() }..];
                if part.starts_with('J') {
                    month = at as u32 + 1;
                }
            }
            "MST" => {
                let length = rest.bytes().take_while(u8::is_ascii_uppercase).count();
                if length < 3 {
                    return Err(wrong());
                }
                rest = &rest[length..];
            }
            "Z07:00" | "Z0700" | "Z07" if rest.starts_with('Z') => rest = &rest[1..],
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
                offset = sign * (hours * 3600 + minutes * 60);
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
    if !rest.is_empty() || !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return Err(wrong());
    }
    if let Some(is_pm) = is_pm {
        hour = hour % 12 + if is_pm { 12 } else { 0 };
    }
    if hour > 23 || minute > 59 || second > 59 {
        return Err(wrong());
    }
    let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    let nanos = seconds.checked_mul(SECOND).and_then(|whole| whole.checked_add(nanos)).ok_or_else(wrong)?;
    Ok(TemplateValue::Time(nanos, i32::try_from(offset).unwrap_or(0)))
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
