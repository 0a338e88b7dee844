//! A proxy between a client and Azurite, which records requests and fails on demand.
//!
//! Connections of the client persist. Each request gets a new connection to Azurite. Undisturbed requests pass
//! unchanged, so their signatures stay valid. A [plan](Proxy::plan) of the test selects requests and faults.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The fault of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// 503 `ServerBusy`, in XML. The request has no effect.
    Busy,
    /// 429 with `Retry-After` of so many seconds. The request has no effect.
    TooMany(u32),
    /// This status without a body, as a gateway answers. The request has no effect.
    Status(u16),
    /// The request is done. The response is 500 `OperationTimedOut`.
    FailsAfter,
    /// The connection is reset before the request has an effect.
    ResetBefore,
    /// The request is done, and the connection is reset before the response.
    ResetAfter,
    /// The request is done, and the response is cut in the middle.
    HalfAnAnswer,
    /// The request has no effect. A transaction gets 202, with a part of this status and code for the entity of this
    /// number.
    PartFails(u16, &'static str, usize),
    /// The request is done, and a byte of the response comes every so many milliseconds.
    Drips(u64),
    /// The request has no effect, and no response comes.
    Silence,
    /// The request has no effect, and a web page comes with status 200.
    WrongContent,
    /// 409 `TableBeingDeleted`. The request has no effect.
    BeingDeleted,
    /// 403 `AuthenticationFailed`, in XML. The request has no effect.
    Forbidden,
    /// 413 `RequestBodyTooLarge`. The request has no effect.
    TooLarge,
}

impl Fault {
    /// Temporary faults: the same request may be repeated, and must succeed in the end.
    pub(crate) const PASSING: [Fault; 12] = [
        Fault::Busy,
        Fault::TooMany(0),
        Fault::Status(502),
        Fault::Status(503),
        Fault::FailsAfter,
        Fault::ResetBefore,
        Fault::ResetAfter,
        Fault::HalfAnAnswer,
        Fault::PartFails(503, "ServerBusy", 0),
        Fault::PartFails(500, "OperationTimedOut", 3),
        Fault::Drips(0),
        Fault::WrongContent,
    ];
}

/// A recorded request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// `PUT`, `GET`, …
    pub(crate) method: String,
    /// The address without host.
    pub(crate) target: String,
    /// The header lines.
    pub(crate) head: String,
    /// The body.
    pub(crate) body: Vec<u8>,
    /// The time of arrival.
    pub(crate) at: Instant,
    /// The fault of the request.
    pub(crate) fault: Option<Fault>,
}

impl Asked {
    /// Whether the request is a transaction.
    pub(crate) fn is_transaction(&self) -> bool {
        self.target.ends_with("/$batch") || self.target.contains("/$batch?")
    }

    /// Whether the body contains this text.
    pub(crate) fn tells(&self, text: &str) -> bool {
        memchr::memmem::find(&self.body, text.as_bytes()).is_some()
    }

    /// Entities of a transaction.
    pub(crate) fn entities(&self) -> usize {
        String::from_utf8_lossy(&self.body).matches("Content-Transfer-Encoding").count()
    }
}

/// Selects a fault by the number of the request, counted from 0, and by its content.
type Plan = Box<dyn FnMut(usize, &Asked) -> Option<Fault> + Send>;

/// The proxy. Dropping the value stops the proxy.
pub(crate) struct Proxy {
    /// The port on 127.0.0.1.
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
    over: Arc<AtomicBool>,
}

struct State {
    plan: Plan,
    asked: Vec<Asked>,
    seen: usize,
    /// Whether bodies are recorded.
    keeps_bodies: bool,
}

