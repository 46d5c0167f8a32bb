"""The command line: parse, call, print. One file per command group, imported only when it is used."""

import io
import sys
from importlib import import_module

import click

from discreet import __version__
from discreet.durable import require_locks
from discreet.errors import BudgetExceeded, DiscreetError, InvalidQuery

_COMMANDS = {  # name: (module, its command, what it does)
    "account": ("account", "group", "Compose losses, convert them, find the least noise for a guarantee."),
    "anonymize": ("anonymize", "anonymize", "Redact, coarsen and k-anonymize a table; say what that does not promise."),
    "ask": ("ask", "ask", "Ask private tables in SQL: an answer with error bars, charged to the budget."),
    "attack": ("attack", "group", "Attack a release of your own; count how often that beats guessing."),
    "bounds": ("owner", "bounds", "Choose contribution bounds and ranges of columns privately."),
    "budget": ("ledger", "budget", "What was spent of the budget, by whom, and what is left."),
    "channel": ("channel", "group", "Is this mechanism private? Any finite mechanism, as a matrix."),
    "check": ("owner", "check", "Say what a policy means, and whether it fits the files."),
    "claims": ("claims", "claims", "Show every claim of the field: predicted beside measured."),
    "commute": ("commute", "group", "Synthetic commuting maps: where people live who work at each place."),
    "demo": ("serve", "demo", "Made-up people behind a budget, to ask from here or in a browser."),
    "explain": ("ask", "explain", "What asking would cost and do, before anything is spent."),
    "fairness": ("fairness", "group", "How far groups are apart, with limits; audits of labels that stay private."),
    "init": ("owner", "init", "Draft a policy for files, from their schemas alone."),
    "ledger": ("ledger", "ledger", "Who was charged for what; is the record intact; change a budget on record."),
    "local": ("local", "group", "Ask people who trust nobody: answers are randomized before they leave the device."),
    "mechanism": ("mechanism", "group", "Look at a mechanism: its noise, cost and error; release a value."),
    "predict": ("train", "predict", "What a model says of rows that you may see."),
    "risk": ("anonymize", "risk", "How easily people are recognized in a table, and by which columns together."),
    "serve": ("serve", "serve", "Serve datasets over the network, to people with a token."),
    "shell": ("shell", "shell", "Ask one question after the other, with history and completion."),
    "synth": ("synth", "synth", "A synthetic table that looks like a private one, charged to the budget."),
    "train": ("train", "train", "Train a model on private rows by DP-SGD, charged to the budget."),
    "token": ("serve", "token", "Make, list and revoke tokens: who may come in, and what they may spend."),
    "statement": ("ledger", "statement", "The privacy statement to publish."),
}


class _Lazy(click.Group):
    """Commands that are imported when they are called, so that --help answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f"discreet.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in sorted(_COMMANDS.items())])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"no command {args[0]!r}; there are: {', '.join(sorted(_COMMANDS))}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="discreet")
def cli() -> None:
    """Learn from data about people without learning about any one of them.

    Facts go to standard output, as lines or (--json) as JSON; remarks and errors to standard error.
    \b
    Exit codes:
      0  done
      1  an error, with its reason: a file, a setting, a policy, a ledger
      2  wrong usage: no such command or option
      3  what was to be checked does not hold, or could not be verified
      4  the question is refused: it cannot be answered as it is written; nothing was charged
      5  the budget cannot pay for it; nothing was charged
    """


_REFUSED, _EXHAUSTED = 4, 5


def exit_code(error: DiscreetError) -> int:
    """The exit code of an error: questions that are refused and budgets that cannot pay have their own.

    >>> exit_code(BudgetExceeded("nothing is left"))
    5
    """
    match error:
        case BudgetExceeded():
            return _EXHAUSTED
        case InvalidQuery():
            return _REFUSED
        case _:
            return 1


def main() -> None:
    """Run the command line; errors that discreet raises on purpose are said on standard error, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # ε on a terminal that has no ε
    try:
        require_locks()
        code = cli(prog_name="discreet", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        click.echo("stopped", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:  # a full disk, a vanished folder
        click.echo(f"discreet: {error.strerror or error}", err=True)
        sys.exit(1)
    except DiscreetError as error:
        click.echo(f"discreet: {error}", err=True)
        sys.exit(exit_code(error))
