//! Push: bodies of requests become records, whatever protocol they are in.
//!
//! | endpoint | what |
//! |---|---|
//! | `ingest` | lines, NDJSON, JSON |
//! | `otlp` | logs of OpenTelemetry, protocol buffers and JSON |
//! | `loki` | what is sent to Loki, protocol buffers and JSON |
//! | `bulk`, [`elastic`] | what is sent to Elasticsearch, and what is asked before |
//! | [`journal`] | what systemd-journal-upload sends |
//!
//! **A request is one commit**, all of it or nothing, and is answered after that; but the journal's long ones, which are
//! committed piece by piece and whose repeat changes nothing. A record that cannot be read is refused alone, with its index,
//! where the protocol can say so. With an idempotency key the rows have their keys of that and of their index, and the
//! store says whether the key was there before; without one they have 64 random bits and their index.
//!
//! **What is bounded**: bytes of a body as it comes and decoded, bodies in memory over all connections ([`MemoryPool`]), records
//! of a request, bytes of a record, how deep values lie in one another, how many requests are taken apart at a time, how
//! long one waits for that. Nothing here waits for room while it holds some: it is refused, and its sender comes again.
//!
//! **When a commit fails** its requests are answered 503, and nothing of them is on disk: whoever sends one again sends what
//! is not there.
//!
//! No format is decoded as a whole before it is looked at: protocol buffers are walked field by field (`wire`), JSON is cut
//! into records first. A body of many empty records costs what its bytes do.

mod answer;
mod bulk;
mod document_ids;
pub mod elastic;
mod encoding;
mod ingest;
pub mod journal;
mod loki;
mod memory_pool;
mod otlp;
mod raw_json;
mod refusal;
mod request;
mod sender;
mod source;
mod taking;
#[cfg(test)]
mod tests;
mod protobuf;

pub use answer::{Answer, refused};
pub use document_ids::DocumentLookup;
pub use encoding::{Encoding, decode, reader};
pub use memory_pool::{MemoryPool, MemoryReservation};
pub use refusal::Refusal;
pub use request::Setting;
pub use request::{Endpoint, Limits, Request};
pub use sender::{Meter, Sender};
pub use source::PushOptions;
pub use taking::RECORD_BYTES_MAX;

