"""`python examples/notebooks/run.py [NAME …]`: run notebooks from top to bottom and keep what they show.

It needs IPython alone, no kernel: each notebook gets a shell of its own, in this process. The tests run them
the same way and throw the outputs away; a cell whose first line is `# refused` must raise, every other must not.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_LONG = 2000  # characters: words beside a picture
_FORMS = ("image/svg+xml", "text/html", "text/plain")


def notebooks() -> list[Path]:
    """All of them, in the order in which one reads them."""
    order = ["first_answer", "dp_in_an_hour", "red_team", "private_learning", "synthetic_data", "local_maps"]
    return [HERE / f"{name}.ipynb" for name in order]


def run(path: Path) -> dict[str, Any]:
    """The notebook with the outputs of its cells; `RuntimeError` where a cell fails, or does not where it should."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(history_load_length=0)
    hook: Any = shell.displayhook  # what a cell ends with is kept in every form, and printed in none
    hook.write_output_prompt, hook.write_format_data = lambda: None, lambda *_: None
    try:
        for number, cell in enumerate(_code(document), 1):
            source = "".join(cell["source"])
            with capture_output(display=False) as captured:
                result = shell.run_cell(source)
            if result.success is source.startswith("# refused"):
                raise RuntimeError(f"{path.name}, cell {number}: {result.error_before_exec or result.error_in_exec}")
            cell["execution_count"] = number
            shown = [] if result.result is None else [_shown(shell.display_formatter.format(result.result)[0])]
            cell["outputs"] = [*_printed(captured.stdout), *shown]
    finally:
        InteractiveShell.clear_instance()
    return document


def _code(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (cell for cell in document["cells"] if cell["cell_type"] == "code")


def _printed(text: str) -> list[dict[str, Any]]:
    lines = text.strip("\n")
    return (
        [{"output_type": "stream", "name": "stdout", "text": (lines + "\n").splitlines(keepends=True)}] if lines else []
    )


def _shown(data: dict[str, Any]) -> dict[str, Any]:
    forms = [form for form in _FORMS if form in data]
    kept = [form for form in forms if form != "text/plain" or len(forms) == 1 or len(data[form]) < _LONG]
    return {
        "output_type": "display_data",
        "data": {form: data[form].splitlines(keepends=True) for form in kept},
        "metadata": {},
    }


def main(names: list[str]) -> None:
    """Run the named notebooks, or all, and write them with their outputs."""
    for path in notebooks():
        if not names or path.stem in names:
            document = run(path)
            path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
