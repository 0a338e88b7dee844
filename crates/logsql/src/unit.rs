//! Durations and sizes as queries and records write them: sums of numbers with units.

/// A sum of numbers with units.
fn sum(text: &str, units: &[(&str, f64)]) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    let mut total = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, after) = rest.split_at(end);
        // Most texts have no unit there, and to look is less than to read a number.
        let first = after.as_bytes().first()?;
        let is_it = |unit: &str| unit.as_bytes().first() == Some(first) && after.starts_with(unit);
        let (unit, factor) = units.iter().find(|(unit, _)| is_it(unit))?;
        total += number.parse::<f64>().ok()? * factor;
        rest = &after[unit.len()..];
    }
    Some((sign * total).round() as i64)
}

/// A duration such as `1.5s`, `1h30m`, `250ms`, in nanoseconds.
pub fn duration_nanos(text: &str) -> Option<i64> {
    const UNITS: [(&str, f64); 10] = [
        ("ms", 1e6),
        ("µs", 1e3),
        ("us", 1e3),
        ("ns", 1.0),
        ("s", 1e9),
        ("m", 60e9),
        ("h", 3600e9),
        ("d", 86_400e9),
        ("w", 604_800e9),
        ("y", 31_536_000e9),
    ];
    sum(text, &UNITS)
}

/// A size such as `10KiB`, `1.5MB`, `100B`, in bytes.
pub fn size_bytes(text: &str) -> Option<i64> {
    const K: f64 = 1024.0;
    const UNITS: [(&str, f64); 17] = [
        ("KiB", K),
        ("MiB", K * K),
        ("GiB", K * K * K),
        ("TiB", K * K * K * K),
        ("Ki", K),
        ("Mi", K * K),
        ("Gi", K * K * K),
        ("Ti", K * K * K * K),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("K", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("B", 1.0),
    ];
    sum(text, &UNITS)
}

/// A number of rows or characters, such as `20`, `1_000`, `10K`.
pub(crate) fn whole_number(text: &str) -> Option<u64> {
    let with_unit = || size_bytes(text).and_then(|number| u64::try_from(number).ok());
    text.replace('_', "").parse().ok().or_else(with_unit)
}

/// A duration in nanoseconds as text, such as `1w2d`, `1h30m`, `1.5s`, `1ms500µs`: as LogsQL writes
/// it.
pub fn show_duration(nanos: i64) -> String {
    const LONG: [(&str, u64); 4] =
        [("w", 604_800_000_000_000), ("d", 86_400_000_000_000), ("h", 3_600_000_000_000), ("m", 60_000_000_000)];
    const SECOND: u64 = 1_000_000_000;
    const SHORT: [(&str, u64); 3] = [("ms", 1_000_000), ("µs", 1000), ("ns", 1)];
    if nanos == 0 {
        return "0".into();
    }
    let (mut text, mut rest) = (String::from(if nanos < 0 { "-" } else { "" }), nanos.unsigned_abs());
    let add = |units: &[(&str, u64)], text: &mut String, rest: &mut u64| {
        for (unit, length) in units {
            if *rest < *length {
                continue;
            }
            text.push_str(&format!("{}{unit}", *rest / length));
            *rest %= length;
        }
    };
    add(&LONG, &mut text, &mut rest);
    if rest >= SECOND {
        return text + &format!("{}s", rest as f64 / SECOND as f64);
    }
    add(&SHORT, &mut text, &mut rest);
    text
}
