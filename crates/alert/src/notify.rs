//! Tells each action of a rule about the beginning and the end of each alert.
//!
//! Each action has a task of its own, so that one that fails delays no other. What was sent is in
//! `alert-deliveries.json`, which is synced after each message: a kill in between repeats that message, with the same key, and
//! none is left out. An alert that began and ended while an action failed is sent as both.
//!
//! A program is run for beginnings only: most programs that act would act twice.

use crate::action::{ActionOptions, Webhook};
use crate::board::{Alert, AlertBoard, BoardContent};
use crate::notification::{Notification, Status};
use crate::options::{DeliveryOptions, PAUSE_MAX, PAUSE_MIN, link};
use crate::{mail, program, webhook};
use daytable_platform::{failpoint, lock};
use daytable_store::StateFile;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const FORMAT: u32 = 1;

/// The kinds of actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActionKind {
    Webhook,
    Mail,
    Run,
}

impl ActionKind {
    fn label(self) -> &'static str {
        match self {
            ActionKind::Webhook => "webhook",
            ActionKind::Mail => "mail",
            ActionKind::Run => "run",
        }
    }

    /// Whether the end of an alert is sent.
    fn hears_ends(self) -> bool {
        self != ActionKind::Run
    }
}

/// An action of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) rule: String,
    pub(crate) kind: ActionKind,
    actions: ActionOptions,
}

impl Target {
    /// The actions of a rule, one of a kind.
    pub(crate) fn all_of(rule: &str, actions: &ActionOptions) -> Vec<Target> {
        let kinds = [
            (ActionKind::Webhook, actions.webhook.is_some()),
            (ActionKind::Mail, !actions.mail.is_empty()),
            (ActionKind::Run, !actions.run.is_empty()),
        ];
        let kinds = kinds.into_iter().filter(|(_, has)| *has);
        kinds.map(|(kind, _)| Target { rule: rule.into(), kind, actions: actions.clone() }).collect()
    }

    /// The name in `status`, `/api/alerts` and metrics.
    pub(crate) fn name(&self) -> String {
        format!("{} of {}", self.kind.label(), self.rule)
    }

    /// What the ledger has of a message to this target: another address is another target, and hears of the alerts that last.
    fn note_of(&self, notification: &Notification) -> String {
        let ActionOptions { webhook, mail, run, .. } = &self.actions;
        let place = match self.kind {
            ActionKind::Webhook => match webhook {
                Some(Webhook::Address(address)) => address.secret().to_owned(),
                other => format!("{other:?}"),
            },
            ActionKind::Mail => format!("{mail:?}"),
            ActionKind::Run => format!("{run:?}"),
        };
        let place = xxhash_rust::xxh3::xxh3_64(format!("{}\n{place}", self.rule).as_bytes());
        format!("{} {place:016x} {}", self.kind.label(), notification.status.label())
    }

    /// The messages that the target gets about an alert.
    fn notifications(&self, alert: &Alert, options: &DeliveryOptions) -> Vec<Notification> {
        let url = options.page_url.as_ref().map(|page| link(page, alert));
        let is_end = alert.ends_at.is_some() && self.kind.hears_ends();
        let statuses = [Some(Status::Firing), is_end.then_some(Status::Resolved)];
        let notification = |status| Notification { alert: alert.clone(), status, url: url.clone() };
        statuses.into_iter().flatten().map(notification).collect()
    }
}

/// Which messages were sent to which action, in a file that is synced.
pub(crate) struct DeliveryLedger {
    data_dir: PathBuf,
    saved: Mutex<SavedDeliveries>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct SavedDeliveries {
    format: u32,
    /// By the identifier of an alert: which actions were sent its beginning and its end.
    sent: BTreeMap<String, BTreeSet<String>>,
}

impl DeliveryLedger {
    /// The ledger of a data folder. An unreadable ledger starts empty: alerts that are firing are sent once more.
    pub(crate) fn open(data_dir: &Path) -> DeliveryLedger {
        let read = StateFile::AlertDeliveries.read(data_dir).map_err(|error| error.to_string());
        let parsed = read.and_then(|bytes| match bytes {
            None => Ok(SavedDeliveries::default()),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| error.to_string()),
        });
        let mut saved = parsed.unwrap_or_else(|error| {
            tracing::warn!(error, "alert-deliveries.json cannot be read: alerts that are firing are sent once more");
            SavedDeliveries::default()
        });
        saved.format = FORMAT;
        DeliveryLedger { data_dir: data_dir.into(), saved: Mutex::new(saved) }
    }

