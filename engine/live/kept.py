"""What running attempts were started as, where the task file says otherwise by now, for the next engine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence

import msgspec

from ..core.deck import Deck
from ..core.events import AttemptEnded, AttemptStarting, Fact, StartRevoked
from ..core.gone import add_gone
from ..core.reload import Kept

NAME = "kept.json"
_DECODER = msgspec.json.Decoder(list[Kept])


def save(state: str, kept: Sequence[Kept]) -> None:
    """Write what is kept in the state folder, durably; nothing to keep removes the file. Raises OSError."""
    path = os.path.join(state, NAME)
    if not kept:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    temporary = f"{path}~"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(msgspec.json.encode(kept))
        file.flush()
        os.fsync(fd)
    os.replace(temporary, path)


def load(state: str, facts: Iterable[Fact]) -> list[Kept]:
    """What was kept of attempts that have not ended as far as the journal knows; none where it cannot be read."""
    try:
        with open(os.path.join(state, NAME), "rb") as file:
            kept = _DECODER.decode(file.read())
    except (OSError, msgspec.DecodeError):
        return []
    lasting = _lasting(facts)
    return [one for one in kept if one.token in lasting]


def _lasting(facts: Iterable[Fact]) -> set[str]:
    tokens: dict[tuple[str, int], str] = {}
    for fact in facts:
        if isinstance(fact, AttemptStarting):
            tokens[fact.task, fact.attempt] = fact.token
        elif isinstance(fact, (AttemptEnded, StartRevoked)):
            tokens.pop((fact.task, fact.attempt), None)
    return set(tokens.values())


def take_back(deck: Deck, kept: Iterable[Kept]) -> None:
    """Tell a deck, before its facts are replayed, what its attempts were started as."""
    for one in kept:
        if one.spec.name in deck.by_name:
            deck.begun[one.token] = one.spec
        elif one.gone:
            add_gone(deck, one.spec, one.twins)


def gone_names(kept: Iterable[Kept]) -> frozenset[str]:
    """Tasks that are gone from the file by the user's consent and still run."""
    return frozenset(one.spec.name for one in kept if one.gone)
