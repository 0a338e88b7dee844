//! The routes of hosts that forward here ([`daytable_forward::intake`]), and of the commands about them.
//!
//! A host shows its credential in each request. The head of a request decides before its body is read. Bodies are bounded and
//! charged as those of pushes are.

use super::context::ServerContext;
use super::error::ApiError;
use super::push::{PushContext, linger};
use super::response::{error_response, retry_after};
use super::serve::PeerCertificate;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, Request as HttpRequest, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use daytable_forward::intake::{Compared, ForwardIntake, IntakeError, ListedHost, RAW_BYTES_MAX};
use daytable_forward::protocol::{self, CountsMessage, ErrorAnswer, HelloRequest, JoinRequest, RenewRequest};
use daytable_intake::push::Refusal;
use daytable_store::catalog::hosts::{HostCredential, SecretHash};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

pub(super) const JOIN: &str = protocol::JOIN;
pub(super) const HELLO: &str = protocol::HELLO;
pub(super) const ROWS: &str = protocol::ROWS;
pub(super) const COUNTS: &str = protocol::COUNTS;
pub(super) const RENEW: &str = protocol::RENEW;
pub(super) const HOSTS: &str = "/api/hosts";
pub(super) const CONTROL_HOSTS: &str = "/-/hosts";
pub(super) const INVITE: &str = "/-/hosts/invite";
pub(super) const REVOKE: &str = "/-/hosts/revoke";
pub(super) const FORGET: &str = "/-/hosts/forget";
pub(super) const VERIFY: &str = "/-/hosts/verify";
/// How long a comparison waits for hosts. The command waits for an answer of the daemon a little longer.
const VERIFY_MAX: Duration = Duration::from_secs(50);

/// Bytes of a body with rows at most: of the largest record there can be. A host sends as much as it is let; the memory for
/// pushes bounds how much that is.
const BODY_BYTES_MAX: usize = RAW_BYTES_MAX as usize + (1 << 20);
/// When a host should try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What the routes need.
#[derive(Clone)]
pub(super) struct ForwardContext {
    pub(super) intake: Arc<ForwardIntake>,
    pub(super) push: PushContext,
}

/// The routes of hosts.
pub(super) fn routes<S: Clone + Send + Sync + 'static>(context: ForwardContext) -> Router<S> {
    Router::new()
        .route(JOIN, post(join))
        .route(HELLO, post(hello))
        .route(ROWS, post(rows))
        .route(COUNTS, post(counts))
        .route(RENEW, post(renew))
        .with_state(context)
}

/// The list of hosts, for readers.
pub(super) fn read_routes() -> Router<Arc<ServerContext>> {
    Router::new().route(HOSTS, get(list))
}

/// The routes of commands that change nothing.
pub(super) fn control_read_routes() -> Router<Arc<ServerContext>> {
    Router::new().route(CONTROL_HOSTS, get(list))
}

/// The routes of commands.
pub(super) fn control_routes() -> Router<Arc<ServerContext>> {
    Router::new()
        .merge(control_read_routes())
        .route(INVITE, post(invite))
        .route(REVOKE, post(revoke))
        .route(FORGET, post(forget))
        .route(VERIFY, post(verify))
}

/// A host, as `daytable hosts --json` shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostLine {
    /// Its name.
    pub host: String,
    /// Its folder; none if it was invited and not heard of.
    pub origin: Option<String>,
    /// When it was heard of last.
    pub seen: Option<String>,
    /// Seconds since then.
    pub silent_seconds: Option<u64>,
    /// Whether these are more than `silent_after` of `[hosts]`, of a host that is expected to speak.
    #[serde(default)]
    pub silent: bool,
    /// Records that were received of it.
    pub records: u64,
    /// Records that it has and that were not received.
    pub behind_records: u64,
    /// Those of them that are older than records which are here: a host sends its newest records first.
    #[serde(default)]
    pub backlog_records: u64,
    /// Bytes of the rows of all of them.
    pub behind_bytes: u64,
    /// Seconds since the oldest of them was committed there.
    pub behind_seconds: u64,
    /// Records that came after their day was gone here.
    pub expired: u64,
    /// Records that are lost on the host, or were cut there, by reason.
    pub lost: BTreeMap<String, u64>,
    /// Bytes that are lost there, or were cut off records, by reason.
    #[serde(default)]
    pub lost_bytes: BTreeMap<String, u64>,
    /// Its version.
    pub version: String,
    /// The last commit of it that was received as a whole.
    pub commit: i64,
    /// Whether it has no credential any more.
    pub revoked: bool,
    /// When its credential was given. A host replaces it before it is old.
    #[serde(default)]
    pub credential_given: Option<String>,
    /// The tables here that its credential may write, by patterns; none if it may write all.
    #[serde(default)]
    pub tables: Vec<String>,
    /// Requests that were refused because of another table, since this daemon started.
    #[serde(default)]
    pub refused_requests: u64,
    /// The table of the last of these.
    #[serde(default)]
    pub refused_table: Option<String>,
}

