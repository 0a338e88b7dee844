//! `daytable sources`: lists sources and listeners with their *ledgers*: records, bytes, and losses with their reasons. A running
//! daemon adds the listeners since its start, and its outbox.

use super::args::{FolderArgs, JsonArgs, is_denied};
use super::control::Control;
use super::exit::CliError;
use super::locate::{self, Located};
use super::output::{Output, TextTable, bytes, cell, counted};
use crate::remote::{BucketStatus, OutboxStatus};
use daytable_model::path_text::PathText;
use daytable_model::safe_text::SafeLine;
use daytable_query::{ShownClock, ShownListener, ShownSource, ShownUnended};
use daytable_store::{ListenerLedger, Reader};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    folder: FolderArgs,
    #[command(flatten)]
    output: JsonArgs,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let Located { data_dir, named, .. } = args.folder.located()?;
    let control = locate::connect(&data_dir, named.as_ref());
    let (mut sources, ledgers, running) = match Reader::open(&data_dir).map_err(CliError::from) {
        Err(error) if is_denied(&error) => {
            let Ok(Some(control)) = control else { return Err(error) };
            let running = of_daemon(control)?;
            let ledgers = locate::reader_of(&data_dir, named.as_ref())?.fetch("/-/ledgers")?;
            (running.sources.clone(), ledgers.all("a line is not a listener")?, running)
        }
        reader => {
            let reader = reader?;
            let sources = reader.sources()?.iter().map(ShownSource::of).collect();
            let running = control?.map(of_daemon).transpose()?.unwrap_or_default();
            (sources, reader.catalog().listeners()?, running)
        }
    };
    sources.sort_by(|a, b| (&a.block, &a.path, &a.identity).cmp(&(&b.block, &b.path, &b.identity)));
    let RunningSources { sources: _, unended, listeners, clocks, outboxes } = running;
    let mut output = Output::new();
    if args.output.json {
        sources.iter().try_for_each(|source| output.json(source))?;
        unended.iter().try_for_each(|file| output.json(file))?;
        ledgers.iter().try_for_each(|ledger| output.json(ledger))?;
        listeners.iter().try_for_each(|listener| output.json(listener))?;
        clocks.iter().try_for_each(|clock| output.json(clock))?;
        outboxes.iter().try_for_each(|outbox| output.json(outbox))?;
    } else {
        output.line(columns(&sources))?;
        let times: Vec<String> = sources.iter().filter_map(time_of).collect();
        if !times.is_empty() {
            output.line("")?;
            times.iter().try_for_each(|time| output.line(time))?;
        }
        if !unended.is_empty() {
            output.line("")?;
            output.line(unended_columns(&unended))?;
        }
        if !ledgers.is_empty() {
            output.line("")?;
            output.line(ledger_columns(&ledgers))?;
        }
        if !listeners.is_empty() {
            output.line("")?;
            output.line(listener_columns(&listeners))?;
        }
        if !clocks.is_empty() {
            output.line("")?;
            clocks.iter().try_for_each(|clock| output.line(clock_line(clock)))?;
        }
        if !outboxes.is_empty() {
            output.line("")?;
            output.line(outbox_columns(&outboxes))?;
            for spread in outboxes.iter().flat_map(|outbox| &outbox.spread) {
                let BucketStatus { table, instance, buckets, from } = spread;
                output
                    .line(format_args!("{instance} is spread over {buckets} partitions of {table} from {from} on"))?;
            }
        }
    }
    output.flush()
}

/// What a running daemon says; all but the sources is what it alone knows.
#[derive(Default)]
struct RunningSources {
    sources: Vec<ShownSource>,
    unended: Vec<ShownUnended>,
    listeners: Vec<ShownListener>,
    clocks: Vec<ShownClock>,
    outboxes: Vec<OutboxStatus>,
}

fn of_daemon(control: Control) -> Result<RunningSources, CliError> {
    let mut running = RunningSources::default();
    let mut response = control.fetch("/api/sources")?;
    while let Some(line) = response.next_line()? {
        if let Ok(source) = serde_json::from_str::<ShownSource>(&line) {
            running.sources.push(source);
            continue;
        }
        running.unended.extend(serde_json::from_str::<ShownUnended>(&line).ok());
        running.listeners.extend(serde_json::from_str::<ShownListener>(&line).ok());
        running.clocks.extend(serde_json::from_str::<ShownClock>(&line).ok());
        running.outboxes.extend(serde_json::from_str::<OutboxStatus>(&line).ok());
    }
    Ok(running)
}

