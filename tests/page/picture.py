"""Takes the pictures of the guide and of the README: the page with ordinary logs, light and dark.

    picture.py LINK FOLDER

LINK is a link of `daytable open` to a daemon with the records of `corpus.py FOLDER COUNT plain`.
"""

import pathlib
import sys

from playwright.sync_api import expect, sync_playwright

FLAGS = "--no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update --disable-sync".split()


def main(link, folder):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        context = browser.new_context(viewport={"width": 1080, "height": 560}, device_scale_factor=2)
        page = context.new_page()
        page.goto(link)
        for scheme, name in (("light", "page.png"), ("dark", "page-dark.png")):
            page.emulate_media(color_scheme=scheme)
            page.goto(link.split("/open/")[0] + "/?since=24h")
            expect(page.get_by_role("grid", name="Records").get_by_role("row").nth(1)).to_be_visible(timeout=60_000)
            expect(page.get_by_role("complementary", name="Fields").get_by_text("instance", exact=True)).to_be_visible()
            page.wait_for_timeout(500)
            page.screenshot(path=pathlib.Path(folder) / name)
        browser.close()


main(sys.argv[1], sys.argv[2])
