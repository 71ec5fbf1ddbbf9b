"""The `gpudeck` command. Imports nothing heavy at its top: `gpudeck --version` answers in tens of milliseconds."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..engine.command import Command
    from ..engine.errors import DeckError
    from ..engine.hints import Hints


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    _open_standard_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if "_ARGCOMPLETE" in os.environ:
        return _complete()
    from ..engine.errors import DeckError, EngineUnavailableError, threads_needed
    from ..engine.hints import Hints

    command = None
    try:
        if arguments[:1] in (["--version"], ["-V"]):
            from .. import __version__

            print(f"gpudeck {__version__}", flush=True)
            return 0
        from .arguments import parse
        from .dispatch import run_command
        from .verbs import DECK

        command = parse(arguments)
        if command.verb == "completion":
            from .completion import print_script

            return print_script(command.words)
        with threads_needed():
            code = _screen(command, arguments) if command.verb == DECK else run_command(command)
        sys.stdout.flush()
        return code
    except DeckError as error:
        return _refused(error, Hints() if command is None else Hints.of(command))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 141
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered would fail once more at the exit
        print(f"gpudeck: {error.filename or 'the output'} cannot be written: {error.strerror}", file=sys.stderr)
        return EngineUnavailableError.exit_code


def _refused(error: DeckError, hints: Hints) -> int:
    """Problems of a task file begin with their place in it, as editors read them; all else with who tells it."""
    from ..engine.errors import TaskFileError

    teller = "" if isinstance(error, TaskFileError) else "gpudeck: "
    print(f"{teller}{hints.completed(str(error))}", file=sys.stderr)
    return error.exit_code


def _screen(command: Command, arguments: Sequence[str]) -> int:
    """The deck itself: its screen, or what takes the screen's place where there is none."""
    from ..tui.open_screen import open_screen, wants_screen
    from .dispatch import run_command

    if command.flag("web") or command.given.get("port") is not None or command.given.get("host"):
        from ..tui.open_web import open_web

        return open_web(command, arguments)

    return open_screen(command) if command.flag("read_only") or wants_screen(command) else run_command(command)


def _complete() -> int:
    """A shell asks what could come next."""
    from .arguments import parser_of
    from .completion import complete
    from .verbs import DECK, VERBS

    commands = {verb.name: verb.text for verb in VERBS.values() if not verb.hidden}
    complete(commands, lambda name: parser_of(name or DECK))
    return 0


def _open_standard_streams() -> None:
    """Daemons may be started without: the next file opened would take the number of stdout, and get what is printed."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    raise SystemExit(main())
