"""The page of a daytable over a lake, in Chromium.

    lake.py LINK SCREENSHOTS SINCE UNTIL RECORDS HOST RECORDS_OF_HOST

LINK is a link of `daytable open`. The lake has RECORDS from SINCE until UNTIL, RECORDS_OF_HOST of them of the host HOST.
"""

import pathlib
import sys
import urllib.parse

from playwright.sync_api import expect, sync_playwright

FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync".split()
LINK, SHOTS, SINCE, UNTIL, RECORDS, HOST, RECORDS_OF_HOST = sys.argv[1:]
ORIGIN = LINK.split("/open/")[0]
SHOTS = pathlib.Path(SHOTS)
SHOTS.mkdir(parents=True, exist_ok=True)


def go(page, query):
    page.goto(ORIGIN + "/?" + urllib.parse.urlencode({"q": query, "since": SINCE, "until": UNTIL}))


def has(page, records):
    expect(page.locator("#status")).to_contain_text(f"{int(records):,} records")
    expect(page.get_by_role("grid", name="Records").get_by_role("row").nth(1)).to_be_visible()


def main():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        page = browser.new_page()
        page.set_default_timeout(60_000)
        expect.set_options(timeout=60_000)
        faults = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("response", lambda answer: faults.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None)
        page.goto(LINK)
        go(page, "")
        has(page, RECORDS)
        go(page, f"log_host:={HOST}")
        has(page, RECORDS_OF_HOST)
        # The fields beside the records name the hosts.
        go(page, "")
        has(page, RECORDS)
        field = page.get_by_role("complementary", name="Fields").locator("summary").filter(has_text="log_host")
        field.first.click()
        expect(page.get_by_role("complementary", name="Fields").get_by_text(HOST).filter(visible=True).first).to_be_visible()
        page.screenshot(path=SHOTS / "lake.png")
        for view, shown in [("Patterns", "request"), ("Compare", "The newest"), ("Days", "archived"), ("Sources", "on its hosts")]:
            page.get_by_role("button", name=view, exact=True).click()
            expect(page.get_by_text(shown).filter(visible=True).first).to_be_visible()
        assert not faults, faults
        # What is over cannot be followed, and the page says where it can.
        page.get_by_role("button", name="Records", exact=True).click()
        page.get_by_role("button", name="Live", exact=True).click()
        expect(page.get_by_text("follow records on their hosts")).to_be_visible()
        browser.close()


main()
