//! What was written against what can be read: each record exactly once, with its bytes.

use crate::line::{self, Id};
use std::collections::{BTreeMap, BTreeSet};

/// The difference between what was written and what is there.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) written: usize,
    /// Written, and not there.
    pub(crate) lost: Vec<Id>,
    /// There more than once.
    pub(crate) twice: Vec<Id>,
    /// There, and never written, or not as it was written.
    pub(crate) wrong: Vec<String>,
}

impl Verdict {
    /// Compares the messages that a collector kept.
    pub(crate) fn of(written: &BTreeSet<Id>, messages: impl IntoIterator<Item = String>) -> Verdict {
        let mut verdict = Verdict { written: written.len(), ..Verdict::default() };
        let mut seen: BTreeMap<Id, usize> = BTreeMap::new();
        for message in messages {
            match line::read(&message) {
                Some(Ok(id)) if written.contains(&id) => *seen.entry(id).or_default() += 1,
                Some(Ok(id)) => verdict.wrong.push(format!("{id:?} was never written")),
                Some(Err(damage)) => verdict.wrong.push(damage),
                None => verdict.wrong.push(format!("no record: {:?}", message.chars().take(60).collect::<String>())),
            }
        }
        verdict.lost = written.iter().filter(|id| !seen.contains_key(id)).copied().collect();
        verdict.twice = seen.into_iter().filter(|(_, times)| *times > 1).map(|(id, _)| id).collect();
        verdict
    }

    /// Whether nothing is lost, twice or wrong.
    pub(crate) fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.twice.is_empty() && self.wrong.is_empty()
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Verdict { written, lost, twice, wrong } = self;
        write!(f, "{written} written, {} lost, {} twice, {} wrong", lost.len(), twice.len(), wrong.len())?;
        for (what, ids) in [("lost", lost), ("twice", twice)] {
            if !ids.is_empty() {
                write!(f, "\n  {what}: {:?}", &ids[..ids.len().min(8)])?;
            }
        }
        wrong.iter().take(8).try_for_each(|wrong| write!(f, "\n  wrong: {wrong}"))
    }
}
