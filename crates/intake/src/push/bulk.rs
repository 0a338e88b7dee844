//! `POST /elasticsearch/_bulk` and `/elasticsearch/{index}/_bulk`: what Filebeat, Logstash, Vector, Fluent Bit and the
//! clients of Elasticsearch send.
//!
//! ```text
//! {"create":{"_index":"logs","_id":"7"}}       an action: create or index; both add a record
//! {"@timestamp":"…","message":"…"}             its document, read as a JSON line is
//! ```
//!
//! Each action is answered by itself. What is no action makes the body none, because what follows it cannot be known.
//! `update` and `delete` are refused: a record is not changed. A document with an `_id` has its row key of that, so that
//! the same document of the same time is written over itself by `index`; by `create` it is not written again, and its item
//! is a 409. `index` always says `created`: whether a document was there is not looked up for it. The index stays with the record, as `_index`. The instance
//! is the field `host`, under any of its names (`host.name`), else the sender's address.

use super::Refusal;
use super::ids::Id;
use super::ingest::TOO_LONG;
use super::taking::{Instance, RECORD_BYTES_MAX, Taking};
use daytable_model::record::{Field, Value};
use daytable_parse::{Envelope, Format};
use memchr::memchr;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;
use std::ops::Range;

/// Fields that name the instance.
const INSTANCE: Instance<'static> = Instance::Named(&["host", "host.name", "host.hostname"]);

