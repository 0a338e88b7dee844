//! The journal's upload: a body that is read as it comes, on a thread of its own.
//!
//! ```text
//! runtime                     blocking thread, of which there are few
//! body ─► channel of 2 ─────► decode, entries, rows ─► committer
//! ```
//!
//! The channel is the back pressure: where the store does not keep up nothing more is read, and the client waits. A client
//! that is slow by itself is sent away, so that it does not hold its thread.

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

/// UploadReader that wait to be read.
const PIECES_WAITING: usize = 2;
/// Bytes that have to come within the time of a body, or its end.
const UPLOAD_BYTES: usize = 16 << 10;
/// How long an upload that is over its rate is left alone at most before it is looked again.
const PAUSE_MAX: Duration = Duration::from_secs(10);

impl PushContext {
    /// The journal's upload, for as long as it has something.
    pub(super) async fn upload(
        &self,
        request: PushRequest,
        body: &mut BodyDataStream,
    ) -> Result<PushResponse, Refusal> {
        self.is_open()?;
        let place = self.push.upload_permits().clone().try_acquire_owned();
        let place = place.map_err(|_| Refusal::Busy("too many journals are uploaded"))?;
        let (pieces, comes) = mpsc::channel(PIECES_WAITING);
        let (push, sender) = (self.push.clone(), request.sender.clone());
        let working = spawn_blocking(move || {
            let _place = place;
            push.upload_journal(
                &request,
                io::BufReader::new(UploadReader { comes, piece: Bytes::new(), is_over: false }),
            )
        });
        // What it waits for the store, or for its rate, is not the client's time.
        let (mut patience, mut came) = (self.push.limits().body_timeout, 0);
        let mut draining = self.readiness.draining();
        loop {
            // Who is over his rate is not read from.
            let paced = async {
                while let Some(pause) = sender.pause() {
                    sleep(pause.min(PAUSE_MAX)).await;
                }
                let asked = Instant::now();
                let piece = timeout(patience, next(body)).await;
                patience = patience.saturating_sub(asked.elapsed());
                piece
            };
            let piece = tokio::select! {
                piece = paced => piece,
                // What came is committed; the client sends the rest, and that again, to whoever comes after.
                () = wait_for_drain(&mut draining) => Ok(Some(Err(axum::Error::new(io::Error::other("the daemon stops"))))),
                () = pieces.closed() => break,
            };
            let piece = match piece {
                Ok(Some(Ok(piece))) => {
                    self.push.counters_of(Endpoint::Journal).count(SourceEvent::BodyBytes, piece.len() as u64);
                    came += piece.len();
                    if came >= UPLOAD_BYTES {
                        (patience, came) = (self.push.limits().body_timeout, 0);
                    }
                    UploadChunk::More(piece)
                }
                Ok(None) => UploadChunk::End,
                Ok(Some(Err(error))) => UploadChunk::Broken(io::Error::other(error)),
                Err(_) => UploadChunk::Broken(io::ErrorKind::TimedOut.into()),
            };
            let is_last = !matches!(piece, UploadChunk::More(_));
            // Nobody listens once there is something wrong with it.
            if pieces.send(piece).await.is_err() || is_last {
                break;
            }
        }
        drop(pieces);
        match working.await {
            Ok(Err(_)) if *draining.borrow() => Err(Refusal::Busy("the daemon stops")),
            Ok(answer) => answer,
            Err(error) => {
                tracing::error!(%error, "an upload failed by a fault of its own");
                Err(Refusal::Fault)
            }
        }
    }
}

/// What comes of a body. One that just stops coming has not ended.
enum UploadChunk {
    More(Bytes),
    End,
    Broken(io::Error),
}

/// What comes of a body, for a thread that waits for it.
struct UploadReader {
    comes: mpsc::Receiver<UploadChunk>,
    piece: Bytes,
    is_over: bool,
}

impl Read for UploadReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && !self.is_over {
            match self.comes.blocking_recv() {
                Some(UploadChunk::More(piece)) => self.piece = piece,
                Some(UploadChunk::End) => self.is_over = true,
                Some(UploadChunk::Broken(error)) => return Err(error),
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        let length = buffer.len().min(self.piece.len());
        buffer[..length].copy_from_slice(&self.piece.split_to(length));
        Ok(length)
    }
}
