//! Stands between a client and Azurite, notes what is asked, and does wrong on demand.
//!
//! Connections of the client's are kept; to Azurite there is a new one for each request. What goes through unharmed is
//! passed on byte for byte, so signatures hold. A test says by a [plan](Proxy::plan) which requests go wrong and how.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// 503 `ServerBusy`, in XML; nothing is done.
    Busy,
    /// 429 with `Retry-After` of so many seconds; nothing is done.
    TooMany(u32),
    /// This status without a body, as a gateway answers; nothing is done.
    Status(u16),
    /// It is done, and answered with 500 `OperationTimedOut`.
    FailsAfter,
    /// The connection is reset before anything is done.
    ResetBefore,
    /// It is done, and the connection is reset before the answer.
    ResetAfter,
    /// It is done, and the answer ends in its midst.
    HalfAnAnswer,
    /// Nothing is done, and a transaction is answered with 202 and a part with this status and code inside, for the
    /// entity of this number.
    PartFails(u16, &'static str, usize),
    /// It is done, and a byte of the answer comes each so many milliseconds.
    Drips(u64),
    /// Nothing is done, and no answer comes.
    Silence,
    /// Nothing is done, and a page for people comes with status 200.
    WrongContent,
    /// 409 `TableBeingDeleted`; nothing is done.
    BeingDeleted,
    /// 403 `AuthenticationFailed`, in XML; nothing is done.
    Forbidden,
    /// 413 `RequestBodyTooLarge`; nothing is done.
    TooLarge,
}

impl Fault {
    /// Those after which the same request may be sent again and has to be done in the end.
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

/// A request, as it was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// `PUT`, `GET`, …
    pub(crate) method: String,
    /// The address without host.
    pub(crate) target: String,
    /// Its headers' lines.
    pub(crate) head: String,
    /// Its body.
    pub(crate) body: Vec<u8>,
    /// When it was there.
    pub(crate) at: Instant,
    /// What went wrong with it.
    pub(crate) fault: Option<Fault>,
}

impl Asked {
    /// Whether it is a transaction.
    pub(crate) fn is_transaction(&self) -> bool {
        self.target.ends_with("/$batch") || self.target.contains("/$batch?")
    }

    /// Whether its body has this text.
    pub(crate) fn tells(&self, text: &str) -> bool {
        memchr::memmem::find(&self.body, text.as_bytes()).is_some()
    }

    /// Entities of a transaction.
    pub(crate) fn entities(&self) -> usize {
        String::from_utf8_lossy(&self.body).matches("Content-Transfer-Encoding").count()
    }
}

/// Which requests go wrong: by their number, counted from 0, and what they are.
type Plan = Box<dyn FnMut(usize, &Asked) -> Option<Fault> + Send>;

/// The proxy. It ends with the test.
pub(crate) struct Proxy {
    /// Where it listens on 127.0.0.1.
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
    over: Arc<AtomicBool>,
}

struct State {
    plan: Plan,
    asked: Vec<Asked>,
    seen: usize,
    /// Whether bodies are kept for the test.
    keeps_bodies: bool,
}

impl Proxy {
    /// Starts one before a server on this port. Nothing goes wrong yet.
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
                    // A client that went away is no fault of the proxy's.
                    let _ = serve(&connection.expect("a connection"), upstream, &state, &over);
                });
            }
        });
        Proxy { port, state, over }
    }

    /// From now on requests go wrong as `plan` says. They are counted from 0 anew.
    pub(crate) fn plan(&self, plan: impl FnMut(usize, &Asked) -> Option<Fault> + Send + 'static) {
        let mut state = self.state.lock().expect("no panic");
        state.plan = Box::new(plan);
        state.seen = 0;
    }

    /// From now on all requests go wrong in this way.
    pub(crate) fn always(&self, fault: Fault) {
        self.plan(move |_, _| Some(fault));
    }

    /// From now on nothing goes wrong.
    pub(crate) fn heal(&self) {
        self.plan(|_, _| None);
    }

    /// From now on one of `every` requests goes wrong in one of these ways, drawn by `seed`.
    pub(crate) fn at_random(&self, seed: u64, every: u64, faults: &'static [Fault]) {
        let mut state = seed;
        self.plan(move |_, _| {
            // Knuth's MMIX; the high bits are the good ones.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let drawn = state >> 33;
            let index = usize::try_from(drawn / every).expect("31 bits") % faults.len();
            drawn.is_multiple_of(every).then(|| faults[index])
        });
    }

    /// Bodies are forgotten from now on, where a test sends many.
    pub(crate) fn forget_bodies(&self) {
        self.state.lock().expect("no panic").keeps_bodies = false;
    }

    /// What was asked so far, in the order it came.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state.lock().expect("no panic").asked.clone()
    }

    /// The connection string that leads through it to Azurite.
    pub(crate) fn connection_string(&self) -> String {
        super::emulator::connection_string(self.port)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
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

/// Asks Azurite: its answer as it came, but for the line that says that its connection ends.
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

/// Ends the connection by a reset.
fn reset(client: &TcpStream) -> std::io::Result<()> {
    rustix::net::sockopt::set_socket_linger(client, Some(Duration::ZERO))?;
    Ok(())
}

/// What is answered without asking Azurite.
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
