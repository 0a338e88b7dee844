//! Regular expressions as Go writes them, translated for the `regex` crate.
//!
//! Both are linear and nearly the same language. The differences that matter: in Go `\d`, `\w`, `\s` and `\b` are ASCII, a
//! brace that begins no repetition and a bracket within a class are literals, and any punctuation may be escaped.

use regex::{Regex, RegexBuilder};

/// Bytes of a compiled regular expression: a small one, a larger one, and the largest.
const REGEX_BYTES: [usize; 3] = [64 << 10, 512 << 10, 4 << 20];

/// The bytes that the compiled regular expressions of a query may still take.
pub(crate) struct RegexBudget(usize);

impl Default for RegexBudget {
    fn default() -> RegexBudget {
        RegexBudget(16 << 20)
    }
}

impl RegexBudget {
    /// Compiles a regular expression of Go. The error says what is wrong.
    pub(crate) fn compile(&mut self, pattern: &str) -> Result<Regex, String> {
        self.build(&translated(pattern))
    }

    /// Compiles a regular expression of Go that must match a whole text.
    pub(crate) fn compile_anchored(&mut self, pattern: &str) -> Result<Regex, String> {
        self.build(&format!("^(?s:{})$", translated(pattern)))
    }

    /// Takes the smallest of the sizes that is enough.
    fn build(&mut self, pattern: &str) -> Result<Regex, String> {
        let mut refused = None;
        for bytes in REGEX_BYTES {
            if bytes > self.0 {
                break;
            }
            match build(pattern, bytes) {
                Ok(regex) => {
                    self.0 -= bytes;
                    return Ok(regex);
                }
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(error) => return Err(shown_error(&error)),
            }
            refused = Some(bytes);
        }
        Err(match refused {
            Some(bytes) if Some(&bytes) == REGEX_BYTES.last() => {
                format!("invalid regular expression: its compiled form exceeds {} MiB", bytes >> 20)
            }
            _ => "the regular expressions of the query are too many, or too large".into(),
        })
    }
}

/// Compiles a regular expression of Go. The error says what is wrong.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBudget::default().compile(pattern)
}

fn build(pattern: &str, bytes: usize) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(bytes).dfa_size_limit(4 * bytes).build()
}

fn shown_error(error: &regex::Error) -> String {
    let text = error.to_string();
    // The last line has the reason; the lines before show the translated pattern.
    format!("invalid regular expression: {}", text.lines().last().unwrap_or_default().trim_start_matches("error: "))
}

/// The pattern in the syntax of the `regex` crate.
fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.char_indices().peekable();
    let mut in_class = false;
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                let Some((_, escaped)) = chars.next() else {
                    out.push('\\');
                    break;
                };
                match escaped {
                    'Q' if !in_class => {
                        let rest = &pattern[at + 2..];
                        let literal = rest.find("\\E").map_or(rest, |end| &rest[..end]);
                        out.push_str(&regex::escape(literal));
                        let end = at + 2 + literal.len() + if literal.len() < rest.len() { 2 } else { 0 };
                        while chars.next_if(|(at, _)| *at < end).is_some() {}
                    }
                    'd' => out.push_str("[0-9]"),
                    'D' => out.push_str("[^0-9]"),
                    'w' => out.push_str("[0-9A-Za-z_]"),
                    'W' => out.push_str("[^0-9A-Za-z_]"),
                    's' => out.push_str("[\\t\\n\\f\\r ]"),
                    'S' => out.push_str("[^\\t\\n\\f\\r ]"),
                    'b' if !in_class => out.push_str("(?-u:\\b)"),
                    // A class of Unicode: `\pL`, `\p{Greek}`, and `\p{^Greek}` for all others.
                    'p' | 'P' => {
                        let is_braced = chars.next_if(|(_, c)| *c == '{').is_some();
                        let flips = is_braced && chars.next_if(|(_, c)| *c == '^').is_some();
                        out.extend(['\\', if (escaped == 'p') == flips { 'P' } else { 'p' }]);
                        if is_braced {
                            out.push('{');
                            while let Some((_, c)) = chars.next_if(|(_, c)| *c != '}') {
                                out.push(c);
                            }
                            out.extend(chars.next().map(|(_, c)| c));
                        }
                    }
                    '<' | '>' => out.push(escaped),
                    c if c.is_ascii_alphanumeric() => out.extend(['\\', c]),
                    c if c.is_ascii() && !c.is_ascii_control() && c != ' ' => out.extend(['\\', c]),
                    c => out.push(c),
                }
            }
            '[' if in_class => {
                let is_named = pattern[at..].starts_with("[:") && pattern[at..].find(":]").is_some();
                if is_named {
                    out.push('[');
                    while let Some((_, c)) = chars.next_if(|(_, c)| *c != ']') {
                        out.push(c);
                    }
                    out.extend(chars.next().map(|(_, c)| c));
                } else {
                    out.push_str("\\[");
                }
            }
            '[' => {
                in_class = true;
                out.push('[');
                if chars.next_if(|(_, c)| *c == '^').is_some() {
                    out.push('^');
                }
                // A bracket at the beginning of a class is a literal.
                if chars.next_if(|(_, c)| *c == ']').is_some() {
                    out.push_str("\\]");
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => out.extend(['\\', c]),
            '{' if !in_class && !is_repetition(&pattern[at..]) => out.push_str("\\{"),
            c => out.push(c),
        }
    }
    out
}

