"""What an engine keeps for the next one beside the journal: the task file as the deck has taken it, with which edits
are compared while no engine runs, and what running attempts were started as, where the file says otherwise by now."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cache

import msgspec

from ..atomic import write_atomic
from ..core import gone
from ..core.deck import Deck
from ..core.gone import Kept
from ..core.recorded import Recorded
from ..core.spec import DeckFile, TaskSpec

_FILE = "taken.toml"
_SPECS = "kept.json"
_DECODER = msgspec.json.Decoder(list[Kept])


def keep_file(state: str, file: DeckFile) -> None:
    """Remember *file* in the state folder. Where that cannot be done nothing is remembered; that of a part of a file
    changes nothing."""
    keep_text(state, file.text.encode())


def keep_text(state: str, content: bytes) -> None:
    """See `keep_file`."""
    path = os.path.join(state, _FILE)
    if not content or kept_file(state) == content:
        return
    try:
        write_atomic(path, content, mode=0o600)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path)


def with_added(kept: bytes, tables: str) -> bytes:
    """The kept file with *tables* at its end, as `add` puts them behind the file."""
    return kept.rstrip(b"\n") + b"\n\n" + tables.encode()


def kept_file(state: str) -> bytes | None:
    """What was taken last; None: nobody knows."""
    try:
        with open(os.path.join(state, _FILE), "rb") as file:
            return file.read()
    except OSError:
        return None


def save_specs(state: str, kept: Sequence[Kept]) -> None:
    """Write what is kept in the state folder, durably; nothing to keep removes the file. Raises OSError."""
    path = os.path.join(state, _SPECS)
    if not kept:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    write_atomic(path, msgspec.json.encode(kept), mode=0o600)


def load_specs(state: str, lasting: Container[str]) -> list[Kept]:
    """What was kept of the attempts with these tokens, which have not ended; none where it cannot be read."""
    try:
        with open(os.path.join(state, _SPECS), "rb") as file:
            kept = _DECODER.decode(file.read())
    except (OSError, msgspec.DecodeError):
        return []
    return [one for one in kept if one.token in lasting]


def keep_begun(state: str, deck: Deck) -> None:
    """Keep, too, what the attempts of a deck just opened were started as where its file now says otherwise: what the
    file was before is not known to the engine after this one. Raises OSError."""
    kept = load_specs(state, deck.active)
    known = {one.token for one in kept}
    more = [
        gone.kept_of(deck, token, task)
        for token, task in deck.active.items()
        if token not in known and (task.gone or task.begun_spec.fingerprint != task.spec.fingerprint)
    ]
    if more:
        save_specs(state, [*kept, *more])


def take_back(
    deck: Deck, kept: Iterable[Kept], told: Recorded, before: Callable[[], Mapping[str, TaskSpec]] = dict
) -> None:
    """Tell a deck, before its facts are replayed, what its attempts were started as; those of tasks that the file no
    longer has run to their end. *before*: tasks by name as the deck took them from its file last, as far as that is
    known."""
    for one in kept:
        gone.take_back(deck, one)
    gone.take_unkept(deck, told, cache(before))
