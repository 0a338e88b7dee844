//! Azurite's tables, and Microsoft's own client to read the written entities. `tests/setup` installs both.
//!
//! Azurite keeps its data in memory, and accepts a few hundred entities a second. The tests are small enough for that.

use crate::place::installed;
use crate::server::{Server, free_port};
use daytable_azure::{Client, ClientOptions, DateTime, Error, ErrorKind, StorageAccount};
use serde_json::Value;
use std::future::Future;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Azurite's public test account.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A table server, empty at its start. Dropping the value ends the server.
pub(crate) struct Azurite {
    /// The port on 127.0.0.1.
    pub(crate) port: u16,
    _server: Server,
}

impl Azurite {
    /// Starts a server.
    pub(crate) fn start() -> Azurite {
        let port = free_port();
        let mut azurite = Command::new("node");
        azurite.arg(installed("node/node_modules/azurite/dist/src/table/main.js"));
        azurite.args(["--tableHost", "127.0.0.1", "--tablePort", &port.to_string()]);
        azurite.args(["--silent", "--inMemoryPersistence", "--disableTelemetry"]);
        Azurite { port, _server: Server::start(azurite, port) }
    }

    /// The connection string of the server.
    pub(crate) fn connection_string(&self) -> String {
        connection_string(self.port)
    }

    /// A client of the server.
    pub(crate) fn client(&self) -> Client {
        client(&self.connection_string())
    }

    /// All entities of a table, as Microsoft's client reads them, in the same order. Each has `PartitionKey`, `RowKey`,
    /// and `properties`: by name the type and the value as a text.
    pub(crate) fn read_back(&self, table: &str) -> Vec<Value> {
        let script = r#"
import json, sys
from azure.data.tables import TableClient, EdmType
def typed(value):
    if isinstance(value, tuple):
        return ["Int64", str(value[0])] if value[1] == EdmType.INT64 else [str(value[1]), str(value[0])]
    if isinstance(value, bool): return ["Boolean", str(value).lower()]
    if isinstance(value, int): return ["Int32", str(value)]
    if isinstance(value, float): return ["Double", repr(value)]
    if isinstance(value, bytes): return ["Binary", value.hex()]
    if isinstance(value, str): return ["String", value]
    if hasattr(value, "isoformat"): return ["DateTime", getattr(value, "tables_service_value", None) or value.isoformat()]
    return [{"UUID": "Guid"}.get(type(value).__name__, type(value).__name__), str(value)]
client = TableClient.from_connection_string(sys.argv[1], sys.argv[2])
for entity in client.list_entities():
    keys = {name: entity.pop(name) for name in ("PartitionKey", "RowKey")}
    print(json.dumps({**keys, "properties": {name: typed(value) for name, value in entity.items()}}))
"#;
        let mut python = Command::new(installed("venv/bin/python"));
        python.args(["-c", script, &self.connection_string(), table]).stdin(Stdio::null());
        let output = python.output().expect("Python can be run: sh tests/setup installs it");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).expect("text");
        said.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
    }
}

/// The connection string of the emulator's account on a port: Azurite's, or that of a proxy before Azurite.
pub(crate) fn connection_string(port: u16) -> String {
    let endpoint = format!("http://127.0.0.1:{port}/{ACCOUNT}");
    format!("DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={endpoint};")
}

/// A client for a connection string.
pub(crate) fn client(connection_string: &str) -> Client {
    let account: StorageAccount = connection_string.parse().expect("a connection string");
    let options = ClientOptions { request: Duration::from_secs(20), ..ClientOptions::new(now) };
    Client::new(account, options).expect("a client")
}

/// The time for dating requests.
pub(crate) fn now() -> DateTime {
    DateTime::from_ticks(daytable_model::time::now().get())
}

/// Runs a client's future to its end.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(future)
}

/// The kind of an expected error.
pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.expect_err("it fails").kind()
}
