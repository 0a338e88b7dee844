"""Reads every number of every view of the page, and compares it with the API, the terminal and Loki's routes; and asks all
four random questions about values of all kinds.

    digits.py LINK TOKEN SCREENSHOTS DAYTABLE DATA

LINK is a link of `daytable open` to an empty daemon with the data folder DATA, TOKEN its read token, DAYTABLE the
program. The browser and the terminal are in Kolkata, where a day begins at 18:30 UTC.
"""

import datetime
import decimal
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import urllib.parse
import urllib.request
import zoneinfo

from playwright.sync_api import expect, sync_playwright

CHROMIUM = "/usr/bin/chromium"
FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync".split()
LINK, TOKEN, SHOTS, DAYTABLE, DATA = sys.argv[1:6]
ORIGIN = LINK.split("/open/")[0]
PATIENCE = 60
ZONE = "Asia/Kolkata"

# As they stand in the lines. Answers have the same digits, but JSON has several forms of an exponent.
NUMBERS = [
    "0", "0.1", "1", "999", "1000", "1500", "99999", "100000", "120000", "999999", "1000000", "12345678", "9007199254740991", "9007199254740992", "9007199254740993",
    "9223372036854775807", "-9223372036854775808", "-9007199254740993", "1e300", "-0.5", "0.30000000000000004", "1.5",
]
NOW = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
SINCE = (NOW - datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


def shown(number):
    """A number as the API shows it."""
    return number.replace("e300", "e+300")


def exact(text):
    return decimal.Decimal(text)


def line_of(at, number):
    time = (NOW - datetime.timedelta(seconds=60 - at)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f'{{ "time":"{time}", "level":"info", "host":"numbers", "message":"row-{at} é", "half":"{"ab"[at % 2]}", "id": {number} }}'


def push(*lines):
    request = urllib.request.Request(ORIGIN + "/ingest", "\n".join(lines).encode(), {"content-type": "application/x-ndjson"})
    urllib.request.urlopen(request, timeout=PATIENCE).read()


def answer_of(path, params):
    request = urllib.request.Request(f"{ORIGIN}{path}?{urllib.parse.urlencode(params)}", headers={"authorization": f"Bearer {TOKEN}"})
    return urllib.request.urlopen(request, timeout=PATIENCE).read().decode()


def get(path, **params):
    # A number is its text.
    return json.loads(answer_of(path, params), parse_float=str, parse_int=str)


def lines_of(path, **params):
    return rows_of(answer_of(path, params))


def terminal(*arguments):
    environment = os.environ | {"TZ": ZONE}
    said = subprocess.run([DAYTABLE, *arguments, "--data", DATA, "--quiet"], env=environment, capture_output=True, text=True, timeout=PATIENCE)
    return said.stdout


def rows_of(said):
    return [json.loads(line, parse_float=str, parse_int=str) for line in said.splitlines()]


def grouped(text):
    sign, whole, rest = re.fullmatch(r"(-?)(\d+)(.*)", text).groups()
    return sign + f"{int(whole):,}" + rest


def go(page, query="", **params):
    page.goto(ORIGIN + "/?" + urllib.parse.urlencode({"q": query, "since": SINCE} | params))
    expect(page.locator("#status")).to_contain_text(re.compile(r"\d record"))


def grid(page):
    return page.get_by_role("grid", name="Records").get_by_role("row")


def table(page, query):
    """The texts of the cells of a result, a list a row."""
    go(page, query)
    rows = page.get_by_role("region", name="Rows").locator("tbody tr")
    expect(rows.first).to_be_visible()
    return rows.evaluate_all("rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent.replace('\\u00a0', '')))")


def total(page):
    return int(re.search(r"([\d,]+) record", page.locator("#status").inner_text())[1].replace(",", ""))


def columns_and_records_have_every_digit(page):
    go(page, "host:=numbers", cols="id")
    expect(grid(page)).to_have_count(len(NUMBERS) + 1)
    found = {cells[-1].split()[0]: cells[-2] for cells in (row.get_by_role("gridcell").all_inner_texts() for row in grid(page).all()[1:])}
    assert found == {f"row-{at}": shown(number) for at, number in enumerate(NUMBERS)}, found
    assert {row["message"].split()[0]: row["id"] for row in lines_of("/api/query", q="host:=numbers")} == found
    page.screenshot(path=SHOTS / "numbers.png")
    panel = page.get_by_role("complementary", name="Record")
    clipboard = lambda: page.evaluate("navigator.clipboard.readText()")
    for at, number in enumerate(NUMBERS):
        go(page, "host:=numbers")
        grid(page).filter(has_text=re.compile(f"row-{at} ")).click()
        field = panel.locator("tr").filter(has=page.get_by_role("rowheader", name="id", exact=True))
        expect(field.locator("td").first).to_have_text(shown(number))
        expect(panel.get_by_role("region", name="Line").locator("pre")).to_have_text(line_of(at, number))
        panel.get_by_role("button", name="Copy as JSON").click()
        expect(page.locator("#toast")).to_have_text("Record copied")
        assert re.search(rf'^  "id": {re.escape(shown(number))},?$', clipboard(), re.MULTILINE), clipboard()
        panel.get_by_role("region", name="Line").get_by_role("button", name="Copy").click()
        expect(page.locator("#toast")).to_have_text("Line copied")
        assert clipboard() == line_of(at, number), clipboard()
        field.hover()
        panel.get_by_role("button", name="Only this id").click()
        expect(page.locator("#status")).to_contain_text("1 record ")
        expect(grid(page)).to_have_count(2)
        expect(grid(page).nth(1)).to_contain_text(f"row-{at} ")
    go(page, "host:=numbers id:=9007199254740993")
    page.keyboard.press("j")
    page.keyboard.press("y")
    expect(page.locator("#toast")).to_have_text("Line copied")
    assert clipboard() == line_of(14, "9007199254740993")


def values_of_a_field_have_every_digit(page):
    """The values beside the list, and a click on one."""
    for number in NUMBERS:
        go(page, f'host:=numbers id:="{number}"')
        details = page.locator("details").filter(has=page.locator("summary[title=id]"))
        details.locator("summary").click()
        expect(details.locator("li .value")).to_have_text([shown(number)])
        answer = get("/api/facets", q=f'host:=numbers id:="{number}"', limit=10)
        assert [value["value"] for facet in answer if facet["field"] == "id" for value in facet["values"]] == [shown(number)]
    line = page.get_by_role("combobox", name="Query")
    line.fill("id:900719925474099")
    choices = page.get_by_role("option")
    wanted = sorted(number for number in NUMBERS if "900719925474099" in number)
    expect(choices).to_have_count(len(wanted))
    assert sorted(choices.locator("span").all_inner_texts()) == wanted


def all_that_ask_have_the_same_answer(page):
    """The page, the terminal, the API and Loki, for comparisons, groups, functions and orders."""
    for number in NUMBERS:
        for sign, holds in [("=", lambda a, b: a == b), (">", lambda a, b: a > b), (">=", lambda a, b: a >= b), ("<", lambda a, b: a < b), ("<=", lambda a, b: a <= b)]:
            query = f'host:=numbers id:{sign}"{number}"'
            wanted = sum(holds(exact(other), exact(number)) for other in NUMBERS)
            assert get("/api/count", q=query) == [{"records": str(wanted)}], query
            if number.startswith("9007") or sign == "=":
                assert terminal("count", query).strip() == str(wanted), query
                page.goto(ORIGIN + "/?" + urllib.parse.urlencode({"q": query, "since": SINCE}))
                expect(page.locator("#status")).to_contain_text(re.compile(rf"^{wanted} records? "))
    ascending = [shown(number) for number in sorted(NUMBERS, key=exact)]
    query = "host:=numbers | stats by (id) count() n"
    assert [row[0] for row in table(page, query)] == ascending
    assert [row["id"] for row in get("/api/stats", q=query)["rows"]] == ascending
    assert [row["id"] for row in rows_of(terminal("query", query, "--json"))] == ascending
    loki = get("/loki/api/v1/query", query='sum by (id) (count_over_time({instance="numbers"}[1h]))')["data"]["result"]
    assert sorted((series["metric"]["id"] for series in loki), key=exact) == ascending
    for number in NUMBERS:
        loki = get("/loki/api/v1/query", query=f'sum(count_over_time({{instance="numbers"}} | id="{shown(number)}" [1h]))')["data"]["result"]
        assert [series["value"][1] for series in loki] == ["1"], (number, loki)
    # A click on the head of a column sorts by all digits: first down, then up.
    table(page, query)
    head = page.get_by_role("region", name="Rows").get_by_role("button", name="id")
    first = page.get_by_role("region", name="Rows").locator("tbody td:first-child")
    head.click()
    expect(first).to_have_text(ascending[::-1])
    head.click()
    expect(first).to_have_text(ascending)
    page.screenshot(path=SHOTS / "numbers-table.png")
    big = 'host:=numbers id:>=9007199254740992 id:<=9007199254740993'
    for query in [
        f"{big} | stats sum(id) s, avg(id) a, min(id) lo, max(id) hi, count() n",
        "host:=numbers id:=9007199254740993 | stats sum(id) s, avg(id) a, min(id) lo, max(id) hi",
        "host:=numbers | stats by (half) sum(nosuch) s, avg(nosuch) a, min(nosuch) lo, median(nosuch) m, count() n",
        "host:=numbers | stats by (id) max(id) hi",
        "host:=numbers | stats sum(id) s, avg(id) a",
    ]:
        answer = get("/api/stats", q=query)
        of_terminal = rows_of(terminal("query", query, "--json"))
        assert answer["rows"] == of_terminal, (query, answer["rows"], of_terminal)
        text = lambda name, value: "\u2013" if value is None else value if name in answer["groups"] else grouped(value)
        assert table(page, query) == [[text(name, value) for name, value in row.items()] for row in answer["rows"]], query
        if "nosuch" in query:
            assert all(row[name] is None for row in answer["rows"] for name in ["s", "a", "lo", "m"]), answer["rows"]
        if query.startswith("host:=numbers id:=9007199254740993"):
            assert set(answer["rows"][0].values()) == {"9007199254740993"}, answer["rows"]
    assert get("/api/stats", q=f"{big} | stats sum(id) s")["rows"] == [{"s": "18014398509481985"}]


TEXTS = [
    "plain", "two words", 'q"uote', "back\\slash", "caf\u00e9", "tab\there", "line\nbreak", "", "\u65e5\u672c", "<b>bold</b>", "O'Neil", "a,b", "100%", "*", "-dash", "a=b",
    "{x}", "c:d", "plain text", "PLAIN", " space ", "null", "true", "5", "0x1F",
]
LEVELS = ["error", "warn", "info", "debug"]


class Condition:
    """A random condition: in both languages, and what it says of a record of the model. Without `loki` it has no counterpart."""

    def __init__(self, own, loki, holds):
        self.own, self.loki, self.holds = own, loki, holds


def text_of(record, name):
    value = record.get(name)
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def condition(dice, depth=0):
    quoted = lambda text: json.dumps(text, ensure_ascii=False)
    kind = dice.choice(["exact", "not", "regexp", "present", "absent", "number", "level", "token"] + ["and", "or", "no"] * (depth < 2))
    if kind in ("and", "or"):
        parts = [condition(dice, depth + 1) for _ in range(2)]
        both = all if kind == "and" else any
        loki = f"({parts[0].loki} {kind} {parts[1].loki})" if all(part.loki for part in parts) else None
        own = f"({parts[0].own} {'' if kind == 'and' else 'or '}{parts[1].own})"
        return Condition(own, loki, lambda record: both(part.holds(record) for part in parts))
    if kind == "no":
        part = condition(dice, 2)
        return Condition(f"-({part.own})", None, lambda record: not part.holds(record))
    name, text = dice.choice(["kind", "note", "rare"]), dice.choice(TEXTS)
    if kind == "exact":
        return Condition(f"{name}:={quoted(text)}", f"{name}={quoted(text)}", lambda record: text_of(record, name) == text)
    if kind == "not":
        return Condition(f"-{name}:={quoted(text)}", f"{name}!={quoted(text)}", lambda record: text_of(record, name) != text)
    if kind == "regexp":
        pattern = dice.choice(["^pl", "a.*b", "[0-9]", "wor?ds$", "(?i)plain"])
        anchored = {"^pl": "(?s)pl.*", "wor?ds$": "(?s).*wor?ds"}.get(pattern, f"(?s).*{pattern}.*")
        return Condition(f"{name}:~{quoted(pattern)}", f"{name}=~{quoted(anchored)}", lambda record: bool(re.search(pattern, text_of(record, name))))
    if kind == "present":
        return Condition(f"{name}:*", f'{name}!=""', lambda record: text_of(record, name) != "")
    if kind == "absent":
        return Condition(f'{name}:""', f'{name}=""', lambda record: text_of(record, name) == "")
    if kind == "number":
        bound, sign = dice.randint(-5, 25), dice.choice([">", ">=", "<", "<="])
        compared = {">": lambda n: n > bound, ">=": lambda n: n >= bound, "<": lambda n: n < bound, "<=": lambda n: n <= bound}[sign]
        return Condition(f"n:{sign}{bound}", None, lambda record: compared(record["n"]))
    if kind == "level":
        level = dice.choice(LEVELS)
        return Condition(f"level:{level}", f'level="{level}"', lambda record: record["level"] == level)
    token = f"token{dice.randint(0, 9)}"
    return Condition(token, None, lambda record: token in record["tokens"])


def random_record(dice, at):
    """A record of the model, and its line: texts of all kinds, names that some lack, and words in all kinds of places."""
    record = {"level": dice.choice(LEVELS), "n": dice.randint(-5, 25), "kind": dice.choice(TEXTS), "tokens": set()}
    if dice.random() < 0.5:
        record["note"] = dice.choice(TEXTS)
    if dice.random() < 0.1:
        record["rare"] = dice.choice(TEXTS + [None, True, 7])
    tokens = [f"token{dice.randint(0, 9)}" for _ in range(4)]
    record["tokens"] = set(tokens)
    time = (NOW - datetime.timedelta(seconds=600 - at % 500)).strftime("%Y-%m-%dT%H:%M:%SZ")
    line = {name: value for name, value in record.items() if name != "tokens"}
    line |= {"time": time, "host": "random", "message": f"{tokens[0]} served\t{at}", "inner": {"list": ["x", f"({tokens[1]})"], "deep": f"\n{tokens[2]}\u00e9 {tokens[3]}"}}
    # A word goes on in a letter behind it.
    record["tokens"] -= {tokens[2]} - {tokens[0], tokens[1], tokens[3]}
    return record, json.dumps(line, ensure_ascii=dice.random() < 0.5)


def random_questions_have_one_answer(page):
    """A filter has as many records in the page, the terminal, the API, Loki's routes and a plain list."""
    seed = int(os.environ.get("TESTS_SEED", "") or 41)
    dice = random.Random(seed)
    records = [random_record(dice, at) for at in range(400)]
    push(*(line for _, line in records))
    for round in range(60):
        asked = condition(dice)
        wanted = sum(asked.holds(record) for record, _ in records)
        query, about = f"host:=random {asked.own}", f"seed {seed}: {asked.own}"
        assert get("/api/count", q=query) == [{"records": str(wanted)}], (about, wanted, get("/api/count", q=query))
        assert len(lines_of("/api/query", q=query, limit=1000)) == wanted, about
        if asked.loki:
            loki = f'sum(count_over_time({{instance="random"}} | {asked.loki} [1h]))'
            result = get("/loki/api/v1/query", query=loki)["data"]["result"]
            assert [series["value"][1] for series in result] == [str(wanted)] * (wanted > 0), (about, loki, wanted, result)
        if round % 4 == 0:
            assert terminal("count", query).strip() == str(wanted), about
            assert len(rows_of(terminal("query", query, "--json"))) == wanted, about
            page.goto(ORIGIN + "/?" + urllib.parse.urlencode({"q": query, "since": SINCE}))
            expect(page.locator("#status")).to_contain_text(re.compile(rf"^{wanted} records? "), timeout=PATIENCE * 1000)
            by_level = {}
            for record, _ in records:
                if asked.holds(record):
                    by_level[record["level"]] = by_level.get(record["level"], 0) + 1
            rows = get("/api/stats", q=f"{query} | stats by (level) count() n")["rows"]
            assert {row["level"]: int(row["n"]) for row in rows} == by_level, about
            if wanted:
                shown = table(page, f"{query} | stats by (level) count() n")
                assert {level: int(n) for level, n in shown} == by_level, (about, shown)


def following_keeps_every_digit(page):
    go(page, "host:=followed", cols="id")
    with page.expect_response("**/api/tail*"):
        page.keyboard.press("l")
    for number in ["9007199254740995", "-9007199254740995", "1e300"]:
        push(f'{{"level":"info","host":"followed","message":"followed","id":{number}}}')
        expect(grid(page).nth(1).get_by_role("gridcell").nth(3)).to_have_text(shown(number))
    page.keyboard.press("l")


def shortened_numbers_are_near(page):
    """The numbers of levels, fields and choices, for counts that no test can store."""
    forms = [(1, "1"), (999, "999"), (1000, "1k"), (1500, "1.5k"), (99499, "99.5k"), (100000, "100k"), (120000, "120k"), (1000000, "1M"), (12345678, "12.3M")]
    levels = ["fatal", "alert", "critical", "error", "warn", "notice", "info", "debug", "trace"]
    time = NOW.strftime("%Y-%m-%dT%H:%M:00Z")
    hits = [{"time": time, "level": level, "records": n} for level, (n, _) in zip(levels, forms)]
    page.route("**/api/hits*", lambda route: route.fulfill(json={"hits": hits, "records": 0, "step_seconds": 60.0}))
    page.route("**/api/values*", lambda route: route.fulfill(json=[{"value": f"v{n}", "records": n} for n, _ in forms]))
    facets = [{"field": f"f{n}", "records": n, "distinct": n, "values": [{"value": n, "n": n}]} for n, _ in forms]
    page.route("**/api/facets*", lambda route: route.fulfill(json=facets))
    page.route("**/api/fields*", lambda route: route.fulfill(json=[{"name": f"f{n}", "records": n} for n, _ in forms]))
    go(page)
    of_levels = page.get_by_role("group", name="Levels").get_by_role("button")
    expect(of_levels).to_have_text([level + text for level, (_, text) in zip(levels, forms)])
    assert of_levels.locator("b").evaluate_all("all => all.map((b) => b.title)") == [f"{n:,} record{'s' * (n != 1)}" for n, _ in forms]
    assert total(page) == sum(n for n, _ in forms)
    many = page.locator("#fields summary .many")
    expect(many).to_have_text([text for _, text in reversed(forms)])
    assert many.evaluate_all("all => all.map((many) => many.title)") == [f"{n:,}" for n, _ in reversed(forms)]
    line = page.get_by_role("combobox", name="Query")
    line.fill("half:v")
    expect(page.get_by_role("option").locator("small")).to_have_text([text for _, text in forms])
    for route in ["hits", "values", "facets", "fields"]:
        page.unroute(f"**/api/{route}*")


def other_views_have_the_numbers_of_the_api(page):
    go(page, "host:=numbers")
    page.get_by_role("button", name="Patterns").click()
    answer = get("/api/patterns", q="host:=numbers", since=SINCE)
    cells = page.get_by_role("region", name="Patterns").locator("tbody td:first-child")
    expect(cells).to_have_text([grouped(pattern["records"]) for pattern in answer["patterns"]])
    page.get_by_role("button", name="Days").click()
    tables = lines_of("/api/tables")
    expect(page.get_by_role("region", name="Day-tables").locator("tbody td:nth-child(3)")).to_have_text([grouped(row["rows"]) for row in reversed(tables)])
    page.get_by_role("button", name="Sources").click()
    sources = lines_of("/api/sources")
    ledgers = [grouped(row["records"]) for row in sources if "listener" in row]
    expect(page.get_by_role("region", name="Ledgers of listeners").locator("tbody td:nth-child(3)")).to_have_text(ledgers)


def days_begin_at_the_readers_midnight(page):
    """In the bars, in `count --every 1d`, and in the API with the zone."""
    zone = zoneinfo.ZoneInfo(ZONE)
    midnight = NOW.astimezone(zone).replace(hour=0, minute=0, second=0)
    times = [midnight - datetime.timedelta(days=days, seconds=second) for days in range(3) for second in (-1, 1)]
    times = [time for time in times if time <= NOW]
    push(*(json.dumps({"time": time.isoformat(), "level": "info", "host": "midnight", "message": "at midnight"}) for time in times))
    days = {}
    for time in times:
        days[time.date()] = days.get(time.date(), 0) + 1
    begins = lambda day: datetime.datetime.combine(day, datetime.time(), zone).astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    wanted = [{"time": begins(day), "records": str(days[day])} for day in sorted(days)]
    assert rows_of(terminal("count", "host:=midnight", "--every", "1d", "--json")) == wanted
    assert get("/api/count", q="host:=midnight", every="1d", zone=ZONE) == wanted
    assert get("/api/hits", q="host:=midnight", step="1d", zone=ZONE)["hits"] == wanted
    at_utc = rows_of(terminal("count", "host:=midnight", "--every", "1d", "--json", "--utc"))
    assert all(row["time"].endswith("T00:00:00Z") for row in at_utc) and at_utc != wanted, at_utc
    assert get("/api/count", q="host:=midnight", every="1d") == at_utc
    week = rows_of(terminal("count", "host:=midnight", "--every", "1w", "--json"))
    assert all(datetime.datetime.fromisoformat(row["time"]).astimezone(zone).strftime("%a %H:%M") == "Mon 00:00" for row in week), week

    def bars(utc):
        """Begins and numbers of the bars, as the page says them to those who cannot see them."""
        since = (midnight - datetime.timedelta(days=90)).astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        page.goto(ORIGIN + "/?" + urllib.parse.urlencode({"q": "host:=midnight", "since": since} | ({"utc": "1"} if utc else {})))
        expect(page.locator("#status")).to_contain_text(f"{len(times)} records")
        hits = page.get_by_role("slider", name="Records by time")
        hits.focus()
        page.keyboard.press("Home")
        found = {}
        for _ in range(int(hits.get_attribute("aria-valuemax")) + 1):
            begin, length, records = re.fullmatch(r"(\S+ \S+) \+ (\w+): ([\d,]+) records?.*", hits.get_attribute("aria-valuetext")).groups()
            assert length == "1d"
            if records != "0":
                found[begin] = records
            page.keyboard.press("ArrowRight")
        return found

    assert bars(False) == {f"{day} 00:00:00": str(days[day]) for day in sorted(days)}
    assert bars(True) == {row["time"].replace("T", " ").rstrip("Z"): row["records"] for row in at_utc}
    page.screenshot(path=SHOTS / "midnight.png")


def charts_have_a_line_for_each_group_and_function(page):
    """Columns of `by` are no lines, and a step without a value is a gap."""
    hour = NOW.replace(minute=0, second=0)
    lines = [(hours, status, took) for hours in (1, 2, 5) for status, took in ((200, 12345), (500, -0.5))]
    push(*(json.dumps({"time": (hour - datetime.timedelta(hours=hours)).isoformat(), "host": "chart", "message": "served", "status": status, "took": took}) for hours, status, took in lines))
    since = (NOW - datetime.timedelta(hours=24)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for query, names in [
        ("stats by (_time:1h, status) count() n", ["200", "500"]),
        ("stats by (_time:1h, status) count() n, avg(took) a", ["200 a", "200 n", "500 a", "500 n"]),
        ("stats by (_time:1h) count() n", ["n"]),
        ("stats by (_time:1h, status) count() n | rename status as code", ["200", "500"]),
    ]:
        page.goto(ORIGIN + "/?" + urllib.parse.urlencode({"q": f"host:=chart | {query}", "since": since}))
        chart = page.get_by_role("img", name=re.compile("over time"))
        expect(chart).to_have_attribute("aria-label", re.compile(rf", {len(names)} lines?, {len(names)} gaps?;"))
        assert sorted(page.locator(".chart-box .legend span").all_inner_texts()) == names
        page.screenshot(path=SHOTS / "chart-lines.png")
    go(page, "host:=chart | stats by (status) count() n", since=since)
    expect(page.get_by_role("region", name="Rows").locator("tbody tr").first).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("over time"))).to_have_count(0)


TESTS = [
    columns_and_records_have_every_digit, values_of_a_field_have_every_digit, all_that_ask_have_the_same_answer, random_questions_have_one_answer, following_keeps_every_digit,
    shortened_numbers_are_near, other_views_have_the_numbers_of_the_api, days_begin_at_the_readers_midnight, charts_have_a_line_for_each_group_and_function,
]


def main():
    global SHOTS
    SHOTS = pathlib.Path(SHOTS)
    SHOTS.mkdir(parents=True, exist_ok=True)
    push(*(line_of(at, number) for at, number in enumerate(NUMBERS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US", timezone_id=ZONE, permissions=["clipboard-read", "clipboard-write"])
        context.set_default_timeout(PATIENCE * 1000)
        expect.set_options(timeout=PATIENCE * 1000)
        page = context.new_page()
        page.goto(LINK)
        expect(grid(page).nth(1)).to_be_visible()
        for test in TESTS:
            if sys.argv[6:] and test.__name__ not in sys.argv[6:]:
                continue
            page = context.new_page()
            faults = []
            page.on("pageerror", lambda error: faults.append(str(error)))
            test(page)
            assert not faults, faults
            print("ok", test.__name__, flush=True)
            page.close()
        browser.close()


main()
