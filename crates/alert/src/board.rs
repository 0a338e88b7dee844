//! The current alerts, for all who show or send them.

use daytable_model::time::Ticks;
use daytable_platform::lock;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// An alert: one group of one rule, from its beginning to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// The name of the rule.
    pub rule: String,
    /// The labels, by which a receiver knows the alert.
    pub labels: BTreeMap<String, String>,
    /// Texts for people.
    pub annotations: BTreeMap<String, String>,
    /// The query of the rule.
    pub query: String,
    /// The query of the records that the value is of: those of the group.
    pub records: String,
    /// The begin of the first window beyond the limit.
    #[serde(with = "ticks")]
    pub from: Ticks,
    /// The value of the last window beyond the limit.
    pub value: f64,
    /// The end of the first window beyond the limit.
    #[serde(with = "ticks")]
    pub starts_at: Ticks,
    /// The time at which no window was beyond the limit any more; `None` while the alert lasts.
    #[serde(with = "optional_ticks")]
    pub ends_at: Option<Ticks>,
}

/// The state of a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleStatus {
    /// The name of the rule.
    pub name: String,
    /// Alerts that last.
    pub firing: usize,
    /// Windows that wait to be evaluated.
    pub pending: usize,
    /// Groups that had no room since the start.
    pub groups_left_out: u64,
    /// Evaluations that failed since the start.
    pub failures: u64,
    /// Why the last evaluation failed, if it did.
    pub error: Option<String>,
}

/// The state of a receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStatus {
    /// Messages that the receiver accepted.
    pub sent: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Why the last attempt failed, if it did.
    pub error: Option<String>,
}

/// All alerts, and the state of rules and receivers.
#[derive(Clone, Debug, Default)]
pub struct BoardContent {
    /// Alerts that last.
    pub firing: Vec<Alert>,
    /// Alerts that ended, and whose end some receiver does not know.
    pub ended: Vec<Alert>,
    /// The rules, in the order of the configuration.
    pub rules: Vec<RuleStatus>,
    /// The receivers by their addresses.
    pub receivers: BTreeMap<String, ReceiverStatus>,
    /// The ends that each receiver knows.
    accepted: BTreeMap<String, BTreeSet<String>>,
    /// The rule of each receiver that is the action of a rule.
    rules_of: BTreeMap<String, String>,
    /// The last evaluation of all rules.
    pub evaluated_at: Option<Ticks>,
    /// Rises with each change of the alerts.
    pub version: u64,
}

/// Who hears of alerts: a receiver, or the action of a rule.
pub(crate) struct Recipient {
    /// The address of a receiver, or the name of an action.
    pub(crate) name: String,
    /// The rule of an action.
    pub(crate) rule: Option<String>,
}

/// The current alerts. Cheap to clone; all clones show the same.
#[derive(Clone, Default)]
pub struct AlertBoard(Arc<(Mutex<BoardContent>, Notify)>);

impl AlertBoard {
    /// The content now.
    pub fn read(&self) -> BoardContent {
        lock(&self.0.0).clone()
    }

    /// Waits until the alerts have another version.
    pub async fn changed(&self, version: u64) {
        loop {
            let notified = self.0.1.notified();
            if lock(&self.0.0).version != version {
                return;
            }
            notified.await;
        }
    }

    /// Replaces alerts and rules.
    pub(crate) fn publish(&self, firing: Vec<Alert>, ended: Vec<Alert>, rules: Vec<RuleStatus>, now: Ticks) {
        let mut content = lock(&self.0.0);
        let is_same = content.firing == firing && content.ended == ended;
        (content.firing, content.ended, content.rules) = (firing, ended, rules);
        content.evaluated_at = Some(now);
        if !is_same {
            content.version += 1;
            drop(content);
            self.0.1.notify_waiters();
        }
    }

