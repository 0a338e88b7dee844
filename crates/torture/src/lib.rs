//! A torture for any collector of log files. It compares the stored records with the written records, one by one and
//! byte by byte.
//!
//! ```text
//! cargo test --test torture                            what CI runs: a little of each
//! cargo run -rp daytable-torture -- sweep                 killed before the n-th system call, for every n
//!     --stride 7 --offset 3                          … for every seventh
//! cargo run -rp daytable-torture -- faults                the n-th write, sync, open or rename fails, or writes too little
//! cargo run -rp daytable-torture -- kills --count 10000   killed at random, on a world that goes on
//! cargo run -rp daytable-torture -- troubles --count 3000 standstill, limits, clocks, reloads, errands
//! cargo run -rp daytable-torture -- rotations --count 600 with gzip, at every pace: a second or more each, in `--jobs` at a time
//! cargo run -rp daytable-torture -- cuts --count 2000     a power cut: what was not synced is gone, or torn
//! cargo run -rp daytable-torture -- pushes --count 6000   connections cut at each byte, with idempotency keys and without
//! cargo run -rp daytable-torture -- loads --seconds 60    small requests and lines by the thousand, a slow disk, kills; then
//!     --count 16                                     the days are sealed, and rows and bytes of the store compared
//! cargo run -rp daytable-torture -- questions --seconds 600  questions, followers and records that ask for more memory than
//!                                                there is, in a group of processes with a limit
//! cargo run -rp daytable-torture -- intruders --count 300 the lock is removed and a second one started; the journal is lost
//! cargo run -rp daytable-torture -- outbox --count 200    killed while rows are sent to Azurite
//! cargo run -rp daytable-torture -- fleet --count 500     hosts that forward to a central daytable: both killed, put back and without
//!     --hosts 10                                 room, and the network between them cuts, delays, repeats and reorders
//! cargo run -rp daytable-torture -- doubts                whether what is broken on purpose is found
//!     --seed 7 --jobs 8 --base /tmp                  with all of them; as many jobs as wait for each other
//!     --daytable target/release/daytable             with all of them: the program that is tortured
//!     --collector rsyslog                            another collector: sweep, kills, troubles, cuts
//! ```
//!
//! A failure prints the command that repeats the run, and leaves the folder. The file `said.log` there has the daemon's
//! output. Threads interleave by chance, so a run repeats as far as the machine allows: the world is the same to the
//! byte, and the moment has the same number or pause.
//!
//! The parts: `world` changes the files, each a `stream`. `line` makes records that can be told apart. `collector`
//! starts the program under test; `daytable_crash` shows its system calls and records its writes. `run` plays one run,
//! `oracle` judges the result, `found` prints it. Each mode is a module of the same name.

mod collector;
mod cuts;
mod doubts;
mod fleet;
mod found;
mod free_port;
mod intruders;
mod kills;
mod line;
mod loads;
mod options;
mod oracle;
mod outbox;
mod pushes;
mod questions;
mod rotations;
mod run;
mod stream;
mod sweep;
mod troubles;
mod world;

use found::{Found, Tally};
pub use free_port::free_port;
use options::Options;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

/// The folder of the workspace, with the programs and files of the tests.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Runs the modes that `args` name. `daytable` is the program under test, unless `args` name another one. The exit code
/// is success if every record was kept, unchanged and once.
pub fn run(args: impl Iterator<Item = String>, daytable: Option<PathBuf>) -> ExitCode {
    match Options::parse(args, daytable) {
        Ok((modes, options)) => {
            let mut failed = 0;
            for mode in modes {
                let found = match mode.as_str() {
                    "sweep" => sweep::kills(&options),
                    "faults" => sweep::faults(&options),
                    "troubles" => troubles::random(&options),
                    "loads" => loads::random(&options),
                    "questions" => questions::random(&options),
                    "pushes" => pushes::repeated(&options),
                    "doubts" => doubts::tried(&options),
                    "outbox" => outbox::sending(&options),
                    "rotations" => rotations::gzipped(&options),
                    "cuts" => cuts::power(&options),
                    "fleet" => fleet::tortured(&options),
                    "intruders" => intruders::random(&options),
                    _ => kills::random(&options),
                };
                println!("{}", found.report);
                failed += found.failed;
            }
            if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(usage) => {
            eprintln!("torture: {usage}; see the head of crates/torture/src/lib.rs");
            ExitCode::from(64)
        }
    }
}

/// Repeats an action `options.count` times, in rounds that each begin with an empty folder and a new seed. `what` names
/// the action, such as "kills".
pub(crate) fn in_rounds(
    options: &Options,
    mode: &str,
    round: u64,
    what: &str,
    play: impl Fn(&run::Place, u64, &Tally) -> Result<(), String> + Sync,
) -> Found {
    let tally = Tally::begin();
    let rounds = options.count.div_ceil(round);
    let faults = in_parallel(options.jobs, options.seed..options.seed + rounds, |seed| {
        let again = format!("--count {round} --seed {seed}");
        run::in_place(options, |place| play(place, seed, &tally))
            .map_err(|fault| format!("{}\n  {fault}", options.again(mode, &again)))
    });
    tally.found(options, mode, &format!("{} {what}", rounds * round), &faults)
}

/// Runs `one` for each of `numbers`, `jobs` at a time. Prints each fault at once, and returns all faults.
pub(crate) fn in_parallel(
    jobs: usize,
    numbers: impl Iterator<Item = u64> + Send,
    one: impl Fn(u64) -> Result<(), String> + Sync,
) -> Vec<String> {
    let (numbers, faults) = (Mutex::new(numbers), Mutex::new(Vec::new()));
    let next = || numbers.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(number) = next() {
                    if let Err(fault) = one(number) {
                        println!("{fault}");
                        faults.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(fault);
                    }
                }
            });
        }
    });
    faults.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}
