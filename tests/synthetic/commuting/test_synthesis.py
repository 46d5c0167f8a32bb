import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidData, InvalidParameter, NotAccepted
from discreet.noise import DeterministicEntropy
from discreet.privacy.accounting import guarantee
from discreet.synthetic.commuting import Acceptance, Comparison, Flows, Places, Scheme, city, synthesize
from discreet.synthetic.commuting.synthesis import onto_simplex, whole

LINE = Places(list("abcdefgh"), [[float(n), 0.0] for n in range(8)])
SCHEMES = {
    "counts": {"epsilon": 1},
    "gaussian": {"epsilon": 1, "delta": "1e-6", "promise": "approximate"},
    "pure urn": {"epsilon": 3, "method": "dirichlet"},
    "probabilistic urn": {"epsilon": 3, "delta": "1e-3", "method": "dirichlet", "promise": "probabilistic"},
    "approximate urn": {"epsilon": 3, "delta": "1e-3", "method": "dirichlet", "promise": "approximate"},
    "cap": {"epsilon": 1, "cap": 2},
    "bands": {"epsilon": 1, "bands": [0.5, 2, 4]},
    "regions": {"epsilon": 1, "groups": {name: "west" if name < "d" else "east" for name in "abcdefgh"}},
    "hubs": {"epsilon": 1, "hubs": 3},
    "accepted": {"epsilon": 4, "accept": Acceptance(apart="0.9", stop="1/2")},
}


def flows(seed=1, people=500):
    random = np.random.default_rng(seed)
    ends = random.integers(0, 5, people)
    return Flows(LINE, np.clip(ends + random.geometric(0.5, people) - 1, 0, 7), ends, np.ones(people, np.int64))


@pytest.mark.parametrize("name", SCHEMES)
def test_every_destination_keeps_its_people(name):
    true, scheme = flows(), Scheme(**SCHEMES[name])
    made = synthesize(true, scheme, entropy=DeterministicEntropy(2))
    for end in range(8):
        assert made.to(end)[1].sum() == true.to(end)[1].sum()
    again = synthesize(true, scheme, entropy=DeterministicEntropy(2))
    assert made.table().equals(again.table())


@pytest.mark.parametrize("name", SCHEMES)
def test_the_parts_cost_what_the_whole_is_said_to(name):
    scheme = Scheme(**SCHEMES[name])
    assert guarantee(scheme.loss, delta=scheme.delta).epsilon <= scheme.epsilon


def test_origins_stay_within_the_cap():
    true = Flows(LINE, [0, 7], [0, 0], [50, 50])
    made = synthesize(true, Scheme(epsilon=1, cap=2))
    assert made.to(0)[0].max() <= 2
    assert made.total == 100


def test_who_lives_beyond_the_cap_counts_at_its_border():
    made = synthesize(Flows(LINE, [7], [0], [100_000]), Scheme(epsilon=1, cap=2), entropy=DeterministicEntropy(1))
    assert dict(zip(*[part.tolist() for part in made.to(0)], strict=True))[2] > 99_000


def test_noise_falls_with_epsilon():
    true = flows(people=5000)
    missed = [
        Comparison(true, synthesize(true, Scheme(epsilon=e), entropy=DeterministicEntropy(3))).moved
        for e in (0.02, 0.2, 2)
    ]
    assert missed[0] > missed[1] > missed[2]


def test_nothing_accepted_is_said():
    scheme = Scheme(epsilon=1000 * 0.1, accept=Acceptance(apart="0.0001", stop=1))
    far = Scheme(epsilon="0.01", accept=Acceptance(apart="0.0001", stop=1))
    true, small = flows(), Flows(LINE, [0, 1], [0, 0], [5, 5])
    assert synthesize(true, scheme, entropy=DeterministicEntropy(1)).total == 500
    refused = 0
    for seed in range(20):
        try:
            synthesize(small, far, entropy=DeterministicEntropy(seed))
        except NotAccepted as error:
            assert "its ε is spent" in str(error)
            refused += 1
    assert 0 < refused < 20


def test_secret_destinations():
    true = flows(people=20_000)
    scheme = Scheme(epsilon=4, neighbors="add or remove one")
    made = synthesize(true, scheme, entropy=DeterministicEntropy(4))
    assert abs(made.total - 20_000) < 200
    assert Comparison(true, made).moved < 0.05
    empty = synthesize(Flows(LINE, [], [], []), scheme, entropy=DeterministicEntropy(4))
    assert empty.total < 200


