"""Ends of attempts: from the wrapper's end to the last process of its tree."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..core.events import LeaderExited, TreeGone
from ..ports import Sink
from . import proc, record, spawn_error
from .background import Background
from .family import Attempt, Members, Traces, split, walk
from .orphans import Orphans, reap
from .proc import Features, Stat
from .record import Record
from .stopping import Stopping
from .watch import Watcher
from .wrapper import UNABLE

_FIRST_LOOK_S = 0.2
_LONGEST_LOOK_S = 10.0
_SWEEPS = 5


@dataclass(frozen=True, slots=True)
class World:
    """What the parts of the launcher share."""

    loop: asyncio.AbstractEventLoop
    sink: Sink
    watcher: Watcher
    background: Background
    features: Features


class Ends:
    """Follows every attempt to its end and tells the sink: once that its leader ended, once that its tree is gone."""

    def __init__(self, world: World) -> None:
        self.attempts: dict[str, Attempt] = {}
        self.stops: dict[str, Stopping] = {}
        self._world = world
        self._looks: dict[str, asyncio.TimerHandle] = {}
        self._pauses: dict[str, float] = {}
        self._lag_s = proc.uptime_lag_s()
        self.orphans = Orphans(
            self.attempts, self, world.watcher, world.background, children_files=world.features.children_files
        )

    def follow(self, attempt: Attempt) -> None:
        """Take in an attempt whose wrapper was just started or found alive."""
        self.attempts[attempt.token] = attempt
        self.orphans.add(attempt)
        ended = partial(self.wrapper_ended, attempt)
        if attempt.own:
            attempt.wrapper = self._world.watcher.watch_child(attempt.pid, attempt.start_ticks, ended)
        else:
            attempt.wrapper = self._world.watcher.watch(attempt.pid, attempt.start_ticks, ended)

    def follow_dead(self, attempt: Attempt) -> None:
        """Take in an attempt whose wrapper is gone, or as good as."""
        self.attempts[attempt.token] = attempt
        self.orphans.add(attempt)
        self._world.loop.call_soon(self.wrapper_ended, attempt)

    def wrapper_ended(self, attempt: Attempt) -> None:
        """The record tells the code; where it does not, the wrapper or its command may."""
        if attempt.token not in self.attempts:
            return
        attempt.wrapper = None
        exit_code = None
        if attempt.own:
            exit_code = reap(attempt.pid)
            self.orphans.wrapper_reaped(attempt)
        written = record.read(attempt.record)
        if written.end:
            self._end_written(attempt, written)
        elif exit_code is not None and (written.wrapper is None or exit_code >= 0):
            self._end_unwritten(attempt, exit_code, began=written.wrapper is not None or 0 <= exit_code != UNABLE)
        elif attempt.own:
            self._hand_over(attempt, exit_code)
        else:
            self._scan(attempt, partial(self._hand_over_adopted, attempt))

    def learn_commands(self) -> bool:
        """Note who the wrappers' children are. False: every running attempt's is known."""
        unknown = [a for a in self.attempts.values() if a.wrapper is not None and a.command is None]
        for attempt in unknown if self._world.features.children_files else ():
            for pid in proc.children(attempt.pid):
                child = proc.stat(pid)
                if child is not None and child.ppid == attempt.pid:
                    attempt.command = child.pid, child.start_ticks
                    self.orphans.note([child], attempt.token)
        return self._world.features.children_files and any(attempt.command is None for attempt in unknown)

    def members(self, attempt: Attempt, then: Callable[[Members], None]) -> None:
        """Call *then* with the live members: from within for our own attempts, later for adopted ones."""
        if not attempt.own:
            self._scan(attempt, lambda found: then(split(found, attempt.pid)))
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
            self._scan(attempt, lambda found: self._judge(attempt, split(found, attempt.pid)))

    def orphan_died(self, token: str, pid: int, start_ticks: int, exit_code: int | None) -> None:
        """An orphan of an attempt was reaped: perhaps its command, perhaps the last of its tree."""
        attempt = self.attempts.get(token)
        if attempt is None:
            return
        if attempt.command == (pid, start_ticks) and attempt.wrapper is None:
            self._command_died(attempt, exit_code)
        elif attempt.leader_ended:
            self.look(attempt)
        elif not proc.is_live(*attempt.identity):
            attempt.reaped.append((start_ticks, pid, exit_code))

    def orphans_settled(self) -> None:
        """Trees that might have had another member can be judged now, and stopped to the last."""
        for attempt in list(self.attempts.values()):
            if attempt.own and attempt.leader_ended:
                if attempt.token in self.stops:
                    self.stops[attempt.token].leader_ended()
                self.look(attempt)

    def leader_ended(
        self, attempt: Attempt, code: int | None, *, at: float | None = None, signal: int | None = None, why: str = ""
    ) -> None:
        """The outcome is fixed; what it leaves is dealt with."""
        if attempt.leader_ended or attempt.token not in self.attempts:
            return
        attempt.leader_ended = True
        self._world.sink(LeaderExited(attempt.token, code, at or proc.boot_s(), signal, why))
        self.orphans.leader_ended(attempt)
        if attempt.token in self.stops:
            self.stops[attempt.token].leader_ended()
        self.look(attempt)

    def gone(self, attempt: Attempt, *, left_behind: tuple[int, ...] = (), never_ran: bool = False) -> None:
        """Nothing of it lives any more."""
        token = attempt.token
        if self.attempts.pop(token, None) is None:
            return
        self.orphans.release(token)
        stop, timer = self.stops.pop(token, None), self._looks.pop(token, None)
        self._pauses.pop(token, None)
        for pending in (stop, timer):
            if pending is not None:
                pending.cancel()
        for watch in (attempt.wrapper, attempt.survivor):
            if watch is not None:
                watch.close()
        self._world.sink(TreeGone(token, proc.boot_s(), left_behind, never_ran))

    def close(self) -> None:
        """Follow nothing any more."""
        for pending in (*self.stops.values(), *self._looks.values()):
            pending.cancel()
        self.orphans.close()
        self.attempts.clear()

    def _end_written(self, attempt: Attempt, written: Record) -> None:
        at = min(max(written.end_uptime_s + self._lag_s, attempt.started_s), proc.boot_s())
        if written.end == "spawn-log" and attempt.token not in self.stops:
            self.gone(attempt, never_ran=True)
        elif written.end == "spawn-cwd":
            self._explain(attempt, UNABLE, at, partial(spawn_error.explain_cwd, attempt.cwd))
        else:
            code = int(written.end) if written.end.isdigit() else UNABLE
            if code in (126, 127) and attempt.stderr:
                explain = partial(spawn_error.explain_code, code, attempt.stderr, attempt.cwd)
                self._explain(attempt, code, at, explain)
            else:
                self.leader_ended(attempt, code, at=at)

    def _end_unwritten(self, attempt: Attempt, exit_code: int, *, began: bool) -> None:
        """Full disk: the wrapper's own exit code is the command's, if the command was ever run."""
        if not began and attempt.token not in self.stops:
            self.gone(attempt, never_ran=True)
        elif exit_code < 0:
            self.leader_ended(attempt, 128 - exit_code, signal=-exit_code)
        else:
            self.leader_ended(attempt, exit_code)

    def _explain(self, attempt: Attempt, code: int, at: float, explain: Callable[[], str]) -> None:
        def told(why: str | None) -> None:
            self.leader_ended(attempt, code, at=at, why=why or "")

        self._world.background.submit(explain, told)

    def _hand_over(self, attempt: Attempt, wrapper_code: int | None) -> None:
        """The wrapper was killed: its command is our child now, and tells its code itself.

        A command that is not known by its pid cannot be told from a daemon that it left: then the code is unknown,
        unless what died with the wrapper died of the same signal.
        """
        self.orphans.sweep()
        living = sorted((orphan.start_ticks, orphan.pid) for orphan in self.orphans.of(attempt.token))
        dead = {(pid, start_ticks): exit_code for start_ticks, pid, exit_code in attempt.reaped}
        if attempt.command is None and wrapper_code not in dead.values() and living:
            start_ticks, pid = living[0]
            attempt.command, attempt.guessed = (pid, start_ticks), wrapper_code
        if attempt.command is None:
            self._command_died(attempt, wrapper_code if dead else None)
        elif attempt.command[::-1] not in living:
            self._command_died(attempt, dead.get(attempt.command))

    def _command_died(self, attempt: Attempt, exit_code: int | None) -> None:
        if exit_code is None or attempt.guessed not in (None, exit_code):
            self.leader_ended(attempt, None)
        elif exit_code >= 0:
            self.leader_ended(attempt, exit_code)
        else:
            self.leader_ended(attempt, 128 - exit_code, signal=-exit_code)

    def _hand_over_adopted(self, attempt: Attempt, found: dict[int, Stat]) -> None:
        """The wrapper was killed and we are not its command's parent: nobody will know the code."""
        session = [p for p in found.values() if p.live and p.session == attempt.pid and p.pid != attempt.pid]
        if not session:
            self.leader_ended(attempt, None)
            return
        command = min(session, key=lambda process: (process.start_ticks, process.pid))
        attempt.command = command.pid, command.start_ticks
        attempt.survivor = self._world.watcher.watch(
            command.pid, command.start_ticks, partial(self.leader_ended, attempt, None)
        )

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
                break
            found = walk(roots, children_files=self._world.features.children_files)
        self.orphans.note(found.values(), attempt.token)
        self._judge(attempt, split(found, attempt.pid))

    def _judge(self, attempt: Attempt, members: Members) -> None:
        """The leader ended: gone, left behind by the user's choice, or to be looked at again."""
        if attempt.token not in self.attempts:
            return
        left = tuple(sorted(members.protected))
        if attempt.leftovers == "leave" and attempt.token not in self.stops:
            self.gone(attempt, left_behind=tuple(sorted((*members.signalled, *members.protected))))
        elif not members.signalled:
            self.gone(attempt, left_behind=left)
        else:
            self._look_later(attempt, members)

    def _look_later(self, attempt: Attempt, members: Members) -> None:
        """Ends of orphans wake us; what an adopted attempt left does so by one of its survivors, and time by time."""
        pause_s = self._pauses.get(attempt.token, _FIRST_LOOK_S)
        self._pauses[attempt.token] = min(2 * pause_s, _LONGEST_LOOK_S)
        look = partial(self.look, attempt)
        if timer := self._looks.pop(attempt.token, None):
            timer.cancel()
        self._looks[attempt.token] = self._world.loop.call_later(pause_s, look)
        if not attempt.own:
            if attempt.survivor is not None:
                attempt.survivor.close()
            survivor = next(iter(members.signalled.values()))
            attempt.survivor = self._world.watcher.watch(survivor.pid, survivor.start_ticks, look)

    def _scan(self, attempt: Attempt, then: Callable[[dict[int, Stat]], None]) -> None:
        """Find an adopted attempt's members among all processes; asked again after a hang."""

        def seen(found: dict[int, Stat] | None) -> None:
            if attempt.token not in self.attempts:
                return
            if found is None:
                self._scan(attempt, then)
                return
            self.orphans.note(found.values(), attempt.token)
            attempt.strays = {pid: process.start_ticks for pid, process in found.items()}
            then(found)

        self._world.background.submit(Traces.of(attempt).search, seen)
