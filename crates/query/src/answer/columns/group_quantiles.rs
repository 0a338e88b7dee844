//! The numbers of quantiles, by group.
//!
//! Different numbers have places, and a group has the places of its numbers: as they come while these are few, and else how often
//! each came. So a group takes four bytes a number, or four bytes for each different number of all groups, whichever is less.

use super::small_numbers::SmallNumbers;
use super::value_numbers::NO_NUMBER;
use crate::answer::accumulator::Accumulator;
use crate::answer::quantile::QuantileSketch;
use std::collections::HashMap;

/// Different numbers that have a place; others go to the sketch of their group at once.
const NUMBERS_MAX: u32 = 1 << 16;
/// Places for numbers that were asked for lately, as a power of two.
const RECENT_NUMBERS_BITS: u32 = 11;
/// The memory of a group without numbers.
const GROUP_BYTES: usize = size_of::<Numbers>() + size_of::<Option<Box<QuantileSketch>>>() + 1;
/// The memory of a sketch without numbers.
const SKETCH_BYTES: usize = size_of::<QuantileSketch>();

/// The numbers of each group.
#[derive(Default)]
pub(super) struct Quantiles {
    places: NumberTable,
    numbers: Vec<Numbers>,
    sketches: Vec<Option<Box<QuantileSketch>>>,
    /// Whether all values of a group are durations.
    are_durations: Vec<bool>,
    /// An estimate of the memory of the groups.
    bytes: usize,
    order: NumberOrder,
}

/// The places of the numbers of a group.
#[derive(Clone, Default)]
struct Numbers {
    /// How often each number came, of those that have the first places.
    counts: Vec<u32>,
    /// The others, as they came: fewer than would have to be counted besides.
    listed: Vec<u32>,
}

/// The order of the different numbers, once it is wanted.
#[derive(Default)]
struct NumberOrder {
    /// Their places.
    places: Vec<u32>,
    /// By place, where it is in the order.
    ranks: Vec<u32>,
}

/// Different numbers, each with a place.
#[derive(Default)]
struct NumberTable {
    values: Vec<f64>,
    /// The places of small whole numbers.
    small: SmallNumbers,
    others: HashMap<u64, u32, foldhash::fast::RandomState>,
    /// Other numbers that were asked for lately and their places, by their bits.
    recent: Vec<(u64, u32)>,
}

impl Quantiles {
    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn resize(&mut self, groups: usize) {
        self.bytes += GROUP_BYTES * groups.saturating_sub(self.len());
        self.numbers.resize(groups, Numbers::default());
        self.sketches.resize_with(groups, || None);
        self.are_durations.resize(groups, true);
    }

    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.places.bytes()
    }

    /// Adds a whole number to a group.
    #[inline]
    pub(super) fn add_whole(&mut self, group: usize, number: i64) {
        self.are_durations[group] = false;
        let place = self.places.place_of_whole(number);
        self.add_place(group, place, number as f64);
    }

    /// Adds a number to a group.
    #[inline]
    pub(super) fn add(&mut self, group: usize, number: f64, is_duration: bool) {
        self.are_durations[group] &= is_duration;
        let place = self.places.place(number);
        self.add_place(group, place, number);
    }

    #[inline]
    fn add_place(&mut self, group: usize, place: u32, number: f64) {
        if place == NO_NUMBER {
            let sketch = self.sketch(group);
            let before = sketch.bytes();
            sketch.add(number);
            let after = sketch.bytes();
            self.bytes += after.saturating_sub(before);
            return;
        }
        let of_group = &mut self.numbers[group];
        if let Some(count) = of_group.counts.get_mut(place as usize) {
            *count = count.saturating_add(1);
            return;
        }
        let before = of_group.capacity();
        of_group.add(place, 1, self.places.values.len());
        self.bytes = (self.bytes + 4 * of_group.capacity()).saturating_sub(4 * before);
    }

    fn sketch(&mut self, group: usize) -> &mut QuantileSketch {
        let sketch = &mut self.sketches[group];
        if sketch.is_none() {
            self.bytes += SKETCH_BYTES;
        }
        sketch.get_or_insert_default()
    }

    /// Adds the numbers of other groups, each to the group here that `groups` has for it.
    pub(super) fn merge(&mut self, other: &mut Quantiles, groups: &[u32]) {
        let places: Vec<u32> = other.places.values.iter().map(|number| self.places.place(*number)).collect();
        for (at, group) in groups.iter().enumerate().filter(|(_, group)| **group != NO_NUMBER) {
            let group = *group as usize;
            self.are_durations[group] &= other.are_durations[at];
            let of_group = &mut self.numbers[group];
            let before = of_group.capacity();
            let mut beyond = Vec::new();
            std::mem::take(&mut other.numbers[at]).each(|place, count| match places[place as usize] {
                NO_NUMBER => beyond.push((other.places.values[place as usize], u64::from(count))),
                here => of_group.add(here, count, self.places.values.len()),
            });
            self.bytes = (self.bytes + 4 * of_group.capacity()).saturating_sub(4 * before);
            let sketch = other.sketches[at].take();
            if sketch.is_none() && beyond.is_empty() {
                continue;
            }
            let of_group = self.sketch(group);
            let before = of_group.bytes();
            of_group.add_sorted(added_up(beyond));
            if let Some(sketch) = sketch {
                of_group.merge(&sketch);
            }
            let after = of_group.bytes();
            self.bytes += after.saturating_sub(before);
        }
    }

    /// The numbers of a group, which is left empty.
    pub(super) fn take(&mut self, group: usize) -> Accumulator {
        let Quantiles { places: NumberTable { values, .. }, order, .. } = self;
        order.update(values);
        let mut ranked = Vec::new();
        std::mem::take(&mut self.numbers[group])
            .each(|place, count| ranked.push((order.ranks[place as usize], u64::from(count))));
        ranked.sort_unstable();
        let value = |rank: u32| values[order.places[rank as usize] as usize];
        let same = ranked.chunk_by(|one, other| one.0 == other.0);
        let numbers = same.map(|same| (value(same[0].0), same.iter().map(|(_, count)| count).sum())).collect();
        let mut sketch = self.sketches[group].take().unwrap_or_default();
        sketch.add_sorted(numbers);
        Accumulator::Quantile(sketch, self.are_durations[group])
    }
}

