"""Does the core's work in the world: starts, stops, warns, examines ends and looks for finished outputs."""

from __future__ import annotations

import asyncio
import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from .core.deck import Deck, Task
from .core.effects import Again, CheckDone, Effect, Examine, Launch, Stop, Warn
from .core.events import AttemptEnded, AttemptStarting, Outcome
from .core.inputs import DoneChecked, Examined, JournalState, LeaderExited, Spawned, SpawnRefused, TreeGone
from .core.phases import Closing
from .core.spec import TaskSpec
from .errors import may_pass
from .logs.digest import digest
from .logs.examine import describe, examine
from .logs.files import AttemptPaths, LogFolder
from .logs.outputs import OutputStamp, outputs_exist
from .logs.record import AttemptEnd, read_record, stamps_in
from .logs.secrets import masked_command
from .logs.writer import AttemptJsonWriter
from .orders import Box, Orders
from .ports import Aside, Launcher, Sink, SpawnRefusedError
from .usage import Usage

LOOK_TIMEOUT_S = 60.0
"""Logs and outputs on a file server that answers nothing for so long are not waited for."""
CHECK_AGAIN_S = 5.0
KILLED = 128 + signal.SIGKILL


@dataclass(slots=True)
class _Live:
    """What an attempt was started with, until its end is written."""

    spec: TaskSpec
    paths: AttemptPaths
    started_wall: float
    before: Mapping[str, OutputStamp] | None
    """State of its outputs at its start; None: an earlier engine started it, and attempt-N.json tells."""
    oom_kills: int
    """The kernel's count of kills for want of memory when it started."""
    resumed: bool = False
    argv: tuple[str, ...] = ()


