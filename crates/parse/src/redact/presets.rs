//! The patterns with a name.

use super::{Search, Target};
use regex::Regex;
use std::sync::LazyLock;

/// The preset for private keys, which span several lines.
pub(super) const PRIVATE_KEY: &str = "private-key";

/// `ann@example.com`, also with `%40` as in URLs, or `\u0040` as in JSON inside a text.
const EMAIL: &str = r"[0-9A-Za-z._%+'\-\x{80}-\x{10FFFF}]+(?:@|%40|\\u0040)(?:[0-9A-Za-z_\-\x{80}-\x{10FFFF}]+\.)+[0-9A-Za-z\-\x{80}-\x{10FFFF}]{2,}";

/// `Bearer …` and `Basic …`, the value of a header with credentials, and JSON web tokens.
const TOKEN: &str = concat!(
    r#"(?i:authorization|x-api-key|x-auth-token)\\?["']?\s*[:=]\s*\\?["']?((?:(?i:bearer|basic|token|digest|apikey|negotiate)\s+)?[^\s"',;\\]+)"#,
    r#"|(?-u:\b)(?i:bearer|basic)(?:\s+|%20|\+|=|:\s*)\\?["']?([0-9A-Za-z._~+/=%-]{8,})"#,
    r"|(?-u:\b)(eyJ[0-9A-Za-z_-]{5,}(?:\.[0-9A-Za-z_-]*){1,4})",
);

/// A PEM block, on one line or several; a block without an end reaches to the end of the text.
const KEY: &str = r"-----BEGIN (?:[0-9A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----(?s:.*?-----END (?:[0-9A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----|.*)";

/// The presets, compiled once; a test checks that every pattern is valid.
static ALL: LazyLock<Vec<(&str, Target)>> = LazyLock::new(|| {
    let all = [
        ("credit-card", Some(Target::Card)),
        ("email", search(EMAIL, r"@|%40|\\u0040", |_| true, |_| false)),
        (
            "bearer-token",
            search(TOKEN, "eyJ|(?i:bearer|basic|authorization|x-api-key|x-auth-token)", is_token, has_credentials),
        ),
        (PRIVATE_KEY, search(KEY, "PRIVATE KEY", |_| true, |_| false)),
    ];
    all.into_iter().filter_map(|(name, target)| Some((name, target?))).collect()
});

fn search(pattern: &str, hint: &str, counts: fn(&str) -> bool, names: fn(&str) -> bool) -> Option<Target> {
    let regex = Regex::new(pattern).ok()?;
    let hint = Some(Regex::new(hint).ok()?);
    Some(Target::Regex(Search { has_group: regex.captures_len() > 1, regex, hint, counts, names }))
}

/// Every preset.
pub(super) fn all() -> impl Iterator<Item = (&'static str, Target)> {
    ALL.iter().map(|(name, target)| (*name, target.clone()))
}

/// Whether the text after `Bearer` or `Basic` is a token, not a word as in "basic authentication".
fn is_token(text: &str) -> bool {
    let is_word = text.len() < 24 && text.bytes().skip(1).all(|byte| byte.is_ascii_lowercase() || byte == b'.');
    !is_word
}

/// Whether the value of a field with this name is a credential: `authorization`, `headers.Authorization`.
fn has_credentials(name: &str) -> bool {
    let last = name.rsplit(['.', '_']).next().unwrap_or(name);
    ["authorization", "proxy-authorization", "x-api-key", "x-auth-token"]
        .iter()
        .any(|known| last.eq_ignore_ascii_case(known))
}

/// Whether a line leaves a private key open for the next line to continue.
pub(super) fn leaves_key_open(is_open: bool, line: &str) -> bool {
    match (line.rfind("-----BEGIN "), line.rfind("-----END ")) {
        (Some(begin), end) if line[begin..].contains("PRIVATE KEY") => end.is_none_or(|end| end < begin),
        (_, Some(_)) => false,
        _ => is_open,
    }
}

/// A line inside a PEM block or its last line: base64, or a header like `Proc-Type: 4,ENCRYPTED`.
pub(super) fn is_of_key(line: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let known = ["-----END ", "Proc-Type: ", "DEK-Info: ", "Version: ", "Comment: "];
    line.len() <= 128 && (line.bytes().all(is_base64) || known.iter().any(|known| line.starts_with(known)))
}
