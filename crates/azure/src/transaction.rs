//! An entity group transaction, serialized while entities are pushed.
//!
//! ```text
//! --batch_transaction                                            once
//! Content-Type: multipart/mixed; boundary=changeset_entities
//!
//! --changeset_entities                                           one part per entity, some 330 bytes of framing
//! Content-Type: application/http
//! Content-Transfer-Encoding: binary
//!
//! PUT https://acme.table.core.windows.net/Log20261121(PartitionKey='web-17',RowKey='25160708…') HTTP/1.1
//! Content-Type: application/json
//! Accept: application/json;odata=minimalmetadata
//! DataServiceVersion: 3.0;
//!
//! {"PartitionKey":"web-17","RowKey":"25160708…","Message":"…"}
//! --changeset_entities--                                         once
//! --batch_transaction--
//! ```
//!
//! Lines end in CRLF. Boundaries are constant: JSON text contains no line breaks and addresses are percent-encoded, so
//! no content can look like a boundary. Equal entities give equal bytes. Bytes are counted as they are sent, so a
//! limit is known before the service refuses a request. The bytes contain no secret and may be stored.

use super::names::{write_encoded, write_key};
use super::write::{write_partition_key, write_row};
use super::{EdmValue, IfMatch, StorageAccount, WriteMode};
use bytes::Bytes;

/// Maximum entities of a transaction.
pub const ENTITIES_MAX: usize = 100;

const HEAD: &[u8] = b"--batch_transaction\r\nContent-Type: multipart/mixed; boundary=changeset_entities\r\n\r\n";
const PART: &[u8] =
    b"--changeset_entities\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";
const HEADERS: &[u8] = b"Accept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0;\r\n";
const TAIL: &[u8] = b"--changeset_entities--\r\n--batch_transaction--\r\n";
/// Initial capacity of a transaction: a hundred entities of usual size.
const CAPACITY_BYTES: usize = 80 << 10;

/// The `Content-Type` of a transaction.
pub(super) const CONTENT_TYPE: &str = "multipart/mixed; boundary=batch_transaction";

/// Entities of one table and one partition with distinct RowKeys, written all or not at all.
#[derive(Clone, Debug)]
pub struct Transaction {
    table: String,
    bytes: Vec<u8>,
    bytes_max: usize,
    entities: usize,
    /// The address of the table.
    address: Vec<u8>,
    /// The address of an entity, up to its RowKey.
    entity_address: Vec<u8>,
    /// The JSON object of an entity, up to its RowKey.
    object: Vec<u8>,
}

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed {
    /// The entity was added.
    Added,
    /// The entity was not added and belongs in the next transaction: this transaction has 100 entities, or would have
    /// too many bytes.
    Full,
    /// The entity was not added: its size alone exceeds the limit of a transaction.
    TooLarge,
}

impl Transaction {
    /// Creates an empty transaction.
    pub fn new(account: &StorageAccount, table: &str, partition_key: &str) -> Transaction {
        Transaction::with_bytes_max(account, table, partition_key, account.flavour().transaction_bytes_max())
    }

    /// Creates an empty transaction with at most `bytes_max` bytes. The limit of the service applies too.
    pub fn with_bytes_max(account: &StorageAccount, table: &str, partition_key: &str, bytes_max: usize) -> Transaction {
        let mut address = format!("{}/", account.endpoint).into_bytes();
        write_encoded(table, &mut address);
        let mut entity_address = address.clone();
        entity_address.extend_from_slice(b"(PartitionKey='");
        write_key(partition_key, &mut entity_address);
        entity_address.extend_from_slice(b"',RowKey='");
        let mut object = Vec::new();
        write_partition_key(partition_key, &mut object);
        let bytes_max = bytes_max.min(account.flavour().transaction_bytes_max());
        let mut bytes = Vec::with_capacity(CAPACITY_BYTES.min(bytes_max));
        bytes.extend_from_slice(HEAD);
        Transaction { table: table.to_owned(), bytes, bytes_max, entities: 0, address, entity_address, object }
    }

