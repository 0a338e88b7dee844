//! Invariants of every answer of the service. Only tests compile this module.

use crate::{entity, response};

/// Parses `body` as each kind of answer, and asserts the invariants.
pub fn assert_answers(entities: usize, body: &[u8]) {
    let text = String::from_utf8_lossy(body);
    for content_type in ["", "multipart/mixed; boundary=batchresponse_1"] {
        if let response::TransactionOutcome::Done(versions) = response::outcome(content_type, body, entities) {
            assert_eq!(versions.len(), entities, "each entity has an answer");
            assert!(text.matches("HTTP/1.").count() >= entities, "more entities are done than are answered for");
        }
    }
    let fault = response::fault(&text);
    assert!(fault.code.len() + fault.message.len() <= text.len(), "more is said than came");
    let _ = (entity::entity(body), entity::tables(body));
    if let Ok(page) = entity::entities(body) {
        assert!(page.len() <= body.len());
    }
}
