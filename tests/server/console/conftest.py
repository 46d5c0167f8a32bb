"""One Chromium for all journeys, driven by Playwright; each journey has a browser context of its own."""

import os
import shutil
from pathlib import Path

import pytest
from tests.browser import BROWSERS

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
AXE = Path(os.environ.get("DISCREET_AXE", Path.home() / ".cache/discreet/node_modules/axe-core/axe.min.js"))


def _missing(reason):
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


@pytest.fixture(scope="session")
def chromium():
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        _missing(f"NO BROWSER: the console is not tested; install one of {', '.join(BROWSERS)}")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("NO PLAYWRIGHT: the console is not tested in a browser; run make install")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe():
    """The text of axe-core, which `make axe` installs outside the project."""
    if not AXE.is_file():
        _missing("NO AXE-CORE: accessibility is not tested; run make axe")
    return AXE.read_text(encoding="utf-8")


@pytest.fixture
def visit(chromium, house):
    """`visit("ann")`: a page of a fresh browser in which ann has signed in; `visit(None)` is a visitor."""
    contexts, complaints = [], []

    def make(who, *, url=None, viewport=None, tokens=None, **context):
        made = chromium.new_context(viewport=viewport or {"width": 1280, "height": 900}, **context)
        made.set_default_timeout(20_000)
        contexts.append(made)
        page = made.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda line: complaints.append(line.text) if "Content Security" in line.text else None)
        base = url or house.url
        if who is not None:
            page.goto(f"{base}/")
            page.fill("#token", (tokens or house.tokens)[who])
            page.click("#door button")
            page.wait_for_url("**/console")
        return page

    yield make
    for context in contexts:
        context.close()
    assert complaints == []
