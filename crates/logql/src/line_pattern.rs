//! Patterns of lines: `<ip> - - <_> "<method> <path> <_>"`.
//!
//! A pattern is literals with captures between. As a stage, a pattern gives its captures as labels. As a filter (`|>`), a
//! pattern has only unnamed captures, and must match up to the end of the line. As in Loki, anything may stand before a
//! literal that begins the pattern.

/// A pattern of lines.
#[derive(Clone, Debug)]
pub struct CapturePattern {
    source: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// A capture; without a name, its text is not kept.
    Capture(Option<String>),
}

impl CapturePattern {
    /// A pattern of a stage: at least one capture has a name.
    pub(crate) fn with_names(source: &str) -> Result<CapturePattern, String> {
        let pattern = CapturePattern::new(source)?;
        let names: Vec<_> = pattern.parts.iter().filter_map(|part| part.name()).collect();
        if names.is_empty() {
            return Err("invalid pattern: at least one capture must have a name".into());
        }
        if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            return Err(format!("invalid pattern: duplicate capture name {}", twice.1));
        }
        Ok(pattern)
    }

    /// A pattern of a filter: no capture has a name.
    pub(crate) fn without_names(source: &str) -> Result<CapturePattern, String> {
        let pattern = CapturePattern::new(source)?;
        match pattern.parts.iter().find_map(|part| part.name()) {
            Some(name) => Err(format!("invalid pattern: a capture of a filter must be <_>, found <{name}>")),
            None => Ok(pattern),
        }
    }

    fn new(source: &str) -> Result<CapturePattern, String> {
        let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), source);
        while let Some(at) = rest.find('<') {
            let name = rest[at + 1..].split_once('>').map(|(name, _)| name).filter(|name| is_name(name));
            let Some(name) = name else {
                literal.push_str(&rest[..=at]);
                rest = &rest[at + 1..];
                continue;
            };
            literal.push_str(&rest[..at]);
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            } else if matches!(parts.last(), Some(Part::Capture(_))) {
                return Err("invalid pattern: found consecutive capture, a literal must stand between two".into());
            }
            parts.push(Part::Capture((name != "_").then(|| name.to_owned())));
            rest = &rest[at + name.len() + 2..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(CapturePattern { source: source.to_owned(), parts })
    }

    /// The pattern as written.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// The captures of a line, by name. A literal that is missing ends the captures; the last one has the rest of the line.
    pub(crate) fn captures<'p, 'l>(&'p self, line: &'l str) -> Vec<(&'p str, &'l str)> {
        let (mut captures, mut rest) = (Vec::new(), line);
        let mut parts = self.parts.as_slice();
        if let [Part::Literal(literal), more @ ..] = parts {
            let Some(behind) = rest.strip_prefix(literal.as_str()) else { return captures };
            (rest, parts) = (behind, more);
        }
        while let [Part::Capture(name), more @ ..] = parts {
            let literal = match more.first() {
                Some(Part::Literal(literal)) => Some(literal.as_str()),
                _ => None,
            };
            let end = literal.and_then(|literal| rest.find(literal));
            if let Some(name) = name {
                captures.push((name.as_str(), &rest[..end.unwrap_or(rest.len())]));
            }
            let (Some(end), Some(literal)) = (end, literal) else { break };
            rest = &rest[end + literal.len()..];
            parts = &more[1..];
        }
        captures
    }

    /// Whether the line matches up to its end. A capture has at least one character.
    pub(crate) fn matches(&self, line: &str) -> bool {
        let (mut rest, mut after_capture) = (line, false);
        for (number, part) in self.parts.iter().enumerate() {
            match part {
                Part::Capture(_) => after_capture = true,
                Part::Literal(literal) => {
                    let Some(at) = rest.find(literal.as_str()) else { return false };
                    if number > 0 && at == 0 {
                        return false;
                    }
                    rest = &rest[at + literal.len()..];
                    after_capture = false;
                }
            }
        }
        after_capture != rest.is_empty()
    }
}

impl Part {
    fn name(&self) -> Option<&str> {
        match self {
            Part::Capture(Some(name)) => Some(name),
            _ => None,
        }
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
        && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn captures_of_a_line() {
        let line = r#"10.0.0.89 - - [x] "HEAD / HTTP/1.1" 500 1091 "-""#;
        for (pattern, captures) in [
            (
                r#"<ip> - - [<_>] "<method> <path> <_>" <status> <bytes> <_>"#,
                "ip=10.0.0.89 method=HEAD path=/ status=500 bytes=1091",
            ),
            ("<all>", "all=10.0.0.89 - - [x] \"HEAD / HTTP/1.1\" 500 1091 \"-\""),
            ("10.0.0.<n> <_>", "n=89"),
            ("x<n>", ""),
            ("<a>nowhere<b>", "a=10.0.0.89 - - [x] \"HEAD / HTTP/1.1\" 500 1091 \"-\""),
        ] {
            let found = CapturePattern::with_names(pattern).expect("good");
            let found: Vec<_> = found.captures(line).into_iter().map(|(n, v)| format!("{n}={v}")).collect();
            assert_eq!(found.join(" "), captures, "{pattern}");
        }
        for wrong in ["", "<_>", "text", "<a><b>", "<a> <a>"] {
            assert!(CapturePattern::with_names(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn filters_match_up_to_the_end() {
        for (pattern, line, matches) in [
            ("<_>GET<_>", "a GET b", true),
            ("<_>GET<_>", "GET b", false),
            ("GET<_>", "GET b", true),
            ("GET<_>", "a GET b", true),
            ("GET", "a GET", true),
            ("GET", "GET b", false),
            ("a<_>", "aa", true),
            ("<_> GET", "a GET", true),
            ("<_> GET", "a GET b", false),
            ("GET", "GET", true),
            ("<_>", "", false),
            ("", "", true),
            ("", "a", false),
            ("a <_> c", "a b c", true),
            ("a <1> c", "a <1> c", true),
        ] {
            assert_eq!(
                CapturePattern::without_names(pattern).map(|p| p.matches(line)),
                Ok(matches),
                "{pattern:?} {line:?}"
            );
        }
        assert!(CapturePattern::without_names("<a>").is_err());
    }

    proptest! {
        /// No pattern and no line panics, and a pattern of one literal is the end of the line, where it stands first.
        #[test]
        fn any_pattern(pattern in "[<>_ab é]{0,12}", line in "[<>_ab é]{0,12}") {
            if let Ok(pattern) = CapturePattern::with_names(&pattern) {
                let _ = pattern.captures(&line);
            }
            if let Ok(filter) = CapturePattern::without_names(&pattern) && !pattern.contains("<_>") {
                let behind = line.split_once(&pattern).map(|(_, behind)| behind);
                let is_end = if pattern.is_empty() { line.is_empty() } else { behind == Some("") };
                prop_assert_eq!(filter.matches(&line), is_end);
            }
        }
    }
}
