//! A short run of each torture, with the program built for the tests. See `crates/torture`.

use std::process::ExitCode;

fn main() -> ExitCode {
    daytable_torture::run(std::env::args().skip(1), Some(env!("CARGO_BIN_EXE_daytable").into()))
}
