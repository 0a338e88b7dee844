//! Accounts without keys: Azurite accepts tokens of Entra ID alone, over TLS, and checks who they are of and when they end; a small
//! server hands them out as Entra ID and as the metadata services of machines do, and fails on demand.

use super::emulator::connection_string;
use crate::authority::certificates;
use crate::place::{DAYTABLE, Daemon, PATIENCE, Place, installed, numbered, wait_for};
use crate::server::{Server, free_port, next_request};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

/// What must be in no log and in no output.
const SECRET: &str = "c2VjcmV0-of-the-application";
const ASSERTION: &str = "ZmVkZXJhdGVk-of-the-workload";

/// What the identity server does with a request.
#[derive(Clone, Copy, Debug)]
enum Grant {
    /// A token for storage that lasts so many seconds; of a negative number, it has ended.
    Lasting(i64),
    /// A token for another service.
    OfAnother,
    /// This status, with this body and these headers.
    Status(u16, &'static str, &'static str),
    /// The connection ends without an answer.
    Cut,
}

/// A request for a token.
#[derive(Clone, Debug)]
struct Asked {
    line: String,
    head: String,
    body: String,
}

/// What is decided by number and content of a request.
type Plan = Box<dyn FnMut(usize, &Asked) -> Grant + Send>;

/// Entra ID, and the metadata services of Azure, of AWS and of Google.
struct IdentityServer {
    port: u16,
    state: Arc<Mutex<State>>,
}

struct State {
    plan: Plan,
    asked: Vec<Asked>,
    /// All tokens that were handed out.
    tokens: BTreeSet<String>,
}

impl IdentityServer {
    fn start(plan: impl FnMut(usize, &Asked) -> Grant + Send + 'static) -> IdentityServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("an address").port();
        let plan: Plan = Box::new(plan);
        let state = Arc::new(Mutex::new(State { plan, asked: Vec::new(), tokens: BTreeSet::new() }));
        let shared = state.clone();
        // The thread ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        IdentityServer { port, state }
    }

    fn asked(&self) -> Vec<Asked> {
        self.state.lock().expect("no panic").asked.clone()
    }

    fn tokens(&self) -> BTreeSet<String> {
        self.state.lock().expect("no panic").tokens.clone()
    }

    fn plan(&self, plan: impl FnMut(usize, &Asked) -> Grant + Send + 'static) {
        let mut state = self.state.lock().expect("no panic");
        state.plan = Box::new(plan);
        state.asked.clear();
    }
}

