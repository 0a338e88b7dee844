//! The sender of a request: its name, its tenant, its tables, and its meter.
//!
//! The listener authenticates the sender and fills a [`PushSender`]. This module knows no listener.

use crate::route::Router;
use daytable_model::record::{Field, Record, Value};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// Counts and limits the records of a sender.
pub trait Meter: Debug + Send + Sync {
    /// Counts accepted records, and bytes of the decompressed body. A sender that exceeds its limits by this is refused
    /// from its next request on.
    fn charge(&self, records: u64, bytes: u64);

    /// How long an upload of this sender must pause, because the sender exceeded its limits.
    fn pause(&self) -> Option<Duration>;
}

/// The sender of a request. Cheap to clone. It holds no secret.
#[derive(Clone, Debug)]
pub struct PushSender {
    /// The name. Idempotency keys and the keys of named documents are bound to it.
    pub name: Arc<str>,
    /// The tenant of its records.
    pub tenant: Option<Arc<str>>,
    /// The tables for its records. `None` means all tables.
    tables: Option<Router>,
    /// The meter of its records. `None` means no limit.
    meter: Option<Arc<dyn Meter>>,
}

impl PushSender {
    /// A sender with a credential.
    pub fn new(name: &str, tables: Option<Router>, tenant: Option<&str>) -> PushSender {
        PushSender { name: name.into(), tables, tenant: tenant.map(Arc::from), meter: None }
    }

    /// A sender without a credential, which may push everything everywhere. Its name is in brackets, so no credential can
    /// have it.
    pub fn anonymous(name: &str) -> PushSender {
        PushSender::new(&format!("({name})"), None, None)
    }

    /// Whether this sender has no credential.
    pub fn is_anonymous(&self) -> bool {
        self.name.starts_with('(')
    }

    /// The same sender, charged to `meter`.
    pub fn with_meter(self, meter: Arc<dyn Meter>) -> PushSender {
        PushSender { meter: Some(meter), ..self }
    }

    /// The tables its records may go to, of all that are configured.
    pub fn router<'a>(&'a self, all: &'a Router) -> &'a Router {
        self.tables.as_ref().unwrap_or(all)
    }

    /// Adds the tenant to a record, in front of a field of the record's own with that name.
    pub fn mark<'a>(&'a self, record: &mut Record<'a>) {
        if let Some(tenant) = self.tenant.as_deref() {
            record.fields.insert(0, Field { name: "tenant".into(), value: Value::String(tenant.into()) });
        }
    }

    /// Counts accepted records and bytes, see [`Meter::charge`].
    pub fn charge(&self, records: u64, bytes: u64) {
        if let Some(meter) = &self.meter {
            meter.charge(records, bytes);
        }
    }

    /// How long this sender has to wait, see [`Meter::pause`].
    pub fn pause(&self) -> Option<Duration> {
        self.meter.as_ref()?.pause()
    }
}