    /// Adds an upsert: [`WriteMode::InsertOrReplace`].
    pub fn push<'a, N: AsRef<str>>(
        &mut self,
        row_key: &str,
        properties: impl IntoIterator<Item = (N, EdmValue<'a>)>,
    ) -> Pushed {
        self.push_write(WriteMode::InsertOrReplace, row_key, properties)
    }

    /// Adds a write. Property names must be distinct C# identifiers; a null property is left out. If the mode does not
    /// allow the write, the transaction fails with the [`super::ErrorKind`] that the mode names.
    pub fn push_write<'a, N: AsRef<str>>(
        &mut self,
        mode: WriteMode<'_>,
        row_key: &str,
        properties: impl IntoIterator<Item = (N, EdmValue<'a>)>,
    ) -> Pushed {
        if self.entities >= ENTITIES_MAX {
            return Pushed::Full;
        }
        let from = self.bytes.len();
        let is_insert = mode == WriteMode::Insert;
        self.begin(mode.method(), (!is_insert).then_some(row_key), mode.if_match());
        self.bytes.extend_from_slice(b"Content-Type: application/json\r\n");
        self.bytes.extend_from_slice(HEADERS);
        if is_insert {
            self.bytes.extend_from_slice(b"Prefer: return-no-content\r\n");
        }
        self.bytes.extend_from_slice(b"\r\n");
        self.bytes.extend_from_slice(&self.object);
        write_row(row_key, properties, self.bytes_max, &mut self.bytes);
        self.bytes.extend_from_slice(b"\r\n");
        self.keep(from)
    }

    /// Adds a delete. If the entity is missing, the transaction fails with [`super::ErrorKind::NotFound`].
    pub fn push_delete(&mut self, row_key: &str, condition: IfMatch<'_>) -> Pushed {
        let from = self.bytes.len();
        self.begin("DELETE", Some(row_key), Some(condition));
        self.bytes.extend_from_slice(HEADERS);
        self.bytes.extend_from_slice(b"\r\n\r\n");
        self.keep(from)
    }

    /// Writes the framing of a part, and the first lines of its request.
    fn begin(&mut self, method: &str, row_key: Option<&str>, condition: Option<IfMatch<'_>>) {
        let to = &mut self.bytes;
        to.extend_from_slice(PART);
        to.extend_from_slice(method.as_bytes());
        to.push(b' ');
        match row_key {
            None => to.extend_from_slice(&self.address),
            Some(row_key) => {
                to.extend_from_slice(&self.entity_address);
                write_key(row_key, to);
                to.extend_from_slice(b"')");
            }
        }
        to.extend_from_slice(b" HTTP/1.1\r\n");
        if let Some(condition) = condition {
            to.extend_from_slice(b"If-Match: ");
            to.extend_from_slice(condition.header().as_bytes());
            to.extend_from_slice(b"\r\n");
        }
    }

    fn keep(&mut self, from: usize) -> Pushed {
        let fits = self.bytes.len() + TAIL.len() <= self.bytes_max;
        if fits && self.entities < ENTITIES_MAX {
            self.entities += 1;
            return Pushed::Added;
        }
        let alone = HEAD.len() + self.bytes.len() - from + TAIL.len();
        self.bytes.truncate(from);
        if self.entities == 0 || alone > self.bytes_max { Pushed::TooLarge } else { Pushed::Full }
    }

    /// Number of entities.
    pub fn len(&self) -> usize {
        self.entities
    }

    /// Whether the transaction has no entities.
    pub fn is_empty(&self) -> bool {
        self.entities == 0
    }

    /// Bytes of the request body.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + TAIL.len()
    }

    /// Finishes the transaction. The result may be sent repeatedly.
    pub fn seal(mut self) -> SealedTransaction {
        self.bytes.extend_from_slice(TAIL);
        SealedTransaction { table: self.table, bytes: self.bytes.into(), entities: self.entities }
    }
}

