"""Drives the page in Chromium, by roles and names, and looks at it.

    browser.py LINK TOKEN SCREENSHOTS AXE

LINK is a link of `daytable open` to a daemon with the records of corpus.py, TOKEN its read token. Each function below is
a test. Screenshots go to the folder SCREENSHOTS.
"""

import datetime
import json
import pathlib
import re
import sys
import time
import traceback
import urllib.request

from playwright.sync_api import expect, sync_playwright

CHROMIUM = "/usr/bin/chromium"
FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync".split()

LINK, TOKEN, SHOTS, AXE = sys.argv[1:5]
ORIGIN = LINK.split("/open/")[0]
SHOTS = pathlib.Path(SHOTS)
SHOTS.mkdir(parents=True, exist_ok=True)
# Seconds that anything may take. A machine that does other things is slow.
PATIENCE = 60


def hours_ago(hours):
    return (NOW - datetime.timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


NOW = datetime.datetime.now(datetime.timezone.utc)
# A day whose ends stay, so that numbers of records can be compared however long a test takes.
DAY = f"/?since={hours_ago(24)}&until={hours_ago(0)}"


def push(*messages):
    body = "\n".join(json.dumps({"level": "notice", "host": "live-1", "message": message}) for message in messages)
    urllib.request.urlopen(urllib.request.Request(ORIGIN + "/ingest", body.encode(), {"content-type": "application/x-ndjson"}), timeout=30).read()


def rows(page):
    return page.get_by_role("grid", name="Records").get_by_role("row")


def seen(page):
    """Waits until records are on the screen."""
    expect(rows(page).nth(1)).to_be_visible()


def go(page, address="/"):
    page.goto(ORIGIN + address)
    seen(page)


def total(page):
    """The number of records that match, as the page says it."""
    said = until(lambda: re.search(r"([\d,]+) record", page.locator("#status").inner_text()), page)
    return int(said[1].replace(",", ""))


def until(found, page, act=lambda: None):
    """What `found` returns once it is something. `act` is done before each look."""
    end = time.monotonic() + PATIENCE
    while True:
        act()
        what = found()
        if what:
            return what
        assert time.monotonic() < end, "it did not come"
        page.wait_for_timeout(50)


def ask(page, query):
    page.keyboard.press("/")
    line = page.get_by_role("combobox", name="Query")
    expect(line).to_be_focused()
    line.fill(query)
    line.press("Enter")
    line.evaluate("line => line.blur()")


def accessible(page, name):
    page.evaluate(pathlib.Path(AXE).read_text())
    found = page.evaluate("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})")
    said = [f"{rule['id']}: {rule['nodes'][0]['html'][:200]} {rule['nodes'][0]['failureSummary'][:200]}" for rule in found["violations"]]
    assert not said, f"{name}: {said}"


# --- the six points

def what_is_there_is_seen_at_once(page):
    go(page)
    # The browser asks for the first rows while it loads the scripts, and the scripts use that answer.
    first = "performance.getEntriesByType('resource').filter(({ name }) => name.endsWith('/api/query?since=24h&limit=100')).map((entry) => entry.initiatorType)"
    # An entry comes when the whole answer was read.
    assert until(lambda: page.evaluate(first), page) == ["link"], page.evaluate(first)
    assert total(page) > 1000
    hits = page.get_by_role("slider", name="Records by time")
    assert re.search(r"[\d,]+ records from", hits.get_attribute("aria-valuetext"))
    expect(page.get_by_role("group", name="Levels").get_by_role("button", name=re.compile("^error"))).to_be_visible()
    expect(page.get_by_role("complementary", name="Fields").get_by_text("instance", exact=True)).to_be_visible()
    newest = rows(page).nth(1).get_by_role("gridcell")
    assert newest.nth(1).inner_text() in ("info", "warn", "notice")
    page.screenshot(path=SHOTS / "light.png")


def a_record_opens_with_its_fields_line_place_and_surroundings(page):
    go(page)
    ask(page, "refused")
    seen(page)
    rows(page).nth(1).click()
    record = page.get_by_role("complementary", name="Record")
    # The line as it was written comes in the place of the message.
    expect(record.get_by_role("region", name="Line").locator("pre")).to_contain_text('"time"')
    line = record.get_by_role("region", name="Line").locator("pre").inner_text()
    message = json.loads(line)["message"]
    assert "refused" in message, line
    expect(record.get_by_role("rowheader", name="order")).to_be_visible()
    expect(record.get_by_role("region", name="Place")).to_contain_text("shop.log")
    expect(record.get_by_role("region", name="Place")).to_contain_text("nothing lost")
    page.keyboard.press("c")
    around = record.get_by_role("region", name="Around it").get_by_role("listitem")
    expect(around.nth(5)).to_be_visible()
    assert message in record.locator("[aria-current]").inner_text()
    link = record.get_by_role("link").get_attribute("href")
    page.screenshot(path=SHOTS / "record.png")
    page.goto(link)
    expect(page.get_by_role("complementary", name="Record").locator("pre")).to_have_text(line)
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary", name="Record")).to_be_hidden()


def the_histogram_chooses_a_range(page):
    go(page, DAY)
    before = total(page)
    hits = page.get_by_role("slider", name="Records by time")
    hits.focus()
    page.keyboard.press("End")
    for _ in range(9):
        page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("since=2.*until=2"))
    seen(page)
    assert 0 < total(page) < before
    box = hits.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 30, steps=4)
    page.mouse.up()
    page.go_back()
    page.go_back()
    expect(page.locator("#status")).to_contain_text(f"{before:,} record")


