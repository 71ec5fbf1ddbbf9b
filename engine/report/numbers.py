"""How a deck stands in numbers: counts, slots, when it may be over; and why a GPU stands idle."""

from __future__ import annotations

from ..core.deck import Deck, Task
from ..core.devices import Gpu
from ..core.fit import Need, bar
from ..core.phases import (
    ACTIVE,
    Backoff,
    Blocked,
    Cached,
    Cancelled,
    Failed,
    Queued,
    Starting,
    Succeeded,
    Unknown,
    Waiting,
)
from ..protocol.counts import Counts

LOOK_AT = 5_000
"""Tasks up to which the time left is summed up one by one."""


def counts_of(deck: Deck) -> Counts:
    counts = deck.counts
    pending = counts[Starting] if deck.cluster else 0
    return Counts(
        total=sum(counts.values()),
        waiting=counts[Waiting],
        queued=counts[Queued],
        running=sum(counts[phase] for phase in ACTIVE if phase is not Unknown) - pending,
        pending=pending,
        backoff=counts[Backoff],
        succeeded=counts[Succeeded],
        cached=counts[Cached],
        failed=counts[Failed],
        cancelled=counts[Cancelled],
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


def _remaining_s(deck: Deck, task: Task, at: float) -> float | None:
    attempt = task.attempt()
    if attempt is not None and attempt.ends_at is not None:
        return max(0.0, attempt.ends_at - at)
    expected = deck.learned.seconds(task.spec.fingerprint) or task.entry.typical_s
    if expected is None:
        return None
    return expected if attempt is None or not attempt.began else max(0.0, expected - (at - attempt.at))


def stands_still(deck: Deck) -> bool:
    """Nothing starts until a user says so, so that nobody can tell when the rest has run."""
    return bool(deck.paused or deck.run.halted or deck.unwritable)


def eta_s(deck: Deck, at: float) -> float | None:
    """Seconds until everything that can run has run, if the known durations hold; None: too little is known, or
    nothing starts until a user says so."""
    if stands_still(deck):
        return None
    if len(deck.tasks) > LOOK_AT:
        return _rough_eta_s(deck)
    on_gpus, on_cpu, longest = 0.0, 0.0, 0.0
    for task in deck.tasks:
        if task.selected and isinstance(task.phase, (Waiting, Queued, Backoff, *ACTIVE)):
            left = _remaining_s(deck, task, at)
            if left is None:
                return None
            if task.spec.resources.gpus == 0:
                on_cpu += left
            else:
                on_gpus += left
            longest = max(longest, left)
    if deck.cluster:
        return max(longest, (on_gpus + on_cpu) / deck.cluster)
    return max(longest, on_gpus / max(1, gpu_slots(deck)), on_cpu / max(1, deck.cpu_slots))


def _rough_eta_s(deck: Deck) -> float | None:
    known = [entry.typical_s for entry in deck.entries.values() if entry.typical_s is not None]
    if not known:
        return None
    counts = deck.counts
    left = counts[Waiting] + counts[Queued] + counts[Backoff] + len(deck.active)
    return left * sum(known) / len(known) / max(1, slot_count(deck))


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
    return any(task.spec.resources.gpus != 0 for task in deck.tasks[:LOOK_AT])


def gpu_slots(deck: Deck) -> int:
    """Places for tasks that want a GPU, whether they run on one or not."""
    if deck.on_cpu:
        return deck.on_cpu_slots
    return sum(gpu.slots if isinstance(gpu.slots, int) else 1 for gpu in deck.gpus.values() if not gpu.lost)
