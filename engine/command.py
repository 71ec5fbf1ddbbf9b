"""A command line, parsed: what the caller wants, still as words."""

from __future__ import annotations

import os
from collections.abc import Mapping
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
