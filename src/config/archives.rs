//! `[archives]`: access to the object stores that tables name as their `archive`.
//!
//! No key holds a secret: the keys name files that do. daytable looks for an absent key in the environment, under its usual
//! name (`AWS_ACCESS_KEY_ID`, `AZURE_STORAGE_CONNECTION_STRING`, `GOOGLE_APPLICATION_CREDENTIALS`, …).

use super::key::{ConfigKey, KeyDraft, choice, optional_text, text, truth};
use super::options::SectionOptions;
use super::section::Section;
use super::table::TableConfig;
use super::values::{or_word, secret_file, service_address};
use daytable_archive::{Access, TableFormat};
use daytable_model::units::{parse_duration, show_duration};
use std::time::Duration;

const TABLE_FORMATS: [(&str, TableFormat); 2] = [("none", TableFormat::None), ("delta", TableFormat::Delta)];

/// How often open days may be published. Each time is a version of the table, which every reader of it has to know.
const PUBLISH_MIN: Duration = Duration::from_secs(60);
const PUBLISH_MAX: Duration = Duration::from_secs(86_400);

impl SectionOptions for Access {
    const HEADER: &'static str = "[archives]";
    const ABOUT: &'static str = "Access to the object stores that tables name as their `archive`. No key holds a secret: the keys name files that do. daytable looks for \
                an absent key in the environment, under its usual name (AWS_ACCESS_KEY_ID, AWS_REGION, AZURE_STORAGE_CONNECTION_STRING, \
                GOOGLE_APPLICATION_CREDENTIALS, …). Without any of them, the identity of the workload or the machine counts: S3 with AWS_ROLE_ARN and \
                AWS_WEB_IDENTITY_TOKEN_FILE, with AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, or the role of the instance; Blob storage with AZURE_STORAGE_ACCOUNT_NAME and \
                either AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_FEDERATED_TOKEN_FILE or AZURE_CLIENT_SECRET, or the managed identity; Google's storage with the service account of \
                the machine. `daytable check` says which one it is. docs/guide/accounts-without-keys.md has examples.";

    fn keys() -> Vec<ConfigKey<Access>> {
        let file = "an absolute path, or \"%d/NAME\"";
        vec![
            KeyDraft::new("s3_endpoint", "an http:// or https:// address", |access: &mut Access| &mut access.s3_endpoint, |section| {
                read_endpoint(section).map(Some)
            })
            .example("\"https://s3.example.org\"")
            .live("The address of a server with the S3 protocol. The default is Amazon S3."),
            optional_text("s3_region", "a region", |access: &mut Access| &mut access.s3_region, region)
                .example("\"eu-central-1\"")
                .live("The region of the buckets."),
            optional_text("s3_credentials_file", file, |access: &mut Access| &mut access.s3_credentials_file, secret_file)
                .example("\"/run/credentials/daytable.service/s3\"")
                .live("A file in the form of `~/.aws/credentials`. daytable uses its profile `[default]`."),
            optional_text(
                "azure_connection_string_file",
                file,
                |access: &mut Access| &mut access.azure_connection_string_file,
                secret_file,
            )
            .example("\"/run/credentials/daytable.service/azure\"")
            .live("A file with a connection string: `AccountName=…;AccountKey=…`, or `SharedAccessSignature=…` instead of the key."),
            optional_text("gcs_credentials_file", file, |access: &mut Access| &mut access.gcs_credentials_file, secret_file)
                .example("\"/run/credentials/daytable.service/gcs\"")
                .live("A file with the key of a service account, in JSON."),
            truth("allow_http", |access: &mut Access| &mut access.allow_http)
                .live("Whether `s3_endpoint` may begin with `http://`, for tests on one machine."),
            choice("table_format", |access: &mut Access| &mut access.table_format, &TABLE_FORMATS).live(
                "What the archives are beside their files. With \"delta\", they are a Delta table as well, whose log \
                 (`_delta_log`) daytable keeps, so that DuckDB, ClickHouse, Spark, Trino and others read the days of all \
                 hosts that archive to one address. docs/guide/lake.md has an example.",
            ),
            text(
                "publish_open",
                "\"off\", or from \"1m\" to \"1d\"",
                |access: &mut Access| &mut access.publish_open,
                |text| or_word("off", text, publish_interval),
            )
            .default("\"off\"")
            .live(
                "How often open days are put into the Delta table as well, in parts that the archived day replaces. Engines, and `--lake`, \
                 then see a record after this time instead of after its day, and each record once at any moment. It needs `table_format = \"delta\"`.",
            ),
        ]
    }

    /// daytable reads the files when it opens an archive, so new secrets need no restart.
    fn complete(&mut self, section: &Section<'_>, _: &[TableConfig]) {
        if self.s3_endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://")) && !self.allow_http {
            section.problem("`s3_endpoint` is reached without TLS, which only `allow_http = true` allows");
        }
        if self.publish_open.is_some() && self.table_format == TableFormat::None {
            section.problem(
                "`publish_open` puts open days into a Delta table, which needs `table_format = \"delta\"` here, too",
            );
        }
    }
}

/// `s3_endpoint`. A problem does not quote it, because it may hold a secret.
fn read_endpoint(section: &mut Section<'_>) -> Option<String> {
    let source = section.source_text("s3_endpoint")?;
    let problem = "must be an address without user, key or query, like \"https://s3.example.org:9000\"";
    service_address(source.text).ok_or_else(|| section.report_within(&source, 0, problem)).ok()
}

fn publish_interval(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(every) if every < PUBLISH_MIN => Err(format!(
            "must be at least {:?}, because each time is a version of the table, which every engine reads before it answers, and a \
             request for a file or more; ask daytable itself for what came in the last minute",
            show_duration(PUBLISH_MIN)
        )),
        Ok(every) if every > PUBLISH_MAX => Err(format!("must be at most {:?}", show_duration(PUBLISH_MAX))),
        Ok(every) => Ok(every),
        Err(error) => Err(error.to_string()),
    }
}

fn region(text: &str) -> Result<String, &'static str> {
    let is_name = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if is_name { Ok(text.into()) } else { Err("must be a region's name, like \"eu-central-1\"") }
}
