//! Tenants: which records the readers of Loki's routes see.
//!
//! The header `X-Scope-OrgID` names one tenant, or several with `|` between them. Where tenants are configured, the header
//! is required, except on the unix socket, and with the token of a tenant, which reads that tenant alone. Where none are,
//! the header selects nothing.

use super::read_token::{ReadToken, ReadTokenError, ReadTokenFile};
use crate::config::TenantConfig;
use axum::http::{HeaderMap, StatusCode};
use daytable_intake::glob::Pattern;
use daytable_store::catalog::name_pattern::fits;
use std::sync::Arc;

const HEADER: &str = "x-scope-orgid";

/// All tenants.
#[derive(Default)]
pub struct Tenants(Vec<Tenant>);

struct Tenant {
    name: String,
    records: Arc<TenantRecords>,
    token: Option<ReadTokenFile>,
    /// The token when the configuration was read.
    configured: Option<ReadToken>,
}

/// The records of a tenant.
#[derive(Debug)]
pub struct TenantRecords {
    tables: Vec<String>,
    instances: Vec<Pattern>,
    hosts: Vec<String>,
}

impl TenantRecords {
    /// Whether it has records of a configured table.
    pub fn has_table(&self, table: &str) -> bool {
        self.tables.is_empty() || self.tables.iter().any(|known| known == table)
    }

    /// Whether it has records of an instance.
    pub fn has_instance(&self, instance: &str) -> bool {
        self.instances.is_empty() || self.instances.iter().any(|known| known.matches(instance))
    }

    /// Whether it has records that this host forwarded, or none did.
    pub fn has_host(&self, host: Option<&str>) -> bool {
        self.hosts.is_empty() || host.is_some_and(|host| self.hosts.iter().any(|pattern| fits(pattern, host)))
    }
}

/// Which records a client sees: those of some tenants, or all.
#[derive(Clone, Debug, Default)]
pub struct Visibility(Option<Arc<[Arc<TenantRecords>]>>);

impl Visibility {
    /// The records of these tenants.
    #[cfg(test)]
    pub(crate) fn of(tenants: &[TenantConfig]) -> Result<Visibility, ReadTokenError> {
        let tenants = Tenants::new(tenants)?;
        Ok(Visibility(Some(tenants.0.iter().map(|tenant| tenant.records.clone()).collect())))
    }

    /// Whether every record is seen.
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// Whether records of an instance in a configured table are seen: all of them, unless [hosts](Visibility::by_host) decide.
    pub fn sees(&self, table: &str, instance: &str) -> bool {
        let Some(tenants) = &self.0 else { return true };
        tenants.iter().any(|tenant| tenant.has_table(table) && tenant.has_instance(instance))
    }

    /// Whether a record is seen that this host forwarded, or none did.
    pub fn sees_record(&self, table: &str, instance: &str, host: Option<&str>) -> bool {
        let Some(tenants) = &self.0 else { return true };
        tenants.iter().any(|tenant| tenant.has_table(table) && tenant.has_instance(instance) && tenant.has_host(host))
    }

    /// The tenants, if the hosts of records decide whether they are seen.
    pub fn by_host(&self) -> Option<&[Arc<TenantRecords>]> {
        self.0.as_deref().filter(|tenants| tenants.iter().any(|tenant| !tenant.hosts.is_empty()))
    }
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TenantReader {
    /// A client of the unix socket.
    Local,
    /// A client with the token for reading.
    Any,
    /// A client with the token of this tenant.
    One(usize),
}

impl Tenants {
    /// The configured tenants. Reads the files with their tokens.
    pub fn new(configured: &[TenantConfig]) -> Result<Tenants, ReadTokenError> {
        let tenant = |options: &TenantConfig| {
            // Without a pattern, a tenant would see every instance.
            let pattern = |pattern: &String| Pattern::instance(pattern).expect("the configuration has checked it");
            let instances = options.instances.iter().map(pattern).collect();
            let token = options.token_file.as_deref().map(ReadTokenFile::open).transpose()?;
            Ok(Tenant {
                name: options.name.clone(),
                records: Arc::new(TenantRecords {
                    tables: options.tables.clone(),
                    instances,
                    hosts: options.hosts.clone(),
                }),
                configured: token.as_ref().map(ReadTokenFile::token),
                token,
            })
        };
        configured.iter().map(tenant).collect::<Result<_, _>>().map(Tenants)
    }

    /// The reader whose token of a tenant these headers carry.
    pub(super) fn reader(&self, headers: &HeaderMap) -> Option<TenantReader> {
        let has = |tenant: &Tenant| tenant.token.as_ref().is_some_and(|token| token.token().is_in(headers));
        self.0.iter().position(has).map(TenantReader::One)
    }

    /// The tenants whose files have other tokens than those of `before` had.
    pub fn with_other_tokens(&self, before: &Tenants) -> Vec<String> {
        let is_other = |tenant: &&Tenant| {
            let known = before.0.iter().find(|known| known.name == tenant.name);
            known.is_some_and(|known| known.configured.is_some() && known.configured != tenant.configured)
        };
        self.0.iter().filter(is_other).map(|tenant| tenant.name.clone()).collect()
    }

