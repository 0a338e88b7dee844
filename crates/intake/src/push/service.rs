//! The push service: requests are parsed, committed and answered.

use super::answer::{PushResponse, ResponseTemplate};
use super::bulk::BulkAnswers;
use super::document_ids::{DocumentIds, DocumentLookup, IdReservation, remove_existing};
use super::request::{Endpoint, PushLimits, PushRequest, PushSettings, identity_of, once};
use super::request_writer::{RefusedRecord, RequestRows, RequestWriter};
use super::unread_parts::UnreadParts;
use super::{MemoryPool, MemoryReservation, PushSender, Refusal, bulk, decode, ingest, journal, loki, otlp, reader};
use crate::counters::{SourceCounters, SourceEvent, count};
use crate::record_writer::begin_source;
use crate::route::Router;
use crate::source::Source;
use daytable_model::batch::Batch;
use daytable_model::time::{self, Ticks};
use daytable_parse::ParseOptions;
use daytable_platform::reloadable::Reloadable;
use daytable_store as store;
use daytable_store::entry::PushedEntries;
use daytable_store::{Ack, CommitOutcome, CommitQueue, IdempotencyKey, Submission};
use std::io::{BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Records that were refused alone.
const RECORDS_REFUSED: SourceEvent = SourceEvent::RecordsDropped("refused");
/// The answer to a request whose commit failed.
const NOT_COMMITTED: Refusal = Refusal::Busy("the store accepts nothing at the moment");

/// The events that an endpoint counts.
fn events(endpoint: Endpoint) -> impl Iterator<Item = SourceEvent> {
    let of_entries = (endpoint == Endpoint::Loki).then_some(SourceEvent::EntryRepeated);
    let plain = [RECORDS_REFUSED, SourceEvent::BodyBytes, SourceEvent::PushRepeated, SourceEvent::PartsUnread];
    plain.into_iter().chain(of_entries).chain(Refusal::REASONS.map(SourceEvent::BodyRefused))
}

/// The push service. All listeners share it.
pub struct Push {
    settings: Reloadable<PushSettings>,
    memory: Reloadable<MemoryPool>,
    queue: CommitQueue,
    documents: Arc<dyn DocumentLookup>,
    ids: DocumentIds,
    host: String,
    parse_permits: Arc<Semaphore>,
    upload_permits: Arc<Semaphore>,
    counters: [Arc<SourceCounters>; Endpoint::ALL.len()],
}

/// The rows of a request before their commit.
pub struct ParsedRequest {
    batches: Vec<Batch>,
    newest: Option<Ticks>,
    once: Option<IdempotencyKey>,
    pending: PendingResponse,
    ids: IdReservation,
    entries: PushedEntries,
}

/// The answer to a request, which waits for the outcome of the commit.
pub struct PendingResponse {
    endpoint: Endpoint,
    counters: SourceCounters,
    bytes: u64,
    accepted: u32,
    refused: u32,
    reasons: Vec<RefusedRecord>,
    unread: UnreadParts,
    template: ResponseTemplate,
    since: Instant,
}

impl PendingResponse {
    /// The number of accepted records.
    pub fn accepted(&self) -> u64 {
        self.accepted.into()
    }

    /// The bytes of the decoded body.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The answer after the commit.
    ///
    /// # Errors
    ///
    /// The request was not committed.
    pub fn answer(&self, outcome: CommitOutcome) -> Result<PushResponse, Refusal> {
        let (accepted, refused) = match outcome {
            // Pushes have no position.
            CommitOutcome::NotCommitted | CommitOutcome::Misplaced => return Err(NOT_COMMITTED),
            CommitOutcome::OtherBody => return Err(Refusal::OtherBody),
            CommitOutcome::Repeated(first) => (first.records, first.refused),
            CommitOutcome::Committed | CommitOutcome::CommittedBefore(_) => (self.accepted, self.refused),
        };
        Ok(self.template.render(accepted, refused, &self.reasons, &self.unread, self.since.elapsed()))
    }
}

impl Push {
    /// A service that submits rows to `queue`. `host` is the name of senders on the unix socket.
    pub fn new(
        router: Router,
        reading: ParseOptions,
        limits: PushLimits,
        host: String,
        queue: CommitQueue,
        documents: Arc<dyn DocumentLookup>,
    ) -> Push {
        // At least two: one request can be parsed while another waits for the store. More than 8 would only share the cores.
        let permits = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
        Push {
            memory: Reloadable::new(MemoryPool::within(limits.bodies_bytes_max)),
            parse_permits: Arc::new(Semaphore::new(permits)),
            upload_permits: Arc::new(Semaphore::new(limits.uploads_max)),
            settings: Reloadable::new(PushSettings::new(router, reading, limits)),
            queue,
            documents,
            ids: DocumentIds::default(),
            host,
            counters: Endpoint::ALL.map(|endpoint| {
                Arc::new(SourceCounters::with_events(<Arc<Push> as Source>::KIND, endpoint.source(), events(endpoint)))
            }),
        }
    }

    /// Applies other settings to requests that begin from now on.
    pub fn reconfigure(&self, reading: ParseOptions, limits: PushLimits) {
        let before = self.settings.load();
        if before.limits.bodies_bytes_max != limits.bodies_bytes_max {
            self.memory.store(MemoryPool::within(limits.bodies_bytes_max));
        }
        self.settings.store(PushSettings::new(before.router.clone(), reading, limits));
    }

    /// The limits of a request.
    pub fn limits(&self) -> PushLimits {
        self.settings.load().limits
    }

    /// The name of this host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The memory of all requests.
    pub fn memory(&self) -> Arc<MemoryPool> {
        self.memory.load()
    }

    /// Permits to parse a body. They limit how many bodies are parsed concurrently.
    pub fn parse_permits(&self) -> &Arc<Semaphore> {
        &self.parse_permits
    }

    /// Permits to upload a journal.
    pub fn upload_permits(&self) -> &Arc<Semaphore> {
        &self.upload_permits
    }

    /// The counters of all endpoints.
    pub fn counters(&self) -> &[Arc<SourceCounters>] {
        &self.counters
    }

    /// The counters of an endpoint.
    pub fn counters_of(&self, endpoint: Endpoint) -> &SourceCounters {
        &self.counters[endpoint as usize]
    }

    /// Parses a whole body. This uses the CPU, so call it on a thread that no other task needs.
    ///
    /// # Errors
    ///
    /// Why the whole request is refused.
    pub fn parse(
        &self,
        request: &PushRequest,
        body: Vec<u8>,
        memory: &mut MemoryReservation,
        since: Instant,
    ) -> Result<ParsedRequest, Refusal> {
        let settings = &*self.settings.load();
        memory.set_patience(settings.limits.turn_wait);
        let body = decode(body, request.encoding, settings.limits.decoded_bytes_max, memory)?;
        let once = request.key.as_deref().map(|key| once(request, key, &body));
        let host = settings.router.host();
        let identity = once.as_ref().map_or_else(|| begin_source(host), |once| identity_of(once, host));
        let mut writer = RequestWriter::new(settings, request, identity, time::now()).within(memory, body.len())?;
        let mut template = write_body(request, &body, settings, &mut writer)?;
        let mut rows_memory = writer.memory();
        let RequestRows { mut batches, newest, counters, mut accepted, mut refused, reasons, unread, entries } =
            writer.take_rows();
        drop(writer);
        let mut ids = IdReservation::default();
        if let ResponseTemplate::Bulk(answers) = &mut template {
            rows_memory += answers.memory();
            let existing;
            (ids, existing) = self.refuse_existing(answers, &mut batches, once.as_ref(), settings)?;
            counters.records.fetch_sub(existing.into(), Ordering::Relaxed);
            (accepted, refused) = (accepted.saturating_sub(existing), refused + existing);
        }
        let once =
            once.map(|once| IdempotencyKey { answer: store::StoredAnswer { records: accepted, refused }, ..once });
        let bytes = body.len() as u64;
        // The memory of the body is free now. The memory of its rows is free after the commit.
        drop(body);
        memory.shrink_to(rows_memory);
        let endpoint = request.endpoint;
        let pending =
            PendingResponse { endpoint, counters, bytes, accepted, refused, reasons, unread, template, since };
        Ok(ParsedRequest { batches, newest, once, pending, ids, entries })
    }

    /// Reserves the ids of a bulk, and removes the documents to create that exist. Returns the number of removed documents.
    /// A repeated request keeps its documents: the existing documents are its own.
    fn refuse_existing(
        &self,
        answers: &mut BulkAnswers,
        batches: &mut Vec<Batch>,
        once: Option<&IdempotencyKey>,
        settings: &PushSettings,
    ) -> Result<(IdReservation, u32), Refusal> {
        let ids = self.ids.reserve(std::mem::take(&mut answers.ids), settings.limits.turn_wait)?;
        let unread = |error: store::StoreError| {
            tracing::error!(%error, "failed to look for documents that a push creates: it is refused, and may be sent again");
            Refusal::Busy("the store cannot be asked which documents are there")
        };
        let is_repeat = match once.filter(|_| !answers.creates.is_empty()) {
            Some(once) => self.documents.is_committed(once).map_err(unread)?,
            None => false,
        };
        if answers.creates.is_empty() || is_repeat {
            return Ok((ids, 0));
        }
        let existing = remove_existing(batches, &answers.creates, &*self.documents).map_err(unread)?;
        existing.iter().for_each(|id| answers.conflict(id));
        Ok((ids, u32::try_from(existing.len()).unwrap_or(u32::MAX)))
    }

    /// Submits the rows of a request, and calls `complete` with the outcome: at once if there are no rows. Blocks while the
    /// commit queue is full.
    pub fn submit(
        &self,
        parsed: ParsedRequest,
        complete: impl FnOnce(PendingResponse, CommitOutcome) + Send + 'static,
    ) {
        let ParsedRequest { batches, newest, once, pending, ids, entries } = parsed;
        if batches.is_empty() {
            return complete(pending, CommitOutcome::Committed);
        }
        let endpoint = pending.endpoint;
        let ack = Ack::with_outcome(move |outcome| {
            // Readers see the commit already, so the next request with these ids finds the documents.
            drop(ids);
            complete(pending, outcome);
        });
        self.enqueue(
            endpoint,
            Submission { batches, newest, idempotency: once, entries, ack, ..Submission::default() },
        );
    }

    /// Hands a submission to the commit queue. A refused submission is dropped, and its drop reports the failed commit.
    fn enqueue(&self, endpoint: Endpoint, submission: Submission) {
        let records = submission.batches.iter().map(Batch::records).sum();
        let receipts = vec![store::SourceReceipt::records("push", &*self.counters_of(endpoint).name, records)];
        let _ = self.queue.submit(Submission { epoch: self.queue.epoch(), receipts, ..submission });
    }

    /// Counts a request after its commit, even if its sender has disconnected.
    pub fn count_outcome(&self, pending: &PendingResponse, outcome: CommitOutcome) {
        let counters = self.counters_of(pending.endpoint);
        match outcome {
            CommitOutcome::Committed | CommitOutcome::CommittedBefore(_) => {
                if let CommitOutcome::CommittedBefore(repeats) = outcome {
                    counters.count(SourceEvent::EntryRepeated, repeats);
                }
                counters.add_records(&pending.counters);
                count(&counters.bytes, pending.bytes);
                counters.count(RECORDS_REFUSED, pending.refused.into());
                counters.count(SourceEvent::PartsUnread, pending.unread.count.into());
            }
            CommitOutcome::Repeated(_) => counters.count(SourceEvent::PushRepeated, 1),
            CommitOutcome::OtherBody | CommitOutcome::NotCommitted | CommitOutcome::Misplaced => {}
        }
    }

    /// Reads the entries of a journal as they arrive, and returns after all of them are committed.
    ///
    /// # Errors
    ///
    /// Why the upload ended early. Earlier entries may be committed all the same.
    pub fn upload_journal(&self, request: &PushRequest, body: impl BufRead) -> Result<PushResponse, Refusal> {
        let counters = self.counters_of(Endpoint::Journal);
        let mut memory = self.memory().reservation();
        memory.set_patience(self.limits().turn_wait);
        memory.grow(request.encoding.window_bytes().min(memory.available_max() / 4))?;
        let undecodable = |error| Refusal::bad(format!("the body cannot be decoded: {error}"));
        let reader = reader(body, request.encoding).map_err(undecodable)?;
        let body = MeteredReader { reader, counter: &counters.bytes, sender: &request.sender };
        // One piece is being committed while the next piece is read.
        let (completed, completions) = mpsc::channel::<(RequestRows, bool)>();
        let mut in_flight = 0;
        let wait_until = |in_flight: &mut usize, most: usize| {
            while *in_flight > most {
                *in_flight -= 1;
                match completions.recv() {
                    Ok((rows, true)) => counters.add_records(&rows.counters),
                    _ => return Err(NOT_COMMITTED),
                }
            }
            Ok(())
        };
        let read = journal::read(&self.settings.load(), request, std::io::BufReader::new(body), |mut rows| {
            counters.count(SourceEvent::PartsUnread, rows.unread.count.into());
            if rows.batches.is_empty() {
                return Ok(());
            }
            wait_until(&mut in_flight, 1)?;
            request.sender.charge(rows.accepted.into(), 0);
            let (batches, newest) = (std::mem::take(&mut rows.batches), rows.newest);
            let completed = completed.clone();
            let ack = Ack::awaited(move |is_committed| drop(completed.send((rows, is_committed))));
            in_flight += 1;
            self.enqueue(Endpoint::Journal, Submission { batches, newest, ack, ..Submission::default() });
            Ok(())
        });
        wait_until(&mut in_flight, 0)?;
        read.map(|_| ResponseTemplate::Journal.render(0, 0, &[], &UnreadParts::default(), Duration::ZERO))
    }
}

/// A reader that counts its bytes and charges them to the sender. It counts decoded bytes.
struct MeteredReader<'c, R> {
    reader: R,
    counter: &'c AtomicU64,
    sender: &'c PushSender,
}