impl Proxy {
    /// Starts a proxy before the server on this port, without faults.
    pub(crate) fn start(upstream: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("an address").port();
        let state = State { plan: Box::new(|_, _| None), asked: Vec::new(), seen: 0, keeps_bodies: true };
        let (state, over) = (Arc::new(Mutex::new(state)), Arc::new(AtomicBool::new(false)));
        let (shared, is_over) = (state.clone(), over.clone());
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let (state, over) = (shared.clone(), is_over.clone());
                std::thread::spawn(move || {
                    // A client that disconnects is no fault of the proxy.
                    let _ = serve(&connection.expect("a connection"), upstream, &state, &over);
                });
            }
        });
        Proxy { port, state, over }
    }

    /// From now on requests fail according to `plan`. Their numbers start at 0 again.
    pub(crate) fn plan(&self, plan: impl FnMut(usize, &Asked) -> Option<Fault> + Send + 'static) {
        let mut state = self.state.lock().expect("no panic");
        state.plan = Box::new(plan);
        state.seen = 0;
    }

    /// From now on every request has this fault.
    pub(crate) fn always(&self, fault: Fault) {
        self.plan(move |_, _| Some(fault));
    }

    /// From now on no request fails.
    pub(crate) fn heal(&self) {
        self.plan(|_, _| None);
    }

    /// From now on one of `every` requests has one of these faults, at random with `seed`.
    pub(crate) fn at_random(&self, seed: u64, every: u64, faults: &'static [Fault]) {
        let mut state = seed;
        self.plan(move |_, _| {
            // Knuth's MMIX generator. Its high bits are the random ones.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let drawn = state >> 33;
            let index = usize::try_from(drawn / every).expect("31 bits") % faults.len();
            drawn.is_multiple_of(every).then(|| faults[index])
        });
    }

    /// Stops recording bodies, for tests with many requests.
    pub(crate) fn forget_bodies(&self) {
        self.state.lock().expect("no panic").keeps_bodies = false;
    }

    /// The requests so far, in order of arrival.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state.lock().expect("no panic").asked.clone()
    }

    /// The connection string that leads to Azurite through the proxy.
    pub(crate) fn connection_string(&self) -> String {
        super::emulator::connection_string(self.port)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn serve(client: &TcpStream, upstream: u16, state: &Mutex<State>, over: &AtomicBool) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let mut reader = BufReader::new(client);
    while let Some(mut asked) = read_request(&mut reader)? {
        let fault = {
            let mut state = state.lock().expect("no panic");
            let number = state.seen;
            state.seen += 1;
            asked.fault = (state.plan)(number, &asked);
            let body = if state.keeps_bodies { asked.body.clone() } else { Vec::new() };
            let noted = Asked {
                body,
                method: asked.method.clone(),
                target: asked.target.clone(),
                head: asked.head.clone(),
                ..asked
            };
            state.asked.push(noted);
            asked.fault
        };
        let answer = match fault {
            Some(Fault::Silence) => {
                // Until the client gives up, or the test ends.
                client.set_read_timeout(Some(Duration::from_millis(50)))?;
                while !over.load(Ordering::Relaxed) && !matches!(reader.fill_buf(), Ok([])) {}
                return Ok(());
            }
            Some(Fault::ResetBefore) => return reset(client),
            Some(fault) => match said(fault) {
                Some(answer) => answer,
                None => {
                    let answer = pass_on(&asked, upstream)?;
                    match fault {
                        Fault::ResetAfter => return reset(client),
                        Fault::HalfAnAnswer => {
                            (&mut &*client).write_all(&answer[..answer.len() / 2])?;
                            return Ok(());
                        }
                        Fault::FailsAfter => odata(
                            500,
                            "OperationTimedOut",
                            "Operation could not be completed within the specified time.",
                        ),
                        Fault::Drips(pause) => {
                            for byte in answer {
                                (&mut &*client).write_all(&[byte])?;
                                std::thread::sleep(Duration::from_millis(pause));
                            }
                            continue;
                        }
                        _ => answer,
                    }
                }
            },
            None => pass_on(&asked, upstream)?,
        };
        (&mut &*client).write_all(&answer)?;
    }
    Ok(())
}

