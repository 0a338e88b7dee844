//! The messages of one connection: cut from its bytes, written as rows and, with RELP, acknowledged after their commit.

use super::framing::{Framer, SyslogMessage};
use super::message_sink::{KeySequence, ListenerContext, MessageSink, PeerState};
use super::relp::{self, InvalidFrame, RelpCommand, RelpFrame, RelpFramer};
use crate::counters::count;
use crate::route::RouteCaches;
use crate::syslog::ListenAddress;
use daytable_model::source_id::HostId;
use daytable_model::time;
use daytable_parse::SourceProfile;
use std::collections::VecDeque;

/// The state of the protocol of a connection.
pub(super) struct Session {
    counter: KeySequence,
    profile: SourceProfile,
    peer: String,
    protocol: SessionProtocol,
}

enum SessionProtocol {
    Lines(Framer),
    Relp(Box<Relp>),
}

#[derive(Default)]
struct Relp {
    frames: RelpFramer,
    is_open: bool,
    /// Whether the client asked to end the session.
    is_closing: bool,
    /// Answers that wait for the commit of a submission: its number, the transaction, and the text.
    answers: VecDeque<(u64, u32, &'static str)>,
}

impl Session {
    pub(super) fn new(block: &ListenerContext, peer: String, host: HostId) -> Session {
        let protocol = match block.config.listen {
            ListenAddress::Relp(_) => SessionProtocol::Relp(Box::default()),
            _ => SessionProtocol::Lines(Framer::default()),
        };
        Session { counter: KeySequence::new(host), profile: SourceProfile::default(), peer, protocol }
    }

    /// Whether the protocol has answers.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self.protocol, SessionProtocol::Relp(_))
    }

    /// Writes the messages in `bytes`. A message is cut after `limit` bytes.
    ///
    /// # Errors
    ///
    /// The bytes are not frames, which ends the connection.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        limit: usize,
        block: &ListenerContext,
        routes: &mut RouteCaches,
        sink: &mut MessageSink,
    ) -> Result<(), InvalidFrame> {
        count(&block.counters.bytes, bytes.len() as u64);
        let now = time::now();
        let mut sender = PeerState { counter: &mut self.counter, profile: &mut self.profile, peer: &self.peer };
        match &mut self.protocol {
            SessionProtocol::Lines(framer) => {
                framer.feed(bytes, limit, |message| sink.write(block, routes, &mut sender, message, now));
                Ok(())
            }
            SessionProtocol::Relp(relp) => {
                let Relp { frames, is_open, is_closing, answers } = &mut **relp;
                frames.feed(bytes, limit, |frame| {
                    let RelpFrame { transaction, command, data, cut } = frame;
                    match command {
                        RelpCommand::Open => {
                            *is_open = true;
                            answers.push_back((0, transaction, relp::OPENED));
                        }
                        RelpCommand::Syslog if *is_open && !*is_closing => {
                            let end = data.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r' | 0));
                            let mut number = 0;
                            if let Some(last) = end {
                                let message = SyslogMessage { bytes: &data[..=last], cut };
                                sink.write(block, routes, &mut sender, message, now);
                                number = sink.request_commit();
                            }
                            answers.push_back((number, transaction, relp::ACCEPTED));
                        }
                        RelpCommand::Close => {
                            *is_closing = true;
                            answers.push_back((0, transaction, ""));
                        }
                        _ => answers.push_back((0, transaction, relp::REFUSED)),
                    }
                })
            }
        }
    }

    /// Writes an unfinished message at the end of the connection. A client of RELP sends that message again.
    pub(super) fn finish(&mut self, block: &ListenerContext, routes: &mut RouteCaches, sink: &mut MessageSink) {
        let mut sender = PeerState { counter: &mut self.counter, profile: &mut self.profile, peer: &self.peer };
        if let SessionProtocol::Lines(framer) = &mut self.protocol {
            let now = time::now();
            framer.finish(block.limit, |message| sink.write(block, routes, &mut sender, message, now));
        }
    }

    /// The number of messages so far.
    pub(super) fn messages(&self) -> u64 {
        self.counter.len()
    }

    /// The memory of an incomplete message, in bytes.
    pub(super) fn held(&self) -> usize {
        match &self.protocol {
            SessionProtocol::Lines(framer) => framer.held(),
            SessionProtocol::Relp(relp) => relp.frames.held(),
        }
    }

    /// The answers to messages up to the submission `committed`, in the order of the messages.
    pub(super) fn answers(&mut self, committed: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let SessionProtocol::Relp(relp) = &mut self.protocol {
            while let Some((_, transaction, text)) = relp.answers.pop_front_if(|(number, ..)| *number <= committed) {
                relp::answer(transaction, text, &mut bytes);
            }
            if self.is_over() {
                bytes.extend_from_slice(relp::SERVER_CLOSE);
            }
        }
        bytes
    }

    /// Whether answers wait for a commit.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(&self.protocol, SessionProtocol::Relp(relp) if !relp.answers.is_empty())
    }

    /// Whether the session is closed and every message is answered.
    pub(super) fn is_over(&self) -> bool {
        matches!(&self.protocol, SessionProtocol::Relp(relp) if relp.is_closing && relp.answers.is_empty())
    }
}
