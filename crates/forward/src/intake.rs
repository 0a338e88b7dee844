//! The receiver: checks requests of hosts, and submits their rows. It knows no HTTP, only the status of an answer.

use crate::activity::{Activity, Forbidden, HostActivity, Unheard};
use crate::protocol::{
    CountsAnswer, CountsMessage, HelloAnswer, HelloRequest, HostReport, JoinAnswer, JoinRequest, RenewAnswer,
    RenewRequest, RowsAnswer, RowsHead, bound_reasons,
};
use crate::secret;
use daytable_model::key::{DayTable, RowKey, TableName};
use daytable_model::time::{self, Ticks};
use daytable_model::window::{Admission, Window};
use daytable_platform::lock;
use daytable_platform::reloadable::Reloadable;
use daytable_store::catalog::hosts::{
    ForwardingHost, HostCredential, HostNote, Invitation, JoinRefusal, OriginBinding, SecretHash,
};
use daytable_store::catalog::name_pattern::fits;
use daytable_store::catalog::table_bounds::TableBounds;
use daytable_store::forward::intervals::{AdvanceKind, AdvanceResult, HostAdvance, ReceivedCommits};
use daytable_store::forward::inventory::{self, DayCount, WholeTime};
use daytable_store::forward::position::{FolderOrigin, ForwardPosition, checksum_with};
use daytable_store::forward::receive::{self, Existing, ReceiveError, ReceivedRows, Receiver, SenderName, StoredTable};
use daytable_store::forward::wire::{self, BodyError, BodyLimits, WirePage};
use daytable_store::{Ack, CommitOutcome, CommitQueue, ForwardSteps, Reader, SourceReceipt, StoreError, Submission};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError, mpsc};
use std::time::{Duration, Instant};

/// Pages of a request at most.
const PAGES_MAX: usize = 4096;
/// Bytes of the rows of a request before they were encoded, at most. A record of 64 MiB is the largest there can be.
pub const RAW_BYTES_MAX: u64 = 96 << 20;
/// How long a code is good.
pub const CODE_LIFE: Duration = Duration::from_secs(600);
/// How often the report of a host is written to the catalog, unless it has other losses.
const NOTE_EVERY: Duration = Duration::from_secs(60);
/// Failed attempts to join within [`ATTEMPTS_TIME`] after which all are refused for the rest of it.
const ATTEMPTS_MAX: u32 = 100;
const ATTEMPTS_TIME: Duration = Duration::from_secs(60);

/// Hosts and tables of which is known whether a table has rows of the host, at most.
const HOSTS_OF_TABLES_MAX: usize = 100_000;

/// Readers of the data folder.
pub trait Readers: Send + Sync + 'static {
    /// Calls `read` with a reader.
    ///
    /// # Errors
    ///
    /// The folder cannot be opened, or what `read` returns.
    fn with_reader(&self, read: &mut dyn FnMut(&Reader) -> Result<(), StoreError>) -> Result<(), StoreError>;
}

/// What the receiver's configuration says about hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRules {
    /// How old a credential is when its host replaces it.
    pub renew_after: Duration,
    /// Names of hosts that may show a certificate instead of a credential: patterns.
    pub certificates: Vec<String>,
    /// The tables that these may write.
    pub certificate_tables: TableBounds,
}

/// A table of the receiver.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its name.
    pub table: TableName,
    /// The days that it has.
    pub window: Window,
    /// Patterns of the hosts whose records it has; none if it is for all that have no table of their own.
    pub hosts: Vec<String>,
}

/// The tables of the receiver. The last one takes rows of tables that it does not know.
#[derive(Clone, Debug, Default)]
pub struct Places(pub Vec<Place>);

impl Places {
    /// The table here for rows of a host's table: of those with this host, the one of that name, or the first one; else of those
    /// without hosts, the one of that name, or the last one.
    fn place(&self, host: &str, table: &DayTable) -> Option<&Place> {
        let is_named = |place: &&Place| place.table.same(table.table());
        let own = || self.0.iter().filter(|place| place.hosts.iter().any(|pattern| fits(pattern, host)));
        let others = || self.0.iter().filter(|place| place.hosts.is_empty());
        own()
            .find(is_named)
            .or_else(|| own().next())
            .or_else(|| others().find(is_named))
            .or_else(|| others().next_back())
    }

    /// The table here for rows of a host's table. It depends on the names alone, so a page has one.
    fn table_of(&self, host: &str, table: &DayTable) -> TableName {
        self.place(host, table).map_or_else(|| table.table().clone(), |place| place.table.clone())
    }

    /// The day-table that all rows of a host's day-table go to. `None` if they go to several, or that day is gone or too far ahead.
    fn day_of(&self, host: &str, table: &DayTable) -> Option<DayTable> {
        let Place { table: name, window, .. } = self.place(host, table)?;
        // An hour is within a day, and a day within a month.
        let is_whole = table.period() <= window.period;
        let day = match name.same(table.table()) && window.period == table.period() {
            true => table.clone(),
            false => DayTable::at(name, window.period, table.start()),
        };
        (is_whole && window.admits(&day, time::now()) == Admission::Own).then_some(day)
    }

