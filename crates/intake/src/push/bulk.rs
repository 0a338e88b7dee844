//! `POST /elasticsearch/_bulk` and `/elasticsearch/{index}/_bulk`: the
//! [bulk API](https://www.elastic.co/guide/en/elasticsearch/reference/8.17/docs-bulk.html), which Filebeat, Logstash, Vector,
//! Fluent Bit and the clients of Elasticsearch use.
//!
//! ```text
//! {"create":{"_index":"logs","_id":"7"}}       an action: create or index; both add a record
//! {"@timestamp":"…","message":"…"}             its document, parsed like a JSON line
//! ```
//!
//! Each action has its own answer. A line that should be an action and is not refuses the whole body, because the meaning of
//! the following lines is unknown. `update` and `delete` are refused: records do not change.
//!
//! A document with an `_id` gets its row key from the `_id`. `index` therefore overwrites a document of the same id and time.
//! `create` does not write it again, and answers with a 409. `index` always answers `created`, because daytable does not look
//! the document up.
//!
//! The record keeps its index as the field `_index`. The *instance* (whatever writes logs: a host, a service) is the field
//! `host`, under any of its names (`host.name`), else the sender's address.

use super::Refusal;
use super::document_ids::DocumentId;
use daytable_model::source_id::SourceId;

use super::request_writer::{InstanceRule, RECORD_BYTES_MAX, RequestWriter, TOO_LONG};
use super::unread_parts::UnreadParts;
use daytable_model::record::{Field, Value};
use daytable_parse::{Format, RawRecord};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// Fields that name the instance.
const INSTANCE: InstanceRule<'static> = InstanceRule::Fields(&["host", "host.name", "host.hostname"]);

/// The bytes of an index's name, as Elasticsearch limits them.
const INDEX_BYTES_MAX: usize = 255;
/// The bytes of a document's id as it is written: 512 characters, as Elasticsearch limits them, with quotes and escapes.
const ID_BYTES_MAX: usize = 512 * 6 + 2;

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum BulkAction<'a> {
    #[serde(borrow)]
    Create(ActionTarget<'a>),
    #[serde(borrow)]
    Index(ActionTarget<'a>),
    #[serde(borrow)]
    Update(ActionTarget<'a>),
    #[serde(borrow)]
    Delete(ActionTarget<'a>),
}

#[derive(Default)]
struct ActionTarget<'a> {
    index: Option<Cow<'a, str>>,
    /// A text or a number.
    id: Option<&'a RawValue>,
    /// Parameters that Elasticsearch does not have, either.
    unread: UnreadParts,
}

/// Parameters of an action that change no record: how Elasticsearch distributes, versions and processes a document. Those
/// before version 7 also have an underscore in front.
const WITHOUT_EFFECT: [&str; 15] = [
    "type",
    "routing",
    "parent",
    "pipeline",
    "version",
    "version_type",
    "if_seq_no",
    "if_primary_term",
    "retry_on_conflict",
    "require_alias",
    "require_data_stream",
    "list_executed_pipelines",
    "dynamic_templates",
    "ttl",
    "timestamp",
];

impl<'de: 'a, 'a> Deserialize<'de> for ActionTarget<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<ActionTarget<'a>, D::Error> {
        struct TargetVisitor;
        impl<'de> Visitor<'de> for TargetVisitor {
            type Value = ActionTarget<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the parameters of an action")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ActionTarget<'de>, A::Error> {
                let mut target = ActionTarget::default();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    match &*name {
                        "_index" => target.index = serde_json::from_str(value.get()).map_err(Error::custom)?,
                        "_id" => target.id = (value.get() != "null").then_some(value),
                        name if WITHOUT_EFFECT.contains(&name.trim_start_matches('_')) => {}
                        name => target.unread.note(format_args!("the parameter {name} of an action")),
                    }
                }
                Ok(target)
            }
        }
        input.deserialize_map(TargetVisitor)
    }
}

/// Why a `create` is refused.
pub(super) const EXISTS: &str = "a document of this id is there already";
/// Why an `update` or a `delete` is refused.
const UNCHANGEABLE: &str = "records are not changed";
/// Why a name is refused.
const INVALID_NAME: &str = "an index has a name of at most 255 bytes, a document an id of at most 512";

