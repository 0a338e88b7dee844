//! The page at `/`: its files, and how a browser gets leave to read.
//!
//! | route | response |
//! |---|---|
//! | `GET /` | the page |
//! | `GET /page/FILE` | a file of `src/page` |
//! | `GET /open/CODE` | a cookie, once, and the way to `/` (`daytable open` prints the link) |
//! | `POST /page/session` | a cookie for `{"token": "…"}` |
//! | `DELETE /page/session` | ends the session |
//! | `POST /-/open` | a link with a new code, on the unix socket only |
//!
//! The files are part of the program and the same for everyone, so they need no credentials. The page reads through
//! `/api/*`, and everything that it shows comes from there.
//!
//! The policy of the page allows scripts and styles of this origin only, and the browser refuses to make markup of text:
//! no line of a log can become part of the page.

mod compact;

use super::context::{ListenerKind, ServerContext};
use super::read_token::ReadToken;
use super::response::error_response;
use super::session::{is_from_page, set_cookie};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

pub(super) const PAGE: &str = "/";
pub(super) const FILES: &str = "/page/";
pub(super) const SESSION: &str = "/page/session";
pub(super) const LINK: &str = "/open/";
pub(super) const OPEN: &str = "/-/open";

/// The best compression. It takes a tenth of a second, once.
const ZSTD_LEVEL: i32 = 22;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

macro_rules! files {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../page/", $name)))),*]
    };
}

/// The files that are not scripts, by name.
const TEXTS: [(&str, &str); 3] = files! { "index.html" "page.css" "icon.svg" };

/// The modules of the script. A module imports earlier modules only.
const MODULES: [(&str, &str); 20] = files! {
    "dom.js" "time.js" "state.js" "api.js" "query.js" "bar.js" "range.js" "rows.js" "list.js" "histogram.js" "fields.js"
    "record.js" "tail.js" "table.js" "share.js" "patterns.js" "compare.js" "storage.js" "alerts.js" "main.js"
};

/// The name of the script.
const SCRIPT: &str = "page.js";

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let texts = TEXTS.iter().map(|(name, text)| {
        let without_indents = || text.lines().flat_map(|line| [line.trim_start(), "\n"]).collect();
        Asset::new(name, if name.ends_with(".css") { compact::style(text) } else { without_indents() })
    });
    texts.chain([Asset::new(SCRIPT, compact::script(&script(&MODULES)))]).collect()
});

/// The modules as one script, so that one request brings all. They share the scope of one function, since no two have the
/// same name in theirs; a module that others import whole becomes a function that returns its exports.
fn script(modules: &[(&str, &str)]) -> String {
    let is_whole = |name: &str| modules.iter().any(|(_, text)| text.contains(&format!("import * as {name} from ")));
    let mut all = String::from("(() => {\n\"use strict\";\n");
    for (name, text) in modules {
        let (name, mut exports) = (name.trim_end_matches(".js"), Vec::new());
        let mut code = String::new();
        for line in text.lines().filter(|line| !line.starts_with("import ")) {
            exports.extend(line.strip_prefix("export ").and_then(declared));
            code.push_str(line.strip_prefix("export ").unwrap_or(line));
            code.push('\n');
        }
        all.push_str(&match is_whole(name) {
            true => format!("const {name} = (() => {{\n{code}return {{ {} }};\n}})();\n", exports.join(", ")),
            false => code,
        });
    }
    all + "})();\n"
}

/// The name that a line at the edge of a module declares.
fn declared(line: &str) -> Option<&str> {
    let mut words =
        line.strip_prefix("export ").unwrap_or(line).split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_declaration = |word: &str| ["async", "function", "const", "let", "class"].contains(&word);
    words
        .next()
        .filter(|word| is_declaration(word))
        .and_then(|_| words.find(|word| !word.is_empty() && !is_declaration(word)))
}

struct Asset {
    name: &'static str,
    media: &'static str,
    plain: Bytes,
    gzip: Bytes,
    zstd: Bytes,
    etag: HeaderValue,
}

