"""Pushes with the libraries that people push with, each of which repeats by itself what failed.

    python program.py opentelemetry|elasticsearch URL

A line of JSON on standard input asks for one push: `{"key": "…" or null, "messages": ["…", …]}`. A line on standard output
says that it was answered. What the library gives up is handed to it again, with the same key.
"""

import json
import logging
import sys
import time

TRIES = 8


def opentelemetry(url):
    """The SDK's exporter over HTTP, whose headers are fixed when it is made."""
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import (
        InMemoryLogRecordExporter,
        LogRecordExportResult,
        SimpleLogRecordProcessor,
    )

    kept = InMemoryLogRecordExporter()
    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
    logger = provider.get_logger("torture")

    def push(key, messages):
        for message in messages:
            logger.emit(LogRecord(timestamp=time.time_ns(), severity_number=SeverityNumber.INFO, body=message))
        batch = kept.get_finished_logs()
        kept.clear()
        exporter = OTLPLogExporter(url + "/v1/logs", headers={"Idempotency-Key": key} if key else None)
        try:
            return exporter.export(batch) is LogRecordExportResult.SUCCESS
        finally:
            exporter.shutdown()

    return push


def elasticsearch(url):
    """The bulk helper, one client for all pushes, so that connections are used again."""
    from elasticsearch import Elasticsearch, helpers

    client = Elasticsearch(url + "/elasticsearch", request_timeout=20, retry_on_timeout=True)

    def push(key, messages):
        actions = [{"_op_type": "create", "_index": "torture", "message": message} for message in messages]
        asked = client.options(headers={"idempotency-key": key}) if key else client
        try:
            return helpers.bulk(asked, actions) == (len(actions), [])
        except Exception:
            # Of an answer that ends among its headers the library makes what it likes: an unknown product, a TypeError.
            return False

    return push


def main():
    logging.basicConfig(level=logging.CRITICAL)
    push = {"opentelemetry": opentelemetry, "elasticsearch": elasticsearch}[sys.argv[1]](sys.argv[2])
    for line in sys.stdin:
        asked = json.loads(line)
        if not any(push(asked["key"], asked["messages"]) for _ in range(TRIES)):
            sys.exit(f"{sys.argv[1]} gave up {line}")
        print("taken", flush=True)


main()
