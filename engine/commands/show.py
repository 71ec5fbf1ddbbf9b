"""`gpudeck show`: everything that is known of a task."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..client.place import Place
from ..command import Command
from ..errors import UsageError
from ..headless.painted import Line
from ..logs.told import is_simulated, other_command, read_record, words_in
from ..protocol.words import nodes_text
from ..text import field_text, hhmmss, mib_text, names_text, plural, printable, ranges, wh_text
from .look import look
from .rows import hint_line
from .screen import out, print_json


def run(command: Command) -> int:
    """Print one task. Raises UsageError where the words mean several."""
    place = Place.of(command)
    found = look(place)
    rows = found.rows(command.words)
    if not rows:
        raise UsageError(f"no task is {' or '.join(command.words)} now")
    if len(rows) > 1:
        raise UsageError(f"show takes one task, and that means {len(rows)}: {names_text([row.name for row in rows])}")
    details = found.details(rows[0].name)
    if command.flag("json"):
        print_json(details)
        return 0
    out(place.hints).show(_lines(details))
    return 0


def _lines(task: dict[str, Any]) -> list[Line]:
    lines = [Line(" ".join([field_text(task["name"]), task["state"], *task["flags"]]), tone="bold")]
    fields = (
        ("entry", f"{task['entry']}" + (f"  (line {task['line']})" if task["line"] else "")),
        *_command(task),
        *_launch(task),
        ("cwd", task["cwd"]),
        ("python", task["python"]),
        ("gpus", str(task["gpus"]) + (f"  ({task['gpu_memory']})" if task.get("gpu_memory") else "")),
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
    lines += _env({**task["env"], **(task["launch"]["env"] if task.get("launch") else {})})
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


def _launch(task: dict[str, Any]) -> list[tuple[str, str]]:
    """What starts its processes, ready for a shell."""
    launch = task.get("launch")
    if not launch:
        return []
    return [("launch", plural(launch["ranks"], "rank")), ("executes", shlex.join(launch["command"]))]


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
    doing = f"runs for {hhmmss(running['elapsed_s'])}{expected}"
    if running.get("pending"):
        why = f" ({field_text(running['pending_why'])})" if running["pending_why"] else ""
        doing = f"pending for {hhmmss(running['elapsed_s'])}{why}"
    record = read_record(running["json"])
    parts = [
        f"attempt {running['number']}",
        doing,
        _place(running, record),
        field_text(running.get("mixed", "")),
        f"since {began}",
        f"pid {running['pid']}" if running["pid"] else "",
    ]
    files = [*_code(record), *_files(running["log"], running["err"], running.get("script", ""))]
    return [Line("  ".join(filter(None, parts)), tone="bold"), *_rung(running), *files]


def _attempt(attempt: dict[str, Any]) -> list[Line]:
    ok = attempt["kind"] == "ok"
    peak = f"peak {mib_text(attempt['peak_mib'])}" if attempt["peak_mib"] else ""
    record = read_record(attempt["json"])
    reason = "ok" if ok else field_text(attempt["reason"])
    parts = [
        f"attempt {attempt['number']}",
        reason,
        hhmmss(attempt["duration_s"]),
        _place(attempt, record),
        peak,
        _energy(record),
    ]
    text = "  ".join(filter(None, parts))
    files = [*_code(record), *_files(attempt["log"], attempt["err"], attempt.get("script", ""))]
    hint = [hint_line(attempt["hint"])] if attempt.get("hint") else []
    return [Line(text, tone="good" if ok else "bad"), *hint, *_rung(attempt), *files]


def _code(record: Mapping[str, Any]) -> list[Line]:
    """The copy of the code that it ran, as its attempt-N.json tells."""
    git: dict[str, Any] = record.get("git") or {}
    if not record.get("snapshot"):
        return []
    changes = " with changes that are not committed" if git.get("dirty") else ""
    return [Line(f"  {printable(record['snapshot'])}  (commit {git.get('commit', '')[:10]}{changes})", tone="dim")]


def _energy(record: Mapping[str, Any]) -> str:
    """As its attempt-N.json tells."""
    end: dict[str, Any] = record.get("end") or {}
    energy_wh, power_w = end.get("energy_wh"), end.get("mean_power_w")
    if energy_wh is None or power_w is None:
        return ""
    return f"{wh_text(energy_wh)} (mean {power_w:.0f} W)"


def _rung(attempt: dict[str, Any]) -> list[Line]:
    """What its cards and on_oom changed for it."""
    lines: list[Line] = []
    profile, *on_card = attempt.get("gpu_profile") or ("",)
    if profile:
        lines.append(_changed(f"gpu_profile {profile}", on_card))
    if attempt.get("rung"):
        lines.append(_changed(f"on_oom rung {attempt['rung']}", attempt.get("rung_changes", ())))
    return lines


def _changed(by: str, changes: Sequence[str]) -> Line:
    return Line(f"  {field_text(by)}" + (f": {field_text('  '.join(changes))}" if changes else ""))


def _place(attempt: dict[str, Any], record: Mapping[str, Any]) -> str:
    """ "gpu 0-3", "SIM 2" of simulated ones, "job 1234 on node[1-2]"."""
    gpus, nodes = attempt["gpus"], attempt.get("nodes", ())
    if attempt.get("job"):
        return f"job {attempt['job']}" + (f" on {field_text(nodes_text(nodes))}" if nodes else "")
    return f"{'SIM' if is_simulated(record) else 'gpu'} {ranges(gpus)}" if gpus else ""


def _files(*paths: str) -> list[Line]:
    """The logs, and the script that a cluster was given, that have something in them."""
    return [Line(f"  {printable(path)}", tone="dim") for path in dict.fromkeys(paths) if path and _size(path)]


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
