//! The archives of all hosts at one address, to be read without a data folder: a *lake*.
//!
//! ```text
//! the table has a log  ──► its files                          ─┐
//! it has none          ──► files with a manifest, of each home ├─► files ──► only those that may match are opened
//!                          the newest generation               ─┘           their ends ──► memory, disk
//! ```
//!
//! * [`Lake::listing`]: the files that are the tables at the address, with their hosts. [`Lake::times`]: the times of some.
//! * [`Lake::open_file`], [`Lake::open_files`]: a file as its reader needs it, read in blocks as they are asked for (`reader`).
//! * [`Lake::left_out`]: archives that a table does not have (`left_out`).
//! * `blocks`: blocks of files in memory. `cache`: those behind the rows of a file, which tell what to read, on disk.
//! * `metered`: requests and bytes are counted ([`LakeTraffic`]).
//!
//! Nothing is written to the address, and nothing is believed: a file must say that it has the day and the generation of its
//! name, and its reader checks every byte. What cannot be read is named.

mod blocks;
mod cache;
mod left_out;
mod metered;
mod reader;
mod storage;

pub use cache::{CACHE_BYTES_MAX, LakeCache};
pub use left_out::LeftOutArchive;
pub use metered::LakeTraffic;
pub use storage::LakeFile;

use super::access::{Access, RetryPolicy};
use super::error::ArchiveError;
use super::names::{ArchiveName, ArchiveObject};
use super::url::ArchiveUrl;
use super::{Archive, folder};
use blocks::BlockMemory;
use daytable_delta::{AddedFile, TableSnapshot};
use daytable_model::key::TableName;
use daytable_model::time::Ticks;
use daytable_platform::in_parallel::by_threads;
use daytable_platform::lock;
use daytable_store::sealed::{Manifest, SealedFile};
use left_out::ManifestList;
use metered::TrafficMeter;
use reader::LakeReader;
use serde_json::Value;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use storage::{FileTimes, LakeStorage};

/// Requests that are made at a time.
pub const REQUESTS_MAX: usize = 16;
/// Files that stay open, and bytes of their ends in memory.
const OPEN_FILES_MAX: usize = 256;
const OPEN_BYTES_MAX: usize = 64 << 20;

/// The archives at an address. Cheap to clone.
#[derive(Clone)]
pub struct Lake(Arc<LakeState>);

struct LakeState {
    storage: Arc<LakeStorage>,
    /// How long a listing is good for.
    listed_for: Duration,
    listed: Mutex<Option<(Instant, Arc<LakeListing>)>>,
    /// Manifests that were found beside logs.
    manifests: Mutex<Vec<ManifestList>>,
    /// The times that manifests tell; `None` for a day without records.
    described: Mutex<HashMap<ArchiveName, Option<(Ticks, Ticks)>>>,
    opened: Mutex<OpenFiles>,
}

/// Files that were opened last, the latest at the end.
#[derive(Default)]
struct OpenFiles {
    files: VecDeque<(LakeFile, SealedFile)>,
    bytes: usize,
}

impl std::fmt::Debug for Lake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lake").field(self.0.storage.archive.url()).finish()
    }
}

/// The files of all tables at an address.
#[derive(Debug, Default, PartialEq)]
pub struct LakeListing {
    /// One file for each day of each daytable, or the parts of an open one.
    pub files: Vec<LakeFile>,
    /// What is there and cannot be read, and why.
    pub unread: BTreeMap<String, String>,
    /// The state of each table that has a log.
    logs: BTreeMap<TableName, TableSnapshot>,
}

impl Lake {
    /// Opens the archives at an address to read. Sends no request yet; a folder must exist. A listing is good for
    /// `listed_for`.
    ///
    /// # Errors
    ///
    /// As for [`Archive::open`].
    pub fn open(
        url: &ArchiveUrl,
        access: &Access,
        cache: Option<LakeCache>,
        listed_for: Duration,
    ) -> Result<Lake, ArchiveError> {
        let meter = Arc::new(TrafficMeter::default());
        let archive = Archive::open_through(url, access, &RetryPolicy::QUERY, |store| meter.clone().through(store))?;
        // The kernel caches the files of a folder.
        let cache = cache.filter(|_| url.folder().is_none());
        Ok(Lake(Arc::new(LakeState {
            storage: Arc::new(LakeStorage { archive, meter, blocks: BlockMemory::default(), cache }),
            listed_for,
            listed: Mutex::default(),
            manifests: Mutex::default(),
            described: Mutex::default(),
            opened: Mutex::default(),
        })))
    }

    /// The address.
    pub fn url(&self) -> &ArchiveUrl {
        self.0.storage.archive.url()
    }

