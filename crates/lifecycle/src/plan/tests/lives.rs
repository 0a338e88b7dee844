//! Days that are sealed, archived, restored, and dropped under pressure.

use super::*;
use std::collections::BTreeMap;

fn steps(plan: &LifecyclePlan) -> Vec<String> {
    let others = plan.steps.iter().filter(|planned| !matches!(planned.step, LifecycleStep::Create(_)));
    others.map(|planned| format!("{} {}", planned.step.name(), planned.step.table())).collect()
}

/// A folder at noon of the 21st with a record of that time. Days wait six hours for late records.
fn noon(tables: &[TableState], rule: TableRule) -> View {
    let limits = LifecycleLimits { seal_after: Duration::from_secs(6 * 3600), ..limits(9) };
    view(tables, &[rule], at(21, 12), Some(at(21, 11)), &limits)
}

fn with_archive() -> TableRule {
    TableRule { archive: required(), ..rule("Log", 5 * DAY) }
}

#[test]
fn a_day_goes_from_step_to_step() {
    let mut view = noon(&[open("Log20261110"), open("Log20261120"), open("Log20261121")], with_archive());
    let mut told = Vec::new();
    while let Some(planned) =
        super::super::plan(&view).steps.into_iter().find(|p| !matches!(p.step, LifecycleStep::Create(_)))
    {
        told.push(format!("{} {}", planned.step.name(), planned.step.table()));
        view.take(&planned.step);
    }
    assert_eq!(
        told,
        ["seal Log20261110", "archive Log20261110", "drop Log20261110", "seal Log20261120", "archive Log20261120"]
    );
    let again = noon(&[open("Log20261110"), open("Log20261120"), open("Log20261121")], with_archive());
    let mut forecast = steps(&forecast(&again));
    forecast.sort();
    told.sort();
    assert_eq!(forecast, told, "a forecast has the steps of a run");
}

#[test]
fn a_day_is_sealed_when_late_records_had_their_time() {
    for (hour, expected) in [(5, vec![]), (6, vec!["seal Log20261120"])] {
        let mut view = noon(&[open("Log20261120")], rule("Log", 30 * DAY));
        view.clock.now = at(21, hour);
        assert_eq!(steps(&super::super::plan(&view)), expected, "{hour}");
    }
    let mut alone = noon(&[open("Log20261120")], rule("Log", 30 * DAY));
    alone.clock.newest_record = None;
    assert_eq!(steps(&super::super::plan(&alone)), [""; 0], "nothing confirms the clock");
    alone.tables[0].watched = 2 * DAY;
    alone.clock.newest_watched = 2 * DAY;
    assert_eq!(steps(&super::super::plan(&alone)), ["seal Log20261120"], "it was watched for long enough");
}

#[test]
fn late_records_are_sealed_again_once_a_day_and_before_the_day_goes() {
    let late = |sealed_at: Ticks| {
        let mut state = TableState { unsealed_rows: 1, ..sealed("Log20261118") };
        if let Some(sealed) = &mut state.sealed {
            sealed.seal.at = sealed_at;
        }
        state
    };
    for (sealed_at, expected) in [
        (at(21, 0), vec!["archive Log20261118"]),
        (at(20, 12), vec!["seal Log20261118"]),
        (at(30, 0), vec!["seal Log20261118"]),
    ] {
        let view = noon(&[late(sealed_at)], with_archive());
        assert_eq!(steps(&super::super::plan(&view)), expected, "sealed at {sealed_at}");
    }
    let mut view = noon(&[late(at(21, 0))], TableRule { window: rule("Log", DAY).window, ..with_archive() });
    view.archives = vec![archived("Log20261118")];
    let planned = super::super::plan(&view);
    assert_eq!(steps(&planned), ["seal Log20261118"], "it has expired: what came late is to be archived now");
    assert_eq!(reasons(&planned), [("Log20261118".into(), HoldReason::NoPermit)]);
}

#[test]
fn a_sealing_that_was_begun_is_finished() {
    let begun = TableState { is_closed: true, ..open("Log20261121") };
    assert_eq!(steps(&super::super::plan(&noon(&[begun], with_archive()))), ["seal Log20261121"]);
}

