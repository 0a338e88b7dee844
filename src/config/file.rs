//! The configuration as a whole, and the keys before the first section.

use super::key::{ConfigKey, KeyDraft, duration, optional_text, text};
use super::values::{absolute, name, or_word, size_at_least};
use super::{
    HostsConfig, HttpConfig, LifecycleConfig, SavedQuery, SourceBlocks, StoreConfig, TableConfig, TenantConfig, reading,
};
use crate::log::LogOptions;
use daytable_alert::{AlertRule, DeliveryOptions};
use daytable_archive::Access;
use daytable_forward::options::ForwardOptions;
use daytable_lifecycle::LifecycleLimits;
use daytable_model::source_id::HostId;
use daytable_model::units::ByteSize;
use daytable_parse::ParseOptions;
use daytable_parse::redact::{Redaction, Redactor};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// The minimum commits the accepted records on any working disk.
const DRAIN_TIMEOUT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// The socket of readers, in the folder that the service manager makes for the service.
const READ_SOCKET: &str = "/run/daytable/read.sock";

/// The least memory with which the daemon works, in bytes.
pub(crate) const MEMORY_LEAST: u64 = 64 << 20;

/// The whole configuration. `Default` is that of an empty file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The folder for all data.
    pub data_dir: PathBuf,
    /// The name of this host in keys. Without one, the machine's id names it.
    pub host: Option<String>,
    /// The group whose members may read over `read_socket`. Without it there is no such socket.
    pub read_group: Option<String>,
    /// The socket of that group.
    pub read_socket: PathBuf,
    /// How long a stop may take. Records that are not committed by then are read or sent again.
    pub drain_timeout: Duration,
    /// The memory of the process, or `None` for the limit of the control group.
    pub memory_max: Option<ByteSize>,
    /// The secrets that are replaced in every record. Blocks add their own.
    pub redact: Vec<Redaction>,
    /// `[http]`
    pub http: HttpConfig,
    /// The blocks of sources.
    pub sources: SourceBlocks,
    /// `[[table]]`, in the order of the file: at least one. The last one accepts all remaining records.
    pub tables: Vec<TableConfig>,
    /// `[[tenant]]`, in the order of the file.
    pub tenants: Vec<TenantConfig>,
    /// `[archives]`
    pub archives: Access,
    /// `[alerts]`
    pub alerts: DeliveryOptions,
    /// `[[alert]]`, in the order of the file.
    pub alert_rules: Vec<AlertRule>,
    /// `[[query]]`, in the order of the file.
    pub saved_queries: Vec<SavedQuery>,
    /// `[lifecycle]`
    pub lifecycle: LifecycleConfig,
    /// `[store]`
    pub store: StoreConfig,
    /// `[[forward]]`, in the order of the file.
    pub forward: Vec<ForwardOptions>,
    /// `[hosts]`
    pub hosts: HostsConfig,
    /// `[log]`
    pub log: LogOptions,
    /// The absolute path of the file that it was read from, if any.
    pub file: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            data_dir: "/var/lib/daytable".into(),
            host: None,
            read_group: None,
            read_socket: READ_SOCKET.into(),
            drain_timeout: Duration::from_secs(25),
            memory_max: None,
            redact: Vec::new(),
            http: HttpConfig::default(),
            sources: SourceBlocks::default(),
            tables: TableConfig::defaults(),
            tenants: Vec::new(),
            archives: Access::default(),
            alerts: DeliveryOptions::default(),
            alert_rules: Vec::new(),
            saved_queries: Vec::new(),
            lifecycle: LifecycleConfig::default(),
            store: StoreConfig::default(),
            forward: Vec::new(),
            hosts: HostsConfig::default(),
            log: LogOptions::default(),
            file: None,
        }
    }
}

/// The name of a group, or its number.
fn group_name(text: &str) -> Result<String, &'static str> {
    let is_apart = |c: char| matches!(c, ':' | ',') || c.is_control() || c.is_whitespace();
    let is_name = !text.is_empty() && !text.contains(is_apart);
    if is_name { Ok(text.into()) } else { Err("must be the name of a group, like \"adm\"") }
}

