"""What there is to say of a task and of an attempt, made of an answer to `show`: commands and screen print the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..text import command_text, pairs_text

Field = tuple[str, str]
"""A label, and what stands behind it."""


def task_fields(task: Mapping[str, Any]) -> list[Field]:
    """What a task is, without what is empty; its command, its environment and the tasks that it waits for apart."""
    own, counts = task["priority"], task["effective_priority"]
    resume = task.get("resume")
    memory = f"  ({task['gpu_memory']})" if task.get("gpu_memory") else ""
    fields = (
        ("entry", task["entry"] + (f"  (line {task['line']})" if task["line"] else "")),
        ("params", "  ".join(f"{key}={value}" for key, value in task["params"].items())),
        ("tags", " ".join(task["tags"])),
        ("gpus", f"{task['gpus']}{memory}"),
        ("cwd", task["cwd"]),
        ("python", task["python"]),
        ("round", f"{task['round']}" + (f" of {task['group']}" if task["group"] else "") if task["round"] else ""),
        ("priority", f"{own}, counts as {counts} because of what waits for it" if own != counts else str(own or "")),
        ("retries", f"{task['retries_used']} of {task['retries']} used" if task["retries"] else ""),
        ("retried", _retried(task)),
        ("goes on", f"with {command_text(resume)}" if resume not in (None, task["command"]) else ""),
        ("outputs", ", ".join(task["outputs"])),
        (
            "terminal",
            f"`gpudeck attach {task['name']}` sits down at it" if task.get("on_terminal") and task["running"] else "",
        ),
    )
    return [(label, text) for label, text in fields if text]


def _retried(task: Mapping[str, Any]) -> str:
    """How it was asked for again by hand."""
    given, env = pairs_text(task.get("given", {})), pairs_text(task["retried_env"])
    parts = [
        f"with {given} in the place of the file's" if given else "",
        f"with {env} in its environment" if env else "",
        "from the beginning" if task["retried_fresh"] else "",
        f"not on GPU {', '.join(task['retried_not_on'])}" if task["retried_not_on"] else "",
    ]
    return ", ".join(filter(None, parts))


def env_lines(env: Mapping[str, str | None]) -> list[str]:
    return [f"{name}={value}" if value is not None else f"{name} is unset" for name, value in env.items()]


RUNGS = (("on_oom", "rung"), ("on_timeout", "timeout_rung"))


def change_fields(attempt: Mapping[str, Any]) -> list[Field]:
    """What its cards, on_oom and on_timeout have changed for an attempt: ("on_oom", "rung 2: --bs 16")."""
    profile, *on_card = attempt.get("gpu_profile") or ("",)
    rungs = [f"{key} rung {number}" for key, field in RUNGS if (number := attempt.get(field))]
    key, _, rung = ", ".join(rungs).partition(" ")
    found = (("gpu_profile", profile, on_card), (key, rung, attempt.get("rung_changes", ())))
    return [(label, ": ".join(filter(None, (name, "  ".join(how))))) for label, name, how in found if name]
