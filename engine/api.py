"""A deck as a program sees it: what the commands do, typed, without a process for each. `from gpudeck import Deck`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .adding import add_live, add_to_file, addition_of, start_added, would_add
from .client.attach import attach
from .client.connection import Connection, Gone
from .client.files import queue_file, queue_home
from .client.place import Place
from .command import NewTask
from .core.phases import FINAL
from .errors import DeckError, EngineUnavailableError, TaskFileError, UsageError
from .protocol.verbs import ACTS
from .protocol.wire import DeckHead, Event, GpuRow, TaskRow
from .results.results import Asked, Records, Result, check_asked, metrics_of, results_of
from .taking import take_places
from .taskfile.find import find_task_file
from .taskfile.options import RunOptions
from .taskfile.source import read_source
from .taskfile.values import as_text
from .text import plural
from .waiting import wait

if TYPE_CHECKING:
    from .executor import Executor
    from .live.add import Addition

__all__ = [
    "AsyncDeck", "Deck", "DeckError", "DeckHead", "EngineUnavailableError", "GpuRow", "NewTask", "Result", "State",
    "TaskFileError", "TaskRow", "UsageError",
]  # fmt: skip

_LOG = logging.getLogger("gpudeck")
_SEVERAL = frozenset({"matrix", "shards"})
"""Keys by which one entry makes several tasks."""


@dataclass(frozen=True, slots=True)
class State:
    """A deck at one moment."""

    head: DeckHead
    tasks: tuple[TaskRow, ...]
    """In the order of the file."""
    gpus: tuple[GpuRow, ...]
    engine: int | None
    """Its pid; None: none runs, and this is what its files tell."""


def _makes_several(task: NewTask) -> bool:
    return not _SEVERAL.isdisjoint(key.partition(".")[0] for key in task.keys)


def _wanted_now(tasks: Sequence[NewTask], names: Sequence[str]) -> Sequence[str]:
    """*names*: of all that they make; each makes one where not all are wanted now."""
    if all(task.now for task in tasks):
        return names
    return [name for task, name in zip(tasks, names, strict=False) if task.now]


class Deck:
    """The deck of a task file, or the user's queue. Each call finds the engine that runs it then; several threads and
    processes may use one deck. Selectors are those of commands: "train-*", "state:failed", "lr=0.1".

    Raises DeckError: UsageError and TaskFileError for what the caller can mend, EngineUnavailableError where no engine
    can run or answer.
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | None = None,
        *,
        queue: bool = False,
        profile: str | None = None,
        name: str | None = None,
        warn: Callable[[str], None] = _LOG.warning,
    ) -> None:
        """*file*: its task file; None: tasks.toml of the current folder, or of the nearest one above. *queue*: the
        user's queue on this host instead. *profile*, *name*: which of its states, as `--profile` and `--name` say.
        *warn* is told a line of what commands say beside their answer."""
        if queue and file is not None:
            raise UsageError("a deck is that of a file or the queue: give one of the two")
        self._queue = queue
        path = (
            queue_file()
            if queue
            else find_task_file(None if file is None else os.fspath(file), os.environ, os.getcwd())
        )
        self._place = Place(os.path.abspath(path), RunOptions(profile=profile, name=name), os.environ, tell=warn)

    @property
    def file(self) -> str:
        """Its task file, absolute."""
        return self._place.path

    def start(self) -> int:
        """Run the deck: its engine's pid. One that runs goes on, and takes up what is new in the file."""
        with self._place.start("start", quiet=True, change=True) as connection:
            return connection.hello.pid

    def stop(self, *, tasks: bool = False) -> None:
        """End the engine; what runs goes on, unless *tasks*. Nothing where none runs."""
        connection = attach(self._place.path, self._place.options)
        if connection is None:
            return
        with connection:
            connection.request("stop", tasks=tasks)
            try:
                for _ in connection.messages():
                    pass
            except Gone:
                return

    def state(self) -> State:
        """How it stands, from its engine, else from its files."""
        connection = self._place.attach()
        if connection is not None:
            with connection:
                picture = connection.wait_for_picture()
                return State(picture.head, tuple(picture.rows.values()), tuple(picture.gpus), connection.hello.pid)
        from .serve.offline import offline_look

        found = offline_look(self._place, quiet=True)
        return State(found.head(), tuple(found.with_metrics(found.rows(()))), tuple(found.gpus()), None)

    def tasks(self, *select: str) -> list[TaskRow]:
        """The tasks that *select* means, as they stand; without selectors all of them, none of a file that has none."""
        connection = self._place.attach()
        if connection is not None:
            with connection:
                if not select:
                    return list(connection.wait_for_picture().rows.values())
                return connection.rows(connection.request("select", select=list(select)))
        from .serve.offline import offline_look

        try:
            found = offline_look(self._place, quiet=True)
        except TaskFileError:
            if select or "task" in read_source(self._place.path).data:
                raise
            return []
        return found.with_metrics(found.rows(select))

    def add(self, command: str | Sequence[str], *, start: bool = True, **more: Any) -> str:
        """Add a task; *more* as NewTask has it. Its name. See `add_all`, which also takes what makes several (a matrix,
        shards)."""
        task = NewTask(command, **more)
        if not self._queue and _makes_several(task):
            names = would_add(self._place, [self._addition(task)]).names
            if len(names) != 1:
                raise UsageError(f"add: this makes {plural(len(names), 'task')} and returns one name: use add_all")
        return self.add_all([task], start=start)[0]

    def add_all(self, tasks: Iterable[NewTask], *, start: bool = True) -> list[str]:
        """Add tasks, all or none, in one commit: to the task file, and to the queue of the engine. Their names.

        *start*: start an engine where none runs. The queue always has one, and takes commands one by one. Where some
        are wanted `now`, it returns when each of those has a place, or it is known that none is to be had.
        """
        new = list(tasks)
        if not new:
            return []
        if self._queue:
            return [self._enter(task) for task in new]
        place = self._place
        if len({task.now for task in new}) == 2 and (several := next(filter(_makes_several, new), None)):
            raise UsageError(f"add: {several.name or 'a task'} makes several tasks: add what is wanted now by itself")
        additions = [self._addition(task) for task in new]
        connection = place.attach()
        if connection is not None:
            with connection:
                added, taken = add_live(place, additions, connection)
                if taken:
                    take_places(connection, _wanted_now(new, added.names), place.tell)
            if taken or not start:
                return list(added.names)
        else:
            added = add_to_file(place, additions)
        if start:
            start_added(place, added, _wanted_now(new, added.names))
        return list(added.names)

    def _addition(self, task: NewTask) -> Addition:
        return addition_of(task.as_command(), os.path.dirname(self._place.path))

    def _enter(self, task: NewTask) -> str:
        from .runs.engines import Engines
        from .runs.wanted import wanted_of

        wanted = wanted_of(task.as_command(), os.environ, "add")
        on_cpu = wanted.entry["gpus"] == 0
        home = queue_home(as_root=False)
        engines = Engines(home, os.environ, simulated=wanted.simulated, as_root=False, on_cpu=on_cpu)
        name, connection = engines.enter(wanted, self._place.tell)
        with connection:
            if task.now:
                take_places(connection, [name], self._place.tell)
        return name

    def wait(self, *select: str, timeout_s: float | None = None) -> list[TaskRow]:
        """Wait until nothing more becomes of the tasks without a user; without selectors of all. How they stand then.

        Raises TimeoutError once *timeout_s* is over, and EngineUnavailableError where the engine has gone before they
        have come to their end, and no other one comes within 15 s: what runs goes on, and `start` goes on with it.
        """
        waited = wait(self._place, select, timeout_s)
        if not waited.left:
            return list(waited.rows)
        those = "task has not come to its" if len(waited.left) == 1 else "tasks have not come to their"
        open_ = f"{len(waited.left)} {those} end"
        if waited.how == "time is over":
            raise TimeoutError(f"{open_} after {timeout_s:g} s")
        where = "on this host" if waited.how == "elsewhere" else "any more"
        raise EngineUnavailableError(
            f"{open_}, and no engine runs the deck {where}: `gpudeck start`, or `Deck.start()`, goes on with it"
        )

    def retry(
        self,
        *select: str,
        set: Mapping[str, object] | None = None,  # noqa: A002 as the command has it
        env: Mapping[str, str | None] | None = None,
        fresh: bool = False,
        downstream: bool = False,
    ) -> list[str]:
        """Run these once more: names of those that do. *set*, *env*: other values of variables, and of the environment
        (None unsets). *fresh*: not from a checkpoint. *downstream*: what needs them, too."""
        values = {name: as_text(value) for name, value in (set or {}).items()}
        more = {"set": values, "env": dict(env or {}), "fresh": fresh, "downstream": downstream}
        return self._act("retry", select, more)

    def cancel(self, *select: str) -> list[str]:
        """Stop what runs of these, and start none of the others: names of those that this did something to."""
        return self._act("cancel", select)

    def kill(self, *select: str) -> list[str]:
        """The same, without any grace."""
        return self._act("kill", select)

    def hold(self, *select: str) -> list[str]:
        """Start none of these until they are released."""
        return self._act("hold", select)

    def release(self, *select: str) -> list[str]:
        """Let these start again."""
        return self._act("release", select)

    def _act(self, verb: str, select: Sequence[str], more: Mapping[str, Any] | None = None) -> list[str]:
        if not select:
            raise UsageError(f"{verb}: say which tasks; '*' means all")
        with self._place.attach() or self._place.start(self._purpose(verb), quiet=True) as connection:
            rows = connection.rows(connection.request("select", select=list(select)))
            names = [row.name for row in rows if ACTS[verb].may(row)]
            return connection.request(verb, tasks=names, **(more or {}))["tasks"] if names else []

    def _purpose(self, verb: str) -> Any:
        """What an engine is started for where none runs: to go on with the run, or only to note what is asked."""
        from .serve.offline import offline_look

        return "act" if verb == "retry" or offline_look(self._place, quiet=True).under_way else "note"

    def results(self, *select: str, metrics: Sequence[str] = ()) -> list[Result]:
        """What tasks came to: params and metrics. *metrics*: "acc", or "loss:min"; none: all that are known. Raises
        UsageError for one that no task has, once one of them has come to its end."""
        from .decks.offline import open_offline
        from .serve.offline import tasks_meant

        offline = open_offline(self._place.path, self._place.options, self._place.environ)
        tasks, records = tasks_meant(offline, select), Records(offline.logs, offline.deck, offline.file.vars)
        known = metrics_of(records, tasks)
        asked = [Asked.of(word) for word in metrics] or [Asked(name, None) for name in known]
        if any(isinstance(task.phase, FINAL) for task in tasks):
            check_asked(asked, known)
        return results_of(records, tasks, asked)

    def executor(self, folder: str | os.PathLike[str] = "gpudeck_jobs", **keys: Any) -> Executor:
        """Functions as tasks, with submitit's verbs. *folder* keeps calls and results; *keys*: what each call asks for,
        as NewTask has it. Needs the extra `python`."""
        from .executor import Executor

        return Executor(self, folder, NewTask("", **keys))

    def events(self) -> Iterator[dict[str, Any]]:
        """What happens from now on, as `gpudeck --headless --json` prints it. Ends when the engine does."""
        connection = self._place.attach()
        if connection is None:
            return iter(())
        connection.watch(rows=False, events=True)
        return _events(connection)