/// A finished transaction, which is sent as the same bytes each time. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedTransaction {
    table: String,
    bytes: Bytes,
    entities: usize,
}

impl SealedTransaction {
    /// The table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Number of entities.
    pub fn len(&self) -> usize {
        self.entities
    }

    /// Whether the transaction has no entities. An empty transaction is not sent.
    pub fn is_empty(&self) -> bool {
        self.entities == 0
    }

    /// The body of the request.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn account() -> StorageAccount {
        "AccountName=acme;AccountKey=c2VjcmV0".parse().expect("an account")
    }

    const NONE: [(&str, EdmValue<'static>); 0] = [];

    #[test]
    fn what_is_sent() {
        let mut transaction = Transaction::new(&account(), "Log20261121", "it's");
        assert_eq!(
            transaction.push("1", [("Message", EdmValue::from("a\"b")), ("Severity", EdmValue::Int32(9))]),
            Pushed::Added
        );
        assert_eq!(transaction.push_write(WriteMode::Insert, "2", NONE), Pushed::Added);
        assert_eq!(transaction.push_delete("3", IfMatch::Any), Pushed::Added);
        let counted = transaction.bytes();
        let sealed = transaction.seal();
        assert_eq!((sealed.len(), sealed.bytes().len(), sealed.table()), (3, counted, "Log20261121"));
        let expected = "--batch_transaction\r\n\
            Content-Type: multipart/mixed; boundary=changeset_entities\r\n\
            \r\n\
            --changeset_entities\r\n\
            Content-Type: application/http\r\n\
            Content-Transfer-Encoding: binary\r\n\
            \r\n\
            PUT https://acme.table.core.windows.net/Log20261121(PartitionKey='it%27%27s',RowKey='1') HTTP/1.1\r\n\
            Content-Type: application/json\r\n\
            Accept: application/json;odata=minimalmetadata\r\n\
            DataServiceVersion: 3.0;\r\n\
            \r\n\
            {\"PartitionKey\":\"it's\",\"RowKey\":\"1\",\"Message\":\"a\\\"b\",\"Severity\":9}\r\n\
            --changeset_entities\r\n\
            Content-Type: application/http\r\n\
            Content-Transfer-Encoding: binary\r\n\
            \r\n\
            POST https://acme.table.core.windows.net/Log20261121 HTTP/1.1\r\n\
            Content-Type: application/json\r\n\
            Accept: application/json;odata=minimalmetadata\r\n\
            DataServiceVersion: 3.0;\r\n\
            Prefer: return-no-content\r\n\
            \r\n\
            {\"PartitionKey\":\"it's\",\"RowKey\":\"2\"}\r\n\
            --changeset_entities\r\n\
            Content-Type: application/http\r\n\
            Content-Transfer-Encoding: binary\r\n\
            \r\n\
            DELETE https://acme.table.core.windows.net/Log20261121(PartitionKey='it%27%27s',RowKey='3') HTTP/1.1\r\n\
            If-Match: *\r\n\
            Accept: application/json;odata=minimalmetadata\r\n\
            DataServiceVersion: 3.0;\r\n\
            \r\n\
            \r\n\
            --changeset_entities--\r\n\
            --batch_transaction--\r\n";
        assert_eq!(std::str::from_utf8(sealed.bytes()).expect("text"), expected);
    }

    #[test]
    fn conditions_and_merges_as_they_are_sent() {
        let etag = super::super::ETag::new("W/\"datetime'2026'\"").expect("an ETag");
        let mut transaction = Transaction::new(&account(), "Log", "p");
        for (mode, request) in [
            (
                WriteMode::InsertOrMerge,
                "PATCH https://acme.table.core.windows.net/Log(PartitionKey='p',RowKey='r') HTTP/1.1\r\nContent-Type",
            ),
            (
                WriteMode::Merge(IfMatch::Any),
                "PATCH https://acme.table.core.windows.net/Log(PartitionKey='p',RowKey='r') HTTP/1.1\r\nIf-Match: *\r\n",
            ),
            (
                WriteMode::Replace(IfMatch::Version(&etag)),
                "PUT https://acme.table.core.windows.net/Log(PartitionKey='p',RowKey='r') HTTP/1.1\r\nIf-Match: W/\"datetime'2026'\"\r\n",
            ),
        ] {
            let from = transaction.bytes.len() + PART.len();
            assert_eq!(transaction.push_write(mode, "r", NONE), Pushed::Added);
            let sent = std::str::from_utf8(&transaction.bytes[from..]).expect("text");
            assert!(sent.starts_with(request), "{sent}");
        }
        let from = transaction.bytes.len() + PART.len();
        assert_eq!(transaction.push_delete("r", IfMatch::Version(&etag)), Pushed::Added);
        assert!(transaction.bytes[from..].windows(27).any(|sent| sent == b"If-Match: W/\"datetime'2026'"));
    }

    #[test]
    fn full_by_entities() {
        let mut transaction = Transaction::new(&account(), "Log", "p");
        for number in 0..ENTITIES_MAX {
            assert_eq!(transaction.push(&number.to_string(), NONE), Pushed::Added);
        }
        let before = transaction.bytes();
        assert_eq!(transaction.push("more", NONE), Pushed::Full);
        assert_eq!((transaction.len(), transaction.bytes()), (ENTITIES_MAX, before));
    }

    #[test]
    fn an_entity_that_no_transaction_takes() {
        let mut transaction = Transaction::with_bytes_max(&account(), "Log", "p", 2000);
        let long = "x".repeat(2000);
        assert_eq!(transaction.push("1", [("M", EdmValue::from(long.as_str()))]), Pushed::TooLarge);
        assert_eq!(transaction.push("2", NONE), Pushed::Added);
        assert_eq!(transaction.push("1", [("M", EdmValue::from(long.as_str()))]), Pushed::TooLarge);
        assert_eq!(transaction.push("3", [("M", EdmValue::from(&long[..1300]))]), Pushed::Full);
        assert_eq!(transaction.len(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// A transaction never exceeds its limit, counts its bytes exactly, and is full only if another such entity
        /// would exceed the limit.
        #[test]
        fn never_over_its_limit(bytes_max in 600usize..20_000, texts in prop::collection::vec("\\PC{0,200}", 1..60)) {
            let mut transaction = Transaction::with_bytes_max(&account(), "Log", "p", bytes_max);
            for (number, text) in texts.iter().enumerate() {
                let before = transaction.bytes();
                let pushed = transaction.push(&number.to_string(), [("M", EdmValue::from(text.as_str()))]);
                prop_assert!(transaction.bytes() <= bytes_max);
                if pushed != Pushed::Added {
                    prop_assert_eq!(transaction.bytes(), before);
                    let mut alone = Transaction::new(&account(), "Log", "p");
                    prop_assert_eq!(alone.push(&number.to_string(), [("M", EdmValue::from(text.as_str()))]), Pushed::Added);
                    let one = alone.bytes() - HEAD.len() - TAIL.len();
                    prop_assert!(transaction.len() == ENTITIES_MAX || before + one > bytes_max);
                    prop_assert_eq!(pushed == Pushed::TooLarge, alone.bytes() > bytes_max);
                }
            }
            let (entities, counted) = (transaction.len(), transaction.bytes());
            let sealed = transaction.seal();
            prop_assert_eq!(sealed.bytes().len(), counted);
            let text = std::str::from_utf8(sealed.bytes()).expect("text");
            prop_assert_eq!(text.lines().filter(|line| *line == "--changeset_entities").count(), entities);
        }
    }
}
