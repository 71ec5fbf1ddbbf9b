"""What a run came to: a row for each task, the time that its attempts took, and how busy each GPU was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..core.budget import spent_budget
from ..core.deck import Deck, Task
from ..core.events import AttemptEnded, AttemptStarting
from ..core.explain import Explainer
from ..core.flags import is_pending
from ..core.phases import NAMES, Blocked, Ended, Failed
from ..logs.described import describe
from ..ports import Clock
from ..protocol.messages import Counts, RunFinished, SummaryRow
from ..protocol.states import PENDING
from .status import Times

_MOST_READ = 100
"""Failures of which logs are read at the end; each takes some ms."""


class Summary:
    """Collects while the run goes on."""

    def __init__(
        self,
        deck: Deck,
        times: Times,
        clock: Clock,
        read: Callable[[Task, Ended], tuple[str, tuple[str, ...]]],
        index: Mapping[str, int],
    ) -> None:
        """*read*: the log to look into after an attempt of this run that ended before this engine began, and of a
        failed one the lines that tell why. *index*: of GPUs, by UUID."""
        self._read = read
        self._deck = deck
        self._times = times
        self._clock = clock
        self._index = index
        self._last: dict[str, SummaryRow] = {}
        """By task, its newest attempt that has ended; how the task stands is filled in at the end."""
        self._task_s = 0.0
        self._energy_wh: float | None = None
        self._busy_s: dict[int, float] = defaultdict(float)
        self._on: dict[int, dict[tuple[str, int], float]] = defaultdict(dict)

    def started(self, fact: AttemptStarting) -> None:
        for uuid in fact.gpus:
            if uuid in self._index:
                on = self._on[self._index[uuid]]
                if not on:
                    on[("", 0)] = max(fact.at, self._times.boot_s)
                on[fact.task, fact.attempt] = fact.at

    def used(self, energy_wh: float | None) -> None:
        """What an attempt that ended used; None: not known."""
        if energy_wh is not None:
            self._energy_wh = (self._energy_wh or 0.0) + energy_wh

    def ended(
        self,
        fact: AttemptEnded,
        start: AttemptStarting | None,
        reason: str,
        digest: tuple[str, ...],
        log: str,
        place: tuple[str, tuple[str, ...]] = ("", ()),
    ) -> None:
        """*place*: job and nodes on a cluster."""
        gpus = tuple(self._index[uuid] for uuid in start.gpus if uuid in self._index) if start else ()
        kept = digest if fact.next == "failed" else ()
        reason, kind = ("", "") if fact.outcome.ok else (reason, fact.outcome.reason)
        self._last[fact.task] = SummaryRow(
            fact.task, "", fact.attempt, gpus, fact.duration_s, reason, log, kept, *place, kind
        )
        begun = max(start.at if start and not start.where else fact.at - fact.duration_s, self._times.boot_s)
        self._task_s += max(0.0, fact.at - begun)
        for index in gpus:
            on = self._on[index]
            on.pop((fact.task, fact.attempt), None)
            if len(on) == 1:
                self._busy_s[index] += max(0.0, fact.at - on.pop(("", 0)))

    def finish(self, exit_code: int, why: str, counts: Counts) -> RunFinished:
        now = self._clock.now()
        for index, on in self._on.items():
            if on:
                self._busy_s[index] += max(0.0, now.boot_s - on[("", 0)])
        explainer = Explainer(self._deck, now.boot_s)
        tasks = [task for task in self._deck.tasks if task.selected]
        self._recall(tasks)
        return RunFinished(
            exit_code=exit_code,
            counts=counts,
            rows=tuple(self._row(task, explainer) for task in tasks),
            wall_s=self._times.since(now.boot_s),
            task_s=self._task_s,
            gpu_busy_s={gpu.index: self._busy_s.get(gpu.index, 0.0) for gpu in self._deck.gpus.values()},
            ended=self._deck.run.ended,
            why=why,
            spent=not self._deck.run.ended and bool(spent_budget(self._deck, now.boot_s)),
            wall=now.wall_s,
            energy_wh=self._energy_wh,
        )

    def _recall(self, tasks: Sequence[Task]) -> None:
        """Take in what ended in this run under an earlier engine."""
        unread = _MOST_READ
        for task in tasks:
            ended = task.ended[-1] if task.ended else None
            if ended is None or ended.run != self._deck.run.number or task.name in self._last:
                continue
            log, digest = "", ()
            if unread or not isinstance(task.phase, Failed):
                log, digest = self._read(task, ended)
                unread -= isinstance(task.phase, Failed)
            gpus = tuple(self._index[uuid] for uuid in ended.gpus if uuid in self._index)
            reason, kind = ("", "") if ended.outcome.ok else (describe(ended.outcome), ended.outcome.reason)
            self._last[task.name] = SummaryRow(
                task.name, "", ended.number, gpus, ended.duration_s, reason, log, digest, ended.job, ended.nodes, kind
            )

    def _why(self, task: Task, explainer: Explainer) -> str:
        """What kept a task from starting."""
        halted = self._deck.run.halted
        return f"halted: {halted} failed" if halted and not isinstance(task.phase, Blocked) else explainer.why(task)

    def _row(self, task: Task, explainer: Explainer) -> SummaryRow:
        last = self._last.get(task.name)
        row = last or SummaryRow(task.name, "", 0, (), None, "", "")
        state, failed = PENDING if is_pending(task) else NAMES[type(task.phase)], isinstance(task.phase, Failed)
        reason, kind = row.reason, row.kind
        if isinstance(task.phase, Failed) and last is None:
            reason, kind = describe(task.phase.outcome), task.phase.outcome.reason
        elif state in ("blocked", "waiting", "queued", "backoff"):
            reason = self._why(task, explainer) or reason
        digest = row.digest if failed else ()
        return replace(row, state=state, attempts=task.attempts, reason=reason, digest=digest, kind=kind)
