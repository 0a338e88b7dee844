//! The upload of a journal: a body that is parsed while it arrives, on its own thread.
//!
//! ```text
//! runtime                     blocking thread, of which there are few
//! body ─► channel of 2 ─────► decode, entries, rows ─► committer
//! ```
//!
//! The channel is the back pressure: while the store is slow, the daemon stops reading and the client waits. A client that
//! is slow itself is refused, because it would hold its thread.

use super::push::{PushContext, next};
use super::readiness::wait_for_drain;
use axum::body::{BodyDataStream, Bytes};
use daytable_intake::counters::SourceEvent;
use daytable_intake::push::{Endpoint, PushRequest, PushResponse, Refusal};
use std::io::{self, Read};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

/// Chunks that wait to be parsed.
const CHUNKS_WAITING: usize = 2;
/// Bytes that must arrive within the time limit of a body, unless the body ends.
const UPLOAD_BYTES: usize = 16 << 10;
/// The longest pause before the rate limit of a paused upload is checked again.
const PAUSE_MAX: Duration = Duration::from_secs(10);

impl PushContext {
    /// Accepts an upload until its body ends.
    pub(super) async fn upload(
        &self,
        request: PushRequest,
        body: &mut BodyDataStream,
    ) -> Result<PushResponse, Refusal> {
        self.is_open()?;
        let permit = self.push.upload_permits().clone().try_acquire_owned();
        let permit = permit.map_err(|_| Refusal::Busy("too many journals are uploaded"))?;
        let (chunk_sender, chunks) = mpsc::channel(CHUNKS_WAITING);
        let (push, sender) = (self.push.clone(), request.sender.clone());
        let working = spawn_blocking(move || {
            let _permit = permit;
            push.upload_journal(
                &request,
                io::BufReader::new(UploadReader { chunks, chunk: Bytes::new(), is_over: false }),
            )
        });
        // Time that passes while the store or the rate limit is slow does not count against the client.
        let (mut patience, mut received) = (self.push.limits().body_timeout, 0);
        let mut draining = self.readiness.draining();
        loop {
            // A sender over its rate limit is not read from.
            let paced = async {
                while let Some(pause) = sender.pause() {
                    sleep(pause.min(PAUSE_MAX)).await;
                }
                let asked = Instant::now();
                let chunk = timeout(patience, next(body)).await;
                patience = patience.saturating_sub(asked.elapsed());
                chunk
            };
            let chunk = tokio::select! {
                chunk = paced => chunk,
                // Parsed records are committed; the client sends the rest again to the next daemon.
                () = wait_for_drain(&mut draining) => Ok(Some(Err(axum::Error::new(io::Error::other("the daemon stops"))))),
                () = chunk_sender.closed() => break,
            };
            let chunk = match chunk {
                Ok(Some(Ok(chunk))) => {
                    self.push.counters_of(Endpoint::Journal).count(SourceEvent::BodyBytes, chunk.len() as u64);
                    received += chunk.len();
                    if received >= UPLOAD_BYTES {
                        (patience, received) = (self.push.limits().body_timeout, 0);
                    }
                    UploadChunk::More(chunk)
                }
                Ok(None) => UploadChunk::End,
                Ok(Some(Err(error))) => UploadChunk::Broken(io::Error::other(error)),
                Err(_) => UploadChunk::Broken(io::ErrorKind::TimedOut.into()),
            };
            let is_last = !matches!(chunk, UploadChunk::More(_));
            // The thread ends early if the body is malformed.
            if chunk_sender.send(chunk).await.is_err() || is_last {
                break;
            }
        }
        drop(chunk_sender);
        match working.await {
            Ok(Err(_)) if *draining.borrow() => Err(Refusal::Busy("the daemon stops")),
            Ok(answer) => answer,
            Err(error) => {
                tracing::error!(%error, "an upload ended by a fault of daytable, please report it");
                Err(Refusal::Fault)
            }
        }
    }
}

/// A part of a body. A body that stops arriving has not ended.
enum UploadChunk {
    More(Bytes),
    End,
    Broken(io::Error),
}

/// Reads the chunks of a body on a blocking thread.
struct UploadReader {
    chunks: mpsc::Receiver<UploadChunk>,
    chunk: Bytes,
    is_over: bool,
}

impl Read for UploadReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() && !self.is_over {
            match self.chunks.blocking_recv() {
                Some(UploadChunk::More(chunk)) => self.chunk = chunk,
                Some(UploadChunk::End) => self.is_over = true,
                Some(UploadChunk::Broken(error)) => return Err(error),
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        let length = buffer.len().min(self.chunk.len());
        buffer[..length].copy_from_slice(&self.chunk.split_to(length));
        Ok(length)
    }
}
