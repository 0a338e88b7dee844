//! Connections: all connections of a listener on one thread, with a task for each.
//!
//! A task that waits for its client needs no buffer. All tasks read into one shared buffer, and cut the bytes into messages at
//! once. After one read another task runs, even if the socket has more. While the store is too slow, the thread waits for
//! it, and the senders' sockets fill up. A peer beyond its rate or quota is held back in the same way, alone: its connections
//! are not read until it is within its limits again.
//!
//! The incomplete messages of all connections share one limit. Beyond it a message is cut.

use super::accept::{listen, stopped};
use super::listener::HeldBytes;
use super::message_sink::{GaugeGuard, ListenerContext, MessageSink, SUBMIT_AFTER};
use super::relp;
use super::session::Session;
use crate::counters::{SourceCounters, SourceEvent};
use crate::rate_limit::{ConnectionLimiter, ConnectionPermit, Now, RateLimiter};
use crate::route::RouteCaches;
use daytable_net::SocketFile;
use daytable_net::tls::Certificates;
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
use tokio::task::{LocalSet, yield_now};
use tokio::time::{sleep, timeout};

/// The bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// How long a client may take to read an answer.
const WRITE_STALL: Duration = Duration::from_secs(30);
/// During a stop, a connection that stays idle for so long is drained.
pub(super) const DRAIN_QUIET: Duration = Duration::from_millis(50);
/// The longest pause of a limited peer before its limits are checked again.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long a connection is drained.
const DRAIN: Duration = Duration::from_secs(5);

/// A bound socket for connections.
pub(super) struct StreamListener {
    pub(super) block: Arc<ListenerContext>,
    pub(super) socket: StreamSocket,
    pub(super) certificates: Option<Certificates>,
}

pub(super) enum StreamSocket {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener, Option<Arc<SocketFile>>),
}

/// The state that all tasks of a thread share.
pub(super) struct ThreadState {
    sink: RefCell<MessageSink>,
    buffer: RefCell<Vec<u8>>,
    held: HeldBytes,
    /// A connection waits for a commit.
    awaited: Notify,
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
    routes: RefCell<RouteCaches>,
    accounts: RefCell<RateLimiter<Option<IpAddr>>>,
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

/// Serves connections until the stop, then drains them. `held` counts the incomplete messages of all listeners.
pub(super) fn run(
    listener: StreamListener,
    sink: MessageSink,
    host: String,
    held: HeldBytes,
    signals: Signals,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let shared = Rc::new(ThreadState {
        sink: RefCell::new(sink),
        buffer: RefCell::new(vec![0; READ_BYTES]),
        held,
        awaited: Notify::new(),
        stop: signals.stop,
        leave: signals.leave,
    });
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async {
        let state = ListenerState {
            accounts: RefCell::new(RateLimiter::new(listener.block.config.per_sender)),
            connections: ConnectionLimiter::new(listener.block.config.per_sender),
            block: listener.block,
            routes: RefCell::default(),
            shared: shared.clone(),
            host,
        };
        let handing_over = tokio::task::spawn_local(hand_over(shared.clone()));
        listen(listener.socket, listener.certificates, Rc::new(state)).await;
        handing_over.abort();
    });
    shared.sink.borrow_mut().finish();
    Ok(())
}

/// Submits rows when they are old, or when a connection waits for their commit.
async fn hand_over(shared: Rc<ThreadState>) {
    loop {
        // Other ready connections run first, so that one commit serves all of them.
        if timeout(SUBMIT_AFTER, shared.awaited.notified()).await.is_ok() {
            tokio::task::yield_now().await;
        }
        shared.sink.borrow_mut().submit();
    }
}

/// The incomplete message of one connection, counted with the messages of all connections.
struct HeldShare<'a> {
    all: &'a HeldBytes,
    own: usize,
}

impl HeldShare<'_> {
    /// The maximum bytes of a message now.
    fn limit(&self, block: &ListenerContext) -> usize {
        block.limit.min(self.own + self.all.left())
    }

    fn set(&mut self, held: usize) {
        if held != self.own {
            self.all.change(self.own, held);
        }
        self.own = held;
    }
}

