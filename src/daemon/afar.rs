//! What the daemon reads of a remote store, and what it does for the life of its tables.

use crate::config::{Config, TableConfig};
use daytable_azure::Client;
use daytable_lifecycle::run::Run;
use daytable_lifecycle::{Hands, TableRule};
use daytable_query::tables::TableError;
use daytable_remote::shared::{Shared, SharedHands};
use daytable_remote::tables::AzureTables;
use daytable_remote::tables::{QUERY_PATIENCE, WORK_PATIENCE};
use std::sync::Arc;

/// The remote store, as it is read.
pub(super) struct Afar {
    /// For queries, whose users look on.
    pub(super) tables: Arc<AzureTables>,
    /// For the life of its tables.
    pub(super) hands: Arc<SharedHands>,
}

impl Afar {
    pub(super) fn new(config: &Config, client: &Client, here: &Arc<Hands>) -> Result<Afar, TableError> {
        let tables = Arc::new(AzureTables::new(client.account().clone(), QUERY_PATIENCE)?);
        let patient = Arc::new(AzureTables::new(client.account().clone(), WORK_PATIENCE)?);
        let hands =
            Arc::new(SharedHands::new(patient, here.clone(), config.data_dir.clone(), config.store.azure.owner));
        Ok(Afar { tables, hands })
    }

    /// What tells the others of this outbox, and plans where this daytable is the owner.
    pub(super) fn lifecycle(self, config: &Config, host: &str, on_run: Box<dyn Fn(&Run) + Send>) -> Shared {
        Shared {
            hands: self.hands,
            data_dir: config.data_dir.clone(),
            id: id(config, host),
            is_owner: config.store.azure.owner,
            rules: configured(config),
            schedule: config.lifecycle.schedule.clone(),
            limits: config.lifecycle.limits,
            on_run,
        }
    }
}

/// What a daytable is called among those that share a store.
pub(super) fn id(config: &Config, host: &str) -> String {
    // Two daytables of one host have two folders.
    let folder = config.data_dir.canonicalize().unwrap_or_else(|_| config.data_dir.clone());
    let hash = xxhash_rust::xxh3::xxh3_64(folder.as_os_str().as_encoded_bytes());
    format!("{host}-{hash:016x}")
}

/// The rules of the configured tables.
pub(super) fn configured(config: &Config) -> Vec<TableRule> {
    config.tables.iter().map(TableConfig::rule).collect()
}
