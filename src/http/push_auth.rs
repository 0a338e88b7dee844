//! Who may push over TCP: whoever has a credential, may send more at the moment, and is no web page.
//!
//! Everything here is decided by the head of a request, before anything of its body is read, let alone unpacked. The
//! credentials are those of [`crate::config::credentials`]; the file is looked at once a second when somebody pushes, and
//! one that cannot be used is said and counted while what was there before stays in use. Tokens and passwords are compared
//! by their digests, all of them and in constant time.
//!
//! | the request has | it is |
//! |---|---|
//! | `Authorization: Bearer TOKEN` | whoever has this token |
//! | `Authorization: Basic …`, or `ApiKey …`, which Elasticsearch's clients send in the same form | this user |
//! | none, and `push` is `"open"` | everybody; unless a browser sent it for a web page |
//! | none, and only `tls.client_ca_file` is set | whoever has a certificate: without one there is no connection |

use super::context::ListenerKind;
use super::counters::HttpCounters;
use super::credential_store::{Credential, CredentialStore, identify};
use super::push::linger;
use super::response::{error_response, retry_after};
use super::serve::PeerAddress;
use super::usage::{UsageHandle, UsageKey, UsageLimiter};
use crate::config::{ConfigError, HttpConfig, PushAccess, PushAccessError};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use daytable_intake::push::PushSender;
use daytable_intake::rate_limit::{Limited, Now, RateLimiter, SenderLimits};
use daytable_intake::route::Router;
use daytable_model::path_text::PathText;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is asked of those who push, and what is known of them.
pub struct PushAuth {
    pushing: PushAccess,
    routes: Router,
    known: Option<Mutex<CredentialStore>>,
    accounts: Arc<UsageLimiter>,
    per_sender: SenderLimits,
    counters: Arc<HttpCounters>,
}

/// Why it cannot be said who may push.
#[derive(Debug, thiserror::Error)]
pub enum PushAuthError {
    /// Nobody would be asked.
    #[error("[http]: {0}")]
    Nobody(#[from] PushAccessError),
    /// The file of credentials cannot be used.
    #[error(transparent)]
    File(#[from] ConfigError),
    /// A credential is bound to a table that is not configured.
    #[error("{}: the credential {name:?} is bound to a table that is not configured", .path.escaped())]
    Table {
        /// The file.
        path: PathBuf,
        /// The credential.
        name: String,
    },
}

/// Why a push is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthRefusal {
    Off,
    Browser,
    Missing,
    Wrong,
    Over(Limited),
}

impl PushAuth {
    /// What the configuration asks of those who push to the tables of `routes`.
    ///
    /// # Errors
    ///
    /// Where nobody would be asked, or the credentials cannot be read.
    pub fn new(config: &HttpConfig, routes: &Router, counters: Arc<HttpCounters>) -> Result<PushAuth, PushAuthError> {
        PushAuth::with(config, routes, counters, None)
    }

    /// The same by another configuration. A sender that owes something still owes it where senders may send what they
    /// might before.
    ///
    /// # Errors
    ///
    /// As those of [`PushAuth::new`].
    pub fn changed(&self, config: &HttpConfig, routes: &Router) -> Result<PushAuth, PushAuthError> {
        let accounts = (self.per_sender == config.per_sender).then(|| self.accounts.clone());
        PushAuth::with(config, routes, self.counters.clone(), accounts)
    }

    fn with(
        config: &HttpConfig,
        routes: &Router,
        counters: Arc<HttpCounters>,
        accounts: Option<Arc<UsageLimiter>>,
    ) -> Result<PushAuth, PushAuthError> {
        let pushing = config.push_access()?;
        let path = config.credentials_file.as_ref().filter(|_| pushing != PushAccess::Off);
        let known = path.map(|path| CredentialStore::read(path, routes)).transpose()?.map(Mutex::new);
        let per_sender = config.per_sender;
        let accounts = accounts.unwrap_or_else(|| Arc::new(Mutex::new(RateLimiter::new(per_sender))));
        Ok(PushAuth { pushing, routes: routes.clone(), known, accounts, per_sender, counters })
    }

    /// One through which everybody may push.
    #[cfg(test)]
    pub(super) fn open(counters: Arc<HttpCounters>) -> PushAuth {
        PushAuth::new(&HttpConfig::default(), &Router::new(Vec::new()), counters).expect("it asks for nothing")
    }

