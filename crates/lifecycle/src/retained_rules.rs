//! The catalog retains earlier rules, so that a mistake in the configuration drops no day during a grace time.
//!
//! The rule of a table that left the configuration is retained. No run drops its days. If the table returns with a
//! shorter `keep`, the grace time applies as if the table had never left.

use super::plan::{ArchiveRequirement, LifecycleLimits, ShorterKeep, TableRule};
use daytable_model::time::Ticks;
use daytable_store::catalog::Rule;
use std::time::Duration;

/// The rules to retain: first the configured tables, then the tables that left the configuration.
///
/// A shortened `keep` is retained with its earlier value and the time of the change. A second shortening retains the
/// longer value and the newer time. A `keep` restored to its earlier value or more ends the wait. If archiving was
/// switched off, a drop requires the archive until the grace time ends. If `keep_archives` was shortened, no archive
/// is removed until the grace time ends.
pub fn retain_rules(before: &[Rule], configured: &[TableRule], limits: &LifecycleLimits, now: Ticks) -> Vec<Rule> {
    let known = |name: &str| before.iter().find(|rule| rule.name == name);
    let mut rules: Vec<Rule> =
        configured.iter().map(|rule| rule_of(known(rule.name.as_str()), rule, limits, now)).collect();
    let is_configured = |name: &str| configured.iter().any(|rule| rule.name.as_str() == name);
    let removed = before.iter().filter(|rule| !is_configured(&rule.name));
    rules.extend(removed.map(|rule| Rule { is_removed: true, ..rule.clone() }));
    rules
}

/// Adds the retained rule to a configured table.
pub fn apply_retained(rule: &mut TableRule, rules: &[Rule], grace: Duration) {
    let Some(known) = rules.iter().find(|known| known.name == rule.name.as_str() && !known.is_removed) else { return };
    rule.shortened = known.shortened.map(|(since, keep_before)| ShorterKeep { keep_before, since });
    rule.archive_before = known.archive_before.as_ref().map(|(place, until)| (place.as_str().into(), *until));
    rule.archives_until = known.archives_since.map(|since| since.plus(grace));
    rule.max_bytes_since = known.max_bytes.map(|(_, since)| since);
}

fn rule_of(known: Option<&Rule>, rule: &TableRule, limits: &LifecycleLimits, now: Ticks) -> Rule {
    let grace = limits.grace;
    let place = match &rule.archive {
        ArchiveRequirement::At(place) => Some(place.to_string()),
        ArchiveRequirement::None => None,
    };
    let archive_before = known.and_then(|known| match (&place, &known.archive) {
        (None, Some(before)) => Some((before.clone(), now.plus(grace))),
        (None, None) => {
            let pending = known.archive_before.clone().filter(|(_, until)| *until > now);
            pending.map(|(place, until)| (place, until.min(now.plus(grace))))
        }
        (Some(_), _) => None,
    });
    let archives_since = known.and_then(|known| {
        let is_shorter = match (rule.keep_archives, known.keep_archives) {
            (Some(_), None) => known.archive.is_some(),
            (Some(keep), Some(before)) => keep < before,
            (None, _) => false,
        };
        let pending = known.archives_since.filter(|since| since.plus(grace) > now);
        if is_shorter {
            Some(now)
        } else {
            pending.filter(|_| rule.keep_archives.is_some()).map(|since| since.min(now))
        }
    });
    Rule {
        name: rule.name.to_string(),
        keep: rule.window.keep,
        shortened: known.and_then(|known| shortened(known, rule.window.keep, now, grace)),
        archive: place,
        archive_before,
        keep_archives: rule.keep_archives,
        archives_since,
        seal_after: limits.seal_after,
        period: rule.window.period,
        max_bytes: retain_bytes_max(known.and_then(|known| known.max_bytes), rule.max_bytes, now),
        is_removed: false,
    }
}

