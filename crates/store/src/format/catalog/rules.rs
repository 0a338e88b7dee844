//! State that a daemon leaves for the next one: rules, watched time, the size limit, the last run.

use super::database::Catalog;
use super::values::seconds;
use crate::StoreError;
use daytable_model::key::Period;
use daytable_model::time::Ticks;
use rusqlite::OptionalExtension;
use rusqlite::params;
use std::time::Duration;

/// The retention of a configured table, as the last daemon knew it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The configured table's name.
    pub name: String,
    /// How long after its end a day is kept.
    pub keep: Duration,
    /// If `keep` became shorter: since when, and the earlier value.
    pub shortened: Option<(Ticks, Duration)>,
    /// The place of its archives.
    pub archive: Option<String>,
    /// The earlier place of its archives, and until when a drop requires an archive there.
    pub archive_before: Option<(String, Ticks)>,
    /// How long an archive is kept after the end of its day; none means forever.
    pub keep_archives: Option<Duration>,
    /// If `keep_archives` became shorter: since when.
    pub archives_since: Option<Ticks>,
    /// How long after its end a day waits for late records before it is sealed.
    pub seal_after: Duration,
    /// The period of its day-tables.
    pub period: Period,
    /// The most bytes of its days, and the time since which this limit is that value or larger.
    pub max_bytes: Option<(u64, Ticks)>,
    /// Whether it is no longer configured. Its existing days are not dropped.
    pub is_removed: bool,
}

/// How long a daemon has watched the folder, and since when the newest record time has not changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchedTime {
    /// The total over all daemons.
    pub watched: Duration,
    /// The newest record time at the last check.
    pub newest: Option<Ticks>,
    /// The watched time when that record time was first seen.
    pub newest_since: Duration,
}

impl Catalog {
    /// The rules of the last daemon, and those of tables that are no longer configured.
    pub fn rules(&self) -> Result<Vec<Rule>, StoreError> {
        let select = "SELECT name, keep_seconds, shorter_since, keep_before, archive, archive_before, archive_until,
                      keep_archives, archives_since, seal_after, removed, period, bytes_max, bytes_since FROM rule";
        self.all(select, |row| {
            let time = |column| row.get::<_, Option<i64>>(column).map(|ticks| ticks.and_then(Ticks::new));
            let duration = |column| row.get::<_, Option<i64>>(column).map(|length| length.map(seconds));
            Ok(Rule {
                name: row.get(0)?,
                keep: seconds(row.get(1)?),
                shortened: time(2)?.zip(duration(3)?),
                archive: row.get(4)?,
                archive_before: row.get::<_, Option<String>>(5)?.zip(time(6)?),
                keep_archives: duration(7)?,
                archives_since: time(8)?,
                seal_after: duration(9)?.unwrap_or_default(),
                is_removed: row.get(10)?,
                period: period_of(row.get::<_, Option<String>>(11)?.as_deref()),
                max_bytes: row.get::<_, Option<i64>>(12)?.map(i64::cast_unsigned).zip(time(13)?),
            })
        })
    }

    /// Records all rules of this daemon.
    pub(crate) fn set_rules(&mut self, rules: &[Rule]) -> Result<(), StoreError> {
        let length = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let result = (|| {
            let transaction = self.connection.transaction()?;
            transaction.execute("DELETE FROM rule", [])?;
            for rule in rules {
                let (since, before) = rule.shortened.map(|(since, before)| (since.get(), length(before))).unzip();
                let (place, until) = rule.archive_before.as_ref().map(|(place, until)| (place, until.get())).unzip();
                let (bytes_max, bytes_since) =
                    rule.max_bytes.map(|(bytes_max, since)| (bytes_max.cast_signed(), since.get())).unzip();
                transaction.execute(
                    "INSERT INTO rule(name, keep_seconds, shorter_since, keep_before, archive, archive_before,
                     archive_until, keep_archives, archives_since, seal_after, removed, period,
                     bytes_max, bytes_since)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
                    params![
                        rule.name,
                        length(rule.keep),
                        since,
                        before,
                        rule.archive,
                        place,
                        until,
                        rule.keep_archives.map(length),
                        rule.archives_since.map(Ticks::get),
                        length(rule.seal_after),
                        rule.is_removed,
                        name_of_period(rule.period),
                        bytes_max,
                        bytes_since
                    ],
                )?;
            }
            transaction.commit()
        })();
        self.sql(result)
    }

    /// The watched time.
    pub fn watch(&self) -> Result<WatchedTime, StoreError> {
        let found = self.connection.query_row("SELECT seconds, newest, newest_since FROM watch", [], |row| {
            let newest = row.get::<_, Option<i64>>(1)?.filter(|ticks| *ticks > 0).and_then(Ticks::new);
            Ok(WatchedTime { watched: seconds(row.get(0)?), newest, newest_since: seconds(row.get(2)?) })
        });
        self.sql(found)
    }

    /// Adds `more` to the watched time, and records which days and record times changed meanwhile.
    pub(crate) fn note_watch(&mut self, more: Duration) -> Result<(), StoreError> {
        let Ok(more) = i64::try_from(more.as_secs()) else { return Ok(()) };
        self.change(|transaction| {
            transaction.execute("UPDATE watch SET seconds = seconds + ?1", [more])?;
            transaction.execute_batch(
                "UPDATE watch SET newest_since = seconds, newest = (SELECT newest FROM state)
                 WHERE newest IS NOT (SELECT newest FROM state);
                 UPDATE day SET idle_since = (SELECT seconds FROM watch),
                                idle_commit = (SELECT max(last_seq) FROM file WHERE file.day = day.name)
                 WHERE state <> 'dropped'
                   AND idle_commit IS NOT (SELECT max(last_seq) FROM file WHERE file.day = day.name);",
            )
        })
    }

    /// The size limit of the folder, as the last daemon knew it, and since when it applies.
    pub fn pressure(&self) -> Result<Option<(u64, Ticks)>, StoreError> {
        let found = self.connection.query_row("SELECT bytes_max, since FROM pressure", [], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), Ticks::new(row.get(1)?).unwrap_or_default()))
        });
        self.sql(found.optional())
    }

    /// Records the size limit of the folder.
    pub(crate) fn set_pressure(&mut self, pressure: Option<(u64, Ticks)>) -> Result<(), StoreError> {
        self.change(|transaction| {
            transaction.execute("DELETE FROM pressure", [])?;
            if let Some((bytes_max, since)) = pressure {
                let values = params![bytes_max.cast_signed(), since.get()];
                transaction.execute("INSERT INTO pressure VALUES (1, ?1, ?2)", values)?;
            }
            Ok(())
        })
    }

    /// When the lifecycle last finished a run.
    pub fn last_run(&self) -> Result<Option<Ticks>, StoreError> {
        let found = self.connection.query_row("SELECT last_success FROM run", [], |row| row.get(0)).optional();
        Ok(self.sql(found)?.and_then(Ticks::new))
    }

    /// Records that the lifecycle finished a run.
    pub(crate) fn set_last_run(&self, at: Ticks) -> Result<(), StoreError> {
        self.sql(self.connection.execute("INSERT OR REPLACE INTO run VALUES (1, ?1)", [at.get()])).map(drop)
    }
}

fn name_of_period(period: Period) -> &'static str {
    match period {
        Period::Hour => "hour",
        Period::Day => "day",
        Period::Month => "month",
    }
}

fn period_of(name: Option<&str>) -> Period {
    let all = [Period::Hour, Period::Day, Period::Month];
    all.into_iter().find(|period| name == Some(name_of_period(*period))).unwrap_or_default()
}
