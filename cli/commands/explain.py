"""`gpudeck explain`: why a task waits."""

from __future__ import annotations

import time

from ...engine.client.place import Place
from ...engine.command import Command
from ...engine.headless.painted import Line
from ...engine.protocol.states import ACTIVE, DONE, is_pending
from ...engine.protocol.wire import TaskRow
from ...engine.text import duration, field_text
from .look import Look, look, some_rows
from .rows import gpu_text, is_text, place_text, stop_text, time_text
from .screen import out, print_json


def run(command: Command) -> int:
    """Print every obstacle of each task, or what it does or has done instead of waiting."""
    place = Place.of(command)
    found = look(place)
    rows = some_rows(found, command.words)
    told = [(row, _told(found, row)) for row in rows]
    if command.flag("json"):
        print_json([{"name": row.name, "state": row.state, "obstacles": why} for row, why in told])
        return 0
    lines: list[Line] = []
    for row, why in told:
        if why:
            lines.append(Line(f"{field_text(row.name)} {_state(row)}{_first(found, row)}:", tone="bold"))
            lines += [Line(f"  {field_text(text)}") for text in (*why, *_mended(found, row))]
        else:
            lines.append(Line(f"{field_text(row.name)} {field_text(_instead(row) + _mixed(found, row))}"))
    out(command, place.hints).show(lines)
    return 0


def _told(found: Look, row: TaskRow) -> list[str]:
    waits = row.state in ("waiting", "queued", "backoff", "blocked", "starting") or row.left_out
    return found.explain(row.name) if waits else []


def _mended(found: Look, row: TaskRow) -> list[str]:
    """How a task comes to start that does not by itself."""
    if row.state != "blocked":
        return []
    blockers = found.blockers(row.name)
    behind = [other for other in found.rows(()) if other.name in blockers]
    again = [other.name for other in behind if other.state in ("failed", "cancelled", "pruned")]
    return (
        [f"`gpudeck retry {' '.join(again)}` runs that again; it starts by itself once all has succeeded"]
        if again
        else []
    )


def _state(row: TaskRow) -> str:
    if is_pending(row) and row.job:
        return f"is pending: attempt {row.attempt}, job {row.job}, submitted {_ago(row)} ago"
    held = " and is held" if row.state == "backoff" else " and held"
    return is_text(row) + held * row.held


def _first(found: Look, row: TaskRow) -> str:
    """Nothing else that is to start is as urgent, nor asks that of what it waits for."""
    if row.state != "queued" or row.held:
        return ""
    others = [each.priority for each in found.rows(()) if each.state in ("queued", "waiting") and each.name != row.name]
    return ", first in line" if others and row.priority > max(others) else ""


def _ago(row: TaskRow) -> str:
    return duration(max(0.0, time.time() - row.started)) if row.started is not None else "a while"


def _mixed(found: Look, row: TaskRow) -> str:
    """A warning where it runs on GPUs of several models."""
    if len(row.gpus) < 2 or row.state not in ACTIVE:
        return ""
    running = found.details(row.name).get("running")
    mixed = running.get("mixed", "") if running else ""
    return f"; {mixed}" if mixed else ""


def _outdated(row: TaskRow) -> str:
    """What is to know of a result that is not of now."""
    kinds = (
        (row.changed, "its result is of other work than the file says now (changed)"),
        (row.stale, "what it builds on ran again after it (stale)"),
    )
    if not (why := " and ".join(text for holds, text in kinds if holds)):
        return ""
    return f"; {why}: `gpudeck retry {row.name}` runs it again, `gpudeck accept {row.name}` keeps its result"


def _instead(row: TaskRow) -> str:
    """What a task does that does not wait."""
    if row.state in ACTIVE:
        place = f" as {place_text(row)}" if row.job else f" on GPU {gpu_text(row)}" if row.gpus else ""
        why = f": {stop}" if (stop := stop_text(row)) else ""
        if row.state == "running":
            return f"does not wait: attempt {row.attempt} has been running{place} for {time_text(row)}"
        return f"does not wait: attempt {row.attempt} is {row.state}{place}, {time_text(row)} after it began{why}"
    if row.state == "unknown":
        why = f" ({row.reason})" if row.reason else ""
        return (
            f"keeps its slots: what became of attempt {row.attempt} cannot be proven{why}; "
            f"`gpudeck cancel {row.name}` says that it is gone, `gpudeck retry {row.name}` runs it again"
        )
    if row.gone:
        return f"is {row.state}, and not in the task file any more: nothing runs it again"
    if row.state in DONE:
        earlier = f"was {row.reason or 'done earlier'}"
        done = earlier if row.state == "cached" else f"has succeeded: attempt {row.attempt}, {time_text(row)}"
        return done + _outdated(row)
    if row.state == "cancelled":
        return f"was cancelled: `gpudeck retry {row.name}` runs it again"
    if row.state == "pruned":
        again = f"`gpudeck retry {row.name}` runs it again, from its checkpoint if it has one"
        return f"was {row.reason or 'pruned'}: {again}, and judges it at the next point only"
    if row.state == "failed":
        return f"has failed ({row.reason}): `gpudeck retry {row.name}` runs it again"
    return f"is {row.state}: it starts with the next turn"
