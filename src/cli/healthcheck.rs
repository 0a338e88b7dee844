//! `daytable healthcheck`: whether the daemon is ready, for a container without `curl` and for whoever scripts.
//!
//! It asks over the control socket of the data folder, and where there is none, or none that this user may open, over
//! the configured listener. One answer within a short time, or it is not healthy: it exits with 0 or 69, so that it can
//! stand behind `HEALTHCHECK`, an exec probe or `ExecStartPost=` as it is.

use super::args::configured;
use super::exit::CliError;
use crate::config::{Config, Listen};
use daytable_model::path_text::PathText;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of an answer that are read at most: a status line and a reason.
const ANSWER_BYTES_MAX: u64 = 8 << 10;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration that the daemon runs with
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
    /// The data folder, in place of the configured one
    #[arg(long = "data", value_name = "DIR", env = "DAYTABLE_DATA")]
    data_dir: Option<PathBuf>,
    /// The address to ask, in place of the data folder's socket and the configured one
    #[arg(long, value_name = "ADDR")]
    address: Option<SocketAddr>,
    /// Ask whether it is alive, not whether it is ready
    #[arg(long)]
    live: bool,
    /// How long the answer may take, in all
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = super::args::interval)]
    timeout: Duration,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let path = if args.live { "/healthz" } else { "/readyz" };
    let unhealthy = |error: String| CliError::Unavailable(format!("not healthy: {error}"));
    if let Some(address) = args.address {
        return over_tcp(address, path, args.timeout).map_err(|error| unhealthy(format!("{address}: {error}")));
    }
    let config = configured(args.config.as_deref())?;
    let socket = daytable_store::control_socket(args.data_dir.as_ref().unwrap_or(&config.data_dir));
    let by_socket = match over_unix(&socket, path, args.timeout) {
        Err(Asked::NotReached(error)) => format!("{}: {error}", socket.escaped()),
        answered => return answered.map_err(|error| unhealthy(error.to_string())),
    };
    let address = reachable(&config).ok_or_else(|| unhealthy(by_socket.clone()))?;
    let answered = over_tcp(address, path, args.timeout);
    answered.map_err(|error| unhealthy(format!("{by_socket}; {address}: {error}")))
}

/// Why there is no good answer.
#[derive(Debug, thiserror::Error)]
enum Asked {
    /// Nobody listens, or not to this user.
    #[error("{0}")]
    NotReached(io::Error),
    /// It did not answer in time, or not as it should.
    #[error("it does not answer: {0}")]
    Silent(io::Error),
    /// It says that it is not.
    #[error("{0}")]
    Refuses(String),
}

/// Where the configured listener can be asked from this host without TLS.
fn reachable(config: &Config) -> Option<SocketAddr> {
    let Listen::Tcp(address) = config.http.listen else { return None };
    if config.http.tls.is_some() || address.port() == 0 {
        return None;
    }
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    Some(SocketAddr::new(ip, address.port()))
}

fn over_unix(socket: &Path, path: &str, timeout: Duration) -> Result<(), Asked> {
    let stream = UnixStream::connect(socket).map_err(Asked::NotReached)?;
    let limited = stream.set_read_timeout(Some(timeout)).and_then(|()| stream.set_write_timeout(Some(timeout)));
    limited.map_err(Asked::Silent)?;
    ask(stream, path)
}

fn over_tcp(address: SocketAddr, path: &str, timeout: Duration) -> Result<(), Asked> {
    let stream = TcpStream::connect_timeout(&address, timeout).map_err(Asked::NotReached)?;
    let limited = stream.set_read_timeout(Some(timeout)).and_then(|()| stream.set_write_timeout(Some(timeout)));
    limited.map_err(Asked::Silent)?;
    ask(stream, path)
}

/// Asks, and reads the status and, where that is not a good one, the reason.
fn ask(mut stream: impl Read + Write, path: &str) -> Result<(), Asked> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(Asked::Silent)?;
    let mut answer = BufReader::new(stream.take(ANSWER_BYTES_MAX));
    let mut status = String::new();
    answer.read_line(&mut status).map_err(Asked::Silent)?;
    match status.split(' ').nth(1) {
        Some("200") => return Ok(()),
        Some(_) => {}
        None => return Err(Asked::Silent(io::ErrorKind::InvalidData.into())),
    }
    let mut rest = Vec::new();
    answer.read_to_end(&mut rest).map_err(Asked::Silent)?;
    let rest = String::from_utf8_lossy(&rest);
    let reason = rest.split_once("\r\n\r\n").map_or("", |(_, body)| body).trim();
    Err(Asked::Refuses(if reason.is_empty() { status.trim().to_owned() } else { reason.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// What was written, and what is answered.
    struct Scripted(Vec<u8>, Cursor<&'static str>);

    impl Read for Scripted {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1.read(buffer)
        }
    }

    impl Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn asked(answer: &'static str) -> Result<(), String> {
        ask(Scripted(Vec::new(), Cursor::new(answer)), "/readyz").map_err(|error| error.to_string())
    }

    #[test]
    fn only_a_200_is_healthy_and_a_refusal_says_why() {
        assert_eq!(asked("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n"), Ok(()));
        assert_eq!(asked("HTTP/1.1 503 Service Unavailable\r\na: b\r\n\r\ndraining\n"), Err("draining".into()));
        assert_eq!(asked("HTTP/1.1 404 Not Found\r\n\r\n"), Err("HTTP/1.1 404 Not Found".into()));
        for nothing in ["", "SSH-2.0-OpenSSH\r\n"] {
            assert!(asked(nothing).is_err_and(|error| error.starts_with("it does not answer")), "{nothing:?}");
        }
    }

    #[test]
    fn an_address_that_stands_for_any_is_asked_on_loopback() {
        let at = |text: &str| {
            let mut config = Config::default();
            config.http.listen = text.parse().expect("an address");
            reachable(&config).map(|address| address.to_string())
        };
        assert_eq!(at("0.0.0.0:7878").as_deref(), Some("127.0.0.1:7878"));
        assert_eq!(at("[::]:1").as_deref(), Some("[::1]:1"));
        assert_eq!(at("10.0.0.1:9").as_deref(), Some("10.0.0.1:9"));
        assert_eq!((at("off"), at("127.0.0.1:0")), (None, None));
    }
}
