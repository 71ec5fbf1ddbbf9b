"""`gpudeck wait`: returns when tasks have come to an end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from ...engine.client.attach import has_engine
from ...engine.client.connection import Connection, Gone, SaidGoodbye
from ...engine.client.place import Place, say
from ...engine.command import Command
from ...engine.errors import EngineUnavailableError
from ...engine.protocol.states import DONE
from ...engine.protocol.wire import Bye, TaskRow
from ...engine.text import field_text, names_text
from .rows import may_change, plain
from .screen import option_s, print_json

TIMED_OUT = 124
_AFTER_GOODBYE_S = 5.0
"""How long the next engine is waited for when one has ended (a service that is started again)."""
_AFTER_CRASH_S = 15.0
"""The same when one was killed: systemd starts the next one after ten seconds."""
_LOOK_S = 0.1
_End = tuple[int, Sequence[TaskRow]]
"""The exit code, and how the tasks stand."""


def run(command: Command) -> int:
    """Returns 0 when all succeeded or were done earlier, 1 when not, 3 when only another machine can tell, 124 when the
    time is over."""
    code, rows = _run(command)
    if command.flag("json"):
        rest = [row for row in rows if row.state not in DONE]
        print_json({"exit_code": code, "done": len(rows) - len(rest), "rest": [plain(row) for row in rest]})
    return code


def _run(command: Command) -> _End:
    timeout_s = option_s("--timeout", command.given.get("timeout"))
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    place = Place.of(command)
    held = has_engine(place.path, place.options)
    connection = place.attach()
    if held and connection is None:  # it was killed while it was being asked
        connection = _next_engine(place, _AFTER_CRASH_S, deadline)
    while connection is not None:
        with connection:
            try:
                return _wait(place, connection, command.words, deadline)
            except Gone as gone:
                patience_s = _AFTER_GOODBYE_S if gone.goodbye else _AFTER_CRASH_S
        connection = _next_engine(place, patience_s, deadline)
    from ...engine.serve.offline import offline_look

    found = offline_look(place)
    rows = _counted(found.rows(command.words))
    if found.deck.elsewhere and any(row.state not in DONE for row in rows):
        return EngineUnavailableError.exit_code, rows
    return _verdict(rows, settled=False), rows


def _counted(rows: Sequence[TaskRow]) -> Sequence[TaskRow]:
    """What has left the task file counts for nothing, unless nothing else is meant."""
    return [row for row in rows if not row.gone] or rows


def _next_engine(place: Place, patience_s: float, deadline: float | None) -> Connection | None:
    until = time.monotonic() + patience_s
    until = until if deadline is None else min(until, deadline)
    while time.monotonic() < until:
        if (connection := place.attach()) is not None:
            return connection
        time.sleep(_LOOK_S)
    return None


def _wait(place: Place, connection: Connection, selectors: Sequence[str], deadline: float | None) -> _End:
    chosen: set[str] = set(connection.request("select", select=list(selectors))) if selectors else set()
    told = ""
    while True:
        picture = connection.picture
        if picture is None or not picture.whole:
            picture = connection.wait_for_picture()
        rows = _counted(
            [row for row in picture.rows.values() if row.name in chosen or (not chosen and not row.left_out)]
        )
        open_ = [row for row in rows if may_change(row, ended=picture.head.ended)]
        if not open_:
            return _verdict(rows, settled=True), rows
        told = _tell_standstill(place, open_, picture.head.paused, told)
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            say(f"{_counts(open_)} after the time given")
            return TIMED_OUT, rows
        if isinstance(message := next(connection.messages(left), None), Bye):
            raise SaidGoodbye(f"the engine has ended: {message.why}")


def _tell_standstill(place: Place, rows: Sequence[TaskRow], paused: str, told: str) -> str:
    """Say once that only a user can end the waiting."""
    held = sum(row.held for row in rows)
    waits = all(row.state in ("waiting", "queued") for row in rows)
    text = "the deck is paused: `gpudeck unpause`" if paused and waits else ""
    if not text and held == len(rows) and waits:
        text = "only held tasks are left: `gpudeck release SEL`"
    if text and text != told:
        place.say(f"waiting, but {text}")
    return text


def _verdict(rows: Sequence[TaskRow], *, settled: bool) -> int:
    bad = [row for row in rows if row.state not in DONE]
    if not bad:
        return 0
    names = field_text(names_text([row.name for row in bad]))
    say(f"{_counts(bad)}: {names}" + ("" if settled else "; without an engine nothing of that changes"))
    return 1


def _counts(rows: Sequence[TaskRow]) -> str:
    return ", ".join(f"{count} {state}" for state, count in Counter(row.state for row in rows).items())
