//! A minimal S3 server for archives and lakes, which fails on demand.
//!
//! The server keeps its objects in memory, and numbers its requests. A test selects requests and faults, and inspects
//! the stored objects.

use daytable_archive::{Access, Archive, RetryPolicy};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The fault of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// The response has this status, and the request has no effect.
    Status(u16),
    /// The request is done, and the connection ends before the response.
    Hangup,
    /// The request has no effect, and no response comes.
    Silence,
    /// A PUT succeeds, but stores no object.
    KeepsNothing,
    /// A PUT stores the object without its last byte.
    KeepsLess,
    /// A PUT stores the object with one flipped bit.
    KeepsOther,
    /// A GET returns the object with one flipped bit.
    GivesOther,
    /// The response to a GET ends before its length.
    GivesLess,
    /// The response to a GET announces a shorter length.
    SaysLess,
}

impl Fault {
    pub(super) const ALL: [Fault; 11] = [
        Fault::Status(500),
        Fault::Status(503),
        Fault::Status(403),
        Fault::Hangup,
        Fault::Silence,
        Fault::KeepsNothing,
        Fault::KeepsLess,
        Fault::KeepsOther,
        Fault::GivesOther,
        Fault::GivesLess,
        Fault::SaysLess,
    ];
}

/// Selects faulty requests.
type Plan = Box<dyn Fn(usize, &Request) -> Option<Fault> + Send>;

/// The relevant parts of a request.
pub(crate) struct Request {
    /// `PUT`, `GET`, …
    pub(crate) method: String,
    /// The object name below the bucket.
    pub(crate) object: String,
    query: String,
    pub(crate) range: Option<(usize, usize)>,
    /// Whether the object is to be written only if it is absent.
    is_create: bool,
    body: Vec<u8>,
}

/// The server. Dropping the value stops the server.
pub(crate) struct Stub {
    port: u16,
    state: Arc<Mutex<State>>,
    over: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, (Vec<u8>, u64)>,
    uploads: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
    versions: u64,
    requests: usize,
    /// Bytes of all responses.
    given: u64,
    plan: Option<Plan>,
    /// Whether an object is written also if it is there and should not be.
    overwrites: bool,
}

