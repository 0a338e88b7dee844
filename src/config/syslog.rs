//! `[[syslog]]`: where messages of other programs and hosts come in.

use super::section::{Report, Section};
use super::tail::block_name;
use super::{TailConfig, limits, reading, secret_file};
use daytable_intake::syslog::{Endpoint, SyslogOptions};
use daytable_model::units::ByteSize;
use daytable_net::tls::TlsOptions;
use daytable_parse::redact::{Redaction, Redactor};
use daytable_parse::{Reading, Zone};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// A message is a row or few: what a line may have.
const MESSAGE_BYTES: RangeInclusive<ByteSize> = ByteSize::new(1 << 10)..=ByteSize::new(2 << 20);
const RECEIVE_BUFFER: RangeInclusive<ByteSize> = ByteSize::new(64 << 10)..=ByteSize::new(1 << 30);

/// All of them. One without a name is called `syslog`, the next such one `syslog-2`; `tails` have names already,
/// and `redact` are the patterns of the whole configuration.
pub(super) fn read_all(
    sections: Vec<Section<'_>>,
    report: &Report<'_>,
    redact: &[Redaction],
    tails: &[TailConfig],
) -> Vec<SyslogOptions> {
    let mut blocks: Vec<SyslogOptions> = Vec::new();
    let mut unnamed = 0;
    for section in sections {
        let at = section.at();
        let mut next_name = || {
            unnamed += 1;
            if unnamed == 1 { "syslog".into() } else { format!("syslog-{unnamed}") }
        };
        let Some(block) = read(section, &mut next_name, redact) else { continue };
        let mut names = blocks.iter().map(|other| &other.name).chain(tails.iter().map(|tail| &tail.name));
        if names.any(|name| *name == block.name) {
            report.add(at, format!("[[syslog]]: two blocks are called {:?}; give this one a name", block.name));
        }
        blocks.push(block);
    }
    blocks
}

fn read(
    mut section: Section<'_>,
    next_name: &mut dyn FnMut() -> String,
    redact: &[Redaction],
) -> Option<SyslogOptions> {
    let listen = section.text("listen", str::parse::<Endpoint>);
    section.require("listen", "listen = \"udp://127.0.0.1:5514\"");
    let default = SyslogOptions::new(listen.clone().unwrap_or(Endpoint::UnixDatagram(PathBuf::new())));
    let config = SyslogOptions {
        name: section.text("name", block_name).unwrap_or_else(next_name),
        instance: section.text("instance", str::parse).unwrap_or(default.instance),
        reading: Reading {
            zone: section.text("zone", str::parse::<Zone>).unwrap_or_default(),
            redactor: {
                let own = reading::read_redact(&mut section, redact.len());
                Redactor::new(redact.iter().cloned().chain(own))
            },
            ..Reading::default()
        },
        message_bytes_max: section.size("message_bytes_max", default.message_bytes_max, MESSAGE_BYTES),
        connections_max: section.count("connections_max", default.connections_max, u16::MAX),
        idle_timeout: section.duration_or_off("idle_timeout"),
        receive_buffer: section.size("receive_buffer", default.receive_buffer, RECEIVE_BUFFER),
        mode: section.text("mode", mode).unwrap_or(default.mode),
        tls: read_tls(&mut section, listen.as_ref()),
        per_sender: limits::read(section.section("per_sender", "per_sender")),
        listen: default.listen,
    };
    refuse_what_has_no_meaning(&config, &section);
    section.finish();
    listen.map(|_| config)
}

/// A key that changes nothing is a mistake: whoever wrote it believes that it does.
fn refuse_what_has_no_meaning(config: &SyslogOptions, section: &Section<'_>) {
    let is_datagram = matches!(config.listen, Endpoint::Udp(_) | Endpoint::UnixDatagram(_));
    if is_datagram && config.per_sender.connections.is_some() {
        section.problem("`per_sender.connections` belongs to listeners with connections");
    }
    let is_unix = matches!(config.listen, Endpoint::UnixDatagram(_) | Endpoint::UnixStream(_));
    for (key, has_meaning, belongs_to) in [
        ("connections_max", !is_datagram, "listeners with connections"),
        ("idle_timeout", !is_datagram, "listeners with connections"),
        ("receive_buffer", is_datagram, "\"udp://\" and \"unix-dgram://\""),
        ("mode", is_unix, "\"unix-dgram://\" and \"unix-stream://\""),
    ] {
        if section.has(key) && section.has("listen") && !has_meaning {
            section.problem(format_args!("`{key}` belongs to {belongs_to}"));
        }
    }
}

/// The table `tls = { … }` of another listener.
pub(super) fn read_tls_table(mut section: Section<'_>) -> Option<TlsOptions> {
    let tls = read_tls_keys(&mut section, true);
    section.finish();
    tls
}

fn read_tls_keys(section: &mut Section<'_>, is_wanted: bool) -> Option<TlsOptions> {
    let cert_file = section.text("cert_file", secret_file);
    let key_file = section.text("key_file", secret_file);
    let client_ca_file = section.text("client_ca_file", secret_file);
    if is_wanted {
        section.require("cert_file", "cert_file = \"/etc/daytable/cert.pem\"");
        section.require("key_file", "key_file = \"/etc/daytable/key.pem\"");
    }
    Some(TlsOptions { cert_file: cert_file?, key_file: key_file?, client_ca_file })
}

fn read_tls(section: &mut Section<'_>, listen: Option<&Endpoint>) -> Option<TlsOptions> {
    let given = ["cert_file", "key_file", "client_ca_file"].into_iter().find(|key| section.has(key));
    let (may_have, must_have) = match listen {
        Some(Endpoint::Tls(_)) => (true, true),
        Some(Endpoint::Relp(_)) | None => (true, false),
        Some(_) => (false, false),
    };
    if let Some(key) = given.filter(|_| !may_have) {
        section.problem(format_args!("`{key}` belongs to \"tls://\" and \"relp://\""));
    }
    let is_wanted = must_have || (may_have && given.is_some());
    read_tls_keys(section, is_wanted).filter(|_| is_wanted)
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
