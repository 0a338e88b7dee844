//! Sorts and groups in a temporary file are those of memory.

use super::super::accumulator::{Accumulator, cell};
use super::super::answer_budget::AnswerBudget;
use super::super::columns::GroupTable;
use super::{
    ExternalSort, FirstGroups, GroupCells, GroupOrdering, GroupRuns, GroupSource, LookupWriter, MERGED_MAX, ReadsCells,
    SortItem, SpillStop, each_merged,
};
use crate::entity::OwnedValue;
use daytable_logsql::query::{Aggregate, GroupField, Pipe};
use daytable_logsql::{FieldName, Fields, ParsedQuery};
use daytable_model::property::Property;
use daytable_platform::budget::{MemoryBudget, OverBudget};
use daytable_platform::scratch::ScratchSpace;
use proptest::prelude::*;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

impl SortItem for (u64, u64) {
    fn bytes(&self) -> usize {
        64
    }
}

impl SortItem for String {
    fn bytes(&self) -> usize {
        self.len()
    }
}

fn budget(folder: &Path, bytes_max: usize, disk: u64) -> (AnswerBudget, ScratchSpace) {
    let scratch = ScratchSpace::new(folder, disk, disk);
    let memory = MemoryBudget::unshared(bytes_max).with_scratch(scratch.clone());
    (AnswerBudget::new(memory.question()), scratch)
}

fn sorted(items: &[(u64, u64)], wanted: usize, budget: &AnswerBudget) -> Result<Vec<(u64, u64)>, SpillStop> {
    let mut sort = ExternalSort::new(|a: &(u64, u64), b: &(u64, u64)| a.0.cmp(&b.0), wanted, budget, "numbers");
    for item in items {
        sort.push(*item)?;
    }
    let mut found = Vec::new();
    let flow = sort.finish(&|| true, &mut |item| {
        found.push(item);
        ControlFlow::Continue(())
    });
    flow.map(|_| found)
}

/// A record of a group and a value.
struct Row(Option<OwnedValue>, String);

