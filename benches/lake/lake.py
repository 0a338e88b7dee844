#!/usr/bin/env python3
"""Five questions over the archives of many hosts in object storage, which daytable asks without a data folder.

    benches/lake/lake.py BINARY [HOSTS] [DAYS] [RECORDS]       (default: 100 hosts, 30 days, 500 records a host and day)

The store is SeaweedFS (target/venv, which tests/setup makes) on this host. Each host imports its days and archives each of them, as its daemon
would. Each question is asked with an empty cache, and then three times with what it left there, of which the median counts. Prints a row of Markdown
for each: the answer, and for both the time, the CPU, and what was fetched. The script fails if an answer is not the one that the records have.
"""
import concurrent.futures, json, os, random, re, resource, shutil, socket, statistics, subprocess, sys, tempfile, time, urllib.request

DAY = int(time.time()) // 86_400 * 86_400
ROOT = os.path.abspath(f"{os.path.dirname(__file__)}/../..")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def store(folder):
    """A server with a bucket: its process, and the configuration to reach it."""
    os.makedirs(f"{folder}/weed")
    ports = {name: free_port() for name in ["master.port", "volume.port", "filer.port", "s3.port"]}
    arguments = [f"-{name}={port}" for name, port in ports.items()] + [f"-{name}.grpc={free_port()}" for name in ports]
    weed = subprocess.Popen([
        f"{ROOT}/target/venv/bin/weed", "-logtostderr=true", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer=true", "-s3=true", "-s3.port.iceberg=0",
        "-s3.port.lance=0", "-volume.max=60", "-master.volumeSizeLimitMB=64", "-master.telemetry=false", f"-dir={folder}/weed", *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(f"{folder}/s3", "w") as file:
        file.write("[default]\naws_access_key_id = test\naws_secret_access_key = secret\n")
    endpoint = f"http://127.0.0.1:{ports['s3.port']}"
    for _ in range(300):
        try:
            urllib.request.urlopen(urllib.request.Request(f"{endpoint}/logs", method="PUT"), timeout=5).close()
            break
        except OSError:
            time.sleep(0.2)
    else:
        sys.exit("the store does not answer")
    return weed, f'[archives]\ntable_format = "delta"\ns3_endpoint = "{endpoint}"\ns3_region = "us-east-1"\ns3_credentials_file = "{folder}/s3"\nallow_http = true\n'


def records(host, days, count):
    """The records of a host, from the oldest."""
    rnd = random.Random(host)
    for day in range(days):
        for n in range(count):
            at = DAY - (days - day) * 86_400 + n * 86_400 // count
            yield {
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)), "level": rnd.choice(["info"] * 16 + ["debug", "warn", "error"]),
                "message": "request handled", "path": f"/api/{rnd.randrange(400)}", "status": rnd.choice([200] * 9 + [500]),
                "duration_ms": rnd.randrange(1, 900), "trace_id": f"{rnd.getrandbits(128):032x}",
            }


def make(binary, folder, archives, host, days, count):
    """Imports the days of a host and archives them."""
    name = f"web-{host:03}"
    config, log = f"{folder}/{name}.toml", f"{folder}/{name}.ndjson"
    with open(config, "w") as file:
        file.write(f'host = "{name}"\ndata_dir = "{folder}/{name}"\n{archives}[[table]]\nname = "Log"\nkeep = "400d"\narchive = "s3://logs/fleet"\n')
    with open(log, "w") as file:
        file.writelines(json.dumps(record, separators=(",", ":")) + "\n" for record in records(host, days, count))
    quiet = {"stdout": subprocess.DEVNULL, "check": True}
    subprocess.run([binary, "import", "--config", config, "--instance", "app", log], **quiet)
    for day in range(days):
        table = time.strftime("Log%Y%m%d", time.gmtime(DAY - (days - day) * 86_400))
        subprocess.run([binary, "archive", "--config", config, table], **quiet)
    shutil.rmtree(f"{folder}/{name}")
    os.remove(log)


def questions(hosts, days, count):
    """Each question, and what it has to find."""
    day = time.strftime("%Y-%m-%d", time.gmtime(DAY - 86_400))
    all_of = {host: list(records(host, days, count)) for host in range(hosts)}
    newest = [record for of in all_of.values() for record in of if record["time"].startswith(day)]
    middle = all_of[hosts // 2]
    hour = [record for record in middle if record["time"].startswith(f"{day}T12:")]
    yield "an hour of one host", f"log_host:=web-{hosts // 2:03} _time:{day}T12", len(hour), len
    yield "an identifier of any day", middle[len(middle) // 3]["trace_id"], 1, len
    yield "count by day and level", "* | stats by (_time:1d, level) count() n", hosts * days * count, lambda rows: sum(row["n"] for row in rows)
    errors = sum(record["level"] == "error" for record in newest)
    yield "newest 100 errors of the last day", f"level:=error _time:{day} | limit 100", min(100, errors), len
    paths = {}
    for record in newest:
        paths[record["path"]] = paths.get(record["path"], 0) + 1
    yield "top 10 paths of a day", f"_time:{day} | top 10 by (path)", sum(sorted(paths.values())[-10:]), lambda rows: sum(row["hits"] for row in rows)


def ask(binary, config, cache, query):
    """The rows, and what they took: seconds, seconds of CPU, and what the report says of what was fetched."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    asked = subprocess.run([binary, "query", "--lake", "s3://logs/fleet", "--config", config, "--cache", cache, "--json", query], capture_output=True, text=True, check=True)
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [json.loads(line) for line in asked.stdout.splitlines()], took, cpu, asked.stderr


def fetched(report):
    """The files, bytes and requests of a report such as `2 of 4 files of the lake were opened (…): 12642 bytes in 13 requests`."""
    files, size, requests = re.search(r"(\d+) of \d+ files of the lake were opened.*: (\d+) bytes in (\d+) request", report).groups()
    return f"{files} | {int(size) / 1024:,.0f} KiB | {int(requests):,}"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    binary = os.path.abspath(sys.argv[1])
    hosts, days, count = (int(sys.argv[at]) if len(sys.argv) > at else default for at, default in [(2, 100), (3, 30), (4, 500)])
    folder = tempfile.mkdtemp(prefix="lake-")
    weed, archives = store(folder)
    try:
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda host: make(binary, folder, archives, host, days, count), range(hosts)))
        print(f"{hosts * days:,} days of {hosts} hosts with {hosts * days * count:,} records were archived in {time.monotonic() - began:,.0f} s.\n")
        config = f"{folder}/reader.toml"
        with open(config, "w") as file:
            file.write(archives)
        print("| question | first: ms | CPU ms | files | bytes | requests | warm: ms | CPU ms | files | bytes | requests |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
        for number, (name, query, expected, found) in enumerate(questions(hosts, days, count)):
            cache = f"{folder}/cache-{number}"
            asked = [ask(binary, config, cache, query) for _ in range(4)]
            for rows, *_ in asked:
                if found(rows) != expected:
                    sys.exit(f"{name}: {found(rows)}, and not {expected}")
            (_, took, cpu, report), warm = asked[0], asked[1:]
            median = [1000 * statistics.median(of[at] for of in warm) for at in (1, 2)]
            print(f"| {name} | {1000 * took:,.0f} | {1000 * cpu:,.0f} | {fetched(report)} | {median[0]:,.0f} | {median[1]:,.0f} | {fetched(warm[-1][3])} |", flush=True)
    finally:
        weed.terminate()
        weed.wait()
        shutil.rmtree(folder)


main()
