//! [LTSV](http://ltsv.org): labels and values with tabs between them.
//!
//! ```text
//! time:[10/Oct/2000:13:55:36 -0700] TAB host:192.0.2.7 TAB status:200
//! ```
//!
//! Every part is `label:value`. There are three parts, or one of two is a time: other text may have a tab, too. A time
//! may stand in brackets. Values are typed by their form.

use super::builder::RecordBuilder;
use super::names::Role;
use super::pairs::typed;
use super::timestamp::TimestampDefaults;
use daytable_model::record::{Record, Value};
use memchr::memchr;

/// Parses a line; `None` for any other line.
pub(super) fn record<'a>(line: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    memchr(b'\t', line.as_bytes())?;
    let mut builder = RecordBuilder::new(defaults);
    let mut parts = 0;
    for part in line.split('\t') {
        let (label, value) = part.split_once(':').filter(|(label, _)| is_label(label))?;
        builder.add_borrowed(label, |role| match role {
            Some(Role::Message) => Value::String(value.into()),
            Some(Role::Time) => {
                let inner = value.strip_prefix('[').and_then(|value| value.strip_suffix(']'));
                typed(inner.unwrap_or(value))
            }
            _ => typed(value),
        });
        parts += 1;
    }
    let record = builder.finish();
    (parts > 2 || record.time.is_some()).then_some(record)
}

fn is_label(label: &str) -> bool {
    !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(line: &str) -> Option<String> {
        let Record { time, level, message, fields, .. } = record(line, &TimestampDefaults::default())?;
        let fields: Vec<_> = fields.iter().map(|field| format!("{}={:?}", field.name, field.value)).collect();
        let time = time.map(|time| time.to_string()).unwrap_or_default();
        Some(format!("{time} {} {message:?} {}", level.map_or("-", |level| level.name()), fields.join(" ")))
    }

    #[test]
    fn labels_and_values() {
        for (line, expected) in [
            (
                "time:[10/Oct/2000:13:55:36 -0700]\tstatus:200\treq:GET / HTTP/1.1",
                Some("2000-10-10T20:55:36Z - \"\" status=Int64(200) req=String(\"GET / HTTP/1.1\")"),
            ),
            (
                "time:2026-11-20T00:05:45Z\tlevel:WARN\tmsg:7\tx:",
                Some("2026-11-20T00:05:45Z warn \"7\" x=String(\"\")"),
            ),
            ("ts:2026-11-20T00:05:45Z\ta:1", Some("2026-11-20T00:05:45Z - \"\" a=Int64(1)")),
            ("a:1\tb:2\tc:3", Some(" - \"\" a=Int64(1) b=Int64(2) c=Int64(3)")),
            ("ERROR:x\tb:2", None),
            ("a:1\tb:2\twords", None),
            ("a b:1\tb:2\tc:3", None),
            ("a:1", None),
            ("", None),
        ] {
            assert_eq!(shown(line).as_deref(), expected, "{line:?}");
        }
    }

    proptest! {
        /// Every value comes back as its field.
        #[test]
        fn values_come_back(pairs in prop::collection::vec(("k[a-z0-9_.-]{0,6}", "[^\t\r\n]{0,9}"), 3..9)) {
            let line: Vec<_> = pairs.iter().map(|(label, value)| format!("{label}:{value}")).collect();
            let line = line.join("\t");
            let record = record(&line, &TimestampDefaults::default()).expect("LTSV");
            prop_assert_eq!(record.fields.len(), pairs.len());
            for (field, (label, value)) in record.fields.iter().zip(&pairs) {
                prop_assert_eq!(&*field.name, label);
                prop_assert_eq!(&field.value, &typed(value));
            }
        }
    }
}