#[test]
fn a_day_that_would_be_larger_sealed_stays_in_its_pages_until_an_archive_or_late_records_ask_for_more() {
    let kept = TableState { kept_rows: 7, unsealed_rows: 7, ..open("Log20261120") };
    let planned = |state: &TableState, rule| steps(&super::super::plan(&noon(std::slice::from_ref(state), rule)));
    assert_eq!(planned(&kept, rule("Log", 30 * DAY)), [""; 0]);
    assert_eq!(planned(&kept, with_archive()), ["seal Log20261120"]);
    let shown = |rule| super::super::next(&noon(std::slice::from_ref(&kept), rule), &kept).expect("a step").step;
    assert_eq!((shown(rule("Log", 30 * DAY)), shown(with_archive())), ("drop", "seal"));
    let late = TableState { unsealed_rows: 8, ..kept };
    assert_eq!(planned(&late, rule("Log", 30 * DAY)), ["seal Log20261120"]);
}

#[test]
fn an_archive_elsewhere_or_of_something_else_is_no_permit() {
    let state = sealed("Log20261101");
    for wrong in [
        Archived { url: "file:///other".into(), ..archived("Log20261101") },
        Archived { table: day("Log20261102"), ..archived("Log20261101") },
        Archived { seal: seal(6), ..archived("Log20261101") },
    ] {
        let mut view = noon(std::slice::from_ref(&state), with_archive());
        view.archives = vec![wrong.clone()];
        let planned = super::super::plan(&view);
        assert_eq!(steps(&planned), ["archive Log20261101"], "{wrong:?}");
        assert_eq!(reasons(&planned), [("Log20261101".into(), HoldReason::NoPermit)]);
    }
    let mut view = noon(&[state], with_archive());
    view.archives = vec![archived("Log20261101")];
    assert_eq!(steps(&super::super::plan(&view)), ["drop Log20261101"]);
}

#[test]
fn an_archive_that_is_asked_for_no_more_is_waited_for() {
    let before = Some(("file:///archive".into(), at(22, 0)));
    let rule = TableRule { archive_before: before, ..rule("Log", DAY) };
    let mut view = noon(&[sealed("Log20261101")], rule);
    assert_eq!(reasons(&super::super::plan(&view)), [("Log20261101".into(), HoldReason::Grace { until: at(22, 0) })]);
    view.archives = vec![archived("Log20261101")];
    assert_eq!(drops(&super::super::plan(&view)), ["Log20261101"]);
    view.archives.clear();
    view.clock.now = at(22, 0);
    assert_eq!(drops(&super::super::plan(&view)), ["Log20261101"]);
}

#[test]
fn a_restored_day_goes_after_its_time_and_with_its_archive_only() {
    let restored = |expires| {
        let state = DayState::Restored { expires, origin: day("Log20261001") };
        TableState { state, ..sealed("Incident20261001") }
    };
    let mut view = noon(&[restored(at(22, 0))], with_archive());
    view.archives = vec![archived("Log20261001")];
    assert_eq!(super::super::plan(&view).held_back, [], "no rule has its name, and none is needed");
    view.tables = vec![restored(at(21, 12))];
    assert_eq!(drops(&super::super::plan(&view)), ["Incident20261001"]);
    view.archives.clear();
    assert_eq!(reasons(&super::super::plan(&view)), [("Incident20261001".into(), HoldReason::NoPermit)]);
}

#[test]
fn a_day_that_was_made_while_the_clock_was_behind_goes_by_patience() {
    let behind = TableState { is_behind: true, ..open("Log20261001") };
    let mut view = noon(&[behind], rule("Log", 5 * DAY));
    view.limits.seal_after = 100 * DAY;
    assert_eq!(reasons(&super::super::plan(&view)), [("Log20261001".into(), HoldReason::ClockWasBehind)]);
    view.tables[0].watched = 6 * DAY;
    assert_eq!(drops(&super::super::plan(&view)), ["Log20261001"]);
}

