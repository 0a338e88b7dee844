//! Questions about all fields, and what columns tell of each field.

use super::item::FullRecord;
use crate::entity::OwnedValue;

/// What is asked about all fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldQuestion {
    /// Their names.
    Names,
    /// Their values, of fields with at most this many values of at most this many bytes.
    Values {
        /// Different values.
        values_max: u64,
        /// Bytes of a value.
        length_max: u64,
    },
}

/// What was found of a field.
pub(super) enum FoundField {
    /// This many records have it.
    Present(u64),
    /// This many records have this value.
    Value(OwnedValue, u64),
    /// Its values are too many or too long.
    Dropped,
}

/// What was gathered of fields.
pub(super) enum AggregatedField<'f> {
    /// This many records, whose fields follow.
    Records(u64),
    /// A field of some of these.
    Field(&'f str, FoundField),
    /// A record, whose fields are to be added.
    Record(Box<FullRecord>),
}
