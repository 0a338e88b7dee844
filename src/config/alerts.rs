//! `[alerts]`: where alerts are sent; `[[alert]]`: the rules.

use super::changes::Changes;
use super::key::{self, ConfigKey, KeyDraft, SectionDoc, SectionPlace, duration, optional_text, texts, truth};
use super::options::SectionOptions;
use super::section::Section;
use super::table::TableConfig;
use super::values::{name, secret_file};
use daytable_alert::action::{Webhook, WebhookAddress};
use daytable_alert::options::receiver_address;
use daytable_alert::relay::{MailRelay, mail_address};
use daytable_alert::{AlertRule, DeliveryOptions, RULES_MAX, Threshold};
use daytable_logsql::number::Number;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);
const PERIOD: RangeInclusive<Duration> = Duration::from_secs(1)..=DAY;
const EVERY: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
const FORGET: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(31 * 86_400);
const RESEND: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

impl SectionOptions for DeliveryOptions {
    const HEADER: &'static str = "[alerts]";
    const ABOUT: &'static str = "Where the alerts of [[alert]] are sent. Without `send_to`, `daytable status`, the page and the metrics still show them.";

    fn keys() -> Vec<ConfigKey<DeliveryOptions>> {
        let file = "an absolute path, or \"%d/NAME\"";
        vec![
            texts("send_to", "a list of addresses", 0, |alerts: &mut DeliveryOptions| &mut alerts.receivers, receiver_address)
                .live(
                    "The addresses of Alertmanagers, or of programs with the same interface: daytable adds /api/v2/alerts. Every address gets every alert, \
                     so name each member of a cluster. An address that does not answer is tried again.",
                ),
            optional_text("token_file", file, |alerts: &mut DeliveryOptions| &mut alerts.token_file, secret_file)
                .example("\"/run/credentials/daytable.service/alerts\"")
                .live("A file with a bearer token. daytable reads a changed file again."),
            optional_text("user", "a name", |alerts: &mut DeliveryOptions| &mut alerts.user, user)
                .example("\"daytable\"")
                .live("The user of basic authentication. `token_file` then has the password."),
            optional_text("ca_file", file, |alerts: &mut DeliveryOptions| &mut alerts.ca_file, secret_file)
                .example("\"/etc/daytable/alertmanager-ca.pem\"")
                .live("Authorities of the addresses' certificates in PEM, beside those of the system."),
            optional_text("cert_file", file, |alerts: &mut DeliveryOptions| &mut alerts.cert_file, secret_file)
                .example("\"/etc/daytable/alerts.pem\"")
                .live("The certificate that daytable shows to a receiver that asks for one, with its chain, in PEM. daytable reads a changed file again."),
            optional_text("key_file", file, |alerts: &mut DeliveryOptions| &mut alerts.key_file, secret_file)
                .example("\"/etc/daytable/alerts.key\"")
                .live("The key of `cert_file` in PEM."),
            truth("allow_http", |alerts: &mut DeliveryOptions| &mut alerts.allow_http)
                .live("Whether the secret may be sent to an address that begins with `http://`."),
            duration("resend", |alerts: &mut DeliveryOptions| &mut alerts.resend, RESEND)
                .live("How often an alert is sent while it lasts. A receiver takes an alert for ended that was not sent for four times as long."),
            optional_text("page_url", "an http:// or https:// address", |alerts: &mut DeliveryOptions| &mut alerts.page_url, receiver_address)
                .example("\"https://logs.example.org\"")
                .live("The address of daytable's page for people. Alerts then have a link to their records."),
            optional_text("mail_relay", "an smtp:// or smtps:// address", |alerts: &mut DeliveryOptions| &mut alerts.mail_relay, MailRelay::parse)
                .example("\"smtp://127.0.0.1:25\"")
                .live(
                    "The relay that takes the mail of rules. `smtp://` uses STARTTLS where the relay offers it and is another host; `smtps://` has TLS from the \
                     first byte.",
                ),
            optional_text("mail_from", "an address", |alerts: &mut DeliveryOptions| &mut alerts.mail_from, mail_address)
                .example("\"daytable <daytable@example.org>\"")
                .live("The sender of the mail."),
            optional_text("mail_user", "a name", |alerts: &mut DeliveryOptions| &mut alerts.mail_user, user)
                .example("\"daytable\"")
                .live("The user at the relay, whose password `mail_password_file` has."),
            optional_text("mail_password_file", file, |alerts: &mut DeliveryOptions| &mut alerts.mail_password_file, secret_file)
                .example("\"/run/credentials/daytable.service/mail\"")
                .live("A file with the password of `mail_user`. It is sent by TLS, or to a relay on this host."),
            truth("allow_run", |alerts: &mut DeliveryOptions| &mut alerts.allow_run)
                .live("Whether rules may run programs (`run`), as the user of the daemon."),
        ]
    }