impl Asset {
    fn new(name: &'static str, plain: String) -> Asset {
        let media = match name.rsplit_once('.') {
            Some((_, "html")) => "text/html; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            Some((_, "svg")) => "image/svg+xml",
            _ => "text/javascript; charset=utf-8",
        };
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        let gzip = gzip.write_all(plain.as_bytes()).and_then(|()| gzip.finish());
        let digest: String = Sha256::digest(&plain).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Asset {
            name,
            media,
            gzip: gzip.expect("a vector takes every byte").into(),
            zstd: zstd::bulk::compress(plain.as_bytes(), ZSTD_LEVEL).expect("a vector takes every byte").into(),
            plain: plain.into(),
            etag: HeaderValue::from_str(&format!("W/\"{digest}\"")).expect("hex digits are a header"),
        }
    }

    fn response(&self, status: StatusCode, headers: &HeaderMap) -> Response {
        let has = |name, value: &str| {
            let given = headers.get(name).and_then(|given: &HeaderValue| given.to_str().ok()).unwrap_or_default();
            given.split(',').any(|given| given.split(';').next().is_some_and(|given| given.trim() == value))
        };
        let is_known = status == StatusCode::OK && has(header::IF_NONE_MATCH, self.etag.to_str().unwrap_or_default());
        let encoding = ["zstd", "gzip"].into_iter().find(|encoding| has(header::ACCEPT_ENCODING, encoding));
        let (status, body) = match (is_known, encoding) {
            (true, _) => (StatusCode::NOT_MODIFIED, Body::empty()),
            (false, Some("zstd")) => (status, Body::from(self.zstd.clone())),
            (false, Some(_)) => (status, Body::from(self.gzip.clone())),
            (false, None) => (status, Body::from(self.plain.clone())),
        };
        let mut response = (status, body).into_response();
        let all = response.headers_mut();
        for (name, value) in [
            (header::CONTENT_TYPE, self.media),
            (header::CACHE_CONTROL, "no-cache"),
            (header::VARY, "accept-encoding"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
        ] {
            all.insert(name, HeaderValue::from_static(value));
        }
        all.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
        all.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
        all.insert(header::ETAG, self.etag.clone());
        if let Some(encoding) = encoding.filter(|_| !is_known) {
            all.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        response
    }
}

pub(super) fn routes(kind: ListenerKind) -> Router<Arc<ServerContext>> {
    let begin = move |State(context), headers, body| begin(context, kind, headers, body);
    Router::new()
        .route(PAGE, get(async |headers: HeaderMap| ASSETS[0].response(StatusCode::OK, &headers)))
        .route("/page/{file}", get(file))
        .route("/open/{code}", get(open))
        .route(SESSION, post(begin).delete(end))
}

/// The route of `daytable open`.
pub(super) fn control_route() -> Router<Arc<ServerContext>> {
    Router::new().route(OPEN, post(issue))
}

async fn file(Path(file): Path<String>, headers: HeaderMap) -> Response {
    match ASSETS.iter().find(|asset| asset.name == file) {
        Some(asset) => asset.response(StatusCode::OK, &headers),
        None => error_response(StatusCode::NOT_FOUND, "no such file"),
    }
}

async fn issue(State(context): State<Arc<ServerContext>>) -> Response {
    let Some(url) = context.sessions.page_url() else {
        let refused = "there is no TCP listener: set http.listen in the configuration";
        return error_response(StatusCode::CONFLICT, refused);
    };
    match context.sessions.issue_code(Instant::now()) {
        Ok(code) => axum::Json(serde_json::json!({ "url": url, "path": format!("{LINK}{code}") })).into_response(),
        Err(error) => no_random_bytes(&error),
    }
}

async fn open(State(context): State<Arc<ServerContext>>, Path(code): Path<String>, headers: HeaderMap) -> Response {
    match context.sessions.redeem(&code, Instant::now()) {
        Ok(Some(session)) => {
            let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, PAGE)]).into_response();
            response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
            with_cookie(response, &context, Some(&session))
        }
        // The page explains the next step.
        Ok(None) => ASSETS[0].response(StatusCode::GONE, &headers),
        Err(error) => no_random_bytes(&error),
    }
}

#[derive(serde::Deserialize)]
struct TokenForm {
    token: String,
}

