"""Follows the logs of running attempts through a helper process: progress, metrics, watch rules.

Scheduling never waits for it: a helper that does not answer is killed and another one started, and what held it up is
left out from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.deck import Deck, Task
from ..core.inputs import Progressed
from ..core.phases import Attempt, Closing, Running, Stopping
from ..core.readings import GpuReading
from ..core.spec import TaskSpec
from ..logs.files import AttemptPaths
from ..logs.helper import Request, Supervisor
from ..logs.metrics import from_text
from ..ports import Sink
from .followed import Followed, Roll, name_of, request_of
from .last_metrics import LastMetrics
from .reported import NOTHING, Reported, Seen
from .watching import WatchRules

PERIOD_S = 1.0
FIRST_S = 1.0
"""Attempts that end sooner are looked at only once, at their end, and only for metrics of theirs."""
REST_S = 60.0
"""Logs on a file system that did not answer are let alone for so long."""
LAST_LOOK_S = 10.0
"""What the logs of an ended attempt say is waited for so long, then taken as far as it is known."""
IDLE_PERIODS = 10
"""A helper with nothing to do is ended after so many periods."""
SHARE_STEP_S = 5.0
"""The core is told of an expected end that has moved by more than this and a twentieth of what is left."""


@dataclass(frozen=True, slots=True)
class LastLook:
    """An attempt that has ended."""

    token: str
    task: Task
    spec: TaskSpec
    """What it was started as."""
    paths: AttemptPaths
    started_wall: float


class Following:
    """All methods on the loop's thread; none of them blocks but `close`."""

    def __init__(
        self,
        deck: Deck,
        loop: asyncio.AbstractEventLoop,
        *,
        paths: Callable[[str, int, bool], AttemptPaths],
        post: Sink,
        notice: Callable[[str], None],
        now: Callable[[], float],
        store: str,
    ) -> None:
        """*paths*: `LogFolder.paths`. *notice* is told what a user should know. *now*: CLOCK_BOOTTIME.
        *store*: a file for what the next engine is to know of attempts that run on."""
        self._deck = deck
        self._loop = loop
        self._paths = paths
        self._post = post
        self._notice = notice
        self._now = now
        self._roll = Roll()
        self._last = LastMetrics(deck, loop, paths)
        self._off: set[tuple[str, str]] = set()
        """(task, what): patterns that hung."""
        self._rules = WatchRules(post, notice)
        self._reader = Supervisor(
            loop, now, store, answer=self._answered, anew=self._anew, blame=self._blame, useless=self._give_up
        )
        self._useless = False
        """The helper of another version, or none at all: nothing is followed any more."""
        self._idle = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    # -- what the engine asks -----------------------------------------------------------------------------------------

    @property
    def helper(self) -> int:
        """Pid of the process that reads; 0: there is none now."""
        return self._reader.pid

    def wake(self) -> None:
        """Something may run now. Costs next to nothing."""
        if self._timer is None and self._deck.active and not self._closed:
            self._timer = self._loop.call_later(PERIOD_S, self._tick)

    def of(self, token: str) -> Seen:
        """What is known of an attempt that runs."""
        found = self._roll.of(token)
        return NOTHING if found is None else found.seen(self._now())

    def last_metrics(self, task: str) -> Reported:
        """What the newest attempt of a task said in the end, as far as that has been read."""
        return self._last.of(task)

    def finish(self, ended: LastLook, done: Callable[[Seen], None]) -> None:
        """Tell *done* what the logs of an attempt say in the end: at once where nothing is to be read, else within
        seconds."""
        token, spec = ended.token, ended.spec
        self._last.forget(ended.task.name)
        found = self._roll.of(token)
        reads = not self._useless and not self._closed
        watch = spec.extras.watch
        looks = bool(spec.extras.metrics) or (watch is not None and bool(watch.pattern))
        if not reads or (found is None and not looks):
            if found is not None:
                self._last.keep(found.task.name, found.reported)
            done(NOTHING if found is None else found.seen(self._now()))
            self._roll.forget(token)
            return
        if found is None:
            found = self._roll.add(token, ended.task, spec, ended.paths, ended.started_wall)
            requests = [request_of(found, self._off)]
        else:
            requests = list[Request]()
        self._last.keep(found.task.name, found.reported)
        found.done, found.asked_at = done, self._now()
        self._reader.send(*requests, {"do": "final", "id": found.id})
        self._arm()

    def verdict(self, ended: LastLook, judge: Callable[[str], None]) -> None:
        """Tell *judge* the line of the output in which the pattern of the watch rule stands, looked for to the last
        byte; "": in none, or nobody can tell."""
        found = self._roll.of(ended.token)
        if self._useless or self._closed or (found is not None and found.hit):
            judge(found.hit if found is not None else "")
            return
        requests: list[Request] = []
        if found is None:
            found = self._roll.add(ended.token, ended.task, ended.spec, ended.paths, ended.started_wall)
            requests = [request_of(found, self._off)]
        found.judge, found.asked_at = judge, self._now()
        self._reader.send(*requests, {"do": "judge", "id": found.id})
        self._arm()

    def sampled(self, readings: Sequence[GpuReading]) -> None:
        """Judge `idle_gpu` rules."""
        self._rules.idle(readings, self._deck.active, self._now())

    def close(self) -> None:
        """End it. What is being read of attempts that have ended is waited for, two seconds at most."""
        self._closed = True
        self._last.close()
        if self._timer is not None:
            self._timer.cancel()
        self._reader.wait(lambda: not self._roll.ending())
        for found in self._roll.ending():
            self._ended(found)
        self._reader.end()

    # -- every second -------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._timer = None
        now = self._now()
        self._reader.check()
        for found in self._roll:
            if found.asked_at and now - found.asked_at > LAST_LOOK_S:
                self._judged(found)
                if found.done is not None:
                    self._ended(found)
        requests = self._compare(now)
        if self._roll:
            self._idle = 0
            if not requests or self._reader.send(*requests):
                self._reader.look()
        else:
            self._idle += 1
            if self._idle >= IDLE_PERIODS or not self._deck.active:
                self._reader.end()
        if self._deck.active or self._roll:
            self._arm()

    def _arm(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = self._loop.call_later(PERIOD_S, self._tick)

    def _compare(self, now: float) -> list[Request]:
        """Follow what has begun to run, and let go of what has not been told as ended."""
        requests: list[Request] = []
        for found in self._roll:
            if found.token in self._deck.active or found.done is not None:
                continue
            found.gone_at = found.gone_at or now
            if now - found.gone_at > REST_S:  # its end is told once that is on disk
                requests.append({"do": "drop", "id": found.id})
                self._roll.forget(found.token)
        if self._useless:
            return requests
        for token, task in self._deck.active.items():
            attempt = task.attempt()
            if attempt is None or not isinstance(task.phase, (Running, Stopping, Closing)):
                continue
            found = self._roll.of(token)
            if found is None and now - attempt.at >= FIRST_S:
                spec = task.begun_spec
                paths = self._paths(task.name, attempt.number, spec.policy.merge_stderr)
                found = self._roll.add(token, task, spec, paths, attempt.wall)
                requests.append(request_of(found, self._off))
            elif found is not None:
                found.task = task
                if self._is_new(found, task, attempt) or 0 < found.rest_until <= now:
                    found.rest_until = 0.0
                    requests.append(request_of(found, self._off))
        return requests

    def _is_new(self, found: Followed, task: Task, attempt: Attempt) -> bool:
        """What is to be looked for was changed under the attempt, by an edit that leaves its work as it is."""
        if attempt.fingerprint != task.spec.fingerprint or found.spec.extras is task.spec.extras:
            return False
        before, now, found.spec = found.spec.extras, task.spec.extras, task.spec
        if before.watch != now.watch:
            found.hit, found.silent, found.large = "", False, False
        return before != now

    def _anew(self) -> list[Request]:
        now = self._now()
        requests = [request_of(found, self._off) for found in self._roll if found.rest_until <= now]
        requests += [{"do": "judge", "id": found.id} for found in self._roll if found.judge is not None]
        return [*requests, *({"do": "final", "id": found.id} for found in self._roll.ending())]

    def _blame(self, attempt: int, what: int, pattern: bool) -> None:
        """The helper hung while it was busy with this."""
        found = self._roll.numbered(attempt)
        if found is not None and pattern:
            self._switch_off(found, what)
        elif found is not None:
            found.rest_until = self._now() + REST_S

    def _give_up(self, why: str) -> None:
        self._useless = True
        self._notice(f"progress and metrics are not shown, watch rules do not act: {why}")
        for found in self._roll:
            if found.told_end is not None:
                self._post(Progressed(found.token, None, None))
            self._judged(found)
            self._ended(found)

    # -- its answers --------------------------------------------------------------------------------------------------

    def _answered(self, answer: dict[str, Any]) -> None:
        if "hello" in answer:
            for found in self._roll:
                found.asked_at = self._now() if found.asked_at else 0.0
        for key, changes in answer.get("seen", {}).items():
            found = self._roll.numbered(int(key))
            if found is not None and changes:
                self._take(found, changes)
        for number, what in answer.get("hung", ()):
            if (found := self._roll.numbered(number)) is not None:
                self._switch_off(found, what)
        for number, line in answer.get("hits", ()):
            if (found := self._roll.numbered(number)) is not None:
                self._rules.pattern(found, line)
        if "judge" in answer and (found := self._roll.numbered(answer["judge"])) is not None:
            self._judged(found)
        if "final" in answer:
            found = self._roll.numbered(answer["final"])
            if found is not None and found.done is not None:
                self._ended(found)

    def _take(self, found: Followed, changes: dict[str, Any]) -> None:
        if "share" in changes:
            found.fraction = changes["share"]
        if "ends_at" in changes:
            found.ends_at = changes["ends_at"]
            self._tell_core(found)
        if "metrics" in changes:
            found.metrics |= from_text(changes["metrics"])
        if "best" in changes:
            found.best |= from_text(changes["best"])
        found.curve = changes.get("curve", found.curve)
        found.line = changes.get("line", found.line)
        if "silent" in changes:
            found.silent = changes["silent"]
            self._rules.silence(found)
        if "large" in changes:
            found.large = changes["large"]
            self._rules.size(found)
        if found.done is not None:
            self._last.keep(found.task.name, found.reported)
        self._last.moved(found.task.name)

    def _tell_core(self, found: Followed) -> None:
        now, end, told = self._now(), found.ends_at, found.told_end
        if end is not None and told is not None and abs(end - told) <= SHARE_STEP_S + 0.05 * max(0.0, end - now):
            return
        if end is None and told is None:
            return
        found.told_end = end
        self._post(Progressed(found.token, found.fraction, None if end is None else max(0.0, end - now)))

    def _switch_off(self, found: Followed, what: int) -> None:
        """A pattern hung: it is not used for this task any more."""
        name = name_of(what, found.spec.extras.metrics)
        if name and (found.task.name, name) not in self._off:
            self._off.add((found.task.name, name))
            text = f"{found.task.name}: its pattern for {name} takes seconds for a line and is not used any more"
            self._notice(f"{text}: make it simpler")

    def _judged(self, found: Followed) -> None:
        judge, found.judge = found.judge, None
        if judge is not None:
            found.asked_at = 0.0 if found.done is None else found.asked_at
            judge(found.hit)

    def _ended(self, found: Followed) -> None:
        self._roll.forget(found.token)
        if found.done is not None:
            found.done(found.seen(self._now()))
