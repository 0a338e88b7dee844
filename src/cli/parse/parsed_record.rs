//! A record that is not stored, as one JSON object: `time`, `level`, `message`, then `component`, `pid` and `host`, if
//! the line has them, then the other fields. A field with a name that is in use gets `_` at the end of its name.

use daytable_model::record::{Field, Level, Record, Value};
use daytable_query::record::beside_keys;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::HashSet;

/// A record that is not stored, as JSON.
pub(super) struct ParsedRecord<'r>(pub(super) &'r Record<'r>);

impl Serialize for ParsedRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let record = self.0;
        let mut map = serializer.serialize_map(None)?;
        let mut names: HashSet<String> = ["time", "level", "message"].map(str::to_owned).into();
        if let Some(time) = record.time {
            map.serialize_entry("time", &time.to_string())?;
        }
        if let Some(level) = record.level {
            map.serialize_entry("level", Level::name(level))?;
        }
        map.serialize_entry("message", record.whole_message())?;
        let place = |field: &&Field<'_>| match &*field.name {
            "component" => 0,
            "pid" => 1,
            "host" => 2,
            _ => 3,
        };
        let mut fields: Vec<&Field<'_>> = record.fields.iter().collect();
        fields.sort_by_key(place);
        for field in fields {
            let mut name = field.name.to_string();
            if names.contains(&name) {
                name = beside_keys(&name, |name| names.contains(name));
            }
            match &field.value {
                Value::String(text) => map.serialize_entry(&name, text)?,
                Value::Int64(n) => map.serialize_entry(&name, n)?,
                Value::Double(n) if !n.is_finite() => map.serialize_entry(&name, &n.to_string())?,
                Value::Double(n) => map.serialize_entry(&name, n)?,
                Value::Boolean(b) => map.serialize_entry(&name, b)?,
                Value::Binary(bytes) => map.serialize_entry(&name, &String::from_utf8_lossy(bytes))?,
            }
            names.insert(name);
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_parse::{FormatChoice, parse};

    fn json(line: &str) -> String {
        serde_json::to_string(&ParsedRecord(&parse(line, FormatChoice::Auto).record)).expect("plain data")
    }

    #[test]
    fn the_parts_of_a_line_in_a_fixed_order() {
        for (line, shown) in [
            (
                r#"{"zone":1,"pid":7,"level":"warn","ts":"2026-11-21T08:00:00Z","msg":"hot","component":"cpu"}"#,
                r#"{"time":"2026-11-21T08:00:00Z","level":"warn","message":"hot","component":"cpu","pid":7,"zone":1}"#,
            ),
            ("just text", r#"{"message":"just text"}"#),
            ("", r#"{"message":""}"#),
        ] {
            assert_eq!(json(line), shown, "{line}");
        }
    }

    #[test]
    fn a_name_that_comes_twice_is_kept_beside_the_first() {
        let field = |name: &'static str, n| Field { name: name.into(), value: Value::Int64(n) };
        let fields = vec![field("level", 1), field("a", 2), field("a", 3), field("a_", 4), field("time", 5)];
        let record = Record { fields, ..Record::default() };
        assert_eq!(
            serde_json::to_string(&ParsedRecord(&record)).expect("plain data"),
            r#"{"message":"","level_":1,"a":2,"a_":3,"a__":4,"time_":5}"#
        );
    }
}
