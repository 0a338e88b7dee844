//! The connection slots of a listener, and the choice of the connection that is cut when all slots are taken.
//!
//! A client that opens every allowed connection, and sends one byte a second on each, must not keep other clients out.
//! So while a new connection waits for a slot and all are taken, the listener cuts the connection that has kept the
//! daemon waiting longest: an idle connection, or one in the middle of a handshake, a head or a body.
//!
//! 1. A connection that kept the daemon waiting for less than [`PATIENCE`] is not cut.
//! 2. A connection whose request has arrived as a whole is never cut for another.

use super::counters::HttpCounters;
use daytable_platform::lock;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// How long a connection may keep the daemon waiting while another one waits for its slot.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a body by which its client proves that it still sends.
const PROGRESS_BYTES: usize = 16 << 10;
/// How often a waiting connection searches for a connection to cut.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The slots of a listener.
pub(super) struct ConnectionSlots {
    free: Arc<Semaphore>,
    occupied: Mutex<Vec<Weak<WaitClock>>>,
    slots: usize,
    counters: Arc<HttpCounters>,
}

/// The slot of a connection, which is free again when this is dropped.
pub(super) struct ConnectionSlot {
    pub(super) clock: Arc<WaitClock>,
    _permit: OwnedSemaphorePermit,
}

/// Since when a connection keeps the daemon waiting. The clock runs from the first moment of the connection.
pub(super) struct WaitClock {
    since: Mutex<Option<Instant>>,
    cut: Notify,
}

impl ConnectionSlots {
    pub(super) fn new(slots: usize, counters: Arc<HttpCounters>) -> ConnectionSlots {
        ConnectionSlots { free: Arc::new(Semaphore::new(slots)), occupied: Mutex::default(), slots, counters }
    }

    /// Waits for a slot. Cancel safe.
    pub(super) async fn acquire(&self) -> ConnectionSlot {
        loop {
            if self.free.available_permits() == 0 {
                self.cut_slowest();
            }
            // The semaphore is never closed.
            if let Ok(Ok(permit)) = timeout(CHECK_INTERVAL, self.free.clone().acquire_owned()).await {
                let clock = Arc::new(WaitClock { since: Mutex::new(Some(Instant::now())), cut: Notify::new() });
                let mut occupied = lock(&self.occupied);
                if occupied.len() >= 2 * self.slots {
                    occupied.retain(|clock| clock.strong_count() > 0);
                }
                occupied.push(Arc::downgrade(&clock));
                return ConnectionSlot { clock, _permit: permit };
            }
        }
    }

    fn cut_slowest(&self) {
        let occupied: Vec<_> = lock(&self.occupied).iter().filter_map(Weak::upgrade).collect();
        let waiting = occupied.iter().filter_map(|clock| Some(((*lock(&clock.since))?, clock)));
        let slowest = waiting.min_by_key(|(since, _)| *since).filter(|(since, _)| since.elapsed() >= PATIENCE);
        if let Some((_, clock)) = slowest {
            // A stopped clock is not cut a second time.
            clock.stop();
            clock.cut.notify_one();
            self.counters.slow.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl WaitClock {
    /// Returns when the connection must release its slot.
    pub(super) async fn cut(&self) {
        self.cut.notified().await;
    }

    /// The client made progress, and the daemon waits for more from now on.
    pub(super) fn restart(&self) {
        *lock(&self.since) = Some(Instant::now());
    }

    /// The request has arrived, or the daemon lacks memory, so the client waits for the daemon.
    pub(super) fn stop(&self) {
        *lock(&self.since) = None;
    }
}

/// The body of a request. Its progress restarts the clock of the connection, and its end stops the clock.
pub(super) struct RequestBody<B> {
    body: B,
    clock: Arc<WaitClock>,
    received: usize,
}

impl<B: Body<Data = Bytes>> RequestBody<B> {
    pub(super) fn new(body: B, clock: Arc<WaitClock>) -> RequestBody<B> {
        if body.is_end_stream() {
            clock.stop()
        } else {
            clock.restart()
        }
        RequestBody { body, clock, received: 0 }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for RequestBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            self.received += frame.data_ref().map_or(0, Bytes::len);
            if self.received >= PROGRESS_BYTES {
                self.received = 0;
                self.clock.restart();
            }
        }
        if matches!(frame, Poll::Ready(None)) || frame.is_ready() && self.body.is_end_stream() {
            self.clock.stop();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response. Its end restarts the clock, because the daemon then waits for the next request.
pub(super) struct ResponseBody<B> {
    body: B,
    clock: Arc<WaitClock>,
}

impl<B> ResponseBody<B> {
    pub(super) fn new(body: B, clock: Arc<WaitClock>) -> ResponseBody<B> {
        ResponseBody { body, clock }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for ResponseBody<B> {
    fn drop(&mut self) {
        self.clock.restart();
    }
}
