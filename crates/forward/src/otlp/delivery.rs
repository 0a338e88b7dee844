//! What is done about the answers of a backend, until a batch is delivered.
//!
//! | answer | what is done |
//! |---|---|
//! | accepted | the next part; what the backend rejected of it is counted, and named by the first and the last record |
//! | refused for its content | two halves; a single record is counted and named, if the backend takes anything at all |
//! | busy, or no answer | a pause, that which was asked for at least, and the same part again |
//! | unusable | a pause, and the same part again with the headers as their file has them then |
//!
//! A backend that takes nothing is not known by one answer: it may refuse a request for a header that is wrong. So before the first
//! record is given up, one request has to be accepted: an earlier one, one without records, or one of two single records. After
//! [`REFUSED_MAX`] refusals without an accepted request this is found out again.

use super::batch::LogsBatch;
use super::client::{BackendAnswer, BackendClient};
use crate::client::ClientError;
use crate::options::ForwardOptions;
use crate::sender::SenderStatus;
use daytable_platform::lock;
use daytable_store::CommitQueue;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The first pause after a failure, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The longest pause that a backend may ask for.
const ASKED_PAUSE_MAX: Duration = Duration::from_secs(300);
/// Records that are refused one after the other before it is found out again whether the backend takes anything.
const REFUSED_MAX: u32 = 100;
/// Refused records of a batch that the log names.
const NAMED_MAX: usize = 5;

/// Delivers batches. For one thread.
pub(super) struct BackendDelivery {
    options: ForwardOptions,
    queue: CommitQueue,
    stop: Arc<AtomicBool>,
    status: Arc<SenderStatus>,
    client: Option<BackendClient>,
    /// Whether the backend accepted a request lately.
    takes_records: bool,
    refused_since: u32,
    pause: Duration,
    /// The failure that was logged last.
    last_failure: Option<String>,
    /// For pauses of different length.
    random: u64,
}

/// The sender is stopping. What was not delivered is delivered by the next one.
#[derive(Debug)]
pub(super) struct Stopped;

impl BackendDelivery {
    pub(super) fn new(
        options: ForwardOptions,
        queue: CommitQueue,
        stop: Arc<AtomicBool>,
        status: Arc<SenderStatus>,
    ) -> BackendDelivery {
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        BackendDelivery {
            options,
            queue,
            stop,
            status,
            client: None,
            takes_records: false,
            refused_since: 0,
            pause: PAUSE_MIN,
            last_failure: None,
            random,
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.queue.is_closed()
    }

    /// Delivers a batch. `while_waiting` is told of each failure.
    pub(super) fn deliver(
        &mut self,
        runtime: &Runtime,
        batch: &LogsBatch,
        while_waiting: &mut dyn FnMut(),
    ) -> Result<(), Stopped> {
        let mut refused: Vec<(usize, String)> = Vec::new();
        let mut parts: Vec<Range<usize>> = std::iter::once(0..batch.len()).collect();
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            daytable_platform::failpoint!("otlp-before-send");
            match self.send(runtime, &batch.request(part.clone()))? {
                BackendAnswer::Accepted { rejected, message } => {
                    daytable_platform::failpoint!("otlp-sent");
                    self.accepted(batch, &part, rejected, &message);
                }
                BackendAnswer::Refused(reason) if !self.takes_records() && !self.probe(runtime, batch, &part)? => {
                    let reason =
                        format!("{reason}; a request without records is not taken either, so nothing is given up");
                    self.failed(reason, None, while_waiting);
                    parts.push(part);
                }
                BackendAnswer::Refused(reason) if part.len() == 1 => {
                    self.refused_since += 1;
                    refused.push((part.start, reason));
                }
                BackendAnswer::Refused(_) => {
                    let middle = part.start + part.len() / 2;
                    parts.extend([middle..part.end, part.start..middle]);
                }
                BackendAnswer::Busy { reason, after } => {
                    self.failed(reason, after, while_waiting);
                    parts.push(part);
                }
                BackendAnswer::Unusable(reason) => {
                    // The headers may have been corrected.
                    (self.client, self.takes_records) = (None, false);
                    self.failed(reason, None, while_waiting);
                    parts.push(part);
                }
            }
        }
        self.give_up(batch, &refused);
        Ok(())
    }

