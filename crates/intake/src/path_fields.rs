//! Fields that the path of a file gives to its records: `/var/log/pods/{namespace}_{pod}_{uid}/{container}/*`.
//!
//! Where logs are files of others (containers above all), who wrote them stands in the path and nowhere else. The pattern
//! matches the whole path of a file, or gives nothing. `{name}` stands for one character or more, as many as fit, `*` for
//! any number of them, neither for a `/`; `**` as a whole component is any number of folders. All else means itself.

use regex::{Regex, RegexBuilder};
use std::fmt;
use std::str::FromStr;

/// Bytes that the compiled pattern may take, which nothing that a person writes comes near.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A pattern with the names of fields in it, ready to match. Equality is that of the text.
#[derive(Clone)]
pub struct PathFields {
    text: String,
    pattern: Regex,
}

/// Why a pattern was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PathFieldsError {
    /// Relative to a folder that nobody names.
    #[error("must be an absolute path, like \"/var/log/pods/{{namespace}}_{{pod}}_{{uid}}/{{container}}/*\"")]
    Relative,
    /// Nothing to take from a path.
    #[error("names no field: fields are written like {{pod}}")]
    Empty,
    /// A brace without its other one.
    #[error("a brace has no partner: fields are written like {{pod}}")]
    Unbalanced,
    /// What cannot be a field's name.
    #[error("{{{0}}} is no field: a name has letters, digits and \"_\", and begins with a letter")]
    Name(String),
    /// One field, two values.
    #[error("{{{0}}} is there twice")]
    Twice(String),
    /// Larger than any path that it could match.
    #[error("is too long")]
    Size,
}

impl PathFields {
    /// The fields of the file at `path`, in the order of the pattern; none where it does not match.
    pub fn of<'p>(&self, path: &'p str) -> Vec<(&str, &'p str)> {
        let Some(found) = self.pattern.captures(path) else { return Vec::new() };
        let names = self.pattern.capture_names().flatten();
        names.filter_map(|name| Some((name, found.name(name)?.as_str()))).collect()
    }
}

impl FromStr for PathFields {
    type Err = PathFieldsError;

    fn from_str(text: &str) -> Result<PathFields, PathFieldsError> {
        if !text.starts_with('/') {
            return Err(PathFieldsError::Relative);
        }
        let mut pattern = String::from("^");
        let mut names: Vec<&str> = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}', '*']) {
            let (before, special) = rest.split_at(at);
            pattern.push_str(&regex::escape(before));
            if let Some(after) = special.strip_prefix("**/").filter(|_| before.ends_with('/')) {
                pattern.push_str("(?:[^/]+/)*");
                rest = after;
            } else if let Some(after) = special.strip_prefix('*') {
                pattern.push_str("[^/]*");
                rest = after;
            } else {
                let inside = special.strip_prefix('{').ok_or(PathFieldsError::Unbalanced)?;
                let (name, after) = inside.split_once('}').ok_or(PathFieldsError::Unbalanced)?;
                let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                if !is_name {
                    return Err(PathFieldsError::Name(name.into()));
                }
                if names.contains(&name) {
                    return Err(PathFieldsError::Twice(name.into()));
                }
                names.push(name);
                pattern.push_str(&format!("(?P<{name}>[^/]+)"));
                rest = after;
            }
        }
        if names.is_empty() {
            return Err(PathFieldsError::Empty);
        }
        pattern.push_str(&regex::escape(rest));
        pattern.push('$');
        let built = RegexBuilder::new(&pattern).dot_matches_new_line(true).size_limit(COMPILED_BYTES_MAX).build();
        Ok(PathFields { text: text.into(), pattern: built.map_err(|_| PathFieldsError::Size)? })
    }
}

/// As it was written.
impl fmt::Display for PathFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for PathFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl PartialEq for PathFields {
    fn eq(&self, other: &PathFields) -> bool {
        self.text == other.text
    }
}

impl Eq for PathFields {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_path_gives() {
        let pods = "/var/log/pods/{namespace}_{pod}_{uid}/{container}/*";
        for (pattern, path, fields) in [
            (
                pods,
                "/var/log/pods/shop_cart-7d9_0a1b-2c/app/3.log",
                &[("namespace", "shop"), ("pod", "cart-7d9"), ("uid", "0a1b-2c"), ("container", "app")][..],
            ),
            // What the kubelet makes of it when it rotates.
            (
                pods,
                "/var/log/pods/a_b_c/app/3.log.20261121-080000.gz",
                &[("namespace", "a"), ("pod", "b"), ("uid", "c"), ("container", "app")],
            ),
            (pods, "/var/log/pods/a_b/app/3.log", &[]),
            (pods, "/var/log/pods/a_b_c/app/x/3.log", &[]),
            // As many as fit: what stands before the last "-".
            (
                "/c/{pod}_{namespace}_{container}-*.log",
                "/c/web-1_shop_my-app-0a1b2c.log",
                &[("pod", "web-1"), ("namespace", "shop"), ("container", "my-app")],
            ),
            ("/srv/**/{app}/log.{n}", "/srv/a/b/c/log.7", &[("app", "c"), ("n", "7")]),
            ("/srv/**/{app}/log.{n}", "/srv/c/log.7", &[("app", "c"), ("n", "7")]),
            ("/srv/{app}.log", "/srv/axlog", &[]),
            ("/srv/{app}.log", "/srv/.log", &[]),
            ("/srv/{app}.log", "/srv/ä\nb.log", &[("app", "ä\nb")]),
        ] {
            let fields_of: PathFields = pattern.parse().expect(pattern);
            assert_eq!(fields_of.of(path), fields, "{pattern} {path}");
            assert_eq!(fields_of.to_string(), pattern);
        }
    }

    #[test]
    fn patterns_that_are_refused() {
        let long = format!("/{}{{pod}}", "{a}".repeat(2));
        for (pattern, error) in [
            ("{pod}.log", PathFieldsError::Relative),
            ("", PathFieldsError::Relative),
            ("/var/log/*.log", PathFieldsError::Empty),
            ("/var/{pod", PathFieldsError::Unbalanced),
            ("/var/pod}", PathFieldsError::Unbalanced),
            ("/var/{}", PathFieldsError::Name(String::new())),
            ("/var/{po d}", PathFieldsError::Name("po d".into())),
            ("/var/{1}", PathFieldsError::Name("1".into())),
            ("/{pod}/{pod}", PathFieldsError::Twice("pod".into())),
            (&long, PathFieldsError::Twice("a".into())),
        ] {
            assert_eq!(pattern.parse::<PathFields>(), Err(error), "{pattern}");
        }
    }

    proptest! {
        /// What is put into a pattern comes out of the path, whatever characters it has but those that part it.
        #[test]
        fn what_was_put_in_comes_out(namespace in "[a-z0-9.-]{1,9}", pod in "[a-z0-9.-]{1,9}", container in "[^/\\x00]{1,9}") {
            let fields_of: PathFields = "/pods/{namespace}_{pod}/{container}/*".parse().expect("a pattern");
            let path = format!("/pods/{namespace}_{pod}/{container}/0.log");
            let expected = [("namespace", &*namespace), ("pod", &*pod), ("container", &*container)];
            prop_assert_eq!(fields_of.of(&path), expected);
        }

        /// No text panics, neither as a pattern nor as a path.
        #[test]
        fn any_text(pattern in "(/|\\{[a-z]{0,2}\\}|[{}*]|\\PC){0,8}", path in "\\PC{0,20}") {
            if let Ok(fields_of) = format!("/{pattern}").parse::<PathFields>() {
                let _ = fields_of.of(&path);
            }
        }
    }
}
