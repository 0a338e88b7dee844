//! The life of a remote store's tables: archived, verified, dropped and restored by their owner, despite kills.

use super::reading::{all, configured};
use super::stores::azure;
use crate::azure::emulator::Azurite;
use crate::azure::proxy::{Fault, Proxy};
use crate::place::{Daemon, PATIENCE, Place, wait_for};
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, Period, RowKey, TableName};
use daytable_model::record::{Level, Record};
use daytable_model::time::now;
use daytable_query::tables::TableStore;
use daytable_remote::shared::{Host, Notes};
use daytable_remote::tables::AzureTables;
use serde_json::Value;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// The table of `days` days ago.
fn table(days: u32) -> DayTable {
    DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, now().minus(DAY * days))
}

/// Writes `records` records of a day, one of them large.
fn fill(store: &AzureTables, table: &DayTable, records: u64) {
    fill_with(store, table, 0..records);
}

/// Writes the records with these numbers.
fn fill_with(store: &AzureTables, table: &DayTable, records: std::ops::Range<u64>) {
    store.create_table(table).expect("created");
    for n in records {
        let mut batch = Batch::new(table.clone(), format!("web-{}", n % 3).into());
        let message = if n == 7 { "x".repeat(100_000) } else { format!("record {n}") };
        let record = Record { level: Some(Level::Info), message: message.into(), ..Record::default() };
        let key = RowKey::new(table.start().plus(Duration::from_secs(n)), 9, n);
        daytable_model::entity::append(&mut batch, key, "/var/log/app.log", &record);
        store.write(batch).expect("written");
    }
}

/// A place, its store, and the proxy between them.
struct Stage {
    azurite: Azurite,
    proxy: Proxy,
    place: Place,
    config: String,
}

impl Stage {
    fn new(more: &str) -> Stage {
        let (azurite, place) = (Azurite::start(), Place::new());
        let proxy = Proxy::start(azurite.port);
        let tables = format!(
            "{more}\n[[table]]\nname = \"Log\"\nkeep = \"3d\"\narchive = \"file://{}\"\n\
             [lifecycle]\nschedule = \"* * * * * *\"\nmin_tables = 0\n",
            place.path("archive").display()
        );
        let config = configured(&place, &proxy, &tables);
        Stage { azurite, proxy, place, config }
    }

    fn store(&self) -> AzureTables {
        azure(&self.azurite.connection_string())
    }

    /// Starts a daemon. A line with the present time confirms the clock.
    fn start(&self) -> Daemon {
        self.place.write("now.log", &[format!("{} started", now())]);
        self.place.start_with(&self.config)
    }

    fn stands(&self, table: &DayTable) -> bool {
        self.store().tables().expect("listed").contains(table)
    }

    fn of(&self, table: &DayTable) -> Vec<Value> {
        let name = table.to_string();
        all(&self.place, &[]).into_iter().filter(|record| record["table"] == name.as_str()).collect()
    }

    fn plan(&self) -> Vec<Value> {
        self.place.json("plan", &[])
    }
}

#[test]
fn a_day_that_has_expired_is_archived_verified_and_dropped_and_comes_back() {
    let stage = Stage::new("");
    let (old, young) = (table(6), table(2));
    let store = stage.store();
    fill(&store, &old, 40);
    fill(&store, &young, 5);
    // Foreign table names are not touched.
    let foreign = DayTable::parse("Other20200101").expect("a table");
    store.create_table(&foreign).expect("created");
    let daemon = stage.start();
    wait_for("the old day is dropped", PATIENCE, || (!stage.stands(&old)).then_some(()));
    assert!(stage.stands(&young) && stage.stands(&foreign));
    // The records come from the archive, the large one whole.
    let records = stage.of(&old);
    assert_eq!(records.len(), 40);
    assert!(records.iter().any(|record| record["message"].as_str().is_some_and(|text| text.len() == 100_000)));
    assert!(stage.plan().iter().any(|told| told["table"] == "Other20200101" && told["step"] == "stay"));

    // A second restore leaves the table unchanged.
    for stands in ["restored", "exists already"] {
        let said = stage.place.said("restore", &["--keep", "1h", &old.to_string()]);
        assert!(said.starts_with(stands), "{said}");
        assert!(stage.stands(&old));
        assert_eq!(stage.of(&old), records);
    }
    // The large record has three items.
    assert_eq!(stage.azurite.read_back(&old.to_string()).len(), 43);
    // An explicit drop succeeds, because there is a proof.
    stage.place.said("drop", &["-y", &old.to_string()]);
    assert!(!stage.stands(&old));
    assert_eq!(stage.of(&old), records);
    // A table that still receives records is not dropped, under any name.
    let output = stage.place.ask("drop", &["-y", "--without-archive", &young.to_string()]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("its time is not over"), "{output:?}");
    daemon.stop();
}

#[test]
fn a_day_stays_that_another_outbox_may_hold_something_for() {
    let stage = Stage::new("");
    let (older, old) = (table(8), table(6));
    let store = stage.store();
    fill(&store, &older, 3);
    fill(&store, &old, 3);
    let notes = Notes(&store);
    let holds = [(old.table().clone(), old.start())].into();
    let other = Host { id: "web-2".into(), seen: now(), holds };
    notes.put_host(&other).expect("noted");
    let daemon = stage.start();
    wait_for("the older day is dropped", PATIENCE, || (!stage.stands(&older)).then_some(()));
    let stays = |reason: &str| {
        wait_for(reason, PATIENCE, || {
            let why = stage.plan().iter().find(|told| told["table"] == old.to_string().as_str())?["why"].clone();
            why.as_str().is_some_and(|why| why.contains(reason)).then_some(())
        });
        assert!(stage.stands(&old));
    };
    stays("the outbox of web-2 holds rows");
    // The other host sent its rows, but newer rows are possible.
    notes.put_host(&Host { seen: old.end(), holds: Default::default(), ..other.clone() }).expect("noted");
    stays("web-2 was last heard of");
    notes.put_host(&Host { seen: now(), holds: Default::default(), ..other }).expect("noted");
    wait_for("the old day is dropped", PATIENCE, || (!stage.stands(&old)).then_some(()));
    assert_eq!(stage.of(&old).len(), 3);
    daemon.stop();
}

