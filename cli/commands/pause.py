"""`gpudeck pause` and `unpause`: whether the deck starts anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...engine.client.place import Place
from ...engine.command import Command
from ...engine.protocol.words import barred_text
from ...engine.text import field_text, plural
from .screen import tell

if TYPE_CHECKING:
    from ...engine.serve.offline import OfflineLook


def run(command: Command) -> int:
    """Do it, and tell how the deck stands then."""
    place = Place.of(command)
    existing = place.attach()
    offline = None
    alone = {"verb": command.verb, "engine": None, "paused": "", "barred": "", "running": 0, "queued": 0}
    if existing is None:
        from ...engine.serve.offline import offline_look

        offline = offline_look(place, quiet=True)
    if offline is not None and command.verb == "pause" and not offline.deck.unfinished:
        idle = "no engine runs this deck and no run is under way: there is nothing to pause"
        tell(command, idle, **alone)
        return 0
    begun = offline is None or offline.has_begun
    if offline is not None and command.verb == "unpause" and not (offline.deck.deck.paused or _goes_on(offline)):
        none = "no run is under way and nothing is paused: `gpudeck start` begins one"
        tell(command, place.hints.completed(none), **alone)
        return 0
    noted = not begun or (command.verb == "pause" and offline is not None and not offline.under_way)
    # What a halt has left goes on as it was: what is new in the file, or edited, is another thing.
    left = offline is not None and begun and command.verb == "unpause" and not offline.deck.unfinished
    purpose = "note" if noted else "resume" if left else "act"
    with existing or place.start(purpose) as connection:
        before = connection.head()
        connection.request(command.verb)
        if existing is None and command.verb == "unpause":
            place.tell_edits(connection)
        head = connection.head()
        pid = connection.hello.pid
    counts = head.counts
    running = f"{plural(counts.running, 'task')} running"
    if head.paused:
        text = f"{field_text(head.deck)} is {field_text(head.paused)}: nothing starts; {running}"
    elif head.barred:
        text = f"{field_text(head.deck)} is not paused, but {field_text(barred_text(head))}; {running}"
    elif head.ended and before.halted:
        text = f"{field_text(head.deck)} has nothing left to start"
    else:
        barred = before.paused or before.halted or existing is None
        how = "starts tasks again" if barred else "was neither paused nor halted"
        text = f"{field_text(head.deck)} {how}; {running}, {counts.queued} queued"
    stands = {"paused": head.paused, "barred": head.barred, "running": counts.running, "queued": counts.queued}
    tell(command, text, verb=command.verb, engine=pid, **stands)
    return 0


def _goes_on(offline: OfflineLook) -> bool:
    """A run is unfinished, or a halt has left some of it."""
    return offline.has_begun and (offline.deck.unfinished or bool(offline.deck.deck.run.halted))