    /// Whether the backend takes anything: a request without records, or one of two single records.
    fn probe(&mut self, runtime: &Runtime, batch: &LogsBatch, part: &Range<usize>) -> Result<bool, Stopped> {
        let mut requests = vec![Vec::new()];
        if part.len() > 1 {
            requests.extend([part.start, part.end - 1].map(|number| batch.request(number..number + 1)));
        }
        for request in requests {
            if let BackendAnswer::Accepted { .. } = self.send(runtime, &request)? {
                (self.takes_records, self.refused_since) = (true, 0);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn takes_records(&self) -> bool {
        self.takes_records && self.refused_since < REFUSED_MAX
    }

    /// Sends a request, which a stop gives up after a moment.
    fn send(&mut self, runtime: &Runtime, request: &[u8]) -> Result<BackendAnswer, Stopped> {
        if self.is_stopping() {
            return Err(Stopped);
        }
        let client = match self.client.take().map_or_else(|| BackendClient::new(&self.options), Ok) {
            Ok(client) => client,
            Err(ClientError::Options(problem)) => return Ok(BackendAnswer::Unusable(problem)),
            Err(error) => return Ok(BackendAnswer::Unusable(error.to_string())),
        };
        let answer = runtime.block_on(async {
            let stopped = async {
                while !self.is_stopping() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            };
            tokio::select! {
                answer = client.send(request) => Ok(answer),
                () = stopped => Err(Stopped),
            }
        });
        self.client = Some(client);
        if answer.is_ok() {
            self.status.bytes.fetch_add(request.len() as u64, Ordering::Relaxed);
        }
        answer
    }

    fn accepted(&mut self, batch: &LogsBatch, part: &Range<usize>, rejected: u64, message: &str) {
        (self.takes_records, self.refused_since, self.pause) = (true, 0, PAUSE_MIN);
        if lock(&self.status.state).error.take().is_some() || self.last_failure.take().is_some() {
            tracing::info!(to = self.options.to, "the backend takes records again");
        }
        let records = part.len() as u64;
        let rejected = rejected.min(records);
        self.status.records.fetch_add(records - rejected, Ordering::Relaxed);
        if rejected == 0 && message.is_empty() {
            return;
        }
        self.status.refused.fetch_add(rejected, Ordering::Relaxed);
        let (first, last) = (batch.uid(part.start), batch.uid(part.end.saturating_sub(1)));
        if rejected == 0 {
            tracing::warn!(
                to = self.options.to,
                said = message,
                first,
                last,
                "the backend took records, with a warning"
            );
            return;
        }
        lock(&self.status.state).refusal = Some(format!("{rejected} of {records} from {first} to {last}: {message}"));
        tracing::warn!(
            to = self.options.to,
            rejected,
            of = records,
            first,
            last,
            said = message,
            "the backend rejected records for good: they stay here, and are not sent again"
        );
    }

    /// Counts and names the records that the backend refused alone.
    fn give_up(&self, batch: &LogsBatch, refused: &[(usize, String)]) {
        let Some((number, reason)) = refused.first() else { return };
        self.status.refused.fetch_add(refused.len() as u64, Ordering::Relaxed);
        lock(&self.status.state).refusal = Some(format!("{}: {reason}", batch.uid(*number)));
        for (number, reason) in refused.iter().take(NAMED_MAX) {
            tracing::warn!(
                to = self.options.to,
                record = batch.uid(*number),
                reason,
                "the backend refused a record for good: it stays here, and is not sent again"
            );
        }
        if refused.len() > NAMED_MAX {
            let last = refused.last().map_or("", |(number, _)| batch.uid(*number));
            let more = refused.len() - NAMED_MAX;
            tracing::warn!(to = self.options.to, more, last, "the backend refused more records of the same request");
        }
    }

    /// Notes a failure, and waits: between half of the pause and the whole, so that many hosts do not come at once.
    fn failed(&mut self, reason: String, after: Option<Duration>, while_waiting: &mut dyn FnMut()) {
        self.status.failures.fetch_add(1, Ordering::Relaxed);
        if self.last_failure.as_ref() != Some(&reason) {
            tracing::warn!(to = self.options.to, error = reason, "failed to forward, which is tried again");
            self.last_failure = Some(reason.clone());
        }
        lock(&self.status.state).error = Some(reason);
        while_waiting();
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = f64::from((self.random >> 48) as u16) / 65536.0;
        let pause = after.unwrap_or_default().min(ASKED_PAUSE_MAX) + self.pause.mul_f64(0.5 + share / 2.0);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        let until = Instant::now() + pause;
        while !self.is_stopping() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20).min(pause));
        }
    }
}