impl Stub {
    pub(crate) fn start() -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("an address").port();
        let (state, over) = (Arc::new(Mutex::new(State::default())), Arc::new(AtomicBool::new(false)));
        let (shared, is_over) = (state.clone(), over.clone());
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let (state, over) = (shared.clone(), is_over.clone());
                std::thread::spawn(move || serve(connection.expect("a connection"), &state, &over));
            }
        });
        Stub { port, state, over }
    }

    /// The archive in the server, with this number of retries.
    pub(super) fn archive(&self, retries: usize) -> Archive {
        self.archive_with("http", retries)
    }

    /// The same archive, with this URL scheme.
    pub(super) fn archive_with(&self, scheme: &str, retries: usize) -> Archive {
        let patience = RetryPolicy {
            connect: Duration::from_secs(5),
            // Long enough for a busy machine; a test waits so long for each answer that does not come.
            request: Duration::from_secs(5),
            retries,
            retry_for: Duration::from_secs(30),
        };
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("s3");
        std::fs::write(&file, "[default]\naws_access_key_id=a\naws_secret_access_key=b\n").expect("written");
        let access = Access {
            s3_endpoint: Some(format!("{scheme}://127.0.0.1:{}", self.port)),
            s3_region: Some("here".into()),
            s3_credentials_file: Some(file),
            allow_http: true,
            ..Access::default()
        };
        Archive::open_to_write(&"s3://bucket/a".parse().expect("an address"), &access, &patience).expect("opened")
    }

    /// From now on objects are written whatever the condition is, as some servers do.
    pub(crate) fn ignore_conditions(&self) {
        self.state.lock().expect("not poisoned").overwrites = true;
    }

    /// The address of archives in the server.
    pub(crate) const ADDRESS: &str = "s3://bucket/a";

    /// The keys of `[archives]` for the server. Writes a file with credentials to `folder`.
    pub(crate) fn keys(&self, folder: &Path) -> String {
        let file = folder.join("s3");
        std::fs::write(&file, "[default]\naws_access_key_id=a\naws_secret_access_key=b\n").expect("written");
        format!(
            "allow_http = true\ns3_endpoint = \"http://127.0.0.1:{}\"\ns3_region = \"here\"\ns3_credentials_file = \"{}\"\n",
            self.port,
            file.display()
        )
    }

    /// The names of all objects.
    pub(crate) fn objects(&self) -> Vec<String> {
        self.state.lock().expect("not poisoned").objects.keys().cloned().collect()
    }

    /// From now on requests, numbered from 0, fail according to `plan`.
    pub(crate) fn wrong(&self, plan: impl Fn(usize, &Request) -> Option<Fault> + Send + 'static) {
        let mut state = self.state.lock().expect("not poisoned");
        state.requests = 0;
        state.given = 0;
        state.plan = Some(Box::new(plan));
    }

    /// From now on no request fails.
    pub(crate) fn right(&self) {
        self.wrong(|_, _| None);
    }

    /// Requests since the last plan.
    pub(crate) fn requests(&self) -> usize {
        self.state.lock().expect("not poisoned").requests
    }

    /// Bytes of responses since the last plan.
    pub(crate) fn given(&self) -> u64 {
        self.state.lock().expect("not poisoned").given
    }

    /// The stored bytes of an object.
    pub(crate) fn kept(&self, object: &str) -> Option<Vec<u8>> {
        self.state.lock().expect("not poisoned").objects.get(object).map(|(bytes, _)| bytes.clone())
    }

    /// Multipart uploads that were neither completed nor aborted.
    pub(super) fn uploads(&self) -> usize {
        self.state.lock().expect("not poisoned").uploads.len()
    }

    /// Removes all objects.
    pub(super) fn clear(&self) {
        let mut state = self.state.lock().expect("not poisoned");
        state.objects.clear();
        state.uploads.clear();
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // A last connection wakes the listener.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>, over: &AtomicBool) {
    let mut reader = BufReader::new(stream.try_clone().expect("cloned"));
    let mut writer = stream;
    while let Some(request) = read_request(&mut reader) {
        let (answer, fault) = {
            let mut state = state.lock().expect("not poisoned");
            let number = state.requests;
            state.requests += 1;
            let fault = state.plan.as_ref().and_then(|plan| plan(number, &request));
            let answer = state.answer(&request, fault);
            state.given += answer.len() as u64;
            (answer, fault)
        };
        match fault {
            Some(Fault::Silence) => {
                while !over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                return;
            }
            Some(Fault::Hangup) => return,
            _ if writer.write_all(&answer).is_err() => return,
            Some(Fault::GivesLess) => return,
            _ => {}
        }
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&length| length > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut range, mut is_create) = (0, None, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|&length| length > 0)?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "if-none-match" => is_create = value.trim() == "*",
            "content-length" => length = value.trim().parse().ok()?,
            "range" => {
                let (from, to) = value.trim().strip_prefix("bytes=")?.split_once('-')?;
                range = Some((from.parse().ok()?, to.parse::<usize>().ok()? + 1));
            }
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    // The only character of an archive's name that clients encode.
    let path = &path.replace("%3D", "=");
    let object = path.strip_prefix("/bucket").unwrap_or(path).trim_start_matches('/').to_owned();
    Some(Request { method, object, query: query.to_owned(), range, is_create, body })
}

