//! The command `daytable`: the library, as a process with a version and an exit code.

use daytable::cli::{Cli, Exit, say, say_usage};
use std::process::ExitCode;

/// The output of `--version`: the release, the commit it was built from, the features and the target (see `build.rs`).
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("BUILT_COMMIT"),
    "\nfeatures: ",
    env!("BUILT_FEATURES"),
    "\ntarget: ",
    env!("BUILT_TARGET"),
);

fn main() -> ExitCode {
    let cli = match Cli::parse_process(VERSION) {
        Ok(cli) => cli,
        Err(error) => {
            say_usage(&error);
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Ok.into() };
        }
    };
    match cli.run() {
        Ok(()) => Exit::Ok.into(),
        Err(error) => {
            let exit = error.exit();
            if exit != Exit::Ok {
                say(&error);
            }
            exit.into()
        }
    }
}
