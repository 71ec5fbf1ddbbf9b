"""`gpudeck pause` and `unpause`: whether the deck starts anything."""

from __future__ import annotations

import msgspec

from ..command import Command
from ..headless.text import field_text, plural
from ..protocol.wire import DeckHead
from .place import Place


def run(command: Command) -> int:
    """Do it, and tell how the deck stands then."""
    place = Place.of(command)
    existing = place.attach()
    if existing is None and command.verb == "pause" and not _unfinished(place):
        print("no engine runs this deck and no run is under way: nothing starts")
        return 0
    with existing or place.start(asks_first=command.verb == "pause") as connection:
        connection.request(command.verb)
        head = msgspec.convert(connection.request("status")["head"], DeckHead)
    running = f"{plural(head.counts.running, 'task')} running"
    if head.paused:
        print(f"{field_text(head.deck)} is {field_text(head.paused)}: nothing starts; {running}")
    else:
        print(f"{field_text(head.deck)} starts tasks again; {running}, {head.counts.queued} queued")
    return 0


def _unfinished(place: Place) -> bool:
    from ..offline.look import offline_look

    return offline_look(place, quiet=True).deck.unfinished
