//! Sends alerts to receivers with Alertmanager's interface, `POST /api/v2/alerts`, and starts the tasks of the rules' actions.
//!
//! Each receiver has a task of its own, so that one that does not answer delays no other. A message has all alerts that last,
//! and those whose end the receiver does not know yet. It is sent at each change, and again after `resend`, because
//! Alertmanager forgets an alert that is not sent again. A message that is not accepted is tried again, at longer and longer
//! intervals.

use crate::AlertRule;
use crate::action::ActionOptions;
use crate::board::{Alert, AlertBoard, BoardContent, Recipient};
use crate::mail::MailRelay;
use crate::notify::{DeliveryLedger, Notifier, Target};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use daytable_model::path_text::PathText;
use daytable_model::time::{self, Ticks};
use daytable_platform::failpoint;
use daytable_platform::reloadable::Reloadable;
use daytable_platform::small_file;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Certificate, Client, Identity, StatusCode, Url};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Alerts of one message.
const MESSAGE_ALERTS_MAX: usize = 500;
/// Time limits of a connection and of a request.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const REQUEST_MAX: Duration = Duration::from_secs(15);
/// The first pause after a failure, and the longest.
pub(crate) const PAUSE_MIN: Duration = Duration::from_secs(1);
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(60);
/// An alert that is not sent again for so many `resend` is over for the receiver.
const VALID_RESENDS: u32 = 4;
/// Bytes of a file with a secret or a certificate.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of an answer that an error shows.
const ANSWER_SHOWN_MAX: usize = 200;
const PATH: &str = "/api/v2/alerts";
/// How often changed options are looked for.
const OPTIONS_INTERVAL: Duration = Duration::from_secs(1);

/// Where alerts are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryOptions {
    /// The addresses of the receivers, without `/api/v2/alerts`.
    pub receivers: Vec<String>,
    /// A file with a bearer token, or with the password of `user`.
    pub token_file: Option<PathBuf>,
    /// The user of basic authentication.
    pub user: Option<String>,
    /// Authorities of the receivers' certificates, in PEM, beside those of the system.
    pub ca_file: Option<PathBuf>,
    /// The certificate that is shown to receivers, in PEM, with its chain, and the file of its key.
    pub cert_file: Option<PathBuf>,
    /// See `cert_file`.
    pub key_file: Option<PathBuf>,
    /// Whether a secret may be sent without TLS.
    pub allow_http: bool,
    /// The time after which an alert that lasts is sent again.
    pub resend: Duration,
    /// The address of the page, for links to the records.
    pub page_url: Option<String>,
    /// The relay that takes the mail of rules.
    pub mail_relay: Option<MailRelay>,
    /// The sender of the mail.
    pub mail_from: Option<String>,
    /// The user at the relay.
    pub mail_user: Option<String>,
    /// A file with the password of `mail_user`.
    pub mail_password_file: Option<PathBuf>,
    /// Whether rules may run programs.
    pub allow_run: bool,
}

impl Default for DeliveryOptions {
    fn default() -> DeliveryOptions {
        DeliveryOptions {
            receivers: Vec::new(),
            token_file: None,
            user: None,
            ca_file: None,
            cert_file: None,
            key_file: None,
            allow_http: false,
            resend: Duration::from_secs(60),
            page_url: None,
            mail_relay: None,
            mail_from: None,
            mail_user: None,
            mail_password_file: None,
            allow_run: false,
        }
    }
}

/// Where alerts go: to the receivers, and to the actions of their rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryPlan {
    options: DeliveryOptions,
    actions: Vec<(String, ActionOptions)>,
}

impl DeliveryPlan {
    /// The plan of a configuration.
    pub fn new(options: &DeliveryOptions, rules: &[AlertRule]) -> DeliveryPlan {
        let actions = rules.iter().map(|rule| (rule.name.clone(), rule.actions.clone())).collect();
        DeliveryPlan { options: options.clone(), actions }
    }

    fn targets(&self) -> Vec<Target> {
        self.actions.iter().flat_map(|(rule, actions)| Target::all_of(rule, actions)).collect()
    }
}

