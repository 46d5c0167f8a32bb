"""How quick pages are, in a browser: the first one, the price after a key, and many browsers at once."""

import statistics

import pytest

TYPED = """async (count) => {
  const area = document.querySelector("#sql"), trade = document.querySelector("#trade"), times = [];
  for (let i = 0; i < count; i++) {
    const seen = new Promise((done) => new MutationObserver((_, watch) => { watch.disconnect(); done(); })
      .observe(trade, {childList: true, characterData: true, subtree: true}));
    const start = performance.now();
    area.value = `SELECT COUNT(*) AS n FROM visits WHERE age > ${i + 1}`;
    area.dispatchEvent(new Event("input"));
    await seen;
    times.push(performance.now() - start);
  }
  return times;
}"""


@pytest.mark.slow
def test_the_first_page_and_the_price_after_a_key(house, visit, capsys):
    page = visit(None)
    page.goto(house.url + "/")
    first = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    page = visit("ann")
    page.goto(house.url + "/console/datasets/clinic")
    desk = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    page.fill("#sql", "SELECT COUNT(*) AS n FROM visits")
    page.wait_for_selector("#pay:not([disabled])")
    price = statistics.median(page.evaluate(TYPED, 30))
    with capsys.disabled():
        print(f"\nfirst page {first:.0f} ms, desk {desk:.0f} ms, price {price:.0f} ms after a key (median of 30)")
    assert max(first, desk) < 1000
    assert price < 100


@pytest.mark.slow
def test_twenty_browsers_at_once(house, visit, capsys):
    pages = [visit("ann") for _ in range(20)]
    for page in pages:
        page.goto(house.url + "/console/datasets/clinic")
    for page in pages:
        page.evaluate(f"globalThis.typed = ({TYPED})(10)")
    times = [time for page in pages for time in page.evaluate("globalThis.typed")]
    with capsys.disabled():
        print(f"\n20 browsers: price {statistics.median(times):.0f} ms (median), {max(times):.0f} ms at most")
    assert len(times) == 200
    assert max(times) < 10_000
