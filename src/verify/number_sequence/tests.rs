//! The gaps of numbers in various orders and times.

use super::*;
use proptest::prelude::*;

/// The gaps of numbers that arrive in this order, ten seconds apart.
fn gaps(numbers: &[u64]) -> Vec<(GapKind, u64, u64)> {
    gaps_at(&numbers.iter().zip(0..).map(|(number, second)| (*number, second * 10_000)).collect::<Vec<_>>())
}

/// The same of numbers and their times, in milliseconds.
fn gaps_at(records: &[(u64, u64)]) -> Vec<(GapKind, u64, u64)> {
    let (mut stream, mut gaps) = (NumberSequence::default(), Vec::new());
    let mut report = |gap: Gap| {
        assert!(gap.between.0 <= gap.between.1, "{gap:?}");
        gaps.push((gap.kind, gap.from, gap.to));
    };
    for (number, millis) in records.iter().rev() {
        let at = Ticks::UNIX_EPOCH.plus(Duration::from_millis(*millis));
        assert!(stream.older(*number, at, &mut 10_000, &mut report));
    }
    stream.end(&mut report);
    gaps.sort_by_key(|(what, from, _)| (*what == GapKind::Twice, *from));
    gaps
}

#[test]
fn missing_and_repeated_numbers() {
    use GapKind::{Missing, Twice};
    let lost = |numbers: std::ops::RangeInclusive<u64>| (Missing, *numbers.start(), *numbers.end());
    for (numbers, expected) in [
        (vec![], vec![]),
        (vec![7], vec![]),
        (vec![7, 8, 9], vec![]),
        (vec![7, 9, 12], vec![lost(8..=8), lost(10..=11)]),
        (vec![7, 8, 8, 9], vec![(Twice, 8, 8)]),
        (vec![5, 6, 7, 8, 6, 7, 8, 9], vec![(Twice, 6, 8)]),
        (vec![5, 6, 8, 7, 9], vec![]),
        (vec![5, 6, 8, 7, 7, 9], vec![(Twice, 7, 7)]),
        // The numbers restart once or twice; the beginning of the first life is unknown.
        (vec![5, 6, 1, 2, 3], vec![]),
        (vec![5, 6, 0, 1, 2, 3, 4, 5, 6, 7], vec![]),
        (vec![1, 2, 1, 2, 3, 1, 2], vec![]),
        (vec![1, 3, 1, 2, 4], vec![lost(2..=2), lost(3..=3)]),
        (vec![2_147_483_646, 2_147_483_647, 1, 2], vec![]),
        // The first numbers after the restart are missing: the restart is unknown, and neither life has a hole.
        (vec![5000, 5001, 3, 4], vec![]),
        (vec![u64::MAX - 1, u64::MAX, 0, 1], vec![]),
    ] {
        assert_eq!(gaps(&numbers), expected, "{numbers:?}");
    }
}

#[test]
fn records_that_are_out_of_order_are_no_holes() {
    for numbers in [[4, 6, 5, 7, 8].as_slice(), &[5, 4, 6, 8, 7], &[4998, 4999, 1, 5000, 2, 3], &[4999, 1, 2, 5000, 3]]
    {
        let at_once: Vec<_> = numbers.iter().zip(0..).map(|(number, n)| (*number, 10 * n)).collect();
        assert_eq!(gaps_at(&at_once), [], "{numbers:?}");
    }
}

#[test]
fn two_seconds_of_disorder_are_no_holes_however_many_records_they_have() {
    let of = |parity: u64, millis| (1..=400).filter(move |n| n % 2 == parity).map(move |n| (n, millis));
    assert_eq!(gaps_at(&of(1, 0).chain(of(0, 1000)).collect::<Vec<_>>()), []);
    let lost = of(1, 0).filter(|(n, _)| *n != 77).chain(of(0, 1000)).collect::<Vec<_>>();
    assert_eq!(gaps_at(&lost), [(GapKind::Missing, 77, 77)]);
}

#[test]
fn a_number_ahead_leaves_a_hole_whose_times_are_in_order() {
    assert_eq!(gaps_at(&[(5001, 0), (4999, 10)]), [(GapKind::Missing, 5000, 5000)]);
}

/// The old numbers of one moment are read before the new ones, or among them.
#[test]
fn a_sequence_may_restart_within_its_last_moment() {
    let (old, new) = (4990..=5000, 1..=10);
    let behind = new.clone().chain(old.clone());
    let among = [4990, 1, 2, 4991, 3, 4, 5, 4992, 4993, 6, 7, 4994, 4995, 4996, 8, 4997, 9, 4998, 4999, 10, 5000];
    for moment in [behind.collect::<Vec<u64>>(), among.to_vec()] {
        let before = (4980..4990).map(|n| (n, 0));
        let records = before.chain(moment.into_iter().map(|n| (n, 60_000))).chain([(11, 120_000)]);
        assert_eq!(gaps_at(&records.collect::<Vec<_>>()), []);
    }
}