/// Numbers in their order, each once, with its counts added up.
fn added_up(mut numbers: Vec<(f64, u64)>) -> Vec<(f64, u64)> {
    numbers.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let same = |one: &(f64, u64), other: &(f64, u64)| one.0.total_cmp(&other.0).is_eq();
    numbers.chunk_by(same).map(|same| (same[0].0, same.iter().map(|(_, count)| count).sum())).collect()
}

impl Numbers {
    fn capacity(&self) -> usize {
        self.counts.capacity() + self.listed.capacity()
    }

    /// Adds a number by its place, of which there are so many. No more places are counted than numbers came, so a group that has few
    /// numbers stays small, however many different ones others have.
    fn add(&mut self, place: u32, count: u32, places: usize) {
        let uncounted = places.saturating_sub(self.counts.len());
        if place as usize >= self.counts.len() {
            if self.listed.len() + (count as usize) < uncounted {
                self.listed.extend(std::iter::repeat_n(place, count as usize));
                return;
            }
            self.counts.resize(places, 0);
            std::mem::take(&mut self.listed).into_iter().for_each(|place| self.counts[place as usize] += 1);
        }
        let known = &mut self.counts[place as usize];
        *known = known.saturating_add(count);
    }

    /// Passes the places on, some more than once, with how often their numbers came.
    fn each(self, mut each: impl FnMut(u32, u32)) {
        (0u32..).zip(self.counts).filter(|(_, count)| *count > 0).for_each(|(place, count)| each(place, count));
        self.listed.into_iter().for_each(|place| each(place, 1));
    }
}

impl NumberOrder {
    fn update(&mut self, values: &[f64]) {
        if self.places.len() == values.len() {
            return;
        }
        self.places = (0u32..).take(values.len()).collect();
        self.places.sort_unstable_by(|a, b| values[*a as usize].total_cmp(&values[*b as usize]));
        self.ranks = vec![0; values.len()];
        (0u32..).zip(&self.places).for_each(|(rank, place)| self.ranks[*place as usize] = rank);
    }
}

