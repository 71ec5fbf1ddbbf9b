"""Tells observers what happened: facts that are on disk become messages."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ..attempts.attempts import Attempts
from ..attempts.end import EndDetails
from ..core import events as e
from ..core.deck import Deck, Task
from ..core.devices import gib, mixed_in_words
from ..core.explain import Explainer
from ..core.phases import Blocked, Ended, Failed
from ..logs.described import describe
from ..logs.digest import digest
from ..logs.failure import hint_of
from ..logs.files import telling_log
from ..ports import Clock
from ..protocol.messages import (
    DeckOpened,
    Message,
    Note,
    RunFinished,
    TaskEnded,
    TaskSettled,
    TaskStarted,
    TaskSubmitted,
)
from ..text import duration
from .forecasts import Forecasts
from .numbers import counts_of
from .status import Times, status_of
from .summary import Summary

_OUTCOMES = {"ok": "ok", "cancelled": "cancelled", "pruned": "pruned", "interrupted": "interrupted", "lost": "lost"}


FAST_FAILURES = 10


class Reporter:
    """Facts in, messages out, in the order of the facts."""

    def __init__(
        self,
        deck: Deck,
        attempts: Attempts,
        clock: Clock,
        show: Callable[[Message], None],
        *,
        cwd: str,
        forecasts: Forecasts | None = None,
    ) -> None:
        self._deck = deck
        self._attempts = attempts
        self._clock = clock
        self.show = show
        self._cwd = cwd
        self._forecasts = forecasts or Forecasts(deck, lambda: clock.now().boot_s)
        self._below = os.path.join(cwd, "")
        self._starts: dict[tuple[str, int], e.AttemptStarting] = {}
        self._adopted = set[str]()
        self._ended_meanwhile = frozenset[str]()
        self._said_refused = ""
        self._said_outputs = False
        self._fast: set[str] = set()
        self._avoided: set[tuple[str, str]] = set()
        """Entries and nodes."""
        started = clock.now()
        self.begun: Callable[[int], object] = lambda _: None
        """Called with the number of each further run of this engine."""
        self._told_run = deck.run.number if deck.run.ended else 0
        """The run whose end has been told; by an earlier engine, where it had ended before."""
        self.times = Times(started.boot_s, started.wall_s)
        self._index: dict[str, int] = {}
        self.know_gpus()
        self.summary = Summary(deck, self.times, clock, self._read, self._index)

    def know_gpus(self) -> None:
        """The deck may have other GPUs than before."""
        self._index.update({gpu.uuid: gpu.index for gpu in self._deck.gpus.values()})

    # -- facts --------------------------------------------------------------------------------------------------------

    def publish(self, facts: Sequence[e.Fact]) -> None:
        for fact in facts:
            self._fact(fact)

    def adopt(self, fact: e.AttemptStarting) -> None:
        """An attempt of an earlier engine goes on."""
        self._starts[fact.task, fact.attempt] = fact
        self._adopted.add(fact.token)
        self.summary.started(fact)

    def ended_meanwhile(self, tokens: Iterable[str]) -> None:
        """Of those that were adopted: how they began is past, and only their end is told."""
        self._ended_meanwhile = frozenset(tokens)

    def _fact(self, fact: e.Fact) -> None:
        match fact:
            case e.RunStarted():
                self._begin_anew(fact.run)
            case e.AttemptStarting():
                self._starts[fact.task, fact.attempt] = fact
            case e.AttemptSubmitted():
                self._submitted(fact)
            case e.AttemptRunning():
                self._running(fact)
            case e.AttemptEnded():
                self._ended(fact)
            case e.StartRevoked():
                self._starts.pop((fact.task, fact.attempt), None)
                self._refused(fact)
            case e.TaskCached():
                self._cached(fact)
            case e.TaskCancelled():
                who = "" if fact.by in ("", "user") else f" by {fact.by}"
                self._settled(fact.task, "cancelled", f"cancelled{who} while it waited")
            case e.StopRequested():
                self._stopping(fact)
            case e.TakenBack(verb="cancel"):
                self.note("info", f"{fact.task}: its cancel was taken back")
            case _:
                text = _note_of(fact, self._index)
                if text:
                    self.note("warning", text)

    def _begin_anew(self, run: int) -> None:
        """Another run in the same engine: times and sums count from here."""
        if not self._told_run:
            return
        now = self._clock.now()
        self._told_run = 0
        self.times = Times(now.boot_s, now.wall_s)
        self.summary = Summary(self._deck, self.times, self._clock, self._read, self._index)
        self.begun(run)

    def opened(self, message: DeckOpened) -> None:
        """The run that it speaks of has begun, or begins now."""
        self._told_run = 0
        self.show(message)

    def _cached(self, fact: e.TaskCached) -> None:
        if fact.why == "journal":
            self._settled(fact.task, "cached", "done earlier")
            return
        if not self._said_outputs:
            self._said_outputs = True
            text = "tasks whose outputs exist count as done although this deck has not run them"
            self.note("warning", f"{text}; --no-skip-existing runs them")
        self._settled(fact.task, "cached", "its outputs exist")

    def _submitted(self, fact: e.AttemptSubmitted) -> None:
        start = self._starts.get((fact.task, fact.attempt))
        if start is None or start.token in self._ended_meanwhile:
            return
        now = self._clock.now()
        at, adopted = self.times.since(now.boot_s), start.token in self._adopted
        self.show(TaskSubmitted(fact.task, fact.attempt, fact.job, at, now.wall_s, adopted=adopted))

    def _running(self, fact: e.AttemptRunning) -> None:
        start = self._starts.get((fact.task, fact.attempt))
        if start is None:
            return
        if fact.at is not None:
            start = replace(start, at=fact.at, wall=fact.wall)
            self._starts[fact.task, fact.attempt] = start
        self.summary.started(start)
        self._said_refused = ""
        if start.token in self._ended_meanwhile:
            return
        command, resumed = self._attempts.running.command(start.token)
        paths = self._attempts.running.paths(fact.task, fact.attempt)
        self.show(
            TaskStarted(
                task=fact.task,
                attempt=fact.attempt,
                gpus=self._indices(start.gpus),
                pid=fact.pid,
                log=self.shorten(paths.out),
                at=self.times.since(start.at),
                wall=start.wall,
                rung=start.rung,
                timeout_rung=start.timeout_rung,
                resumed=resumed,
                command=command,
                gpu_profile=self._profile(start),
                mixed=mixed_in_words(self._deck.models(start.gpus)),
                job=fact.job,
                nodes=fact.nodes,
            )
        )

    def _profile(self, start: e.AttemptStarting) -> str:
        task = self._deck.by_name.get(start.task)
        card = None if task is None else task.begun_spec.card(start.card_mib)
        return "" if card is None else card.profile

    def _ended(self, fact: e.AttemptEnded) -> None:
        start = self._starts.pop((fact.task, fact.attempt), None)
        end = self._attempts.ends.ended(fact, start) if start else EndDetails()
        paths = self._attempts.running.paths(fact.task, fact.attempt)
        gpus = self._indices(start.gpus) if start else ()
        reason = describe(fact.outcome)
        task = self._deck.by_name.get(fact.task)
        hint = hint_of(fact.outcome, None if task is None else task.begun_spec)
        digest = (*end.digest, f"hint: {hint}") if hint and end.digest else end.digest
        telling = "" if fact.outcome.ok else self.shorten(end.log or paths.out)
        self.summary.used(end.energy_wh)
        job, nodes = self._place(fact)
        self.summary.ended(fact, start, reason, digest, telling or self.shorten(paths.out), (job, nodes))
        self.show(
            TaskEnded(
                task=fact.task,
                attempt=fact.attempt,
                gpus=gpus,
                outcome=_outcome(fact),  # pyright: ignore[reportArgumentType]
                reason=reason,
                exit_code=fact.outcome.exit_code,
                next=_next(task, fact),
                retry_in_s=max(0.0, fact.until - self._clock.now().boot_s) if fact.next == "backoff" else 0.0,
                duration_s=fact.duration_s,
                peak_mib=end.used.peak_mib or fact.peak_mib or None,
                mean_util_percent=end.used.mean_util_percent,
                log=self.shorten(paths.out),
                err=self.shorten(paths.err),
                digest=digest,
                at=self.times.since(fact.at),
                wall=fact.wall,
                left_behind=fact.left_behind,
                telling=telling,
                energy_wh=end.energy_wh,
                job=job,
                nodes=nodes,
                kind=fact.outcome.reason,
            )
        )
        self._streak(fact)
        self._node(fact)

    def _place(self, fact: e.AttemptEnded) -> tuple[str, tuple[str, ...]]:
        """Job and nodes of an attempt on a cluster."""
        task = self._deck.by_name.get(fact.task)
        ended = () if task is None else task.ended[-1:]
        return next(((each.job, each.nodes) for each in ended if each.number == fact.attempt), ("", ()))

    def _refused(self, fact: e.StartRevoked) -> None:
        """Once for each reason: a full disk refuses every two seconds."""
        if fact.why != self._said_refused:
            self._said_refused = fact.why
            again = f"it goes on as attempt {fact.taken + 1}" if fact.taken else "tried again"
            self.note("warning", f"{fact.task} could not be started: {fact.why}; {again}")

    def _streak(self, fact: e.AttemptEnded) -> None:
        """Many fast failures of one entry in a row point to the command, not to bad luck."""
        task = self._deck.by_name.get(fact.task)
        if task is None or fact.outcome.ok or task.entry.fast_failures < FAST_FAILURES or task.spec.entry in self._fast:
            return
        self._fast.add(task.spec.entry)
        self.note("error", f"the last {FAST_FAILURES} attempts of {task.spec.entry} failed within a minute each")

    def _node(self, fact: e.AttemptEnded) -> None:
        """A node of the cluster that starts nothing, once for each entry."""
        task = self._deck.by_name.get(fact.task)
        if task is None or fact.charged or fact.outcome.reason == "node_fail":
            return
        for node in fact.avoid:
            if (task.spec.entry, node) not in self._avoided:
                self._avoided.add((task.spec.entry, node))
                text = (
                    f"{fact.task} could not start on {node}: tasks of {task.spec.entry} avoid it while there is another"
                )
                self.note("warning", text)

    def _stopping(self, fact: e.StopRequested) -> None:
        if fact.why == "timeout":
            self.note("warning", f"{fact.task} is past its timeout and is being stopped")
        elif fact.why == "preempted":
            self.note("info", f"{fact.task} makes way: {fact.by} takes its place; it goes on from its checkpoint later")
        elif fact.why == "pruned":
            self.note("info", f"{fact.task} is lost and is being stopped: {fact.by}")

    def _settled(self, name: str, state: str, why: str) -> None:
        now = self._clock.now()
        message = TaskSettled(name, state, why, self.times.since(now.boot_s), now.wall_s)  # pyright: ignore[reportArgumentType]
        self.show(message)

    # -- what facts do not tell ---------------------------------------------------------------------------------------

    def settled(self) -> None:
        """Report tasks that have become blocked since the last call."""
        indexes, self._deck.newly_blocked = self._deck.newly_blocked, []
        if not indexes:
            return
        explainer = Explainer(self._deck, self._clock.now().boot_s)
        for index in dict.fromkeys(indexes):
            task = self._deck.tasks[index]
            if isinstance(task.phase, Blocked) and task.selected:
                self._settled(task.name, "blocked", explainer.why(task) or "something that it needs failed")

    def note(self, level: str, text: str) -> None:
        now = self._clock.now()
        self.show(Note(level, text, self.times.since(now.boot_s), now.wall_s))  # pyright: ignore[reportArgumentType]

    def status(self) -> None:
        now = self._clock.now()
        self.show(status_of(self._deck, self.times, now, self.log_of, self._forecasts.newest()))

    def run_over(self, exit_code: int) -> None:
        """The run has ended and the engine stays: told once."""
        if self._told_run != self._deck.run.number:
            self._told_run = self._deck.run.number
            self.show(self.ending(exit_code, ""))

    def ending(self, exit_code: int, why: str) -> RunFinished:
        """The last message of a run, not shown yet. Made once."""
        return self.summary.finish(exit_code, why, counts_of(self._deck))

    def _read(self, task: Task, ended: Ended) -> tuple[str, tuple[str, ...]]:
        """The log to look into after an attempt, and of a failed one the lines that tell why."""
        paths = self._attempts.running.paths(task.name, ended.number)
        if not isinstance(task.phase, Failed):
            return self.shorten(paths.out), ()
        lines, hint = digest(paths.err, paths.out), hint_of(ended.outcome, task.spec)
        return self.shorten(telling_log(paths)), (*lines, f"hint: {hint}") if hint and lines else lines

    # -- names --------------------------------------------------------------------------------------------------------

    def log_of(self, task: str, attempt: int) -> str:
        return self.shorten(self._attempts.running.paths(task, attempt).out)

    def shorten(self, path: str) -> str:
        """Relative to where the command was typed, where that is shorter."""
        if path.startswith(self._below):
            return path[len(self._below) :]
        relative = os.path.relpath(path, self._cwd)
        return relative if len(relative) < len(path) else path

    def _indices(self, uuids: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(self._index[uuid] for uuid in uuids if uuid in self._index)


def _outcome(fact: e.AttemptEnded) -> str:
    """One that makes way is interrupted; where a cluster preempts, it comes back after a while, as what has failed."""
    makes_way = fact.outcome.reason == "preempted" and fact.next == "queued"
    return "interrupted" if makes_way else _OUTCOMES.get(fact.outcome.reason, "failed")


def _next(task: Task | None, fact: e.AttemptEnded) -> e.Next:
    """Where the task goes: what has left the file is not begun again, though it stays queued for when it comes back."""
    if task is None or not task.gone or fact.next != "queued":
        return fact.next
    return "cancelled" if fact.outcome.reason == "interrupted" else "failed"


def _note_of(fact: e.Fact, index: dict[str, int]) -> str:
    """Facts that the user should hear of although no task started or ended."""
    match fact:
        case e.GpuJoined():
            who = f"{fact.user} (pid {fact.pid})" if fact.pid else fact.user
            at = time.strftime("%H:%M", time.localtime(fact.wall))
            return f"{who} joined GPU {index.get(fact.gpu, fact.gpu)} at {at}, {gib(fact.used_mib)}"
        case e.GpuQuarantined():
            names = ", ".join(fact.tasks)
            wait = max(0.0, fact.probe_at - fact.at)
            gpu = index.get(fact.gpu, fact.gpu)
            return f"GPU {gpu} is quarantined: {names} failed fast on it in a row; next try in {duration(wait)}"
        case e.GpuReleased():
            gpu = index.get(fact.gpu, fact.gpu)
            return f"GPU {gpu} is used again: {fact.why}" if fact.why else f"GPU {gpu} works again and is used"
        case e.Halted():
            return f"halted: {fact.by} failed; nothing more starts"
        case _:
            return ""
