"""What pages take, in a browser: the first one, the price after a key, and many browsers at once.

The clock of a busy machine says nothing: what is asserted is processor time, and that nobody is left without a price.
"""

import statistics
import time

import pytest

TYPED = """async (count) => {
  const area = document.querySelector("#sql"), trade = document.querySelector("#trade"), times = [];
  for (let i = 0; i < count; i++) {
    const seen = new Promise((done, fail) => {
      new MutationObserver((_, watch) => { watch.disconnect(); done(); })
        .observe(trade, {childList: true, characterData: true, subtree: true});
      setTimeout(() => fail(new Error(`no price: ${document.querySelector("#price").textContent}`)), 120_000);
    });
    const start = performance.now();
    area.value = `SELECT COUNT(*) AS n FROM visits WHERE age > ${i + 1}`;
    area.dispatchEvent(new Event("input"));
    await seen;
    times.push(performance.now() - start);
  }
  return times;
}"""


WAIT = 0.040  # seconds after the last key before the price is asked for


class Spent:
    """Seconds of processor that this process (the server, and who drives the browser) and a page's thread spend."""

    def __init__(self, page):
        self.session = page.context.new_cdp_session(page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.before = self.now()

    def now(self):
        metrics = {m["name"]: m["value"] for m in self.session.send("Performance.getMetrics")["metrics"]}
        return time.process_time() + metrics["TaskDuration"]

    def since(self):
        return self.now() - self.before


@pytest.mark.slow
def test_the_first_page_and_the_price_after_a_key(house, visit, capsys):
    page = visit(None)
    spent = Spent(page)
    page.goto(house.url + "/")
    first = spent.since()
    page = visit("ann")
    spent = Spent(page)
    page.goto(house.url + "/console/datasets/clinic")
    desk = spent.since()
    page.fill("#sql", "SELECT COUNT(*) AS n FROM visits")
    page.wait_for_selector("#pay:not([disabled])")
    spent = Spent(page)
    wall = statistics.median(page.evaluate(TYPED, 30))
    price = spent.since() / 30 + WAIT
    with capsys.disabled():
        print(f"\nfirst page {1000 * first:.0f} ms of processor, desk {1000 * desk:.0f} ms")
        print(
            f"price {1000 * price:.0f} ms: {1000 * WAIT:.0f} of waiting, else of processor; {wall:.0f} ms on the clock"
        )
    assert max(first, desk) < 1
    assert price < 0.1


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
