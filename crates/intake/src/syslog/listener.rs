//! A listener: a bound socket, and the thread that reads it.

use super::accept::{self, StreamListener, StreamSocket};
use super::bind::{self, DeferredOptions};
use super::datagram::{self, Datagrams};
use super::held_bytes::HeldBytes;
use super::message_sink::{ListenerContext, MessageSink};
use super::stream::Signals;
use super::{ListenAddress, ListenError, SyslogOptions};
use crate::counters::{SourceCounters, SourceEvent};
use crate::delivery::LOST;
use crate::rate_limit::LimitKind;
use crate::source::SourceContext;
use daytable_net::inherited::{Inherited, InheritedSocket};
use daytable_net::tls::Certificates;
use daytable_net::{KernelDrops, SocketFile};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use tokio::sync::watch;

/// A running listener.
pub(super) struct SyslogListener {
    threads: Vec<JoinHandle<()>>,
    /// Ends the thread of datagrams.
    stop: Arc<AtomicBool>,
    /// Ends every connection.
    stopping: watch::Sender<bool>,
    /// Ends the accepting of connections.
    leaving: watch::Sender<bool>,
    /// A second descriptor of the socket, for the next listener.
    successor_socket: Option<InheritedSocket>,
    pub(super) counters: Arc<SourceCounters>,
}

/// A bound listener whose thread has not started yet.
pub(super) struct BoundSyslog {
    transport: Transport,
    successor_socket: Option<InheritedSocket>,
    /// Socket options that wait until the predecessor has left the socket.
    later: DeferredOptions,
    counters: Arc<SourceCounters>,
    /// The datagrams that the kernel drops, of a UDP socket.
    drops: Option<Arc<KernelDrops>>,
    /// The address in the configuration.
    listen: String,
    /// The actual address. It differs if the system chooses the port.
    at: String,
}

enum Transport {
    Streams(StreamListener),
    Datagrams(Arc<ListenerContext>, datagram::DatagramSocket, Option<Arc<SocketFile>>),
}

/// The events that a listener counts.
fn events(is_udp: bool) -> Vec<SourceEvent> {
    let mut events = vec![LOST];
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

/// Binds a listener, or claims its socket from `inherited`.
///
/// # Errors
///
/// The socket cannot be bound, or the certificates cannot be used.
pub(super) fn bind(
    config: &SyslogOptions,
    counters: Arc<SourceCounters>,
    inherited: &mut Inherited,
) -> Result<BoundSyslog, ListenError> {
    let listen = config.listen.to_string();
    let block = Arc::new(ListenerContext::new(config.clone(), counters.clone()));
    let receive_buffer = usize::try_from(config.receive_buffer.get()).unwrap_or(16 << 20);
    let failed = |source| ListenError::Io { at: listen.clone(), source };
    let (mut at, mut drops_of_udp, mut later) = (None, None, DeferredOptions::default());
    let (transport, successor_socket) = match &config.listen {
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
            let (clone, file_clone) = (socket.try_clone(), file.clone());
            let successor_socket = clone.map(|socket| InheritedSocket::UnixDatagram(path.clone(), socket, file_clone));
            (Transport::Datagrams(block, datagram::DatagramSocket::Unix(socket), file), successor_socket)
        }
        ListenAddress::Tcp(address) | ListenAddress::Tls(address) | ListenAddress::Relp(address) => {
            let certificates = config.tls.clone().map(|tls| Certificates::read(tls, &config.name)).transpose()?;
            let listener = bind::tcp(*address, inherited)?;
            at = listener.local_addr().ok();
            let successor_socket = listener.try_clone().map(|listener| InheritedSocket::Tcp(*address, listener));
            (
                Transport::Streams(StreamListener { block, socket: StreamSocket::Tcp(listener), certificates }),
                successor_socket,
            )
        }
        ListenAddress::UnixStream(path) => {
            let (listener, file) = bind::unix_stream(path, config.mode, inherited, &mut later)?;
            let (clone, file_clone) = (listener.try_clone(), file.clone());
            let successor_socket =
                clone.map(|listener| InheritedSocket::UnixStream(path.clone(), listener, file_clone));
            (
                Transport::Streams(StreamListener {
                    block,
                    socket: StreamSocket::Unix(listener, file),
                    certificates: None,
                }),
                successor_socket,
            )
        }
    };
    let at = at.map_or_else(|| listen.clone(), |at| format!("{}://{at}", config.listen.scheme()));
    // Without a second descriptor the listener works, but cannot pass its socket on.
    Ok(BoundSyslog {
        transport,
        successor_socket: successor_socket.ok(),
        later,
        counters,
        drops: drops_of_udp,
        listen,
        at,
    })
}

