//! Any actions come back from lines of JSON and from the columns of a checkpoint.

use super::*;
use crate::RemovedFile;
use crate::action::{AppTransaction, PartitionValues};
use crate::checkpoint::round_trip;
use crate::line;
use crate::metadata::{KNOWN_VERSIONS, LogAction, TableMetadata};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

fn paths() -> impl Strategy<Value = Arc<str>> {
    vec("[^/]{1,8}", 1..4)
        .prop_filter("parts", |parts| !parts.iter().any(|part| part == "." || part == ".." || part.ends_with(':')))
        .prop_map(|parts| format!("t/{}", parts.join("/")).into())
}

fn values() -> impl Strategy<Value = PartitionValues> {
    // An empty text is null.
    btree_map(".{0,6}", option::of(".{1,6}"), 0..4)
}

fn texts() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(".{0,6}", ".{0,6}", 0..4)
}

fn sizes() -> impl Strategy<Value = u64> {
    0..=i64::MAX as u64
}

fn actions() -> impl Strategy<Value = LogAction> {
    let add = (paths(), values(), sizes(), any::<i64>(), option::of(".*"), texts()).prop_map(
        |(path, partition_values, size, modification_time, stats, tags)| {
            LogAction::Add(AddedFile { path, partition_values, size, modification_time, stats, tags })
        },
    );
    let remove = (paths(), any::<i64>(), option::of(values()), option::of(sizes())).prop_map(
        |(path, deletion_time, partition_values, size)| {
            LogAction::Remove(RemovedFile { path, deletion_time, partition_values, size })
        },
    );
    let txn = (".*", any::<i64>(), option::of(any::<i64>()))
        .prop_map(|(app_id, version, last_updated)| LogAction::Txn(app_id, AppTransaction { version, last_updated }));
    let column = (".*", any::<bool>(), texts()).prop_map(|(name, nullable, metadata)| TableColumn {
        nullable,
        metadata,
        ..TableColumn::new(name, DeltaType::StringMap)
    });
    let metadata = (
        ".*",
        option::of(".*"),
        option::of(".*"),
        vec(column, 0..3),
        vec(".*", 0..3),
        texts(),
        option::of(any::<i64>()),
    )
        .prop_map(|(id, name, description, columns, partition_columns, configuration, created_time)| {
            LogAction::Metadata(TableMetadata {
                id,
                name,
                description,
                columns,
                partition_columns,
                configuration,
                created_time,
            })
        });
    prop_oneof![4 => add, 3 => remove, 2 => txn, 1 => metadata, 1 => Just(LogAction::Protocol(KNOWN_VERSIONS))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Lines of JSON are read as the actions that they were made of.
    #[test]
    fn lines_come_back(actions in vec(actions(), 0..12)) {
        prop_assert_eq!(line::parse(&line::text(&actions, "id", NOW).expect("lines")), Ok(actions));
    }

    /// The columns of a checkpoint are read as the actions that they were made of.
    #[test]
    fn columns_come_back(actions in vec(actions(), 0..12)) {
        prop_assert_eq!(round_trip(&actions), Ok(actions));
    }
}
