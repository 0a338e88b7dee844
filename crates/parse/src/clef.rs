//! Renders the message of a Serilog event that carries only a template: `{User} logged in from {Address:l}`.
//!
//! ```text
//! {Name}  {@Name}  {$Name}  {Name,-8}  {Name:000}     the value of that property, as it is written
//! {{  }}                                              a brace
//! ```
//!
//! A hole without a matching property stays as written. Alignment and format are ignored, because only .NET can apply
//! them.

use daytable_model::record::{Field, Value};
use memchr::memchr2;
use std::fmt::Write;

/// Holes that are filled. Each hole searches all fields, so this bounds the time for a line.
const HOLES_MAX: usize = 64;
/// Bytes of a rendered message. One value can fill many holes.
const RENDERED_BYTES_MAX: usize = 64 << 10;

/// Renders a template with the fields beside it; `None` if the result is the template itself or too long.
pub(super) fn render(template: &str, fields: &[Field<'_>]) -> Option<String> {
    let mut text = String::new();
    let mut rest = template;
    let mut holes = 0;
    while let Some(at) = memchr2(b'{', b'}', rest.as_bytes()) {
        let (before, brace) = rest.split_at_checked(at)?;
        text.push_str(before);
        let (shown, length) = match brace.as_bytes() {
            [b'{', b'{', ..] => ("{", 2),
            [b'}', b'}', ..] => ("}", 2),
            [b'{', ..] if holes < HOLES_MAX => {
                holes += 1;
                match hole(brace).and_then(|(name, length)| Some((value(name, fields)?, length))) {
                    Some((value, length)) => {
                        put(&mut text, value);
                        ("", length)
                    }
                    None => (brace.get(..1)?, 1),
                }
            }
            _ => (brace.get(..1)?, 1),
        };
        text.push_str(shown);
        rest = brace.get(length..)?;
        if text.len() + rest.len() > RENDERED_BYTES_MAX {
            return None;
        }
    }
    text.push_str(rest);
    (text != template).then_some(text)
}

/// The name in a hole, and the length of the hole.
fn hole(text: &str) -> Option<(&str, usize)> {
    let inner = text.get(1..)?;
    let start = usize::from(inner.starts_with(['@', '$']));
    let name = inner.get(start..)?;
    let length = name.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    let (name, rest) = name.split_at_checked(length)?;
    let end = match rest.as_bytes().first()? {
        b'}' => 0,
        b',' | b':' => memchr2(b'}', b'{', rest.as_bytes()).filter(|end| rest.as_bytes().get(*end) == Some(&b'}'))?,
        _ => return None,
    };
    (length > 0).then_some((name, 1 + start + length + end + 1))
}

fn value<'f, 'a>(name: &str, fields: &'f [Field<'a>]) -> Option<&'f Value<'a>> {
    fields.iter().find(|field| field.name == name).map(|field| &field.value)
}

fn put(text: &mut String, value: &Value<'_>) {
    // Writing to a string cannot fail.
    let _ = match value {
        Value::String(value) => text.write_str(value),
        Value::Int64(number) => write!(text, "{number}"),
        Value::Double(number) => write!(text, "{number}"),
        Value::Boolean(truth) => write!(text, "{truth}"),
        Value::Binary(bytes) => text.write_str(&String::from_utf8_lossy(bytes)),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn holes_are_filled_from_the_fields() {
        let fields = [
            Field { name: "User".into(), value: Value::String("ada".into()) },
            Field { name: "n".into(), value: Value::Int64(-7) },
            Field { name: "0".into(), value: Value::Boolean(true) },
        ];
        for (template, text) in [
            ("{User} in", Some("ada in")),
            ("{@User}{$User}{User:l}{User,-8}", Some("adaadaadaada")),
            ("n={n:000} {0}", Some("n=-7 true")),
            ("{{User}} {n}", Some("{User} -7")),
            ("{Who} {n}", Some("{Who} -7")),
            ("{Who}", None),
            ("{", None),
            ("}", None),
            ("{}", None),
            ("{User", None),
            ("{User:{n}", Some("{User:-7")),
            ("{ User }", None),
            ("no holes", None),
            ("", None),
            ("{é}", None),
        ] {
            assert_eq!(render(template, &fields).as_deref(), text, "{template}");
        }
    }

    #[test]
    fn a_rendered_message_is_bounded() {
        let long = "x".repeat(RENDERED_BYTES_MAX / 2);
        let fields = [Field { name: "a".into(), value: Value::String(long.as_str().into()) }];
        assert_eq!(render("{a}{a}{a}", &fields), None);
        assert_eq!(render("{a}", &fields), Some(long.clone()));
        let many = "{b}".repeat(HOLES_MAX) + "{a}";
        assert_eq!(render(&many, &fields), None);
    }

    proptest! {
        /// Any template gives a text or `None`; a template without braces is its own text.
        #[test]
        fn any_template(template in "([{}@$:,a ]|\\PC){0,24}") {
            let fields = [Field { name: "a".into(), value: Value::Int64(1) }];
            let text = render(&template, &fields);
            let has_brace = template.contains(['{', '}']);
            prop_assert!(text.is_none() || has_brace);
        }
    }
}
