"""A broken GPU must not eat the night: after fast failures of different tasks it rests until a probe passes."""

from __future__ import annotations

from .apply import FAST_S
from .deck import Deck, Task
from .devices import Gpu
from .events import GpuQuarantined, Outcome

PROBES_S = (60.0, 300.0, 900.0)
"""How long a quarantined GPU rests before the 1st, 2nd, 3rd and every further probe."""


class Streaks:
    """Fast failures in a row, by GPU. Live memory only: a restart begins to count anew."""

    def __init__(self) -> None:
        self._by_gpu: dict[str, list[tuple[str, bool]]] = {}

    def ended(self, task: Task, gpus: tuple[str, ...], outcome: Outcome, duration_s: float) -> None:
        """Take an end in. Only single-GPU attempts say which GPU it was."""
        if outcome.reason in ("cancelled", "interrupted", "spawn error", "lost"):
            return
        for uuid in gpus:
            if outcome.ok or duration_s >= FAST_S:
                self._by_gpu.pop(uuid, None)
            elif len(gpus) == 1:
                streak = self._by_gpu.setdefault(uuid, [])
                streak[:] = [(name, device) for name, device in streak if name != task.name]
                streak.append((task.name, outcome.device_fault))

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
        if len(recent) < limit or not (
            all(device for _, device in recent) or self._fine_elsewhere(deck, recent, gpu, at)
        ):
            return None
        self._by_gpu.pop(uuid, None)
        return GpuQuarantined(uuid, tuple(name for name, _ in recent), at, at + PROBES_S[0], 0)

    def _probe_failed(self, gpu: Gpu, streak: list[tuple[str, bool]], at: float) -> GpuQuarantined | None:
        if gpu.quarantine is None or not streak:
            return None
        step = gpu.quarantine.step + 1
        name = streak.pop()[0]
        return GpuQuarantined(gpu.uuid, (name,), at, at + PROBES_S[min(step, len(PROBES_S) - 1)], step)

    def _fine_elsewhere(self, deck: Deck, recent: list[tuple[str, bool]], gpu: Gpu, at: float) -> bool:
        """Tasks of the same entries get past a minute on other GPUs."""
        entries = {deck.by_name[name].entry for name, _ in recent if name in deck.by_name}
        for entry in entries:
            if any(uuid != gpu.uuid for uuid in entry.past_minute):
                return True
        for task in deck.active.values():
            attempt = task.attempt()
            if attempt is None or task.entry not in entries or at - attempt.at < FAST_S:
                continue
            if any(uuid != gpu.uuid for uuid in attempt.gpus):
                return True
        return False
