"""Asks a Delta table in three engines, and prints what each of them answers.

    target/lake/bin/python tests/it/read_lake.py TABLE_URL SQL [ENGINE …]

TABLE_URL is a folder, or s3://bucket/path with AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the
environment. SQL names the table `lake`. One line of JSON for each engine: {"engine": …, "rows": [{…}, …]}, or
{"engine": …, "error": …}; the exit code is 1 if an engine failed.
"""

import datetime
import decimal
import importlib
import json
import os
import sys


def plain(value):
    """A value as JSON has it, the same from each engine."""
    if isinstance(value, datetime.datetime):
        if value.tzinfo:
            value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return value.isoformat(sep=" ", timespec="microseconds")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        # A map, as Arrow has it.
        if value and all(isinstance(entry, tuple) and len(entry) == 2 for entry in value):
            return plain(dict(value))
        return [plain(entry) for entry in value]
    return value


def is_remote(url):
    return "://" in url


def s3():
    """The endpoint of the store and its two keys."""
    return [os.environ[name] for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]


def delta_rs(url, sql):
    import pyarrow
    from deltalake import DeltaTable, QueryBuilder

    options = None
    if is_remote(url):
        endpoint, key, secret = s3()
        options = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
    table = DeltaTable(url, storage_options=options)
    # Not `to_pyarrow_table`, which answers differently for some tables.
    answer = QueryBuilder().register("lake", table).execute(sql).read_all()
    return pyarrow.table(answer).to_pylist()


def duck_db(url, sql):
    import duckdb

    connection = duckdb.connect()
    # The wheels have the signed extensions as files. Loading one by its path asks no server.
    for name in ("httpfs", "delta"):
        wheel = importlib.import_module(f"duckdb_extension_{name}")
        folder = os.path.join(os.path.dirname(wheel.__file__), "extensions", "v" + duckdb.__version__)
        connection.execute(f"LOAD '{folder}/{name}.duckdb_extension'")
    if is_remote(url):
        endpoint, key, secret = s3()
        scheme, host = endpoint.split("://")
        connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{key}', SECRET '{secret}', ENDPOINT '{host}', URL_STYLE 'path',"
            f" REGION 'us-east-1', USE_SSL {str(scheme == 'https').lower()})"
        )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"CREATE VIEW lake AS SELECT * FROM delta_scan('{url}')")
    answer = connection.execute(sql)
    names = [column[0] for column in answer.description]
    return [dict(zip(names, row)) for row in answer.fetchall()]


def click_house(url, sql):
    if is_remote(url):
        endpoint, key, secret = s3()
        source = f"deltaLake('{endpoint}/{url.split('://')[1]}', '{key}', '{secret}')"
    else:
        # It reads nothing outside of the working folder.
        os.chdir(url)
        source = f"deltaLakeLocal('{url}')"
    import chdb

    settings = "SETTINGS output_format_json_quote_64bit_integers = 0, session_timezone = 'UTC'"
    answer = chdb.query(f"WITH lake AS (SELECT * FROM {source}) {sql} {settings}", "JSONEachRow")
    return [json.loads(line) for line in str(answer).splitlines()]


ENGINES = {"delta-rs": delta_rs, "duckdb": duck_db, "clickhouse": click_house}


def main():
    url, sql, *names = sys.argv[1:]
    url = url if is_remote(url) else os.path.abspath(url)
    is_whole = True
    for name in names or ENGINES:
        try:
            answer = {"engine": name, "rows": [plain(row) for row in ENGINES[name](url, sql)]}
        except Exception as error:
            answer = {"engine": name, "error": f"{type(error).__name__}: {error}"}
            is_whole = False
        print(json.dumps(answer, default=str), flush=True)
    return 0 if is_whole else 1


sys.exit(main())
