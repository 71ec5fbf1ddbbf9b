"""How a deck stands, as a message: counts, what runs, what each GPU does, when it may be over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..core.deck import Deck
from ..core.devices import Gpu, is_stale
from ..core.forecast import Forecast
from ..core.why_waiting import why_waiting
from ..ports import Instant
from ..protocol.messages import GpuLine, RunningTask, Status
from ..protocol.words import silent_text
from .numbers import counts_of, why_unused

_NO_FORECAST = Forecast(None)


@dataclass(frozen=True, slots=True)
class Times:
    """When this engine took the run up."""

    boot_s: float
    wall_s: float

    def since(self, at: float) -> float:
        return max(0.0, at - self.boot_s)


def status_of(
    deck: Deck, times: Times, now: Instant, log_of: Callable[[str, int], str], eta: Forecast = _NO_FORECAST
) -> Status:
    """A picture of the deck at this moment."""
    gpus_now = deck.present_gpus
    index = {gpu.uuid: gpu.index for gpu in gpus_now.values()}
    running: list[RunningTask] = []
    for task, attempt in deck.lasting:
        if attempt.began:
            gpus = tuple(index[uuid] for uuid in attempt.gpus if uuid in index)
            elapsed = max(0.0, now.boot_s - attempt.at)
            log = log_of(task.name, attempt.number)
            expected = deck.forecast_s(task)
            job, nodes = attempt.job, attempt.nodes
            running.append(RunningTask(task.name, attempt.number, gpus, elapsed, expected, log, job, nodes))
    return Status(
        counts=counts_of(deck),
        running=tuple(running),
        gpus=tuple(_gpu_line(deck, gpu, now) for gpu in sorted(gpus_now.values(), key=lambda gpu: gpu.index)),
        waiting_why=tuple(why_waiting(deck, now.boot_s)),
        eta_s=eta.left_s,
        unmeasured=eta.unmeasured,
        at=times.since(now.boot_s),
        wall=now.wall_s,
    )


def _gpu_line(deck: Deck, gpu: Gpu, now: Instant) -> GpuLine:
    silent = is_stale(gpu, now.boot_s)
    reading = None if silent else gpu.reading
    names = tuple(deck.active[token].name for token in gpu.holders if token in deck.active)
    note = why_unused(deck, gpu, now.boot_s)[1]
    if silent and gpu.reading is not None:
        note = silent_text(gpu.reading.at + now.wall_s - now.boot_s)
    return GpuLine(
        index=gpu.index,
        tasks=names,
        util_percent=None if reading is None else reading.util_percent,
        used_mib=None if reading is None else reading.used_mib,
        total_mib=gpu.total_mib,
        note=note,
    )
