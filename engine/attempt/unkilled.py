"""Says which processes outlive a KILL: they hang in the kernel, on a server that is gone or in a driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..core.deck import Deck

LATE_S = 10.0
"""So long after KILL a process should be gone, also one that has much memory to give back."""
_NAMED = 5


class Unkilled:
    """Of one engine. All methods on the loop's thread."""

    def __init__(
        self,
        deck: Deck,
        members: Callable[[], Mapping[int, str]],
        say: Callable[[str], None],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """*members*: tokens by pid. *later* makes a call after so many seconds."""
        self._deck = deck
        self._members = members
        self._say = say
        self._later = later
        self._said: set[str] = set()

    def asked(self, token: str, grace_s: float) -> None:
        """An attempt was asked to end, and is killed after this grace."""
        self._later(grace_s + LATE_S, lambda: self._look(token))

    def _look(self, token: str) -> None:
        task = self._deck.active.get(token)
        if task is None or token in self._said:
            return
        pids = sorted(pid for pid, owner in self._members().items() if owner == token)
        if not pids:
            return
        self._said.add(token)
        more = f" and {len(pids) - _NAMED} more" if len(pids) > _NAMED else ""
        named = ", ".join(map(str, pids[:_NAMED]))
        self._say(
            f"{task.name}: KILL does not end pid {named}{more}; its slots stay taken until the kernel lets go of it"
        )
