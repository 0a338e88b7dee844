//! A whole day is sealed, archived, queried in the archive, and restored, by the usual commands.

use crate::corpus::DAY;
use crate::daemon::Folder;
use crate::process::{Taken, Watched, bytes_below};
use crate::reading::{self, Query};
use crate::report::{Report, bytes_each, megabytes, micros_each, millis, rate};
use anyhow::{Context, Result, ensure};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

const OF_SEALED: [(&Query, &str); 4] =
    [(&reading::NEWEST_OF_ONE, ""), (&reading::LEVELS, "20 ms"), (&HOUR_OF_ONE, "20 ms"), (&reading::OTHERS[3], "")];
const HOUR_OF_ONE: Query = Query {
    name: "an hour of one instance",
    path: "/api/query?instance=worker-07&since=2026-11-20T12:00:00Z&until=2026-11-20T13:00:00Z&n=100",
    times: 50,
};

/// Takes the day of `folder` through its life, up to the restore. No daemon uses the folder.
pub(crate) fn measure(report: &mut Report, folder: &Folder, scratch: &Path, records: u64, quick: bool) -> Result<()> {
    let (table, place) = (format!("Log{DAY}"), scratch.join("archive"));
    eprintln!("sealing {records} records");
    let sealed = run(folder, &["archive", &table])?;
    report.add("sealed and compared", "500,000 /s", rate(records, sealed.wall));
    report.add("sealed and compared: CPU a record", "", micros_each(sealed.cpu, records));
    report.add("sealed and compared: peak RSS", "100 MB", megabytes(sealed.peak_rss));
    let bytes = bytes_below(&folder.data.join("tables"))?;
    report.add("on disk a record, sealed", "36 B", bytes_each(bytes, records));
    let bytes = bytes_of_lines(&folder.data.join("tables"))?;
    report.add("of it layouts and verbatim text", "1.5 B", format!("{:.2} B", bytes as f64 / records.max(1) as f64));
    ask(report, folder, "sealed", &OF_SEALED, quick)?;
    count_in_duckdb(report, folder, quick);

    let folder = folder.archiving(&place)?;
    let archived = run(&folder, &["archive", &table])?;
    report.add("archived in a folder and read back", "", rate(records, archived.wall));
    let daemon = folder.start()?;
    daemon.connect()?.post(&format!("/-/drop?table={table}"))?;
    daemon.process.stop()?;
    ask(report, &folder, "archived", &[(&HOUR_OF_ONE, "50 ms"), (&reading::NEWEST_OF_ONE, "")], quick)?;
    let restored = run(&folder, &["restore", "--keep", "30d", &table])?;
    report.add("restored", "300,000 /s", rate(records, restored.wall));
    Ok(())
}

/// Compressed bytes of what gives the lines back, in all sealed files of a folder.
fn bytes_of_lines(tables: &Path) -> Result<i64> {
    let mut bytes = 0;
    for entry in walkdir::WalkDir::new(tables) {
        let entry = entry?;
        if entry.path().extension().is_none_or(|extension| extension != "parquet") {
            continue;
        }
        let file = SerializedFileReader::new(File::open(entry.path())?)?;
        for group in file.metadata().row_groups() {
            let of_lines =
                |column: &&ColumnChunkMetaData| matches!(column.column_descr().name(), "Layout" | "Verbatim");
            bytes += group.columns().iter().filter(of_lines).map(ColumnChunkMetaData::compressed_size).sum::<i64>();
        }
    }
    Ok(bytes)
}

fn run(folder: &Folder, arguments: &[&str]) -> Result<Taken> {
    Watched::spawn(folder.command(arguments).stdout(Stdio::null()))?.wait().with_context(|| arguments.join(" "))
}

fn ask(report: &mut Report, folder: &Folder, what: &str, queries: &[(&Query, &str)], quick: bool) -> Result<()> {
    let mut daemon = folder.start()?;
    for (query, target) in queries {
        let (took, lines) = reading::latency(&mut daemon.client, query, quick)?;
        ensure!(quick || lines > 0, "{what}: {} has no answer", query.name);
        report.add(format!("{what}: {}", query.name), target, millis(took));
    }
    daemon.process.stop()?;
    Ok(())
}

/// The time of another program for the same question: levels by hour, in DuckDB from `tests/setup`.
fn count_in_duckdb(report: &mut Report, folder: &Folder, quick: bool) {
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/target/venv/bin/python");
    let script = r#"
import duckdb, glob, statistics, sys, time
file = glob.glob(sys.argv[1] + "/tables/*.parquet")[0]
groups = f"SELECT \"Level\", epoch_us(\"Time\") // 3600000000, count(*) AS n FROM '{file}' GROUP BY 1, 2"
# Hours as numbers: in Python times would need another package, and in DuckDB a calendar.
query = f"SELECT count(*), sum(n) FROM ({groups})"
took = []
for _ in range(int(sys.argv[2])):
    start = time.perf_counter()
    duckdb.sql(query).fetchall()
    took.append(time.perf_counter() - start)
print(f"{statistics.median(took) * 1000:.0f} ms")
"#;
    let mut command = Command::new(python);
    command.args(["-c", script]).arg(&folder.data).arg(if quick { "1" } else { "9" });
    let measured = match command.output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Ok(output) => format!("not measured: {}", String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ")),
        Err(error) => format!("not measured: {python}: {error}"),
    };
    report.add("sealed: levels by hour in DuckDB", "100 ms", measured);
}
