//! Syslog: what other programs and hosts send, over UDP, TCP, TLS, RELP and unix sockets.
//!
//! A message is read as a line of a file is ([`daytable_parse`]), with what was learnt of its connection or peer. Its instance
//! is the host that it names, else the peer. Its row key is made of 64 random bits, drawn for each connection or socket of
//! datagrams, and a counter.
//!
//! What is promised: what was taken is committed, whatever commits fail, as long as the process lives; a stop takes what
//! was sent before it and commits that. What a kill takes with it is what no syslog can know, but RELP: there a message is
//! acknowledged after its commit, and its sender repeats what was not. When the store does not keep up nobody is read
//! from; only datagrams are dropped then, by the kernel, which counts them.
//!
//! * `framing`, `relp`: bytes become messages. Neither knows of sockets.
//! * `session`: one connection's messages. `sink`: messages become rows. `delivery`: rows on their way into a commit.
//! * `bind`: sockets. `datagram`, `stream`: the threads that read them. `accept`: who gets a connection. `drops`: what the kernel drops.

mod accept;
mod bind;
mod datagram;
mod delivery;
mod message_sink;
pub mod framing;
pub mod relp;
mod options;
mod session;
mod source;
mod stream;

pub use bind::ListenError;
pub use daytable_net::tls::TlsError;
pub use options::{ListenAddress, ListenAddressError, SocketKey, SyslogOptions};
pub use source::Syslog;

