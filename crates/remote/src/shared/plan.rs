//! The owner's plan: derives the steps from the tables of a remote store, the notes of the daemons, the archives, the
//! rules and the time.
//!
//! As in the [plan](daytable_lifecycle::plan()) of a data folder, each day has at most one step, and each expired day
//! that stays has a reason. A plan contains only tables whose name is a configured name and a date.

use super::notes::{Host, RestoredTable};
use daytable_lifecycle::clock::Clock;
use daytable_lifecycle::plan::{
    ArchiveRequirement, DropBudget, LifecycleLimits, LifecyclePlan, LifecycleStep, PlannedStep, ShorterKeep, TableRule,
};
use daytable_lifecycle::reason::{HeldTable, HoldReason, StepReason};
use daytable_model::key::{DayTable, TableName};
use daytable_model::time::Ticks;
use daytable_model::window::Window;
use daytable_store::catalog::Archived;
use std::collections::BTreeSet;
use std::time::Duration;

/// Maximum age of a request that may still be executed. The service ends a request after 30 s; the rest covers the
/// network and clock differences.
pub const LANDS_WITHIN: Duration = Duration::from_secs(600);
/// How long a silent daemon holds back the days that its outbox may have rows for.
pub const SILENT_MAX: Duration = Duration::from_secs(30 * 86_400);

/// The input of a plan.
#[derive(Clone, Debug)]
pub struct SharedView {
    /// The tables of the remote store.
    pub tables: Vec<DayTable>,
    /// Restored tables.
    pub restored: Vec<RestoredTable>,
    /// Tables that had no rows when they were read.
    pub empty: BTreeSet<DayTable>,
    /// Verified archives.
    pub archives: Vec<Archived>,
    /// The notes of the daemons.
    pub hosts: Vec<Host>,
    /// The configured tables.
    pub rules: Vec<TableRule>,
    /// Limits of a run.
    pub limits: LifecycleLimits,
    /// The time and its evidence.
    pub clock: Clock,
    /// Tables that this run has dropped.
    pub dropped: u16,
}

impl SharedView {
    /// The latest archive of a day at `place`, or anywhere if `None`.
    pub fn archive_of(&self, table: &DayTable, place: Option<&str>) -> Option<&Archived> {
        let is_one = |archived: &&Archived| {
            archived.table == *table && !archived.is_superseded && place.is_none_or(|place| place == archived.url)
        };
        self.archives.iter().filter(is_one).max_by_key(|archived| archived.generation)
    }

    /// The state of a table: `open`, `archived` or `restored`.
    pub fn state_name(&self, table: &DayTable) -> &'static str {
        if self.restored.iter().any(|restored| restored.table == *table) {
            "restored"
        } else if self.archive_of(table, None).is_some() {
            "archived"
        } else {
            "open"
        }
    }
}

/// Plans the next steps. A pure function.
pub fn plan(view: &SharedView) -> LifecyclePlan {
    let mut plan = LifecyclePlan::default();
    let standing = view.tables.iter().filter_map(|table| counted(view, table));
    let mut drops = DropBudget::new(&view.limits, view.dropped, standing);
    let mut tables: Vec<&DayTable> = view.tables.iter().collect();
    tables.sort_by_key(|table| (table.end(), table.table().clone()));
    tables.dedup();
    for table in tables {
        match decide(view, table, &mut drops) {
            Ok(None) => {}
            Ok(Some(planned)) => plan.steps.push(planned),
            Err(reason) => plan.held_back.push(HeldTable { table: table.clone(), reason }),
        }
    }
    for archived in &view.archives {
        let is_better = |other: &Archived| {
            other.table == archived.table && other.url == archived.url && other.generation > archived.generation
        };
        let is_superseded = archived.is_superseded && view.archives.iter().any(is_better);
        let why = if is_superseded { Some(StepReason::Superseded) } else { outlived(view, archived) };
        if let Some(why) = why {
            let step =
                LifecycleStep::RemoveArchive(archived.table.clone(), archived.generation, archived.url.as_str().into());
            plan.steps.push(PlannedStep { step, why });
        }
    }
    plan
}

