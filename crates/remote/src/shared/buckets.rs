//! The bucket plan of each daemon, stored in the remote store. A daemon that lost its data folder and reads its files
//! again places each record in the same partition.
//!
//! ```text
//! DaytableBuckets  PartitionKey            RowKey                                       properties
//!                  web-17-1f3a9c2e77b0d4a6 Log20261121-3f0c… (hash of the instance)     Host, Instance, Steps: `639…=2;639…=8`
//! ```
//!
//! Each daemon writes its own rows. Two daemons that write one instance need not agree, because readers merge the
//! partitions. A row of this table is written before the rows that the step places, and removed after the day-table
//! and its last archive.

use super::notes::{Notes, text};
use daytable_azure::{EdmValue, Entity, Query, literal};
use daytable_model::bucket_plan::{BucketStep, InstanceSteps};
use daytable_model::key::{DayTable, partition_key};
use daytable_model::property::to_hex;
use daytable_model::time::Ticks;
use daytable_query::tables::TableError;
use sha2::{Digest, Sha256};
use std::num::NonZeroU16;

/// The table of steps. No day-table can have this name.
pub const BUCKETS: &str = "DaytableBuckets";

/// The steps of an instance at one daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostBucketPlan {
    /// Name of the daemon.
    pub host: String,
    /// The steps.
    pub planned: InstanceSteps,
}

impl Notes<'_> {
    /// Writes the steps of an instance, replacing the earlier steps.
    pub fn put_steps(&self, host: &str, planned: &InstanceSteps) -> Result<(), TableError> {
        let steps = planned.steps.iter().map(|step| format!("{}={}", step.from.get(), step.buckets));
        let steps = steps.collect::<Vec<_>>().join(";");
        let values = vec![
            ("Host", EdmValue::from(host)),
            ("Instance", EdmValue::from(&*planned.partition)),
            ("Steps", EdmValue::from(steps.as_str())),
        ];
        self.put(BUCKETS, &partition_key(host, None), &row_key(planned), values)
    }

    /// The steps of a daemon.
    pub fn steps_of(&self, host: &str) -> Result<Vec<InstanceSteps>, TableError> {
        let found = self.all(BUCKETS, Query::partition(&partition_key(host, None)), read)?;
        Ok(found.into_iter().map(|found| found.planned).collect())
    }

    /// The steps of all daemons.
    pub fn all_steps(&self) -> Result<Vec<HostBucketPlan>, TableError> {
        self.all(BUCKETS, Query::default(), read)
    }

    /// Removes the steps of all daemons for a dropped day-table.
    pub fn forget_steps_in(&self, table: &DayTable) -> Result<(), TableError> {
        let (from, to) = (format!("{table}-"), format!("{table}."));
        let (from, to) = (literal(&EdmValue::from(from.as_str())), literal(&EdmValue::from(to.as_str())));
        let query = Query::default().filter(&format!("RowKey ge {from} and RowKey lt {to}"));
        let keys = |entity: &Entity| Ok(Some((entity.partition_key.clone(), entity.row_key.clone())));
        for (partition, row) in self.all(BUCKETS, query, keys)? {
            self.remove(BUCKETS, &partition, &row)?;
        }
        Ok(())
    }
}

fn row_key(planned: &InstanceSteps) -> String {
    format!("{}-{}", planned.table, to_hex(&Sha256::digest(planned.partition.as_bytes())[..16]))
}

/// An unreadable row is an error: without it, records would be placed in other partitions.
fn read(entity: &Entity) -> Result<Option<HostBucketPlan>, String> {
    let host = text(entity, "Host").unwrap_or_else(|| entity.partition_key.clone());
    let table = entity.row_key.split_once('-').and_then(|(table, _)| DayTable::parse(table).ok());
    let steps = text(entity, "Steps").and_then(|steps| read_steps(&steps));
    match (table, text(entity, "Instance"), steps) {
        (Some(table), Some(instance), Some(steps)) => {
            let planned = InstanceSteps { table, partition: instance.as_str().into(), steps };
            Ok(Some(HostBucketPlan { host, planned }))
        }
        _ => Err(host),
    }
}

fn read_steps(text: &str) -> Option<Vec<BucketStep>> {
    let read = |step: &str| {
        let (from, buckets) = step.split_once('=')?;
        let buckets = buckets.parse::<NonZeroU16>().ok().filter(|buckets| buckets.get() <= 256)?;
        Some(BucketStep { from: Ticks::new(from.parse().ok()?)?, buckets, is_remote: true })
    };
    let steps: Vec<BucketStep> = text.split(';').map(read).collect::<Option<_>>()?;
    (!steps.is_empty()).then_some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_or_are_no_steps() {
        let step = |from, buckets| BucketStep {
            from: Ticks::new(from).expect("a time"),
            buckets: NonZeroU16::new(buckets).expect("not zero"),
            is_remote: true,
        };
        assert_eq!(read_steps("7=2"), Some(vec![step(7, 2)]));
        assert_eq!(read_steps("7=2;90=256"), Some(vec![step(7, 2), step(90, 256)]));
        for text in ["", "7", "7=", "7=0", "7=257", "-7=2", "7=2;", "7=2;x=3"] {
            assert_eq!(read_steps(text), None, "{text}");
        }
    }
}
