//! What differs between two configurations, by the names that the file has for it: what a reload says that it did.
//!
//! No value is told: one may stand for a secret. Every field is named below, so that a new one cannot be forgotten.

use super::{
    Config, HttpConfig, JournalOptions, LifecycleConfig, LogConfig, StoreKind, SyslogOptions, TableConfig, TailConfig,
};
use daytable_archive::Access;
use daytable_intake::push;
use daytable_lifecycle::LifecycleLimits;
use daytable_model::window::Window;
use daytable_parse::Reading;

/// What differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// What a running daemon takes over: `http.listen`, `tail "nginx": include`, `table "Debug" (new)`.
    pub live: Vec<String>,
    /// What only the next start takes over.
    pub at_restart: Vec<String>,
}

/// The names of the fields that differ.
macro_rules! differing {
    ($type:ident { $($field:ident),* $(,)? }, $before:expr, $now:expr) => {{
        let $type { $($field),* } = $now;
        let mut keys: Vec<&'static str> = Vec::new();
        $( if *$field != $before.$field { keys.push(stringify!($field)); } )*
        keys
    }};
}

impl Changes {
    /// From `before` to `now`.
    pub fn between(before: &Config, now: &Config) -> Changes {
        let mut changes = Changes::default();
        let keys = differing!(
            Config {
                data_dir,
                drain_timeout,
                memory_max,
                redact,
                http,
                tails,
                syslogs,
                journals,
                tables,
                archives,
                lifecycle,
                store,
                log
            },
            before,
            now
        );
        for key in keys {
            // The outbox and those who share the store go by them as they were at the start.
            let is_shared = matches!(key, "tables" | "lifecycle") && before.store.kind == StoreKind::Azure;
            let live = changes.live.len();
            match key {
                "data_dir" | "memory_max" => changes.at_restart.push(key.into()),
                "store" => changes.at_restart.push("[store]".into()),
                "http" => changes.section(key, http(&before.http, &now.http)),
                "archives" => changes.section(key, archives(&before.archives, &now.archives)),
                "lifecycle" => changes.section(key, lifecycle(&before.lifecycle, &now.lifecycle)),
                "log" => changes.section(key, differing!(LogConfig { level, format }, before.log, &now.log)),
                "tails" => changes.blocks("tail", &before.tails, &now.tails, |tail| &tail.name, tail),
                "syslogs" => changes.blocks("syslog", &before.syslogs, &now.syslogs, |syslog| &syslog.name, syslog),
                "journals" => {
                    changes.blocks("journal", &before.journals, &now.journals, |journal| &journal.name, journal)
                }
                "tables" => changes.tables(&before.tables, &now.tables),
                _ => changes.live.push(key.into()),
            }
            if is_shared {
                let held_back = changes.live.split_off(live);
                changes.at_restart.extend(held_back);
            }
        }
        changes
    }

    fn section(&mut self, name: &str, keys: Vec<&'static str>) {
        self.live.extend(keys.into_iter().map(|key| format!("{name}.{key}")));
    }

    fn blocks<B: PartialEq>(
        &mut self,
        kind: &str,
        before: &[B],
        now: &[B],
        name: fn(&B) -> &str,
        keys: fn(&B, &B) -> Vec<&'static str>,
    ) {
        let of = |blocks: &'_ [B], wanted: &str| blocks.iter().position(|block| name(block) == wanted);
        for block in now {
            match of(before, name(block)) {
                None => self.live.push(format!("{kind} {:?} (new)", name(block))),
                Some(at) if before[at] != *block => {
                    self.live.push(format!("{kind} {:?}: {}", name(block), keys(&before[at], block).join(", ")));
                }
                Some(_) => {}
            }
        }
        let gone = before.iter().filter(|block| of(now, name(block)).is_none());
        self.live.extend(gone.map(|block| format!("{kind} {:?} (gone)", name(block))));
    }

    fn tables(&mut self, before: &[TableConfig], now: &[TableConfig]) {
        self.blocks("table", before, now, |table| table.name.as_str(), table);
        let names = |tables: &[TableConfig]| tables.iter().map(|table| table.name.clone()).collect::<Vec<_>>();
        let (mut was, mut is) = (names(before), names(now));
        was.retain(|name| is.contains(name));
        is.retain(|name| was.contains(name));
        // The first one whose condition holds takes a record.
        if was != is {
            self.live.push("the order of the tables".into());
        }
    }
}

fn http(before: &HttpConfig, now: &HttpConfig) -> Vec<&'static str> {
    let keys = differing!(
        HttpConfig { listen, tls, token_file, push, credentials_file, per_sender, limits, connections_max },
        before,
        now
    );
    in_place_of("limits", keys, || push_limits(&before.limits, &now.limits))
}

fn push_limits(before: &push::Limits, now: &push::Limits) -> Vec<&'static str> {
    use push::Limits as PushLimits;
    differing!(
        PushLimits {
            body_bytes_max,
            decoded_bytes_max,
            bodies_bytes_max,
            records_max,
            body_timeout,
            turn_wait,
            uploads_max,
        },
        before,
        now
    )
}

