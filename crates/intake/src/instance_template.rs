//! Names of instances: `{host}`, `web-{stem}`, `{field:kubernetes.pod}`.

use daytable_parse::kept_name;
use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// A text with placeholders. Equality is that of the parts.
///
/// * `{host}`: the name of this host.
/// * `{path}`: the path of the file.
/// * `{stem}`: the file name without its folder and without its last extension.
/// * `{field:NAME}`: a field of the record, or the name of this host where the record lacks the field. A field that the
///   record has under another name is found by both: `_HOSTNAME` of the journal is `host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceTemplate(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Host,
    Path,
    Stem,
    Field(String),
}

/// A template is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TemplateError {
    /// An unknown placeholder.
    #[error("unknown placeholder {{{0}}}: the placeholders are {{host}}, {{path}}, {{stem}} and {{field:NAME}}")]
    Unknown(String),
    /// A brace is not closed, or not opened.
    #[error("a brace is not closed or not opened: write a placeholder like {{host}}")]
    Unbalanced,
    /// The template is empty.
    #[error("an instance needs a name, for example \"{{host}}\"")]
    Empty,
}

impl InstanceTemplate {
    /// `{field:NAME}`
    pub fn of_field(name: &str) -> InstanceTemplate {
        InstanceTemplate(vec![Part::Field(name.into())])
    }

    /// Whether every record of a file has the same instance, because no field is used.
    pub fn is_fixed(&self) -> bool {
        !self.0.iter().any(|part| matches!(part, Part::Field(_)))
    }

    /// The instance of a record. `field` returns the fields of the record by name.
    pub fn render<'f>(&self, host: &str, path: &str, field: impl Fn(&str) -> Option<Cow<'f, str>>) -> Cow<'f, str> {
        let field = |name: &str| field(name).or_else(|| field(kept_name(name)));
        // A template of one part is rendered without a copy.
        if let [Part::Field(name)] = &*self.0
            && let Some(value) = field(name)
            && !value.is_empty()
        {
            return value;
        }
        let mut instance = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => instance.push_str(text),
                Part::Host => instance.push_str(host),
                Part::Path => instance.push_str(path),
                Part::Stem => instance.push_str(stem(path)),
                Part::Field(name) => match field(name) {
                    Some(value) if !value.is_empty() => instance.push_str(&value),
                    _ => instance.push_str(host),
                },
            }
        }
        instance.into()
    }
}

/// The file name without its folder and its last extension; a name like `.hidden` has no extension.
fn stem(path: &str) -> &str {
    Path::new(path).file_stem().and_then(|stem| stem.to_str()).unwrap_or(path)
}

impl Default for InstanceTemplate {
    fn default() -> InstanceTemplate {
        InstanceTemplate(vec![Part::Host])
    }
}

impl FromStr for InstanceTemplate {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<InstanceTemplate, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, braced) = rest.split_at(at);
            let inside = braced.strip_prefix('{').ok_or(TemplateError::Unbalanced)?;
            let (name, after) = inside.split_once('}').ok_or(TemplateError::Unbalanced)?;
            if !before.is_empty() {
                parts.push(Part::Text(before.into()));
            }
            parts.push(match name {
                "host" => Part::Host,
                "path" => Part::Path,
                "stem" => Part::Stem,
                _ => match name.strip_prefix("field:") {
                    Some(field) if !field.is_empty() && !field.contains('{') => Part::Field(field.into()),
                    _ => return Err(TemplateError::Unknown(name.into())),
                },
            });
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        if parts.is_empty() { Err(TemplateError::Empty) } else { Ok(InstanceTemplate(parts)) }
    }
}

/// Shows the template as it was written.
impl fmt::Display for InstanceTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Text(text) => f.write_str(text),
            Part::Host => f.write_str("{host}"),
            Part::Path => f.write_str("{path}"),
            Part::Stem => f.write_str("{stem}"),
            Part::Field(name) => write!(f, "{{field:{name}}}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn templates_and_their_instances() {
        let field = |name: &str| (name == "pod").then_some(Cow::Borrowed("web-17"));
        for (template, instance, fixed) in [
            ("{host}", "h", true),
            ("{path}", "/var/log/nginx/access.log", true),
            ("{stem}", "access", true),
            ("edge {host}/{stem}!", "edge h/access!", true),
            ("{field:pod}", "web-17", false),
            ("{field:unit}@{host}", "h@h", false),
            ("plain", "plain", true),
        ] {
            let parsed: InstanceTemplate = template.parse().expect(template);
            assert_eq!(parsed.render("h", "/var/log/nginx/access.log", field), instance, "{template}");
            assert_eq!(parsed.is_fixed(), fixed, "{template}");
        }
    }

    #[test]
    fn stems() {
        for (path, expected) in
            [("/a/b.log.1", "b.log"), ("/a/b", "b"), ("/a/.hidden", ".hidden"), ("/a.d/b", "b"), ("/", "/"), ("", "")]
        {
            assert_eq!(stem(path), expected, "{path}");
        }
    }

    #[test]
    fn templates_that_are_refused() {
        for (template, error) in [
            ("", TemplateError::Empty),
            ("{hots}", TemplateError::Unknown("hots".into())),
            ("{}", TemplateError::Unknown("".into())),
            ("{field:}", TemplateError::Unknown("field:".into())),
            ("{host", TemplateError::Unbalanced),
            ("host}", TemplateError::Unbalanced),
            ("{{host}}", TemplateError::Unknown("{host".into())),
        ] {
            assert_eq!(template.parse::<InstanceTemplate>(), Err(error), "{template}");
        }
    }

    proptest! {
        /// A template is shown as it was written; any text is a template or an error.
        #[test]
        fn shown_as_written(text in "([a-z{}:]{0,3}|\\{host\\}|\\{field:[a-z.]{1,3}\\}|\\PC){0,5}") {
            if let Ok(template) = text.parse::<InstanceTemplate>() {
                prop_assert_eq!(template.to_string(), text);
            }
        }
    }
}
