"""Keeps a helper process that answers: one that does not is killed, and another one started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from .follow import FILES
from .follow_main import PROTOCOL
from .helper import LogHelper

Request = dict[str, Any]

ANSWER_S = 2.0
"""A helper that takes longer is killed."""
START_S = 30.0
"""Time for its interpreter to start, on a box that is busy or has its Python on a file server."""
STILLBORN = 3
"""After so many helpers in a row that do not even start no more are tried."""
STARVED_S = 15.0
"""One that only waits for a processor may take so long."""
HUNG_CPU_S = 1.0
"""One that has computed for so long does not wait for a processor: it hangs."""
BLAMED_CPU_S = 0.5
"""A pattern is to blame for a helper that does not answer only if that has computed for so long meanwhile."""
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
"""Before another helper is started; doubles while none answers."""


class Supervisor:
    """Asks a helper and watches that it answers. On the loop's thread; `check` is to be called about once a second."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        now: Callable[[], float],
        store: str,
        *,
        answer: Callable[[dict[str, Any]], None],
        anew: Callable[[], Sequence[Request]],
        blame: Callable[[int, int, bool], None],
        useless: Callable[[str], None],
    ) -> None:
        """*now*: seconds of a clock that only goes forward. *store*: see `LogHelper`. *answer* is told each answer.
        *anew*: what a new helper has to know. *blame* is told what a helper that hung was busy with, and whether that
        was a pattern. *useless*: no helper will ever answer, and why."""
        self._loop = loop
        self._now = now
        self._store = store
        self._answer = answer
        self._anew = anew
        self._blame = blame
        self._useless = useless
        self._helper: LogHelper | None = None
        self._greeted = False
        self._asked_at: float | None = None
        """When it was asked what it has not answered yet."""
        self._used_s: float | None = None
        """Processor time that it had used soon after; None: not looked at yet."""
        self._stillborn = 0
        """Helpers in a row that ended before they said anything."""
        self._start_at = 0.0
        self._wait_s = FIRST_WAIT_S

    @property
    def pid(self) -> int:
        """0: there is none."""
        return 0 if self._helper is None else self._helper.pid

    @property
    def patience_s(self) -> float:
        """How long an answer may take."""
        return ANSWER_S if self._greeted else START_S

    def send(self, *requests: Request) -> bool:
        """Tell the helper, starting one if there is none. False: there is none now; a later one is told by *anew*."""
        if self._helper is None:
            self._start()
            return False
        self._helper.send(*requests)
        return True

    def look(self) -> None:
        """Ask for what is new, unless that is still being answered."""
        if self._helper is None:
            self._start()
        elif self._asked_at is None:
            self._helper.send({"do": "look"})
            self._asked_at, self._used_s = self._now(), None
        else:
            self._helper.send()

    def check(self) -> None:
        """Kill a helper that hangs."""
        helper = self._helper
        if helper is None or (self._asked_at is None and not helper.gone):
            return
        if self._waited_s() > self.patience_s:
            helper.poll()  # it may have answered while this process did something else
            if self._helper is not helper:
                return
        used_s, wants_more = helper.activity()
        if self._used_s is None:
            self._used_s = used_s
        used_s -= self._used_s
        starved = wants_more and used_s < HUNG_CPU_S and self._waited_s() < STARVED_S
        overdue = self._waited_s() > self.patience_s and not starved
        if not overdue and not helper.gone:
            return
        if not self._greeted:
            self._stillborn += 1
            if self._stillborn == STILLBORN:
                self._give_up("its helper process does not start")
                return
        attempt, what = helper.place()
        self.end()
        self._start_at = self._now() + self._wait_s
        self._wait_s = min(LONGEST_WAIT_S, self._wait_s * 2)
        if overdue and attempt:
            self._blame(attempt, what, used_s >= BLAMED_CPU_S and what != FILES)

    def _waited_s(self) -> float:
        return 0.0 if self._asked_at is None else self._now() - self._asked_at

    def wait(self, over: Callable[[], bool]) -> None:
        """Take answers, blocking for as long as one may take, until *over*."""
        if self._helper is not None:
            self._helper.wait(over, ANSWER_S if self._greeted else STARVED_S)

    def end(self) -> None:
        """End the helper."""
        if self._helper is not None:
            self._helper.end()
        self._helper, self._asked_at = None, None

    def _start(self) -> None:
        if self._now() < self._start_at:
            return
        try:
            self._helper = LogHelper(self._loop, self._answered, self._store)
        except OSError as error:
            self._give_up(f"no process can be started for it ({error.strerror or error})")
            return
        self._greeted = False
        self._asked_at = self._now()
        self._helper.send(*self._anew())

    def _answered(self, answer: dict[str, Any]) -> None:
        if "hello" in answer:
            self._greeted, self._asked_at, self._stillborn = True, None, 0
            if answer["hello"] != PROTOCOL:
                self._give_up("gpudeck was replaced by another version; start the engine anew")
                return
        elif "final" not in answer and "judge" not in answer:
            self._asked_at, self._wait_s = None, FIRST_WAIT_S
        self._answer(answer)

    def _give_up(self, why: str) -> None:
        self.end()
        self._useless(why)
