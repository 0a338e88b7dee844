//! Entities in query results: `application/json;odata=minimalmetadata`, with types beside the values.

use super::{DateTime, ETag, EdmValue};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

/// Maximum fields of an entity: 255 properties, a type for each, and the metadata of the service.
const FIELDS_MAX: usize = 1024;

/// An entity: its keys, its last write time, and its properties in the order of the answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entity {
    /// Empty if the query did not select this key.
    pub partition_key: String,
    /// Empty if the query did not select this key.
    pub row_key: String,
    /// The time of the last write, by the service.
    pub timestamp: Option<DateTime>,
    /// The version, for [`super::IfMatch`].
    pub etag: Option<ETag>,
    /// Names and values of the properties that are not null.
    pub properties: Vec<(String, EdmValue<'static>)>,
}

impl Entity {
    /// The value of a property.
    pub fn property(&self, name: &str) -> Option<&EdmValue<'static>> {
        self.properties.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn read<'a>(fields: &'a JsonFields<'a>) -> Entity {
        let mut entity = Entity::default();
        let typed = |(name, json): &'a (Cow<'a, str>, &'a RawValue)| {
            let of = name.strip_suffix("@odata.type")?;
            Some((of, serde_json::from_str::<&str>(json.get()).ok()?))
        };
        let types: HashMap<&str, &str> = fields.0.iter().filter_map(typed).collect();
        for (name, json) in &fields.0 {
            if name.contains("odata.") {
                if name == "odata.etag" {
                    entity.etag =
                        serde_json::from_str::<Cow<'_, str>>(json.get()).ok().and_then(|etag| ETag::new(&etag));
                }
                continue;
            }
            let edm = types.get(&**name).copied();
            let edm = edm.or((name == "Timestamp").then_some("Edm.DateTime"));
            match (&**name, EdmValue::read(json, edm)) {
                ("PartitionKey", Some(EdmValue::String(key))) => entity.partition_key = key.into_owned(),
                ("RowKey", Some(EdmValue::String(key))) => entity.row_key = key.into_owned(),
                ("Timestamp", Some(EdmValue::DateTime(time))) => entity.timestamp = Some(time),
                (_, Some(value)) => entity.properties.push((name.clone().into_owned(), value)),
                (_, None) => {}
            }
        }
        entity
    }
}

/// Parses a single entity, the answer to a point read.
pub(super) fn entity(body: &[u8]) -> Result<Entity, serde_json::Error> {
    serde_json::from_slice::<JsonFields<'_>>(body).map(|fields| Entity::read(&fields))
}

/// Parses the entities of a page.
pub(super) fn entities(body: &[u8]) -> Result<Vec<Entity>, serde_json::Error> {
    #[derive(Deserialize)]
    struct PageBody<'a> {
        #[serde(borrow)]
        value: Vec<JsonFields<'a>>,
    }
    serde_json::from_slice::<PageBody<'_>>(body).map(|page| page.value.iter().map(Entity::read).collect())
}

/// Parses the table names of a page.
pub(super) fn tables(body: &[u8]) -> Result<Vec<String>, serde_json::Error> {
    #[derive(Deserialize)]
    struct TableItem {
        #[serde(rename = "TableName")]
        name: String,
    }
    #[derive(Deserialize)]
    struct PageBody {
        value: Vec<TableItem>,
    }
    serde_json::from_slice::<PageBody>(body).map(|page| page.value.into_iter().map(|table| table.name).collect())
}

/// The fields of an object in order, with raw values: numbers are parsed by their type without loss.
struct JsonFields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for JsonFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonFields<'a>, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = JsonFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an entity")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonFields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(NameText(name)) = map.next_key()? {
                    if fields.len() >= FIELDS_MAX {
                        return Err(A::Error::custom("an entity has more properties than the service allows"));
                    }
                    fields.push((name, map.next_value()?));
                }
                Ok(JsonFields(fields))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

#[derive(Deserialize)]
struct NameText<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_page_of_the_service() {
        let body = r#"{"odata.metadata":"https://acme.table.core.windows.net/$metadata#Log","value":[
            {"odata.etag":"W/\"datetime'2026-11-21T00%3A51%3A47.2034398Z'\"","PartitionKey":"web-17","RowKey":"1",
             "Timestamp":"2026-11-21T00:51:47.2034398Z","Message":"a\u00e9","Time@odata.type":"Edm.DateTime",
             "Time":"2026-11-21T00:00:00Z","Severity":9,"Size@odata.type":"Edm.Int64","Size":"5000000000","Ratio":0.1,
             "None":null,"Up":true,"Bad@odata.type":"Edm.Double","Bad":"NaN"},
            {"PartitionKey":"web-17","RowKey":"2"}]}"#;
        let page = entities(body.as_bytes()).expect("a page");
        assert_eq!(page.len(), 2);
        let entity = &page[0];
        assert_eq!((entity.partition_key.as_str(), entity.row_key.as_str()), ("web-17", "1"));
        assert_eq!(entity.timestamp, DateTime::parse("2026-11-21T00:51:47.2034398Z"));
        assert_eq!(entity.etag, ETag::new("W/\"datetime'2026-11-21T00%3A51%3A47.2034398Z'\""));
        let names: Vec<&str> = entity.properties.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["Message", "Time", "Severity", "Size", "Ratio", "Up", "Bad"]);
        assert_eq!(entity.property("Message"), Some(&"aé".into()));
        assert_eq!(entity.property("Time"), DateTime::parse("2026-11-21T00:00:00Z").map(EdmValue::DateTime).as_ref());
        assert_eq!(entity.property("Severity"), Some(&EdmValue::Int32(9)));
        assert_eq!(entity.property("Size"), Some(&EdmValue::Int64(5_000_000_000)));
        assert_eq!(entity.property("Ratio"), Some(&EdmValue::Double(0.1)));
        assert!(matches!(entity.property("Bad"), Some(EdmValue::Double(number)) if number.is_nan()));
        assert_eq!(page[1], Entity { partition_key: "web-17".into(), row_key: "2".into(), ..Entity::default() });
    }

    #[test]
    fn more_properties_than_there_can_be() {
        let fields = |count: usize| (0..count).map(|number| format!("\"A{number}\":1")).collect::<Vec<_>>().join(",");
        assert_eq!(entity(format!("{{{}}}", fields(255)).as_bytes()).expect("an entity").properties.len(), 255);
        assert!(entity(format!("{{{}}}", fields(100_000)).as_bytes()).is_err());
    }

    #[test]
    fn tables_of_the_service() {
        let body = r#"{"odata.metadata":"m","value":[{"TableName":"Log20261120"},{"TableName":"Log20261121"}]}"#;
        assert_eq!(tables(body.as_bytes()).expect("tables"), ["Log20261120", "Log20261121"]);
    }

    proptest! {
        /// No bytes panic.
        #[test]
        fn any_bytes(text in "[{}\\[\\]\":,a-z0-9@.\\\\-]{0,60}") {
            let _ = (entities(text.as_bytes()), entity(text.as_bytes()), tables(text.as_bytes()));
            let page = format!("{{\"value\":[{{{text}}}]}}");
            let _ = entities(page.as_bytes());
        }
    }
}
