//! Clients that push over HTTP: OpenTelemetry's SDK, Elasticsearch's client, a Loki client, and curl.

use super::{installed, record, run, wait_for_all};
use crate::place::{Lines, Place, message_of, numbered};
use std::process::Command;

/// Runs a script with the packages of `tests/requirements.txt`. Its argument is the daemon's address.
fn python(script: &str, daemon: &crate::place::Daemon) {
    run(Command::new(installed("venv/bin/python")).args(["-c", script]).arg(format!("http://{}", daemon.address())));
}

#[test]
fn opentelemetry_s_sdk_over_http() {
    let place = Place::new();
    let daemon = place.start_with("");
    python(
        r#"
import logging, sys
from opentelemetry._logs import set_logger_provider
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
provider = LoggerProvider(resource=Resource.create({"service.name": "shop", "host.name": "web-17"}))
exporter = OTLPLogExporter(endpoint=sys.argv[1] + "/v1/logs", compression=Compression.Gzip)
provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
logger = logging.getLogger("cart")
logger.addHandler(LoggingHandler(logger_provider=provider))
logger.setLevel(logging.INFO)
for number in range(1500):
    logger.warning("line of OpenTelemetry, café, number %d", number)
logger.error("with fields", extra={"order": 7, "paid": True})
provider.shutdown()
"#,
        &daemon,
    );
    let mut lines = numbered("line of OpenTelemetry, café, number", 1500);
    lines.push("with fields".into());
    place.wait_for_messages(&lines);
    let record = record(&place, "with fields");
    assert_eq!(
        (&record["level"], &record["order"], &record["paid"]),
        (&"error".into(), &7.into(), &true.into()),
        "{record}"
    );
    assert_eq!(record["service_name"].as_str().or(record["component"].as_str()), Some("shop"), "{record}");
    daemon.stop();
    place.assert_no_key_twice();
}

#[test]
fn elasticsearch_s_client_by_its_bulk_helper() {
    let place = Place::new();
    let daemon = place.start_with("");
    python(
        r#"
import sys
from elasticsearch import Elasticsearch, helpers
client = Elasticsearch(sys.argv[1] + "/elasticsearch", http_compress=True)
actions = ({"_index": "logs", "_op_type": "create", "@timestamp": "2026-11-21T08:00:00Z", "log.level": "warn", "host.name": "web-17",
            "message": "line of Elasticsearch, café, number %d" % number} for number in range(1500))
taken, errors = helpers.bulk(client, actions, chunk_size=400)
assert (taken, errors) == (1500, []), (taken, errors)
"#,
        &daemon,
    );
    let lines = numbered("line of Elasticsearch, café, number", 1500);
    place.wait_for_messages(&lines);
    let records = place.records();
    assert!(
        records.iter().all(|record| record["level"] == "warn" && record["time"] == "2026-11-21T08:00:00Z"),
        "{:?}",
        records[0]
    );
    daemon.stop();
    place.assert_no_key_twice();
}

#[test]
fn a_loki_client() {
    let place = Place::new();
    let daemon = place.start_with("");
    python(
        r#"
import logging, sys, logging_loki
handler = logging_loki.LokiHandler(url=sys.argv[1] + "/loki/api/v1/push", tags={"app": "shop"}, version="1")
logger = logging.getLogger("cart")
logger.addHandler(handler)
for number in range(200):
    logger.error("line of Loki, café, number %d", number)
"#,
        &daemon,
    );
    place.wait_for_messages(&numbered("line of Loki, café, number", 200));
    let records = place.records();
    assert!(records.iter().all(|record| record["level"] == "error" && record["app"] == "shop"), "{:?}", records[0]);
    daemon.stop();
    place.assert_no_key_twice();
}

#[test]
fn curl_in_every_encoding() {
    let place = Place::new();
    let daemon = place.start_with("");
    let url = |instance: &str| format!("http://{}/ingest?instance={instance}", daemon.address());
    let lines = numbered("line of curl, café, number", 500);
    let objects: String =
        lines.iter().map(|line| format!("{}\n", serde_json::json!({ "message": line, "level": "warn" }))).collect();
    let path = |name: &str| place.path(name);
    std::fs::write(path("lines"), lines.concat_lines()).expect("written");
    std::fs::write(path("objects"), &objects).expect("written");
    let array = format!("[{}]", objects.trim_end().replace('\n', ","));
    std::fs::write(path("array"), array).expect("written");
    run(Command::new("gzip").arg("--keep").arg(path("objects")));
    let post = |instance: &str, file: &str, headers: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail-with-body", "--data-binary"])
            .arg(format!("@{}", path(file).display()));
        for header in headers {
            curl.args(["--header", header]);
        }
        run(curl.arg(url(instance)));
    };
    post("plain", "lines", &["Content-Type: text/plain"]);
    post("ndjson", "objects", &["Content-Type: application/x-ndjson"]);
    post("array", "array", &["Content-Type: application/json"]);
    post("gzip", "objects.gz", &["Content-Type: application/x-ndjson", "Content-Encoding: gzip"]);
    let once = ["Content-Type: application/x-ndjson", "Idempotency-Key: the-same"];
    post("once", "objects", &once);
    post("once", "objects", &once);
    wait_for_all(&place, &["plain", "ndjson", "array", "gzip", "once"], &lines);
    daemon.stop();
    let records = place.records();
    assert!(records.iter().filter(|record| record["partition_key"] == "array").all(|record| record["level"] == "warn"));
    assert_eq!(records.iter().map(message_of).filter(|message| *message == lines[0]).count(), 5);
    place.assert_no_key_twice();
}
