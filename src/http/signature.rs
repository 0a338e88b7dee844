//! Requests that are signed, for where there is no TLS: HMAC-SHA256 over what is asked for, when, and with which body.
//!
//! The scheme is that of Azure's App Configuration and Communication services, so that there is code for it already:
//!
//! ```text
//! x-ms-date: Sat, 21 Nov 2026 15:00:00 GMT
//! x-ms-content-sha256: base64 of the SHA-256 of the body as it is sent
//! Authorization: HMAC-SHA256 Credential=NAME&SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature=BASE64
//!
//! Signature = base64(HMAC-SHA256(secret, METHOD "\n" PATH?QUERY "\n" values of the signed headers, with ";" between))
//! ```
//!
//! `Date` can stand for `x-ms-date`. These three headers have to be signed, and `Idempotency-Key` where there is one;
//! others may be. The body is hashed as it is read, before it is unpacked, and an end that does not match is an error of
//! reading it: nothing is taken from a body until it has ended.
//!
//! **Replays.** A signature holds for [`WINDOW`] around its date. Within that, a request that comes a second time is
//! refused, unless it has an idempotency key: then it changes nothing, and its sender may repeat it. Up to
//! [`SIGNATURES_MAX`] signatures are remembered for each of two windows; beyond that requests without a key have to wait.
//! They are not remembered over a restart.

use crate::time::Ticks;
use axum::body::{Body, Bytes};
use axum::http::header::{DATE, HOST};
use axum::http::request::Parts;
use base64::prelude::{BASE64_STANDARD, Engine};
use futures_core::Stream;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use subtle::ConstantTimeEq;

/// How far a signature's date may be from now, either way.
pub(super) const WINDOW: Duration = Duration::from_secs(300);
/// Signatures that are remembered in each of two windows at most; one takes some 20 bytes.
const SIGNATURES_MAX: usize = 200_000;

const X_DATE: &str = "x-ms-date";
const X_HASH: &str = "x-ms-content-sha256";
const KEY: &str = "idempotency-key";
/// Headers that a signature names at most.
const HEADERS_MAX: usize = 16;

/// Why a signed request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unsigned {
    #[error(
        "the signature is not of the form HMAC-SHA256 Credential=NAME&SignedHeaders=x-ms-date;host;x-ms-content-sha256&\
         Signature=BASE64, or a header that it names is missing"
    )]
    Form,
    #[error("the headers x-ms-date (or date), host, x-ms-content-sha256 and idempotency-key have to be signed")]
    Headers,
    #[error("the date is no HTTP date, or more than five minutes from now")]
    Date,
    #[error("the signature does not match")]
    Wrong,
    #[error("this request was made before: sign it anew, or give it an Idempotency-Key")]
    Replayed,
    #[error("too many signed requests without an Idempotency-Key")]
    TooMany,
}

/// What an `Authorization: HMAC-SHA256 …` says.
pub(super) struct Claim<'a> {
    pub(super) credential: &'a str,
    headers: Vec<&'a str>,
    signature: [u8; 32],
}