class Attempts:
    """The shell around the core. All methods on the loop's thread."""

    def __init__(
        self,
        deck: Deck,
        launcher: Launcher,
        logs: LogFolder,
        box: Box,
        writer: AttemptJsonWriter,
        post: Sink,
        *,
        readers: Aside,
        checks: Aside,
    ) -> None:
        self._deck = deck
        self._launcher = launcher
        self._logs = logs
        self._box = box
        self._writer = writer
        self._post = post
        self._readers = readers
        self._checks = checks
        self.guard: Callable[[], str] = lambda: ""
        """Why no process may be started any more; "" while one may."""
        self.behind: Callable[[], bool] = lambda: False
        """Whether ends that are told here may not be on disk."""
        self._unforgotten: list[str] = []
        self._unwritten: dict[str, str] = {}
        """Token by path of attempt-N.json: ended, and still to be completed there."""
        self._orders = Orders(deck, logs, box)
        self._live: dict[str, _Live] = {}
        self.digests: dict[str, tuple[str, ...]] = {}
        """By token: the lines that tell why an attempt failed, until its end is reported."""
        self.usage = Usage()
        self._kills = (box.now(), box.oom_kills())
        """When the kernel's count was last looked at, and what it was."""

    def do(self, effect: Effect) -> None:
        """Carry an effect out; its answer comes back as an input."""
        match effect:
            case Launch():
                self._launch(effect)
            case Stop():
                self._say_leftovers(effect.token)
                number = signal.Signals[f"SIG{effect.signal}"]
                self._launcher.stop(effect.token, signal=number, scope=effect.scope, grace_s=effect.grace_s)
            case Warn():
                self._warn(effect)
            case Examine():
                self._examine(effect)
            case CheckDone():
                self._check(effect.tasks)
            case Again():
                pass
            case _:
                assert_never(effect)

    def _say_leftovers(self, token: str) -> None:
        task = self._deck.active.get(token)
        if task is not None and isinstance(task.phase, Closing):
            self._box.notice(f"{task.name} has ended and left processes behind; they are stopped (leftovers)")

    # -- starts -------------------------------------------------------------------------------------------------------

    def _launch(self, effect: Launch) -> None:
        task = self._deck.by_name[effect.task]
        barred = self.guard()
        if barred:
            self._post(JournalState(writable=False, why=barred))
            self._post(SpawnRefused(effect.token, barred))
            return
        try:
            made = self._orders.make(task, effect)
            pid, start_ticks = self._launcher.start(made.order)
        except SpawnRefusedError as error:
            self._post(SpawnRefused(effect.token, str(error)))
            return
        except OSError as error:
            self._unprepared(effect.token, error)
            return
        self._live[effect.token] = _Live(
            task.spec, made.paths, made.started_wall, made.before, self._oom_kills(), made.resumed, made.shown
        )
        self._writer.begin(made.paths.json, made.header, made.links)
        self._post(Spawned(effect.token, pid, start_ticks, self._box.pid_ns))

    def _unprepared(self, token: str, error: OSError) -> None:
        """Its log folder cannot be made: a full disk passes, a file in its place does not."""
        words = _words(error)
        if may_pass(error):
            self._post(SpawnRefused(token, words))
            return
        now = self._box.now()
        self._post(LeaderExited(token, None, now, spawn_error=f"its log folder cannot be made: {words}"))
        self._post(TreeGone(token, now))

    def _warn(self, effect: Warn) -> None:
        told = self._launcher.warn(effect.token, signal.Signals[f"SIG{effect.signal}"])
        task = self._deck.active.get(effect.token)
        if task is None:
            return
        if told:
            self._box.notice(f"{task.name}: {effect.signal} sent, its timeout is near")
        else:
            self._box.notice(f"{task.name}: nothing in it handles {effect.signal}; no warning was sent")

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _live_of(self, token: str, task: Task, attempt: int) -> _Live:
        """What is known of an attempt, also of one that an earlier engine started."""
        live = self._live.get(token)
        if live is None:
            current = task.attempt()
            wall = current.wall if current is not None else 0.0
            paths = self._logs.paths(task.name, attempt, task.spec.policy.merge_stderr)
            live = self._live[token] = _Live(task.spec, paths, wall, None, self._oom_kills())
        return live

    def _examine(self, effect: Examine) -> None:
        task = self._deck.by_name[effect.task]
        live = self._live_of(effect.token, task, effect.attempt)
        success = self._deck.successes.get(task.name)
        same = success is not None and success.fingerprint == task.spec.fingerprint
        success_wall = success.wall if success is not None and same else None

        def look() -> tuple[Outcome, tuple[str, ...]]:
            outcome = examine(
                live.spec,
                out_log=live.paths.out,
                err_log=live.paths.err,
                exit_code=effect.exit_code,
                signal=effect.signal,
                started_wall=live.started_wall,
                oom_killed=effect.exit_code == KILLED and self._box.oom_kills() > live.oom_kills,
                before=stamps_in(read_record(live.paths.json)) if live.before is None else live.before,
                success_wall=success_wall,
            )
            return outcome, () if outcome.ok else digest(live.paths.err, live.paths.out)

        def done(found: tuple[Outcome, tuple[str, ...]] | None) -> None:
            if found is None:
                self._box.notice(f"{task.name} has ended; its logs and outputs cannot be looked at yet: no answer")
                asyncio.get_running_loop().call_later(CHECK_AGAIN_S, self._examine, effect)
                return
            outcome, lines = found
            self.digests[effect.token] = lines
            self._post(Examined(effect.token, outcome))

        self._readers.submit(look, done, timeout_s=LOOK_TIMEOUT_S)

    def _oom_kills(self) -> int:
        """The kernel's count of kills for want of memory, at most a second old."""
        now = self._box.now()
        if now - self._kills[0] > 1.0:
            self._kills = (now, self._box.oom_kills())
        return self._kills[1]

    def ended(self, fact: AttemptEnded, start: AttemptStarting | None) -> tuple[str, ...]:
        """An attempt ended: complete attempt-N.json, drop the record. Returns the digest of a failure."""
        if start is None:
            return ()
        live = self._live.pop(start.token, None)
        paths = self._paths(fact.task, fact.attempt, live)
        lines = self.digests.pop(start.token, ())
        if not lines and fact.outcome.reason in ("timeout", "lost", "watch"):
            lines = digest(paths.err, paths.out)
        used = self.usage.finish(start.token)
        self._unwritten[paths.json] = start.token
        self._writer.end(
            paths.json,
            AttemptEnd(
                reason=describe(fact.outcome),
                exit_code=fact.outcome.exit_code,
                ended_wall=fact.wall,
                duration_s=fact.duration_s,
                signal=fact.outcome.signal,
                peak_mib=used.peak_mib or fact.peak_mib or None,
                mean_mib=used.mean_mib,
                peak_util_percent=used.peak_util_percent,
                mean_util_percent=used.mean_util_percent,
            ),
        )
        return lines

    def written(self, paths: Sequence[str]) -> None:
        """These attempt-N.json have their end: nothing is left to do for them, and their records go.

        While the fact of an end is not on disk, its record is all that tells the next engine of it.
        """
        tokens = [self._unwritten.pop(path) for path in paths if path in self._unwritten]
        if self.behind():
            self._unforgotten += tokens
            return
        for token in tokens:
            self._launcher.forget(token)

    def caught_up(self) -> None:
        """All ends are on disk."""
        for token in self._unforgotten:
            self._launcher.forget(token)
        self._unforgotten.clear()

    def _paths(self, task: str, attempt: int, live: _Live | None) -> AttemptPaths:
        if live is not None:
            return live.paths
        known = self._deck.by_name.get(task)
        return self._logs.paths(task, attempt, known is not None and known.spec.policy.merge_stderr)

    def paths(self, task: str, attempt: int) -> AttemptPaths:
        known = self._deck.by_name.get(task)
        return self._logs.paths(task, attempt, known is not None and known.spec.policy.merge_stderr)

    def started(self, token: str) -> tuple[str, bool]:
        """What an attempt executes, and whether it resumes an earlier one; ("", False) when it is over already."""
        live = self._live.get(token)
        return ("", False) if live is None else (shlex.join(masked_command(live.argv)), live.resumed)

    # -- done already? ------------------------------------------------------------------------------------------------

    def _check(self, names: tuple[str, ...]) -> None:
        patterns = {name: self._deck.by_name[name].spec.outputs for name in names if name in self._deck.by_name}

        def look() -> dict[str, bool]:
            return {name: outputs_exist(outputs) for name, outputs in patterns.items()}

        def done(found: dict[str, bool] | None) -> None:
            if found is None:
                self._box.notice(
                    f"outputs of {names[0]} and others cannot be looked at: the file system does not answer"
                )
                asyncio.get_running_loop().call_later(CHECK_AGAIN_S, self._check, names)
                return
            for name, exist in found.items():
                self._post(DoneChecked(name, exist, attempted=exist and self._logs.attempted(name)))

        self._checks.submit(look, done, timeout_s=LOOK_TIMEOUT_S)

    def close(self) -> None:
        self._readers.close()
        self._checks.close()


def _words(error: Exception) -> str:
    """An error of the system without its number: "logs/a: No space left on device"."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
