//! Stores for archives: a folder, S3 played by moto and by SeaweedFS, Azure Blob Storage played by Azurite.
//!
//! A test starts its servers once, on their own ports, and ends them. `tests/setup` installs them.

use crate::place::{PATIENCE, installed, wait_for};
use crate::server::{Server, free_port};
use daytable_archive::{Access, Archive, ArchiveUrl, RetryPolicy};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use std::fs;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Azurite's public test account.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Retries for tests: long enough for a busy machine, short enough for a missing store.
pub(super) const QUICK: RetryPolicy = RetryPolicy {
    connect: Duration::from_secs(5),
    request: Duration::from_secs(30),
    retries: 0,
    retry_for: Duration::from_secs(5),
};

/// A store, the address of an archive in it, and direct access past the archive.
pub(crate) struct Store {
    /// The archive's address.
    pub(crate) url: ArchiveUrl,
    /// The credentials and options of the access.
    pub(crate) access: Access,
    back: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    runtime: tokio::runtime::Runtime,
    _server: Option<Server>,
    _folder: tempfile::TempDir,
}

impl Store {
    /// Every kind of store.
    pub(crate) fn all() -> Vec<Store> {
        vec![Store::folder(), Store::s3(), Store::seaweed(), Store::azure()]
    }

    /// A folder.
    pub(crate) fn folder() -> Store {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("archive");
        fs::create_dir(&root).expect("made");
        let back = Arc::new(LocalFileSystem::new_with_prefix(&root).expect("a folder"));
        let url = format!("file://{}", root.display());
        Store::new(&url, Access::default(), back, "", None, folder)
    }

    /// S3, played by moto.
    pub(crate) fn s3() -> Store {
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let mut moto = Command::new(installed("venv/bin/moto_server"));
        moto.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        Store::s3_at(Server::start(moto, port), port, folder)
    }

    /// S3, played by SeaweedFS, which stores what it has and refuses a second creation.
    pub(crate) fn seaweed() -> Store {
        let folder = tempfile::tempdir().expect("a folder");
        let mut weed = Command::new(installed("venv/bin/weed"));
        weed.args([
            "server",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-filer=true",
            "-s3=true",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
        ]);
        weed.args(["-volume.max=20", "-master.volumeSizeLimitMB=64", "-master.telemetry=false"]);
        weed.arg(format!("-dir={}", folder.path().display()));
        for service in ["master.port", "volume.port", "filer.port", "s3.port"] {
            weed.arg(format!("-{service}.grpc={}", free_port()));
        }
        for service in ["master.port", "volume.port", "filer.port"] {
            weed.arg(format!("-{service}={}", free_port()));
        }
        let port = free_port();
        weed.arg(format!("-s3.port={port}"));
        Store::s3_at(Server::start(weed, port), port, folder)
    }

    fn s3_at(server: Server, port: u16, folder: tempfile::TempDir) -> Store {
        let endpoint = format!("http://127.0.0.1:{port}");
        let credentials = folder.path().join("s3");
        fs::write(&credentials, "[default]\naws_access_key_id = test\naws_secret_access_key = secret\n")
            .expect("written");
        let access = Access {
            s3_endpoint: Some(endpoint.clone()),
            s3_region: Some("us-east-1".into()),
            s3_credentials_file: Some(credentials),
            allow_http: true,
            ..Access::default()
        };
        // Opening an archive selects the cryptography provider of this process.
        let url: ArchiveUrl = "s3://days/host-1".parse().expect("an address");
        Archive::open(&url, &access, &QUICK).expect("opened");
        let back = AmazonS3Builder::new()
            .with_bucket_name("days")
            .with_region("us-east-1")
            .with_endpoint(&endpoint)
            .with_access_key_id("test")
            .with_secret_access_key("secret")
            .with_allow_http(true)
            .build()
            .expect("a store");
        make_bucket(port, "days");
        Store::new("s3://days/host-1", access, Arc::new(back), "host-1", Some(server), folder)
    }

