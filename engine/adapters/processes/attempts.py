"""Attempts, followed from their wrapper's start until nothing of them lives.

The leader's end is told by the wrapper, its record or the command itself; then the tree is looked at until it is gone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from ...core.inputs import LeaderExited, TreeGone
from ...core.spec import StopScope
from ...ports import Sink
from ..background import Background
from ..host import boottime_s
from ..programs import Answer, run_program
from ..watch import Watcher
from . import proc, record, spawn_error
from .members import Attempt, Members, Orphans, Picture, found_in, picture, reap, search, split, walk
from .proc import Features, Stat
from .record import Record
from .stop import Stopping
from .wrapper import NO_FORK, UNABLE

_FIRST_LOOK_S = 0.2
_LONGEST_LOOK_S = 10.0
_SWEEPS = 5
_AFTER_HANG_S = 30.0
"""A look at processes that one in the kernel has held up is not taken again sooner: each leaves a thread behind."""
_REMOVAL_S = 20.0
_REMOVALS_AT_ONCE = 4


class Attempts:
    """The attempts of which something lives. The sink is told once of each leader's end, and once when nothing of its
    tree is left."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sink: Sink,
        watcher: Watcher,
        background: Background,
        features: Features,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.by_token: dict[str, Attempt] = {}
        self.orphans = Orphans(
            self.by_token,
            watcher,
            background,
            children_files=features.children_files,
            died=self._orphan_died,
            settled=self._orphans_settled,
        )
        self._loop = loop
        self._sink = sink
        self._watcher = watcher
        self._background = background
        self._removals = Removals(loop, environment)
        self.children_files = features.children_files
        self._lag_s = proc.uptime_lag_s()
        self._stops: dict[str, Stopping] = {}
        self._looks: dict[str, asyncio.TimerHandle] = {}
        self._pauses: dict[str, float] = {}

    def follow(self, attempt: Attempt) -> None:
        """Take in an attempt whose wrapper was just started or found alive."""
        self._add(attempt)
        ended = partial(self._wrapper_ended, attempt)
        attempt.wrapper = self._watcher.watch(*attempt.identity, ended, child=attempt.child)

    def follow_dead(self, attempt: Attempt) -> None:
        """Take in an attempt whose wrapper is gone, or as good as."""
        self._add(attempt)
        self._loop.call_soon(self._wrapper_ended, attempt)

    def learn_commands(self) -> bool:
        """Note who the wrappers' children are. False: every running attempt's is known."""
        unknown = [a for a in self.by_token.values() if a.wrapper is not None and a.command is None]
        for attempt in unknown if self.children_files else ():
            for child in proc.child_processes(attempt.pid, children_files=True):
                attempt.command = child.pid, child.start_ticks
                self.orphans.note([child], attempt.token)
        return self.children_files and any(attempt.command is None for attempt in unknown)

    def stop(self, token: str, *, signal: int, scope: StopScope, grace_s: float) -> None:
        """See `ports.Launcher`."""
        attempt, stopping = self.by_token.get(token), self._stops.get(token)
        if stopping is not None:
            stopping.hasten(number=signal, grace_s=grace_s)
        elif attempt is not None:
            members, files = partial(self._for_stop, attempt), self.children_files
            stopping = Stopping(self._loop, attempt, members, children_files=files, number=signal, scope=scope)
            self._stops[token] = stopping
            stopping.begin(grace_s)

    def descendants(self, attempt: Attempt) -> Members:
        """The live members as far as descent tells: all of an own attempt's, for adopted ones what scans saw before."""
        roots = [orphan.pid for orphan in self.orphans.of(attempt.token)]
        roots += [attempt.pid] if attempt.wrapper is not None else []
        roots += [pid for pid, start_ticks in attempt.strays.items() if proc.is_live(pid, start_ticks)]
        found = walk(roots, children_files=self.children_files)
        self.orphans.note(found.values(), attempt.token)
        return split(found, attempt.pid)

    def look(self, attempt: Attempt) -> None:
        """Whether the tree of an attempt whose leader ended is gone."""
        if not attempt.leader_ended or attempt.token not in self.by_token:
            return
        if attempt.own:
            self._look_at_own(attempt)
        else:
            self._search(attempt, lambda found: self._judge(attempt, split(found, attempt.pid)))

    def look_for_strays(self) -> None:
        """Find members of adopted attempts that descent alone would lose, all attempts' at once."""
        adopted = [attempt for attempt in self.by_token.values() if not attempt.own]
        if adopted:
            oldest_ticks = min(attempt.start_ticks for attempt in adopted)
            self._background.submit(partial(picture, oldest_ticks), self._note_strays)

    def _search(self, attempt: Attempt, then: Callable[[dict[int, Stat]], None]) -> None:
        """Find an adopted attempt's members among all processes, in the background; again after a hang."""

        def seen(found: dict[int, Stat] | None) -> None:
            if attempt.token not in self.by_token:
                return
            if found is None:
                self._loop.call_later(_AFTER_HANG_S, self._search, attempt, then)
                return
            self._note(attempt, found)
            then(found)

        self._background.submit(partial(search, attempt), seen)

    def _for_stop(self, attempt: Attempt, then: Callable[[dict[int, Stat]], None]) -> None:
        """Call *then* with the live members that may be signalled: from within for our own attempts, later for adopted
        ones."""

        def told(members: Members) -> None:
            then(members.signalled)
            if not members.signalled:
                self.look(attempt)

        if not attempt.own:
            self._search(attempt, lambda found: told(split(found, attempt.pid)))
            return
        self.orphans.sweep()
        told(self.descendants(attempt))

    def close(self) -> None:
        """Follow nothing any more."""
        for pending in (*self._looks.values(), *self._stops.values()):
            pending.cancel()
        self.orphans.close()
        self._removals.close()
        self.by_token.clear()

    # -- the end of the leader -----------------------------------------------------------------------------------------

    def _add(self, attempt: Attempt) -> None:
        self.by_token[attempt.token] = attempt
        self.orphans.add(attempt)

    def _wrapper_ended(self, attempt: Attempt) -> None:
        """The record tells the code; where it does not, the wrapper or its command may."""
        if attempt.token not in self.by_token:
            return
        attempt.wrapper = None
        exit_code = reap(attempt.pid) if attempt.child else None
        self.orphans.wrapper_reaped(attempt)
        written = record.read(attempt.record)
        if written.end:
            self._end_written(attempt, written)
        elif exit_code is not None and (not written.pid or exit_code >= 0):
            self._end_unwritten(attempt, exit_code, began=written.pid > 0 or 0 <= exit_code != UNABLE)
        elif attempt.own:
            self._hand_over(attempt, exit_code)
        else:
            self._search(attempt, partial(self._hand_over_adopted, attempt, exit_code))

    def _orphan_died(self, token: str, pid: int, start_ticks: int, exit_code: int | None) -> None:
        """An orphan of an attempt was reaped: perhaps its command, perhaps the last of its tree."""
        attempt = self.by_token.get(token)
        if attempt is None:
            return
        if attempt.command == (pid, start_ticks) and attempt.wrapper is None:
            self._command_died(attempt, exit_code)
        elif attempt.leader_ended:
            self._loop.call_soon(self.look, attempt)  # it sweeps, and a sweep may have told us of this
        elif not proc.is_live(*attempt.identity):
            attempt.reaped.append((start_ticks, pid, exit_code))

    def _orphans_settled(self) -> None:
        """Trees that might have had another member can be judged now, and stopped to the last."""
        for attempt in list(self.by_token.values()):
            if attempt.own and attempt.leader_ended:
                self._tell_stop(attempt)
                self.look(attempt)

    def _tell_stop(self, attempt: Attempt) -> None:
        """What its leader leaves may be signalled."""
        if (stopping := self._stops.get(attempt.token)) is not None:
            stopping.leader_ended()

    def _leader_ended(
        self, attempt: Attempt, code: int | None, *, at: float | None = None, signal: int | None = None, why: str = ""
    ) -> None:
        """The outcome is fixed; what it leaves is dealt with."""
        if attempt.leader_ended or attempt.token not in self.by_token:
            return
        attempt.leader_ended = True
        if code is not None and code < UNABLE and attempt.token not in self._stops:
            self._removals.not_needed(attempt.token)  # its client waited for the container's end
        self._sink(LeaderExited(attempt.token, code, at or boottime_s(), signal, why))
        self.orphans.leader_ended(attempt)
        self._tell_stop(attempt)
        self.look(attempt)

    def _end_written(self, attempt: Attempt, written: Record) -> None:
        at = min(max(written.end_uptime_s + self._lag_s, attempt.started_s), boottime_s())
        stopped = attempt.token in self._stops
        if written.end == "spawn-log" and not stopped:
            self._explain_log(attempt, at)
        elif written.end == "spawn-fork" and not stopped:
            self._gone(attempt, never_ran=NO_FORK)
        elif written.end == "spawn-cwd":
            self._explain(attempt, UNABLE, at, partial(spawn_error.explain_cwd, attempt.cwd))
        else:
            code = int(written.end) if written.end.isdigit() else UNABLE
            if code in (126, 127) and attempt.stderr:
                explain = partial(spawn_error.explain_code, code, attempt.stderr, attempt.cwd)
                self._explain(attempt, code, at, explain)
            else:
                self._leader_ended(attempt, code, at=at)

    def _end_unwritten(self, attempt: Attempt, exit_code: int, *, began: bool) -> None:
        """Full disk: the wrapper's own exit code is the command's, if the command was ever run."""
        if not began and attempt.token not in self._stops:
            self._gone(attempt, never_ran="its record cannot be written")
        else:
            self._command_died(attempt, exit_code)

    def _explain_log(self, attempt: Attempt, at: float) -> None:
        """A full disk passes, and nothing ran; a folder in the log's place is an end like "no such command"."""
        if not attempt.stdout:
            self._gone(attempt, never_ran="its log cannot be written")
            return

        def told(found: tuple[str, bool] | None) -> None:
            why, passing = found or ("its log cannot be written: the file system does not answer", True)
            if passing:
                self._gone(attempt, never_ran=why)
            else:
                self._leader_ended(attempt, UNABLE, at=at, why=why)

        explain = partial(spawn_error.explain_log, attempt.stdout, attempt.stderr)
        self._background.submit(explain, told)

    def _explain(self, attempt: Attempt, code: int, at: float, explain: Callable[[], str]) -> None:
        def told(why: str | None) -> None:
            self._leader_ended(attempt, code, at=at, why=why or "")

        self._background.submit(explain, told)

    def _hand_over(self, attempt: Attempt, wrapper_code: int | None) -> None:
        """The wrapper was killed: its command is our child now, and tells its code itself.

        A command that is not known by its pid cannot be told from a daemon that it left: then the code is unknown,
        unless what died with the wrapper died of the same signal, or our own stop ended the wrapper before it began.
        """
        self.orphans.sweep()
        living = sorted((orphan.start_ticks, orphan.pid) for orphan in self.orphans.of(attempt.token))
        dead = {(pid, start_ticks): exit_code for start_ticks, pid, exit_code in attempt.reaped}
        if attempt.command is None and wrapper_code not in dead.values() and living:
            start_ticks, pid = living[0]
            attempt.command, attempt.guessed = (pid, start_ticks), wrapper_code
        if attempt.command is None:
            self._command_died(attempt, wrapper_code if dead or attempt.token in self._stops else None)
        elif attempt.command[::-1] not in living:
            self._command_died(attempt, dead.get(attempt.command))

    def _command_died(self, attempt: Attempt, exit_code: int | None) -> None:
        if exit_code is None or attempt.guessed not in (None, exit_code):
            self._leader_ended(attempt, None)
        elif exit_code >= 0:
            self._leader_ended(attempt, exit_code)
        else:
            self._leader_ended(attempt, 128 - exit_code, signal=-exit_code)

    def _hand_over_adopted(self, attempt: Attempt, wrapper_code: int | None, found: dict[int, Stat]) -> None:
        """The wrapper was killed and we are not its command's parent: nobody will know the code."""
        session = sorted((p.start_ticks, p.pid) for p in found.values() if p.live and p.session == attempt.pid)
        if attempt.command is None and session:
            start_ticks, pid = session[0]
            attempt.command = pid, start_ticks
        if attempt.command is None:
            self._command_died(attempt, wrapper_code if attempt.token in self._stops else None)
        elif not proc.is_live(*attempt.command):
            self._leader_ended(attempt, None)
        else:
            ended = partial(self._leader_ended, attempt, None)
            attempt.survivor = self._watcher.watch(*attempt.command, ended)

    # -- the end of the tree -------------------------------------------------------------------------------------------

    def _gone(self, attempt: Attempt, *, left_behind: tuple[int, ...] = (), never_ran: str = "") -> None:
        """Nothing of it lives any more. *never_ran*: why its command was not even executed."""
        token = attempt.token
        if self.by_token.pop(token, None) is None:
            return
        self.orphans.release(token)
        self._removals.forget(token)
        self._pauses.pop(token, None)
        for pending in (self._stops.pop(token, None), self._looks.pop(token, None)):
            if pending is not None:
                pending.cancel()
        for watch in (attempt.wrapper, attempt.survivor):
            if watch is not None:
                watch.close()
        self._sink(TreeGone(token, boottime_s(), left_behind, bool(never_ran), never_ran))

    def _look_at_own(self, attempt: Attempt) -> None:
        roots: set[int] = set()
        found: dict[int, Stat] = {}
        for _ in range(_SWEEPS):
            # What dies under a sweep or a walk hands its children to us: only a sweep that finds no dead tells that
            # nobody is left, and only two equal ones prove a picture.
            settled = self.orphans.sweep()
            before, roots = roots, {orphan.pid for orphan in self.orphans.of(attempt.token)}
            if attempt.token not in self.by_token or self.orphans.unclear:
                return
            if settled and not roots:
                self._gone(attempt)
                return
            if settled and roots == before and all(pid in found and found[pid].live for pid in roots):
                self.orphans.note(found.values(), attempt.token)
                self._judge(attempt, split(found, attempt.pid))
                return
            found = walk(roots, children_files=self.children_files)
        self._look_later(attempt)

    def _judge(self, attempt: Attempt, members: Members) -> None:
        """The leader ended: gone, left behind by the user's choice, or to be looked at again."""
        if attempt.token not in self.by_token:
            return
        left = tuple(sorted(members.protected))
        if attempt.leftovers == "leave" and attempt.token not in self._stops:
            self._gone(attempt, left_behind=tuple(sorted((*members.signalled, *members.protected))))
        elif not members.signalled and attempt.container:
            self._removals.remove(attempt, partial(self._removed, attempt, left))
        elif not members.signalled:
            self._gone(attempt, left_behind=left)
        else:
            self._look_later(attempt)
            if not attempt.own:
                self._watch_survivor(attempt, next(iter(members.signalled.values())))

    def _removed(self, attempt: Attempt, left: tuple[int, ...], gone: bool) -> None:
        """Whether its container is no more, as the program says."""
        if gone:
            self._gone(attempt, left_behind=left)
        elif attempt.token in self.by_token:
            self._look_later(attempt)

    def _look_later(self, attempt: Attempt) -> None:
        """Ends of orphans wake us; the rest, as a process that came to have a terminal, is seen from time to time."""
        pause_s = self._pauses.get(attempt.token, _FIRST_LOOK_S)
        self._pauses[attempt.token] = min(2 * pause_s, _LONGEST_LOOK_S)
        if timer := self._looks.pop(attempt.token, None):
            timer.cancel()
        self._looks[attempt.token] = self._loop.call_later(pause_s, self.look, attempt)

    def _watch_survivor(self, attempt: Attempt, survivor: Stat) -> None:
        """The end of one of an adopted attempt's processes is a reason to look again."""
        if attempt.survivor is not None:
            attempt.survivor.close()
        attempt.survivor = self._watcher.watch(survivor.pid, survivor.start_ticks, partial(self.look, attempt))

    def _note_strays(self, seen: Picture | None) -> None:
        for attempt in self.by_token.values() if seen else ():
            if not attempt.own and seen:
                self._note(attempt, found_in(seen, attempt))

    def _note(self, attempt: Attempt, found: dict[int, Stat]) -> None:
        self.orphans.note(found.values(), attempt.token)
        attempt.strays = {pid: process.start_ticks for pid, process in found.items()}


