//! A text is looked for in pages without a look at most of their rows; what is found is what a whole scan finds.

use super::*;
use proptest::prelude::*;

/// A row: seconds into the day, which partition, whether its text has the needle.
type Written = BTreeMap<(u64, bool), bool>;

fn range(contains: Option<&str>) -> Range {
    Range { partitions: None, from: Ticks::MIN, to: Ticks::MAX, contains: contains.map(str::to_owned) }
}

/// Commits rows; of the same one, other commits may have had another text.
fn write_rows(store: &Store, rows: &Written, number: u64) {
    let texts: BTreeMap<_, _> =
        rows.iter().map(|(of, has)| (of, format!("{} {}", if *has { "needle" } else { "hay" }, of.0))).collect();
    let batches = [(false, "web-1"), (true, "web-2")].map(|(second, partition)| {
        // One instance has no key of the other's.
        let row = |((n, _), text): (&(u64, bool), &'_ String)| {
            (day(0).plus(seconds(*n)), 2 * n + u64::from(second), text.clone())
        };
        let rows: Vec<_> =
            texts.iter().filter(|((_, of), _)| *of == second).map(|(of, text)| row((of, text))).collect();
        let rows: Vec<_> = rows.iter().map(|(time, position, text)| (*time, *position, text.as_str())).collect();
        batch(day(0), partition, &rows)
    });
    let batches: Vec<Batch> = batches.into_iter().filter(|batch| !batch.is_empty()).collect();
    assert!(batches.is_empty() || commit(store, batches, number));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever was written, and written again, in however many pages, and however often the snapshot is let go: rows
    /// that have the text are found, each once, the newest first, and none that was replaced by one without it.
    #[test]
    fn a_text_is_found_as_a_whole_scan_finds_it(
        commits in proptest::collection::vec(proptest::collection::btree_map((0u64..24, any::<bool>()), any::<bool>(), 0..20), 1..6),
        renewals in proptest::collection::vec(any::<bool>(), 64),
    ) {
        let folder = Folder::new();
        let store = folder.open();
        for (rows, number) in commits.iter().zip(1..) {
            write_rows(&store, rows, number);
        }
        let reader = folder.reader();
        if let Ok(whole) = reader.scan(&table(day(0)), &range(None)) {
            let whole: Vec<String> = whole.map(|row| message(&row.expect("a row"))).collect();
            let wanted: Vec<&String> = whole.iter().filter(|text| text.contains("needle")).collect();
            let mut scan = reader.scan(&table(day(0)), &range(Some("needle"))).expect("a table");
            let mut found = Vec::new();
            for renews in renewals {
                if renews {
                    scan.pause();
                    scan.renew();
                }
                found.extend(scan.next().map(|row| message(&row.expect("a row"))));
            }
            prop_assert_eq!(found.iter().filter(|text| text.contains("needle")).collect::<Vec<_>>(), wanted);
        }
    }
}
