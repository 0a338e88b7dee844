//! `/mcp`: the tools of an agent over HTTP, behind the token of reading.
//!
//! No session is kept: each POST is a request that is answered as a JSON document, so a reload or a restart loses nothing.

use super::context::ServerContext;
use super::read;
use super::response::WARNINGS;
use crate::mcp::tools::ANSWER_BYTES_MAX;
use crate::mcp::{McpServer, RouteReader, ToolAnswer, notes_of};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use futures_core::Stream;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use std::pin::Pin;
use std::sync::Arc;
use tower_service::Service;

pub(super) const MCP: &str = "/mcp";
/// Bytes of a request.
const REQUEST_BYTES_MAX: usize = 256 << 10;

pub(super) fn routes(context: &Arc<ServerContext>) -> Router<Arc<ServerContext>> {
    let routes = Arc::new(InnerRoutes(read::routes().with_state(context.clone())));
    // The token of reading stands in front of this route, so the name under which the host is known does not matter.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(REQUEST_BYTES_MAX);
    let server = move || Ok(McpServer::new(routes.clone()));
    let service = StreamableHttpService::new(server, Arc::new(NeverSessionManager::default()), config);
    Router::new().route_service(MCP, service)
}

/// The routes of `/api`, without another connection.
struct InnerRoutes(Router);

impl RouteReader for InnerRoutes {
    fn read(&self, target: String) -> Pin<Box<dyn Future<Output = Result<ToolAnswer, String>> + Send + '_>> {
        let mut routes = self.0.clone();
        Box::pin(async move {
            let request = Request::get(target).body(Body::empty()).map_err(|error| error.to_string())?;
            let response = routes.call(request).await.unwrap_or_else(|never| match never {});
            let warnings = response.headers().get(WARNINGS).and_then(|value| value.to_str().ok()).map(notes_of);
            let mut answer = ToolAnswer { warnings: warnings.unwrap_or_default(), ..ToolAnswer::default() };
            let is_refused = !response.status().is_success();
            let mut body = response.into_body().into_data_stream();
            let mut line = Vec::new();
            while let Some(part) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_next(cx)).await {
                let part: Bytes = part.map_err(|error| format!("the answer broke off: {error}"))?;
                for piece in part.split_inclusive(|byte| *byte == b'\n') {
                    // More of a line than an answer may have is not kept.
                    let room = (ANSWER_BYTES_MAX + 1).saturating_sub(line.len());
                    line.extend_from_slice(&piece[..piece.len().min(room)]);
                    let is_full = line.len() > ANSWER_BYTES_MAX;
                    if is_refused || !is_full && !line.ends_with(b"\n") {
                        continue;
                    }
                    let has_room = answer.lines.push(String::from_utf8_lossy(&line).trim_end());
                    line.clear();
                    if !has_room {
                        // The scan ends with its body.
                        return Ok(answer);
                    }
                }
            }
            if is_refused {
                return Err(reason(&line));
            }
            if !line.is_empty() {
                answer.lines.push(String::from_utf8_lossy(&line).trim_end());
            }
            Ok(answer)
        })
    }
}

/// The reason in the document of a refusal.
fn reason(body: &[u8]) -> String {
    let document: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let reason = document.as_ref().and_then(|document| document.get("error")?.as_str());
    reason.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned)
}
