//! A proxy between a client and the daemon, which cuts a connection at a byte.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a connection waits here for the daemon's start.
const PATIENCE: Duration = Duration::from_secs(20);

/// The place of a cut.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    /// After this many bytes of the request.
    Asked(usize),
    /// After this many bytes of the response.
    Answered(usize),
}

/// Accepts connections on a port of its own until dropped.
pub(super) struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

/// No cut in this direction.
const NEVER: usize = usize::MAX;

struct State {
    daemon: PathBuf,
    /// Bytes of the request before the cut.
    asked: AtomicUsize,
    answered: AtomicUsize,
    connections: AtomicUsize,
    is_over: AtomicBool,
}

impl Proxy {
    /// A proxy for the daemon at the socket `daemon`. The daemon may be killed and started meanwhile.
    pub(super) fn start(daemon: PathBuf) -> io::Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let [asked, answered] = [NEVER, NEVER].map(AtomicUsize::new);
        let (connections, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let state = Arc::new(State { daemon, asked, answered, connections, is_over });
        let its = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if its.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(client), its) = (client, its.clone()) else { continue };
                its.connections.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || its.relay(&client));
            }
        });
        Ok(Proxy { address, state })
    }

    /// The URL for clients.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts the next connection that carries enough bytes, and no other.
    pub(super) fn cut(&self, cut: Cut) {
        let (asked, answered) = match cut {
            Cut::Asked(bytes) => (bytes, NEVER),
            Cut::Answered(bytes) => (NEVER, bytes),
        };
        self.state.asked.store(asked, Ordering::SeqCst);
        self.state.answered.store(answered, Ordering::SeqCst);
    }

    /// The number of connections so far.
    pub(super) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn relay(&self, client: &TcpStream) {
        let Ok(daemon) = connect(&self.daemon) else { return };
        let both_end = || drop((client.shutdown(Shutdown::Both), daemon.shutdown(Shutdown::Both)));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pump(client, &daemon, &self.asked);
                both_end();
            });
            pump(&daemon, client, &self.answered);
            both_end();
        });
    }
}

fn connect(daemon: &Path) -> io::Result<UnixStream> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect(daemon) {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            connected => return connected,
        }
    }
}

/// Copies bytes until the end of the input or the cut.
fn pump(mut from: impl Read, mut to: impl Write, left: &AtomicUsize) {
    let mut bytes = [0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        let through = left.load(Ordering::SeqCst);
        let is_cut = through <= length;
        if through != NEVER {
            left.store(if is_cut { NEVER } else { through - length }, Ordering::SeqCst);
        }
        if to.write_all(&bytes[..length.min(through)]).is_err() || is_cut {
            return;
        }
    }
}