    /// Who makes this request.
    pub(super) fn admit(&self, request: &Parts, now: Now) -> Result<PushSender, AuthRefusal> {
        let known = self.credentials();
        let sender = match (self.pushing, known.as_deref()) {
            (PushAccess::Off, _) => return Err(AuthRefusal::Off),
            (PushAccess::Open, Some(known)) if request.headers.contains_key(header::AUTHORIZATION) => {
                identify(known, request)?
            }
            (PushAccess::Credentials, Some(known)) => identify(known, request)?,
            (PushAccess::Open, _) if request.headers.contains_key(header::ORIGIN) => return Err(AuthRefusal::Browser),
            (PushAccess::Open, _) => PushSender::anonymous("open"),
            (PushAccess::Credentials, None) => PushSender::anonymous("certificate"),
        };
        let key = match sender.is_anonymous() {
            false => UsageKey::Credential(sender.name.clone()),
            true => UsageKey::PeerAddress(daytable_intake::rate_limit::network_of(
                request.extensions.get::<PeerAddress>().map_or(Ipv4Addr::LOCALHOST.into(), |peer| peer.0),
            )),
        };
        locked(&self.accounts).check(&key, now).map_err(AuthRefusal::Over)?;
        Ok(sender.with_meter(Arc::new(UsageHandle::new(self.accounts.clone(), key))))
    }

    /// The credentials as they are now.
    fn credentials(&self) -> Option<Arc<[Credential]>> {
        let mut known = locked(self.known.as_ref()?);
        if let Err(error) = known.renew(&self.routes) {
            self.counters.credential_reloads_failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%error, "the credentials changed and cannot be used, those before stay in use");
        }
        Some(known.credentials())
    }

    /// The answer to who is refused, which is counted.
    pub(super) fn refuse(&self, why: AuthRefusal) -> Response {
        self.counters.count_refused_push(why.label());
        let mut response = error_response(why.status(), &why.to_string());
        let headers = response.headers_mut();
        match why {
            AuthRefusal::Over(over) => drop(headers.insert(header::RETRY_AFTER, retry_after(over.wait))),
            _ if why.status() == StatusCode::UNAUTHORIZED => {
                for scheme in ["Basic realm=\"daytable\"", "Bearer realm=\"daytable\""] {
                    headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
                }
            }
            _ => {}
        }
        response
    }
}