    /// The day-table of a row that a host has in `table`; `None` if that day is gone.
    fn of(&self, host: &str, table: &DayTable, key: RowKey) -> Option<DayTable> {
        let Some(Place { table: name, window, .. }) = self.place(host, table) else { return Some(table.clone()) };
        let day = match name.same(table.table()) && window.period == table.period() {
            true => table.clone(),
            // A late record has an earlier time than its table, and one of a clock that was ahead a later one.
            false if key.time() < table.start() || table.end() <= key.time() => {
                DayTable::at(name, window.period, table.start())
            }
            false => DayTable::at(name, window.period, key.time()),
        };
        let now = time::now();
        match window.admits(&day, now) {
            Admission::Own => Some(day),
            Admission::Late => None,
            // The clock of the host is ahead.
            Admission::Early => Some(DayTable::at(name, window.period, now)),
        }
    }
}

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// The credential is of nobody.
    #[error(
        "the credential is not known here, or was revoked: run `daytable join` with a code of `daytable hosts invite NAME`"
    )]
    Credential,
    /// The credential ended, because another one of its host was used.
    #[error(
        "the credential was replaced by a newer one of its host: the file was put back, the data folder was copied, or somebody else has it. Run `daytable join` with a code of `daytable hosts invite NAME`"
    )]
    Replaced,
    /// The credential is for other tables.
    #[error(
        "the credential of {host} is for {} here, and the request has records for {table}: run `daytable hosts invite {host} --tables {},{table}` at the receiver, and `daytable join` with its code on the host",
        named_tables(.bounds), .bounds.patterns().join(",")
    )]
    ForbiddenTable {
        /// The name of the host.
        host: String,
        /// The table here.
        table: String,
        /// The tables that the credential may write.
        bounds: TableBounds,
    },
    /// The code is not good.
    #[error("{0}")]
    Join(String),
    /// Too many codes were tried.
    #[error("too many wrong codes were tried: wait a minute")]
    TooManyCodes,
    /// The credential belongs to another folder.
    #[error(
        "the credential is of another data folder: each folder needs one of its own, by `daytable join` with a code of `daytable hosts invite NAME`"
    )]
    OtherOrigin,
    /// The folder is that of a host of another name.
    #[error(
        "this data folder is known here as {known}, and gets the name {name} only while its daemon runs, which was not heard of, or after \
         `daytable hosts revoke {known}` at the receiver; a folder that was copied from {known} gets an origin of its own with `daytable join URL CODE \
         --new-origin`"
    )]
    OfHost {
        /// The name that it has here.
        known: String,
        /// The name of its new credential.
        name: String,
    },
    /// The certificate belongs to another folder.
    #[error(
        "the certificate of {0} is of another data folder: if that one is gone, `daytable hosts forget {0}` at the receiver lets this one in"
    )]
    CertificateOrigin(String),
    /// No certificate of this name is let in.
    #[error(
        "no certificate of the name {0} is accepted here: add the name to `certificates` of [hosts] at the receiver, or run `daytable join`"
    )]
    CertificateUnlisted(String),
    /// The certificate has no name of a host.
    #[error(
        "the common name of the certificate is not the name of a host: such a name has letters, digits, \"-\", \"_\" and \".\", 255 at most"
    )]
    CertificateName,
    /// Another folder has the same origin.
    #[error(
        "another daytable with the same origin forwards here, so this data folder is a copy of another one: give it an origin of its own with `daytable join URL CODE --new-origin`"
    )]
    Copied,
    /// The request does not begin where the host was received up to.
    #[error("the request does not begin where this host was received up to: {0}")]
    Misplaced(String),
    /// The body cannot be used.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The message is not one of the protocol.
    #[error("the message cannot be read: {0}")]
    Message(String),
    /// It may work later.
    #[error("{0}")]
    Busy(String),
}

impl IntakeError {
    /// The status of the answer.
    pub fn status(&self) -> u16 {
        match self {
            IntakeError::Credential | IntakeError::Replaced => 401,
            IntakeError::Join(_)
            | IntakeError::OtherOrigin
            | IntakeError::OfHost { .. }
            | IntakeError::CertificateOrigin(_)
            | IntakeError::CertificateName
            | IntakeError::CertificateUnlisted(_)
            | IntakeError::Copied
            | IntakeError::ForbiddenTable { .. } => 403,
            IntakeError::Misplaced(_) => 409,
            IntakeError::Body(BodyError::Version(_)) => 426,
            IntakeError::Body(BodyError::Large(_)) => 413,
            IntakeError::Body(_) | IntakeError::Message(_) => 422,
            IntakeError::TooManyCodes => 429,
            IntakeError::Busy(_) => 503,
        }
    }
}

/// `the table Log`, or `the tables Log, Audit*`.
fn named_tables(bounds: &TableBounds) -> String {
    let noun = if bounds.patterns().len() == 1 { "the table" } else { "the tables" };
    format!("{noun} {}", bounds.patterns().join(", "))
}

impl From<StoreError> for IntakeError {
    fn from(error: StoreError) -> IntakeError {
        IntakeError::Busy(format!("the store cannot be used at the moment: {error}"))
    }
}

/// Counters of the receiver.
#[derive(Debug, Default)]
pub struct IntakeCounters {
    /// Requests with rows that were stored.
    pub requests: AtomicU64,
    /// Records that were stored.
    pub records: AtomicU64,
    /// Bytes of bodies.
    pub bytes: AtomicU64,
    /// Records that were there already.
    pub known: AtomicU64,
    /// Records whose day is gone.
    pub expired: AtomicU64,
    /// Requests that were refused.
    pub refused: AtomicU64,
}

/// The records of a host, compared with those that are here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Records that the host has, of days that were compared.
    pub records: u64,
    /// Records of day-tables whose records go to several here, and of days that are gone here.
    pub elsewhere: u64,
    /// Day-tables that lack records here, or have others: with the records there, and here.
    pub lacking: Vec<(String, u64, u64)>,
    /// Records that the host got meanwhile, about. They are on their way, and were not compared.
    pub later: u64,
}

/// A question for the records of all hosts that is under way.
struct FleetQuestion {
    number: u64,
    answers: HashMap<FolderOrigin, Compared>,
}

/// A question that is under way until this value is dropped, also by a panic.
struct Asking<'q>(&'q Mutex<Option<FleetQuestion>>);

