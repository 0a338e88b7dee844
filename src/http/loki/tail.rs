//! `tail`: entries as they are committed, through a websocket. Grafana's button "Live" and `logcli --tail` use it.

use super::Document;
use super::params::LokiParams;
use super::query::write_streams;
use crate::http::context::ServerContext;
use crate::http::question::{EndOnDrop, LokiError, QuestionClock};
use crate::http::readiness::wait_for_drain;
use crate::http::request_params::RequestParams;
use crate::http::tenants::Visibility;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use daytable_logql::ast::{LogQuery, LogqlQuery};
use daytable_logql::eval::ShownEntry;
use std::ops::ControlFlow;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Entries of a frame at most.
const FRAME_ENTRIES_MAX: usize = 1000;
/// Frames that wait for a slow client. Further entries wait in the store.
const FRAMES_WAITING: usize = 4;

pub(super) async fn tail(
    State(context): State<Arc<ServerContext>>,
    Extension(seen): Extension<Visibility>,
    uri: Uri,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Result<Response, LokiError> {
    let given = RequestParams::of_uri(&uri).map_err(|error| LokiError::wrong(error.to_string()))?;
    let params = LokiParams::read(given, &headers);
    let LogqlQuery::Log(query) = daytable_logql::parse(params.required("query")?)? else {
        return Err(LokiError::wrong("only entries can be followed, not numbers"));
    };
    let permit = context
        .follow_permit()
        .map_err(|error| LokiError(axum::http::StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
    let mut draining = context.readiness.draining();
    Ok(upgrade.on_upgrade(async move |socket| {
        let clock = QuestionClock::start();
        let end = EndOnDrop(clock.clone());
        let (sender, frames) = mpsc::channel(FRAMES_WAITING);
        let following = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            follow(&context, &seen, &query, &params, &clock, &sender);
        });
        tokio::select! {
            () = send(socket, frames) => {}
            () = wait_for_drain(&mut draining) => {}
        }
        drop(end);
        let _ = following.await;
    }))
}

/// Makes frames of new entries, until the client is gone.
fn follow(
    context: &ServerContext,
    seen: &Visibility,
    query: &LogQuery,
    params: &LokiParams,
    clock: &QuestionClock,
    frames: &mpsc::Sender<String>,
) {
    let mut waiting: Vec<ShownEntry> = Vec::new();
    let followed = context.api.follow_log_entries(&query.selector, seen, &mut |entry| {
        if clock.is_unwanted() || frames.is_closed() {
            return ControlFlow::Break(());
        }
        let is_pause = entry.is_none();
        waiting.extend(entry.and_then(|entry| query.show(&entry, params.now)));
        if waiting.is_empty() || !is_pause && waiting.len() < FRAME_ENTRIES_MAX {
            return ControlFlow::Continue(());
        }
        let entries = std::mem::take(&mut waiting);
        let mut frame = Document(r#"{"dropped_entries":[],"streams":"#.into());
        write_streams(entries, params.categorizes, &mut frame);
        frame.push("}");
        if frames.blocking_send(frame.0).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    if let Err(error) = followed {
        tracing::error!(%error, "failed to follow entries");
    }
}

/// Sends frames until the client closes.
async fn send(mut socket: WebSocket, mut frames: mpsc::Receiver<String>) {
    loop {
        tokio::select! {
            frame = frames.recv() => {
                let Some(frame) = frame else { break };
                if socket.send(Message::Text(frame.into())).await.is_err() {
                    break;
                }
            }
            // A client sends nothing but pings and its end.
            received = socket.recv() => match received {
                Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                Some(Ok(_)) => {}
            },
        }
    }
}
