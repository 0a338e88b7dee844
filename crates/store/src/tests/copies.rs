//! Files of days whose pages were merged more than once, as an earlier daytable did.

use super::lives::seal_with_copies;
use super::*;
use crate::format::day_file::{DayFile, Insert};
use crate::format::page::{Page, PageBuilder};
use crate::format::page_rows::{self, HEADER_COLUMNS, PageRow, read_header};
use crate::maintain::check::{CatalogEntry, FileFault, open_file, open_rows};
use crate::maintain::page_copies::{DroppedCopies, drop_copies};
use std::ops::{ControlFlow, Range as Indexes};

const ROWS: u64 = 8;

/// A closed folder whose day has a page for each of [`ROWS`] records.
fn folder_of_pages() -> Folder {
    let folder = Folder::new();
    let store = Store::open(&folder.path(), StoreOptions { idle_day: seconds(600), ..StoreOptions::small() });
    let store = store.expect("opened");
    for n in 0..ROWS {
        let text = format!("{n} {}", "x".repeat(5000));
        assert!(commit(&store, vec![batch(day(0), "web-1", &[(day(0).plus(seconds(n)), n, &text)])], n + 1));
    }
    store.close().expect("closed");
    folder
}

fn day_file(folder: &Folder) -> DayFile {
    DayFile::open(&folder.file(day(0)), &table(day(0))).expect("opened")
}

/// The pages of the file, the oldest commit first.
fn pages(file: &DayFile) -> Vec<(PageRow, Page)> {
    let select = format!("SELECT {HEADER_COLUMNS} FROM page ORDER BY seq, id");
    let mut statement = file.connection().prepare(&select).expect("a statement");
    let rows = statement.query_map([], read_header).expect("read").map(|row| row.expect("a row"));
    let home = file.address_of("web-1");
    let page = |row: &PageRow| {
        page_rows::read_page(file.connection(), file.path(), home, row, &mut Default::default()).expect("whole")
    };
    rows.map(|row| (page(&row), row)).map(|(page, row)| (row, page)).collect()
}

/// Writes what some of the first pages are merged into, beside them, as if a merge of theirs had been written after another one.
fn merge_beside(file: &mut DayFile, which: Indexes<usize>) {
    let total = file.total().expect("read");
    let mut sources = pages(file);
    sources.retain(|(_, page)| page.len() == 1);
    let mut builder = PageBuilder::new();
    sources[which.clone()].iter().for_each(|(_, page)| builder.push_page(page));
    let inserts: Vec<Insert> =
        builder.build().pages.into_iter().map(|page| Insert::of_one(&"web-1".into(), page)).collect();
    file.insert(sources[which.end - 1].0.seq, &inserts).expect("written");
    let update = "UPDATE total SET last_seq = ?1, entities = ?2, seq_before = ?3, entities_before = ?4";
    let before = (total.last_seq, total.entities, total.seq_before, total.entities_before);
    file.connection().execute(update, before).expect("restored");
}

fn faults(
    folder: &Folder,
    check: impl Fn(&std::path::Path, &dyn Fn() -> Result<CatalogEntry, StoreError>) -> check::FileReport,
) -> Vec<FileFault> {
    let (reader, path) = (folder.reader(), folder.file(day(0)));
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    check(&path, &|| CatalogEntry::of(Some(reader.catalog()), &name)).faults
}

fn all_faults(folder: &Folder) -> Vec<FileFault> {
    faults(folder, |path, entry| open_file(path, entry, &mut |_| ControlFlow::Continue(())))
}

fn numbers(folder: &Folder) -> Vec<u64> {
    let number = |text: String| text.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    folder.messages(day(0)).into_iter().map(number).collect()
}

fn all_numbers() -> Vec<u64> {
    (0..ROWS).rev().collect()
}

/// The check of the counts finds copies, and repair drops pages that later pages hold.
#[test]
fn repair_drops_copies_of_pages() {
    let folder = folder_of_pages();
    let mut file = day_file(&folder);
    // All pages are merged twice; the second time with equal results.
    merge_beside(&mut file, 0..ROWS as usize);
    merge_beside(&mut file, 0..ROWS as usize);
    file.close().expect("closed");
    let found = faults(&folder, |path, entry| open_rows(path, entry));
    let [FileFault::Copies(found)] = &*found else { panic!("{found:?}") };
    assert!(found.starts_with("its pages have 24 rows, its total says 8: pages were merged more than once"), "{found}");
    assert_eq!(numbers(&folder), all_numbers(), "readers leave copies out");
    let said = repair(&folder.path()).expect("repaired").join("\n");
    assert!(said.contains("dropped 16 entities of 9 pages that later pages have as well"), "{said}");
    assert!(!said.contains("more go"), "{said}");
    assert_eq!(all_faults(&folder), []);
    assert_eq!(numbers(&folder), all_numbers());
    let again = repair(&folder.path()).expect("repaired");
    assert_eq!(again, [""; 0]);
}

