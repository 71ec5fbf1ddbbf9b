"""Trees of attempts: who is in them now, and when nothing is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ...core.inputs import TreeGone
from ...ports import Sink
from ..background import Background
from ..host import boottime_s
from ..watch import Watcher
from . import proc
from .family import Attempt, Members, Picture, Traces, picture, split, walk
from .orphans import Orphans, Owner
from .proc import Features, Stat

_FIRST_LOOK_S = 0.2
_LONGEST_LOOK_S = 10.0
_SWEEPS = 5
_AFTER_HANG_S = 30.0
"""A look at processes that one in the kernel has held up is not taken again sooner: each leaves a thread behind."""


@dataclass(frozen=True, slots=True)
class World:
    """What the parts of the launcher share."""

    loop: asyncio.AbstractEventLoop
    sink: Sink
    watcher: Watcher
    background: Background
    features: Features


class Trees:
    """The attempts of which something lives. Tells the sink once when nothing does."""

    def __init__(self, world: World, owner: Owner) -> None:
        self.attempts: dict[str, Attempt] = {}
        self._world = world
        self._looks: dict[str, asyncio.TimerHandle] = {}
        self._pauses: dict[str, float] = {}
        self.orphans = Orphans(
            self.attempts, owner, world.watcher, world.background, children_files=world.features.children_files
        )

    def add(self, attempt: Attempt) -> None:
        """Take in an attempt."""
        self.attempts[attempt.token] = attempt
        self.orphans.add(attempt)

    def members(self, attempt: Attempt, then: Callable[[Members], None]) -> None:
        """Call *then* with the live members: from within for our own attempts, later for adopted ones."""
        if not attempt.own:
            self.search(attempt, lambda found: then(split(found, attempt.pid)))
            return
        self.orphans.sweep()
        then(self.descendants(attempt))

    def descendants(self, attempt: Attempt) -> Members:
        """The live members as far as descent tells: all of an own attempt's, for adopted ones what scans saw before."""
        roots = [orphan.pid for orphan in self.orphans.of(attempt.token)]
        roots += [attempt.pid] if attempt.wrapper is not None else []
        roots += [pid for pid, start_ticks in attempt.strays.items() if proc.is_live(pid, start_ticks)]
        found = walk(roots, children_files=self._world.features.children_files)
        self.orphans.note(found.values(), attempt.token)
        return split(found, attempt.pid)

    def look(self, attempt: Attempt) -> None:
        """Whether the tree of an attempt whose leader ended is gone."""
        if not attempt.leader_ended or attempt.token not in self.attempts:
            return
        if attempt.own:
            self._look_at_own(attempt)
        else:
            self.search(attempt, lambda found: self._judge(attempt, split(found, attempt.pid)))

    def gone(self, attempt: Attempt, *, left_behind: tuple[int, ...] = (), never_ran: str = "") -> None:
        """Nothing of it lives any more. *never_ran*: why its command was not even executed."""
        token = attempt.token
        if self.attempts.pop(token, None) is None:
            return
        self.orphans.release(token)
        self._pauses.pop(token, None)
        for pending in (attempt.stop, self._looks.pop(token, None)):
            if pending is not None:
                pending.cancel()
        for watch in (attempt.wrapper, attempt.survivor):
            if watch is not None:
                watch.close()
        self._world.sink(TreeGone(token, boottime_s(), left_behind, bool(never_ran), never_ran))

    def look_for_strays(self) -> None:
        """Find members of adopted attempts that descent alone would lose, all attempts' at once."""
        adopted = [attempt for attempt in self.attempts.values() if not attempt.own]
        if adopted:
            oldest_ticks = min(attempt.start_ticks for attempt in adopted)
            self._world.background.submit(partial(picture, oldest_ticks), self._note_strays)

    def search(self, attempt: Attempt, then: Callable[[dict[int, Stat]], None]) -> None:
        """Find an adopted attempt's members among all processes, in the background; again after a hang."""

        def seen(found: dict[int, Stat] | None) -> None:
            if attempt.token not in self.attempts:
                return
            if found is None:
                self._world.loop.call_later(_AFTER_HANG_S, self.search, attempt, then)
                return
            self._note(attempt, found)
            then(found)

        self._world.background.submit(Traces.of(attempt).search, seen)

    def close(self) -> None:
        """Follow nothing any more."""
        for pending in (*self._looks.values(), *(attempt.stop for attempt in self.attempts.values())):
            if pending is not None:
                pending.cancel()
        self.orphans.close()
        self.attempts.clear()

    def _look_at_own(self, attempt: Attempt) -> None:
        roots: set[int] = set()
        found: dict[int, Stat] = {}
        for _ in range(_SWEEPS):
            self.orphans.sweep()
            before, roots = roots, {orphan.pid for orphan in self.orphans.of(attempt.token)}
            if attempt.token not in self.attempts or self.orphans.unclear:
                return
            if not roots:
                self.gone(attempt)
                return
            # A process that dies under the walk hands its children to us: only two equal sweeps prove a picture.
            if roots == before and all(pid in found and found[pid].live for pid in roots):
                self.orphans.note(found.values(), attempt.token)
                self._judge(attempt, split(found, attempt.pid))
                return
            found = walk(roots, children_files=self._world.features.children_files)
        self._look_later(attempt)

    def _judge(self, attempt: Attempt, members: Members) -> None:
        """The leader ended: gone, left behind by the user's choice, or to be looked at again."""
        if attempt.token not in self.attempts:
            return
        left = tuple(sorted(members.protected))
        if attempt.leftovers == "leave" and attempt.stop is None:
            self.gone(attempt, left_behind=tuple(sorted((*members.signalled, *members.protected))))
        elif not members.signalled:
            self.gone(attempt, left_behind=left)
        else:
            self._look_later(attempt)
            if not attempt.own:
                self._watch_survivor(attempt, next(iter(members.signalled.values())))

    def _look_later(self, attempt: Attempt) -> None:
        """Ends of orphans wake us; the rest, as a process that came to have a terminal, is seen from time to time."""
        pause_s = self._pauses.get(attempt.token, _FIRST_LOOK_S)
        self._pauses[attempt.token] = min(2 * pause_s, _LONGEST_LOOK_S)
        if timer := self._looks.pop(attempt.token, None):
            timer.cancel()
        self._looks[attempt.token] = self._world.loop.call_later(pause_s, self.look, attempt)

    def _watch_survivor(self, attempt: Attempt, survivor: Stat) -> None:
        """The end of one of an adopted attempt's processes is a reason to look again."""
        if attempt.survivor is not None:
            attempt.survivor.close()
        attempt.survivor = self._world.watcher.watch(survivor.pid, survivor.start_ticks, partial(self.look, attempt))

    def _note_strays(self, seen: Picture | None) -> None:
        for attempt in self.attempts.values() if seen else ():
            if not attempt.own and seen:
                self._note(attempt, Traces.of(attempt).found_in(seen))

    def _note(self, attempt: Attempt, found: dict[int, Stat]) -> None:
        self.orphans.note(found.values(), attempt.token)
        attempt.strays = {pid: process.start_ticks for pid, process in found.items()}
