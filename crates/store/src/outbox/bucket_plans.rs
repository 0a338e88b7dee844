//! `buckets.json`: the bucket counts of instances by record time, beside the catalog.
//!
//! ```text
//! {"format":1,"host":"web-17-1f3a9c2e77b0d4a6","endpoint":"https://logs.table.core.windows.net","instances":[
//!   {"table":"Log20261121","partition":"web","steps":[{"from":639308988610000000,"buckets":4,"is_afar":true}]}]}
//! ```
//!
//! The file is always replaced as a whole: written under another name, synced, renamed, and the folder synced. So it
//! has either the new plans or the old ones. The catalog does not contain it on purpose. A restored backup must not use
//! the plans of its own time: later plans already placed the records that it reads again. Without this file, the plans
//! are read from the remote store.

use crate::StoreError;
use crate::private_file;
use daytable_model::bucket_plan::{BucketStep, InstanceSteps};
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

const FORMAT: u32 = 1;
/// The largest accepted file. It has room for tens of thousands of instances with buckets, far more than expected.
const BYTES_MAX: u64 = 64 << 20;

/// The contents of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketPlans {
    /// The daytable that made the plans.
    pub host: String,
    /// The service that has the same plans.
    pub endpoint: String,
    /// The plans.
    pub planned: Vec<InstanceSteps>,
}

#[derive(Serialize, Deserialize)]
struct Written {
    format: u32,
    host: String,
    #[serde(default)]
    endpoint: String,
    instances: Vec<Instance>,
}

#[derive(Serialize, Deserialize)]
struct Instance {
    table: String,
    partition: String,
    steps: Vec<WrittenStep>,
}

#[derive(Serialize, Deserialize)]
struct WrittenStep {
    from: i64,
    buckets: NonZeroU16,
    is_afar: bool,
}

fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("buckets.json")
}

/// Reads the file; none if there is no file.
///
/// # Errors
///
/// If the file is unreadable, or is not a file of daytable.
pub fn read(data_dir: &Path) -> Result<Option<BucketPlans>, StoreError> {
    let path = path_in(data_dir);
    match std::fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io(&path)(error)),
        Ok(metadata) if metadata.len() > BYTES_MAX => return Err(foreign(path, "it is too large")),
        Ok(_) => {}
    }
    let bytes = std::fs::read(&path).map_err(StoreError::io(&path))?;
    match serde_json::from_slice::<Written>(&bytes) {
        Ok(written) if written.format == FORMAT => {
            let Written { host, endpoint, .. } = written;
            let planned: Option<Vec<InstanceSteps>> = written.instances.into_iter().map(planned).collect();
            let planned = planned.ok_or_else(|| foreign(path, "it has an invalid day-table or time"))?;
            Ok(Some(BucketPlans { host, endpoint, planned }))
        }
        Ok(written) => Err(foreign(path, &format!("its format is {}, and {FORMAT} is known", written.format))),
        Err(error) => Err(foreign(path, &error.to_string())),
    }
}

fn foreign(path: PathBuf, what: &str) -> StoreError {
    StoreError::Foreign(path, format!("{what}; without it the remote store is asked"))
}

fn planned(instance: Instance) -> Option<InstanceSteps> {
    let step = |step: WrittenStep| {
        let buckets = step.buckets.min(BUCKETS_MAX);
        Some(BucketStep { from: Ticks::new(step.from)?, buckets, is_remote: step.is_afar })
    };
    let steps = instance.steps.into_iter().map(step).collect::<Option<Vec<_>>>()?;
    let table = DayTable::parse(&instance.table).ok()?;
    Some(InstanceSteps { table, partition: instance.partition.as_str().into(), steps })
}

/// The number of possible bucket names.
const BUCKETS_MAX: NonZeroU16 = NonZeroU16::new(256).expect("it is not zero");

/// Writes the file durably. After an error, the file has the old plans or the new ones.
///
/// # Errors
///
/// A full or failing disk.
pub fn write(data_dir: &Path, steps: &BucketPlans) -> Result<(), StoreError> {
    let path = path_in(data_dir);
    let instance = |planned: &InstanceSteps| Instance {
        table: planned.table.to_string(),
        partition: planned.partition.to_string(),
        steps: planned
            .steps
            .iter()
            .map(|step| WrittenStep { from: step.from.get(), buckets: step.buckets, is_afar: step.is_remote })
            .collect(),
    };
    let instances = steps.planned.iter().map(instance).collect();
    let written = Written { format: FORMAT, host: steps.host.clone(), endpoint: steps.endpoint.clone(), instances };
    let bytes = serde_json::to_vec(&written).map_err(|error| StoreError::io(&path)(error.into()))?;
    private_file::replace(&path, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_plans_are_read_back_and_malformed_files_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(read(dir.path()).expect("read"), None);
        let step = |from, buckets, is_remote| BucketStep {
            from: Ticks::new(from).expect("a time"),
            buckets: NonZeroU16::new(buckets).expect("not zero"),
            is_remote,
        };
        let planned = InstanceSteps {
            table: DayTable::parse("Log20261121").expect("a day-table"),
            partition: "web \"17\"".into(),
            steps: vec![step(639_308_988_610_000_000, 2, true), step(639_308_989_610_000_000, 8, false)],
        };
        let mut steps = BucketPlans { host: "web".into(), endpoint: "https://a".into(), planned: vec![planned] };
        write(dir.path(), &steps).expect("written");
        assert_eq!(read(dir.path()).expect("read"), Some(steps.clone()));
        steps.planned.clear();
        write(dir.path(), &steps).expect("written");
        assert_eq!(read(dir.path()).expect("read"), Some(steps));
        for broken in [
            "",
            "{",
            "{\"format\":2,\"host\":\"\",\"instances\":[]}",
            "[]",
            r#"{"format":1,"host":"","instances":[{"table":"Log","partition":"a","steps":[]}]}"#,
            r#"{"format":1,"host":"","instances":[{"table":"Log20261121","partition":"a","steps":[{"from":-1,"buckets":2,"is_afar":true}]}]}"#,
            r#"{"format":1,"host":"","instances":[{"table":"Log20261121","partition":"a","steps":[{"from":1,"buckets":0,"is_afar":true}]}]}"#,
        ] {
            std::fs::write(path_in(dir.path()), broken).expect("written");
            assert!(read(dir.path()).is_err(), "{broken}");
        }
    }
}
