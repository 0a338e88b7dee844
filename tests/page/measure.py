"""Measures the page on a daemon with many records: the first paint with data, typing, and live records.

    measure.py LINK [ROWS_A_SECOND] [SECONDS]

LINK is a link of `daytable open`. A figure under load says little: the script prints the CPU time of the page beside each.
Live records come from a stand-in for the daemon's stream, so that the page alone is measured.
"""

import statistics
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

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


class Flood(BaseHTTPRequestHandler):
    """The daemon, except that new records come RATE times a second, more than this machine may push meanwhile."""

    def do_GET(self):
        if self.path.startswith("/api/tail"):
            return self.flood()
        request = urllib.request.Request(ORIGIN + self.path, headers={name: value for name, value in self.headers.items() if name != "Accept-Encoding"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            body = answer.read()
            self.send_response(answer.status)
            for name in ("Content-Type", "Content-Security-Policy"):
                if value := answer.headers.get(name):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def flood(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        begin, sent, each = time.monotonic(), 0, RATE // 20
        try:
            while True:
                now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                record = f'{{"table":"Log","partition_key":"flood","row_key":"%015d","time":"{now}","level":"info","message":"request %d is done","path":"/api/v1/items","source":"s"}}'
                self.wfile.write("".join(f"data: {record % (10**15 - sent - n, n)}\n\n" for n in range(each)).encode())
                sent += each
                time.sleep(max(0, begin + sent / RATE - time.monotonic()))
        except OSError:
            print(f"sent {sent / (time.monotonic() - begin):,.0f} records a second")

    def log_message(self, *_):
        pass


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
        proxy = ThreadingHTTPServer(("127.0.0.1", 0), Flood)
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        page.goto(f"http://127.0.0.1:{proxy.server_port}/")
        page.wait_for_function("() => window.marks?.records")
        page.keyboard.press("l")
        time.sleep(2)
        page.evaluate("frames_.length = 0")
        before = cpu(session)
        time.sleep(SECONDS)
        frames = sorted(page.evaluate("frames_"))
        busy = (cpu(session) - before) / SECONDS / 10
        print("notice:", page.locator("#notice").inner_text().replace("\n", " "))
        print(f"live: {len(frames) / SECONDS:.0f} frames a second, 99 of 100 below {frames[int(len(frames) * 0.99)]:.0f} ms, longest {frames[-1]:.0f} ms; CPU {busy:.0f} %")
        browser.close()
        time.sleep(1)


main()
