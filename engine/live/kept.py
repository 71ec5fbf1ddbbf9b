"""What running attempts were started as, where the task file says otherwise by now, for the next engine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

import msgspec

from ..atomic import write_atomic
from ..core.deck import Deck, Task
from ..core.gone import add_gone, add_unfiled
from ..core.recorded import Recorded
from ..core.reload import Kept
from ..core.spec import TaskSpec

NAME = "kept.json"
_DECODER = msgspec.json.Decoder(list[Kept])


def save(state: str, kept: Sequence[Kept]) -> None:
    """Write what is kept in the state folder, durably; nothing to keep removes the file. Raises OSError."""
    path = os.path.join(state, NAME)
    if not kept:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    write_atomic(path, msgspec.json.encode(kept), mode=0o600)


def load(state: str, lasting: Container[str]) -> list[Kept]:
    """What was kept of the attempts with these tokens, which have not ended; none where it cannot be read."""
    try:
        with open(os.path.join(state, NAME), "rb") as file:
            kept = _DECODER.decode(file.read())
    except (OSError, msgspec.DecodeError):
        return []
    return [one for one in kept if one.token in lasting]


def keep_gone(state: str, deck: Deck) -> None:
    """Keep, too, what the tasks of a deck just opened were that its file no longer has: what the file was before is
    not known to the engine after this one. Raises OSError."""
    gone = [(token, task) for token, task in deck.active.items() if task.gone]
    kept = load(state, deck.active)
    known = {one.token for one in kept}
    more = [
        Kept(token, task.spec, gone=True, twins=tuple(_waiting_for(deck, task)))
        for token, task in gone
        if token not in known
    ]
    if more:
        save(state, [*kept, *more])


def _waiting_for(deck: Deck, task: Task) -> Iterable[str]:
    return (deck.tasks[index].name for gate in task.feeds for index in gate.dependents)


def take_back(
    deck: Deck, kept: Iterable[Kept], told: Recorded, before: Callable[[], Mapping[str, TaskSpec]] = dict
) -> None:
    """Tell a deck, before its facts are replayed, what its attempts were started as; those of tasks that the file no
    longer has run to their end. *before*: see `add_unfiled`."""
    for one in kept:
        if one.spec.name in deck.by_name:
            deck.begun[one.token] = one.spec
        elif one.gone:
            add_gone(deck, one.spec, one.twins)
    add_unfiled(deck, told, before)
