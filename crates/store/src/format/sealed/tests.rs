//! Sealed rows are read back unchanged, by scans, by keys and by counts, for inputs of any kind.

use super::*;
use crate::CountBy;
use crate::Range;
use crate::StoreError;
use crate::format::catalog::Committed;
use crate::format::day_file::{DayFile, Insert, PageOwner};
use crate::format::page::{BuiltSharedPage, PageBuilder, TableAddress, build_shared, waiting_rows};
use crate::progress::{Phase, Progress};
use crate::{ColumnBatch, ColumnTest, CountedRecords, EveryPart, Part, PartFilter, PartVisitor};
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, Period, RowKey, TableName};
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

/// A value and its type, as text.
pub(super) type Value = (PropertyKind, String);

#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) partition: u8,
    pub(super) key: RowKey,
    pub(super) level: Option<Level>,
    pub(super) values: BTreeMap<String, Value>,
}

/// A row in the form that tests compare.
pub(super) type Plain = (String, RowKey, Option<Level>, Vec<(String, PropertyKind, String)>);

fn table() -> DayTable {
    DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, start())
}

pub(super) fn start() -> Ticks {
    Ticks::from_date(2026, 11, 20).expect("a date")
}

/// The order of these names as bytes is not that of the numbers.
fn partition(number: u8) -> String {
    ["web-1", "web-1~0f", "web", "é", "a/b"][usize::from(number) % 5].to_owned()
}

fn plain(given: &Given) -> Plain {
    let values = given.values.iter().map(|(name, (kind, text))| (name.clone(), *kind, text.clone()));
    (partition(given.partition), given.key, given.level, values.collect())
}

pub(super) struct Place(tempfile::TempDir);

