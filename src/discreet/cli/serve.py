"""`discreet serve` and `discreet token`: the curator as a place, and who may come in.

`discreet demo`: made-up people behind a budget, to be asked from the command line or in a browser.
"""

import json
import re
import shutil
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import show
from discreet.curator.policy import Policy, read_policy
from discreet.curator.settings import Allowance
from discreet.errors import InvalidParameter
from discreet.privacy.budget import Budget
from discreet.server.tokens import Role, Token, TokenFile, new_token, tokens_path

if TYPE_CHECKING:
    from discreet.server.service import Limits


_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("policies", metavar="POLICY...", nargs=-1, required=True, type=click.Path())
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="The port; 0 for any free one."
)
@click.option("--tls-cert", type=_FILE, help="The certificate chain, in PEM form.")
@click.option("--tls-key", type=_FILE, help="Its private key, in PEM form.")
@click.option(
    "--behind-proxy", multiple=True, metavar="ADDRESS", help="A proxy whose X-Forwarded-For header is trusted."
)
@click.option("--allow-origin", multiple=True, metavar="ORIGIN", help="Another origin whose web pages may call.")
@click.option(
    "--clear-text", is_flag=True, help="Allow other machines to connect without TLS; tokens can then be intercepted."
)
@click.option("--owner-log", type=_FILE, help="A file for the reasons of failures, which may name private values.")
@click.option(
    "--postgres",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Also serve the PostgreSQL protocol, on this port.",
)
@click.option("--max-body", type=click.IntRange(1), help="The largest request, in bytes.  [default: 10000000]")
@click.option("--threads", type=click.IntRange(1, 1000), help="The most questions at a time.  [default: 128]")
def serve(
    policies: tuple[str, ...],
    host: str,
    port: int,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: tuple[str, ...],
    allow_origin: tuple[str, ...],
    clear_text: bool,
    owner_log: Path | None,
    postgres: int | None,
    max_body: int | None,
    threads: int | None,
) -> None:
    """Serve the datasets of POLICY… over HTTP, to callers with a token (`discreet token create`).

    Files, ledger and tokens belong to the user who runs this; callers never touch them. It stops on Ctrl-C or SIGTERM,
    after what was charged has been answered or put on record.
    """
    from discreet.server.run import Address
    from discreet.server.run import serve as run

    address = Address(
        host=host, port=port, certificate=tls_cert, key=tls_key, proxies=behind_proxy, origins=allow_origin,
        clear_text=clear_text, postgres=postgres,
    )  # fmt: skip
    run(policies, address, _limits(body=max_body, threads=threads), owner_log=owner_log)


def _limits(**stated: Any) -> "Limits":
    from discreet.server.service import Limits

    return Limits(**{name: value for name, value in stated.items() if value is not None})


@click.group(cls=show.Group)
def token() -> None:
    """Create, list and revoke the access tokens of a dataset."""


@token.command()
@click.argument("policies", metavar="POLICY...", nargs=-1, required=True, type=click.Path())
@click.argument("name", metavar="NAME")
@click.option("--role", required=True, type=click.Choice([role.value for role in Role]), help="What the holder may do.")
@click.option("--epsilon", metavar="ε", help="The most that the holder may spend, in addition to the policy's caps.")
@click.option("--delta", metavar="δ", help="With --epsilon: the δ of that limit.")
@click.option("--daily", metavar="ε", help="The most that the holder may spend within 24 hours.")
@click.option("--expires", metavar="TIME", help="When it expires: 90d, 12h, 30m; by default never.")
@show.json_option
def create(
    policies: tuple[str, ...],
    name: str,
    role: str,
    epsilon: str | None,
    delta: str | None,
    daily: str | None,
    expires: str | None,
    as_json: bool,
) -> None:
    """Create a token for NAME and print it: it is shown once and not stored. Give it to that person alone.

    NAME is who is charged: caps of the policy ([budget.analysts.NAME], [budget.everyone]) hold for it. With several
    policies, one token opens all of their datasets.
    """
    if delta is not None and epsilon is None:
        raise click.UsageError("--delta goes with --epsilon")
    daily_cap = None if daily is None else Budget(epsilon=daily, delta=delta or 0)
    allowance = Allowance(None if epsilon is None else Budget(epsilon=epsilon, delta=delta or 0), daily_cap)
    text, read = new_token(), [read_policy(policy) for policy in policies]
    for policy in read:
        _check_admitted(policy, name, role)
        lifetime = None if expires is None else _lifetime(expires)
        _, made = TokenFile(tokens_path(policy)).create(name, role, lifetime=lifetime, allowance=allowance, text=text)
        _record(policy, f"made token {made.id} for {made.name} ({made.role})")
    click.echo(json.dumps({"token": text, **_facts(made, made.created)}, ensure_ascii=False) if as_json else text)


def _check_admitted(policy: Policy, name: str, role: str) -> None:
    """Say at once, on standard error, that an analyst could not ask anything."""
    from discreet.curator.settings import Settings, analyst_name

    settings = Settings(policy.budget, policy.caps, policy.everyone)
    if role == Role.ANALYST and not settings.admits(analyst_name(name)):
        words = f"{name} has no cap in {policy.catalog.name} and there is none for everyone: questions will be refused"
        click.echo(f"warning: {words}; add [budget.analysts.{name}] to the policy", err=True)


