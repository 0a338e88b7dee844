//! Tokens of Entra ID for an account without a key.
//!
//! | credentials | who is asked | with |
//! |---|---|---|
//! | managed identity | the metadata service of the machine, or the address in `IDENTITY_ENDPOINT` | `client_id`, where the machine has several |
//! | workload identity | `AUTHORITY/TENANT/oauth2/v2.0/token` | the token of the workload, from a file that its platform renews |
//! | client secret | the same | a secret of an application |
//!
//! The requests are those of `object_store`, which archives in Blob storage use as well. It keeps neither the status nor the end
//! of a token, so `TokenHttp` notes both as an answer passes. Each token is asked for by a client of its own: files are read
//! again, and no connection outlives the runtime that it belongs to.
//!
//! Secrets are in no error, no `Debug` output and no log. What an identity service says is shown without the secret, whatever it
//! says.

use daytable_azure::{AccessToken, TokenError, TokenFuture, TokenSource};
use daytable_model::path_text::PathText;
use daytable_model::time;
use daytable_net::http_client;
use daytable_platform::{lock, small_file};
use futures_core::Stream;
use object_store::azure::{AzureConfigKey, AzureCredential, MicrosoftAzureBuilder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use reqwest::Url;
use reqwest::header::RETRY_AFTER;
use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time limits of a connection and of a request.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const REQUEST_MAX: Duration = Duration::from_secs(20);
/// Bytes of an answer, of a secret, and of a workload's token.
const ANSWER_BYTES_MAX: usize = 64 << 10;
const SECRET_BYTES_MAX: u64 = 64 << 10;
/// Characters of what an identity service says.
const SAID_CHARS_MAX: usize = 200;
/// The longest time that a token is believed to last.
const LASTS_MAX: Duration = Duration::from_secs(86_400);

/// The credentials with which an account is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// A connection string, with a key or a shared access signature.
    #[default]
    ConnectionString,
    /// The identity of the machine, the container or the function.
    ManagedIdentity,
    /// The identity of a workload in Kubernetes, or elsewhere with a federated token.
    WorkloadIdentity,
    /// A secret of an application.
    ClientSecret,
}

/// An identity, as the configuration has it. What is `None` is looked for in the environment, under the names of Microsoft's
/// libraries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityOptions {
    /// `AZURE_TENANT_ID`
    pub tenant_id: Option<String>,
    /// `AZURE_CLIENT_ID`
    pub client_id: Option<String>,
    /// A file with the secret; `AZURE_CLIENT_SECRET` is the secret itself.
    pub client_secret_file: Option<PathBuf>,
    /// `AZURE_FEDERATED_TOKEN_FILE`
    pub federated_token_file: Option<PathBuf>,
}

/// Why an identity cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// A part is missing.
    #[error("{identity} needs `{key}` in [store], or {variable}")]
    Missing {
        /// The identity.
        identity: &'static str,
        /// The key of the configuration.
        key: &'static str,
        /// The variable of the environment.
        variable: &'static str,
    },
    /// An identity service without TLS that is not on this host.
    #[error("{variable} begins with http://, and secrets are sent to another host over https:// alone")]
    Plain {
        /// The variable of the environment.
        variable: &'static str,
    },
    /// A variable that has no address.
    #[error("{variable} has no address like \"https://login.microsoftonline.com\"")]
    Address {
        /// The variable of the environment.
        variable: &'static str,
    },
}

/// An identity, of which tokens are asked for.
pub(super) struct Identity {
    /// As people see it.
    name: String,
    kind: IdentityKind,
    client_id: Option<String>,
    /// Of the token endpoint: the service and the tenant.
    authority: Option<String>,
    tenant_id: Option<String>,
    /// Of the managed identity, if it is not the metadata service.
    endpoint: Option<String>,
}

enum IdentityKind {
    Managed,
    Workload(PathBuf),
    Secret(SecretPlace),
}

/// Where a secret is.
enum SecretPlace {
    File(PathBuf),
    Environment,
}