/// Whether `text` begins with `{n}`, `{n,}` or `{n,m}`.
fn is_repetition(text: &str) -> bool {
    let Some((inner, _)) = text[1..].split_once('}') else { return false };
    let (low, high) = inner.split_once(',').unwrap_or((inner, ""));
    !low.is_empty() && (low.to_owned() + high).bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_go_reads_differently() {
        for (pattern, text, matches) in [
            (r#"\"status\":50[01]"#, r#""status":501"#, true),
            (r"\d+", "٣", false),
            (r"\w", "é", false),
            (r"[\d_]+$", "1_", true),
            (r"[^\s]", " ", false),
            (r#"{"a":{2}"#, r#"{"a":{2}"#, false),
            (r#"{"a""#, r#"{"a""#, true),
            (r"a{2}", "aa", true),
            (r"x{,3}", "x{,3}", true),
            (r"[[]", "[", true),
            (r"[[:alpha:]]", "q", true),
            (r"[]a]", "]", true),
            (r"\Qa.b\E.", "a.bc", true),
            (r"\/api\_", "/api_", true),
            (r"(?i)error", "ERROR", true),
            (r"(?P<n>a)", "a", true),
            (r"\bgo\b", "to go", true),
            (r"[a&&b]", "&", true),
            (r"^\pL+$", "Größe", true),
            (r"^\PL+$", "12 é", false),
            (r"\p{Greek}", "λ", true),
            (r"\p{^Greek}", "λ", false),
            (r"\P{^Lu}", "É", true),
            (r"^[\p{Han}\d]{2}$", "漢1", true),
            (r"(?i)größe", "GRÖSSE GRÖßE", true),
        ] {
            assert_eq!(compile(pattern).map(|regex| regex.is_match(text)), Ok(matches), "{pattern}");
        }
        let compile_anchored = |pattern: &str| RegexBudget::default().compile_anchored(pattern);
        assert!(compile_anchored("a|b").is_ok_and(|regex| !regex.is_match("ab") && regex.is_match("b")));
        assert!(compile("(").is_err_and(|error| error.starts_with("invalid regular expression: ")));
        assert!(compile("(((a{1000}){1000}){1000})").is_err());
        // Many small ones fit, and few large ones.
        let mut budget = RegexBudget::default();
        assert!((0..200).all(|_| budget.compile("(?i)error|warn").is_ok()));
        assert!((0..200).any(|_| budget.compile(r"\pL{50}").is_err_and(|error| error.contains("too many"))));
    }

    proptest! {
        /// No pattern panics.
        #[test]
        fn any_pattern(pattern in "[\\[\\]\\\\^{},QEdwspPL0-9:()?*+a-c é]{0,24}") {
            let _ = (compile(&pattern), RegexBudget::default().compile_anchored(&pattern));
        }
    }
}
