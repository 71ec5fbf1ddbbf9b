"""A command line, parsed: what the caller wants, still as words."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .taskfile.options import RunOptions


@dataclass(frozen=True, slots=True)
class Command:
    """Words of a command line by their meaning; nothing has been looked up yet."""

    verb: str
    """A command's name; run is what happens without one."""
    file: str | None = None
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    """--set and bare K=V."""
    words: tuple[str, ...] = ()
    """Selectors, and other bare words of commands that take no FILE there."""
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options by name, dashes as underscores."""

    def flag(self, name: str) -> bool:
        return bool(self.given.get(name))

    def options(self) -> RunOptions:
        given = self.given
        return RunOptions(
            set=self.values,
            profile=given.get("profile"),
            name=given.get("name"),
            only=tuple(given.get("only") or ()),
            exclude=tuple(given.get("exclude") or ()),
            with_needs=self.flag("with_needs"),
            limit=given.get("limit"),
            gpus=given.get("gpus"),
            slots_per_gpu=given.get("slots_per_gpu"),
            log_dir=_absolute(given.get("log_dir")),
            skip_existing=given.get("skip_existing"),
            halt=given.get("halt"),
            fail_fast=self.flag("fail_fast"),
            backend=given.get("backend"),
        )


def _absolute(path: str | None) -> str | None:
    """Later engines keep it, wherever they are started."""
    return os.path.abspath(os.path.expanduser(path)) if path else path


@dataclass(frozen=True, slots=True)
class NewTask:
    """A command to add, with what `gpudeck add` takes."""

    command: str | Sequence[str]
    """Words are executed as they are; text is a line for bash."""
    name: str = ""
    """"": made from the command."""
    gpus: int | str | None = None
    """How many, or "all"; None: one."""
    gpu_memory: str | None = None
    """ "24GiB": it shares a GPU with others that fit beside it."""
    cpus: int | None = None
    timeout: str | None = None
    """ "2h", "30m"."""
    priority: int | None = None
    round: int | None = None
    needs: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | os.PathLike[str] | None = None
    """None: the current folder."""
    next: bool = False
    """Before all that waits, in the user's other decks, too."""
    now: bool = False
    """In the place of what runs and can go on from its checkpoint later."""
    params: Mapping[str, object] = field(default_factory=dict[str, object])
    """What it is tried with: `{"lr": 0.1, "seed": 3}`. `{lr}` in the command is its value; results and comparisons know
    the task by them."""
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other keys of a task, as `gpudeck add --set` takes them: `{"retries": "2"}`."""

    def as_command(self) -> Command:
        """What would be typed."""
        words = (self.command,) if isinstance(self.command, str) else tuple(self.command)
        numbers = {"gpu_count": self.gpus, "cpus": self.cpus, "priority": self.priority, "round": self.round}
        given: dict[str, Any] = {name: str(value) for name, value in numbers.items() if value is not None}
        given |= {"gpu_memory": self.gpu_memory, "timeout": self.timeout, "next": self.next, "now": self.now}
        given |= {"task_name": self.name or None, "needs": list(self.needs)}
        given |= {"cwd": None if self.cwd is None else os.fspath(self.cwd)}
        given |= {"env": _pairs(self.env), "params": self.params or None, "keys": _pairs(self.keys)}
        return Command("add", words=words, given=given)


def _pairs(values: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in values.items()]