    fn complete(&mut self, section: &Section<'_>, _: &[TableConfig]) {
        if self.user.is_some() && self.token_file.is_none() {
            section.problem("has a `user`, whose password `token_file` names");
        }
        if self.mail_user.is_some() != self.mail_password_file.is_some() {
            section.problem("needs `mail_user` and `mail_password_file` together");
        }
        if self.mail_relay.is_some() != self.mail_from.is_some() {
            section.problem("needs `mail_relay` and `mail_from` together");
        }
        if self.cert_file.is_some() != self.key_file.is_some() {
            section.problem("needs `cert_file` and `key_file` together");
        }
        let is_plain = self.receivers.iter().any(|address| address.starts_with("http://"));
        if self.token_file.is_some() && is_plain && !self.allow_http {
            section.problem("`send_to` would get a secret without TLS, which only `allow_http = true` allows");
        }
    }
}

/// An address, or a file that has it.
fn webhook(text: &str) -> Result<Webhook, &'static str> {
    if text.starts_with('/') || text.starts_with("%d/") {
        secret_file(text).map(Webhook::File)
    } else {
        WebhookAddress::parse(text).map(Webhook::Address)
    }
}

fn user(text: &str) -> Result<String, &'static str> {
    let is_name = !text.is_empty() && !text.contains(':') && !text.chars().any(char::is_control);
    if is_name { Ok(text.into()) } else { Err("must be a name without \":\"") }
}

/// What the documents say about `[[alert]]`.
pub(super) fn doc() -> SectionDoc {
    SectionDoc {
        about: "Rules: a query that is asked again and again, and the value that is a reason to alert. `daytable check --alerts` evaluates each rule once. \
                docs/guide/alerts.md has examples.",
        before: "#[[alert]]\n#name = \"Errors\"\n#query = \"level:>=error\"\n#by = [\"instance\"]\n#above = 5\n\n\
                 #[[alert]]\n#name = \"Silent\"\n#query = \"instance:db-*\"\n#by = [\"instance\"]\n#below = 1\n#period = \"15m\"\n\n",
        ..SectionDoc::new("[[alert]]", SectionPlace::Blocks { in_sample: false }, keys(), &mut AlertRule::new("", ""))
    }
}

/// The blocks `[[alert]]` of a file.
pub(super) fn read(file: &mut Section<'_>, delivery: &DeliveryOptions) -> Vec<AlertRule> {
    let (keys, mut rules): (_, Vec<AlertRule>) = (keys(), Vec::new());
    for mut section in file.sections("alert", "[[alert]]") {
        let rule_name = section.text("name", name);
        section.require("name", "name = \"Errors\"");
        let query = section.source_text("query");
        section.require("query", "query = \"level:>=error\"");
        let rule = key::read(&keys, &mut section, AlertRule::new("", ""));
        if let (Some(name), Some(query)) = (rule_name, query) {
            let rule = AlertRule { name, query: query.text.into(), ..rule };
            match rule.check() {
                Ok(()) => {}
                Err(error) => match &error.at {
                    Some(at) => section.report_within(&query, at.start, &error),
                    None => section.problem(format_args!("`{}` {error}", error.key)),
                },
            }
            let actions = &rule.actions;
            if !actions.mail.is_empty() && delivery.mail_relay.is_none() {
                section.problem(
                    "`mail` needs a relay: write mail_relay = \"smtp://127.0.0.1:25\" and mail_from in [alerts]",
                );
            }
            if !actions.run.is_empty() && !delivery.allow_run {
                section.problem("`run` starts a program, which only allow_run = true in [alerts] allows");
            }
            if rules.iter().any(|other| other.name == rule.name) {
                section.problem(format_args!("two alerts are called {:?}", rule.name));
            }
            if rules.len() == RULES_MAX {
                section.problem(format_args!("is one too many: there can be {RULES_MAX}"));
            }
            rules.push(rule);
        }
        section.finish();
    }
    rules
}

/// Adds the changes of the rules.
pub(super) fn compare(before: &[AlertRule], now: &mut [AlertRule], changes: &mut Changes) {
    changes.add_blocks("alert", &keys(), before, now, |rule| &rule.name);
}