fn shortened(known: &Rule, keep: Duration, now: Ticks, grace: Duration) -> Option<(Ticks, Duration)> {
    let pending = known.shortened.filter(|(since, _)| since.plus(grace) > now);
    // A clock that was ahead wrote this time, so the wait starts now.
    let pending = pending.map(|(since, before)| (since.min(now), before));
    let longest = pending.map_or(known.keep, |(_, before)| before.max(known.keep));
    if keep >= longest {
        None
    } else if keep < known.keep {
        Some((now, longest))
    } else {
        pending
    }
}

/// The limit to retain, of the folder or of a table, and the time since which the limit is this value or larger. A new or smaller limit
/// drops no day before the grace time ends.
pub fn retain_bytes_max(before: Option<(u64, Ticks)>, bytes_max: Option<u64>, now: Ticks) -> Option<(u64, Ticks)> {
    bytes_max.map(|bytes_max| match before {
        Some((known, since)) if bytes_max >= known => (bytes_max, since.min(now)),
        _ => (bytes_max, now),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::key::{Period, TableName};
    use daytable_model::window::Window;

    const DAY: Duration = Duration::from_secs(86_400);

    fn rule(keep: u32, archive: Option<&str>, keep_archives: Option<u32>) -> TableRule {
        TableRule {
            name: TableName::new("Log").expect("a name"),
            window: Window { keep: DAY * keep, period: Period::Day },
            archive: archive.map_or(ArchiveRequirement::None, |place| ArchiveRequirement::At(place.into())),
            keep_archives: keep_archives.map(|days| DAY * days),
            shortened: None,
            archive_before: None,
            archives_until: None,
            max_bytes: None,
            max_bytes_since: None,
        }
    }

    /// The retained rules with a grace time of one day.
    fn remember(before: &[Rule], configured: &[TableRule], now: Ticks, grace: Duration) -> Vec<Rule> {
        super::retain_rules(before, configured, &LifecycleLimits { grace, ..LifecycleLimits::default() }, now)
    }

    fn at(hours: u64) -> Ticks {
        Ticks::UNIX_EPOCH.plus(Duration::from_secs(3600 * hours))
    }

    fn after(known: Option<(u32, Option<(u64, u32)>)>, keep: u32, now: u64) -> Option<(u64, u32)> {
        let known = known.map(|(keep, shortened)| {
            let rules = remember(&[], &[rule(keep, None, None)], at(0), DAY);
            Rule { shortened: shortened.map(|(since, before)| (at(since), DAY * before)), ..rules[0].clone() }
        });
        let rules = remember(known.as_slice(), &[rule(keep, None, None)], at(now), DAY);
        assert_eq!(rules[0].keep, DAY * keep);
        let mut recalled = rule(keep, None, None);
        apply_retained(&mut recalled, &rules, DAY);
        let days = |keep: Duration| (keep.as_secs() / 86_400) as u32;
        recalled.shortened.map(|s| (s.since.since(Ticks::UNIX_EPOCH).as_secs() / 3600, days(s.keep_before)))
    }

    #[test]
    fn a_shorter_keep_waits_and_a_longer_one_does_not() {
        assert_eq!(after(None, 30, 0), None, "the first time there is nothing to compare with");
        assert_eq!(after(Some((30, None)), 30, 5), None);
        assert_eq!(after(Some((30, None)), 60, 5), None);
        assert_eq!(after(Some((30, None)), 7, 5), Some((5, 30)));
        assert_eq!(after(Some((7, Some((5, 30)))), 7, 10), Some((5, 30)), "a restart does not begin the wait again");
        assert_eq!(after(Some((7, Some((5, 30)))), 3, 10), Some((10, 30)), "shorter once more");
        assert_eq!(after(Some((7, Some((5, 30)))), 30, 10), None, "taken back");
        assert_eq!(after(Some((7, Some((5, 30)))), 14, 10), Some((5, 30)), "taken back in part");
        assert_eq!(after(Some((7, Some((5, 30)))), 7, 29), None, "the wait is over");
        assert_eq!(after(Some((7, Some((90_000, 30)))), 7, 10), Some((10, 30)), "noted by a clock that was ahead");
    }

    #[test]
    fn an_archive_that_is_asked_for_no_more_is_asked_for_until_the_grace_time_is_over() {
        let first = remember(&[], &[rule(30, Some("file:///a"), None)], at(0), DAY);
        assert_eq!((first[0].archive.as_deref(), &first[0].archive_before), (Some("file:///a"), &None));
        let none = remember(&first, &[rule(30, None, None)], at(5), DAY);
        assert_eq!(none[0].archive_before, Some(("file:///a".into(), at(29))));
        let later = remember(&none, &[rule(30, None, None)], at(10), DAY);
        assert_eq!(later[0].archive_before, none[0].archive_before, "a restart does not begin the wait again");
        assert_eq!(remember(&later, &[rule(30, None, None)], at(29), DAY)[0].archive_before, None);
        assert_eq!(remember(&later, &[rule(30, Some("file:///b"), None)], at(10), DAY)[0].archive_before, None);
    }

    #[test]
    fn a_smaller_limit_of_a_table_waits_and_a_larger_one_does_not() {
        let limited = |bytes_max| TableRule { max_bytes: bytes_max, ..rule(30, None, None) };
        let since = |before: &[Rule], bytes_max, now| {
            let rules = remember(before, &[limited(bytes_max)], at(now), DAY);
            let mut recalled = limited(bytes_max);
            apply_retained(&mut recalled, &rules, DAY);
            (recalled.max_bytes_since, rules)
        };
        let (first, rules) = since(&[], Some(100), 0);
        assert_eq!(first, Some(at(0)), "a new limit");
        assert_eq!(since(&rules, Some(100), 9).0, Some(at(0)), "a restart does not begin the wait again");
        assert_eq!(since(&rules, Some(200), 9).0, Some(at(0)));
        assert_eq!(since(&rules, Some(99), 9).0, Some(at(9)));
        let (none, rules) = since(&rules, None, 9);
        assert_eq!(none, None);
        assert_eq!(since(&rules, Some(100), 10).0, Some(at(10)), "after it was off");
    }

    #[test]
    fn archives_that_are_kept_shorter_wait_too() {
        let ever = remember(&[], &[rule(30, Some("file:///a"), None)], at(0), DAY);
        let year = remember(&ever, &[rule(30, Some("file:///a"), Some(365))], at(5), DAY);
        assert_eq!(year[0].archives_since, Some(at(5)));
        let same = remember(&year, &[rule(30, Some("file:///a"), Some(365))], at(9), DAY);
        assert_eq!(same[0].archives_since, Some(at(5)));
        assert_eq!(remember(&same, &[rule(30, Some("file:///a"), None)], at(9), DAY)[0].archives_since, None);
    }

    #[test]
    fn a_table_that_was_away_waits_as_if_it_had_stayed() {
        let first = remember(&[], &[rule(30, Some("file:///a"), None)], at(0), DAY);
        let away = remember(&first, &[], at(5), DAY);
        assert_eq!(away.iter().map(|rule| rule.is_removed).collect::<Vec<_>>(), [true]);
        let back = remember(&away, &[rule(7, None, None)], at(99), DAY);
        assert_eq!(back[0].shortened, Some((at(99), DAY * 30)));
        assert!(back[0].archive_before.is_some() && !back[0].is_removed);
    }

    #[test]
    fn a_bound_that_is_set_or_smaller_waits() {
        assert_eq!(retain_bytes_max(None, Some(9), at(5)), Some((9, at(5))));
        assert_eq!(retain_bytes_max(Some((9, at(1))), Some(9), at(5)), Some((9, at(1))));
        assert_eq!(retain_bytes_max(Some((9, at(1))), Some(99), at(5)), Some((99, at(1))));
        assert_eq!(retain_bytes_max(Some((9, at(1))), Some(8), at(5)), Some((8, at(5))));
        assert_eq!(retain_bytes_max(Some((9, at(1))), None, at(5)), None);
    }
}
