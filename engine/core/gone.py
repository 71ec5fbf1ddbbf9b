"""Tasks that the file no longer has and that still run: they keep their slots to their end, and nobody waits for them
but the tasks that they were renamed to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from .attempt_events import AttemptStarting
from .deck import Deck, Task
from .gates import Gate, GateState
from .learned import Entry
from .recorded import Recorded
from .spec import Resources, TaskSpec, Work
from .urgency import demand_of, follow


def add_gone(deck: Deck, spec: TaskSpec, twins: Iterable[str] = ()) -> Task:
    """Add a task that the file does not have. *twins*: new tasks that do the same work; they come after it, so that
    what runs under the old name is not started a second time under the new one."""
    entry = deck.entries.get(spec.entry)
    if entry is None:
        entry = deck.entries[spec.entry] = Entry(spec.entry)
    task = Task(len(deck.tasks), spec, entry, priority=spec.priority, effective=spec.priority)
    task.selected, task.gone = False, True
    deck.tasks.append(task)
    deck.by_name[spec.name] = task
    deck.share_outputs(spec.outputs)
    if deck.opened == task.index:
        deck.opened += 1
    waiting = [deck.by_name[name] for name in twins if name in deck.by_name and deck.by_name[name].selected]
    if waiting:
        _come_after(deck, task, waiting)
    return task


def add_unfiled(deck: Deck, told: Recorded, before: Callable[[], Mapping[str, TaskSpec]]) -> None:
    """Add the tasks of attempts that have not ended as far as the journal knows, and that neither the file nor the deck
    has: they left the file, or were renamed in it, while no engine looked. *before*: tasks by name as the deck took
    them from its file last, as far as that is known; what `deck.begun` has of an attempt goes before."""
    unfiled = [start for start in told.lasting.values() if start.task not in deck.by_name]
    if not unfiled:
        return
    names = {task for task, _ in told.starts}
    for start in unfiled:
        spec = deck.begun.get(start.token) or before().get(start.task)
        if spec is None or spec.fingerprint != start.fingerprint:
            spec = _spec_of(start)
        add_gone(deck, spec, twins_of(deck, spec, names))


def _spec_of(start: AttemptStarting) -> TaskSpec:
    """A task as far as the start of its attempt tells. It is never started again: its command is not needed."""
    return TaskSpec(
        name=start.task,
        entry=start.task,
        position=0,
        work=Work(()),
        fingerprint=start.fingerprint,
        resources=Resources(gpus=len(start.gpus), cpus=start.cpu_slots or None),
        outputs=start.outputs,
    )


def twins_of(deck: Deck, spec: TaskSpec, known: Iterable[str]) -> tuple[str, ...]:
    """Tasks that do the same work under a name that is not among *known*."""
    old = frozenset(known)
    return tuple(
        task.name
        for task in deck.tasks
        if task.spec.fingerprint == spec.fingerprint and task.name not in old and task.selected and not task.gone
    )


def _come_after(deck: Deck, task: Task, waiting: list[Task]) -> None:
    gate = Gate("after", task.name, [task.index], [other.index for other in waiting])
    gate.counts[task.standing] += 1
    task.feeds = (gate,)
    for other in waiting:
        other.gates = (*other.gates, gate)
    deck.gates.append(gate)
    gate.demand = demand_of(deck, gate)
    follow(deck, task)
    gate.state = gate.judged()
    if gate.state is not GateState.OPEN:
        deck.gate_changed(gate)
