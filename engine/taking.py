"""A task that is wanted now takes the place of one that can be gone on from, whichever of the user's engines runs that.

The place comes free as any does: what is `next` gets it, before what waits in these decks.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack

import msgspec

from .adapters.claims.names import claims_on
from .client.attach import engines_here
from .client.connection import Connection, Gone
from .core.preempt import Offer, Place, Want, cheapest
from .errors import DeckError
from .protocol.states import YET_TO_START
from .text import duration, names_text

LOOK_S = 1.5
"""What is free, or has just come free in another deck, is had within this time: nobody need be stopped for it."""
PATIENCE_S = 10.0
"""What waits for anything else than GPUs for so long is left to wait."""
_OTHERS_S = 1.0
"""Nobody tells that a GPU of another deck has come free: it is looked at so often. What happens in its own deck the
engine tells at once."""
_LASTING = ("budget", "paused", "halted", "held")
"""What only a user ends."""


def take_places(own: Connection, names: Iterable[str], say: Callable[[str], None], given_up: int | None = None) -> None:
    """Stop what costs least for each of these tasks of the engine at *own*, unless it starts by itself; says which, or
    that there is none. *given_up*: a descriptor that can be read once the user does not want them any more."""
    for name in names:
        try:
            _take_place(own, name, say, given_up)
        except DeckError as error:  # gone, or older: whichever has the task next has it first in line
            say(f"{error}: {name} is first in line")


def _take_place(own: Connection, name: str, say: Callable[[str], None], given_up: int | None) -> None:
    began = since = now = time.monotonic()
    while (state := _state(own, name)) in (*YET_TO_START, "starting"):
        wanted = _want(own, name)
        if wanted is None or wanted.count <= len(wanted.free):
            since = now
            kind, why = _obstacle(own, name)
            patience_s = LOOK_S if kind == "cpu slots" else PATIENCE_S  # nobody is stopped for these
            if state in ("waiting", "blocked") or kind in _LASTING or now > began + patience_s:
                say(f"{name} is first in line, but {why}")
                return
        elif now >= since + LOOK_S and _take(own, name, wanted, say):
            return
        due = since + LOOK_S - now
        if _wait(own, given_up, due if 0 < due < _OTHERS_S else _OTHERS_S):
            return
        now = time.monotonic()


def _wait(own: Connection, given_up: int | None, most_s: float) -> bool:
    """Until the engine tells something. Returns whether the user has given up."""
    fds = [own.fileno()] if given_up is None else [own.fileno(), given_up]
    ready = select.select(fds, (), (), 0 if own.kept else most_s)[0]
    own.drain()
    return given_up in ready


def _state(own: Connection, name: str) -> str:
    row = own.wait_for_picture().by_name().get(name)
    return row.state if row is not None else ""


def _obstacle(own: Connection, name: str) -> tuple[str, str]:
    """Kind and words of the most telling of what keeps it from starting."""
    told = own.request("explain", tasks=[name])[name]
    return (told[0]["kind"], told[0]["text"]) if told else ("", "no other task's GPU would let it start now")


def _want(own: Connection, name: str) -> Want | None:
    return msgspec.convert(own.request("want", tasks=[name])[0], Want | None)


def _take(own: Connection, name: str, wanted: Want, say: Callable[[str], None]) -> bool:
    """Whether that is all that can be done: so many GPUs come free already, or nobody can be asked. Several may do this
    at once: what has been stopped for one is neither stopped again nor counted twice."""
    with ExitStack() as opened:
        first = _offer(own, whole=wanted.whole)
        # What is as urgent would have its place back at once.
        offers = [(own, each) for each in first.places if each.priority < wanted.priority]
        leaving: set[str] = set()
        for engine in map(opened.enter_context, _holders(wanted.gpus)):
            if engine.hello.pid != own.hello.pid:
                other = _offer(engine, whole=True)
                offers += [(engine, each) for each in other.places]
                leaving.update(other.coming)
        # In this order: what is coming no more lies idle by now, unless this deck has taken it, which `_want` tells.
        leaving |= set(wanted.claimed) - claims_on(wanted.claimed, os.environ).keys()
        coming = [*wanted.free, *first.coming, *leaving.intersection(wanted.claimed)]
        short = wanted.count - len([uuid for uuid in coming if uuid in wanted.gpus])
        if short <= 0:
            say(f"enough comes free already, and nobody else is stopped: {name} is first in line")
            return True
        chosen = cheapest([place for _, place in offers], set(wanted.gpus).difference(coming), short)
        if not chosen:
            say(f"{_why_nobody(wanted, first.places, offers)}: {name} is first in line")
            return True
        if _want(own, name) != wanted:
            return False
        stopped = [
            _stop(engine, place, name, say, of="" if engine is own else f" of deck {engine.hello.deck}")
            for engine, place in offers
            if any(place is each for each in chosen)
        ]
    return all(stopped)


def _why_nobody(wanted: Want, own: Sequence[Place], offers: Sequence[tuple[Connection, Place]]) -> str:
    as_urgent = [task for each in own if each.priority >= wanted.priority for task in each.tasks]
    if as_urgent:
        return f"as urgent, and back at once, would be {names_text(as_urgent)}"
    if any(each.gpus.intersection(wanted.gpus) for _, each in offers):
        return "what runs and has a checkpoint to go on from is on too few GPUs"
    return "nothing that runs has a checkpoint to go on from (resume_command, resume_when)"


def _stop(engine: Connection, place: Place, name: str, say: Callable[[str], None], *, of: str) -> bool:
    """False: it has ended, or was stopped for somebody else, in the very moment. Raises Gone where the engine
    is lost: it may have noted it, so nobody else is asked."""
    try:
        taken = engine.request("preempt", tokens=place.tokens, by=name)["tasks"]
    except Gone:
        say(f"the engine{of} is gone: its next one knows whether {names_text(place.tasks)} makes way for {name}")
        raise
    if taken:
        way = "makes way" if len(taken) == 1 else "make way"
        say(f"{names_text(taken)}{of} {way} for {name}: {duration(place.lost_s)} of work to do again")
    return bool(taken)


def _offer(engine: Connection, *, whole: bool) -> Offer:
    """Nothing of an engine that is too old, or just ends."""
    try:
        return msgspec.convert(engine.request("offer", whole=whole), Offer)
    except DeckError:
        return Offer((), ())


def _holders(gpus: Collection[str]) -> list[Connection]:
    """Engines of this user that have some of these GPUs, as their claims tell; simulated ones are each deck's own."""
    pids = {claim.engine for claim in claims_on(gpus, os.environ).values()}
    found = list(engines_here()) if pids else []
    for each in found:
        if each.hello.pid not in pids:
            each.close()
    return [each for each in found if each.hello.pid in pids]
