#!/usr/bin/env python3
"""Measures what README and docs/evidence/measured.md say, in one run on one machine, and writes their tables.

    python3 benches/measured.py [--from FOLDER]

It runs the benchmarks `end_to_end`, `edges`, `fleet` and `asking`, which takes some 25 minutes on two cores, and keeps what each printed in
target/measured. From that it writes docs/lab/DATE-measured.md with every table whole, the table of docs/evidence/measured.md, and the six rows
of README. `--from` writes them from the output of a former run. Nothing else should run on the machine meanwhile. Other programs take part where
they are there: rsyslog and zstd from the system, DuckDB and ClickHouse from target/venv (tests/requirements.txt and
benches/asking/requirements.txt), VictoriaLogs where DAYTABLE_BENCH_VICTORIALOGS names its binary. A row whose benchmark did not print its figure stops
the script: no figure is kept from another run.
"""
import os, re, subprocess, sys, time
from functools import partial

ROOT = os.path.abspath(f"{os.path.dirname(__file__)}/..")
RUNS = {
    "end_to_end": ["--no-quiet"],
    "edges": ["middle", "latency", "syslog", "--runs", "3"],
    "fleet": ["central", "backlog", "host", "delay", "idle", "relp", "kills"],
    "asking": ["--repeats", "3"],
}
NONE = "–"