impl Asking<'_> {
    fn begin(question: &Mutex<Option<FleetQuestion>>) -> Result<Asking<'_>, StoreError> {
        let mut current = lock(question);
        if current.is_some() {
            return Err(StoreError::Refused("the hosts are being asked already: try again in a minute".into()));
        }
        // Hosts know the numbers of earlier questions.
        let number = u64::try_from(time::now().get()).unwrap_or(1);
        *current = Some(FleetQuestion { number, answers: HashMap::new() });
        Ok(Asking(question))
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        // Whoever is heard of later has nothing to count.
        *lock(self.0) = None;
    }
}

/// A host, as it is listed.
#[derive(Clone, Debug)]
pub struct ListedHost {
    /// As the catalog has it.
    pub host: ForwardingHost,
    /// Its last report.
    pub report: crate::protocol::HostReport,
    /// How long ago it was heard of, if it was since this process started.
    pub silent: Option<Duration>,
    /// What its credential did not permit, since this process started.
    pub forbidden: Forbidden,
}

/// The day-tables that may have rows of hosts which go to other tables now, and whether they do.
struct OtherTables {
    places: Arc<Places>,
    tables: Arc<Vec<StoredTable>>,
    has_rows: HashMap<(String, DayTable), bool>,
}

/// The receiver of a daemon.
pub struct ForwardIntake {
    queue: CommitQueue,
    steps: ForwardSteps,
    readers: Arc<dyn Readers>,
    places: Reloadable<Places>,
    rules: Reloadable<HostRules>,
    activity: Mutex<Activity>,
    /// A lock for each host, so that its requests are handled one after the other.
    turns: Mutex<HashMap<FolderOrigin, Arc<Mutex<()>>>>,
    attempts: Mutex<Option<(Instant, u32)>>,
    question: Mutex<Option<FleetQuestion>>,
    others: Mutex<Option<OtherTables>>,
    /// What was received since this process started.
    pub counters: IntakeCounters,
}

impl ListedHost {
    /// A host as the catalog has it, and as it was heard of.
    pub fn new(host: ForwardingHost, activity: Option<&HostActivity>) -> ListedHost {
        let report = match activity {
            Some(activity) => activity.report.clone(),
            None => serde_json::from_str(&host.report).unwrap_or_default(),
        };
        ListedHost {
            report: crate::protocol::HostReport::at(report, received(&host)),
            silent: activity.and_then(|activity| activity.seen).map(|seen| seen.elapsed()),
            forbidden: activity.map(|activity| activity.forbidden.clone()).unwrap_or_default(),
            host,
        }
    }
}

/// What the catalog is to have of a host.
fn note_of(origin: FolderOrigin, host: &mut HostActivity) -> HostNote {
    HostNote {
        origin,
        report: serde_json::to_string(&host.report).unwrap_or_default(),
        processes: host.note_processes(),
        seen: time::now().minus(host.seen.map(|seen| seen.elapsed()).unwrap_or_default()),
    }
}

/// Records of a host that came, with those whose day was gone.
fn received(host: &ForwardingHost) -> u64 {
    host.records.saturating_add(host.expired)
}

impl ForwardIntake {
    /// The receiver of a folder.
    pub fn new(
        queue: CommitQueue,
        steps: ForwardSteps,
        readers: Arc<dyn Readers>,
        places: Reloadable<Places>,
        rules: HostRules,
    ) -> Arc<ForwardIntake> {
        Arc::new(ForwardIntake {
            queue,
            steps,
            readers,
            places,
            rules: Reloadable::new(rules),
            activity: Mutex::default(),
            turns: Mutex::default(),
            attempts: Mutex::default(),
            question: Mutex::default(),
            others: Mutex::default(),
            counters: IntakeCounters::default(),
        })
    }

    fn read<T>(&self, read: impl Fn(&Reader) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut found = None;
        self.readers.with_reader(&mut |reader| {
            found = Some(read(reader)?);
            Ok(())
        })?;
        found.ok_or(StoreError::Closed)
    }

    /// Changes what the configuration says.
    pub fn set_rules(&self, rules: HostRules) {
        self.rules.store(rules);
    }

    /// Makes an invitation, and returns its code. With a life, the code may be used again until then.
    ///
    /// # Errors
    ///
    /// The store cannot be written, or there are too many.
    pub fn invite(&self, name: &str, tables: &[String], life: Option<Duration>) -> Result<String, IntakeError> {
        invite(&self.steps, name, tables, life)
    }

    /// Trades a code for a credential.
    ///
    /// # Errors
    ///
    /// The code is not good.
    pub fn join(&self, request: &JoinRequest) -> Result<JoinAnswer, IntakeError> {
        let now = Instant::now();
        let is_over = |since: Instant| now.saturating_duration_since(since) >= ATTEMPTS_TIME;
        if lock(&self.attempts).is_some_and(|(since, failed)| failed >= ATTEMPTS_MAX && !is_over(since)) {
            return Err(IntakeError::TooManyCodes);
        }
        let name = request.name.as_deref().map(checked_name).transpose()?;
        let code = secret::hash(&request.code);
        let random = |error| IntakeError::Busy(format!("/dev/urandom cannot be read: {error}"));
        let (credential, hash) = match &request.credential {
            Some(made) => (String::new(), secret::hash_of_text(made).ok_or_else(no_hash)?),
            None => {
                let credential = secret::credential().map_err(random)?;
                let hash = secret::hash(&credential).ok_or(IntakeError::Credential)?;
                (credential, hash)
            }
        };
        let joined = match code {
            Some(code) => self.steps.join(code, name, hash)?,
            None => Err(JoinRefusal::Code),
        };
        match joined {
            Ok(name) => {
                tracing::info!(host = name, "a host joined");
                Ok(JoinAnswer { name, credential })
            }
            Err(refusal) => {
                if refusal == JoinRefusal::Code {
                    let mut attempts = lock(&self.attempts);
                    let (since, failed) = attempts.filter(|(since, _)| !is_over(*since)).unwrap_or((now, 0));
                    *attempts = Some((since, failed + 1));
                }
                Err(IntakeError::Join(refusal.to_string()))
            }
        }
    }

