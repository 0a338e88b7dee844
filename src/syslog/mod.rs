//! Syslog: what other programs and hosts send, over UDP, TCP, TLS, RELP and unix sockets.
//!
//! A message is read as a line of a file is ([`crate::parse`]), with what was learnt of its connection or peer. Its instance
//! is the host that it names, else the peer. Its row key is made of 64 random bits, drawn for each connection or socket of
//! datagrams, and a counter.
//!
//! What is promised: what was taken is committed, whatever commits fail, as long as the process lives; a stop takes what
//! was sent before it and commits that. What a kill takes with it is what no syslog can know, but RELP: there a message is
//! acknowledged after its commit, and its sender repeats what was not. When the store does not keep up nobody is read
//! from; only datagrams are dropped then, by the kernel, which counts them.
//!
//! * `framing`, `relp`: bytes become messages. Neither knows of sockets.
//! * `session`: one connection's messages. `desk`: messages become rows. `delivery`: rows on their way into a commit.
//! * `bind`: sockets. `datagram`, `stream`: the threads that read them. `accept`: who gets a connection. `drops`: what the kernel drops.

mod accept;
mod bind;
mod counters;
mod datagram;
mod delivery;
mod desk;
mod drops;
pub mod framing;
pub mod relp;
mod session;
mod stream;

pub use crate::tls::TlsError;
pub use bind::ListenError;
pub use counters::ListenerCounters;

use crate::activation::Inherited;
use crate::config::{Endpoint, SyslogConfig};
use crate::route::Router;
use crate::store::Intake;
use crate::tls::Certificates;
use bind::SocketFile;
use datagram::Datagrams;
use desk::{Block, Desk};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use stream::Door;
use tokio::sync::watch;

/// Listeners that run.
pub struct SyslogHandle {
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    stopping: watch::Sender<bool>,
    counters: Arc<Counters>,
}

/// What all listeners count.
pub struct Counters {
    listeners: Vec<Arc<ListenerCounters>>,
    /// UDP sockets, with the number of their listener.
    sockets: Vec<(usize, u64)>,
}

impl Counters {
    /// The counts of each listener, in the order of the configuration; those of the kernel as they are now.
    pub fn read(&self) -> &[Arc<ListenerCounters>] {
        for (listener, inode) in &self.sockets {
            if let Some(drops) = drops::drops(*inode) {
                self.listeners[*listener].kernel_drops.store(drops, Ordering::Relaxed);
            }
        }
        &self.listeners
    }

    /// Whether a listener is one of datagrams over UDP.
    pub fn is_udp(&self, listener: usize) -> bool {
        self.sockets.iter().any(|(udp, _)| *udp == listener)
    }
}

/// Listeners that are bound, and that nobody serves yet.
pub struct Bound {
    doors: Vec<Door>,
    datagrams: Vec<(Arc<Block>, datagram::Socket, Option<SocketFile>)>,
    counters: Arc<Counters>,
}

/// Binds the listeners, of `inherited` those that are bound already.
///
/// # Errors
///
/// Whatever keeps a listener from being bound, certificates among it; none is bound then.
pub fn bind(configs: &[SyslogConfig], inherited: &mut Inherited) -> Result<Bound, ListenError> {
    let counters: Vec<_> = configs
        .iter()
        .map(|config| Arc::new(ListenerCounters::new(&config.name, &config.listen.to_string())))
        .collect();
    let (mut doors, mut sockets, mut datagrams) = (Vec::new(), Vec::new(), Vec::new());
    for (number, (config, counters)) in configs.iter().zip(&counters).enumerate() {
        let block = Arc::new(Block::new(config.clone(), counters.clone()));
        let receive_buffer = usize::try_from(config.receive_buffer.get()).unwrap_or(16 << 20);
        let at = match &config.listen {
            Endpoint::Udp(address) => {
                let socket = bind::udp(*address, receive_buffer, inherited)?;
                let at = socket.local_addr().ok();
                sockets.extend(drops::inode(&socket).map(|inode| (number, inode)));
                let failed = |source| ListenError::Io { at: address.to_string(), source };
                let state = quinn_udp::UdpSocketState::new((&socket).into()).map_err(failed)?;
                datagrams.push((block, datagram::Socket::Udp(socket, state), None));
                at
            }
            Endpoint::UnixDatagram(path) => {
                let (socket, file) = bind::unix_datagram(path, config.mode, receive_buffer, inherited)?;
                let failed = |source| ListenError::Io { at: path.display().to_string(), source };
                socket.set_nonblocking(true).map_err(failed)?;
                datagrams.push((block, datagram::Socket::Unix(socket), file));
                None
            }
            Endpoint::Tcp(address) | Endpoint::Tls(address) | Endpoint::Relp(address) => {
                let certificates = config.tls.clone().map(|tls| Certificates::read(tls, &config.name)).transpose()?;
                let listener = bind::tcp(*address, inherited)?;
                let at = listener.local_addr().ok();
                doors.push(Door { block, socket: stream::Socket::Tcp(listener), certificates });
                at
            }
            Endpoint::UnixStream(path) => {
                let (listener, file) = bind::unix_stream(path, config.mode, inherited)?;
                doors.push(Door { block, socket: stream::Socket::Unix(listener, file), certificates: None });
                None
            }
        };
        // A port may have been left to the system.
        let at = at.map_or_else(|| config.listen.to_string(), |at| format!("{}://{at}", config.listen.scheme()));
        tracing::info!(listener = config.name, at, "taking syslog");
    }
    Ok(Bound { doors, datagrams, counters: Arc::new(Counters { listeners: counters, sockets }) })
}

impl Bound {
    /// What they count.
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// Begins to take messages. `host` is this host's name, the peer on a unix socket.
    ///
    /// # Errors
    ///
    /// There is no thread to be had; nothing listens then.
    pub fn serve(self, router: &Router, host: &str, intake: &Intake) -> Result<SyslogHandle, ListenError> {
        let Bound { doors, datagrams, counters } = self;
        let (stop, stopping) = (Arc::new(AtomicBool::new(false)), watch::Sender::new(false));
        let mut handle = SyslogHandle { threads: Vec::new(), stop, stopping, counters };
        for (block, socket, file) in datagrams {
            let desk = Desk::new(router.clone(), intake.clone());
            let datagrams = Datagrams { socket, file, block, desk, host: host.into(), stop: handle.stop.clone() };
            handle.spawn("syslog-dgram", move || datagrams.run())?;
        }
        if !doors.is_empty() {
            let (desk, host) = (Desk::new(router.clone(), intake.clone()), host.to_owned());
            let stopping = handle.stopping.subscribe();
            handle.spawn("syslog", move || {
                if let Err(error) = stream::run(doors, desk, host, stopping) {
                    tracing::error!(%error, "failed to serve connections");
                }
            })?;
        }
        Ok(handle)
    }
}

impl SyslogHandle {
    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), ListenError> {
        let failed = |source| ListenError::Io { at: "a thread".into(), source };
        self.threads.push(std::thread::Builder::new().name(name.into()).spawn(work).map_err(failed)?);
        Ok(())
    }

    /// What they count.
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// Takes what was sent already, has it committed, and ends.
    pub fn stop(mut self) {
        self.end();
    }

    /// Whether one of them has ended, which they do by themselves only by a fault.
    pub fn has_died(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.stopping.send_replace(true);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a listener failed by a fault of its own; what it had not handed over is lost");
            }
        }
    }
}

/// A handle that is dropped stops its listeners.
impl Drop for SyslogHandle {
    fn drop(&mut self) {
        self.end();
    }
}
