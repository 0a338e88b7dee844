//! `/-/ask`: the questions of the command line, for members of the readers' group, who cannot read the data folder.
//!
//! ```text
//! daytable query … ──► folder            its user, and root
//!                 └──► RecordQuestion ──► read.sock ──► AskedLine …, AskedLine::End
//! ```
//!
//! The answer has the items as they are in memory, so the command prints what it would print of the folder. That form belongs
//! to one version of daytable: a question of another version is refused.

use super::context::ServerContext;
use super::error::ApiError;
use super::record_question::{QuestionForm, RecordQuestion, VERSION};
use super::response::ResponseFormat;
use super::{control, follow, read};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use std::sync::Arc;

pub(super) const ASK: &str = "/-/ask";

pub(super) fn routes() -> Router<Arc<ServerContext>> {
    Router::new().route(ASK, post(ask))
}

async fn ask(State(context): State<Arc<ServerContext>>, body: Body) -> Result<Response, ApiError> {
    let question: RecordQuestion = control::read_json(&context, body).await?;
    if question.version != VERSION {
        let (asking, next) = (&question.version, "restart the daemon after an upgrade: systemctl restart daytable");
        return Err(ApiError::Refused(format!("the daemon is version {VERSION}, and this program {asking}; {next}")));
    }
    match question.form {
        QuestionForm::Follow { .. } => follow::stream(context, move |api, out| api.ask(&question, out)).await,
        _ => read::stream_scan(context, ResponseFormat::Lines, move |api, out| api.ask(&question, out)).await,
    }
}
