"""Compares a live deck with the one that its facts rebuild."""

from __future__ import annotations

from core_world import World

from gpudeck.engine.core.apply import replay
from gpudeck.engine.core.deck import Deck, Task
from gpudeck.engine.core.phases import (
    Backoff,
    Blocked,
    Cancelled,
    Closing,
    Failed,
    Queued,
    Running,
    Starting,
    Stopping,
    Unknown,
    Waiting,
)
from gpudeck.engine.core.urgency import spread_urgency


def assert_restores(world: World) -> None:
    """A replay of all facts gives what the live deck knows; what only gates decide is worked out anew."""
    fresh = world._fresh()
    replay(fresh, world.facts)
    spread_urgency(fresh)
    same(deck_facts(world.deck, world.now), deck_facts(fresh, world.now), "deck")
    for old, new in zip(world.deck.tasks, fresh.tasks, strict=True):
        live, rebuilt = task_facts(old, world.now), task_facts(new, world.now)
        if isinstance(old.phase, Unknown):
            # That nobody can tell what became of it is found out anew by each engine.
            live["phase"] = rebuilt["phase"]
        same(live, rebuilt, old.name)


def same(live: dict[str, object], rebuilt: dict[str, object], whose: str) -> None:
    for key, value in live.items():
        assert rebuilt[key] == value, f"{whose}, {key}: live {value}, rebuilt {rebuilt[key]}"


def deck_facts(deck: Deck, now: float) -> dict[str, object]:
    run = deck.run
    return {
        "run": (run.number, run.seed, run.takes, run.ended, run.halted, run.failures, run.settled),
        "paused": deck.paused,
        "active": {token: task.name for token, task in deck.active.items()},
        "known": deck.known,
        "successes": deck.successes,
        "by fingerprint": deck.by_fingerprint,
        "held": {uuid: sorted(gpu.holders) for uuid, gpu in deck.gpus.items()},
        "marks": {uuid: (gpu.mark, gpu.exclusive, gpu.quarantine) for uuid, gpu in deck.gpus.items()},
        "in use": (deck.cpu_used, deck.cpu_tasks, deck.cores_used),
        "entries": {
            entry.name: (
                entry.running,
                list(entry.durations),
                entry.typical_s,
                entry.peak,
                entry.past_minute,
                entry.good_starts,
                entry.failed_starts,
                entry.reached,
            )
            for entry in deck.entries.values()
        },
        "flags": (deck.held, deck.marks.changed, deck.marks.stale),
        "terms": deck.terms,
        "acts": [(act.verb, act.halted, act.paused, list(act.tasks), act.gpus) for act in deck.acts],
        "deadlines": sorted(due for due in deck.deadlines if due.at > now and due.kind == "backoff"),
    }


def task_facts(task: Task, now: float) -> dict[str, object]:
    return {
        "phase": phase_facts(task, now),
        "numbers": (
            task.attempts,
            task.retries_used,
            task.oom_ends,
            task.timeout_ends,
            task.free_requeues,
            task.joined_requeues,
            task.quarantine_requeues,
            task.port_retries,
            task.node_retries,
        ),
        "ended": task.ended,
        "unfinished": task.unfinished,
        "avoid": (task.avoid, task.avoid_nodes),
        "held": task.held,
        "forced": task.forced,
        "again": task.again,
        "result": (task.result, task.done_wall),
        "unwanted": task.attempt() is not None and task.attempt().unwanted,  # pyright: ignore[reportOptionalMemberAccess]
        "act": task.act,
        "priority": (task.priority, task.effective),
    }


def phase_facts(task: Task, now: float) -> object:
    phase = task.phase
    attempt = task.attempt()
    if attempt is not None and isinstance(phase, (Starting, Running, Unknown)):
        where = (attempt.where, attempt.job, attempt.nodes, attempt.began, attempt.at, attempt.wall)
        return ("runs", attempt.number, attempt.token, attempt.gpus, attempt.reserved_mib, *where)
    if attempt is not None and isinstance(phase, Stopping):
        return ("stops", attempt.token, phase.why, phase.by, phase.asked_at, phase.kill_at)
    if attempt is not None and isinstance(phase, Closing):
        return ("closes", attempt.token, phase.outcome, phase.why)
    if isinstance(phase, Backoff) and phase.until > now:
        return phase
    if isinstance(phase, (Failed, Cancelled)):
        return phase
    if isinstance(phase, (Waiting, Queued, Blocked, Backoff)):
        return "not started"
    return type(phase)
