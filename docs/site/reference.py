"""What the site has beside its pages: the reference of commands, from their own help, and pages of decisions."""

import re
from collections.abc import Iterator
from typing import Any

import click
from mkdocs.structure.files import File, Files

from discreet.cli import cli

API = (
    "discreet", "discreet.dataset", "discreet.requests", "discreet.curator.answer", "discreet.curator.policy",
    "discreet.mechanisms", "discreet.privacy", "discreet.privacy.accounting", "discreet.noise", "discreet.local",
    "discreet.learning", "discreet.fairness", "discreet.anonymity", "discreet.claims", "discreet.client.remote",
    "discreet.errors",
)  # fmt: skip


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are generated."""
    files.append(File.generated(config, "reference/cli.md", content="\n".join(_commands())))
    listed = "\n\n".join(f"::: {name}" for name in API)
    files.append(File.generated(config, "reference/api.md", content=f"# Python\n\n{listed}\n"))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Results are on the site; other files of the repository are named, since a site that works offline has none."""
    up = "../" * page.url.count("/")
    markdown = re.sub(r"\((?:\.\./)+bench/results/(\w+)\.md\)", rf"({up}results.md#\1)", markdown)
    return re.sub(r"\[([^\]]*)\]\((?:\.\./)+((?:tests|examples|bench|src|deploy)/[^)]*)\)", r"\1 (`\2`)", markdown)


def _commands() -> Iterator[str]:
    yield "# Commands\n"
    yield "Every command has `--help`, and prints facts as JSON with `--json`.\n"
    yield from _described(cli, ("discreet",))


def _described(command: click.Command, path: tuple[str, ...]) -> Iterator[str]:
    context = click.Context(command, info_name=" ".join(path), max_content_width=100)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                yield from _described(found, (*path, name))
        return
    yield f"## {' '.join(path)}\n"
    yield f"```text\n{command.get_help(context)}\n```\n"
