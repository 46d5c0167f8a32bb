"""Who may see and do what in the console: every route, for every role and dataset, from the application itself."""

import pytest
from fastapi.routing import APIRoute
from tests.serving import PEOPLE

from discreet.server.access import Throttle
from discreet.server.tokens import new_token

ALL, ASKING, OWNERS, COLLECTING = (
    ("owner", "analyst", "collector"),
    ("owner", "analyst"),
    ("owner",),
    ("owner", "collector"),
)
ANYBODY, ANY_TOKEN = "anybody", "any token"
D = "/console/datasets/{dataset}"
RULES = {
    ("GET", "/"): ANYBODY,
    ("GET", "/console"): ANY_TOKEN,
    ("GET", "/console/assets/{name}"): ANYBODY,
    ("GET", "/console/sign-in"): ANYBODY,
    ("POST", "/console/sign-in"): ANYBODY,
    ("POST", "/console/sign-out"): ANYBODY,
    ("GET", "/gallery"): ANYBODY,
    ("GET", "/gallery/{name}"): ANYBODY,
    ("GET", "/gallery/{name}/steps"): ANYBODY,
    ("GET", "/gallery/{name}/dial/{place}"): ANYBODY,
    ("GET", D): ASKING,
    ("GET", f"{D}/schema"): ALL,
    ("GET", f"{D}/history"): ASKING,
    ("GET", f"{D}/make"): ASKING,
    ("GET", f"{D}/budget"): ASKING,
    ("GET", f"{D}/ledger"): OWNERS,
    ("GET", f"{D}/tokens"): OWNERS,
    ("GET", f"{D}/bounds"): OWNERS,
    ("GET", f"{D}/statement"): ALL,
    ("GET", f"{D}/policy"): OWNERS,
    ("GET", f"{D}/surveys"): COLLECTING,
    ("GET", f"{D}/surveys/{{survey}}"): COLLECTING,
    ("GET", f"{D}/surveys/{{survey}}/estimate"): COLLECTING,
    ("POST", f"{D}/price"): ASKING,
    ("POST", f"{D}/chart"): ASKING,
    ("POST", f"{D}/job-price"): ASKING,
    ("POST", f"{D}/policy/draft"): OWNERS,
    ("POST", f"{D}/policy/check"): OWNERS,
    ("POST", f"{D}/policy/picture"): OWNERS,
    ("POST", f"{D}/surveys/preview"): COLLECTING,
}
"""Who may call what, written down a second time: a route that is not here fails, as does one that is gone."""

OF_DATASETS = sorted(rule for rule in RULES if "{dataset}" in rule[1])


def test_every_route_of_the_console_has_a_rule_and_every_rule_a_route(house):
    found = [
        (method, route.path)
        for route in house.app.routes
        if isinstance(route, APIRoute) and not route.include_in_schema
        for method in route.methods
    ]
    assert sorted(found) == sorted(RULES)


@pytest.mark.parametrize("rule", OF_DATASETS, ids=" ".join)
def test_a_route_lets_in_whom_it_should_and_nobody_else(house, rule):
    method, path = rule
    house.service.throttle = Throttle(free=10**6)
    for who in [*PEOPLE, "nobody", "stranger"]:
        token = {"nobody": None, "stranger": new_token()}.get(who, who)
        role, datasets = PEOPLE.get(who, ("", []))
        for dataset in ("clinic", "school", "nowhere"):
            address = path.format(dataset=dataset, survey="0" * 32)
            reply = house.call(method, address, token, {} if method == "POST" else None)
            if not role:
                assert reply.status in (303, 401), (who, reply)
                assert reply.status == 401 or reply.headers["location"] == "/console/sign-in"
            elif dataset not in datasets:
                assert reply.status == 404, (who, reply)
            elif role not in RULES[rule]:
                assert reply.status == 403, (who, reply)
            else:
                wanted = (200, 402, 422, 404 if "{survey}" in path else 200)
                assert reply.status in wanted, (who, reply)