impl HostLine {
    /// A host of the list, which is silent after this time without a word.
    pub fn new(listed: &ListedHost, silent_after: Duration) -> HostLine {
        let ListedHost { host, report, silent, forbidden } = listed;
        let now = daytable_model::time::now();
        let is_known = host.origin.is_some();
        let silent = silent.or_else(|| is_known.then(|| now.since(host.seen)));
        HostLine {
            host: host.name.clone(),
            origin: host.origin.map(|origin| origin.to_string()),
            seen: silent.map(|silent| now.minus(silent).to_string()),
            silent_seconds: silent.map(|silent| silent.as_secs()),
            silent: is_known && !host.is_revoked && silent.is_some_and(|silent| silent > silent_after),
            records: host.records,
            behind_records: report.behind_records,
            backlog_records: report.backlog_records,
            behind_bytes: report.behind_bytes,
            behind_seconds: report.behind_ms / 1000,
            expired: host.expired,
            lost: report.lost.clone(),
            lost_bytes: report.lost_bytes.clone(),
            version: report.version.clone(),
            commit: host.received.position.commit,
            revoked: host.is_revoked,
            credential_given: host.given.map(|given| given.to_string()),
            tables: host.tables.patterns().to_vec(),
            refused_requests: forbidden.requests,
            refused_table: forbidden.last.as_ref().map(|(table, _)| table.clone()),
        }
    }
}

/// An invitation, as the daemon answers. It has a secret, and so no form for a log.
#[derive(Serialize, Deserialize)]
pub struct InviteLine {
    /// The address of the listener; none without one.
    pub url: Option<String>,
    /// The code.
    pub code: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InviteParams {
    name: String,
    /// Of a code that may be used again.
    seconds: Option<u64>,
    /// The tables that the host may write: patterns with commas between them.
    #[serde(default)]
    tables: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NameParams {
    name: String,
}

fn refused(error: &IntakeError) -> Response {
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = match error {
        // The host counts these apart from others.
        IntakeError::ForbiddenTable { table, .. } => {
            let (error, table) = (error.to_string(), Some(table.clone()));
            (status, axum::Json(ErrorAnswer { error, table })).into_response()
        }
        _ => error_response(status, &error.to_string()),
    };
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        response.headers_mut().insert(header::RETRY_AFTER, retry_after(RETRY_AFTER));
    }
    response
}

fn fault() -> Response {
    error_response(StatusCode::INTERNAL_SERVER_ERROR, "a fault of the daemon")
}

/// Runs what blocks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IntakeError> + Send + 'static,
) -> Result<T, Response> {
    match spawn_blocking(work).await {
        Ok(result) => result.map_err(|error| refused(&error)),
        Err(error) => {
            tracing::error!(%error, "a request of a host ended by a fault of daytable, please report it");
            Err(fault())
        }
    }
}

/// The body of a message.
async fn message<T: serde::de::DeserializeOwned>(
    context: &ForwardContext,
    request: HttpRequest,
) -> Result<T, Response> {
    let limits = context.push.push.limits();
    let read = axum::body::to_bytes(request.into_body(), protocol::MESSAGE_BYTES_MAX);
    let unread = |what: &str| refused(&IntakeError::Message(what.into()));
    let bytes: Bytes = match timeout(limits.body_timeout, read).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => return Err(unread("it is too long, or was cut")),
        Err(_) => return Err(unread("it did not arrive in time")),
    };
    serde_json::from_slice(&bytes).map_err(|error| unread(&error.to_string()))
}

