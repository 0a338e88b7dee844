//! Who pushes, and where what he pushes may go.
//!
//! [`may_push`] lets a request pass that may push, and gives it its [`Credential`] as an extension: before anything of the
//! body is read, let alone unpacked.

use super::routes::Door;
use crate::record::{Field, Record, Value};
use crate::route::Router;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;

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
}

impl Credential {
    /// One that may push everything everywhere, under a name that no file can give: it is in brackets.
    pub(crate) fn unbound(name: &str) -> Credential {
        Credential { name: format!("({name})").into(), tables: None, tenant: None }
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
}

/// Lets a request pass that may push, with its [`Credential`] among its extensions.
#[allow(dead_code)] // until a push route is there
pub(super) async fn may_push(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let name = match door {
        Door::Unix => "unix",
        Door::Tcp(_) => "loopback",
    };
    request.extensions_mut().insert(Credential::unbound(name));
    next.run(request).await
}
