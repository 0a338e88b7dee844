//! The files beside the configuration without which the daemon does not start: tokens, credentials and certificates.
//!
//! `daytable check` and `daytable doctor` read them as the start does, and get the same errors. Files that the start does not need
//! (the headers of a receiver, the token of a webhook) are not among them: the daemon runs without, and says so.

use super::{DaemonError, router};
use crate::config::{Config, Listen, PushAccess};
use crate::http::{HttpCounters, PushAuth, ReadToken, Tenants};
use daytable_net::tls::{Certificates, TlsOptions};
use daytable_platform::small_file;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of the installed unit's credentials, which is there for the daemon alone, and only while it runs.
const CREDENTIALS: &str = "/run/credentials";

/// What was found of the files of one key.
pub struct StartFile {
    /// The key, as the configuration has it.
    pub key: String,
    /// The file, or the first of several.
    pub path: PathBuf,
    /// Whether the daemon starts with it.
    pub state: StartFileState,
}

/// Whether the daemon starts with a file.
pub enum StartFileState {
    /// It does.
    Good,
    /// This process may not look at the file, so this is not known.
    Unseen(Error),
    /// It does not.
    Refused(DaemonError),
}

/// Reads the files of a configuration as the start of the daemon does.
pub fn start_files(config: &Config) -> Vec<StartFile> {
    let http = &config.http;
    let mut files = Vec::new();
    let mut add = |key: String, paths: &[&Path], read: &dyn Fn() -> Result<(), DaemonError>| {
        let unseen = paths.iter().find_map(|path| unseen(path));
        let state = unseen.map_or_else(
            || read().map_or_else(StartFileState::Refused, |()| StartFileState::Good),
            StartFileState::Unseen,
        );
        files.push(StartFile { key, path: paths.first().map(|path| path.to_path_buf()).unwrap_or_default(), state });
    };
    if let Some(path) = &http.token_file {
        add("http.token_file".into(), &[path], &|| Ok(ReadToken::read(path).map(drop)?));
    }
    // With `push = "off"` the file is not read.
    let pushes = http.push_access().is_ok_and(|access| access != PushAccess::Off);
    if let Some(path) = http.credentials_file.as_ref().filter(|_| pushes) {
        let read = || Ok(PushAuth::new(http, &router(&config.tables), Arc::new(HttpCounters::default())).map(drop)?);
        add("http.credentials_file".into(), &[path], &read);
    }
    if let Some(tls) = http.tls.as_ref().filter(|_| http.listen != Listen::Off) {
        let read = || Ok(Certificates::read(tls.clone(), "http").map(drop)?);
        add("http.tls".into(), &paths_of(tls), &read);
    }
    for tenant in &config.tenants {
        if let Some(path) = &tenant.token_file {
            let read = || Tenants::new(std::slice::from_ref(tenant)).map(drop).map_err(DaemonError::TenantToken);
            add(format!("token_file of [[tenant]] {:?}", tenant.name), &[path], &read);
        }
    }
    for block in config.sources.all() {
        if let Some(tls) = block.tls {
            let read = || match Certificates::read(tls.clone(), block.name) {
                Ok(_) => Ok(()),
                Err(error) => Err(DaemonError::BlockTls { block: format!("{} {:?}", block.header, block.name), error }),
            };
            add(format!("tls of {} {:?}", block.header, block.name), &paths_of(tls), &read);
        }
    }
    files
}

fn paths_of(tls: &TlsOptions) -> Vec<&Path> {
    let authorities = tls.client_ca_file.as_deref();
    [tls.key_file.as_path(), tls.cert_file.as_path()].into_iter().chain(authorities).collect()
}

/// Why this process cannot tell what is in a file.
fn unseen(path: &Path) -> Option<Error> {
    let error = small_file::open(path).err()?;
    let is_of_unit = path.starts_with(CREDENTIALS) && error.kind() == ErrorKind::NotFound;
    (error.kind() == ErrorKind::PermissionDenied || is_of_unit).then_some(error)
}
