"""Does the core's work in the world: starts, stops, warns, and has ends and finished outputs looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from signal import Signals
from typing import Any, assert_never

from ..core.deck import Deck, Task
from ..core.effects import CheckDone, Effect, Examine, Gather, Launch, Stop, Warn
from ..core.events import AttemptEnded, AttemptRunning, AttemptStarting, AttemptSubmitted, Fact
from ..core.inputs import DoneChecked
from ..core.phases import Closing, Stopping
from ..core.readiness import has_succeeded
from ..logs.files import LogFolder
from ..ports import LOOK_AGAIN_S, LOOK_TIMEOUT_S, Aside, Launcher, OthersAt, Sink
from ..text import names_text
from .end import Ends, outlived
from .environment import Box
from .outputs import OutputsFound, changed_wall, find_outputs
from .record import iso
from .running import RunningAttempts
from .start_plan import Planner, StartPlan
from .starter import Starter
from .usage import GpuHistories, NodeUsage, Usage
from .writer import AttemptJsonWriter

LATE_S = 10.0
"""So long after KILL a process should be gone, also one that has much memory to give back."""
_NAMED = 5


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
        self._box = box
        self._launcher = launcher
        self._writer = writer
        self._asides = (readers, checks, starters)
        self._checks = checks
        later = asyncio.get_running_loop().call_later
        self.running = RunningAttempts(deck, logs, box)
        self.planner = Planner(deck, logs, box, self.running.resumed)
        self.starter = Starter(
            deck, launcher, self.planner, logs, box, post, starters, logs_may_hang=logs_may_hang, started=self._began
        )
        self._stops = Stops(deck, launcher, box.notice, later)
        self._done_check = DoneCheck(deck, logs, box, post, checks, others)
        usage = Usage()
        self._node_usage = NodeUsage(deck, usage, box.job_samples, readers, later)
        self.histories = GpuHistories(deck, usage, writer, self.running.paths, readers)
        self.ends = Ends(
            deck, launcher, self.running, self.histories, box, writer, post, readers, logs_may_hang=logs_may_hang
        )

    def do(self, effect: Effect) -> None:
        """Carry an effect out; its answer comes back as an input."""
        match effect:
            case Launch():
                self.starter.launch(effect)
            case Stop():
                if not self.starter.withdraw(effect.token):
                    self._stops.stop(effect)
            case Warn():
                self._stops.warn(effect)
            case Examine():
                self.ends.examine(effect)
            case CheckDone():
                self._done_check.check(effect.tasks)
            case Gather():
                self._launcher.gather(effect.gpus, effect.task, effect.first)
            case _:
                assert_never(effect)

    def _began(self, task: Task, plan: StartPlan) -> None:
        self.running.add(task, plan)
        self._writer.begin(plan.paths.json, plan.record(), plan.links)

    def publish(self, facts: Sequence[Fact]) -> None:
        """Where a cluster has taken an attempt, or runs it, attempt-N.json tells so, and what it uses there. People are
        told of a container that outlives the client that an attempt was."""
        for fact in facts:
            task = self._deck.by_name.get(fact.task) if isinstance(fact, AttemptEnded) else None
            if isinstance(fact, AttemptEnded) and task and (words := outlived(task.begun_spec, fact.outcome)):
                self._box.notice(f"{fact.task}: {words}")
        for fact in facts if self._deck.cluster else ():
            if isinstance(fact, (AttemptSubmitted, AttemptRunning)) and fact.job:
                self._writer.placed(self.running.paths(fact.task, fact.attempt).json, place_record(fact))
        self._node_usage.wake()

    async def changed(self, patterns: Mapping[str, Sequence[str]]) -> Mapping[str, float]:
        """By the same keys, when anything that these match changed last (seconds since the epoch), where there is any.
        Nothing where the disk does not answer."""
        found: asyncio.Future[Mapping[str, float] | None] = asyncio.get_running_loop().create_future()
        self._checks.submit(
            lambda: {key: changed_wall(when) for key, when in patterns.items()},
            lambda told: None if found.done() else found.set_result(told),
            timeout_s=LOOK_TIMEOUT_S,
        )
        return {key: wall for key, wall in (await found or {}).items() if wall}

    def adopt(self, start: AttemptStarting) -> None:
        """An earlier engine started it, and may not have come to write beside its logs what it is."""
        if start.gpus and start.token in self._deck.active:
            self.histories.go_on(start.token, self.running.paths(start.task, start.attempt))
        task = self._deck.by_name.get(start.task)
        plan = self.planner.again(task, start) if task is not None else None
        if task is not None and plan is not None:
            links = plan.links if start.attempt == task.attempts else ()
            self._writer.adopt(self.running.paths(start.task, start.attempt).json, plan.record(), links)

    def close(self) -> None:
        for aside in self._asides:
            aside.close()


class Stops:
    """Stops and warns attempts, and names processes that outlive a KILL: they hang in the kernel, on a server that is
    gone or in a driver."""

    def __init__(
        self,
        deck: Deck,
        launcher: Launcher,
        notice: Callable[[str], None],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """*later* makes a call after so many seconds."""
        self._deck = deck
        self._launcher = launcher
        self._notice = notice
        self._later = later
        self._named: set[str] = set()
        """Tokens of attempts whose processes were named."""

    def stop(self, effect: Stop) -> None:
        token = effect.token
        task = self._deck.active.get(token)
        # Before the first look at its processes it is not known whether anything lives.
        if task is not None and isinstance(task.phase, Closing) and self._living(token):
            self._notice(f"{task.name} has ended and left processes behind; they are stopped (leftovers)")
        self._launcher.stop(token, signal=Signals[f"SIG{effect.signal}"], scope=effect.scope, grace_s=effect.grace_s)
        self._later(effect.grace_s + LATE_S, lambda: self._name_unkilled(token))

    def warn(self, effect: Warn) -> None:
        told = self._launcher.warn(effect.token, Signals[f"SIG{effect.signal}"])
        task = self._deck.active.get(effect.token)
        if task is None:
            return
        if told:
            why = "it makes way" if isinstance(task.phase, Stopping) else "its timeout is near"
            self._notice(f"{task.name}: {effect.signal} sent, {why}")
        else:
            self._notice(f"{task.name}: nothing in it handles {effect.signal}; no warning was sent")

    def _living(self, token: str) -> list[int]:
        """Pids of its processes."""
        members = self._launcher.members()
        return sorted(pid for pid in members if members.get(pid) == token)  # each may end at any time

    def _name_unkilled(self, token: str) -> None:
        task = self._deck.active.get(token)
        if task is None or token in self._named:
            return
        if not (pids := self._living(token)):
            return
        self._named.add(token)
        more = f" and {len(pids) - _NAMED} more" if len(pids) > _NAMED else ""
        named = ", ".join(map(str, pids[:_NAMED]))
        self._notice(
            f"{task.name}: KILL does not end pid {named}{more}; its slots stay taken until the kernel lets go of it"
        )


class DoneCheck:
    """Carries `CheckDone` out, away from the loop: outputs may lie on a server that is gone. All methods on the loop's
    thread."""

    def __init__(self, deck: Deck, logs: LogFolder, box: Box, post: Sink, aside: Aside, others: OthersAt) -> None:
        self._deck = deck
        self._logs = logs
        self._box = box
        self._post = post
        self._aside = aside
        self._others = others
        self._told = False

    def check(self, names: tuple[str, ...]) -> None:
        """`DoneChecked` answers for each of these tasks that is there by then."""
        tasks = [task for task in map(self._deck.by_name.get, names) if task is not None]
        specs = {task.name: task.spec for task in tasks}

        def look() -> dict[str, OutputsFound]:
            return {name: find_outputs(spec, self._logs, self._others) for name, spec in specs.items()}

        def done(found: dict[str, OutputsFound] | None) -> None:
            if found is None:
                self._box.notice(
                    f"outputs of {names[0]} and others cannot be looked at: the file system does not answer"
                )
                asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self.check, names)
                return
            doubts: dict[str, str] = {}
            for name, outputs in found.items():
                task = self._deck.by_name.get(name)
                if task is not None and task.spec.outputs == specs[name].outputs:  # not what a file of before asked for
                    gone = "they are gone" if has_succeeded(task) else ""
                    doubt = outputs.doubt(self._deck, task) if outputs.exist else gone
                    doubts |= {name: doubt} if doubt else {}
                    self._post(DoneChecked(name, outputs.exist and not doubt, spoilt=bool(doubt)))

            self._tell(doubts)

        self._aside.submit(look, done, timeout_s=LOOK_TIMEOUT_S)

    def _tell(self, doubts: Mapping[str, str]) -> None:
        """Once, of the tasks that were looked at together."""
        if doubts and not self._told:
            self._told = True
            names, why = names_text(list(doubts)), next(iter(doubts.values()))
            self._box.notice(f"outputs of {names} do not count as done: {why}")


def place_record(fact: AttemptSubmitted | AttemptRunning) -> dict[str, Any]:
    """What attempt-N.json says of an attempt's place on a cluster: its job, and once it runs the nodes, the first of
    them as its host, and when it began. From the fact alone: the attempt may have ended since."""
    nodes, start = (), {}
    if isinstance(fact, AttemptRunning):
        nodes = fact.nodes
        start = {} if fact.at is None else {"start": iso(fact.wall)}
    return {"host": nodes[0] if nodes else "", "job": fact.job, "nodes": list(nodes), **start}
