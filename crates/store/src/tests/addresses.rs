//! Pages under another address than the one they were written with, as damage of a page of SQLite or an exchanged
//! journal may cause.

use super::*;
use crate::format::catalog::Committed;
use crate::maintain::check::{CatalogEntry, FileFault, open_file};
use rusqlite::Connection;
use std::ops::ControlFlow;

/// Two days of two instances. Each instance has a page of its own and rows of a shared page in each day, from the same
/// two commits.
fn two_days() -> Folder {
    let folder = Folder::new();
    let store = folder.open();
    for (n, length) in [(1, 5000), (2, 5)] {
        let of = |at: Ticks, partition: &str| {
            let text = format!("{partition} of {at} {}", "x".repeat(length));
            let key = key_of(at, partition, n);
            batch(at, partition, &[(key.time(), key.position(), &text)])
        };
        let batches = [day(0), day(1)].map(|at| [of(at, "web-1"), of(at, "web-2")]);
        assert!(commit(&store, batches.into_iter().flatten().collect(), n));
    }
    store.close().expect("closed");
    folder
}

/// The key of an instance's row in a commit. Two instances never have the same key.
fn key_of(at: Ticks, partition: &str, n: u64) -> RowKey {
    RowKey::new(at.plus(seconds(n)), SOURCE, 10 * n + u64::from(partition == "web-1"))
}

fn all() -> Range {
    Range::all()
}

/// The intact rows of a day, and the first error.
fn read(folder: &Folder, at: Ticks) -> (Vec<Row>, Option<StoreError>) {
    let reader = folder.reader();
    let mut rows = Vec::new();
    for row in reader.scan(&table(at), &all()).expect("a table") {
        match row {
            Ok(row) => rows.push(row),
            Err(error) => return (rows, Some(error)),
        }
    }
    (rows, None)
}

pub(super) fn faults(folder: &Folder, at: Ticks) -> Vec<FileFault> {
    open_file(&folder.file(at), &|| Ok(CatalogEntry::Unknown), &mut |_| ControlFlow::Continue(())).faults
}

#[test]
fn a_page_under_another_address_is_an_error_for_every_reader() {
    for damage in [
        "UPDATE page SET partition = 3 - partition WHERE partition > 0",
        "UPDATE partition SET name = 'web-9' WHERE name = 'web-2'",
        "UPDATE page SET seq = 2",
        "UPDATE page SET seq = 1 WHERE partition = 0",
        "UPDATE page SET partition = 1",
        "UPDATE page SET partition = 0 WHERE id = 1",
        "ATTACH 'OTHER' AS other; DELETE FROM body; INSERT INTO body SELECT * FROM other.body;
         DELETE FROM page; INSERT INTO page SELECT * FROM other.page",
        "ATTACH 'OTHER' AS other; DELETE FROM shared_page; INSERT INTO shared_page SELECT * FROM other.shared_page",
        "DELETE FROM shared_page",
    ] {
        let folder = two_days();
        assert_eq!((read(&folder, day(0)).0.len(), faults(&folder, day(0))), (4, vec![]));
        let file = Connection::open(folder.file(day(0))).expect("opened");
        let damage = damage.replace("OTHER", &folder.file(day(1)).to_string_lossy());
        file.execute_batch(&damage).expect(&damage);
        assert!(file.total_changes() > 0, "{damage} changed nothing");
        drop(file);

        let (rows, error) = read(&folder, day(0));
        let Some(error) = error.filter(StoreError::is_damage) else { panic!("{damage}: it is not found") };
        let name = table(day(0)).to_string();
        let says = ["partition and commit", "another name", "not of its partition", "are missing"];
        assert!(says.iter().any(|what| error.to_string().contains(what)), "{damage}: {error}");
        assert!(error.to_string().contains(&name), "{error}");
        for row in rows {
            assert!(message(&row).starts_with(&format!("{} of {}", row.partition, day(0))), "{damage}");
        }
        // Reads by key return the right row, or none.
        let keys = [day(0), day(1)]
            .into_iter()
            .flat_map(|at| ["web-1", "web-2"].into_iter().flat_map(move |of| [1, 2].map(|n| key_of(at, of, n))));
        for (key, partition) in keys.flat_map(|key| ["web-1", "web-2", "web-9"].map(|partition| (key, partition))) {
            if let Ok(Some(row)) = folder.reader().row(&table(day(0)), partition, key) {
                assert!(message(&row).starts_with(&format!("{partition} of {}", day(0))), "{damage}");
            }
        }
        let found = faults(&folder, day(0));
        assert!(found.iter().any(|fault| matches!(fault, FileFault::Bytes(_))), "{damage}: {found:?}");
        // Sealing refuses the page too.
        let out = folder.path().join(format!("tables/{}.2.parquet", table(day(0))));
        let committed = Committed { seq: 99, ..Committed::default() };
        let inputs = vec![folder.file(day(0))];
        let sealing = sealed::SealJob {
            table: table(day(0)),
            generation: 2,
            inputs,
            committed,
            out,
            sizes: sealed::SealedSizes::SMALL,
            names: Default::default(),
        };
        let sealed = sealed::seal(&sealing, &mut |_| ControlFlow::Continue(()));
        assert!(sealed.as_ref().is_err_and(StoreError::is_damage), "{damage}: {sealed:?}");
    }
}

/// The index of partition names has a wrong number: a read by that name finds the pages of another partition, and
/// fails.
#[test]
fn a_name_that_leads_to_another_partition_is_found() {
    let folder = two_days();
    let file = Connection::open(folder.file(day(0))).expect("opened");
    // The table is right, and its index is wrong.
    let swap = "PRAGMA writable_schema = ON;
                CREATE TABLE wrong(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
                INSERT INTO wrong SELECT 3 - id, name FROM partition;
                UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_wrong_1')
                WHERE name = 'sqlite_autoindex_partition_1';
                DELETE FROM sqlite_master WHERE tbl_name = 'wrong';";
    file.execute_batch(swap).expect("swapped");
    drop(file);
    let reader = folder.reader();
    let range = Range { partitions: Some(vec!["web-1".into()]), ..all() };
    let first = reader.scan(&table(day(0)), &range).expect("a table").next().expect("an answer");
    assert!(matches!(first, Err(StoreError::Damaged { .. })));
    let found = faults(&folder, day(0));
    assert!(
        found
            .iter()
            .any(|fault| fault.clone() == FileFault::Count("2 of its partitions are not found by their names".into())),
        "{found:?}"
    );
}
