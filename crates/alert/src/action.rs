//! The actions of a rule, beside the messages to Alertmanagers: a webhook, mail, and a program.
//!
//! Each is checked with its rule, so that a mistake is found when the configuration is read and not at night.

use crate::board::Alert;
use crate::rule::{AlertRule, RuleError, label_name, show};
use crate::template::{fill, placeholders};
use daytable_logsql::FieldName;
use daytable_model::time::Ticks;
use reqwest::Url;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

/// Bytes of the template of a webhook's body.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Addresses of one rule's mail, and arguments of its program.
const LIST_MAX: usize = 20;
/// Places that a template may have beside labels and annotations.
const PLACES: [&str; 8] = ["id", "status", "alert", "value", "since", "until", "query", "url"];

/// What happens when an alert of a rule begins and ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionOptions {
    /// The address that gets a POST.
    pub webhook: Option<Webhook>,
    /// A file with a bearer token for the address.
    pub webhook_token_file: Option<PathBuf>,
    /// The body, with places in braces; `None` is a JSON document of everything.
    pub webhook_body: Option<String>,
    /// Addresses of people.
    pub mail: Vec<String>,
    /// The absolute path of a program and its arguments, with places in braces.
    pub run: Vec<String>,
}

/// Where the address of a webhook is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Webhook {
    /// In the configuration.
    Address(WebhookAddress),
    /// In a file, because the address is a secret.
    File(PathBuf),
}

/// An `http://` or `https://` address. Its path may be a secret, so `Debug` and messages show the host only.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookAddress(String);

impl WebhookAddress {
    /// Reads an address.
    ///
    /// # Errors
    ///
    /// The reason, without the address.
    pub fn parse(text: &str) -> Result<WebhookAddress, &'static str> {
        let text = text.trim();
        let url = Url::parse(text).map_err(|_| "must be an address like \"https://hooks.example.org/alerts\"")?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
            return Err("must begin with http:// or https:// and name a host");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must have no user and no password: `webhook_token_file` names a file with a token");
        }
        Ok(WebhookAddress(text.to_owned()))
    }

    /// The whole address, for a request.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }

    /// Scheme, host and port.
    pub(crate) fn origin(&self) -> String {
        Url::parse(&self.0).map_or_else(|_| String::new(), |url| url.origin().ascii_serialization())
    }
}

impl fmt::Debug for WebhookAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/…", self.origin())
    }
}

impl ActionOptions {
    /// Checks the actions of a rule whose alerts have the labels of `by`.
    pub(crate) fn check(&self, rule: &AlertRule, by: &[FieldName]) -> Result<(), RuleError> {
        if self.webhook.is_none() && (self.webhook_body.is_some() || self.webhook_token_file.is_some()) {
            let key = if self.webhook_body.is_some() { "webhook_body" } else { "webhook_token_file" };
            return Err(RuleError::new(key, "needs `webhook`, the address that it is sent to"));
        }
        if let Some(body) = &self.webhook_body {
            if body.len() > BODY_BYTES_MAX {
                return Err(RuleError::new("webhook_body", format!("is longer than {BODY_BYTES_MAX} bytes")));
            }
            check_places("webhook_body", body, rule, by)?;
            let sample = fill(body, |_| Some("1".into()));
            if is_json(body)
                && let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&sample)
            {
                return Err(RuleError::new(
                    "webhook_body",
                    format!(
                        "begins as JSON and is not JSON once it is filled: {error}. A place stands within quotes: \"{{value}}\""
                    ),
                ));
            }
        }
        if self.mail.len() > LIST_MAX || self.run.len() > LIST_MAX {
            let key = if self.mail.len() > LIST_MAX { "mail" } else { "run" };
            return Err(RuleError::new(key, format!("has more than {LIST_MAX} entries")));
        }
        if self.run.first().is_some_and(|program| !program.starts_with('/')) {
            return Err(RuleError::new("run", "begins with the absolute path of a program: no shell looks for it"));
        }
        self.run.iter().skip(1).try_for_each(|argument| check_places("run", argument, rule, by))
    }
}

fn check_places(key: &'static str, text: &str, rule: &AlertRule, by: &[FieldName]) -> Result<(), RuleError> {
    let is_known = |name: &str| {
        PLACES.contains(&name)
            || rule.labels.contains_key(name)
            || rule.annotations.contains_key(name)
            || by.iter().any(|field| field.written() == name || label_name(field) == name)
    };
    match placeholders(text).find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => Err(RuleError::new(
            key,
            format!("{{{name}}} is no label and no annotation of the rule, and none of {}", PLACES.join(", ")),
        )),
    }
}

/// Whether a body is JSON: values are escaped for it then.
pub(crate) fn is_json(body: &str) -> bool {
    body.trim_start().starts_with(['{', '['])
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Threshold;
    use std::collections::BTreeMap;

    fn rule(actions: ActionOptions) -> AlertRule {
        let annotations = BTreeMap::from([("summary".to_owned(), "{value} errors".to_owned())]);
        let by = vec!["instance".into()];
        AlertRule { by, annotations, actions, above: Threshold::new(0.0), ..AlertRule::new("Errors", "error") }
    }

    #[test]
    fn an_action_is_checked_with_its_rule() {
        let address = WebhookAddress::parse("https://hooks.example.org/T0/secret").expect("an address");
        let webhook = || Some(Webhook::Address(address.clone()));
        let body = |body: &str| ActionOptions {
            webhook: webhook(),
            webhook_body: Some(body.into()),
            ..ActionOptions::default()
        };
        let run = |run: &[&str]| ActionOptions {
            run: run.iter().map(|&text| text.into()).collect(),
            ..ActionOptions::default()
        };
        for right in [
            body(r#"{"text":"{alert} {status}: {summary}, {instance} {id} {value} {since} {until} {query} {url}"}"#),
            body("{alert} is said in plain words"),
            run(&["/bin/echo", "{instance}", "{summary}"]),
        ] {
            assert_eq!(rule(right.clone()).check(), Ok(()), "{right:?}");
        }
        for (key, says, wrong) in [
            ("webhook_body", "{instanc} is no label", body(r#"{"text":"{instanc}"}"#)),
            ("webhook_body", "not JSON once it is filled", body(r#"{"text":"{instance}}"#)),
            ("webhook_body", "needs `webhook`", ActionOptions { webhook: None, ..body("x") }),
            ("run", "absolute path", run(&["echo"])),
            ("run", "{x} is no label", run(&["/bin/echo", "{x}"])),
            ("mail", "more than 20", ActionOptions { mail: vec![String::new(); 21], ..ActionOptions::default() }),
        ] {
            let error = rule(wrong).check().expect_err(says);
            assert_eq!(error.key, key);
            assert!(error.message.contains(says), "{error}");
        }
    }

    #[test]
    fn an_address_is_not_shown() {
        let address = WebhookAddress::parse("https://hooks.example.org:8443/T0/secret?token=1").expect("an address");
        assert_eq!(format!("{address:?}"), "https://hooks.example.org:8443/…");
        for wrong in ["hooks.example.org", "ftp://a/", "https://u:p@a/", "http://", ""] {
            assert!(WebhookAddress::parse(wrong).is_err(), "{wrong}");
        }
    }
}
