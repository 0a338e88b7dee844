//! Names that a rotation makes: they select the files beside a source's file that are compared with it.
//!
//! A name alone decides nothing.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Whether a rotation, copy or compression may make `name` from `old`: with an ending (`app.log.1`,
/// `app.log-20261121.gz`, `app.log~`), or with a number before the extension (`app-20261121.log`, `app.1.log.gz`).
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

/// The names from which a rotation may have made `name`, by adding a number or a date: `app.log` for `app.log.1`,
/// `app.log-20261121.gz` and `app-20261121.log`. Empty for other names.
pub(super) fn homes_of(name: &OsStr) -> Vec<OsString> {
    let name = without_compression(name.as_bytes());
    let mut homes: Vec<OsString> = without_numbers(name).map(|home| OsStr::from_bytes(home).to_os_string()).collect();
    if let Some(dot) = name.iter().rposition(|&byte| byte == b'.') {
        let (stem, extension) = name.split_at(dot);
        homes.extend(without_numbers(stem).map(|stem| OsString::from_vec([stem, extension].concat())));
    }
    homes
}

/// A name without the number or date at its end. There are several if the number has several parts.
fn without_numbers(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_part = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'T');
    let end = name.len() - name.iter().rev().take_while(is_part).count();
    let is_separator =
        move |at: &usize| matches!(name[*at], b'.' | b'-' | b'_') && name[*at..].iter().any(u8::is_ascii_digit);
    (end.max(1)..name.len()).filter(is_separator).map(|at| &name[..at])
}

/// Whether a rotation may have made both from one name by a number at the end (`app.log.1` and `app.log.2.gz`). The
/// next rotation renames a rotated file like that.
pub(super) fn is_next_of(old: &OsStr, name: &OsStr) -> bool {
    let (old, name) = (without_compression(old.as_bytes()), without_compression(name.as_bytes()));
    match (without_number(old), without_number(name)) {
        (Some(one), Some(two)) => one == two && old != name,
        _ => false,
    }
}

/// The path of the original of a compressed file, by its name.
pub(super) fn uncompressed(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.as_bytes();
    let original = without_compression(name);
    (original.len() < name.len()).then(|| path.with_file_name(OsStr::from_bytes(original)))
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
    fn names_that_only_rotation_makes() {
        for (name, homes) in [
            ("app.log.1", &["app.log"][..]),
            ("app.log.12.gz", &["app.log"]),
            ("app.log-20261121T10:00.zst", &["app.log"]),
            ("app-2026-11-21.log", &["app.log", "app-2026.log", "app-2026-11.log"]),
            ("syslog.1", &["syslog"]),
            ("app.1.2", &["app", "app.1", "app.2"]),
            ("app.log", &[]),
            ("app.log.bak", &[]),
            ("app.log.gz", &[]),
            ("app.log.1.txt", &["app.log.txt"]),
            ("app-1-errors.log", &[]),
            (".1", &[]),
            ("", &[]),
        ] {
            assert_eq!(homes_of(name.as_ref()), homes, "{name}");
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
