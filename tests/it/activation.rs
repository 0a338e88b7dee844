//! Socket activation: the daemon takes the manager's sockets by address, leaves them at its end, and serves each of
//! them.

use crate::client;
use crate::place::{DAYTABLE, Daemon, Place};
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;

/// Does the work of systemd: binds the sockets, and becomes the daemon with descriptors from 3 on. `stream:PATH` and
/// `dgram:PATH` have a path, `tcp:NAME` and `udp:NAME` a free port, which replaces NAME in the configuration.
const MANAGER: &str = r#"
import fcntl, os, socket, sys
config, sockets, *command = sys.argv[1:]
text = open(config).read()
descriptors = []
for spec in sockets.split(","):
    kind, name = spec.split(":", 1)
    family = socket.AF_UNIX if kind in ("stream", "dgram") else socket.AF_INET
    type = socket.SOCK_STREAM if kind in ("stream", "tcp") else socket.SOCK_DGRAM
    bound = socket.socket(family, type)
    bound.bind(name if family == socket.AF_UNIX else ("127.0.0.1", 0))
    if type == socket.SOCK_STREAM:
        bound.listen()
    if family == socket.AF_INET:
        text = text.replace(name, str(bound.getsockname()[1]))
    descriptors.append(fcntl.fcntl(bound.detach(), fcntl.F_DUPFD, 100))
open(config, "w").write(text)
for number, descriptor in enumerate(descriptors):
    os.dup2(descriptor, 3 + number)
    os.close(descriptor)
os.environ.update(LISTEN_FDS=str(len(descriptors)), LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES="daytable.socket")
os.execv(command[0], command)
"#;

/// Starts a daemon as the service manager does, with these sockets.
pub(crate) fn spawn(place: &Place, config: &str, sockets: &str) -> Daemon {
    let config = place.configure(config);
    let mut command = Command::new("python3");
    command.args(["-c", MANAGER]).arg(&config).arg(sockets).arg(DAYTABLE).arg("run").arg("--config").arg(&config);
    place.spawn_command(command)
}

/// The port that replaced this name.
pub(crate) fn port(place: &Place, name: &str) -> u16 {
    let text = std::fs::read_to_string(place.path("daytable.toml")).expect("the configuration");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("# {name} is "))).expect("its port");
    line.parse().expect("a port")
}

#[test]
fn sockets_of_the_service_manager_are_used_and_stay() {
    let place = Place::new();
    let (dgram, stream) = (place.path("dgram.sock"), place.path("stream.sock"));
    let config = format!(
        "# http is HTTP\n# tcp is TCP\n# udp is UDP\n[http]\nlisten = \"127.0.0.1:HTTP\"\n\
         [[syslog]]\nname = \"a\"\nlisten = \"tcp://127.0.0.1:TCP\"\n[[syslog]]\nname = \"b\"\nlisten = \"udp://127.0.0.1:UDP\"\n\
         [[syslog]]\nname = \"c\"\nlisten = \"unix-dgram://{}\"\n[[syslog]]\nname = \"d\"\nlisten = \"unix-stream://{}\"\n\
         [[syslog]]\nname = \"own\"\nlisten = \"udp://127.0.0.1:0\"\n",
        dgram.display(),
        stream.display()
    );
    let sockets = format!("tcp:HTTP,udp:UDP,dgram:{},tcp:TCP,stream:{}", dgram.display(), stream.display());
    let daemon = spawn(&place, &config, &sockets);
    daemon.wait_ready();
    let (tcp, udp, http) = (port(&place, "tcp"), port(&place, "udp"), port(&place, "http"));
    TcpStream::connect(("127.0.0.1", tcp)).expect("connected").write_all(b"<13>app: over tcp\n").expect("sent");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    socket.send_to(b"<13>app: over udp", ("127.0.0.1", udp)).expect("sent");
    UnixDatagram::unbound().expect("a socket").send_to(b"<13>app: over dgram", &dgram).expect("sent");
    UnixStream::connect(&stream).expect("connected").write_all(b"<13>app: over stream\n").expect("sent");
    place.wait_for_messages(&["over tcp", "over udp", "over dgram", "over stream"].map(String::from));
    let answer = client::over_tcp(([127, 0, 0, 1], http).into(), "GET", "/healthz", "").expect("answered");
    assert_eq!(answer.status, 200);
    assert_eq!(daemon.metric("daytable_udp_drops_total{source=\"b\"}"), Some(0.0));
    daemon.stop();
    // The sockets belong to the manager, for the next daemon.
    assert!(dgram.exists() && stream.exists());
}

#[test]
fn a_socket_that_is_no_listeners_is_an_error_of_the_start() {
    let place = Place::new();
    let mut daemon = spawn(&place, "# tcp is TCP\n", "tcp:TCP");
    assert_eq!(daemon.ended().code(), Some(78), "{}", daemon.said());
    let expected = format!("no `listen` of the configuration is tcp://127.0.0.1:{}", port(&place, "tcp"));
    assert!(daemon.said().contains(&expected), "{}", daemon.said());
    assert!(!place.data().exists(), "nothing was begun");
}
