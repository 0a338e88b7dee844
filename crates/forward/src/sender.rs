//! The sender: a thread for each receiver.
//!
//! ```text
//! hello ──► where both are at the same commit ──► pages after it, request by request ──┐
//!   ▲              │            (the newest first, if much waits for long: `feed`)      │
//!   │              └─ nowhere: compare whole pages and days, then adopt ────────────────┤
//!   └───────── an answer that was not expected, an error (after a pause) ◄──────────────┘
//! ```
//!
//! The receiver's position is the truth. What the catalog here has of it only holds pages back from compaction and sealing, and
//! days from being dropped; it is written once a second while the position moves.

use crate::client::{ClientError, ReceiverClient};
use crate::enrolment::Enrolment;
use crate::feed::{CommitFeed, FeedStep};
use crate::options::ForwardOptions;
use crate::protocol::{CountsMessage, HelloAnswer, HelloRequest, HostReport, RowsHead, bound_reasons};
use crate::request_size::RequestSize;
use crate::secret;
use daytable_model::time;
use daytable_platform::lock;
use daytable_store::accounting::counts_bytes;
use daytable_store::forward::intervals::{AdvanceKind, AdvanceResult, HeadInterval, ReceivedCommits};
use daytable_store::forward::position::{FolderOrigin, ForwardPosition, checksum_with};
use daytable_store::forward::reader::{Behind, CommitPages, CopyCursor, ForwardError, ForwardReader};
use daytable_store::forward::receive::SenderName;
use daytable_store::forward::wire::{BodyPieces, WirePage};
use daytable_store::forward::{inventory, repeated_keys};
use daytable_store::{
    CommitQueue, ForwardState, ForwardSteps, ListenerLedger, Reader, SourceKind, SourceState, StoreError,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

mod session_credential;

/// How often a host says that it is there: before the receiver ends an idle connection, which it does after ten seconds.
const HELLO_EVERY: Duration = Duration::from_secs(8);
/// How long the memory of requests is kept for the next one. A busy host has it sooner.
const MEMORY_KEPT: Duration = Duration::from_secs(2);
/// How often the position is written while it moves.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// How often losses are counted for the report.
const LOSSES_EVERY: Duration = Duration::from_secs(60);
/// The first pause after a failure, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The longest pause that a receiver may ask for.
const ASKED_PAUSE_MAX: Duration = Duration::from_secs(300);

/// What a sender does, for people and metrics.
#[derive(Clone, Debug, Default)]
pub struct SenderState {
    /// The address of the receiver.
    pub to: String,
    /// The name that this host has there.
    pub name: Option<String>,
    /// Why nothing is sent, if that is so.
    pub error: Option<String>,
    /// How much the receiver lacks.
    pub behind: Behind,
    /// Whether whole pages and days are compared.
    pub is_comparing: bool,
    /// The last records that a backend of OpenTelemetry refused for good, and why.
    pub refusal: Option<String>,
}

/// What a sender counts.
#[derive(Debug, Default)]
pub struct SenderStatus {
    pub(crate) state: Mutex<SenderState>,
    /// Records that were sent and stored.
    pub records: AtomicU64,
    /// Bytes of bodies.
    pub bytes: AtomicU64,
    /// Records that the receiver refused, because their day is gone there.
    pub expired: AtomicU64,
    /// Records that a backend of OpenTelemetry refused for good.
    pub refused: AtomicU64,
    /// Failed requests.
    pub failures: AtomicU64,
    /// Those of them that the receiver refused because the credential is not for a table of them.
    pub forbidden: AtomicU64,
    /// Pages that are damaged here.
    pub damaged_pages: AtomicU64,
}

impl SenderStatus {
    /// What the sender does.
    pub fn state(&self) -> SenderState {
        lock(&self.state).clone()
    }
}

/// What this process calls itself in all its messages, so that a receiver tells it from a copy of its folder.
pub struct SenderProcess {
    instance: u64,
    /// The last message. Senders that are started anew go on from there.
    turns: AtomicU64,
}

impl SenderProcess {
    /// A number that no other process has.
    ///
    /// # Errors
    ///
    /// There are no random numbers.
    pub fn new() -> std::io::Result<Arc<SenderProcess>> {
        Ok(Arc::new(SenderProcess { instance: secret::instance()?, turns: AtomicU64::new(0) }))
    }

    fn turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }
}

