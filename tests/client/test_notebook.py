"""`%%discreet` in a notebook: the same answer as in Python, from a server, a policy or a variable."""

import pytest
from tests.serving import BY_REGION, COUNT

import discreet
from discreet import errors
from discreet.curator.answer import Answer
from discreet.sql.plan.explain import Explanation

InteractiveShell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell


@pytest.fixture
def shell(server, monkeypatch, tmp_path):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("DISCREET_TOKEN", server.tokens["ann"])
    made = InteractiveShell()
    made.history_manager.enabled = False
    made.extension_manager.load_extension("discreet")
    yield made
    made.extension_manager.unload_extension("discreet")
    made.history_manager.end_session()
    InteractiveShell.clear_instance()


def test_a_cell_gives_the_answer_of_python(server, shell):
    answer = shell.run_cell_magic("discreet", f"{server.url} --epsilon 0.5 --to kept", f"{BY_REGION};\n")
    assert isinstance(answer, Answer)
    assert shell.user_ns["kept"] is answer
    assert "<table>" in answer._repr_html_()
    with discreet.connect(server.url) as data:
        same = data.ask(BY_REGION, epsilon="0.5")
    assert same.receipt.free
    assert same.table.equals(answer.table)
    again = shell.run_cell_magic("discreet", "--epsilon 0.5", BY_REGION)  # the dataset of the last cell
    assert again.receipt.free


def test_a_variable_an_explanation_and_an_address_of_the_environment(server, shell, monkeypatch):
    with discreet.connect(server.url) as data:
        shell.user_ns["clinic"] = data
        assert isinstance(shell.run_cell_magic("discreet", "clinic --epsilon 0.3 --explain", COUNT), Explanation)
    monkeypatch.setenv("DISCREET_URL", server.url)
    assert len(server.place.ledger.charges("clinic")) == 0
    shell.extension_manager.reload_extension("discreet")
    assert shell.run_cell_magic("discreet", "--epsilon 0.3", COUNT).receipt.analyst == "ann"


@pytest.mark.parametrize("line", ["--epsilon", "--odd 1", "'", "--epsilon 1 --to 1x"])
def test_odd_lines_are_refused_in_words_and_nothing_is_charged(server, shell, line):
    with pytest.raises(errors.InvalidParameter):
        shell.run_cell_magic("discreet", f"{server.url} {line}", COUNT)
    assert server.place.ledger.charges("clinic") == []