fn archives(before: &Access, now: &Access) -> Vec<&'static str> {
    differing!(
        Access {
            s3_endpoint,
            s3_region,
            s3_credentials_file,
            azure_connection_string_file,
            gcs_credentials_file,
            allow_http,
        },
        before,
        now
    )
}

fn lifecycle(before: &LifecycleConfig, now: &LifecycleConfig) -> Vec<&'static str> {
    let keys =
        differing!(LifecycleConfig { schedule, verify, verify_bytes_per_s, verify_sequence, limits }, before, now);
    in_place_of("limits", keys, || {
        differing!(
            LifecycleLimits { grace, drops_per_run_max, min_tables, seal_after, max_bytes, drop_unarchived },
            before.limits,
            &now.limits
        )
    })
}

fn tail(before: &TailConfig, now: &TailConfig) -> Vec<&'static str> {
    let keys = differing!(
        TailConfig {
            name,
            include,
            exclude,
            instance,
            fields_from_path,
            reading,
            read_from,
            ignore_older,
            line_bytes_max,
            open_files_max,
            poll,
            watch,
        },
        before,
        now
    );
    in_place_of("reading", keys, || reading(&before.reading, &now.reading))
}

fn syslog(before: &SyslogOptions, now: &SyslogOptions) -> Vec<&'static str> {
    let keys = differing!(
        SyslogOptions {
            name,
            listen,
            instance,
            reading,
            message_bytes_max,
            connections_max,
            idle_timeout,
            receive_buffer,
            mode,
            tls,
            per_sender,
        },
        before,
        now
    );
    in_place_of("reading", keys, || reading(&before.reading, &now.reading))
}

fn journal(before: &JournalOptions, now: &JournalOptions) -> Vec<&'static str> {
    let keys = differing!(
        JournalOptions { name, directory, units, level_at_least, read_from, instance, reading, entry_bytes_max },
        before,
        now
    );
    in_place_of("reading", keys, || reading(&before.reading, &now.reading))
}

fn table(before: &TableConfig, now: &TableConfig) -> Vec<&'static str> {
    let keys = differing!(TableConfig { name, window, archive, keep_archives, buckets, when }, before, now);
    in_place_of("window", keys, || differing!(Window { keep, period }, before.window, &now.window))
}

fn reading(before: &Reading, now: &Reading) -> Vec<&'static str> {
    let keys = differing!(Reading { format, explicit, zone, join, redactor }, before, now);
    let written = |key| match key {
        "explicit" => "format",
        "redactor" => "redact",
        key => key,
    };
    let mut keys: Vec<&'static str> = keys.into_iter().map(written).collect();
    keys.dedup();
    keys
}

/// What one key stands for in place of it.
fn in_place_of(key: &str, keys: Vec<&'static str>, those: impl FnOnce() -> Vec<&'static str>) -> Vec<&'static str> {
    let mut inner = Some(those);
    let name = |name: &'static str| match inner.take_if(|_| name == key) {
        Some(those) => those(),
        None => vec![name],
    };
    keys.into_iter().flat_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Config {
        Config::parse(text, "f").unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_change_is_told_by_its_name_in_the_file() {
        let before = parse("[[tail]]\nname = \"a\"\ninclude = [\"/a\"]\n[[tail]]\nname = \"b\"\ninclude = [\"/b\"]\n");
        let now = parse(
            "data_dir = \"/srv\"\ndrain_timeout = \"5s\"\nredact = [\"email\"]\nhttp = { listen = \"off\", records_max = 5 }\n\
             [[tail]]\nname = \"a\"\ninclude = [\"/c\"]\nformat = { regex = \"(?P<message>.*)\" }\n\
             [[tail]]\nname = \"c\"\ninclude = [\"/b\"]\n[[table]]\nname = \"Debug\"\nwhen.level_at_most = \"debug\"\n\
             [[table]]\nname = \"Log\"\nkeep = \"2d\"\n[lifecycle]\nmin_tables = 7\n[log]\nlevel = \"debug\"\n\
             [store]\ncommit_interval = \"1s\"\n",
        );
        let changes = Changes::between(&before, &now);
        assert_eq!(changes.at_restart, ["data_dir", "[store]"]);
        assert_eq!(
            changes.live,
            [
                "drain_timeout",
                "redact",
                "http.listen",
                "http.records_max",
                "tail \"a\": include, format, redact",
                "tail \"c\" (new)",
                "tail \"b\" (gone)",
                "table \"Debug\" (new)",
                "table \"Log\": keep",
                "lifecycle.min_tables",
                "log.level",
            ]
        );
        assert_eq!(Changes::between(&now, &now), Changes::default());
    }

    #[test]
    fn the_order_of_tables_counts() {
        let tables = |names: [&str; 2]| {
            let blocks = names.map(|name| format!("[[table]]\nname = \"{name}\"\nwhen.level_at_most = \"info\"\n"));
            parse(&format!("{}[[table]]\nname = \"Rest\"\n", blocks.concat()))
        };
        let changes = Changes::between(&tables(["One", "Two"]), &tables(["Two", "One"]));
        assert_eq!(changes.live, ["the order of the tables"]);
    }
}
