//! `[store]`: the store of the rows.
//!
//! The keys of the remote store and its outbox have an effect only with `kind = "azure"`. They are read and checked in any
//! case, so that the sample can show them with their defaults.

use super::key::{ConfigKey, KeyDraft, choice, count, duration, optional_text, size, text, truth};
use super::options::SectionOptions;
use super::remote::{CredentialKind, RemoteConfig, SendOrder, WhenFull};
use super::section::Section;
use super::table::{KEEP, TableConfig};
use super::values::{absolute, duration_within, or_word, secret_file, service_address};
use daytable_model::units::ByteSize;
use daytable_store::outbox::DEAD_LETTERS;
use std::ops::RangeInclusive;
use std::time::Duration;

const COMMIT_INTERVAL: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);
/// The maximum still shows a record within a minute.
const FILL: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(60);
/// The maximum is a part of the day in question.
const GROW_AFTER: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(6 * 3600);
/// The minimum holds the requests of a few partitions.
const OUTBOX_BYTES: RangeInclusive<ByteSize> = ByteSize::new(1 << 20)..=ByteSize::new(1 << 50);
/// Buckets, and requests at one time.
const REQUESTS_MAX: u16 = 256;
const KINDS: [(&str, StoreKind); 2] = [("embedded", StoreKind::Embedded), ("azure", StoreKind::Azure)];
const CREDENTIALS: [(&str, CredentialKind); 4] = [
    ("connection_string", CredentialKind::ConnectionString),
    ("managed_identity", CredentialKind::ManagedIdentity),
    ("workload_identity", CredentialKind::WorkloadIdentity),
    ("client_secret", CredentialKind::ClientSecret),
];
const ORDERS: [(&str, SendOrder); 2] =
    [("oldest_first", SendOrder::OldestFirst), ("newest_first", SendOrder::NewestFirst)];
const WHEN_FULL: [(&str, WhenFull); 2] = [("wait", WhenFull::Wait), ("drop_oldest", WhenFull::DropOldest)];

/// The store of the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Embedded or remote.
    pub kind: StoreKind,
    /// How long a record waits for a commit.
    pub commit_interval: Duration,
    /// The options of [`StoreKind::Azure`].
    pub azure: RemoteConfig,
}

/// The kind of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreKind {
    /// The embedded engine, in `data_dir`.
    #[default]
    Embedded,
    /// Azure Table storage, or a service with its protocol, behind an outbox in `data_dir`.
    Azure,
}

impl Default for StoreConfig {
    fn default() -> StoreConfig {
        let commit_interval = Duration::from_millis(250);
        StoreConfig { kind: StoreKind::Embedded, commit_interval, azure: RemoteConfig::default() }
    }
}

impl StoreConfig {
    /// The options of the remote store, or `None` for an embedded store.
    pub fn remote(&self) -> Option<&RemoteConfig> {
        (self.kind == StoreKind::Azure).then_some(&self.azure)
    }
}

impl SectionOptions for StoreConfig {
    const HEADER: &'static str = "[store]";