impl Identity {
    /// The identity of these options. `variable` reads the environment.
    pub(super) fn new(
        credentials: Credentials,
        options: &IdentityOptions,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Identity, IdentityError> {
        let variable = |name: &str| variable(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let client_id = options.client_id.clone().or_else(|| variable("AZURE_CLIENT_ID"));
        let identity = match credentials {
            Credentials::WorkloadIdentity => "workload_identity",
            _ => "client_secret",
        };
        let missing = |key, variable| IdentityError::Missing { identity, key, variable };
        if credentials == Credentials::ManagedIdentity {
            // Where a platform has an address of its own, it is one of this host or of the link.
            let endpoint = variable("IDENTITY_ENDPOINT");
            if let Some(endpoint) = &endpoint {
                address("IDENTITY_ENDPOINT", endpoint)?;
            }
            let name = client_id.as_ref().map_or_else(
                || "the managed identity of this machine".to_owned(),
                |client_id| format!("the managed identity {client_id}"),
            );
            let kind = IdentityKind::Managed;
            return Ok(Identity { name, kind, client_id, authority: None, tenant_id: None, endpoint });
        }
        let client_id = client_id.ok_or_else(|| missing("client_id", "AZURE_CLIENT_ID"))?;
        let tenant_id = options.tenant_id.clone().or_else(|| variable("AZURE_TENANT_ID"));
        let tenant_id = tenant_id.ok_or_else(|| missing("tenant_id", "AZURE_TENANT_ID"))?;
        let authority = match variable("AZURE_AUTHORITY_HOST") {
            None => None,
            Some(text) => {
                address("AZURE_AUTHORITY_HOST", &text)?;
                // Kubernetes' webhook writes a slash at the end.
                Some(text.trim_end_matches('/').to_owned())
            }
        };
        let (name, kind) = if credentials == Credentials::WorkloadIdentity {
            let file = options.federated_token_file.clone();
            let file = file.or_else(|| variable("AZURE_FEDERATED_TOKEN_FILE").map(PathBuf::from));
            let file = file.ok_or_else(|| missing("federated_token_file", "AZURE_FEDERATED_TOKEN_FILE"))?;
            (format!("the workload identity {client_id} of {tenant_id}"), IdentityKind::Workload(file))
        } else {
            let place = match &options.client_secret_file {
                Some(file) => SecretPlace::File(file.clone()),
                None if variable("AZURE_CLIENT_SECRET").is_some() => SecretPlace::Environment,
                None => return Err(missing("client_secret_file", "AZURE_CLIENT_SECRET")),
            };
            (format!("the application {client_id} of {tenant_id}"), IdentityKind::Secret(place))
        };
        Ok(Identity { name, kind, client_id: Some(client_id), authority, tenant_id: Some(tenant_id), endpoint: None })
    }

    async fn fetch(&self) -> Result<AccessToken, TokenError> {
        let mut secret = String::new();
        // The account and the container are in no request for a token.
        let mut builder = MicrosoftAzureBuilder::new().with_account("tables").with_container_name("tables");
        let set = |builder: MicrosoftAzureBuilder, key, value: &Option<String>| match value {
            Some(value) => builder.with_config(key, value),
            None => builder,
        };
        builder = set(builder, AzureConfigKey::ClientId, &self.client_id);
        builder = set(builder, AzureConfigKey::AuthorityId, &self.tenant_id);
        builder = set(builder, AzureConfigKey::AuthorityHost, &self.authority);
        builder = set(builder, AzureConfigKey::MsiEndpoint, &self.endpoint);
        let kind = match &self.kind {
            IdentityKind::Managed => "managed_identity",
            IdentityKind::Workload(file) => {
                // It is read here first, so that it has a bound, and an error names it.
                secret = read_secret(file)?;
                builder = builder.with_config(AzureConfigKey::FederatedTokenFile, file.to_string_lossy());
                "workload_identity"
            }
            IdentityKind::Secret(place) => {
                secret = match place {
                    SecretPlace::File(file) => read_secret(file)?,
                    SecretPlace::Environment => {
                        std::env::var("AZURE_CLIENT_SECRET").unwrap_or_default().trim().to_owned()
                    }
                };
                builder = builder.with_config(AzureConfigKey::ClientSecret, &secret);
                "client_secret"
            }
        };
        let passed = Arc::<Mutex<Passed>>::default();
        // The callers repeat what may pass, and know how long they have time.
        let retry = RetryConfig { max_retries: 0, retry_timeout: REQUEST_MAX, backoff: BackoffConfig::default() };
        let builder = builder.with_credential_type(kind).with_retry(retry);
        let built = builder.with_http_connector(TokenConnector(passed.clone())).build();
        let provider = built.map_err(|error| TokenError::lasting(shown(&error.to_string(), &secret)))?;
        let token = provider.credentials().get_credential().await;
        let passed = std::mem::take(&mut *lock(&passed));
        match token.as_deref() {
            Ok(AzureCredential::BearerToken(token)) => Ok(AccessToken::new(token.clone(), passed.lasts)),
            Ok(_) => Err(TokenError::lasting("the answer has no token")),
            Err(error) => Err(self.refusal(passed, error, &secret)),
        }
    }

    /// Why there is no token.
    fn refusal(&self, passed: Passed, error: &object_store::Error, secret: &str) -> TokenError {
        let after = passed.after;
        let Some(status) = passed.status else {
            return TokenError::passing(shown(&causes(error), secret));
        };
        if (200..300).contains(&status) {
            return TokenError::passing(format!("the answer {status} has no token that can be read"));
        }
        // The metadata service answers 404 and 410 while it is being updated.
        let is_updating = matches!(self.kind, IdentityKind::Managed) && matches!(status, 404 | 410);
        let is_lasting = (400..500).contains(&status) && !matches!(status, 408 | 429) && !is_updating;
        let said = if passed.said.is_empty() { String::new() } else { format!(": {}", shown(&passed.said, secret)) };
        TokenError { message: format!("the identity service answers {status}{said}"), is_lasting, after }
    }
}

impl TokenSource for Identity {
    fn identity(&self) -> &str {
        &self.name
    }

    fn fetch(&self) -> TokenFuture<'_> {
        Box::pin(Identity::fetch(self))
    }
}

/// Checks the address of an identity service.
fn address(variable: &'static str, text: &str) -> Result<(), IdentityError> {
    let url = Url::parse(text).map_err(|_| IdentityError::Address { variable })?;
    let host = url.host_str().unwrap_or_default();
    if host.is_empty() || !matches!(url.scheme(), "http" | "https") {
        return Err(IdentityError::Address { variable });
    }
    if url.scheme() == "http" && !is_near(host) {
        return Err(IdentityError::Plain { variable });
    }
    Ok(())
}

/// Whether a host is this one, or one of the link that every machine has for itself, as the metadata service.
fn is_near(host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost"
        || ip.is_ok_and(|ip| match ip.to_canonical() {
            IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local(),
        })
}

fn read_secret(file: &Path) -> Result<String, TokenError> {
    // A file that a platform replaces may be missing for a moment.
    let text = small_file::read_named(file, SECRET_BYTES_MAX).map_err(TokenError::passing)?;
    match text.trim() {
        "" => Err(TokenError::passing(format!("{} is empty", file.escaped()))),
        secret => Ok(secret.to_owned()),
    }
}

/// The first line of what somebody says, without a secret.
fn shown(text: &str, secret: &str) -> String {
    let text = if secret.is_empty() { text.to_owned() } else { text.replace(secret, "***") };
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(SAID_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The cause at the bottom of an error, and what is above it: `object_store` repeats neither.
fn causes(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    format!("the identity service cannot be reached: {innermost}")
}

/// What passed while a token was asked for.
#[derive(Default)]
struct Passed {
    status: Option<u16>,
    after: Option<Duration>,
    lasts: Option<Duration>,
    /// Of a refusal.
    said: String,
}

/// Makes clients that note what passes.
#[derive(Clone)]
struct TokenConnector(Arc<Mutex<Passed>>);

impl fmt::Debug for TokenConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenConnector")
    }
}

impl HttpConnector for TokenConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = |is_near| {
            let builder = http_client::client(CONNECT_MAX, REQUEST_MAX);
            // No proxy reaches the metadata service of this machine.
            let builder = if is_near { builder.no_proxy() } else { builder };
            let built = builder.build();
            built.map_err(|source| object_store::Error::Generic { store: "identity", source: Box::new(source) })
        };
        let service = TokenHttp {
            near: HttpClient::new(client(true)?),
            far: HttpClient::new(client(false)?),
            passed: self.0.clone(),
        };
        Ok(HttpClient::new(service))
    }
}

