//! Builds the input of a plan from the catalog.

use super::clock::Clock;
use super::plan::{ArchiveRequirement, LifecycleLimits, SealedGeneration, TableRule, TableState, View};
use super::retained_rules::apply_retained;
use daytable_model::key::TableName;
use daytable_model::time::Ticks;
use daytable_model::window::Window;
use daytable_store::LifecycleState;
use daytable_store::catalog::{Day, FileRole, InterruptedStep, LiveFile, WatchedTime};
use daytable_store::disk_usage::{catalog_bytes, file_bytes, journal_bytes, tables_bytes};
use std::path::Path;
use std::time::Duration;

impl View {
    /// The data folder at `data_dir` in the state `state`, with these rules, at `now`.
    pub fn of(
        data_dir: &Path,
        state: LifecycleState,
        rules: &[TableRule],
        limits: LifecycleLimits,
        now: Ticks,
    ) -> View {
        let mut rules = rules.to_vec();
        for rule in &mut rules {
            apply_retained(rule, &state.rules, limits.grace);
        }
        let watch = state.watch;
        let newest_watched = match watch.newest == state.newest {
            true => watch.watched.saturating_sub(watch.newest_since),
            false => Duration::ZERO,
        };
        let table = |day| table_of(data_dir, day, &watch, &state.interrupted, state.forwarded);
        let tables: Vec<TableState> = state.days.iter().map(table).collect();
        let day_bytes = tables.iter().map(|state| state.bytes).sum::<u64>();
        let journals = state.days.iter().flat_map(|day| &day.files).map(|file| journal_bytes(data_dir, file));
        let journal_bytes = journals.sum();
        View {
            tables,
            archives: state.archives,
            rules,
            clock: Clock { now, newest_record: state.newest, newest_watched },
            bytes: day_bytes + catalog_bytes(data_dir),
            journal_bytes,
            other_bytes: tables_bytes(data_dir).saturating_sub(day_bytes + journal_bytes),
            pressure_since: state.pressure.map_or(now, |(_, since)| since),
            limits,
            dropped: 0,
        }
    }
}

/// The rules and limits of the last daemon, from the catalog. For callers without a configuration.
pub fn rules_of_last_run(state: &LifecycleState) -> (Vec<TableRule>, LifecycleLimits) {
    let rules = state.rules.iter().filter(|rule| !rule.is_removed).filter_map(|rule| {
        let place = rule.archive.as_deref().map(Into::into);
        Some(TableRule {
            name: TableName::new(&rule.name).ok()?,
            window: Window { keep: rule.keep, period: rule.period },
            archive: place.map_or(ArchiveRequirement::None, ArchiveRequirement::At),
            keep_archives: rule.keep_archives,
            shortened: None,
            archive_before: None,
            archives_until: None,
            max_bytes: rule.max_bytes.map(|(bytes_max, _)| bytes_max),
            max_bytes_since: None,
        })
    });
    let seal_after = state.rules.first().map(|rule| rule.seal_after);
    let default = LifecycleLimits::default();
    let limits = LifecycleLimits {
        seal_after: seal_after.unwrap_or(default.seal_after),
        max_bytes: state.pressure.map(|(bytes_max, _)| bytes_max),
        ..default
    };
    (rules.collect(), limits)
}

fn table_of(
    data_dir: &Path,
    day: &Day,
    watch: &WatchedTime,
    interrupted: &[InterruptedStep],
    forwarded: Option<i64>,
) -> TableState {
    let of_role = |sealed: bool| day.files.iter().filter(move |file| (file.role == FileRole::Sealed) == sealed);
    let rows =
        |files: &mut dyn Iterator<Item = &LiveFile>| files.map(|file| u64::try_from(file.entities).unwrap_or(0)).sum();
    let last_commit = day.files.iter().map(|file| file.last_seq).max();
    // A watch that ended before the last commit does not count.
    let quiet = day.quiet.filter(|(mark, _)| Some(*mark) == last_commit);
    TableState {
        table: day.table.clone(),
        state: day.state.clone(),
        unsealed_rows: rows(&mut of_role(false)),
        kept_rows: rows(&mut day.files.iter().filter(|file| file.role == FileRole::Kept)),
        is_closed: day.files.iter().any(|file| file.role == FileRole::Closed && file.entities > 0),
        sealed: of_role(true)
            .filter_map(|file| Some(SealedGeneration { generation: file.generation(), seal: file.seal.clone()? }))
            .max_by_key(|sealed| sealed.generation),
        is_unforwarded: forwarded.is_some_and(|forwarded| last_commit.is_some_and(|last| last > forwarded)),
        is_behind: day.is_behind,
        kept_until: day.kept_until,
        bytes: day.files.iter().map(|file| file_bytes(data_dir, file)).sum(),
        interrupted: interrupted.iter().filter(|of| of.table == day.table).cloned().collect(),
        watched: quiet.map_or(Duration::ZERO, |(_, since)| watch.watched.saturating_sub(since)),
    }
}
