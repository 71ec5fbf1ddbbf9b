"""Small worlds, exhaustively: two decks of one task each, one GPU, and a few events in every order."""

from __future__ import annotations

from collections.abc import Sequence

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

    def _begin(self) -> None:
        self.start("a")
        self._go()
        for event in self._events:
            self.box.say(event)
            self._happens(event)
            self._go()
        self.elapsed = self.plan.faults_end

    def _go(self) -> None:
        for _ in range(self._pieces):
            if self.engines:
                self._piece()

    def _happens(self, event: str) -> None:
        match event.split():
            case ["start", deck]:
                self.start(deck)
            case ["kill", deck] if deck in self.engines:
                self.engines.pop(deck).kill()
            case ["fails"]:
                if leaders := [process for process in self.box.alive() if process.leader]:
                    self.box.exits(leaders[0], 1)
            case ["full", deck]:
                self.box.disks[deck].full = True
            case ["free", deck]:
                self._free(deck)
            case ["box", "down"]:
                self._go_down()
            case _:  # there is nobody to be killed
                pass


class RetriedWorld(World):
    """A task fails, and waits for its next try; *after_s* later somebody gives it another value."""

    def __init__(self, after_s: float, folder: str) -> None:
        behaviours = {("a", "a0", attempt): Behaviour(code=1, runs_s=1.0) for attempt in (1, 2)}
        super().__init__(Plan(1, 1, {"a": _deck("a")}, behaviours), folder)
        self._after_s = after_s

    def _begin(self) -> None:
        self.start("a")
        wish = Wish("retry", {"tasks": ("a0",), "set": {"bs": "2"}})
        self.box.after(1.0 + self._after_s, lambda: self._come("a", [wish], last=True))
        self.elapsed = self.plan.faults_end
