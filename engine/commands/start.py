"""`gpudeck start`: the deck's engine without a screen."""

from __future__ import annotations

import msgspec

from ..command import Command
from ..headless.text import field_text, plural
from ..protocol.wire import DeckHead
from .place import Place
from .screen import print_json


def run(command: Command) -> int:
    """Start an engine where none runs, and tell how the deck stands; the engine goes on."""
    place = Place.of(command)
    place.refuse_missing(command.file)
    with place.start(quiet=True, change=True) as connection:
        head = msgspec.convert(connection.request("status")["head"], DeckHead)
        pid = connection.hello.pid
    counts = head.counts
    if command.flag("json"):
        print_json({"verb": "start", "engine": pid, "running": counts.running, "queued": counts.queued})
    else:
        print(
            f"engine {pid} runs {field_text(head.deck)}: {plural(counts.running, 'task')} running, "
            f"{counts.queued} queued"
        )
        place.say("`gpudeck` opens its screen, `gpudeck status` looks, `gpudeck stop` ends the engine")
    return 0
