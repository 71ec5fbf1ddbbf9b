"""Finds in a log what an end was caused by: the right traceback, and torchrun's word on which rank failed first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .chatter import stands_alone

_HEADER = "Traceback (most recent call last)"
_RANK_PREFIX = re.compile(r"(?:\[(?:rank|default)(\d+)\]: ?)+")
_EXCEPTION = re.compile(r"[^\W\d][\w.<>]*(?::.*)?")
_GROUPED = re.compile(r"[ ]*\| ([A-Za-z_][\w.]*: .*)")
_CHAIN = ("The above exception was the direct cause", "During handling of the above exception")
_SECONDARY = (
    "Exception ignored ", "Exception in thread", "Error in atexit", "--- Logging error ---", "future: <", "handle: <",
)  # fmt: skip
"""One of these is in the line above a traceback that is not the program's own end."""
_MAX_MESSAGE_LINES = 8
_MAX_NOISE_LINES = 5

_FOLLOW_UP = re.compile(
    r"[Cc]onnection (?:closed|reset) by peer|[Cc]onnection refused|[Bb]roken pipe|ChildFailedError|CalledProcessError"
    r"|ProcessExitedException|ProcessRaisedException|ConnectionResetError|BrokenPipeError|EOFError|SignalException"
    r"|BrokenProcessPool|KeyboardInterrupt|SystemExit|remote process exited|DistBackendError|DistNetworkError|NCCL"
    r"|Engine core initialization failed|CancelledError"
)
"""Exceptions that tell of another process's end, or of a request to end, not of a cause."""

_PORT_TAKEN = re.compile(r"EADDRINUSE|[Aa]ddress already in use")
"""A network's error that is a cause: no other process of the task has ended by it yet."""

_RANK = re.compile(r"\s*rank\s+: (\d+)")
_TIME = re.compile(r"\s*time\s+: (\S+)")
_ABORTED = -6
_EXIT_CODE = re.compile(r"\s*exitcode\s+: (-?\d+)")


@dataclass(frozen=True, slots=True)
class Traceback:
    """One printed traceback, with the exceptions chained to it."""

    end: int
    """Index of its last line in the log's lines."""
    lines: tuple[str, ...]
    exceptions: tuple[str, ...]
    """The line that names the exception, for each of the chain, oldest first."""
    rank: int | None = None
    secondary: bool = False
    """Printed by a thread or at exit beside the program's own end."""

    @property
    def follow_up(self) -> bool:
        return self.secondary or all(map(_is_follow_up, self.exceptions))

    @property
    def summary(self) -> str:
        """The exception's line: the last of the chain that tells of a cause."""
        causes = [line for line in self.exceptions if not _is_follow_up(line)]
        return (causes or self.exceptions)[-1]


@dataclass(frozen=True, slots=True)
class RootCause:
    """torchrun's block on the rank that failed first."""

    rank: int
    exit_code: int | None
    """Negative: the number of the signal that ended it; None: not told."""
    lines: tuple[str, ...]
    time: str = ""
    """When its launcher saw it, by its node's clock: "2026-11-20_10:49:21"; empty: not told."""

    @property
    def killed(self) -> bool:
        """Not by NCCL's watchdog, which ends a rank so that waits for one which is gone."""
        return self.exit_code is not None and self.exit_code < 0 and self.exit_code != _ABORTED


def _is_follow_up(line: str) -> bool:
    return _FOLLOW_UP.search(line) is not None and _PORT_TAKEN.search(line) is None


def root_cause(lines: Sequence[str]) -> RootCause | None:
    """The `Root Cause (first observed failure)` block, None without a whole one. Of several nodes each has a launcher:
    the failure that the first of them saw first, and within the same second a killed rank before one that noticed."""
    starts = [at for at, line in enumerate(lines) if "Root Cause (first observed failure)" in line]
    found = [root for at in reversed(starts) if (root := _read_root_cause(lines[at : at + 200])) is not None]
    return min(found, key=lambda root: (root.time, not root.killed), default=None)


def tracebacks(lines: Sequence[str]) -> tuple[Traceback, ...]:
    """Every complete traceback, by its end; lines that torch marks with a rank are read rank by rank."""
    streams: dict[int | None, list[tuple[int, str]]] = {}
    for index, line in enumerate(lines):
        mark = _RANK_PREFIX.match(line)
        rank = int(mark[1]) if mark else None
        streams.setdefault(rank, []).append((index, line[mark.end() :] if mark else line))
    found = [block for rank, stream in streams.items() for block in _read_stream(stream, rank)]
    return tuple(sorted(found, key=lambda block: block.end))


def lines_of_rank(lines: Sequence[str], rank: int) -> list[str]:
    """What torch marked as this rank's, without the marks."""
    marked = ((_RANK_PREFIX.match(line), line) for line in lines)
    return [line[mark.end() :] for mark, line in marked if mark and int(mark[1]) == rank]


