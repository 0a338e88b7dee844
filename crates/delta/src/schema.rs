//! Columns of a table, as Delta's schema of JSON, and which changes of them are permitted.
//!
//! The names of the table are the names in its files. So the schema is the registry of names: who wants a new column
//! claims its name by a commit before a file has it, and all writers agree on its type.

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The type of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum DeltaType {
    /// UTF-8 text.
    String,
    /// 64 bits, signed.
    Long,
    /// 32 bits, signed.
    Integer,
    /// 16 bits, signed.
    Short,
    /// 8 bits, signed.
    Byte,
    /// 32 bits.
    Float,
    /// 64 bits.
    Double,
    /// True or false.
    Boolean,
    /// Bytes.
    Binary,
    /// A date without a time.
    Date,
    /// A point in time, in microseconds.
    Timestamp,
    /// Texts by names; a text may be null.
    StringMap,
    /// A type that this crate does not write, as the schema says it.
    Other(Value),
}

/// Types with one word.
const PRIMITIVES: [(&str, DeltaType); 11] = [
    ("string", DeltaType::String),
    ("long", DeltaType::Long),
    ("integer", DeltaType::Integer),
    ("short", DeltaType::Short),
    ("byte", DeltaType::Byte),
    ("float", DeltaType::Float),
    ("double", DeltaType::Double),
    ("boolean", DeltaType::Boolean),
    ("binary", DeltaType::Binary),
    ("date", DeltaType::Date),
    ("timestamp", DeltaType::Timestamp),
];

