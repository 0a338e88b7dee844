//! Access to object stores: endpoints, credentials, timeouts.
//!
//! Credentials come from the files that `[archives]` names, otherwise from the environment, under the names that the
//! service's own tools use, and otherwise from the machine: `object_store` asks the services for identities without keys. They are read whenever an archive is opened, so a replaced file takes effect with the
//! next run. They are never logged and never part of an address. Plain HTTP is used only if the configuration allows
//! it by name.

use super::delta_table::TableFormat;
use super::error::ArchiveError;
use super::url::{ArchiveUrl, Location, Service};
use daytable_model::path_text::PathText;
use daytable_platform::small_file;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Maximum bytes of a file with credentials.
const CREDENTIALS_BYTES_MAX: u64 = 64 << 10;
/// The first pause before a retry; later ones are drawn from up to twice the previous one.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(200);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);
/// An idle connection is not used again after this time.
const IDLE_MAX: Duration = Duration::from_secs(15);

/// How object stores are reached, in addition to the environment. `Default` uses the environment alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The address of a server that speaks S3's protocol; `None` is Amazon's.
    pub s3_endpoint: Option<String>,
    /// The region of the buckets.
    pub s3_region: Option<String>,
    /// A file in the form of `~/.aws/credentials`, of which the profile `default` is used.
    pub s3_credentials_file: Option<PathBuf>,
    /// A file with an Azure Storage connection string.
    pub azure_connection_string_file: Option<PathBuf>,
    /// A file with a service account's key, or application default credentials, in JSON.
    pub gcs_credentials_file: Option<PathBuf>,
    /// Whether an endpoint may be reached without TLS.
    pub allow_http: bool,
    /// What archives are beside their files.
    pub table_format: TableFormat,
    /// How often open days are put into the table of the archives. `None`: only archived days are in it.
    pub publish_open: Option<Duration>,
}

/// Timeouts and retries of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Timeout of a connection.
    pub connect: Duration,
    /// Timeout of a response with its body (8 MiB at most).
    pub request: Duration,
    /// Maximum number of retries of a request.
    pub retries: usize,
    /// The time after which no request is retried.
    pub retry_for: Duration,
}

impl RetryPolicy {
    /// For the lifecycle, which may take all night.
    pub const LIFECYCLE: RetryPolicy = RetryPolicy {
        connect: Duration::from_secs(10),
        request: Duration::from_secs(120),
        retries: 4,
        retry_for: Duration::from_secs(120),
    };

    /// For a query, whose user waits.
    pub const QUERY: RetryPolicy = RetryPolicy {
        connect: Duration::from_secs(3),
        request: Duration::from_secs(15),
        retries: 1,
        retry_for: Duration::from_secs(10),
    };

    fn retry(&self) -> RetryConfig {
        RetryConfig {
            backoff: BackoffConfig { init_backoff: RETRY_PAUSE_MIN, max_backoff: RETRY_PAUSE_MAX, base: 2.0 },
            max_retries: self.retries,
            retry_timeout: self.retry_for,
        }
    }

    fn client(&self, access: &Access) -> Vec<(ClientConfigKey, String)> {
        let milliseconds = |duration: Duration| format!("{} ms", duration.as_millis());
        let mut options = vec![
            (ClientConfigKey::ConnectTimeout, milliseconds(self.connect)),
            (ClientConfigKey::Timeout, milliseconds(self.request)),
            (ClientConfigKey::PoolIdleTimeout, milliseconds(IDLE_MAX)),
            (ClientConfigKey::UserAgent, concat!("daytable/", env!("CARGO_PKG_VERSION")).to_owned()),
        ];
        if access.allow_http {
            options.push((ClientConfigKey::AllowHttp, "true".into()));
        }
        options
    }
}

/// The store behind an address. Sends no request yet; a folder must exist.
pub(super) fn connect(
    url: &ArchiveUrl,
    access: &Access,
    patience: &RetryPolicy,
) -> Result<Arc<dyn ObjectStore>, ArchiveError> {
    let setup = |what: String| ArchiveError::Setup { url: url.clone(), what };
    // The client uses the process-wide provider of cryptography. An existing provider stays.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let built = match url.location() {
        Location::Folder(folder) => {
            std::fs::metadata(folder).map_err(ArchiveError::io(folder))?;
            LocalFileSystem::new_with_prefix(folder)
                .map(|store| Arc::new(store.with_fsync(true)) as Arc<dyn ObjectStore>)
        }
        Location::Bucket { service: Service::S3, bucket, .. } => {
            s3_builder(bucket, access, patience).map_err(setup)?.build().map(|store| Arc::new(store) as _)
        }
        Location::Bucket { service: Service::Azure, bucket, .. } => {
            azure_builder(bucket, access, patience).map_err(setup)?.build().map(|store| Arc::new(store) as _)
        }
        Location::Bucket { service: Service::Google, bucket, .. } => {
            google_builder(bucket, access, patience).build().map(|store| Arc::new(store) as _)
        }
    };
    built.map_err(|error| setup(error.to_string()))
}