def measure(folder):
    """Runs each benchmark, and keeps what it printed."""
    os.makedirs(folder, exist_ok=True)
    subprocess.run(["cargo", "bench", "--locked", "--no-run", *(f"--bench={bench}" for bench in RUNS)], cwd=ROOT, check=True)
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    with open(f"{folder}/commit", "w") as file:
        file.write(commit)
    for bench, arguments in RUNS.items():
        print(f"{bench}: {time.strftime('%H:%M')}", file=sys.stderr, flush=True)
        ran = subprocess.run(["cargo", "bench", "--locked", "--bench", bench, "--", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        with open(f"{folder}/{bench}.md", "w") as file:
            file.write(ran.stdout)


class Printed:
    """The tables that the benchmarks printed: rows by benchmark and name, and cells by the name of their column."""

    def __init__(self, folder):
        self.text, self.rows = {}, {}
        for bench in RUNS:
            with open(f"{folder}/{bench}.md") as file:
                lines = [line.strip() for line in file]
            self.text[bench] = "\n".join(line for line in lines if not line.startswith(("Running", "Finished"))).strip()
            head = None
            for line in lines:
                cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
                if not cells or set(line) <= set("|-: "):
                    head = head if cells else None
                elif head is None:
                    head = cells
                else:
                    # Two columns may have one name: the first is that of times.
                    self.rows[bench, cells[0]] = dict(reversed(list(zip(head, cells))))

    def of(self, bench, row, column):
        """A cell, which must be there."""
        found = self.rows.get((bench, row), {}).get(column)
        if not found:
            sys.exit(f"{bench} printed no {column!r} of {row!r}")
        return found

    def median(self, bench, row, unit):
        """The median of a row of `edges` or `fleet`, as a number."""
        return float(self.of(bench, f"{row}, {unit}", "median"))

    def after_kills(self, who):
        """The lines that were lost and twice after all kills; nothing where that was not measured."""
        found = [re.sub(r".* lines: (\w+),.*", r"\1", row) + " " + str(round(float(cells["median"])))
                 for (bench, row), cells in self.rows.items() if bench == "fleet" and row.startswith(f"{who}, ") and " kills, " in row]
        return ", ".join(found)

    def peers(self, question):
        """What other programs took for a question, in milliseconds."""
        times = {name: self.of("asking", question, name) for name in ["ClickHouse", "DuckDB", "VictoriaLogs"]}
        return {name: time for name, time in times.items() if time != NONE}

    def peer(self, bench, row, unit):
        """The same of another program; nothing where it did not take part."""
        return self.median(bench, row, unit) if (bench, f"{row}, {unit}") in self.rows else None


def rate(figure):
    return f"{round(figure / 1000)},000" if figure < 1e6 else f"{figure // 1e6:.0f},{round(figure % 1e6 / 1000):03},000"


def beside(name, figure, form):
    return f"{name} {form(figure)}" if figure else ""


def table_rows(of):
    """The rows of the page for users: what, daytable's figure, and what stands beside it."""
    ndjson, text, syslog = "one NDJSON file", "64 text files", "syslog over TCP"
    edge, peer, fleet = partial(of.median, "edges"), partial(of.peer, "edges"), partial(of.median, "fleet")
    micros = lambda figure: f"{figure:.2f} µs"
    first = lambda cell: cell.split(" (")[0]
    both = lambda rate_of, cpu: f"{rate(rate_of)}/s, {micros(cpu)}" if rate_of and cpu else ""
    whole = lambda row: of.of("end_to_end", row, "measured")
    rows = [
        ("a file of NDJSON: read, parsed, on disk, to be asked", f"{rate(edge(f'{ndjson}: ingest', '/s'))} records/s",
         beside("VictoriaLogs", peer(f"{ndjson}: ingest of VictoriaLogs", "/s"), rate)),
        ("the same: CPU a record", micros(edge(f"{ndjson}: CPU a record", "µs")),
         beside("VictoriaLogs", peer(f"{ndjson}: CPU a record of VictoriaLogs", "µs"), micros)),
        ("64 files of text", both(edge(f"{text}: ingest", "/s"), edge(f"{text}: CPU a record", "µs")),
         beside("rsyslog copies them unparsed:", peer(f"{text}: rsyslog copies them", "/s"),
                lambda figure: both(figure, peer(f"{text}: CPU a record of rsyslog", "µs")))),
        ("syslog over TCP, 64 connections", both(edge(f"{syslog}, 64 connections, on disk", "/s"), edge(f"{syslog}: CPU a message", "µs")),
         beside("rsyslog to a file, unparsed:", peer(f"{syslog}: rsyslog, imtcp to omfile", "/s"),
                lambda figure: both(figure, peer(f"{syslog}: CPU a message of rsyslog", "µs")))),
        ("a line until a query has it, idle: NDJSON; text that may have more lines",
         "; ".join(f"{edge(f'a line of {kind} until query has it, idle: 50 of 100', 'ms'):.3g} ms" for kind in ["ndjson", "text"]), ""),
        ("most memory while it reads five million records", whole(f"{ndjson}: peak RSS"), ""),
        ("bytes on disk a record: open day; sealed", f"{whole(f'{ndjson}: on disk a record, stopped')}; {whole('on disk a record, sealed')}", ""),
        ("a day with five million records is dropped: open; sealed",
         "; ".join(first(whole(f"drop of all rows ({state}), until unseen")) for state in ["open", "sealed"]), ""),
    ]
    rows.append(("four filled hosts into a central daytable", both(fleet("4 filled hosts: records into the central", "/s"),
                 fleet("4 filled hosts: CPU of the central a record", "µs")),
                 beside("rsyslog by RELP, unparsed:", of.peer("fleet", "rsyslog to rsyslog by RELP: records", "/s"), lambda figure: f"{rate(figure)}/s")))
    rows.append(("60 kills of a host or the central in a minute, 2,000 lines a second", of.after_kills("daytable to daytable"),
                 f"rsyslog by RELP: {of.after_kills('rsyslog to rsyslog by RELP')}; OTLP out: {of.after_kills('daytable to daytable by OTLP')}"))
    for question in [
        "newest 100 of one instance", "newest 100 errors", "count by level, every 5 min", "an identifier, any field",
        "a text in 3 of 5,000 records, all of them", "average of a duration by component", "top 10 clients",
    ]:
        rows.append((question, "; ".join(f"{of.of('asking', question, state)} ms" for state in ["open", "sealed"]),
                     ", ".join(f"{name} {time}" for name, time in of.peers(question).items())))
    return rows


def fastest(of):
    """How many questions there are, and in how many daytable is the fastest, and at most twice as slow as the best: open, sealed."""
    questions = [row for bench, row in of.rows if bench == "asking"]
    ratios = [[float(of.of("asking", question, state)) for question in questions] for state in ["best peer / open", "/ sealed"]]
    return len(questions), *([sum(ratio >= least for ratio in state) for state in ratios] for least in [1, 0.5])


def markdown(rows):
    return "\n".join(["| what | daytable | beside it |", "|---|--:|--:|"] + [f"| {' | '.join(row)} |" for row in rows])


def replace(page, block):
    """Writes a block between its marks."""
    path = f"{ROOT}/{page}"
    with open(path) as file:
        text = file.read()
    marks = r"(<!-- written by benches/measured.py -->\n).*?(\n<!-- up to here -->)"
    new, count = re.subn(marks, lambda found: found[1] + block + found[2], text, flags=re.DOTALL)
    if count != 1:
        sys.exit(f"{page} has no place for the table")
    with open(path, "w") as file:
        file.write(new)


def machine():
    """The machine, as far as it says."""
    with open("/proc/meminfo") as file:
        memory = int(re.search(r"MemTotal:\s+(\d+)", file.read())[1])
    with open("/proc/cpuinfo") as file:
        model = re.search(r"model name\s*:\s*(.*)", file.read())
    return f"{os.cpu_count()} cores ({model[1].strip() if model else 'unknown'}), {memory / 2**20:.0f} GiB"


def main():
    folder = f"{ROOT}/target/measured"
    if sys.argv[1:2] == ["--from"] and len(sys.argv) == 3:
        folder = sys.argv[2]
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        measure(folder)
    of = Printed(folder)
    rows = table_rows(of)
    date = time.strftime("%Y-%m-%d", time.gmtime(os.path.getmtime(f"{folder}/asking.md")))
    with open(f"{folder}/commit") as file:
        commit = file.read().strip()
    count, best, twice = fastest(of)
    replace("docs/evidence/measured.md", f"""Measured on {date} at commit {commit}, on {machine()}.

{markdown(rows)}

Of {count} questions daytable is the fastest in {best[0]} on an open day and in {best[1]} on a sealed one, and takes at most twice the time of the best in
{twice[0]} and in {twice[1]}. [All tables of this run](../lab/{date}-measured.md).""")
    shown = [rows[at] for at in [0, 1, 6, 9, 12, 15]]
    replace("README.md", f"""{markdown(shown).replace("| what |", "| on two cores of a virtual machine |", 1)}

Of {date} ({commit}), one run of `python3 benches/measured.py`.""")
    with open(f"{ROOT}/docs/lab/{date}-measured.md", "w") as file:
        file.write(f"# Measured, {date}\n\nWhat `python3 benches/measured.py` printed at commit {commit} on {machine()}. "
                   "[Measured](../evidence/measured.md) has\nthe rows that users compare.\n")
        for bench, arguments in RUNS.items():
            file.write(f"\n## `cargo bench --bench {bench} -- {' '.join(arguments)}`\n\n{of.text[bench]}\n")


main()
