//! A proxy before a central daytable: it lets requests of the backlog pass one by one, refuses large ones, and knows what passed.

use crate::server::next_request;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Bytes of a body with rows, at most: a few pages of the tests beside.
const ROWS_BYTES_MAX: usize = 6000;
/// Commits of a head when it is opened, at most.
const HEAD_COMMITS_MAX: i64 = 16;

/// A request with rows that passed.
#[derive(Clone, Debug)]
pub(super) struct Passed {
    /// `commits`, `open_head`, `compare` or `adopt`.
    pub(super) mode: String,
    /// Whether it was of the backlog, while there was a head.
    pub(super) is_backlog: bool,
    /// Of the answer; 0 if there was none.
    pub(super) status: u16,
    request: Vec<u8>,
}

pub(super) struct Gate {
    address: SocketAddr,
    state: Arc<GateState>,
}

struct GateState {
    central: SocketAddr,
    /// The last commit of the host, by its report.
    committed: AtomicI64,
    /// Where the head begins.
    head: AtomicI64,
    /// Whether only requests of the backlog are small.
    is_wide: AtomicBool,
    /// Requests of the backlog that may pass. `None` is all.
    permits: Mutex<Option<u32>>,
    permitted: Condvar,
    passed: Mutex<Vec<Passed>>,
    is_over: AtomicBool,
}

impl Gate {
    pub(super) fn new(port: u16) -> Gate {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(GateState {
            central: SocketAddr::from(([127, 0, 0, 1], port)),
            committed: AtomicI64::new(0),
            head: AtomicI64::new(i64::MAX),
            is_wide: AtomicBool::new(false),
            permits: Mutex::new(None),
            permitted: Condvar::new(),
            passed: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let its = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if its.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(client), its) = (client, its.clone()) else { continue };
                std::thread::spawn(move || {
                    // A central that was killed is a cut for the host.
                    if its.relay(&client).is_err() {
                        let _ = client.shutdown(Shutdown::Both);
                    }
                });
            }
        });
        Gate { address, state }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Lets no more requests of the backlog pass than these, until [`open`](Self::open).
    pub(super) fn permit(&self, requests: u32) {
        let mut permits = self.state.permits.lock().expect("not poisoned");
        *permits = Some(permits.unwrap_or(0) + requests);
        self.state.permitted.notify_all();
    }

    pub(super) fn open(&self) {
        *self.state.permits.lock().expect("not poisoned") = None;
        self.state.permitted.notify_all();
    }

    /// Lets requests of any size pass, but for those of the backlog.
    pub(super) fn widen(&self) {
        self.state.is_wide.store(true, Ordering::SeqCst);
    }

    pub(super) fn passed(&self) -> Vec<Passed> {
        self.state.passed.lock().expect("not poisoned").clone()
    }

    /// The requests with rows that passed, as they were sent.
    pub(super) fn requests(&self) -> Vec<Vec<u8>> {
        self.passed().into_iter().map(|passed| passed.request).collect()
    }

    /// Sends a request again, and returns the status of its answer.
    pub(super) fn repeat(&self, passed: &Passed) -> u16 {
        status_of(&self.state.ask(&passed.request).expect("an answer"))
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        self.open();
        let _ = TcpStream::connect(self.address);
    }
}

impl GateState {
    fn relay(&self, client: &TcpStream) -> io::Result<()> {
        let mut requests = BufReader::new(client);
        while let Some((request, body)) = read_message(&mut requests) {
            let answer = if request.starts_with(b"POST /forward/v1/rows") {
                self.rows(request, body)?
            } else {
                if request.starts_with(b"POST /forward/v1/hello") {
                    let hello: Value = serde_json::from_slice(&request[body..]).unwrap_or_default();
                    self.committed.store(hello["report"]["committed"].as_i64().unwrap_or(0), Ordering::SeqCst);
                }
                self.ask(&request)?
            };
            (&mut &*client).write_all(&answer)?;
        }
        Ok(())
    }

    fn rows(&self, request: Vec<u8>, body: usize) -> io::Result<Vec<u8>> {
        let head = rows_head(&request[body..]);
        let (mode, commit) =
            (head["mode"].as_str().unwrap_or_default().to_owned(), |end: &str| head[end]["commit"].as_i64());
        let (from, to) = (commit("from").unwrap_or(0), commit("to").unwrap_or(0));
        let is_open = mode == "open_head";
        let is_early = is_open && self.committed.load(Ordering::SeqCst) - to > HEAD_COMMITS_MAX;
        let is_backlog = mode == "commits" && from < self.head.load(Ordering::SeqCst);
        let is_limited = is_backlog || !self.is_wide.load(Ordering::SeqCst);
        if is_limited && request.len() - body > ROWS_BYTES_MAX || is_early {
            return Ok(b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 2\r\n\r\n{}".to_vec());
        }
        if is_backlog {
            let mut permits = self.permits.lock().expect("not poisoned");
            while *permits == Some(0) {
                permits = self.permitted.wait(permits).expect("not poisoned");
            }
            *permits = permits.map(|permits| permits - 1);
        }
        if is_open {
            self.head.store(to, Ordering::SeqCst);
        }
        let answer = self.ask(&request);
        let status = answer.as_ref().map_or(0, |answer| status_of(answer));
        self.passed.lock().expect("not poisoned").push(Passed { mode, is_backlog, status, request });
        answer
    }

    /// Sends a request over a connection of its own, and reads its answer.
    fn ask(&self, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut central = TcpStream::connect(self.central)?;
        central.set_read_timeout(Some(Duration::from_secs(30)))?;
        central.write_all(request)?;
        let answer = read_message(&mut BufReader::new(&central));
        answer.map(|(answer, _)| answer).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

fn status_of(answer: &[u8]) -> u16 {
    let line = String::from_utf8_lossy(&answer[..answer.len().min(32)]).into_owned();
    line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// The JSON at the begin of a body with rows: behind four letters, a version, and its length as a varint.
fn rows_head(body: &[u8]) -> Value {
    let (mut length, mut at) = (0usize, 5);
    while let Some(byte) = body.get(at) {
        length |= usize::from(byte & 0x7f) << (7 * (at - 5));
        at += 1;
        if byte & 0x80 == 0 {
            break;
        }
    }
    body.get(at..at + length).and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default()
}

/// A whole message, and where its body begins. `None` at the end of the connection.
fn read_message(from: &mut impl BufRead) -> Option<(Vec<u8>, usize)> {
    let (head, body) = next_request(from)?;
    let head = head + "\r\n";
    let at = head.len();
    Some(([head.into_bytes(), body].concat(), at))
}