    /// Whether a tenant has a token.
    pub(super) fn have_tokens(&self) -> bool {
        self.0.iter().any(|tenant| tenant.token.is_some())
    }

    /// What a reader sees, or why the request is refused.
    pub(super) fn visibility(
        &self,
        reader: TenantReader,
        headers: &HeaderMap,
    ) -> Result<Visibility, (StatusCode, String)> {
        if self.0.is_empty() {
            return Ok(Visibility::default());
        }
        let given: Vec<&str> = headers.get_all(HEADER).iter().filter_map(|value| value.to_str().ok()).collect();
        let names = given.iter().flat_map(|value| value.split('|')).map(str::trim).filter(|name| !name.is_empty());
        let mut seen = Vec::new();
        for name in names {
            let at = self.0.iter().position(|tenant| tenant.name == name);
            match (at, reader) {
                (Some(at), TenantReader::One(own)) if at != own => {
                    return Err((StatusCode::FORBIDDEN, format!("this token does not read the tenant {name:?}")));
                }
                (Some(at), _) => seen.push(self.0[at].records.clone()),
                // Another tenant's client does not learn which tenants there are.
                (None, TenantReader::One(_)) => {
                    return Err((StatusCode::FORBIDDEN, format!("this token does not read the tenant {name:?}")));
                }
                (None, _) => {
                    return Err((StatusCode::NOT_FOUND, format!("there is no tenant {name:?} in the configuration")));
                }
            }
        }
        match (seen.is_empty(), reader) {
            (false, _) => Ok(Visibility(Some(seen.into()))),
            (true, TenantReader::One(own)) => Ok(Visibility(Some([self.0[own].records.clone()].into()))),
            (true, TenantReader::Local) => Ok(Visibility::default()),
            (true, TenantReader::Any) => Err((
                StatusCode::UNAUTHORIZED,
                "the header X-Scope-OrgID is missing: it names a tenant, or several with | between them".into(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenants() -> Tenants {
        let tenant = |name: &str, tables: &[&str], instances: &[&str]| {
            let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            TenantConfig {
                name: name.into(),
                tables: texts(tables),
                instances: texts(instances),
                ..TenantConfig::default()
            }
        };
        let all = [tenant("acme", &["Acme"], &[]), tenant("web", &[], &["web-*"]), tenant("ops", &["Log"], &["db-?"])];
        Tenants::new(&all).expect("no tokens")
    }

    fn headers(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(HEADER.parse().expect("a name"), value.parse().expect("a value"))])
    }

    #[test]
    fn a_tenant_with_hosts_has_what_they_forwarded() {
        let tenant = |name: &str, tables: &[&str], hosts: &[&str]| {
            let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            TenantConfig { name: name.into(), tables: texts(tables), hosts: texts(hosts), ..TenantConfig::default() }
        };
        let all = [tenant("pay", &[], &["pay-*", "bank"]), tenant("audit", &["Audit"], &[])];
        let tenants = Tenants::new(&all).expect("no tokens");
        let seen = |names: &str| tenants.visibility(TenantReader::Any, &headers(names)).expect("known");
        let (pay, audit, both) = (seen("pay"), seen("audit"), seen("pay|audit"));
        for (table, host, expected) in [
            ("Log", Some("pay-1"), [true, false, true]),
            ("Log", Some("bank"), [true, false, true]),
            ("Log", Some("web-1"), [false; 3]),
            ("Log", None, [false; 3]),
            ("Audit", Some("web-1"), [false, true, true]),
            ("Audit", None, [false, true, true]),
        ] {
            let found = [&pay, &audit, &both].map(|seen| seen.sees_record(table, "app", host));
            assert_eq!(found, expected, "{table} {host:?}");
        }
        assert!(pay.sees("Log", "app") && pay.by_host().is_some() && audit.by_host().is_none());
        assert!(both.by_host().is_some() && Visibility::default().by_host().is_none());
    }

    #[test]
    fn a_header_selects_and_guards() {
        let tenants = tenants();
        let seen =
            |value: &str, reader| tenants.visibility(reader, &headers(value)).map_err(|(status, _)| status.as_u16());
        let web = seen("web", TenantReader::Any).expect("known");
        assert!(web.sees("Log", "web-1") && web.sees("Acme", "web-1") && !web.sees("Log", "db-1"));
        let both = seen("acme| ops", TenantReader::Any).expect("known");
        assert!(both.sees("Acme", "db-1") && both.sees("Log", "db-1") && !both.sees("Log", "db-12"));
        assert_eq!(seen("acme|nobody", TenantReader::Any).map(|_| ()), Err(404));
        assert_eq!(seen("web", TenantReader::One(0)).map(|_| ()), Err(403));
        assert_eq!(seen("nobody", TenantReader::One(0)).map(|_| ()), Err(403));
        for (nothing, reader, is_all) in [
            ("", TenantReader::Any, None),
            (" | ", TenantReader::Local, Some(true)),
            ("", TenantReader::One(1), Some(false)),
        ] {
            assert_eq!(seen(nothing, reader).ok().map(|seen| seen.is_all()), is_all);
        }
        let none = Tenants::default().visibility(TenantReader::Any, &headers("anything"));
        assert!(none.is_ok_and(|seen| seen.is_all() && seen.sees("Log", "web-1")));
    }
}