use crate::counters::{SourceCounters, SourceEvent, count};
use crate::record_writer::random_identity;
use crate::route::Router;
use answer::Reply;
use bulk::BulkAnswers;
use daytable_model::batch::Batch;
use daytable_model::time::{self, Ticks};
use daytable_parse::Reading;
use daytable_platform::reloadable::Reloadable;
use daytable_store as store;
use daytable_store::{Ack, CommitOutcome, CommitQueue, IdempotencyKey, Submission};
use document_ids::{DocumentIds, IdReservation, remove_existing};
use request::{essence, identity_of, once};
use std::io::{BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use taking::{Gathered, Taking};
use tokio::sync::Semaphore;

/// Records that were refused while the rest of their request was taken.
const RECORDS_REFUSED: SourceEvent = SourceEvent::RecordsDropped("refused");

/// The events that every endpoint counts.
fn events() -> impl Iterator<Item = SourceEvent> {
    let plain = [RECORDS_REFUSED, SourceEvent::BodyBytes, SourceEvent::PushRepeated];
    plain.into_iter().chain(Refusal::REASONS.map(SourceEvent::BodyRefused))
}

/// Takes what is pushed. One for all listeners.
pub struct Push {
    setting: Reloadable<Setting>,
    memory: Reloadable<MemoryPool>,
    intake: CommitQueue,
    stored: Arc<dyn DocumentLookup>,
    ids: DocumentIds,
    host: String,
    turns: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
    counters: [Arc<SourceCounters>; 5],
}

/// A request that was taken apart, and is not committed yet.
pub struct Taken {
    batches: Vec<Batch>,
    newest: Option<Ticks>,
    once: Option<IdempotencyKey>,
    pending: Pending,
    reserved: IdReservation,
}

/// What is left to do for a request once its commit is known.
pub struct Pending {
    endpoint: Endpoint,
    counters: SourceCounters,
    bytes: u64,
    taken: u32,
    refused: u32,
    reply: Reply,
    since: Instant,
}

impl Pending {
    /// Records that are taken.
    pub fn taken(&self) -> u64 {
        self.taken.into()
    }

    /// Bytes of the body, decoded.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The answer, once the commit is known.
    ///
    /// # Errors
    ///
    /// Where it was none.
    pub fn answer(&self, outcome: CommitOutcome) -> Result<Answer, Refusal> {
        let (taken, refused) = match outcome {
            CommitOutcome::NotCommitted => return Err(Refusal::Busy("the store takes nothing at the moment")),
            CommitOutcome::OtherBody => return Err(Refusal::OtherBody),
            CommitOutcome::Repeated(first) => (first.records, first.refused),
            CommitOutcome::Committed => (self.taken, self.refused),
        };
        Ok(self.reply.render(taken, refused, self.since.elapsed()))
    }
}

impl Push {
    /// Takes what is pushed to `intake`, by these tables. `host` is who sends over the unix socket, `stored` says what stands.
    pub fn new(
        router: Router,
        reading: Reading,
        limits: Limits,
        host: String,
        intake: CommitQueue,
        stored: Arc<dyn DocumentLookup>,
    ) -> Push {
        // One that waits for the store while another is taken apart; more would only share the cores.
        let turns = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
        Push {
            memory: Reloadable::new(MemoryPool::within(limits.bodies_bytes_max)),
            turns: Arc::new(Semaphore::new(turns)),
            uploads: Arc::new(Semaphore::new(limits.uploads_max)),
            setting: Reloadable::new(Setting::new(router, reading, limits)),
            intake,
            stored,
            ids: DocumentIds::default(),
            host,
            counters: Endpoint::ALL
                .map(|endpoint| Arc::new(SourceCounters::with_events("push", endpoint.source(), events()))),
        }
    }

    /// Takes what is pushed from now on by other rules. Requests that have begun go on as they did.
    pub fn change(&self, reading: Reading, limits: Limits) {
        let before = self.setting.load();
        if before.limits.bodies_bytes_max != limits.bodies_bytes_max {
            self.memory.store(MemoryPool::within(limits.bodies_bytes_max));
        }
        self.setting.store(Setting::new(before.router.clone(), reading, limits));
    }

    /// What bounds a request.
    pub fn limits(&self) -> Limits {
        self.setting.load().limits
    }

    /// This host's name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The memory of all requests.
    pub fn memory(&self) -> Arc<MemoryPool> {
        self.memory.load()
    }

    /// Turns to take a body apart, which few have at a time.
    pub fn turns(&self) -> &Arc<Semaphore> {
        &self.turns
    }

    /// Places for uploads of journals.
    pub fn uploads(&self) -> &Arc<Semaphore> {
        &self.uploads
    }

    /// What each endpoint counts.
    pub fn counters(&self) -> &[Arc<SourceCounters>] {
        &self.counters
    }

    /// What an endpoint counts.
    pub fn counters_of(&self, endpoint: Endpoint) -> &SourceCounters {
        &self.counters[endpoint as usize]
    }

    /// Takes a whole body apart. It takes the CPU, so it is not for a thread that others wait for.
    ///
    /// # Errors
    ///
    /// Why nothing of it is taken.
    pub fn take(
        &self,
        request: &Request,
        body: Vec<u8>,
        memory: &mut MemoryReservation,
        since: Instant,
    ) -> Result<Taken, Refusal> {
        let setting = &*self.setting.load();
        memory.set_patience(setting.limits.turn_wait);
        let body = decode(body, request.encoding, setting.limits.decoded_bytes_max, memory)?;
        let once = request.key.as_deref().map(|key| once(request, key, &body));
        let identity = once.as_ref().map_or_else(random_identity, identity_of);
        let mut taking = Taking::new(setting, request, identity, time::now()).within(memory, body.len())?;
        let made = take_body(request, &body, setting, &mut taking)?;
        let mut rows_memory = taking.memory();
        let Gathered { mut batches, newest, counters, mut taken, mut refused, reasons, .. } = taking.gather();
        let (reply, reserved) = match made {
            Made::Reply(reply) => (reply(reasons), IdReservation::default()),
            Made::Bulk(mut items) => {
                rows_memory += items.memory();
                let (reserved, standing) = self.leave_standing(&mut items, &mut batches, once.as_ref(), setting)?;
                counters.records.fetch_sub(standing.into(), std::sync::atomic::Ordering::Relaxed);
                (taken, refused) = (taken.saturating_sub(standing), refused + standing);
                (Reply::Bulk(items), reserved)
            }
        };
        let once = once
            .map(|once| IdempotencyKey { answer: daytable_store::StoredAnswer { records: taken, refused }, ..once });
        let bytes = body.len() as u64;
        // Of the body nothing is needed any more; its rows stay until they are on disk.
        drop(body);
        memory.shrink_to(rows_memory);
        let pending = Pending { endpoint: request.endpoint, counters, bytes, taken, refused, reply, since };
        Ok(Taken { batches, newest, once, pending, reserved })
    }

    /// Reserves the ids of a bulk, and takes out those documents that are to be created and stand already: how many there are.
    /// Of a repeat none is, for it is its own documents that stand.
    fn leave_standing(
        &self,
        items: &mut BulkAnswers,
        batches: &mut Vec<Batch>,
        once: Option<&IdempotencyKey>,
        setting: &Setting,
    ) -> Result<(IdReservation, u32), Refusal> {
        let reserved = self.ids.reserve(std::mem::take(&mut items.ids), setting.limits.turn_wait)?;
        let unread = |error: store::StoreError| {
            tracing::error!(%error, "failed to look for documents that are to be created");
            Refusal::Busy("the store cannot be asked which documents are there")
        };
        let is_repeat = match once.filter(|_| !items.creates.is_empty()) {
            Some(once) => self.stored.is_committed(once).map_err(unread)?,
            None => false,
        };
        if items.creates.is_empty() || is_repeat {
            return Ok((reserved, 0));
        }
        let existing = remove_existing(batches, &items.creates, &*self.stored).map_err(unread)?;
        existing.iter().for_each(|id| items.conflict(id));
        Ok((reserved, u32::try_from(existing.len()).unwrap_or(u32::MAX)))
    }

    /// Hands rows over, and has `told` called once it is known what became of them: at once where there are none. Waits
    /// while the store does not keep up.
    pub fn submit(&self, taken: Taken, told: impl FnOnce(Pending, CommitOutcome) + Send + 'static) {
        let Taken { batches, newest, once, pending, reserved } = taken;
        if batches.is_empty() {
            return told(pending, CommitOutcome::Committed);
        }
        let taken = self.taken(pending.endpoint, &batches);
        let done = Ack::with_outcome(move |outcome| {
            // Readers see the commit: who looks for these documents finds them.
            drop(reserved);
            told(pending, outcome);
        });
        // Whatever is in the way, the submission is dropped, which tells that it is not committed.
        let _ = self.intake.submit(Submission {
            batches,
            newest,
            epoch: self.intake.epoch(),
            idempotency: once,
            receipts: taken,
            ack: done,
            ..Submission::default()
        });
    }

    /// How many records of an endpoint there are, for the ledger.
    fn taken(&self, endpoint: Endpoint, batches: &[Batch]) -> Vec<store::SourceReceipt> {
        let records = batches.iter().map(Batch::records).sum();
        vec![store::SourceReceipt::records("push", &*self.counters_of(endpoint).name, records)]
    }

    /// Counts a request whose commit is known, whether anybody still waits for its answer or not.
    pub fn note(&self, pending: &Pending, outcome: CommitOutcome) {
        let counters = self.counters_of(pending.endpoint);
        match outcome {
            CommitOutcome::Committed => {
                counters.add_records(&pending.counters);
                count(&counters.bytes, pending.bytes);
                counters.count(RECORDS_REFUSED, pending.refused.into());
            }
            CommitOutcome::Repeated(_) => counters.count(SourceEvent::PushRepeated, 1),
            CommitOutcome::OtherBody | CommitOutcome::NotCommitted => {}
        }
    }

    /// Takes a journal's entries as they come, and returns once all of them are committed.
    ///
    /// # Errors
    ///
    /// Why it ended early; what came before may be committed all the same.
    pub fn take_journal(&self, request: &Request, body: impl BufRead) -> Result<Answer, Refusal> {
        let counters = self.counters_of(Endpoint::Journal);
        let mut memory = self.memory().reservation();
        memory.grow(request.encoding.window_bytes().min(memory.available_max() / 4))?;
        let undecodable = |error| Refusal::bad(format!("the body cannot be decoded: {error}"));
        let reader = reader(body, request.encoding).map_err(undecodable)?;
        let body = Counted { reader, counter: &counters.bytes, sender: &request.sender };
        // One piece is on its way while the next is read.
        let (told, hears) = mpsc::channel::<(Gathered, bool)>();
        let mut under_way = 0;
        let settle = |under_way: &mut usize, until: usize| {
            while *under_way > until {
                *under_way -= 1;
                match hears.recv() {
                    Ok((gathered, true)) => counters.add_records(&gathered.counters),
                    _ => return Err(Refusal::Busy("the store takes nothing at the moment")),
                }
            }
            Ok(())
        };
        let taken = journal::take(&self.setting.load(), request, std::io::BufReader::new(body), |mut gathered| {
            settle(&mut under_way, 1)?;
            request.sender.charge(gathered.taken.into(), 0);
            let (batches, newest) = (std::mem::take(&mut gathered.batches), gathered.newest);
            let told = told.clone();
            let done = Ack::awaited(move |is_committed| drop(told.send((gathered, is_committed))));
            let epoch = self.intake.epoch();
            under_way += 1;
            // Whatever is in the way, the submission is dropped, which tells that it is not committed.
            let taken = self.taken(Endpoint::Journal, &batches);
            let _ = self.intake.submit(Submission {
                batches,
                newest,
                epoch,
                ack: done,
                receipts: taken,
                ..Submission::default()
            });
            Ok(())
        });
        settle(&mut under_way, 0)?;
        taken.map(|_| Reply::Journal.render(0, 0, Duration::ZERO))
    }
}

/// A reader whose bytes are counted, and charged to who sends them: those that come out, however few came in.
struct Counted<'c, R> {
    reader: R,
    counter: &'c AtomicU64,
    sender: &'c Sender,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.reader.read(buffer)?;
        count(self.counter, read as u64);
        self.sender.charge(0, read as u64);
        Ok(read)
    }
}

