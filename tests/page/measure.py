"""Measures the page on a daemon with many records: the first paint with data, typing, and live records.

    measure.py LINK [ROWS_A_SECOND] [SECONDS]

LINK is a link of `daytable open`. A figure under load says little: the script prints the CPU time of the page beside each.
"""

import json
import statistics
import sys
import threading
import time
import urllib.request

from playwright.sync_api import sync_playwright

LINK = sys.argv[1]
RATE = int(sys.argv[2]) if len(sys.argv) > 2 else 50_000
SECONDS = int(sys.argv[3]) if len(sys.argv) > 3 else 8
ORIGIN = LINK.split("/open/")[0]
FLAGS = "--no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update --disable-sync".split()

# Notes when the first record is painted, and the longest frame.
WATCH = """
window.marks = {};
const painted = () => requestAnimationFrame(() => setTimeout(() => { marks.records ??= performance.now(); }));
new MutationObserver((_, observer) => {
  if (document.querySelector('#grid .row[id]')) { observer.disconnect(); painted(); }
}).observe(document, { childList: true, subtree: true });
window.frames_ = [];
let last = performance.now();
const tick = () => { const now = performance.now(); frames_.push(now - last); last = now; requestAnimationFrame(tick); };
requestAnimationFrame(tick);
"""


def push(stop):
    """Pushes RATE records a second."""
    each = RATE // 10
    body = "\n".join(json.dumps({"level": "info", "host": f"flood-{n % 9}", "message": f"request {n} done in {n % 83} ms", "path": f"/p/{n % 50}"}) for n in range(each))
    begin, sent = time.monotonic(), 0
    while not stop.is_set():
        request = urllib.request.Request(ORIGIN + "/ingest", body.encode(), {"content-type": "application/x-ndjson"})
        urllib.request.urlopen(request, timeout=60).read()
        sent += each
        time.sleep(max(0, begin + sent / RATE - time.monotonic()))
    print(f"pushed {sent / (time.monotonic() - begin):,.0f} records a second")


def cpu(session):
    metrics = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
    return metrics["TaskDuration"] * 1000


def main():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", headless=True, args=FLAGS)
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        context.add_init_script(WATCH)
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Performance.enable")
        page.goto(LINK)
        page.wait_for_function("() => window.marks?.records")
        paints, costs = [], []
        for _ in range(7):
            before = cpu(session)
            page.goto(ORIGIN + "/")
            page.wait_for_function("() => window.marks?.records")
            paints.append(page.evaluate("marks.records"))
            page.wait_for_timeout(1500)
            costs.append(cpu(session) - before)
        print(f"first paint with records: {statistics.median(paints):.0f} ms, least {min(paints):.0f}; CPU of the page {statistics.median(costs):.0f} ms")
        answers = page.evaluate("performance.getEntriesByType('resource').map(({ name, startTime, responseEnd }) => [name.replace(location.origin, '').split('?')[0], Math.round(startTime), Math.round(responseEnd)])")
        print("requests (begin, end in ms):", *answers)
        page.evaluate("frames_.length = 0")
        page.locator("#q").press_sequentially("level:error status:>=500 -path:x | stats by (host) count() n", delay=20)
        print(f"typing: longest frame {page.evaluate('Math.max(...frames_)'):.0f} ms")
        page.goto(ORIGIN + "/")
        page.wait_for_function("() => window.marks?.records")
        page.keyboard.press("l")
        stop = threading.Event()
        pusher = threading.Thread(target=push, args=(stop,))
        pusher.start()
        time.sleep(2)
        page.evaluate("frames_.length = 0")
        before = cpu(session)
        time.sleep(SECONDS)
        frames = sorted(page.evaluate("frames_"))
        busy = (cpu(session) - before) / SECONDS / 10
        print("notice:", page.locator("#notice").inner_text().replace("\n", " "))
        print(f"live: {len(frames) / SECONDS:.0f} frames a second, 99 of 100 below {frames[int(len(frames) * 0.99)]:.0f} ms, longest {frames[-1]:.0f} ms; CPU {busy:.0f} %")
        stop.set()
        pusher.join()
        browser.close()


main()