/// The reason to remove an archive: `keep_archives` is over, a record confirms the clock, and its day is not in the
/// store.
fn outlived(view: &SharedView, archived: &Archived) -> Option<StepReason> {
    let rule = view.rules.iter().find(|rule| rule.name == *archived.table.table())?;
    let until = archived.table.end().plus(rule.keep_archives?);
    let now = view.clock.now;
    let is_waited_for = rule.archives_until.is_some_and(|until| now < until);
    let stands =
        view.tables.contains(&archived.table) || view.restored.iter().any(|restored| restored.origin == archived.table);
    if until > now || until == Ticks::MAX || is_waited_for || stands {
        return None;
    }
    let doubt = view.clock.doubt(archived.table.period(), Duration::ZERO, Duration::MAX);
    doubt.is_none().then_some(StepReason::ArchiveExpired(until))
}

/// The next step of a table, if any, or the reason why an expired table stays.
fn decide(view: &SharedView, table: &DayTable, drops: &mut DropBudget) -> Result<Option<PlannedStep>, HoldReason> {
    let now = view.clock.now;
    // No daemon observes how long a table is idle, so only a record can confirm the clock.
    let doubt = |period, patience| view.clock.doubt(period, Duration::ZERO, patience).map_or(Ok(()), Err);
    if let Some(restored) = view.restored.iter().find(|restored| restored.table == *table) {
        if restored.expires > now {
            return Ok(None);
        }
        doubt(table.period(), Duration::MAX)?;
        drops.charge(None)?;
        let step = LifecycleStep::Drop(table.clone());
        return Ok(Some(PlannedStep { step, why: StepReason::RestoredUntil(restored.expires) }));
    }
    let rule = view.rules.iter().find(|rule| rule.name == *table.table()).ok_or(HoldReason::NotConfigured)?;
    if table.period() != rule.window.period {
        return Err(HoldReason::OtherPeriod(rule.window.period));
    }
    let Some(expires) = rule.window.expires(table).filter(|expires| *expires <= now) else { return Ok(None) };
    doubt(rule.window.period, Duration::MAX)?;
    if let Some(ShorterKeep { keep_before, since }) = rule.shortened {
        let until = since.plus(view.limits.grace);
        if now < until && !(Window { keep: keep_before, ..rule.window }).expired(table, now) {
            return Err(HoldReason::Grace { until });
        }
    }
    check_hosts(view, table, expires)?;
    let place = match (&rule.archive, &rule.archive_before) {
        (ArchiveRequirement::At(place), _) => Some(place.clone()),
        (ArchiveRequirement::None, Some((_, until))) if now < *until && !view.empty.contains(table) => {
            return Err(HoldReason::Grace { until: *until });
        }
        (ArchiveRequirement::None, _) => None,
    };
    if let Some(place) = place
        && view.archive_of(table, Some(&place)).is_none()
        && !view.empty.contains(table)
    {
        let step = LifecycleStep::Archive(table.clone(), place.clone());
        return Ok(Some(PlannedStep { step, why: StepReason::Asked(place) }));
    }
    drops.charge(counted(view, table))?;
    Ok(Some(PlannedStep { step: LifecycleStep::Drop(table.clone()), why: StepReason::Expired(expires) }))
}

/// Checks that every daemon noted, after the end of the table's window, that its outbox has no rows for the table.
fn check_hosts(view: &SharedView, table: &DayTable, expires: Ticks) -> Result<(), HoldReason> {
    let now = view.clock.now;
    for host in &view.hosts {
        let silent_until = host.seen.plus(SILENT_MAX);
        if silent_until <= now {
            continue;
        }
        // The service does not distinguish table names by case.
        let of_table = host.holds.iter().filter(|(name, _)| name.same(table.table()));
        if let Some(oldest) = of_table.map(|(_, oldest)| *oldest).min().filter(|oldest| *oldest <= table.start()) {
            return Err(HoldReason::HostHolds { host: host.id.clone(), oldest });
        }
        // The clock of that daemon is ahead of ours, so its note is not evidence.
        if host.seen < expires || host.seen > now.plus(LANDS_WITHIN) {
            return Err(HoldReason::HostSilent { host: host.id.clone(), seen: host.seen, until: silent_until });
        }
    }
    let lands_until = expires.plus(LANDS_WITHIN);
    if now < lands_until { Err(HoldReason::Landing { until: lands_until }) } else { Ok(()) }
}

