"""Questions before something is done to more than was named."""

from __future__ import annotations

import sys

from ..errors import UsageError


def agreed(question: str, *, yes: bool) -> bool:
    """Ask on the terminal. Raises UsageError where nobody can be asked and -y does not say yes."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Nobody can be asked here: -y says yes; nothing was done")
    return says_yes(question)


def says_yes(question: str) -> bool:
    """Ask on the terminal, which the caller knows to be there; only "y" and "yes" are one."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