/// A running sender.
pub struct Sender {
    options: ForwardOptions,
    stop: Arc<AtomicBool>,
    queue: CommitQueue,
    thread: JoinHandle<()>,
    /// Its state.
    pub status: Arc<SenderStatus>,
}

impl Sender {
    /// Starts a sender of the commits of `data_dir`. `host` is the name of this host, if it joins by itself.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn start(
        options: ForwardOptions,
        host: String,
        data_dir: PathBuf,
        (steps, queue): (ForwardSteps, CommitQueue),
        process: Arc<SenderProcess>,
    ) -> std::io::Result<Sender> {
        let enrolment = options.code_file.clone().map(|code_file| Enrolment::new(code_file, host));
        let status = Arc::new(SenderStatus::default());
        lock(&status.state).to.clone_from(&options.to);
        let stop = Arc::new(AtomicBool::new(false));
        let session = Work {
            options: options.clone(),
            enrolment,
            data_dir,
            steps,
            queue: queue.clone(),
            status: status.clone(),
            stop: stop.clone(),
            origin: FolderOrigin([0; 16]),
            process,
            answered: 0,
            noted: None,
            head: None,
            losses: None,
            counted: 0,
            size: RequestSize::default(),
            comparison: None,
            is_forbidden: false,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("forward".into()).spawn(move || session.work(&runtime))?;
        Ok(Sender { options, stop, queue, thread, status })
    }

    /// A sender whose thread works already.
    pub(crate) fn of_thread(
        options: ForwardOptions,
        stop: Arc<AtomicBool>,
        queue: CommitQueue,
        thread: JoinHandle<()>,
        status: Arc<SenderStatus>,
    ) -> Sender {
        Sender { options, stop, queue, thread, status }
    }

    /// What it was started with.
    pub fn options(&self) -> &ForwardOptions {
        &self.options
    }

    /// Whether its thread ended, which it does by a fault only.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished() && !self.stop.load(Ordering::Relaxed)
    }

    /// Asks it to end. A request that is under way ends first, or is given up after a moment.
    pub fn begin_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.queue.wake_followers();
    }

    /// Waits for its end, at most so long.
    pub fn stop(self, patience: Duration) {
        self.begin_stop();
        let until = Instant::now() + patience;
        while !self.thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

struct Work {
    options: ForwardOptions,
    /// How it joins by itself.
    enrolment: Option<Enrolment>,
    data_dir: PathBuf,
    steps: ForwardSteps,
    queue: CommitQueue,
    status: Arc<SenderStatus>,
    stop: Arc<AtomicBool>,
    origin: FolderOrigin,
    process: Arc<SenderProcess>,
    /// The last hello that had an answer.
    answered: u64,
    /// The position in the catalog, and when it was written.
    noted: Option<(ForwardPosition, Instant)>,
    /// Later commits that the receiver has.
    head: Option<HeadInterval>,
    losses: Option<(HostLosses, Instant)>,
    /// The last question for the records of this host that was answered, or could not be.
    counted: u64,
    size: RequestSize,
    /// A comparison that is under way, or was when a session ended.
    comparison: Option<FolderComparison>,
    /// Whether the last request was refused because the credential is not for a table of it.
    is_forbidden: bool,
}

/// Where a comparison stands.
struct FolderComparison {
    /// Pages of later commits are compared.
    common: i64,
    /// This folder before the first page was read: what comes meanwhile is sent afterwards.
    last: ForwardState,
    /// What was sent, and answered.
    cursor: CopyCursor,
    /// The receiver's epoch and position after that.
    at: (i64, ForwardPosition),
    /// A request without an answer so far: the receiver's position after it, and what was sent with it. The receiver may have it.
    unanswered: Option<(ForwardPosition, CopyCursor)>,
    /// Whether a day was sealed or dropped since, so it has to begin anew.
    is_void: bool,
}

impl FolderComparison {
    /// The comparison as it goes on where the receiver is: before the request that had no answer, or after it. `None` if the
    /// receiver is elsewhere. Otherwise a comparison of a large folder would never end where answers are lost now and then.
    fn resumed_at(mut self, (epoch, position): (i64, ForwardPosition)) -> Option<FolderComparison> {
        if self.is_void || position.copies == 0 {
            return None;
        }
        if let Some((_, cursor)) = self.unanswered.take_if(|(to, _)| self.at.0 == epoch && *to == position) {
            return Some(FolderComparison { cursor, at: (epoch, position), ..self });
        }
        self.unanswered = None;
        (self.at == (epoch, position)).then_some(self)
    }
}

/// Why a session ends.
#[derive(Debug, thiserror::Error)]
enum SessionEnd {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("stopping")]
    Stopped,
}

