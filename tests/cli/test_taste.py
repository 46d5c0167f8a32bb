"""All commands are of one taste: the same option is spelled the same, facts come as JSON too, help has no riddles."""

import re
from collections import defaultdict

import click
import pytest

from discreet.cli import cli

WITHOUT_FACTS = {"serve", "shell"}  # it logs lines of JSON; it talks
FORBIDDEN = {"--out", "--form", "--limits", "--out-file", "--eps", "--csv-out"}
RIDDLES = re.compile(
    r"claim [A-D]\d|private: publish it|\bmended\b|\bdoubt\b|Wish|\bkept answer|where to\?|\bso many|somebody|means harm|beside|looked at"
)


def commands(command=cli, path=()):
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), (*path, name))
    else:
        yield " ".join(path), command


COMMANDS = dict(commands())
OPTIONS = [
    (name, option)
    for name, command in COMMANDS.items()
    for option in command.params
    if isinstance(option, click.Option)
]


def test_one_way_to_spell_what_all_commands_share():
    spelled = defaultdict(set)
    for _, option in OPTIONS:
        for word in option.opts:
            spelled[word].add(tuple(sorted(option.opts)))
    for word in ("--json", "--output", "-o", "--format", "--analyst", "--epsilon", "--delta", "--force", "--plot"):
        assert len(spelled[word]) <= 1, f"{word} has other short names elsewhere: {spelled[word]}"
    assert spelled["--output"] == {("--output", "-o")}
    assert not FORBIDDEN & spelled.keys()


def test_the_same_words_for_who_asks_and_for_json():
    helps = defaultdict(set)
    for name, option in OPTIONS:
        if name not in ("ledger show", "ledger head"):  # there it chooses rows; a head is JSON anyway
            helps[option.opts[0]].add(option.help)
    assert len(helps["--analyst"]) == len(helps["--json"]) == len(helps["--force"]) == 1


@pytest.mark.parametrize("name", cli.list_commands(click.Context(cli)))
def test_no_list_of_commands_is_cut(name):
    command = cli.get_command(click.Context(cli), name)
    if isinstance(command, click.Group):
        listed = command.get_help(click.Context(command, info_name=name)).partition("Commands:")[2]
        assert len(listed.split()) > 2 * len(command.list_commands(click.Context(command)))
        assert "..." not in listed


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_facts_come_as_json(name):
    words = [word for option in COMMANDS[name].params for word in option.opts]
    assert ("--json" in words) == (name not in WITHOUT_FACTS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_has_no_riddles(name):
    help_ = COMMANDS[name].get_help(click.Context(COMMANDS[name], info_name=name))
    assert not RIDDLES.search(help_)
    assert COMMANDS[name].help.strip()
    for option in COMMANDS[name].params:
        if isinstance(option, click.Option) and not isinstance(option.type, click.Choice) and option.name != "help":
            assert option.help, f"{name} {option.opts[0]} has no help"