/// Of pages that share a part of their rows, the earlier one is written again without these.
#[test]
fn repair_keeps_the_rows_that_a_page_has_alone() {
    let folder = folder_of_pages();
    let mut file = day_file(&folder);
    let originals: Vec<i64> = pages(&file).iter().filter_map(|(row, _)| row.id()).collect();
    merge_beside(&mut file, 0..5);
    merge_beside(&mut file, 3..ROWS as usize);
    // The originals are gone, as after the first of two merges.
    for id in originals {
        file.connection().execute("DELETE FROM page WHERE id = ?1", [id]).expect("removed");
        crate::format::page_rows::delete_body(file.connection(), id).expect("removed");
    }
    crate::format::day_file::forget(file.connection(), 1..=ROWS.cast_signed()).expect("removed");
    let dropped = drop_copies(&mut file).expect("dropped");
    assert_eq!(dropped, Some(DroppedCopies { pages: 1, entities: 2, left: 0 }));
    let lengths: Vec<usize> = pages(&file).iter().map(|(_, page)| page.len()).collect();
    assert_eq!(lengths, [3, 5]);
    file.close().expect("closed");
    assert_eq!(all_faults(&folder), []);
    let store = folder.open();
    assert_eq!(seal_with_copies(&store, day(0)), 0);
    assert_eq!(numbers(&folder), all_numbers());
}

/// A repair that was killed goes on where it was.
#[test]
fn a_repair_that_was_killed_goes_on() {
    use crate::maintain::page_copies::without_superseded;
    let folder = folder_of_pages();
    let mut file = day_file(&folder);
    merge_beside(&mut file, 0..5);
    merge_beside(&mut file, 3..ROWS as usize);
    // What the first transactions of the killed repair replaced.
    for (row, _) in pages(&file).into_iter().take(3) {
        let merge = without_superseded(&file, &row).expect("read").expect("it has copies");
        file.replace(&[merge], &[]).expect("replaced");
    }
    let DroppedCopies { left, .. } = drop_copies(&mut file).expect("dropped").expect("copies");
    assert_eq!(left, 0);
    let lengths: Vec<usize> = pages(&file).iter().map(|(_, page)| page.len()).collect();
    assert_eq!(lengths, [3, 5]);
    file.close().expect("closed");
    assert_eq!(all_faults(&folder), []);
    assert_eq!(numbers(&folder), all_numbers());
}

/// A page with a row that another page of its commit has otherwise is not written again: it would get the higher number, and
/// the row that lost would win.
#[test]
fn a_page_with_a_rival_stays_as_it_is() {
    let folder = folder_of_pages();
    let mut file = day_file(&folder);
    merge_beside(&mut file, 0..ROWS as usize);
    let seq = pages(&file).last().expect("pages").0.seq;
    let total = file.total().expect("read");
    // The same commit has row 0 with another text, and row 1 as it is.
    let same = format!("1 {}", "x".repeat(5000));
    let rows = [(day(0), 0, "another text"), (day(0).plus(seconds(1)), 1, same.as_str())];
    let other = batch(day(0), "web-1", &rows);
    let mut builder = PageBuilder::new();
    builder.push_batch(&other);
    file.insert(seq, &[Insert::of_one(&"web-1".into(), builder.build().pages.remove(0))]).expect("written");
    let update = "UPDATE total SET last_seq = ?1, entities = ?2";
    file.connection().execute(update, (total.last_seq, total.entities)).expect("restored");
    file.close().expect("closed");
    let before = folder.messages(day(0));
    assert!(before.contains(&"another text".to_owned()), "of one commit, the page with the higher number wins");
    let mut file = day_file(&folder);
    drop_copies(&mut file).expect("dropped").expect("copies");
    file.close().expect("closed");
    assert_eq!(folder.messages(day(0)), before);
}

/// Sealing leaves copies out by itself, whatever they overlap.
#[test]
fn a_day_with_copies_is_sealed_with_every_record_once() {
    let folder = folder_of_pages();
    let mut file = day_file(&folder);
    for which in [0..3, 2..6, 1..8, 0..8] {
        merge_beside(&mut file, which);
    }
    file.close().expect("closed");
    let store = folder.open();
    assert_eq!(seal_with_copies(&store, day(0)), 3 + 4 + 7 + 8);
    assert_eq!(numbers(&folder), all_numbers());
    store.close().expect("closed");
    let accounts = folder.reader().catalog().accounts().expect("read");
    assert_eq!((accounts.records_surplus(), accounts.rows_surplus()), (0, 0), "{accounts:?}");
}