impl<'a> Claim<'a> {
    /// Reads what is behind the scheme.
    pub(super) fn parse(text: &'a str) -> Result<Claim<'a>, Unsigned> {
        let (mut credential, mut headers, mut signature) = (None, None, None);
        for part in text.split('&') {
            match part.trim().split_once('=').ok_or(Unsigned::Form)? {
                ("Credential", name) => credential = Some(name),
                ("SignedHeaders", names) => headers = Some(names.split(';').take(HEADERS_MAX + 1).collect::<Vec<_>>()),
                ("Signature", base64) => signature = decoded(base64),
                _ => return Err(Unsigned::Form),
            }
        }
        let headers = headers.filter(|headers| headers.len() <= HEADERS_MAX).ok_or(Unsigned::Form)?;
        Ok(Claim {
            credential: credential.ok_or(Unsigned::Form)?,
            headers,
            signature: signature.ok_or(Unsigned::Form)?,
        })
    }

    /// The hash that the body has to have, where the request is signed with `secret` and now.
    pub(super) fn verify(&self, request: &Parts, secret: &[u8], now: Ticks) -> Result<[u8; 32], Unsigned> {
        let names = |name: &str| self.headers.iter().any(|signed| signed.eq_ignore_ascii_case(name));
        let date = [X_DATE, DATE.as_str()].into_iter().find(|name| names(name)).ok_or(Unsigned::Headers)?;
        let has_key = request.headers.contains_key(KEY);
        if !names(HOST.as_str()) || !names(X_HASH) || (has_key && !names(KEY)) {
            return Err(Unsigned::Headers);
        }
        let target = request.uri.path_and_query().map_or("/", |target| target.as_str());
        let mut text = format!("{}\n{target}\n", request.method);
        for (number, name) in self.headers.iter().enumerate() {
            text.push_str(if number > 0 { ";" } else { "" });
            text.push_str(value(request, name)?);
        }
        // The body's hash is compared when the body was read.
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|_| Unsigned::Wrong)?;
        mac.update(text.as_bytes());
        mac.verify_slice(&self.signature).map_err(|_| Unsigned::Wrong)?;

        let date = chrono::DateTime::parse_from_rfc2822(value(request, date)?).map_err(|_| Unsigned::Date)?;
        let date = Ticks::from_unix(date.timestamp(), 0).ok_or(Unsigned::Date)?;
        if now.since(date).max(date.since(now)) > WINDOW {
            return Err(Unsigned::Date);
        }
        decoded(value(request, X_HASH)?).ok_or(Unsigned::Form)
    }

    /// Notes that the request was made.
    pub(super) fn once(&self, request: &Parts, seen: &mut Seen, now: Ticks) -> Result<(), Unsigned> {
        if request.headers.contains_key(KEY) { Ok(()) } else { seen.add(&self.signature, now) }
    }
}

/// The one value of a header; two of one name would be one text for the signature and another for whoever reads it.
fn value<'a>(request: &'a Parts, name: &str) -> Result<&'a str, Unsigned> {
    let mut values = request.headers.get_all(name).iter();
    let value = values.next().and_then(|value| value.to_str().ok()).ok_or(Unsigned::Form)?;
    if values.next().is_some() { Err(Unsigned::Form) } else { Ok(value) }
}

fn decoded(base64: &str) -> Option<[u8; 32]> {
    BASE64_STANDARD.decode(base64).ok()?.try_into().ok()
}

/// The signatures of the last while.
#[derive(Default)]
pub(super) struct Seen {
    /// Those of this window and of the one before.
    windows: [HashSet<[u8; 16], foldhash::quality::RandomState>; 2],
    since: Option<Ticks>,
}

impl Seen {
    /// A date holds for a window before and after it, so what was seen two windows ago holds no more.
    fn add(&mut self, signature: &[u8; 32], now: Ticks) -> Result<(), Unsigned> {
        let since = *self.since.get_or_insert(now);
        // A clock that was set back begins anew as well.
        if now < since || now.since(since) > 2 * WINDOW {
            self.windows.swap(0, 1);
            self.windows[0].clear();
            self.since = Some(now);
        }
        let mut short = [0; 16];
        short.copy_from_slice(&signature[..16]);
        if self.windows.iter().any(|window| window.contains(&short)) {
            return Err(Unsigned::Replayed);
        }
        if self.windows[0].len() >= SIGNATURES_MAX {
            return Err(Unsigned::TooMany);
        }
        self.windows[0].insert(short);
        Ok(())
    }
}

/// A body that fails at its end where it is not what was signed.
pub(super) fn signed_body(body: Body, hash: [u8; 32]) -> Body {
    Body::from_stream(Hashed { body: body.into_data_stream(), hasher: Sha256::new(), hash: Some(hash) })
}

struct Hashed<S> {
    body: S,
    hasher: Sha256,
    /// None once it was compared.
    hash: Option<[u8; 32]>,
}

/// The body is not what was signed.
#[derive(Debug, thiserror::Error)]
#[error("the body is not the one that x-ms-content-sha256 names")]
struct OtherBody;

