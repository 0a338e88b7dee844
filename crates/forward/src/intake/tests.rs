//! What a host may say of its positions, and where its rows go.

use super::*;

const ORIGIN: FolderOrigin = FolderOrigin([7; 16]);

fn head(mode: AdvanceKind, epoch: i64, from: ForwardPosition, to: ForwardPosition) -> RowsHead {
    RowsHead { origin: ORIGIN, instance: 1, mode, epoch, from, to }
}

fn at(commit: i64, pages: u32, checksum: u64) -> ForwardPosition {
    ForwardPosition { commit, pages, checksum, ..ForwardPosition::default() }
}

#[test]
fn positions_are_those_of_the_pages() {
    let pages = [(8, 100), (8, 200), (9, 300)];
    let sum = pages.iter().fold(5, |sum, (_, stored)| checksum_with(sum, *stored));
    let (from, to) = (at(7, 0, 5), at(9, 0, sum));
    let check = |head: &RowsHead| check_positions(head, 3, pages.into_iter()).is_ok();
    assert!(check(&head(AdvanceKind::Commits, 3, from, to)));
    for (epoch, from, to) in [
        (4, from, to),
        (2, from, to),
        (3, from, at(9, 0, sum + 1)),
        (3, at(7, 0, 6), to),
        (3, at(8, 0, 5), to),
        (3, from, at(6, 0, sum)),
        (3, from, to.after_copy(1)),
        (3, from.after_copy(1), to),
    ] {
        assert!(!check(&head(AdvanceKind::Commits, epoch, from, to)), "{epoch} {from:?} {to:?}");
    }
    let body = pages.iter().fold(0, |sum, (_, stored)| checksum_with(sum, *stored));
    assert!(check(&head(AdvanceKind::Compare, 3, from, from.after_copy(body))));
    assert!(!check(&head(AdvanceKind::Compare, 3, from, from.after_copy(body + 1))));
    assert!(!check(&head(AdvanceKind::Compare, 4, from, from.after_copy(body))));
    let adopt = |epoch, to| check_positions(&head(AdvanceKind::Adopt, epoch, from, to), 3, std::iter::empty()).is_ok();
    assert!(adopt(4, at(2, 0, 9)));
    assert!(!adopt(3, at(2, 0, 9)) && !adopt(4, at(2, 1, 9)) && !adopt(4, at(-1, 0, 9)));
    assert!(!check(&head(AdvanceKind::Adopt, 4, from, to)), "it has no pages");
    let open =
        |epoch, from, to| check_positions(&head(AdvanceKind::OpenHead, epoch, from, to), 3, std::iter::empty()).is_ok();
    assert!(open(3, from, at(9, 0, 1)));
    assert!(!open(4, from, at(9, 0, 1)) && !open(3, from, at(9, 1, 1)) && !open(3, from, at(7, 0, 1)));
    assert!(!open(3, from.after_copy(1), at(9, 0, 1)) && !open(3, from, at(9, 0, 1).after_copy(1)));
    assert!(!check(&head(AdvanceKind::OpenHead, 3, from, to)), "it has no pages");
    // The backlog may reach the head by commits without pages.
    let commits = |to| check_positions(&head(AdvanceKind::Commits, 3, from, to), 3, std::iter::empty()).is_ok();
    assert!(commits(at(9, 0, 5)) && !commits(at(9, 0, 6)));
}

fn place(table: &str, window: Window, hosts: &[&str]) -> Place {
    let table = TableName::new(table).expect("a name");
    Place { table, window, hosts: hosts.iter().map(|host| (*host).to_owned()).collect() }
}

#[test]
fn rows_of_some_hosts_go_to_tables_of_their_own() {
    use daytable_model::key::Period;
    let window = Window { keep: Duration::from_secs(9 * 86_400), period: Period::Day };
    let places = Places(vec![
        place("LogPay", window, &["pay-*", "bank"]),
        place("Audit", window, &["pay-*"]),
        place("Debug", window, &[]),
        place("Log", window, &[]),
    ]);
    for (host, table, here) in [
        ("pay-1", "Log", "LogPay"),
        ("pay-1", "Debug", "LogPay"),
        ("pay-1", "Audit", "Audit"),
        ("pay-1", "LogPay", "LogPay"),
        ("bank", "Audit", "LogPay"),
        // A table of others is none of theirs, whatever they call their own.
        ("web-1", "LogPay", "Log"),
        ("web-1", "Audit", "Log"),
        ("web-1", "debug", "Debug"),
        ("pay", "Log", "Log"),
    ] {
        let table = DayTable::at(&TableName::new(table).expect("a name"), Period::Day, time::now());
        assert_eq!(places.table_of(host, &table).as_str(), here, "{host} {table}");
        let day = places.of(host, &table, RowKey::new(time::now(), 1, 0)).expect("a day");
        assert_eq!(day.table().to_string().to_lowercase(), here.to_lowercase());
        assert_eq!(places.day_of(host, &table), Some(day));
    }
}