#[test]
fn a_day_that_a_receiver_lacks_is_neither_sealed_nor_dropped_but_for_its_bytes() {
    let lacked = TableState { is_unforwarded: true, ..open("Log20261001") };
    let over = TableState { is_unforwarded: true, ..open("Log20261119") };
    let mut view = noon(&[lacked, over], rule("Log", 5 * DAY));
    assert_eq!(steps(&super::super::plan(&view)), [""; 0]);
    assert_eq!(reasons(&super::super::plan(&view)), [("Log20261001".into(), HoldReason::Unforwarded)]);
    view.limits.max_bytes = Some(1);
    view.limits.grace = Duration::ZERO;
    assert_eq!(drops(&super::super::plan(&view)), ["Log20261001", "Log20261119"]);
    view.limits.max_bytes = None;
    view.tables.iter_mut().for_each(|state| state.is_unforwarded = false);
    assert_eq!(drops(&super::super::plan(&view)), ["Log20261001"]);
}

#[test]
fn an_import_keeps_an_expired_day_also_above_the_limit_of_the_folder() {
    let kept = TableState { kept_until: Some(at(25, 0)), ..open("Log20260101") };
    let mut view = noon(&[kept], rule("Log", 5 * DAY));
    view.limits.seal_after = 999 * DAY;
    assert_eq!(drops(&super::super::plan(&view)), [""; 0]);
    assert!(reasons(&super::super::plan(&view)).is_empty());
    let next = super::super::next(&view, &view.tables[0]).expect("a step");
    assert_eq!((next.step, next.at), ("drop", Some(at(25, 0))));
    view.limits.max_bytes = Some(1);
    view.limits.grace = Duration::ZERO;
    let reason = HoldReason::Imported { until: at(25, 0) };
    assert_eq!(reasons(&super::super::plan(&view)), [("Log20260101".into(), reason)]);
    view.limits.max_bytes = None;
    (view.clock.now, view.clock.newest_record) = (at(25, 1), Some(at(25, 0)));
    assert_eq!(drops(&super::super::plan(&view)), ["Log20260101"]);
}

#[test]
fn so_many_days_stay_however_old() {
    let tables = [open("Log20261101"), open("Log20261102"), TableState::empty(day("Log20261103"))];
    let mut view = noon(&tables, rule("Log", DAY));
    view.limits.min_tables = 1;
    let planned = super::super::plan(&view);
    assert_eq!(drops(&planned), ["Log20261101", "Log20261103"], "an empty day is not one of them");
    assert_eq!(reasons(&planned), [("Log20261102".into(), HoldReason::Floor(1))]);
}

#[test]
fn under_pressure_the_oldest_days_go_first() {
    let days = ["Log20261117", "Log20261118", "Log20261119", "Log20261121"].map(open);
    let mut view = noon(&days, rule("Log", 30 * DAY));
    view.limits.seal_after = 100 * DAY;
    view.limits.max_bytes = Some(1500);
    assert_eq!(drops(&super::super::plan(&view)), ["Log20261117", "Log20261118"]);
    view.limits.max_bytes = Some(700);
    assert_eq!(drops(&super::super::plan(&view)), ["Log20261117", "Log20261118", "Log20261119"], "today's stays");
    view.pressure_since = at(21, 0);
    assert_eq!(drops(&super::super::plan(&view)), [""; 0], "the bound was set today: it waits");
    view.pressure_since = Ticks::MIN;
    view.clock.newest_record = Some(at(10, 0));
    assert_eq!(drops(&super::super::plan(&view)), [""; 0], "nothing confirms the clock");
}

#[test]
fn where_today_alone_exceeds_the_limit_no_day_goes_and_that_is_said() {
    let days = ["Audit20261101", "Log20261117", "Log20261118", "Log20261121"].map(open);
    let mut view = noon(&days, rule("Log", 30 * DAY));
    view.rules.push(rule("Audit", 400 * DAY));
    view.limits.seal_after = 100 * DAY;
    view.limits.max_bytes = Some(699);
    assert_eq!(drops(&super::super::plan(&view)), [""; 0]);
    let said = today_exceeds(&view)[0].to_string();
    assert!(
        said.contains("have 700 bytes, 699 is the most") && said.contains("Log holds 2100, Audit holds 700"),
        "{said}"
    );
    view.limits.max_bytes = Some(700);
    assert_eq!(today_exceeds(&view), []);
    view.limits.max_bytes = None;
    limit_table(&mut view.rules[0], 699);
    assert_eq!(drops(&super::super::plan(&view)), [""; 0]);
    let said = today_exceeds(&view)[0].to_string();
    assert!(said.contains("days of Log that are not over have 700 bytes, 699 is its most"), "{said}");
    limit_table(&mut view.rules[0], 700);
    assert_eq!(today_exceeds(&view), []);
    assert_eq!(drops(&super::super::plan(&view)), ["Log20261117", "Log20261118"], "those of other tables stay");
}

