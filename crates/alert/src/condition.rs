//! Alerts without a rule: a condition that the daemon itself knows of, such as a host that is silent.
//!
//! A condition is known by its labels. The alert begins with the first pass that has it, ends with the first one that does not,
//! and stays as it began meanwhile, so that receivers hear of it once.

use crate::board::Alert;
use daytable_model::time::Ticks;
use std::collections::BTreeMap;

/// What is so, and who should hear of it.
#[derive(Clone, Debug, PartialEq)]
pub struct StandingCondition {
    /// What stands for the name of a rule.
    pub name: &'static str,
    /// What tells this one from others of the same name.
    pub labels: BTreeMap<String, String>,
    /// For people.
    pub summary: String,
    /// Whether it is surely so. If not, an alert that lasts goes on, and none begins: nobody listened for a while.
    pub is_sure: bool,
    /// Since when it is so.
    pub since: Ticks,
    /// The records that it is about.
    pub query: String,
    /// How much of it there is, as seconds of silence.
    pub value: f64,
}

impl StandingCondition {
    fn labels(&self) -> BTreeMap<String, String> {
        let name = ("alertname".to_owned(), self.name.to_owned());
        self.labels.iter().map(|(name, value)| (name.clone(), value.clone())).chain([name]).collect()
    }
}

/// Makes `standing` the alerts of these conditions, and returns those that ended at `now`.
pub(crate) fn settle(standing: &mut Vec<Alert>, conditions: &[StandingCondition], now: Ticks) -> Vec<Alert> {
    let mut lasting = Vec::with_capacity(conditions.len());
    let mut known: BTreeMap<BTreeMap<String, String>, Alert> =
        std::mem::take(standing).into_iter().map(|alert| (alert.labels.clone(), alert)).collect();
    for condition in conditions {
        let labels = condition.labels();
        let begun = |labels| Alert {
            rule: condition.name.to_owned(),
            labels,
            annotations: BTreeMap::from([("summary".to_owned(), condition.summary.clone())]),
            query: condition.query.clone(),
            records: condition.query.clone(),
            from: condition.since,
            value: condition.value,
            starts_at: condition.since,
            ends_at: None,
        };
        lasting.extend(known.remove(&labels).or_else(|| condition.is_sure.then(|| begun(labels))));
    }
    *standing = lasting;
    known.into_values().map(|alert| Alert { ends_at: Some(now), ..alert }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_condition_is_one_alert_from_its_beginning_to_its_end() {
        let at = |seconds| Ticks::UNIX_EPOCH.plus(Duration::from_secs(seconds));
        let silent = |host: &str, since, value| StandingCondition {
            name: "HostSilent",
            labels: BTreeMap::from([("log_host".to_owned(), host.to_owned())]),
            summary: format!("{host} is silent for {value} s"),
            is_sure: true,
            since: at(since),
            query: String::new(),
            value,
        };
        let mut standing = Vec::new();
        assert_eq!(settle(&mut standing, &[silent("web-1", 10, 60.0)], at(70)), []);
        let begun = standing.clone();
        assert_eq!(begun[0].labels["alertname"], "HostSilent");
        assert_eq!(settle(&mut standing, &[silent("web-1", 10, 90.0), silent("web-2", 40, 60.0)], at(100)), []);
        assert_eq!((standing.len(), &standing[0]), (2, &begun[0]), "it stays as it began");
        let unsure = |host| StandingCondition { is_sure: false, ..silent(host, 10, 90.0) };
        assert_eq!(settle(&mut standing, &[unsure("web-1"), unsure("web-2"), unsure("web-3")], at(110)), []);
        assert_eq!(
            (standing.len(), &standing[0]),
            (2, &begun[0]),
            "one that is not sure begins nothing and ends nothing"
        );
        let ended = settle(&mut standing, &[silent("web-2", 40, 90.0)], at(130));
        assert_eq!(ended, [Alert { ends_at: Some(at(130)), ..begun[0].clone() }]);
        assert_eq!(standing.len(), 1);
    }
}
