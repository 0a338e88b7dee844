//! `[log]`: the log of the program itself.

use super::key::{self, ConfigKey, SectionDoc, SectionPlace, choice};
use super::section::Section;
use crate::log::LogFormat;
use tracing::level_filters::LevelFilter;

const LEVELS: [(&str, LevelFilter); 5] = [
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];
const FORMATS: [(&str, LogFormat); 2] = [("auto", LogFormat::Auto), ("json", LogFormat::Json)];

/// The log of the program itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// The least severe level that is logged.
    pub level: LevelFilter,
    /// The form of a line.
    pub format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig { level: LevelFilter::INFO, format: LogFormat::Auto }
    }
}

pub(super) fn keys() -> Vec<ConfigKey<LogConfig>> {
    vec![
        choice("level", |log: &mut LogConfig| &mut log.level, &LEVELS)
            .about("The least severe level that the daemon logs about itself."),
        choice("format", |log: &mut LogConfig| &mut log.format, &FORMATS).about(
            "\"auto\" writes a line of text: with a priority for the journal, elsewhere with a time. \"json\" writes a JSON object per line.",
        ),
    ]
}

pub(super) fn read(mut section: Section<'_>) -> LogConfig {
    let log = key::read(&keys(), &mut section, LogConfig::default());
    section.finish();
    log
}

pub(super) fn section() -> SectionDoc {
    SectionDoc::new("[log]", SectionPlace::Table, keys(), &mut LogConfig::default())
}
