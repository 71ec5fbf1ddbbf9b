"""Watch rules: what becomes of an attempt that is silent, says what it should not or too much, or leaves GPUs idle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..core.deck import Task
from ..core.devices import GpuReading
from ..core.inputs import Watched
from ..core.phases import Attempt, Running
from ..core.spec import Watch
from ..ports import Sink
from ..text import size_text
from .running import Followed

IDLE_PERCENT = 1
"""A GPU is idle at this utilisation or less."""


class WatchRules:
    """Acts on what was seen: says so, and stops the attempt where the task's action is "fail"."""

    def __init__(self, post: Sink, notice: Callable[[str], None]) -> None:
        self._post = post
        self._notice = notice
        self._idle_gpus = IdleGpus()

    def silence(self, found: Followed) -> None:
        """An attempt has become silent for as long as its rule allows, or is no longer."""
        watch = found.spec.extras.watch
        if found.silent and found.done is None and watch is not None and watch.silent_s is not None:
            said = f"; its last line: {found.line}" if found.line else ""
            self._hit(found.task, found.token, f"silent for {_span(watch.silent_s)}{said}")

    def size(self, found: Followed) -> None:
        """The logs of an attempt have grown beyond what its rule allows, or were cut since."""
        watch = found.spec.extras.watch
        if found.large and found.done is None and watch is not None and watch.log_size_mib is not None:
            self._hit(found.task, found.token, f"its logs have grown beyond {size_text(watch.log_size_mib << 20)}")

    def pattern(self, found: Followed, line: str) -> None:
        """Its pattern was found in a line; told once. Of an attempt that has ended the rule's action is its end."""
        watch = found.spec.extras.watch
        if watch is None or found.hit:
            return
        found.hit = line
        if watch.action == "notify":
            self._notice(f"{found.task.name}: {pattern_hit(watch, line)}")
        elif found.done is None and found.judge is None:
            self._hit(found.task, found.token, pattern_hit(watch, line), done=watch.action == "succeed")

    def idle(self, readings: Sequence[GpuReading], active: Mapping[str, Task], now: float) -> None:
        """GPUs were read. *now*: CLOCK_BOOTTIME."""
        for token, idle_s in self._idle_gpus.take(readings, active, now):
            self._hit(active[token], token, f"its GPUs have been idle for {_span(idle_s)}")

    def _hit(self, task: Task, token: str, why: str, *, done: bool = False) -> None:
        """*done*: it says that its work is done."""
        watch = task.spec.extras.watch
        if watch is None or not isinstance(task.phase, Running):
            return
        if done:
            self._notice(f"{task.name} is done and is being stopped: {why}")
            self._post(Watched(token, why))
        elif watch.action == "fail":
            self._notice(f"{task.name} is being stopped by its watch rule: {why}")
            self._post(Watched(token, why))
        else:
            self._notice(f"{task.name}: {why}")


def pattern_hit(watch: Watch, line: str) -> str:
    """What is said of a line in which a rule's pattern was found."""
    return f'its output has "{watch.pattern}": {line}'


def _span(seconds: float) -> str:
    """ "30 min", "90 s", "2 h"."""
    if seconds < 120:
        return f"{seconds:g} s"
    minutes = seconds / 60
    return f"{minutes:.3g} min" if minutes < 120 else f"{minutes / 60:.3g} h"


@dataclass(slots=True)
class _Idle:
    busy_at: float
    """When one of its GPUs computed last."""
    said: bool = False


class IdleGpus:
    """Finds attempts whose GPUs do nothing."""

    def __init__(self) -> None:
        self._idle: dict[str, _Idle] = {}

    def take(self, readings: Iterable[GpuReading], active: Mapping[str, Task], now: float) -> list[tuple[str, float]]:
        """Tokens of attempts with an `idle_gpu` rule all of whose GPUs have been idle for that long, with the rule's
        seconds; each once until it computes again. *now*: CLOCK_BOOTTIME. A GPU that tells nothing is not idle."""
        utils = {reading.uuid: reading.util_percent for reading in readings if not reading.lost}
        found: list[tuple[str, float]] = []
        kept: dict[str, _Idle] = {}
        for token, task in active.items():
            watch = task.spec.extras.watch
            attempt = task.attempt()
            if watch is None or watch.idle_gpu_s is None or attempt is None or not isinstance(task.phase, Running):
                continue
            state = kept[token] = self._idle.get(token) or _Idle(attempt.at)
            if not _all_idle(attempt, utils):
                state.busy_at, state.said = now, False
            elif now - state.busy_at >= watch.idle_gpu_s and not state.said:
                state.said = True
                found.append((token, watch.idle_gpu_s))
        self._idle = kept
        return found


def _all_idle(attempt: Attempt, utils: Mapping[str, int | None]) -> bool:
    known = [utils.get(uuid) for uuid in attempt.gpus]
    return bool(known) and all(util is not None and util <= IDLE_PERCENT for util in known)
