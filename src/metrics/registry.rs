//! The counters of all sources that the daemon ever had.

use crate::config::Config;
use daytable_intake::counters::{IntakeKind, SourceCounters};
use daytable_parse::redact::Redactor;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The counters of all sources. Counters of blocks that a reload removed stay, because a counter never falls.
#[derive(Clone, Default)]
pub struct CounterRegistry {
    /// The kinds of sources of the daemon.
    pub kinds: Vec<IntakeKind>,
    /// Of every block since the start.
    pub sources: Vec<Arc<SourceCounters>>,
    /// The blocks among them whose sources cannot read their records again.
    pub unreplayable: Vec<Arc<SourceCounters>>,
    /// Of the listeners that run now.
    pub listeners: Vec<Arc<SourceCounters>>,
    /// Replaced secrets, by the name of their pattern.
    pub redactions: Vec<(String, Arc<AtomicU64>)>,
    /// Lines that were written anew because of a pattern, likewise.
    pub rewritten_lines: Vec<(String, Arc<AtomicU64>)>,
    /// The listeners that have a certificate now, and the file of each.
    pub certificates: Vec<(String, PathBuf)>,
}

impl CounterRegistry {
    /// Adds the counters of a configuration's patterns. Blocks share the patterns of the whole configuration.
    pub fn add_redactions(&mut self, config: &Config) {
        let redactors = config.sources.all().filter_map(|block| block.reading.redactor.as_ref());
        let of_blocks = redactors.flat_map(Redactor::patterns);
        for pattern in of_blocks.chain(&config.redact) {
            let counter = pattern.counter();
            if !self.redactions.iter().any(|(_, known)| Arc::ptr_eq(known, &counter)) {
                self.redactions.push((pattern.name().to_owned(), counter));
                self.rewritten_lines.push((pattern.name().to_owned(), pattern.line_counter()));
            }
        }
    }

    /// Replaces the files of certificates by those of a configuration.
    pub fn set_certificates(&mut self, config: &Config) {
        let blocks = config.sources.all().map(|block| (block.name, block.tls));
        let listeners = blocks.chain([("http", config.http.tls.as_ref())]);
        let certificates = listeners.filter_map(|(source, tls)| Some((source.to_owned(), tls?.cert_file.clone())));
        self.certificates = certificates.collect();
    }
}
