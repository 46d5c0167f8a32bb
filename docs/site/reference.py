"""What the site has beside its written pages: references, results, notebooks; and a check that it works offline."""

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from json import loads
from pathlib import Path
from typing import Any

import click
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from discreet.cli import cli

_ROOT = Path(__file__).resolve().parents[2]
API = (
    "discreet", "discreet.dataset", "discreet.requests", "discreet.curator.answer", "discreet.curator.policy",
    "discreet.mechanisms", "discreet.privacy", "discreet.privacy.accounting", "discreet.noise", "discreet.local",
    "discreet.local.collection.survey", "discreet.learning", "discreet.learning.federated", "discreet.synthetic.result",
    "discreet.synthetic.commuting", "discreet.fairness", "discreet.fairness.repair", "discreet.anonymity",
    "discreet.anonymity.models", "discreet.attacks", "discreet.gallery", "discreet.claims", "discreet.report",
    "discreet.client.remote", "discreet.errors",
)  # fmt: skip


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are generated."""
    files.append(File.generated(config, "reference/cli.md", content="\n".join(_commands())))
    listed = "\n\n".join(f"::: {name}" for module in API for name in (module, *_lazy(module)))
    files.append(File.generated(config, "reference/api.md", content=f"# Python\n\n{listed}\n"))
    files.append(File.generated(config, "reference/http.md", content="\n".join(_http())))
    files.append(File.generated(config, "results.md", content=_results()))
    for notebook in sorted((_ROOT / "examples" / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content="\n".join(_notebook(notebook))))
        files.append(File.generated(config, f"notebooks/{notebook.name}", content=notebook.read_text("utf-8")))
    return files


def _lazy(name: str) -> Iterator[str]:
    """Names that a package imports when they are first used: where they are defined."""
    module = import_module(name)
    if hasattr(module, "__getattr__") and name != "discreet":  # whose own names are those of modules in the list
        for member in sorted(set(getattr(module, "__all__", ())) - set(vars(module))):
            yield f"{getattr(module, member).__module__}.{member}"


def _results() -> str:
    sys.path.insert(0, str(_ROOT))  # bench is no part of the package
    from bench.overview import markdown

    return markdown(_ROOT / "bench" / "results")


def _notebook(path: Path) -> Iterator[str]:
    """A notebook with what it showed when it was last run."""
    cells = loads(path.read_text(encoding="utf-8"))["cells"]
    title, *rest = "".join(cells[0]["source"]).split("\n")
    yield f"{title}\n\n[The notebook]({path.name}): open it with Jupyter, after `pip install '.[all]' notebook`.\n"
    yield "\n".join(rest)
    for cell in cells[1:]:
        source = "".join(cell["source"])
        yield f"\n{source}\n" if cell["cell_type"] == "markdown" else f"\n```python\n{source}\n```\n"
        for output in cell.get("outputs", []):
            data = output.get("data", {"text/plain": output.get("text", [])})
            form = next(form for form in ("image/svg+xml", "text/html", "text/plain") if form in data)
            text = "".join(data[form])
            yield (
                f"```text\n{text.strip()}\n```\n"
                if form == "text/plain"
                else f'<div class="output">{_one_line(text)}</div>\n'
            )


def _one_line(html: str) -> str:
    """Without line breaks, a block of HTML is one block of Markdown too; in `pre` they stay."""
    return "".join(
        part.replace("\n", "&#10;") if part.startswith("<pre") else part.replace("\n", " ")
        for part in re.split(r"(<pre.*?</pre>)", html, flags=re.DOTALL)
    )


def _http() -> Iterator[str]:
    """Every path of the server with what it takes and gives, from its own OpenAPI document."""
    from discreet.server.app import create_app
    from discreet.server.service import Service

    document = create_app(Service({})).openapi()
    yield "# HTTP\n\nWho may call what, errors and idempotency keys are in [the server](../guide/server.md).\n"
    for path, methods in sorted(document["paths"].items()):
        if not path.startswith(("/v1", "/surveys", "/healthz", "/readyz", "/version", "/metrics")):
            continue  # pages of the console
        for method, operation in methods.items():
            yield f"## `{method.upper()} {path}`\n\n{operation.get('description', operation.get('summary', ''))}\n"
            rows = [(p["name"], p["in"], _kind(p.get("schema", {}))) for p in operation.get("parameters", [])]
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            named = body.get("$ref", "").rpartition("/")[2]
            fields = document.get("components", {}).get("schemas", {}).get(named, {}).get("properties", {})
            rows += [(name, "body", _kind(schema)) for name, schema in fields.items()]
            if rows:
                yield "| name | where | type |\n|---|---|---|"
                yield "\n".join(f"| `{name}` | {where} | {kind} |" for name, where, kind in rows) + "\n"


def _kind(schema: dict[str, Any]) -> str:
    options = [_kind(option) for option in schema.get("anyOf", [])]
    return " or ".join(dict.fromkeys(options)) or schema.get("type", "") or schema.get("$ref", "any").rpartition("/")[2]


_LOADED = re.compile(r"""<(?:link\b[^>]*? href|(?:script|img|iframe)\b[^>]*? src)=["']?https?://[^>]*>""")


def on_post_build(config: Any) -> None:
    """Refuse a site that loads anything from elsewhere: it must work offline."""
    for page in Path(config.site_dir).rglob("*.html"):
        if loaded := _LOADED.search(page.read_text("utf-8")):
            raise PluginError(f"{page.relative_to(config.site_dir)} loads from another host: {loaded[0]}")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Results are on the site; other files of the repository are named, since a site that works offline has none."""
    up = "../" * page.url.count("/")
    markdown = re.sub(r"\((?:\.\./)+bench/results/(\w+)\.md\)", rf"({up}results.md#\1)", markdown)
    markdown = re.sub(r"\((?:\.\./)+examples/notebooks/(\w+)\.ipynb\)", rf"({up}notebooks/\1.md)", markdown)
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
