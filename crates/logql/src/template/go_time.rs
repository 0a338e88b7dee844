//! Times as text in the layouts of Go: `2006-01-02T15:04:05.999Z07:00`.

use crate::text::SECOND;
use jiff::Timestamp;
use jiff::civil::{DateTime, Weekday};
use jiff::tz::Offset;

/// The names of months and of days, from January and Monday on.
pub(super) const MONTHS: [&str; 12] = [
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
pub(super) const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

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
pub(super) fn next_part(layout: &str) -> (&str, &str, &str) {
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

/// What the clocks show `zone` seconds east of UTC. A time outside the years 1 to 9999 is the first moment of the year 1.
fn local_time(seconds: i128, zone: i32) -> DateTime {
    let shown = i64::try_from(seconds).ok().and_then(|seconds| seconds.checked_add(zone.into()));
    let shown = shown.and_then(|seconds| Timestamp::from_second(seconds).ok());
    let shown = shown.map(|time| Offset::UTC.to_datetime(time)).filter(|time| time.year() > 0);
    shown.unwrap_or(DateTime::constant(1, 1, 1, 0, 0, 0, 0))
}

/// A time in a layout. `zone` is the offset in seconds.
pub(super) fn format_time(nanos: i128, zone: i32, layout: &str) -> String {
    let (seconds, fraction) = (nanos.div_euclid(SECOND.into()), nanos.rem_euclid(SECOND.into()));
    let local = local_time(seconds, zone);
    let (hour, minute, second) = (local.hour(), local.minute(), local.second());
    let month = MONTHS[usize::try_from(local.month() - 1).unwrap_or_default().min(11)];
    let weekday = WEEKDAYS[usize::try_from(local.weekday().since(Weekday::Monday)).unwrap_or_default().min(6)];
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
            "2006" => format!("{:04}", local.year()),
            "_2006" => format!("_{:04}", local.year()),
            "06" => format!("{:02}", local.year() % 100),
            "01" => format!("{:02}", local.month()),
            "1" => local.month().to_string(),
            "02" => format!("{:02}", local.day()),
            "_2" => format!("{:2}", local.day()),
            "2" => local.day().to_string(),
            "002" => format!("{:03}", local.day_of_year()),
            "__2" => format!("{:3}", local.day_of_year()),
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
