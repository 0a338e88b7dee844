//! The page at `/`: its files, and how a browser gets leave to read.
//!
//! | route | response |
//! |---|---|
//! | `GET /` | the page |
//! | `GET /page/FILE` | a file of `src/page`, and the page of the query language |
//! | `GET /open/CODE` | a cookie, once, and the way to `/` (`daytable open` prints the link); `HEAD` does not use the code |
//! | `POST /page/session` | a cookie for `{"token": "…"}` |
//! | `DELETE /page/session` | ends the session |
//! | `POST /-/open` | a link with a new code, on the unix socket only |
//!
//! The files are part of the program and the same for everyone, so they need no credentials. The page reads through
//! `/api/*`, and everything that it shows comes from there.
//!
//! The policy of the page allows scripts and styles of this origin only, and the browser refuses to make markup of text:
//! no line of a log can become part of the page.

#[cfg(test)]
mod bundle;
#[cfg(test)]
mod compact;
#[cfg(test)]
mod markdown;

use super::context::{ListenerKind, ServerContext};
use super::read_token::{ReadToken, ReadTokenFile};
use super::response::error_response;
use super::session::{is_from_page, set_cookie};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use daytable_model::property::to_hex;
use sha2::{Digest, Sha256};
use std::io;
use std::sync::Arc;
use std::time::Instant;

pub(super) const PAGE: &str = "/";
pub(super) const FILES: &str = "/page/";
pub(super) const SESSION: &str = "/page/session";
pub(super) const LINK: &str = "/open/";
pub(super) const OPEN: &str = "/-/open";

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// A file of the page and its compressed forms, which the build script wrote.
macro_rules! asset {
    ($name:literal) => {
        Asset {
            name: $name,
            plain: include_bytes!(concat!(env!("OUT_DIR"), "/", $name)),
            gzip: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz")),
            brotli: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".br")),
        }
    };
}

static ASSETS: [Asset; 5] =
    [asset!("index.html"), asset!("page.css"), asset!("icon.svg"), asset!("page.js"), asset!("language.html")];

struct Asset {
    name: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
    /// Browsers accept it over TLS and from this host.
    brotli: &'static [u8],
}