/// The files whose last line waits for its end.
fn unended_columns(files: &[ShownUnended]) -> TextTable<'static, 3> {
    TextTable::new(["block", "line without an end", "bytes"], &["bytes"], files, |file| {
        [file.block.clone(), SafeLine(&file.path).to_string(), bytes(file.unended_bytes)]
    })
}

/// The ledgers of the listeners of all daemons.
fn ledger_columns(ledgers: &[ListenerLedger]) -> TextTable<'static, 5> {
    let heads = ["listener", "kind", "records", "bytes", "losses"];
    TextTable::new(heads, &["records", "bytes"], ledgers, |ledger| {
        let losses: Vec<_> = ledger.losses.iter().map(|(reason, count)| format!("{reason}={count}")).collect();
        [
            ledger.listener.clone(),
            ledger.kind.clone(),
            ledger.records.to_string(),
            bytes(ledger.bytes),
            losses.join(" "),
        ]
    })
}

fn outbox_columns(outboxes: &[OutboxStatus]) -> TextTable<'static, 8> {
    let heads = ["block", "sends to", "state", "entities", "bytes", "oldest", "sent", "losses"];
    TextTable::new(heads, &["entities", "bytes", "oldest", "sent"], outboxes, |outbox| {
        [
            outbox.block.clone(),
            SafeLine(&outbox.endpoint).to_string(),
            outbox.state.clone(),
            outbox.entities.to_string(),
            bytes(outbox.bytes),
            format!("{} s", outbox.age_seconds),
            outbox.sent.to_string(),
            outbox.losses(),
        ]
    })
}

fn listener_columns(listeners: &[ShownListener]) -> TextTable<'static, 8> {
    let heads = ["block", "kind", "listen", "connections", "received", "committed", "bytes", "losses"];
    TextTable::new(heads, &["connections", "received", "committed", "bytes"], listeners, |listener| {
        [
            listener.block.clone(),
            listener.kind.clone(),
            SafeLine(&listener.listen).to_string(),
            listener.connections.to_string(),
            listener.received.to_string(),
            listener.committed.to_string(),
            bytes(listener.bytes),
            listener.losses(),
        ]
    })
}

/// Which clock is off, and by how much.
fn clock_line(clock: &ShownClock) -> String {
    let ShownClock { block, instance, records, since, .. } = clock;
    let records = counted(*records, "record");
    format!("{}: its clock is {} ({records} of {block} since {since})", SafeLine(instance), clock.off())
}

fn columns(sources: &[ShownSource]) -> TextTable<'static, 10> {
    let heads = ["block", "path", "identity", "status", "position", "size", "lag", "records", "bytes", "losses"];
    TextTable::new(heads, &["position", "size", "lag", "records", "bytes"], sources, |source| {
        [
            source.block.clone(),
            SafeLine(&source.path.text()).to_string(),
            source.identity.clone(),
            source.status.name().into(),
            source.position.to_string(),
            cell(source.size),
            cell(source.lag_bytes.map(bytes)),
            source.ledger.records.to_string(),
            bytes(source.ledger.bytes),
            source.losses(),
        ]
    })
}

/// Which field is the time of a source, or only looks like one.
fn time_of(source: &ShownSource) -> Option<String> {
    let path = SafeLine(&source.path.text()).to_string();
    if let Some(name) = &source.time_field {
        return Some(format!("{path}: the time is {}", SafeLine(name)));
    }
    let likely = source.likely_time.as_ref()?;
    Some(format!("{path}: no record has a time, although {} looks like one", SafeLine(likely)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_store::source::tests_state;

    #[test]
    fn a_line_a_source_and_no_line_more_for_a_strange_path() {
        let mut state = tests_state(7);
        state.path = "/nowhere/a\nb\x1b.log".into();
        state.ledger.lost_bytes = 5;
        let shown = columns(&[ShownSource::of(&state)]).to_string();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines.len(), 2, "{shown}");
        assert!(lines[1].contains(r"/nowhere/a\nb\x1b.log  ffffffffffff00000000000000000007  gone"), "{shown}");
        assert!(lines[1].ends_with("lost_bytes=5"), "{shown}");
    }
}