use crate::counters::{SourceCounters, SourceEvent};
use crate::rate_limit::LimitKind;
use crate::source::SourceContext;
use datagram::Datagrams;
use daytable_net::inherited::{Inherited, InheritedSocket};
use daytable_net::tls::Certificates;
use daytable_net::{KernelDrops, SocketFile};
use message_sink::{ListenerContext, MessageSink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use stream::{Signals, StreamListener};
use tokio::sync::watch;

/// A listener that runs.
struct SyslogListener {
    threads: Vec<JoinHandle<()>>,
    /// Has the thread of datagrams end, and every connection.
    stop: Arc<AtomicBool>,
    stopping: watch::Sender<bool>,
    /// Has nobody accepted any more.
    leaving: watch::Sender<bool>,
    /// Its socket once more, for a listener that is to have it next.
    successor_socket: Option<InheritedSocket>,
    counters: Arc<SourceCounters>,
}

/// Bytes of messages that are not whole, over all listeners. Cheap to clone.
#[derive(Clone)]
pub struct HeldBytes {
    held: Arc<AtomicUsize>,
    most: usize,
}

impl HeldBytes {
    /// None yet, and so many at most.
    pub fn new(most: usize) -> HeldBytes {
        HeldBytes { held: Arc::default(), most }
    }

    /// How many more there may be.
    fn left(&self) -> usize {
        self.most.saturating_sub(self.held.load(Ordering::Relaxed))
    }

    /// A connection holds so many in place of what it held.
    fn change(&self, before: usize, now: usize) {
        self.held.fetch_add(now, Ordering::Relaxed);
        self.held.fetch_sub(before, Ordering::Relaxed);
    }
}

/// A listener that is bound, and that nobody serves yet.
pub(super) struct BoundSyslog {
    taken: Transport,
    successor_socket: Option<InheritedSocket>,
    /// What its socket is to have once it is nobody else's.
    later: bind::DeferredOptions,
    counters: Arc<SourceCounters>,
    /// What the kernel drops of its UDP socket.
    drops: Option<Arc<KernelDrops>>,
    /// Where it listens, as the configuration has it, and as it is: a port may have been left to the system.
    listen: String,
    at: String,
}

/// How what comes is taken.
enum Transport {
    StreamListener(StreamListener),
    Datagrams(Arc<ListenerContext>, datagram::DatagramSocket, Option<Arc<SocketFile>>),
}

/// The events that a listener counts.
fn events(is_udp: bool) -> Vec<SourceEvent> {
    let mut events = vec![delivery::LOST];
    events.extend(LimitKind::ALL.map(|reason| SourceEvent::SenderPaced(reason.label())));
    if is_udp {
        events.push(SourceEvent::KernelDrops);
    } else {
        let reasons = ["connections_max", "per_sender", "tls", "no_frame", "idle_timeout"];
        events.extend(reasons.map(SourceEvent::ConnectionClosed));
        events.extend([SourceEvent::ConnectionAccepted, SourceEvent::CertificateReloadFailed]);
    }
    events
}

/// Binds a listener, or takes the socket of `inherited` that is bound already. What it takes is counted with what a
/// listener of its name counted `before`.
///
/// # Errors
///
/// Whatever keeps it from being bound, certificates among it.
fn bind(
    config: &SyslogOptions,
    before: Option<Arc<SourceCounters>>,
    inherited: &mut Inherited,
) -> Result<BoundSyslog, ListenError> {
    let listen = config.listen.to_string();
    let counters = before.unwrap_or_else(|| Arc::new(SourceCounters::new("syslog", &config.name)));
    let block = Arc::new(ListenerContext::new(config.clone(), counters.clone()));
    let receive_buffer = usize::try_from(config.receive_buffer.get()).unwrap_or(16 << 20);
    let failed = |source| ListenError::Io { at: listen.clone(), source };
    let (mut at, mut drops_of_udp, mut later) = (None, None, bind::DeferredOptions::default());
    let (taken, successor_socket) = match &config.listen {
        ListenAddress::Udp(address) => {
            let (socket, drops) = bind::udp(*address, receive_buffer, inherited, &mut later)?;
            (at, drops_of_udp) = (socket.local_addr().ok(), Some(drops.clone()));
            let successor_socket =
                socket.try_clone().map(|socket| InheritedSocket::Udp(*address, socket, drops.clone()));
            let state = quinn_udp::UdpSocketState::new((&socket).into()).map_err(failed)?;
            (Transport::Datagrams(block, datagram::DatagramSocket::Udp(socket, state, drops), None), successor_socket)
        }
        ListenAddress::UnixDatagram(path) => {
            let (socket, file) = bind::unix_datagram(path, config.mode, receive_buffer, inherited, &mut later)?;
            socket.set_nonblocking(true).map_err(failed)?;
            let (heir, of_heir) = (socket.try_clone(), file.clone());
            let successor_socket = heir.map(|socket| InheritedSocket::UnixDatagram(path.clone(), socket, of_heir));
            (Transport::Datagrams(block, datagram::DatagramSocket::Unix(socket), file), successor_socket)
        }
        ListenAddress::Tcp(address) | ListenAddress::Tls(address) | ListenAddress::Relp(address) => {
            let certificates = config.tls.clone().map(|tls| Certificates::read(tls, &config.name)).transpose()?;
            let listener = bind::tcp(*address, inherited)?;
            at = listener.local_addr().ok();
            let successor_socket = listener.try_clone().map(|listener| InheritedSocket::Tcp(*address, listener));
            (
                Transport::StreamListener(StreamListener {
                    block,
                    socket: stream::StreamSocket::Tcp(listener),
                    certificates,
                }),
                successor_socket,
            )
        }
        ListenAddress::UnixStream(path) => {
            let (listener, file) = bind::unix_stream(path, config.mode, inherited, &mut later)?;
            let (heir, of_heir) = (listener.try_clone(), file.clone());
            let successor_socket = heir.map(|listener| InheritedSocket::UnixStream(path.clone(), listener, of_heir));
            (
                Transport::StreamListener(StreamListener {
                    block,
                    socket: stream::StreamSocket::Unix(listener, file),
                    certificates: None,
                }),
                successor_socket,
            )
        }
    };
    let at = at.map_or_else(|| listen.clone(), |at| format!("{}://{at}", config.listen.scheme()));
    // Without another descriptor for its socket the listener works as well, and can only be stopped.
    Ok(BoundSyslog { taken, successor_socket: successor_socket.ok(), later, counters, drops: drops_of_udp, listen, at })
}

impl BoundSyslog {
    /// Begins to take messages. This host's name is the peer on a unix socket; `held` counts what is held of messages that
    /// are not whole, over all listeners.
    ///
    /// # Errors
    ///
    /// There is no thread to be had; nothing listens then.
    fn serve(self, context: &SourceContext, held: &HeldBytes) -> Result<SyslogListener, ListenError> {
        let BoundSyslog { taken, successor_socket, later, counters, drops, listen, at } = self;
        later.settle(match &taken {
            Transport::Datagrams(_, socket, _) => Some(socket),
            Transport::StreamListener(_) => None,
        });
        tracing::info!(listener = counters.name, at, "taking syslog");
        counters.declare(events(drops.is_some()));
        counters.set_listener(&listen, drops);
        let SourceContext { router, host, intake, .. } = context.clone();
        let (stop, sink) = (Arc::new(AtomicBool::new(false)), MessageSink::new(router, intake));
        let (stopping, leaving) = (watch::Sender::new(false), watch::Sender::new(false));
        let signals = Signals { stop: stopping.subscribe(), leave: leaving.subscribe() };
        let mut handle = SyslogListener { threads: Vec::new(), stop, stopping, leaving, successor_socket, counters };
        match taken {
            Transport::Datagrams(block, socket, file) => {
                let datagrams = Datagrams { socket, file, block, sink, host, stop: handle.stop.clone() };
                handle.spawn("syslog-dgram", move || datagrams.run())?;
            }
            Transport::StreamListener(listener) => {
                let held = held.clone();
                handle.spawn("syslog", move || {
                    if let Err(error) = stream::run(listener, sink, host, held, signals) {
                        tracing::error!(%error, "failed to serve connections");
                    }
                })?;
            }
        }
        Ok(handle)
    }
}

impl SyslogListener {
    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), ListenError> {
        let failed = |source| ListenError::Io { at: "a thread".into(), source };
        self.threads.push(std::thread::Builder::new().name(name.into()).spawn(work).map_err(failed)?);
        Ok(())
    }

    /// Its socket, for the listener that is to have it next. To be followed by [`leave`](SyslogListener::leave) once that
    /// one serves it. None where the system has no more descriptors.
    fn successor_socket(&self) -> Option<InheritedSocket> {
        self.successor_socket.as_ref().and_then(InheritedSocket::try_clone)
    }

    /// Accepts nobody any more: another listener has the socket. Datagrams that were read are committed; connections go on
    /// to their end, as they began.
    fn leave(&mut self) {
        self.successor_socket = None;
        self.stop.store(true, Ordering::Release);
        self.leaving.send_replace(true);
    }

    /// Whether it has ended, which it does by itself only by a fault, or after it [left](SyslogListener::leave).
    fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Has it begin to stop, for who waits for several of them.
    fn request_stop(&mut self) {
        // Nobody is to wait in the queue of a socket that nobody accepts from.
        self.successor_socket = None;
        self.stop.store(true, Ordering::Release);
        self.stopping.send_replace(true);
    }

    /// Takes what was sent already, has it committed, and ends.
    fn stop(&mut self) {
        self.request_stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a listener failed by a fault of its own; what it had not handed over is lost");
            }
        }
    }
}

/// A handle that is dropped stops its listener.
impl Drop for SyslogListener {
    fn drop(&mut self) {
        self.stop();
    }
}
