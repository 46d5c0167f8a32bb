"""Graph matching: the sweeps are those of the description, planted people are found, rewired networks hold."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from discreet.attacks.records.graph import GraphMatching
from discreet.attacks.records.networks import Network, find_seeds, overlapping, rewired, society
from discreet.errors import InvalidInput

ALPHA = 1e-6


@pytest.fixture(scope="module")
def pair():
    return overlapping(society(nodes=3000, mean=30, seed=5), node_overlap="0.6", edge_overlap="0.6", seed=6)


def attack(pair, released=None, seeds=40, **settings):
    return GraphMatching(
        released=released or pair.released, auxiliary=pair.auxiliary, truth=pair.truth,
        seeds=pair.seeds(seeds, seed=1), **settings,
    )  # fmt: skip


# The sweeps, node by node


def neighbors(network):
    """For each node its lists of neighbors: one, or the outgoing and the incoming."""
    out, into = ([[] for _ in range(network.nodes)] for _ in range(2))
    for a, b in zip(network.source.tolist(), network.target.tolist(), strict=True):
        out[a].append(b)
        (into[b] if network.directed else out[b]).append(a)
    return [out, into] if network.directed else [out]


def best(node, mine, theirs, mapping, barred, support, limit):
    """The match of a node that stands out, or None."""
    score, count = {}, {}
    for near, far in zip(mine, theirs, strict=True):
        for other in near[node]:
            image = mapping.get(other)
            for candidate in range(len(far)) if image is not None else ():
                if image in far[candidate]:
                    score[candidate] = score.get(candidate, 0) + 1 / math.sqrt(len(far[candidate]))
                    count[candidate] = count.get(candidate, 0) + 1
    left = {c: s for c, s in score.items() if count[c] >= support and c not in barred}
    if not left:
        return None
    ranked = sorted(left.values(), reverse=True)
    first = max(left, key=left.get)
    if len(ranked) == 1:
        return first
    spread = np.std(ranked)
    return first if spread > 1e-6 * ranked[0] and (ranked[0] - ranked[1]) / spread > limit else None


def sweep(one, other, mapping, seeds, support, limit):
    inverse = {r: n for n, r in mapping.items()}
    mine, theirs = neighbors(one), neighbors(other)
    offers = {
        node: found
        for node in range(one.nodes)
        if node not in seeds
        and (found := best(node, mine, theirs, mapping, set(seeds.values()), support, limit)) is not None
    }
    joined = {
        node: image
        for node, image in offers.items()
        if best(image, theirs, mine, inverse, set(seeds), support, limit) == node
    }
    kept = {n: r for n, r in mapping.items() if n not in joined and r not in joined.values()}
    return kept | joined


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([1, 2]), st.sampled_from(["0.0317", "0.5173"]))
def test_sweeps_are_those_of_the_description(seed, directed, support, limit):
    rng = np.random.default_rng(seed)
    networks = []
    for nodes in (12, 14):
        cells = rng.random((nodes, nodes)) < 0.35
        cells = np.triu(cells, 1) if not directed else cells & ~np.eye(nodes, dtype=bool)
        networks.append(Network.of(*np.nonzero(cells), nodes=nodes, directed=directed))
    one, other = networks
    seeds = np.stack([rng.choice(12, 4, replace=False), rng.choice(14, 4, replace=False)], axis=1)
    history = GraphMatching(
        released=other, auxiliary=one, truth=range(12), seeds=seeds, support=[support], threshold=limit, sweeps=6
    ).match().history  # fmt: skip
    mapping = dict(seeds.tolist())
    for step in history[1:]:
        mapping = sweep(one, other, mapping, dict(seeds.tolist()), support, float(limit))
        assert {n: int(r) for n, r in enumerate(step) if r >= 0} == mapping


# Success and failure


def test_planted_people_are_found(pair):
    report = attack(pair).run()
    assert report.verdict == "falls"
    assert report.success.low > 0.9
    assert report.people == 1800 - 40
    assert report.facts["named wrongly"].high < 0.03
    assert report.facts["strangers named all the same"].high < 0.15
    assert report.control.value <= 0.01
    assert report.baseline.value == 1 / pair.released.nodes
    assert report.success.value + report.facts["named wrongly"].value + report.facts[
        "not named"
    ].value == pytest.approx(1)


def test_directions_are_used():
    pair = overlapping(
        society(nodes=2000, mean=14, seed=5, directed=True), node_overlap="0.6", edge_overlap="0.6", seed=6
    )
    assert attack(pair).run().success.low > 0.9
    turned = Network.of(pair.released.target, pair.released.source, nodes=pair.released.nodes, directed=True)
    assert attack(pair, turned).run().success.high < 0.05


def luck(report, found):
    """The most right names by chance, but for one time in a million, were each 20 times as likely as a blind guess."""
    return binom.isf(ALPHA, int((found.mapping >= 0).sum()), 20 * report.baseline.value)


def test_a_network_with_other_friends_gives_nothing_away(pair):
    """All edges rewired: degrees stay, so a name is a little more likely right than blindly, but few are."""
    case = attack(pair, rewired(pair.released, share=1, seed=1))
    report = case.run()
    assert report.verdict == "holds"
    assert report.success.hits <= luck(report, case.match())


def test_the_same_judgment_sees_a_weak_leak(pair):
    """Power: with 0.4 of the edges rewired a few people are found, and the verdict says so."""
    case = attack(pair, rewired(pair.released, share="0.4", seed=1))
    report = case.run()
    assert report.success.hits > luck(report, case.match())
    assert report.success.value < 0.1
    assert report.verdict in ("leaks", "falls")


def test_a_truth_shuffled_among_people_is_not_found(pair):
    truth = np.array(pair.truth)
    seeds = pair.seeds(40, seed=1)
    others = np.setdiff1d(np.flatnonzero(truth >= 0), seeds[:, 0])
    truth[others] = np.roll(truth[others], 1)
    report = GraphMatching(released=pair.released, auxiliary=pair.auxiliary, truth=truth, seeds=seeds).run()
    assert report.success.hits <= binom.isf(ALPHA, report.people, report.baseline.value)
    assert report.verdict == "holds"


def test_it_takes_enough_seeds(pair):
    """The transition of the paper: a few seeds go nowhere, some more reach nearly everybody."""
    report = attack(pair, seeds=40, curve=(2, 10)).run()
    chart = report.charts[-1]
    assert list(chart.marks[0].x) == [2, 10, 40]
    assert chart.marks[0].y[0] < 0.05 < 0.9 < chart.marks[0].y[-1]


# Seeds that are found


def test_seeds_are_found_where_much_is_shared():
    pair = overlapping(society(nodes=3000, mean=40, seed=1), node_overlap="0.8", edge_overlap="0.8", seed=2)
    seeds = find_seeds(pair.released, pair.auxiliary)
    right = pair.truth[seeds[:, 0]] == seeds[:, 1]
    assert len(seeds) > 100
    assert right.mean() > 0.9
    report = GraphMatching(released=pair.released, auxiliary=pair.auxiliary, truth=pair.truth).run()
    assert report.people == 2400  # seeds that were found count as found
    assert report.success.low > 0.95


def test_no_seeds_are_made_up_where_nothing_is_shared(pair):
    released = rewired(pair.released, share=1, seed=1)
    report = GraphMatching(released=released, auxiliary=pair.auxiliary, truth=pair.truth).run()
    assert report.success.hits == 0
    assert report.verdict == "holds"
    assert any("No seeds were found" in remark for remark in report.remarks)


def test_tiny_networks_are_searched_for_seeds_too():
    line = Network.of([0, 1, 2], [1, 2, 3])
    assert find_seeds(line, line).shape[1] == 2
    empty = Network.of([0], [1], nodes=6)
    assert find_seeds(empty, empty).shape[1] == 2


# The report


def test_mappings_are_one_to_one_and_keep_the_seeds(pair):
    found = attack(pair).match()
    for mapping in found.history:
        named = mapping[mapping >= 0]
        assert len(set(named.tolist())) == len(named)
        assert (mapping[found.seeds[:, 0]] == found.seeds[:, 1]).all()


def test_the_same_every_time(pair):
    assert attack(pair).run().json() == attack(pair).run().json()


def test_limits_are_near_although_people_depend_on_one_another():
    """The limits take people as independent, which the report remarks: between networks shares differ somewhat more."""
    shares = []
    for seed in range(12):
        pair = overlapping(society(nodes=800, mean=24, seed=seed), node_overlap="0.8", edge_overlap="0.7", seed=seed)
        shares.append(attack(pair, seeds=25).run().success)
    mean = np.mean([share.value for share in shares])
    assert 0.5 < mean < 0.999
    assert all(share.low - 0.02 <= mean <= share.high + 0.02 for share in shares)


def test_the_report_shows_private_examples_to_the_owner_alone(pair):
    report = attack(pair).run()
    person, node = (int(word) for word in report.worst[0].split()[:6] if word.isdigit())
    assert pair.truth[person] == node
    assert report.worst[0] not in report.text() + report.page().html() + report.json()
    assert report.worst[0] in report.text(owner=True)
    assert any("independent" in remark for remark in report.remarks)


def test_charts_show_growth_and_who_is_found(pair):
    growth, who = attack(pair).run().charts
    right = list(growth.marks[0].y)
    assert right[0] == 0
    assert right[-1] > 0.9
    assert who.marks[0].y[0] < who.marks[0].y[-1]
    assert "<svg" in growth.svg() + who.svg()


LINE = Network.of([0, 1, 2], [1, 2, 3])
ARROWS = Network.of([0, 1, 2], [1, 2, 3], directed=True)
BAD = {
    "truth of another length": ({"truth": [0, 1]}, "truth: expected 4 whole numbers"),
    "a node that is not there": ({"truth": [0, 1, 2, 4]}, "truth: 1 numbers .* position 3"),
    "one node for two": ({"truth": [0, 0, 2, -1]}, "two people have the same released node"),
    "nobody in both": ({"truth": [-1] * 4}, "nobody is in both"),
    "fractions as truth": ({"truth": [0.0, 1.0, 2.0, 3.0]}, "whole numbers"),
    "unknown auxiliary seed": ({"seeds": [[0, 0], [9, 1]]}, "seeds: 1 name a node that does not exist.*position 1"),
    "unknown released seed": ({"seeds": [[0, 7]]}, "does not exist.*position 0"),
    "a seed below 0": ({"seeds": [[-1, 0]]}, "does not exist"),
    "seeds that contradict": ({"seeds": [[0, 0], [0, 1]]}, "contradict: an auxiliary node is in two"),
    "seeds that share an image": ({"seeds": [[0, 1], [2, 1]]}, "contradict: a released node is in two"),
    "no seeds in the list": ({"seeds": []}, "seeds: expected pairs"),
    "triples": ({"seeds": [[0, 1, 2]]}, "seeds: expected pairs"),
    "seeds of NaN": ({"seeds": [[0.0, math.nan]]}, "seeds: expected pairs"),
    "one directed, one not": ({"released": ARROWS}, "one network is directed"),
    "a matrix": ({"released": np.eye(3)}, "released: .*Network.of"),
    "a negative threshold": ({"threshold": -1}, "threshold"),
    "no sweeps": ({"sweeps": 0}, "sweeps"),
    "no support": ({"support": ()}, "support"),
    "a support of 0": ({"support": (0,)}, "support"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name):
    change, words = BAD[name]
    fields = {"released": LINE, "auxiliary": LINE, "truth": [0, 1, 2, 3], "seeds": [[0, 0]]}
    with pytest.raises(InvalidInput, match=words):
        GraphMatching(**(fields | change))
