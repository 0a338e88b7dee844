//! `daytable status`: shows the state of the running daemon on one screen. Without a daemon, the command fails and says how to
//! start one.

use super::args::{FolderArgs, JsonArgs};
use super::exit::CliError;
use super::locate;
use super::output::{Output, bytes, counted};
use crate::daemon::{DaemonStatus, DiskStatus, ForwardStatus, ShownAlert};
use daytable_model::safe_text::SafeLine;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    folder: FolderArgs,
    #[command(flatten)]
    output: JsonArgs,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let located = args.folder.located()?;
    let control = locate::reader_of(&located.data_dir, located.named.as_ref())?;
    let status: DaemonStatus = control.fetch("/-/status")?.only("it is not the state of a daemon")?;
    let mut output = Output::new();
    if args.output.json {
        output.json(&status)?;
    } else {
        screen(&status).iter().try_for_each(|line| output.line(line))?;
    }
    output.flush()
}

/// The lines for people. Each begins with a word of at most eight letters.
fn screen(status: &DaemonStatus) -> Vec<String> {
    let DaemonStatus { version, pid, since, not_ready, records, records_per_second, lag_seconds, .. } = status;
    let ready = not_ready.as_ref().map_or_else(|| "ready".into(), |reason| format!("not ready: {reason}"));
    let mut lines = vec![
        format!("daemon    {ready}, since {since} (version {version}, process {pid})"),
        format!("records   {records_per_second}/s, {records} since the start, {lag_seconds} s behind"),
    ];
    if !status.forwards.is_empty() {
        lines.extend(block("forward", status.forwards.iter().map(forward).collect()));
    }
    lines.extend(disk(&status.disk));
    lines.push(format!("next      {}", status.next.as_deref().unwrap_or("nothing is planned")));
    let verify = &status.verify;
    let last = verify.last.as_ref().map(|last| format!("{last}: {}", counted(verify.findings, "finding")));
    let next = verify.next.as_ref().map_or_else(|| "none is planned".into(), |next| format!("the next at {next}"));
    lines.push(format!("verified  {}, {next}", last.as_deref().unwrap_or("never by a daemon")));
    let troubles = status.troubles.iter().map(|trouble| format!("{} {}", trouble.place, trouble.found));
    lines.extend(block("troubles", troubles.collect()));
    if !status.alerts.is_empty() {
        lines.extend(block("alerts", status.alerts.iter().map(alert).collect()));
    }
    let losses = status.losses.iter().map(|(source, counts)| {
        let counts: Vec<String> = counts.iter().map(|(reason, count)| format!("{reason}={count}")).collect();
        format!("{source} {}", counts.join(" "))
    });
    lines.extend(block("losses", losses.collect()));
    lines
}

fn forward(receiver: &ForwardStatus) -> String {
    let ForwardStatus { to, behind_records, backlog_records, behind_seconds, records, refused, refusal } = receiver;
    let newest = if *backlog_records > 0 { ", but has the newest" } else { "" };
    let behind = match behind_records {
        0 => "has all".to_owned(),
        _ => format!("lacks {}, {behind_seconds} s behind{newest}", counted(*behind_records, "record")),
    };
    let refusal = refusal.as_ref().map_or_else(String::new, |refusal| format!(": {refusal}"));
    let refused = if *refused > 0 { format!(", {refused} refused{refusal}") } else { String::new() };
    format!("{to} {behind}, {records} since the start{refused}")
}

fn disk(disk: &DiskStatus) -> Vec<String> {
    let limit = disk.bytes_max.map_or_else(|| "max_bytes is off".into(), |max| format!("max_bytes {}", bytes(max)));
    let free = disk.free_bytes.map_or_else(String::new, |free| format!(", {} free", bytes(free)));
    let pace = disk.bytes_per_day.map_or_else(String::new, |pace| format!(", {} a day", bytes(pace)));
    let size = match disk.uncounted_bytes {
        0 => bytes(disk.bytes),
        uncounted => format!("{}, {} of them in journals", bytes(disk.bytes), bytes(uncounted)),
    };
    let mut lines = vec![format!("disk      {}: {size}, {limit}{free}{pace}", disk.data_dir)];
    let forecast = match (&disk.at_limit, &disk.full) {
        _ if disk.free_bytes == Some(0) => "the disk is full: make room; set max_bytes, or a shorter keep".into(),
        _ if disk.bytes_max.is_some_and(|max| disk.bytes.saturating_sub(disk.uncounted_bytes) >= max) => {
            "max_bytes is exceeded: days go before their time, if those that are over are enough".into()
        }
        (Some(limit), full) if full.as_ref().is_none_or(|full| limit <= full) => {
            format!("at this pace max_bytes is reached at {limit}, and the oldest days go before their time")
        }
        (_, Some(full)) => format!("at this pace the disk is full at {full}: set max_bytes, or a shorter keep"),
        (_, None) if disk.bytes_per_day.is_some() => "at this pace there is room for a year".into(),
        _ => return lines,
    };
    lines.push(format!("          {forecast}"));
    lines
}

