"""The code of a deck's tasks: where each attempt runs, and who waits for a snapshot that is being made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..core.deck import Deck, Task
from ..core.events import Fact
from ..core.phases import FINAL
from ..ports import Aside
from .index import Epochs
from .manager import Asked, Clerk, Place

MAKE_LIMIT_S = 600.0
SLOW_S = 3.0
"""After this the user is told what tasks wait for."""

Ready = Callable[[str], None]
"""Told why a task has no code, "" when it has."""


class Code:
    """All methods on the loop's thread."""

    def __init__(
        self,
        deck: Deck,
        clerk: Clerk,
        makers: Aside,
        removers: Aside,
        *,
        epochs: Epochs,
        now: Callable[[], float],
        note: Callable[[str], None],
    ) -> None:
        """*epochs*: of what the journal tells already; *now*: CLOCK_BOOTTIME."""
        self._deck = deck
        self._clerk = clerk
        self._makers = makers
        self._removers = removers
        self._epochs = epochs
        self._now = now
        self._note = note
        self._places: dict[str, Place] = {}
        self._making: dict[str, Asked] = {}
        self._waiting: dict[str, list[Ready]] = {}

    def hear(self, facts: Sequence[Fact]) -> None:
        """Facts are true: what a run takes up, and what was asked for by hand, is of the code as it is now."""
        began, asked = self._epochs.hear(facts)
        if began:
            self.cover()
            unfinished = frozenset(task.name for task in self._deck.tasks if not isinstance(task.phase, FINAL))
            self._makers.submit(lambda: self._clerk.sweep(unfinished), self._wipe, timeout_s=MAKE_LIMIT_S)
        elif asked:
            self._cover(self._deck.by_name[task] for task in asked if task in self._deck.by_name)

    def _wipe(self, folders: Sequence[str] | None) -> None:
        """What takes long, and what nobody waits for."""
        if folders:
            self._removers.submit(lambda: self._clerk.wipe(folders), lambda _: None, timeout_s=MAKE_LIMIT_S)

    def cover(self) -> None:
        """Give every task that may run its code, those that have none yet as it is now."""
        self._cover(task for task in self._deck.tasks if task.selected and not isinstance(task.phase, FINAL))

    def ready(self, task: Task) -> bool:
        """Whether a task can start now."""
        place = self._places.get(task.name)
        return place is not None and place.entry.epoch == self._epochs.of(task.name, task.spec.fingerprint)

    def when_ready(self, task: Task, done: Ready) -> None:
        """Call *done* when the task has its code, or cannot have it."""
        self._waiting.setdefault(task.name, []).append(done)
        self._cover([task])
        if task.name not in self._making:
            self._tell(task.name, "")

    def place(self, task: str) -> Place | None:
        """Where the next attempt of a task runs."""
        return self._places.get(task)

    def place_of(self, task: Task, at: float) -> Place | None:
        """Where an attempt runs that an earlier engine started at *at*, CLOCK_BOOTTIME."""
        return self._clerk.earlier(task.name, task.begun_spec.cwd, at)

    def close(self) -> None:
        self._makers.close()
        self._removers.close()

    def _cover(self, tasks: Iterable[Task]) -> None:
        now = self._now()
        asked: list[Asked] = []
        for task in tasks:
            if self.ready(task):
                continue
            epoch = self._epochs.of(task.name, task.spec.fingerprint)
            attempt = task.attempt()
            started = None if attempt is None else attempt.at
            one = Asked(task.spec, epoch, now, self._epochs.since(task.name), started)
            making = self._making.get(task.name)
            if making is None or making.epoch != one.epoch:
                self._making[task.name] = one
                asked.append(one)
        if asked:
            self._settle(asked)

    def _settle(self, asked: Sequence[Asked]) -> None:
        names = {one.spec.name for one in asked}
        specs = [task.spec for task in self._deck.tasks if task.selected or task.name in names]
        cwd = asked[0].spec.cwd
        slow = asyncio.get_running_loop().call_later(
            SLOW_S, lambda: self._note(f"the code in {cwd} is being copied; tasks start when that is done")
        )

        def done(found: Mapping[str, Place | str] | None) -> None:
            slow.cancel()
            for one in asked:
                told = (found or {}).get(one.spec.name, f"git took over {MAKE_LIMIT_S:.0f} s to copy {one.spec.cwd}")
                self._settled(one, told)

        self._makers.submit(lambda: self._clerk.settle(asked, specs), done, timeout_s=MAKE_LIMIT_S)

    def _settled(self, one: Asked, told: Place | str) -> None:
        task = one.spec.name
        if self._making.get(task) is not one:
            return  # asked for again meanwhile
        del self._making[task]
        if isinstance(told, str):
            self._tell(task, told)
        else:
            self._places[task] = told
            self._tell(task, "")

    def _tell(self, task: str, why: str) -> None:
        for done in self._waiting.pop(task, ()):
            done(why)