def questions_are_asked_and_shared_by_the_address(page):
    go(page, DAY)
    before = total(page)
    ask(page, "refused")
    seen(page)
    found = total(page)
    assert 0 < found < before
    assert "q=refused" in page.url
    expect(page.locator("#grid mark").first).to_have_text("refused")
    page.get_by_role("complementary", name="Fields").get_by_role("button", name=re.compile("^api-1 .*only instance$")).click()
    page.wait_for_url(re.compile("instance"))
    seen(page)
    assert 0 < total(page) < found
    page.get_by_role("complementary", name="Fields").get_by_role("button", name=re.compile("^api-1 .*only instance$")).click()
    expect(page.locator("#status")).to_contain_text(f"{found:,} record")
    ask(page, "refused | stats by (instance) count() n")
    table = page.get_by_role("region", name="Rows")
    expect(table.get_by_role("cell", name="api-1")).to_be_visible()
    ask(page, "* | stats by (_time:1h) count() n")
    expect(page.get_by_role("img", name=re.compile("over time"))).to_be_visible()
    page.screenshot(path=SHOTS / "chart.png")
    page.keyboard.press("e")
    dialog = page.get_by_role("dialog", name="Share and export")
    expect(dialog).to_contain_text("daytable query '* | stats by (_time:1h) count() n' --since ")
    page.keyboard.press("Escape")


def a_wrong_query_is_shown_at_its_place(page):
    go(page)
    ask(page, "status:>= | nonsense")
    fault = page.get_by_role("alert").first
    expect(fault).to_be_visible()
    expect(fault.locator("mark")).to_be_visible()
    # What is wrong is said once, and no bars of another query stand beside it.
    said = fault.locator("span").inner_text()
    assert page.locator("body").inner_text().count(said) == 1, said
    expect(page.get_by_role("group", name="Levels").get_by_role("button")).to_have_count(0)
    expect(fault.get_by_role("link", name="The language")).to_have_attribute("href", "/page/language.html")
    page.screenshot(path=SHOTS / "error.png")
    ask(page, "")
    seen(page)
    expect(fault).to_be_hidden()


