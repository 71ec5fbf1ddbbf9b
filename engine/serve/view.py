"""What clients see of a deck: rows of tasks and GPUs, made when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..attempts.progress import NOTHING, Progress, best_of
from ..core.budget import used_in_words
from ..core.deck import Deck, Task
from ..core.events import Fact, Outcome
from ..core.explain import Explainer
from ..core.fit import barred_in_words
from ..core.flags import count_flags, is_stale, take_flagged
from ..core.forecast import Forecast
from ..core.gates import GateState
from ..core.gpu_names import indices
from ..core.marks import is_of_other_work
from ..core.phases import NAMES, Backoff, Blocked, Cached, Closing, Failed, Phase, Stopping, Unknown
from ..core.readiness import done_before
from ..core.why_waiting import holds_back, sums
from ..logs.described import describe
from ..ports import Clock, GpuInfo
from ..protocol.wire import Cluster, DeckHead, GpuRow, State, TaskRow
from ..report.forecasts import Forecasts
from ..report.numbers import counts_of, slot_count, used_slots
from .cluster_rows import ClusterRows, pending_in_words
from .gpu_rows import Closer, GpuRows

if TYPE_CHECKING:
    from .cluster_watch import ClusterWatch

_SLOW_S = 1.0
"""How often what costs a look at many tasks is worked out anew."""
_ROUND_LINES = 5
_RETOLD = 1_000
"""Dependents of one gate whose rows say anew what blocks them: a look at more would hold up the loop."""


@dataclass(slots=True)
class _Slow:
    """What is worked out once a second."""

    at: float = -1e9
    under: tuple[object, ...] = ()
    """What it says otherwise at once when this is another."""
    rounds: tuple[str, ...] = ()
    shut_rounds: tuple[str, ...] = ()
    waiting_why: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    barred: tuple[str, bool] = ("", False)


class DeckView:
    """Rows of one deck. On the loop's thread."""

    def __init__(
        self,
        deck: Deck,
        clock: Clock,
        *,
        file: str,
        infos: Mapping[str, GpuInfo],
        seen: Callable[[str], Progress | None] = lambda _: None,
        last_metrics: Callable[[str], Progress] = lambda _: NOTHING,
        file_plan: Callable[[], str] = lambda: "",
        file_problem: Callable[[], str] = lambda: "",
        closer: Closer = lambda _: None,
        cluster: ClusterWatch | None = None,
        forecasts: Forecasts | None = None,
        former_log_dirs: tuple[str, ...] = (),
    ) -> None:
        """*file*: the task file. *infos*: the box's GPUs by UUID. *seen*: by token, what logs tell. *last_metrics*:
        by task, those of its newest attempt that is over. *closer*: by UUID, readings that only people look at.
        *cluster*: asks the cluster where jobs run, while somebody watches; None: tasks run on this box.
        *forecasts*: of when all has run; None: nobody can say. *former_log_dirs*: see `DeckHead`."""
        self._deck = deck
        self._clock = clock
        self._file = file
        self._index_of = {uuid: info.index for uuid, info in infos.items()}
        self._seen = seen
        self._last_metrics = last_metrics
        self._file_plan = file_plan
        self._file_problem = file_problem
        self._cluster = cluster
        self._forecasts = forecasts
        self._former_log_dirs = former_log_dirs
        self._cluster_rows = ClusterRows(deck)
        self._slow = _Slow()
        self._gpu_rows = GpuRows(deck, clock, infos, closer)

    @property
    def total(self) -> int:
        return len(self._deck.tasks)

    def note(self, facts: Sequence[Fact]) -> None:
        """Facts change more of a row than its phase: holds, priorities, pids."""
        for fact in facts:
            task = self._deck.by_name.get(getattr(fact, "task", ""))
            if task is not None:
                self._deck.moved.add(task.index)

    def changed(self) -> set[int]:
        """Tasks whose rows may differ from what was shown, by index; each call begins anew."""
        deck = self._deck
        moved, deck.moved = deck.moved, set()
        retold, deck.retold = deck.retold, {}
        for gate in retold:
            moved.update(index for index in gate.dependents[:_RETOLD] if isinstance(deck.tasks[index].phase, Blocked))
        return moved | take_flagged(deck)

    def rows(self, indexes: list[int]) -> list[TaskRow]:
        """Rows of these tasks, about 0.01 ms each."""
        now = self._clock.now()
        offset = now.wall_s - now.boot_s
        explainer = Explainer(self._deck, now.boot_s)
        return [self._row(self._deck.tasks[index], offset, explainer) for index in indexes]

    def _row(self, task: Task, offset: float, explainer: Explainer) -> TaskRow:
        deck, spec, phase = self._deck, task.spec, task.phase
        attempt = task.attempt()
        last = task.ended[-1] if task.ended else None
        newest = attempt if attempt is not None else last
        wanted = task.begun_spec.resources.gpus
        needed = wanted if isinstance(wanted, int) else len(deck.gpus)
        seen = self._seen(attempt.token) if attempt is not None else None
        told = seen if seen is not None else self._last_metrics(spec.name) if task.ended else NOTHING
        outcome = last.outcome if last is not None else phase.outcome if isinstance(phase, Failed) else None
        before = done_before(deck, task)
        reason = explainer.why(task) if isinstance(phase, Blocked) else _reason(phase, outcome)
        if before is not None:
            reason = f"done as {before.task}"
        return TaskRow(
            index=task.index,
            name=spec.name,
            entry=spec.entry,
            state=_state(task),
            held=task.held,
            changed=is_of_other_work(task),
            stale=is_stale(deck, task),
            left_out=not (task.selected or task.gone),
            gone=task.gone,
            round=spec.round,
            group=spec.group,
            priority=task.priority,
            needs_gpus=needed,
            gpus=() if newest is None else self._gpus(newest.gpus),
            on_cpu=newest is not None and needed > 0 and not newest.gpus and not deck.cluster,
            attempt=task.attempts,
            done_by=task.made_by if task.made_by[0] != task.name else before and (before.task, before.attempt),
            rung=0 if newest is None else newest.rung,
            rungs=len(spec.ladder),
            timeout_rung=0 if newest is None else newest.timeout_rung,
            timeout_rungs=len(spec.on_timeout),
            pid=attempt.pid if attempt is not None else 0,
            job="" if newest is None else newest.job,
            nodes=() if newest is None else newest.nodes,
            pending=pending_in_words(attempt),
            started=round(attempt.wall, 3) if attempt is not None else None,
            duration_s=None if last is None else round(last.duration_s, 3),
            ended=None if last is None or not last.wall else round(last.wall, 3),
            retries_used=task.retries_used,
            retries=spec.policy.retries,
            merged=spec.policy.merge_stderr,
            expected_s=deck.forecast_s(task),
            retry_at=round(phase.until + offset, 3) if isinstance(phase, Backoff) else None,
            reason=reason,
            kind="" if outcome is None or _makes_way(phase) else outcome.reason,
            exit_code=None if outcome is None else outcome.exit_code,
            params=spec.params,
            given=dict(spec.given),
            tags=spec.tags,
            progress=None if seen is None else seen.fraction,
            eta_s=None if seen is None else seen.eta_s,
            metrics=told.metrics,
            best=best_of(spec, told.best) if told.best else {},
            curve=tuple(told.curve),
        )

    def _gpus(self, uuids: tuple[str, ...]) -> tuple[int, ...]:
        return indices(uuids, self._index_of)

    def gpus(self) -> tuple[GpuRow, ...]:
        """The deck's GPUs by index."""
        return self._gpu_rows.rows()

    def cluster(self) -> Cluster | None:
        """The cluster that the deck's tasks run on; None: they run on this box."""
        return None if self._cluster is None else self._cluster_rows.of(self._cluster.look())

    async def fresh_cluster(self) -> Cluster | None:
        """The same, asked now."""
        return None if self._cluster is None else self._cluster_rows.of(await self._cluster.fresh())

    def head(self, *, anew: bool = False) -> DeckHead:
        """The deck as a whole. Costs a look at many tasks once a second and where the run begins, ends, halts or is
        paused, or its settings change, otherwise next to nothing. *anew*: at that cost, nothing in it is older than the
        rest."""
        deck, slow = self._deck, self._slow
        flagged = count_flags(deck)
        now = self._clock.now().boot_s
        eta = self._forecasts.newest() if self._forecasts is not None else Forecast(None)
        under = (deck.run.number, deck.run.ended, deck.run.halted, deck.paused, deck.settings)
        if anew or now - slow.at >= _SLOW_S or slow.under != under:
            slow = self._slow = self._worked_out(now, under)
        return DeckHead(
            deck=deck.settings.name,
            file=self._file,
            log_dir=deck.settings.log_dir,
            former_log_dirs=self._former_log_dirs,
            run=deck.run.number,
            ended=deck.run.ended,
            counts=counts_of(deck),
            slots=slot_count(deck),
            used_slots=used_slots(deck),
            started=round(deck.run.started_wall, 3),
            paused=deck.paused,
            halted=deck.run.halted,
            unwritable=deck.unwritable,
            rounds=slow.rounds,
            shut_rounds=slow.shut_rounds,
            waiting_why=slow.waiting_why,
            waits=slow.waits,
            eta_s=None if eta.left_s is None else round(eta.left_s, 1),
            unmeasured=eta.unmeasured,
            barred=slow.barred[0],
            spent=slow.barred[1],
            budget=used_in_words(deck, now),
            held=flagged.held,
            changed=flagged.changed,
            stale=flagged.stale,
            file_plan=self._file_plan(),
            file_problem=self._file_problem(),
            simulated=any(gpu.simulated for gpu in deck.gpus.values()),
            on_cpu=deck.on_cpu,
            backend=deck.settings.backend,
        )

    def _worked_out(self, at: float, under: tuple[object, ...]) -> _Slow:
        deck = self._deck
        rounds, shut = self._rounds(at)
        why = sums(deck, at)
        rest = sums(deck, at, submitted=False) if deck.cluster else why
        told = {each.text for each in rest}
        waits = (*(text for text in rounds if text not in told), *(each.line for each in rest))
        return _Slow(at, under, rounds, shut, tuple(each.line for each in why), waits, barred_in_words(deck, at))

    def _rounds(self, at: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What keeps the next round of each group closed; and of that, what waits for a failure to be mended."""
        explainer = Explainer(self._deck, at)
        lines: dict[str, bool] = {}
        for gate in self._deck.closed:
            if not holds_back(self._deck, gate):
                continue
            obstacle = explainer.gate(gate)
            if obstacle.kind == "round":
                lines[obstacle.text] = gate.state is GateState.SHUT and bool(obstacle.tasks)
            if len(lines) >= _ROUND_LINES:
                break
        return tuple(lines), tuple(text for text, shut in lines.items() if shut)


def _reason(phase: Phase, outcome: Outcome | None) -> str:
    if isinstance(phase, Unknown):
        return phase.why
    if isinstance(phase, Cached):
        return f"done as {phase.done_as}" if phase.done_as else ""
    if isinstance(phase, Stopping) and _makes_way(phase):
        return f"makes way: {phase.by} takes its place"
    if isinstance(phase, Closing) and phase.attempt.gone_at is None:
        ended = "its command has ended" if phase.outcome.ok else describe(phase.outcome)
        return f"{ended}, keeps its slot until all that it started has ended"
    return "" if outcome is None or outcome.ok else describe(outcome)


def _makes_way(phase: Phase) -> bool:
    return isinstance(phase, Stopping) and phase.why == "preempted"


def _state(task: Task) -> State:
    return NAMES[type(task.phase)]  # pyright: ignore[reportReturnType]
