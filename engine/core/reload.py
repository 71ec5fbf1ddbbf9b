"""A deck goes on with another task file.

A new deck is built from the new file and from all facts, as a restart would; what facts do not tell goes over from the
old deck, which then becomes the new one in place. Up to `draft` nothing is changed that anybody sees.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from . import events as e
from .apply import apply, replay
from .attempts import stop
from .carry import carry_deadlines, carry_gpus, carry_memory, carry_news, runs_on, same_attempt
from .deck import Deck, Task
from .gone import Kept, kept_of
from .phases import FINAL, Attempt, Backoff, Blocked, Queued, Running, Starting, Unknown, Waiting
from .readiness import reconsider, spread
from .runs import another_run, take_up_new
from .spec import TaskSpec, alike
from .step import Core
from .turn import Turn
from .urgency import spread_urgency
from .verbs import accept, again

BY = "apply"


@dataclass(frozen=True, slots=True)
class After:
    """What an applied change asks for beside the new file."""

    rerun: tuple[str, ...] = ()
    """Finished tasks, and such that wait for a retry, to run again as the file now has them."""
    restart: tuple[str, ...] = ()
    """Running tasks to be stopped, and started as the file now has them."""
    accept: tuple[str, ...] = ()
    """Tasks whose results, also such as are still to come, count as what the file now says."""
    shards: Mapping[str, int] = field(default_factory=dict[str, int])
    priorities: Mapping[str, int] = field(default_factory=dict[str, int])
    """Priorities that the user had set by hand and the file has changed since."""
    begins: tuple[str, ...] = ()
    """Tasks that are new, or wait and were changed: where a halted run is over, the next takes up these and no more."""
    alone: bool = False
    """What else is new in the file was not asked for: it goes on to wait."""
    options: str | None = None
    """The run options from now on, encoded; None: as before."""


def kept_specs(old: Deck, new: Deck) -> list[Kept]:
    """Of each attempt that lasts, what it was started as, where *new* says otherwise."""
    kept: list[Kept] = []
    for token, task in list(old.active.items()):
        target = new.by_name.get(task.name)
        if target is None or not alike(task.written_spec, target.spec):
            kept.append(kept_of(old, token, task))
    return kept


# -- away from the loop -----------------------------------------------------------------------------------------------


def draft(old: Deck, new: Deck, facts: Iterable[e.Fact], look: Callable[[Deck], None] = lambda _: None) -> None:
    """Bring a deck fresh from `build` to where *facts* end. *old* is only looked at.

    *look* adds what files tell, before tasks follow their gates.
    """
    new.begun = {kept.token: kept.spec for kept in kept_specs(old, new) if kept.spec.name in new.by_name}
    replay(new, facts)
    look(new)
    spread(new)
    spread_urgency(new)
    for task in new.tasks:
        before = old.by_name.get(task.name)
        if before is not None and before.decided and isinstance(task.phase, Queued) and alike(before.spec, task.spec):
            # Its outputs have been looked at.
            task.decided = True
            if task.selected and not task.held:
                new.enqueue(task)


# -- in one go, between two turns -------------------------------------------------------------------------------------


def swap(core: Core, new: Deck, tail: Sequence[e.Fact], kept: Sequence[Kept], now: float) -> None:
    """Let the core's deck become *new*. *tail*: the facts since those of the draft; *kept*: `kept_specs` of now.

    Whatever fails on the way, the core's deck is as before.
    """
    old = core.deck
    _catch_up(new, tail, kept)
    strangers = new.active.keys() - old.active.keys()
    if strangers:
        raise RuntimeError(f"attempts that the deck does not have: {sorted(strangers)}")
    begun: list[tuple[Attempt, TaskSpec | None]] = []
    for token, task in old.active.items():
        target = new.active.get(token)
        if target is not None:
            begun.append(same_attempt(new, target, task))
        elif task.name not in new.by_name:
            begun.append(runs_on(new, task))
        else:
            raise RuntimeError(f"{task.name} runs, and its facts do not say so")
    carry_gpus(old, new)
    carry_memory(old, new)
    carry_deadlines(old, new, {attempt.token: spec for attempt, spec in begun}, now)
    carry_news(old, new)
    core.streaks.follow(new)
    for attempt, spec in begun:
        attempt.spec = spec
    for gate in old.gates:
        gate.before = gate.feeds_gate = None
    old.become(new)


def _catch_up(new: Deck, tail: Sequence[e.Fact], kept: Sequence[Kept]) -> None:
    new.begun.update({one.token: one.spec for one in kept if one.spec.name in new.by_name})
    new.beside = {one.token: one.beside for one in kept}
    new.replaying = True
    for fact in tail:
        apply(new, fact)
    new.replaying = False
    named = dict.fromkeys(name for fact in tail for name in (getattr(fact, "task", ""), *getattr(fact, "tasks", ())))
    for task in filter(None, map(new.by_name.get, named)):
        reconsider(new, task)
        new.marks.follow(task)
        if isinstance(task.phase, Queued) and task.held:
            new.queue.drop(task.index)
        elif isinstance(task.phase, Queued) and task.index not in new.queue:
            new.arrivals.append(task.index)


# -- what follows -----------------------------------------------------------------------------------------------------


def follow_up(turn: Turn, after: After) -> None:
    """Do what the change asks for: a turn of its own right after `swap`."""
    deck = turn.deck
    if after.options is not None:
        turn.record(e.OptionsChanged(after.options))
    for entry, shards in after.shards.items():
        turn.record(e.ShardsFixed(entry, shards))
    for name, priority in after.priorities.items():
        turn.record(e.PriorityChanged(name, priority))
    by_name = deck.run.halted or deck.run.halted_before or (after.alone and _others_wait(deck, after.begins))
    if after.begins and not by_name:
        (another_run(turn, ("new",)) if deck.run.ended else take_up_new(turn))
    for name in after.begins if by_name else ():
        task = deck.by_name.get(name)
        waits = task is not None and isinstance(task.phase, (Waiting, Blocked))
        if task is not None and waits and (deck.run.ended or task.index in deck.unasked):
            again(turn, task, e.CHANGED, BY)
    finished = (*FINAL, Backoff)
    rerun = [name for name in after.rerun if name in deck.by_name and isinstance(deck.by_name[name].phase, finished)]
    for name in rerun:
        again(turn, deck.by_name[name], e.CHANGED, BY)
    kept = [name for name in after.accept if name in deck.by_name]
    for name in kept:
        accept(turn, deck.by_name[name], BY)
    for name in after.restart:
        _restart(turn, deck.by_name.get(name))


def _others_wait(deck: Deck, names: Collection[str]) -> bool:
    """Whether the deck has tasks beside these that a run of all that is new would start."""
    others = (task for task in deck.tasks if task.selected and isinstance(task.phase, Waiting))
    return any((deck.run.ended or task.index in deck.unasked) and task.name not in names for task in others)


def _restart(turn: Turn, task: Task | None) -> None:
    attempt = task.attempt() if task is not None else None
    if task is None or attempt is None or isinstance(task.phase, Unknown):
        return
    if isinstance(task.phase, (Starting, Running)) and attempt.exited_at is None:
        stop(turn, task, attempt, "interrupted", BY)