/// The configured table for which a day counts toward `min_tables`: the day has begun, has rows, and is not a restored
/// copy.
fn counted<'t>(view: &SharedView, table: &'t DayTable) -> Option<&'t TableName> {
    let is_copy = view.restored.iter().any(|restored| restored.table == *table);
    let counts = table.start() <= view.clock.now && !view.empty.contains(table) && !is_copy;
    counts.then(|| table.table())
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::key::Period;
    use daytable_store::catalog::Seal;
    use proptest::prelude::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn at(day: u32) -> Ticks {
        Ticks::from_date(2026, 11, day).expect("a date")
    }

    fn table(day: u32) -> DayTable {
        DayTable::parse(&format!("Log202611{day:02}")).expect("a day-table")
    }

    fn host(seen: Ticks, oldest: Option<Ticks>) -> Host {
        let holds = oldest.map(|oldest| (TableName::new("Log").expect("a name"), oldest));
        Host { id: "web-17".into(), seen, holds: holds.into_iter().collect() }
    }

    /// Days from the 10th to the 21st with `keep` of five days. Today is the 21st, so days up to the 15th have
    /// expired.
    fn view() -> SharedView {
        let rule = TableRule {
            name: TableName::new("Log").expect("a name"),
            window: Window { keep: 5 * DAY, period: Period::Day },
            archive: ArchiveRequirement::At("file:///a".into()),
            keep_archives: None,
            shortened: None,
            archive_before: None,
            archives_until: None,
            max_bytes: None,
            max_bytes_since: None,
        };
        SharedView {
            tables: (10..=22).map(table).collect(),
            restored: vec![],
            empty: BTreeSet::new(),
            archives: vec![],
            hosts: vec![host(at(21), Some(at(21)))],
            rules: vec![rule],
            limits: LifecycleLimits::default(),
            clock: Clock {
                now: at(21).plus(Duration::from_secs(3600)),
                newest_record: Some(at(21)),
                ..Clock::default()
            },
            dropped: 0,
        }
    }

    fn archived(table: DayTable) -> Archived {
        let seal = Seal { bytes: 300, sha256: "ab".into(), rows: 7, times: None, at: at(20) };
        let (url, manifest) = ("file:///a".to_owned(), "".into());
        Archived { table, generation: 1, url, seal, verified: at(20), is_superseded: false, manifest }
    }

    fn steps(view: &SharedView) -> Vec<String> {
        plan(view).steps.iter().map(|planned| format!("{} {}", planned.step.name(), planned.step.table())).collect()
    }

    fn stays(view: &SharedView) -> Vec<(String, &'static str)> {
        plan(view).held_back.iter().map(|held| (held.table.to_string(), held.reason.name())).collect()
    }

    #[test]
    fn what_has_expired_is_archived_and_what_is_archived_goes() {
        let mut view = view();
        view.archives.push(archived(table(11)));
        assert_eq!(
            steps(&view),
            [
                "archive Log20261110",
                "drop Log20261111",
                "archive Log20261112",
                "archive Log20261113",
                "archive Log20261114",
                "archive Log20261115"
            ]
        );
        assert_eq!(stays(&view), []);
        view.empty.insert(table(10));
        assert_eq!(steps(&view)[0], "drop Log20261110");
        view.rules[0].archive = ArchiveRequirement::None;
        assert!(steps(&view).iter().all(|step| step.starts_with("drop ")));
    }

    #[test]
    fn an_outbox_that_may_hold_something_keeps_a_day() {
        let told = |seen, oldest| SharedView { hosts: vec![host(seen, oldest)], ..view() };
        // The outbox holds rows of the 12th; later days are unknown.
        let held = told(at(21), Some(at(12)));
        assert_eq!(steps(&held), ["archive Log20261110", "archive Log20261111"]);
        assert!(stays(&held).iter().all(|(_, reason)| *reason == "host_holds"));
        // Rows of other tables do not count.
        let mut other = told(at(21), None);
        other.hosts[0].holds.insert(TableName::new("Month").expect("a name"), at(1));
        assert_eq!(steps(&other).len(), 6);
        // The last note predates the expiry of the 12th.
        let silent = told(at(18), None);
        assert_eq!(steps(&silent), ["archive Log20261110", "archive Log20261111", "archive Log20261112"]);
        assert_eq!(stays(&silent)[0], ("Log20261113".into(), "host_silent"));
        // The wait has a limit.
        let mut gone = told(at(1), Some(at(1)));
        gone.hosts[0].seen = at(21).minus(SILENT_MAX);
        assert_eq!(steps(&gone).len(), 6);
        // A note from the future is not evidence.
        assert_eq!(stays(&told(at(23), None))[0].1, "host_silent");
        assert_eq!(steps(&told(at(23), None)), [""; 0]);
    }

    #[test]
    fn a_request_may_land_for_a_while() {
        let mut view = view();
        view.clock.now = at(21).plus(LANDS_WITHIN / 2);
        assert_eq!(stays(&view), [("Log20261115".into(), "landing")]);
    }

    #[test]
    fn a_restored_day_goes_when_its_time_is_over_and_not_before() {
        let mut view = view();
        let restored = |expires| RestoredTable { table: table(10), origin: table(10), expires, sha256: "ab".into() };
        view.restored = vec![restored(at(22))];
        assert_eq!(steps(&view)[0], "archive Log20261111");
        view.restored = vec![restored(at(21))];
        assert_eq!(steps(&view)[0], "drop Log20261110");
    }

    #[test]
    fn names_that_are_not_configured_stay_and_are_said() {
        let mut view = view();
        view.tables = ["Log202611", "Other20261101"].map(|name| DayTable::parse(name).expect("a table")).to_vec();
        assert_eq!(stays(&view), [("Other20261101".into(), "not_configured"), ("Log202611".into(), "other_period")]);
        assert_eq!(steps(&view), [""; 0]);
    }

    #[test]
    fn an_archive_that_outlived_its_time_goes_with_nothing_of_its_day_standing() {
        let mut view = view();
        view.tables = vec![table(20), table(21)];
        view.archives = vec![archived(table(2)), archived(table(12))];
        assert_eq!(steps(&view), [""; 0]);
        view.rules[0].keep_archives = Some(10 * DAY);
        assert_eq!(steps(&view), ["remove_archive Log20261102"]);
        let restored = RestoredTable {
            table: DayTable::parse("Back20261102").expect("a table"),
            origin: table(2),
            expires: at(30),
            sha256: "ab".into(),
        };
        let stands = SharedView { restored: vec![restored], ..view.clone() };
        assert_eq!(steps(&stands), [""; 0]);
        view.rules[0].archives_until = Some(at(22));
        assert_eq!(steps(&view), [""; 0]);
        view.rules[0].archives_until = None;
        view.clock.newest_record = None;
        assert_eq!(steps(&view), [""; 0]);
    }

    #[test]
    fn a_clock_that_no_record_confirms_drops_nothing() {
        let mut view = view();
        view.clock = Clock { now: at(21).plus(3652 * DAY), newest_record: Some(at(21)), newest_watched: 999 * DAY };
        assert_eq!(steps(&view), [""; 0]);
        view.clock.newest_record = None;
        assert_eq!(steps(&view), [""; 0]);
    }

    proptest! {
        /// For any notes: a dropped or archived day has expired, every daemon reported after its expiry, and no outbox
        /// may hold rows for the day.
        #[test]
        fn nothing_goes_that_something_may_come_for(
            hosts in proptest::collection::vec((1u32..25, proptest::option::of(8u32..25)), 0..4),
            now in 10u32..25,
        ) {
            let mut view = view();
            view.clock.now = at(now);
            view.hosts = hosts
                .iter()
                .map(|(seen, oldest)| host(at(*seen), oldest.map(at)))
                .collect();
            for planned in plan(&view).steps {
                let day = planned.step.table();
                let expires = day.end().plus(5 * DAY);
                prop_assert!(expires.plus(LANDS_WITHIN) <= view.clock.now);
                for host in &view.hosts {
                    prop_assert!(host.seen >= expires && host.holds.values().all(|oldest| *oldest > day.start()));
                }
            }
        }
    }
}
