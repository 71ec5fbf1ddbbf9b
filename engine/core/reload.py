"""A deck goes on with another task file.

A new deck is built from the new file and from all facts, as a restart would; what facts do not tell goes over from the
old deck, which then becomes the new one in place. Up to `draft` nothing is changed that anybody sees.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from . import events as e
from .apply import apply, replay
from .attempts import arm_timeout, stop
from .deck import Deck, Task
from .devices import Gpu
from .gone import Kept, add_gone, kept_of
from .learned import Entry
from .phases import FINAL, QUEUED, Attempt, Backoff, Blocked, Phase, Queued, Running, Starting, Waiting
from .readiness import reconsider, spread
from .runs import another_run, take_up_new
from .spec import Policy, TaskSpec, alike
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
    made = {attempt.token: attempt.spec for _, attempt in new.lasting}
    for task, attempt in old.lasting:
        if attempt.token in made:
            _stand_in(new, new.active[attempt.token], task.phase, attempt)
        elif task.name not in new.by_name:
            _runs_on(new, task, attempt)
        else:
            raise RuntimeError(f"{task.name} runs, and its facts do not say so")
    carry_gpus(old, new)
    carry_memory(old, new)
    carry_deadlines(old, new, made, now)
    carry_news(old, new)
    core.streaks.follow(new)
    for _, attempt in old.lasting:
        attempt.spec = made.get(attempt.token)
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
    for task in _of(new, named):
        reconsider(new, task)
        new.marks.follow(task)
        if task.held:
            new.queue.drop(task.index)


# -- what facts do not tell: readings, deadlines, attempts ------------------------------------------------------------


_CARRIED = ("linger", "minute", "plan", "warned")
_CLOCKED = ("timeout", "warn")
_OF_THE_DECK = frozenset(
    (
        "index", "spec", "entry", "phase", "gates", "feeds", "standing", "selected", "gone", "current",
        "priority", "effective", "left_out_done",
    )
)  # fmt: skip
"""What a task does not take with it when it is gone."""


def _stand_in(new: Deck, task: Task, phase: Phase, attempt: Attempt) -> None:
    """The attempt itself goes over, with what is known of its end and of its memory."""
    for gpu in new.gpus_of(attempt):
        gpu.holders[attempt.token] = attempt
    if task.selected:
        new.counts[type(task.phase)] -= 1
        new.counts[type(phase)] += 1
    task.phase = phase


def _runs_on(new: Deck, before: Task, attempt: Attempt) -> None:
    """A task that is gone keeps its slots until it has ended."""
    task = add_gone(new, before.begun_spec)
    new.known.add(task.name)
    for one in fields(Task):
        if one.name not in _OF_THE_DECK:
            setattr(task, one.name, getattr(before, one.name))
    if task.held:
        new.held.add(task.index)
    task.phase = QUEUED
    new.move(task, Starting(attempt))
    _stand_in(new, task, before.phase, attempt)


def carry_gpus(old: Deck, new: Deck) -> None:
    present = old.present_gpus
    for uuid, gpu in new.present_gpus.items():
        before = present.get(uuid)
        if before is not None:
            _carry_gpu(before, gpu)
    new.count_surplus()


def _carry_gpu(before: Gpu, gpu: Gpu) -> None:
    for name in (
        "total_mib", "unread", "changed_at", "ended_at", "reading", "lost", "others_mib", "foreign", "beside",
        "quiet_until", "first_seen", "claimed", "claimed_at",
    ):  # fmt: skip
        setattr(gpu, name, getattr(before, name))
    if gpu.quarantine is not None and before.quarantine is not None:
        # The probe may be a task that is gone: the new deck was not told of its start.
        gpu.quarantine.probing = gpu.quarantine.probing or before.quarantine.probing


def carry_memory(old: Deck, new: Deck) -> None:
    for name in (
        "memory_mib", "memory_at", "memory_most_mib", "memory_total_mib", "paused", "stopping", "unwritable",
        "no_starts_until", "now", "wall_ahead", "gpu_s", "disk_free_mib", "quiet", "gathering", "wanted_next",
    ):  # fmt: skip
        setattr(new, name, getattr(old, name))
    new.run.options = old.run.options
    for index, since in old.heads.items():
        task = new.by_name.get(old.tasks[index].name)
        if task is not None and isinstance(task.phase, Queued):
            new.heads[task.index] = since
    new.plan_due = True
    _carry_learned(old, new)
    if new.settings.order == "longest":
        for index in list(new.queue):
            new.enqueue(new.tasks[index])


def _carry_learned(old: Deck, new: Deck) -> None:
    """Tasks that are gone have taught their entry, too. Where work has changed, durations are those of what has not."""
    for name, entry in new.entries.items():
        before = old.entries.get(name)
        if before is not None:
            durations = () if _has_other_work(old, new, entry) else ("durations", "longest_s", "placed_s", "typical_s")
            for known in (
                *durations, "peak", "fast_failures", "past_minute", "good_starts", "failed_starts", "reached",
            ):  # fmt: skip
                setattr(entry, known, getattr(before, known))


def _has_other_work(old: Deck, new: Deck, entry: Entry) -> bool:
    tasks = (new.tasks[index].spec for index in entry.tasks)
    return any((task := old.by_name.get(spec.name)) and task.spec.fingerprint != spec.fingerprint for spec in tasks)


def carry_deadlines(old: Deck, new: Deck, made: Mapping[str, TaskSpec | None], now: float) -> None:
    """*made*: by token, what attempts were started as, where the new file says otherwise."""
    rearmed: set[str] = set()
    for task, attempt in new.lasting:
        spec = made.get(attempt.token)
        says = task.spec if spec is None or attempt.fingerprint == task.spec.fingerprint else spec
        policy = says.asking(attempt.rung, attempt.timeout_rung).policy
        if isinstance(task.phase, Running) and _clocks(old.active[attempt.token].begun_policy) != _clocks(policy):
            rearmed.add(attempt.token)
            if attempt.exited_at is None:
                arm_timeout(new, task, attempt, policy, now)
    for deadline in old.deadlines:
        task = new.active.get(deadline.token)
        stays = deadline.kind in _CARRIED or (deadline.kind in _CLOCKED and deadline.token not in rearmed)
        if deadline.kind == "plan":
            new.wake(deadline.at, "plan")
        elif task is not None and stays:
            new.wake(deadline.at, deadline.kind, task.index, deadline.token)


def _clocks(policy: Policy) -> tuple[float | None, str | None, float]:
    return policy.timeout_s, policy.warn_signal, policy.warn_before_s


def carry_news(old: Deck, new: Deck) -> None:
    """Whoever reports tasks that have become blocked has heard of those that were so before."""
    new.newly_blocked = []
    if new.counts[Blocked]:
        unheard = {old.tasks[index].name for index in old.newly_blocked}
        was = {task.name for task in old.tasks if isinstance(task.phase, Blocked)} - unheard
        blocked = (task for task in new.tasks if task.selected and isinstance(task.phase, Blocked))
        new.newly_blocked = [task.index for task in blocked if task.name not in was]
    new.moved = set(range(len(new.tasks)))


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
    for task in _of(deck, after.begins) if by_name else ():
        if isinstance(task.phase, (Waiting, Blocked)) and (deck.run.ended or task.index in deck.unasked):
            again(turn, task, e.CHANGED, BY)
    finished = (*FINAL, Backoff)
    rerun = [task for task in _of(deck, after.rerun) if isinstance(task.phase, finished)]
    for task in rerun:
        again(turn, task, e.CHANGED, BY)
    for task in _of(deck, after.accept):
        accept(turn, task, BY)
    for task in _of(deck, after.restart):
        if isinstance(task.phase, (Starting, Running)) and task.phase.attempt.exited_at is None:
            stop(turn, task, task.phase.attempt, "interrupted", BY)


def _of(deck: Deck, names: Iterable[str]) -> list[Task]:
    """Those of them that the deck has."""
    return list(filter(None, map(deck.by_name.get, names)))


def _others_wait(deck: Deck, names: Collection[str]) -> bool:
    """Whether the deck has tasks beside these that a run of all that is new would start."""
    others = (task for task in deck.tasks if task.selected and isinstance(task.phase, Waiting))
    return any((deck.run.ended or task.index in deck.unasked) and task.name not in names for task in others)
