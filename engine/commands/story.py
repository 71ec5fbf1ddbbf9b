"""What happens to a deck, told by its engine, as the messages that a headless run is told of."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from ..client.connection import Connection, Picture
from ..errors import DeckError, EngineUnavailableError
from ..logs.digest import digest
from ..logs.files import LogFolder
from ..protocol.jsonlines import event_name
from ..protocol.messages import (
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
)
from ..protocol.states import ACTIVE, FAILED, is_pending, shown_state
from ..protocol.wire import Event, GpuRow, TaskRow
from .rows import gpu_note

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
                yield _opened(picture, continued=began < self._since)
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
