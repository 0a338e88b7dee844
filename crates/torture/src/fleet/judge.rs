//! The end of a round: everything is left alone until it is quiet, and then compared.

use super::PUT_BACK;
use super::member::{Central, Host, Member};
use crate::collector::Collector;
use crate::found::Tally;
use crate::line::BARE_FILE;
use crate::oracle::Verdict;
use crate::world::World;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The longest pause of a host that was refused, and a little more: then it has tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(90);
/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Waits until the central has everything, and compares.
pub(super) fn judge(
    central: &mut Central,
    hosts: &mut [Host],
    worlds: &[World],
    patience: Duration,
    tally: &Tally,
) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    central.member.start_anew().map_err(failed)?;
    for host in &mut *hosts {
        host.proxy.set_calm(true);
        host.member.start_anew().map_err(failed)?;
    }
    for (host, world) in hosts.iter_mut().zip(worlds) {
        wait(patience, &mut [&mut host.member], world.written.least(), tally, &mut |members| {
            let messages = members[0].daytable.messages(members[0].home())?;
            Ok(vec![("at the host".to_owned(), Verdict::of(&world.written, messages))])
        })?;
    }
    let names: Vec<String> = hosts.iter().map(|host| host.member.name.clone()).collect();
    let were_put_back: Vec<bool> = hosts.iter().map(|host| host.number < PUT_BACK).collect();
    let mut all: Vec<&mut Member> = vec![&mut central.member];
    all.extend(hosts.iter_mut().map(|host| &mut host.member));
    let records: usize = worlds.iter().map(|world| world.written.least()).sum();
    let look = &mut |members: &[&mut Member]| at_central(members[0], &names, worlds);
    wait(patience.max(LONGEST_PAUSE), &mut all, records, tally, look)?;
    verify_fleet(all[0], hosts_and_records(names.len(), records), patience)?;
    // Once more, when all is quiet.
    all.iter_mut().rev().try_for_each(|member| member.terminate()).map_err(failed)?;
    let mut stored = 0;
    for (name, verdict) in at_central(all[0], &names, worlds).map_err(failed)? {
        stored += verdict.read;
        tally.count(&verdict);
        if !verdict.is_clean() {
            return Err(format!("after the stop, of {name}: {verdict}"));
        }
    }
    for ((member, world), was_put_back) in all[1..].iter().zip(worlds).zip(were_put_back) {
        let fault = member.daytable.fault(member.home(), world.written.least()).map_err(failed)?;
        fault.map_or(Ok(()), |fault| Err(format!("{}: {fault}", member.name)))?;
        files_come_back(all[0], &member.logs(), was_put_back).map_err(failed)?;
    }
    let fault = all[0].daytable.fault(all[0].home(), stored).map_err(failed)?;
    let fault = fault.filter(|fault| !is_of_later_archives(fault));
    fault.map_or(Ok(()), |fault| Err(format!("central: {fault}")))
}

/// Whether `verify` finds nothing but archives that are gone. The central is put back to a copy, and what it archived and removed
/// since is as it was (docs/architecture/gaps.md). Their days are still in its tables, with all records, as was just seen.
fn is_of_later_archives(fault: &str) -> bool {
    let findings: Vec<Value> = fault
        .lines()
        .filter_map(|line| serde_json::from_str(line.trim_start_matches("daytable verify says: ")).ok())
        .filter(|line: &Value| line["finding"].is_string())
        .collect();
    let is_archive = |finding: &Value| {
        finding["finding"] == "archive"
            && finding["found"].as_str().is_some_and(|found| found.ends_with("is not there"))
    };
    !findings.is_empty() && findings.iter().all(is_archive)
}

fn hosts_and_records(hosts: usize, records: usize) -> String {
    format!("whole: {hosts} hosts, {records} records")
}

/// What `look` finds of each world.
type Verdicts = Vec<(String, Verdict)>;

