//! Connections: all of them on one thread, a task each.
//!
//! A task that waits for its client holds no buffer: what comes is read into one that all share, and framed at once. A
//! read takes what is there, up to that buffer, then it is another's turn. When the store does not keep up the thread
//! waits for it, so nobody is read from, and senders are held back by their own full sockets.
//!
//! What connections hold of messages that are not whole is bounded together: beyond that a message is cut where it is.

use super::accept::{listen, stopped};
use super::bind::SocketFile;
use super::counters::ListenerCounters;
use super::desk::{Block, Desk, HAND_OVER, Present};
use super::relp;
use super::session::Session;
use crate::route::Lanes;
use crate::rows::count;
use crate::tls::Certificates;
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::{Notify, OwnedSemaphorePermit, watch};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes that all connections hold of messages that are not whole.
const HELD_BYTES_MAX: usize = 32 << 20;
/// How long a client may leave an answer unread.
const WRITE_STALL: Duration = Duration::from_secs(30);
/// How long nothing comes until a connection is taken for drained, when the daemon stops.
pub(super) const DRAIN_QUIET: Duration = Duration::from_millis(50);
/// How long a connection is drained at most.
const DRAIN: Duration = Duration::from_secs(5);

/// A bound listener.
pub(super) struct Door {
    pub(super) block: Arc<Block>,
    pub(super) socket: Socket,
    pub(super) certificates: Option<Certificates>,
}

pub(super) enum Socket {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener, Option<SocketFile>),
}

/// What the tasks share.
pub(super) struct Shared {
    desk: RefCell<Desk>,
    buffer: RefCell<Vec<u8>>,
    held: Cell<usize>,
    /// Somebody waits for a commit of what was taken.
    awaited: Notify,
    pub(super) stop: watch::Receiver<bool>,
}

/// What the connections of a listener share.
pub(super) struct Room {
    pub(super) block: Arc<Block>,
    lanes: RefCell<Lanes>,
    pub(super) shared: Rc<Shared>,
    pub(super) host: String,
}

/// Serves all listeners until told to stop, then drains what is open.
pub(super) fn run(doors: Vec<Door>, desk: Desk, host: String, stop: watch::Receiver<bool>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let shared = Rc::new(Shared {
        desk: RefCell::new(desk),
        buffer: RefCell::new(vec![0; READ_BYTES]),
        held: Cell::new(0),
        awaited: Notify::new(),
        stop,
    });
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async {
        let mut listeners = JoinSet::new();
        for door in doors {
            let room =
                Room { block: door.block, lanes: RefCell::default(), shared: shared.clone(), host: host.clone() };
            listeners.spawn_local(listen(door.socket, door.certificates, Rc::new(room)));
        }
        let handing_over = tokio::task::spawn_local(hand_over(shared.clone()));
        while listeners.join_next().await.is_some() {}
        handing_over.abort();
    });
    shared.desk.borrow_mut().finish();
    Ok(())
}

/// Hands over what gathers, when it is old enough or somebody waits for it.
async fn hand_over(shared: Rc<Shared>) {
    loop {
        // Whoever is ready to be read gets his turn before, so that one commit serves them all.
        if timeout(HAND_OVER, shared.awaited.notified()).await.is_ok() {
            tokio::task::yield_now().await;
        }
        shared.desk.borrow_mut().hand_over();
    }
}

/// What a connection holds of a message that is not whole counts with what the others hold.
struct Held<'a> {
    all: &'a Cell<usize>,
    own: usize,
}