impl Drop for HeldShare<'_> {
    fn drop(&mut self) {
        self.set(0);
    }
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
    let mut session = Session::new(block, peer.name.clone());
    let mut held = HeldShare { all: &shared.held, own: 0 };
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
        {}
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

/// Reads once, and writes the messages. Returns the number of bytes, or `None` if the bytes are no frames.
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
    let mut came = ReadBuf::new(&mut buffer);
    ready!(Pin::new(stream).poll_read(cx, &mut came))?;
    let mut sink = shared.sink.borrow_mut();
    let bytes = came.filled();
    let before = session.messages();
    let taken = session.feed(bytes, held.limit(block), block, &mut state.routes.borrow_mut(), &mut sink);
    held.set(session.held());
    let records = session.messages() - before;
    state.accounts.borrow_mut().charge(network, records, bytes.len() as u64, Now::read());
    sink.submit_if_due();
    if session.is_answered() {
        shared.awaited.notify_one();
    }
    Poll::Ready(Ok(taken.is_ok().then_some(bytes.len())))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::{Condition, Route, Router};
    use crate::syslog::SyslogOptions;
    use daytable_model::key::{Period, TableName};
    use daytable_model::window::Window;
    use daytable_store::TestCommitter;
    use std::io::Write;
    use std::net::{SocketAddr, TcpStream};
    use std::num::NonZeroU16;

    fn router() -> Router {
        let table = TableName::new("Log").expect("a name");
        let window = Window { keep: Duration::from_secs(30 * 86_400), period: Period::Day };
        Router::new(vec![Route { table, window, buckets: NonZeroU16::MIN, when: Condition::ALWAYS }])
    }

    const LINE: &str = "<6>Nov 21 15:00:00 noisy app: one of very many\n";

    fn flooding(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.set_nonblocking(true).expect("set");
        let line = LINE.repeat(1000);
        // Fills the socket without a reader, up to 20,000 messages.
        (0..20).try_for_each(|_| stream.write_all(line.as_bytes())).unwrap_or(());
        stream
    }

    /// A single message is read before connections that send without a pause are drained.
    #[test]
    fn a_client_without_pauses_does_not_delay_other_clients() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        listener.set_nonblocking(true).expect("set");
        let address = listener.local_addr().expect("an address");
        let config = SyslogOptions::new(format!("tcp://{address}").parse().expect("an endpoint"));
        let block = Arc::new(ListenerContext::new(config, Arc::default()));
        let (intake, commits) = TestCommitter::new(vec![]);
        let sink = MessageSink::new(router(), intake);
        let stop = watch::Sender::new(false);
        let floods: Vec<_> = (0..4).map(|_| flooding(address)).collect();
        let mut quiet = TcpStream::connect(address).expect("connected");
        quiet.write_all(b"<6>Nov 21 15:00:00 quiet app: the only one\n").expect("written");

        let listener = StreamListener { block, socket: StreamSocket::Tcp(listener), certificates: None };
        let (leave, stopping) = (watch::Sender::new(false), stop.subscribe());
        let signals = Signals { stop: stopping, leave: leave.subscribe() };
        let serving = std::thread::spawn(move || run(listener, sink, "host".into(), HeldBytes::new(32 << 20), signals));
        let mut before = 0;
        loop {
            let submission = commits.take(Duration::from_secs(60)).expect("a submission");
            if submission.batches.iter().any(|batch| *batch.partition == *"quiet") {
                break;
            }
            before += submission.batches.iter().map(daytable_model::batch::Batch::len).sum::<usize>();
        }
        // One read of each flood, and one more read of those that ran in the meantime.
        let of_a_read = READ_BYTES / LINE.len() + 1;
        assert!(before <= 2 * floods.len() * of_a_read, "{before} messages came before the only one of another");
        drop((floods, quiet));
        stop.send_replace(true);
        while !serving.is_finished() {
            commits.take(Duration::from_millis(1));
        }
        serving.join().expect("no panic").expect("served");
    }
}
