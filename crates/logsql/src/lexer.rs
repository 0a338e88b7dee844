//! A query becomes tokens: words, quoted texts and signs.

use crate::error::SyntaxError;
use std::ops::Range;

/// A token of a query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueryToken {
    pub(crate) kind: TokenKind,
    /// The text: a word, the unquoted text, or a sign.
    pub(crate) text: String,
    /// Its bytes in the query.
    pub(crate) at: Range<usize>,
    /// Whether white space precedes it.
    pub(crate) is_apart: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Word,
    Quoted,
    Sign,
    End,
}

/// The tokens of a query; the last is `End`.
pub(crate) fn tokens(query: &str) -> Result<Vec<QueryToken>, SyntaxError> {
    let is_word = |c: char| c == '_' || c == '.' || c.is_alphanumeric();
    let (mut tokens, mut at, mut is_apart) = (Vec::new(), 0, true);
    while let Some(c) = query[at..].chars().next() {
        let start = at;
        let (kind, text) = if c.is_whitespace() {
            at += c.len_utf8();
            is_apart = true;
            continue;
        } else if c == '#' {
            at = query[at..].find('\n').map_or(query.len(), |newline| at + newline);
            continue;
        } else if is_word(c) {
            at += query[at..].find(|c| !is_word(c)).unwrap_or(query.len() - at);
            (TokenKind::Word, query[start..at].to_owned())
        } else if matches!(c, '"' | '\'' | '`') {
            let text = unquoted(query, &mut at, c)?;
            (TokenKind::Quoted, text)
        } else {
            let two = ["!=", "!~", "=~"].iter().any(|sign| query[at..].starts_with(sign));
            at += if two { 2 } else { c.len_utf8() };
            (TokenKind::Sign, query[start..at].to_owned())
        };
        tokens.push(QueryToken { kind, text, at: start..at, is_apart });
        is_apart = false;
    }
    tokens.push(QueryToken { kind: TokenKind::End, text: String::new(), at: query.len()..query.len(), is_apart: true });
    Ok(tokens)
}

/// The text between quotes. `at` moves behind the closing quote.
fn unquoted(query: &str, at: &mut usize, quote: char) -> Result<String, SyntaxError> {
    let start = *at;
    let mut text = String::new();
    let mut chars = query[start + 1..].char_indices();
    let wrong = |from: usize, to: usize, problem: &str| Err(SyntaxError::new(query, from..to, problem));
    while let Some((offset, c)) = chars.next() {
        let here = start + 1 + offset;
        if c == quote {
            *at = here + 1;
            return Ok(text);
        }
        if c != '\\' || quote == '`' {
            text.push(c);
            continue;
        }
        let Some((_, escaped)) = chars.next() else { break };
        text.push(match escaped {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'v' => '\x0b',
            '\\' | '"' | '\'' | '`' => escaped,
            'x' | 'u' | 'U' => {
                let rest = &query[here + 2..];
                let (digits, end) = match rest.strip_prefix('{') {
                    Some(braced) if escaped == 'u' => {
                        let digits = braced.split('}').next().unwrap_or_default();
                        (digits, digits.len() + 2)
                    }
                    _ => {
                        let length = if escaped == 'x' {
                            2
                        } else if escaped == 'u' {
                            4
                        } else {
                            8
                        };
                        (rest.get(..length).unwrap_or_default(), length)
                    }
                };
                let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex).and_then(char::from_u32);
                let Some(code) = code else {
                    return wrong(
                        here,
                        here + 2,
                        "expected the code of a character in hexadecimal, for example \\u00e4",
                    );
                };
                // All of them are ASCII.
                for _ in 0..end {
                    chars.next();
                }
                code
            }
            _ => {
                let to = here + 1 + escaped.len_utf8();
                return wrong(
                    here,
                    to,
                    "unknown escape; write \\\\ for a backslash, or put the text in backquotes `…`",
                );
            }
        });
    }
    wrong(start, query.len(), &format!("the quote is not closed; expected {quote}"))
}
