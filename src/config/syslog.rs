//! `[[syslog]]`: listeners for messages of other programs and hosts.

use super::key::{ConfigKey, Reload, count, size, text};
use super::section::Section;
use super::sources::{BlockSummary, SourceBlock};
use super::values::or_word;
use super::{allowance, reading, tls};
use daytable_intake::syslog::{ListenAddress, SyslogOptions};
use daytable_model::units::{ByteSize, parse_duration};
use daytable_parse::ParseOptions;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// A message becomes one row or a few: the limits of a line.
const MESSAGE_BYTES: RangeInclusive<ByteSize> = ByteSize::new(1 << 10)..=ByteSize::new(2 << 20);
const RECEIVE_BUFFER: RangeInclusive<ByteSize> = ByteSize::new(64 << 10)..=ByteSize::new(1 << 30);
/// What a listener binds. TLS and RELP are over TCP.
#[derive(PartialEq, Eq)]
enum Socket<'a> {
    Address(bool, SocketAddr),
    Path(&'a Path),
}

fn socket(listen: &ListenAddress) -> Socket<'_> {
    match listen {
        ListenAddress::Udp(address) => Socket::Address(true, *address),
        ListenAddress::Tcp(address) | ListenAddress::Tls(address) | ListenAddress::Relp(address) => {
            Socket::Address(false, *address)
        }
        ListenAddress::UnixDatagram(path) | ListenAddress::UnixStream(path) => Socket::Path(path),
    }
}

/// Stands for a `listen` that is absent or wrong.
const NO_ENDPOINT: ListenAddress = ListenAddress::UnixDatagram(PathBuf::new());

impl SourceBlock for SyslogOptions {
    const HEADER: &'static str = "[[syslog]]";
    const ABOUT: &'static str = "Listeners for syslog. There can be any number of these blocks, each with one address:\n\
                - udp:// has one message per datagram. daytable_udp_drops_total counts datagrams that the kernel dropped.\n\
                - tcp:// has octet counting, newlines or NULs, and detects which for each message.\n\
                - tls:// is the same over TLS.\n\
                - relp:// is RELP: daytable acknowledges a message when it is on disk. With a certificate, RELP runs over TLS.\n\
                - unix-dgram:///path and unix-stream:///path are sockets of this host. syslog(3) writes to unix-dgram:///dev/log.\n\
                daytable recognizes RFC 5424 with its structured data, and RFC 3164 in its many forms. Only TLS with `client_ca_file` authenticates senders: \
                listen beyond loopback (on 0.0.0.0 or [::]) only in a network that you trust.";
    const AFTER: &'static str = "#[[syslog]]\n#name = \"local\"\n#listen = \"unix-dgram:///run/daytable/log\"\n{mode}\n#mode = \"0660\"\n{receive_buffer}\n#receive_buffer = \"16MiB\"";

    fn new(name: &str, reading: ParseOptions) -> SyslogOptions {
        SyslogOptions { name: name.into(), reading, ..SyslogOptions::new(NO_ENDPOINT) }
    }

    fn keys() -> Vec<ConfigKey<SyslogOptions>> {
        let mut keys = vec![
            text("listen", "a protocol, an IP address and a port; or a protocol and a path", |syslog: &mut SyslogOptions| &mut syslog.listen, str::parse)
                .required("\"tls://127.0.0.1:6514\"")
                .live("The address of the listener."),
            text("instance", "a template", |syslog: &mut SyslogOptions| &mut syslog.instance, str::parse)
                .default("\"{field:host}\"")
                .for_new_connections(
                    "The *instance* of the records, which decides their partition. {field:NAME} is a field of the record (or the peer, where the record has no such \
                     field), {host} the peer (its IP address, or the name of this host on a unix socket), {path} the `listen` above. Text may stand between them.",
                ),
            reading::zone(|syslog: &mut SyslogOptions| &mut syslog.reading).on_reload(Reload::NewConnections),
            reading::redact(|syslog: &mut SyslogOptions| &mut syslog.reading).on_reload(Reload::NewConnections),
            size("message_bytes_max", |syslog: &mut SyslogOptions| &mut syslog.message_bytes_max, MESSAGE_BYTES)
                .for_new_connections("Bytes of a message. daytable cuts a longer message here, marks the record, and counts it."),
            count("connections_max", |syslog: &mut SyslogOptions| &mut syslog.connections_max, u16::MAX)
                .for_new_connections("Connections at one time. daytable closes any further connection at once, and counts it. Not for datagrams."),
            text(
                "idle_timeout",
                "a duration, or \"off\"",
                |syslog: &mut SyslogOptions| &mut syslog.idle_timeout,
                |text| or_word("off", text, parse_duration),
            )
            .default("\"off\"")
            .for_new_connections(
                "Close a connection without data for this long. \"off\" keeps quiet connections; probes of the kernel still detect a peer that is gone. Not for datagrams.",
            ),
        ];
        keys.extend(tls::keys(|syslog: &mut SyslogOptions| &mut syslog.tls));
        keys.extend([
            allowance::key(|syslog: &mut SyslogOptions| &mut syslog.per_sender).for_new_connections(
                "Limits of each peer: an IP address (IPv6: a /64 network). daytable pauses reading from a connection above its limit, which loses no messages; \
                 it drops and counts datagrams above the limit. A peer may exceed a rate by one second's worth. The daily count begins at midnight UTC, and after a restart. \
                 `connections` counts the connections of a peer at one time; daytable closes any further connection.",
            ),
            text("mode", "a file mode in octal", |syslog: &mut SyslogOptions| &mut syslog.mode, mode)
                .default("\"0660\"")
                .for_new_connections("Unix sockets only: the mode of the file, which decides who may write to the socket. /dev/log needs \"0666\"."),
            size("receive_buffer", |syslog: &mut SyslogOptions| &mut syslog.receive_buffer, RECEIVE_BUFFER).for_new_connections(
                "Datagrams only: the size of the receive buffer that daytable asks the kernel for. More than net.core.rmem_max needs CAP_NET_ADMIN; the log says at the start which size the kernel granted.",
            ),
        ]);
        keys
    }