@token.command(name="list")
@click.argument("policy", metavar="POLICY", type=click.Path())
@show.json_option
def list_(policy: str, as_json: bool) -> None:
    """List the tokens of POLICY: their holders, roles and validity."""
    now = datetime.now(UTC)
    entries = [_facts(token, now) for token in TokenFile(tokens_path(read_policy(policy))).all()]
    if as_json:
        click.echo(json.dumps({"tokens": entries}, ensure_ascii=False))
        return
    if not entries:
        click.echo("no token yet: discreet token create POLICY NAME --role analyst", err=True)
    for entry in entries:
        limits = "".join(f", {what} ε {entry[what]}" for what in ("total", "daily") if entry[what] is not None)
        until = f", until {str(entry['expires'])[:16]}" if entry["expires"] else ""
        click.echo(f"{entry['id']}  {entry['state']:<8} {entry['role']:<10} {entry['name']}{limits}{until}")


@token.command()
@click.argument("policy", metavar="POLICY", type=click.Path())
@click.argument("which", metavar="ID|NAME")
@show.json_option
def revoke(policy: str, which: str, as_json: bool) -> None:
    """Revoke a token of POLICY by its id, or all tokens of a name; a running server obeys at once."""
    read = read_policy(policy)
    revoked = TokenFile(tokens_path(read)).revoke(which)
    for token in revoked:
        _record(read, f"revoked token {token.id} of {token.name} ({token.role})")
    show.facts({"revoked": [token.id for token in revoked]}, as_json=as_json)


def _facts(token: Token, now: datetime) -> dict[str, Any]:
    limits = {"total": token.allowance.total, "daily": token.allowance.daily}
    return {
        "id": token.id,
        "name": token.name,
        "role": str(token.role),
        "state": token.state(now),
        "created": token.created.isoformat(),
        "expires": None if token.expires is None else token.expires.isoformat(),
        **{name: None if budget is None else show.number(budget.epsilon) for name, budget in limits.items()},
    }


def _lifetime(text: str) -> timedelta:
    parts = re.fullmatch(r"(\d{1,6})([dhm])", text.strip())
    if parts is None:
        raise InvalidParameter("--expires", text, "a number of days, hours or minutes: 90d, 12h, 30m")
    return timedelta(**{{"d": "days", "h": "hours", "m": "minutes"}[parts[2]]: int(parts[1])})


def _record(policy: Policy, why: str) -> None:
    """Put an act of the owner on the ledger's record, by the user who does it."""
    from discreet.curator.curator import open_ledger
    from discreet.dataset import user_name

    ledger, store = open_ledger(policy, None)
    with store:
        ledger.open(
            policy.catalog.name, policy.budget, caps=policy.caps, everyone=policy.everyone,
            protects=policy.catalog.protects,
        )  # fmt: skip
        ledger.record(policy.catalog.name, by=user_name(), why=why)


_HOSPITAL = Path("demo-out/hospital")
_TOWN = Path("demo-out/town")
_PEOPLE = {"olga": "owner", "ann": "analyst", "bob": "analyst", "carl": "collector"}
_MARK = "made-by-discreet-demo.json"


@click.command()
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), help="The folder of the data, made if needed."
)
@click.option("--serve", "is_served", is_flag=True, help="Open the console, until Ctrl-C.")
@click.option(
    "--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="The port; 0 for any free one."
)
@show.json_option
def demo(folder: Path | None, is_served: bool, port: int, as_json: bool) -> None:
    """Put made-up people behind a fresh budget; with --serve, open the console and say how to sign in.

    It takes the hospital that `make demo` left in demo-out/hospital, and makes a small town in demo-out/town where
    there is none. Each start has a new ledger, which only made-up people allow. --serve needs discreet[server].
    """
    if is_served:
        from discreet.server.run import Address, require_server, serve

        require_server()
    policy = prepare(folder)
    tokens = make_tokens(policy)
    port = port or (_free_port() if is_served else 0)
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
        serve([str(policy)], Address(port=port))


def prepare(folder: Path | None) -> Path:
    """The policy of a demo with a fresh budget: of the hospital, where there is one, else of a town that is made."""
    chosen = folder or (_HOSPITAL if (_HOSPITAL / "generated.json").exists() else _TOWN)
    if (chosen / "generated.json").exists():
        policy = _hospital(chosen)
    elif chosen.exists() and any(chosen.iterdir()) and not (chosen / _MARK).exists():
        raise click.UsageError(f"{chosen} holds files that are not from a demo; choose another folder")
    else:
        policy = _town(chosen)
    for old in chosen.glob("console.ledger*"):
        old.unlink()
    (chosen / "console.tokens").unlink(missing_ok=True)
    shutil.rmtree(chosen / "console-witness", ignore_errors=True)
    return policy


def _free_port() -> int:
    """A port that nobody uses, so that the address can be told before the server listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
    for file in folder.glob("*.parquet"):
        file.chmod(0o600)  # else the server warns of them, as it should of real ones
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
born = {{type = "date", lower = 1900-01-01, upper = 2000-03-31}}
race = {{type = "text", values = {race}}}
admitted = {{type = "date", lower = 1999-04-01, upper = 2000-03-31}}
condition = {{type = "text", values = {condition}}}
"""