    fn has(&self, target: &Target, notification: &Notification) -> bool {
        let notes = lock(&self.saved);
        notes.sent.get(&notification.alert.id()).is_some_and(|notes| notes.contains(&target.note_of(notification)))
    }

    /// Adds messages, and forgets those about alerts that are over for everybody. A failed write is not a reason to
    /// send again while this daemon runs.
    fn note(&self, target: &Target, sent: &[Notification], board: &AlertBoard) {
        let mut saved = lock(&self.saved);
        // Read behind the lock: another action may have sent a newer alert meanwhile than this one read.
        let content = board.read();
        let known: BTreeSet<String> = content.firing.iter().chain(&content.ended).map(Alert::id).collect();
        saved.sent.retain(|id, _| known.contains(id));
        for notification in sent {
            saved.sent.entry(notification.alert.id()).or_default().insert(target.note_of(notification));
        }
        let written = serde_json::to_vec(&*saved).map_err(|error| error.to_string()).and_then(|bytes| {
            StateFile::AlertDeliveries.write(&self.data_dir, &bytes).map_err(|error| error.to_string())
        });
        if let Err(error) = written {
            tracing::warn!(error, "an alert was sent, but that was not recorded: it is sent again after a restart");
        }
    }
}

/// The task of one target.
pub(crate) struct Notifier {
    pub(crate) target: Target,
    pub(crate) board: AlertBoard,
    pub(crate) options: DeliveryOptions,
    pub(crate) ledger: Arc<DeliveryLedger>,
}