    /// The credential of a request.
    ///
    /// # Errors
    ///
    /// It is not known.
    pub fn authenticate(&self, word: Option<&str>) -> Result<(SecretHash, HostCredential), IntakeError> {
        let hash = word.and_then(secret::hash).ok_or(IntakeError::Credential)?;
        if let Some(credential) = self.read(|reader| reader.catalog().host_credential(&hash))? {
            return Ok((hash, credential));
        }
        match self.read(|reader| reader.catalog().is_replaced_credential(&hash))? {
            true => Err(IntakeError::Replaced),
            false => Err(IntakeError::Credential),
        }
    }

    /// The credential of a host that shows a certificate of this name, which TLS has verified, and no other credential.
    ///
    /// # Errors
    ///
    /// The name is not one that a host can have, or was revoked.
    pub fn authenticate_certificate(&self, name: &str) -> Result<(SecretHash, HostCredential), IntakeError> {
        let name = checked_name(name).ok().filter(|name| !name.contains('*')).ok_or(IntakeError::CertificateName)?;
        let rules = self.rules.load();
        if !rules.certificates.iter().any(|pattern| fits(pattern, &name)) {
            return Err(IntakeError::CertificateUnlisted(name));
        }
        let (hash, tables) = (secret::certificate_hash(&name), &rules.certificate_tables);
        let known = || self.read(|reader| reader.catalog().host_credential(&hash));
        if let Some(credential) = known()?.filter(|credential| credential.tables == *tables) {
            return Ok((hash, credential));
        }
        self.steps
            .admit_certificate(name, tables.clone(), hash)?
            .map_err(|refusal| IntakeError::Join(refusal.to_string()))?;
        known()?.map(|credential| (hash, credential)).ok_or(IntakeError::Credential)
    }

    /// Checks that a credential is of this folder, and binds it if nobody used it yet.
    fn bind(
        &self,
        hash: SecretHash,
        credential: &HostCredential,
        origin: FolderOrigin,
        may_rename: impl FnOnce() -> bool,
    ) -> Result<(), IntakeError> {
        let binding = match credential.origin {
            Some(bound) if bound == origin => OriginBinding::Bound,
            Some(_) => OriginBinding::OtherFolder,
            None => self.steps.bind_origin(hash, origin, may_rename())?,
        };
        match binding {
            OriginBinding::Bound => Ok(()),
            OriginBinding::OfHost(known) => Err(IntakeError::OfHost { known, name: credential.name.clone() }),
            OriginBinding::OtherFolder if is_certificate(&hash, credential) => {
                Err(IntakeError::CertificateOrigin(credential.name.clone()))
            }
            OriginBinding::OtherFolder => Err(IntakeError::OtherOrigin),
        }
    }

    /// Checks that a credential is of this folder already: what a message says of its folder binds no credential but by a hello,
    /// which a copy, or somebody with the messages of another host, has no right to.
    fn check_bound(
        &self,
        hash: SecretHash,
        credential: &HostCredential,
        origin: FolderOrigin,
    ) -> Result<(), IntakeError> {
        match credential.origin {
            Some(_) => self.bind(hash, credential, origin, || false),
            None => Err(unheard(Unheard::Unknown)),
        }
    }

    /// The first use of a successor ends the credentials before it. The request has to be of a process that is listened to.
    fn succeed(&self, hash: SecretHash, credential: &HostCredential, origin: FolderOrigin) -> Result<(), IntakeError> {
        if credential.is_successor && !self.steps.use_successor(hash, origin)? {
            return Err(IntakeError::Credential);
        }
        Ok(())
    }

    /// A host makes a credential known that is to take the place of the one that it shows. Both are good until the new one is used.
    ///
    /// # Errors
    ///
    /// The credential is of another folder, or the host is not listened to.
    pub fn renew(
        &self,
        (hash, credential): (SecretHash, HostCredential),
        request: &RenewRequest,
    ) -> Result<RenewAnswer, IntakeError> {
        let RenewRequest { origin, instance, credential: new } = request;
        self.check_bound(hash, &credential, *origin)?;
        lock(&self.activity).rows(origin, *instance, Instant::now()).map_err(unheard)?;
        let new = secret::hash_of_text(new).ok_or_else(no_hash)?;
        // A successor would be good for longer than the certificate is.
        if is_certificate(&hash, &credential) {
            return Err(IntakeError::Message("the authority of a certificate renews it".into()));
        }
        self.succeed(hash, &credential, *origin)?;
        if !self.steps.renew_credential((hash, *origin), new)? {
            return Err(IntakeError::Credential);
        }
        tracing::info!(host = credential.name, "a host replaces its credential");
        Ok(RenewAnswer { name: credential.name })
    }

