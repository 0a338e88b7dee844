//! The command `daytable`. What it does is in the library; here it becomes a process: an allocator and an exit code.

use clap::Parser;
use daytable::cli::{Cli, Exit};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and the version were asked for, and go to standard output; where it is closed nobody misses them.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Ok.into() };
        }
    };
    match cli.run() {
        Ok(()) => Exit::Ok.into(),
        Err(error) => {
            let exit = error.exit();
            if exit != Exit::Ok {
                eprintln!("daytable: {error}");
            }
            exit.into()
        }
    }
}
