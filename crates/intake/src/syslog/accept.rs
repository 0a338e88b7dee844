//! The thread of a listener for connections: accepts connections, up to a limit, until the stop.
//!
//! A connection beyond the limit is closed at once. In the kernel's queue it could send messages that daytable may never read.
//! A failure to accept (for example, no file descriptor is left) is logged once and retried after a pause. It never ends the
//! loop. A TLS handshake has a time limit and runs in the task of its own connection, so other connections do not wait.

use super::held_bytes::HeldBytes;
use super::message_sink::{ListenerContext, MessageSink, SUBMIT_AFTER};
use super::stream::{DRAIN_QUIET, ListenerState, READ_BYTES, Signals, StreamPeer, ThreadState, connection, stopped};
use crate::counters::SourceEvent::{self, ConnectionClosed};
use crate::rate_limit::{ConnectionLimiter, RateLimiter, network_of};
use daytable_net::SocketFile;
use daytable_net::tls::{Certificates, HANDSHAKE};
use rustix::net::sockopt;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

/// The pause after a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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

/// Accepts connections until the stop, and serves them until they are drained.
async fn listen(socket: StreamSocket, certificates: Option<Certificates>, state: Rc<ListenerState>) {
    match socket {
        StreamSocket::Tcp(listener) => match TcpListener::from_std(listener) {
            Ok(listener) => {
                let mut certificates = certificates;
                let begin = |(stream, address): (TcpStream, SocketAddr), place, connections: &mut JoinSet<()>| {
                    tune(&stream);
                    let name = address.ip().to_canonical().to_string();
                    let Some(counted) = state.connections.try_acquire(address.ip()) else {
                        return state.block.counters.count(ConnectionClosed("per_sender"), 1);
                    };
                    let network = Some(network_of(address.ip()));
                    let peer = StreamPeer { name, network, counted: Some(counted) };
                    let acceptor = certificates.as_mut().map(|certificates| {
                        certificates.acceptor(|| state.block.counters.count(SourceEvent::CertificateReloadFailed, 1))
                    });
                    let state = state.clone();
                    match acceptor {
                        None => connections.spawn_local(connection(stream, peer, state, place)),
                        Some(acceptor) => connections.spawn_local(async move {
                            match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                                Ok(Ok(stream)) => connection(stream, peer, state, place).await,
                                failed => {
                                    state.block.counters.count(ConnectionClosed("tls"), 1);
                                    let error = match failed {
                                        Ok(failed) => failed.err().map(|error| error.to_string()),
                                        Err(_) => Some("it took too long".to_owned()),
                                    };
                                    let listener = &state.block.config.name;
                                    tracing::info!(listener, peer = peer.name, error, "a TLS handshake failed");
                                }
                            }
                        }),
                    };
                };
                accept_all(|cx| listener.poll_accept(cx), begin, &state).await;
            }
            Err(error) => tracing::error!(listener = state.block.config.name, %error, "failed to listen"),
        },
        StreamSocket::Unix(listener, _file) => match UnixListener::from_std(listener) {
            Ok(listener) => {
                let accept = |cx: &mut Context<'_>| listener.poll_accept(cx).map_ok(|(stream, _)| stream);
                let begin = |stream, place, connections: &mut JoinSet<()>| {
                    let peer = StreamPeer { name: state.host.clone(), network: None, counted: None };
                    connections.spawn_local(connection(stream, peer, state.clone(), place));
                };
                accept_all(accept, begin, &state).await;
            }
            Err(error) => tracing::error!(listener = state.block.config.name, %error, "failed to listen"),
        },
    }
}

/// Sets options that improve a connection. A connection also works without them.
fn tune(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    // A peer that disappears without closing its connection is noticed after two minutes.
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, Duration::from_secs(60));
    let _ = sockopt::set_tcp_keepintvl(stream, Duration::from_secs(15));
    let _ = sockopt::set_tcp_keepcnt(stream, 4);
}

/// Accepts until the stop, then the connections in the queue, and waits until all connections are drained.
async fn accept_all<S>(
    mut accept: impl FnMut(&mut Context<'_>) -> Poll<io::Result<S>>,
    mut begin: impl FnMut(S, OwnedSemaphorePermit, &mut JoinSet<()>),
    state: &Rc<ListenerState>,
) {
    let counters = &state.block.counters;
    let places = Arc::new(Semaphore::new(state.block.config.connections_max.get().into()));
    let mut connections = JoinSet::new();
    let (mut stop, mut is_stopping, mut is_failing) = (state.shared.stop.clone(), false, false);
    let mut leave = state.shared.leave.clone();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stopped(&mut stop), if !is_stopping => {
                is_stopping = true;
                continue;
            }
            // The next listener has the socket and accepts the connections in the queue.
            () = stopped(&mut leave), if !is_stopping => break,
            Some(_) = connections.join_next() => continue,
            accepted = poll_fn(&mut accept) => accepted,
            () = sleep(DRAIN_QUIET), if is_stopping => break,
        };
        match accepted {
            Ok(stream) => {
                is_failing = false;
                counters.count(SourceEvent::ConnectionAccepted, 1);
                match places.clone().try_acquire_owned() {
                    Ok(place) => begin(stream, place, &mut connections),
                    Err(_) => counters.count(ConnectionClosed("connections_max"), 1),
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
            Err(error) => {
                if !is_failing {
                    tracing::warn!(listener = counters.name, %error, "failed to accept a connection, retrying");
                }
                is_failing = true;
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(accept);
    while connections.join_next().await.is_some() {}
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
    use std::net::TcpStream;
    use std::num::NonZeroU16;
    use tokio::sync::watch;

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
        let (queue, commits) = TestCommitter::new(vec![]);
        let sink = MessageSink::new(router(), queue);
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
