//! Plans for every state of a table.

use super::*;
use crate::HoldReason;
use crate::clock::length;
use daytable_model::key::Period;
use daytable_model::window::Admission;
use proptest::prelude::*;

mod lives;

const DAY: Duration = Duration::from_secs(86_400);

fn day(name: &str) -> DayTable {
    DayTable::parse(name).expect("a day-table")
}

/// An open day with rows.
fn open(name: &str) -> TableState {
    TableState { unsealed_rows: 7, bytes: 700, ..TableState::empty(day(name)) }
}

fn gone(name: &str) -> TableState {
    TableState { state: DayState::Dropped, ..TableState::empty(day(name)) }
}

fn seal(rows: u64) -> Seal {
    Seal { bytes: 50 * rows, sha256: format!("of {rows} rows"), rows, times: None, at: at(2, 0) }
}

/// A day that was sealed long ago, as generation 2.
fn sealed(name: &str) -> TableState {
    let sealed = Some(SealedGeneration { generation: 2, seal: seal(7) });
    TableState { sealed, bytes: 350, ..TableState::empty(day(name)) }
}

const PLACE: &str = "file:///archive";

/// The archive of a day from [`sealed`].
fn archived(name: &str) -> Archived {
    let (table, seal, manifest) = (day(name), seal(7), "".into());
    Archived { table, generation: 2, url: PLACE.into(), seal, verified: at(2, 1), is_superseded: false, manifest }
}

fn required() -> ArchiveRequirement {
    ArchiveRequirement::At(PLACE.into())
}

/// A view with `min_tables` off; that limit has its own tests.
fn view(
    tables: &[TableState],
    rules: &[TableRule],
    now: Ticks,
    newest: Option<Ticks>,
    limits: &LifecycleLimits,
) -> View {
    View {
        tables: tables.to_vec(),
        archives: Vec::new(),
        rules: rules.to_vec(),
        limits: *limits,
        clock: Clock { now, newest_record: newest, newest_watched: Duration::ZERO },
        bytes: tables.iter().map(|state| state.bytes).sum(),
        journal_bytes: 0,
        other_bytes: 0,
        pressure_since: Ticks::MIN,
        dropped: 0,
    }
}

/// A plan without archives.
fn plan(
    tables: &[TableState],
    rules: &[TableRule],
    now: Ticks,
    newest: Option<Ticks>,
    limits: &LifecycleLimits,
) -> LifecyclePlan {
    super::plan(&view(tables, rules, now, newest, limits))
}

#[test]
fn a_step_that_was_interrupted_twice_is_left_for_a_day_and_its_day_is_named() {
    let interrupted = |times, began| {
        let table = day("Log20261120");
        let of = InterruptedStep { table: table.clone(), step: SEAL.into(), times, began };
        TableState { interrupted: vec![of], ..open("Log20261120") }
    };
    let limits = LifecycleLimits { seal_after: Duration::ZERO, ..limits(9) };
    let rules = [rule("Log", 30 * DAY)];
    let now = at(22, 0);
    let planned = |state: TableState| {
        let plan = plan(&[state], &rules, now, Some(now), &limits);
        let is_sealed = plan.steps.iter().any(|planned| planned.step == LifecycleStep::Seal(day("Log20261120")));
        (is_sealed, plan.held_back.into_iter().map(|held| held.reason).collect::<Vec<_>>())
    };
    assert_eq!(planned(interrupted(1, at(21, 12))), (true, vec![]), "once");
    let until = at(22, 12);
    assert_eq!(
        planned(interrupted(2, at(21, 12))),
        (false, vec![HoldReason::Interrupted { step: SEAL, times: 2, until }])
    );
    assert_eq!(planned(interrupted(3, at(20, 23))), (true, vec![]), "a day later");
    assert_eq!(planned(interrupted(2, at(23, 0))), (true, vec![]), "by a wrong clock");
    let due = |state: TableState| next(&view(std::slice::from_ref(&state), &rules, now, Some(now), &limits), &state);
    assert_eq!(due(interrupted(2, at(21, 12))), Some(NextStep { step: SEAL, at: Some(until) }));
    assert_eq!(due(interrupted(1, at(21, 12))), Some(NextStep { step: SEAL, at: None }));
    // A day that is left still expires.
    let expired =
        plan(&[interrupted(2, at(21, 12))], &[rule("Log", Duration::from_secs(3600))], now, Some(now), &limits);
    assert_eq!(expired.steps.iter().map(|of| of.step.name()).next_back(), Some("drop"));
    // Another step of the day was not interrupted.
    let of = InterruptedStep { table: day("Log20261120"), step: ARCHIVE.into(), times: 9, began: now };
    assert_eq!(planned(TableState { interrupted: vec![of], ..open("Log20261120") }), (true, vec![]));
}

