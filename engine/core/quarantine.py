"""A broken GPU must not eat the night: after fast failures of different tasks it rests until a probe passes."""

from __future__ import annotations

from typing import NamedTuple

from .apply import FAST_S
from .deck import Deck, Task
from .devices import PROBES_S, Gpu
from .events import GpuQuarantined, Outcome

RECENT_S = 600.0
"""A task that got past a minute elsewhere longer ago than this does not speak for today's environment."""


class _Failure(NamedTuple):
    task: str
    device_fault: bool
    at: float


class Streaks:
    """Fast failures in a row, by GPU. Live memory only: a restart begins to count anew."""

    def __init__(self) -> None:
        self._by_gpu: dict[str, list[_Failure]] = {}

    def ended(self, task: Task, gpus: tuple[str, ...], outcome: Outcome, duration_s: float, *, at: float) -> None:
        """Take an end in. Only single-GPU attempts say which GPU it was."""
        if outcome.reason in ("cancelled", "interrupted", "spawn error", "lost"):
            return
        for uuid in gpus:
            if outcome.ok or duration_s >= FAST_S:
                self._by_gpu.pop(uuid, None)
            elif len(gpus) == 1:
                streak = self._by_gpu.setdefault(uuid, [])
                streak[:] = [failure for failure in streak if failure.task != task.name]
                streak.append(_Failure(task.name, outcome.device_fault, at))

    def verdict(self, deck: Deck, uuid: str, at: float) -> GpuQuarantined | None:
        """Whether the newest failure on this GPU tips it into quarantine."""
        gpu = deck.gpus.get(uuid)
        streak = self._by_gpu.get(uuid, [])
        limit = deck.settings.gpu_quarantine
        if gpu is None or gpu.simulated or limit < 1 or len(deck.gpus) < 2:
            return None
        if gpu.quarantine is not None:
            return self._probe_failed(gpu, streak, at)
        recent = streak[-limit:]
        guilty = all(failure.device_fault for failure in recent) or self._fine_elsewhere(deck, recent, gpu, at)
        if len(recent) < limit or not guilty:
            return None
        self._by_gpu.pop(uuid, None)
        return GpuQuarantined(uuid, tuple(failure.task for failure in recent), at, at + PROBES_S[0], 0)

    @staticmethod
    def gang_failed(gpu: Gpu, at: float) -> GpuQuarantined:
        """A task on several GPUs that was the probe of this one did not succeed: no proof, and no more for a while."""
        step = gpu.quarantine.step + 1 if gpu.quarantine is not None else 0
        return GpuQuarantined(gpu.uuid, (), at, at + PROBES_S[min(step, len(PROBES_S) - 1)], step)

    def _probe_failed(self, gpu: Gpu, streak: list[_Failure], at: float) -> GpuQuarantined | None:
        if gpu.quarantine is None or not streak:
            return None
        step = gpu.quarantine.step + 1
        name = streak.pop().task
        return GpuQuarantined(gpu.uuid, (name,), at, at + PROBES_S[min(step, len(PROBES_S) - 1)], step)

    def _fine_elsewhere(self, deck: Deck, recent: list[_Failure], gpu: Gpu, at: float) -> bool:
        """Tasks of the same entries get past a minute on other GPUs, now or shortly before the first failure here."""
        entries = {deck.by_name[failure.task].entry for failure in recent if failure.task in deck.by_name}
        since = min((failure.at for failure in recent), default=at) - RECENT_S
        for entry in entries:
            if any(uuid != gpu.uuid and when >= since for uuid, when in entry.past_minute.items()):
                return True
        for task in deck.active.values():
            attempt = task.attempt()
            if attempt is None or task.entry not in entries or at - attempt.at < FAST_S:
                continue
            if any(uuid != gpu.uuid for uuid in attempt.gpus):
                return True
        return False
