"""What the page says of logs of five kinds, in Chromium.

    kinds.py LINK FOLDER SCREENSHOTS AXE

LINK is a link of `daytable open` to a daemon that reads the files that `corpus.py FOLDER COUNT kinds` wrote. Each function of TESTS is a test.
"""

import datetime
import json
import pathlib
import re
import sys
import time
import traceback
import urllib.parse

from playwright.sync_api import expect, sync_playwright

FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync".split()
LINK, FOLDER, SHOTS, AXE = sys.argv[1:5]
ORIGIN = LINK.split("/open/")[0]
SHOTS = pathlib.Path(SHOTS)
PATIENCE = 60
APP = [json.loads(line) for line in (pathlib.Path(FOLDER) / "app.log").read_text().splitlines()]


def rows(page):
    return page.get_by_role("grid", name="Records").get_by_role("row")


def message(row):
    return row.get_by_role("gridcell").last


def fields(page):
    return page.get_by_role("complementary", name="Fields")


def address(query="", since="48h", **others):
    return "/?" + urllib.parse.urlencode({"q": query, "since": since} | others)


def of_file(name):
    return f'source:"{name}"'


def go(page, query="", **others):
    page.goto(ORIGIN + address(query, **others))
    expect(rows(page).nth(1)).to_be_visible()


def until(found, page):
    end = time.monotonic() + PATIENCE
    while not (what := found()):
        assert time.monotonic() < end, "it did not come"
        page.wait_for_timeout(50)
    return what


def accessible(page, name):
    page.evaluate(pathlib.Path(AXE).read_text())
    found = page.evaluate("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})")
    said = [f"{rule['id']}: {rule['nodes'][0]['html'][:200]} {rule['nodes'][0]['failureSummary'][:200]}" for rule in found["violations"]]
    assert not said, f"{name}: {said}"


def query_of(page):
    return urllib.parse.parse_qs(urllib.parse.urlsplit(page.url).query)


# --- the list

def equal_messages_are_told_apart_by_their_fields(page):
    go(page, of_file("app.log"))
    newest = APP[-1]
    row = message(rows(page).nth(1))
    expect(row).to_contain_text("request handled")
    names = [text.rstrip("=") for text in row.locator(".pair i").all_inner_texts()]
    # What differs comes first, then what each record has another of, and last what is always the same.
    assert names.index("status") < names.index("request_id") and "service" not in names, names
    assert "path" in names and "level" not in names, names
    shown = dict(zip(names, row.locator(".pair").all_inner_texts()))
    assert shown["status"] == f"status={newest['status']}" and shown["path"] == f"path={newest['path']}", shown
    colour = lambda place: place.evaluate("place => getComputedStyle(place).color")
    assert colour(row.locator(".pair").first) != colour(row)
    # A message that has its values says them once.
    go(page, of_file("postgresql.log"))
    said = message(rows(page).nth(2)).inner_text()
    assert not re.search(r"(\d{3,}).*\b\1\b", said), said
    page.screenshot(path=SHOTS / "kinds-postgresql.png")


def no_field_becomes_markup_or_commands(page):
    go(page, of_file("app.log") + " user:bold")
    expect(message(rows(page).nth(1))).to_contain_text('user=<b>bold</b>\u241b[31m\ufffd')
    assert page.evaluate("document.querySelectorAll('#grid b').length") == 0


def columns_are_remembered_for_a_source(page):
    go(page, of_file("app.log"))
    fields(page).get_by_role("button", name="Show status as a column").click()
    head = rows(page).first.get_by_role("columnheader", name=re.compile("^status"))
    expect(head).to_be_visible()
    # A column is not repeated behind the message.
    assert "status=" not in message(rows(page).nth(1)).inner_text()
    go(page, of_file("java.log"))
    expect(head).to_have_count(0)
    go(page)
    expect(head).to_have_count(0)
    go(page, of_file("app.log"))
    expect(head).to_be_visible()
    assert query_of(page)["cols"] == ["status"]
    # An address with columns has its own.
    go(page, of_file("app.log"), cols="path,user")
    expect(rows(page).first.get_by_role("columnheader", name=re.compile("^path"))).to_be_visible()
    expect(head).to_have_count(0)
    # No value, an empty one, and what is no number are a dash.
    users = {row.get_by_role("gridcell").nth(4).inner_text() for row in rows(page).all()[1:]}
    assert "\u2013" in users and "" not in users, users
    go(page, of_file("app.log") + " ratio:NaN", cols="ratio")
    expect(rows(page).nth(1).get_by_role("gridcell").nth(3)).to_have_text("\u2013")
    go(page, of_file("app.log"))
    rows(page).first.get_by_role("button", name="Remove the column status").click()
    go(page, of_file("app.log"))
    expect(head).to_have_count(0)