fn rule(name: &str, keep: Duration) -> TableRule {
    TableRule {
        name: TableName::new(name).expect("a name"),
        window: Window { keep, period: Period::Day },
        archive: ArchiveRequirement::None,
        keep_archives: None,
        shortened: None,
        archive_before: None,
        archives_until: None,
        max_bytes: None,
        max_bytes_since: None,
    }
}

fn at(day: u32, hour: u64) -> Ticks {
    Ticks::from_date(2026, 11, day).expect("a date").plus(Duration::from_secs(3600 * hour))
}

fn limits(drops: u16) -> LifecycleLimits {
    let drops_per_run_max = NonZeroU16::new(drops).expect("not zero");
    LifecycleLimits {
        drops_per_run_max,
        grace: DAY,
        min_tables: 0,
        seal_after: 100 * DAY,
        ..LifecycleLimits::default()
    }
}

fn drops(plan: &LifecyclePlan) -> Vec<String> {
    plan.steps
        .iter()
        .filter_map(
            |planned| if let LifecycleStep::Drop(table) = &planned.step { Some(table.to_string()) } else { None },
        )
        .collect()
}

fn creates(plan: &LifecyclePlan) -> Vec<String> {
    plan.steps
        .iter()
        .filter_map(
            |planned| if let LifecycleStep::Create(table) = &planned.step { Some(table.to_string()) } else { None },
        )
        .collect()
}

fn reasons(plan: &LifecyclePlan) -> Vec<(String, HoldReason)> {
    plan.held_back.iter().map(|held| (held.table.to_string(), held.reason.clone())).collect()
}

#[test]
fn an_empty_store_gets_today_and_tomorrow() {
    let plan = plan(&[], &[rule("Debug", DAY), rule("Log", DAY)], at(21, 12), None, &limits(9));
    assert_eq!(creates(&plan), ["Debug20261121", "Debug20261122", "Log20261121", "Log20261122"]);
    assert_eq!(plan.held_back, []);
}

#[test]
fn what_was_dropped_is_neither_created_nor_dropped_again() {
    let tables = [gone("Log20261101"), gone("Log20261121"), open("Log20261122")];
    let plan = plan(&tables, &[rule("Log", DAY)], at(21, 12), Some(at(21, 12)), &limits(9));
    assert_eq!(plan, LifecyclePlan::default());
}

#[test]
fn days_go_when_their_end_and_keep_have_passed_the_oldest_first() {
    let tables = [open("Log20261119"), open("Log20261117"), open("Log20261118"), open("Log20261121")];
    let rules = [rule("Log", 2 * DAY)];
    let planned = plan(&tables, &rules, at(21, 0), Some(at(20, 23)), &limits(9));
    assert_eq!(drops(&planned), ["Log20261117", "Log20261118"]);
    let planned = plan(&tables, &rules, at(21, 0), Some(at(20, 23)), &limits(1));
    assert_eq!(drops(&planned), ["Log20261117"]);
    assert_eq!(reasons(&planned), [("Log20261118".into(), HoldReason::OverLimit(NonZeroU16::MIN))]);
}

#[test]
fn a_clock_ahead_of_the_records_drops_nothing() {
    let tables = [open("Log20261101")];
    let rules = [rule("Log", DAY)];
    let newest_record = at(10, 6);
    let planned = plan(&tables, &rules, at(11, 7), Some(newest_record), &limits(9));
    assert_eq!(reasons(&planned), [("Log20261101".into(), HoldReason::ClockAhead { newest_record })]);
    assert_eq!(drops(&planned), [""; 0]);
    assert_eq!(drops(&plan(&tables, &rules, at(11, 6), Some(newest_record), &limits(9))), ["Log20261101"]);
}

