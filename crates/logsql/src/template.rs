//! Patterns of the pipes `extract` and `format`: text with `<names>`.

/// A part of a pattern: a literal text, then a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplatePart {
    /// The text before the place.
    pub literal: String,
    /// The name in angle brackets; `None` for `<_>`, `<>`, and at the end of the pattern.
    pub name: Option<String>,
    /// The word before `:` in the brackets, such as `uc` or `duration`.
    pub option: Option<String>,
}

/// The words that may precede a name.
const OPTIONS: [&str; 16] = [
    "plain",
    "q",
    "uc",
    "lc",
    "time",
    "duration",
    "duration_seconds",
    "ipv4",
    "urlencode",
    "urldecode",
    "hexencode",
    "hexdecode",
    "hexnumencode",
    "hexnumdecode",
    "base64encode",
    "base64decode",
];

/// The parts of a pattern; `is_apart` asks for a text between two places. The problem says what is wrong.
pub fn parse_template(pattern: &str, is_apart: bool) -> Result<Vec<TemplatePart>, String> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    loop {
        let Some(open) = rest.find('<') else {
            if !rest.is_empty() || parts.is_empty() {
                parts.push(TemplatePart { literal: unescaped(rest), name: None, option: None });
            }
            return Ok(parts);
        };
        let Some(close) = rest[open..].find('>') else {
            return Err("expected > after <; a literal < is written &lt;".into());
        };
        let inner = rest[open + 1..open + close].trim();
        let (option, name) = match inner.split_once(':') {
            Some((option, name)) if OPTIONS.contains(&option.trim()) => (Some(option.trim().to_owned()), name.trim()),
            _ => (None, inner),
        };
        let name = (!matches!(name, "" | "_" | "*")).then(|| name.to_owned());
        let literal = unescaped(&rest[..open]);
        if is_apart && literal.is_empty() && !parts.is_empty() {
            return Err("expected a text between two <names>".into());
        }
        parts.push(TemplatePart { literal, name, option });
        rest = &rest[open + close + 1..];
    }
}

fn unescaped(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}