/// A token as Entra ID writes it, but unsigned. Each has another number.
fn token(audience: &str, lasts: i64, number: usize) -> String {
    let now = daytable_model::time::now().unix_seconds();
    let part = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let head = part(serde_json::json!({ "alg": "none", "typ": "JWT" }));
    let claims = part(serde_json::json!({
        "aud": audience, "iss": "https://sts.windows.net/tenant/", "iat": now - 7200, "nbf": now - 7200, "exp": now + lasts,
        "number": number,
    }));
    format!("{head}.{claims}.{}", BASE64_URL_SAFE_NO_PAD.encode("unsigned"))
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let mut stream = stream;
    while let Some((head, body)) = next_request(&mut reader) {
        let (line, head) = head.split_once("\r\n").expect("a line");
        let body = String::from_utf8(body).expect("a form");
        let asked = Asked { line: line.to_owned(), head: head.to_ascii_lowercase(), body };
        let (status, more, answer) = {
            let mut state = state.lock().expect("no panic");
            let number = state.asked.len();
            let grant = (state.plan)(number, &asked);
            state.asked.push(asked.clone());
            let (audience, lasts) = match grant {
                Grant::Lasting(lasts) => ("https://storage.azure.com", lasts),
                Grant::OfAnother => ("https://graph.microsoft.com", 3600),
                Grant::Status(..) | Grant::Cut => ("", 0),
            };
            match grant {
                Grant::Cut => return,
                Grant::Status(status, more, body) => (status, more, body.to_owned()),
                _ => {
                    let token = token(audience, lasts, number);
                    state.tokens.insert(token.clone());
                    (200, "", granted(&asked, &token, lasts))
                }
            }
        };
        let answer = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{more}\r\n{answer}",
            answer.len()
        );
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// The answer with a token, in the form of the service that was asked.
fn granted(asked: &Asked, token: &str, lasts: i64) -> String {
    let on = daytable_model::time::now().unix_seconds() + lasts;
    if asked.line.starts_with("GET /metadata/identity/") {
        // Numbers are texts there.
        format!("{{\"access_token\":\"{token}\",\"expires_on\":\"{on}\",\"token_type\":\"Bearer\"}}")
    } else {
        format!("{{\"token_type\":\"Bearer\",\"expires_in\":{},\"access_token\":\"{token}\"}}", lasts.max(0))
    }
}

/// Azurite with TLS, which takes tokens.
struct TokenAzurite {
    port: u16,
    /// The authority of its certificate.
    authority: PathBuf,
    _server: Server,
}

impl TokenAzurite {
    /// `tables` or `blobs`.
    fn start(place: &Place, service: &str) -> TokenAzurite {
        let (authority, certificate, key) = certificates(place);
        let (port, kind) = (free_port(), if service == "tables" { "table" } else { "blob" });
        let mut azurite = Command::new("node");
        azurite.arg(installed(&format!("node/node_modules/azurite/dist/src/{kind}/main.js")));
        azurite.args([&format!("--{kind}Host"), "127.0.0.1", &format!("--{kind}Port"), &port.to_string()]);
        azurite.args(["--silent", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]);
        azurite.args(["--oauth", "basic"]).arg("--cert").arg(certificate).arg("--key").arg(key);
        azurite.current_dir(place.path("logs"));
        TokenAzurite { port, authority, _server: Server::start(azurite, port) }
    }

    fn endpoint(&self) -> String {
        format!("https://127.0.0.1:{}/devstoreaccount1", self.port)
    }
}

/// A place whose store is reached by an identity.
struct Keyless {
    place: Place,
    azurite: TokenAzurite,
    identities: IdentityServer,
}

impl Keyless {
    fn new(plan: impl FnMut(usize, &Asked) -> Grant + Send + 'static) -> Keyless {
        let place = Place::new();
        let azurite = TokenAzurite::start(&place, "tables");
        fs::write(place.path("secret"), format!("{SECRET}\n")).expect("written");
        fs::write(place.path("assertion"), ASSERTION).expect("written");
        Keyless { place, azurite, identities: IdentityServer::start(plan) }
    }

    fn config(&self, credentials: &str) -> String {
        let more = match credentials {
            "client_secret" => {
                format!(
                    "tenant_id = \"tenant\"\nclient_id = \"app\"\nclient_secret_file = \"{}\"\n",
                    self.place.path("secret").display()
                )
            }
            _ => String::new(),
        };
        format!(
            "[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"{{stem}}\"\n\
             [store]\nkind = \"azure\"\ncredentials = \"{credentials}\"\nendpoint = \"{}\"\nbuckets_max = 1\nfill = \"0s\"\n{more}",
            self.azurite.endpoint()
        )
    }

    /// A command with the environment of a machine, a pod or an application.
    fn daytable(&self) -> Command {
        let mut daytable = Command::new(DAYTABLE);
        let server = format!("http://127.0.0.1:{}", self.identities.port);
        daytable.env("SSL_CERT_FILE", &self.azurite.authority);
        daytable.env("IDENTITY_ENDPOINT", format!("{server}/metadata/identity/oauth2/token"));
        // As Kubernetes' webhook writes it.
        daytable.env("AZURE_AUTHORITY_HOST", format!("{server}/"));
        daytable
    }

    fn start(&self, credentials: &str, variables: &[(&str, &str)]) -> Daemon {
        let config = self.place.configure(&self.config(credentials));
        let mut daytable = self.daytable();
        daytable.envs(variables.iter().copied()).arg("run").arg("--config").arg(config);
        let daemon = self.place.spawn_command(daytable);
        daemon.wait_ready();
        daemon
    }

    /// Runs a command with the configuration, whose output must hide the secrets.
    fn asked(&self, credentials: &str, args: &[&str]) -> Output {
        let config = self.place.configure(&self.config(credentials));
        let output = self.daytable().args(args).arg("--config").arg(config).output().expect("daytable can be run");
        let said = [output.stdout.clone(), output.stderr.clone()].concat();
        self.assert_hidden(&String::from_utf8_lossy(&said));
        output
    }

    /// All messages at the service, by its key.
    fn messages(&self) -> Vec<String> {
        let key = connection_string(self.azurite.port)
            .replace("http://", "https://")
            .replace("Protocol=http;", "Protocol=https;");
        fs::write(self.place.path("key"), key).expect("written");
        let config = format!(
            "data_dir = \"{}\"\n[store]\nkind = \"azure\"\nconnection_string_file = \"{}\"\n",
            self.place.path("nothing").display(),
            self.place.path("key").display()
        );
        fs::write(self.place.path("key.toml"), config).expect("written");
        let mut query = self.daytable();
        query.args(["query", "-n", "1000000", "--json", "--config"]).arg(self.place.path("key.toml"));
        let output = query.output().expect("daytable can be run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).expect("text");
        let mut messages: Vec<String> = said
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("an object"))
            .map(|record| record["message"].as_str().expect("a message").to_owned())
            .collect();
        messages.sort();
        messages
    }

    fn wait_arrived(&self, lines: &[String]) {
        let mut expected = lines.to_vec();
        expected.sort();
        wait_for("all rows at the service, once", PATIENCE, || {
            let found = self.messages();
            assert!(found.len() <= expected.len(), "too many: {found:?}");
            (found == expected).then_some(())
        });
    }

    fn assert_hidden(&self, said: &str) {
        for secret in [SECRET, ASSERTION].map(str::to_owned).into_iter().chain(self.identities.tokens()) {
            assert!(!said.contains(&secret), "a secret is shown: {said}");
        }
    }
}

fn shown(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

#[test]
fn a_machines_identity_outlives_every_failure_of_its_service_and_wrong_tokens() {
    let keyless = Keyless::new(|number, _| match number {
        0 => Grant::Status(429, "Retry-After: 1\r\n", "{\"error\":\"too many\"}"),
        1 => Grant::Status(500, "", "<html>"),
        2 => Grant::Cut,
        3 => Grant::Status(410, "", ""),
        4 => Grant::Status(200, "", "{\"access_token\":"),
        // The service does not accept this one, and the next is fetched for the same request.
        5 => Grant::Lasting(-60),
        6 => Grant::Lasting(3600),
        _ => Grant::OfAnother,
    });
    let lines = numbered("line", 300);
    keyless.place.write("a.log", &lines[..150]);
    keyless.place.write("b.log", &lines[150..]);
    let daemon = keyless.start("managed_identity", &[]);
    keyless.wait_arrived(&lines);
    let asked = keyless.identities.asked();
    assert_eq!(asked.len(), 7, "one token for all requests of the daemon: {asked:?}");
    for asked in &asked {
        assert!(asked.line.contains("resource=https%3A%2F%2Fstorage.azure.com"), "{asked:?}");
        assert!(asked.head.contains("metadata: true"), "{asked:?}");
    }
    let said = daemon.said();
    daemon.stop();
    keyless.assert_hidden(&said);
}

#[test]
fn an_application_and_its_new_secret_need_no_restart() {
    let keyless = Keyless::new(|_, asked| {
        let has = |text: &str| asked.body.contains(text);
        assert!(asked.line.starts_with("POST /tenant/oauth2/v2.0/token "), "{}", asked.line);
        assert!(has("scope=https%3A%2F%2Fstorage.azure.com%2F.default") && has("client_id=app"), "{}", asked.body);
        if has(&format!("client_secret={SECRET}")) {
            Grant::Lasting(3600)
        } else {
            Grant::Status(
                401,
                "",
                "{\"error\":\"invalid_client\",\"error_description\":\"AADSTS7000215: wrong: old-c2VjcmV0\\r\\nTrace\"}",
            )
        }
    });
    fs::write(keyless.place.path("secret"), "old-c2VjcmV0").expect("written");
    let lines = numbered("line", 20);
    keyless.place.write("a.log", &lines);
    let daemon = keyless.start("client_secret", &[]);
    daemon.wait_said("AADSTS7000215: wrong: ***");
    let doctor = keyless.asked("client_secret", &["doctor"]);
    let said = shown(&doctor);
    assert_eq!(doctor.status.code(), Some(69), "{said}");
    assert!(
        said.contains("FAIL  store: ") && said.contains("the application app of tenant may not write there"),
        "{said}"
    );
    let check = keyless.asked("client_secret", &["check"]);
    assert!(
        check.status.success() && shown(&check).contains("by the application app of tenant\n"),
        "{}",
        shown(&check)
    );
    assert_eq!(keyless.asked("client_secret", &["check", "--access"]).status.code(), Some(69));
    fs::write(keyless.place.path("secret"), format!("{SECRET}\n")).expect("written");
    // The daemon asks once a minute whether it may again.
    let probed = std::time::Duration::from_secs(150);
    wait_for("all rows at the service", probed, || (keyless.messages().len() == lines.len()).then_some(()));
    let check = keyless.asked("client_secret", &["check", "--access"]);
    assert!(check.status.success() && shown(&check).contains(", which may write there"), "{}", shown(&check));
    let doctor = keyless.asked("client_secret", &["doctor"]);
    assert!(shown(&doctor).contains("the application app of tenant may write there"), "{}", shown(&doctor));
    let said = daemon.said();
    assert!(!said.contains("old-c2VjcmV0"), "{said}");
    keyless.assert_hidden(&said);
    daemon.stop();
}

#[test]
fn a_workload_reads_its_token_again_and_rows_are_read_by_it() {
    let keyless = Keyless::new(|number, asked| match number {
        // The service rejects this one, so another one is fetched: with the new assertion, once that is there.
        0 => Grant::OfAnother,
        _ if asked.body.contains(&format!("client_assertion={ASSERTION}")) => Grant::Lasting(3600),
        _ => Grant::Status(503, "", ""),
    });
    let file = keyless.place.path("assertion");
    fs::write(&file, "the-first-one").expect("written");
    let file = file.display().to_string();
    let workload =
        [("AZURE_CLIENT_ID", "pod"), ("AZURE_TENANT_ID", "tenant"), ("AZURE_FEDERATED_TOKEN_FILE", file.as_str())];
    let daemon = keyless.start("workload_identity", &workload);
    let lines = numbered("line", 20);
    keyless.place.write("a.log", &lines);
    wait_for("the first token", PATIENCE, || (!keyless.identities.asked().is_empty()).then_some(()));
    fs::write(&file, ASSERTION).expect("written");
    keyless.wait_arrived(&lines);
    let asked = keyless.identities.asked();
    assert!(asked[0].body.contains("client_assertion=the-first-one"), "{:?}", asked[0]);
    // A command reads by the identity as well.
    let config = keyless.place.configure(&keyless.config("workload_identity"));
    let mut count = keyless.daytable();
    let counted = count.envs(workload).arg("count").arg("--config").arg(config).output().expect("daytable can be run");
    assert!(shown(&counted).contains("20"), "{}", shown(&counted));
    keyless.assert_hidden(&daemon.said());
    daemon.stop();
}

#[test]
fn an_identity_without_rights_is_told_from_one_that_is_not_known() {
    // A service that knows the identity, and gives it no right to write.
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                head.push(byte[0]);
            }
            let body = "{\"odata.error\":{\"code\":\"AuthorizationPermissionMismatch\",\"message\":{\"lang\":\"en-US\",\"value\":\"no\"}}}";
            let answer = format!(
                "HTTP/1.1 403 X\r\nx-ms-error-code: AuthorizationPermissionMismatch\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let keyless = Keyless::new(|_, _| Grant::Lasting(3600));
    let config = keyless
        .config("managed_identity")
        .replace(&keyless.azurite.endpoint(), &format!("http://127.0.0.1:{port}/acme"));
    let config = keyless.place.configure(&config);
    let doctor = keyless.daytable().arg("doctor").arg("--config").arg(&config).output().expect("daytable can be run");
    let said = shown(&doctor);
    assert!(said.contains("the managed identity of this machine may not write there"), "{said}");
    assert!(said.contains("AuthorizationPermissionMismatch") && said.contains("accounts-without-keys"), "{said}");
    assert_eq!(keyless.identities.asked().len(), 1, "a token that is accepted is not renewed");
    keyless.assert_hidden(&said);
    // An identity service that does not know it.
    keyless.identities.plan(|_, _| {
        Grant::Status(400, "", "{\"error\":\"invalid_request\",\"error_description\":\"Identity not found\"}")
    });
    let said = shown(&keyless.asked("managed_identity", &["doctor"]));
    assert!(said.contains("there is no token for the managed identity of this machine"), "{said}");
    assert!(said.contains("400: invalid_request Identity not found"), "{said}");
}

/// Runs `check --access` for an archive.
fn access(place: &Place, url: &str, more: &str, variables: &[(&str, &str)]) -> Output {
    archive_asked(&["check", "--access"], place, url, more, variables)
}

/// Runs a command with the configuration of an archive.
fn archive_asked(command: &[&str], place: &Place, url: &str, more: &str, variables: &[(&str, &str)]) -> Output {
    let config = place.configure(&format!("[[table]]\nname = \"Log\"\narchive = \"{url}\"\n[archives]\n{more}"));
    let mut asked = Command::new(DAYTABLE);
    asked.args(command).arg("--config").arg(config).envs(variables.iter().copied());
    asked.output().expect("daytable can be run")
}

#[test]
fn archives_in_blob_storage_are_written_by_an_identity() {
    let place = Place::new();
    let azurite = TokenAzurite::start(&place, "blobs");
    make_container(&azurite, "days");
    let identities = IdentityServer::start(|_, _| Grant::Lasting(3600));
    let server = format!("http://127.0.0.1:{}", identities.port);
    let (endpoint, authority) = (azurite.endpoint(), azurite.authority.display().to_string());
    let metadata = format!("{server}/metadata/identity/oauth2/token");
    let account = [
        ("AZURE_STORAGE_ACCOUNT_NAME", "devstoreaccount1"),
        ("AZURE_STORAGE_ENDPOINT", endpoint.as_str()),
        ("SSL_CERT_FILE", authority.as_str()),
    ];
    let machine = [account.as_slice(), &[("IDENTITY_ENDPOINT", metadata.as_str())]].concat();
    let good = access(&place, "az://days/host-1", "", &machine);
    assert!(good.status.success(), "{}", shown(&good));
    assert!(
        shown(&good)
            .contains("archive: az://days/host-1, by the managed identity of this machine, which may write there"),
        "{}",
        shown(&good)
    );
    // `doctor` asks the same.
    let doctor = shown(&archive_asked(&["doctor"], &place, "az://days/host-1", "", &machine));
    assert!(doctor.contains("az://days/host-1: the managed identity of this machine may write there"), "{doctor}");
    // The authority's address ends with a slash, as Kubernetes' webhook writes it.
    let (authority_host, secret) = (format!("{server}/"), SECRET);
    let application = [
        account.as_slice(),
        &[
            ("AZURE_AUTHORITY_HOST", authority_host.as_str()),
            ("AZURE_CLIENT_ID", "app"),
            ("AZURE_TENANT_ID", "tenant"),
            ("AZURE_CLIENT_SECRET", secret),
        ],
    ]
    .concat();
    let good = access(&place, "az://days/host-1", "allow_http = true\n", &application);
    assert!(good.status.success(), "{}", shown(&good));
    assert!(shown(&good).contains("by the application app of tenant, which may write there"), "{}", shown(&good));
    let last = identities.asked().pop().expect("a request");
    assert!(last.line.starts_with("POST /tenant/oauth2/v2.0/token "), "{last:?}");
    // A pod, whose token of Kubernetes is in a file.
    let token = place.path("assertion").display().to_string();
    fs::write(&token, ASSERTION).expect("written");
    let workload = [
        account.as_slice(),
        &[
            ("AZURE_AUTHORITY_HOST", authority_host.as_str()),
            ("AZURE_CLIENT_ID", "pod"),
            ("AZURE_TENANT_ID", "tenant"),
            ("AZURE_FEDERATED_TOKEN_FILE", token.as_str()),
        ],
    ]
    .concat();
    let good = access(&place, "az://days/host-1", "allow_http = true\n", &workload);
    assert!(good.status.success(), "{}", shown(&good));
    assert!(shown(&good).contains("by the workload identity pod of tenant, which may write there"), "{}", shown(&good));
    let last = identities.asked().pop().expect("a request");
    assert!(last.body.contains(&format!("client_assertion={ASSERTION}")), "{last:?}");
    for (grant, expected) in [
        (Grant::Lasting(-60), "the managed identity of this machine may not write there"),
        (Grant::OfAnother, "the managed identity of this machine may not write there"),
        (Grant::Status(403, "", "{}"), "whether the managed identity of this machine may write there is not known"),
    ] {
        identities.plan(move |_, _| grant);
        let refused = access(&place, "az://days/host-1", "", &machine);
        assert_eq!(refused.status.code(), Some(69), "{}", shown(&refused));
        assert!(shown(&refused).contains(expected), "{grant:?}: {}", shown(&refused));
        for token in identities.tokens() {
            assert!(!shown(&refused).contains(&token), "{}", shown(&refused));
        }
    }
}

/// Creates a container. Azurite's key is public.
fn make_container(azurite: &TokenAzurite, container: &str) {
    let program = "const c = require('crypto'), https = require('https');
        const [endpoint, account, key, container] = process.argv.slice(1);
        const url = new URL(`${endpoint}/${container}?restype=container`), date = new Date().toUTCString();
        const text = `PUT\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\nx-ms-date:${date}\\nx-ms-version:2021-08-06\\n/${account}${url.pathname}\\nrestype:container`;
        const mac = c.createHmac('sha256', Buffer.from(key, 'base64')).update(text).digest('base64');
        const headers = { 'x-ms-date': date, 'x-ms-version': '2021-08-06', Authorization: `SharedKey ${account}:${mac}`, 'Content-Length': 0 };
        https.request(url, { method: 'PUT', headers }, r => { r.pipe(process.stderr); process.exitCode = r.statusCode === 201 ? 0 : 1 }).end();";
    let key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    let mut node = Command::new("node");
    node.env("NODE_EXTRA_CA_CERTS", &azurite.authority);
    let made = node.args(["-e", program, &azurite.endpoint(), "devstoreaccount1", key, container]).output();
    let made = made.expect("node can be run");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// A service of objects that takes one word of authorization, and says so to nobody.
fn objects_of(word: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_objects(stream, word));
        }
    });
    port
}

