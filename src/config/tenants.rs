//! `[[tenant]]`: which records the readers of Loki's routes see.

use super::changes::Changes;
use super::key::{self, ConfigKey, KeyDraft, SectionDoc, SectionPlace, optional_text, texts};
use super::section::Section;
use super::table::TableConfig;
use super::values::{host_pattern, name, secret_file};
use daytable_intake::glob::{GlobError, Pattern};
use std::path::PathBuf;

/// A tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantConfig {
    /// The name.
    pub name: String,
    /// Its configured tables; every table if empty.
    pub tables: Vec<String>,
    /// Patterns of its instances; every instance if empty.
    pub instances: Vec<String>,
    /// Patterns of the hosts that forwarded its records; records of every host, and of none, if empty.
    pub hosts: Vec<String>,
    /// The file with a token that reads this tenant alone.
    pub token_file: Option<PathBuf>,
}

/// What the documents say about `[[tenant]]`.
pub(super) fn doc() -> SectionDoc {
    SectionDoc {
        about: "Tenants of the routes that Grafana and logcli use. Where one is configured, their requests need the header `X-Scope-OrgID` with the name of a tenant, \
                or several with `|` between them, and see no other records. Whoever has `http.token_file` reads all of /api/*, and may name any tenant. \
                docs/guide/grafana.md has an example.",
        before: "#[[tenant]]\n#name = \"shop\"\n#instances = [\"shop-*\"]\n\n",
        ..SectionDoc::new("[[tenant]]", SectionPlace::Blocks { in_sample: false }, keys(), &mut TenantConfig::default())
    }
}

/// The blocks `[[tenant]]` of a file with these tables.
pub(super) fn read(file: &mut Section<'_>, tables: &[TableConfig]) -> Vec<TenantConfig> {
    let (keys, mut tenants): (_, Vec<TenantConfig>) = (keys(), Vec::new());
    for mut section in file.sections("tenant", "[[tenant]]") {
        let tenant_name = section.text("name", name);
        section.require("name", "name = \"acme\"");
        let has_hosts = section.has("hosts");
        let tenant = key::read(&keys, &mut section, TenantConfig::default());
        if tenant.tables.is_empty() && tenant.instances.is_empty() && !has_hosts {
            section.problem("needs `tables`, `instances` or `hosts`: which records are its own");
        }
        if has_hosts && tenant.hosts.is_empty() {
            section.problem("`hosts` names none: [\"*\"] are all of them");
        }
        for unknown in tenant.tables.iter().filter(|name| tables.iter().all(|table| table.name.as_str() != **name)) {
            section.problem(format_args!("`tables` has {unknown:?}, which no [[table]] is called"));
        }
        if let Some(name) = tenant_name {
            if tenants.iter().any(|other| other.name == name) {
                section.problem(format_args!("two tenants are called {name:?}"));
            }
            tenants.push(TenantConfig { name, ..tenant });
        }
        section.finish();
    }
    tenants
}

/// Adds the changes of the tenants.
pub(super) fn compare(before: &[TenantConfig], now: &mut [TenantConfig], changes: &mut Changes) {
    changes.add_blocks("tenant", &keys(), before, now, |tenant| &tenant.name);
}

fn pattern(text: &str) -> Result<String, GlobError> {
    Pattern::instance(text).map(|_| text.to_owned())
}

fn keys() -> Vec<ConfigKey<TenantConfig>> {
    vec![
        // The name is read apart from the others: a tenant without a name is left out.
        KeyDraft::by_hand("name", "letters, digits, \"-\", \"_\" and \".\"", |tenant: &mut TenantConfig| &mut tenant.name, |_, _| ())
            .required("\"acme\"")
            .live("The name of the tenant, as the header has it."),
        texts("tables", "a list of tables", 0, |tenant: &mut TenantConfig| &mut tenant.tables, |text| Ok::<_, String>(text.to_owned()))
            .live("The tables with its records. Without this key, those of every table. A credential with a `tenant` and a [[table]] with `when = \"tenant:=acme\"` bring them there."),
        texts("instances", "a list of patterns", 0, |tenant: &mut TenantConfig| &mut tenant.instances, pattern)
            .shown(|_| None)
            .example("[\"web-*\"]")
            .live("Patterns of the instances whose records are its own, like [\"web-*\"]; without this key, every instance. A sender may call itself what it likes, so only `tables` and `hosts` are a boundary between senders."),
        texts("hosts", "a list of names", 0, |tenant: &mut TenantConfig| &mut tenant.hosts, host_pattern)
            .shown(|_| None)
            .example("[\"web-*\"]")
            .live("Names of hosts that forward here, with `*` for any characters: the records that they sent are its own. Without this key, those of every host, and those of this daytable. Each record is looked at, so a [[table]] with `hosts` is faster where most records are those of others."),
        optional_text("token_file", "an absolute path, or \"%d/NAME\"", |tenant: &mut TenantConfig| &mut tenant.token_file, secret_file)
            .example("\"/run/credentials/daytable.service/acme\"")
            .live("A file with a token that reads this tenant alone, and nothing else of daytable. With it, the header is not needed. daytable reads a changed file again."),
    ]
}
