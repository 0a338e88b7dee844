//! The label `detected_level`, which Loki gives to each entry.
//!
//! The level is that of the first of these: a label or structured metadata with a name of a level; a member of the line,
//! if the line is a JSON object or pairs of logfmt; the first word of the line that is a level. Else the level is
//! `unknown`.

use crate::labels::Labels;

/// The name of the label.
pub const DETECTED_LEVEL: &str = "detected_level";

/// Names of fields that have the level, by priority.
const FIELDS: [&str; 17] = [
    "level",
    "LEVEL",
    "Level",
    "log.level",
    "severity",
    "SEVERITY",
    "Severity",
    "SeverityText",
    "lvl",
    "LVL",
    "Lvl",
    "severity_text",
    "Severity_Text",
    "SEVERITY_TEXT",
    "log_level",
    "loglevel",
    "severityText",
];

/// Bytes of a line that are searched for a word.
const SEARCHED_BYTES: usize = 4 << 10;

/// The level of an entry.
pub fn detected_level<'v>(line: &'v str, stream: &'v Labels, metadata: &'v Labels) -> &'v str {
    if let Some(known) = metadata.get(DETECTED_LEVEL) {
        return known;
    }
    let of_labels = FIELDS.iter().find_map(|name| {
        let name = if *name == "log.level" { "log_level" } else { name };
        metadata.get(name).or_else(|| stream.get(name))
    });
    if let Some(value) = of_labels {
        return level_of(value).unwrap_or(value);
    }
    of_line(line).unwrap_or("unknown")
}

/// The level that a word is a name of.
fn level_of(word: &str) -> Option<&'static str> {
    const NAMES: [(&str, &str); 13] = [
        ("trace", "trace"),
        ("trc", "trace"),
        ("debug", "debug"),
        ("dbg", "debug"),
        ("info", "info"),
        ("inf", "info"),
        ("information", "info"),
        ("warn", "warn"),
        ("wrn", "warn"),
        ("warning", "warn"),
        ("error", "error"),
        ("err", "error"),
        ("critical", "critical"),
    ];
    if word.eq_ignore_ascii_case("fatal") {
        return Some("fatal");
    }
    NAMES.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, level)| *level)
}

fn of_line(line: &str) -> Option<&'static str> {
    let searched = &line[..line.floor_char_boundary(SEARCHED_BYTES)];
    let trimmed = searched.trim();
    if trimmed.starts_with('{') {
        if let Some(level) = FIELDS.iter().find_map(|name| member(trimmed, name)) {
            return level_of(level);
        }
    } else if trimmed.contains('=')
        && let Some(level) = FIELDS.iter().find_map(|name| pair(trimmed, name))
    {
        return level_of(level);
    }
    searched.split(|c: char| !c.is_ascii_alphanumeric()).find_map(level_of)
}

/// The text of a member of a JSON object, wherever it stands.
fn member<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let mut rest = line;
    loop {
        let at = rest.find(name)?;
        let (before, behind) = (&rest[..at], &rest[at + name.len()..]);
        let value = behind.strip_prefix('"').map(str::trim_start).and_then(|behind| behind.strip_prefix(':'));
        if let Some(value) = value.filter(|_| before.ends_with('"'))
            && let Some(text) = value.trim_start().strip_prefix('"')
        {
            return text.split_once('"').map(|(text, _)| text);
        }
        rest = behind;
    }
}

/// The value of a pair of logfmt.
fn pair<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let mut rest = line;
    loop {
        let at = rest.find(name)?;
        let (before, behind) = (&rest[..at], &rest[at + name.len()..]);
        if (before.is_empty() || before.ends_with(char::is_whitespace))
            && let Some(value) = behind.strip_prefix('=')
        {
            let value = value.trim_start_matches('"');
            return Some(&value[..value.find([' ', '"', '\t', '\n']).unwrap_or(value.len())]);
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_lines_and_labels() {
        for (line, level) in [
            (r#"{"a":1,"level":"WARN"}"#, "warn"),
            (r#"{"lvl": "err"}"#, "error"),
            (r#"{"msg":"an error"}"#, "error"),
            (r#"level=debug msg="error""#, "debug"),
            (r#"a=b severity="fatal""#, "fatal"),
            ("ERROR worker failed", "error"),
            ("[warning] x", "warn"),
            ("information desk", "info"),
            ("GET /errors 200", "unknown"),
            ("", "unknown"),
        ] {
            assert_eq!(detected_level(line, &Labels::default(), &Labels::default()), level, "{line}");
        }
        let of = |name: &str, value: &str| Labels::new(vec![(name.into(), value.into())]);
        assert_eq!(detected_level("error", &of("level", "Info"), &Labels::default()), "info");
        assert_eq!(detected_level("error", &of("level", "info"), &of("detected_level", "x")), "x");
        assert_eq!(detected_level("error", &of("level", "odd"), &Labels::default()), "odd");
    }
}
