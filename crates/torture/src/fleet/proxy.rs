//! A proxy between a host and the central: it cuts, delays, repeats, reorders and refuses requests and answers, until it is told to
//! be calm.

use daytable_crash::random::Random;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Of this many requests, one is disturbed.
const ONE_IN: u64 = 3;
/// Requests that are remembered, to come again.
const REMEMBERED_MAX: usize = 12;
/// How long the central may take for an answer. It may be held or killed.
const ANSWER_PATIENCE: Duration = Duration::from_secs(20);
/// Refusals after which a request has two pages instead of 1,024.
const NARROW: u64 = 9;
/// How requests with rows begin, a refusal of their size, and what those have that ask for the newest records to go first.
const ROWS: &[u8] = b"POST /forward/v1/rows";
const TOO_LARGE: &[u8] = b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 2\r\n\r\n{}";
const OPEN_HEAD: &[u8] = b"\"mode\":\"open_head\"";
/// Bytes of a message at most.
const BYTES_MAX: usize = 128 << 20;

/// Accepts connections on a port of its own until dropped.
pub(super) struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    central: SocketAddr,
    random: Mutex<Random>,
    /// Earlier requests.
    earlier: Mutex<VecDeque<Vec<u8>>>,
    /// Requests with rows that are refused for their size, to come.
    refusals: AtomicU64,
    /// Requests that asked for the newest records to go first.
    heads: AtomicU64,
    is_calm: AtomicBool,
    is_over: AtomicBool,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// This share of 1024 of the request arrives, and then the connection ends.
    CutRequest(u64),
    /// The request arrives, and this share of the answer.
    CutAnswer(u64),
    Delayed(Duration),
    /// The request arrives twice, and the first or the last answer is passed.
    Repeated(bool),
    /// The request arrives twice at once.
    Twins,
    /// The host sees a cut, and the request arrives later, perhaps after the one that is sent instead.
    Late(Duration),
    /// An earlier request comes again, before this one or after it.
    Earlier(bool),
    /// The request is too large. The host sends half as much.
    TooLarge,
}

