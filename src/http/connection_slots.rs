//! ConnectionSlots for connections, and who gives his up when all are taken.
//!
//! Slow clients must not hold others: whoever opens as many connections as there may be, and sends a byte a second on each,
//! would keep everybody else out. So where somebody waits for a place and there is none, the connection is cut that has
//! kept the daemon waiting longest: one that is idle, or in the middle of a handshake, a head or a body; but none that did
//! not for [`PATIENCE`]. A connection whose request is here is never cut for another.

use super::counters::HttpCounters;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// How long a connection may keep the daemon waiting while others wait for its place.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a body with which its client has shown again that he sends.
const PROGRESS_BYTES: usize = 16 << 10;
/// How often it is looked for a connection to cut, while somebody waits for a place.
const LOOK: Duration = Duration::from_millis(100);

/// The places of a listener.
pub(super) struct ConnectionSlots {
    free: Arc<Semaphore>,
    taken: Mutex<Vec<Weak<WaitClock>>>,
    places: usize,
    counters: Arc<HttpCounters>,
}

/// The place of a connection until it is dropped.
pub(super) struct ConnectionSlot {
    pub(super) waiting: Arc<WaitClock>,
    _free: OwnedSemaphorePermit,
}

/// Since when a connection keeps the daemon waiting; it does from its first moment on.
pub(super) struct WaitClock {
    since: Mutex<Option<Instant>>,
    cut: Notify,
}

impl ConnectionSlots {
    /// So many; `cut` counts the connections that had to give theirs up.
    pub(super) fn new(places: usize, counters: Arc<HttpCounters>) -> ConnectionSlots {
        ConnectionSlots { free: Arc::new(Semaphore::new(places)), taken: Mutex::default(), places, counters }
    }

    /// A place, once there is one. Nothing is lost where it is not waited for to the end.
    pub(super) async fn take(&self) -> ConnectionSlot {
        loop {
            if self.free.available_permits() == 0 {
                self.cut_slowest();
            }
            // The semaphore is never closed.
            if let Ok(Ok(free)) = timeout(LOOK, self.free.clone().acquire_owned()).await {
                let waiting = Arc::new(WaitClock { since: Mutex::new(Some(Instant::now())), cut: Notify::new() });
                let mut taken = locked(&self.taken);
                if taken.len() >= 2 * self.places {
                    taken.retain(|place| place.strong_count() > 0);
                }
                taken.push(Arc::downgrade(&waiting));
                return ConnectionSlot { waiting, _free: free };
            }
        }
    }

    fn cut_slowest(&self) {
        let taken: Vec<_> = locked(&self.taken).iter().filter_map(Weak::upgrade).collect();
        let waiting = taken.iter().filter_map(|place| Some(((*locked(&place.since))?, place)));
        let slowest = waiting.min_by_key(|(since, _)| *since).filter(|(since, _)| since.elapsed() >= PATIENCE);
        if let Some((_, place)) = slowest {
            // Not a second time.
            place.answers();
            place.cut.notify_one();
            self.counters.slow.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panicking thread left behind is whole: every change is made in one go.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WaitClock {
    /// Returns once the place is to be given up.
    pub(super) async fn cut(&self) {
        self.cut.notified().await;
    }

    /// The client has sent something, and is to send more.
    fn waits(&self) {
        *locked(&self.since) = Some(Instant::now());
    }

    /// All that was asked for is here, and the daemon's turn is to answer.
    fn answers(&self) {
        *locked(&self.since) = None;
    }
}

/// The body of a request, whose end is seen.
pub(super) struct RequestBody<B> {
    body: B,
    waiting: Arc<WaitClock>,
    came: usize,
}

impl<B: Body<Data = Bytes>> RequestBody<B> {
    pub(super) fn new(body: B, waiting: Arc<WaitClock>) -> RequestBody<B> {
        if body.is_end_stream() {
            waiting.answers()
        } else {
            waiting.waits()
        }
        RequestBody { body, waiting, came: 0 }
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
            self.came += frame.data_ref().map_or(0, Bytes::len);
            if self.came >= PROGRESS_BYTES {
                self.came = 0;
                self.waiting.waits();
            }
        }
        if matches!(frame, Poll::Ready(None)) || frame.is_ready() && self.body.is_end_stream() {
            self.waiting.answers();
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

/// The body of an answer; behind it the next request is waited for.
pub(super) struct ResponseBody<B> {
    body: B,
    waiting: Arc<WaitClock>,
}

impl<B> ResponseBody<B> {
    pub(super) fn new(body: B, waiting: Arc<WaitClock>) -> ResponseBody<B> {
        ResponseBody { body, waiting }
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
        self.waiting.waits();
    }
}
