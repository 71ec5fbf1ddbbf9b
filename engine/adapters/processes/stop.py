"""The stop sequence of one attempt.

The signal goes once to its scope. When the leader has ended, or at half of the grace, members that it has not reached
get it; where the leader hands signals on, nobody else does. At the end of the grace all are stopped until no new one
appears, then killed, again and again until none is left. The wrapper goes last: it writes the exit code.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from ...core.spec import StopScope
from ..host import boottime_s
from ..watch import send, send_group
from . import proc
from .members import Attempt, inside
from .proc import Stat

Members = Callable[[Callable[[dict[int, Stat]], None]], None]
"""Calls what it is given with all live members that may be signalled; from within, or later on the loop's thread."""

_LOOK_FOR_COMMAND_S = 0.01
_LONGEST_LOOK_S = 0.25
_FIRST_ROUND_S = 0.02
_LONGEST_ROUND_S = 10.0
_TIME_TO_WRITE_S = 0.5
_MOST_FREEZES = 100


class Stopping:
    """One stop sequence; ends with `cancel`, when the tree is gone."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        attempt: Attempt,
        members: Members,
        *,
        children_files: bool,
        number: int,
        scope: StopScope,
    ) -> None:
        self._loop = loop
        self._attempt = attempt
        self._group = attempt.pid
        self._members = members
        self._children_files = children_files
        self._number = number
        self._scope: StopScope = "leader" if attempt.relayed else scope
        self._reached: set[tuple[int, int]] = set()
        self._group_ticks = -1
        self._freezes = 0
        self._frozen: set[tuple[int, int]] = set()
        self._timers: list[asyncio.TimerHandle] = []
        self._contained = bool(attempt.container)
        """Its processes are signalled themselves, not the client, as long as any are found."""
        self._look_s = _LOOK_FOR_COMMAND_S
        self._round_s = _FIRST_ROUND_S
        self._alone_since_s: float | None = None
        self._over = False
        self.killing = False
        self.kill_at = 0.0

    def begin(self, grace_s: float) -> None:
        """Signal, and KILL after *grace_s*; at once with 0."""
        self.kill_at = self._loop.time() + grace_s
        if grace_s <= 0:
            self._kill()
            return
        if not self._attempt.relayed:
            self._timers.append(self._loop.call_later(grace_s / 2, self._rest))
        self._timers.append(self._loop.call_later(grace_s, self._kill))
        self._first()

    def hasten(self, *, number: int, grace_s: float) -> None:
        """Asked again: nothing happens unless it is to end sooner. A signal that was sent is not sent twice."""
        if self.killing or self._loop.time() + grace_s >= self.kill_at:
            return
        self._clear_timers()
        if number != self._number:
            self._number, self._group_ticks = number, -1
            self._reached.clear()
        self.begin(grace_s)

    def leader_ended(self) -> None:
        """What the leader leaves gets the signal now."""
        if not self.killing:
            self._rest()

    def cancel(self) -> None:
        """The tree is gone, or the engine leaves."""
        self._over = True
        self._clear_timers()

    def _clear_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _first(self) -> None:
        """Signal the scope, but not before the command exists: the wrapper would swallow the signal."""
        if self._over or self.killing or self._group_ticks >= 0:
            return
        if self._contained:
            self._members(self._signal_inside)
            return
        # While the wrapper is there its pid and group mean nobody else.
        if self._attempt.wrapper is None or not proc.is_live(*self._attempt.identity):
            self._rest()
            return
        # Between its fork and its exec the command still has the wrapper's handlers, and loses what they catch.
        children = proc.child_processes(self._group, children_files=self._children_files)
        commands = [child for child in children if child.executed]
        if not commands:
            self._timers.append(self._loop.call_later(self._look_s, self._first))
            self._look_s = min(2 * self._look_s, _LONGEST_LOOK_S)
        elif self._scope == "leader":
            for command in commands:
                self._signal(command.pid, command.start_ticks)
        else:
            self._group_ticks = int(boottime_s() * proc.TICKS_PER_S)
            send_group(self._group, self._number)
            send_group(self._group, signal.SIGCONT)

    def _signal_inside(self, members: dict[int, Stat]) -> None:
        """Where nobody is found in the container, as before it begins, its client hands the signal on or ends."""
        if self._over or self.killing:
            return
        found = inside(members, leader=self._scope == "leader")
        for process in found:
            self._signal(process.pid, process.start_ticks)
        if not found:
            self._contained, self._scope = False, "leader"
            self._first()

    def _rest(self) -> None:
        if not self._over:
            self._members(self._signal_rest)

    def _signal_rest(self, members: dict[int, Stat]) -> None:
        if self._over or self.killing:
            return
        others = inside(members, leader=False) if self._attempt.container else members.values()
        for process in others:
            if process.pid != self._group and not self._was_in_group(process):
                self._signal(process.pid, process.start_ticks)

    def _was_in_group(self, process: Stat) -> bool:
        return process.group == self._group and process.start_ticks <= self._group_ticks

    def _signal(self, pid: int, start_ticks: int) -> None:
        if (pid, start_ticks) in self._reached:
            return
        self._reached.add((pid, start_ticks))
        if send(pid, start_ticks, self._number):
            send(pid, start_ticks, signal.SIGCONT)

    def _kill(self) -> None:
        self.killing = True
        self._freezes = 0
        if not self._over:
            self._members(self._kill_round)

    def _kill_round(self, members: dict[int, Stat]) -> None:
        if self._over:
            return
        if set(members) == {self._group}:
            self._end_wrapper(members[self._group])
        elif self._freezes < _MOST_FREEZES and self._freeze(members):
            self._members(self._kill_round)
            return
        else:
            self._kill_all(members)
        self._timers = [self._loop.call_later(self._round_s, self._kill)]
        self._round_s = min(2 * self._round_s, _LONGEST_ROUND_S)

    def _freeze(self, members: dict[int, Stat]) -> bool:
        """Stop what is not stopped yet, so that nothing multiplies while it is killed. False: nothing was new."""
        self._freezes += 1
        new = {(p.pid, p.start_ticks) for p in members.values()} - self._frozen
        for pid, start_ticks in new:
            send(pid, start_ticks, signal.SIGSTOP)
        self._frozen |= new
        return bool(new)

    def _kill_all(self, members: dict[int, Stat]) -> None:
        for process in members.values():
            is_wrapper = process.pid == self._group
            send(process.pid, process.start_ticks, signal.SIGCONT if is_wrapper else signal.SIGKILL)
        self._frozen = {identity for identity in self._frozen if identity[0] != self._group}
        self._alone_since_s = None

    def _end_wrapper(self, wrapper: Stat) -> None:
        """Give the wrapper time to write the exit code; a command that it starts meanwhile dies in the next round."""
        now = self._loop.time()
        if self._alone_since_s is None:
            self._alone_since_s = now
        overdue = now - self._alone_since_s >= _TIME_TO_WRITE_S
        send(wrapper.pid, wrapper.start_ticks, signal.SIGKILL if overdue else signal.SIGCONT)
