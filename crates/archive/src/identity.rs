//! By whom an archive is reached, in words for people, and whether that identity may write there.
//!
//! The order in which credentials count is that of `object_store`. What is asked are the builders, after they have read the
//! environment, so both see the same.

use super::access::{self, Access, RetryPolicy};
use super::error::ArchiveError;
use super::url::{ArchiveUrl, Location, Service};
use super::{Archive, PROBE};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as S3Key};
use object_store::azure::{AzureConfigKey as AzureKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey as GoogleKey};
use object_store::{ObjectStoreExt, PutPayload};
use std::hash::{BuildHasher, Hasher};

/// By whom the archives at an address are reached, without secrets. Asks nobody.
///
/// # Errors
///
/// [`ArchiveError::Setup`] if a file with credentials cannot be read.
pub fn identity(url: &ArchiveUrl, access: &Access) -> Result<String, ArchiveError> {
    let setup = |what: String| ArchiveError::Setup { url: url.clone(), what };
    let (policy, location) = (RetryPolicy::QUERY, url.location());
    Ok(match location {
        Location::Folder(_) => "the user of the daemon".into(),
        Location::Bucket { service: Service::S3, bucket, .. } => {
            of_s3(&access::s3_builder(bucket, access, &policy).map_err(setup)?)
        }
        Location::Bucket { service: Service::Azure, bucket, .. } => {
            of_azure(&access::azure_builder(bucket, access, &policy).map_err(setup)?)
        }
        Location::Bucket { service: Service::Google, bucket, .. } => {
            of_google(&access::google_builder(bucket, access, &policy), adc_of_user().as_deref())
        }
    })
}

fn of_s3(builder: &AmazonS3Builder) -> String {
    let value = |key| builder.get_config_value(&key).filter(|value| !value.is_empty());
    if value(S3Key::SkipSignature).is_some_and(|skipped| skipped == "true") {
        return "nobody: requests are not signed".into();
    }
    if let Some(key) = value(S3Key::AccessKeyId) {
        let kind = if value(S3Key::Token).is_some() { "the temporary key" } else { "the key" };
        return format!("{kind} {key}");
    }
    if let (Some(role), Some(_)) = (value(S3Key::RoleArn), value(S3Key::WebIdentityTokenFile)) {
        return format!("the role {role} of a workload");
    }
    let container = [S3Key::ContainerCredentialsRelativeUri, S3Key::ContainerCredentialsFullUri];
    if container.into_iter().any(|key| value(key).is_some()) {
        return "the role of this container".into();
    }
    "the role of this machine".into()
}

fn of_azure(builder: &MicrosoftAzureBuilder) -> String {
    let value = |key| builder.get_config_value(&key).filter(|value| !value.is_empty());
    let account = value(AzureKey::AccountName).map_or_else(String::new, |account| format!(" of the account {account}"));
    let client = value(AzureKey::ClientId);
    let of_tenant = value(AzureKey::AuthorityId).map_or_else(String::new, |tenant| format!(" of {tenant}"));
    let named = |what: &str| format!("{what} {}{of_tenant}", client.as_deref().unwrap_or_default());
    let has = |key| value(key).is_some();
    let kind = value(AzureKey::CredentialType).unwrap_or_else(|| "auto".into());
    let is_whole = client.is_some() && !of_tenant.is_empty();
    match kind.as_str() {
        _ if value(AzureKey::SkipSignature).is_some_and(|skipped| skipped == "true") => {
            "nobody: requests are not signed".into()
        }
        "bearer_token" => "a token of the environment".into(),
        "auto" if has(AzureKey::Token) => "a token of the environment".into(),
        "access_key" => format!("the key{account}"),
        "auto" if has(AzureKey::AccessKey) => format!("the key{account}"),
        "workload_identity" => named("the workload identity"),
        "auto" if is_whole && has(AzureKey::FederatedTokenFile) => named("the workload identity"),
        "client_secret" => named("the application"),
        "auto" if is_whole && has(AzureKey::ClientSecret) => named("the application"),
        "sas_token" => format!("a shared access signature{account}"),
        "auto" if has(AzureKey::SasKey) => format!("a shared access signature{account}"),
        "azure_cli" => "whoever is logged in with `az`".into(),
        "auto" if value(AzureKey::UseAzureCli).is_some_and(|used| used == "true") => {
            "whoever is logged in with `az`".into()
        }
        _ => match client {
            Some(client) => format!("the managed identity {client}"),
            None => "the managed identity of this machine".into(),
        },
    }
}

