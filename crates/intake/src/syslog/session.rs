//! One connection's messages: framed as they come, written as rows; for RELP, answered once they are on disk.

use super::desk::{Block, Counter, Desk, Sender};
use super::framing::{Framer, Message};
use super::relp::{self, Command, Frame, Frames, NoFrame};
use crate::counters::count;
use crate::route::RouteCaches;
use crate::syslog::Endpoint;
use daytable_model::time;
use daytable_parse::Learned;
use std::collections::VecDeque;

/// What a connection says, and what it is answered.
pub(super) struct Session {
    counter: Counter,
    learned: Learned,
    peer: String,
    protocol: Protocol,
}

enum Protocol {
    Lines(Framer),
    Relp(Box<Relp>),
}

#[derive(Default)]
struct Relp {
    frames: Frames,
    is_open: bool,
    /// Whether the client asked to end it.
    is_closing: bool,
    /// What is answered once the submission of that number is committed.
    answers: VecDeque<(u64, u32, &'static str)>,
}

impl Session {
    pub(super) fn new(block: &Block, peer: String) -> Session {
        let protocol = match block.config.listen {
            Endpoint::Relp(_) => Protocol::Relp(Box::default()),
            _ => Protocol::Lines(Framer::default()),
        };
        Session { counter: Counter::new(), learned: Learned::default(), peer, protocol }
    }

    /// Whether it is answered.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self.protocol, Protocol::Relp(_))
    }

    /// Takes what came. `limit` is that of a message; an error ends the connection.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        limit: usize,
        block: &Block,
        lanes: &mut RouteCaches,
        desk: &mut Desk,
    ) -> Result<(), NoFrame> {
        count(&block.counters.bytes, bytes.len() as u64);
        let now = time::now();
        let mut sender = Sender { counter: &mut self.counter, learned: &mut self.learned, peer: &self.peer };
        match &mut self.protocol {
            Protocol::Lines(framer) => {
                framer.feed(bytes, limit, |message| desk.take(block, lanes, &mut sender, message, now));
                Ok(())
            }
            Protocol::Relp(relp) => {
                let Relp { frames, is_open, is_closing, answers } = &mut **relp;
                frames.feed(bytes, limit, |frame| {
                    let Frame { transaction, command, data, cut } = frame;
                    match command {
                        Command::Open => {
                            *is_open = true;
                            answers.push_back((0, transaction, relp::OPENED));
                        }
                        Command::Syslog if *is_open && !*is_closing => {
                            let end = data.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r' | 0));
                            let mut number = 0;
                            if let Some(last) = end {
                                let message = Message { bytes: &data[..=last], cut };
                                desk.take(block, lanes, &mut sender, message, now);
                                number = desk.awaited();
                            }
                            answers.push_back((number, transaction, relp::ACCEPTED));
                        }
                        Command::Close => {
                            *is_closing = true;
                            answers.push_back((0, transaction, ""));
                        }
                        _ => answers.push_back((0, transaction, relp::REFUSED)),
                    }
                })
            }
        }
    }

    /// Takes what is left of an unfinished message, when nothing more comes. RELP's comes again: it was not acknowledged.
    pub(super) fn finish(&mut self, block: &Block, lanes: &mut RouteCaches, desk: &mut Desk) {
        let mut sender = Sender { counter: &mut self.counter, learned: &mut self.learned, peer: &self.peer };
        if let Protocol::Lines(framer) = &mut self.protocol {
            let now = time::now();
            framer.finish(block.limit, |message| desk.take(block, lanes, &mut sender, message, now));
        }
    }

    /// Messages that were taken.
    pub(super) fn taken(&self) -> u64 {
        self.counter.taken()
    }

    /// Bytes of memory that are held for a message that is not whole.
    pub(super) fn held(&self) -> usize {
        match &self.protocol {
            Protocol::Lines(framer) => framer.held(),
            Protocol::Relp(relp) => relp.frames.held(),
        }
    }

    /// The answers that are due when everything up to `committed` is on disk, in the order they were asked for.
    pub(super) fn answers(&mut self, committed: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Protocol::Relp(relp) = &mut self.protocol {
            while let Some((_, transaction, text)) = relp.answers.pop_front_if(|(number, ..)| *number <= committed) {
                relp::answer(transaction, text, &mut bytes);
            }
            if self.is_over() {
                bytes.extend_from_slice(relp::SERVER_CLOSE);
            }
        }
        bytes
    }

    /// Whether answers are waited for.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(&self.protocol, Protocol::Relp(relp) if !relp.answers.is_empty())
    }

    /// Whether the client asked to end it, and all is answered.
    pub(super) fn is_over(&self) -> bool {
        matches!(&self.protocol, Protocol::Relp(relp) if relp.is_closing && relp.answers.is_empty())
    }
}