impl Notifier {
    pub(crate) async fn work(self) {
        let (name, mut pause, mut is_failing) = (self.target.name(), PAUSE_MIN, false);
        loop {
            let content = self.board.read();
            self.note_known_ends(&name, &content);
            let due = self.due(&content);
            if due.is_empty() {
                self.board.note_idle(&name);
                self.board.changed(content.version).await;
                continue;
            }
            match self.send(&due).await {
                Ok(()) => {
                    self.board.note_delivery(&name, &[], Ok(()));
                    if std::mem::take(&mut is_failing) {
                        tracing::info!(receiver = name, "alerts are sent again");
                    }
                    pause = PAUSE_MIN;
                }
                Err(error) => {
                    // One line an outage: `daytable status` shows the reason.
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::warn!(receiver = name, error, "failed to send alerts, retrying");
                    }
                    self.board.note_delivery(&name, &[], Err(error));
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// The next messages that are sent together: as many as a mail takes, otherwise one.
    fn due(&self, content: &BoardContent) -> Vec<Notification> {
        let alerts = content.ended.iter().chain(&content.firing).filter(|alert| alert.rule == self.target.rule);
        let notifications = alerts.flat_map(|alert| self.target.notifications(alert, &self.options));
        let unsent = notifications.filter(|notification| !self.ledger.has(&self.target, notification));
        unsent.take(if self.target.kind == ActionKind::Mail { mail::MESSAGES_MAX } else { 1 }).collect()
    }

    /// The ends that the target knows, also from before a restart, need not be kept for it.
    fn note_known_ends(&self, name: &str, content: &BoardContent) {
        let is_known = |alert: &&Alert| {
            let mut notifications = self.target.notifications(alert, &self.options).into_iter();
            alert.rule == self.target.rule
                && notifications.all(|notification| self.ledger.has(&self.target, &notification))
        };
        let known: Vec<Alert> = content.ended.iter().filter(is_known).cloned().collect();
        self.board.note_accepted(name, &known);
    }

    async fn send(&self, due: &[Notification]) -> Result<(), String> {
        let Target { kind, actions, .. } = &self.target;
        match kind {
            ActionKind::Webhook => {
                for notification in due {
                    webhook::post(notification, actions, &self.options).await?;
                }
            }
            ActionKind::Mail => mail::send(due, &actions.mail, &self.options).await?,
            ActionKind::Run => return self.run(due).await,
        }
        failpoint!("alert-sent");
        self.ledger.note(&self.target, due, &self.board);
        Ok(())
    }

    /// A thread runs the program and notes its end, also if a change of the configuration ends this task meanwhile.
    async fn run(&self, due: &[Notification]) -> Result<(), String> {
        if !self.options.allow_run {
            return Err("a program is run only with allow_run = true in [alerts]".into());
        }
        let (done, ended) = tokio::sync::oneshot::channel();
        let (due, target, ledger, board) = (due.to_vec(), self.target.clone(), self.ledger.clone(), self.board.clone());
        let work = move || {
            let ran = due.iter().try_for_each(|notification| program::run(notification, &target.actions.run));
            failpoint!("alert-sent");
            if ran.is_ok() {
                ledger.note(&target, &due, &board);
            }
            // The task may have ended.
            let _ = done.send(ran);
        };
        let spawned = std::thread::Builder::new().name("alert-run".into()).spawn(work);
        spawned.map_err(|error| format!("no thread for the program: {error}"))?;
        ended.await.map_err(|_| "the program's thread has ended".to_owned())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::WebhookAddress;
    use daytable_model::time::Ticks;

    fn alert(rule: &str) -> Alert {
        Alert {
            rule: rule.into(),
            labels: BTreeMap::from([("alertname".into(), rule.into())]),
            annotations: BTreeMap::new(),
            query: "error".into(),
            value: 1.0,
            records: "error".into(),
            from: Ticks::UNIX_EPOCH,
            starts_at: Ticks::UNIX_EPOCH,
            ends_at: None,
        }
    }

    fn target(rule: &str) -> Target {
        let address = WebhookAddress::parse("http://127.0.0.1:1/").expect("an address");
        let actions = ActionOptions { webhook: Some(Webhook::Address(address)), ..ActionOptions::default() };
        Target::all_of(rule, &actions).remove(0)
    }

    fn firing(alert: &Alert) -> Notification {
        Notification { alert: alert.clone(), status: Status::Firing, url: None }
    }

    /// An action that is slow notes its message after another action sent a newer alert.
    #[test]
    fn a_slow_action_does_not_forget_what_another_was_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let (ledger, board) = (DeliveryLedger::open(folder.path()), AlertBoard::default());
        let (old, new) = (alert("Old"), alert("New"));
        board.publish(vec![old.clone()], Vec::new(), Vec::new(), Ticks::UNIX_EPOCH);
        let slow = firing(&old);
        board.publish(vec![old.clone(), new.clone()], Vec::new(), Vec::new(), Ticks::UNIX_EPOCH);
        ledger.note(&target("New"), &[firing(&new)], &board);
        ledger.note(&target("Old"), std::slice::from_ref(&slow), &board);
        assert!(ledger.has(&target("New"), &firing(&new)) && ledger.has(&target("Old"), &slow));
        // The file has the same, until the alert is over for everybody.
        let again = DeliveryLedger::open(folder.path());
        assert!(again.has(&target("New"), &firing(&new)) && again.has(&target("Old"), &slow));
        board.publish(vec![new.clone()], Vec::new(), Vec::new(), Ticks::UNIX_EPOCH);
        again.note(&target("New"), &[firing(&new)], &board);
        assert!(again.has(&target("New"), &firing(&new)) && !again.has(&target("Old"), &slow));
    }

    /// A full disk, or here a folder in the place of the file, does not make a program run again and again.
    #[test]
    fn what_cannot_be_noted_is_not_told_again() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("alert-deliveries.json/x")).expect("a folder");
        let (ledger, board, lasting) = (DeliveryLedger::open(folder.path()), AlertBoard::default(), alert("A"));
        board.publish(vec![lasting.clone()], Vec::new(), Vec::new(), Ticks::UNIX_EPOCH);
        ledger.note(&target("A"), &[firing(&lasting)], &board);
        assert!(ledger.has(&target("A"), &firing(&lasting)));
        assert!(folder.path().join("alert-deliveries.json").is_dir());
    }
}
