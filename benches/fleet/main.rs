//! Many hosts and a central daytable, on one machine over loopback.
//!
//! `cargo bench --bench fleet -- [ROW…] [--records N] [--hosts N] [--runs N]`
//!
//! Rows are `central`, `backlog`, `host`, `delay`, `idle`, `relp` and `kills`; without a name, all of them. Each figure is the median
//! of all runs, with the least and the greatest. rsyslog that sends to rsyslog by RELP, with a queue on disk, does the same in the
//! same run, where it is installed with `omrelp` and `imrelp`. `DAYTABLE_BENCH_BINARY` names another binary of daytable to measure.
//! Without `--bench` the run is small, so that `cargo test --benches` shows that it still works.
//!
//! All processes share the machine's cores. So a rate is that of hosts and central together, and the CPU of each says what a core
//! would do.

#![allow(dead_code)]

#[path = "../end_to_end/client.rs"]
mod client;
#[path = "../end_to_end/corpus.rs"]
mod corpus;
#[path = "../end_to_end/daemon.rs"]
mod daemon;
mod delay;
mod hosts;
mod idle;
mod kills;
mod member;
#[path = "../end_to_end/process.rs"]
mod process;
mod relp;
#[path = "../end_to_end/scale.rs"]
mod scale;
#[path = "../end_to_end/stream.rs"]
mod stream;
#[path = "../edges/table.rs"]
mod table;

use anyhow::Result;
use scale::Scale;
use std::path::Path;
use table::Table;

/// The option with the number of hosts.
const HOSTS: &str = "--hosts";

fn main() -> Result<()> {
    let scale = Scale::from_args([4000, 5_000_000], &[HOSTS])?;
    let mut table = Table::default();
    for run in 1..=scale.runs {
        eprintln!("run {run} of {}", scale.runs);
        let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        measure(&scale, scratch.path(), &mut table)?;
    }
    println!("\n{} records, {} runs\n\n{table}", scale.records, scale.runs);
    Ok(())
}

fn measure(scale: &Scale, scratch: &Path, table: &mut Table) -> Result<()> {
    let Scale { records, is_small, .. } = *scale;
    let hosts = scale.option(HOSTS, [2, 4]).max(1);
    let below = |name: &str| -> Result<std::path::PathBuf> {
        let folder = scratch.join(name);
        std::fs::create_dir(&folder)?;
        Ok(folder)
    };
    if scale.wants("central") {
        let (rate, cpu) = ("1,000,000", "1.0");
        let what = format!("{hosts} filled hosts");
        hosts::filled(table, &below("central")?, &what, (hosts, records), [rate, cpu, "1.2", ""])?;
    }
    if scale.wants("backlog") {
        hosts::filled(table, &below("backlog")?, "the backlog of one host", (1, records), ["", "", "", "10"])?;
    }
    if scale.wants("host") {
        hosts::added_cost(table, &below("host")?, records)?;
    }
    if scale.wants("delay") {
        let (lines, stream) = if is_small { (3, 1000) } else { (200, 100_000) };
        delay::measure(table, &below("delay")?, lines, stream)?;
    }
    if scale.wants("idle") {
        idle::measure(table, &below("idle")?, if is_small { 20 } else { 1000 })?;
    }
    if scale.wants("relp") {
        relp::throughput(table, &below("relp")?, records)?;
    }
    if scale.wants("kills") {
        let (seconds, kills) = if is_small { (4, 4) } else { (60, 60) };
        kills::of_fleet(table, &below("kills")?, seconds, kills)?;
        kills::of_otlp(table, &below("kills-otlp")?, seconds, kills)?;
        kills::of_rsyslog(table, &below("kills-relp")?, seconds, kills)?;
    }
    Ok(())
}
