//! The sources that read and listen: started, changed while they run, stopped.
//!
//! A change is made in two steps. [`Sources::prepare`] binds what is to listen, by which everything that can go wrong does;
//! nothing is changed by it. [`Sources::change`] does the rest:
//!
//! * **Files** change their blocks on the tailer's thread, which keeps their descriptors ([`daytable_intake::tail`]).
//! * **A listener** that stays where it is hands its socket to its successor, so nobody is refused and nothing that waits
//!   in the kernel is lost; connections that there are go on by the rules that they began with. One that is gone is
//!   drained as by a stop.
//! * **A journal** is read to where it is, that is committed, and then its successor begins there.

use super::DaemonError;
use super::metrics_bridge::{self, CounterRegistry};
use crate::config::Config;
use daytable_intake::journal::JournalOptions;
use daytable_intake::journal::{self, JournalCounters, JournalHandle};
use daytable_intake::route::Router;
use daytable_intake::syslog::Place;
use daytable_intake::syslog::SyslogOptions;
use daytable_intake::syslog::{self, HeldBytes, SyslogHandle};
use daytable_intake::tail::{TailCounters, TailHandle, TailOptions, Tailer};
use daytable_net::inherited::Inherited;
use daytable_platform::reloadable::Reloadable;
use daytable_store::{Intake, Steps};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What sources need.
#[derive(Clone)]
pub(super) struct Ground {
    pub(super) router: Router,
    pub(super) host: String,
    pub(super) intake: Intake,
    pub(super) steps: Steps,
    pub(super) counted: Reloadable<CounterRegistry>,
    pub(super) held: HeldBytes,
}

/// Sources that run.
pub(super) struct Sources {
    ground: Ground,
    tailer: TailHandle,
    listeners: Vec<(SyslogOptions, SyslogHandle)>,
    journals: Vec<(JournalOptions, JournalHandle)>,
    /// Listeners whose sockets others have, and whose connections go on.
    leaving: Vec<SyslogHandle>,
}

/// Listeners of a configuration, of which those that are new or others than before are bound.
pub(super) struct Prepared(Vec<(SyslogOptions, Option<syslog::Bound>)>);

impl Prepared {
    /// Binds all listeners of a configuration. None is bound where one cannot be.
    pub(super) fn all(config: &Config, inherited: &mut Inherited) -> Result<Prepared, DaemonError> {
        let bind = |syslog: &SyslogOptions| Ok((syslog.clone(), Some(syslog::bind(syslog, None, inherited)?)));
        Ok(Prepared(config.syslogs.iter().map(bind).collect::<Result<_, DaemonError>>()?))
    }
}

impl Sources {
    /// Begins to listen on what is bound, to read journals and to follow files.
    pub(super) fn start(ground: Ground, config: &Config, prepared: Prepared) -> Result<Sources, DaemonError> {
        let Ground { router, host, intake, .. } = &ground;
        let tails: Vec<TailOptions> = config.tails.iter().map(TailOptions::from).collect();
        let counters = Arc::new(TailCounters::new(tails.iter().map(|tail| tail.name.as_str())));
        let tailer = Tailer::spawn(tails, router.clone(), host.clone(), intake.clone(), counters.clone())?;
        ground.counted.store(CounterRegistry { tails: counters, ..CounterRegistry::default() });
        let (listeners, journals, leaving) = (Vec::new(), Vec::new(), Vec::new());
        let mut sources = Sources { ground, tailer, listeners, journals, leaving };
        // Where the start fails, nobody is to wait for commits that may fail as well.
        let intake = sources.ground.intake.clone();
        sources.listen(prepared).inspect_err(|_| intake.drain())?;
        sources.read_journals(&config.journals).inspect_err(|_| intake.drain())?;
        sources.count(config);
        Ok(sources)
    }

    /// Binds the listeners that `config` has and that are not there yet as it has them.
    pub(super) fn prepare(&self, config: &Config) -> Result<Prepared, DaemonError> {
        let counted = self.ground.counted.load();
        let bind = |block: &SyslogOptions| {
            if self.listeners.iter().any(|(before, _)| before == block) {
                return Ok((block.clone(), None));
            }
            let mut inherited = Inherited::default();
            let before = self.listeners.iter().find(|(before, _)| succeeds(block, before));
            if let Some(heirloom) = before.and_then(|(_, handle)| handle.heirloom()) {
                inherited.add(heirloom);
            }
            let counters = counted.all_listeners.iter().find(|counters| counters.name == block.name).cloned();
            Ok((block.clone(), Some(syslog::bind(block, counters, &mut inherited)?)))
        };
        Ok(Prepared(config.syslogs.iter().map(bind).collect::<Result<_, DaemonError>>()?))
    }

    /// Does as `config` has it from now on. It may take as long as a commit, and as what a listener that is gone has
    /// still to take.
    pub(super) fn change(&mut self, config: &Config, prepared: Prepared) -> Result<(), DaemonError> {
        self.leaving.retain(|handle| !handle.has_ended());
        self.listen(prepared)?;
        self.read_journals(&config.journals)?;
        self.follow(config.tails.iter().map(TailOptions::from).collect())?;
        self.count(config);
        Ok(())
    }