fn keys() -> Vec<ConfigKey<AlertRule>> {
    let (map, number) = ("a table of texts", "a number, or a text with a unit");
    vec![
        // The name and the query are read apart from the others: a rule without them is left out.
        KeyDraft::by_hand("name", "letters, digits, \"-\", \"_\" and \".\"", |rule: &mut AlertRule| &mut rule.name, |_, _| ())
            .required("\"Slow\"")
            .live("The name of the rule, and the label `alertname` of its alerts."),
        KeyDraft::by_hand("query", "a query", |rule: &mut AlertRule| &mut rule.query, |_, _| ())
            .required("\"* | stats by (path) quantile(0.95, duration) p95, count() n\"")
            .live(
                "The query, in the language of `daytable query`. The records of a filter are counted. A query with a pipe `stats` gives a value a row. `period` gives the time, so the query has no `_time:`.",
            ),
        texts("by", "a list of fields", 0, |rule: &mut AlertRule| &mut rule.by, |text| Ok::<_, String>(text.to_owned()))
            .live("The fields by which the records of a filter are counted: [\"instance\"] gives an alert for each instance. They become labels. `stats` has a `by` of its own."),
        optional_text("value", "a column", |rule: &mut AlertRule| &mut rule.value, |text| Ok::<_, String>(text.to_owned()))
            .example("\"p95\"")
            .live("The column of `stats` that is compared. A query with one column needs no name."),
        KeyDraft::new("above", number, |rule: &mut AlertRule| &mut rule.above, |section| threshold(section, "above"))
            .example("\"1.5s\"")
            .live("Alert if the value is greater. A text with a unit is a duration or a size, as in a query: \"1.5s\", \"10MiB\"."),
        KeyDraft::new("below", number, |rule: &mut AlertRule| &mut rule.below, |section| threshold(section, "below"))
            .example("1")
            .live("Alert if the value is less. `below = 1` is silence: no record of a group that had some."),
        duration("period", |rule: &mut AlertRule| &mut rule.period, PERIOD)
            .live("The length of the time that one answer is about."),
        duration("every", |rule: &mut AlertRule| &mut rule.every, EVERY)
            .live("How often the query is asked: at most `period`, so that each record is in an answer."),
        duration("forget", |rule: &mut AlertRule| &mut rule.forget, FORGET)
            .live("With `below`: how long a group without records is expected to write again. After that its alert ends."),
        KeyDraft::by_hand("labels", map, |rule: &mut AlertRule| &mut rule.labels, |section, rule| rule.labels = map_of(section, "labels"))
            .example("{ severity = \"page\" }")
            .live("Labels of the alerts, beside the name and the groups."),
        KeyDraft::by_hand("annotations", map, |rule: &mut AlertRule| &mut rule.annotations, |section, rule| {
            rule.annotations = map_of(section, "annotations");
        })
        .example("{ summary = \"{path} takes {value} ns\" }")
        .live("Texts for people. `{value}` stands for the value, `{instance}` for a field of `by`."),
        optional_text("webhook", "an http:// or https:// address, or the absolute path of a file", |rule: &mut AlertRule| &mut rule.actions.webhook, webhook)
            .example("\"https://hooks.example.org/alerts\"")
            .live(
                "An address that gets a POST when an alert begins and when it ends; or a file with the address, where the address is a secret. daytable reads a \
                 changed file again.",
            ),
        optional_text("webhook_token_file", file(), |rule: &mut AlertRule| &mut rule.actions.webhook_token_file, secret_file)
            .example("\"/etc/daytable/webhook-token\"")
            .live("A file with a bearer token for the address."),
        optional_text("webhook_body", "a text with places in braces", |rule: &mut AlertRule| &mut rule.actions.webhook_body, |text| Ok::<_, String>(text.to_owned()))
            .example("'{\"text\": \"{alert} {status}: {summary}\"}'")
            .live(
                "The body of the POST; by default a JSON document of everything. Places: {id}, {status} (firing or resolved), {alert}, {value}, {since}, {until}, \
                 {query}, {url}, and the names of labels and annotations. In a body that begins with { or [, values are escaped for JSON.",
            ),
        texts("mail", "a list of addresses", 0, |rule: &mut AlertRule| &mut rule.actions.mail, mail_address)
            .live("People who get mail when an alert begins and when it ends. [alerts] names the relay."),
        texts("run", "a program and its arguments", 0, |rule: &mut AlertRule| &mut rule.actions.run, |text| Ok::<_, String>(text.to_owned()))
            .live(
                "A program that is run when an alert begins, by its absolute path and without a shell, for at most 30 seconds. It gets the JSON document on its \
                 standard input, and DAYTABLE_ALERT, DAYTABLE_ID, DAYTABLE_VALUE, DAYTABLE_SINCE, DAYTABLE_QUERY and DAYTABLE_URL as variables. Its \
                 arguments have the places of `webhook_body`. Needs allow_run = true in [alerts].",
            ),
    ]
}

fn file() -> &'static str {
    "an absolute path, or \"%d/NAME\""
}

fn map_of(section: &mut Section<'_>, key: &'static str) -> BTreeMap<String, String> {
    section.source_texts(key).into_iter().map(|text| (text.name.to_owned(), text.text.to_owned())).collect()
}

fn threshold(section: &mut Section<'_>, key: &'static str) -> Option<Option<Threshold>> {
    let read = |text: &str| {
        let number = Number::parse(text).and_then(|number| Threshold::new(number.as_f64()));
        number.map(Some).ok_or("must be a number, or a text with a unit like \"1.5s\"")
    };
    section.number_or_text(key, read)
}
