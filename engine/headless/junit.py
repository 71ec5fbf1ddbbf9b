"""`--junit FILE`: one testcase for each task, named as the task."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator

from ..atomic import write_named
from ..errors import UsageError
from ..protocol.messages import DeckOpened, Message, RunFinished, SummaryRow, TaskEnded, TaskSettled, TaskStarted
from ..protocol.states import DONE, FAILED
from ..text import beside, log_line, printable

_REFERENCES = {ord(sign): f"&#{ord(sign)};" for sign in "&<>\"'"}


class JunitFile:
    """Written at `RunFinished`, all at once; without one when the output closes, with what is known by then.

    Raises UsageError when the file cannot be written there.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self.error = ""
        """Why the file could not be written at the end."""
        self._rows: dict[str, SummaryRow] = {}
        self._deck = "gpudeck"
        self._began_wall = 0.0
        self._wall_s = 0.0
        self._energy_wh: float | None = None
        self._written = False
        _check_place(self._path)

    def show(self, message: Message) -> None:
        match message:
            case DeckOpened():
                self._deck, self._began_wall = message.deck, message.wall
            case TaskStarted() | TaskEnded() | TaskSettled():
                self._rows[message.task] = _known(message)
                self._wall_s = message.at
            case RunFinished():
                self._rows = {row.task: row for row in message.rows}
                self._wall_s, self._energy_wh = message.wall_s, message.energy_wh
                self.close()
            case _:
                pass

    def close(self) -> None:
        """Write the file, once."""
        if self._written:
            return
        self._written = True
        document = "".join(junit_xml(self._deck, self._rows.values(), self._wall_s, self._began_wall, self._energy_wh))
        try:
            write_named(self._path, document.encode())
        except OSError as error:
            self.error = f"cannot write the JUnit file {self._path}: {error.strerror or error}"


def _known(message: TaskStarted | TaskEnded | TaskSettled) -> SummaryRow:
    if isinstance(message, TaskSettled):
        return SummaryRow(message.task, message.state, 0, (), None, message.why, "")
    if isinstance(message, TaskStarted):
        return SummaryRow(message.task, "running", message.attempt, message.gpus, None, "", message.log)
    ok = message.outcome == "ok"
    return SummaryRow(
        task=message.task,
        state=message.next,
        attempts=message.attempt,
        gpus=message.gpus,
        duration_s=message.duration_s,
        reason=message.reason,
        log=message.log,
        digest=() if ok else message.digest,
        kind="" if ok else message.kind,
    )


def junit_xml(
    deck: str, rows: Iterable[SummaryRow], wall_s: float, began_wall: float, energy_wh: float | None = None
) -> Iterator[str]:
    """The document, in pieces. What no reader can print, XML cannot carry either: it is shown as an escape."""
    rows = list(rows)
    failures = sum(row.state == "failed" for row in rows)
    errors = sum(row.state == "unknown" for row in rows)
    skipped = sum(row.state not in DONE for row in rows) - failures - errors
    counts = f'tests="{len(rows)}" failures="{failures}" errors="{errors}" skipped="{skipped}" time="{wall_s:.3f}"'
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(began_wall))
    yield '<?xml version="1.0" encoding="utf-8"?>\n'
    yield f'<testsuites {counts}>\n<testsuite name={_attribute(deck)} timestamp="{stamp}" {counts}>\n'
    if energy_wh is not None:
        yield f'<properties><property name="energy_wh" value="{energy_wh:.6g}"/></properties>\n'
    for row in rows:
        yield _testcase(deck, row)
    yield "</testsuite>\n</testsuites>\n"


def _testcase(deck: str, row: SummaryRow) -> str:
    head = f'<testcase classname={_attribute(deck)} name={_attribute(row.task)} time="{row.duration_s or 0:.3f}"'
    if row.state in DONE:
        return f"{head}/>\n"
    return f"{head}>\n{_verdict(row)}</testcase>\n"


def _verdict(row: SummaryRow) -> str:
    if row.state not in FAILED:
        said = row.reason
        if beside(row.state, said) == said:
            said = ": ".join(filter(None, (row.state, said)))
        return f"<skipped message={_attribute(said)}/>\n"
    tag = "failure" if row.state == "failed" else "error"
    lines = [printable(row.reason), printable(row.log), *map(log_line, row.digest)]
    text = "\n".join(lines).translate(_REFERENCES)
    kind = _attribute(row.kind or row.state)
    return f"<{tag} type={kind} message={_attribute(row.reason or row.state)}>{text}</{tag}>\n"


def _attribute(text: str) -> str:
    return f'"{printable(text).translate(_REFERENCES)}"'


def _check_place(path: str) -> None:
    folder = os.path.dirname(path)
    try:
        if not os.path.isdir(folder):
            os.makedirs(folder)
            print(f"gpudeck: --junit: made the folder {folder}", file=sys.stderr)
    except OSError as error:
        raise UsageError(f"--junit {path}: cannot make its folder: {error.strerror}") from error
    if os.path.isdir(path):
        raise UsageError(f"--junit {path}: this is a folder, name a file in it")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--junit {path}: {folder} is not writable")
