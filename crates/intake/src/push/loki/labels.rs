//! The labels of a stream as Loki's protocol buffers have them: `{job="api", host="web-17"}`.

/// Labels of a stream at most; Loki takes 15 where nobody says otherwise.
const LABELS_MAX: usize = 256;

/// The names and values of `{name="value", …}`, values quoted as Go quotes them; none where it is no such text.
pub(super) fn parse(text: &str) -> Option<Vec<(String, String)>> {
    let mut rest = text.trim().strip_prefix('{')?.trim_start();
    let mut labels = Vec::new();
    if rest == "}" {
        return Some(labels);
    }
    loop {
        let (name, value) = rest.split_once('=')?;
        let (value, end) = unquote(value.trim_start())?;
        let name = name.trim();
        if name.is_empty() || labels.len() == LABELS_MAX {
            return None;
        }
        labels.push((name.to_owned(), value));
        rest = end.trim_start();
        if let Some(more) = rest.strip_prefix(',') {
            rest = more.trim_start();
            // A comma behind the last one.
            if rest == "}" {
                return Some(labels);
            }
        } else {
            return (rest == "}").then_some(labels);
        }
    }
}

/// A quoted text, and what is behind it.
fn unquote(text: &str) -> Option<(String, &str)> {
    if let Some(raw) = text.strip_prefix('`') {
        let (value, rest) = raw.split_once('`')?;
        return Some((value.to_owned(), rest));
    }
    let inner = text.strip_prefix('"')?;
    let mut value = Vec::new();
    let mut at = 0;
    loop {
        let plain = inner[at..].find(['"', '\\'])?;
        value.extend_from_slice(&inner.as_bytes()[at..at + plain]);
        at += plain;
        if inner[at..].starts_with('"') {
            return Some((String::from_utf8_lossy(&value).into_owned(), &inner[at + 1..]));
        }
        let escape = *inner.as_bytes().get(at + 1)?;
        let digits = |count: usize| inner.get(at + 2..at + 2 + count);
        let mut character = [0; 4];
        let (bytes, length): (&[u8], usize) = match escape {
            b'n' => (b"\n", 2),
            b't' => (b"\t", 2),
            b'r' => (b"\r", 2),
            b'a' => (b"\x07", 2),
            b'b' => (b"\x08", 2),
            b'f' => (b"\x0c", 2),
            b'v' => (b"\x0b", 2),
            b'"' | b'\\' | b'\'' => (&inner.as_bytes()[at + 1..at + 2], 2),
            b'x' => {
                character[0] = u8::from_str_radix(digits(2)?, 16).ok()?;
                (&character[..1], 4)
            }
            b'u' | b'U' => {
                let count = if escape == b'u' { 4 } else { 8 };
                let code = char::from_u32(u32::from_str_radix(digits(count)?, 16).ok()?)?;
                (code.encode_utf8(&mut character).as_bytes(), 2 + count)
            }
            _ => return None,
        };
        value.extend_from_slice(bytes);
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labels_as_go_writes_them() {
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
        /// Any text is labels or none, and values come back.
        #[test]
        fn any_text(text in "[{]?([a-z]=|[\"`\\\\,{} xué0-9]){0,20}", value in "[ -~]{0,20}") {
            let _ = parse(&text);
            // Go quotes these as Rust does.
            prop_assert_eq!(parse(&format!("{{a={value:?}}}")), Some(vec![("a".to_owned(), value)]));
        }
    }
}