def the_query_line_completes_and_typing_never_waits(page):
    go(page)
    # Answers that never come hold nothing up.
    page.route("**/api/fields*", lambda route: None)
    line = page.get_by_role("combobox", name="Query")
    line.press_sequentially("inst", delay=1)
    expect(line).to_have_value("inst")
    page.unroute("**/api/fields*")
    line.fill("")
    page.reload()
    seen(page)
    line.press_sequentially("insta")
    page.get_by_role("option", name=re.compile("^instance")).click()
    expect(line).to_have_value("instance:")
    option = page.get_by_role("option", name=re.compile("^web-1"))
    expect(option).to_be_visible()
    option.click()
    expect(line).to_have_value("instance:web-1 ")
    line.press("Enter")
    seen(page)
    expect(rows(page).nth(1)).to_contain_text("web-1")


def what_is_being_written_stays(page):
    held = []
    page.route("**/api/hosts*", lambda route: held.append(route))
    go(page)
    line = page.get_by_role("combobox", name="Query")
    line.press_sequentially("level:err")
    until(lambda: held, page)
    # An answer in the background draws the bar anew.
    held[0].continue_()
    expect(page.get_by_role("button", name="Hosts", exact=True)).to_be_visible()
    expect(line).to_have_value("level:err")
    page.get_by_role("button", name=re.compile("^Wrap")).click()
    expect(line).to_have_value("level:err")
    # A question from elsewhere takes its place.
    page.get_by_role("group", name="Levels").get_by_role("button", name=re.compile("^error")).click()
    expect(line).to_have_value(re.compile("^level:=?error$"))


def new_records_are_followed_without_jumping(page):
    go(page)
    live = page.get_by_role("button", name="Live", exact=True)
    with page.expect_response("**/api/tail*"):
        page.keyboard.press("l")
    expect(live).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#notice")).to_contain_text("Following")
    push("the first new one")
    expect(rows(page).nth(1)).to_contain_text("the first new one")
    rows(page).nth(1).click()
    expect(page.get_by_role("complementary", name="Record")).to_be_visible()
    push("one that waits", "another that waits")
    expect(page.get_by_role("button", name="2 new records")).to_be_visible()
    expect(rows(page).nth(1)).to_contain_text("the first new one")
    page.get_by_role("button", name="2 new records").click()
    expect(rows(page).nth(1)).to_contain_text("that waits")
    page.keyboard.press("p")
    expect(page.locator("#notice")).to_contain_text("Paused")
    push("while paused")
    expect(page.get_by_role("button", name="1 new record")).to_be_visible()
    page.keyboard.press("n")
    expect(rows(page).nth(1)).to_contain_text("while paused")
    page.keyboard.press("l")
    expect(live).to_have_attribute("aria-pressed", "false")


# Gives an answer of the browser's own making instead of a request: MADE(path) is a function that returns the next lines.
ANSWERS = """
const asked = window.fetch;
window.fetch = (url, options) => {
  const next = MADE(String(url));
  if (!next) return asked(url, options);
  const encoder = new TextEncoder();
  const pull = async (to) => {
    const lines = await next();
    if (lines === null || options?.signal?.aborted) to.close();
    else to.enqueue(encoder.encode(lines));
  };
  return Promise.resolve(new Response(new ReadableStream({ pull }, { highWaterMark: 0 })));
};
"""

# Frames that are drawn between a key and what the key does.
FRAMES = """([key, done]) => new Promise((resolve) => {
  let frames = 0;
  const look = () => (eval(done) || frames > 100 ? resolve(frames) : (frames++, requestAnimationFrame(look)));
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  look();
})"""


def frames_until(page, key, done):
    return page.evaluate(FRAMES.replace("eval(done)", done), [key, done])


def few_elements(page):
    assert page.evaluate("document.querySelectorAll('#grid .row').length") < 300


