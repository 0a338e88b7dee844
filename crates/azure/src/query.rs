//! Queries and their pages.

use super::names::write_encoded;
use super::value::write_guid;
use super::{EdmValue, Entity};
use std::fmt::Write;

/// Maximum entities of a page, a limit of the service.
pub const PAGE_ENTITIES_MAX: u16 = 1000;

/// A query: a range of entities and their properties. By default all entities, a thousand per page.
///
/// The service orders entities by PartitionKey, then RowKey; Cosmos DB guarantees no order. A query without a
/// partition reads the whole table.
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

    /// Restricts to partitions from this key on.
    pub fn partitions_from(self, partition_key: &str) -> Query {
        self.and("PartitionKey ge", partition_key)
    }

    /// Restricts to partitions before this key.
    pub fn partitions_below(self, partition_key: &str) -> Query {
        self.and("PartitionKey lt", partition_key)
    }

    /// Restricts to RowKeys from this key on.
    pub fn rows_from(self, row_key: &str) -> Query {
        self.and("RowKey ge", row_key)
    }

    /// Restricts to RowKeys before this key.
    pub fn rows_below(self, row_key: &str) -> Query {
        self.and("RowKey lt", row_key)
    }

    /// Adds a condition in the filter language of the service. Write values with [`literal`].
    pub fn filter(mut self, condition: &str) -> Query {
        if !self.filter.is_empty() {
            self.filter.push_str(" and ");
        }
        // The parentheses keep an `or` in the condition together.
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

    /// Returns only these properties. Include PartitionKey and RowKey if they are needed.
    pub fn select(mut self, properties: &[&str]) -> Query {
        self.select = properties.join(",");
        self
    }

    /// Limits a page to this number of entities, 1 to [`PAGE_ENTITIES_MAX`].
    pub fn top(mut self, entities: u16) -> Query {
        self.top = Some(entities.clamp(1, PAGE_ENTITIES_MAX));
        self
    }

    /// The query string of the address.
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

/// A value in the filter language: `'it''s'`, `5L`, `datetime'2026-11-21T00:00:00.0000000Z'`.
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

/// A part of the result, in the order of the service.
#[derive(Clone, Debug, PartialEq)]
pub struct EntityPage {
    /// May be empty although more pages follow.
    pub entities: Vec<Entity>,
    /// The position of the next page; `None` at the end.
    pub next: Option<Continuation>,
}

/// The position of the next page of a query. Only the service can interpret the position; use it with the same query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    pub(super) partition_key: String,
    pub(super) row_key: Option<String>,
}

impl Continuation {
    /// Creates a position from its [parts](Continuation::into_parts).
    pub fn new(partition_key: String, row_key: Option<String>) -> Continuation {
        Continuation { partition_key, row_key }
    }

    /// `NextPartitionKey` and `NextRowKey`, for callers that store the position.
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
