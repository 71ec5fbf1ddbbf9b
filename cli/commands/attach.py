"""`gpudeck attach`, and `gpudeck` without a command: follows a deck until its run ends. Ctrl-C leaves, no more."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ...engine.adapters import host
from ...engine.client.connection import Connection, Gone
from ...engine.client.files import queue_file, queue_home
from ...engine.client.place import Place, say
from ...engine.command import Command
from ...engine.errors import DeckError, EngineUnavailableError, UsageError
from ...engine.headless.output import HeadlessOptions, WatchOutput
from ...engine.logs.digest import digest
from ...engine.logs.files import LogFolder
from ...engine.protocol.jsonlines import event_name
from ...engine.protocol.messages import (
    DeckOpened,
    GpuLine,
    Message,
    Note,
    RunFinished,
    RunningTask,
    Status,
    SummaryRow,
    TaskEnded,
    TaskSettled,
    TaskStarted,
    TaskSubmitted,
    reworded,
)
from ...engine.protocol.picture import Picture
from ...engine.protocol.states import ACTIVE, ENDED, FAILED, YET_TO_START, is_pending, shown_state
from ...engine.protocol.wire import Event, GpuRow, TaskRow
from ...engine.protocol.words import counts_text
from ...engine.taskfile.options import RunOptions
from ...engine.text import names_text
from .look import LiveLook
from .rows import gpu_note, is_text

_BROKEN_PIPE = 141


def run(command: Command) -> int:
    """Follow the deck's engine. Returns the exit code of the run, 130 after Ctrl-C."""
    if command.words:
        return _sit_down(command)
    place = Place.of(command)
    connection = place.attach()
    if connection is None:
        place.refuse_elsewhere()
        _, names = _queue()
        sits = f"; `gpudeck attach {names[0]}` sits down at {names[0]} of your queue" if names else ""
        shows = "`gpudeck` starts one, `gpudeck status` shows the deck"
        raise EngineUnavailableError(f"no engine runs this deck: {shows}{sits}")
    place.tell_environment()
    return _follow(place, connection, HeadlessOptions(), time.time())


def _sit_down(command: Command) -> int:
    """At the terminal of a command that `gpudeck run -i` runs. Returns its exit code, as that does; 0 where it goes
    on."""
    from ...engine.runs.engines import Asked, Engines
    from .run import Follower
    from .terminal import has_terminal, refuse_no_terminal

    name, *others = command.words
    if others:
        raise UsageError(f"attach takes one task, got {', '.join(command.words)}")
    state = _state_of_queue()
    if state is None or not has_terminal(state, name):
        raise _no_terminal(name)
    refuse_no_terminal()
    if any(row.name == name and row.state == "stopping" for row in _queue()[0]):
        say(f"{name} is being stopped")
    as_root = command.flag("as_root")
    home = queue_home(as_root=as_root)
    engines = Engines(home, os.environ, simulated=None, as_root=as_root, on_cpu=True)
    with Asked() as asked:
        return Follower(home, name, engines, asked, say, terminal=True).follow(engines.take(name, say))


def _no_terminal(name: str) -> UsageError:
    rows, names = _queue()
    why = f"{name}: no command of this name runs on a terminal of `gpudeck run -i`"
    meant = next((row for row in rows if row.name == name), None)
    if meant is not None and meant.state in YET_TO_START:
        why = f"{name} {is_text(meant)}: its terminal opens as it starts; `gpudeck explain {name} --queue` says why"
    elif meant is not None and meant.state in ENDED:
        return UsageError(f"{name} {is_text(meant)}: `gpudeck retry --queue {name}` starts it again")
    return UsageError(f"{why}; {names_text(names)} {'does' if len(names) == 1 else 'do'}" if names else why)


def _queue() -> tuple[Sequence[TaskRow], Sequence[str]]:
    """The commands of the user's queue, and the names of those at whose terminals one can sit down."""
    from ...engine.serve.offline import offline_look
    from .terminal import has_terminal

    state = _state_of_queue()
    if state is None:
        return (), ()
    place = Place(queue_file(), RunOptions(), os.environ)
    connection = place.attach()
    with connection or contextlib.nullcontext():
        rows = (LiveLook(connection) if connection is not None else offline_look(place, quiet=True)).rows(())
    return rows, [row.name for row in rows if row.state in ACTIVE and has_terminal(state, row.name)]


