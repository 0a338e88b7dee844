//! Steps of the lifecycle that began and did not end: whatever ended the process may be the step itself, and would end
//! the next process, too.
//!
//! A long step is noted before it begins, and the note is removed once it has ended, well or with an error. Whoever opens
//! the folder finds the notes of steps that a kill interrupted. The plan leaves a step that was interrupted again and
//! again.

use super::database::Catalog;
use crate::StoreError;
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;
use rusqlite::params;

/// A step that was interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterruptedStep {
    /// Its day-table.
    pub table: DayTable,
    /// The name of the step.
    pub step: String,
    /// How many times, one after the other.
    pub times: u32,
    /// When it began the last time.
    pub began: Ticks,
}

impl Catalog {
    /// Notes that a step begins.
    pub(crate) fn begin_attempt(&mut self, day: &DayTable, step: &str, now: Ticks) -> Result<(), StoreError> {
        let insert = "INSERT INTO attempt VALUES (?1, ?2, 0, 1, ?3)
                      ON CONFLICT DO UPDATE SET is_running = 1, began = ?3";
        let values = params![day.to_string(), step, now.get()];
        self.change(|transaction| transaction.execute(insert, values).map(drop))
    }

    /// Notes that a step ended, well or with an error.
    pub(crate) fn end_attempt(&mut self, day: &DayTable, step: &str) -> Result<(), StoreError> {
        let delete = "DELETE FROM attempt WHERE day = ?1 AND step = ?2";
        self.change(|transaction| transaction.execute(delete, params![day.to_string(), step]).map(drop))
    }

    /// Counts the steps that the end of the last process interrupted. Returns all that were ever interrupted.
    pub(crate) fn count_interrupted(&mut self) -> Result<Vec<InterruptedStep>, StoreError> {
        let update = "UPDATE attempt SET times = times + 1, is_running = 0 WHERE is_running = 1";
        if self.change(|transaction| transaction.execute(update, []))? == 0 {
            return Ok(Vec::new());
        }
        self.interrupted_steps()
    }

    /// Notes that the folder is closed in order: a step that still runs then is not what ends the process.
    pub(crate) fn end_attempts(&mut self) -> Result<(), StoreError> {
        self.change(|transaction| {
            transaction.execute("DELETE FROM attempt WHERE is_running = 1 AND times = 0", [])?;
            transaction.execute("UPDATE attempt SET is_running = 0 WHERE is_running = 1", []).map(drop)
        })
    }

    /// The steps that were interrupted, and did not end since.
    pub fn interrupted_steps(&self) -> Result<Vec<InterruptedStep>, StoreError> {
        let all = self.all("SELECT day, step, times, began FROM attempt WHERE times > 0", |row| {
            let table = DayTable::parse(&row.get::<_, String>(0)?).ok();
            let began = Ticks::new(row.get(3)?).unwrap_or_default();
            Ok(table.zip(row.get(1).ok()).zip(row.get(2).ok()).map(|((table, step), times)| InterruptedStep {
                table,
                step,
                times,
                began,
            }))
        })?;
        Ok(all.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_interrupted_only_if_its_process_ended_without_closing_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut catalog = Catalog::open_to_write(folder.path()).expect("a catalog");
        let (day, now) =
            (DayTable::parse("Log20261120").expect("a name"), Ticks::from_date(2026, 11, 21).expect("a date"));
        let times = |catalog: &Catalog| -> Vec<u32> {
            catalog.interrupted_steps().expect("read").iter().map(|of| of.times).collect()
        };
        catalog.begin_attempt(&day, "seal", now).expect("noted");
        assert_eq!(times(&catalog), [0; 0], "while it runs");
        catalog.end_attempt(&day, "seal").expect("noted");
        assert!(catalog.count_interrupted().expect("read").is_empty(), "it ended");
        catalog.begin_attempt(&day, "seal", now).expect("noted");
        catalog.end_attempts().expect("noted");
        assert!(catalog.count_interrupted().expect("read").is_empty(), "the folder was closed");
        for killed in 1..4 {
            catalog.begin_attempt(&day, "seal", now).expect("noted");
            catalog.begin_attempt(&day, "archive", now).expect("noted");
            catalog.end_attempt(&day, "archive").expect("noted");
            let interrupted = catalog.count_interrupted().expect("read");
            let wanted = InterruptedStep { table: day.clone(), step: "seal".into(), times: killed, began: now };
            assert_eq!(interrupted, [wanted]);
        }
        catalog.begin_attempt(&day, "seal", now).expect("noted");
        catalog.end_attempts().expect("noted");
        assert!(catalog.count_interrupted().expect("read").is_empty(), "closed in order");
        assert_eq!(times(&catalog), [3], "which does not forget the kills");
        catalog.end_attempt(&day, "seal").expect("noted");
        assert_eq!(times(&catalog), [0; 0]);
    }
}
