//! Connections: all connections of a listener are served on one thread, with a task for each.
//!
//! A task that waits for its client needs no buffer. All tasks read into one shared buffer, and cut the bytes into messages at
//! once. After one read another task runs, even if the socket has more. While the store is too slow, the thread waits for
//! it, and the senders' sockets fill up. A peer beyond its rate or quota is held back in the same way, alone: its connections
//! are not read until it is within its limits again.
//!
//! The incomplete messages of all connections share one limit. Beyond it a message is cut.

use super::held_bytes::{HeldBytes, HeldShare};
use super::message_sink::{GaugeGuard, ListenerContext, MessageSink};
use super::relp;
use super::session::Session;
use crate::counters::{SourceCounters, SourceEvent};
use crate::rate_limit::{ConnectionLimiter, ConnectionPermit, Now, RateLimiter};
use crate::route::RouteCaches;
use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::{Notify, OwnedSemaphorePermit, watch};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

/// The bytes of one read.
pub(super) const READ_BYTES: usize = 64 << 10;
/// How long a client may take to read an answer.
const WRITE_STALL: Duration = Duration::from_secs(30);
/// During a stop, a connection that stays idle for so long is drained.
pub(super) const DRAIN_QUIET: Duration = Duration::from_millis(50);
/// The longest pause of a limited peer before its limits are checked again.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long a connection is drained.
const DRAIN: Duration = Duration::from_secs(5);

/// The state that all tasks of a thread share.
pub(super) struct ThreadState {
    pub(super) sink: RefCell<MessageSink>,
    pub(super) buffer: RefCell<Vec<u8>>,
    pub(super) held: HeldBytes,
    /// A connection waits for a commit.
    pub(super) awaited: Notify,
    pub(super) stop: watch::Receiver<bool>,
    /// The next listener accepts connections. Present connections continue to their end.
    pub(super) leave: watch::Receiver<bool>,
}

/// The signals that end a thread.
pub(super) struct Signals {
    /// End after reading everything that was sent before.
    pub(super) stop: watch::Receiver<bool>,
    /// End after the present connections have ended.
    pub(super) leave: watch::Receiver<bool>,
}

/// The state that all connections of a listener share.
pub(super) struct ListenerState {
    pub(super) block: Arc<ListenerContext>,
    pub(super) routes: RefCell<RouteCaches>,
    pub(super) accounts: RefCell<RateLimiter<Option<IpAddr>>>,
    pub(super) connections: ConnectionLimiter,
    pub(super) shared: Rc<ThreadState>,
    pub(super) host: String,
}

/// The other end of a connection.
pub(super) struct StreamPeer {
    /// The default instance of its records.
    pub(super) name: String,
    /// The network. `None` on a unix socket, all of whose clients are one sender.
    pub(super) network: Option<IpAddr>,
    /// Counts the connection of its network.
    pub(super) counted: Option<ConnectionPermit>,
}

/// How a connection ended.
enum ConnectionEnd {
    /// The client closed the connection.
    Closed,
    /// The daemon stops.
    Stopped,
    Failed(io::Error),
    InvalidFrame,
    Idle,
}

