#!/usr/bin/env python3
"""The questions that Grafana's Explore and Logs Drilldown ask, asked of a daytable.

    benches/drilldown/drilldown.py BINARY [RECORDS] [FOLDER]       (default: 1,000,000 records, a temporary folder)

Records of one day, from two kinds of sources: JSON of services (with fields of many values: path, client, trace_id), and access lines
without a level. Prints a row of Markdown for each question: time, CPU of the process for each record, bytes of the answer; and in the end the peak of
the process's memory. Each question is asked twice, and the one with less CPU counts.
"""
import json, os, random, subprocess, sys, tempfile, time, urllib.error, urllib.parse, urllib.request

DAY = 1_795_132_800  # 2026-11-20T00:00:00Z
SERVICES = ["shop", "auth", "cart", "billing"]


def write(folder, records):
    rnd, step = random.Random(7), 86_399_000_000 // records
    with open(f"{folder}/app.ndjson", "w") as app, open(f"{folder}/access.log", "w") as access:
        for n in range(records):
            us = n * step
            s, us = divmod(us, 1_000_000)
            clock = f"{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}"
            path = f"/api/v1/{rnd.choice(['items', 'users', 'orders'])}/{rnd.randrange(4096)}"
            status, took, client = rnd.choice([200] * 9 + [404, 500]), rnd.randrange(1, 900), f"10.{rnd.randrange(8)}.{rnd.randrange(256)}.{rnd.randrange(256)}"
            method = rnd.choice(["GET", "GET", "GET", "POST", "PUT"])
            if n % 4 == 3:
                access.write(f'{client} - - [20/Nov/2026:{clock} +0000] "{method} {path} HTTP/1.1" {status} {took * 31} "-" "curl/8.{took % 9}"\n')
                continue
            level = rnd.choice(["info"] * 16 + ["debug", "warn", "error"])
            app.write(json.dumps({
                "time": f"2026-11-20T{clock}.{us:06}Z", "level": level, "component": SERVICES[n % 16 % 4], "message": "request handled",
                "method": method, "path": path, "status": status, "duration_ms": took, "took": f"{took}ms", "client": client,
                "trace_id": f"{rnd.getrandbits(128):032x}", "user": f"user-{rnd.randrange(20000)}",
            }, separators=(",", ":")) + "\n")


