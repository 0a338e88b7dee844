//! Numbers of records by time, level and instance.
//!
//! Page headers contain the number of records by level and minute, so most records are counted without reading them.
//! Records are read only if the filter searches for text, or the time steps are not whole minutes.

use super::archived::{ArchiveReport, ArchiveSession};
use super::bounds::{Bounds, archived_range, range_of, tables_of, unless_gone};
use super::filter::Filter;
use super::select::{entities_of, select};
use super::stores::Stores;
use crate::tables::{Projection, TableError};
use daytable_model::clock::ZoneClock;
use daytable_model::key::instance_of;
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use daytable_platform::budget::{OverBudget, QuestionBudget};
use daytable_store::{CountBy, MinuteCount};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
/// What a group takes, as a group, as a count and in an answer.
const GROUP_BYTES: usize = 400;
/// What the name of an instance takes beside its bytes.
const INSTANCE_BYTES: usize = 128;
/// Records after which is asked whether anybody waits for the count.
const ASKED_EVERY: usize = 1024;

/// The grouping of counts; the default is a single number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grouping {
    /// A number for each level.
    pub level: bool,
    /// One number per instance, all its buckets together.
    pub instance: bool,
    /// A number for each step of time. A step shorter than a tick counts as one tick.
    pub every: Option<Duration>,
    /// The clocks by which days, weeks and hours begin.
    pub clock: ZoneClock,
}

impl Grouping {
    /// Whether all records are one number.
    pub fn is_one_number(&self) -> bool {
        !self.level && !self.instance && self.every.is_none()
    }
}

/// One number. Fields that are not part of the grouping are `None`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count {
    /// The start of the step of time.
    pub time: Option<Ticks>,
    /// The level; `Some(None)` for records without one.
    pub level: Option<Option<Level>>,
    /// The instance.
    pub instance: Option<String>,
    /// Records.
    pub records: u64,
}

/// Counts the records that match `filter`, ignoring its limit. Groups without records are omitted; without a grouping
/// there is always one number. Reports the archives that were read and those that are missing: a day that could not
/// be read completely is in no number.
///
/// # Errors
///
/// An error of the data folder or the remote store.
pub fn count(
    stores: &Stores<'_>,
    filter: &Filter,
    grouping: Grouping,
) -> Result<(Vec<Count>, ArchiveReport), TableError> {
    let unlimited = QuestionBudget::unlimited();
    count_within(stores, filter, Tally::new(grouping, unlimited), &|| true)
        .map(|(counted, report)| (counted.counts, report))
}

/// Counts into a tally, until that is over its budget or `is_wanted` returns false.
pub(crate) fn count_within(
    stores: &Stores<'_>,
    filter: &Filter,
    mut tally: Tally,
    is_wanted: &dyn Fn() -> bool,
) -> Result<(Counted, ArchiveReport), TableError> {
    let grouping = tally.grouping;
    let whole_minutes = grouping.every.is_none_or(|every| every.as_nanos().is_multiple_of(MINUTE.as_nanos()));
    let looks_for_text = filter.contains.as_ref().is_some_and(|text| !text.is_empty());
    let report = if looks_for_text || !whole_minutes {
        count_records(stores, filter, &mut tally, is_wanted)?
    } else {
        count_minutes(stores, filter, &mut tally, is_wanted)?
    };
    Ok((tally.counts(), report))
}

fn count_records(
    stores: &Stores<'_>,
    filter: &Filter,
    tally: &mut Tally,
    is_wanted: &dyn Fn() -> bool,
) -> Result<ArchiveReport, TableError> {
    let unlimited = Filter { limit: None, ..filter.clone() };
    let mut counted = 0usize;
    select(stores, &unlimited, |record| {
        counted += 1;
        if counted.is_multiple_of(ASKED_EVERY) && !is_wanted() {
            return ControlFlow::Break(());
        }
        tally.add(record.time(), record.level, &record.partition_key, 1)
    })
}

/// Counts a day of a remote store, reading only keys and levels.
fn count_rows(
    stores: &Stores<'_>,
    reading: &ArchiveSession,
    filter: &Filter,
    bounds: &Bounds,
    tally: &mut Tally,
) -> Result<(), TableError> {
    let row_filter = filter.row_filter();
    let rows = entities_of(stores, reading, filter, &row_filter, bounds, Projection::Keys)?;
    for row in rows.into_iter().flatten() {
        let row = row?;
        if row.key.item() == 0 && tally.add(row.key.time(), row.level, &row.partition, 1).is_break() {
            break;
        }
    }
    Ok(())
}

