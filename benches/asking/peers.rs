//! Other programs on the same records.

use crate::Measured;
use crate::process::median;
use crate::questions::Question;
use crate::victoria::VictoriaLogs;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/venv/bin/python");

const TIMING: &str = r#"
import json, statistics, sys, time
def measure(run):
    questions, repeats = json.load(sys.stdin), int(sys.argv[2])
    for question in questions:
        try:
            run(question)
            took = []
            for _ in range(repeats):
                start = time.perf_counter()
                run(question)
                took.append(time.perf_counter() - start)
            print(statistics.median(took), flush=True)
        except Exception as error:
            print("none", flush=True)
            print(question, error, file=sys.stderr)
"#;

const DUCKDB: &str = r#"
import duckdb, glob
connection = duckdb.connect()
connection.execute("SET threads = 2")
file = glob.glob(sys.argv[1] + "/tables/*.parquet")[0]
connection.execute(f"CREATE VIEW logs AS SELECT * FROM '{file}'")
measure(lambda question: connection.execute(question).fetchnumpy())
"#;

const CLICKHOUSE: &str = r#"
import tempfile
from chdb import session
folder = tempfile.TemporaryDirectory()
clickhouse = session.Session(folder.name)
clickhouse.query("""CREATE TABLE logs ("Time" DateTime64(6, 'UTC'), "Level" LowCardinality(String), "PartitionKey" LowCardinality(String),
  component LowCardinality(String), "Message" String, method LowCardinality(String), path String, status UInt16, duration_ms UInt32,
  bytes UInt32, client String, trace_id String, error String) ENGINE = MergeTree ORDER BY ("PartitionKey", "Time")""")
clickhouse.query(f"""INSERT INTO logs SELECT parseDateTime64BestEffort(time, 6, 'UTC'), lower(level), instance, component, message, method, path,
  status, duration_ms, bytes, client, trace_id, error FROM file('{sys.argv[1]}', JSONEachRow, 'time String, level String, instance String,
  component String, message String, method String, path String, status UInt16, duration_ms UInt32, bytes UInt32, client String,
  trace_id String, error String')""")
def run(question):
    question = question.replace("time_bucket(INTERVAL '5 minutes', \"Time\")", "toStartOfInterval(\"Time\", INTERVAL 5 MINUTE)")
    question = question.replace("time_bucket(INTERVAL '10 minutes', \"Time\")", "toStartOfInterval(\"Time\", INTERVAL 10 MINUTE)")
    question = question.replace("quantile_cont(duration_ms, 0.99)", "quantile(0.99)(duration_ms)")
    clickhouse.query(question + " SETTINGS max_threads = 2, use_query_condition_cache = 0", "JSONEachRow")
measure(run)
"#;

/// DuckDB on the sealed file of a data folder.
pub(crate) fn duckdb(data: &Path, questions: &[Question], repeats: usize) -> Result<Vec<Option<Duration>>> {
    in_python(DUCKDB, data, questions, repeats)
}

/// ClickHouse in the process of Python, on a table of its own.
pub(crate) fn clickhouse(ndjson: &Path, questions: &[Question], repeats: usize) -> Result<Vec<Option<Duration>>> {
    in_python(CLICKHOUSE, ndjson, questions, repeats)
}

fn in_python(script: &str, path: &Path, questions: &[Question], repeats: usize) -> Result<Vec<Option<Duration>>> {
    let sql: Vec<&String> = questions.iter().map(|question| &question.sql).collect();
    let mut child = Command::new(PYTHON)
        .args(["-c", &format!("{TIMING}{script}")])
        .arg(path)
        .arg(repeats.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{PYTHON} does not start"))?;
    let mut input = child.stdin.take().context("no input")?;
    serde_json::to_writer(&mut input, &sql)?;
    drop(input);
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "its package is not installed in target/venv, or it failed");
    let seconds = String::from_utf8(output.stdout)?;
    Ok(seconds.lines().map(|line| line.parse().ok().map(Duration::from_secs_f64)).collect())
}

/// VictoriaLogs, where a binary is given. A question has no time if the answer has another number of lines than that of
/// daytable.
pub(crate) fn victoria_logs(
    ndjson: &Path,
    scratch: &Path,
    questions: &[Question],
    repeats: usize,
    answers: &[Measured],
) -> Result<Vec<Option<Duration>>> {
    let server = VictoriaLogs::start(scratch)?;
    server.insert(ndjson)?;
    let mut all = Vec::new();
    for (question, Measured { lines, .. }) in questions.iter().zip(answers) {
        let mut query = question.victoria.clone().unwrap_or_else(|| question.query.clone());
        query = query.replace("instance:=worker-07", "{instance=\"worker-07\"}").replace("level:error", "level:=ERROR");
        if !query.contains("_time:[") {
            query = format!("_time:2026-11-20 {query}");
        }
        if question.limit.is_some() {
            query += " | sort by (_time desc) limit 100";
        }
        let mut took = Vec::new();
        for round in 0..=repeats {
            let start = Instant::now();
            let answer = server.ask(&query).and_then(|answered| {
                ensure!(answered == *lines, "{answered} lines, where daytable has {lines}");
                Ok(())
            });
            if let Err(error) = answer {
                eprintln!("  VictoriaLogs: {query}: {error:#}");
                break;
            }
            if round > 0 {
                took.push(start.elapsed());
            }
        }
        all.push(median(took).ok());
    }
    server.process.stop()?;
    Ok(all)
}