impl Place {
    pub(super) fn new() -> Place {
        Place(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A day's file of these commits.
    pub(super) fn open_day(&self, name: &str, commits: &[Vec<Given>]) -> PathBuf {
        let path = self.path(name);
        let mut file = DayFile::open(&path, &table()).expect("a file");
        for (seq, rows) in (1..).zip(commits) {
            let mut of_partition: BTreeMap<u8, Batch> = BTreeMap::new();
            for row in rows {
                let batch = of_partition
                    .entry(row.partition % 5)
                    .or_insert_with(|| Batch::new(table(), partition(row.partition).into()));
                let mut writer = batch.begin(row.key, row.level);
                for (name, (kind, value)) in &row.values {
                    assert!(text::read(*kind, value, |value| writer.add(name, value)), "{kind:?} {value}");
                }
                writer.finish();
            }
            let mut inserts = Vec::new();
            // As a commit does, in each second one: partitions with few rows share pages.
            let is_few = |batch: &Batch| seq % 2 == 0 && batch.len() < 4;
            let (few, others): (Vec<Batch>, Vec<Batch>) = of_partition.into_values().partition(is_few);
            for batch in &others {
                let mut builder = PageBuilder::new();
                builder.push_batch(batch);
                inserts.extend(builder.build().pages.into_iter().map(|page| Insert::of_one(&batch.partition, page)));
            }
            for BuiltSharedPage { page, partitions } in build_shared(&waiting_rows(&few), 2) {
                inserts.push(Insert { owner: PageOwner::Many(partitions), page });
            }
            file.insert(seq, &inserts).expect("written");
        }
        file.close().expect("closed");
        path
    }

    pub(super) fn seal(&self, generation: i64, inputs: &[PathBuf]) -> Result<(SealedFile, Manifest), StoreError> {
        let out = self.path(&format!("Log20261120.{generation}.parquet"));
        let committed = Committed { seq: 1 << 40, ..Committed::default() };
        let sealing = SealJob {
            table: table(),
            generation,
            inputs: inputs.to_vec(),
            committed,
            out: out.clone(),
            sizes: SealedSizes::SMALL,
            names: Arc::default(),
        };
        let sealed = seal(&sealing, &mut |_| ControlFlow::Continue(()))?;
        Ok((SealedFile::open_local(&out)?.with_sizes(SealedSizes::SMALL), sealed.manifest))
    }
}

pub(super) fn everything() -> Range {
    Range::all()
}

pub(super) fn scanned(file: &SealedFile, range: &Range) -> Vec<Plain> {
    let read = |row: Result<crate::Row, StoreError>| {
        let row = row.expect("a row");
        let mut values: Vec<_> =
            row.properties().map(|(name, value)| (name.to_owned(), value.kind(), text::of(value))).collect();
        values.sort_by(|a, b| a.0.cmp(&b.0));
        (row.partition.to_string(), row.key(), row.level(), values)
    };
    file.scan(range).map(read).collect()
}

/// Newest first, of equal keys the last.
pub(super) fn want(files: &[Vec<Vec<Given>>]) -> Vec<Plain> {
    let mut rows: BTreeMap<(RowKey, String), Plain> = BTreeMap::new();
    for row in files.iter().flatten().flatten().map(plain) {
        rows.insert((row.1, row.0.clone()), row);
    }
    rows.into_values().collect()
}

/// The first difference of two lists of rows.
pub(super) fn difference(found: &[Plain], wanted: &[Plain]) -> Option<(usize, Option<Plain>, Option<Plain>)> {
    let at = (0..found.len().max(wanted.len())).find(|at| found.get(*at) != wanted.get(*at))?;
    Some((at, found.get(at).cloned(), wanted.get(at).cloned()))
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => prop_oneof!["[ab]{0,2}", "é[0-9]{0,3}", "[0-9a-f]{8}", ".{0,30}"].prop_map(|text| (PropertyKind::String, text)),
        2 => prop_oneof![any::<i64>(), 0i64..5].prop_map(|n| (PropertyKind::Int64, text::of(Property::Int64(n)))),
        1 => prop_oneof![any::<f64>(), Just(-0.0), Just(f64::NAN)].prop_map(|n| (PropertyKind::Double, text::of(Property::Double(n)))),
        1 => any::<bool>().prop_map(|b| (PropertyKind::Boolean, text::of(Property::Boolean(b)))),
        1 => any::<i32>().prop_map(|n| (PropertyKind::Int32, text::of(Property::Int32(n)))),
        1 => (0..=daytable_model::time::MAX_TICKS).prop_map(|n| (PropertyKind::DateTime, n.to_string())),
        1 => (0..=daytable_model::time::MAX_TICKS / 10).prop_map(|n| (PropertyKind::DateTime, (n * 10).to_string())),
        1 => any::<[u8; 16]>().prop_map(|guid| (PropertyKind::Guid, text::of(Property::Guid(guid)))),
        1 => prop::collection::vec(any::<u8>(), 0..9).prop_map(|bytes| (PropertyKind::Binary, text::of(Property::Binary(&bytes)))),
    ]
}

fn given() -> impl Strategy<Value = Given> {
    // Few different keys, so that some come twice; some at the ends of time.
    let tick = prop_oneof![
        6 => (0..40i64).prop_map(|n| start().get() + n),
        6 => (0..2000i64).prop_map(|n| start().get() + n * 300_000_000),
        1 => prop_oneof![Just(0), Just(daytable_model::time::MAX_TICKS)],
    ];
    // A source belongs to one partition, so no key is in two.
    let key = (0..5u8, tick, 0..2u64, 0..3u64, prop_oneof![3 => Just(0u16), 1 => 1..4u16]);
    let values = prop::collection::btree_map("[a-cA-Cé]{1,2}|Message|Items|Time_|level", value(), 0..6);
    (key, (0u8..=9).prop_map(Level::from_code), values).prop_map(
        |((partition, tick, source, position, item), level, values)| {
            let source = source << 62 | u64::from(partition);
            let key = RowKey::new(Ticks::new(tick).expect("in range"), source, position << 40).with_item(item);
            Given { partition, key, level: if item > 0 { None } else { level }, values }
        },
    )
}

fn commits() -> impl Strategy<Value = Vec<Vec<Given>>> {
    prop::collection::vec(prop::collection::vec(given(), 1..80), 0..4)
}

/// Whether a row contains the needle, or other rows of its record may.
pub(super) fn may_contain(row: &Plain, needle: &Needle) -> bool {
    row.3.iter().any(|(name, kind, text)| {
        let mut is_in = daytable_model::entity::MULTI_ROW_PROPERTIES.contains(&(name.as_str(), *kind));
        text::read(*kind, text, |value| is_in |= needle.is_in(value)) && is_in
    })
}

/// A row that `found` lacks, or that is not in `all`. `found` must have each row of a record whose first row
/// `is_wanted`.
pub(super) fn lacking(found: &[Plain], all: &[Plain], is_wanted: impl Fn(&Plain) -> bool) -> Option<Plain> {
    let at: BTreeMap<_, _> = all.iter().map(|row| ((row.1, &row.0), row)).collect();
    let is_sought = |row: &&Plain| {
        let of_record = |item| at.get(&(row.1.with_item(item), &row.0));
        (0..=row.1.item()).all(|item| of_record(item).is_some()) && of_record(0).is_some_and(|first| is_wanted(first))
    };
    let is_lacking = all.iter().filter(is_sought).find(|row| !found.contains(row));
    is_lacking.or_else(|| found.iter().find(|row| !all.contains(row))).cloned()
}

/// Records by minute and level.
fn counted(rows: &[Plain]) -> BTreeMap<(i64, Option<Level>), u64> {
    let mut counts = BTreeMap::new();
    for (_, key, level, _) in rows.iter().filter(|row| row.1.item() == 0) {
        *counts.entry((key.time().unix_seconds().div_euclid(60), *level)).or_default() += 1;
    }
    counts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// For files with any entities, commits and generations, the sealed file has exactly the rows that a reader of the
    /// open files would see. The same holds after sealing it again with late records.
    #[test]
    fn a_sealed_file_has_the_rows_of_its_inputs(first in commits(), second in commits(), late in commits()) {
        let place = Place::new();
        let inputs = [place.open_day("Log20261120.1.db", &first), place.open_day("Log20261120.2.db", &second)];
        let (sealed, manifest) = place.seal(2, &inputs).expect("sealed");
        let all = want(&[first.clone(), second.clone()]);
        prop_assert_eq!(difference(&scanned(&sealed, &everything()), &all), None);
        prop_assert_eq!(manifest.rows, all.len() as u64);
        let beside = Manifest::read_beside(sealed.path()).expect("a manifest");
        prop_assert_eq!(&beside, &manifest);
        prop_assert_eq!(manifest.bytes, std::fs::metadata(sealed.path()).expect("a file").len());

        let late_file = place.open_day("Log20261120.3.db", &late);
        let (again, manifest) = place.seal(3, &[sealed.path().into(), late_file]).expect("sealed again");
        let all = want(&[first, second, late]);
        prop_assert_eq!(difference(&scanned(&again, &everything()), &all), None);
        prop_assert_eq!(manifest.records, all.iter().filter(|row| row.1.item() == 0).count() as u64);
    }

    /// A day that is cut at any times has each row in one of the files, whatever pages have rows of several of them, and
    /// however often a key came.
    #[test]
    fn slices_of_a_day_have_each_row_once(
        first in commits(), second in commits(), mut cuts in prop::collection::vec(0..70_000i64, 0..4), last in 1..4i64,
    ) {
        let place = Place::new();
        let inputs = [place.open_day("Log20261120.1.db", &first), place.open_day("Log20261120.2.db", &second)];
        cuts.sort_unstable();
        let tick = |seconds: &i64| Ticks::new(start().get() + seconds * 10_000_000).expect("in range");
        let starts: Vec<Ticks> = [Ticks::MIN].into_iter().chain(cuts.iter().map(tick)).collect();
        for (paths, files) in [(&inputs[..1], vec![first.clone()]), (&inputs[..], vec![first, second])] {
            // Commits after the last one are not there.
            let files: Vec<Vec<Vec<Given>>> =
                files.into_iter().map(|commits| commits.into_iter().take(last as usize).collect()).collect();
            let mut found = Vec::new();
            for (number, from) in starts.iter().enumerate() {
                let slice = TimeSlice { from: *from, until: starts.get(number + 1).copied() };
                let committed = Committed { seq: last, ..Committed::default() };
                let open = |path: &PathBuf| OpenInput::open(path, TableAddress::new(&table()), &Committed::default());
                let pages = paths.iter().map(|path| open(path).expect("opened")).collect();
                let out = place.path("part.parquet");
                let job = SealJob {
                    table: table(),
                    generation: 0,
                    inputs: Vec::new(),
                    committed,
                    out: out.clone(),
                    sizes: SealedSizes::SMALL,
                    names: Arc::default(),
                };
                let manifest = seal_slice(&job, pages, slice, &mut |_| ControlFlow::Continue(())).expect("sealed");
                let rows = scanned(&SealedFile::open_local(&out).expect("opened"), &everything());
                prop_assert_eq!(manifest.rows, rows.len() as u64);
                prop_assert!(rows.iter().all(|row| slice.contains(row.1.time())));
                found.splice(0..0, rows);
            }
            prop_assert_eq!(difference(&found, &want(&files)), None);
        }
    }

    /// Ranges of time, partitions and text, counts and single rows agree with the whole.
    #[test]
    fn a_part_agrees_with_the_whole(
        commits in commits(), from in 0..70_000i64, length in 0..70_000i64, some in prop::collection::vec(0..5u8, 0..3),
        needle in "[ab]|é[0-9]|-?[0-9]{1,3}|true", level in prop::sample::select(&Level::ALL[..]),
    ) {
        let place = Place::new();
        let (sealed, _) = place.seal(1, &[place.open_day("Log20261120.1.db", &commits)]).expect("sealed");
        let all = want(&[commits]);
        let tick = |seconds: i64| Ticks::new(start().get() + seconds * 10_000_000).expect("in range");
        let names: Vec<String> = some.iter().map(|number| partition(*number)).collect();
        for partitions in [None, Some(names)] {
            for (from, to) in [(Ticks::MIN, Ticks::MAX), (tick(from), tick(from + length))] {
                let range = Range { partitions: partitions.clone(), from, to, ..Range::all() };
                let is_in = |row: &&Plain| {
                    from <= row.1.time() && row.1.time() <= to
                        && partitions.as_ref().is_none_or(|names| names.contains(&row.0))
                };
                let wanted: Vec<Plain> = all.iter().filter(is_in).cloned().collect();
                prop_assert_eq!(difference(&scanned(&sealed, &range), &wanted), None);
                for by in [CountBy::Nothing, CountBy::Partition] {
                    let mut counts = BTreeMap::new();
                    let counted_all = sealed.counts(&range, by, &mut |count| {
                        *counts.entry((count.minute, count.level)).or_default() += count.records;
                    });
                    counted_all.expect("counted");
                    prop_assert_eq!(&counts, &counted(&wanted));
                }
                let (text, has_level) = (Needle::new(&needle), |row: &Plain| row.2 >= Some(level));
                let has_text = |row: &Plain| may_contain(row, &text);
                let with_text = Range { contains: Some(needle.clone()), ..range.clone() };
                let hits = scanned(&sealed, &with_text);
                prop_assert_eq!(lacking(&hits, &wanted, has_text), None);
                let of_level = scanned(&sealed, &Range { level: Some(level), ..range });
                prop_assert_eq!(lacking(&of_level, &wanted, has_level), None);
                let both = scanned(&sealed, &Range { level: Some(level), ..with_text });
                prop_assert_eq!(lacking(&both, &wanted, |row| has_text(row) && has_level(row)), None);
                prop_assert!(of_level.iter().chain(&both).all(|row| row.1.item() > 0 || has_level(row)));
            }
        }
        for row in all.iter().step_by(7) {
            let found = sealed.row(&row.0, row.1).expect("read").expect("a row");
            prop_assert_eq!(found.level(), row.2);
            prop_assert_eq!(found.properties().count(), row.3.len());
            prop_assert!(sealed.row("nobody", row.1).expect("read").is_none());
            prop_assert!(sealed.row(&row.0, row.1.with_item(9)).expect("read").is_none());
        }
    }
}

/// Asserts the value counts of a file, whose rows are `all`. Returns how many parts have some.
fn assert_numbers(file: &SealedFile, all: &[Plain]) -> usize {
    let mut in_order: Vec<&Plain> = all.iter().collect();
    in_order.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    let (groups, mut start, mut parts) = (&file.index().groups, 0, 0);
    let bytes = file.read_counts(0..groups.len()).expect("read");
    for (group, rows) in groups.iter().enumerate() {
        let of_group = &in_order[start..start + rows];
        start += rows;
        let Some(bytes) = bytes.get(&group) else { continue };
        let counted = file.counted_parts(group, bytes, |_, _| true).expect("read");
        for (part, numbers) in counted.parts() {
            parts += 1;
            let of_part = &of_group[part.rows.clone()];
            let times = || of_part.iter().map(|row| row.1.time());
            assert_eq!((Some(part.oldest), Some(part.newest)), (times().min(), times().max()));
            type OfColumn = BTreeMap<(String, u8), u32>;
            let mut wanted: BTreeMap<(&str, PropertyKind), OfColumn> = BTreeMap::new();
            let code = |level: Option<Level>| level.map_or(0, Level::code);
            for row in of_part {
                assert_eq!(row.1.item(), 0, "items are no records");
                for (name, kind, text) in &row.3 {
                    assert!(!daytable_model::entity::MULTI_ROW_PROPERTIES.contains(&(name, *kind)));
                    let of_column = wanted.entry((name, *kind)).or_default();
                    *of_column.entry((text.clone(), code(row.2))).or_default() += 1;
                }
            }
            for (level, records) in (0u8..).zip(part.levels) {
                assert_eq!(of_part.iter().filter(|row| code(row.2) == level).count() as u64, records);
            }
            let mut found: Vec<_> = numbers.columns().map(|column| (column.name(), column.kind())).collect();
            found.sort();
            assert_eq!(found, wanted.keys().copied().collect::<Vec<_>>());
            for column in numbers.columns() {
                let of_column = &wanted[&(column.name(), column.kind())];
                let is_filled = |text: &str| column.kind() != PropertyKind::String || !text.is_empty();
                let filled =
                    of_column.iter().filter(|((text, _), _)| is_filled(text)).map(|(_, count)| u64::from(*count));
                assert_eq!(column.filled(), filled.sum::<u64>());
                let Some(groups) = column.groups() else { continue };
                let groups: OfColumn =
                    groups.map(|(value, level, count)| ((text::of(value.as_property()), level), count)).collect();
                assert_eq!(&groups, of_column, "{} {:?}", column.name(), column.kind());
            }
        }
    }
    parts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Of days with any rows, the value counts are those of the rows.
    #[test]
    fn numbers_by_value_are_those_of_the_rows(commits in commits()) {
        let place = Place::new();
        let (sealed, _) = place.seal(1, &[place.open_day("Log20261120.1.db", &commits)]).expect("sealed");
        assert_numbers(&sealed, &want(&[commits]));
    }
}

/// A record of few values at a second.
fn record_of(n: u16, partition: u8) -> Given {
    Given {
        partition,
        key: RowKey::new(start().plus(std::time::Duration::from_secs(n.into())), u64::from(partition), 7),
        level: Level::from_code((n % 3) as u8),
        values: [
            ("status".to_owned(), (PropertyKind::Int64, (200 + 100 * (n % 4)).to_string())),
            ("path".to_owned(), (PropertyKind::String, format!("/{n}"))),
            ("Message".to_owned(), (PropertyKind::String, "seen".to_owned())),
        ]
        .into(),
    }
}

#[test]
fn records_of_few_values_are_counted_in_every_part() {
    let place = Place::new();
    // Two partitions with many rows, and three with a few.
    let rows = |partition: u8| (0..if partition < 2 { 150 } else { 3 }).map(move |n| record_of(n, partition));
    let commits = vec![(0..5).flat_map(rows).collect::<Vec<Given>>()];
    let (sealed, _) = place.seal(1, &[place.open_day("Log20261120.1.db", &commits)]).expect("sealed");
    assert!(assert_numbers(&sealed, &want(&[commits])) >= 11);
    let bytes = sealed.read_counts(std::iter::once(0)).expect("read");
    let counted = sealed.counted_parts(0, &bytes[&0], |name, _| name != "path").expect("read");
    let has_few =
        |name: &str| counted.parts().all(|(_, of)| of.columns().any(|of| of.name() == name && of.groups().is_some()));
    assert!(has_few("status") && !has_few("Message") && !has_few("path"));
}

/// Takes the numbers of parts whose records have a status that is accepted, and counts the rows that are read instead.
struct Counting {
    takes: bool,
}

impl PartVisitor for Counting {
    /// Records by their numbers, and rows that were read.
    type State = (u64, u64);