/// A limit of the table's own, for so long that it applies.
fn limit_table(rule: &mut TableRule, bytes_max: u64) {
    (rule.max_bytes, rule.max_bytes_since) = (Some(bytes_max), Some(Ticks::MIN));
}

#[test]
fn a_table_above_its_own_limit_gives_its_oldest_days() {
    let days = ["Audit20261101", "Log20261117", "Log20261118", "Log20261119"].map(open);
    let mut view = noon(&days, rule("Log", 30 * DAY));
    view.rules.push(rule("Audit", 400 * DAY));
    view.limits.seal_after = 100 * DAY;
    limit_table(&mut view.rules[0], 1400);
    let planned = super::super::plan(&view);
    assert_eq!(drops(&planned), ["Log20261117"]);
    let why = planned.steps.iter().find(|planned| planned.step.name() == "drop").map(|planned| planned.why.to_string());
    let expected = "the days of its table have 2100 bytes, 1400 is their most (`max_bytes` of [[table]])";
    assert_eq!(why.as_deref(), Some(expected));
    view.rules[0].max_bytes_since = Some(at(21, 0));
    assert_eq!(drops(&super::super::plan(&view)), [""; 0], "the limit was set today: it waits");
    view.rules[0].max_bytes_since = None;
    assert_eq!(drops(&super::super::plan(&view)), [""; 0], "the catalog does not know it yet");
    limit_table(&mut view.rules[0], 1400);
    view.limits.max_bytes = Some(1500);
    assert_eq!(drops(&super::super::plan(&view)), ["Log20261117", "Log20261118"], "what is still too much");
}

#[test]
fn shares_are_in_proportion_to_the_limits_of_tables() {
    let days = ["Audit20261117", "Audit20261118", "Log20261117", "Log20261118"].map(open);
    let mut view = noon(&days, rule("Log", 30 * DAY));
    view.rules.push(rule("Audit", 400 * DAY));
    view.limits.seal_after = 100 * DAY;
    view.limits.max_bytes = Some(2100);
    for (of_log, of_audit, gone) in [
        (9000, 3000, "Audit20261117"),
        (3000, 9000, "Log20261117"),
        // Without a limit of its own: with an equal part, which is 1050 here.
        (3000, 0, "Audit20261117"),
    ] {
        for (rule, bytes_max) in view.rules.iter_mut().zip([of_log, of_audit]) {
            limit_table(rule, bytes_max);
            rule.max_bytes = rule.max_bytes.filter(|bytes_max| *bytes_max > 0);
        }
        assert_eq!(drops(&super::super::plan(&view)), [gone]);
    }
}

#[test]
fn under_pressure_a_table_within_its_share_keeps_its_days() {
    let noisy = ["Log20261117", "Log20261118", "Log20261119", "Log20261120"].map(open);
    let small = ["Audit20261001", "Audit20261002"].map(|name| TableState { bytes: 50, ..open(name) });
    let mut view = noon(&[&noisy[..], &small].concat(), rule("Log", 60 * DAY));
    view.rules.push(rule("Audit", 400 * DAY));
    view.limits.seal_after = 100 * DAY;
    for (bytes_max, gone) in [(2900, 0), (2899, 1), (1500, 2), (800, 3)] {
        view.limits.max_bytes = Some(bytes_max);
        let expected: Vec<String> = noisy[..gone].iter().map(|state| state.table.to_string()).collect();
        assert_eq!(drops(&super::super::plan(&view)), expected, "{bytes_max}");
    }
}

#[test]
fn under_pressure_a_day_is_archived_before_it_goes() {
    let mut view = noon(&[open("Log20261117"), sealed("Log20261118")], with_archive());
    view.limits.seal_after = 100 * DAY;
    view.limits.max_bytes = Some(1);
    view.archives = vec![archived("Log20261118")];
    let planned = super::super::plan(&view);
    assert_eq!(steps(&planned), ["seal Log20261117"], "a younger one does not go in its place");
    assert_eq!(reasons(&planned), [("Log20261117".into(), HoldReason::NoPermit)]);
    view.limits.drop_unarchived = true;
    assert_eq!(steps(&super::super::plan(&view)), ["drop_unarchived Log20261117", "drop Log20261118"]);
}

