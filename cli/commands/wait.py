"""`gpudeck wait`: returns when tasks have come to an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...engine.client.place import Place, say
from ...engine.command import Command
from ...engine.errors import EngineUnavailableError
from ...engine.protocol.states import ACTIVE
from ...engine.protocol.wire import TaskRow
from ...engine.text import field_text, names_text
from ...engine.waiting import Waited, wait
from .rows import plain
from .screen import option_s, print_json

TIMED_OUT = 124


def run(command: Command) -> int:
    """Returns 0 when all succeeded, were done earlier or pruned, 1 when not, 3 when only the next engine or another
    machine can tell, 124 when the time is over."""
    timeout_s = option_s("--timeout", command.given.get("timeout"))
    waited = wait(Place.of(command), command.words, timeout_s)
    code = _told(waited)
    if command.flag("json"):
        done = len(waited.rows) - len(waited.open)
        print_json({"exit_code": code, "done": done, "rest": plain(waited.open)})
    return code


def _told(waited: Waited) -> int:
    """The exit code; what is not well is said."""
    if waited.how == "time is over":
        say(f"{_counts(waited.left)} after the time given")
        return TIMED_OUT
    if waited.how == "elsewhere":
        return EngineUnavailableError.exit_code
    if not (bad := [row for row in waited.open if row.state != "pruned"]):
        return 0
    names = field_text(names_text([row.name for row in bad]))
    say(f"{_counts(bad)}: {names}{'' if waited.how == 'settled' else _left(bad)}")
    still_open = {row.name for row in waited.left} if waited.how == "no engine" else set[str]()
    return EngineUnavailableError.exit_code if all(row.name in still_open for row in bad) else 1


def _left(rows: Sequence[TaskRow]) -> str:
    """What becomes of them as long as no engine runs."""
    if any(row.state in ACTIVE for row in rows):
        return "; what runs goes on without an engine, and the next one takes in how it ends: `gpudeck start`"
    return "; without an engine nothing of that changes"


def _counts(rows: Sequence[TaskRow]) -> str:
    return ", ".join(f"{count} {state}" for state, count in Counter(row.state for row in rows).items())