def _events(connection: Connection) -> Iterator[dict[str, Any]]:
    with connection:
        try:
            for message in connection.messages():
                if isinstance(message, Event):
                    yield message.event
        except Gone:
            return


class AsyncDeck:
    """The same for asyncio: each call waits in a thread of its own."""

    def __init__(self, file: str | os.PathLike[str] | None = None, **more: Any) -> None:
        """See `Deck`."""
        self.deck = Deck(file, **more)

    async def start(self) -> int:
        return await asyncio.to_thread(self.deck.start)

    async def stop(self, *, tasks: bool = False) -> None:
        await asyncio.to_thread(self.deck.stop, tasks=tasks)

    async def state(self) -> State:
        return await asyncio.to_thread(self.deck.state)

    async def tasks(self, *select: str) -> list[TaskRow]:
        return await asyncio.to_thread(self.deck.tasks, *select)

    async def add(self, command: str | Sequence[str], *, start: bool = True, **more: Any) -> str:
        return await asyncio.to_thread(self.deck.add, command, start=start, **more)

    async def add_all(self, tasks: Iterable[NewTask], *, start: bool = True) -> list[str]:
        return await asyncio.to_thread(self.deck.add_all, tasks, start=start)

    async def wait(self, *select: str, timeout_s: float | None = None) -> list[TaskRow]:
        return await asyncio.to_thread(self.deck.wait, *select, timeout_s=timeout_s)

    async def retry(self, *select: str, **more: Any) -> list[str]:
        return await asyncio.to_thread(self.deck.retry, *select, **more)

    async def cancel(self, *select: str) -> list[str]:
        return await asyncio.to_thread(self.deck.cancel, *select)

    async def kill(self, *select: str) -> list[str]:
        return await asyncio.to_thread(self.deck.kill, *select)

    async def hold(self, *select: str) -> list[str]:
        return await asyncio.to_thread(self.deck.hold, *select)

    async def release(self, *select: str) -> list[str]:
        return await asyncio.to_thread(self.deck.release, *select)

    async def results(self, *select: str, metrics: Sequence[str] = ()) -> list[Result]:
        return await asyncio.to_thread(self.deck.results, *select, metrics=metrics)

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        happenings = self.deck.events()
        while (event := await asyncio.to_thread(next, happenings, None)) is not None:
            yield event
