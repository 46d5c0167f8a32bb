"""How pages look: on a phone, in the dark, for whoever reads with other senses; measured by axe-core."""

import pytest

PHONE = {"width": 390, "height": 844}
OF_OWNERS = [
    "",
    "/schema",
    "/history",
    "/make",
    "/budget",
    "/ledger",
    "/tokens",
    "/bounds?read=true",
    "/policy",
    "/surveys",
    "/statement",
]
RULES = """() => axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}).then(found => found.violations
  .filter(one => ["serious", "critical"].includes(one.impact))
  .map(one => one.id + ": " + one.nodes.map(node => node.html.slice(0, 200) + " " + node.failureSummary).join(" | ")))"""


def findings(page, axe):
    page.evaluate(axe)
    return page.evaluate(RULES)


def overflow(page):
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_desk_has_no_serious_finding_and_fits_a_phone(house, visit, axe, scheme):
    page = visit("ann", color_scheme=scheme)
    page.goto(house.url + "/console/datasets/clinic")
    page.fill("#sql", "SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region")
    page.wait_for_selector("#pay:not([disabled])")
    page.click("#pay")
    page.wait_for_selector("#answer figure svg")
    page.wait_for_selector("#price h2")
    assert findings(page, axe) == []
    page.fill("#sql", "SELECT nothing FROM visits")
    page.wait_for_selector("#price.stale")
    assert findings(page, axe) == []
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 26, 32)"}[scheme]
    page.set_viewport_size(PHONE)
    assert overflow(page) <= 0
    assert page.evaluate("document.querySelector('#answer figure svg').getBoundingClientRect().width") > 280


def test_the_errors_of_a_price_are_seen_on_a_phone(house, visit):
    page = visit("ann", viewport=PHONE)
    page.goto(house.url + "/console/datasets/clinic")
    page.fill("#sql", "SELECT COUNT(*) AS n, SUM(cost) AS cost FROM visits")
    page.wait_for_selector("#price td.number")
    assert page.locator("#price td.number").first.bounding_box()["width"] < PHONE["width"]
    ends = page.evaluate(
        "[...document.querySelectorAll('#price td')].map((cell) => cell.getBoundingClientRect().right)"
    )
    assert max(ends) <= PHONE["width"]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [{"width": 1280, "height": 900}, PHONE])
def test_every_page_has_no_serious_finding_and_does_not_overflow(house, visit, axe, scheme, size):
    house.ask("SELECT COUNT(*) AS looked FROM visits", who="olga")
    page = visit("olga", color_scheme=scheme, viewport=size)
    paths = [f"/console/datasets/clinic{path}" for path in OF_OWNERS]
    wrong = {}
    for path in ["/console", *paths, "/gallery", "/gallery/guessing", "/gallery/harm"]:
        page.goto(house.url + path)
        page.wait_for_load_state("networkidle")
        found = findings(page, axe)
        found += ["it overflows"] if overflow(page) > 0 else []
        wrong |= {path: found} if found else {}
    page.click("header a.brand")
    page.click("[data-sign-out]")
    page.wait_for_url("**/sign-in")
    found = findings(page, axe)
    assert (wrong, found) == ({}, [])
