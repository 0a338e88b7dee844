//! The difference between two configurations, by the names of the keys: what a reload reports.
//!
//! The report has no values, because a value may be a secret.

use super::key::{ConfigKey, Reload, differing};
use super::{Config, StoreKind, TableConfig};
use super::{archives, file, http, journal, lifecycle, log, syslog, table, tail};

/// The keys that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Changes that a running daemon applies: `http.listen`, `tail "nginx": include`, `table "Debug" (new)`.
    pub live: Vec<String>,
    /// Changes for the next start.
    pub at_restart: Vec<String>,
}

impl Changes {
    /// The changes from `before` to `now`.
    pub fn between(before: &Config, now: &Config) -> Changes {
        let mut changes = Changes::default();
        for (key, reload) in differing(&file::keys(), before, now) {
            let changes = if reload == Reload::Restart { &mut changes.at_restart } else { &mut changes.live };
            changes.push(key.into());
        }
        changes.section("http", &http::keys(), &before.http, &now.http);
        changes.blocks("tail", &tail::keys(), &before.tails, &now.tails, |tail| &tail.name);
        changes.blocks("syslog", &syslog::keys(), &before.syslogs, &now.syslogs, |syslog| &syslog.name);
        changes.blocks("journal", &journal::keys(), &before.journals, &now.journals, |journal| &journal.name);
        let mut of_days = Changes::default();
        of_days.blocks("table", &table::keys(), &before.tables, &now.tables, |table| table.name.as_str());
        of_days.order(&before.tables, &now.tables);
        let mut of_lifecycle = Changes::default();
        of_lifecycle.section("lifecycle", &lifecycle::keys(), &before.lifecycle, &now.lifecycle);
        // The outbox, and other daytables that share the store, keep the tables and rules of the start.
        let is_shared = before.store.kind == StoreKind::Azure;
        changes.extend(of_days, is_shared);
        changes.section("archives", &archives::keys(), &before.archives, &now.archives);
        changes.extend(of_lifecycle, is_shared);
        if before.store != now.store {
            changes.at_restart.push("[store]".into());
        }
        changes.section("log", &log::keys(), &before.log, &now.log);
        changes
    }

    fn extend(&mut self, changes: Changes, is_shared: bool) {
        if is_shared { &mut self.at_restart } else { &mut self.live }.extend(changes.live);
    }

    fn section<T: Clone>(&mut self, name: &str, keys: &[ConfigKey<T>], before: &T, now: &T) {
        self.live.extend(differing(keys, before, now).into_iter().map(|(key, _)| format!("{name}.{key}")));
    }

    fn blocks<T: Clone + PartialEq>(
        &mut self,
        kind: &str,
        keys: &[ConfigKey<T>],
        before: &[T],
        now: &[T],
        name: fn(&T) -> &str,
    ) {
        let find = |blocks: &[T], wanted: &str| blocks.iter().position(|block| name(block) == wanted);
        for block in now {
            match find(before, name(block)) {
                None => self.live.push(format!("{kind} {:?} (new)", name(block))),
                Some(at) if before[at] != *block => {
                    let keys: Vec<_> = differing(keys, &before[at], block).into_iter().map(|(key, _)| key).collect();
                    self.live.push(format!("{kind} {:?}: {}", name(block), keys.join(", ")));
                }
                Some(_) => {}
            }
        }
        let gone = before.iter().filter(|block| find(now, name(block)).is_none());
        self.live.extend(gone.map(|block| format!("{kind} {:?} (gone)", name(block))));
    }

    /// A record goes to the first table whose condition it meets, so the order of the tables matters.
    fn order(&mut self, before: &[TableConfig], now: &[TableConfig]) {
        let names = |tables: &[TableConfig], others: &[TableConfig]| -> Vec<_> {
            let is_kept = |table: &&TableConfig| others.iter().any(|other| other.name == table.name);
            tables.iter().filter(is_kept).map(|table| table.name.clone()).collect()
        };
        if names(before, now) != names(now, before) {
            self.live.push("the order of the tables".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Config {
        Config::parse(text, "f").unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_change_has_its_name_in_the_file() {
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