    fn keys() -> Vec<ConfigKey<StoreConfig>> {
        vec![
            choice("kind", |store: &mut StoreConfig| &mut store.kind, &KINDS).at_restart(
                "\"embedded\" stores rows in `data_dir`. \"azure\" stores them in Azure Table storage, in the Table API of Cosmos DB, or in a service with the same \
                 protocol. With \"azure\", rows are committed to an *outbox* in `data_dir` first, and sent from there. The keys below, except \
                 `commit_interval`, have an effect only with \"azure\".",
            ),
            duration("commit_interval", |store: &mut StoreConfig| &mut store.commit_interval, COMMIT_INTERVAL)
                .at_restart("How long a record waits for a commit at most. After a pause this long, it does not wait."),
            optional_text(
                "connection_string_file",
                "an absolute path",
                |store: &mut StoreConfig| &mut store.azure.account.connection_string_file,
                absolute,
            )
            .example("\"/run/credentials/daytable.service/azure\"")
            .at_restart(
                "A file with the connection string of the account: `AccountName=…;AccountKey=…`, or `SharedAccessSignature=…` instead of the key, or \
                 `UseDevelopmentStorage=true`. Without this key, daytable uses the environment variable AZURE_STORAGE_CONNECTION_STRING.",
            ),
            choice("credentials", |store: &mut StoreConfig| &mut store.azure.account.credentials, &CREDENTIALS).at_restart(
                "By what the account is reached: a connection string, or an identity of Entra ID without a key. \"managed_identity\" is that of the machine, the container or \
                 the function; \"workload_identity\" is that of a pod in Kubernetes, or of another workload with a federated token; \"client_secret\" is an application with \
                 a secret. An identity needs `endpoint`, and the role Storage Table Data Contributor. docs/guide/accounts-without-keys.md has examples.",
            ),
            KeyDraft::new("endpoint", "an https:// address", |store: &mut StoreConfig| &mut store.azure.account.endpoint, |section| {
                read_endpoint(section).map(Some)
            })
            .example("\"https://ACCOUNT.table.core.windows.net\"")
            .at_restart("The address of the account's tables, for an identity. A connection string has its own."),
            optional_text("tenant_id", "an id", |store: &mut StoreConfig| &mut store.azure.account.tenant_id, identifier)
                .example("\"72f988bf-86f1-41af-91ab-2d7cd011db47\"")
                .at_restart(
                    "The tenant of a workload or an application. Without this key, daytable uses the environment variable AZURE_TENANT_ID.",
                ),
            optional_text("client_id", "an id", |store: &mut StoreConfig| &mut store.azure.account.client_id, identifier)
                .example("\"6731de76-14a6-49ae-97bc-6eba6914391e\"")
                .at_restart(
                    "The workload, the application, or one of several identities of the machine. Without this key, daytable uses the environment variable AZURE_CLIENT_ID.",
                ),
            optional_text(
                "client_secret_file",
                "an absolute path, or \"%d/NAME\"",
                |store: &mut StoreConfig| &mut store.azure.account.client_secret_file,
                secret_file,
            )
            .example("\"/run/credentials/daytable.service/entra\"")
            .at_restart(
                "A file with the secret of an application. Without this key, daytable uses the environment variable AZURE_CLIENT_SECRET. daytable reads the file for each \
                 token, so a new secret needs no restart.",
            ),
            optional_text(
                "federated_token_file",
                "an absolute path, or \"%d/NAME\"",
                |store: &mut StoreConfig| &mut store.azure.account.federated_token_file,
                secret_file,
            )
            .example("\"/var/run/secrets/azure/tokens/azure-identity-token\"")
            .at_restart(
                "A file with the token of a workload, which its platform renews. Without this key, daytable uses the environment variable AZURE_FEDERATED_TOKEN_FILE.",
            ),
            truth("owner", |store: &mut StoreConfig| &mut store.azure.owner).at_restart(
                "Whether this daytable archives and drops the days of the remote store. Of several daytables that share an account, exactly one is the owner.",
            ),
            duration("fill", |store: &mut StoreConfig| &mut store.azure.fill, FILL).at_restart(
                "How long a transaction waits for more rows of its partition. A request with one row costs the same as a request with a hundred.",
            ),
            count("transactions_max", |store: &mut StoreConfig| &mut store.azure.transactions_max, REQUESTS_MAX)
                .at_restart("Transactions in flight at one time."),
            count("buckets_max", |store: &mut StoreConfig| &mut store.azure.buckets_max, REQUESTS_MAX).at_restart(
                "Partitions of one instance. A partition of Azure Table storage accepts about 2,000 rows per second. While the service throttles an instance and its \
                 backlog grows, daytable doubles the partitions of the instance, up to this number. With 1, an instance has the `buckets` of its \
                 table. With an empty data folder, daytable first asks the service for the partitions of its instances; files and journals wait for the answer.",
            ),
            duration("grow_after", |store: &mut StoreConfig| &mut store.azure.grow_after, GROW_AFTER)
                .at_restart("How long the service has to throttle an instance before daytable doubles its partitions."),
            choice("send_order", |store: &mut StoreConfig| &mut store.azure.send_order, &ORDERS).at_restart(
                "The order of the outbox: \"oldest_first\", or \"newest_first\" to see current records at once after an outage.",
            ),
            size("outbox_bytes_max", |store: &mut StoreConfig| &mut store.azure.outbox_bytes_max, OUTBOX_BYTES)
                .at_restart("Bytes of waiting rows on disk at which the outbox is full."),
            text(
                "outbox_age_max",
                "a duration from \"1m\" to \"36500d\", or \"off\"",
                |store: &mut StoreConfig| &mut store.azure.outbox_age_max,
                |text| or_word("off", text, |text| duration_within(&KEEP, "must be from \"1m\" to \"36500d\"", text)),
            )
            .default("\"7d\"")
            .at_restart("The age of the oldest waiting row at which the outbox is full."),
            choice("when_full", |store: &mut StoreConfig| &mut store.azure.when_full, &WHEN_FULL).at_restart(
                "With a full outbox, \"wait\" accepts no more records until there is room; \"drop_oldest\" drops the oldest rows and counts them.",
            ),
            duration("dead_letters_keep", |store: &mut StoreConfig| &mut store.azure.dead_letters_keep, KEEP).at_restart(
                "How long daytable keeps rows that the service refused because of their content. They are in tables of their own in `data_dir`: DeadLetter and the day of the refusal.",
            ),
        ]
    }

