//! `[[forward]]`: where the records of this host are sent; `[hosts]`: the hosts that send theirs here.

use super::changes::Changes;
use super::key::{self, ConfigKey, KeyDraft, SectionDoc, SectionPlace, duration, optional_text, text, texts, truth};
use super::options::SectionOptions;
use super::section::Section;
use super::table::TableConfig;
use super::values::{host_pattern, secret_file};
use daytable_forward::intake::HostRules;
use daytable_forward::options::{ForwardOptions, is_plain};
use daytable_forward::otlp::address::{backend, forward_address};
use daytable_store::catalog::table_bounds::TableBounds;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Receivers at most.
const RECEIVERS_MAX: usize = 8;
const RENEWAL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(366 * 86_400);
const SILENCE: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(31 * 86_400);

/// The hosts that forward here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostsConfig {
    /// After how long a host that is silent is an alert.
    pub silent_after: Duration,
    /// The tables of hosts with certificates, as they were written.
    pub certificate_tables: Vec<String>,
    /// What the receiver knows.
    pub rules: HostRules,
}

impl Default for HostsConfig {
    fn default() -> HostsConfig {
        let rules = HostRules { renew_after: Duration::from_secs(30 * 86_400), ..HostRules::default() };
        HostsConfig { silent_after: Duration::from_secs(600), certificate_tables: Vec::new(), rules }
    }
}

impl SectionOptions for HostsConfig {
    const HEADER: &'static str = "[hosts]";
    const ABOUT: &'static str = "The daytables of other hosts that forward their records to this one. A host needs no block here: `daytable hosts invite NAME` prints the command to run on it.";

    fn keys() -> Vec<ConfigKey<HostsConfig>> {
        vec![
            texts("certificates", "a list of names", 0, |hosts: &mut HostsConfig| &mut hosts.rules.certificates, host_pattern)
                .example("[\"web-*\"]")
                .live("Names of hosts that may show a certificate instead of a credential, with `*` for any characters: the common name of a certificate of an authority in `client_ca_file` of `[http] tls`. Such a host needs no `join`."),
            texts("certificate_tables", "a list of tables", 0, |hosts: &mut HostsConfig| &mut hosts.certificate_tables, table_pattern)
                .example("[\"Log\", \"Audit*\"]")
                .live("The tables here that hosts with a certificate may write, with `*` for any characters. Without it, all. Other hosts have theirs from `daytable hosts invite --tables`."),
            duration("renew_after", |hosts: &mut HostsConfig| &mut hosts.rules.renew_after, RENEWAL)
                .live("How old a credential of a host is when the host replaces it by a new one, by itself. The one before it ends when the new one is used. None ends by its age, so a host that was away for longer goes on."),
            duration("silent_after", |hosts: &mut HostsConfig| &mut hosts.silent_after, SILENCE)
                .live("After how long without a word of a host it is an alert, HostSilent, which needs no rule, and `daytable status` and `daytable hosts` name it. daytable_host_silent_seconds has the time of each host."),
        ]
    }

    fn complete(&mut self, section: &Section<'_>, _: &[TableConfig]) {
        match TableBounds::new(&self.certificate_tables) {
            Ok(tables) => self.rules.certificate_tables = tables,
            Err(error) => section.problem(error),
        }
    }
}

/// What the documents say about `[[forward]]`.
pub(super) fn doc() -> SectionDoc {
    SectionDoc {
        about: "Another daytable that gets all records of this one, each once. `daytable join URL CODE` writes the block. Several blocks are several copies. \
                docs/guide/many-hosts.md has an example. An address that begins with `otlp+https://` is a backend of OpenTelemetry, which gets \
                them at least once by OTLP: docs/guide/otlp-out.md.",
        ..SectionDoc::new(
            "[[forward]]",
            SectionPlace::Blocks { in_sample: false },
            keys(),
            &mut ForwardOptions::default(),
        )
    }
}

fn table_pattern(text: &str) -> Result<String, String> {
    TableBounds::new(&[text.to_owned()]).map(|_| text.to_owned())
}

