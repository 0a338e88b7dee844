//! A search for a text and a level skips most rows, but finds the same rows as a whole scan.

use super::*;
use proptest::prelude::*;

/// A row: the second of the day, the partition, whether its text has the needle, and whether it is an error.
type Written = BTreeMap<(u64, bool), (bool, bool)>;

/// Commits rows. Earlier commits may have written the same row with another text and level.
fn write_rows(store: &Store, rows: &Written, number: u64) {
    let batches = [(false, "web-1"), (true, "web-2")].map(|(second, partition)| {
        let mut batch = Batch::new(table(day(0)), partition.into());
        for ((n, _), (has_text, is_error)) in rows.iter().filter(|((_, of), _)| *of == second) {
            let level = Some(if *is_error { Level::Error } else { Level::Info }).filter(|_| n % 5 > 0);
            let message = format!("{} {n}", if *has_text { "needle" } else { "hay" });
            let record = Record { level, message: message.into(), ..Record::default() };
            // No two instances have a key in common.
            let key = RowKey::new(day(0).plus(seconds(*n)), SOURCE, 2 * n + u64::from(second));
            daytable_model::entity::append(&mut batch, key, "/var/log/app.log", &record);
        }
        batch
    });
    let batches: Vec<Batch> = batches.into_iter().filter(|batch| !batch.is_empty()).collect();
    assert!(batches.is_empty() || commit(store, batches, number));
}

fn row() -> impl Strategy<Value = ((u64, bool), (bool, bool))> {
    ((0u64..24, any::<bool>()), any::<(bool, bool)>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Rows are written and overwritten in many pages, and snapshots end at any time. Each row with the text, the
    /// level, or both is found once, newest first. A row that was replaced by one without them is not found.
    #[test]
    fn a_search_finds_the_rows_of_a_whole_scan(
        commits in proptest::collection::vec(proptest::collection::vec(row(), 0..20), 1..6),
        renewals in proptest::collection::vec(any::<bool>(), 64),
        looks in (any::<bool>(), any::<bool>()),
    ) {
        let folder = Folder::new();
        let store = folder.open();
        for (rows, number) in commits.into_iter().zip(1..) {
            write_rows(&store, &rows.into_iter().collect(), number);
        }
        let (text, level) = (looks.0.then_some("needle"), looks.1.then_some(Level::Warn));
        let is_it = |(found, of): &&(String, Option<Level>)| text.is_none_or(|text| found.contains(text)) && *of >= level;
        let plain = |row: Result<Row, StoreError>| row.map(|row| (message(&row), row.level())).expect("a row");
        let reader = folder.reader();
        if let Ok(whole) = reader.scan(&table(day(0)), &Range::all()) {
            let whole: Vec<_> = whole.map(plain).collect();
            let wanted: Vec<_> = whole.iter().filter(is_it).collect();
            let range = Range { contains: text.map(str::to_owned), level, ..Range::all() };
            let mut scan = reader.scan(&table(day(0)), &range).expect("a table");
            let mut found = Vec::new();
            for renews in renewals {
                scan.hurry(renews);
                found.extend(scan.next().map(plain));
            }
            prop_assert_eq!(found.iter().filter(is_it).collect::<Vec<_>>(), wanted);
            prop_assert!(level.is_none() || found.iter().all(|(_, of)| *of >= level));
        }
    }
}
