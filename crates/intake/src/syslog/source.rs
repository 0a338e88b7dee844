//! All `[[syslog]]` blocks as one [`Source`].
//!
//! A listener that keeps its address hands its socket to its successor. So no sender is refused, and messages that wait
//! in the kernel are not lost. Its connections continue with their old settings. A listener that was removed from the
//! configuration is drained as by a stop.

use super::held_bytes::HeldBytes;
use super::listener::{BoundSyslog, SyslogListener, bind};
use super::{ListenError, SocketKey, SyslogOptions};
use crate::counters::{IntakeKind, SourceCounters};
use crate::source::{Source, SourceContext, SourceError};
use daytable_net::inherited::Inherited;
use std::sync::Arc;

/// The listeners for syslog.
pub struct Syslog {
    held: HeldBytes,
    listeners: Vec<(SyslogOptions, SyslogListener)>,
    /// Listeners that handed their socket over, and whose connections continue.
    leaving: Vec<SyslogListener>,
    counters: Vec<Arc<SourceCounters>>,
}

impl Syslog {
    /// No listeners yet. `held_bytes_max` bounds the bytes of incomplete messages over all of them.
    pub fn new(held_bytes_max: usize) -> Syslog {
        let (listeners, leaving, counters) = (Vec::new(), Vec::new(), Vec::new());
        Syslog { held: HeldBytes::new(held_bytes_max), listeners, leaving, counters }
    }
}

/// Blocks with their new listeners; a listener that does not change is bound already.
pub struct PreparedListeners(Vec<(SyslogOptions, Option<BoundSyslog>)>);

impl Source for Syslog {
    type Options = Vec<SyslogOptions>;
    type Prepared = PreparedListeners;

    const KIND: IntakeKind = IntakeKind { name: "syslog", cut_at: &["message_bytes_max"] };
    const IS_REPLAYABLE: bool = false;

    fn prepare(&self, blocks: Vec<SyslogOptions>, inherited: &mut Inherited) -> Result<PreparedListeners, SourceError> {
        let bind = |block: SyslogOptions| {
            if self.listeners.iter().any(|(before, _)| *before == block) {
                return Ok((block, None));
            }
            let counters = self.counters.iter().find(|counters| counters.name == block.name).cloned();
            let counters = counters.unwrap_or_else(|| Arc::new(SourceCounters::new(Self::KIND, &block.name)));
            let predecessor = self.listeners.iter().find(|(before, _)| has_same_socket(&block, before));
            let successor_socket = predecessor.and_then(|(_, listener)| listener.successor_socket());
            let bound = match successor_socket {
                Some(successor_socket) => {
                    let mut inherited = Inherited::default();
                    inherited.add(successor_socket);
                    bind(&block, counters, &mut inherited)?
                }
                None => bind(&block, counters, inherited)?,
            };
            Ok((block, Some(bound)))
        };
        Ok(PreparedListeners(blocks.into_iter().map(bind).collect::<Result<_, ListenError>>()?))
    }

    fn apply(
        &mut self,
        PreparedListeners(prepared): PreparedListeners,
        context: &SourceContext,
    ) -> Result<(), SourceError> {
        self.leaving.retain(|listener| !listener.has_ended());
        let mut before = std::mem::take(&mut self.listeners);
        for (block, bound) in prepared {
            let listener = match bound {
                Some(bound) => bound.start(context, &self.held)?,
                None => match before.iter().position(|(known, _)| *known == block) {
                    Some(at) => before.swap_remove(at).1,
                    None => continue,
                },
            };
            let counters = listener.counters.clone();
            if !self.counters.iter().any(|known| Arc::ptr_eq(known, &counters)) {
                self.counters.push(counters);
            }
            self.listeners.push((block, listener));
        }
        for (block, mut listener) in before {
            if self.listeners.iter().any(|(now, _)| has_same_socket(now, &block)) {
                listener.leave();
                self.leaving.push(listener);
            } else {
                tracing::info!(listener = block.name, "a listener is closed");
                listener.stop();
            }
        }
        Ok(())
    }

    fn counters(&self) -> Vec<Arc<SourceCounters>> {
        self.counters.clone()
    }

    fn listeners(&self) -> Vec<Arc<SourceCounters>> {
        self.listeners.iter().map(|(_, listener)| listener.counters.clone()).collect()
    }

    fn has_ended(&self) -> bool {
        self.listeners.iter().any(|(_, listener)| listener.has_ended())
    }

    fn request_stop(&mut self) {
        self.listeners.iter_mut().for_each(|(_, listener)| listener.request_stop());
        self.leaving.iter_mut().for_each(SyslogListener::request_stop);
    }

    fn stop(&mut self) {
        self.request_stop();
        self.listeners.clear();
        self.leaving.clear();
    }
}

/// Whether two blocks have one socket. A port that the system chooses is another one for each name.
fn has_same_socket(block: &SyslogOptions, before: &SyslogOptions) -> bool {
    let is_named = match block.listen.socket_key() {
        SocketKey::Tcp(at) | SocketKey::Udp(at) => at.port() != 0,
        SocketKey::Stream(_) | SocketKey::Datagram(_) => true,
    };
    block.listen.socket_key() == before.listen.socket_key() && (is_named || block.name == before.name)
}

impl From<ListenError> for SourceError {
    fn from(error: ListenError) -> SourceError {
        match error {
            ListenError::Tls(error) => SourceError::Settings(format!("failed to take syslog: {error}")),
            ListenError::Io { at, source } => SourceError::Io { task: format!("failed to take syslog: {at}"), source },
            error => SourceError::InUse(format!("failed to take syslog: {error}")),
        }
    }
}
