//! `tail`: entries as they are committed, through a websocket. Grafana's button "Live" and `logcli --tail` use it.
//!
//! A client sends nothing but pings and its end, so its messages are small. Frames are bounded by bytes: each is charged to
//! an account of all followers until it is written, and a follower waits while there is no room.

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
use daytable_platform::budget::{MemoryBudget, QuestionBudget};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Entries of a frame at most.
const FRAME_ENTRIES_MAX: usize = 1000;
/// Bytes of the entries of a frame, unless one entry has more.
const FRAME_BYTES_MAX: usize = 64 << 10;
/// Frames that wait for a slow client. Further entries wait in the store.
const FRAMES_WAITING: usize = 1;
/// Bytes of a message of a client, and of what is read of it at once.
const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// How often a follower asks for room for a frame.
const ROOM_INTERVAL: Duration = Duration::from_millis(20);

/// A frame, and its memory.
struct Frame {
    text: String,
    _room: QuestionBudget,
}

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
    let upgrade = upgrade.max_message_size(MESSAGE_BYTES_MAX).max_frame_size(MESSAGE_BYTES_MAX);
    let upgrade = upgrade.read_buffer_size(MESSAGE_BYTES_MAX).write_buffer_size(0);
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
    frames: &mpsc::Sender<Frame>,
) {
    let (mut waiting, mut bytes): (Vec<ShownEntry>, usize) = (Vec::new(), 0);
    let is_wanted = || !clock.is_unwanted() && !frames.is_closed();
    let followed = context.api.follow_log_entries(&query.selector, seen, &mut |entry| {
        if !is_wanted() {
            return ControlFlow::Break(());
        }
        let is_pause = entry.is_none();
        if let Some(entry) = entry {
            match query.show(&entry, params.now, &is_wanted) {
                Ok(shown) => {
                    bytes += shown.as_ref().map_or(0, ShownEntry::bytes);
                    waiting.extend(shown);
                }
                Err(error) => {
                    tracing::debug!(%error, "a follower ends");
                    return ControlFlow::Break(());
                }
            }
        }
        let is_full = waiting.len() >= FRAME_ENTRIES_MAX || bytes >= FRAME_BYTES_MAX;
        if waiting.is_empty() || !is_pause && !is_full {
            return ControlFlow::Continue(());
        }
        let Some(room) = room(&context.limits.frames, std::mem::take(&mut bytes), &is_wanted) else {
            return ControlFlow::Break(());
        };
        let entries = std::mem::take(&mut waiting);
        let mut frame = Document::default();
        frame.push(r#"{"dropped_entries":[],"streams":"#);
        write_streams(entries, params.categorizes, &mut frame, &|_| {});
        frame.push("}");
        let frame = Frame { text: frame.into_text(), _room: room };
        if frames.blocking_send(frame).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    if let Err(error) = followed {
        tracing::error!(%error, "failed to follow entries");
    }
}

/// Room for a frame of this many bytes. Waits while the other followers have it; `None` when nobody waits for the
/// frame.
fn room(frames: &MemoryBudget, bytes: usize, is_wanted: &dyn Fn() -> bool) -> Option<QuestionBudget> {
    let room = frames.question();
    let bytes = bytes.min(room.bytes_max());
    while room.charge(bytes, "frames").is_err() {
        if !is_wanted() {
            return None;
        }
        std::thread::sleep(ROOM_INTERVAL);
    }
    Some(room)
}

/// Sends frames until the client closes.
async fn send(mut socket: WebSocket, mut frames: mpsc::Receiver<Frame>) {
    loop {
        tokio::select! {
            frame = frames.recv() => {
                let Some(frame) = frame else { break };
                let Frame { text, _room } = frame;
                if socket.send(Message::Text(text.into())).await.is_err() {
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