impl Asset {
    fn media(&self) -> &'static str {
        match self.name.rsplit_once('.') {
            Some((_, "html")) => "text/html; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            Some((_, "svg")) => "image/svg+xml",
            _ => "text/javascript; charset=utf-8",
        }
    }

    /// The tag of the content. Weak, because each encoding has other bytes.
    fn etag(&self) -> String {
        format!("W/\"{}\"", to_hex(&Sha256::digest(self.plain)[..8]))
    }

    fn response(&self, status: StatusCode, headers: &HeaderMap) -> Response {
        let has = |name, value: &str| {
            let given = headers.get(name).and_then(|given: &HeaderValue| given.to_str().ok()).unwrap_or_default();
            given.split(',').any(|given| given.split(';').next().is_some_and(|given| given.trim() == value))
        };
        let etag = self.etag();
        let is_known = status == StatusCode::OK && has(header::IF_NONE_MATCH, &etag);
        let encoding = ["br", "gzip"].into_iter().find(|encoding| has(header::ACCEPT_ENCODING, encoding));
        let (status, body) = match (is_known, encoding) {
            (true, _) => (StatusCode::NOT_MODIFIED, Body::empty()),
            (false, Some("br")) => (status, Body::from(self.brotli)),
            (false, Some(_)) => (status, Body::from(self.gzip)),
            (false, None) => (status, Body::from(self.plain)),
        };
        let mut response = (status, body).into_response();
        let all = response.headers_mut();
        for (name, value) in [
            (header::CONTENT_TYPE, self.media()),
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
        all.insert(header::ETAG, HeaderValue::from_str(&etag).expect("hex digits are a header"));
        if let Some(encoding) = encoding.filter(|_| !is_known) {
            all.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        response
    }
}

pub(super) fn routes(kind: ListenerKind) -> Router<Arc<ServerContext>> {
    let begin = move |State(context), headers, body| begin(context, kind, headers, body);
    Router::new()
        .route(PAGE, get(page))
        .route("/page/{file}", get(file))
        .route("/open/{code}", get(open).head(look_at_link))
        .route(SESSION, post(begin).delete(end))
}

/// The route of `daytable open`.
pub(super) fn control_route() -> Router<Arc<ServerContext>> {
    Router::new().route(OPEN, post(issue))
}

async fn page(uri: Uri, headers: HeaderMap) -> Response {
    let mut response = ASSETS[0].response(StatusCode::OK, &headers);
    if let Some(link) = first_rows(uri.query()) {
        response.headers_mut().insert(header::LINK, link);
    }
    response
}

/// Has the browser ask for the first rows while it loads the scripts. The address is the one of `Rows.begin` in `rows.js`,
/// or the browser asks twice. Other queries are asked by the scripts alone.
fn first_rows(query: Option<&str>) -> Option<HeaderValue> {
    let age = query.map_or(Some("24h"), |query| query.strip_prefix("since="))?;
    let is_age = age.len() <= 8 && age.ends_with(|unit: char| unit.is_ascii_lowercase());
    if !is_age
        || !age.bytes().all(|byte| byte.is_ascii_alphanumeric())
        || !age.starts_with(|digit: char| digit.is_ascii_digit())
    {
        return None;
    }
    let link = format!("</api/query?since={age}&limit=100>; rel=preload; as=fetch; crossorigin");
    HeaderValue::from_str(&link).ok()
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

/// Whoever asks for the head of a link looks at it and does not open it, so its code stays.
async fn look_at_link() -> Response {
    (StatusCode::NO_CONTENT, [(header::CACHE_CONTROL, "no-store")]).into_response()
}

/// Whether a program fetches a link ahead of its user, or as a part of another page. A browser tells; previews of other
/// programs cannot be told from the user.
fn is_ahead(headers: &HeaderMap) -> bool {
    let has = |name: &str, is_it: fn(&str) -> bool| {
        headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| is_it(&value.to_ascii_lowercase()))
    };
    let speaks_of_it = |value: &str| value.contains("prefetch") || value.contains("preview");
    ["sec-purpose", "purpose", "x-purpose", "x-moz"].into_iter().any(|name| has(name, speaks_of_it))
        || has("sec-fetch-mode", |mode| mode != "navigate")
}

async fn open(State(context): State<Arc<ServerContext>>, Path(code): Path<String>, headers: HeaderMap) -> Response {
    if is_ahead(&headers) {
        return look_at_link().await;
    }
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
    let token = reading.load().as_ref().as_ref().map(ReadTokenFile::token);
    let Some(token) = &token else {
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
    tracing::error!(%error, "failed to read /dev/urandom: nobody can sign in to the page");
    error_response(StatusCode::INTERNAL_SERVER_ERROR, "/dev/urandom cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const BYTES_MAX: usize = 140 << 10;
    const BROTLI_BYTES_MAX: usize = 41 << 10;

    #[test]
    fn the_page_is_small_and_has_every_file() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/page");
        let entries = std::fs::read_dir(folder).expect("a folder");
        let there: BTreeSet<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        let embedded: BTreeSet<String> =
            bundle::TEXTS.iter().chain(&bundle::MODULES).map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(there, embedded);
        // The page of the language is loaded by those who open it.
        let first = || ASSETS.iter().filter(|asset| asset.name != "language.html");
        let plain: usize = first().map(|asset| asset.plain.len()).sum();
        let brotli: usize = first().map(|asset| asset.brotli.len()).sum();
        assert!(plain <= BYTES_MAX && brotli <= BROTLI_BYTES_MAX, "{plain} bytes, {brotli} compressed");
        let built: Vec<(&str, String)> =
            ASSETS.iter().map(|asset| (asset.name, String::from_utf8_lossy(asset.plain).into_owned())).collect();
        assert_eq!(built, bundle::files());
    }
}
