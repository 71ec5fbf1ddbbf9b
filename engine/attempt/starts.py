"""Starts attempts: what touches the user's file systems first, on the loop only where it cannot hang."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..core.deck import Deck, Task
from ..core.effects import Launch
from ..core.inputs import JournalState, LeaderExited, Spawned, SpawnRefused, TreeGone
from ..errors import may_pass
from ..logs.files import NumberTakenError
from ..ports import LOOK_TIMEOUT_S, Aside, Launcher, Sink, SpawnRefusedError
from ..snapshot.code_versions import Code
from .orders import Made, Orders


@dataclass(frozen=True, slots=True)
class Started:
    """A wrapper that exists, or that a cluster was asked for."""

    task: Task
    token: str
    made: Made


class Starts:
    """Carries `Launch` out; the answer comes back as an input. All methods on the loop's thread."""

    def __init__(
        self,
        deck: Deck,
        launcher: Launcher,
        orders: Orders,
        post: Sink,
        aside: Aside,
        *,
        now: Callable[[], float],
        pid_ns: int,
        logs_may_hang: bool,
        started: Callable[[Started], None],
        code: Code | None = None,
    ) -> None:
        """*started* is told of a wrapper before the core is. *code*: where tasks run copies of theirs."""
        self._deck = deck
        self._launcher = launcher
        self._orders = orders
        self._post = post
        self._aside = aside
        self._now = now
        self._pid_ns = pid_ns
        self._logs_may_hang = logs_may_hang
        self._started = started
        self._code = code
        self._made: dict[str, Made | OSError] = {}
        self._preparing: set[str] = set()
        self.guard: Callable[[], str] = lambda: ""
        """Why no process may be started any more; "" while one may."""

    def prepare(self, effect: Launch) -> None:
        """Make what a start needs while its fact is being written, where that cannot hang."""
        task = self._deck.by_name[effect.task]
        if self._has_code(task) and not self._may_hang(task, effect):
            self._made[effect.token] = self._make(task, effect)

    def launch(self, effect: Launch) -> None:
        """Start. Outputs and patterns of the user's are looked at in a thread first, since they may lie on a server
        that is gone; a task without any starts at once."""
        task = self._deck.by_name[effect.task]
        made = self._made.pop(effect.token, None)
        if made is not None:
            self._start(task, effect, self._claimed(effect, made))
        elif self._code is not None and not self._has_code(task):
            self._await_code(self._code, task, effect)
        elif not self._may_hang(task, effect):
            self._start(task, effect, self._claimed(effect, self._make(task, effect)))
        else:
            self._make_aside(task, effect)

    def _has_code(self, task: Task) -> bool:
        return self._code is None or self._code.ready(task)

    def _await_code(self, code: Code, task: Task, effect: Launch) -> None:
        self._preparing.add(effect.token)

        def done(why: str) -> None:
            if effect.token not in self._preparing:
                return
            self._preparing.discard(effect.token)
            if why:
                self._post(SpawnRefused(effect.token, why))
            else:
                self._make_aside(task, effect)

        code.when_ready(task, done)

    def _make_aside(self, task: Task, effect: Launch) -> None:
        self._preparing.add(effect.token)

        def done(made: Made | OSError | None) -> None:
            if effect.token not in self._preparing:
                return
            self._preparing.discard(effect.token)
            if made is None:
                why = "its folders cannot be looked at: the file system does not answer"
                self._post(SpawnRefused(effect.token, why))
            else:
                self._start(task, effect, made)

        self._aside.submit(lambda: self._claimed(effect, self._make(task, effect)), done, timeout_s=LOOK_TIMEOUT_S)

    def _may_hang(self, task: Task, effect: Launch) -> bool:
        spec = task.begun_spec
        return bool(self._logs_may_hang or spec.outputs or (effect.may_resume and spec.resume))

    def drop(self, token: str) -> None:
        """Forget what was prepared."""
        self._made.pop(token, None)

    def withdraw(self, token: str) -> bool:
        """Whether an attempt was to be stopped before it had begun: then it never begins."""
        if token not in self._preparing:
            return False
        self._preparing.discard(token)
        self._post(SpawnRefused(token, "stopped before it began"))
        return True

    def _make(self, task: Task, effect: Launch) -> Made | OSError:
        try:
            made = self._orders.make(task, effect)
            self._orders.make_folder(made)
        except OSError as error:
            return error
        return made

    def _claimed(self, effect: Launch, made: Made | OSError) -> Made | OSError:
        """Its fact is on disk: the number of its logs is claimed."""
        if isinstance(made, Made):
            try:
                self._orders.claim(made, again=effect.again)
            except OSError as error:
                return error
        return made

    def _start(self, task: Task, effect: Launch, made: Made | OSError) -> None:
        barred = self.guard()
        if barred:
            self._post(JournalState(writable=False, why=barred))
            self._post(SpawnRefused(effect.token, barred))
            return
        if isinstance(made, OSError):
            self._unprepared(effect.token, made)
            return
        try:
            leader = self._launcher.start(made.order)
        except SpawnRefusedError as error:
            self._post(SpawnRefused(effect.token, str(error), error.claimed))
            return
        self._started(Started(task, effect.token, made))
        if leader is not None:
            pid, start_ticks = leader
            self._post(Spawned(effect.token, pid, start_ticks, self._pid_ns))

    def _unprepared(self, token: str, error: OSError) -> None:
        """What it needs cannot be had: a full disk passes, a file in the place of its log folder does not."""
        words = _words(error)
        if isinstance(error, NumberTakenError):
            self._post(SpawnRefused(token, words, taken=error.highest))
            return
        if may_pass(error):
            self._post(SpawnRefused(token, words))
            return
        now = self._now()
        self._post(LeaderExited(token, None, now, spawn_error=f"it cannot be prepared: {words}"))
        self._post(TreeGone(token, now))


def _words(error: Exception) -> str:
    """An error of the system without its number: "logs/a: No space left on device"."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