    /// The receivers and the actions are these from now on.
    pub(crate) fn set_recipients(&self, recipients: Vec<Recipient>) {
        let mut content = lock(&self.0.0);
        let is_known = |name: &String| recipients.iter().any(|recipient| recipient.name == *name);
        content.receivers.retain(|name, _| is_known(name));
        content.accepted.retain(|name, _| is_known(name));
        content.rules_of.clear();
        for Recipient { name, rule } in recipients {
            content.receivers.entry(name.clone()).or_default();
            content.rules_of.extend(rule.map(|rule| (name, rule)));
        }
    }

    /// A receiver accepted these alerts, or did not, with the reason.
    pub(crate) fn note_delivery(&self, address: &str, ended: &[Alert], result: Result<(), String>) {
        self.note_accepted(address, if result.is_ok() { ended } else { &[] });
        let mut content = lock(&self.0.0);
        let Some(receiver) = content.receivers.get_mut(address) else { return };
        match result {
            Ok(()) => (receiver.sent, receiver.error) = (receiver.sent + 1, None),
            Err(error) => (receiver.failures, receiver.error) = (receiver.failures + 1, Some(error)),
        }
    }

    /// A receiver knows the ends of these alerts.
    pub(crate) fn note_accepted(&self, address: &str, ended: &[Alert]) {
        let mut content = lock(&self.0.0);
        if content.receivers.contains_key(address) {
            content.accepted.entry(address.to_owned()).or_default().extend(ended.iter().map(Alert::identity));
        }
    }

    /// There is nothing to send to a receiver, so an earlier failure does not matter any more.
    pub(crate) fn note_idle(&self, address: &str) {
        if let Some(receiver) = lock(&self.0.0).receivers.get_mut(address) {
            receiver.error = None;
        }
    }

    /// Keeps of `ended` the alerts whose end a receiver, or an action of their rule, does not know yet. A receiver does not hear
    /// the end of an alert that `lasts` again.
    pub(crate) fn retain_unknown(&self, ended: &mut Vec<Alert>, lasts: impl Fn(&Alert) -> bool) {
        let mut content = lock(&self.0.0);
        let BoardContent { receivers, accepted, rules_of, .. } = &mut *content;
        ended.retain(|alert| {
            let (identity, lasts) = (alert.identity(), lasts(alert));
            let waits = |name: &String| match rules_of.get(name) {
                Some(rule) => *rule == alert.rule,
                None => !lasts,
            };
            let knows = |name: &String| accepted.get(name).is_some_and(|known| known.contains(&identity));
            receivers.keys().any(|name| waits(name) && !knows(name))
        });
        let waiting: BTreeSet<String> = ended.iter().map(Alert::identity).collect();
        accepted.values_mut().for_each(|known| known.retain(|identity| waiting.contains(identity)));
    }
}

/// Labels as a text that follows the name of their rule: ` instance=web-1`.
pub fn show_labels(labels: &BTreeMap<String, String>) -> String {
    let others = labels.iter().filter(|(name, _)| *name != "alertname");
    others.map(|(name, value)| format!(" {name}={value}")).collect()
}

impl Alert {
    /// An identifier of the rule, the labels and the start: 32 hexadecimal digits, the same in each message about this alert.
    pub fn id(&self) -> String {
        let Alert { rule, labels, starts_at, .. } = self;
        format!("{:032x}", xxhash_rust::xxh3::xxh3_128(format!("{rule:?} {labels:?} {}", starts_at.get()).as_bytes()))
    }

    /// The labels and the end: what a receiver has to know once.
    fn identity(&self) -> String {
        let labels = self.labels.iter().map(|(name, value)| format!("{name}={value:?},")).collect::<String>();
        format!("{labels}{}", self.ends_at.map_or(0, Ticks::get))
    }
}

mod ticks {
    use daytable_model::time::Ticks;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(time: &Ticks, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(time.get())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Ticks, D::Error> {
        Ticks::new(i64::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("no time"))
    }
}

mod optional_ticks {
    use daytable_model::time::Ticks;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Option<Ticks>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(Ticks::get).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Ticks>, D::Error> {
        Ok(Option::<i64>::deserialize(deserializer)?.and_then(Ticks::new))
    }
}
