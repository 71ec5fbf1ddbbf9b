"""When an engine is done, why, and with which exit code."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Literal

from .core.deck import Deck
from .core.phases import Unknown
from .core.step import at_standstill
from .core.why_waiting import only_a_user_helps
from .ports import Clock
from .report.numbers import counts_of

Mode = Literal["headless", "detached", "service"]
"""headless: sees one run through. The others serve clients until nothing is left to run and nobody is attached."""

ALONE_S = 10.0
"""How long an engine with nothing to run waits for the next client."""


CRASHED = 70
"""EX_SOFTWARE of sysexits.h: systemd starts the service again, which it does not after 2 and 3."""


class Ending:
    """All methods on the loop's thread."""

    def __init__(self, deck: Deck, mode: Mode, clock: Clock, *, clients: Callable[[], int]) -> None:
        """*clients*: how many are attached."""
        self._deck = deck
        self._mode: Mode = mode
        self._clock = clock
        self._clients = clients
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._alone: asyncio.TimerHandle | None = None
        self._left = ""
        self._stopped_by = ""
        self.signal: signal.Signals | None = None
        """The first signal that asked for the end of the tasks."""
        self.lost: Callable[[], str] = lambda: ""
        """Why nothing can be started any more by this process; "" while it can."""
        self.run_over: Callable[[int], None] = lambda _: None
        """Called with the run's exit code when it is over and the engine stays."""
        self.failure: BaseException | None = None
        """A bug of ours."""

    # -- reasons ------------------------------------------------------------------------------------------------------

    def leave(self, who: str) -> None:
        """End the engine and no task."""
        self._left = who
        self._over.set()

    def give_up(self) -> None:
        """The same for what `lost` tells, as long as tasks run."""
        self._over.set()

    def stop(self, who: str) -> None:
        """A client has asked for the end of the tasks, and then of the engine."""
        self._stopped_by = who

    def fail(self, error: BaseException) -> None:
        """Memory is not trusted any more. Tasks go on; the next engine reads what is on disk."""
        if self.failure is None:
            self.failure = error
            self._over.set()

    @property
    def by_user(self) -> bool:
        """Somebody asked for it who knows that the engine ends: a client, or Ctrl-C."""
        return bool(self._left or self._stopped_by) or self.signal is signal.SIGINT

    # -- waiting for it -----------------------------------------------------------------------------------------------

    async def wait(self) -> None:
        await self._over.wait()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def consider(self) -> bool:
        """A turn is over, or a client has gone: end if nothing is left to do here. True: the deck is idle although
        something is left."""
        if self.busy() or self._over.is_set():
            return False
        ended = self._deck.run.ended
        if self.signal or self._stopped_by or self.lost():
            self._over.set()
        elif self._mode != "headless" and (ended or self._stands_still()):
            if ended:
                self.run_over(self._code_of_tasks())
            self._end_when_alone()
        elif ended or (self._stands_still() and not self._clients()):
            self._over.set()
        else:
            return True
        return False

    def client_left(self) -> None:
        """The time that is left for the next command begins anew."""
        self.close()
        self._alone = None

    def busy(self) -> bool:
        """An attempt is under way, other than those of which nothing can be proven."""
        return any(not isinstance(task.phase, Unknown) for task in self._deck.active.values())

    def close(self) -> None:
        if self._alone is not None:
            self._alone.cancel()

    def _stands_still(self) -> bool:
        """Nothing can start any more unless a user acts."""
        return at_standstill(self._deck) or only_a_user_helps(self._deck, self._clock.now().boot_s)

    def _end_when_alone(self) -> None:
        """Commands come one after the other: the next one should find this engine."""
        if self._alone is None and not self._clients():
            self._alone = self._loop.call_later(ALONE_S, self._still_alone)

    def _still_alone(self) -> None:
        self._alone = None
        idle = not self.busy() and (self._deck.run.ended or self._stands_still())
        if idle and not self._clients():
            self._over.set()

    # -- the verdict --------------------------------------------------------------------------------------------------

    def verdict(self) -> tuple[int, str]:
        """Exit code and, unless all went as it should, why the engine ended.

        Only a headless engine answers for its tasks: the others end well when they have nothing to do, or systemd would
        start them again.
        """
        alone = self._mode != "headless"
        if self.failure is not None:
            code = CRASHED if self._mode == "service" else 3
            return code, f"internal error ({self.failure!r}): tasks run on, the next start takes them over"
        if self.signal is not None:
            return 128 + self.signal, f"stopped by {self.signal.name}"
        if self._left:
            return 0 if alone else 3, f"ended by {self._left}: tasks run on, the next start goes on"
        if self._stopped_by:
            return 0 if alone else 128 + signal.SIGTERM, f"stopped by {self._stopped_by}"
        lost = self.lost()
        if lost and not self._deck.run.ended:
            return 3, lost
        if self._deck.run.halted and not alone:
            return 1, f"halted by {self._deck.run.halted}"
        return 0 if alone else self._code_of_tasks(), ""

    def _code_of_tasks(self) -> int:
        counts = counts_of(self._deck)
        return 0 if counts.all_well else 1