async fn begin(context: Arc<ServerContext>, kind: ListenerKind, headers: HeaderMap, body: Bytes) -> Response {
    let ListenerKind::Tcp { reading, .. } = &kind else { return StatusCode::NO_CONTENT.into_response() };
    let token = reading.load();
    let Some(token) = &*token else {
        return error_response(StatusCode::FORBIDDEN, "no token is configured: run `daytable open` on this host");
    };
    let given = serde_json::from_slice(&body).ok().and_then(|form: TokenForm| ReadToken::new(&form.token).ok());
    if !is_from_page(&headers) || given.as_ref() != Some(token) {
        return error_response(StatusCode::UNAUTHORIZED, "this is not the token of http.token_file");
    }
    match context.sessions.begin(token, Instant::now()) {
        Ok(session) => with_cookie(StatusCode::NO_CONTENT.into_response(), &context, Some(&session)),
        Err(error) => no_random_bytes(&error),
    }
}

async fn end(State(context): State<Arc<ServerContext>>, headers: HeaderMap) -> Response {
    context.sessions.end(&headers, Instant::now());
    with_cookie(StatusCode::NO_CONTENT.into_response(), &context, None)
}

fn with_cookie(mut response: Response, context: &ServerContext, session: Option<&str>) -> Response {
    let is_tls = context.sessions.page_url().is_some_and(|url| url.starts_with("https:"));
    let cookie = HeaderValue::from_str(&set_cookie(session, is_tls)).expect("hex digits are a header");
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn no_random_bytes(error: &io::Error) -> Response {
    tracing::error!(%error, "failed to read random bytes");
    error_response(StatusCode::INTERNAL_SERVER_ERROR, "/dev/urandom cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const BYTES_MAX: usize = 100 << 10;
    const ZSTD_BYTES_MAX: usize = 32_000;

    #[test]
    fn the_page_is_small_and_has_every_file() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/page");
        let entries = std::fs::read_dir(folder).expect("a folder");
        let there: BTreeSet<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        let embedded: BTreeSet<String> = TEXTS.iter().chain(&MODULES).map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(there, embedded);
        let plain: usize = ASSETS.iter().map(|asset| asset.plain.len()).sum();
        let zstd: usize = ASSETS.iter().map(|asset| asset.zstd.len()).sum();
        assert!(plain <= BYTES_MAX && zstd <= ZSTD_BYTES_MAX, "{plain} bytes, {zstd} compressed");
        assert_eq!(TEXTS[0].0, "index.html");
    }

    #[test]
    fn a_module_imports_only_what_earlier_modules_export() {
        for (at, (name, text)) in MODULES.iter().enumerate() {
            for import in text.lines().filter_map(|line| line.strip_prefix("import ")) {
                let (names, from) = import.split_once(" from ").expect("an import in one line");
                let from = from.trim_matches(['"', '.', '/', ';']);
                let exporter = MODULES[..at].iter().find(|(earlier, _)| *earlier == from);
                let (_, exporter) = exporter.unwrap_or_else(|| panic!("{name} imports {from}"));
                for imported in names.trim_matches(['{', '}', ' ']).split(',').map(str::trim) {
                    let kinds = ["const", "function", "async function", "class"];
                    let is_exported = kinds.iter().any(|kind| exporter.contains(&format!("export {kind} {imported}")));
                    assert!(is_exported || imported.starts_with("* as "), "{name} imports {imported} from {from}");
                }
            }
            assert!(!text.contains("innerHTML"), "{name}");
        }
    }

    #[test]
    fn modules_share_a_scope_without_a_name_twice() {
        let mut names = BTreeSet::new();
        for (name, text) in MODULES.iter().filter(|(name, _)| *name != "api.js") {
            for declared in text.lines().filter_map(declared) {
                assert!(names.insert(declared), "{name} declares {declared} again");
            }
        }
    }

    #[test]
    fn modules_become_one_script() {
        let a = "// What it is.\nimport { b } from \"./b.js\";\nimport * as d from \"./d.js\";\n\nexport const c = (n) => b;\n";
        let b =
            "/** @typedef {string} B\n * more */\nexport async function b() {\n  return /** @type {any} */ (1);\n}\n";
        let d = "let e = 1;\nexport const f = e;\n";
        assert_eq!(
            compact::script(&script(&[("b.js", b), ("d.js", d), ("a.js", a)])),
            "(()=>{\"use strict\";async function b(){return(1);}\n\
             const d=(()=>{let e=1;const f=e;return{f};})();const c=(n)=>b;})();\n"
        );
    }
}
