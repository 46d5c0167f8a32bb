"""`make test-changed` names the tests that a change can touch, and not all of them."""

import pytest
from tests.changed import graph, touched


@pytest.mark.slow
def test_a_module_leads_to_the_tests_that_reach_it():
    chosen = touched({"src/discreet/report/marks.py"})
    assert {"tests/report/test_charts_and_pages.py", "src/discreet/report/marks.py", "tests/test_imports.py"} <= chosen
    assert "tests/test_exact.py" not in chosen


@pytest.mark.slow
def test_lazy_imports_count():
    """The command line imports its commands by name, inside functions."""
    assert "src/discreet/cli/channel.py" in graph()["src/discreet/cli/__init__.py"]
    assert "tests/cli/test_channel.py" in touched({"tests/cli/conftest.py"}) | touched({"tests/cli/test_channel.py"})


def test_documents_and_settings():
    assert touched({"docs/guide/ask.md"}) == {"docs/guide/ask.md", "tests/docs"}
    assert touched({"pyproject.toml"}) == {"tests", "src", "README.md", "docs"}
    assert touched({"examples/hospital/report.py"}) >= {"tests/examples"}
    assert touched({"a file that is gone.txt"}) == set()
