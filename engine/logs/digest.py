"""The lines that tell why an attempt ended as it did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .cause import is_bar, lines_of_rank, root_cause
from .examine import tail_lines
from .failure import choose_in

_TRACEBACK_FACTOR = 3
"""A traceback may be this many times longer than other digests before its middle is left out."""


def digest(err_path: str, out_path: str, n: int = 20) -> tuple[str, ...]:
    """The right traceback with all that is chained to it; else torchrun's root cause after that rank's last lines; else
    the last *n* lines of stderr, of stdout where stderr has none.

    Printable lines; empty when there is no log. Reads files, takes some ms. Raises nothing.
    """
    err, out = tail_lines(err_path, out_path)
    root = root_cause(err) or root_cause(out)
    block = choose_in(err, out, root)
    if block is not None:
        who = [f"rank {root.rank}:"] if root else []
        return (*who, *_shortened(block.lines, n * _TRACEBACK_FACTOR))
    if root is not None:
        said = _collapsed(lines_of_rank(err, root.rank))[-n:]
        return (*said[max(0, len(said) + len(root.lines) - n) :], *root.lines)
    return tuple(_collapsed(err) or _collapsed(out))[-n:]


def _collapsed(lines: Iterable[str]) -> list[str]:
    """Without blank lines, and of progress bars that follow each other only the last."""
    kept: list[str] = []
    for line in lines:
        if not line.strip():
            continue
        if kept and is_bar(line) and is_bar(kept[-1]):
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