    /// What was asked of the store, and of the cache, since the lake was opened.
    pub fn traffic(&self) -> LakeTraffic {
        self.0.storage.meter.traffic()
    }

    /// The files of all tables at the address. A table whose list cannot be read is named in it.
    ///
    /// # Errors
    ///
    /// The address cannot be listed, or has no table.
    pub fn listing(&self) -> Result<Arc<LakeListing>, ArchiveError> {
        let mut listed = lock(&self.0.listed);
        if let Some((at, listing)) = &*listed
            && at.elapsed() < self.0.listed_for
        {
            return Ok(listing.clone());
        }
        let tables = self.tables()?;
        if tables.is_empty() {
            let object = format!("{}: an archive of any table", self.url());
            return Err(ArchiveError::Missing { object });
        }
        let files = by_threads(REQUESTS_MAX, tables.iter().collect(), |table| self.files_of(table));
        let mut listing = LakeListing::default();
        for (table, found) in tables.iter().zip(files) {
            match found {
                Ok(LakeListing { files, unread, logs }) => {
                    listing.files.extend(files);
                    listing.unread.extend(unread);
                    listing.logs.extend(logs);
                }
                Err(error) => drop(listing.unread.insert(format!("all days of {table}"), error.to_string())),
            }
        }
        let listing = Arc::new(listing);
        *listed = Some((Instant::now(), listing.clone()));
        Ok(listing)
    }

    /// The names of the tables at the address.
    fn tables(&self) -> Result<BTreeSet<TableName>, ArchiveError> {
        let archive = &self.0.storage.archive;
        let names = match self.url().folder() {
            Some(root) => folder::names_in(root)?,
            None => {
                let prefix = &archive.0.prefix;
                let listed = archive.wait(archive.store().list_with_delimiter(Some(prefix)));
                let listed = listed.map_err(|error| ArchiveError::from_store(self.url().to_string(), error))?;
                let name = |path: object_store::path::Path| path.filename().map(str::to_owned);
                listed.common_prefixes.into_iter().filter_map(name).collect()
            }
        };
        Ok(names.iter().filter_map(|name| TableName::new(name).ok()).collect())
    }

    fn files_of(&self, table: &TableName) -> Result<LakeListing, ArchiveError> {
        let snapshot = self.0.storage.archive.table_now(table)?;
        if snapshot.version().is_none() {
            return Ok(LakeListing { files: self.files_without_log(table)?, ..LakeListing::default() });
        }
        let mut listing = LakeListing::default();
        for file in snapshot.files() {
            match ArchiveName::parse(&format!("{table}/{}", file.path)) {
                Some((name, ArchiveObject::Data)) => listing.files.push(LakeFile {
                    name,
                    bytes: file.size,
                    version: file.modification_time.to_string(),
                    times: FileTimes::Known(times_in(file)),
                }),
                _ => {
                    let what = "daytable did not name it, so it is not read".to_owned();
                    listing.unread.insert(format!("the file {}/{}", table, file.path), what);
                }
            }
        }
        listing.logs.insert(table.clone(), snapshot);
        Ok(listing)
    }

    /// The newest archive of each day of each daytable, of a table without a log, whatever the host was called. A file without a
    /// manifest is not an archive.
    fn files_without_log(&self, table: &TableName) -> Result<Vec<LakeFile>, ArchiveError> {
        let (mut files, mut manifests) = (BTreeMap::new(), BTreeSet::new());
        for object in self.0.storage.archive.objects(table)? {
            match object.part {
                ArchiveObject::Manifest => drop(manifests.insert(object.name)),
                ArchiveObject::Data => drop(files.insert(object.name, (object.bytes, object.e_tag))),
            }
        }
        let mut newest: BTreeMap<_, ArchiveName> = BTreeMap::new();
        for name in manifests {
            match newest.entry((name.table.clone(), name.home.origin())) {
                Entry::Occupied(of) if of.get().generation >= name.generation => {}
                of => drop(of.insert_entry(name)),
            }
        }
        let file = |name: ArchiveName| {
            // A manifest whose file is missing is told when the file is opened.
            let (bytes, e_tag) = files.remove(&name).unwrap_or_default();
            LakeFile { name, bytes, version: e_tag.unwrap_or_default(), times: FileTimes::InManifest }
        };
        Ok(newest.into_values().map(file).collect())
    }

    /// The times of the records of some files; `None` of one without records. Reads the manifests that are needed.
    pub fn times(&self, files: Vec<&LakeFile>) -> Vec<Result<Option<(Ticks, Ticks)>, ArchiveError>> {
        by_threads(REQUESTS_MAX, files, |file| match file.times {
            FileTimes::Known(times) => Ok(times),
            FileTimes::InManifest => self.times_in_manifest(file),
        })
    }

