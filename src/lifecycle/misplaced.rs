//! Records that went to another day than that of their own time, counted by configured table.

use super::Admission;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Late and early records by configured table.
#[derive(Debug, Default)]
pub struct Misplaced(Mutex<BTreeMap<String, [u64; 2]>>);

impl Misplaced {
    /// Those whose day had expired, and those dated far ahead, by configured table.
    pub fn by_table(&self) -> MutexGuard<'_, BTreeMap<String, [u64; 2]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a record that `table` took, unless its own day did.
    pub fn note(&self, table: &str, admission: Admission) {
        let at = match admission {
            Admission::Own => return,
            Admission::Late => 0,
            Admission::Early => 1,
        };
        self.by_table().entry(table.to_owned()).or_default()[at] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_and_early_records_are_counted_by_table() {
        let misplaced = Misplaced::default();
        let came =
            [("Log", Admission::Late), ("Log", Admission::Own), ("Log", Admission::Early), ("Audit", Admission::Late)];
        for (table, admission) in came.into_iter().chain([("Log", Admission::Late)]) {
            misplaced.note(table, admission);
        }
        let counted: Vec<_> = misplaced.by_table().iter().map(|(table, counts)| (table.clone(), *counts)).collect();
        assert_eq!(counted, [("Audit".to_owned(), [1, 0]), ("Log".to_owned(), [2, 1])]);
    }
}
