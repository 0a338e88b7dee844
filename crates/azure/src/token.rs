//! Bearer tokens of Entra ID, instead of a key of the account.
//!
//! This crate asks no identity service itself: a [`TokenSource`] of the caller does. [`SharedTokens`] keeps the last token for all
//! clients of an account:
//!
//! ```text
//! fetched ──────────── renewed from here on ──── ends
//!    │  every request has it  │  one request renews it, the others still have it; a failed renewal is tried again later
//! ```
//!
//! * Requests that have no token wait for one renewal, and share its outcome, a failure as well.
//! * A token that the service rejected is never sent again. It is renewed once for each request that it was rejected for; requests
//!   that come later find the new token.
//! * When a token ends is what its source says. The service decides: clocks differ, so a token is used for half a minute at least.

use reqwest::header::HeaderValue;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A token is renewed this long before its end. A token that lasts less than twice as long is renewed after half of its time.
const RENEWED_BEFORE: Duration = Duration::from_secs(300);
/// How long a token is used at least, and one at most whose source does not say when it ends.
const USED_MIN: Duration = Duration::from_secs(30);
const UNKNOWN: Duration = Duration::from_secs(600);
/// The pause after a renewal that failed while the token still lasts.
const PAUSE: Duration = Duration::from_secs(30);
/// How long a source may take.
const FETCH_MAX: Duration = Duration::from_secs(30);
/// Bytes of a token. Those of Entra ID have some 2 KiB, and a server refuses large heads.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// A token under way.
pub type TokenFuture<'s> = Pin<Box<dyn Future<Output = Result<AccessToken, TokenError>> + Send + 's>>;

/// Where tokens come from: an identity service.
pub trait TokenSource: Send + Sync {
    /// Whose tokens these are, for people: `the managed identity`. Contains no secret.
    fn identity(&self) -> &str;

    /// Asks for a token, once.
    fn fetch(&self) -> TokenFuture<'_>;
}

/// A token. Its `Debug` output does not contain it.
pub struct AccessToken {
    text: String,
    lasts: Option<Duration>,
}

impl AccessToken {
    /// A token that lasts so long from now on; `None` if that is not known.
    pub fn new(text: String, lasts: Option<Duration>) -> AccessToken {
        AccessToken { text, lasts }
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessToken").field("lasts", &self.lasts).finish_non_exhaustive()
    }
}

/// Why there is no token. Contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TokenError {
    /// What the identity service said.
    pub message: String,
    /// Whether the identity is refused until somebody does something about it. Otherwise the same request may succeed later.
    pub is_lasting: bool,
    /// The minimum pause, if the identity service requested one.
    pub after: Option<Duration>,
}

impl TokenError {
    /// A failure that may pass.
    pub fn passing(message: impl Into<String>) -> TokenError {
        TokenError { message: message.into(), is_lasting: false, after: None }
    }

    /// A refusal.
    pub fn lasting(message: impl Into<String>) -> TokenError {
        TokenError { is_lasting: true, ..TokenError::passing(message) }
    }
}

/// The tokens of an account. Clones share them.
#[derive(Clone)]
pub(super) struct SharedTokens(Arc<Tokens>);

struct Tokens {
    source: Arc<dyn TokenSource>,
    current: Mutex<Option<Arc<SentToken>>>,
    /// Held while a token is fetched.
    fetching: tokio::sync::Mutex<()>,
    /// Fetches that ended, and the error of the last one.
    fetches: AtomicU64,
    failure: Mutex<Option<TokenError>>,
}

/// A token as requests have it.
pub(super) struct SentToken {
    /// `Bearer …`, marked as sensitive.
    pub(super) header: HeaderValue,
    renewed_from: Mutex<Instant>,
    ends: Instant,
}

impl SharedTokens {
    pub(super) fn new(source: Arc<dyn TokenSource>) -> SharedTokens {
        SharedTokens(Arc::new(Tokens {
            source,
            current: Mutex::default(),
            fetching: tokio::sync::Mutex::default(),
            fetches: AtomicU64::new(0),
            failure: Mutex::default(),
        }))
    }

    pub(super) fn identity(&self) -> &str {
        self.0.source.identity()
    }

