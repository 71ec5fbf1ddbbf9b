"""Does the core's work in the world: starts, stops, warns, and has ends and finished outputs looked at."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from typing import assert_never

from ..core.deck import Deck
from ..core.effects import CheckDone, Effect, Examine, Gather, Launch, Stop, Warn
from ..core.events import AttemptEnded, AttemptRunning, AttemptStarting, AttemptSubmitted, Fact
from ..core.phases import Closing
from ..logs.files import LogFolder
from ..logs.record import Placed
from ..logs.writer import AttemptJsonWriter
from ..ports import Aside, Launcher, OthersAt, Sink
from .begun import BegunAttempts
from .box import Box
from .cluster import cards_of
from .completing import Completing
from .donecheck import DoneCheck
from .histories import GpuHistories
from .node_usage import NodeUsage
from .orders import Orders
from .outcomes import Outcomes, Told
from .shown_command import ToldCommands
from .starts import Started, Starts
from .unkilled import Unkilled
from .usage import Usage


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
        starters: Aside,
        others: OthersAt = lambda _spec: (),
        logs_may_hang: bool = False,
    ) -> None:
        """*readers* looks at ends, *checks* for finished outputs, *starters* prepares starts. *others* is asked on a
        thread of *checks*. *logs_may_hang*: the logs lie on a server."""
        self._deck = deck
        self._launcher = launcher
        self._box = box
        self._writer = writer
        self._asides = (readers, checks, starters)
        self._unkilled = Unkilled(deck, launcher.members, box.notice, asyncio.get_running_loop().call_later)
        self._orders = Orders(deck, logs, box)
        self._starts = Starts(
            deck,
            launcher,
            self._orders,
            post,
            starters,
            now=box.now,
            pid_ns=box.pid_ns,
            logs_may_hang=logs_may_hang,
            started=self._began,
            code=box.code,
        )
        self._done_check = DoneCheck(deck, logs, box, post, checks, others)
        self.usage = Usage()
        later = asyncio.get_running_loop().call_later
        self._node_usage = NodeUsage(deck, self.usage, box.job_samples, readers, later)
        self.begun = BegunAttempts(deck, logs, box)
        self.commands = ToldCommands(deck, self.begun.paths, box, self.begun.resumed)
        self.outcomes = Outcomes(deck, self.begun, box, post, readers, logs_may_hang=logs_may_hang)
        self.histories = GpuHistories(deck, self.usage, writer, self.begun.paths, readers)
        self.completing = Completing(deck, launcher, writer, self.usage, self.histories)

    def do(self, effect: Effect) -> None:
        """Carry an effect out; its answer comes back as an input."""
        match effect:
            case Launch():
                self._starts.launch(effect)
            case Stop() if self._starts.withdraw(effect.token):
                pass
            case Stop():
                self._say_leftovers(effect.token)
                number = signal.Signals[f"SIG{effect.signal}"]
                self._launcher.stop(effect.token, signal=number, scope=effect.scope, grace_s=effect.grace_s)
                self._unkilled.asked(effect.token, effect.grace_s)
            case Warn():
                self._warn(effect)
            case Examine():
                self.outcomes.examine(effect)
            case CheckDone():
                self._done_check.check(effect.tasks)
            case Gather():
                self._launcher.gather(effect.gpus, effect.task)
            case _:
                assert_never(effect)

    def prepare(self, effects: Sequence[Effect]) -> None:
        """Called while the facts of *effects* are being written."""
        for effect in effects:
            if isinstance(effect, Launch):
                self._starts.prepare(effect)

    def drop(self, effect: Launch) -> None:
        """Its fact could not be written: it will not be done."""
        self._starts.drop(effect.token)

    def guard_starts(self, barred: Callable[[], str]) -> None:
        """*barred* tells why no process may be started any more; "" while one may."""
        self._starts.guard = barred

    def _began(self, start: Started) -> None:
        made = start.made
        self.begun.add(start)
        self._writer.begin(made.paths.json, made.header, made.links)

    def publish(self, facts: Sequence[Fact]) -> None:
        """Where a cluster has taken an attempt, or runs it, attempt-N.json tells so, and what it uses there."""
        for fact in facts if self._deck.cluster else ():
            if isinstance(fact, (AttemptSubmitted, AttemptRunning)):
                self._placed(fact)
        self._node_usage.wake()

    def _placed(self, fact: AttemptSubmitted | AttemptRunning) -> None:
        """From the fact alone: the attempt may have ended since."""
        if isinstance(fact, AttemptRunning):
            placed = Placed(fact.job, fact.nodes, fact.wall if fact.at is not None else None)
        else:
            placed = Placed(fact.job)
        if placed.job:
            self._writer.placed(self.begun.paths(fact.task, fact.attempt).json, placed)

    def adopt(self, start: AttemptStarting) -> None:
        """An earlier engine started it, and may not have come to write beside its logs what it is."""
        if start.gpus and start.token in self._deck.active:
            self.histories.go_on(start.token, self.begun.paths(start.task, start.attempt))
        task = self._deck.by_name.get(start.task)
        made = self._orders.again(task, start) if task is not None else None
        if task is not None and made is not None:
            header, links = made
            newest = start.attempt == task.attempts
            self._writer.adopt(self.begun.paths(start.task, start.attempt).json, header, links if newest else ())

    def _warn(self, effect: Warn) -> None:
        told = self._launcher.warn(effect.token, signal.Signals[f"SIG{effect.signal}"])
        task = self._deck.active.get(effect.token)
        if task is None:
            return
        if told:
            self._box.notice(f"{task.name}: {effect.signal} sent, its timeout is near")
        else:
            self._box.notice(f"{task.name}: nothing in it handles {effect.signal}; no warning was sent")

    def _say_leftovers(self, token: str) -> None:
        task = self._deck.active.get(token)
        if task is None or not isinstance(task.phase, Closing):
            return
        if token in self._launcher.members().values():  # else it is not known yet whether anything lives
            self._box.notice(f"{task.name} has ended and left processes behind; they are stopped (leftovers)")

    def energy_wh(self, fact: AttemptEnded, start: AttemptStarting) -> float | None:
        """What an attempt that has just ended used; None: not known."""
        task = self._deck.by_name.get(fact.task)
        cards = cards_of(start, task.begun_spec if task is not None else None)
        return self.usage.peek(start.token).energy_wh(cards, fact.duration_s)

    def ended(self, fact: AttemptEnded, start: AttemptStarting | None) -> Told:
        """An attempt ended: complete attempt-N.json, drop the record. Returns what its logs tell of a failure."""
        if start is None:
            return Told()
        begun = self.begun.pop(start.token)
        paths = begun.paths if begun is not None else self.begun.paths(fact.task, fact.attempt)
        task = self._deck.by_name.get(fact.task)
        spec = begun.spec if begun is not None else task.spec if task is not None else None
        told = self.outcomes.told(start.token, fact, paths)
        self.completing.ended(fact, start, spec, paths)
        return told

    def close(self) -> None:
        for aside in self._asides:
            aside.close()
