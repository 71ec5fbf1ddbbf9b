"""Finds in the ends of logs what an end was caused by: the right traceback, what torchrun and srun say of the rank that
failed first, else the line that tells of an error. Pure; texts come from `printable.lines_of`."""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from .signs import NEEDLES, first_sign, is_chatter, names_an_exception, stands_alone, tells_an_error

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


_SAID = re.compile(r"(?:srun|slurmstepd[\w.-]*): ")
_ENDED = re.compile(r"srun: error: [^\s:]+: tasks? (\d+)[\d,-]*: (.+)")
_CODE = re.compile(r"Exited with exit code (\d+)")
_SIGNALS = {signals.strsignal(number): int(number) for number in signals.valid_signals()}


def step_cause(lines: Sequence[str]) -> RootCause | None:
    """The first task that srun names: those after it were ended because of it. None: it names none."""
    for line in lines:
        if said := _ENDED.match(line):
            return RootCause(int(said[1]), _code(said[2]), (line,))
    return None


def split_step(lines: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The tasks' lines, and srun's."""
    said = [line for line in lines if _SAID.match(line)]
    return ([line for line in lines if not _SAID.match(line)], said) if said else (lines, ())


def _code(words: str) -> int | None:
    """As `RootCause` has it: a signal's number is negative."""
    if code := _CODE.match(words):
        return int(code[1])
    number = _SIGNALS.get(words.removesuffix(" (core dumped)"))
    return -number if number is not None else None


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
