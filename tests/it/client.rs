//! A minimal HTTP/1.1 client for tests: one request per connection.

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{self, BufRead, BufReader, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long the server may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A complete response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The header lines, in lower case.
    pub(crate) head: String,
    /// The body, without chunk sizes.
    pub(crate) body: String,
}

/// Sends a request over a unix socket.
pub(crate) fn over_unix(socket: &Path, method: &str, target: &str, body: &str) -> io::Result<Answer> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    ask(stream, method, target, "", body)
}

/// Posts a body over a unix socket, together with an open file.
pub(crate) fn post_file(socket: &Path, target: &str, body: &str, file: &File) -> io::Result<Answer> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let request = format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)), "there is room for one");
    let sent = sendmsg(&stream, &[IoSlice::new(request.as_bytes())], &mut control, SendFlags::NOSIGNAL)?;
    assert_eq!(sent, request.len());
    answer_of(stream)
}

/// Sends a request over TCP, with extra header lines, each with its CRLF.
pub(crate) fn over_tcp(address: SocketAddr, method: &str, target: &str, headers: &str) -> io::Result<Answer> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    ask(stream, method, target, headers, "")
}

/// Sends a request over an open stream, with extra header lines and a body.
pub(crate) fn over<S: Read + Write>(
    stream: S,
    method: &str,
    target: &str,
    headers: &str,
    body: &[u8],
) -> io::Result<Answer> {
    ask_bytes(stream, method, target, headers, body)
}

/// Opens an endless response. Returns its head, and an iterator over its lines.
pub(crate) fn follow(socket: &Path, target: &str) -> io::Result<(String, impl Iterator<Item = String>)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    write!(stream, "GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut reader = BufReader::new(stream);
    let head = head_of(&mut reader)?;
    Ok((head, reader.lines().map_while(Result::ok)))
}

fn ask<S: Read + Write>(stream: S, method: &str, target: &str, headers: &str, body: &str) -> io::Result<Answer> {
    ask_bytes(stream, method, target, headers, body.as_bytes())
}

fn ask_bytes<S: Read + Write>(
    mut stream: S,
    method: &str,
    target: &str,
    headers: &str,
    body: &[u8],
) -> io::Result<Answer> {
    let length = body.len();
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    )?;
    stream.write_all(body)?;
    stream.flush()?;
    answer_of(stream)
}

fn answer_of(stream: impl Read) -> io::Result<Answer> {
    let mut reader = BufReader::new(stream);
    let head = head_of(&mut reader)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no status in {head:?}")))?;
    let mut body = Vec::new();
    if head.contains("transfer-encoding: chunked") {
        read_chunks(&mut reader, &mut body)?;
    } else {
        reader.read_to_end(&mut body)?;
    }
    Ok(Answer { status, head, body: String::from_utf8_lossy(&body).into_owned() })
}

fn head_of(reader: &mut impl BufRead) -> io::Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head.to_ascii_lowercase())
}

fn read_chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = u64::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
        if size == 0 {
            return Ok(());
        }
        reader.by_ref().take(size).read_to_end(body)?;
        reader.read_line(&mut String::new())?;
    }
}

/// A text as a part of a URL.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