impl Proxy {
    pub(super) fn start(central: SocketAddr, seed: u64) -> io::Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            central,
            random: Mutex::new(Random::new(seed ^ 0x7072_6f78)),
            earlier: Mutex::default(),
            refusals: AtomicU64::new(0),
            heads: AtomicU64::new(0),
            is_calm: AtomicBool::new(true),
            is_over: AtomicBool::new(false),
        });
        let its = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if its.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(client), its) = (client, its.clone()) else { continue };
                // An error ends the connection, as the host expects of a network.
                std::thread::spawn(move || drop(its.relay(&client)));
            }
        });
        Ok(Proxy { address, state })
    }

    /// The address for the host.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Refuses requests until they have few pages.
    pub(super) fn narrow(&self) {
        self.state.refusals.store(NARROW, Ordering::SeqCst);
    }

    /// How often the host asked for the newest records to go first.
    pub(super) fn heads(&self) -> u64 {
        self.state.heads.load(Ordering::Relaxed)
    }

    /// Passes everything as it comes, or disturbs.
    pub(super) fn set_calm(&self, is_calm: bool) {
        self.state.is_calm.store(is_calm, Ordering::SeqCst);
        self.state.refusals.store(0, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn below(&self, bound: u64) -> u64 {
        self.random.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).below(bound)
    }

    fn trouble(&self) -> Option<Trouble> {
        if self.is_calm.load(Ordering::SeqCst) || self.below(ONE_IN) > 0 {
            return None;
        }
        let flag = self.below(2) == 0;
        let most = if self.below(4) == 0 { 2500 } else { 250 };
        Some(match self.below(8) {
            0 => Trouble::CutRequest(self.below(1024)),
            1 => Trouble::CutAnswer(self.below(1024)),
            2 => Trouble::Delayed(Duration::from_millis(self.below(most))),
            3 => Trouble::Repeated(flag),
            4 => Trouble::Twins,
            5 => Trouble::Late(Duration::from_millis(self.below(most))),
            6 => Trouble::TooLarge,
            _ => Trouble::Earlier(flag),
        })
    }

    fn relay(self: &Arc<State>, client: &TcpStream) -> io::Result<()> {
        let mut requests = BufReader::new(client);
        loop {
            let Some(request) = read_message(&mut requests)? else { return Ok(()) };
            if request.windows(OPEN_HEAD.len()).any(|part| part == OPEN_HEAD) {
                self.heads.fetch_add(1, Ordering::Relaxed);
            }
            let answer = self.pass(&request);
            self.remember(request);
            match answer {
                Ok((answer, true)) => (&mut &*client).write_all(&answer)?,
                Ok((answer, false)) => {
                    (&mut &*client).write_all(&answer)?;
                    return client.shutdown(Shutdown::Both);
                }
                Err(_) => return client.shutdown(Shutdown::Both),
            }
        }
    }

    fn remember(&self, request: Vec<u8>) {
        let mut earlier = self.earlier.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        earlier.push_back(request);
        if earlier.len() > REMEMBERED_MAX {
            earlier.pop_front();
        }
    }

    /// What the host gets of an answer, and whether the connection goes on.
    fn pass(self: &Arc<State>, request: &[u8]) -> io::Result<(Vec<u8>, bool)> {
        let share = |bytes: &[u8], share: u64| bytes.len() * share as usize / 1024;
        let is_refused = |left: u64| left.checked_sub(1);
        if request.starts_with(ROWS)
            && self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_refused).is_ok()
        {
            return Ok((TOO_LARGE.to_vec(), true));
        }
        match self.trouble() {
            None => Ok((self.ask(request)?, true)),
            Some(Trouble::CutRequest(part)) => {
                let mut central = TcpStream::connect(self.central)?;
                central.write_all(&request[..share(request, part)])?;
                central.shutdown(Shutdown::Both)?;
                Ok((Vec::new(), false))
            }
            Some(Trouble::CutAnswer(part)) => {
                let mut answer = self.ask(request)?;
                answer.truncate(share(&answer, part));
                Ok((answer, false))
            }
            Some(Trouble::TooLarge) if request.starts_with(ROWS) => Ok((TOO_LARGE.to_vec(), true)),
            Some(Trouble::TooLarge) => Ok((self.ask(request)?, true)),
            Some(Trouble::Delayed(time)) => {
                std::thread::sleep(time);
                Ok((self.ask(request)?, true))
            }
            Some(Trouble::Repeated(is_first)) => {
                let (first, last) = (self.ask(request), self.ask(request));
                Ok((if is_first { first? } else { last? }, true))
            }
            Some(Trouble::Twins) => {
                let (its, twin) = (self.clone(), request.to_vec());
                std::thread::spawn(move || drop(its.ask(&twin)));
                Ok((self.ask(request)?, true))
            }
            Some(Trouble::Late(time)) => {
                let (its, late) = (self.clone(), request.to_vec());
                std::thread::spawn(move || {
                    std::thread::sleep(time);
                    drop(its.ask(&late));
                });
                Ok((Vec::new(), false))
            }
            Some(Trouble::Earlier(is_before)) => {
                let earlier = {
                    let earlier = self.earlier.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    let at = self.below(earlier.len().max(1) as u64) as usize;
                    earlier.get(at).cloned()
                };
                let again = || earlier.as_ref().map(|earlier| self.ask(earlier));
                if is_before {
                    drop(again());
                }
                let answer = self.ask(request)?;
                if !is_before {
                    drop(again());
                }
                Ok((answer, true))
            }
        }
    }

    /// Sends a request over a connection of its own, and reads its answer.
    fn ask(&self, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut central = TcpStream::connect(self.central)?;
        central.set_read_timeout(Some(ANSWER_PATIENCE))?;
        central.write_all(request)?;
        let answer = read_message(&mut BufReader::new(&central))?;
        answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// A whole message with its head. `None` at the end of the connection.
fn read_message(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let (mut message, mut length) = (Vec::new(), 0);
    loop {
        let begin = message.len();
        if from.read_until(b'\n', &mut message)? == 0 {
            return if message.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        let line = String::from_utf8_lossy(&message[begin..]).to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    if length > BYTES_MAX {
        return Err(io::Error::other("the message is too long"));
    }
    let begin = message.len();
    message.resize(begin + length, 0);
    from.read_exact(&mut message[begin..])?;
    Ok(Some(message))
}
