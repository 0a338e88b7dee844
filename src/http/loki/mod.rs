//! `/loki/api/v1/*`: the reading routes of Loki, so that Grafana's own data source, Logs Drilldown and `logcli` work.
//!
//! | route | answer |
//! |---|---|
//! | `query`, `query_range` | LogQL: entries or numbers |
//! | `labels`, `label/NAME/values`, `series` | the labels of streams |
//! | `index/stats`, `index/volume`, `index/volume_range` | entries and bytes by labels |
//! | `detected_labels`, `detected_fields`, `detected_field/NAME/values` | labels and fields, found in the newest entries |
//! | `patterns` | lines that look alike |
//! | `tail` | entries as they are committed, through a websocket |
//! | `format_query`, `drilldown-limits`, `status/buildinfo`, `/ready` | about queries and the server |
//! | `rules`, `alerts`, `/prometheus/api/v1/*` | empty: daytable has no ruler |
//!
//! Parameters come in the URL or, with POST, as a form. An error is plain text, which Grafana shows. A question runs on a
//! blocking thread, and ends when its client is gone or its time is over. An answer that is not whole is an error, except
//! that series beyond a limit are counted in `warnings`.

mod discover;
mod document;
mod numbers;
mod params;
mod query;
mod tail;
mod volume;

use super::context::ServerContext;
use super::error::ApiError;
use super::question::{EndOnDrop, LokiError, QuestionClock};
use super::request_params::RequestParams;
use super::tenants::Visibility;
use axum::Router;
use axum::extract::{Extension, FromRequest, Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use daytable_logql::eval::EntrySource;
use document::{Document, LokiResult};
use params::LokiParams;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) const TAIL: &str = "/loki/api/v1/tail";
/// The beginning of their paths. Pushes have it, too.
pub(super) const PREFIX: &str = "/loki/api/v1/";
/// The path that the requests of these routes are counted by.
pub(super) const COUNTED: &str = "/loki/api/v1/*";
/// The version of Loki whose routes these are.
const VERSION: &str = "3.7.0";

/// The parameters of a question, whose errors are plain text.
struct QuestionParams(RequestParams);

impl<S: Send + Sync> FromRequest<S> for QuestionParams {
    type Rejection = LokiError;

    async fn from_request(request: Request, state: &S) -> Result<QuestionParams, LokiError> {
        RequestParams::from_request(request, state).await.map(QuestionParams).map_err(|error| match error {
            ApiError::LongRequest(reason) => LokiError(StatusCode::PAYLOAD_TOO_LARGE, reason),
            ApiError::Busy(reason) => LokiError(StatusCode::SERVICE_UNAVAILABLE, reason),
            other => LokiError::wrong(other.to_string()),
        })
    }
}

/// A question to the entries.
type Question = fn(&LokiParams, &dyn EntrySource) -> LokiResult;

pub(super) fn routes() -> Router<Arc<ServerContext>> {
    let mut routes = Router::new();
    let questions: [(&str, Question); 13] = [
        ("query", query::instant),
        ("query_range", query::range),
        ("labels", discover::labels),
        ("label", discover::labels),
        ("series", discover::series),
        ("index/stats", volume::stats),
        ("index/volume", volume::instant),
        ("index/volume_range", volume::range),
        ("detected_labels", discover::detected_labels),
        ("detected_fields", discover::detected_fields),
        ("patterns", discover::patterns),
        ("label/{name}/values", discover::label_values),
        ("detected_field/{name}/values", discover::field_values),
    ];
    for (path, question) in questions {
        let handler = async move |state: State<Arc<ServerContext>>,
                                  name: Option<Path<String>>,
                                  Extension(seen): Extension<Visibility>,
                                  headers: HeaderMap,
                                  given: QuestionParams| {
            let params = LokiParams::read(given.0, &headers).with_name(name.map(|Path(name)| name));
            answer(state.0, seen, params, question).await
        };
        routes = routes.route(&format!("{PREFIX}{path}"), get(handler).post(handler));
    }
    let format = async |headers: HeaderMap, given: QuestionParams| {
        let params = LokiParams::read(given.0, &headers);
        let query = daytable_logql::parse(params.required("query")?)?;
        Ok::<_, LokiError>(Document::from(success(json!(query.to_string()))))
    };
    routes = routes.route(&format!("{PREFIX}format_query"), get(format).post(format)).route(TAIL, get(tail::tail));
    for (path, answer) in fixed() {
        routes = routes.route(path, get(async move || Document::from(answer.clone())));
    }
    routes
}

/// Answers that do not depend on records.
fn fixed() -> [(&'static str, Value); 9] {
    let groups = success(json!({ "groups": [] }));
    let build = json!({
        "version": VERSION, "revision": concat!("daytable ", env!("CARGO_PKG_VERSION")), "branch": "", "buildUser": "",
        "buildDate": "", "goVersion": "",
    });
    let limits = json!({
        "limits": {
            "discover_log_levels": true, "discover_service_name": [], "log_level_fields": ["level", "severity"],
            "max_entries_limit_per_query": query::LIMIT_MAX, "max_line_size_truncate": false, "max_query_bytes_read": "0B",
            "max_query_length": "0s", "max_query_lookback": "0s", "max_query_range": "0s", "max_query_series": 1000,
            "metric_aggregation_enabled": false, "otlp_config": {}, "pattern_persistence_enabled": false,
            "query_timeout": "1m", "retention_period": "0s", "retention_stream": [], "volume_enabled": true,
            "volume_max_series": 1000,
        },
        "pattern_ingester_enabled": true,
        "version": VERSION,
    });
    [
        ("/loki/api/v1/status/buildinfo", build.clone()),
        ("/loki/api/v1/drilldown-limits", limits),
        ("/loki/api/v1/rules", groups.clone()),
        ("/loki/api/v1/alerts", success(json!({ "alerts": [] }))),
        ("/prometheus/api/v1/rules", groups.clone()),
        ("/prometheus/api/v1/alerts", success(json!({ "alerts": [] }))),
        ("/loki/api/v1/cache/generation_numbers", json!({ "results_cache_generation": "" })),
        ("/api/prom/rules", groups),
        ("/api/v1/status/buildinfo", build),
    ]
}

fn success(data: Value) -> Value {
    json!({ "status": "success", "data": data })
}

/// Asks the entries on a blocking thread.
async fn answer(
    context: Arc<ServerContext>,
    seen: Visibility,
    params: LokiParams,
    question: Question,
) -> Result<Response, LokiError> {
    let busy = |error: ApiError| LokiError(StatusCode::SERVICE_UNAVAILABLE, error.to_string());
    let params = params.with_memory(context.limits.questions.clone());
    let permit = context.scans.permit().await.map_err(busy)?;
    let clock = QuestionClock::start();
    let end = EndOnDrop(clock.clone());
    let asker = context.clone();
    let asked = context.scans.spawn(move || {
        let _permit = permit;
        let mut answer = None;
        asker.api.log_entries(&clock, &seen, &mut |source| answer = Some(question(&params, source)))?;
        answer.unwrap_or_else(|| Err(LokiError::failed("the entries were not read")))
    });
    let answered = asked.await.unwrap_or_else(|_| Err(LokiError::failed("the question ended without an answer")));
    drop(end);
    answered.map(Document::into_response)
}