struct TokenHttp {
    near: HttpClient,
    far: HttpClient,
    passed: Arc<Mutex<Passed>>,
}

impl fmt::Debug for TokenHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHttp")
    }
}

impl TokenHttp {
    async fn pass(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let client = if request.uri().host().is_some_and(is_near) { &self.near } else { &self.far };
        let (head, body) = client.execute(request).await?.into_parts();
        let (mut bytes, mut body) = (Vec::new(), body.bytes_stream());
        while let Some(piece) = poll_fn(|context| Stream::poll_next(body.as_mut(), context)).await {
            bytes.extend_from_slice(&piece?);
            if bytes.len() > ANSWER_BYTES_MAX {
                let long = std::io::Error::other("the answer is too long to be one of an identity service");
                return Err(HttpError::new(HttpErrorKind::Unknown, long));
            }
        }
        let after = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let after = after.and_then(|seconds| seconds.trim().parse().ok()).map(Duration::from_secs);
        let is_success = head.status.is_success();
        let said = if is_success { String::new() } else { said(&bytes) };
        let lasts = if is_success { lasts(&bytes) } else { None };
        *lock(&self.passed) = Passed { status: Some(head.status.as_u16()), after, lasts, said };
        Ok(HttpResponse::from_parts(head, bytes.into()))
    }
}

