#!/usr/bin/env python3
"""The questions that Grafana's Explore and Logs Drilldown ask, asked of a daytable.

    benches/drilldown/drilldown.py BINARY [RECORDS] [FOLDER]       (default: 8,000,000 records, a temporary folder)

Records of yesterday, from two kinds of sources: JSON of services (with fields of many values: path, client, user, trace_id), and access lines
without a level. Each question is asked twice while the day is open, and twice after it was sealed; the one with less CPU counts. Prints a row of
Markdown for each: what the answer has, and of both states the time, the CPU of the daemon, and the most memory that it had meanwhile. The script
fails if an answer has no data.
"""
import json, os, random, shutil, subprocess, sys, tempfile, time, urllib.error, urllib.parse, urllib.request

DAY = int(time.time()) // 86_400 * 86_400 - 86_400
DATE = time.gmtime(DAY)
SERVICES = ["shop", "auth", "cart", "billing"]


def write(folder, records):
    rnd, step = random.Random(7), 86_399_000_000 // records
    day, date = time.strftime("%Y-%m-%d", DATE), time.strftime("%d/%b/%Y", DATE)
    with open(f"{folder}/app.ndjson", "w") as app, open(f"{folder}/access.log", "w") as access:
        for n in range(records):
            us = n * step
            s, us = divmod(us, 1_000_000)
            clock = f"{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}"
            path = f"/api/v1/{rnd.choice(['items', 'users', 'orders'])}/{rnd.randrange(4096)}"
            status, took, client = rnd.choice([200] * 9 + [404, 500]), rnd.randrange(1, 900), f"10.{rnd.randrange(8)}.{rnd.randrange(256)}.{rnd.randrange(256)}"
            method = rnd.choice(["GET", "GET", "GET", "POST", "PUT"])
            if n % 4 == 3:
                access.write(f'{client} - - [{date}:{clock} +0000] "{method} {path} HTTP/1.1" {status} {took * 31} "-" "curl/8.{took % 9}"\n')
                continue
            level = rnd.choice(["info"] * 16 + ["debug", "warn", "error"])
            app.write(json.dumps({
                "time": f"{day}T{clock}.{us:06}Z", "level": level, "component": SERVICES[n % 16 % 4], "message": "request handled",
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


def said(path, body):
    """What an answer has, in words; empty without data."""
    answer = json.loads(body)
    if path == "index/stats":
        return f"{answer['entries']:,} entries" if answer["entries"] else ""
    for key, what in [("detectedLabels", "labels"), ("fields", "fields"), ("values", "values")]:
        if found := answer.get(key):
            return f"{len(found)} {what}"
    data = answer.get("data")
    result = data if isinstance(data, list) else (data or {}).get("result", [])
    if not result:
        return ""
    if path == "patterns":
        return f"{len(result)} patterns"
    if path.startswith("label") or path == "series":
        return f"{len(result)} {'series' if path == 'series' else 'values' if '/' in path else 'labels'}"
    kind, values = data["resultType"], sum(len(of["values"]) if "values" in of else 1 for of in result)
    if kind == "streams":
        return f"{values:,} lines of {len(result):,} streams"
    return f"{len(result):,} series" + (f", {values:,} values" if kind == "matrix" else "")


class Daemon:
    def __init__(self, binary, folder):
        self.token = "of-this-measurement-and-of-no-use-elsewhere"
        token, config, port = f"{folder}/token", f"{folder}/daytable.toml", 17_841
        with open(os.open(token, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            file.write(self.token + "\n")
        with open(config, "w") as file:
            # The day is sealed when it is asked for, and not before.
            file.write(f'data_dir = "{folder}/data"\n[http]\nlisten = "127.0.0.1:{port}"\ntoken_file = "{token}"\n[lifecycle]\nseal_after = "30d"\n')
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
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError as error:
            return 0, str(error).encode()

    def cpu(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def begin_peak(self):
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as file:
            file.write("5")

    def peak(self):
        line = next(line for line in open(f"/proc/{self.process.pid}/status") if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024

    def ask(self, path, params):
        """What the answer has; its milliseconds, those of the CPU, and the peak of the memory in MB."""
        best = None
        for _ in range(2):
            self.begin_peak()
            cpu, begun = self.cpu(), time.time()
            status, body = self.get(f"/loki/api/v1/{path}", params)
            asked = (1000 * (self.cpu() - cpu), 1000 * (time.time() - begun), self.peak(), status, body)
            best = asked if best is None or asked[0] < best[0] else best
        cpu, took, peak, status, body = best
        if status != 200:
            return f"{status}: {body[:200].decode(errors='replace').strip()}", False, (took, cpu, peak)
        found = said(path, body)
        return found or "no data", bool(found), (took, cpu, peak)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    binary, records = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 8_000_000
    folder = sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp(prefix="drilldown-")
    os.makedirs(folder, exist_ok=True)
    write(folder, records)
    subprocess.run([binary, "import", "--data", f"{folder}/data", f"{folder}/app.ndjson", f"{folder}/access.log"], check=True)
    daemon = Daemon(binary, folder)
    try:
        report(daemon, binary, folder, records)
    finally:
        daemon.process.terminate()
        daemon.process.wait()
        if len(sys.argv) <= 3:
            shutil.rmtree(folder)


def report(daemon, binary, folder, records):
    asked = list(questions())
    states = [[daemon.ask(path, params) for _, (path, params) in asked]]
    table = f"Log{time.strftime('%Y%m%d', DATE)}"
    subprocess.run([binary, "archive", "--data", f"{folder}/data", table], check=True)
    states.append([daemon.ask(path, params) for _, (path, params) in asked])
    print("| question | the answer has | ms | CPU ms | MB | sealed: ms | CPU ms | MB |\n|---|---|--:|--:|--:|--:|--:|--:|")
    for (name, _), opened, sealed in zip(asked, *states):
        found = opened[0] if opened[0] == sealed[0] else f"{opened[0]}; sealed: {sealed[0]}"
        figures = [f"{took:,.0f} | {cpu:,.0f} | {peak:.0f}" for took, cpu, peak in (opened[2], sealed[2])]
        print(f"| {name} | {found} | {' | '.join(figures)} |")
    for name, answers in zip(["open", "sealed"], states):
        peaks = [figures[2] for _, _, figures in answers]
        print(f"\n{name}: {records:,} records, {sum(has for _, has, _ in answers)} of {len(answers)} questions have data; at most {max(peaks):.0f} MB, "
              f"{sum(peak > 150 for peak in peaks)} above 150 MB; all of them {sum(figures[0] for _, _, figures in answers) / 1000:.1f} s")
    if not all(has for answers in states for _, has, _ in answers):
        sys.exit("an answer has no data")


main()