/// Serves a connection until the client or the daemon ends it.
pub(super) async fn connection<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    peer: StreamPeer,
    state: Rc<ListenerState>,
    _place: OwnedSemaphorePermit,
) {
    let (block, shared) = (&*state.block, &*state.shared);
    let counters: &SourceCounters = &block.counters;
    let _open = GaugeGuard::new(&counters.connections);
    let mut session = Session::new(block, peer.name.clone(), state.shared.sink.borrow().source_host());
    let mut held = HeldShare::new(&shared.held);
    let end = serve(&mut stream, &mut session, &state, peer.network, &mut held).await;
    let (peer, _counted) = (peer.name, peer.counted);
    session.finish(block, &mut state.routes.borrow_mut(), &mut shared.sink.borrow_mut());
    let listener = &block.config.name;
    match end {
        ConnectionEnd::Closed | ConnectionEnd::Stopped => {}
        ConnectionEnd::Failed(error) => tracing::debug!(listener, peer, %error, "a connection ended early"),
        ConnectionEnd::InvalidFrame => {
            counters.count(SourceEvent::ConnectionClosed("no_frame"), 1);
            tracing::info!(listener, peer, "closed a connection: its data is not RELP");
        }
        ConnectionEnd::Idle => counters.count(SourceEvent::ConnectionClosed("idle_timeout"), 1),
    }
    // An error means that the client has disconnected.
    let _ = timeout(WRITE_STALL, stream.shutdown()).await;
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    session: &mut Session,
    state: &ListenerState,
    network: Option<IpAddr>,
    held: &mut HeldShare<'_>,
) -> ConnectionEnd {
    let (block, shared) = (&*state.block, &*state.shared);
    let mut stop = shared.stop.clone();
    let mut committed = shared.sink.borrow().delivery.committed();
    let mut paced = None;
    loop {
        let over = state.accounts.borrow_mut().check(&network, Now::read()).err();
        if let Some(over) = over.filter(|over| paced != Some(over.kind)) {
            block.counters.count(SourceEvent::SenderPaced(over.kind.label()), 1);
        }
        paced = over.map(|over| over.kind);
        let pause = over.map_or(Duration::ZERO, |over| over.wait.min(PAUSE_MAX));
        let idle = async {
            match block.config.idle_timeout {
                Some(patience) => sleep(patience).await,
                None => pending().await,
            }
        };
        let read = tokio::select! {
            // In this order: a client that sends without a pause must not delay the stop.
            biased;
            () = stopped(&mut stop) => break,
            _ = committed.changed(), if session.is_waiting() => None,
            read = poll_fn(|cx| read(cx, stream, session, state, network, held)), if over.is_none() => Some(read),
            () = idle, if over.is_none() => return ConnectionEnd::Idle,
            () = sleep(pause), if over.is_some() => None,
        };
        match read {
            Some(Ok(Some(0))) => break,
            Some(Ok(None)) => return ConnectionEnd::InvalidFrame,
            Some(Err(error)) if error.kind() == ErrorKind::UnexpectedEof => break,
            Some(Err(error)) => return ConnectionEnd::Failed(error),
            Some(Ok(Some(_))) | None => {}
        }
        if let Err(error) = answer(stream, session, &mut committed).await {
            return ConnectionEnd::Failed(error);
        }
        if session.is_over() {
            return ConnectionEnd::Closed;
        }
        // Without this, a client that sends without a pause is read dozens of times before another task runs.
        yield_now().await;
    }
    // Messages that were sent before the stop are read and answered.
    let drained = timeout(DRAIN, async {
        while let Ok(Ok(Some(1..))) =
            timeout(DRAIN_QUIET, poll_fn(|cx| read(cx, stream, session, state, network, held))).await
        {
            // Without this, the time is looked at once in dozens of reads.
            yield_now().await;
        }
        while session.is_waiting() {
            answer(stream, session, &mut committed).await?;
            if session.is_waiting() && committed.changed().await.is_err() {
                break;
            }
        }
        if session.is_answered() { stream.write_all(relp::SERVER_CLOSE).await } else { Ok(()) }
    });
    match drained.await {
        Ok(Err(error)) => ConnectionEnd::Failed(error),
        _ => ConnectionEnd::Stopped,
    }
}

/// Reads once, and writes the messages. Returns the number of bytes, or `None` if the bytes are not frames.
fn read<S: AsyncRead + Unpin>(
    cx: &mut Context<'_>,
    stream: &mut S,
    session: &mut Session,
    state: &ListenerState,
    network: Option<IpAddr>,
    held: &mut HeldShare<'_>,
) -> Poll<io::Result<Option<usize>>> {
    let (block, shared) = (&*state.block, &*state.shared);
    let mut buffer = shared.buffer.borrow_mut();
    let mut received = ReadBuf::new(&mut buffer);
    ready!(Pin::new(stream).poll_read(cx, &mut received))?;
    let mut sink = shared.sink.borrow_mut();
    let bytes = received.filled();
    let before = session.messages();
    let framed = session.feed(bytes, held.limit(block.limit), block, &mut state.routes.borrow_mut(), &mut sink);
    held.set(session.held());
    let records = session.messages() - before;
    state.accounts.borrow_mut().charge(network, records, bytes.len() as u64, Now::read());
    sink.submit_if_due();
    if session.is_answered() {
        shared.awaited.notify_one();
    }
    Poll::Ready(Ok(framed.is_ok().then_some(bytes.len())))
}

/// Returns when the signal is set.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender of the signal was dropped, which also is a stop.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Sends the answers to committed messages.
async fn answer<S: AsyncWrite + Unpin>(
    stream: &mut S,
    session: &mut Session,
    committed: &mut watch::Receiver<u64>,
) -> io::Result<()> {
    if !session.is_answered() {
        return Ok(());
    }
    let number = *committed.borrow_and_update();
    let bytes = session.answers(number);
    if bytes.is_empty() {
        return Ok(());
    }
    let written = async {
        stream.write_all(&bytes).await?;
        stream.flush().await
    };
    timeout(WRITE_STALL, written).await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}
