"""What a client asks to be taken back: what can be, and in words what cannot."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ..core.acts import Act, Moved, as_left
from ..core.deck import Deck, Task
from ..core.inputs import Verb
from ..core.phases import ACTIVE, FINAL
from ..errors import UsageError

_NAMED = 3
"""So many tasks are named for each reason; of more the number is told."""

_AT_ONCE = 2000
"""Tasks looked at in one turn of the loop."""

Take = Callable[[Verb], Awaitable[Any]]
"""Posts a verb and returns when it has been acted on."""


def new_act() -> str:
    """What a request that changes something is remembered as."""
    return os.urandom(6).hex()


@dataclass(frozen=True, slots=True)
class Undone:
    """What a client is told."""

    verb: str
    tasks: tuple[str, ...]
    """Taken back."""
    gpus: tuple[int, ...]
    left: dict[str, str]
    """What is not as the request left it any more, and why it was not touched."""
    text: str


class Undoing:
    """Of one deck. On the loop's thread."""

    def __init__(self, deck: Deck, take: Take) -> None:
        self._deck = deck
        self._take = take

    def can(self, act: str) -> str:
        """The act if it changed anything that can be taken back, else ""."""
        found = self._deck.acts.get(act)
        if found is None:
            return ""
        return act if found.tasks or found.gpus or found.verb in ("pause", "unpause") else ""

    async def undo(self, name: str, by: str) -> Undone:
        """Take back what is still as the request left it. Raises UsageError where there is no such request."""
        act = self._deck.acts.get(name)
        if act is None:
            raise UsageError("this cannot be taken back any more: too much has been asked for since")
        could, left = await self._sorted(act, name)
        marked = [uuid for uuid, one in act.gpus.items() if self._mark(uuid) == one.given != one.mark]
        paused = self._deck.paused
        verb = Verb("undo", tuple(task.name for task in could), by=by, act=name)
        await self._take(verb)
        done, back = tuple(verb.did), set(verb.did)
        left |= {task.name: self._why(act, task.name) for task in could if task.name not in back}
        gpus = tuple(self._deck.gpus[uuid].index for uuid in marked if self._mark(uuid) == act.gpus[uuid].mark)
        of_deck = act.verb in ("pause", "unpause") and paused != self._deck.paused
        return Undone(act.verb, done, gpus, left, _text(act, done, gpus, left, of_deck=of_deck))

    async def _sorted(self, act: Act, name: str) -> tuple[list[Task], dict[str, str]]:
        """Tasks that are still as they were left, and why others are not touched."""
        could: list[Task] = []
        left: dict[str, str] = {}
        for number, (task_name, before) in enumerate(list(act.tasks.items()), 1):
            task = self._deck.by_name.get(task_name)
            if task is not None and as_left(task, name, before):
                could.append(task)
            else:
                left[task_name] = self._why(act, task_name)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return could, left

    def _mark(self, uuid: str) -> str | None:
        gpu = self._deck.gpus.get(uuid)
        return None if gpu is None else gpu.mark

    def _why(self, act: Act, name: str) -> str:
        """Why a task is not touched."""
        task = self._deck.by_name.get(name)
        if task is None:
            return "it is not in the task file any more"
        moved = isinstance(act.tasks[name], Moved)
        if moved and isinstance(task.phase, ACTIVE):
            return "it has started meanwhile"
        if moved and not task.act and isinstance(task.phase, FINAL):
            return "it has run meanwhile"
        return "it has been changed since"


def _text(act: Act, done: tuple[str, ...], gpus: tuple[int, ...], left: dict[str, str], *, of_deck: bool) -> str:
    """One line: "retry of 3 tasks taken back; not train-3: it has started meanwhile; not 4 tasks: they have …"."""
    parts: list[str] = []
    if done:
        parts.append(f"{act.verb} of {_many(done)} taken back")
    if gpus:
        parts.append(f"{act.verb} of GPU {', '.join(map(str, gpus))} taken back")
    if of_deck:
        parts.append(f"{act.verb} taken back")
    reasons: dict[str, list[str]] = {}
    for name, why in left.items():
        reasons.setdefault(why, []).append(name)
    parts += [f"not {_many(names)}: {why if len(names) == 1 else _of_many(why)}" for why, names in reasons.items()]
    return "; ".join(parts) or "nothing is left to take back"


def _of_many(why: str) -> str:
    """ "they have started meanwhile", of "it has started meanwhile"."""
    return why.replace("it is ", "they are ", 1).replace("it has ", "they have ", 1)


def _many(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names) if len(names) <= _NAMED else f"{len(names)} tasks"
