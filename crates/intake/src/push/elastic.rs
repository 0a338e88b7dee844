//! Requests that clients of Elasticsearch send before their documents, and the answers that they expect.
//!
//! | client | requests |
//! |---|---|
//! | Filebeat and other Beats | `GET /`, `GET /_license`, `/_ilm/policy/…`, `/_index_template/…`, `/_ingest/pipeline/…`, `/_data_stream/…` |
//! | Logstash | `HEAD` and `GET /`, `GET /_license` (`/_xpack` before 8), `/_index_template/…`, `/_ilm/policy/…` |
//! | Vector | `GET /` for the version, `GET /_cluster/health` |
//! | the clients of Python and JavaScript | no request, but each answer must name the product |
//!
//! daytable acknowledges every setup request, because it has no templates, policies and pipelines. A request to store a
//! document is not a setup request, whatever its path begins with: only `_bulk` stores documents here.

use serde_json::json;

/// The announced version: new enough that clients send no types, and old enough that they know it.
const VERSION: &str = "8.17.0";
/// Paths of setup requests.
const SET_UP: [&str; 12] = [
    "_ilm",
    "_index_template",
    "_template",
    "_component_template",
    "_ingest",
    "_data_stream",
    "_nodes",
    "_alias",
    "_aliases",
    "_logstash",
    "_slm",
    "_security",
];

/// The answer to a request to a path below `/elasticsearch`: status and JSON. `None` for an unknown path.
pub fn answer(method: &str, path: &str) -> Option<(u16, String)> {
    let path = path.trim_matches('/');
    let is_read = matches!(method, "GET" | "HEAD");
    let first = path.split('/').next().unwrap_or_default();
    let json = match path {
        "" if is_read => json!({
            "name": "daytable",
            "cluster_name": "daytable",
            "cluster_uuid": "daytable",
            "version": {
                "number": VERSION,
                "build_flavor": "default",
                "build_type": "tar",
                "build_hash": "daytable",
                "build_snapshot": false,
                "lucene_version": "9.12.0",
                "minimum_wire_compatibility_version": "7.17.0",
                "minimum_index_compatibility_version": "7.0.0",
            },
            "tagline": "You Know, for Search",
        }),
        "_license" | "_xpack/license" if is_read => json!({ "license": license() }),
        "_xpack" if is_read => json!({
            "build": {},
            "license": license(),
            "features": {
                "ilm": { "available": true, "enabled": true },
                "security": { "available": true, "enabled": false },
                "monitoring": { "available": false, "enabled": false },
            },
        }),
        "_cluster/health" if is_read => json!({
            "cluster_name": "daytable",
            "status": "green",
            "timed_out": false,
            "number_of_nodes": 1,
            "number_of_data_nodes": 1,
            "active_primary_shards": 0,
            "active_shards": 0,
            "relocating_shards": 0,
            "initializing_shards": 0,
            "unassigned_shards": 0,
        }),
        _ if !SET_UP.contains(&first) => return None,
        _ if is_read => json!({}),
        // `_doc`, `_create`, `_update`, …
        _ if path.split('/').skip(1).any(|name| name.starts_with('_')) => return None,
        _ => json!({ "acknowledged": true }),
    };
    Some((200, json.to_string()))
}

fn license() -> serde_json::Value {
    json!({
        "status": "active",
        "uid": "00000000-0000-0000-0000-000000000000",
        "type": "basic",
        "issue_date_in_millis": 0,
        "issued_to": "daytable",
        "issuer": "daytable",
        "start_date_in_millis": -1,
    })
}

/// An error in the form of Elasticsearch.
pub fn error(status: u16, kind: &str, reason: &str) -> String {
    let cause = json!({ "type": kind, "reason": reason });
    json!({ "error": { "root_cause": [cause], "type": kind, "reason": reason }, "status": status }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_before_the_first_document() {
        let said = |method: &str, path: &str| {
            answer(method, path).map(|(_, json)| serde_json::from_str::<serde_json::Value>(&json).expect("JSON"))
        };
        assert_eq!(said("GET", "/").expect("there")["version"]["number"], VERSION);
        assert!(said("HEAD", "").is_some());
        assert_eq!(said("GET", "/_license").expect("there")["license"]["status"], "active");
        assert_eq!(said("GET", "/_cluster/health").expect("there")["status"], "green");
        assert_eq!(said("PUT", "/_index_template/filebeat-8.17.0").expect("there")["acknowledged"], true);
        assert!(said("GET", "/_ilm/policy/filebeat").is_some());
        for (method, path) in [
            ("POST", "/_data_stream/x/_doc"),
            ("PUT", "/_alias/_doc/1"),
            ("GET", "/logs/_search"),
            ("POST", "/"),
            ("DELETE", "/logs"),
            ("GET", "/_license/x"),
        ] {
            assert_eq!(said(method, path), None, "{method} {path}");
        }
    }
}