    fn start(&self) -> (u64, u64) {
        (0, 0)
    }

    fn filter(&self) -> &dyn PartFilter {
        &EveryPart
    }

    fn counted_columns(&self) -> Option<ColumnTest<'_>> {
        Some(Box::new(|name, _| name == "status"))
    }

    fn read(&self, state: &mut (u64, u64), part: &mut Part<'_>) -> Result<ControlFlow<()>, StoreError> {
        part.take_values(|CountedRecords { levels, counted, is_exact, .. }| {
            let column = counted.columns().next().expect("the status");
            let records: u64 = column.groups().expect("few values").map(|of| u64::from(of.2)).sum();
            assert_eq!(records, levels.iter().sum::<u64>());
            if self.takes && is_exact {
                state.0 += records;
            }
            self.takes && is_exact
        })?;
        if let Some(batch) = part.batch()? {
            state.1 += batch.records().count() as u64;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// More row groups than a section has.
#[test]
fn counted_rows_are_not_read_and_others_are() {
    let place = Place::new();
    let commits = vec![(0..9000).map(|n| record_of(n, 0)).collect::<Vec<Given>>()];
    let (sealed, _) = place.seal(1, &[place.open_day("Log20261120.1.db", &commits)]).expect("sealed");
    assert!(sealed.index().groups.len() > 64);
    assert!(assert_numbers(&sealed, &want(&[commits])) > 64);
    let second = |n: u64| start().plus(std::time::Duration::from_secs(n));
    let asked = |range: &Range, takes| {
        let states = sealed.walk(range, 2, &|| true, &Counting { takes }).expect("walked");
        states.into_iter().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    };
    assert_eq!(asked(&everything(), true), (9000, 0));
    assert_eq!(asked(&everything(), false), (0, 9000));
    let (counted, read) = asked(&Range { from: second(1000), to: second(7999), ..Range::all() }, true);
    assert_eq!(counted + read, 7000);
    assert!((1..64).contains(&read), "{read} rows: those of the parts at both ends");
}

#[test]
fn an_empty_day_is_a_file_without_rows() {
    let place = Place::new();
    let (sealed, manifest) = place.seal(1, &[place.open_day("Log20261120.1.db", &[])]).expect("sealed");
    assert_eq!((manifest.rows, manifest.first_key, manifest.first_time), (0, None, None));
    assert_eq!((sealed.times(), scanned(&sealed, &everything())), (None, vec![]));
    let mut counts = Vec::new();
    sealed.counts(&everything(), CountBy::Nothing, &mut |count| counts.push(count)).expect("counted");
    assert_eq!(counts, []);
}

#[test]
fn more_properties_than_columns_are_kept_in_a_map() {
    let row = |n: u16| {
        let name = |c: u16| (format!("c{:03}", (5 * n + c) % 700), (PropertyKind::Int64, c.to_string()));
        let key = RowKey::new(start(), 1, n.into());
        Given { partition: 0, key, level: None, values: (0..60).map(name).collect() }
    };
    // After the first 64 columns, a property has its own column from 256 values on.
    for (rows, columns) in [(140, 64), (3100, COLUMNS_MAX)] {
        let commits = [(0..rows).map(row).collect::<Vec<Given>>()];
        let place = Place::new();
        let (sealed, manifest) = place.seal(1, &[place.open_day("Log20261120.1.db", &commits)]).expect("sealed");
        assert_eq!(manifest.columns.len(), columns);
        assert_eq!(scanned(&sealed, &everything()), want(&[commits.to_vec()]));
    }
}

/// A day of this many rows, each with some of this many names.
fn of_names(rows: u16, names: u32, of_row: u32, seed: u64) -> Vec<Given> {
    let row = |n: u16| {
        let mut values: BTreeMap<String, Value> = (0..of_row)
            .map(|at| {
                let random = xxhash_rust::xxh3::xxh3_64_with_seed(&(u32::from(n) << 8 | at).to_le_bytes(), seed);
                let name = format!("u{:x}", (random % u64::from(names)) as u32 ^ 0x5f3_759d);
                // The same name has values of two types.
                let is_text = random >> 40 & 7 == 0;
                (name, (if is_text { PropertyKind::String } else { PropertyKind::Int64 }, (random >> 50).to_string()))
            })
            .collect();
        values.insert("Message".into(), (PropertyKind::String, format!("state {n}")));
        let key = RowKey::new(start().plus(std::time::Duration::from_secs(n.into())), 1, n.into());
        Given { partition: u8::from(n.is_multiple_of(3)), key, level: Some(Level::Info), values }
    };
    (0..rows).map(row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// Any number of names in any number of rows is sealed, merged with late rows, and read back: by rows, and by name.
    /// What tells which rows have a value takes bytes for values, not for names times rows.
    #[test]
    fn a_day_has_as_many_names_as_values(
        rows in 1u16..400, names in prop_oneof![1u32..9, 60u32..200, 1000u32..100_000], of_row in 0u32..9, seed in any::<u64>(),
    ) {
        let given = of_names(rows, names, of_row, seed);
        let (early, late): (Vec<Given>, Vec<Given>) = given.iter().cloned().partition(|row| row.key.position() % 5 > 0);
        let place = Place::new();
        let (first, _) = place.seal(1, &[place.open_day("Log20261120.1.db", std::slice::from_ref(&early))])?;
        prop_assert_eq!(scanned(&first, &everything()), want(&[vec![early]]));
        let late = place.open_day("Log20261120.2.db", &[late]);
        let (sealed, _) = place.seal(3, &[place.path("Log20261120.1.parquet"), late])?;
        let wanted = want(&[vec![given]]);
        prop_assert_eq!(scanned(&sealed, &everything()), wanted.clone());

        let mut found: BTreeMap<(String, PropertyKind), Vec<String>> = BTreeMap::new();
        for (group, rows) in sealed.index().groups.iter().enumerate() {
            let block = sealed.block(group, std::slice::from_ref(&(0..*rows)), columns::ColumnSet::All)?;
            let values: usize = (0..block.width()).map(|column| block.count(column)).sum();
            prop_assert!(block.presence_bytes() <= 4 * 8 * values, "{} for {values}", block.presence_bytes());
            // One property after the other, as questions for some of them do.
            let runs: Vec<_> = sealed.runs_in(group).iter().map(|run| (run.partition.clone(), run.rows.clone())).collect();
            let batch = ColumnBatch::of_group(&sealed, group, runs)?;
            let all = batch.records().clone();
            for (name, kind) in batch.names()? {
                for column in batch.columns(|of, of_kind| (of, of_kind) == (name, kind))? {
                    let texts = found.entry((name.to_owned(), kind)).or_default();
                    let mut last = None;
                    column.map(&all, |value| texts.push(text::of(value)), |row, ()| {
                        assert!(last.replace(row) < Some(row), "rows in order");
                    });
                }
            }
        }
        // Values that rows share are read once.
        let mut different: BTreeMap<(String, PropertyKind), std::collections::BTreeSet<String>> = BTreeMap::new();
        for (name, kind, text) in wanted.into_iter().flat_map(|(.., values)| values) {
            different.entry((name, kind)).or_default().insert(text);
        }
        let found: BTreeMap<_, std::collections::BTreeSet<String>> =
            found.into_iter().map(|(property, texts)| (property, texts.into_iter().collect())).collect();
        prop_assert_eq!(found, different);
    }
}

#[test]
fn a_property_that_changed_its_type_has_a_column_for_each() {
    let row = |n: u16, name: &str, value: Value| {
        let values = [(name.to_owned(), value)].into();
        Given { partition: 0, key: RowKey::new(start(), 1, n.into()), level: None, values }
    };
    let number = || (PropertyKind::Int64, "7".to_owned());
    let text = || (PropertyKind::String, "seven".to_owned());
    let rows = vec![
        row(0, "status", number()),
        row(1, "status", number()),
        row(2, "status", text()),
        row(3, "Status", text()),
        row(4, "time", text()),
    ];
    let place = Place::new();
    let (_, manifest) = place.seal(1, &[place.open_day("Log20261120.1.db", &[rows])]).expect("sealed");
    let names: Vec<_> = manifest.columns.iter().map(|column| (&*column.name, &*column.property)).collect();
    let expected =
        [("status", "status"), ("Status_string", "Status"), ("status_string_2", "status"), ("time_string", "time")];
    assert_eq!(names, expected);
}

/// A sealed day of a few thousand bytes, and its rows.
fn small() -> (Vec<u8>, Vec<Plain>) {
    let row = |n: u16| {
        let texts =
            [("Message", format!("message {n} of the day")), ("trace", format!("{:08x}", u32::from(n) * 0x9e37))];
        let values = texts.into_iter().map(|(name, text)| (name.to_owned(), (PropertyKind::String, text)));
        let key = RowKey::new(start().plus(std::time::Duration::from_secs(n.into())), 1, n.into());
        Given { partition: (n / 20) as u8, key, level: Level::from_code((n % 5) as u8), values: values.collect() }
    };
    let place = Place::new();
    let commits = [(0..60).map(row).collect::<Vec<_>>()];
    let (sealed, _) = place.seal(1, &[place.open_day("Log20261120.1.db", &commits)]).expect("sealed");
    (std::fs::read(sealed.path()).expect("read"), want(&[commits.to_vec()]))
}

/// Every row, or the error.
fn read_all(bytes: Vec<u8>) -> Result<Vec<RowKey>, StoreError> {
    let file = SealedFile::open(Arc::new(::bytes::Bytes::from(bytes)), std::path::Path::new("x.parquet"))?
        .with_sizes(SealedSizes::SMALL);
    file.scan(&everything()).map(|row| row.map(|row| row.key())).collect()
}

#[test]
fn a_wrong_byte_is_an_error_wherever_it_is() {
    let (bytes, rows) = small();
    assert_eq!(read_all(bytes.clone()).expect("whole").len(), rows.len());
    for at in (0..bytes.len()).step_by(3) {
        let mut wrong = bytes.clone();
        wrong[at] ^= 1 << (at % 8);
        let error = read_all(wrong).expect_err("a wrong byte");
        assert!(error.to_string().contains("x.parquet"), "at {at}: {error}");
    }
}

#[test]
fn truncated_or_foreign_files_are_refused() {
    let (bytes, _) = small();
    for length in (0..bytes.len()).step_by(37) {
        let error = read_all(bytes[..length].to_vec()).expect_err("cut off");
        assert!(matches!(error, StoreError::Foreign(..)), "{length}: {error}");
    }
    let error = read_all(bytes[100..].to_vec()).expect_err("its start is missing");
    assert!(matches!(error, StoreError::SealedDamaged { .. } | StoreError::Io { .. }), "{error}");
}

#[test]
fn inputs_that_lost_entities_are_not_sealed() {
    let place = Place::new();
    let row = |n: u64| Given { partition: 0, key: RowKey::new(start(), 1, n), level: None, values: BTreeMap::new() };
    let path = place.open_day("Log20261120.1.db", &[(0..200).map(row).collect(), (200..400).map(row).collect()]);
    let connection = rusqlite::Connection::open(&path).expect("opened");
    connection.execute_batch("DELETE FROM page WHERE seq = 2").expect("deleted");
    drop(connection);
    let error = place.seal(1, &[path]).expect_err("half of it is gone");
    assert!(error.to_string().contains("400 entities, but contain 200"), "{error}");
    assert!(!place.path("Log20261120.1.parquet").exists());
    assert!(!place.path("Log20261120.1.parquet.partial").exists());
}

#[test]
fn a_sealing_can_be_ended() {
    let place = Place::new();
    let row = |n: u64| Given { partition: 0, key: RowKey::new(start(), 1, n), level: None, values: BTreeMap::new() };
    let inputs = vec![place.open_day("Log20261120.1.db", &[(0..200).map(row).collect()])];
    let out = place.path("Log20261120.1.parquet");
    let committed = Committed { seq: 1, ..Committed::default() };
    let sealing = SealJob {
        table: table(),
        generation: 1,
        inputs,
        committed,
        out: out.clone(),
        sizes: SealedSizes::SMALL,
        names: Arc::default(),
    };
    for stop_at in [(Phase::Write, 128), (Phase::Compare, 200)] {
        let stop = |progress: Progress| {
            let is_reached = (progress.phase, progress.done) == stop_at;
            if is_reached { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        assert!(matches!(seal(&sealing, &mut { stop }), Err(StoreError::Closed)));
        let names =
            std::fs::read_dir(place.0.path()).expect("a folder").map(|entry| entry.expect("an entry").file_name());
        assert!(names.into_iter().all(|name| name.to_string_lossy().starts_with("Log20261120.1.db")));
    }
    seal(&sealing, &mut |_| ControlFlow::Continue(())).expect("sealed");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
}
