//! `daytable healthcheck`: checks whether the daemon is ready, for scripts and for containers without `curl`.
//!
//! The command uses the control socket of the data folder, or the configured listener if this user cannot open the
//! socket. It exits with 0, or with 69 if there is no good response within the timeout. So it fits `HEALTHCHECK`, an
//! exec probe or `ExecStartPost=`.

use super::args::{DaemonArgs, interval};
use super::exit::CliError;
use super::locate;
use crate::config::{Config, Listen};
use daytable_model::path_text::PathText;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Bytes of a response: a status line and a reason.
const RESPONSE_BYTES_MAX: u64 = 8 << 10;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// The TCP address to ask, instead of the control socket and the configured address
    #[arg(long, value_name = "ADDR")]
    address: Option<SocketAddr>,
    /// Check whether the daemon is alive, not whether it is ready
    #[arg(long)]
    live: bool,
    /// How long the whole response may take
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = interval)]
    timeout: Duration,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let path = if args.live { "/healthz" } else { "/readyz" };
    let unhealthy = |error: String| {
        let start = locate::start_command();
        CliError::Unavailable(format!("not healthy: {error}; `daytable status` shows the daemon; start it: {start}"))
    };
    if let Some(address) = args.address {
        return over_tcp(address, path, args.timeout).map_err(|error| unhealthy(format!("{address}: {error}")));
    }
    let located = args.daemon.located()?;
    let socket = daytable_store::control_socket(&located.data_dir);
    let by_socket = match over_unix(&socket, path, args.timeout) {
        // The folder that was named has no daemon: whoever listens at the address is another one.
        Err(HealthError::NotReached(error))
            if args.daemon.data_dir.is_some() && error.kind() != io::ErrorKind::PermissionDenied =>
        {
            return Err(unhealthy(format!("{}: {error}", socket.escaped())));
        }
        Err(HealthError::NotReached(error)) => format!("{}: {error}", socket.escaped()),
        answered => return answered.map_err(|error| unhealthy(error.to_string())),
    };
    // A wrong configuration says no address.
    let address = located.named.as_ref().and_then(reachable).ok_or_else(|| unhealthy(by_socket.clone()))?;
    let answered = over_tcp(address, path, args.timeout);
    answered.map_err(|error| unhealthy(format!("{by_socket}; {address}: {error}")))
}

/// There is no good response.
#[derive(Debug, thiserror::Error)]
enum HealthError {
    /// There is no listener for this user.
    #[error("{0}")]
    NotReached(io::Error),
    /// The response is late or malformed.
    #[error("it does not answer: {0}")]
    Silent(io::Error),
    /// The daemon is not healthy.
    #[error("{0}")]
    Refuses(String),
}

/// The address of the configured listener from this host, if it speaks without TLS.
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

fn over_unix(socket: &Path, path: &str, timeout: Duration) -> Result<(), HealthError> {
    let stream = UnixStream::connect(socket).map_err(HealthError::NotReached)?;
    let limited = stream.set_read_timeout(Some(timeout)).and_then(|()| stream.set_write_timeout(Some(timeout)));
    limited.map_err(HealthError::Silent)?;
    ask(stream, path)
}

fn over_tcp(address: SocketAddr, path: &str, timeout: Duration) -> Result<(), HealthError> {
    let stream = TcpStream::connect_timeout(&address, timeout).map_err(HealthError::NotReached)?;
    let limited = stream.set_read_timeout(Some(timeout)).and_then(|()| stream.set_write_timeout(Some(timeout)));
    limited.map_err(HealthError::Silent)?;
    ask(stream, path)
}

/// Sends the request, and reads the status and the reason of a bad status.
fn ask(mut stream: impl Read + Write, path: &str) -> Result<(), HealthError> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(HealthError::Silent)?;
    let mut response = BufReader::new(stream.take(RESPONSE_BYTES_MAX));
    let mut status = String::new();
    response.read_line(&mut status).map_err(HealthError::Silent)?;
    match status.split(' ').nth(1) {
        Some("200") => return Ok(()),
        Some(_) => {}
        None => return Err(HealthError::Silent(io::ErrorKind::InvalidData.into())),
    }
    let mut rest = Vec::new();
    response.read_to_end(&mut rest).map_err(HealthError::Silent)?;
    let rest = String::from_utf8_lossy(&rest);
    let reason = rest.split_once("\r\n\r\n").map_or("", |(_, body)| body).trim();
    Err(HealthError::Refuses(if reason.is_empty() { status.trim().to_owned() } else { reason.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// The written request, and the response.
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
    fn a_wildcard_address_is_checked_on_loopback() {
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