/// The blocks `[[forward]]` of a file.
pub(super) fn read(file: &mut Section<'_>, is_remote: bool) -> Vec<ForwardOptions> {
    let (keys, mut receivers): (_, Vec<ForwardOptions>) = (keys(), Vec::new());
    for mut section in file.sections("forward", "[[forward]]") {
        let to = section.text("to", forward_address);
        section.require("to", "to = \"https://logs.example:7878\"");
        let is_backend = to.as_deref().is_some_and(|to| backend(to).is_some());
        let has_certificate = section.has("cert_file");
        if has_certificate != section.has("key_file") {
            section.problem("needs `cert_file` and `key_file` together");
        }
        if !is_backend && !has_certificate {
            section.require("credential_file", "credential_file = \"/etc/daytable/forward\"");
        }
        let receiver = key::read(&keys, &mut section, ForwardOptions::default());
        if is_backend && section.has("credential_file") {
            section.problem(
                "`credential_file` is for another daytable: the token of a backend stands in its `headers_file`",
            );
        }
        if has_certificate && !is_backend && section.has("code_file") && !section.has("credential_file") {
            section.problem("`code_file` is for a credential: it needs `credential_file`");
        }
        if is_backend && section.has("code_file") {
            section.problem("`code_file` is for another daytable, which takes hosts by codes");
        }
        if let Some(to) = to {
            if is_plain(backend(&to).unwrap_or(&to)) && !receiver.allow_plain {
                section.problem("`to` has no TLS, which only `allow_plain = true` allows for another host");
            }
            if has_certificate && !backend(&to).unwrap_or(&to).starts_with("https://") {
                section.problem("`cert_file` needs TLS: `to` has to begin with https://");
            }
            if receivers.iter().any(|other| other.to == to) {
                section.problem(format_args!("two blocks forward to {to:?}"));
            }
            if receivers.len() == RECEIVERS_MAX {
                section.problem(format_args!("is one too many: there can be {RECEIVERS_MAX}"));
            }
            if is_remote {
                section.problem("needs a store of this host: rows of a remote store are sent there, and not forwarded");
            }
            receivers.push(ForwardOptions { to, ..receiver });
        }
        section.finish();
    }
    receivers
}

/// Adds the changes of the receivers.
pub(super) fn compare(before: &[ForwardOptions], now: &mut [ForwardOptions], changes: &mut Changes) {
    changes.add_blocks("forward", &keys(), before, now, |receiver| &receiver.to);
}

fn keys() -> Vec<ConfigKey<ForwardOptions>> {
    let file = "an absolute path, or \"%d/NAME\"";
    vec![
        // The address is read apart from the others: a block without one is left out.
        KeyDraft::by_hand("to", "an https:// address", |receiver: &mut ForwardOptions| &mut receiver.to, |_, _| ())
            .required("\"https://logs.example:7878\"")
            .live("The address of the receiver: `https://` of another daytable, or `otlp+https://` of a backend of OpenTelemetry, to whose path `/v1/logs` is added. \
                   `http://` and `otlp+http://` are for this host alone, unless `allow_plain` is set."),
        text("credential_file", file, |receiver: &mut ForwardOptions| &mut receiver.credential_file, secret_file)
            .required("\"/etc/daytable/forward\"")
            .live("The file with the credential of this host there, which `daytable join` writes. daytable reads a changed file again. A host replaces its credential by itself (`renew_after` of `[hosts]` there): the file gets the new one where daytable may write it, and the data folder otherwise. A backend of OpenTelemetry has none."),
        optional_text("code_file", file, |receiver: &mut ForwardOptions| &mut receiver.code_file, secret_file)
            .example("\"/run/secrets/daytable/enrol/code\"")
            .live("A file with a code of `daytable hosts enrol` there. With it, this host joins by itself, under the name `host`, where it has no credential or one that is not known there. One that was revoked stays out."),
        optional_text("headers_file", file, |receiver: &mut ForwardOptions| &mut receiver.headers_file, secret_file)
            .example("\"/etc/daytable/otlp-headers\"")
            .live("For a backend of OpenTelemetry: a file with the headers that it wants, such as its token, one `NAME: VALUE` a line. daytable reads a changed file again when the \
                   backend refuses the headers."),
        optional_text("ca_file", file, |receiver: &mut ForwardOptions| &mut receiver.ca_file, secret_file)
            .example("\"/etc/daytable/logs-ca.pem\"")
            .live("Authorities of the receiver's certificate in PEM, beside those of the system."),
        optional_text("cert_file", file, |receiver: &mut ForwardOptions| &mut receiver.cert_file, secret_file)
            .example("\"/etc/daytable/host.pem\"")
            .live("A certificate in PEM that this host shows. Without `credential_file` it is the credential: its common name is the name of this host there, and `certificates` of `[hosts]` there permits it. A changed file is read when a connection fails or begins anew."),
        optional_text("key_file", file, |receiver: &mut ForwardOptions| &mut receiver.key_file, secret_file)
            .example("\"/etc/daytable/host.key\"")
            .live("The key of `cert_file` in PEM."),
        truth("allow_plain", |receiver: &mut ForwardOptions| &mut receiver.allow_plain)
            .live("Whether records and the credential may be sent to another host without TLS."),
    ]
}