@settings(max_examples=100, deadline=None)
@given(values=st.lists(st.floats(-50, 50), min_size=1, max_size=20), total=st.integers(0, 60))
def test_projection_and_rounding(values, total):
    near = onto_simplex(np.array(values), total)
    assert (near >= 0).all()
    assert abs(near.sum() - total) < 1e-8
    rounded = whole(near, total)
    assert rounded.sum() == total
    assert (rounded >= 0).all()
    assert (abs(rounded - near) < 1 + 1e-8).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0}, {"epsilon": "inf"}, {"delta": "1e-6"}, {"promise": "approximate"}, {"method": "laplace"}, {"promise": "perhaps"},
        {"promise": "probabilistic", "delta": "1e-6"}, {"cap": 0}, {"bands": []}, {"bands": [2, 1]}, {"hubs": 0},
        {"hubs": 3, "bands": [1]}, {"accept": Acceptance(apart="0.1"), "promise": "approximate", "delta": "1e-6"},
        {"neighbors": "change one", "method": "dirichlet"}, {"neighbors": "nobody"},
    ],
)  # fmt: skip
def test_schemes_that_cannot_be(wrong):
    with pytest.raises(InvalidParameter):
        Scheme(**{"epsilon": 1} | wrong)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"origin": ["a", "z"], "destination": ["a", "a"]}, "1 values are no place"),
        ({"origin": ["a", None], "destination": ["a", "a"]}, "1 values are no place"),
        ({"origin": ["a"], "destination": ["a"], "n": [-1]}, "whole numbers"),
        ({"origin": ["a"], "destination": ["a"], "n": [1.5]}, "whole numbers"),
        ({"origin": ["a"], "destination": ["a"], "n": [float("nan")]}, "finite"),
        ({"origin": ["a"], "destination": ["a"], "n": ["many"]}, "numbers"),
    ],
)
def test_people_that_cannot_be_read(table, words):
    with pytest.raises(InvalidData, match=words):
        Flows.read(table, LINE, people="n" if "n" in table else None)


@pytest.mark.parametrize(
    "table",
    [
        {"name": ["a"], "lat": [1]}, {"name": ["a", "a"], "x": [1, 2], "y": [1, 2]}, {"name": ["a"], "lat": [91], "lon": [0]},
        {"name": ["a"], "x": ["here"], "y": [0]}, {"name": ["a"], "x": [float("inf")], "y": [0]}, {"name": [], "x": [], "y": []},
    ],
)  # fmt: skip
def test_places_that_cannot_be_read(table):
    with pytest.raises((InvalidData, InvalidParameter)):
        Places.read(table)


def test_nobody_and_one_place_are_refused():
    with pytest.raises(InvalidData, match="there are none"):
        synthesize(Flows(LINE, [], [], []), Scheme(epsilon=1))
    with pytest.raises(InvalidData, match="at least two"):
        synthesize(Flows(Places(["a"], [[0, 0]]), [0], [0], [5]), Scheme(epsilon=1))
    with pytest.raises(InvalidData, match="have none"):
        synthesize(flows(), Scheme(epsilon=1, groups={"a": "west"}))


def test_a_city_is_the_same_for_the_same_seed_and_people_mostly_live_near():
    one, two, other = (city(blocks=400, workers=5000, seed=seed) for seed in (1, 1, 2))
    assert one.table().equals(two.table())
    assert not one.table().equals(other.table())
    near = sum(
        int(people[one.places.distances(end, origins) < 3].sum())
        for end in one.destinations
        for origins, people in [one.to(end)]
    )
    assert near > 0.6 * one.total


def test_persons_are_one_row_each_with_new_ids():
    table = flows(people=100).persons()
    assert table.num_rows == 100
    assert table.column("id").to_pylist() == list(range(1, 101))
    again = Flows.read(table, LINE)
    assert again.table().equals(flows(people=100).table())


def test_the_page_draws_its_maps(tmp_path):
    true = flows()
    page = Comparison(true, synthesize(true, Scheme(epsilon=1))).page("how").html()
    assert "For the owner" in page
    assert page.count("<svg") == 6
