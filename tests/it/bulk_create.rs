//! `_bulk` with ids: concurrent clients create a document once, and the other actions succeed.

use crate::client::over;
use crate::place::{PATIENCE, Place, message_of};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};

const TIME: &str = "2026-11-20T00:05:45Z";
const HTTP: &str = "[http]\nlisten = \"127.0.0.1:0\"\n[[table]]\nname = \"Log\"\nkeep = \"10000d\"\n";

fn action(action: &str, id: &str, message: &str) -> String {
    let document = json!({ "@timestamp": TIME, "message": message, "host": "h" });
    format!("{}\n{document}\n", json!({ action: { "_index": "i", "_id": id } }))
}

/// The statuses and the response.
fn bulk(to: SocketAddr, headers: &str, body: &str) -> (Vec<u64>, Value) {
    let stream = TcpStream::connect(to).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let headers = format!("Content-Type: application/x-ndjson\r\n{headers}");
    let answer = over(stream, "POST", "/elasticsearch/_bulk", &headers, body.as_bytes()).expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer: Value = serde_json::from_str(&answer.body).expect("JSON");
    let items = answer["items"].as_array().expect("items");
    let status = |item: &Value| item.as_object().and_then(|item| item.values().next()?["status"].as_u64());
    (items.iter().map(|item| status(item).expect("a status")).collect(), answer)
}

#[test]
fn a_document_that_is_there_is_not_created_again_and_the_others_are() {
    let place = Place::new();
    let daemon = place.start_with(HTTP);
    let to = daemon.address();
    let first =
        action("create", "7", "first") + &action("create", "7", "twice in one body") + &action("create", "8", "eight");
    let (statuses, answer) = bulk(to, "", &first);
    assert_eq!(statuses, [201, 409, 201], "{answer}");
    let conflict = &answer["items"][1]["create"];
    assert_eq!(
        (&conflict["error"]["type"], &conflict["_id"]),
        (&json!("version_conflict_engine_exception"), &json!("7"))
    );
    assert_eq!(answer["errors"], json!(true));
    let (statuses, _) = bulk(to, "", &(action("create", "7", "again") + &action("create", "9", "nine")));
    assert_eq!(statuses, [409, 201]);
    // Every document exists: no commit is needed, and the response still comes.
    assert_eq!(bulk(to, "", &(action("create", "8", "again") + &action("create", "9", "again"))).0, [409, 409]);
    assert_eq!(bulk(to, "", &action("index", "9", "nine, indexed")).0, [201]);
    // A document created in a body is written by no other action of that body, in either order: each 201 is a row.
    let both = action("create", "11", "created") + &action("index", "11", "indexed");
    assert_eq!(bulk(to, "", &both).0, [201, 409]);
    assert_eq!(bulk(to, "", &both).0, [409, 409]);
    assert_eq!(bulk(to, "", &(action("index", "12", "indexed first") + &action("create", "12", "no"))).0, [201, 409]);
    // A repeat under the same key gets the same response: its documents are its own.
    let keyed = action("create", "10", "ten");
    for _ in 0..2 {
        assert_eq!(bulk(to, "Idempotency-Key: k\r\n", &keyed).0, [201]);
    }
    assert_eq!(bulk(to, "", &keyed).0, [409]);
    let mut messages: Vec<_> = place.records().iter().map(message_of).collect();
    messages.sort();
    assert_eq!(messages, ["created", "eight", "first", "indexed first", "nine, indexed", "ten"]);
    // The same after a restart, and the counters are right.
    daemon.stop();
    let daemon = place.start_with(HTTP);
    assert_eq!(bulk(daemon.address(), "", &action("create", "7", "later")).0, [409]);
    daemon.stop();
    place.said("verify", &[]);
}

#[test]
fn of_many_that_create_the_same_documents_one_does() {
    let place = Place::new();
    let daemon = place.start_with(HTTP);
    let to = daemon.address();
    for round in 0..5 {
        let ids: Vec<_> = (0..20).map(|n| format!("{round}-{n}")).collect();
        let statuses: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..8)
                .map(|client| {
                    // Each client has another order: no deadlock.
                    let mut ids = ids.clone();
                    ids.rotate_left(client * 3 % 20);
                    scope.spawn(move || {
                        let body: String =
                            ids.iter().map(|id| action("create", id, &format!("{id} of {client}"))).collect();
                        bulk(to, "", &body).0
                    })
                })
                .collect();
            clients.into_iter().map(|client| client.join().expect("no panic")).collect()
        });
        let created = statuses.iter().flatten().filter(|status| **status == 201).count();
        let conflicts = statuses.iter().flatten().filter(|status| **status == 409).count();
        assert_eq!((created, conflicts), (20, 140), "{statuses:?}");
    }
    assert_eq!(place.records().len(), 100);
    daemon.stop();
    place.said("verify", &[]);
}