    /// A host says which folder it has.
    ///
    /// # Errors
    ///
    /// The credential is of another folder, or another folder has this origin.
    pub fn hello(
        &self,
        (hash, credential): (SecretHash, HostCredential),
        mut request: HelloRequest,
    ) -> Result<HelloAnswer, IntakeError> {
        let origin = request.origin;
        let is_known = lock(&self.activity).knows(&origin);
        let host = if is_known { None } else { self.read(|reader| reader.catalog().forwarding_host(&origin))? };
        if let Some(host) = host {
            lock(&self.activity).load(origin, &host.processes, Instant::now());
        }
        // The first use of a credential ends the older ones of its folder. A copy of a folder that is alive must not do that.
        if credential.origin.is_none()
            && lock(&self.activity).is_owned_by_other(&origin, request.instance, Instant::now())
        {
            return Err(IntakeError::Copied);
        }
        // The process that spoke for the folder before may give it another name.
        let may_rename = || lock(&self.activity).is_owned_by(&origin, request.instance);
        self.bind(hash, &credential, origin, may_rename)?;
        bound_reasons(&mut request.report.lost);
        bound_reasons(&mut request.report.lost_bytes);
        request.report.version.truncate(request.report.version.floor_char_boundary(64));
        // What the host says that it has to send is beside what is here, at this moment.
        let host = self.read(|reader| reader.catalog().forwarding_host(&origin))?;
        request.report.received = host.as_ref().map(received);
        let note = {
            let mut activity = lock(&self.activity);
            let lost = activity.of(&origin).map(|host| (host.report.lost.clone(), host.report.lost_bytes.clone()));
            let now = Instant::now();
            let host = activity.hello(origin, (request.instance, request.turn), request.answered, request.report, now);
            let host = host.map_err(unheard)?;
            let is_due = host.noted.is_none_or(|noted| now.saturating_duration_since(noted) >= NOTE_EVERY);
            let HostReport { lost: records, lost_bytes: bytes, .. } = &host.report;
            let is_other = lost.is_some_and(|(lost, lost_bytes)| lost != *records || lost_bytes != *bytes);
            (is_due || is_other || host.has_other_processes()).then(|| {
                host.noted = Some(now);
                note_of(origin, host)
            })
        };
        self.succeed(hash, &credential, origin)?;
        if let Some(note) = note {
            let noted = self.steps.note_hosts(vec![note]);
            noted.inspect_err(|_| lock(&self.activity).forget_note(&origin))?;
        }
        let (host, history) = self
            .read(|reader| Ok((reader.catalog().forwarding_host(&origin)?, reader.catalog().host_history(&origin)?)))?;
        // Its credential was bound a moment ago.
        let host = host.ok_or(IntakeError::Credential)?;
        let asked = lock(&self.question).as_ref().map_or(0, |question| question.number);
        let is_own = !credential.is_successor && !is_certificate(&hash, &credential);
        let renew = is_own && credential.given.plus(self.rules.load().renew_after) <= time::now();
        let ForwardingHost { name, name_in_keys, received, .. } = host;
        Ok(HelloAnswer { name, name_in_keys, received, history, asked, renew })
    }

    /// Stores the rows of a request, and returns once they are on disk. `charge` reserves so much more memory before it is used;
    /// `submitted` is called when nothing is left to do but to wait for the disk.
    ///
    /// # Errors
    ///
    /// The body is damaged, does not follow on what was received, or cannot be stored now. Nothing of it is stored then, or all
    /// of it: a repeat tells.
    pub fn rows(
        &self,
        (hash, credential): (SecretHash, HostCredential),
        bytes: &[u8],
        charge: &mut dyn FnMut(usize) -> Result<(), IntakeError>,
        submitted: impl FnOnce(),
    ) -> Result<RowsAnswer, IntakeError> {
        let result = self.store_rows((hash, credential), bytes, charge, submitted);
        match &result {
            Ok(_) => self.counters.requests.fetch_add(1, Ordering::Relaxed),
            Err(_) => self.counters.refused.fetch_add(1, Ordering::Relaxed),
        };
        result
    }

    fn store_rows(
        &self,
        (hash, credential): (SecretHash, HostCredential),
        bytes: &[u8],
        charge: &mut dyn FnMut(usize) -> Result<(), IntakeError>,
        submitted: impl FnOnce(),
    ) -> Result<RowsAnswer, IntakeError> {
        // The pages are copied out of the body.
        charge(bytes.len())?;
        let body = wire::decode(bytes, BodyLimits { raw_bytes_max: RAW_BYTES_MAX, pages_max: PAGES_MAX })?;
        let head: RowsHead =
            serde_json::from_str(body.head).map_err(|error| IntakeError::Message(error.to_string()))?;
        self.check_bound(hash, &credential, head.origin)?;
        lock(&self.activity).rows(&head.origin, head.instance, Instant::now()).map_err(unheard)?;
        self.succeed(hash, &credential, head.origin)?;
        let places = self.places.load();
        let name = credential.name.as_str();
        // All of the request or nothing: the host has to send it again in any case.
        let forbidden = body
            .pages
            .iter()
            .map(|page| places.table_of(name, &page.table))
            .find(|table| !credential.tables.permit(table));
        if let Some(table) = forbidden {
            let table = table.to_string();
            lock(&self.activity).forbid(&head.origin, &table, Instant::now());
            return Err(IntakeError::ForbiddenTable { host: credential.name, table, bounds: credential.tables });
        }
        let turn = lock(&self.turns).entry(head.origin).or_default().clone();
        let busy_host =
            || IntakeError::Busy("an earlier request of this host is being stored: send this one later".into());
        let _turn = match turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(busy_host()),
        };

        // The committer decides; this only spares the work of what is refused, and of what is stored already.
        let epoch = self.queue.epoch();
        let host =
            self.read(|reader| reader.catalog().forwarding_host(&head.origin))?.ok_or(IntakeError::Credential)?;
        match host.received.after(head.step()) {
            AdvanceResult::Moves(_) => {}
            AdvanceResult::Stored => return Ok(RowsAnswer { position: head.to, expired: 0, known: 0 }),
            AdvanceResult::Elsewhere => return Err(misplaced(host.received, head.from)),
        }
        let is_joining = head.mode == AdvanceKind::Commits && host.received.joins(head.from, head.to);
        // All rows, and the page that is being decoded.
        let raw_bytes = || body.pages.iter().map(|page| page.raw_bytes() as usize);
        charge(raw_bytes().sum::<usize>() + raw_bytes().max().unwrap_or(0))?;
        check_positions(&head, host.received.epoch, body.pages.iter().map(|page| (page.seq, page.stored_checksum())))?;
        daytable_platform::failpoint!("forward-received");
        if is_joining {
            daytable_platform::failpoint!("forward-received-join");
        }

