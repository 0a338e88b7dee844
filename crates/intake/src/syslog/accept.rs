//! Accepts connections, up to a limit, until the stop.
//!
//! A connection beyond the limit is closed at once. In the kernel's queue it could send messages that daytable may never read.
//! A failure to accept (for example, no file descriptor is left) is logged once and retried after a pause. It never ends the
//! loop. A TLS handshake has a time limit and runs in the task of its own connection, so other connections do not wait.

use super::stream::{DRAIN_QUIET, ListenerState, StreamPeer, StreamSocket, connection};
use crate::counters::SourceEvent::{self, ConnectionClosed};
use crate::rate_limit::network_of;
use daytable_net::tls::{Certificates, HANDSHAKE};
use rustix::net::sockopt;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The pause after a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until the stop, and serves them until they are drained.
pub(super) async fn listen(socket: StreamSocket, certificates: Option<Certificates>, state: Rc<ListenerState>) {
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
            Err(error) => tracing::error!(%error, "failed to listen"),
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
            Err(error) => tracing::error!(%error, "failed to listen"),
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
                    tracing::warn!(listener = counters.name, %error, "failed to accept a connection, trying on");
                }
                is_failing = true;
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(accept);
    while connections.join_next().await.is_some() {}
}

/// Returns when the signal is set.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender of the signal was dropped, which also is a stop.
    let _ = stop.wait_for(|stop| *stop).await;
}