impl BoundSyslog {
    /// Starts the thread. `held` counts the incomplete messages of all listeners.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub(super) fn start(self, context: &SourceContext, held: &HeldBytes) -> Result<SyslogListener, ListenError> {
        let BoundSyslog { transport, successor_socket, later, counters, drops, listen, at } = self;
        later.apply(match &transport {
            Transport::Datagrams(_, socket, _) => Some(socket),
            Transport::Streams(_) => None,
        });
        tracing::info!(listener = counters.name, at, "taking syslog");
        counters.declare(events(drops.is_some()));
        counters.set_listener(&listen, drops);
        let SourceContext { router, host, queue, .. } = context.clone();
        let (stop, sink) = (Arc::new(AtomicBool::new(false)), MessageSink::new(router, queue));
        let (stopping, leaving) = (watch::Sender::new(false), watch::Sender::new(false));
        let signals = Signals { stop: stopping.subscribe(), leave: leaving.subscribe() };
        let mut started = SyslogListener { threads: Vec::new(), stop, stopping, leaving, successor_socket, counters };
        match transport {
            Transport::Datagrams(block, socket, file) => {
                let datagrams = Datagrams { socket, file, block, sink, host, stop: started.stop.clone() };
                started.spawn("syslog-dgram", move || datagrams.run())?;
            }
            Transport::Streams(listener) => {
                let (held, counters) = (held.clone(), started.counters.clone());
                started.spawn("syslog", move || {
                    if let Err(error) = accept::run(listener, sink, host, held, signals) {
                        tracing::error!(listener = counters.name, %error, "failed to serve connections");
                    }
                })?;
            }
        }
        Ok(started)
    }
}

impl SyslogListener {
    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), ListenError> {
        let failed = |source| ListenError::Io { at: "a thread".into(), source };
        self.threads.push(std::thread::Builder::new().name(name.into()).spawn(work).map_err(failed)?);
        Ok(())
    }

    /// The socket for the next listener. Call [`leave`](SyslogListener::leave) after that listener has started. `None` if the
    /// system has no descriptor left.
    pub(super) fn successor_socket(&self) -> Option<InheritedSocket> {
        self.successor_socket.as_ref().and_then(InheritedSocket::try_clone)
    }

    /// Leaves the socket to the next listener. Datagrams that were read are committed. Connections continue to their
    /// end with their old settings.
    pub(super) fn leave(&mut self) {
        self.successor_socket = None;
        self.stop.store(true, Ordering::Release);
        self.leaving.send_replace(true);
    }

    /// Whether the thread has ended: after [`leave`](SyslogListener::leave), or by a fault.
    pub(super) fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Begins the stop, without waiting.
    pub(super) fn request_stop(&mut self) {
        // A second descriptor would keep the socket open, and connections would wait in its queue.
        self.successor_socket = None;
        self.stop.store(true, Ordering::Release);
        self.stopping.send_replace(true);
    }

    /// Reads and commits everything that was sent before, and waits for the end of the thread.
    pub(super) fn stop(&mut self) {
        self.request_stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!(
                    listener = self.counters.name,
                    "a syslog listener ended by a fault of daytable, please report it: uncommitted messages are lost"
                );
            }
        }
    }
}

/// A dropped listener stops.
impl Drop for SyslogListener {
    fn drop(&mut self) {
        self.stop();
    }
}
