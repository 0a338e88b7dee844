//! The loop that accepts connections, with limits, until the drain.
//!
//! `axum::serve` limits neither the number of connections nor the time for a request's head, so this loop uses hyper's
//! HTTP/1 connection directly.
//!
//! 1. One connection more than there are slots is accepted, and waits for a slot (see `connection_slots`). Further
//!    connections wait in the kernel's queue.
//! 2. A failure to accept, for example without free file descriptors, is logged once. The loop tries again after a pause.
//! 3. A TLS handshake has a time limit, and runs in the task of its connection.
//! 4. The drain closes the listener and idle connections. Open requests may go on for [`HttpLimits::drain`]; then the
//!    remaining connections are cut.

use super::HttpLimits;
use super::connection_slots::{ConnectionSlot, ConnectionSlots, RequestBody, ResponseBody};
use super::counters::HttpCounters;
use super::listen::Listener;
use super::long_head::{HEAD_BYTES_MAX, HEADERS_MAX, LongHeads};
use super::passed_files::{ControlStream, PassedFiles};
use super::readiness::wait_for_drain;
use super::write_timeout::WriteTimeout;
use axum::Router;
use axum::body::Body;
use daytable_intake::rate_limit::ConnectionPermit;
use daytable_net::tls::HANDSHAKE;
use daytable_net::tls::client_name;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::{poll_fn, ready};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The pause after a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The address of the peer: an extension of each request that came over TCP.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerAddress(pub(super) IpAddr);

/// The common name of the client's certificate, which TLS has verified: an extension of each request over such a connection.
#[derive(Clone, Debug)]
pub(super) struct PeerCertificate(pub(super) Arc<str>);

/// The other end of a connection.
#[derive(Default)]
struct ConnectionOrigin {
    /// The peer of a TCP connection, and the connection's share of the peer's limit.
    peer: Option<(PeerAddress, ConnectionPermit)>,
    /// The name of the certificate that it showed.
    certificate: Option<PeerCertificate>,
    /// The files that come over the control socket.
    files: Option<PassedFiles>,
}

/// Serves `router` on `listener` until `draining` turns true and the connections that were open then have ended.
pub async fn serve(
    listener: Listener,
    router: Router,
    limits: HttpLimits,
    counters: Arc<HttpCounters>,
    draining: watch::Receiver<bool>,
) {
    let (write_timeout, peers) = (limits.write_timeout, limits.peers.clone());
    let origin = {
        let counters = counters.clone();
        move |peer: PeerAddress| {
            let permit = peers.try_acquire(peer.0);
            if permit.is_none() {
                counters.over_peer_limit.fetch_add(1, Ordering::Relaxed);
            }
            permit.map(|permit| ConnectionOrigin { peer: Some((peer, permit)), ..ConnectionOrigin::default() })
        }
    };
    let accept_tcp = |listener: &TcpListener, context: &mut Context<'_>| {
        let accepted = listener.poll_accept(context);
        accepted.map_ok(|(stream, address)| {
            tune(&stream, write_timeout);
            (stream, PeerAddress(address.ip().to_canonical()))
        })
    };
    match listener {
        Listener::Tcp(listener) => {
            let accept = |context: &mut Context<'_>| accept_tcp(&listener, context);
            let begin = |(stream, peer): (TcpStream, PeerAddress)| ready(origin(peer).map(|from| (stream, from)));
            accept_all(accept, begin, router, &limits, counters, draining).await;
        }
        Listener::Tls(listener, mut certificates) => {
            let tls = counters.clone();
            let begin = move |(stream, peer): (TcpStream, PeerAddress)| {
                let failed = || {
                    tls.certificate_reloads_failed.fetch_add(1, Ordering::Relaxed);
                };
                let (acceptor, tls) = (certificates.acceptor(failed), tls.clone());
                let from = origin(peer);
                async move {
                    let mut from = from?;
                    let error = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => {
                            from.certificate = client_name(&stream).map(|name| PeerCertificate(name.into()));
                            return Some((stream, from));
                        }
                        Ok(Err(error)) => error,
                        Err(_) => ErrorKind::TimedOut.into(),
                    };
                    tls.handshakes_failed.fetch_add(1, Ordering::Relaxed);
                    tracing::info!(peer = %peer.0, %error, "a TLS handshake failed");
                    None
                }
            };
            let accept = |context: &mut Context<'_>| accept_tcp(&listener, context);
            accept_all(accept, begin, router, &limits, counters, draining).await;
        }
        // Files that come over it stay with the kernel, which closes them.
        Listener::Readers(socket) => {
            let accept = |context: &mut Context<'_>| socket.listener.poll_accept(context).map_ok(|(stream, _)| stream);
            let begin = |stream: UnixStream| ready(Some((stream, ConnectionOrigin::default())));
            accept_all(accept, begin, router, &limits, counters, draining).await;
        }
        Listener::Unix(socket) => {
            let accept = |context: &mut Context<'_>| socket.listener.poll_accept(context).map_ok(|(stream, _)| stream);
            let begin = |stream| {
                let (stream, files) = ControlStream::new(stream);
                ready(Some((stream, ConnectionOrigin { files: Some(files), ..ConnectionOrigin::default() })))
            };
            accept_all(accept, begin, router, &limits, counters, draining).await;
        }
    }
}

