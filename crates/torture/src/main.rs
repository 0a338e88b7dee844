//! The torture as a program: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    daytable_torture::run(std::env::args().skip(1), None)
}
