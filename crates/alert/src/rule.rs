//! A rule: a query, a period and a limit.

use crate::action::ActionOptions;
use crate::template::fill;
use daytable_logsql::FieldName;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// A limit of a value. It is a finite number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold(f64);

impl Eq for Threshold {}

impl Threshold {
    /// A finite number, or `None`.
    pub fn new(number: f64) -> Option<Threshold> {
        number.is_finite().then_some(Threshold(number))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// A rule of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertRule {
    /// The name, which is the label `alertname`.
    pub name: String,
    /// The query: a filter, whose records are counted, or a filter with a pipe `stats`.
    pub query: String,
    /// The fields that divide the records of a filter into groups.
    pub by: Vec<String>,
    /// The column of `stats` that is compared; `None` if there is one only.
    pub value: Option<String>,
    /// A greater value is a reason to alert.
    pub above: Option<Threshold>,
    /// A lesser value is a reason to alert.
    pub below: Option<Threshold>,
    /// The length of a window.
    pub period: Duration,
    /// The time from window to window.
    pub every: Duration,
    /// The time after which a group without records is no longer expected to have any.
    pub forget: Duration,
    /// Labels beside the name and the groups.
    pub labels: BTreeMap<String, String>,
    /// Texts for people, with `{value}` and `{FIELD}` for the value and the fields of the group.
    pub annotations: BTreeMap<String, String>,
    /// What happens when an alert begins and ends, beside the messages to receivers.
    pub actions: ActionOptions,
}

/// The problem of a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RuleError {
    /// The key with the problem.
    pub key: &'static str,
    /// The place in the query, in bytes.
    pub at: Option<Range<usize>>,
    /// The problem.
    pub message: String,
}

impl RuleError {
    pub(crate) fn new(key: &'static str, message: impl Into<String>) -> RuleError {
        RuleError { key, at: None, message: message.into() }
    }
}

impl AlertRule {
    /// A rule that counts the records of a query over five minutes. It has no limit yet.
    pub fn new(name: &str, query: &str) -> AlertRule {
        AlertRule {
            name: name.into(),
            query: query.into(),
            by: Vec::new(),
            value: None,
            above: None,
            below: None,
            period: Duration::from_secs(300),
            every: Duration::from_secs(30),
            forget: Duration::from_secs(86_400),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            actions: ActionOptions::default(),
        }
    }

    /// Whether a value is a reason to alert. Late records cannot make a value too small.
    pub(crate) fn is_met(&self, value: f64, is_late: bool) -> bool {
        self.above.is_some_and(|limit| value > limit.get())
            || (!is_late && self.below.is_some_and(|limit| value < limit.get()))
    }

    /// The labels of the alert of a group.
    pub(crate) fn labels_of(&self, by: &[FieldName], group: &[String]) -> BTreeMap<String, String> {
        let name = [("alertname".to_owned(), self.name.clone())];
        let own = self.labels.iter().map(|(name, value)| (name.clone(), value.clone()));
        let groups = by.iter().map(label_name).zip(group.iter().cloned());
        // A label without a value is not a label.
        name.into_iter().chain(own).chain(groups).filter(|(_, value)| !value.is_empty()).collect()
    }

    /// The annotations of the alert of a group.
    pub(crate) fn annotations_of(&self, by: &[FieldName], group: &[String], value: f64) -> BTreeMap<String, String> {
        let value_of = |name: &str| match name {
            "value" => Some(show(value)),
            name => by.iter().zip(group).find(|(field, _)| field.written() == name).map(|(_, value)| value.into()),
        };
        self.annotations.iter().map(|(name, text)| (name.clone(), fill(text, value_of))).collect()
    }

    /// What the values of the rule depend on. Another state belongs to another fingerprint.
    pub(crate) fn fingerprint(&self) -> u64 {
        let AlertRule { query, by, value, above, below, period, every, .. } = self;
        let text = format!("{query:?} {by:?} {value:?} {above:?} {below:?} {period:?} {every:?}");
        xxhash_rust::xxh3::xxh3_64(text.as_bytes())
    }
}

/// A number as people write it.
pub(crate) fn show(value: f64) -> Cow<'static, str> {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}").into()
    } else {
        let digits = if value.abs() < 1.0 { 6 } else { 3 };
        let text = format!("{value:.digits$}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned().into()
    }
}

/// The label of a field: Prometheus allows letters, digits and `_`.
pub(crate) fn label_name(field: &FieldName) -> String {
    let name: String =
        field.written().chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(query: &str) -> AlertRule {
        AlertRule { above: Threshold::new(5.0), ..AlertRule::new("Errors", query) }
    }

    #[test]
    fn a_rule_is_a_filter_or_one_stats() {
        for query in [
            "level:>=error",
            "*",
            "level:error _time:day_range[08:00,18:00)",
            "* | stats by (path) quantile(0.95, took) p95",
            "* | extract \"took=<took> \" | stats avg(took) a | filter a:>0",
        ] {
            assert_eq!(rule(query).check(), Ok(()), "{query}");
        }
        for (query, at, message) in [
            ("level:>=", Some(8), "expected"),
            ("_time:5m error", None, "`period` gives the time"),
            ("* | top 5 by (path)", None, "stats"),
            ("* | stats count() a, avg(took) b", None, "value"),
            ("* | stats by (_time:1m) count() n", None, "time"),
            ("* | stats count() n | stats max(n) m", None, "one pipe"),
            ("* | limit 5", None, "stats"),
        ] {
            let error = rule(query).check().expect_err(query);
            assert_eq!((error.key, error.at.clone().map(|at| at.start)), ("query", at), "{query}: {error}");
            assert!(error.message.contains(message), "{query}: {error}");
        }
    }

    #[test]
    fn a_rule_is_checked_as_a_whole() {
        let text = |name: &str, text: &str| BTreeMap::from([(name.to_owned(), text.to_owned())]);
        let by = |rule: AlertRule| AlertRule { by: vec!["instance".into(), "http.status".into()], ..rule };
        for (key, wrong) in [
            ("above", AlertRule { above: None, ..rule("a") }),
            ("every", AlertRule { every: Duration::from_secs(301), ..rule("a") }),
            ("by", by(rule("* | stats count() n"))),
            ("value", AlertRule { value: Some("n".into()), ..rule("a") }),
            ("value", AlertRule { value: Some("n".into()), ..rule("* | stats count() m") }),
            ("labels", AlertRule { labels: text("instance", "a"), ..by(rule("a")) }),
            ("labels", AlertRule { labels: text("a-b", "a"), ..rule("a") }),
            ("annotations", AlertRule { annotations: text("summary", "{instance}"), ..rule("a") }),
        ] {
            assert_eq!(wrong.check().expect_err(key).key, key, "{wrong:?}");
        }
        let annotated = AlertRule {
            annotations: text("summary", "{value} errors of {instance}: {http.status} { }"),
            labels: text("severity", "page"),
            ..by(rule("a"))
        };
        let question = annotated.question().expect("a good rule");
        let group = ["web-1".to_owned(), "502".to_owned()];
        let labels = annotated.labels_of(&question.by, &group);
        let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(labels, ["alertname=Errors", "http_status=502", "instance=web-1", "severity=page"]);
        let annotations = annotated.annotations_of(&question.by, &group, 7.0);
        assert_eq!(annotations["summary"], "7 errors of web-1: 502 { }");
        assert_eq!([show(0.25), show(1234.5678), show(-3.0)], ["0.25", "1234.568", "-3"]);
    }
}
