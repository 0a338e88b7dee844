//! The difference between two configurations, by the names of the keys: what a reload reports.
//!
//! The report has no values, because a value may be a secret.

use super::key::{self, ConfigKey};

/// The keys that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Changes that a running daemon applies: `http.listen`, `tail "nginx": include`, `table "Debug" (new)`.
    pub live: Vec<String>,
    /// Changes for the next start.
    pub at_restart: Vec<String>,
}

impl Changes {
    pub(super) fn add(&mut self, change: String, needs_restart: bool) {
        if needs_restart { &mut self.at_restart } else { &mut self.live }.push(change);
    }

    /// Adds the changes of the blocks of one kind.
    pub(super) fn add_blocks<T: Clone + PartialEq>(
        &mut self,
        kind: &str,
        keys: &[ConfigKey<T>],
        before: &[T],
        now: &mut [T],
        name: fn(&T) -> &str,
    ) {
        let find = |blocks: &[T], wanted: &str| blocks.iter().position(|block| name(block) == wanted);
        for block in &mut *now {
            let title = format!("{kind} {:?}", name(block));
            match find(before, name(block)) {
                None => self.live.push(format!("{title} (new)")),
                Some(at) if before[at] != *block => {
                    let differing = key::compare(keys, &before[at], block);
                    let (restart, live): (Vec<_>, Vec<_>) = differing.into_iter().partition(|(_, restart)| *restart);
                    for (keys, needs_restart) in [(live, false), (restart, true)] {
                        let keys: Vec<_> = keys.into_iter().map(|(key, _)| key).collect();
                        if !keys.is_empty() {
                            self.add(format!("{title}: {}", keys.join(", ")), needs_restart);
                        }
                    }
                }
                Some(_) => {}
            }
        }
        let gone = before.iter().filter(|block| find(now, name(block)).is_none());
        self.live.extend(gone.map(|block| format!("{kind} {:?} (gone)", name(block))));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn parse(text: &str) -> Config {
        Config::parse(text, "f").unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_change_has_its_name_in_the_file() {
        let before = parse("[[tail]]\nname = \"a\"\ninclude = [\"/a\"]\n[[tail]]\nname = \"b\"\ninclude = [\"/b\"]\n");
        let mut now = parse(
            "data_dir = \"/srv\"\ndrain_timeout = \"5s\"\nredact = [\"email\"]\nhttp = { listen = \"off\", records_max = 5 }\n\
             [[tail]]\nname = \"a\"\ninclude = [\"/c\"]\nformat = { regex = \"(?P<message>.*)\" }\n\
             [[tail]]\nname = \"c\"\ninclude = [\"/b\"]\n[[table]]\nname = \"Debug\"\nwhen = \"level:<=debug\"\n\
             [[table]]\nname = \"Log\"\nkeep = \"2d\"\n[lifecycle]\nmin_tables = 7\n[log]\nlevel = \"debug\"\n\
             [store]\ncommit_interval = \"1s\"\n",
        );
        let wanted = now.clone();
        let changes = Changes::between(&before, &mut now);
        assert_eq!(changes.at_restart, ["data_dir", "store.commit_interval"]);
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
        assert_eq!((&now.data_dir, &now.store), (&before.data_dir, &before.store));
        assert_eq!((&now.sources, &now.log), (&wanted.sources, &wanted.log));
        assert_eq!(Changes::between(&now.clone(), &mut now), Changes::default());
    }

    #[test]
    fn a_comparison_changes_no_option_that_a_reload_applies() {
        let block = |size: &str| {
            parse(&format!("[[syslog]]\nlisten = \"tcp://127.0.0.1:0\"\nmessage_bytes_max = \"{size}\"\n"))
        };
        let mut now = block("2MiB");
        let changes = Changes::between(&block("1MiB"), &mut now);
        assert_eq!((changes.live, now), (vec!["syslog \"syslog\": message_bytes_max".to_owned()], block("2MiB")));
    }

    #[test]
    fn the_order_of_tables_counts() {
        let tables = |names: [&str; 2]| {
            let blocks = names.map(|name| format!("[[table]]\nname = \"{name}\"\nwhen = \"level:<=info\"\n"));
            parse(&format!("{}[[table]]\nname = \"Rest\"\n", blocks.concat()))
        };
        let changes = Changes::between(&tables(["One", "Two"]), &mut tables(["Two", "One"]));
        assert_eq!(changes.live, ["the order of the tables"]);
    }
}
