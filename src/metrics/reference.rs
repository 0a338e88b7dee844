//! The exposition is well formed, and `docs/reference/metrics.md` has a row for each metric.

use super::family::Presence;
use super::table::TABLE;
use super::{CommitTotals, Metrics};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Mutex;

const HEAD: &str = "| metric | type | labels | unit | present | meaning |\n|---|---|---|---|---|---|\n";

impl Presence {
    /// The cell of the reference page.
    fn text(self) -> &'static str {
        match self {
            Presence::Always => "always",
            Presence::Source => "for each source",
            Presence::Configured => "where configured",
            Presence::Event => "from the first event on",
            Presence::While => "while it lasts",
        }
    }
}

/// The table of the reference page.
fn table() -> String {
    let row = |metric: &super::family::Metric| {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let cells = [
            format!("`{}`", metric.name),
            metric.kind.name().into(),
            labels.join(", "),
            metric.unit.into(),
            metric.presence.text().into(),
            metric.help.into(),
        ];
        let cells = cells.map(|cell: String| if cell.is_empty() { "| ".into() } else { format!("| {cell} ") });
        cells.concat() + "|\n"
    };
    HEAD.to_owned() + &TABLE.iter().map(row).collect::<String>()
}

#[test]
fn the_page_has_the_table() {
    crate::generated::compare_table("docs/reference/metrics.md", &table());
}

#[test]
fn names_and_labels_are_in_order() {
    assert!(TABLE.is_sorted_by(|a, b| a.name < b.name), "a name twice, or out of order");
    for metric in TABLE {
        assert!(metric.labels.is_sorted_by(|a, b| a < b), "{}: {:?}", metric.name, metric.labels);
    }
}

fn sample() -> String {
    let metrics = Metrics::default();
    let mut commits = CommitTotals { records: 7, ..CommitTotals::default() };
    commits.seconds.observe(0.004);
    let metrics = Metrics { commits: Mutex::new(commits), ..metrics };
    metrics.http.count_request(200, "/metrics");
    metrics.render()
}

#[test]
fn promtool_finds_no_fault() {
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = promtool.expect("this test needs promtool: apt-get install -y prometheus");
    let mut stdin = promtool.stdin.take().expect("it is piped");
    stdin.write_all(sample().as_bytes()).expect("promtool reads");
    drop(stdin);
    let said = promtool.wait_with_output().expect("promtool ends");
    let text = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && text.is_empty(), "{text}");
}

#[test]
fn each_counter_is_shown() {
    let text = sample();
    for line in [
        "daytable_records_committed_total 7\n",
        "daytable_commit_seconds_bucket{le=\"0.002\"} 0\ndaytable_commit_seconds_bucket{le=\"0.004\"} 1\n",
        "daytable_commit_seconds_bucket{le=\"+Inf\"} 1\ndaytable_commit_seconds_sum 0.004\ndaytable_commit_seconds_count 1\n",
        "daytable_fsync_seconds_count 0\n",
        "daytable_http_requests_total{code=\"200\",route=\"/metrics\"} 1\n",
        "daytable_connections_refused_total{reason=\"slow\",source=\"http\"} 0\n",
        "daytable_config_reloads_total{result=\"failure\"} 0\n",
        "daytable_build_info{version=\"",
        "\nprocess_threads ",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
