//! The client: signs each request, sends the request once over pooled connections, and reads the answer within limits.

use super::account::{Secret, is_loopback};
use super::entity;
use super::error::{ErrorDetail, ErrorKind, RequestInfo, RetryAfter, kind_of};
use super::names::{encoded, entity_path};
use super::response::{self, TransactionOutcome};
use super::signature::shared_key;
use super::token::{SentToken, TokenError};
use super::transaction::CONTENT_TYPE as TRANSACTION;
use super::write::{write_partition_key, write_row};
use super::{
    Continuation, DateTime, ETag, EdmValue, Entity, EntityPage, Error, Flavour, IfMatch, Query, SealedTransaction,
    StorageAccount, Transaction, WriteMode,
};
use bytes::Bytes;
use chrono::Datelike;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, IF_MATCH};
use reqwest::{Method, StatusCode, Url};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The version of the protocol.
const VERSION: &str = "2020-12-06";
const JSON: &str = "application/json";
const MINIMAL: &str = "application/json;odata=minimalmetadata";
/// Maximum bytes of an answer. A transaction's answer has some 600 bytes per entity, and 12 KiB after inserts of long
/// keys. A page of the service ends at 4 MiB, a page of Azurite at a thousand entities.
const ANSWER_BYTES_MAX: usize = 4 << 20;
const PAGE_BYTES_MAX: usize = 64 << 20;
/// Maximum tables in a list, and maximum pages: a page may be empty and not the last.
const TABLES_MAX: usize = 100_000;
const TABLE_PAGES_MAX: usize = 10_000;

/// Settings of the connection.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions {
    /// Time limit for a connection, including TLS.
    pub connect: Duration,
    /// Time limit for a request, from its first byte to the last byte of the answer.
    pub request: Duration,
    /// Maximum idle time of a connection before reuse.
    pub idle: Duration,
    /// The clock that dates requests. The service accepts a difference of 15 minutes.
    pub clock: fn() -> DateTime,
}

impl ClientOptions {
    /// 10 s for a connection, 60 s for a request (twice the limit of the service), 60 s idle.
    pub fn new(clock: fn() -> DateTime) -> ClientOptions {
        ClientOptions {
            connect: Duration::from_secs(10),
            request: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            clock,
        }
    }
}