/// Of equal keys of one commit, none is dropped that says something else.
#[test]
fn rows_that_differ_are_no_copies() {
    let folder = folder_of_pages();
    let mut file = day_file(&folder);
    let total = file.total().expect("read");
    let mut builder = PageBuilder::new();
    let other = batch(day(0), "web-1", &[(day(0), 0, "another text")]);
    builder.push_batch(&other);
    let inserts = [Insert::of_one(&"web-1".into(), builder.build().pages.remove(0))];
    let first = pages(&file)[0].0.seq;
    file.insert(first, &inserts).expect("written");
    let update = "UPDATE total SET last_seq = ?1, entities = ?2";
    file.connection().execute(update, (total.last_seq, total.entities)).expect("restored");
    let dropped = drop_copies(&mut file).expect("looked");
    assert_eq!(dropped, Some(DroppedCopies::default()));
    file.close().expect("closed");
}

/// A file with fewer entities than its total says lacks some. No repair and no sealing takes that for copies.
#[test]
fn a_file_that_lacks_entities_is_not_sealed() {
    let folder = folder_of_pages();
    let mut file = day_file(&folder);
    assert_eq!(drop_copies(&mut file).expect("looked"), None);
    file.connection().execute("DELETE FROM page WHERE id = 3", []).expect("removed");
    assert_eq!(drop_copies(&mut file).expect("looked"), None);
    file.close().expect("closed");
    let store = folder.open();
    let sealing = store.steps().begin_seal(&table(day(0))).expect("begun");
    let job = sealing.to_write(store.steps().committed().expect("read"));
    let error = sealed::seal(&job, &mut |_| ControlFlow::Continue(())).expect_err("it lacks one");
    assert_eq!(error.to_string(), "the day's files claim 8 entities, but contain 7");
}

/// What a replacement removes, it has written again. Otherwise it changes nothing.
#[test]
fn pages_are_replaced_by_their_own_rows_only() {
    use crate::format::day_file::PageMerge;
    let folder = folder_of_pages();
    let mut file = day_file(&folder);
    let merge = |file: &DayFile, which: Indexes<usize>, duplicates: u64, shared_entities: u64| {
        let sources = pages(file);
        let mut builder = PageBuilder::new();
        sources[which.clone()].iter().for_each(|(_, page)| builder.push_page(page));
        let old = sources[which.clone()].iter().filter_map(|(row, _)| row.id()).collect();
        let (home, seq) = (file.address_of("web-1"), sources[which.end - 1].0.seq);
        PageMerge { partition: 1, home, old, new: builder.build().pages, seq, duplicates, shared_entities }
    };
    let kept = |file: &DayFile| pages(file).iter().map(|(row, _)| row.id()).collect::<Vec<_>>();
    let before = kept(&file);
    let mut gone = merge(&file, 0..3, 0, 0);
    gone.old.push(99);
    let mut fewer = merge(&file, 0..3, 0, 0);
    fewer.old.pop();
    let mut more = merge(&file, 0..3, 0, 0);
    more.old.push(4);
    for (what, merges, shared) in [
        ("a page that is gone", vec![gone], &[][..]),
        ("a page that stays", vec![fewer], &[]),
        ("a page that was not merged", vec![more], &[]),
        ("duplicates that are none", vec![merge(&file, 0..3, 1, 0)], &[]),
        ("rows of shared pages that are none", vec![merge(&file, 0..3, 1, 1)], &[]),
        ("one merge twice", vec![merge(&file, 0..3, 0, 0), merge(&file, 0..3, 0, 0)], &[]),
        ("a shared page that is gone", vec![merge(&file, 0..3, 0, 0)], &[99]),
        ("a shared page that was not split", vec![merge(&file, 0..3, 0, 0)], &[8]),
    ] {
        let refused = file.replace(&merges, shared).err();
        assert!(matches!(refused, Some(StoreError::Unequal { .. })), "{what}: {refused:?}");
        assert_eq!(kept(&file), before, "{what}");
    }
    let total = file.total().expect("read");
    let whole = merge(&file, 0..3, 0, 0);
    file.replace(&[whole], &[]).expect("replaced");
    assert_eq!((kept(&file).len(), file.total().expect("read")), (6, total));
    file.close().expect("closed");
    assert_eq!(all_faults(&folder), []);
}
