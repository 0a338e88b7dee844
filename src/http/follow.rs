//! `/api/tail`: records as they are committed, as server-sent events.
//!
//! A follower is a blocking thread and a connection for as long as the client likes, so there are few of them. It is
//! ended by the client, by the write stall of a client that does not read, or by draining.

use super::api::ApiError;
use super::params;
use super::readiness::drained;
use super::response::{PartStream, ResponseFormat, TruncatedResponse, of_frame, start};
use super::routes::ServerContext;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use futures_core::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// A comment, which clients pass over.
const HEARTBEAT: &[u8] = b":\n\n";

pub(super) async fn tail(State(shared): State<Arc<ServerContext>>, uri: Uri) -> Result<Response, ApiError> {
    let filters = params::tail(&uri)?;
    let room = shared.followers.clone().try_acquire_owned();
    let room = room.map_err(|_| ApiError::Busy("too many clients follow already".into()))?;
    let mut draining = shared.readiness.draining();
    let mut heartbeat = interval(shared.limits.heartbeat);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat.reset();
    let parts = start(ResponseFormat::Events, room, move |out| (shared.api.tail)(&filters, out)).await?;
    let drained = Box::pin(async move { drained(&mut draining).await });
    Ok(of_frame(ResponseFormat::Events, Body::from_stream(Events { parts, heartbeat, drained })))
}

/// The body of an answer that is not to end.
struct Events {
    parts: PartStream,
    heartbeat: Interval,
    drained: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Stream for Events {
    type Item = Result<Bytes, TruncatedResponse>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.drained.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        if let Poll::Ready(part) = Pin::new(&mut self.parts).poll_next(context) {
            self.heartbeat.reset();
            return Poll::Ready(part);
        }
        self.heartbeat.poll_tick(context).map(|_| Some(Ok(Bytes::from_static(HEARTBEAT))))
    }
}
