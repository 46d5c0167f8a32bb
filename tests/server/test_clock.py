"""When replies leave: whatever follows a charge is held for the time grid, over HTTP as elsewhere; nothing else is."""

import pytest
from tests.serving import BY_REGION, CLINIC, COUNT

from discreet.curator import settings
from discreet.curator.settings import Pace


@pytest.fixture
def waits(monkeypatch):
    """How long was waited for the grid, in nanoseconds, one entry a charge."""
    noted = []
    monkeypatch.setattr(settings.SystemTimer, "wait", lambda self, nanoseconds: noted.append(nanoseconds))
    return noted


def test_what_follows_a_charge_leaves_on_the_grid_and_what_is_free_at_once(fresh, waits, monkeypatch):
    house = fresh(clinic=CLINIC.replace("time_floor = 0", 'time_floor = "1000"'))
    assert house.ask(COUNT, "0.5").status == 200
    assert len(waits) == 1
    assert waits[0] > 900 * 10**9  # the first step of this grid is a thousand seconds away
    assert house.ask(COUNT, "0.5").status == 200  # free
    assert house.ask(COUNT, "1e9").status == 402  # refused
    assert house.call("POST", "/v1/datasets/clinic/explain", "ann", {"sql": BY_REGION, "epsilon": 1}).status == 200
    assert len(waits) == 1
    monkeypatch.setattr("discreet.sql.plan.query_plan.QueryPlan.run", lambda *_: 1 / 0)
    assert house.ask(BY_REGION, "0.5").status == 500  # a failure waits as an answer does
    assert len(waits) == 2
    assert waits[1] > 900 * 10**9


def test_how_long_the_engine_took_hardly_shows():
    """Answers that were ready after 1 and 30 ms leave at the same step nearly always (`Pace`)."""
    pace, late = Pace(), {}
    for milliseconds in (1, 30):
        leaving = [pace.leaving(milliseconds * 10**6) for _ in range(2000)]
        assert set(leaving) <= {10**8, 2 * 10**8}
        late[milliseconds] = sum(step == 2 * 10**8 for step in leaving) / 2000
    assert late[1] < 0.05
    assert 0.2 < late[30] < 0.4  # 0.3: nearer to the step, later, and never in between
