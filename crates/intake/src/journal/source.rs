//! All `[[journal]]` blocks as one [`Source`].

use super::follower::EVENTS;
use super::{JournalOptions, JournalReader};
use crate::counters::{IntakeKind, SourceCounters};
use crate::source::{Source, SourceContext, SourceError};
use daytable_net::inherited::Inherited;
use std::sync::Arc;

/// The journals that are read.
#[derive(Default)]
pub struct Journals {
    readers: Vec<(JournalOptions, JournalReader)>,
    counters: Vec<Arc<SourceCounters>>,
}

impl Source for Journals {
    type Options = Vec<JournalOptions>;
    type Prepared = Vec<JournalOptions>;

    const KIND: IntakeKind = IntakeKind { name: "journal", cut_at: &["message_bytes_max", "entry_bytes_max"] };
    const IS_REPLAYABLE: bool = true;

    fn prepare(&self, options: Vec<JournalOptions>, _: &mut Inherited) -> Result<Vec<JournalOptions>, SourceError> {
        Ok(options)
    }

    fn apply(&mut self, blocks: Vec<JournalOptions>, context: &SourceContext) -> Result<(), SourceError> {
        let removed: Vec<_> = self.readers.extract_if(.., |(before, _)| !blocks.contains(before)).collect();
        let has_removed = !removed.is_empty();
        for (_, mut reader) in removed {
            reader.counters.clear_lag();
            reader.stop();
        }
        if has_removed {
            // The committer answers between two commits, after all earlier submissions. So a successor begins at the
            // committed position. An error of the answer does not matter.
            let _ = context.steps.lifecycle_state();
        }
        for block in blocks {
            if self.readers.iter().any(|(running, _)| *running == block) {
                continue;
            }
            let counters = SourceCounters::resume(&mut self.counters, &block.name, || {
                SourceCounters::with_events(Self::KIND, &block.name, EVENTS)
            });
            let reader = JournalReader::start(&block, counters, context)?;
            self.readers.push((block, reader));
        }
        Ok(())
    }

    fn counters(&self) -> Vec<Arc<SourceCounters>> {
        self.counters.clone()
    }

    fn has_ended(&self) -> bool {
        self.readers.iter().any(|(_, reader)| reader.has_ended())
    }

    fn request_stop(&mut self) {
        self.readers.iter().for_each(|(_, reader)| reader.request_stop());
    }

    fn stop(&mut self) {
        self.request_stop();
        self.readers.clear();
    }
}
