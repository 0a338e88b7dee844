//! Queries for entries.

use super::Evaluator;
use crate::ast::{LogQuery, PipelineStage};
use crate::error::EvalError;
use crate::labels::Labels;
use crate::source::{Direction, LogEntry, TimeSpan};
use crate::stages::EntryView;
use crate::stages::view::Category;
use std::ops::ControlFlow;

/// Which entries are wanted.
#[derive(Clone, Copy, Debug)]
pub struct LogRequest {
    /// Their times.
    pub span: TimeSpan,
    /// Their order.
    pub direction: Direction,
    /// Their number at most.
    pub limit: usize,
    /// The least distance between two, in nanoseconds; zero for all.
    pub interval: i64,
}

/// An entry as the answer has it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownEntry {
    /// Nanoseconds since the epoch.
    pub time: i64,
    /// The line, as the query formats it.
    pub line: String,
    /// The labels of the stream.
    pub stream: Labels,
    /// The structured metadata.
    pub metadata: Labels,
    /// The labels that the query extracted.
    pub parsed: Labels,
}

impl ShownEntry {
    /// An estimate of its memory.
    pub fn bytes(&self) -> usize {
        let sets = [&self.parsed, &self.metadata, &self.stream];
        size_of::<ShownEntry>() + self.line.len() + sets.into_iter().map(Labels::bytes).sum::<usize>()
    }

    /// Takes all labels, together.
    pub fn take_labels(&mut self) -> Labels {
        let sets = [&mut self.parsed, &mut self.metadata, &mut self.stream];
        Labels::new(sets.into_iter().flat_map(|set| std::mem::take(set).into_pairs()).collect())
    }

    /// All labels together.
    pub fn labels(&self) -> Labels {
        let sets = [&self.parsed, &self.metadata, &self.stream];
        Labels::new(sets.into_iter().flat_map(Labels::iter).map(|(n, v)| (n.to_owned(), v.to_owned())).collect())
    }
}

impl LogQuery {
    /// Applies the pipeline to an entry; `None` if the pipeline leaves the entry out. `now` is the present, for templates;
    /// `go_on` says whether anybody still waits.
    ///
    /// # Errors
    ///
    /// What the pipeline makes of the entry would be too long, or nobody waits for it.
    pub fn show(&self, entry: &LogEntry, now: i64, go_on: &dyn Fn() -> bool) -> Result<Option<ShownEntry>, EvalError> {
        let mut view = EntryView::new(entry, go_on);
        if !PipelineStage::apply_all(&self.stages, &mut view, now)? {
            return Ok(None);
        }
        Ok(Some(ShownEntry {
            time: entry.time,
            stream: view.of(|category| category == Category::Stream),
            metadata: view.of(|category| category == Category::Metadata),
            parsed: view.of(|category| category == Category::Parsed),
            line: view.line.into_owned(),
        }))
    }
}

impl Evaluator<'_> {
    /// Answers a query for entries, in the order of the request.
    ///
    /// # Errors
    ///
    /// See [`EvalError`].
    pub fn logs(&self, query: &LogQuery, request: LogRequest) -> Result<Vec<ShownEntry>, EvalError> {
        let LogRequest { span, direction, limit, interval } = request;
        let (mut shown, mut bytes, mut last): (Vec<ShownEntry>, usize, Option<i64>) = (Vec::new(), 0, None);
        let mut refused = None;
        if limit == 0 {
            return Ok(shown);
        }
        let scanned = self.source.scan(&query.wanted(span), direction, &mut |entry| {
            if last.is_some_and(|last| (entry.time - last).abs() < interval) {
                return ControlFlow::Continue(());
            }
            let kept = match query.show(&entry, self.now, &|| self.source.is_wanted()) {
                Ok(Some(one)) => self.budget.charge(one.bytes(), "entries").map(|()| one).map_err(EvalError::from),
                Ok(None) => return ControlFlow::Continue(()),
                Err(error) => Err(error),
            };
            let one = match kept {
                Ok(one) => one,
                Err(error) => {
                    refused = Some(error);
                    return ControlFlow::Break(());
                }
            };
            last = Some(one.time);
            bytes += one.line.len();
            shown.push(one);
            if shown.len() >= limit || bytes > self.limits.line_bytes_max {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        scanned?;
        if let Some(refused) = refused {
            return Err(refused);
        }
        if bytes > self.limits.line_bytes_max {
            let max = self.limits.line_bytes_max >> 20;
            return Err(EvalError::TooLarge(format!(
                "the lines of the answer exceed {max} MiB: ask for fewer entries"
            )));
        }
        Ok(shown)
    }
}