class Everybody(Mapping[int, str]):
    """Pid -> token of every member of every attempt, read when asked.

    A look-up goes from the process up to the wrapper or orphan that it descends from: a few reads, however large the
    trees are. Going through all reads every tree.
    """

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def __getitem__(self, pid: int) -> str:
        me = os.getpid()
        found: list[proc.Stat] = []
        while pid > 1 and pid != me and (process := proc.stat(pid)) is not None:
            found.append(process)
            if token := self._attempts.orphans.owner_of(process):
                self._attempts.orphans.note(found, token)
                return token
            pid = process.ppid
        raise KeyError(found[0].pid if found else pid)

    def __iter__(self) -> Iterator[int]:
        for attempt in list(self._attempts.by_token.values()):
            members = self._attempts.descendants(attempt)
            yield from members.signalled
            yield from members.protected

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Removals:
    """Containers that may have outlived their clients, removed by name before their attempts are over.

    Their processes are found by their tokens. This is for those that nobody could read (another user's), and for a
    container that its daemon was still about to start when the client was killed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, environment: Mapping[str, str]) -> None:
        """*environment*: what the programs are called in."""
        self._background = Background(loop, threads=_REMOVALS_AT_ONCE)
        self._environment = environment
        self._settled: set[str] = set()
        self._asked: set[str] = set()

    def not_needed(self, token: str) -> None:
        """The attempt's container is gone."""
        self._settled.add(token)

    def remove(self, attempt: Attempt, then: Callable[[bool], None]) -> None:
        """Call *then* with whether the attempt's container is gone, from within or later; not while an earlier call
        is on its way. A program that is not there, or whose daemon is not, has no containers."""
        token = attempt.token
        if token in self._settled:
            then(True)
            return
        if token in self._asked:
            return
        self._asked.add(token)
        at_once = ("--time", "0") if attempt.container == "podman" else ()
        words = (attempt.container, "rm", "--force", *at_once, f"gpudeck-{token}")

        def answered(answer: Answer | None) -> None:
            self._asked.discard(token)
            then(answer is not None and answer.code is not None)

        work = lambda: run_program(words, self._environment, timeout_s=_REMOVAL_S)  # noqa: E731
        self._background.submit(work, answered, timeout_s=2 * _REMOVAL_S)

    def forget(self, token: str) -> None:
        """The attempt is over."""
        self._settled.discard(token)

    def close(self) -> None:
        """Nobody is told any more."""
        self._background.close()
