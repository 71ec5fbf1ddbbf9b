"""Tasks that the file no longer has and that still run: they keep their slots to their end, and nobody waits for them
but the tasks that they were renamed to."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from .attempt_events import AttemptStarting
from .deck import Deck, Task
from .gates import Gate, GateState
from .learned import Entry
from .recorded import Recorded
from .spec import Resources, TaskSpec, Work
from .urgency import demand_of, follow


def add_gone(deck: Deck, spec: TaskSpec, beside: Container[str] = ()) -> Task:
    """Add a task that the file does not have. Tasks that do the same work come after it, but those that did so *beside*
    it: it was renamed to them, and what runs under the old name is not started a second time under a new one."""
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
    waiting = [other for other in _same_work(deck, spec) if other.name not in beside]
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
    for start in unfiled:
        former = before()
        spec = deck.begun.get(start.token) or former.get(start.task)
        if spec is None or spec.fingerprint != start.fingerprint:
            spec = _spec_of(start)
        others = (each.name for each in former.values() if each.fingerprint == spec.fingerprint)
        add_gone(deck, spec, frozenset(others) if spec.name in former else ())


def beside(deck: Deck, task: Task) -> tuple[str, ...]:
    """Tasks of the file that do the same work as another one, and not in its place."""
    instead = {index for gate in task.feeds for index in gate.dependents} if task.gone else frozenset[int]()
    return tuple(each.name for each in _same_work(deck, task.begun_spec) if each.index not in {task.index, *instead})


def _same_work(deck: Deck, spec: TaskSpec) -> list[Task]:
    return [task for task in deck.tasks if task.spec.fingerprint == spec.fingerprint and not task.gone]


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


def _come_after(deck: Deck, task: Task, waiting: list[Task]) -> None:
    gate = Gate("after", task.name, [task.index], [other.index for other in waiting])
    gate.counts[task.standing] += 1
    gate.current = sum(other.current for other in waiting)
    task.feeds = (gate,)
    for other in waiting:
        other.gates = (*other.gates, gate)
    deck.gates.append(gate)
    gate.demand = demand_of(deck, gate)
    follow(deck, task)
    gate.state = gate.judged()
    if gate.state is not GateState.OPEN:
        deck.gate_changed(gate)
