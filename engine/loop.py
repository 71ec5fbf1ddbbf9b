"""One writer: inputs -> core -> journal -> effects -> observers.

State lives here and nowhere else. What a step decided is written first; its effects are released when the write has
returned, while the loop goes on serving. Several steps that wait for the disk share one commit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from .core.apply import apply
from .core.effects import Effect, Launch
from .core.events import AttemptRunning, AttemptSubmitted, Fact, Fate, RunStarted
from .core.inputs import Input, JournalState, SpawnRefused, Tick
from .core.step import Core
from .core.turn import Step, Turn
from .errors import EngineEndingError
from .ports import Alarm, Clock, Journal, JournalBrokenError

_PASSING = (AttemptSubmitted, AttemptRunning)
"""Facts that may reach the disk a moment later: a crash in between loses nothing that cannot be found out again."""


class _Pending(NamedTuple):
    """A step that is being written."""

    step: Step
    awaited: bool
    """False: nothing to wait for, only to keep the order."""


class Loop:
    """Runs a core on asyncio's loop. All methods on the loop's thread."""

    def __init__(
        self,
        core: Core,
        *,
        clock: Clock,
        journal: Journal,
        do: Callable[[Effect], None],
        publish: Callable[[Sequence[Fact]], None],
        alarm: Callable[[asyncio.AbstractEventLoop, Callable[[], None]], Alarm],
    ) -> None:
        """*alarm* makes what wakes the loop at the core's next deadline."""
        self.core = core
        self._clock = clock
        self._journal = journal
        self._do = do
        self._publish = publish
        self._asyncio = asyncio.get_running_loop()
        self._inbox: list[Input] = []
        self.broken = ""
        """Why the journal can never be written again by this process."""
        self._pending: deque[_Pending] = deque()
        self._alarm = alarm(self._asyncio, self._fire)
        self._alarm_at: float | None = None
        self.stopped = False
        """It takes no more turns, and the journal no more facts."""
        self.after_turn: Callable[[], None] = lambda: None
        """Called when a turn is over and nothing waits for the disk."""
        self.behind = False
        """Facts that were published may not be on disk yet; whoever learns that they are sets it back."""
        self.foresee: Callable[[Sequence[Effect]], None] = lambda _: None
        """Told of effects that wait for the disk: what they need can be made meanwhile."""
        self.taps: list[Callable[[Sequence[Fact]], None]] = []
        """Told of facts as soon as they are true, before they are on disk."""

    # -- inputs -------------------------------------------------------------------------------------------------------

    def post(self, item: Input) -> None:
        """Take an input in; it is acted on in the next turn, together with all others that came meanwhile."""
        if not self._inbox and not self.stopped:
            self._asyncio.call_soon(self._turn)
        self._inbox.append(item)

    def begin(self, fact: RunStarted) -> None:
        """Start a run."""
        self._release(self.core.begin(fact))
        self._arm()

    def go_on(
        self, fates: Mapping[str, Fate], *, changed: bool, boot_id: str, restarted: bool, takes: Sequence[str] = ()
    ) -> None:
        """Continue an unfinished run; *takes*: what it takes up from now on."""
        now = self._clock.now()
        step = self.core.go_on(
            fates, changed=changed, boot_id=boot_id, restarted=restarted, at=now.boot_s, wall=now.wall_s, takes=takes
        )
        self._release(step)
        self._arm()
        self.wake()

    def record(self, fact: Fact) -> None:
        """Write and apply a fact that no input leads to."""
        apply(self.core.deck, fact)
        self._release(Step([fact], []))

    def act(self, decide: Callable[[Turn], None]) -> None:
        """Take a turn in which *decide* says what happens, in the place of inputs."""
        now = self._clock.now()
        self._release(self.core.act(decide, at=now.boot_s, wall=now.wall_s))
        self._arm()
        self.wake()

    def wake(self) -> None:
        """Take a turn soon."""
        self.post(Tick())

    async def taken(self) -> None:
        """Returns when what was posted has been acted on, and its facts are on disk if the disk takes them. Raises
        EngineEndingError when the loop was stopped before that was certain."""
        await asyncio.sleep(0)
        if self.stopped:
            raise EngineEndingError("the engine was just ending: look whether this was done, else ask again")
        written: asyncio.Future[None] = self._asyncio.create_future()

        def tell() -> None:
            if not written.done():
                written.set_result(None)

        def done(_: Exception | None) -> None:
            self._asyncio.call_soon_threadsafe(tell)

        self._journal.submit((), durable=True, done=done)
        await written

    def _turn(self) -> None:
        if self.stopped:
            return
        inputs, self._inbox = self._inbox, []
        now = self._clock.now()
        self._release(self.core.step(inputs, at=now.boot_s, wall=now.wall_s))
        self._arm()
        if not self._pending and not self._inbox:
            self.after_turn()

    # -- outputs ------------------------------------------------------------------------------------------------------

    def _release(self, step: Step) -> None:
        """Write a step's facts; its effects follow when they are on disk."""
        if not step.facts:
            self._follow(_Pending(step, awaited=False))
            return
        for tap in self.taps:
            tap(step.facts)
        awaited = not all(isinstance(fact, _PASSING) for fact in step.facts)
        if awaited:
            self._pending.append(_Pending(step, awaited=True))
            self._journal.submit(step.facts, durable=True, done=self._written, keep=True)
            self.foresee(step.effects)
        else:
            self._journal.submit(step.facts, durable=False, keep=True)
            self._follow(_Pending(step, awaited=False))

    def _follow(self, pending: _Pending) -> None:
        """A step that waits for no write of its own keeps its place behind those that do."""
        if self._pending:
            self._pending.append(pending)
        else:
            self._finish(pending.step)

    def _written(self, error: Exception | None) -> None:
        """In the journal's thread."""
        self._asyncio.call_soon_threadsafe(self._committed, error)

    def _committed(self, error: Exception | None) -> None:
        pending = self._pending.popleft()
        if error is None:
            self._finish(pending.step)
        else:
            self._unwritten(pending.step, error)
        while self._pending and not self._pending[0].awaited:
            self._finish(self._pending.popleft().step)
        if not self._pending and not self._inbox:
            self.after_turn()

    def _finish(self, step: Step) -> None:
        """Effects first: a free slot waits for them, observers can wait."""
        for effect in step.effects if not self.stopped else ():
            self._do(effect)
        if step.facts:
            self._publish(step.facts)

    def _unwritten(self, step: Step, error: Exception) -> None:
        """The disk took nothing: no start without its fact; everything else acts at once, its facts follow later."""
        self.behind = True
        if isinstance(error, JournalBrokenError):
            self.broken = f"{error}; start gpudeck again once the disk is sound"
            self.post(JournalState(writable=False, why=self.broken))
        for effect in step.effects:
            if isinstance(effect, Launch):
                self.post(SpawnRefused(effect.token, str(error)))
        rest: list[Effect] = [effect for effect in step.effects if not isinstance(effect, Launch)]
        self._finish(Step(step.facts, rest))

    # -- time ---------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """One alarm, for the core's next deadline."""
        deadline = self.core.deck.next_deadline()
        if deadline != self._alarm_at:
            self._alarm_at = deadline
            self._alarm.set(deadline)

    def _fire(self) -> None:
        self._alarm_at = None
        self.wake()

    def stop(self) -> None:
        """Take no more turns and do nothing more. What is being written is still told to observers; what would follow
        from it, and all that comes in, is left to the next engine, which finds it in the journal and the records."""
        self.stopped = True
        self._alarm.close()