/// The answers to the actions of a body, and the ids of its documents.
#[derive(Debug, Default)]
pub(super) struct BulkAnswers {
    /// The concatenated beginnings of all answers: `{"create":{"_index":"logs","_id":"7"`.
    heads: String,
    /// The end of each beginning, and the result that completes the answer.
    items: Vec<(usize, ItemResult)>,
    /// The ids of documents. No other request may write these documents at the same time.
    pub(super) ids: HashSet<DocumentId>,
    /// The documents to create, with the index of their item.
    pub(super) creates: HashMap<DocumentId, usize>,
}

/// The result of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemResult {
    Created,
    /// The document exists.
    Conflict,
    Refused(&'static str),
}

const CREATED: &str = ",\"status\":201,\"result\":\"created\"}}";
const CONFLICT: &str = concat!(
    ",\"status\":409,\"error\":{\"type\":\"version_conflict_engine_exception\",",
    "\"reason\":\"version conflict, document already exists\"}}}"
);

/// Writes the documents of a body. `index` is the index in the path.
pub(super) fn write(body: &[u8], index: Option<&str>, writer: &mut RequestWriter<'_>) -> Result<BulkAnswers, Refusal> {
    let mut answers = BulkAnswers::default();
    // The index of the path is part of every record and every answer.
    if index.is_some_and(|index| index.len() > INDEX_BYTES_MAX) {
        return Err(Refusal::bad(INVALID_NAME));
    }
    let lines = body.strip_suffix(b"\n").unwrap_or(body).split(|byte| *byte == b'\n');
    let mut lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    while let Some(line) = lines.find(|line| !line.trim_ascii().is_empty()) {
        let number = writer.begin()?;
        let action: BulkAction<'_> = serde_json::from_slice(line)
            .map_err(|error| Refusal::bad_at(number, format!("malformed action: {error}")))?;
        let (name, mut target) = match action {
            BulkAction::Create(target) => ("create", target),
            BulkAction::Index(target) => ("index", target),
            BulkAction::Update(target) => ("update", target),
            BulkAction::Delete(target) => ("delete", target),
        };
        writer.note_unread_parts(std::mem::take(&mut target.unread));
        let document = if name == "delete" { None } else { lines.next() };
        let begun = answers.begin(name, &target, index, writer.key(number), writer)?;
        let result = match (name, document) {
            ("update" | "delete", _) => ItemResult::Refused(UNCHANGEABLE),
            (_, None) => return Err(Refusal::bad_at(number, "an action has no document")),
            (_, Some(document)) => {
                let index = target.index.as_deref().or(index);
                let id = target.id.map(RawValue::get);
                write_document(document, number, name == "create", index, id, writer, &mut answers)?
            }
        };
        match result {
            ItemResult::Created => {}
            ItemResult::Conflict => writer.refuse(number, EXISTS),
            ItemResult::Refused(reason) => writer.refuse(number, reason),
        }
        answers.items.push((begun, result));
    }
    Ok(answers)
}

/// Writes a document as the record with the index `number`.
fn write_document(
    document: &[u8],
    number: usize,
    is_create: bool,
    index: Option<&str>,
    id: Option<&str>,
    writer: &mut RequestWriter<'_>,
    answers: &mut BulkAnswers,
) -> Result<ItemResult, Refusal> {
    if index.is_some_and(|index| index.len() > INDEX_BYTES_MAX) || id.is_some_and(|id| id.len() > ID_BYTES_MAX) {
        return Ok(ItemResult::Refused(INVALID_NAME));
    }
    let text = String::from_utf8_lossy(document);
    let (_, objects) = writer.readings();
    let raw = RawRecord::of_long_message(&text, RECORD_BYTES_MAX, objects.redactor.as_ref());
    let parsed = writer.parse_raw(&raw, objects);
    if parsed.format != Format::Json {
        return Ok(ItemResult::Refused(if raw.cut.is_some() { TOO_LONG } else { "the document is not a JSON object" }));
    }
    let mut record = parsed.record;
    writer.count_record(parsed.format, matches!(text, Cow::Owned(_)), raw.cut_bytes(), &mut record);
    let index = index.map(|index| writer.redact(index.into()));
    if let Some(index) = &index {
        record.fields.push(Field { name: "_index".into(), value: Value::String(Cow::Borrowed(index)) });
    }
    let mut key = None;
    if let Some(id) = id {
        let id = writer.key_of_name(&[index.as_deref().unwrap_or_default().as_bytes(), id.as_bytes()])?;
        // A document that this body creates has no second writer in the body, so it has one row and one answer.
        if !answers.ids.insert(id) && (is_create || answers.creates.contains_key(&id)) {
            return Ok(ItemResult::Conflict);
        }
        if is_create {
            answers.creates.insert(id, answers.items.len());
        }
        key = Some(id);
    }
    writer.write(number, INSTANCE, record, key);
    Ok(ItemResult::Created)
}

