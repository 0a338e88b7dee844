//! The sources of the configuration: each section becomes the options of a [`Source`], and all are run alike.
//!
//! A new kind of source is one line in [`Sources::new`]. [`Sources::prepare`] does everything that can fail and changes
//! nothing. [`Sources::apply`] starts new blocks, changes existing ones, and ends removed ones.

use super::DaemonError;
use super::budget::Budget;
use crate::config::Config;
use crate::metrics::CounterRegistry;
use daytable_intake::counters::{IntakeKind, SourceCounters};
use daytable_intake::journal::Journals;
use daytable_intake::push::{Push, PushOptions};
use daytable_intake::source::{Source, SourceContext, SourceError};
use daytable_intake::syslog::Syslog;
use daytable_intake::tail::Tail;
use daytable_net::inherited::Inherited;
use daytable_platform::reloadable::Reloadable;
use std::sync::Arc;

/// All sources of the daemon.
pub(super) struct Sources {
    sections: Vec<Box<dyn SourceSection>>,
    counters: Reloadable<CounterRegistry>,
}

impl Sources {
    /// The sources that need no store to be made. `counters` shows what all of them count. Nothing runs yet.
    pub(super) fn new(budget: Budget, counters: Reloadable<CounterRegistry>) -> Sources {
        let mut sources = Sources { sections: Vec::new(), counters };
        sources.add(Syslog::new(budget.held_bytes), |config| config.sources.syslogs.clone());
        sources.add(Journals::default(), |config| config.sources.journals.clone());
        sources.add(Tail::default(), |config| config.sources.tails.clone());
        sources
    }

    /// Adds pushes over HTTP, which already have their settings.
    pub(super) fn add_push(&mut self, push: Arc<Push>, budget: Budget) {
        let options =
            move |config: &Config| PushOptions { reading: config.reading(), limits: budget.push(config.http.limits) };
        self.add(push, options);
    }

    fn add<S: Source>(&mut self, source: S, options: impl Fn(&Config) -> S::Options + Send + 'static) {
        self.sections.push(Box::new(ConfiguredSource { source, options, prepared: None }));
    }

    /// Prepares everything in `config`. On an error nothing is prepared, and running sources continue.
    pub(super) fn prepare(&mut self, config: &Config, inherited: &mut Inherited) -> Result<(), DaemonError> {
        let prepared = self.sections.iter_mut().try_for_each(|section| section.prepare(config, inherited));
        if prepared.is_err() {
            self.sections.iter_mut().for_each(|section| section.discard());
        }
        Ok(prepared?)
    }

    /// Runs the prepared sources, with `config`. May take as long as a commit, and as long as a removed listener takes
    /// to drain.
    pub(super) fn apply(&mut self, config: &Config, context: &SourceContext) -> Result<(), DaemonError> {
        self.sections.iter_mut().try_for_each(|section| section.apply(context))?;
        self.register_counters(config);
        Ok(())
    }

    /// Whether a source has ended without a stop: a fault, or the store is closed.
    pub(super) fn have_ended(&self) -> bool {
        self.sections.iter().any(|section| section.has_ended())
    }

    /// Submits everything that was sent and read already, and ends all sources at the same time.
    pub(super) fn stop(mut self) {
        self.sections.iter_mut().for_each(|section| section.request_stop());
        self.sections.iter_mut().for_each(|section| section.stop());
    }

    fn register_counters(&self, config: &Config) {
        let mut registry = CounterRegistry::clone(&self.counters.load());
        registry.kinds = self.sections.iter().map(|section| section.kind()).collect();
        registry.sources = self.sections.iter().flat_map(|section| section.counters()).collect();
        let unreplayable = self.sections.iter().filter(|section| !section.is_replayable());
        registry.unreplayable = unreplayable.flat_map(|section| section.counters()).collect();
        registry.listeners = self.sections.iter().flat_map(|section| section.listeners()).collect();
        registry.add_redactions(config);
        registry.set_certificates(config);
        self.counters.store(registry);
    }
}

/// A [`Source`], the conversion of its options from the configuration, and its prepared part.
struct ConfiguredSource<S: Source, F> {
    source: S,
    options: F,
    prepared: Option<S::Prepared>,
}

/// A [`ConfiguredSource`] of any source.
trait SourceSection: Send {
    fn prepare(&mut self, config: &Config, inherited: &mut Inherited) -> Result<(), SourceError>;
    fn discard(&mut self);
    fn apply(&mut self, context: &SourceContext) -> Result<(), SourceError>;
    fn kind(&self) -> IntakeKind;
    fn is_replayable(&self) -> bool;
    fn counters(&self) -> Vec<Arc<SourceCounters>>;
    fn listeners(&self) -> Vec<Arc<SourceCounters>>;
    fn has_ended(&self) -> bool;
    fn request_stop(&mut self);
    fn stop(&mut self);
}

impl<S: Source, F: Fn(&Config) -> S::Options + Send> SourceSection for ConfiguredSource<S, F> {
    fn prepare(&mut self, config: &Config, inherited: &mut Inherited) -> Result<(), SourceError> {
        self.prepared = Some(self.source.prepare((self.options)(config), inherited)?);
        Ok(())
    }

    fn discard(&mut self) {
        self.prepared = None;
    }

    /// A replayable source has no blocks until the bucket plan is loaded: a record that is read twice must get the same
    /// place both times.
    fn apply(&mut self, context: &SourceContext) -> Result<(), SourceError> {
        let Some(mut prepared) = self.prepared.take() else { return Ok(()) };
        if S::IS_REPLAYABLE && !context.router.is_loaded() {
            prepared = self.source.prepare(S::Options::default(), &mut Inherited::default())?;
        }
        self.source.apply(prepared, context)
    }

    fn kind(&self) -> IntakeKind {
        S::KIND
    }

    fn is_replayable(&self) -> bool {
        S::IS_REPLAYABLE
    }

    fn counters(&self) -> Vec<Arc<SourceCounters>> {
        self.source.counters()
    }

    fn listeners(&self) -> Vec<Arc<SourceCounters>> {
        self.source.listeners()
    }

    fn has_ended(&self) -> bool {
        self.source.has_ended()
    }

    fn request_stop(&mut self) {
        self.source.request_stop();
    }

    fn stop(&mut self) {
        self.source.stop();
    }
}
