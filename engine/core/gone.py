"""What attempts were begun as, where the file says otherwise by now: the name means other work, or the file has it no
more. Such an attempt keeps its slots to its end, and the same work is not begun beside it under another name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .deck import Deck, Task
from .events import AttemptStarting
from .recorded import Recorded
from .spec import Resources, TaskSpec, Work


@dataclass(frozen=True, slots=True)
class Kept:
    """What an attempt was started as, where the file says otherwise by now; the next engine needs it, too."""

    token: str
    spec: TaskSpec
    beside: tuple[str, ...] = ()
    """Tasks that did the same work beside it, while the file had it so."""


def doing(deck: Deck, task: Task) -> Task | None:
    """The task under whose name the work of *task* is being done, though the file means other work by that name, or
    has it no more. None too where the file has had both at once: two tasks with the same command are two tasks."""
    for token, beside in deck.beside.items():
        other = deck.active.get(token)
        attempt = other and other.attempt()
        if not other or not attempt or other is task or attempt.fingerprint != task.spec.fingerprint:
            continue
        means_other = other.gone or other.spec.fingerprint != attempt.fingerprint
        if means_other and task.name not in beside:
            return other
    return None


def kept_of(deck: Deck, token: str, task: Task) -> Kept:
    """What is to be kept of an attempt that lasts, before the file says otherwise."""
    spec = task.begun_spec
    beside = deck.beside.get(token, ())
    if not task.gone and task.spec.fingerprint == spec.fingerprint:
        others = (other for other in deck.tasks if other.spec.fingerprint == spec.fingerprint and not other.gone)
        beside = tuple(other.name for other in others if other is not task)
    return Kept(token, spec, beside)


def take_back(deck: Deck, kept: Kept) -> None:
    """Tell a deck, before its facts are replayed, what an attempt was started as."""
    deck.beside[kept.token] = kept.beside
    if kept.spec.name in deck.by_name:
        deck.begun[kept.token] = kept.spec
    else:
        add_gone(deck, kept.spec)


def take_unkept(deck: Deck, told: Recorded, before: Callable[[], Mapping[str, TaskSpec]]) -> None:
    """The same of attempts that have not ended as far as the journal knows, and of which nothing was kept: the file was
    edited while no engine looked. *before*: tasks by name as the deck took them from its file last, as far as that is
    known."""
    for start in told.lasting.values():
        task = deck.by_name.get(start.task)
        if start.token in deck.beside or (task is not None and task.spec.fingerprint == start.fingerprint):
            continue
        former = before()
        spec = former.get(start.task)
        if spec is not None and spec.fingerprint == start.fingerprint:
            same = (each for each in former.values() if each.fingerprint == spec.fingerprint and each is not spec)
            take_back(deck, Kept(start.token, spec, tuple(each.name for each in same)))
            continue
        deck.beside[start.token] = ()
        if task is None:
            add_gone(deck, _spec_of(start))


def add_gone(deck: Deck, spec: TaskSpec) -> Task:
    """Add a task that the file does not have."""
    task = deck.add(spec, selected=False)
    task.gone = True
    deck.share_outputs(spec.outputs)
    return task


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
