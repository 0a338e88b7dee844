//! What a write does to the entity that has its keys, and the version of an entity that a write may depend on.
//!
//! | mode | request | the entity exists | it does not |
//! |---|---|---|---|
//! | [`WriteMode::Insert`] | `POST` | [`super::ErrorKind::EntityAlreadyExists`] | is inserted |
//! | [`WriteMode::InsertOrReplace`] | `PUT` | is replaced | is inserted |
//! | [`WriteMode::InsertOrMerge`] | `PATCH` | keeps the properties that are not written | is inserted |
//! | [`WriteMode::Replace`] | `PUT` with `If-Match` | is replaced | [`super::ErrorKind::NotFound`] |
//! | [`WriteMode::Merge`] | `PATCH` with `If-Match` | keeps the properties that are not written | [`super::ErrorKind::NotFound`] |
//!
//! `PATCH` is what Microsoft's clients send; the documentation calls it `MERGE`.

use super::EdmValue;
use super::value::write_escaped;

/// Maximum bytes of an ETag. The service's have some 50.
const ETAG_BYTES_MAX: usize = 1024;

/// The version of an entity, which each write changes. Two versions are equal or not; nothing else of them has a meaning.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ETag(String);

impl ETag {
    /// The version with this text, as [`ETag::as_str`] gave it. `None` for a text that no header may have: it is empty,
    /// longer than a kibibyte, or has other characters than those of ASCII that are seen.
    pub fn new(text: &str) -> Option<ETag> {
        let is_header = !text.is_empty() && text.len() <= ETAG_BYTES_MAX && text.bytes().all(|b| b.is_ascii_graphic());
        is_header.then(|| ETag(text.to_owned()))
    }

    /// The text, for callers that store it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Which version of an entity a write or a delete applies to. Another version gives
/// [`super::ErrorKind::PreconditionFailed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMatch<'a> {
    /// Any version.
    Any,
    /// This version alone: nobody wrote the entity since it was read.
    Version(&'a ETag),
}

impl IfMatch<'_> {
    /// The value of the header.
    pub(super) fn header(&self) -> &str {
        match self {
            IfMatch::Any => "*",
            IfMatch::Version(etag) => etag.as_str(),
        }
    }
}

/// What a write does to the entity that has its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode<'a> {
    /// Inserts the entity, which must not exist.
    Insert,
    /// Inserts the entity, or replaces it. Repeating the write changes nothing.
    InsertOrReplace,
    /// Inserts the entity, or sets the given properties of it. Repeating the write changes nothing.
    InsertOrMerge,
    /// Replaces the entity, which must exist.
    Replace(IfMatch<'a>),
    /// Sets the given properties of the entity, which must exist.
    Merge(IfMatch<'a>),
}

impl<'a> WriteMode<'a> {
    /// The HTTP method.
    pub(super) fn method(self) -> &'static str {
        match self {
            WriteMode::Insert => "POST",
            WriteMode::InsertOrReplace | WriteMode::Replace(_) => "PUT",
            WriteMode::InsertOrMerge | WriteMode::Merge(_) => "PATCH",
        }
    }

    /// The condition of the request.
    pub(super) fn if_match(self) -> Option<IfMatch<'a>> {
        match self {
            WriteMode::Insert | WriteMode::InsertOrReplace | WriteMode::InsertOrMerge => None,
            WriteMode::Replace(condition) | WriteMode::Merge(condition) => Some(condition),
        }
    }
}

/// Writes the JSON object of an entity up to the text of its RowKey.
pub(super) fn write_partition_key(partition_key: &str, to: &mut Vec<u8>) {
    to.extend_from_slice(b"{\"PartitionKey\":\"");
    write_escaped(partition_key, to);
    to.extend_from_slice(b"\",\"RowKey\":\"");
}

/// Writes the JSON object of an entity from the text of its RowKey on. Stops behind `bytes_max` bytes: an entity that
/// large is not sent.
pub(super) fn write_row<'a, N: AsRef<str>>(
    row_key: &str,
    properties: impl IntoIterator<Item = (N, EdmValue<'a>)>,
    bytes_max: usize,
    to: &mut Vec<u8>,
) {
    write_escaped(row_key, to);
    to.push(b'"');
    for (name, value) in properties {
        value.write_property(name.as_ref(), to);
        if to.len() > bytes_max {
            break;
        }
    }
    to.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_may_be_a_header() {
        let etag = "W/\"datetime'2026-11-21T00%3A51%3A47.2034398Z'\"";
        assert_eq!(ETag::new(etag).expect("an ETag").as_str(), etag);
        let long = "x".repeat(ETAG_BYTES_MAX + 1);
        for text in ["", "a b", "a\r\nx-ms-date: 0", "é", long.as_str()] {
            assert_eq!(ETag::new(text), None, "{text:?}");
        }
    }
}