#[test]
fn rows_go_to_the_table_of_their_name_or_to_the_last_one() {
    use daytable_model::key::Period;
    let name = |name| TableName::new(name).expect("a name");
    let window = |days: u64, period| Window { keep: Duration::from_secs(days * 86_400), period };
    let places =
        Places(vec![place("Audit", window(40_000, Period::Hour), &[]), place("Log", window(2, Period::Day), &[])]);
    let now = time::now();
    let of = |table: &str, time| {
        let table = DayTable::parse(table).expect("a day-table");
        let place = places.of("web-1", &table, RowKey::new(time, 1, 0));
        // What decides whether a credential permits a page knows no rows.
        assert!(place.iter().all(|day| *day.table() == places.table_of("web-1", &table)), "{table}");
        place.map(|day| day.to_string())
    };
    for (table, here) in [("audit20261127", "Audit"), ("Other20261127", "Log")] {
        assert_eq!(places.table_of("web-1", &DayTable::parse(table).expect("a day-table")), name(here));
    }
    let today = DayTable::at(&name("Log"), Period::Day, now).to_string();
    assert_eq!(of(&today, now), Some(today.clone()));
    assert_eq!(of(&today.replace("Log", "Other"), now), Some(today.clone()));
    // A late record has its own time in a later table, and a table of a clock that is ahead is not a table here.
    let day = Duration::from_secs(86_400);
    assert_eq!(of(&today, now.minus(day * 30)), Some(today.clone()));
    assert_eq!(of(&today.replace("Log", "Other"), now.minus(day * 30)), Some(today.clone()));
    let ahead = DayTable::at(&name("Log"), Period::Day, now.plus(day * 400)).to_string();
    assert_eq!(of(&ahead, now.plus(day * 400)), Some(today.clone()));
    assert_eq!(of(&DayTable::at(&name("Log"), Period::Day, now.minus(day * 30)).to_string(), now), None);
    // A table of that name has other periods here.
    let hour = DayTable::at(&name("Audit"), Period::Hour, now).to_string();
    assert_eq!(of(&DayTable::at(&name("Audit"), Period::Day, now).to_string(), now), Some(hour));
    assert_eq!(of("Log20200101", now), None, "the day is gone");
}

#[test]
fn a_day_is_compared_with_the_one_that_all_its_rows_go_to() {
    use daytable_model::key::Period;
    let name = |name| TableName::new(name).expect("a name");
    let window = |period| Window { keep: Duration::from_secs(9 * 86_400), period };
    let places = Places(vec![place("Audit", window(Period::Hour), &[]), place("Log", window(Period::Day), &[])]);
    let now = time::now();
    let at = |table, period, time| DayTable::at(&name(table), period, time);
    let log = at("Log", Period::Day, now);
    for (table, period, place) in [
        ("Log", Period::Day, Some(&log)),
        ("App", Period::Day, Some(&log)),
        ("App", Period::Hour, Some(&log)),
        ("App", Period::Month, None),
        ("Audit", Period::Day, None),
        ("Audit", Period::Hour, Some(&at("Audit", Period::Hour, now))),
    ] {
        assert_eq!(places.day_of("web-1", &at(table, period, now)).as_ref(), place, "{table} {period:?}");
    }
    let day = Duration::from_secs(86_400);
    for time in [now.minus(day * 30), now.plus(day * 30)] {
        assert_eq!(places.day_of("web-1", &at("App", Period::Day, time)), None, "gone, or too far ahead");
    }
}

#[test]
fn names_of_hosts() {
    for name in ["web-1", "node-*", "a.b_c", "X"] {
        assert_eq!(checked_name(name).expect("a name"), name);
    }
    for wrong in ["", "a b", "a/b", "é", "a\n", &"x".repeat(256)] {
        assert!(checked_name(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_comparison_that_panics_does_not_refuse_the_next_one() {
    let question = Mutex::new(None);
    let ended = std::panic::catch_unwind(|| {
        let _asking = Asking::begin(&question).expect("the first one");
        assert!(Asking::begin(&question).is_err(), "one at a time");
        panic!("a fault");
    });
    assert!(ended.is_err());
    assert!(Asking::begin(&question).is_ok());
    assert!(Asking::begin(&question).is_ok(), "the one before is over");
}
