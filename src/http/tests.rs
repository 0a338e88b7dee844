//! The listeners over real sockets, with a client that shows every byte and an API of fakes.

mod client;

use super::*;
use client::{Client, Response};
use daytable_intake::tail::ImportFile;
use daytable_platform::reloadable::Reloadable;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than any step of these tests on a busy machine.
const LONG: Duration = Duration::from_secs(20);

type Fake<P> = Box<dyn Fn(&P, &mut ResponseWriter) -> ApiResult + Send + Sync>;

/// An API whose methods can be replaced; the others write no line.
struct FakeApi {
    query: Fake<QueryParams>,
    tail: Fake<FilterParams>,
    drop_table: Fake<str>,
    import: Fake<ImportRequest>,
}

impl Default for FakeApi {
    fn default() -> FakeApi {
        FakeApi {
            query: Box::new(|_, _| Ok(())),
            tail: Box::new(|_, _| Ok(())),
            drop_table: Box::new(|_, _| Ok(())),
            import: Box::new(|_, _| Ok(())),
        }
    }
}

impl Api for FakeApi {
    fn metrics(&self) -> String {
        "some_metric 1\n".into()
    }

    fn query(&self, params: &QueryParams, out: &mut ResponseWriter) -> ApiResult {
        (self.query)(params, out)
    }