/// Gaps around the restart are reported, except at the end of one life and the beginning of the other.
#[test]
fn a_gap_between_two_runs_is_reported() {
    use GapKind::{Missing, Twice};
    let before = |last| (4980..=last).zip(0..).map(|(n, of)| (n, 1000 * of));
    let moment = |numbers: &[u64]| numbers.iter().map(|n| (*n, 60_000)).collect::<Vec<_>>();
    for (last, of_the_moment, expected) in [
        (4989, [1, 2, 3, 4990, 4991, 4992], vec![]),
        (4989, [1, 2, 4, 4990, 4991, 4993], vec![(Missing, 3, 3), (Missing, 4992, 4992)]),
        (4987, [1, 2, 3, 4990, 4991, 4992], vec![(Missing, 4988, 4989)]),
        // Older records do not continue these numbers: they are repeated.
        (4989, [1, 2, 3, 4, 2, 3], vec![(Twice, 2, 3)]),
    ] {
        let records: Vec<_> = before(last).chain(moment(&of_the_moment)).collect();
        assert_eq!(gaps_at(&records), expected, "{of_the_moment:?}");
    }
    // One life: older records are not of the hole, or there are none.
    let lost = [(Missing, 4, 4989)];
    assert_eq!(gaps_at(&moment(&[1, 2, 3, 4990, 4991])), lost);
    assert_eq!(gaps_at(&[(7000, 0), (1, 60_000), (2, 60_000), (3, 60_000), (4990, 60_000)]), lost);
    assert_eq!(gaps_at(&[(4989, 0), (1, 60_000), (2, 60_000), (3, 60_000), (4990, 70_000)]), lost);
}

#[test]
fn a_sequence_that_has_no_room_for_its_holes_is_given_up_once_and_silently() {
    let (mut stream, mut room, mut given_up) = (NumberSequence::default(), 5, 0);
    let mut report = |gap: Gap| panic!("{gap:?}");
    for number in (0..100).rev().map(|n| 2 * n) {
        given_up += u64::from(!stream.older(number, Ticks::UNIX_EPOCH, &mut room, &mut report));
    }
    assert_eq!((given_up, room, stream.holes()), (1, 5, 0));
    stream.end(&mut report);
}

proptest! {
    /// All gaps of lives that begin at 1 are reported, except at the beginning or the end of a life.
    #[test]
    fn a_gap_within_a_run_is_reported(
        lives in proptest::collection::vec((2u64..300, proptest::collection::btree_set(2u64..300, 0..20)), 1..4)
    ) {
        let (mut numbers, mut expected) = (Vec::new(), 0);
        for (length, lost) in &lives {
            numbers.extend((1..=*length).filter(|number| *number == *length || !lost.contains(number)));
            expected += lost.iter().filter(|number| **number < *length).count() as u64;
        }
        let found = gaps(&numbers);
        prop_assert!(found.iter().all(|(what, ..)| *what == GapKind::Missing), "{found:?}");
        prop_assert_eq!(found.iter().map(|(_, from, to)| to - from + 1).sum::<u64>(), expected);
    }

    /// A sender that restarts in its last moment leaves no gap, whether the old numbers of that moment are read before
    /// or after the new ones, and whether more follow or not.
    #[test]
    fn a_restart_is_no_gap(
        (old, of_the_moment) in (1u64..3000).prop_flat_map(|old| (Just(old), 1..=old.min(30))),
        new in 1u64..30,
        newer in 0u64..3,
        is_new_first: bool,
    ) {
        let ended = 10_000 * old;
        let before = (1..=old - of_the_moment).map(|n| (n, 10_000 * n));
        let end = (old - of_the_moment + 1..=old).map(|n| (n, ended));
        let begin = (1..=new).map(|n| (n, ended));
        let after = (1..=newer).map(|n| (new + n, ended + 10_000 * n));
        let records: Vec<_> = match is_new_first {
            true => before.chain(begin).chain(end).chain(after).collect(),
            false => before.chain(end).chain(begin).chain(after).collect(),
        };
        prop_assert_eq!(gaps_at(&records), []);
    }

    /// Any numbers in any order are read to their end, in bounded memory.
    #[test]
    fn any_numbers_are_read(numbers in proptest::collection::vec(prop_oneof![any::<u64>(), 0u64..9], 0..500)) {
        let (mut stream, mut room, mut report) = (NumberSequence::default(), 50, |_| {});
        for number in numbers {
            stream.older(number, Ticks::UNIX_EPOCH, &mut room, &mut report);
            prop_assert_eq!(stream.holes() + room, 50);
        }
        stream.end(&mut report);
    }
}
