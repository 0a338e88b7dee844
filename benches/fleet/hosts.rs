//! How fast records come from hosts that have them, what that costs the central, and what it costs a host.

use crate::corpus;
use crate::member::{Member, free_address, said};
use crate::process::{Taken, bytes_below, median};
use crate::table::Table;
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Instant;

/// Fills hosts while their central is away, and measures from its return on. The targets are those of the rate, of the central's CPU,
/// of the bytes on the wire and of the time.
pub(crate) fn filled(
    table: &mut Table,
    scratch: &Path,
    what: &str,
    (hosts, records): (u64, u64),
    [rate, cpu, wire, time]: [&'static str; 4],
) -> Result<()> {
    let listen = free_address()?;
    let central = Member::central(scratch, listen)?;
    let of_each = records / hosts;
    let mut members = Vec::new();
    let running = central.start()?;
    for number in 0..hosts {
        let log = scratch.join(format!("files-{number}.log"));
        corpus::write_ndjson(&log, of_each)?;
        let host = Member::host(scratch, &format!("host-{number}"), &log)?;
        host.join(&central, listen)?;
        members.push(host);
    }
    running.process.stop()?;
    for host in &members {
        let mut filling = host.start()?;
        filling.wait_for(of_each)?;
        filling.process.stop()?;
    }
    // The same rows in pages of few commits.
    let imported = scratch.join("imported");
    let mut import = central.command("import");
    said(import.arg("--data").arg(&imported).arg(scratch.join("files-0.log")))?;
    let in_tables = bytes_below(&imported.join("tables"))? * hosts;

    // A host that waits for its central asks at most every 30 s, so the hosts are started, and not the central.
    let mut running = central.start()?;
    let before = running.process.cpu()?;
    let began = Instant::now();
    let started = members.iter().map(Member::spawn).collect::<Result<Vec<_>>>()?;
    running.wait_for(of_each * hosts)?;
    let took = began.elapsed().as_secs_f64();
    let central_cpu = (running.process.cpu()? - before).as_secs_f64();
    let rss = running.process.rss()?;
    let mut host_cpu = 0.0;
    for host in started {
        host_cpu += host.process.stop()?.cpu.as_secs_f64();
    }
    running.process.stop()?;
    let sent = bytes_received(&central)?;
    let records = (of_each * hosts) as f64;
    table.add(format!("{what}: records into the central"), "/s", rate, records / took);
    table.add(format!("{what}: time"), "s", time, took);
    table.add(format!("{what}: CPU of the central a record"), "µs", cpu, central_cpu * 1e6 / records);
    table.add(format!("{what}: CPU of the hosts a record"), "µs", "", host_cpu * 1e6 / records);
    table.add(format!("{what}: memory of the central"), "MB", "", rss as f64 / 1e6);
    table.add(format!("{what}: bytes on the wire a record"), "B", "", sent as f64 / records);
    table.add(
        format!("{what}: of the bytes of tables of the same rows, imported"),
        "times",
        wire,
        sent as f64 / in_tables as f64,
    );
    std::fs::remove_dir_all(scratch)?;
    Ok(())
}

/// Bytes of the bodies that the central got of its hosts, by its ledger.
fn bytes_received(central: &Member) -> Result<u64> {
    let mut sources = central.command("sources");
    let ledgers = said(sources.args(["--json", "--data"]).arg(&central.data))?;
    let mut bytes = 0;
    for line in ledgers.lines() {
        let ledger: serde_json::Value = serde_json::from_str(line)?;
        if ledger["kind"] == "forward" {
            bytes += ledger["bytes"].as_u64().context("a ledger without bytes")?;
        }
    }
    Ok(bytes)
}

/// How often a host reads the file without forwarding, and with it.
const TURNS: usize = 5;

/// What forwarding adds to a host that reads a file: the same file without it and with it, by turns, and the difference of the medians. Two
/// peaks of the same host differ by up to 20 MB, so those of one turn say nothing.
pub(crate) fn added_cost(table: &mut Table, scratch: &Path, records: u64) -> Result<()> {
    let log = scratch.join("files.log");
    corpus::write_ndjson(&log, records)?;
    let listen = free_address()?;
    let central = Member::central(scratch, listen)?;
    let mut receiving = central.start()?;
    let mut received = 0;
    let (mut alone, mut forwarding) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        for (what, taken) in [("alone", &mut alone), ("forwards", &mut forwarding)] {
            let host = Member::host(scratch, &format!("{what}-{turn}"), &log)?;
            let forwards = what == "forwards";
            if forwards {
                host.join(&central, listen)?;
            }
            let mut running = host.start()?;
            running.wait_for(records)?;
            if forwards {
                received += records;
                receiving.wait_for(received)?;
            }
            taken.push(running.process.stop()?);
            std::fs::remove_dir_all(&host.data)?;
        }
    }
    receiving.process.stop()?;
    let cpu_of = |taken: &[Taken]| -> Result<f64> {
        Ok(median(taken.iter().map(|taken| taken.cpu).collect())?.as_secs_f64() * 1e6 / records as f64)
    };
    let memory_of = |taken: &[Taken]| -> Result<f64> {
        Ok(median(taken.iter().map(|taken| taken.peak_rss).collect())? as f64 / 1e6)
    };
    let (cpu, with_cpu) = (cpu_of(&alone)?, cpu_of(&forwarding)?);
    let (memory, with_memory) = (memory_of(&alone)?, memory_of(&forwarding)?);
    table.add("a host that forwards: CPU a record, in all", "µs", "", with_cpu);
    table.add("a host that forwards: added CPU a record", "µs", "0.25", with_cpu - cpu);
    table.add("a host that forwards: memory at its peak, in all", "MB", "", with_memory);
    table.add("a host that forwards: added memory at its peak", "MB", "10", with_memory - memory);
    std::fs::remove_dir_all(scratch)?;
    Ok(())
}
