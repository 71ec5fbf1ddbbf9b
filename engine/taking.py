"""A task that is wanted now takes the place of one that can be gone on from, whichever of the user's engines runs that.

The place comes free as any does: what is `next` gets it, before what waits in these decks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack

import msgspec

from .adapters.claims.names import claims_on
from .client.attach import engines_here
from .client.connection import Connection, Gone
from .core.preempt import Place, Want, cheapest
from .errors import DeckError
from .protocol.states import YET_TO_START
from .text import duration, names_text

LOOK_S = 1.5
"""What is free, or has just come free in another deck, is had within this time: nobody need be stopped for it."""
_TRIES = 5
"""What was chosen may end, or be taken by somebody else, in the very moment."""
_EVERY_S = 0.05


def take_place(
    own: Connection, name: str, say: Callable[[str], None], given_up: Callable[[], bool] = lambda: False
) -> None:
    """Stop what costs least for the task *name* of the engine at *own*, unless it starts by itself; says which, or that
    there is none. *given_up*: the user does not want it any more. Raises Gone where that engine has ended."""
    if not _waits(own, name, LOOK_S) or given_up():
        return
    had: set[str] = set()
    others: list[Connection] = []
    with ExitStack() as opened:
        for _ in range(_TRIES):
            wanted = msgspec.convert(own.request("want", tasks=[name])[0], Want | None)
            if wanted is None:
                if not had and _waits(own, name, 0.0):
                    say(f"{name} cannot start yet, with no GPU either: no task makes way for it")
                return
            count = wanted.count - len(had | set(wanted.free))
            if count <= 0:
                return
            others = others or [opened.enter_context(each) for each in _holders(wanted.gpus)]
            below = (each for each in _offers(own, whole=wanted.whole) if each.priority < wanted.priority)
            offers = [(own, place) for place in below]  # what is more urgent would have its place back at once
            offers += [(each, place) for each in others for place in _offers(each, whole=True)]
            chosen = cheapest([place for _, place in offers], set(wanted.gpus) - had, count)
            if not chosen:
                break
            for place in chosen:
                engine = next(engine for engine, offered in offers if offered is place)
                if _stop(engine, place, name, say, of="" if engine is own else f" of deck {engine.hello.deck}"):
                    had |= place.gpus
    say(f"nothing that runs has a checkpoint to go on from (resume_command, resume_when): {name} is first in line")


def _stop(engine: Connection, place: Place, name: str, say: Callable[[str], None], *, of: str) -> bool:
    """Whether its place comes free. An engine that is lost meanwhile may have noted it: nobody else is asked then."""
    try:
        taken = engine.request("preempt", tokens=place.tokens, by=name)["tasks"]
    except Gone:
        say(f"the engine{of} is gone: its next one knows whether {names_text(place.tasks)} makes way for {name}")
        return True
    if taken:
        way = "makes way" if len(taken) == 1 else "make way"
        say(f"{names_text(taken)}{of} {way} for {name}: {duration(place.lost_s)} of work to do again")
    return bool(taken)


def _waits(own: Connection, name: str, look_s: float) -> bool:
    """Whether it still does when all that is free had the time to be noticed."""
    until = time.monotonic() + look_s
    while any(row.state in YET_TO_START or row.state == "starting" for row in own.rows([name])):
        if time.monotonic() >= until:
            return True
        time.sleep(_EVERY_S)
    return False


def _offers(engine: Connection, *, whole: bool) -> list[Place]:
    """None of an engine that is too old, or just ends."""
    try:
        return msgspec.convert(engine.request("places", whole=whole), list[Place])
    except DeckError:
        return []


def _holders(gpus: Collection[str]) -> list[Connection]:
    """Engines of this user that have some of these GPUs, as their claims tell; simulated ones are each deck's own."""
    pids = {claim.engine for claim in claims_on(gpus, os.environ).values()}
    found = list(engines_here()) if pids else []
    for each in found:
        if each.hello.pid not in pids:
            each.close()
    return [each for each in found if each.hello.pid in pids]