impl Work {
    fn work(mut self, runtime: &tokio::runtime::Runtime) {
        let mut pause = PAUSE_MIN;
        let mut last_error = None;
        // What an earlier process knew, so that the first report does not say that everything is missing.
        let known = Reader::open(&self.data_dir).and_then(|reader| reader.catalog().forward_targets());
        let known = known.unwrap_or_default().into_iter().find(|(name, _)| *name == self.options.to);
        self.noted = known.map(|(_, position)| (position, Instant::now()));
        while !self.is_stopping() {
            let (begun, sent) = (Instant::now(), self.status.bytes.load(Ordering::Relaxed));
            let end = self.session(runtime);
            let Err(error) = end else { break };
            if matches!(error, SessionEnd::Stopped) {
                break;
            }
            // Half as much may be little enough.
            if matches!(&error, SessionEnd::Client(error) if error.is_too_large()) && self.size.refused() {
                let pages = self.size.limits().pages;
                tracing::debug!(to = self.options.to, pages, %error, "smaller requests are sent");
                continue;
            }
            self.is_forbidden = matches!(error, SessionEnd::Client(ClientError::ForbiddenTable { .. }));
            self.status.forbidden.fetch_add(u64::from(self.is_forbidden), Ordering::Relaxed);
            // The position is asked for again, at once.
            let is_expected = matches!(&error, SessionEnd::Client(error) if error.is_misplaced());
            let text = error.to_string();
            // A network that fails now and then is none that is away.
            if begun.elapsed() > PAUSE_MAX || self.status.bytes.load(Ordering::Relaxed) > sent {
                pause = PAUSE_MIN;
            }
            if !is_expected || begun.elapsed() < PAUSE_MIN {
                self.status.failures.fetch_add(1, Ordering::Relaxed);
                if last_error.as_ref() != Some(&text) {
                    // One line an outage: `daytable status` shows the reason.
                    tracing::warn!(to = self.options.to, error = text, "failed to forward, which is tried again");
                    last_error = Some(text.clone());
                }
                lock(&self.status.state).error = Some(text);
                self.wait(self.pause_after(&error, pause));
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.queue.is_closed()
    }

    /// The pause after a failure: between half of it and the whole, so that many hosts do not come at once.
    fn pause_after(&self, error: &SessionEnd, pause: Duration) -> Duration {
        let asked = match error {
            SessionEnd::Client(ClientError::Refused { after, .. }) => after.unwrap_or_default().min(ASKED_PAUSE_MAX),
            _ => Duration::ZERO,
        };
        let is_lasting = matches!(error, SessionEnd::Client(error) if error.is_lasting());
        let pause = if is_lasting { pause.max(PAUSE_MAX / 6) } else { pause };
        let share = f64::from(u32::try_from(secret::instance().unwrap_or(self.process.instance) & 0xffff).unwrap_or(0))
            / 65536.0;
        asked + pause.mul_f64(0.5 + share / 2.0)
    }

    /// Waits, unless it is stopped.
    fn wait(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while !self.is_stopping() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20).min(pause));
        }
    }

    /// Runs a request, which a stop gives up after a moment.
    fn request<T>(
        &self,
        runtime: &tokio::runtime::Runtime,
        request: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, SessionEnd> {
        runtime.block_on(async {
            let stopped = async {
                while !self.is_stopping() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            };
            tokio::select! {
                answer = request => Ok(answer?),
                () = stopped => Err(SessionEnd::Stopped),
            }
        })
    }

    /// Sends until something is not as expected.
    fn session(&mut self, runtime: &tokio::runtime::Runtime) -> Result<(), SessionEnd> {
        let mut feed = CommitFeed::open(self.data_dir.clone())?;
        let (mut shown, mut answer) = self.greet(runtime, &feed.reader)?;
        self.renew(runtime, &mut shown, (&feed.reader, answer.renew))?;
        let mut said = Instant::now();
        let mut compare = self.begin(&mut feed.reader, &answer)?;
        {
            let mut state = lock(&self.status.state);
            // A receiver that refused the rows for their table knows the host all the same.
            if !self.is_forbidden && (state.error.take().is_some() || state.name.is_none()) {
                let commit = answer.received.position.commit;
                tracing::info!(to = self.options.to, name = answer.name, commit, "forwarding");
            }
            state.name = Some(answer.name.clone());
        }
        // Whether the last report of this host does not know what the receiver has.
        let mut is_news = answer.received.head.is_some();
        loop {
            if self.is_stopping() {
                self.note(answer.received.position, true)?;
                return Err(SessionEnd::Stopped);
            }
            if let Some(mut comparison) = compare.take() {
                let ended = self.compare(runtime, &shown.client, &mut feed.reader, &mut answer, &mut comparison);
                feed.rewind();
                // The next session goes on there, if the receiver is where it says.
                self.comparison = ended.is_err().then_some(comparison);
                ended?;
                continue;
            }
            match feed.next(&answer.received, self.size.limits(), time::now())? {
                FeedStep::Compare(common) => compare = Some(self.comparison(&feed.reader, common, &answer)?),
                FeedStep::OpenHead(begin) => {
                    let from = answer.received.position;
                    self.send(runtime, &shown.client, &mut answer, (AdvanceKind::OpenHead, from, begin), Vec::new())?;
                    is_news = true;
                    tracing::info!(
                        to = self.options.to,
                        from = from.commit,
                        until = begin.commit,
                        "newer commits are forwarded first, and the backlog beside them"
                    );
                }
                FeedStep::Pages { from, pages: CommitPages { to, .. } }
                    if answer.received.joins(from, to) && self.repeats_keys(to.commit)? =>
                {
                    tracing::info!(
                        to = self.options.to,
                        "newer commits have keys of earlier ones, so pages are compared before the backlog ends"
                    );
                    compare = Some(self.comparison(&feed.reader, from.commit, &answer)?);
                }
                FeedStep::Pages { from, pages: CommitPages { pages, to, is_all, .. } } => {
                    let records: u64 = pages.iter().map(|page| u64::from(page.records())).sum();
                    let had_head = answer.received.head.is_some();
                    self.send(runtime, &shown.client, &mut answer, (AdvanceKind::Commits, from, to), pages)?;
                    self.status.records.fetch_add(records, Ordering::Relaxed);
                    self.note(answer.received.position, false)?;
                    let is_one = answer.received.head.is_none();
                    if had_head && is_one {
                        feed.join();
                        is_news = true;
                        tracing::info!(to = self.options.to, until = to.commit, "the backlog is forwarded");
                    }
                    // A host that is busy always has something to send.
                    if is_all && !had_head && answer.asked > self.counted {
                        self.count(runtime, &shown.client, &feed.reader, &answer, to)?;
                    }
                }
                FeedStep::Nothing(up_to) => {
                    self.end_refusal();
                    // The receiver has all rows of the commits up to there.
                    self.note(up_to, true)?;
                    lock(&self.status.state).behind = Behind::default();
                    if answer.asked > self.counted {
                        self.count(runtime, &shown.client, &feed.reader, &answer, up_to)?;
                    }
                    let goes_on = || !self.stop.load(Ordering::Relaxed);
                    let left = HELLO_EVERY.saturating_sub(said.elapsed());
                    let last = self.queue.wait_for_commit(up_to.commit, left.min(MEMORY_KEPT), goes_on);
                    if last <= up_to.commit {
                        feed.release_memory();
                        let left = HELLO_EVERY.saturating_sub(said.elapsed());
                        self.queue.wait_for_commit(up_to.commit, left, goes_on);
                    }
                }
            }
            if said.elapsed() >= HELLO_EVERY || std::mem::take(&mut is_news) {
                said = Instant::now();
                feed.forget_gone()?;
                if shown.has_file_changed() {
                    let reason = "its credential file changed".to_owned();
                    return Err(ClientError::Refused { status: 409, reason, after: None }.into());
                }
                let now = self.hello(runtime, &shown.client, &feed.reader)?;
                answer.asked = now.asked;
                if now.received != answer.received {
                    // Another position than the one that was answered: begin anew.
                    return Err(
                        ClientError::Refused { status: 409, reason: "its position moved".into(), after: None }.into()
                    );
                }
                self.renew(runtime, &mut shown, (&feed.reader, now.renew))?;
            }
        }
    }

    fn hello(
        &mut self,
        runtime: &tokio::runtime::Runtime,
        client: &ReceiverClient,
        reader: &ForwardReader,
    ) -> Result<HelloAnswer, SessionEnd> {
        let state = reader.state()?;
        let known = self.noted.map_or(0, |(noted, _)| noted.commit);
        let behind = reader.behind(known, self.head)?;
        lock(&self.status.state).behind = behind;
        let now = time::now();
        let (lost, lost_bytes) = self.losses()?;
        let report = HostReport {
            version: env!("CARGO_PKG_VERSION").into(),
            committed: state.committed,
            records: state.records,
            behind_records: behind.records,
            backlog_records: behind.backlog,
            behind_bytes: behind.bytes,
            behind_ms: behind.oldest.map_or(0, |oldest| u64::try_from(now.since(oldest).as_millis()).unwrap_or(0)),
            lost,
            lost_bytes,
            received: None,
        };
        self.origin = state.origin;
        let (instance, turn) = (self.process.instance, self.process.turn());
        let request = HelloRequest { origin: state.origin, instance, turn, answered: self.answered, report };
        let answer = self.request(runtime, client.hello(&request));
        if match &answer {
            Ok(_) => true,
            Err(SessionEnd::Client(error)) => error.is_misplaced(),
            Err(_) => false,
        } {
            self.answered = turn;
        }
        if let Ok(answer) = &answer {
            self.head = answer.received.head;
        }
        answer
    }

    /// What is lost on this host.
    fn losses(&mut self) -> Result<HostLosses, StoreError> {
        if let Some((losses, at)) = &self.losses
            && at.elapsed() < LOSSES_EVERY
        {
            return Ok(losses.clone());
        }
        let losses = losses_of(&Reader::open(&self.data_dir)?)?;
        self.losses = Some((losses.clone(), Instant::now()));
        Ok(losses)
    }

    /// Counts the records of this host up to a commit, of which the receiver has all, and says so. Nothing is sent meanwhile, and
    /// what is committed meanwhile is left out, so both count the same commits.
    fn count(
        &mut self,
        runtime: &tokio::runtime::Runtime,
        client: &ReceiverClient,
        sent: &ForwardReader,
        answer: &HelloAnswer,
        up_to: ForwardPosition,
    ) -> Result<(), SessionEnd> {
        // Whatever comes of it: a question is answered once.
        self.counted = answer.asked;
        let reader = Reader::open(&self.data_dir)?;
        let sender = SenderName { log_host: &answer.name, in_keys: &answer.name_in_keys };
        let days = match inventory::count_sent(&reader, sender, up_to.commit, &|| !self.is_stopping()) {
            Ok(Some(days)) => days,
            Ok(None) => return Err(SessionEnd::Stopped),
            Err(error) => {
                // Forwarding goes on, and the receiver says that there was no answer.
                tracing::warn!(to = self.options.to, %error, "failed to count the records of this host: `verify --fleet` there lacks its answer");
                return Ok(());
            }
        };
        let later = sent.behind(up_to.commit, None)?.records;
        let message = CountsMessage { origin: self.origin, asked: answer.asked, commit: up_to.commit, days, later };
        match self.request(runtime, client.counts(&message)) {
            Err(SessionEnd::Client(error)) => {
                tracing::warn!(to = self.options.to, %error, "failed to send the counts of this host: `verify --fleet` there lacks its answer");
                Ok(())
            }
            sent => sent.map(drop),
        }
    }

    /// Whether a key is written after a commit that was written before.
    fn repeats_keys(&self, commit: i64) -> Result<bool, SessionEnd> {
        let reader = Reader::open(&self.data_dir)?;
        repeated_keys::repeats_keys(&reader, commit, &|| !self.is_stopping())?.ok_or(SessionEnd::Stopped)
    }

    /// Decides how to go on from the receiver's position: from there (`None`), or by a comparison from a commit on that both
    /// have.
    fn begin(
        &mut self,
        reader: &mut ForwardReader,
        answer: &HelloAnswer,
    ) -> Result<Option<FolderComparison>, SessionEnd> {
        let ReceivedCommits { epoch, position, head } = answer.received;
        reader.rewind();
        let known = self.comparison.take().and_then(|known| known.resumed_at((epoch, position)));
        if known.is_some() {
            return Ok(known);
        }
        let mut are_own = position.copies == 0;
        for end in [Some(position), head.map(|head| head.begin), head.map(|head| head.end)].into_iter().flatten() {
            are_own = are_own && is_own(reader, end)?;
        }
        if are_own {
            self.note(position, true)?;
            return Ok(None);
        }
        let base = ForwardPosition { pages: 0, copies: 0, copied: 0, ..position };
        let mut known = answer.history.clone();
        if position.pages == 0 {
            known.push((base.commit, base.checksum));
        }
        let mut common = 0;
        let committed = reader.state()?.committed;
        for (commit, checksum) in known {
            if commit > common && commit <= committed && reader.checksum_of(commit)? == Some(checksum) {
                common = commit;
            }
        }
        tracing::info!(
            to = self.options.to,
            from = common,
            at = position.commit,
            "the receiver has other commits than this folder, so pages are compared"
        );
        self.comparison(reader, common, answer).map(Some)
    }

    /// A comparison from its beginning.
    fn comparison(
        &mut self,
        reader: &ForwardReader,
        common: i64,
        answer: &HelloAnswer,
    ) -> Result<FolderComparison, SessionEnd> {
        self.hold(common, reader)?;
        let (last, cursor) = (reader.state()?, CopyCursor::default());
        let at = (answer.received.epoch, answer.received.position);
        Ok(FolderComparison { common, last, cursor, at, unanswered: None, is_void: false })
    }

    /// Keeps pages and days of later commits.
    fn hold(&mut self, commit: i64, reader: &ForwardReader) -> Result<(), SessionEnd> {
        let checksum = reader.checksum_of(commit)?.unwrap_or(0);
        self.note(ForwardPosition { commit, checksum, ..ForwardPosition::default() }, true)
    }

    /// Sends whole pages and days since a commit, and then goes on from the last commit of this folder.
    fn compare(
        &mut self,
        runtime: &tokio::runtime::Runtime,
        client: &ReceiverClient,
        reader: &mut ForwardReader,
        answer: &mut HelloAnswer,
        comparison: &mut FolderComparison,
    ) -> Result<(), SessionEnd> {
        lock(&self.status.state).is_comparing = true;
        let mut said = Instant::now();
        loop {
            if self.is_stopping() {
                return Err(SessionEnd::Stopped);
            }
            let mut cursor = comparison.cursor.clone();
            let copied = match reader.copy_after(comparison.common, &mut cursor, self.size.limits()) {
                Ok(Some(copied)) => copied,
                Ok(None) => break,
                // A day was sealed or dropped since: begin anew.
                Err(ForwardError::Incomplete(_)) => {
                    comparison.is_void = true;
                    return Err(
                        ClientError::Refused { status: 409, reason: "a day changed".into(), after: None }.into()
                    );
                }
                Err(ForwardError::Store(error)) => return Err(error.into()),
            };
            self.status.damaged_pages.fetch_add(copied.damaged, Ordering::Relaxed);
            if !copied.pages.is_empty() {
                let sum = copied.pages.iter().fold(0, |sum, page| checksum_with(sum, page.stored_checksum()));
                let from = answer.received.position;
                let to = from.after_copy(sum);
                comparison.unanswered = Some((to, cursor.clone()));
                self.send(runtime, client, answer, (AdvanceKind::Compare, from, to), copied.pages)?;
            }
            (comparison.cursor, comparison.at) = (cursor, (answer.received.epoch, answer.received.position));
            comparison.unanswered = None;
            if said.elapsed() >= HELLO_EVERY {
                said = Instant::now();
                self.hello(runtime, client, reader)?;
            }
        }
        let last = comparison.last;
        let to = ForwardPosition { commit: last.committed, checksum: last.checksum, ..ForwardPosition::default() };
        let from = answer.received.position;
        self.send(runtime, client, answer, (AdvanceKind::Adopt, from, to), Vec::new())?;
        self.note(to, true)?;
        lock(&self.status.state).is_comparing = false;
        Ok(())
    }

    fn send(
        &mut self,
        runtime: &tokio::runtime::Runtime,
        client: &ReceiverClient,
        answer: &mut HelloAnswer,
        (mode, from, to): (AdvanceKind, ForwardPosition, ForwardPosition),
        pages: Vec<WirePage>,
    ) -> Result<(), SessionEnd> {
        // A comparison ends in the next epoch.
        let epoch = answer.received.epoch.saturating_add(i64::from(mode == AdvanceKind::Adopt));
        let head = RowsHead { origin: self.origin, instance: self.process.instance, mode, epoch, from, to };
        let AdvanceResult::Moves(received) = answer.received.after(head.step()) else {
            let reason = format!("it has other commits where the request for commit {} begins", to.commit);
            return Err(ClientError::Refused { status: 409, reason, after: None }.into());
        };
        let is_joining = mode == AdvanceKind::Commits && answer.received.joins(from, to);
        if is_joining {
            daytable_platform::failpoint!("forward-before-join");
        }
        let body = BodyPieces::new(&serde_json::to_string(&head).unwrap_or_default(), pages);
        let bytes = body.bytes();
        daytable_platform::failpoint!("forward-before-send");
        let stored = self.request(runtime, client.rows(body))?;
        daytable_platform::failpoint!("forward-sent");
        if stored.position != to {
            return Err(ClientError::Network("the answer is for another request".into()).into());
        }
        if is_joining {
            daytable_platform::failpoint!("forward-after-join");
        }
        (answer.received, self.head) = (received, received.head);
        self.end_refusal();
        self.size.accepted();
        self.status.bytes.fetch_add(bytes, Ordering::Relaxed);
        if stored.expired > 0 {
            self.status.expired.fetch_add(stored.expired, Ordering::Relaxed);
            tracing::warn!(
                to = self.options.to,
                records = stored.expired,
                "the days of records are gone at the receiver: it keeps them for a shorter time"
            );
        }
        Ok(())
    }

    /// What the receiver refused for its table is there, or gone here.
    fn end_refusal(&mut self) {
        if std::mem::take(&mut self.is_forbidden) {
            lock(&self.status.state).error = None;
            tracing::info!(to = self.options.to, "the receiver refuses no table any more");
        }
    }

    /// Writes the position to the catalog, at once or if that is due. It must not be later than that of the receiver.
    fn note(&mut self, position: ForwardPosition, is_due: bool) -> Result<(), SessionEnd> {
        let is_same = self.noted.is_some_and(|(noted, _)| noted.commit == position.commit);
        let is_due = is_due || self.noted.is_none_or(|(_, at)| at.elapsed() >= NOTE_EVERY);
        if is_same || !is_due {
            return Ok(());
        }
        self.steps.note_forwarded(&self.options.to, position)?;
        self.noted = Some((position, Instant::now()));
        Ok(())
    }
}

