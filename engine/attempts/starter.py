"""Starts attempts: what touches the user's file systems first, on the loop only where it cannot hang."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from ..core.deck import Deck, Task
from ..core.effects import Effect, Launch
from ..core.inputs import JournalState, LeaderExited, Spawned, SpawnRefused, TreeGone
from ..errors import error_in_words, may_pass
from ..logs.files import LogFolder, NumberTakenError
from ..ports import LOOK_TIMEOUT_S, Aside, Launcher, Sink, SpawnRefusedError, StartOrder
from .environment import Box
from .start_plan import Planner, StartPlan

_T = TypeVar("_T")


class Starter:
    """Carries `Launch` out; the answer comes back as an input. All methods on the loop's thread."""

    def __init__(
        self,
        deck: Deck,
        launcher: Launcher,
        planner: Planner,
        logs: LogFolder,
        box: Box,
        post: Sink,
        aside: Aside,
        *,
        logs_may_hang: bool,
        started: Callable[[Task, StartPlan], None],
    ) -> None:
        """*started* is told of a wrapper before the core is."""
        self._deck = deck
        self._launcher = launcher
        self._planner = planner
        self._logs = logs
        self._box = box
        self._post = post
        self._aside = aside
        self._logs_may_hang = logs_may_hang
        self._started = started
        self._waiting: set[str] = set()
        """Tokens of starts that something is awaited for."""
        self._ahead: dict[str, tuple[StartPlan, StartOrder]] = {}
        """Made while the newest facts are being written."""
        self.guard: Callable[[], str] = lambda: ""
        """Why no process may be started any more; "" while one may."""

    def launch(self, effect: Launch) -> None:
        """Start. Outputs and patterns of the user's are looked at in a thread first, since they may lie on a server
        that is gone; a task without any starts at once."""
        task, code = self._deck.by_name[effect.task], self._box.code
        if code is not None and not code.ready(task):
            code.when_ready(task, self._unless_withdrawn(effect, partial(self._coded, task, effect)))
        elif self._may_hang(task, effect):
            self._prepare_aside(task, effect)
        else:
            self._start(task, effect, self._prepare(task, effect))

    def foresee(self, effects: Sequence[Effect]) -> None:
        """These are carried out once their facts are on disk: plan starts that touch no file of the user's."""
        self._ahead.clear()
        for effect in effects if self._box.code is None else ():
            if isinstance(effect, Launch) and not self._may_hang(task := self._deck.by_name[effect.task], effect):
                with suppress(OSError):  # it is met again, and told, when it is launched
                    self._ahead[effect.token] = self._planned(task, effect)

    def _planned(self, task: Task, effect: Launch) -> tuple[StartPlan, StartOrder]:
        plan = self._planner.plan(task, effect)
        return plan, self._planner.order(task, plan)

    def _coded(self, task: Task, effect: Launch, why: str) -> None:
        """Its code is there, unless there is a reason why not."""
        if why:
            self._post(SpawnRefused(effect.token, why))
        else:
            self._prepare_aside(task, effect)

    def _prepare_aside(self, task: Task, effect: Launch) -> None:
        done = self._unless_withdrawn(effect, partial(self._start, task, effect))
        self._aside.submit(lambda: self._prepare(task, effect), done, timeout_s=LOOK_TIMEOUT_S)

    def _unless_withdrawn(self, effect: Launch, then: Callable[[_T], None]) -> Callable[[_T], None]:
        """What goes on with a start, if it is still wanted when its answer comes."""
        self._waiting.add(effect.token)

        def go_on(answer: _T) -> None:
            if effect.token in self._waiting:
                self._waiting.discard(effect.token)
                then(answer)

        return go_on

    def _may_hang(self, task: Task, effect: Launch) -> bool:
        spec = task.begun_spec
        return bool(self._logs_may_hang or spec.outputs or (effect.may_resume and spec.resume))

    def withdraw(self, token: str) -> bool:
        """Whether an attempt was to be stopped before it had begun: then it never begins."""
        if token not in self._waiting:
            return False
        self._waiting.discard(token)
        self._post(SpawnRefused(token, "stopped before it began"))
        return True

    def _prepare(self, task: Task, effect: Launch) -> tuple[StartPlan, StartOrder] | OSError:
        """Its fact is on disk: the number of its logs is its own from now on."""
        try:
            plan, order = self._ahead.pop(effect.token, None) or self._planned(task, effect)
            self._logs.claim(task.name, effect.attempt, plan.paths, again=effect.again, make=order.job is None)
        except OSError as error:
            return error
        return plan, order

    def _start(self, task: Task, effect: Launch, prepared: tuple[StartPlan, StartOrder] | OSError | None) -> None:
        """*prepared* None: the file system does not answer."""
        barred = self.guard()
        if barred:
            self._post(JournalState(writable=False, why=barred))
            self._post(SpawnRefused(effect.token, barred))
            return
        if prepared is None:
            why = "its folders cannot be looked at: the file system does not answer"
            self._post(SpawnRefused(effect.token, why))
            return
        if isinstance(prepared, OSError):
            self._unprepared(effect.token, prepared)
            return
        plan, order = prepared
        try:
            leader = self._launcher.start(order)
        except SpawnRefusedError as error:
            self._post(SpawnRefused(effect.token, str(error), error.claimed))
            return
        self._started(task, plan)
        if leader is not None:
            pid, start_ticks = leader
            self._post(Spawned(effect.token, pid, start_ticks, self._box.pid_ns))

    def _unprepared(self, token: str, error: OSError) -> None:
        """What it needs cannot be had: a full disk passes, a file in the place of its log folder does not."""
        words = error_in_words(error)
        if isinstance(error, NumberTakenError):
            self._post(SpawnRefused(token, words, taken=error.highest))
            return
        if may_pass(error):
            self._post(SpawnRefused(token, words))
            return
        now = self._box.now()
        self._post(LeaderExited(token, None, now, spawn_error=f"it cannot be prepared: {words}"))
        self._post(TreeGone(token, now))
