//! Authentication of pushes over TCP, and the rate limit of each sender.
//!
//! The head of a request decides, before the daemon reads the body. The credentials come from the file that
//! [`crate::config::credentials`] describes. While requests arrive, the file is checked once a second. A changed file that
//! cannot be used is logged and counted, and the credentials before it stay in use. Tokens and passwords are compared by
//! their digests, all of them and in constant time.
//!
//! | the request has | the sender is |
//! |---|---|
//! | `Authorization: Bearer TOKEN` | the credential with this token |
//! | `Authorization: Basic …`, or `ApiKey …`, which Elasticsearch's clients send in the same form | the credential with this user and password |
//! | no `Authorization`, and `push` is `"open"` | anonymous, unless a browser sent the request for a web page |
//! | no `Authorization`, and only `tls.client_ca_file` is set | the owner of the client's certificate, which TLS has verified |

use super::counters::HttpCounters;
use super::credential_store::{Credential, CredentialStore, identify};
use super::push_refusal::{AuthRefusal, PushAuthError};
use super::response::{error_response, retry_after};
use super::serve::PeerAddress;
use super::usage::{UsageHandle, UsageKey, UsageLimiter};
use crate::config::{HttpConfig, PushAccess};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use daytable_intake::push::PushSender;
use daytable_intake::rate_limit::{Now, RateLimiter, SenderLimits, network_of};
use daytable_intake::route::Router;
use daytable_platform::lock;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Decides which requests may push.
pub struct PushAuth {
    access: PushAccess,
    router: Router,
    credentials: Option<Mutex<CredentialStore>>,
    usage: Arc<UsageLimiter>,
    per_sender: SenderLimits,
    counters: Arc<HttpCounters>,
}

impl PushAuth {
    /// The configured authentication of pushes to the tables of `router`.
    ///
    /// # Errors
    ///
    /// The configuration lacks credentials, or their file cannot be used.
    pub fn new(config: &HttpConfig, router: &Router, counters: Arc<HttpCounters>) -> Result<PushAuth, PushAuthError> {
        PushAuth::with_usage(config, router, counters, None)
    }

    /// The authentication of a changed configuration. Senders keep their usage if their limits are the same.
    ///
    /// # Errors
    ///
    /// See [`PushAuth::new`].
    pub fn reload(&self, config: &HttpConfig, router: &Router) -> Result<PushAuth, PushAuthError> {
        let usage = (self.per_sender == config.per_sender).then(|| self.usage.clone());
        PushAuth::with_usage(config, router, self.counters.clone(), usage)
    }

    fn with_usage(
        config: &HttpConfig,
        router: &Router,
        counters: Arc<HttpCounters>,
        usage: Option<Arc<UsageLimiter>>,
    ) -> Result<PushAuth, PushAuthError> {
        let access = config.push_access()?;
        let path = config.credentials_file.as_ref().filter(|_| access != PushAccess::Off);
        let credentials = path.map(|path| CredentialStore::read(path, router)).transpose()?.map(Mutex::new);
        let per_sender = config.per_sender;
        let usage = usage.unwrap_or_else(|| Arc::new(Mutex::new(RateLimiter::new(per_sender))));
        Ok(PushAuth { access, router: router.clone(), credentials, usage, per_sender, counters })
    }

    /// An authentication that accepts every push.
    #[cfg(test)]
    pub(super) fn open(counters: Arc<HttpCounters>) -> PushAuth {
        PushAuth::new(&HttpConfig::default(), &Router::new(Vec::new()), counters).expect("it asks for nothing")
    }

    /// The sender of a request.
    pub(super) fn authenticate(&self, request: &Parts, now: Now) -> Result<PushSender, AuthRefusal> {
        let credentials = self.credentials();
        let has = |name| request.headers.contains_key(name);
        let sender = match (self.access, credentials.as_deref()) {
            (PushAccess::Off, _) => return Err(AuthRefusal::Off),
            (PushAccess::Open, Some(credentials)) if has(header::AUTHORIZATION) => identify(credentials, request)?,
            (PushAccess::Credentials, Some(credentials)) => identify(credentials, request)?,
            (PushAccess::Open, _) if has(header::ORIGIN) => return Err(AuthRefusal::Browser),
            (PushAccess::Open, _) => PushSender::anonymous("open"),
            (PushAccess::Credentials, None) => PushSender::anonymous("certificate"),
        };
        let key = match sender.is_anonymous() {
            false => UsageKey::Credential(sender.name.clone()),
            true => {
                let peer = request.extensions.get::<PeerAddress>();
                UsageKey::Peer(network_of(peer.map_or(Ipv4Addr::LOCALHOST.into(), |peer| peer.0)))
            }
        };
        lock(&self.usage).check(&key, now).map_err(AuthRefusal::Limited)?;
        Ok(sender.with_meter(Arc::new(UsageHandle::new(self.usage.clone(), key))))
    }

