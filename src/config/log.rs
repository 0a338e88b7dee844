//! `[log]`: the log of the program itself.

use super::key::{ConfigKey, choice};
use super::options::SectionOptions;
use crate::log::{LogFormat, LogOptions};
use tracing::level_filters::LevelFilter;

const LEVELS: [(&str, LevelFilter); 5] = [
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];
const FORMATS: [(&str, LogFormat); 2] = [("auto", LogFormat::Auto), ("json", LogFormat::Json)];

impl SectionOptions for LogOptions {
    const HEADER: &'static str = "[log]";

    fn keys() -> Vec<ConfigKey<LogOptions>> {
        vec![
            choice("level", |log: &mut LogOptions| &mut log.level, &LEVELS)
                .live("The least severe level that the daemon logs about itself."),
            choice("format", |log: &mut LogOptions| &mut log.format, &FORMATS).live(
                "\"auto\" writes a line of text: with a priority for the journal, elsewhere with a time. \"json\" writes a JSON object per line.",
            ),
        ]
    }
}
