#!/usr/bin/env python3
"""Five questions about nested events of a social network, in the shape of JSONBench, beside ClickHouse in the same run.

    target/venv/bin/python benches/events/events.py BINARY [EVENTS]       (default: 1,000,000 events)

The data of JSONBench lies in a bucket of its own, so these are not its events but some of the same shape: 487 bytes or so, 232 users of a
thousand events, the same collections. A daemon reads them from a file and answers `GET /api/query`; ClickHouse (`chdb`, see
benches/asking/requirements.txt) has them in the table of its own entry there, with two threads. Prints a row of Markdown for each: medians of seven warm runs, in
milliseconds. The script fails if an answer is not that of ClickHouse.
"""
import http.client, json, os, random, re, socket, statistics, subprocess, sys, tempfile, time, urllib.parse

RUNS = 7
# Yesterday, in microseconds: a day that is kept open.
START = (int(time.time()) // 86_400 - 1) * 86_400_000_000
LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
COLLECTIONS = {"app.bsky.feed.like": 45, "app.bsky.graph.follow": 18, "app.bsky.feed.post": 16, "app.bsky.feed.repost": 8, "app.bsky.graph.block": 5,
    "app.bsky.actor.profile": 4, "app.bsky.graph.listitem": 2, "app.bsky.feed.threadgate": 1, "app.bsky.graph.list": 1}
WORDS = "the of and a to in is you that it he was for on are as with his they at be this have from or one had by word".split()

# The name of a question, how daytable is asked, how ClickHouse.
CREATED = "kind:=commit commit.operation:=create"
IS_CREATED = "data.kind = 'commit' AND data.commit.operation = 'create'"
QUESTIONS = [
    ("events by collection", "* | stats by (commit.collection) count() n | sort by (n desc, commit.collection)",
     "SELECT data.commit.collection AS c, count() AS n FROM events GROUP BY c ORDER BY n DESC, c"),
    ("and the users of each", f"{CREATED} | stats by (commit.collection) count() n, count_uniq(did) users | sort by (n desc, commit.collection)",
     f"SELECT data.commit.collection AS c, count() AS n, uniqExact(data.did) AS users FROM events WHERE {IS_CREATED} GROUP BY c ORDER BY n DESC, c"),
    ("by the hour of the day", f"{CREATED} commit.collection:in(app.bsky.feed.post, app.bsky.feed.repost, app.bsky.feed.like) "
     "| math floor(time_us / 3600000000) % 24 as hour | stats by (commit.collection, hour) count() n | sort by (hour, commit.collection)",
     "SELECT data.commit.collection AS c, intDiv(data.time_us, 3600000000) % 24 AS hour, count() AS n FROM events "
     f"WHERE {IS_CREATED} AND c IN ('app.bsky.feed.post', 'app.bsky.feed.repost', 'app.bsky.feed.like') GROUP BY c, hour ORDER BY hour, c"),
    ("three users with the first posts", f"{CREATED} commit.collection:=app.bsky.feed.post | stats by (did) min(time_us) first | sort by (first, did) | limit 3",
     f"SELECT data.did AS did, min(data.time_us) AS first FROM events WHERE {IS_CREATED} AND data.commit.collection = 'app.bsky.feed.post' "
     "GROUP BY did ORDER BY first, did LIMIT 3"),
    ("three users who posted the longest", f"{CREATED} commit.collection:=app.bsky.feed.post | stats by (did) min(time_us) a, max(time_us) b "
     "| math b - a as span | sort by (span desc, did) | fields did, span | limit 3",
     f"SELECT data.did AS did, max(data.time_us) - min(data.time_us) AS span FROM events WHERE {IS_CREATED} "
     "AND data.commit.collection = 'app.bsky.feed.post' GROUP BY did ORDER BY span DESC, did LIMIT 3"),
]


def events(count):
    rnd = random.Random(42)
    users = ["did:plc:" + "".join(rnd.choices(LETTERS, k=24)) for _ in range(max(count * 232 // 1000, 1))]
    names, weights = list(COLLECTIONS), list(COLLECTIONS.values())
    key = lambda length: "".join(rnd.choices(LETTERS, k=length))
    for number in range(count):
        at = START + number * 86_400_000_000 // (2 * count) + rnd.randrange(20_000)
        event = {"did": rnd.choice(users), "time_us": at, "kind": "commit" if rnd.random() < 0.97 else rnd.choice(["identity", "account"])}
        if event["kind"] == "commit":
            collection = rnd.choices(names, weights)[0]
            commit = {"rev": "3l" + key(11), "operation": rnd.choices(["create", "delete", "update"], [94, 5, 1])[0], "collection": collection, "rkey": "3l" + key(11)}
            if commit["operation"] != "delete":
                created = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at // 1_000_000)) + f".{at // 1000 % 1000:03}Z"
                record = {"$type": collection, "createdAt": created}
                if collection == "app.bsky.feed.post":
                    record |= {"langs": ["en"], "text": " ".join(rnd.choices(WORDS, k=rnd.randrange(4, 40)))}
                else:
                    record["subject"] = {"cid": "bafyrei" + key(52), "uri": f"at://{rnd.choice(users)}/app.bsky.feed.post/3l{key(11)}"}
                commit |= {"record": record, "cid": "bafyrei" + key(52)}
            event["commit"] = commit
        else:
            event[event["kind"]] = {"did": event["did"], "seq": rnd.randrange(10**9), "time": at // 1000}
        yield event


class Control(http.client.HTTPConnection):
    """A connection to the socket in a data folder."""

    def __init__(self, data):
        super().__init__("localhost", timeout=120)
        self.path = f"{data}/control.sock"

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def timed(ask):
    """An answer, and the median of the warm runs in milliseconds."""
    answer, took = ask(), []
    for _ in range(RUNS):
        begun = time.perf_counter()
        ask()
        took.append((time.perf_counter() - begun) * 1000)
    return answer, statistics.median(took)


class Daytable:
    def __init__(self, binary, folder, log, count):
        config = f"{folder}/config.toml"
        with open(config, "w") as file:
            file.write(f'data_dir = "{folder}/data"\n[http]\nlisten = "off"\n[lifecycle]\nseal_after = "365d"\n'
                       f'[[tail]]\ninclude = ["{log}"]\ninstance = "events"\n[[table]]\nname = "Log"\nkeep = "36500d"\n')
        self.data = f"{folder}/data"
        begun = time.perf_counter()
        self.process = subprocess.Popen([binary, "run", "--config", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self.count() < count:
            if self.process.poll() is not None:
                sys.exit(f"{binary} run has ended: try it with {config}")
            time.sleep(0.1)
        self.took = time.perf_counter() - begun

    def ask(self, query):
        connection = Control(self.data)
        connection.request("GET", f"/api/query?q={urllib.parse.quote(query)}")
        answer = connection.getresponse()
        lines = answer.read().splitlines()
        if answer.status != 200:
            raise ValueError(f"{query}: {lines}")
        return [json.loads(line) for line in lines]

    def count(self):
        try:
            return int(self.ask("* | stats count() n")[0]["n"])
        except (OSError, IndexError):
            return 0

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmHWM:\s+(\d+)", status.read())[1]) // 1000


class ClickHouse:
    def __init__(self, folder, log):
        import chdb.session
        self.session = chdb.session.Session(f"{folder}/clickhouse")
        self.session.query("SET max_threads = 2")
        self.session.query(
            "CREATE TABLE events (data JSON(max_dynamic_paths = 0, kind LowCardinality(String), commit.operation LowCardinality(String), "
            "commit.collection LowCardinality(String), did String, time_us UInt64)) ENGINE = MergeTree "
            "ORDER BY (data.kind, data.commit.operation, data.commit.collection, data.did, data.time_us)")
        begun = time.perf_counter()
        self.session.query(f"INSERT INTO events SELECT json FROM file('{log}', 'JSONAsObject', 'json JSON')")
        self.session.query("OPTIMIZE TABLE events FINAL")
        self.took = time.perf_counter() - begun

    def ask(self, query):
        return [json.loads(line) for line in str(self.session.query(f"{query} SETTINGS max_threads = 2", "JSONCompactEachRow")).splitlines()]


def alike(ours, theirs):
    """Whether the rows have the same values, whatever their types are."""
    text = lambda value: "" if value is None else str(value)
    return [[text(value) for value in row] for row in theirs] == [[text(value) for value in row] for row in ours]


def main():
    binary, count = os.path.abspath(sys.argv[1]), int((sys.argv[2:] or ["1000000"])[0])
    with tempfile.TemporaryDirectory(dir=os.path.abspath("target")) as folder:
        log = f"{folder}/events.ndjson"
        with open(log, "w") as file:
            for event in events(count):
                file.write(json.dumps(event, separators=(",", ":")) + "\n")
        daytable = Daytable(binary, folder, log, count)
        try:
            loaded, clickhouse = daytable.memory(), ClickHouse(folder, log)
            print(f"{count} events of {os.path.getsize(log) // count} bytes; loaded by daytable in {daytable.took:.1f} s ({loaded} MB), by ClickHouse in {clickhouse.took:.1f} s\n")
            print("| question | daytable | ClickHouse | ClickHouse / daytable |\n|--|--:|--:|--:|")
            for name, ours, theirs in QUESTIONS:
                rows, own = timed(lambda: daytable.ask(ours))
                wanted, other = timed(lambda: clickhouse.ask(theirs))
                columns = list(rows[0])
                if not alike([[row.get(column) for column in columns] for row in rows], wanted):
                    sys.exit(f"{name}: {rows[:3]} is not {wanted[:3]}")
                print(f"| {name} | {own:.1f} | {other:.1f} | {other / own:.1f} |", flush=True)
            print(f"\npeak memory of daytable: {daytable.memory()} MB")
        finally:
            daytable.process.terminate()
            daytable.process.wait()


main()
