//! Bodies of requests for tests, and what holds of any bytes.

use super::receive::{Existing, ReceiveError, ReceivedRows, Receiver};
use super::wire::{BodyLimits, BodyPieces, WireOwner, WirePage, decode};
use crate::format::page::{PageBuilder, assert_alike};
use daytable_model::batch::{Batch, RowWriter};
use daytable_model::key::{DayTable, RowKey};
use daytable_model::property::Property;
use daytable_model::record::Level;
use xxhash_rust::xxh3::xxh3_64;

/// A body with pages of some rows, for tests of other crates. They have a field `log_host`.
pub fn sample_body(rows: u64) -> Vec<u8> {
    body_of(rows, |row, n| {
        row.add("Message", Property::String(&format!("request {n} of 7")));
        row.add("log_host", Property::String("mine"));
        row.add("Layout", Property::String("%%(log_host) %(log_host) %v"));
        row.add("n", Property::Int64(n.cast_signed()));
    })
}

/// The same of rows with fields of each kind of column, without such a field.
pub fn sample_body_of_columns(rows: u64) -> Vec<u8> {
    body_of(rows, columns)
}

/// The values of a row with fields of each kind.
fn columns(row: &mut RowWriter<'_>, n: u64) {
    let random = xxh3_64(&n.to_le_bytes());
    row.add("Message", Property::String(&format!("request {n} of {}", random % 7)));
    row.add("Layout", Property::String(["%(trace) %v", "%v"][random as usize % 2]));
    row.add("trace", Property::String(&format!("{random:016x}")));
    row.add("method", Property::String(["GET", "PUT", ""][random as usize % 3]));
    row.add("text", Property::String(&format!("{:x} é", random % 999)));
    row.add("took", Property::Double((random % 1000) as f64 / 8.0));
    row.add("is_ok", Property::Boolean(random.is_multiple_of(9)));
    if n.is_multiple_of(5) {
        row.add("status", Property::Int32(200 + (random % 3) as i32));
        row.add("id", Property::Guid([n as u8; 16]));
    }
}

