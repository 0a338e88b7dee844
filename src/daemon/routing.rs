//! The configured tables as routes of records.

use crate::config::TableConfig;
use daytable_intake::route::{Condition, Route, Router};
use daytable_model::bucket_plan::BucketPlan;
use daytable_store::StoreError;
use std::path::Path;
use std::sync::Arc;

/// A router to the configured tables.
pub fn router(tables: &[TableConfig]) -> Router {
    Router::new(routes(tables))
}

/// A router to the configured tables. It uses the bucket plan of the data folder, if the folder has one.
///
/// # Errors
///
/// The bucket plan cannot be read.
pub fn router_of(tables: &[TableConfig], data_dir: &Path) -> Result<Router, StoreError> {
    Ok(match daytable_store::outbox::bucket_plans::read(data_dir)? {
        Some(steps) => router(tables).with_bucket_plan(Arc::new(BucketPlan::new(Some(steps.planned)))),
        None => router(tables),
    })
}

/// The configuration has at least one table, and the last one accepts all records that no other accepts. Tables of hosts take no
/// record from here.
pub(super) fn routes(tables: &[TableConfig]) -> Vec<Route> {
    let route = |table: &TableConfig| Route {
        table: table.name.clone(),
        window: table.window,
        buckets: table.buckets,
        when: table.when.clone().unwrap_or(Condition::ALWAYS),
    };
    tables.iter().filter(|table| table.hosts.is_empty()).map(route).collect()
}
