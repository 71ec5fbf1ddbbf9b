"""What of all that happens is worth a message: on the loop's thread, of facts and of what observers are told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from ..core import events as e
from ..core.deck import Deck
from ..core.gates import Gate, Standing
from ..core.phases import Failed
from ..core.spec import Notify
from ..logs.described import describe
from ..logs.files import AttemptPaths
from ..protocol.messages import Counts, Message, RunFinished, TaskEnded
from ..report.numbers import counts_of
from ..text import duration, plural
from .message import Happening, Kind, Level, Origin
from .sender import Mark, Sender, Settings
from .targets import resolve

_ROUNDS = ("round", "round ended")


class Notices:
    """All methods on the loop's thread; none of them blocks. Without a [notify] table they do nothing."""

    def __init__(
        self,
        deck: Deck,
        origin: Origin,
        environ: Mapping[str, str],
        values: Callable[[], Mapping[str, str]],
        *,
        mark: str,
        note: Callable[[str], None],
        paths: Callable[[str, int], AttemptPaths],
    ) -> None:
        """*environ*: of the tasks, and of the user's command. *values*: what placeholders in URLs stand for beside it.
        *mark*: the file that keeps what has been told. *note* is told, on another thread, what cannot be sent. *paths*:
        the files of (task, attempt)."""
        self._deck = deck
        self._origin = origin
        self._environ = environ
        self._values = values
        self._mark = mark
        self._note = note
        self._paths = paths
        self._notify = Notify()
        self._sender: Sender | None = None
        self._lost: set[str] = set()
        self._ran = 0
        """The newest run in which an attempt has ended."""

    # -- beginning and end --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The deck has been restored and nothing has happened yet: tell what an earlier engine had no time to tell."""
        self.renew()
        if self._sender is None or not self._deck.run.number:
            return
        for task in self._deck.tasks:
            if isinstance(task.phase, Failed) and task.attempts:
                text = f"{task.name} failed: {describe(task.phase.outcome)}"
                log = self._paths(task.name, task.attempts).out
                self._put("failure", text, "failure", f"failed {task.name} {task.attempts}", past=True,
                          task=task.name, attempt=task.attempts, log=log)  # fmt: skip
        for gate in self._deck.gates:
            if gate.kind in _ROUNDS and _over(gate) and any(self._ran_here(index) for index in gate.members):
                self._round(gate, past=True)
        if self._deck.run.halted:
            self._halted(self._deck.run.halted, past=True)
        if self._deck.run.ended:
            self._ended(counts_of(self._deck), past=True)

    def renew(self) -> None:
        """The [notify] table may have changed."""
        notify = self._deck.settings.notify
        self._notify = notify
        if not notify and self._sender is None:
            return
        targets = resolve(notify, self._values(), self._environ)
        settings = Settings(notify, targets, self._origin, self._environ)
        if self._sender is None:
            self._sender = Sender(settings, Mark(self._mark), self._note)
        else:
            self._sender.change(settings)

    async def finish(self, patience_s: float) -> None:
        """Send what waits; give up on it after *patience_s*."""
        if self._sender is None:
            return
        loop = asyncio.get_running_loop()
        over = asyncio.Event()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # nobody waits any more
                loop.call_soon_threadsafe(over.set)

        self._sender.close(tell)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), patience_s)

    # -- what happens -------------------------------------------------------------------------------------------------

    def show(self, message: Message) -> None:
        """What observers are told."""
        if self._sender is None:
            return
        match message:
            case TaskEnded():
                self._attempt(message)
            case RunFinished(ended=True) if self._ran == self._deck.run.number:
                self._ended(message.counts, took_s=message.wall_s)
            case _:
                pass

    def publish(self, facts: Sequence[e.Fact]) -> None:
        """What is on disk."""
        if self._sender is None:
            return
        for fact in facts:
            match fact:
                case e.RunStarted():
                    self._sender.put(Happening("begin", "", fact.run, past=True))
                case e.Halted():
                    self._halted(fact.by)
                case e.GpuQuarantined():
                    names = ", ".join(fact.tasks)
                    self._put("gpu", f"GPU {self._gpu(fact.gpu)} is quarantined: {names} failed fast on it", "warning")
                case e.GpuReleased():
                    self._put("gpu", f"GPU {self._gpu(fact.gpu)} is used again")
                case e.GpuJoined():
                    self._put("gpu", f"{fact.user} joined GPU {self._gpu(fact.gpu)}", "warning")
                case _:
                    pass

    def lost(self, why: Mapping[str, str]) -> None:
        """GPUs that are lost now, by UUID, with what the driver says. Told once in a run."""
        if self._sender is None or set(why) == self._lost:
            return
        for uuid in why.keys() - self._lost:
            if uuid in self._deck.present_gpus:
                self._put("gpu", f"GPU {self._gpu(uuid)} is lost: {why[uuid]}", "failure", f"lost {uuid}")
        self._lost = set(why)

    def watched(self, text: str) -> None:
        """A watch rule has hit."""
        self._put("watch", text, "warning")

    def stopped(self, why: str) -> None:
        """The engine ends before the run does, and nobody asked for that."""
        self._put("stop", f"stopped before its end: {why}", "failure")

    # -- in detail ----------------------------------------------------------------------------------------------------

    def _attempt(self, message: TaskEnded) -> None:
        self._ran = self._deck.run.number
        if message.next == "failed":
            self._failure("failure", message, f"{message.task} failed: {message.reason}{_where(message)}")
        elif message.next == "backoff":
            text = f"{message.task} failed and is tried again: {message.reason}{_where(message)}"
            self._failure("retry", message, text)
        if message.next in ("succeeded", "failed", "cancelled", "pruned"):
            task = self._deck.by_name.get(message.task)
            for gate in task.feeds if task is not None else ():
                if gate.kind in _ROUNDS and _over(gate):
                    self._round(gate)

    def _failure(self, kind: Kind, message: TaskEnded, text: str) -> None:
        level: Level = "failure" if kind == "failure" else "warning"
        key = f"failed {message.task} {message.attempt}"
        paths = self._paths(message.task, message.attempt)
        log = paths.err if message.telling and message.telling == message.err else paths.out
        self._put(kind, text, level, key, task=message.task, attempt=message.attempt, log=log,
                  digest=message.digest, wall=message.wall)  # fmt: skip

    def _round(self, gate: Gate, *, past: bool = False) -> None:
        phases = [self._deck.tasks[index] for index in gate.members if self._deck.tasks[index].selected]
        failed = sum(isinstance(task.phase, Failed) for task in phases)
        how = f"{failed} of {plural(len(phases), 'task')} failed" if failed else f"{plural(len(phases), 'task')}"
        self._put("round", f"{gate.label} is over: {how}", "warning" if failed else "success", f"over {gate.label}",
                  past=past)  # fmt: skip

    def _ran_here(self, index: int) -> bool:
        """Whether a task came to its end in this run, rather than being done before."""
        task = self._deck.tasks[index]
        success = self._deck.successes.get(task.name)
        return isinstance(task.phase, Failed) or (success is not None and success.wall >= self._deck.run.started_wall)

    def _halted(self, by: str, *, past: bool = False) -> None:
        self._put("halt", f"halted: {by} failed; nothing more starts", "failure", "halted", past=past)

    def _ended(self, counts: Counts, *, took_s: float = 0.0, past: bool = False) -> None:
        good = counts.all_well
        parts = [
            f"{count} {word}"
            for word in (
                "succeeded",
                "cached",
                "failed",
                "blocked",
                "cancelled",
                "pruned",
                "waiting",
                "queued",
                "unknown",
            )
            if (count := getattr(counts, word))
        ]
        after = f" after {duration(took_s)}" if took_s else ""
        text = f"{'done' if good else 'ended'}{after}: {', '.join(parts)}"
        self._put("end", text, "success" if good else "failure", "ended", past=past)

    def _put(
        self, kind: Kind, text: str, level: Level = "info", key: str = "", *, past: bool = False, task: str = "",
        attempt: int = 0, log: str = "", digest: tuple[str, ...] = (), wall: float = 0.0,
    ) -> None:  # fmt: skip
        if self._sender is not None and kind in self._notify.on:
            run = self._deck.run.number
            self._sender.put(Happening(kind, text, run, level, key, past, task, attempt, log, digest, wall))

    def _gpu(self, uuid: str) -> str:
        gpu = self._deck.present_gpus.get(uuid)
        return uuid if gpu is None else str(gpu.index)


def _over(gate: Gate) -> bool:
    """All of its own members have ended; the rounds before it do not count."""
    behind = gate.behind is Standing.PENDING
    return gate.counts[Standing.PENDING] == behind


def _where(message: TaskEnded) -> str:
    gpus = f" on GPU {','.join(map(str, message.gpus))}" if message.gpus else ""
    return f" (attempt {message.attempt}{gpus}, after {duration(message.duration_s)})"
