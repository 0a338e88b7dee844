//! Sends alerts to receivers with Alertmanager's interface, `POST /api/v2/alerts`, and starts the tasks of the rules' actions.
//!
//! Each receiver has a task of its own, so that one that does not answer delays no other. A message has all alerts that last,
//! and those whose end the receiver does not know yet. It is sent at each change, and again after `resend`, because
//! Alertmanager forgets an alert that is not sent again. A message that is not accepted is tried again, at longer and longer
//! intervals.

use crate::AlertRule;
use crate::action::ActionOptions;
use crate::board::{Alert, AlertBoard, BoardContent, Recipient};
use crate::notify::{DeliveryLedger, Notifier, Target};
use crate::options::{DeliveryOptions, PATH, PAUSE_MAX, PAUSE_MIN, check_answer, link, read_file};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use daytable_model::path_text::PathText;
use daytable_model::time::{self, Ticks};
use daytable_platform::error_text::with_causes;
use daytable_platform::failpoint;
use daytable_platform::reloadable::Reloadable;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Alerts of one message.
const MESSAGE_ALERTS_MAX: usize = 500;
/// An alert that is not sent again for this many times `resend` is over for the receiver.
const VALID_RESENDS: u32 = 4;
/// How often changed options are looked for.
const OPTIONS_INTERVAL: Duration = Duration::from_secs(1);

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

    /// Tells the board who waits for alerts. Call this before alerts are evaluated by these rules: an alert that ends is kept only
    /// for those who are known to wait for it.
    pub fn announce(&self, board: &AlertBoard) {
        let receivers = self.options.receivers.iter();
        let receivers = receivers.map(|address| Recipient { name: address.clone(), rule: None });
        let of_action = |target: Target| Recipient { name: target.name(), rule: Some(target.rule) };
        board.set_recipients(receivers.chain(self.targets().into_iter().map(of_action)).collect());
    }

    fn targets(&self) -> Vec<Target> {
        self.actions.iter().flat_map(|(rule, actions)| Target::all_of(rule, actions)).collect()
    }
}

/// Sends the alerts of `board` until the other end of `stop` is dropped. `data_dir` has the ledger of the messages that were
/// sent to actions. Runs within a runtime.
pub async fn deliver(
    board: AlertBoard,
    data_dir: PathBuf,
    plan: Reloadable<DeliveryPlan>,
    mut stop: watch::Receiver<()>,
) {
    let ledger = Arc::new(DeliveryLedger::open(&data_dir));
    loop {
        let current = plan.load();
        let options = &current.options;
        current.announce(&board);
        let mut tasks = JoinSet::new();
        for address in &options.receivers {
            let receiver = Receiver { address: address.clone(), board: board.clone(), options: options.clone() };
            tasks.spawn(receiver.work());
        }
        for target in current.targets() {
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
                        tracing::warn!(receiver = self.address, error, "failed to send alerts, retrying");
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
            let response = sent.map_err(|error| with_causes(&error))?;
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
            shown["generatorURL"] = link(page, alert).into();
        }
        shown
    };
    alerts.iter().map(shown).collect()
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
            records: "level:>=error".into(),
            from: Ticks::UNIX_EPOCH,
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
                r#""endsAt":"1970-01-01T00:05:00Z","generatorURL":"https://logs.example.org/?q=level%3A%3E%3Derror&since=1970-01-01T00%3A00%3A00Z"},"#,
                r#"{"labels":{"alertname":"Errors"},"annotations":{},"startsAt":"1970-01-01T00:00:00Z","#,
                r#""endsAt":"1970-01-01T00:00:09Z","generatorURL":"https://logs.example.org/?q=level%3A%3E%3Derror&since=1970-01-01T00%3A00%3A00Z&until=1970-01-01T00%3A00%3A09Z"}]"#,
            )
        );
    }
}