/// Why the client cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be set up: {0}")]
pub struct SetupError(#[source] reqwest::Error);

/// A client of one account. Cheap to clone; all clones share their connections. Await requests within a tokio runtime.
/// A request that was dropped may have been executed.
#[derive(Clone)]
pub struct Client(Arc<ClientInner>);

struct ClientInner {
    http: reqwest::Client,
    account: StorageAccount,
    clock: fn() -> DateTime,
    /// Prefix of the request ids of this client.
    name: u64,
    requests: AtomicU64,
}

/// A request before it is signed.
struct HttpRequest<'a> {
    method: Method,
    /// Path below the account's address, percent-encoded, without the leading `/`.
    path: &'a str,
    /// Query without `?`.
    query: &'a str,
    accept: &'static str,
    if_match: Option<IfMatch<'a>>,
    content: Option<(&'static str, Bytes)>,
    answer_bytes_max: usize,
    /// The operation, as text after "failed to".
    doing: String,
}

struct Response {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
    asked: RequestInfo,
}

impl Client {
    /// Creates a client. Sends no request yet.
    pub fn new(account: StorageAccount, options: ClientOptions) -> Result<Client, SetupError> {
        // reqwest uses the default cryptography provider of the process. An existing default provider stays.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .http1_only()
            .tcp_nodelay(true)
            .connect_timeout(options.connect)
            .timeout(options.request)
            .pool_idle_timeout(options.idle)
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")));
        if is_loopback(account.endpoint()) {
            // The emulator is local, so no proxy applies.
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(SetupError)?;
        // `RandomState` has random keys.
        let name = std::hash::RandomState::new().build_hasher().finish();
        Ok(Client(Arc::new(ClientInner { http, account, clock: options.clock, name, requests: AtomicU64::new(0) })))
    }

    /// The account.
    pub fn account(&self) -> &StorageAccount {
        &self.0.account
    }

    /// Creates a table. If the table exists, the error is [`ErrorKind::TableAlreadyExists`].
    pub async fn create_table(&self, table: &str) -> Result<(), Error> {
        let body = serde_json::json!({ "TableName": table }).to_string();
        let request = HttpRequest {
            content: Some((JSON, body.into())),
            ..HttpRequest::new(Method::POST, "Tables", "", format!("create the table {table}"))
        };
        let answer = self.send(request).await?;
        answer.succeeded()
    }

    /// Drops a table. The table is gone at once; its name is free after the service has deleted the rows, in about a
    /// minute. If the table is missing, the error is [`ErrorKind::TableNotFound`].
    pub async fn drop_table(&self, table: &str) -> Result<(), Error> {
        let path = format!("Tables('{}')", encoded(table));
        let answer = self.send(HttpRequest::new(Method::DELETE, &path, "", format!("drop the table {table}"))).await?;
        answer.succeeded().map_err(|error| match error.kind() {
            ErrorKind::NotFound => error.of_kind(ErrorKind::TableNotFound),
            _ => error,
        })
    }

    /// The names of all tables that begin with `prefix`, in the order of the service. Tables that are being deleted
    /// are not listed. More than a hundred thousand tables give [`ErrorKind::TooLarge`].
    pub async fn list_tables(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let mut filter = String::new();
        if let Some(last) = prefix.chars().last() {
            // Names with the prefix lie below the prefix with its last character incremented.
            let raised = char::from_u32(u32::from(last) + 1).unwrap_or(char::MAX);
            let above = format!("{}{raised}", &prefix[..prefix.len() - last.len_utf8()]);
            let quoted = |text: &str| text.replace('\'', "''");
            let text = format!("TableName ge '{}' and TableName lt '{}'", quoted(prefix), quoted(&above));
            filter = format!("$filter={}", encoded(&text));
        }
        let (mut tables, mut next, mut pages): (Vec<String>, Option<String>, usize) = (Vec::new(), None, 0);
        loop {
            pages += 1;
            let mut query = filter.clone();
            if let Some(next) = &next {
                query = [query.as_str(), if query.is_empty() { "" } else { "&" }, "NextTableName=", &encoded(next)]
                    .concat();
            }
            let doing = format!("list the tables {prefix}*");
            let answer = self
                .send(HttpRequest { accept: JSON, ..HttpRequest::new(Method::GET, "Tables", &query, doing) })
                .await?;
            answer.expect(200)?;
            let page = entity::tables(&answer.body).map_err(|error| answer.garbled(&error.to_string()))?;
            tables.extend(page.into_iter().filter(|table| self.begins_with(table, prefix)));
            let going_on = answer.header("x-ms-continuation-NextTableName");
            if going_on.is_some() && going_on == next {
                return Err(answer.garbled("the list does not go on"));
            }
            if tables.len() > TABLES_MAX || pages > TABLE_PAGES_MAX {
                return Err(answer.asked.unanswered(
                    ErrorKind::TooLarge,
                    Some(answer.status),
                    "there are too many",
                    false,
                ));
            }
            next = going_on;
            if next.is_none() {
                return Ok(tables);
            }
        }
    }

    /// Only Cosmos DB distinguishes names by case.
    fn begins_with(&self, table: &str, prefix: &str) -> bool {
        match self.0.account.flavour() {
            Flavour::Cosmos => table.starts_with(prefix),
            Flavour::Storage => table.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)),
        }
    }

    /// Sends a transaction, which is executed completely or not at all. A transaction of upserts only may be repeated.
    /// An empty transaction is not sent. Returns the new version of each entity, in the order of the transaction; a deleted
    /// entity has none.
    pub async fn transact(&self, transaction: &SealedTransaction) -> Result<Vec<Option<ETag>>, Error> {
        if transaction.is_empty() {
            return Ok(Vec::new());
        }
        let doing = format!("write {} entities to {}", transaction.len(), transaction.table());
        let request = HttpRequest {
            content: Some((TRANSACTION, transaction.bytes().clone())),
            ..HttpRequest::new(Method::POST, "$batch", "", doing)
        };
        let answer = self.send(request).await?;
        // The service always answers 202; Cosmos DB answers 200.
        if !matches!(answer.status, 200 | 202) {
            return answer.succeeded().and_then(|()| Err(answer.garbled("the answer is not that of a transaction")));
        }
        let content_type = answer.header("content-type").unwrap_or_default();
        match response::outcome(&content_type, &answer.body, transaction.len()) {
            TransactionOutcome::Done(versions) => Ok(versions),
            TransactionOutcome::Failed { status, fault, after } => {
                let kind = kind_of(status, &fault, after.or(answer.retry_after()), true);
                Err(answer.asked.refused(status, fault, kind))
            }
            TransactionOutcome::Garbled(why) => Err(answer.garbled(why)),
        }
    }

    /// Writes one entity. Returns its new version, if the answer names it.
    ///
    /// # Errors
    ///
    /// Where the mode does not allow the write, the [`ErrorKind`] that the mode names. An entity larger than a transaction may be
    /// is not sent, and gives [`ErrorKind::TooLarge`].
    pub async fn write<'p, N: AsRef<str>>(
        &self,
        table: &str,
        partition_key: &str,
        row_key: &str,
        mode: WriteMode<'_>,
        properties: impl IntoIterator<Item = (N, EdmValue<'p>)>,
    ) -> Result<Option<ETag>, Error> {
        let (path, doing) = match mode {
            WriteMode::Insert => (encoded(table), format!("insert an entity into {table}")),
            _ => (entity_path(table, partition_key, row_key), format!("write an entity of {table}")),
        };
        let bytes_max = self.0.account.flavour().transaction_bytes_max();
        let mut body = Vec::new();
        write_partition_key(partition_key, &mut body);
        write_row(row_key, properties, bytes_max, &mut body);
        if body.len() > bytes_max {
            let asked = self.number(doing);
            return Err(asked.unanswered(ErrorKind::TooLarge, None, "the entity is too large", false));
        }
        let method = Method::from_bytes(mode.method().as_bytes()).expect("the name of a method");
        let request = HttpRequest {
            if_match: mode.if_match(),
            content: Some((JSON, body.into())),
            ..HttpRequest::new(method, &path, "", doing)
        };
        let answer = self.send(request).await?;
        answer.succeeded()?;
        Ok(answer.header("etag").and_then(|etag| ETag::new(&etag)))
    }

    /// Deletes one entity. If the entity is missing, the error is [`ErrorKind::NotFound`].
    pub async fn delete(
        &self,
        table: &str,
        partition_key: &str,
        row_key: &str,
        condition: IfMatch<'_>,
    ) -> Result<(), Error> {
        let path = entity_path(table, partition_key, row_key);
        let doing = format!("delete an entity of {table}");
        let request = HttpRequest { if_match: Some(condition), ..HttpRequest::new(Method::DELETE, &path, "", doing) };
        self.send(request).await?.succeeded()
    }

    /// Reads one entity, or `None` if the entity is missing. `select` names the wanted properties; empty means all.
    pub async fn entity(
        &self,
        table: &str,
        partition_key: &str,
        row_key: &str,
        select: &[&str],
    ) -> Result<Option<Entity>, Error> {
        let path = entity_path(table, partition_key, row_key);
        let query = Query::default().select(select).parameters(None);
        let doing = format!("read an entity of {table}");
        let request =
            HttpRequest { answer_bytes_max: PAGE_BYTES_MAX, ..HttpRequest::new(Method::GET, &path, &query, doing) };
        let answer = self.send(request).await?;
        match answer.expect(200) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other?,
        }
        let mut entity = entity::entity(&answer.body).map_err(|error| answer.garbled(&error.to_string()))?;
        entity.etag = entity.etag.or_else(|| ETag::new(&answer.header("etag")?));
        Ok(Some(entity))
    }

    /// Reads a page: the first page, or the page at `next`, from an earlier page of the same query.
    pub async fn query(&self, table: &str, query: &Query, next: Option<&Continuation>) -> Result<EntityPage, Error> {
        let (path, parameters) = (format!("{}()", encoded(table)), query.parameters(next));
        let doing = format!("read entities of {table}");
        let request = HttpRequest {
            answer_bytes_max: PAGE_BYTES_MAX,
            ..HttpRequest::new(Method::GET, &path, &parameters, doing)
        };
        let answer = self.send(request).await?;
        answer.expect(200)?;
        let entities = entity::entities(&answer.body).map_err(|error| answer.garbled(&error.to_string()))?;
        let partition_key = answer.header("x-ms-continuation-NextPartitionKey");
        let row_key = answer.header("x-ms-continuation-NextRowKey");
        let going_on = partition_key.map(|partition_key| Continuation { partition_key, row_key });
        if going_on.is_some() && going_on.as_ref() == next {
            return Err(answer.garbled("the query does not go on"));
        }
        Ok(EntityPage { entities, next: going_on })
    }

    /// Whether a row could be written: an upsert to a table that does not exist. The service checks the rights first, and changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Denied`] if the rights are missing; otherwise there is no telling.
    pub async fn probe_write(&self) -> Result<(), Error> {
        // `RandomState` has random keys, so nobody has this table.
        let table = format!("Probe{:016x}", std::hash::RandomState::new().build_hasher().finish());
        let mut transaction = Transaction::new(self.account(), &table, "probe");
        let properties: [(&str, EdmValue<'_>); 0] = [];
        let pushed = transaction.push("probe", properties);
        debug_assert_eq!(pushed, super::Pushed::Added, "one small entity fits");
        match self.transact(&transaction.seal()).await {
            Err(error) if error.kind() == ErrorKind::TableNotFound => Ok(()),
            other => other.map(drop),
        }
    }

    /// Sends a request. A token that the service does not accept is renewed, and the request is sent once more: it was not
    /// executed.
    async fn send(&self, request: HttpRequest<'_>) -> Result<Response, Error> {
        let (response, token) = self.send_once(&request, None).await?;
        match token {
            Some(token) if response.is_unauthenticated() => Ok(self.send_once(&request, Some(&token)).await?.0),
            _ => Ok(response),
        }
    }

    /// The description of a request, for its errors.
    fn number(&self, doing: String) -> RequestInfo {
        let number = self.0.requests.fetch_add(1, Ordering::Relaxed);
        RequestInfo { doing, request_id: format!("{:016x}-{number}", self.0.name), service_request_id: None }
    }

    /// Sends a request once, with another token than the rejected one.
    async fn send_once(
        &self,
        request: &HttpRequest<'_>,
        rejected: Option<&Arc<SentToken>>,
    ) -> Result<(Response, Option<Arc<SentToken>>), Error> {
        let HttpRequest { method, path, query, content, answer_bytes_max, doing, .. } = request;
        let accept: &'static str = request.accept;
        let shared = &*self.0;
        let mut asked = self.number(doing.clone());
        let broken = |asked: &RequestInfo, what: &str| asked.unanswered(ErrorKind::Unknown, None, what, false);

        let mut address = format!("{}/{path}", shared.account.endpoint);
        let sas = if let Secret::Sas(sas) = &shared.account.secret { sas.as_str() } else { "" };
        for (number, part) in [*query, sas].iter().filter(|part| !part.is_empty()).enumerate() {
            address.push(if number == 0 { '?' } else { '&' });
            address.push_str(part);
        }
        let url = Url::parse(&address).map_err(|_| broken(&asked, "the address is not valid"))?;
        let content_type = content.as_ref().map_or("", |(content_type, _)| *content_type);
        let mut headers = HeaderMap::with_capacity(12);
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert("DataServiceVersion", HeaderValue::from_static("3.0"));
        headers.insert("MaxDataServiceVersion", HeaderValue::from_static("3.0;NetFx"));
        headers.insert("x-ms-version", HeaderValue::from_static(VERSION));
        let said = |text: &str| HeaderValue::from_str(text).map_err(|_| broken(&asked, "a header cannot be sent"));
        headers.insert("x-ms-client-request-id", said(&asked.request_id)?);
        if *method == Method::POST && content_type == JSON {
            headers.insert("Prefer", HeaderValue::from_static("return-no-content"));
        }
        if let Some(condition) = request.if_match {
            headers.insert(IF_MATCH, said(condition.header())?);
        }
        let token = match &shared.account.secret {
            Secret::Tokens(tokens) => {
                let token =
                    tokens.get(rejected).await.map_err(|error| without_token(&asked, tokens.identity(), &error))?;
                headers.insert(AUTHORIZATION, token.header.clone());
                Some(token)
            }
            Secret::Key(_) | Secret::Sas(_) => None,
        };
        let date = http_date((shared.clock)());
        headers.insert("x-ms-date", said(&date)?);
        if let Secret::Key(key) = &shared.account.secret {
            let signed = shared_key(&shared.account.name, key, method.as_str(), content_type, &date, url.path());
            let mut signed = said(&signed)?;
            signed.set_sensitive(true);
            headers.insert(AUTHORIZATION, signed);
        }
        let mut builder = shared.http.request(method.clone(), url).headers(headers);
        if let Some((content_type, body)) = content {
            builder = builder.header(CONTENT_TYPE, *content_type).body(body.clone());
        }
        let mut response = builder.send().await.map_err(|error| unanswered(&asked, None, error))?;

        let status = response.status().as_u16();
        let headers = std::mem::take(response.headers_mut());
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        asked.service_request_id = header("x-ms-request-id").map(|id| id.chars().take(100).collect());
        let announced = response.content_length().and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
        let mut body = Vec::with_capacity(announced.min(ANSWER_BYTES_MAX));
        while let Some(piece) = response.chunk().await.map_err(|error| unanswered(&asked, Some(status), error))? {
            if body.len() + piece.len() > *answer_bytes_max {
                return Err(asked.unanswered(ErrorKind::TooLarge, Some(status), "the answer is too large", true));
            }
            body.extend_from_slice(&piece);
        }
        Ok((Response { status, headers, body, asked }, token))
    }
}

impl<'a> HttpRequest<'a> {
    fn new(method: Method, path: &'a str, query: &'a str, doing: String) -> HttpRequest<'a> {
        HttpRequest {
            method,
            path,
            query,
            accept: MINIMAL,
            if_match: None,
            content: None,
            answer_bytes_max: ANSWER_BYTES_MAX,
            doing,
        }
    }
}

