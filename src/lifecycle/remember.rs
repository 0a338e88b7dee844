//! What the catalogue remembers of the configuration, so that a `keep` that was made shorter by mistake drops nothing
//! for a while.

use super::plan::Shortened;
use crate::key::TableName;
use crate::store::catalogue::Rule;
use crate::time::Ticks;
use std::time::Duration;

/// What to remember of the configured tables now, and what that means for each: in their order.
///
/// A `keep` that is shorter than it was is remembered with what it was before and since when; made shorter once more,
/// it keeps the older of both, and the newer time. Made as long as before, or longer, there is nothing to wait for.
/// Tables that are not configured any more are forgotten: nothing drops them.
pub fn remember(
    before: &[Rule],
    configured: &[(TableName, Duration)],
    now: Ticks,
    grace: Duration,
) -> (Vec<Rule>, Vec<Option<Shortened>>) {
    let rule_of = |(name, keep): &(TableName, Duration)| {
        let known = before.iter().find(|rule| rule.name == name.as_str());
        let shortened = known.and_then(|known| {
            let pending = known.shortened.filter(|(since, _)| since.plus(grace) > now);
            let longest = pending.map_or(known.keep, |(_, before)| before.max(known.keep));
            if *keep >= longest {
                None
            } else if *keep < known.keep {
                Some((now, longest))
            } else {
                pending
            }
        });
        Rule { name: name.to_string(), keep: *keep, shortened }
    };
    let rules: Vec<Rule> = configured.iter().map(rule_of).collect();
    let shortened = |rule: &Rule| rule.shortened.map(|(since, keep_before)| Shortened { keep_before, since });
    let shortened = rules.iter().map(shortened).collect();
    (rules, shortened)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn after(known: Option<(u32, Option<(u64, u32)>)>, keep: u32, now: u64) -> Option<(u64, u32)> {
        let at = |hours: u64| Ticks::UNIX_EPOCH.plus(Duration::from_secs(3600 * hours));
        let known = known.map(|(keep, shortened)| Rule {
            name: "Log".into(),
            keep: DAY * keep,
            shortened: shortened.map(|(since, before)| (at(since), DAY * before)),
        });
        let name = TableName::new("Log").expect("a name");
        let (rules, shortened) = remember(known.as_slice(), &[(name, DAY * keep)], at(now), DAY);
        assert_eq!(rules[0].keep, DAY * keep);
        let [shortened] = &*shortened else { panic!("one table") };
        let days = |keep: Duration| (keep.as_secs() / 86_400) as u32;
        shortened.map(|s| (s.since.since(Ticks::UNIX_EPOCH).as_secs() / 3600, days(s.keep_before)))
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
    }
}
