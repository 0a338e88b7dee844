//! A message about the beginning or the end of an alert: its key, its document, and the values of its places.

use crate::board::Alert;
use crate::rule::{label_name, show};
use crate::template::begins_with_place;
use daytable_logsql::FieldName;
use daytable_model::time::Ticks;
use serde_json::{Value, json};
use std::borrow::Cow;

/// Whether a body is JSON: values are escaped for it then. A body that begins with a place is a text.
pub(crate) fn is_json(body: &str) -> bool {
    let body = body.trim_start();
    body.starts_with(['{', '[']) && !begins_with_place(body)
}

/// The beginning or the end of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Firing,
    Resolved,
}

impl Status {
    /// The word, as Alertmanager's webhooks have it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Status::Firing => "firing",
            Status::Resolved => "resolved",
        }
    }
}

/// A message about the beginning or the end of an alert.
#[derive(Clone, Debug)]
pub(crate) struct Notification {
    pub(crate) alert: Alert,
    pub(crate) status: Status,
    /// The page with the records, if its address is known.
    pub(crate) url: Option<String>,
}

impl Notification {
    /// The same for each repeat of this message, and for no other message.
    pub(crate) fn key(&self) -> String {
        format!("{}-{}", self.alert.id(), self.status.label())
    }

    /// The end, in the message about it.
    fn until(&self) -> Option<Ticks> {
        self.alert.ends_at.filter(|_| self.status == Status::Resolved)
    }

    /// The document that a webhook and a program get.
    pub(crate) fn document(&self) -> Value {
        let Alert { rule, labels, annotations, query, value, starts_at, .. } = &self.alert;
        json!({
            "id": self.alert.id(),
            "status": self.status.label(),
            "alert": rule,
            "labels": labels,
            "annotations": annotations,
            "value": value,
            "startsAt": starts_at.to_string(),
            "endsAt": self.until().map(|end| end.to_string()),
            "query": query,
            "url": self.url,
        })
    }

    /// The value of a place in a template.
    pub(crate) fn place(&self, name: &str) -> Option<Cow<'_, str>> {
        let Alert { rule, labels, annotations, query, value, starts_at, .. } = &self.alert;
        Some(match name {
            "id" => self.alert.id().into(),
            "status" => self.status.label().into(),
            "alert" => rule.into(),
            "value" => show(*value),
            "since" => starts_at.to_string().into(),
            "until" => self.until()?.to_string().into(),
            "query" => query.into(),
            "url" => self.url.as_deref()?.into(),
            name => {
                let label = labels.get(name).or_else(|| labels.get(&label_name(&FieldName::new(name))));
                label.or_else(|| annotations.get(name))?.into()
            }
        })
    }
}
