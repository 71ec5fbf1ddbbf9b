"""The app as its screens know it: the picture of one deck, what the engine is asked, what the user is told."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from textual.app import App
from textual.notifications import Notification
from textual.screen import Screen

from ..engine.protocol.wire import TaskRow
from .acting import doing
from .acting.actions import BY_ID
from .acting.choice import Choice
from .acting.doing import Doing, Question, Refusal, Request
from .acting.toasts import Toast, Toasts, but_not, came_to_nothing, outcome
from .drawing.format import clean
from .link.ask import Answer, Asker, Deliver, Unanswered
from .logs.source import LogSource
from .model import DeckModel
from .settings.config import Config
from .widgets.heading import is_full

_UNDOABLE = "undoable"
"""What can be taken back, and that it was, which makes the first untrue."""
READ_ONLY = "read-only: nothing is changed from this screen"


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds; all that is drawn goes by these."""

    wall: Callable[[], float] = time.time
    """Since the epoch."""
    steady: Callable[[], float] = time.monotonic
    """Of a clock that runs on."""


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


class DeckApp(App[str]):
    """Does what the user wants of the deck: asks them where it is grave, then the engine, and says what came of it."""

    tasks: TaskList

    def __init__(
        self,
        asker: Callable[[Deliver], Asker],
        config: Config,
        clocks: Clocks,
        completed: Callable[[str], str],
    ) -> None:
        """*asker*, *completed*: as for `GpudeckApp`."""
        super().__init__()
        self.deck = DeckModel()
        self.config = config
        self.clocks = clocks
        self._new_asker = asker
        self._asker: Asker | None = None
        self._loop_of_app: asyncio.AbstractEventLoop | None = None
        self._context_of_app = contextvars.copy_context()
        self._completed = completed
        self._to_show: Sequence[Notification] = ()
        self._toasts = Toasts(self._show_toasts)
        self._unanswered = Unanswered(lambda text: self.tell(text, kind="unanswered"))
        self._undo: list[str] = []
        """What the engine calls what was done from here, the newest last."""

    def begin_asking(self) -> None:
        """From now on questions are answered, on the loop that runs."""
        self._loop_of_app = asyncio.get_running_loop()
        self._context_of_app = contextvars.copy_context()  # calls may open screens
        self._asker = self._new_asker(self.deliver)
        self._asker.silent = lambda text: self.tell(text, error=True)

    def deliver(self, call: Callable[[], object]) -> None:
        """Have it done on the app's loop, from any thread."""
        if self._loop_of_app is not None and not self._loop_of_app.is_closed():
            self._loop_of_app.call_soon_threadsafe(call, context=self._context_of_app)

    def on_unmount(self) -> None:
        if self._asker is not None:
            self._asker.close()

    def ask(self, op: str, then: Callable[[Answer], None], *, topic: str = "", waits: str = "", **args: Any) -> None:
        """A request of the protocol; *then* gets the answer, on this loop. *waits*: what the user waits for, to be said
        where nothing else shows that they do."""
        if waits:
            then = self._unanswered.told(waits, then, topic=topic, silent=self.deck.link.kind == "silent")
        if self._asker is not None:
            self._asker.ask(op, then, topic=topic, **args)

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
        deck = self.deck
        match action_id:
            case "retry":
                self.do(doing.retry(rows))
            case "retry_menu":
                simulated = deck.head is not None and deck.head.simulated
                self.do(doing.retry_menu(list(deck.rows.values()), rows, simulated=simulated))
            case "cancel":
                self.do(doing.cancel(rows))
            case "kill":
                self.do(doing.kill(rows))
            case "hold":
                self.do(doing.hold(rows))
            case "raise_priority":
                self.do(doing.priority(rows, 1))
            case "lower_priority":
                self.do(doing.priority(rows, -1))
            case "stop":
                self.do(doing.stop(0 if deck.head is None else deck.head.counts.running))
            case "pause":
                self.do(doing.pause(*(("", "") if deck.head is None else (deck.head.paused, deck.head.halted))))
            case "apply":
                self._apply()
            case "undo":
                self._take_back()
            case _:
                return False
        return True

    def do(self, what: Doing) -> None:
        """Ask the engine, after asking the user where that is needed."""
        if self._refuses():
            return
        match what:
            case Refusal(text):
                self.tell(text)
            case Request(op, args):
                waits = op != "retry" or is_full(self.deck)  # before what is asked for takes a slot itself
                self.ask(
                    op,
                    lambda answer: self._answered(answer, what, waits=waits),
                    waits=str(args.get("verb", op)),
                    **args,
                )
            case Question():
                self._question(what)

    def _refuses(self) -> bool:
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

    def _answered(self, answer: Answer, asked: Request, *, waits: bool) -> None:
        """*waits*: what was asked for does not begin at once, so that it can be taken back."""
        if not answer.ok:
            self.tell(answer.error, error=True)
            return
        undo = str(_told(answer, "undo"))
        if undo:
            self._undo.append(undo)
        paused = bool(_told(answer, "note"))
        if asked.op == "retry":
            self.tasks.unmark(asked.args["tasks"])
        left = cast("dict[str, str]", _told(answer, "left") or {})
        if left and not _told(answer, "tasks"):
            self.tell(came_to_nothing(left))
        elif asked.done:
            takes_back = undo and (waits or paused)
            until, key = BY_ID["pause"].shown_key, BY_ID["undo"].shown_key
            done = asked.done + but_not(left)
            said = outcome(done, paused_until=until if paused else "", undo_key=key if takes_back else "")
            self.tell(said, kind=_UNDOABLE if takes_back else "")

    # -- the task file ------------------------------------------------------------------------------------------------

    def _apply(self) -> None:
        if self._refuses():
            return
        head = self.deck.head
        if head is not None and head.file_problem:
            self.tell(f"the deck goes on as it was: {clean(head.file_problem)}", error=True)
        elif head is None or not head.file_plan:
            self.tell("the task file has not changed")
        else:
            self.ask("apply", self._planned, topic="plan", waits="apply", dry_run=True)

    def _planned(self, answer: Answer) -> None:
        """What an apply would do has been told."""
        if not answer.ok:
            self.tell(answer.error, error=True)
        elif not _told(answer, "changes"):
            self.tell("the task file has not changed")
        else:
            plan: Mapping[str, Any] = _told(answer, "plan")
            changed = {kind: bool(plan.get(f"changed_{kind}")) for kind in ("finished", "running")}
            self.do(doing.apply(_told(answer, "lines"), _told(answer, "digest"), **changed))

    # -- taking back --------------------------------------------------------------------------------------------------

    def _take_back(self) -> None:
        if self._refuses():
            return
        if self._undo:
            self.ask("undo", self._taken_back, waits="undo", undo=self._undo.pop())
        else:
            self.tell("nothing to take back")

    def _taken_back(self, answer: Answer) -> None:
        if not answer.ok:
            self.tell(answer.error, error=True)
            return
        self.tell(str(_told(answer, "text")), kind=_UNDOABLE)
        left = self.deck.rows_of(_told(answer, "left") or ())
        if _told(answer, "verb") == "retry" and (question := doing.cancel_started(left)) is not None:
            self.do(question)


def _told(answer: Answer, name: str) -> Any:
    """A field of a result; "" where there is none."""
    found = cast("dict[str, Any]", answer.result) if isinstance(answer.result, dict) else {}
    return found.get(name) or ""