impl BulkAnswers {
    /// Writes the beginning of an answer, and returns its end in `heads`.
    fn begin(
        &mut self,
        name: &str,
        target: &ActionTarget<'_>,
        index: Option<&str>,
        (identity, position): (SourceId, u64),
        writer: &mut RequestWriter<'_>,
    ) -> Result<usize, Refusal> {
        let memory = self.memory();
        self.items.reserve(1);
        let json = &mut self.heads;
        let index = quoted(target.index.as_deref().or(index).unwrap_or_default());
        // Writing to a string cannot fail.
        let _ = write!(json, "{{\"{name}\":{{\"_index\":{index},\"_id\":");
        let _ = match target.id.map(RawValue::get) {
            Some(text) if text.starts_with('"') => json.write_str(text),
            Some(number) => write!(json, "{}", quoted(number)),
            None => write!(json, "\"{identity}{position:012x}\""),
        };
        let end = json.len();
        // Rendering needs the memory once more.
        writer.reserve(2 * (self.memory() - memory))?;
        Ok(end)
    }

    /// Answers the creation of this document with a conflict.
    pub(super) fn conflict(&mut self, id: &DocumentId) {
        if let Some(item) = self.creates.get(id) {
            self.items[*item].1 = ItemResult::Conflict;
        }
    }

    /// Whether an action failed.
    pub(super) fn has_errors(&self) -> bool {
        self.items.iter().any(|(_, result)| *result != ItemResult::Created)
    }

