//! Syslog: messages of other programs and hosts, over UDP, TCP, TLS, RELP and unix sockets.
//!
//! | transport | specification |
//! |---|---|
//! | UDP, unix datagrams | a message per datagram, [RFC 5426](https://www.rfc-editor.org/rfc/rfc5426) |
//! | TCP, TLS, unix streams | octet counting or lines, [RFC 6587](https://www.rfc-editor.org/rfc/rfc6587), [RFC 5425](https://www.rfc-editor.org/rfc/rfc5425) |
//! | RELP | [the Reliable Event Logging Protocol](https://github.com/rsyslog/librelp/blob/master/doc/relp.html) |
//!
//! A message ([RFC 5424](https://www.rfc-editor.org/rfc/rfc5424), [RFC 3164](https://www.rfc-editor.org/rfc/rfc3164)) is parsed
//! like a line of a file ([`daytable_parse`]), and each connection or peer remembers its formats. The *instance* (whatever
//! writes logs: a host, a service) is the host in the message, else the peer. A row key consists of the time, 64 random bits
//! for each connection or datagram socket, and a counter.
//!
//! **Promises.** A received message is committed even if commits fail, as long as the process lives. A stop reads what was
//! sent before and commits it. A kill loses messages in memory, except with RELP: there daytable acknowledges a message after
//! its commit, and the sender repeats other messages. While the store is too slow, daytable does not read. Senders over
//! streams then wait, and the kernel drops and counts datagrams.
//!
//! * `framing`, `relp`: bytes become messages, without sockets.
//! * `session`: the messages of one connection. `message_sink`: messages become rows. `delivery`: rows until their commit.
//! * `bind`: sockets. `listener`: a bound socket and its thread. `datagram`, `accept`: the work of these threads. `stream`:
//!   the task of a connection. `held_bytes`: the memory of incomplete messages. `source`: all listeners as one source.

mod accept;
mod bind;
mod datagram;
pub mod framing;
mod held_bytes;
mod listener;
mod message_sink;
mod options;
pub mod relp;
mod session;
mod source;
mod stream;

pub use bind::ListenError;
pub use daytable_net::tls::TlsError;
pub use options::{ListenAddress, ListenAddressError, SocketKey, SyslogOptions};
pub use source::Syslog;