def a_flood_is_sampled_and_says_so(page):
    """50,000 records a second arrive without end. Keys are answered within a few frames, and little is drawn."""
    page.add_init_script(ANSWERS.replace("MADE", """((url) => {
      if (!url.startsWith("/api/tail")) return;
      let n = 0;
      const began = performance.now();
      return async () => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        let lines = "";
        for (const due = (performance.now() - began) * 50; n < due; n++) {
          lines += `data: {"table":"Log20261123","partition_key":"flood","row_key":"${String(n).padStart(20, "0")}-1-1","time":"2026-11-23T03:00:00Z","level":"info","message":"flood ${n}","source":"s"}\\n\\n`;
        }
        window.flooded = n;
        return lines || ":\\n";
      };
    })"""))
    go(page)
    page.keyboard.press("l")
    notice = page.locator("#notice")
    expect(notice).to_contain_text(re.compile("a sample is shown, [0-9,]+ of [0-9,]+ left out"))
    until(lambda: page.evaluate("window.flooded") > 200_000, page)
    few_elements(page)
    expect(rows(page).nth(1)).to_contain_text("flood")
    selected = "document.querySelector('#grid .row[aria-selected=true]') !== null"
    assert frames_until(page, "j", selected) <= 10
    assert frames_until(page, "?", "document.querySelector('dialog[open]') !== null") <= 10
    page.keyboard.press("Escape")
    # A person who reads is not disturbed: what comes waits, and is counted.
    assert frames_until(page, "Enter", "!document.querySelector('#record, aside.record')?.hidden") <= 10
    opened = page.get_by_role("complementary", name="Record")
    expect(opened).to_be_visible()
    line = opened.locator("pre").inner_text()
    seen_before = page.evaluate("window.flooded")
    until(lambda: page.evaluate("window.flooded") > seen_before + 50_000, page)
    assert opened.locator("pre").inner_text() == line
    expect(page.get_by_role("button", name=re.compile("[0-9,]+ new records"))).to_be_visible()
    few_elements(page)
    assert frames_until(page, "l", "document.querySelector('#live').ariaPressed === 'false'") <= 10


def a_flood_of_the_daemon_is_followed(page):
    go(page)
    with page.expect_response("**/api/tail*"):
        page.keyboard.press("l")
    number = 0
    def more():
        nonlocal number
        push(*(f"flood of the daemon {number + n}" for n in range(10_000)))
        number += 10_000
    until(lambda: "a sample is shown" in page.locator("#notice").inner_text(), page, more)
    expect(rows(page).nth(1)).to_contain_text("flood of the daemon")
    few_elements(page)
    assert frames_until(page, "j", "document.querySelector('#grid .row[aria-selected=true]') !== null") <= 10
    page.keyboard.press("l")


def a_million_rows_scroll_like_ten(page):
    page.add_init_script(ANSWERS.replace("MADE", """((url) => {
      if (!url.startsWith("/api/query")) return;
      let n = window.begun ? 1e6 : 0;
      window.begun = true;
      return async () => {
        if (n >= 1e6) return null;
        let lines = "";
        for (const end = n + 10000; n < end; n++) {
          const time = new Date(1.7e12 - n * 10).toISOString();
          const text = n === 500000 ? "x".repeat(100000) : `row number ${n}`;
          lines += `{"table":"Log20231114","partition_key":"m","row_key":"${String(n).padStart(20, "0")}-1-1","time":"${time}","level":"info","message":"${text}"}\\n`;
        }
        return lines;
      };
    })"""))
    page.goto(ORIGIN + "/?since=all&q=million")
    grid = page.get_by_role("grid", name="Records")
    until(lambda: grid.evaluate("grid => grid.scrollHeight") >= 12_000_000, page)
    shown = lambda: grid.evaluate("grid => [...grid.querySelectorAll('.row[id]')].filter(row => row.getBoundingClientRect().bottom > grid.getBoundingClientRect().top).map(row => Number(row.ariaRowIndex) - 2)")
    for share in (0.5, 0.25, 0.999, 0):
        grid.evaluate("(grid, share) => grid.scrollTop = (grid.scrollHeight - grid.clientHeight) * share", share)
        until(lambda: abs(min(shown(), default=-1e9) - share * 1e6) < 1000, page)
        few_elements(page)
        texts = [row for row in rows(page).all_inner_texts() if "row number" in row]
        assert texts and len(texts) < 200
    # From row to row, also far from the first and across a line of 100 KB.
    page.evaluate("document.querySelector('#grid').focus()")
    assert frames_until(page, "G", "document.querySelector('#row-999999') !== null") <= 10
    expect(page.locator("#row-999999")).to_contain_text("row number 999999")
    assert frames_until(page, "k", "document.querySelector('#row-999998')?.ariaSelected === 'true'") <= 10
    grid.evaluate("grid => grid.scrollTop = (grid.scrollHeight - grid.clientHeight) * (500000 / 1e6)")
    long_row = page.locator("#row-500000")
    until(long_row.count, page)
    assert len(long_row.inner_text()) < 1000
    page.keyboard.press("w")
    grid.evaluate("grid => grid.scrollTop = 0")
    until(lambda: min(shown(), default=1e9) < 100, page)
    few_elements(page)