fn bearer(request: &HttpRequest) -> Option<String> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, word) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| word.trim().to_owned())
}

/// Who a request says it is of.
enum Claim {
    /// It has an `Authorization`, or nothing at all.
    Credential(Option<String>),
    /// It has none, and TLS has verified the certificate of its connection.
    Certificate(PeerCertificate),
}

fn claim(request: &HttpRequest) -> Claim {
    let certificate = request.extensions().get::<PeerCertificate>().cloned();
    match certificate.filter(|_| !request.headers().contains_key(header::AUTHORIZATION)) {
        Some(certificate) => Claim::Certificate(certificate),
        None => Claim::Credential(bearer(request)),
    }
}

async fn authenticate(context: &ForwardContext, claim: Claim) -> Result<(SecretHash, HostCredential), Response> {
    let intake = context.intake.clone();
    blocking(move || match claim {
        Claim::Certificate(PeerCertificate(name)) => intake.authenticate_certificate(&name),
        Claim::Credential(word) => intake.authenticate(word.as_deref()),
    })
    .await
}

async fn join(State(context): State<ForwardContext>, request: HttpRequest) -> Response {
    // A page of another origin must not try codes.
    if request.headers().contains_key(header::ORIGIN) {
        return error_response(StatusCode::FORBIDDEN, "a browser cannot join");
    }
    let answer = async {
        let message: JoinRequest = message(&context, request).await?;
        let intake = context.intake.clone();
        blocking(move || intake.join(&message)).await
    };
    answer.await.map_or_else(|refused| refused, |answer| axum::Json(answer).into_response())
}

async fn hello(State(context): State<ForwardContext>, request: HttpRequest) -> Response {
    let answer = async {
        let credential = authenticate(&context, claim(&request)).await?;
        let message: HelloRequest = message(&context, request).await?;
        let intake = context.intake.clone();
        blocking(move || intake.hello(credential, message)).await
    };
    answer.await.map_or_else(|refused| refused, |answer| axum::Json(answer).into_response())
}

async fn rows(State(context): State<ForwardContext>, request: HttpRequest) -> Response {
    let credential = match authenticate(&context, claim(&request)).await {
        Ok(credential) => credential,
        Err(refused) => {
            let (parts, body) = request.into_parts();
            linger(&parts, &mut body.into_data_stream()).await;
            return refused;
        }
    };
    let (parts, body) = request.into_parts();
    let mut body = body.into_data_stream();
    let push = context.push.push.clone();
    let received = async {
        context.push.is_open()?;
        let mut memory = push.memory().reservation();
        let bytes = context.push.read_body(&parts, &mut body, &mut memory, BODY_BYTES_MAX).await?;
        let permit = timeout(push.limits().turn_wait, push.parse_permits().clone().acquire_owned());
        let Ok(Ok(permit)) = permit.await else { return Err(Refusal::Busy("too many requests wait to be parsed")) };
        Ok((bytes, memory, permit))
    };
    let (bytes, mut memory, permit) = match received.await {
        Ok(received) => received,
        Err(refusal) => {
            linger(&parts, &mut body).await;
            return refused(&of_refusal(&refusal));
        }
    };
    let intake = context.intake.clone();
    let stored = blocking(move || {
        let mut charge = |bytes: usize| memory.grow(bytes).map_err(|refusal| of_refusal(&refusal));
        // Others are parsed while this one waits for the disk.
        intake.rows(credential, &bytes, &mut charge, || drop(permit))
    });
    stored.await.map_or_else(|refused| refused, |answer| axum::Json(answer).into_response())
}

fn of_refusal(refusal: &Refusal) -> IntakeError {
    match refusal {
        Refusal::Busy(why) => IntakeError::Busy((*why).into()),
        Refusal::TooLarge(limit) => IntakeError::Body(daytable_store::forward::wire::BodyError::Large(limit.clone())),
        other => IntakeError::Message(other.reason().into()),
    }
}

/// The receiver of a daemon; one over a lake has none.
fn intake(context: &ServerContext) -> Result<Arc<ForwardIntake>, ApiError> {
    let none =
        || ApiError::Refused("this daemon answers over a lake, to which hosts archive: none forwards to it".into());
    context.forward.get().cloned().ok_or_else(none)
}

