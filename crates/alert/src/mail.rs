//! Mail about alerts, to a relay. One mail has all messages of a rule that wait.

use crate::board::show_labels;
use crate::notification::{Notification, Status};
use crate::options::{DeliveryOptions, read_file};
use crate::relay::MailRelay;
use crate::rule::show;
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use std::fmt::{Display, Write};
use std::time::Duration;

/// Time limit of one mail.
const MAIL_MAX: Duration = Duration::from_secs(30);
/// Messages of one mail.
pub(crate) const MESSAGES_MAX: usize = 100;
/// Characters of a subject.
const SUBJECT_MAX: usize = 200;

/// Sends one mail with these messages of one rule.
///
/// # Errors
///
/// Why the relay does not have it.
pub(crate) async fn send(
    notifications: &[Notification],
    to: &[String],
    options: &DeliveryOptions,
) -> Result<(), String> {
    let (Some(relay), Some(from)) = (&options.mail_relay, &options.mail_from) else {
        return Err("`mail` needs mail_relay and mail_from in [alerts]".into());
    };
    let Some(first) = notifications.first() else { return Ok(()) };
    let mut message = Message::builder()
        .from(from.parse().map_err(plain)?)
        .subject(subject(notifications))
        // A repeat has the same identifier, so that a mailbox can drop it.
        .message_id(Some(format!("<{}@{}>", first.key(), relay_name(from))))
        .header(ContentType::TEXT_PLAIN);
    for address in to {
        message = message.to(address.parse().map_err(plain)?);
    }
    let message = message.body(text(notifications)).map_err(plain)?;
    transport(relay, options)?.send(message).await.map(drop).map_err(refusal)
}

fn transport(relay: &MailRelay, options: &DeliveryOptions) -> Result<AsyncSmtpTransport<Tokio1Executor>, String> {
    let mut tls = TlsParameters::builder(relay.host.clone());
    if let Some(file) = &options.ca_file {
        tls = tls.add_root_certificate(Certificate::from_pem(read_file(file)?.as_bytes()).map_err(refusal)?);
    }
    let tls = tls.build().map_err(refusal)?;
    let has_secret = options.mail_password_file.is_some();
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&relay.host)
        .port(relay.port)
        .timeout(Some(MAIL_MAX))
        .tls(match relay.is_wrapped {
            true => Tls::Wrapper(tls),
            // A relay on this host has no certificate as a rule, and nobody listens in between.
            false if relay.is_loopback() => Tls::None,
            false if has_secret && !options.allow_http => Tls::Required(tls),
            false => Tls::Opportunistic(tls),
        });
    if let (Some(user), Some(file)) = (&options.mail_user, &options.mail_password_file) {
        builder = builder.credentials(Credentials::new(user.clone(), read_file(file)?.trim().to_owned()));
    }
    Ok(builder.build())
}

/// The part of the sender's address behind its `@`.
fn relay_name(from: &str) -> String {
    from.parse::<Mailbox>().map_or_else(|_| "daytable".into(), |mailbox| mailbox.email.domain().to_owned())
}

fn plain(error: impl Display) -> String {
    error.to_string()
}

fn refusal(error: lettre::transport::smtp::Error) -> String {
    one_line(&daytable_platform::error_text::with_causes(&error))
}

/// One line without control characters: content of logs does not become a header.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn subject(notifications: &[Notification]) -> String {
    let Some(Notification { alert, status, .. }) = notifications.first() else { return String::new() };
    let word = |status: Status| if status == Status::Firing { "ALERT" } else { "over" };
    let more = match notifications.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let labels = show_labels(&alert.labels);
    let subject = one_line(&format!("[daytable] {} {}{labels}", word(*status), alert.rule));
    let cut: String = subject.chars().take(SUBJECT_MAX).collect();
    cut + &more
}

fn text(notifications: &[Notification]) -> String {
    let mut text = String::new();
    for notification in notifications {
        let Notification { alert, status, url } = notification;
        let _ = writeln!(text, "{} {}{}", status.label(), alert.rule, one_line(&show_labels(&alert.labels)));
        for (name, value) in &alert.annotations {
            let _ = writeln!(text, "  {name}: {}", one_line(value));
        }
        let _ = writeln!(text, "  value: {}", show(alert.value));
        let _ = writeln!(text, "  since: {}", alert.starts_at);
        if let Some(end) = alert.ends_at.filter(|_| *status == Status::Resolved) {
            let _ = writeln!(text, "  until: {end}");
        }
        let _ = writeln!(text, "  query: {}", one_line(&alert.query));
        if let Some(url) = url {
            let _ = writeln!(text, "  {url}");
        }
        let _ = writeln!(text, "  id: {}\n", alert.id());
    }
    text
}