    fn times_in_manifest(&self, file: &LakeFile) -> Result<Option<(Ticks, Ticks)>, ArchiveError> {
        if let Some(times) = lock(&self.0.described).get(&file.name) {
            return Ok(*times);
        }
        let archive = &self.0.storage.archive;
        let missing = || ArchiveError::Missing { object: archive.address(&file.name, ArchiveObject::Manifest) };
        let cached = self.0.storage.cache.as_ref().and_then(|cache| cache.manifest(&self.0.storage.identity(file)));
        let json = match cached {
            Some(json) => json,
            None => archive.wait(archive.manifest_bytes(&file.name))?.ok_or_else(missing)?,
        };
        let described = archive.manifest_in(&file.name, &json)?;
        let bytes = described.manifest().bytes;
        if bytes != file.bytes {
            let object = archive.address(&file.name, ArchiveObject::Data);
            let what = format!("it has {} bytes, its manifest says {bytes}", file.bytes);
            return Err(ArchiveError::Damaged { object, what });
        }
        if let Some(cache) = &self.0.storage.cache {
            cache.put_manifest(&self.0.storage.identity(file), &json);
        }
        let times = times_of(described.manifest());
        lock(&self.0.described).insert(file.name.clone(), times);
        Ok(times)
    }

    /// Opens files, some at a time. Returns them in their order.
    pub fn open_files(&self, files: Vec<&LakeFile>) -> Vec<Result<SealedFile, String>> {
        by_threads(REQUESTS_MAX, files, |file| self.open_file(file))
    }

    /// Opens a file as that of its host.
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    pub fn open_file(&self, file: &LakeFile) -> Result<SealedFile, String> {
        if let Some(opened) = lock(&self.0.opened).get(file) {
            return Ok(opened);
        }
        let opened = match self.open_end(file) {
            // What was cached may be of another file of this name.
            Err(_) if self.0.storage.forget(file) => self.open_end(file)?,
            opened => opened?,
        };
        lock(&self.0.opened).add(file, &opened);
        Ok(opened)
    }

    fn open_end(&self, file: &LakeFile) -> Result<SealedFile, String> {
        let address = self.0.storage.archive.address(&file.name, ArchiveObject::Data);
        let reader = Arc::new(LakeReader::open(&self.0.storage, file).map_err(|error| error.to_string())?);
        let opened = SealedFile::open(reader.clone(), Path::new(&address)).map_err(|error| error.to_string())?;
        if (opened.table(), opened.generation()) != (&file.name.table, file.name.generation) {
            return Err(format!("{address} has {}.{}", opened.table(), opened.generation()));
        }
        reader.keep_from(opened.rows_end());
        Ok(opened.of_host(file.host()))
    }
}

impl OpenFiles {
    fn get(&mut self, file: &LakeFile) -> Option<SealedFile> {
        let at = self.files.iter().position(|(known, _)| known == file)?;
        let found = self.files.remove(at)?;
        let opened = found.1.clone();
        self.files.push_back(found);
        Some(opened)
    }

    fn add(&mut self, file: &LakeFile, opened: &SealedFile) {
        self.bytes += opened.tail_bytes();
        self.files.push_back((file.clone(), opened.clone()));
        while self.files.len() > OPEN_FILES_MAX || self.bytes > OPEN_BYTES_MAX {
            let Some((_, oldest)) = self.files.pop_front() else { break };
            self.bytes -= oldest.tail_bytes();
        }
    }
}

/// The times that the log tells of a file; all times if it tells none.
fn times_in(file: &AddedFile) -> Option<(Ticks, Ticks)> {
    let stats: Value = file.stats.as_deref().and_then(|stats| serde_json::from_str(stats).ok()).unwrap_or_default();
    if stats["numRecords"] == 0 {
        return None;
    }
    let bound = |of: &str| ticks(stats[of]["Time"].as_str()?);
    // The times of the log have milliseconds, the last one rounded up.
    Some((bound("minValues").unwrap_or(Ticks::MIN), bound("maxValues").unwrap_or(Ticks::MAX)))
}

fn times_of(manifest: &Manifest) -> Option<(Ticks, Ticks)> {
    let of = |time: &Option<String>| ticks(time.as_deref()?);
    match (manifest.rows, of(&manifest.first_time), of(&manifest.last_time)) {
        (0, ..) => None,
        (_, first, last) => Some((first.unwrap_or(Ticks::MIN), last.unwrap_or(Ticks::MAX))),
    }
}

fn ticks(time: &str) -> Option<Ticks> {
    let time = chrono::DateTime::parse_from_rfc3339(time).ok()?;
    Ticks::from_unix(time.timestamp(), time.timestamp_subsec_nanos())
}
