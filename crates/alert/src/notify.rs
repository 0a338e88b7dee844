//! Tells each action of a rule about the beginning and the end of each alert.
//!
//! Each action has a task of its own, so that one that fails delays no other. What it was told is in
//! `alert-deliveries.json`, which is synced after each message: a kill in between repeats that message, with the same key, and
//! none is left out. An alert that began and ended while an action failed is told as both.
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
use std::collections::BTreeSet;
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

    /// Whether the end of an alert is told.
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

    /// The key of a message to this target: another address is another target, and hears of the alerts that last.
    fn key(&self, notification: &Notification) -> String {
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
        format!("{} {place:016x} {}", self.kind.label(), notification.key())
    }

    /// The messages that the target gets about an alert.
    fn notifications(&self, alert: &Alert, options: &DeliveryOptions) -> Vec<Notification> {
        let url = options.page_url.as_ref().map(|page| link(page, &alert.query));
        let is_end = alert.ends_at.is_some() && self.kind.hears_ends();
        let statuses = [Some(Status::Firing), is_end.then_some(Status::Resolved)];
        let notification = |status| Notification { alert: alert.clone(), status, url: url.clone() };
        statuses.into_iter().flatten().map(notification).collect()
    }
}

/// What was told to whom, in a file that is synced.
pub(crate) struct DeliveryLedger {
    data_dir: PathBuf,
    saved: Mutex<SavedDeliveries>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct SavedDeliveries {
    format: u32,
    told: BTreeSet<String>,
}

impl DeliveryLedger {
    /// The ledger of a data folder. One that cannot be read is begun anew: alerts that last are told once more.
    pub(crate) fn open(data_dir: &Path) -> DeliveryLedger {
        let read = StateFile::AlertDeliveries.read(data_dir).map_err(|error| error.to_string());
        let parsed = read.and_then(|bytes| match bytes {
            None => Ok(SavedDeliveries::default()),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| error.to_string()),
        });
        let mut saved = parsed.unwrap_or_else(|error| {
            tracing::warn!(error, "alert-deliveries.json cannot be read: alerts that last are told once more");
            SavedDeliveries::default()
        });
        saved.format = FORMAT;
        DeliveryLedger { data_dir: data_dir.into(), saved: Mutex::new(saved) }
    }

    fn has(&self, key: &str) -> bool {
        lock(&self.saved).told.contains(key)
    }

    /// Adds messages, and forgets those about alerts that are over for everybody.
    fn note(&self, keys: &[String], content: &BoardContent) -> Result<(), String> {
        let alerts = || content.firing.iter().chain(&content.ended);
        let known: BTreeSet<String> = alerts().map(Alert::id).collect();
        let mut saved = lock(&self.saved);
        let mut next = saved.clone();
        // The word before the status is the identifier of the alert.
        next.told.retain(|key| {
            let id = key.rsplit(' ').next().and_then(|message| message.split('-').next());
            id.is_some_and(|id| known.contains(id))
        });
        next.told.extend(keys.iter().cloned());
        let bytes = serde_json::to_vec(&next).map_err(|error| error.to_string())?;
        StateFile::AlertDeliveries.write(&self.data_dir, &bytes).map_err(|error| error.to_string())?;
        *saved = next;
        Ok(())
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
            match self.tell(&due, &content).await {
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
                        tracing::warn!(receiver = name, error, "failed to send alerts, which is tried again");
                    }
                    self.board.note_delivery(&name, &[], Err(error));
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// The next messages that are told together: as many as a mail has, or else one.
    fn due(&self, content: &BoardContent) -> Vec<Notification> {
        let alerts = content.ended.iter().chain(&content.firing).filter(|alert| alert.rule == self.target.rule);
        let notifications = alerts.flat_map(|alert| self.target.notifications(alert, &self.options));
        let untold = notifications.filter(|notification| !self.ledger.has(&self.target.key(notification)));
        untold.take(if self.target.kind == ActionKind::Mail { mail::MESSAGES_MAX } else { 1 }).collect()
    }

    /// The ends that the target knows, also from before a restart, need not be kept for it.
    fn note_known_ends(&self, name: &str, content: &BoardContent) {
        let is_known = |alert: &&Alert| {
            let mut notifications = self.target.notifications(alert, &self.options).into_iter();
            alert.rule == self.target.rule && notifications.all(|told| self.ledger.has(&self.target.key(&told)))
        };
        let known: Vec<Alert> = content.ended.iter().filter(is_known).cloned().collect();
        self.board.note_accepted(name, &known);
    }

    async fn tell(&self, due: &[Notification], content: &BoardContent) -> Result<(), String> {
        let Target { kind, actions, .. } = &self.target;
        let keys: Vec<String> = due.iter().map(|notification| self.target.key(notification)).collect();
        match kind {
            ActionKind::Webhook => {
                for notification in due {
                    webhook::post(notification, actions, &self.options).await?;
                }
            }
            ActionKind::Mail => mail::send(due, &actions.mail, &self.options).await?,
            ActionKind::Run => return self.run(due, keys, content).await,
        }
        failpoint!("alert-told");
        self.ledger.note(&keys, content)
    }

    /// A thread runs the program and notes its end, also if a change of the configuration ends this task meanwhile.
    async fn run(&self, due: &[Notification], keys: Vec<String>, content: &BoardContent) -> Result<(), String> {
        if !self.options.allow_run {
            return Err("a program is run only with allow_run = true in [alerts]".into());
        }
        let (done, ended) = tokio::sync::oneshot::channel();
        let (due, run) = (due.to_vec(), self.target.actions.run.clone());
        let (ledger, content) = (self.ledger.clone(), content.clone());
        let work = move || {
            let ran = due.iter().try_for_each(|notification| program::run(notification, &run));
            failpoint!("alert-told");
            let _ = done.send(ran.and_then(|()| ledger.note(&keys, &content)));
        };
        let spawned = std::thread::Builder::new().name("alert-run".into()).spawn(work);
        spawned.map_err(|error| format!("no thread for the program: {error}"))?;
        ended.await.map_err(|_| "the program's thread has ended".to_owned())?
    }
}
