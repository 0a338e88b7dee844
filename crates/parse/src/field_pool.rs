//! The list of fields of the last record, emptied: most records need one of the same size.

use daytable_model::record::{Field, Record};
use std::cell::Cell;

/// Fields of the lists that new records begin with.
const FIELDS_USUAL: usize = 16;
/// Fields of the longest list that is kept.
const FIELDS_KEPT_MAX: usize = 256;

thread_local! {
    static SPARE: Cell<Vec<Field<'static>>> = const { Cell::new(Vec::new()) };
}

/// An empty list with room for the fields of most records.
#[inline]
pub(crate) fn fields<'a>() -> Vec<Field<'a>> {
    let mut fields: Vec<Field<'a>> = SPARE.take();
    fields.reserve_exact(FIELDS_USUAL);
    fields
}

/// Keeps the memory of a record that is not needed any more for the next record of this thread.
#[inline]
pub fn reuse(record: Record<'_>) {
    if record.fields.capacity() <= FIELDS_KEPT_MAX {
        SPARE.set(emptied(record.fields));
    }
}

/// The same list without its fields. The standard library collects in place, so the memory stays the same.
#[inline]
fn emptied<'b>(mut fields: Vec<Field<'_>>) -> Vec<Field<'b>> {
    fields.clear();
    fields
        .into_iter()
        .map(|Field { .. }| Field { name: "".into(), value: daytable_model::record::Value::Boolean(false) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::record::Value;

    #[test]
    fn the_next_record_has_the_memory_of_the_last() {
        let field = || Field { name: "a".to_owned().into(), value: Value::Boolean(true) };
        let record = Record { fields: vec![field(); 40], ..Record::default() };
        let memory = record.fields.as_ptr() as usize;
        reuse(record);
        let next = fields();
        assert_eq!((next.as_ptr() as usize, next.len(), next.capacity()), (memory, 0, 40));
        reuse(Record { fields: vec![field(); FIELDS_KEPT_MAX + 1], ..Record::default() });
        assert!(fields().capacity() <= FIELDS_KEPT_MAX);
    }
}