    /// The memory of the answers, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.heads.capacity() + self.items.capacity() * size_of::<(usize, ItemResult)>()
    }

    /// The answers as the elements of a JSON array.
    pub(super) fn to_json(&self) -> String {
        let mut json = String::with_capacity(self.heads.len() + self.items.len() * (CREATED.len() + 1));
        let mut begin = 0;
        for (end, result) in &self.items {
            if begin > 0 {
                json.push(',');
            }
            json.push_str(&self.heads[begin..*end]);
            begin = *end;
            // Writing to a string cannot fail.
            let _ = match result {
                ItemResult::Created => json.write_str(CREATED),
                ItemResult::Conflict => json.write_str(CONFLICT),
                ItemResult::Refused(reason) => write!(
                    json,
                    ",\"status\":400,\"error\":{{\"type\":\"document_parsing_exception\",\"reason\":{}}}}}}}",
                    quoted(reason)
                ),
            };
        }
        json
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Taken, taken};
    use super::*;
    use crate::push::Endpoint;
    use proptest::prelude::*;

    fn bulk(index: Option<&str>, body: &str) -> Result<(Taken, serde_json::Value), Refusal> {
        let mut items = BulkAnswers::default();
        let taken = taken(Endpoint::Bulk, |writer| {
            items = write(body.as_bytes(), index, writer)?;
            Ok(())
        })?;
        let json = serde_json::from_str(&format!("[{}]", items.to_json())).expect("JSON");
        Ok((taken, json))
    }

    #[test]
    fn actions_are_answered_one_by_one() {
        let body = concat!(
            "{\"create\":{\"_index\":\"logs\"}}\n{\"@timestamp\":\"2026-11-20T00:05:45Z\",\"message\":\"a\",\"host\":{\"name\":\"h\"}}\n\n",
            "{\"index\":{\"_id\":\"7\",\"routing\":\"x\"}}\r\n{\"message\":\"b\"}\r\n",
            "{\"create\":{}}\nno document\n",
            "{\"delete\":{\"_id\":7}}\n",
            "{\"update\":{\"_id\":\"\\u0037\"}}\n{\"doc\":{}}\n",
            "{\"index\":{\"_id\":9}}\n{\"message\":\"c\"}",
        );
        let (taken, items) = bulk(Some("by-path"), body).expect("taken");
        let mut messages = taken.messages();
        messages.sort();
        assert_eq!(messages, ["a", "b", "c"]);
        assert_eq!(taken.instances(), ["192.0.2.7", "192.0.2.7", "h"]);
        let seen: Vec<_> = items
            .as_array()
            .expect("an array")
            .iter()
            .map(|item| {
                let (name, item) = item.as_object().and_then(|item| item.iter().next()).expect("one");
                format!("{name} {} {} {}", item["_index"], item["_id"], item["status"])
            })
            .collect();
        assert!(seen[0].starts_with("create \"logs\" \"") && seen[0].ends_with(" 201"), "{}", seen[0]);
        assert_eq!(seen[1], "index \"by-path\" \"7\" 201");
        assert!(
            seen[2].ends_with(" 400") && items[2]["create"]["error"]["reason"] == "the document is not a JSON object"
        );
        assert_eq!(
            seen[3..],
            ["delete \"by-path\" \"7\" 400", "update \"by-path\" \"7\" 400", "index \"by-path\" \"9\" 201"]
        );
        let refused: Vec<_> = taken.refused().iter().map(|(index, _)| *index).collect();
        assert_eq!(refused, [2, 3, 4]);
    }

    #[test]
    fn a_document_with_an_id_is_written_over_itself() {
        let body = "{\"index\":{\"_index\":\"i\",\"_id\":\"7\"}}\n{\"@timestamp\":\"2026-11-20T00:05:45Z\",\"message\":\"a\"}\n";
        let keys = |body: &str| bulk(None, body).expect("taken").0.keys();
        assert_eq!(keys(body), keys(body));
        assert_ne!(keys(body), keys(&body.replace("\"7\"", "\"8\"")));
        assert_ne!(keys(body), keys(&body.replace("\"i\"", "\"j\"")));
    }

    #[test]
    fn names_that_elasticsearch_refuses_are_refused() {
        let long = "x".repeat(INDEX_BYTES_MAX + 1);
        let body = format!(
            "{{\"index\":{{\"_index\":{long:?}}}}}\n{{}}\n{{\"create\":{{}}}}\n{{}}\n{{\"create\":{{\"_id\":{:?}}}}}\n{{}}\n",
            "x".repeat(ID_BYTES_MAX)
        );
        let (taken, _) = bulk(Some("by-path"), &body).expect("the other documents are written");
        assert_eq!(taken.refused().iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 2]);
        // The index of the path would be part of each record and each answer.
        assert!(matches!(bulk(Some(&long), "{\"create\":{}}\n{}\n"), Err(Refusal::Bad { .. })));
    }

    #[test]
    fn unknown_parameters_of_an_action_are_counted() {
        let body = concat!(
            "{\"create\":{\"_index\":\"i\",\"_type\":\"doc\",\"routing\":1,\"_routing\":1,\"version\":2,\"pipeline\":null}}\n{}\n",
            "{\"index\":{\"index\":\"i\",\"_id\":null,\"colour\":[1]}}\n{}\n",
        );
        let (taken, items) = bulk(None, body).expect("taken");
        assert_eq!((taken.unread(), taken.messages().len()), (2, 2));
        assert_eq!(items[1]["index"]["_index"], "");
    }

    #[test]
    fn a_line_that_is_no_action_refuses_the_body() {
        for (body, index) in [
            ("words\n", 0),
            ("{\"create\":{}}\n{}\n{\"message\":\"a\"}\n", 1),
            ("{\"create\":{}}\n", 0),
            ("{\"create\":{},\"index\":{}}\n{}\n", 0),
            ("{\"explode\":{}}\n{}\n", 0),
        ] {
            match bulk(None, body) {
                Err(Refusal::Bad { index: at, .. }) => assert_eq!(at, Some(index), "{body}"),
                other => panic!("{body}: {}", other.is_ok()),
            }
        }
        assert!(bulk(None, "").expect("nothing").0.messages().is_empty());
    }

    proptest! {
        /// Any body gets an answer in JSON or is refused.
        #[test]
        fn any_body(body in "(\\{\"(create|index|update|delete)\":\\{(\"_i(d|ndex)\":(\"[a\\\\u0]{0,7}\"|7))?\\}\\}\n|\\{\"message\":\"[a\"]{0,2}\"\\}\n|\\PC|\n){0,20}") {
            let _ = bulk(None, &body);
        }
    }
}
