//! Questions: how long each takes on an open and on a sealed day, beside other programs in the same run.
//!
//! `cargo bench --bench asking -- [--records N] [--repeats N] [further]`
//!
//! With `further`, the questions are not the forty that daytable was tuned for, but others.
//!
//! The day is the corpus of `end_to_end`. daytable answers in this process, and every answer is written as JSON. DuckDB
//! reads the sealed file, and ClickHouse (`chdb`) a table of the same records, both by the Python of `target/venv` where
//! `benches/asking/requirements.txt` is installed. VictoriaLogs runs where `DAYTABLE_BENCH_VICTORIALOGS` names its
//! binary. Times are medians of warm runs. Without `--bench` the run is small, so that `cargo test --benches` shows that
//! it still works.

#![allow(dead_code)]

#[path = "../end_to_end/client.rs"]
mod client;
mod composed;
#[path = "../end_to_end/corpus.rs"]
mod corpus;
#[path = "../end_to_end/daemon.rs"]
mod daemon;
mod further;
mod peers;
#[path = "../end_to_end/process.rs"]
mod process;
mod questions;
#[path = "../end_to_end/scale.rs"]
mod scale;
#[path = "../end_to_end/url.rs"]
mod url;
#[path = "../end_to_end/victoria.rs"]
mod victoria;

use anyhow::{Context, Result, ensure};
use composed::composed;
use daemon::Folder;
use daytable_logsql::ParsedQuery;
use daytable_model::time::Ticks;
use daytable_query::answer::{AnswerOptions, answer};
use daytable_query::{Archives, Stores};
use daytable_store::Reader;
use further::further;
use process::{Watched, median};
use questions::{Question, questions};
use scale::Scale;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The option with the number of runs of a question.
const REPEATS: &str = "--repeats";

/// What a question took.
pub(crate) struct Measured {
    /// The median of its runs.
    time: Duration,
    /// Lines of its answer.
    pub(crate) lines: usize,
    /// The most memory of the process meanwhile, in bytes, with what earlier questions left.
    peak_rss: f64,
}

fn main() -> Result<()> {
    let scale = Scale::from_args([5000, 5_000_000], &[REPEATS])?;
    let repeats = usize::try_from(scale.option(REPEATS, [1, 9]))?;
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let scratch = scratch.path();
    eprintln!("writing {} records", scale.records);
    let ndjson = scratch.join("app.ndjson");
    corpus::write_ndjson(&ndjson, scale.records)?;
    let folder = Folder::new(scratch, "data", &ndjson, "{field:instance}")?;
    let mut daemon = folder.start()?;
    daemon.wait_for(scale.records)?;
    daemon.process.stop()?;
    let mut questions = questions(scale.records);
    questions.extend(composed());
    if scale.is_small {
        questions.extend(further());
    } else if scale.names("further") {
        questions = further();
    }
    let open = ask_all("open", &folder.data, &questions, repeats)?;
    eprintln!("sealing");
    let table = format!("Log{}", corpus::DAY);
    Watched::spawn(folder.command(&["archive", &table]).stdout(Stdio::null()))?.wait()?;
    let sealed = ask_all("sealed", &folder.data, &questions, repeats)?;
    let lines = |all: &[Measured]| all.iter().map(|of| of.lines).collect::<Vec<_>>();
    ensure!(lines(&open) == lines(&sealed), "answers differ: {:?} open, {:?} sealed", lines(&open), lines(&sealed));
    let peers = [
        peers::duckdb(&folder.data, &questions, repeats),
        peers::clickhouse(&ndjson, &questions, repeats),
        peers::victoria_logs(&ndjson, scratch, &questions, repeats, &open),
    ];
    println!("\n{} records\n", scale.records);
    println!("{}", table_of(&questions, &open, &sealed, &peers));
    Ok(())
}

fn ask_all(state: &str, data: &Path, questions: &[Question], repeats: usize) -> Result<Vec<Measured>> {
    let reader = Reader::open(data)?;
    questions
        .iter()
        .map(|question| {
            let measured = ask(&reader, question, repeats).with_context(|| question.query.clone())?;
            let Measured { time, lines, peak_rss } = &measured;
            eprintln!("  {state}: {}: {} ({lines} lines, {:.0} MB)", question.name, millis(*time), peak_rss / 1e6);
            Ok(measured)
        })
        .collect()
}

fn ask(reader: &Reader, question: &Question, repeats: usize) -> Result<Measured> {
    let (mut took, mut lines) = (Vec::new(), 0);
    // Forgets the peak so far: see proc_pid_clear_refs(5).
    std::fs::write("/proc/self/clear_refs", "5")?;
    for round in 0..=repeats {
        let started = Instant::now();
        let query = ParsedQuery::parse(&question.query).map_err(|error| anyhow::anyhow!("{error}"))?;
        let mut options = AnswerOptions::at(Ticks::MAX);
        options.filter.limit = question.limit;
        let mut out = Vec::new();
        lines = 0;
        let report = answer(&Stores::local(reader, &Archives::Skip), &query, &options, &|| true, &mut |item| {
            lines += 1;
            // A vector takes whatever is written to it.
            let _ = serde_json::to_writer(&mut out, &item);
            out.push(b'\n');
            ControlFlow::Continue(())
        })?;
        ensure!(report.incomplete().is_none(), "{:?}", report.incomplete());
        if round > 0 {
            took.push(started.elapsed());
        }
    }
    Ok(Measured { time: median(took)?, lines, peak_rss: peak_rss()? })
}

fn peak_rss() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no peak")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
}

/// Milliseconds, with the significant digits.
fn millis(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    if ms < 10.0 { format!("{ms:.2}") } else { format!("{ms:.0}") }
}

fn table_of(
    questions: &[Question],
    open: &[Measured],
    sealed: &[Measured],
    peers: &[Result<Vec<Option<Duration>>>; 3],
) -> String {
    let names = ["DuckDB", "ClickHouse", "VictoriaLogs"];
    let mut table = String::new();
    for (name, peer) in names.iter().zip(peers) {
        if let Err(error) = peer {
            table += &format!("{name} was not measured: {error:#}\n");
        }
    }
    table += "\n| question (ms) | to reach | open | sealed | DuckDB | ClickHouse | VictoriaLogs | best peer / open | / sealed | peak MB, open | sealed |\n";
    table += "|--|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";
    for (at, question) in questions.iter().enumerate() {
        let of_peers: Vec<Option<Duration>> =
            peers.iter().map(|peer| peer.as_ref().ok().and_then(|times| times.get(at).copied().flatten())).collect();
        let best = of_peers.iter().flatten().min();
        let shown = |time: &Option<Duration>| time.map_or("–".into(), millis);
        let ratio =
            |own: Duration| best.map_or("–".into(), |best| format!("{:.1}", best.as_secs_f64() / own.as_secs_f64()));
        table += &format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.0} | {:.0} |\n",
            question.name,
            question.target,
            millis(open[at].time),
            millis(sealed[at].time),
            shown(&of_peers[0]),
            shown(&of_peers[1]),
            shown(&of_peers[2]),
            ratio(open[at].time),
            ratio(sealed[at].time),
            open[at].peak_rss / 1e6,
            sealed[at].peak_rss / 1e6,
        );
    }
    table
}
