//! Cuts a query into tokens, each with its place.

use crate::error::QuerySyntaxError;
use crate::text;

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lexeme {
    /// A name or a keyword.
    Name(String),
    /// A string literal, without its quotes.
    String(String),
    /// A number.
    Number(f64),
    /// A duration in nanoseconds.
    Duration(i64),
    /// A size in bytes.
    Size(f64),
    /// `--strict`, without the dashes.
    Flag(String),
    /// An operator or a bracket.
    Sign(&'static str),
    /// The end of the query.
    End,
}

/// A token and where it begins, in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) token: Lexeme,
    pub(crate) at: usize,
    pub(crate) end: usize,
}

/// Operators and brackets; of two that match, the longer is first.
const SIGNS: [&str; 32] = [
    "|=", "|~", "|>", "!=", "!~", "!>", "=~", "==", ">=", "<=", "|", "=", ">", "<", "+", "-", "*", "/", "%", "^", "{",
    "}", "(", ")", "[", "]", ",", ".", "@", ":", ";", "!",
];

/// The tokens of `query`, with [`Lexeme::End`] last.
pub(crate) fn tokens(query: &str) -> Result<Vec<Placed>, QuerySyntaxError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = query[at..].chars().next() {
        let rest = &query[at..];
        let (token, length) = match c {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            '#' => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            '"' | '`' => {
                let (value, length) = text::unquoted(rest).map_err(|offset| {
                    QuerySyntaxError::new(query, at + offset, "the string literal is invalid or has no end")
                })?;
                (Lexeme::String(value), length)
            }
            c if c.is_ascii_digit() || c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                number(query, at)?
            }
            c if c == '_' || c.is_alphabetic() => {
                let length = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
                (Lexeme::Name(rest[..length].to_owned()), length)
            }
            '-' if rest.len() > 2 && rest.starts_with("--") && rest.as_bytes()[2].is_ascii_alphabetic() => {
                let name = &rest[2..];
                let length = name.find(|c: char| c != '-' && !c.is_ascii_alphanumeric()).unwrap_or(name.len());
                (Lexeme::Flag(name[..length].to_owned()), length + 2)
            }
            _ => match SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
                Some(sign) => (Lexeme::Sign(sign), sign.len()),
                None => return Err(QuerySyntaxError::new(query, at, format!("unexpected character {c:?}"))),
            },
        };
        tokens.push(Placed { token, at, end: at + length });
        at += length;
    }
    tokens.push(Placed { token: Lexeme::End, at: query.len(), end: query.len() });
    Ok(tokens)
}

/// A number, a duration or a size, and its length.
fn number(query: &str, at: usize) -> Result<(Lexeme, usize), QuerySyntaxError> {
    let rest = &query[at..];
    let mut length = 0;
    for (offset, c) in rest.char_indices() {
        let in_exponent = matches!(c, '+' | '-')
            && matches!(rest.as_bytes()[offset.saturating_sub(1)], b'e' | b'E')
            && rest[..offset - 1].bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if !(c.is_ascii_alphanumeric() || matches!(c, '.' | 'µ' | 'μ' | '_') || in_exponent) {
            break;
        }
        length = offset + c.len_utf8();
    }
    let word = &rest[..length];
    let token = if let Some(number) = text::parse_number(word) {
        Lexeme::Number(number)
    } else if let Some(nanos) = text::duration(word, true) {
        Lexeme::Duration(nanos)
    } else if let Some(bytes) = text::size(word) {
        Lexeme::Size(bytes)
    } else {
        return Err(QuerySyntaxError::new(query, at, format!("{word:?} is not a number, duration or size")));
    };
    Ok((token, length))
}
