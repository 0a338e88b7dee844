//! The labels of a stream in Loki's protocol buffers: `{job="api", host="web-17"}`. Values are
//! [string literals of Go](https://go.dev/ref/spec#String_literals).

/// The number of labels of a stream. Loki's default is 15.
const LABELS_MAX: usize = 256;

/// The names and values of `{name="value", …}`. `None` for any other text.
pub(super) fn parse(text: &str) -> Option<Vec<(String, String)>> {
    let mut rest = text.trim().strip_prefix('{')?.trim_start();
    let mut labels = Vec::new();
    // A comma may follow the last label.
    while rest != "}" {
        let (name, value) = rest.split_once('=')?;
        let (value, end) = unquote(value.trim_start())?;
        let name = name.trim();
        if name.is_empty() || labels.len() == LABELS_MAX {
            return None;
        }
        labels.push((name.to_owned(), value));
        let end = end.trim_start();
        rest = match end.strip_prefix(',') {
            Some(more) => more.trim_start(),
            None if end == "}" => end,
            None => return None,
        };
    }
    Some(labels)
}

/// A string literal, and the text after it.
fn unquote(text: &str) -> Option<(String, &str)> {
    if let Some(raw) = text.strip_prefix('`') {
        let (value, rest) = raw.split_once('`')?;
        return Some((value.to_owned(), rest));
    }
    let mut rest = text.strip_prefix('"')?;
    let mut value = Vec::new();
    loop {
        let (plain, special) = rest.split_at(rest.find(['"', '\\'])?);
        value.extend_from_slice(plain.as_bytes());
        if let Some(rest) = special.strip_prefix('"') {
            return Some((String::from_utf8_lossy(&value).into_owned(), rest));
        }
        let escape = *special.as_bytes().get(1)?;
        let hex = |digits: usize| u32::from_str_radix(special.get(2..2 + digits)?, 16).ok();
        let length = match escape {
            b'x' => 4,
            b'u' => 6,
            b'U' => 10,
            _ => 2,
        };
        match escape {
            b'x' => value.push(u8::try_from(hex(2)?).ok()?),
            b'u' | b'U' => {
                let code = char::from_u32(hex(length - 2)?)?;
                value.extend_from_slice(code.encode_utf8(&mut [0; 4]).as_bytes());
            }
            b'"' | b'\\' | b'\'' => value.push(escape),
            _ => value.push(b"\x07\x08\t\n\x0b\x0c\r"[b"abtnvfr".iter().position(|name| *name == escape)?]),
        }
        rest = &special[length..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labels_with_literals_of_go() {
        let pairs =
            |text: &str| parse(text).map(|labels| labels.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>());
        for (text, expected) in [
            ("{}", Some(&[][..])),
            ("{job=\"api\", host=\"web-17\"}", Some(&["job=api", "host=web-17"])),
            (" { a = \"b\" , } ", Some(&["a=b"])),
            ("{a=\"x\\\"\\\\\\n\\u00e9\\x41}\"}", Some(&["a=x\"\\\né\u{41}}"])),
            ("{a=`raw \\n`}", Some(&["a=raw \\n"])),
            ("{a=\"é, b=c\"}", Some(&["a=é, b=c"])),
        ] {
            assert_eq!(
                pairs(text).as_deref().map(|found| found.iter().map(String::as_str).collect::<Vec<_>>()),
                expected.map(<[&str]>::to_vec),
                "{text}"
            );
        }
        for text in [
            "",
            "{",
            "job=\"a\"",
            "{job}",
            "{job=a}",
            "{job=\"a\"",
            "{=\"a\"}",
            "{a=\"b\" c=\"d\"}",
            "{a=\"\\q\"}",
            "{a=\"\\u12\"}",
            "{a=\"\\",
        ] {
            assert_eq!(pairs(text), None, "{text}");
        }
    }

    proptest! {
        /// Any text is parsed or refused, and values are read back unchanged.
        #[test]
        fn any_text(text in "[{]?([a-z]=|[\"`\\\\,{} xué0-9]){0,20}", value in "[ -~]{0,20}") {
            let _ = parse(&text);
            // Rust quotes these characters as Go does.
            prop_assert_eq!(parse(&format!("{{a={value:?}}}")), Some(vec![("a".to_owned(), value)]));
        }
    }
}