/// Pages of some rows.
fn pages_of(rows: u64, add: impl Fn(&mut RowWriter<'_>, u64)) -> Vec<WirePage> {
    let table = DayTable::parse("Log20261121").expect("a day-table");
    let mut batch = Batch::new(table.clone(), "web-1".into());
    for n in 0..rows {
        let time = table.start().plus(std::time::Duration::from_secs(n));
        let mut row = batch.begin(RowKey::new(time, 0x1f3a, n), Some(Level::Info));
        row.add("Source", Property::String("/var/log/app.log"));
        add(&mut row, n);
        row.finish();
    }
    let mut builder = PageBuilder::new();
    builder.push_batch(&batch);
    let owner = WireOwner::One("web-1".into());
    let pages = builder.build().pages.into_iter().map(|page| {
        let wire = WirePage {
            table: table.clone(),
            owner: owner.clone(),
            seq: 7,
            header: page.header,
            body: page.body.into(),
        };
        wire.with_checksum()
    });
    pages.collect()
}

/// A body as a whole.
fn encode(head: &str, pages: Vec<WirePage>) -> Vec<u8> {
    BodyPieces::new(head, pages).flatten().collect()
}

fn body_of(rows: u64, add: impl Fn(&mut RowWriter<'_>, u64)) -> Vec<u8> {
    encode("{}", pages_of(rows, add))
}

/// Asserts that any bytes are a body whose pages become rows, or an error; also with checksums that are right. Where a page is taken
/// without its rows, it has the same ones.
pub fn assert_body(bytes: &[u8]) {
    let limits = BodyLimits { raw_bytes_max: 1 << 20, pages_max: 16 };
    let mut sound = bytes[..bytes.len().saturating_sub(8)].to_vec();
    sound.extend_from_slice(&xxh3_64(&sound).to_le_bytes());
    for bytes in [bytes, &sound] {
        let Ok(body) = decode(bytes, limits) else { continue };
        assert!(body.pages.len() <= limits.pages_max);
        for page in body.pages {
            for page in [page.clone().with_checksum(), page] {
                match (received(&page, usize::MAX), received(&page, 0)) {
                    (Ok(rows), Ok(whole)) => assert_same(&rows, &whole),
                    (rows, whole) => assert_eq!(rows.map(drop).is_ok(), whole.map(drop).is_ok()),
                }
            }
        }
    }
}

/// What a page becomes. If it has so many bytes, without its rows where that is possible.
fn received(page: &WirePage, whole_from: usize) -> Result<ReceivedRows, ReceiveError> {
    let place_of = |table: &DayTable, _: RowKey| Some(table.clone());
    let day_of = |table: &DayTable| Some(table.clone());
    let receiver = Receiver::new("web-1", &place_of, Existing::Unread);
    let mut receiver = receiver.with_days(&day_of).with_whole_from(whole_from);
    receiver.add(page)?;
    Ok(receiver.finish())
}

fn assert_same(rows: &ReceivedRows, whole: &ReceivedRows) {
    assert!(rows.batches.iter().map(Batch::len).sum::<usize>() > 0 && rows.pages.is_empty());
    assert_eq!((rows.records, rows.newest()), (whole.records, whole.newest()));
    let [page] = &*whole.pages else { return assert_eq!(rows.batches.len(), whole.batches.len()) };
    let mut builder = PageBuilder::new();
    rows.batches.iter().for_each(|batch| builder.push_batch(batch));
    let built = builder.build().pages;
    // With the names of its host a page may have more bytes than a builder puts into one.
    if let [built] = &*built {
        assert_alike(&page.page, built);
    }
}

impl WirePage {
    /// The same page with the checksum that its bytes have.
    fn with_checksum(mut self) -> WirePage {
        self.header = self.header.checked(&self.body);
        self.header.checksum = self.address().stored_checksum(&self.header, self.seq);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::wire::BodyError;
    use proptest::prelude::*;

    const LIMITS: BodyLimits = BodyLimits { raw_bytes_max: 1 << 24, pages_max: 64 };

    #[test]
    fn rows_arrive_with_the_name_of_their_sender() {
        let bytes = sample_body(250);
        let body = decode(&bytes, LIMITS).expect("a body");
        let place_of = |table: &DayTable, key: RowKey| (key.position() != 3).then(|| table.clone());
        let mut receiver = Receiver::new("web-9", &place_of, Existing::Unread);
        body.pages.iter().for_each(|page| receiver.add(page).expect("rows"));
        let received = receiver.finish();
        assert_eq!((received.records, received.expired, received.known), (249, 1, 0));
        let mut seen = 0;
        for batch in &received.batches {
            assert!(batch.len() <= daytable_model::batch::ROWS_MAX);
            for row in batch.rows() {
                let value = |name: &str| {
                    let of =
                        |(number, value): (u16, _)| (&*batch.names()[usize::from(number)] == name).then_some(value);
                    row.properties().find_map(of)
                };
                for (name, text) in [
                    ("log_host", "web-9"),
                    ("host", "web-9"),
                    ("log_host_u0023_2", "mine"),
                    // A percent sign is not a field.
                    ("Layout", "%%(log_host) %(log_host_u0023_2) %v"),
                ] {
                    assert_eq!(value(name), Some(Property::String(text)), "{name}");
                }
                seen += 1;
            }
        }
        assert_eq!(seen, 249);
    }

    #[test]
    fn a_larger_body_than_permitted_is_refused_before_its_pages_are_decoded() {
        let bytes = sample_body(250);
        let large = |limits| matches!(decode(&bytes, limits), Err(BodyError::Large(_)));
        assert!(large(BodyLimits { raw_bytes_max: 100, ..LIMITS }) && large(BodyLimits { pages_max: 0, ..LIMITS }));
        assert!(matches!(decode(b"dtfw\x03another version", LIMITS), Err(BodyError::Version(3))));
    }

    proptest! {
        /// The pieces of a body are the pages that it is made of, and the bytes of a page are not copied. Their number is known before.
        #[test]
        fn a_body_in_pieces_has_the_pages(rows in 0u64..6000, small in 0u64..40) {
            let mut pages = if rows > 0 { pages_of(rows, columns) } else { Vec::new() };
            pages.extend((0..small).flat_map(|_| pages_of(1, columns)));
            let mut pieces = BodyPieces::new("{\"a\":1}", pages.clone());
            let (mut body, mut places, whole) = (Vec::new(), Vec::new(), pieces.bytes());
            while let Some(piece) = pieces.next() {
                prop_assert!(!piece.is_empty());
                body.extend_from_slice(&piece);
                places.push(piece.as_ptr());
                prop_assert_eq!(whole - pieces.bytes(), body.len() as u64);
            }
            prop_assert_eq!(pieces.bytes(), 0);
            let decoded = decode(&body, BodyLimits { pages_max: 4096, ..LIMITS }).expect("a body");
            prop_assert_eq!(decoded.head, "{\"a\":1}");
            let bytes_of = |pages: &[WirePage]| -> Vec<_> {
                pages.iter().map(|page| (page.stored_checksum(), page.body.clone())).collect()
            };
            prop_assert_eq!(bytes_of(&decoded.pages), bytes_of(&pages));
            for page in pages.iter().filter(|page| page.body.len() >= 8 << 10) {
                prop_assert!(places.contains(&page.body.as_ptr()));
            }
        }

        /// A byte that changed on the way is an error.
        #[test]
        fn a_changed_byte_is_an_error(at in 0usize..10_000, bit in 0u8..8, rows in 1u64..60) {
            let mut bytes = sample_body(rows);
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            prop_assert!(decode(&bytes, LIMITS).is_err());
        }

        /// Any bytes are a body or an error, with right checksums too.
        #[test]
        fn any_bytes_are_a_body_or_an_error(at in 0usize..10_000, with: Vec<u8>, rows in 1u64..20) {
            assert_body(&with);
            for mut bytes in [sample_body(rows), sample_body_of_columns(rows)] {
                assert_body(&bytes);
                let at = at % bytes.len();
                let end = (at + with.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&with[..end - at]);
                assert_body(&bytes);
            }
        }
    }
}