        // What was permitted above is what is stored.
        if host.name != credential.name {
            return Err(IntakeError::Credential);
        }
        let place_of = |table: &DayTable, key: RowKey| places.of(&host.name, table, key);
        let day_of = |table: &DayTable| places.day_of(&host.name, table);
        let receive = |existing: Existing<'_>| -> Result<_, ReceiveError> {
            let sender = SenderName { log_host: &host.name, in_keys: &host.name_in_keys };
            let mut receiver = Receiver::new(sender, &place_of, existing).with_days(&day_of);
            body.pages.iter().try_for_each(|page| receiver.add(page))?;
            Ok(receiver.finish())
        };
        let with_reader = |work: &dyn Fn(&Reader) -> Result<ReceivedRows, ReceiveError>| {
            let mut received = None;
            self.readers.with_reader(&mut |reader| {
                received = Some(work(reader));
                Ok(())
            })?;
            received.unwrap_or(Err(StoreError::Closed.into()))
        };
        let received = match head.mode {
            AdvanceKind::Commits => {
                let others = self.other_tables(&places)?;
                // Pages of times after the last change of the configuration are the rule: of these nothing is read.
                let may_have_moved = |page: &WirePage| {
                    let place = places.place(&host.name, &page.table);
                    place.is_some_and(|Place { table, window, .. }| {
                        others.iter().any(|other| other.may_have_moved(table, window.period, page.times()))
                    })
                };
                match body.pages.iter().any(may_have_moved) {
                    false => receive(Existing::Unread),
                    true => {
                        let has_rows = |table: &DayTable| self.has_rows(&host.name, table);
                        with_reader(&|reader| receive(Existing::Elsewhere(reader, &others, &has_rows)))
                    }
                }
            }
            AdvanceKind::OpenHead | AdvanceKind::Adopt => Ok(Default::default()),
            AdvanceKind::Compare => with_reader(&|reader| receive(Existing::All(reader))),
        };
        let received = received.map_err(|error| match error {
            ReceiveError::Body(error) => IntakeError::Body(error),
            ReceiveError::Store(error) => error.into(),
        })?;
        drop(body.pages);
        let (records, expired, known) = (received.records, received.expired, received.known);
        // A clock that is ahead on one host must not let the days of others expire.
        let newest = received.newest().filter(|newest| *newest <= time::now());
        let losses = if expired > 0 { vec![("expired".to_owned(), expired)] } else { Vec::new() };
        let receipt = SourceReceipt {
            bytes: bytes.len() as u64,
            losses,
            ..SourceReceipt::records("forward", host.name.as_str(), records)
        };
        let advance = HostAdvance { origin: head.origin, step: head.step(), records, expired };
        let (sent, outcome) = mpsc::sync_channel(1);
        let submission = Submission {
            batches: received.batches,
            pages: received.pages,
            newest,
            epoch,
            receipts: vec![receipt],
            host: Some(advance),
            ack: Ack::with_outcome(move |outcome| {
                // The receiver waits for it below.
                let _ = sent.send(outcome);
            }),
            ..Submission::default()
        };
        let busy = || IntakeError::Busy("the store accepts no records at the moment: send them again".into());
        self.queue.submit(submission).map_err(|_| busy())?;
        submitted();
        match outcome.recv() {
            Ok(CommitOutcome::Committed) => {
                daytable_platform::failpoint!("forward-stored");
                if is_joining {
                    daytable_platform::failpoint!("forward-stored-join");
                }
                for (counter, count) in [
                    (&self.counters.records, records),
                    (&self.counters.bytes, bytes.len() as u64),
                    (&self.counters.known, known),
                    (&self.counters.expired, expired),
                ] {
                    counter.fetch_add(count, Ordering::Relaxed);
                }
                Ok(RowsAnswer { position: head.to, expired, known })
            }
            Ok(CommitOutcome::Misplaced) => {
                let host = self.read(|reader| reader.catalog().forwarding_host(&head.origin))?;
                Err(misplaced(host.map(|host| host.received).unwrap_or_default(), head.from))
            }
            _ => Err(busy()),
        }
    }

    /// A host says which records it has. They are compared with those that are here.
    ///
    /// # Errors
    ///
    /// The credential is of another folder, or the records here cannot be read.
    pub fn counts(
        &self,
        (hash, credential): (SecretHash, HostCredential),
        message: &CountsMessage,
    ) -> Result<CountsAnswer, IntakeError> {
        self.check_bound(hash, &credential, message.origin)?;
        let origin = message.origin;
        let host = self.read(|reader| reader.catalog().forwarding_host(&origin))?.ok_or(IntakeError::Credential)?;
        // The records of a head are of later commits than those that were counted.
        let ReceivedCommits { position, head, .. } = host.received;
        if !position.is_between_commits() || position.commit > message.commit || head.is_some() {
            return Err(misplaced(host.received, ForwardPosition { commit: message.commit, ..position }));
        }
        let places = self.places.load();
        let (mut compared, mut groups) = (Compared::default(), BTreeMap::<DayTable, (Vec<&str>, DayCount)>::new());
        for day in &message.days {
            let Ok(table) = DayTable::parse(&day.table) else {
                return Err(IntakeError::Message("a day-table has an invalid name".into()));
            };
            if let Some(place) = places.day_of(&host.name, &table) {
                let (tables, wanted) = groups.entry(place).or_default();
                tables.push(&day.table);
                wanted.add(day);
                continue;
            }
            // Whatever is here of a day that is gone, or is too far ahead.
            match self.received_of(&host.name, &table, day)?.lacks(day) {
                true => compared.elsewhere = compared.elsewhere.saturating_add(day.records),
                false => compared.records = compared.records.saturating_add(day.records),
            }
        }
        let (mut lacking, mut places) = (Vec::new(), BTreeMap::new());
        for (place, (tables, wanted)) in groups {
            let here = self.received_of(&host.name, &place, &wanted)?;
            compared.records = compared.records.saturating_add(wanted.records);
            if here.lacks(&wanted) {
                lacking.push(place.clone());
            }
            places.insert(place, (tables, wanted, here));
        }
        // Rows stay in the table that was configured when they came. So what seems to lack may be in another one of the time.
        if !lacking.is_empty() {
            let days: Vec<DayTable> = places.keys().cloned().collect();
            let times = self.read(|reader| inventory::count_times(reader, &days, &lacking, &host.name))?;
            for WholeTime { days, here } in times {
                compared.lacking.extend(lacking_of(&days, &here, &places));
            }
        }
        compared.later = message.later;
        let lacking = compared.lacking.len() as u64;
        if let Some(question) = lock(&self.question).as_mut().filter(|question| question.number == message.asked) {
            question.answers.insert(origin, compared);
        }
        Ok(CountsAnswer { lacking })
    }

    /// The tables that had rows when these places became those of this process. Rows of later times are in the table of these.
    fn other_tables(&self, places: &Arc<Places>) -> Result<Arc<Vec<StoredTable>>, StoreError> {
        if let Some(others) = &*lock(&self.others)
            && Arc::ptr_eq(&others.places, places)
        {
            return Ok(others.tables.clone());
        }
        // Requests by the places before may still be stored.
        let stored = if lock(&self.others).is_some() { time::now() } else { Ticks::MIN };
        let tables = Arc::new(self.read(|reader| receive::stored_tables(reader, stored))?);
        *lock(&self.others) =
            Some(OtherTables { places: places.clone(), tables: tables.clone(), has_rows: HashMap::new() });
        Ok(tables)
    }

    /// Whether a table has records of a host that go to another one now.
    fn has_rows(&self, host: &str, table: &DayTable) -> Result<bool, StoreError> {
        let key = (host.to_owned(), table.clone());
        if let Some(known) = lock(&self.others).as_ref().and_then(|others| others.has_rows.get(&key).copied()) {
            return Ok(known);
        }
        let has_rows = self.read(|reader| inventory::has_received(reader, table, host))?;
        if let Some(others) = &mut *lock(&self.others) {
            if others.has_rows.len() >= HOSTS_OF_TABLES_MAX {
                others.has_rows.clear();
            }
            others.has_rows.insert(key, has_rows);
        }
        Ok(has_rows)
    }

    /// The records of a host in a day-table here, with those that were too far ahead when they came, if that day lacks any.
    fn received_of(&self, host: &str, table: &DayTable, wanted: &DayCount) -> Result<DayCount, StoreError> {
        let mut here = self.read(|reader| inventory::count_received(reader, table, host))?;
        if here.lacks(wanted) {
            here.add(&self.read(|reader| inventory::count_ahead(reader, table, host))?);
        }
        Ok(here)
    }

    /// Asks all hosts which records they have, waits for their answers for so long, and compares. A host is asked with its next
    /// message, so this takes ten seconds at least. `None` for hosts that did not answer.
    ///
    /// # Errors
    ///
    /// The catalog cannot be read, or hosts are being asked already.
    pub fn compare_all(&self, patience: Duration) -> Result<Vec<(String, Option<Compared>)>, StoreError> {
        let _asking = Asking::begin(&self.question)?;
        self.wait_for_answers(patience)
    }

    fn wait_for_answers(&self, patience: Duration) -> Result<Vec<(String, Option<Compared>)>, StoreError> {
        let until = Instant::now() + patience;
        loop {
            let hosts = self.read(|reader| reader.catalog().forwarding_hosts())?;
            let all: Vec<(String, FolderOrigin)> = hosts
                .into_iter()
                .filter(|host| !host.is_revoked)
                .filter_map(|host| Some((host.name, host.origin?)))
                .collect();
            let answers = lock(&self.question).as_ref().map(|question| question.answers.clone()).unwrap_or_default();
            let is_over = Instant::now() >= until;
            if is_over || all.iter().all(|(_, origin)| answers.contains_key(origin)) {
                return Ok(all.into_iter().map(|(name, origin)| (name, answers.get(&origin).cloned())).collect());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Writes down when hosts were heard of last and what they said, for the list while no daemon runs.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn note_all(&self) -> Result<(), StoreError> {
        let notes: Vec<HostNote> = lock(&self.activity).unnoted().map(|(origin, host)| note_of(origin, host)).collect();
        if notes.is_empty() { Ok(()) } else { self.steps.note_hosts(notes) }
    }

    /// All hosts.
    ///
    /// # Errors
    ///
    /// The catalog cannot be read.
    pub fn hosts(&self) -> Result<Vec<ListedHost>, StoreError> {
        let hosts = self.read(|reader| reader.catalog().forwarding_hosts())?;
        let activity = lock(&self.activity);
        let listed = |host: ForwardingHost| {
            let live = host.origin.and_then(|origin| activity.of(&origin));
            ListedHost::new(host, live)
        };
        Ok(hosts.into_iter().map(listed).collect())
    }

    /// Ends the credentials of a host.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn revoke(&self, name: &str) -> Result<bool, StoreError> {
        self.steps.revoke(name)
    }

    /// Ends the credentials of a host, and forgets it.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn forget(&self, name: &str) -> Result<bool, StoreError> {
        let gone: Vec<FolderOrigin> = self
            .read(|reader| reader.catalog().forwarding_hosts())?
            .into_iter()
            .filter(|host| host.name == name)
            .filter_map(|host| host.origin)
            .collect();
        let is_forgotten = self.steps.forget(name)?;
        for origin in gone {
            lock(&self.activity).forget(&origin);
            lock(&self.turns).remove(&origin);
        }
        Ok(is_forgotten)
    }
}