    fn ask(&self, _: &RecordQuestion, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn ledgers(&self, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn export(&self, params: &ExportParams, out: &mut ResponseWriter) -> ApiResult {
        (self.query)(&QueryParams { filters: params.filters.clone(), n: params.n }, out)
    }

    fn summary(&self, _: &SummaryParams, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn context(&self, _: &ContextParams, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn count(&self, _: &CountParams, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn tail(&self, params: &FilterParams, out: &mut ResponseWriter) -> ApiResult {
        (self.tail)(params, out)
    }

    fn patterns(&self, _: &FilterParams, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn log_entries(
        &self,
        _: &QuestionClock,
        _: &Visibility,
        _: &mut dyn FnMut(&dyn daytable_logql::eval::EntrySource),
    ) -> Result<(), LokiError> {
        Err(LokiError::failed("no entries"))
    }

    fn follow_log_entries(
        &self,
        _: &daytable_logql::ast::Selector,
        _: &Visibility,
        _: &mut dyn FnMut(Option<daytable_logql::source::LogEntry>) -> std::ops::ControlFlow<()>,
    ) -> ApiResult {
        Ok(())
    }

    fn tables(&self, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn sources(&self, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn alerts(&self, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn saved_queries(&self, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn drop_table(&self, params: &DropParams, out: &mut ResponseWriter) -> ApiResult {
        (self.drop_table)(&params.table, out)
    }

    fn status(&self, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn verify(&self, _: bool, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn plan(&self, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn files(&self, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn archive(&self, _: &str, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn restore(&self, _: &RestoreRequest, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn reload(&self, _: &mut ResponseWriter) -> ApiResult {
        Ok(())
    }

    fn import(&self, request: &ImportRequest, _: Vec<ImportFile>, out: &mut ResponseWriter) -> ApiResult {
        (self.import)(request, out)
    }
}

/// An API with this query.
fn querying(query: impl Fn(&QueryParams, &mut ResponseWriter) -> ApiResult + Send + Sync + 'static) -> FakeApi {
    FakeApi { query: Box::new(query), ..FakeApi::default() }
}

/// An API whose tail fixes its position, writes `lines`, waits until the client disconnects, and reports that.
fn following(lines: usize) -> (FakeApi, mpsc::Receiver<()>) {
    let (ended, receiver) = mpsc::channel();
    let tail = move |_: &FilterParams, out: &mut ResponseWriter| {
        out.begin();
        for line in 0..lines {
            out.line(&json!({ "line": line }));
        }
        while out.is_wanted() {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        // The test may be over.
        let _ = ended.send(());
        Ok(())
    };
    (FakeApi { tail: Box::new(tail), ..FakeApi::default() }, receiver)
}

/// Both listeners of one daemon, served.
struct Daemon {
    tcp: std::net::SocketAddr,
    socket: PathBuf,
    counters: Arc<HttpCounters>,
    readiness: Arc<Readiness>,
    context: Arc<ServerContext>,
    serving: Vec<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Daemon {
    async fn start(api: FakeApi, limits: HttpLimits, token: Option<&str>) -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("control.sock");
        let (counters, readiness) = (Arc::new(HttpCounters::default()), Arc::new(Readiness::default()));
        let shared = ServerContext::new(api, counters.clone(), readiness.clone(), limits.clone());
        let tcp = Listener::tcp("127.0.0.1:0").await.expect("bound");
        let unix = Listener::unix(&socket).expect("bound");
        let address = tcp.tcp_address().expect("a port");
        let token = token.map(|token| ReadTokenFile::without_file(ReadToken::new(token).expect("a token")));
        let (reading, pushing) = (Reloadable::new(token), Reloadable::new(PushAuth::open(counters.clone())));
        let doors = [(tcp, ListenerKind::Tcp { reading, pushing }), (unix, ListenerKind::Unix)];
        let serving = doors.map(|(listener, door)| {
            tokio::spawn(serve(
                listener,
                router(shared.clone(), door, None),
                limits.clone(),
                counters.clone(),
                readiness.draining(),
            ))
        });
        let (context, serving) = (shared, serving.into());
        Daemon { tcp: address, socket, counters, readiness, context, serving, _folder: folder }
    }

    async fn with(api: FakeApi) -> Daemon {
        Daemon::start(api, HttpLimits::default(), None).await
    }

    async fn tcp(&self) -> Client {
        Client::tcp(self.tcp).await
    }

    async fn unix(&self) -> Client {
        Client::unix(&self.socket).await
    }

    /// One request over the socket.
    async fn get(&self, path: &str) -> Response {
        self.unix().await.get(path).await
    }

    /// Waits until both listeners have drained.
    async fn stopped(self) {
        for serving in self.serving {
            timeout(LONG, serving).await.expect("in time").expect("no panic");
        }
    }
}

/// Waits for the signal of a fake, off the runtime.
async fn signalled(receiver: mpsc::Receiver<()>) {
    let heard = tokio::task::spawn_blocking(move || receiver.recv_timeout(LONG)).await.expect("no panic");
    heard.expect("the scan was stopped");
}

#[tokio::test]
async fn permissions_by_route_and_listener() {
    let with_token = Daemon::start(FakeApi::default(), HttpLimits::default(), Some("s3cret")).await;
    let without = Daemon::start(FakeApi::default(), HttpLimits::default(), None).await;
    let right = "authorization: Bearer s3cret\r\n";
    let wrong = "authorization: Bearer guess\r\n";
    for api in ["/api/query", "/api/count", "/api/tail", "/api/patterns", "/api/tables", "/api/sources"] {
        for (headers, status) in [("", 401), (wrong, 401), (right, 200)] {
            let answer = with_token.tcp().await.send("GET", api, headers, "").await;
            assert_eq!(answer.status, status, "{api} {headers}");
            assert_eq!(answer.header("www-authenticate").is_some(), status == 401);
        }
        let answer = without.tcp().await.send("GET", api, right, "").await;
        assert_eq!(answer.status, 403);
        assert!(answer.body.contains("http.token_file"), "{}", answer.body);
        assert_eq!(without.get(api).await.status, 200);
        assert_eq!(with_token.get(api).await.status, 200);
    }
    for open in ["/metrics", "/healthz"] {
        assert_eq!(without.tcp().await.get(open).await.status, 200);
        assert_eq!(without.get(open).await.status, 200);
    }
}

#[tokio::test]
async fn control_is_for_the_socket_and_not_for_browsers() {
    let (sender, receiver) = mpsc::channel();
    let drop_table = move |table: &str, out: &mut ResponseWriter| {
        sender.send(table.to_owned()).expect("heard");
        out.line(&json!({ "dropped": true }));
        Ok(())
    };
    let api = FakeApi { drop_table: Box::new(drop_table), ..FakeApi::default() };
    let daemon = Daemon::start(api, HttpLimits::default(), Some("s3cret")).await;
    let path = "/-/drop?table=Log20261121";
    let right = "authorization: Bearer s3cret\r\n";
    assert_eq!(daemon.tcp().await.send("POST", path, right, "").await.status, 404);
    assert_eq!(daemon.unix().await.send("POST", path, "origin: http://evil\r\n", "").await.status, 403);
    assert_eq!(daemon.get(path).await.status, 405);
    assert_eq!(daemon.unix().await.send("POST", "/-/drop", "", "").await.status, 400);
    assert!(receiver.try_recv().is_err(), "none of these reached the store");
    let answer = daemon.unix().await.send("POST", path, "", "").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "{\"dropped\":true}\n"));
    assert_eq!(receiver.try_recv().as_deref(), Ok("Log20261121"));
}

#[tokio::test]
async fn an_import_takes_absolute_paths_with_open_files() {
    let import = |import: &ImportRequest, out: &mut ResponseWriter| {
        for path in &import.paths {
            out.line(path);
        }
        Err(ApiError::Failed("the disk is full".into()))
    };
    let daemon = Daemon::with(FakeApi { import: Box::new(import), ..FakeApi::default() }).await;
    let refused = ["", "{}", "{\"paths\":[]}", "{\"paths\":[\"app.log\"]}", "{\"paths\":[\"/a\"],\"force\":true}"];
    for body in refused {
        assert_eq!(daemon.unix().await.send("POST", "/-/import", "", body).await.status, 400, "{body}");
    }
    let long = format!("{{\"paths\":[\"/{}\"]}}", "x".repeat(1 << 20));
    assert_eq!(daemon.unix().await.send("POST", "/-/import", "", &long).await.status, 400);
    let answer = daemon.unix().await.send("POST", "/-/import", "", "{\"paths\":[\"/etc/shadow\"]}").await;
    let reason = "{\"error\":\"parameter paths: names 1 files, and 0 came: `daytable import` passes them\"}\n";
    assert_eq!((answer.status, answer.body.as_str()), (400, reason), "the daemon opens no path of a client");
}

#[tokio::test]
async fn bad_parameters_are_400_and_named_before_anything_is_read() {
    let daemon = Daemon::with(querying(|params, _| match &params.filters.level {
        Some(level) => Err(ApiError::parameter("level", format!("{level} is not a level"))),
        None => panic!("read with bad parameters"),
    }))
    .await;
    for (path, named) in [
        ("/api/query?n=0", "parameter n"),
        ("/api/query?n=1000001", "parameter n"),
        ("/api/query?colour=red", "parameter colour"),
        ("/api/query?level=loud", "parameter level: loud is not a level"),
        ("/api/count?n=5", "parameter n"),
        ("/api/tail?n=5", "parameter n"),
        ("/api/tables?x=1", "parameter x"),
    ] {
        let answer = daemon.get(path).await;
        assert_eq!(answer.status, 400, "{path}");
        let json: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        assert!(json["error"].as_str().is_some_and(|error| error.starts_with(named)), "{}", answer.body);
    }
}

#[tokio::test]
async fn an_error_before_the_first_byte_is_a_status() {
    for (error, status) in [
        (ApiError::NotFound("table Log20261121 is gone".into()), 404),
        (ApiError::Refused("it is being archived".into()), 409),
        (ApiError::Busy("too much".into()), 503),
        (ApiError::Failed("a page is damaged".into()), 500),
        (ApiError::OutOfTime("its time limit is over".into()), 504),
    ] {
        let text = error.to_string();
        let answer = Daemon::with(querying(move |_, _| Err(error.clone()))).await.get("/api/query").await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.body, format!("{{\"error\":\"{text}\"}}\n"));
        assert_eq!(answer.header("retry-after").is_some(), status == 503);
    }
}

/// `n` lines of about 100 bytes.
fn lines(n: usize, out: &mut ResponseWriter) {
    let text = "x".repeat(90);
    for line in 0..n {
        out.line(&json!({ line.to_string(): text }));
    }
}

#[tokio::test]
async fn a_small_answer_has_a_length_and_a_large_one_comes_whole_in_parts() {
    let daemon = Daemon::with(querying(|params, out| {
        lines(usize::try_from(params.n).expect("small"), out);
        Ok(())
    }))
    .await;
    let mut client = daemon.unix().await;
    for (n, parts) in [(1, false), (100, false), (100_000, true), (2, false)] {
        let answer = client.get(&format!("/api/query?n={n}")).await;
        assert_eq!((answer.status, answer.body.lines().count()), (200, n));
        assert_eq!(answer.header("content-length").is_none(), parts);
        assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    }
}

#[tokio::test]
async fn an_error_in_the_middle_is_the_last_line() {
    let daemon = Daemon::with(querying(|_, out| {
        lines(1000, out);
        Err(ApiError::NotFound("table Log20261121 is gone".into()))
    }))
    .await;
    let answer = daemon.get("/api/query").await;
    assert_eq!((answer.status, answer.body.lines().count()), (200, 1001));
    assert_eq!(answer.body.lines().last(), Some("{\"error\":\"table Log20261121 is gone\"}"));
}

/// A value without JSON, like a path that is not UTF-8.
struct NotJson;

impl serde::Serialize for NotJson {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("it has no JSON"))
    }
}

#[tokio::test]
async fn an_answer_that_lacks_a_line_never_looks_whole() {
    for before in [0, 1, 100_000] {
        let answer = Daemon::with(querying(move |_, out| {
            lines(before, out);
            // The writer continues, as after a written line.
            assert!(out.line(&NotJson));
            lines(1, out);
            Ok(())
        }));
        let answer = answer.await.get("/api/query").await;
        let last = answer.body.lines().last().unwrap_or_default();
        assert!(last.starts_with("{\"error\":"), "{before} lines before: {last}");
        assert_eq!(answer.status == 200, before == 100_000);
    }
}

#[tokio::test]
async fn a_scan_that_panics_breaks_its_own_answer_and_nothing_else() {
    let daemon = Daemon::with(querying(|params, out| {
        lines(usize::try_from(params.n).expect("small"), out);
        panic!("a fault of ours")
    }))
    .await;
    assert_eq!(daemon.get("/api/query?n=1").await.status, 500);
    let broken = daemon.unix().await.try_send("GET", "/api/query?n=1000", "", "").await;
    assert!(broken.is_err(), "a part must not look like the whole");
    assert_eq!(daemon.get("/api/tables").await.status, 200);
}

#[tokio::test]
async fn a_disconnected_client_stops_its_scan_even_without_results() {
    for finds in [true, false] {
        let (ended, receiver) = mpsc::channel();
        let (began, begins) = mpsc::channel();
        let daemon = Daemon::with(querying(move |_, out| {
            began.send(()).expect("heard");
            while if finds { out.line(&json!({})) } else { out.is_wanted() } {}
            ended.send(()).expect("heard");
            Ok(())
        }))
        .await;
        let mut client = daemon.unix().await;
        client.write("GET /api/query HTTP/1.1\r\nhost: x\r\n\r\n").await;
        signalled(begins).await;
        drop(client);
        signalled(receiver).await;
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_and_its_scan_ends() {
    let (ended, receiver) = mpsc::channel();
    let api = querying(move |_, out| {
        while out.line(&json!({ "some": "line" })) {}
        ended.send(()).expect("heard");
        Ok(())
    });
    let limits = HttpLimits { write_timeout: Duration::from_millis(50), ..HttpLimits::default() };
    let daemon = Daemon::start(api, limits, None).await;
    let mut client = daemon.unix().await;
    client.write("GET /api/query HTTP/1.1\r\nhost: x\r\n\r\n").await;
    signalled(receiver).await;
    drop(client);
}

#[tokio::test]
async fn sixty_four_scans_get_an_answer_beside_a_client_that_reads_nothing() {
    let (began, begins) = mpsc::channel();
    let api = querying(move |params, out| {
        if params.n == 7 {
            let _ = began.send(());
            while out.line(&json!({ "some": "line" })) {}
            return Ok(());
        }
        // Longer than a time slice.
        let since = std::time::Instant::now();
        while since.elapsed() < Duration::from_millis(6) {
            daytable_platform::scan_scheduler::yield_now();
        }
        out.line(&json!({ "an": "answer" }));
        Ok(())
    });
    let daemon = Daemon::with(api).await;
    let mut silent = Vec::new();
    // As many as there are CPU slots on a small host, and fewer than places for scans.
    for _ in 0..4 {
        let mut client = daemon.unix().await;
        client.write("GET /api/query?n=7 HTTP/1.1\r\nhost: x\r\n\r\n").await;
        silent.push(client);
    }
    signalled(begins).await;
    let mut askers = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let mut client = daemon.unix().await;
        askers.spawn(async move {
            client.write("GET /api/query HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
            client.rest().await
        });
    }
    for answer in timeout(LONG, askers.join_all()).await.expect("in time") {
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("answer"), "{answer}");
    }
    drop(silent);
}

#[tokio::test]
async fn a_client_that_is_slow_with_its_head_is_cut() {
    let limits = HttpLimits { header_read: Duration::from_millis(50), ..HttpLimits::default() };
    let daemon = Daemon::start(FakeApi::default(), limits, None).await;
    for head in ["", "GET /healthz HTTP/1.1\r\nhost: x\r\n"] {
        let mut client = daemon.tcp().await;
        client.write(head).await;
        assert_eq!(timeout(LONG, client.rest()).await.expect("cut"), "", "without an answer");
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let daemon = Daemon::with(FakeApi::default()).await;
    let long = format!("x: {}\r\n", "y".repeat(64 << 10));
    let many = "x: y\r\n".repeat(65);
    for headers in [long, many] {
        let refused = daemon.tcp().await.send("GET", "/healthz", &headers, "").await;
        assert_eq!(refused.status, 431);
        assert!(refused.body.contains("at most 16384 bytes and 64 headers"), "{}", refused.body);
    }
}

/// A query of the language has up to 64 KiB.
#[tokio::test]
async fn a_long_query_comes_as_a_form_and_a_longer_form_is_refused() {
    let daemon = Daemon::with(querying(|params, out| {
        out.line(&params.filters.q.as_ref().map_or(0, String::len));
        Ok(())
    }))
    .await;
    let query = format!("q={}", "%22".repeat(64 << 10));
    let answer = daemon.unix().await.send("POST", "/api/query?n=5", "", &query).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "65536\n"));
    let refused = daemon.unix().await.send("POST", "/api/query", "", &query.repeat(2)).await;
    assert_eq!(refused.status, 413);
    assert!(refused.body.contains("more than 262144 bytes"), "{}", refused.body);
    let twice = daemon.unix().await.send("POST", "/api/query?n=5", "", "n=6").await;
    assert_eq!(twice.status, 400, "{}", twice.body);
    // Forms reach every route that reads, and the routes of Loki.
    for path in
        ["count", "stats", "hits", "facets", "fields", "values", "patterns", "context", "export", "tail", "tables"]
    {
        let wrong = daemon.unix().await.send("POST", &format!("/api/{path}"), "", "colour=red").await;
        assert_eq!(wrong.status, 400, "{path}: {}", wrong.body);
        assert!(wrong.body.contains("parameter colour"), "{path}: {}", wrong.body);
    }
    let loki = daemon.unix().await.send("POST", "/loki/api/v1/query_range", "", &query.repeat(2)).await;
    assert_eq!(loki.status, 413, "{}", loki.body);
}

/// Previews of a link look at it before its user opens it.
#[tokio::test]
async fn whoever_looks_at_a_link_leaves_its_code() {
    let daemon = Daemon::with(FakeApi::default()).await;
    let code = daemon.context.sessions.issue_code(std::time::Instant::now()).expect("random bytes");
    let path = format!("/open/{code}");
    let looks = [
        ("HEAD", ""),
        ("GET", "sec-purpose: prefetch\r\n"),
        ("GET", "purpose: prefetch\r\n"),
        ("GET", "sec-fetch-mode: no-cors\r\n"),
    ];
    for (method, headers) in looks {
        let looked = daemon.tcp().await.send(method, &path, headers, "").await;
        assert_eq!((looked.status, looked.header("set-cookie")), (204, None), "{method} {headers}");
    }
    let opened = daemon.tcp().await.send("GET", &path, "sec-fetch-mode: navigate\r\n", "").await;
    assert_eq!(opened.status, 303);
    assert!(opened.header("set-cookie").is_some());
    assert_eq!(daemon.tcp().await.send("GET", &path, "", "").await.status, 410);
}

#[tokio::test]
async fn a_connection_above_the_limit_waits_for_a_place() {
    let (sender, receiver) = mpsc::channel();
    let api = querying(move |params, _| {
        sender.send(params.n).expect("heard");
        Ok(())
    });
    let daemon = Daemon::start(api, HttpLimits { connections: 1, ..HttpLimits::default() }, None).await;
    let mut first = daemon.unix().await;
    first.get("/api/query?n=1").await;
    let mut second = daemon.unix().await;
    second.write("GET /api/query?n=2 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    for _ in 0..50 {
        first.get("/api/query?n=1").await;
    }
    drop(first);
    assert!(second.rest().await.starts_with("HTTP/1.1 200"));
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [[1; 51].as_slice(), &[2]].concat());
}

#[tokio::test]
async fn too_many_scans_are_turned_away_and_come_again() {
    let (began, begins) = mpsc::channel();
    let go = Arc::new(AtomicBool::new(false));
    let gone = go.clone();
    let api = querying(move |_, _| {
        began.send(()).expect("heard");
        while !gone.load(Ordering::Acquire) {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Ok(())
    });
    let scan_wait = Duration::from_millis(20);
    let limits = HttpLimits { scans: 1, scan_wait, scans_waiting: 1, ..HttpLimits::default() };
    let daemon = Daemon::start(api, limits, None).await;
    let mut first = daemon.unix().await;
    first.write("GET /api/query HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    signalled(begins).await;
    let refused = daemon.get("/api/tables").await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    go.store(true, Ordering::Release);
    assert!(first.rest().await.starts_with("HTTP/1.1 200"));
    assert_eq!(daemon.get("/api/tables").await.status, 200);
}

#[tokio::test]
async fn scans_wait_for_their_turn_and_a_full_queue_turns_away_at_once() {
    let (began, begins) = mpsc::channel();
    let go = Arc::new(AtomicBool::new(false));
    let gone = go.clone();
    let api = querying(move |_, _| {
        // The test waits for the first one.
        let _ = began.send(());
        while !gone.load(Ordering::Acquire) {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Ok(())
    });
    let limits = HttpLimits { scans: 1, scan_wait: LONG, scans_waiting: 1, ..HttpLimits::default() };
    let daemon = Daemon::start(api, limits, None).await;
    let request = "GET /api/query HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let mut first = daemon.unix().await;
    first.write(request).await;
    signalled(begins).await;
    let mut others = tokio::task::JoinSet::new();
    for mut client in [daemon.unix().await, daemon.unix().await] {
        others.spawn(async move {
            client.write(request).await;
            client.rest().await
        });
    }
    let refused = others.join_next().await.expect("two").expect("no panic");
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after: 1"), "{refused}");
    go.store(true, Ordering::Release);
    assert!(!first.rest().await.contains("server-timing"));
    let waited = others.join_next().await.expect("one more").expect("no panic");
    assert!(waited.starts_with("HTTP/1.1 200") && waited.contains("server-timing: wait;dur="), "{waited}");
}

#[tokio::test]
async fn a_follower_gets_events_then_heartbeats_and_frees_its_place_at_its_end() {
    let (api, receiver) = following(2);
    let limits = HttpLimits { followers: 1, heartbeat: Duration::from_millis(20), ..HttpLimits::default() };
    let daemon = Daemon::start(api, limits, None).await;
    let mut client = daemon.unix().await;
    client.write("GET /api/tail?level=error HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let seen = timeout(LONG, client.until(":\n\n")).await.expect("a heartbeat");
    assert!(seen.contains("content-type: text/event-stream"), "{seen}");
    let (one, two) = (seen.find("data: {\"line\":0}\n\n"), seen.find("data: {\"line\":1}\n\n"));
    assert!(one.is_some() && one < two, "{seen}");
    let refused = daemon.get("/api/tail").await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    drop(client);
    signalled(receiver).await;
}

#[tokio::test]
async fn draining_ends_followers_and_answers_open_requests() {
    let (mut api, receiver) = following(1);
    let (began, begins) = mpsc::channel();
    let go = Arc::new(AtomicBool::new(false));
    let gone = go.clone();
    api.query = Box::new(move |_, out| {
        began.send(()).expect("heard");
        while !gone.load(Ordering::Acquire) {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        out.line(&json!({ "late": 1 }));
        Ok(())
    });
    let daemon = Daemon::with(api).await;
    let (mut idle, mut open, mut follower) = (daemon.unix().await, daemon.unix().await, daemon.follower().await);
    idle.get("/healthz").await;
    open.write("GET /api/query HTTP/1.1\r\nhost: x\r\n\r\n").await;
    signalled(begins).await;
    follower.until("data: ").await;
    daemon.readiness.drain();
    assert!(timeout(LONG, follower.rest()).await.expect("sent away").ends_with("\r\n0\r\n\r\n"), "with a clean end");
    signalled(receiver).await;
    assert_eq!(timeout(LONG, idle.rest()).await.expect("closed"), "");
    go.store(true, Ordering::Release);
    assert!(timeout(LONG, open.rest()).await.expect("answered").ends_with("{\"late\":1}\n"));
    let (tcp, socket) = (daemon.tcp, daemon.socket.clone());
    daemon.stopped().await;
    assert!(tokio::net::TcpStream::connect(tcp).await.is_err() && !socket.exists());
}

#[tokio::test]
async fn draining_has_an_end() {
    let (ended, receiver) = mpsc::channel();
    let (began, begins) = mpsc::channel();
    let api = querying(move |_, out| {
        began.send(()).expect("heard");
        while out.is_wanted() {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        ended.send(()).expect("heard");
        Ok(())
    });
    let daemon =
        Daemon::start(api, HttpLimits { drain: Duration::from_millis(50), ..HttpLimits::default() }, None).await;
    let mut client = daemon.unix().await;
    client.write("GET /api/query HTTP/1.1\r\nhost: x\r\n\r\n").await;
    signalled(begins).await;
    daemon.readiness.drain();
    daemon.stopped().await;
    signalled(receiver).await;
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn health_readiness_and_metrics_show_the_state() {
    let daemon = Daemon::with(FakeApi::default()).await;
    assert_eq!(daemon.get("/healthz").await.body, "ok\n");
    let unready = daemon.get("/readyz").await;
    assert_eq!((unready.status, unready.body.as_str()), (503, "the store is not open\n"));
    daemon.readiness.store_open(true);
    daemon.readiness.listeners_bound();
    assert_eq!(daemon.get("/readyz").await.status, 200);
    daemon.get("/made/up").await;
    let metrics = daemon.get("/metrics").await;
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(metrics.body, "some_metric 1\n");
    let requests = daemon.counters.requests();
    assert_eq!((requests[&(503, "/readyz")], requests[&(200, "/readyz")], requests[&(404, "other")]), (1, 1, 1));
}
