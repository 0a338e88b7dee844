//! The records of one request, and any part of them as a request.
//!
//! ```text
//! request := resource_logs*          ResourceLogs := resource, scope_logs          ScopeLogs := scope, log_records*
//! ```

use super::protobuf::put_bytes;
use super::record::EncodedRecord;
use std::collections::HashMap;
use std::ops::Range;

/// Records and bytes of a request. A single record may be larger.
const RECORDS_MAX: usize = 512;
const BYTES_MAX: usize = 1 << 20;

/// Records, in the order of their commits.
#[derive(Default)]
pub(super) struct LogsBatch {
    /// Pairs of a resource and a scope.
    groups: Vec<(Vec<u8>, Vec<u8>)>,
    known: HashMap<(Vec<u8>, Vec<u8>), usize>,
    records: Vec<BatchRecord>,
    bytes: usize,
}

struct BatchRecord {
    group: usize,
    bytes: Vec<u8>,
    uid: String,
}

impl LogsBatch {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether the request is full without this record.
    pub(super) fn is_full_for(&self, record: &EncodedRecord) -> bool {
        !self.records.is_empty() && (self.records.len() >= RECORDS_MAX || self.bytes + record.size() > BYTES_MAX)
    }

    pub(super) fn push(&mut self, record: EncodedRecord) {
        self.bytes += record.size();
        let EncodedRecord { resource, scope, bytes, uid } = record;
        let (next, groups, known) = (self.groups.len(), &mut self.groups, &mut self.known);
        let group = *known.entry((resource, scope)).or_insert_with_key(|(resource, scope)| {
            groups.push((resource.clone(), scope.clone()));
            next
        });
        if group == next {
            let (resource, scope) = &self.groups[group];
            self.bytes += 2 * (resource.len() + scope.len());
        }
        self.records.push(BatchRecord { group, bytes, uid });
    }

    /// What names a record.
    pub(super) fn uid(&self, number: usize) -> &str {
        self.records.get(number).map_or("", |record| &record.uid)
    }

    /// The request with some of the records.
    pub(super) fn request(&self, range: Range<usize>) -> Vec<u8> {
        let records = self.records.get(range).unwrap_or_default();
        let mut of_group: Vec<Vec<u8>> = vec![Vec::new(); self.groups.len()];
        for record in records {
            put_bytes(&mut of_group[record.group], 2, &record.bytes);
        }
        let mut request = Vec::with_capacity(of_group.iter().map(|logs| logs.len() + 256).sum());
        for ((resource, scope), logs) in self.groups.iter().zip(of_group) {
            if logs.is_empty() {
                continue;
            }
            let mut scope_logs = Vec::with_capacity(scope.len() + logs.len() + 16);
            if !scope.is_empty() {
                put_bytes(&mut scope_logs, 1, scope);
            }
            scope_logs.extend_from_slice(&logs);
            let mut resource_logs = Vec::with_capacity(resource.len() + scope_logs.len() + 16);
            put_bytes(&mut resource_logs, 1, resource);
            put_bytes(&mut resource_logs, 2, &scope_logs);
            put_bytes(&mut request, 1, &resource_logs);
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use super::super::protobuf::{Read, next_field};
    use super::*;

    fn record(resource: &str, bytes: &str) -> EncodedRecord {
        let (resource, bytes) = (resource.as_bytes().to_vec(), bytes.as_bytes().to_vec());
        EncodedRecord { resource, scope: Vec::new(), bytes, uid: "uid".into() }
    }

    /// The log records of a request, each with its resource.
    fn read(mut request: &[u8]) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        let mut found = Vec::new();
        while let Some((1, Read::Bytes(mut resource_logs))) = next_field(&mut request) {
            let Some((1, Read::Bytes(resource))) = next_field(&mut resource_logs) else { panic!("no resource") };
            let Some((2, Read::Bytes(mut scope_logs))) = next_field(&mut resource_logs) else { panic!("no scope") };
            while let Some((2, Read::Bytes(record))) = next_field(&mut scope_logs) {
                found.push((text(resource), text(record)));
            }
        }
        found
    }

    #[test]
    fn records_stand_below_their_resources() {
        let mut batch = LogsBatch::default();
        for (resource, bytes) in [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")] {
            batch.push(record(resource, bytes));
        }
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(resource, record)| ((*resource).to_owned(), (*record).to_owned())).collect()
        };
        assert_eq!(read(&batch.request(0..4)), pairs(&[("a", "1"), ("a", "3"), ("b", "2"), ("c", "4")]));
        assert_eq!(read(&batch.request(1..3)), pairs(&[("a", "3"), ("b", "2")]));
        assert_eq!(read(&batch.request(3..4)), pairs(&[("c", "4")]));
        assert!(batch.request(0..0).is_empty());
    }

    #[test]
    fn a_request_has_bounds_and_one_record_at_least() {
        let mut batch = LogsBatch::default();
        let large = || record("a", &"x".repeat(2 * BYTES_MAX));
        assert!(!batch.is_full_for(&large()));
        batch.push(large());
        assert!(batch.is_full_for(&record("a", "1")));
        let mut batch = LogsBatch::default();
        while !batch.is_full_for(&record("a", "1")) {
            batch.push(record("a", "1"));
        }
        assert_eq!(batch.len(), RECORDS_MAX);
    }
}
