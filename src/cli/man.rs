//! `daytable man`: the manual pages, a file a command, from the same source as `--help`, and `daytable.toml(5)`.

use super::command_reference;
use super::exit::{CliError, Exit};
use super::output;
use super::output_place::check_output;
use crate::config::reference::manual_page;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder to write the pages to. It is created if it does not exist
    #[arg(value_name = "DIR", required_unless_present = "reference")]
    folder: Option<PathBuf>,
    /// Print all commands as one page of Markdown instead
    #[arg(long, conflicts_with = "folder")]
    reference: bool,
}

pub(super) fn run(args: &Args, command_line: clap::Command) -> Result<(), CliError> {
    match &args.folder {
        Some(folder) => write_pages(folder, command_line),
        None => output::print(command_reference::reference(command_line).trim_end()),
    }
}

fn write_pages(folder: &Path, command_line: clap::Command) -> Result<(), CliError> {
    check_output(folder)?;
    let failed = |source| CliError::Write { path: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command_reference::with_examples(command_line), folder).map_err(failed)?;
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|section| section == "1") {
            let mut page = std::fs::OpenOptions::new().append(true).open(&path).map_err(failed)?;
            page.write_all(end_of_page().as_bytes()).map_err(failed)?;
        }
    }
    std::fs::write(folder.join("daytable.toml.5"), manual_page()).map_err(failed)
}

/// The sections that each command's page ends in.
fn end_of_page() -> String {
    let mut end = String::from(
        ".SH FILES\n.TP\n.I /etc/daytable/daytable.toml\nthe configuration: see\n.BR daytable.toml (5)\n.TP\n\
         .I /var/lib/daytable\nthe data folder, where the configuration names no other\n.SH \"EXIT STATUS\"\n",
    );
    for (exit, meaning) in Exit::ALL {
        end.push_str(&format!(".TP\n.B {}\n{meaning}\n", exit as u8));
    }
    end
}
