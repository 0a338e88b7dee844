//! Adds a text to the refusal of a long head.
//!
//! hyper reads the heads of requests, and answers a head that is too long by itself, without a body. No route answers
//! with that status. So where hyper writes such a response, this stream writes one that says the limit, and what to do.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of a request's head at most.
pub(super) const HEAD_BYTES_MAX: usize = 16 << 10;
/// Headers of a request at most.
pub(super) const HEADERS_MAX: usize = 64;

/// How hyper's refusal begins.
const REFUSAL: &[u8] = b"HTTP/1.1 431 ";

/// A stream of responses.
pub(super) struct LongHeads<S> {
    inner: S,
    /// What is left to write of a refusal with a text.
    left: Option<Vec<u8>>,
}

impl<S> LongHeads<S> {
    pub(super) fn new(inner: S) -> LongHeads<S> {
        LongHeads { inner, left: None }
    }
}

fn refusal() -> Vec<u8> {
    let text = format!(
        "{{\"error\":\"the head of a request has at most {HEAD_BYTES_MAX} bytes and {HEADERS_MAX} headers: send long parameters as a form, by POST\"}}\n"
    );
    let head = "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length";
    format!("{head}: {}\r\n\r\n{text}", text.len()).into()
}

impl<S: AsyncWrite + Unpin> LongHeads<S> {
    /// Writes the refusal with a text in place of hyper's `bytes`, which begin with it or not; `None` if they do not.
    fn poll_refusal(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Option<Poll<io::Result<()>>> {
        if self.left.is_none() && bytes.starts_with(REFUSAL) {
            self.left = Some(refusal());
        }
        let left = self.left.as_mut()?;
        while !left.is_empty() {
            match Pin::new(&mut self.inner).poll_write(context, left) {
                Poll::Pending => return Some(Poll::Pending),
                Poll::Ready(Ok(0)) => return Some(Poll::Ready(Err(io::ErrorKind::WriteZero.into()))),
                Poll::Ready(Ok(written)) => drop(left.drain(..written)),
                Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error))),
            }
        }
        self.left = None;
        Some(Poll::Ready(Ok(())))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LongHeads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LongHeads<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.poll_refusal(context, bytes) {
            Some(refused) => refused.map_ok(|()| bytes.len()),
            None => Pin::new(&mut self.inner).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = slices.iter().find(|slice| !slice.is_empty());
        if let Some(refused) = first.and_then(|first| self.poll_refusal(context, first)) {
            ready!(refused)?;
            return Poll::Ready(Ok(first.map_or(0, |first| first.len())));
        }
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
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

    /// Also where the peer reads a byte at a time.
    #[tokio::test]
    async fn a_refusal_gets_a_text_and_other_responses_stay() {
        for room in [1, 4096] {
            let (near, mut far) = duplex(room);
            let mut near = LongHeads::new(near);
            let writing = tokio::spawn(async move {
                near.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n").await.expect("written");
                near.write_all(b"x").await.expect("written");
                near.write_all(b"HTTP/1.1 431 Whatever\r\ncontent-length: 0\r\n\r\n").await.expect("written");
                near.shutdown().await.expect("ended");
            });
            let mut answer = String::new();
            far.read_to_string(&mut answer).await.expect("read");
            writing.await.expect("no panic");
            let (first, second) = answer.split_once("HTTP/1.1 431 ").expect("both");
            assert_eq!(first, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx");
            let (head, text) = second.split_once("\r\n\r\n").expect("a head");
            assert!(
                head.contains(&format!("content-length: {}", text.len())) && text.contains("16384 bytes"),
                "{second}"
            );
        }
    }
}