fn count_minutes(
    stores: &Stores<'_>,
    filter: &Filter,
    tally: &mut Tally,
    is_wanted: &dyn Fn() -> bool,
) -> Result<ArchiveReport, TableError> {
    let (reader, reading) = (stores.reader, ArchiveSession::new(stores.archives));
    let unlimited = Filter { limit: None, ..filter.clone() };
    let filter = &unlimited;
    let by = if tally.grouping.instance { CountBy::Partition } else { CountBy::Nothing };
    let add = |tally: &mut Tally, minute: MinuteCount| {
        if filter.level.is_some() && minute.level < filter.level {
            return;
        }
        let start = minute.minute.checked_mul(60).and_then(|seconds| Ticks::from_unix(seconds, 0));
        // What does not fit is left out, and the tally says so.
        let _ = tally.add(start.unwrap_or(Ticks::MIN), minute.level, &minute.partition, minute.records);
    };
    for bounds in tables_of(stores, &reading, filter)? {
        if tally.over.is_some() || !is_wanted() {
            break;
        }
        if bounds.is_remote {
            count_rows(stores, &reading, filter, &bounds, tally)?;
            continue;
        }
        // A day that is dropped while it is counted, or cannot be read completely, counts whole or not at all.
        let mut of_day = tally.part();
        if bounds.stands {
            let counted = range_of(reader, filter, &bounds).and_then(|range| match range {
                Some(range) => reader.counts_by(&bounds.table, &range, by, &mut |minute| add(&mut of_day, minute)),
                None => Ok(()),
            });
            if unless_gone(counted)?.is_some() {
                tally.merge_part(&of_day);
                continue;
            }
            of_day = tally.part();
        }
        let Some((file, range)) = archived_range(reader, &reading, filter, &bounds)? else { continue };
        match file.counts(&range, by, &mut |minute| add(&mut of_day, minute)) {
            Ok(()) => tally.merge_part(&of_day),
            Err(error) => reading.unread(&bounds.shown(), error),
        }
    }
    Ok(reading.into_report())
}

/// Counts by group. A day of a busy fleet is half a million additions, so names are interned, and consecutive rows of
/// one partition need no look-up.
pub(crate) struct Tally {
    grouping: Grouping,
    groups: HashMap<Group, u64, foldhash::fast::RandomState>,
    instances: Vec<String>,
    by_name: HashMap<String, usize, foldhash::quality::RandomState>,
    /// The last partition, which is usually the next one too.
    last: Option<(String, usize)>,
    memory: Arc<QuestionBudget>,
    /// Why groups are missing, if some are.
    over: Option<OverBudget>,
}

/// Counts, which may lack some.
pub(crate) struct Counted {
    pub(crate) counts: Vec<Count>,
    pub(crate) over: Option<OverBudget>,
}

/// Time and level of a [`Count`], and the index of the instance.
type Group = (Option<Ticks>, Option<Option<Level>>, Option<usize>);

impl Tally {
    pub(super) fn new(grouping: Grouping, memory: QuestionBudget) -> Tally {
        let (groups, by_name, memory) = (HashMap::default(), HashMap::default(), Arc::new(memory));
        Tally { grouping, groups, instances: Vec::new(), by_name, last: None, memory, over: None }
    }

    pub(super) fn add(&mut self, time: Ticks, level: Option<Level>, partition: &str, records: u64) -> ControlFlow<()> {
        let Grouping { level: by_level, instance: by_instance, every, clock } = self.grouping;
        let instance = by_instance.then(|| self.instance(partition));
        let group = (every.map(|step| clock.step_start(time, step)), by_level.then_some(level), instance);
        self.add_group(group, records)
    }

    /// An empty tally of the same grouping and memory.
    fn part(&self) -> Tally {
        let (groups, by_name, memory) = (HashMap::default(), HashMap::default(), self.memory.clone());
        Tally { grouping: self.grouping, groups, instances: Vec::new(), by_name, last: None, memory, over: None }
    }

    /// Adds a part.
    fn merge_part(&mut self, other: &Tally) {
        for (&(time, level, instance), records) in &other.groups {
            let instance = instance.map(|at| self.number(&other.instances[at]));
            let _ = self.add_group((time, level, instance), *records);
        }
        let names = other.instances.iter().map(|name| INSTANCE_BYTES + name.len()).sum::<usize>();
        self.memory.release(GROUP_BYTES * other.groups.len() + names);
        if self.over.is_none() {
            self.over.clone_from(&other.over);
        }
    }

    fn add_group(&mut self, group: Group, records: u64) -> ControlFlow<()> {
        if let Some(known) = self.groups.get_mut(&group) {
            *known += records;
            return ControlFlow::Continue(());
        }
        self.charge(GROUP_BYTES)?;
        self.groups.insert(group, records);
        ControlFlow::Continue(())
    }

    fn charge(&mut self, bytes: usize) -> ControlFlow<()> {
        match self.memory.charge(bytes, "groups") {
            Ok(()) => ControlFlow::Continue(()),
            Err(over) => {
                self.over.get_or_insert(over);
                ControlFlow::Break(())
            }
        }
    }