impl NumberTable {
    /// The place of a number; [`NO_NUMBER`] if there are too many.
    fn place(&mut self, number: f64) -> u32 {
        let whole = number as i64;
        if SmallNumbers::is_small(whole) && (whole as f64).to_bits() == number.to_bits() {
            return self.place_of_whole(whole);
        }
        let bits = number.to_bits();
        let at = (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RECENT_NUMBERS_BITS)) as usize;
        if let Some((_, place)) = self.recent.get(at).filter(|(recent, _)| *recent == bits) {
            return *place;
        }
        let place = match self.others.get(&bits) {
            Some(place) => *place,
            None => {
                let place = self.add(number);
                if place == NO_NUMBER {
                    return NO_NUMBER;
                }
                self.others.insert(bits, place);
                place
            }
        };
        // `u64::MAX` is not the bits of a finite number.
        self.recent.resize(1 << RECENT_NUMBERS_BITS, (u64::MAX, NO_NUMBER));
        self.recent[at] = (bits, place);
        place
    }

    /// The place of a whole number.
    #[inline]
    fn place_of_whole(&mut self, number: i64) -> u32 {
        if !SmallNumbers::is_small(number) {
            return self.place(number as f64);
        }
        if let Some(place) = self.small.get(number) {
            return place;
        }
        let place = self.add(number as f64);
        if place != NO_NUMBER {
            self.small.keep(number, place);
        }
        place
    }

    /// A place for a number that has none.
    fn add(&mut self, number: f64) -> u32 {
        let place = u32::try_from(self.values.len()).unwrap_or(NUMBERS_MAX);
        if place >= NUMBERS_MAX {
            return NO_NUMBER;
        }
        self.values.push(number);
        place
    }

    fn bytes(&self) -> usize {
        8 * self.values.capacity()
            + self.small.bytes()
            + 20 * self.others.capacity()
            + size_of::<(u64, u32)>() * self.recent.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![
            4 => (0i64..40).prop_map(|whole| whole as f64),
            2 => (-3i64..70_000).prop_map(|whole| whole as f64),
            1 => prop_oneof![Just(-0.0), Just(0.5), -2f64..2.0, Just(1e18)],
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Groups have the quantiles of their numbers, whichever way these came, and also where two threads had some of them.
        #[test]
        fn groups_have_the_quantiles_of_their_numbers(
            first in prop::collection::vec((0usize..3, number()), 0..400),
            second in prop::collection::vec((0usize..3, number()), 0..400),
            phi in 0f64..=1.0,
        ) {
            let quantiles_of = |numbers: &[(usize, f64)]| {
                let mut quantiles = Quantiles::default();
                quantiles.resize(3);
                for (group, number) in numbers {
                    match *number as i64 {
                        whole if (whole as f64).to_bits() == number.to_bits() => quantiles.add_whole(*group, whole),
                        _ => quantiles.add(*group, *number, false),
                    }
                }
                quantiles
            };
            let mut merged = quantiles_of(&first);
            // The second group of the other one has no group here.
            merged.merge(&mut quantiles_of(&second), &[2, NO_NUMBER, 0]);
            for (group, of_second) in [(0, Some(2)), (1, None), (2, Some(0))] {
                let mut expected = QuantileSketch::default();
                let of = |numbers: &[(usize, f64)], wanted: Option<usize>, sketch: &mut QuantileSketch| {
                    numbers.iter().filter(|(of, _)| Some(*of) == wanted).for_each(|(_, number)| sketch.add(*number));
                };
                of(&first, Some(group), &mut expected);
                of(&second, of_second, &mut expected);
                let Accumulator::Quantile(found, _) = merged.take(group) else { panic!("another function") };
                prop_assert_eq!(found.quantile(phi), expected.quantile(phi));
            }
        }
    }

    /// A group that has few numbers stays small where others have many, whichever came first.
    #[test]
    fn a_group_takes_as_much_memory_as_it_has_numbers() {
        let mut quantiles = Quantiles::default();
        quantiles.resize(1001);
        (1..=1000).for_each(|group| (0..8).for_each(|number| quantiles.add_whole(group, number % 4)));
        (0..60_000).for_each(|number| quantiles.add_whole(0, number));
        let before = quantiles.bytes();
        (1..=1000).for_each(|group| quantiles.add_whole(group, 59_000));
        assert!(quantiles.bytes() - before <= 1000 * 64, "{} bytes more", quantiles.bytes() - before);
        let Accumulator::Quantile(found, _) = quantiles.take(7) else { panic!("another function") };
        assert_eq!(found.quantile(1.0), Some(59_000.0));
    }

    /// Numbers beyond those that have a place are in the sketches of their groups.
    #[test]
    fn many_different_numbers_are_counted_in_sketches() {
        let numbers = || (0..3 * i64::from(NUMBERS_MAX)).map(|n| (n * 7919) % 3_000_017);
        let (mut whole, mut halves) = (Quantiles::default(), [Quantiles::default(), Quantiles::default()]);
        whole.resize(1);
        halves.iter_mut().for_each(|half| half.resize(1));
        let mut expected = QuantileSketch::default();
        for (at, number) in numbers().enumerate() {
            whole.add_whole(0, number);
            halves[at % 2].add_whole(0, number);
            expected.add(number as f64);
        }
        let [mut merged, mut other] = halves;
        merged.merge(&mut other, &[0]);
        for found in [&mut whole, &mut merged] {
            assert!(found.bytes() > 4 * NUMBERS_MAX as usize);
            let Accumulator::Quantile(found, _) = found.take(0) else { panic!("another function") };
            assert_eq!(found.quantile(0.9), expected.clone().quantile(0.9));
        }
    }
}