    /// The current credentials of the file.
    fn credentials(&self) -> Option<Arc<[Credential]>> {
        let mut store = lock(self.credentials.as_ref()?);
        if let Err(error) = store.refresh(&self.router) {
            self.counters.credential_reloads_failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%error, "the credentials changed and cannot be used, those before stay in use");
        }
        Some(store.credentials())
    }

    /// Counts a refusal, and answers it.
    pub(super) fn refuse(&self, refusal: AuthRefusal) -> Response {
        self.counters.count_refused_push(refusal.label());
        let mut response = error_response(refusal.status(), &refusal.to_string());
        let headers = response.headers_mut();
        match refusal {
            AuthRefusal::Limited(limited) => drop(headers.insert(header::RETRY_AFTER, retry_after(limited.wait))),
            _ if refusal.status() == StatusCode::UNAUTHORIZED => {
                for scheme in ["Basic realm=\"daytable\"", "Bearer realm=\"daytable\""] {
                    headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
                }
            }
            _ => {}
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use axum::http::Request;
    use base64::prelude::{BASE64_STANDARD, Engine};
    use proptest::prelude::*;
    use std::path::PathBuf;
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

    struct Fixture {
        auth: PushAuth,
        path: PathBuf,
        counters: Arc<HttpCounters>,
        _folder: tempfile::TempDir,
    }

    fn try_fixture(more: &str, file: &str) -> Result<Fixture, PushAuthError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("credentials.toml");
        std::fs::write(&path, file).expect("written");
        let tables = "[[table]]\nname = \"Audit\"\nwhen = \"level:>=fatal\"\n[[table]]\nname = \"Log\"\n";
        let text = format!("[http]\ncredentials_file = \"{}\"\n{more}{tables}", path.display());
        let config = Config::parse(&text, "f").expect("a configuration");
        let counters = Arc::new(HttpCounters::default());
        let auth = PushAuth::new(&config.http, &crate::daemon::router(&config.tables), counters.clone())?;
        Ok(Fixture { auth, path, counters, _folder: folder })
    }

    fn fixture(more: &str) -> Fixture {
        try_fixture(more, FILE).expect("a push authentication")
    }

    fn now() -> Now {
        Now { instant: Instant::now(), ticks: daytable_model::time::now() }
    }

    fn request(headers: &[(&str, &str)]) -> Parts {
        let request =
            headers.iter().fold(Request::post("/ingest"), |request, (name, value)| request.header(*name, *value));
        request.body(()).expect("a request").into_parts().0
    }

    fn identified(auth: &PushAuth, authorization: &str) -> Result<String, AuthRefusal> {
        let admitted = auth.authenticate(&request(&[("authorization", authorization)]), now());
        admitted.map(|sender| sender.name.to_string())
    }

    fn basic_of(pair: &str) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(pair))
    }

    #[test]
    fn a_credential_identifies_its_sender() {
        let Fixture { auth, .. } = fixture("");
        for (authorization, name) in [
            ("Bearer 0123456789abcdef-web".to_owned(), "web"),
            ("bearer   0123456789abcdef-web".to_owned(), "web"),
            (basic_of("beat:correct:horse"), "beat"),
            (basic_of("beat:correct:horse").replace("Basic", "ApiKey"), "beat"),
        ] {
            assert_eq!(identified(&auth, &authorization).as_deref(), Ok(name), "{authorization}");
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
            assert_eq!(identified(&auth, &wrong), Err(AuthRefusal::Wrong), "{wrong}");
        }
        assert_eq!(auth.authenticate(&request(&[]), now()).err(), Some(AuthRefusal::Missing));
        let right = "Bearer 0123456789abcdef-web";
        let twice = request(&[("authorization", right), ("authorization", right)]);
        assert_eq!(auth.authenticate(&twice, now()).err(), Some(AuthRefusal::Wrong));
    }

    #[test]
    fn a_credential_has_its_tables_and_its_tenant() {
        let Fixture { auth, .. } = fixture("");
        let bearer = request(&[("authorization", "Bearer 0123456789abcdef-web")]);
        let web = auth.authenticate(&bearer, now()).expect("known");
        // A record of a bound credential goes to its table, whatever the condition of the table is.
        let mut cache = daytable_intake::route::RouteCache::new(web.router(&auth.router), "web", "push");
        let mut batcher = daytable_intake::batcher::Batcher::default();
        let mut record = daytable_model::record::Record::default();
        record.fields.push(daytable_model::record::Field {
            name: "tenant".into(),
            value: daytable_model::record::Value::Int64(7),
        });
        web.mark(&mut record);
        assert_eq!(record.text("tenant").as_deref(), Some("acme"));
        let origin = daytable_intake::route::Origin { identity: 1.into(), position: 0, source: "push", tenant: None };
        cache.push(
            web.router(&auth.router),
            &mut batcher,
            &record,
            daytable_model::time::now(),
            origin,
            daytable_model::time::now(),
        );
        assert_eq!(cache.table(), "Audit");
        let elsewhere = FILE.replace("audit", "Elsewhere");
        assert!(matches!(try_fixture("", &elsewhere), Err(PushAuthError::Table { name, .. }) if name == "web"));
    }

    #[test]
    fn a_new_file_is_used_and_a_bad_one_is_not() {
        let Fixture { auth, path, counters, _folder } = fixture("");
        let change = |text: &str, is_done: &dyn Fn() -> bool| {
            // By a rename, so that no reader sees half of the file.
            std::fs::write(path.with_extension("new"), text).expect("written");
            std::fs::rename(path.with_extension("new"), &path).expect("renamed");
            let deadline = Instant::now() + Duration::from_secs(30);
            while !is_done() {
                assert!(Instant::now() < deadline, "not within half a minute");
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        let (old, new) = ("Bearer 0123456789abcdef-web", "Bearer 0123456789abcdef-new");
        change(&FILE.replace("abcdef-web", "abcdef-new"), &|| identified(&auth, new).is_ok());
        assert_eq!(identified(&auth, old), Err(AuthRefusal::Wrong));
        for (failed, bad) in (1..).zip(["[[credential]]\nname =", "", &FILE.replace("audit", "Elsewhere")]) {
            let is_seen = || {
                assert_eq!(identified(&auth, new).as_deref(), Ok("web"), "the credentials before stay in use");
                counters.credential_reloads_failed.load(Ordering::Relaxed) == failed
            };
            change(bad, &is_seen);
        }
        change(FILE, &|| identified(&auth, old).is_ok());
        assert_eq!(identified(&auth, new), Err(AuthRefusal::Wrong));
    }

    #[test]
    fn open_accepts_all_but_web_pages_and_off_accepts_none() {
        let Fixture { auth, .. } = fixture("push = \"open\"\n");
        assert_eq!(&*auth.authenticate(&request(&[]), now()).expect("open").name, "(open)");
        assert_eq!(
            auth.authenticate(&request(&[("origin", "https://evil.example")]), now()).err(),
            Some(AuthRefusal::Browser)
        );
        // A credential that is shown must be right.
        assert_eq!(identified(&auth, "Bearer 0123456789abcdef-web").as_deref(), Ok("web"));
        assert_eq!(identified(&auth, "Bearer guessed-guessed-guessed"), Err(AuthRefusal::Wrong));
        let Fixture { auth, .. } = fixture("push = \"off\"\n");
        assert_eq!(identified(&auth, "Bearer 0123456789abcdef-web"), Err(AuthRefusal::Off));
    }

    #[test]
    fn a_sender_over_its_limit_waits_and_others_do_not() {
        let Fixture { auth, .. } = fixture("per_sender = { records_per_s = 10 }\n");
        let at = now();
        let web = request(&[("authorization", "Bearer 0123456789abcdef-web")]);
        let beat = request(&[("authorization", basic_of("beat:correct:horse").as_str())]);
        let sender = auth.authenticate(&web, at).expect("nothing was sent");
        sender.charge(100, 1);
        let Err(AuthRefusal::Limited(limited)) = auth.authenticate(&web, at) else { panic!("ten seconds of records") };
        assert!(limited.wait > Duration::from_secs(8), "{limited:?}");
        let answer = auth.refuse(AuthRefusal::Limited(limited));
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
        let seconds = answer.headers()[header::RETRY_AFTER].to_str().expect("text").parse().expect("seconds");
        assert!((9..=10_u64).contains(&seconds), "{seconds}");
        assert!(auth.authenticate(&beat, at).is_ok());
    }

    #[test]
    fn a_refusal_names_no_secret_and_is_counted() {
        let Fixture { auth, counters, .. } = fixture("");
        let answer = auth.refuse(AuthRefusal::Wrong);
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(answer.headers().get_all(header::WWW_AUTHENTICATE).iter().count(), 2);
        assert_eq!(counters.pushes_refused()["wrong_credential"], 1);
        for why in [AuthRefusal::Off, AuthRefusal::Browser, AuthRefusal::Missing] {
            assert!(!why.to_string().is_empty() && !auth.refuse(why).status().is_success());
        }
    }

    proptest! {
        /// Whatever a request claims, it is refused unless it shows a credential.
        #[test]
        fn no_claim_passes_without_a_credential(
            scheme in "(?i:bearer|basic|apikey|[a-z]{0,8})", rest in "[ -~]{0,60}|[A-Za-z0-9+/]{43}=",
        ) {
            let Fixture { auth, .. } = fixture("");
            let headers = [("authorization", &*format!("{scheme} {rest}")), ("host", "x")];
            prop_assert!(auth.authenticate(&request(&headers), now()).is_err());
        }
    }
}
