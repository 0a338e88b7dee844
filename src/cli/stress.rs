//! `daytable stress`: measures the throughput of the remote store with a peak load.

use super::exit::CliError;
use super::hint::hint;
use super::locate::load_named_config;
use super::output::{Output, TextTable};
use crate::config::AccountConfig;
use crate::remote::{RemoteError, account_options};
use daytable_remote::outbox::Client;
use daytable_remote::stress::{Load, Measured, left_behind, recommend, stress};
use daytable_remote::tables::{client_of, connect};
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// A table of its own is made, written to and dropped. It costs what so many transactions cost.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration. Its [store] names the connection string; without a file, AZURE_STORAGE_CONNECTION_STRING has it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A file with the connection string
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    connection_string_file: Option<PathBuf>,
    /// Entities per second to send: the peak of the busiest instance
    #[arg(long, value_name = "ENTITIES", default_value = "5000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    peak: u32,
    /// Duration of each of the two loads, up to 1h
    #[arg(long = "for", value_name = "DURATION", default_value = "30s", value_parser = lasting)]
    lasts: Duration,
    /// Number of partitions of the second load
    #[arg(long, value_name = "COUNT", default_value = "16", value_parser = clap::value_parser!(u16).range(2..=256))]
    partitions: u16,
    /// Maximum number of concurrent transactions
    #[arg(long, value_name = "COUNT", default_value = "64", value_parser = clap::value_parser!(u16).range(1..=1024))]
    in_flight: u16,
    /// Bytes of each entity's message, up to 32000
    #[arg(long, value_name = "BYTES", default_value = "250", value_parser = clap::value_parser!(u16).range(0..=32_000))]
    message_bytes: u16,
    /// Print JSON: an object for each load, and one with the number of buckets
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let client = client(args)?;
    let endpoint = client.account().endpoint().to_owned();
    let load = Load {
        peak: NonZeroU32::new(args.peak).unwrap_or(NonZeroU32::MIN),
        partitions: NonZeroU16::new(args.partitions).unwrap_or(NonZeroU16::MIN),
        lasts: args.lasts,
        in_flight: NonZeroU16::new(args.in_flight).unwrap_or(NonZeroU16::MIN),
        message_bytes: usize::from(args.message_bytes),
    };
    let unavailable = |reason: String| CliError::Unavailable(reason);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| unavailable(format!("failed to start threads: {error}")))?;
    let measured = runtime.block_on(async {
        let tell = |table: &str, partitions: u16| {
            let (of, seconds) = (if partitions == 1 { "partition" } else { "partitions" }, args.lasts.as_secs_f64());
            hint(format_args!(
                "daytable: {} entities/s for {seconds} s to {partitions} {of} of {table} at {endpoint}",
                args.peak
            ));
        };
        // If the tables cannot be listed, the run reports the error.
        for table in left_behind(&client).await.unwrap_or_default() {
            hint(format_args!("daytable: {table} exists from another run: if none is running, drop it"));
        }
        // The signal handlers exist before the table, so no signal is missed.
        stress(&client, load, stop_signal(), tell).await
    });
    let [one, many] = measured.map_err(|error| unavailable(error.to_string()))?;
    let buckets = recommend(args.peak.into(), one.rate(), many.rate());
    let mut output = Output::new();
    if args.json {
        for load in [&one, &many] {
            output.json(&shown(load, args.peak))?;
        }
        output.json(&serde_json::json!({ "peak": args.peak, "buckets": buckets }))?;
    } else {
        output.line(columns(&[&one, &many]))?;
        output.line(format_args!("\n{}", advice(args.peak, &one, &many, buckets)))?;
    }
    output.flush()
}

/// Completes on SIGINT or SIGTERM after this call.
fn stop_signal() -> impl Future<Output = ()> {
    let (interrupt, terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async {
        // Without handlers, the signals end the process as usual.
        let (Ok(mut interrupt), Ok(mut terminate)) = (interrupt, terminate) else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

/// A client of the account that the arguments name.
fn client(args: &Args) -> Result<Client, CliError> {
    let configured = load_named_config(args.config.as_deref())?;
    let mut azure = configured.map(|config| config.store.azure).unwrap_or_default();
    if let Some(file) = &args.connection_string_file {
        azure.account = AccountConfig::of_connection_string(Some(file.clone()));
    }
    let account = connect::account(&account_options(&azure.account)).map_err(RemoteError::from)?;
    Ok(client_of(account)?)
}

fn lasting(text: &str) -> Result<Duration, String> {
    let lasts = super::args::interval(text)?;
    if lasts > Duration::from_secs(3600) { Err("must be 1h at most".into()) } else { Ok(lasts) }
}

fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}

fn columns(loads: &[&Measured]) -> TextTable<'static, 8> {
    let row = |load: &&Measured| {
        [
            load.partitions.to_string(),
            load.entities.to_string(),
            load.rate().to_string(),
            millis(load.latencies.percentile(50)),
            millis(load.latencies.percentile(99)),
            millis(load.latencies.longest()),
            load.throttled.to_string(),
            load.failed.to_string(),
        ]
    };
    const HEADS: [&str; 8] =
        ["partitions", "entities", "entities/s", "median", "99 %", "longest", "throttled", "failed"];
    TextTable::new(HEADS, &HEADS, loads, row)
}

fn shown(load: &Measured, peak: u32) -> serde_json::Value {
    let seconds = |duration: Duration| duration.as_secs_f64();
    serde_json::json!({
        "partitions": load.partitions,
        "offered_per_second": peak,
        "entities": load.entities,
        "entities_per_second": load.rate(),
        "seconds": seconds(load.took),
        "latency_seconds": {
            "50": seconds(load.latencies.percentile(50)),
            "90": seconds(load.latencies.percentile(90)),
            "99": seconds(load.latencies.percentile(99)),
            "100": seconds(load.latencies.longest()),
        },
        "throttled": load.throttled,
        "failed": load.failed,
    })
}

/// The advice for the operator.
fn advice(peak: u32, one: &Measured, many: &Measured, buckets: NonZeroU16) -> String {
    let (peak, reached) = (u64::from(peak), one.rate().max(many.rate()));
    let advice = match buckets.get() {
        1 => "buckets = 1 is enough".to_owned(),
        count => format!("an instance that writes {} entities/s needs buckets = {count}", peak.min(reached)),
    };
    // The recommendation uses the same tolerance of 1/20.
    match reached + peak / 20 >= peak {
        true => advice,
        false => format!("{advice}; {reached} entities/s are all that came through to {} partitions", many.partitions),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_remote::stress::LatencyHistogram;

    #[test]
    fn the_advice() {
        let measured = |partitions, entities| Measured {
            partitions,
            entities,
            took: Duration::from_secs(1),
            latencies: LatencyHistogram::default(),
            throttled: 0,
            failed: 0,
        };
        for (one, many, advised) in [
            (5000, 5000, "buckets = 1 is enough"),
            (2000, 5000, "an instance that writes 5000 entities/s needs buckets = 3"),
            (
                1000,
                2000,
                "an instance that writes 2000 entities/s needs buckets = 2; 2000 entities/s are all that came through to 16 partitions",
            ),
            (300, 300, "buckets = 1 is enough; 300 entities/s are all that came through to 16 partitions"),
        ] {
            let (one, many) = (measured(1, one), measured(16, many));
            let buckets = recommend(5000, one.rate(), many.rate());
            assert_eq!(advice(5000, &one, &many, buckets), advised);
        }
    }
}
