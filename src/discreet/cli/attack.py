"""`discreet attack …`: what a release really gives away, measured beside what guessing gives."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from discreet.cli import attack_models
from discreet.cli.attack_fields import FILE, AttackGroup, FileColumn, Generated, column_of
from discreet.cli.show import facts, force_option, json_option, output_option

_TRUTH = "For the judge: pairs of a {} and the same {} in RELEASED; empty or not listed: not in it."


@click.group(name="attack", cls=AttackGroup)
def group() -> None:
    """Attack a release of your own as an adversary would, and count how often the attack succeeds.

    Every report says how often the attack succeeds, how often guessing does, and (where it makes sense) how often the
    same attack succeeds on people who are not in the release. The verdict is `falls` (clearly better than
    guessing), `leaks` (better, but by less than 5 percentage points), `holds` (no better, up to that) or `undecided`
    (too few people to say, or labels that the attack could not read).

    Judging an attack requires the truth: keep those files, and reports made with --owner, to yourself. `discreet attack
    example DIR` writes generated files to try the attacks on.
    """


# What needs more than the attack's own fields


def _match(
    attack: Any, released: str, known: str | None, truth: str | None, plant: int | None, columns: Any, **settings: Any
) -> Any:
    from discreet.attacks.records.files import RATING_COLUMNS, plant_ratings, read_ratings

    names = columns.split(",") if columns else RATING_COLUMNS
    if plant is not None:
        if known is not None or truth is not None:
            raise click.UsageError("--plant makes what is known and the truth: leave KNOWN and --truth out")
        case = plant_ratings(released, known=plant, seed=settings["seed"], names=names)
    elif known is None or truth is None:
        raise click.UsageError("give KNOWN and --truth, or --plant 8 to make them of RELEASED")
    else:
        case = read_ratings(released, known, truth, names=names)
    made = attack(released=case.released, auxiliary=case.auxiliary, truth=case.truth, **settings)
    return SimpleNamespace(run=lambda: case.named(made.run()))


def _graph(
    attack: Any, released: str, known: str, truth: str, seeds: str | None, directed: bool, curve: Any, **settings: Any
) -> Any:
    from discreet.attacks.records.files import read_networks

    case = read_networks(released, known, truth, seeds, directed=directed)
    networks = {"released": case.released, "auxiliary": case.auxiliary, "truth": case.truth, "seeds": case.seeds}
    made = attack(**networks, curve=curve or (), **settings)
    return SimpleNamespace(run=lambda: case.named(made.run()))


def _compose(attack: Any, noisy: bool, several: bool, confidence: float) -> Any:
    from discreet.attacks.answers.composition import PEOPLE, all_worlds, two_tables

    worlds = all_worlds(PEOPLE, at_least=1) if several else None
    return replace(two_tables(noisy=noisy, worlds=worlds), confidence=confidence)


def _trial(attack: Any, **settings: Any) -> Any:
    """A simulation whose settings do not go together is wrong usage."""
    from discreet.errors import InvalidInput

    try:
        return attack(**settings)
    except InvalidInput as error:
        raise click.UsageError(str(error)) from None


def _reconstruct(attack: Any, policy: str | None, sql: str | None, numbers: Any, **settings: Any) -> Any:
    if policy is None:
        if sql is not None or numbers is not None:
            raise click.UsageError("--sql and --numbers go with --policy")
        return _trial(attack, **settings)
    if settings["curve"] or settings["people"] is not None:
        raise click.UsageError("--curve and --people are for generated bits, not for --policy")
    if sql is None or numbers is None or settings["truth"] is None:
        raise click.UsageError("--policy needs --sql, --numbers and --truth")
    if settings["epsilon"] is None:
        raise click.UsageError("--policy needs the ε of each question, such as --epsilon 0.01")
    if sql.count("{subset}") != 1:
        raise click.UsageError('--sql needs {subset} once: "SELECT COUNT(*) AS n FROM people WHERE ill AND {subset}"')
    return SimpleNamespace(run=lambda: _ask_curator(policy, sql, numbers, **settings))


def _ask_curator(policy: str, sql: str, numbers: tuple[str, str], *, truth: Any, epsilon: str, **settings: Any) -> Any:
    """A reconstruction through SQL, against the curator of a policy, with an empty ledger of its own."""
    import discreet
    from discreet.attacks.answers.answerers import Curator, ask_all, words
    from discreet.attacks.answers.reconstruction import Hashed, Reconstruction
    from discreet.curator.ledger import Ledger
    from discreet.curator.policy import read_policy
    from discreet.curator.stores.memory import MemoryStore
    from discreet.errors import InvalidData
    from discreet.exact import rational

    public, each = column_of(numbers, "numbers"), rational(epsilon, "--epsilon", above=0)
    if len(truth) != len(public):
        raise InvalidData(f"numbers: got {len(public)}, expected {len(truth)}, one for each line of --truth")
    hashed = Hashed.of(public, questions=settings["questions"] or 4 * len(truth), seed=settings["seed"])
    own = replace(read_policy(policy), caps={}, everyone=None)
    with discreet.open(own, ledger=Ledger(MemoryStore()), analyst="attacker") as data:
        curator = Curator(dataset=data, epsilon=each, sql=lambda predicate: sql.replace("{subset}", f"({predicate})"))
        answers = ask_all(curator, hashed.predicates(numbers[1]))
        against = words(curator, total=data.policy.budget.epsilon)
    return Reconstruction(
        subsets=hashed.masks, truth=truth, answers=answers, method=settings["method"].replace("-", " "), scale=1 / each,
        against=against, confidence=settings["confidence"],
    ).run()  # fmt: skip


# The commands that are made of attacks


def _file(name: str, help_: str, *, required: bool = False) -> click.Option:
    return click.Option([name], type=FILE, required=required, help=help_)


group.generated = {
    "link": Generated(
        attack="tables.linkage.Linkage",
        short_help="Re-identify the people of an anonymous table.",
        help="""Re-identify the people of an anonymous table (Sweeney).

        RELEASED is a table without names, KNOWN a list of people with names, such as voters. A row is attributed
        to a person if nobody else on the list matches it. Judging whether that is right requires the truth.

        \b
        discreet attack example town
        discreet attack link town/visits.csv town/voters.csv --on zip,sex,born --name person \\
            --truth town/patients.csv:person
        """,
    ),
    "secret": Generated(
        attack="tables.linkage.LinkedSecret",
        short_help="Learn a secret from the row linked to a person.",
        help="""Learn a secret from the row linked to a person; works on synthetic tables too.

        Like `link`, but what counts is whether the secret read from the linked row is right, not whose row it is. Every
        secret is also judged on its own, as in `infer`.

        \b
        discreet attack example town
        discreet attack secret town/people.csv town/everybody.csv --on zip,sex,born --secret condition \\
            --members town/everybody.csv:member
        """,
    ),
    "infer": Generated(
        attack="tables.inference.Inference",
        short_help="Infer a secret from the released rows nearest to a person.",
        help="""Infer a secret about people from the released rows that are nearest to what is known about them.

        RELEASED is a raw, coarsened or synthetic table, PEOPLE those whose data it was made from, and CONTROLS similar
        people who were not in it. What succeeds equally on both is general knowledge; only the difference is due to a
        person's own row.

        \b
        discreet attack example town
        discreet attack infer town/people.csv town/people.csv town/others.csv --known zip,sex,born --secret condition
        """,
    ),
    "linkability": Generated(
        attack="tables.inference.Linkability",
        short_help="Link two parts of a person's data through a release.",
        help="""Link two parts of a person's data, held by two parties, through the release.

        RELEASED, PEOPLE and CONTROLS are the same as for `infer`.

        \b
        discreet attack example town
        discreet attack linkability town/people.csv town/people.csv town/others.csv --left zip,sex --right born,race
        """,
    ),
    "single-out": Generated(
        attack="tables.singling_out.SinglingOut",
        short_help="Find a predicate that is true of exactly one person.",
        help="""Find, from the release, a predicate that is true of exactly one person in its data.

        RELEASED, PEOPLE and CONTROLS are the same as for `infer`.

        \b
        discreet attack example town
        discreet attack single-out town/people.csv town/people.csv town/others.csv
        """,
    ),
    "intersect": Generated(
        attack="answers.intersection.Intersection",
        short_help="Intersect several releases: which values remain possible?",
        help="""Intersect several releases about the same people: which values remain possible?

        Each release leaves several possible values of a person's secret; only those that all releases leave remain.
        With a single release this is the homogeneity attack on classes in which everybody has the same secret.

        \b
        discreet attack example town
        discreet attack intersect town/north.csv town/south.csv --known town/both.csv --outside town/neither.csv \\
            --on age,zip,sex --sensitive condition
        """,
    ),
    "match": Generated(
        attack="records.sparse.SparseMatching",
        short_help="Find records by a few known ratings.",
        help="""Find people's records by a few of their ratings (after Narayanan, Shmatikov 2008).

        RELEASED and KNOWN are tables with the columns person, item, rating and, where known, day (a date, an ISO time,
        a number of days, or seconds since 1970); --columns gives other names. RELEASED holds pseudonyms and
        all their ratings, KNOWN true names and the few ratings that are known. Items have the same names in both. If a
        person rated an item several times, the latest rating counts.

        With --plant, a table of your own suffices: KNOWN is derived from it, and some people are removed from it.

        \b
        discreet attack match ratings.csv --plant 8 --columns userId,movieId,rating,timestamp
        discreet attack example town
        discreet attack match town/ratings.csv town/reviews.csv --truth town/raters.csv
        """,
        more=(
            click.Argument(["released"], type=FILE),
            click.Argument(["known"], type=FILE, required=False),
            _file("--truth", _TRUTH.format("person of KNOWN", "one")),
            click.Option(
                ["--plant"],
                type=click.IntRange(min=1),
                metavar="NUMBER",
                help="Without KNOWN: derive it from this many ratings of some people in RELEASED, with errors.",
            ),
            click.Option(
                ["--columns"],
                metavar="COLUMN,…",
                help="The names of these columns.  [person,item,rating,day]",
            ),
        ),
        build=_match,
    ),
    "graph": Generated(
        attack="records.graph.GraphMatching",
        short_help="Identify the nodes of a network with another network.",
        help="""Identify the nodes of an anonymous network with another network (Narayanan, Shmatikov 2009).

        RELEASED and KNOWN are lists of edges: tables whose first two columns are the endpoints. List an undirected
        edge once.

        \b
        discreet attack example town
        discreet attack graph town/calls.csv town/friends.csv --truth town/numbers.csv --seeds town/seeds.csv
        """,
        more=(
            click.Argument(["released"], type=FILE),
            click.Argument(["known"], type=FILE),
            _file("--truth", _TRUTH.format("node of KNOWN", "person's"), required=True),
            _file("--seeds", "Pairs of nodes known to be the same person; by default they are searched for."),
            click.Option(["--directed"], is_flag=True, help="Edges are directed."),
        ),
        build=_graph,
    ),
    "compose": Generated(
        attack="answers.composition.Composition",
        short_help="Combine two answers that together identify a person.",
        help="""Combine two answers that are harmless alone and together identify a person: the published example.

        Of six invented people, one has a disease. The least age and the greatest weight of those with the disease each
        match two people, and both together only one. With --noisy, no match is certain. Computed without sampling.

        \b
        discreet attack compose
        discreet attack compose --noisy
        """,
        more=(
            click.Option(
                ["--noisy"],
                is_flag=True,
                help="Randomize each answer: each step away from the truth is half as probable.",
            ),
            click.Option(
                ["--several"], is_flag=True, help="The attacker considers that several people may have the disease."
            ),
        ),
        build=_compose,
    ),
    "reconstruct": Generated(
        attack="answers.bit_trials.ReconstructionTrial",
        short_help="Recover secret bits from counts over subsets.",
        help="""Recover secret bits from counts over random subsets (Dinur, Nissim 2003).

        The bits are generated, or your own (--truth). With --policy, your curator is asked in SQL. The attacker may
        spend the policy's whole budget, on a ledger in memory; nothing is charged to the real one.

        \b
        discreet attack reconstruct --people 200 --answers rounded
        discreet attack reconstruct --people 200 --answers budget --epsilon 1 --curve --plot curve.svg
        discreet attack reconstruct --policy clinic.toml --epsilon 0.01 --questions 100 \\
            --truth clinic.csv:ill --numbers clinic.csv:person \\
            --sql "SELECT COUNT(*) AS n FROM people WHERE ill AND {subset}"
        """,
        more=(
            _file("--policy", "Ask the curator of this policy instead, with an empty ledger of its own."),
            click.Option(["--sql"], help="With --policy: the question, with {subset} as the condition of a subset."),
            click.Option(
                ["--numbers"],
                type=FileColumn(),
                help="With --policy: the column of public numbers of people that the SQL uses.",
            ),
        ),
        build=_reconstruct,
    ),
    "difference": Generated(
        attack="answers.bit_trials.DifferencingTrial",
        short_help="Subtract two counts that differ by one person.",
        help="""Subtract two counts, of everybody and of everybody but one: the difference is that person's secret.

        Each person is put into --groups random groups; the mean of the differences reveals the bit. Rounded counts need
        many groups.

        \b
        discreet attack difference --people 100
        discreet attack difference --people 100 --answers rounded --groups 100
        discreet attack difference --people 100 --answers budget --epsilon 1
        """,
        build=_trial,
    ),
    "average": Generated(
        attack="answers.bit_trials.AveragingTrial",
        short_help="Repeat a question and average the noise away.",
        help="""Repeat a question: without a ledger, fresh noise averages away.

        Each person's bit is requested --repeats times. A system that caches answers returns the same one; one with a
        budget divides it among all repetitions.

        \b
        discreet attack average --people 100 --answers noisy --epsilon 0.5 --repeats 150
        discreet attack average --people 100 --answers budget --epsilon 0.5 --repeats 150
        """,
        build=_trial,
    ),
    "guess": attack_models.GUESS,
}


@click.command(short_help="Run every attack on generated people and write one page.")
@click.argument("exhibits", nargs=-1)
@output_option("The page.", default="gallery.html", show_default=True)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0), help="Generate other people.")
@click.option("--list", "listed", is_flag=True, help="List what there is, and stop.")
@force_option
@json_option
def gallery(exhibits: tuple[str, ...], output: str, seed: int, listed: bool, force: bool, as_json: bool) -> None:
    """Run all attacks (or the named EXHIBITS) on generated people, and write the verdicts to a page.

    It takes a few minutes. Nobody in it exists.
    """
    from discreet.gallery import EXHIBITS, page, visit

    if listed:
        width = max(len(exhibit.name) for exhibit in EXHIBITS)
        for exhibit in EXHIBITS:
            click.echo(f"{exhibit.name:<{width}}  {exhibit.title}")
        return
    if Path(output).exists() and not force:
        raise click.ClickException(f"{output} exists already; choose another name, or add --force")
    finished = visit(exhibits or None, seed=seed, progress=_tell_exhibit)
    page(finished, seed=seed).save(output)
    if as_json:
        facts(
            {result.exhibit.name: [report.as_dict() for report in result.shown.reports] for result in finished},
            as_json=True,
        )
    click.echo(f"wrote {output}", err=True)


def _tell_exhibit(done: int, total: int, title: str) -> None:
    click.echo(f"[{done + 1}/{total}] {title}", err=True)


for _command in (*attack_models.COMMANDS, gallery):
    group.add_command(_command)