    /// Azure Blob Storage, played by Azurite.
    pub(crate) fn azure() -> Store {
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let mut azurite = Command::new("node");
        azurite.arg(installed("node/node_modules/azurite/dist/src/blob/main.js"));
        azurite.args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string(), "--silent", "--skipApiVersionCheck"]);
        azurite.arg("--location").arg(folder.path().join("azurite"));
        azurite.current_dir(folder.path());
        let server = Server::start(azurite, port);
        let endpoint = format!("http://127.0.0.1:{port}/{ACCOUNT}");
        let connection = folder.path().join("azure");
        let text = format!("AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint}");
        fs::write(&connection, text).expect("written");
        let access = Access { azure_connection_string_file: Some(connection), allow_http: true, ..Access::default() };
        let url: ArchiveUrl = "az://days/host-1".parse().expect("an address");
        Archive::open(&url, &access, &QUICK).expect("opened");
        let back = MicrosoftAzureBuilder::new()
            .with_container_name("days")
            .with_account(ACCOUNT)
            .with_access_key(KEY)
            .with_endpoint(endpoint.clone())
            .with_allow_http(true)
            .build()
            .expect("a store");
        make_container(&endpoint, "days");
        Store::new("az://days/host-1", access, Arc::new(back), "host-1", Some(server), folder)
    }

    fn new(
        url: &str,
        access: Access,
        back: Arc<dyn ObjectStore>,
        prefix: &str,
        server: Option<Server>,
        folder: tempfile::TempDir,
    ) -> Store {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (url, prefix) = (url.parse().expect("an address"), ObjectPath::from(prefix));
        Store { url, access, back, prefix, runtime, _server: server, _folder: folder }
    }

    /// The archive in the store.
    pub(crate) fn archive(&self) -> Archive {
        Archive::open_to_write(&self.url, &self.access, &QUICK).expect("opened")
    }

    /// The keys of `[archives]` that reach it.
    pub(crate) fn access_keys(&self) -> String {
        let Access { s3_endpoint, s3_credentials_file, azure_connection_string_file, .. } = &self.access;
        if let Some(connection) = azure_connection_string_file {
            return format!("allow_http = true\nazure_connection_string_file = \"{}\"\n", connection.display());
        }
        format!(
            "allow_http = true\ns3_endpoint = \"{}\"\ns3_region = \"us-east-1\"\ns3_credentials_file = \"{}\"\n",
            s3_endpoint.as_deref().expect("an endpoint"),
            s3_credentials_file.as_deref().expect("a file").display()
        )
    }

    fn path(&self, object: &str) -> ObjectPath {
        object.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Writes an object directly.
    pub(crate) fn put(&self, object: &str, bytes: &[u8]) {
        let path = self.path(object);
        self.runtime.block_on(self.back.put(&path, bytes.to_vec().into())).expect("written");
    }

    /// Reads an object directly. `None` if the object does not exist.
    pub(crate) fn get(&self, object: &str) -> Option<Vec<u8>> {
        self.runtime.block_on(async {
            match self.back.get(&self.path(object)).await {
                Err(object_store::Error::NotFound { .. }) => None,
                result => Some(result.expect("read").bytes().await.expect("read").to_vec()),
            }
        })
    }

    /// Removes an object directly.
    pub(crate) fn remove(&self, object: &str) {
        self.runtime.block_on(self.back.delete(&self.path(object))).expect("removed");
    }

    /// Changes an object directly.
    pub(crate) fn change(&self, object: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.get(object).expect(object);
        change(&mut bytes);
        self.put(object, &bytes);
    }

    /// The names of all objects, sorted.
    pub(crate) fn objects(&self) -> Vec<String> {
        self.runtime.block_on(async {
            let mut listed = self.back.list(Some(&self.prefix));
            let mut names = Vec::new();
            while let Some(object) = poll_fn(|context| listed.as_mut().poll_next(context)).await {
                let location = object.expect("listed").location;
                let parts: Vec<String> =
                    location.prefix_match(&self.prefix).expect("below").map(|part| part.as_ref().to_owned()).collect();
                names.push(parts.join("/"));
            }
            names.sort();
            names
        })
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("it can be run");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Creates a bucket, once the server has all of its parts. Neither server checks signatures.
fn make_bucket(port: u16, bucket: &str) {
    let request =
        format!("PUT /{bucket} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    wait_for("the bucket is made", PATIENCE, || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        // A request that comes before the other parts of the server may have no answer.
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        // The answer to a request before this one may have been lost.
        (answer.contains(" 200 ") || answer.contains(" 409 ")).then_some(())
    });
}

/// Creates a container. An archive never creates containers, because that would hide a misspelt name.
fn make_container(endpoint: &str, container: &str) {
    let program = "const c = require('crypto'), http = require('http');
        const [endpoint, account, key, container] = process.argv.slice(1);
        const url = new URL(`${endpoint}/${container}?restype=container`), date = new Date().toUTCString();
        const text = `PUT\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\nx-ms-date:${date}\\nx-ms-version:2021-08-06\\n/${account}${url.pathname}\\nrestype:container`;
        const mac = c.createHmac('sha256', Buffer.from(key, 'base64')).update(text).digest('base64');
        const headers = { 'x-ms-date': date, 'x-ms-version': '2021-08-06', Authorization: `SharedKey ${account}:${mac}`, 'Content-Length': 0 };
        http.request(url, { method: 'PUT', headers }, r => { r.pipe(process.stderr); process.exitCode = r.statusCode === 201 ? 0 : 1 }).end();";
    run(Command::new("node").args(["-e", program, endpoint, ACCOUNT, KEY, container]));
}