    /// The token to send. `rejected` is the one that the service did not accept, which is not sent again.
    pub(super) async fn get(&self, rejected: Option<&Arc<SentToken>>) -> Result<Arc<SentToken>, TokenError> {
        let tokens = &*self.0;
        let lasting = match tokens.current(rejected) {
            Some(token) if !token.is_due() => return Ok(token),
            lasting => lasting,
        };
        let seen = tokens.fetches.load(Ordering::Acquire);
        let guard = match &lasting {
            // The token lasts while another request renews it.
            Some(token) => match tokens.fetching.try_lock() {
                Ok(guard) => guard,
                Err(_) => return Ok(token.clone()),
            },
            None => tokens.fetching.lock().await,
        };
        if let Some(token) = tokens.current(rejected).filter(|token| !token.is_due()) {
            return Ok(token);
        }
        // Another request that waited before has asked meanwhile: its failure is that of this one, too.
        if tokens.fetches.load(Ordering::Acquire) != seen
            && let Some(failure) = lock(&tokens.failure).clone()
        {
            return lasting.ok_or(failure);
        }
        let fetched = tokens.fetch().await;
        *lock(&tokens.failure) = fetched.as_ref().err().cloned();
        tokens.fetches.fetch_add(1, Ordering::Release);
        drop(guard);
        match (fetched, lasting) {
            (Err(_), Some(token)) => {
                *lock(&token.renewed_from) = Instant::now() + PAUSE;
                Ok(token)
            }
            (fetched, _) => fetched,
        }
    }
}

impl Tokens {
    /// The token that was fetched last, if it still lasts and is not the rejected one.
    fn current(&self, rejected: Option<&Arc<SentToken>>) -> Option<Arc<SentToken>> {
        let current = lock(&self.current).clone();
        let is_usable = |token: &Arc<SentToken>| {
            rejected.is_none_or(|rejected| !Arc::ptr_eq(rejected, token)) && Instant::now() < token.ends
        };
        current.filter(is_usable)
    }

    async fn fetch(&self) -> Result<Arc<SentToken>, TokenError> {
        let fetched = tokio::time::timeout(FETCH_MAX, self.source.fetch()).await;
        let token = fetched.unwrap_or_else(|_| Err(TokenError::passing("there was no answer in time")))?;
        let unusable = || TokenError::lasting("the answer has a token that cannot be sent");
        if token.text.is_empty() || token.text.len() > TOKEN_BYTES_MAX {
            return Err(unusable());
        }
        let mut header = HeaderValue::from_str(&format!("Bearer {}", token.text)).map_err(|_| unusable())?;
        header.set_sensitive(true);
        let lasts = token.lasts.unwrap_or(UNKNOWN).max(USED_MIN);
        let now = Instant::now();
        let used = lasts.saturating_sub(RENEWED_BEFORE).max(lasts / 2);
        let sent = Arc::new(SentToken { header, renewed_from: Mutex::new(now + used), ends: now + lasts });
        *lock(&self.current) = Some(sent.clone());
        Ok(sent)
    }
}

impl SentToken {
    fn is_due(&self) -> bool {
        Instant::now() >= *lock(&self.renewed_from)
    }
}

/// Two accounts are the same if they share their tokens.
impl PartialEq for SharedTokens {
    fn eq(&self, other: &SharedTokens) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedTokens {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No panic happens while one of these is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A source with answers in their order.
    struct Scripted {
        answers: Mutex<VecDeque<Result<AccessToken, TokenError>>>,
        asked: AtomicU64,
        takes: Duration,
    }

    impl TokenSource for Scripted {
        fn identity(&self) -> &str {
            "a test"
        }

        fn fetch(&self) -> TokenFuture<'_> {
            Box::pin(async {
                self.asked.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(self.takes).await;
                lock(&self.answers).pop_front().unwrap_or_else(|| Err(TokenError::passing("nothing is left")))
            })
        }
    }

    fn token(text: &str, seconds: u64) -> Result<AccessToken, TokenError> {
        Ok(AccessToken::new(text.into(), Some(Duration::from_secs(seconds))))
    }

    fn tokens(
        takes: Duration,
        answers: impl IntoIterator<Item = Result<AccessToken, TokenError>>,
    ) -> (SharedTokens, Arc<Scripted>) {
        let answers = Mutex::new(answers.into_iter().collect());
        let source = Arc::new(Scripted { answers, asked: AtomicU64::new(0), takes });
        (SharedTokens::new(source.clone()), source)
    }

    fn shown(token: &Result<Arc<SentToken>, TokenError>) -> String {
        match token {
            Ok(token) => token.header.to_str().expect("text").to_owned(),
            Err(error) => error.to_string(),
        }
    }

