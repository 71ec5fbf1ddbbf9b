"""When a deck that runs will have run: what is left of it, simulated from where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .budget import spent_budget, used_gpu_s
from .build import build
from .deck import Deck, Task
from .devices import Gpu
from .hours import Clock
from .learned import Entry
from .phases import ACTIVE, QUEUED, Attempt, Backoff, Queued, Starting, Unknown, Waiting
from .spec import DeckFile, DeckSettings, TaskSpec

if TYPE_CHECKING:
    from .simulate import Ahead
    from .task import Success

SIMULATED = 1_000
"""Tasks up to which what is left is simulated; of more, their work is shared out over the slots."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """If the known durations hold and nothing fails."""

    left_s: float | None
    """Seconds until everything that can run has run; None: no task that is left has been measured."""
    unmeasured: int = 0
    """Tasks whose length nobody knows. They count nothing: with one of them `left_s` is a lower bound."""


@dataclass(frozen=True, slots=True)
class _Left:
    """A task that has still to run, or to end."""

    task: Task
    attempt: Attempt | None
    seconds: float | None
    wait_s: float = 0.0

    @property
    def bound_s(self) -> float:
        return self.wait_s + (self.seconds or 0.0)


def stands_still(deck: Deck) -> bool:
    """Nothing starts until a user says so, so that nobody can tell when the rest has run."""
    return bool(deck.paused or deck.run.halted or deck.unwritable)


def forecast(deck: Deck, at: float) -> Forecast:
    """Costs about half a millisecond for each task that is left. Only reads the deck: may run beside the loop."""
    unasked = deck.unasked
    left = [_left(deck, task, at) for task in list(deck.tasks) if _is_left(task) and task.index not in unasked]
    measured = sum(item.seconds is not None for item in left)
    if stands_still(deck) or spent_budget(deck, at) or (left and not measured):
        return Forecast(None, len(left) - measured)
    few, runs = len(left) <= SIMULATED, [item for item in left if item.attempt is not None]
    span_s = _simulated_s(deck, left, at) if few else _shared_out_s(deck, left)
    if left and not (span_s or runs):  # all that is left is held, or waits for what is
        return Forecast(None, len(left) - measured)
    backing_off = [item for item in left if item.wait_s and not item.task.held]
    ends_s = [item.bound_s for item in ((*runs, *backing_off) if few else left)]
    return Forecast(max([span_s, *ends_s]), len(left) - measured)


def _is_left(task: Task) -> bool:
    phase = task.phase
    return isinstance(phase, ACTIVE) or (task.selected and isinstance(phase, (Waiting, Queued, Backoff)))


def _left(deck: Deck, task: Task, at: float) -> _Left:
    phase, attempt = task.phase, task.attempt()
    if isinstance(phase, Unknown):
        return _Left(task, attempt, None)
    if attempt is not None and attempt.ends_at is not None:
        return _Left(task, attempt, max(0.0, attempt.ends_at - at))
    expected = deck.typical_s(task)
    if expected is not None and attempt is not None and attempt.began:
        expected = max(0.0, expected - (at - attempt.at))
    return _Left(task, attempt, expected, max(0.0, phase.until - at) if isinstance(phase, Backoff) else 0.0)


def _shared_out_s(deck: Deck, left: Sequence[_Left]) -> float:
    """As if all slots were busy to the last moment."""
    on_cards = on_cpu = 0.0
    for item in left:
        gpus = item.task.begun_spec.resources.gpus
        if gpus == 0 or deck.cluster:
            on_cpu += item.seconds or 0.0
        else:
            on_cards += (item.seconds or 0.0) * (len(deck.gpus) if gpus == "all" else gpus)
    if deck.cluster:
        return on_cpu / deck.cluster
    return max(on_cards / max(1, gpu_slots(deck)), on_cpu / deck.cpu_slots)


def gpu_slots(deck: Deck) -> int:
    """Places for tasks that want a GPU, whether they run on one or not."""
    if deck.on_cpu:
        return deck.on_cpu_slots
    return sum(gpu.slots if isinstance(gpu.slots, int) else 1 for gpu in deck.gpus.values() if not gpu.lost)


# -- simulated --------------------------------------------------------------------------------------------------------


def _simulated_s(deck: Deck, left: Sequence[_Left], at: float) -> float:
    """A deck of what is left, in which that runs on which runs now."""
    from .simulate import simulate  # the whole core, which those that only show a forecast do not need

    by_name = {item.task.name: item for item in left}
    rest = build(
        DeckFile("", "", _from_now(deck, at), tuple(_spec_from_now(deck, item.task, at) for item in left)),
        gpus=[_as_it_is(gpu) for gpu in list(deck.gpus.values())],
        cores=deck.cores,
        on_cpu=deck.on_cpu,
    )
    done = _done_before(deck, left)
    rest.successes.update(done)
    rest.known.update(name for name in by_name if name in deck.known)
    for task in rest.tasks:
        before = by_name[task.name].task
        task.held, task.priority, task.effective = before.held, before.priority, before.effective
        task.avoid, task.attempts = before.avoid, before.attempts
        _teach(task.entry, before.entry)
    rest.mixed = deck.mixed
    ahead = [goes_on(rest, item.task.name, item.attempt, item.seconds) for item in left if item.attempt is not None]
    planned = simulate(
        rest,
        lambda task: by_name[task.name].seconds,
        takes=tuple(deck.run.takes),
        done=lambda task: task.name in done,
        guess_s=0.0,
        memory_mib=deck.memory_total_mib or None,
        wall=at + deck.wall_ahead,
        ahead=ahead,
    )
    return max((item.end_s for item in planned), default=0.0)


def _from_now(deck: Deck, at: float) -> DeckSettings:
    """A run that begins now waits for no time of day that this one has waited for, and has what is left of the
    budget."""
    settings = deck.settings
    settings = replace(settings, begin=None) if _has_come(deck, settings.begin, at) else settings
    hours = settings.budget.gpu_hours
    if hours is None:
        return settings
    left = max(0.0, hours - used_gpu_s(deck, at) / 3600)
    return replace(settings, budget=replace(settings.budget, gpu_hours=left))


def _spec_from_now(deck: Deck, task: Task, at: float) -> TaskSpec:
    spec = task.begun_spec
    if not _has_come(deck, spec.resources.begin, at):
        return spec
    return replace(spec, resources=replace(spec.resources, begin=None))


def _has_come(deck: Deck, begin: Clock | None, at: float) -> bool:
    return begin is not None and begin.next(deck.run.started_wall) <= at + deck.wall_ahead


def _as_it_is(gpu: Gpu) -> Gpu:
    """As the user and its faults leave it; others who are on it may leave at any time."""
    return Gpu(
        gpu.uuid, gpu.index, gpu.order, gpu.slots, gpu.total_mib, gpu.model, gpu.links, gpu.node, lost=gpu.lost,
        mark=gpu.mark,
    )  # fmt: skip


def _done_before(deck: Deck, left: Sequence[_Left]) -> dict[str, Success]:
    """Of what waits, that which will be found done."""
    waits = (item.task for item in left if isinstance(item.task.phase, Waiting))
    known = ((task.name, deck.successes.get(task.name)) for task in waits if not (task.forced or task.unfinished))
    return {name: success for name, success in known if success is not None}


def _teach(entry: Entry, before: Entry) -> None:
    entry.longest_s, entry.placed_s = before.longest_s, before.placed_s
    entry.typical_s, entry.peak = before.typical_s, before.peak


def goes_on(rest: Deck, name: str, attempt: Attempt, left_s: float | None) -> Ahead:
    """Let a task of a deck that has not begun run as it does where *attempt* is under way."""
    from .simulate import Ahead

    task = rest.by_name[name]
    own = Attempt(
        attempt.number, attempt.token, attempt.fingerprint, attempt.gpus, attempt.cpu_slots, attempt.reserved_mib,
        0.0, 0.0, alone=attempt.alone, where=attempt.where, began=attempt.began,
    )  # fmt: skip
    rest.move(task, QUEUED)
    rest.move(task, Starting(own))
    return Ahead(task, own.token, left_s)
