//! `[archives]`: how the object stores are reached that tables name as their `archive`.
//!
//! No key holds a secret: they name files that do. What is not set is looked for in the environment under its usual
//! name (`AWS_ACCESS_KEY_ID`, `AZURE_STORAGE_CONNECTION_STRING`, `GOOGLE_APPLICATION_CREDENTIALS`, …).

use super::secret_file;
use super::section::Section;
use daytable_archive::Access;

/// The section's keys, checked. Files are read when an archive is opened, so that new secrets need no restart.
pub(super) fn read(mut section: Section<'_>) -> Access {
    let access = Access {
        s3_endpoint: read_endpoint(&mut section),
        s3_region: section.text("s3_region", region),
        s3_credentials_file: section.text("s3_credentials_file", secret_file),
        azure_connection_string_file: section.text("azure_connection_string_file", secret_file),
        gcs_credentials_file: section.text("gcs_credentials_file", secret_file),
        allow_http: section.truth("allow_http").unwrap_or_default(),
    };
    if access.s3_endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://")) && !access.allow_http {
        section.problem("`s3_endpoint` is reached without TLS, which only `allow_http = true` allows");
    }
    section.finish();
    access
}

/// `s3_endpoint`. What is wrong is not quoted: it may hold a secret.
fn read_endpoint(section: &mut Section<'_>) -> Option<String> {
    let written = section.written("s3_endpoint")?;
    let endpoint = endpoint(written.text);
    endpoint.map_err(|what| section.fault_within(&written, 0, what)).ok()
}

fn endpoint(text: &str) -> Result<String, &'static str> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:[]/".contains(c);
    if rest.is_empty() || rest.starts_with('/') || !rest.chars().all(is_plain) {
        return Err("must be an address without user, key or query, like \"https://s3.example.org:9000\"");
    }
    Ok(text.trim_end_matches('/').into())
}

fn region(text: &str) -> Result<String, &'static str> {
    let is_name = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if is_name { Ok(text.into()) } else { Err("must be a region's name, like \"eu-central-1\"") }
}