impl Fields for Row {
    fn field(&self, name: &FieldName) -> Option<Property<'_>> {
        if name.written() == "v" {
            Some(Property::String(&self.1))
        } else {
            self.0.as_ref().map(OwnedValue::as_property)
        }
    }

    fn any_value(&self, name: &FieldName, test: &mut dyn FnMut(Option<Property<'_>>) -> bool) -> bool {
        test(self.field(name))
    }

    fn any_part(&self, _test: &mut dyn FnMut(Property<'_>) -> bool) -> bool {
        false
    }
}

/// Groups in memory, each value once.
struct Groups(Vec<Group>);

/// A value, and what was gathered of it.
type Group = (Option<OwnedValue>, Vec<Accumulator>);

impl GroupSource for Groups {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn each_value(&self, group: usize, _room: &mut String, each: &mut dyn FnMut(Option<Property<'_>>)) {
        each(cell(&self.0[group].0));
    }

    fn functions(&self) -> usize {
        self.0.first().map_or(0, |(_, states)| states.len())
    }

    fn take_state(&mut self, group: usize, function: usize) -> Accumulator {
        std::mem::replace(&mut self.0[group].1[function], Accumulator::Count(0))
    }

    fn has_uniq(&self) -> bool {
        self.0.iter().any(|(_, states)| states.iter().any(|state| matches!(state, Accumulator::Uniq(_))))
    }
}

fn grouped(rows: &[Row], aggregates: &[Aggregate]) -> GroupTable {
    let by = [GroupField { field: FieldName::new("g"), step: None }];
    let conditions: Vec<_> = aggregates.iter().map(|_| None).collect();
    let mut table = GroupTable::new(by.len(), aggregates);
    rows.iter().for_each(|row| table.add_row((&by, aggregates), &conditions, row, None, &|_| ()));
    table
}

fn groups_of(mut table: GroupTable) -> Vec<Group> {
    (0..table.len()).map(|group| (table.values(group).remove(0), table.take_states(group))).collect()
}

/// The values of all functions by group.
fn finished(
    groups: impl Iterator<Item = (Option<OwnedValue>, Vec<Accumulator>)>,
    aggregates: &[Aggregate],
) -> BTreeMap<String, Vec<String>> {
    let text = |value: Option<OwnedValue>| value.map_or("none".into(), |value| value.to_string());
    let states = |states: Vec<Accumulator>| {
        states.into_iter().zip(aggregates).map(|(state, of)| text(state.finish(of, None))).collect()
    };
    groups.map(|(value, of)| (text(value), states(of))).collect()
}

fn merged(runs: GroupRuns, aggregates: &[Aggregate], budget: &AnswerBudget) -> Result<Vec<Group>, SpillStop> {
    let mut groups = Vec::new();
    let _ = each_merged(runs, aggregates, None, budget, &|| true, &mut |mut group| {
        groups.push((group.values.remove(0), group.states));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(groups)
}

const FUNCTIONS: &str = "* | stats by (g) count() n, count_uniq(v) u, sum(v) s, avg(v) a, min(v) lo, max(v) hi, median(v) m, \
    values(v) l, uniq_values(v) d, any(v) x, sum_len(v) b, count_uniq(v, g) w";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The order of items in a file is that of a stable sort, of any number of runs, also of the first ones alone.
    #[test]
    fn a_sort_in_a_file_is_a_stable_sort(
        keys in proptest::collection::vec(0u64..50, 0..3000), wanted in prop_oneof![Just(usize::MAX), 0usize..200], bytes_max in 2048usize..40_000,
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let items: Vec<(u64, u64)> = keys.into_iter().zip(0..).collect();
        let mut expected = items.clone();
        expected.sort_by_key(|(key, _)| *key);
        expected.truncate(wanted);
        let (budget, scratch) = budget(dir.path(), bytes_max, u64::MAX);
        prop_assert_eq!(sorted(&items, wanted, &budget), Ok(expected));
        if items.len() > 1000 && wanted > items.len() {
            prop_assert!(scratch.used() > 0);
        }
        prop_assert_eq!(budget.question().charged(), 0);
        drop(budget);
        prop_assert_eq!(scratch.used(), 0);
    }

    /// Groups of runs, in a file, are those of all records.
    #[test]
    fn groups_of_runs_are_the_groups_of_all_records(
        rows in proptest::collection::vec((0u8..20, 0u16..300, any::<bool>()), 0..600), parts in 1usize..200,
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let query = ParsedQuery::parse(FUNCTIONS).expect("a query");
        let Some(Pipe::Stats { aggregates, .. }) = query.pipes.first() else { panic!("stats") };
        let rows: Vec<Row> = rows.into_iter().map(|(group, value, is_number)| {
            let group = match group {
                0 => None,
                n if n % 3 == 0 => Some(OwnedValue::Int64(n.into())),
                n => Some(OwnedValue::String(n.to_string())),
            };
            Row(group, if is_number { value.to_string() } else { format!("v{value}") })
        }).collect();
        let (budget, scratch) = budget(dir.path(), 1 << 20, u64::MAX);
        let mut runs = GroupRuns::default();
        for part in rows.chunks(rows.len().div_ceil(parts).max(1)) {
            runs.append(budget.spill().write_groups(&mut grouped(part, aggregates)).expect("written"));
        }
        let found = merged(runs, aggregates, &budget).expect("merged");
        prop_assert_eq!(finished(found.into_iter(), aggregates), finished(groups_of(grouped(&rows, aggregates)).into_iter(), aggregates));
        prop_assert!(rows.is_empty() || scratch.used() > 0);
        prop_assert_eq!(budget.question().charged(), 0);
    }
}

proptest! {
    /// A lookup passes on the items of a hash in their order, of whatever lengths they are, and no others.
    #[test]
    fn a_lookup_has_the_items_of_each_hash(
        items in proptest::collection::vec((0u64..12, "[a-z]{0,3}", 0usize..6000), 0..60),
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let (budget, scratch) = budget(dir.path(), 1 << 20, 1 << 20);
        let mut items: Vec<(u64, String)> =
            items.into_iter().map(|(hash, text, times)| (hash * (u64::MAX / 11), text.repeat(times))).collect();
        items.sort_by_key(|(hash, _)| *hash);
        let mut writer = LookupWriter::new(&budget).expect("room");
        for (hash, text) in &items {
            writer.push(*hash, &OwnedValue::String(text.clone())).expect("room");
        }
        let lookup = writer.finish().expect("room");
        for hash in (0..12).map(|hash| hash * (u64::MAX / 11)).chain([1]) {
            let mut found = Vec::new();
            let flow = lookup.each(hash, &mut |value: OwnedValue| {
                found.push(value.to_string());
                ControlFlow::Continue(())
            });
            prop_assert_eq!(flow, Ok(ControlFlow::Continue(())));
            let of_hash = items.iter().filter(|(of, _)| *of == hash).map(|(_, text)| text.clone());
            prop_assert_eq!(found, of_hash.collect::<Vec<_>>());
        }
        drop(lookup);
        prop_assert_eq!((budget.question().charged(), scratch.used() > 0), (0, !items.is_empty()));
    }
}

#[test]
fn groups_that_differ_by_type_alone_are_one_with_all_of_their_different_values() {
    let dir = tempfile::tempdir().expect("a folder");
    let (budget, _scratch) = budget(dir.path(), 1 << 20, u64::MAX);
    let query = ParsedQuery::parse("* | stats by (g) count() n, count_uniq(v) u, count_uniq(v) w").expect("a query");
    let Some(Pipe::Stats { aggregates, .. }) = query.pipes.first() else { panic!("stats") };
    let group = |n: u64| if n.is_multiple_of(2) { OwnedValue::Int64(7) } else { OwnedValue::String("7".into()) };
    let rows: Vec<Row> = (0..200).map(|n| Row(Some(group(n)), format!("v{}", n % 130))).collect();
    for part in [200, 60] {
        let mut runs = GroupRuns::default();
        for rows in rows.chunks(part) {
            runs.append(budget.spill().write_groups(&mut grouped(rows, aggregates)).expect("written"));
        }
        let found = finished(merged(runs, aggregates, &budget).expect("merged").into_iter(), aggregates);
        let wanted = ["200", "130", "130"].map(str::to_owned).to_vec();
        assert_eq!(found, BTreeMap::from([("7".to_owned(), wanted)]), "{part}");
    }
}

#[test]
fn more_runs_than_are_merged_at_once_are_merged_in_rounds() {
    let dir = tempfile::tempdir().expect("a folder");
    let (budget, _scratch) = budget(dir.path(), 4096, u64::MAX);
    let items: Vec<(u64, u64)> = (0..20_000).map(|n| (n * 7919 % 1000, n)).collect();
    // About 32 items make a run.
    assert!(items.len() / 64 > MERGED_MAX * 2);
    let mut expected = items.clone();
    expected.sort_by_key(|(key, _)| *key);
    assert_eq!(sorted(&items, usize::MAX, &budget), Ok(expected));
}

#[test]
fn a_full_disk_and_a_client_that_goes_end_a_sort() {
    let dir = tempfile::tempdir().expect("a folder");
    let items: Vec<(u64, u64)> = (0..20_000).map(|n| (n, n)).collect();
    let (small, _scratch) = budget(dir.path(), 4096, 1000);
    assert!(matches!(sorted(&items, usize::MAX, &small), Err(SpillStop::Over(OverBudget::TooLarge(_)))));
    let (gone, _scratch) = budget(dir.path(), 4096, u64::MAX);
    let mut sort = ExternalSort::new(|a: &(u64, u64), b: &(u64, u64)| a.0.cmp(&b.0), usize::MAX, &gone, "numbers");
    items.iter().try_for_each(|item| sort.push(*item)).expect("room");
    let stopped = sort.finish(&|| false, &mut |_| ControlFlow::Continue(()));
    assert_eq!(stopped, Err(SpillStop::Stopped));
}

/// Small items come before a large one, for which there is no memory: none of them is passed on.
#[test]
fn a_sort_with_an_item_that_is_too_large_passes_none_on() {
    let dir = tempfile::tempdir().expect("a folder");
    let (budget, _scratch) = budget(dir.path(), 64 << 10, u64::MAX);
    let mut sort = ExternalSort::new(|a: &String, b: &String| a.cmp(b), usize::MAX, &budget, "texts");
    (0..9).try_for_each(|n| sort.push(format!("{n}"))).expect("room");
    sort.push("x".repeat(30 << 10)).expect("room");
    (0..2000).try_for_each(|n| sort.push(format!("{n:030}"))).expect("room");
    assert!(sort.is_spilled(), "everything is in memory");
    let mut passed = 0;
    let finished = sort.finish(&|| true, &mut |_| {
        passed += 1;
        ControlFlow::Continue(())
    });
    assert!(matches!(finished, Err(SpillStop::Over(_))), "{finished:?}");
    assert_eq!(passed, 0);
}

#[test]
fn a_text_is_one_group_whatever_its_form_and_type() {
    let dir = tempfile::tempdir().expect("a folder");
    let (budget, _scratch) = budget(dir.path(), 1 << 20, u64::MAX);
    let text = |text: &str| Some(OwnedValue::String(text.into()));
    let mut values = vec![
        text("/api/v1/orders/17"),
        text("10.0.0.1"),
        text("4bf92f3577b34da6a3ce929d0e0e4736"),
        text("4bf92f3577b34da6a3ce929d0e0e473"),
        text("4BF92F3577B34DA6A3CE929D0E0E4736"),
        text("a word"),
        text("007"),
        text("4503599627370496"),
        text("-4"),
        text("1.5"),
        text(&"0123456789abcdef".repeat(9)),
        text("\u{1a}9"),
        None,
    ];
    values.extend(
        [OwnedValue::Int64(0), OwnedValue::Int64(17), OwnedValue::Int64(-5), OwnedValue::Double(2.5)].map(Some),
    );
    let mut source = Groups(values.iter().map(|value| (value.clone(), vec![Accumulator::Count(1)])).collect());
    let mut runs = budget.spill().write_groups(&mut source).expect("room");
    // The same texts, all as texts, and some of them as other types.
    for typed in [false, true] {
        let value = |value: &Option<OwnedValue>| match value.as_ref().map(OwnedValue::to_string) {
            Some(text) if typed && text == "-4" => Some(OwnedValue::Int64(-4)),
            Some(text) if typed && text == "4503599627370496" => Some(OwnedValue::Int64(1 << 52)),
            Some(text) if typed && text == "1.5" => Some(OwnedValue::Double(1.5)),
            text => text.map(OwnedValue::String),
        };
        let mut source = Groups(values.iter().map(|of| (value(of), vec![Accumulator::Count(1)])).collect());
        runs.append(budget.spill().write_groups(&mut source).expect("room"));
    }
    let query = ParsedQuery::parse("* | stats by (g) count() n").expect("a query");
    let Some(Pipe::Stats { aggregates, .. }) = query.pipes.first() else { panic!("stats") };
    let mut found = merged(runs, aggregates, &budget).expect("room");
    let mut expected: Vec<Option<OwnedValue>> = values;
    for value in &mut expected {
        match value.as_ref().map(OwnedValue::to_string).as_deref() {
            Some("-4") => *value = Some(OwnedValue::Int64(-4)),
            Some("4503599627370496") => *value = Some(OwnedValue::Int64(1 << 52)),
            Some("1.5") => *value = Some(OwnedValue::Double(1.5)),
            _ => {}
        }
    }
    let shown = |value: &Option<OwnedValue>| format!("{value:?}");
    found.sort_by_key(|(value, _)| shown(value));
    expected.sort_by_key(shown);
    assert_eq!(
        found.iter().map(|(value, _)| shown(value)).collect::<Vec<_>>(),
        expected.iter().map(shown).collect::<Vec<_>>()
    );
    for (value, states) in found {
        assert!(matches!(states[..], [Accumulator::Count(3)]), "{value:?}: {states:?}");
    }
}

/// The greatest counts first, and of equal ones the least text.
struct ByCount;

impl GroupOrdering for ByCount {
    fn compare(&self, one: &super::Group, other: &super::Group) -> Ordering {
        by_count(&one.states, one.values.iter().map(cell), other)
    }

    fn compare_states(
        &self,
        states: &[Accumulator],
        room: &mut GroupCells,
        read: ReadsCells<'_>,
        other: &super::Group,
    ) -> Result<Ordering, OverBudget> {
        read(room)?;
        Ok(by_count(states, room.iter().map(cell), other))
    }
}

fn by_count<'v>(
    states: &[Accumulator],
    mut values: impl Iterator<Item = Option<Property<'v>>>,
    other: &super::Group,
) -> Ordering {
    let count = |states: &[Accumulator]| match states {
        [Accumulator::Count(count), ..] => *count,
        _ => panic!("a count"),
    };
    let value = values.next().flatten().map(|value| value.text().into_owned());
    let of_other = other.values[0].as_ref().map(OwnedValue::to_string);
    count(&other.states).cmp(&count(states)).then_with(|| value.cmp(&of_other))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The first groups of an order are among those that are passed on, also where there is no memory to choose them.
    #[test]
    fn the_first_groups_of_an_order_are_passed_on(
        counts in proptest::collection::vec((0u16..400, 1u64..6), 0..3000), wanted in 0usize..60, parts in 1usize..9,
        bytes_max in prop_oneof![Just(1usize << 20), (8usize << 10)..64 << 10],
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let query = ParsedQuery::parse("* | stats by (g) count() n").expect("a query");
        let Some(Pipe::Stats { aggregates, .. }) = query.pipes.first() else { panic!("stats") };
        let (budget, _scratch) = budget(dir.path(), bytes_max, u64::MAX);
        let (mut runs, mut expected) = (GroupRuns::default(), BTreeMap::<String, u64>::new());
        for part in counts.chunks(counts.len().div_ceil(parts).max(1)) {
            let mut of_part = BTreeMap::<String, u64>::new();
            for (group, count) in part {
                *of_part.entry(format!("g{group}")).or_default() += count;
                *expected.entry(format!("g{group}")).or_default() += count;
            }
            let groups = of_part.into_iter();
            let groups = groups.map(|(group, count)| (Some(OwnedValue::String(group)), vec![Accumulator::Count(count)]));
            runs.append(budget.spill().write_groups(&mut Groups(groups.collect())).expect("written"));
        }
        let (mut found, first) = (Vec::new(), FirstGroups { wanted, order: &ByCount });
        let flow = each_merged(runs, aggregates, Some(first), &budget, &|| true, &mut |group| {
            found.push(group);
            Ok(ControlFlow::Continue(()))
        });
        prop_assert_eq!(flow, Ok(ControlFlow::Continue(())));
        found.sort_by(|a, b| ByCount.compare(a, b));
        found.truncate(wanted);
        let found = found.into_iter().map(|mut group| match group.states.pop() {
            Some(Accumulator::Count(count)) => (group.values.remove(0).map(|value| value.to_string()), count),
            other => panic!("{other:?}"),
        });
        let mut expected: Vec<(Option<String>, u64)> = expected.into_iter().map(|(name, count)| (Some(name), count)).collect();
        expected.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        expected.truncate(wanted);
        prop_assert_eq!(found.collect::<Vec<_>>(), expected);
        prop_assert_eq!(budget.question().charged(), 0);
    }
}

/// A part of the groups that is larger than the memory is read several times, each time for some of its groups.
#[test]
fn many_groups_come_once_each_with_little_memory() {
    const GROUPS: u64 = 20_000;
    let dir = tempfile::tempdir().expect("a folder");
    let query = ParsedQuery::parse("* | stats by (g) count() n").expect("a query");
    let Some(Pipe::Stats { aggregates, .. }) = query.pipes.first() else { panic!("stats") };
    let (budget, _scratch) = budget(dir.path(), 160 << 10, u64::MAX);
    let mut runs = GroupRuns::default();
    // Each group is in two of six runs.
    for run in 0..6 {
        let of_run = (0..GROUPS).filter(|n| n % 3 == run % 3);
        let groups =
            of_run.map(|n| (Some(OwnedValue::String(format!("group {n}"))), vec![Accumulator::Count(n + run)]));
        runs.append(budget.spill().write_groups(&mut Groups(groups.collect())).expect("written"));
    }
    let found = finished(merged(runs, aggregates, &budget).expect("merged").into_iter(), aggregates);
    let expected: BTreeMap<String, Vec<String>> =
        (0..GROUPS).map(|n| (format!("group {n}"), vec![(2 * n + 2 * (n % 3) + 3).to_string()])).collect();
    assert_eq!(found, expected);
    assert_eq!(budget.question().charged(), 0);
}

/// One group with long lists needs a share of its own. The groups before and behind it do not.
#[test]
fn one_large_group_among_many_small_ones() {
    const GROUPS: u64 = 6_000;
    let dir = tempfile::tempdir().expect("a folder");
    let query = ParsedQuery::parse("* | stats by (g) values(v) l").expect("a query");
    let Some(Pipe::Stats { aggregates, .. }) = query.pipes.first() else { panic!("stats") };
    let (budget, _scratch) = budget(dir.path(), 400 << 10, u64::MAX);
    let value = |text: String| Accumulator::Values(vec![OwnedValue::String(text)]);
    let group = |n: u64| (Some(OwnedValue::String(format!("group {n}"))), vec![value(format!("value {n}"))]);
    let large = |run: u64| (Some(OwnedValue::String("large".into())), vec![value(run.to_string().repeat(30_000))]);
    let mut runs = GroupRuns::default();
    for run in 0..5 {
        let groups = (0..GROUPS).filter(|n| n % 5 == run).map(group).chain([large(run)]);
        runs.append(budget.spill().write_groups(&mut Groups(groups.collect())).expect("written"));
    }
    let found = merged(runs, aggregates, &budget).expect("merged");
    let of_large = (0..5).map(|run| run.to_string().repeat(30_000));
    let mut expected = finished((0..GROUPS).map(group), aggregates);
    let list = Accumulator::Values(of_large.map(OwnedValue::String).collect());
    expected.extend(finished([(Some(OwnedValue::String("large".into())), vec![list])].into_iter(), aggregates));
    assert_eq!(found.len() as u64, GROUPS + 1);
    assert_eq!(finished(found.into_iter(), aggregates), expected);
    assert_eq!(budget.question().charged(), 0);
}
