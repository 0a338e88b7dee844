//! Compares the written records with the readable records: the number of copies, and the bytes.

use crate::line::{self, Id};
use std::collections::{BTreeMap, BTreeSet};

/// The records that must be there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    /// Minimum and maximum copies of each record. A line written twice must be there twice.
    pub(crate) records: BTreeMap<Id, (usize, usize)>,
    /// Pairs of records: both are there or neither.
    pub(crate) whole: BTreeSet<[Id; 2]>,
}

impl Written {
    /// The minimum number of records, with their copies.
    pub(crate) fn least(&self) -> usize {
        self.records.values().map(|(least, _)| least).sum()
    }

    /// Counts a record that was written once more.
    pub(crate) fn add(&mut self, id: Id) {
        let (least, most) = self.records.entry(id).or_default();
        (*least, *most) = (*least + 1, *most + 1);
    }
}

/// The difference between the written and the readable records.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) written: usize,
    /// Messages that were readable.
    pub(crate) read: usize,
    /// Records with too few copies.
    pub(crate) lost: Vec<Id>,
    /// Records with too many copies.
    pub(crate) twice: Vec<Id>,
    /// Messages that were never written, or that changed.
    pub(crate) wrong: Vec<String>,
}

impl Verdict {
    /// Compares the messages that a collector stored.
    pub(crate) fn of(written: &Written, messages: impl IntoIterator<Item = String>) -> Verdict {
        let count = written.records.values().map(|(least, _)| least).sum::<usize>();
        let mut verdict = Verdict { written: count, ..Verdict::default() };
        let mut seen: BTreeMap<Id, usize> = BTreeMap::new();
        for message in messages {
            verdict.read += 1;
            match line::read(&message) {
                Some(Ok(id)) if written.records.contains_key(&id) => *seen.entry(id).or_default() += 1,
                Some(Ok(id)) => verdict.wrong.push(format!("{id:?} was never written")),
                Some(Err(damage)) => verdict.wrong.push(damage),
                None => {
                    verdict.wrong.push(format!("no record: {:?}", message.chars().take(60).collect::<String>()));
                }
            }
        }
        let halves = written.whole.iter().filter(|[one, other]| seen.contains_key(one) != seen.contains_key(other));
        verdict.wrong.extend(halves.map(|pair| format!("of {pair:?} only one is there")));
        for (id, (least, most)) in &written.records {
            match seen.get(id).copied().unwrap_or(0) {
                times if times < *least => verdict.lost.push(*id),
                times if times > *most => verdict.twice.push(*id),
                _ => {}
            }
        }
        verdict
    }

    /// Whether no record is lost, duplicate or wrong.
    pub(crate) fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.twice.is_empty() && self.wrong.is_empty()
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Verdict { written, lost, twice, wrong, .. } = self;
        write!(f, "{written} written, {} lost, {} twice, {} wrong", lost.len(), twice.len(), wrong.len())?;
        for (what, ids) in [("lost", lost), ("twice", twice)] {
            if !ids.is_empty() {
                write!(f, "\n  {what}: {:?}", &ids[..ids.len().min(8)])?;
            }
        }
        wrong.iter().take(8).try_for_each(|wrong| write!(f, "\n  wrong: {wrong}"))
    }
}
