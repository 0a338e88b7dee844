//! Texts with places in braces: `"{instance} wrote {value} errors"`.

use std::borrow::Cow;

/// The names in braces. Braces around anything that is not a name of a field stay as they are, so that JSON may stand
/// in a text.
pub(crate) fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).filter_map(|piece| match piece {
        Piece::Place(name) => Some(name),
        Piece::Text(_) => None,
    })
}

/// Whether a text begins with a place.
pub(crate) fn begins_with_place(text: &str) -> bool {
    matches!(pieces(text).next(), Some(Piece::Place(_)))
}

/// The text with each place filled once: a value that looks like a place is not filled again. A place without a value is
/// empty.
pub(crate) fn fill<'a>(text: &str, value: impl Fn(&str) -> Option<Cow<'a, str>>) -> String {
    let mut filled = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Place(name) => filled.push_str(&value(name).unwrap_or_default()),
        }
    }
    filled
}

enum Piece<'a> {
    Text(&'a str),
    Place(&'a str),
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        // The first brace that begins a place; other braces are text.
        let place = rest.match_indices('{').find_map(|(at, _)| {
            let name = rest[at + 1..].split_once('}')?.0;
            is_name(name).then_some((at, name))
        });
        match place {
            Some((0, name)) => {
                rest = &rest[name.len() + 2..];
                Some(Piece::Place(name))
            }
            other => {
                let (text, after) = rest.split_at(other.map_or(rest.len(), |(at, _)| at));
                rest = after;
                Some(Piece::Text(text))
            }
        }
    })
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_filled_once_and_json_stays() {
        let value = |name: &str| match name {
            "instance" => Some(Cow::from("{value}")),
            "value" => Some(Cow::from("7")),
            _ => None,
        };
        assert_eq!(
            fill(r#"{"text":"{instance}: {value}{gone}", "n":{"a":{}}}"#, value),
            r#"{"text":"{value}: 7", "n":{"a":{}}}"#
        );
        assert_eq!(
            placeholders(r#"{"a": "{http.status} {x y} {{value}"}"#).collect::<Vec<_>>(),
            ["http.status", "value"]
        );
        for text in ["", "{", "}", "{}", "{a", "a}", "{ä}x"] {
            assert_eq!(fill(text, |name| Some(format!("{{{name}}}").into())), text);
        }
    }
}