/// Bytes of an index's name at most, as Elasticsearch has it.
const INDEX_BYTES_MAX: usize = 255;
/// Bytes of a document's id at most, as Elasticsearch has it; as it is written, quotes and escapes with it.
const ID_BYTES_MAX: usize = 512 * 6 + 2;

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action<'a> {
    #[serde(borrow)]
    Create(Target<'a>),
    #[serde(borrow)]
    Index(Target<'a>),
    #[serde(borrow)]
    Update(Target<'a>),
    #[serde(borrow)]
    Delete(Target<'a>),
}

/// Why a `create` is refused.
pub(super) const EXISTS: &str = "a document of this id is there already";

/// Why a body is refused with a name that no index or document has.
const NO_INDEX: &str = "an index has a name of at most 255 bytes, a document an id of at most 512";

#[derive(Deserialize)]
struct Target<'a> {
    #[serde(rename = "_index", default)]
    index: Option<Cow<'a, str>>,
    /// A text, or a number.
    #[serde(rename = "_id", default, borrow)]
    id: Option<&'a RawValue>,
}

/// The answers to the actions so far, as they are written.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Items {
    pub(super) json: String,
    pub(super) has_errors: bool,
    /// Documents with an id of their own, which no other request may write at the same time.
    pub(super) ids: HashSet<Id>,
    /// Those that are to be created, with the place of their answer in `json`.
    pub(super) creates: Vec<(Id, Range<usize>)>,
}

/// How the answer to a document ends that is written.
const CREATED: &str = ",\"status\":201,\"result\":\"created\"}}";
/// How the answer to a `create` ends whose document is there.
const CONFLICT: &str = concat!(
    ",\"status\":409,\"error\":{\"type\":\"version_conflict_engine_exception\",",
    "\"reason\":\"version conflict, document already exists\"}}}"
);

/// Takes a decoded body apart; `index` is that of the path.
pub(super) fn take(body: &[u8], index: Option<&str>, taking: &mut Taking<'_>) -> Result<Items, Refusal> {
    let mut items = Items::default();
    // Documents that this body creates: nothing else may write them in it, so that each has one row and one answer.
    let mut created = HashSet::new();
    let mut lines = Lines(body);
    let is_index = |index: Option<&str>| index.is_none_or(|index| index.len() <= INDEX_BYTES_MAX);
    // That of the path is a part of every record and every answer.
    if !is_index(index) {
        return Err(Refusal::bad(NO_INDEX));
    }
    while let Some(line) = lines.next_full() {
        let number = taking.begin()?;
        let action: Action<'_> = serde_json::from_slice(line)
            .map_err(|error| Refusal::bad_at(number, format!("what should be an action is none: {error}")))?;
        let (name, target) = match action {
            Action::Create(target) => ("create", target),
            Action::Index(target) => ("index", target),
            Action::Delete(target) => {
                items.refuse(taking, number, ("delete", &target, index), "records are not changed");
                continue;
            }
            Action::Update(target) => {
                lines.next();
                items.refuse(taking, number, ("update", &target, index), "records are not changed");
                continue;
            }
        };
        let document = lines.next().ok_or_else(|| Refusal::bad_at(number, "an action has no document"))?;
        if !is_index(target.index.as_deref()) || target.id.is_some_and(|id| id.get().len() > ID_BYTES_MAX) {
            items.refuse(taking, number, (name, &target, index), NO_INDEX);
            continue;
        }
        let text = String::from_utf8_lossy(document);
        if text.len() > RECORD_BYTES_MAX {
            items.refuse(taking, number, (name, &target, index), TOO_LONG);
            continue;
        }
        let (_, objects) = taking.readings();
        let parsed = taking.parse(&text, Envelope::default(), objects);
        if parsed.format != Format::Json {
            items.refuse(taking, number, (name, &target, index), "the document is no JSON object");
            continue;
        }
        let mut record = parsed.record;
        let is_invalid = matches!(text, Cow::Owned(_));
        taking.note(parsed.format, is_invalid, 0, &mut record);
        let to = target.index.as_deref().or(index).map(|to| taking.clean(to.into()));
        if let Some(to) = &to {
            record.fields.push(Field { name: "_index".into(), value: Value::String(Cow::Borrowed(to)) });
        }
        let key = target
            .id
            .map(|id| taking.key_of_name(&[to.as_deref().unwrap_or_default().as_bytes(), id.get().as_bytes()]))
            .transpose()?;
        let id = key.unwrap_or_else(|| taking.key_of(number));
        let is_new = key.is_none() || items.ids.insert(id);
        let (begin, memory) = (items.json.len(), items.json.capacity());
        items.put(name, &target, index, 201, id, |json| json.push_str(",\"result\":\"created\""));
        let answer = begin..items.json.len();
        // The answers are copied once more where some of them change.
        taking.make_room(2 * (items.json.capacity() - memory))?;
        if !is_new && (name == "create" || created.contains(&id)) {
            items.conflict_last();
            taking.refuse(number, EXISTS);
            continue;
        }
        if name == "create" && key.is_some() {
            created.insert(id);
            items.creates.push((id, answer));
        }
        taking.write(number, INSTANCE, record, Some(id));
    }
    Ok(items)
}

impl Items {
    /// Has the answer that was put last say that the document is there already.
    fn conflict_last(&mut self) {
        self.has_errors = true;
        let end = self.json.strip_suffix(CREATED).map_or(self.json.len(), str::len);
        self.json.truncate(end);
        self.json.push_str(CONFLICT);
    }

    /// Has the answers at these places, which are in their order, say that the document is there already.
    pub(super) fn conflict(&mut self, answers: &[Range<usize>]) {
        if answers.is_empty() {
            return;
        }
        self.has_errors = true;
        let (mut json, mut at) = (String::with_capacity(self.json.len() + answers.len() * CONFLICT.len()), 0);
        for answer in answers {
            let whole = &self.json[at..answer.end];
            json.push_str(whole.strip_suffix(CREATED).unwrap_or(whole));
            json.push_str(CONFLICT);
            at = answer.end;
        }
        json.push_str(&self.json[at..]);
        self.json = json;
    }

    fn refuse(
        &mut self,
        taking: &mut Taking<'_>,
        number: usize,
        of: (&str, &Target<'_>, Option<&str>),
        reason: &'static str,
    ) {
        let (name, target, index) = of;
        self.has_errors = true;
        self.put(name, target, index, 400, taking.key_of(number), |json| {
            let _ =
                write!(json, ",\"error\":{{\"type\":\"document_parsing_exception\",\"reason\":{}}}", quoted(reason));
        });
        taking.refuse(number, reason);
    }

    /// One answer, as clients read it.
    fn put(
        &mut self,
        name: &str,
        target: &Target<'_>,
        index: Option<&str>,
        status: u16,
        (identity, position): (u64, u64),
        more: impl FnOnce(&mut String),
    ) {
        let json = &mut self.json;
        if !json.is_empty() {
            json.push(',');
        }
        let to = quoted(target.index.as_deref().or(index).unwrap_or_default());
        // Writing to a string cannot fail.
        let _ = write!(json, "{{\"{name}\":{{\"_index\":{to},\"_id\":");
        let _ = match target.id.map(RawValue::get) {
            Some(text) if text.starts_with('"') => json.write_str(text),
            Some(number) => write!(json, "{}", quoted(number)),
            None => write!(json, "\"{identity:016x}{position:012x}\""),
        };
        let _ = write!(json, ",\"status\":{status}");
        more(json);
        json.push_str("}}");
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The lines of a body, without what ends them.
struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let end = memchr(b'\n', self.0);
        let line = &self.0[..end.unwrap_or(self.0.len())];
        self.0 = end.map_or(&[], |end| &self.0[end + 1..]);
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The next one that is not empty.
    fn next_full(&mut self) -> Option<&'a [u8]> {
        while let Some(line) = self.next() {
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Taken, taken};
    use super::*;
    use crate::push::Endpoint;
    use proptest::prelude::*;

    fn bulk(index: Option<&str>, body: &str) -> Result<(Taken, serde_json::Value), Refusal> {
        let mut items = Items::default();
        let taken = taken(Endpoint::Bulk, |taking| {
            items = take(body.as_bytes(), index, taking)?;
            Ok(())
        })?;
        let json = serde_json::from_str(&format!("[{}]", items.json)).expect("JSON");
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
        assert!(seen[2].ends_with(" 400") && items[2]["create"]["error"]["reason"] == "the document is no JSON object");
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
    fn names_that_elasticsearch_would_not_take_are_refused() {
        let long = "x".repeat(INDEX_BYTES_MAX + 1);
        let body = format!(
            "{{\"index\":{{\"_index\":{long:?}}}}}\n{{}}\n{{\"create\":{{}}}}\n{{}}\n{{\"create\":{{\"_id\":{:?}}}}}\n{{}}\n",
            "x".repeat(ID_BYTES_MAX)
        );
        let (taken, _) = bulk(Some("by-path"), &body).expect("the others are taken");
        assert_eq!(taken.refused().iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 2]);
        // It would be written with each record, and said in each answer.
        assert!(matches!(bulk(Some(&long), "{\"create\":{}}\n{}\n"), Err(Refusal::Bad { .. })));
    }

    #[test]
    fn what_is_no_action_makes_the_body_none() {
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
        /// Any body is answered in JSON, or refused.
        #[test]
        fn any_body(body in "(\\{\"(create|index|update|delete)\":\\{(\"_i(d|ndex)\":(\"[a\\\\u0]{0,7}\"|7))?\\}\\}\n|\\{\"message\":\"[a\"]{0,2}\"\\}\n|\\PC|\n){0,20}") {
            let _ = bulk(None, &body);
        }
    }
}
