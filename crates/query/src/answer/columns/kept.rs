//! Records that a thread keeps beside its numbers, because columns do not decide about them.

use crate::answer::item::FullRecord;
use crate::entity::OwnedValue;

/// Records that a thread keeps to be added one by one, before the caller reads rows instead.
const RECORDS_MAX: usize = 20_000;
/// Their bytes.
const BYTES_MAX: usize = 8 << 20;

/// Records of a thread, to be added one by one.
#[derive(Default)]
pub(super) struct KeptRecords {
    records: Vec<FullRecord>,
    bytes: usize,
}

impl KeptRecords {
    /// Adds records. False if there are too many of them.
    pub(super) fn add(&mut self, records: impl IntoIterator<Item = FullRecord>) -> bool {
        self.records.extend(records.into_iter().inspect(|record| self.bytes += bytes_of(record)));
        self.records.len() <= RECORDS_MAX && self.bytes <= BYTES_MAX
    }

    /// The number of records.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Takes the records out.
    pub(super) fn take(&mut self) -> std::vec::IntoIter<FullRecord> {
        std::mem::take(self).records.into_iter()
    }
}

/// About the bytes that a record has in memory.
pub(super) fn bytes_of(record: &FullRecord) -> usize {
    let record = record.record();
    let of_value = |value: &OwnedValue| match value {
        OwnedValue::String(text) => text.len(),
        OwnedValue::Binary(bytes) => bytes.len(),
        _ => 0,
    };
    let fields = record.fields.iter().map(|(name, value)| 64 + name.len() + of_value(value));
    256 + record.message.len() + record.source.len() + fields.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::StoredRecord;
    use daytable_model::key::RowKey;
    use daytable_model::record::Record;
    use daytable_model::time::Ticks;

    #[test]
    fn few_records_are_kept_and_few_bytes() {
        let record = |length: usize| {
            let text = "x".repeat(length);
            let rows = crate::entity::tests::rows_of(
                "a",
                RowKey::new(Ticks::UNIX_EPOCH, 1, 1),
                &Record { message: text.as_str().into(), ..Record::default() },
            );
            let row = rows.into_iter().next().unwrap_or_else(|| panic!("a row"));
            FullRecord::new(StoredRecord::new("Log20261101".into(), row))
        };
        let mut kept = KeptRecords::default();
        assert!(kept.add((0..RECORDS_MAX).map(|_| record(1))));
        assert!(!kept.add([record(1)]));
        assert_eq!((kept.take().count(), kept.len()), (RECORDS_MAX + 1, 0));
        let whole = BYTES_MAX / 20_000;
        assert!(!kept.add((0..whole + 1).map(|_| record(20_000))));
    }
}