#[test]
fn what_came_behind_the_archive_is_archived_before_the_drop() {
    let stage = Stage::new("");
    let old = table(6);
    let store = stage.store();
    fill(&store, &old, 10);
    // The table stays while the service refuses the drop.
    stage.proxy.plan(|_, asked| (asked.method == "DELETE").then_some(Fault::Busy));
    let daemon = stage.start();
    daemon.wait_said("archived, and read back");
    fill(&store, &old, 12);
    stage.proxy.heal();
    wait_for("the old day is dropped", Duration::from_secs(400), || (!stage.stands(&old)).then_some(()));
    assert_eq!(stage.of(&old).len(), 12);
    daemon.stop();
}

#[test]
fn a_day_that_comes_back_is_archived_with_what_its_archive_had() {
    let stage = Stage::new("");
    let old = table(6);
    let store = stage.store();
    fill(&store, &old, 20);
    let daemon = stage.start();
    wait_for("the old day is dropped", PATIENCE, || (!stage.stands(&old)).then_some(()));
    assert_eq!(stage.of(&old).len(), 20);
    // A table with as many rows as its archive, but only five of the same: from a host that was offline for long.
    for (came, all) in [(15..35, 35), (30..33, 35), (34..36, 36)] {
        fill_with(&store, &old, came);
        wait_for("it is dropped again", PATIENCE, || (!stage.stands(&old)).then_some(()));
        assert_eq!(stage.of(&old).len(), all);
    }
    assert!(stage.of(&old).iter().any(|record| record["message"].as_str().is_some_and(|text| text.len() == 100_000)));
    // For an owner without a catalog, archived rows count as well.
    daemon.stop();
    std::fs::remove_dir_all(stage.place.data()).expect("removed");
    fill_with(&store, &old, 36..38);
    let daemon = stage.start();
    wait_for("it is dropped again", PATIENCE, || (!stage.stands(&old)).then_some(()));
    assert_eq!(stage.of(&old).len(), 38);
    daemon.stop();
}

#[test]
fn whoever_is_not_the_owner_drops_nothing() {
    let stage = Stage::new("owner = false");
    let old = table(6);
    fill(&stage.store(), &old, 3);
    let daemon = stage.start();
    let name = old.to_string();
    for (command, args) in [("drop", &["-y", &*name][..]), ("archive", &[&*name]), ("restore", &[&*name])] {
        let output = stage.place.ask(command, args);
        assert!(String::from_utf8_lossy(&output.stderr).contains("owner"), "{command}: {output:?}");
    }
    // The host still publishes its own state.
    let store = stage.store();
    wait_for("it is known", PATIENCE, || (Notes(&store).hosts().expect("read").len() == 1).then_some(()));
    assert!(stage.stands(&old));
    daemon.stop();
}

/// Kills at failpoints. Needs a build with failpoints.
#[cfg(feature = "failpoints")]
mod failpoints {
    use super::*;
    use crate::place::DAYTABLE;
    use std::process::Command;

    impl Stage {
        fn spawn(&self, failpoint: &str) -> Daemon {
            let config = self.place.configure(&self.config);
            let mut command = Command::new(DAYTABLE);
            command.arg("run").arg("--config").arg(config).env("DAYTABLE_FAILPOINT", failpoint);
            self.place.spawn_command(command)
        }
    }

    #[test]
    fn a_kill_in_its_midst_loses_nothing_and_repeats_nothing() {
        let stage = Stage::new("");
        let old = table(6);
        fill(&stage.store(), &old, 30);
        stage.place.write("now.log", &[format!("{} started", now())]);
        let places = [
            "shared-archive-staged",
            "archive-uploaded",
            "archive-manifest",
            "shared-archive-noted",
            "shared-drop-before",
        ];
        for failpoint in places {
            let mut daemon = stage.spawn(failpoint);
            assert!(!daemon.ended().success(), "{failpoint}");
            assert!(stage.stands(&old), "{failpoint}");
            assert_eq!(stage.of(&old).len(), 30, "{failpoint}");
        }
        let mut daemon = stage.spawn("shared-drop-after");
        assert!(!daemon.ended().success());
        assert!(!stage.stands(&old));
        assert_eq!(stage.of(&old).len(), 30);
        for failpoint in ["shared-restore-noted", "shared-restore-written"] {
            let mut daemon = stage.spawn(failpoint);
            daemon.wait_ready();
            stage.place.ask("restore", &["--keep", "1h", &old.to_string()]);
            assert!(!daemon.ended().success(), "{failpoint}");
            assert_eq!(stage.of(&old).len(), 30, "{failpoint}");
        }
        let daemon = stage.start();
        stage.place.said("restore", &["--keep", "1h", &old.to_string()]);
        assert_eq!(stage.azurite.read_back(&old.to_string()).len(), 33);
        assert_eq!(stage.of(&old).len(), 30);
        daemon.stop();
    }
}
