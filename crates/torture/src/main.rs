//! The program of the torture. The library does the work.

use std::process::ExitCode;

fn main() -> ExitCode {
    daytable_torture::run(std::env::args().skip(1), None)
}
