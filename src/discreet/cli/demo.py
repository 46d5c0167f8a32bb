"""`discreet demo`: made-up people behind a budget, to be asked from the command line or in a browser."""

import json
import shutil
from pathlib import Path
from typing import Any

import click

from discreet.cli import show

_HOSPITAL = Path("demo-out/hospital")
_TOWN = Path("demo-out/town")
_PEOPLE = {"olga": "owner", "ann": "analyst", "bob": "analyst", "carl": "collector"}
_MARK = "made-by-discreet-demo.json"


@click.command()
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="Where the data are, or are made.")
@click.option("--serve", "is_served", is_flag=True, help="Open the console on it, until Ctrl-C.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0: any that is free.")
@show.json_option
def demo(folder: Path | None, is_served: bool, port: int, as_json: bool) -> None:
    """Put made-up people behind a fresh budget; with --serve, open the console and say how to sign in.

    It takes the hospital that `make demo` left in demo-out/hospital, and makes a small town in demo-out/town where
    there is none. Each start has a new ledger, which only made-up people allow. --serve needs discreet[server].
    """
    policy = prepare(folder)
    tokens = make_tokens(policy)
    facts: dict[str, Any] = {"policy": str(policy), "console": f"http://127.0.0.1:{port}/", "tokens": tokens}
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))
    else:
        click.echo(f"policy   {policy}")
        if is_served:
            click.echo(f"console  {facts['console']}   (gallery of attacks: {facts['console']}gallery)")
        for name, token in tokens.items():
            click.echo(f"{name:<8} {token}   {_PEOPLE[name]}")
        if not is_served:
            click.echo(f"open the console with: discreet demo --serve --folder {policy.parent}", err=True)
    if is_served:
        from discreet.server.run import Address, serve

        serve([str(policy)], Address(port=port))


def prepare(folder: Path | None) -> Path:
    """The policy of a demo with a fresh budget: of the hospital, where there is one, else of a town that is made."""
    chosen = folder or (_HOSPITAL if (_HOSPITAL / "generated.json").exists() else _TOWN)
    if (chosen / "generated.json").exists():
        policy = _hospital(chosen)
    elif chosen.exists() and any(chosen.iterdir()) and not (chosen / _MARK).exists():
        raise click.UsageError(f"{chosen} holds files that no demo made; name another folder")
    else:
        policy = _town(chosen)
    for old in chosen.glob("console.ledger*"):
        old.unlink()
    (chosen / "console.tokens").unlink(missing_ok=True)
    shutil.rmtree(chosen / "console-witness", ignore_errors=True)
    return policy


def make_tokens(policy: Path) -> dict[str, str]:
    """A token for an owner, two analysts and a collector."""
    from discreet.curator.policy import read_policy
    from discreet.server.tokens import TokenFile, tokens_path

    file = TokenFile(tokens_path(read_policy(policy)))
    return {name: file.create(name, role)[0] for name, role in _PEOPLE.items()}


def _hospital(folder: Path) -> Path:
    """The hospital's policy with a ledger of its own, so that what `make demo` spent does not count."""
    text = (folder / "policy.toml").read_text(encoding="utf-8")
    policy = folder / "console.toml"
    policy.write_text(text.replace('witness = "witness"', 'witness = "console-witness"'), encoding="utf-8")
    return policy


def _town(folder: Path) -> Path:
    """A town of generated people, and a policy for their visits to the hospital."""
    import pyarrow as pa
    from pyarrow import parquet

    from discreet.attacks.generated import town

    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARK).write_text("{}")
    place = town(people=20_000, seed=2026, admitted="0.5", visits=3)
    visits = place.visits.add_column(0, "person", pa.array(place.patients.tolist(), pa.string()))
    parquet.write_table(visits, folder / "visits.parquet")
    (folder / "visits.parquet").chmod(0o600)
    policy = folder / "console.toml"
    policy.write_text(_policy(visits), encoding="utf-8")
    return policy


def _policy(visits: Any) -> str:
    """What is declared of the town, all of it public: the generator decides which values there are."""
    lists = {name: json.dumps(sorted(set(visits[name].to_pylist()))) for name in ("sex", "race", "condition", "zip")}
    return _POLICY.format(**lists)


_POLICY = """\
[dataset]
name = "town"
neighbors = "add or remove one"
witness = "console-witness"

[budget]
epsilon = "10"
delta = "1e-6"
everyone = "all"

[tables.visits]
source = "visits.parquet"
unit = "person"
max_groups_per_unit = 3
max_rows_per_group = 3

[tables.visits.columns]
person = {{type = "text", nullable = false}}
zip = {{type = "text", values = {zip}}}
sex = {{type = "text", values = {sex}}}
born = {{type = "date", lower = 1900-01-01, upper = 2026-12-31}}
race = {{type = "text", values = {race}}}
admitted = {{type = "date", lower = 2015-01-01, upper = 2015-12-31}}
condition = {{type = "text", values = {condition}}}
"""
