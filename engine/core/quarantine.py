"""A broken GPU must not eat the night: after fast failures of different tasks it rests until a probe passes.

Where the last sound GPU would rest too, it is the command that is broken: all GPUs come back, and the tasks fail.
"""

from __future__ import annotations

from typing import NamedTuple

from .apply_attempt import BLAMELESS, FAST_S
from .deck import Deck, Task
from .devices import PROBES_S, Gpu
from .events import GpuQuarantined, GpuReleased, Outcome
from .learned import Entry

EARLY_S = 30.0
"""What fails sooner after its start has not got as far as its work."""
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
        self._broken: set[Entry] = set()
        """Entries that failed on every GPU: until one of their tasks does well, their faults accuse no GPU."""
        self._alike_at = -1e9
        """When tasks were last found to fail on every GPU: what went well before proves nothing."""
        self.early: dict[str, None] = {}
        """Tasks in a row that failed within EARLY_S of their start, on whatever GPU."""

    def follow(self, deck: Deck) -> None:
        """The deck was built anew: its entries are other objects."""
        self._broken = {deck.entries[entry.name] for entry in self._broken if entry.name in deck.entries}

    def ended(self, task: Task, gpus: tuple[str, ...], outcome: Outcome, duration_s: float, *, at: float) -> None:
        """Take an end in. Only single-GPU attempts say which GPU it was."""
        if outcome.reason in ("cancelled", "interrupted", "preempted", "pruned", "spawn error", "lost", "port taken"):
            return
        if outcome.ok or duration_s >= FAST_S:
            self._broken.discard(task.entry)
        for uuid in gpus:
            if outcome.ok or duration_s >= FAST_S:
                self._by_gpu.pop(uuid, None)
            elif len(gpus) == 1:
                streak = self._by_gpu.setdefault(uuid, [])
                streak[:] = [failure for failure in streak if failure.task != task.name]
                streak.append(_Failure(task.name, outcome.device_fault and task.entry not in self._broken, at))

    def ended_early(self, task: Task, outcome: Outcome, duration_s: float) -> None:
        """Take an end in, for `halt`."""
        if outcome.reason in BLAMELESS:
            return
        if outcome.ok or duration_s >= EARLY_S:
            self.early.clear()
        else:
            self.early[task.name] = None

    def verdict(self, deck: Deck, uuid: str, at: float) -> list[GpuQuarantined | GpuReleased]:
        """What the newest failure on this GPU says of it, and of the others."""
        gpu = deck.gpus.get(uuid)
        streak = self._by_gpu.get(uuid, [])
        limit = deck.settings.gpu_quarantine
        if gpu is None or gpu.simulated or limit < 1 or len(deck.gpus) < 2:
            return []
        if gpu.quarantine is not None:
            return self._probe_failed(deck, gpu, streak, at)
        recent = streak[-limit:]
        guilty = all(failure.device_fault for failure in recent) or self._fine_elsewhere(deck, recent, gpu, at)
        if len(recent) < limit or not guilty:
            return []
        self._by_gpu.pop(uuid, None)
        names = tuple(failure.task for failure in recent)
        if not _sound_peers(deck, gpu):
            return self._all_alike(deck, names, at)
        return [GpuQuarantined(uuid, names, at, at + PROBES_S[0], 0)]

    def _all_alike(self, deck: Deck, names: tuple[str, ...], at: float) -> list[GpuQuarantined | GpuReleased]:
        """Tasks fail fast on every GPU: that is no fault of one of them."""
        self._by_gpu.clear()
        self._alike_at = at
        self._broken.update(deck.by_name[name].entry for name in names if name in deck.by_name)
        why = "tasks fail fast on every GPU"
        return [GpuReleased(gpu.uuid, at, why) for gpu in deck.gpus.values() if gpu.quarantine is not None]

    @staticmethod
    def quarantined_again(gpu: Gpu, at: float, names: tuple[str, ...] = ()) -> GpuQuarantined:
        """A probe of it did not succeed: it rests longer. *names*: the task that failed, where it had this GPU alone;
        one on several proves nothing."""
        step = gpu.quarantine.step + 1 if gpu.quarantine is not None else 0
        return GpuQuarantined(gpu.uuid, names, at, at + PROBES_S[min(step, len(PROBES_S) - 1)], step)

    def _probe_failed(
        self, deck: Deck, gpu: Gpu, streak: list[_Failure], at: float
    ) -> list[GpuQuarantined | GpuReleased]:
        if not streak:
            return []
        name = streak.pop().task
        if not _sound_peers(deck, gpu):
            return self._all_alike(deck, (name,), at)
        return [self.quarantined_again(gpu, at, (name,))]

    def _fine_elsewhere(self, deck: Deck, recent: list[_Failure], gpu: Gpu, at: float) -> bool:
        """Tasks of the same entries get past a minute on other GPUs, now or shortly before the first failure here."""
        entries = {deck.by_name[failure.task].entry for failure in recent if failure.task in deck.by_name}
        since = max(min((failure.at for failure in recent), default=at) - RECENT_S, self._alike_at)
        for entry in entries:
            if any(uuid != gpu.uuid and when >= since for uuid, when in entry.past_minute.items()):
                return True
        return any(
            task.entry in entries and at - attempt.at >= FAST_S and any(uuid != gpu.uuid for uuid in attempt.gpus)
            for task, attempt in deck.lasting
        )


def _sound_peers(deck: Deck, gpu: Gpu) -> bool:
    """Whether another GPU is to be had on which tasks might do better."""
    others = (other for other in deck.gpus.values() if other is not gpu)
    return any(other.quarantine is None and not other.lost and other.mark != "drain" for other in others)