fn alert(alert: &ShownAlert) -> String {
    let labels = daytable_alert::board::show_labels(&alert.labels);
    format!("{}{labels}: {} since {}", alert.alert, alert.value, alert.since)
}

fn block(head: &str, items: Vec<String>) -> Vec<String> {
    let items = if items.is_empty() { vec!["none".into()] } else { items };
    let heads = std::iter::once(head).chain(std::iter::repeat(""));
    // Labels of alerts and answers of receivers are text from outside.
    heads.zip(items).map(|(head, item)| format!("{head:8}  {}", SafeLine(&item))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::{Trouble, VerifyStatus};
    use std::collections::BTreeMap;

    #[test]
    fn one_screen_has_all() {
        let status = DaemonStatus {
            version: "0.1.0".into(),
            pid: 7,
            since: "2026-11-21T08:00:00Z".into(),
            config_file: None,
            not_ready: None,
            records: 12_000,
            records_per_second: 40,
            lag_seconds: 90,
            troubles: ["is 90 s behind", "follows no file"]
                .map(|found| Trouble { place: "app".into(), found: found.into() })
                .into(),
            forwards: vec![
                ForwardStatus { to: "https://logs:7878".into(), records: 12_000, ..ForwardStatus::default() },
                ForwardStatus {
                    to: "otlp+https://otlp".into(),
                    behind_records: 40,
                    backlog_records: 30,
                    behind_seconds: 3,
                    records: 11_000,
                    refused: 2,
                    refusal: Some("web/1: too old".into()),
                },
            ],
            disk: DiskStatus {
                data_dir: "/var/lib/daytable".into(),
                bytes: 1 << 30,
                uncounted_bytes: 3 << 20,
                bytes_max: Some(20 << 30),
                free_bytes: Some(30 << 30),
                bytes_per_day: Some(1 << 29),
                at_limit: Some("2026-12-29T08:00:00Z".into()),
                full: None,
            },
            alerts: vec![ShownAlert {
                alert: "Errors".into(),
                labels: [("alertname", "Errors"), ("instance", "web-1\ntroubles  none")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
                value: 7.0,
                since: "2026-11-21T08:10:00Z".into(),
                ..ShownAlert::default()
            }],
            next: Some("seal Log20261120 at 2026-11-21T06:00:00Z".into()),
            verify: VerifyStatus { next: Some("2026-11-22T03:30:00Z".into()), ..VerifyStatus::default() },
            losses: BTreeMap::from([("app".into(), BTreeMap::from([("lost_bytes".into(), 5)]))]),
        };
        let expected = "\
daemon    ready, since 2026-11-21T08:00:00Z (version 0.1.0, process 7)
records   40/s, 12000 since the start, 90 s behind
forward   https://logs:7878 has all, 12000 since the start
          otlp+https://otlp lacks 40 records, 3 s behind, but has the newest, 11000 since the start, 2 refused: web/1: too old
disk      /var/lib/daytable: 1.0 GiB, 3.0 MiB of them in journals, max_bytes 20.0 GiB, 30.0 GiB free, 512.0 MiB a day
          at this pace max_bytes is reached at 2026-12-29T08:00:00Z, and the oldest days go before their time
next      seal Log20261120 at 2026-11-21T06:00:00Z
verified  never by a daemon, the next at 2026-11-22T03:30:00Z
troubles  app is 90 s behind
          app follows no file
alerts    Errors instance=web-1\\ntroubles  none: 7 since 2026-11-21T08:10:00Z
losses    app lost_bytes=5";
        assert_eq!(screen(&status).join("\n"), expected);
        let empty = screen(&DaemonStatus::default()).join("\n");
        assert!(empty.ends_with("troubles  none\nlosses    none") && empty.contains("max_bytes is off"), "{empty}");
    }
}
