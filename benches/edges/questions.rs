//! The greatest resident memory of the daemon under questions, refused ones and hostile ones among them.
//!
//! | what is asked | `memory_max` | MB at most |
//! |---|---|--:|
//! | any one question | not set | 300 |
//! | 64 at once | not set | 500 |
//! | 64 at once | 256MiB | 300 |
//! | one after the other | 64MiB | 100 |

use crate::client::Client;
use crate::daemon::{Daemon, Folder};
use crate::lines;
use crate::table::Table;
use crate::url::encoded;
use anyhow::Result;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Readers at once.
const READERS: usize = 64;

/// Followers beside them.
const FOLLOWERS: usize = 8;

/// Questions that keep or make much, as paths.
fn questions() -> Vec<(&'static str, String)> {
    let own = |what: &str, q: String| format!("/api/{what}?q={}", encoded(&q));
    let loki = |query: String| {
        format!("/loki/api/v1/query_range?start=0&end=4102444800&limit=50000&query={}", encoded(&query))
    };
    let format = format!("| format \"{}\" as message ", "<message>".repeat(32));
    vec![
        ("groups of a field", own("stats", "* | stats by (message) count() n".into())),
        ("values", own("stats", "* | stats values(message) v".into())),
        ("uniq_values", own("stats", "* | stats uniq_values(message) v".into())),
        ("row_any", own("stats", "* | stats by (message) row_any() v".into())),
        ("count_uniq", own("stats", "* | stats count_uniq(message) a, count_uniq(time) b".into())),
        ("sort", own("export", "* | sort by (message)".into())),
        ("hits a millisecond", "/api/hits?q=*&step=1ms".into()),
        ("count a millisecond", "/api/count?every=1ms&by=level,instance".into()),
        ("values of a field", "/api/values?field=message&limit=1000000".into()),
        ("export as Parquet", "/api/export?format=parquet".into()),
        ("a million records", "/api/query?n=1000000".into()),
        ("texts of pipes", own("query", format!("* {}", format.repeat(6)))),
        ("50,000 entries", loki("{instance=~\".+\"}".into())),
        ("labels of templates", loki("{instance=~\".+\"} | label_format a=`{{ repeat 900000 \"x\" }}`".into())),
        (
            "texts of templates",
            loki(
                "{instance=~\".+\"} | line_format `{{ replace \"b\" (repeat 1000000 \"c\") (repeat 1000000 \"b\") }}`"
                    .into(),
            ),
        ),
    ]
}

/// Measures each row of the table.
pub(crate) fn measure(table: &mut Table, scratch: &Path, records: u64) -> Result<()> {
    let file = scratch.join("questions.ndjson");
    lines::write(&file, records, 100, 1)?;
    let folder = Folder::new(scratch, "questions", &file, "{field:instance}")?;
    let mut daemon = folder.start()?;
    daemon.wait_for(records)?;
    daemon.process.stop()?;
    for (what, path) in questions() {
        let daemon = folder.start()?;
        ask(&mut daemon.connect()?, &path);
        table.add(format!("{what}: RSS at most"), "MB", "300", peak(daemon)?);
    }
    for (memory_max, target) in [(None, "500"), (Some("256MiB"), "300")] {
        let daemon = with_memory_max(&folder, memory_max)?.start()?;
        // Half of them send a message without an end; none reads.
        let followers =
            (0..FOLLOWERS).map(|number| follow(&folder.data, number % 2 == 0)).collect::<Result<Vec<_>>>()?;
        std::thread::scope(|scope| {
            for number in 0..READERS {
                let mut client = daemon.connect()?;
                scope.spawn(move || {
                    let questions = questions();
                    (0..questions.len()).for_each(|at| ask(&mut client, &questions[(at + number) % questions.len()].1));
                });
            }
            Ok::<(), anyhow::Error>(())
        })?;
        let limit = memory_max.unwrap_or("no limit");
        drop(followers);
        table.add(format!("{READERS} at once, {limit}: RSS at most"), "MB", target, peak(daemon)?);
    }
    let daemon = with_memory_max(&folder, Some("64MiB"))?.start()?;
    questions().iter().try_for_each(|(_, path)| daemon.connect().map(|mut client| ask(&mut client, path)))?;
    table.add("one after the other, 64MiB: RSS at most", "MB", "100", peak(daemon)?);
    Ok(())
}

/// The same folder, with a configuration that limits memory.
fn with_memory_max(folder: &Folder, memory_max: Option<&str>) -> Result<Folder> {
    let config = folder.config.with_extension("limited.toml");
    let text = std::fs::read_to_string(&folder.config)?;
    let limit = memory_max.map(|limit| format!("memory_max = \"{limit}\"\n")).unwrap_or_default();
    std::fs::write(&config, limit + &text)?;
    Ok(Folder { data: folder.data.clone(), config })
}

/// Stops the daemon; the greatest memory that it had.
fn peak(daemon: Daemon) -> Result<f64> {
    Ok(daemon.process.stop()?.peak_rss as f64 / 1e6)
}

/// A follower of all entries that does not read.
fn follow(data: &Path, sends: bool) -> Result<UnixStream> {
    let mut stream = UnixStream::connect(data.join("control.sock"))?;
    stream.write_all(
        b"GET /loki/api/v1/tail?query=%7Binstance%3D~%22.%2B%22%7D HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\
          Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    )?;
    stream.read_exact(&mut [0; 12])?;
    if sends {
        let mut frame = vec![1, 255];
        frame.extend_from_slice(&(16u64 << 20).to_be_bytes());
        frame.resize(14 + (16 << 20), b'a');
        // The daemon closes the connection.
        let _ = stream.write_all(&frame);
    }
    Ok(stream)
}

/// Asks, whatever the answer: a refused question is one, too.
fn ask(client: &mut Client, path: &str) {
    let _ = client.get(path);
}
