"""The app as its screens know it: the picture of one deck, what the engine is asked, what the user is told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from textual import work
from textual.app import App
from textual.notifications import Notification
from textual.screen import Screen
from textual.worker import Worker, WorkerCancelled

from ..engine.errors import DeckError
from ..engine.protocol.wire import TaskRow
from .acting import doing
from .acting.actions import BY_ID
from .acting.choice import Choice
from .acting.doing import Doing, OtherValues, Question, Refusal, Request
from .drawing.format import clean
from .logs.source import LogSource
from .model import NO_ENGINE, DeckModel, News
from .settings import Config
from .widgets.deck_header import is_full
from .widgets.values_form import ValuesForm

MOST = 2
"""At a time; the oldest one makes room."""
_SHOWN_S = 4.0


@dataclass(frozen=True, slots=True)
class Toast:
    text: str
    error: bool = False
    kind: str = ""
    """A new one takes the place of the one before of the same kind; "": of the one that says the same."""

    def like(self, other: Toast) -> bool:
        return self.kind == other.kind and (bool(self.kind) or self.text == other.text)


class Toasts:
    """What is said while a question is open waits until that is answered."""

    def __init__(self, show: Callable[[Iterable[Notification]], None]) -> None:
        """*show* makes these, and no others, the ones that are seen."""
        self._show = show
        self._shown: list[tuple[Toast, Notification]] = []
        self._waiting: list[Toast] = []
        self._held = False

    def say(self, toast: Toast) -> None:
        if self._held:
            self._waiting = [*(each for each in self._waiting if not each.like(toast)), toast][-MOST:]
            return
        seen = [each for each in self._shown if not (each[1].has_expired or each[0].like(toast))]
        severity = "error" if toast.error else "information"
        made = Notification(toast.text, severity=severity, timeout=_SHOWN_S, markup=False)
        self._shown = [*seen, (toast, made)][-MOST:]
        self._show([each for _, each in self._shown])

    def hold(self) -> None:
        """A question is open: nothing may lie over its answers."""
        self._held = True
        self._waiting = [toast for toast, made in self._shown if not made.has_expired]
        self._shown = []
        self._show(())

    def release(self) -> None:
        """It has been answered."""
        self._held = False
        waiting, self._waiting = self._waiting, []
        for toast in waiting:
            self.say(toast)


def outcome(done: str, *, note: str, undo_key: str) -> str:
    """What is said when something has been done. *note*: the engine's, whose commands have keys here. *undo_key*: ""
    where it cannot be taken back."""
    for command, action in (("unpause", "pause"), ("apply", "apply")):
        note = note.replace(f"`gpudeck {command}`", BY_ID[action].shown_key)
    return "; ".join(filter(None, (done, note, f"{undo_key} takes it back" if undo_key else "")))


def came_to_nothing(left: Mapping[str, str]) -> str:
    """What is said when nothing became of what was asked for. *left*: why, by task."""
    name, why = next(iter(left.items()))
    others = f"; nothing was done to {len(left) - 1} others either" if len(left) > 1 else ""
    return f"{name} {why}{others}"


def but_not(left: Mapping[str, str]) -> str:
    """The end of what is said when something was done to some tasks only; "" where nothing was left."""
    if not left:
        return ""
    name, why = next(iter(left.items()))
    return f", but not {len(left)} of them: {name} {why}"


_UNDOABLE = "undoable"
"""What can be taken back, and that it was, which makes the first untrue."""
READ_ONLY = "read-only: nothing is changed from this screen"
SOON_S = 0.5
"""So soon it is said that an answer does not come: a key must not seem to be broken."""
PATIENCE_S = 5.0
"""An engine that has not answered by then may be frozen."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds; all that is drawn goes by these."""

    wall: Callable[[], float] = time.time
    """Since the epoch."""
    steady: Callable[[], float] = time.monotonic
    """Of a clock that runs on."""


class Client(Protocol):
    """The line to the engine: see `client.DeckClient`."""

    def news(self) -> AsyncGenerator[News, None]: ...
    async def request(self, op: str, /, **args: Any) -> Any: ...
    def silence(self) -> str: ...
    def reconnect(self) -> None: ...


class TaskList(Protocol):
    """The table of tasks that stays below all other screens."""

    @property
    def order(self) -> Sequence[str]:
        """Names as the table shows them."""
        ...

    def log_source(self, name: str) -> LogSource | None:
        """Where the newest log of a task is, as far as that is known without asking the engine."""
        ...

    def go_to(self, name: str) -> None:
        """The cursor to a task that was looked at elsewhere."""
        ...

    def unmark(self, names: Sequence[str]) -> None:
        """Take the marks of these tasks away."""
        ...


_OF_TASKS: Mapping[str, Callable[[Sequence[TaskRow]], Doing]] = {
    "retry": doing.retry,
    "cancel": doing.cancel,
    "kill": doing.kill,
    "hold": doing.hold,
}
"""What actions of the table do to tasks alone."""
_STEPS = {"raise_priority": 1, "lower_priority": -1}