    /// A block without an address is not accepted.
    fn complete(&mut self, section: &Section<'_>) -> bool {
        section.require("listen", "listen = \"udp://127.0.0.1:5514\"");
        let is_known = self.listen != NO_ENDPOINT;
        let given = ["cert_file", "key_file", "client_ca_file"].into_iter().find(|key| section.has(key));
        let (may_have_tls, must_have_tls) = match self.listen {
            ListenAddress::Tls(_) => (true, true),
            ListenAddress::Relp(_) => (true, false),
            _ => (!is_known, false),
        };
        if let Some(key) = given.filter(|_| !may_have_tls) {
            section.problem(format_args!("`{key}` belongs to \"tls://\" and \"relp://\""));
        }
        tls::complete(section, &mut self.tls, must_have_tls || (may_have_tls && given.is_some()));
        refuse_keys_without_effect(section, self);
        is_known
    }

    fn conflict(&self, other: &Self) -> Option<String> {
        let is_same = match (socket(&self.listen), socket(&other.listen)) {
            (Socket::Address(_, one), Socket::Address(_, _)) if one.port() == 0 => false,
            (one, other) => one == other,
        };
        is_same.then(|| format!("two blocks listen on {}: give one of them another `listen`", self.listen))
    }

    fn summary(&self) -> BlockSummary<'_> {
        BlockSummary { header: Self::HEADER, name: &self.name, reading: &self.reading, tls: self.tls.as_ref() }
    }
}

/// A key without an effect is a mistake: its author expects an effect.
fn refuse_keys_without_effect(section: &Section<'_>, syslog: &SyslogOptions) {
    let is_datagram = matches!(syslog.listen, ListenAddress::Udp(_) | ListenAddress::UnixDatagram(_));
    if is_datagram && syslog.per_sender.connections.is_some() {
        section.problem("`per_sender.connections` belongs to listeners with connections");
    }
    let is_unix = matches!(syslog.listen, ListenAddress::UnixDatagram(_) | ListenAddress::UnixStream(_));
    for (key, has_effect, belongs_to) in [
        ("connections_max", !is_datagram, "listeners with connections"),
        ("idle_timeout", !is_datagram, "listeners with connections"),
        ("receive_buffer", is_datagram, "\"udp://\" and \"unix-dgram://\""),
        ("mode", is_unix, "\"unix-dgram://\" and \"unix-stream://\""),
    ] {
        if section.has(key) && section.has("listen") && !has_effect {
            section.problem(format_args!("`{key}` belongs to {belongs_to}"));
        }
    }
}

fn mode(text: &str) -> Result<u32, &'static str> {
    let digits = text.len() <= 4 && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| digits && *mode <= 0o777);
    mode.ok_or("must be the mode of a file in octal, like \"0660\" or \"0666\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        assert_eq!((mode("0666"), mode("600"), mode("0")), (Ok(0o666), Ok(0o600), Ok(0)));
        for text in ["", "0888", "1777", "+660", "rw-rw----", "00660"] {
            assert!(mode(text).is_err(), "{text}");
        }
    }
}
