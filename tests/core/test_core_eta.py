"""When a deck may be over, for whoever shows it."""

from __future__ import annotations

import pytest
from core_world import World, spec, world

from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.instant import Instant
from gpudeck.engine.core.spec import DeckSettings, Halt
from gpudeck.engine.report.status import Times, status_of
from gpudeck.engine.serve.view import DeckView


class StillClock:
    """Of a world."""

    def __init__(self, found: World) -> None:
        self._found = found

    def now(self) -> Instant:
        return Instant(self._found.now, 0.0)


def under_way(halt: Halt | None = None) -> World:
    """`a` runs for another minute, as it says."""
    found = world(spec("a"), spec("bad"), gpus=2, settings=DeckSettings(halt=halt))
    found.give(i.Progressed(found.proc("a").token, 0.5, 60.0))
    return found


def etas(found: World, view: DeckView) -> tuple[float | None, float | None]:
    """Of the head that clients see, and of the status that is printed."""
    now = Instant(found.now, 0.0)
    return view.head().eta_s, status_of(found.deck, Times(0.0, 0.0), now, lambda _name, _number: "").eta_s


def view_of(found: World) -> DeckView:
    return DeckView(found.deck, StillClock(found), file="tasks.toml", infos={})


def test_a_deck_that_is_paused_has_no_end_to_tell() -> None:
    found = under_way()
    found.end("bad")
    view = view_of(found)
    assert etas(found, view) == (pytest.approx(60.0), pytest.approx(60.0))
    found.verb("pause")
    assert etas(found, view) == (None, None)
    found.verb("unpause")
    assert None not in etas(found, view)


def test_a_deck_that_is_halted_has_no_end_to_tell() -> None:
    found = under_way(halt=Halt("soon", 1))
    found.end("bad", 1)
    assert found.deck.run.halted
    assert etas(found, view_of(found)) == (None, None)
