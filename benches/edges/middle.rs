//! The middle of the road in the same run: 64 instances in one file or in 64, and sealing, beside other programs.

use crate::corpus;
use crate::daemon::Folder;
use crate::process::{Watched, bytes_below};
use crate::table::Table;
use crate::victoria::{self, VictoriaLogs};
use crate::{ingest, peer, stop, yardstick};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

/// Measures ingest of both forms, sealing, and other programs where they are given.
pub(crate) fn measure(table: &mut Table, scratch: &Path, records: u64) -> Result<()> {
    let (ndjson, text) = (scratch.join("middle.ndjson"), scratch.join("middle"));
    corpus::write_ndjson(&ndjson, records)?;
    corpus::write_text(&text, records)?;
    let zstd = yardstick(table, "one NDJSON file", &ndjson, records);
    let folder = Folder::new(scratch, "from-ndjson", &ndjson, "{field:instance}")?;
    let daemon = ingest(table, "one NDJSON file", &folder, records, ["2,000,000", "", "", ""])?;
    if let Some(zstd) = zstd {
        let micros = daemon.process.cpu()?.as_secs_f64() * 1e6 / records as f64;
        table.add("one NDJSON file: CPU beside zstd -1", "times", "1.5", micros / zstd);
    }
    stop(table, "one NDJSON file", daemon, "")?;
    let folder = Folder::new(scratch, "from-text", &text.join("*.log"), "{stem}")?;
    let daemon = ingest(table, "64 text files", &folder, records, ["2,000,000", "", "", ""])?;
    stop(table, "64 text files", daemon, "")?;
    let began = Instant::now();
    let mut archive = folder.command(&["archive", &format!("Log{}", corpus::DAY)]);
    let taken = Watched::spawn(archive.stdout(Stdio::null()))?.wait()?;
    table.add("64 instances: sealing", "/s", "1,400,000", records as f64 / began.elapsed().as_secs_f64());
    table.add("64 instances: CPU of sealing a record", "µs", "", taken.cpu.as_secs_f64() * 1e6 / records as f64);
    match bytes_below(&text).and_then(|bytes| peer::rsyslog(&text, bytes, scratch)) {
        Ok(taken) => {
            table.add("64 text files: rsyslog copies them", "/s", "", records as f64 / taken.wall.as_secs_f64());
            let micros = taken.cpu.as_secs_f64() * 1e6 / records as f64;
            table.add("64 text files: CPU a record of rsyslog", "µs", "", micros);
        }
        Err(error) => eprintln!("rsyslog was not measured: {error:#}"),
    }
    victoria_logs(table, "one NDJSON file", &ndjson, scratch, records)
}

/// The same file for VictoriaLogs, where a binary is given: ingest, a count by level, and a text that no record has.
pub(crate) fn victoria_logs(table: &mut Table, what: &str, file: &Path, scratch: &Path, records: u64) -> Result<()> {
    let server = match VictoriaLogs::start(scratch) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("VictoriaLogs was not measured: {error:#}");
            return Ok(());
        }
    };
    let began = Instant::now();
    server.insert(file)?;
    table.add(format!("{what}: ingest of VictoriaLogs"), "/s", "", records as f64 / began.elapsed().as_secs_f64());
    let micros = server.process.cpu()?.as_secs_f64() * 1e6 / records as f64;
    table.add(format!("{what}: CPU a record of VictoriaLogs"), "µs", "", micros);
    let absent = format!("{} | limit 100", victoria::any_field("~\"zyxwvut\""));
    for (question, query) in [("levels", "* | stats by (_time:5m, level) count() n"), ("absent text", &*absent)] {
        let began = Instant::now();
        let lines = server.ask(&format!("_time:2026-11-20 {query}"))?;
        ensure!((lines == 0) == (question == "absent text"), "{query}: {lines} lines");
        table.add(format!("{what}: {question} of VictoriaLogs"), "ms", "", began.elapsed().as_secs_f64() * 1000.0);
    }
    server.process.stop()?;
    Ok(std::fs::remove_dir_all(scratch.join("victoria"))?)
}
