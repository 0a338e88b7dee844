//! Damage of the source log: in a running store, in a killed one, and in one whose commit fails as well.

use super::*;
use crate::format::catalog::Catalog;

fn change(folder: &Folder, statement: &str) {
    let connection = rusqlite::Connection::open(Catalog::path_in(&folder.path())).expect("opened");
    assert!(connection.execute(statement, []).expect(statement) > 0, "{statement} changed nothing");
}

const DAMAGE: &str =
    "UPDATE source_log SET sources = zeroblob(length(sources)) WHERE seq = (SELECT max(seq) FROM source_log)";

fn position(folder: &Folder) -> u64 {
    let sources = folder.reader().sources().expect("read");
    let [source] = &sources[..] else { panic!("{sources:?}") };
    source.position
}

fn assert_balanced(folder: &Folder) {
    let accounts = folder.reader().catalog().accounts().expect("read");
    assert_eq!((accounts.records_surplus(), accounts.rows_surplus()), (0, 0), "{accounts:?}");
}

/// Commits continue, a stop is clean, and no position is lost.
#[test]
fn a_store_that_runs_loses_nothing_by_a_row_that_is_damaged() {
    for commits in [1, 9] {
        let folder = Folder::new();
        let store = folder.open();
        write(&store, day(0), 0, 10);
        write(&store, day(0), 10, 20);
        change(&folder, DAMAGE);
        (0..commits).for_each(|n| write(&store, day(0), 20 + n, 21 + n));
        store.close().expect("closed");
        assert_eq!(folder.messages(day(0)), newest_first(0, 20 + commits));
        assert_eq!(position(&folder), 10 * (20 + commits));
        assert_balanced(&folder);
        folder.open().close().expect("opened again");
    }
}

/// A folder with a damaged row after a kill is refused until it is repaired. Then only the last commit of its source is
/// read again.
#[test]
fn a_repair_leaves_out_a_row_that_is_damaged_and_nothing_else() {
    let folder = Folder::new();
    let store = folder.open();
    let rule = Rule { name: "Log".into(), keep: seconds(86_400), ..Rule::default() };
    store.steps().set_rules(vec![rule.clone()]).expect("noted");
    write(&store, day(1), 0, 1);
    store.steps().drop_table(&table(day(1))).expect("dropped");
    for n in 1..4 {
        write(&store, day(0), n * 10, n * 10 + 10);
    }
    let killed = copy_of(&folder, |_| true);
    store.close().expect("closed");
    change(&killed, DAMAGE);
    let refused = Store::open(&killed.path(), StoreOptions::small()).err();
    let Some(error @ StoreError::SourceLogDamaged { .. }) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("daytable repair --data"), "{error}");
    let said = repair(&killed.path()).expect("repaired");
    let [kept, left_out, accounts] = &said[..] else { panic!("{said:?}") };
    assert!(kept.contains("catalog.before-repair-1.db"), "{kept}");
    assert!(left_out.contains("the source log of commit 4 is damaged: its checksum is another"), "{left_out}");
    assert!(accounts.contains("out by -10 records and 0 rows"), "{accounts}");
    assert_eq!(repair(&killed.path()).expect("repaired"), [""; 0], "the second time there is nothing to repair");
    assert_eq!(position(&killed), 300);
    assert_balanced(&killed);
    let reader = killed.reader();
    assert_eq!(reader.catalog().rules().expect("read"), [rule]);
    assert_eq!(reader.catalog().dropped().expect("read"), [table(day(1))]);
    let store = killed.open();
    write(&store, day(0), 30, 45);
    store.close().expect("closed");
    assert_eq!(killed.messages(day(0)), newest_first(10, 45));
    assert_balanced(&killed);
}

/// A second try finds the same damage. So the store ends, and its error tells what to do.
#[test]
fn a_store_that_cannot_be_opened_again_because_of_damage_ends() {
    let folder = Folder::new();
    let store = open_lasting(&folder);
    write(&store, day(0), 0, 10);
    write(&store, day(0), 10, 20);
    change(&folder, DAMAGE);
    change(&folder, "DELETE FROM file");
    assert!(!commit(&store, vec![batch(day(0), "web-1", &[(day(0), 999, "after")])], 999), "nothing is told as done");
    let intake = store.commit_queue();
    while !intake.has_ended() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(matches!(store.steps().committed(), Err(StoreError::Closed)));
    let error = store.close().expect_err("it ended");
    assert!(error.to_string().contains("daytable repair --data"), "{error}");
    repair(&folder.path()).expect("repaired");
    folder.open().close().expect("opened");
    assert_eq!(position(&folder), 100);
    assert_balanced(&folder);
}
