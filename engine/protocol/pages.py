"""What the further pages of a screen show: attempts over time, entries and rounds, failures. Answers to requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

EdgeKind = Literal["needs", "after"]
BarrierState = Literal["open", "waits", "shut"]


class AttemptRow(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One attempt, over or not. Times are seconds since the epoch."""

    task: str
    attempt: int
    gpus: tuple[int, ...] = ()
    """Indices; empty: CPU slots, or GPUs that the box does not have any more."""
    start: float
    end: float | None = None
    """None: it lasts."""
    kind: str = ""
    """How it ended, in one word: ok, exit, oom, timeout, …; empty: it lasts."""
    run: int = 0
    nodes: tuple[str, ...] = ()
    """Nodes of the cluster that it ran on."""


class TimelinePage(msgspec.Struct, frozen=True, kw_only=True):
    """A portion of the attempts, task by task in file order."""

    attempts: list[AttemptRow]
    now: float
    """When this was told."""
    next: int | None = None
    """What to ask on with as `start`; None: these were the last."""


class GraphBox(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of one entry in one round."""

    entry: str
    group: str = ""
    round: int = 0
    total: int = 0
    counts: Mapping[str, int] = {}
    """Tasks by state."""


class GraphEdge(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of one box wait for tasks of another."""

    before: int
    """Place among the boxes."""
    behind: int
    kind: EdgeKind


class GraphBarrier(msgspec.Struct, frozen=True, kw_only=True):
    """What stands before a round."""

    group: str = ""
    round: int = 0
    """The round behind it."""
    barrier: Literal["succeeded", "ended"] = "succeeded"
    state: BarrierState = "open"
    why: str = ""
    """What it waits for, or what has shut it: "round 0 closed by 1 failed: train-3"."""
    tasks: tuple[str, ...] = ()
    """The first few of those, by name."""


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """How a deck hangs together, by entries."""

    boxes: list[GraphBox]
    """In file order."""
    edges: list[GraphEdge]
    barriers: list[GraphBarrier]


class Failure(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A failed task and the attempt that it failed in."""

    task: str
    attempt: int = 0
    kind: str = ""
    """exit, signal, oom, timeout, …"""
    reason: str = ""
    """In words: "exit 1: ValueError: …"."""
    hint: str = ""
    """What may be done about it; empty: nothing known."""
    exit_code: int | None = None
    gpus: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    ended: float = 0.0
    """Seconds since the epoch."""
    duration_s: float = 0.0
    log: str = ""
    """Absolute paths; the same where the streams are merged."""
    err: str = ""


class Failures(msgspec.Struct, frozen=True, kw_only=True):
    """The newest failures first."""

    total: int
    """Failed tasks of the deck, more than are told of perhaps."""
    failures: list[Failure]