/// Lets a request pass that may push, with its [`PushSender`] among its extensions. What it brings is
/// [charged](PushSender::charge) afterwards.
pub(super) async fn may_push(State(door): State<ListenerKind>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let sender = match &door {
        ListenerKind::Unix => PushSender::anonymous("unix"),
        ListenerKind::Tcp { pushing, .. } => {
            let pushing = pushing.load();
            match pushing.admit(&parts, Now::read()) {
                Ok(sender) => sender,
                Err(why) => {
                    linger(&parts, &mut body.into_data_stream()).await;
                    return pushing.refuse(why);
                }
            }
        }
    };
    parts.extensions.insert(sender);
    next.run(Request::from_parts(parts, body)).await
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panicking thread left behind is whole: every change is made in one go.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AuthRefusal {
    fn label(self) -> &'static str {
        match self {
            AuthRefusal::Off => "off",
            AuthRefusal::Browser => "browser",
            AuthRefusal::Missing => "no_credential",
            AuthRefusal::Wrong => "wrong_credential",
            AuthRefusal::Over(over) => over.kind.label(),
        }
    }

    fn status(self) -> StatusCode {
        match self {
            AuthRefusal::Off | AuthRefusal::Browser => StatusCode::FORBIDDEN,
            AuthRefusal::Missing | AuthRefusal::Wrong => StatusCode::UNAUTHORIZED,
            AuthRefusal::Over(_) => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

impl std::fmt::Display for AuthRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AuthRefusal::Off => f.write_str("nothing is taken over TCP: http.push is \"off\""),
            AuthRefusal::Browser => f.write_str("this is not for web pages"),
            AuthRefusal::Missing => f.write_str("pushing needs a credential: the header Authorization is missing"),
            AuthRefusal::Wrong => f.write_str("the credential in the header Authorization is not known"),
            AuthRefusal::Over(Limited { kind: daytable_intake::rate_limit::LimitKind::Rate, .. }) => {
                f.write_str("this sender is over its rate, http.per_sender")
            }
            AuthRefusal::Over(_) => {
                f.write_str("this sender has sent its bytes of the day, http.per_sender.bytes_per_day")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use axum::http::Request;
    use base64::prelude::{BASE64_STANDARD, Engine};
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    const FILE: &str = "
[[credential]]
name = \"web\"
token = \"0123456789abcdef-web\"
tables = [\"audit\"]
tenant = \"acme\"
[[credential]]
name = \"beat\"
user = \"beat\"
password = \"correct:horse\"
";

    struct Guarded {
        gate: PushAuth,
        path: PathBuf,
        counters: Arc<HttpCounters>,
        _folder: tempfile::TempDir,
    }

    fn try_guarded(more: &str, file: &str) -> Result<Guarded, PushAuthError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("credentials.toml");
        std::fs::write(&path, file).expect("written");
        let tables = "[[table]]\nname = \"Audit\"\nwhen = { level_at_least = \"fatal\" }\n[[table]]\nname = \"Log\"\n";
        let text = format!("[http]\ncredentials_file = \"{}\"\n{more}{tables}", path.display());
        let config = Config::parse(&text, "f").expect("a configuration");
        let counters = Arc::new(HttpCounters::default());
        let gate = PushAuth::new(&config.http, &crate::daemon::router(&config.tables), counters.clone())?;
        Ok(Guarded { gate, path, counters, _folder: folder })
    }

    fn guarded(more: &str) -> Guarded {
        try_guarded(more, FILE).expect("a gate")
    }

    fn now() -> Now {
        Now { instant: Instant::now(), ticks: daytable_model::time::now() }
    }

    fn request(headers: &[(&str, &str)]) -> Parts {
        let request =
            headers.iter().fold(Request::post("/ingest"), |request, (name, value)| request.header(*name, *value));
        request.body(()).expect("a request").into_parts().0
    }

    fn asked(gate: &PushAuth, authorization: &str) -> Result<String, AuthRefusal> {
        let admitted = gate.admit(&request(&[("authorization", authorization)]), now());
        admitted.map(|sender| sender.name.to_string())
    }

    fn basic_of(pair: &str) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(pair))
    }

    #[test]
    fn whoever_has_a_credential_is_known_by_its_name() {
        let Guarded { gate, .. } = guarded("");
        for (authorization, name) in [
            ("Bearer 0123456789abcdef-web".to_owned(), "web"),
            ("bearer   0123456789abcdef-web".to_owned(), "web"),
            (basic_of("beat:correct:horse"), "beat"),
            (basic_of("beat:correct:horse").replace("Basic", "ApiKey"), "beat"),
        ] {
            assert_eq!(asked(&gate, &authorization).as_deref(), Ok(name), "{authorization}");
        }
        for wrong in [
            "0123456789abcdef-web".to_owned(),
            "Bearer".to_owned(),
            "Bearer 0123456789abcdef-we".to_owned(),
            "Bearer 0123456789abcdef-webs".to_owned(),
            "Basic 0123456789abcdef-web".to_owned(),
            "Bearer beat:correct:horse".to_owned(),
            basic_of("beat:correct:hors"),
            basic_of("beat"),
            basic_of("web:0123456789abcdef-web"),
            basic_of("beat:correct").replace("Y29ycmVjdA", "!!"),
            "Digest x".to_owned(),
            "HMAC-SHA256 Credential=web&SignedHeaders=host&Signature=x".to_owned(),
        ] {
            assert_eq!(asked(&gate, &wrong), Err(AuthRefusal::Wrong), "{wrong}");
        }
        assert_eq!(gate.admit(&request(&[]), now()).err(), Some(AuthRefusal::Missing));
        let right = "Bearer 0123456789abcdef-web";
        let twice = request(&[("authorization", right), ("authorization", right)]);
        assert_eq!(gate.admit(&twice, now()).err(), Some(AuthRefusal::Wrong));
    }

    #[test]
    fn a_credential_goes_to_its_tables_and_is_its_tenants() {
        let Guarded { gate, .. } = guarded("");
        let bearer = request(&[("authorization", "Bearer 0123456789abcdef-web")]);
        let web = gate.admit(&bearer, now()).expect("known");
        // Its condition is for what comes from elsewhere: what is bound to a table goes there.
        let mut cache = daytable_intake::route::RouteCache::new(web.router(&gate.routes), "web", "push");
        let mut batcher = daytable_intake::batcher::Batcher::default();
        let mut record = daytable_model::record::Record::default();
        record.fields.push(daytable_model::record::Field {
            name: "tenant".into(),
            value: daytable_model::record::Value::Int64(7),
        });
        web.mark(&mut record);
        assert_eq!(record.text("tenant").as_deref(), Some("acme"));
        let origin = daytable_intake::route::Origin { identity: 1, position: 0, source: "push", tenant: None };
        cache.push(
            web.router(&gate.routes),
            &mut batcher,
            &record,
            daytable_model::time::now(),
            origin,
            daytable_model::time::now(),
        );
        assert_eq!(cache.table(), "Audit");
        let elsewhere = FILE.replace("audit", "Elsewhere");
        assert!(matches!(try_guarded("", &elsewhere), Err(PushAuthError::Table { name, .. }) if name == "web"));
    }

    #[test]
    fn a_new_file_is_used_and_a_bad_one_is_not() {
        let Guarded { gate, path, counters, _folder } = guarded("");
        let change = |text: &str, is_done: &dyn Fn() -> bool| {
            // In one go, as no half of it is to be seen.
            std::fs::write(path.with_extension("new"), text).expect("written");
            std::fs::rename(path.with_extension("new"), &path).expect("renamed");
            let deadline = Instant::now() + Duration::from_secs(30);
            while !is_done() {
                assert!(Instant::now() < deadline, "not within half a minute");
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        let (old, new) = ("Bearer 0123456789abcdef-web", "Bearer 0123456789abcdef-new");
        change(&FILE.replace("abcdef-web", "abcdef-new"), &|| asked(&gate, new).is_ok());
        assert_eq!(asked(&gate, old), Err(AuthRefusal::Wrong));
        for (failed, bad) in (1..).zip(["[[credential]]\nname =", "", &FILE.replace("audit", "Elsewhere")]) {
            let is_seen = || {
                assert_eq!(asked(&gate, new).as_deref(), Ok("web"), "those before stay in use");
                counters.credential_reloads_failed.load(Ordering::Relaxed) == failed
            };
            change(bad, &is_seen);
        }
        change(FILE, &|| asked(&gate, old).is_ok());
        assert_eq!(asked(&gate, new), Err(AuthRefusal::Wrong));
    }

    #[test]
    fn open_takes_everybody_but_web_pages_and_off_nobody() {
        let Guarded { gate, .. } = guarded("push = \"open\"\n");
        assert_eq!(&*gate.admit(&request(&[]), now()).expect("open").name, "(open)");
        assert_eq!(
            gate.admit(&request(&[("origin", "https://evil.example")]), now()).err(),
            Some(AuthRefusal::Browser)
        );
        // Who says who he is, is held to it.
        assert_eq!(asked(&gate, "Bearer 0123456789abcdef-web").as_deref(), Ok("web"));
        assert_eq!(asked(&gate, "Bearer guessed-guessed-guessed"), Err(AuthRefusal::Wrong));
        let Guarded { gate, .. } = guarded("push = \"off\"\n");
        assert_eq!(asked(&gate, "Bearer 0123456789abcdef-web"), Err(AuthRefusal::Off));
    }

    #[test]
    fn who_is_over_waits_and_the_others_do_not() {
        let Guarded { gate, .. } = guarded("per_sender = { records_per_s = 10 }\n");
        let at = now();
        let web = request(&[("authorization", "Bearer 0123456789abcdef-web")]);
        let beat = request(&[("authorization", basic_of("beat:correct:horse").as_str())]);
        let sender = gate.admit(&web, at).expect("nothing was sent");
        sender.charge(100, 1);
        let Err(AuthRefusal::Over(over)) = gate.admit(&web, at) else { panic!("ten seconds of records") };
        assert!(over.wait > Duration::from_secs(8), "{over:?}");
        let answer = gate.refuse(AuthRefusal::Over(over));
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
        let seconds = answer.headers()[header::RETRY_AFTER].to_str().expect("text").parse().expect("seconds");
        assert!((9..=10_u64).contains(&seconds), "{seconds}");
        assert!(gate.admit(&beat, at).is_ok());
    }

    #[test]
    fn a_refusal_names_no_secret_and_is_counted() {
        let Guarded { gate, counters, .. } = guarded("");
        let answer = gate.refuse(AuthRefusal::Wrong);
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(answer.headers().get_all(header::WWW_AUTHENTICATE).iter().count(), 2);
        assert_eq!(counters.pushes_refused()["wrong_credential"], 1);
        for why in [AuthRefusal::Off, AuthRefusal::Browser, AuthRefusal::Missing] {
            assert!(!why.to_string().is_empty() && !gate.refuse(why).status().is_success());
        }
    }

    proptest! {
        /// Whatever a request claims, it is somebody by a credential or it is refused; and without one it is nobody.
        #[test]
        fn no_claim_opens_the_gate(
            scheme in "(?i:bearer|basic|apikey|[a-z]{0,8})", rest in "[ -~]{0,60}|[A-Za-z0-9+/]{43}=",
        ) {
            let Guarded { gate, .. } = guarded("");
            let headers = [("authorization", &*format!("{scheme} {rest}")), ("host", "x")];
            prop_assert!(gate.admit(&request(&headers), now()).is_err());
        }
    }
}