impl DeltaType {
    fn of_json(value: &Value) -> DeltaType {
        let primitive = |word: &str| PRIMITIVES.into_iter().find(|(name, _)| *name == word).map(|(_, kind)| kind);
        if let Some(kind) = value.as_str().and_then(primitive) {
            return kind;
        }
        let is_text_map = ["type", "keyType", "valueType"].map(|name| value.get(name).and_then(Value::as_str));
        match is_text_map == [Some("map"), Some("string"), Some("string")] && value["valueContainsNull"] == true {
            true => DeltaType::StringMap,
            false => DeltaType::Other(value.clone()),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            DeltaType::StringMap => {
                json!({"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": true})
            }
            DeltaType::Other(value) => value.clone(),
            primitive => {
                let word = PRIMITIVES.iter().find(|(_, kind)| kind == primitive).map(|(name, _)| *name);
                Value::from(word.unwrap_or_default())
            }
        }
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableColumn {
    /// Its name, in the table and in each file.
    pub name: String,
    /// Its type.
    pub data_type: DeltaType,
    /// Whether a row may lack it.
    pub nullable: bool,
    /// What the writers noted about it.
    pub metadata: BTreeMap<String, String>,
    /// Notes of other writers that are not texts.
    pub other_metadata: BTreeMap<String, Value>,
}

impl TableColumn {
    /// A column that rows may lack.
    pub fn new(name: impl Into<String>, data_type: DeltaType) -> TableColumn {
        let (metadata, other_metadata) = Default::default();
        TableColumn { name: name.into(), data_type, nullable: true, metadata, other_metadata }
    }

    /// With a note.
    pub fn with_metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> TableColumn {
        self.metadata.insert(name.into(), value.into());
        self
    }

    fn of_json(field: &Value) -> Option<TableColumn> {
        let (mut metadata, mut other_metadata) = (BTreeMap::new(), BTreeMap::new());
        for (name, value) in field.get("metadata").and_then(Value::as_object).into_iter().flatten() {
            match value.as_str() {
                Some(text) => drop(metadata.insert(name.clone(), text.to_owned())),
                None => drop(other_metadata.insert(name.clone(), value.clone())),
            }
        }
        Some(TableColumn {
            name: field.get("name")?.as_str()?.to_owned(),
            data_type: DeltaType::of_json(field.get("type")?),
            nullable: field.get("nullable")?.as_bool()?,
            metadata,
            other_metadata,
        })
    }

    fn to_json(&self) -> Value {
        let texts = self.metadata.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        let others = self.other_metadata.iter().map(|(name, value)| (name.clone(), value.clone()));
        let metadata: Map<String, Value> = texts.chain(others).collect();
        json!({"name": self.name, "type": self.data_type.to_json(), "nullable": self.nullable, "metadata": metadata})
    }
}

/// Reads the schema in a log.
pub(crate) fn parse(text: &str) -> Result<Vec<TableColumn>, String> {
    let schema: Value = serde_json::from_str(text).map_err(|error| format!("its schema: {error}"))?;
    let fields = schema.get("fields").and_then(Value::as_array).ok_or("its schema has no fields")?;
    let columns = fields.iter().map(TableColumn::of_json).collect::<Option<Vec<_>>>();
    columns.ok_or_else(|| "its schema has a field without name, type or nullability".into())
}

/// The schema as the log has it.
pub(crate) fn text(columns: &[TableColumn]) -> String {
    let fields: Vec<Value> = columns.iter().map(TableColumn::to_json).collect();
    json!({"type": "struct", "fields": fields}).to_string()
}

/// Whether `new` may follow `old`: names are usable and unique whatever their case, no column goes or changes its type,
/// new columns may be lacking in files that are there, and partition columns are among them.
pub(crate) fn check_change(old: &[TableColumn], new: &[TableColumn], partitions: &[String]) -> Result<(), String> {
    let mut lower = BTreeSet::new();
    for column in new {
        let name = &column.name;
        if name.is_empty() || name.contains(|c: char| c.is_control() || " ,;{}()=".contains(c)) {
            return Err(format!("the name of the column {name:?} is empty or has one of the characters ' ,;{{}}()='"));
        }
        if !lower.insert(name.to_lowercase()) {
            return Err(format!("two columns are named {name:?}, in some case"));
        }
        let is_new = !old.iter().any(|column| column.name == *name);
        if is_new && !old.is_empty() && !column.nullable {
            return Err(format!("the new column {name:?} is required, but files without it are there"));
        }
    }
    for column in old {
        match new.iter().find(|new| new.name == column.name) {
            None => return Err(format!("the column {:?} would go, but files have it", column.name)),
            Some(new) if new.data_type != column.data_type => {
                return Err(format!("the column {:?} would have another type than its files", column.name));
            }
            Some(new) if column.nullable && !new.nullable => {
                return Err(format!("the column {:?} would become required, but rows may lack it", column.name));
            }
            Some(_) => {}
        }
    }
    let missing = partitions.iter().find(|name| !new.iter().any(|column| column.name == **name));
    missing.map_or(Ok(()), |name| Err(format!("the partition column {name:?} is not in the schema")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_come_back() {
        let decimal = DeltaType::Other("decimal(10,2)".into());
        let nested = DeltaType::Other(json!({"type": "array", "elementType": "long", "containsNull": true}));
        let mut columns: Vec<TableColumn> =
            PRIMITIVES.into_iter().map(|(name, kind)| TableColumn::new(name, kind)).collect();
        columns.push(TableColumn::new("rest", DeltaType::StringMap).with_metadata("field", "a b"));
        columns.push(TableColumn { nullable: false, ..TableColumn::new("price", decimal) });
        columns.push(TableColumn::new("list", nested));
        columns[0].other_metadata.insert("delta.columnMapping.id".into(), json!(7));
        assert_eq!(parse(&text(&columns)), Ok(columns));
        assert!(parse("{}").is_err() && parse("[").is_err() && parse(r#"{"fields":[{}]}"#).is_err());
    }

    #[test]
    fn only_changes_that_old_files_survive_are_permitted() {
        let column = |name: &str, kind| TableColumn::new(name, kind);
        let old = [column("a", DeltaType::Long), column("day", DeltaType::Date)];
        let day = ["day".to_owned()];
        let with = |more: TableColumn| [old.to_vec(), vec![more]].concat();
        assert_eq!(check_change(&old, &with(column("b", DeltaType::String)), &day), Ok(()));
        assert_eq!(check_change(&[], &old, &day), Ok(()));
        for refused in [
            with(column("A", DeltaType::Long)),
            with(column("b c", DeltaType::Long)),
            with(TableColumn { nullable: false, ..column("b", DeltaType::Long) }),
            old[..1].to_vec(),
            vec![column("a", DeltaType::String), old[1].clone()],
        ] {
            assert!(check_change(&old, &refused, &day).is_err(), "{refused:?}");
        }
        assert!(check_change(&[], &old, &["host".to_owned()]).is_err());
    }
}