/// What a body was made into, besides rows.
enum Made {
    Reply(ReplyOf),
    /// The answers to its actions, as far as the store has not been asked.
    Bulk(BulkAnswers),
}

/// What makes an answer, once it is known which records were refused.
type ReplyOf = Box<dyn FnOnce(Vec<(usize, std::borrow::Cow<'static, str>)>) -> Reply>;

fn take_body(request: &Request, body: &[u8], setting: &Setting, taking: &mut Taking<'_>) -> Result<Made, Refusal> {
    Ok(Made::Reply(match request.endpoint {
        Endpoint::Ingest => {
            ingest::take(body, &request.media, taking)?;
            Box::new(Reply::Ingest)
        }
        Endpoint::Otlp => {
            let form = otlp::OtlpFormat::read(&request.media)?;
            otlp::take(body, form, taking)?;
            Box::new(move |reasons| Reply::Otlp(form, reasons))
        }
        Endpoint::Loki => {
            loki::take(body, &request.media, setting, taking)?;
            Box::new(|_| Reply::Loki)
        }
        Endpoint::Bulk => {
            let items = bulk::take(body, request.index.as_deref(), taking)?;
            return Ok(Made::Bulk(items));
        }
        Endpoint::Journal => {
            return Err(Refusal::bad("a journal is read as it comes"));
        }
    }))
}

/// Decodes `bytes` as the body of a request to `endpoint`, and counts its records.
#[cfg(feature = "testing")]
pub fn count_records(
    endpoint: Endpoint,
    media: &str,
    encoding: Encoding,
    bytes: &[u8],
    setting: &Setting,
) -> Result<usize, Refusal> {
    let request = Request {
        endpoint,
        media: media.into(),
        encoding,
        instance: None,
        index: None,
        peer: "peer".into(),
        sender: Sender::anonymous("testing"),
        key: None,
    };
    let mut memory = MemoryPool::new(setting.limits.bodies_bytes_max).reservation();
    if endpoint == Endpoint::Journal {
        let mut records = 0;
        journal::take(setting, &request, bytes, |gathered| {
            records += gathered.taken as usize;
            Ok(())
        })?;
        return Ok(records);
    }
    let body = decode(bytes.to_vec(), encoding, setting.limits.decoded_bytes_max, &mut memory)?;
    let taking = Taking::new(setting, &request, 7, Ticks::from_date(2026, 11, 21).unwrap_or_default());
    let mut taking = taking.within(&mut memory, body.len())?;
    let _reply = take_body(&request, &body, setting, &mut taking)?;
    Ok(taking.gather().taken as usize)
}