impl<R: Read> Read for MeteredReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.reader.read(buffer)?;
        count(self.counter, read as u64);
        self.sender.charge(0, read as u64);
        Ok(read)
    }
}

/// Writes the records of a decoded body.
fn write_body(
    request: &PushRequest,
    body: &[u8],
    settings: &PushSettings,
    writer: &mut RequestWriter<'_>,
) -> Result<ResponseTemplate, Refusal> {
    Ok(match request.endpoint {
        Endpoint::Ingest => {
            ingest::write(body, &request.media, writer)?;
            ResponseTemplate::Ingest
        }
        Endpoint::Otlp => {
            let format = otlp::OtlpFormat::read(&request.media)?;
            otlp::write(body, format, writer)?;
            ResponseTemplate::Otlp(format)
        }
        Endpoint::Loki => {
            loki::write(body, &request.media, request.encoding, settings, writer)?;
            ResponseTemplate::Loki
        }
        Endpoint::Bulk => ResponseTemplate::Bulk(bulk::write(body, request.index.as_deref(), writer)?),
        Endpoint::Journal => return Err(Refusal::bad("a journal is read as it comes")),
    })
}

/// The number of records in a body.
///
/// # Errors
///
/// Why the whole request is refused.
#[cfg(feature = "testing")]
pub fn count_records(
    endpoint: Endpoint,
    media: &str,
    encoding: super::Encoding,
    bytes: &[u8],
    settings: &PushSettings,
) -> Result<usize, Refusal> {
    let request = PushRequest {
        endpoint,
        media: media.into(),
        encoding,
        instance: None,
        index: None,
        peer: "peer".into(),
        sender: PushSender::anonymous("testing"),
        key: None,
    };
    let mut memory = MemoryPool::new(settings.limits.bodies_bytes_max).reservation();
    if endpoint == Endpoint::Journal {
        let mut records = 0;
        journal::read(settings, &request, bytes, |rows| {
            records += rows.accepted as usize;
            Ok(())
        })?;
        return Ok(records);
    }
    let body = decode(bytes.to_vec(), encoding, settings.limits.decoded_bytes_max, &mut memory)?;
    let writer = RequestWriter::new(settings, &request, 7.into(), Ticks::from_date(2026, 11, 21).unwrap_or_default());
    let mut writer = writer.within(&mut memory, body.len())?;
    let _template = write_body(&request, &body, settings, &mut writer)?;
    Ok(writer.take_rows().accepted as usize)
}
