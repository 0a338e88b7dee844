//! Datagrams, with one message each. A socket has its own thread, because the kernel drops datagrams that are not read
//! in time. Datagrams beyond the rate or quota of a peer are dropped and counted here.

use super::framing::{SyslogMessage, trimmed, without_count};
use super::message_sink::{KeySequence, ListenerContext, MessageSink, PeerState, SUBMIT_AFTER};
use crate::counters::{SourceEvent, count};
use crate::rate_limit::{Now, RateLimiter, network_of};
use crate::route::RouteCaches;
use daytable_net::KernelDrops;
use daytable_net::SocketFile;
use daytable_parse::SourceProfile;
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The bytes of a buffer: one datagram, or several datagrams of one peer that the kernel coalesced.
const BUFFER_BYTES: usize = 64 << 10;
/// The number of peers whose formats are remembered.
const PEERS_MAX: usize = 4096;
/// How long a stop drains the socket.
const DRAIN: Duration = Duration::from_secs(5);

/// The interval of reading the kernel's count of drops.
const DROPS_EVERY: Duration = Duration::from_secs(1);

/// A socket of datagrams.
pub(super) enum DatagramSocket {
    Udp(UdpSocket, UdpSocketState, Arc<KernelDrops>),
    Unix(UnixDatagram),
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            DatagramSocket::Udp(socket, ..) => socket.as_fd(),
            DatagramSocket::Unix(socket) => socket.as_fd(),
        }
    }
}

/// A peer, and the formats of its messages.
struct DatagramPeer {
    name: String,
    profile: SourceProfile,
}

/// Reads datagrams until the stop and the socket is empty.
pub(super) struct Datagrams {
    pub(super) socket: DatagramSocket,
    /// The file of a unix socket.
    pub(super) file: Option<Arc<SocketFile>>,
    pub(super) block: Arc<ListenerContext>,
    pub(super) sink: MessageSink,
    pub(super) host: String,
    pub(super) stop: Arc<AtomicBool>,
}

impl Datagrams {
    pub(super) fn run(self) {
        let Datagrams { socket, file, block, mut sink, host, stop } = self;
        let mut counter = KeySequence::new(sink.source_host());
        let mut routes = RouteCaches::default();
        let mut peers: HashMap<Option<IpAddr>, DatagramPeer, foldhash::quality::RandomState> = HashMap::default();
        let mut accounts = RateLimiter::new(block.config.per_sender);
        let mut take = |sink: &mut MessageSink, address: Option<IpAddr>, bytes: &[u8], now: Now| {
            let network = address.map(network_of);
            if let Err(over) = accounts.check(&network, now) {
                return block.counters.count(SourceEvent::RecordsLimited(over.kind.label()), 1);
            }
            accounts.charge(network, 1, bytes.len() as u64, now);
            if peers.len() >= PEERS_MAX && !peers.contains_key(&address) {
                peers.clear();
            }
            let peer = peers.entry(address).or_insert_with(|| DatagramPeer {
                name: address.map_or_else(|| host.clone(), |address| address.to_string()),
                profile: SourceProfile::default(),
            });
            count(&block.counters.bytes, bytes.len() as u64);
            let text = trimmed(without_count(bytes));
            let kept = text.len().min(block.limit);
            if !text.is_empty() {
                let mut sender = PeerState { counter: &mut counter, profile: &mut peer.profile, peer: &peer.name };
                let message = SyslogMessage { bytes: &text[..kept], cut: text.len() - kept };
                sink.write(&block, &mut routes, &mut sender, message, now.ticks);
            }
        };
        let mut reader = DatagramReader::new(&socket, block.limit);
        let mut stopping: Option<Instant> = None;
        let (mut failing, mut counted) = (false, Instant::now());
        loop {
            if stopping.is_none() && stop.load(Ordering::Acquire) {
                stopping = Some(Instant::now());
            }
            let now = Now::read();
            match reader.read(&socket, |address, bytes| take(&mut sink, address, bytes, now)) {
                Ok(()) => failing = false,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if stopping.is_some() {
                        break;
                    }
                    sink.idle();
                    wait(&socket, if sink.has_rows() { SUBMIT_AFTER } else { 4 * SUBMIT_AFTER });
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    if !failing {
                        tracing::warn!(listener = block.config.name, %error, "failed to receive, retrying");
                    }
                    failing = true;
                    std::thread::sleep(SUBMIT_AFTER);
                }
            }
            if stopping.is_some_and(|since| since.elapsed() > DRAIN) {
                break;
            }
            sink.submit_if_due();
            if counted.elapsed() >= DROPS_EVERY {
                counted = Instant::now();
                count_drops(&socket, &block);
            }
        }
        sink.finish();
        // Before the socket is closed: the kernel forgets its counter then.
        count_drops(&socket, &block);
        drop(file);
    }
}

/// Counts the datagrams that the kernel dropped since the previous call.
fn count_drops(socket: &DatagramSocket, block: &ListenerContext) {
    if let DatagramSocket::Udp(_, _, drops) = socket {
        block.counters.count(SourceEvent::KernelDrops, drops.report());
    }
}

/// Waits until a datagram can be read, or until the timeout.
fn wait(socket: &DatagramSocket, patience: Duration) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
    // The next read reports a failure.
    let _ = poll(&mut [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)], Some(&timeout));
}

/// Reads into buffers.
struct DatagramReader {
    buffers: Vec<Vec<u8>>,
    metas: [RecvMeta; BATCH_SIZE],
}

impl DatagramReader {
    fn new(socket: &DatagramSocket, limit: usize) -> DatagramReader {
        let buffers = match socket {
            DatagramSocket::Udp(..) => vec![vec![0; BUFFER_BYTES]; BATCH_SIZE],
            // One byte more than the limit shows that a message was longer.
            DatagramSocket::Unix(_) => vec![vec![0; limit.max(BUFFER_BYTES) + 1]],
        };
        DatagramReader { buffers, metas: [RecvMeta::default(); BATCH_SIZE] }
    }

    /// Reads the datagrams of one system call.
    fn read(&mut self, socket: &DatagramSocket, mut each: impl FnMut(Option<IpAddr>, &[u8])) -> io::Result<()> {
        match socket {
            DatagramSocket::Udp(socket, state, _) => {
                let mut buffers = self.buffers.iter_mut();
                let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
                    std::array::from_fn(|_| IoSliceMut::new(buffers.next().map_or(&mut [], Vec::as_mut_slice)));
                let read = state.recv(UdpSockRef::from(socket), &mut slices, &mut self.metas)?;
                for (buffer, meta) in slices.iter().zip(&self.metas).take(read) {
                    let address = Some(meta.addr.ip().to_canonical());
                    // The kernel can coalesce datagrams of one size.
                    let bytes = &buffer[..meta.len.min(buffer.len())];
                    bytes.chunks(meta.stride.max(1)).for_each(|datagram| each(address, datagram));
                }
            }
            DatagramSocket::Unix(socket) => {
                let buffer = &mut self.buffers[0];
                let read = socket.recv(buffer)?;
                each(None, &buffer[..read]);
            }
        }
        Ok(())
    }
}