async fn command<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    spawn_blocking(work).await.unwrap_or_else(|_| Err(ApiError::Failed("a fault of the daemon".into())))
}

async fn list(State(context): State<Arc<ServerContext>>) -> Result<Response, ApiError> {
    let hosts = match context.forward.get().cloned() {
        Some(intake) => command(move || Ok(intake.hosts()?)).await?,
        None => Vec::new(),
    };
    let silent_after = *context.silent_after.load();
    let lines: Vec<String> = hosts
        .iter()
        .filter_map(|host| serde_json::to_string(&HostLine::new(host, silent_after)).ok())
        .map(|line| line + "\n")
        .collect();
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], lines.concat()).into_response())
}

async fn invite(
    State(context): State<Arc<ServerContext>>,
    Query(params): Query<InviteParams>,
) -> Result<Response, ApiError> {
    let (intake, url) = (intake(&context)?, context.sessions.page_url());
    let code = command(move || {
        let tables: Vec<String> = params.tables.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
        let invited = intake.invite(&params.name, &tables, params.seconds.map(Duration::from_secs));
        invited.map_err(|error| ApiError::Refused(error.to_string()))
    });
    Ok(axum::Json(InviteLine { url, code: code.await? }).into_response())
}

async fn renew(State(context): State<ForwardContext>, request: HttpRequest) -> Response {
    let answer = async {
        let credential = authenticate(&context, claim(&request)).await?;
        let message: RenewRequest = message(&context, request).await?;
        let intake = context.intake.clone();
        blocking(move || intake.renew(credential, &message)).await
    };
    answer.await.map_or_else(|refused| refused, |answer| axum::Json(answer).into_response())
}

async fn counts(State(context): State<ForwardContext>, request: HttpRequest) -> Response {
    let answer = async {
        let credential = authenticate(&context, claim(&request)).await?;
        let message: CountsMessage = message(&context, request).await?;
        let intake = context.intake.clone();
        blocking(move || intake.counts(credential, &message)).await
    };
    answer.await.map_or_else(|refused| refused, |answer| axum::Json(answer).into_response())
}

/// A host, as `daytable verify --fleet --json` shows it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ComparedLine {
    /// Its name.
    pub host: String,
    /// Whether it answered.
    pub answered: bool,
    /// Records that were compared.
    pub records: u64,
    /// Records that were not: of day-tables whose records go to several here, and of days that are gone here.
    pub elsewhere: u64,
    /// Day-tables that lack records here, with the records there and here.
    pub lacking: Vec<(String, u64, u64)>,
    /// Records that the host got meanwhile, about, which were not compared.
    #[serde(default)]
    pub later: u64,
}

async fn verify(State(context): State<Arc<ServerContext>>) -> Result<Response, ApiError> {
    let intake = intake(&context)?;
    let compared = command(move || Ok(intake.compare_all(VERIFY_MAX)?)).await?;
    let line = |(host, compared): (String, Option<Compared>)| {
        let answered = compared.is_some();
        let Compared { records, elsewhere, lacking, later } = compared.unwrap_or_default();
        let line = ComparedLine { host, answered, records, elsewhere, lacking, later };
        serde_json::to_string(&line).unwrap_or_default() + "\n"
    };
    let lines: String = compared.into_iter().map(line).collect();
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], lines).into_response())
}

async fn revoke(
    State(context): State<Arc<ServerContext>>,
    Query(params): Query<NameParams>,
) -> Result<Response, ApiError> {
    let intake = intake(&context)?;
    change(params.name, move |name| Ok(intake.revoke(name)?)).await
}

async fn forget(
    State(context): State<Arc<ServerContext>>,
    Query(params): Query<NameParams>,
) -> Result<Response, ApiError> {
    let intake = intake(&context)?;
    change(params.name, move |name| Ok(intake.forget(name)?)).await
}

async fn change(
    name: String,
    work: impl FnOnce(&str) -> Result<bool, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    let (is_changed, name) = command(move || Ok((work(&name)?, name))).await?;
    match is_changed {
        true => Ok(axum::Json(serde_json::json!({ "host": name })).into_response()),
        false => Err(ApiError::NotFound(name)),
    }
}
