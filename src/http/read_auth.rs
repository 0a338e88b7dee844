//! Who may read over TCP: a client with the token (`read_token`), or the page with the cookie of a session (`session`).

use super::context::{ListenerKind, ServerContext};
use super::read_token::ReadTokenFile;
use super::response::error_response;
use super::tenants::TenantReader;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;
use std::time::Instant;

/// The part of the API that the page reads: a cookie is enough for it. The page changes nothing, so a cookie is not enough
/// for a reload.
const OF_PAGE: &str = "/api/";

/// Passes a request on if it may read, or reload the configuration.
pub(super) async fn may_read(
    State((kind, context)): State<(ListenerKind, Arc<ServerContext>)>,
    request: Request,
    next: Next,
) -> Response {
    match reader(&kind, &context, &request) {
        Ok(_) => next.run(request).await,
        Err(is_configured) => refusal(is_configured, request.headers()),
    }
}

/// Passes a request to the routes of Loki on, with what the client sees.
pub(super) async fn may_ask(
    State((kind, context)): State<(ListenerKind, Arc<ServerContext>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let reader = reader(&kind, &context, &request);
    let seen = {
        let (tenants, headers) = (context.tenants.load(), request.headers());
        match reader.or_else(|is_configured| tenants.reader(headers).ok_or(is_configured || tenants.have_tokens())) {
            Ok(reader) => tenants.visibility(reader, headers),
            Err(is_configured) => return refusal(is_configured, headers),
        }
    };
    match seen {
        Ok(seen) => {
            request.extensions_mut().insert(seen);
            next.run(request).await
        }
        Err((status, reason)) => error_response(status, &reason),
    }
}

/// Who asks; or whether a token for reading is configured, if the request may not read.
fn reader(kind: &ListenerKind, context: &ServerContext, request: &Request) -> Result<TenantReader, bool> {
    let ListenerKind::Tcp { reading, .. } = kind else { return Ok(TenantReader::Local) };
    let (token, headers) = (reading.load().as_ref().as_ref().map(ReadTokenFile::token), request.headers());
    let token = token.as_ref();
    let is_of_page = || {
        let is_api = request.uri().path().starts_with(OF_PAGE);
        is_api && context.sessions.permit(headers, token, Instant::now())
    };
    let is_permitted = token.is_some_and(|token| token.is_in(headers)) || is_of_page();
    if is_permitted { Ok(TenantReader::Any) } else { Err(token.is_some()) }
}

/// Refuses a request; a client that sent a password is told of passwords. No other client is: a browser would ask for one.
fn refusal(is_configured: bool, headers: &HeaderMap) -> Response {
    if !is_configured {
        return error_response(
            StatusCode::FORBIDDEN,
            "reading over TCP needs a token: set http.token_file in the configuration, use the unix socket \
             control.sock in the data folder, or open the page by `daytable open`",
        );
    }
    let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_basic = given.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic "));
    let (reason, challenge) = match is_basic {
        true => (
            "the password is wrong: it is the token of http.token_file, and the user may be any",
            "Basic realm=\"daytable\", charset=\"UTF-8\"",
        ),
        false => ("the header Authorization: Bearer TOKEN is missing or wrong", "Bearer realm=\"daytable\""),
    };
    let mut response = error_response(StatusCode::UNAUTHORIZED, reason);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

/// Refuses requests of browsers, because a web page must not act on this machine.
pub(super) async fn no_browser(request: Request, next: Next) -> Response {
    if request.headers().contains_key(header::ORIGIN) {
        return error_response(StatusCode::FORBIDDEN, "requests from web pages are refused");
    }
    next.run(request).await
}
