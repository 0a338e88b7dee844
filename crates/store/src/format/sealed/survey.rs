//! Surveys a day before sealing: its properties and types, their frequency, and how much their values differ.
//!
//! The columns of a file must be known before its first row is written, so the day is read once before. The names are
//! bounded: in a day with more than [`NAMES_BYTES`] of them, names are really keys, and those go to the map anyway.

use super::part::InputRows;
use super::sum::{of_property, of_value};
use daytable_model::property::PropertyKind;
use std::collections::HashMap;

/// Maximum bytes of property names that are counted.
const NAMES_BYTES: usize = 8 << 20;
/// Maximum values of a property that are compared.
const SAMPLE: usize = 4096;
/// Maximum number of properties whose values are compared.
const SAMPLED_MAX: usize = 1024;

/// Statistics of a property with one type.
pub(super) struct PropertyStats {
    pub(super) name: String,
    pub(super) kind: PropertyKind,
    /// Entities that have the property.
    pub(super) values: u64,
    /// Hashes of some values.
    sample: Vec<u64>,
}

impl PropertyStats {
    /// Estimates the distinct values among `rows` from the sample.
    pub(super) fn distinct_among(&self, rows: usize) -> f64 {
        let mut different = self.sample.clone();
        different.sort_unstable();
        different.dedup();
        let (sampled, distinct, rows) = (self.sample.len() as f64, different.len() as f64, rows as f64);
        // The expected number of distinct values in a sample of equally frequent values.
        let seen_of = |values: f64, sample: f64| values * (1.0 - (-sample / values).exp());
        let (mut low, mut high) = (distinct.max(1.0), 1e12);
        if sampled < 1.0 || seen_of(low, sampled) >= distinct {
            return distinct.min(rows);
        }
        for _ in 0..60 {
            let middle = (low * high).sqrt();
            if seen_of(middle, sampled) < distinct { low = middle } else { high = middle }
        }
        seen_of(low, rows).min(rows)
    }
}

/// Statistics of all properties.
#[derive(Default)]
pub(super) struct Survey {
    seen: Vec<PropertyStats>,
    numbers: [HashMap<String, usize, foldhash::quality::RandomState>; PropertyKind::COUNT],
    names_bytes: usize,
    /// Values of all entities, including duplicates.
    pub(super) values: u64,
}

impl Survey {
    /// Counts the properties of a part, and hashes a `share` of its values.
    pub(super) fn add(&mut self, part: &InputRows, share: f64) {
        for column in 0..part.width() {
            let (name, kind) = part.name(column);
            let count = part.count(column) as u64;
            self.values += count;
            let Some((number, seen)) = self.stats(name, kind) else { continue };
            seen.values += count;
            if number >= SAMPLED_MAX || seen.sample.len() >= SAMPLE {
                continue;
            }
            let wanted = ((part.len() as f64 * share).ceil() as usize).clamp(1, part.len());
            let property = of_property(name, kind);
            let hashes = part.sample(column, part.len() / wanted).map(|value| of_value(property, value));
            seen.sample.extend(hashes.take(SAMPLE - seen.sample.len()));
        }
    }

    /// Adds what another survey found in the parts that follow.
    pub(super) fn append(&mut self, later: Survey) {
        self.values += later.values;
        for PropertyStats { name, kind, values, sample } in later.seen {
            let Some((number, seen)) = self.stats(&name, kind) else { continue };
            seen.values += values;
            if number < SAMPLED_MAX {
                seen.sample.extend(sample.into_iter().take(SAMPLE - seen.sample.len()));
            }
        }
    }

    /// The statistics of a property, and their number; `None` if there are too many names.
    fn stats(&mut self, name: &str, kind: PropertyKind) -> Option<(usize, &mut PropertyStats)> {
        let number = match self.numbers[kind as usize].get(name) {
            Some(number) => *number,
            None if self.names_bytes + name.len() > NAMES_BYTES => return None,
            None => {
                self.names_bytes += name.len() + size_of::<PropertyStats>();
                self.numbers[kind as usize].insert(name.to_owned(), self.seen.len());
                self.seen.push(PropertyStats { name: name.to_owned(), kind, values: 0, sample: Vec::new() });
                self.seen.len() - 1
            }
        };
        Some((number, &mut self.seen[number]))
    }

    /// All properties in the order of first occurrence.
    pub(super) fn seen(&self) -> impl Iterator<Item = &PropertyStats> {
        self.seen.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_values_is_judged_by_a_sample() {
        for (values, rows, want) in [(10u64, 65_536, 10.0), (32_768, 65_536, 28_300.0), (1 << 40, 65_536, 65_536.0)] {
            let mut seen = PropertyStats { name: "n".into(), kind: PropertyKind::Int64, values: 0, sample: Vec::new() };
            let mut random = 7u64;
            for _ in 0..SAMPLE {
                random = of_value(random, daytable_model::property::Property::Int64(1));
                seen.sample.push(random % values);
            }
            let got = seen.distinct_among(rows);
            assert!((got / want - 1.0).abs() < 0.2, "{values} values: {got} among {rows}, not {want}");
        }
    }
}