impl HttpService for TokenHttp {
    // As `async_trait` writes it.
    fn call<'s, 'f>(
        &'s self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(self.pass(request))
    }
}

/// How long the token of an answer lasts: `expires_in` has seconds, `expires_on` a time; either may be a text.
fn lasts(answer: &[u8]) -> Option<Duration> {
    let answer: serde_json::Value = serde_json::from_slice(answer).ok()?;
    let number = |name: &str| {
        let value = answer.get(name)?;
        value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
    };
    let seconds = match (number("expires_on"), number("expires_in")) {
        (_, Some(seconds)) => seconds,
        (Some(at), None) => at.saturating_sub(time::now().unix_seconds()),
        (None, None) => return None,
    };
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(LASTS_MAX))
}

/// What a refusal says.
fn said(answer: &[u8]) -> String {
    let Ok(answer) = serde_json::from_slice::<serde_json::Value>(answer) else { return String::new() };
    let text = |name: &str| answer.get(name).and_then(|value| value.as_str()).unwrap_or_default().trim().to_owned();
    let (error, description) = (text("error"), text("error_description"));
    if description.is_empty() { error } else { format!("{error} {description}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(credentials: Credentials, variables: &[(&str, &str)]) -> Result<Identity, IdentityError> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Identity::new(credentials, &IdentityOptions::default(), variable)
    }

    #[test]
    fn what_is_missing_is_named_with_its_key_and_its_variable() {
        let ids = [("AZURE_CLIENT_ID", "app"), ("AZURE_TENANT_ID", "tenant")];
        for (credentials, variables, missing) in [
            (Credentials::ClientSecret, &ids[..0], Some("client_id")),
            (Credentials::ClientSecret, &ids[..1], Some("tenant_id")),
            (Credentials::ClientSecret, &ids[..], Some("client_secret_file")),
            (Credentials::WorkloadIdentity, &ids[..], Some("federated_token_file")),
            (Credentials::ManagedIdentity, &ids[..0], None),
        ] {
            let error = identity(credentials, variables).err();
            match (error, missing) {
                (Some(IdentityError::Missing { key, .. }), Some(missing)) => assert_eq!(key, missing),
                (error, missing) => assert!(error.is_none() && missing.is_none(), "{error:?} {missing:?}"),
            }
        }
    }

    #[test]
    fn secrets_go_to_no_other_host_without_tls() {
        for (host, expected) in [
            ("https://login.microsoftonline.us/", None),
            ("http://127.0.0.1:1", None),
            ("http://login.example", Some(IdentityError::Plain { variable: "AZURE_AUTHORITY_HOST" })),
            ("login.example", Some(IdentityError::Address { variable: "AZURE_AUTHORITY_HOST" })),
        ] {
            let variables = [
                ("AZURE_CLIENT_ID", "app"),
                ("AZURE_TENANT_ID", "tenant"),
                ("AZURE_CLIENT_SECRET", "c2VjcmV0"),
                ("AZURE_AUTHORITY_HOST", host),
            ];
            assert_eq!(identity(Credentials::ClientSecret, &variables).err(), expected, "{host}");
        }
        for (endpoint, is_good) in [
            ("http://169.254.169.254/metadata/identity/oauth2/token", true),
            ("http://localhost:42356/msi/token", true),
            ("http://10.0.0.7/token", false),
        ] {
            let found = identity(Credentials::ManagedIdentity, &[("IDENTITY_ENDPOINT", endpoint)]);
            assert_eq!(found.is_ok(), is_good, "{endpoint}");
        }
    }

    #[test]
    fn names_for_people() {
        let variables =
            [("AZURE_CLIENT_ID", "app"), ("AZURE_TENANT_ID", "tenant"), ("AZURE_CLIENT_SECRET", "c2VjcmV0")];
        let name = |credentials, variables| identity(credentials, variables).ok().map(|identity| identity.name);
        assert_eq!(name(Credentials::ManagedIdentity, &[]).as_deref(), Some("the managed identity of this machine"));
        assert_eq!(name(Credentials::ManagedIdentity, &variables[..1]).as_deref(), Some("the managed identity app"));
        assert_eq!(name(Credentials::ClientSecret, &variables).as_deref(), Some("the application app of tenant"));
    }

    #[test]
    fn how_long_a_token_lasts() {
        let in_an_hour = time::now().unix_seconds() + 3600;
        for (answer, least, most) in [
            (r#"{"expires_in":3599}"#.to_owned(), 3599, 3599),
            (r#"{"expires_in":"3599","expires_on":"1"}"#.to_owned(), 3599, 3599),
            (format!(r#"{{"expires_on":"{in_an_hour}"}}"#), 3590, 3600),
            (r#"{"expires_on":"1"}"#.to_owned(), 0, 0),
            (r#"{"expires_in":-5}"#.to_owned(), 0, 0),
            (r#"{"expires_in":99999999999}"#.to_owned(), 86_400, 86_400),
        ] {
            let lasts = lasts(answer.as_bytes()).expect("a number").as_secs();
            assert!((least..=most).contains(&lasts), "{answer}: {lasts}");
        }
        for answer in ["", "{}", "[1]", r#"{"expires_in":"soon"}"#] {
            assert_eq!(lasts(answer.as_bytes()), None, "{answer}");
        }
    }

    #[test]
    fn a_secret_that_is_sent_back_is_not_shown() {
        assert_eq!(shown("the secret c2VjcmV0 is wrong\u{1b}\nmore", "c2VjcmV0"), "the secret *** is wrong ");
        assert_eq!(
            said(br#"{"error":"invalid_client","error_description":"AADSTS7000215: no"}"#),
            "invalid_client AADSTS7000215: no"
        );
        assert_eq!(said(b"<html>"), "");
    }
}
