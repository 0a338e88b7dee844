//! The log of the program itself, on standard error.
//!
//! | standard error | a message is |
//! |---|---|
//! | the journal | `<4>text key=value`: the journal removes the priority (sd-daemon(3)) and adds the time |
//! | a terminal | a time, a level in colour, the text |
//! | another file | the same without colours |
//! | any, with `format = "json"` | one JSON object a line: `time`, `level`, `message`, `component`, and the keys |
//!
//! 1. The log has no secrets and no content of records. Messages contain peers, paths, names and numbers, never values
//!    of the configuration, bodies, lines or fields. Messages of libraries appear from `warn` on, because a library may
//!    log the headers that it sends.
//! 2. No text can look like another message: control characters are escaped, and further lines of a message are
//!    indented and have the same priority.
//! 3. One window in the program logs at most 50 messages within 10 s. The number of suppressed messages follows. Levels
//!    below `info` are not limited.
//! 4. The daemon does not read its own log as a source: see [`daytable_intake::own_output`].
//!
//! Rejected: `tracing-subscriber`, whose spans and filters by module the daemon does not need.

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

/// The format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// A text a line: with priorities for the journal, with a time elsewhere.
    #[default]
    Auto,
    /// A JSON object a line.
    Json,
}

/// The options of the log. A reload applies them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The least severe level that is logged.
    pub level: LevelFilter,
    /// The format of a message.
    pub format: LogFormat,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { level: LevelFilter::INFO, format: LogFormat::Auto }
    }
}

impl LogOptions {
    /// Starts the log. Only the first call counts.
    pub fn init(&self) {
        let form = match (goes_to_journal(), std::io::stderr().is_terminal()) {
            (true, _) => LineFormat::Journal,
            (false, true) => LineFormat::Terminal,
            (false, false) => LineFormat::Plain,
        };
        let (level, is_json) = (AtomicU8::default(), AtomicBool::default());
        // Never freed: `tracing` keeps the subscriber until the process ends.
        let logger: &'static Logger = Box::leak(Box::new(Logger { level, is_json, form, rates: Mutex::default() }));
        logger.apply(self);
        // The call fails only if there is another subscriber.
        if tracing::subscriber::set_global_default(logger).is_ok() {
            let _ = LOGGER.set(logger);
        }
    }

    /// Logs by these options from now on.
    pub fn apply(&self) {
        if let Some(logger) = LOGGER.get() {
            logger.apply(self);
            tracing::callsite::rebuild_interest_cache();
        }
    }
}

/// The subscriber of this process, after [`LogOptions::init`].
static LOGGER: OnceLock<&'static Logger> = OnceLock::new();

/// Writes messages to standard error.
struct Logger {
    /// As a number: 0 is off, 5 is trace.
    level: AtomicU8,
    is_json: AtomicBool,
    /// The format for standard error, if the configuration has "auto".
    form: LineFormat,
    rates: Mutex<BurstLimits>,
}

/// Logs how many messages were suppressed, of the windows that are over. The daemon calls this every second.
pub fn log_suppressed() {
    if let Some(logger) = LOGGER.get() {
        let over = logger.rates().over(Instant::now());
        over.into_iter().for_each(|logged| logger.log_suppressed(&logged));
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
    fn apply(&self, options: &LogOptions) {
        self.level.store(number(options.level), Ordering::Relaxed);
        self.is_json.store(options.format == LogFormat::Json, Ordering::Relaxed);
    }

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
        // One write, so that no message of another thread comes between. There is no window to report a failure.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }

    fn log_suppressed(&self, logged: &Suppressed) {
        self.write(&LogLine {
            level: logged.level,
            component: "daytable::log".into(),
            message: format!(
                "{} more messages like the one before were left out: {}",
                logged.suppressed, logged.message
            ),
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
            let (is_logged, over) = self.rates().count(event.metadata(), &line, Instant::now());
            if let Some(over) = over {
                self.log_suppressed(&over);
            }
            if !is_logged {
                return;
            }
        }
        self.write(&line);
    }

    // The log has no spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