#[test]
fn archives_go_when_a_later_one_is_there_or_their_time_is_over() {
    let newer = Archived { generation: 4, ..archived("Log20261101") };
    let old = Archived { is_superseded: true, ..archived("Log20261101") };
    let removed = |view: &View| -> Vec<(i64, StepReason)> {
        let steps = super::super::plan(view).steps.into_iter();
        steps
            .filter_map(|p| if let LifecycleStep::RemoveArchive(_, n, _) = p.step { Some((n, p.why)) } else { None })
            .collect()
    };
    let mut view = noon(&[gone("Log20261101")], with_archive());
    view.archives = vec![old.clone()];
    assert_eq!(removed(&view), [], "the later one is not there");
    view.archives = vec![old, newer.clone()];
    assert_eq!(removed(&view), [(2, StepReason::Superseded)]);
    view.archives = vec![newer];
    view.rules[0].keep_archives = Some(10 * DAY);
    assert_eq!(removed(&view), [(4, StepReason::ArchiveExpired(at(12, 0)))]);
    view.rules[0].archives_until = Some(at(22, 0));
    assert_eq!(removed(&view), [], "they were kept longer until lately");
    view.rules[0].archives_until = None;
    view.tables.push(TableState {
        state: DayState::Restored { expires: at(29, 0), origin: day("Log20261101") },
        ..sealed("Incident20261101")
    });
    assert_eq!(removed(&view), [], "a copy of it stands");
    view.tables.pop();
    view.clock.newest_record = None;
    assert_eq!(removed(&view), [], "nothing confirms the clock");
}

prop_compose! {
    /// A day in any state, with or without the files of that state.
    fn any_life()(
        name in prop_oneof![3 => Just("Log"), 1 => Just("Debug"), 1 => Just("Stranger")], time in near(),
        unsealed_rows in prop_oneof![Just(0_u64), 1..9_u64], is_sealed in any::<bool>(), is_closed in any::<bool>(),
        state in 0..6_u8, expires in near(), watched in prop_oneof![Just(0_u64), 0..100_u64],
    ) -> TableState {
        let table = DayTable::at(&TableName::new(name).expect("a name"), Period::Day, time);
        let state = match state {
            0 => DayState::Dropped,
            1 => DayState::Restored { expires, origin: table.clone() },
            _ => DayState::Open,
        };
        if state == DayState::Dropped {
            return gone(&table.to_string());
        }
        let sealed = is_sealed.then(|| SealedGeneration { generation: 2, seal: seal(7) });
        TableState {
            is_closed: is_closed && unsealed_rows > 0,
            kept_rows: if watched % 3 == 1 { unsealed_rows } else { 0 },
            is_unforwarded: false,
            is_behind: watched % 7 == 3, kept_until: None, interrupted: Vec::new(), unsealed_rows, sealed, bytes: 100, watched: DAY * watched as u32, state, table,
        }
    }
}

prop_compose! {
    fn any_view()(
        tables in proptest::collection::vec(any_life(), 0..30), log in any_rule("Log"), debug in any_rule("Debug"),
        now in near(), newest in proptest::option::weighted(0.8, near()), max in 1u16..20, min_tables in 0u16..4,
        max_bytes in proptest::option::of(1u64..3000), archived_days in proptest::collection::vec(0_usize..30, 0..20),
        drop_unarchived in proptest::bool::weighted(0.1), newest_watched in 0..100_u32,
        own_max in proptest::option::weighted(0.3, 1u64..1500),
    ) -> View {
        let mut known = BTreeSet::new();
        let tables: Vec<TableState> = tables.into_iter().filter(|state| known.insert(state.table.clone())).collect();
        let limits = LifecycleLimits { seal_after: DAY / 4, min_tables, max_bytes, drop_unarchived, ..limits(max) };
        let with_archive = archived_days.iter().filter_map(|&n| tables.get(n));
        let archives = with_archive.map(|state| archived(&state.table.to_string())).collect();
        let log = TableRule { max_bytes: own_max, max_bytes_since: own_max.map(|_| Ticks::MIN), ..log };
        let mut view = view(&tables, &[log, debug], now, newest, &limits);
        view.clock.newest_watched = DAY * newest_watched;
        View { archives, ..view }
    }
}