def columns_are_resized_and_stay_so(page):
    go(page)
    edge = page.get_by_role("separator", name="Width of Instance")
    width = lambda: rows(page).nth(1).get_by_role("gridcell").nth(2).bounding_box()["width"]
    before = width()
    edge.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    until(lambda: abs(width() - before - 48) < 2, page)
    box = edge.bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 3 + 60, box["y"] + 5, steps=4)
    page.mouse.up()
    until(lambda: abs(width() - before - 108) < 2, page)
    page.reload()
    expect(rows(page).nth(1)).to_be_visible()
    assert abs(width() - before - 108) < 2
    edge.dblclick()
    until(lambda: abs(width() - before) < 2, page)


def a_trace_opens_in_its_place(page):
    go(page, of_file("java.log") + " level:error")
    row = rows(page).nth(1)
    more = row.get_by_role("button", name=re.compile("lines$"))
    expect(more).to_have_text(re.compile("7 lines"))
    expect(message(row)).to_contain_text("java.lang.IllegalStateException: order")
    below = rows(page).nth(2)
    height, top = row.bounding_box()["height"], below.bounding_box()["y"]
    more.click()
    expect(row.get_by_role("button", name=re.compile("lines$"))).to_have_attribute("aria-expanded", "true")
    expect(row).to_contain_text("at com.zaxxer.hikari.pool.HikariPool.getConnection")
    taller = row.bounding_box()["height"] - height
    assert taller > 100, taller
    until(lambda: abs(below.bounding_box()["y"] - top - taller) < 1, page)
    expect(page.get_by_role("complementary", name="Record")).to_be_hidden()
    page.screenshot(path=SHOTS / "kinds-trace.png")
    accessible(page, "trace")
    page.keyboard.press("j")
    page.keyboard.press("o")
    until(lambda: abs(row.bounding_box()["height"] - height) < 1, page)
    # A trace in a field of a JSON log.
    go(page, of_file("app.log") + " level:error")
    row = rows(page).nth(1)
    expect(message(row)).to_contain_text("app.cards.Declined: 05")
    row.get_by_role("button", name=re.compile("lines$")).click()
    expect(row).to_contain_text("card.charge(amount)")


def times_have_a_date_where_the_range_has_two_days(page):
    go(page)
    time_of = lambda: rows(page).nth(1).get_by_role("gridcell").first.inner_text()
    assert re.match(r"[A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d", time_of()), time_of()
    at = rows(page).nth(1).get_by_role("gridcell").first.get_attribute("title")
    second = datetime.datetime.fromisoformat(at).replace(microsecond=0, tzinfo=None)
    begin = second - datetime.timedelta(seconds=second.second)
    go(page, since=begin.isoformat() + "Z", until=(begin + datetime.timedelta(minutes=1)).isoformat() + "Z")
    assert re.match(r"\d\d:\d\d:\d\d", time_of()), time_of()
    # Whole seconds have no digits behind them.
    go(page, of_file("nginx-access.log"))
    assert re.fullmatch(r"[A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d", time_of()), time_of()
    page.get_by_role("button", name="Last 48h").click() if page.get_by_role("button", name="Last 48h").count() else page.keyboard.press("d")
    before = datetime.datetime.now(datetime.timezone.utc).date()
    with page.expect_request("**/api/query?*") as asked:
        page.get_by_role("dialog", name="Time range").get_by_role("button", name="Yesterday").click()
    after = datetime.datetime.now(datetime.timezone.utc).date()
    params = urllib.parse.parse_qs(urllib.parse.urlsplit(asked.value.url).query)
    since, end = (datetime.datetime.fromisoformat(params[name][0]) for name in ("since", "until"))
    assert end - since == datetime.timedelta(days=1) and end.date() in (before, after) and end.hour == since.hour == 0, params
    expect(page.locator("#range")).to_have_text("Yesterday")
    assert query_of(page)["since"] == ["yesterday"] and query_of(page)["until"] == ["today"]
    page.keyboard.press("d")
    page.get_by_role("dialog", name="Time range").get_by_role("button", name="Today").click()
    expect(page.locator("#range")).to_have_text("Today")