impl Held<'_> {
    /// How long a message may get now.
    fn limit(&self, block: &Block) -> usize {
        block.limit.min(self.own + HELD_BYTES_MAX.saturating_sub(self.all.get()))
    }

    fn set(&mut self, held: usize) {
        self.all.set(self.all.get() - self.own + held);
        self.own = held;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// How reading ended.
enum End {
    /// The client sent all it had.
    Closed,
    /// The daemon stops.
    Stopped,
    Failed(io::Error),
    NoFrame,
    Idle,
}

/// Takes what a client sends, until one of both ends it.
pub(super) async fn connection<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    peer: String,
    room: Rc<Room>,
    _place: OwnedSemaphorePermit,
) {
    let (block, shared) = (&*room.block, &*room.shared);
    let counters: &ListenerCounters = &block.counters;
    let _present = Present::new(&counters.connections);
    let mut session = Session::new(block, peer.clone());
    let mut held = Held { all: &shared.held, own: 0 };
    let end = serve(&mut stream, &mut session, &room, &mut held).await;
    session.finish(block, &mut room.lanes.borrow_mut(), &mut shared.desk.borrow_mut());
    let listener = &block.config.name;
    match end {
        End::Closed | End::Stopped => {}
        End::Failed(error) => tracing::debug!(listener, peer, %error, "a connection ended early"),
        End::NoFrame => {
            count(&counters.no_frames, 1);
            tracing::info!(listener, peer, "closed a connection: what it sent is no RELP");
        }
        End::Idle => count(&counters.idle, 1),
    }
    // The client may be gone.
    let _ = timeout(WRITE_STALL, stream.shutdown()).await;
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    session: &mut Session,
    room: &Room,
    held: &mut Held<'_>,
) -> End {
    let (block, shared) = (&*room.block, &*room.shared);
    let mut stop = shared.stop.clone();
    let mut committed = shared.desk.borrow().delivery.committed();
    loop {
        let idle = async {
            match block.config.idle_timeout {
                Some(patience) => sleep(patience).await,
                None => pending().await,
            }
        };
        let read = tokio::select! {
            // In this order: who never pauses must not keep the daemon from stopping.
            biased;
            () = stopped(&mut stop) => break,
            _ = committed.changed(), if session.is_waiting() => None,
            read = poll_fn(|cx| read(cx, stream, session, room, held)) => Some(read),
            () = idle => return End::Idle,
        };
        match read {
            Some(Ok(Some(0))) => break,
            Some(Ok(None)) => return End::NoFrame,
            Some(Err(error)) if error.kind() == ErrorKind::UnexpectedEof => break,
            Some(Err(error)) => return End::Failed(error),
            Some(Ok(Some(_))) | None => {}
        }
        if let Err(error) = answer(stream, session, &mut committed).await {
            return End::Failed(error);
        }
        if session.is_over() {
            return End::Closed;
        }
    }
    // What was sent before is taken still, and answered.
    let drained = timeout(DRAIN, async {
        while let Ok(Ok(Some(1..))) = timeout(DRAIN_QUIET, poll_fn(|cx| read(cx, stream, session, room, held))).await {}
        while session.is_waiting() {
            answer(stream, session, &mut committed).await?;
            if session.is_waiting() && committed.changed().await.is_err() {
                break;
            }
        }
        if session.is_answered() { stream.write_all(relp::SERVER_CLOSE).await } else { Ok(()) }
    });
    match drained.await {
        Ok(Err(error)) => End::Failed(error),
        _ => End::Stopped,
    }
}

/// Reads once, and takes what came: so many bytes; none where they are no frames.
fn read<S: AsyncRead + Unpin>(
    cx: &mut Context<'_>,
    stream: &mut S,
    session: &mut Session,
    room: &Room,
    held: &mut Held<'_>,
) -> Poll<io::Result<Option<usize>>> {
    let (block, shared) = (&*room.block, &*room.shared);
    let mut buffer = shared.buffer.borrow_mut();
    let mut came = ReadBuf::new(&mut buffer);
    ready!(Pin::new(stream).poll_read(cx, &mut came))?;
    let mut desk = shared.desk.borrow_mut();
    let bytes = came.filled();
    let taken = session.feed(bytes, held.limit(block), block, &mut room.lanes.borrow_mut(), &mut desk);
    held.set(session.held());
    desk.hand_over_if_due();
    if session.is_answered() {
        shared.awaited.notify_one();
    }
    Poll::Ready(Ok(taken.is_ok().then_some(bytes.len())))
}

/// Writes the answers that are due.
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