/// Makes an invitation in a folder, and returns its code.
///
/// # Errors
///
/// The store cannot be written, or there are too many.
pub fn invite(
    steps: &ForwardSteps,
    name: &str,
    tables: &[String],
    life: Option<Duration>,
) -> Result<String, IntakeError> {
    let name = checked_name(name)?;
    let tables = TableBounds::new(tables).map_err(IntakeError::Join)?;
    let random = |error| IntakeError::Busy(format!("/dev/urandom cannot be read: {error}"));
    let code = secret::code().map_err(random)?;
    let hash = secret::hash(&code).ok_or(IntakeError::Credential)?;
    let expires = time::now().plus(life.unwrap_or(CODE_LIFE));
    steps.invite(Invitation { code: hash, name, expires, is_reusable: life.is_some(), tables })?;
    Ok(code)
}

/// The name of a host, or a pattern of names.
///
/// # Errors
///
/// It has other characters, or too many.
pub fn checked_name(name: &str) -> Result<String, IntakeError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*');
    if (1..=255).contains(&name.len()) && name.chars().all(is_name) {
        Ok(name.to_owned())
    } else {
        Err(IntakeError::Join("the name of a host has letters, digits, \"-\", \"_\" and \".\", 255 at most".into()))
    }
}

/// What goes to a day-table here: the day-tables there, what they have, and what is here of it.
type PlaceCounts<'m> = (Vec<&'m str>, DayCount, DayCount);