/// Sets options of a socket. A connection also works without them.
fn tune(stream: &TcpStream, unacknowledged: Duration) {
    // A response in several parts must not wait for the client's delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    // Heartbeats are small: they fit the send buffer for hours after the client lost its network.
    let millis = u32::try_from(unacknowledged.as_millis()).unwrap_or(u32::MAX);
    let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, millis);
}

/// Accepts connections. `begin` turns each into a stream of requests and its origin, or into `None` if the connection is
/// over already. The connection's own task awaits `begin`, so no other connection waits for a handshake.
async fn accept_all<S, T, F>(
    mut accept: impl FnMut(&mut Context<'_>) -> Poll<io::Result<S>>,
    mut begin: impl FnMut(S) -> F,
    router: Router,
    limits: &HttpLimits,
    counters: Arc<HttpCounters>,
    mut draining: watch::Receiver<bool>,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Option<(T, ConnectionOrigin)>> + Send + 'static,
{
    let slots = ConnectionSlots::new(limits.connections, counters.clone());
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new());
    http.header_read_timeout(limits.header_read).max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX);
    let mut connections = JoinSet::new();
    let mut failing = false;
    // Accepted, without a slot yet.
    let mut waiting = None;
    loop {
        tokio::select! {
            biased;
            () = wait_for_drain(&mut draining) => break,
            Some(_) = connections.join_next() => {}
            slot = slots.acquire(), if waiting.is_some() => {
                let Some(stream) = waiting.take() else { continue };
                let (begun, stall) = (begin(stream), limits.write_timeout);
                connections.spawn(connection(http.clone(), begun, stall, router.clone(), draining.clone(), slot));
            }
            accepted = poll_fn(&mut accept), if waiting.is_none() => match accepted {
                Ok(stream) => {
                    failing = false;
                    waiting = Some(stream);
                }
                Err(error) if is_from_client(&error) => {}
                Err(error) => {
                    if !failing {
                        tracing::warn!(%error, "failed to accept a connection, retrying");
                    }
                    failing = true;
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(accept);
    let ended = timeout(limits.drain, async { while connections.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        tracing::warn!(connections = connections.len(), "cut the connections that did not end in time");
        connections.shutdown().await;
    }
}

/// Whether the client closed the connection before it was accepted.
fn is_from_client(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted)
}

async fn connection<T>(
    http: http1::Builder,
    begun: impl Future<Output = Option<(T, ConnectionOrigin)>>,
    stall: Duration,
    router: Router,
    mut draining: watch::Receiver<bool>,
    slot: ConnectionSlot,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let begun = tokio::select! {
        begun = begun => begun,
        () = slot.clock.cut() => return,
        () = wait_for_drain(&mut draining) => return,
    };
    let Some((stream, from)) = begun else { return };
    let peer = from.peer.as_ref().map(|(peer, _)| *peer);
    let inner = TowerToHyperService::new(router);
    let clock = slot.clock.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        if let Some(certificate) = &from.certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        if let Some(files) = &from.files {
            request.extensions_mut().insert(files.clone());
        }
        let clock = clock.clone();
        request.extensions_mut().insert(clock.clone());
        let answer = inner.call(request.map(|body| RequestBody::new(body, clock.clone())));
        async move { answer.await.map(|response| response.map(|body| Body::new(ResponseBody::new(body, clock)))) }
    });
    let mut served = pin!(
        http.serve_connection(TokioIo::new(LongHeads::new(WriteTimeout::new(stream, stall))), service).with_upgrades()
    );
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = slot.clock.cut() => {
            tracing::debug!(peer = ?peer.map(|peer| peer.0), "cut a slow connection: another waits for its slot");
            return;
        }
        () = wait_for_drain(&mut draining) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::{get, post};
    use std::collections::VecDeque;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    /// Without descriptors, then with a client that closed: the next client is served.
    #[tokio::test(start_paused = true)]
    async fn failing_to_accept_never_ends_the_loop() {
        let (mut client, server) = duplex(1 << 10);
        let mut script: VecDeque<io::Result<DuplexStream>> = VecDeque::from([
            Err(io::Error::from_raw_os_error(24)),
            Err(io::Error::from_raw_os_error(24)),
            Err(ErrorKind::ConnectionAborted.into()),
            Ok(server),
        ]);
        let drain = watch::Sender::new(false);
        let draining = drain.subscribe();
        let serving = tokio::spawn(async move {
            let accept = move |_: &mut Context<'_>| script.pop_front().map_or(Poll::Pending, Poll::Ready);
            let router = Router::new().route("/", get(async || "here"));
            let begin = |stream| ready(Some((stream, ConnectionOrigin::default())));
            accept_all(accept, begin, router, &HttpLimits::default(), Arc::default(), draining).await;
        });
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.expect("written");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("answered");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("here"), "{answer}");
        drain.send_replace(true);
        serving.await.expect("no panic");
    }

    /// Serves these clients one after another, with one slot.
    fn serve_in_turn(
        clients: impl IntoIterator<Item = DuplexStream>,
        counters: &Arc<HttpCounters>,
    ) -> watch::Sender<bool> {
        let mut clients: VecDeque<_> = clients.into_iter().collect();
        let limits = HttpLimits { connections: 1, header_read: Duration::from_secs(600), ..HttpLimits::default() };
        let counters = counters.clone();
        let drain = watch::Sender::new(false);
        let draining = drain.subscribe();
        tokio::spawn(async move {
            let accept =
                move |_: &mut Context<'_>| clients.pop_front().map_or(Poll::Pending, |client| Poll::Ready(Ok(client)));
            let late = async |body: String| {
                sleep(Duration::from_secs(60)).await;
                body
            };
            let router = Router::new().route("/", get(async || "here")).route("/late", post(late));
            let begin = |stream| ready(Some((stream, ConnectionOrigin::default())));
            accept_all(accept, begin, router, &limits, counters, draining).await;
        });
        drain
    }

    async fn answer_of(client: &mut DuplexStream) -> String {
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("answered, or cut");
        answer
    }

    const ASKS: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

    #[tokio::test(start_paused = true)]
    async fn a_slow_connection_gives_its_slot_to_a_waiting_one() {
        for sends in [
            &b""[..],
            b"GET / HTTP/1.1\r\nho",
            b"POST /late HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nab",
            b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        ] {
            let ((mut slow, of_slow), (mut other, of_other)) = (duplex(1 << 10), duplex(1 << 10));
            let counters = Arc::default();
            let _drain = serve_in_turn([of_slow, of_other], &counters);
            slow.write_all(sends).await.expect("written");
            other.write_all(ASKS).await.expect("written");
            assert!(answer_of(&mut other).await.ends_with("here"));
            let is_answered = sends.ends_with(b"\r\n\r\n");
            assert_eq!(answer_of(&mut slow).await.ends_with("here"), is_answered);
            assert_eq!(counters.slow.load(Ordering::Relaxed), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_has_arrived_is_answered_while_others_wait() {
        let ((mut first, of_first), (mut other, of_other)) = (duplex(1 << 10), duplex(1 << 10));
        let counters = Arc::default();
        let _drain = serve_in_turn([of_first, of_other], &counters);
        let post = b"POST /late HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nconnection: close\r\n\r\nab";
        first.write_all(post).await.expect("written");
        other.write_all(ASKS).await.expect("written");
        assert!(answer_of(&mut first).await.ends_with("ab"));
        assert!(answer_of(&mut other).await.ends_with("here"));
        assert_eq!(counters.slow.load(Ordering::Relaxed), 0);
    }
}
