//! What the program says of itself, on standard error.
//!
//! | standard error | a message is |
//! |---|---|
//! | the journal's | `<4>text key=value`: the priority is taken off again (sd-daemon(3)), the time is the journal's |
//! | a terminal | with a time, a level in colour, the text |
//! | anything else | the same without colours |
//! | any, with `format = "json"` | an object a line: `time`, `level`, `message`, `component`, and the keys |
//!
//! **What is not in it**: secrets and what records say. Values of the configuration, bodies, lines and fields of records
//! are never given to it; peers, paths, names and numbers are. What libraries say comes through from `warn` on, so that
//! none of them shows a header that it sends. Control characters are escaped; a further line of a message is indented and has
//! the same priority, so that no text can look like another message.
//!
//! **How much**: of one message (one place in the program) 50 within 10 s; how many more there were is said after it. Levels below `info` are asked for by somebody who looks, and are not bounded.
//!
//! **Never its own input**: see [`daytable_intake::own_output`].
//!
//! It is a subscriber of `tracing` of its own: what that crate's companion does with spans and filters by module is not
//! needed here, and would be a registry in the memory of every daemon.

mod log_line;
mod burst_limit;

use burst_limit::{BurstLimits, Suppressed};
use daytable_intake::own_output::goes_to_journal;
use daytable_model::time;
use log_line::{LineFormat, LogLine};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The form of what the program says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// A text a line; with priorities where the journal takes it, with a time elsewhere.
    #[default]
    Auto,
    /// A JSON object a line.
    Json,
}

/// The subscriber of this process, once there is one.
static LOGGER: OnceLock<&'static Logger> = OnceLock::new();

/// Writes messages to standard error.
struct Logger {
    /// As a number: 0 is off, 5 is trace.
    level: AtomicU8,
    is_json: AtomicBool,
    /// What standard error is, where `format` is "auto".
    form: LineFormat,
    rates: Mutex<BurstLimits>,
}

/// Begins to log what is at least of this level. Only the first call counts.
pub fn init(level: LevelFilter, format: LogFormat) {
    let form = match (goes_to_journal(), std::io::stderr().is_terminal()) {
        (true, _) => LineFormat::Journal,
        (false, true) => LineFormat::Terminal,
        (false, false) => LineFormat::Plain,
    };
    // For as long as the process: `tracing` keeps it for ever anyway.
    let logger: &'static Logger = Box::leak(Box::new(Logger {
        level: AtomicU8::new(number(level)),
        is_json: AtomicBool::new(format == LogFormat::Json),
        form,
        rates: Mutex::default(),
    }));
    // It fails only where somebody logs already.
    if tracing::subscriber::set_global_default(logger).is_ok() {
        let _ = LOGGER.set(logger);
    }
}

/// Logs what is at least of this level from now on.
pub fn set_level(level: LevelFilter) {
    if let Some(logger) = LOGGER.get() {
        logger.level.store(number(level), Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Writes in this form from now on.
pub fn set_format(format: LogFormat) {
    if let Some(logger) = LOGGER.get() {
        logger.is_json.store(format == LogFormat::Json, Ordering::Relaxed);
    }
}

/// Says how many messages were left out, of those whose time is over. To be called now and then.
pub fn say_left_out() {
    if let Some(logger) = LOGGER.get() {
        let over = logger.rates().over(Instant::now());
        over.into_iter().for_each(|said| logger.say_left_out(&said));
    }
}

fn number(level: LevelFilter) -> u8 {
    match level.into_level() {
        None => 0,
        Some(Level::ERROR) => 1,
        Some(Level::WARN) => 2,
        Some(Level::INFO) => 3,
        Some(Level::DEBUG) => 4,
        Some(Level::TRACE) => 5,
    }
}

impl Logger {
    fn rates(&self) -> std::sync::MutexGuard<'_, BurstLimits> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn filter(&self) -> LevelFilter {
        let all = [
            LevelFilter::OFF,
            LevelFilter::ERROR,
            LevelFilter::WARN,
            LevelFilter::INFO,
            LevelFilter::DEBUG,
            LevelFilter::TRACE,
        ];
        all[usize::from(self.level.load(Ordering::Relaxed)).min(5)]
    }

    fn write(&self, line: &LogLine) {
        let form = if self.is_json.load(Ordering::Relaxed) { LineFormat::Json } else { self.form };
        let text = line.render(form, time::now());
        // In one piece, so that no other thread's comes between; nobody hears of it where it cannot be written.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }

    fn say_left_out(&self, said: &Suppressed) {
        self.write(&LogLine {
            level: said.level,
            component: "daytable::log".into(),
            message: format!("{} more messages like the one before were left out: {}", said.left_out, said.message),
            fields: Vec::new(),
        });
    }
}

impl Subscriber for &'static Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_ours = metadata.target().starts_with("daytable");
        let filter = if is_ours { self.filter() } else { self.filter().min(LevelFilter::WARN) };
        metadata.is_event() && *metadata.level() <= filter
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.filter())
    }

    fn event(&self, event: &Event<'_>) {
        let line = LogLine::of(event);
        if line.level <= Level::INFO {
            let (is_said, over) = self.rates().count(event.metadata(), &line, Instant::now());
            if let Some(over) = over {
                self.say_left_out(&over);
            }
            if !is_said {
                return;
            }
        }
        self.write(&line);
    }

    // Spans say nothing here.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
