//! Files that a client of the control socket opened, and passes with its request.
//!
//! `daytable import` opens its files itself, and sends their descriptors (`SCM_RIGHTS`). So an import reads what its
//! caller may read, and the daemon opens no path that a client names.

use daytable_platform::lock;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;

/// Files that a connection passes at a time. The kernel closes further ones.
pub const PASSED_FILES_MAX: usize = 64;

/// The files that came over a connection: an extension of each request of the control socket.
#[derive(Clone, Debug, Default)]
pub(super) struct PassedFiles(Arc<Mutex<Vec<File>>>);

impl PassedFiles {
    /// The files that came since the last call, in their order.
    pub(super) fn take(&self) -> Vec<File> {
        std::mem::take(&mut lock(&self.0))
    }

    fn put(&self, files: impl Iterator<Item = File>) {
        let mut passed = lock(&self.0);
        let room = PASSED_FILES_MAX.saturating_sub(passed.len());
        passed.extend(files.take(room));
    }
}

/// A connection of the control socket, with the files that come over it.
pub(super) struct ControlStream {
    stream: UnixStream,
    files: PassedFiles,
}

impl ControlStream {
    pub(super) fn new(stream: UnixStream) -> (ControlStream, PassedFiles) {
        let files = PassedFiles::default();
        (ControlStream { stream, files: files.clone() }, files)
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_FILES_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(buffer)];
        let received = recvmsg(&self.stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.put(files.map(File::from));
            }
        }
        Ok(received.bytes)
    }
}

impl AsyncRead for ControlStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            let read = self.stream.try_io(Interest::READABLE, || self.receive(buffer.initialize_unfilled()));
            match read {
                Ok(bytes) => {
                    buffer.advance(bytes);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for ControlStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