def choose(found: Sequence[Traceback], root: RootCause | None) -> Traceback | None:
    """The traceback to show: the root cause's rank first, then the last that is not a follow-up of another end."""
    own = [block for block in found if not block.follow_up]
    if root is None:
        return own[-1] if own else (found[-1] if found else None)
    of_rank = [block for block in own if block.rank == root.rank]
    if of_rank:
        return of_rank[-1]
    unmarked = [block for block in own if block.rank is None]
    return unmarked[-1] if unmarked and (root.exit_code or 0) >= 0 else None


def _read_root_cause(lines: Sequence[str]) -> RootCause | None:
    rank = exit_code = None
    time = ""
    kept: list[str] = []
    for line in lines:
        if line.startswith("===="):
            break
        kept.append(line)
        if rank is None and (found := _RANK.match(line)):
            rank = int(found[1])
        elif not time and (found := _TIME.match(line)):
            time = found[1]
        elif exit_code is None and (found := _EXIT_CODE.match(line)):
            exit_code = int(found[1])
    return None if rank is None or exit_code is None else RootCause(rank, exit_code, tuple(kept), time)


def _read_stream(stream: Sequence[tuple[int, str]], rank: int | None) -> Iterator[Traceback]:
    texts = [text for _, text in stream]
    at = 0
    while at < len(texts):
        if _HEADER not in texts[at]:
            at += 1
            continue
        parts: list[_Part] = []
        header: int | None = at
        while header is not None and (part := _read_part(texts, header)) is not None:
            parts.append(part)
            header = _chained(texts, part.end)
        if parts:
            end = parts[-1].end
            secondary = at > 0 and any(word in texts[at - 1] for word in _SECONDARY)
            exceptions = tuple(line for part in parts for line in part.exceptions)
            yield Traceback(stream[end - 1][0], tuple(_with_gaps(texts, parts)), exceptions, rank, secondary)
            at = end
        else:
            at += 1


@dataclass(frozen=True, slots=True)
class _Part:
    """One traceback of a chain: from its header to the index after its message."""

    start: int
    end: int
    lines: tuple[str, ...]
    exceptions: tuple[str, ...]


def _with_gaps(texts: Sequence[str], parts: Sequence[_Part]) -> Iterator[str]:
    """The parts with the words between them ("During handling of …")."""
    for before, part in zip((None, *parts), parts, strict=False):
        if before is not None:
            yield from texts[before.end : part.start]
        yield from part.lines


def _read_part(texts: Sequence[str], start: int) -> _Part | None:
    """The traceback whose header is at *start*; None when its end is not there."""
    before, _, _ = texts[start].partition(_HEADER)
    if before.strip() == "+ Exception Group":
        return _read_group(texts, start)
    if "╭" in before:
        return _read_plain(texts, start, "", ("│", "╰"))
    return _read_plain(texts, start, before[: len(before) - len(before.lstrip())], ("  ",))


def _read_plain(texts: Sequence[str], start: int, base: str, frame: tuple[str, ...]) -> _Part | None:
    """*base* is the indentation that every line has, *frame* what lines between header and exception begin with."""
    header = texts[start]
    lines = [header if "╭" in header else header[header.index(_HEADER) :]]
    noise, at = 0, start + 1
    while at < len(texts) and noise <= _MAX_NOISE_LINES and _HEADER not in texts[at]:
        text = texts[at].removeprefix(base)
        at += 1
        if text.startswith(frame):
            lines.append(text)
        elif len(lines) > 1 and _EXCEPTION.fullmatch(text) and not stands_alone(text):
            message = _message(texts, at, base)
            return _Part(start, at + len(message), (*lines, text, *message), (text,))
        else:
            noise += 1
    return None


def _message(texts: Sequence[str], at: int, base: str) -> list[str]:
    """Further lines of an exception's message: nothing marks its end, so the first blank or foreign line does."""
    message: list[str] = []
    for line in texts[at : at + _MAX_MESSAGE_LINES]:
        text = line.removeprefix(base)
        if _HEADER in text or stands_alone(text):
            break
        message.append(text)
    return message


def _read_group(texts: Sequence[str], start: int) -> _Part | None:
    end = start + 1
    while end < len(texts) and texts[end].lstrip().startswith(("|", "+")):
        end += 1
    lines = tuple(texts[start:end])
    named = (_GROUPED.fullmatch(line) for line in lines)
    exceptions = tuple(found[1] for found in named if found)
    return _Part(start, end, lines, exceptions) if exceptions else None


def _chained(texts: Sequence[str], at: int) -> int | None:
    """Index of the next traceback's header when it is chained to the one that ends before *at*."""
    after = [index for index in range(at, min(at + 4, len(texts))) if texts[index].strip()]
    if after and texts[after[0]].startswith("Original " + _HEADER):
        return after[0]
    if not after or not texts[after[0]].lstrip().startswith(_CHAIN):
        return None
    for index in range(after[0] + 1, min(after[0] + 4, len(texts))):
        if _HEADER in texts[index]:
            return index
    return None