fn read_request(reader: &mut impl BufRead) -> std::io::Result<Option<Asked>> {
    let mut head = String::new();
    loop {
        let from = head.len();
        if reader.read_line(&mut head)? == 0 {
            return Ok(None);
        }
        if head[from..].trim_end().is_empty() {
            break;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().expect("a length"))
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default().into(), words.next().unwrap_or_default().into());
    Ok(Some(Asked { method, target, head, body, at: Instant::now(), fault: None }))
}

/// Forwards a request to Azurite. Returns the response without its `Connection` header.
fn pass_on(asked: &Asked, upstream: u16) -> std::io::Result<Vec<u8>> {
    let mut server = TcpStream::connect(("127.0.0.1", upstream))?;
    server.set_nodelay(true)?;
    let head = asked.head.trim_end();
    server.write_all(&[format!("{head}\r\nConnection: close\r\n\r\n").as_bytes(), &asked.body].concat())?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(0);
    let lines = String::from_utf8_lossy(&answer[..end]).into_owned();
    let kept: Vec<&str> =
        lines.split("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("connection:")).collect();
    Ok([kept.join("\r\n").as_bytes(), &answer[end..]].concat())
}

/// Closes the connection by a reset.
fn reset(client: &TcpStream) -> std::io::Result<()> {
    rustix::net::sockopt::set_socket_linger(client, Some(Duration::ZERO))?;
    Ok(())
}

/// The response to a fault that does not reach Azurite.
fn said(fault: Fault) -> Option<Vec<u8>> {
    let xml = |status: u16, code: &str, message: &str, headers: &str| {
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><error xmlns=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\">\
             <code>{code}</code><message xml:lang=\"en-US\">{message}</message></error>"
        );
        answer(status, "application/xml", headers, &body)
    };
    Some(match fault {
        Fault::Busy => xml(503, "ServerBusy", "The server is busy.", ""),
        Fault::TooMany(seconds) => {
            let headers = format!("Retry-After: {seconds}\r\n");
            xml(429, "TooManyRequests", "Request rate is large.", &headers)
        }
        Fault::Status(status) => answer(status, "text/html", "", ""),
        Fault::PartFails(status, code, index) => {
            let error = odata_body(code, &format!("{index}:It was told to fail.\\nRequestId:proxy\\nTime:now"));
            let body = format!(
                "--batchresponse_a\r\nContent-Type: multipart/mixed; boundary=changesetresponse_b\r\n\r\n\
                 --changesetresponse_b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
                 HTTP/1.1 {status} Told\r\nContent-Type: application/json\r\n\r\n{error}\r\n\
                 --changesetresponse_b--\r\n--batchresponse_a--\r\n"
            );
            answer(202, "multipart/mixed; boundary=batchresponse_a", "", &body)
        }
        Fault::WrongContent => answer(200, "text/html", "", "<html><body>Please log in to this network.</body></html>"),
        Fault::BeingDeleted => {
            odata(409, "TableBeingDeleted", "The specified table is being deleted. Try operation later.")
        }
        Fault::Forbidden => xml(403, "AuthenticationFailed", "Server failed to authenticate the request.", ""),
        Fault::TooLarge => odata(413, "RequestBodyTooLarge", "The request body is too large."),
        Fault::FailsAfter
        | Fault::ResetBefore
        | Fault::ResetAfter
        | Fault::HalfAnAnswer
        | Fault::Drips(_)
        | Fault::Silence => return None,
    })
}

fn odata_body(code: &str, message: &str) -> String {
    format!("{{\"odata.error\":{{\"code\":\"{code}\",\"message\":{{\"lang\":\"en-US\",\"value\":\"{message}\"}}}}}}")
}

fn odata(status: u16, code: &str, message: &str) -> Vec<u8> {
    answer(status, "application/json;odata=minimalmetadata", "", &odata_body(code, message))
}

fn answer(status: u16, content_type: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status} Told\r\nx-ms-request-id: proxy\r\nContent-Type: {content_type}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
