"""The `gpudeck` command. Imports nothing heavy at its top: `gpudeck --version` answers in tens of milliseconds."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    _open_standard_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["-V"]):
        from .. import __version__

        print(f"gpudeck {__version__}")
        return 0
    from ..engine.errors import DeckError

    try:
        from ..engine.main import run_command
        from .arguments import parse

        return run_command(parse(arguments))
    except DeckError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 141


def _open_standard_streams() -> None:
    """Daemons may be started without: the next file opened would take the number of stdout, and get what is printed."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    raise SystemExit(main())