    fn instance(&mut self, partition: &str) -> usize {
        if let Some((last, at)) = &self.last
            && last == partition
        {
            return *at;
        }
        let at = self.number(&instance_of(partition).0);
        self.last = Some((partition.into(), at));
        at
    }

    fn number(&mut self, instance: &str) -> usize {
        self.by_name.get(instance).copied().unwrap_or_else(|| {
            // A name that does not fit is charged with the group that follows.
            let _ = self.charge(INSTANCE_BYTES + instance.len());
            self.by_name.insert(instance.to_owned(), self.instances.len());
            self.instances.push(instance.to_owned());
            self.instances.len() - 1
        })
    }

    /// Oldest first, then by level, the least severe first, then by instance.
    pub(super) fn counts(self) -> Counted {
        let Tally { grouping, groups, instances, over, .. } = self;
        let mut counts: Vec<Count> = groups
            .into_iter()
            .map(|((time, level, at), records)| Count {
                time,
                level,
                instance: at.map(|at| instances[at].clone()),
                records,
            })
            .collect();
        if grouping.is_one_number() && counts.is_empty() {
            counts.push(Count { time: None, level: None, instance: None, records: 0 });
        }
        counts.sort();
        Counted { counts, over }
    }
}

/// `{"time":"2026-11-21T08:00:00Z","level":"error","instance":"web-17","records":12}`, without the parts that are not
/// grouped.
impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(time) = self.time {
            map.serialize_entry("time", &time.to_string())?;
        }
        if let Some(level) = self.level {
            map.serialize_entry("level", &level.map(Level::name))?;
        }
        if let Some(instance) = &self.instance {
            map.serialize_entry("instance", instance)?;
        }
        map.serialize_entry("records", &self.records)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_platform::budget::MemoryBudget;

    fn time(seconds: i64) -> Ticks {
        Ticks::from_unix(seconds, 0).expect("in range")
    }

    fn unlimited() -> QuestionBudget {
        QuestionBudget::unlimited()
    }

    #[test]
    fn groups_beyond_the_budget_are_refused_and_a_part_gives_back_its_memory() {
        let grouping = Grouping { every: Some(Duration::from_millis(1)), ..Grouping::default() };
        let memory = MemoryBudget::unshared(10 * GROUP_BYTES);
        let mut tally = Tally::new(grouping, memory.question());
        let mut part = tally.part();
        assert!((0..4).all(|n| part.add(time(n), None, "a", 1).is_continue()));
        tally.merge_part(&part);
        drop(part);
        assert!((0..10).all(|n| tally.add(time(n), None, "a", 1).is_continue()), "ten fit, and four are known");
        assert!(tally.add(time(10), None, "a", 1).is_break());
        let counted = tally.counts();
        assert_eq!(counted.counts.len(), 10);
        assert!(matches!(counted.over, Some(OverBudget::TooLarge(reason)) if reason.contains("groups")));
    }

    #[test]
    fn groups_are_summed_and_come_oldest_first() {
        let grouping =
            Grouping { level: true, instance: true, every: Some(Duration::from_secs(300)), ..Grouping::default() };
        let mut tally = Tally::new(grouping, unlimited());
        let _ = tally.add(time(299), Some(Level::Error), "web~00", 2);
        let _ = tally.add(time(301), None, "web", 1);
        let _ = tally.add(time(0), Some(Level::Error), "web~01", 3);
        let _ = tally.add(time(1), Some(Level::Info), "web", 4);
        let counts: Vec<_> =
            tally.counts().counts.iter().map(|c| serde_json::to_string(c).expect("plain data")).collect();
        assert_eq!(
            counts,
            [
                r#"{"time":"1970-01-01T00:00:00Z","level":"info","instance":"web","records":4}"#,
                r#"{"time":"1970-01-01T00:00:00Z","level":"error","instance":"web","records":5}"#,
                r#"{"time":"1970-01-01T00:05:00Z","level":null,"instance":"web","records":1}"#,
            ]
        );
    }

    #[test]
    fn without_a_grouping_there_is_one_number() {
        let mut tally = Tally::new(Grouping::default(), unlimited());
        assert_eq!(
            serde_json::to_string(&Tally::new(Grouping::default(), unlimited()).counts().counts).expect("plain data"),
            r#"[{"records":0}]"#
        );
        let _ = tally.add(time(1), None, "a", 2);
        let _ = tally.add(time(100), Some(Level::Info), "b", 3);
        assert_eq!(tally.counts().counts, [Count { time: None, level: None, instance: None, records: 5 }]);
        assert_eq!(Tally::new(Grouping { level: true, ..Grouping::default() }, unlimited()).counts().counts, []);
    }
}