/// The keys before the first section.
pub(super) fn keys() -> Vec<ConfigKey<Config>> {
    vec![
        text("data_dir", "an absolute path", |config: &mut Config| &mut config.data_dir, absolute)
            .default("\"/var/lib/daytable\"")
            .at_restart("The folder for all data: day-tables, catalog, control socket. A folder has one daemon."),
        optional_text("host", "a name", |config: &mut Config| &mut config.host, name).example("\"web-1\"").at_restart(
            "The name of this host, which `{host}` stands for. It is part of the key of every record, so two hosts with equal logs have different \
             keys, and may share an account. Without a name here, {host} is the name of the machine, and in keys /etc/machine-id names the host, and where that is missing, the same name. Set a name where machines \
             are clones that share a machine id, and where containers are made anew. Records that are read again under another name get other keys.",
        ),
        optional_text("read_group", "the name of a group", |config: &mut Config| &mut config.read_group, group_name)
            .in_sample("\"adm\"")
            .at_restart(
                "Members of this group may read every record, and change nothing: their `daytable query`, `count`, `tail`, `export`, `sql`, `tables`, `verify`, `status`, \
                 `sources`, `hosts`, `plan`, `open`, `mcp` and `doctor` ask the daemon over `read_socket`. Without a group, only the daemon's user and root can read. A new member of the \
                 group has to log in again.",
            ),
        text("read_socket", "an absolute path", |config: &mut Config| &mut config.read_socket, absolute)
            .default("\"/run/daytable/read.sock\"")
            .at_restart("The unix socket of `read_group`, of mode 0660, in a folder that only the daemon's user or root can write."),
        duration("drain_timeout", |config: &mut Config| &mut config.drain_timeout, DRAIN_TIMEOUT).live(
            "How long a stop may take. It has to be shorter than the time until a kill (Kubernetes 30s, the systemd unit 90s). daytable does not \
             acknowledge records that are not committed by then; they are read or sent again.",
        ),
        text(
            "memory_max",
            "a size of at least \"64MiB\", or \"auto\"",
            |config: &mut Config| &mut config.memory_max,
            |text| or_word("auto", text, |text| size_at_least(ByteSize::new(MEMORY_LEAST), text)),
        )
        .default("\"auto\"")
        .at_restart(
            "The memory for daytable. \"auto\" is the limit of the control group (of the container, or MemoryMax=). Below 768MiB, daytable uses smaller \
             buffers: bodies of pushes, rows that wait for a commit, unfinished messages, concurrent scans, answers. A question that needs more is refused.",
        ),
        KeyDraft::by_hand("redact", "a list of texts and tables", |config: &mut Config| &mut config.redact, |section, config| {
            config.redact = reading::read_redact(section, 0);
        })
        .default("[]")
        .live(
            "Secrets to replace in messages, fields and field names before anything is stored: any of \"credit-card\", \"email\", \"bearer-token\" \
             (Authorization headers and JSON web tokens) and \"private-key\", and your own patterns: \
             { name = \"password\", regex = '(?i)password\"?\\s*[=:]\\s*(?:\"((?:[^\"\\\\]|\\\\.)*)|([^\\s\"&,;}]+))', replace = \"***\" }. \
             This one finds password=\u{2026} and \"password\": \"\u{2026}\"; of 'password=(\\S+)' the line of JSON has no match. daytable_redactions_total{pattern} counts the replacements.",
        ),
    ]
}

impl Config {
    /// How lines are parsed without a block: those of an import, and of `--tail`.
    pub fn reading(&self) -> ParseOptions {
        ParseOptions { redactor: Redactor::new(self.redact.iter().cloned()), ..ParseOptions::default() }
    }

    /// The limits of the lifecycle, with the bound of this data folder.
    pub fn limits(&self) -> LifecycleLimits {
        LifecycleLimits { max_bytes: self.lifecycle.max_bytes.bytes(&self.data_dir), ..self.lifecycle.limits }
    }

    /// The name of this host, which `{host}` stands for: the configured one, else that of the machine.
    pub fn host_name(&self) -> String {
        self.host.clone().unwrap_or_else(daytable_platform::host::name)
    }

    /// This host in the keys of records: the configured name, else the machine's id, else the machine's name.
    pub fn host_id(&self) -> HostId {
        use daytable_platform::host;
        let named = self.host.clone().or_else(host::machine_id);
        HostId::of_name(&named.unwrap_or_else(host::name))
    }

    /// Whether the records of one source may be in several tables.
    pub fn is_routed(&self) -> bool {
        self.tables.len() > 1
    }
}