impl Response {
    fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    }

    fn retry_after(&self) -> Option<Duration> {
        let mut after = RetryAfter::default();
        for name in ["x-ms-retry-after-ms", "retry-after"] {
            if let Some(value) = self.header(name) {
                after.note(name, &value);
            }
        }
        after.0
    }

    /// Whether the service does not accept the token: it ended, was revoked, or is not for this service. An identity without
    /// the rights for a request has another code.
    fn is_unauthenticated(&self) -> bool {
        let code = || self.header("x-ms-error-code").unwrap_or_else(|| self.fault().code);
        self.status == 401 || self.status == 403 && code() == "AuthenticationFailed"
    }

    fn fault(&self) -> ErrorDetail {
        response::fault(&String::from_utf8_lossy(&self.body))
    }

    fn succeeded(&self) -> Result<(), Error> {
        if StatusCode::from_u16(self.status).is_ok_and(|status| status.is_success()) {
            return Ok(());
        }
        let mut fault = self.fault();
        if fault.code.is_empty() {
            fault = ErrorDetail { code: self.header("x-ms-error-code").unwrap_or_default(), ..fault };
        }
        let kind = kind_of(self.status, &fault, self.retry_after(), false);
        Err(self.asked.refused(self.status, fault, kind))
    }

    /// Requires this status, where no other success status is valid.
    fn expect(&self, status: u16) -> Result<(), Error> {
        self.succeeded()?;
        if self.status == status { Ok(()) } else { Err(self.garbled("the answer is not that of such a request")) }
    }

    fn garbled(&self, why: &str) -> Error {
        self.asked.unanswered(ErrorKind::Unknown, Some(self.status), why, true)
    }
}

