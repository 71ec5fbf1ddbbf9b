"""What facts do not tell goes over from a deck to the one that takes its place: readings, deadlines, attempts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from .attempts import arm_timeout
from .deck import Deck, Task
from .devices import Gpu
from .gone import add_gone
from .learned import Entry
from .phases import QUEUED, Attempt, Blocked, Phase, Queued, Running, Starting
from .spec import Policy, TaskSpec

_CARRIED = ("linger", "minute", "plan", "warned")
_CLOCKED = ("timeout", "warn")
_OF_THE_DECK = frozenset(
    (
        "index", "spec", "entry", "phase", "gates", "feeds", "standing", "selected", "gone", "current",
        "priority", "effective", "left_out_done",
    )
)  # fmt: skip
"""What a task does not take with it when it is gone."""


def same_attempt(new: Deck, target: Task, before: Task) -> tuple[Attempt, TaskSpec | None]:
    """The attempt itself goes over, with what is known of its end and of its memory. Returns it and what it was started
    as, where the file says otherwise."""
    attempt, made = before.attempt(), target.attempt()
    if attempt is None or made is None:
        raise RuntimeError(f"{before.name} holds slots without an attempt")
    _stand_in(new, target, before.phase, attempt)
    return attempt, made.spec


def _stand_in(new: Deck, task: Task, phase: Phase, attempt: Attempt) -> None:
    for gpu in new.gpus_of(attempt):
        gpu.holders[attempt.token] = attempt
    if task.selected:
        new.counts[type(task.phase)] -= 1
        new.counts[type(phase)] += 1
    task.phase = phase


def runs_on(new: Deck, before: Task) -> tuple[Attempt, None]:
    """A task that is gone keeps its slots until it has ended."""
    attempt, phase = before.attempt(), before.phase
    if attempt is None:
        raise RuntimeError(f"{before.name} holds slots without an attempt")
    task = add_gone(new, before.begun_spec)
    new.known.add(task.name)
    for one in fields(Task):
        if one.name not in _OF_THE_DECK:
            setattr(task, one.name, getattr(before, one.name))
    if task.held:
        new.held.add(task.index)
    task.phase = QUEUED
    new.move(task, Starting(attempt))
    _stand_in(new, task, phase, attempt)
    return attempt, None


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
        "foreign_since", "quiet_until", "first_seen", "claimed", "claimed_at",
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


def carry_deadlines(old: Deck, new: Deck, begun: Mapping[str, TaskSpec | None], now: float) -> None:
    rearmed: set[str] = set()
    for token, task in new.active.items():
        spec, attempt = begun[token], task.attempt()
        same_work = attempt is not None and attempt.fingerprint == task.spec.fingerprint
        says = task.spec if spec is None or same_work else spec
        policy = says.policy if attempt is None else says.asking(attempt.rung, attempt.timeout_rung).policy
        if isinstance(task.phase, Running) and _clocks(old.active[token].begun_policy) != _clocks(policy):
            rearmed.add(token)
            if task.phase.attempt.exited_at is None:
                arm_timeout(new, task, task.phase.attempt, policy, now)
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
