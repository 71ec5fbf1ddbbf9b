"""From waiting to queued: gates that changed reach their dependents, and what is done already is cached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from .deck import Deck, Success, Task
from .events import TaskCached
from .gates import GateState
from .output_history import OutputAttempt, doubt
from .phases import BLOCKED, QUEUED, WAITING, Blocked, Cached, Queued, Succeeded, Waiting

_PHASE_FOR = {GateState.OPEN: QUEUED, GateState.WAIT: WAITING, GateState.SHUT: BLOCKED}


def reconsider(deck: Deck, task: Task) -> None:
    """Let a task that has not started follow its gates."""
    if not task.selected or not isinstance(task.phase, (Waiting, Queued, Blocked)):
        return
    phase = _PHASE_FOR[deck.gates_say(task)]
    if phase is QUEUED and (deck.run.ended or task.index in deck.unasked):
        # Nothing is queued in a run that is over, nor what this one does not take up: it waits for the next.
        phase = WAITING
    if type(phase) is not type(task.phase):
        deck.move(task, phase)


def spread(deck: Deck) -> None:
    """Carry changes of gates to the tasks behind them."""
    if deck.unopened:
        deck.unopened = False
        for task in deck.tasks:
            reconsider(deck, task)
    while deck.dirty:
        gates, deck.dirty = deck.dirty, {}
        for gate in gates:
            for index in gate.dependents:
                reconsider(deck, deck.tasks[index])


def arrivals(deck: Deck) -> Iterator[Task]:
    """Tasks that have become queued and of which it is to be decided what becomes of them."""
    while deck.arrivals:
        task = deck.tasks[deck.arrivals.popleft()]
        wanted = task.selected and isinstance(task.phase, Queued)
        if wanted and task.index not in deck.queue and task.index not in deck.checking:
            yield task


def unproven(deck: Deck, task: Task) -> list[Task]:
    """Finished tasks that it needs, and whose outputs another attempt may have spoilt since they were looked at."""
    found: list[Task] = []
    for gate in task.gates:
        if gate.kind not in ("needs", "round") or gate.proof == deck.proof:
            continue
        members = [each for each in map(deck.tasks.__getitem__, gate.members) if each.proof != deck.proof]
        doubtful = [each for each in members if each.selected and each.spec.outputs and has_succeeded(each)]
        found += doubtful
        if not doubtful:
            gate.proof = deck.proof
    return found


def has_succeeded(task: Task) -> bool:
    """As the work that the file says."""
    return isinstance(task.phase, (Succeeded, Cached)) and task.result == task.spec.fingerprint


def success_of(deck: Deck, task: Task) -> Success | None:
    """The success of this very work, under this name or another; None: there is none, or an attempt that
    did not succeed came after it and may have spoilt what it left."""
    work = task.spec.fingerprint
    if task.unfinished == work:
        return None
    success = deck.successes.get(task.name)
    if success is not None and success.fingerprint == work and not task.unfinished:
        return success
    return deck.by_fingerprint.get(work)


def done_before(deck: Deck, task: Task) -> Success | None:
    """Between two runs, of a task that waits for the next one: the success of its work under another name."""
    found = success_of(deck, task) if deck.run.ended and isinstance(task.phase, Waiting) and not task.forced else None
    return found if found is not None and found.attempt and found.task != task.name else None


def is_older(task: Task, success_wall: float) -> bool:
    """Something that it builds on has succeeded again since."""
    return any(gate.latest_success > success_wall for gate in task.gates)


def cached_now(deck: Deck, task: Task, at: float) -> TaskCached | Literal[True] | None:
    """Whether a task that arrives is done: the fact, None when it is not, True when its outputs must be looked at."""
    if task.decided or task.forced or "all" in deck.run.takes or not deck.settings.skip_existing:
        return None
    done = success_of(deck, task)
    if done is not None:
        if is_older(task, done.wall) and "stale" in deck.run.takes:
            return None
        return True if task.spec.outputs else _cached(task, done, at)
    return True if task.spec.outputs and task.name not in deck.known else None


def outputs_doubt(
    deck: Deck, task: Task, others: Sequence[OutputAttempt], changed_wall: float, *, attempted: bool
) -> str:
    """Why the outputs of a task, though they are there, are no result; "" where they are. *others*: other decks'
    attempts at them. *changed_wall*: when they changed last. *attempted*: its log folder holds an attempt."""
    done, spec = success_of(deck, task), task.spec
    wall = None if done is None else done.wall
    if wall is None and (attempted or task.name in deck.known):
        return "an attempt of it did not succeed, or left its logs and nothing else"
    own = deck.output_history.of(spec.outputs)
    filed = [each.task for each in own if (named := deck.by_name.get(each.task)) is not None and not named.gone]
    return doubt(spec, wall, [*own, *others], changed_wall, filed)


def _cached(task: Task, done: Success, at: float) -> TaskCached:
    other = "" if done.task == task.name else done.task
    return TaskCached(task.name, task.spec.fingerprint, "journal", at, done.wall, other, done.attempt)


def cached_by_outputs(deck: Deck, task: Task, at: float) -> TaskCached | None:
    """The same, once its outputs were looked at and found to be a result."""
    if (done := success_of(deck, task)) is not None:
        return _cached(task, done, at)
    if is_older(task, deck.run.started_wall) and "stale" in deck.run.takes:
        return None
    return TaskCached(task.name, task.spec.fingerprint, "outputs", at, deck.run.started_wall)
