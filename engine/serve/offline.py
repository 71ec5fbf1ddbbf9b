"""What an engine tells of a deck, told from its files where none runs: to commands, and to a screen."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from ..adapters import host
from ..client.place import Place
from ..core.apply import derive
from ..core.deck import Task
from ..core.explain import explain
from ..core.phases import ACTIVE, Backoff, Failed, Queued, Waiting
from ..core.readiness import success_of
from ..decks.cluster import submitted_note
from ..decks.loading import restored
from ..decks.offline import OfflineDeck, Standing, first_of, open_offline
from ..decks.states import find_state
from ..errors import DeckError, UsageError
from ..logs.files import LogFolder
from ..protocol.wire import Cluster, DeckHead, GpuRow, Reply, TaskRow, decode, encode
from ..text import plural
from .requested import refuse_left_out, select
from .view import DeckView

if TYPE_CHECKING:
    from ..attempts.progress import LastProgress
    from ..attempts.start_plan import Planner
    from ..live.plan import FilePlan


STANDING: dict[Standing, str] = {
    "runs": "runs on without an engine",
    "ended": "has ended; the next engine takes its result in",
    "gone": "nobody saw its end; the next engine says what became of it",
    "unknown": "not known whether it still runs",
}


_NO_ENGINE = "no engine runs this deck: `gpudeck start` starts one"


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

    def __init__(self, deck: OfflineDeck, path: str) -> None:
        self.deck = deck
        self._commands: Planner | None = None
        self._view = DeckView(deck.deck, host.SystemClock(), file=path, infos={}, file_plan=self._edits_in_words)

    @property
    def saying(self) -> str:
        """What there is to say about there being no engine."""
        if self.deck.submitted:
            return f"no engine runs this deck; {self.submitted}"
        if self.deck.state is None:
            if os.path.isdir(self.deck.file.settings.log_dir):
                from ..decks.journal_recovery import left_without_state  # seldom needed, as what it imports

                if running := list(left_without_state(self.deck.file)):
                    return "\n".join(running)
            return "this deck has never been started: `gpudeck` starts it"
        if self.deck.elsewhere:
            return self.deck.elsewhere
        running = self.running
        tasks = f"; {plural(running, 'task')} of it run{'s' * (running == 1)} on" if running else ""
        more = "`gpudeck` goes on with the run" if self.deck.unfinished else "its last run has ended"
        if not self.deck.journal.run:
            more = "none of its runs has begun: `gpudeck start` begins one"
        if self.deck.unfinished and self.deck.broken:
            more = "`gpudeck stop --tasks` ends what runs" if running else "its run has not ended"
        return f"no engine runs this deck{tasks}; {more}"

    def edits(self) -> FilePlan | None:
        """What the file says other than when the deck took it last; None: nobody knows what it said then."""
        from ..live.plan import make_plan

        loaded, edited = self.deck.loaded, self.deck.edited
        if edited is not None:
            return make_plan(self.deck.deck, loaded.file, edited.file, edited.file.digest)
        if (old := loaded.taken()) is None:
            return None
        deck, _, _ = restored(replace(loaded, file=old))
        if deck.run.number:
            derive(deck)
        return make_plan(deck, old, loaded.file, loaded.file.digest)

    def _edits_in_words(self) -> str:
        if not self.deck.has_edits:
            return ""
        from ..live import words

        plan = self.edits()
        return words.summary(plan) if plan else ""

    @property
    def submitted(self) -> str:
        """What to say of tasks that `gpudeck submit` has handed to Slurm and that no engine has taken up; "": none."""
        return submitted_note(self.deck.submitted) if self.deck.submitted else ""

    @property
    def has_begun(self) -> bool:
        """Some task of it has been started, ever."""
        return bool(self.deck.journal.starts)

    @property
    def under_way(self) -> bool:
        """Something of it runs, or may: whoever acts on the deck needs an engine that goes on with the run."""
        standing = (self.deck.standing(token) for token in self.deck.deck.active)
        return self.deck.unfinished and any(each in ("runs", "unknown") for each in standing)

    @property
    def never_ran(self) -> list[str]:
        """Tasks that have come into the file since the last run ended, and do other work than what has been done; what
        a halt has left is not told from them."""
        deck = self.deck.deck
        if not deck.run.ended or deck.run.halted:
            return []
        new = (task for task in deck.tasks if task.selected and isinstance(task.phase, Waiting))
        return [task.name for task in new if success_of(deck, task) is None]

    @property
    def waiting(self) -> list[str]:
        """Tasks that an engine starts, when they can, as soon as it goes on with the run."""
        deck = self.deck.deck
        if not self.deck.unfinished or deck.paused or deck.run.halted:
            return []
        waits = (task for task in deck.tasks if isinstance(task.phase, (Waiting, Queued, Backoff)))
        return [task.name for task in waits if task.selected and not task.held]

    @property
    def ended_unseen(self) -> set[str]:
        """Tasks of which the next engine finds that they have ended."""
        active = self.deck.deck.active
        return {task.name for token, task in active.items() if self.deck.standing(token) in ("ended", "gone")}

    def refuse_retry(self, selectors: Sequence[str]) -> None:
        """Raises UsageError for what an engine, which would go on with the run, would refuse."""
        if self.deck.unfinished:
            refuse_left_out(tasks_meant(self.deck, selectors))

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

    def rows(self, selectors: Sequence[str] = ()) -> list[TaskRow]:
        return [self._row(task) for task in tasks_meant(self.deck, selectors)]

    def _row(self, task: Task) -> TaskRow:
        row = msgspec.structs.replace(self._view.rows([task.index])[0], gpus=self.deck.gpus_of(task))
        attempt = task.attempt()
        if attempt is None or not isinstance(task.phase, ACTIVE):
            return row
        standing = self.deck.standing(attempt.token)
        row = msgspec.structs.replace(row, reason=STANDING[standing], kind="")
        if standing == "ended":
            return msgspec.structs.replace(row, started=None, duration_s=self.deck.lasted_s(attempt.token))
        return row

    def with_metrics(self, rows: Sequence[TaskRow]) -> list[TaskRow]:
        """From their attempt-N.json."""
        tasks = self.deck.deck.by_name
        over = [(row.name, task.ended[-1].number) for row in rows if (task := tasks[row.name]).ended]
        told = {name: {"metrics": found.metrics, "best": found.best} for name, _, found in self.reported(over)}
        return [msgspec.structs.replace(row, **told.get(row.name, {})) for row in rows]

    def reported(self, attempts: Iterable[tuple[str, int]]) -> list[LastProgress]:
        """What attempts reported last, and of what counts as best the best. Reads a small file for each."""
        from ..attempts.progress import Progress, best_of, read_all

        told = read_all([(name, number, self.deck.paths(name, number).json) for name, number in attempts])
        specs = {name: self.deck.deck.by_name[name].spec for name, _, _ in told}
        return [
            (name, number, Progress(metrics=one.metrics, best=best_of(specs[name], one.best)))
            for name, number, one in told
        ]

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
        obvious = ("checking", "disk space") if deck.run.halted else ("checking", "disk space", "ended")
        told = [obstacle.text for obstacle in obstacles if obstacle.kind not in obvious]
        return [self.deck.elsewhere or _NO_ENGINE, *told]

    def blockers(self, name: str) -> list[str]:
        """Tasks that keep it from starting: some, where they are many."""
        deck = self.deck.deck
        obstacles = explain(deck, deck.by_name[name], host.boottime_s())
        return list(dict.fromkeys(task for obstacle in obstacles for task in obstacle.tasks))

    def details(self, name: str) -> dict[str, Any]:
        from ..attempts.container import chosen
        from ..attempts.environment import Box
        from ..attempts.start_plan import Planner
        from .details import details_of  # with all that attempts are made of

        offline = self.deck
        deck, task = offline.deck, offline.deck.by_name[name]
        if self._commands is None:
            box = Box(offline.environment, lambda _: "", offline.index_of, cpus_each=0, cores=host.cores())
            box.container = chosen(deck.settings.container, offline.environment)
            self._commands = Planner(deck, offline.logs, box)
        at, variables = host.boottime_s(), offline.file.vars
        found = details_of(deck, task, offline.paths, offline.index_of, at, self._commands, variables)
        first, *told = self.explain(name)
        waits = ["an engine" if first == _NO_ENGINE else first, *(text.removeprefix("waits for ") for text in told)]
        return {**msgspec.to_builtins(found), "waits_for": waits if found.waits_for else []}

    def page(self, op: str, args: Mapping[str, Any]) -> Any:
        """timeline, graph or errors, as an engine answers it, ready for JSON. Not for a thread that must not wait.
        Raises UsageError for anything else and for bad arguments."""
        import asyncio

        from .pages import FailuresArgs, Graphs, TimelineArgs, failures, timeline

        deck, now = self.deck.deck, host.SystemClock().now()
        try:
            match op:
                case "timeline":
                    answer = timeline(deck, msgspec.convert(args, TimelineArgs), self.deck.index_of, now.wall_s)
                case "graph":
                    answer = Graphs(deck).graph(now.boot_s)
                case "errors":
                    wanted = msgspec.convert(args, FailuresArgs)
                    answer = failures(deck, wanted, self.deck.paths, self.deck.index_of)
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


def tasks_meant(offline: OfflineDeck, selectors: Sequence[str]) -> list[Task]:
    """The tasks that any of *selectors* means, in file order; without selectors all of them. Raises UsageError for a
    name, tag or param that none has; that none is in a state now is an answer."""
    if not selectors:
        return list(offline.deck.tasks)
    return select(offline.deck, selectors, offline.index_of)


# -- for a screen -----------------------------------------------------------------------------------------------------


_AT_ONCE = 256


class OfflineScreen(OfflineLook):
    """One look at a deck: the picture, and answers to the requests of READS. Not for several threads at once."""

    def __init__(self, place: Place) -> None:
        """Raises DeckError where nothing can be told of the deck."""
        self._place = place
        self._state = find_state(place.path, place.options)
        self._stamps = self._stamped()
        super().__init__(open_offline(place.path, place.options, place.environ), place.path)
        self._standings = self._standing()

    @property
    def as_of(self) -> float:
        """When the newest of what is shown was written down, seconds since the epoch; 0: nothing ever was."""
        return max((getattr(fact, "wall", 0.0) for fact in self.deck.facts), default=0.0)

    def notes(self, unreachable: str = "") -> list[str]:
        """What the user should know of it, a line each. *unreachable*: why the engine that there is cannot be asked."""
        deck = self.deck
        told = [unreachable or self.saying]
        left = sum(deck.standing(token) != "runs" for token in deck.deck.active)
        if left:
            told.append(f"what became of {left} that ran is not known yet: the next engine finds out")
        if deck.broken:
            why = first_of(deck.broken).removeprefix(os.path.join(os.path.dirname(self._place.path), ""))
            told.append(f"tasks are shown as the deck took them last: {why}")
        if deck.damage:
            told.append(f"deck.db is damaged ({deck.damage}): shown is what comes before that")
        return told

    def outdated(self) -> bool:
        """Whether anything that is shown may be other by now. Reads small files of what is under way, and the task file
        of a deck that was never started. Raises DeckError."""
        return self._stamped() != self._stamps or self._standing() != self._standings

    def _standing(self) -> Sequence[Standing]:
        """Of what is under way: what is killed with the process that watches it leaves no trace in files."""
        return [self.deck.standing(token) for token in self.deck.deck.active]

    def _stamped(self) -> Sequence[object]:
        state = self._state or find_state(self._place.path, self._place.options)
        looked_at = [] if state is None else [state.db, f"{state.db}-wal", state.lock, *_files_in(state.attempts)]
        return [_file_stamp(path) for path in (self._place.path, *looked_at)]

    def gpus(self) -> Sequence[GpuRow]:
        """Those that the deck has, or has used; nobody reads them."""
        ours = super().gpus()
        known = {gpu.uuid for gpu in ours}
        used = sorted((index, uuid) for uuid, index in self.deck.index_of.items() if uuid not in known)
        unread = (GpuRow(index=at, uuid=uuid, note="no engine reads it", note_kind="unread") for at, uuid in used)
        return (*ours, *unread)

    def metrics(self, known: Container[tuple[str, int]]) -> Iterator[list[LastProgress]]:
        """What the newest attempts of tasks reported last, some tasks at a time. Reads a small file for each (task,
        attempt) that is not *known*. May go on while another thread asks for answers."""
        tasks = self.deck.deck.tasks
        over = [(task.name, task.ended[-1].number) for task in tasks if task.ended and task.attempt() is None]
        wanted = [attempt for attempt in over if attempt not in known]
        for start in range(0, len(wanted), _AT_ONCE):
            yield self.reported(wanted[start : start + _AT_ONCE])

    def answer(self, op: str, args: Mapping[str, Any]) -> Any:
        """What an engine would answer to a request of READS. Raises UsageError."""
        if op == "show":
            return _sent([self._details(str(name)) for name in args.get("tasks", ())])
        return _sent(self.page(op, args))

    def _details(self, name: str) -> dict[str, Any]:
        if name not in self.deck.deck.by_name:
            raise UsageError(f"no task {name!r} in this deck")
        details = self.details(name)
        return {**details, "waits_for": details["waits_for"][1:]}


def _sent(result: Any) -> Any:
    """As a client gets it that asks an engine."""
    told = decode(encode(Reply(id=0, ok=True, result=result)))
    assert isinstance(told, Reply)
    return told.result


def _files_in(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    return []


def _file_stamp(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError as error:
        return error.errno
    return found.st_ino, found.st_size, found.st_mtime_ns


def can_be_shown(place: Place) -> bool:
    """Whether a deck that cannot be opened can be looked at."""
    with contextlib.suppress(DeckError, OSError):
        return bool(open_offline(place.path, place.options, place.environ).facts)
    return False