pub(super) fn s3_builder(bucket: &str, access: &Access, patience: &RetryPolicy) -> Result<AmazonS3Builder, String> {
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(patience.retry());
    // Objects are removed one by one: not every server that speaks S3's protocol supports lists.
    builder = builder.with_disable_bulk_delete(true);
    for (key, value) in patience.client(access) {
        builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
    }
    if let Some(endpoint) = &access.s3_endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if let Some(region) = &access.s3_region {
        builder = builder.with_region(region);
    }
    if let Some(file) = &access.s3_credentials_file {
        let text = secret(file)?;
        let profile = AwsProfile::read(&text).ok_or_else(|| {
            format!("{} has no aws_access_key_id and aws_secret_access_key under [default]", file.escaped())
        })?;
        builder = builder.with_access_key_id(profile.id).with_secret_access_key(profile.secret);
        if let Some(token) = profile.token {
            builder = builder.with_token(token);
        }
    }
    Ok(builder)
}

pub(super) fn azure_builder(
    container: &str,
    access: &Access,
    patience: &RetryPolicy,
) -> Result<MicrosoftAzureBuilder, String> {
    let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(container).with_retry(patience.retry());
    for (key, value) in patience.client(access) {
        builder = builder.with_config(AzureConfigKey::Client(key), value);
    }
    let connection = match &access.azure_connection_string_file {
        Some(file) => Some((secret(file)?, file.text().into_owned())),
        None => std::env::var("AZURE_STORAGE_CONNECTION_STRING")
            .ok()
            .map(|text| (text, "AZURE_STORAGE_CONNECTION_STRING".to_owned())),
    };
    if let Some((text, name)) = connection {
        let connection = AzureConnection::read(&text).map_err(|what| format!("{name}: {what}"))?;
        if connection.endpoint.starts_with("http://") && !access.allow_http {
            return Err(format!("{name} names an endpoint without TLS, which only `allow_http = true` allows"));
        }
        builder = builder.with_account(connection.account).with_endpoint(connection.endpoint);
        builder = match connection.secret {
            AzureSecret::Key(key) => builder.with_access_key(key),
            AzureSecret::Sas(sas) => builder.with_config(AzureConfigKey::SasKey, sas),
        };
    } else if let Some(host) = builder.get_config_value(&AzureConfigKey::AuthorityHost) {
        // Kubernetes' webhook ends it with a slash, which would be doubled.
        builder = builder.with_config(AzureConfigKey::AuthorityHost, host.trim_end_matches('/'));
    }
    Ok(builder)
}

pub(super) fn google_builder(bucket: &str, access: &Access, patience: &RetryPolicy) -> GoogleCloudStorageBuilder {
    let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).with_retry(patience.retry());
    // Unlike the others, this builder allows plain HTTP by default.
    builder = builder.with_config(GoogleConfigKey::Client(ClientConfigKey::AllowHttp), access.allow_http.to_string());
    for (key, value) in patience.client(access) {
        builder = builder.with_config(GoogleConfigKey::Client(key), value);
    }
    if let Some(file) = &access.gcs_credentials_file {
        builder = builder.with_application_credentials(file.to_string_lossy());
    }
    builder
}

/// Reads a file with a secret. Errors name the file, never its content.
fn secret(path: &Path) -> Result<String, String> {
    small_file::read_named(path, CREDENTIALS_BYTES_MAX)
}

/// The profile `default` of a credentials file.
struct AwsProfile<'a> {
    id: &'a str,
    secret: &'a str,
    token: Option<&'a str>,
}