/// Looks until nothing is lost of this many records.
fn wait(
    patience: Duration,
    members: &mut [&mut Member],
    records: usize,
    tally: &Tally,
    look: &mut dyn FnMut(&[&mut Member]) -> io::Result<Verdicts>,
) -> Result<(), String> {
    let deadline = Instant::now() + patience;
    loop {
        members.iter_mut().try_for_each(|member| member.check()).map_err(|error| error.to_string())?;
        let is_last = Instant::now() >= deadline;
        // A complete read is expensive.
        if !is_last && members[0].count().unwrap_or(0) < records as u64 {
            std::thread::sleep(LOOK_EVERY);
            continue;
        }
        // A store that cannot be read now may be in the middle of a change.
        match look(members) {
            Ok(found) if is_last || found.iter().all(|(_, verdict)| verdict.lost.is_empty()) => {
                for (name, verdict) in found {
                    if !verdict.is_clean() {
                        tally.count(&verdict);
                        return Err(format!("{name}, {}: {verdict}", members[0].name));
                    }
                }
                return Ok(());
            }
            Err(error) if is_last => return Err(error.to_string()),
            _ => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// The records of each host at the central.
fn at_central(central: &Member, names: &[String], worlds: &[World]) -> io::Result<Verdicts> {
    let mut of_host: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let text = |record: &Value, field: &str| record[field].as_str().unwrap_or_default().to_owned();
    for record in central.daytable.ask(central.home(), "query", &["-n", "1000000000"])? {
        of_host.entry(text(&record, "log_host")).or_default().push(text(&record, "message"));
    }
    let found = names
        .iter()
        .zip(worlds)
        .map(|(name, world)| (name.clone(), Verdict::of(&world.written, of_host.remove(name).unwrap_or_default())));
    let found = found.collect();
    match of_host.into_keys().next() {
        Some(other) => Err(io::Error::other(format!("there are records of {other:?}, which is not a host"))),
        None => Ok(found),
    }
}

/// `verify --fleet` says `whole`. Hosts are asked with their next message, and one that was killed a moment ago may be waiting.
fn verify_fleet(central: &Member, whole: String, patience: Duration) -> Result<(), String> {
    const NOT_ALL_ANSWERED: i32 = 75;
    let deadline = Instant::now() + patience;
    loop {
        let mut verify = central.daytable.command_on(central.home(), "verify");
        let output = verify.arg("--fleet").stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && said.trim() == whole {
            return Ok(());
        }
        if output.status.code() != Some(NOT_ALL_ANSWERED) || Instant::now() >= deadline {
            let error = String::from_utf8_lossy(&output.stderr);
            return Err(format!("verify --fleet: {}: {said}{error}, and not {whole:?}", output.status));
        }
    }
}

/// Compares each log that still has its first name with what the central exports of it. Of a host that was put back, the export
/// has lines without a time twice, so their file is not a part of it (`permit_again`).
fn files_come_back(central: &Member, logs: &Path, was_put_back: bool) -> io::Result<()> {
    for entry in fs::read_dir(logs)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let is_bare = path.file_stem().and_then(|stem| stem.to_str()) == Some(BARE_FILE);
        if was_put_back && is_bare {
            continue;
        }
        let content = fs::read(&path)?;
        let mut export = central.daytable.command_on(central.home(), "export");
        let export = export.args(["--raw", "--source"]).arg(&path).output()?;
        // The export has the rotated parts as well, in the order in which the files were made.
        let is_part =
            |whole: &[u8], part: &[u8]| String::from_utf8_lossy(whole).contains(&*String::from_utf8_lossy(part));
        if !is_part(&export.stdout, &content) {
            let (exported, said) = (export.stdout.len(), String::from_utf8_lossy(&export.stderr));
            let path = path.display();
            return Err(io::Error::other(format!("{path} differs from the {exported} bytes of its export: {said}")));
        }
    }
    Ok(())
}
