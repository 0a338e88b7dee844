//! Fields from the path of a file: `/var/log/pods/{namespace}_{pod}_{uid}/{container}/*`.
//!
//! The path often tells which program wrote a file, above all with containers. The pattern matches the whole path, or
//! there are no fields. `{name}` matches one or more characters, as many as possible, and `*` any number; neither
//! matches a `/`. `**` as a whole component matches any number of folders, and as the last one a file below them, as in
//! `include`. Other characters match themselves.
//!
//! [`PathFields::may_match`] finds patterns that match no file of their block.

use globset::GlobBuilder;
use regex::{Regex, RegexBuilder};
use std::fmt;
use std::str::FromStr;

/// Bytes of a compiled pattern at most, far more than a pattern needs.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A compiled pattern with names of fields. Equality is that of the text.
#[derive(Clone)]
pub struct PathFields {
    text: String,
    pattern: Regex,
}

/// A pattern is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PathFieldsError {
    /// The pattern is relative.
    #[error("must be an absolute path, like \"/var/log/pods/{{namespace}}_{{pod}}_{{uid}}/{{container}}/*\"")]
    Relative,
    /// The pattern has no field.
    #[error("has no field: write a field like {{pod}}")]
    Empty,
    /// A brace is not closed, or not opened.
    #[error("a brace is not closed or not opened: write a field like {{pod}}")]
    Unbalanced,
    /// A name that a field cannot have.
    #[error("{{{0}}} is not a field: a name has letters, digits and \"_\", and begins with a letter")]
    Name(String),
    /// Two fields have one name.
    #[error("has the field {{{0}}} twice")]
    Twice(String),
    /// The compiled pattern is too large.
    #[error("is too long")]
    Size,
}

impl PathFields {
    /// The fields of the file at `path`, in the order of the pattern; empty if the pattern does not match.
    pub fn of<'p>(&self, path: &'p str) -> Vec<(&str, &'p str)> {
        let Some(found) = self.pattern.captures(path) else { return Vec::new() };
        let names = self.pattern.capture_names().flatten();
        names.filter_map(|name| Some((name, found.name(name)?.as_str()))).collect()
    }

    /// Whether some path may match both this pattern and a pattern of `include`; false only if none can.
    ///
    /// The patterns are compared folder by folder. Two names with wildcards may always be the same name.
    pub fn may_match(&self, include: &str) -> bool {
        let own: Vec<&str> = self.text.split('/').collect();
        let included: Vec<&str> = include.split('/').collect();
        // A brace around a slash matches folders.
        if included.iter().any(|name| name.matches('{').count() != name.matches('}').count()) {
            return true;
        }
        // Whether the patterns from each pair of names on may match, from the end.
        let mut rest = vec![vec![false; included.len() + 1]; own.len() + 1];
        rest[own.len()][included.len()] = true;
        for at in (0..=own.len()).rev() {
            for other_at in (0..=included.len()).rev() {
                let (name, other) = (own.get(at), included.get(other_at));
                rest[at][other_at] |= match (name, other) {
                    (Some(&"**"), _) => rest[at + 1][other_at] || other.is_some() && rest[at][other_at + 1],
                    (_, Some(&"**")) => rest[at][other_at + 1] || name.is_some() && rest[at + 1][other_at],
                    (Some(name), Some(other)) => may_be_same(name, other) && rest[at + 1][other_at + 1],
                    _ => false,
                };
            }
        }
        rest[0][0]
    }
}

