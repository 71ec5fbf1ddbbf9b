"""Errors that are the user's to mend: one line each, no traceback. Anything else is our bug and keeps its traceback."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Generator, Sequence


class DeckError(Exception):
    """Something the user can mend. `str(error)` is the whole message: what, where, what to do."""

    exit_code = 2


class TaskFileError(DeckError):
    """All problems of one task file at once, a line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class UsageError(DeckError):
    """A command line that cannot be meant."""


class EngineUnavailableError(DeckError):
    """The engine cannot run here and now: the deck is held by another, the driver does not answer, the disk is full."""

    exit_code = 3
    gone = False
    """It ended under whoever asked it."""


class EngineEndingError(EngineUnavailableError):
    """Asked of an engine that was just ending. For the wire alone: a command then asks the next engine."""

    exit_code = 75
    """EX_TEMPFAIL of sysexits.h."""


@contextlib.contextmanager
def threads_needed() -> Generator[None]:
    """Python tells by its words alone that the system gives no thread."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != "can't start new thread":
            raise
        raise EngineUnavailableError(
            "no thread can be started: the limit of processes (ulimit -u, pids.max of the cgroup) or of memory "
            "(ulimit -v) is reached: raise it, or end other programs"
        ) from None


_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EINTR})


def may_pass(error: OSError) -> bool:
    """Whether the same call may succeed later without anybody mending a path or a permission."""
    return error.errno in _PASSING


def error_in_words(error: Exception) -> str:
    """An error of the system without its number: "logs/a: No space left on device"."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
