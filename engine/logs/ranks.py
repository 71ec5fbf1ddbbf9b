"""What an attempt's logs end with: of one of several processes those of the rank that tells why it failed.

torchrun and srun name the rank whose end they saw first. That is not always the one to blame: of ranks that wait for
each other one may see the other's connection go before the launcher sees its process end.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .cause import RootCause, root_cause, split_step, step_cause, tracebacks
from .failure import classify
from .files import rank_logs
from .log_file import read_tail
from .printable import lines_of, printable

_MANY_RANKS_BYTES = 1 << 20
"""The rank that failed first wrote first: the others' tracebacks may have pushed its own out of the usual tail."""
_MOST_LOOKED_AT = 64
_LAUNCHER_ENDS = re.compile(r"torch\.distributed\.elastic\.\S{1,80}\.(?:ChildFailedError|SignalException)\b")
_LAUNCHER_LOGS = re.compile(r"\[?[WEI]\d{4} .{1,60} torch/distributed/elastic/")
_HEADER = "Traceback (most recent call last)"


@dataclass(frozen=True, slots=True)
class Tails:
    """Printable ends of logs; with merged streams all of it is stderr's."""

    err: Sequence[str]
    out: Sequence[str]
    root: RootCause | None = None
    """The rank to blame, where a launcher names one."""
    ranks: int = 0
    """How many ranks have logs; 0: they all write to the same."""


def tails(err_log: str, out_log: str) -> Tails:
    """For `classify` and `digest`. Raises nothing."""
    err = lines_of(read_tail(err_log))
    out = lines_of(read_tail(out_log)) if out_log != err_log else []
    logs = rank_logs(out_log)
    root = root_cause(err) or root_cause(out) or (step_cause(err) if logs else None)
    if root is None:
        own, _ = _split(err)
        return Tails(own if own or out else err, out)
    if logs:
        return _of_ranks(err, out, root, logs, out_log)
    if not any(block.rank == root.rank for block in tracebacks(err)):
        err = lines_of(read_tail(err_log, _MANY_RANKS_BYTES))
    return Tails(err, out, root)


@dataclass(frozen=True, slots=True)
class _Rank:
    """What one rank's logs end with."""

    number: int
    err: Sequence[str]
    out: Sequence[str]
    written: float

    @property
    def raised(self) -> bool:
        """It ended by an exception that is no other rank's end."""
        return any(not block.follow_up for block in (*tracebacks(self.err), *tracebacks(self.out)))

    @property
    def lacked_memory(self) -> bool:
        return classify(self.err, self.out, exit_code=1, signal=None).reason == "oom"


def _of_ranks(
    err: Sequence[str], out: Sequence[str], root: RootCause, logs: Mapping[int, tuple[str, str]], out_log: str
) -> Tails:
    own, launchers = _split(err)
    if not launchers:
        own, launchers = split_step(err)
    first = _Rank(0, own, out, _written(out_log))
    ranks = {0: first} | {rank: _read(rank, *logs[rank]) for rank in list(logs)[:_MOST_LOOKED_AT]}
    blamed = _blamed(list(ranks.values()), root)
    told = ranks.get(blamed, _Rank(blamed, (), (), 0.0))
    if blamed != root.rank:
        return Tails(
            _marked(blamed, told.err), told.out, replace(root, rank=blamed, exit_code=None, lines=()), len(ranks)
        )
    recorded = () if told.raised else _recorded(f"{out_log.removesuffix('.log')}.error.json")
    return Tails([*_marked(blamed, (*told.err, *recorded)), *launchers], told.out, root, len(ranks))


def _blamed(ranks: Sequence[_Rank], root: RootCause) -> int:
    """Memory that ran out in any of them is the cause, whoever was seen to end first."""
    lacking = [rank.number for rank in ranks if rank.lacked_memory]
    if lacking:
        return root.rank if root.rank in lacking else lacking[0]
    named = next((rank for rank in ranks if rank.number == root.rank), None)
    if root.killed or (named is not None and named.raised):
        return root.rank
    raised = [rank for rank in ranks if rank.raised]
    return min(raised, key=lambda rank: rank.written).number if raised else root.rank


def _split(err: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Rank 0's lines, and what the launcher says at its end: which rank failed, or that it was asked to end itself."""
    for at in range(len(err) - 1, -1, -1):
        if _LAUNCHER_ENDS.search(err[at]):
            begin = next((before for before in range(at, -1, -1) if _HEADER in err[before]), at)
            return [line for line in err[:begin] if not _LAUNCHER_LOGS.match(line)], err[begin:]
    return err, ()


def _read(rank: int, out_log: str, err_log: str) -> _Rank:
    out = lines_of(read_tail(out_log)) if out_log != err_log else []
    return _Rank(rank, lines_of(read_tail(err_log)), out, _written(err_log))


def _written(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _marked(rank: int, lines: Sequence[str]) -> list[str]:
    """As torch marks them where ranks share a log."""
    return [f"[rank{rank}]: {line}" for line in lines]


def _recorded(path: str) -> Sequence[str]:
    """The traceback in the file that torch's `record` writes; not that of a launcher, which on another node writes its
    own end there when it is asked to end."""
    try:
        with open(path, "rb") as file:
            found: Any = json.loads(file.read(_MANY_RANKS_BYTES))
        stack = found["message"]["extraInfo"]["py_callstack"]
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    if not isinstance(stack, str) or _LAUNCHER_ENDS.search(stack):
        return ()
    return [printable(line) for line in stack.splitlines()]
