//! Items in an order, in memory or, if they need too much, in runs of a temporary file.

use super::SpillStop;
use super::run::{ItemRun, Merged, Run, RunWriter, reduce};
use crate::answer::answer_budget::AnswerBudget;
use crate::answer::spill_file::SpillFile;
use crate::spilled::Spilled;
use daytable_platform::budget::OverBudget;
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The order of two items.
type Comparison<'q, T> = Box<dyn Fn(&T, &T) -> Ordering + 'q>;

/// An item that is sorted.
pub(in crate::answer) trait SortItem: Spilled {
    /// About its memory.
    fn bytes(&self) -> usize;
}

/// Sorts items; of all, or of the first ones alone. Items of the same order stay in the order in which they came.
pub(in crate::answer) struct ExternalSort<'q, T> {
    compare: Comparison<'q, T>,
    /// How many are wanted at most.
    wanted: usize,
    items: Vec<T>,
    /// Whether items were dropped, so that as many as are wanted stand in front in their order.
    is_cut: bool,
    /// What was charged for them.
    held: usize,
    runs: Vec<Run>,
    spill: Arc<SpillFile>,
    budget: AnswerBudget,
    /// What the items are, for the reason of a refusal.
    kept: &'static str,
}

impl<'q, T: SortItem> ExternalSort<'q, T> {
    pub(in crate::answer) fn new(
        compare: impl Fn(&T, &T) -> Ordering + 'q,
        wanted: usize,
        budget: &AnswerBudget,
        kept: &'static str,
    ) -> ExternalSort<'q, T> {
        ExternalSort {
            compare: Box::new(compare),
            wanted,
            items: Vec::new(),
            is_cut: false,
            held: 0,
            runs: Vec::new(),
            spill: budget.spill().clone(),
            budget: budget.clone(),
            kept,
        }
    }

    /// The last item that is wanted, as far as is known: what is not before it is not wanted.
    pub(in crate::answer) fn last_wanted(&self) -> Option<&T> {
        // After a sort, the wanted ones stand in front.
        self.wanted.checked_sub(1).filter(|_| self.is_cut).and_then(|last| self.items.get(last))
    }

    /// Adds an item.
    pub(in crate::answer) fn push(&mut self, item: T) -> Result<(), OverBudget> {
        if self.last_wanted().is_some_and(|last| (self.compare)(&item, last).is_ge()) {
            return Ok(());
        }
        let question = self.budget.question();
        let bytes = item.bytes();
        if self.spill.is_due(question, self.held, 0) || question.charge(bytes, self.kept).is_err() {
            self.write_run()?;
            self.budget.question().charge(bytes, self.kept)?;
        }
        self.held += bytes;
        self.items.push(item);
        // Where few are wanted, at most twice as many are kept.
        if self.items.len() >= self.wanted.saturating_mul(2).max(64) {
            self.sort();
        }
        Ok(())
    }

    /// Sorts the items in memory, and drops those that are not wanted.
    fn sort(&mut self) {
        self.items.sort_by(&*self.compare);
        self.is_cut = self.items.len() >= self.wanted;
        let dropped: usize = self.items.drain(self.wanted.min(self.items.len())..).map(|item| item.bytes()).sum();
        self.release(dropped);
    }

    fn release(&mut self, bytes: usize) {
        self.budget.question().release(bytes);
        self.held -= bytes;
    }

    /// Moves the items to the file.
    fn write_run(&mut self) -> Result<(), OverBudget> {
        if self.items.is_empty() {
            return Ok(());
        }
        self.sort();
        let mut writer = RunWriter::new(&self.spill)?;
        self.is_cut = false;
        for item in std::mem::take(&mut self.items) {
            writer.push(|to| item.write(to))?;
        }
        self.runs.push(writer.finish()?);
        self.release(self.held);
        Ok(())
    }

    /// Whether some of them are in the file.
    pub(in crate::answer) fn is_spilled(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Passes the wanted items on in their order, until `each` fails.
    pub(in crate::answer) fn drain(
        self,
        go_on: &dyn Fn() -> bool,
        each: &mut dyn FnMut(T) -> Result<(), SpillStop>,
    ) -> Result<(), SpillStop> {
        let mut failed = None;
        let _ = self.finish(go_on, &mut |item| match each(item) {
            Ok(()) => ControlFlow::Continue(()),
            Err(stop) => {
                failed = Some(stop);
                ControlFlow::Break(())
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Passes the wanted items on in their order, until `each` breaks.
    pub(in crate::answer) fn finish(
        mut self,
        go_on: &dyn Fn() -> bool,
        each: &mut dyn FnMut(T) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, SpillStop> {
        self.sort();
        if self.runs.is_empty() {
            for item in std::mem::take(&mut self.items) {
                self.release(item.bytes());
                if each(item).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            return Ok(ControlFlow::Continue(()));
        }
        self.write_run()?;
        let merged = |runs: Vec<Run>| {
            let sources = runs.into_iter().map(|run| ItemRun::new(&self.budget, run)).collect::<Result<_, _>>()?;
            Merged::<ItemRun<T>>::new(sources, &*self.compare, go_on)
        };
        let runs = reduce(std::mem::take(&mut self.runs), |runs| {
            let (mut merged, mut writer) = (merged(runs)?, RunWriter::new(&self.spill)?);
            let mut left = self.wanted;
            while left > 0
                && let Some(item) = merged.next()?
            {
                writer.push(|to| item.write(to))?;
                left -= 1;
            }
            Ok(writer.finish()?)
        })?;
        let mut merged = merged(runs)?;
        for _ in 0..self.wanted {
            let Some(item) = merged.next()? else { break };
            if each(item).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl<T> Drop for ExternalSort<'_, T> {
    fn drop(&mut self) {
        self.budget.question().release(self.held);
    }
}
