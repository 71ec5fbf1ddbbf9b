"""Small worlds, exhaustively: two decks of one task each, one GPU, and a few events in every order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations

from gpudeck.engine.core.spec import DeckFile, DeckSettings, Policy, Resources, TaskSpec, Work
from tests.sim.box import Behaviour
from tests.sim.client import Wish
from tests.sim.plan import Plan
from tests.sim.world import World

EVENTS = ("start b", "kill a", "kill b", "fails", "full a", "free a", "start a", "box down")
"""A leader that "fails" is that of the oldest attempt that runs."""


def _deck(name: str) -> DeckFile:
    policy = Policy(retries=1, backoff_s=0.5, grace_s=1.0)
    task = TaskSpec(f"{name}0", name, 0, Work(("true",)), f"fp-{name}", Resources(gpus=1), policy)
    return DeckFile("/tasks.toml", "tasks", DeckSettings(cpu_slots=2), (task,), text=f"{name} as first written")


class SmallWorld(World):
    """Goes through *events*, *pieces* pieces of engines after each; then nothing goes wrong any more."""

    def __init__(self, events: Sequence[str], pieces: int, folder: str) -> None:
        behaviours = {(name, f"{name}0", 1): Behaviour(leaves_s=0.3) for name in "ab"}
        super().__init__(Plan(1, 1, {name: _deck(name) for name in "ab"}, behaviours), folder)
        self._events = events
        self._pieces = pieces
        self.did: list[str] = []
        """The events so far, "" in the place of those that changed nothing: their order is the world."""

    def _begin(self) -> None:
        self.start("a")
        self._go()
        for event in self._events:
            self.box.say(event)
            self.did.append(event if self._happens(event) else "")
            self._go()
        self.elapsed = self.plan.faults_end

    def _go(self) -> None:
        for _ in range(self._pieces):
            if self.engines:
                self._piece()

    def _happens(self, event: str) -> bool:
        """Whether it changed anything."""
        leaders = [process for process in self.box.alive() if process.leader]
        match event.split():
            case ["start", deck] if deck not in self.engines:
                self.start(deck)
            case ["kill", deck] if deck in self.engines:
                self.engines.pop(deck).kill()
            case ["fails"] if leaders:
                self.box.exits(leaders[0], 1)
            case ["full", deck]:
                self.box.disks[deck].full = True
            case ["free", deck] if self.box.disks[deck].full:
                self._free(deck)
            case ["box", "down"]:
                self._go_down()
            case _:
                return False
        return True


class Orders:
    """Every order of some events, but for those that come to the same world as an earlier one: where an event changes
    nothing, it makes no difference which one."""

    def __init__(self, events: Sequence[str], first: str = "") -> None:
        """*first*: an event before them."""
        self._orders = permutations(event for event in events if event != first)
        self._first = (first,) if first else ()
        self._did: dict[tuple[str, ...], str] = {}
        """What the last of some events did after those before."""
        self._went: set[tuple[str, ...]] = set()

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        for order in self._orders:
            if self._foreseen((*self._first, *order)) not in self._went:
                yield (*self._first, *order)

    def _foreseen(self, order: Sequence[str]) -> tuple[str, ...] | None:
        """What the events will do; None: that is not known yet."""
        will: tuple[str, ...] = ()
        for event in order:
            if (did := self._did.get((*will, event))) is None:
                return None
            will = (*will, did)
        return will

    def went(self, order: Sequence[str], did: Sequence[str]) -> None:
        """A world of this order has come to its end."""
        for place, event in enumerate(order):
            self._did[*did[:place], event] = did[place]
        self._went.add(tuple(did))


class RetriedWorld(World):
    """A task fails, and waits for its next try; *after_s* later somebody gives it another value. *applies*: just after
    an edit of it was to be applied."""

    def __init__(self, after_s: float, folder: str, *, applies: bool = False) -> None:
        behaviours = {("a", "a0", attempt): Behaviour(code=1, runs_s=1.0) for attempt in (1, 2)}
        super().__init__(Plan(1, 1, {"a": _deck("a")}, behaviours), folder)
        self._after_s, self._applies = after_s, applies

    def _begin(self) -> None:
        self.start("a")
        if self._applies:
            self.box.after(1.0 + self._after_s, self._apply_edit)
        wish = Wish("retry", {"tasks": ("a0",), "set": {"bs": "2"}})
        self.box.after(1.0 + self._after_s, lambda: self._come("a", [wish], last=True))
        self.elapsed = self.plan.faults_end

    def _apply_edit(self) -> None:
        first, *rest = self.files["a"].tasks
        edited = replace(first, fingerprint=f"{first.fingerprint}'")
        self._save("a", replace(self.files["a"], tasks=(edited, *rest), text="edited"))
        self._come("a", [Wish("apply")], last=True)
