"""Attacks at scale: one person among a million sparse records; two networks of 100,000 people, one over the other."""

from typing import Any

from bench.harness import Bar, Comparison, Contestant, Timed

RECORD = "one person among the records, 8 known ratings"
NETWORK = "name the people of a network, 150 seeds"
NODE = "compare a node with all others, half of them mapped"
SEEDS = "find seeds among 200 hubs"


def comparison(*, quick: bool) -> Comparison:
    """Issue 5: 1 M × 20 k sparse records in seconds per target; graphs of 10^5 nodes. Beside them, plain code."""
    people, items, mean = (5_000, 1_000, 30) if quick else (1_000_000, 20_000, 30)
    nodes = 4_000 if quick else 133_334  # half of them in both networks: 100,000 in each
    records = {"people": people, "items": items, "mean": mean}
    known: tuple[Contestant, ...] = (
        Contestant(RECORD, "discreet", sparse, records | {"targets": 50}, 50, "", f"{people:,} × {items:,}"),
        Contestant(
            RECORD, "NumPy scan", scan, records | {"targets": 2}, 2, "", "all ratings looked at for each person"
        ),
        Contestant(NETWORK, "discreet", graph, {"nodes": nodes}, 1, "", "overlap of people 0.5, of edges 0.5"),
        Contestant(NODE, "discreet", sweep, {"nodes": nodes}, round(0.5 * nodes), "", "both ways, all that are not"),
        Contestant(NODE, "Python loops", loops, {"nodes": nodes, "few": 100}, 100, "", "one way, 100 nodes"),
        Contestant(SEEDS, "discreet", seeds, {"nodes": nodes}, 1, "", "overlap of people 0.8, of edges 0.8"),
    )
    bars = (
        Bar("a person among a million in well below a second", RECORD, "discreet", at_most=0.1),
        Bar("most people of whom 8 ratings are known are named", RECORD, "discreet", measure="right", at_least=0.9),
        Bar("less time than a scan", RECORD, "discreet", "NumPy scan", at_most=0.05),
        Bar("100,000 nodes in under a minute", NETWORK, "discreet", at_most=60),
        Bar("within 2 GB", NETWORK, "discreet", measure="peak_mb", at_most=2000),
        Bar("A5: at least a third of the people in common", NETWORK, "discreet", measure="right", at_least=1 / 3),
        Bar("A5: at most 12 % of them wrong", NETWORK, "discreet", measure="wrong", at_most=0.12),
        Bar("less time than loops", NODE, "discreet", "Python loops", at_most=0.5),
        Bar("seeds are found", SEEDS, "discreet", measure="right", at_least=0.9),
    )
    return Comparison("attacks", "Attacks on sparse records and networks", known, bars, rounds=3)


# Sparse records


def sparse(people: int, items: int, mean: int, targets: int) -> Timed:
    from discreet.attacks.records.sparse import SparseMatching

    case = _records(people, items, mean, targets)
    attack = SparseMatching(released=case.released, auxiliary=case.auxiliary, truth=case.truth, steps=())

    def timed() -> dict[str, float]:
        return {"right": float((attack.match().claims[-1] == case.truth).mean())}

    return timed


def scan(people: int, items: int, mean: int, targets: int) -> Timed:
    """The same score without an index by item: every rating is compared with every known one."""
    import numpy

    case = _records(people, items, mean, targets)
    released, known = case.released, case.auxiliary
    days, known_days = numpy.asarray(released.day), numpy.asarray(known.day)
    weights = 1 / numpy.log(numpy.maximum(released.support, 2))

    def timed() -> dict[str, float]:
        best = [_best(numpy.flatnonzero(known.person == target)) for target in range(targets)]
        return {"right": float((numpy.array(best) == case.truth).mean())}

    def _best(entries: Any) -> int:
        scores = numpy.zeros(released.people)
        for entry in entries:
            rows = numpy.flatnonzero(released.item == known.item[entry])
            alike = numpy.exp(-numpy.abs(released.rating[rows] - known.rating[entry]) / 1.5)
            alike = alike + numpy.exp(-numpy.abs(days[rows] - known_days[entry]) / 30)
            scores += numpy.bincount(released.person[rows], weights[known.item[entry]] * alike, released.people)
        return int(scores.argmax())

    return timed


def _records(people: int, items: int, mean: int, targets: int) -> Any:
    from discreet.attacks.records.ratings import catalog, planted

    return planted(catalog(people=people, items=items, mean=mean, seed=1), targets=targets, absent=0, known=8, seed=2)


# Networks


def graph(nodes: int) -> Timed:
    from discreet.attacks.records.graph import GraphMatching

    pair = _networks(nodes)
    attack = GraphMatching(
        released=pair.released, auxiliary=pair.auxiliary, truth=pair.truth, seeds=pair.seeds(150, seed=1)
    )

    def timed() -> dict[str, float]:
        found = attack.match()
        common = pair.truth >= 0
        common[found.seeds[:, 0]] = False
        named, right = found.mapping[common] >= 0, found.mapping[common] == pair.truth[common]
        facts = {"right": right.mean(), "wrong": (named & ~right).mean(), "sweeps": len(found.history) - 1}
        return {name: float(value) for name, value in facts.items()}

    return timed


def sweep(nodes: int) -> Timed:
    from discreet.attacks.records.graph import GraphMatching

    pair = _networks(nodes)
    attack = GraphMatching(
        released=pair.released, auxiliary=pair.auxiliary, truth=pair.truth, seeds=_half(pair), sweeps=1
    )

    def timed() -> dict[str, float]:
        mapping = attack.match().mapping
        return {"named": float((mapping >= 0).sum())}

    return timed


def loops(nodes: int, few: int) -> Timed:
    """The paper's comparison written down as loops over neighbors."""
    pair = _networks(nodes)
    mine, theirs = (_friends(network) for network in (pair.auxiliary, pair.released))
    mapping = dict(_half(pair).tolist())
    rest = [node for node in range(len(mine)) if node not in mapping][:few]

    def timed() -> dict[str, float]:
        named = 0
        for node in rest:
            score: dict[int, float] = {}
            for friend in mine[node]:
                for other in theirs[mapping[friend]] if friend in mapping else ():
                    score[other] = score.get(other, 0) + len(theirs[other]) ** -0.5
            named += bool(score)
        return {"named": float(named)}

    return timed


def seeds(nodes: int) -> Timed:
    from discreet.attacks.records.networks import find_seeds

    pair = _networks(nodes, overlap="0.8")

    def timed() -> dict[str, float]:
        found = find_seeds(pair.released, pair.auxiliary)
        right = pair.truth[found[:, 0]] == found[:, 1]
        return {"found": float(len(found)), "right": float(right.sum() / max(1, len(right)))}

    return timed


def _networks(nodes: int, overlap: str = "0.5") -> Any:
    from discreet.attacks.records.networks import overlapping, society

    return overlapping(society(nodes=nodes, mean=30, seed=1), node_overlap=overlap, edge_overlap=overlap, seed=1)


def _half(pair: Any) -> Any:
    """Half of the people in common, with the released nodes that they are."""
    import numpy

    common = numpy.flatnonzero(pair.truth >= 0)[::2]
    return numpy.stack([common, pair.truth[common]], axis=1)


def _friends(network: Any) -> list[list[int]]:
    friends: list[list[int]] = [[] for _ in range(network.nodes)]
    for a, b in zip(network.source.tolist(), network.target.tolist(), strict=True):
        friends[a].append(b)
        friends[b].append(a)
    return friends
