//! Logfmt: a line of `key=value` pairs only.

use super::builder::RecordBuilder;
use super::names::Role;
use super::pairs::{self, pair_at, skip_spaces};
use super::timestamp::TimestampDefaults;
use daytable_model::record::{Record, Value};

/// Reads a line of at least two pairs and no other text. A single pair could be prose.
pub(super) fn parse<'a>(line: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    let first = pair_at(line, 0)?;
    (skip_spaces(line.as_bytes(), first.end) < line.len()).then(|| read(line, false, defaults))?
}

/// Reads a line that is configured as logfmt: one pair is enough, and a bare word is a flag that is true.
pub(super) fn parse_with_flags<'a>(line: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    read(line, true, defaults)
}

fn read<'a>(line: &'a str, flags: bool, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    let bytes = line.as_bytes();
    let mut builder = RecordBuilder::new(defaults);
    let mut has_pair = false;
    let mut at = skip_spaces(bytes, 0);
    while at < bytes.len() {
        if let Some(pair) = pair_at(line, at) {
            builder.add_borrowed(pair.key, |role| match role {
                // A message stays text even if it looks like a number.
                Some(Role::Message) => Value::String(pair.value.text()),
                _ => pair.value.value(),
            });
            has_pair = true;
            at = pair.end;
        } else if flags {
            let end = pairs::key_end(bytes, at)?;
            if bytes.get(end).is_some_and(|byte| !pairs::is_space(*byte)) {
                return None;
            }
            builder.add_borrowed(line.get(at..end)?, |_| Value::Boolean(true));
            at = end;
        } else {
            return None;
        }
        at = skip_spaces(bytes, at);
    }
    has_pair.then(|| builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::record::{Field, Level};
    use proptest::prelude::*;

    fn field<'a>(name: &'a str, value: Value<'a>) -> Field<'a> {
        Field { name: name.into(), value }
    }

    #[test]
    fn a_line_of_pairs() {
        let line =
            r#"time=2026-11-20T00:05:45Z lvl=warn msg="slow \"query\"" rows=12 took=1.5 cached=true host=web-17 a="#;
        let record = parse(line, &TimestampDefaults::default()).expect("logfmt");
        assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some("2026-11-20T00:05:45Z"));
        assert_eq!(record.level, Some(Level::Warn));
        assert_eq!(record.message, "slow \"query\"");
        let fields = [
            field("rows", Value::Int64(12)),
            field("took", Value::Double(1.5)),
            field("cached", Value::Boolean(true)),
            field("host", Value::String("web-17".into())),
            field("a", Value::String("".into())),
        ];
        assert_eq!(record.fields, fields);
    }

    #[test]
    fn a_message_is_text_and_a_time_may_be_a_number() {
        let record = parse("ts=1763596800.120 msg=42", &TimestampDefaults::default()).expect("logfmt");
        assert_eq!(record.message, "42");
        assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some("2025-11-20T00:00:00.120Z"));
        assert!(record.fields.is_empty());
    }

    #[test]
    fn bare_words_are_flags_only_if_logfmt_is_configured() {
        assert_eq!(parse("a=1 flag b=2", &TimestampDefaults::default()), None);
        assert_eq!(parse("a=1 ", &TimestampDefaults::default()), None);
        let record = parse_with_flags(" flag a=1 ", &TimestampDefaults::default()).expect("logfmt");
        assert_eq!(record.fields, [field("flag", Value::Boolean(true)), field("a", Value::Int64(1))]);
        for line in ["", "no pair here", "a=1 (b)", "a=1 b\"c", "a=1 =2", r#"a=1 b="c"#] {
            assert_eq!(parse_with_flags(line, &TimestampDefaults::default()), None, "{line}");
        }
    }

    proptest! {
        /// Every pair of a line becomes a field with its text, in order.
        #[test]
        fn pairs_are_kept_in_order(pairs in proptest::collection::vec(("k[a-z0-9_.@/-]{0,8}", "([!#-&(-~][!#-~]{0,11})?"), 2..20)) {
            let line: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let line = line.join(" ");
            let record = parse(&line, &TimestampDefaults::default()).expect("logfmt");
            prop_assert_eq!(record.fields.len(), pairs.len());
            for (field, (key, value)) in record.fields.iter().zip(&pairs) {
                prop_assert_eq!(&*field.name, key);
                prop_assert_eq!(&field.value, &pairs::typed(value));
            }
        }
    }
}