    /// Whether a source has ended, which they do by themselves only by a fault.
    pub(super) fn have_died(&self) -> bool {
        self.tailer.is_finished()
            || self.listeners.iter().any(|(_, listener)| listener.has_ended())
            || self.journals.iter().any(|(_, journal)| journal.has_ended())
    }

    /// Takes what was sent already, hands over what was read, and ends. All end at one time.
    pub(super) fn stop(self) {
        let Sources { tailer, mut listeners, journals, leaving, .. } = self;
        listeners.iter_mut().for_each(|(_, listener)| listener.ask_to_stop());
        let mut leaving = leaving;
        leaving.iter_mut().for_each(SyslogHandle::ask_to_stop);
        listeners.into_iter().map(|(_, listener)| listener).chain(leaving).for_each(SyslogHandle::stop);
        journals.into_iter().for_each(|(_, journal)| journal.stop());
        tailer.stop();
    }

    fn listen(&mut self, Prepared(prepared): Prepared) -> Result<(), DaemonError> {
        let mut before = std::mem::take(&mut self.listeners);
        let all: Vec<SyslogOptions> = prepared.iter().map(|(config, _)| config.clone()).collect();
        let Ground { router, host, intake, held, .. } = &self.ground;
        for (config, bound) in prepared {
            let handle = match bound {
                Some(bound) => bound.serve(router, host, intake, held)?,
                None => match before.iter().position(|(known, _)| *known == config) {
                    Some(at) => before.swap_remove(at).1,
                    None => continue,
                },
            };
            self.listeners.push((config, handle));
        }
        for (config, mut handle) in before {
            if all.iter().any(|block| succeeds(block, &config)) {
                handle.leave();
                self.leaving.push(handle);
            } else {
                tracing::info!(listener = config.name, "listens no more");
                handle.stop();
            }
        }
        Ok(())
    }

    fn read_journals(&mut self, configs: &[JournalOptions]) -> Result<(), DaemonError> {
        let (stay, go): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.journals).into_iter().partition(|(before, _)| configs.contains(before));
        self.journals = stay;
        let ended = !go.is_empty();
        for (_, journal) in go {
            journal.counters().unread_since.store(0, Ordering::Relaxed);
            journal.stop();
        }
        if ended {
            // A step is taken between two commits, behind all that was handed over: after it that is on disk, or known not to
            // be. A failure of the step itself says nothing of either.
            let _ = self.ground.steps.lifecycle_state();
        }
        let counted = self.ground.counted.load();
        for config in configs {
            if self.journals.iter().any(|(known, _)| known == config) {
                continue;
            }
            let known = counted.journals.iter().find(|counters| counters.name == config.name).cloned();
            let counters = known.unwrap_or_else(|| Arc::new(JournalCounters::new(&config.name)));
            let Ground { router, host, intake, .. } = &self.ground;
            let journal = journal::follow(config, counters, router, host, intake)?;
            self.journals.push((config.clone(), journal));
        }
        Ok(())
    }

    fn follow(&mut self, tails: Vec<TailOptions>) -> Result<(), DaemonError> {
        let counted = self.ground.counted.load();
        let names = tails.iter().map(|tail| tail.name.as_str());
        let counters = Arc::new(TailCounters::continued(&counted.blocks, names));
        for gone in counted.blocks.iter().filter(|block| !counters.blocks.iter().any(|now| now.name == block.name)) {
            gone.lag_bytes.store(0, Ordering::Relaxed);
            gone.unread_since.store(0, Ordering::Relaxed);
        }
        self.tailer.change(tails, counters.clone())?;
        self.ground.counted.store(CounterRegistry { tails: counters, ..CounterRegistry::clone(&counted) });
        Ok(())
    }

    /// Has all that runs counted.
    fn count(&self, config: &Config) {
        let mut counted = CounterRegistry::clone(&self.ground.counted.load());
        counted.listeners = self.listeners.iter().map(|(_, listener)| listener.counters()).collect();
        let listeners: Vec<_> = counted.listeners.iter().map(|counters| counters.read().clone()).collect();
        add_new(&mut counted.all_listeners, listeners);
        add_new(&mut counted.journals, self.journals.iter().map(|(_, journal)| journal.counters().clone()));
        let blocks = counted.tails.blocks.clone();
        add_new(&mut counted.blocks, blocks);
        counted.add_redactions(config);
        counted.certificates = metrics_bridge::certificates(config);
        self.ground.counted.store(counted);
    }
}

/// Whether one listener has the socket of the other. A port that is left to the system is another one for each name.
fn succeeds(block: &SyslogOptions, before: &SyslogOptions) -> bool {
    let is_named = match block.listen.place() {
        Place::Tcp(at) | Place::Udp(at) => at.port() != 0,
        Place::Stream(_) | Place::Datagram(_) => true,
    };
    block.listen.place() == before.listen.place() && (is_named || block.name == before.name)
}

/// Adds what is not there yet.
fn add_new<T>(all: &mut Vec<Arc<T>>, some: impl IntoIterator<Item = Arc<T>>) {
    for one in some {
        if !all.iter().any(|known| Arc::ptr_eq(known, &one)) {
            all.push(one);
        }
    }
}
