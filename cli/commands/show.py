"""`gpudeck show`: everything that is known of a task."""

from __future__ import annotations

import time
from typing import Any

from ...engine.attempts.record import (
    energy_text,
    git_text,
    is_simulated,
    otherwise_text,
    ran_otherwise,
    read_record,
)
from ...engine.client.place import Place
from ...engine.command import Command
from ...engine.errors import UsageError
from ...engine.headless.painted import Line
from ...engine.logs.files import size_of
from ...engine.protocol.describe import change_fields, env_lines, task_fields
from ...engine.protocol.words import job_text
from ...engine.text import (
    command_text,
    duration,
    field_text,
    mib_text,
    names_text,
    plural,
    printable,
    ranges,
)
from .look import look, some_rows
from .rows import hint_line
from .screen import out, print_json

_OTHERS = (("needs", "needs"), ("after", "after"), ("needed by", "needed_by"))


def run(command: Command) -> int:
    """Print one task. Raises UsageError where the words mean several."""
    place = Place.of(command)
    found = look(place)
    rows = some_rows(found, command.words)
    if len(rows) > 1:
        raise UsageError(f"show takes one task, and that means {len(rows)}: {names_text([row.name for row in rows])}")
    details = found.details(rows[0].name)
    if command.flag("json"):
        print_json(details)
        return 0
    out(command, place.hints).show(_lines(details))
    return 0


def _lines(task: dict[str, Any]) -> list[Line]:
    lines = [Line(" ".join([field_text(task["name"]), task["state"], *task["flags"]]), tone="bold")]
    needs = [(word, ", ".join(task[name])) for word, name in _OTHERS]
    fields = [*_command(task), *_launch(task), *task_fields(task), *needs]
    lines += [Line(f"  {label:<10}{printable(text)}") for label, text in fields if text]
    env = env_lines({**task["env"], **(task["launch"]["env"] if task.get("launch") else {})})
    lines += [Line(f"  {'env' if not at else '':<10}{printable(text)}") for at, text in enumerate(env)]
    lines += [Line(f"  {'waits for':<10}{field_text(text)}", tone="warn") for text in task["waits_for"]]
    lines += _running(task["running"])
    for attempt in reversed(task["attempts"]):
        lines += _attempt(attempt)
    return lines


def _command(task: dict[str, Any]) -> list[tuple[str, str]]:
    """What the task runs, and of a changed one what its newest attempt ran."""
    text = command_text(task["command"])
    ran = "" if task["running"] else ran_otherwise(task)  # what runs executes the command above
    if not ran and "changed" not in task["flags"]:
        return [("command", text)]
    fields = [("command", f"{text}  ({'as it would run' if task.get('given') else 'as the file says'} now)")]
    return [*fields, *([("ran", f"{ran}  (attempt {task['attempts'][-1]['number']})")] if ran else [])]


def _launch(task: dict[str, Any]) -> list[tuple[str, str]]:
    """What starts its processes, ready for a shell."""
    launch, image = task.get("launch"), task.get("image")
    inside = [("image", f"{image}  (in {task['container']})")] if image else []
    if not launch:
        return inside
    return [*inside, ("launch", plural(launch["ranks"], "rank")), ("executes", command_text(launch["command"]))]


def _running(running: dict[str, Any] | None) -> list[Line]:
    if running is None:
        return []
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(running["started"]))
    expected = f" of about {duration(running['expected_s'])}" if running["expected_s"] else ""
    doing = f"runs for {duration(running['elapsed_s'])}{expected}"
    if running.get("pending"):
        why = f" ({field_text(running['pending_why'])})" if running["pending_why"] else ""
        doing = f"pending for {duration(running['elapsed_s'])}{why}"
    record = read_record(running["json"])
    parts = [
        f"attempt {running['number']}",
        doing,
        _place(running, record),
        field_text(running.get("mixed", "")),
        f"since {began}",
        f"pid {running['pid']}" if running["pid"] else "",
    ]
    return [Line("  ".join(filter(None, parts)), tone="bold"), *_left(running, record)]


def _attempt(attempt: dict[str, Any]) -> list[Line]:
    ok, record = attempt["kind"] == "ok", read_record(attempt["json"])
    parts = [
        f"attempt {attempt['number']}",
        f"done as {field_text(attempt['done_as'])}" if attempt["done_as"] else "",
        "ok" if ok else field_text(attempt["reason"]),
        duration(attempt["duration_s"]),
        _place(attempt, record),
        f"peak {mib_text(attempt['peak_mib'])}" if attempt["peak_mib"] else "",
        energy_text(record.get("end") or {}),
    ]
    hint = [hint_line(attempt["hint"])] if attempt.get("hint") else []
    return [Line("  ".join(filter(None, parts)), tone="good" if ok else "bad"), *hint, *_left(attempt, record)]


def _left(attempt: dict[str, Any], record: dict[str, Any]) -> list[Line]:
    """What was changed for it, the copy of the code that it ran, as its attempt-N.json tells, and what it has written;
    the script that a cluster was given."""
    otherwise = otherwise_text(record)
    told = (*((("with", otherwise),) if otherwise else ()), *change_fields(attempt))
    changes = [Line(f"  {field_text(f'{label} {text}')}") for label, text in told]
    copy = f"{record['snapshot']}  (commit {git_text(record.get('git'))})" if record.get("snapshot") else ""
    paths = dict.fromkeys((attempt["log"], attempt["err"], attempt.get("script", "")))
    return [*changes, *(Line(f"  {printable(text)}", tone="dim") for text in (copy, *filter(size_of, paths)) if text)]


def _place(attempt: dict[str, Any], record: dict[str, Any]) -> str:
    """ "gpu 0-3", "SIM 0-3" of simulated ones, "job 1234 on node[1-2]"."""
    if attempt.get("job"):
        return field_text(job_text(attempt["job"], attempt.get("nodes", ())))
    return f"{'SIM' if is_simulated(record) else 'gpu'} {ranges(attempt['gpus'])}" if attempt["gpus"] else ""
