"""Commands whose dataset is a URL: what a server does for them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.requests import Question

if TYPE_CHECKING:
    from discreet.client.remote import RemoteDataset
    from discreet.curator.answer import Answer

URL = "DISCREET_URL"
"""The variable of the environment that names a server where a command names none."""

dataset_argument = click.argument("policy", metavar="POLICY|URL", type=click.Path(), envvar=URL)
"""A policy file, or the address of a server."""


def is_url(text: str) -> bool:
    """Whether a command names a server, and not a file.

    >>> is_url("https://discreet.example.org"), is_url("clinic.toml")
    (True, False)
    """
    return text.lower().startswith(("http://", "https://"))


def named(policy: str, sql: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The dataset and the statements, where DISCREET_URL names the dataset and the first word is a statement."""
    url = os.environ.get(URL)
    if not url or is_url(policy) or policy.endswith(".toml") or Path(policy).exists():
        return policy, sql
    return url, (policy, *sql)


def connected(url: str, *, analyst: str | None = None, **local: Any) -> "RemoteDataset":
    """The dataset of a server; options that hold for files alone are refused."""
    from discreet.client.remote import connect

    if analyst is not None:
        raise click.UsageError("--analyst goes with a policy file: a server knows who asks by the token")
    for name, value in local.items():
        if value:
            raise click.UsageError(f"--{name.replace('_', '-')} goes with a policy file, not with a server")
    return connect(url)


def answers_from(data: "RemoteDataset", texts: Sequence[str], terms: dict[str, Any]) -> "list[Answer]":
    """The answers of a server, after what there is to warn of, on standard error."""
    question = Question(texts[0] if len(texts) == 1 else texts, **terms)
    if question.epsilon is None or question.error is None:
        for warning in data.explain(question).warnings:
            click.echo(f"warning: {warning}", err=True)
    try:
        return data.answers(question)
    except KeyboardInterrupt:
        click.echo("stopped: it may have been charged; asked again, an answer that was given is free", err=True)
        raise
