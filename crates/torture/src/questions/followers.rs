//! Followers that do not read, and such that send without an end.

use super::Ending;
use daytable_crash::random::Random;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Bytes of a part of a message that has no end.
const PART_BYTES: usize = 1 << 20;
/// How long a follower holds on.
const HELD_MS_MAX: u64 = 5_000;
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens one follower after the other. The daemon may close each of them at any time.
pub(super) fn follow(socket: &Path, mut random: Random, ending: &Ending) {
    while !ending.is_over() {
        let begun = match random.below(3) {
            0 => begin(socket, "/api/tail?q=*", false),
            _ => begin(socket, "/loki/api/v1/tail?query=%7Binstance%3D~%22.%2B%22%7D", true),
        };
        if let Ok(mut stream) = begun
            && random.one_in(2)
        {
            // A daemon that closes the connection fails the write.
            let _ = send_without_end(&mut stream, ending);
        } else {
            thread::sleep(Duration::from_millis(random.below(HELD_MS_MAX)));
        }
    }
}

fn begin(socket: &Path, target: &str, is_websocket: bool) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let upgrade = if is_websocket { upgrade } else { "" };
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{upgrade}\r\n").as_bytes())?;
    stream.read_exact(&mut [0; 12])?;
    Ok(stream)
}

/// A message of parts, of which none is the last.
fn send_without_end(stream: &mut UnixStream, ending: &Ending) -> io::Result<()> {
    const TEXT: u8 = 1;
    const MASKED_LENGTH_OF_8_BYTES: u8 = 0xff;
    let mut first = TEXT;
    while !ending.is_over() {
        stream.write_all(&[first, MASKED_LENGTH_OF_8_BYTES])?;
        stream.write_all(&(PART_BYTES as u64).to_be_bytes())?;
        // The mask, which changes nothing.
        stream.write_all(&[0; 4])?;
        stream.write_all(&vec![b'a'; PART_BYTES])?;
        first = 0;
    }
    Ok(())
}