    async fn asked_at_once(tokens: &SharedTokens, rejected: Option<Arc<SentToken>>, times: usize) -> Vec<String> {
        let requests: Vec<_> = (0..times)
            .map(|_| {
                let (tokens, rejected) = (tokens.clone(), rejected.clone());
                tokio::spawn(async move { shown(&tokens.get(rejected.as_ref()).await) })
            })
            .collect();
        let mut all = Vec::new();
        for request in requests {
            all.push(request.await.expect("no panic"));
        }
        all.sort();
        all.dedup();
        all
    }

    #[tokio::test(start_paused = true)]
    async fn many_requests_share_one_fetch_and_its_failure() {
        let failure = TokenError { after: Some(Duration::from_secs(7)), ..TokenError::passing("busy") };
        let (tokens, source) = tokens(Duration::from_secs(1), [Err(failure), token("a", 3600)]);
        assert_eq!(asked_at_once(&tokens, None, 20).await, ["busy"]);
        assert_eq!(source.asked.load(Ordering::Relaxed), 1);
        assert_eq!(asked_at_once(&tokens, None, 20).await, ["Bearer a"]);
        assert_eq!(source.asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_renewed_before_its_end_and_used_meanwhile() {
        let (tokens, source) = tokens(Duration::from_secs(1), [token("a", 3600), token("b", 400), token("c", 400)]);
        assert_eq!(shown(&tokens.get(None).await), "Bearer a");
        tokio::time::advance(Duration::from_secs(3299)).await;
        assert_eq!(shown(&tokens.get(None).await), "Bearer a");
        tokio::time::advance(Duration::from_secs(1)).await;
        // One of them asks, and has the new one; the others do not wait.
        assert_eq!(asked_at_once(&tokens, None, 9).await, ["Bearer a", "Bearer b"]);
        assert_eq!(source.asked.load(Ordering::Relaxed), 2);
        // What lasts for a short time only is renewed after half of it.
        tokio::time::advance(Duration::from_secs(198)).await;
        assert_eq!(shown(&tokens.get(None).await), "Bearer b");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(shown(&tokens.get(None).await), "Bearer c");
    }

    #[tokio::test(start_paused = true)]
    async fn an_identity_service_that_is_away_is_missed_at_the_end_of_the_token_only() {
        let refused = || Err(TokenError::lasting("away"));
        let (tokens, source) = tokens(Duration::ZERO, [token("a", 3600), refused(), refused()]);
        assert_eq!(shown(&tokens.get(None).await), "Bearer a");
        tokio::time::advance(Duration::from_secs(3301)).await;
        for _ in 0..9 {
            assert_eq!(shown(&tokens.get(None).await), "Bearer a");
        }
        assert_eq!(source.asked.load(Ordering::Relaxed), 2, "not with each request");
        tokio::time::advance(Duration::from_secs(300)).await;
        assert_eq!(shown(&tokens.get(None).await), "away");
    }

    #[tokio::test(start_paused = true)]
    async fn a_rejected_token_is_renewed_once_for_all() {
        let (tokens, source) = tokens(Duration::from_secs(1), [token("a", 3600), token("b", 3600)]);
        let rejected = tokens.get(None).await.expect("a token");
        assert_eq!(asked_at_once(&tokens, Some(rejected), 20).await, ["Bearer b"]);
        assert_eq!(source.asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_has_ended_already_is_tried_for_a_while() {
        let (tokens, source) = tokens(Duration::ZERO, [token("a", 0), token("b", 0)]);
        for _ in 0..9 {
            assert_eq!(shown(&tokens.get(None).await), "Bearer a");
        }
        tokio::time::advance(Duration::from_secs(31)).await;
        assert_eq!(shown(&tokens.get(None).await), "Bearer b");
        assert_eq!(source.asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_never_answers_is_given_up() {
        let (tokens, _) = tokens(Duration::from_secs(86_400), []);
        assert_eq!(shown(&tokens.get(None).await), "there was no answer in time");
    }

    #[tokio::test]
    async fn what_no_header_can_have_is_no_token() {
        for text in ["", "a\nb", &"a".repeat(TOKEN_BYTES_MAX + 1)] {
            let (tokens, _) = tokens(Duration::ZERO, [token(text, 3600)]);
            let error = tokens.get(None).await.err().expect("an error");
            assert!(error.is_lasting && !error.message.contains('\n'), "{error}");
        }
    }

    #[test]
    fn no_token_in_what_is_shown() {
        let shown = format!("{:?}", AccessToken::new("c2VjcmV0".into(), None));
        assert!(!shown.contains("c2VjcmV0"), "{shown}");
    }
}
