//! Losses and doubles while both sides are killed: numbered lines of one host, and both sides killed in turn.

use crate::member::{Member, PATIENCE, free_address, said};
use crate::process::Watched;
use crate::relp::{self, Rsyslog, kept};
use crate::table::Table;
use anyhow::Result;
use daytable_model::time::now;
use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Lines a second.
const RATE: u32 = 2000;
/// How long nothing may come until what is missing is lost.
const QUIET: Duration = Duration::from_secs(40);

/// daytable to daytable.
pub(crate) fn of_fleet(table: &mut Table, scratch: &Path, seconds: u32, kills: u32) -> Result<()> {
    of_two(table, "daytable to daytable", scratch, (seconds, kills), |central, host, listen| host.join(central, listen))
}

/// daytable to daytable by OTLP, which promises each record at least once.
pub(crate) fn of_otlp(table: &mut Table, scratch: &Path, seconds: u32, kills: u32) -> Result<()> {
    of_two(table, "daytable to daytable by OTLP", scratch, (seconds, kills), |_, host, listen| {
        host.send_by_otlp(listen)
    })
}

fn of_two(
    table: &mut Table,
    what: &str,
    scratch: &Path,
    (seconds, kills): (u32, u32),
    connect: impl FnOnce(&Member, &Member, SocketAddr) -> Result<()>,
) -> Result<()> {
    let listen = free_address()?;
    let central = Member::central(scratch, listen)?;
    central.take_pushes()?;
    let mut receiving = Some(central.start()?);
    let host = Member::host(scratch, "host", &scratch.join("*.log"))?;
    connect(&central, &host, listen)?;
    let mut sending = Some(host.start()?);
    let written = write_and_kill(&scratch.join("app.log"), seconds, kills, |number| {
        let (member, running) = if number % 2 == 0 { (&central, &mut receiving) } else { (&host, &mut sending) };
        // Dropping it kills it.
        drop(running.take());
        *running = Some(member.spawn()?);
        Ok(())
    })?;
    let found = settled(
        || {
            let mut query = central.command("query");
            let messages = query.args(["-n", "100000000", "--data"]).arg(&central.data);
            Ok(count(&said(messages)?))
        },
        written,
    )?;
    report(table, what, &found, written, kills);
    for running in [sending, receiving].into_iter().flatten() {
        running.process.stop()?;
    }
    std::fs::remove_dir_all(scratch)?;
    Ok(())
}

/// rsyslog to rsyslog by RELP.
pub(crate) fn of_rsyslog(table: &mut Table, scratch: &Path, seconds: u32, kills: u32) -> Result<()> {
    if !relp::is_there() {
        return Ok(());
    }
    let listen = free_address()?;
    let (receiver, sender) =
        (Rsyslog::receiver(scratch, listen)?, Rsyslog::sender(scratch, &scratch.join("app.log"), listen)?);
    let (mut receiving, mut sending): (Option<Watched>, Option<Watched>) =
        (Some(receiver.spawn()?), Some(sender.spawn()?));
    std::thread::sleep(Duration::from_secs(1));
    let written = write_and_kill(&scratch.join("app.log"), seconds, kills, |number| {
        let (member, running) = if number % 2 == 0 { (&receiver, &mut receiving) } else { (&sender, &mut sending) };
        drop(running.take());
        *running = Some(member.spawn()?);
        Ok(())
    })?;
    let found =
        settled(|| Ok(count(&String::from_utf8_lossy(&std::fs::read(kept(scratch)).unwrap_or_default()))), written)?;
    report(table, "rsyslog to rsyslog by RELP", &found, written, kills);
    drop((sending, receiving));
    std::fs::remove_dir_all(scratch)?;
    Ok(())
}

/// Writes numbered lines, and kills as often. Returns the number of lines.
fn write_and_kill(path: &Path, seconds: u32, kills: u32, mut kill: impl FnMut(u32) -> Result<()>) -> Result<u64> {
    let mut file = std::fs::File::create(path)?;
    let (began, mut written, mut killed) = (Instant::now(), 0u64, 0);
    for turn in 1..=seconds * 100 {
        for _ in 0..RATE / 100 {
            writeln!(file, "{} INFO line=@{written}@ answered", now())?;
            written += 1;
        }
        if killed < kills && turn * kills >= (killed + 1) * seconds * 100 {
            kill(killed)?;
            killed += 1;
        }
        std::thread::sleep((began + Duration::from_millis(10) * turn).saturating_duration_since(Instant::now()));
    }
    Ok(written)
}

/// How often each line is there.
fn count(text: &str) -> HashMap<u64, u64> {
    let mut found = HashMap::new();
    for number in text.lines().filter_map(|line| line.split('@').nth(1)?.parse().ok()) {
        *found.entry(number).or_insert(0) += 1;
    }
    found
}

/// Looks until all lines are there, or nothing comes any more.
fn settled(look: impl Fn() -> Result<HashMap<u64, u64>>, written: u64) -> Result<HashMap<u64, u64>> {
    let (begun, mut moved, mut before) = (Instant::now(), Instant::now(), 0);
    loop {
        let found = look().unwrap_or_default();
        let stored: u64 = found.values().sum();
        if stored != before {
            (before, moved) = (stored, Instant::now());
        }
        if found.len() as u64 >= written || moved.elapsed() > QUIET || begun.elapsed() > PATIENCE {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn report(table: &mut Table, what: &str, found: &HashMap<u64, u64>, written: u64, kills: u32) {
    let twice: u64 = found.values().map(|copies| copies - 1).sum();
    let lost = written - found.len() as u64;
    table.add(format!("{what}, {kills} kills, {written} lines: lost"), "", "0", lost as f64);
    table.add(format!("{what}, {kills} kills, {written} lines: twice"), "", "0", twice as f64);
}
