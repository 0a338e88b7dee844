//! `/api/tail`: records as they are committed, as server-sent events.
//!
//! A follower holds a blocking thread and a connection for as long as the client likes, so their number is small. The
//! client ends a follower, or the write timeout of a client that does not read, or the drain.

use super::api::Api;
use super::context::ServerContext;
use super::error::{ApiError, ApiResult};
use super::params;
use super::readiness::wait_for_drain;
use super::request_params::RequestParams;
use super::response::{
    PartStream, ResponseFormat, ResponseWriter, TruncatedResponse, start, with_format, with_warnings,
};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use futures_core::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// A comment, which clients ignore.
const HEARTBEAT: &[u8] = b":\n\n";

pub(super) async fn tail(
    State(context): State<Arc<ServerContext>>,
    params: RequestParams,
) -> Result<Response, ApiError> {
    let filters = params::tail(&params)?;
    stream(context, move |api, out| api.tail(&filters, out)).await
}

/// A response that stays open.
pub(super) async fn stream(
    context: Arc<ServerContext>,
    follow: impl FnOnce(&dyn Api, &mut ResponseWriter) -> ApiResult + Send + 'static,
) -> Result<Response, ApiError> {
    let permit = context.follow_permit()?;
    let mut draining = context.readiness.draining();
    let mut heartbeat = interval(context.limits.heartbeat);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat.reset();
    let mut parts = start(ResponseFormat::Events, permit, move |out| follow(&*context.api, out)).await?;
    let drained = Box::pin(async move { wait_for_drain(&mut draining).await });
    let warnings = parts.warnings();
    let body = Body::from_stream(EventStream { parts, heartbeat, drained });
    Ok(with_warnings(with_format(ResponseFormat::Events, body), warnings))
}

/// The body of a response that stays open.
struct EventStream {
    parts: PartStream,
    heartbeat: Interval,
    drained: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Stream for EventStream {
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
