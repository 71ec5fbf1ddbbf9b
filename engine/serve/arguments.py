"""Arguments of what clients may ask, as they are checked; what belongs to one page alone is beside that."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ..taskfile.kinds import LARGEST


class NoArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class SelectArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    select: tuple[str, ...]
    """SEL: names, globs, state:failed, tag:x, …; what at least one of them means."""


class TasksArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tasks: tuple[str, ...]
    """Names of tasks."""
    by: str = "user"


class RetryArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tasks: tuple[str, ...]
    fresh: bool = False
    """Do not go on from where an earlier attempt came to."""
    downstream: bool = False
    """Also what needs them, when they have succeeded."""
    env: dict[str, str | None] = {}
    """Over the task's own; null unsets."""
    not_on: tuple[str, ...] = ()
    """Indices or UUIDs of GPUs."""
    changed: bool = False
    """As what the file now says: what has been done so already, under another name, is done."""
    by: str = "user"


class PriorityArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tasks: tuple[str, ...]
    value: Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
    by: str = "user"


class GpuArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    verb: str
    """drain, enable or take."""
    gpus: tuple[str, ...]


class PauseArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    by: str = "user"


class UndoArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    undo: str
    """What the reply to a request that changed something has under this name."""
    by: str = "user"


class StopArgs(msgspec.Struct, frozen=True):
    """Unknown fields are passed over: any client of any version may stop an engine."""

    tasks: bool = False
    now: bool = False
    by: str = ""
    """Who asks and how, as it is told; "": the command."""
