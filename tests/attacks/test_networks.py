"""Networks: checks, generated societies, two noisy copies of one, and rewiring."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from discreet.attacks.records.networks import Network, overlapping, rewired, society
from discreet.errors import InvalidData, InvalidInput

ALPHA = 1e-6


def edges(network):
    return set(zip(network.source.tolist(), network.target.tolist(), strict=True))


@given(
    st.sets(st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda e: e[0] != e[1]), min_size=1), st.booleans()
)
def test_edges_are_kept_sorted_and_none_is_lost(pairs, directed):
    given_ = pairs if directed else {(min(e), max(e)) for e in pairs}
    turned = [e if directed else e[::-1] for e in given_]
    network = Network.of(*np.array(turned).T, nodes=9, directed=directed)
    assert edges(network) == given_
    assert (np.diff(network.source.astype(int) * 9 + network.target) > 0).all()
    matrix = network.adjacency().toarray()
    assert {(int(i), int(j)) for i, j in zip(*np.nonzero(matrix), strict=True)} == given_ | (
        set() if directed else {e[::-1] for e in given_}
    )
    assert matrix.max() == 1
    assert network.degrees.tolist() == [sum(n in e for e in given_) for n in range(9)]


BAD = {
    "a node below 0": (lambda: Network.of([0, -1], [1, 2]), "1 have a source outside"),
    "a node too large": (lambda: Network.of([0, 1], [1, 7], nodes=3), "target outside 0 … 2, the first at position 1"),
    "a loop": (lambda: Network.of([0, 1, 2], [1, 2, 2]), "1 join a node with itself, the first at position 2"),
    "the same edge twice": (lambda: Network.of([0, 1, 0], [1, 2, 1], directed=True), "1 repeat another.*position 2"),
    "the same edge turned": (lambda: Network.of([0, 1], [1, 0]), "1 repeat another.*a–b and b–a"),
    "nothing": (lambda: Network.of([], []), "at least one"),
    "different lengths": (lambda: Network.of([0, 1], [1]), "2 sources and 1 targets"),
    "fractions": (lambda: Network.of([0.5], [1]), "source: expected"),
    "NaN": (lambda: Network.of([np.nan], [1]), "source: expected"),
    "texts": (lambda: Network.of(["a"], ["b"]), "source: expected"),
    "booleans": (lambda: Network.of([True], [False]), "source: expected"),
    "a square": (lambda: Network.of([[0]], [[1]]), "flat"),
    "no nodes": (lambda: Network.of([0], [1], nodes=0), "nodes"),
    "a society of 5": (lambda: society(nodes=5, mean=2, seed=0), "nodes"),
    "a mean too large": (lambda: society(nodes=100, mean=60, seed=0), "mean"),
    "an exponent of 2": (lambda: society(nodes=100, mean=6, seed=0, exponent=2), "exponent"),
    "a negative seed": (lambda: society(nodes=100, mean=6, seed=-3), "seed"),
    "an overlap of 0": (lambda: overlapping(small(), node_overlap=0, edge_overlap=1, seed=0), "node_overlap"),
    "an overlap above 1": (lambda: overlapping(small(), node_overlap=1, edge_overlap="1.1", seed=0), "edge_overlap"),
    "rewiring twice over": (lambda: rewired(small(), share=2, seed=0), "share"),
    "more seeds than people": (lambda: pair().seeds(500, seed=0), "count"),
}


def small():
    return society(nodes=300, mean=8, seed=1)


def pair():
    return overlapping(small(), node_overlap="0.5", edge_overlap="0.5", seed=2)


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    call, words = BAD[case]
    with pytest.raises(InvalidInput, match=words):
        call()


def test_the_nodes_themselves_are_not_in_the_message():
    with pytest.raises(InvalidData) as caught:
        Network.of([31337, 4711], [31337, 5], nodes=40000)
    assert "31337" not in str(caught.value)


@pytest.mark.parametrize("directed", [False, True])
def test_a_society_is_the_same_every_time_heavy_tailed_and_clustered(directed):
    make = {"nodes": 4000, "mean": 20, "directed": directed}
    network = society(seed=3, **make)
    assert edges(network) == edges(society(seed=3, **make)) != edges(society(seed=4, **make))
    assert len(network) == 4000 * 20 * (1 if directed else 0.5)
    degrees = np.sort(network.degrees)[::-1]
    assert degrees[0] > 10 * degrees.mean()
    assert degrees[:400].sum() > 0.3 * degrees.sum()
    matrix = network.adjacency()
    both = ((matrix + matrix.T) > 0).astype(np.float64)
    triangles = (both @ both).multiply(both).sum()
    wedges = (both.sum(1) * (both.sum(1) - 1)).sum()
    assert (
        triangles / wedges > 5 * both.sum() / 4000**2
    )  # by chance alone a wedge closes as often as any pair is joined


def test_closure_and_communities_make_triangles():
    def clustering(**settings):
        matrix = society(nodes=3000, mean=15, seed=1, exponent=4, **settings).adjacency()
        return (matrix @ matrix).multiply(matrix).sum() / (matrix.sum(1) * (matrix.sum(1) - 1)).sum()

    plain = clustering(local=0, closure=0)
    assert clustering(local=0, closure="0.3") > 3 * plain
    assert clustering(local="0.7", closure=0) > 3 * plain


@pytest.mark.parametrize("directed", [False, True])
def test_copies_overlap_as_stated(directed):
    network = society(nodes=5000, mean=16, seed=1, directed=directed)
    both = overlapping(network, node_overlap="0.4", edge_overlap="0.5", seed=3)
    assert both.released.directed == both.auxiliary.directed == directed
    assert both.released.nodes == both.auxiliary.nodes == 3500
    common = np.flatnonzero(both.truth >= 0)
    assert len(common) == 2000 == len(set(both.truth[common].tolist()))
    # edges of the attacker's copy among common people, under the released numbers
    ends = both.truth[both.auxiliary.source], both.truth[both.auxiliary.target]
    inside = (ends[0] >= 0) & (ends[1] >= 0)
    mine = {(int(a), int(b)) if directed or a < b else (int(b), int(a)) for a, b in np.stack(ends, 1)[inside]}
    known = set(both.truth[common].tolist())
    theirs = {e for e in edges(both.released) if e[0] in known and e[1] in known}
    union, shared = len(mine | theirs), len(mine & theirs)
    assert binom.ppf(ALPHA, union, 0.5) <= shared <= binom.isf(ALPHA, union, 0.5)
    assert shared < binom.ppf(ALPHA, union, 0.65)  # power


def test_a_full_overlap_is_the_same_network_renumbered():
    network = small()
    both = overlapping(network, node_overlap=1, edge_overlap=1, seed=5)
    image = {tuple(sorted((int(both.truth[a]), int(both.truth[b])))) for a, b in edges(both.auxiliary)}
    assert image == edges(both.released)
    assert image != edges(both.auxiliary)


def test_seeds_are_people_in_common_with_many_neighbors():
    both = pair()
    seeds = both.seeds(10, seed=1, among="0.2")
    assert (both.truth[seeds[:, 0]] == seeds[:, 1]).all()
    assert both.auxiliary.degrees[seeds[:, 0]].min() >= np.median(both.auxiliary.degrees)
    assert seeds.tolist() == both.seeds(10, seed=1, among="0.2").tolist()


@pytest.mark.parametrize("directed", [False, True])
def test_rewiring_keeps_degrees_and_loses_friends(directed):
    network = society(nodes=3000, mean=15, seed=2, directed=directed)
    assert edges(rewired(network, share=0, seed=1)) == edges(network)
    other = rewired(network, share=1, seed=1)
    assert len(edges(other) & edges(network)) < 0.1 * len(network)
    assert np.corrcoef(other.degrees, network.degrees)[0, 1] > 0.98
    half = len(edges(rewired(network, share="0.5", seed=1)) & edges(network)) / len(network)
    assert 0.48 < half < 0.6