#[test]
fn without_a_record_time_nothing_confirms_the_clock() {
    let planned = plan(&[open("Log20261101")], &[rule("Log", DAY)], at(21, 0), None, &limits(9));
    assert_eq!(reasons(&planned), [("Log20261101".into(), HoldReason::NoRecordTime)]);
    assert_eq!(drops(&planned), [""; 0]);
}

#[test]
fn a_shorter_keep_waits_for_its_grace() {
    let tables = [open("Log20261105"), open("Log20261115")];
    let mut short = rule("Log", 2 * DAY);
    short.shortened = Some(ShorterKeep { keep_before: 10 * DAY, since: at(20, 12) });
    let planned = plan(&tables, std::slice::from_ref(&short), at(21, 0), Some(at(21, 0)), &limits(9));
    // The first day had outlived the longer `keep` too.
    assert_eq!(drops(&planned), ["Log20261105"]);
    assert_eq!(reasons(&planned), [("Log20261115".into(), HoldReason::Grace { until: at(21, 12) })]);
    let planned = plan(&tables, &[short], at(21, 12), Some(at(21, 12)), &limits(9));
    assert_eq!(drops(&planned), ["Log20261105", "Log20261115"]);
}

#[test]
fn an_archive_that_cannot_be_shown_keeps_the_day() {
    let archived = TableRule { archive: required(), ..rule("Log", DAY) };
    let planned = plan(&[open("Log20261101")], &[archived], at(21, 0), Some(at(21, 0)), &limits(9));
    assert_eq!(reasons(&planned), [("Log20261101".into(), HoldReason::NoPermit)]);
}

#[test]
fn tables_of_another_name_or_period_stay() {
    let tables = [open("Audit20261101"), open("Log2026110112"), open("Log202610"), open("log20261101")];
    let planned = plan(&tables, &[rule("Log", DAY)], at(21, 0), Some(at(21, 0)), &limits(9));
    assert_eq!(drops(&planned), [""; 0]);
    let names: Vec<&str> = planned.held_back.iter().map(|held| held.reason.name()).collect();
    assert_eq!(names, ["other_period", "other_period", "not_configured", "not_configured"]);
}

#[test]
fn the_last_day_of_the_calendar_has_no_tomorrow() {
    let planned = plan(&[], &[rule("Log", DAY)], Ticks::MAX, Some(Ticks::MAX), &limits(9));
    assert_eq!(creates(&planned), ["Log99991231"]);
}

fn period() -> impl Strategy<Value = Period> {
    prop_oneof![Just(Period::Hour), Just(Period::Day), Just(Period::Month)]
}

prop_compose! {
    /// A time within a few days of 2026-11-21, so that windows apply.
    fn near()(hours in 0u64..24 * 90, nanos in 0u64..1_000_000_000) -> Ticks {
        Ticks::from_date(2026, 10, 1).expect("a date").plus(Duration::from_secs(3600 * hours) + Duration::from_nanos(nanos))
    }
}

prop_compose! {
    fn any_rule(name: &'static str)(
        keep in 0u64..40 * 24, period in period(), archived in any::<bool>(),
        shortened in proptest::option::of((0u64..80 * 24, near())),
    ) -> TableRule {
        TableRule {
            name: TableName::new(name).expect("a name"),
            window: Window { keep: Duration::from_secs(3600 * keep), period },
            archive: if archived { required() } else { ArchiveRequirement::None },
            shortened: shortened.map(|(hours, since)| ShorterKeep { keep_before: Duration::from_secs(3600 * hours), since }),
            ..rule(name, Duration::ZERO)
        }
    }
}

prop_compose! {
    fn any_table()(
        name in prop_oneof![Just("Log"), Just("Debug"), Just("Stranger")], period in period(), time in near(),
        dropped in proptest::bool::weighted(0.2),
    ) -> TableState {
        let name = TableName::new(name).expect("a name");
        let table = DayTable::at(&name, period, time).to_string();
        if dropped { gone(&table) } else { open(&table) }
    }
}

