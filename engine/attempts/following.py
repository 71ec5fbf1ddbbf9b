"""Follows the logs of running attempts through a helper process: progress, metrics, watch rules.

Scheduling never waits for it: a helper that does not answer is killed and another one started, and what held it up is
left out from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from ..adapters.background import Background
from ..core.deck import Deck, Task
from ..core.inputs import Progressed, ReachedPoint
from ..core.phases import Attempt, Closing, Running, Stopping
from ..core.readings import GpuReading
from ..logs.files import AttemptPaths
from ..logs.helper import Request, Supervisor
from ..logs.metrics import from_text
from ..ports import Sink
from .progress import NOTHING, LastMetrics, Progress
from .running import Followed, RunningAttempt
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


class Following:
    """All methods on the loop's thread; none of them blocks but `close`."""

    def __init__(
        self,
        deck: Deck,
        loop: asyncio.AbstractEventLoop,
        *,
        paths: Callable[[str, int, bool], AttemptPaths],
        running: Callable[[str, Task, int], RunningAttempt],
        post: Sink,
        notice: Callable[[str], None],
        now: Callable[[], float],
        store: str,
    ) -> None:
        """*paths*: `LogFolder.paths`. *running*: `RunningAttempts.of`. *notice* is told what a user should know.
        *now*: CLOCK_BOOTTIME. *store*: a file for what the next engine is to know of attempts that run on."""
        self._deck = deck
        self._loop = loop
        self._running = running
        self._post = post
        self._notice = notice
        self._now = now
        self._followed: dict[str, Followed] = {}
        """By token."""
        self._numbered: dict[int, Followed] = {}
        """The same by the number that the helper knows them by."""
        self._next_id = 1
        self._last = LastMetrics(deck, loop, paths, Background(loop))
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

    def wake(self) -> None:
        """Something may run now. Costs next to nothing."""
        if self._deck.active:
            self._arm()

    def of(self, token: str) -> Progress:
        """What is known of an attempt that runs."""
        found = self._followed.get(token)
        return NOTHING if found is None else found.progress(self._now())

    def last_metrics(self, task: str) -> Progress:
        """What the newest attempt of a task said in the end, as far as that has been read."""
        return self._last.of(task)

    def finish(self, task: Task, ended: RunningAttempt, done: Callable[[Progress], None]) -> None:
        """Tell *done* what the logs of an attempt say in the end: at once where nothing is to be read, else within
        seconds."""
        extras = ended.spec.extras
        self._last.forget(task.name)
        found = self._followed.get(ended.token)
        reads = not self._useless and not self._closed
        looks = bool(extras.metrics or ended.before) or (extras.watch is not None and bool(extras.watch.pattern))
        if not reads or (found is None and not looks):
            if found is not None:
                self._keep(found)
            done(NOTHING if found is None else found.progress(self._now()))
            self._forget(ended.token)
            return
        requests: list[Request] = []
        if found is None:
            found = self._follow(task, ended)
            requests = [found.request(self._off)]
        self._keep(found)
        found.done, found.asked_at = done, self._now()
        self._reader.send(*requests, {"do": "final", "id": found.id})
        self._arm()

    def verdict(self, task: Task, ended: RunningAttempt, judge: Callable[[str], None]) -> None:
        """Tell *judge* the line of the output in which the pattern of the watch rule stands, looked for to the last
        byte; "": in none, or nobody can tell."""
        found = self._followed.get(ended.token)
        if self._useless or self._closed or (found is not None and found.hit):
            judge(found.hit if found is not None else "")
            return
        requests: list[Request] = []
        if found is None:
            found = self._follow(task, ended)
            requests = [found.request(self._off)]
        found.judge, found.asked_at = judge, self._now()
        self._reader.send(*requests, {"do": "judge", "id": found.id})
        self._arm()

    def sampled(self, readings: Sequence[GpuReading]) -> None:
        """Judge `idle_gpu` rules."""
        self._rules.idle(readings, self._deck.lasting, self._now())

    def close(self) -> None:
        """End it. What is being read of attempts that have ended is waited for, two seconds at most."""
        self._closed = True
        self._last.close()
        if self._timer is not None:
            self._timer.cancel()
        self._reader.wait(lambda: not self._ending())
        for found in self._ending():
            self._ended(found)
        self._reader.end()

    # -- whom it follows ----------------------------------------------------------------------------------------------

    def _follow(self, task: Task, attempt: RunningAttempt) -> Followed:
        found = Followed(self._next_id, attempt, task, attempt.spec)
        self._next_id += 1
        self._followed[attempt.token] = self._numbered[found.id] = found
        return found

    def _forget(self, token: str) -> None:
        """One that is not there is ignored."""
        found = self._followed.pop(token, None)
        if found is not None:
            self._numbered.pop(found.id, None)

    def _ending(self) -> list[Followed]:
        """Those that have ended, whose last look is awaited."""
        return [found for found in self._followed.values() if found.done is not None]

    def _keep(self, found: Followed) -> None:
        """The task's row shows what it reported last."""
        self._last.keep(found.task.name, found.progress(self._now()))

    # -- every second -------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._timer = None
        now = self._now()
        self._reader.check()
        for found in list(self._followed.values()):
            if found.asked_at and now - found.asked_at > LAST_LOOK_S:
                self._judged(found)
                if found.done is not None:
                    self._ended(found)
        requests = self._compare(now)
        if self._followed:
            self._idle = 0
            if not requests or self._reader.send(*requests):
                self._reader.look()
        else:
            self._idle += 1
            if self._idle >= IDLE_PERIODS or not self._deck.active:
                self._reader.end()
        if self._deck.active or self._followed:
            self._arm()

    def _arm(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = self._loop.call_later(PERIOD_S, self._tick)

    def _compare(self, now: float) -> list[Request]:
        """Follow what has begun to run, and let go of what has not been told as ended."""
        requests: list[Request] = []
        for found in list(self._followed.values()):
            if found.token in self._deck.active or found.done is not None:
                continue
            found.gone_at = found.gone_at or now
            if now - found.gone_at > REST_S:  # its end is told once that is on disk
                requests.append({"do": "drop", "id": found.id})
                self._forget(found.token)
        if self._useless:
            return requests
        for task, attempt in self._deck.lasting:
            if not isinstance(task.phase, (Running, Stopping, Closing)):
                continue
            found = self._followed.get(attempt.token)
            if found is None and now - attempt.at >= FIRST_S:
                found = self._follow(task, self._running(attempt.token, task, attempt.number))
                requests.append(found.request(self._off))
            elif found is not None:
                found.task = task
                if self._is_new(found, task, attempt) or 0 < found.rest_until <= now:
                    found.rest_until = 0.0
                    requests.append(found.request(self._off))
        return requests

    def _is_new(self, found: Followed, task: Task, attempt: Attempt) -> bool:
        """What is to be looked for was changed under the attempt, by an edit that leaves its work as it is."""
        if attempt.fingerprint != task.spec.fingerprint:
            return False
        before, now, found.spec = found.spec.extras, task.spec.extras, task.spec
        if before.watch != now.watch:
            found.hit, found.silent, found.large = "", False, False
        return before != now

    def _anew(self) -> list[Request]:
        now = self._now()
        requests = [found.request(self._off) for found in self._followed.values() if found.rest_until <= now]
        requests += [{"do": "judge", "id": found.id} for found in self._followed.values() if found.judge is not None]
        return [*requests, *({"do": "final", "id": found.id} for found in self._ending())]

    def _blame(self, attempt: int, what: int, pattern: bool) -> None:
        """The helper hung while it was busy with this."""
        found = self._numbered.get(attempt)
        if found is not None and pattern:
            self._switch_off(found, what)
        elif found is not None:
            found.rest_until = self._now() + REST_S

    def _give_up(self, why: str) -> None:
        self._useless = True
        self._notice(f"progress and metrics are not shown, watch rules do not act: {why}")
        for found in list(self._followed.values()):
            if found.told_end is not None:
                self._post(Progressed(found.token, None))
            self._judged(found)
            self._ended(found)

    # -- its answers --------------------------------------------------------------------------------------------------

    def _answered(self, answer: dict[str, Any]) -> None:
        if "hello" in answer:
            for found in list(self._followed.values()):
                found.asked_at = self._now() if found.asked_at else 0.0
        for key, changes in answer.get("seen", {}).items():
            found = self._numbered.get(int(key))
            if found is not None and changes:
                self._take(found, changes)
        for number, what in answer.get("hung", ()):
            if (found := self._numbered.get(number)) is not None:
                self._switch_off(found, what)
        for number, line in answer.get("hits", ()):
            if (found := self._numbered.get(number)) is not None:
                self._rules.pattern(found, line)
        for number, metric, point, value in answer.get("points", ()):
            if (found := self._numbered.get(number)) is not None:
                self._post(ReachedPoint(found.token, metric, point, value))
        if "judge" in answer and (found := self._numbered.get(answer["judge"])) is not None:
            self._judged(found)
        if "final" in answer:
            found = self._numbered.get(answer["final"])
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
            self._keep(found)
        self._last.moved(found.task.name)

    def _tell_core(self, found: Followed) -> None:
        now, end, told = self._now(), found.ends_at, found.told_end
        if end is not None and told is not None and abs(end - told) <= SHARE_STEP_S + 0.05 * max(0.0, end - now):
            return
        if end is None and told is None:
            return
        found.told_end = end
        self._post(Progressed(found.token, None if end is None else max(0.0, end - now)))

    def _switch_off(self, found: Followed, what: int) -> None:
        """A pattern hung: it is not used for this task any more."""
        name = found.pattern_name(what)
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
        self._forget(found.token)
        if found.done is not None:
            found.done(found.progress(self._now()))
