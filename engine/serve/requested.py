"""What requests carry, and the tasks that their selectors mean."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import msgspec

from ..core.deck import Deck, Task
from ..core.selector import nothing_matches, parse_selector
from ..core.subject import subject
from ..errors import UsageError
from ..taskfile.kinds import LARGEST


class NoArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class SelectArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    select: tuple[str, ...]
    """SEL: names and globs, added up; state:failed, tag:x, lr=0.1, … narrow."""


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
    set: dict[str, str] = {}
    """Values of variables in the place of the file's, as `--set` has them."""
    dry_run: bool = False
    """Only say what `set` would change."""
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


class OfferArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    whole: bool = False
    """GPUs that nothing else of the deck is on then; else a slot will do."""


class PreemptArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: tuple[str, ...]
    """Of attempts, as one of the places has them."""
    by: str
    """The task that takes the place."""


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


_PORTION = 500
"""Tasks that are looked at without letting anything else happen: some milliseconds."""


def select(deck: Deck, texts: Sequence[str], index_of: Mapping[str, int]) -> list[Task]:
    """Tasks that *texts* mean together, in file order. *index_of*: GPUs by UUID.

    Raises UsageError for a name, tag or param that no task has; that no task is in a state now is an answer.
    """
    return [task for portion in _select(deck, texts, index_of) for task in portion]


async def select_in_turns(deck: Deck, texts: Sequence[str], index_of: Mapping[str, int]) -> list[Task]:
    """The same, while other work of the loop goes on between portions of a large deck."""
    import asyncio  # who looks without an engine starts faster without it

    found: list[Task] = []
    for portion in _select(deck, texts, index_of):
        found += portion
        await asyncio.sleep(0)
    return found


def _select(deck: Deck, texts: Sequence[str], index_of: Mapping[str, int]) -> Iterator[list[Task]]:
    names = [deck.by_name.get(text) for text in texts]
    if all(names):  # nothing but names: there is nothing to look for
        yield sorted(dict.fromkeys(filter(None, names)), key=lambda task: task.index)
        return
    selector = parse_selector(texts, deck.by_name)
    missing = [term for term in selector.conditions if not term.needs_history]
    for start in range(0, len(deck.tasks), _PORTION):
        found: list[Task] = []
        for task in deck.tasks[start : start + _PORTION]:
            seen = subject(deck, task, index_of)
            if selector.matches(seen):
                found.append(task)
            missing = [term for term in missing if not term.is_in(seen)]
        yield found
    if missing:
        raise UsageError(nothing_matches(missing[0].text, (task.spec for task in deck.tasks)))


def is_left_out(task: Task) -> bool:
    """The run does not take it up."""
    return not (task.selected or task.gone or task.attempt())


def refuse_left_out(tasks: Sequence[Task]) -> None:
    """Raises UsageError where a run that goes on takes up none of them."""
    if tasks and all(map(is_left_out, tasks)):
        name = tasks[0].name
        raise UsageError(
            f"{name} is left out of this run (--only, --exclude or --limit): "
            f"once it has ended, `gpudeck retry {shlex.quote(name)}` runs it"
        )
