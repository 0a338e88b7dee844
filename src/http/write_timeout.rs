//! A connection that fails when its peer does not read for too long.
//!
//! Without the limit, a client that requests a million records and reads none would hold its scan, the scan's snapshot
//! and its scan permit indefinitely.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes wait at most `limit`.
pub(super) struct WriteTimeout<S> {
    inner: S,
    limit: Duration,
    /// The timer, while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(inner: S, limit: Duration) -> WriteTimeout<S> {
        WriteTimeout { inner, limit, stalled: None }
    }

    /// Returns the result of a write, or an error if the write has waited too long.
    fn limit_wait<T>(&mut self, context: &mut Context<'_>, write: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.stalled = None;
            return write;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.limit_wait(context, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.limit_wait(context, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn a_write_without_a_reader_fails_after_the_limit() {
        let (near, _far) = duplex(4);
        let mut near = WriteTimeout::new(near, Duration::from_secs(30));
        let began = tokio::time::Instant::now();
        let error = near.write_all(b"more than four").await.expect_err("without a reader");
        assert_eq!((error.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, 30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_does_not_time_out() {
        let (near, mut far) = duplex(1);
        let mut near = WriteTimeout::new(near, Duration::from_secs(30));
        let reader = tokio::spawn(async move {
            let mut read = Vec::new();
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_secs(20)).await;
                read.push(far.read_u8().await.expect("a byte"));
            }
            read
        });
        near.write_all(b"hello").await.expect("it is read, if slowly");
        assert_eq!(reader.await.expect("no panic"), b"hello");
    }
}
