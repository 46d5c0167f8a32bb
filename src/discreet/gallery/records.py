"""Exhibits on records and networks without names."""

from discreet.attacks.defenses import coarse, common
from discreet.attacks.graph import GraphMatching
from discreet.attacks.networks import overlapping, rewired, society
from discreet.attacks.ratings import catalog, planted
from discreet.attacks.sparse import SparseMatching
from discreet.gallery.exhibit import Exhibit, Shown


def _sparse(seed: int) -> Shown:
    films = catalog(people=20_000, items=4000, mean=60, seed=seed)
    case = planted(films, targets=300, absent=300, known=6, seed=seed)
    hidden = common(coarse(case.released, days=400), items=25)
    return Shown([
        SparseMatching(released=case.released, auxiliary=case.auxiliary, truth=case.truth, against="all ratings").run(),
        SparseMatching(
            released=hidden, auxiliary=case.auxiliary, truth=case.truth, against="the 25 best known films, no dates"
        ).run(),
    ])  # fmt: skip


def _graph(seed: int) -> Shown:
    people = society(nodes=20_000, mean=25, seed=seed)
    pair = overlapping(people, node_overlap="0.6", edge_overlap="0.6", seed=seed)
    seeds = pair.seeds(80, seed=seed)
    mixed = rewired(pair.released, share="0.8", seed=seed)
    return Shown([
        GraphMatching(released=pair.released, auxiliary=pair.auxiliary, seeds=seeds, truth=pair.truth).run(),
        GraphMatching(
            released=mixed, auxiliary=pair.auxiliary, seeds=seeds, truth=pair.truth, against="four of five ties rewired"
        ).run(),
    ])  # fmt: skip


EXHIBITS = (
    Exhibit(
        name="sparse",
        title="A few ratings single out a record",
        claims=("A4",),
        words="Six films that somebody rated, roughly known with their dates, find the record among thousands",
        show=_sparse,
    ),
    Exhibit(
        name="graph",
        title="Ties without names",
        claims=("A5",),
        words="From a few people known in both, one network is laid over another, tie by tie",
        show=_graph,
    ),
)