impl<'a> AwsProfile<'a> {
    fn read(text: &'a str) -> Option<AwsProfile<'a>> {
        let (mut id, mut secret, mut token, mut is_default) = (None, None, None, false);
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                is_default = line == "[default]";
            }
            let Some((key, value)) = line.split_once('=').filter(|_| is_default) else { continue };
            let value = Some(value.trim()).filter(|value| !value.is_empty());
            match key.trim() {
                "aws_access_key_id" => id = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
        Some(AwsProfile { id: id?, secret: secret?, token })
    }
}

/// The parts of an Azure Storage connection string that concern blobs.
#[derive(Debug, PartialEq)]
struct AzureConnection {
    account: String,
    endpoint: String,
    secret: AzureSecret,
}

#[derive(Debug, PartialEq)]
enum AzureSecret {
    Key(String),
    Sas(String),
}

impl AzureConnection {
    /// Parses `AccountName=…;AccountKey=…;EndpointSuffix=…`, and `BlobEndpoint` and `SharedAccessSignature` as the
    /// service's own clients do. `UseDevelopmentStorage=true` is not supported: its key is public.
    fn read(text: &str) -> Result<AzureConnection, &'static str> {
        let pairs = text.trim().split(';').filter(|pair| !pair.trim().is_empty());
        // Keys and signatures contain `=` themselves.
        let pairs: Option<Vec<(&str, &str)>> = pairs.map(|pair| pair.trim().split_once('=')).collect();
        let pairs = pairs.ok_or("is not a connection string: pairs of NAME=VALUE with \";\" between them")?;
        let value = |name: &str| {
            let found = pairs.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| *value).filter(|value| !value.is_empty())
        };
        let account = value("AccountName").ok_or("has no AccountName")?;
        let secret = match (value("AccountKey"), value("SharedAccessSignature")) {
            (Some(key), _) => AzureSecret::Key(key.into()),
            (None, Some(sas)) => AzureSecret::Sas(sas.trim_start_matches('?').into()),
            (None, None) => return Err("has neither AccountKey nor SharedAccessSignature"),
        };
        let endpoint = match value("BlobEndpoint") {
            Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
            None => {
                let protocol = value("DefaultEndpointsProtocol").unwrap_or("https");
                let suffix = value("EndpointSuffix").unwrap_or("core.windows.net");
                format!("{protocol}://{account}.blob.{suffix}")
            }
        };
        Ok(AzureConnection { account: account.into(), endpoint, secret })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn connection_strings() {
        let key = |key: &str| AzureSecret::Key(key.into());
        for (text, account, endpoint, secret) in [
            (
                "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=abc==;EndpointSuffix=core.windows.net\n",
                "acme",
                "https://acme.blob.core.windows.net",
                key("abc=="),
            ),
            (
                "AccountName=dev;AccountKey=a;BlobEndpoint=http://127.0.0.1:10000/dev/;",
                "dev",
                "http://127.0.0.1:10000/dev",
                key("a"),
            ),
            (
                "accountname=acme;SharedAccessSignature=?sv=1&sig=x%3D",
                "acme",
                "https://acme.blob.core.windows.net",
                AzureSecret::Sas("sv=1&sig=x%3D".into()),
            ),
        ] {
            let expected = AzureConnection { account: account.into(), endpoint: endpoint.into(), secret };
            assert_eq!(AzureConnection::read(text), Ok(expected));
        }
        for text in ["", "AccountName", "AccountName=a", "AccountKey=a", "AccountName=;AccountKey=a"] {
            assert!(AzureConnection::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_the_default_profile_counts() {
        let text =
            "[other]\naws_access_key_id = 1\n# a\n[default]\naws_access_key_id=2\n aws_secret_access_key = s=3 \n";
        let profile = AwsProfile::read(text).expect("a profile");
        assert_eq!((profile.id, profile.secret, profile.token), ("2", "s=3", None));
        let with_token = format!("{text}aws_session_token=4\n[last]\naws_session_token=5");
        assert_eq!(AwsProfile::read(&with_token).and_then(|profile| profile.token), Some("4"));
        for text in ["", "[default]\naws_access_key_id=2\n", "[default]\naws_access_key_id=2\naws_secret_access_key=\n"]
        {
            assert!(AwsProfile::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn no_tls_only_where_it_is_allowed_and_no_secret_in_what_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("azure");
        let text = "AccountName=dev;AccountKey=U0VDUkVU;BlobEndpoint=http://127.0.0.1:1/dev";
        std::fs::write(&file, text).expect("written");
        let access = Access { azure_connection_string_file: Some(file), ..Access::default() };
        let url: ArchiveUrl = "az://logs".parse().expect("an address");
        let error = connect(&url, &access, &RetryPolicy::QUERY).expect_err("refused").to_string();
        assert!(error.contains("allow_http") && !error.contains("U0VDUkVU"), "{error}");
        connect(&url, &Access { allow_http: true, ..access }, &RetryPolicy::QUERY).expect("allowed");
    }

    proptest! {
        /// No text in the location of credentials panics.
        #[test]
        fn any_text_is_read_or_refused(text in "(\\PC{0,8}|AccountName=|AccountKey=|;|\\[default\\]\n|aws_access_key_id=){0,8}") {
            let _ = (AzureConnection::read(&text), AwsProfile::read(&text).is_some());
        }
    }
}
