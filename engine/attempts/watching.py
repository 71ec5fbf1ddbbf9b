"""Watch rules: what becomes of an attempt that is silent, says what it should not or too much, or leaves GPUs idle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..core.deck import Task
from ..core.inputs import Watched
from ..core.phases import Attempt, Running
from ..core.readings import GpuReading
from ..core.spec import IDLE_BELOW, Watch
from ..ports import Sink
from ..text import size_text
from .running import Followed


class WatchRules:
    """Acts on what was seen: says so, and stops the attempt where the task's action is "fail"."""

    def __init__(self, post: Sink, notice: Callable[[str], None]) -> None:
        self._post = post
        self._notice = notice
        self._busy_at: dict[str, float] = {}
        """When one of an attempt's GPUs computed last, by token, while its rule says how long they may be idle."""
        self._idle: set[str] = set()
        """Tokens of attempts of which that was said."""

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

    def idle(self, readings: Sequence[GpuReading], lasting: Iterable[tuple[Task, Attempt]], now: float) -> None:
        """GPUs were read: attempts all of whose GPUs have been idle for as long as their rules allow are told of, each
        once until it computes again. A GPU that tells nothing is not idle. *now*: CLOCK_BOOTTIME."""
        utils = {reading.uuid: reading.util_percent for reading in readings if not reading.lost}
        busy_at: dict[str, float] = {}
        for task, attempt in lasting:
            watch, token = task.spec.extras.watch, attempt.token
            if watch is None or watch.idle_gpu_s is None or not isinstance(task.phase, Running):
                continue
            busy_at[token] = self._busy_at.get(token, attempt.at)
            if not _all_idle(attempt, utils, watch.idle_below):
                busy_at[token] = now
                self._idle.discard(token)
            elif now - busy_at[token] >= watch.idle_gpu_s and token not in self._idle:
                self._idle.add(token)
                below = "" if watch.idle_below == IDLE_BELOW else f" (below {watch.idle_below} %)"
                self._hit(task, token, f"its GPUs have been idle{below} for {_span(watch.idle_gpu_s)}")
        self._busy_at = busy_at
        self._idle &= busy_at.keys()

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


def _all_idle(attempt: Attempt, utils: Mapping[str, int | None], below: int) -> bool:
    known = [utils.get(uuid) for uuid in attempt.gpus]
    return bool(known) and all(util is not None and util < below for util in known)
