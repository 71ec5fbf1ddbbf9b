"""The lines that tell why an attempt ended as it did."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .cause import choose_in, far_error, lines_of_rank, near_error
from .failure import rank_in_words
from .files import AttemptPaths, telling_log
from .ranks import Tails, tails
from .signs import is_chatter, is_progress

_NOT_FOUND = re.compile(r"gpudeck: (?:line )?\d+: (?:exec: )?(?P<command>.*): not found")
_TRACEBACK_FACTOR = 3
"""A traceback may be this many times longer than other digests before its middle is left out."""

_END_LINES = 3
"""Of what comes after an error."""


def digest(err_path: str, out_path: str, n: int = 20) -> tuple[str, ...]:
    """`digest_of` what logs end with. Reads files, takes some ms. Raises nothing."""
    return digest_of(tails(err_path, out_path), n)


def blamed_log(end: Tails, paths: AttemptPaths) -> str:
    """The log in which the cause stands: the attempt's, or that of the rank which is the reason."""
    blamed = end.root.rank if end.root is not None and end.ranks else 0
    return telling_log(paths.of_rank(blamed))


def digest_of(end: Tails, n: int = 20) -> tuple[str, ...]:
    """The right traceback with all that is chained to it; else torchrun's root cause after that rank's last lines; else
    the last *n* lines of stderr, of stdout where stderr has none; where these tell nothing, those up to the last error
    and then the very last.

    Printable lines; empty when there is no log.
    """
    err, out, root = end.err, end.out, end.root
    block = choose_in(err, out, root)
    if block is not None:
        who = [f"{rank_in_words(root, end.ranks)}:"] if root else []
        return (*who, *_shortened(block.lines, n * _TRACEBACK_FACTOR))
    if root is not None:
        said = _collapsed(lines_of_rank(err, root.rank))[-n:]
        return (*said[max(0, len(said) + len(root.lines) - n) :], *root.lines)
    told = near_error(err, out) or far_error(err, out)
    if told is not None:
        lines, at = told
        later = [line for line in lines[at + 1 :] if not is_chatter(line)]
        return tuple(map(_in_words, _with_end(_collapsed(lines[: at + 1]), later, n)))
    return tuple(map(_in_words, (_collapsed(err) or _collapsed(out))[-n:]))


def _with_end(before: list[str], later: list[str], n: int) -> list[str]:
    """Up to the error, and how the log ends."""
    left_out = len(later) - _END_LINES
    end = later
    if left_out > 1 and len(later) > n // 2:
        end = [f"  … {left_out} lines left out …", *later[-_END_LINES:]]
    return [*before[-max(1, n - len(end)) :], *end]


def _in_words(line: str) -> str:
    """What our shell says of a command that it does not find, without the number of a line that nobody wrote."""
    found = _NOT_FOUND.fullmatch(line.strip())
    return f"command not found: {found['command']}" if found else line


def _collapsed(lines: Iterable[str]) -> list[str]:
    """Without blank lines, and of lines of progress that follow each other only the last."""
    kept: list[str] = []
    for line in lines:
        if not line.strip():
            continue
        if kept and is_progress(line) and is_progress(kept[-1]):
            kept.pop()
        kept.append(line)
    return kept


def _shortened(lines: Sequence[str], limit: int) -> tuple[str, ...]:
    """The end tells most; the beginning tells which program it was."""
    if len(lines) <= limit:
        return tuple(lines)
    head = max(1, limit // 6)
    tail = max(1, limit - head - 1)
    return (*lines[:head], f"  … {len(lines) - head - tail} lines left out …", *lines[-tail:])