def questions():
    span = {"start": f"{DAY}000000000", "end": f"{DAY + 86_400}000000000"}
    one, parsed = '{service_name="shop"}', "| json | logfmt | drop __error__, __error_details__"
    everything, files = '{service_name=~".+"}', '{source=~".*access.log"}'
    metric = lambda query, step=300: ("query_range", {"query": query.replace("$step", f"{step}s"), "step": str(step), **span})
    lines = lambda query: ("query_range", {"query": query, "limit": "1000", "direction": "backward", **span})
    yield "Explore: labels", ("labels", span)
    yield "Explore: values of service_name", ("label/service_name/values", span)
    yield "Explore: series", ("series", {"match[]": one, **span})
    yield "Explore: statistics", ("index/stats", {"query": everything, **span})
    yield "Explore: volume by level, everything", metric(f"sum by (level, detected_level) (count_over_time({everything} | drop __error__ [$step]))")
    yield "Explore: volume by level, JSON", metric(f"sum by (level, detected_level) (count_over_time({one} | drop __error__ [$step]))")
    yield "Explore: volume by level, access lines", metric(f"sum by (level, detected_level) (count_over_time({files} | drop __error__ [$step]))")
    yield "Explore: newest lines", lines(everything)
    yield "Explore: newest lines with a text", lines(f'{everything} |= "orders/77"')
    yield "services: volume", ("index/volume", {"query": everything, "targetLabels": "service_name", "limit": "5000", **span})
    yield "services: volume by time", ("index/volume_range", {"query": everything, "targetLabels": "service_name", "step": "300", **span})
    yield "service: lines by level", metric(f"sum(count_over_time({one} [$step])) by (detected_level)")
    yield "service: newest lines", lines(f"{one} {parsed}")
    yield "service: number of lines", metric(f"sum(count_over_time({one} {parsed} [$step]))")
    yield "labels: names and cardinality", ("detected_labels", {"query": one, **span})
    for label in ["instance", "source", "level", "table"]:
        yield f"labels: lines by {label}", metric(f'sum(count_over_time({{service_name="shop", {label}!=""}} [$step])) by ({label})')
    yield "fields: names", ("detected_fields", {"query": one, "line_limit": "1000", **span})
    yield "fields: values of method", ("detected_field/method/values", {"query": one, "line_limit": "1000", **span})
    for field in ["method", "status", "path", "user"]:
        yield f"fields: lines by {field}", metric(f'sum by ({field}) (count_over_time({one} {parsed} | {field}!="" [$step]))', 3600)
    yield "fields: average of duration_ms", metric(f'avg_over_time({one} {parsed} | duration_ms!="" | unwrap duration_ms | __error__="" [$step]) by ()')
    yield "fields: average of took", metric(f'avg_over_time({one} {parsed} | took!="" | unwrap duration(took) | __error__="" [$step]) by ()')
    yield "fields: 95th percentile by method", metric(f'quantile_over_time(0.95, {one} | json | unwrap duration_ms | __error__="" [$step]) by (method)')
    yield "patterns", ("patterns", {"query": one, "step": "300", **span})
    yield "filter: a level", metric(f'sum(count_over_time({one} | detected_level="error" [$step])) by (detected_level)')
    yield "filter: a field", metric(f'sum(count_over_time({one} {parsed} | status="500" [$step])) by (detected_level)')
    yield "filter: a number", metric(f'sum(count_over_time({one} {parsed} | duration_ms>800 [$step])) by (detected_level)')
    yield "filter: a line", metric(f'sum(count_over_time({one} |~ "(?i)orders/12" [$step])) by (detected_level)')
    yield "filter: newest lines of a field", lines(f'{one} {parsed} | user="user-777"')
    yield "dashboard: by status", metric(f'sum by (status) (count_over_time({{source=~".*app.ndjson"}} | json [$step]))', 60)
    yield "dashboard: average by instance", metric('avg_over_time({table="Log"} | unwrap duration_ms [$step]) by (instance)')
    yield "dashboard: bytes a second", metric(f"sum(bytes_rate({one} [$step]))")
    yield "dashboard: access lines by a pattern", metric(f'sum by (verb) (count_over_time({files} | pattern `<_> "<verb> <_>` [$step]))', 3600)


class Daemon:
    def __init__(self, binary, folder):
        self.token = "of-this-measurement-and-of-no-use-elsewhere"
        token, config, port = f"{folder}/token", f"{folder}/daytable.toml", 17_841
        with open(os.open(token, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            file.write(self.token + "\n")
        with open(config, "w") as file:
            file.write(f'data_dir = "{folder}/data"\n[http]\nlisten = "127.0.0.1:{port}"\ntoken_file = "{token}"\n')
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([binary, "run", "--config", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(300):
            if self.get("/ready", {})[0] == 200:
                return
            time.sleep(0.2)
        sys.exit("the daemon does not answer")

    def get(self, path, params):
        request = urllib.request.Request(f"{self.url}{path}?{urllib.parse.urlencode(params)}", headers={"Authorization": f"Bearer {self.token}"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError as error:
            return 0, str(error).encode()

    def cpu(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak(self):
        line = next(line for line in open(f"/proc/{self.process.pid}/status") if line.startswith("VmHWM"))
        return int(line.split()[1]) // 1024


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    binary, records = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    folder = sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp(prefix="drilldown-")
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(f"{folder}/data"):
        write(folder, records)
        subprocess.run([binary, "import", "--data", f"{folder}/data", f"{folder}/app.ndjson", f"{folder}/access.log"], check=True)
    daemon = Daemon(binary, folder)
    print("| question | ms | CPU µs a record | KB |\n|---|--:|--:|--:|")
    for name, (path, params) in questions():
        best = None
        for _ in range(2):
            cpu, begun = daemon.cpu(), time.time()
            status, body = daemon.get(f"/loki/api/v1/{path}", params)
            asked = (daemon.cpu() - cpu, time.time() - begun, status, body)
            best = asked if best is None or asked[0] < best[0] else best
        cpu, took, status, body = best
        told = f"{len(body) / 1024:.1f}" if status == 200 else f"{status}: {body[:80].decode(errors='replace').strip()}"
        print(f"| {name} | {1000 * took:.0f} | {1e6 * cpu / records:.2f} | {told} |", flush=True)
    print(f"\npeak of the process: {daemon.peak()} MB")
    daemon.process.terminate()
    daemon.process.wait()


main()
