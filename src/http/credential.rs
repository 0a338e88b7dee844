//! Who pushes, and where what he pushes may go.
//!
//! `may_push` lets a request pass that may push, and gives it its [`Credential`] as an extension; who that is the
//! [`Gate`](super::gate::Gate) says. What was taken is [charged](Credential::charge) to it afterwards.

use super::gate::{Sender, Tabs};
use super::push::linger;
use super::routes::Door;
use crate::fair::Now;
use crate::record::{Field, Record, Value};
use crate::route::Router;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Whom a request comes from. Cheap to clone; it holds no secret.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Its name in the file of credentials, or what stands for one where none is asked for. What an idempotency key is
    /// bound to.
    pub name: Arc<str>,
    /// Whose its records are.
    pub tenant: Option<Arc<str>>,
    /// The tables its records go to; none is wherever the configuration says.
    tables: Option<Router>,
    tab: Option<Tab>,
}

/// Where what a sender sent is noted.
#[derive(Clone)]
pub(super) struct Tab {
    tabs: Arc<Tabs>,
    sender: Sender,
}

impl Tab {
    pub(super) fn new(tabs: Arc<Tabs>, sender: Sender) -> Tab {
        Tab { tabs, sender }
    }
}

impl std::fmt::Debug for Tab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.sender.fmt(f)
    }
}

impl Credential {
    pub(super) fn new(name: &str, tables: Option<Router>, tenant: Option<&str>) -> Credential {
        Credential { name: name.into(), tables, tenant: tenant.map(Arc::from), tab: None }
    }

    /// One that may push everything everywhere, under a name that no file can give: it is in brackets.
    pub(crate) fn unbound(name: &str) -> Credential {
        Credential::new(&format!("({name})"), None, None)
    }

    pub(super) fn is_unbound(&self) -> bool {
        self.name.starts_with('(')
    }

    pub(super) fn with_tab(self, tab: Tab) -> Credential {
        Credential { tab: Some(tab), ..self }
    }

    /// The tables its records may go to.
    pub fn router<'a>(&'a self, all: &'a Router) -> &'a Router {
        self.tables.as_ref().unwrap_or(all)
    }

    /// Notes in a record whose it is, before any field that calls itself so.
    pub fn mark<'a>(&'a self, record: &mut Record<'a>) {
        if let Some(tenant) = self.tenant.as_deref() {
            record.fields.insert(0, Field { name: "tenant".into(), value: Value::String(tenant.into()) });
        }
    }

    /// Counts what was taken against the sender's rate and quota: records, and bytes of the unpacked body. Whoever is over
    /// them then is refused from his next request on.
    pub fn charge(&self, records: u64, bytes: u64) {
        if let Some(Tab { tabs, sender }) = &self.tab {
            let mut tabs = tabs.lock().unwrap_or_else(PoisonError::into_inner);
            tabs.charge(sender.clone(), records, bytes, Now::read());
        }
    }

    /// How long whoever sends in one long request is not to be read from now, because he is over his rate or quota.
    pub(super) fn pause(&self) -> Option<Duration> {
        let Tab { tabs, sender } = self.tab.as_ref()?;
        let mut tabs = tabs.lock().unwrap_or_else(PoisonError::into_inner);
        tabs.admit(sender, Now::read()).err().map(|over| over.wait)
    }
}

/// Lets a request pass that may push, with its [`Credential`] among its extensions.
pub(super) async fn may_push(State(door): State<Door>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let credential = match &door {
        Door::Unix => Credential::unbound("unix"),
        Door::Tcp { pushing, .. } => {
            let pushing = pushing.now();
            match pushing.admit(&parts, Now::read()) {
                Ok(credential) => credential,
                Err(why) => {
                    linger(&parts, &mut body.into_data_stream()).await;
                    return pushing.refuse(why);
                }
            }
        }
    };
    parts.extensions.insert(credential);
    next.run(Request::from_parts(parts, body)).await
}