/// What is lacking of days that have a time in common, if all tables of that time together lack records.
fn lacking_of(
    days: &[DayTable],
    in_all: &DayCount,
    places: &BTreeMap<DayTable, PlaceCounts<'_>>,
) -> Vec<(String, u64, u64)> {
    let known: Vec<(&DayTable, &PlaceCounts<'_>)> = days.iter().filter_map(|day| places.get_key_value(day)).collect();
    let (mut wanted, mut own) = (DayCount::default(), DayCount::default());
    for (_, (_, of_day, here)) in &known {
        wanted.add(of_day);
        own.add(here);
    }
    if !in_all.lacks(&wanted) {
        return Vec::new();
    }
    let shown = |tables: &[&str], places: &str| match tables.join(", ") {
        tables if tables == places => tables,
        tables => format!("{tables} ({places} here)"),
    };
    if own.records >= in_all.records {
        let lacking = known.into_iter().filter(|(_, (_, wanted, here))| here.lacks(wanted));
        let row = |(place, (tables, wanted, here)): (&DayTable, &PlaceCounts<'_>)| {
            (shown(tables, &place.to_string()), wanted.records, here.records)
        };
        return lacking.map(row).collect();
    }
    // Some are in tables that these days do not go to any more.
    let tables: Vec<&str> = known.iter().flat_map(|(_, (tables, ..))| tables.iter().copied()).collect();
    let places: Vec<String> = known.iter().map(|(place, _)| place.to_string()).collect();
    vec![(shown(&tables, &format!("{} and others", places.join(", "))), wanted.records, in_all.records)]
}

fn is_certificate(hash: &SecretHash, credential: &HostCredential) -> bool {
    *hash == secret::certificate_hash(&credential.name)
}

fn no_hash() -> IntakeError {
    IntakeError::Message("the new credential is no SHA-256 of 64 digits".into())
}

fn unheard(why: Unheard) -> IntakeError {
    match why {
        Unheard::Copied => IntakeError::Copied,
        Unheard::Repeated => IntakeError::Misplaced("the message is an old one".into()),
        Unheard::Unknown => IntakeError::Misplaced("the host has to say hello first".into()),
    }
}

fn misplaced(is: ReceivedCommits, from: ForwardPosition) -> IntakeError {
    let head = is.head.map(|head| format!(" and has commits {} to {}", head.begin.commit + 1, head.end.commit));
    let (at, head) = (is.position.commit, head.unwrap_or_default());
    IntakeError::Misplaced(format!("it is at commit {at}{head}, and the request begins at {}", from.commit))
}

/// Checks that the positions of a request are those of its pages.
fn check_positions(head: &RowsHead, epoch: i64, pages: impl Iterator<Item = (i64, u64)>) -> Result<(), IntakeError> {
    let RowsHead { mode, from, to, .. } = head;
    let is_right = match mode {
        AdvanceKind::Commits => {
            let (mut checksum, mut last, mut ascends) = (from.checksum, from.commit.saturating_add(1), true);
            for (commit, stored) in pages {
                ascends &= commit >= last;
                last = commit;
                checksum = checksum_with(checksum, stored);
            }
            let is_behind =
                if to.pages == 0 { to.commit >= last || to.commit >= from.commit } else { to.commit >= from.commit };
            ascends && is_behind && checksum == to.checksum && from.copies == 0 && to.copies == 0 && head.epoch == epoch
        }
        AdvanceKind::OpenHead => {
            let is_later = to.is_between_commits() && to.commit > from.commit;
            is_later && from.copies == 0 && head.epoch == epoch && pages.count() == 0
        }
        AdvanceKind::Compare => {
            let body = pages.fold(0, |sum, (_, stored)| checksum_with(sum, stored));
            *to == from.after_copy(body) && head.epoch == epoch
        }
        AdvanceKind::Adopt => {
            to.is_between_commits() && to.commit >= 0 && head.epoch == epoch.saturating_add(1) && pages.count() == 0
        }
    };
    if is_right { Ok(()) } else { Err(IntakeError::Message("its positions are not those of its pages".into())) }
}

#[cfg(test)]
mod tests;