/// Records and bytes that are lost on a host, or were cut there, by reason.
type HostLosses = (BTreeMap<String, u64>, BTreeMap<String, u64>);

/// The losses of all ledgers of a folder. A reason has the kind of its source before it.
fn losses_of(reader: &Reader) -> Result<HostLosses, StoreError> {
    let (mut records, mut bytes) = HostLosses::default();
    let mut add = |kind: &str, reason: &str, count: u64| {
        let losses = if counts_bytes(reason) { &mut bytes } else { &mut records };
        if count > 0 {
            let total = losses.entry(format!("{kind}: {reason}")).or_default();
            *total = total.saturating_add(count);
        }
    };
    for SourceState { kind, ledger, .. } in reader.sources()? {
        // What the configuration leaves out is no loss.
        for (reason, count) in [
            ("lost_records", ledger.lost_records),
            ("lost_bytes", ledger.lost_bytes),
            ("truncated_records", ledger.truncated_records),
            ("truncated_bytes", ledger.truncated_bytes),
        ] {
            add(kind_name(kind), reason, count);
        }
    }
    for ListenerLedger { kind, losses, .. } in reader.catalog().listeners()? {
        losses.iter().for_each(|(reason, count)| add(&kind, reason, *count));
    }
    [&mut records, &mut bytes].into_iter().for_each(bound_reasons);
    Ok((records, bytes))
}

