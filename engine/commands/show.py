"""`gpudeck show`: everything that is known of a task."""

from __future__ import annotations

import os
import shlex
import time
from typing import Any

from ..command import Command
from ..errors import UsageError
from ..headless.lines import Line
from ..headless.text import field_text, hhmmss, mib_text, printable, ranges
from ..logs.ran import other_command, words_in
from ..logs.record import read_record
from .look import look
from .place import Place
from .rows import names_text
from .screen import out, print_json


def run(command: Command) -> int:
    """Print one task. Raises UsageError where the words mean several."""
    found = look(Place.of(command))
    rows = found.rows(command.words)
    if not rows:
        raise UsageError(f"no task is {' or '.join(command.words)} now")
    if len(rows) > 1:
        raise UsageError(f"show takes one task, and that means {len(rows)}: {names_text([row.name for row in rows])}")
    details = found.details(rows[0].name)
    if command.flag("json"):
        print_json(details)
        return 0
    out().show(_lines(details))
    return 0


def _lines(task: dict[str, Any]) -> list[Line]:
    lines = [Line(" ".join([field_text(task["name"]), task["state"], *task["flags"]]), tone="bold")]
    fields = (
        ("entry", f"{task['entry']}" + (f"  (line {task['line']})" if task["line"] else "")),
        *_command(task),
        ("cwd", task["cwd"]),
        ("python", task["python"]),
        ("gpus", str(task["gpus"])),
        ("params", "  ".join(f"{key}={value}" for key, value in task["params"].items())),
        ("tags", " ".join(task["tags"])),
        ("needs", ", ".join(task["needs"])),
        ("after", ", ".join(task["after"])),
        ("needed by", ", ".join(task["needed_by"])),
        ("outputs", ", ".join(task["outputs"])),
        ("round", f"{task['round']}" + (f" of {task['group']}" if task["group"] else "") if task["round"] else ""),
        ("priority", _priority(task)),
        ("retries", f"{task['retries_used']} of {task['retries']} used" if task["retries"] else ""),
        ("retried", _retried(task)),
    )
    lines += [Line(f"  {name:<10}{printable(text)}") for name, text in fields if text]
    lines += _env(task["env"])
    lines += [Line(f"  {'waits for':<10}{field_text(text)}", tone="warn") for text in task["waits_for"]]
    lines += _running(task["running"])
    for attempt in reversed(task["attempts"]):
        lines += _attempt(attempt)
    return lines


def _command(task: dict[str, Any]) -> list[tuple[str, str]]:
    """What the task runs, and of a changed one what its newest attempt ran."""
    command = task["command"]
    text = command if isinstance(command, str) else shlex.join(command)
    if "changed" not in task["flags"]:
        return [("command", text)]
    fields = [("command", f"{text}  (as the file says now)")]
    if task["attempts"]:
        newest = task["attempts"][-1]
        ran = other_command(words_in(read_record(newest["json"])), command)
        fields.append(("ran", f"{ran}  (attempt {newest['number']})" if ran else ""))
    return fields


def _priority(task: dict[str, Any]) -> str:
    own, effective = task["priority"], task["effective_priority"]
    return f"{own}, counts as {effective} because of what waits for it" if own != effective else str(own or "")


def _retried(task: dict[str, Any]) -> str:
    """How it was asked for again by hand."""
    parts = [
        "fresh" if task["retried_fresh"] else "",
        *(f"{name}={value}" for name, value in task["retried_env"].items()),
        f"not on GPU {', '.join(task['retried_not_on'])}" if task["retried_not_on"] else "",
    ]
    return "  ".join(filter(None, parts))


def _env(env: dict[str, str | None]) -> list[Line]:
    texts = [f"{name}={value}" if value is not None else f"{name} is unset" for name, value in env.items()]
    return [Line(f"  {'env' if not at else '':<10}{printable(text)}") for at, text in enumerate(texts)]


def _running(running: dict[str, Any] | None) -> list[Line]:
    if running is None:
        return []
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(running["started"]))
    expected = f" of about {hhmmss(running['expected_s'])}" if running["expected_s"] else ""
    parts = [
        f"attempt {running['number']}",
        f"runs for {hhmmss(running['elapsed_s'])}{expected}",
        _gpus(running["gpus"]),
        f"since {began}",
        f"pid {running['pid']}" if running["pid"] else "",
    ]
    return [Line("  ".join(filter(None, parts)), tone="bold"), *_rung(running), *_files(running["log"], running["err"])]


def _attempt(attempt: dict[str, Any]) -> list[Line]:
    ok = attempt["kind"] == "ok"
    peak = f"peak {mib_text(attempt['peak_mib'])}" if attempt["peak_mib"] else ""
    reason = "ok" if ok else field_text(attempt["reason"])
    parts = [f"attempt {attempt['number']}", reason, hhmmss(attempt["duration_s"]), _gpus(attempt["gpus"]), peak]
    text = "  ".join(filter(None, parts))
    return [Line(text, tone="good" if ok else "bad"), *_rung(attempt), *_files(attempt["log"], attempt["err"])]


def _rung(attempt: dict[str, Any]) -> list[Line]:
    """What on_oom changed for it."""
    if not attempt.get("rung"):
        return []
    changes = "  ".join(attempt.get("rung_changes", ()))
    return [Line(f"  on_oom rung {attempt['rung']}" + (f": {field_text(changes)}" if changes else ""))]


def _gpus(gpus: list[int]) -> str:
    return f"gpu {ranges(gpus)}" if gpus else ""


def _files(log: str, err: str) -> list[Line]:
    """The logs that have something in them."""
    return [Line(f"  {printable(path)}", tone="dim") for path in dict.fromkeys((log, err)) if _size(path)]


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