impl<S: Stream<Item = Result<Bytes, axum::Error>> + Unpin> Stream for Hashed<S> {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let piece = ready!(Pin::new(&mut self.body).poll_next(context));
        match &piece {
            Some(Ok(bytes)) => self.hasher.update(bytes),
            Some(Err(_)) => self.hash = None,
            None => {
                if let Some(hash) = self.hash.take() {
                    let is = std::mem::take(&mut self.hasher).finalize();
                    if !bool::from(is.as_slice().ct_eq(&hash)) {
                        return Poll::Ready(Some(Err(axum::Error::new(OtherBody))));
                    }
                }
            }
        }
        Poll::Ready(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;
    use axum::http::Request;

    const SECRET: &[u8] = b"0123456789abcdef";
    const BODY: &str = "{\"message\":\"hello\"}\n";
    const DATE_OF: &str = "Sat, 21 Nov 2026 15:00:00 GMT";

    fn now() -> Ticks {
        Ticks::from_date(2026, 11, 21).expect("a date").plus(Duration::from_secs(15 * 3600))
    }

    fn hash(body: &str) -> String {
        BASE64_STANDARD.encode(Sha256::digest(body))
    }

    /// A request that is signed as these headers say it is, with what `x-ms-content-sha256` has in `parts`.
    fn sign(parts: &Parts, headers: &str, secret: &[u8]) -> String {
        let values: Vec<_> = headers.split(';').map(|name| value(parts, name).expect("a header")).collect();
        let target = parts.uri.path_and_query().expect("a path").as_str();
        let text = format!("{}\n{target}\n{}", parts.method, values.join(";"));
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key");
        mac.update(text.as_bytes());
        let signature = BASE64_STANDARD.encode(mac.finalize().into_bytes());
        format!("Credential=edge&SignedHeaders={headers}&Signature={signature}")
    }

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::post("/ingest?instance=web").header("host", "logs.example:7878");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    fn usual() -> Parts {
        parts(&[(X_DATE, DATE_OF), (X_HASH, &hash(BODY))])
    }

    const USUAL: &str = "x-ms-date;host;x-ms-content-sha256";

    fn verified(parts: &Parts, claim: &str, now: Ticks) -> Result<[u8; 32], Unsigned> {
        Claim::parse(claim).and_then(|claim| claim.verify(parts, SECRET, now))
    }

    /// Worked out with Python's hmac, so that what is documented is what is done.
    #[test]
    fn a_signature_of_another_program_holds() {
        let claim = format!("Credential=edge&SignedHeaders={USUAL}&Signature=PYTHON");
        let text = format!("POST\n/ingest?instance=web\n{DATE_OF};logs.example:7878;{}", hash(BODY));
        let python = "import hmac,hashlib,base64,sys;print(base64.b64encode(hmac.new(b'0123456789abcdef',sys.argv[1].encode(),hashlib.sha256).digest()).decode(),end='')";
        let said = std::process::Command::new("python3").args(["-c", python, &text]).output().expect("Python is there");
        let signature = String::from_utf8(said.stdout).expect("text");
        let claim = claim.replace("PYTHON", &signature);
        assert_eq!(verified(&usual(), &claim, now()), Ok(decoded(&hash(BODY)).expect("a hash")));
    }

    #[test]
    fn whatever_is_changed_the_signature_holds_no_more() {
        let claim = sign(&usual(), USUAL, SECRET);
        assert!(verified(&usual(), &claim, now()).is_ok());
        assert_eq!(verified(&usual(), &sign(&usual(), USUAL, b"another secret!!"), now()), Err(Unsigned::Wrong));
        let mut other = usual();
        other.method = "PUT".parse().expect("a method");
        assert_eq!(verified(&other, &claim, now()), Err(Unsigned::Wrong));
        let mut other = usual();
        other.uri = "/ingest?instance=db".parse().expect("a path");
        assert_eq!(verified(&other, &claim, now()), Err(Unsigned::Wrong));
        for (name, value) in [("host", "other"), (X_DATE, "Sat, 21 Nov 2026 15:00:01 GMT"), (X_HASH, &hash("other"))] {
            let mut other = usual();
            other
                .headers
                .insert(name.parse::<axum::http::HeaderName>().expect("a name"), value.parse().expect("a value"));
            assert_eq!(verified(&other, &claim, now()), Err(Unsigned::Wrong), "{name}");
            other
                .headers
                .append(name.parse::<axum::http::HeaderName>().expect("a name"), value.parse().expect("a value"));
            assert_eq!(verified(&other, &claim, now()), Err(Unsigned::Form), "{name} twice");
        }
    }

    #[test]
    fn dates_hold_for_five_minutes_either_way() {
        let claim = sign(&usual(), USUAL, SECRET);
        let second = Duration::from_secs(1);
        assert!(verified(&usual(), &claim, now().plus(WINDOW)).is_ok());
        assert!(verified(&usual(), &claim, now().minus(WINDOW)).is_ok());
        assert_eq!(verified(&usual(), &claim, now().plus(WINDOW + second)), Err(Unsigned::Date));
        assert_eq!(verified(&usual(), &claim, now().minus(WINDOW + second)), Err(Unsigned::Date));
        let parts = parts(&[("date", "yesterday"), (X_HASH, &hash(BODY))]);
        let claim = sign(&parts, "date;host;x-ms-content-sha256", SECRET);
        assert_eq!(verified(&parts, &claim, now()), Err(Unsigned::Date));
    }

    #[test]
    fn what_must_be_signed() {
        let keyed = parts(&[(X_DATE, DATE_OF), (X_HASH, &hash(BODY)), (KEY, "7")]);
        assert_eq!(verified(&keyed, &sign(&keyed, USUAL, SECRET), now()), Err(Unsigned::Headers));
        assert!(verified(&keyed, &sign(&keyed, &format!("{USUAL};{KEY}"), SECRET), now()).is_ok());
        for headers in ["host;x-ms-content-sha256", "x-ms-date;x-ms-content-sha256", "x-ms-date;host"] {
            assert_eq!(
                verified(&usual(), &sign(&usual(), headers, SECRET), now()),
                Err(Unsigned::Headers),
                "{headers}"
            );
        }
        let many = [USUAL, &";host".repeat(HEADERS_MAX)].concat();
        for claim in [
            "",
            "Credential=a",
            "Credential=a&SignedHeaders=host&Signature=short",
            &format!("Credential=a&SignedHeaders={USUAL}&Signature={}&More=1", hash("")),
            &format!("Credential=a&SignedHeaders=x-ms-date;host;x-ms-content-sha256;missing&Signature={}", hash("")),
            &format!("Credential=a&SignedHeaders={many}&Signature={}", hash("")),
        ] {
            assert_eq!(verified(&usual(), claim, now()), Err(Unsigned::Form), "{claim}");
        }
    }

    #[test]
    fn a_request_holds_once_unless_it_has_a_key() {
        let (claim, mut seen) = (sign(&usual(), USUAL, SECRET), Seen::default());
        let claim = Claim::parse(&claim).expect("a claim");
        let later = |seconds| now().plus(Duration::from_secs(seconds));
        assert_eq!(claim.once(&usual(), &mut seen, now()), Ok(()));
        for seconds in [0, 299, 600, 601, 1100] {
            assert_eq!(claim.once(&usual(), &mut seen, later(seconds)), Err(Unsigned::Replayed), "{seconds}");
        }
        let keyed = parts(&[(X_DATE, DATE_OF), (X_HASH, &hash(BODY)), (KEY, "7")]);
        for _ in 0..2 {
            assert_eq!(claim.once(&keyed, &mut seen, now()), Ok(()));
        }
        let mut seen = Seen::default();
        for number in 0..SIGNATURES_MAX {
            let mut signature = [0; 32];
            signature[..8].copy_from_slice(&number.to_le_bytes());
            assert_eq!(seen.add(&signature, now()), Ok(()));
        }
        assert_eq!(claim.once(&usual(), &mut seen, later(1)), Err(Unsigned::TooMany));
        assert_eq!(claim.once(&usual(), &mut seen, later(601)), Ok(()));
    }

    #[tokio::test]
    async fn a_body_that_is_not_the_signed_one_cannot_be_read() {
        let hash = decoded(&hash(BODY)).expect("a hash");
        assert_eq!(to_bytes(signed_body(BODY.into(), hash), 1 << 10).await.expect("the signed one"), BODY);
        for other in ["", "{\"message\":\"hullo\"}\n", "{\"message\":\"hello\"}"] {
            let error = to_bytes(signed_body(other.into(), hash), 1 << 10).await.expect_err(other);
            assert!(format!("{error:?}").contains("OtherBody"), "{error:?}");
        }
    }
}