/// The error of a request with no answer or a partial answer. Addresses are left out, because they may contain a
/// secret.
fn unanswered(asked: &RequestInfo, status: Option<u16>, error: reqwest::Error) -> Error {
    // Without a connection the service received no request.
    let may_have_happened = !error.is_connect() && !error.is_builder();
    let error = error.without_url();
    let mut said = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        let cause_said = cause.to_string();
        if !said.contains(&cause_said) {
            said = format!("{said}: {cause_said}");
        }
        source = cause.source();
    }
    let kind = if error.is_builder() { ErrorKind::Unknown } else { ErrorKind::Retry { after: None } };
    asked.unanswered(kind, status, &said, may_have_happened)
}

/// The error of a request for which there is no token. It was not sent.
fn without_token(asked: &RequestInfo, identity: &str, error: &TokenError) -> Error {
    let kind = if error.is_lasting { ErrorKind::Denied } else { ErrorKind::Retry { after: error.after } };
    asked.unanswered(kind, None, &format!("there is no token for {identity}: {error}"), false)
}

/// `Sat, 21 Nov 2026 15:00:00 GMT`
fn http_date(time: DateTime) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let civil = time.civil();
    let month = MONTHS.get(usize::try_from(civil.date.month0()).unwrap_or_default()).copied().unwrap_or_default();
    format!(
        "{}, {:02} {month} {:04} {:02}:{:02}:{:02} GMT",
        civil.date.weekday(),
        civil.date.day(),
        civil.date.year(),
        civil.hour,
        civil.minute,
        civil.second
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(http_date(DateTime::from_ticks(639_308_700_000_000_000)), "Sat, 21 Nov 2026 15:00:00 GMT");
        assert_eq!(http_date(DateTime::from_ticks(0)), "Mon, 01 Jan 0001 00:00:00 GMT");
    }

    #[tokio::test]
    async fn nothing_secret_is_in_an_error() {
        let account = "TableEndpoint=http://127.0.0.1:1/dev;SharedAccessSignature=sv=1&sig=c2VjcmV0";
        let options = ClientOptions::new(|| DateTime::from_ticks(639_308_700_000_000_000));
        let client = Client::new(account.parse().expect("an account"), options).expect("a client");
        let error = client.create_table("Log").await.expect_err("nobody listens");
        assert_eq!(error.kind(), ErrorKind::Retry { after: None });
        assert!(!error.may_have_happened());
        for said in [error.to_string(), format!("{error:?}")] {
            assert!(said.contains("create the table Log") && !said.contains("c2VjcmV0"), "{said}");
            assert!(said.contains(error.request_id()), "{said}");
        }
    }
}
