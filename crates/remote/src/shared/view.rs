//! Reads the input of the owner's plan: the remote store, the notes of all daemons, and the catalog.

use super::notes::Notes;
use super::plan::SharedView;
use crate::tables::AzureTables;
use daytable_lifecycle::clock::Clock;
use daytable_lifecycle::plan::{LifecycleLimits, TableRule};
use daytable_lifecycle::retained_rules::apply_retained;
use daytable_model::time;
use daytable_query::tables::{TableError, TableStore};
use daytable_store::LifecycleState;
use std::collections::BTreeSet;
use std::time::Duration;

impl SharedView {
    /// The view now. `state` is the state of the owner's data folder.
    ///
    /// # Errors
    ///
    /// If the remote store cannot be read.
    pub fn read(
        tables: &AzureTables,
        state: LifecycleState,
        rules: &[TableRule],
        limits: LifecycleLimits,
    ) -> Result<SharedView, TableError> {
        let mut rules = rules.to_vec();
        for rule in &mut rules {
            apply_retained(rule, &state.rules, limits.grace);
        }
        // Notes are read first: a daemon that admits rows later has a note from before the expiry.
        let notes = Notes(tables);
        let (hosts, restored) = (notes.hosts()?, notes.restored()?);
        Ok(SharedView {
            tables: tables.tables()?,
            restored,
            empty: BTreeSet::new(),
            archives: state.archives,
            hosts,
            rules,
            limits,
            clock: Clock { now: time::now(), newest_record: state.newest, newest_watched: Duration::ZERO },
            dropped: 0,
        })
    }
}