class DeckApp(App[str]):
    """Does what the user wants of the deck: asks them where it is grave, then the engine, and says what came of it."""

    tasks: TaskList

    def __init__(
        self,
        client: Client,
        config: Config,
        clocks: Clocks,
        completed: Callable[[str], str],
    ) -> None:
        """*completed*: as for `GpudeckApp`."""
        super().__init__()
        self.client = client
        self.deck = DeckModel()
        self.config = config
        self.clocks = clocks
        self._completed = completed
        self._to_show: Sequence[Notification] = ()
        self._toasts = Toasts(self._show_toasts)
        self._acts: list[Worker[None]] = []
        """What was asked for and may not be answered yet: `u` means the last of it."""
        self._ranked: Mapping[str, tuple[int, int]] = {}
        """Of the tasks whose priority was asked for last, what their rows had and what was asked for."""
        self._undo: list[tuple[str, str]] = []
        """What was asked for, newest last: the act, "" where it cannot be taken back, and what was said of it."""

    async def request(self, op: str, *, waits: str = "", **args: Any) -> Any:
        """What the engine answers to a request of the protocol. Raises DeckError. *waits*: what the user waits for, to
        be said where nothing else shows that they do."""
        later = asyncio.get_running_loop().call_later
        timers = [later(PATIENCE_S, lambda: self.tell(self.client.silence(), error=True))]
        if waits:
            text = f"{waits}: the engine has not answered yet"
            soon_s = 0 if self.deck.link.kind == "silent" else SOON_S
            timers.append(later(soon_s, lambda: self.tell(text, kind="unanswered")))
        try:
            return await self.client.request(op, **args)
        finally:
            for timer in timers:
                timer.cancel()
            if not self.is_running:  # nobody is left to tell
                raise asyncio.CancelledError

    async def answer(self, op: str, *, waits: str, **args: Any) -> Any:
        """The same; None: there is no answer, and the user has been told why."""
        try:
            return await self.request(op, waits=waits, **args)
        except DeckError as error:
            self.tell(str(error), error=True)
            return None

    def tell(self, text: str, *, error: bool = False, kind: str = "") -> None:
        """A toast. *kind*: it takes the place of the one before of its kind."""
        self._toasts.say(Toast(self._completed(text), error, kind))

    def _show_toasts(self, toasts: Iterable[Notification]) -> None:
        self._to_show = tuple(toasts)
        self.call_later(self._notify, self.screen)

    async def _notify(self, screen: Screen[Any]) -> None:
        """Those that are to be seen and no others, once for all that was told meanwhile. *screen*: where others are
        seen, also through a question that has been opened over it."""
        self.clear_notifications()
        shown, self._to_show = self._to_show, ()
        for each in shown:
            self.notify(each.message, severity=each.severity, timeout=each.time_left, markup=False)
        if not shown:
            await screen.query("Toast").remove()
            self.screen.refresh()

    def copy(self, text: str, what: str) -> None:
        """To the clipboard of the terminal, through OSC 52 where it takes that."""
        self.copy_to_clipboard(text)
        self.tell(f"{what} copied")

    # -- acts ---------------------------------------------------------------------------------------------------------

    def act(self, action_id: str, names: Sequence[str] = ()) -> None:
        """Do an action of the table for these tasks."""
        own = getattr(self, f"do_{action_id}", None)
        if own is not None:
            own()
        elif not self._act_on(action_id, self.deck.rows_of(names)):
            self.tell(f"{BY_ID[action_id].label}: not here")

    def _act_on(self, action_id: str, rows: Sequence[TaskRow]) -> bool:
        """Do an action of the table for these tasks, or for the deck. False: it is none that the engine does."""
        head = self.deck.head
        if action_id in _OF_TASKS:
            self.do(_OF_TASKS[action_id](rows))
        elif action_id in _STEPS:
            self._rank(rows, _STEPS[action_id])
        elif action_id == "retry_menu":
            simulated, gpus = head is not None and head.simulated, len(self.deck.gpus)
            self.do(doing.retry_menu(list(self.deck.rows.values()), rows, gpus=gpus, simulated=simulated))
        elif action_id == "stop":
            self.do(doing.stop(0 if head is None else head.counts.running))
        elif action_id == "pause":
            self.do(doing.pause(*(("", "") if head is None else (head.paused, head.halted))))
        else:
            return False
        return True

    def _rank(self, rows: Sequence[TaskRow], step: int) -> None:
        what = doing.priority(rows, step, self._ranked)
        if isinstance(what, Request) and not (self.deck.link.read_only or self.deck.link.without_engine):
            self._ranked = {row.name: (row.priority, what.args["value"]) for row in rows}
        self.do(what)

    def do(self, what: Doing) -> None:
        """Ask the engine, after asking the user where that is needed."""
        if self.refuses():
            return
        if self.deck.link.without_engine:
            self.tell(NO_ENGINE, error=True, kind="no engine")
            return
        match what:
            case Refusal(text):
                self.tell(text)
            case Request():
                self._acts = [*self._unanswered(), self._carry_out(what)]
            case Question():
                self._question(what)
            case OtherValues(names, typed):
                self._retry_with(names, typed)

    def refuses(self) -> bool:
        """Nothing is done from a screen that only looks; that is said."""
        read_only = self.deck.link.read_only
        if read_only:
            self.tell(READ_ONLY, kind="read-only")
        return read_only

    def _question(self, what: Question) -> None:
        """One at a time: what is asked for behind it is not what its reader sees."""
        if any(isinstance(screen, Choice) for screen in self.screen_stack):
            return

        def chosen(answer: str | None) -> None:
            self.call_later(self._go_on, what.then(answer or ""))

        self._toasts.hold()
        self.push_screen(Choice(what.title, what.lines, what.answers), chosen)

    def _go_on(self, found: Doing | None) -> None:
        """A question has been answered, and its screen has gone."""
        self._toasts.release()
        if found is not None:
            self.do(found)

    @work
    async def _retry_with(self, names: Sequence[str], typed_before: str) -> None:
        """Have other values typed, show what they make of the tasks, and ask."""
        tasks = await self.answer("show", waits="retry", tasks=list(names[: doing.SHOWN]))
        if not tasks:
            return

        async def read(typed: str) -> Question | Refusal:
            values = doing.values_typed(typed)
            if isinstance(values, Refusal):
                return values
            try:
                told = await self.request("retry", waits="retry", tasks=list(names), dry_run=True, **values)
            except DeckError as error:
                return Refusal(str(error))
            return doing.with_values(names, typed, values, told["given"])

        hint, text = doing.values_hint(tasks), typed_before or f"{doing.values_now(tasks)} ".lstrip()
        found = await self.push_screen_wait(ValuesForm(f"Retry {doing.many(names)} with", hint, text, read))
        self.do(found or Refusal("nothing was done"))

    @work
    async def _carry_out(self, what: Request) -> None:
        """Ask for it, and say what has come of it."""
        full = what.op != "retry" or is_full(self.deck)  # before what is asked for takes a slot itself
        told = await self.answer(what.op, waits=str(what.args.get("verb", what.op)), **what.args)
        if told is not None:
            self._done(what, told, waits=full)

    def _unanswered(self) -> list[Worker[None]]:
        return [act for act in self._acts if not act.is_finished]

    def _done(self, what: Request, told: Mapping[str, Any], *, waits: bool) -> None:
        """*waits*: what was asked for does not begin at once, so that it can be taken back."""
        undo, note = told.get("undo"), clean(told.get("note") or "")
        if undo or what.op in ("cancel", "kill"):
            self._undo.append((undo or "", what.done))
        if what.op == "retry":
            self.tasks.unmark(what.args["tasks"])
        left: dict[str, str] = told.get("left") or {}
        if left and not told.get("tasks"):
            self.tell(came_to_nothing(left))
        elif what.done:
            takes_back = undo and (waits or note)
            key = BY_ID["undo"].shown_key if takes_back else ""
            said = outcome(what.done + but_not(left), note=note, undo_key=key)
            self.tell(said, kind=_UNDOABLE if takes_back else "")

    # -- the task file ------------------------------------------------------------------------------------------------

    def do_apply(self) -> None:
        if self.refuses():
            return
        head = self.deck.head
        if head is not None and head.file_problem:
            self.tell(f"the deck goes on as it was: {clean(head.file_problem)}", error=True)
        else:
            self._plan()

    @work(exclusive=True, group="plan")
    async def _plan(self) -> None:
        """Ask the user with what an apply would do."""
        told = await self.answer("apply", waits="apply", dry_run=True)
        if told is None:
            return
        if not told["changes"]:
            self.tell("the task file has not changed")
        else:
            changed = {kind: bool(told["plan"].get(f"changed_{kind}")) for kind in ("finished", "running")}
            self.do(doing.apply(told["lines"], told["digest"], **changed))

    # -- taking back --------------------------------------------------------------------------------------------------

    def do_undo(self) -> None:
        if not self.refuses():
            before = self._unanswered()
            self._acts = [*before, self._undo_last(before)]

    @work
    async def _undo_last(self, before: Sequence[Worker[None]]) -> None:
        for each in before:
            with suppress(WorkerCancelled):
                await each.wait()
        act, said = self._undo.pop() if self._undo else ("", "")
        told = await self.answer("undo", waits="undo", undo=act) if act else None
        if told is None:
            if not act:
                self.tell(self._stays(said) if said else "nothing to take back")
            return
        self.tell(told["text"], kind=_UNDOABLE)
        left = self.deck.rows_of(told.get("left") or ())
        if told.get("verb") == "retry" and (question := doing.cancel_started(left)) is not None:
            self.do(question)

    def _stays(self, said: str) -> str:
        """*said*: what was done that cannot be taken back."""
        again = BY_ID["undo"].shown_key
        more = f"; {again} once more takes back what came before" if self._undo else ""
        return f"this cannot be taken back: {said}{more}"
