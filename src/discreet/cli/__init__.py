"""The command line: parse, call, print. One file per command group, imported only when it is used."""

import io
import sys
from importlib import import_module

import click

from discreet import __version__
from discreet.durable import require_locks
from discreet.errors import BudgetExceeded, DiscreetError, InvalidQuery

_COMMANDS = {  # name: (module, its command, what it does)
    "account": ("account", "group", "Compose and convert privacy losses; find the least noise for a guarantee."),
    "anonymize": (
        "anonymize",
        "anonymize",
        "Redact, coarsen and k-anonymize a table, and report what that does not protect.",
    ),
    "ask": ("ask", "ask", "Ask a question in SQL: an answer with error bars, charged to the budget."),
    "attack": ("attack", "group", "Attack your own releases, and compare the success rate with guessing."),
    "bounds": ("owner", "bounds", "Choose contribution bounds and column ranges privately."),
    "budget": ("ledger", "budget", "Show the budget: what was spent, by whom, and what is left."),
    "channel": ("channel", "group", "Compute the privacy of any finite mechanism, given as a matrix."),
    "check": ("owner", "check", "Explain a policy in words, and check that it fits its files."),
    "claims": ("claims", "claims", "Compute the field's claims: predictions next to measurements."),
    "commute": ("commute", "group", "Release synthetic commuting maps: where those who work at a place live."),
    "demo": ("serve", "demo", "Try it on made-up people, on the command line or in a browser."),
    "explain": ("ask", "explain", "Show what a question would cost and do; free."),
    "fairness": ("fairness", "group", "Measure disparities between groups; audit a model on private labels."),
    "init": ("owner", "init", "Draft a policy from the schemas of files."),
    "ledger": ("ledger", "ledger", "Show and verify the record of charges; amend a budget."),
    "local": ("local", "group", "Run surveys in which answers are randomized on each person's device."),
    "mechanism": ("mechanism", "group", "Inspect a mechanism (noise, cost, error), or release a value with it."),
    "predict": ("train", "predict", "Apply a trained model to rows that you may see."),
    "risk": ("anonymize", "risk", "Measure how easily people can be re-identified in a table."),
    "serve": ("serve", "serve", "Serve datasets over the network to callers with a token."),
    "shell": ("shell", "shell", "Ask questions interactively, with history and completion."),
    "synth": ("synth", "synth", "Make a synthetic table from a private one, charged to the budget."),
    "train": ("train", "train", "Train a model on private rows by DP-SGD, charged to the budget."),
    "token": ("serve", "token", "Create, list and revoke access tokens."),
    "statement": ("ledger", "statement", "Write the privacy statement to publish."),
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

    Results go to standard output, as lines or (--json) as JSON; remarks and errors go to standard error.

    \b
    Exit codes:
      0  done
      1  an error in a file, a setting, a policy or a ledger
      2  wrong usage, such as an unknown command or option
      3  a check failed, or could not be completed
      4  the question cannot be answered as written; nothing was charged
      5  the budget cannot pay for the question; nothing was charged
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
    """Run the command line; errors of discreet are printed on standard error, without a traceback."""
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
