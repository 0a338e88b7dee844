//! Common parts of the tests of the endpoints: a request is parsed without a store.

use super::request_writer::{RequestRows, RequestWriter};
use super::{Encoding, Endpoint, PushLimits, PushRequest, PushSender, PushSettings, Refusal};
use crate::route::{Condition, Route, Router};
use daytable_model::arrival::ARRIVED;
use daytable_model::batch::Batch;
use daytable_model::key::{Period, TableName};
use daytable_model::property::Property;
use daytable_model::time::{self, TICKS_PER_SECOND, Ticks};
use daytable_model::window::Window;
use daytable_parse::ParseOptions;
use std::borrow::Cow;
use std::fmt::Write;
use std::num::NonZeroU16;
use std::sync::LazyLock;
use std::time::Duration;

/// Records of a request in these tests.
pub(super) const RECORDS_MAX: usize = 5000;

static SETTING: LazyLock<PushSettings> = LazyLock::new(|| {
    let table = TableName::new("Log").expect("a name");
    let window = Window { keep: Duration::from_secs(86_400 * 36_500), period: Period::Month };
    let route = Route { table, window, buckets: NonZeroU16::MIN, when: Condition::ALWAYS };
    let limits = PushLimits { records_max: RECORDS_MAX, ..PushLimits::default() };
    PushSettings::new(Router::new(vec![route]), ParseOptions::default(), limits)
});

pub(super) fn with_setting<T>(work: impl FnOnce(&PushSettings) -> T) -> T {
    work(&SETTING)
}

pub(super) fn request(endpoint: Endpoint) -> PushRequest {
    PushRequest {
        endpoint,
        media: String::new(),
        encoding: Encoding::Identity,
        instance: None,
        index: None,
        peer: "192.0.2.7".into(),
        sender: PushSender::anonymous("test"),
        key: None,
    }
}

