//! A JSON document of an answer.
//!
//! Long answers are written as text at once: their values would take ten times as much memory. The text is in pieces, so
//! it never moves as it grows, and each piece is charged before it is made, until its client has it.

use crate::http::question::LokiError;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use daytable_logql::EvalError;
use daytable_platform::budget::{OverBudget, QuestionBudget};
use futures_core::Stream;
use serde_json::Value;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Bytes of a piece. A longer text is a piece of its own.
const PIECE_BYTES: usize = 64 << 10;

pub(super) type LokiResult = Result<Document, LokiError>;

/// What a route answers.
#[derive(Default)]
pub(super) struct Document {
    pieces: Vec<String>,
    /// The memory that the pieces are charged to.
    room: Option<QuestionBudget>,
    over: Option<OverBudget>,
}

impl From<Value> for Document {
    fn from(value: Value) -> Document {
        Document { pieces: vec![value.to_string()], ..Document::default() }
    }
}

impl Document {
    /// An empty document.
    pub(super) fn within(room: QuestionBudget) -> Document {
        Document { room: Some(room), ..Document::default() }
    }

    pub(super) fn push(&mut self, text: &str) {
        if self.over.is_some() {
            return;
        }
        if let Some(piece) = self.pieces.last_mut().filter(|piece| piece.capacity() - piece.len() >= text.len()) {
            return piece.push_str(text);
        }
        let bytes = text.len().max(PIECE_BYTES);
        self.over = self.room.as_ref().and_then(|room| room.charge(bytes, "answer").err());
        if self.over.is_none() {
            let mut piece = String::with_capacity(bytes);
            piece.push_str(text);
            self.pieces.push(piece);
        }
    }

    /// Adds an array; `write` adds each of its items.
    pub(super) fn push_array<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Document, T),
    ) {
        let mut before = "[";
        for item in items {
            if self.over.is_some() {
                return;
            }
            self.push(before);
            write(self, item);
            before = ",";
        }
        self.push(if before == "[" { "[]" } else { "]" });
    }

    /// The document, if there was memory for all of it.
    pub(super) fn whole(self) -> LokiResult {
        match self.over {
            Some(over) => Err(EvalError::from(over).into()),
            None => Ok(self),
        }
    }

    /// Its text.
    pub(super) fn into_text(self) -> String {
        self.pieces.concat()
    }
}

impl IntoResponse for Document {
    fn into_response(self) -> Response {
        let length: usize = self.pieces.iter().map(String::len).sum();
        let head = [
            (header::CONTENT_TYPE, "application/json; charset=utf-8".to_owned()),
            (header::CONTENT_LENGTH, length.to_string()),
            (header::CACHE_CONTROL, "no-store".to_owned()),
        ];
        let unsent = UnsentPieces { pieces: self.pieces.into_iter(), room: self.room };
        (head, Body::from_stream(unsent)).into_response()
    }
}

/// What a client has not read.
struct UnsentPieces {
    pieces: std::vec::IntoIter<String>,
    room: Option<QuestionBudget>,
}

impl Stream for UnsentPieces {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let piece = self.pieces.next();
        if let (Some(piece), Some(room)) = (&piece, &self.room) {
            room.release(piece.capacity());
        }
        Poll::Ready(piece.map(|piece| Ok(piece.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_platform::budget::MemoryBudget;

    fn long(document: &mut Document) {
        document.push_array(0..100_000, |document, number| document.push(&format!("\"number {number}\"")));
    }

    #[tokio::test]
    async fn a_long_document_is_charged_until_its_client_has_it() {
        let memory = MemoryBudget::unshared(16 << 20);
        let mut document = Document::within(memory.question());
        long(&mut document);
        let document = document.whole().unwrap_or_else(|error| panic!("{error:?}"));
        assert!(memory.used() > 1 << 20);
        let response = document.into_response();
        let length = response.headers()[header::CONTENT_LENGTH].to_str().expect("a number").parse::<usize>();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        assert_eq!(Ok(body.len()), length);
        let numbers: Vec<String> = serde_json::from_slice(&body).expect("JSON");
        assert!(numbers.iter().enumerate().all(|(at, text)| *text == format!("number {at}")));
        assert_eq!((numbers.len(), memory.used()), (100_000, 0));
    }

    #[test]
    fn a_document_that_does_not_fit_is_refused() {
        let mut document = Document::within(MemoryBudget::unshared(1 << 20).question());
        long(&mut document);
        assert!(document.pieces.len() <= 16 && document.whole().is_err());
    }
}