def a_line_of_100_kb_is_whole_in_its_record(page):
    go(page, "/?q=" + "instance:=hostile-1" + "&since=24h")
    rows(page).filter(has_text="100 KB: xxx").click()
    line = page.get_by_role("complementary", name="Record").get_by_role("region", name="Line").locator("pre")
    expect(line).to_contain_text("100 KB: xxx")
    page.get_by_role("complementary", name="Record").get_by_role("region", name="Line").get_by_role("button", name=re.compile("more$")).click()
    until(lambda: line.evaluate("line => line.textContent.length") >= 100_008, page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("Escape")


def an_alert_that_fires_is_listed_with_its_records(page):
    go(page)
    place = page.locator("#alerts")
    def look():
        push("alarm-of-the-page")
        page.reload()
        seen(page)
        page.wait_for_load_state("networkidle")
    until(place.is_visible, page, look)
    expect(place).to_have_text("1 alert")
    place.click()
    box = page.get_by_role("dialog", name="Alerts")
    expect(box).to_contain_text("Alarm")
    expect(box).to_contain_text("live-1 raised an alarm")
    accessible(page, "alerts")
    page.screenshot(path=SHOTS / "alerts.png")
    box.get_by_role("button", name="Show the records").click()
    expect(box).to_be_hidden()
    page.wait_for_url(re.compile("alarm"))
    expect(rows(page).nth(1)).to_contain_text("alarm-of-the-page")


def typing_goes_on_while_no_answer_comes(page):
    go(page)
    held = []
    page.route("**/api/**", lambda route: held.append(route))
    page.keyboard.press("r")
    line = page.get_by_role("combobox", name="Query")
    line.click()
    line.press_sequentially("level:error path:/api and more")
    expect(line).to_have_value("level:error path:/api and more")
    line.press("Enter")
    line.press_sequentially(" again")
    expect(line).to_have_value("level:error path:/api and more again")
    line.evaluate("line => line.blur()")
    assert frames_until(page, "?", "document.querySelector('dialog[open]') !== null") <= 10
    page.keyboard.press("Escape")
    for route in held:
        route.abort()
    page.unroute("**/api/**")


def what_others_do_not_show(page):
    go(page)
    page.get_by_role("button", name="Patterns").click()
    patterns = page.get_by_role("region", name="Patterns").get_by_role("row")
    expect(patterns.filter(has_text="accepted for user-")).to_be_visible()
    page.screenshot(path=SHOTS / "patterns.png")
    accessible(page, "patterns")
    before = patterns.count()
    patterns.filter(has_text="accepted for user-").get_by_role("button", name=re.compile("^Hide")).click()
    expect(patterns.filter(has_text="accepted for user-")).to_have_count(0)
    assert patterns.count() < before
    go(page, "/?since=6h")
    page.get_by_role("button", name="Compare").click()
    differences = page.get_by_role("region", name="Differences").get_by_role("row")
    expect(differences.nth(1)).to_be_visible()
    for n in range(1, min(differences.count(), 8)):
        cells = differences.nth(n).get_by_role("cell").all_inner_texts()
        assert all(float(re.sub("[^0-9.]", "", share)) <= 100 for share in cells[2:4]), cells
        assert int(cells[5]) >= 4, cells
    page.screenshot(path=SHOTS / "compare.png")
    accessible(page, "compare")
    page.get_by_role("button", name="Days").click()
    expect(page.get_by_role("region", name="Day-tables").get_by_role("row").nth(1)).to_contain_text("open")
    page.screenshot(path=SHOTS / "days.png")
    accessible(page, "days")
    page.get_by_role("button", name="Sources").click()
    expect(page.get_by_role("region", name="Files and journals")).to_contain_text("shop.log")
    expect(page.get_by_text("Nothing was lost")).to_be_visible()
    expect(page.get_by_text("Not verified yet by a daemon")).to_be_visible()
    page.screenshot(path=SHOTS / "sources.png")
    accessible(page, "sources")


def hosts_are_listed(page):
    go(page)
    page.get_by_role("button", name="Hosts", exact=True).click()
    host = page.get_by_role("region", name="Hosts").get_by_role("row").filter(has_text="web-9")
    expect(host).to_contain_text("ago")
    expect(host).to_contain_text("nothing")
    expect(host).to_contain_text("none")
    page.screenshot(path=SHOTS / "hosts.png")
    accessible(page, "hosts")
    host.get_by_role("button", name="web-9").click()
    panel = page.get_by_role("complementary", name="Host")
    # Its strip: the hour of its only record, and the way to it.
    hour = panel.get_by_role("button", name=re.compile(": 1 record$"))
    expect(hour).to_be_visible()
    page.screenshot(path=SHOTS / "host.png")
    expect(panel.get_by_role("rowheader", name="silent_seconds")).to_be_visible()
    accessible(page, "host")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    host.get_by_role("button", name="web-9").click()
    panel.get_by_role("button", name="Only its records").click()
    expect(page.get_by_role("combobox", name="Query")).to_have_value("log_host:=web-9")


def keys_do_everything(page):
    go(page)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(rows(page).nth(2)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("k")
    expect(rows(page).nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary", name="Record")).to_be_visible()
    page.keyboard.press("j")
    expect(rows(page).nth(2)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    page.keyboard.press("w")
    expect(page.get_by_role("button", name="Wrap")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("w")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys and help")).to_be_visible()
    accessible(page, "help")
    page.keyboard.press("Escape")
    page.keyboard.press("d")
    dialog = page.get_by_role("dialog", name="Time range")
    expect(dialog).to_be_visible()
    accessible(page, "range")
    dialog.get_by_role("textbox", name="From").fill("nonsense")
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog.get_by_role("alert")).to_contain_text("From is not a time")
    dialog.get_by_role("button", name="All time").click()
    page.wait_for_url(re.compile("since=all"))


def the_list_scrolls_far_and_wraps(page):
    go(page, "/?since=all")
    grid = page.get_by_role("grid", name="Records")
    places = lambda: grid.evaluate("grid => [...grid.querySelectorAll('.row[id]')].map((row) => Number(row.ariaRowIndex))")
    until(lambda: min(places(), default=0) > 1000, page, lambda: grid.evaluate("grid => grid.scrollTop = grid.scrollHeight"))
    keys = places()
    assert keys == sorted(keys) and len(keys) < 200, keys
    page.keyboard.press("w")
    heights = "Math.max(...[...document.querySelectorAll('#grid .row')].map((row) => row.offsetHeight))"
    until(lambda: page.evaluate(heights) > 100, page, lambda: grid.evaluate("grid => grid.scrollTop = 0"))


def states_say_what_to_do(page):
    page.goto(ORIGIN + "/?q=nosuchwordanywhere&since=1h")
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
    expect(page.get_by_role("button", name="Look at all time")).to_be_visible()
    page.screenshot(path=SHOTS / "empty.png")
    accessible(page, "empty")
    # What was probably meant is one click away: a comparison as other languages write it, and a part of a word.
    page.goto(ORIGIN + "/?q=level=error&since=all")
    page.get_by_role("button", name="Ask level:=error").click()
    seen(page)
    expect(page.locator("#q")).to_have_value("level:=error")
    page.goto(ORIGIN + "/?q=heckpoin+%7C+limit+5&since=all")
    page.get_by_role("button", name="Ask *heckpoin* | limit 5").click()
    expect(page.locator("#q")).to_have_value("*heckpoin* | limit 5")
    page.goto(ORIGIN + "/?since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z")
    expect(page.get_by_role("heading", name="No records in this range")).to_be_visible()
    page.get_by_role("button", name="Show the last day with records").click()
    seen(page)
    page.route("**/api/query*", lambda route: route.abort())
    page.reload()
    expect(page.get_by_role("heading", name="No connection")).to_be_visible()
    page.unroute("**/api/query*")
    page.get_by_role("button", name="Try again").last.click()
    seen(page)
    held = []
    page.route("**/api/query*", lambda route: held.append(route))
    page.reload()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped")).to_be_visible()
    for route in held:
        route.abort()
    page.unroute("**/api/query*")


def screens_of_both_themes_and_of_a_phone_are_accessible(page):
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        go(page)
        accessible(page, scheme)
        rows(page).nth(3).click()
        expect(page.get_by_role("complementary", name="Record")).to_be_visible()
        accessible(page, scheme + " record")
        if scheme == "dark":
            page.screenshot(path=SHOTS / "dark.png")
        page.keyboard.press("Escape")
    page.set_viewport_size({"width": 390, "height": 800})
    go(page)
    page.screenshot(path=SHOTS / "narrow.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    tops = page.locator("header > button").evaluate_all("buttons => buttons.filter((button) => !button.hidden).map((button) => button.offsetTop)")
    assert len(set(tops)) == 1, f"the buttons are on one line: {tops}"
    accessible(page, "narrow")
    page.get_by_role("button", name="Fields").click()
    expect(page.get_by_role("complementary", name="Fields")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary", name="Fields")).to_be_hidden()


def lines_never_become_markup(page):
    go(page, "/?q=" + "instance:=hostile-1" + "&since=24h")
    assert page.title() != "broken"
    texts = [rows(page).nth(n).inner_text() for n in range(1, 10)]
    assert any("<script>document.title='broken'</script>" in text for text in texts), texts
    for n in range(1, 10):
        rows(page).nth(n).click()
        expect(page.get_by_role("complementary", name="Record")).to_be_visible()
    assert page.evaluate("document.querySelectorAll('main script, main img, main b:not(.legend b)').length") == 0
    assert page.title() != "broken"
    refused = page.evaluate("() => { try { document.body.innerHTML = '<b>'; return false } catch { return true } }")
    assert refused, "the browser makes markup of text"
    page.keyboard.press("Escape")
    thousand = rows(page).filter(has_text="a thousand fields")
    thousand.click()
    more = page.get_by_role("button", name=re.compile("more fields$"))
    more.click()
    expect(page.get_by_role("rowheader", name="field.0999")).to_be_visible()


def shares_are_of_what_was_counted(page):
    push("a share of one", "a share of two")
    # Records come between the names of the fields and their values.
    page.route("**/api/facets*", lambda route: (push("a share of three", "a share of four", "a share of five"), route.continue_()))
    go(page, "/?since=24h&q=%22a share of%22")
    fields = page.get_by_role("complementary", name="Fields")
    expect(fields.get_by_role("button", name=re.compile("^notice .*only level$"))).to_contain_text("100%")
    expect(fields).to_contain_text("Shares are of 5 records.")


def all_time_shows_the_hours_that_have_records(page):
    old = json.dumps({"time": "2020-02-03T04:05:06Z", "host": "old-1", "message": "of another decade"})
    urllib.request.urlopen(urllib.request.Request(ORIGIN + "/ingest", old.encode(), {"content-type": "application/x-ndjson"}), timeout=30).read()
    push("of all time", "of all time")
    hits = page.get_by_role("slider", name="Records by time")
    go(page, "/?since=all&q=%22of another decade%22 or %22of all time%22")
    expect(hits).to_have_attribute("aria-valuetext", re.compile("^3 records from 20(19|20)"))
    go(page, "/?since=all&q=%22of all time%22")
    expect(hits).to_have_attribute("aria-valuetext", re.compile("^2 records"))
    first, last = (datetime.datetime.fromisoformat(text) for text in re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", hits.get_attribute("aria-valuetext")))
    assert last - first < datetime.timedelta(days=1), (first, last)
    page.goto(ORIGIN + "/?since=all&view=compare")
    expect(page.locator("#other")).to_contain_text("The two halves of all time.")
    expect(page.locator("#other")).not_to_contain_text("Nothing to compare")


def exports_have_everything(page):
    go(page, DAY)
    number = total(page)
    page.keyboard.press("e")
    with page.expect_download() as download:
        page.get_by_role("link", name="NDJSON").click()
    lines = pathlib.Path(download.value.path()).read_text().splitlines()
    assert len(lines) == number, (len(lines), number)
    assert json.loads(lines[0])["message"]
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert "message" in pathlib.Path(download.value.path()).read_text().splitlines()[0].split(",")
    with page.expect_download() as download:
        page.get_by_role("link", name="Parquet").click()
    assert download.value.suggested_filename == "daytable.parquet"
    assert pathlib.Path(download.value.path()).read_bytes()[-4:] == b"PAR1"


TESTS = [
    what_is_there_is_seen_at_once, a_record_opens_with_its_fields_line_place_and_surroundings, the_histogram_chooses_a_range,
    questions_are_asked_and_shared_by_the_address, a_wrong_query_is_shown_at_its_place, the_query_line_completes_and_typing_never_waits, what_is_being_written_stays,
    typing_goes_on_while_no_answer_comes, new_records_are_followed_without_jumping, a_flood_is_sampled_and_says_so,
    a_million_rows_scroll_like_ten, a_line_of_100_kb_is_whole_in_its_record, an_alert_that_fires_is_listed_with_its_records, what_others_do_not_show, hosts_are_listed, keys_do_everything,
    the_list_scrolls_far_and_wraps, states_say_what_to_do, screens_of_both_themes_and_of_a_phone_are_accessible,
    lines_never_become_markup, shares_are_of_what_was_counted, all_time_shows_the_hours_that_have_records, exports_have_everything, a_flood_of_the_daemon_is_followed,
]


def safety_of_the_session(browser, context, faults):
    """The link works once, the cookie cannot be read, and the token works as well."""
    cookie = next(cookie for cookie in context.cookies() if cookie["name"] == "daytable")
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict", cookie
    other = browser.new_context()
    page = other.new_page()
    page.on("pageerror", lambda error: faults.append(f"refused: {error}"))
    page.goto(LINK)
    expect(page.get_by_role("heading", name="The link no longer works")).to_be_visible()
    page.screenshot(path=SHOTS / "refused.png")
    accessible(page, "refused")
    page.get_by_role("textbox", name="Token").fill("wrong")
    page.get_by_role("button", name="Read with the token").click()
    expect(page.get_by_role("alert").last).to_contain_text("not the token")
    page.get_by_role("textbox", name="Token").fill(TOKEN)
    page.get_by_role("button", name="Read with the token").click()
    seen(page)
    page.keyboard.press("?")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Not signed in")).to_be_visible()
    other.close()


def main():
    only = sys.argv[5:]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light", locale="en-US", timezone_id="UTC")
        context.set_default_timeout(PATIENCE * 1000)
        expect.set_options(timeout=PATIENCE * 1000)
        asked, faults, headers = set(), [], {}
        context.on("request", lambda request: asked.add(request.url))
        context.on("response", lambda response: headers.setdefault(response.url.split("?")[0], response.headers))
        page = context.new_page()
        page.goto(LINK)
        seen(page)
        failed = []
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
        if not only:
            safety_of_the_session(browser, context, faults)
        away = [url for url in asked if not url.startswith((ORIGIN + "/", "blob:" + ORIGIN))]
        assert not away, f"requests that leave the origin: {away}"
        policy = headers[ORIGIN + "/"]["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy, policy
        assert headers[ORIGIN + "/api/tables"]["cache-control"] == "no-store"
        assert not faults, faults
        browser.close()
    sys.exit(f"{len(failed)} failed: {failed}" if failed else 0)


main()