fn answer_objects(stream: TcpStream, word: &str) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let mut stream = stream;
    while let Some((head, _)) = next_request(&mut reader) {
        let (status, body) = match head.contains(word) {
            false => (403, "<Error><Code>AccessDenied</Code></Error>"),
            true if head.starts_with("POST") => (
                200,
                "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>1</UploadId></InitiateMultipartUploadResult>",
            ),
            true => (200, ""),
        };
        let answer = format!("HTTP/1.1 {status} X\r\nETag: \"1\"\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn archives_in_s3_and_in_googles_storage_are_written_by_the_machine() {
    let place = Place::new();
    // The metadata service of AWS: a session, the name of the role, its keys.
    let machine = IdentityServer::start(|_, asked| {
        if asked.line.starts_with("PUT /latest/api/token ") {
            Grant::Status(200, "", "session")
        } else if asked.line.starts_with("GET /latest/meta-data/iam/security-credentials/ ") {
            Grant::Status(200, "", "logs")
        } else {
            assert!(asked.head.contains("x-aws-ec2-metadata-token: session"), "{asked:?}");
            Grant::Status(
                200,
                "",
                "{\"Code\":\"Success\",\"AccessKeyId\":\"ASIAMACHINE\",\"SecretAccessKey\":\"c2VjcmV0\",\"Token\":\"dG9rZW4\",\"Expiration\":\"2100-01-01T00:00:00Z\"}",
            )
        }
    });
    let metadata = format!("http://127.0.0.1:{}", machine.port);
    let s3 = |word| {
        let endpoint = format!(
            "s3_endpoint = \"http://127.0.0.1:{}\"\ns3_region = \"us-east-1\"\nallow_http = true\n",
            objects_of(word)
        );
        access(&place, "s3://days", &endpoint, &[("AWS_METADATA_ENDPOINT", metadata.as_str())])
    };
    let good = s3("ASIAMACHINE");
    assert!(good.status.success(), "{}", shown(&good));
    assert!(shown(&good).contains("by the role of this machine, which may write there"), "{}", shown(&good));
    let refused = s3("ASIAOTHER");
    assert_eq!(refused.status.code(), Some(69), "{}", shown(&refused));
    assert!(shown(&refused).contains("the role of this machine may not write there"), "{}", shown(&refused));
    let doctor = {
        let endpoint = format!("s3_endpoint = \"http://127.0.0.1:{}\"\nallow_http = true\n", objects_of("ASIAOTHER"));
        let variables = [("AWS_METADATA_ENDPOINT", metadata.as_str()), ("AWS_REGION", "us-east-1")];
        shown(&archive_asked(&["doctor"], &place, "s3://days", &endpoint, &variables))
    };
    assert!(doctor.contains("s3://days: the role of this machine may not write there"), "{doctor}");
    // The metadata service of Google.
    let machine = IdentityServer::start(|_, asked| {
        assert!(asked.head.contains("metadata-flavor: google"), "{asked:?}");
        Grant::Status(200, "", "{\"access_token\":\"ya29.machine\",\"expires_in\":3599,\"token_type\":\"Bearer\"}")
    });
    let metadata = format!("127.0.0.1:{}", machine.port);
    let google = |word| {
        let base = format!("http://127.0.0.1:{}", objects_of(word));
        let home = place.path("logs").display().to_string();
        let variables =
            [("GOOGLE_BASE_URL", base.as_str()), ("GCE_METADATA_HOST", metadata.as_str()), ("HOME", home.as_str())];
        access(&place, "gs://days", "allow_http = true\n", &variables)
    };
    let good = google("Bearer ya29.machine");
    assert!(good.status.success(), "{}", shown(&good));
    assert!(shown(&good).contains("by the service account of this machine, which may write there"), "{}", shown(&good));
    let refused = google("Bearer ya29.other");
    assert_eq!(refused.status.code(), Some(69), "{}", shown(&refused));
    assert!(!shown(&refused).contains("ya29"), "{}", shown(&refused));
}

#[test]
fn archives_in_s3_are_written_by_workloads_and_containers() {
    let place = Place::new();
    let token = place.path("token").display().to_string();
    fs::write(&token, "kubernetes-token").expect("written");
    let s3 = |word: &'static str, variables: &[(&str, &str)]| {
        let endpoint = format!(
            "s3_endpoint = \"http://127.0.0.1:{}\"\ns3_region = \"us-east-1\"\nallow_http = true\n",
            objects_of(word)
        );
        access(&place, "s3://days", &endpoint, variables)
    };
    // The security token service, by the token of a pod.
    let answer = "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
                  <AccessKeyId>ASIAPOD</AccessKeyId><SecretAccessKey>c2VjcmV0</SecretAccessKey>\
                  <SessionToken>dG9rZW4</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials>\
                  </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
    let (authority, certificate, key) = certificates(&place);
    let (authority, port) = (authority.display().to_string(), free_port());
    // The service is asked by TLS alone. It says yes to the token that is in its argument.
    let program = "import http.server, ssl, sys
port, certificate, key, token, answer = sys.argv[1:]
class Service(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = self.path + self.rfile.read(int(self.headers.get('Content-Length') or 0)).decode()
        good = 'AssumeRoleWithWebIdentity' in asked and token in asked
        body = (answer if good else '<ErrorResponse><Error><Code>ExpiredTokenException</Code></Error></ErrorResponse>').encode()
        self.send_response(200 if good else 400)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', int(port)), Service)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()";
    let mut python = Command::new("python3");
    python.args(["-c", program, &port.to_string()]).args([certificate, key]).args(["kubernetes-token", answer]);
    let _tokens = Server::start(python, port);
    let service = format!("https://127.0.0.1:{port}");
    let pod = [
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/logs"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.as_str()),
        ("AWS_ENDPOINT_URL_STS", service.as_str()),
        ("SSL_CERT_FILE", authority.as_str()),
    ];
    let good = s3("ASIAPOD", &pod);
    assert!(good.status.success(), "{}", shown(&good));
    let by = "by the role arn:aws:iam::1:role/logs of a workload, which may write there";
    assert!(shown(&good).contains(by), "{}", shown(&good));
    // Its token has ended.
    fs::write(&token, "former-token").expect("written");
    let refused = s3("ASIAPOD", &pod);
    assert_eq!(refused.status.code(), Some(69), "{}", shown(&refused));
    assert!(shown(&refused).contains("of a workload may write there is not known"), "{}", shown(&refused));
    assert!(shown(&refused).contains("ExpiredTokenException"), "{}", shown(&refused));
    assert!(!shown(&refused).contains("former-token"), "{}", shown(&refused));

    // The credentials of a container.
    let tokens = IdentityServer::start(|_, asked| {
        assert!(asked.line.starts_with("GET /role "), "{asked:?}");
        Grant::Status(
            200,
            "",
            "{\"AccessKeyId\":\"ASIATASK\",\"SecretAccessKey\":\"c2VjcmV0\",\"Token\":\"dG9rZW4\",\"Expiration\":\"2100-01-01T00:00:00Z\"}",
        )
    });
    let address = format!("http://127.0.0.1:{}/role", tokens.port);
    let task =
        [("AWS_CONTAINER_CREDENTIALS_FULL_URI", address.as_str()), ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &token)];
    let good = s3("ASIATASK", &task);
    assert!(good.status.success(), "{}", shown(&good));
    assert!(shown(&good).contains("by the role of this container, which may write there"), "{}", shown(&good));

    // A temporary key of the environment that has ended.
    let ended =
        objects_that_say("<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>");
    let endpoint =
        format!("s3_endpoint = \"http://127.0.0.1:{ended}\"\ns3_region = \"us-east-1\"\nallow_http = true\n");
    let key = [
        ("AWS_ACCESS_KEY_ID", "ASIAOLD"),
        ("AWS_SECRET_ACCESS_KEY", "c2VjcmV0-old"),
        ("AWS_SESSION_TOKEN", "b2xk-session"),
    ];
    let refused = access(&place, "s3://days", &endpoint, &key);
    assert_eq!(refused.status.code(), Some(69), "{}", shown(&refused));
    assert!(shown(&refused).contains("the temporary key ASIAOLD"), "{}", shown(&refused));
    assert!(shown(&refused).contains("ExpiredToken"), "{}", shown(&refused));
    assert!(
        !shown(&refused).contains("c2VjcmV0-old") && !shown(&refused).contains("b2xk-session"),
        "{}",
        shown(&refused)
    );
}

/// A service of objects that refuses everything for this reason.
fn objects_that_say(reason: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
            let mut stream = stream;
            while next_request(&mut reader).is_some() {
                let answer = format!("HTTP/1.1 400 X\r\nContent-Length: {}\r\n\r\n{reason}", reason.len());
                if stream.write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    port
}
