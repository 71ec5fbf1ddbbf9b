"""A deck as its files tell it, for commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ..adapters import host
from ..client.place import Place
from ..core.deck import Task
from ..core.explain import explain
from ..core.phases import ACTIVE, Failed, Waiting
from ..errors import UsageError
from ..logs.files import LogFolder
from ..opening.submitted import standing
from ..protocol.wire import Cluster, DeckHead, GpuRow, TaskRow
from ..serve.view import DeckView
from .deck import Offline, Standing, open_offline

if TYPE_CHECKING:
    from ..attempt.shown_command import ToldCommands

STANDING: dict[Standing, str] = {
    "runs": "runs on without an engine",
    "ended": "has ended; the next engine takes its result in",
    "gone": "gone; the next engine says what became of it",
    "unknown": "not known whether it still runs",
}


def offline_look(place: Place, *, quiet: bool = False) -> OfflineLook:
    """The deck as its files tell it; unless *quiet* a line on stderr says that no engine runs. Raises DeckError."""
    found = OfflineLook(open_offline(place.path, place.options, place.environ), place.path)
    if quiet:
        return found
    place.say(found.saying)
    for warning in found.deck.warnings[len(found.deck.file.warnings) :]:
        place.say(f"warning: {warning}")
    return found


class OfflineLook:
    """Reads the journal and the logs."""

    engine: Mapping[str, Any] | None = None

    def __init__(self, deck: Offline, path: str) -> None:
        self.deck = deck
        self._commands: ToldCommands | None = None
        self._view = DeckView(deck.deck, host.SystemClock(), file=path, infos={})

    @property
    def saying(self) -> str:
        """What there is to say about there being no engine."""
        if self.deck.submitted:
            return f"no engine runs this deck; {self.submitted}"
        if self.deck.state is None:
            return "this deck has never been started: `gpudeck` starts it"
        if self.deck.elsewhere:
            return self.deck.elsewhere
        running = self.running
        tasks = f"; {running} task{'s' * (running != 1)} of it run{'s' * (running == 1)} on" if running else ""
        more = "`gpudeck` goes on with the run" if self.deck.unfinished else "its last run has ended"
        if not self.deck.journal.run:
            more = "none of its runs has begun: `gpudeck start` begins one"
        if self.deck.unfinished and self.deck.broken:
            more = "`gpudeck stop --tasks` ends what runs" if running else "its run has not ended"
        return f"no engine runs this deck{tasks}; {more}"

    @property
    def submitted(self) -> str:
        """What to say of tasks that `gpudeck submit` has handed to Slurm and that no engine has taken up; "": none."""
        return standing(self.deck.submitted) if self.deck.submitted else ""

    @property
    def has_begun(self) -> bool:
        """Some task of it has been started, ever."""
        return bool(self.deck.journal.starts)

    @property
    def under_way(self) -> bool:
        """A run has started tasks and is not over: an engine goes on with it. Else one begins with all that is new."""
        return self.has_begun and self.deck.unfinished

    @property
    def never_ran(self) -> list[str]:
        """Tasks that have come into the file since the last run ended; what a halt has left is not told from them."""
        deck = self.deck.deck
        if not deck.run.ended or deck.run.halted:
            return []
        return [task.name for task in deck.tasks if task.selected and isinstance(task.phase, Waiting)]

    @property
    def running(self) -> int:
        """Tasks that are under way without an engine."""
        return sum(self.deck.standing(token) == "runs" for token in self.deck.deck.active)

    def head(self) -> DeckHead:
        return self._view.head()

    def gpus(self) -> Sequence[GpuRow]:
        return self._view.gpus()

    def cluster(self) -> Cluster | None:
        return None

    def rows(self, selectors: Sequence[str]) -> list[TaskRow]:
        return [self._row(task) for task in self.deck.select(selectors)]

    def _row(self, task: Task) -> TaskRow:
        row = msgspec.structs.replace(self._view.rows([task.index])[0], gpus=self.deck.gpus_of(task))
        attempt = task.attempt()
        if attempt is not None and isinstance(task.phase, ACTIVE):
            return msgspec.structs.replace(row, reason=STANDING[self.deck.standing(attempt.token)], kind="")
        return row

    def with_metrics(self, rows: Sequence[TaskRow]) -> list[TaskRow]:
        """From their attempt-N.json."""
        from ..progress.reported import Reported, best_of, read_all

        tasks = self.deck.deck.by_name
        over = [(row.name, task.ended[-1].number) for row in rows if (task := tasks[row.name]).ended]
        paths = [(name, number, self.deck.paths(name, number).json) for name, number in over]
        told = {name: metrics for name, _, metrics in read_all(paths)}

        def told_of(row: TaskRow, metrics: Reported) -> TaskRow:
            best = best_of(tasks[row.name].spec, metrics.best)
            return msgspec.structs.replace(row, metrics=metrics.last, best=best)

        return [told_of(row, told[row.name]) if row.name in told else row for row in rows]

    def hints(self, rows: Sequence[TaskRow]) -> Mapping[str, str]:
        tasks = (self.deck.deck.by_name[row.name] for row in rows)
        failed = [(task, task.phase.outcome) for task in tasks if isinstance(task.phase, Failed)]
        if not failed:
            return {}
        from ..logs.failure import hint_of  # with all the words by which failures are known

        return {task.name: hint for task, outcome in failed if (hint := hint_of(outcome, task.spec))}

    def explain(self, name: str) -> list[str]:
        deck = self.deck.deck
        obstacles = explain(deck, deck.by_name[name], host.boottime_s())
        told = [obstacle.text for obstacle in obstacles if obstacle.kind not in ("checking", "ended")]
        return [self.deck.elsewhere or "no engine runs this deck", *told]

    def details(self, name: str) -> dict[str, Any]:
        from ..attempt.box import Box
        from ..attempt.shown_command import ToldCommands
        from ..serve.details import details_of  # with all that attempts are made of

        offline = self.deck
        deck, task = offline.deck, offline.deck.by_name[name]
        if self._commands is None:
            box = Box(offline.environment, lambda _: "", offline.index_of, cpus_each=0, cores=host.cores())
            self._commands = ToldCommands(deck, offline.paths, box)
        offline.gpus_of(task)  # which its command names
        told, at = self._commands, host.boottime_s()
        command, launch, hiding = told.of(task), told.launch(task), told.hiding(task)
        return msgspec.to_builtins(details_of(deck, task, offline.paths, offline.index_of, at, command, launch, hiding))

    def page(self, op: str, args: Mapping[str, Any]) -> Any:
        """timeline, graph or errors, as an engine answers it, ready for JSON. Not for a thread that must not wait.
        Raises UsageError for anything else and for bad arguments."""
        import asyncio

        from ..serve.pages import FailuresArgs, Graphs, TimelineArgs, failures, timeline

        deck, now = self.deck.deck, host.SystemClock().now()
        try:
            match op:
                case "timeline":
                    answer = timeline(deck, msgspec.convert(args, TimelineArgs), self.deck.indices(), now.wall_s)
                case "graph":
                    answer = Graphs(deck).graph(now.boot_s)
                case "errors":
                    wanted = msgspec.convert(args, FailuresArgs)
                    answer = failures(deck, wanted, self.deck.paths, self.deck.indices())
                case _:
                    raise UsageError(f"{op}: no engine runs this deck")
        except msgspec.ValidationError as error:
            raise UsageError(f"bad arguments: {error}") from error
        return msgspec.to_builtins(asyncio.run(answer))

    def runs_on(self, name: str) -> bool:
        """It is under way without an engine, or, of a job of a cluster, may be."""
        attempt = self.deck.deck.by_name[name].attempt()
        if attempt is None:
            return False
        standing = self.deck.standing(attempt.token)
        return standing == "runs" or (bool(attempt.job) and standing == "unknown")

    def attempts_of(self, name: str) -> int:
        return self.deck.deck.by_name[name].attempts

    def logs(self) -> LogFolder:
        return self.deck.logs
