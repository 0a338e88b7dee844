//! Table stores for tests. Each is empty at its start and removed after the test.

use crate::azure::emulator::{Azurite, client};
use daytable_query::tables::{Embedded, TableStore};
use daytable_remote::tables::AzureTables;
use daytable_store::{Store, StoreOptions};
use std::time::Duration;

/// A store, and its resources.
pub(crate) struct Tested {
    /// The name in failures.
    pub(crate) name: &'static str,
    /// The store.
    pub(crate) store: Box<dyn TableStore>,
    _stands: Stands,
}

enum Stands {
    Folder { _store: Store, _dir: tempfile::TempDir },
    Server { _azurite: Azurite },
}

/// A data folder.
pub(crate) fn embedded() -> Tested {
    let dir = tempfile::tempdir().expect("a folder");
    let options = StoreOptions { commit_interval: Duration::from_millis(1), ..StoreOptions::default() };
    let open = Store::open(dir.path(), options).expect("opened");
    let store = Box::new(Embedded::of(&open, dir.path()).expect("opened"));
    Tested { name: "embedded", store, _stands: Stands::Folder { _store: open, _dir: dir } }
}

/// A client for a server that listens like Azurite.
pub(crate) fn azure(connection_string: &str) -> AzureTables {
    AzureTables::over(client(connection_string), Duration::from_secs(20)).expect("a runtime")
}

/// Azurite.
pub(crate) fn azurite() -> Tested {
    let azurite = Azurite::start();
    let store = Box::new(azure(&azurite.connection_string()));
    Tested { name: "azurite", store, _stands: Stands::Server { _azurite: azurite } }
}

/// Every store.
pub(crate) fn all() -> [Tested; 2] {
    [embedded(), azurite()]
}
