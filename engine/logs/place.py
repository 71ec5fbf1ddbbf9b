"""Where in the ends of its logs the cause of an attempt's end stands. Pure; texts come from `printable.lines_of`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice

from .cause import RootCause, Traceback, choose, lines_of_rank, tracebacks
from .chatter import is_chatter
from .error_lines import NEEDLES, names_an_exception, tells_an_error
from .signs import first_sign

CONTEXT_LINES = 40
LAST_LINES = 12
_MOST_LOOKED_AT = 300
"""Lines that may tell of an error, from the end; a log that has more of them in its tail tells nothing by them."""
_GOES_ON = 3
"""So many lines of progress say that what was printed before them was survived."""

_ERROR_WORDS = re.compile(r"error|fatal|exception|fail|abort|cannot|not found|denied|terminate called", re.IGNORECASE)
HANDLED = re.compile(r"(?<!NCCL )\bWARN|[Ww]arning|[Rr]etry|[Hh]alving")
_PROGRESS = re.compile(r"\b(?:epoch|step|iter|iteration|loss)s?\b|\d(?:it/s|s/it)\b|\d%\|", re.IGNORECASE)
_RANKS = re.compile(r"NCCL error|\bnccl\w{1,30}Error|Watchdog caught collective|collective operation.{0,40}timed out")
_LAUNCHER = re.compile(r"srun: |slurmstepd: |mpirun |make(?:\[\d+\])?: ")
_NEEDLE = re.compile("|".join(["NCCL error", "nccl", "collective", *(re.escape(word.decode()) for word in NEEDLES)]))


def choose_in(
    err: Sequence[str], out: Sequence[str], root: RootCause | None, *, near: bool = False
) -> Traceback | None:
    """The traceback that tells the cause: stderr's, and stdout's only when stderr has none. *near*: only one that
    little was written after."""
    return _unsurvived(err, root, near=near) or _unsurvived(out, root, near=near)


def context_of(
    err: Sequence[str], out: Sequence[str], root: RootCause | None, block: Traceback | None, *, near: bool = False
) -> Sequence[str]:
    """The lines among which the cause is looked for: not the whole tail, which may tell of troubles long overcome.
    *near*: only among the last ones."""
    if block is not None:
        return block.lines
    if root is not None:
        return lines_of_rank(err, root.rank)[-CONTEXT_LINES:]
    far = None if near else far_error(err, out)
    if far is None:
        return _last(err, out)
    lines, at = far
    return lines[max(0, at + 1 - CONTEXT_LINES) : at + 1]


def far_error(err: Sequence[str], out: Sequence[str]) -> tuple[Sequence[str], int] | None:
    """Where the last lines tell nothing: the stream, and the index of its last line that tells of an error which was
    not survived. None: the last lines tell, or none does."""
    last = last_words(_last(err, out))
    if any(map(_has_error_word, last)) or first_sign("\n".join(last)) is not None:
        return None
    for lines in (err, out):
        at = _last_error(lines)
        if at is not None:
            return lines, at
    return None


def near_error(err: Sequence[str], out: Sequence[str]) -> tuple[Sequence[str], int] | None:
    """Which of a log's last lines tells of the error: the stream, and its index there. None: none does for certain."""
    for tells in _CERTAIN:
        for lines in (err, out):
            words = islice((at for at in reversed(range(len(lines))) if not is_chatter(lines[at])), LAST_LINES)
            found = next((at for at in words if tells(lines[at])), None)
            if found is not None:
                return lines, found
    return None


def telling_line(context: Sequence[str], err: Sequence[str]) -> str:
    """Of the last lines the one that tells why, else the very last; "" where there is none, and where stdout ends with
    how far the program came. *err*: stderr."""
    words = last_words(context)
    found = (line for tells in (*_CERTAIN, _has_error_word) for line in reversed(words) if tells(line))
    last = words[-1] if words else ""
    tells_nothing = last not in err and (len(last.split()) < 2 or _PROGRESS.search(last))
    return next(found, "" if tells_nothing else last)


def last_words(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if not is_chatter(line)][-LAST_LINES:]


def _last(err: Sequence[str], out: Sequence[str]) -> Sequence[str]:
    return [*out[-LAST_LINES:], *err[-CONTEXT_LINES:]]


def _unsurvived(lines: Sequence[str], root: RootCause | None, *, near: bool) -> Traceback | None:
    """Not one that was printed and survived: a program that goes on tells how it gets on."""
    found = tracebacks(lines)
    block = choose(found, root)
    if block is None or root is not None:
        return block
    later = sum(len(other.lines) for other in found if other.end > block.end)
    if len(lines) - block.end - later <= CONTEXT_LINES:
        return block
    return None if near or _went_on(lines[block.end + 1 :]) else block


def _last_error(lines: Sequence[str]) -> int | None:
    """Index of the last line that tells of an error, unless the program went on after it."""
    looked_at = 0
    for at in range(len(lines) - 1, -1, -1):
        if not _NEEDLE.search(lines[at]):
            continue
        looked_at += 1
        if looked_at > _MOST_LOOKED_AT:
            return None
        if _tells(lines[at]):
            return None if _went_on(lines[at + 1 :]) else at
    return None


def _has_error_word(line: str) -> bool:
    return _ERROR_WORDS.search(line) is not None


def _tells(line: str) -> bool:
    told = tells_an_error(line) or _RANKS.search(line) is not None
    return told and not HANDLED.search(line) and not is_chatter(line)


def _is_of_exception(line: str) -> bool:
    return names_an_exception(line) and not HANDLED.search(line)


def _tells_itself(line: str) -> bool:
    return _tells(line) and not _LAUNCHER.match(line)


_CERTAIN: tuple[Callable[[str], bool], ...] = (_is_of_exception, _tells_itself, _tells)
"""What is said for certain goes first, wherever it stands: programs and launchers comment on an error after it."""


def _went_on(lines: Sequence[str]) -> bool:
    told = (line for line in lines if _PROGRESS.search(line))
    return len(list(islice(told, _GOES_ON))) == _GOES_ON
