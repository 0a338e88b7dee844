//! What the program says of itself, on standard error.
//!
//! Where standard error goes to the journal, a line begins with `<N>`, the priority that the journal takes off again
//! (sd-daemon(3)), and has no time of its own; elsewhere it has both a time and, on a terminal, colours.

use rustix::fs::fstat;
use std::fmt;
use std::io::IsTerminal;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Begins to log what is at least of this level. Only the first call counts.
pub(super) fn init(level: LevelFilter) {
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    // Both fail only where somebody logs already.
    let _ = if goes_to_journal() {
        builder.with_ansi(false).event_format(Prefixed).try_init()
    } else {
        builder.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init()
    };
}

/// Whether standard error is the stream that `JOURNAL_STREAM` names: a child whose output goes elsewhere inherits the
/// variable all the same.
fn goes_to_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    fstat(std::io::stderr()).is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// `<4>message field=value`
struct Prefixed;

impl<S: Subscriber + for<'a> LookupSpan<'a>, N: for<'w> FormatFields<'w> + 'static> FormatEvent<S, N> for Prefixed {
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        write!(to, "<{}>", priority(*event.metadata().level()))?;
        context.field_format().format_fields(to.by_ref(), event)?;
        writeln!(to)
    }
}

/// Syslog's number for a level.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}