/// Whether a name of a pattern with fields and a name of a pattern of files may match the same name.
fn may_be_same(own: &str, included: &str) -> bool {
    let is_literal = !included.contains(['*', '?', '[', '{', '\\']);
    match (own.contains(['*', '{']), is_literal) {
        (true, false) => true,
        // A pattern must have a field, so one is added after the name.
        (true, true) => {
            let own: Result<PathFields, _> = format!("/{own}/{{end}}").parse();
            own.map_or(true, |own| own.pattern.is_match(&format!("/{included}/end")))
        }
        (false, true) => own == included,
        (false, false) => GlobBuilder::new(included).build().map_or(true, |glob| glob.compile_matcher().is_match(own)),
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
            } else if special == "**" && before.ends_with('/') {
                pattern.push_str("(?:[^/]+/)*[^/]+");
                rest = "";
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

/// Shows the pattern as it was written.
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
    fn paths_and_their_fields() {
        let pods = "/var/log/pods/{namespace}_{pod}_{uid}/{container}/*";
        for (pattern, path, fields) in [
            (
                pods,
                "/var/log/pods/shop_cart-7d9_0a1b-2c/app/3.log",
                &[("namespace", "shop"), ("pod", "cart-7d9"), ("uid", "0a1b-2c"), ("container", "app")][..],
            ),
            // The name that the kubelet makes at a rotation.
            (
                pods,
                "/var/log/pods/a_b_c/app/3.log.20261121-080000.gz",
                &[("namespace", "a"), ("pod", "b"), ("uid", "c"), ("container", "app")],
            ),
            (pods, "/var/log/pods/a_b/app/3.log", &[]),
            (pods, "/var/log/pods/a_b_c/app/x/3.log", &[]),
            // As many characters as fit: everything before the last "-".
            (
                "/c/{pod}_{namespace}_{container}-*.log",
                "/c/web-1_shop_my-app-0a1b2c.log",
                &[("pod", "web-1"), ("namespace", "shop"), ("container", "my-app")],
            ),
            ("/srv/**/{app}/log.{n}", "/srv/a/b/c/log.7", &[("app", "c"), ("n", "7")]),
            ("/srv/**/{app}/log.{n}", "/srv/c/log.7", &[("app", "c"), ("n", "7")]),
            ("/srv/{app}/**", "/srv/a/b/c.log", &[("app", "a")]),
            ("/srv/{app}/**", "/srv/a/c.log", &[("app", "a")]),
            ("/srv/{app}/**", "/srv/a", &[]),
            ("/srv/{app}/a**", "/srv/a/ab", &[("app", "a")]),
            ("/srv/{app}/a**", "/srv/a/ab/c", &[]),
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
    fn a_pattern_that_matches_no_included_file_is_found() {
        for (pattern, include, may) in [
            ("/var/log/pods/{n}_{p}_{u}/{c}/*", "/var/log/pods/*/*/*.log", true),
            ("/var/log/pods/{n}_{p}_{u}/{c}/*", "/var/log/containers/*.log", false),
            ("/var/log/pods/{n}_{p}_{u}/{c}/*", "/var/log/pods/*/*.log", false),
            ("/var/log/pods/{n}_{p}_{u}/{c}/*", "/var/log/**/*.log", true),
            ("/var/log/pods/{n}_{p}_{u}/{c}/*", "/var/log/pods/shop_a_1/app/0.log", true),
            ("/var/log/pods/{n}_{p}_{u}/{c}/*", "/var/log/pods/shop_a/app/0.log", false),
            ("/srv/{app}/**", "/srv/*/*.log", true),
            ("/srv/{app}/**", "/srv/**", true),
            ("/srv/{app}/**", "/opt/**", false),
            ("/srv/{app}.log", "/srv/[ab].{log,txt}", true),
            ("/srv/{app}/x.log", "/srv/{a,b}/x.log", true),
            ("/srv/{app}/x.log", "/srv/{a,b}/[yz].log", false),
            ("/srv/{app}/x.log", "/srv/{a/b,c}/y.log", true),
            ("/**/{app}/log", "/a/b/c/log", true),
            ("/**/{app}/log", "/log", false),
        ] {
            let fields: PathFields = pattern.parse().expect(pattern);
            assert_eq!(fields.may_match(include), may, "{pattern} {include}");
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
        /// A value in a path becomes its field, with any characters except separators.
        #[test]
        fn values_in_a_path_become_its_fields(namespace in "[a-z0-9.-]{1,9}", pod in "[a-z0-9.-]{1,9}", container in "[^/\\x00]{1,9}") {
            let fields_of: PathFields = "/pods/{namespace}_{pod}/{container}/*".parse().expect("a pattern");
            let path = format!("/pods/{namespace}_{pod}/{container}/0.log");
            let expected = [("namespace", &*namespace), ("pod", &*pod), ("container", &*container)];
            prop_assert_eq!(fields_of.of(&path), expected);
        }

        /// Any text is a pattern or an error, and any path can be matched.
        #[test]
        fn any_text(pattern in "(/|\\{[a-z]{0,2}\\}|[{}*]|\\PC){0,8}", path in "\\PC{0,20}") {
            if let Ok(fields_of) = format!("/{pattern}").parse::<PathFields>() {
                let _ = fields_of.of(&path);
                let _ = fields_of.may_match(&path);
            }
        }
    }
}
