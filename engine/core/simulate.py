"""A deck run against a simulated clock: what would run where and when. The same core, without processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from .deck import Deck, Task
from .effects import CheckDone, Effect, Examine, Launch
from .events import Fate, Outcome, RunStarted
from .inputs import DoneChecked, Examined, Input, LeaderExited, Spawned, Tick, TreeGone
from .phases import Starting
from .step import Core, Step


@dataclass(frozen=True, slots=True)
class Planned:
    """One attempt of the plan. Seconds from when it is made."""

    task: str
    gpus: tuple[str, ...]
    start_s: float
    end_s: float
    guessed: bool
    """Its length is not known; the end is a guess."""
    ahead: bool = False
    """It runs already."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """An attempt that is under way when the simulation begins."""

    task: Task
    token: str
    left_s: float | None
    """None: not known."""
    ended: Outcome | None = None
    """It has ended like this, and the deck has not seen it."""


def simulate(
    deck: Deck,
    length_s: Callable[[Task], float | None],
    *,
    takes: tuple[str, ...] = ("failed", "changed", "stale"),
    done: Callable[[Task], bool] = lambda _: False,
    guess_s: float = 3600.0,
    memory_mib: int | None = None,
    wall: float = 0.0,
    at: float = 0.0,
    ahead: Sequence[Ahead] = (),
    goes_on: bool = False,
    restarted: bool = False,
) -> list[Planned]:
    """Run a deck to its end as if every attempt succeeded after `length_s(task)` seconds (None: *guess_s*).

    GPUs are taken as if nobody else used them. *memory_mib*: what the host has to give; None: enough. *wall*: seconds
    since the epoch at its start, *at*: of this boot; what the simulation does is newer than what the journal tells of
    earlier. *ahead*: what runs already. *goes_on*: the deck's last run goes on, in place of a new one; *restarted*:
    nothing that it had begun runs any more, as after a restart of the box. Uses the deck up. Returns the tasks in the
    order of their starts; a task missing from it would never start.
    """
    enough = sum(task.begun_spec.resources.memory_mib or 0 for task in deck.tasks)
    deck.memory_mib = deck.memory_most_mib = enough if memory_mib is None else memory_mib
    deck.disk_free_mib = deck.settings.disk_mib
    for gpu in deck.gpus.values():
        gpu.unread = False
    return _Simulation(deck, length_s, done, guess_s, at, wall).run(takes, ahead, goes_on=goes_on, restarted=restarted)


class _Simulation:
    def __init__(
        self,
        deck: Deck,
        length_s: Callable[[Task], float | None],
        done: Callable[[Task], bool],
        guess_s: float,
        at: float,
        wall: float,
    ) -> None:
        self.core = Core(deck)
        self.deck = deck
        self.length_s = length_s
        self.done = done
        self.guess_s = guess_s
        self.begun = self.now = at
        self.wall = wall
        self.ended: dict[str, Outcome] = {}
        self.ends: list[tuple[float, int, str]] = []
        self.inbox: list[Input] = []
        self.planned: list[Planned] = []

    def run(self, takes: tuple[str, ...], ahead: Sequence[Ahead], *, goes_on: bool, restarted: bool) -> list[Planned]:
        for each in ahead:
            attempt = each.task.attempt()
            if each.ended is not None:
                self.ended[each.token] = each.ended
                self._ends(each.token, each.ended.exit_code)
            else:
                self._runs(each.task, each.token, () if attempt is None else attempt.gpus, each.left_s, ahead=True)
        if goes_on:
            fates: dict[str, Fate] = {each.token: "ended" if each.ended else "adopted" for each in ahead}
            self._work(
                self.core.go_on(
                    fates, changed=True, boot_id="", restarted=restarted, at=self.now, wall=self.wall, takes=takes
                )
            )
        else:
            self._work(self.core.begin(RunStarted(self.deck.run.number + 1, "plan", self.now, self.wall, takes=takes)))
        while not self.deck.run.ended:
            if not self.inbox and not self._advance():
                break
            inputs, self.inbox = self.inbox, []
            self._work(self.core.step(inputs, at=self.now, wall=self.wall + self.now - self.begun))
        return self.planned

    def _advance(self) -> bool:
        """Move the clock to the next end or deadline. False: nothing will ever happen again."""
        deadline = self.deck.next_deadline()
        if self.ends and (deadline is None or self.ends[0][0] <= deadline):
            self.now, _, token = heappop(self.ends)
            self._ends(token, 0)
        elif deadline is not None:
            self.now = max(self.now, deadline)
            self.inbox.append(Tick())
        else:
            return False
        return True

    def _ends(self, token: str, code: int | None) -> None:
        self.inbox += [LeaderExited(token, code, self.now), TreeGone(token, self.now)]

    def _work(self, step: Step) -> None:
        for effect in step.effects:
            self._effect(effect)

    def _within_timeout(self, task: Task, length_s: float) -> float:
        """A plan is of attempts that succeed: none lasts as long as its timeout."""
        timeout_s = task.begun_policy.timeout_s
        return length_s if timeout_s is None else min(length_s, timeout_s * (1 - 1e-6))

    def _runs(self, task: Task, token: str, gpus: tuple[str, ...], known: float | None, *, ahead: bool = False) -> None:
        length = self._within_timeout(task, self.guess_s if known is None else known)
        since = self.now - self.begun
        self.planned.append(Planned(task.name, gpus, since, since + length, known is None, ahead))
        heappush(self.ends, (self.now + length, task.index, token))
        if not ahead or isinstance(task.phase, Starting):
            self.inbox.append(Spawned(token, 0, 0))

    def _effect(self, effect: Effect) -> None:
        match effect:
            case Launch():
                task = self.deck.by_name[effect.task]
                self._runs(task, effect.token, effect.gpus, self.length_s(task))
            case Examine():
                self.inbox.append(Examined(effect.token, self.ended.get(effect.token, Outcome("ok", 0))))
            case CheckDone():
                for name in effect.tasks:
                    done = self.done(self.deck.by_name[name])
                    self.inbox.append(DoneChecked(name, done))
            case _:
                pass
