"""Ends of leaders: from the wrapper, its record or the command itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...core.inputs import LeaderExited
from ..host import boottime_s
from . import proc, record, spawn_error
from .family import Attempt
from .orphans import reap
from .proc import Stat
from .record import Record
from .trees import Trees, World
from .wrapper import NO_FORK, UNABLE


class Ends:
    """Follows every attempt's leader to its end and tells the sink once; `Trees` does so for the rest."""

    def __init__(self, world: World) -> None:
        self.trees = Trees(world, self)
        self._world = world
        self._lag_s = proc.uptime_lag_s()

    def follow(self, attempt: Attempt) -> None:
        """Take in an attempt whose wrapper was just started or found alive."""
        self.trees.add(attempt)
        ended = partial(self.wrapper_ended, attempt)
        if attempt.child:
            attempt.wrapper = self._world.watcher.watch_child(attempt.pid, attempt.start_ticks, ended)
        else:
            attempt.wrapper = self._world.watcher.watch(attempt.pid, attempt.start_ticks, ended)

    def follow_dead(self, attempt: Attempt) -> None:
        """Take in an attempt whose wrapper is gone, or as good as."""
        self.trees.add(attempt)
        self._world.loop.call_soon(self.wrapper_ended, attempt)

    def wrapper_ended(self, attempt: Attempt) -> None:
        """The record tells the code; where it does not, the wrapper or its command may."""
        if attempt.token not in self.trees.attempts:
            return
        attempt.wrapper = None
        exit_code = reap(attempt.pid) if attempt.child else None
        self.trees.orphans.wrapper_reaped(attempt)
        written = record.read(attempt.record)
        if written.end:
            self._end_written(attempt, written)
        elif exit_code is not None and (written.wrapper is None or exit_code >= 0):
            self._end_unwritten(attempt, exit_code, began=written.wrapper is not None or 0 <= exit_code != UNABLE)
        elif attempt.own:
            self._hand_over(attempt, exit_code)
        else:
            self.trees.search(attempt, partial(self._hand_over_adopted, attempt, exit_code))

    def learn_commands(self) -> bool:
        """Note who the wrappers' children are. False: every running attempt's is known."""
        unknown = [a for a in self.trees.attempts.values() if a.wrapper is not None and a.command is None]
        for attempt in unknown if self._world.features.children_files else ():
            for pid in proc.children(attempt.pid):
                child = proc.stat(pid)
                if child is not None and child.ppid == attempt.pid:
                    attempt.command = child.pid, child.start_ticks
                    self.trees.orphans.note([child], attempt.token)
        return self._world.features.children_files and any(attempt.command is None for attempt in unknown)

    def orphan_died(self, token: str, pid: int, start_ticks: int, exit_code: int | None) -> None:
        """An orphan of an attempt was reaped: perhaps its command, perhaps the last of its tree."""
        attempt = self.trees.attempts.get(token)
        if attempt is None:
            return
        if attempt.command == (pid, start_ticks) and attempt.wrapper is None:
            self._command_died(attempt, exit_code)
        elif attempt.leader_ended:
            self.trees.look(attempt)
        elif not proc.is_live(*attempt.identity):
            attempt.reaped.append((start_ticks, pid, exit_code))

    def orphans_settled(self) -> None:
        """Trees that might have had another member can be judged now, and stopped to the last."""
        for attempt in list(self.trees.attempts.values()):
            if attempt.own and attempt.leader_ended:
                if attempt.stop is not None:
                    attempt.stop.leader_ended()
                self.trees.look(attempt)

    def leader_ended(
        self, attempt: Attempt, code: int | None, *, at: float | None = None, signal: int | None = None, why: str = ""
    ) -> None:
        """The outcome is fixed; what it leaves is dealt with."""
        if attempt.leader_ended or attempt.token not in self.trees.attempts:
            return
        attempt.leader_ended = True
        self._world.sink(LeaderExited(attempt.token, code, at or boottime_s(), signal, why))
        self.trees.orphans.leader_ended(attempt)
        if attempt.stop is not None:
            attempt.stop.leader_ended()
        self.trees.look(attempt)

    def _end_written(self, attempt: Attempt, written: Record) -> None:
        at = min(max(written.end_uptime_s + self._lag_s, attempt.started_s), boottime_s())
        if written.end == "spawn-log" and attempt.stop is None:
            self._explain_log(attempt, at)
        elif written.end == "spawn-fork" and attempt.stop is None:
            self.trees.gone(attempt, never_ran=NO_FORK)
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
        if not began and attempt.stop is None:
            self.trees.gone(attempt, never_ran="its record cannot be written")
        elif exit_code < 0:
            self.leader_ended(attempt, 128 - exit_code, signal=-exit_code)
        else:
            self.leader_ended(attempt, exit_code)

    def _explain_log(self, attempt: Attempt, at: float) -> None:
        """A full disk passes, and nothing ran; a folder in the log's place is an end like "no such command"."""
        if not attempt.stdout:
            self.trees.gone(attempt, never_ran="its log cannot be written")
            return

        def told(found: tuple[str, bool] | None) -> None:
            why, passing = found or ("its log cannot be written: the file system does not answer", True)
            if passing:
                self.trees.gone(attempt, never_ran=why)
            else:
                self.leader_ended(attempt, UNABLE, at=at, why=why)

        explain = partial(spawn_error.explain_log, attempt.stdout, attempt.stderr)
        self._world.background.submit(explain, told)

    def _explain(self, attempt: Attempt, code: int, at: float, explain: Callable[[], str]) -> None:
        def told(why: str | None) -> None:
            self.leader_ended(attempt, code, at=at, why=why or "")

        self._world.background.submit(explain, told)

    def _hand_over(self, attempt: Attempt, wrapper_code: int | None) -> None:
        """The wrapper was killed: its command is our child now, and tells its code itself.

        A command that is not known by its pid cannot be told from a daemon that it left: then the code is unknown,
        unless what died with the wrapper died of the same signal, or our own stop ended the wrapper before it began.
        """
        self.trees.orphans.sweep()
        living = sorted((orphan.start_ticks, orphan.pid) for orphan in self.trees.orphans.of(attempt.token))
        dead = {(pid, start_ticks): exit_code for start_ticks, pid, exit_code in attempt.reaped}
        if attempt.command is None and wrapper_code not in dead.values() and living:
            start_ticks, pid = living[0]
            attempt.command, attempt.guessed = (pid, start_ticks), wrapper_code
        if attempt.command is None:
            self._command_died(attempt, wrapper_code if dead or attempt.stop is not None else None)
        elif attempt.command[::-1] not in living:
            self._command_died(attempt, dead.get(attempt.command))

    def _command_died(self, attempt: Attempt, exit_code: int | None) -> None:
        if exit_code is None or attempt.guessed not in (None, exit_code):
            self.leader_ended(attempt, None)
        elif exit_code >= 0:
            self.leader_ended(attempt, exit_code)
        else:
            self.leader_ended(attempt, 128 - exit_code, signal=-exit_code)

    def _hand_over_adopted(self, attempt: Attempt, wrapper_code: int | None, found: dict[int, Stat]) -> None:
        """The wrapper was killed and we are not its command's parent: nobody will know the code."""
        session = sorted((p.start_ticks, p.pid) for p in found.values() if p.live and p.session == attempt.pid)
        if attempt.command is None and session:
            start_ticks, pid = session[0]
            attempt.command = pid, start_ticks
        if attempt.command is None:
            self._command_died(attempt, wrapper_code if attempt.stop is not None else None)
        elif not proc.is_live(*attempt.command):
            self.leader_ended(attempt, None)
        else:
            ended = partial(self.leader_ended, attempt, None)
            attempt.survivor = self._world.watcher.watch(*attempt.command, ended)
