//! The checks of a rule's actions.

use crate::action::ActionOptions;
use crate::notification::is_json;
use crate::rule::{AlertRule, RuleError, label_name};
use crate::template::{fill, placeholders};
use daytable_logsql::FieldName;

/// Bytes of the template of a webhook's body.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Addresses of one rule's mail, and arguments of its program.
const LIST_MAX: usize = 20;
/// Places that a template may have beside labels and annotations.
const PLACES: [&str; 8] = ["id", "status", "alert", "value", "since", "until", "query", "url"];

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
            format!("{{{name}}} is not a label, nor an annotation of the rule, nor one of {}", PLACES.join(", ")),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Webhook, WebhookAddress};
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
            ("webhook_body", "{instanc} is not a label", body(r#"{"text":"{instanc}"}"#)),
            ("webhook_body", "not JSON once it is filled", body(r#"{"text":"{instance}}"#)),
            ("webhook_body", "needs `webhook`", ActionOptions { webhook: None, ..body("x") }),
            ("run", "absolute path", run(&["echo"])),
            ("run", "{x} is not a label", run(&["/bin/echo", "{x}"])),
            ("mail", "more than 20", ActionOptions { mail: vec![String::new(); 21], ..ActionOptions::default() }),
        ] {
            let error = rule(wrong).check().expect_err(says);
            assert_eq!(error.key, key);
            assert!(error.message.contains(says), "{error}");
        }
    }
}
