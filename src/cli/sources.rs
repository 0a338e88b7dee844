//! `daytable sources`: the ledger of every source.

use super::args::Data;
use super::exit::CliError;
use super::output::{Columns, Output, bytes, cell};
use crate::query::ShownSource;
use crate::query::text::Shown;
use crate::store::SourceStatus;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: Data,
    /// An object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let mut sources: Vec<ShownSource> = args.data.open()?.sources()?.iter().map(ShownSource::of).collect();
    sources.sort_by(|a, b| (&a.block, &a.path, &a.identity).cmp(&(&b.block, &b.path, &b.identity)));
    let mut output = Output::new();
    if args.json {
        sources.iter().try_for_each(|source| output.json(source))?;
    } else {
        output.line(columns(&sources))?;
    }
    output.flush()
}

fn columns(sources: &[ShownSource]) -> Columns<'static, 10> {
    let row = |source: &ShownSource| {
        let status = match source.status {
            SourceStatus::Live => "live",
            SourceStatus::Rotated => "rotated",
            SourceStatus::Ended => "ended",
        };
        [
            source.block.clone(),
            Shown(&source.path.to_string_lossy()).to_string(),
            source.identity.clone(),
            status.into(),
            source.position.to_string(),
            cell(source.size),
            cell(source.lag_bytes.map(bytes)),
            source.ledger.records.to_string(),
            bytes(source.ledger.bytes),
            source.losses(),
        ]
    };
    Columns {
        heads: ["block", "path", "identity", "status", "position", "size", "lag", "records", "bytes", "losses"],
        right: &["position", "size", "lag", "records", "bytes"],
        rows: sources.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::source::tests_state;

    #[test]
    fn a_line_a_source_and_no_line_more_for_a_strange_path() {
        let mut state = tests_state(7);
        state.path = "/nowhere/a\nb\x1b.log".into();
        state.ledger.lost_bytes = 5;
        let shown = columns(&[ShownSource::of(&state)]).to_string();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines.len(), 2, "{shown}");
        assert!(lines[1].contains(r"/nowhere/a\nb\x1b.log  0000000000000007  live"), "{shown}");
        assert!(lines[1].ends_with("lost_bytes=5"), "{shown}");
    }
}
