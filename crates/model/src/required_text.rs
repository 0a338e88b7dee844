//! The text that each match of a regular expression contains, which is faster to look for.

use regex_syntax::hir::{Hir, HirKind};

/// The longest text that each match contains, as far as the expression tells; `None` if there is none, or the expression is
/// wrong.
pub fn required_text(expression: &str) -> Option<String> {
    String::from_utf8(literal(&regex_syntax::parse(expression).ok()?)?).ok()
}

fn literal(expression: &Hir) -> Option<Vec<u8>> {
    match expression.kind() {
        HirKind::Literal(text) => Some(text.0.to_vec()),
        HirKind::Capture(capture) => literal(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => literal(&repetition.sub),
        HirKind::Concat(parts) => parts.iter().filter_map(literal).max_by_key(Vec::len),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_match_contains_it() {
        for (expression, text) in [
            ("^/api/v1/orders/1", Some("/api/v1/orders/1")),
            (r"a+(timeout) after [0-9]+ s", Some(" after ")),
            (r"(?:refused){1,3}", Some("refused")),
            (r"user=\d+ (?:failed)?", Some("user=")),
            (r"(?i)error", None),
            (r"(?i:e)rror", Some("rror")),
            ("a|b", None),
            ("(abc)*", None),
            ("", None),
            ("(", None),
        ] {
            assert_eq!(required_text(expression).as_deref(), text, "{expression}");
        }
    }
}
