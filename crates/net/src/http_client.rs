//! The HTTP client of the parts that ask other hosts: receivers of alerts and of records, identity services.
//!
//! It follows no redirect, so no secret goes to another address than the configured one, and sends no referrer.

use daytable_model::path_text::PathText;
use daytable_platform::small_file;
use reqwest::{Certificate, Client, ClientBuilder, Identity};
use std::path::Path;
use std::time::Duration;

/// For how long a connection is used again after a request. Servers end idle ones after five seconds and more, and a client that runs
/// during requests only does not notice: the next request would fail.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// A client with limits for a connection, and for a request as a whole.
pub fn client(connect_max: Duration, request_max: Duration) -> ClientBuilder {
    // reqwest uses the default cryptography provider of the process. An existing default provider stays.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .http1_only()
        .connect_timeout(connect_max)
        .timeout(request_max)
        .pool_idle_timeout(IDLE_MAX)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .user_agent(concat!("daytable/", env!("CARGO_PKG_VERSION")))
}

/// Trusts the authorities of a file beside those of the system.
///
/// # Errors
///
/// What is wrong with the file. The text names the file, never its content.
pub fn trust(builder: ClientBuilder, ca_file: &Path, bytes_max: u64) -> Result<ClientBuilder, String> {
    let pem = small_file::read_named(ca_file, bytes_max)?;
    let authorities = Certificate::from_pem_bundle(pem.as_bytes());
    Ok(builder.tls_certs_merge(authorities.map_err(|error| format!("{}: {error}", ca_file.escaped()))?))
}

/// Lets the client show the certificate in `cert_file`, with the key in `key_file`.
///
/// # Errors
///
/// What is wrong with the files. The text names a file, never its content.
pub fn show(
    builder: ClientBuilder,
    cert_file: &Path,
    key_file: &Path,
    bytes_max: u64,
) -> Result<ClientBuilder, String> {
    let (certificate, key) =
        (small_file::read_named(cert_file, bytes_max)?, small_file::read_named(key_file, bytes_max)?);
    let identity = Identity::from_pem(format!("{certificate}\n{key}").as_bytes());
    Ok(builder.identity(identity.map_err(|error| format!("{}: {error}", cert_file.escaped()))?))
}
