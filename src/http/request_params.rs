//! The parameters of a request that reads: in the URL, and with `POST` also in a form.
//!
//! A head has 16 KiB at most, and a query of the language 64 KiB, so a long query comes as a form. The memory of all forms
//! together is bounded: only some are received at a time, each for a bounded time.

use super::error::ApiError;
use axum::body::{Body, to_bytes};
use axum::extract::{Form, FromRequest, Query, Request};
use axum::http::{HeaderValue, Uri, header};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Bytes of a form: a query of 64 KiB of which every byte is encoded with three, and the other parameters.
const FORM_BYTES_MAX: usize = 256 << 10;
/// Forms that are received at a time.
const FORMS_MAX: usize = 32;
/// How long a form may take to arrive, and how long it waits for others.
const FORM_TIME_MAX: Duration = Duration::from_secs(10);

static FORMS: Semaphore = Semaphore::const_new(FORMS_MAX);

/// The parameters of a request, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestParams {
    /// The path of the route.
    pub(super) path: String,
    /// Names and values, decoded.
    pub(super) pairs: Vec<(String, String)>,
}

impl RequestParams {
    /// The parameters of a URL.
    pub(super) fn of_uri(uri: &Uri) -> Result<RequestParams, ApiError> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri).map(|Query(pairs)| pairs);
        let pairs = pairs.map_err(|error| ApiError::parameter("text", error.to_string()))?;
        Ok(RequestParams { path: uri.path().to_owned(), pairs })
    }

    /// Adds the parameters of a form, which has the syntax of a query string.
    pub(super) async fn add_form(&mut self, body: Body) -> Result<(), ApiError> {
        let received = timeout(FORM_TIME_MAX, async {
            let _place = FORMS.acquire().await;
            to_bytes(body, FORM_BYTES_MAX).await
        });
        let body = match received.await {
            Ok(Ok(body)) => body,
            Ok(Err(_)) => {
                return Err(ApiError::LongRequest(format!(
                    "the form has more than {FORM_BYTES_MAX} bytes, or was cut off"
                )));
            }
            Err(_) => return Err(ApiError::Busy("the form did not arrive in time".into())),
        };
        let mut form = Request::post("/").body(Body::from(body)).unwrap_or_default();
        let media = HeaderValue::from_static("application/x-www-form-urlencoded");
        // Whatever the client calls it: other contents have no parameter that a route knows.
        form.headers_mut().insert(header::CONTENT_TYPE, media);
        *form.method_mut() = axum::http::Method::POST;
        let pairs = Form::<Vec<(String, String)>>::from_request(form, &()).await;
        let Form(pairs) = pairs.map_err(|error| ApiError::parameter("form", error.to_string()))?;
        self.pairs.extend(pairs);
        Ok(())
    }
}

impl<S: Send + Sync> FromRequest<S> for RequestParams {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<RequestParams, ApiError> {
        let mut params = RequestParams::of_uri(request.uri())?;
        if request.method() == axum::http::Method::POST {
            params.add_form(request.into_body()).await?;
        }
        Ok(params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(uri: &str, body: impl Into<Body>) -> Request {
        Request::post(uri).body(body.into()).expect("a request")
    }

    async fn read(request: Request) -> Result<RequestParams, ApiError> {
        RequestParams::from_request(request, &()).await
    }

    #[tokio::test]
    async fn a_form_has_parameters_as_a_url_has() {
        let expected = vec![("n".to_owned(), "7".to_owned()), ("q".into(), "a & b = ü".into())];
        let text = "q=a+%26%20b+%3D+%C3%BC";
        for request in [
            Request::get(format!("/api/query?n=7&{text}")).body(Body::empty()).expect("a request"),
            post("/api/query?n=7", text),
            post("/api/query", format!("n=7&{text}")),
        ] {
            assert_eq!(
                read(request).await.expect("good"),
                RequestParams { path: "/api/query".into(), pairs: expected.clone() }
            );
        }
        assert_eq!(read(post("/api/query", "")).await.expect("good").pairs, []);
    }

    /// Every byte of the longest query may be encoded with three.
    #[tokio::test]
    async fn the_longest_query_fits_and_a_longer_form_is_refused_by_its_limit() {
        let longest = "%C3%BC".repeat(32 << 10);
        let read_again = read(post("/api/query", format!("q={longest}"))).await.expect("good");
        assert_eq!(read_again.pairs[0].1.len(), 64 << 10);
        let error = read(post("/api/query", "q".repeat(FORM_BYTES_MAX + 1))).await.expect_err("too long");
        assert!(matches!(&error, ApiError::LongRequest(text) if text.contains("262144 bytes")), "{error:?}");
    }

    /// A client that sends half of its form does not keep others from asking for good.
    #[tokio::test(start_paused = true)]
    async fn a_form_that_does_not_arrive_is_refused() {
        let never = Body::from_stream(futures_pending());
        assert!(matches!(read(post("/api/query", never)).await, Err(ApiError::Busy(_))));
    }

    struct Never;

    impl futures_core::Stream for Never {
        type Item = Result<axum::body::Bytes, std::convert::Infallible>;

        fn poll_next(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Self::Item>> {
            std::task::Poll::Pending
        }
    }

    fn futures_pending() -> Never {
        Never
    }
}
