"""Applies a reading of the task file to the deck that runs.

What takes long (expansion, a deck built from it, the journal replayed into that) is done in a helper thread while the
deck goes on; facts that come meanwhile are listened to, and brought in when the deck becomes the new one between two
turns of the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from ..adapters import host
from ..core.deck import Deck, Task
from ..core.events import Fact
from ..core.flags import changed_ones
from ..core.gone import Kept
from ..core.phases import ACTIVE, FINAL, Blocked, Queued, Waiting
from ..core.reload import After, draft, follow_up, kept_specs, swap
from ..core.spec import DeckFile
from ..decks import handover
from ..decks.loading import deck_of
from ..decks.opening import OpenDeck
from ..decks.options import decode, encode
from ..decks.selection import stand_in_for_left_out
from ..errors import DeckError, EngineEndingError, EngineUnavailableError, UsageError
from ..loop import Loop
from .change import refuse_left_out_needs
from .plan import Applied, Choices, FilePlan, make_plan, settings_for_now
from .reading import Reading
from .worker import Worker

_T = TypeVar("_T")
QUIET_S = 0.01
QUIET_TRIES = 200


class HasStartedError(Exception):
    """A task that was to become another runs by now."""


class Applier:
    """Of one open deck. On the loop's thread."""

    def __init__(self, opened: OpenDeck, loop: Loop, worker: Worker) -> None:
        self._opened = opened
        self._loop = loop
        self._worker = worker
        self._hearing: list[Fact] | None = None
        loop.taps.append(self._hear)

    def _hear(self, facts: Sequence[Fact]) -> None:
        if self._hearing is not None:
            self._hearing += facts

    async def apply(self, reading: Reading, choices: Choices, swapped: Callable[[], None]) -> Applied:
        """Raises DeckError where it cannot be done now, HasStartedError where one of `Choices.waiting` runs; the deck
        is as before then. *swapped* is called when the deck has become the new one, before anything else happens."""
        self._refuse()
        tail: list[Fact] = []
        self._hearing = tail
        try:
            count = self._opened.journal.count
            await self.written()
            plan, new = await self._worker(lambda: self._draft(reading, count))
            before = await self._worker(lambda: handover.kept_file(self._opened.state.path))
            with self._kept_for_the_next(before or b""):
                kept = await self._keep(new, reading.file)
                self._refuse()
                if any(task.name in choices.waiting for task in self._opened.deck.active.values()):
                    raise HasStartedError
                self._hearing = None
                return self._swap(reading, plan, new, tail, kept, choices, swapped)
        finally:
            self._hearing = None

    @contextlib.contextmanager
    def _kept_for_the_next(self, before: bytes) -> Generator[None]:
        """The next engine has the file that is kept within, also where this one is killed in the middle: it was asked
        for. Where it comes to nothing, it has that of *before*."""
        try:
            yield
        except (DeckError, HasStartedError):
            handover.keep_text(self._opened.state.path, before)
            raise

    def _refuse(self) -> None:
        self._refuse_at_the_end()
        deck = self._opened.deck
        if deck.stopping:
            raise UsageError("the engine is about to end: nothing was applied; the next one reads the file as it is")
        if deck.unwritable or self._loop.broken:
            why = deck.unwritable or self._loop.broken
            raise EngineUnavailableError(f"the journal cannot be written ({why}): nothing was applied")

    def _refuse_at_the_end(self) -> None:
        if self._loop.stopped:
            raise EngineEndingError("the engine was just ending: nothing was applied, ask again")

    async def written(self) -> None:
        """All facts up to now are on disk."""
        self._refuse_at_the_end()
        loop = asyncio.get_running_loop()
        written: asyncio.Future[Exception | None] = loop.create_future()
        self._opened.journal.submit(
            (), durable=True, done=lambda error: loop.call_soon_threadsafe(_settle, written, error) and None
        )
        error = await written
        if error is not None:
            raise EngineUnavailableError(f"the journal cannot be written ({error}): nothing was applied")

    # -- in the helper thread -----------------------------------------------------------------------------------------

    def _draft(self, reading: Reading, count: int) -> tuple[FilePlan, Deck]:
        opened, old = self._opened, self._opened.deck
        plan = make_plan(old, opened.file, reading.file, reading.digest, reading.later)
        settings = settings_for_now(old.settings, reading.file.settings, reading.later)
        file = replace(reading.file, settings=settings)
        if file.selected is not None:
            # What runs belongs to the run, whatever is selected now: a later round must not start beside it.
            file = replace(file, selected=file.selected | {task.name for task in list(old.active.values())})
        new = deck_of(file, replace(opened.gpus, chosen=reading.chosen))
        draft(old, new, islice(opened.journal.load(), count), self._look)
        if reading.options is not None and reading.options.only != decode(opened.options).only:
            refuse_left_out_needs(new, reading.options)
        return plan, new

    def _look(self, new: Deck) -> None:
        """What only the log folder tells of tasks that the journal does not know."""
        old, logs = self._opened.deck, self._opened.logs
        logs.admit(task.name for task in new.tasks if task.name not in old.by_name)
        for task in new.tasks:
            before = old.by_name.get(task.name)
            if before is not None:
                task.attempts = max(task.attempts, before.attempts)
            elif not task.attempts:
                task.attempts = logs.highest(task.name)
        stand_in_for_left_out(new, logs, self._opened.file)

    # -- on the loop --------------------------------------------------------------------------------------------------

    async def _keep(self, new: Deck, file: DeckFile) -> Sequence[Kept]:
        """What attempts were started as is on disk before the deck forgets it, and then the *file* that it is to have;
        more of them may start meanwhile."""
        saved: Sequence[Kept] | None = None
        while True:
            await self._quiet()
            kept = kept_specs(self._opened.deck, new)
            if kept == saved:
                return kept
            saved = kept
            await self._worker(lambda kept=kept: self._save(kept, file))

    def _save(self, kept: Sequence[Kept], file: DeckFile) -> None:
        state = self._opened.state.path
        handover.save_specs(state, kept)
        handover.keep_file(state, file)

    async def _quiet(self) -> None:
        """No outputs are looked at, if that does not take long."""
        deck = self._opened.deck
        for _ in range(QUIET_TRIES):
            if not deck.checking:
                return
            await asyncio.sleep(QUIET_S)

    def _swap(
        self,
        reading: Reading,
        plan: FilePlan,
        new: Deck,
        tail: Sequence[Fact],
        kept: Sequence[Kept],
        choices: Choices,
        swapped: Callable[[], None],
    ) -> Applied:
        began = time.perf_counter()
        opened = self._opened
        after = _follow_up(opened.deck, plan, choices, reading)
        swap(self._loop.core, new, tail, kept, host.boottime_s())
        opened.file = reading.file
        opened.gpus = replace(opened.gpus, chosen=reading.chosen)
        if reading.options is not None:
            opened.options = encode(reading.options)
            after = replace(after, options=opened.options, begins=plan.added)
        if not choices.begins:
            after = replace(after, begins=())
        swapped()
        self._loop.act(lambda turn: follow_up(turn, after))
        return Applied(plan, after.rerun, after.restart, after.accept, time.perf_counter() - began)


