import json
import sys

import pytest


class Printed:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def discreet(monkeypatch, capsys, tmp_path):
    """Run the command line in this process, in a folder of its own."""
    from discreet.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*words, stdin=None):
        monkeypatch.setattr(sys, "argv", ["discreet", *map(str, words)])
        if stdin is not None:
            import io

            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        code = 0
        try:
            main()
        except SystemExit as done:
            code = done.code or 0
        captured = capsys.readouterr()
        return Printed(code, captured.out, captured.err)

    return run
