"""The program `discreet`, also as `python -m discreet`: interrupted at any time, it ends with one line and code 130."""

import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command line. Whatever an interrupt turns into on its way up, no traceback is shown.

    Modules are imported here, not above, so that this holds while they are.
    """
    interrupted = False

    def interrupt(_: int, __: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where the caller chose to ignore it
        signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = _report_unless_interrupt
    try:
        from discreet.cli import main as run

        run()
    except SystemExit as end:
        if interrupted and end.code == 1:  # what was refused, and is explained, is a query that was cut short
            end.code = 130
        raise
    except BaseException:  # KeyboardInterrupt, or what a module makes of it while it is imported
        if not interrupted:
            raise
        sys.stderr.write("stopped\n")
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is open is closed in peace


def _report_unless_interrupt(failure: "sys.UnraisableHookArgs") -> None:
    if failure.exc_type is None or not issubclass(failure.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(failure)


if __name__ == "__main__":
    main()