def _settle(future: asyncio.Future[_T], result: _T) -> None:
    if not future.done():
        future.set_result(result)


def _follow_up(deck: Deck, plan: FilePlan, choices: Choices, reading: Reading) -> After:
    """What the choices mean for each changed task as it stands at the moment of the swap."""
    lists: dict[str, list[str]] = {"rerun": [], "restart": [], "keep": []}
    for change in (*plan.changed_waiting, *plan.changed_finished, *plan.changed_running):
        task = deck.by_name.get(change.name)
        if task is not None and (chosen := _chosen(task, choices)) in lists:
            lists[chosen].append(task.name)
    if choices.earlier:
        now = {change.name for change in plan.changed_finished}
        lists["keep"] += [task.name for task in changed_ones(deck) if task.name not in now]
    fixed = reading.file.fixed_shards
    return After(
        rerun=tuple(lists["rerun"]),
        restart=tuple(lists["restart"]),
        accept=tuple(lists["keep"]),
        shards={entry: shards for entry, shards in fixed.items() if deck.shards.get(entry) != shards},
        priorities=dict(_priorities(deck, reading, plan)),
        begins=(*plan.added, *(change.name for change in plan.changed_waiting), *choices.asked),
        alone=bool(choices.asked),
    )


def _chosen(task: Task, choices: Choices) -> str:
    """What becomes of a changed task."""
    if isinstance(task.phase, (Waiting, Queued, Blocked)):
        return ""
    if isinstance(task.phase, ACTIVE):
        return choices.for_running(task.name)
    if not isinstance(task.phase, FINAL):
        return "rerun"  # it waits for a retry of the work of before
    chosen = choices.for_finished(task.name)
    return "" if chosen == "keep" and not task.result else chosen  # cancelled before it ran: there is nothing to keep


def _priorities(deck: Deck, reading: Reading, plan: FilePlan) -> Iterable[tuple[str, int]]:
    """Where the user has set one by hand and the file has changed it since: the newer word holds."""
    changes = (*plan.in_place, *plan.changed_waiting, *plan.changed_finished, *plan.changed_running)
    names = {change.name for change in changes if "priority" in change.what}
    for spec in reading.file.tasks if names else ():
        task = deck.by_name.get(spec.name)
        if spec.name in names and task is not None and task.priority != task.spec.priority:
            yield spec.name, spec.priority
