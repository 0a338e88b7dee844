//! A small HTTP/1.1 client, so that tests see the bytes on the wire.

use super::Daemon;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream};

trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// A kept-alive connection.
pub(super) struct Client(BufReader<Box<dyn Wire>>);

/// An answer, read to its end.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Response {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }
}

impl Client {
    pub(super) async fn tcp(address: SocketAddr) -> Client {
        Client(BufReader::new(Box::new(TcpStream::connect(address).await.expect("connected"))))
    }

    pub(super) async fn unix(path: &Path) -> Client {
        Client(BufReader::new(Box::new(UnixStream::connect(path).await.expect("connected"))))
    }

    pub(super) async fn get(&mut self, path: &str) -> Response {
        self.send("GET", path, "", "").await
    }

    /// `headers` end in CRLF each.
    pub(super) async fn send(&mut self, method: &str, path: &str, headers: &str, body: &str) -> Response {
        self.try_send(method, path, headers, body).await.expect("a whole answer")
    }

    pub(super) async fn try_send(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> io::Result<Response> {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n");
        // A server may answer and close before it has read everything.
        let _ = self.0.write_all((head + body).as_bytes()).await;
        self.response().await
    }

    pub(super) async fn write(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.expect("written");
    }

    /// The remaining bytes until the connection ends in any way.
    pub(super) async fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest).await;
        String::from_utf8(rest).expect("text")
    }

    /// Reads until `mark`; returns the bytes.
    pub(super) async fn until(&mut self, mark: &str) -> String {
        let mut read = String::new();
        while !read.contains(mark) {
            read.push(char::from(self.0.read_u8().await.expect("more")));
        }
        read
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    async fn exactly(&mut self, length: usize) -> io::Result<String> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).await?;
        Ok(String::from_utf8(bytes).expect("text"))
    }

    async fn response(&mut self) -> io::Result<Response> {
        let status = self.line().await?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line");
        let mut response = Response { status, headers: Vec::new(), body: String::new() };
        while let Some((name, value)) = self.line().await?.split_once(": ") {
            response.headers.push((name.to_owned(), value.to_owned()));
        }
        if let Some(length) = response.header("content-length") {
            response.body = self.exactly(length.parse().expect("a length")).await?;
            return Ok(response);
        }
        if response.header("transfer-encoding").is_none() {
            return Ok(response);
        }
        loop {
            let length = usize::from_str_radix(&self.line().await?, 16).expect("a chunk's length");
            let chunk = self.exactly(length + 2).await?;
            if length == 0 {
                return Ok(response);
            }
            response.body.push_str(&chunk[..length]);
        }
    }
}

impl Daemon {
    /// A client that follows over the socket, which needs no token.
    pub(super) async fn follower(&self) -> Client {
        let mut client = self.unix().await;
        client.write("GET /api/tail HTTP/1.1\r\nhost: x\r\n\r\n").await;
        client
    }
}
