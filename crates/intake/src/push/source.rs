//! Push as a [`Source`]: its settings and counters. The HTTP server owns its listeners.

use super::{Push, PushLimits};
use crate::counters::{IntakeKind, SourceCounters};
use crate::source::{Source, SourceContext, SourceError};
use daytable_net::inherited::Inherited;
use daytable_parse::ParseOptions;
use std::sync::Arc;

/// How pushed bodies are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PushOptions {
    /// How lines and fields are read.
    pub reading: ParseOptions,
    /// The limits of a request.
    pub limits: PushLimits,
}

impl Source for Arc<Push> {
    type Options = PushOptions;
    type Prepared = PushOptions;

    const KIND: IntakeKind = IntakeKind { name: "push", cut_at: &["message_bytes_max"] };
    /// A sender repeats only a request of which no record was committed.
    const IS_REPLAYABLE: bool = false;

    fn prepare(&self, options: PushOptions, _: &mut Inherited) -> Result<PushOptions, SourceError> {
        Ok(options)
    }

    fn apply(&mut self, PushOptions { reading, limits }: PushOptions, _: &SourceContext) -> Result<(), SourceError> {
        self.reconfigure(reading, limits);
        Ok(())
    }

    fn counters(&self) -> Vec<Arc<SourceCounters>> {
        Push::counters(self).to_vec()
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn request_stop(&mut self) {}

    fn stop(&mut self) {}
}
