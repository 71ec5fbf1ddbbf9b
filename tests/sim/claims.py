"""Which deck has which GPU, as `adapters.claims` has it: decks gather several, and leave some to one whose task is
next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable


class SimClaims:
    """All claims of a box."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}
        """GPU by UUID: the deck that has it, engine or tree."""
        self.asked: dict[str, frozenset[str]] = {}
        """By deck, GPUs that others are to leave to it."""
        self.left = 0
        """GPUs that were left so far."""
        self._gathered: tuple[str, frozenset[str]] = ("", frozenset())
        """The one deck that keeps idle GPUs, and which."""
        self._emptied: dict[str, str] = {}
        """By deck, the GPU of its own that it fills no more, so that another one gets it."""

    def take(self, deck: str, gpus: Iterable[str]) -> None:
        self.of.update(dict.fromkeys(gpus, deck))

    def others(self, deck: str, gpus: Collection[str], used: Collection[str]) -> dict[str, str]:
        """Which of these *deck* may not have, and whose they are. *used*: one for each of its processes on a GPU."""
        taken = {uuid: whose for uuid in gpus if (whose := self.of.get(uuid, deck)) != deck}
        return {**self._left(deck, gpus, used), **taken}

    def _left(self, deck: str, gpus: Collection[str], used: Collection[str]) -> dict[str, str]:
        by_gpu = {uuid: other for other, asked in self.asked.items() if other != deck for uuid in asked}
        own = Counter(used)
        kept = self.asked.get(deck, frozenset[str]()) | (self._gathered[1] if self._gathered[0] == deck else set())
        wished = sorted(by_gpu.keys() & ({*gpus, *own} - kept))
        left = [uuid for uuid in wished if not own[uuid] and self.of.get(uuid, deck) == deck]
        if wished and not left:
            emptied = self._emptied.get(deck, "")
            left = [emptied if emptied in wished else min(wished, key=lambda uuid: (own[uuid], uuid))]
            self._emptied[deck] = left[0]
        elif not wished:
            self._emptied.pop(deck, None)
        told = {uuid: by_gpu[uuid] for uuid in left if uuid in gpus}
        self.left += len(told)
        return told

    def gather(self, deck: str, gpus: Collection[str], first: Collection[str], used: Collection[str]) -> None:
        """See `ports.Launcher`."""
        if first:
            self.asked[deck] = frozenset(first)
        else:
            self.asked.pop(deck, None)
        if self._gathered[0] in ("", deck):
            self._gathered = (deck, frozenset(gpus)) if gpus else ("", frozenset())
        self.look(deck, used)

    def look(self, deck: str, used: Collection[str]) -> None:
        """As each engine does now and then: keep what it gathers, let go of what it does not need."""
        whose, gathered = self._gathered
        mine = gathered if whose == deck else frozenset[str]()
        asked = {uuid for other, wished in self.asked.items() if other != deck for uuid in wished}
        for uuid in mine - self.of.keys():
            if uuid in self.asked.get(deck, ()) or uuid not in asked:
                self.of[uuid] = deck
        for uuid in [uuid for uuid, has in self.of.items() if has == deck]:
            if uuid not in used and uuid not in mine:
                del self.of[uuid]

    def gone(self, deck: str, used: Collection[str]) -> None:
        """Its engine is: nobody gathers and asks."""
        self.asked.pop(deck, None)
        self._emptied.pop(deck, None)
        if self._gathered[0] == deck:
            self._gathered = ("", frozenset())
        self.look(deck, used)

    def clear(self) -> None:
        """The box has gone down."""
        self.of.clear()
        self.asked.clear()
        self._emptied.clear()
        self._gathered = ("", frozenset())