impl State {
    fn answer(&mut self, request: &Request, fault: Option<Fault>) -> Vec<u8> {
        match fault {
            Some(Fault::Status(status)) => return plain(status, "<Error><Code>Fault</Code></Error>"),
            Some(Fault::Silence) => return Vec::new(),
            _ => {}
        }
        let part = |name: &str| request.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let keeps = |mut bytes: Vec<u8>| {
            match fault {
                Some(Fault::KeepsNothing) => return None,
                Some(Fault::KeepsLess) => drop(bytes.pop()),
                Some(Fault::KeepsOther) => bytes.iter_mut().take(1).for_each(|byte| *byte ^= 1),
                _ => {}
            }
            Some(bytes)
        };
        let upload = part("uploadId").map(str::to_owned);
        match (request.method.as_str(), upload) {
            ("POST", None) => {
                self.versions += 1;
                let id = format!("u{}", self.versions);
                self.uploads.insert(id.clone(), BTreeMap::new());
                let body = format!(
                    "<InitiateMultipartUploadResult><Bucket>bucket</Bucket><Key>k</Key><UploadId>{id}</UploadId>\
                     </InitiateMultipartUploadResult>"
                );
                plain(200, &body)
            }
            ("PUT", Some(id)) => {
                let number = part("partNumber").and_then(|number| number.parse().ok()).expect("a number");
                let Some(parts) = self.uploads.get_mut(&id) else { return plain(404, "") };
                if let Some(bytes) = keeps(request.body.clone()) {
                    parts.insert(number, bytes);
                }
                tagged(200, number.into(), "")
            }
            ("POST", Some(id)) => {
                let Some(parts) = self.uploads.remove(&id) else { return plain(404, "") };
                if let Some(bytes) = keeps(parts.into_values().collect::<Vec<_>>().concat()) {
                    self.keep(&request.object, bytes);
                }
                let body = "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>";
                plain(200, body)
            }
            ("DELETE", Some(id)) => {
                self.uploads.remove(&id);
                plain(204, "")
            }
            ("PUT", None) if request.is_create && !self.overwrites && self.objects.contains_key(&request.object) => {
                plain(412, "<Error><Code>PreconditionFailed</Code></Error>")
            }
            ("GET", None) if part("list-type").is_some() => {
                let decoded = |name: &str| part(name).map(|text| text.replace("%2F", "/").replace("%3D", "="));
                let [prefix, after] = ["prefix", "start-after"].map(|name| decoded(name).unwrap_or_default());
                plain(200, &self.listed(&prefix, &after, part("delimiter").is_some()))
            }
            ("PUT", None) => {
                if let Some(bytes) = keeps(request.body.clone()) {
                    self.keep(&request.object, bytes);
                }
                tagged(200, self.versions, "")
            }
            ("DELETE", None) => {
                self.objects.remove(&request.object);
                plain(204, "")
            }
            (method, _) => match self.objects.get(&request.object) {
                None => plain(404, if method == "HEAD" { "" } else { "<Error><Code>NoSuchKey</Code></Error>" }),
                Some((bytes, version)) => give(method, bytes, *version, request.range, fault),
            },
        }
    }

    /// The answer to a list: the objects behind a name, or with the folders in place of what is in them.
    fn listed(&self, prefix: &str, after: &str, has_folders: bool) -> String {
        let mut body = "<ListBucketResult><IsTruncated>false</IsTruncated>".to_owned();
        let mut folders = BTreeSet::new();
        for (name, (bytes, version)) in self.objects.range(prefix.to_owned()..) {
            let Some(rest) = name.strip_prefix(prefix) else { break };
            match rest.split_once('/') {
                Some((folder, _)) if has_folders => drop(folders.insert(format!("{prefix}{folder}/"))),
                _ if name.as_str() <= after => {}
                _ => body.push_str(&format!(
                    "<Contents><Key>{name}</Key><LastModified>2026-11-20T12:00:00.000Z</LastModified>\
                     <ETag>\"{version}\"</ETag><Size>{}</Size></Contents>",
                    bytes.len()
                )),
            }
        }
        body.extend(folders.iter().map(|folder| format!("<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>")));
        body + "</ListBucketResult>"
    }

    fn keep(&mut self, object: &str, bytes: Vec<u8>) {
        self.versions += 1;
        self.objects.insert(object.into(), (bytes, self.versions));
    }
}

fn give(method: &str, bytes: &[u8], version: u64, range: Option<(usize, usize)>, fault: Option<Fault>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match fault {
        Some(Fault::GivesOther) => bytes.iter_mut().for_each(|byte| *byte ^= 1),
        Some(Fault::SaysLess) => drop(bytes.pop()),
        _ => {}
    }
    let whole = bytes.len();
    let (from, to) = range.map_or((0, whole), |(from, to)| (from.min(whole), to.min(whole)));
    let status = if range.is_some() { "206 Partial Content" } else { "200 OK" };
    let mut head = format!("HTTP/1.1 {status}\r\nETag: \"{version}\"\r\nContent-Length: {}\r\n", to - from);
    if range.is_some() {
        head.push_str(&format!("Content-Range: bytes {from}-{}/{whole}\r\n", to.max(1) - 1));
    }
    head.push_str("Last-Modified: Fri, 20 Nov 2026 12:00:00 GMT\r\n\r\n");
    let mut answer = head.into_bytes();
    if method != "HEAD" {
        let less = usize::from(fault == Some(Fault::GivesLess));
        answer.extend(&bytes[from..to.saturating_sub(less).max(from)]);
    }
    answer
}

fn plain(status: u16, body: &str) -> Vec<u8> {
    tagged(status, 0, body)
}

fn tagged(status: u16, version: u64, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} Said\r\nETag: \"{version}\"\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}