    fn complete(&mut self, section: &Section<'_>, tables: &[TableConfig]) {
        if self.kind == StoreKind::Azure && !cfg!(feature = "azure") {
            section.problem(
            "kind = \"azure\" is not compiled into this daytable: use a released daytable, or build it with the feature \"azure\"",
        );
        }
        let account = &self.azure.account;
        if self.kind == StoreKind::Azure && account.credentials != CredentialKind::ConnectionString {
            if account.endpoint.is_none() {
                section.problem(
                    "`credentials` names an identity, which needs `endpoint`, the address of the account's tables",
                );
            }
            if account.connection_string_file.is_some() {
                section.problem(
                    "`credentials` names an identity, and `connection_string_file` a key: leave one of them out",
                );
            }
        }
        let is_of_identity = account.endpoint.is_some()
            || account.client_secret_file.is_some()
            || account.federated_token_file.is_some();
        if self.kind == StoreKind::Azure && account.credentials == CredentialKind::ConnectionString && is_of_identity {
            section.problem("has keys of an identity, which `credentials` does not name");
        }
        let same_name = tables.iter().find(|table| table.name.as_str().eq_ignore_ascii_case(DEAD_LETTERS));
        if let (StoreKind::Azure, Some(table)) = (self.kind, same_name) {
            section.problem(format_args!(
                "the name of the table {} is that of the table for rows that the service refuses: choose another name",
                table.name
            ));
        }
    }
}

/// `endpoint`. A problem does not quote it, because it may hold a secret.
fn read_endpoint(section: &mut Section<'_>) -> Option<String> {
    let source = section.source_text("endpoint")?;
    let problem = "must be an address without user, key or query, like \"https://ACCOUNT.table.core.windows.net\"";
    service_address(source.text).ok_or_else(|| section.report_within(&source, 0, problem)).ok()
}

/// The id of a tenant or a client: a number with dashes, or the name of a domain.
fn identifier(text: &str) -> Result<String, &'static str> {
    let is_id = (1..=128).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    if is_id { Ok(text.into()) } else { Err("must be an id of letters, digits, \"-\" and \".\"") }
}
