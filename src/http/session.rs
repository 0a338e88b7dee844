//! Browsers that may read: links that work once, and the sessions behind cookies.
//!
//! 1. `daytable open` asks for a *code* over the unix socket. The link with the code begins a session, once.
//! 2. A browser also begins a session with the read token. Such a session ends when the token changes.
//! 3. The cookie is `HttpOnly` and `SameSite=Strict`, so neither a script nor a link of another site can use it.
//!    Browsers count every port of a host as one site: [`is_from_page`] refuses the pages of other ports.
//!
//! Codes and sessions live in memory, as digests. A restart ends them.

use super::read_token::{ReadToken, digest};
use axum::http::{HeaderMap, header};
use daytable_model::property::to_hex;
use daytable_platform::lock;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;

/// The name of the cookie.
const COOKIE: &str = "daytable";
/// How long a code may be used.
const CODE_AGE_MAX: Duration = Duration::from_secs(5 * 60);
/// How long a session lasts.
pub(super) const SESSION_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// The largest number of codes, and of sessions. One more ends the oldest.
const GRANTS_MAX: usize = 64;

/// The codes and sessions of all listeners.
#[derive(Default)]
pub struct Sessions(Mutex<State>);

#[derive(Default)]
struct State {
    codes: VecDeque<Grant>,
    sessions: VecDeque<Grant>,
    /// The page's address on the TCP listener: `http://127.0.0.1:7878`.
    page_url: Option<String>,
}

/// A code or a session.
struct Grant {
    digest: [u8; 32],
    ends: Instant,
    /// The token that began the session, unless a code began it.
    token: Option<ReadToken>,
}

impl Sessions {
    /// Sets the page's address on the TCP listener.
    pub fn set_page_url(&self, url: Option<String>) {
        lock(&self.0).page_url = url;
    }

    pub(super) fn page_url(&self) -> Option<String> {
        lock(&self.0).page_url.clone()
    }

    /// A new code.
    pub(super) fn issue_code(&self, now: Instant) -> io::Result<String> {
        grant(&mut lock(&self.0).codes, now + CODE_AGE_MAX, None)
    }

    /// Begins a session with a code, which is used up. Returns the cookie's value, or `None` for a code that was used
    /// or is too old.
    pub(super) fn redeem(&self, code: &str, now: Instant) -> io::Result<Option<String>> {
        let mut state = lock(&self.0);
        let Some(at) = find(&state.codes, code, now) else { return Ok(None) };
        state.codes.remove(at);
        grant(&mut state.sessions, now + SESSION_AGE_MAX, None).map(Some)
    }

    /// Begins a session with the read token. Returns the cookie's value.
    pub(super) fn begin(&self, token: &ReadToken, now: Instant) -> io::Result<String> {
        grant(&mut lock(&self.0).sessions, now + SESSION_AGE_MAX, Some(token.clone()))
    }

    /// Ends the session of a request.
    pub(super) fn end(&self, headers: &HeaderMap, now: Instant) {
        let mut state = lock(&self.0);
        if let Some(at) = cookie(headers).and_then(|value| find(&state.sessions, value, now)) {
            state.sessions.remove(at);
        }
    }

    /// Whether a request comes from the page, with the cookie of a session. `token` is the read token at present.
    pub(super) fn permit(&self, headers: &HeaderMap, token: Option<&ReadToken>, now: Instant) -> bool {
        let Some(value) = cookie(headers).filter(|_| is_from_page(headers)) else { return false };
        let state = lock(&self.0);
        let session = find(&state.sessions, value, now).map(|at| &state.sessions[at]);
        session.is_some_and(|session| session.token.is_none() || session.token.as_ref() == token)
    }
}

/// Adds a grant, and returns its secret.
fn grant(grants: &mut VecDeque<Grant>, ends: Instant, token: Option<ReadToken>) -> io::Result<String> {
    let mut bytes = [0; 24];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let secret = to_hex(&bytes);
    if grants.len() >= GRANTS_MAX {
        grants.pop_front();
    }
    grants.push_back(Grant { digest: digest(&secret), ends, token });
    Ok(secret)
}

/// The place of the grant with this secret. Every digest is compared, so the time shows nothing.
fn find(grants: &VecDeque<Grant>, secret: &str, now: Instant) -> Option<usize> {
    let digest = digest(secret);
    let matches = |grant: &Grant| bool::from(grant.digest.ct_eq(&digest)) && now < grant.ends;
    grants.iter().enumerate().fold(None, |found, (at, grant)| if matches(grant) { Some(at) } else { found })
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

/// The header `Set-Cookie` that begins a session, or ends it where `value` is `None`.
pub(super) fn set_cookie(value: Option<&str>, is_tls: bool) -> String {
    let age = value.map_or(0, |_| SESSION_AGE_MAX.as_secs());
    let secure = if is_tls { "; Secure" } else { "" };
    let value = value.unwrap_or_default();
    format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}")
}

/// Whether a browser reports that the request is of this origin's page, or of the user. A client that is not a browser
/// reports nothing.
pub(super) fn is_from_page(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin" || site == "none")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(cookie: &str, site: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, format!("theme=dark; {COOKIE}={cookie}").parse().expect("a header"));
        if let Some(site) = site {
            headers.insert("sec-fetch-site", site.parse().expect("a header"));
        }
        headers
    }

    #[test]
    fn a_code_begins_one_session_in_time() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let code = sessions.issue_code(now).expect("random bytes");
        assert_eq!(sessions.redeem("", now).expect("no error"), None);
        let session = sessions.redeem(&code, now).expect("random bytes").expect("a session");
        assert_eq!(sessions.redeem(&code, now).expect("no error"), None, "it works once");
        for (site, is_permitted) in
            [(None, true), (Some("same-origin"), true), (Some("none"), true), (Some("same-site"), false)]
        {
            assert_eq!(sessions.permit(&with(&session, site), None, now), is_permitted, "{site:?}");
        }
        assert!(!sessions.permit(&with(&code, None), None, now));
        assert!(!sessions.permit(&with(&session, None), None, now + SESSION_AGE_MAX));
        sessions.end(&with(&session, None), now);
        assert!(!sessions.permit(&with(&session, None), None, now));
        let late = sessions.issue_code(now).expect("random bytes");
        assert_eq!(sessions.redeem(&late, now + CODE_AGE_MAX).expect("no error"), None);
    }

    #[test]
    fn another_token_ends_the_sessions_of_the_first() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let token = |text| ReadToken::new(text).expect("a token");
        let session = with(&sessions.begin(&token("first"), now).expect("random bytes"), None);
        assert!(sessions.permit(&session, Some(&token("first")), now));
        assert!(!sessions.permit(&session, Some(&token("second")), now) && !sessions.permit(&session, None, now));
    }

    #[test]
    fn the_oldest_session_makes_room() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let token = ReadToken::new("t").expect("a token");
        let all: Vec<_> = (0..=GRANTS_MAX).map(|_| sessions.begin(&token, now).expect("random bytes")).collect();
        assert!(!sessions.permit(&with(&all[0], None), Some(&token), now));
        assert!(all[1..].iter().all(|session| sessions.permit(&with(session, None), Some(&token), now)));
    }
}
