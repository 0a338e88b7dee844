//! `daytable run`: runs the daemon with a configuration and the options of the command line; or, over a lake, a daemon that only
//! answers (`lake`).

use super::args::{DaemonArgs, LakeArgs};
use super::exit::CliError;
use super::locate::load_config;
use crate::config::environment;
use crate::config::{Config, Listen, PushAccess};
use daytable_intake::glob::Pattern;
use daytable_intake::instance_template::InstanceTemplate;
use daytable_intake::tail::{TailOptions, UnreadReason, survey};
use std::path::PathBuf;
use tracing::level_filters::LevelFilter;

mod lake;

/// The name of the block that `--tail` makes.
pub(super) const BLOCK: &str = "command-line";
/// The name of the block that `--docker` makes.
pub(super) const DOCKER_BLOCK: &str = "docker";

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Files to read in addition to the configured ones; may be given several times
    #[arg(long, value_name = "GLOB", value_parser = pattern)]
    tail: Vec<String>,
    /// The logs of Docker's containers, by their names and images; of another data root with --docker=DIR
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "/var/lib/docker",
          value_parser = pattern)]
    docker: Option<String>,
    /// The address to listen on, or off, instead of the configured one
    #[arg(long, value_name = "ADDR")]
    listen: Option<Listen>,
    /// Who may push records over TCP, instead of the configured access: open, credentials or off
    #[arg(long, value_name = "WHO")]
    push: Option<PushAccess>,
    #[command(flatten)]
    lake: LakeArgs,
    /// With --lake: the folder for the control socket, by which `daytable open --data DIR` and other commands reach this daytable, instead of one in the runtime folder
    #[arg(long, value_name = "DIR", requires = "lake")]
    control: Option<PathBuf>,
}

pub(super) fn run(args: Args, level: Option<LevelFilter>) -> Result<(), CliError> {
    let (lake_of, control) = (args.lake.clone(), args.control.clone());
    // A reload reads the same file, and applies the same options.
    let read = move || {
        let mut config = args.clone().applied_to(load_config(args.daemon.file.as_deref())?);
        config.log.level = level.unwrap_or(config.log.level);
        Ok(config)
    };
    if lake_of.lake.is_some() {
        return lake::run(&lake_of, control, read);
    }
    let config = read()?;
    init_log(&config);
    warn_of_unread(&config);
    Ok(crate::daemon::run(config, Box::new(read), None)?)
}

/// Starts the log of a daemon.
fn init_log(config: &Config) {
    config.log.init();
    for name in environment::unknown_variables() {
        tracing::warn!(name, "ignoring a variable that is not a key of the configuration");
    }
}

/// Warns of each pattern of the command line that gives nothing to read. Those of a file are for `daytable doctor`, because a file
/// is written for times to come.
fn warn_of_unread(config: &Config) {
    let Some(block) = config.sources.tails.iter().find(|tail| tail.name == BLOCK) else { return };
    for found in survey(block).unwrap_or_default() {
        let path = found.path;
        match found.reason {
            Some(UnreadReason::Folder) => {
                let folder = path.trim_end_matches('/');
                tracing::warn!(
                    "--tail {path} is a folder and no file, so nothing in it is read: name the files in it: \
                     --tail '{folder}/*.log', or '{folder}/**/*.log' for all folders below"
                );
            }
            Some(UnreadReason::NoMatch(beside)) if beside.is_empty() => {
                tracing::warn!("--tail {path} matches no file: what matches later is read then");
            }
            Some(UnreadReason::NoMatch(beside)) => {
                let beside = beside.join(", ");
                tracing::warn!(
                    "--tail {path} matches no file, but there are {beside}: * matches within a name, ** any number of folders"
                );
            }
            Some(UnreadReason::NoFolder) => {
                tracing::warn!("--tail: there is no folder {path}: its files are read once it is there");
            }
            Some(UnreadReason::Denied) => tracing::warn!("--tail: no permission for {path}"),
            _ => {}
        }
    }
}

impl Args {
    /// The configuration with the options.
    fn applied_to(self, mut config: Config) -> Config {
        if let Some(data_dir) = self.daemon.data_dir {
            // Only an empty path fails; it is refused as a data folder later.
            config.data_dir = std::path::absolute(&data_dir).unwrap_or(data_dir);
        }
        if let Some(listen) = self.listen {
            config.http.listen = listen;
        }
        config.http.push = self.push.or(config.http.push);
        if !self.tail.is_empty() {
            let reading = config.reading();
            config.sources.tails.push(TailOptions { reading, ..TailOptions::new(BLOCK, self.tail) });
        }
        if let Some(root) = self.docker {
            let include = vec![format!("{}/containers/*/*-json.log*", root.trim_end_matches('/'))];
            let block = TailOptions::new(DOCKER_BLOCK, include);
            let (reading, instance) = (config.reading(), InstanceTemplate::of_field("container"));
            config.sources.tails.push(TailOptions { reading, instance, containers: true, ..block });
        }
        config
    }
}

/// A pattern of paths. A relative pattern begins at the working folder.
fn pattern(text: &str) -> Result<String, String> {
    let text = if text.starts_with('/') {
        text.to_owned()
    } else {
        let working_dir = std::env::current_dir().map_err(|error| error.to_string())?;
        let working_dir = working_dir.to_str().ok_or("is relative to a folder whose name is not UTF-8")?;
        format!("{}/{}", globset::escape(working_dir.trim_end_matches('/')), text.trim_start_matches("./"))
    };
    Pattern::include(&text).map_err(|error| error.to_string())?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn options_replace_keys_of_the_configuration() {
        let mut config = Config::default();
        config.sources.tails.push(TailOptions::new("tail", Vec::new()));
        let line = [
            "run",
            "--data",
            "/tmp/d",
            "--tail",
            "/var/log/*.log",
            "--tail",
            "logs/*",
            "--listen",
            "off",
            "--push",
            "off",
        ];
        let applied = Line::parse_from(line).args.applied_to(config.clone());
        assert_eq!((applied.data_dir.to_str(), applied.http.listen), (Some("/tmp/d"), Listen::Off));
        assert_eq!((applied.http.push, applied.sources.tails.len()), (Some(PushAccess::Off), 2));
        assert_eq!((applied.sources.tails[1].name.as_str(), applied.sources.tails[1].include.len()), (BLOCK, 2));
        let working_dir = std::env::current_dir().expect("a folder");
        let patterns = daytable_intake::tail::PathPatterns::new(&applied.sources.tails[1]).expect("patterns");
        assert!(patterns.includes(&working_dir.join("logs/a")), "{:?}", applied.sources.tails[1].include);

        assert_eq!(Line::parse_from(["run", "--data", "/var/lib/daytable"]).args.applied_to(config.clone()), config);
    }
}
