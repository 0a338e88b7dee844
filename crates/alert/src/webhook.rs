//! A POST about an alert to any address.

use crate::action::{ActionOptions, Webhook, WebhookAddress};
use crate::notification::{Notification, is_json};
use crate::options::{DeliveryOptions, check_answer, read_file};
use crate::template::fill;
use daytable_model::path_text::PathText;
use daytable_platform::error_text::with_causes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};

/// The header with the key of a message, which a repeat has as well: the name that the draft of the IETF gives it
/// (draft-ietf-httpapi-idempotency-key-header).
const KEY: &str = "Idempotency-Key";

/// Sends a message.
///
/// # Errors
///
/// Why the address does not have it. The address is not part of the text.
pub(crate) async fn post(
    notification: &Notification,
    actions: &ActionOptions,
    delivery: &DeliveryOptions,
) -> Result<(), String> {
    let address = match &actions.webhook {
        Some(Webhook::Address(address)) => address.clone(),
        Some(Webhook::File(file)) => WebhookAddress::parse(&read_file(file)?)
            .map_err(|error| format!("the address in {} {error}", file.escaped()))?,
        None => return Ok(()),
    };
    let body = body(notification, actions.webhook_body.as_deref());
    let is_json = actions.webhook_body.as_deref().is_none_or(is_json);
    let kind = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
    let key = HeaderValue::from_str(&notification.key()).map_err(|_| "the key is not text")?;
    let mut request = delivery.client(false)?.post(address.secret()).header(CONTENT_TYPE, kind).header(KEY, key);
    if let Some(file) = &actions.webhook_token_file {
        if !delivery.may_send_secret_to(address.secret()) {
            return Err("a token is not sent without TLS: use https, or allow_http = true in [alerts]".into());
        }
        let value = HeaderValue::from_str(&format!("Bearer {}", read_file(file)?.trim()));
        let mut value = value.map_err(|_| "the file of the token has no usable text")?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    // The path of the address may be a secret, so an error does not name it.
    let sent = request.body(body).send().await.map_err(|error| with_causes(&error.without_url()))?;
    check_answer(sent, "").await
}

/// The body of a message.
fn body(notification: &Notification, template: Option<&str>) -> String {
    let Some(template) = template else { return notification.document().to_string() };
    let is_json = is_json(template);
    fill(template, |name| {
        let value = notification.place(name)?;
        if !is_json {
            return Some(value);
        }
        let quoted = serde_json::Value::from(value).to_string();
        Some(quoted[1..quoted.len() - 1].to_owned().into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Alert;
    use crate::notification::Status;
    use daytable_model::time::Ticks;
    use std::collections::BTreeMap;

    #[test]
    fn values_are_escaped_where_the_body_is_json() {
        let labels =
            BTreeMap::from([("alertname".into(), "Errors".into()), ("path".into(), "a\"b\\c\nd {value}".into())]);
        let alert = Alert {
            rule: "Errors".into(),
            labels,
            annotations: BTreeMap::new(),
            query: "error".into(),
            value: 7.5,
            records: "error".into(),
            from: Ticks::UNIX_EPOCH,
            starts_at: Ticks::UNIX_EPOCH,
            ends_at: None,
        };
        let notification = Notification { alert, status: Status::Firing, url: None };
        let made = body(&notification, Some(r#"{"text": "{path}: {value}{until}", "a": {"b": 1}}"#));
        let parsed: serde_json::Value = serde_json::from_str(&made).expect("JSON");
        assert_eq!(parsed["text"], "a\"b\\c\nd {value}: 7.5");
        assert_eq!(body(&notification, Some("{path}!")), "a\"b\\c\nd {value}!");
        let whole: serde_json::Value = serde_json::from_str(&body(&notification, None)).expect("JSON");
        assert_eq!(whole["labels"]["path"], "a\"b\\c\nd {value}");
        assert_eq!((whole["id"].as_str().map(str::len), &whole["endsAt"]), (Some(32), &serde_json::Value::Null));
    }
}
