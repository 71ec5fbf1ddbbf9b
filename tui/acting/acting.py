"""Does what the user wants of the deck: asks them where it is grave, then the engine, and says what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ...engine.protocol.wire import TaskRow
from ..drawing.format import clean
from ..drawing.heading import is_full
from ..link.ask import Answer
from ..screens.choice import Choice
from . import doing, doing_deck
from .actions import BY_ID
from .questions import Doing, Question, Refusal, Request
from .toasts import Toasts, but_not, came_to_nothing, outcome

if TYPE_CHECKING:
    from ..app import GpudeckApp

_UNDOABLE = "undoable"
"""What can be taken back, and that it was, which makes the first untrue."""
READ_ONLY = "read-only: nothing is changed from this screen"


class Acting:
    """All on the app's loop."""

    def __init__(self, app: GpudeckApp, toasts: Toasts) -> None:
        self._app = app
        self._toasts = toasts
        self._undo: list[str] = []
        """What the engine calls what was done from here, the newest last."""

    def act(self, action_id: str, rows: Sequence[TaskRow]) -> bool:
        """Do an action of the table for these tasks, or for the deck. False: it is none that the engine does."""
        deck = self._app.deck
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
                self.do(doing_deck.stop(0 if deck.head is None else deck.head.counts.running))
            case "pause":
                self.do(doing_deck.pause(*(("", "") if deck.head is None else (deck.head.paused, deck.head.halted))))
            case "apply":
                self._apply()
            case "undo":
                self._take_back()
            case _:
                return False
        return True

    def do(self, what: Doing) -> None:
        """Ask the engine, after asking the user where that is needed."""
        if self._refused():
            return
        match what:
            case Refusal(text):
                self._app.tell(text)
            case Request(op, args):
                waits = op != "retry" or is_full(self._app.deck)  # before what is asked for takes a slot itself
                self._app.ask(
                    op,
                    lambda answer: self._answered(answer, what, waits=waits),
                    waits=str(args.get("verb", op)),
                    **args,
                )
            case Question():
                self._question(what)

    def _refused(self) -> bool:
        """Nothing is done from a screen that only looks; that is said."""
        read_only = self._app.deck.link.read_only
        if read_only:
            self._app.tell(READ_ONLY, kind="read-only")
        return read_only

    def _question(self, what: Question) -> None:
        """One at a time: what is asked for behind it is not what its reader sees."""
        if any(isinstance(screen, Choice) for screen in self._app.screen_stack):
            return

        def chosen(answer: str | None) -> None:
            self._app.call_later(self._go_on, what.then(answer or ""))

        self._toasts.hold()
        self._app.push_screen(Choice(what.title, what.lines, what.answers), chosen)

    def _go_on(self, found: Doing | None) -> None:
        """A question has been answered, and its screen has gone."""
        self._toasts.release()
        if found is not None:
            self.do(found)

    def _answered(self, answer: Answer, asked: Request, *, waits: bool) -> None:
        """*waits*: what was asked for does not begin at once, so that it can be taken back."""
        if not answer.ok:
            self._app.tell(answer.error, error=True)
            return
        undo = str(_told(answer, "undo"))
        if undo:
            self._undo.append(undo)
        paused = bool(_told(answer, "note"))
        if asked.op == "retry":
            self._app.unmark(asked.args["tasks"])
        left = cast("dict[str, str]", _told(answer, "left") or {})
        if left and not _told(answer, "tasks"):
            self._app.tell(came_to_nothing(left))
        elif asked.done:
            takes_back = undo and (waits or paused)
            until, key = BY_ID["pause"].shown_key, BY_ID["undo"].shown_key
            done = asked.done + but_not(left)
            said = outcome(done, paused_until=until if paused else "", undo_key=key if takes_back else "")
            self._app.tell(said, kind=_UNDOABLE if takes_back else "")

    # -- the task file ------------------------------------------------------------------------------------------------

    def _apply(self) -> None:
        if self._refused():
            return
        head = self._app.deck.head
        if head is not None and head.file_problem:
            self._app.tell(f"the deck goes on as it was: {clean(head.file_problem)}", error=True)
        elif head is None or not head.file_plan:
            self._app.tell("the task file has not changed")
        else:
            self._app.ask("apply", self._planned, topic="plan", waits="apply", dry_run=True)

    def _planned(self, answer: Answer) -> None:
        """What an apply would do has been told."""
        if not answer.ok:
            self._app.tell(answer.error, error=True)
        elif not _told(answer, "changes"):
            self._app.tell("the task file has not changed")
        else:
            plan: Mapping[str, Any] = _told(answer, "plan")
            changed = {kind: bool(plan.get(f"changed_{kind}")) for kind in ("finished", "running")}
            self.do(doing_deck.apply(_told(answer, "lines"), _told(answer, "digest"), **changed))

    # -- taking back --------------------------------------------------------------------------------------------------

    def _take_back(self) -> None:
        if self._refused():
            return
        if self._undo:
            self._app.ask("undo", self._taken_back, waits="undo", undo=self._undo.pop())
        else:
            self._app.tell("nothing to take back")

    def _taken_back(self, answer: Answer) -> None:
        if not answer.ok:
            self._app.tell(answer.error, error=True)
            return
        self._app.tell(str(_told(answer, "text")), kind=_UNDOABLE)
        left = self._app.deck.rows_of(_told(answer, "left") or ())
        if _told(answer, "verb") == "retry" and (question := doing.cancel_started(left)) is not None:
            self.do(question)


def _told(answer: Answer, name: str) -> Any:
    """A field of a result; "" where there is none."""
    found = cast("dict[str, Any]", answer.result) if isinstance(answer.result, dict) else {}
    return found.get(name) or ""
