//! `daytable open`: prints a link to the page, which works once and lets a browser read.

use super::args::{DaemonArgs, JsonArgs};
use super::exit::CliError;
use super::locate;
use super::output::Output;
use daytable_model::path_text::PathText;
use serde::{Deserialize, Serialize};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// The address of the page in the browser, where it is not that of the listener: behind a proxy or a tunnel
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    output: JsonArgs,
}

/// The answer of the daemon.
#[derive(Deserialize)]
struct PageLink {
    url: String,
    path: String,
}

#[derive(Serialize)]
struct ShownLink {
    url: String,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let data_dir = args.daemon.located()?.data_dir;
    let control = locate::connect(&data_dir, None)?.ok_or_else(|| {
        let data_dir = data_dir.escaped();
        CliError::Unavailable(format!("no daemon runs on {data_dir}, and the page is part of the daemon: daytable run"))
    })?;
    let link: PageLink = control.post("/-/open", "")?.only("it has no link")?;
    let url = format!("{}{}", args.url.as_ref().unwrap_or(&link.url).trim_end_matches('/'), link.path);
    let mut output = Output::new();
    if args.output.json {
        output.json(&ShownLink { url })?;
    } else {
        output.line(url)?;
    }
    output.flush()
}