def _state_of_queue() -> str | None:
    from ...engine.decks.states import find_state

    path = queue_file()
    state = find_state(path, RunOptions()) if os.path.isfile(path) else None
    return None if state is None else state.path


def run_or_attach(command: Command) -> int:
    """What `gpudeck FILE` does: an engine runs the deck, started if there is none, and is followed."""
    place = Place.of(command)
    place.refuse_missing(command.file)
    if not sys.stdout.isatty():
        raise UsageError(
            "there is no terminal here: `gpudeck --headless` runs the deck, a line per event, `gpudeck start` in the "
            "background"
        )
    for name in ("json", "junit", "retry_cancelled"):
        if command.given.get(name):
            raise UsageError(f"--{name.replace('_', '-')} goes with --headless")
    since = time.time()
    connection = place.start(takeover=command.flag("takeover"), quiet=True, change=True)
    pid = connection.hello.pid
    place.say(f"engine {pid} runs on when this ends; `gpudeck status` looks, `gpudeck stop` ends it; Ctrl-C leaves")
    return _follow(place, connection, output_options(command), since)


def output_options(command: Command) -> HeadlessOptions:
    """What it says about output."""
    return HeadlessOptions(
        check_interval_s=command.given.get("check_interval", 10.0),
        json=command.flag("json"),
        junit=command.given.get("junit"),
        verbose=command.flag("verbose"),
        quiet=command.flag("quiet"),
        color=not command.flag("no_color"),
    )


def _follow(place: Place, connection: Connection, options: HeadlessOptions, since: float) -> int:
    """*since*: what began before this time is not new to the caller."""
    pid = connection.hello.pid
    with connection:
        try:
            with WatchOutput(options, sys.stdout, os.environ, host.SystemClock()) as output:
                return _show(place, connection, output, since)
        except Gone as error:
            place.say(f"{error}; what runs goes on without an engine, `gpudeck` starts the next one")
            return EngineUnavailableError.exit_code
        except KeyboardInterrupt:
            goes_on = f"engine {pid} and its tasks go on"
            place.say(f"detached: {goes_on}; `gpudeck status` looks, `gpudeck stop` ends the engine")
            return 130


def _show(place: Place, connection: Connection, output: WatchOutput, since: float) -> int:
    for message in Story(connection, since).messages():
        output.show(reworded(message, place.hints.completed))
        if isinstance(message, RunFinished):
            return message.exit_code
        picture = connection.picture
        if picture is not None and picture.head.ended:
            output.close()
            counts = picture.head.counts
            ended = f"run {picture.head.run} has ended: {counts_text(counts)}; `gpudeck status` shows it"
            print(place.hints.completed(ended))
            return 0 if counts.all_well else 1
        if output.gone:
            return _BROKEN_PIPE
    raise AssertionError("an engine's story ends with its run, or with the engine")


STATUS_PERIOD_S = 1.0
_KINDS = {
    event_name(kind): kind
    for kind in (DeckOpened, TaskSubmitted, TaskStarted, TaskEnded, TaskSettled, Note, Status, RunFinished)
}
_FIELDS = {"at_s": "at", "unix_s": "wall", "left_behind_pids": "left_behind"}


def message_of(event: Mapping[str, Any]) -> Message | None:
    """The message that an event was made of; None for one that this version does not know."""
    kind = _KINDS.get(str(event.get("event")))
    if kind is None:
        return None
    fields = {_FIELDS.get(name, name): value for name, value in event.items() if name not in ("v", "event")}
    if kind is RunFinished:
        fields["rows"] = ()
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError:
        return None