# --- the fields, the record

def every_field_is_listed_and_has_values(page):
    go(page, of_file("nginx-access.log"))
    panel = fields(page)
    panel.get_by_role("searchbox", name="Find a field").fill("pat")
    path = panel.locator("details").filter(has=page.locator("summary[title=path]"))
    expect(path.locator("summary .many")).to_have_text("many")
    path.locator("summary").click()
    top = path.get_by_role("button", name=re.compile("only path$"))
    expect(top.nth(3)).to_be_visible()
    expect(path).to_contain_text("The most frequent of many")
    panel.get_by_role("searchbox").fill("nosuchfield")
    expect(panel).to_contain_text("No field has this in its name")
    # A share is one of all records that were looked at, as the bars beside have it.
    go(page, of_file("app.log"))
    panel.get_by_role("searchbox", name="Find a field").fill("user")
    panel.locator("summary[title=user]").click()
    ann = panel.get_by_role("button", name=re.compile("^ann .*only user$"))
    share = int(re.search(r"(\d+)%", ann.inner_text())[1])
    wanted = 100 * sum(line["user"] == "ann" for line in APP) / len(APP)
    assert abs(share - wanted) < 1, (share, wanted)


def names_and_values_stand_side_by_side(page):
    go(page, of_file("app.log"))
    rows(page).nth(1).click()
    record = page.get_by_role("complementary", name="Record")
    expect(record.get_by_role("rowheader", name="request_id")).to_be_visible()
    gap = """table => {
      const range = document.createRange();
      return Math.min(...[...table.querySelectorAll("tr")].map((row) => {
        range.selectNodeContents(row.cells[0]);
        return row.cells[1].getBoundingClientRect().left - range.getBoundingClientRect().right;
      }));
    }"""
    assert 0 < record.locator("table").evaluate(gap) < 24
    row = record.locator("tr").filter(has=page.get_by_role("rowheader", name="status", exact=True))
    row.hover()
    row.get_by_role("button", name="Only this status").click()
    assert re.fullmatch(r'source:"app.log" status:=\d+', query_of(page)["q"][0]), page.url
    rows(page).nth(1).click()
    row = record.locator("tr").filter(has=page.get_by_role("rowheader", name="request_id"))
    row.hover()
    row.get_by_role("button", name="This request_id at any time").click()
    expect(page.locator("#status")).to_contain_text("1 record ")


# --- the bars, the chart, the tables

def errors_are_seen_beside_many(page):
    go(page, of_file("java.log"))
    # Pixels of the colour of errors in the bars.
    seen = """() => {
      const canvas = document.querySelector(".plot canvas");
      const probe = document.body.appendChild(document.createElement("i"));
      probe.style.color = "var(--bar-error)";
      const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
      probe.remove();
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let n = 0;
      for (let at = 0; at < data.length; at += 4) n += Math.abs(data[at] - r) + Math.abs(data[at + 1] - g) + Math.abs(data[at + 2] - b) < 12;
      return n;
    }"""
    bars = page.get_by_role("group", name="Histogram")
    linear = until(lambda: page.evaluate(seen), page)
    bars.get_by_role("button", name="Log").click()
    expect(bars.get_by_role("button", name="Log")).to_have_attribute("aria-pressed", "true")
    until(lambda: page.evaluate(seen) > 3 * linear, page)
    assert query_of(page)["log"] == ["1"]
    page.screenshot(path=SHOTS / "kinds-log.png")
    bars.get_by_role("button", name="Errors only").click()
    page.wait_for_url(re.compile("level"))
    expect(rows(page).nth(1).get_by_role("gridcell").nth(1)).to_have_text("error")
    expect(page.get_by_role("group", name="Levels").get_by_role("button")).to_have_count(1)
    bars.get_by_role("button", name="Errors only").click()
    expect(page.get_by_role("group", name="Levels").get_by_role("button")).not_to_have_count(1)


