//! Names that a rotation makes: which files beside a source's are worth comparing with it.
//!
//! The name alone never decides; it only says where to look.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Whether `name` is a name that `old` may have been rotated, copied or compressed to: `old` and something behind it
/// (`app.log.1`, `app.log-20261121.gz`, `app.log~`), or a number before its extension (`app-20261121.log`, `app.1.log.gz`).
pub(super) fn is_made_from(old: &OsStr, name: &OsStr) -> bool {
    let (old, name) = (old.as_bytes(), name.as_bytes());
    if old.is_empty() {
        return false;
    }
    if let Some([b'.' | b'-' | b'_' | b'~', ..]) = name.strip_prefix(old) {
        return true;
    }
    let name = without_compression(name);
    let Some(dot) = old.iter().rposition(|&byte| byte == b'.').filter(|dot| *dot > 0) else { return false };
    let (stem, extension) = old.split_at(dot);
    let between = name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(extension));
    matches!(between, Some([b'.' | b'-' | b'_', b'0'..=b'9', ..]))
}

/// Whether both may have been made from one name by a number at their end (`app.log.1` and `app.log.2.gz`): a file
/// that was rotated before moves on by this.
pub(super) fn is_next_of(old: &OsStr, name: &OsStr) -> bool {
    let (old, name) = (without_compression(old.as_bytes()), without_compression(name.as_bytes()));
    match (without_number(old), without_number(name)) {
        (Some(one), Some(two)) => one == two && old != name,
        _ => false,
    }
}

fn without_compression(name: &[u8]) -> &[u8] {
    name.strip_suffix(b".gz").or_else(|| name.strip_suffix(b".zst")).unwrap_or(name)
}

fn without_number(name: &[u8]) -> Option<&[u8]> {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    match name.split_at(name.len() - digits).0 {
        [base @ .., b'.' | b'-' | b'_'] if digits > 0 && !base.is_empty() => Some(base),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_rotation_makes() {
        for (old, name, made) in [
            ("app.log", "app.log.1", true),
            ("app.log", "app.log.2.gz", true),
            ("app.log", "app.log-20261121.zst", true),
            ("app.log", "app.log~", true),
            ("app.log", "app.log_old", true),
            ("app.log", "app-20261121.log", true),
            ("app.log", "app.1.log.gz", true),
            ("app.log", "app.log", false),
            ("app.log", "app.logs", false),
            ("app.log", "app-errors.log", false),
            ("app.log", "app2.log", false),
            ("app-1.log", "app-2.log", false),
            ("app.log.1", "app.log", false),
            ("syslog", "syslog.1", true),
            (".log", ".1.log", false),
            ("", ".1", false),
        ] {
            assert_eq!(is_made_from(old.as_ref(), name.as_ref()), made, "{old} {name}");
        }
    }

    #[test]
    fn names_that_the_next_rotation_makes() {
        for (old, name, next) in [
            ("app.log.1", "app.log.2", true),
            ("app.log.1", "app.log.2.gz", true),
            ("app.log.1", "app.log.1", false),
            ("app.log.1", "app.log.1.gz", false),
            ("app.log", "app.log.1", false),
            ("app-1.log", "app-2.log", false),
            ("1", "2", false),
        ] {
            assert_eq!(is_next_of(old.as_ref(), name.as_ref()), next, "{old} {name}");
        }
    }
}