/// The outcome of a request.
#[derive(Debug)]
pub(super) struct Taken {
    batches: Vec<Batch>,
    reasons: Vec<(usize, Cow<'static, str>)>,
    unread: u32,
}

impl From<RequestRows> for Taken {
    fn from(gathered: RequestRows) -> Taken {
        let rows: usize = gathered.batches.iter().map(Batch::len).sum();
        assert!(rows >= gathered.accepted as usize);
        assert_eq!(gathered.counters.records.load(std::sync::atomic::Ordering::Relaxed), u64::from(gathered.accepted));
        Taken { batches: gathered.batches, reasons: gathered.reasons, unread: gathered.unread.count }
    }
}

/// The result of `take` for a request to `endpoint`.
pub(super) fn taken(
    endpoint: Endpoint,
    take: impl FnOnce(&mut RequestWriter<'_>) -> Result<(), Refusal>,
) -> Result<Taken, Refusal> {
    let request = request(endpoint);
    let mut writer = RequestWriter::new(&SETTING, &request, 7.into(), time::now());
    take(&mut writer)?;
    Ok(writer.take_rows().into())
}

/// A row and its table and partition.
struct Row {
    position: u64,
    item: u16,
    time: Ticks,
    key: String,
    instance: String,
    message: String,
    shown: String,
}

impl Taken {
    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for batch in &self.batches {
            for (number, row) in batch.rows().enumerate() {
                let partition = batch.partition_of(number);
                let mut message = String::new();
                let mut fields = String::new();
                for (name, value) in row.properties() {
                    let name = &*batch.names()[usize::from(name)];
                    let _ = match (name, value) {
                        // The bodies of these tests are as old as they are.
                        ("Source" | ARRIVED, _) => Ok(()),
                        ("Message", Property::String(text)) => {
                            message = text.to_owned();
                            Ok(())
                        }
                        (_, Property::String(text)) => write!(fields, " {name}={text:?}"),
                        (_, Property::Int64(number)) => write!(fields, " {name}={number}"),
                        (_, Property::Double(number)) => write!(fields, " {name}={number:?}"),
                        (_, Property::Boolean(truth)) => write!(fields, " {name}={truth}"),
                        (_, Property::Binary(bytes)) => write!(fields, " {name}={bytes:02x?}"),
                        (_, other) => write!(fields, " {name}={other:?}"),
                    };
                }
                let (time, level) = (row.key.time(), row.level.map_or("-", |level| level.name()));
                rows.push(Row {
                    position: row.key.position(),
                    item: row.key.item(),
                    time,
                    key: format!("{partition} {}", row.key),
                    instance: partition.to_string(),
                    shown: format!("{partition} {time} {level} {message:?}{}", fields.replace(", ", " ")),
                    message,
                });
            }
        }
        rows.sort_by_key(|row| (row.position, row.item));
        rows
    }

    /// The messages, in the order of the request.
    pub(super) fn messages(&self) -> Vec<String> {
        let mut messages: Vec<String> = Vec::new();
        for row in self.rows() {
            match messages.last_mut() {
                Some(last) if row.item > 0 => last.push_str(&row.message),
                _ => messages.push(row.message),
            }
        }
        messages
    }

    /// The partitions, sorted.
    pub(super) fn instances(&self) -> Vec<String> {
        let mut instances: Vec<_> = self.rows().into_iter().map(|row| row.instance).collect();
        instances.sort();
        instances
    }

    /// Partition and row key of all, in the order of the request.
    pub(super) fn keys(&self) -> Vec<String> {
        self.rows().into_iter().map(|row| row.key).collect()
    }

    /// All of each row as text, the oldest first.
    pub(super) fn shown(&self) -> Vec<String> {
        let mut rows = self.rows();
        rows.sort_by_key(|row| row.time);
        rows.into_iter().map(|row| row.shown).collect()
    }

    /// The number of parts that are not known.
    pub(super) fn unread(&self) -> u32 {
        self.unread
    }

    /// The records that were refused alone.
    pub(super) fn refused(&self) -> Vec<(usize, &str)> {
        self.reasons.iter().map(|(index, reason)| (*index, &**reason)).collect()
    }
}

#[test]
fn records_of_a_right_clock_have_the_same_bytes_whenever_they_come() {
    const COUNT: usize = 50;
    let time = Ticks::from_unix(1_800_000_000, 0).expect("a time");
    let line = |n: usize| format!("{{\"time\":\"{time}\",\"level\":\"info\",\"message\":\"record {n}\",\"n\":{n}}}\n");
    let body: String = (0..COUNT).map(line).collect();
    // The bytes and the rows of the body, which comes this many seconds after its time.
    let coming = |seconds: i64| {
        let now = Ticks::new(time.get() + seconds * TICKS_PER_SECOND).expect("a time");
        let request = request(Endpoint::Ingest);
        let mut writer = RequestWriter::new(&SETTING, &request, 7.into(), now);
        super::ingest::write(body.as_bytes(), "application/x-ndjson", &mut writer).expect("taken");
        let batches = writer.take_rows().batches;
        let mut rows = Vec::new();
        for batch in &batches {
            for row in batch.rows() {
                let property = |(name, value)| format!("{} {value:?}", batch.names()[usize::from(name)]);
                rows.push((row.key, row.level, row.properties().map(property).collect::<Vec<String>>()));
            }
        }
        (batches.iter().map(Batch::bytes).sum::<usize>(), rows)
    };
    let (bytes, rows) = coming(0);
    assert_eq!(rows.len(), COUNT);
    for near in [-15, 2, 15] {
        assert_eq!(coming(near), (bytes, rows.clone()), "{near}");
    }
    for far in [-7200, -16, 16, 7200] {
        let (more, mut others) = coming(far);
        // The name, the type and eight bytes.
        assert_eq!(more, bytes + COUNT * 11, "{far}");
        for (.., properties) in &mut others {
            assert!(properties.pop().is_some_and(|last| last.starts_with("Arrived DateTime")), "{far}");
        }
        assert_eq!(others, rows, "{far}");
    }
}