class Story:
    """Follows one engine, from how the deck stands now."""

    def __init__(self, connection: Connection, since: float) -> None:
        """*since*: a run that began after this time (seconds since the epoch) is new to whoever follows it."""
        self._connection = connection
        self._since = since
        self._digests: dict[str, tuple[str, tuple[str, ...]]] = {}
        """Log and digest of failures that were told."""
        self._began = time.time()
        """When the run did, as far as that is known: times count from there."""

    def messages(self) -> Iterator[Message]:
        """How the deck stands, then what happens, and a `Status` each second. Ends never by itself: raises Gone."""
        connection = self._connection
        connection.watch(events=True)
        told: list[Message] = []
        opened, due = False, 0.0
        for item in connection.messages():
            if isinstance(item, Event) and (message := message_of(item.event)) is not None:
                told.append(message)
            picture = connection.picture
            if picture is None or not picture.whole:
                continue
            if not opened:
                opened = True
                began = picture.head.started
                self._began = began or self._began
                yield _opened(picture, continued=began < self._since and not picture.head.ended)
            while told:
                yield self._noted(told.pop(0), picture)
            if time.monotonic() >= due:
                due = time.monotonic() + STATUS_PERIOD_S
                yield self._status(picture)

    def _noted(self, message: Message, picture: Picture) -> Message:
        """Keeps what later messages need of this one, and brings in what events leave out."""
        at = getattr(message, "at", None)
        if at is not None:
            self._began = message.wall - at
        if isinstance(message, TaskEnded) and message.next == "failed":
            self._digests[message.task] = (message.telling or message.log, message.digest)
        if isinstance(message, RunFinished):
            # An engine that leaves its tasks behind ends well, but who followed it has not seen them through.
            code = message.exit_code or (0 if message.ended else EngineUnavailableError.exit_code)
            return replace(message, rows=self._rows(self._at_the_end(picture)), exit_code=code)
        return message

    def _at_the_end(self, picture: Picture) -> Picture:
        """Events are ahead of the rows: an answer comes behind both."""
        with contextlib.suppress(DeckError):
            self._connection.request("options")
        with contextlib.suppress(DeckError):
            return self._connection.wait_for_picture()
        return self._connection.picture or picture

    def _rows(self, picture: Picture) -> tuple[SummaryRow, ...]:
        head = picture.head
        logs = LogFolder(head.log_dir, (row.name for row in picture.rows.values()), head.former_log_dirs)
        return tuple(self._row(row, logs) for row in picture.rows.values() if not row.left_out)

    def _row(self, row: TaskRow, logs: LogFolder) -> SummaryRow:
        paths = logs.paths(row.name, row.attempt, False)
        log, lines = self._digests.get(row.name, (paths.out, ()))
        if row.state in FAILED and row.attempt and not lines:
            lines = digest(paths.err, paths.out)
        return SummaryRow(
            task=row.name,
            state=shown_state(row),
            attempts=row.attempt,
            gpus=row.gpus,
            duration_s=row.duration_s,
            reason=row.reason,
            log=log if row.attempt else "",
            digest=lines,
            job=row.job,
            nodes=row.nodes,
            kind="" if row.kind == "ok" else row.kind,
        )

    def _status(self, picture: Picture) -> Status:
        head, now = picture.head, time.time()
        return Status(
            counts=head.counts,
            running=tuple(
                _running(row, now) for row in picture.rows.values() if row.state in ACTIVE and not is_pending(row)
            ),
            gpus=tuple(_gpu_line(gpu) for gpu in picture.gpus),
            waiting_why=head.waiting_why,
            eta_s=head.eta_s,
            unmeasured=head.unmeasured,
            at=max(0.0, now - self._began),
            wall=now,
        )


def _gpu_line(gpu: GpuRow) -> GpuLine:
    if gpu.stale_since is not None:
        return GpuLine(gpu.index, gpu.tasks, None, None, gpu.total_mib, gpu_note(gpu))
    return GpuLine(gpu.index, gpu.tasks, gpu.util_percent, gpu.used_mib, gpu.total_mib, gpu.note)


def _running(row: TaskRow, now: float) -> RunningTask:
    elapsed_s = now - (row.started or now)
    return RunningTask(row.name, row.attempt, row.gpus, elapsed_s, _expected_s(row, now), "", row.job, row.nodes)


def _expected_s(row: TaskRow, now: float) -> float | None:
    """Of the whole attempt: what its own progress says goes before what others took."""
    if row.eta_s is not None and row.started is not None:
        return now - row.started + row.eta_s
    return row.expected_s


def _opened(picture: Picture, *, continued: bool) -> DeckOpened:
    head = picture.head
    warnings = [head.paused, f"halted by {head.halted}" if head.halted else "", head.unwritable, head.file_plan]
    return DeckOpened(
        deck=head.deck,
        file=head.file,
        run=head.run,
        continued=continued,
        gpus=(),
        slots=head.slots,
        simulated=head.simulated,
        counts=head.counts,
        log_dir=head.log_dir,
        warnings=tuple(filter(None, warnings)),
        wall=time.time(),
        backend=head.backend,
    )