def charts_and_tables_answer_clicks(page):
    go(page)
    page.goto(ORIGIN + address(of_file("app.log") + " | stats by (_time:1h, status) count() n, max(duration_ms) most"))
    chart = page.get_by_role("group", name="Chart")
    expect(page.get_by_role("img", name=re.compile("over time"))).to_be_visible()
    drawn = lambda: page.locator(".chart canvas").evaluate("canvas => canvas.toDataURL()")
    lines = until(drawn, page)
    chart.get_by_role("button", name="Bars").click()
    expect(chart.get_by_role("button", name="Bars")).to_have_attribute("aria-pressed", "true")
    bars = until(lambda: drawn() != lines and drawn(), page)
    page.screenshot(path=SHOTS / "kinds-bars.png")
    chart.get_by_role("button", name="Log").click()
    until(lambda: drawn() not in (lines, bars), page)
    assert query_of(page)["chart"] == ["bars"] and query_of(page)["log"] == ["1"]
    accessible(page, "chart")
    table = page.get_by_role("region", name="Rows")
    head = table.get_by_role("columnheader", name=re.compile("^n"))
    head.get_by_role("button").click()
    expect(table.get_by_role("columnheader", name=re.compile("^n"))).to_have_attribute("aria-sort", "descending")
    numbers = [int(text.replace(",", "")) for text in table.locator("tbody td:nth-child(3)").all_inner_texts()]
    assert numbers == sorted(numbers, reverse=True) and len(set(numbers)) > 1, numbers
    table.get_by_role("button", name="200", exact=True).first.click()
    assert query_of(page)["q"] == [of_file("app.log") + " status:=200"], page.url
    page.go_back()
    # The rows come anew, in their own order.
    expect(table.get_by_role("columnheader", name=re.compile("^n"))).not_to_have_attribute("aria-sort", "descending")
    cell = table.locator("tbody td:first-child button").first
    begin = cell.inner_text()
    cell.click()
    params = query_of(page)
    since, end = (datetime.datetime.fromisoformat(params[name][0]) for name in ("since", "until"))
    assert f"{since:%Y-%m-%d %H:%M:%S}" == begin and end - since == datetime.timedelta(hours=1), params
    # Other tables sort as well.
    page.get_by_role("button", name="Sources").click()
    files = page.get_by_role("region", name="Files and journals")
    paths = lambda: [row.locator("td").first.locator(".path").get_attribute("title") for row in files.locator("tbody tr").all()]
    expect(files.locator("tbody tr").nth(5)).to_be_visible()
    files.get_by_role("button", name="Source", exact=True).click()
    assert paths() == sorted(paths(), reverse=True), paths()
    files.get_by_role("button", name=re.compile("^Source")).click()
    assert paths() == sorted(paths()), paths()


def both_ranges_of_a_comparison_are_chosen_there(page):
    page.goto(ORIGIN + address(of_file("java.log"), view="compare"))
    begin = page.get_by_role("textbox", name="A from")
    expect(begin).not_to_have_value("")
    begin.fill("no time")
    page.get_by_role("button", name="Compare").last.click()
    expect(page.locator(".compare-form [role=alert]")).to_contain_text("A from is not a time")
    begin.fill("6h")
    page.get_by_role("textbox", name="A to").fill("now")
    page.get_by_role("textbox", name="B from").fill("yesterday")
    page.get_by_role("textbox", name="B to").fill("today")
    page.get_by_role("button", name="Compare").last.click()
    expect(page.locator("#other")).to_contain_text("The newest")
    params = query_of(page)
    assert (params["since"], params["since2"], params["until2"]) == (["6h"], ["yesterday"], ["today"]) and "until" not in params, params
    accessible(page, "compare")


def a_field_of_many_values_is_compared_by_its_own_numbers(page):
    # The last day has more values of `path` than are listed, and the few hours before have not.
    page.goto(ORIGIN + address(since="24h", view="compare"))
    expect(page.locator("#other")).to_contain_text("The newest")
    found = page.get_by_role("region", name="Differences").get_by_role("row").filter(has_text="path").filter(has_text=re.compile("gone|new"))
    expect(found).to_have_count(0)


# --- the language, saved queries, a phone

