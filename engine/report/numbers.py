"""How a deck stands in numbers: counts, slots; and why a GPU stands idle."""

from __future__ import annotations

from collections import Counter

from ..core.deck import Deck
from ..core.devices import Gpu
from ..core.fit import Need, bar
from ..core.forecast import gpu_slots
from ..core.phases import (
    ACTIVE,
    Backoff,
    Blocked,
    Cached,
    Cancelled,
    Failed,
    Pruned,
    Queued,
    Starting,
    Succeeded,
    Unknown,
    Waiting,
)
from ..protocol.counts import Counts

_LOOK_AT = 5_000
"""Tasks that are looked at to see whether the deck wants GPUs."""


def counts_of(deck: Deck) -> Counts:
    """Of the deck's tasks; what runs is counted also where it has left the file, but not in the total."""
    total = deck.counts.total()
    counts = deck.counts + Counter(type(task.phase) for task in deck.active.values() if not task.selected)
    pending = counts[Starting] if deck.cluster else 0
    return Counts(
        total=total,
        waiting=counts[Waiting],
        queued=counts[Queued],
        running=sum(counts[phase] for phase in ACTIVE if phase is not Unknown) - pending,
        pending=pending,
        backoff=counts[Backoff],
        succeeded=counts[Succeeded],
        cached=counts[Cached],
        failed=counts[Failed],
        cancelled=counts[Cancelled],
        pruned=counts[Pruned],
        blocked=counts[Blocked],
        unknown=counts[Unknown],
    )


_ANY = Need(1, None, False, frozenset())


def why_unused(deck: Deck, gpu: Gpu, at: float) -> tuple[str, str]:
    """Why nothing starts on a GPU, (kind, words); two empty ones where something may."""
    if gpu.uuid not in deck.gpus and not gpu.lost:
        return "leaving", "no longer the deck's, until what runs on it has ended"
    obstacle = bar(deck, gpu, _ANY, at)
    return ("", "") if obstacle is None else (obstacle.kind, obstacle.why)


def slot_count(deck: Deck) -> int:
    """How many of the deck's GPU tasks can run at once; where it has none, of its CPU tasks. Of a cluster: how many
    jobs it is given at once."""
    if deck.cluster:
        return deck.cluster
    return gpu_slots(deck) if _wants_gpus(deck) else deck.cpu_slots


def used_slots(deck: Deck) -> int:
    """How many of `slot_count` are taken; a task on four GPUs takes four."""
    if deck.cluster:
        return len(deck.active)
    if not _wants_gpus(deck):
        return deck.cpu_used
    if deck.on_cpu:
        return deck.cpu_used - deck.cpu_tasks
    return sum(len(gpu.holders) for gpu in deck.gpus.values() if not gpu.lost)


def _wants_gpus(deck: Deck) -> bool:
    return any(task.spec.resources.gpus != 0 for task in deck.tasks[:_LOOK_AT])
