//! What is asked for, and the page that comes.

use super::names::write_encoded;
use super::value::write_guid;
use super::{EdmValue, Entity};
use std::fmt::Write;

/// Entities of a page at most; the service gives no more.
pub const PAGE_ENTITIES_MAX: u16 = 1000;

/// Which entities of a table, and what of them. By default all, a thousand a page.
///
/// Within a partition they come in the order of their RowKeys, and partitions in the order of their keys; from Cosmos DB
/// in none. The service answers a query that names no partition by reading the whole table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    filter: String,
    select: String,
    top: Option<u16>,
}

impl Query {
    /// All entities of a partition.
    pub fn partition(partition_key: &str) -> Query {
        Query::default().and("PartitionKey eq", partition_key)
    }

    /// Of the partitions from this one on.
    pub fn partitions_from(self, partition_key: &str) -> Query {
        self.and("PartitionKey ge", partition_key)
    }

    /// Of the partitions before this one.
    pub fn partitions_below(self, partition_key: &str) -> Query {
        self.and("PartitionKey lt", partition_key)
    }

    /// Of the RowKeys from this one on.
    pub fn rows_from(self, row_key: &str) -> Query {
        self.and("RowKey ge", row_key)
    }

    /// Of the RowKeys before this one.
    pub fn rows_below(self, row_key: &str) -> Query {
        self.and("RowKey lt", row_key)
    }

    /// Of those that meet this condition as well, in the service's own language. Values stand in it as [`literal`] writes
    /// them.
    pub fn filter(mut self, condition: &str) -> Query {
        if !self.filter.is_empty() {
            self.filter.push_str(" and ");
        }
        // Who wrote an `or` in it meant all of it.
        let _ = write!(self.filter, "({condition})");
        self
    }

    fn and(mut self, compared: &str, key: &str) -> Query {
        if !self.filter.is_empty() {
            self.filter.push_str(" and ");
        }
        let _ = write!(self.filter, "{compared} {}", literal(&EdmValue::from(key)));
        self
    }

    /// These properties alone. PartitionKey and RowKey have to be among them where they are wanted.
    pub fn select(mut self, properties: &[&str]) -> Query {
        self.select = properties.join(",");
        self
    }

    /// A page of so many entities at most, 1 to [`PAGE_ENTITIES_MAX`].
    pub fn top(mut self, entities: u16) -> Query {
        self.top = Some(entities.clamp(1, PAGE_ENTITIES_MAX));
        self
    }

    /// The query of an address.
    pub(super) fn parameters(&self, next: Option<&Continuation>) -> String {
        let mut parameters = Vec::new();
        let mut put = |name: &str, value: &str| {
            if !parameters.is_empty() {
                parameters.push(b'&');
            }
            parameters.extend_from_slice(name.as_bytes());
            parameters.push(b'=');
            write_encoded(value, &mut parameters);
        };
        if !self.filter.is_empty() {
            put("$filter", &self.filter);
        }
        if !self.select.is_empty() {
            put("$select", &self.select);
        }
        if let Some(top) = self.top {
            put("$top", &top.to_string());
        }
        if let Some(next) = next {
            put("NextPartitionKey", &next.partition_key);
            if let Some(row_key) = &next.row_key {
                put("NextRowKey", row_key);
            }
        }
        String::from_utf8(parameters).expect("percent-encoded text is ASCII")
    }
}

/// A value as a filter has it: `'it''s'`, `5L`, `datetime'2026-11-21T00:00:00.0000000Z'`.
pub fn literal(value: &EdmValue<'_>) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    match value {
        EdmValue::String(text) => quoted(text),
        EdmValue::Boolean(value) => value.to_string(),
        EdmValue::Int32(number) => number.to_string(),
        EdmValue::Int64(number) => format!("{number}L"),
        EdmValue::Double(number) => format!("{number:?}"),
        EdmValue::DateTime(time) => format!("datetime'{time}'"),
        EdmValue::Guid(bytes) => {
            let mut text = Vec::new();
            write_guid(bytes, &mut text);
            format!("guid'{}'", String::from_utf8_lossy(&text))
        }
        EdmValue::Binary(bytes) => {
            let mut text = String::from("X'");
            for byte in bytes.iter() {
                let _ = write!(text, "{byte:02x}");
            }
            text + "'"
        }
    }
}

/// Some of what a query gives, in the order of the service.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// May be none although there is more.
    pub entities: Vec<Entity>,
    /// Where it goes on; none at the end.
    pub next: Option<Continuation>,
}

/// Where a query goes on: given back with the same query, and understood by the service alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    pub(super) partition_key: String,
    pub(super) row_key: Option<String>,
}

impl Continuation {
    /// One that was [taken apart](Continuation::into_parts) before.
    pub fn new(partition_key: String, row_key: Option<String>) -> Continuation {
        Continuation { partition_key, row_key }
    }

    /// `NextPartitionKey` and `NextRowKey`, for whoever has to keep them.
    pub fn into_parts(self) -> (String, Option<String>) {
        (self.partition_key, self.row_key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DateTime;

    #[test]
    fn queries_as_they_are_sent() {
        let range = Query::partition("it's").rows_from("25").rows_below("26").filter("Severity ge 17 or Level eq 'x'");
        let next = Continuation { partition_key: "1!16!cGthZGNhMmUwZA--".into(), row_key: None };
        let both = Continuation { row_key: Some("b".into()), ..next.clone() };
        for (query, next, sent) in [
            (Query::default(), None, String::new()),
            (Query::default().select(&["RowKey", "Time"]).top(5000), None, "$select=RowKey%2CTime&$top=1000".into()),
            (
                range,
                Some(&next),
                "$filter=PartitionKey%20eq%20%27it%27%27s%27%20and%20RowKey%20ge%20%2725%27%20and%20RowKey%20lt%20%2726%27\
                 %20and%20%28Severity%20ge%2017%20or%20Level%20eq%20%27x%27%29&NextPartitionKey=1%2116%21cGthZGNhMmUwZA--"
                    .into(),
            ),
            (Query::default(), Some(&both), "NextPartitionKey=1%2116%21cGthZGNhMmUwZA--&NextRowKey=b".into()),
        ] {
            assert_eq!(query.parameters(next), sent);
        }
    }

    #[test]
    fn literals() {
        for (value, text) in [
            (EdmValue::from("a'b"), "'a''b'"),
            (EdmValue::Int64(5), "5L"),
            (EdmValue::Double(1.0), "1.0"),
            (EdmValue::Boolean(true), "true"),
            (
                EdmValue::DateTime(DateTime::from_ticks(639_308_160_000_000_000)),
                "datetime'2026-11-21T00:00:00.0000000Z'",
            ),
            (EdmValue::Guid([0xab; 16]), "guid'abababab-abab-abab-abab-abababababab'"),
            (EdmValue::from(&b"\x0f"[..]), "X'0f'"),
        ] {
            assert_eq!(literal(&value), text);
        }
    }
}
