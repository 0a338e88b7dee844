//! Parts of an entry of Loki's protocol that a record has no place for: the labels of its stream, the fields that are
//! structured metadata, and the digits of its time below a tick.
//!
//! The note is one text for all entries of a stream with the same metadata, so a page stores the text once:
//!
//! ```text
//! Stream    [{"app":"shop","pod":"web-1"},["trace_id","user"]]
//! Nanos     76                          two digits below a tick of 100 ns; left out if they are zero
//! ```
//!
//! The labels and the metadata are also fields of the record, which all other queries use. Bytes that end the line and
//! are not part of the record are the third element of the note.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The property with the note.
pub const STREAM: &str = "Stream";
/// The property with the nanoseconds below a tick.
pub const NANOS: &str = "Nanos";

/// The stored note of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamNote<'a> {
    /// The text of a [`PushedStream`].
    pub text: Cow<'a, str>,
    /// Nanoseconds below a tick: 0 to 99.
    pub nanos: u8,
}

/// The stream that an entry was pushed to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushedStream(
    /// The labels.
    pub BTreeMap<String, String>,
    /// The names of the structured metadata.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub Vec<String>,
    /// The bytes that ended the line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub String,
);

impl PushedStream {
    /// The text that is stored.
    pub fn text(&self) -> String {
        match self {
            // An element that is left out must not move the next one.
            PushedStream(labels, names, end) if !end.is_empty() => serde_json::json!([labels, names, end]).to_string(),
            _ => serde_json::to_string(self).unwrap_or_default(),
        }
    }

    /// The inverse of [`PushedStream::text`]; `None` for any other text.
    pub fn parse(text: &str) -> Option<PushedStream> {
        serde_json::from_str(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stream_is_short() {
        let labels = BTreeMap::from([("app".to_owned(), "shop".to_owned())]);
        for (stream, text) in [
            (PushedStream(labels.clone(), Vec::new(), String::new()), r#"[{"app":"shop"}]"#),
            (PushedStream(labels.clone(), vec!["user".into()], String::new()), r#"[{"app":"shop"},["user"]]"#),
            (PushedStream(labels, Vec::new(), "\n".into()), r#"[{"app":"shop"},[],"\n"]"#),
        ] {
            assert_eq!(stream.text(), text);
        }
        assert_eq!(PushedStream::parse("a field of that name"), None);
    }

    proptest! {
        /// Every stream is read back unchanged.
        #[test]
        fn streams_come_back(
            labels in proptest::collection::btree_map(".{0,5}", ".{0,5}", 0..4),
            names in proptest::collection::vec(".{0,5}", 0..4),
            end in "[\r\n]{0,2}",
        ) {
            let stream = PushedStream(labels, names, end);
            prop_assert_eq!(PushedStream::parse(&stream.text()), Some(stream));
        }
    }
}