fn kind_name(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Tail => "tail",
        SourceKind::Import => "import",
        SourceKind::Journal => "journal",
    }
}

/// Whether a position is one of this folder: it has the same commits up to there.
fn is_own(reader: &mut ForwardReader, position: ForwardPosition) -> Result<bool, SessionEnd> {
    if position.commit > reader.state()?.committed {
        return Ok(false);
    }
    let Some(checksum) = reader.checksum_of(position.commit)? else { return Ok(false) };
    if position.pages == 0 {
        return Ok(checksum == position.checksum);
    }
    let base = ForwardPosition { commit: position.commit, checksum, ..ForwardPosition::default() };
    let begun = reader.checksum_within(base, position.pages);
    reader.rewind();
    match begun {
        Ok(begun) => Ok(begun == Some(position.checksum)),
        Err(ForwardError::Incomplete(_)) => Ok(false),
        Err(ForwardError::Store(error)) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_goes_on_where_the_receiver_is() {
        let state = ForwardState { origin: FolderOrigin([1; 16]), committed: 9, checksum: 7, records: 5 };
        let first = ForwardPosition { commit: 3, ..ForwardPosition::default() }.after_copy(1);
        let next = first.after_copy(2);
        let resumed = |is_void, at| {
            let (cursor, unanswered) = (CopyCursor::default(), Some((next, CopyCursor::default())));
            FolderComparison { common: 3, last: state, cursor, at: (4, first), unanswered, is_void }.resumed_at(at)
        };
        // The request did not arrive, or its answer was lost.
        assert_eq!(resumed(false, (4, first)).map(|comparison| comparison.at), Some((4, first)));
        assert_eq!(resumed(false, (4, next)).map(|comparison| comparison.at), Some((4, next)));
        for at in [(5, first), (5, next), (4, next.after_copy(3)), (4, ForwardPosition::default())] {
            assert!(resumed(false, at).is_none(), "{at:?}");
        }
        assert!(resumed(true, (4, first)).is_none(), "a day changed");
    }
}
