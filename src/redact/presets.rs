//! What is known by name.

use super::{Hint, Search, What};
use regex::Regex;
use std::sync::LazyLock;

/// The preset for private keys, which go over lines.
pub(super) const PRIVATE_KEY: &str = "private-key";

/// `ann@example.com`, also with `%40` as in addresses, or `\u0040` as in JSON that stands in a text.
const EMAIL: &str = r"[0-9A-Za-z._%+'\-\x{80}-\x{10FFFF}]+(?:@|%40|\\u0040)(?:[0-9A-Za-z_\-\x{80}-\x{10FFFF}]+\.)+[0-9A-Za-z\-\x{80}-\x{10FFFF}]{2,}";

/// `Bearer …` and `Basic …`, what follows the name of a header that has credentials, and JSON web tokens.
const TOKEN: &str = concat!(
    r#"(?i:authorization|x-api-key|x-auth-token)\\?["']?\s*[:=]\s*\\?["']?((?:(?i:bearer|basic|token|digest|apikey|negotiate)\s+)?[^\s"',;\\]+)"#,
    r#"|(?-u:\b)(?i:bearer|basic)(?:\s+|%20|\+|=|:\s*)\\?["']?([0-9A-Za-z._~+/=%-]{8,})"#,
    r"|(?-u:\b)(eyJ[0-9A-Za-z_-]{5,}(?:\.[0-9A-Za-z_-]*){1,4})",
);

/// A block of PEM, on one line or several; one that is cut off goes on to the end of the text.
const KEY: &str = r"-----BEGIN (?:[0-9A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----(?s:.*?-----END (?:[0-9A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----|.*)";

static EMAILS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(EMAIL).ok());
static TOKENS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(TOKEN).ok());
static KEYS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(KEY).ok());

/// Every preset.
pub(super) fn all() -> impl Iterator<Item = (&'static str, What)> {
    let search = |regex: &LazyLock<Option<Regex>>, hint, counts: fn(&str) -> bool, names: fn(&str) -> bool| {
        let regex = LazyLock::force(regex).clone()?;
        Some(What::Regex(Search { has_group: regex.captures_len() > 1, regex, hint, counts, names }))
    };
    let at = Hint::Any(&["@", "%40", "\\u0040"]);
    let token = Hint::Any(&[
        "eyJ",
        "earer",
        "EARER",
        "asic",
        "ASIC",
        "uthorization",
        "UTHORIZATION",
        "-api-key",
        "-Api-Key",
        "-API-K",
        "-auth-token",
        "-Auth-Token",
        "-AUTH-T",
    ]);
    let key = Hint::Any(&["PRIVATE KEY"]);
    [
        ("credit-card", Some(What::Card)),
        ("email", search(&EMAILS, at, |_| true, |_| false)),
        ("bearer-token", search(&TOKENS, token, is_token, has_credentials)),
        (PRIVATE_KEY, search(&KEYS, key, |_| true, |_| false)),
    ]
    .into_iter()
    .filter_map(|(name, what)| Some((name, what?)))
}

/// Whether what follows `Bearer` or `Basic` is a token, not a word as in "basic authentication".
fn is_token(text: &str) -> bool {
    let is_word = text.len() < 24 && text.bytes().skip(1).all(|byte| byte.is_ascii_lowercase() || byte == b'.');
    !is_word
}

/// Whether a field of this name has credentials as a whole: `authorization`, `headers.Authorization`.
fn has_credentials(name: &str) -> bool {
    let last = name.rsplit(['.', '_']).next().unwrap_or(name);
    ["authorization", "proxy-authorization", "x-api-key", "x-auth-token"]
        .iter()
        .any(|known| last.eq_ignore_ascii_case(known))
}

/// Whether a line leaves a private key open, for the next line to go on with.
pub(super) fn leaves_key_open(is_open: bool, line: &str) -> bool {
    match (line.rfind("-----BEGIN "), line.rfind("-----END ")) {
        (Some(begin), end) if line[begin..].contains("PRIVATE KEY") => end.is_none_or(|end| end < begin),
        (_, Some(_)) => false,
        _ => is_open,
    }
}

/// A line within a block of PEM or its last one: base64, or a header as `Proc-Type: 4,ENCRYPTED`.
pub(super) fn is_of_key(line: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let known = ["-----END ", "Proc-Type: ", "DEK-Info: ", "Version: ", "Comment: "];
    line.len() <= 128 && (line.bytes().all(is_base64) || known.iter().any(|known| line.starts_with(known)))
}