/// Whether a limit of bytes may drop days.
fn has_limit(view: &View) -> bool {
    view.limits.max_bytes.is_some() || view.rules.iter().any(|rule| rule.max_bytes.is_some())
}

fn dropped_states<'v>(view: &'v View, plan: &LifecyclePlan) -> Vec<&'v TableState> {
    let tables = plan.steps.iter().filter_map(|planned| match &planned.step {
        LifecycleStep::Drop(table) | LifecycleStep::DropUnarchived(table) => Some(table),
        _ => None,
    });
    tables.map(|table| view.tables.iter().find(|state| state.table == *table).expect("it is in the view")).collect()
}

proptest! {
    /// For any folder, rules and clock: a dropped day that requires an archive has an archive of exactly its rows.
    /// Only `drop_unarchived` under pressure is exempt. The rule covers restored days too.
    #[test]
    fn nothing_is_dropped_without_its_permit(view in any_view()) {
        let planned = super::super::plan(&view);
        for state in dropped_states(&view, &planned) {
            let place = match (&state.state, view.rule_of(&state.table).map(|rule| &rule.archive)) {
                (DayState::Restored { .. }, _) => None,
                (_, Some(ArchiveRequirement::At(place))) => Some(&**place),
                _ => continue,
            };
            let may_do_without = view.limits.drop_unarchived && has_limit(&view);
            let is_proven = view.is_proven(state, place);
            prop_assert!(is_proven || may_do_without, "{:?}", state);
            let by_permit = planned.steps.iter().any(|planned| planned.step == LifecycleStep::Drop(state.table.clone()));
            prop_assert_eq!(by_permit, is_proven, "{:?}", state);
        }
    }

    /// A day that accepts records is dropped only under pressure. A day whose period is not over is never dropped.
    #[test]
    fn today_is_never_dropped(view in any_view()) {
        for state in dropped_states(&view, &super::super::plan(&view)) {
            if state.state != DayState::Open {
                continue;
            }
            prop_assert!(state.table.end() <= view.clock.now, "{} is not over", state.table);
            let rule = view.rule_of(&state.table).expect("it has a rule");
            let is_own = rule.window.admits(&state.table, view.clock.now) == Admission::Own;
            prop_assert!(!is_own || has_limit(&view), "{} takes records", state.table);
        }
    }

    /// Removing an archive never causes another drop, unless pressure continues with the next day: each day dropped
    /// without the archive is also dropped with it.
    #[test]
    fn fewer_archives_never_drop_more(mut view in any_view(), gone in any::<prop::sample::Index>()) {
        view.limits.max_bytes = None;
        view.rules.iter_mut().for_each(|rule| rule.max_bytes = None);
        // A limit on drops would let another day go in place of the blocked day.
        view.limits.drops_per_run_max = NonZeroU16::MAX;
        view.limits.min_tables = 0;
        let with: BTreeSet<String> = drops(&super::super::plan(&view)).into_iter().collect();
        if view.archives.is_empty() {
            return Ok(());
        }
        let gone = gone.index(view.archives.len());
        view.archives.remove(gone);
        for table in drops(&super::super::plan(&view)) {
            prop_assert!(with.contains(&table), "{} is dropped for the want of an archive", table);
        }
    }

    /// A clock ten years ahead of new records drops no day and removes no archive. Exempt are superseded archives, and
    /// restored copies under pressure: neither depends on the clock.
    #[test]
    fn a_clock_far_ahead_drops_nothing(mut view in any_view(), newest in near()) {
        view.clock.now = newest.plus(3652 * DAY);
        view.clock.newest_record = Some(newest);
        view.clock.newest_watched = Duration::from_secs(3600);
        let planned = super::super::plan(&view);
        let is_copy = |state: &TableState| matches!(state.state, DayState::Restored { .. });
        let dropped = dropped_states(&view, &planned);
        prop_assert!(dropped.iter().all(|state| is_copy(state) && view.limits.max_bytes.is_some()), "{:?}", dropped);
        let is_removal = |p: &&PlannedStep| matches!(p.step, LifecycleStep::RemoveArchive(..)) && p.why != StepReason::Superseded;
        prop_assert_eq!(planned.steps.iter().filter(is_removal).count(), 0);
    }

    /// Under pressure, a table gives a day only while it has more than its share of the limit, and nothing goes where today
    /// alone exceeds the limit.
    #[test]
    fn only_a_table_above_its_share_gives_days(view in any_view()) {
        let planned = super::super::plan(&view);
        let Some(bytes_max) = view.limits.max_bytes else { return Ok(()) };
        let is_early = |planned: &&PlannedStep| matches!(planned.why, StepReason::Pressure { .. });
        let early: Vec<&DayTable> = planned.steps.iter().filter(is_early).map(|planned| planned.step.table()).collect();
        prop_assert!(early.is_empty() || today_exceeds(&view).iter().all(|excess| excess.table.is_some()));
        let dropped: Vec<&DayTable> = dropped_states(&view, &planned).iter().map(|state| &state.table).collect();
        let is_day = |state: &&TableState| state.exists() && !matches!(state.state, DayState::Restored { .. });
        let names: BTreeSet<&TableName> =
            view.tables.iter().filter(is_day).map(|state| state.table.table()).collect();
        let is_for_own = |planned: &&PlannedStep| matches!(planned.why, StepReason::TablePressure { .. });
        let of_own_limit: Vec<&DayTable> =
            planned.steps.iter().filter(is_for_own).map(|planned| planned.step.table()).collect();
        // The least share that a table can have, whichever tables have bytes left.
        let own = |name: &TableName| view.rule_named(name).and_then(|rule| rule.max_bytes);
        let shares: BTreeMap<&TableName, u64> = names
            .iter()
            .map(|name| {
                let weight = |name: &TableName, equal: u64| u128::from(own(name).unwrap_or(equal));
                let least = weight(name, bytes_max / names.len() as u64);
                let others: u128 = names.iter().filter(|other| *other != name).map(|name| weight(name, bytes_max)).sum();
                let share = least * u128::from(bytes_max) / (least + others).max(1);
                (*name, u64::try_from(share).unwrap_or(u64::MAX))
            })
            .collect();
        for name in &names {
            let days: Vec<&TableState> =
                view.tables.iter().filter(is_day).filter(|state| state.table.table() == *name).collect();
            let gone: Vec<u64> = days.iter().filter(|day| early.contains(&&day.table)).map(|day| day.bytes).collect();
            let left: u64 = days.iter().filter(|day| !dropped.contains(&&day.table)).map(|day| day.bytes).sum();
            // Before its last day went, the table had more than its share.
            let most = gone.iter().max().copied().unwrap_or_default();
            prop_assert!(gone.is_empty() || left + most > shares[name], "{}", name);
            let gone_for_own = days.iter().filter(|day| of_own_limit.contains(&&day.table)).map(|day| day.bytes).max();
            prop_assert!(gone_for_own.is_none_or(|most| own(name).is_some_and(|own| left + gone.iter().sum::<u64>() + most > own)), "{}", name);
        }
    }

    /// The minimum number of days of each table stays, and no run exceeds its limit of drops.
    #[test]
    fn floors_hold(view in any_view()) {
        let planned = super::super::plan(&view);
        let dropped = dropped_states(&view, &planned);
        prop_assert!(dropped.len() <= usize::from(view.limits.drops_per_run_max.get()));
        for rule in &view.rules {
            let counts = |state: &&TableState| {
                state.state == DayState::Open && state.rows() > 0 && *state.table.table() == rule.name
            };
            let stood = view.tables.iter().filter(counts).count();
            let went = dropped.iter().copied().filter(|state| counts(state)).count();
            prop_assert!(went == 0 || stood - went >= usize::from(view.limits.min_tables));
        }
    }

    /// A plan has at most one step per day. A forecast ends: only steps that the limits of a run postponed remain.
    #[test]
    fn a_forecast_ends(mut view in any_view()) {
        view.limits.max_bytes = None;
        let planned = super::super::plan(&view);
        let mut seen = BTreeSet::new();
        for planned in &planned.steps {
            let is_of_archive = matches!(planned.step, LifecycleStep::RemoveArchive(..));
            prop_assert!(is_of_archive || seen.insert(planned.step.table()), "two steps of {}", planned.step.table());
        }
        let told = forecast(&view);
        for planned in &told.steps {
            view.take(&planned.step);
        }
        let left = super::super::plan(&view);
        prop_assert_eq!(&left.steps, &[] as &[PlannedStep]);
    }
}