def the_language_is_one_click_away(page):
    go(page)
    page.keyboard.press("?")
    with page.expect_popup() as opened:
        page.get_by_role("dialog", name="Keys and help").get_by_role("link", name="The whole language").click()
    document = opened.value
    expect(document.get_by_role("heading", name="Query language", level=1)).to_be_visible()
    expect(document.get_by_text("ipv4_range").first).to_be_visible()
    accessible(document, "language")
    document.screenshot(path=SHOTS / "language.png")
    document.get_by_role("link", name="deviations").click()
    assert document.url.endswith("#deviations")


def saved_queries_are_offered(page):
    go(page)
    page.get_by_role("button", name="Saved", exact=True).click()
    dialog = page.get_by_role("dialog", name="Saved queries")
    expect(dialog).to_contain_text("Requests that somebody waited for")
    accessible(page, "saved")
    page.screenshot(path=SHOTS / "saved.png")
    dialog.get_by_role("button", name="Slow <requests>").click()
    expect(page.get_by_role("combobox", name="Query")).to_have_value("duration_ms:>60")
    expect(rows(page).first.get_by_role("columnheader", name=re.compile("^path"))).to_be_visible()
    assert query_of(page)["since"] == ["48h"] and query_of(page)["cols"] == ["path,duration_ms"], page.url
    slow = sum(line["duration_ms"] > 60 for line in APP)
    expect(page.locator("#status")).to_contain_text(re.compile(f"^{slow:,} record"))
    page.keyboard.press("e")
    block = page.get_by_role("dialog", name="Share and export").locator("code").filter(has_text="[[query]]").inner_text()
    assert block == '[[query]]\nname = "\u2026"\nquery = "duration_ms:>60"\nsince = "48h"\ncolumns = ["path", "duration_ms"]', block


def a_phone_shows_what_was_said(page):
    page.set_viewport_size({"width": 390, "height": 800})
    go(page, of_file("app.log"))
    row = rows(page).filter(has_text="request handled").first
    assert message(row).bounding_box()["width"] > 340
    assert "status=" in message(row).inner_text()
    page.screenshot(path=SHOTS / "kinds-narrow.png")
    accessible(page, "narrow list")
    page.goto(ORIGIN + address(view="sources"))
    files = page.get_by_role("region", name="Files and journals")
    expect(files.locator("tbody tr").nth(5)).to_be_visible()
    for path in files.locator("tbody tr .path").all():
        assert path.bounding_box()["height"] < 30, path.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.screenshot(path=SHOTS / "kinds-narrow-sources.png")


TESTS = [
    equal_messages_are_told_apart_by_their_fields, no_field_becomes_markup_or_commands, columns_are_remembered_for_a_source, columns_are_resized_and_stay_so,
    a_trace_opens_in_its_place, times_have_a_date_where_the_range_has_two_days, every_field_is_listed_and_has_values, names_and_values_stand_side_by_side,
    errors_are_seen_beside_many, charts_and_tables_answer_clicks, both_ranges_of_a_comparison_are_chosen_there, a_field_of_many_values_is_compared_by_its_own_numbers, the_language_is_one_click_away,
    saved_queries_are_offered, a_phone_shows_what_was_said,
]


def main():
    only = sys.argv[5:]
    SHOTS.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", headless=True, args=FLAGS)
        context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light", locale="en-US", timezone_id="UTC")
        context.set_default_timeout(PATIENCE * 1000)
        expect.set_options(timeout=PATIENCE * 1000)
        first = context.new_page()
        first.goto(LINK)
        expect(rows(first).nth(1)).to_be_visible()
        failed, faults = [], []
        for test in TESTS:
            if only and test.__name__ not in only:
                continue
            page = context.new_page()
            page.on("pageerror", lambda error: faults.append(f"{test.__name__}: {error}"))
            try:
                test(page)
                print("ok", test.__name__, flush=True)
            except Exception:
                failed.append(test.__name__)
                page.screenshot(path=SHOTS / f"failed-{test.__name__}.png")
                print("FAILED", test.__name__, traceback.format_exc(limit=3), flush=True)
            page.close()
        assert not faults, faults
        browser.close()
    sys.exit(f"{len(failed)} failed: {failed}" if failed else 0)


main()
