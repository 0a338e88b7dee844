//! Readers of values that several sections have.

use daytable_model::units::{ByteSize, parse_duration};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Where systemd puts the credentials of the unit.
const CREDENTIALS: &str = "/run/credentials/daytable.service";
/// Characters of the name of a block or a pattern: names are labels of metrics.
const NAME_CHARS_MAX: usize = 64;

/// The path of a secret file. `%d/NAME` is a credential of systemd, as in a unit: a file in `CREDENTIALS_DIRECTORY`, or
/// without that variable (the file is checked by hand) in the folder of the installed unit.
pub(super) fn secret_file(text: &str) -> Result<PathBuf, &'static str> {
    let Some(name) = text.strip_prefix("%d/") else { return absolute(text) };
    let folder = std::env::var_os("CREDENTIALS_DIRECTORY").unwrap_or_else(|| CREDENTIALS.into());
    Ok(PathBuf::from(folder).join(name))
}

/// A path with the same meaning in every working folder.
pub(super) fn absolute(text: &str) -> Result<PathBuf, &'static str> {
    if text.starts_with('/') { Ok(text.into()) } else { Err("must be an absolute path, beginning with \"/\"") }
}

/// The address of a service, without a slash at its end. `None` for a text that is not an address, or has a user, a key
/// or a query.
pub(super) fn service_address(text: &str) -> Option<String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:[]/".contains(c);
    let is_address = !rest.is_empty() && !rest.starts_with('/') && rest.chars().all(is_plain);
    is_address.then(|| text.trim_end_matches('/').into())
}

/// The name of a block, a credential or a pattern.
pub(super) fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if (1..=NAME_CHARS_MAX).contains(&text.len()) && text.chars().all(is_plain) {
        Ok(text.into())
    } else {
        Err(format!("a name has 1 to {NAME_CHARS_MAX} letters, digits, \"-\", \"_\" and \".\""))
    }
}

/// The name of a field.
pub(super) fn field_name(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("must name a field") } else { Ok(text.into()) }
}

/// A size of at least `min`.
pub(super) fn size_at_least(min: ByteSize, text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>() {
        Ok(size) if size >= min => Ok(size),
        Ok(_) => Err(format!("must be at least \"{min}\"")),
        Err(error) => Err(error.to_string()),
    }
}

/// A duration within `range`, whose limits `error` names.
pub(super) fn duration_within(range: &RangeInclusive<Duration>, error: &str, text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(duration) if range.contains(&duration) => Ok(duration),
        Ok(_) => Err(error.into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads `word` as `None`, and any other text by `read`, whose error then offers the word too.
pub(super) fn or_word<V, E: Display>(
    word: &str,
    text: &str,
    read: impl FnOnce(&str) -> Result<V, E>,
) -> Result<Option<V>, String> {
    if text == word {
        return Ok(None);
    }
    read(text).map(Some).map_err(|error| format!("{error}, or {word:?}"))
}

/// The name of a host that forwards, or a pattern of such names.
pub(super) fn host_pattern(text: &str) -> Result<String, String> {
    daytable_forward::intake::checked_name(text).map_err(|error| error.to_string())
}