fn of_google(builder: &GoogleCloudStorageBuilder, of_user: Option<&str>) -> String {
    let value = |key| builder.get_config_value(&key).filter(|value| !value.is_empty());
    if value(GoogleKey::SkipSignature).is_some_and(|skipped| skipped == "true") {
        return "nobody: requests are not signed".into();
    }
    if value(GoogleKey::ServiceAccount).or_else(|| value(GoogleKey::ServiceAccountKey)).is_some() {
        return "a service account's key".into();
    }
    match value(GoogleKey::ApplicationCredentials).as_deref().or(of_user) {
        Some(file) => format!("the credentials in {file}"),
        None => "the service account of this machine".into(),
    }
}

/// Where `gcloud auth application-default login` leaves credentials, if it did.
fn adc_of_user() -> Option<String> {
    let file =
        std::path::Path::new(&std::env::var_os("HOME")?).join(".config/gcloud/application_default_credentials.json");
    file.exists().then(|| file.to_string_lossy().into_owned())
}

impl Archive {
    /// Whether days can be written there: an upload is begun, and given up. No object comes of it. Where the archives are a table,
    /// also whether the store is fit for one: an object is written, and removed.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Denied`] if the identity may not; [`ArchiveError::Unfit`] if the store would lose commits; otherwise what
    /// went wrong.
    pub fn probe_write(&self) -> Result<(), ArchiveError> {
        // `RandomState` has random keys: two hosts never probe one name.
        let name = format!("{PROBE}{:016x}", std::hash::RandomState::new().build_hasher().finish());
        let (path, object) = (self.0.prefix.clone().join(name.as_str()), format!("{}/{name}", self.0.url));
        let failed = |error| ArchiveError::from_store(object.clone(), error);
        self.wait(async {
            let mut upload = self.store().put_multipart(&path).await.map_err(failed)?;
            // Only some services are asked before the first part.
            let sent = upload.put_part(PutPayload::from_static(b"?")).await.map_err(failed);
            let aborted = upload.abort().await;
            if let (Ok(()), Err(error)) = (&sent, aborted) {
                tracing::debug!(%error, "an upload that was begun as a probe is left to the rules of the bucket");
            }
            sent?;
            if !self.is_table() {
                return Ok(());
            }
            let tried = daytable_delta::check_store(self.store(), &path).await;
            tried.map_err(|error| self.log_failed(error.into()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_to_s3() {
        let builder = AmazonS3Builder::new;
        assert_eq!(of_s3(&builder()), "the role of this machine");
        let key = builder().with_access_key_id("AKIA").with_secret_access_key("c2VjcmV0");
        assert_eq!(of_s3(&key), "the key AKIA");
        assert_eq!(of_s3(&key.with_token("c2VjcmV0")), "the temporary key AKIA");
        let workload = builder()
            .with_config(S3Key::RoleArn, "arn:aws:iam::1:role/logs")
            .with_config(S3Key::WebIdentityTokenFile, "/token");
        assert_eq!(of_s3(&workload), "the role arn:aws:iam::1:role/logs of a workload");
        let container = builder().with_config(S3Key::ContainerCredentialsRelativeUri, "/v2/credentials");
        assert_eq!(of_s3(&container), "the role of this container");
    }

    #[test]
    fn who_writes_to_blob_storage() {
        let builder = || MicrosoftAzureBuilder::new().with_account("acme");
        assert_eq!(of_azure(&builder()), "the managed identity of this machine");
        assert_eq!(of_azure(&builder().with_client_id("app")), "the managed identity app");
        assert_eq!(of_azure(&builder().with_access_key("c2VjcmV0")), "the key of the account acme");
        let app = || builder().with_client_id("app").with_tenant_id("tenant");
        assert_eq!(of_azure(&app().with_client_secret("c2VjcmV0")), "the application app of tenant");
        let workload = app().with_client_secret("c2VjcmV0").with_federated_token_file("/token");
        assert_eq!(of_azure(&workload), "the workload identity app of tenant");
        let sas = builder().with_config(AzureKey::SasKey, "sv=1&sig=c2VjcmV0");
        assert_eq!(of_azure(&sas), "a shared access signature of the account acme");
    }

    #[test]
    fn who_writes_to_google() {
        let builder = GoogleCloudStorageBuilder::new;
        assert_eq!(of_google(&builder(), None), "the service account of this machine");
        assert_eq!(of_google(&builder(), Some("/home/adc.json")), "the credentials in /home/adc.json");
        let file = builder().with_application_credentials("/etc/gcs.json");
        assert_eq!(of_google(&file, Some("/home/adc.json")), "the credentials in /etc/gcs.json");
    }
}
