"""When the deck may be over, kept at hand: worked out beside the loop, and no oftener than it is worth."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..core.deck import Deck
from ..core.forecast import Forecast, forecast, stands_still

_EVERY_S = 10.0
"""How often it is worked out anew while no task moves: what tasks say of themselves changes."""
_AT_MOST_EVERY_S = 1.0
_SHARE = 50.0
"""Of the time, at most a fiftieth goes into it."""

Submit = Callable[[float, Callable[[], Forecast], Callable[[Forecast | None], None]], None]


class Forecasts:
    """The newest forecast of a deck. On the loop's thread."""

    def __init__(
        self,
        deck: Deck,
        now_s: Callable[[], float],
        submit: Submit | None = None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """*now_s*: CLOCK_BOOTTIME. *submit* waits for seconds, does its second away from the loop and gives what
        came of it to its third; None: it is done here, whenever something has changed. *close* ends that."""
        self._deck = deck
        self._now_s = now_s
        self._submit = submit
        self.close = close
        self._known = Forecast(None)
        self._known_at = self._due_at = -1e9
        self._of: object = None
        self._under_way = False

    def newest(self) -> Forecast:
        """As far as it is known now."""
        if stands_still(self._deck):
            self._of = None
            return Forecast(None)
        self.renew()
        known = self._known
        if known.left_s is None:
            return known
        return Forecast(max(0.0, known.left_s - (self._now_s() - self._known_at)), known.unmeasured)

    def renew(self) -> None:
        """Something may have changed: let it be worked out, so that whoever looks next finds it."""
        now = self._now_s()
        if self._under_way or (self._of == self._counted() and now - self._known_at < _EVERY_S):
            return
        if self._submit is None:
            self._done(self._work())
        else:
            self._under_way = True
            self._submit(max(0.0, self._due_at - now), self._work, self._done)

    def _counted(self) -> object:
        deck = self._deck
        return deck.run.number, deck.run.settled, {kind: number for kind, number in deck.counts.items() if number}

    def _work(self) -> Forecast:
        self._of, self._known_at = self._counted(), self._now_s()
        began = time.monotonic()
        found = forecast(self._deck, self._known_at)
        self._due_at = self._known_at + max(_AT_MOST_EVERY_S, (time.monotonic() - began) * _SHARE)
        return found

    def _done(self, found: Forecast | None) -> None:
        self._under_way = False
        if found is not None:
            self._known = found
        self.renew()