proptest! {
    /// For any tables, rules and clock: a dropped table exists, matches a rule by name and period, and accepts no
    /// records. Its age is confirmed by the newest record, and drops stay within the limit. Created tables are not in
    /// the list. Every expired table is either dropped or held back.
    #[test]
    fn only_what_everything_agrees_on_is_dropped(
        tables in proptest::collection::vec(any_table(), 0..60), log in any_rule("Log"), debug in any_rule("Debug"),
        now in prop_oneof![4 => near(), 1 => (0..=daytable_model::time::MAX_TICKS).prop_map(|t| Ticks::new(t).expect("in range"))],
        newest in proptest::option::weighted(0.9, near()), max in 1u16..20,
    ) {
        let rules = [log, debug];
        let planned = plan(&tables, &rules, now, newest, &limits(max));
        let mut seen = BTreeSet::new();
        let mut last_end = Ticks::MIN;
        for PlannedStep { step, .. } in &planned.steps {
            match step {
                LifecycleStep::Create(table) => {
                    prop_assert!(tables.iter().all(|state| state.table != *table));
                    let rule = rules.iter().find(|rule| rule.name == *table.table()).expect("a rule");
                    prop_assert_eq!(rule.window.admits(table, now), Admission::Own);
                }
                LifecycleStep::Drop(table) => {
                    prop_assert!(tables.iter().any(|state| state.table == *table && state.state == DayState::Open));
                    prop_assert!(tables.iter().all(|state| state.table != *table || state.state == DayState::Open));
                    let rule = rules.iter().find(|rule| rule.name == *table.table()).expect("a rule");
                    prop_assert_eq!(rule.window.period, table.period());
                    prop_assert_eq!(&rule.archive, &ArchiveRequirement::None);
                    prop_assert_eq!(rule.window.admits(table, now), Admission::Late);
                    let newest = newest.expect("nothing is dropped without a record's time");
                    let believed = newest.plus(length(table.period(), newest));
                    prop_assert!(rule.window.expired(table, believed), "a wrong clock dropped {}", table);
                    prop_assert!(last_end <= table.end(), "the oldest goes first");
                    last_end = table.end();
                }
                LifecycleStep::Seal(table) => prop_assert!(rules.iter().any(|rule| rule.name == *table.table())),
                LifecycleStep::Archive(..) | LifecycleStep::RemoveArchive(..) | LifecycleStep::DropUnarchived(_) => prop_assert!(false, "nothing is sealed, and nothing presses: {:?}", step),
            }
            prop_assert!(seen.insert(format!("{step:?}")), "one step twice: {:?}", step);
        }
        prop_assert!(drops(&planned).len() <= usize::from(max));
        for state in tables.iter().filter(|state| state.state == DayState::Open) {
            let Some(rule) = rules.iter().find(|rule| rule.name == *state.table.table()) else { continue };
            let told = planned.steps.iter().any(|planned| planned.step == LifecycleStep::Drop(state.table.clone()))
                || planned.held_back.iter().any(|held| held.table == state.table)
                || tables.iter().any(|other| other.table == state.table && other.state == DayState::Dropped);
            prop_assert!(told || !rule.window.expired(&state.table, now));
        }
    }

    /// A second plan at the same time creates no table, and drops only the tables beyond the limit of the first run.
    #[test]
    fn a_plan_that_was_carried_out_is_not_planned_again(
        tables in proptest::collection::vec(any_table(), 0..60), log in any_rule("Log"), now in near(), newest in near(),
    ) {
        let rules = [log];
        let planned = plan(&tables, &rules, now, Some(newest), &limits(1000));
        let mut after = tables.clone();
        for PlannedStep { step, .. } in planned.steps {
            match step {
                LifecycleStep::Create(table) => after.push(TableState::empty(table)),
                LifecycleStep::Drop(table) => after.push(gone(&table.to_string())),
                LifecycleStep::Seal(table) => {
                    for state in after.iter_mut().filter(|state| state.table == table) {
                        *state = sealed(&table.to_string());
                    }
                }
                LifecycleStep::Archive(..) | LifecycleStep::RemoveArchive(..) | LifecycleStep::DropUnarchived(_) => prop_assert!(false, "nothing is sealed, and nothing presses: {:?}", step),
            }
        }
        let again = plan(&after, &rules, now, Some(newest), &limits(1000)).steps;
        let of_archives = |planned: &PlannedStep| matches!(planned.step, LifecycleStep::Archive(..));
        prop_assert_eq!(again.iter().filter(|planned| !of_archives(planned)).collect::<Vec<_>>(), [] as [&PlannedStep; 0]);
    }
}