/// An address of a receiver: `http://` or `https://`, without user, query and fragment, and without a slash at its end.
///
/// # Errors
///
/// The reason, without the address.
pub fn receiver_address(text: &str) -> Result<String, &'static str> {
    let url = Url::parse(text).map_err(|_| "must be an address like \"http://alertmanager:9093\"")?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err("must begin with http:// or https:// and name a host");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must have no user and no password: write `user` and `token_file`");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must have no query");
    }
    if url.path().ends_with(PATH) {
        return Err("must end before /api/v2/alerts, which daytable adds");
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Sends the alerts of `board` until the other end of `stop` is dropped. `data_dir` has the ledger of what actions were told.
/// Runs within a runtime.
pub async fn deliver(
    board: AlertBoard,
    data_dir: PathBuf,
    plan: Reloadable<DeliveryPlan>,
    mut stop: watch::Receiver<()>,
) {
    // reqwest uses the default cryptography provider of the process. An existing default provider stays.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let ledger = Arc::new(DeliveryLedger::open(&data_dir));
    loop {
        let current = plan.load();
        let (options, targets) = (&current.options, current.targets());
        let receivers = options.receivers.iter().map(|address| Recipient { name: address.clone(), rule: None });
        let actions = targets.iter().map(|target| Recipient { name: target.name(), rule: Some(target.rule.clone()) });
        board.set_recipients(receivers.chain(actions).collect());
        let mut tasks = JoinSet::new();
        for address in &options.receivers {
            let receiver = Receiver { address: address.clone(), board: board.clone(), options: options.clone() };
            tasks.spawn(receiver.work());
        }
        for target in targets {
            let notifier = Notifier { target, board: board.clone(), options: options.clone(), ledger: ledger.clone() };
            tasks.spawn(notifier.work());
        }
        // A change ends the tasks: a message that is under way is sent again.
        while *plan.load() == *current {
            if tokio::time::timeout(OPTIONS_INTERVAL, stop.changed()).await.is_ok() {
                return;
            }
        }
    }
}

struct Receiver {
    address: String,
    board: AlertBoard,
    options: DeliveryOptions,
}

impl Receiver {
    async fn work(self) {
        let (mut pause, mut is_failing) = (PAUSE_MIN, false);
        loop {
            let content = self.board.read();
            let wait = match self.send(&content).await {
                Ok(()) => {
                    if std::mem::take(&mut is_failing) {
                        tracing::info!(receiver = self.address, "alerts are sent again");
                    }
                    pause = PAUSE_MIN;
                    self.options.resend
                }
                Err(error) => {
                    // One line an outage: `daytable status` shows the reason.
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::warn!(receiver = self.address, error, "failed to send alerts, which is tried again");
                    }
                    self.board.note_delivery(&self.address, &[], Err(error));
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                    continue;
                }
            };
            let _ = tokio::time::timeout(wait, self.board.changed(content.version)).await;
        }
    }

    async fn send(&self, content: &BoardContent) -> Result<(), String> {
        // An alert that lasts again has no end for a receiver, which knows it by its labels.
        let lasts = |ended: &&Alert| content.firing.iter().any(|alert| alert.labels == ended.labels);
        let ended = content.ended.iter().filter(|alert| !lasts(alert));
        let alerts: Vec<&Alert> = content.firing.iter().chain(ended).collect();
        if alerts.is_empty() {
            self.board.note_idle(&self.address);
            return Ok(());
        }
        let client = self.options.client(true)?;
        for alerts in alerts.chunks(MESSAGE_ALERTS_MAX) {
            let message = message(alerts, &self.options, time::now());
            let mut request = client.post(format!("{}{PATH}", self.address)).header(CONTENT_TYPE, "application/json");
            if let Some(credentials) = self.credentials()? {
                request = request.header(AUTHORIZATION, credentials);
            }
            let sent = request.body(message.to_string()).send().await;
            let response = sent.map_err(|error| shown_error(&error))?;
            check_answer(response, " (is the address that of Alertmanager?)").await?;
            failpoint!("alerts-sent");
        }
        self.board.note_delivery(&self.address, &content.ended, Ok(()));
        Ok(())
    }

    fn credentials(&self) -> Result<Option<HeaderValue>, String> {
        let DeliveryOptions { token_file, user, .. } = &self.options;
        let Some(file) = token_file else { return Ok(None) };
        let secret = read_file(file)?;
        let text = match user {
            Some(user) => format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{}", secret.trim()))),
            None => format!("Bearer {}", secret.trim()),
        };
        if !self.options.may_send_secret_to(&self.address) {
            return Err("a secret is not sent without TLS: use https, or allow_http = true".into());
        }
        let mut value = HeaderValue::from_str(&text).map_err(|_| format!("{} has no usable text", file.escaped()))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

impl DeliveryOptions {
    /// A client for each message: a replaced certificate has effect at once, and messages are few. The certificate of
    /// `cert_file` is shown to receivers only.
    pub(crate) fn client(&self, shows_certificate: bool) -> Result<Client, String> {
        let mut builder = Client::builder()
            .http1_only()
            .connect_timeout(CONNECT_MAX)
            .timeout(REQUEST_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .user_agent(concat!("daytable/", env!("CARGO_PKG_VERSION")));
        if let Some(file) = &self.ca_file {
            let pem = read_file(file)?;
            let authorities = Certificate::from_pem_bundle(pem.as_bytes());
            let authorities = authorities.map_err(|error| format!("{}: {error}", file.escaped()))?;
            builder = builder.tls_certs_merge(authorities);
        }
        if let (true, Some(cert_file), Some(key_file)) = (shows_certificate, &self.cert_file, &self.key_file) {
            let pem = format!("{}\n{}", read_file(cert_file)?, read_file(key_file)?);
            let identity = Identity::from_pem(pem.as_bytes());
            builder = builder.identity(identity.map_err(|error| format!("{}: {error}", cert_file.escaped()))?);
        }
        builder.build().map_err(|error| shown_error(&error))
    }

    /// Whether a secret may be sent to an address: by TLS, or where the configuration allows it.
    pub(crate) fn may_send_secret_to(&self, address: &str) -> bool {
        address.starts_with("https://") || self.allow_http
    }
}

/// The text of a small file. Errors name the file, never its content.
pub(crate) fn read_file(path: &Path) -> Result<String, String> {
    small_file::read(path, FILE_BYTES_MAX).map_err(|error| format!("{} cannot be read: {error}", path.escaped()))
}

/// An error with its causes.
pub(crate) fn shown_error(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Whether a message was accepted; `not_found` is added where the path does not exist.
pub(crate) async fn check_answer(mut response: reqwest::Response, not_found: &str) -> Result<(), String> {
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() >= ANSWER_SHOWN_MAX {
            break;
        }
    }
    let shown: String =
        String::from_utf8_lossy(&body).chars().filter(|c| !c.is_control()).take(ANSWER_SHOWN_MAX).collect();
    let hint = if status == StatusCode::NOT_FOUND { not_found } else { "" };
    Err(format!("the receiver answered {status}{hint}: {shown}"))
}

/// The message about some alerts.
fn message(alerts: &[&Alert], options: &DeliveryOptions, now: Ticks) -> Value {
    let shown = |alert: &&Alert| {
        let until = alert.ends_at.unwrap_or_else(|| now.plus(options.resend * VALID_RESENDS));
        let mut shown = json!({
            "labels": alert.labels,
            "annotations": alert.annotations,
            "startsAt": alert.starts_at.to_string(),
            "endsAt": until.to_string(),
        });
        if let Some(page) = &options.page_url {
            shown["generatorURL"] = link(page, &alert.query).into();
        }
        shown
    };
    alerts.iter().map(shown).collect()
}

/// The address of the page with a query.
pub(crate) fn link(page: &str, query: &str) -> String {
    let page = page.trim_end_matches('/');
    Url::parse_with_params(&format!("{page}/"), [("q", query), ("since", "1h")])
        .map_or_else(|_| page.into(), String::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_message_is_that_of_alertmanager() {
        let alert = Alert {
            rule: "Errors".into(),
            labels: BTreeMap::from([("alertname".into(), "Errors".into())]),
            annotations: BTreeMap::new(),
            query: "level:>=error".into(),
            value: 7.0,
            starts_at: Ticks::UNIX_EPOCH,
            ends_at: None,
        };
        let ended = Alert { ends_at: Some(Ticks::UNIX_EPOCH.plus(Duration::from_secs(9))), ..alert.clone() };
        let options =
            DeliveryOptions { page_url: Some("https://logs.example.org/".into()), ..DeliveryOptions::default() };
        let made = message(&[&alert, &ended], &options, Ticks::UNIX_EPOCH.plus(Duration::from_secs(60)));
        assert_eq!(
            made.to_string(),
            concat!(
                r#"[{"labels":{"alertname":"Errors"},"annotations":{},"startsAt":"1970-01-01T00:00:00Z","#,
                r#""endsAt":"1970-01-01T00:05:00Z","generatorURL":"https://logs.example.org/?q=level%3A%3E%3Derror&since=1h"},"#,
                r#"{"labels":{"alertname":"Errors"},"annotations":{},"startsAt":"1970-01-01T00:00:00Z","#,
                r#""endsAt":"1970-01-01T00:00:09Z","generatorURL":"https://logs.example.org/?q=level%3A%3E%3Derror&since=1h"}]"#,
            )
        );
    }

    #[test]
    fn addresses_of_receivers() {
        assert_eq!(receiver_address("http://am:9093/").as_deref(), Ok("http://am:9093"));
        assert_eq!(receiver_address("https://a.example/prefix").as_deref(), Ok("https://a.example/prefix"));
        for wrong in ["am:9093", "ftp://a", "http://u:p@a", "http://a/?q", "http://a/api/v2/alerts", "http://", ""] {
            assert!(receiver_address(wrong).is_err(), "{wrong}");
        }
    }
}
